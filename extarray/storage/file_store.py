"""A pair of files as the store of an array: making, opening, moving, closing.

The store passes the pair of files to parts, which do the rest of its work.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import threading
import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Protocol

from extarray._core._file import Sieve
from extarray._core._history import record_at
from extarray._core._mapping import Users
from extarray._core._supply import Supply, Trust
from extarray.common.arguments import check_choice
from extarray.common.choices import VERIFICATIONS
from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    ClosedError,
    CorruptError,
    ExistsError,
    FormatError,
    MissingError,
    NotVisibleError,
    PartnerError,
    ReadOnlyError,
    RecoveryWarning,
    StorageError,
    TruncatedError,
)
from extarray.common.forks import in_children
from extarray.common.hints import hint
from extarray.common.lazy import LazyImports
from extarray.common.limits import limits
from extarray.common.on_error import OnError
from extarray.common.system import GONE, NO_WAIT, boot_id, name_of_descriptor
from extarray.common.waiting import attempts, end_of
from extarray.format.blocks import BLOCK_BYTES
from extarray.format.constants import LIMIT, LIVE_SLOTS, SPARED_SLOTS
from extarray.format.header import Header, encode_seal, new_uuid
from extarray.format.suffixes import blobs_name, file_names
from extarray.format.superblock import NO_GROUP, Superblock, regions_fit
from extarray.grid.chunking import place_of
from extarray.storage import lock
from extarray.storage.filesystem import (
    File,
    absolute_names,
    choose_engine,
    create_beside,
    family,
    fresh_name,
    holes_take_space,
    real_name,
    replaced_name,
    sync_folders,
)
from extarray.storage.group_member import GroupShare
from extarray.storage.names import (
    MAPPABLE,
    Packed,
    Publication,
    move_pair,
    open_data,
    open_log,
    remove_pair,
    remove_seldom,
    what_is_missing,
    what_is_there,
)
from extarray.storage.pair import Pair, blobs_alone
from extarray.storage.reading import PairReader
from extarray.storage.space import Allocator
from extarray.storage.states import ATTEMPTS, Unvouched, WholeState, looks
from extarray.storage.store import Freed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Any, Self

    from extarray._core._axial import Axial
    from extarray.common.arguments import Reported
    from extarray.format.blobs import BlobsBlock
    from extarray.storage.blobs import Blobs

__all__ = ["FileStore"]

# Few arrays need these: blobs, frozen chunks, metadata that are written anew.
_later = LazyImports(
    {
        "extarray.format.fresh": "encode_fresh",
        "extarray.format.frozen": "extent_bytes",
        "extarray.storage.blobs": "Blobs ShadowProvider make_shadow",
        "extarray.storage.checksums": "Sums",
        "extarray.storage.frozen": "FrozenTable",
        "extarray.storage.frozen_blobs": "new_log",
        "extarray.storage.new_axis": "add_axis recode renew_uuid repack restore_sums sums_for",
        "extarray.storage.other_hosts": "see_newest",
        "extarray.storage.steady": "write_steadily",
    }
)


class FileWriters(Protocol):
    """A policy: how the writers of a pair of files get along.

    Attributes
    ----------
    may_commit : bool
        They commit; otherwise they write elements inside the bounds, and follow the committers.
    are_one : bool
        There is one writer, apart from writers of elements only.
    joins : bool
        Other writers that commit have it open; known once `lock` has returned.
    """

    @property
    def may_commit(self) -> bool: ...
    @property
    def are_one(self) -> bool: ...
    @property
    def joins(self) -> bool: ...
    def lock(self, pair: Pair, timeout: float | None) -> None:
        """Take the lock on ``.xmd`` that writing needs."""

    def begin(self, store: FileStore, slot: int) -> None:
        """Prepare to write, with the lock held, from the state found in a slot."""

    def end(self, store: FileStore) -> None:
        """Leave the files clean for the next writer, and drop the lock."""

    def forked(self) -> None:
        """In a forked child (read-only), drop locks held by the parent's threads."""


