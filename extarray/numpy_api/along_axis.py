"""Functions along an axis: accumulations, differences, Fourier transforms, any user's function."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from extarray.common.config import config
from extarray.grid.chunking import product
from extarray.grid.tiles import axis_pieces, tiles
from extarray.numpy_api.reductions import ASSOCIATIVE, all_axes, can_stream, loop_dtype
from extarray.numpy_api.registry import streams
from extarray.streaming.blocks import Source, box_bytes, run
from extarray.streaming.derived import Computed, Joined, flat
from extarray.streaming.elementwise import apart, meet, new_result, part_of
from extarray.streaming.lanes import lane_bytes, lanes, map_lanes
from extarray.streaming.meta_arrays import shadow, single
from extarray.streaming.operands import as_array, chunks_of, hollow, in_memory, store, target_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box


__all__ = ["accumulate", "reduceat"]


def accumulate(
    ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None, out: tuple[Any, ...] = (None,)
) -> Any:
    """Stream ``ufunc.accumulate``; decline objects, and nonassociative ufuncs.

    Each box continues from the last elements of the box before it.
    """
    (given,) = out
    if ufunc not in ASSOCIATIVE or not can_stream(x):
        return NotImplemented
    with np.errstate(all="ignore"):  # raises NumPy's errors
        ufunc.accumulate(single(x), axis, dtype, single(given))
    dtype = loop_dtype(ufunc, x, dtype, given)
    if dtype.hasobject:
        return NotImplemented
    if given is not None and given.shape != x.shape:
        ufunc.accumulate(shadow(x), axis, None, shadow(given))
        return NotImplemented  # NumPy accepts an output with more axes
    (along,) = all_axes(axis, x.ndim)
    target = new_result(x.shape, dtype, "accumulate") if given is None else given
    operand = apart(x, (target,))

    def lane(boxes: Iterator[Box]) -> None:
        carry = None
        for box in boxes:
            block = part_of(operand, box).astype(dtype)
            if carry is not None:
                first = block[_at(along, slice(0, 1))]
                ufunc(carry, first, out=first)
            ufunc.accumulate(block, along, out=block)
            carry = block[_at(along, slice(-1, None))].copy()
            store(target, box, block)

    _run_lanes(lane, x, along, max(x.dtype.itemsize, dtype.itemsize))
    return target


def reduceat(
    ufunc: np.ufunc,
    x: Any,
    indices: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: tuple[Any, ...] = (None,),
) -> Any:
    """Stream ``ufunc.reduceat``; decline objects, unsorted indices, and nonassociative ufuncs."""
    (given,) = out
    firsts = np.asarray(indices)
    if (
        ufunc not in ASSOCIATIVE
        or not can_stream(x)
        or firsts.ndim != 1
        or firsts.dtype.kind not in "iu"
        or (np.diff(firsts) <= 0).any()
    ):
        return NotImplemented
    with np.errstate(all="ignore"):  # raises NumPy's errors
        ufunc.reduceat(single(x), [0], axis, dtype, single(given))
    dtype = loop_dtype(ufunc, x, dtype, given)
    if dtype.hasobject:
        return NotImplemented
    (along,) = all_axes(axis, x.ndim)
    shape = tuple(firsts.size if j == along else n for j, n in enumerate(x.shape))
    misfit = given is not None and given.shape != shape
    if misfit or (firsts.size and not 0 <= firsts[0] <= firsts[-1] < x.shape[along]):
        ufunc.reduceat(shadow(x), firsts, axis, None, shadow(given))
        raise AssertionError(f"cannot use indices {indices!r} with out {given!r} for {x!r}")
    # A dtype argument cannot carry the unit of dates, so dates keep their own dtype.
    chosen = None if dtype.kind in "mM" else dtype
    aside = given is None or isinstance(given, Source) or meet(x, given)
    target = new_result(shape, dtype, "reduceat") if aside else given

    def lane(boxes: Iterator[Box]) -> None:
        for box in boxes:
            low, high = box[along].start, box[along].stop
            # Sections that begin in this box, and the one that continues from the box before.
            begin, end = np.searchsorted(firsts, [low, high])
            goes_on = begin > 0 and (begin == end or firsts[begin] > low)
            starts = firsts[begin:end] - low
            if goes_on:
                starts = np.concatenate([[0], starts])
            if not starts.size:
                continue
            found = ufunc.reduceat(part_of(x, box), starts, along, chosen)
            place = target[tuple(slice(None) if j == along else s for j, s in enumerate(box))]
            if goes_on:
                before = place[_at(along, slice(begin - 1, begin))]
                ufunc(before, found[_at(along, slice(0, 1))], out=before)
                found = found[_at(along, slice(1, None))]
            place[_at(along, slice(begin, end))] = found

    _run_lanes(lane, x, along, max(x.dtype.itemsize, dtype.itemsize))
    if given is None or not aside:
        return target
    given[...] = target
    return given


def _at(axis: int, piece: slice) -> tuple[slice, ...]:
    """Return the index that selects a piece of an axis."""
    return (*[slice(None)] * axis, piece)


def _run_lanes(work: Callable[[Iterator[Box]], None], x: Any, axis: int, itemsize: int) -> None:
    """Call `work` once a lane, with the lane's boxes in order along the axis."""
    pieces = axis_pieces(x.shape, chunks_of(x), itemsize, limit=box_bytes())
    others = [(slice(0, 1),) if j == axis else piece for j, piece in enumerate(pieces)]

    def lane(_: int, box: Box) -> None:
        work((*box[:axis], piece, *box[axis + 1 :]) for piece in pieces[axis])

    run(lane, product(*others), math.prod(x.shape) * itemsize)


