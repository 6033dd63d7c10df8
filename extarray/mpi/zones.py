"""Zones: which part of an array belongs to which rank.

The chunks that hold an array, or a part of one, are cut along chunk boundaries over a process grid
with row-major ranks.  "block" gives each process one box, larger boxes first; "block_cyclic" deals
out boxes of a few chunks in turn.  "irregular" cuts before given elements, also inside chunks.
Every rank computes every zone.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from extarray.array.array import ExtArray
from extarray.array.resizing import count, is_start
from extarray.common.arguments import as_axis, as_int, as_ints
from extarray.common.errors import ArgumentError, ArgumentTypeError, BoundsError, ShapeError
from extarray.mpi.runtime import check_rank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extarray.array.resizing import Side
    from extarray.mpi.runtime import Agreement
    from extarray.storage.reading import PairReader


__all__ = [
    "Blocks",
    "Distribution",
    "Zone",
    "ZonedArray",
    "Zones",
    "as_index",
    "default_process_grid",
    "extents",
    "factorizations",
    "shifted",
]

Index = tuple[int, ...]
Zone = tuple[slice, ...]

# Chunks of a block, or the elements with which the blocks of each axis begin.
Blocks = SupportsIndex | Sequence[SupportsIndex] | Sequence[Sequence[SupportsIndex]]

KINDS = ("block", "block_cyclic", "irregular")


@dataclass(frozen=True)
class Distribution:
    """A way to cut an array into zones, whatever its bounds.

    `block` has the chunks of a block along each axis, for "block_cyclic".  If `process_grid` is
    None, `default_process_grid` chooses it.  `edges` has, for "irregular", the first element of
    each block but the first, along each axis.
    """

    kind: str
    block: Index
    process_grid: Index | None
    edges: tuple[Index, ...] = ()

    @classmethod
    def of(
        cls,
        kind: str,
        block: Blocks,
        process_grid: Sequence[SupportsIndex] | None,
        ndim: int,
        n_ranks: int,
    ) -> Distribution:
        """Return a checked distribution for an array of `ndim` axes."""
        if kind not in KINDS:
            raise ArgumentError(
                f"kind {kind!r} is not valid; use 'block', 'block_cyclic' or 'irregular'"
            )
        if ndim == 0:
            raise ArgumentError("an array without axes has no zones; read and write it on rank 0")
        if kind == "irregular":
            return cls._irregular(block, process_grid, ndim, n_ranks)
        blocks = as_ints(block, "block")  # type: ignore[arg-type]
        if len(blocks) == 1:
            blocks *= ndim
        if len(blocks) != ndim or min(blocks) < 1:
            raise ShapeError(
                f"block {block!r} is not valid: give a number of chunks, at least 1, or one for "
                f"each of {ndim} axes"
            )
        processes = None
        if process_grid is not None:
            processes = as_ints(process_grid, "process_grid")
            if len(processes) != ndim or min(processes) < 1 or math.prod(processes) != n_ranks:
                raise ShapeError(
                    f"process grid {processes} is not valid: it needs {ndim} numbers whose "
                    f"product is {n_ranks}, the number of ranks"
                )
        return cls(kind, blocks, processes)

    @classmethod
    def _irregular(
        cls, block: Any, process_grid: Sequence[SupportsIndex] | None, ndim: int, n_ranks: int
    ) -> Distribution:
        """Return a checked distribution whose blocks begin at given elements of each axis.

        >>> Distribution._irregular([[0, 10, 30], [0, 25]], None, 2, 6)
        Distribution(kind='irregular', block=(1, 1), process_grid=(3, 2), edges=((10, 30), (25,)))
        """
        wanted = (
            f"give the first element of each block for each of {ndim} axes, as in "
            f"{[[0, 10], *([[0]] * (ndim - 1))]}"
        )
        if not hasattr(block, "__len__") or isinstance(block, (str, bytes)):
            raise ArgumentTypeError(f"block {block!r} is not valid for 'irregular': {wanted}")
        if len(block) != ndim or not all(hasattr(some, "__len__") for some in block):
            raise ShapeError(f"block {block!r} is not valid for 'irregular': {wanted}")
        starts = [as_ints(some, "block") for some in block]
        for axis, some in enumerate(starts):
            if not some or some[0] or any(a > b for a, b in itertools.pairwise(some)):
                raise ArgumentError(
                    f"blocks of axis {axis} cannot begin at {some}: the first must begin at 0, "
                    "and the others in ascending order"
                )
        grid = tuple(map(len, starts))
        if math.prod(grid) > n_ranks:
            raise ShapeError(
                f"{' x '.join(map(str, grid))} blocks need {math.prod(grid)} ranks, but there are "
                f"{n_ranks}; give at most {n_ranks} blocks, or start more ranks"
            )
        if process_grid is not None and as_ints(process_grid, "process_grid") != grid:
            raise ShapeError(
                f"process grid {tuple(process_grid)} does not match the blocks {grid}; leave it out"
            )
        return cls("irregular", (1,) * ndim, grid, tuple(some[1:] for some in starts))

    @property
    def is_dealt(self) -> bool:
        """True if each rank may have several zones, dealt out in turn."""
        return self.kind == "block_cyclic"

    def moved(self, by: Sequence[int]) -> Distribution:
        """Return the distribution of the same elements after their indices have shifted.

        >>> Distribution("irregular", (1,), (2,), ((10,),)).moved((3,)).edges
        ((13,),)
        """
        edges = tuple(
            tuple(edge + n for edge in some) for some, n in zip(self.edges, by, strict=False)
        )
        return replace(self, edges=edges)


def default_process_grid(grid: Sequence[int], n_ranks: int) -> Index:
    """Return the process grid whose zones are nearest to cubes, given the grid of chunks.

    Among all factorizations, take those whose largest zone has the least sum of extents, and among
    these the one whose largest zone has the fewest chunks.  Zones near to cubes have the least
    surface, which neighbours exchange.

    >>> default_process_grid((5, 4), 4), default_process_grid((100, 1), 4)
    ((2, 2), (4, 1))
    """

    def cost(processes: Index) -> tuple[int, int]:
        largest = [-(-max(g, 1) // p) for g, p in zip(grid, processes, strict=True)]
        return sum(largest), math.prod(largest)

    # `min` takes the first of equals: with most processes on the first axes, zones are long runs.
    return min(factorizations(n_ranks, len(grid)), key=cost)


def factorizations(n: int, k: int) -> Iterator[Index]:
    """Yield the tuples of k factors with product n, those with large first factors first.

    >>> list(factorizations(4, 2))
    [(4, 1), (2, 2), (1, 4)]
    """
    if k == 1:
        yield (n,)
        return
    for first in range(n, 0, -1):
        if n % first == 0:
            for others in factorizations(n // first, k - 1):
                yield (first, *others)


def extents(zone: Zone) -> Index:
    """Return the extents of a zone.

    >>> extents((slice(2, 5), slice(4, 4)))
    (3, 0)
    """
    return tuple(s.stop - s.start for s in zone)


def shifted(zone: Zone, axis: int, by: int) -> Zone:
    """Move a zone along an axis.

    >>> shifted((slice(2, 5), slice(4, 4)), 0, -2)
    (slice(0, 3, None), slice(4, 4, None))
    """
    moved = slice(zone[axis].start + by, zone[axis].stop + by)
    return (*zone[:axis], moved, *zone[axis + 1 :])


def as_index(index: SupportsIndex | Sequence[SupportsIndex], shape: Index) -> Index:
    """Return a checked index of one element of an array; none of its entries is negative.

    >>> as_index((1, -1), (3, 4))
    (1, 3)
    """
    given = index if isinstance(index, (tuple, list, np.ndarray)) else (index,)
    if len(given) != len(shape):
        raise ShapeError(f"the index needs {len(shape)} entries, not {len(given)}")
    places = [as_int(i, "an index") for i in given]
    for j, (i, n) in enumerate(zip(places, shape, strict=True)):
        if not -n <= i < n:
            raise BoundsError(f"index {i} is out of bounds for axis {j} with size {n}")
    return tuple(i % n for i, n in zip(places, shape, strict=True))


class Zones:
    """The zones of the elements low ... high - 1 of an array, in the array's indices.

    The grid of chunks begins `offset` elements before index 0.  `grid` counts the chunks that hold
    the box.

    Examples
    --------
    Figure 1 of [drxmp2009]_: 10 x 12 elements in chunks of 2 x 3, on 4 processes.

    >>> block = Distribution.of("block", 1, None, 2, 4)
    >>> zones = Zones(block, (0, 0), (10, 12), (0, 0), (2, 3), 4)
    >>> zones.grid, zones.process_grid
    ((5, 4), (2, 2))
    >>> zones.of(1), zones.owner((7, 2))
    ([(slice(0, 6, None), slice(6, 12, None))], 2)
    """

    def __init__(
        self,
        distribution: Distribution,
        low: Sequence[int],
        high: Sequence[int],
        offset: Sequence[int],
        chunks: Sequence[int],
        n_ranks: int,
    ) -> None:
        self.distribution = distribution
        self.low, self.high = tuple(low), tuple(high)
        self.offset, self.chunks = tuple(offset), tuple(chunks)
        self._first = tuple((a + b) // c for a, b, c in zip(low, offset, chunks, strict=True))
        self.grid = tuple(
            -(-(z + b) // c) - first if a < z else 0
            for a, z, b, c, first in zip(low, high, offset, chunks, self._first, strict=True)
        )
        self.process_grid = distribution.process_grid or default_process_grid(self.grid, n_ranks)

    def of(self, rank: int) -> list[Zone]:
        """Return the zones of a rank in increasing order; one, perhaps empty, unless dealt."""
        return list(itertools.product(*self.ranges(rank)))

    def as_told(self, rank: int) -> Zone | list[Zone]:
        """Return the zones of a rank for users: a list only if zones are dealt."""
        zones = self.of(rank)
        return zones if self.distribution.is_dealt else zones[0]

    def of_rank(self, rank: SupportsIndex | None, comm: Any) -> Any:
        """Return the zones of a rank that a user names, as `as_told` does; None: this rank."""
        return self.as_told(check_rank(rank, comm))

    def ranges(self, rank: int) -> list[list[slice]]:
        """Return ranges along each axis; a rank's zones are their outer product."""
        if rank >= math.prod(self.process_grid):  # more ranks than irregular blocks
            return [[slice(z, z)] for z in self.high]
        return [self._ranges(j, place) for j, place in enumerate(self.coordinates(rank))]

    def coordinates(self, rank: int) -> list[int]:
        """Return the place of a rank in the process grid."""
        places = []  # np.unravel_index takes twice as long
        for n in reversed(self.process_grid):
            rank, place = divmod(rank, n)
            places.append(place)
        return places[::-1]

    def edges(self, axis: int) -> list[int]:
        """Return where an axis is cut: the first element of each block, and the end.

        Block i belongs to the processes at place i of the process grid, modulo its extent.
        """
        n = self.process_grid[axis]
        sides = itertools.zip_longest(*(self._ranges(axis, place) for place in range(n)))
        starts = [some.start for side in sides for some in side if some is not None]
        return [*starts, self.high[axis]]

    def owner(self, index: Sequence[int]) -> int:
        """Return the rank of an element inside the box."""
        rank = 0
        for j, i in enumerate(index):
            if not self.low[j] <= i < self.high[j]:
                raise BoundsError(
                    f"index {i} is out of bounds for axis {j} with size {self.high[j]}"
                )
            chunk = (i + self.offset[j]) // self.chunks[j] - self._first[j]
            n = self.process_grid[j]
            if self.distribution.kind == "irregular":
                place = bisect_right(self.distribution.edges[j], i)
            elif self.distribution.kind == "block":
                each, larger = divmod(self.grid[j], n)
                at = larger * (each + 1)
                place = chunk // (each + 1) if chunk < at else larger + (chunk - at) // each
            else:
                place = chunk // self.distribution.block[j] % n
            rank = rank * n + place
        return rank

    def _ranges(self, axis: int, place: int) -> list[slice]:
        """Return the parts of an axis of the processes at one place of the process grid."""
        extent, n = self.grid[axis], self.process_grid[axis]
        if self.distribution.kind == "block":
            each, larger = divmod(extent, n)
            start = place * each + min(place, larger)
            return [self._elements(axis, start, start + each + (place < larger))]
        if self.distribution.kind == "irregular":
            low, high = self.low[axis], self.high[axis]
            edges = (low, *self.distribution.edges[axis], high)
            start, stop = (min(max(edge, low), high) for edge in edges[place : place + 2])
            return [slice(start, stop)]
        block = self.distribution.block[axis]
        return [
            self._elements(axis, start, min(start + block, extent))
            for start in range(place * block, extent, n * block)
        ]

    def _elements(self, axis: int, first: int, last: int) -> slice:
        """Return the box's elements in its chunks first ... last - 1."""

        def edge(chunk: int) -> int:
            start = (self._first[axis] + chunk) * self.chunks[axis] - self.offset[axis]
            return min(max(start, self.low[axis]), self.high[axis])

        return slice(edge(first), edge(last))


