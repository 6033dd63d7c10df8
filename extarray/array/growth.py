"""Growth and shrinking: room first, then data, then one commit, and last what the commit freed."""

from __future__ import annotations

import contextlib
import itertools
import math
import mmap
import operator
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from extarray.array.base import StoredArray
from extarray.array.resizing import Change, count, grown, is_start, moved, outside
from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    CastingError,
    LimitError,
    ReserveError,
    ShapeError,
    StorageError,
)
from extarray.common.masked_arrays import unmasked
from extarray.format.constants import LIMIT
from extarray.grid.address_runs import address_runs, count_runs, runs_between, runs_together
from extarray.grid.chunking import check_shape, grain
from extarray.grid.policy import decode_policy
from extarray.grid.tiles import tiles
from extarray.streaming.blocks import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from extarray.array.resizing import Index, Side

    Box = tuple[Index, Index]
    Runs = tuple[NDArray[np.int64], NDArray[np.int64]]  # the last is not one of a run


__all__ = ["Extendible", "as_source"]

# Kinds of types that elements of lists become, by their kinds.
_TAKEN = {**dict.fromkeys("biu", "biufc"), **dict.fromkeys("US", "USmM"), "O": "mM"}
# Chunks on either side of what is cut off.
LOOKED_AT = 1 << 12
# More chunks than so many are gone through piece by piece, or not one by one at all.
MANY = 1 << 16


