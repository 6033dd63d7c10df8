"""Walking over the grid: the boxes of chunks that growth adjoined, and the chunks of a region."""

from __future__ import annotations

import itertools
import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.errors import BoundsError, SelectionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from extarray._core._axial import Axial

__all__ = [
    "address_runs",
    "chunk_indices",
    "region",
    "runs_between",
    "runs_together",
    "segment_boxes",
]

Index = tuple[int, ...]

# Chunks, or runs of them, whose addresses are looked up at once.
_LOOKED_UP = 1 << 16


def segment_boxes(axial: Axial) -> Iterator[tuple[int, int, Index, Index]]:
    """Boxes of chunks that the segments are, in order of their addresses.

    Parameters
    ----------
    axial : Axial

    Yields
    ------
    axis, side : int
        Axis that grew, which varies slowest in the segment: upwards, where it grew at its end (0),
        and downwards, where it grew at its start (1).  The others follow in their order.
    start, stop : tuple of int
        Chunk indices.

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
        axis, side, *after = axial._growth(n)
        start, stop = (list(edge) for edge in after)
        if before is not None:
            if side:
                stop[axis] = before[0][axis]
            else:
                start[axis] = before[1][axis]
        yield axis, side, tuple(start), tuple(stop)
        before = after[0], after[1]


def chunk_indices(axial: Axial, start: Index, stop: Index, order: str) -> Iterator[Index]:
    """Indices of the chunks in a box of the grid.

    Parameters
    ----------
    axial : Axial
    start, stop : tuple of int
        Chunk indices.
    order : {"address", "grid"}
        Order of the addresses, or row-major order of the indices.

    Yields
    ------
    tuple of int

    Examples
    --------
    >>> from extarray import Axial
    >>> axial = Axial((1, 2))
    >>> _ = axial.grow(0, 1), axial.grow(1, 1)
    >>> list(chunk_indices(axial, (0, 1), (2, 3), "address"))
    [(0, 1), (1, 1), (0, 2), (1, 2)]
    """
    if order == "grid":
        yield from itertools.product(*map(range, start, stop))
        return
    for axis, side, first, last in segment_boxes(axial):
        ranges = [
            range(max(a, c), min(b, d)) for a, b, c, d in zip(start, stop, first, last, strict=True)
        ]
        if not ranges:
            yield ()
            continue
        slowest = ranges.pop(axis)
        for i in reversed(slowest) if side else slowest:
            for others in itertools.product(*ranges):
                yield (*others[:axis], i, *others[axis:])


def address_runs(axial: Axial, start: Index, stop: Index) -> Iterator[tuple[int, int]]:
    """Runs of addresses that a box of the grid takes.

    Parameters
    ----------
    axial : Axial
    start, stop : tuple of int
        Chunk indices.

    Yields
    ------
    first, last : int
        Addresses; the last is not one of the run.

    Examples
    --------
    >>> from extarray import Axial
    >>> list(address_runs(Axial((4, 3)), (1, 1), (3, 3)))
    [(4, 6), (7, 9)]
    """
    for firsts, lasts in runs_together(axial, start, stop):
        yield from zip(firsts.tolist(), lasts.tolist(), strict=True)


def runs_together(
    axial: Axial, start: Index, stop: Index
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """As `address_runs`, many runs at a time.

    Parameters
    ----------
    axial : Axial
    start, stop : tuple of int
        Chunk indices.

    Yields
    ------
    firsts, lasts : ndarray of int64
        Of one run each; the last is not one of the run.
    """
    extents = [max(0, b - a) for a, b in zip(start, stop, strict=True)]
    if math.prod(extents) <= _LOOKED_UP:
        indices = _indices(0, math.prod(extents), extents) + np.array(start, np.int64)
        addresses = np.sort(axial.addresses(indices))
        parted = np.ones(len(addresses) + 1, bool)  # before each, and behind the last
        np.greater(addresses[1:] - addresses[:-1], 1, out=parted[1:-1])
        yield addresses[parted[:-1]], addresses[parted[1:]] + 1
        return
    # Of a sparse array there may be more chunks than anybody could look up.
    for axis, side, first, last in segment_boxes(axial):
        low, high = list(map(max, start, first)), list(map(min, stop, last))
        if not all(map(operator.lt, low, high)):
            continue
        # The one that varies slowest first.  A run has one index of each of the first n, a range of
        # the next, and all that the segment has of those behind it.
        axes = [axis, *(j for j in range(len(extents)) if j != axis)]
        n = len(axes) - 1
        while n and (low[axes[n]], high[axes[n]]) == (first[axes[n]], last[axes[n]]):
            n -= 1
        of_runs, in_runs = axes[:n], axes[n:]
        shape = [high[j] - low[j] for j in of_runs]
        if side and not n:  # the axis goes down
            low[axis], high[axis] = high[axis] - 1, low[axis] + 1
        size = math.prod(shape)
        for place in range(0, size, _LOOKED_UP):
            corners = np.tile(np.array(low, np.int64), (min(size - place, _LOOKED_UP), 1))
            if n:
                corners[:, of_runs] += _indices(place, len(corners), shape)
            firsts = axial.addresses(corners)
            corners[:, in_runs] = [high[j] - 1 for j in in_runs]
            # Runs have nothing in common: those that begin in order end in order.
            yield np.sort(firsts), np.sort(axial.addresses(corners)) + 1


def runs_between(
    axial: Axial, start: Index, stop: Index, kept: Iterable[tuple[int, int]]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Runs of addresses, segment by segment, from the first of a box to its last one.

    Parameters
    ----------
    axial : Axial
    start, stop : tuple of int
        Chunk indices.
    kept : iterable of (int, int)
        Runs of addresses that are left out.

    Yields
    ------
    firsts, lasts : ndarray of int64
        As `runs_together` has them.
    """
    begins, ends = np.array(sorted(kept), np.int64).reshape(-1, 2).T
    for axis, side, first, last in segment_boxes(axial):
        low, high = list(map(max, start, first)), [n - 1 for n in map(min, stop, last)]
        if all(map(operator.le, low, high)):
            if side:  # the axis goes down
                low[axis], high[axis] = high[axis], low[axis]
            edges = axial.addresses(np.array([low, high], np.int64))
            edges[1] += 1
            inside = slice(np.searchsorted(ends, edges[0]), np.searchsorted(begins, edges[1]))
            firsts = np.concatenate((edges[:1], ends[inside]))
            lasts = np.concatenate((begins[inside], edges[1:]))
            some = firsts < lasts
            yield firsts[some], lasts[some]


