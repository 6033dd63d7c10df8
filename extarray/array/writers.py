"""The policies of an array's writers: one writer, several, or writers of elements alone.

An array gets a policy when it is opened; `facts.Writers` is the protocol of policies.
"""

from __future__ import annotations

import contextlib
import operator
import threading
import weakref
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from extarray.array import life
from extarray.array.encodings import check_writable
from extarray.array.life import let_go, show_store
from extarray.common.config import config
from extarray.common.errors import ArgumentError, ExtArrayError
from extarray.common.lazy import LazyImports, LazyModule
from extarray.common.limits import limits
from extarray.common.on_error import OnError
from extarray.format.constants import LIMIT
from extarray.grid.tiles import tiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import ArrayLike

    from extarray._core._axial import Axial
    from extarray.array import growth, resizing
    from extarray.array.resizing import Side
    from extarray.grid import bounds
    from extarray.grid.bounds import Index
    from extarray.storage.file_store import FileStore
else:
    bounds = LazyModule("extarray.grid.bounds")
    growth = LazyModule("extarray.array.growth")
    resizing = LazyModule("extarray.array.resizing")

__all__ = ["Alone", "Elements", "Shared"]

_later = LazyImports(
    {
        "extarray.fetched.published": "open_store",
        "extarray.format.blocks": "WriterKind",
        "extarray.storage.file_store": "FileStore",
        "extarray.storage.sharing": "FileElements Sharing",
    }
)


class Alone:
    """The policy of an array with one writer: its changes are steps for the threads of a process.

    A change of the bounds, or a read before a write, is one step; all three locks are the same.
    """

    __slots__ = ("committing", "resizing", "steady")

    refresh = staticmethod(life.refresh)
    flush = staticmethod(life.flush)
    close = staticmethod(life.close)

    def __init__(self) -> None:
        self.make_locks()

    def open(
        self,
        path: Any,
        mode: str,
        timeout: float | None,
        engine: str,
        durability: str,
        verify: str | None,
        recover: bool | None = None,
    ) -> tuple[FileStore, Axial]:
        """Open a pair of files, or what a server or a bucket has."""
        opened: tuple[FileStore, Axial]
        if isinstance(path, Path):
            opened = _later.FileStore.open(path, mode, timeout, engine, durability, verify, recover)
            if mode == "r+":
                with OnError(opened[0].close):
                    check_writable(opened[0].now.header, path)
        else:
            opened = _later.open_store(path, engine, verify, recover)
        return opened

    def append(self, array: Any, data: ArrayLike, axis: SupportsIndex | str, side: Side) -> None:
        """Grow an axis by data."""
        growth.append(array, data, axis, side)

    def serve(self, array: Any) -> None:
        """Do nothing: this policy needs no array."""

    def make_locks(self) -> None:
        """Make a fresh lock."""
        self.resizing = self.committing = self.steady = threading.RLock()

    def is_still(self) -> bool:
        """Tell whether no other thread holds the lock, and take it."""
        return self.steady.acquire(blocking=False)


class Elements(Alone):
    """The policy of one of any number of processes that write elements inside the bounds.

    Others commit, so the locks serve the threads of this process alone, as a reader's do.

    Parameters
    ----------
    told : bool
        Whether the array's writer, if there is one, knows of this process.
    names : tuple of str, optional
        Names of the files of an array that is being made.
    """

    __slots__ = ("_names", "_told")

    def __init__(self, told: bool = False, names: tuple[str, str] | None = None) -> None:
        super().__init__()
        self._told, self._names = told, names

    def open(
        self,
        path: Path,
        mode: str,
        timeout: float | None,
        engine: str,
        durability: str,
        verify: str | None,
        recover: bool | None = None,
    ) -> tuple[FileStore, Axial]:
        """Open a pair of files beside the processes that commit."""
        # This process builds on nothing it finds, so it leaves bringing it to the disk to them.
        files = _later.FileElements(self._told)
        names = self._names
        asked = path, mode, timeout, engine, durability, verify, recover
        return _open_beside(files, *asked, names)

    def flush(self, array: Any) -> None:
        """Bring the elements to the disk."""
        array._check()
        array._store.commits.sync_elements()
        array._store.drop_copies()

    def close(self, array: Any) -> None:
        """Let go of the files."""
        with self.steady:
            life.let_go(array)


class _Appending(threading.local):
    """The identities of the arrays to which a thread is appending."""

    arrays: tuple[bytes, ...] = ()


