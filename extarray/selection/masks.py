"""Masks as factors: an array of booleans that selects along neighbouring axes.

If nearly all of it is false, its true places are found once and listed: `Places`.  Otherwise the
mask is copied, and the core lists it chunk by chunk: `Mask`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from extarray._core._lists import true_places
from extarray.common.config import config
from extarray.common.errors import SelectionError
from extarray.common.limits import limits
from extarray.common.threads import run_together
from extarray.grid.tiles import tiles
from extarray.selection.factors import PART_BYTES, POINT_BYTES, share_of_list, split_extent
from extarray.streaming.blocks import Source, hold, load, read_exactly
from extarray.streaming.elementwise import apart

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box
    from extarray.selection.factors import Factor, Limits

    Shape: TypeAlias = tuple[int, ...]

__all__ = ["Mask", "MaskFactor", "Places", "of_mask"]

# Bytes of a query's tables: for a true place of a mask, and for a row of it in a chunk.
_TRUE_BYTES = 8
_ROW_BYTES = 8
# At one true place in this many, finding them takes no longer than copying the mask.
_RARE = 16


@dataclass(slots=True, eq=False)
class _InBox:
    """Elements in a box of the array, in C order, which fill one dimension of the result.

    Attributes
    ----------
    axis : int
        First axis of the box.
    start : tuple of int
        Index of the first element of the box, on each axis.
    dim : int
        Dimension of the result.
    """

    axis: int
    start: Shape
    dim: int

    @property
    def axes(self) -> Shape:
        """The axes of the array."""
        return tuple(range(self.axis, self.axis + len(self.start)))

    @property
    def dims(self) -> Shape:
        """The dimensions of the result."""
        return (self.dim,)


def _outside(axes: Shape, places: tuple[NDArray[np.intp], ...], inner: Limits) -> NDArray[np.bool_]:
    """Mark the places that lie outside a box."""
    outside = np.zeros((), bool)
    for axis, indices in zip(axes, places, strict=True):
        low, high = inner[axis]
        outside = outside | (indices < low) | (indices >= high)
    return outside


@dataclass(slots=True, eq=False)
class Mask(_InBox):
    """The true places of an array of booleans, in C order.

    Attributes
    ----------
    mask : ndarray of bool or Source
    box : tuple of slice
        The part of it that is used, with start and stop.
    count : int
        Number of true elements in the box.
    is_copy : bool
        Whether `mask` is a copy, which nobody else changes.
    """

    kind: ClassVar[str] = "mask"
    mask: NDArray[np.bool_] | Source
    box: Box
    count: int
    is_copy: bool = False

    @property
    def can_be_split(self) -> bool:
        """True if it covers more than one element."""
        return any(part.stop - part.start > 1 for part in self.box)

    def table_bytes(self, chunks: Shape) -> int:
        """Return the memory that the factor takes once it is ready."""
        extents: list[int] = [part.stop - part.start for part in self.box]
        grid = [-(-n // c) for n, c in zip(extents, chunks[self.axis :], strict=False)]
        rows = math.prod(extents[:-1]) * grid[-1]
        tables = _TRUE_BYTES * self.count + _ROW_BYTES * rows + PART_BYTES * math.prod(grid)
        return tables if self.is_copy else tables + _size(self.box)

    def share(self, chunks: Shape) -> float:
        """Return which share of the factor the core can list at once; 1 or more: all."""
        return share_of_list(self.count, chunks)

    def split(self, dim: int, share: float, chunks: Shape) -> Iterator[tuple[Factor, int]]:
        """Yield consecutive factors along a dimension, with the extent of each."""
        # To keep C order, split the first axis longer than 1.
        along = next((j for j, part in enumerate(self.box) if part.stop - part.start > 1), 0)
        before, part, behind = self.box[:along], self.box[along], self.box[along + 1 :]
        found = 0
        for first, n in split_extent(part.stop - part.start, share, chunks[self.axis + along]):
            start = part.start + first
            box = (*before, slice(start, start + n), *behind)
            start = list(self.start)
            start[along] += first
            piece = _selected(self.axis, tuple(start), self.mask, box, self.dim, self.is_copy)
            found += piece.count
            if found > self.count:
                break
            yield piece, piece.count
        self._check_count(found)

    def apart(self, target: Any) -> Mask:
        """Return the factor, with a copy of a mask that shares elements with `target`."""
        mask = self.mask if self.is_copy else apart(self.mask, [target])
        return self if mask is self.mask else replace(self, mask=mask, is_copy=True)

    def ready(self) -> Mask:
        """Return the factor with a copy of the part of the mask that is used."""
        if self.is_copy and self.mask.shape == _shape(self.box):
            return self
        part = self._own() if self.is_copy else self.part()
        return replace(self, mask=part, box=_from_zero(self.box), is_copy=True)

    def _own(self) -> NDArray[np.bool_]:
        """Return the used elements of a mask that is already a copy."""
        part: NDArray[np.bool_] = self.mask[self.box]  # type: ignore[index]
        return part

    def part(self) -> NDArray[np.bool_]:
        """Copy the used elements of the mask; raise if the number of true ones has changed."""
        part = self._own() if self.is_copy else _copy(self.mask, self.box)
        self._check_count(int(np.count_nonzero(part)))
        return part

    def _check_count(self, found: int) -> None:
        if found != self.count:
            raise SelectionError(
                f"a mask changed during use: {self.count} of its elements were true, now "
                f"{'more' if found > self.count else 'fewer'} are"
            )

    def outside(self, inner: Limits, extents: Shape) -> NDArray[np.bool_]:
        """Mark its elements that lie outside a box; the result has the factor's dimensions."""
        return _outside(self.axes, self.nonzero(), inner)

    def nonzero(self) -> tuple[NDArray[np.intp], ...]:
        """Return the indices of the true places, on each axis."""
        found = np.nonzero(self.part())
        return tuple(first + place for first, place in zip(self.start, found, strict=True))


