"""The life of an array on its store: made, attached, refreshed, flushed, closed.

`Host` answers the questions that the compiled core asks about an array in between.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import operator
import os
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from extarray._core._array import ArrayCore
from extarray._core._axial import Axial
from extarray._core._history import claim
from extarray._core._state import hold, renew_lock
from extarray._core._transfers import note_shown
from extarray.array.facts import Resizable, Stored, Writers, check
from extarray.common.errors import (
    ArgumentError,
    ChecksumError,
    ExtArrayError,
    LimitError,
    MissingError,
    ReadOnlyError,
    ReplacedError,
    ReserveError,
)
from extarray.common.forks import heirs, in_children
from extarray.common.hints import hint
from extarray.common.lazy import LazyImports, LazyModule
from extarray.common.on_error import OnError
from extarray.format.constants import LIMIT
from extarray.grid.chunking import elements_of_chunk, grid_of, place_of
from extarray.grid.order import has_strides, positions, slow_to_fast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from extarray._core._frozen import Frozen
    from extarray._core._mapping import Counter, Region, Users
    from extarray._core._state import Frame
    from extarray._core._supply import Supply, Trust
    from extarray.common import masked_arrays
    from extarray.format import missing
    from extarray.format.header import Header
    from extarray.selection import indexable
    from extarray.storage.file_store import FileStore
    from extarray.storage.memory import MemoryStore
    from extarray.storage.store import Frozen as FrozenTable
    from extarray.storage.store import Reader
    from extarray.streaming.blocks import Source
else:
    indexable = LazyModule("extarray.selection.indexable")
    masked_arrays = LazyModule("extarray.common.masked_arrays")
    missing = LazyModule("extarray.format.missing")

__all__ = [
    "Host",
    "Living",
    "attach_store",
    "check_not_held",
    "close",
    "flush",
    "flush_store",
    "fresh_store",
    "held",
    "is_replaced",
    "let_go",
    "open_in_files",
    "place_elements",
    "places_of",
    "publish",
    "refresh",
    "replaced_error",
    "rows",
    "show_store",
    "start",
    "take_layout",
    "take_store",
    "watch_cuts",
]

_later = LazyImports(
    {
        "extarray.array.freezing": "freeze_at_end",
        "extarray.array.resizing": "give_back_freed",
        "extarray.storage.file_store": "FileStore",
        "extarray.storage.filesystem": "resolve_path",
        "extarray.storage.decoded": "show_frozen",
        "extarray.storage.memory": "MemoryStore",
    }
)


class Living(Stored, Resizable, Protocol):
    """An array that can be set up and attached to its store, as the core does it."""

    @property
    def _region(self) -> Region | None: ...
    @property
    def _has_places(self) -> bool: ...
    def _setup(
        self,
        axial: Axial,
        dtype: np.dtype[Any],
        chunks: tuple[int, ...],
        order: str,
        slow_to_fast: tuple[int, ...],
        places: NDArray[np.int64] | None,
        shape: Sequence[int],
        offset: Sequence[int],
    ) -> None: ...
    def _attach(
        self,
        region: Region | None,
        writable: bool,
        sparse: bool,
        hollow: bool,
        durable: bool,
        sums: Any = None,
        users: Users | None = None,
        trust: Trust | None = None,
        verifies: bool = False,
        sieve: Any = None,
        supply: Supply | None = None,
        frozen: Frozen | None = None,
    ) -> None: ...
    def _set_places(self, table: NDArray[np.int64]) -> None: ...
    def _set_bounds(self, shape: Sequence[int], offset: Sequence[int]) -> None: ...
    def _undo_growth(self, shape: Sequence[int], offset: Sequence[int], mark: Any) -> bool: ...
    def _watch(self, cuts: Counter | None, known: int, fill: Any) -> None: ...
    def _know_cuts(self, known: int, inner: tuple[Sequence[int], Sequence[int]] | None) -> None: ...

    @property
    def _original(self) -> Any: ...
    def _serve(self, host: Host) -> None: ...
    def _unverified(self, addresses: Iterable[int]) -> list[int]: ...
    def _know(self, addresses: NDArray[np.int64]) -> None: ...
    def _flush(self, last: bool = False) -> None: ...  # collective, if ranks share it


# -- beginnings ----------------------------------------------------------------------------------


def fresh_store(
    path: Any,
    shape: tuple[int, ...],
    header: Header,
    attrs: str,
    engine: str,
    overwrite: bool,
    durability: str,
    growth: int,
    hidden: bool,
    like: tuple[str, str] | None = None,
) -> tuple[FileStore | MemoryStore, Axial]:
    """Make the store of a fresh array, in the files of `path` or (None) in memory.

    If `hidden`, the files get their names when `publish` is called.
    """
    axial = Axial(grid_of(shape, header.chunks))
    longest = max(map(operator.mul, axial.grid, header.chunks), default=0)
    if max(longest, place_of(axial.size, header.chunk_bytes)) >= LIMIT:
        raise LimitError(
            f"an array of shape {shape} in chunks of {header.chunks} elements of {header.dtype} "
            "exceeds 2**63 - 1 bytes, or has an axis that long"
        )
    if path is None:
        return _later.MemoryStore(header, shape, axial, attrs, growth), axial
    place = _later.resolve_path(path)
    store: FileStore = _later.FileStore.create(
        place, header, axial, shape, attrs, engine, overwrite, durability, growth, hidden, like
    )
    return store, axial


def start(array: Any, store: Reader | MemoryStore, axial: Axial, writers: Writers) -> None:
    """Put a new array on an open store, shared by a policy of writers."""
    array._store = store
    array._writers = writers
    array._handle = os.urandom(16).hex()
    array._filling = False
    array._serve(_HOST)
    take_layout(array, axial)
    attach_store(array)
    watch_cuts(array)
    in_children(array, _inherit)
    writers.serve(array)


def _inherit(array: Living) -> None:
    """Drop, in a forked child, the locks held by the parent's threads, and half-done changes.

    An array in files is open for reading then; if its committed state cannot be found, it is
    closed.
    """
    core: Any = array
    still = array._writers.is_still()
    renew_lock(core)
    array._writers.make_locks()
    if not still or array.mode == "r":
        array._filling = False
    if array.closed:
        return
    try:
        if not still:
            take_layout(array, array._store.as_committed(array.axial))
        attach_store(array)
        watch_cuts(array)
    except (OSError, ExtArrayError):
        with contextlib.suppress(OSError):
            let_go(array)


# -- the core, set up from the store -------------------------------------------------------------


def take_layout(array: Living, axial: Axial, places: NDArray[np.int64] | None = None) -> None:
    """Take over the axes, the chunks and the bounds of the store.

    `places` are those of the elements of a chunk, if they are already known.
    """
    now = array._store.now
    header = now.header
    if places is None and axial.size:
        places = places_of(header.chunks, header.order)
    claim(axial)
    chunk = header.chunks, header.order, slow_to_fast(header.order, header.ndim), places
    array._setup(axial, header.dtype, *chunk, now.state.shape, now.state.offset)


def places_of(chunks: tuple[int, ...], order: str) -> NDArray[np.int64] | None:
    """Return the places of the elements in a chunk: a table, or None for orders with strides."""
    if has_strides(order):
        return None
    try:
        return positions(chunks, order)
    except MemoryError as error:
        raise ReserveError(
            f"no memory for the order {order!r} of chunks {chunks}: {error}"
        ) from None


def place_elements(array: Living) -> None:
    """Compute the table of places in a chunk, which is about as large as a chunk.

    This waits until there is a chunk: a file may promise huge chunks, and would cost memory.
    """
    places = places_of(array.chunks, array.order)
    if places is not None:
        array._set_places(places)


def attach_store(array: Living) -> None:
    """Use the store's region, in the way that the store allows now."""
    now = array._store.now
    if now.frozen is not None:
        _later.show_frozen(now, array.axial)
    array._attach(
        now.region,
        now.mode == "r+",
        now.header.sparse,
        now.hollow,
        now.is_durable or now.sends_writes,
        now.sums,
        now.users,
        now.trust,
        now.verify == "read",
        now.sieve,
        now.supply,
        None if now.decoded is None else now.decoded.core,
    )


