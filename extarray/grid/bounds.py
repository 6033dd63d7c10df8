"""The plan of a growth or a cut: new bounds, segments, and elements that are new or cut off.

Bounds are boxes here, ``low ... high - 1``, in element indices before the change: `low` is negative
if an axis grows at its start, positive if it shrinks there.  Nothing here touches an array: a
change is planned from its bounds and grid alone.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Protocol

from extarray.common.errors import LimitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from extarray.grid.policy import Policy, Step

__all__ = ["Bounded", "Bounds", "Change", "Index", "along_axis", "beside", "outside", "to_box"]

Index = tuple[int, ...]


class Bounds:
    """Bounds, and the grid in which they lie."""

    # No tuple with names, here and in `Change`: a growth makes one of each, and must be quick.
    __slots__ = ("grid", "offset", "shape")

    def __init__(self, shape: Index, offset: Index, grid: Index) -> None:
        self.shape = shape  # in elements
        self.offset = offset  # elements of the grid before the bounds
        self.grid = grid  # in chunks

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bounds):
            return NotImplemented
        ours, theirs = (self.shape, self.offset, self.grid), (other.shape, other.offset, other.grid)
        return ours == theirs


class Bounded(Protocol):
    """Anything with bounds, such as a committed state."""

    @property
    def shape(self) -> Index: ...  # noqa: D102
    @property
    def offset(self) -> Index: ...  # noqa: D102
    @property
    def grid(self) -> Index: ...  # noqa: D102


class Change:
    """A change of bounds, with its effect on the grid; made by `along_axis` and `to_box`.

    Element indices are those before the change; chunk indices, those after it.
    """

    __slots__ = ("after", "before", "chunks", "cuts", "low", "steps")

    def __init__(
        self,
        before: Bounded,
        after: Bounds,
        chunks: Index,
        low: Index,
        steps: tuple[Step, ...],
        cuts: bool,
    ) -> None:
        self.before = before
        self.after = after  # with the new grid
        self.chunks = chunks
        self.low = low  # where the new bounds begin
        self.steps = steps  # growths of the grid, in order: axis, chunks, side
        self.cuts = cuts  # whether elements are cut off

    @property
    def high(self) -> Index:
        """The end of the new bounds."""
        return tuple(map(operator.add, self.low, self.after.shape))

    @property
    def rows(self) -> Index:
        """Chunks that the grid gains at the start of each axis."""
        rows = [0] * len(self.low)
        for axis, by, side in self.steps:
            rows[axis] += by if side == "start" else 0
        return tuple(rows)

    def ahead(self, policy: Policy, limit: int) -> Change | None:
        """Return the change if the grid grows by a policy; None if an axis would reach `limit`."""
        before, rows = self.before, self.rows
        last = [
            m - n - first for m, n, first in zip(self.after.grid, before.grid, rows, strict=True)
        ]
        # Free rows of chunks at the other end are no reason to allocate more.
        extents = list(before.grid)
        for j, (n, b, c) in enumerate(zip(before.shape, before.offset, self.chunks, strict=True)):
            if bool(rows[j]) != bool(last[j]):
                extents[j] = -(-(b + n) // c) if rows[j] else before.grid[j] - b // c
        used = extents
        if policy.kind == "cubical":  # only this policy asks, and growth must be quick
            first, end = self.chunks_needed
            used = list(map(operator.sub, end, first))
        longer = self._by(policy.steps(extents, rows, last, used))
        if max(map(operator.mul, longer.after.grid, self.chunks)) >= limit:
            return None
        return longer

    def _by(self, steps: Iterable[Step]) -> Change:
        """Return the change with other steps."""
        before, grid, taken = self.before, list(self.before.grid), tuple(steps)
        for axis, by, _ in taken:
            grid[axis] += by
        after = Bounds(self.after.shape, before.offset, tuple(grid))
        longer = Change(before, after, self.chunks, self.low, taken, self.cuts)
        after.offset = tuple(
            b + a + m * c
            for b, a, m, c in zip(before.offset, self.low, longer.rows, self.chunks, strict=True)
        )
        return longer

    @property
    def fills(self) -> bool:
        """True if the new bounds fill the new grid."""
        ends = map(operator.mul, self.after.grid, self.chunks)
        return not any(self.after.offset) and all(map(operator.eq, self.after.shape, ends))

    def sides(self, outwards: bool) -> set[tuple[int, str]]:
        """Return the axes and sides at which the bounds move outwards, or inwards."""
        sign = 1 if outwards else -1
        starts = {(j, "start") for j, a in enumerate(self.low) if sign * a < 0}
        ends = zip(self.high, self.before.shape, strict=True)
        return starts | {(j, "end") for j, (b, n) in enumerate(ends) if sign * (b - n) > 0}

    def new_parts(self) -> Iterator[tuple[Index, Index]]:
        """Yield boxes of the elements that only the new bounds have."""
        return outside(self.low, self.high, self.zeros, self.before.shape)

    @property
    def zeros(self) -> Index:
        """The first index of the old bounds."""
        return (0,) * len(self.low)

    @property
    def chunks_known(self) -> tuple[Index, Index]:
        """Chunks of the new grid in which the old bounds lie."""
        return self.chunks_of(self.zeros, self.before.shape)

    @property
    def chunks_needed(self) -> tuple[Index, Index]:
        """Chunks of the new grid in which the new bounds lie."""
        return self.chunks_of(self.low, self.high)

    def old_chunks_of_new_parts(self) -> Iterator[tuple[Index, Index]]:
        """Yield boxes of new elements that lie in chunks of the old grid."""
        offset, grid = self.before.offset, self.before.grid
        first = [-b for b in offset]
        last = [g * c - b for g, c, b in zip(grid, self.chunks, offset, strict=True)]
        for start, stop in self.new_parts():
            start, stop = tuple(map(max, start, first)), tuple(map(min, stop, last))
            if all(map(operator.lt, start, stop)):
                yield start, stop

    def chunks_of(self, start: Index, stop: Index) -> tuple[Index, Index]:
        """Return the chunks of the new grid in which a box of elements lies."""
        offset, chunks = self.before.offset, self.chunks
        first, last = [], []
        for a, z, b, c, m in zip(start, stop, offset, chunks, self.rows, strict=True):
            first.append((a + b) // c + m)
            # Empty bounds need no chunk.
            last.append(-(-(z + b) // c) + m if a < z else first[-1])
        return tuple(first), tuple(last)

    def elements_of(self, first: Index, last: Index) -> tuple[Index, Index]:
        """Return the elements of a box of chunks of the new grid."""
        offset, chunks = self.before.offset, self.chunks
        start, stop = [], []
        for a, z, b, c, m in zip(first, last, offset, chunks, self.rows, strict=True):
            start.append((a - m) * c - b)
            stop.append((z - m) * c - b)
        return tuple(start), tuple(stop)

    def chunks_cut(self) -> Iterator[tuple[Index, Index]]:
        """Yield boxes of chunks of the new grid that only the old bounds need."""
        return outside(*self.chunks_known, *self.chunks_needed)

    def chunks_gained(self) -> Iterator[tuple[Index, Index]]:
        """Yield boxes of added chunks that growth may need.

        Chunks beside the bounds, in rows that existed before, are left out.
        """
        before = tuple(map(operator.add, self.before.grid, self.rows))
        first, last = self.chunks_needed
        rows = self.rows
        first = tuple(0 if m else a for a, m in zip(first, rows, strict=True))
        last = tuple(
            n if n > m else z for z, n, m in zip(last, self.after.grid, before, strict=True)
        )
        return outside(first, last, rows, before)


def outside(start: Index, stop: Index, low: Index, high: Index) -> Iterator[tuple[Index, Index]]:
    """Yield boxes that make up the part of a box, start ... stop - 1, outside another one.

    The boxes are disjoint, and none is empty.

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


