"""Sorting along an axis, by whole lanes; sets of values; places in a sorted array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from extarray.common.arguments import axis_named
from extarray.numpy_api.indexing import pieces
from extarray.numpy_api.registry import streams
from extarray.streaming.blocks import Source, axis_names, read_elements
from extarray.streaming.derived import flat
from extarray.streaming.elementwise import assigning, elementwise, part_of
from extarray.streaming.lanes import map_lanes
from extarray.streaming.limits import check_result
from extarray.streaming.operands import (
    as_array,
    hollow,
    in_memory,
    target_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["change_lanes"]


# -- lanes ---------------------------------------------------------------------------------------


def _by_lanes(function: Callable[..., Any], a: Any, axis: Any, **options: Any) -> Any:
    """Sort or partition the lanes of a copy, or the places of their elements."""
    a = as_array(a)
    if not a.shape or 0 in a.shape:
        return NotImplemented
    if axis is None:
        a, axis = flat(a), -1
    axis = normalize_axis_index(axis, len(a.shape))
    dtype = a.dtype if function in (np.sort, np.partition) else np.dtype(np.intp)
    target = target_for(None, a.shape, dtype, function.__name__)
    map_lanes(lambda part: function(part, axis=axis, **options), a, axis, target, function.__name__)
    return target


@streams(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, **options: Any) -> Any:
    """Streamed form: sort lanes."""
    return _by_lanes(np.sort, a, axis, kind=kind, order=order, **options)


@streams(np.argsort)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, **options: Any) -> Any:
    """Streamed form: return the places of the elements of sorted lanes."""
    return _by_lanes(np.argsort, a, axis, kind=kind, order=order, **options)


@streams(np.partition)
def partition(
    a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None
) -> Any:
    """Streamed form: put the k-th element of each lane in its place."""
    return _by_lanes(np.partition, a, axis, kth=kth, kind=kind, order=order)


@streams(np.argpartition)
def argpartition(
    a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None
) -> Any:
    """Streamed form: return the places of the elements of partitioned lanes."""
    return _by_lanes(np.argpartition, a, axis, kth=kth, kind=kind, order=order)


def change_lanes(function: Callable[..., Any], a: Any, axis: Any, /, **options: Any) -> None:
    """Sort or partition the lanes of one of our arrays in place.

    Parameters
    ----------
    function : callable
        ``np.sort`` or ``np.partition``.
    a : Source
    axis : int or str
    **options
        Options of `function`.
    """
    if isinstance(axis, str):
        axis = axis_named(axis, axis_names(a))
    if not a.shape or 0 in a.shape:
        function(read_elements(a), axis=axis, **options)  # raises NumPy's errors
        return
    axis = normalize_axis_index(axis, len(a.shape))
    map_lanes(lambda part: function(part, axis=axis, **options), a, axis, a, function.__name__)


# -- sets of values ------------------------------------------------------------------------------


class _Values:
    """Sorted distinct values, with the number and the first place of each."""

    def __init__(self, dtype: np.dtype[Any], equal_nan: bool) -> None:
        self.values: NDArray[Any] = np.empty(0, dtype)
        self.counts = np.empty(0, np.intp)
        self.first = np.empty(0, np.intp)
        self._equal_nan = equal_nan
        self._parts: list[tuple[NDArray[Any], NDArray[np.intp], NDArray[np.intp]]] = []
        self._waiting = 0

    def add(self, part: NDArray[Any], start: int) -> None:
        """Add a part, whose first element is at place `start`."""
        values, first, counts = np.unique(
            part, return_index=True, return_counts=True, equal_nan=self._equal_nan
        )
        self._parts.append((values, first + start, counts))
        self._waiting += len(values)
        # Merge once as many values wait as are merged: the work of a sort, not of insertions.
        if self._waiting >= max(len(self.values), 1 << 16):
            self.merge()

    def merge(self) -> None:
        """Merge the waiting parts."""
        parts = [(self.values, self.first, self.counts), *self._parts]
        first, counts = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
        # Name the dtype; otherwise the byte order would become the machine's.
        values = np.concatenate([part[0] for part in parts], dtype=self.values.dtype)
        self.values, inverse = np.unique(values, return_inverse=True, equal_nan=self._equal_nan)
        self.counts = np.zeros(len(self.values), np.intp)
        np.add.at(self.counts, inverse, counts)
        self.first = np.full(len(self.values), np.iinfo(np.intp).max)
        np.minimum.at(self.first, inverse, first)
        self._parts, self._waiting = [], 0
        check_result(
            self.values.nbytes + 16 * len(self.values),
            "the distinct values: they",
            "np.histogram, or parts of the array",
        )


@streams(np.unique)
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    **options: Any,
) -> Any:
    """Streamed form: return the sorted distinct values."""
    ar = as_array(ar)
    if axis is not None or ar.dtype.kind not in "?biufcmMSU" or not options.get("sorted", True):
        return NotImplemented
    elements = flat(ar)
    found = _Values(ar.dtype, equal_nan)
    for piece in pieces(elements):
        found.add(part_of(elements, (piece,)), piece.start)
    found.merge()
    values = found.values
    # NumPy alone knows how to order complex NaNs, or NaNs that are not equal.
    unordered = values.dtype.kind in "cmM" or not equal_nan
    if return_inverse and unordered and np.any(values != values):
        return NotImplemented
    result: list[Any] = [values]
    if return_index:
        result.append(found.first)
    if return_inverse:
        # The shape of the inverse depends on NumPy's version; try it on one element.
        shape = np.unique(np.zeros((1,) * len(ar.shape), ar.dtype), return_inverse=True)[1].ndim
        inverse = target_for(None, elements.shape, np.intp, "unique")
        for piece in pieces(elements):
            inverse[piece] = np.searchsorted(values, part_of(elements, (piece,)))
        result.append(inverse.reshape(ar.shape) if shape == len(ar.shape) else inverse)
    if return_counts:
        result.append(found.counts)
    return tuple(result) if len(result) > 1 else values


def _stream_of_unique(function: Callable[..., Any], **fixed: Any) -> None:
    """Register a function that returns results of `unique` as a named tuple."""

    @streams(function)
    def form(x: Any, /) -> Any:
        result = unique(x, equal_nan=False, **fixed)
        if result is NotImplemented or not fixed:
            return result
        kind = type(function(np.zeros(1)))
        return kind(*result)


_stream_of_unique(np.unique_values)
_stream_of_unique(np.unique_counts, return_counts=True)
_stream_of_unique(np.unique_inverse, return_inverse=True)
_stream_of_unique(np.unique_all, return_index=True, return_inverse=True, return_counts=True)


def _distinct(x: Any) -> Any:
    """Return the distinct values of an argument of a set function."""
    if not isinstance(x, Source):
        return x
    values = unique(x)
    return read_elements(x) if values is NotImplemented else values


@streams(np.isin)
def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
) -> Any:
    """Streamed form: tell whether each element is among others."""
    test = _distinct(test_elements)
    if not isinstance(element, Source) or not element.shape:
        element = in_memory(element, "isin")
        return np.isin(element, test, assume_unique, invert, kind=kind)

    def call(part: Any) -> Any:
        return np.isin(part, test, assume_unique, invert, kind=kind)

    return elementwise(assigning(call), [element], dtype=bool, name="isin")


@streams(np.union1d)
def union1d(ar1: Any, ar2: Any) -> Any:
    """Streamed form: return the distinct values of either array."""
    return np.union1d(_distinct(ar1), _distinct(ar2))


@streams(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """Streamed form: return the distinct values of the first array that the second lacks."""
    if assume_unique:
        return NotImplemented  # NumPy keeps the order of the elements
    return np.setdiff1d(_distinct(ar1), _distinct(ar2))


@streams(np.setxor1d)
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """Streamed form: return the distinct values of exactly one of the arrays."""
    return np.setxor1d(_distinct(ar1), _distinct(ar2))


@streams(np.intersect1d)
def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """Streamed form: return the distinct values that both arrays have."""
    if return_indices:
        return NotImplemented
    return np.intersect1d(_distinct(ar1), _distinct(ar2))


# -- places in a sorted array --------------------------------------------------------------------


class _Blocks:
    """A sorted array; a search reads only the blocks in which a value belongs."""

    def __init__(self, a: Source, side: Any) -> None:
        self._a = a
        self._side = side
        self._pieces = list(pieces(a))
        ends = np.array([piece.stop - 1 for piece in self._pieces], np.intp)
        self._last = read_elements(a, (ends,))

    def find(self, v: Any) -> Any:
        """Return the places where values belong."""
        values = np.ravel(v)
        which = np.searchsorted(self._last, values, self._side)
        places = np.full(values.shape, self._a.shape[0], np.intp)
        order = np.argsort(which, kind="stable")
        starts = np.searchsorted(which[order], np.arange(len(self._pieces) + 1))
        for i in np.flatnonzero(np.diff(starts)):
            some, piece = order[starts[i] : starts[i + 1]], self._pieces[i]
            block = part_of(self._a, (piece,))
            places[some] = np.searchsorted(block, values[some], self._side) + piece.start
        return places.reshape(np.shape(v))[()]


@streams(np.searchsorted)
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """Streamed form: find where values belong in a sorted array."""
    v = as_array(v)
    if isinstance(a, Source):
        if sorter is not None or len(a.shape) != 1:
            return NotImplemented
        np.searchsorted(hollow(a), np.empty(0, v.dtype), side)  # raises NumPy's errors
        find = _Blocks(a, side).find
    else:
        whole, order = np.asarray(a), in_memory(sorter, "searchsorted")

        def find(v: Any) -> Any:
            return np.searchsorted(whole, v, side, order)

    if not isinstance(v, Source) or not v.shape:
        return find(in_memory(v, "searchsorted"))
    return elementwise(assigning(find), [v], dtype=np.intp, name="searchsorted")
