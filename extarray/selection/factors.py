"""Factors: the part of a query along some axes, with its splitting and counting.

- `Progression`: an integer or a slice, on one axis;
- `Points`: arrays of indices, one for each of some axes; their i-th elements form a point;
- `Mask` and `Places` of ``masks``: the true places of an array of booleans.

`Factor` is their common protocol.

Another thread may change a mask, or indices, while they are used.  Of a mask, the core gets a copy
or the places found in it; the core checks indices itself.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

import numpy as np

from extarray.common.limits import limits
from extarray.streaming.elementwise import apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    Shape: TypeAlias = tuple[int, ...]
    Indices: TypeAlias = NDArray[np.intp]
    Limits: TypeAlias = Sequence[tuple[int, int]]  # low and high index on each axis

__all__ = [
    "PART_BYTES",
    "POINT_BYTES",
    "Factor",
    "Points",
    "Progression",
    "in_order",
    "share_of_list",
    "split_extent",
]

#: Most bytes of a query's tables: for a point while points are sorted, and for a chunk.
POINT_BYTES = 40
PART_BYTES = 64


class Factor(Protocol):
    """A part of an index that selects on some axes: plain data, which the core reads.

    Attributes
    ----------
    kind : str
        Tells the core which other attributes to read.
    """

    kind: ClassVar[str]

    @property
    def axes(self) -> Shape:
        """The axes of the array."""

    @property
    def dims(self) -> Shape:
        """The dimensions of the result."""

    @property
    def count(self) -> int:
        """The number of elements selected."""

    @property
    def can_be_split(self) -> bool:
        """True if it covers more than one element."""

    def table_bytes(self, chunks: Shape) -> int:
        """Return the memory that the factor takes once it is ready."""

    def share(self, chunks: Shape) -> float:
        """Return which share of the factor the core can list at once; 1 or more: all."""

    def split(self, dim: int, share: float, chunks: Shape) -> Iterator[tuple[Factor, int]]:
        """Yield consecutive factors along a dimension, with the extent of each."""

    def apart(self, target: Any) -> Factor:
        """Return the factor, with copies of anything that a write to `target` would change."""

    def outside(self, inner: Limits, extents: Shape) -> NDArray[np.bool_]:
        """Mark its elements that lie outside a box; the result has the factor's dimensions."""


def share_of_list(count: int, chunks: Shape) -> float:
    """Return which share of a list of elements the core can sort at once; 1 or more: all.

    A word of the core holds an element's place in its chunk and its number in the list, unless
    chunks have 2**40 elements or lists 2**24.
    """
    bits = limits.element_bits - (math.prod(chunks) - 1).bit_length()
    return float(2.0**bits / max(count, 1))


