"""Walks over the grid: the boxes of chunks that growth added, and the chunks of a region."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from extarray.common.errors import BoundsError, SelectionError
from extarray.common.limits import limits
from extarray.grid.chunking import product

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray


__all__ = [
    "address_runs",
    "chunk_indices",
    "count_runs",
    "region",
    "runs_between",
    "runs_together",
    "segment_boxes",
]

Index = tuple[int, ...]


class History(Protocol):
    """The history of growth that determines addresses, such as `extarray.Axial`."""

    @property
    def ndim(self) -> int: ...
    @property
    def segments(self) -> int: ...
    def addresses(self, indices: ArrayLike) -> NDArray[np.int64]: ...
    def _grid_after(self, segment: int) -> tuple[int, int, Index, Index]: ...


def segment_boxes(axial: History) -> Iterator[tuple[int, int, Index, Index]]:
    """Yield the boxes of chunks of the segments, in order of their addresses.

    Each is the axis that grew, the side (0: its end, 1: its start), and the first chunk indices and
    those behind the last.  In a segment, the axis that grew varies slowest: upwards if it grew at
    its end, else downwards.  The other axes follow in order.

    Examples
    --------
    >>> from extarray import Axial
    >>> axial = Axial((4, 3))
    >>> _ = axial.grow(1, 2)
    >>> list(segment_boxes(axial))
    [(0, 0, (0, 0), (4, 3)), (1, 0, (0, 3), (4, 5))]
    """
    before: tuple[Index, Index] | None = None
    for n in range(axial.segments):
        axis, side, *after = axial._grid_after(n)
        start, stop = (list(edge) for edge in after)
        if before is not None:
            if side:
                stop[axis] = before[0][axis]
            else:
                start[axis] = before[1][axis]
        yield axis, side, tuple(start), tuple(stop)
        before = after[0], after[1]


def chunk_indices(axial: History, start: Index, stop: Index, order: str) -> Iterator[Index]:
    """Yield the indices of the chunks in a box of the grid.

    They come in order of addresses (``"address"``), or of indices in C order (``"grid"``).

    Examples
    --------
    >>> from extarray import Axial
    >>> axial = Axial((1, 2))
    >>> _ = axial.grow(0, 1), axial.grow(1, 1)
    >>> list(chunk_indices(axial, (0, 1), (2, 3), "address"))
    [(0, 1), (1, 1), (0, 2), (1, 2)]
    """
    if order == "grid":
        yield from product(*map(range, start, stop))
        return
    extents = [max(0, b - a) for a, b in zip(start, stop, strict=True)]
    if math.prod(extents) <= limits.addresses_at_once:
        indices = _indices(0, math.prod(extents), extents) + np.array(start, np.int64)
        yield from map(tuple, indices[np.argsort(axial.addresses(indices))].tolist())
        return
    # Too many to sort in memory: go segment by segment.
    for axis, side, first, last in segment_boxes(axial):
        ranges = [
            range(max(a, c), min(b, d)) for a, b, c, d in zip(start, stop, first, last, strict=True)
        ]
        slowest = ranges.pop(axis)
        for i in reversed(slowest) if side else slowest:
            for others in product(*ranges):
                yield (*others[:axis], i, *others[axis:])


def address_runs(axial: History, start: Index, stop: Index) -> Iterator[tuple[int, int]]:
    """Yield the runs of addresses of a box of the grid: the first, and the one behind the last.

    Examples
    --------
    >>> from extarray import Axial
    >>> list(address_runs(Axial((4, 3)), (1, 1), (3, 3)))
    [(4, 6), (7, 9)]
    """
    for firsts, lasts in runs_together(axial, start, stop):
        yield from zip(firsts.tolist(), lasts.tolist(), strict=True)


def runs_together(
    axial: History, start: Index, stop: Index
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the runs of `address_runs`, many at a time: arrays of firsts and of ends."""
    extents = [max(0, b - a) for a, b in zip(start, stop, strict=True)]
    if math.prod(extents) <= limits.addresses_at_once:
        indices = _indices(0, math.prod(extents), extents) + np.array(start, np.int64)
        addresses = np.sort(axial.addresses(indices))
        parted = np.ones(len(addresses) + 1, bool)  # a run begins here, or ended before
        np.greater(addresses[1:] - addresses[:-1], 1, out=parted[1:-1])
        yield addresses[parted[:-1]], addresses[parted[1:]] + 1
        return
    # A sparse array may have more chunks than could ever be looked up.
    for low, high, of_runs, in_runs, is_down in _parts(axial, start, stop):
        shape = [high[j] - low[j] for j in of_runs]
        ends = [n - 1 for n in high]
        if is_down and not of_runs:
            axis = in_runs[0]
            low[axis], ends[axis] = ends[axis], low[axis]
        size = math.prod(shape)
        at_once = limits.addresses_at_once
        for place in range(0, size, at_once):
            corners = np.tile(np.array(low, np.int64), (min(size - place, at_once), 1))
            if of_runs:
                corners[:, of_runs] += _indices(place, len(corners), shape)
            firsts = axial.addresses(corners)
            corners[:, in_runs] = [ends[j] for j in in_runs]
            # Runs are disjoint, so those that begin in order also end in order.
            yield np.sort(firsts), np.sort(axial.addresses(corners)) + 1


