"""Placement of a view in its array: a query on the view is one on the array.

Where the view is, is told by the parts that it has of the array's axes.  Nothing is read or written
here but by the core.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.common.config import config
from extarray.selection.factors import POINT_BYTES, Points, Progression, in_order
from extarray.selection.masks import Trues
from extarray.selection.parts import line_of, moved_part, selected_part, true_points
from extarray.streaming.blocks import Source, view_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from extarray._core._array import ArrayCore
    from extarray.grid.tiles import Box
    from extarray.selection.factors import Factor
    from extarray.selection.parts import Part
    from extarray.selection.query import Query
    from extarray.streaming.blocks import Line

__all__ = ["Placement", "index_of_element"]

# Memory that a true place of a mask takes as a point, besides the tables: for each axis as an index
# into the view and as one into the array.
_INDEX_BYTES = 16


class Placement(NamedTuple):
    """The placement of a view's elements in its array.

    Made by `Placement.of`.

    Attributes
    ----------
    parts : tuple
        What is selected along each axis of the array, in order.
    zero : tuple of int
        The array's origin, from which they count.
    uuid : bytes
        Of the array.
    shape : tuple of int
        Of the view.
    shown : dict
        The parts by axis of the view.
    needed : tuple of (int, int)
        Bounds that the array must have.
    """

    parts: tuple[Part, ...]
    zero: tuple[int, ...]
    uuid: bytes
    shape: tuple[int, ...]
    shown: dict[int, Part]
    needed: tuple[tuple[int, int], ...]

    @classmethod
    def of(
        cls, parts: tuple[Part, ...], zero: tuple[int, ...], uuid: bytes, shape: tuple[int, ...]
    ) -> Placement:
        """Place a view of some parts.

        Parameters
        ----------
        parts, zero, uuid, shape
            As the attributes.
        """
        lines = [line_of(part) for part in parts]
        ends = [(_ends(line), line[2]) for line in lines]
        return cls(
            parts,
            zero,
            uuid,
            shape,
            {part.dims[0]: part for part in parts if part.dims},
            tuple((min(pair), max(pair) + 1) if n else (0, 0) for pair, n in ends),
        )

    def moved(self, zero: tuple[int, ...]) -> Placement:
        """Place the same elements in an array that has another origin by now.

        Parameters
        ----------
        zero : tuple of int
        """
        parts = map(moved_part, self.parts, map(operator.sub, zero, self.zero))
        return self.of(tuple(parts), zero, self.uuid, self.shape)

    def chunks(self, chunks: tuple[int, ...]) -> tuple[int, ...]:
        """Return the extents of the parts in which the view is best read.

        Parameters
        ----------
        chunks : tuple of int
            Of the array.
        """
        return tuple(self._chunk(d, n, chunks) for d, n in enumerate(self.shape))

    def _chunk(self, dim: int, extent: int, chunks: tuple[int, ...]) -> int:
        part = self.shown.get(dim)
        if part is None:
            return max(extent, 1)
        chunk = chunks[part.axes[0]]
        return max(1, chunk // abs(part.step)) if isinstance(part, Progression) else chunk

    def lead(self, chunks: tuple[int, ...], lead: tuple[int, ...]) -> tuple[int, ...]:
        """Return what the first chunk of each axis would have before the view's first element.

        Parameters
        ----------
        chunks, lead : tuple of int
            Of the array.
        """
        return tuple(self._first(d, chunks, lead) for d in range(len(self.shape)))

    def _first(self, dim: int, chunks: tuple[int, ...], lead: tuple[int, ...]) -> int:
        part = self.shown.get(dim)
        if not isinstance(part, Progression) or abs(part.step) != 1:
            return 0
        chunk = chunks[part.axis]
        place = (part.start + lead[part.axis]) % chunk
        return place if part.step == 1 else chunk - 1 - place

    def repeats(self) -> bool:
        """Tell whether an element of the array occurs more than once."""
        return any(n > 1 for d, n in enumerate(self.shape) if d not in self.shown) or any(
            len(np.unique(part.indices[0])) < part.indices[0].size
            for part in self.parts
            if isinstance(part, Points)
        )

    def arranged(self, dims: Sequence[int | None]) -> tuple[Part, ...]:
        """Return the parts of a view whose axes show the given ones of this view.

        Parameters
        ----------
        dims : sequence of (int or None)
            None: a new axis.
        """
        place = {old: new for new, old in enumerate(dims) if old is not None}
        parts: list[Part] = []
        for part in self.parts:
            dim = place.get(part.dims[0], -1) if part.dims else -1
            if isinstance(part, Progression):
                parts.append(replace(part, dim=dim))
            elif dim < 0:  # an axis of length 1 that goes
                parts.append(Progression(part.axes[0], int(part.indices[0][0]), 1, 1, -1))
            else:
                parts.append(replace(part, dims=(dim,)))
        return tuple(parts)

    def selected(self, query: Query) -> tuple[Part, ...]:
        """Return the parts of the view of what a query selects.

        Parameters
        ----------
        query : Query
            `is_orthogonal` holds for it.
        """
        factors = [true_points(f) if isinstance(f, Trues) else f for f in query.factors]
        found = self.on_array(replace(query, factors=tuple(factors)))
        # A query that selects nothing may say nothing of an axis.
        parts: list[Any] = [Progression(axis, 0, 1, 0, -1) for axis in range(len(self.parts))]
        for factor in found.factors:
            if isinstance(factor, Points) and not factor.dims:  # one point
                factor = Progression(factor.axes[0], int(factor.indices[0]), 1, 1, -1)
            parts[factor.axes[0]] = factor
        return tuple(parts)

    def element(self, indices: Sequence[int]) -> tuple[int, ...]:
        """Return the index in the array of an element of the view.

        Parameters
        ----------
        indices : sequence of int
            Each at least 0.
        """
        place: list[int] = []
        for part in self.parts:
            i = indices[part.dims[0]] if part.dims else 0
            if isinstance(part, Progression):
                place.append(part.start + i * part.step)
            else:
                place.append(int(part.indices[0][i]))
        return tuple(place)

    def box(self, box: Box) -> tuple[Box, tuple[Any, ...], list[int]] | None:
        """Find the box of the array that has those elements which a box of the view has.

        Parameters
        ----------
        box : tuple of slice

        Returns
        -------
        own : tuple of slice
            The box of the array.
        items : tuple of (int or slice)
            What the view shows of it.
        dims : list of int
            The view's axes in the order in which they are then.

        Notes
        -----
        None where there is no such box: of lists of indices, or without elements.
        """
        own: list[slice] = []
        items: list[Any] = []
        dims: list[int] = []
        for part in self.parts:
            if isinstance(part, Points):
                return None
            start, step, count = part.start, part.step, part.count
            if part.dim < 0:
                items.append(0)
            else:
                cut = box[part.dim]
                start, count = start + cut.start * step, cut.stop - cut.start
                items.append(slice(None, None, step))
                dims.append(part.dim)
            if count <= 0:
                return None
            low, high = _ends((start, step, count, None))
            own.append(slice(low, high + 1))
        return tuple(own), tuple(items), dims

    def peek(self, array: Source, box: Box, writable: bool) -> NDArray[Any] | None:
        """Show a box of elements that lies in one chunk, or nothing.

        Parameters
        ----------
        array : Source
        box : tuple of slice
        writable : bool

        Returns
        -------
        ndarray or None
            Axes that are new, or along which elements are repeated, have length 1.
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
        """Move what a query on the view selects from or (write) to memory of its shape.

        Parameters
        ----------
        array : ArrayCore
        query : Query
        values : ndarray
        write : bool
        """
        if query.size == 0:
            return
        masks = [f for f in query.factors if isinstance(f, Trues) and self.lifted(f) is None]
        tables = sum(f.count * (POINT_BYTES + _INDEX_BYTES * len(f.axes)) for f in masks)
        share = config.max_memory // 2 / max(tables, 1)
        if share < 1:
            is_cut = False
            for part, piece in query.cut(share, self.chunks(array.chunks), by_tables=True):
                is_cut = True
                self.move(array, piece, values[part], write)
            if is_cut:
                return
        found = self.on_array(query)
        filled = {dim for factor in found.factors for dim in factor.dims}
        # Of elements that are repeated, the last is written; the first is read, and copied.
        once = slice(-1, None) if write else slice(0, 1)
        place = [slice(None) if dim in filled else once for dim in range(len(query.shape))]
        block = values[(*place, ...)]
        shape = block.shape[: len(query.shape)]
        array._move(replace(found, shape=shape), block, write)
        if not write and shape != query.shape:
            values[...] = block

    def on_array(self, query: Query) -> Query:
        """Return the query on the array that a query on the view is.

        Parameters
        ----------
        query : Query
        """
        factors: list[Factor] = [part for part in self.parts if not part.dims]
        for factor in query.factors:
            if isinstance(factor, Trues):
                lifted = self.lifted(factor)
                if lifted is not None:
                    factors.append(lifted)
                    continue
                factor = true_points(factor)
            if isinstance(factor, Points):
                factors += self._points(factor)
            elif isinstance(factor, Progression) and factor.axis in self.shown:
                factors.append(selected_part(self.shown[factor.axis], factor))
        return replace(
            query,
            extents=tuple(high for _, high in self.needed),
            factors=in_order(factors),
            origin=self.zero,
        )

    def lifted(self, mask: Trues) -> Trues | None:
        """Return a mask on the array, where it lies there in one piece and in the same order.

        Parameters
        ----------
        mask : Mask or Places
        """
        parts = [self.shown.get(axis) for axis in mask.axes]
        first, origin = parts[0], []
        for i, (part, start) in enumerate(zip(parts, mask.origin, strict=True)):
            if not isinstance(part, Progression) or not isinstance(first, Progression):
                return None
            if part.step != 1 or part.axis != first.axis + i:
                return None
            origin.append(part.start + start)
        assert first is not None
        return replace(mask, axis=first.axes[0], origin=tuple(origin))

    def _points(self, points: Points) -> Iterator[Points]:
        """Yield points of the view as points of the array: none where all its axes are new."""
        found: list[tuple[int, NDArray[np.intp]]] = []
        for axis, indices in zip(points.axes, points.indices, strict=True):
            part = self.shown.get(axis)
            if part is None:
                continue
            indices = np.where(indices < 0, indices + self.shape[axis], indices)
            if isinstance(part, Progression):
                indices = part.start + part.step * indices
            else:
                indices = part.indices[0][indices]
            found.append((part.axes[0], np.asarray(indices)))  # NumPy gives scalars for one point
        if found:
            found.sort(key=operator.itemgetter(0))
            axes, mapped = zip(*found, strict=True)
            yield Points(axes, mapped, points.dims)


def _ends(line: Line) -> tuple[int, int]:
    """Return the least and the greatest index."""
    start, step, count, _ = line
    last = start + (count - 1) * step
    return min(start, last), max(start, last)


def index_of_element(key: Any, shape: tuple[int, ...]) -> list[int] | None:
    """Return the index of one element, each at least 0; None where `key` is none of one.

    Parameters
    ----------
    key : index expression
    shape : tuple of int
    """
    items = key if isinstance(key, tuple) else (key,)
    if len(items) != len(shape):
        return None
    indices: list[Any] = [_index(i, n) for i, n in zip(items, shape, strict=True)]
    return None if None in indices else indices


def _index(item: Any, extent: int) -> int | None:
    """Return an index of an axis, at least 0; None for what is no integer, or out of bounds."""
    if isinstance(item, (bool, np.bool)):
        return None
    try:
        i = operator.index(item)
    except TypeError:
        return None
    return i % extent if -extent <= i < extent else None
