"""Where an array lives: a pair of files, from its making or opening to its end.

A store makes room, commits growth, and keeps the attributes; it never looks at elements.  What it
does in between stands in `extarray.pair`, each part above the one that it needs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from extarray import lock
from extarray.engine import choose_engine, maps_no_holes
from extarray.errors import (
    CorruptError,
    ExistsError,
    FormatError,
    MissingError,
    PartnerError,
    RecoveryWarning,
    StorageError,
    TruncatedError,
)
from extarray.filesystem import (
    absolute_names,
    close_all,
    create_beside,
    datasync,
    family,
    file_names,
    fresh_name,
    read_all,
    real_name,
    same_file,
    sync_folders,
    write_all,
)
from extarray.forks import in_children
from extarray.metadata.fresh import Fresh, encode_fresh
from extarray.metadata.header import Header
from extarray.metadata.places import (
    BLOCK,
    CUTS_BYTES,
    FLUSHED_SLOTS,
    GROUP_BLOCK,
    LIVE_SLOTS,
    SPARED_SLOTS,
)
from extarray.metadata.superblock import LAST_COMMIT, NO_GROUP, Superblock
from extarray.pair.member import Member
from extarray.pair.names import Publication, move_pair, open_data, remove_pair
from extarray.pair.states import ATTEMPTS, OPEN_FLAGS
from extarray.sums import Sums, read_sums

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray

    from extarray._core._axial import Axial

__all__ = ["FileStore"]

_MOST_NAMES = 5  # of the arrays of a folder, in a message


class FileStore(Member):
    """A pair of files: ``.xmd`` with the metadata, ``.xta`` with the chunks.

    Made by `FileStore.create` and `FileStore.open`.

    Parameters
    ----------
    path : Path
        Without suffix.
    """

    shared = False  # with other writers

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._making: Publication | None = None  # until the files have their names

    # -- creation --------------------------------------------------------------------------------

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
        self._making = Publication(fresh, names, overwrite)
        try:
            with family("cannot create '{}'", path):
                for name in file_names(path):
                    if os.path.lexists(name) and not overwrite:
                        raise ExistsError(
                            errno.EEXIST, "it exists; open it, or give overwrite=True", name
                        )
                self._lock_present()
                self._data = create_beside(fresh[1], names[1])
                self._metadata = create_beside(fresh[0], names[0])
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
        in_children(self, type(self)._forked)
        return self

    def _lock_present(self) -> None:
        """Keep others from writing to what is to be replaced, if there is anything."""
        making = self._making
        assert making is not None
        if not making.overwrite or making.replaces or not os.path.exists(making.names[0]):
            return
        present, name, flags = FileStore(self.path), making.names[0], os.O_RDWR | OPEN_FLAGS
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
            present._metadata, making.old = -1, fd
        finally:
            present._close_files()

    def take_names(self) -> None:
        """Give the files of a new pair their names.  On an error they are gone."""
        try:
            with family("cannot create '{}'", self.path):
                self._lock_present()  # another one may have come meanwhile
                making = self._making
                assert making is not None
                if making.replaces or self.is_durable:
                    # After a loss of power, too, there is this array or the one before.
                    self._sync_data()
                    self._sync_state()
                making.publish(self.path)
                if self.is_durable:
                    sync_folders(making.names)
                self._new_entry = not self.is_durable
                self._making = None
                making.release()
        except BaseException:
            self._withdraw()
            raise

    def _withdraw(self) -> None:
        """Remove the files of a pair that was to take its names, unless it has replaced another."""
        making, self._making = self._making, None
        if making is not None:
            making.withdraw(self._metadata, self._data)

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
        lock.note_holder(self._metadata, self.header, True)
        self.region = self._region_of(data_bytes)
        self._count_cuts(True)

    def _take(self, fresh: Fresh) -> None:
        """Have a fresh ``.xmd``."""
        _, self.header, self.state, self._extents = fresh

    # -- opening ---------------------------------------------------------------------------------

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
                with family("cannot open '{}'", path):
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
            in_children(self, type(self)._forked)
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
        flags = (os.O_RDWR if writable else os.O_RDONLY) | OPEN_FLAGS
        try:
            self._metadata = os.open(metadata, flags)
        except FileNotFoundError:
            if not os.path.exists(self.path):
                raise
            what = f"cannot open '{self.path}': {_what_is_there(self.path)}"
            raise MissingError(errno.ENOENT, what, metadata) from None
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
            self._data = open_data((metadata, data), self.header.uuid, flags)
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
        self.state, self._extents = state, found.extents
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

    def _locked(self, metadata: str, flags: int, timeout: float | None) -> int:
        """Descriptor of ``.xmd`` with the writer's lock on it."""
        fd = self._metadata
        while True:
            self._lock(fd, timeout)
            # Whoever held the lock may have replaced the files.
            if os.path.samestat(os.fstat(fd), os.stat(metadata)):
                return fd
            self._metadata = -1
            os.close(fd)
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
        lock.note_holder(self._metadata, self.header, True)

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

    # -- a new axis ------------------------------------------------------------------------------

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
        what = "cannot add an axis to '{}'"
        self.flush()
        with family(what, self.path):
            name = self._own_name(what)
            if os.fstat(self._metadata).st_nlink > 1:  # by which others would find the old metadata
                raise StorageError(
                    errno.EMLINK,
                    f"{what.replace('{}', str(self.path), 1)}: a hard link gives its metadata a "
                    "second name; remove one of the two, or work on a copy of the array",
                    name,
                )
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
                lock.note_holder(fd, fresh.header, True)
                datasync(fd)
                # From now on readers look which file has the name.
                self._write_superblock(
                    self.state._replace(sequence=self.state.sequence + 1, superseded=True)
                )
                os.replace(temporary, name)
                # So that readers who must know of cuts look, and see that they are told elsewhere.
                failure = "'{}' has the new axis, but its readers were not told: refresh them"
                with family(failure, self.path):
                    self._count_cut()
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
                with contextlib.suppress(OSError):  # what counts is on the disk
                    close_all(fd)
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

    def _sums_for(self, header: Header) -> NDArray[np.uint32]:
        """The checksums of the chunks that stay as they are with another header."""
        if self.sums is None or header.chunk_bytes != self.header.chunk_bytes:
            return read_sums(self._metadata, (), 0, 0)
        n_chunks = min(self.state.data_bytes // header.chunk_bytes, self.sums.reach)
        return read_sums(self._metadata, self.sums.extents, 0, n_chunks)

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
                    self.sums.make_room(len(sums) - 1, self.state, self._write_superblock)
                    self.sums.restore(sums)
                self.sums.lost = False

    # -- names -----------------------------------------------------------------------------------

    def real_stems(self, what: str) -> set[str]:
        """Paths of the two files without suffix, links followed; they must be those we have."""
        self._own_name(what)
        return {os.path.splitext(real_name(name))[0] for name in self._names}

    def _own_name(self, what: str) -> str:
        """Where the name of ``.xmd`` leads to, links followed; it must lead to the file we have."""
        if not same_file(self._metadata, self._names[0]):
            raise MissingError(
                errno.ENOENT,
                f"{what.replace('{}', str(self.path), 1)}: its files have been moved or replaced "
                "since it was opened; open it again",
                self._names[0],
            )
        return os.path.realpath(self._names[0])

    def move(self, path: Path, overwrite: bool) -> None:
        """Give the pair another name.

        A pair that is overwritten stays valid for those who have it open; holding its writer's lock
        is up to the caller.
        """
        names = absolute_names(path)
        with family(f"cannot move '{{}}' to '{path}'", self.path):
            fds = self._metadata, self._data
            move_pair(fds, self._names, names, self.header.uuid, overwrite)
        self.path, self._names = path, names
        self._new_entry = True

    def remove(self) -> None:
        """Remove the files; the metadata first, so that nothing is left that opens."""
        remove_pair(self._names, self.header.uuid)

    # -- end -------------------------------------------------------------------------------------

    def _forked(self) -> None:
        """In a forked child: the parent alone is the writer."""
        if self._metadata < 0 or self.mode != "r+":  # closed; or the child of a child
            return
        fd, self._metadata = self._metadata, -1
        self.mode = "r"
        self.is_forked = True
        self.sums = None
        making, self._making = self._making, None
        if making is not None:
            making.release()
        # A thread of the parent may just have given the name to other metadata.
        name = self._names[0] if same_file(fd, self._names[0]) else f"/dev/fd/{fd}"
        with contextlib.suppress(OSError):
            self._metadata = os.open(name, os.O_RDONLY | OPEN_FLAGS)
            self._count_cuts(False)
        with contextlib.suppress(OSError):
            # Closing this copy of the descriptor leaves the parent's lock alone.  Unlocking would
            # not.
            close_all(fd)
        self.cuts_known = self._cuts_made

    def as_committed(self, axial: Axial) -> Axial:
        """In a forked child: take up what counts, and no part of a block of another thread."""
        self.held = None
        return super().as_committed(axial)

    def close(self) -> None:
        """Seal, unlock and close."""
        if self._metadata < 0 and self._data < 0:
            return
        try:
            if self.mode == "r+":
                self._end_writing()
        finally:
            self._withdraw()
            what = "'{}' is closed, but what was written since the last flush may be lost"
            with family(what, self.path):
                self._close_files()

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
                lock.note_holder(self._metadata, self.header, False)
            with contextlib.suppress(OSError):  # closing drops it too, but for a forked child
                lock.release(self._metadata)

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


def _what_is_there(path: Path) -> str:
    """What a path is that is not that of an array, and what to do with it."""
    names = sorted(file.stem for file in path.glob("*.xmd"))
    if not names:
        return (
            "it is there, but is no array, which is two files with the endings .xmd and .xta; "
            "extarray.from_array copies other arrays into one"
        )
    some = ", ".join(map(repr, names[:_MOST_NAMES])) + (", ..." if len(names) > _MOST_NAMES else "")
    return (
        f"it is a folder, with the array{'s' if len(names) > 1 else ''} {some}; open one, as "
        f"{os.fspath(path / names[0])!r}, or all by xarray.open_dataset({os.fspath(path)!r}, "
        "engine='extarray')"
    )
