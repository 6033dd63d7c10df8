"""Factors: what an index selects on some axes of an array, and how it is cut and counted.

- `Progression`: an integer or a slice, on one axis;
- `Points`: arrays of indices, one for each of some axes, whose i-th elements are a point;
- `Mask`: the true places of an array of booleans that lies on some neighbouring axes.

Each has the same members: the ``axes`` of the array, the ``dims`` of the result, the memory of its
tables (``table_bytes``), its parts (``can_be_cut``, ``cut``), ``apart``, which copies what a write
to the array would change, ``outside``, which tells what lies outside a box, and ``add_to``, which
hands it to the compiled core.

Others may change a mask, or indices, while they are used.  Of a mask the core gets a copy, with the
number of its true places; indices it checks itself.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from extarray.config import config
from extarray.errors import SelectionError
from extarray.protocols.blocks import Source, load, tiles
from extarray.protocols.elementwise import apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from extarray.protocols.blocks import Box

    Shape: TypeAlias = tuple[int, ...]
    Indices: TypeAlias = NDArray[np.intp]
    Limits: TypeAlias = Sequence[tuple[int, int]]  # low and high index on each axis

__all__ = ["Factor", "Mask", "Points", "Progression", "count_true", "cuts", "in_order"]

# Bytes of the tables of a query: for a point on its way into order, a true place of a mask, a row
# of a mask in a chunk, and a chunk.
_POINT_BYTES = 48
_TRUE_BYTES = 16
_ROW_BYTES = 8
_PART_BYTES = 64


class _Plan(Protocol):
    """What factors are added to: the tables of the compiled core."""

    def add_progression(
        self, axis: int, start: int, step: int, count: int, user_step: int
    ) -> None: ...
    def add_points(
        self, axes: tuple[int, ...], indices: tuple[Indices, ...], user_steps: tuple[int, ...]
    ) -> None: ...
    def add_mask(
        self,
        axis: int,
        origin: tuple[int, ...],
        mask: NDArray[np.bool_],
        count: int,
        user_step: int,
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Progression:
    """The indices `start`, `start + step`, ... of an axis: an integer or a slice.

    Attributes
    ----------
    axis : int
        Of the array.
    start, step, count : int
        Which indices; `start` is not negative.
    dim : int
        Dimension of the result; -1 for an integer, which leaves none.
    """

    axis: int
    start: int
    step: int
    count: int
    dim: int

    @classmethod
    def of_slice(cls, axis: int, item: slice, extent: int, dim: int) -> Progression:
        """What a slice selects of an axis of an extent.

        Parameters
        ----------
        axis : int
        item : slice
        extent : int
        dim : int
            Dimension of the result.

        Returns
        -------
        Progression
        """
        indices = range(*item.indices(extent))
        if len(indices) > 1:
            return cls(axis, indices.start, indices.step, len(indices), dim)
        # The step of a lone index may be larger than any number of the core.
        return cls(axis, max(indices.start, 0), 1, len(indices), dim)

    @classmethod
    def of_integer(cls, axis: int, item: int, extent: int) -> Progression:
        """What an integer selects of an axis of an extent.

        Parameters
        ----------
        axis, item, extent : int

        Returns
        -------
        Progression
        """
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
    def can_be_cut(self) -> bool:
        """Whether there is more than one place to select from."""
        return self.count > 1

    def table_bytes(self, chunks: Shape) -> int:
        """Memory that the factor takes when it is made ready."""
        return _PART_BYTES * -(-self.count * abs(self.step) // chunks[self.axis])

    def cut(self, dim: int, share: float, chunks: Shape) -> Iterator[tuple[Factor, int]]:
        """Factors that follow each other along a dimension, and the extent of each."""
        for first, n in cuts(self.count, share, 1):
            yield replace(self, start=self.start + first * self.step, count=n), n

    def apart(self, target: Any) -> Progression:
        """The factor itself."""
        return self

    def outside(self, inner: Limits, extents: Shape) -> NDArray[np.bool_]:
        """Which of its elements lie outside a box, by its dimensions."""
        indices = self.start + self.step * np.arange(self.count)
        low, high = inner[self.axis]
        found: NDArray[np.bool_] = (indices < low) | (indices >= high)
        return found if self.dims else found.reshape(())

    def add_to(self, plan: _Plan, strides: Shape) -> None:
        """Add the factor to the tables, for an array of the result with the given strides."""
        plan.add_progression(
            self.axis, self.start, self.step, self.count, strides[self.dim] if self.dim >= 0 else 0
        )


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points on some axes: the i-th elements of arrays of indices.

    Attributes
    ----------
    axes : tuple of int
        Of the array.
    indices : tuple of ndarray of intp
        One for each of the axes, all of one shape.
    dims : tuple of int
        Dimensions of the result that the dimensions of the arrays become.
    """

    axes: Shape
    indices: tuple[Indices, ...]
    dims: Shape

    @property
    def can_be_cut(self) -> bool:
        """Whether there is more than one place to select from."""
        return self.indices[0].size > 1

    def table_bytes(self, chunks: Shape) -> int:
        """Memory that the factor takes when it is made ready."""
        return _POINT_BYTES * self.indices[0].size

    def cut(self, dim: int, share: float, chunks: Shape) -> Iterator[tuple[Factor, int]]:
        """Factors that follow each other along a dimension, and the extent of each."""
        along = self.dims.index(dim)
        for first, n in cuts(self.indices[0].shape[along], share, 1):
            part = (*(slice(None),) * along, slice(first, first + n))
            yield replace(self, indices=tuple(index[part] for index in self.indices)), n

    def apart(self, target: Any) -> Points:
        """The factor, with copies of indices that share elements with an array."""
        indices = tuple(apart(index, [target]) for index in self.indices)
        is_same = all(map(operator.is_, indices, self.indices))
        return self if is_same else replace(self, indices=indices)

    def outside(self, inner: Limits, extents: Shape) -> NDArray[np.bool_]:
        """Which of its elements lie outside a box, by its dimensions."""
        found = np.zeros(self.indices[0].shape, bool)
        for axis, indices in zip(self.axes, self.indices, strict=True):
            low, high = inner[axis]
            counted = np.where(indices < 0, indices + extents[axis], indices)
            found |= (counted < low) | (counted >= high)
        return found

    def add_to(self, plan: _Plan, strides: Shape) -> None:
        """Add the factor to the tables, for an array of the result with the given strides."""
        plan.add_points(self.axes, self.indices, tuple(strides[d] for d in self.dims))


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """The true places of an array of booleans, in C order.

    Attributes
    ----------
    axis : int
        The first of the axes that it lies on.
    origin : tuple of int
        Index of the first element of the box, on each of these axes.
    mask : ndarray of bool or Source
    box : tuple of slice
        The part of it that counts, with start and stop.
    count : int
        How many elements of the box are true.
    dim : int
        Dimension of the result.
    is_copy : bool
        Whether `mask` is a copy, which nobody changes.
    """

    axis: int
    origin: Shape
    mask: NDArray[np.bool_] | Source
    box: tuple[slice, ...]
    count: int
    dim: int
    is_copy: bool = False

    @classmethod
    def of_array(cls, axis: int, mask: NDArray[np.bool_] | Source, dim: int) -> Mask:
        """What a whole mask selects, from an axis on.

        Parameters
        ----------
        axis : int
        mask : ndarray of bool or Source
        dim : int
            Dimension of the result.

        Returns
        -------
        Mask
        """
        box = tuple(slice(0, n) for n in mask.shape)
        counted = _counted(mask, box, is_copy=False)
        return cls(axis, (0,) * len(box), *counted[:3], dim, counted[3])

    @property
    def axes(self) -> Shape:
        """The axes of the array."""
        return tuple(range(self.axis, self.axis + len(self.origin)))

    @property
    def dims(self) -> Shape:
        """The dimensions of the result."""
        return (self.dim,)

    @property
    def can_be_cut(self) -> bool:
        """Whether there is more than one place to select from."""
        return any(part.stop - part.start > 1 for part in self.box)

    def table_bytes(self, chunks: Shape) -> int:
        """Memory that the factor takes when it is made ready."""
        extents: list[int] = [part.stop - part.start for part in self.box]
        grid = [-(-n // c) for n, c in zip(extents, chunks[self.axis :], strict=False)]
        rows = math.prod(extents[:-1]) * grid[-1]
        tables = _TRUE_BYTES * self.count + _ROW_BYTES * rows + _PART_BYTES * math.prod(grid)
        return tables if self.is_copy else tables + _size(self.box)

    def cut(self, dim: int, share: float, chunks: Shape) -> Iterator[tuple[Factor, int]]:
        """Factors that follow each other along a dimension, and the extent of each."""
        # In C order: along the first axis that there is.
        along = next((j for j, part in enumerate(self.box) if part.stop - part.start > 1), 0)
        before, part, behind = self.box[:along], self.box[along], self.box[along + 1 :]
        found = 0
        for first, n in cuts(part.stop - part.start, share, chunks[self.axis + along]):
            start = part.start + first
            box = (*before, slice(start, start + n), *behind)
            origin = list(self.origin)
            origin[along] += first
            mask, box, count, is_copy = _counted(self.mask, box, self.is_copy)
            found += count
            if found > self.count:
                break
            piece = Mask(self.axis, tuple(origin), mask, box, count, self.dim, is_copy)
            yield piece, count
        self._check_count(found)

    def apart(self, target: Any) -> Mask:
        """The factor, with a copy of a mask that shares elements with an array."""
        mask = self.mask if self.is_copy else apart(self.mask, [target])
        return self if mask is self.mask else replace(self, mask=mask, is_copy=True)

    def part(self) -> NDArray[np.bool_]:
        """The elements of the mask, as many true as were counted, in an array of their own."""
        if isinstance(self.mask, np.ndarray) and self.is_copy:
            part = self.mask[self.box]
        else:
            part = _copy(self.mask, self.box)
        self._check_count(int(np.count_nonzero(part)))
        return part

    def _check_count(self, found: int) -> None:
        if found != self.count:
            raise SelectionError(
                f"a mask changed while it was used: {self.count} of its elements were true, now "
                f"there are {'more' if found > self.count else 'fewer'}"
            )

    def outside(self, inner: Limits, extents: Shape) -> NDArray[np.bool_]:
        """Which of its elements lie outside a box, by its dimensions."""
        found = np.zeros(self.count, bool)
        places = np.nonzero(self.part())
        for axis, first, indices in zip(self.axes, self.origin, places, strict=True):
            low, high = inner[axis]
            found |= (indices + first < low) | (indices + first >= high)
        return found

    def add_to(self, plan: _Plan, strides: Shape) -> None:
        """Add the factor to the tables, for an array of the result with the given strides."""
        plan.add_mask(self.axis, self.origin, self.part(), self.count, strides[self.dim])


Factor: TypeAlias = Progression | Points | Mask


def in_order(factors: Iterable[Factor]) -> tuple[Factor, ...]:
    """Factors in the order of their first axes, which is that of the loops over them.

    Parameters
    ----------
    factors : iterable of factor

    Returns
    -------
    tuple of factor
    """
    return tuple(sorted(factors, key=lambda factor: factor.axes[0]))


def cuts(extent: int, share: float, unit: int) -> Iterator[tuple[int, int]]:
    """Pieces of an extent.

    Parameters
    ----------
    extent : int
    share : float
        How much of the extent a piece shall have; at most half of it is what it gets: all that
        matters may lie at one end, and is to be reached in few steps.
    unit : int
        Pieces have whole units, if their share has one at least.

    Yields
    ------
    start, length : int
    """
    n = max(1, int(extent * min(share, 0.5)))
    if n > unit:
        n -= n % unit
    for start in range(0, extent, n):
        yield start, min(n, extent - start)


def _size(box: Box) -> int:
    return math.prod(part.stop - part.start for part in box)


def _copy(mask: NDArray[np.bool_] | Source, box: Box) -> NDArray[np.bool_]:
    return mask[box].copy() if isinstance(mask, np.ndarray) else mask._read_exact(box)


def _counted(
    mask: NDArray[np.bool_] | Source, box: Box, is_copy: bool
) -> tuple[NDArray[np.bool_] | Source, Box, int, bool]:
    """A mask, a box of it, how many are true there, and whether it is a copy: if memory allows it.

    What is counted is then what is used, whatever happens to the mask.
    """
    if not is_copy and _size(box) <= config.max_memory // 2:
        mask, is_copy = _copy(mask, box), True
        box = tuple(slice(0, n) for n in mask.shape)
    return mask, box, count_true(mask, box), is_copy


def count_true(mask: NDArray[np.bool_] | Source, box: tuple[slice, ...]) -> int:
    """Number of true elements in a box of a mask.

    Parameters
    ----------
    mask : ndarray of bool or Source
    box : tuple of slice
        With start and stop.

    Returns
    -------
    int
    """
    if isinstance(mask, np.ndarray):
        return int(np.count_nonzero(mask[box]))
    shape = tuple(part.stop - part.start for part in box)
    total = 0
    for tile in tiles(shape, mask.chunks, 1):
        inner = tuple(
            slice(part.start + t.start, part.start + t.stop)
            for part, t in zip(box, tile, strict=True)
        )
        total += int(np.count_nonzero(load(mask, inner)))
    return total
