"""Statistics of a scene, and results from them: components, noise, number of endmembers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from extarray import ArgumentError
from extarray.apps.hyperspectral_blocks import Block, Floats, Spectra, as_spectra, no_data

__all__ = [
    "Components",
    "Moments",
    "hfc",
    "hysime",
    "merge_both",
    "mnf",
    "moments",
    "moments_of_block",
    "pct",
    "principal",
    "with_noise",
]

#: Bytes of a block for differences of neighbours, which should have several rows.
_TALL = 8 * 2**20

#: Multiples of the float epsilon that count as rounding in relative differences.
_ROUNDING = 64

#: Pixels along diagonals whose differences are taken together: more would leave the caches.
_DIAGONAL = 4


@dataclass
class Moments:
    """Number, mean and scatter matrix of spectra; two merge without loss of digits."""

    count: int
    mean: Floats  # (bands,)
    scatter: Floats  # (bands, bands): sum of the products of deviations from the mean

    @classmethod
    def of(cls, spectra: Floats) -> Moments:
        """Take the moments of spectra, (pixels, bands), perhaps of none.

        Subtracts the mean from them in place.
        """
        if not len(spectra):
            bands = spectra.shape[1]
            return cls(0, np.zeros(bands), np.zeros((bands, bands)))
        mean = spectra.mean(axis=0)
        spectra -= mean
        return cls(len(spectra), mean, spectra.T @ spectra)

    @classmethod
    def of_groups(cls, each: int, means: Floats, scatter: Floats) -> Moments:
        """Take the moments of groups of `each` spectra, from their means and total inner scatter.

        Subtracts the overall mean from the groups' means in place.
        """
        among = cls.of(means)
        return cls(each * among.count, among.mean, scatter + each * among.scatter)

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both (Chan, Golub and LeVeque 1983)."""
        if not (self.count and other.count):
            return self if self.count else other
        count = self.count + other.count
        step = other.mean - self.mean
        scatter = self.scatter + other.scatter
        scatter += np.outer(step, step * (self.count * other.count / count))
        return Moments(count, self.mean + step * (other.count / count), scatter)

    def without(self, part: Moments) -> Moments:
        """Return the moments of the spectra without a part of them."""
        if not part.count:
            return self
        count = self.count - part.count
        if not count:
            return Moments(0, np.zeros_like(self.mean), np.zeros_like(self.scatter))
        mean = self.mean + (self.mean - part.mean) * (part.count / count)
        step = part.mean - mean
        scatter = self.scatter - part.scatter
        scatter -= np.outer(step, step * (count * part.count / self.count))
        return Moments(count, mean, scatter)

    @property
    def covariance(self) -> Floats:
        """The covariance of the bands, with the divisor ``count - 1``."""
        return self.scatter / max(1, self.count - 1)

    @property
    def correlation(self) -> Floats:
        """The mean of the products of the bands, about zero."""
        return self.scatter / self.count + np.outer(self.mean, self.mean)


@dataclass
class Components:
    """Components of a scene; the first ones tell pixels apart best.

    Attributes
    ----------
    mean : ndarray, (bands,)
        Mean spectrum.
    components : ndarray, (n, bands)
        A row for each: the weights of a pixel's deviation from the mean.
    variances : ndarray, (n,)
        Variances of the scores, falling.  From `mnf`: in units of the noise's, so that
        ``variances - 1`` is the signal-to-noise ratio.
    scores : ndarray or ExtArray, (rows, columns, n)
        The scene in these components; NaN for pixels without data.
    """

    mean: Floats
    components: Floats
    variances: Floats
    scores: Any


