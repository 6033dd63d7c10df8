"""Endmembers as the pixels of greatest index: PPI, and AMEE, which looks at neighbourhoods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from extarray import ArgumentError
from extarray.apps.hyperspectral_blocks import (
    Block,
    Floats,
    Ints,
    Spectra,
    as_spectra,
    batches,
    no_data,
    spectra_given,
)
from extarray.apps.hyperspectral_endmembers import Endmembers, check_number, generator

__all__ = ["Eccentric", "PurePixels", "amee", "ppi"]

#: Bytes of projections, which should stay in the caches.
_BLOCK = 4 * 2**20

#: Bytes of a block and the surrounding rows that its pixels need.
_LARGE = 24 * 2**20


@dataclass
class PurePixels(Endmembers):
    """Endmembers of `ppi`.

    Attributes
    ----------
    counts : ndarray of int, (rows, columns)
        Times that each pixel was the first or the last along a skewer; 0 for pixels without data.
    """

    counts: Ints


@dataclass
class Eccentric(Endmembers):
    """Endmembers of `amee`.

    Attributes
    ----------
    scores : ndarray, (rows, columns)
        The morphological eccentricity index, in radians; 0 for pixels that no window found purest,
        NaN for pixels without data.
    """

    scores: Floats


def ppi(
    a: Any,
    n_skewers: int | ArrayLike = 1000,
    seed: Any = 0,
    *,
    p: int | None = None,
    min_angle: float = 0.0,
    band_axis: int | str | None = None,
    mask: Any = None,
    comm: Any = None,
    max_memory: int | str | None = None,
) -> PurePixels:
    """Count how often each pixel is extreme along random directions: the pixel purity index.

    One pass over the scene; one matrix product projects a block of pixels on a block of skewers.

    Parameters
    ----------
    a : ExtArray, array, DataArray or image of SPy
        Scene of three axes.
    n_skewers : int or array, (n, bands)
        Number of random directions, or the directions.
    seed : int, optional
        Seeds the random directions; None: new ones each time.
    p : int, optional
        Number of endmembers.  Default: every pixel that was extreme.
    min_angle : float
        In radians: a pixel is no endmember if its spectral angle to one with a greater count is
        less.  With 0, several endmembers often show one material.
    band_axis : int or str, optional
        The axis of the bands, or its name; see `pct`.
    mask : array of bool, (rows, columns), optional
        True for pixels to leave out; see `pct`.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work; see `pct`.
    max_memory : int or str, optional
        Bytes of temporary memory per rank.

    Returns
    -------
    PurePixels
        Endmembers by falling counts; ties go to the first pixel.

    Raises
    ------
    ArgumentError, ShapeError
        Fewer than p pixels are extreme and far enough from each other, or the skewers do not have
        one entry per band.

    Examples
    --------
    >>> import numpy as np
    >>> from extarray.apps import hyperspectral
    >>> rng = np.random.default_rng(0)
    >>> scene = rng.dirichlet([1, 1, 1], (9, 9)) @ np.eye(3, 20)
    >>> scene[4, 4] = np.eye(20)[1] * 2
    >>> found = hyperspectral.ppi(scene, 100, p=1)
    >>> found.positions.tolist(), int(found.counts.sum())
    ([[4, 4]], 200)
    """
    spectra = as_spectra(a, band_axis, comm, max_memory, mask)
    if p is not None:
        check_number(p, spectra.pixels)
    if isinstance(n_skewers, (int, np.integer)):
        if n_skewers < 1:
            raise ArgumentError(f"the number of skewers must be at least 1, not {n_skewers}")
        rng = generator(spectra, seed)
        skewers = rng.standard_normal((int(n_skewers), spectra.bands))
    else:
        skewers = spectra_given(n_skewers, spectra.bands, "skewers")
    extremes = spectra.fold(partial(_extremes, spectra, skewers), _outer)
    if extremes.first[0] < 0:
        raise no_data()
    ends = np.concatenate([extremes.last, extremes.first])
    counts = np.bincount(ends, minlength=spectra.pixels).reshape(spectra.rows, spectra.columns)
    chosen = _purest(spectra, counts, p, min_angle)
    return PurePixels(spectra.at(chosen), spectra.positions(chosen), counts)


def amee(
    a: Any,
    p: int,
    kernels: Sequence[int] = (3, 5, 7),
    *,
    min_angle: float = 0.0,
    band_axis: int | str | None = None,
    mask: Any = None,
    comm: Any = None,
    max_memory: int | str | None = None,
) -> Eccentric:
    """Find endmembers by automated morphological endmember extraction (AMEE).

    Plaza et al.  (2002): in a window around each pixel, extended dilation finds the purest
    spectrum, with the greatest mean spectral angle to its own neighbours, and extended erosion the
    most mixed one, with the least.  The angle between the two is the eccentricity of the purest;
    the greatest over all windows that find it, in growing kernels, counts.  A pixel that is zero in
    all bands has no angle to others, and is left out like pixels without data.

    Parameters
    ----------
    a : ExtArray, array, DataArray or image of SPy
        Scene of three axes.
    p : int
        Number of endmembers.
    kernels : sequence of int
        Sides of the square windows, odd and growing.  The border cuts them off.
    min_angle : float
        In radians: a pixel is no endmember if its spectral angle to one with a greater index is
        less.
    band_axis : int or str, optional
        The axis of the bands, or its name; see `pct`.
    mask : array of bool, (rows, columns), optional
        True for pixels to leave out; see `pct`.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work; see `pct`.  They also read the rows around their zones.
    max_memory : int or str, optional
        Bytes of temporary memory per rank.

    Returns
    -------
    Eccentric
        Endmembers by falling index; ties go to the first pixel.

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
            f"kernels must be increasing odd sides of at least 3, such as (3, 5, 7), not {kernels}"
        )
    radii = [k // 2 for k in sides]
    whole = as_spectra(a, band_axis, comm, max_memory, mask)
    check_number(p, whole.pixels)
    box_bytes = min(_LARGE, whole.memory // 8)
    spectra = Spectra(
        whole.raster,
        comm=whole.comm,
        max_memory=whole.memory,
        block_bytes=_block_bytes(whole, box_bytes, 3 * radii[-1]),
        # As read, as float64, at unit length, and small arrays per pixel.
        work_bytes=5 * box_bytes,
    )
    scores = spectra.image(lambda block: _eccentricity(spectra, block, radii), None)
    pixels = _purest(spectra, scores, p, min_angle)
    return Eccentric(spectra.at(pixels), spectra.positions(pixels), np.asarray(scores))


# -- PPI -------------------------------------------------------------------------------------------


class _Ends(NamedTuple):
    """First and last pixels along each skewer, and their positions on it."""

    lowest: Floats
    first: Ints
    highest: Floats
    last: Ints


def _extremes(spectra: Spectra, skewers: Floats, block: Block) -> _Ends:
    """Project the spectra of a block on skewers, with products small enough for the caches."""
    x, numbers = spectra.read(block)
    n = len(skewers)
    if not len(x):
        nobody, far = np.full(n, -1), np.full(n, math.inf)
        return _Ends(far, nobody, -far, nobody)
    ends = _Ends(np.empty(n), np.empty(n, np.int64), np.empty(n), np.empty(n, np.int64))
    for part in batches(n, max(1, min(spectra.memory // 32, _BLOCK) // (8 * len(x)))):
        along = spectra.buffer("along", (part.stop - part.start, len(x)))
        np.matmul(skewers[part], x.T, out=along)
        each = np.arange(len(along))
        ends.first[part] = low = along.argmin(axis=1)
        ends.last[part] = high = along.argmax(axis=1)
        ends.lowest[part], ends.highest[part] = along[each, low], along[each, high]
    return ends._replace(first=numbers[ends.first], last=numbers[ends.last])


def _outer(one: _Ends, other: _Ends) -> _Ends:
    """Return the extremes of both; ties go to the earlier pixel."""
    lower, higher = other.lowest < one.lowest, other.highest > one.highest
    return _Ends(
        np.where(lower, other.lowest, one.lowest),
        np.where(lower, other.first, one.first),
        np.where(higher, other.highest, one.highest),
        np.where(higher, other.last, one.last),
    )


def _purest(spectra: Spectra, scores: NDArray[Any], p: int | None, min_angle: float) -> Ints:
    """Return pixels by falling positive scores, each at least `min_angle` from those before it."""
    flat = scores.reshape(-1)
    order = np.argsort(-flat, kind="stable")[: np.count_nonzero(flat > 0)]
    most = len(order) if p is None else p
    if min_angle <= 0:
        chosen = order[:most]
    else:
        kept: list[int] = []
        directions = np.empty((0, spectra.bands))
        for pixel in order.tolist():
            x = spectra.at([pixel])[0]
            x = x / (np.linalg.norm(x) or 1.0)
            if len(kept) == most:
                break
            if not np.any(directions @ x > math.cos(min_angle)):
                kept.append(pixel)
                directions = np.vstack([directions, x])
        chosen = np.array(kept, dtype=np.int64)
    if p is not None and len(chosen) < p:
        raise ArgumentError(
            f"only {len(chosen)} of {p} pixels have scores above zero and angles of at least "
            f"{min_angle:g} to each other; use more skewers, larger kernels, or a smaller angle"
        )
    return chosen


# -- AMEE ------------------------------------------------------------------------------------------


def _block_bytes(spectra: Spectra, box_bytes: int, halo: int) -> int:
    """Return the size of blocks that fit into a box together with the surrounding pixels."""
    pixel: int = 8 * spectra.bands
    fits = box_bytes // pixel
    high = fits // spectra.columns - 2 * halo
    if high >= 1:
        return high * spectra.columns * pixel
    return max(1, fits // (1 + 2 * halo) - 2 * halo) * pixel


def _eccentricity(spectra: Spectra, block: Block, radii: Sequence[int]) -> Floats:
    """Return the index of each pixel of a block.

    Windows around pixels up to one radius away judge a pixel.  They look at distances of pixels one
    radius farther, which are distances to pixels yet another radius farther.
    """
    halo = 3 * radii[-1]
    rows, above = _widened(block.rows, halo, spectra.rows)
    columns, before = _widened(block.columns, halo, spectra.columns)
    box, missing = spectra.box(rows, columns)
    lengths = np.linalg.norm(box, axis=2, keepdims=True)
    unit = box / np.where(lengths == 0, 1.0, lengths)
    there = lengths[:, :, 0] > 0  # zero where data are missing, too
    whole = bool(there.all())
    flat = unit.reshape(-1, spectra.bands)
    distance, number = np.zeros(box.shape[:2]), np.zeros(box.shape[:2])
    index = np.zeros(len(flat))
    inner = 0
    for radius in radii:
        for one, other in _pairs(inner, radius, box.shape[:2]):
            angle = _arc(np.einsum("ijk,ijk->ij", unit[one], unit[other]))
            both = 1.0 if whole else there[one] & there[other]
            angle *= both
            for part in (one, other):
                distance[part] += angle
                number[part] += both
        inner = radius
        mean = distance / np.maximum(number, 1)
        dilated, eroded = _window_extremes(mean, there, radius)
        angle = np.empty(len(dilated))
        for some in batches(len(dilated), 4096):
            angle[some] = np.einsum("ij,ij->i", flat[dilated[some]], flat[eroded[some]])
        angle[dilated == eroded] = 1.0  # despite rounding
        np.maximum.at(index, dilated, _arc(angle))
    if missing is not None:
        index[missing.reshape(-1)] = np.nan
    high, wide = block.rows.stop - block.rows.start, block.columns.stop - block.columns.start
    found = index.reshape(box.shape[:2])[above : above + high, before : before + wide]
    return found.reshape(-1)


def _arc(cosines: Floats) -> Floats:
    found: Floats = np.arccos(np.clip(cosines, -1.0, 1.0))
    return found


def _widened(part: slice, halo: int, extent: int) -> tuple[slice, int]:
    """Widen a slice at both ends within an axis; return it, and the widening at the start."""
    start = max(0, part.start - halo)
    return slice(start, min(part.stop + halo, extent)), part.start - start


def _pairs(
    inner: int, radius: int, shape: Sequence[int]
) -> Iterator[tuple[tuple[slice, slice], tuple[slice, slice]]]:
    """Yield pairs of boxes of neighbouring pixels in a ring of windows, each pair once."""
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


def _window_extremes(
    values: Floats, there: NDArray[np.bool_], radius: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pixels with the greatest and the least value in each pixel's window.

    Ties go to the first pixel.  Windows are squares, so columns are searched first and then rows.
    Pixels not in `there` have no window, and are in none.
    """
    places = np.arange(values.size).reshape(values.shape)
    found = []
    for sign in (1.0, -1.0):
        best, place = np.where(there, sign * values, -np.inf), places
        for axis in (1, 0):
            best, place = _along(best, place, radius, axis)
        found.append(place[there])
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
