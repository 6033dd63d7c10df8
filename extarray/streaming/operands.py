"""Arguments and results of NumPy's functions: of ours, of NumPy's, or made of array_likes."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.config import config
from extarray.common.errors import ArgumentTypeError, CastingError, ShapeError
from extarray.grid.tiles import Grain
from extarray.streaming.blocks import Source
from extarray.streaming.elementwise import copy_of, meet, new_result
from extarray.streaming.limits import check_result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from extarray.grid.tiles import Box

__all__ = [
    "as_array",
    "chunks_of",
    "converted",
    "exchange",
    "hollow",
    "in_memory",
    "separate",
    "step_bytes",
    "store",
    "target_for",
]


def as_array(x: Any) -> Any:
    """Return an argument as an array: of ours as it is, anything else of NumPy's."""
    return x if isinstance(x, Source) else np.asarray(x)


def chunks_of(x: Any) -> tuple[int, ...]:
    """Return the extents of the parts in which an array is best read.

    An array of NumPy may be cut anywhere: they are its shape.
    """
    return Grain(x.chunks, x._lead) if isinstance(x, Source) else x.shape


def converted(x: Any, dtype: DTypeLike) -> Any:
    """Convert values that are assigned to an array of a dtype; an array is cast when written.

    A number is refused where it is too large for the dtype, and a tuple may be a record of it.

    Examples
    --------
    >>> converted([1, 2], "u1")
    array([1, 2], dtype=uint8)
    """
    return x if isinstance(x, (Source, np.ndarray)) else np.asarray(x, dtype)


def exchange(value: Any, kind: type | tuple[()], change: Callable[[Any], Any]) -> Any:
    """Return arguments with others in the place of those of a type; lists, tuples, dicts too.

    A list or a tuple in which nothing changes stays, of any subclass: a named tuple, say.
    """
    if isinstance(value, kind):
        return change(value)
    if not isinstance(value, (tuple, dict, list)):
        return value
    if isinstance(value, dict):
        return {key: exchange(item, kind, change) for key, item in value.items()}
    items = [exchange(item, kind, change) for item in value]
    if all(map(operator.is_, items, value)):
        return value
    return items if isinstance(value, list) else tuple(items)


def hollow(x: Any) -> NDArray[Any]:
    """Make an array of the dtype and number of axes of another, without elements.

    What NumPy's function does with it tells the dtype of the result, and which error to raise,
    before anything is read.
    """
    return np.empty((0,) * len(x.shape), x.dtype)


def in_memory(x: Any, name: str) -> Any:
    """Read an argument that a function needs whole, if the limits allow it; others stay."""
    if not isinstance(x, Source):
        return x
    nbytes = math.prod(x.shape) * x.dtype.itemsize
    check_result(nbytes, f"an argument that {name} needs whole", "a smaller argument")
    return x._fetch()


def step_bytes(parts: int = 4) -> int:
    """Return the bytes of a box where each thread has so many parts of its size in memory.

    All of them together stay below ``config.max_memory``.
    """
    share: int = config.max_memory // (parts * config.threads)
    return max(1, share)


def separate(x: Any, *outs: Any) -> Any:
    """Return an operand, or a copy where it may share elements with an output.

    For operations that read at other places than they write.
    """
    return copy_of(x) if any(out is not None and meet(x, out) for out in outs) else x


def store(target: Any, box: Box, values: Any) -> None:
    """Assign to a box, with broadcasting and casts as in NumPy's assignment."""
    if isinstance(target, Source):
        target._write_exact(box, values)
    else:
        target[(*box, ...)] = values


def target_for(
    out: Any, shape: Sequence[int], dtype: DTypeLike, name: str, casting: Any = "same_kind"
) -> Any:
    """Return the array that a result goes to: the one given, if it fits, or a new one."""
    extents = tuple(shape)
    if out is None:
        return new_result(extents, dtype, name)
    if not isinstance(out, (Source, np.ndarray)):
        raise ArgumentTypeError("return arrays must be of ArrayType")
    if out.shape != extents:
        raise ShapeError(f"output array has shape {out.shape}; the result has shape {extents}")
    if not np.can_cast(dtype, out.dtype, casting):
        raise CastingError(
            f"Cannot cast array data from {np.dtype(dtype)!r} to {out.dtype!r} according to the "
            f"rule '{casting}'"
        )
    return out
