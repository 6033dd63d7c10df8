"""Endmembers among the pixels of a scene: ATGP, PPI, VCA and N-FINDR."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from extarray import ArgumentError
from extarray.apps.hyperspectral_blocks import (
    Block,
    Floats,
    Spectra,
    as_spectra,
    batches,
    spectra_given,
)
from extarray.apps.hyperspectral_components import moments, principal

__all__ = [
    "Endmembers",
    "PurePixels",
    "Simplex",
    "atgp",
    "enlarge",
    "nfindr",
    "ppi",
    "projected",
    "purest",
    "vca",
    "vertices_to_begin_with",
]

Ints = NDArray[np.int64]
Rows = Callable[[Block], Floats]

#: Bytes of projections that stay in the caches.
_BLOCK = 4 * 2**20

#: A pixel replaces a vertex where the volume grows by more than rounding.
_GROWS = 1 + 1e-9


@dataclass
class Endmembers:
    """Pixels whose spectra stand for materials.

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
class PurePixels(Endmembers):
    """Endmembers of `ppi`.

    Attributes
    ----------
    counts : ndarray of int, (rows, columns)
        Number of times that each pixel was the first or the last one along a skewer.
    """

    counts: Ints


@dataclass
class Simplex(Endmembers):
    """Endmembers of `nfindr`.

    Attributes
    ----------
    volume : float
        Of the simplex that they span, in the space of the first p - 1 principal components.
    """

    volume: float


def atgp(
    a: Any, p: int, *, band_axis: int = -1, comm: Any = None, max_memory: int | str | None = None
) -> Endmembers:
    """Find endmembers by automatic target generation (ATGP).

    The brightest pixel, and then each time the one that is farthest from the span of those before
    it (Ren and Chang 2003).  p passes over the scene.

    Parameters
    ----------
    a : ExtArray or array
        Scene of three axes.
    p : int
        Number of endmembers, up to the number of bands.
    band_axis : int
        The axis of the bands.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work; see `pct`.
    max_memory : int or str, optional
        Bytes of temporary memory a rank.

    Returns
    -------
    Endmembers
        In the order in which they were found; of equal pixels, the first one.

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
    spectra = as_spectra(a, band_axis, comm, max_memory)
    _check_number(p, spectra.bands)
    pixels, found = _targets(spectra, spectra.read, p)
    return Endmembers(found, spectra.positions(pixels))


def ppi(
    a: Any,
    n_skewers: int | ArrayLike = 1000,
    seed: Any = 0,
    *,
    p: int | None = None,
    min_angle: float = 0.0,
    band_axis: int = -1,
    comm: Any = None,
    max_memory: int | str | None = None,
) -> PurePixels:
    """Count how often each pixel is extreme along random directions: the pixel purity index.

    One pass over the scene; a block of pixels is projected on a block of skewers by one product of
    matrices.

    Parameters
    ----------
    a : ExtArray or array
        Scene of three axes.
    n_skewers : int or array, (n, bands)
        Number of random directions, or the directions.
    seed : int, optional
        Of the random directions; None: others each time.
    p : int, optional
        Number of endmembers.  Default: every pixel that was extreme.
    min_angle : float
        In radians: a pixel is no endmember if its spectral angle to one with a greater count is
        less, as the purest pixels of a material often are all there.
    band_axis : int
        The axis of the bands.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work; see `pct`.
    max_memory : int or str, optional
        Bytes of temporary memory a rank.

    Returns
    -------
    PurePixels
        The endmembers by falling counts; of equal ones, the first pixels.

    Raises
    ------
    ArgumentError, ShapeError
        Fewer than p pixels are extreme and far enough from each other, or the skewers have not as
        many entries as there are bands.

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
    spectra = as_spectra(a, band_axis, comm, max_memory)
    if p is not None:
        _check_number(p, spectra.pixels)
    if isinstance(n_skewers, (int, np.integer)):
        if n_skewers < 1:
            raise ArgumentError(f"the number of skewers must be at least 1, not {n_skewers}")
        rng = _generator(spectra, seed)
        skewers = rng.standard_normal((int(n_skewers), spectra.bands))
    else:
        skewers = spectra_given(n_skewers, spectra.bands, "skewers")
    extremes = spectra.fold(
        lambda block: _extremes(spectra, block, skewers),
        _outer,
    )
    ends = np.concatenate([extremes.last, extremes.first])
    counts = np.bincount(ends, minlength=spectra.pixels).reshape(spectra.rows, spectra.columns)
    chosen = purest(spectra, counts, p, min_angle)
    return PurePixels(spectra.at(chosen), spectra.positions(chosen), counts)


