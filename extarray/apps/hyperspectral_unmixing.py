"""Abundances of endmembers in each pixel, by constrained least squares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from extarray import ArgumentError
from extarray.apps.hyperspectral_blocks import Floats, batches, with_endmembers
from extarray.common.extras import require

__all__ = ["Fit", "abundances"]

#: Bytes of a block: in larger blocks more pixels share a set of endmembers.
LARGE = 16 * 2**20

#: Bytes of the matrices that are kept; a scene usually has far fewer sets of endmembers.
_KEPT = 16 * 2**20

#: Bytes of systems that are solved together.
_SYSTEMS = 2**20

#: A set of endmembers gets a matrix if at least this many pixels of a block have it.
_COMMON = 8

#: Constraints of each method: is the sum 1, and are negative abundances allowed?
_METHODS = {
    "ucls": (False, True),
    "scls": (True, True),
    "nnls": (False, False),
    "fcls": (True, False),
}

#: Relative size of a negative abundance, or gain, that counts as rounding.
_TINY = 1e-11

#: Rounds of exchanges per endmember before SciPy takes over.
_PATIENCE = 20


def abundances(
    a: Any,
    endmembers: ArrayLike,
    method: str = "fcls",
    *,
    band_axis: int | str | None = None,
    mask: Any = None,
    comm: Any = None,
    max_memory: int | str | None = None,
    path: str | Path | None = None,
) -> Any:
    """Unmix a scene: find the abundances of endmembers that fit each pixel best, by least squares.

    Parameters
    ----------
    a : ExtArray, array, DataArray or image of SPy
        Scene of three axes.
    endmembers : array, (p, bands)
        Their spectra, for example from `atgp` or `nfindr`.
    method : {"fcls", "nnls", "scls", "ucls"}
        "ucls": any abundances.  "scls": their sum is 1.  "nnls": none is negative.  "fcls": both.
        The constraints hold exactly, not through a weight.
    band_axis : int or str, optional
        The axis of the bands, or its name; see `pct`.
    mask : array of bool, (rows, columns), optional
        True for pixels to leave out; see `pct`.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work; see `pct`.
    max_memory : int or str, optional
        Bytes of temporary memory per rank.
    path : path, optional
        Path of a new array for the result.

    Returns
    -------
    ndarray or ExtArray, (rows, columns, p)
        NaN for pixels without data.  An ExtArray at `path`, or in a temporary file if it takes more
        than half of `max_memory`.

    Raises
    ------
    ArgumentError
        The endmembers are linearly dependent (with a sum of 1: affinely), so that they do not
        determine the abundances.

    Notes
    -----
    Block principal pivoting (Kim and Park 2011) meets the sign constraints, for all pixels of a
    block together: one matrix product solves all pixels with the same present endmembers.  With a
    sum of 1 in addition, the problem is the distance to a convex hull, which pivoting solves again.

    Examples
    --------
    >>> import numpy as np
    >>> from extarray.apps import hyperspectral
    >>> spectra = np.array([[1.0, 0, 0, 1], [0, 2, 0, 1]])
    >>> scene = np.array([[[0.25, 1.5, 0, 1], [-3, 2, 0, 1]]])
    >>> hyperspectral.abundances(scene, spectra).round(9).tolist()
    [[[0.25, 0.75], [0.0, 1.0]]]
    """
    spectra, members = with_endmembers(a, endmembers, band_axis, comm, max_memory, mask, LARGE)
    fit = spectra.once(lambda: Fit.of(members, method))
    return spectra.map(fit, len(members), path=path)


class Fit:
    """Least squares on endmembers E, (p, bands), in p dimensions: E' is Q R."""

    def __init__(self, q: Floats, r: Floats, sum_is_one: bool, signed: bool) -> None:
        self._q, self._r, self._signed = q, r, signed
        self._sum_is_one = sum_is_one
        self._maps = _Maps(r, sum_is_one)

    @classmethod
    def of(cls, members: Floats, method: str) -> Fit:
        """Prepare a method; the endmembers must determine its abundances."""
        if method not in _METHODS:
            raise ArgumentError(f"method must be one of {', '.join(_METHODS)}, not {method!r}")
        sum_is_one, signed = _METHODS[method]
        free = members[1:] - members[0] if sum_is_one else members
        if len(free) and np.linalg.matrix_rank(free) < len(free):
            raise ArgumentError(
                f"{len(members)} endmembers of {members.shape[1]} bands are linearly dependent, "
                "so abundances are undetermined; leave some out"
            )
        q, r = np.linalg.qr(members.T)
        return cls(q, r, sum_is_one, signed)

    def __call__(self, x: Floats) -> Floats:
        """Return the abundances of spectra, (pixels, bands)."""
        z = x @ self._q
        if self._signed and self._sum_is_one:
            matrix, offset = _with_sum_one(self._r)
            return z @ matrix.T + offset
        if self._signed:
            return z @ np.linalg.pinv(self._r).T
        return self._pivot(z)

    def _solve(self, z: Floats, present: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Return abundances of the present endmembers, and the others' costs of joining the fit.

        A pixel is solved if no entry of either is negative.
        """
        y = self._maps(z, present)
        fitted = y @ self._r.T
        left = z - fitted
        if self._sum_is_one:
            # Give -inf to a pixel without endmembers, so that any endmember may join.
            dual = np.einsum("ij,ij->i", fitted, left)[:, None] - left @ self._r
            dual[~present.any(axis=1)] = -np.inf
        else:
            dual = -left @ self._r
        return y, np.where(present, 0.0, dual)

    def _pivot(self, z: Floats) -> Floats:
        """Return abundances that are not negative, by block principal pivoting."""
        n, p = len(z), self._r.shape[1]
        result = np.empty((n, p))
        left = np.arange(n)
        present = np.ones((n, p), dtype=bool)
        fewest = np.full(n, p + 1)  # least number of wrong signs so far
        tries = np.full(n, 3)  # full exchanges left that may bring no progress
        lengths = np.linalg.norm(self._r, axis=0)
        sizes = np.linalg.norm(z, axis=1)[:, None]
        if self._sum_is_one:
            tiny = np.full((n, p), _TINY)
            tiny_dual = _TINY * (sizes + lengths.max()) * lengths
        else:
            tiny, tiny_dual = _TINY * sizes / lengths, _TINY * sizes * lengths
        for _ in range(_PATIENCE * p):
            y, dual = self._solve(z[left], present)
            wrong = np.where(present, y < -tiny[left], dual < -tiny_dual[left])
            number = wrong.sum(axis=1)
            done = number == 0
            result[left[done]] = np.maximum(y[done], 0.0)
            if done.all():
                return result
            go = ~done
            left, present, wrong, number = left[go], present[go], wrong[go], number[go]
            fewest, tries = fewest[go], tries[go]
            better = number < fewest
            tries = np.where(better, 3, tries - 1)
            fewest = np.where(better, number, fewest)
            single = tries < 0  # exchanging only the last wrong sign always terminates
            last = p - 1 - wrong[:, ::-1].argmax(axis=1)
            wrong[single] &= np.arange(p) == last[single, None]
            present ^= wrong
        result[left] = self._one_by_one(z[left])
        return result

    def _one_by_one(self, z: Floats) -> Floats:
        """Solve by SciPy the pixels that rounding keeps from terminating: one in many scenes."""
        nnls = require("scipy.optimize", "apps", "unmixing").nnls
        rows = np.empty((len(z), self._r.shape[1]))
        for k, x in enumerate(z):
            if self._sum_is_one:
                scale = np.abs(self._r).max()
                columns = np.vstack([(self._r - x[:, None]) / scale, np.ones(self._r.shape[1])])
                u = nnls(columns, np.append(np.zeros(len(x)), 1.0))[0]
                rows[k] = u / u.sum()
            else:
                rows[k] = nnls(self._r, x)[0]
        return rows


class _Maps:
    """Least-squares solutions for sets of endmembers; matrices of common sets are kept.

    The normal equations of many sets are solved at once, and corrected by their residuals, so that
    the error is as small as that of a decomposition.
    """

    def __init__(self, r: Floats, sum_is_one: bool) -> None:
        self._scale = float(np.linalg.norm(r, axis=0).max())
        self._r = r / self._scale
        self._gram = self._r.T @ self._r
        self._sum_is_one = sum_is_one
        self._kept: dict[Any, Floats] = {}

    def __call__(self, z: Floats, present: NDArray[np.bool_]) -> Floats:
        """Return the abundances of each pixel's present endmembers, and zero for the others."""
        z = z / self._scale
        y = np.empty(present.shape)
        keys, first, which, counts = _sets(present)
        order = np.argsort(which, kind="stable")
        groups = np.split(order, np.cumsum(counts)[:-1])
        common = (counts >= _COMMON).tolist()
        rare = [np.empty(0, dtype=np.int64)]
        for key, at, same, many in zip(keys, first.tolist(), groups, common, strict=True):
            if many:
                matrix = self._matrix(key, present[at])
                y[same] = z[same] @ matrix[:-1] + matrix[-1]
            else:
                rare.append(same)
        apart = np.concatenate(rare)
        for part in batches(len(apart), max(1, _SYSTEMS // (8 * present.shape[1] ** 2))):
            some = apart[part]
            y[some] = self._solve(z[some], present[some])
        return y

    def _matrix(self, key: Any, present: NDArray[np.bool_]) -> Floats:
        """Return the matrix (k + 1, p) of a set, for z and a 1."""
        rows = self._kept.get(key)  # another thread may be filling or clearing `_kept`
        if rows is None:
            k, p = self._r.shape
            if (len(self._kept) + 1) * 8 * (k + 1) * p > _KEPT:
                self._kept.clear()
            rows = self._solve(np.vstack([np.eye(k), np.zeros(k)]), np.tile(present, (k + 1, 1)))
            rows[:-1] -= rows[-1]
            self._kept[key] = rows
        return rows

    def _solve(self, z: Floats, present: NDArray[np.bool_]) -> Floats:
        """Solve a system for each pixel."""
        n, p = present.shape
        tail = int(self._sum_is_one)
        there = present.astype(np.float64)
        system = np.zeros((n, p + tail, p + tail))
        np.multiply(self._gram * there[:, None, :], there[:, :, None], out=system[:, :p, :p])
        system[:, np.arange(p), np.arange(p)] += 1 - there
        if tail:
            system[:, :p, p] = system[:, p, :p] = there
            empty = ~present.any(axis=1)
            system[empty, p, p] = 1.0  # keep systems without endmembers solvable
        inverse = np.linalg.inv(system)
        x = np.zeros((n, p + tail))
        for _ in range(2):
            left = np.empty_like(x)
            left[:, :p] = (z - x[:, :p] @ self._r.T) @ self._r
            if tail:
                left[:, :p] -= x[:, p:]
                left[:, p] = 1 - x[:, :p].sum(axis=1)
                left[empty, p] = 0.0
            left[:, :p] *= there
            x += np.matmul(inverse, left[:, :, None])[:, :, 0]
        return x[:, :p] * there


def _sets(
    present: NDArray[np.bool_],
) -> tuple[list[Any], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the sets as keys, the first pixel of each, each pixel's set, and their counts."""
    packed = np.packbits(present, axis=1)
    if packed.shape[1] <= 8:
        wide = np.zeros((len(packed), 8), dtype=np.uint8)
        wide[:, : packed.shape[1]] = packed
        numbers = wide.view(np.uint64)[:, 0]
        keys, *rest = np.unique(numbers, True, True, True)
        return keys.tolist(), *rest
    rows, first, which, counts = np.unique(packed, True, True, True, axis=0)
    return [row.tobytes() for row in rows], first, which.reshape(-1), counts


def _with_sum_one(r: Floats) -> tuple[Floats, Floats]:
    """Return the matrix and the offset of least squares with a sum of 1.

    Endmembers are taken relative to the first, so the matrix has full rank if they are affinely
    independent.
    """
    p = r.shape[1]
    inverse = np.linalg.pinv(r[:, 1:] - r[:, :1]) if p > 1 else np.zeros((0, len(r)))
    matrix = np.vstack([-inverse.sum(axis=0), inverse])
    offset = -matrix @ r[:, 0]
    offset[0] += 1
    return matrix, offset
