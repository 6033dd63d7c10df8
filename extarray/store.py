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
from extarray._core._mapping import Region, punch_range, reserve_range
from extarray.engine import choose_engine, maps_no_holes
from extarray.errors import (
    CorruptError,
    ExistsError,
    FormatError,
    MissingError,
    PartnerError,
    RecoveryWarning,
    TruncatedError,
    storage_error,
)
from extarray.filesystem import (
    CAN_RESERVE,
    datasync,
    family,
    file_names,
    fill_range,
    publish,
    reserve_zeros,
    write_all,
)
from extarray.metadata import (
    BEGUN_SLOT,
    BLOCK,
    FLUSHED_SLOTS,
    LIVE_SLOTS,
    MAGIC,
    SEAL_BYTES,
    SEAL_MAGIC,
    Header,
    Superblock,
    decode_extent_head,
    decode_header,
    decode_records,
    decode_superblock,
    encode_extent_head,
    encode_header,
    encode_record,
    encode_superblock,
    extent_capacity,
    header_bytes_of,
    record_bytes,
    superblock_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["FileStore"]

SPARED_SLOTS = (*FLUSHED_SLOTS, BEGUN_SLOT)
EXTENT_HEAD_BYTES = 16
LEAST_ATTRS_ROOM = 1024
LONGEST_HOLE_AHEAD = 1 << 30
# A reader that meets a commit half way reads again; a state that stays wrong is damaged.
ATTEMPTS = 100

_OPEN_FLAGS = os.O_CLOEXEC


# Axes, sides and grids of records of the growth log.
_Log = tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]


class _State(NamedTuple):
    """A committed state, as read."""

    slot: int  # of its superblock
    state: Superblock
    axial: Axial
    attrs: str


# Stores that hold a writer's lock: a forked child must let go of it.
_writers: weakref.WeakSet[FileStore] = weakref.WeakSet()


