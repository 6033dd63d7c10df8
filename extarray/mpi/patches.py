"""Patches: which rank has which part of a selection, and where in its memory.  No MPI here.

Each rank keeps the elements of its zones in C order; several zones lie side by side along each
axis.  Ghosts, copies of elements of other ranks, surround them if the array has any.  A selection
is a hyperslab or a list of points; its part in one block of a rank's memory is a patch.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from extarray.common.arguments import as_int
from extarray.common.errors import ArgumentError, BoundsError, SelectionError, ShapeError
from extarray.mpi.zones import extents
from extarray.selection.brackets import as_query
from extarray.selection.factors import Progression

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from extarray.mpi.zones import Zone, Zones
    from extarray.selection.query import Query


__all__ = [
    "Hyperslab",
    "Patch",
    "Plan",
    "Runs",
    "Section",
    "ZoneLayout",
    "as_ghosts",
    "as_points",
    "ghost_boxes",
    "numbers",
    "steps_between",
]


def as_ghosts(ghosts: SupportsIndex | Sequence[SupportsIndex] | None, ndim: int) -> tuple[int, ...]:
    """Return the widths of the ghosts along each axis: one for all, one for each, or none.

    >>> as_ghosts(1, 2), as_ghosts((0, 2), 2), as_ghosts(None, 2)
    ((1, 1), (0, 2), (0, 0))
    """
    given: Sequence[SupportsIndex]
    if ghosts is None:
        given = (0,) * ndim
    else:
        given = ghosts if isinstance(ghosts, Sequence) else (ghosts,) * ndim
    widths = tuple(as_int(width, "ghosts") for width in given)
    if len(widths) != ndim or min(widths) < 0:
        raise ShapeError(
            f"ghosts {ghosts!r} are not valid: give a width of at least 0, or one for each of "
            f"{ndim} axes"
        )
    return widths


def ghost_boxes(
    zone: Zone, shape: tuple[int, ...], widths: tuple[int, ...], wrap: bool
) -> Iterator[tuple[Zone, Zone]]:
    """Yield the elements around a zone: boxes of the array, and of the memory with the ghosts.

    If `wrap`, the array continues at its other end; if not, nothing lies beyond its bounds.

    >>> for box, place in ghost_boxes((slice(0, 4),), (6,), (1,), wrap=True):
    ...     print(box, place)
    (slice(5, 6, None),) (slice(0, 1, None),)
    (slice(4, 5, None),) (slice(5, 6, None),)
    """
    if 0 in extents(zone):
        return
    sides = [
        list(_around(some, n, width, wrap))
        for some, n, width in zip(zone, shape, widths, strict=True)
    ]
    for parts in itertools.product(*sides):
        if not all(is_own for _, _, is_own in parts):
            yield tuple(part[0] for part in parts), tuple(part[1] for part in parts)


def _around(own: slice, n: int, width: int, wrap: bool) -> Iterator[tuple[slice, slice, bool]]:
    """Yield pieces of one axis of a zone with ghosts: in the array, in memory, and whether own."""
    first, end = own.start - width, own.stop + width
    if not wrap:
        first, end = max(first, 0), min(end, n)
    shift = width - own.start  # from index to place
    start = first
    while start < end:
        # Stop at the next edge: of the own part, or where the array wraps around.
        stop = min(
            edge for edge in (own.start, own.stop, end, (start // n + 1) * n) if edge > start
        )
        index = start % n
        is_own = own.start <= start < own.stop
        yield slice(index, index + stop - start), slice(start + shift, stop + shift), is_own
        start = stop


Index = tuple[int, ...]

_FORWARDS, _BACKWARDS = slice(None, None, 1), slice(None, None, -1)


class Hyperslab(NamedTuple):
    """A box of elements with steps, selected by integers and slices."""

    shape: Index  # the result's
    ranges: list[range]  # along each axis of the array, with positive steps
    flips: tuple[slice, ...]  # turn values in the order of the ranges into the result's

    @classmethod
    def of(cls, selection: Any, shape: Index, dtype: np.dtype[Any]) -> Hyperslab:
        """Return the hyperslab that a selection takes from an array; the dtype is for messages.

        >>> Hyperslab.of((1, slice(None, None, -2)), (3, 6), np.dtype("f8")).ranges
        [range(1, 2), range(1, 7, 2)]
        """
        items = selection if type(selection) is tuple else (selection,)
        # Most selections are plain; the general way takes longer than to move some kilobytes.
        if len(items) <= len(shape) and all(type(item) in (slice, int) for item in items):
            plain = cls._of_plain(items, shape)
            if plain is not None:
                return plain
        query = as_query(selection, shape, dtype)
        if query.kind != "basic":  # empty lists, too
            raise SelectionError(
                "only integers and slices select a part here, not arrays; for lists of points, "
                "use gather, scatter and scatter_acc of a GlobalArray"
            )
        return cls.of_query(query)

    @classmethod
    def of_query(cls, query: Query) -> Hyperslab:
        """Return the hyperslab of a query that has progressions only."""
        ranges, flips = [], []
        for factor in query.factors:
            assert isinstance(factor, Progression)
            last = factor.start + (factor.count - 1) * factor.step
            first, step = min(factor.start, last), abs(factor.step)
            if not factor.count:
                first = factor.start
            ranges.append(range(first, first + factor.count * step, step))
            flips.append(_FORWARDS if factor.step > 0 else _BACKWARDS)
        return cls(query.shape, ranges, tuple(flips))

    @classmethod
    def _of_plain(cls, items: tuple[Any, ...], shape: Index) -> Hyperslab | None:
        """Return the hyperslab of integers and slices, or None if one is out of bounds."""
        extents, ranges, flips = [], [], []
        whole = (slice(None),) * (len(shape) - len(items))
        for item, n in zip((*items, *whole), shape, strict=True):
            if type(item) is slice:
                some = range(n)[item]
                extents.append(len(some))
                flips.append(_BACKWARDS if some.step < 0 else _FORWARDS)
                ranges.append(some[::-1] if some.step < 0 else some)
            elif -n <= item < n:
                first = item % n
                ranges.append(range(first, first + 1))
                flips.append(_FORWARDS)
            else:
                return None
        return cls(tuple(extents), ranges, tuple(flips))

    @property
    def extents(self) -> Index:
        """Elements along each axis of the array."""
        return tuple(map(len, self.ranges))

    def view(self, values: NDArray[Any]) -> NDArray[Any]:
        """View values shaped like the result with one axis for each of the array, forwards."""
        return values.reshape(self.extents)[self.flips]


class Section(NamedTuple):
    """A hyperslab with its axes in any order, as an operand or a target of operations.

    Each axis of the array has a range, in the order of the section, which may run backwards; `axes`
    lists the array's axes that the section keeps, in the order of the section.
    """

    ranges: tuple[range, ...]
    axes: Index

    @classmethod
    def whole(cls, shape: Index) -> Section:
        """Return the section of all elements."""
        return cls(tuple(map(range, shape)), tuple(range(len(shape))))

    @classmethod
    def of(cls, selection: Any, shape: Index, dtype: np.dtype[Any]) -> Section:
        """Return the section of a selection; the dtype is for messages.

        >>> Section.of((1, slice(None, None, -2)), (3, 6), np.dtype("f8"))
        Section(ranges=(range(1, 2), range(5, -1, -2)), axes=(1,))
        """
        box = Hyperslab.of(selection, shape, dtype)
        items = list(selection) if type(selection) is tuple else [selection]
        if any(item is None for item in items):
            raise SelectionError("a section has only the axes of its array; leave out None")
        at = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
        items[at : at + 1] = [slice(None)] * (len(shape) - len(items) + (at < len(items)))
        ranges = tuple(
            some[::-1] if flip == _BACKWARDS else some
            for some, flip in zip(box.ranges, box.flips, strict=True)
        )
        return cls(ranges, tuple(j for j, item in enumerate(items) if isinstance(item, slice)))

    @property
    def shape(self) -> Index:
        """Elements along each axis of the section."""
        return tuple(len(self.ranges[j]) for j in self.axes)

    @property
    def T(self) -> Section:  # noqa: N802 -- as in ndarray
        """The section with its axes in reverse."""
        return Section(self.ranges, self.axes[::-1])

    @property
    def box(self) -> Hyperslab:
        """The elements, in the order of the array."""
        forwards = [some[::-1] if some.step < 0 else some for some in self.ranges]
        return Hyperslab(tuple(map(len, forwards)), forwards, self._flips)

    @property
    def forwards(self) -> Section:
        """The section with the elements of each axis in the order of the array."""
        return Section(tuple(self.box.ranges), self.axes)

    @property
    def _flips(self) -> tuple[slice, ...]:
        return tuple(_BACKWARDS if some.step < 0 else _FORWARDS for some in self.ranges)

    def ordered(self, axis: int, some: slice) -> slice:
        """Convert a slice along an array axis from the order of the box to that of the section."""
        if self.ranges[axis].step > 0:
            return some
        last = len(self.ranges[axis]) - 1
        return slice(last - some.start, last - some.stop if some.stop <= last else None, -1)

    def part(self, slices: Sequence[slice]) -> Section:
        """Return a part, given a slice for each axis of the section."""
        ranges = list(self.ranges)
        for j, some in zip(self.axes, slices, strict=True):
            ranges[j] = ranges[j][some]
        return Section(tuple(ranges), self.axes)

    def of_box(self, values: NDArray[Any]) -> NDArray[Any]:
        """View the box's values as the section's values."""
        kept = sorted(self.axes)
        items = [flip if j in kept else 0 for j, flip in enumerate(self._flips)]
        return values[(*items, ...)].transpose([kept.index(j) for j in self.axes])


class Patch(NamedTuple):
    """The part of a selection in one block of a rank's memory."""

    rank: int
    extents: Index  # the shape of that rank's memory
    remote: tuple[Any, ...]  # in that memory: slices, forwards, or arrays of points
    local: Any  # in the values of the selection: a tuple of slices, or an array
    ways: dict[bool, Any]  # how MPI sees it, as numbers or not: kept for the next transfer


