"""Comparison of whole arrays: box by box, until a difference is found."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.streaming.blocks import Source, box_bytes, run, tiles
from extarray.streaming.elementwise import as_operand, chunks_for, part_of, shape_of
from extarray.streaming.functions import streams
from extarray.streaming.operands import as_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from extarray.streaming.blocks import Box

__all__: list[str] = []


class _FoundError(Exception):
    """A box with a difference."""


def _everywhere(holds: Callable[..., Any], operands: Sequence[Any]) -> bool:
    """Whether a comparison holds in every box."""
    operands = [as_operand(x) for x in operands]
    shape = np.broadcast_shapes(*map(shape_of, operands))
    arrays = [x for x in operands if isinstance(x, (Source, np.ndarray))]
    itemsize = sum(x.dtype.itemsize for x in arrays)

    def work(_: int, box: Box) -> None:
        if not holds(*[part_of(x, box) for x in operands]):
            raise _FoundError

    boxes = tiles(shape, chunks_for(shape, arrays), itemsize, limit=box_bytes())
    try:
        run(work, boxes, math.prod(shape) * itemsize)
    except _FoundError:
        return False
    return True


@streams(np.allclose)
def allclose(
    a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: bool = False
) -> bool:
    """Streamed form: whether arrays are equal within a tolerance."""

    def holds(a: Any, b: Any, rtol: Any, atol: Any) -> bool:
        return np.allclose(a, b, rtol, atol, equal_nan)

    return _everywhere(holds, [a, b, rtol, atol])


@streams(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Streamed form: whether arrays have the same shape and elements."""
    try:
        a1, a2 = as_array(a1), as_array(a2)
    except Exception:  # noqa: BLE001 -- as NumPy: what is no array is not equal
        return False
    if a1.shape != a2.shape:
        return False
    return _everywhere(lambda x, y: np.array_equal(x, y, equal_nan), [a1, a2])


@streams(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> bool:
    """Streamed form: whether arrays are equal once they are broadcast."""
    try:
        a1, a2 = as_array(a1), as_array(a2)
        np.broadcast_shapes(a1.shape, a2.shape)
    except Exception:  # noqa: BLE001 -- as NumPy: what cannot be compared is not equal
        return False
    return _everywhere(np.array_equiv, [a1, a2])
