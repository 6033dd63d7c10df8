"""Orthogonal indices, which act on each axis independently: of elements, and of chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from extarray.common.errors import BoundsError, SelectionError
from extarray.grid.chunking import grid_of
from extarray.selection.entries import check_bounds, is_array, parse
from extarray.selection.factors import Points, Progression
from extarray.selection.masks import of_mask
from extarray.selection.query import Query

if TYPE_CHECKING:
    from extarray.selection.factors import Factor

    Shape: TypeAlias = tuple[int, ...]

__all__ = ["block_query", "orthogonal_query"]


def orthogonal_query(key: Any, shape: Shape) -> Query:
    """Make the query of an index whose 1-d arrays act on each axis independently.

    Examples
    --------
    >>> orthogonal_query(([0, 2], slice(None), [1, 2, 3]), (3, 4, 5)).shape
    (2, 4, 3)
    """
    items = parse(key)
    if sum(item is ... for item in items) > 1:
        raise SelectionError("an index can only have a single ellipsis ('...')")
    missing = len(shape) - sum(item is not ... for item in items)
    if missing < 0:
        raise BoundsError(
            f"too many indices for array: array is {len(shape)}-dimensional, but "
            f"{len(shape) - missing} were indexed"
        )
    at = next((i for i, item in enumerate(items) if item is ...), len(items))
    items[at : at + 1] = [slice(None)] * missing
    factors: list[Factor] = []
    dims: list[int] = []
    for axis, (item, extent) in enumerate(zip(items, shape, strict=True)):
        factor = _factor(axis, item, extent, len(dims), key)
        factors.append(factor)
        if factor.dims:
            dims.append(factor.count)
    return Query(shape, tuple(dims), tuple(factors), kind="advanced")


def _factor(axis: int, item: Any, extent: int, dim: int, key: Any) -> Factor:
    """Make the factor of an entry: one axis, at most one dimension."""
    if isinstance(item, int):
        index: Any = np.asarray([item])  # of objects, if it exceeds all integer types
        check_bounds(index, axis, extent)
        return Progression.of_integer(axis, item, extent)
    if isinstance(item, slice):
        return Progression.of_slice(axis, item, extent, dim)
    if not is_array(item) or item.ndim != 1:
        raise SelectionError(
            f"{key!r} is not an orthogonal index: each axis takes an integer, a slice, or an "
            "array of integers or booleans of one axis"
        )
    if item.dtype.kind != "b":
        check_bounds(item, axis, extent)
        return Points((axis,), (item,), (dim,))
    if item.shape != (extent,):
        raise SelectionError(
            f"boolean index did not match indexed array along axis {axis}; size of axis is "
            f"{extent} but size of corresponding boolean axis is {item.shape[0]}"
        )
    return of_mask(axis, item, dim)


def block_query(key: Any, shape: Shape, chunks: Shape, lead: Shape) -> Query:
    """Make the query of an index that counts chunks; an integer keeps its axis, with one chunk.

    `lead` is the number of elements of each axis's first chunk that lie before the bounds.

    Examples
    --------
    >>> block_query((1, slice(0, 2)), (10, 10), (4, 3), (0, 1)).shape
    (4, 5)
    """
    grid = grid_of([n + b for n, b in zip(shape, lead, strict=True)], chunks)
    factors: list[Progression] = []
    for n, c, b, last, part in zip(
        shape, chunks, lead, grid, orthogonal_query(key, grid).factors, strict=True
    ):
        if not isinstance(part, Progression) or (part.step != 1 and part.count > 1):
            raise SelectionError(
                f"{key!r} does not select blocks: each axis takes an integer or a slice of step "
                "1, in chunks"
            )
        if part.start >= last > 0:
            raise BoundsError(
                f"block {part.start} is out of bounds for axis {part.axis} with {last} chunks"
            )
        stop = min(n, (part.start + part.count) * c - b)
        elements = slice(max(0, part.start * c - b), max(0, stop))
        factors.append(Progression.of_slice(part.axis, elements, n, part.axis))
    return Query(shape, tuple(factor.count for factor in factors), tuple(factors))
