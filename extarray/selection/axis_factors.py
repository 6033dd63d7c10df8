"""Factors of one axis each: a view's selection of each axis of its array.

Such a factor is an integer or a slice (`Progression`), or a list of indices (`Points`).  It fills
at most one dimension of the view.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from extarray.format._crc import crc32c
from extarray.selection.factors import Points, Progression

if TYPE_CHECKING:
    from extarray.selection.masks import MaskFactor
    from extarray.selection.query import Query
    from extarray.streaming.blocks import Line

__all__ = [
    "AxisFactor",
    "are_same",
    "composed",
    "fingerprint",
    "is_orthogonal",
    "line_of",
    "shifted",
    "true_points",
]

AxisFactor: TypeAlias = Progression | Points


def shifted(factor: AxisFactor, by: int) -> AxisFactor:
    """Shift a factor after each element of its axis has moved to an index higher by `by`."""
    if isinstance(factor, Progression):
        return replace(factor, start=factor.start + by)
    return replace(factor, indices=tuple(index + by for index in factor.indices))


def composed(factor: AxisFactor, inner: Progression) -> AxisFactor:
    """Select by an integer or a slice from the dimension that a factor fills.

    The result fills the dimension of `inner`, if any.

    Examples
    --------
    Every second index of 10, 11, ... 19:

    >>> every = Progression(axis=0, start=10, step=1, count=10, dim=0)
    >>> found = composed(every, Progression(axis=0, start=0, step=2, count=5, dim=0))
    >>> found.start, found.step, found.count
    (10, 2, 5)
    """
    if isinstance(factor, Progression):
        start = factor.start + inner.start * factor.step
        step = factor.step * inner.step if inner.count > 1 else 1
        return Progression(factor.axis, start, step, inner.count, inner.dim)
    (indices,) = factor.indices
    if inner.dim < 0:
        return Progression(factor.axes[0], int(indices[inner.start]), 1, 1, -1)
    places = inner.start + inner.step * np.arange(inner.count)
    return Points(factor.axes, (indices[places],), inner.dims)


def line_of(factor: AxisFactor) -> Line:
    """Return start, step and number of indices, and the dimension that has them in order, if any.

    A list of indices counts as the range from its least to its greatest.
    """
    if isinstance(factor, Progression):
        return factor.start, factor.step, factor.count, factor.dim
    (indices,) = factor.indices
    if not indices.size:
        return 0, 1, 0, None
    low = int(indices.min())
    return low, 1, int(indices.max()) - low + 1, None


def are_same(a: AxisFactor, b: AxisFactor) -> bool:
    """Tell whether two factors select the same elements in the same order."""
    if isinstance(a, Points) and isinstance(b, Points):
        return a.dims == b.dims and np.array_equal(a.indices[0], b.indices[0])
    return type(a) is type(b) and a == b


def fingerprint(factor: AxisFactor, zero: int) -> list[int]:
    """Describe a factor in few numbers; a list of indices, by its checksum.

    Indices count from the origin of the axis (`zero`), so growth at the start changes no number.
    """
    if isinstance(factor, Progression):
        return [factor.dim, factor.start - zero, factor.step, factor.count]
    indices = np.ascontiguousarray(factor.indices[0] - zero, np.int64)
    return [*factor.dims, crc32c(indices.view(np.uint8))]


def true_points(mask: MaskFactor) -> Points:
    """Return the true places of a mask as points."""
    return Points(mask.axes, mask.nonzero(), mask.dims)


def is_orthogonal(query: Query) -> bool:
    """Tell whether each axis is selected independently, in at most one dimension, as by a view."""
    return all(len(factor.axes) == 1 and len(factor.dims) <= 1 for factor in query.factors)
