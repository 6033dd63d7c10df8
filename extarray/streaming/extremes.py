"""Cells of several elements, each shown by its extreme, so that none of them hides.

A picture has fewer places than a large array has elements.  If it showed every nth element, a spike
between them would be missing.  So each place shows the element of its cell that is farthest from
the cell's mean; a line shows the least and the greatest of each run, where they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ends", "extreme_places", "extremes", "extremes_in_bands", "extremes_of_groups"]

_FEW = 16  # elements of a run; longer runs are folded one by one, shorter ones all together
_EXACT = 1 << 53  # integers up to here are floats, too

Read = Callable[[tuple[slice, ...]], NDArray[Any]]


def extremes(values: NDArray[Any], steps: Sequence[int]) -> NDArray[Any]:
    """Return the element of each cell that is farthest from the mean of the cell.

    Parameters
    ----------
    values : ndarray
        Booleans, real numbers, dates or durations.  A cell shows NaN, or NaT, only if it has
        nothing else.
    steps : sequence of int
        Elements of a cell along each axis; the last cell may have fewer.

    Examples
    --------
    >>> extremes(np.array([[1, 1, 1, 1, 1], [1, 1, 9, 1, 1], [1, 1, 1, 1, -5]]), (3, 2)).tolist()
    [[1, 9, -5]]
    """
    if all(step == 1 for step in steps):
        return values
    if values.dtype.kind == "b":
        return extremes(values.view(np.uint8), steps).view(np.bool_)
    low, high = (_folded(ufunc, values, steps) for ufunc in (np.fmin, np.fmax))
    least, greatest = low, high
    if values.dtype.kind in "iu" and low.size and max(-int(low.min()), int(high.max())) > _EXACT:
        # Floats could not tell neighbours apart; differences from the least element are exact.
        base = low.min().view(f"u{low.itemsize}")
        values, least, greatest = (
            each.view(f"u{each.itemsize}") - base for each in (values, low, high)
        )
    with np.errstate(all="ignore"):
        mean = _means(values, steps)
        is_high = _as_numbers(greatest) - mean >= mean - _as_numbers(least)
    return np.where(is_high, high, low)


def extreme_places(
    keys: NDArray[np.float64], steps: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row and the column of the extreme of each cell, for elements of any kind.

    Parameters
    ----------
    keys : ndarray of two axes
        A number for each element, by which elements are compared; NaN for those that count only
        where a cell has nothing else.
    steps : (int, int)
        As for `extremes`.

    Examples
    --------
    >>> rows, columns = extreme_places(np.array([[1.0, 1, 1], [1, 9, np.nan]]), (2, 2))
    >>> rows.tolist(), columns.tolist()
    ([[1, 0]], [[1, 2]])
    """
    (height, width), (down, across) = keys.shape, steps
    n, m = -(-height // down), -(-width // across)
    gone = np.isnan(keys)

    def end(find: Any, rest: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the place in each cell of its least or greatest number, and the number."""
        filled = np.full((n * down, m * across), rest)
        filled[:height, :width] = np.where(gone, rest, keys)
        cells = filled.reshape(n, down, m, across).swapaxes(1, 2).reshape(n, m, down * across)
        places = find(cells, axis=-1)
        return places, np.take_along_axis(cells, places[..., None], -1)[..., 0]

    (lows, low), (highs, high) = end(np.argmin, np.inf), end(np.argmax, -np.inf)
    with np.errstate(all="ignore"):
        mean = np.nan_to_num(_means(keys, steps), nan=0.0, posinf=0.0, neginf=0.0)
        place = np.where(high - mean >= mean - low, highs, lows)
    rows = np.arange(0, n * down, down)[:, None] + place // across
    columns = np.arange(0, m * across, across) + place % across
    return rows, columns


def extremes_in_bands(
    read: Read, shape: Sequence[int], steps: Sequence[int], at_once: int
) -> NDArray[Any]:
    """Return `extremes` of values that are read in bands along the first axis.

    Parameters
    ----------
    read : callable
        Returns the values of a box.
    shape, steps : sequence of int
    at_once : int
        About how many elements to read at once.
    """
    n, step = shape[0], steps[0]
    width = max(1, int(np.prod(shape[1:], dtype=np.int64)))
    band = max(1, at_once // (width * step)) * step
    rest = tuple(slice(0, m) for m in shape[1:])
    starts = range(0, n, band) or [0]
    parts = [extremes(read((slice(i, min(n, i + band)), *rest)), steps) for i in starts]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def extremes_of_groups(values: NDArray[Any], bounds: NDArray[np.int64], axis: int) -> NDArray[Any]:
    """Return the extreme of each of some groups of numbers along an axis, as `extremes` does.

    Parameters
    ----------
    values : ndarray
        Booleans or real numbers.
    bounds : ndarray, shape (groups, 2)
        The first index of each group, and the one after its last, in ascending order.
    axis : int

    Examples
    --------
    >>> extremes_of_groups(np.array([[1, 9, 1, 1, 4]]), np.array([[0, 3], [4, 5]]), 1).tolist()
    [[9, 4]]
    """
    starts, sizes = bounds[:, 0], bounds[:, 1] - bounds[:, 0]
    if (sizes <= 1).all():
        return np.asarray(np.take(values, starts, axis))
    if values.dtype.kind == "b":
        return extremes_of_groups(values.view(np.uint8), bounds, axis).view(np.bool_)
    # Between the groups stand others, which nobody asked for.
    parts = bounds.ravel()
    last = parts < values.shape[axis]

    def folded(ufunc: np.ufunc, each: NDArray[Any]) -> NDArray[Any]:
        found = ufunc.reduceat(each, parts[last], axis=axis)
        return np.asarray(np.take(found, np.arange(0, len(parts), 2), axis))

    low, high = folded(np.fmin, values), folded(np.fmax, values)
    numbers = values.astype(np.float64)
    known = np.isfinite(numbers)
    with np.errstate(all="ignore"):
        mean = folded(np.add, np.where(known, numbers, 0.0)) / folded(
            np.add, known.astype(np.int64)
        )
        is_high = high - mean >= mean - low
    return np.where(is_high, high, low)


def ends(values: NDArray[Any], step: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the places and values of the least and the greatest element of each run.

    Parameters
    ----------
    values : ndarray of one axis
        As for `extremes`.
    step : int
        Elements of a run; the last run may have fewer.

    Returns
    -------
    places, values : ndarray
        In the order of the elements: two of each run, or one if all of it are equal.  A run of NaN
        gives one NaN.

    Examples
    --------
    >>> places, found = ends(np.array([3, 1, 2, 7, 8, 8]), 3)
    >>> places.tolist(), found.tolist()
    ([0, 1, 3, 4], [3, 1, 7, 8])
    """
    n = len(values)
    if step == 1:
        return np.arange(n), values
    if values.dtype.kind == "b":
        places, _ = ends(values.view(np.uint8), step)
        return places, values[places]
    numbers = values.view(np.int64) if values.dtype.kind in "mM" else values
    lows, highs = numbers, numbers
    if (gone := _gaps(values)) is not None:
        least, greatest = _range_of(numbers.dtype)
        lows, highs = np.where(gone, greatest, numbers), np.where(gone, least, numbers)
    found = []
    whole = n // step * step
    for each, place in ((lows, np.argmin), (highs, np.argmax)):
        runs = place(each[:whole].reshape(-1, step), axis=1) + np.arange(0, whole, step)
        found.append(np.append(runs, whole + place(each[whole:])) if whole < n else runs)
    places = np.unique(np.concatenate(found))
    return places, values[places]


def _gaps(values: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Return which elements are NaN or NaT; None: no element is."""
    if values.dtype.kind not in "fmM":
        return None
    gone = np.isnat(values) if values.dtype.kind in "mM" else np.isnan(values)
    return gone if gone.any() else None


def _range_of(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return what is below and above all numbers of a dtype."""
    if dtype.kind == "f":
        return -np.inf, np.inf
    info = np.iinfo(dtype)
    return info.min, info.max


def _as_numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return dates and durations as counts of their unit; NaT becomes NaN."""
    if values.dtype.kind not in "mM":
        return values.astype(np.float64)
    return np.where(np.isnat(values), np.nan, values.view(np.int64))


def _means(values: NDArray[Any], steps: Sequence[int]) -> NDArray[np.float64]:
    """Return the mean of the finite elements of each cell."""
    numbers = _as_numbers(values)
    known = np.isfinite(numbers)
    if known.all():
        sizes = np.ones((), np.int64)
        for n, step in zip(values.shape, steps, strict=True):
            cells = [min(n, i + step) - i for i in range(0, n, step)]
            sizes = np.multiply.outer(sizes, np.array(cells, np.int64))
    else:
        numbers = np.where(known, numbers, 0.0)
        sizes = _folded(np.add, known.astype(np.int64), steps)
    return np.asarray(_folded(np.add, numbers, steps) / sizes)


def _folded(ufunc: np.ufunc, values: NDArray[Any], steps: Sequence[int]) -> NDArray[Any]:
    """Fold the elements of each cell by a ufunc."""
    for axis, step in enumerate(steps):
        if step > 1 and values.shape[axis]:
            values = _folded_along(ufunc, values, axis, step)
    return values


def _folded_along(ufunc: np.ufunc, values: NDArray[Any], axis: int, step: int) -> NDArray[Any]:
    """Fold runs of elements along an axis by a ufunc."""

    def part(*limits: int | None) -> NDArray[Any]:
        return values[(slice(None),) * axis + (slice(*limits),)]

    n = values.shape[axis]
    whole = n // step * step
    folded = []
    if whole and step < _FEW:
        # A call for each place in a run is faster than a short loop for each run.
        every = [part(k, whole, step) for k in range(step)]
        first = ufunc(every[0], every[1])
        for each in itertools.islice(every, 2, None):
            ufunc(first, each, out=first)
        folded.append(first)
    elif whole:
        runs = (*values.shape[:axis], whole // step, step, *values.shape[axis + 1 :])
        folded.append(ufunc.reduce(part(0, whole).reshape(runs), axis=axis + 1))
    if whole < n:
        folded.append(ufunc.reduce(part(whole, n), axis=axis, keepdims=True))
    return folded[0] if len(folded) == 1 else np.concatenate(folded, axis=axis)