class Extendible(StoredArray):
    """An array whose bounds move."""

    __slots__ = ()

    _filling: bool

    if TYPE_CHECKING:

        def _attach_store(self) -> None: ...

        def _place_elements(self) -> None: ...

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
        n = count(by)
        first = is_start(side)
        with self._growth:
            self._check("extend")
            self._rebound(*moved(self.shape, j, n, first))

    def append(self, data: ArrayLike, axis: SupportsIndex = 0, side: Side = "end") -> None:
        """Grow an axis by data.

        Parameters
        ----------
        data : array_like
            Of the array's rank, and of its extents on all other axes; cast by the rule
            ``same_kind``; what is masked gets the fill value.  Objects with ``shape``, ``dtype``
            and slicing (h5py, zarr, dask, ...) are read in blocks of at most ``config.max_memory``
            bytes.
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
        first = is_start(side)
        values = as_source(data, self.dtype, lambda: self.fill_value)
        with self._growth:
            self._check("append to")
            by = self._length_of(values, j)
            self._rebound(*moved(self.shape, j, by, first), values)

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
        outside the new bounds give their disk space back, where the file system can punch holes;
        the file keeps its length, and the chunks keep their addresses.  A reader that has not
        refreshed finds old elements or the fill value there.  (Where that is not zero, each of its
        reads looks whether something was cut off meanwhile; views of `chunk` cannot.)

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
        n = count(by)
        first = is_start(side)
        with self._growth:
            self._check("shrink")
            if n > self.shape[j]:
                raise ArgumentError(
                    f"cannot cut {n} elements off axis {j}: it has {self.shape[j]} of them"
                )
            self._rebound(*moved(self.shape, j, -n, first), cuts=n > 0)

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
        Room for many steps at once saves segments, and takes disk space (in a sparse array only
        where the fill value is not zero).

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
            self._rebound(None, old, room=(None, room))

    def _length_of(self, values: Any, axis: int) -> int:
        """Extent along an axis of what `as_source` gives, where it can be appended there."""
        shape = self.shape
        given = tuple(values.shape)
        if len(given) != len(shape) or any(
            n != m for i, (n, m) in enumerate(zip(given, shape, strict=True)) if i != axis
        ):
            wanted = (*shape[:axis], "n", *shape[axis + 1 :])
            text = f"({', '.join(map(str, wanted))}{',' if self.ndim == 1 else ''})"
            raise ShapeError(
                f"cannot append data of shape {given} along axis {axis} of an array of "
                f"shape {shape}: {text} is needed"
            )
        self._check_kind(values.dtype)
        return int(given[axis])

    def _check_kind(self, dtype: np.dtype[Any]) -> None:
        if not np.can_cast(dtype, self.dtype, "same_kind"):
            raise CastingError(
                f"cannot append {dtype} to an array of {self.dtype} by the rule 'same_kind'; cast "
                "it first, with astype"
            )

    # -- a change of bounds ------------------------------------------------------------------

    def _rebound(
        self,
        low: Index | None,
        high: Index,
        values: Any = None,
        room: tuple[Index | None, Index] | None = None,
        cuts: bool = False,
    ) -> None:
        """Give the array the bounds low ... high - 1; on an error nothing has changed.

        No `low`: the starts stay.  `values` are the elements of the only part that is new; `room`
        are bounds that the grid shall hold; `cuts` tells that elements are cut off.
        """
        store, axial, shape = self._store, self.axial, self.shape
        if low is None and high == shape and room is None:
            return
        if self._filling:  # by what reads the data that are being appended
            raise self._is_filling()
        new_shape = high if low is None else tuple(map(operator.sub, high, low))
        new_offset = store.offset
        was_unclean = store.unclean
        change = None  # a growth at the end, the usual one, needs no more than this
        mark = axial._mark()
        old = new = reserved = self._grid_bytes
        try:
            first, last = (low, high) if room is None else room
            rows = self._allocate(first, last, LIMIT)
            if low is not None or was_unclean or cuts:
                change = Change(
                    shape, new_offset, self.grid, self.chunks, low or (0,) * len(high), high, rows
                )
            if store.growth and room is None and axial.grid != self.grid:
                ahead = self._allocate_ahead(mark, self.grid, rows, old, change)
                if ahead is None:
                    self._allocate(first, last, LIMIT)
                else:
                    rows, reserved = ahead, self._grid_bytes
            if change is not None:
                if change.rows != rows:
                    change = change._replace(rows=rows)
                new_offset = change.offset_after
            new = self._grid_bytes
            if new > old:
                if new >= LIMIT:
                    raise LimitError(
                        f"cannot grow to {new_shape}: its chunks would have {new} bytes, 2**63 or "
                        "nearly"
                    )
                if not old:
                    self._place_elements()
                if new > reserved:
                    self._make_room(old, new, change)
                if store.region is not self._region:
                    self._attach_store()
            if was_unclean and change is not None:
                self._expose(change, clean=values is None)
            if values is not None:
                store.begin_append()
                store.unclean = True
                self._filling = True
                self._fill_box(*grown(low, high, shape), values)
            store.unclean = cuts or (
                was_unclean and change is not None and not change.fills(axial.grid)
            )
            store.commit(new_shape, new_offset, axial, new, cuts)
            self._publish_bounds(new_shape, new_offset, cuts)
        except BaseException:
            if (store.shape, store.offset, store.grid) == (new_shape, new_offset, axial.grid):
                self._publish_bounds(new_shape, new_offset, cuts)  # interrupted when all was done
                raise
            store.unclean = was_unclean or values is not None
            tried = (
                self._grid_bytes
            )  # more than `new`, if it was interrupted while allocating ahead
            axial._rollback(mark)
            if LIMIT > tried > old:
                store.release(old)
                self._forget_touched()
            raise
        finally:
            self._filling = False
        if cuts and change is not None:
            # The bounds count by now: space that cannot be given back stays taken.
            with contextlib.suppress(StorageError):
                self._give_back(change)

    def _publish_bounds(self, shape: Index, offset: Index, cuts: bool) -> None:
        """Show new bounds, which count: nobody takes up what they cut off from now on."""
        if cuts:
            self._store.users.turn()
        self._set_bounds(shape, offset)

    def _is_filling(self) -> ArgumentError:
        return ArgumentError(
            f"cannot change the bounds of {self._name()} in the midst of an append to it"
        )

    def _allocate_ahead(
        self, mark: Any, grid: Index, rows: Index, old: int, change: Change | None
    ) -> Index | None:
        """Grow the grid as the growth policy says instead of exactly, if there is room for that.

        Since `mark` the grid has grown exactly: from `grid`, of `old` bytes, by `rows` at the
        starts.  Returns the rows at the starts; or None, and the grid is as before.
        """
        store, axial, shape = self._store, self.axial, self.shape
        last = [m - n - first for m, n, first in zip(axial.grid, grid, rows, strict=True)]
        axial._rollback(mark)
        # Rows at the other end that the bounds have left are no reason to allocate more.
        extents = list(grid)
        for j, (n, b, c) in enumerate(zip(shape, store.offset, self.chunks, strict=True)):
            if bool(rows[j]) != bool(last[j]):
                extents[j] = -(-(b + n) // c) if rows[j] else grid[j] - b // c
        added = [0] * len(grid)
        try:
            for axis, by, side in decode_policy(store.growth).steps(extents, rows, last):
                axial._grow(axis, by, side)
                added[axis] += by if side == "start" else 0
            new = axial.size * self.chunk_bytes
            if new >= LIMIT or max(map(operator.mul, axial.grid, self.chunks)) >= LIMIT:
                raise LimitError("2**63 or nearly")
            self._make_room(old, new, change and change._replace(rows=tuple(added)))
        except (LimitError, StorageError, ReserveError):
            axial._rollback(mark)
            return None
        return tuple(added)

    def _make_room(self, old: int, new: int, change: Change | None) -> None:
        """Have the store make room for the chunks that the grid has gained.

        Where the bounds have moved in before, it has chunks that no growth to come need ever reach,
        as beside a window that rolls along two axes: those get no room.  Should they be reached,
        `_expose` makes them ready.
        """
        store, size = self._store, self.chunk_bytes
        runs = None
        if change is not None and store.unclean and not self._grows_by_holes:
            boxes = list(change.chunks_gained(self.axial.grid))
            wanted = sum(_volume(*box) for box in boxes)
            n_runs = sum(count_runs(self.axial, *box) for box in boxes)
            # Or it is not worth the many calls.
            if n_runs <= MANY and 4 * wanted < 3 * ((new - old) // size):
                runs = self._in_bytes(self._addresses(boxes))
        store.reserve(old, new, runs)
        if runs is not None and store.sums is not None and any(store.header.fill):
            self._note_bytes(old, new)  # some are holes, which hold no fill value

    @property
    def _grows_by_holes(self) -> bool:
        """Whether new chunks need nothing: there may be far more than anybody could go through."""
        header = self._store.header
        return header.sparse and not any(header.fill)

    def _expose(self, change: Change, clean: bool) -> None:
        """Make ready what the old grid has of the new parts: its space, and the fill value."""
        held = self._store.held
        if held is not None and not held.cut.isdisjoint(change.sides(outwards=True)):
            raise ArgumentError(
                f"cannot grow {self._name()} where this block of extarray.commit has cut it: what "
                "was cut off is needed until the end of the block; grow behind it"
            )
        store = self._store
        store.begin_renewal()
        self._forget_touched()
        parts = list(change.old_chunks_of_new_parts())
        if not parts:
            return
        known = change.chunks_of((0,) * len(change.shape), change.shape)
        # What the block has cut off lies in chunks that the bounds reach, unless nothing is left.
        needs_none = held is None or all(change.shape)
        for start, stop in parts:
            # What chunks hold that the bounds do not reach as yet is of no use: it is not read.
            boxes = outside(*change.chunks_of(start, stop), *known)
            if self._grows_by_holes:
                # Between may lie what the block has cut off, and what other writers append.
                far = not store.shared and (held is None or not held.cut)
                pieces = self._addresses_around(boxes, known, far)
            else:
                pieces = self._addresses(boxes)
            for run in self._in_bytes(pieces):
                store.keep(*run)
                if clean and needs_none:
                    if store.sums is not None:
                        self._note_bytes(*run)
                    store.renew(*run)
                else:
                    store.reserve_again(*run)
            if clean:
                inner = change.elements_of(*known) if needs_none else (start, stop)
                self._restore_fill(
                    tuple(map(max, start, inner[0])), tuple(map(min, stop, inner[1]))
                )

    def _give_back(self, change: Change) -> None:
        """Have the store give back the chunks that hold none of the new bounds."""
        store = self._store
        if store.held is not None:
            store.held.cut |= change.sides(outwards=False)
        needed = change.chunks_needed
        boxes = list(change.chunks_cut())
        if boxes:
            store.settle()
            self._forget_touched()
            start = stop = 0
            for run in self._in_bytes(self._addresses_with_pages(boxes, needed)):
                if not start <= run[0] <= run[1] <= stop:  # or it was around the one before
                    start, stop = self._with_unneeded(*run, needed)
                    if store.sums is not None:
                        self._note_bytes(start, stop)
                    store.give_back(start, stop)
            self._give_back_freed()

    def _addresses(self, boxes: Iterable[Box]) -> Iterator[Runs]:
        """Runs of addresses, many at a time, that boxes of chunks take."""
        return itertools.chain.from_iterable(runs_together(self.axial, *box) for box in boxes)

    def _addresses_around(
        self, boxes: Iterable[Box], needed: Box, far: bool = True
    ) -> Iterator[Runs]:
        """Runs of addresses, many at a time, that boxes of chunks take of which none is needed.

        Where they have many, others that are not needed come with them, for far fewer runs: if
        `far`, and few are needed, all up to the next of those; or else what lies beside each box.
        """
        axial, boxes = self.axial, list(boxes)
        if sum(_volume(*box) for box in boxes) > MANY and far and _volume(*needed) <= MANY:
            first = tuple(map(min, zip(*(first for first, _ in boxes), strict=True)))
            last = tuple(map(max, zip(*(last for _, last in boxes), strict=True)))
            yield runs_between(axial, first, last, address_runs(axial, *needed))
            return
        for box in boxes:
            if _volume(*box) > MANY:
                wide = self._widened(box, needed)
                box = min(wide, box, key=lambda one: count_runs(axial, *one))
            yield from runs_together(axial, *box)

    def _widened(self, box: Box, needed: Box) -> Box:
        """A box around one of which no chunk is needed, with all indices of every axis but one."""
        (first, last), k = box, self.ndim
        apart = (j for j in range(k) if last[j] <= needed[0][j] or needed[1][j] <= first[j])
        axis = next(apart, None)
        return (
            tuple(first[j] if j == axis else 0 for j in range(k)),
            tuple(last[j] if j == axis else n for j, n in enumerate(self.axial.grid)),
        )

    def _addresses_with_pages(self, boxes: Iterable[Box], needed: Box) -> Iterator[Runs]:
        """Runs of addresses around boxes of chunks, but those too small for a page.

        Those lie between chunks that are needed, and may be very many.
        """
        size, end = self.chunk_bytes, self.axial.size
        for firsts, lasts in self._addresses_around(boxes, needed):
            if size < mmap.PAGESIZE:
                small = (lasts - firsts) * size < mmap.PAGESIZE
                for at, inside in ((firsts - 1, firsts > 0), (lasts, lasts < end)):
                    small &= inside
                    small[small] = self._are_in(needed, at[small])
                firsts, lasts = firsts[~small], lasts[~small]
            yield firsts, lasts

    def _give_back_freed(self) -> None:
        """Have the store give back what was cut off and nobody uses any more."""
        store = self._store
        if store.freed.ready:
            store.begin_cut()
            runs = store.freed.take()
            if store.sums is not None:  # what was noted before may have been flushed since
                for run in runs:
                    self._note_bytes(*run)
            store.punch(runs)

    def _with_unneeded(self, start: int, stop: int, needed: Box) -> tuple[int, int]:
        """Bytes to give back, and what is around them, up to the next chunk that is needed.

        The system gives back whole pages, and in the cache of a file it may have made many out of a
        hole in which one was written.  So the last chunk that is cut off of a piece of them gives
        back all of it.
        """
        size, piece = self.chunk_bytes, self._store.given_back_together
        low = max(start - start % piece, start - LOOKED_AT * size)
        high = min(stop + -stop % piece, stop + LOOKED_AT * size, self.axial.size * size)
        # Mostly something is needed near by, or nothing at all.
        first, at, n = low // size, start // size, 8
        while at > first:
            at, before = max(first, at - n), at
            found = self._those_in(needed, at, before)
            if found.size:
                low = (int(found[-1]) + 1) * size
                break
            n *= 4
        last, at, n = -(-high // size), stop // size, 8
        while at < last:
            before, at = at, min(last, at + n)
            found = self._those_in(needed, before, at)
            if found.size:
                high = int(found[0]) * size
                break
            n *= 4
        return low, high

    def _those_in(self, box: Box, first: int, stop: int) -> NDArray[np.int64]:
        """Which of the chunks first ... stop - 1 lie in a box."""
        addresses = np.arange(first, stop)
        return addresses[self._are_in(box, addresses)]

    def _are_in(self, box: Box, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether chunks lie in a box."""
        indices = self.axial.indices(addresses)
        inside: NDArray[np.bool_] = np.all((indices >= box[0]) & (indices < box[1]), axis=1)
        return inside

    def _note_bytes(self, start: int, stop: int) -> None:
        """Have chunks count as written in which bytes start ... stop - 1 of the file lie."""
        first, last = start // self.chunk_bytes, -(-stop // self.chunk_bytes)
        sums = self._store.sums
        assert sums is not None
        if not any(self._store.header.fill):  # beyond the table are holes: their sums stay right
            last = min(last, sums.reach)
        for low in range(first, last, MANY):
            self._note_written(np.arange(low, min(last, low + MANY)))

    def _in_bytes(self, pieces: Iterable[Runs]) -> Iterator[tuple[int, int]]:
        """Runs of bytes, one by one, of runs of addresses."""
        size = self.chunk_bytes
        for firsts, lasts in pieces:
            yield from zip((firsts * size).tolist(), (lasts * size).tolist(), strict=True)

    def _fill_box(self, start: Index, stop: Index, values: Any) -> None:
        """Write what `as_source` gives to a box; what is no array in memory goes block by block."""
        if isinstance(values, np.ndarray):
            self._write_box(start, stop, values)
            return
        extents = [high - low for low, high in zip(start, stop, strict=True)]
        # Half: a block is there while the next one is read, and while it is cast.
        limit = config.max_memory // 2
        own = grain(values, self.chunks)
        for part in tiles(extents, own, self.itemsize, limit=limit, split=False):
            block = values[part]
            if not isinstance(block, np.ndarray):
                block = np.asarray(block)
            wanted = tuple(s.stop - s.start for s in part)
            if block.shape != wanted:
                raise ShapeError(f"the data gave shape {block.shape} for a block of {wanted}")
            self._check_kind(block.dtype)
            block = unmasked(block, self.dtype, self.fill_value)
            low = [n + s.start for n, s in zip(start, part, strict=True)]
            high = [n + s.stop for n, s in zip(start, part, strict=True)]
            self._write_box(low, high, block)

    def _restore_fill(self, start: Index, stop: Index) -> None:
        """Give the fill value back to a box of allocated elements, which may be empty."""
        if not all(map(operator.lt, start, stop)):
            return
        fill = np.frombuffer(self._store.header.fill, self.dtype).reshape(())
        wanted = np.frombuffer(self._store.header.fill, np.uint8)
        extents = [high - low for low, high in zip(start, stop, strict=True)]
        limit = config.max_memory // 4
        for part in tiles(extents, self.chunks, self.itemsize, limit=limit, split=False):
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


