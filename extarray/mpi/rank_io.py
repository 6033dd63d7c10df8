"""Transfers of one rank: through MPI-IO, by its own engine, or adding under a lock.

`ThroughMPI` plans jobs on the file, and a call for the end.  `OwnIO`, by a mapping or pread, has
no jobs: its transfers do everything in that call.  A write checks its arguments first, and runs
after the ranks have agreed; a failed read has changed nothing, so a read checks them only when it
runs.

An addition reads, adds and writes back, and no other rank may write in between.  An advisory lock
of the open file on the chunks ensures that, like the writer's lock.  It needs no preparation and no
other rank; waiting ranks sleep, and the lock of a process that dies becomes free.  A mutex in an
MPI window would need a window for each opened array, and would wait for ranks in long computations.
An addition goes block by block and holds one lock at a time, so no two ranks deadlock.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from extarray._core._array import check_destination
from extarray.array.array import ExtArray
from extarray.array.growth import check_kind, write_source
from extarray.array.together import check_out, grown_at_start, values_of
from extarray.common.config import config
from extarray.common.errors import ShapeError
from extarray.common.limits import limits
from extarray.common.masked_arrays import unmasked
from extarray.grid.chunking import grain
from extarray.grid.order import has_strides
from extarray.grid.tiles import tiles
from extarray.mpi.file_parts import FileLayout, box_jobs, query_jobs
from extarray.mpi.patches import Hyperslab
from extarray.mpi.requests import as_elements, scaled, spread, surely_cast
from extarray.mpi.zones import extents
from extarray.selection.brackets import as_query
from extarray.selection.execution import check_values
from extarray.selection.factors import Progression
from extarray.selection.fields import dtype_of_fields, field_of, split_names
from extarray.selection.query import Query
from extarray.storage.filesystem import family
from extarray.storage.lock import holding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from extarray.mpi.file_parts import Job
    from extarray.mpi.zones import Zone

__all__ = ["OwnIO", "RankIO", "ThroughMPI", "Transfer", "accumulate", "extents_together"]

# A rank's ranges of each axis: its zones are the outer product.
_Ranges = list[list[slice]]


@dataclass(frozen=True)
class Transfer:
    """A transfer of one rank: jobs, and a call for the result after all jobs.

    `check` raises the errors that `finish` would raise for wrong arguments not checked before.
    """

    jobs: Iterator[Job]
    write: bool
    finish: Callable[[], Any] = lambda: None
    check: Callable[[], Any] = lambda: None


class RankIO(Protocol):
    """A way for a rank to read and write elements."""

    def reading(
        self, selection: Any, out: NDArray[Any] | None, order: Literal["C", "F"]
    ) -> Transfer:
        """Plan ``array.read(selection, out, order)``."""

    def writing(self, selection: Any, values: Any) -> Transfer:
        """Plan ``array.write(selection, values)``."""

    def reading_zones(self, ranges: _Ranges, out: NDArray[Any] | None) -> Transfer:
        """Plan to read zones into a 1-D array, one zone after the other."""

    def writing_zones(self, ranges: _Ranges, local: Any) -> Transfer:
        """Plan to write zones from a 1-D array; they may lie beyond the bounds."""

    def filling(self, parts: list[tuple[Zone, Zone]], values: Any) -> Transfer:
        """Plan to write parts of an append, to allocated elements.

        Parts are pairs of boxes: of elements, in indices from before the growth, and of `values`,
        which are read in blocks of at most ``config.max_memory`` bytes.
        """


class ThroughMPI:
    """Transfers through MPI-IO, with a staging buffer of `stage` bytes."""

    def __init__(self, array: ExtArray, stage: int) -> None:
        self._array, self._stage = array, stage

    def _layout(self) -> FileLayout:
        """Return where elements are, including those of chunks that are only allocated."""
        array = self._array
        starts = grown_at_start(array)
        offset = [n * c - o for n, c, o in zip(starts, array.chunks, array.origin, strict=True)]
        return FileLayout(
            array.axial, array.chunks, tuple(offset), array.order, array.itemsize, self._stage
        )

    def reading(
        self, selection: Any, out: NDArray[Any] | None, order: Literal["C", "F"]
    ) -> Transfer:
        """Plan ``array.read(selection, out, order)``."""
        array = self._array
        query, fields, overlaps = _parsed_read(array, selection, out, order)
        dtype = _dtype_of(array, query, None)
        result = out
        is_direct = out is not None and out.dtype == dtype.base and not overlaps
        target = out if is_direct else None
        if target is None:
            target = np.empty(query.shape, dtype, order)

        def finish() -> NDArray[Any]:
            read = target if fields is None else target[fields]
            if result is None:
                return read
            if result is not target:
                result[...] = read
            return result

        return Transfer(query_jobs(self._layout(), query, target, False), False, finish)

    def writing(self, selection: Any, values: Any) -> Transfer:
        """Plan ``array.write(selection, values)``."""
        array = self._array
        query, fields, given = _parsed_write(array, selection, values)
        layout = self._layout()
        if fields is None:
            dtype = _dtype_of(array, query, None)
            elements = as_elements(np.asarray(given), dtype.base)
            block = spread(elements, (*query.shape, *dtype.shape))
            return Transfer(query_jobs(layout, query, block, True), True)
        records = np.empty(query.shape, dtype_of_fields(array.dtype, fields))
        records[...] = np.asarray(given)
        queries = [(replace(query, field=field_of(array.dtype, name)), name) for name in fields]
        jobs = (
            query_jobs(layout, q, np.ascontiguousarray(records[name]), True) for q, name in queries
        )
        return Transfer(itertools.chain.from_iterable(jobs), True)

    def reading_zones(self, ranges: _Ranges, out: NDArray[Any] | None) -> Transfer:
        """Plan to read zones into a 1-D array, one zone after the other."""
        array, size = self._array, math.prod(extents_together(ranges))
        overlaps = out is not None and check_out(array, out, (size,), array.dtype)
        local = np.empty(size, array.dtype) if out is None or overlaps else out
        jobs, staged = self._zones(ranges, False)

        def finish() -> NDArray[Any]:
            for place, box in _in_turn(ranges):
                local[place] = staged[box].reshape(-1)
            if out is None or out is local:
                return local
            out[...] = local
            return out

        return Transfer(jobs, False, finish)

    def writing_zones(self, ranges: _Ranges, local: Any) -> Transfer:
        """Plan to write zones from a 1-D array."""
        values = _check_local(ranges, local)
        jobs, staged = self._zones(ranges, True)
        for place, box in _in_turn(ranges):
            staged[box] = values[place].reshape(staged[box].shape)
        return Transfer(jobs, True)

    def _zones(self, ranges: _Ranges, write: bool) -> tuple[Iterator[Job], NDArray[Any]]:
        """Make jobs between zones and an array with the ranges of each axis side by side."""
        layout = self._layout()
        staged = np.empty(extents_together(ranges), self._array.dtype)
        if has_strides(layout.order):
            steps = [[range(r.start, r.stop) for r in some] for some in ranges]
            return box_jobs(layout, steps, staged, write), staged
        boxes = zip(itertools.product(*ranges), _in_turn(ranges), strict=True)
        jobs = (query_jobs(layout, _box_query(zone), staged[at], write) for zone, (_, at) in boxes)
        return itertools.chain.from_iterable(jobs), staged

    def filling(self, parts: list[tuple[Zone, Zone]], values: Any) -> Transfer:
        """Plan to write parts of an append, to allocated elements."""
        layout = self._layout()
        jobs = (
            query_jobs(layout, _box_query(box), block, True)
            for box, block in _cast_blocks(self._array, parts, values)
        )
        return Transfer(itertools.chain.from_iterable(jobs), True)


class OwnIO:
    """Transfers by the rank's own engine, as in an array of one process."""

    def __init__(self, array: ExtArray) -> None:
        self._array = array

    def reading(
        self, selection: Any, out: NDArray[Any] | None, order: Literal["C", "F"]
    ) -> Transfer:
        """Plan ``array.read(selection, out, order)``, which checks its arguments when it runs."""
        array = self._array
        return Transfer(
            iter(()),
            False,
            lambda: ExtArray.read(array, selection, out, order),
            lambda: _parsed_read(array, selection, out, order),
        )

    def writing(self, selection: Any, values: Any) -> Transfer:
        """Plan ``array.write(selection, values)``."""
        array = self._array
        *_, given = _parsed_write(array, selection, values)
        return _at_the_end(True, lambda: ExtArray.write(array, selection, given))

    def reading_zones(self, ranges: _Ranges, out: NDArray[Any] | None) -> Transfer:
        """Plan to read zones into a 1-D array, one zone after the other."""
        array, size = self._array, math.prod(extents_together(ranges))
        if out is not None:
            check_out(array, out, (size,), array.dtype)

        def read() -> NDArray[Any]:
            local = np.empty(size, array.dtype) if out is None else out
            for zone, (place, _) in zip(itertools.product(*ranges), _in_turn(ranges), strict=True):
                local[place] = ExtArray.read(array, zone).reshape(-1)
            return local

        return _at_the_end(False, read)

    def writing_zones(self, ranges: _Ranges, local: Any) -> Transfer:
        """Plan to write zones from a 1-D array."""
        values = surely_cast(_check_local(ranges, local), self._array.dtype)
        zones = zip(itertools.product(*ranges), _in_turn(ranges), strict=True)
        return self._filling(
            (zone, values[place].reshape(extents(box))) for zone, (place, box) in zones
        )

    def filling(self, parts: list[tuple[Zone, Zone]], values: Any) -> Transfer:
        """Plan to write parts of an append, to allocated elements."""
        return self._filling(_cast_blocks(self._array, parts, values))

    def _filling(self, boxes: Iterable[tuple[Zone, NDArray[Any]]]) -> Transfer:
        """Plan to write boxes of allocated elements, inside the bounds or not."""

        def write() -> None:
            for box, block in boxes:
                start, stop = tuple(s.start for s in box), tuple(s.stop for s in box)
                write_source(self._array, block, start, stop)

        return _at_the_end(True, write)


