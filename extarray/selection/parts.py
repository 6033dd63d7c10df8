"""Parts of views: what a view has of one axis of its array.

A part is an integer or a slice (`Progression`), or a list of indices (`Points`) of one axis.  It
fills one dimension of the view at most.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from extarray.format._crc import crc32c
from extarray.selection.factors import Points, Progression

if TYPE_CHECKING:
    from extarray.selection.masks import Trues
    from extarray.selection.query import Query
    from extarray.streaming.blocks import Line

__all__ = [
    "Part",
    "are_same",
    "fingerprint",
    "is_orthogonal",
    "line_of",
    "moved_part",
    "selected_part",
    "true_points",
]

Part: TypeAlias = Progression | Points


def moved_part(part: Part, by: int) -> Part:
    """Shift a part, of an axis whose indices have shifted.

    Parameters
    ----------
    part : Part
    by : int
        How much higher the index of an element is by now.
    """
    if isinstance(part, Progression):
        return replace(part, start=part.start + by)
    return replace(part, indices=tuple(index + by for index in part.indices))


def selected_part(part: Part, cut: Progression) -> Part:
    """Select by an integer or a slice of what a part selects.

    Parameters
    ----------
    part : Part
    cut : Progression
        Of the dimension that the part fills.

    Returns
    -------
    Part
        It fills the dimension that `cut` fills, if any.

    Examples
    --------
    Every second index of 10, 11, ... 19:

    >>> every = Progression(axis=0, start=10, step=1, count=10, dim=0)
    >>> found = selected_part(every, Progression(axis=0, start=0, step=2, count=5, dim=0))
    >>> found.start, found.step, found.count
    (10, 2, 5)
    """
    if isinstance(part, Progression):
        step = part.step * cut.step if cut.count > 1 else 1
        return Progression(part.axis, part.start + cut.start * part.step, step, cut.count, cut.dim)
    (indices,) = part.indices
    if cut.dim < 0:
        return Progression(part.axes[0], int(indices[cut.start]), 1, 1, -1)
    places = cut.start + cut.step * np.arange(cut.count)
    return Points(part.axes, (indices[places],), cut.dims)


def line_of(part: Part) -> Line:
    """Return start, step and number of indices, and the dimension with them in order, if any.

    Returns
    -------
    tuple of (int, int, int, int or None)
        Of a list of indices, all from its least to its greatest.
    """
    if isinstance(part, Progression):
        return part.start, part.step, part.count, part.dim
    (indices,) = part.indices
    if not indices.size:
        return 0, 1, 0, None
    low = int(indices.min())
    return low, 1, int(indices.max()) - low + 1, None


def are_same(a: Part, b: Part) -> bool:
    """Tell whether two parts select the same, in the same order."""
    if isinstance(a, Points) and isinstance(b, Points):
        return a.dims == b.dims and np.array_equal(a.indices[0], b.indices[0])
    return type(a) is type(b) and a == b


def fingerprint(part: Part, zero: int) -> list[int]:
    """Describe a part in few numbers: a list of indices by its checksum.

    Parameters
    ----------
    part : Part
    zero : int
        The origin of the axis by now: with it, growth at the start changes no number.
    """
    if isinstance(part, Progression):
        return [part.dim, part.start - zero, part.step, part.count]
    indices = np.ascontiguousarray(part.indices[0] - zero, np.int64)
    return [*part.dims, crc32c(indices.view(np.uint8))]


def true_points(mask: Trues) -> Points:
    """Return the true places of a mask, one by one."""
    return Points(mask.axes, mask.nonzero(), mask.dims)


def is_orthogonal(query: Query) -> bool:
    """Tell whether each axis is selected from by itself, to one dimension at most, as by a view."""
    return all(len(factor.axes) == 1 and len(factor.dims) <= 1 for factor in query.factors)