_appending = _Appending()


class Shared:
    """The policy of an array in files that other writers also have open.

    Each change is a step of this writer, on the newest state, while the others wait; only the
    elements of an append are written between two steps.
    """

    def __init__(self) -> None:
        self._others = _later.Sharing()
        self._array: Callable[[], Any] = lambda: None
        self.make_locks()

    def open(
        self,
        path: Path,
        mode: str,
        timeout: float | None,
        engine: str,
        durability: str,
        verify: str | None,
        recover: bool | None = None,
    ) -> tuple[FileStore, Axial]:
        """Open a pair of files, as one of its writers."""
        # `serve` brings the state found to the disk, in a separate step.
        asked = path, mode, timeout, engine, durability, verify, recover
        return _open_beside(self._others, *asked)

    def serve(self, array: Any) -> None:
        """Serve as the policy of an open array, which keeps the policy alive."""
        self._array = weakref.ref(array)
        if array._store.now.is_durable:
            # A durable commit must not build on a state that is not durable.
            with OnError(self.close, array):
                self.flush(array)

    def make_locks(self) -> None:
        """Make fresh locks: in a forked child, a thread of the parent may have held them."""
        self._turn = threading.RLock()  # lets one thread at a time change bounds or attributes
        self._inside = False  # whether that thread is in a step
        self.steady = self._others.steady

    def is_still(self) -> bool:
        """Tell whether no other thread holds a lock of the array, and take them."""
        return self._turn.acquire(blocking=False) and self.steady.acquire(blocking=False)

    # -- steps -------------------------------------------------------------------------------

    @property
    def resizing(self) -> AbstractContextManager[Any]:
        """A step that changes the bounds, after all appends that others have begun."""
        return self._step(alone=True)

    @property
    def committing(self) -> AbstractContextManager[Any]:
        """A step that leaves the bounds alone."""
        return self._step(alone=False)

    def _step(self, alone: bool) -> AbstractContextManager[Any]:
        """Return a lock whose holder commits on the newest state, as if it were the only one.

        If `alone`, the holder first waits until all appends that others have begun are committed.
        """
        array = self._array()
        return self.steady if array.mode == "r" else self._as_writer(array, alone)  # forked child

    @contextlib.contextmanager
    def _as_writer(self, array: Any, alone: bool) -> Iterator[None]:
        with self._turn:
            if self._inside:
                # The caller is code that an append runs, or the handler of a signal.
                if not self._others.is_committing() and not array.closed:
                    raise ArgumentError(
                        f"cannot commit to {array._name()} during an append that other writers "
                        "share"
                    )
                yield
                return
            try:
                self._inside = True
                if not array.closed:
                    self._lock(array)
                    if alone and self._others.queue:
                        self._wait(array)
                yield
                self._conclude(array)
                self._leave()
            except BaseException:
                self._others.doubt()
                # Conclude again, in case an interrupt cut it short: others must not wait for it.
                try:
                    self._conclude(array)
                finally:
                    self._leave()
                raise

    def _conclude(self, array: Any) -> None:
        """Tidy up after a step."""
        if self._others.ticket:
            self._drop_turn(array)
        if self._others.is_committing():
            with contextlib.suppress(OSError):  # a later step gives back the rest
                self._give_back_all(array)

    def _leave(self) -> None:
        self._inside = False
        if self._others.is_committing():
            self._others.end_commit()

    def _drop_turn(self, array: Any) -> None:
        """End a turn that failed, and tidy up after it."""
        self._others.drop_turn()
        with contextlib.suppress(ExtArrayError):  # the next writer does it, too
            if self._others.is_committing():
                self._take_up(array)
            else:
                self._lock(array)

    def _lock(self, array: Any) -> None:
        """Take the lock of commits, and take up what others have committed."""
        array._check()
        self._others.begin_commit()
        self._take_up(array)

    def _take_up(self, array: Any) -> bool:
        is_new: bool = self._others.take_up(array.axial)
        if is_new:
            now = array._store.now
            now.users.turn()
            show_store(array, array.axial)
            if now.unclean:
                array._forget_touched()  # others may have cut off parts and given them back
        self._others.note_seen()
        return is_new

    def _wait(self, array: Any) -> None:
        """Wait for all writers whose turn comes first; take a turn now if there was none."""
        others = self._others
        if not others.ticket:
            others.begin_turn(_later.WriterKind.WAITS)
        while ticket := others.ahead():
            if array._identity in _appending.arrays:
                raise resizing.filling_error(array)  # this thread would wait for itself
            others.end_commit()
            others.wait_turn(ticket)
            self._lock(array)

    # -- appends -----------------------------------------------------------------------------

    def append(self, array: Any, data: ArrayLike, axis: SupportsIndex | str, side: Side) -> None:
        """Grow an axis by data; other writers may append at the same time.

        Each append gets its place when it begins, behind those that began before; all write at the
        same time, without a lock.  They are committed in this order, each whole.  If one fails, or
        its writer dies, those behind it close the gap.
        """
        j = array._axis(axis)
        at_start = resizing.is_start(side)
        values = growth.source_for(array, data)
        with self.committing:
            array._check("append to")
            beside = _later.WriterKind.APPENDS, j, at_start
            if any((w.kind, w.axis, w.at_start) != beside for w in self._others.queue):
                self._wait(array)
            by = growth.length_of(array, values, j)
            if by and self._is_quick(values):
                self._append_at_once(array, j, at_start, by, values)
            elif by:
                first = self._begin_append(array, j, at_start, by)
                self._others.end_commit()
                self._fill_place(array, j, first, by, values)
                self._lock(array)
                self._wait(array)
                self._end_append(array, j, at_start, first, by)

    def _is_quick(self, values: Any) -> bool:
        """Tell whether an append is so short that the other writers can wait for it.

        Writing from memory runs no foreign code, and takes no locks.
        """
        at_once = limits.append_at_once
        return type(values) is np.ndarray and values.nbytes <= at_once and not self._others.queue

    def _append_at_once(self, array: Any, axis: int, at_start: bool, by: int, values: Any) -> None:
        """Append in the present step, while nobody else has a turn."""
        others, box = self._others, bounds.beside(array.shape, axis, by, at_start)
        if not others.is_only_one:
            # If this writer dies, its turn tells the others what it may have left.
            first = self._next_place(array, axis, at_start, by)
            others.begin_turn(
                _later.WriterKind.APPENDS,
                axis=axis,
                at_start=at_start,
                start=first,
                stop=first + by,
            )
        growth.grow(array, axis, by, at_start, partial(growth.write_source, array, values, *box))
        if others.ticket:
            others.end_turn()

    def _begin_append(self, array: Any, axis: int, at_start: bool, by: int) -> int:
        """Get a place for elements, and the grid and the space that it needs.

        Return the start of the place, in elements from the start of the initial grid.
        """
        now, shape = array._store.now, array.shape
        zeros = (0,) * len(shape)
        before = [w for w in self._others.queue if w.kind == _later.WriterKind.APPENDS]
        first = self._next_place(array, axis, at_start, by)
        if before:
            first = min(w.start for w in before) - by if at_start else max(w.stop for w in before)
        start, stop = self._box(array, axis, first, by)
        low, high = (start, shape) if at_start else (zeros, stop)
        if not self._grid_holds(array, start, stop):
            room = bounds.to_box(now.state, array.chunks, zeros, shape, LIMIT, (low, high))
            resizing.carry_out(array, room, exactly=True)
        array._store.commits.begin_append()
        if now.unclean:
            resizing.renew(
                array, bounds.to_box(now.state, array.chunks, low, high, LIMIT), clean=False
            )
        self._others.begin_turn(
            _later.WriterKind.APPENDS, axis=axis, at_start=at_start, start=first, stop=first + by
        )
        return first

    def _next_place(self, array: Any, axis: int, at_start: bool, by: int) -> int:
        """Return where a place beside the bounds begins."""
        zero: int = -array.origin[axis]
        end: int = zero + array.shape[axis]
        return zero - by if at_start else end

    def _box(self, array: Any, axis: int, first: int, by: int) -> tuple[Index, Index]:
        """Return a place as a box, in present indices."""
        shape = array.shape
        at = first + array.origin[axis]
        start = tuple(at if j == axis else 0 for j in range(len(shape)))
        return start, tuple(at + by if j == axis else n for j, n in enumerate(shape))

    def _grid_holds(self, array: Any, start: Index, stop: Index) -> bool:
        return all(
            a + b >= 0 and z + b <= g * c
            for a, z, b, g, c in zip(
                start, stop, array._store.now.state.offset, array.grid, array.chunks, strict=True
            )
        )

    def _fill_place(self, array: Any, axis: int, first: int, by: int, values: Any) -> None:
        """Write the elements of an append, while others commit theirs."""
        # I5: written before `_end_append` commits.
        with self.steady:  # keep other threads of this process from moving the bounds
            before = _appending.arrays
            try:
                array._filling = True
                _appending.arrays = (*before, array._identity)
                growth.write_source(array, values, *self._box(array, axis, first, by))
                array._filling, _appending.arrays = False, before
            except BaseException:
                array._filling, _appending.arrays = False, before
                raise

    def _end_append(self, array: Any, axis: int, at_start: bool, first: int, by: int) -> None:
        """Commit an append; all before it are committed or gone."""
        store, now = array._store, array._store.now
        place = self._next_place(array, axis, at_start, by)
        if place != first:
            # Nobody changes the bounds now, and no other append's place meets these two.
            self._others.end_commit()
            with self.steady:
                self._move_place(array, axis, first, place, by)
            self._lock(array)
        start, stop = self._box(array, axis, place, by)
        zeros, shape = (0,) * array.ndim, array.shape
        low, high = (start, shape) if at_start else (zeros, stop)
        change = bounds.to_box(now.state, array.chunks, low, high, LIMIT)
        now.unclean = now.unclean and not change.fills
        try:
            store.commit(change.after, array.axial, now.state.data_bytes, False)
        finally:
            # Also after an interrupt that came when the commit was done.
            array._set_bounds(now.state.shape, now.state.offset)
        self._others.end_turn()

    def _move_place(self, array: Any, axis: int, first: int, place: int, by: int) -> None:
        """Copy elements to a place nearer to the bounds, which may overlap the old one."""
        start, _ = self._box(array, axis, first, by)
        extents = [by if j == axis else n for j, n in enumerate(array.shape)]
        limit = config.max_memory // 4
        parts = list(tiles(extents, array.chunks, array.itemsize, limit=limit, split=False))
        shift = place - first
        # Nearest parts first, so that none is overwritten before it is read.
        for part in parts if shift < 0 else reversed(parts):
            low = [n + s.start for n, s in zip(start, part, strict=True)]
            high = [n + s.stop for n, s in zip(start, part, strict=True)]
            values = array._read_box(low, high)
            low[axis] += shift
            high[axis] += shift
            array._write_box(low, high, values)

    # -- parts cut off -----------------------------------------------------------------------

    def _give_back_all(self, array: Any) -> None:
        """Let the store give back all chunks outside the bounds and the places of appends."""
        now = array._store.now
        if not self._others.may_give_back or now.users.are_left(now.users.ended):
            return
        low = list(now.state.offset)
        high = list(map(operator.add, now.state.offset, array.shape))
        for writer in self._others.queue:
            if writer.kind == _later.WriterKind.APPENDS:
                shift = array.origin[writer.axis] + now.state.offset[writer.axis]
                low[writer.axis] = min(low[writer.axis], writer.start + shift)
                high[writer.axis] = max(high[writer.axis], writer.stop + shift)
        if now.unclean:  # otherwise the bounds have filled the grid since
            resizing.give_back_outside(array, tuple(low), tuple(high))
        self._others.note_given_back()

    # -- life --------------------------------------------------------------------------------

    def refresh(self, array: Any, on_replaced: Literal["raise", "reopen"]) -> bool:
        """Take up the commits of others; nobody replaces an array that has writers."""
        with self.steady:
            if array.closed or array.mode == "r":
                return life.refresh(array, on_replaced)
            if array._filling:
                return False  # the call comes from code that an append runs
            with self._others.committing():
                return self._take_up(array)

    def flush(self, array: Any) -> None:
        """Bring everything to the disk, including the writes of others."""
        array._check()
        self._others.flush_data()  # most of it, while others may commit
        life.flush(array)

    def close(self, array: Any) -> None:
        """Let go of the files and of the writer's locks."""
        with self._turn:
            with contextlib.suppress(ExtArrayError), self.committing:
                pass  # the last chance to give back the parts cut off
            with self.steady:
                let_go(array)


def _open_beside(
    files: Any,
    path: Path,
    mode: str,
    timeout: float | None,
    engine: str,
    durability: str,
    verify: str | None,
    recover: bool | None,
    names: tuple[str, str] | None = None,
) -> tuple[FileStore, Axial]:
    """Open a pair of files that others may write to, and bring nothing to the disk."""
    opened: tuple[FileStore, Axial] = _later.FileStore.open(
        path, mode, timeout, engine, "flush", verify, recover, files, names
    )
    opened[0].now.is_durable = durability == "commit"
    opened[0].write_steadily(durability)
    return opened