def vca(
    a: Any,
    p: int,
    seed: Any = 0,
    *,
    band_axis: int = -1,
    comm: Any = None,
    max_memory: int | str | None = None,
) -> Endmembers:
    """Find endmembers by vertex component analysis (VCA).

    Nascimento and Bioucas-Dias (2005): the pixel that is extreme along a random direction which is
    orthogonal to the endmembers so far, in a projection that depends on the signal-to-noise ratio.

    Parameters
    ----------
    a : ExtArray or array
        Scene of three axes.
    p : int
        Number of endmembers, from 2 to the number of bands.
    seed : int, optional
        Of the random directions; None: others each time.
    band_axis : int
        The axis of the bands.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work; see `pct`.
    max_memory : int or str, optional
        Bytes of temporary memory a rank.

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
    spectra = as_spectra(a, band_axis, comm, max_memory)
    _check_number(p, min(spectra.bands, spectra.pixels), 2)
    rng = _generator(spectra, seed)
    reduced, rows = _as_vca_does(spectra, p)
    found = np.zeros((p, p))
    found[0, -1] = 1
    pixels = np.empty(p, dtype=np.int64)
    for k in range(p):
        w = rng.random(p)
        f = w - np.linalg.pinv(found) @ (found @ w)
        best = _best(reduced, rows, partial(_along, f))
        if best.pixel in pixels[:k]:  # then no other lies outside what these span
            raise ArgumentError(
                f"the spectra span {k} dimensions only: there are no {p} endmembers"
            )
        pixels[k], found[k] = best.pixel, best.row
    return Endmembers(spectra.at(pixels), spectra.positions(pixels))


def nfindr(
    a: Any,
    p: int,
    seed: Any = 0,
    *,
    init: str = "atgp",
    band_axis: int = -1,
    comm: Any = None,
    max_memory: int | str | None = None,
) -> Simplex:
    """Find endmembers that span a simplex of the greatest volume (N-FINDR, Winter 1999).

    No pixel that took the place of a single endmember would make the simplex larger.  How much it
    would is a coordinate of the pixel with respect to the vertices: a sweep over the scene is one
    product of matrices for all places at once, and no determinant is computed.

    Parameters
    ----------
    a : ExtArray or array
        Scene of three axes.
    p : int
        Number of endmembers, from 2 to one more than the bands.
    seed : int, optional
        Of random pixels and directions at the start; None: others each time.
    init : {"atgp", "vca", "random"}
        The pixels to begin with.  "atgp" is on the principal components, as is all else.
    band_axis : int
        The axis of the bands.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work; see `pct`.
    max_memory : int or str, optional
        Bytes of temporary memory a rank.

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
    spectra = as_spectra(a, band_axis, comm, max_memory)
    _check_number(p, min(spectra.bands + 1, spectra.pixels), 2)
    statistics = moments(spectra)
    _, directions = spectra.once(lambda: principal(statistics.covariance, p - 1))
    reduced = projected(spectra, directions, directions @ statistics.mean)
    pixels = _first_pixels(spectra, reduced, p, seed, init)
    volume = enlarge(reduced, pixels)
    return Simplex(spectra.at(pixels), spectra.positions(pixels), volume)


# -- ATGP, and what is extreme ---------------------------------------------------------------------


class _Pixel(NamedTuple):
    value: float
    pixel: int
    row: Floats


def _best(spectra: Spectra, rows: Rows, score: Callable[[Floats], Floats]) -> _Pixel:
    """Return the pixel whose row has the greatest score; of equal ones, the first."""

    def work(block: Block) -> _Pixel:
        x = rows(block)
        values = score(x)
        k = int(values.argmax())
        return _Pixel(float(values[k]), block.first + k, x[k].copy())

    return spectra.fold(work, lambda one, other: other if other.value > one.value else one)