class Plan(NamedTuple):
    """A selection of a global array: its hyperslab, and the patches of that."""

    box: Hyperslab
    patches: list[Patch]
    is_plain: bool  # values of its shape have an axis for each of the array, forwards
    only: Patch | None  # the one patch of a plain plan, as most small selections have

    def view(self, values: NDArray[Any]) -> NDArray[Any]:
        """View values of the shape of the selection with one axis for each of the array."""
        return values if self.is_plain else self.box.view(values)


# Most plans kept for later calls with the same selection, and most patches of a kept plan.
_MOST_PLANS = 256
_MOST_PATCHES = 64


def _key_of(selection: Any) -> tuple[Any, ...] | None:
    """Return a key that equal selections of integers and slices share; None for others."""
    key: list[Any] = []
    for item in selection if type(selection) is tuple else (selection,):
        if type(item) is slice:
            bounds = item.start, item.stop, item.step
            for n in bounds:
                if n is not None and type(n) is not int:  # 1.0 and True equal 1
                    return None
            key.append(bounds)
        elif type(item) is int:
            key.append(item)
        else:
            return None
    return tuple(key)


class Runs(NamedTuple):
    """A hyperslab in the memory of a rank, as runs of elements."""

    place: int  # bytes before the first run
    length: int  # elements of a run
    loops: list[tuple[int, int]]  # number and distance in bytes of repetitions, outermost first


