"""Bounds that move: what a change of them makes new, and what it cuts off.

Bounds are boxes here, ``low ... high - 1``, as elements are counted before the change: `low` is
negative where an axis grows at its start, positive where it shrinks there.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Literal, NamedTuple

from extarray.common.arguments import as_int
from extarray.common.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import SupportsIndex

__all__ = ["Change", "Index", "Side", "count", "grown", "is_start", "moved", "outside"]

Side = Literal["end", "start"]
Index = tuple[int, ...]


class Change(NamedTuple):
    """A change of bounds, and what it means for the grid.

    Elements are counted as they were before the change, and chunks as they are after it.

    Attributes
    ----------
    shape, offset : tuple of int
        Bounds before the change, and elements of the grid before them.
    grid, chunks : tuple of int
        The grid before the change, in chunks, and their extents.
    low, high : tuple of int
        New bounds, as elements were counted before.
    rows : tuple of int
        Chunks that the change adds at the start of each axis.
    """

    shape: Index
    offset: Index
    grid: Index
    chunks: Index
    low: Index
    high: Index
    rows: Index

    @property
    def offset_after(self) -> Index:
        """Elements of the grid before the new bounds."""
        return tuple(
            b + n + m * c
            for b, n, m, c in zip(self.offset, self.low, self.rows, self.chunks, strict=True)
        )

    def fills(self, grid: Index) -> bool:
        """Whether the new bounds are those of a grid.

        Parameters
        ----------
        grid : tuple of int

        Returns
        -------
        bool
        """
        ends = map(operator.mul, grid, self.chunks)
        extents = map(operator.sub, self.high, self.low)
        return not any(self.offset_after) and all(map(operator.eq, extents, ends))

    def sides(self, outwards: bool) -> set[tuple[int, str]]:
        """Axes and sides at which the bounds move.

        Parameters
        ----------
        outwards : bool
            Or inwards.

        Returns
        -------
        set of (int, str)
        """
        sign = 1 if outwards else -1
        starts = {(j, "start") for j, a in enumerate(self.low) if sign * a < 0}
        ends = zip(self.high, self.shape, strict=True)
        return starts | {(j, "end") for j, (b, n) in enumerate(ends) if sign * (b - n) > 0}

    def new_parts(self) -> Iterator[tuple[Index, Index]]:
        """Boxes of elements that the new bounds have and the old ones have not."""
        return outside(self.low, self.high, (0,) * len(self.shape), self.shape)

    @property
    def chunks_needed(self) -> tuple[Index, Index]:
        """Chunks of the new grid in which the new bounds lie."""
        return self.chunks_of(self.low, self.high)

    def old_chunks_of_new_parts(self) -> Iterator[tuple[Index, Index]]:
        """Boxes of elements of the new parts that the old grid has already."""
        first = [-b for b in self.offset]
        last = [g * c - b for g, c, b in zip(self.grid, self.chunks, self.offset, strict=True)]
        for start, stop in self.new_parts():
            start, stop = tuple(map(max, start, first)), tuple(map(min, stop, last))
            if all(map(operator.lt, start, stop)):
                yield start, stop

    def chunks_of(self, start: Index, stop: Index) -> tuple[Index, Index]:
        """Chunks of the new grid in which a box of elements of the old one lies.

        Parameters
        ----------
        start, stop : tuple of int
            Elements, as they were counted before the change.

        Returns
        -------
        first, last : tuple of int
        """
        first, last = [], []
        for a, z, b, c, m in zip(start, stop, self.offset, self.chunks, self.rows, strict=True):
            first.append((a + b) // c + m)
            # Bounds of extent 0 need no chunk.
            last.append(-(-(z + b) // c) + m if a < z else first[-1])
        return tuple(first), tuple(last)

    def elements_of(self, first: Index, last: Index) -> tuple[Index, Index]:
        """Elements of a box of chunks of the new grid.

        Parameters
        ----------
        first, last : tuple of int

        Returns
        -------
        start, stop : tuple of int
            As elements were counted before the change.
        """
        start, stop = [], []
        for a, z, b, c, m in zip(first, last, self.offset, self.chunks, self.rows, strict=True):
            start.append((a - m) * c - b)
            stop.append((z - m) * c - b)
        return tuple(start), tuple(stop)

    def chunks_cut(self) -> Iterator[tuple[Index, Index]]:
        """Boxes of chunks, in the new grid, that the old bounds need and the new ones do not."""
        needed = self.chunks_of((0,) * len(self.shape), self.shape)
        return outside(*needed, *self.chunks_needed)

    def chunks_gained(self, grid: Index) -> Iterator[tuple[Index, Index]]:
        """Boxes of chunks that the change adds to what is now `grid`, and that growth may need.

        Not those that lie beside the bounds, in rows of chunks that there were before.

        Parameters
        ----------
        grid : tuple of int

        Yields
        ------
        first, last : tuple of int
        """
        before = tuple(map(operator.add, self.grid, self.rows))
        first, last = self.chunks_needed
        first = tuple(0 if m else a for a, m in zip(first, self.rows, strict=True))
        last = tuple(n if n > m else z for z, n, m in zip(last, grid, before, strict=True))
        return outside(first, last, self.rows, before)


def outside(start: Index, stop: Index, low: Index, high: Index) -> Iterator[tuple[Index, Index]]:
    """Boxes that make up what a box has outside another one.

    Parameters
    ----------
    start, stop : tuple of int
        A box, start ... stop - 1.
    low, high : tuple of int
        The other one.

    Yields
    ------
    start, stop : tuple of int
        None is empty, and no two of them meet.

    Examples
    --------
    >>> list(outside((0, 0), (4, 4), (1, 0), (9, 3)))
    [((0, 0), (1, 4)), ((1, 3), (4, 4))]
    """
    first, last = tuple(map(max, start, low)), tuple(map(min, stop, high))
    for j, (n, m) in enumerate(zip(start, stop, strict=True)):
        for a, z in ((n, min(low[j], m)), (max(high[j], n), m)):
            if a >= z:
                continue
            lower, upper = (*first[:j], a, *start[j + 1 :]), (*last[:j], z, *stop[j + 1 :])
            if all(map(operator.lt, lower, upper)):
                yield lower, upper


def moved(shape: Index, axis: int, by: int, at_start: bool) -> tuple[Index | None, Index]:
    """Bounds after a growth (or, negative, a cut) of one axis.

    Parameters
    ----------
    shape : tuple of int
    axis, by : int
    at_start : bool

    Returns
    -------
    low : tuple of int or None
        None where the starts stay.
    high : tuple of int

    Examples
    --------
    >>> moved((2, 3), 1, 4, False), moved((2, 3), 0, 1, True)
    ((None, (2, 7)), ((-1, 0), (2, 3)))
    """
    if at_start and by:
        low = [0] * len(shape)
        low[axis] = -by
        return tuple(low), shape
    high = list(shape)
    high[axis] += by
    return None, tuple(high)


def grown(low: Index | None, high: Index, shape: Index) -> tuple[Index, Index]:
    """The box of elements that the growth of one axis adds.

    Parameters
    ----------
    low : tuple of int or None
    high : tuple of int
        As `moved` gives them.
    shape : tuple of int
        Before the growth.

    Returns
    -------
    start, stop : tuple of int
    """
    if low is None:
        return tuple(n if b > n else 0 for b, n in zip(high, shape, strict=True)), high
    return low, tuple(0 if a < 0 else b for a, b in zip(low, high, strict=True))


def is_start(side: str) -> bool:
    """Whether a side is the start of an axis.

    Parameters
    ----------
    side : {"end", "start"}

    Returns
    -------
    bool

    Raises
    ------
    ArgumentError
    """
    if side not in ("end", "start"):
        raise ArgumentError(f"side {side!r} is not possible; use 'end' or 'start'")
    return side == "start"


def count(by: SupportsIndex) -> int:
    """A number of elements, of an argument.

    Parameters
    ----------
    by : int

    Returns
    -------
    int

    Raises
    ------
    ArgumentError, ArgumentTypeError
    """
    n = as_int(by, "by")
    if n < 0:
        raise ArgumentError(f"by must be at least 0, not {n}: extend grows, shrink cuts off")
    return n
