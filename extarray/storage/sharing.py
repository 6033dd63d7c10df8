"""A pair of files that several writers share.

Each commit builds on the newest state, under a lock held only for the commit (I6): the writer first
adopts what others have committed.  A table in ``.xmd`` tells what the writers are doing.  The
kernel drops the locks of a dead writer, which shows which entries still count.

An append takes a *turn*.  It gets a ticket and a place behind all places given before, writes its
elements there without a lock, and is committed once those with earlier tickets have been committed
or have died.  A change that needs exclusive access waits in the same queue.

Processes that only write elements inside the bounds take no part in this: see `FileElements`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from typing import TYPE_CHECKING

from extarray.common.errors import (
    ArgumentError,
    CorruptError,
    FormatError,
    LockedError,
    PartnerError,
    TruncatedError,
)
from extarray.common.on_error import OnError
from extarray.common.system import host_name
from extarray.format.blocks import (
    BLOCK_BYTES,
    DIRECTORY_BYTES,
    ENTRY_BYTES,
    WRITER_BYTES,
    BlockKind,
    Writer,
    WriterKind,
    WritersHead,
    decode_sums,
    decode_writers,
    encode_sums,
    encode_writer,
    encode_writers_head,
)
from extarray.format.constants import BLOCK, CELL, LIVE_SLOTS
from extarray.storage import lock
from extarray.storage.checksums import Sums
from extarray.storage.file_store import ALONE
from extarray.storage.filesystem import family
from extarray.storage.frozen import HANDED_ON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from extarray._core._axial import Axial
    from extarray.storage.commits import Committer
    from extarray.storage.file_store import FileStore
    from extarray.storage.filesystem import File
    from extarray.storage.following import Follower
    from extarray.storage.pair import Pair
    from extarray.storage.space import Allocator
    from extarray.storage.states import StateReader

__all__ = ["ElementSums", "FileElements", "Sharing"]


class ElementSums(Sums):
    """The checksums for a process that writes elements beside the committing ones: it leaves doubt.

    Nobody renews the sums of chunks that such processes write, so the doubt stays until a repair.

    Parameters
    ----------
    pair : Pair
    told : bool
        The lone writer knows of this process, and leaves sums in doubt.
    """

    def __init__(self, pair: Pair, told: bool) -> None:
        self._pair = pair
        self._told = told
        self._is_sure = False  # that no writer takes writes of this process for damage
        super().__init__(pair.metadata, pair.header, [], False, pair.path)
        self.alone = False

    @property
    def file(self) -> File:
        """The file of the table; a new axis replaces it."""
        return self._pair.metadata

    @property
    def in_doubt(self) -> bool:
        """True if the files say so now; a repair may have ended the doubt."""
        return self._is_sure and self._read()[0]

    @in_doubt.setter
    def in_doubt(self, value: bool) -> None:
        # Setting True proves nothing: only `doubt` checks whether a writer keeps sums by itself.
        self._is_sure = self._is_sure and value

    def _read(self) -> tuple[bool, list[int]]:
        header = self._pair.header
        found = decode_sums(self.file.read(CELL, header.sums_offset), header.uuid)
        if found is None:
            raise CorruptError(f"'{self._path}.xmd': the block of the checksums is damaged")
        return found

    def doubt(self) -> None:
        """Note in the files that sums are in doubt, unless a writer keeps them by itself.

        A lone writer that opens the files later finds the note; an earlier one is noticed here.
        """
        with self._lock, family("cannot note that checksums of '{}' are in doubt", self._path):
            file, header = self.file, self._pair.header
            in_doubt, extents = self._read()
            if not (self._told and in_doubt):
                self._refuse_beside_writer()
                if not in_doubt:
                    file.write(encode_sums(True, extents, header.uuid), header.sums_offset)
                file.datasync()
                self._refuse_beside_writer()
            self._is_sure = True

    def _refuse_beside_writer(self) -> None:
        if lock.is_held(self.file):
            raise LockedError(
                errno.EAGAIN,
                "another process has it open for writing and maintains its checksums, which "
                "would not match chunks written here; write after it is closed there, to an "
                "array unpickled from there, or to a copy with checksum=False",
                str(self._path),
            )


class FileElements:
    """The policy of processes that only write elements inside the bounds, beside any committer.

    They need not know of each other: a write touches only the bytes of its elements, and addresses
    are final.  By a shared lock on a byte of ``.xta``, an otherwise lone writer notices and does
    the same.  `Follower` brings growth and cuts, as for readers.  Nothing is stored through a
    mapping, since a cut may turn chunks into holes at any time.

    Parameters
    ----------
    told : bool
        The array's writer, if any, knows of this process.
    """

    may_commit = are_one = joins = False

    def __init__(self, told: bool = False) -> None:
        self._told = told

    def lock(self, pair: Pair, timeout: float | None) -> None:
        """Take no lock that excludes others."""

    def begin(self, store: FileStore, slot: int) -> None:
        """Prepare to write elements, whoever else is at work."""
        pair = store.now
        lock.begin_elements(pair.data, pair.path)
        if pair.frozen is not None:
            _only_thaw(pair, "elements")
        pair.elements_only = True
        pair.engine = "pread"
        # The writer may be on another host, from where it cannot flush for this process.
        pair.sends_writes = self._told and pair.data.is_networked
        if pair.header.checksum:
            pair.sums = ElementSums(pair, self._told)

    def end(self, store: FileStore) -> None:
        """Drop the shared lock and leave the files as they are."""
        lock.end_elements(store.now.data)

    def forked(self) -> None:
        """Do nothing: the lock is the parent's."""