class _AxisLayout:
    """Places of the indices of one axis: on which ranks, and where in their memory.

    Block i, indices edges[i] ... edges[i + 1] - 1, is at place i % n of the process grid.  It
    begins at firsts[i] among the extents[place] elements there.
    """

    def __init__(self, zones: Zones, axis: int, ghosts: int) -> None:
        self.edges, self.n = zones.edges(axis), zones.process_grid[axis]
        self.firsts: list[int] = []
        self.extents = [0] * self.n
        for i, (low, high) in enumerate(itertools.pairwise(self.edges)):
            self.firsts.append(self.extents[i % self.n])
            self.extents[i % self.n] += high - low
        # For each block: its end, its place, the extent of memory there, and the shift to memory.
        self.ways = [
            (high, i % self.n, self.extents[i % self.n] + 2 * ghosts, first + ghosts - low)
            for i, (first, (low, high)) in enumerate(
                zip(self.firsts, itertools.pairwise(self.edges), strict=True)
            )
        ]

    def blocks(self, place: int) -> list[tuple[slice, slice]]:
        """Return the nonempty blocks at a place: in the array, and in memory."""
        return [
            (slice(low, high), slice(first, first + high - low))
            for low, high, first in zip(
                self.edges[place :: self.n],
                self.edges[place + 1 :: self.n],
                self.firsts[place :: self.n],
                strict=False,
            )
            if low < high
        ]