@dataclass(slots=True)
class Progression:
    """The indices `start`, `start + step`, ... of an axis: an integer or a slice.

    Attributes
    ----------
    axis : int
        Axis of the array.
    start, step, count : int
        The indices; `start` is not negative.
    dim : int
        Dimension of the result; -1 for an integer, which has none.
    """

    kind: ClassVar[str] = "progression"
    axis: int
    start: int
    step: int
    count: int
    dim: int

    @classmethod
    def of_slice(cls, axis: int, item: slice, extent: int, dim: int) -> Progression:
        """Return the progression that a slice selects from an axis, for dimension `dim`."""
        indices = range(*item.indices(extent))
        if len(indices) > 1:
            return cls(axis, indices.start, indices.step, len(indices), dim)
        # The step of a single index may exceed the core's integers.
        return cls(axis, max(indices.start, 0), 1, len(indices), dim)

    @classmethod
    def of_integer(cls, axis: int, item: int, extent: int) -> Progression:
        """Return the progression that an integer selects from an axis."""
        return cls(axis, item + extent if item < 0 else item, 1, 1, -1)

    @property
    def axes(self) -> Shape:
        """The axes of the array."""
        return (self.axis,)

    @property
    def dims(self) -> Shape:
        """The dimensions of the result."""
        return () if self.dim < 0 else (self.dim,)

    @property
    def can_be_split(self) -> bool:
        """True if it covers more than one element."""
        return self.count > 1

    def table_bytes(self, chunks: Shape) -> int:
        """Return the memory that the factor takes once it is ready."""
        return PART_BYTES * -(-self.count * abs(self.step) // chunks[self.axis])

    def share(self, chunks: Shape) -> float:
        """Return infinity: the core can list all of it at once."""
        return math.inf

    def split(self, dim: int, share: float, chunks: Shape) -> Iterator[tuple[Factor, int]]:
        """Yield consecutive factors along a dimension, with the extent of each."""
        for first, n in split_extent(self.count, share, 1):
            yield replace(self, start=self.start + first * self.step, count=n), n

    def apart(self, target: Any) -> Progression:
        """Return the factor: no write changes it."""
        return self

    def outside(self, inner: Limits, extents: Shape) -> NDArray[np.bool_]:
        """Mark its elements that lie outside a box; the result has the factor's dimensions."""
        indices = self.start + self.step * np.arange(self.count)
        low, high = inner[self.axis]
        found: NDArray[np.bool_] = (indices < low) | (indices >= high)
        return found if self.dims else found.reshape(())


@dataclass(slots=True, eq=False)
class Points:
    """Points on some axes: the i-th elements of arrays of indices.

    Attributes
    ----------
    axes : tuple of int
        Axes of the array.
    indices : tuple of ndarray of intp
        One array for each axis, all of one shape.
    dims : tuple of int
        Dimensions of the result, one for each dimension of the arrays.
    """

    kind: ClassVar[str] = "points"
    axes: Shape
    indices: tuple[Indices, ...]
    dims: Shape

    @property
    def count(self) -> int:
        """The number of points."""
        return self.indices[0].size

    @property
    def can_be_split(self) -> bool:
        """True if it covers more than one element."""
        return self.count > 1

    def table_bytes(self, chunks: Shape) -> int:
        """Return the memory that the factor takes once it is ready."""
        return POINT_BYTES * self.count

    def share(self, chunks: Shape) -> float:
        """Return which share of the factor the core can list at once; 1 or more: all."""
        return share_of_list(self.count, chunks)

    def split(self, dim: int, share: float, chunks: Shape) -> Iterator[tuple[Factor, int]]:
        """Yield consecutive factors along a dimension, with the extent of each."""
        along = self.dims.index(dim)
        for first, n in split_extent(self.indices[0].shape[along], share, 1):
            part = (*(slice(None),) * along, slice(first, first + n))
            yield replace(self, indices=tuple(index[part] for index in self.indices)), n

    def apart(self, target: Any) -> Points:
        """Return the factor, with copies of indices that share elements with `target`."""
        indices = tuple(apart(index, [target]) for index in self.indices)
        is_same = all(map(operator.is_, indices, self.indices))
        return self if is_same else replace(self, indices=indices)

    def outside(self, inner: Limits, extents: Shape) -> NDArray[np.bool_]:
        """Mark its elements that lie outside a box; the result has the factor's dimensions."""
        found = np.zeros(self.indices[0].shape, bool)
        for axis, indices in zip(self.axes, self.indices, strict=True):
            low, high = inner[axis]
            counted = np.where(indices < 0, indices + extents[axis], indices)
            found |= (counted < low) | (counted >= high)
        return found


def in_order(factors: Iterable[Factor]) -> tuple[Factor, ...]:
    """Sort factors by their first axes, the order of the loops over them."""
    return tuple(sorted(factors, key=lambda factor: factor.axes[0]))


def split_extent(extent: int, share: float, unit: int) -> Iterator[tuple[int, int]]:
    """Yield the pieces of an extent, each a share of it, in whole units if it has any.

    A piece has at most half of the extent: all true places may lie at one end, which few steps
    must reach.
    """
    n = max(1, int(extent * min(share, 0.5)))
    if n > unit:
        n -= n % unit
    for start in range(0, extent, n):
        yield start, min(n, extent - start)
