"""Placement of a view in its array: turns a query on the view into one on the array.

A view has a factor for each axis of the array.  Only the core reads and writes elements.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.common.config import config
from extarray.selection.axis_factors import composed, line_of, shifted, true_points
from extarray.selection.factors import POINT_BYTES, Points, Progression, in_order
from extarray.selection.masks import MaskFactor
from extarray.streaming.blocks import Source, view_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from extarray._core._array import ArrayCore
    from extarray.grid.tiles import Box
    from extarray.selection.axis_factors import AxisFactor
    from extarray.selection.factors import Factor
    from extarray.selection.query import Query
    from extarray.streaming.blocks import Line

__all__ = ["Placement", "index_of_element"]

# Bytes that a true place of a mask takes as a point, besides the tables, for each axis: one index
# into the view and one into the array.
_INDEX_BYTES = 16


class Placement(NamedTuple):
    """The placement of a view's elements in its array, made by `Placement.of`.

    Attributes
    ----------
    factors : tuple
        The selection on each axis of the array, in order.
    zero : tuple of int
        Origin of the array from which indices count.
    uuid : bytes
        UUID of the array.
    shape : tuple of int
        Shape of the view.
    shown : dict
        The factors by axis of the view.
    needed : tuple of (int, int)
        Least bounds that the array must have.
    """

    factors: tuple[AxisFactor, ...]
    zero: tuple[int, ...]
    uuid: bytes
    shape: tuple[int, ...]
    shown: dict[int, AxisFactor]
    needed: tuple[tuple[int, int], ...]

    @classmethod
    def of(
        cls,
        factors: tuple[AxisFactor, ...],
        zero: tuple[int, ...],
        uuid: bytes,
        shape: tuple[int, ...],
    ) -> Placement:
        """Place a view, given its factors."""
        lines = [line_of(factor) for factor in factors]
        ends = [(_ends(line), line[2]) for line in lines]
        return cls(
            factors,
            zero,
            uuid,
            shape,
            {factor.dims[0]: factor for factor in factors if factor.dims},
            tuple((min(pair), max(pair) + 1) if n else (0, 0) for pair, n in ends),
        )

    def moved(self, zero: tuple[int, ...]) -> Placement:
        """Return the placement of the same elements after the array's origin has moved."""
        factors = map(shifted, self.factors, map(operator.sub, zero, self.zero))
        return self.of(tuple(factors), zero, self.uuid, self.shape)

    def chunks(self, chunks: tuple[int, ...]) -> tuple[int, ...]:
        """Return the extents of the parts in which to read the view, given those of chunks."""
        return tuple(self._chunk(d, n, chunks) for d, n in enumerate(self.shape))

    def _chunk(self, dim: int, extent: int, chunks: tuple[int, ...]) -> int:
        factor = self.shown.get(dim)
        if factor is None:
            return max(extent, 1)
        chunk = chunks[factor.axes[0]]
        return max(1, chunk // abs(factor.step)) if isinstance(factor, Progression) else chunk

    def lead(self, chunks: tuple[int, ...], lead: tuple[int, ...]) -> tuple[int, ...]:
        """Return how many elements of each axis's first chunk precede the view's first element."""
        return tuple(self._first(d, chunks, lead) for d in range(len(self.shape)))

    def _first(self, dim: int, chunks: tuple[int, ...], lead: tuple[int, ...]) -> int:
        factor = self.shown.get(dim)
        if not isinstance(factor, Progression) or abs(factor.step) != 1:
            return 0
        chunk = chunks[factor.axis]
        place = (factor.start + lead[factor.axis]) % chunk
        return place if factor.step == 1 else chunk - 1 - place

    def repeats(self) -> bool:
        """Tell whether the view shows an element of the array more than once."""
        return any(n > 1 for d, n in enumerate(self.shape) if d not in self.shown) or any(
            len(np.unique(factor.indices[0])) < factor.count
            for factor in self.factors
            if isinstance(factor, Points)
        )

    def arranged(self, dims: Sequence[int | None]) -> tuple[AxisFactor, ...]:
        """Return the factors of a view whose axes are these axes of this view; None: a new axis."""
        place = {old: new for new, old in enumerate(dims) if old is not None}
        arranged: list[AxisFactor] = []
        for factor in self.factors:
            dim = place.get(factor.dims[0], -1) if factor.dims else -1
            if isinstance(factor, Progression):
                arranged.append(replace(factor, dim=dim))
            elif dim < 0:  # an axis of length 1 is dropped
                arranged.append(_lone(factor))
            else:
                arranged.append(replace(factor, dims=(dim,)))
        return tuple(arranged)

    def selected(self, query: Query) -> tuple[AxisFactor, ...]:
        """Return the factors of the view that a query, which `is_orthogonal`, selects."""
        factors = [true_points(f) if isinstance(f, MaskFactor) else f for f in query.factors]
        found = self.on_array(replace(query, factors=tuple(factors)))
        # An empty query may have no factor for some axis.
        selected: list[Any] = [Progression(axis, 0, 1, 0, -1) for axis in range(len(self.factors))]
        for factor in found.factors:
            if isinstance(factor, Points) and not factor.dims:
                factor = _lone(factor)
            selected[factor.axes[0]] = factor
        return tuple(selected)

    def element(self, indices: Sequence[int]) -> tuple[int, ...]:
        """Return the array's index of an element of the view; `indices` must not be negative."""
        place: list[int] = []
        for factor in self.factors:
            i = indices[factor.dims[0]] if factor.dims else 0
            if isinstance(factor, Progression):
                place.append(factor.start + i * factor.step)
            else:
                place.append(int(factor.indices[0][i]))
        return tuple(place)

    def box(self, box: Box) -> tuple[Box, tuple[Any, ...], list[int]] | None:
        """Find the box of the array that covers a box of the view.

        Returns
        -------
        own : tuple of slice
            The box of the array.
        items : tuple of (int or slice)
            The view's index into that box.
        dims : list of int
            The view's axes, in the order that the index gives.

        Notes
        -----
        None if there is no such box: for lists of indices, or without elements.
        """
        own: list[slice] = []
        items: list[Any] = []
        dims: list[int] = []
        for factor in self.factors:
            if isinstance(factor, Points):
                return None
            start, step, count = factor.start, factor.step, factor.count
            if factor.dim < 0:
                items.append(0)
            else:
                piece = box[factor.dim]
                start, count = start + piece.start * step, piece.stop - piece.start
                items.append(slice(None, None, step))
                dims.append(factor.dim)
            if count <= 0:
                return None
            low, high = _ends((start, step, count, None))
            own.append(slice(low, high + 1))
        return tuple(own), tuple(items), dims

    def peek(self, array: Source, box: Box, writable: bool) -> NDArray[Any] | None:
        """Return a view of a box of elements that lies in one chunk, else None.

        New axes, and axes along which elements repeat, have length 1.
        """
        found = self.box(box)
        if found is None:
            return None
        own, items, dims = found
        block = view_of(array, own, writable)
        if block is None:
            return None
        block = block[(*items, ...)].transpose(np.argsort(dims))
        new = [slice(None) if d in self.shown else None for d in range(len(self.shape))]
        return block[(*new, ...)]

    def move(self, array: ArrayCore, query: Query, values: NDArray[Any], write: bool) -> None:
        """Move the selection of a query on the view from or (`write`) to the array."""
        if query.size == 0:
            return
        masks = [f for f in query.factors if isinstance(f, MaskFactor) and self.lifted(f) is None]
        tables = sum(f.count * (POINT_BYTES + _INDEX_BYTES * len(f.axes)) for f in masks)
        share = config.max_memory // 2 / max(tables, 1)
        if share < 1:
            is_split = False
            for part, piece in query.split(share, self.chunks(array.chunks), by_tables=True):
                is_split = True
                self.move(array, piece, values[part], write)
            if is_split:
                return
        found = self.on_array(query)
        filled = {dim for factor in found.factors for dim in factor.dims}
        # If elements repeat, write the last; read the first, and copy it.
        once = slice(-1, None) if write else slice(0, 1)
        place = [slice(None) if dim in filled else once for dim in range(len(query.shape))]
        block = values[(*place, ...)]
        shape = block.shape[: len(query.shape)]
        array._move(replace(found, shape=shape), block, write)
        if not write and shape != query.shape:
            values[...] = block

    def on_array(self, query: Query) -> Query:
        """Turn a query on the view into one on the array."""
        factors: list[Factor] = [factor for factor in self.factors if not factor.dims]
        for factor in query.factors:
            if isinstance(factor, MaskFactor):
                lifted = self.lifted(factor)
                if lifted is not None:
                    factors.append(lifted)
                    continue
                factor = true_points(factor)
            if isinstance(factor, Points):
                factors += self._points(factor)
            elif isinstance(factor, Progression) and factor.axis in self.shown:
                factors.append(composed(self.shown[factor.axis], factor))
        return replace(
            query,
            extents=tuple(high for _, high in self.needed),
            factors=in_order(factors),
            origin=self.zero,
        )

    def lifted(self, mask: MaskFactor) -> MaskFactor | None:
        """Return a mask on the array, if it lies there in one piece and in the same order."""
        factors = [self.shown.get(axis) for axis in mask.axes]
        first, start = factors[0], []
        for i, (factor, low) in enumerate(zip(factors, mask.start, strict=True)):
            if not isinstance(factor, Progression) or not isinstance(first, Progression):
                return None
            if factor.step != 1 or factor.axis != first.axis + i:
                return None
            start.append(factor.start + low)
        assert first is not None
        return replace(mask, axis=first.axes[0], start=tuple(start))

    def _points(self, points: Points) -> Iterator[Points]:
        """Yield points of the view as points of the array; nothing if all their axes are new."""
        found: list[tuple[int, NDArray[np.intp]]] = []
        for axis, indices in zip(points.axes, points.indices, strict=True):
            factor = self.shown.get(axis)
            if factor is None:
                continue
            indices = np.where(indices < 0, indices + self.shape[axis], indices)
            if isinstance(factor, Progression):
                indices = factor.start + factor.step * indices
            else:
                indices = factor.indices[0][indices]
            found.append((factor.axes[0], np.asarray(indices)))  # NumPy returns scalars for 0-d
        if found:
            found.sort(key=operator.itemgetter(0))
            axes, mapped = zip(*found, strict=True)
            yield Points(axes, mapped, points.dims)


def _lone(point: Points) -> Progression:
    """Return the only index of a factor as an integer, which has no dimension."""
    return Progression(point.axes[0], int(point.indices[0].item()), 1, 1, -1)


def _ends(line: Line) -> tuple[int, int]:
    """Return the least and the greatest index."""
    start, step, count, _ = line
    last = start + (count - 1) * step
    return min(start, last), max(start, last)


def index_of_element(key: Any, shape: tuple[int, ...]) -> list[int] | None:
    """Return the nonnegative index of an element; None if `key` does not select one element."""
    items = key if isinstance(key, tuple) else (key,)
    if len(items) != len(shape):
        return None
    indices: list[Any] = [_index(i, n) for i, n in zip(items, shape, strict=True)]
    return None if None in indices else indices


def _index(item: Any, extent: int) -> int | None:
    """Return the nonnegative index on an axis; None if it is no integer or out of bounds."""
    if isinstance(item, (bool, np.bool)):
        return None
    try:
        i = operator.index(item)
    except TypeError:
        return None
    return i % extent if -extent <= i < extent else None
