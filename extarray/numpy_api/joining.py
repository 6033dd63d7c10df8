"""Joining arrays along an axis: each part is copied to its place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ShapeError
from extarray.streaming.blocks import Source, box_bytes, run, tiles
from extarray.streaming.derived import flat, widened
from extarray.streaming.elementwise import chunks_for, part_of
from extarray.streaming.functions import streams
from extarray.streaming.operands import as_array, hollow, separate, store, target_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extarray.streaming.blocks import Box

__all__ = ["concatenate"]


def _copy(x: Any, extents: tuple[int, ...], target: Any, axis: int, at: int) -> None:
    """Copy an array of such extents into another one, from a place along an axis on."""

    def work(_: int, box: Box) -> None:
        piece = slice(box[axis].start + at, box[axis].stop + at)
        store(target, (*box[:axis], piece, *box[axis + 1 :]), part_of(x, box))

    guide = x if isinstance(x, Source) else target
    itemsize = x.dtype.itemsize + target.dtype.itemsize
    # Of the target's chunks, only the extents matter: the part begins anywhere in them.
    chunks = (
        chunks_for(extents, [x]) if guide is x or not isinstance(guide, Source) else guide.chunks
    )
    boxes = tiles(extents, chunks, itemsize, limit=box_bytes())
    run(work, boxes, math.prod(extents) * itemsize)


def _concatenate(
    arrays: Sequence[Any], axis: Any, out: Any, dtype: Any, casting: Any, name: str
) -> Any:
    # Without elements: the dtype of the result, and NumPy's refusals.
    given = {} if out is None else {"out": np.empty((0,) * len(out.shape), out.dtype)}
    samples = [hollow(x) for x in arrays]
    sample = np.concatenate(samples, axis, dtype=dtype, casting=casting, **given)
    axis = axis % sample.ndim
    shapes = [x.shape for x in arrays]  # of now: another thread may let an array grow
    first = shapes[0]
    for i, extents in enumerate(shapes):
        for j, (n, m) in enumerate(zip(first, extents, strict=True)):
            if n != m and j != axis:
                raise ShapeError(
                    "all the input array dimensions except for the concatenation axis must match "
                    f"exactly, but along dimension {j}, the array at index 0 has size {n} and the "
                    f"array at index {i} has size {m}"
                )
    extent = sum(extents[axis] for extents in shapes)
    shape = (*first[:axis], extent, *first[axis + 1 :])
    target = target_for(out, shape, sample.dtype, name, "unsafe")
    at = 0
    for x, extents in zip([separate(x, out) for x in arrays], shapes, strict=True):
        _copy(x, extents, target, axis, at)
        at += extents[axis]
    return target


@streams(np.concatenate)
def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """Streamed form: arrays one after the other."""
    parts = [as_array(x) for x in arrays]
    if axis is None:
        parts, axis = [flat(x) for x in parts], 0
    return _concatenate(parts, axis, out, dtype, casting, "concatenate")


@streams(np.stack)
def stack(
    arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """Streamed form: arrays of one shape, along a new axis."""
    parts = [as_array(x) for x in arrays]
    np.stack([hollow(x) for x in parts], axis)  # NumPy's refusals
    if len({x.shape for x in parts}) != 1:
        raise ShapeError("all input arrays must have the same shape")
    j = axis % (len(parts[0].shape) + 1)
    wide = [widened(x, (j,)) for x in parts]
    return _concatenate(wide, j, out, dtype, casting, "stack")


@streams(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Streamed form: arrays one below the other."""
    rows = [_at_least(as_array(x), 2) for x in tup]
    return _concatenate(rows, 0, None, dtype, casting, "vstack")


@streams(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Streamed form: arrays side by side."""
    parts = [_at_least(as_array(x), 1) for x in tup]
    axis = 0 if parts and len(parts[0].shape) == 1 else 1
    return _concatenate(parts, axis, None, dtype, casting, "hstack")


@streams(np.dstack)
def dstack(tup: Any) -> Any:
    """Streamed form: arrays one behind the other."""
    parts = [_at_least(as_array(x), 3) for x in tup]
    return _concatenate(parts, 2, None, None, "same_kind", "dstack")


@streams(np.column_stack)
def column_stack(tup: Any) -> Any:
    """Streamed form: vectors as the columns of a matrix."""
    parts = [as_array(x) for x in tup]
    # What has less than two axes becomes a column.
    columns = [x if len(x.shape) > 1 else widened(_at_least(x, 1), (1,)) for x in parts]
    return _concatenate(columns, 1, None, None, "same_kind", "column_stack")


@streams(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """Streamed form: a new array, of one and the other."""
    return concatenate((arr, values), axis)


def _at_least(x: Any, ndim: int) -> Any:
    """An array as ``np.atleast_1d``, ``2d`` and ``3d`` widen it."""
    axes: dict[tuple[int, int], tuple[int, ...]] = {
        (1, 0): (0,),
        (2, 0): (0, 1),
        (2, 1): (0,),
        (3, 0): (0, 1, 2),
        (3, 1): (0, 2),
        (3, 2): (2,),
    }
    return widened(x, axes.get((ndim, len(x.shape)), ()))
