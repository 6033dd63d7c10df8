"""A pair of files as the store of an array, from its making or opening to its end.

A store makes room, commits growth, and keeps the attributes; it never looks at elements.  The rest
of its work is in other modules of this room, each part above the one that it needs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import warnings
from typing import TYPE_CHECKING

from extarray._core._history import record_at
from extarray._core._mapping import Users
from extarray._core._state import Trust
from extarray.common.arguments import check_choice
from extarray.common.config import VERIFICATIONS, config
from extarray.common.errors import (
    CorruptError,
    ExistsError,
    FormatError,
    MissingError,
    PartnerError,
    RecoveryWarning,
    TruncatedError,
)
from extarray.common.forks import in_children
from extarray.format.constants import (
    LIMIT,
    LIVE_SLOTS,
    SPARED_SLOTS,
)
from extarray.format.directory import BLOCK_BYTES, DIRECTORY_BYTES
from extarray.format.fresh import encode_fresh
from extarray.format.header import Header
from extarray.format.superblock import LAST_COMMIT, NO_GROUP, Superblock
from extarray.format.validity import regions_fit
from extarray.storage import lock
from extarray.storage.checksums import Sums
from extarray.storage.filesystem import (
    File,
    absolute_names,
    choose_engine,
    create_beside,
    family,
    file_names,
    fresh_name,
    holes_take_space,
    real_name,
    sync_folders,
)
from extarray.storage.group_member import GroupShare
from extarray.storage.names import Publication, move_pair, open_data, remove_pair
from extarray.storage.new_axis import add_axis
from extarray.storage.orphans import remove_seldom
from extarray.storage.pending import Freed
from extarray.storage.space import Allocator
from extarray.storage.states import ATTEMPTS, OPEN_FLAGS

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from extarray._core._axial import Axial

__all__ = ["FileStore"]

_MOST_NAMES = 5  # of the arrays of a folder, in a message


class FileStore(Allocator):
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

    @property
    def files(self) -> Self:
        """The store itself; members that only stores with files have are asked of this."""
        return self

    @property
    def group(self) -> GroupShare:
        """The share of this pair of files in a commit of several arrays."""
        return GroupShare(self, _take_up_decision)  # kept, it would keep the store alive

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

        The files are made under other names and take their own when they are whole.  The array
        exists from the moment at which its metadata have their name: until the data have theirs,
        whoever opens it finds them under the other one.  So a crash leaves this array or what was
        there before, and an array that is overwritten stays valid for those who have it open.

        With `hidden` they take their names in `take_names`, and are gone if that is never called.
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
                self.hollow = header.sparse and holes_take_space(self._data)
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
        header = None
        try:
            present._metadata = File.open(name, flags)
            present._take_lock(name, flags, 0)
            try:
                present._read_header()
                header = present.header
                lock.note_holder(present._metadata, header, True)
                # It no longer matters whether it was to change with others.
                present.state = present._whole_state([]).state
            except FormatError:
                pass  # what is damaged may be replaced
            else:
                present.group.conclude_members()
            present._metadata, making.old, making.old_header = File(), present._metadata, header
        finally:
            present._close_files()

    def take_names(self) -> None:
        """Give the files of a new pair their names.  On an error they are gone."""
        try:
            with family("cannot create '{}'", self.path):
                self._lock_present()  # another pair may have come meanwhile
                making = self._making
                assert making is not None
                if making.replaces or self.is_durable:
                    # After a loss of power, too, there must be this array or the one before.
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
        fresh = encode_fresh(self.header, first, [record_at(axial, 0)], attrs, LIVE_SLOTS[:1])
        self._take(fresh)
        self.reserve(0, data_bytes)
        if self.header.checksum:
            self.sums = Sums(self._metadata, self.header, [], True, self.path)
        self._metadata.write(fresh.image, 0)
        lock.note_holder(self._metadata, self.header, True)
        self.region = self._region_of(data_bytes)
        self._count_cuts(True)

    # -- opening ---------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        path: Path,
        mode: str,
        timeout: float | None,
        engine: str,
        durability: str,
        verify: str | None = None,
    ) -> tuple[Self, Axial]:
        """Open a pair of files."""
        timeout = lock.check_timeout(timeout)
        if verify is None:
            verify = config.verify
        else:
            check_choice(verify, "verify", VERIFICATIONS)
        recover = False
        for attempt in range(ATTEMPTS):
            self = cls(path)
            self.verify = verify
            try:
                with family("cannot open '{}'", path):
                    axial = self._open(mode == "r+", timeout, engine, recover)
                    if self._metadata.is_at(self._names[0]):
                        break
            except (PartnerError, TruncatedError):
                replaced = not self._metadata.is_at(self._names[0])
                self._close_files()
                # Between the naming of the two files, an overwritten pair fits for no reader.
                if attempt == ATTEMPTS - 1 or (recover and not replaced):
                    raise
                recover = attempt >= 5 and not replaced
                time.sleep(0.002)
            except BaseException:
                self._close_files()
                raise
            # The pair was overwritten between the opening of one file and of the other.
            self._close_files()
        self.mode = mode
        self.is_durable = durability == "commit"
        if mode == "r+":
            in_children(self, type(self)._forked)
            self._found_entry = True  # perhaps nobody has flushed since they were given
            if self.is_durable:
                # What one builds on must not be less durable than what one builds.
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
            self._metadata = File.open(metadata, flags)
        except FileNotFoundError:
            if not os.path.exists(self.path):
                raise
            what = f"cannot open '{self.path}': {_what_is_there(self.path)}"
            raise MissingError(errno.ENOENT, what, metadata) from None
        if writable:
            self._take_lock(metadata, flags, timeout)
        try:
            self._read_header()
            # Before the state, so that a cut made after it is noticed.
            self._cuts_made = self._read_cuts()
            # A reader compares the number as it stands, whatever mark it has.
            self.cuts_known = self._cuts_made if writable else self._read_count()
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
        self.hollow = (self.header.sparse or not writable) and holes_take_space(self._data)
        if writable:
            if problem is None and self._orphaned is None and found.slot not in SPARED_SLOTS:
                # Otherwise those files may have what the array lacks.
                remove_seldom((real_name(metadata), real_name(data)), self.header)
            self._begin_writing(found.slot)
            if self.header.checksum:
                self.sums = Sums.load(
                    self._metadata, self.header, axial.size, self.state, self._extents, self.path
                )
        if self.header.checksum and self.verify != "never":
            if self.sums is None:
                self.trust = Trust(LIMIT - 1)  # whoever writes, it is not this session
            elif not self.sums.inherited:
                self.trust = Trust(axial.size)
        self.region = self._map(self.state.data_bytes, writable, self.engine == "mmap")
        self._count_cuts(writable)
        return axial

    def _take_lock(self, metadata: str, flags: int, timeout: float | None) -> None:
        """Take the writer's lock on the ``.xmd`` that has the name."""
        while True:
            self._lock(self._metadata, timeout)
            # Whoever held the lock may have replaced the files.
            if os.path.samestat(self._metadata.stat(), os.stat(metadata)):
                return
            self._metadata.close()
            self._metadata = File.open(metadata, flags)

    def _lock(self, file: File, timeout: float | None) -> None:
        """Take the writer's lock on ``.xmd``."""
        lock.acquire(file, self.path, timeout)

    def _begin_writing(self, slot: int) -> None:
        """Prepare to write, with the lock held, in the state that was found in a slot."""
        self._see_blocks()
        self._take_over(slot)
        if not self.state.sealed:
            # The last writer died, perhaps in the midst of an append, or after a cut.
            self.release(self.state.data_bytes)
            self.unclean = self._unsettled = True
        lock.note_holder(self._metadata, self.header, True)

    def _see_blocks(self) -> None:
        """Find where the optional blocks are, which a state does not tell."""
        blocks = self._blocks()
        places = [(at, BLOCK_BYTES[kind]) for kind, at in blocks.items()]
        if not regions_fit(self.state, self.header, self._extents, others=places):
            # Somebody made it up: writing there would do harm.
            self._metadata.write(bytes(DIRECTORY_BYTES), self.header.directory_offset)
            places = []
        self._blocks_end = max((at + length for at, length in places), default=0)

    def _take_over(self, begun: int) -> None:
        """Begin to write in the state of a slot, where the last writer ended.

        It may not have ended of its own accord.
        """
        numbers, live = [self.state.sequence], []
        for slot, block in self._superblocks((*LIVE_SLOTS, *SPARED_SLOTS)):
            numbers.append(block.sequence)
            if slot in LIVE_SLOTS:
                live.append(block.sequence)
            else:
                self._durable[slot] = block
        # Of states, too, that are newer and not whole: they must never come back.
        newest = max(numbers)
        if newest > LAST_COMMIT:
            raise CorruptError(
                f"'{self.path}.xmd' has commit {newest}, and no number for a next one; copy the "
                "array into a fresh one"
            )
        self.group.resolve_pendings(begun)
        if live[:1] != [self.state.sequence] or newest != self.state.sequence:
            for sequence in (newest + 1, newest + 2):
                self._write_superblock(self.state._replace(sequence=sequence, superseded=False))
            self._metadata.datasync()

    def add_axis(
        self,
        chunks: tuple[int, ...],
        axial: Axial,
        shape: tuple[int, ...],
        offset: tuple[int, ...],
        attrs: str,
    ) -> None:
        """Add an axis; on an error nothing has changed."""
        add_axis(self, chunks, axial, shape, offset, attrs)

    # -- names -----------------------------------------------------------------------------------

    def real_stems(self, what: str) -> set[str]:
        """Return the files' paths without suffix, links followed; they must be those we have."""
        self._own_name(what)
        return {os.path.splitext(real_name(name))[0] for name in self._names}

    def move(self, path: Path, overwrite: bool) -> None:
        """Give the pair another name.

        A pair that is overwritten stays valid for those who have it open; holding its writer's lock
        is up to the caller.
        """
        names = absolute_names(path)
        with family(f"cannot move '{{}}' to '{path}'", self.path):
            files = self._metadata, self._data
            move_pair(files, self._names, names, self.header.uuid, overwrite)
        self.path, self._names = path, names
        self._new_entry = True

    def remove(self) -> None:
        """Remove the files; the metadata first, so that nothing is left that opens."""
        remove_pair(self._names, self.header.uuid)

    # -- end -------------------------------------------------------------------------------------

    def _forked(self) -> None:
        """Become a reader in a forked child: the parent alone is the writer."""
        if self._metadata.closed or self.mode != "r+":  # closed; or the child of a child
            return
        before, self._metadata = self._metadata, File()
        self.mode = "r"
        self.is_forked = True
        self.sums = None
        self.users = Users()  # those of other threads of the parent never leave
        self.freed = Freed(self.users)
        self.healing = threading.Lock()
        making, self._making = self._making, None
        if making is not None:
            making.release(alone=True)
        # A thread of the parent may just have given the name to other metadata.
        with contextlib.suppress(OSError), before as fd:
            name = self._names[0] if before.is_at(self._names[0]) else f"/dev/fd/{fd}"
            self._metadata = File.open(name, os.O_RDONLY | OPEN_FLAGS)
            self._count_cuts(False)
        with contextlib.suppress(OSError):
            # Closing this copy of the descriptor leaves the parent's lock alone.  Unlocking would
            # not.
            before.close(alone=True)
        self.cuts_known = self._cuts_made

    def as_committed(self, axial: Axial) -> Axial:
        """Take up, in a forked child, what counts and no part of another thread's block."""
        self.held = None
        return super().as_committed(axial)

    def close(self) -> None:
        """Seal, unlock and close."""
        if self._metadata.closed and self._data.closed:
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
        if self.held is not None:  # forgotten in the middle of a block
            self.group.roll_back()
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
        try:
            if not getattr(self, "_metadata", File()).closed:
                self.warn_if_writer()
        finally:
            self._close_quietly()

    def warn_if_writer(self) -> None:
        """Warn of a writer that nobody has closed."""
        if self.mode == "r+":
            warnings.warn(
                f"'{self.path}' was not closed; use close() or a with block",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def _close_quietly(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def _take_up_decision(path: Path) -> None:
    """Open a pair of files for writing, which takes up what was decided about it, and close it."""
    FileStore.open(path, "r+", 0, "auto", "flush")[0].close()


def _what_is_there(path: Path) -> str:
    """Say what a path is that is not that of an array, and what to do with it."""
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
