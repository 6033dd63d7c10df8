"""A look at a pair of files, damaged or not: what is whole, what is not, and where.

Nothing is changed and no lock is taken.  Whatever the bytes are, a look takes time and memory in
proportion to the files.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from extarray import lock
from extarray._core._axial import Axial
from extarray._core._crc import crc32c, crc32c_rows
from extarray.errors import CorruptError, ExtArrayError, FormatError
from extarray.findings import Problem
from extarray.metadata import (
    BEGUN_SLOT,
    BLOCK,
    COPY_BLOCK,
    FLUSHED_SLOTS,
    HOLDER_BYTES,
    LIVE_SLOTS,
    MAGIC,
    SEAL_BYTES,
    SEAL_MAGIC,
    SUMS_BLOCK,
    Header,
    Superblock,
    decode_extent_head,
    decode_header,
    decode_records,
    decode_sums,
    decode_superblock,
    extent_capacity,
    record_bytes,
    sums_capacity,
    superblock_bytes,
)
from extarray.sums import SUMS_AT_ONCE, chunk_sums, fill_sum, read_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["SPARED_SLOTS", "Slot", "Survey", "left_overs"]

SPARED_SLOTS = (*FLUSHED_SLOTS, BEGUN_SLOT)
EXTENT_HEAD_BYTES = 16
# Where the copy of a damaged header is looked for.
_FARTHEST_COPY = 1 << 26
_MOST_RECORDS = 2**31 - 1
# Chunks that are read between two tellings of progress.
_STEP_BYTES = 1 << 26
# Damaged chunks are told in runs, and of so many.
_MOST_RUNS = 1000

# The two files, as `Survey.names` has them.
_METADATA, _DATA = 0, 1
_REPAIR = "extarray check --repair"
_RESTORE = "restore the files from a copy"


class Log(NamedTuple):
    """The growth log, as far as it is whole."""

    axes: NDArray[np.uint8]
    sides: NDArray[np.uint8]
    grids: NDArray[np.int64]
    extents: list[int]
    fault: tuple[int, str] | None  # where it stops being whole, and why

    def __len__(self) -> int:
        return len(self.axes)


@dataclass
class Slot:
    """A superblock, and what it points to.

    Attributes
    ----------
    block : Superblock or None
        None: never written, or torn.
    blank : bool
        Never written.
    fault : str or None
        Why the state is not whole, attributes aside.
    attrs : str or None
        The attributes, where they are whole.
    """

    number: int
    block: Superblock | None
    blank: bool = False
    fault: str | None = None
    attrs: str | None = None

    @property
    def torn(self) -> bool:
        """Whether it was written, and is not whole by its checksum."""
        return self.block is None and not self.blank

    @property
    def whole(self) -> bool:
        """Whether `open` can take the state, as far as ``.xmd`` goes."""
        return self.block is not None and self.fault is None and self.attrs is not None


class _Stop(Exception):  # noqa: N818 -- no error: nothing more can be looked at
    """What was found makes the rest unreadable."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def attrs_text(blob: bytes) -> str:
    """The text of attributes; ValueError where it is not a JSON object."""
    text = blob.decode()
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return text


