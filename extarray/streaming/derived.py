"""Operands computed as they are read; their elements are stored nowhere.

Streaming accepts them like arrays.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ReadOnlyError
from extarray.streaming.blocks import Source, comes_late, own_box
from extarray.streaming.elementwise import as_operand, chunks_for, part_of, shape_of
from extarray.streaming.operands import chunks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import DTypeLike, NDArray

    from extarray.grid.tiles import Box

__all__ = ["Computed", "Flat", "Joined", "Widened", "flat", "widened"]


class _Derived(Source):
    """Base of derived operands, which are read by boxes and own no memory."""

    __slots__ = ("chunks", "dtype", "shape")
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]

    def __init__(self, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: DTypeLike) -> None:
        self.shape, self.chunks, self.dtype = shape, chunks, np.dtype(dtype)

    @property
    def _identity(self) -> Any:
        return self  # shares elements with no other array

    def _peek(self, box: Box, writable: bool = False) -> NDArray[Any] | None:
        return None if writable else self._compute(box)

    def read(self, selection: Any = ...) -> NDArray[Any]:
        """Copy the elements of a box, by default of the whole operand."""
        box = tuple(slice(0, n) for n in self.shape) if selection is ... else selection
        result = self._compute(box)
        return result if result.flags.owndata else result.copy()

    def write(self, selection: Any, values: Any) -> None:
        """Refuse to write, by a `ReadOnlyError`."""
        raise ReadOnlyError("an operand that is computed on reading is read-only")

    def _compute(self, box: Box) -> NDArray[Any]:
        """Compute a box, as a new array or a view of an operand; do not write to it."""
        raise NotImplementedError


class Computed(_Derived):
    """An elementwise function of operands.

    Parameters
    ----------
    function : callable
        Takes the part of each operand in a box, and returns the result for the box.
    *operands : array_like or Source
        Broadcast against each other; scalars are passed as they are.
    dtype : dtype_like
        Dtype of the result.

    Examples
    --------
    >>> Computed(np.multiply, np.arange(3), [[1], [2]], dtype=int).read()
    array([[0, 1, 2],
           [0, 2, 4]])
    """

    __slots__ = ("_function", "_operands")

    def __init__(self, function: Callable[..., Any], *operands: Any, dtype: DTypeLike) -> None:
        self._function = function
        self._operands = [as_operand(x) for x in operands]
        shape = np.broadcast_shapes(*map(shape_of, self._operands))
        super().__init__(shape, chunks_for(shape, self._operands), dtype)

    @property
    def _comes_late(self) -> bool:
        return any(comes_late(x) for x in self._operands)

    def _ahead(self, boxes: Sequence[Box]) -> None:
        for x in self._operands:
            if isinstance(x, Source):
                x._ahead([own_box(x.shape, box) for box in boxes])

    def _compute(self, box: Box) -> NDArray[Any]:
        result = np.asarray(self._function(*[part_of(x, box) for x in self._operands]))
        extents = tuple(s.stop - s.start for s in box)
        return np.broadcast_to(result.astype(self.dtype, copy=False), extents)


class Flat(_Derived):
    """The elements of an array in C order, as one axis.

    Parameters
    ----------
    base : Source or ndarray

    Examples
    --------
    >>> flat = Flat(np.array([[1, 2, 3], [4, 5, 6]]))
    >>> flat.read((slice(2, 4),))
    array([3, 4])
    """

    __slots__ = ("base",)

    def __init__(self, base: Any) -> None:
        self.base = base
        # A layer of chunks is read together.
        layer = max(1, math.prod((*chunks_of(base)[:1], *base.shape[1:])))
        super().__init__((math.prod(base.shape),), (layer,), base.dtype)

    @property
    def _identity(self) -> Any:
        return self.base._identity if isinstance(self.base, Source) else self

    def _compute(self, box: Box) -> NDArray[Any]:
        (piece,) = box
        result = np.empty(piece.stop - piece.start, self.dtype)
        for start, part in _boxes(self.base.shape, piece.start, piece.stop):
            block = part_of(self.base, part)
            result[start - piece.start : start - piece.start + block.size] = block.reshape(-1)
        return result

    def write(self, selection: Any, values: Any) -> None:
        """Write to a range of the elements."""
        (piece,) = selection
        values = np.broadcast_to(values, (piece.stop - piece.start,))
        for start, part in _boxes(self.base.shape, piece.start, piece.stop):
            extents = [s.stop - s.start for s in part]
            low = start - piece.start
            block = values[low : low + math.prod(extents)].reshape(extents)
            if isinstance(self.base, Source):
                self.base._write_exact(part, block)
            else:
                self.base[(*part, ...)] = block


def _boxes(shape: tuple[int, ...], low: int, high: int) -> Iterator[tuple[int, Box]]:
    """Yield boxes that together hold elements low ... high - 1 of a shape, counted in C order.

    Boxes come in order, each with the number of its first element: at most two for each axis but
    the first, and one between.
    """
    if high <= low:
        return
    if not shape:
        yield low, ()
        return
    row = math.prod(shape[1:])
    first, last = -(-low // row), high // row  # the whole rows
    if first > last:  # the range lies inside of one row
        yield from _inside(shape, last, low, high)
        return
    if low < first * row:
        yield from _inside(shape, first - 1, low, first * row)
    if first < last:
        yield first * row, (slice(first, last), *[slice(0, n) for n in shape[1:]])
    if last * row < high:
        yield from _inside(shape, last, last * row, high)


def _inside(shape: tuple[int, ...], i: int, low: int, high: int) -> Iterator[tuple[int, Box]]:
    """Yield the boxes of a range that lies inside row `i`."""
    start = i * math.prod(shape[1:])
    for at, box in _boxes(shape[1:], low - start, high - start):
        yield at + start, (slice(i, i + 1), *box)


class Joined(_Derived):
    """Arrays one after the other along an axis.

    Parameters
    ----------
    parts : sequence of Source or ndarray
        Their shapes differ only along the axis.
    axis : int
        At least 0.
    dtype : dtype_like
        Dtype of the result.

    Examples
    --------
    >>> Joined([np.zeros(2), np.ones(3)], 0, float).read((slice(1, 4),))
    array([0., 1., 1.])
    """

    __slots__ = ("_axis", "_parts")

    def __init__(self, parts: Sequence[Any], axis: int, dtype: DTypeLike) -> None:
        self._parts = parts
        self._axis = axis
        largest = max(parts, key=lambda x: math.prod(x.shape))
        extent = sum(x.shape[axis] for x in parts)
        shape = (*largest.shape[:axis], extent, *largest.shape[axis + 1 :])
        super().__init__(shape, chunks_of(largest), dtype)

    def _compute(self, box: Box) -> NDArray[Any]:
        axis, found, at = self._axis, [], 0
        low, high = box[axis].start, box[axis].stop
        for x in self._parts:
            piece = slice(max(low - at, 0), min(high - at, x.shape[axis]))
            if piece.start < piece.stop:
                found.append(part_of(x, (*box[:axis], piece, *box[axis + 1 :])))
            at += x.shape[axis]
        return np.concatenate(found, axis, dtype=self.dtype, casting="unsafe")


class Widened(_Derived):
    """An array with inserted axes of length 1.

    Parameters
    ----------
    base : Source
    axes : tuple of int
        Axes of the result; increasing, each at least 0.
    """

    __slots__ = ("_axes", "_base")

    def __init__(self, base: Source, axes: tuple[int, ...]) -> None:
        self._base, self._axes = base, axes
        shape, chunks = list(base.shape), list(base.chunks)
        for axis in axes:
            shape.insert(axis, 1)
            chunks.insert(axis, 1)
        super().__init__(tuple(shape), tuple(chunks), base.dtype)

    @property
    def _identity(self) -> Any:
        return self._base._identity

    def _compute(self, box: Box) -> NDArray[Any]:
        own = tuple(s for j, s in enumerate(box) if j not in self._axes)
        return np.expand_dims(part_of(self._base, own), self._axes)


def widened(x: Any, axes: tuple[int, ...]) -> Any:
    """Insert axes of length 1: a view of a NumPy array, `Widened` of ours."""
    if not axes:
        return x
    return Widened(x, axes) if isinstance(x, Source) else np.expand_dims(x, axes)


def flat(x: Any) -> Any:
    """Return the elements of an array in C order, as one axis."""
    if not isinstance(x, Source):
        return x.reshape(-1)
    return x if len(x.shape) == 1 else Flat(x)
