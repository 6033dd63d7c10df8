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

from extarray import lock
from extarray._core._axial import Axial
from extarray._core._crc import crc32c
from extarray.attrs import check_attrs
from extarray.comparing import Comparison, read_table
from extarray.errors import CorruptError, ExtArrayError, FormatError
from extarray.filesystem import fresh_name, read_all
from extarray.findings import Problem
from extarray.leftovers import left_overs
from extarray.metadata.fitting import places_fit, values_fit
from extarray.metadata.groups import decode_pending
from extarray.metadata.header import MAGIC, Header, decode_header, header_content
from extarray.metadata.places import (
    BLOCK,
    COPY_BLOCK,
    LIVE_SLOTS,
    PENDING_SLOTS,
    SEAL_BYTES,
    SEAL_MAGIC,
    SPARED_SLOTS,
    SUMS_BLOCK,
)
from extarray.metadata.records import (
    EXTENT_HEAD_BYTES,
    extent_capacity,
    extent_of_record,
    record_bytes,
)
from extarray.metadata.sumstable import sums_capacity
from extarray.metadata.superblock import (
    LAST_COMMIT,
    Superblock,
    decode_superblock,
    superblock_bytes,
)
from extarray.remains import MOST_RECORDS, Log, Slot, read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["Survey"]

# Where the copy of a damaged header is looked for.
_FARTHEST_COPY = 1 << 26
# Damaged chunks are told in runs, and of so many.
_MOST_RUNS = 1000
# Of the 16 bytes of a uuid: where so many are right, it is the array's own and damaged.
_OWN_BYTES = 8