def watch_cuts(array: Living) -> None:
    """Watch the store's counter of cuts, if it has one."""
    now = array._store.now
    if now.cuts is not None:
        fill = np.frombuffer(now.header.fill, array.dtype).reshape(())
        array._watch(now.cuts, now.cuts_known, fill)


def show_store(array: Living, axial: Axial) -> None:
    """Show the store's region and bounds; new axial vectors mean that axes are new, too."""
    now = array._store.now
    decoded = now.decoded
    is_other = now.frozen is not None and (decoded is None or decoded.table is not now.frozen)
    if now.region is not array._region or is_other:
        attach_store(array)
    elif decoded is not None:
        decoded.look()
    if axial is array.axial:
        array._set_bounds(now.state.shape, now.state.offset)
        array._know_cuts(now.cuts_known, None)
        if axial.size and not array._has_places:
            place_elements(array)
    else:
        take_layout(array, axial)
        watch_cuts(array)


def _table(array: Stored) -> FrozenTable:
    """Return the table of frozen chunks, which the store gives up when it closes."""
    decoded = _files(array).now.decoded
    if decoded is None:
        check(array)
    assert decoded is not None
    return decoded.table


@functools.cache
def _slots(cls: type) -> tuple[str, ...]:
    """Return the names of the attributes that an array has besides those of the core."""
    own = (getattr(kind, "__slots__", ()) for kind in cls.__mro__)
    return tuple(name for names in own for name in names if name != "__weakref__")


