"""zarr's rules for points (``vindex``): an index for each axis, or a mask of the array's shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from extarray.common.errors import SelectionError
from extarray.selection.entries import as_item, check_bounds, is_array, parse, refusal
from extarray.selection.factors import Points
from extarray.selection.masks import of_mask
from extarray.selection.query import Query

if TYPE_CHECKING:
    Shape: TypeAlias = tuple[int, ...]

__all__ = ["coordinate_query", "mask_query", "pointwise_query"]


def pointwise_query(key: Any, shape: Shape) -> Query:
    """Make the query of an index that `coordinate_query` or `mask_query` takes.

    Examples
    --------
    >>> pointwise_query(([0, 2], [1, 3]), (3, 4)).shape
    (2,)
    """
    items = parse(key)
    if len(items) == 1 and is_array(items[0]) and items[0].dtype.kind == "b":
        return mask_query(items[0], shape)
    return _points_query(key, items, shape)


def mask_query(mask: Any, shape: Shape) -> Query:
    """Make the query of the true places of a mask of the array's shape."""
    if isinstance(mask, tuple) and len(mask) == 1:
        mask = mask[0]
    item = as_item(mask)
    if not is_array(item) or item.dtype.kind != "b" or item.shape != shape:
        raise SelectionError(f"{mask!r} is not a mask of the array's shape {shape}")
    if item.ndim == 0:
        return Query(shape, (int(item),), (), kind="mask")
    factor = of_mask(0, item, 0)
    return Query(shape, (factor.count,), (factor,), kind="mask")


def coordinate_query(key: Any, shape: Shape) -> Query:
    """Make the query of points: an integer or indices for each axis, broadcast together."""
    return _points_query(key, parse(key), shape)


def _points_query(key: Any, items: list[Any], shape: Shape) -> Query:
    """Make the query of points from the entries of the key."""
    points = [np.asarray(item) for item in items if isinstance(item, (int, np.ndarray))]
    if len(points) != len(items) or any(point.dtype.kind == "b" for point in points):
        raise SelectionError(
            f"{key!r} are not coordinates: each axis takes an integer or an array of integers"
        )
    if len(points) != len(shape):
        raise SelectionError(
            f"points in an array with {len(shape)} axes need as many coordinates, not {len(points)}"
        )
    for axis, point in enumerate(points):
        check_bounds(point, axis, shape[axis])
    try:
        joined = np.broadcast_shapes(*(point.shape for point in points))
    except ValueError:
        raise refusal(tuple(points), shape, bool) from None
    indices = tuple(np.broadcast_to(point, joined) for point in points)
    axes, dims = tuple(range(len(shape))), tuple(range(len(joined)))
    factors = (Points(axes, indices, dims),) if axes and 0 not in joined else ()
    return Query(shape, joined, factors, kind="advanced")
