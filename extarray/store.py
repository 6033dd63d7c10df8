"""Where an array lives: a pair of files.

A store makes room, commits growth, and keeps the attributes; it never looks at elements.  The
order of things is the same everywhere: room first, then data, then the growth log, and last the
superblock that makes all of it count.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import warnings
import weakref
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray import lock
from extarray._core._axial import Axial
from extarray._core._crc import crc32c
from extarray._core._mapping import Counter, Region, Views, punch_range, reserve_range, zero_range
from extarray.attrs import check_attrs
from extarray.engine import choose_engine, maps_no_holes
from extarray.errors import (
    CorruptError,
    ExistsError,
    FormatError,
    MissingError,
    PartnerError,
    RecoveryWarning,
    ShapeError,
    TruncatedError,
    storage_error,
)
from extarray.filesystem import (
    CAN_RESERVE,
    create_beside,
    datasync,
    erase_range,
    family,
    file_names,
    fill_range,
    fresh_name,
    publish,
    read_all,
    real_name,
    reserve_zeros,
    same_file,
    sync_folders,
    write_all,
)
from extarray.member import Member, without
from extarray.metadata import (
    BEGUN_SLOT,
    BLOCK,
    CUTS_BYTES,
    EXTENT_HEAD_BYTES,
    FLUSHED_SLOTS,
    GROUP_BLOCK,
    LAST_COMMIT,
    LIVE_SLOTS,
    MAGIC,
    NO_GROUP,
    PENDING_SLOTS,
    SEAL_BYTES,
    SEAL_MAGIC,
    SPARED_SLOTS,
    Fresh,
    Header,
    Superblock,
    attrs_room,
    check_records,
    decode_extent_head,
    decode_header,
    decode_records,
    decode_superblock,
    encode_extent_head,
    encode_fresh,
    encode_record,
    encode_superblock,
    extent_capacity,
    extent_of_record,
    header_bytes_of,
    latest_sequence,
    places_fit,
    record_bytes,
    superblock_bytes,
    values_fit,
)
from extarray.sums import SUMS_AT_ONCE, Sums, read_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from extarray._core._array import ArrayCore

__all__ = ["FileStore"]

SETTLED_SLOTS = (*SPARED_SLOTS, *PENDING_SLOTS)
SECTOR = 512
LONGEST_HOLE_AHEAD = 1 << 30
# Of the growth log, at a time.
CHECKED_BYTES = 1 << 20
# A reader that meets a commit half way reads again; a state that stays wrong is damaged.
ATTEMPTS = 100

# A pipe must not hold up who opens it; for files the second flag means nothing.
_OPEN_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK


# Axes, sides and grids of records of the growth log.
_Log = tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]


class _State(NamedTuple):
    """A committed state, as read."""

    slot: int  # of its superblock
    state: Superblock
    axial: Axial
    attrs: str
    extents: list[int]  # of its growth log


class _Making(NamedTuple):
    """How a new pair takes its names."""

    fresh: tuple[str, ...]  # names under which the files are made
    names: tuple[str, ...]
    overwrite: bool
    old: int  # descriptor of the metadata that are replaced, locked; -1: there are none


class News(NamedTuple):
    """What a newer state has that the present one has not, as read."""

    state: Superblock
    log: _Log | None  # None: other axial vectors have it
    extents: list[int]  # of the growth log
    attrs: str
    cuts: int  # that there were, at least


# Stores that hold a writer's lock: a forked child must let go of it.
_writers: weakref.WeakSet[FileStore] = weakref.WeakSet()


class FileStore(Member):
    """A pair of files: ``.xmd`` with the metadata, ``.xta`` with the chunks.

    Made by `FileStore.create` and `FileStore.open`.

    Attributes
    ----------
    hollow : bool
        A load from a hole, through the mapping, may find no space.
    unclean : bool
        Elements of the grid outside the bounds may hold something else than the fill value, and
        chunks there may have no disk space: the bounds have moved in, an append failed, or the last
        writer died.
    cuts : Counter or None
        How many times chunks have become holes; None where those hold the fill value, as all do.
    cuts_known : int
        How many at least before the state that is known.
    sums : Sums or None
        Checksums of the chunks, where a writer has to keep any.
    views : Views
        Counts the views of chunks that are out.
    postponed : list of (int, int)
        Bytes to give back when no view is.
    """

    shared = False  # with other writers
    # Bytes of which the system's cache may keep the pages together, and write them together.
    given_back_together = 1 << 21

    header: Header
    state: Superblock
    attrs: str
    region: Region | None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mode = "r"
        self.engine = "mmap"
        self.is_durable = False  # what is changed is on the disk when a call returns
        self.region = None
        self.hollow = False
        self.unclean = False
        self.cuts: Counter | None = None
        self.cuts_known = 0
        self._cuts_made = 0  # as the file says
        self._cuts_then: int | None = None  # when an axis came, and the count went elsewhere
        self.sums: Sums | None = None
        self.views = Views()
        self.postponed: list[tuple[int, int]] = []
        self._metadata = -1
        self._data = -1
        self._length = 0  # of .xta, where this store has lengthened it
        self._extents: list[int] = []
        self._new_entry = False  # names that this store has given may not be on the disk ...
        self._found_entry = False  # ... and those that it has found
        self._making: _Making | None = None  # until the files have their names
        self._unsettled = False  # a cut of the bounds may not be on the disk
        self._safe_bytes = 0  # length of .xta that is on the disk, as far as this store knows
        # Array with a decision that is missing, and what is wrong with it, if it is there.
        self._orphaned: tuple[str, FormatError | None] | None = None
        self._has_seal = False  # in .xta, whatever the state says
        # States that a power cut cannot take away; their attributes must stay where they are.
        self._durable: dict[int, Superblock] = {}
        self._rooms: set[tuple[int, int]] = set()  # for attributes: (offset, capacity)
        self._fork_listener: weakref.WeakMethod[Callable[[], None]] | None = None
        # The working directory may change.
        self._names = tuple(os.path.abspath(name) for name in file_names(path))

    # -- creation ----------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: Path,
        header: Header,
        axial: Axial,
        shape: tuple[int, ...],
        attrs: str,
        engine: str,
        overwrite: bool,
        durability: str,
        growth: int,
        hidden: bool = False,
    ) -> FileStore:
        """Make a pair of files and open it for writing.

        The files are made under other names and take theirs when they are whole.  The array is
        there from the moment at which its metadata have their name: until the data have theirs,
        whoever opens them finds them under the other one.  So a crash leaves this array or what was
        before, and an array that is overwritten stays valid for those who have it open.

        With `hidden` they take their names with `take_names`, and are gone if that never comes.
        """
        self = cls(path)
        self.header = header
        self.attrs = attrs
        self.mode = "r+"
        self.is_durable = durability == "commit"
        # A link stays a link, and leads to the new file.
        names = tuple(map(real_name, self._names)) if overwrite else self._names
        fresh = tuple(fresh_name(name, header.uuid) for name in names)
        self._making = _Making(fresh, names, overwrite, -1)
        try:
            with family(f"cannot create '{path}'"):
                for name in file_names(path):
                    if os.path.lexists(name) and not overwrite:
                        raise ExistsError(
                            errno.EEXIST, "it exists; open it, or give overwrite=True", name
                        )
                self._lock_present()
                self._data = create_beside(fresh[1], names[1] if overwrite else None)
                self._metadata = create_beside(fresh[0], names[0] if overwrite else None)
                self.engine = choose_engine(engine, self._data, True)
                self.hollow = header.sparse and maps_no_holes(self._data)
                lock.acquire(self._metadata, path, 0)
                self._write_first(axial, shape, attrs, growth)
            if not hidden:
                self.take_names()
        except BaseException:
            self._withdraw()
            self._close_files()
            raise
        _writers.add(self)
        return self

    def _lock_present(self) -> None:
        """Keep others from writing to what is to be replaced, if there is anything."""
        making = self._making
        assert making is not None
        if not making.overwrite or making.old >= 0 or not os.path.exists(making.names[0]):
            return
        present, name, flags = FileStore(self.path), making.names[0], os.O_RDWR | _OPEN_FLAGS
        try:
            present._metadata = os.open(name, flags)
            fd = present._locked(name, flags, 0)
            try:
                present._read_header()
                # Whether it was to change with others makes no difference any more.
                present.state = present._whole_state([]).state
            except FormatError:
                pass  # what is damaged may be replaced
            else:
                present.conclude_members()
            present._metadata = -1
            self._making = making._replace(old=fd)
        finally:
            present._close_files()

    def take_names(self) -> None:
        """Give the files of a new pair their names.  On an error they are gone."""
        try:
            with family(f"cannot create '{self.path}'"):
                self._lock_present()  # another one may have come meanwhile
                self._rename_files()
        except BaseException:
            self._withdraw()
            raise

    def _rename_files(self) -> None:
        making = self._making
        assert making is not None
        fresh, names, overwrite, old = making
        replaces = old >= 0
        if replaces or self.is_durable:
            # After a loss of power, too, there is this array or the one before.
            self._sync_data()
            self._sync_state()
        publish(fresh[0], names[0], overwrite)
        if replaces:
            with family(f"'{self.path}' is replaced, but may not be on the disk"):
                sync_folders(names)
        try:
            publish(fresh[1], names[1], overwrite)
        except OSError:
            if not replaces:
                raise
        if self.is_durable:
            sync_folders(names)
        self._new_entry = not self.is_durable
        self._making = None
        if replaces:
            os.close(old)

    def _withdraw(self) -> None:
        """Remove the files of a pair that was to take its names, unless it has replaced another."""
        making, self._making = self._making, None
        if making is None:
            return
        fresh, names, _, old = making
        made = (self._metadata, self._data)
        if old >= 0 and same_file(made[0], names[0]):
            with contextlib.suppress(OSError):
                os.replace(fresh[1], names[1])
        else:
            named = [name for fd, name in zip(made, names, strict=True) if same_file(fd, name)]
            for name in (*named, *fresh):
                with contextlib.suppress(OSError):
                    os.unlink(name)
        if old >= 0:
            os.close(old)

    def _write_first(self, axial: Axial, shape: tuple[int, ...], attrs: str, growth: int) -> None:
        """Write the header and the first commit."""
        data_bytes = axial.size * self.header.chunk_bytes
        first = Superblock(
            sequence=0,
            sealed=False,
            unclean=False,
            n_segments=0,
            data_bytes=data_bytes,
            attrs_offset=0,
            attrs_bytes=0,
            attrs_capacity=0,
            attrs_crc=0,
            spare_offset=0,
            spare_capacity=0,
            end=0,
            group=NO_GROUP,
            shape=shape,
            offset=(0,) * self.header.ndim,
            grid=axial.grid,
            growth=growth,
        )
        fresh = encode_fresh(self.header, first, [axial._record(0)], attrs, LIVE_SLOTS[:1])
        self._take(fresh)
        self.reserve(0, data_bytes)
        if self.header.checksum:
            self.sums = Sums(self._metadata, self.header, [], True, self.path)
        write_all(self._metadata, fresh.image, 0)
        lock.note_holder(self._metadata, True)
        self.region = self._region_of(data_bytes)
        self._count_cuts(True)

    def _region_of(self, data_bytes: int) -> Region:
        """Window for a writer."""
        return self._map(data_bytes, True, self.engine == "mmap")

    def _take(self, fresh: Fresh) -> None:
        """Have a fresh ``.xmd``."""
        _, self.header, self.state, self._extents = fresh

    # -- opening -----------------------------------------------------------------------------

    @classmethod
    def open(
        cls, path: Path, mode: str, timeout: float | None, engine: str, durability: str
    ) -> tuple[Self, Axial]:
        """Open a pair of files."""
        timeout = lock.check_timeout(timeout)
        recover = False
        for attempt in range(ATTEMPTS):
            self = cls(path)
            try:
                with family(f"cannot open '{path}'"):
                    axial = self._open(mode == "r+", timeout, engine, recover)
                    if same_file(self._metadata, self._names[0]):
                        break
            except (PartnerError, TruncatedError):
                replaced = not same_file(self._metadata, self._names[0])
                self._close_files()
                # Between the names of the two files, an overwritten pair fits for no reader.
                if attempt == ATTEMPTS - 1 or (recover and not replaced):
                    raise
                recover = attempt >= 5 and not replaced
                time.sleep(0.002)
            except BaseException:
                self._close_files()
                raise
            # Between the opening of the one file and the other, the pair was overwritten.
            self._close_files()
        self.mode = mode
        self.is_durable = durability == "commit"
        if mode == "r+":
            _writers.add(self)
            self._found_entry = True  # perhaps nobody has flushed since they were given
            if self.is_durable:
                # What is built on must not be less durable than what is built.
                try:
                    self.flush()
                except BaseException:
                    self._close_files()
                    raise
        return self, axial

    def _open(self, writable: bool, timeout: float | None, engine: str, recover: bool) -> Axial:
        """Open the files; with `recover`, in a state that a power cut has spared."""
        metadata, data = file_names(self.path)
        flags = (os.O_RDWR if writable else os.O_RDONLY) | _OPEN_FLAGS
        self._metadata = os.open(metadata, flags)
        if writable:
            self._metadata = self._locked(metadata, flags, timeout)
        try:
            self._read_header()
            # Before the state: what is cut off after it is then seen to be.
            self.cuts_known = self._cuts_made = self._read_cuts()
            found = self._read_state()
        except FormatError as error:
            raise type(error)(f"'{metadata}': {error}") from None
        try:
            self._data = self._open_data(data, flags)
        except FileNotFoundError:
            raise MissingError(
                errno.ENOENT,
                f"cannot open '{self.path}': the metadata is there, its partner with the data is "
                "missing; put the two files side by side again",
                data,
            ) from None
        # A writer may be at work: a reader looks again before it calls a file damaged.
        for _ in range(ATTEMPTS):
            problem = self._check_data(found.state)
            if problem is None or writable:
                break
            newer = self._read_state()
            if newer.state.sequence == found.state.sequence:
                break
            found = newer
        if problem is not None:
            recovered = self._recovered() if recover else None
            if recovered is None:
                raise problem
            found = recovered
        if self._orphaned is not None:
            place, fault = self._orphaned
            what = (
                f"'{self.path}' was to change together with other arrays, and '{place}', which "
                "tells whether they have, is"
            )
            if writable and fault is not None:
                raise CorruptError(
                    f"{what} damaged ({fault}); repair that one first, or use "
                    f"check('{self.path}', repair=True, force=True), which takes the change back"
                )
            warnings.warn(
                f"{what} {'not there' if fault is None else 'damaged'}: opened in the state before",
                RecoveryWarning,
                stacklevel=4,
            )
        if problem is not None or found.slot in SPARED_SLOTS:
            warnings.warn(
                f"'{self.path}' is not whole, as after a loss of power: opened in the newest state "
                f"that is, of shape {found.state.shape}",
                RecoveryWarning,
                stacklevel=4,
            )
        state, axial, self.attrs = found.state, found.axial, found.attrs
        # Other states that were looked at since, and are not whole, may have other ones.
        self._extents = found.extents
        self.state = state
        self.unclean = state.unclean
        self.engine = choose_engine(engine, self._data, writable)
        # A writer may shrink the array, and make holes, while a reader has it open.
        self.hollow = (self.header.sparse or not writable) and maps_no_holes(self._data)
        if writable:
            self._begin_writing(found.slot)
            if self.header.checksum:
                self.sums = Sums.load(
                    self._metadata, self.header, axial.size, self.state, self._extents, self.path
                )
        self.region = self._map(self.state.data_bytes, writable, self.engine == "mmap")
        self._count_cuts(writable)
        return axial

    def _open_data(self, name: str, flags: int) -> int:
        """Descriptor of ``.xta``, also where its creator did not come to give it that name."""
        fresh = fresh_name(real_name(name), self.header.uuid)
        if not os.access(fresh, os.F_OK):
            return os.open(name, flags)
        try:
            fd = os.open(fresh, flags)
        except FileNotFoundError:  # by now it has
            return os.open(name, flags)
        if flags & os.O_RDWR:
            with contextlib.suppress(OSError):
                os.replace(fresh, real_name(name))
            # What the creator leaves between a link and an unlink.
            for other in (fresh, fresh_name(real_name(self._names[0]), self.header.uuid)):
                if same_file(fd, name):
                    with contextlib.suppress(OSError):
                        os.unlink(other)
        return fd

    def _read_header(self) -> None:
        first = read_all(self._metadata, BLOCK, 0)
        if len(first) == BLOCK and first.startswith(MAGIC) and first[8:10] == b"\1\0":
            # A description of many fields makes a header of several blocks.
            wanted = min(header_bytes_of(self._metadata), os.fstat(self._metadata).st_size)
            if wanted > BLOCK:
                first = read_all(self._metadata, wanted, 0)
        self.header = decode_header(first)

    def _locked(self, metadata: str, flags: int, timeout: float | None) -> int:
        """Descriptor of ``.xmd`` with the writer's lock on it."""
        fd = self._metadata
        while True:
            self._lock(fd, timeout)
            # Whoever held the lock may have replaced the files.
            if os.path.samestat(os.fstat(fd), os.stat(metadata)):
                return fd
            os.close(fd)
            self._metadata = -1
            fd = self._metadata = os.open(metadata, flags)

    def _lock(self, fd: int, timeout: float | None) -> None:
        """Take the writer's lock on ``.xmd``."""
        lock.acquire(fd, self.path, timeout)

    def _begin_writing(self, slot: int) -> None:
        """Make ready, with the lock, to be the writer; of a state, and the slot where it was."""
        self._take_over(slot)
        if not self.state.sealed:
            # The last writer died, perhaps in the midst of an append, or after a cut.
            self.release(self.state.data_bytes)
            self.unclean = self._unsettled = True
        lock.note_holder(self._metadata, True)

    def _end_writing(self) -> None:
        """Leave the files as the next writer likes to find them, and drop the lock."""
        if self.held is not None:  # forgotten in the midst of a block
            self.roll_back()
        try:
            # A full disk leaves the pair unsealed, which costs a check and nothing else.
            with contextlib.suppress(OSError):
                self._seal()
        finally:
            with contextlib.suppress(OSError):
                lock.note_holder(self._metadata, False)
            with contextlib.suppress(OSError):  # closing drops it too, but for a forked child
                lock.release(self._metadata)

    def _take_over(self, begun: int) -> None:
        """Begin to write in the state of a slot, where the last writer ended.

        Perhaps that was not of its own will.
        """
        numbers, live = [self.state.sequence], []
        for slot, block in self._superblocks((*LIVE_SLOTS, *SPARED_SLOTS)):
            numbers.append(block.sequence)
            if slot in LIVE_SLOTS:
                live.append(block.sequence)
            else:
                self._durable[slot] = block
        # Also of what is newer and not whole: it must never come back.
        newest = max(numbers)
        if newest > LAST_COMMIT:
            raise CorruptError(
                f"'{self.path}.xmd' has commit {newest}, and no number for a next one; copy the "
                "array into a fresh one"
            )
        self._resolve_pendings(begun)
        if live[:1] != [self.state.sequence] or newest != self.state.sequence:
            for sequence in (newest + 1, newest + 2):
                self._write_superblock(self.state._replace(sequence=sequence, superseded=False))
            datasync(self._metadata)

    def _superblocks(self, slots: Sequence[int]) -> list[tuple[int, Superblock]]:
        """Slots and superblocks that are whole, newest first; of equal ones the first slot."""
        size, first = superblock_bytes(self.header.ndim), min(slots)
        length = (max(slots) - first) * BLOCK + size
        data = read_all(self._metadata, length, self.header.superblock_offset(first))
        return self._decode_superblocks(data, slots)

    def _decode_superblocks(
        self, data: bytes, slots: Sequence[int]
    ) -> list[tuple[int, Superblock]]:
        size, first = superblock_bytes(self.header.ndim), min(slots)
        found = []
        for slot in slots:
            block = decode_superblock(data[(slot - first) * BLOCK :][:size], self.header.ndim)
            if block is not None:
                found.append((slot, block))
        return sorted(found, key=lambda pair: pair[1].sequence, reverse=True)

    def _read_state(self) -> _State:
        """The newest state that is whole, and counts."""
        self._orphaned = None
        found = self._undisputed_state()
        if found is not None:
            return found
        newest = max((block.sequence for _, block in self._superblocks(LIVE_SLOTS)), default=-1)
        known = -1
        with contextlib.suppress(CorruptError):
            found = self._whole_state(self._decided_states(newest))
            known = found.state.sequence
            if known >= newest:
                return found
        # The newest superblock is not whole: a pending state before it may be.
        return self._whole_state(self._decided_states(known))

    def _undisputed_state(self) -> _State | None:
        """The newest state of those that commits write, where nothing else claims to be newer."""
        # The others first, so that they are not newer while a writer is at work.
        length = (SETTLED_SLOTS[-1] - SETTLED_SLOTS[0] + 1) * BLOCK
        others = read_all(self._metadata, length, self.header.superblock_offset(SETTLED_SLOTS[0]))
        for slot, state in self._superblocks(LIVE_SLOTS)[:1]:
            if latest_sequence(others, SETTLED_SLOTS) <= state.sequence:
                with contextlib.suppress(CorruptError):
                    return self._whole(slot, state)
        return None

    def _whole_state(self, decided: list[tuple[int, Superblock]]) -> _State:
        """The newest state that is whole, of the superblocks and of those that groups decided."""
        # First, so that they are not newer than the live ones while a writer is at work.
        spared = decided + self._superblocks(SPARED_SLOTS)
        spared.sort(key=lambda pair: pair[1].sequence, reverse=True)
        problem: Exception = CorruptError("no superblock is whole")
        found = None
        try:
            found = self._live_state()
        except CorruptError as error:
            problem = error
        for slot, state in spared:
            if found is None or state.sequence > found.state.sequence:
                with contextlib.suppress(CorruptError):
                    return self._whole(slot, state)
        if found is None:
            raise problem
        return found

    def _live_state(self) -> _State:
        """The newest whole state of the superblocks that commits write."""
        problem: Exception = CorruptError("no superblock is whole")
        before: list[tuple[int, Superblock]] = []
        for _ in range(ATTEMPTS):
            blocks = self._superblocks(LIVE_SLOTS)
            for slot, state in blocks:
                try:
                    return self._whole(slot, state)
                except CorruptError as error:
                    problem = error
            # Either damaged, or read while a writer was at work.
            if blocks and blocks == before:
                break
            before = blocks
        raise problem

    def _whole(self, slot: int, state: Superblock) -> _State:
        """A state with all that belongs to it; CorruptError where something is damaged."""
        self._extents = []  # those of a newer state, which is not whole, are free space in this one
        axes, sides, grids = self._read_log(0, state.n_segments)
        axial = Axial._replay(axes, sides, grids, state.grid)
        self._check_state(state, self._extents)
        return _State(slot, state, axial, self._read_attrs(state), self._extents)

    def _recovered(self) -> _State | None:
        """The newest of the states that commits do not touch, where it and ``.xta`` are whole."""
        spared = self._superblocks(SPARED_SLOTS)
        spared += self._decided_states(spared[0][1].sequence if spared else -1)
        for slot, state in sorted(spared, key=lambda pair: pair[1].sequence, reverse=True):
            with contextlib.suppress(CorruptError):
                if self._check_data(state) is None:
                    return self._whole(slot, state)
        return None

    def _check_state(self, state: Superblock, extents: list[int]) -> None:
        if not (values_fit(state, self.header) and places_fit(state, self.header, extents)):
            raise CorruptError("the superblock is damaged: its values are not possible")

    def _read_log(self, first: int, stop: int) -> _Log:
        """Axes, sides and grids of the records first ... stop - 1 of the growth log."""
        uuid, size = self.header.uuid, record_bytes(self.header.ndim)
        length = os.fstat(self._metadata).st_size
        if stop < first or (stop - first) * size > length:
            raise CorruptError("the growth log is shorter than the superblock says")
        # Address space and no more, as yet: what is no log fails its checksum before much is read.
        checked = first
        try:
            records = np.empty((stop - first, size), np.uint8)
        except MemoryError:
            raise CorruptError("the growth log is longer than memory") from None
        extents = list(self._extents) or [self.header.first_extent]
        before = number = 0  # records in the extents before this one; number of this one
        while before < stop:
            if number == len(extents):
                head = read_all(self._metadata, EXTENT_HEAD_BYTES, extents[-1])
                following = decode_extent_head(head, uuid)
                if not 0 < following < length:
                    raise CorruptError("the growth log is shorter than the superblock says")
                extents.append(following)
            capacity = extent_capacity(number)
            low, high = max(first, before), min(stop, before + capacity)
            if low < high:
                offset = extents[number] + EXTENT_HEAD_BYTES + (low - before) * size
                part = read_all(self._metadata, (high - low) * size, offset)
                if len(part) != (high - low) * size:
                    raise CorruptError("the growth log is cut off")
                rows = records[low - first : high - first]
                rows[...] = np.frombuffer(part, np.uint8).reshape(rows.shape)
                if (high - checked) * size > CHECKED_BYTES:
                    check_records(records[checked - first : high - first], uuid, checked)
                    checked = high
            before += capacity
            number += 1
        check_records(records[checked - first :], uuid, checked)
        self._extents = extents
        return decode_records(records)

    def _read_attrs(self, state: Superblock) -> str:
        if state.attrs_offset + state.attrs_bytes > os.fstat(self._metadata).st_size:
            raise CorruptError("the attributes are cut off")
        blob = read_all(self._metadata, state.attrs_bytes, state.attrs_offset)
        if len(blob) != state.attrs_bytes or crc32c(blob) != state.attrs_crc:
            raise CorruptError("the attributes are damaged")
        return check_attrs(blob)

    def _check_data(self, state: Superblock) -> Exception | None:
        """What is wrong with ``.xta`` in a state, if anything."""
        metadata, name = file_names(self.path)
        size = os.fstat(self._data).st_size
        seal = SEAL_MAGIC + self.header.uuid
        start = max(0, size - SEAL_BYTES)
        end = read_all(self._data, SEAL_BYTES, start)
        # A loss of power tears writes between sectors: up to there our own is as it should be.
        torn = -start % SECTOR
        if end.startswith(SEAL_MAGIC) and end != seal and not (torn and end[:torn] == seal[:torn]):
            return PartnerError(
                f"'{name}' is not the partner of '{metadata}': it ends with the uuid of another "
                "array; put the files of one array side by side"
            )
        least = state.data_bytes + (SEAL_BYTES if state.sealed else 0)
        if size < least:
            return TruncatedError(
                f"'{name}' has {size} bytes, its metadata says {least}: it was cut off, or belongs "
                "to another array; restore it from a copy"
            )
        if state.sealed and (end != seal or size != least):
            return PartnerError(
                f"'{name}' is not the partner of '{metadata}': it does not end with the array's "
                "uuid; put the files of one array side by side"
            )
        return None

    def _map(self, length: int, writable: bool, mapped: bool) -> Region:
        """Region of ``.xta``."""
        with family(f"cannot map '{self.path}.xta'"):
            return Region.file(self._data, length, writable, mapped)

    # -- growth ------------------------------------------------------------------------------

    def reserve(self, old: int, new: int, runs: Iterable[tuple[int, int]] | None = None) -> None:
        """Make room for chunks: from `old` bytes to `new` bytes, all of them the fill value.

        Where `runs` of bytes are given, only those get their space and the fill value, and holes
        are left between them.  On an error the file is as before.
        """
        sparse, fill = self.header.sparse, self.header.fill
        is_zero = fill.count(0) == len(fill)
        if self.region is not None and not (sparse and new <= self._length):
            self._check_length()  # else it is being made, or not lengthened
        self._begin_growth()
        try:
            if sparse or not CAN_RESERVE or runs is not None:
                self._lengthen(new, ahead=old > 0)
            if not is_zero and self.sums is not None:
                self.sums.doubt()
            for start, stop in ((old, new),) if runs is None else runs:
                if CAN_RESERVE and not sparse and stop > start:
                    os.posix_fallocate(self._data, start, stop - start)
                if not is_zero:
                    fill_range(self._data, fill, start, stop)
                elif not sparse and not CAN_RESERVE:
                    fill_range(self._data, bytes(BLOCK), start, stop)
        except OSError as error:
            self.release(old)
            advice = (
                "the file system allows no file so large"
                if error.errno in (errno.EFBIG, errno.EINVAL)
                else "free some space"
            )
            raise storage_error(
                error, f"cannot make room for {new - old} bytes in '{self.path}.xta' ({advice})"
            ) from None
        if self.region is not None and not self.region.holds(new):
            if self.held is not None:
                self.held.outgrown.append(self.region)
            try:
                self.region = self._map(new, True, True)
            except BaseException:
                self.release(old)
                raise

    def settle(self) -> None:
        """Bring a cut of the bounds to the disk, before what was cut off is destroyed.

        After a loss of power the state before it could be the newest; it must not lack elements.
        """
        if self._unsettled:
            with family(f"cannot commit the new bounds of '{self.path}'"):
                if self.state.data_bytes > self._safe_bytes:  # or they would not fit the file
                    self._sync_data()
                self._sync_state()

    def reserve_again(self, start: int, stop: int) -> None:
        """Give bytes of the grid their disk space, which `give_back` may have taken."""
        if self.header.sparse or not CAN_RESERVE:
            return
        with family(f"cannot make room in '{self.path}.xta'"):
            failure = reserve_range(self._data, start, stop - start)
            if failure == errno.EOPNOTSUPP:
                self._reserve_by_writing(start, stop)
            elif failure:
                raise OSError(failure, os.strerror(failure))

    def _reserve_by_writing(self, start: int, stop: int) -> None:
        """What the system does where it cannot reserve: nobody else may write to this range."""
        os.posix_fallocate(self._data, start, stop - start)

    def renew(self, start: int, stop: int) -> None:
        """Give bytes of the grid that do not count their disk space, and the fill value."""
        self.reserve_again(start, stop)
        fd, fill = self._data, self.header.fill
        with family(f"cannot make room in '{self.path}.xta'"):
            if any(fill):
                fill_range(fd, fill, start, stop)
            elif self.header.sparse and not self.views.out:
                punch_range(fd, start, stop - start)
                erase_range(fd, start, stop)  # what is left of pages, or all
            elif zero_range(fd, start, stop - start):
                erase_range(fd, start, stop)

    def keep(self, start: int, stop: int) -> None:
        """Do not give back bytes that a growth uses again."""
        self.postponed = without(self.postponed, start, stop)
        if self.held is not None:
            self.held.freed = without(self.held.freed, start, stop)

    def give_back(self, start: int, stop: int) -> None:
        """Have the disk space of bytes that no longer count given back by `punch_postponed`.

        As long as views of chunks are out they stay as they are: a load or store in a hole can find
        that there is no space.
        """
        if self.held is not None:
            self.held.freed.append((start, stop))
            return
        last = self.postponed[-1] if self.postponed else None
        if last is not None and start <= last[1] and last[0] <= stop:
            self.postponed[-1] = min(start, last[0]), max(stop, last[1])
        else:
            self.postponed.append((start, stop))

    def punch_postponed(self) -> None:
        """Give disk space back to the file system, where it can punch holes."""
        runs, self.postponed = self.postponed, []
        for start, stop in runs:
            punch_range(self._data, start, stop - start)

    # -- cuts --------------------------------------------------------------------------------

    # A hole holds zeros.  Where that is not the fill value, readers who still know what has been
    # cut off must not see them: the file has a number that grows after the bounds are committed,
    # and before chunks become holes.  Whoever has read elements looks at it, and where it has
    # grown, at the bounds as they are now.

    def _count_cuts(self, writable: bool) -> None:
        """Have a counter where holes do not hold the fill value."""
        if any(self.header.fill):
            if writable:
                self.cuts, self.cuts_known = Counter.own(), 0
            else:
                place = self.header.cuts_offset
                self.cuts = Counter.file(self._metadata, place, self.engine == "mmap")

    def number_of_cuts(self) -> int:
        """How many times chunks have become holes, where readers must know."""
        return 0 if self.cuts is None else self._read_cuts()

    def _read_cuts(self) -> int:
        data = read_all(self._metadata, CUTS_BYTES, self.header.cuts_offset)
        return int.from_bytes(data, "little")

    def begin_cut(self) -> None:
        """Tell readers that chunks outside the bounds are about to become holes."""
        if any(self.header.fill) and self.held is None:
            number = (self._cuts_made + 1) % 2**64
            with family(f"cannot give back space of '{self.path}'"):
                data = number.to_bytes(CUTS_BYTES, "little")
                write_all(self._metadata, data, self.header.cuts_offset)
            self._cuts_made = number

    def inner_box(self, axial: Axial) -> tuple[int, tuple[list[int], list[int]]]:
        """Number of cuts, and the bounds after them, counted from where index 0 was at first.

        `axial` is what is known of the growth; what is new is read, and not taken up.
        """
        known, extents = self._extents, self.header.chunks
        with family(f"cannot read '{self.path}'"):
            for _ in range(ATTEMPTS):
                number = self._read_cuts()
                blocks = self._superblocks(LIVE_SLOTS)
                try:
                    if blocks:
                        state = blocks[0][1]
                        if state.superseded:
                            number = self._cuts_elsewhere(number)
                        log = self._read_log(axial.segments, state.n_segments)
                        break
                except CorruptError:
                    continue
                finally:
                    self._extents = known
            else:
                raise CorruptError(f"'{self.path}.xmd': no superblock is whole")
        zero = [
            n * c - b
            for n, c, b in zip(
                axial._starts_after(*log, state.grid), extents, state.offset, strict=True
            )
        ]
        low = [-n for n in zero]
        return number, (low, [a + n for a, n in zip(low, state.shape, strict=True)])

    def _cuts_elsewhere(self, number: int) -> int:
        """Number of cuts of an array that has gained an axis: another file counts them now.

        `number` is that of the file we have, which was raised by one when the axis came.  What is
        cut off since cannot be told without that axis.
        """
        if self._cuts_then is None:
            other = FileStore(self.path)
            try:
                other._open_metadata()
                if other.header.uuid == self.header.uuid and other.header.ndim > self.header.ndim:
                    self._cuts_then = (number - 1) % 2**64
                    place, mapped = other.header.cuts_offset, self.engine == "mmap"
                    self.cuts = Counter.file(other._metadata, place, mapped)
            except FileNotFoundError:
                pass
            finally:
                other._close_files()
        if self._cuts_then is None or self.cuts is None:
            return number
        if self.cuts.value != self._cuts_then:
            raise ShapeError(
                f"'{self.path}' has gained an axis, and elements have been cut off since; refresh "
                "to read it"
            )
        return self._cuts_then

    def _lengthen(self, least: int, ahead: bool) -> None:
        """Lengthen ``.xta`` by a hole; at growth, further than asked: that costs no more."""
        if least > self._length:
            length = least + min(least // 8, LONGEST_HOLE_AHEAD) if ahead else least
            try:
                os.ftruncate(self._data, length)
            except OSError:
                if length == least:
                    raise
                # The file system's limit, perhaps, is nearer.
                length = least
                os.ftruncate(self._data, length)
            self._length = length

    def release(self, old: int) -> None:
        """Undo `reserve`: nobody has been told of what follows `old` bytes."""
        self._safe_bytes = min(self._safe_bytes, old)
        if self.state.sealed:
            old += SEAL_BYTES
        self._length = 0  # an interrupt must not leave more than there is
        with contextlib.suppress(OSError):
            if os.fstat(self._data).st_size > old:  # what another program has cut off stays so
                os.ftruncate(self._data, old)
            self._length = old

    @property
    def absolute(self) -> str:
        """Absolute path of the pair of files, without suffix."""
        return self._names[0].removesuffix(".xmd")

    @property
    def durability(self) -> str:
        """The durability: "flush" or "commit"."""
        return "commit" if self.is_durable else "flush"

    @property
    def generation(self) -> tuple[int, int]:
        """Number of the commit, and time of the last change of the elements, in nanoseconds.

        The system may be late with the time while a writer stores through a mapping.
        """
        return self.state.sequence, os.fstat(self._data).st_mtime_ns

    @property
    def shape(self) -> tuple[int, ...]:
        """Bounds that are committed."""
        return self.state.shape

    @property
    def grid(self) -> tuple[int, ...]:
        """Grid that is committed, in chunks."""
        return self.state.grid

    @property
    def offset(self) -> tuple[int, ...]:
        """Elements of the grid before the bounds."""
        return self.state.offset

    @property
    def growth(self) -> int:
        """The growth policy that is committed."""
        return self.state.growth

    def set_growth(self, growth: int) -> None:
        """Commit a growth policy."""
        with family(f"cannot change the growth policy of '{self.path}'"):
            self._write_superblock(
                self.state._replace(
                    sequence=self.state.sequence + 1, superseded=False, growth=growth
                )
            )
        if self.is_durable and self.held is None:
            self._sync_commit("growth policy")

    def begin_append(self) -> None:
        """Have the files say that a writer is at work, before elements outside the bounds."""
        self._check_length()  # what is written would lengthen the file again
        self._begin_growth()

    def _begin_growth(self) -> None:
        """Have the files say that a writer is at work, before there is room for more."""
        if self.state.sealed or self._has_seal:
            with family(f"cannot grow '{self.path}'"):
                self._unseal()

    def _unseal(self) -> None:
        """Take the uuid off the end of ``.xta``, where new chunks will stand.

        Not before the metadata on the disk say so: after a power cut they would not fit.
        """
        if self.sums is not None:
            self.sums.doubt()  # after a power cut, new chunks may have the seal still
        state = self.state
        if state.sealed:
            self._has_seal = True  # until it is gone: all of this may fail half way
            state = state._replace(sequence=state.sequence + 1, sealed=False, superseded=False)
            self._write_superblock(state)
        self._write_durable(BEGUN_SLOT, state)
        datasync(self._metadata)
        if self._new_entry:
            self._sync_names()
        write_all(self._data, bytes(SEAL_BYTES), state.data_bytes)
        self._has_seal = False

    def _seal(self) -> None:
        """Put the uuid at the end of ``.xta``: readers tell by it what belongs together."""
        self._check_length()
        if not self.state.sealed:
            end = self.state.data_bytes
            os.ftruncate(self._data, end)  # what a failed growth may have left
            write_all(self._data, SEAL_MAGIC + self.header.uuid, end)
            state = self.state
            if self.is_durable:
                datasync(self._data)
            self._write_superblock(
                state._replace(
                    sequence=state.sequence + 1,
                    sealed=True,
                    unclean=self.unclean,
                    superseded=False,
                )
            )
            if self.is_durable:
                datasync(self._metadata)

    def commit(
        self,
        shape: tuple[int, ...],
        offset: tuple[int, ...],
        axial: Axial,
        data_bytes: int,
        cuts: bool,
    ) -> None:
        """Make new bounds count: log first, superblock last.  `cuts`: elements are cut off."""
        state = self.state
        end = state.end
        known = self._extents
        n_segments = axial.segments
        try:
            if self.is_durable and self.held is None:
                self._sync_data()
            self._unsettled |= cuts and self.held is None
            if n_segments > state.n_segments:
                self._extents, end = self._append_log(axial, state.n_segments, n_segments, end)
            self._write_superblock(
                Superblock(
                    state.sequence + 1,
                    state.sealed,
                    self.unclean,
                    n_segments,
                    data_bytes,
                    state.attrs_offset,
                    state.attrs_bytes,
                    state.attrs_capacity,
                    state.attrs_crc,
                    state.spare_offset,
                    state.spare_capacity,
                    end,
                    state.group,
                    shape,
                    offset,
                    axial.grid,
                    False,
                    state.growth,
                )
            )
        except BaseException as error:
            if self.state is state:
                self._extents = known
            if isinstance(error, OSError):
                what = f"cannot commit the new bounds of '{self.path}'"
                raise storage_error(error, what) from error
            raise
        if self.is_durable and self.held is None:
            self._sync_commit("new bounds")

    def _sync_commit(self, what: str) -> None:
        """Bring a commit to the disk."""
        with family(f"the {what} of '{self.path}' count, but may not be on the disk"):
            self._sync_state()

    def add_axis(
        self,
        chunks: tuple[int, ...],
        axial: Axial,
        shape: tuple[int, ...],
        offset: tuple[int, ...],
        attrs: str,
    ) -> None:
        """Have an axis more: in a fresh ``.xmd``, which takes the name when it is whole.

        `chunks`, `axial`, `shape`, `offset` and `attrs` are those of the array with the axis.  On
        an error nothing has changed, but perhaps the number of the last commit.

        The fresh file tells of no older state, to which a loss of power could lead back.  So the
        elements go to the disk first.
        """
        what = f"cannot add an axis to '{self.path}'"
        self.flush()
        with family(what):
            name = self._own_name(what)
            temporary = fresh_name(name, self.header.uuid)
            fd = -1
            try:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)  # of a writer that died; nobody else has the lock
                fd = create_beside(temporary, name)
                lock.acquire(fd, self.path, 0)
                header = replace(self.header, chunks=chunks)
                state = self.state._replace(
                    sequence=self.state.sequence + 2,
                    unclean=self.unclean,
                    data_bytes=axial.size * header.chunk_bytes,
                    shape=shape,
                    offset=offset,
                    grid=axial.grid,
                    superseded=False,
                )
                sums = self._sums_for(header)
                records = [axial._record(n) for n in range(axial.segments)]
                slots = (*LIVE_SLOTS, FLUSHED_SLOTS[0])
                fresh = encode_fresh(header, state, records, attrs, slots)
                self._hand_on(fresh)
                write_all(fd, fresh.image, 0)
                lock.note_holder(fd, True)
                datasync(fd)
                # From now on readers look which file has the name.
                self._write_superblock(
                    self.state._replace(sequence=self.state.sequence + 1, superseded=True)
                )
                os.replace(temporary, name)
                # So that readers who must know of cuts look, and see that they are told elsewhere.
                self.begin_cut()
                self._succeed(fd, fresh, attrs, sums)
            except BaseException:
                if fd < 0 or not same_file(fd, name):
                    with contextlib.suppress(OSError):
                        os.unlink(temporary)
                    raise
                # Interrupted when all was done, or failed to tell readers.
                self._succeed(fd, fresh, attrs, sums)
                raise
            finally:
                if fd >= 0:
                    os.close(fd)
        with contextlib.suppress(OSError):
            self._sync_names()  # what fails here, the next flush says

    def _hand_on(self, fresh: Fresh) -> None:
        """Have a fresh ``.xmd`` know what readers and other arrays may ask this one for."""
        for length, old, new in (
            (CUTS_BYTES, self.header.cuts_offset, fresh.header.cuts_offset),
            (
                BLOCK,
                self.header.superblock_offset(GROUP_BLOCK),
                fresh.header.superblock_offset(GROUP_BLOCK),
            ),
        ):
            data = read_all(self._metadata, length, old)
            fresh.image[new : new + len(data)] = data

    def real_stems(self, what: str) -> set[str]:
        """Paths of the two files without suffix, links followed; they must be those we have."""
        self._own_name(what)
        return {os.path.splitext(real_name(name))[0] for name in self._names}

    def _own_name(self, what: str) -> str:
        """Where the name of ``.xmd`` leads to, links followed; it must lead to the file we have."""
        if not same_file(self._metadata, self._names[0]):
            raise MissingError(
                errno.ENOENT,
                f"{what}: its files have been moved or replaced since it was opened; open it again",
                self._names[0],
            )
        return os.path.realpath(self._names[0])

    def _sums_for(self, header: Header) -> NDArray[np.uint32]:
        """The checksums of the chunks that stay as they are with another header."""
        n_chunks = self.state.data_bytes // header.chunk_bytes
        if self.sums is None or header.chunk_bytes != self.header.chunk_bytes:
            n_chunks = 0
        return read_sums(self._metadata, self.sums.extents if self.sums else (), 0, n_chunks)

    def _succeed(self, fd: int, fresh: Fresh, attrs: str, sums: NDArray[np.uint32]) -> None:
        """Go on with a fresh ``.xmd``, which has taken the name."""
        self._new_entry = True
        if self.sums is not None:
            self.sums.in_doubt = (
                True  # it must not say so to the new file, as other threads may ask
            )
        # The lock stays with the open file; that of the old one ends with its last descriptor.
        os.dup2(fd, self._metadata, inheritable=False)
        self._take(fresh)
        self.attrs = attrs
        self._durable = {FLUSHED_SLOTS[0]: fresh.state}
        self._rooms = set()
        if self.sums is not None:
            before, self.sums = self.sums, Sums(self._metadata, self.header, [], True, self.path)
            self.sums.inherited = before.inherited
            self.sums.lost = True  # should the next steps fail
            with contextlib.suppress(OSError):
                if sums.any():
                    self._make_room_for_sum(len(sums) - 1)
                    self.sums.restore(sums)
                self.sums.lost = False

    def _append_log(self, axial: Axial, first: int, stop: int, end: int) -> tuple[list[int], int]:
        """Write the records of new segments; returns the extents, and where free space begins."""
        extents = list(self._extents)
        uuid = self.header.uuid
        size = record_bytes(self.header.ndim)
        for segment in range(first, stop):
            number = extent_of_record(segment)
            if number == len(extents):
                room = EXTENT_HEAD_BYTES + extent_capacity(number) * size
                reserve_zeros(self._metadata, end, room)
                write_all(self._metadata, encode_extent_head(0, uuid), end)
                write_all(self._metadata, encode_extent_head(end, uuid), extents[-1])
                extents.append(end)
                end += room
            place = segment - extent_capacity(0) * (2**number - 1)
            offset = extents[number] + EXTENT_HEAD_BYTES + place * size
            write_all(self._metadata, encode_record(*axial._record(segment), uuid), offset)
        return extents, end

    def _write_superblock(self, state: Superblock) -> None:
        """Write the next commit, or keep it for one of several arrays."""
        if self.held is not None:
            self.state = state
            return
        offset = self.header.superblock_offset(LIVE_SLOTS[state.sequence % 2])
        data = encode_superblock(state)
        before = self.state
        try:
            self.state = state
            write_all(self._metadata, data, offset)
        except OSError:
            self.state = before
            raise
        except BaseException:  # an interrupt: before the write, or behind it
            write_all(self._metadata, data, offset)
            raise

    def _write_durable(self, slot: int, state: Superblock) -> None:
        """Write a state where commits do not touch it.  Synchronizing is the caller's."""
        state = state._replace(sealed=False, superseded=False)
        self._durable[slot] = state  # first: its attributes must stay, come what may
        write_all(self._metadata, encode_superblock(state), self.header.superblock_offset(slot))

    def _older(self, slots: Sequence[int]) -> int:
        """The slot of those that commits do not touch to be written next."""
        return min(
            slots, key=lambda slot: self._durable[slot].sequence if slot in self._durable else -1
        )

    # -- attributes --------------------------------------------------------------------------

    def set_attrs(self, attrs: str) -> None:
        """Commit the attributes (a JSON text), or keep them for a commit of several arrays."""
        if self.held is not None:
            self.attrs = attrs
            return
        before = self.state
        with family(f"cannot write the attributes of '{self.path}'"):
            state = self._with_attrs(attrs)
            try:
                self._write_superblock(state)
            finally:
                if self.state is not before:
                    self.attrs = attrs
        if self.is_durable:
            self._sync_commit("attributes")

    def _with_attrs(self, attrs: str) -> Superblock:
        """The next state, with attributes that are written to free room."""
        state, end = self.state, self.state.end
        blob = attrs.encode()
        present = (state.attrs_offset, state.attrs_capacity)
        self._rooms |= {present, (state.spare_offset, state.spare_capacity)}
        taken = {present[0], *(block.attrs_offset for block in self._durable.values())}
        rooms = [room for room in self._rooms if room[0] not in taken and room[1] >= len(blob)]
        if rooms:
            offset, capacity = min(rooms)
        else:
            offset, capacity = end, attrs_room(len(blob))
            reserve_zeros(self._metadata, offset, capacity)
            end += capacity
        write_all(self._metadata, blob, offset)
        return state._replace(
            sequence=state.sequence + 1,
            attrs_offset=offset,
            attrs_bytes=len(blob),
            attrs_capacity=capacity,
            attrs_crc=crc32c(blob),
            spare_offset=present[0],
            spare_capacity=present[1],
            end=end,
            superseded=False,
        )

    # -- checksums of chunks -----------------------------------------------------------------

    def renew_sums(self, array: ArrayCore) -> int | None:
        """Write the checksums of the chunks that were written since the last time.

        Returns what `Sums.settle` needs to tell whether more was written meanwhile.
        """
        assert self.sums is not None
        quiet = array._quiet
        n_chunks = self.state.data_bytes // self.header.chunk_bytes
        first = 0
        self._check_length()
        with family(f"cannot write the checksums of '{self.path}'"):
            while len(addresses := array._take_written(first, SUMS_AT_ONCE)):
                first = int(addresses[-1]) + 1
                try:
                    # A growth that failed may have written beyond.
                    known = addresses[addresses < n_chunks]
                    if known.size:
                        self._make_room_for_sum(int(known[-1]))
                        self.sums.renew(self._data, known)
                except BaseException:
                    array._note_written(addresses)
                    raise
        return quiet

    def _make_room_for_sum(self, address: int) -> None:
        """Commit room for the sums of chunks up to an address."""
        assert self.sums is not None
        size, offset = self.sums.missing(address), self.state.end
        if size:
            fill_range(self._metadata, bytes(BLOCK), offset, offset + size)
            self._write_superblock(
                self.state._replace(sequence=self.state.sequence + 1, end=offset + size)
            )
            self.sums.lengthen(offset, size)

    # -- readers, durability, end ------------------------------------------------------------

    def refresh(self, axial: Axial) -> Axial | None:
        """Take up what was committed since; returns the axial vectors, None: nothing is new.

        Reads the superblocks and the records that are new.  Where the array has gained an axis, the
        metadata are another file and the axial vectors others; else those given have grown.
        """
        return self._take_up(axial) if self.mode == "r" else None

    def _take_up(self, axial: Axial) -> Axial | None:
        """What `refresh` does, in any mode."""
        problem: Exception = CorruptError(f"'{self.path}.xmd': no superblock is whole")
        with family(f"cannot refresh '{self.path}'"):
            for _ in range(ATTEMPTS):
                cuts = self.number_of_cuts()
                decided = self._decided_states(self.state.sequence)
                blocks = self._superblocks(LIVE_SLOTS)
                if not blocks:
                    continue
                state = blocks[0][1]
                if decided and decided[0][1].sequence > state.sequence:
                    state = decided[0][1]
                try:
                    if state.superseded and not same_file(self._metadata, self._names[0]):
                        return self._follow_name()
                    if state.sequence <= self.state.sequence:
                        return None
                    news = self.read_news(state, axial, cuts)
                    break
                except FormatError as error:
                    problem = error
            else:
                raise problem
        self.replay(news, axial)
        self.adopt(news)
        return axial

    def was_superseded(self) -> bool:
        """Whether the metadata are another file by now, as after `add_axis`."""
        with family(f"cannot read '{self.path}.xmd'"):
            return (
                self._metadata >= 0  # or else it was probed, and is not there
                and not same_file(self._metadata, self._names[0])
                and any(block.superseded for _, block in self._superblocks(LIVE_SLOTS)[:1])
            )

    def read_news(self, state: Superblock, axial: Axial, cuts: int) -> News:
        """What is new in a state that a superblock tells of; FormatError where it is not whole.

        `cuts`: how many there were before that was read.
        """
        known = self._extents
        try:
            log = self._read_log(axial.segments, state.n_segments)
            # They may be long, and are seldom new.
            same = _place_of_attrs(state) == _place_of_attrs(self.state)
            attrs = self.attrs if same else self._read_attrs(state)
            news = News(state, log, self._extents, attrs, cuts)
        except FormatError as error:
            raise type(error)(f"'{self.path}.xmd': {error}") from None
        finally:
            self._extents = known
        problem = self._check_data(state)
        if problem is not None:
            raise problem
        return news

    def replay(self, news: News, axial: Axial) -> None:
        """Have the axial vectors grow as the news tell; on an error they are as before."""
        assert news.log is not None
        mark = axial._mark()
        try:
            axial._replay_more(*news.log, news.state.grid)
            self._check_state(news.state, news.extents)
        except CorruptError as error:
            axial._rollback(mark)
            raise CorruptError(f"'{self.path}.xmd': {error}") from None

    def adopt(self, news: News) -> None:
        """Go on in a newer state."""
        assert self.region is not None
        if not self.region.holds(news.state.data_bytes):
            self.region = self._map(news.state.data_bytes, self.mode == "r+", True)
        self.state = news.state
        self.attrs = news.attrs
        self.unclean = news.state.unclean
        self._extents = news.extents
        if self.mode == "r":
            self.cuts_known = news.cuts

    def _follow_name(self) -> Axial | None:
        """Take up the ``.xmd`` that has the name now, and an axis more; None: another array's.

        Raises
        ------
        CorruptError
            It does not fit; perhaps because a writer is at work on it.
        """
        if self.mode == "r+":
            return None  # nobody else has the array alone
        other = FileStore(self.path)
        try:
            other._metadata = os.open(self._names[0], os.O_RDONLY | _OPEN_FLAGS)
            other._data = self._data
            other._read_header()
            if other.header.uuid != self.header.uuid or other.header.ndim <= self.header.ndim:
                return None  # who has an array open keeps it
            cuts = other._read_cuts()
            found = other._live_state()
            problem = other._check_data(found.state)
            if problem is not None:
                raise CorruptError(str(problem))
            assert self.region is not None
            if not self.region.holds(found.state.data_bytes):
                self.region = self._map(found.state.data_bytes, False, True)
            # In the place of the old descriptor, in one step: other threads may be using it.
            os.dup2(other._metadata, self._metadata, inheritable=False)
            self.header = other.header
            self._count_cuts(False)
            self._cuts_then = None
            self.adopt(News(found.state, None, found.extents, found.attrs, cuts))
            return found.axial
        finally:
            other._data = -1
            other._close_files()

    @property
    def metadata_bytes(self) -> int:
        """Bytes of ``.xmd``."""
        return os.fstat(self._metadata).st_size

    @property
    def file_bytes(self) -> int:
        """Bytes of ``.xta``, holes included."""
        return os.fstat(self._data).st_size

    @property
    def disk_bytes(self) -> int:
        """Bytes that ``.xta`` takes on the disk."""
        return 512 * os.fstat(self._data).st_blocks

    def flush(self) -> None:
        """Bring data and metadata to the disk, in this order."""
        if self.mode != "r+":
            return
        with family(f"cannot flush '{self.path}'"):
            self._sync_data()
            self._sync_state()

    def _check_length(self) -> None:
        """Raise where another program has cut ``.xta`` off: what is gone must not read as zeros."""
        size = os.lseek(self._data, 0, os.SEEK_END)  # costs a third of fstat
        least = self.state.data_bytes + (SEAL_BYTES if self.state.sealed else 0)
        if size < least:
            raise TruncatedError(
                f"'{self.path}.xta' has {size} bytes, its metadata says {least}: another program "
                "has cut it off; restore it from a copy"
            )

    def _sync_data(self) -> None:
        """Bring the data to the disk."""
        self._check_length()
        datasync(self._data)
        self._safe_bytes = self.state.data_bytes

    def _sync_state(self) -> None:
        """Bring the metadata to the disk, and the names; the data are there."""
        # To the older of two superblocks: the last flush counts until this one is done.
        state = self.state if self.held is None else self.held.before[0]
        flushed = [self._durable.get(slot) for slot in FLUSHED_SLOTS]
        is_new = all(block is None or block.sequence != state.sequence for block in flushed)
        slot = self._older(FLUSHED_SLOTS)
        try:
            if is_new:
                self._write_durable(slot, state)
            datasync(self._metadata)
        except BaseException:
            if is_new:  # the next one is written here again, and the other one stays
                self._durable[slot] = state._replace(sequence=-1)
            raise
        self._unsettled = False
        self._sync_names()

    def _sync_names(self) -> None:
        """Bring the names of the files to the disk, where they may be new."""
        if self._new_entry or self._found_entry:
            sync_folders(self._names)
            self._new_entry = self._found_entry = False

    def sync_elements(self) -> None:
        """Bring the elements to the disk."""
        with family(f"cannot bring elements of '{self.path}' to the disk"):
            self._sync_data()

    def on_fork(self, listener: Callable[[], None]) -> None:
        """Have a method called in a forked child, when this store has become read-only."""
        self._fork_listener = weakref.WeakMethod(listener)

    def _forked(self) -> None:
        """In a forked child: the parent alone is the writer."""
        fd, self._metadata = self._metadata, -1
        self.mode = "r"
        _writers.discard(self)
        making, self._making = self._making, None
        if making is not None and making.old >= 0:
            os.close(making.old)
        # A thread of the parent may just have given the name to other metadata.
        name = self._names[0] if same_file(fd, self._names[0]) else f"/dev/fd/{fd}"
        with contextlib.suppress(OSError):
            self._metadata = os.open(name, os.O_RDONLY | _OPEN_FLAGS)
            self._count_cuts(False)
        # Closing this copy of the descriptor leaves the parent's lock alone.  Unlocking would not.
        os.close(fd)
        self.cuts_known = self._cuts_made
        listener = None if self._fork_listener is None else self._fork_listener()
        if listener is not None:
            listener()

    def move(self, path: Path, overwrite: bool) -> None:
        """Give the pair another name, in the steps in which `create` gives it its first.

        A pair that is overwritten stays valid for those who have it open; holding its writer's lock
        is up to the caller.
        """
        before, names = self._names, tuple(os.path.abspath(name) for name in file_names(path))
        fresh = fresh_name(names[1], self.header.uuid)
        with family(f"cannot move '{self.path}' to '{path}'"):
            # From there it is found, as soon as the metadata have their name.
            os.rename(before[1], fresh)
            try:
                _rename(self._metadata, before[0], names[0], overwrite)
                if overwrite:
                    sync_folders(names)
                _rename(self._data, fresh, names[1], overwrite)
            except BaseException:
                if not (overwrite and same_file(self._metadata, names[0])):
                    if same_file(self._metadata, names[0]):
                        os.rename(names[0], before[0])
                    os.rename(fresh, before[1])
                    raise
                # It has replaced the other one; the next writer does what is left.
        self.path, self._names = path, names
        self._new_entry = True

    def remove(self) -> None:
        """Remove the files; the metadata first, so that nothing is left that opens."""
        metadata, data = map(real_name, self._names)
        for name in (metadata, data, fresh_name(data, self.header.uuid)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)

    def close(self) -> None:
        """Seal, unlock and close."""
        if self._metadata < 0 and self._data < 0:
            return
        try:
            if self.mode == "r+":
                self._end_writing()
        finally:
            self._withdraw()
            self._close_files()

    def _close_files(self) -> None:
        _writers.discard(self)
        self.region = self.cuts = None
        for fd in (self._metadata, self._data):
            if fd >= 0:
                os.close(fd)
        self._metadata = self._data = -1

    def __del__(self) -> None:
        if getattr(self, "_metadata", -1) >= 0 and self.mode == "r+":
            try:
                warnings.warn(
                    f"'{self.path}' was not closed; use close() or a with block",
                    ResourceWarning,
                    stacklevel=2,
                    source=self,
                )
            finally:
                self._close_quietly()
        else:
            self._close_quietly()

    def _close_quietly(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def _place_of_attrs(state: Superblock) -> tuple[int, int, int]:
    return state.attrs_offset, state.attrs_bytes, state.attrs_crc


def _rename(fd: int, name: str, other: str, overwrite: bool) -> None:
    """Give an open file another name."""
    try:
        publish(name, other, overwrite)
    except OSError:
        if not same_file(fd, other):
            raise
        with contextlib.suppress(OSError):  # it has both
            os.unlink(name)


def _after_fork_in_child() -> None:
    for store in list(_writers):
        store._forked()


os.register_at_fork(after_in_child=_after_fork_in_child)
