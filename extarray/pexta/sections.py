"""Sections: boxes whose elements a transfer maps to each other one by one.

A transfer counts the elements of both sections in C order; if it transposes, it counts those of one
section with the axes in reverse.  Pure functions of bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray import BoundsError, ShapeError
from extarray.common.arguments import as_ints

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box

__all__ = ["Section", "Slabs", "runs"]

Index = tuple[int, ...]


@dataclass(frozen=True)
class Section:
    """A box of an array, indices low ... high - 1, in the order of a transfer.

    If `is_reversed`, elements are counted with the axes in reverse, as in the transpose.

    Examples
    --------
    >>> section = Section((2, 10), (4, 13), is_reversed=True)
    >>> section.shape, section.of_array((slice(0, 1), slice(1, 2)))
    ((3, 2), (slice(3, 4, None), slice(10, 11, None)))
    """

    low: Index
    high: Index
    is_reversed: bool = False

    @classmethod
    def checked(cls, low: Any, high: Any, shape: Index, what: str, is_reversed: bool) -> Section:
        """Return the section from `low` to `high` inclusive, the published convention.

        `what` names the array in messages.
        """
        first, last = as_ints(low, "lo"), as_ints(high, "hi")
        if not len(first) == len(last) == len(shape):
            raise ShapeError(
                f"section {first} ... {last} does not match {what} with {len(shape)} axes; give "
                "the first and the last index along each"
            )
        for axis, (i, j, n) in enumerate(zip(first, last, shape, strict=True)):
            if not 0 <= i <= j < n:
                raise BoundsError(
                    f"section {i} ... {j} of {what} is out of bounds for axis {axis} with size "
                    f"{n}; give the first and the last index (inclusive)"
                )
        return cls(first, tuple(j + 1 for j in last), is_reversed)

    def __str__(self) -> str:
        last = tuple(b - 1 for b in self.high)
        return f"{self.low} ... {last}" + (" (axes in reverse)" if self.is_reversed else "")

    @property
    def shape(self) -> Index:
        """Elements along each axis, in the order of the transfer."""
        return self._turned(tuple(b - a for a, b in zip(self.low, self.high, strict=True)))

    def of_array(self, box: Box) -> Box:
        """Convert a part of the section to a box of the array."""
        pairs = zip(self._turned(box), self.low, strict=True)
        return tuple(slice(s.start + a, s.stop + a) for s, a in pairs)

    def within(self, zone: Box) -> Box:
        """Return the part of the section that lies in a zone of the array."""
        box = []
        for s, a, b in zip(zone, self.low, self.high, strict=True):
            start = min(max(s.start, a), b)
            box.append(slice(start - a, max(min(s.stop, b), start) - a))
        return self._turned(tuple(box))

    def turned(self, block: NDArray[Any]) -> NDArray[Any]:
        """Turn the axes of a block from the order of the transfer to the array's, or back."""
        return block.T if self.is_reversed else block

    def _turned(self, entries: tuple[Any, ...]) -> tuple[Any, ...]:
        return entries[::-1] if self.is_reversed else entries


def runs(shape: Sequence[int], start: int, stop: int) -> Iterator[Box]:
    """Yield boxes that have the elements start ... stop - 1 of a shape, counted in C order.

    The boxes follow each other in C order: at most 2 k - 1 of them for k axes.

    Examples
    --------
    >>> [tuple((s.start, s.stop) for s in box) for box in runs((3, 4), 2, 9)]
    [((0, 1), (2, 4)), ((1, 2), (0, 4)), ((2, 3), (0, 1))]
    """
    while start < stop:
        # The largest whole boxes that begin here: `inner` elements of all axes after `axis`.
        axis, inner = len(shape) - 1, 1
        while axis and start % (wider := inner * shape[axis]) == 0 and start + wider <= stop:
            axis, inner = axis - 1, wider
        index = [int(i) for i in np.unravel_index(start, shape)]
        n = min(shape[axis] - index[axis], (stop - start) // inner)
        yield (
            *(slice(i, i + 1) for i in index[:axis]),
            slice(index[axis], index[axis] + n),
            *(slice(0, extent) for extent in shape[axis + 1 :]),
        )
        start += n * inner


class Slabs:
    """A shape cut into boxes of at most `most` elements, each one run in C order.

    Examples
    --------
    >>> slabs = Slabs((3, 4), 8)
    >>> len(slabs), slabs[1]
    (2, ((slice(2, 3, None), slice(0, 4, None)), 8))
    """

    def __init__(self, shape: Sequence[int], most: int) -> None:
        self._shape = tuple(shape)
        axis, inner = 0, math.prod(self._shape[1:])
        while inner > most:
            axis += 1
            inner = math.prod(self._shape[axis + 1 :])
        self._axis, self._inner = axis, inner
        self._rows = max(1, most // max(inner, 1))  # indices of `axis` in a box
        self._each = -(-self._shape[axis] // self._rows)  # boxes for each index of the axes before

    def __len__(self) -> int:
        return math.prod(self._shape[: self._axis]) * self._each if self._inner else 0

    def __getitem__(self, number: int) -> tuple[Box, int]:
        """Return a box, and the number of elements before it."""
        outer, place = divmod(number, self._each)
        before, extent = self._shape[: self._axis], self._shape[self._axis]
        start = place * self._rows
        box = (
            *(slice(int(i), int(i) + 1) for i in np.unravel_index(outer, before)),
            slice(start, min(start + self._rows, extent)),
            *(slice(0, n) for n in self._shape[self._axis + 1 :]),
        )
        return box, (outer * extent + start) * self._inner