# Of the uuid in the header.
_UUID_AT = 16
# The two files, as `Survey.names` has them.
_METADATA, _DATA = 0, 1
# What a disk writes whole.
_SECTOR = 512
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
    sums : tuple of bool and list of int, or None
        Whether the checksums of chunks are in doubt, and the extents of their table.
    wrong : ndarray of int
        Addresses of chunks that do not fit their checksums.
    compared : bool
        Whether all chunks were compared with theirs.
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
    sums: tuple[bool, list[int]] | None = None
    wrong: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    compared: bool = False
    # Descriptors, while a look goes on.
    metadata: int = -1
    data: int = -1

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
        fds = [-1, -1]
        try:
            for number, name in enumerate(self.names):
                # Whatever has that name, opening it must not wait.
                if number == _DATA and fds[_METADATA] >= 0:
                    # Its maker may not have come to give it the name.
                    fresh = fresh_name(name, read_all(fds[_METADATA], 16, _UUID_AT))
                    name = fresh if os.path.exists(fresh) else name
                with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                    fd = os.open(name, flags | os.O_CLOEXEC | os.O_NONBLOCK)
                    if stat.S_ISREG(os.fstat(fd).st_mode):
                        fds[number] = fd
                    else:
                        os.close(fd)
            self.metadata, self.data = fds
            yield
        finally:
            for fd in fds:
                if fd >= 0:
                    os.close(fd)

    def fingerprint(self) -> tuple[Any, ...]:
        """What differs where a writer has been at work meanwhile."""
        found: list[Any] = []
        for name, fd in zip(self.names, (self.metadata, self.data), strict=True):
            with contextlib.suppress(OSError):
                about = os.stat(name)
                found += [about.st_ino, about.st_size]
            if fd >= 0:
                found.append(os.fstat(fd).st_size)
        if self.metadata >= 0:
            found.append(read_all(self.metadata, 1 << 16, 0))
        return tuple(found)

    # -- the look ----------------------------------------------------------------------------

    def look(self) -> None:
        """Look at everything but the elements, afresh."""
        self.problems, self.slots = [], []
        self.header = self.present = self.log = self.seal = self.sums = self.pending = None
        self.wrong, self.compared = self.wrong[:0], False
        with contextlib.suppress(_Stop):
            self._look_at_files()
            self._look_at_header()
            if self.data >= 0:
                self.seal = self.seal_at(max(0, self.data_bytes - SEAL_BYTES))
            self._look_at_superblocks()
            self._look_at_pending()
            self._look_at_rooms()
            self._look_at_data()
            self._look_at_table()
        self.problems += left_overs(self.names, self.header)

    def _look_at_files(self) -> None:
        for number, fd in enumerate((self.metadata, self.data)):
            if fd < 0:
                self.error(
                    "file",
                    "there is no such file",
                    None,
                    "put the two files of the array side by side",
                    number,
                )
        if self.metadata < 0:
            raise _Stop
        self.metadata_bytes = os.fstat(self.metadata).st_size
        if self.data >= 0:
            self.data_bytes = os.fstat(self.data).st_size

    def _header_at(self, offset: int) -> tuple[Header, bytes]:
        """The header, or its copy, that stands at an offset."""
        first = read_all(self.metadata, BLOCK, offset)
        size = int.from_bytes(first[12:16], "little")
        if first.startswith(MAGIC) and BLOCK < size <= self.metadata_bytes - offset:
            first = read_all(self.metadata, size, offset)
        header = decode_header(first)
        if header.header_bytes > self.metadata_bytes - offset:
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
        for at in range((COPY_BLOCK + 1) * BLOCK, min(self.metadata_bytes, _FARTHEST_COPY), BLOCK):
            if read_all(self.metadata, len(MAGIC), at) == MAGIC:
                with contextlib.suppress(ExtArrayError):
                    header, block = self._header_at(at)
                    if header.copy_offset == at:
                        self.header, self.header_block = header, block
                        break
        remedy = _RESTORE if self.header is None else f"{_REPAIR} restores it from its copy"
        self.error("header", str(damage), 0, remedy)
        if self.header is None:
            raise _Stop

    def _look_at_superblocks(self) -> None:
        assert self.header is not None
        header, size = self.header, superblock_bytes(self.header.ndim)
        # First the spared ones, so that they are not newer than the others.
        raw = {
            number: read_all(self.metadata, size, header.superblock_offset(number))
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
                slot.misplaced = slot.fault is None and not places_fit(
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
        blob = read_all(self.metadata, block.attrs_bytes, block.attrs_offset)
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
        for number in PENDING_SLOTS:
            at = self.header.superblock_offset(number)
            pending = decode_pending(read_all(self.metadata, BLOCK, at), self.header.ndim)
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
        reached, before = 0, ""
        for at, length, name in sorted(rooms):
            if at < reached or at + length > present.end:
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
        if self.data < 0:
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
            self.error(
                "data",
                f"it has {there} bytes of chunks, and they take {state.data_bytes}",
                there,
                f"{_RESTORE}, or {_REPAIR} returns to an older state",
                _DATA,
            )
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

    @property
    def chunk_bytes_there(self) -> int:
        """Bytes of ``.xta`` that can be chunks."""
        return self.data_bytes - (SEAL_BYTES if self.seal == "ours" else 0)

    def seal_at(self, offset: int) -> str | None:
        """What seal stands at an offset of ``.xta``."""
        assert self.header is not None
        end = read_all(self.data, SEAL_BYTES, offset)
        if not end.startswith(SEAL_MAGIC) or len(end) < SEAL_BYTES:
            return None
        torn = -offset % _SECTOR
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
        at = self.header.superblock_offset(SUMS_BLOCK)
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

    def look_at_chunks(self, progress: Callable[[int, int], None] | None) -> None:
        """Compare the chunks with their checksums."""
        if self.present is None or self.present.block is None or self.data < 0:
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
            if number == _MOST_RUNS:
                chunks = f"{len(self.wrong) - first} more chunks"
            if in_doubt:
                what = f"{chunks} cannot be told: written after the last flush, or damaged"
                remedy = "if the elements are right, extarray check --data --repair --force says so"
                self.warning("chunk", what, at, remedy, _DATA)
            else:
                what = f"{chunks}: the checksum does not fit"
                self.error("chunk", what, at, "restore it from a copy", _DATA)
            if number == _MOST_RUNS:
                break