def _volume(start: Index, stop: Index) -> int:
    """Number of chunks in a box."""
    return math.prod(map(operator.sub, stop, start))


def as_source(
    x: Any, dtype: np.dtype[Any] | None = None, fill: Callable[[], Any] = lambda: 0
) -> Any:
    """What elements are read from: `x` itself where it can be sliced, else an array of it.

    Parameters
    ----------
    x : array_like
    dtype : numpy.dtype, optional
        What lists and numbers of Python, which have none, are to be, as they are for an assignment:
        integers any number, texts a text or a date.  Other kinds are not converted.
    fill : callable
        Gives the value of what is masked, a scalar of this dtype, or of that of `x`.

    Returns
    -------
    ndarray, Source, or any object with ``shape``, ``dtype`` and slicing
    """
    if isinstance(x, Source):
        return x._verified()
    if isinstance(x, np.ma.MaskedArray):
        to = x.dtype if dtype is None else dtype
        # What cannot be cast is refused as it is.
        return unmasked(x, to, fill()) if np.can_cast(x.dtype, to, "same_kind") else np.asarray(x)
    if isinstance(x, (np.ndarray, np.generic)):
        return np.asarray(x)  # no matrix
    if isinstance(getattr(x, "dtype", None), np.dtype) and all(
        hasattr(x, name) for name in ("shape", "__getitem__")
    ):
        return x
    if dtype is None or hasattr(x, "__array__"):
        return np.asarray(x)
    if dtype.names is None:
        values = np.asarray(x)
        taken = dtype.kind in _TAKEN.get(values.dtype.kind, "")
        if values.ndim == 0 or (values.size and not taken):
            return values
    return np.asarray(x, dtype)