def _at_the_end(write: bool, action: Callable[[], Any]) -> Transfer:
    return Transfer(iter(()), write, action)


def accumulate(array: Any, selection: Any, values: ArrayLike, alpha: Any) -> None:
    """Add to a selection of a `ParallelArray` in files, on this rank alone."""
    box = Hyperslab.of(selection, array.shape, array.dtype)
    added = box.view(spread(scaled(values, alpha, array.dtype), box.shape))
    limit = limits.locked_bytes
    for part in tiles(box.extents, array.chunks, array.itemsize, limit=limit, split=False):
        ranges = [some[s] for some, s in zip(box.ranges, part, strict=True)]
        place = tuple(slice(some.start, some.stop, some.step) for some in ranges)
        with (
            array._adding,
            family("cannot lock a part of '{}' to add to it", array.path),
            holding(array._pair.now.data, *_span(array, ranges)),
        ):
            block = array.read(place, collective=False)
            block += added[part]
            array.write(place, block, collective=False)


def _span(array: Any, ranges: list[range]) -> tuple[int, int]:
    """Return the first chunk of a box in the file, and the number of chunks up to its last."""
    chunks = [
        np.unique((np.array(some, np.int64) + offset) // chunk).tolist()
        for some, offset, chunk in zip(
            ranges, array._pair.now.state.offset, array.chunks, strict=True
        )
    ]
    addresses = array.axial.addresses(np.array([*itertools.product(*chunks)], np.int64))
    first, last = int(addresses.min()), int(addresses.max())
    return first, last + 1 - first


# -- selections ----------------------------------------------------------------------------------


def _parsed_read(
    array: ExtArray, selection: Any, out: Any, order: str
) -> tuple[Query, list[str] | None, bool]:
    """Parse and check the arguments of a read.

    Returns the query, a list of field names or None, and whether `out` overlaps the array.
    """
    check_destination(out, order)
    query, fields = _parsed(array, selection)
    if out is None:
        return query, fields, False
    dtype = _dtype_of(array, query, fields)
    return query, fields, check_out(array, out, (*query.shape, *dtype.shape), dtype.base)


def _parsed_write(
    array: ExtArray, selection: Any, values: Any
) -> tuple[Query, list[str] | None, Any]:
    """Parse the arguments of a write; the returned values no longer change with the array."""
    query, fields = _parsed(array, selection)
    dtype = _dtype_of(array, query, fields)
    given = values_of(array, values, dtype.base)
    check_values(query, given.shape, (*query.shape, *dtype.shape))
    return query, fields, surely_cast(given, dtype.base)


def _parsed(array: ExtArray, selection: Any) -> tuple[Query, list[str] | None]:
    """Parse a selection, and its field names if it is a list of fields."""
    rest, fields = split_names(selection, array.dtype)
    query = as_query(rest, array.shape, array.dtype)
    if isinstance(fields, str):
        return replace(query, field=field_of(array.dtype, fields)), None
    return query, None if fields is None else list(fields)


def _dtype_of(array: ExtArray, query: Query, fields: list[str] | None) -> np.dtype[Any]:
    if fields is not None:
        return dtype_of_fields(array.dtype, fields)
    return array.dtype if query.field is None else query.field.dtype


# -- zones and blocks ----------------------------------------------------------------------------


def extents_together(ranges: _Ranges) -> tuple[int, ...]:
    """Return the total extents of zones whose ranges of each axis lie side by side."""
    return tuple(sum(r.stop - r.start for r in some) for some in ranges)


def _check_local(ranges: _Ranges, local: Any) -> NDArray[Any]:
    """Return the elements of zones, one zone after the other; raise if they do not fit."""
    values, size = np.asarray(local), math.prod(extents_together(ranges))
    if values.shape != (size,):
        raise ShapeError(
            f"local data have shape {values.shape}, but the zones of this rank have {size} "
            f"elements in total: ({size},) is needed"
        )
    return values


def _in_turn(ranges: _Ranges) -> Iterator[tuple[slice, Zone]]:
    """Yield each zone's place in a 1-D array, and among ranges placed side by side."""
    sides = []
    for some in ranges:
        ends = list(itertools.accumulate((r.stop - r.start for r in some), initial=0))
        sides.append([slice(a, z) for a, z in itertools.pairwise(ends)])
    start = 0
    for box in itertools.product(*sides):
        stop = start + math.prod(extents(box))
        yield slice(start, stop), box
        start = stop


def _box_query(box: Zone) -> Query:
    """Make the query of a box of elements, inside the bounds or not."""
    shape = extents(box)
    factors = [
        Progression(j, s.start, 1, n, j) for j, (s, n) in enumerate(zip(box, shape, strict=True))
    ]
    return Query(shape, shape, tuple(factors))


def _cast_blocks(
    array: ExtArray, parts: list[tuple[Zone, Zone]], values: Any
) -> Iterator[tuple[Zone, NDArray[Any]]]:
    """Yield boxes of an array and their values, in blocks that fit into memory."""
    limit = config.max_memory // 2
    for box, place in parts:
        own = grain(values, array.chunks)
        for part in tiles(extents(box), own, array.itemsize, limit=limit, split=False):
            block = values[_within(part, place)]
            if not isinstance(block, np.ndarray):
                block = np.asarray(block)
            if block.shape != (wanted := extents(part)):
                raise ShapeError(
                    f"the data returned shape {block.shape} for a block of shape {wanted}"
                )
            check_kind(array, block)
            block = unmasked(block, array.dtype, array.fill_value)
            yield _within(part, box), block.astype(array.dtype, casting="same_kind", copy=False)


def _within(part: Zone, box: Zone) -> Zone:
    """Move a part of a box to the place of the box."""
    return tuple(slice(b.start + p.start, b.start + p.stop) for p, b in zip(part, box, strict=True))
