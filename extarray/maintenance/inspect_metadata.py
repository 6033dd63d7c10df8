"""Survey of the metadata of a pair of files: what is whole, what is not, and where.

`StateReader` and the functions of `format` read the bytes, as they do for `open`.  A survey differs
in its use of the answers, and in three places:

- `open` ends at the first whole state; a survey takes every superblock apart, and judges the
  records, values, places and attributes of each state separately;
- if the header is damaged, a survey searches for its copy, wherever that is;
- if the growth log is damaged, a survey reads it up to the first bad record.

For any content, a survey takes time and memory in proportion to the file.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from functools import partialmethod
from operator import itemgetter
from typing import TYPE_CHECKING

from extarray.common.errors import CorruptError, ExtArrayError, FormatError, StorageError
from extarray.format.blocks import (
    BLOCK_BYTES,
    BLOCK_NAMES,
    DIRECTORY_BYTES,
    ENTRY_BYTES,
    BlockKind,
    decode_directory,
    entry_offset,
    pending_offset,
    sums_capacity,
)
from extarray.format.constants import (
    BLOCK,
    COPY_AT,
    LIVE_SLOTS,
    PENDING_SLOTS,
    SECTOR,
    SPARED_SLOTS,
)
from extarray.format.frozen import decode_frozen_block
from extarray.format.groups import decode_members
from extarray.format.header import MAGIC, Header
from extarray.format.records import (
    EXTENT_HEAD_BYTES,
    extent_capacity,
    extent_of_record,
    record_bytes,
)
from extarray.format.suffixes import BLOBS
from extarray.format.superblock import (
    LAST_COMMIT,
    Superblock,
    regions_fit,
    superblock_bytes,
    values_fit,
)
from extarray.maintenance.salvage import MOST_RECORDS, Slot, WholeLog, read_log
from extarray.storage.checksums import read_table
from extarray.storage.filesystem import real_name
from extarray.storage.lock import is_held
from extarray.storage.pair import Pair, blobs_alone, header_at
from extarray.storage.report import Problem
from extarray.storage.states import StateReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

__all__ = ["DATA", "LOG", "METADATA", "REPAIR", "RESTORE", "MetadataSurvey", "Unreadable"]

#: The files of an array: metadata, chunks, and blobs of frozen chunks.
METADATA, DATA, LOG = 0, 1, 2
#: Remedies that findings name.
REPAIR = "extarray check --repair"
RESTORE = "restore the files from a copy"

# Search limit, in bytes, for the copy of a damaged header.
_FARTHEST_COPY = 1 << 26
_NOT_POSSIBLE = "its values are invalid"
_MISPLACED = "the regions it points to overlap, or lie beyond the end of the used part"


class Unreadable(Exception):  # noqa: N818 -- not an error: the survey just ends here
    """Damage that makes the rest unreadable."""


@dataclass
class MetadataSurvey:
    """A survey of the ``.xmd`` of a pair, whose files stay open meanwhile."""

    pair: Pair
    problems: list[Problem] = field(default_factory=list)
    header: Header | None = None  # from the copy, if the header is damaged
    header_block: bytes = b""
    slots: list[Slot] = field(default_factory=list)
    present: Slot | None = None  # the state that `open` takes, judged by ``.xmd`` alone
    log: WholeLog | None = None  # up to the last record that any superblock needs; else all of it
    metadata_bytes: int = 0  # length of the file
    pending: int | None = None  # sequence of a commit of several arrays newer than all states
    blocks: dict[BlockKind, int] = field(default_factory=dict)  # offsets of the optional blocks
    # Doubt about the chunk checksums, and the extents of their table.
    sums: tuple[bool, list[int]] | None = None

    @property
    def states(self) -> StateReader:
        """A reader of the states; it needs a header."""
        return StateReader(self.pair)

    def tell(
        self,
        severity: Literal["error", "warning", "note"],
        kind: str,
        what: str,
        offset: int | None,
        remedy: str = "",
        file: int = METADATA,
    ) -> None:
        """Add a finding, but only one error for each place."""
        name = self.log_name if file == LOG else self.pair.names[file]
        place = kind, name, offset
        known = ((p.kind, p.file, p.offset) for p in self.problems)
        if severity == "error" and offset is not None and place in known:
            return
        self.problems.append(Problem(kind, what, name, offset, severity, remedy))

    error = partialmethod(tell, "error")  # damaged or lost
    warning = partialmethod(tell, "warning")  # harmless to the array
    note = partialmethod(tell, "note")  # normal

    @property
    def log_name(self) -> str:
        """The name of the file of blobs."""
        return real_name(f"{os.path.abspath(self.pair.path)}{BLOBS}")

    @property
    def kinds(self) -> set[str]:
        """The kinds of the errors."""
        return {problem.kind for problem in self.problems if problem.severity == "error"}

    @property
    def known(self) -> list[Superblock]:
        """The superblocks with correct checksums."""
        return [slot.block for slot in self.slots if slot.block is not None]

    @property
    def state(self) -> Superblock | None:
        """The state that `open` takes."""
        return None if self.present is None else self.present.block

    def look_at_header(self) -> Header:
        """Examine the header and its copy, afresh; raise `Unreadable` if both are damaged."""
        self.slots, self.blocks = [], {}
        self.header = self.present = self.log = self.pending = self.sums = None
        try:
            header, block = self._header_at(0)
        except ExtArrayError as error:
            return self._look_for_copy(str(error))
        self._take_header(header, block)
        self._look_at_copy(header)
        return header

    def look_at_states(self, header: Header) -> Superblock:
        """Examine the rest of ``.xmd``; return the present state, or raise `Unreadable`."""
        self._look_at_directory(header)
        state = self._look_at_superblocks(header)
        self._look_at_pending()
        self._look_at_partners(header, state)
        self._look_at_rooms(header, state)
        return state

    # -- header and directory ----------------------------------------------------------------

    def _header_at(self, offset: int) -> tuple[Header, bytes]:
        """Return the header, or its copy, at an offset, and the bytes that encode it."""
        header, data = header_at(self.pair.metadata, offset)
        if header.has_blobs and self._comes_from_a_pack(header):
            raise blobs_alone(self.pair.names[0])
        if header.header_bytes > self.metadata_bytes:
            raise CorruptError("the header is damaged: it is longer than the file")
        return header, data[: header.content_bytes]

    def _comes_from_a_pack(self, header: Header) -> bool:
        """Tell whether metadata of format 3 belong into a packed file."""
        metadata = self.pair.metadata
        directory = metadata.read(DIRECTORY_BYTES, header.directory_offset)
        at = decode_directory(directory, header, metadata.length).get(BlockKind.BLOBS)
        try:
            block = b"" if at is None else metadata.read(SECTOR, at)
            return decode_frozen_block(block, header, metadata.length) is None
        except CorruptError:  # told later
            return False

    def _take_header(self, header: Header, block: bytes) -> None:
        self.header = self.pair.header = header
        self.header_block = block

    def _look_for_copy(self, damage: str) -> Header:
        """Find the copy of a damaged header and return what it says."""
        for at in range(BLOCK + COPY_AT, min(self.metadata_bytes, _FARTHEST_COPY), BLOCK):
            if self.pair.metadata.read(len(MAGIC), at) == MAGIC:
                with contextlib.suppress(ExtArrayError):
                    header, block = self._header_at(at)
                    if header.copy_offset == at:
                        self._take_header(header, block)
                        self.error("header", damage, 0, f"{REPAIR} restores it from its copy")
                        return header
        self.error("header", damage, 0, RESTORE)
        raise Unreadable

    def _look_at_copy(self, header: Header) -> None:
        at = header.copy_offset
        try:
            if self._header_at(at)[1] != self.header_block:
                raise FormatError("it differs from the header")
        except ExtArrayError as error:
            what = f"the copy of the header is damaged: {error}"
            self.error("copy", what, at, f"{REPAIR} rewrites it")

    def _look_at_directory(self, header: Header) -> None:
        self.blocks = self.pair.blocks()
        for kind in self.lost_blocks(header):
            self.error(
                "directory",
                f"the place of the block {BLOCK_NAMES[kind]} is damaged",
                entry_offset(header, kind),
                f"{REPAIR} clears it",
            )

    def lost_blocks(self, header: Header) -> list[BlockKind]:
        """Return the optional blocks that existed, but whose directory entries are damaged."""
        return [
            kind
            for kind in BlockKind
            if kind not in self.blocks
            and any(self.pair.metadata.read(ENTRY_BYTES, entry_offset(header, kind)))
        ]

    def pending_offsets(self) -> dict[int, int]:
        """Return the offsets of pending states by slot; none without a group block."""
        group = self.blocks.get(BlockKind.GROUP)
        return (
            {} if group is None else {slot: pending_offset(group, slot) for slot in PENDING_SLOTS}
        )

    # -- states ------------------------------------------------------------------------------

    def _look_at_superblocks(self, header: Header) -> Superblock:
        # The spared slots first, so that they are not newer than the live ones read after them.
        blocks = dict(self.states.superblocks(SPARED_SLOTS) + self.states.superblocks(LIVE_SLOTS))
        self.slots = [
            Slot(number, blocks.get(number), number not in blocks and self._is_blank(number))
            for number in (*LIVE_SLOTS, *SPARED_SLOTS)
        ]
        stop = max((block.n_segments for block in self.known), default=MOST_RECORDS)
        self.log = log = read_log(self.pair.metadata, header, stop)
        for slot in self.slots:
            if slot.block is not None:
                slot.fault = _fault_of(slot.block, header, log)
                slot.misplaced = slot.fault is None and not regions_fit(
                    slot.block, header, _extents_of(slot.block, log)
                )
                with contextlib.suppress(CorruptError):
                    slot.attrs = self.states.read_attrs(slot.block)
        # Choose as `StateReader` does: a live slot wins over a spared one with the same number.
        whole = [(slot.block.sequence, slot) for slot in self.slots if slot.whole and slot.block]
        self.present = max(whole, key=itemgetter(0), default=(-1, None))[1]
        state, number = self.state, -1 if self.state is None else self.state.sequence
        for slot in self.slots:
            self._tell_of_superblock(slot, header.superblock_offset(slot.number), number)
        if log.fault is not None:
            cut = [block for block in self.known if block.n_segments > len(log)]
            # The log that an older live superblock points to may have been overwritten.
            if cut and (state is None or any(block.sequence > number for block in cut)):
                at, what = log.fault
                self.error("log", what, at, f"{REPAIR} returns to a state without it")
        if self.present is None or state is None:
            raise Unreadable
        if self.present.number not in LIVE_SLOTS:
            self.error(
                "superblock",
                f"neither superblock 0 nor 1 is intact: open falls back to commit {number}, of "
                f"shape {state.shape}",
                header.superblock_offset(self.present.number),
                f"{REPAIR} makes it the current state",
            )
        return state

    def _is_blank(self, number: int) -> bool:
        """Tell whether a superblock was never written."""
        header = self.pair.header
        at, size = header.superblock_offset(number), superblock_bytes(header.ndim)
        return not any(self.pair.metadata.read(size, at))

    def _tell_of_superblock(self, slot: Slot, at: int, number: int) -> None:
        """Report what is wrong with a superblock; `number` is the present commit, or -1."""
        live, block = slot.number in LIVE_SLOTS, slot.block
        # Commit 0 always writes superblock 0.
        due = slot.number == 0 or (slot.number == 1 and number > 0)
        slot.blank &= not due
        if slot.torn:
            tell = self.error if live or number < 0 else self.warning
            tell(
                "superblock",
                f"superblock {slot.number} is torn; {self._consequence(live)}",
                at,
                f"{REPAIR} rewrites it",
            )
        elif block is None:
            return
        elif block.sequence > LAST_COMMIT:
            self.error(
                "superblock",
                f"superblock {slot.number} has commit {block.sequence}, the last possible number: "
                "the array cannot be opened for writing",
                at,
                "copy the array to a new one",
            )
        elif slot.whole:
            return
        elif block.sequence > number:
            self._tell_of_newer(slot, block, at)
        elif slot.misplaced or slot.fault == _NOT_POSSIBLE:
            tell = self.error if live else self.warning
            tell(
                "superblock",
                f"superblock {slot.number}: {slot.fault or _MISPLACED}",
                at,
                f"{REPAIR} rewrites it",
            )
        elif not live:
            self.warning(
                "superblock",
                f"superblock {slot.number} describes a state that no longer exists",
                at,
                f"{REPAIR} clears it",
            )

    def _consequence(self, live: bool) -> str:
        if self.state is None:
            return "no other one is intact"
        if not live:
            return "it is a spare one; nothing is lost"
        return f"the last intact state is commit {self.state.sequence}"

    def _tell_of_newer(self, slot: Slot, block: Superblock, at: int) -> None:
        """Report what is wrong with a state newer than the one that `open` takes."""
        if slot.misplaced:
            self.error(
                "room",
                f"commit {block.sequence}: {_MISPLACED}",
                at,
                f"{REPAIR} moves the attributes",
            )
        elif slot.fault is None:
            self.error(
                "attrs",
                f"the attributes of commit {block.sequence} are damaged",
                block.attrs_offset,
                f"{REPAIR} falls back to older ones",
            )
        else:
            self.error(
                "superblock",
                f"commit {block.sequence} is lost: {slot.fault}",
                at,
                f"{REPAIR} discards it",
            )

    def _look_at_pending(self) -> None:
        """Look for a commit of several arrays that is unfinished, perhaps only just yet.

        Read the directory once: a writer may add the block at any moment.
        """
        group = self.blocks.get(BlockKind.GROUP)
        if group is None:
            return
        known = [slot.block.sequence for slot in self.slots if slot.whole and slot.block]
        offsets = self.pending_offsets()
        pendings = self.states.decode_pendings(self.states.pending_bytes_in(group))
        for slot, pending in sorted(pendings):
            if pending.state.sequence > max(known, default=-1):
                self.pending = pending.state.sequence
                self.note(
                    "superblock",
                    f"commit {self.pending} of several arrays is unfinished; "
                    f"'{os.fsdecode(pending.path)}' decides whether it counts",
                    offsets[slot],
                    "the next writer finishes it",
                )

    def _look_at_partners(self, header: Header, state: Superblock) -> None:
        """Check that all arrays of the last joint commit have it.

        A killed process leaves such a commit with all of its arrays or with none.  A power cut may
        not, unless the arrays were open with ``durability="commit"``.  While someone writes, nobody
        can tell.
        """
        if is_held(self.pair.metadata):
            return
        last = next((pending for _, pending in self.states.pendings()), None)
        if last is not None and last.state.sequence <= state.sequence:
            place = self.states.coordinator_of(last)
            with self._partner(place, last.coordinator) as other:
                is_member = other is not None and header.uuid in dict(_members_of(other.pair))
                if other is not None and is_member and other.newest_group() != last.group:
                    self._tell_of_partner(place)
        for uuid, path in _members_of(self.pair) if any(state.group) else ():
            place = self.pair.path_of(path)
            with self._partner(place, uuid) as other:
                last = None if other is None else next((p for _, p in other.pendings()), None)
                if last and last.coordinator == header.uuid and last.group != state.group:
                    self._tell_of_partner(place)

    @contextlib.contextmanager
    def _partner(self, place: str, uuid: bytes) -> Iterator[StateReader | None]:
        """Open the metadata of a partner array; yield None if it cannot be judged now."""
        with contextlib.ExitStack() as stack:
            try:
                other = stack.enter_context(self.states.probe(place, uuid))
            except StorageError:
                yield None
                return
            is_still = not other.pair.metadata.closed and not is_held(other.pair.metadata)
            yield other if is_still else None

    def _tell_of_partner(self, place: str) -> None:
        self.warning(
            "group",
            f"'{place}' and this array differ in their last commit of several arrays, as after a "
            "power failure",
            None,
            "compare the extents of the two; durability='commit' keeps them together",
        )

    def _look_at_rooms(self, header: Header, state: Superblock) -> None:
        """Check that the variable parts of ``.xmd`` do not overlap."""
        assert self.log is not None
        size = record_bytes(header.ndim)
        if self.metadata_bytes < state.end:
            self.error(
                "room",
                f"it has {self.metadata_bytes} bytes, but its superblock says {state.end}",
                self.metadata_bytes,
                f"{REPAIR} corrects it",
            )
        rooms = {(0, header.first_extent, "the fixed parts")}
        rooms |= {(state.attrs_offset, state.attrs_capacity, "the attributes")}
        if state.spare_offset:
            rooms |= {(state.spare_offset, state.spare_capacity, "the attributes")}
        for slot in self.slots:
            block = slot.block
            if slot.number in SPARED_SLOTS and slot.whole and block and block.end <= state.end:
                rooms |= {(block.attrs_offset, block.attrs_capacity, "the attributes")}
        for number, at in enumerate(_extents_of(state, self.log)):
            room = EXTENT_HEAD_BYTES + extent_capacity(number) * size
            rooms |= {(at, room, f"extent {number} of the growth log")}
        if header.checksum:
            self.sums = read_table(self.pair.metadata, header, state.end)
        for number, at in enumerate(self.sums[1] if self.sums else []):
            rooms |= {(at, 4 * sums_capacity(number), "the table of checksums")}
        blocks = {(at, BLOCK_BYTES[kind], BLOCK_NAMES[kind]) for kind, at in self.blocks.items()}
        if self.pair.frozen is not None:
            blocks |= {(*room, "for frozen chunks") for room in self.pair.frozen.regions}
        blocks = {(at, length, f"the block {name}") for at, length, name in blocks}
        reached, before = 0, ""
        for at, length, name in sorted(rooms | blocks):
            # The directory may list blocks that are newer than the state, beyond its end.
            beyond = at + length > state.end and (at, length, name) not in blocks
            if at < reached or beyond:
                other = f"that of {before}" if at < reached else "the end of the used part"
                self.error(
                    "room",
                    f"{name} overlaps {other}",
                    at,
                    f"{REPAIR} moves the attributes",
                )
            if at + length > reached:
                reached, before = at + length, name


def _members_of(pair: Pair) -> list[tuple[bytes, bytes]]:
    """Return uuids and paths of the arrays that a coordinator lists."""
    group = pair.blocks().get(BlockKind.GROUP)
    return [] if group is None else decode_members(pair.metadata.read(BLOCK, group))


def _fault_of(block: Superblock, header: Header, log: WholeLog) -> str | None:
    """Return what is wrong with a state, apart from its attributes and places."""
    if not values_fit(block, header):
        return _NOT_POSSIBLE
    if block.n_segments > len(log):
        return "it needs a part of the growth log that is damaged"
    try:
        log.replay(block.n_segments, block.grid)
    except (CorruptError, MemoryError) as error:
        return str(error)
    return None


def _extents_of(block: Superblock, log: WholeLog) -> list[int]:
    """Return the offsets of the extents that hold the records of a state."""
    return log.extents[: 1 + extent_of_record(block.n_segments - 1)]