class FileAlone:
    """The policy of a lone writer of a pair of files."""

    may_commit = are_one = True
    joins = False

    def lock(self, pair: Pair, timeout: float | None) -> None:
        """Take the writer's lock."""
        lock.acquire(pair.metadata, pair.path, timeout)

    def begin(self, store: FileStore, slot: int) -> None:
        """Take over the files from the last writer, which may have died."""
        pair, commits = store.now, store.commits
        commits.find_blocks()
        commits.take_over(partial(store.group.resolve_pendings, slot))
        if not pair.state.sealed:
            # The last writer died, perhaps during an append, or after a cut.
            store.release(pair.state.data_bytes)
            pair.unclean = commits.unsettled = True
        lock.note_holder(pair.metadata, pair.header, True, pair.place(pair.header.uuid))

    def end(self, store: FileStore) -> None:
        """Seal the files, and drop the lock."""
        pair = store.now
        if pair.held is not None:  # dropped in the middle of a block
            store.group.roll_back()
        try:
            # On a full disk the pair stays unsealed, which only costs a check.
            with contextlib.suppress(OSError):
                store.commits.seal()
        finally:
            with contextlib.suppress(OSError):
                lock.note_holder(pair.metadata, pair.header, False)
            with contextlib.suppress(OSError):  # closing drops it too, except beside a fork
                lock.release(pair.metadata)

    def forked(self) -> None:
        """Do nothing: the lock is the parent's."""


ALONE = FileAlone()


