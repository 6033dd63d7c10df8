"""One of several writers of an array."""

from __future__ import annotations

import contextlib
import operator
import threading
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from extarray.array.array import ExtArray
from extarray.array.growth import as_source, length_of, write_values
from extarray.array.life import let_go, show_store
from extarray.array.resizing import (
    carry_out,
    filling_error,
    give_back_chunks,
    is_start,
    renew,
)
from extarray.common.config import config
from extarray.common.errors import ArgumentError, ExtArrayError
from extarray.format.constants import LIMIT
from extarray.format.writers import WriterKind
from extarray.grid.bounds import Bounds, to_box
from extarray.grid.tiles import tiles
from extarray.storage.shared_store import SharedFileStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Self

    from numpy.typing import ArrayLike

    from extarray.array.resizing import Side
    from extarray.grid.bounds import Index

__all__ = ["SharedArray"]


class _Appending(threading.local):
    """Arrays to which a thread is appending, by what tells their elements from those of others."""

    origins: tuple[bytes, ...] = ()


_appending = _Appending()


class SharedArray(ExtArray):
    """An array in files that other writers have open, too.

    Made by `extarray.open` with ``share=True``.
    """

    __slots__ = ("_inside", "_turn")

    _store: SharedFileStore
    _turn: threading.RLock  # one thread of the process at a time changes bounds or attributes
    _inside: bool  # it is in a step

    @classmethod
    def _plain_kind(cls) -> type[ExtArray]:  # type: ignore[override]
        return ExtArray

    @classmethod
    def _open(
        cls,
        path: Path,
        mode: str,
        timeout: float | None,
        engine: str,
        durability: str = "flush",
        verify: str | None = None,  # of what has no checksums
    ) -> Self:
        store, axial = SharedFileStore.open(path, mode, timeout, engine, "flush")
        store.is_durable = durability == "commit"
        self = cls._from_store(store, axial)
        if store.is_durable:
            # What is built on must not be less durable than what is built.
            try:
                self.flush()
            except BaseException:
                self.close()
                raise
        return self

    def _make_locks(self) -> None:
        self._inside = False
        self._turn = threading.RLock()
        self._steady = self._store.steady

    def _is_still(self) -> bool:
        return self._turn.acquire(blocking=False) and super()._is_still()

    # -- steps -------------------------------------------------------------------------------

    @property
    def _growth(self) -> AbstractContextManager[Any]:  # type: ignore[override]
        return self._step(alone=True)

    @property
    def _commits(self) -> AbstractContextManager[Any]:  # type: ignore[override]
        return self._step(alone=False)

    def _step(self, alone: bool) -> AbstractContextManager[Any]:
        """A lock: who holds it commits alone, on the newest state, as a writer without others does.

        If `alone`, not before all appends that others have begun are committed.
        """
        return self._steady if self.mode == "r" else self._as_writer(alone)  # a forked child

    @contextlib.contextmanager
    def _as_writer(self, alone: bool) -> Iterator[None]:
        with self._turn:
            if self._inside:
                # By what reads the data that are being appended, or a signal's handler.
                if not self._store.is_committing() and not self.closed:
                    raise ArgumentError(
                        f"cannot commit to {self._name()} in the midst of an append to it, which "
                        "other writers share"
                    )
                yield
                return
            try:
                self._inside = True
                if not self.closed:
                    self._lock()
                    if alone and self._store.queue:
                        self._wait()
                yield
                self._conclude()
                self._leave()
            except BaseException:
                # Again, if these two were interrupted: nothing may be left that others wait for.
                try:
                    self._conclude()
                finally:
                    self._leave()
                raise

    def _conclude(self) -> None:
        """See to what a step has left."""
        if self._store.ticket:
            self._give_up()
        if self._store.is_committing():
            with contextlib.suppress(OSError):  # a later step does it
                self._give_back_all()

    def _leave(self) -> None:
        """End a step."""
        self._inside = False
        if self._store.is_committing():
            self._store.end_commit()

    def _give_up(self) -> None:
        """End a turn that has come to nothing, and see to what it has left."""
        self._store.give_up()
        with contextlib.suppress(ExtArrayError):  # or else the next writer does
            if self._store.is_committing():
                self._take_up()
            else:
                self._lock()

    def _lock(self) -> None:
        """Take the lock of commits, and take up what others have committed."""
        self._check()
        self._store.begin_commit()
        self._take_up()

    def _take_up(self) -> bool:
        store = self._store
        news = store.take_up(self.axial)
        if news:
            store.users.turn()
            show_store(self, self.axial)
            if store.unclean:
                self._forget_touched()  # others may have cut off, and given back
        store.note_seen()
        return news

    def _wait(self) -> None:
        """Wait for all whose turn comes before that of this writer, which begins now at last."""
        store = self._store
        if not store.ticket:
            store.begin_turn(WriterKind.WAITS)
        while ticket := store.ahead():
            if self._origin in _appending.origins:
                raise filling_error(self)  # this thread waits for itself
            store.end_commit()
            store.wait_turn(ticket)
            self._lock()

    # -- appends -----------------------------------------------------------------------------

    def append(self, data: ArrayLike, axis: SupportsIndex | str = 0, side: Side = "end") -> None:
        """Grow an axis by data; other writers may append at the same time.

        Parameters, errors and examples are those of `ExtArray.append`.

        Notes
        -----
        Each append has a place from when it begins, behind those that began before; all write at
        the same time, without a lock.  They are committed in this order, each whole.  Where one
        fails, or its writer dies, those behind it close the gap.
        """
        j = self._axis(axis)
        at_start = is_start(side)
        values = as_source(data, self.dtype, lambda: self.fill_value)
        with self._commits:
            self._check("append to")
            beside = WriterKind.APPENDS, j, at_start
            if any((w.kind, w.axis, w.at_start) != beside for w in self._store.queue):
                self._wait()
            by = length_of(self, values, j)
            if by:
                first = self._begin_append(j, at_start, by)
                self._store.end_commit()
                self._fill_place(j, first, by, values)
                self._lock()
                self._wait()
                self._end_append(j, at_start, first, by)

    def _begin_append(self, axis: int, at_start: bool, by: int) -> int:
        """Get a place for elements, and the grid and the space that it needs.

        Returns where the place begins, in elements from the start of the initial grid.
        """
        store, shape = self._store, self.shape
        zeros = (0,) * len(shape)
        before = [w for w in store.queue if w.kind == WriterKind.APPENDS]
        first = self._next_place(axis, at_start, by)
        if before:
            first = min(w.start for w in before) - by if at_start else max(w.stop for w in before)
        start, stop = self._box(axis, first, by)
        low, high = (start, shape) if at_start else (zeros, stop)
        if not self._grid_holds(start, stop):
            room = to_box(store.state, self.chunks, zeros, shape, LIMIT, (low, high))
            carry_out(self, room, exactly=True)
        store.begin_append()
        if store.unclean:
            renew(self, to_box(store.state, self.chunks, low, high, LIMIT), clean=False)
        store.begin_turn(
            WriterKind.APPENDS, axis=axis, at_start=at_start, start=first, stop=first + by
        )
        return first

    def _next_place(self, axis: int, at_start: bool, by: int) -> int:
        """Return where a place beside the bounds begins."""
        zero = -self.origin[axis]
        return zero - by if at_start else zero + self.shape[axis]

    def _box(self, axis: int, first: int, by: int) -> tuple[Index, Index]:
        """A place as a box, in elements as they are counted now."""
        shape = self.shape
        at = first + self.origin[axis]
        start = tuple(at if j == axis else 0 for j in range(len(shape)))
        return start, tuple(at + by if j == axis else n for j, n in enumerate(shape))

    def _grid_holds(self, start: Index, stop: Index) -> bool:
        return all(
            a + b >= 0 and z + b <= g * c
            for a, z, b, g, c in zip(
                start, stop, self._store.offset, self.grid, self.chunks, strict=True
            )
        )

    def _fill_place(self, axis: int, first: int, by: int, values: Any) -> None:
        """Write the elements of an append, while others commit theirs."""
        with self._steady:  # other threads of this process must not move the bounds
            before = _appending.origins
            try:
                self._filling = True
                _appending.origins = (*before, self._origin)
                write_values(self, values, *self._box(axis, first, by))
                self._filling, _appending.origins = False, before
            except BaseException:
                self._filling, _appending.origins = False, before
                raise

    def _end_append(self, axis: int, at_start: bool, first: int, by: int) -> None:
        """Commit an append; all before it are committed, or are no more."""
        store = self._store
        place = self._next_place(axis, at_start, by)
        if place != first:
            # Nobody changes the bounds now, and no place that was given meets these two.
            store.end_commit()
            with self._steady:
                self._move_place(axis, first, place, by)
            self._lock()
        start, stop = self._box(axis, place, by)
        zeros, shape = (0,) * self.ndim, self.shape
        low, high = (start, shape) if at_start else (zeros, stop)
        change = to_box(store.state, self.chunks, low, high, LIMIT)
        store.unclean = store.unclean and not change.fills
        try:
            store.commit(change.after, self.axial, store.state.data_bytes, False)
        finally:
            self._set_bounds(store.shape, store.offset)  # also if interrupted when all was done
        store.end_turn()

    def _move_place(self, axis: int, first: int, place: int, by: int) -> None:
        """Copy elements to a place nearer to the bounds, which may overlap the old one."""
        start, _ = self._box(axis, first, by)
        extents = [by if j == axis else n for j, n in enumerate(self.shape)]
        limit = config.max_memory // 4
        parts = list(tiles(extents, self.chunks, self.itemsize, limit=limit, split=False))
        shift = place - first
        # Those that are nearest first: no part is overwritten before it was read.
        for part in parts if shift < 0 else reversed(parts):
            low = [n + s.start for n, s in zip(start, part, strict=True)]
            high = [n + s.stop for n, s in zip(start, part, strict=True)]
            values = self._read_box(low, high)
            low[axis] += shift
            high[axis] += shift
            self._write_box(low, high, values)

    # -- what was cut off --------------------------------------------------------------------

    def _give_back_all(self) -> None:
        """Let the store give back all chunks that hold nothing of the bounds or of appends."""
        store, zeros = self._store, (0,) * self.ndim
        if not store.may_give_back or store.users.are_left(store.users.ended):
            return
        low = list(store.offset)
        high = list(map(operator.add, store.offset, self.shape))
        for writer in store.queue:
            if writer.kind == WriterKind.APPENDS:
                shift = self.origin[writer.axis] + store.offset[writer.axis]
                low[writer.axis] = min(low[writer.axis], writer.start + shift)
                high[writer.axis] = max(high[writer.axis], writer.stop + shift)
        if store.unclean:  # or else the bounds have filled the grid since
            whole = tuple(map(operator.mul, self.grid, self.chunks))
            bounds = Bounds(whole, zeros, self.grid)
            give_back_chunks(self, to_box(bounds, self.chunks, tuple(low), tuple(high), LIMIT))
        store.note_given_back()

    # -- life --------------------------------------------------------------------------------

    def refresh(self, on_replaced: Literal["raise", "reopen"] = "raise") -> bool:
        """Take up what others have committed since.

        Parameters
        ----------
        on_replaced : {"raise", "reopen"}
            Of no effect: nobody replaces an array that has writers.

        Returns
        -------
        bool
            Whether anything was new.
        """
        with self._steady:
            if self.closed or self.mode == "r":
                return super().refresh(on_replaced)
            if self._filling:
                return False  # by what reads the data that are being appended
            with self._store.committing():
                return self._take_up()

    def flush(self) -> None:
        """Bring everything to the disk, also what others have written."""
        self._check()
        self._store.flush_data()  # most of it, while others commit
        super().flush()

    def close(self) -> None:
        """Let go of the files and of the writer's locks."""
        with self._turn:
            with contextlib.suppress(ExtArrayError), self._commits:
                pass  # the last moment to give back what was cut off
            with self._steady:
                let_go(self)