class FileStore:
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
    """

    header: Header
    state: Superblock
    attrs: str
    region: Region | None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mode = "r"
        self.engine = "mmap"
        self.region = None
        self.hollow = False
        self.unclean = False
        self._metadata = -1
        self._data = -1
        self._length = 0  # of .xta, where this store has lengthened it
        self._extents: list[int] = []
        self._new_entry = False
        self._unsettled = False
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
    ) -> FileStore:
        """Make a pair of files and open it for writing.

        The files are made under other names and take theirs when they are whole: a crash leaves
        nothing that opens, and an array that is overwritten stays valid for those who have it
        open.
        """
        self = cls(path)
        self.header = header
        self.attrs = attrs
        self.mode = "r+"
        names = file_names(path)
        temporary = [f"{name}.{header.uuid.hex()[:12]}.new" for name in names]
        what = f"cannot create '{path}'"
        old = None
        try:
            with family(what):
                for name in names:
                    if os.path.lexists(name) and not overwrite:
                        raise ExistsError(
                            errno.EEXIST, "it exists; open it, or give overwrite=True", name
                        )
                if overwrite and os.path.exists(names[0]):
                    old = os.open(names[0], os.O_RDWR | _OPEN_FLAGS)
                    lock.acquire(old, path, 0)
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS
                self._data = os.open(temporary[1], flags, 0o666)
                self._metadata = os.open(temporary[0], flags, 0o666)
                self.engine = choose_engine(engine, self._data, True)
                self.hollow = header.sparse and maps_no_holes(self._data)
                lock.acquire(self._metadata, path, 0)
                self._write_first(axial, shape, attrs)
                publish(temporary[1], names[1], overwrite)
                try:
                    publish(temporary[0], names[0], overwrite)
                except BaseException:
                    if not overwrite:
                        os.unlink(names[1])
                    raise
        except BaseException:
            self._close_files()
            for name in temporary:
                with contextlib.suppress(OSError):
                    os.unlink(name)
            raise
        finally:
            if old is not None:
                os.close(old)
        self._new_entry = True
        _writers.add(self)
        return self

    def _write_first(self, axial: Axial, shape: tuple[int, ...], attrs: str) -> None:
        """Write the header and the first commit."""
        first_bytes = encode_header(self.header)
        header = self.header = replace(self.header, header_bytes=len(first_bytes))
        data_bytes = axial.size * header.chunk_bytes
        log_end = (
            header.first_extent + EXTENT_HEAD_BYTES + extent_capacity(0) * record_bytes(header.ndim)
        )
        blob = attrs.encode()
        room = max(LEAST_ATTRS_ROOM, len(blob))
        self._extents = [header.first_extent]
        log = encode_extent_head(0, header.uuid) + encode_record(*axial._record(0), header.uuid)
        self.state = Superblock(
            sequence=0,
            sealed=False,
            unclean=False,
            n_segments=axial.segments,
            data_bytes=data_bytes,
            attrs_offset=log_end,
            attrs_bytes=len(blob),
            attrs_capacity=room,
            attrs_crc=crc32c(blob),
            spare_offset=0,
            spare_capacity=0,
            end=log_end + room,
            shape=shape,
            offset=(0,) * header.ndim,
            grid=axial.grid,
        )
        self.reserve(0, data_bytes)
        image = bytearray(log_end + room)
        for offset, piece in (
            (0, first_bytes),
            (header.header_bytes, encode_superblock(self.state)),
            (header.first_extent, log),
            (log_end, blob),
        ):
            image[offset : offset + len(piece)] = piece
        write_all(self._metadata, image, 0)
        lock.note_holder(self._metadata, True)
        self.region = Region.file(self._data, data_bytes, True, self.engine == "mmap")

    # -- opening -----------------------------------------------------------------------------

    @classmethod
    def open(
        cls, path: Path, mode: str, timeout: float | None, engine: str
    ) -> tuple[FileStore, Axial]:
        """Open a pair of files."""
        lock.check_timeout(timeout)
        recover = False
        for attempt in range(ATTEMPTS):
            self = cls(path)
            try:
                with family(f"cannot open '{path}'"):
                    axial = self._open(mode == "r+", timeout, engine, recover)
                    if not self._was_replaced():
                        break
            except (PartnerError, TruncatedError):
                replaced = self._was_replaced()
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
        if mode == "r+":
            _writers.add(self)
        return self, axial

    def _was_replaced(self) -> bool:
        """Whether another pair has taken the names of the files."""
        try:
            return not os.path.samestat(os.fstat(self._metadata), os.stat(self._names[0]))
        except OSError:
            return False

    def _open(self, writable: bool, timeout: float | None, engine: str, recover: bool) -> Axial:
        """Open the files; with `recover`, in a state that a power cut has spared."""
        metadata, data = file_names(self.path)
        flags = (os.O_RDWR if writable else os.O_RDONLY) | _OPEN_FLAGS
        self._metadata = os.open(metadata, flags)
        if writable:
            self._metadata = self._locked(metadata, flags, timeout)
        try:
            first = os.pread(self._metadata, BLOCK, 0)
            if len(first) == BLOCK and first.startswith(MAGIC) and first[8:10] == b"\1\0":
                # A description of many fields makes a header of several blocks.
                wanted = min(header_bytes_of(self._metadata), os.fstat(self._metadata).st_size)
                if wanted > BLOCK:
                    first = os.pread(self._metadata, wanted, 0)
            self.header = decode_header(first)
            found = self._read_state()
        except FormatError as error:
            raise type(error)(f"'{metadata}': {error}") from None
        try:
            self._data = os.open(data, flags)
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
        if found.slot not in LIVE_SLOTS:
            warnings.warn(
                f"'{self.path}' is not whole, as after a loss of power: opened in the newest state "
                f"that is, of shape {found.state.shape}",
                RecoveryWarning,
                stacklevel=4,
            )
        state, axial, self.attrs = found.state, found.axial, found.attrs
        self.state = state
        self.unclean = state.unclean
        self.engine = choose_engine(engine, self._data, writable)
        # A writer may shrink the array, and make holes, while a reader has it open.
        self.hollow = (self.header.sparse or not writable) and maps_no_holes(self._data)
        if writable:
            self._take_over()
        if writable and not state.sealed:
            # The last writer died, perhaps in the midst of an append.
            self.release(state.data_bytes)
            self.unclean = True
        self.region = Region.file(self._data, state.data_bytes, writable, self.engine == "mmap")
        if writable:
            lock.note_holder(self._metadata, True)
        return axial

    def _locked(self, metadata: str, flags: int, timeout: float | None) -> int:
        """Descriptor of ``.xmd`` with the writer's lock on it."""
        fd = self._metadata
        while True:
            lock.acquire(fd, self.path, timeout)
            # Whoever held the lock may have replaced the files.
            if os.path.samestat(os.fstat(fd), os.stat(metadata)):
                return fd
            os.close(fd)
            self._metadata = -1
            fd = self._metadata = os.open(metadata, flags)

    def _take_over(self) -> None:
        """Begin to write where the last writer ended, perhaps not of its own will."""
        live = []
        for slot, block in self._superblocks((*LIVE_SLOTS, *SPARED_SLOTS)):
            if slot in LIVE_SLOTS:
                live.append(block.sequence)
            else:
                self._durable[slot] = block
        if live[:1] != [self.state.sequence]:
            # What is newer and not whole must never come back: both its superblocks end here.
            newest = max(live, default=self.state.sequence)
            for sequence in (newest + 1, newest + 2):
                self._write_superblock(self.state._replace(sequence=sequence))
            datasync(self._metadata)

    def _superblocks(self, slots: Sequence[int]) -> list[tuple[int, Superblock]]:
        """Slots and superblocks that are whole, newest first; of equal ones the first slot."""
        size, first = superblock_bytes(self.header.ndim), min(slots)
        length = (max(slots) - first) * BLOCK + size
        data = os.pread(self._metadata, length, self.header.superblock_offset(first))
        found = []
        for slot in slots:
            block = decode_superblock(data[(slot - first) * BLOCK :][:size], self.header.ndim)
            if block is not None:
                found.append((slot, block))
        return sorted(found, key=lambda pair: pair[1].sequence, reverse=True)

    def _read_state(self) -> _State:
        """The newest state that is whole."""
        # First, so that they are not newer than the live ones while a writer is at work.
        spared = self._superblocks(SPARED_SLOTS)
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
        self._check_state(state, axial)
        return _State(slot, state, axial, self._read_attrs(state))

    def _recovered(self) -> _State | None:
        """The newest of the states that commits do not touch, where it and ``.xta`` are whole."""
        for slot, state in self._superblocks(SPARED_SLOTS):
            with contextlib.suppress(CorruptError):
                if self._check_data(state) is None:
                    return self._whole(slot, state)
        return None

    def _check_state(self, state: Superblock, axial: Axial) -> None:
        header = self.header
        fits = (
            axial.size * header.chunk_bytes == state.data_bytes
            and all(n >= 0 for n in (*state.shape, *state.offset))
            and all(
                b + n <= g * c
                for b, n, g, c in zip(
                    state.offset, state.shape, state.grid, header.chunks, strict=True
                )
            )
        )
        if not fits:
            raise CorruptError("the superblock is damaged: its values are not possible")

    def _read_log(self, first: int, stop: int) -> _Log:
        """Axes, sides and grids of the records first ... stop - 1 of the growth log."""
        uuid, size = self.header.uuid, record_bytes(self.header.ndim)
        if (stop - first) * size > os.fstat(self._metadata).st_size:
            raise CorruptError("the growth log is shorter than the superblock says")
        records = np.empty(((stop - first), size), np.uint8)
        extents = self._extents or [self.header.first_extent]
        before = number = 0  # records in the extents before this one; number of this one
        while before < stop:
            if number == len(extents):
                head = os.pread(self._metadata, EXTENT_HEAD_BYTES, extents[-1])
                following = decode_extent_head(head, uuid)
                if not 0 < following < os.fstat(self._metadata).st_size:
                    raise CorruptError("the growth log is shorter than the superblock says")
                extents.append(following)
            capacity = extent_capacity(number)
            low, high = max(first, before), min(stop, before + capacity)
            if low < high:
                offset = extents[number] + EXTENT_HEAD_BYTES + (low - before) * size
                part = records[low - first : high - first]
                if os.preadv(self._metadata, [part], offset) != part.nbytes:
                    raise CorruptError("the growth log is cut off")
            before += capacity
            number += 1
        self._extents = extents
        return decode_records(records, uuid)

    def _read_attrs(self, state: Superblock) -> str:
        if state.attrs_offset + state.attrs_bytes > os.fstat(self._metadata).st_size:
            raise CorruptError("the attributes are cut off")
        blob = os.pread(self._metadata, state.attrs_bytes, state.attrs_offset)
        if len(blob) != state.attrs_bytes or crc32c(blob) != state.attrs_crc:
            raise CorruptError("the attributes are damaged")
        return blob.decode()

    def _check_data(self, state: Superblock) -> Exception | None:
        """What is wrong with ``.xta`` in a state, if anything."""
        metadata, name = file_names(self.path)
        size = os.fstat(self._data).st_size
        seal = SEAL_MAGIC + self.header.uuid
        end = os.pread(self._data, SEAL_BYTES, max(0, size - SEAL_BYTES))
        if end.startswith(SEAL_MAGIC) and end != seal:
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

    # -- growth ------------------------------------------------------------------------------

    def reserve(self, old: int, new: int) -> None:
        """Make room for chunks: from `old` bytes to `new` bytes, all of them the fill value.

        On an error the file is as before.
        """
        sparse, fill = self.header.sparse, self.header.fill
        self.begin_append()
        try:
            if sparse or not CAN_RESERVE:
                self._lengthen(new, ahead=old > 0)
            elif new > old:
                os.posix_fallocate(self._data, old, new - old)
            if fill.count(0) != len(fill):
                fill_range(self._data, fill, old, new)
            elif not sparse and not CAN_RESERVE:
                fill_range(self._data, bytes(BLOCK), old, new)
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
            self.region = Region.file(self._data, new, True, True)

    def settle(self) -> None:
        """Bring a cut of the bounds to the disk, before what was cut off is destroyed.

        After a loss of power the state before it could be the newest; it must not lack elements.
        """
        if self._unsettled:
            with family(f"cannot commit the new bounds of '{self.path}'"):
                datasync(self._metadata)
            self._unsettled = False

    def reserve_again(self, start: int, stop: int) -> None:
        """Give bytes of the grid their disk space, which `give_back` may have taken."""
        if self.header.sparse or not CAN_RESERVE:
            return
        with family(f"cannot make room in '{self.path}.xta'"):
            failure = reserve_range(self._data, start, stop - start)
            if failure == errno.EOPNOTSUPP:
                # The system's own way writes: nobody else may write to this range, outside the
                # bounds.
                os.posix_fallocate(self._data, start, stop - start)
            elif failure:
                raise OSError(failure, os.strerror(failure))

    def give_back(self, start: int, stop: int) -> None:
        """Give the disk space of bytes that no longer count back to the file system.

        Where it cannot punch holes, they stay as they are.  So they do where a hole would show a
        reader that has not refreshed something else than the fill value.
        """
        if not any(self.header.fill):
            punch_range(self._data, start, stop - start)

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
        if self.state.sealed:
            old += SEAL_BYTES
        with contextlib.suppress(OSError):
            os.ftruncate(self._data, old)
            self._length = old

    @property
    def absolute(self) -> str:
        """Absolute path of the pair of files, without suffix."""
        return self._names[0].removesuffix(".xmd")

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

    def begin_append(self) -> None:
        """Have the files say that a writer is at work, before anything outside the bounds."""
        if self.state.sealed or self._has_seal:
            with family(f"cannot grow '{self.path}'"):
                self._unseal()

    def _unseal(self) -> None:
        """Take the uuid off the end of ``.xta``, where new chunks will stand.

        Not before the metadata on the disk say so: after a power cut they would not fit.
        """
        state = self.state
        if state.sealed:
            self._has_seal = True  # until it is gone: all of this may fail half way
            state = state._replace(sequence=state.sequence + 1, sealed=False)
            self._write_superblock(state)
        self._write_durable(BEGUN_SLOT, state)
        datasync(self._metadata)
        write_all(self._data, bytes(SEAL_BYTES), state.data_bytes)
        self._has_seal = False

    def _seal(self) -> None:
        """Put the uuid at the end of ``.xta``: readers tell by it what belongs together."""
        if not self.state.sealed:
            end = self.state.data_bytes
            os.ftruncate(self._data, end)  # what a failed growth may have left
            write_all(self._data, SEAL_MAGIC + self.header.uuid, end)
            state = self.state
            self._write_superblock(
                state._replace(sequence=state.sequence + 1, sealed=True, unclean=self.unclean)
            )

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
                    shape,
                    offset,
                    axial.grid,
                )
            )
        except OSError as error:
            self._extents = known
            raise storage_error(error, f"cannot commit the new bounds of '{self.path}'") from error
        self._unsettled |= cuts

    def _append_log(self, axial: Axial, first: int, stop: int, end: int) -> tuple[list[int], int]:
        """Write the records of new segments; returns the extents, and where free space begins."""
        extents = list(self._extents)
        uuid = self.header.uuid
        size = record_bytes(self.header.ndim)
        for segment in range(first, stop):
            # Extent e has the records from (2**e - 1) times those of the first extent on.
            number = (segment // extent_capacity(0) + 1).bit_length() - 1
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
        """Write the next commit."""
        offset = self.header.superblock_offset(LIVE_SLOTS[state.sequence % 2])
        data = encode_superblock(state)
        # The state first: after an interrupt between the two lines the file may be ahead of it.
        before, self.state = self.state, state
        try:
            write_all(self._metadata, data, offset)
        except OSError:
            self.state = before
            raise

    def _write_durable(self, slot: int, state: Superblock) -> None:
        """Write a state where commits do not touch it.  Synchronizing is the caller's."""
        state = state._replace(sealed=False)
        write_all(self._metadata, encode_superblock(state), self.header.superblock_offset(slot))
        self._durable[slot] = state

    # -- attributes --------------------------------------------------------------------------

    def set_attrs(self, attrs: str) -> None:
        """Commit the attributes (a JSON text): written to free room, then made to count."""
        state, end = self.state, self.state.end
        blob = attrs.encode()
        present = (state.attrs_offset, state.attrs_capacity)
        self._rooms |= {present, (state.spare_offset, state.spare_capacity)}
        taken = {present[0], *(block.attrs_offset for block in self._durable.values())}
        rooms = [room for room in self._rooms if room[0] not in taken and room[1] >= len(blob)]
        with family(f"cannot write the attributes of '{self.path}'"):
            if rooms:
                offset, capacity = min(rooms)
            else:
                offset, capacity = end, max(LEAST_ATTRS_ROOM, 2 * len(blob))
                reserve_zeros(self._metadata, offset, capacity)
                end += capacity
            write_all(self._metadata, blob, offset)
            self._write_superblock(
                state._replace(
                    sequence=state.sequence + 1,
                    attrs_offset=offset,
                    attrs_bytes=len(blob),
                    attrs_capacity=capacity,
                    attrs_crc=crc32c(blob),
                    spare_offset=present[0],
                    spare_capacity=present[1],
                    end=end,
                )
            )
        self.attrs = attrs

    # -- readers, durability, end ------------------------------------------------------------

    def refresh(self, axial: Axial) -> bool:
        """Take up what was committed since; returns whether there is anything new.

        Reads the superblocks and the records that are new.
        """
        if self.mode != "r":
            return False
        problem: Exception | None = CorruptError(f"'{self.path}.xmd': no superblock is whole")
        with family(f"cannot refresh '{self.path}'"):
            for _ in range(ATTEMPTS):
                blocks = self._superblocks(LIVE_SLOTS)
                if not blocks:
                    continue
                state = blocks[0][1]
                if state.sequence <= self.state.sequence:
                    return False
                try:
                    axes, sides, grids = self._read_log(axial.segments, state.n_segments)
                    attrs = self._read_attrs(state)
                except CorruptError as error:
                    problem = error
                    continue
                problem = self._check_data(state)
                if problem is None:
                    break
            if problem is not None:
                raise problem
        mark = axial._mark()
        axial._replay_more(axes, sides, grids, state.grid)
        try:
            self._check_state(state, axial)
        except CorruptError:
            axial._rollback(mark)
            raise
        assert self.region is not None
        if not self.region.holds(state.data_bytes):
            self.region = Region.file(self._data, state.data_bytes, False, True)
        self.state = state
        self.attrs = attrs
        return True

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
            datasync(self._data)
            # To the older of two superblocks: the last flush counts until this one is done.
            flushed = [self._durable.get(slot) for slot in FLUSHED_SLOTS]
            numbers = [-1 if block is None else block.sequence for block in flushed]
            if self.state.sequence not in numbers:
                self._write_durable(FLUSHED_SLOTS[numbers.index(min(numbers))], self.state)
            datasync(self._metadata)
            self._unsettled = False
            if self._new_entry:
                directory = os.open(os.path.dirname(self._names[0]), os.O_RDONLY | _OPEN_FLAGS)
                try:
                    os.fsync(directory)
                finally:
                    os.close(directory)
                self._new_entry = False

    def on_fork(self, listener: Callable[[], None]) -> None:
        """Have a method called in a forked child, when this store has become read-only."""
        self._fork_listener = weakref.WeakMethod(listener)

    def _forked(self) -> None:
        """In a forked child: the parent alone is the writer."""
        fd, self._metadata = self._metadata, -1
        self.mode = "r"
        _writers.discard(self)
        # Closing this copy of the descriptor leaves the parent's lock alone.  Unlocking would not.
        os.close(fd)
        with contextlib.suppress(OSError):
            self._metadata = os.open(self._names[0], os.O_RDONLY | _OPEN_FLAGS)
        listener = None if self._fork_listener is None else self._fork_listener()
        if listener is not None:
            listener()

    def move(self, path: Path, overwrite: bool) -> None:
        """Give the pair another name, in the steps in which `create` gives it its first.

        A pair that is overwritten stays valid for those who have it open; holding its writer's lock
        is up to the caller.
        """
        names = tuple(os.path.abspath(name) for name in file_names(path))
        with family(f"cannot move '{self.path}' to '{path}'"):
            publish(self._names[1], names[1], overwrite)
            try:
                publish(self._names[0], names[0], overwrite)
            except BaseException:
                if not overwrite:
                    os.rename(names[1], self._names[1])
                raise
        self.path, self._names = path, names
        self._new_entry = True

    def remove(self) -> None:
        """Remove the files; the metadata first, so that nothing is left that opens."""
        for name in self._names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)

    def close(self) -> None:
        """Seal, unlock and close."""
        if self._metadata < 0 and self._data < 0:
            return
        try:
            if self.mode == "r+":
                # A full disk leaves the pair unsealed, which costs a check and nothing else.
                with contextlib.suppress(OSError):
                    self._seal()
                with contextlib.suppress(OSError):
                    lock.note_holder(self._metadata, False)
                lock.release(self._metadata)
        finally:
            self._close_files()

    def _close_files(self) -> None:
        _writers.discard(self)
        self.region = None
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


def _after_fork_in_child() -> None:
    for store in list(_writers):
        store._forked()


os.register_at_fork(after_in_child=_after_fork_in_child)
