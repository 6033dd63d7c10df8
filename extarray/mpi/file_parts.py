"""The parts of a transfer between a file and memory, in the order of the file.

A selection of integers and slices moves as boxes, cut into parts of one chunk each (`Parts` of the
core).  Other selections, fields of records, and chunks in an order without strides move as lists of
elements.  Both kinds list runs of bytes for a file type, and copy elements to and from a staging
buffer.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from extarray._core._parts import Parts
from extarray.common.errors import BoundsError
from extarray.common.limits import limits
from extarray.grid.chunking import place_of
from extarray.grid.order import has_strides, positions, slow_to_fast
from extarray.mpi.patches import Hyperslab
from extarray.selection.factors import Points, Progression
from extarray.selection.masks import MaskFactor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray.selection.query import Query

__all__ = ["FileLayout", "FileParts", "Job", "box_jobs", "query_jobs"]

# Results larger than the caches.
_STREAM_BYTES = 1 << 23


class FileParts(Protocol):
    """The parts of a transfer, in increasing order in the file."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Byte offset in the file of each part, which lies in one chunk."""

    @property
    def nbytes(self) -> NDArray[np.int64]:
        """Bytes of each part in the staging buffer."""

    @property
    def n_runs(self) -> NDArray[np.int64]:
        """Number of runs of bytes of each part in the file."""

    def runs(self, first: int, stop: int) -> tuple[list[int], list[int]]:
        """Return byte lengths and rising displacements of the runs of parts first ... stop - 1."""

    def move(
        self,
        first: int,
        stop: int,
        buffer: NDArray[np.uint8],
        values: NDArray[Any],
        write: bool,
        stream: bool,
    ) -> None:
        """Move elements of parts first ... stop - 1 between the buffer and memory.

        To the buffer if `write`, else from it; `stream` stores past the caches.
        """


@dataclass(frozen=True)
class Job:
    """Parts of a file, the user's memory, and a call for the end."""

    parts: FileParts
    values: NDArray[Any]
    write: bool
    finish: Callable[[], None] | None = None

    def move(self, first: int, stop: int, buffer: NDArray[np.uint8]) -> None:
        """Move some parts between the buffer and memory."""
        stream = not self.write and self.values.nbytes >= _STREAM_BYTES
        self.parts.move(first, stop, buffer, self.values, self.write, stream)


@dataclass(frozen=True)
class FileLayout:
    """Places of an array's elements in its file.

    Index 0 of the array is at `offset` in the grid of `axial`.  Chunks larger than `stage` bytes
    are cut.
    """

    axial: Axial
    chunks: tuple[int, ...]
    offset: tuple[int, ...]
    order: str
    itemsize: int
    stage: int

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk."""
        return self.itemsize * math.prod(self.chunks)

    @property
    def slow_to_fast(self) -> tuple[int, ...]:
        """Axes by decreasing stride in a chunk."""
        return slow_to_fast(self.order, len(self.chunks))

    @property
    def strides(self) -> list[int]:
        """Bytes between neighbours along each axis of a chunk, if its order has strides."""
        strides, size = [0] * len(self.chunks), self.itemsize
        for j in reversed(self.slow_to_fast):
            strides[j] = size
            size *= self.chunks[j]
        return strides


# -- boxes ---------------------------------------------------------------------------------------


def box_jobs(
    layout: FileLayout, ranges: Sequence[Sequence[range]], values: NDArray[Any], write: bool
) -> Iterator[Job]:
    """Yield jobs that move a box, if the order of elements has strides.

    Each axis has ranges with one positive step, consecutive in memory; `values` has one axis for
    each of the array.
    """
    if values.size == 0:
        return
    tile = _tile(layout)
    axes = [
        _pieces(list(some), b, c, t)
        for some, b, c, t in zip(ranges, layout.offset, layout.chunks, tile, strict=True)
    ]
    # With a step larger than the chunk, every part has one element.
    steps = [
        some[0].step if some[0].step < c else 1
        for some, c in zip(ranges, layout.chunks, strict=True)
    ]
    for box in _halved([(0, len(pieces.first)) for pieces in axes]):
        yield Job(_parts(layout, axes, steps, box, gaps=not write), values, write)  # I9


class _Pieces(NamedTuple):
    """The pieces into which chunks, and the tiles in them, cut an axis."""

    first: NDArray[np.int64]  # element of the grid
    position: NDArray[np.int64]  # in the selection
    extent: NDArray[np.int64]


def _tile(layout: FileLayout) -> list[int]:
    """Return the extents of the part of a chunk that the staging buffer holds at once."""
    tile, strides = list(layout.chunks), layout.strides
    if layout.chunk_bytes > layout.stage:
        for j in layout.slow_to_fast:
            tile[j] = max(1, min(tile[j], layout.stage // strides[j]))
            if tile[j] > 1:
                break
    return tile


def _pieces(ranges: list[range], offset: int, chunk: int, tile: int) -> _Pieces:
    """Cut ranges of an axis at chunks, and at the tiles in them."""
    found, done = [], 0
    for some in ranges:
        first, step, n = some.start + offset, some.step, len(some)
        if step >= chunk or n <= 1:
            at = np.arange(n)
        else:
            last = first + (n - 1) * step
            starts = np.arange(first // chunk, last // chunk + 1)[:, None] * chunk
            edges = (starts + np.arange(0, chunk, tile)).ravel()
            # The first element at or after each edge.
            at = np.unique(np.clip(-((first - edges) // step), 0, n))
            at = at[at < n]
        found.append(_Pieces(first + at * step, done + at, np.diff(at, append=n).astype(np.int64)))
        done += n
    return _Pieces(*map(np.concatenate, zip(*found, strict=True)))


def _halved(box: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Halve a box until each part has few enough pieces to plan at once, and yield the parts."""
    if math.prod(stop - start for start, stop in box) <= limits.parts_at_once:
        yield box
        return
    j = max(range(len(box)), key=lambda i: box[i][1] - box[i][0])
    start, stop = box[j]
    middle = (start + stop) // 2
    for half in ((start, middle), (middle, stop)):
        yield from _halved([*box[:j], half, *box[j + 1 :]])