def pct(
    a: Any,
    n: int | None = None,
    *,
    band_axis: int | str | None = None,
    mask: Any = None,
    comm: Any = None,
    max_memory: int | str | None = None,
    path: str | Path | None = None,
) -> Components:
    """Transform a scene to its principal components.

    Two passes over the scene, in bounded memory: mean and covariance, which merge without loss of
    digits, and the projection.

    Parameters
    ----------
    a : ExtArray, array, DataArray or image of SPy
        Scene of three axes.
    n : int, optional
        Number of components, from 1 to the number of bands.  Default: all.
    band_axis : int or str, optional
        The axis of the bands, or its name.  Default: the axis named ``band``, ``bands``,
        ``wavelength`` or ``wavelengths``, else the last one.
    mask : array of bool, (rows, columns), optional
        True for pixels to leave out, as in `numpy.ma`.  Pixels are also left out if any band has a
        number that is not finite; an element that `numpy.ma` masks; or a value for missing data,
        which the scene gives by its attributes (``_FillValue``, ``missing_value``, ``nodata``,
        ``data ignore value``, ``BLANK``) or, an ExtArray, by a fill value other than zero.
        ``mask=False`` trusts such values like others.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work; all call this, with the same arguments, and get bitwise the same
        result, whatever their number.  Default: those that have `a` open together.
    max_memory : int or str, optional
        Bytes of temporary memory per rank, such as ``"256 MiB"``.  Default:
        `extarray.config.max_memory`.
    path : path, optional
        Path of a new array for the scores.  Without it they are an ndarray, or an ExtArray in a
        temporary file if they take more than half of `max_memory`.

    Returns
    -------
    Components
        Each component is a unit vector; its entry of the greatest magnitude is positive.

    Raises
    ------
    ArgumentError, ShapeError, AxisError
        The number of components is impossible, the scene does not have real numbers, or none of its
        pixels has data.

    Examples
    --------
    >>> import numpy as np
    >>> from extarray.apps import hyperspectral
    >>> scene = np.random.default_rng(0).random((20, 30, 8))
    >>> scene[:, :, 3] *= 10
    >>> found = hyperspectral.pct(scene, 2)
    >>> found.scores.shape, int(found.components[0].argmax())
    ((20, 30, 2), 3)
    """
    spectra = as_spectra(a, band_axis, comm, max_memory, mask)
    n = _number(n, spectra.bands, "bands")
    statistics = moments(spectra)
    variances, components = spectra.once(lambda: principal(statistics.covariance, n))
    return _project(spectra, statistics.mean, components, variances, path)


def mnf(
    a: Any,
    n: int | None = None,
    *,
    band_axis: int | str | None = None,
    mask: Any = None,
    comm: Any = None,
    max_memory: int | str | None = None,
    path: str | Path | None = None,
) -> Components:
    """Transform a scene to components in the order of their signal-to-noise ratio.

    The minimum noise fraction of Green et al.  (1988).  Halved differences of pixels that touch
    diagonally estimate the noise.  Two passes over the scene.

    Parameters
    ----------
    a : ExtArray, array, DataArray or image of SPy
        Scene of three axes.
    n : int, optional
        Number of components.  Default: all that have noise.
    band_axis : int or str, optional
        The axis of the bands, or its name; see `pct`.
    mask : array of bool, (rows, columns), optional
        True for pixels to leave out; see `pct`.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work.
    max_memory : int or str, optional
        Bytes of temporary memory per rank.
    path : path, optional
        Path of a new array for the scores.

    Returns
    -------
    Components
        The noise of each score has the variance 1.

    Raises
    ------
    ArgumentError
        The scene is constant, or more components are asked for than the noise has dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> from extarray.apps import hyperspectral
    >>> rng = np.random.default_rng(0)
    >>> scene = rng.normal(0, 1, (40, 40, 6)) + np.linspace(0, 9, 40)[:, None, None]
    >>> found = hyperspectral.mnf(scene)
    >>> bool(found.variances[0] > 10), bool(found.variances[1] < 2)
    (True, True)
    """
    spectra = as_spectra(a, band_axis, comm, max_memory, mask, _TALL)
    if n is not None:
        n = _number(n, spectra.bands, "bands")
    if min(spectra.rows, spectra.columns) < 2:
        raise ArgumentError(
            "noise is estimated from neighbouring pixels, which needs at least two rows and two "
            f"columns; the scene has {spectra.rows} and {spectra.columns}"
        )
    statistics, noise = spectra.fold(partial(with_noise, spectra), merge_both)
    if not statistics.count:
        raise no_data()
    # Differences of equal neighbours are zero, up to rounding of sums.
    rounding = (_ROUNDING * np.finfo(float).eps) ** 2 * statistics.correlation.diagonal()
    if (noise.covariance.diagonal() <= rounding).all():
        raise ArgumentError(
            f"the scene has no noise: none of {noise.count} pairs of diagonal neighbours differs "
            "from the others in any band; a constant scene has no components"
        )
    covariances = statistics.covariance, noise.covariance / 2
    variances, components = spectra.once(lambda: _noise_adjusted(*covariances, n))
    return _project(spectra, statistics.mean, components, variances, path)


