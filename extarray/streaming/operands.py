"""Arguments and results of NumPy's functions, whether ours, NumPy's or array_likes."""

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
    """Return one of our arrays as it is, and anything else as a NumPy array."""
    return x if isinstance(x, Source) else np.asarray(x)


def chunks_of(x: Any) -> tuple[int, ...]:
    """Return the extents of the parts in which to read an array; of NumPy's, its whole shape."""
    return Grain(x.chunks, x._lead) if isinstance(x, Source) else x.shape


def converted(x: Any, dtype: DTypeLike) -> Any:
    """Convert values to assign to an array of a dtype; arrays are left to be cast when written.

    A number too large for the dtype is refused; a tuple may be a record.

    Examples
    --------
    >>> converted([1, 2], "u1")
    array([1, 2], dtype=uint8)
    """
    return x if isinstance(x, (Source, np.ndarray)) else np.asarray(x, dtype)


def exchange(value: Any, kind: type | tuple[()], change: Callable[[Any], Any]) -> Any:
    """Return arguments with `change` applied to those of a type, also in lists, tuples and dicts.

    A list or tuple in which nothing changes is returned itself, so a named tuple stays one.
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
    """Return an empty array with the dtype and ndim of another.

    With it, NumPy's function tells the dtype of the result, or raises, before anything is read.
    """
    return np.empty((0,) * len(x.shape), x.dtype)


def in_memory(x: Any, name: str) -> Any:
    """Read an argument that a function needs whole, if the limits allow it; keep any other."""
    if not isinstance(x, Source):
        return x
    nbytes = math.prod(x.shape) * x.dtype.itemsize
    check_result(nbytes, f"an argument that {name} needs whole", "a smaller argument")
    return x._fetch()


def step_bytes(parts: int = 4) -> int:
    """Return the bytes of a box, if each thread holds `parts` of them within ``max_memory``."""
    share: int = config.max_memory // (parts * config.threads)
    return max(1, share)


def separate(x: Any, *outs: Any) -> Any:
    """Return an operand, or a copy if it may share elements with an output, at any places."""
    return copy_of(x) if any(out is not None and meet(x, out) for out in outs) else x


def store(target: Any, box: Box, values: Any) -> None:
    """Assign to a box; broadcast and cast as NumPy's assignment does."""
    if isinstance(target, Source):
        target._write_exact(box, values)
    else:
        target[(*box, ...)] = values


def target_for(
    out: Any, shape: Sequence[int], dtype: DTypeLike, name: str, casting: Any = "same_kind"
) -> Any:
    """Return the array for a result: `out` if it fits, or a new one."""
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