def _stream_cumulative(
    function: Callable[..., Any], ufunc: np.ufunc, past_nan: bool = False
) -> None:
    """Register a cumulative sum or product; `past_nan` skips NaNs."""

    def filled(part: NDArray[Any]) -> NDArray[Any]:
        return np.where(np.isnan(part), part.dtype.type(ufunc.identity), part)

    @streams(function)
    def form(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        a = as_array(a)
        if past_nan and a.dtype.kind in "fc":
            a = Computed(filled, a, dtype=a.dtype)
        return (
            accumulate(ufunc, flat(a), 0, dtype, (out,))
            if axis is None
            else accumulate(ufunc, a, operator.index(axis), dtype, (out,))
        )


_stream_cumulative(np.cumsum, np.add)
_stream_cumulative(np.cumprod, np.multiply)
_stream_cumulative(np.nancumsum, np.add, past_nan=True)
_stream_cumulative(np.nancumprod, np.multiply, past_nan=True)


def _stream_of_standard(function: Callable[..., Any], ufunc: np.ufunc) -> None:
    """Register a cumulative sum or product of the array API standard."""

    @streams(function)
    def form(
        x: Any,
        /,
        *,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        include_initial: bool = False,
    ) -> Any:
        x = as_array(x)
        if include_initial or (axis is None and len(x.shape) != 1):
            return NotImplemented
        return accumulate(ufunc, x, 0 if axis is None else axis, dtype, (out,))


if hasattr(np, "cumulative_sum"):  # new in NumPy 2.1
    _stream_of_standard(np.cumulative_sum, np.add)
    _stream_of_standard(np.cumulative_prod, np.multiply)


_ABSENT: Any = np._NoValue


# -- differences ---------------------------------------------------------------------------------


@streams(np.diff)
def diff(a: Any, n: Any = 1, axis: Any = -1, prepend: Any = _ABSENT, append: Any = _ABSENT) -> Any:
    """Streamed form: each box is read with the `n` elements behind it."""
    a = as_array(a)
    if n == 0 or not a.shape:
        return NotImplemented
    j = normalize_axis_index(axis, len(a.shape))
    around = [_edge(x, a, j) for x in (prepend, append) if x is not _ABSENT]
    if around:
        np.concatenate([hollow(x) for x in (a, *around)], j)  # raises NumPy's errors
        before = around[: prepend is not _ABSENT]
        parts = [*before, a, *around[len(before) :]]
        if any(_others(x, j) != _others(a, j) for x in parts):
            return NotImplemented
        a = Joined(parts, j, np.result_type(*[x.dtype for x in parts]))
    dtype = np.diff(hollow(a), n, j).dtype
    extent = max(0, a.shape[j] - n)
    target = target_for(None, (*a.shape[:j], extent, *a.shape[j + 1 :]), dtype, "diff")

    def work(_: int, box: Box) -> None:
        wider = (*box[:j], slice(box[j].start, box[j].stop + n), *box[j + 1 :])
        store(target, box, np.diff(part_of(a, wider), n, j))

    itemsize = a.dtype.itemsize + dtype.itemsize
    boxes = tiles(target.shape, chunks_of(a), itemsize, limit=box_bytes())
    run(work, boxes, math.prod(target.shape) * itemsize)
    return target


def _edge(x: Any, a: Any, axis: int) -> Any:
    """Return the values before or behind an array; a scalar serves all lanes."""
    x = as_array(x)
    if x.shape:
        return x
    shape = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    return np.broadcast_to(in_memory(x, "diff"), shape)


def _others(x: Any, axis: int) -> tuple[int, ...]:
    return (*x.shape[:axis], *x.shape[axis + 1 :])


@streams(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: Any = 1) -> Any:
    """Streamed form: one axis after the other, by whole lanes."""
    f = as_array(f)
    axes = all_axes(axis, len(f.shape))
    steps = [in_memory(step, "gradient") for step in varargs]
    if len(steps) == 1 and np.ndim(steps[0]) == 0:
        steps *= len(axes)
    steps = steps or [1.0] * len(axes)
    if not axes or len(steps) != len(axes) or 0 in f.shape or not _sorted(axis):
        return NotImplemented
    results = []
    for j, step in zip(axes, steps, strict=True):

        def along(part: Any, j: int = j, step: Any = step) -> Any:
            return np.gradient(part, step, axis=j, edge_order=edge_order)

        lane = np.zeros([n if i == j else 1 for i, n in enumerate(f.shape)], f.dtype)
        target = target_for(None, f.shape, along(lane).dtype, "gradient")
        map_lanes(along, f, j, target, "gradient")
        results.append(target)
    return results[0] if len(results) == 1 else type(np.gradient(np.zeros((2, 2))))(results)


def _sorted(axis: Any) -> bool:
    """Tell whether the axes come in the order of the array."""
    return not isinstance(axis, tuple) or (list(axis) == sorted(axis) and min(axis, default=0) >= 0)


@streams(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: Any = -1, *, period: Any = 2 * np.pi) -> Any:
    """Streamed form: phases without jumps, by whole lanes."""
    p = as_array(p)
    if not p.shape or 0 in p.shape or np.ndim(discont) or np.ndim(period):
        return NotImplemented
    j = normalize_axis_index(axis, len(p.shape))

    def along(part: Any) -> Any:
        return np.unwrap(part, discont, j, period=period)

    sample = along(np.zeros((1,) * len(p.shape), p.dtype))
    target = target_for(None, p.shape, sample.dtype, "unwrap")
    map_lanes(along, p, j, target, "unwrap")
    return target


# -- any function --------------------------------------------------------------------------------


@streams(np.apply_along_axis)
def apply_along_axis(
    func1d: Callable[..., Any], axis: Any, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """Streamed form: call the user's function with one lane after the other."""
    if not isinstance(arr, Source) or not arr.shape or 0 in arr.shape:
        return NotImplemented
    j = normalize_axis_index(axis, len(arr.shape))
    target = None
    # Not on threads: the user's function may not be safe there.
    for box in lanes(arr, (j,), "apply_along_axis"):
        values = np.asarray(np.apply_along_axis(func1d, j, part_of(arr, box), *args, **kwargs))
        new = values.shape[j : values.ndim - (len(arr.shape) - 1 - j)]
        if target is None:
            shape = (*arr.shape[:j], *new, *arr.shape[j + 1 :])
            target = target_for(None, shape, values.dtype, "apply_along_axis")
        store(target, (*box[:j], *[slice(0, n) for n in new], *box[j + 1 :]), values)
    return target


#: Arrays of the size of a box that a transform holds; a complex array counts as two.
_PARTS = 6


def _one_lane(x: Any, axes: Sequence[int]) -> NDArray[Any]:
    """Return zeros in the shape of one lane; transforming them tells extents and dtype."""
    shape = [n if j in axes else 1 for j, n in enumerate(x.shape)]
    return np.zeros(shape, x.dtype)


def _stream_transform(function: Callable[..., Any]) -> None:
    """Register a transform along one axis."""

    @streams(function)
    def form(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
        a = as_array(a)
        if not a.shape or 0 in a.shape:
            return NotImplemented
        j = normalize_axis_index(axis, len(a.shape))
        sample = function(_one_lane(a, (j,)), n, j, norm)
        shape = (*a.shape[:j], sample.shape[j], *a.shape[j + 1 :])
        target = target_for(out, shape, sample.dtype, function.__name__)
        a = a if out is None else apart(a, [out])
        map_lanes(lambda part: function(part, n, j, norm), a, j, target, function.__name__)
        return target


def _stream_transform_nd(function: Callable[..., Any], *steps: Callable[..., Any]) -> None:
    """Register a transform along several axes.

    `steps` are the transforms along the last axis and along the others, for arrays whose planes
    exceed memory.  Functions whose intermediate results do not fit into the target have no steps.
    """
    planes = function.__name__.endswith("2")

    @streams(function)
    def form(
        a: Any,
        s: Any = None,
        axes: Any = (-2, -1) if planes else None,
        norm: Any = None,
        out: Any = None,
    ) -> Any:
        a = as_array(a)
        if not a.shape or 0 in a.shape or (axes is None and s is not None):
            return NotImplemented
        ndim = len(a.shape)
        along = [normalize_axis_index(j, ndim) for j in (range(ndim) if axes is None else axes)]
        if not along or len(set(along)) < len(along):
            return NotImplemented
        name = function.__name__
        a = a if out is None else apart(a, [out])
        if _PARTS * lane_bytes(a, along) <= config.max_memory:
            sample = function(_one_lane(a, along), s, along, norm)
            extents = [sample.shape[j] if j in along else n for j, n in enumerate(a.shape)]
            target = target_for(out, extents, sample.dtype, name)
            whole = [slice(0, n) for n in extents]

            def work(_: int, box: Box) -> None:
                place = tuple(whole[j] if j in along else piece for j, piece in enumerate(box))
                store(target, place, function(part_of(a, box), s, along, norm))

            run(work, lanes(a, along, name, _PARTS), math.prod(a.shape) * a.dtype.itemsize, (a,))
            return target
        if not steps or s is not None:
            return NotImplemented
        last, others = steps
        sample = last(_one_lane(a, along[-1:]), None, along[-1], norm)
        extents = [sample.shape[j] if j == along[-1] else n for j, n in enumerate(a.shape)]
        target = target_for(out, extents, sample.dtype, name)
        map_lanes(lambda part: last(part, None, along[-1], norm), a, along[-1], target, name)
        # After a real transform, NumPy continues with the first axis, else with the last.
        rest = along[:-1] if last is not others else along[-2::-1]
        for j in rest:
            map_lanes(lambda part, j=j: others(part, None, j, norm), target, j, target, name)  # type: ignore[misc]
        return target


for _one in (np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft, np.fft.hfft, np.fft.ihfft):
    _stream_transform(_one)
for _several, _steps in (
    (np.fft.fft2, (np.fft.fft, np.fft.fft)),
    (np.fft.fftn, (np.fft.fft, np.fft.fft)),
    (np.fft.ifft2, (np.fft.ifft, np.fft.ifft)),
    (np.fft.ifftn, (np.fft.ifft, np.fft.ifft)),
    (np.fft.rfft2, (np.fft.rfft, np.fft.fft)),
    (np.fft.rfftn, (np.fft.rfft, np.fft.fft)),
    (np.fft.irfft2, ()),
    (np.fft.irfftn, ()),
):
    _stream_transform_nd(_several, *_steps)