def hfc(
    a: Any,
    far: float = 1e-3,
    *,
    band_axis: int | str | None = None,
    mask: Any = None,
    comm: Any = None,
    max_memory: int | str | None = None,
) -> int:
    """Estimate the number of endmembers by the test of Harsanyi, Farrand and Chang (1993).

    The virtual dimensionality: the number of eigenvalues of the correlation that exceed those of
    the covariance, by more than noise would in a share `far` of cases.

    Parameters
    ----------
    a : ExtArray, array, DataArray or image of SPy
        Scene of three axes.
    far : float
        Rate of false alarms, between 0 and 1.
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
    int

    Raises
    ------
    ArgumentError
        The rate is not between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from extarray.apps import hyperspectral
    >>> rng = np.random.default_rng(0)
    >>> scene = rng.dirichlet([1, 1, 1], (50, 50)) @ rng.random((3, 30))
    >>> hyperspectral.hfc(scene + rng.normal(0, 1e-3, scene.shape))
    3
    """
    if not 0 < far < 1:
        raise ArgumentError(f"the false alarm rate must be between 0 and 1, not {far}")
    statistics = moments(as_spectra(a, band_axis, comm, max_memory, mask))
    with_mean = np.linalg.eigvalsh(statistics.correlation)
    without = np.linalg.eigvalsh(statistics.scatter / statistics.count)
    deviation = np.sqrt(2 * (with_mean**2 + without**2) / statistics.count)
    threshold = -NormalDist().inv_cdf(far) * deviation
    return int(np.count_nonzero(with_mean - without > threshold))


def hysime(
    a: Any,
    *,
    band_axis: int | str | None = None,
    mask: Any = None,
    comm: Any = None,
    max_memory: int | str | None = None,
) -> int:
    """Estimate the number of endmembers as the dimension of the signal (HySime).

    Bioucas-Dias and Nascimento (2008): the noise of a band is its residual from regression on the
    others, and a direction counts if leaving it out would cost more than its noise.  One pass.

    Parameters
    ----------
    a : ExtArray, array, DataArray or image of SPy
        Scene of three axes.
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
    int

    Examples
    --------
    >>> import numpy as np
    >>> from extarray.apps import hyperspectral
    >>> rng = np.random.default_rng(0)
    >>> scene = rng.dirichlet([1, 1, 1, 1], (50, 50)) @ rng.random((4, 30))
    >>> hyperspectral.hysime(scene + rng.normal(0, 1e-3, scene.shape))
    4
    """
    whole = moments(as_spectra(a, band_axis, comm, max_memory, mask)).correlation
    bands = len(whole)
    if not whole.any():
        return 0
    # Regressing every band on the others needs one inverse of the whole matrix: with its inverse P,
    # the coefficients for band i are -P[j, i] / P[i, i], and the residuals are X @ residual.
    ridge = 1e-12 * np.trace(whole) / bands
    inverse = np.linalg.inv(whole + ridge * np.eye(bands))
    residual = inverse / inverse.diagonal()
    fitted = np.eye(bands) - residual
    signal = fitted.T @ whole @ fitted
    noise = np.einsum("ji,jk,ki->i", residual, whole, residual, optimize=True)
    noise = noise + np.trace(signal) / bands * 1e-5
    _, directions = np.linalg.eigh(signal)
    power = np.einsum("ji,jk,ki->i", directions, whole, directions, optimize=True)
    of_noise = (directions**2).T @ noise
    return int(np.count_nonzero(power > 2 * of_noise))


def moments(spectra: Spectra) -> Moments:
    """Take the moments of all pixels that have data, in one pass, and keep them."""
    if spectra.moments is None:
        spectra.moments = spectra.fold(partial(moments_of_block, spectra), Moments.merge)
        if not spectra.moments.count:
            raise no_data()
    found: Moments = spectra.moments
    return found


def moments_of_block(spectra: Spectra, block: Block) -> Moments:
    """Take the moments of the pixels of a block."""
    return Moments.of(spectra.read(block)[0])


def principal(covariance: Floats, n: int) -> tuple[Floats, Floats]:
    """Return the n greatest eigenvalues, falling, and their eigenvectors in rows."""
    values, vectors = np.linalg.eigh(covariance)
    return values[::-1][:n], _oriented(vectors.T[::-1][:n])


def _noise_adjusted(signal: Floats, noise: Floats, n: int | None) -> tuple[Floats, Floats]:
    """Return the ratios of signal (with its noise) to noise, falling, and their directions."""
    values, vectors = np.linalg.eigh(noise)
    there = values > max(0.0, values[-1]) * len(values) * np.finfo(float).eps
    if (n or 1) > there.sum():
        raise ArgumentError(
            f"the noise has only {there.sum()} dimensions, too few for {n or 1} components: some "
            "bands are constant or depend on others; leave those out"
        )
    whitening = vectors[:, there] / np.sqrt(values[there])
    ratios, directions = principal(whitening.T @ signal @ whitening, n or int(there.sum()))
    return ratios, _oriented(directions @ whitening.T)


def _oriented(rows: Floats) -> Floats:
    """Flip each row so that its entry of the greatest magnitude is positive."""
    peaks = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    return np.ascontiguousarray(rows * np.where(peaks < 0, -1.0, 1.0))


