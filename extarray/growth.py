"""Growth and shrinking: room first, then data, then one commit, and last what the commit freed.

Bounds are boxes here, ``low ... high - 1``, as elements are counted before the change: `low` is
negative where an axis grows at its start, positive where it shrinks there.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex

import numpy as np

from extarray._core._array import ArrayCore
from extarray.chunking import blocks, check_shape, grain
from extarray.config import config
from extarray.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    CastingError,
    LimitError,
    ShapeError,
)
from extarray.stored import StoredArray
from extarray.walk import address_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import ArrayLike


__all__ = ["LIMIT", "Extendible", "as_source"]

# Bytes of all chunks; file offsets are signed, and a little follows the last chunk.
LIMIT = 2**63 - 4096

Side = Literal["end", "start"]
Index = tuple[int, ...]


class Extendible(StoredArray):
    """An array whose bounds move."""

    __slots__ = ()

    _filling: bool

    if TYPE_CHECKING:

        def _attach_store(self) -> None: ...

    # -- growth ------------------------------------------------------------------------------

    def extend(self, axis: SupportsIndex, by: SupportsIndex, side: Side = "end") -> None:
        """Grow an axis; the new elements have the fill value.

        Parameters
        ----------
        axis : int
            In [-ndim, ndim).
        by : int
            Elements, at least 0.
        side : {"end", "start"}
            Where the new elements come: behind the last index, or before index 0, which shifts the
            indices of all that there are.

        Raises
        ------
        AxisError, ArgumentError, ArgumentTypeError, LimitError
            No such axis, negative, no int, beyond 2**63.
        ReadOnlyError, ClosedError
        StorageError, ReserveError
            No room (an OSError; a MemoryError in memory).  The array is as before.

        Notes
        -----
        The cost does not depend on the size of the array: nothing moves, at either side.  A growth
        inside the last (or first) chunk of the axis only changes the bounds.  A growth into what
        was cut off before gives that part the fill value again.  One commit; readers see it at
        their next `refresh`.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3))
        >>> a.extend(axis=1, by=4)
        >>> a.shape
        (2, 7)
        >>> a[0] = 1
        >>> a.extend(0, 1, side="start")
        >>> a[:, 0], a.origin
        (array([0., 1., 0.]), (1, 0))
        """
        j = self._axis(axis)
        n = _count(by)
        first = _is_start(side)
        with self._growth:
            self._check("extend")
            self._rebound(*_moved(self.shape, j, n, first))

    def append(self, data: ArrayLike, axis: SupportsIndex = 0, side: Side = "end") -> None:
        """Grow an axis by data.

        Parameters
        ----------
        data : array_like
            Of the array's rank, and of its extents on all other axes; cast by the rule
            ``same_kind``.  Objects with ``shape``, ``dtype`` and slicing (h5py, zarr, dask, ...)
            are read in blocks of at most ``config.max_memory`` bytes.
        axis : int
            In [-ndim, ndim).
        side : {"end", "start"}
            Where the data come: behind the last index, or before index 0.

        Raises
        ------
        ShapeError
            A ValueError: the shape of `data` does not fit.
        CastingError
            A TypeError: `data` cannot be cast.
        ReadOnlyError, ClosedError, AxisError, LimitError, StorageError, ReserveError
            As for `extend`.

        Notes
        -----
        The elements are written first, and the bounds committed last: no reader and no crash ever
        sees half an append.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[1, 2], [3, 4]])
        >>> a.append([[5], [6]], axis=1)
        >>> a.append([[7, 8, 9]], side="start")
        >>> a[...]
        array([[7, 8, 9],
               [1, 2, 5],
               [3, 4, 6]])
        """
        # Conversions may run any code, also code that closes this array: they come first.
        j = self._axis(axis)
        first = _is_start(side)
        values = as_source(data)
        with self._growth:
            self._check("append to")
            self._check_slab(values, j)
            self._rebound(*_moved(self.shape, j, values.shape[j], first), values)

    def _check_slab(self, values: Any, axis: int) -> None:
        """Raise where values, as `as_source` gives them, cannot be appended along an axis."""
        shape, given = self.shape, tuple(values.shape)
        if len(given) != self.ndim or any(
            n != m for i, (n, m) in enumerate(zip(given, shape, strict=True)) if i != axis
        ):
            wanted = (*shape[:axis], "n", *shape[axis + 1 :])
            raise ShapeError(
                f"cannot append data of shape {given} along axis {axis} of an array of shape "
                f"{shape}: ({', '.join(map(str, wanted))}{',' if self.ndim == 1 else ''}) is needed"
            )
        if not np.can_cast(values.dtype, self.dtype, "same_kind"):
            raise CastingError(
                f"cannot append {values.dtype} to an array of {self.dtype} by the rule "
                "'same_kind'; cast it first, with astype"
            )

    def resize(
        self, shape: SupportsIndex | Sequence[SupportsIndex], axis: SupportsIndex | None = None
    ) -> None:
        """Grow or shrink several axes at their ends as one commit, or one axis.

        Parameters
        ----------
        shape : int or sequence of int
            New extent of each axis.
        axis : int, optional
            The axis, in [-ndim, ndim), that `shape` is the new extent of; as in h5py.

        Raises
        ------
        ShapeError
            A ValueError: wrong number of axes.
        AxisError, ReadOnlyError, ClosedError, LimitError, StorageError, ReserveError
            As for `extend`.

        Notes
        -----
        Axes grow in the order 0 ... k - 1.  What is cut off is lost, see `shrink`.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3))
        >>> a.resize((4, 1))
        >>> a.resize(6, axis=0)
        >>> a.shape
        (6, 1)
        """
        new = check_shape(shape)
        j = None if axis is None else self._axis(axis)
        if j is not None and len(new) != 1:
            raise ShapeError(f"cannot resize axis {j} to {new}: give one extent")
        with self._growth:
            self._check("resize")
            old = self.shape
            if j is not None:
                new = (*old[:j], *new, *old[j + 1 :])
            if len(new) != len(old):
                raise ShapeError(f"cannot resize {old} to {new}: the array has {len(old)} axes")
            self._rebound(None, new, cuts=any(map(operator.lt, new, old)))

    def shrink(self, axis: SupportsIndex, by: SupportsIndex, side: Side = "end") -> None:
        """Cut elements off an axis.

        Parameters
        ----------
        axis : int
            In [-ndim, ndim).
        by : int
            Elements, in [0, extent].
        side : {"end", "start"}
            Which are cut off: the last, or the first, which shifts the indices of the others.

        Raises
        ------
        AxisError, ArgumentError, ArgumentTypeError
            No such axis, more than there are, no int.
        ReadOnlyError, ClosedError, StorageError

        Notes
        -----
        What is cut off is lost: after a growth its place holds the fill value.  Chunks that lie
        outside the new bounds give their disk space back, where the file system can punch holes and
        the fill value is zero; the file keeps its length, and the chunks keep their addresses.  A
        reader that has not refreshed finds old elements or the fill value there.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([1, 2, 3, 4])
        >>> a.shrink(0, 1)
        >>> a.shrink(0, 1, side="start")
        >>> a[...]
        array([2, 3])
        """
        j = self._axis(axis)
        n = _count(by)
        first = _is_start(side)
        with self._growth:
            self._check("shrink")
            if n > self.shape[j]:
                raise ArgumentError(
                    f"cannot cut {n} elements off axis {j}: it has {self.shape[j]} of them"
                )
            self._rebound(*_moved(self.shape, j, -n, first), cuts=n > 0)

    def reserve(self, shape: SupportsIndex | Sequence[SupportsIndex]) -> None:
        """Make room for growth: the grid then holds a shape, and the bounds stay.

        Parameters
        ----------
        shape : int or sequence of int
            Extent of each axis up to which later growth at the ends adds no segment.  Less than the
            present one: the axis stays as it is.

        Raises
        ------
        ShapeError
            A ValueError: wrong number of axes.
        ReadOnlyError, ClosedError, LimitError, StorageError, ReserveError
            As for `extend`.

        Notes
        -----
        An array that grows by small steps along several axes in turn has a segment for each step.
        Room for many steps at once takes disk space (none in a sparse array) and saves segments.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 2), chunks=(1, 1))
        >>> a.reserve((50, 40))
        >>> for _ in range(30):
        ...     a.extend(0, 1)
        ...     a.extend(1, 1)
        >>> a.shape, a.grid, a.info()["segments"]
        ((32, 32), (50, 40), 2)
        """
        new = check_shape(shape)
        with self._growth:
            self._check("reserve room for")
            old = self.shape
            if len(new) != len(old):
                raise ShapeError(f"cannot reserve {new}: the array has {len(old)} axes")
            room = tuple(max(n, m) for n, m in zip(new, old, strict=True))
            self._rebound(None, old, room=room)

    def _axis(self, axis: SupportsIndex) -> int:
        j = _integer(axis, "axis")
        if not -self.ndim <= j < self.ndim:
            raise AxisError(j, self.ndim)
        return j % self.ndim

    # -- a change of bounds ------------------------------------------------------------------

    def _rebound(
        self,
        low: Index | None,
        high: Index,
        values: Any = None,
        room: Index | None = None,
        cuts: bool = False,
    ) -> None:
        """Give the array the bounds low ... high - 1; on an error nothing has changed.

        No `low`: the starts stay.  `values` are the elements of the only part that is new; `room`
        is what the grid shall hold; `cuts` tells that elements are cut off.
        """
        store, axial, shape = self._store, self.axial, self.shape
        if low is None and high == shape and room is None:
            return
        if self._filling:  # by what reads the data that are being appended
            raise ArgumentError(
                f"cannot change the bounds of {self._name()} in the midst of an append to it"
            )
        new_shape = high if low is None else tuple(map(operator.sub, high, low))
        new_offset = offset = store.offset
        grid = self.grid
        was_unclean = store.unclean
        change = None  # a growth at the end, the usual one, needs no more than this
        mark = axial._mark()
        old = new = axial.size * self.chunk_bytes
        try:
            rows = self._allocate(low, high if room is None else room, shape, grid, offset)
            if low is not None or was_unclean or cuts:
                change = _Change(
                    shape, offset, grid, self.chunks, low or (0,) * len(high), high, rows
                )
                new_offset = change.offset_after
            new = axial.size * self.chunk_bytes
            if new > old:
                if new >= LIMIT:
                    raise LimitError(
                        f"cannot grow to {new_shape}: its chunks would have {new} bytes, 2**63 or "
                        "nearly"
                    )
                store.reserve(old, new)
                if store.region is not self._region:
                    self._attach_store()
            if was_unclean and change is not None:
                self._expose(change, clean=values is None)
            if values is not None:
                store.begin_append()
                store.unclean = True
                self._filling = True
                self._fill_box(*_grown(low, high, shape), values)
            store.unclean = cuts or (
                was_unclean and change is not None and not change.fills(axial.grid)
            )
            store.commit(new_shape, new_offset, axial, new, cuts)
            self._set_bounds(new_shape, new_offset)
        except BaseException:
            if (store.shape, store.offset, store.grid) == (new_shape, new_offset, axial.grid):
                self._set_bounds(new_shape, new_offset)  # interrupted when all was done
                raise
            store.unclean = was_unclean or values is not None
            axial._rollback(mark)
            if LIMIT > new > old:
                store.release(old)
                self._forget_touched()
            raise
        finally:
            self._filling = False
        if cuts and change is not None:
            self._give_back(change)

    def _allocate(
        self, low: Index | None, room: Index, shape: Index, grid: Index, offset: Index
    ) -> tuple[int, ...]:
        """Grow the grid to hold elements low ... room - 1; returns the rows added at the starts."""
        axial, chunks = self.axial, self.chunks
        rows = [0] * len(room)
        for j, n in enumerate(room):
            if n <= shape[j] and low is None:
                continue
            if low is not None and low[j] + offset[j] < 0:
                rows[j] = -((low[j] + offset[j]) // chunks[j])
            more = -(-(n + offset[j]) // chunks[j]) - grid[j]
            if more > 0 or rows[j]:
                if (grid[j] + rows[j] + max(0, more)) * chunks[j] >= LIMIT:
                    raise LimitError(
                        f"cannot grow axis {j} so far: with its chunks it would have 2**63 "
                        "elements, or nearly"
                    )
                if rows[j]:
                    axial._grow(j, rows[j], "start")
                if more > 0:
                    axial._grow(j, more)
        return tuple(rows)

    def _expose(self, change: _Change, clean: bool) -> None:
        """Make ready what the old grid has of the new parts: its space, and the fill value."""
        self._store.settle()
        for start, stop in change.old_chunks_of_new_parts():
            self._store_runs(self._store.reserve_again, change.chunks_of(start, stop))
            if clean:
                self._restore_fill(start, stop)

    def _give_back(self, change: _Change) -> None:
        """Have the store give back the chunks that hold none of the new bounds."""
        boxes = list(change.chunks_cut())
        if boxes:
            self._store.settle()
            self._forget_touched()
            for box in boxes:
                self._store_runs(self._store.give_back, box)

    def _store_runs(self, call: Callable[[int, int], None], box: tuple[Index, Index]) -> None:
        """Call a method of the store for the bytes of a box of chunks."""
        for first, last in address_runs(self.axial, *box):
            call(first * self.chunk_bytes, last * self.chunk_bytes)

    def _fill_box(self, start: Index, stop: Index, values: Any) -> None:
        """Write what `as_source` gives to a box; what is no array in memory goes block by block."""
        if isinstance(values, np.ndarray):
            self._write_box(start, stop, values)
            return
        extents = [high - low for low, high in zip(start, stop, strict=True)]
        # Half: a block is there while the next one is read, and while it is cast.
        limit = config.max_memory // 2
        for part in blocks(extents, grain(values, self.chunks), self.itemsize, limit):
            block = np.asarray(values[part])
            wanted = tuple(s.stop - s.start for s in part)
            if block.shape != wanted:
                raise ShapeError(f"the data gave shape {block.shape} for a block of {wanted}")
            low = [n + s.start for n, s in zip(start, part, strict=True)]
            high = [n + s.stop for n, s in zip(start, part, strict=True)]
            self._write_box(low, high, block)

    def _restore_fill(self, start: Index, stop: Index) -> None:
        """Give the fill value back to a box of allocated elements."""
        fill = np.frombuffer(self._store.header.fill, self.dtype).reshape(())
        wanted = np.frombuffer(self._store.header.fill, np.uint8)
        extents = [high - low for low, high in zip(start, stop, strict=True)]
        for part in blocks(extents, self.chunks, self.itemsize, config.max_memory // 4):
            low = [n + s.start for n, s in zip(start, part, strict=True)]
            high = [n + s.stop for n, s in zip(start, part, strict=True)]
            block = self._read_box(low, high)
            found = block.reshape(-1).view(np.uint8).reshape(block.size, -1)
            differ = (found != wanted).any(axis=1).reshape(block.shape)
            if not differ.any():
                continue
            if not self._store.header.sparse:
                self._write_box(low, high, fill)
                continue
            # Elements that differ have disk space; holes around them may have none left.
            for row in np.argwhere(differ.any(axis=-1)):
                places = np.flatnonzero(differ[tuple(row)])
                for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
                    first = [*(row + low[:-1]), low[-1] + run[0]]
                    last = [*(row + low[:-1] + 1), low[-1] + run[-1] + 1]
                    self._write_box(first, last, fill)


class _Change(NamedTuple):
    """A change of bounds, and what it means for the grid.

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
        """Whether the new bounds are those of a grid."""
        ends = map(operator.mul, grid, self.chunks)
        extents = map(operator.sub, self.high, self.low)
        return not any(self.offset_after) and all(map(operator.eq, extents, ends))

    def new_parts(self) -> Iterator[tuple[Index, Index]]:
        """Boxes of elements that the new bounds have and the old ones have not."""
        low, high, shape = self.low, self.high, self.shape
        for j, n in enumerate(shape):
            for a, b in ((low[j], min(0, high[j])), (max(n, low[j]), high[j])):
                start = [*low[:j], a, *(max(0, m) for m in low[j + 1 :])]
                stop = [*high[:j], b, *map(min, high[j + 1 :], shape[j + 1 :])]
                if all(map(operator.lt, start, stop)):
                    yield tuple(start), tuple(stop)

    def old_chunks_of_new_parts(self) -> Iterator[tuple[Index, Index]]:
        """Boxes of elements of the new parts that the old grid has already."""
        first = [-b for b in self.offset]
        last = [g * c - b for g, c, b in zip(self.grid, self.chunks, self.offset, strict=True)]
        for start, stop in self.new_parts():
            start, stop = tuple(map(max, start, first)), tuple(map(min, stop, last))
            if all(map(operator.lt, start, stop)):
                yield start, stop

    def chunks_of(self, start: Index, stop: Index) -> tuple[Index, Index]:
        """Chunks of the new grid in which a box of elements of the old one lies."""
        first, last = [], []
        for a, z, b, c, m in zip(start, stop, self.offset, self.chunks, self.rows, strict=True):
            first.append((a + b) // c + m)
            # Bounds of extent 0 need no chunk.
            last.append(-(-(z + b) // c) + m if a < z else first[-1])
        return tuple(first), tuple(last)

    def chunks_cut(self) -> Iterator[tuple[Index, Index]]:
        """Boxes of chunks, in the new grid, that the old bounds need and the new ones do not."""
        old_first, old_last = self.chunks_of((0,) * len(self.shape), self.shape)
        first, last = self.chunks_of(self.low, self.high)
        both_first = tuple(map(max, old_first, first))
        both_last = tuple(map(min, old_last, last))
        for j in range(len(self.shape)):
            for a, z in (
                (old_first[j], min(first[j], old_last[j])),
                (max(last[j], old_first[j]), old_last[j]),
            ):
                start = (*both_first[:j], a, *old_first[j + 1 :])
                stop = (*both_last[:j], z, *old_last[j + 1 :])
                if all(map(operator.lt, start, stop)):
                    yield start, stop


def _moved(shape: Index, axis: int, by: int, at_start: bool) -> tuple[Index | None, Index]:
    """Bounds after a growth (or, negative, a cut) of one axis."""
    if not (at_start and by):
        return None, (*shape[:axis], shape[axis] + by, *shape[axis + 1 :])
    return (*(0,) * axis, -by, *(0,) * (len(shape) - axis - 1)), shape


def _grown(low: Index | None, high: Index, shape: Index) -> tuple[Index, Index]:
    """The box of elements that the growth of one axis adds."""
    if low is None:
        return tuple(n if b > n else 0 for b, n in zip(high, shape, strict=True)), high
    return low, tuple(0 if a < 0 else b for a, b in zip(low, high, strict=True))


def as_source(x: Any) -> Any:
    """What elements are read from: `x` itself where it can be sliced, else an array of it.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    ndarray, ArrayCore, or any object with ``shape``, ``dtype`` and slicing
    """
    if isinstance(x, ArrayCore):
        return x
    if isinstance(x, (np.ndarray, np.generic)) or not all(
        hasattr(x, name) for name in ("shape", "dtype", "__getitem__")
    ):
        return np.asarray(x)  # no matrix, no mask
    return x


def _is_start(side: str) -> bool:
    if side not in ("end", "start"):
        raise ArgumentError(f"side {side!r} is not possible; use 'end' or 'start'")
    return side == "start"


def _count(by: SupportsIndex) -> int:
    """A number of elements."""
    n = _integer(by, "by")
    if n < 0:
        raise ArgumentError(f"by must be at least 0, not {n}: extend grows, shrink cuts off")
    return n


def _integer(value: SupportsIndex, name: str) -> int:
    if type(value) is int:
        return value
    if isinstance(value, (bool, np.bool_)):
        raise ArgumentTypeError(f"{name} must be an int, not {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"{name} must be an int, not {value!r}") from None