class ZoneLayout:
    """Places of the elements of a global array; each rank has its zones.

    A rank that has elements also has ghosts, at both ends of each axis.
    """

    def __init__(self, zones: Zones, dtype: np.dtype[Any], ghosts: Index) -> None:
        if zones.distribution.is_dealt and any(ghosts):
            raise ArgumentError(
                "ghosts need one zone per rank, and 'block_cyclic' gives several; use 'block' or "
                "'irregular'"
            )
        self.zones, self.shape = zones, zones.high
        self.dtype, self.ghosts = dtype, ghosts
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._axes = [_AxisLayout(zones, j, width) for j, width in enumerate(ghosts)]
        self._n_places = math.prod(zones.process_grid)

    def is_divided_as(self, other: ZoneLayout) -> bool:
        """Tell whether each rank has the same elements of two arrays, in the same arrangement."""
        pairs = zip(self._axes, other._axes, strict=False)
        return self.shape == other.shape and all(
            a.edges == b.edges and a.n == b.n for a, b in pairs
        )

    def extents(self, rank: int) -> Index:
        """Return the shape of the memory of a rank."""
        own = self._own_extents(rank)
        return tuple(n + 2 * g for n, g in zip(own, self._around(own), strict=True))

    def inside(self, rank: int) -> Zone:
        """Return where a rank's own elements lie in its memory."""
        own = self._own_extents(rank)
        return tuple(slice(g, g + n) for n, g in zip(own, self._around(own), strict=True))

    def blocks(self, rank: int) -> Iterator[tuple[Zone, Zone]]:
        """Yield the nonempty zones of a rank: in the array, and `inside` its memory."""
        if rank < self._n_places:
            places = self.zones.coordinates(rank)
            sides = [axis.blocks(place) for axis, place in zip(self._axes, places, strict=True)]
            for parts in itertools.product(*sides):
                yield tuple(part[0] for part in parts), tuple(part[1] for part in parts)

    def _own_extents(self, rank: int) -> Index:
        """Return the extents of a rank's own elements, its zones side by side."""
        if rank >= self._n_places:
            return (0,) * len(self.shape)
        places = self.zones.coordinates(rank)
        return tuple(axis.extents[at] for axis, at in zip(self._axes, places, strict=True))

    def _around(self, own: Index) -> Index:
        """Return the widths of a rank's ghosts: none without elements."""
        return self.ghosts if all(own) else (0,) * len(self.ghosts)

    def plan(self, selection: Any) -> Plan:
        """Return the plan of a selection; making one takes as long as moving some kilobytes."""
        key = _key_of(selection)
        plan = None if key is None else self._plans.get(key)
        if plan is None:
            box = Hyperslab.of(selection, self.shape, self.dtype)
            is_plain = box.shape == box.extents and _BACKWARDS not in box.flips
            patches = list(self.patches(box))
            only = patches[0] if is_plain and len(patches) == 1 else None
            plan = Plan(box, patches, is_plain, only)
            if key is not None and len(patches) <= _MOST_PATCHES:
                if len(self._plans) >= _MOST_PLANS:
                    self._plans.clear()
                self._plans[key] = plan
        return plan

    def patches(self, box: Hyperslab) -> Iterator[Patch]:
        """Yield the patches of a hyperslab, block by block, at a cost of O(patches)."""
        sides = map(_along, box.ranges, self._axes)
        grid = self.zones.process_grid
        for parts in itertools.product(*sides):
            places, extents, remote, local = zip(*parts, strict=True)
            rank = 0
            for at, n in zip(places, grid, strict=True):
                rank = rank * n + at
            yield Patch(rank, extents, remote, local, {})

    def sides(self, box: Hyperslab, rank: int) -> list[list[tuple[slice, slice]]]:
        """Return a rank's part of a hyperslab: along each axis, slices of memory and of the slab.

        The rank's patches are the outer product of these.
        """
        if rank >= self._n_places:
            return [[] for _ in self.shape]
        found = zip(box.ranges, self._axes, self.zones.coordinates(rank), strict=True)
        return [
            [(remote, local) for at, _, remote, local in _along(some, axis) if at == place]
            for some, axis, place in found
        ]

    def edges(self, section: Section, axis: int) -> list[int]:
        """Return 0 and the ends of the blocks along an axis of a section."""
        j = section.axes[axis]
        some, n = section.box.ranges[j], len(section.ranges[j])
        ends = [local.stop for *_, local in _along(some, self._axes[j])]
        edges = [0, *ends]
        return [n - edge for edge in reversed(edges)] if section.ranges[j].step < 0 else edges

    def owners(self, box: Hyperslab) -> Iterator[tuple[int, Zone]]:
        """Yield the ranks that have parts of a hyperslab, and those parts as slices."""
        for patch in self.patches(box):
            parts = (some[s] for some, s in zip(box.ranges, patch.local, strict=True))
            yield patch.rank, tuple(slice(some.start, some.stop, some.step) for some in parts)

    def runs(self, patch: Patch) -> Runs:
        """Return a patch of a hyperslab as the fewest runs of elements."""
        loops: list[tuple[int, int]] = []
        place, length = 0, 1
        stride = itemsize = self.dtype.itemsize
        for part, extent in zip(reversed(patch.remote), reversed(patch.extents), strict=True):
            place += part.start * stride
            n, distance = len(range(part.start, part.stop, part.step)), part.step * stride
            stride *= extent
            if n == 1:
                continue
            if not loops and distance == length * itemsize:
                length *= n
            elif loops and distance == math.prod(loops[0]):
                loops[0] = (loops[0][0] * n, loops[0][1])
            else:
                loops.insert(0, (n, distance))
        return Runs(place, length, loops)

    def points(self, indices: NDArray[np.int64]) -> Iterator[Patch]:
        """Yield the patches of a list of points, rank by rank."""
        ranks = np.zeros(len(indices), np.int64)
        places = []
        for j, (axis, ghosts) in enumerate(zip(self._axes, self.ghosts, strict=True)):
            edges, firsts = np.array(axis.edges, np.int64), np.array(axis.firsts, np.int64)
            at = np.searchsorted(edges, indices[:, j], "right") - 1
            ranks = ranks * axis.n + at % axis.n
            places.append(indices[:, j] - edges[at] + firsts[at] + ghosts)
        order = np.argsort(ranks, kind="stable")
        found, first = np.unique(ranks[order], return_index=True)
        for rank, local in zip(found.tolist(), np.split(order, first[1:]), strict=False):
            yield Patch(rank, self.extents(rank), tuple(some[local] for some in places), local, {})

    def displacements(self, patch: Patch) -> NDArray[np.int64]:
        """Return the byte offset of each element of a patch of points."""
        found = np.ravel_multi_index(patch.remote, patch.extents)
        return np.asarray(found, np.int64) * self.dtype.itemsize


