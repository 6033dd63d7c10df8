"""NumPy's functions for indexing: elements taken, put and found by their places."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from extarray.common.errors import ArgumentError, BoundsError
from extarray.grid.tiles import tiles
from extarray.numpy_api.registry import streams
from extarray.streaming.blocks import (
    Source,
    read_elements,
    read_exactly,
    write_elements,
    write_exactly,
)
from extarray.streaming.derived import flat
from extarray.streaming.elementwise import new_result, part_of
from extarray.streaming.limits import check_result
from extarray.streaming.operands import (
    as_array,
    chunks_of,
    converted,
    hollow,
    in_memory,
    separate,
    step_bytes,
    store,
    target_for,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


__all__ = ["cycled", "diagonal", "gather", "nonzero", "pieces", "place_bytes", "scatter", "take"]


def pieces(x: Any, *others: Any) -> Iterator[slice]:
    """Yield consecutive ranges of a 1-d array, with memory left for the same ranges of `others`."""
    itemsize = sum(y.dtype.itemsize for y in (x, *others))
    for (piece,) in tiles(x.shape, chunks_of(x), itemsize, limit=step_bytes()):
        yield piece


# -- taking --------------------------------------------------------------------------------------


def _places(indices: Any, n: int, mode: str, axis: int) -> NDArray[np.intp]:
    """Return indices into an axis of length `n`, each in [0, n)."""
    places: Any = converted(indices, np.intp)
    # An empty sample makes NumPy refuse other dtypes and modes.
    np.take(np.empty(1), np.empty(0, places.dtype), mode=mode)  # type: ignore[call-overload]
    places = places.astype(np.intp, copy=False)
    if places.size and n == 0:
        raise BoundsError("cannot do a non-empty take from an empty axes.")
    result: NDArray[np.intp]
    if mode == "wrap":
        result = places % max(n, 1)
    elif mode == "clip":
        result = np.clip(places, 0, n - 1)
    else:
        wrong = (places < -n) | (places >= n)
        if wrong.any():
            raise BoundsError(
                f"index {places[wrong].flat[0]} is out of bounds for axis {axis} with size {n}"
            )
        result = np.where(places < 0, places + n, places) if np.any(places < 0) else places
    return result


@streams(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    """Streamed form: elements, or slices along an axis, by their indices."""
    a = as_array(a)
    if not isinstance(a, Source) or not a.shape:
        return NotImplemented  # only the indices or the output are ours
    indices = converted(in_memory(indices, "take"), np.intp)
    if axis is None:
        shape: tuple[int, ...] = indices.shape
        before: tuple[int, ...] = ()
        after: tuple[int, ...] = ()
        n = math.prod(a.shape)
    else:
        axis = normalize_axis_index(axis, len(a.shape))
        before, after, n = a.shape[:axis], a.shape[axis + 1 :], a.shape[axis]
        shape = (*before, *indices.shape, *after)
    places: Any = _places(indices, n, mode, 0 if axis is None else axis)
    _refuse(a, out)
    target = target_for(out, shape, a.dtype, "take", "unsafe")
    a = separate(a, out)
    everywhere = tuple(slice(0, m) for m in before), tuple(slice(0, m) for m in after)
    row = math.prod((*before, *after)) * a.dtype.itemsize
    # Indices take memory, too.
    row += place_bytes(a) if axis is None else _PLACE
    for box in tiles(indices.shape, indices.shape, 1, limit=max(1, step_bytes() // row)):
        chosen = places[(*box, ...)]
        if axis is None:
            values = _at(a, np.unravel_index(chosen, a.shape)) if n else np.empty(chosen.shape)
        else:
            values = _at(a, (*everywhere[0], chosen))
        store(target, (*everywhere[0], *box, *everywhere[1]), values)
    return target if out is not None or shape else target[()]


def _refuse(a: Any, out: Any) -> None:
    """Raise NumPy's error if `out`, which NumPy buffers, does not cast safely to `a.dtype`."""
    if isinstance(out, (Source, np.ndarray)):
        np.take(np.zeros(1, a.dtype), [0], out=np.zeros(1, out.dtype))


def _at(a: Any, key: tuple[Any, ...]) -> NDArray[Any]:
    """Read a selection of an array; `a` may be a copy in memory, if it is the output, too."""
    selected: NDArray[Any] = read_elements(a, key) if isinstance(a, Source) else a[key]
    return selected


def gather(a: Source, places: range) -> NDArray[Any]:
    """Return the elements at evenly spaced places, as 1-d array, if the limits allow it."""
    result = new_result((len(places),), a.dtype, "flat")
    for piece, key in _portions(a, places):
        result[piece] = read_exactly(a, key)
    return result


#: Bytes of one index.
_PLACE = np.dtype(np.intp).itemsize