def _parts(
    layout: FileLayout,
    axes: list[_Pieces],
    steps: list[int],
    box: list[tuple[int, int]],
    gaps: bool,
) -> Parts:
    """Return the parts of a box of pieces, in the order of the file."""
    ndim = len(axes)
    firsts = [pieces.first[a:z] for pieces, (a, z) in zip(axes, box, strict=True)]
    chunk = [first // c for first, c in zip(firsts, layout.chunks, strict=True)]
    offsets = place_of(layout.axial.addresses(_product(chunk)), layout.chunk_bytes)
    inner = np.zeros([len(first) for first in firsts], np.int64)
    for j, (first, c, stride) in enumerate(zip(firsts, layout.chunks, layout.strides, strict=True)):
        inner += _along(first % c * stride, j, ndim)
    offsets += inner.ravel()
    order = np.argsort(offsets, kind="stable")
    pieces = np.empty((len(order), ndim), np.int32)
    for j, places in enumerate(np.unravel_index(order, inner.shape) if ndim else ()):
        pieces[:, j] = places + box[j][0]
    return Parts(
        offsets[order],
        pieces,
        _table([pieces.extent for pieces in axes]),
        _table([pieces.position for pieces in axes]),
        [step * stride for step, stride in zip(steps, layout.strides, strict=True)],
        layout.slow_to_fast[::-1],
        layout.itemsize,
        gaps,
    )


def _product(columns: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the rows of the outer product of columns, in C order."""
    shape = [len(column) for column in columns]
    rows = np.empty((*shape, len(columns)), np.int64)
    for j, column in enumerate(columns):
        rows[..., j] = _along(column, j, len(columns))
    return rows.reshape(math.prod(shape), len(columns))


def _along(values: NDArray[Any], axis: int, ndim: int) -> NDArray[Any]:
    """Reshape one-dimensional values to lie along one of `ndim` axes."""
    return values.reshape([-1 if j == axis else 1 for j in range(ndim)])


def _table(columns: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return columns of different lengths as the rows of an array."""
    longest = max(map(len, columns), default=0)
    table = np.zeros((len(columns), longest), np.int64)
    for row, column in zip(table, columns, strict=True):
        row[: len(column)] = column
    return table


# -- queries -------------------------------------------------------------------------------------


def query_jobs(
    layout: FileLayout, query: Query, values: NDArray[Any], write: bool
) -> Iterator[Job]:
    """Yield jobs that move a query's elements; `values` has its shape and an element's."""
    if query.size == 0:
        return
    if query.is_box and query.field is None and has_strides(layout.order):
        slab = Hyperslab.of_query(query)
        # A view: only axes of one element come or go.
        block = values.reshape((*slab.extents, *values.shape[len(slab.shape) :]))
        forwards: tuple[Any, ...] = (*slab.flips, ...)
        yield from box_jobs(layout, [[some] for some in slab.ranges], block[forwards], write)
        return
    for part, piece in _split(query):
        inner: tuple[Any, ...] = (*part, ...)
        if piece.size:
            yield _listed(layout, piece, values[inner], write)


def _split(query: Query) -> Iterator[tuple[tuple[slice, ...], Query]]:
    """Yield parts of a query small enough to list at once, and their places in it."""
    whole = tuple(slice(0, n) for n in query.shape)
    if query.size > limits.elements_at_once:
        is_split = False
        ones = (1,) * len(query.extents)  # parts may meet inside chunks
        for part, piece in query.split(limits.elements_at_once / query.size, ones, False):
            is_split = True
            for inner, smaller in _split(piece):
                outer = tuple(
                    slice((p.start or 0) + i.start, (p.start or 0) + i.stop)
                    for p, i in itertools.zip_longest(part, inner, fillvalue=slice(None))
                )
                yield outer, smaller
        if is_split:
            return
    yield whole, query


def _listed(layout: FileLayout, query: Query, values: NDArray[Any], write: bool) -> Job:
    """Make a job of a list of elements."""
    block = np.ascontiguousarray(values)
    size = layout.itemsize if query.field is None else query.field.dtype.itemsize
    rows = block.reshape(-1).view(np.uint8).reshape(query.size, size)

    def finish() -> None:
        values[...] = block

    is_copy = not np.may_share_memory(block, values)
    parts = _ElementParts(_places(layout, query), size)
    return Job(parts, rows, write, finish if is_copy and not write else None)


def _places(layout: FileLayout, query: Query) -> NDArray[np.int64]:
    """Return the byte offset in the file of each element of a query, in C order of its shape."""
    n_dims, ndim = len(query.shape), len(layout.chunks)
    chunk = np.empty((*query.shape, ndim), np.int64)
    inner = np.zeros(query.shape, np.int64)
    steps = _inner_steps(layout)
    for factor in query.factors:
        for axis, indices in _indices(factor, query.extents, n_dims):
            at = indices + layout.offset[axis]
            chunk[..., axis] = at // layout.chunks[axis]
            inner += at % layout.chunks[axis] * steps[axis]
    if not has_strides(layout.order):
        inner = positions(layout.chunks, layout.order)[inner] * layout.itemsize
    addresses = layout.axial.addresses(chunk.reshape(query.size, ndim))
    field = 0 if query.field is None else query.field.offset
    return place_of(addresses, layout.chunk_bytes) + inner.reshape(-1) + field


def _inner_steps(layout: FileLayout) -> list[int]:
    """Return the addend of one index along each axis to an element's place in its chunk."""
    if has_strides(layout.order):
        return layout.strides
    # A table of positions counts elements in C order.
    return [math.prod(layout.chunks[j + 1 :]) for j in range(len(layout.chunks))]


def _indices(
    factor: Any, extents: tuple[int, ...], n_dims: int
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the axes that a factor selects from, with indices that broadcast to the result."""
    shape = [1] * n_dims
    if isinstance(factor, Progression):
        if factor.dims:
            shape[factor.dim] = factor.count
        places = factor.start + factor.step * np.arange(factor.count, dtype=np.int64)
        yield factor.axis, places.reshape(shape)
    elif isinstance(factor, Points):
        for axis, indices in zip(factor.axes, factor.indices, strict=True):
            for dim, n in zip(factor.dims, indices.shape, strict=True):
                shape[dim] = n
            n = extents[axis]
            # Parsing checked the bounds, but others may have changed the indices since.
            if ((indices < -n) | (indices >= n)).any():
                raise BoundsError(f"indices have moved out of bounds for axis {axis} with size {n}")
            # The dimensions of arrays stand side by side, in order.
            yield axis, np.where(indices < 0, indices + n, indices).reshape(shape)
    else:
        assert isinstance(factor, MaskFactor)
        shape[factor.dim] = factor.count
        for axis, places in zip(factor.axes, factor.nonzero(), strict=True):
            yield axis, places.reshape(shape)


class _ElementParts:
    """The parts of a list of elements in any order, with repetitions: one part per element."""

    def __init__(self, places: NDArray[np.int64], size: int) -> None:
        self._order = np.argsort(places, kind="stable")
        self._places, self._starts = np.unique(places[self._order], return_index=True)
        self._ends = np.append(self._starts[1:], len(places))
        self._size = size
        self.offsets = self._places
        self.nbytes = np.full(len(self._places), size, np.int64)
        self.n_runs = np.ones(len(self._places), np.int64)

    def runs(self, first: int, stop: int) -> tuple[list[int], list[int]]:
        """Return lengths and displacements of the runs of some elements."""
        places = self._places[first:stop]
        starts = np.flatnonzero(np.diff(places, prepend=-1 - self._size) != self._size)
        lengths = np.diff(starts, append=len(places)) * self._size
        return lengths.tolist(), places[starts].tolist()

    def move(
        self,
        first: int,
        stop: int,
        buffer: NDArray[np.uint8],
        values: NDArray[Any],
        write: bool,
        stream: bool,
    ) -> None:
        """Move some elements between the buffer and the rows of `values`."""
        rows = buffer[: (stop - first) * self._size].reshape(stop - first, self._size)
        if first == stop:
            return
        if write:
            # The last of several values for one element stays: sorting was stable.
            rows[...] = values[self._order[self._ends[first:stop] - 1]]
        else:
            start, end = self._starts[first], self._ends[stop - 1]
            counts = self._ends[first:stop] - self._starts[first:stop]
            values[self._order[start:end]] = rows.repeat(counts, axis=0)