class ZonedArray(ExtArray):
    """The part of `ParallelArray` that knows which rank has which part, also of a growth."""

    __slots__ = ("_agreement", "_distribution", "_latest_zones", "_pair", "comm")

    comm: Any
    _agreement: Agreement
    _distribution: Distribution | None  # in indices from the origin; None: no axes
    _latest_zones: Zones | None
    _pair: PairReader  # the files that this rank has open

    def distribute(
        self,
        kind: Literal["block", "block_cyclic", "irregular"] = "block",
        block: Blocks = 1,
        process_grid: Sequence[SupportsIndex] | None = None,
    ) -> None:
        """Choose how the array is cut into zones; collective.

        Parameters
        ----------
        kind : {"block", "block_cyclic", "irregular"}
            "block": one box per rank, as even as whole chunks allow, the larger ones first, as
            ``np.array_split`` cuts.  "block_cyclic": blocks of chunks, dealt out in turn.
            "irregular": one box per rank, cut where `block` says.
        block : int or sequence of int, or sequence of sequences of int
            For "block_cyclic" the chunks of a block (along each axis).  For "irregular" a sequence
            for each axis, of the elements with which its blocks begin: the first is 0, and equal
            ones make empty blocks.
        process_grid : sequence of int, optional
            Ranks along each axis, row-major; None: zones as near to cubes of chunks as possible, or
            for "irregular" as many ranks as `block` has blocks.

        Raises
        ------
        ArgumentError, ArgumentTypeError, ShapeError, ClosedError

        Notes
        -----
        An array begins with "block", also after it gains an axis.  Zones follow the bounds: `zone`
        computes them anew after the array has grown.

        Irregular blocks belong to the ranks in C order; if there are fewer blocks than ranks, the
        last ranks have empty zones.  The cuts between blocks stay with their elements: growth at
        the end of an axis enlarges its last block, growth at the start its first.  Blocks that
        begin beyond the bounds are empty until the array grows.  Cuts may lie inside chunks, but
        several ranks then read such a chunk, so cuts between chunks are faster.

        Examples
        --------
        >>> a.distribute("block_cyclic", block=2)  # doctest: +SKIP
        >>> a.distribute("irregular", [[0, 10, 30], [0, 25]])  # doctest: +SKIP
        """
        self._check()
        with self._agreement.step() as step:
            chosen = Distribution.of(kind, block, process_grid, self.ndim, self.comm.size)
            step.arguments = f"distribute {chosen}"
        self._distribution = chosen.moved([-n for n in self.origin])

    def zone(self, rank: SupportsIndex | None = None) -> Any:
        """Return the part of the array that belongs to a rank.

        Parameters
        ----------
        rank : int, optional
            In [0, comm.size); None: this rank.

        Returns
        -------
        tuple of slice, or list of tuple of slice
            One box, empty if the rank has no elements; for "block_cyclic" all boxes, in increasing
            order.

        Raises
        ------
        BoundsError, ArgumentError

        Examples
        --------
        >>> a.zone(1)  # doctest: +SKIP
        (slice(0, 6, None), slice(6, 12, None))
        """
        return self._zones().of_rank(rank, self.comm)

    def owner(self, index: SupportsIndex | Sequence[SupportsIndex]) -> int:
        """Return the rank whose zone has an element.

        Parameters
        ----------
        index : sequence of int
            An index of each axis.

        Returns
        -------
        int

        Raises
        ------
        BoundsError, ShapeError

        Examples
        --------
        >>> a.owner((7, 2))  # doctest: +SKIP
        2
        """
        return self._zones().owner(as_index(index, self.shape))

    def zone_of_growth(
        self,
        axis: SupportsIndex | str,
        by: SupportsIndex,
        side: Side = "end",
        rank: SupportsIndex | None = None,
    ) -> Any:
        """Return a rank's part of the elements that a growth adds, for `append_zone`.

        Parameters
        ----------
        axis, by, side
            As for `extend`.
        rank : int, optional
            In [0, comm.size); None: this rank.

        Returns
        -------
        tuple of slice, or list of tuple of slice
            As for `zone`, in indices of the grown array.

        Notes
        -----
        The new part is cut like a separate array, with a process grid of its own, so that all ranks
        have elements to write; an irregular distribution is cut by "block".

        Examples
        --------
        >>> a.zone_of_growth(axis=0, by=8)  # doctest: +SKIP
        (slice(10, 12, None), slice(0, 12, None))
        """
        j, n, first = as_axis(axis, self.ndim, self), count(by), is_start(side)
        parts = self._zones_of_growth(j, n, first).of_rank(rank, self.comm)
        if not first:
            return parts
        # Shift indices to count from the new start.
        if isinstance(parts, tuple):
            return shifted(parts, j, n)
        return [shifted(part, j, n) for part in parts]

    def _zones(self) -> Zones:
        """Return the zones of the array, computed anew only when they have changed."""
        distribution = self._distributed()
        if distribution.edges:
            distribution = distribution.moved(self.origin)
        shape, offset = self.shape, self._pair.now.state.offset
        zones = self._latest_zones
        if zones is None or (zones.high, zones.offset, zones.distribution) != (
            shape,
            offset,
            distribution,
        ):
            low, n = (0,) * self.ndim, self.comm.size
            zones = Zones(distribution, low, shape, offset, self.chunks, n)
            self._latest_zones = zones
        return zones

    def _zones_of_growth(self, axis: int, by: int, at_start: bool) -> Zones:
        """Return the zones of the elements that a growth adds, in the indices before it."""
        given = self._distributed()
        low, high = [0] * self.ndim, list(self.shape)
        low[axis], high[axis] = (-by, 0) if at_start else (high[axis], high[axis] + by)
        kind = given.kind if given.is_dealt else "block"
        distribution = Distribution(kind, given.block, None)
        return Zones(
            distribution, low, high, self._pair.now.state.offset, self.chunks, self.comm.size
        )

    def _first_distribution(self) -> Distribution | None:
        n = self.ndim
        return Distribution("block", (1,) * n, None) if n else None

    def _distributed(self) -> Distribution:
        self._check()
        if self._distribution is None:
            raise ArgumentError("an array without axes has no zones")
        return self._distribution
