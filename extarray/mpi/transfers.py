"""What a rank reads or writes: jobs on the file, and what is left to do at the end."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from extarray.common.config import config
from extarray.common.errors import ArgumentError, ArgumentTypeError, ShapeError
from extarray.grid.chunking import grain
from extarray.grid.tiles import tiles
from extarray.mpi.plans import Layout, Range, box_jobs, query_jobs
from extarray.mpi.values import surely_cast
from extarray.selection.brackets import as_query
from extarray.selection.factors import Progression
from extarray.selection.fields import dtype_of_fields, field_of, names_of
from extarray.selection.query import Query
from extarray.selection.transfers import check_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from extarray.array.array import ExtArray
    from extarray.mpi.plans import Job
    from extarray.mpi.zones import Zone

    class Staged(ExtArray):
        """Array that knows how many bytes are staged at once: a `ParallelArray`."""

        _stage: int


__all__ = [
    "Transfer",
    "cast_blocks",
    "check_local",
    "filling",
    "in_turn",
    "parsed_read",
    "parsed_write",
    "reading",
    "reading_zones",
    "size_of",
    "writing",
    "writing_zones",
]


@dataclass(frozen=True)
class Transfer:
    """What one rank moves.

    Attributes
    ----------
    jobs : iterator of Job
    write : bool
    finish : callable
        Called when all jobs are done; returns the result.
    """

    jobs: Iterator[Job]
    write: bool
    finish: Callable[[], Any] = lambda: None


def layout_of(array: Staged) -> Layout:
    """Where the elements of an array are, as its indices count now.

    Parameters
    ----------
    array : Staged

    Returns
    -------
    Layout
        Also of chunks that a growth has allocated which has not been committed.
    """
    axial = array.axial
    starts = axial._mark()[2]  # chunks that the axes have grown at their starts
    offset = [n * c - o for n, c, o in zip(starts, array.chunks, array.origin, strict=True)]
    return Layout(axial, array.chunks, tuple(offset), array.order, array.itemsize, array._stage)


def reading(
    array: Staged, selection: Any, out: NDArray[Any] | None, order: Literal["C", "F"]
) -> Transfer:
    """The transfer of ``array.read(selection, out, order)``.

    Parameters
    ----------
    array : Staged
    selection : index expression
    out : ndarray or None
    order : {"C", "F"}

    Returns
    -------
    Transfer
    """
    query, fields = parsed_read(array, selection, out, order)
    dtype = array.dtype if query.field is None else query.field.dtype
    result = out
    is_direct = out is not None and out.dtype == dtype.base and not array._overlaps(out)
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

    return Transfer(query_jobs(layout_of(array), query, target, False), False, finish)


def writing(array: Staged, selection: Any, values: Any) -> Transfer:
    """The transfer of ``array.write(selection, values)``.

    Parameters
    ----------
    array : Staged
    selection : index expression
    values : array_like

    Returns
    -------
    Transfer
    """
    query, fields, given = parsed_write(array, selection, values)
    layout = layout_of(array)
    if fields is None:
        block = _broadcast(array, query, given)
        return Transfer(query_jobs(layout, query, block, True), True)
    records = np.empty(query.shape, dtype_of_fields(array.dtype, fields))
    records[...] = np.asarray(given)
    queries = [(replace(query, field=field_of(array.dtype, name)), name) for name in fields]
    jobs = (query_jobs(layout, q, np.ascontiguousarray(records[name]), True) for q, name in queries)
    return Transfer(itertools.chain.from_iterable(jobs), True)


def parsed_read(
    array: Staged, selection: Any, out: Any, order: str
) -> tuple[Query, list[str] | None]:
    """What a read is of: raises where it is not possible.

    Parameters
    ----------
    array, selection, out, order
        As for `reading`.

    Returns
    -------
    query : Query
    fields : list of str or None
        Where the selection is a list of fields.
    """
    if order not in ("C", "F"):
        raise ArgumentError(f"order {order!r} is not possible for a result; use 'C' or 'F'")
    if out is not None and not isinstance(out, np.ndarray):
        raise ArgumentTypeError(f"out must be a NumPy array, not {type(out).__name__}")
    query, fields = _parsed(array, selection)
    if out is not None:
        dtype = _dtype_of(array, query, fields)
        array._check_out(out, (*query.shape, *dtype.shape), dtype.base)
    return query, fields


def parsed_write(array: Staged, selection: Any, values: Any) -> tuple[Query, list[str] | None, Any]:
    """What a write is of: raises where it is not possible.

    Parameters
    ----------
    array, selection, values
        As for `writing`.

    Returns
    -------
    query : Query
    fields : list of str or None
        Where the selection is a list of fields.
    values : ndarray, or an array of ours
        They stay as they are while the array is written.
    """
    query, fields = _parsed(array, selection)
    dtype = _dtype_of(array, query, fields)
    given = array._as_values(values, dtype.base)
    check_values(query, given.shape, (*query.shape, *dtype.shape))
    return query, fields, surely_cast(given, dtype.base)


def _parsed(array: Staged, selection: Any) -> tuple[Query, list[str] | None]:
    """A selection as a query, and the names where it is a list of fields."""
    fields = names_of(selection, array.dtype)
    query = as_query(selection if fields is None else ..., array.shape, array.dtype)
    if isinstance(fields, str):
        return replace(query, field=field_of(array.dtype, fields)), None
    return query, None if fields is None else list(fields)


def _dtype_of(array: Staged, query: Query, fields: list[str] | None) -> np.dtype[Any]:
    if fields is not None:
        return dtype_of_fields(array.dtype, fields)
    return array.dtype if query.field is None else query.field.dtype


def _broadcast(array: Staged, query: Query, given: Any) -> NDArray[Any]:
    """Values of the dtype that is stored, broadcast to a query."""
    dtype = array.dtype if query.field is None else query.field.dtype
    shape = (*query.shape, *dtype.shape)
    block = np.asarray(given)
    while block.ndim > len(shape):
        block = block[0]  # NumPy, too, lets leading axes of length 1 go
    if block.dtype != dtype.base:
        cast = np.empty(block.shape, dtype.base)
        cast[...] = block
        block = cast
    return np.broadcast_to(block, shape)


# -- zones ---------------------------------------------------------------------------------------


def reading_zones(
    array: Staged,
    ranges: list[list[slice]],
    out: NDArray[Any] | None,
) -> Transfer:
    """The transfer of the zones of a rank to a 1-D array.

    Parameters
    ----------
    array : Staged
    ranges : list of list of slice
        What the rank has of each axis; the zones are the outer product.
    out : ndarray or None

    Returns
    -------
    Transfer
    """
    size = size_of(ranges)
    if out is not None:
        array._check_out(out, (size,), array.dtype)
    local = np.empty(size, array.dtype) if out is None or array._overlaps(out) else out
    jobs, staged = _zones(array, ranges, False)

    def finish() -> NDArray[Any]:
        for place, box in in_turn(ranges):
            local[place] = staged[box].reshape(-1)
        if out is None or out is local:
            return local
        out[...] = local
        return out

    return Transfer(jobs, False, finish)


def writing_zones(array: Staged, ranges: list[list[slice]], local: Any) -> Transfer:
    """The transfer of a 1-D array to the zones of a rank.

    Parameters
    ----------
    array : Staged
    ranges : list of list of slice
        What the rank has of each axis, as `array` counts elements; it need not have them yet.
    local : array_like

    Returns
    -------
    Transfer
    """
    values = check_local(ranges, local)
    jobs, staged = _zones(array, ranges, True)
    for place, box in in_turn(ranges):
        staged[box] = values[place].reshape(staged[box].shape)
    return Transfer(jobs, True)


def size_of(ranges: list[list[slice]]) -> int:
    """Elements of the zones that are the outer product of ranges.

    Parameters
    ----------
    ranges : list of list of slice

    Returns
    -------
    int
    """
    return math.prod(sum(r.stop - r.start for r in some) for some in ranges)


def check_local(ranges: list[list[slice]], local: Any) -> NDArray[Any]:
    """The elements of zones, one zone after the other.

    Parameters
    ----------
    ranges : list of list of slice
    local : array_like

    Returns
    -------
    ndarray
        1-D.

    Raises
    ------
    ShapeError
        A ValueError: not of the right shape.
    """
    values, size = np.asarray(local), size_of(ranges)
    if values.shape != (size,):
        raise ShapeError(
            f"local data of shape {values.shape} do not fit: the zones of this rank have {size} "
            f"elements together, ({size},) is needed"
        )
    return values


def _zones(
    array: Staged, ranges: list[list[slice]], write: bool
) -> tuple[Iterator[Job], NDArray[Any]]:
    """Jobs between zones and an array that has the ranges of each axis side by side."""
    extents = [sum(r.stop - r.start for r in some) for some in ranges]
    staged = np.empty(extents, array.dtype)
    layout = layout_of(array)
    if array.order in "CF":
        steps = [[Range(r.start, 1, r.stop - r.start) for r in some] for some in ranges]
        return box_jobs(layout, steps, staged, write), staged
    boxes = zip(itertools.product(*ranges), in_turn(ranges), strict=True)
    jobs = (query_jobs(layout, box_query(zone), staged[at], write) for zone, (_, at) in boxes)
    return itertools.chain.from_iterable(jobs), staged


def in_turn(ranges: list[list[slice]]) -> Iterator[tuple[slice, Zone]]:
    """Where each zone is in a 1-D array, and where with the ranges of each axis side by side.

    Parameters
    ----------
    ranges : list of list of slice

    Yields
    ------
    place : slice
    box : tuple of slice
    """
    sides = []
    for some in ranges:
        ends = list(itertools.accumulate((r.stop - r.start for r in some), initial=0))
        sides.append([slice(a, z) for a, z in itertools.pairwise(ends)])
    start = 0
    for box in itertools.product(*sides):
        stop = start + math.prod(s.stop - s.start for s in box)
        yield slice(start, stop), box
        start = stop


# -- growth --------------------------------------------------------------------------------------


def box_query(box: Zone) -> Query:
    """The query of a box of elements, inside the bounds or not.

    Parameters
    ----------
    box : tuple of slice

    Returns
    -------
    Query
    """
    shape = tuple(s.stop - s.start for s in box)
    factors = [Progression(j, s.start, 1, s.stop - s.start, j) for j, s in enumerate(box)]
    return Query(shape, shape, tuple(factors))


def filling(array: Staged, parts: list[tuple[Zone, Zone]], values: Any) -> Transfer:
    """The transfer of parts of what is appended, to allocated elements.

    Parameters
    ----------
    array : Staged
    parts : list of (tuple of slice, tuple of slice)
        Boxes of elements, as the array counts them before it has grown, and of `values`.
    values : ndarray, or any object with ``shape``, ``dtype`` and slicing
        Read in blocks of at most ``config.max_memory`` bytes.

    Returns
    -------
    Transfer
    """
    layout = layout_of(array)
    jobs = (
        query_jobs(layout, box_query(box), block, True)
        for box, block in cast_blocks(array, parts, values)
    )
    return Transfer(itertools.chain.from_iterable(jobs), True)


def cast_blocks(
    array: Staged, parts: list[tuple[Zone, Zone]], values: Any
) -> Iterator[tuple[Zone, NDArray[Any]]]:
    """Parts of values, in blocks that memory has room for, of the dtype of an array.

    Parameters
    ----------
    array, parts, values
        As for `filling`.

    Yields
    ------
    box : tuple of slice
        Of the array.
    block : ndarray
    """
    limit = config.max_memory // 2
    for box, place in parts:
        extents = [s.stop - s.start for s in box]
        own = grain(values, array.chunks)
        for part in tiles(extents, own, array.itemsize, limit=limit, split=False):
            block = np.asarray(values[_shifted(part, place)])
            wanted = tuple(s.stop - s.start for s in part)
            if block.shape != wanted:
                raise ShapeError(f"the data gave shape {block.shape} for a block of {wanted}")
            yield (
                _shifted(part, box),
                block.astype(array.dtype, casting="same_kind", copy=False),
            )


def _shifted(part: Zone, box: Zone) -> Zone:
    """A part of a box, counted as the box is."""
    return tuple(slice(b.start + p.start, b.start + p.stop) for p, b in zip(part, box, strict=True))