def _only_thaw(pair: Pair, share: bool | str) -> None:
    """Let this process thaw frozen chunks, as others do; refuse that where they cannot agree."""
    frozen = pair.frozen
    assert frozen is not None
    if pair.data.is_networked or not lock.can_thaw(pair.data):
        raise ArgumentError(
            f"cannot open '{pair.path}' with share={share!r}: its chunks may be compressed, and "
            "here processes cannot agree on who decompresses one; open it without share"
        )
    if frozen.is_mended:
        raise CorruptError(
            f"'{pair.path}' has lost compressed chunks, as after a power failure; open it once "
            "with mode='r+', which restores those of the last flush, before processes share it"
        )
    if frozen.number & HANDED_ON:  # between the opening and the lock
        raise PartnerError(f"'{pair.path}' gained an axis during opening; open it again")
    frozen.may_freeze = False


class Sharing:
    """The policy of one of several writers of a pair of files.

    Attributes
    ----------
    steady : RLock
        Held with the commit lock, which belongs to the open file and does not distinguish threads.
    ticket : int
        Ticket of this writer's turn; 0 without one.
    queue : list of Writer
        Others that have turns, in ticket order, as of the last `take_up`.
    joins : bool
        Other writers were there when this one came.
    """

    may_commit = True
    are_one = joins = False

    _pair: Pair
    _states: StateReader
    _following: Follower
    _commits: Committer
    _space: Allocator

    def __init__(self) -> None:
        self.steady = threading.RLock()
        self.ticket = 0
        self.queue: list[Writer] = []
        self._has_lock = False  # the thread that holds `steady` also holds the commit lock
        self._took = False  # `begin_commit` acquired `steady` for the commit lock
        self._slot = -1
        self._table_at = 0  # in .xmd
        self._own = Writer(os.getpid(), host=host_name())
        self._head = WritersHead()
        self._table: list[Writer] = []
        # The metadata as read at the end of this writer's last step, if they were known then.
        self._left = b""
        self._is_current = False  # the state was adopted under the present lock
        self._group_at = 0  # in .xmd; 0: no block for group commits

    # -- beginning and end -------------------------------------------------------------------

    def lock(self, pair: Pair, timeout: float | None) -> None:
        """Take a writer's slot, and the commit lock until `begin` is done."""
        self._pair = pair
        self._slot = lock.join(pair.metadata, pair.path, timeout)
        self.joins = lock.anyone_is_alive(pair.metadata)

    def begin(self, store: FileStore, slot: int) -> None:
        """Join the writers at work; without any, take over from the last one."""
        pair, commits = store.now, store.commits
        if pair.header.checksum:
            raise ArgumentError(
                f"writers cannot share '{pair.path}': only a single writer can maintain its "
                "checksums; open it without share, or copy it with checksum=False"
            )
        if pair.frozen is not None:
            _only_thaw(pair, True)
        self._states, self._following = store.states, store.following
        self._commits, self._space = commits, store.space
        pair.others = self
        commits.may_be_sealed = True  # others seal, and may die before removing a seal
        if not self.joins:
            ALONE.begin(store, slot)
            self._table_at = commits.ensure_block(BlockKind.WRITERS)
            self._clear_table()
            if pair.unclean:  # the last writer died: later ones must know
                self._note_remains()
        else:
            commits.find_blocks()
            self._table_at = commits.ensure_block(BlockKind.WRITERS)
        self._look_and_tidy()
        # Tickets must not be reused while somebody may wait for one.
        before = self._table[self._slot : self._slot + 1]
        self._write_own(seen=pair.state.sequence, ticket=before[0].ticket if before else 0)
        lock.end_commit(pair.metadata)

    def _clear_table(self) -> None:
        """Clear the entries of dead writers, whose remains `begin` has settled."""
        head, _ = decode_writers(self._read_table()[:WRITER_BYTES].ljust(BLOCK, b"\0"))
        self._pair.metadata.write(bytes(BLOCK), self._entry_offset(-1))
        self._write_head(WritersHead(head.cut, self._commits.unsettled))

    def end(self, store: FileStore) -> None:
        """Leave; the last writer ends like a lone one."""
        pair = self._pair
        with contextlib.suppress(OSError), self.committing():
            try:
                if self.ticket:
                    self.drop_turn()
                if live := self._states.superblocks(LIVE_SLOTS):
                    _, pair.state = live[0]
                    pair.unclean = pair.state.unclean
                self._look_and_tidy()
                self._take_up_table()
                if lock.anyone_is_alive(pair.metadata):
                    pair.check_length()
                else:
                    ALONE.end(store)
            except TruncatedError:
                raise
            except FormatError:  # the next to open it will report this
                pass
            finally:
                with contextlib.suppress(OSError):  # closing drops them too, except beside a fork
                    lock.release(pair.metadata)

    def forked(self) -> None:
        """In a forked child (read-only), drop locks held by the parent's threads."""
        self.steady = threading.RLock()
        self._has_lock = False
        self.ticket = 0
        self._pair.others = None

    # -- commits -----------------------------------------------------------------------------

    def is_committing(self) -> bool:
        """Tell whether this thread holds the commit lock."""
        return self._has_lock and _is_owner(self.steady)

    def begin_commit(self) -> None:
        """Wait until no other writer commits, and exclude them, unless this thread already does."""
        inner = _is_owner(self.steady)  # an enclosing with statement holds it
        with OnError(self._unlock, not inner):
            if not inner:
                self.steady.acquire()
            with family("cannot lock '{}'", f"{self._pair.path}.xmd"):
                lock.begin_commit(self._pair.metadata)
            self._took = not inner
            self._has_lock = True
            self._is_current = False

    def end_commit(self) -> None:
        """Let the others commit, even if interrupted."""
        took = self._took
        self._left = self._look() if self._is_current else b""
        with OnError(self._unlock, took):
            self._drop()
            if took:
                self.steady.release()

    def _unlock(self, outermost: bool) -> None:
        """Release as much of the commit lock as is still held."""
        if _is_owner(self.steady):
            with contextlib.suppress(OSError):
                self._drop()
            if outermost:
                self.steady.release()

    def _end_if_begun(self) -> None:
        if self.is_committing():
            self.end_commit()

    def _drop(self) -> None:
        try:
            if not self._pair.metadata.closed:  # closing it has dropped its locks
                lock.end_commit(self._pair.metadata)
        finally:
            self._has_lock = False

    @contextlib.contextmanager
    def committing(self) -> Iterator[None]:
        """Exclude the other writers from commits for the length of a block."""
        if self.is_committing():
            yield
            return
        with OnError(self._end_if_begun):
            self.begin_commit()
            yield
            self.end_commit()

    def take_up(self, axial: Axial) -> bool:
        """Adopt, under the lock, the commits of others, and see what they are doing.

        Return whether a commit is new.  Call `note_seen` once the array shows it.
        """
        pair = self._pair
        with family("cannot read the changes of other writers to '{}'", pair.path):
            if not self.queue and self._left and self._left == self._look():
                self._is_current = True
                return False
            is_new = self._following.take_up(axial) is not None
            self._commits.may_be_sealed = True  # others seal, and may die before removing a seal
            pair.unclean = pair.state.unclean  # whatever a failed change has made of it
            self._look_and_tidy()
            self._take_up_table()
            self._group_at = pair.blocks().get(BlockKind.GROUP, 0)
            self._space.length = pair.data.length  # others lengthen and truncate, too
            self._is_current = True
        return is_new

    def _take_up_table(self) -> None:
        """Adopt the room that others have given the table of frozen chunks, committed or not."""
        frozen = self._pair.frozen
        if frozen is not None:
            frozen.take_up()
            ends = map(sum, frozen.regions)
            self._commits.blocks_end = max([self._commits.blocks_end, *ends])

    def doubt(self) -> None:
        """Adopt everything afresh in the next step, since the present one has failed."""
        self._is_current = False
        self._left = b""

    def _look(self) -> bytes:
        """Read the raw bytes that writers change with each step, to notice others.

        These are the superblocks, the number of cuts, the directory, pending states, the table, and
        the block for frozen chunks.  Return b"" if they are unreadable, or their places not all
        known to this writer.
        """
        file, header = self._pair.metadata, self._pair.header
        if file.closed:
            return b""
        at = header.directory_offset - header.header_bytes + ENTRY_BYTES * BlockKind.GROUP
        try:
            seen = file.read(at + DIRECTORY_BYTES, header.header_bytes)
            if self._group_at:
                seen += file.read(BLOCK_BYTES[BlockKind.GROUP], self._group_at)
            elif any(seen[at : at + ENTRY_BYTES]):
                return b""
            if (frozen := self._pair.frozen) is not None:
                seen += frozen.block_bytes()
            return seen + self._read_table()
        except OSError:
            return b""

    def note_seen(self) -> None:
        """Tell writers waiting for it that this one uses only the present bounds."""
        if self._own.seen < self._head.cut and not self._pair.users.are_left(
            self._pair.users.ended
        ):
            with family("cannot write to '{}'", f"{self._pair.path}.xmd"):
                self._write_own(seen=self._pair.state.sequence)

    def flush_data(self) -> None:
        """Bring most of the data to the disk, without the lock.

        Others may lengthen the file meanwhile, so note nothing: the flush that follows does.
        """
        with family("cannot flush '{}'", self._pair.path):
            self._pair.data.datasync()

    # -- cuts --------------------------------------------------------------------------------

    @property
    def unsettled(self) -> bool:
        """True if a cut, by any writer, may not be on disk."""
        return self._head.unsettled

    def note_cut(self, sequence: int) -> None:
        """Note that the commit of this number cuts elements off."""
        self._write_head(WritersHead(sequence, True))

    def note_settled(self) -> None:
        """Note that the last cut is on disk."""
        with family("cannot write to '{}'", f"{self._pair.path}.xmd"):
            self._write_head(self._head._replace(unsettled=False))

    # -- turns -------------------------------------------------------------------------------

    def begin_turn(self, kind: WriterKind, **place: Any) -> None:
        """Get a ticket, unless this writer has one, and announce its purpose."""
        if not self.ticket:
            self.ticket = 1 + max([self._own.ticket, *(writer.ticket for writer in self._table)])
        with family("cannot write to '{}'", f"{self._pair.path}.xmd"):
            lock.begin_turn(self._pair.metadata, self.ticket)
            self._write_own(kind=kind, ticket=self.ticket, **place)

    def ahead(self) -> int:
        """Return the ticket at the head of the queue, if it comes before this writer's; else 0."""
        if self.queue and (self.queue[0].ticket < self.ticket or not self.ticket):
            return self.queue[0].ticket
        return 0

    def wait_turn(self, ticket: int) -> None:
        """Wait, without the commit lock, until a turn has ended."""
        with family("cannot lock '{}'", f"{self._pair.path}.xmd"):
            lock.wait_turn(self._pair.metadata, ticket)

    def end_turn(self) -> None:
        """End a turn, under the lock, its work done."""
        with contextlib.suppress(OSError):  # on failure the others take it for abandoned
            self._write_own(kind=WriterKind.IDLE)
        self.drop_turn()

    def drop_turn(self) -> None:
        """End a turn like a writer's death: the next one to look settles its remains."""
        with self.steady:
            lock.end_turn(self._pair.metadata, self.ticket)
            self.ticket = 0
            self._own = self._own._replace(kind=WriterKind.IDLE)

    @property
    def is_only_one(self) -> bool:
        """True if no other writer is alive; none can join while this one holds the commit lock."""
        with family("cannot lock '{}'", f"{self._pair.path}.xmd"):
            return not lock.anyone_is_alive(self._pair.metadata)

    # -- knowledge of others -----------------------------------------------------------------

    @property
    def may_give_back(self) -> bool:
        """True if chunks may wait to be freed, and every writer knows the bounds."""
        cut = self._head.cut
        return cut > 0 and not any(
            writer.seen < cut
            for slot, writer in enumerate(self._table)
            if slot != self._slot and lock.is_alive(self._pair.metadata, slot)
        )

    def note_given_back(self) -> None:
        """Tell the others that chunks outside the bounds have no space any more."""
        self._write_head(self._head._replace(cut=0))

    # -- the table ---------------------------------------------------------------------------

    def _look_and_tidy(self) -> None:
        """Read the table, and settle abandoned turns."""
        try:
            self._head, self._table = decode_writers(self._read_table(), self._pair.header.ndim)
        except CorruptError as error:
            raise CorruptError(
                f"'{self._pair.path}.xmd': {error}; close all writers, and the next writer "
                "recreates it"
            ) from None
        turns, void = [], []
        for slot, writer in enumerate(self._table):
            if writer.kind == WriterKind.IDLE or (slot == self._slot and self.ticket):
                continue
            if lock.has_turn(self._pair.metadata, writer.ticket):
                turns.append(writer)
            else:
                void.append((slot, writer))
        self.queue = sorted(turns, key=lambda writer: writer.ticket)
        if any(writer.kind == WriterKind.APPENDS for _, writer in void):
            self._note_remains()
        for slot, writer in void:
            self._write_entry(slot, encode_writer(writer._replace(kind=WriterKind.IDLE)))

    def _note_remains(self) -> None:
        """Note that an append has left elements outside the bounds."""
        state = self._pair.state
        self._pair.unclean = True
        if not state.unclean:
            self._commits.write_superblock(
                state._replace(sequence=state.sequence + 1, unclean=True)
            )
        if not self._head.cut:
            # Chunks never inside the bounds can be freed, whatever the others know.
            self._write_head(self._head._replace(cut=1))

    def _read_table(self) -> bytes:
        return self._pair.metadata.read(BLOCK, self._entry_offset(-1))

    def _entry_offset(self, slot: int) -> int:
        """Return the offset of an entry; -1 means the head."""
        return self._table_at + (slot + 1) * WRITER_BYTES

    def _write_entry(self, slot: int, data: bytes) -> None:
        self._pair.metadata.write(data, self._entry_offset(slot))

    def _write_own(self, **changes: Any) -> None:
        own = self._own._replace(**changes)
        self._write_entry(self._slot, encode_writer(own))
        self._own = own

    def _write_head(self, head: WritersHead) -> None:
        self._write_entry(-1, encode_writers_head(head))
        self._head = head


def _is_owner(steady: threading.RLock) -> bool:
    """Tell whether this thread holds a lock, in the way of `threading.Condition`."""
    owned: bool = steady._is_owned()  # type: ignore[attr-defined]
    return owned
