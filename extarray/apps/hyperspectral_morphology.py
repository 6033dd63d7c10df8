"""Endmembers by spectra and neighbourhoods together: AMEE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray import ArgumentError
from extarray.apps.hyperspectral_blocks import Block, Floats, Spectra, as_spectra, batches
from extarray.apps.hyperspectral_endmembers import Endmembers, purest

__all__ = ["Eccentric", "amee"]

#: Bytes of a block with the rows around it that its pixels need.
_LARGE = 24 * 2**20


@dataclass
class Eccentric(Endmembers):
    """Endmembers of `amee`.

    Attributes
    ----------
    scores : ndarray, (rows, columns)
        The morphological eccentricity index, in radians; 0 where a pixel was nowhere the purest.
    """

    scores: Floats


def amee(
    a: Any,
    p: int,
    kernels: Sequence[int] = (3, 5, 7),
    *,
    min_angle: float = 0.0,
    band_axis: int = -1,
    comm: Any = None,
    max_memory: int | str | None = None,
) -> Eccentric:
    """Find endmembers by automated morphological endmember extraction (AMEE).

    Plaza et al. (2002): in a window around each pixel, extended dilation finds the purest spectrum,
    whose mean spectral angle to its own neighbours is greatest, and extended erosion the most mixed
    one, where it is least.  The angle between the two is the eccentricity of the purest; of all
    windows that find it, in kernels that grow, the greatest counts.

    Parameters
    ----------
    a : ExtArray or array
        Scene of three axes.
    p : int
        Number of endmembers.
    kernels : sequence of int
        Sides of the square windows, odd and growing.  At the border they are cut off.
    min_angle : float
        In radians: a pixel is no endmember if its spectral angle to one with a greater index is
        less.
    band_axis : int
        The axis of the bands.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work; see `pct`.  They read the rows around their zones as well.
    max_memory : int or str, optional
        Bytes of temporary memory a rank.

    Returns
    -------
    Eccentric
        The endmembers by falling index; of equal ones, the first pixels.

    Raises
    ------
    ArgumentError
        The kernels are not odd and growing, or fewer than p pixels are far enough from each other.

    Examples
    --------
    >>> import numpy as np
    >>> from extarray.apps import hyperspectral
    >>> scene = np.ones((12, 12, 4)) + np.arange(12)[:, None, None] * 1e-3
    >>> scene[3, 8] = [5, 1, 1, 1]
    >>> hyperspectral.amee(scene, 1).positions.tolist()
    [[3, 8]]
    """
    sides = list(kernels)
    if not sides or any(k < 3 or k % 2 == 0 for k in sides) or sides != sorted(set(sides)):
        raise ArgumentError(
            f"kernels are odd sides from 3 that grow, such as (3, 5, 7), not {kernels}"
        )
    radii = [k // 2 for k in sides]
    whole = as_spectra(a, band_axis, comm, max_memory)
    if not 1 <= p <= whole.pixels:
        raise ArgumentError(f"the number of endmembers must be from 1 to {whole.pixels}, not {p}")
    box_bytes = min(_LARGE, whole.memory // 8)
    spectra = Spectra(
        whole.array,
        whole.band_axis,
        whole.comm,
        whole.memory,
        _block_bytes(whole, box_bytes, 3 * radii[-1]),
        5 * box_bytes,  # as read, as float64, of length 1, and what is small for each pixel
    )
    scores = spectra.image(lambda block: _eccentricity(spectra, block, radii), None)
    pixels = purest(spectra, scores, p, min_angle)
    return Eccentric(spectra.at(pixels), spectra.positions(pixels), np.asarray(scores))


def _block_bytes(spectra: Spectra, box_bytes: int, halo: int) -> int:
    """Return the size of blocks that fit into a box together with the pixels around them."""
    pixel: int = 8 * spectra.bands
    fits = box_bytes // pixel
    high = fits // spectra.columns - 2 * halo
    if high >= 1:
        return high * spectra.columns * pixel
    return max(1, fits // (1 + 2 * halo) - 2 * halo) * pixel


def _eccentricity(spectra: Spectra, block: Block, radii: Sequence[int]) -> Floats:
    """Return the index of each pixel of a block.

    A pixel is judged by windows around pixels up to a radius away; these look at distances of
    pixels a radius farther, which are to those another radius farther.
    """
    halo = 3 * radii[-1]
    rows, above = _widened(block.rows, halo, spectra.rows)
    columns, before = _widened(block.columns, halo, spectra.columns)
    box = spectra.box(rows, columns)
    lengths = np.linalg.norm(box, axis=2, keepdims=True)
    unit = box / np.where(lengths == 0, 1.0, lengths)
    flat = unit.reshape(-1, spectra.bands)
    distance, number = np.zeros(box.shape[:2]), np.zeros(box.shape[:2])
    index = np.zeros(len(flat))
    inner = 0
    for radius in radii:
        for here, there in _pairs(inner, radius, box.shape[:2]):
            angle = _arc(np.einsum("ijk,ijk->ij", unit[here], unit[there]))
            for part in (here, there):
                distance[part] += angle
                number[part] += 1
        inner = radius
        mean = distance / np.maximum(number, 1)
        dilated, eroded = _window_extremes(mean, radius)
        angle = np.empty(len(flat))
        for some in batches(len(flat), 4096):
            angle[some] = np.einsum("ij,ij->i", flat[dilated[some]], flat[eroded[some]])
        np.maximum.at(index, dilated, _arc(angle))
    high, wide = block.rows.stop - block.rows.start, block.columns.stop - block.columns.start
    found = index.reshape(box.shape[:2])[above : above + high, before : before + wide]
    return found.reshape(-1)


def _arc(cosines: Floats) -> Floats:
    found: Floats = np.arccos(np.clip(cosines, -1.0, 1.0))
    return found


def _widened(part: slice, halo: int, extent: int) -> tuple[slice, int]:
    """Widen a slice at both ends, inside an axis; return it, and by how much at the start."""
    start = max(0, part.start - halo)
    return slice(start, min(part.stop + halo, extent)), part.start - start


def _pairs(
    inner: int, radius: int, shape: Sequence[int]
) -> Iterator[tuple[tuple[slice, slice], tuple[slice, slice]]]:
    """Yield pairs of boxes whose pixels are neighbours in a ring of windows, each pair once."""
    for down in range(radius + 1):
        for right in range(-radius, radius + 1):
            if (down, right) <= (0, 0) or max(down, abs(right)) <= inner:
                continue
            if down >= shape[0] or abs(right) >= shape[1]:
                continue
            left = max(0, -right)
            here = slice(0, shape[0] - down), slice(left, shape[1] - max(0, right))
            there = slice(down, shape[0]), slice(left + right, shape[1] - max(0, -right))
            yield here, there


def _window_extremes(values: Floats, radius: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for the window of each pixel, the pixels of the greatest and of the least value.

    Of equal ones, the first.  First along columns and then along rows, as windows are squares.
    """
    places = np.arange(values.size).reshape(values.shape)
    found = []
    for sign in (1.0, -1.0):
        best, place = sign * values, places
        for axis in (1, 0):
            best, place = _along(best, place, radius, axis)
        found.append(place.reshape(-1))
    return found[0], found[1]


def _along(
    values: Floats, places: NDArray[np.int64], radius: int, axis: int
) -> tuple[Floats, NDArray[np.int64]]:
    extent = values.shape[axis]
    best, place = np.full(values.shape, -np.inf), np.zeros(values.shape, dtype=np.int64)
    for step in range(-min(radius, extent - 1), min(radius, extent - 1) + 1):
        to: list[slice] = [slice(None), slice(None)]
        of: list[slice] = [slice(None), slice(None)]
        to[axis] = slice(max(0, -step), extent - max(0, step))
        of[axis] = slice(max(0, step), extent - max(0, -step))
        here, there = tuple(to), tuple(of)
        better = values[there] > best[here]
        best[here] = np.where(better, values[there], best[here])
        place[here] = np.where(better, places[there], place[here])
    return best, place