@dataclass(slots=True, eq=False)
class Places(_InBox):
    """The true places of a mask that has few, numbered in the C order of a box.

    Attributes
    ----------
    extents : tuple of int
        Extents of the box.
    places : (n,) array of int64
        Increasing; owned by this factor.
    """

    kind: ClassVar[str] = "places"
    extents: Shape
    places: NDArray[np.int64]

    @property
    def count(self) -> int:
        """The number of elements selected."""
        return len(self.places)

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
        for first, n in split_extent(self.count, share, 1):
            yield replace(self, places=self.places[first : first + n]), n

    def apart(self, target: Any) -> Places:
        """Return the factor: no write changes it."""
        return self

    def outside(self, inner: Limits, extents: Shape) -> NDArray[np.bool_]:
        """Mark its elements that lie outside a box; the result has the factor's dimensions."""
        return _outside(self.axes, self.nonzero(), inner)

    def nonzero(self) -> tuple[NDArray[np.intp], ...]:
        """Return the indices of the places, on each axis."""
        found = np.unravel_index(self.places, self.extents)
        return tuple(first + place for first, place in zip(self.start, found, strict=True))


#: The factor of a mask: copied, or listed.
MaskFactor: TypeAlias = Mask | Places


def _size(box: Box) -> int:
    return math.prod(part.stop - part.start for part in box)


def _shape(box: Box) -> Shape:
    return tuple(part.stop - part.start for part in box)


def _from_zero(box: Box) -> Box:
    return tuple(slice(0, n) for n in _shape(box))


def _copy(mask: NDArray[np.bool_] | Source, box: Box) -> NDArray[np.bool_]:
    return mask[box].copy() if isinstance(mask, np.ndarray) else read_exactly(mask, box)


def of_mask(axis: int, mask: NDArray[np.bool_] | Source, dim: int) -> MaskFactor:
    """Make the factor of a whole mask, from `axis` on, for dimension `dim` of the result."""
    if not isinstance(mask, np.ndarray):
        mask = hold(mask)
    box = tuple(slice(0, n) for n in mask.shape)
    return _selected(axis, (0,) * len(box), mask, box, dim, is_copy=False)


def _selected(
    axis: int,
    start: Shape,
    mask: NDArray[np.bool_] | Source,
    box: Box,
    dim: int,
    is_copy: bool,
) -> MaskFactor:
    """Make the factor of a box of a mask; if memory allows, count and use the same copy."""
    size = _size(box)
    if size <= config.max_memory // 2:
        if not isinstance(mask, np.ndarray):
            mask, box, is_copy = _copy(mask, box), _from_zero(box), True
        places = _true_places(mask[box], size // _RARE)
        if places is not None:
            return Places(axis, start, dim, _shape(box), places)
        if not is_copy:
            mask, box, is_copy = _copy(mask, box), _from_zero(box), True
    return Mask(axis, start, dim, mask, box, _count_true(mask, box), is_copy)


def _true_places(mask: NDArray[np.bool_], most: int) -> NDArray[np.int64] | None:
    """Do `true_places` on as many threads as the mask justifies."""
    rows = len(mask)
    n = min(mask.size // limits.share_bytes, rows)
    if n > 1:  # asking for the number of threads takes time
        n = min(n, config.threads)
    if n <= 1:
        return true_places(mask, most)
    edges = [rows * i // n for i in range(n + 1)]
    parts: list[NDArray[np.int64] | None] = [None] * n

    def find(i: int) -> None:
        parts[i] = true_places(mask[edges[i] : edges[i + 1]], most)

    run_together([partial(find, i) for i in range(n)])
    found = [part for part in parts if part is not None]
    if len(found) < n or sum(map(len, found)) > most:
        return None
    for first, part in zip(edges, found, strict=False):
        part += first * (mask.size // rows)
    return np.concatenate(found)


def _count_true(mask: NDArray[np.bool_] | Source, box: Box) -> int:
    """Count the true elements in a box of a mask."""
    if isinstance(mask, np.ndarray):
        return int(np.count_nonzero(mask[box]))
    total = 0
    for tile in tiles(_shape(box), mask.chunks, 1):
        inner = tuple(
            slice(part.start + t.start, part.start + t.stop)
            for part, t in zip(box, tile, strict=True)
        )
        total += int(np.count_nonzero(load(mask, inner)))
    return total
