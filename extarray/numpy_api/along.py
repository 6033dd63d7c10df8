"""Functions along an axis: differences, gradients, any function of lanes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from extarray.numpy_api.reductions import all_axes
from extarray.streaming.blocks import Source, box_bytes, run, tiles
from extarray.streaming.derived import Joined
from extarray.streaming.elementwise import part_of
from extarray.streaming.functions import streams
from extarray.streaming.lanes import lanes, map_lanes
from extarray.streaming.operands import as_array, chunks_of, hollow, in_memory, store, target_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from extarray.streaming.blocks import Box

__all__: list[str] = []

_ABSENT: Any = np._NoValue


# -- differences ---------------------------------------------------------------------------------


@streams(np.diff)
def diff(a: Any, n: Any = 1, axis: Any = -1, prepend: Any = _ABSENT, append: Any = _ABSENT) -> Any:
    """Streamed form: differences of neighbours, each box with its neighbours behind."""
    a = as_array(a)
    if n == 0 or not a.shape:
        return NotImplemented
    j = normalize_axis_index(axis, len(a.shape))
    around = [_edge(x, a, j) for x in (prepend, append) if x is not _ABSENT]
    if around:
        np.concatenate([hollow(x) for x in (a, *around)], j)  # NumPy's refusals
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
    """What is put before or behind an array: one value serves for all lanes."""
    x = as_array(x)
    if x.shape:
        return x
    shape = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    return np.broadcast_to(in_memory(x, "diff"), shape)


def _others(x: Any, axis: int) -> tuple[int, ...]:
    return (*x.shape[:axis], *x.shape[axis + 1 :])


@streams(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: Any = 1) -> Any:
    """Streamed form: gradients by whole lanes, along one axis after the other."""
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
    """Whether axes come in the order of the array, or there is one alone."""
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
    """Streamed form: a function of the user, of one lane after the other."""
    if not isinstance(arr, Source) or not arr.shape or 0 in arr.shape:
        return NotImplemented
    j = normalize_axis_index(axis, len(arr.shape))
    target = None
    # The function is the user's, and may not be made for threads.
    for box in lanes(arr, (j,), "apply_along_axis"):
        values = np.asarray(np.apply_along_axis(func1d, j, part_of(arr, box), *args, **kwargs))
        new = values.shape[j : values.ndim - (len(arr.shape) - 1 - j)]
        if target is None:
            shape = (*arr.shape[:j], *new, *arr.shape[j + 1 :])
            target = target_for(None, shape, values.dtype, "apply_along_axis")
        store(target, (*box[:j], *[slice(0, n) for n in new], *box[j + 1 :]), values)
    return target