def read_log(fd: int, header: Header, stop: int) -> Log:
    """The records of the growth log before `stop`, up to the first that is damaged."""
    size, length = record_bytes(header.ndim), os.fstat(fd).st_size
    seed = crc32c(header.uuid)
    extents, parts, done = [header.first_extent], [np.empty((0, size), np.uint8)], 0
    fault = None
    while True:
        offset = extents[-1] + EXTENT_HEAD_BYTES
        wanted = min(stop - done, extent_capacity(len(extents) - 1))
        there = max(0, min(wanted, (length - offset) // size))
        rows = np.frombuffer(os.pread(fd, there * size, offset), np.uint8)
        rows = rows[: len(rows) // size * size].reshape(-1, size)
        good = crc32c_rows(rows[:, 4:], seed) == rows[:, :4].copy().view("<u4")[:, 0]
        good &= rows[:, 4] < 2
        n = len(rows) if good.all() else int(good.argmin())
        parts.append(rows[:n])
        done += n
        if n < wanted:
            what = "damaged" if n < len(rows) else "cut off"
            fault = offset + n * size, f"record {done} of the growth log is {what}"
            break
        if done == stop:
            break
        try:
            following = decode_extent_head(
                os.pread(fd, EXTENT_HEAD_BYTES, extents[-1]), header.uuid
            )
            if not header.first_extent < following < length:
                raise CorruptError("the growth log is cut off")
        except CorruptError as error:
            fault = extents[-1], str(error)
            break
        extents.append(following)
    axes, sides, grids = decode_records(np.concatenate(parts), header.uuid)
    return Log(axes, sides, grids, extents, fault)


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
    seal : {"ours", "foreign", None}
        What ``.xta`` ends with.
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
    sums: tuple[bool, list[int]] | None = None
    wrong: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    compared: bool = False
    # Descriptors, while a look goes on.
    metadata: int = -1
    data: int = -1

    def error(
        self, kind: str, what: str, offset: int | None, remedy: str, file: int = _METADATA
    ) -> None:
        """Note that something is damaged or lost."""
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
            found.append(os.pread(self.metadata, 1 << 16, 0))
        return tuple(found)

    # -- the look ----------------------------------------------------------------------------

    def look(self) -> None:
        """Look at everything but the elements."""
        with contextlib.suppress(_Stop):
            self._look_at_files()
            self._look_at_header()
            self._look_at_superblocks()
            self._look_at_rooms()
            self._look_at_data()
            self._look_at_table()
        self.problems += left_overs(self.names)

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
        first = os.pread(self.metadata, BLOCK, offset)
        size = int.from_bytes(first[12:16], "little")
        if first.startswith(MAGIC) and BLOCK < size <= self.metadata_bytes - offset:
            first = os.pread(self.metadata, size, offset)
        header = decode_header(first)
        return header, first[: header.header_bytes - HOLDER_BYTES]

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
            if os.pread(self.metadata, len(MAGIC), at) == MAGIC:
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
            number: os.pread(self.metadata, size, header.superblock_offset(number))
            for number in (*SPARED_SLOTS, *LIVE_SLOTS)
        }
        self.slots = [
            Slot(number, decode_superblock(raw[number], header.ndim), not any(raw[number]))
            for number in (*LIVE_SLOTS, *SPARED_SLOTS)
        ]
        known = [slot.block for slot in self.slots if slot.block is not None]
        self.log = read_log(
            self.metadata, header, max((b.n_segments for b in known), default=_MOST_RECORDS)
        )
        for slot in self.slots:
            if slot.block is not None:
                slot.fault = self._fault_of(slot.block)
                slot.attrs = self.attrs_of(slot.block)
        self._choose()
        self._tell_of_superblocks(known)

    def _fault_of(self, block: Superblock) -> str | None:
        """What is wrong with a state, attributes aside."""
        header, log = self.header, self.log
        assert header is not None
        assert log is not None
        n_chunks = 1
        for n in block.grid:
            n_chunks *= n
        fits = n_chunks * header.chunk_bytes == block.data_bytes and all(
            n >= 0 and b >= 0 and b + n <= g * c
            for b, n, g, c in zip(block.offset, block.shape, block.grid, header.chunks, strict=True)
        )
        if not fits or block.n_segments < 1:
            return "its values are not possible"
        if block.n_segments > len(log):
            return "it needs more of the growth log than is whole"
        try:
            n = block.n_segments
            Axial._replay(log.axes[:n], log.sides[:n], log.grids[:n], block.grid)
        except (CorruptError, MemoryError) as error:
            return str(error)
        return None

    def attrs_of(self, block: Superblock) -> str | None:
        """The attributes of a state, where they are whole."""
        if block.attrs_offset + block.attrs_bytes > self.metadata_bytes:
            return None
        blob = os.pread(self.metadata, block.attrs_bytes, block.attrs_offset)
        if len(blob) != block.attrs_bytes or crc32c(blob) != block.attrs_crc:
            return None
        try:
            return attrs_text(blob)
        except ValueError:
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
                self.error(
                    "superblock",
                    f"superblock {slot.number} is torn; {self._consequence(live)}",
                    at,
                    f"{_REPAIR} goes on from there",
                )
            elif block is None or slot.whole:
                continue
            elif block.sequence > number:
                self._tell_of_newer(slot, block, at)
            elif slot.fault == "its values are not possible":
                self.error(
                    "superblock",
                    f"superblock {slot.number}: {slot.fault}",
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

    def _consequence(self, live: bool) -> str:
        if self.present is None or self.present.block is None:
            return "no other one is whole"
        if not live:
            return "a spare one, nothing is lost"
        return f"the last state that is whole is commit {self.present.block.sequence}"

    def _tell_of_newer(self, slot: Slot, block: Superblock, at: int) -> None:
        """A state is damaged that is newer than the one that `open` takes."""
        if slot.fault is None:
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
        needed = (present.n_segments // extent_capacity(0)).bit_length()
        for number, at in enumerate(self.log.extents[: max(1, needed)]):
            room = EXTENT_HEAD_BYTES + extent_capacity(number) * size
            rooms |= {(at, room, f"extent {number} of the growth log")}
        if header.checksum:
            self.read_sums(present.end)
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

    def read_sums(self, end: int) -> None:
        """Read where the table of checksums is; what lies beyond `end` is of a lost state."""
        assert self.header is not None
        at = self.header.superblock_offset(SUMS_BLOCK)
        self.sums = None
        found = decode_sums(os.pread(self.metadata, BLOCK, at), self.header.uuid)
        if found is not None:
            ends = [at + 4 * sums_capacity(number) for number, at in enumerate(found[1])]
            extents = [at for at, stop in zip(found[1], ends, strict=True) if stop <= end]
            if all(stop <= self.metadata_bytes for stop in ends[: len(extents)]):
                self.sums = found[0], extents

    @property
    def _in_doubt(self) -> bool:
        """Whether nothing can be told by a checksum that does not fit."""
        return self.sums is None or self.sums[0]

    def _look_at_data(self) -> None:
        if self.data < 0:
            return
        assert self.header is not None
        assert self.present is not None
        state = self.present.block
        assert state is not None
        size = self.data_bytes
        self.seal = self.seal_at(max(0, size - SEAL_BYTES))
        if self.seal == "foreign":
            self.error(
                "data",
                "it ends with the seal of another array: the two files do not belong together",
                size - SEAL_BYTES,
                "put the files of one array side by side",
                _DATA,
            )
            return
        if size < state.data_bytes:
            self.error(
                "data",
                f"it has {size} bytes, and the chunks take {state.data_bytes}",
                size,
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
                "the next one does",
                _DATA,
            )

    def seal_at(self, offset: int) -> str | None:
        """What seal stands at an offset of ``.xta``."""
        assert self.header is not None
        end = os.pread(self.data, SEAL_BYTES, offset)
        if not end.startswith(SEAL_MAGIC) or len(end) < SEAL_BYTES:
            return None
        return "ours" if end == SEAL_MAGIC + self.header.uuid else "foreign"

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
        step = max(1, min(SUMS_AT_ONCE, _STEP_BYTES // header.chunk_bytes))
        empty = fill_sum(header)
        found = []
        in_doubt = self._in_doubt
        for first in range(0, n_chunks, step):
            addresses = np.arange(first, min(n_chunks, first + step))
            wrong = self._unfit(addresses, empty)
            if wrong.size:
                # A writer may have been at work: then, too, the table says so.
                self.read_sums(state.end)
                found.append(self._unfit(wrong, empty))
                self.read_sums(state.end)
                in_doubt |= self._in_doubt
            if progress is not None:
                progress(int(addresses[-1]) + 1, n_chunks)
        self.compared = n_chunks * header.chunk_bytes == state.data_bytes
        self.wrong = np.concatenate([self.wrong, *found])
        if self.wrong.size:
            self._tell_of_chunks(in_doubt)

    def _unfit(self, addresses: NDArray[np.int64], empty: int) -> NDArray[np.int64]:
        """Of some chunks, those that do not fit their checksums."""
        assert self.header is not None
        if self.sums is None:
            return addresses
        first, stop = int(addresses[0]), int(addresses[-1]) + 1
        try:
            told = read_sums(self.metadata, self.sums[1], first, stop)[addresses - first]
        except CorruptError:
            return addresses
        sums = chunk_sums(self.data, addresses, self.header.chunk_bytes)
        wrong: NDArray[np.int64] = addresses[sums != told ^ np.uint32(empty)]
        return wrong

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


def left_overs(names: tuple[str, str]) -> list[Problem]:
    """Files that a creation has left which did not come to its end."""
    folder, metadata = os.path.split(os.path.abspath(names[0]))
    stem = re.escape(metadata.removesuffix(".xmd"))
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        pattern = re.compile(rf"{stem}\.(xmd|xta)\.[0-9a-f]{{12}}\.new")
        found += [entry.path for entry in entries if pattern.fullmatch(entry.name)]
    return [
        Problem(
            "left over",
            "left by a creation that was interrupted, or is under way",
            name,
            None,
            "warning",
            f"{_REPAIR} removes it, if nobody is at work",
        )
        for name in sorted(found)
    ]