def count_runs(axial: History, start: Index, stop: Index) -> int:
    """Return an upper bound of the runs of addresses of a box: runs of two segments may touch.

    Examples
    --------
    >>> from extarray import Axial
    >>> count_runs(Axial((4, 3)), (1, 1), (3, 3)), count_runs(Axial((4, 3)), (1, 0), (3, 3))
    (2, 1)
    """
    return sum(
        math.prod(high[j] - low[j] for j in of_runs)
        for low, high, of_runs, *_ in _parts(axial, start, stop)
    )


def runs_between(
    axial: History, start: Index, stop: Index, kept: Iterable[tuple[int, int]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the runs from a box's first address to its last in each segment, without some runs.

    `kept` has the runs to leave out; the result is as from `runs_together`.

    Examples
    --------
    >>> from extarray import Axial
    >>> runs_between(Axial((4, 3)), (1, 1), (4, 3), [(0, 2), (6, 8)])
    (array([4, 8]), array([ 6, 12]))
    """
    corners = []
    for low, high, of_runs, in_runs, is_down in _parts(axial, start, stop):
        ends = [n - 1 for n in high]
        if is_down:
            axis = (of_runs or in_runs)[0]
            low[axis], ends[axis] = ends[axis], low[axis]
        corners += [low, ends]
    edges = axial.addresses(np.array(corners, np.int64).reshape(-1, axial.ndim))
    edges[1::2] += 1
    out = np.array([edge for run in kept for edge in run], np.int64)
    # Along the addresses, each edge adds a run or ends one.
    places = np.concatenate((edges, out))
    changes = np.concatenate((np.resize([1, -1], len(edges)), -np.resize([1, -1], len(out))))
    order = np.argsort(places)
    places, inside = places[order], np.cumsum(changes[order]) == 1
    last = np.ones(len(places), bool)  # the last edge at each place
    np.not_equal(places[1:], places[:-1], out=last[:-1])
    places, inside = places[last], inside[last]
    turns = np.flatnonzero(np.diff(inside, prepend=False))
    return places[turns[::2]], places[turns[1::2]]


def _parts(
    axial: History, start: Index, stop: Index
) -> Iterator[tuple[list[int], list[int], list[int], list[int], bool]]:
    """Yield the part of a box in each segment that it meets, and the axes that separate its runs.

    A run has one index on each of the axes in the first list, a range on the first axis of the
    second list, and the whole segment on its other axes.  The last value tells whether the slowest
    axis, the first of all, goes down as addresses go up.
    """
    for axis, side, first, last in segment_boxes(axial):
        low, high = list(map(max, start, first)), list(map(min, stop, last))
        if not all(map(operator.lt, low, high)):
            continue
        axes = [axis, *(j for j in range(len(low)) if j != axis)]
        n = len(axes) - 1
        while n and (low[axes[n]], high[axes[n]]) == (first[axes[n]], last[axes[n]]):
            n -= 1
        yield low, high, axes[:n], axes[n:], bool(side)


def _indices(first: int, n: int, shape: Sequence[int]) -> NDArray[np.int64]:
    """Return the indices of elements first ... first + n - 1, in row-major order."""
    rest = np.arange(first, first + n)
    indices = np.empty((n, len(shape)), np.int64)
    for j in reversed(range(len(shape))):
        rest, indices[:, j] = np.divmod(rest, shape[j])
    return indices


def region(selection: Any, shape: Sequence[int]) -> tuple[Index, Index]:
    """Return the box of elements that integers and slices of step 1 select; refuse other entries.

    Examples
    --------
    >>> region((slice(2, None), -1), (10, 4))
    ((2, 3), (10, 4))
    >>> region(..., (10, 4))
    ((0, 0), (10, 4))
    """
    entries = list(selection) if isinstance(selection, (tuple, list)) else [selection]
    gaps = [i for i, entry in enumerate(entries) if entry is Ellipsis]
    if len(gaps) > 1:
        raise SelectionError("an index can only have a single ellipsis ('...')")
    missing = len(shape) - len(entries) + len(gaps)
    if missing < 0:
        raise BoundsError(
            f"too many indices for array: array is {len(shape)}-dimensional, but "
            f"{len(entries) - len(gaps)} were indexed"
        )
    at = gaps[0] if gaps else len(entries)
    entries[at : at + len(gaps)] = [slice(None)] * missing
    pairs = [_extent(entry, n, j) for j, (entry, n) in enumerate(zip(entries, shape, strict=True))]
    return tuple(start for start, _ in pairs), tuple(stop for _, stop in pairs)


def _extent(entry: Any, n: int, axis: int) -> tuple[int, int]:
    """Return the start and stop of one entry of a selection."""
    if isinstance(entry, slice):
        start, stop, step = entry.indices(n)
        if step != 1:
            raise SelectionError(f"{entry} has a step; iteration over chunks takes steps of 1 only")
        return start, max(start, stop)
    try:
        i = operator.index(entry)
    except TypeError:
        raise SelectionError(
            f"{entry!r} does not select a region; use integers, slices and '...'"
        ) from None
    if not -n <= i < n:
        raise BoundsError(f"index {i} is out of bounds for axis {axis} with size {n}")
    return i % n, i % n + 1