def _indices(first: int, n: int, shape: Sequence[int]) -> NDArray[np.int64]:
    """Indices of n elements from one on, in row-major order."""
    rest = np.arange(first, first + n)
    indices = np.empty((n, len(shape)), np.int64)
    for j in reversed(range(len(shape))):
        rest, indices[:, j] = np.divmod(rest, shape[j])
    return indices


def region(selection: Any, shape: Sequence[int]) -> tuple[Index, Index]:
    """Box of elements that integers and slices of step 1 select.

    Parameters
    ----------
    selection : int, slice, Ellipsis, or a sequence of them
    shape : sequence of int

    Returns
    -------
    start, stop : tuple of int

    Raises
    ------
    BoundsError, SelectionError
        IndexErrors: the selection is not possible, or no box.

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
    """Start and stop of one entry of a selection."""
    if isinstance(entry, slice):
        start, stop, step = entry.indices(n)
        if step != 1:
            raise SelectionError(f"{entry} has a step; chunks are gone through with steps of 1")
        return start, max(start, stop)
    try:
        i = operator.index(entry)
    except TypeError:
        raise SelectionError(
            f"{entry!r} selects no region; integers, slices and '...' do"
        ) from None
    if not -n <= i < n:
        raise BoundsError(f"index {i} is out of bounds for axis {axis} with size {n}")
    return i % n, i % n + 1