def _along(direction: Floats, x: Floats) -> Floats:
    """Return how far rows are from the origin, along a direction or against it."""
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
            raise ArgumentError(
                f"the spectra span {k} dimensions only: there are no {p} endmembers"
            )
        pixels[k] = best.pixel
        found.append(best.row)
        basis = np.linalg.qr(np.stack(found, axis=1))[0].T
    return pixels, np.stack(found)


# -- PPI -------------------------------------------------------------------------------------------


class _Ends(NamedTuple):
    """The pixels that are the first and the last along each skewer, and where they lie on it."""

    lowest: Floats
    first: Ints
    highest: Floats
    last: Ints


def _extremes(spectra: Spectra, block: Block, skewers: Floats) -> _Ends:
    """Project the spectra of a block on skewers, in products of so many that they are small."""
    x = spectra.read(block)
    n = len(skewers)
    ends = _Ends(np.empty(n), np.empty(n, np.int64), np.empty(n), np.empty(n, np.int64))
    for part in batches(n, max(1, min(spectra.memory // 32, _BLOCK) // (8 * len(x)))):
        along = spectra.buffer("along", (part.stop - part.start, len(x)))
        np.matmul(skewers[part], x.T, out=along)
        each = np.arange(len(along))
        ends.first[part] = low = along.argmin(axis=1)
        ends.last[part] = high = along.argmax(axis=1)
        ends.lowest[part], ends.highest[part] = along[each, low], along[each, high]
    return ends._replace(first=ends.first + block.first, last=ends.last + block.first)


def _outer(one: _Ends, other: _Ends) -> _Ends:
    """Return the extremes of both; of equal pixels, the earlier ones."""
    lower, higher = other.lowest < one.lowest, other.highest > one.highest
    return _Ends(
        np.where(lower, other.lowest, one.lowest),
        np.where(lower, other.first, one.first),
        np.where(higher, other.highest, one.highest),
        np.where(higher, other.last, one.last),
    )


def purest(spectra: Spectra, scores: NDArray[Any], p: int | None, min_angle: float) -> Ints:
    """Return pixels by falling scores above zero, each at an angle to those before it."""
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
            f"{len(chosen)} pixels have scores above zero and angles of at least {min_angle:g} to "
            f"each other, and {p} were asked for: take more skewers or larger kernels, or a "
            "smaller angle"
        )
    return chosen


# -- VCA and N-FINDR -------------------------------------------------------------------------------


def _as_vca_does(spectra: Spectra, p: int) -> tuple[Spectra, Rows]:
    """Project a scene to p dimensions as VCA does; return it, and what reads rows of a block."""
    statistics = moments(spectra)
    mean, whole = statistics.mean, statistics.correlation
    covariance = statistics.scatter / statistics.count
    signal, directions = spectra.once(lambda: principal(covariance, p))
    power, kept = float(np.trace(whole)), float(signal.sum() + mean @ mean)
    # The ratio of signal to noise, against 15 dB and 10 log p.
    if kept - p / spectra.bands * power < 10**1.5 * p * (power - kept):
        # Much noise: the plane through the mean, at a distance that sees all pixels from afar.
        reduced = projected(spectra, directions[: p - 1], directions[: p - 1] @ mean)
        far = math.sqrt(_best(reduced, reduced.read, lambda x: np.einsum("ij,ij->i", x, x)).value)

        def rows(block: Block) -> Floats:
            x = reduced.read(block)
            return np.hstack([x, np.full((len(x), 1), far)])

        return reduced, rows
    _, directions = spectra.once(lambda: principal(whole, p))
    reduced = projected(spectra, directions, np.zeros(p))
    middle = directions @ mean

    def scaled(block: Block) -> Floats:
        x = reduced.read(block)
        along = x @ middle
        rows: Floats = x / np.where(along == 0, 1.0, along)[:, None]
        return rows

    return reduced, scaled


def projected(spectra: Spectra, directions: Floats, offset: Floats) -> Spectra:
    """Return ``directions @ x - offset`` of each pixel x, as a scene."""

    def work(block: Block) -> Floats:
        scores: Floats = spectra.read(block) @ directions.T - offset
        return scores

    image = spectra.image(work, len(directions))
    return Spectra(image, comm=spectra.comm, max_memory=spectra.memory)


def _homogeneous(x: Floats) -> Floats:
    return np.hstack([np.ones((len(x), 1)), x])


def enlarge(reduced: Spectra, pixels: Ints) -> float:
    """Exchange pixels, the vertices of a simplex, until none makes it larger; return its volume."""
    vertices = _homogeneous(reduced.at(pixels))
    while True:
        inverse = np.linalg.inv(vertices)
        candidates = reduced.fold(partial(_enlarging, reduced, inverse), _larger)
        if not _replace(vertices, pixels, candidates):
            break
    return abs(float(np.linalg.det(vertices))) / math.factorial(len(pixels) - 1)


def vertices_to_begin_with(reduced: Spectra, p: int) -> Ints:
    """Return the pixels of ATGP on principal components, seen from afar."""
    far = math.sqrt(_best(reduced, reduced.read, lambda x: np.einsum("ij,ij->i", x, x)).value)

    def rows(block: Block) -> Floats:
        x = reduced.read(block)
        return np.hstack([np.full((len(x), 1), far), x])

    return _targets(reduced, rows, p)[0]


def _first_pixels(spectra: Spectra, reduced: Spectra, p: int, seed: Any, init: str) -> Ints:
    """Return the pixels with which N-FINDR begins: a simplex that has a volume."""
    if init == "vca":
        pixels: Ints = vca(spectra, p, seed).positions @ np.array([spectra.columns, 1])
        return pixels
    if init == "atgp":
        return vertices_to_begin_with(reduced, p)
    rng = _generator(spectra, seed)
    for _ in range(100):
        pixels = np.sort(rng.choice(spectra.pixels, p, replace=False))
        if np.linalg.cond(_homogeneous(reduced.at(pixels))) < 1e12:
            return pixels
    raise ArgumentError(f"no {p} pixels drawn at random span a simplex; try init='atgp'")


class _Candidates(NamedTuple):
    """For each vertex, the pixel that would enlarge the simplex the most in its place."""

    ratio: Floats  # (p,)
    pixel: Ints  # (p,)
    row: Floats  # (p, p)


def _enlarging(reduced: Spectra, inverse: NDArray[Any], block: Block) -> _Candidates:
    rows = _homogeneous(reduced.read(block))
    ratios = np.abs(rows @ inverse)
    best = ratios.argmax(axis=0)
    return _Candidates(ratios.max(axis=0), best + block.first, rows[best])


def _larger(one: _Candidates, other: _Candidates) -> _Candidates:
    better = other.ratio > one.ratio
    return _Candidates(
        np.where(better, other.ratio, one.ratio),
        np.where(better, other.pixel, one.pixel),
        np.where(better[:, None], other.row, one.row),
    )


def _replace(vertices: Floats, pixels: Ints, candidates: _Candidates) -> bool:
    """Put candidates in the place of vertices as long as the simplex grows; tell whether it did."""
    grown = False
    while True:
        ratios = np.abs(candidates.row @ np.linalg.inv(vertices))
        k, place = np.unravel_index(int(ratios.argmax()), ratios.shape)
        if ratios[k, place] <= _GROWS:
            return grown
        vertices[place], pixels[place] = candidates.row[k], candidates.pixel[k]
        grown = True


# -- arguments -------------------------------------------------------------------------------------


def _check_number(p: Any, most: int, least: int = 1) -> None:
    if not isinstance(p, (int, np.integer)) or not least <= p <= most:
        raise ArgumentError(f"the number of endmembers must be from {least} to {most}, not {p}")


def _generator(spectra: Spectra, seed: Any) -> np.random.Generator:
    """Return random numbers that are the same on all ranks."""
    return np.random.default_rng(spectra.once(lambda: np.random.SeedSequence(seed)))