# A place of the process grid: its number, the extent of memory there, and the part in that memory
# and in the range.
_Side = tuple[int, int, slice, slice]


def _along(some: range, axis: _AxisLayout) -> list[_Side]:
    """List the parts of a range in the blocks along one axis."""
    n, start, step = len(some), some.start, some.step
    if not n:
        return []
    ways = axis.ways
    at, done, found = bisect_right(axis.edges, start) - 1, 0, []
    while done < n:
        # Take the elements before the next edge.
        high, place, extent, shift = ways[at]
        stop = min(-((start - high) // step), n)
        if stop > done:
            first = start + shift
            remote = slice(done * step + first, (stop - 1) * step + first + 1, step)
            found.append((place, extent, remote, slice(done, stop)))
            done = stop
        at += 1
    return found


def steps_between(edges: set[int], least: int, most: int) -> list[slice]:
    """Divide an axis at edges into steps of at most `most` indices; those below `least` join.

    >>> steps_between({0, 300, 310, 320}, 128, 200)
    [slice(0, 150, None), slice(150, 300, None), slice(300, 320, None)]
    """
    places = sorted(edges)
    starts = places[:1]
    for number, edge in enumerate(places[1:], 2):
        if number < len(places) and places[number] - starts[-1] <= least:
            continue
        start, extent = starts[-1], edge - starts[-1]
        n = -(-extent // most)
        starts.extend(start + extent * i // n for i in range(1, n + 1))
    return [slice(a, z) for a, z in itertools.pairwise(starts)]


def as_points(indices: ArrayLike, shape: Index) -> NDArray[np.int64]:
    """Return a checked (n, k) list of points of an array with k axes; none is negative.

    >>> as_points([(0, -1), (2, 1)], (3, 4))
    array([[0, 3],
           [2, 1]])
    """
    given = np.asarray(indices)
    if given.ndim != 2 or given.shape[1] != len(shape):
        raise ShapeError(
            f"indices have shape {given.shape}, but need (n, {len(shape)}): one index per axis "
            "for each point"
        )
    if given.dtype.kind not in "iu":
        raise SelectionError(f"indices must be integers, not {given.dtype}")
    extents = np.array(shape, np.int64)
    outside = (given < -extents) | (given >= extents)
    if outside.any():
        i, j = np.argwhere(outside)[0]
        raise BoundsError(f"index {given[i, j]} is out of bounds for axis {j} with size {shape[j]}")
    points = given.astype(np.int64)
    return np.where(points < 0, points + extents, points)


def numbers(points: NDArray[np.int64], shape: Index) -> NDArray[np.int64]:
    """Return a number for each point; equal points have equal numbers.

    >>> numbers(as_points([(0, 3), (2, 1)], (3, 4)), (3, 4))
    array([3, 9])
    """
    strides = [math.prod(shape[j + 1 :]) for j in range(len(shape))]
    return points @ np.array(strides, np.int64)