def with_noise(spectra: Spectra, block: Block) -> tuple[Moments, Moments]:
    """Return the moments of a block, and of its differences to lower right neighbours.

    A difference counts if both pixels have data.
    """
    high, wide = block.rows.stop - block.rows.start, block.columns.stop - block.columns.start
    box, missing = spectra.box(
        slice(block.rows.start, min(block.rows.stop + 1, spectra.rows)),
        slice(block.columns.start, min(block.columns.stop + 1, spectra.columns)),
    )
    if missing is not None:
        there = ~missing
        pairs = there[:-1, :-1] & there[1:, 1:]
        differences = box[:-1, :-1][pairs] - box[1:, 1:][pairs]
        return Moments.of(box[:high, :wide][there[:high, :wide]]), Moments.of(differences)
    step = min(_DIAGONAL, wide) if wide == spectra.columns else 1
    strips = (
        _of_strip(spectra, box[row : row + step + 1], min(step, high - row), wide)
        for row in range(0, high, step)
    )
    return reduce(merge_both, strips)


def _of_strip(spectra: Spectra, box: Floats, high: int, wide: int) -> tuple[Moments, Moments]:
    """Return the moments of some rows of a box, and of the differences that begin in them.

    For n pixels x along a diagonal and their n - 1 differences d, the cosine transform z needs n
    products instead of 2 n - 1: it is orthogonal, and its basis vectors are the eigenvectors of the
    sum of squared differences.  So ``sum xx'`` is ``sum zz'``, and ``sum dd'`` is the same sum
    weighted with the eigenvalues, none of which is negative.
    """
    columns, bands = box.shape[1:]
    whole = wide - high + 1  # diagonals through all rows
    pixel = bands * box.itemsize
    diagonals = as_strided(box, (high, whole * bands), ((columns + 1) * pixel, box.itemsize))
    cosines, eigenvalues = _cosines(high)
    transformed = spectra.buffer("diagonals", (high, whole, bands))
    np.matmul(cosines, diagonals, out=transformed.reshape(high, -1))
    parts = [Moments.of(one) for one in transformed]
    weights = np.stack([np.ones(high), eigenvalues])
    scatters = np.tensordot(weights, np.stack([part.scatter for part in parts]), axes=1)
    # Each place along the diagonals has its own mean.
    means = cosines.T @ np.stack([part.mean for part in parts])
    pixels = Moments.of_groups(whole, means.copy(), scatters[0])
    noise = Moments.of_groups(whole, means[:-1] - means[1:], scatters[1])
    # The corners, which other diagonals cross, and the step to the next row.
    corners = [part for k in range(high) for part in (box[k, :k], box[k, k + whole : wide])]
    steps = [
        (box[k, part], box[k + 1, 1:][part])
        for k in range(len(box) - 1)
        for part in (
            (slice(k), slice(k + whole, columns - 1)) if k + 1 < high else (slice(columns - 1),)
        )
    ]
    differences = spectra.buffer("steps", (sum(len(one) for one, _ in steps), bands))
    start = 0
    for one, other in steps:
        np.subtract(one, other, out=differences[start : start + len(one)])
        start += len(one)
    return (
        pixels.merge(Moments.of(np.concatenate(corners))),
        noise.merge(Moments.of(differences)),
    )


def _cosines(n: int) -> tuple[Floats, Floats]:
    """Return the cosine transform of n terms in rows, and its eigenvalues of differences."""
    angles = np.pi * np.arange(n)[:, None] / n
    cosines = np.sqrt(2 / n) * np.cos(angles * (np.arange(n) + 0.5))
    cosines[0] /= np.sqrt(2)
    return cosines, 2 - 2 * np.cos(angles[:, 0])


def merge_both(
    one: tuple[Moments, Moments], other: tuple[Moments, Moments]
) -> tuple[Moments, Moments]:
    """Merge the moments of pixels, and those of their differences."""
    return one[0].merge(other[0]), one[1].merge(other[1])


def _project(
    spectra: Spectra, mean: Floats, components: Floats, variances: Floats, path: str | Path | None
) -> Components:
    """Project the scene on components, in one pass, and return both."""
    offset = components @ mean

    def score(x: Floats) -> Floats:
        scores: Floats = x @ components.T
        scores -= offset
        return scores

    return Components(mean, components, variances, spectra.map(score, len(components), path=path))


def _number(n: Any, most: int, of: str) -> int:
    if n is None:
        return most
    if not isinstance(n, (int, np.integer)) or not 1 <= n <= most:
        raise ArgumentError(f"cannot compute {n} components of {most} {of}; ask for 1 to {most}")
    return int(n)