def place_bytes(a: Source) -> int:
    """Return the bytes that an element's place takes, in C order and as one index per axis."""
    return _PLACE * (2 + len(a.shape))


def _portions(a: Source, places: Any) -> Iterator[tuple[slice, tuple[Any, ...]]]:
    """Yield ranges of `places`, with the index of each; a range and its elements fit in memory."""
    step = max(1, step_bytes() // (place_bytes(a) + a.dtype.itemsize))
    shape = a.shape
    for low in range(0, len(places), step):
        some = places[low : low + step]
        if isinstance(some, range):
            some = np.arange(some.start, some.stop, some.step)
        yield slice(low, low + len(some)), np.unravel_index(some, shape) if shape else ()


@streams(np.compress)
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """Streamed form: take the slices along an axis for which a condition holds."""
    a, condition = as_array(a), as_array(condition)
    if len(condition.shape) != 1:
        raise ArgumentError("condition must be a 1-d array")
    if not isinstance(a, Source) or axis is not None:
        (places,) = nonzero(condition)
        return take(a, places, axis, out)
    return _where_true(condition, flat(a), out, "compress")


@streams(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """Streamed form: take the elements for which a condition holds."""
    return _where_true(flat(as_array(condition)), flat(as_array(arr)), None, "extract")


def _where_true(condition: Any, x: Any, out: Any, name: str) -> Any:
    """Return the elements of `x` where `condition` holds; both have one axis."""
    n = min(condition.shape[0], x.shape[0])
    for piece in pieces(condition):
        if piece.stop > n and np.any(part_of(condition, (piece,))[max(0, n - piece.start) :]):
            at = max(n, piece.start)
            raise BoundsError(f"index {at} is out of bounds for axis 0 with size {x.shape[0]}")
    count = sum(int(np.count_nonzero(part_of(condition, (p,)))) for p in pieces(condition))
    _refuse(x, out)
    target = target_for(out, (count,), x.dtype, name, "unsafe")
    x = separate(x, out)
    at = 0
    for piece in pieces(x, condition):
        box = (slice(piece.start, min(piece.stop, n)),)
        if box[0].stop <= box[0].start:
            break
        places = np.flatnonzero(part_of(condition, box))
        if places.size:
            values = part_of(x, box)[places]
            store(target, (slice(at, at + len(values)),), values)
            at += len(values)
    return target


# -- putting -------------------------------------------------------------------------------------


@streams(np.put)
def put(a: Any, ind: Any, v: Any, mode: Any = "raise") -> Any:
    """Streamed form: write values to places in C order; the last of equal places wins."""
    if not isinstance(a, Source):
        return NotImplemented
    places = np.ravel(converted(in_memory(ind, "put"), np.intp))
    values = np.ravel(converted(in_memory(v, "put"), a.dtype))
    np.put(np.empty(0, a.dtype), np.empty(0, places.dtype), values[:0], mode)  # type: ignore[arg-type]
    if not len(values):
        return None  # NumPy ignores the places
    scatter(a, _places(places, math.prod(a.shape), mode, 0), values)
    return None


def scatter(a: Source, places: NDArray[np.intp] | range, values: NDArray[Any]) -> None:
    """Write values, repeated if too few, to places in C order; the last of equal places wins."""
    if not len(values):
        return
    for piece, key in _portions(a, places):
        new = cycled(values, piece.start, piece.stop)
        write_exactly(a, key, new if key else new[-1])


def cycled(values: NDArray[Any], low: int, high: int) -> NDArray[Any]:
    """Return values low ... high - 1 of the values repeated endlessly.

    Do not write to the result: it may be a view.

    Examples
    --------
    >>> cycled(np.array([5, 6, 7]), 2, 6)
    array([7, 5, 6, 7])
    """
    if len(values) == 1:
        return np.broadcast_to(values, (high - low,))
    if high <= len(values):
        return values[low:high]
    return values[np.arange(low, high) % len(values)]


@streams(np.putmask)
def putmask(a: Any, /, mask: Any, values: Any) -> Any:
    """Streamed form: write values where a mask holds, each at its own place in C order."""
    if not isinstance(a, Source):
        return NotImplemented
    mask = as_array(mask)
    if mask.shape != a.shape and math.prod(mask.shape) != math.prod(a.shape):
        raise ArgumentError("putmask: mask and data must be the same size")
    values = converted(values, a.dtype)
    np.putmask(np.empty(0, a.dtype), np.empty(0, bool), np.empty(0, values.dtype))
    if math.prod(values.shape) != math.prod(a.shape):
        values = in_memory(values, "putmask")
    values, mask = flat(separate(values, a)), flat(separate(mask, a))
    n = values.shape[0]
    if n == 0:
        return None
    for piece in pieces(mask, values):
        chosen = np.asarray(part_of(mask, (piece,)), bool)
        if not chosen.any():
            continue
        if n == mask.shape[0]:
            new = part_of(values, (piece,))[chosen]
        else:
            new = values[(np.flatnonzero(chosen) + piece.start) % n]
        _put_where(a, piece.start, chosen, new)
    return None


@streams(np.place)
def place(arr: Any, mask: Any, vals: Any) -> Any:
    """Streamed form: write consecutive values where a mask holds."""
    if not isinstance(arr, Source):
        return NotImplemented
    mask = as_array(mask)
    if math.prod(mask.shape) != math.prod(arr.shape):
        raise ArgumentError("place: mask and data must be the same size")
    values = np.ravel(converted(in_memory(vals, "place"), arr.dtype))
    np.place(np.empty(0, arr.dtype), np.empty(0, bool), values[:0])  # raises NumPy's errors
    mask = flat(separate(mask, arr))
    done = 0
    for piece in pieces(mask, arr):
        chosen = np.asarray(part_of(mask, (piece,)), bool)
        count = int(np.count_nonzero(chosen))
        if not count:
            continue
        if not len(values):
            raise ArgumentError("Cannot insert from an empty array!")
        _put_where(arr, piece.start, chosen, cycled(values, done, done + count))
        done += count
    return None


def _put_where(target: Source, start: int, chosen: NDArray[np.bool], values: Any) -> None:
    """Write to the chosen elements of a range in C order, and touch no others."""
    places = np.flatnonzero(chosen) + start
    if target.shape:
        write_elements(target, np.unravel_index(places, target.shape), values)
    else:
        write_elements(target, (), values[0])


# -- finding -------------------------------------------------------------------------------------


@streams(np.nonzero)
def nonzero(a: Any) -> Any:
    """Streamed form: return the indices of nonzero elements, an array per axis."""
    a = as_array(a)
    if not isinstance(a, Source) or not a.shape:
        return np.nonzero(read_elements(a) if isinstance(a, Source) else a)
    found = _flat_places(a)
    return np.unravel_index(found, a.shape) if len(a.shape) > 1 else (found,)


@streams(np.argwhere)
def argwhere(a: Any) -> Any:
    """Streamed form: return the indices of nonzero elements, a row per element."""
    if not a.shape:
        return NotImplemented
    return np.stack(nonzero(a), axis=-1)


@streams(np.flatnonzero)
def flatnonzero(a: Any) -> Any:
    """Streamed form: return the places in C order of nonzero elements."""
    return _flat_places(as_array(a))


def _flat_places(a: Any) -> NDArray[np.intp]:
    elements = flat(a)
    found = [np.empty(0, np.intp)]
    nbytes = 0
    for piece in pieces(elements):
        places = np.flatnonzero(part_of(elements, (piece,))) + piece.start
        found.append(places)
        nbytes += places.nbytes * (1 + len(a.shape))
        check_result(
            nbytes, "the indices of elements that are not zero: they", "parts of the array"
        )
    return np.concatenate(found)


# -- diagonals -----------------------------------------------------------------------------------


@streams(np.diagonal)
def diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    """Streamed form: read only the boxes that the diagonals cross."""
    np.diagonal(hollow(a), 0, axis1, axis2)  # raises NumPy's errors
    ndim = len(a.shape)
    j, k = normalize_axis_index(axis1, ndim), normalize_axis_index(axis2, ndim)
    down, right = max(0, -offset), max(0, offset)
    n = max(0, min(a.shape[j] - down, a.shape[k] - right))
    rest = [i for i in range(ndim) if i not in (j, k)]
    target = target_for(None, (*[a.shape[i] for i in rest], n), a.dtype, "diagonal")
    chunks = chunks_of(a)
    step = max(1, min(chunks[j], chunks[k]))
    # Tile the result, an array over the other axes and the diagonal.
    shape, parts = (*[a.shape[i] for i in rest], n), (*[chunks[i] for i in rest], step)
    for box in tiles(shape, parts, a.dtype.itemsize * step, limit=step_bytes()):
        own: list[Any] = [None] * ndim
        for i, piece in zip(rest, box, strict=False):
            own[i] = piece
        for low in range(box[-1].start, box[-1].stop, step):
            high = min(low + step, box[-1].stop)
            own[j], own[k] = slice(low + down, high + down), slice(low + right, high + right)
            store(
                target, (*box[:-1], slice(low, high)), np.diagonal(part_of(a, tuple(own)), 0, j, k)
            )
    return target


@streams(np.trace)
def trace(
    a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, out: Any = None
) -> Any:
    """Streamed form: sum `diagonal`."""
    a = as_array(a)
    if len(a.shape) < 2 or not isinstance(a, Source):
        return NotImplemented
    return np.sum(diagonal(a, offset, axis1, axis2), -1, dtype, out)
