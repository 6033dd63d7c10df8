"""A look at a pair of files, damaged or not: what is whole, what is not, and where.

Nothing is changed and no lock is taken.  Whatever the bytes are, a look takes time and memory in
proportion to the files.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray._core._axial import Axial
from extarray.common.errors import CorruptError, ExtArrayError, FormatError
from extarray.format._crc import crc32c
from extarray.format.attrs import check_attrs
from extarray.format.checksum_table import sums_capacity
from extarray.format.constants import (
    BLOCK,
    COPY_AT,
    LIVE_SLOTS,
    PENDING_SLOTS,
    SEAL_BYTES,
    SEAL_MAGIC,
    SECTOR,
    SPARED_SLOTS,
)
from extarray.format.directory import (
    BLOCK_BYTES,
    BLOCK_NAMES,
    DIRECTORY_BYTES,
    ENTRY_BYTES,
    BlockKind,
    decode_directory,
    entry_offset,
    pending_offset,
)
from extarray.format.groups import decode_pending
from extarray.format.header import (
    MAGIC,
    Header,
    decode_header,
    header_bytes_of,
    header_content,
)
from extarray.format.records import (
    EXTENT_HEAD_BYTES,
    extent_capacity,
    extent_of_record,
    record_bytes,
)
from extarray.format.superblock import (
    LAST_COMMIT,
    Superblock,
    decode_superblock,
    superblock_bytes,
)
from extarray.format.validity import regions_fit, values_fit
from extarray.grid.chunking import elements_of_chunk
from extarray.maintenance.salvage import MOST_RECORDS, Log, Salvage, Slot, read_log, salvage
from extarray.storage import lock
from extarray.storage.filesystem import File, close_all, fresh_name
from extarray.storage.orphans import left_overs
from extarray.storage.report import Problem
from extarray.storage.verify import Comparison, read_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["Survey"]

# Where the copy of a damaged header is looked for.
_FARTHEST_COPY = 1 << 26
# Damaged chunks are told in runs, and of so many.
_MOST_RUNS = 1000
# Boxes of elements that a finding has, and that its text has.
_MOST_BOXES = 1000
_SHOWN_BOXES = 3
# Of the 16 bytes of a uuid: where so many are right, it is the array's own and damaged.
_OWN_BYTES = 8

# Of the uuid in the header.
_UUID_AT = 16
# The two files, as `Survey.names` has them.
_METADATA, _DATA = 0, 1
_REPAIR = "extarray check --repair"
_NOT_POSSIBLE = "its values are not possible"
_MISPLACED = "what it points to overlaps, or lies beyond the end of what is used"
_RESTORE = "restore the files from a copy"


class _Stop(Exception):  # noqa: N818 -- no error: nothing more can be looked at
    """What was found makes the rest unreadable."""


@dataclass
class Survey:
    """A look at a pair.

    Parameters
    ----------
    names : tuple of str
        Of ``.xmd`` and ``.xta``.

    Attributes
    ----------
    header : Header or None
        Of the copy, where the header is damaged.
    slots : list of Slot
    present : Slot or None
        The state that `open` takes, as far as ``.xmd`` goes.
    log : Log or None
        As far as any superblock needs it; where there is none, as far as it goes.
    metadata_bytes, data_bytes : int
        Lengths of the files.
    seal : {"ours", "damaged", "foreign"} or None
        What ``.xta`` ends with.
    pending : int or None
        Number of a commit of several arrays that is newer than all states.
    blocks : dict of BlockKind to int
        Offsets of the optional blocks.
    rest : Salvage or None
        What is left of the present state, where ``.xta`` has lost its end and no older state is
        better.
    sums : tuple of bool and list of int, or None
        Whether the checksums of chunks are in doubt, and the extents of their table.
    wrong : ndarray of int
        Addresses of chunks that do not fit their checksums.
    compared : bool
        Whether all chunks were compared with theirs.
    looked : bool
        Whether chunks were to be compared.
    """

    names: tuple[str, str]
    problems: list[Problem] = field(default_factory=list)
    header: Header | None = None
    header_block: bytes = b""
    slots: list[Slot] = field(default_factory=list)
    present: Slot | None = None
    log: Log | None = None
    metadata_bytes: int = 0
    data_bytes: int = 0
    seal: str | None = None
    pending: int | None = None
    blocks: dict[BlockKind, int] = field(default_factory=dict)
    rest: Salvage | None = None
    sums: tuple[bool, list[int]] | None = None
    wrong: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    compared: bool = False
    looked: bool = False
    # Closed but while a look goes on.
    metadata: File = field(default_factory=File)
    data: File = field(default_factory=File)

    def error(
        self, kind: str, what: str, offset: int | None, remedy: str, file: int = _METADATA
    ) -> None:
        """Note that something is damaged or lost; once for each place."""
        place = kind, self.names[file], offset
        if place in ((p.kind, p.file, p.offset) for p in self.problems) and offset is not None:
            return
        self.problems.append(Problem(kind, what, self.names[file], offset, "error", remedy))

    def warning(
        self, kind: str, what: str, offset: int | None, remedy: str, file: int = _METADATA
    ) -> None:
        """Note something that does the array no harm."""
        self.problems.append(Problem(kind, what, self.names[file], offset, "warning", remedy))

    def note(
        self, kind: str, what: str, offset: int | None, remedy: str = "", file: int = _METADATA
    ) -> None:
        """Note something that is as it may be."""
        self.problems.append(Problem(kind, what, self.names[file], offset, "note", remedy))

    @property
    def kinds(self) -> set[str]:
        """What the errors concern."""
        return {problem.kind for problem in self.problems if problem.severity == "error"}

    # -- the files ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def opened(self, flags: int = os.O_RDONLY) -> Iterator[None]:
        """Open what there is of the two files, for the length of a block."""
        files = [File(), File()]
        try:
            for number, name in enumerate(self.names):
                # Whatever has that name, opening it must not wait.
                if number == _DATA and not files[_METADATA].closed:
                    # Its maker may not have come to give it the name.
                    fresh = fresh_name(name, files[_METADATA].read(16, _UUID_AT))
                    name = fresh if os.path.exists(fresh) else name
                with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                    file = File.open(name, flags | os.O_NONBLOCK)
                    if stat.S_ISREG(file.stat().st_mode):
                        files[number] = file
                    else:
                        file.close()
            self.metadata, self.data = files
            yield
        finally:
            close_all(*files)

    def fingerprint(self) -> tuple[Any, ...]:
        """What differs where a writer has been at work meanwhile."""
        found: list[Any] = []
        for name, file in zip(self.names, (self.metadata, self.data), strict=True):
            with contextlib.suppress(OSError):
                about = os.stat(name)
                found += [about.st_ino, about.st_size]
            if not file.closed:
                found.append(file.length)
        if not self.metadata.closed:
            found.append(self.metadata.read(1 << 16, 0))
        return tuple(found)

    # -- the look ----------------------------------------------------------------------------

    def look(self) -> None:
        """Look at everything but the elements, afresh."""
        self.problems, self.slots = [], []
        self.header = self.present = self.log = self.seal = self.sums = self.pending = None
        self.blocks = {}
        self.rest = None
        self.wrong, self.compared = self.wrong[:0], False
        with contextlib.suppress(_Stop):
            self._look_at_files()
            self._look_at_header()
            if not self.data.closed:
                self.seal = self.seal_at(max(0, self.data_bytes - SEAL_BYTES))
            self._look_at_directory()
            self._look_at_superblocks()
            self._look_at_pending()
            self._look_at_rooms()
            self._look_at_data()
            self._look_at_table()
        self.problems += left_overs(self.names, self.header)

    def _look_at_files(self) -> None:
        for number, file in enumerate((self.metadata, self.data)):
            if file.closed:
                self.error(
                    "file",
                    "there is no such file",
                    None,
                    "put the two files of the array side by side",
                    number,
                )
        if self.metadata.closed:
            raise _Stop
        self.metadata_bytes = self.metadata.length
        if not self.data.closed:
            self.data_bytes = self.data.length

    def _header_at(self, offset: int) -> tuple[Header, bytes]:
        """The header, or its copy, that stands at an offset."""
        first = self.metadata.read(BLOCK, offset)
        size = header_bytes_of(first)
        if first.startswith(MAGIC) and BLOCK < size <= self.metadata_bytes:
            first = self.metadata.read(size, offset)
        header = decode_header(first)
        if header.header_bytes > self.metadata_bytes:
            raise CorruptError("the header is damaged: it is longer than the file")
        return header, header_content(first)

    def _look_at_header(self) -> None:
        damage: Exception | None = None
        try:
            self.header, self.header_block = self._header_at(0)
        except ExtArrayError as error:
            damage = error
        if self.header is not None:
            at = self.header.copy_offset
            try:
                if self._header_at(at)[1] != self.header_block:
                    raise FormatError("it differs from the header")
            except ExtArrayError as error:
                self.error(
                    "copy",
                    f"the copy of the header is damaged: {error}",
                    at,
                    f"{_REPAIR} writes it anew",
                )
            return
        for at in range(BLOCK + COPY_AT, min(self.metadata_bytes, _FARTHEST_COPY), BLOCK):
            if self.metadata.read(len(MAGIC), at) == MAGIC:
                with contextlib.suppress(ExtArrayError):
                    header, block = self._header_at(at)
                    if header.copy_offset == at:
                        self.header, self.header_block = header, block
                        break
        remedy = _RESTORE if self.header is None else f"{_REPAIR} restores it from its copy"
        self.error("header", str(damage), 0, remedy)
        if self.header is None:
            raise _Stop

    def _look_at_directory(self) -> None:
        assert self.header is not None
        data = self.metadata.read(DIRECTORY_BYTES, self.header.directory_offset)
        self.blocks = decode_directory(data, self.header, self.metadata_bytes)
        for kind in BlockKind:
            if self.is_lost(kind):
                self.error(
                    "directory",
                    f"the place of the block {BLOCK_NAMES[kind]} is damaged",
                    entry_offset(self.header, kind),
                    f"{_REPAIR} clears it",
                )

    def is_lost(self, kind: BlockKind) -> bool:
        """Whether there was an optional block, and nothing tells where."""
        assert self.header is not None
        entry = self.metadata.read(ENTRY_BYTES, entry_offset(self.header, kind))
        return kind not in self.blocks and any(entry)

    def pending_places(self) -> dict[int, int]:
        """Offsets of pending states, by slot, where there is room for any."""
        group = self.blocks.get(BlockKind.GROUP)
        return (
            {} if group is None else {slot: pending_offset(group, slot) for slot in PENDING_SLOTS}
        )

    def _look_at_superblocks(self) -> None:
        assert self.header is not None
        header, size = self.header, superblock_bytes(self.header.ndim)
        # First the spared ones, so that they are not newer than the others.
        raw = {
            number: self.metadata.read(size, header.superblock_offset(number))
            for number in (*SPARED_SLOTS, *LIVE_SLOTS)
        }
        self.slots = [
            Slot(number, decode_superblock(raw[number], header.ndim), not any(raw[number]))
            for number in (*LIVE_SLOTS, *SPARED_SLOTS)
        ]
        known = [slot.block for slot in self.slots if slot.block is not None]
        self.log = read_log(
            self.metadata, header, max((b.n_segments for b in known), default=MOST_RECORDS)
        )
        for slot in self.slots:
            if slot.block is not None:
                slot.fault = self._fault_of(slot.block)
                slot.misplaced = slot.fault is None and not regions_fit(
                    slot.block, header, self._extents_of(slot.block)
                )
                slot.attrs = self.attrs_of(slot.block)
        self._choose()
        self._tell_of_superblocks(known)

    def _fault_of(self, block: Superblock) -> str | None:
        """What is wrong with a state, attributes and places aside."""
        header, log = self.header, self.log
        assert header is not None
        assert log is not None
        if not values_fit(block, header):
            return _NOT_POSSIBLE
        if block.n_segments > len(log):
            return "it needs more of the growth log than is whole"
        try:
            n = block.n_segments
            Axial._replay(log.axes[:n], log.sides[:n], log.grids[:n], block.grid)
        except (CorruptError, MemoryError) as error:
            return str(error)
        return None

    def _extents_of(self, block: Superblock) -> list[int]:
        """Offsets of the extents that the records of a state lie in."""
        assert self.log is not None
        return self.log.extents[: 1 + extent_of_record(block.n_segments - 1)]

    def attrs_of(self, block: Superblock) -> str | None:
        """The attributes of a state, where they are whole."""
        if block.attrs_offset + block.attrs_bytes > self.metadata_bytes:
            return None
        blob = self.metadata.read(block.attrs_bytes, block.attrs_offset)
        if len(blob) != block.attrs_bytes or crc32c(blob) != block.attrs_crc:
            return None
        try:
            return check_attrs(blob)
        except CorruptError:
            return None

    def _choose(self) -> None:
        """Find the state that `open` takes."""
        newest = {True: -1, False: -1}
        chosen: dict[bool, Slot | None] = {True: None, False: None}
        for slot in self.slots:
            live = slot.number in LIVE_SLOTS
            if slot.whole and slot.block is not None and slot.block.sequence > newest[live]:
                newest[live], chosen[live] = slot.block.sequence, slot
        self.present = chosen[True] if newest[True] >= newest[False] else chosen[False]

    def _tell_of_superblocks(self, known: list[Superblock]) -> None:
        assert self.header is not None
        assert self.log is not None
        present = None if self.present is None else self.present.block
        number = -1 if present is None else present.sequence
        for slot in self.slots:
            live, block = slot.number in LIVE_SLOTS, slot.block
            at = self.header.superblock_offset(slot.number)
            # Commit 0 is the first one, in superblock 0.
            due = slot.number == 0 or (slot.number == 1 and number > 0)
            slot.blank &= not due
            if slot.torn:
                tell = self.error if live or present is None else self.warning
                tell(
                    "superblock",
                    f"superblock {slot.number} is torn; {self._consequence(live)}",
                    at,
                    f"{_REPAIR} writes it anew",
                )
            elif block is None:
                continue
            elif block.sequence > LAST_COMMIT:
                self.error(
                    "superblock",
                    f"superblock {slot.number} has commit {block.sequence}, after which no number "
                    "is left for a next one: it does not open for writing",
                    at,
                    "copy the array into a fresh one",
                )
            elif slot.whole:
                continue
            elif block.sequence > number:
                self._tell_of_newer(slot, block, at)
            elif slot.misplaced or slot.fault == _NOT_POSSIBLE:
                tell = self.error if live else self.warning
                tell(
                    "superblock",
                    f"superblock {slot.number}: {slot.fault or _MISPLACED}",
                    at,
                    f"{_REPAIR} writes it anew",
                )
            elif not live:
                self.warning(
                    "superblock",
                    f"superblock {slot.number} tells of a state that is no longer there",
                    at,
                    f"{_REPAIR} clears it",
                )
            # What the older live superblock points to may have been written over.
        if self.log.fault is not None and any(b.n_segments > len(self.log) for b in known):
            at, what = self.log.fault
            needed = present is None or any(
                b.n_segments > len(self.log) and b.sequence > number for b in known
            )
            if needed:
                self.error("log", what, at, f"{_REPAIR} returns to a state without it")
        if present is None:
            raise _Stop
        if self.present is not None and self.present.number not in LIVE_SLOTS:
            self.error(
                "superblock",
                f"neither superblock 0 nor 1 is whole: open takes the older state of commit "
                f"{number}, of shape {present.shape}",
                self.header.superblock_offset(self.present.number),
                f"{_REPAIR} makes it the present state",
            )

    def _look_at_pending(self) -> None:
        """A commit of several arrays that its writer did not come to finish, or is about to."""
        assert self.header is not None
        known = [slot.block.sequence for slot in self.slots if slot.whole and slot.block]
        for at in self.pending_places().values():
            pending = decode_pending(self.metadata.read(BLOCK, at), self.header.ndim)
            if pending is not None and pending.state.sequence > max(known, default=-1):
                self.pending = pending.state.sequence
                self.note(
                    "superblock",
                    f"commit {self.pending} of several arrays is not finished; "
                    f"'{os.fsdecode(pending.path)}' tells whether it counts",
                    at,
                    "the next writer finishes it",
                )

    def _consequence(self, live: bool) -> str:
        if self.present is None or self.present.block is None:
            return "no other one is whole"
        if not live:
            return "a spare one, nothing is lost"
        return f"the last state that is whole is commit {self.present.block.sequence}"

    def _tell_of_newer(self, slot: Slot, block: Superblock, at: int) -> None:
        """A state is damaged that is newer than the one that `open` takes."""
        if slot.misplaced:
            self.error(
                "room",
                f"commit {block.sequence}: {_MISPLACED}",
                at,
                f"{_REPAIR} moves the attributes",
            )
        elif slot.fault is None:
            self.error(
                "attrs",
                f"the attributes of commit {block.sequence} are damaged",
                block.attrs_offset,
                f"{_REPAIR} takes older ones",
            )
        else:
            self.error(
                "superblock",
                f"commit {block.sequence} is lost: {slot.fault}",
                at,
                f"{_REPAIR} goes on without it",
            )

    def _look_at_rooms(self) -> None:
        """Whether what stands in ``.xmd`` behind its fixed parts lies apart."""
        assert self.header is not None
        assert self.log is not None
        assert self.present is not None
        present = self.present.block
        assert present is not None
        header, size = self.header, record_bytes(self.header.ndim)
        if self.metadata_bytes < present.end:
            self.error(
                "room",
                f"it has {self.metadata_bytes} bytes, and its superblock says {present.end}",
                self.metadata_bytes,
                f"{_REPAIR} puts it right",
            )
        rooms = {(0, header.first_extent, "the fixed parts")}
        rooms |= {(present.attrs_offset, present.attrs_capacity, "the attributes")}
        if present.spare_offset:
            rooms |= {(present.spare_offset, present.spare_capacity, "the attributes")}
        for slot in self.slots:
            block = slot.block
            if slot.number in SPARED_SLOTS and slot.whole and block and block.end <= present.end:
                rooms |= {(block.attrs_offset, block.attrs_capacity, "the attributes")}
        for number, at in enumerate(self._extents_of(present)):
            room = EXTENT_HEAD_BYTES + extent_capacity(number) * size
            rooms |= {(at, room, f"extent {number} of the growth log")}
        if header.checksum:
            self.sums = read_table(self.metadata, header, present.end)
        for number, at in enumerate(self.sums[1] if self.sums else []):
            rooms |= {(at, 4 * sums_capacity(number), "the table of checksums")}
        blocks = {(at, BLOCK_BYTES[kind], BLOCK_NAMES[kind]) for kind, at in self.blocks.items()}
        blocks = {(at, length, f"the block {name}") for at, length, name in blocks}
        reached, before = 0, ""
        for at, length, name in sorted(rooms | blocks):
            # A directory of blocks tells of them, and of more than the state knows.
            beyond = at + length > present.end and (at, length, name) not in blocks
            if at < reached or beyond:
                other = f"that of {before}" if at < reached else "the end of what is used"
                self.error(
                    "room",
                    f"the room of {name} overlaps {other}",
                    at,
                    f"{_REPAIR} moves the attributes",
                )
            if at + length > reached:
                reached, before = at + length, name

    def _look_at_data(self) -> None:
        if self.data.closed:
            return
        assert self.header is not None
        assert self.present is not None
        state = self.present.block
        assert state is not None
        size = self.data_bytes
        if self.seal == "foreign":
            self.error(
                "data",
                "it ends with the seal of another array: the two files do not belong together",
                size - SEAL_BYTES,
                "put the files of one array side by side",
                _DATA,
            )
            return
        there = self.chunk_bytes_there
        if there < state.data_bytes:
            self._tell_of_lost(state, there)
        elif state.sealed and (self.seal != "ours" or size != state.data_bytes + SEAL_BYTES):
            self.error(
                "data",
                f"its seal is not at its end, behind {state.data_bytes} bytes",
                state.data_bytes,
                f"{_REPAIR} seals it, if it is the right file",
                _DATA,
            )
        elif not state.sealed and self.seal == "damaged":
            self.error(
                "data",
                "the seal at its end is damaged, and looks like that of another array",
                size - SEAL_BYTES,
                f"{_REPAIR} seals it",
                _DATA,
            )
        if lock.is_held(self.metadata):
            self.note("file", "a writer has it open", None, "")
        elif not state.sealed:
            more = size - state.data_bytes
            rest = (
                f"; it has {more} bytes beyond its chunks, which mean nothing" if more > 0 else ""
            )
            self.note(
                "data",
                f"not sealed: the last writer did not close the array{rest}",
                min(size, state.data_bytes),
                "the next writer does",
                _DATA,
            )

    def _tell_of_lost(self, state: Superblock, there: int) -> None:
        """Tell which elements are lost with the end of ``.xta``, and what can be kept."""
        assert self.header is not None
        assert self.log is not None
        log, n = self.log, state.n_segments
        axial = Axial._replay(log.axes[:n], log.sides[:n], log.grids[:n], state.grid)
        rest = salvage(self.header, state, axial, there)
        older = any(
            slot.block is not None and slot.fault is None and slot.block.data_bytes <= there
            for slot in self.slots
        )
        if state.sealed or not older or not rest.lost:
            # The array was closed, so that no older state has more of it; or a repair has begun.
            self.rest = rest
            remedy = f"{_RESTORE}, or {rest.remedy(_REPAIR)}"
        else:
            remedy = f"{_RESTORE}, or {_REPAIR} returns to an older state"
        what = f"it has {there} bytes of chunks, and they take {state.data_bytes}: {rest.told}"
        self.error("data", what, there, remedy, _DATA)

    @property
    def chunk_bytes_there(self) -> int:
        """Bytes of ``.xta`` that can be chunks."""
        return self.data_bytes - (SEAL_BYTES if self.seal == "ours" else 0)

    def seal_at(self, offset: int) -> str | None:
        """What seal stands at an offset of ``.xta``."""
        assert self.header is not None
        end = self.data.read(SEAL_BYTES, offset)
        if not end.startswith(SEAL_MAGIC) or len(end) < SEAL_BYTES:
            return None
        torn = -offset % SECTOR
        own = SEAL_MAGIC + self.header.uuid
        if torn and end != own and end[:torn] == own[:torn]:
            return None  # by a loss of power
        pairs = zip(end[len(SEAL_MAGIC) :], self.header.uuid, strict=True)
        right = sum(a == b for a, b in pairs)
        if right < _OWN_BYTES:
            return "foreign"
        return "ours" if right == len(self.header.uuid) else "damaged"

    def _look_at_table(self) -> None:
        """The table of checksums."""
        assert self.header is not None
        if not self.header.checksum:
            return
        at = self.header.sums_offset
        if self.sums is None:
            self.error(
                "sums",
                "the table of checksums is damaged",
                at,
                f"{_REPAIR} --force makes checksums of the chunks as they are",
            )
        elif self.sums[0]:
            self.note("sums", "checksums are in doubt: chunks were written since they were", at)

    # -- the elements ------------------------------------------------------------------------

    @property
    def unseen(self) -> list[str]:
        """What was not looked at, and how it can be."""
        if self.present is None or self.present.block is None or self.compared:
            return []
        assert self.header is not None
        if not self.present.block.data_bytes:
            return []
        if not self.header.checksum:
            return [
                "the elements: there are no checksums of them; copy the array with checksum=True"
            ]
        if self.looked:
            return [] if self.kinds else ["the elements: not all of them could be compared"]
        return ["the elements; extarray check --data compares them with their checksums"]

    def look_at_chunks(self, progress: Callable[[int, int], None] | None) -> None:
        """Compare the chunks with their checksums."""
        self.looked = True
        if self.present is None or self.present.block is None or self.data.closed:
            return
        header, state = self.header, self.present.block
        assert header is not None
        if not header.checksum:
            self.note(
                "sums",
                "the array keeps no checksums of its chunks: its elements are not checked",
                None,
                "copy it with checksum=True",
            )
            return
        if self.sums is None:
            return
        n_chunks = min(state.data_bytes, self.data_bytes) // header.chunk_bytes
        if not n_chunks:
            self.compared = not state.data_bytes
            return
        comparison = Comparison(self.metadata, self.data, header, state.end)
        self.wrong = comparison.run(n_chunks, progress)
        self.compared = n_chunks * header.chunk_bytes == state.data_bytes
        if self.wrong.size:
            self._tell_of_chunks(comparison.in_doubt)

    def _tell_of_chunks(self, in_doubt: bool) -> None:
        assert self.header is not None
        ends = np.flatnonzero(np.diff(self.wrong) > 1)
        runs = zip([0, *(ends + 1)], [*ends, len(self.wrong) - 1], strict=True)
        for number, (first, last) in enumerate(runs):
            low, high = int(self.wrong[first]), int(self.wrong[last])
            chunks = f"chunk {low}" if low == high else f"chunks {low} to {high}"
            at = low * self.header.chunk_bytes
            boxes = self._boxes_of(low, high)
            if number == _MOST_RUNS:
                boxes = ()
                chunks = f"{len(self.wrong) - first} more chunks"
            if in_doubt:
                what = f"{chunks} cannot be told: written after the last flush, or damaged"
                what += _text_of_boxes(boxes, high - low + 1)
                remedy = "if the elements are right, extarray check --data --repair --force says so"
                problem = Problem("chunk", what, self.names[_DATA], at, "warning", remedy, boxes)
            else:
                what = f"{chunks}: the checksum does not fit"
                what += _text_of_boxes(boxes, high - low + 1)
                remedy = "restore it from a copy, or overwrite the whole chunk"
                problem = Problem("chunk", what, self.names[_DATA], at, "error", remedy, boxes)
            self.problems.append(problem)
            if number == _MOST_RUNS:
                break

    def _boxes_of(self, first: int, last: int) -> tuple[tuple[slice, ...], ...]:
        """Boxes of the elements that chunks first ... last have, of as many as are told."""
        assert self.header is not None
        assert self.present is not None
        block, log, chunks = self.present.block, self.log, self.header.chunks
        assert block is not None
        assert log is not None
        n = block.n_segments
        axial = Axial._replay(log.axes[:n], log.sides[:n], log.grids[:n], block.grid)
        indices = axial.indices(np.arange(first, min(last + 1, first + _MOST_BOXES))).tolist()
        return tuple(elements_of_chunk(i, chunks, block.offset, block.shape) for i in indices)


def _text_of_boxes(boxes: tuple[tuple[slice, ...], ...], n: int) -> str:
    """Behind a finding: which elements `n` chunks have, of which some are told."""
    if not boxes:
        return ""
    texts = [
        f"[{', '.join(f'{s.start}:{s.stop}' for s in box)}]"
        for box in boxes[:_SHOWN_BOXES]
        if all(s.start < s.stop for s in box)
    ]
    if n > _SHOWN_BOXES:
        texts.append("...")
    whose = "its" if n == 1 else "their"
    return f"; {whose} elements are {', '.join(texts)}" if texts else "; outside the bounds"
