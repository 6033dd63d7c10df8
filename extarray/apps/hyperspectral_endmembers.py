"""Endmembers as the pixels that span the others: ATGP, VCA and N-FINDR."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from extarray import ArgumentError
from extarray.apps.hyperspectral_blocks import (
    Block,
    Floats,
    Ints,
    Spectra,
    as_spectra,
    no_data,
)
from extarray.apps.hyperspectral_components import moments, principal

__all__ = [
    "Endmembers",
    "Simplex",
    "atgp",
    "check_number",
    "enlarge",
    "generator",
    "nfindr",
    "projected",
    "vca",
    "vertices_to_begin_with",
]

#: Reads rows of a block, and the numbers of their pixels.
Rows = Callable[[Block], tuple[Floats, Ints]]

#: A pixel replaces a vertex if the volume grows by more than rounding.
_GROWS = 1 + 1e-9


@dataclass
class Endmembers:
    """Pixels whose spectra represent materials.

    Attributes
    ----------
    endmembers : ndarray, (p, bands)
        Their spectra.
    positions : ndarray of int, (p, 2)
        Their rows and columns.
    """

    endmembers: Floats
    positions: Ints


@dataclass
class Simplex(Endmembers):
    """Endmembers of `nfindr`.

    Attributes
    ----------
    volume : float
        Volume of the endmembers' simplex in the space of the first p - 1 principal components.
    """

    volume: float


def atgp(
    a: Any,
    p: int,
    *,
    band_axis: int | str | None = None,
    mask: Any = None,
    comm: Any = None,
    max_memory: int | str | None = None,
) -> Endmembers:
    """Find endmembers by automatic target generation (ATGP).

    Takes the brightest pixel, and then repeatedly the one farthest from the span of those before
    (Ren and Chang 2003).  p passes over the scene.

    Parameters
    ----------
    a : ExtArray, array, DataArray or image of SPy
        Scene of three axes.
    p : int
        Number of endmembers, up to the number of bands.
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
    Endmembers
        In the order in which they were found; ties go to the first pixel.

    Raises
    ------
    ArgumentError
        The spectra of the scene span fewer than p dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> from extarray.apps import hyperspectral
    >>> scene = np.full((4, 5, 3), 0.1)
    >>> scene[1, 2], scene[3, 0] = [9, 0, 0], [0, 5, 1]
    >>> hyperspectral.atgp(scene, 2).positions.tolist()
    [[1, 2], [3, 0]]
    """
    spectra = as_spectra(a, band_axis, comm, max_memory, mask)
    check_number(p, spectra.bands)
    pixels, found = _targets(spectra, spectra.read, p)
    return Endmembers(found, spectra.positions(pixels))


def vca(
    a: Any,
    p: int,
    seed: Any = 0,
    *,
    band_axis: int | str | None = None,
    mask: Any = None,
    comm: Any = None,
    max_memory: int | str | None = None,
) -> Endmembers:
    """Find endmembers by vertex component analysis (VCA).

    Nascimento and Bioucas-Dias (2005): repeatedly takes the pixel that is extreme along a random
    direction orthogonal to the endmembers so far, in a projection that depends on the
    signal-to-noise ratio.

    Parameters
    ----------
    a : ExtArray, array, DataArray or image of SPy
        Scene of three axes.
    p : int
        Number of endmembers, from 2 to the number of bands.
    seed : int, optional
        Seeds the random directions; None: new ones each time.
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
    Endmembers

    Examples
    --------
    >>> import numpy as np
    >>> from extarray.apps import hyperspectral
    >>> rng = np.random.default_rng(0)
    >>> spectra = rng.random((3, 20))
    >>> scene = rng.dirichlet([1, 1, 1], (30, 30)) @ spectra
    >>> scene[0, 5], scene[7, 7], scene[20, 1] = spectra
    >>> sorted(hyperspectral.vca(scene, 3).positions.tolist())
    [[0, 5], [7, 7], [20, 1]]
    """
    spectra = as_spectra(a, band_axis, comm, max_memory, mask)
    check_number(p, min(spectra.bands, spectra.pixels), 2)
    rng = generator(spectra, seed)
    reduced, rows = _as_vca_does(spectra, p)
    found = np.zeros((p, p))
    found[0, -1] = 1
    pixels = np.empty(p, dtype=np.int64)
    for k in range(p):
        w = rng.random(p)
        f = w - np.linalg.pinv(found) @ (found @ w)
        best = _best(reduced, rows, partial(_along, f))
        if best.pixel in pixels[:k]:  # then no other pixel lies outside the span of these
            raise ArgumentError(f"the spectra span only {k} dimensions, too few for {p} endmembers")
        pixels[k], found[k] = best.pixel, best.row
    return Endmembers(spectra.at(pixels), spectra.positions(pixels))


def nfindr(
    a: Any,
    p: int,
    seed: Any = 0,
    *,
    init: str = "atgp",
    band_axis: int | str | None = None,
    mask: Any = None,
    comm: Any = None,
    max_memory: int | str | None = None,
) -> Simplex:
    """Find endmembers that span a simplex of the greatest volume (N-FINDR, Winter 1999).

    No pixel enlarges the simplex in the place of a single endmember.  The enlargement is a
    coordinate of the pixel with respect to the vertices: a sweep over the scene is one matrix
    product for all places at once, without determinants.

    Parameters
    ----------
    a : ExtArray, array, DataArray or image of SPy
        Scene of three axes.
    p : int
        Number of endmembers, from 2 to one more than the bands.
    seed : int, optional
        Seeds random pixels and directions at the start; None: new ones each time.
    init : {"atgp", "vca", "random"}
        The pixels to begin with.  "atgp" works on the principal components, like all other steps.
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
    Simplex

    Raises
    ------
    ArgumentError
        The scene has fewer than p - 1 dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> from extarray.apps import hyperspectral
    >>> rng = np.random.default_rng(0)
    >>> spectra = rng.random((4, 20))
    >>> scene = rng.dirichlet([1, 1, 1, 1], (30, 30)) @ spectra
    >>> scene[0, 5], scene[7, 7], scene[20, 1], scene[9, 2] = spectra
    >>> sorted(hyperspectral.nfindr(scene, 4).positions.tolist())
    [[0, 5], [7, 7], [9, 2], [20, 1]]
    """
    if init not in ("atgp", "vca", "random"):
        raise ArgumentError(f"init must be 'atgp', 'vca' or 'random', not {init!r}")
    spectra = as_spectra(a, band_axis, comm, max_memory, mask)
    check_number(p, min(spectra.bands + 1, spectra.pixels), 2)
    statistics = moments(spectra)
    check_number(p, statistics.count, 2)
    _, directions = spectra.once(lambda: principal(statistics.covariance, p - 1))
    reduced = projected(spectra, directions, directions @ statistics.mean)
    pixels = _first_pixels(spectra, reduced, p, seed, init)
    volume = enlarge(reduced, pixels)
    return Simplex(spectra.at(pixels), spectra.positions(pixels), volume)


# -- ATGP ------------------------------------------------------------------------------------------


class _Pixel(NamedTuple):
    value: float
    pixel: int
    row: Floats


def _best(spectra: Spectra, rows: Rows, score: Callable[[Floats], Floats]) -> _Pixel:
    """Return the pixel whose row has the greatest score; ties go to the first.

    Raise an ArgumentError if no pixel has data.
    """

    def work(block: Block) -> _Pixel:
        x, numbers = rows(block)
        if not len(x):
            return _Pixel(-math.inf, -1, np.empty(0))
        values = score(x)
        k = int(values.argmax())
        return _Pixel(float(values[k]), int(numbers[k]), x[k].copy())

    best = spectra.fold(work, lambda one, other: other if other.value > one.value else one)
    if best.pixel < 0:
        raise no_data()
    return best


def _farthest(spectra: Spectra) -> float:
    """Return the greatest distance of a pixel from the origin."""
    return math.sqrt(_best(spectra, spectra.read, lambda x: np.einsum("ij,ij->i", x, x)).value)


def _along(direction: Floats, x: Floats) -> Floats:
    """Return the distance of rows from the origin, along a direction or against it."""
    return np.abs(x @ direction)


def _targets(spectra: Spectra, rows: Rows, p: int) -> tuple[Ints, Floats]:
    """Return the pixels and rows of ATGP."""
    pixels = np.empty(p, dtype=np.int64)
    found: list[Floats] = []
    basis = np.empty((0, 0))
    brightest = 0.0

    def remoteness(x: Floats) -> Floats:
        left = x
        if len(basis):
            left = np.matmul(x @ basis.T, basis, out=spectra.buffer("left", x.shape))
            np.subtract(x, left, out=left)
        distances: Floats = np.einsum("ij,ij->i", left, left)
        return distances

    for k in range(p):
        best = _best(spectra, rows, remoteness)
        brightest = max(brightest, best.value)
        if best.value <= 1e-20 * brightest or not best.value:
            raise ArgumentError(f"the spectra span only {k} dimensions, too few for {p} endmembers")
        pixels[k] = best.pixel
        found.append(best.row)
        basis = np.linalg.qr(np.stack(found, axis=1))[0].T
    return pixels, np.stack(found)


# -- VCA and N-FINDR -------------------------------------------------------------------------------


def _as_vca_does(spectra: Spectra, p: int) -> tuple[Spectra, Rows]:
    """Project a scene to p dimensions as VCA does; return it, and a reader of rows of a block."""
    statistics = moments(spectra)
    mean, whole = statistics.mean, statistics.correlation
    covariance = statistics.scatter / statistics.count
    signal, directions = spectra.once(lambda: principal(covariance, p))
    power, kept = float(np.trace(whole)), float(signal.sum() + mean @ mean)
    # The ratio of signal to noise, against 15 dB and 10 log p.
    if kept - p / spectra.bands * power < 10**1.5 * p * (power - kept):
        # Much noise: project on the plane through the mean, at the farthest pixel's distance.
        reduced = projected(spectra, directions[: p - 1], directions[: p - 1] @ mean)
        far = _farthest(reduced)

        def rows(block: Block) -> tuple[Floats, Ints]:
            x, numbers = reduced.read(block)
            return np.hstack([x, np.full((len(x), 1), far)]), numbers

        return reduced, rows
    _, directions = spectra.once(lambda: principal(whole, p))
    reduced = projected(spectra, directions, np.zeros(p))
    middle = directions @ mean

    def scaled(block: Block) -> tuple[Floats, Ints]:
        x, numbers = reduced.read(block)
        along = x @ middle
        return x / np.where(along == 0, 1.0, along)[:, None], numbers

    return reduced, scaled


def projected(spectra: Spectra, directions: Floats, offset: Floats) -> Spectra:
    """Return ``directions @ x - offset`` of each pixel x, as a scene."""
    image = spectra.map(lambda x: x @ directions.T - offset, len(directions))
    return Spectra(image, comm=spectra.comm, max_memory=spectra.memory)


def _homogeneous(x: Floats) -> Floats:
    return np.hstack([np.ones((len(x), 1)), x])


def enlarge(reduced: Spectra, pixels: Ints, vertices: Floats | None = None) -> float:
    """Exchange pixels, the vertices of a simplex, until none enlarges it; return its volume.

    Give `vertices`, (p, p - 1), if they are not pixels of this scene, whatever their numbers.
    """
    vertices = _homogeneous(reduced.at(pixels) if vertices is None else vertices)
    while True:
        inverse = np.linalg.inv(vertices)
        candidates = reduced.fold(partial(_enlarging, reduced, inverse), _larger)
        if not _replace(vertices, pixels, candidates):
            break
    return abs(float(np.linalg.det(vertices))) / math.factorial(len(pixels) - 1)


def vertices_to_begin_with(reduced: Spectra, p: int) -> Ints:
    """Return the pixels of ATGP on principal components, seen from afar."""
    far = _farthest(reduced)

    def rows(block: Block) -> tuple[Floats, Ints]:
        x, numbers = reduced.read(block)
        return np.hstack([np.full((len(x), 1), far), x]), numbers

    return _targets(reduced, rows, p)[0]


def _first_pixels(spectra: Spectra, reduced: Spectra, p: int, seed: Any, init: str) -> Ints:
    """Return the first pixels of N-FINDR: a simplex that has a volume."""
    if init == "vca":
        pixels: Ints = vca(spectra, p, seed).positions @ np.array([spectra.columns, 1])
        return pixels
    if init == "atgp":
        return vertices_to_begin_with(reduced, p)
    rng = generator(spectra, seed)
    count = moments(spectra).count
    for _ in range(100):
        pixels = reduced.with_data(np.sort(rng.choice(count, p, replace=False)))
        if np.linalg.cond(_homogeneous(reduced.at(pixels))) < 1e12:
            return pixels
    raise ArgumentError(f"no {p} randomly drawn pixels span a simplex; try init='atgp'")


class _Candidates(NamedTuple):
    """For each vertex, the pixel that would enlarge the simplex most in its place."""

    ratio: Floats  # (p,)
    pixel: Ints  # (p,)
    row: Floats  # (p, p)


def _enlarging(reduced: Spectra, inverse: NDArray[Any], block: Block) -> _Candidates:
    x, numbers = reduced.read(block)
    rows = _homogeneous(x)
    p = len(inverse)
    if not len(x):
        return _Candidates(np.zeros(p), np.full(p, -1), np.zeros((p, p)))
    ratios = np.abs(rows @ inverse)
    best = ratios.argmax(axis=0)
    return _Candidates(ratios.max(axis=0), numbers[best], rows[best])


def _larger(one: _Candidates, other: _Candidates) -> _Candidates:
    better = other.ratio > one.ratio
    return _Candidates(
        np.where(better, other.ratio, one.ratio),
        np.where(better, other.pixel, one.pixel),
        np.where(better[:, None], other.row, one.row),
    )


def _replace(vertices: Floats, pixels: Ints, candidates: _Candidates) -> bool:
    """Replace vertices by candidates while the simplex grows; tell whether it did."""
    grown = False
    while True:
        ratios = np.abs(candidates.row @ np.linalg.inv(vertices))
        k, place = np.unravel_index(int(ratios.argmax()), ratios.shape)
        if ratios[k, place] <= _GROWS:
            return grown
        vertices[place], pixels[place] = candidates.row[k], candidates.pixel[k]
        grown = True


# -- arguments -------------------------------------------------------------------------------------


def check_number(p: Any, most: int, least: int = 1) -> None:
    """Refuse an impossible number of endmembers."""
    if not isinstance(p, (int, np.integer)) or not least <= p <= most:
        raise ArgumentError(f"the number of endmembers must be from {least} to {most}, not {p}")


def generator(spectra: Spectra, seed: Any) -> np.random.Generator:
    """Return random numbers that are the same on all ranks."""
    return np.random.default_rng(spectra.once(lambda: np.random.SeedSequence(seed)))
