"""Patches: which part of a selection which rank has, and where in its memory.  No MPI here.

Each rank has the elements of its zone in C order, with ghosts around them where the array has any:
copies of elements that belong to others.  A selection is a box of elements with steps, or a list of
points; what it has in the memory of one rank is a patch.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from extarray.common.arguments import as_int
from extarray.common.errors import BoundsError, SelectionError, ShapeError
from extarray.mpi.zones import extents
from extarray.selection.brackets import as_query
from extarray.selection.factors import Progression

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from extarray.mpi.zones import Zone, Zones


__all__ = ["Box", "Patch", "Runs", "ZoneLayout", "as_ghosts", "as_points", "ghost_boxes", "numbers"]


def as_ghosts(ghosts: SupportsIndex | Sequence[SupportsIndex] | None, ndim: int) -> tuple[int, ...]:
    """Return the widths of the ghosts along each axis.

    Parameters
    ----------
    ghosts : int or sequence of int, optional
        One for all axes, or one for each; None: none.

    Raises
    ------
    ShapeError, ArgumentTypeError

    Examples
    --------
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
            f"ghosts {ghosts!r} are not possible: give a width, at least 0, or one for each of "
            f"{ndim} axes"
        )
    return widths


def ghost_boxes(
    zone: Zone, shape: tuple[int, ...], widths: tuple[int, ...], wrap: bool
) -> Iterator[tuple[Zone, Zone]]:
    """Yield the elements around a zone, box by box.

    Parameters
    ----------
    shape : tuple of int
        Of the array.
    widths : tuple of int
        Ghosts at both ends of each axis.
    wrap : bool
        Whether the array goes on at its other end; if not, there is nothing beyond its bounds.

    Yields
    ------
    box : tuple of slice
        Of the array.
    place : tuple of slice
        Of the memory of the zone and its ghosts.

    Examples
    --------
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
        # Up to the next edge: of the own part, or where the array begins anew.
        stop = min(
            edge for edge in (own.start, own.stop, end, (start // n + 1) * n) if edge > start
        )
        index = start % n
        is_own = own.start <= start < own.stop
        yield slice(index, index + stop - start), slice(start + shift, stop + shift), is_own
        start = stop


Index = tuple[int, ...]

_FORWARDS, _BACKWARDS = slice(None, None, 1), slice(None, None, -1)


class Box(NamedTuple):
    """A box of elements, with steps.

    Attributes
    ----------
    shape : tuple of int
        Of the result.
    ranges : list of range
        Along each axis of the array, with positive steps.
    flips : tuple of slice
        Between the order of the ranges and that of the result.
    """

    shape: Index
    ranges: list[range]
    flips: tuple[slice, ...]

    @classmethod
    def of(cls, selection: Any, shape: Index, dtype: np.dtype[Any]) -> Box:
        """Return the box of a selection.

        Parameters
        ----------
        shape : tuple of int
            Of the array.
        dtype : dtype
            Of the array; for the words of errors.

        Raises
        ------
        BoundsError, SelectionError

        Examples
        --------
        >>> Box.of((1, slice(None, None, -2)), (3, 6), np.dtype("f8")).ranges
        [range(1, 2), range(1, 7, 2)]
        """
        items = selection if type(selection) is tuple else (selection,)
        # What most selections are; the general way takes longer than to move some kilobytes.
        if len(items) <= len(shape) and all(type(item) in (slice, int) for item in items):
            plain = cls._of_plain(items, shape)
            if plain is not None:
                return plain
        query = as_query(selection, shape, dtype)
        if query.kind != "basic":  # also of lists that are empty
            raise SelectionError(
                "integers and slices select a part here, no arrays: take part by part; lists of "
                "points are taken by gather, scatter and scatter_acc, which only a GlobalArray has"
            )
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
    def _of_plain(cls, items: tuple[Any, ...], shape: Index) -> Box | None:
        """Return the box of integers and slices, or None where one is out of bounds."""
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
        """View an array of the shape of the result with one axis for each of the array, forwards.

        Returns
        -------
        ndarray
            A view: only axes of one element come or go.
        """
        return values.reshape(self.extents)[self.flips]


class Patch(NamedTuple):
    """The part of a selection that is in the memory of one rank.

    Attributes
    ----------
    rank : int
    extents : tuple of int
        Shape of the memory of that rank.
    remote : tuple of slice, or tuple of ndarray
        In that memory: a box, forwards, or points.
    local : tuple of slice, or ndarray
        In the values of the selection.
    """

    rank: int
    extents: Index
    remote: tuple[Any, ...]
    local: Any


class Runs(NamedTuple):
    """A box in the memory of a rank, as runs of elements.

    Attributes
    ----------
    place : int
        Bytes before the first run.
    length : int
        Elements of a run.
    loops : list of (int, int)
        Number and distance in bytes of what is repeated, the outermost first.
    """

    place: int
    length: int
    loops: list[tuple[int, int]]


class ZoneLayout:
    """The places of the elements of a global array.

    Parameters
    ----------
    zones : Zones
        With one box a rank.
    dtype : dtype
    ghosts : tuple of int
        Elements more at both ends of each axis, in the memory of each rank that has elements.
    """

    def __init__(self, zones: Zones, dtype: np.dtype[Any], ghosts: Index) -> None:
        self.zones, self.shape = zones, zones.high
        self.dtype, self.ghosts = dtype, ghosts
        self._cuts = [zones.cuts(j) for j in range(len(zones.high))]

    def zone(self, rank: int) -> Zone:
        """Return the elements of a rank."""
        return self.zones.of(rank)[0]

    def extents(self, rank: int) -> Index:
        """Return the shape of the memory of a rank."""
        around = self._around(rank)
        return tuple(n + 2 * g for n, g in zip(extents(self.zone(rank)), around, strict=True))

    def inside(self, rank: int) -> Zone:
        """Return where the elements of a rank are in its memory."""
        pairs = zip(extents(self.zone(rank)), self._around(rank), strict=True)
        return tuple(slice(g, g + n) for n, g in pairs)

    def _around(self, rank: int) -> Index:
        """Return the widths of the ghosts of a rank: nothing has none."""
        return self.ghosts if all(extents(self.zone(rank))) else (0,) * len(self.ghosts)

    def patches(self, box: Box) -> Iterator[Patch]:
        """Yield the parts of a box, rank by rank.

        Notes
        -----
        O(patches), however many ranks there are.
        """
        sides = list(map(_along, box.ranges, self._cuts, self.ghosts))
        grid = self.zones.process_grid
        for parts in itertools.product(*sides):
            places, extents, remote, local = zip(*parts, strict=True)
            rank = 0
            for at, n in zip(places, grid, strict=True):
                rank = rank * n + at
            yield Patch(rank, extents, remote, local)

    def runs(self, patch: Patch) -> Runs:
        """Return a patch of a box as runs of elements.

        Returns
        -------
        Runs
            As few as there are.
        """
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
        """Yield the parts of a list of points, rank by rank.

        Parameters
        ----------
        indices : (n, k) ndarray of int64
            As `as_points` gives them.
        """
        ranks = np.zeros(len(indices), np.int64)
        places = []
        for j, (cuts, ghosts) in enumerate(zip(self._cuts, self.ghosts, strict=True)):
            edges = np.array(cuts, np.int64)
            at = np.searchsorted(edges, indices[:, j], "right") - 1
            ranks = ranks * (len(cuts) - 1) + at
            places.append(indices[:, j] - edges[at] + ghosts)
        order = np.argsort(ranks, kind="stable")
        found, first = np.unique(ranks[order], return_index=True)
        for rank, local in zip(found.tolist(), np.split(order, first[1:]), strict=False):
            yield Patch(rank, self.extents(rank), tuple(some[local] for some in places), local)

    def displacements(self, patch: Patch) -> NDArray[np.int64]:
        """Return the bytes before each element of a patch of points."""
        found = np.ravel_multi_index(patch.remote, patch.extents)
        return np.asarray(found, np.int64) * self.dtype.itemsize


# Of a place of the process grid: its number, the extent of memory there, and the part in that
# memory and in the range.
_Side = tuple[int, int, slice, slice]


def _along(some: range, cuts: list[int], ghosts: int) -> list[_Side]:
    """List what the places of the process grid have of a range, along one axis."""
    n, start, step = len(some), some.start, some.step
    if not n:
        return []
    at, done, found = bisect_right(cuts, start) - 1, 0, []
    while done < n:
        # Of the next elements those before the next cut.
        low, high = cuts[at], cuts[at + 1]
        stop = min(-((start - high) // step), n)
        if stop > done:
            shift = start + ghosts - low
            remote = slice(done * step + shift, (stop - 1) * step + shift + 1, step)
            found.append((at, high - low + 2 * ghosts, remote, slice(done, stop)))
            done = stop
        at += 1
    return found


def as_points(indices: ArrayLike, shape: Index) -> NDArray[np.int64]:
    """Return a list of points, checked.

    Parameters
    ----------
    indices : (n, k) array_like of int
        Negative ones count from the end of their axis.
    shape : tuple of int
        Of the array, which has k axes.

    Returns
    -------
    (n, k) ndarray of int64
        None is negative.

    Raises
    ------
    ShapeError, SelectionError, BoundsError

    Examples
    --------
    >>> as_points([(0, -1), (2, 1)], (3, 4))
    array([[0, 3],
           [2, 1]])
    """
    given = np.asarray(indices)
    if given.ndim != 2 or given.shape[1] != len(shape):
        raise ShapeError(
            f"indices of shape {given.shape} do not fit: (n, {len(shape)}) is needed, an index of "
            "each axis for each point"
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
    """Return a number for each point, the same for the same point.

    Parameters
    ----------
    points : (n, k) ndarray of int64
        As `as_points` gives them.

    Examples
    --------
    >>> numbers(as_points([(0, 3), (2, 1)], (3, 4)), (3, 4))
    array([3, 9])
    """
    strides = [math.prod(shape[j + 1 :]) for j in range(len(shape))]
    return points @ np.array(strides, np.int64)
