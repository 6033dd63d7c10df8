"""Abundances of endmembers in each pixel, by least squares under constraints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from extarray import ArgumentError
from extarray.apps.hyperspectral_blocks import Floats, as_spectra, batches, spectra_given
from extarray.common.extras import require

__all__ = ["Fit", "abundances"]

#: Bytes of a block: the more pixels, the more of them share the endmembers that they contain.
LARGE = 16 * 2**20

#: Bytes of the matrices that are kept; the sets of endmembers of a scene are far fewer as a rule.
_KEPT = 16 * 2**20

#: Bytes of systems that are solved together.
_SYSTEMS = 2**20

#: Pixels of a block with the same set of endmembers for which it has a matrix.
_COMMON = 8

#: Whether the sum of abundances is 1, and whether they may be negative.
_METHODS = {
    "ucls": (False, True),
    "scls": (True, True),
    "nnls": (False, False),
    "fcls": (True, False),
}

#: Relative size of a negative abundance, or gain, that is none but rounding.
_TINY = 1e-11

#: Rounds of exchanges for each endmember, before SciPy takes over.
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
    """Unmix a scene: the abundances of endmembers that fit each pixel best, by least squares.

    Parameters
    ----------
    a : ExtArray, array, DataArray or image of SPy
        Scene of three axes.
    endmembers : array, (p, bands)
        Their spectra, such as `atgp` and `nfindr` find.
    method : {"fcls", "nnls", "scls", "ucls"}
        "ucls": any abundances.  "scls": their sum is 1.  "nnls": none is negative.  "fcls": both.
        The constraints hold exactly, not by a weight.
    band_axis : int or str, optional
        The axis of the bands, or its name; see `pct`.
    mask : array of bool, (rows, columns), optional
        True where a pixel is left out; see `pct`.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work; see `pct`.
    max_memory : int or str, optional
        Bytes of temporary memory a rank.
    path : path, optional
        Of an array for the result.

    Returns
    -------
    ndarray or ExtArray, (rows, columns, p)
        NaN where a pixel has no data.  An ExtArray at `path`, or in a temporary file where it takes
        more than half of `max_memory`.

    Raises
    ------
    ArgumentError
        The endmembers depend on each other linearly (with a sum of 1: affinely), so that the
        abundances are not determined.

    Notes
    -----
    Constraints of sign are met by block principal pivoting (Kim and Park 2011), for all pixels of a
    block together: those whose present endmembers are the same are one product of matrices.  A sum
    of 1 beside them is the least distance to a convex hull, which is such a problem again.

    Examples
    --------
    >>> import numpy as np
    >>> from extarray.apps import hyperspectral
    >>> spectra = np.array([[1.0, 0, 0, 1], [0, 2, 0, 1]])
    >>> scene = np.array([[[0.25, 1.5, 0, 1], [-3, 2, 0, 1]]])
    >>> hyperspectral.abundances(scene, spectra).round(9).tolist()
    [[[0.25, 0.75], [0.0, 1.0]]]
    """
    spectra = as_spectra(a, band_axis, comm, max_memory, mask, LARGE)
    members = spectra_given(endmembers, spectra.bands, "endmembers")
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
        """Return abundances of the present endmembers, and for the others how the fit would suffer.

        A pixel is solved where both are nowhere negative.
        """
        y = self._maps(z, present)
        fitted = y @ self._r.T
        left = z - fitted
        if self._sum_is_one:
            # Of a pixel without endmembers, -1: any of them may come.
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
        fewest = np.full(n, p + 1)  # so few signs were wrong at best
        tries = np.full(n, 3)  # exchanges of all that is wrong that may bring nothing
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
            single = tries < 0  # one at a time, the last one, always comes to an end
            last = p - 1 - wrong[:, ::-1].argmax(axis=1)
            wrong[single] &= np.arange(p) == last[single, None]
            present ^= wrong
        result[left] = self._one_by_one(z[left])
        return result

    def _one_by_one(self, z: Floats) -> Floats:
        """Solve by SciPy what rounding keeps from coming to an end: a pixel in many scenes."""
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
    """Solutions of least squares for sets of endmembers; those of many pixels are matrices, kept.

    The normal equations of many sets are solved at once, and corrected with what they leave, so
    that the error is that of a decomposition.
    """

    def __init__(self, r: Floats, sum_is_one: bool) -> None:
        self._scale = float(np.linalg.norm(r, axis=0).max())
        self._r = r / self._scale
        self._gram = self._r.T @ self._r
        self._sum_is_one = sum_is_one
        self._kept: dict[Any, Floats] = {}

    def __call__(self, z: Floats, present: NDArray[np.bool_]) -> Floats:
        """Return the abundances of the present endmembers of each pixel, and zero of the others."""
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
        rows = self._kept.get(key)  # which another thread may be about to fill or clear
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
            system[empty, p, p] = 1.0  # of no endmember, a system that has a solution
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
    """Return the sets as keys, where each is first, which one each pixel has, and their counts."""
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
    """Return a matrix and an offset: least squares with a sum of 1.

    One endmember is what the others are counted from, so the matrix has full rank where the
    endmembers are affinely independent.
    """
    p = r.shape[1]
    inverse = np.linalg.pinv(r[:, 1:] - r[:, :1]) if p > 1 else np.zeros((0, len(r)))
    matrix = np.vstack([-inverse.sum(axis=0), inverse])
    offset = -matrix @ r[:, 0]
    offset[0] += 1
    return matrix, offset
