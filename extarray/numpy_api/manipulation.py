"""Arrays joined along an axis, or made like another; shapes and dtypes, without an element read."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ShapeError
from extarray.grid.tiles import tiles
from extarray.numpy_api.registry import streams
from extarray.streaming.blocks import Source, box_bytes, run
from extarray.streaming.derived import flat, widened
from extarray.streaming.elementwise import chunks_for, meet, part_of
from extarray.streaming.limits import check_result
from extarray.streaming.meta_arrays import shadow
from extarray.streaming.operands import as_array, hollow, separate, store, target_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from extarray.grid.tiles import Box


__all__ = ["concatenate"]


def _describes(function: Callable[..., Any]) -> None:
    """Register a function that needs only the shapes and dtypes of arrays: it gets stand-ins."""

    @streams(function)
    def form(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_shadow, args), **{key: _shadow(x) for key, x in kwargs.items()})


def _shadow(x: Any) -> Any:
    """Return a stand-in for one of our arrays, and anything else as it is."""
    return shadow(x) if isinstance(x, Source) else x


for _function in (
    np.can_cast,
    np.common_type,
    np.einsum_path,
    np.iscomplexobj,
    np.isrealobj,
    np.ndim,
    np.result_type,
    np.shape,
    np.size,
):
    _describes(_function)


@streams(np.may_share_memory)
def may_share_memory(a: Any, b: Any, /, max_work: Any = 0) -> bool:
    """Streamed form: tell whether arrays may have elements in common."""
    return meet(as_array(a), as_array(b))


def _makes_like(function: Callable[..., Any], parameters: Callable[..., Any]) -> None:
    """Register a function that makes an array with the shape and dtype of another."""
    signature = inspect.signature(parameters)

    @streams(function)
    def form(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        a = next(iter(given.arguments.values()))
        if not isinstance(a, Source):
            return NotImplemented  # only the value is ours
        own = {name: given.arguments.get(name) for name in ("dtype", "shape")}
        dtype = a.dtype if own["dtype"] is None else np.dtype(own["dtype"])
        extents = a.shape if own["shape"] is None else np.atleast_1d(own["shape"]).tolist()
        check_result(
            math.prod(extents) * dtype.itemsize,
            f"the result of {function.__name__}",
            "extarray.create",
        )
        return function(shadow(a), *given.args[1:], **given.kwargs)


def _empty_like(
    prototype: Any,
    dtype: Any = None,
    order: Any = "K",
    subok: Any = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> None:
    """Lend `numpy.empty_like` a signature, which the compiled function lacks before NumPy 2.4."""


_makes_like(np.empty_like, _empty_like)
for _maker in (np.full_like, np.ones_like, np.zeros_like):
    _makes_like(_maker, _maker)


def _copy(x: Any, extents: tuple[int, ...], target: Any, axis: int, at: int) -> None:
    """Copy an array with these extents into `target`, from place `at` along an axis on."""

    def work(_: int, box: Box) -> None:
        piece = slice(box[axis].start + at, box[axis].stop + at)
        store(target, (*box[:axis], piece, *box[axis + 1 :]), part_of(x, box))

    guide = x if isinstance(x, Source) else target
    itemsize = x.dtype.itemsize + target.dtype.itemsize
    # Only the extents of the target's chunks matter: the part may begin inside a chunk.
    chunks = (
        chunks_for(extents, [x]) if guide is x or not isinstance(guide, Source) else guide.chunks
    )
    boxes = tiles(extents, chunks, itemsize, limit=box_bytes())
    run(work, boxes, math.prod(extents) * itemsize)


def _concatenate(
    arrays: Sequence[Any], axis: Any, out: Any, dtype: Any, casting: Any, name: str
) -> Any:
    # Empty samples tell the dtype of the result, and raise NumPy's errors.
    given = {} if out is None else {"out": np.empty((0,) * len(out.shape), out.dtype)}
    samples = [hollow(x) for x in arrays]
    sample = np.concatenate(samples, axis, dtype=dtype, casting=casting, **given)
    axis = axis % sample.ndim
    shapes = [x.shape for x in arrays]  # a snapshot: another thread may let an array grow
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
    """Streamed form: join arrays along an axis."""
    parts = [as_array(x) for x in arrays]
    if axis is None:
        parts, axis = [flat(x) for x in parts], 0
    return _concatenate(parts, axis, out, dtype, casting, "concatenate")


@streams(np.stack)
def stack(
    arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """Streamed form: join arrays of one shape along a new axis."""
    parts = [as_array(x) for x in arrays]
    np.stack([hollow(x) for x in parts], axis)  # raises NumPy's errors
    if len({x.shape for x in parts}) != 1:
        raise ShapeError("all input arrays must have the same shape")
    j = axis % (len(parts[0].shape) + 1)
    wide = [widened(x, (j,)) for x in parts]
    return _concatenate(wide, j, out, dtype, casting, "stack")


@streams(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Streamed form: join arrays one below the other."""
    rows = [_at_least(as_array(x), 2) for x in tup]
    return _concatenate(rows, 0, None, dtype, casting, "vstack")


@streams(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Streamed form: join arrays side by side."""
    parts = [_at_least(as_array(x), 1) for x in tup]
    axis = 0 if parts and len(parts[0].shape) == 1 else 1
    return _concatenate(parts, axis, None, dtype, casting, "hstack")


@streams(np.dstack)
def dstack(tup: Any) -> Any:
    """Streamed form: join arrays one behind the other."""
    parts = [_at_least(as_array(x), 3) for x in tup]
    return _concatenate(parts, 2, None, None, "same_kind", "dstack")


@streams(np.column_stack)
def column_stack(tup: Any) -> Any:
    """Streamed form: make vectors the columns of a matrix."""
    parts = [as_array(x) for x in tup]
    # An array with fewer than two axes becomes a column.
    columns = [x if len(x.shape) > 1 else widened(_at_least(x, 1), (1,)) for x in parts]
    return _concatenate(columns, 1, None, None, "same_kind", "column_stack")


@streams(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """Streamed form: join two arrays."""
    return concatenate((arr, values), axis)


def _at_least(x: Any, ndim: int) -> Any:
    """Widen an array as ``np.atleast_1d``, ``2d`` and ``3d`` do."""
    axes: dict[tuple[int, int], tuple[int, ...]] = {
        (1, 0): (0,),
        (2, 0): (0, 1),
        (2, 1): (0,),
        (3, 0): (0, 1, 2),
        (3, 1): (0, 2),
        (3, 2): (2,),
    }
    return widened(x, axes.get((ndim, len(x.shape)), ()))