def along_axis(
    before: Bounded, chunks: Index, axis: int, by: int, at_start: bool, limit: int
) -> Change:
    """Plan a growth, or a cut (`by` < 0), of an axis that must stay below `limit`, in elements.

    Examples
    --------
    >>> change = along_axis(Bounds((2, 3), (0, 0), (1, 1)), (2, 3), 1, 4, False, 2**63)
    >>> change.high, change.steps, change.after.grid
    ((2, 7), ((1, 2, 'end'),), (1, 3))
    """
    shape, offset, grid = before.shape, before.offset, before.grid
    n, b, c = shape[axis], offset[axis], chunks[axis]
    # Not by `_with`, here and below: the calls would slow down growth by a few chunks.
    extents = list(shape)
    extents[axis] = n + by
    low = (0,) * len(shape)
    if at_start:
        low = _with(low, axis, -by)
        more = max(0, -((b - by) // c))
        offset = _with(offset, axis, b - by + more * c)
    else:
        more = -(-(b + n + by) // c) - grid[axis]
    steps: tuple[Step, ...] = ()
    if more > 0:
        extent = grid[axis] + more
        if extent * c >= limit:
            raise _too_long(axis)
        steps = ((axis, more, "start" if at_start else "end"),)
        held = list(grid)
        held[axis] = extent
        grid = tuple(held)
    return Change(before, Bounds(tuple(extents), offset, grid), chunks, low, steps, by < 0)


def beside(shape: Index, axis: int, by: int, at_start: bool) -> tuple[Index, Index]:
    """Return the box of elements that a growth of one axis adds, in indices before the growth.

    Examples
    --------
    >>> beside((2, 3), 1, 4, False), beside((2, 3), 1, 4, True)
    (((0, 3), (2, 7)), ((0, -4), (2, 0)))
    """
    zeros = (0,) * len(shape)
    if at_start:
        return _with(zeros, axis, -by), _with(shape, axis, 0)
    return _with(zeros, axis, shape[axis]), _with(shape, axis, shape[axis] + by)


def to_box(
    before: Bounded,
    chunks: Index,
    low: Index,
    high: Index,
    limit: int,
    room: tuple[Index, Index] | None = None,
    order: Sequence[int] | None = None,
) -> Change:
    """Plan a change to other bounds, on any axes at once.

    Extents must stay below `limit`, in elements.  The grid must hold the new bounds, or `room`
    instead.  It grows axis by axis, by default in the order of their numbers.

    Examples
    --------
    >>> change = to_box(Bounds((2, 3), (0, 0), (1, 1)), (2, 3), (-1, 0), (2, 4), 2**63)
    >>> change.after.shape, change.after.offset, change.steps
    ((3, 4), (1, 0), ((0, 1, 'start'), (1, 1, 'end')))
    """
    steps: list[Step] = []
    wanted = zip(*(room or (low, high)), before.offset, before.grid, chunks, strict=True)
    axes = list(enumerate(wanted))
    for j, (a, z, b, n, c) in axes if order is None else map(axes.__getitem__, order):
        first = max(0, -((a + b) // c))
        last = max(0, -(-(z + b) // c) - n)
        if (first or last) and (first + n + last) * c >= limit:
            raise _too_long(j)
        if first:
            steps.append((j, first, "start"))
        if last:
            steps.append((j, last, "end"))
    shape = tuple(map(operator.sub, high, low))
    cuts = any(a > 0 for a in low) or any(map(operator.lt, high, before.shape))
    after = Bounds(shape, before.offset, before.grid)
    return Change(before, after, chunks, low, (), cuts)._by(steps)


def _with(values: Index, axis: int, value: int) -> Index:
    changed = list(values)  # quicker than concatenating slices
    changed[axis] = value
    return tuple(changed)


def _too_long(axis: int) -> LimitError:
    return LimitError(
        f"cannot grow axis {axis} so far: with its chunks it would have about 2**63 elements"
    )