def held(array: Living) -> Any:
    """Return an array as it is now, whatever happens to its bounds, to go through its parts.

    The result shows the same elements, under the same indices, as long as it lives, and keeps parts
    cut off meanwhile from being given back.  Use it within one call only.
    """
    if array._original is not None:
        return array
    array._check()
    now: Any = array
    cls: Any = type(array)
    # A user's class may have a __new__ that takes arguments.
    new = ArrayCore.__new__(cls)
    hold(new, now)
    for name in _slots(cls):
        if hasattr(array, name):
            setattr(new, name, getattr(array, name))
    return new


def rows(array: Any) -> Iterator[Any]:
    """Iterate along axis 0, as long as the array keeps the axes that it has now."""
    if array.ndim == 0:
        raise TypeError("iteration over a 0-d array")
    array._check()
    return _rows(array, array.ndim, array.shape[0])


def _rows(array: Any, ndim: int, extent: int) -> Iterator[Any]:
    for i in range(extent):
        row = array[i]
        array._check_axes(ndim)
        yield row


# -- questions of the core -----------------------------------------------------------------------


class Host:
    """Answers the core's questions about an array with a store; see `_core._state.Host`."""

    __slots__ = ()

    def name(self, array: Stored) -> str:
        """Return the name of the array in messages."""
        return "the array" if array.path is None else f"'{array.path}'"

    def path(self, array: Stored) -> str | None:
        """Return the path for system errors."""
        return None if array.path is None else str(array.path)

    def read_only(self, array: Stored, what: str) -> ReadOnlyError:
        """Return the error for a change of an array that is open for reading."""
        if array._store.now.elements_only:
            return ReadOnlyError(
                f"cannot {what} {array._name()}: it was opened with share='elements', which only "
                "writes elements within the bounds; do it in the process that has it open with "
                "mode='r+' and call refresh() here, or open it with share=True"
            )
        if array._store.now.why_read_only:
            return ReadOnlyError(f"cannot {what} {array._name()}: {array._store.now.why_read_only}")
        if not array._store.now.is_forked:
            return ReadOnlyError(
                f"cannot {what} {array._name()}: opened with mode 'r'; reopen with mode='r+'"
            )
        return ReadOnlyError(
            f"cannot {what} {array._name()}: this process was forked from its writer, and can "
            "only read; write in the parent, or open it here with mode='r+' once it is closed "
            "there"
        )

    def shares(self, array: Stored, value: Source) -> bool:
        """Tell whether an array that is read late shares elements with this one."""
        return getattr(value, "_identity", None) == array._store.now.header.uuid

    def elements(self, value: Source) -> NDArray[Any]:
        """Return all elements of an array that is read late, verified."""
        elements: NDArray[Any] = value._verified()._fetch()
        return elements

    def read_index(
        self,
        array: Any,
        key: Any,
        out: NDArray[Any] | None,
        order: Literal["C", "F"],
        frame: Frame,
    ) -> Any:
        """Read by an index other than a box."""
        return indexable.read_index(array, key, out, order, frame)

    def write_index(self, array: Any, key: Any, value: Any, frame: Frame) -> None:
        """Write by an index other than a box."""
        indexable.write_index(array, key, value, frame)

    def write_late(self, array: Any, key: Any, value: Any) -> None:
        """Write an array that is read late, while reading it."""
        # A view of the selection finds overlaps with other views, and streams.
        array.lazy[key] = value

    def unmasked(self, array: Any, values: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return masked values ready to be assigned to elements, or to a field of this dtype."""
        if dtype == array.dtype or not np.ma.is_masked(values):
            return masked_arrays.unmasked(values, array.dtype, array.fill_value)
        raise ArgumentError("cannot store masked values in a field; give .filled() of them")

    def texts(self, array: Any, values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return values of a ``StringDType`` ready to be assigned to elements, or to a field."""
        return missing.plain_texts(values, dtype, array.attrs if dtype == array.dtype else None)

    def lends(self, array: Stored) -> bool:
        """Tell whether views may store to chunks through a mapping."""
        return not array._store.now.elements_only

    def sync(self, array: Stored) -> None:
        """Bring the elements that were written to the disk."""
        commits = array._store.commits
        if commits is not None:
            commits.sync_elements()

    def look_at_cuts(self, array: Living) -> None:
        """Take up all cuts that were counted before this call."""
        with array._writers.resizing:  # so that no refresh comes in between
            array._check()
            number, inner = _reader(array).inner_box(array.axial)
            watch_cuts(array)  # the counter may be another one
            array._know_cuts(number, inner)

    def unfit(
        self, array: Stored, addresses: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the chunks that do not match their checksums, and those unclear (I11)."""
        return _reader(array).unfit_chunks(addresses)

    def heal(self, array: Living, addresses: NDArray[np.int64]) -> None:
        """Give the fill value to chunks that do not match their checksums; know all clear ones."""
        store = _files(array)
        if store.now.elements_only:  # chunks outside the bounds are not this writer's
            return
        with store.chunk_sums.healing:
            addresses = np.array(array._unverified(addresses), np.int64)
            wrong, untold = store.chunk_sums.unfit_chunks(addresses)
            for address in wrong:
                store.chunk_sums.empty_chunk(int(address))
            array._know(np.setdiff1d(addresses, untold))

    def look_at_table(self, array: Living) -> None:
        """Show the core the table of frozen chunks that counts now."""
        with array._writers.steady:  # so that no change of the metadata comes in between
            array._check()
            now = array._store.now
            if now.frozen is not None:
                now.frozen = now.frozen.latest()
                if now.decoded is None or now.decoded.table is not now.frozen:
                    attach_store(array)

    def thaw(self, array: Stored, addresses: NDArray[np.int64]) -> None:
        """Give frozen chunks their raw bytes back."""
        _table(array).thaw(addresses)

    def alone(self, array: Stored) -> AbstractContextManager[bool]:
        """Keep other processes from writing to chunks; yield whether none may do that now."""
        return _table(array).alone()

    def rewrite(
        self,
        array: Stored,
        frozen: Frozen,
        addresses: NDArray[np.int64],
        chunks: list[NDArray[np.uint8]],
        rests: list[Any],
    ) -> bool:
        """Give frozen chunks other bytes in new blobs, unless they must be thawed.

        `rests`: of each chunk, the blocks that are neither decoded nor written to.
        """
        decoded = array._store.now.decoded
        if decoded is None or decoded.core is not frozen:  # later metadata have the table
            return False
        return decoded.table.rewrite(addresses, chunks, rests)

    def damaged(self, array: Stored, frame: Frame, address: int) -> ChecksumError:
        """Return the error for a chunk that fails its checksum; indices are the frame's."""
        start, stop = (place_of(q, array.chunk_bytes) for q in (address, address + 1))
        index = array.axial.index(address)
        box = elements_of_chunk(index, frame.chunks, frame.offset, frame.shape)
        name, text = f"{array.path}.xta", ", ".join(f"{s.start}:{s.stop}" for s in box)
        what = f"its elements are [{text}]"
        if any(s.start == s.stop for s in box):
            what = "it has no elements within the bounds"
        error = ChecksumError(
            f"chunk {address} of {array._name()} does not match its checksum: it is damaged; "
            f"{what}, bytes {start} to {stop - 1} of '{name}'; restore the file from a copy, "
            "overwrite the whole chunk, or "
            + hint("open the array with verify='never'", "set EXTARRAY_VERIFY=never")
            + " to read it unverified"
        )
        error.filename, error.chunk, error.box = name, address, box
        error.start, error.stop = start, stop
        return error


def _reader(array: Stored) -> Reader:
    """Return the files, or other store, of an array that is not in memory alone."""
    files: Reader | None = array._store.files
    assert files is not None
    return files


def _files(array: Stored) -> FileStore:
    """Return the file store of an array that is open for writing."""
    files = array._store.files
    assert files is not None
    return files


_HOST = Host()


# -- commits of others ---------------------------------------------------------------------------


def refresh(array: Living, on_replaced: Literal["raise", "reopen"]) -> bool:
    """Take up a writer's commits; see `ExtArray.refresh`."""
    if on_replaced not in ("raise", "reopen"):
        raise ArgumentError(f"on_replaced {on_replaced!r} is not valid; use 'raise' or 'reopen'")
    with array._writers.steady:
        array._check()
        files: Reader | None = array._store.files
        axial = None if files is None else files.refresh(array.axial)
        if axial is not None:
            show_store(array, axial)
        reopen = on_replaced == "reopen"
        if files is None or not files.now.follows:
            return axial is not None
        if (axial is None or reopen) and files.replaced:
            if not reopen:
                raise replaced_error(array)
            _become_successor(array)
            return True
        return axial is not None


def is_replaced(array: Living) -> bool:
    """Tell whether the files were replaced; see `ExtArray.replaced`."""
    array._check()
    files: Reader | None = array._store.files
    return files is not None and files.replaced


def replaced_error(array: Living) -> ReplacedError:
    """Return the error for an array whose files were replaced."""
    return ReplacedError(
        errno.ENOENT,
        f"{array._name()} cannot be followed: its files were replaced, removed or moved since it "
        "was opened; open it again, or refresh with on_replaced='reopen'",
        str(array.path),
    )


def _become_successor(array: Any) -> None:
    """Become the array that now has the path, after the files of this one were replaced."""
    before = _reader(array)
    now = before.now
    try:
        store, axial = array._writers.open(
            now.path, now.mode, 0, now.engine, before.durability, now.verify
        )
    except MissingError:
        raise replaced_error(array) from None
    array._store = store
    array._attach(None, False, False, False, False)
    take_layout(array, axial)
    attach_store(array)
    watch_cuts(array)
    before.close()


def take_store(array: Any, store: FileStore | MemoryStore) -> None:
    """Go on with another store, of the same bounds and history, which has replaced this one."""
    before = array._store
    is_other = store.now.header.dtype != before.now.header.dtype
    array._store = store
    if is_other:
        array._attach(None, False, False, False, False)
        take_layout(array, array.axial)
    attach_store(array)
    watch_cuts(array)
    before.close()


# -- ends ----------------------------------------------------------------------------------------


def check_not_held(array: Living, what: str) -> None:
    """Raise if the array is inside a commit of several arrays."""
    if array._store.now.held is not None:
        raise ArgumentError(
            f"cannot {what} {array._name()} inside a block of extarray.commit; do it "
            "after the block"
        )


def flush(array: Living) -> None:
    """Bring everything to the disk; see `ExtArray.flush`."""
    with array._writers.committing:
        array._check()
        check_not_held(array, "flush")
        array._flush()
        files: Reader | None = array._store.files
        if files is not None and (files.now.handed_out or files.now.others is not None):
            files.drop_copies()


def flush_store(array: Living, last: bool) -> None:
    """Bring the checksums up to date, and then everything to the disk."""
    store = array._store.files
    if store is None:
        return
    sums = store.now.sums
    # Several ranks bring sums up to date together.
    if sums is None or sums.are_settled or not sums.alone:
        store.flush()
        return
    core: Any = array
    note_shown(core, last)
    quiet = store.chunk_sums.renew_sums(core)
    store.flush()
    sums.settle(core, quiet)


def close(array: Living) -> None:
    """Let go of the files and of the writer's lock; see `ExtArray.close`."""
    with array._writers.resizing:
        check_not_held(array, "close")
        now = array._store.now
        try:
            if not array.closed and now.mode == "r+":
                with contextlib.suppress(OSError):
                    _later.give_back_freed(array)
            if not array.closed and now.mode == "r+" and now.frozen is not None:
                with contextlib.suppress(OSError):
                    _later.freeze_at_end(array)
            sums = now.sums
            if not array.closed and sums is not None and not sums.are_settled:
                # After an error the sums stay in doubt, which only costs certainty.
                with contextlib.suppress(OSError):
                    array._flush(last=True)
        finally:
            let_go(array)


def open_in_files() -> list[Any]:
    """Return the open arrays in files of this process, in the order of opening."""
    return [a for a in heirs(_inherit) if a._store.files is not None and not a.closed]


@atexit.register
def _close_at_exit() -> None:
    with contextlib.ExitStack() as steps:  # close all, whatever fails
        for array in open_in_files():
            # Do not wait for ranks, which may end for reasons of their own, nor for threads in the
            # midst of a change, which never finish it.
            if not hasattr(array, "comm") and array._writers.is_still():
                steps.callback(array.close)
                steps.callback(array._store.warn_if_writer)  # runs before close


def let_go(array: Living) -> None:
    """Close an array and its store without bringing anything to the disk."""
    array._attach(None, False, False, False, False)
    array._store.close()


def publish(array: Living) -> None:
    """Give the files of a hidden array their names; on an error close it and remove them."""
    if (files := array._store.files) is not None:
        with OnError(let_go, array):
            files.take_names()