class FileStore(PairReader):
    """The store of an array in a pair of files, which it makes, opens and grows.

    `FileStore.create` and `FileStore.open` return one.

    Parameters
    ----------
    pair : Pair
    writers : FileWriters, optional
        The policy; by default, that of a lone writer.

    Attributes
    ----------
    space, group
        Parts besides those of every reader; `group` is the share in a commit of several arrays.
    blobs : Blobs
        Chunks of a packed array in another order than that of their addresses; others lack it.
    """

    blobs: Blobs

    def __init__(self, pair: Pair, writers: FileWriters | None = None) -> None:
        super().__init__(pair)
        self.writers = writers or ALONE
        commits = self.commits
        self.space = space = Allocator(pair, commits)
        self.group = GroupShare(pair, self.states, commits, space, _take_up_decision)
        self.making: Publication | None = None  # until the files have their names
        self.commit, self.set_attrs = commits.commit, commits.set_attrs
        self.set_growth, self.flush = commits.set_growth, commits.flush
        self.reserve, self.release = space.reserve, space.release
        self.renew, self.punch = space.renew, space.punch

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
        like: tuple[str, ...] | None = None,
    ) -> FileStore:
        """Make a pair of files and open it for writing.

        The files are made under other names and take their own when they are whole.  Naming the
        metadata creates the array; until the data have their name, openers find them under the
        other one.  So a crash leaves this array or the previous one, and those who have an
        overwritten array open keep it.

        `hidden` files are named by `take_names`, and are gone if that is never called.  The files
        get the permissions of `like`, or of those that they replace.  If the header says that
        chunks may be frozen, there is a third file, ``.xtz``.
        """
        pair = Pair(path)
        self = cls(pair)
        pair.header = header
        pair.attrs = attrs
        pair.mode = "r+"
        pair.is_durable = durability == "commit"
        pair.verify = config.verify  # for those who open a pickle of it
        # A link stays a link, and leads to the new file.
        with OnError(self._give_up):
            with family("cannot create '{}'", path):
                names: tuple[str, ...] = pair.names
                if header.has_blobs:
                    names = (*names, blobs_name(names[0]))
                wanted = names
                if overwrite:
                    names = tuple(map(replaced_name, names))
                fresh = tuple(fresh_name(name, header.uuid) for name in names)
                self.making = Publication(fresh, names, overwrite, header.uuid)
                for name in wanted:
                    if os.path.lexists(name) and not overwrite:
                        what = "it already exists; open it, or give overwrite=True"
                        raise ExistsError(errno.EEXIST, what, name)
                self._lock_present()
                # Left-overs of a damaged array may be its remains.
                if self.making.old_header is not None or not self.making.replaces:
                    remove_seldom((names[0], names[1]), self.making.old_header)
                self._make_files(names if like is None else like, engine)
                data_bytes = place_of(axial.size, header.chunk_bytes)
                first = Superblock.first(shape, axial.grid, data_bytes, growth=growth)
                self._write_first(axial, first, attrs)
            if not hidden:
                self.take_names()
        in_children(self, type(self)._forked)
        self.write_steadily(durability)
        return self

    @classmethod
    def make_successor(
        cls, old: FileStore, axial: Axial, header: Header, what: str, hollow: bool = False
    ) -> FileStore:
        """Make files of the array that another store has open for writing, with another header.

        They have another uuid, and the same bounds and history; the caller fills the chunks.
        `take_names` lets them replace the old files.

        Parameters
        ----------
        old : FileStore
        axial : Axial
        header : Header
        what : str
            Beginning of messages, with a place for the path.
        hollow : bool
            Chunks are holes, which the caller freezes.
        """
        before = old.now
        pair = Pair(before.path)
        self = cls(pair)
        pair.header = header
        pair.attrs, pair.mode, pair.unclean = before.attrs, "r+", before.unclean
        pair.is_durable, pair.verify = before.is_durable, before.verify
        with OnError(self._give_up), family(what, pair.path):
            old.real_stems(what)
            names: tuple[str, ...] = pair.names
            if header.has_blobs:
                names = (*names, blobs_name(names[0]))
            names = tuple(map(replaced_name, names))
            fresh = tuple(fresh_name(name, pair.header.uuid) for name in names)
            self.making = Publication(fresh, names, True, pair.header.uuid)
            with before.metadata as fd:  # its lock stays that of the other store
                self.making.old = File(os.dup(fd), names[0])
            self._make_files((*names[:2], names[1]), before.engine)
            first = before.state._replace(
                sequence=0,
                sealed=False,
                unclean=before.unclean,
                superseded=False,
                group=NO_GROUP,
                data_bytes=place_of(axial.size, header.chunk_bytes),
            )
            self._write_first(axial, first, pair.attrs, hollow)
            if hollow and pair.sums is not None and before.sums is not None:
                pair.sums.inherited = before.sums.inherited
                _later.restore_sums(pair, self.commits, _later.sums_for(before, pair.header))
        in_children(self, type(self)._forked)
        self.write_steadily(old.durability)
        return self

    def _make_files(self, like: Sequence[str], engine: str) -> None:
        """Make the files of a new pair, with the permissions of others, and lock them."""
        pair, making = self.now, self.making
        assert making is not None
        fresh, names = making.fresh, making.names
        pair.data = create_beside(fresh[1], names[1], like[1])
        if pair.header.has_blobs:
            pair.blobs = create_beside(fresh[2], names[2], like[-1])
        pair.metadata = create_beside(fresh[0], names[0], like[0])
        if pair.header.has_blobs:
            _check_coherent(pair)
        pair.engine = choose_engine(engine, pair.data, True)
        pair.hollow = pair.header.sparse and holes_take_space(pair.data)
        self.writers.lock(pair, 0)
        self._take_sieve()

    def _give_up(self) -> None:
        """Remove everything of a new pair that could not be made."""
        self._withdraw()
        self.now.close()

    def _lock_present(self) -> None:
        """Keep others from writing to a pair about to be replaced, if there is one."""
        making = self.making
        assert making is not None
        if not making.overwrite or making.replaces or not os.path.exists(making.names[0]):
            return
        name, flags, header = making.names[0], os.O_RDWR | NO_WAIT, None
        there = FileStore(present := Pair(self.now.path))
        try:
            present.metadata = File.open(name, flags)
            there._take_lock(name, flags, 0)
            try:
                present.read_header()
                header = present.header
                lock.note_holder(present.metadata, header, True)
                # Its unfinished commits with others no longer matter.
                present.state = there.states.whole_state([]).state
            except FormatError:
                pass  # a damaged pair may be replaced
            else:
                there.group.conclude_members()
            present.metadata, making.old, making.old_header = File(), present.metadata, header
        finally:
            present.close()

    @property
    def names_as_yet(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """The temporary names of the files of a new pair, or None once it has its own."""
        return None if self.making is None else self.making.fresh

    def take_names(self) -> None:
        """Give the files of a new pair their names; remove them on an error."""
        pair = self.now
        if self.making is None:  # closed, for example by `close_all`
            raise ClosedError(
                f"'{pair.path}' was closed while it was being made, and nothing of it is "
                "left; call close_all before or afterwards"
            )
        with OnError(self._withdraw), family("cannot create '{}'", pair.path):
            self._lock_present()  # another pair may have come meanwhile
            making = self.making
            assert making is not None
            if making.replaces or pair.is_durable or pair.metadata.keeps_copies:
                # Even after a power cut, either this array or the previous one must be there; and
                # other hosts must not find the names before the contents.
                self.commits.sync_data()
                self.commits.sync_state()
            making.publish(pair.path)
            for file, name in zip(pair.files, making.names, strict=True):
                file.name = name
            if pair.is_durable:
                sync_folders(making.names)
            pair.names_given = not pair.is_durable
            self.making = None
            making.release()

    def _withdraw(self) -> None:
        """Remove the files of a new pair, unless they have replaced another."""
        pair = self.now
        making, self.making = self.making, None
        if making is not None:
            making.withdraw(*pair.files)

    def _write_first(
        self, axial: Axial, first: Superblock, attrs: str, hollow: bool = False
    ) -> None:
        """Write the first state; `hollow`: chunks are holes, and do not have the fill value."""
        pair = self.now
        records = [record_at(axial, n) for n in range(axial.segments)]
        fresh = _later.encode_fresh(pair.header, first, records, attrs, LIVE_SLOTS[:1])
        self.commits.take(fresh)
        data_bytes = first.data_bytes
        if not pair.header.has_blobs:
            self.reserve(0, data_bytes)
        if pair.header.checksum:
            pair.sums = _later.Sums(pair.metadata, pair.header, [], True, pair.path)
        pair.metadata.write(fresh.image, 0)
        if pair.header.has_blobs:  # its table needs the metadata
            uuid = new_uuid()
            pair.blobs.write(_later.new_log(uuid, pair.header.uuid), 0)
            pair.frozen = _later.FrozenTable.create(pair, self.commits, uuid)
            self.reserve(0, data_bytes, [] if hollow else None)
        lock.note_holder(pair.metadata, pair.header, True, pair.place(pair.header.uuid))
        pair.map(data_bytes)

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
        recover: bool | None = None,
        writers: FileWriters | None = None,
        names: tuple[str, ...] | None = None,
    ) -> tuple[Self, Axial]:
        """Open a pair of files; `names` are the temporary ones of a pair still being made."""
        timeout = lock.check_timeout(timeout)
        if verify is None:
            verify = config.verify
        else:
            check_choice(verify, "verify", VERIFICATIONS)
        recovers = False
        waits: Iterator[None] | None = None
        for attempt in itertools.count(1):
            pair = Pair(path)
            pair.verify = verify
            if names is not None:
                pair.names = names[0], names[1]
            self = cls(pair, writers)
            try:
                with family("cannot open '{}'", path):
                    axial = self._open(mode == "r+", timeout, engine, recovers, names)
                    if self.now.has_name or attempt == ATTEMPTS:
                        break
            except (CorruptError, TruncatedError, PartnerError, StorageError) as error:
                metadata = self.now.metadata
                is_late = isinstance(error, NotVisibleError)
                if isinstance(error, StorageError) and not metadata.closed:
                    # A file may be gone that this host still knows by its name.
                    is_late |= error.errno in GONE and metadata.keeps_copies
                if metadata.closed or (isinstance(error, StorageError) and not is_late):
                    self.now.close()
                    raise
                # Between the namings of its two files, an overwritten pair fits no reader.
                replaced, keeps_copies = not self.now.has_name, metadata.keeps_copies
                self.now.close()
                if keeps_copies:
                    waits = waits or attempts(end_of(limits.visibility_patience))
                    is_over = next(waits, False) is False
                    if is_over and (recovers or not recover):
                        raise
                    recovers = is_over
                else:
                    if isinstance(error, CorruptError) or attempt == ATTEMPTS:
                        raise
                    may_recover = attempt > 5 and not replaced
                    if may_recover and (recovers or recover is False):
                        raise
                    recovers = may_recover
                    time.sleep(0.002)
            except BaseException:
                self.now.close()
                raise
            # The pair was overwritten between opening its two files.
            self.now.close()
        self.now.is_durable = durability == "commit"
        self.write_steadily(durability)
        if names is not None:
            self.now.names = absolute_names(path)  # its final names
        if mode == "r+":
            in_children(self, type(self)._forked)
            self.now.names_found = True  # perhaps never flushed since the naming
            if self.now.is_durable:
                # New commits must not be more durable than the state they build on.
                with OnError(self.now.close):
                    self.flush()
        return self, axial

    def write_steadily(self, durability: str) -> None:
        """Begin to write to the disk in the background, if the durability is "steady"."""
        if durability == "steady":
            with OnError(self.close):
                _later.write_steadily(self.now)

    def _open(
        self,
        writable: bool,
        timeout: float | None,
        engine: str,
        recover: bool,
        names: tuple[str, ...] | None,
    ) -> Axial:
        """Open the files; with `recover`, in a state that survived a power cut."""
        pair = self.now
        commits = writable and self.writers.may_commit
        metadata, data, *_ = names or file_names(pair.path)
        flags = (os.O_RDWR if writable else os.O_RDONLY) | NO_WAIT
        try:
            pair.metadata = File.open(metadata, flags)
        except (FileNotFoundError, NotADirectoryError):
            if not self._open_packed(writable):
                tell = what_is_there if os.path.exists(pair.path) else what_is_missing
                what = f"cannot open '{pair.path}': {tell(pair.path)}"
                raise MissingError(errno.ENOENT, what, metadata) from None
        if commits:
            self._take_lock(metadata, flags, timeout)
        try:
            pair.read_header()
            # Read the number before the state, to notice any later cut.  A reader compares the raw
            # number, including its flag; it needs none if holes hold the fill value.
            if commits:
                pair.cuts_known = pair.read_cuts()
            elif any(pair.header.fill):
                pair.cuts_known = pair.read_count()
            found = self.states.newest_state()
        except FormatError as error:
            raise type(error)(f"'{metadata}': {error}") from None
        block = None
        if pair.header.has_blobs:
            if pair.packed_as:
                return self._open_blobs(found, engine)
            block = self._block_of_frozen(writable)
        else:
            pair.blobs.close()  # of a name that means nothing to format 2
        try:
            if not pair.packed_as:
                name = data
                pair.data = open_data((metadata, data), pair.header.uuid, flags)
            if block is not None:
                name = names[2] if names is not None else blobs_name(metadata)
                # Only the writer that commits knows that no other one is making a log just now.
                how = flags if commits else os.O_RDONLY | NO_WAIT
                pair.blobs = open_log(names or (metadata,), pair.header.uuid, block[1].uuid, how)
        except FileNotFoundError:
            what = "data file" if name == data else "file of frozen chunks"
            raise MissingError(
                errno.ENOENT,
                f"cannot open '{pair.path}': the metadata file exists, but its {what} is "
                f"missing; put {'both' if block is None else 'all three'} files in the same folder",
                name,
            ) from None
        if pair.metadata.keeps_copies:
            found = self._arrived(found, commits)
            if not recover:
                self.states.check_visible(found)
        # A writer may be at work: a reader looks again before it calls a file damaged.
        for _ in range(ATTEMPTS):
            problem = self.states.check_data(found.state)
            if problem is None or commits:
                break
            newer = self.states.newest_state()
            if newer.state.sequence == found.state.sequence:
                break
            found = newer
        if problem is not None:
            is_late = isinstance(problem, TruncatedError) and pair.metadata.keeps_copies
            recovered = self.states.recovered(found.state) if recover or is_late else None
            if is_late and not recover:
                left = None if recovered is None else recovered.state
                raise self.states.not_visible(found.state, left) from problem
            if recovered is None:
                raise problem
            found = recovered
        if self.states.orphaned is not None:
            place, fault = self.states.orphaned
            what = (
                f"'{pair.path}' has an unfinished commit with other arrays, and '{place}', which "
                "decides whether it counts, is"
            )
            if commits and fault is not None:
                raise CorruptError(
                    f"{what} damaged ({fault}); repair that array first, or use "
                    + hint(
                        f"check('{pair.path}', repair=True, force=True)",
                        "extarray check --repair --force",
                    )
                    + " to roll back"
                )
            warnings.warn(
                f"{what} {'missing' if fault is None else 'damaged'}: opened in the previous state",
                RecoveryWarning,
                stacklevel=4,
            )
        if problem is not None or found.slot in SPARED_SLOTS:
            warnings.warn(
                f"'{pair.path}' is incomplete, as after a power failure: opened in its newest "
                f"complete state, of shape {found.state.shape}",
                RecoveryWarning,
                stacklevel=4,
            )
        if not writable and problem is None:
            self.unvouched = self._find_unvouched(found)
        state, axial, pair.attrs = found.state, found.axial, found.attrs
        pair.state, pair.extents = state, found.extents
        pair.unclean = state.unclean
        pair.engine = choose_engine(engine, pair.data, writable)
        if block is not None:
            pair.mode = "r+" if commits else "r"
            if commits:
                self._check_table(found, block[1])
            joins = commits and self.writers.joins
            pair.frozen = _later.FrozenTable.load(pair, *block, axial.size, joins)
        if pair.data.start % MAPPABLE and pair.engine == "mmap":
            if engine == "mmap":
                raise ArgumentError(
                    f"cannot map '{pair.path}': its chunks are not page-aligned in the packed "
                    f"file, as those by {hint('extarray.pack', 'extarray pack')} are; "
                    + hint("use engine='pread'", "set EXTARRAY_ENGINE=pread")
                )
            pair.engine = "pread"
        # While a reader has it open, a writer may shrink the array and make holes.
        pair.hollow = (pair.header.sparse or not commits) and holes_take_space(pair.data)
        if commits:
            if problem is None and self.states.orphaned is None and found.slot not in SPARED_SLOTS:
                # Otherwise the left-overs may have what the array lacks.
                remove_seldom((real_name(metadata), real_name(data)), pair.header)
            self.writers.begin(self, found.slot)
            if pair.header.checksum:
                pair.sums = _later.Sums.load(
                    pair.metadata, pair.header, axial.size, pair.state, pair.extents, pair.path
                )
        elif writable:
            self.writers.begin(self, found.slot)
        if pair.header.checksum and pair.verify != "never":
            if not commits:
                pair.trust = Trust(LIMIT - 1)  # no writes by this session
            elif pair.sums is not None and not pair.sums.inherited:
                pair.trust = Trust(axial.size)
        if writable:
            pair.mode = "r+"
            self._take_sieve()
        if not commits:
            pair.watch_cuts()
        pair.map(pair.state.data_bytes)
        return axial

    def _block_of_frozen(self, writable: bool) -> tuple[int, BlobsBlock]:
        """Return place and contents of the block for frozen chunks."""
        pair = self.now
        try:
            found: tuple[int, BlobsBlock] | None = _later.FrozenTable.block_of(pair)
        except CorruptError as error:
            raise type(error)(f"'{pair.metadata.name}': {error}") from None
        if found is None:
            raise blobs_alone(pair.metadata.name)
        if writable:
            _check_coherent(pair)
        return found

    def _check_table(self, found: WholeState, block: BlobsBlock) -> None:
        """Raise CorruptError if writing to the table of frozen chunks would do harm."""
        pair = self.now
        places = [(at, BLOCK_BYTES[kind]) for kind, at in pair.blocks().items()]
        places += [(at, _later.extent_bytes(number)) for number, at in enumerate(block.extents)]
        if not regions_fit(found.state, pair.header, found.extents, others=places):
            raise CorruptError(
                f"'{pair.path}.xmd' is damaged: its table of frozen chunks overlaps other parts; "
                "restore the file from a copy"
            )

    def _arrived(self, found: WholeState, commits: bool) -> WholeState:
        """Return the newest state once all that a dead writer has written on another host is here.

        Without a seal, writes may still be on their way when the writer's lock is free.
        """
        pair = self.now
        if not commits:
            pair.data.forget()  # elements that this host read before another wrote them
            return found
        for file in (pair.metadata, pair.data):
            _later.see_newest(file, True, 0, pair.path)
        found = self.states.newest_state()
        if found.state.sealed:
            return found
        for _ in looks(pair.metadata):
            before, length = found.state.sequence, pair.data.length
            time.sleep(limits.arrival_time)
            found = self.states.newest_state()
            if (before, length) == (found.state.sequence, pair.data.length):
                break
        return found

    def _open_blobs(self, found: WholeState, engine: str) -> Axial:
        """Open an array whose chunks are in blobs, in a state of its metadata."""
        pair = self.now
        if pair.blobs.closed:
            raise PartnerError(f"'{pair.path}.xtz' is missing in the packed file")
        if not found.state.sealed:
            raise CorruptError(f"'{pair.path}': the state of a packed array is not sealed")
        seal = encode_seal(pair.header.uuid)
        if pair.data.length != len(seal) or pair.data.read(len(seal), 0) != seal:
            raise PartnerError(f"'{pair.path}.xta' is not the array's seal alone: it is damaged")
        pair.state, pair.extents, pair.attrs = found.state, found.extents, found.attrs
        pair.unclean = found.state.unclean
        try:
            self.blobs = _later.Blobs(
                pair.metadata, pair.blobs, pair.header, found.state, found.axial,
                f"{pair.path}.xtz", pair.verify != "never",
            )  # fmt: skip
        except CorruptError as error:
            raise type(error)(f"'{pair.path}': {error}") from None
        self._cast_shadow(engine)
        in_children(self, type(self)._cast_shadow)
        return found.axial

    def _cast_shadow(self, engine: str | None = None) -> None:
        """Give this process its own memory for the chunks of blobs, and their provider."""
        pair = self.now
        if pair.blobs.closed:
            return
        pair.data.close(alone=True)
        pair.data = _later.make_shadow(pair.state.data_bytes, pair.header.uuid)
        if engine is not None:  # not in a forked child
            pair.engine = choose_engine(engine, pair.data, False)
        provider = _later.ShadowProvider(self.blobs, pair.data)
        pair.supply = Supply(provider, pair.header.chunk_bytes, config.max_memory)
        pair.map(pair.state.data_bytes)

    def _find_unvouched(self, found: WholeState) -> Unvouched | None:
        """Return the elements that nothing vouches for; None if there is or may be a writer."""
        pair = self.now
        if found.state.sealed or pair.packed_as or not any(boot_id()):
            return None
        unvouched = self.states.unvouched(found.state, found.axial)
        if unvouched is None or pair.metadata.is_networked or not lock.can_tell():
            return None
        with contextlib.suppress(OSError):
            # A writer may have ended since the state was read.
            if not lock.is_held(pair.metadata):
                newest = self.states.newest_state().state
                return unvouched if newest.sequence == found.state.sequence else None
        return None

    def _take_sieve(self) -> None:
        """Permit writing back gaps between elements, if nobody else commits."""
        if self.writers.are_one and self.now.engine == "pread":
            self.now.sieve = Sieve()

    def _open_packed(self, writable: bool) -> bool:
        """Open the pair inside a packed file; tell whether there is one."""
        pair = self.now
        with Packed.find(pair.path) as packed:
            if packed is None:
                return False
            if writable:
                raise ReadOnlyError(
                    f"cannot open '{pair.path}' for writing: it is in a packed file, which is "
                    "read-only; use "
                    + hint(f"extarray.unpack('{packed.path}', path)", "extarray unpack FILE DST")
                )
            inner, pair.metadata, pair.data = packed.open_pair(pair.path, pair.verify)
            pair.blobs = packed.open_blobs(inner)
            pair.path = packed.path / inner
            pair.names = packed.name, packed.name
            pair.packed_as = f"{packed.name}/{inner}"
            if pair.verify == "read" and not pair.has_sums():
                packed.compare_data(inner, pair.data)
        return True

    def _take_lock(self, metadata: str, flags: int, timeout: float | None) -> None:
        """Take the writer's lock on the ``.xmd`` that has the name."""
        pair = self.now
        while True:
            self.writers.lock(pair, timeout)
            # The previous holder of the lock may have replaced the files.
            if pair.metadata.is_at(metadata):
                return
            pair.metadata.close()
            pair.metadata = File.open(metadata, flags)

    def add_axis(
        self,
        chunks: tuple[int, ...],
        axial: Axial,
        shape: tuple[int, ...],
        offset: tuple[int, ...],
        attrs: str,
    ) -> None:
        """Add an axis; on an error nothing has changed."""
        _later.add_axis(self.now, self.commits, chunks, axial, shape, offset, attrs)

    def recode(self, axial: Axial, encoding: dict[str, Any]) -> None:
        """Change how chunks are frozen from now on; on an error nothing has changed."""
        _later.recode(self.now, self.commits, axial, encoding)

    def repack(self, axial: Axial, progress: Reported) -> None:
        """Drop what nobody needs in the log of frozen chunks; on an error nothing has changed."""
        _later.repack(self.now, self.commits, axial, progress)

    # -- names -----------------------------------------------------------------------------------

    def real_stems(self, what: str) -> set[str]:
        """Return the files' real paths without suffix; refuse names that lead to other files."""
        pair = self.now
        pair.own_name(what)
        return {os.path.splitext(real_name(name))[0] for name in pair.names}

    def move(self, path: Path, overwrite: bool, replaced: FileStore | None = None) -> None:
        """Give the pair another name.

        Those who have an overwritten pair open keep it.  The caller must hold its writer's lock,
        and passes its store as `replaced`.
        """
        pair = self.now
        if replaced is not None:
            replaced.group.conclude_members()
            if replaced.now.header.uuid == pair.header.uuid:
                replaced.renew_uuid()
        names = absolute_names(path)
        with family(f"cannot move '{{}}' to '{path}'", pair.path):
            folder = os.path.dirname(names[0])
            if not os.path.isdir(folder):
                what = "no such folder; create it first"
                raise FileNotFoundError(errno.ENOENT, what, folder)
            before, after = map(pair.names_of_files, (pair.names, names))
            move_pair(pair.files, before, after, pair.header.uuid, overwrite)
        pair.path, pair.names = path, names
        pair.names_given = True

    def renew_uuid(self) -> None:
        """Give this pair, about to be replaced, another uuid.

        A pair of the same uuid can then take its names: each finds its data by its own uuid,
        whatever interrupts the work.
        """
        _later.renew_uuid(self.now, self.commits, self.states.newest_state().axial)

    def take_place(self, path: Path) -> None:
        """Note the new place of the files, after their folder was moved."""
        pair = self.now
        pair.path, pair.names = path, absolute_names(path)
        pair.names_given = True

    def remove(self) -> None:
        """Remove the files, the metadata first, so that no remnant opens."""
        pair = self.now
        remove_pair(pair.names_of_files(pair.names), pair.header.uuid)

    # -- end -------------------------------------------------------------------------------------

    def _forked(self) -> None:
        """Become a reader in a forked child: only the parent is the writer."""
        self.writers.forked()
        pair = self.now
        if pair.metadata.closed or pair.mode != "r+":  # closed, or a child's child
            return
        before, pair.metadata = pair.metadata, File()
        pair.mode = "r"
        pair.is_forked = True
        pair.elements_only = False
        pair.sums = pair.sieve = None
        pair.users = Users()  # other threads of the parent never leave theirs
        pair.freed = Freed(pair.users)
        self.chunk_sums.healing = threading.Lock()
        making, self.making = self.making, None
        if making is not None:
            making.release(alone=True)
        # A thread of the parent may just have given the name to other metadata.
        with contextlib.suppress(OSError), before as fd:
            name = pair.names[0] if before.is_at(pair.names[0]) else name_of_descriptor(fd)
            pair.metadata = File.open(name, os.O_RDONLY | NO_WAIT)
            pair.watch_cuts()
            if pair.frozen is not None:
                with contextlib.suppress(FormatError):  # the parent may be at work
                    pair.frozen = pair.frozen.for_reader()
        with contextlib.suppress(OSError):
            # Closing this copy of the descriptor keeps the parent's lock; unlocking would drop it.
            before.close(alone=True)

    def close(self) -> None:
        """Seal, unlock and close."""
        pair = self.now
        if pair.metadata.closed and pair.data.closed:
            return
        try:
            if pair.sieve is not None:
                pair.sieve.stop()  # another writer may come before a write has ended
            if pair.mode == "r+":
                self.writers.end(self)
        finally:
            pair.unmap()  # Windows removes no file that is mapped
            self._withdraw()
            what = "'{}' is closed, but data written since the last flush may be lost"
            with family(what, pair.path):
                pair.close()


def _check_coherent(pair: Pair) -> None:
    """Refuse to freeze and thaw where other hosts would not notice."""
    if pair.metadata.keeps_copies:
        raise ArgumentError(
            f"cannot write compressed chunks to '{pair.path}': hosts may share its file system, "
            "and keep copies that hide when a chunk becomes compressed; write to a local disk, and "
            "move or pack the array when it is complete, or leave out compression"
        )


def _take_up_decision(path: Path) -> None:
    """Open a pair for writing, which applies a decision about it, and close it."""
    FileStore.open(path, "r+", 0, "auto", "flush")[0].close()
