"""Survey of a pair of files, damaged or not: what is whole, what is not, and where.

A survey changes nothing and takes no lock.  For any content it takes time and memory in
proportion to the files.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from extarray.common.errors import ChecksumError, CorruptError
from extarray.common.hints import hint
from extarray.common.progress import Progress
from extarray.common.system import NO_WAIT
from extarray.format.blobs import FILE_HEAD_BYTES
from extarray.format.blocks import BlockKind, entry_offset
from extarray.format.constants import SEAL_BYTES, SEAL_MAGIC
from extarray.format.frozen import is_whole_head, log_uuid
from extarray.grid.chunking import chunks_before, elements_of_chunk, place_of
from extarray.maintenance.inspect_metadata import (
    DATA,
    LOG,
    METADATA,
    REPAIR,
    RESTORE,
    MetadataSurvey,
    Unreadable,
)
from extarray.maintenance.salvage import Salvage, runs_of, salvage
from extarray.storage import lock
from extarray.storage.checksums import Comparison
from extarray.storage.filesystem import File, close_all, fresh_name
from extarray.storage.frozen import FrozenTable
from extarray.storage.names import left_overs
from extarray.storage.report import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from extarray.common.arguments import Reported
    from extarray.format.header import Header
    from extarray.format.superblock import Superblock

__all__ = ["Survey"]

# Runs of damaged chunks to report.
_MOST_RUNS = 1000
# Boxes of elements to keep in a finding, and to show in its text.
_MOST_BOXES = 1000
_SHOWN_BOXES = 3
# A damaged seal is the array's own if at least this many of its uuid's 16 bytes match.
_OWN_BYTES = 8

# Offset of the uuid in the header.
_UUID_AT = 16


@dataclass
class Survey(MetadataSurvey):
    """A survey of a pair of files."""

    data_bytes: int = 0  # length of ``.xta``
    seal: str | None = None  # at the end of ``.xta``: "ours", "damaged" or "foreign"
    # Remains of the present state, if ``.xta`` lost its end and no older state is better.
    rest: Salvage | None = None
    # Chunks with wrong checksums; whether all were compared; whether anyone asked for that.
    wrong: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    compared: bool = False
    looked: bool = False
    # Extents of the table of frozen chunks that its block names; addresses of damaged ones.
    n_extents: int = 0
    damaged: list[int] = field(default_factory=list)
    _flags: int = os.O_RDONLY

    # -- the files ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def opened(self, flags: int = os.O_RDONLY) -> Iterator[None]:
        """Open whichever of the files exist, for the length of a block."""
        pair, files = self.pair, [File(), File()]
        self._flags = flags
        try:
            for number, name in enumerate(pair.names):
                names = [name]
                if number != METADATA and not files[METADATA].closed:
                    # Its maker may have stopped before renaming it, or may rename it just now.
                    names.insert(0, fresh_name(name, files[METADATA].read(16, _UUID_AT)))
                for each in names:
                    if not files[number].closed:
                        break
                    files[number] = _opened(each, flags)
            pair.metadata, pair.data, pair.blobs = *files, File()
            yield
        finally:
            pair.frozen = None
            close_all(*files, pair.blobs)

    def _open_log(self, header: Header, uuid: bytes | None) -> None:
        """Open the file of frozen chunks, if it exists: the one with a uuid, if one has it.

        A repack has two of them for a while.
        """
        pair = self.pair
        for each in (self.log_name, fresh_name(self.log_name, header.uuid)):
            file = _opened(each, self._flags)
            if not file.closed and (pair.blobs.closed or (uuid and _uuid_of(file) == uuid)):
                pair.blobs, file = file, pair.blobs
            file.close()

    def is_in_place(self) -> bool:
        """Tell whether the metadata still have their name; otherwise the data may be others'."""
        metadata = self.pair.metadata
        return metadata.closed or metadata.is_at(self.pair.names[METADATA])

    def fingerprint(self) -> tuple[Any, ...]:
        """Return a value that changes if a writer has been at work."""
        found: list[Any] = []
        pair = self.pair
        names, files = (*pair.names, self.log_name), (pair.metadata, pair.data, pair.blobs)
        for name, file in zip(names, files, strict=True):
            with contextlib.suppress(OSError):
                about = os.stat(name)
                found += [about.st_ino, about.st_size]
            if not file.closed:
                found.append(file.length)
        if not pair.metadata.closed:
            found.append(pair.metadata.read(1 << 16, 0))
        return tuple(found)

    # -- the survey --------------------------------------------------------------------------

    def look(self) -> None:
        """Survey everything but the elements, afresh."""
        self.problems = []
        self.seal = self.rest = None
        self.n_extents, self.damaged = 0, []
        self.wrong, self.compared = self.wrong[:0], False
        with contextlib.suppress(Unreadable):
            self._look_at_files()
            header = self.look_at_header()
            if header.has_blobs:
                self._look_at_log(header)
            if not self.pair.data.closed:
                self.seal = self._find_seal(header)
            state = self.look_at_states(header)
            self._look_at_extents(header, state)
            if not self.pair.data.closed:
                if not state.sealed and self.data_bytes < state.data_bytes + SEAL_BYTES:
                    self.seal = None  # these bytes are elements that may look like a seal
                self._look_at_data(header, state)
            self._look_at_table(header)
        self.problems += left_overs(self.pair.names, self.header)

    def _look_at_files(self) -> None:
        metadata, data = self.pair.metadata, self.pair.data
        for number, file in enumerate((metadata, data)):
            if file.closed:
                self.error(
                    "file",
                    "no such file",
                    None,
                    "put both files of the array in the same folder",
                    number,
                )
        if metadata.closed:
            raise Unreadable
        self.metadata_bytes = metadata.length
        if not data.closed:
            self.data_bytes = data.length

    def _look_at_log(self, header: Header) -> None:
        """Examine the block that locates the table of frozen chunks, and the head of their log."""
        pair = self.pair
        pair.frozen = None
        try:
            found = FrozenTable.block_of(pair)
            self._open_log(header, None if found is None else found[1].uuid)
        except CorruptError as error:
            self._open_log(header, None)
            at = pair.blocks().get(BlockKind.BLOBS, entry_offset(header, BlockKind.BLOBS))
            self.error("frozen", str(error), at, f"{REPAIR} rebuilds it if it can, or {RESTORE}")
            return
        if found is None:  # the header's copy comes from a packed file
            return
        if pair.blobs.closed:
            what = "no such file, which has the frozen chunks"
            self.error("file", what, None, "put all files of the array in the same folder", LOG)
            return
        if _uuid_of(pair.blobs) != found[1].uuid:
            self.error(
                "frozen",
                "it is damaged, or has the frozen chunks of another array",
                0,
                f"put the files of one array in the same folder; {REPAIR} mends the right one",
                LOG,
            )
            return
        self.n_extents = int.from_bytes(pair.metadata.read(4, found[0] + 4), "little")
        pair.frozen = FrozenTable.survey(pair, *found)

    def _look_at_extents(self, header: Header, state: Superblock) -> None:
        if self.lacks_words:
            assert self.pair.frozen is not None
            n = chunks_before(state.data_bytes, header.chunk_bytes)
            self.error(
                "frozen",
                "it has lost its end, with the table that tells which of the chunks "
                f"{self.pair.frozen.reach} to {n - 1} are frozen",
                self.metadata_bytes,
                RESTORE,
            )

    @property
    def lacks_words(self) -> bool:
        """True if a part of the table of frozen chunks is missing that the present state needs."""
        table, state, header = self.pair.frozen, self.state, self.header
        if table is None or state is None or header is None:
            return False
        n = chunks_before(state.data_bytes, header.chunk_bytes)
        return len(table.regions) < self.n_extents and table.reach < n

    def _look_at_data(self, header: Header, state: Superblock) -> None:
        size = self.data_bytes
        if self.seal == "foreign":
            self.error(
                "data",
                "it ends with the seal of another array: the two files do not belong together",
                size - SEAL_BYTES,
                "put both files of one array in the same folder",
                DATA,
            )
            return
        there = self.chunk_bytes_there
        if there < state.data_bytes:
            self._tell_of_lost(header, state, there)
        elif size < state.data_bytes:
            self.error(
                "data",
                f"it has {size} bytes instead of {state.data_bytes}: no elements lost, since the "
                "last chunks are frozen",
                size,
                f"{REPAIR} lengthens it",
                DATA,
            )
        elif state.sealed and (self.seal != "ours" or size != state.data_bytes + SEAL_BYTES):
            self.error(
                "data",
                f"its seal is not at its end, after {state.data_bytes} bytes",
                state.data_bytes,
                f"{REPAIR} seals it, if it is the right file",
                DATA,
            )
        elif not state.sealed and self.seal == "damaged":
            self.error(
                "data",
                "the seal at its end is damaged, and looks like that of another array",
                size - SEAL_BYTES,
                f"{REPAIR} seals it",
                DATA,
            )
        if lock.is_held(self.pair.metadata):
            self.note("file", "a writer has it open", None, "")
        elif not state.sealed and not self._tell_of_unvouched(state):
            more = size - state.data_bytes
            rest = f"; its {more} bytes after the last chunk are unused" if more > 0 else ""
            self.note(
                "data",
                f"not sealed: the last writer did not close the array{rest}",
                min(size, state.data_bytes),
                "the next writer does",
                DATA,
            )

    def _tell_of_unvouched(self, state: Superblock) -> bool:
        """Report elements left in doubt since no writer closed the array; return False if none."""
        assert self.log is not None
        axial = self.log.replay(state.n_segments, state.grid)
        unvouched = self.states.unvouched(state, axial)
        if unvouched is None:
            return False
        if unvouched.is_copy:
            why = "these files are a copy of those that its writer wrote"
            remedy = "copy the array again, with extarray copy, or .xmd first"
        else:
            why = "the system went down since its writer wrote to it"
            remedy = "compare them with their source"
        if not lock.can_tell() or self.pair.metadata.is_networked:
            why += ", unless a writer has it open on another host"
        chunks = ""
        if unvouched.first_byte < state.data_bytes:
            chunks = (
                f" (bytes {unvouched.first_byte} to {state.data_bytes - 1}, and perhaps others)"
            )
        self.problems.append(
            Problem(
                "data",
                f"not sealed, and {why}: the elements {unvouched}{chunks} are not verified, and "
                "may be zeros or older values",
                self.pair.names[DATA],
                min(unvouched.first_byte, self.data_bytes),
                "warning",
                f"{remedy}; "
                + hint("opening it with mode='r+'", "the next command that changes it")
                + " marks it as complete",
                tuple(unvouched.boxes[:_MOST_BOXES]),
            )
        )
        return True

    def _tell_of_lost(self, header: Header, state: Superblock, there: int) -> None:
        """Report the elements lost with the end of ``.xta``, and what can be kept."""
        assert self.log is not None
        axial = self.log.replay(state.n_segments, state.grid)
        rest = salvage(header, state, axial, there)
        older = any(
            slot.block is not None and slot.fault is None and slot.block.data_bytes <= there
            for slot in self.slots
        )
        if state.sealed or not older or not rest.lost:
            # No older state has more: the array was closed, or a repair has begun.
            self.rest = rest
            remedy = f"{RESTORE}, or {rest.remedy(REPAIR)}"
        else:
            remedy = f"{RESTORE}, or {REPAIR} returns to an older state"
        what = f"it has {there} bytes of chunks instead of {state.data_bytes}: {rest.told}"
        self.error("data", what, there, remedy, DATA)

    @property
    def chunk_bytes_there(self) -> int:
        """Bytes of ``.xta`` that can belong to chunks; behind them, frozen ones need none."""
        there = self.data_bytes - (SEAL_BYTES if self.seal == "ours" else 0)
        table, header = self.pair.frozen, self.header
        if table is None or header is None:
            return there
        first = stop = chunks_before(there, header.chunk_bytes)
        for address in table.frozen(first, table.reach).tolist():
            if address != stop:
                break
            stop += 1
        return there if stop == first else place_of(stop, header.chunk_bytes)

    def _find_seal(self, header: Header) -> str | None:
        """Return whose seal ends ``.xta``: "ours", "damaged", "foreign" or None."""
        uuid = self.states.read_seal(self.data_bytes)
        if uuid == header.uuid:
            return "ours"
        end = self.pair.data.read(SEAL_BYTES, max(0, self.data_bytes - SEAL_BYTES))
        found = end.removeprefix(SEAL_MAGIC)
        if len(found) != len(header.uuid):
            return None
        right = sum(a == b for a, b in zip(found, header.uuid, strict=True))
        if right >= _OWN_BYTES:
            return "damaged"
        return None if uuid is None else "foreign"

    def _look_at_table(self, header: Header) -> None:
        if not header.checksum:
            return
        at = header.sums_offset
        if self.sums is None:
            self.error(
                "sums",
                "the table of checksums is damaged",
                at,
                f"{REPAIR} --force computes new checksums from the chunks as they are",
            )
        elif self.sums[0]:
            self.note("sums", "checksums are in doubt: chunks were written after them", at)

    # -- the elements ------------------------------------------------------------------------

    @property
    def unseen(self) -> list[str]:
        """The parts not examined, and how to examine them."""
        if self.header is None or self.state is None or self.compared:
            return []
        if not self.state.data_bytes:
            return []
        if not self.header.checksum:
            if self.header.has_blobs and not self.looked:
                return ["elements; extarray check --data compares frozen chunks with checksums"]
            which = "elements of raw chunks" if self.header.has_blobs else "elements"
            how = hint("a.copy(path, checksum=True)", "extarray copy --checksum")
            return [f"{which}: the array has no checksums; {how} makes a copy that has some"]
        if self.looked:
            return [] if self.kinds else ["elements: some of them could not be compared"]
        return ["elements; extarray check --data compares them with their checksums"]

    def look_at_chunks(self, progress: Reported) -> None:
        """Compare the chunks with their checksums."""
        self.looked = True
        header, state = self.header, self.state
        if header is None or state is None or self.pair.data.closed:
            return
        if header.has_blobs and not self._look_at_blobs(header, state):
            return
        if not header.checksum or self.sums is None:
            return
        there = min(state.data_bytes, self.data_bytes)
        n_chunks = chunks_before(there, header.chunk_bytes)
        if not n_chunks:
            self.compared = not state.data_bytes
            return
        pair = self.pair
        comparison = Comparison(pair.metadata, pair.data, header, state.end, frozen=pair.frozen)
        nbytes = header.chunk_bytes
        with Progress(place_of(n_chunks, nbytes), "check", progress is True) as line:

            def tell(done: int, total: int) -> None:
                if not isinstance(progress, bool):
                    progress(done, total)
                line.add(place_of(done, nbytes) - line.done)

            self.wrong = comparison.run(n_chunks, tell)
        self.compared = place_of(n_chunks, nbytes) == state.data_bytes
        if self.wrong.size:
            self._tell_of_chunks(header, state, comparison.in_doubt)

    def _look_at_blobs(self, header: Header, state: Superblock) -> bool:
        """Decode all frozen chunks; tell whether all are whole."""
        table = self.pair.frozen
        if table is None or self.log is None:
            return False
        axial = self.log.replay(state.n_segments, state.grid)
        chunk, is_whole = memoryview(bytearray(header.chunk_bytes)), True
        frozen = table.frozen(0, axial.size)
        self.compared = len(frozen) == axial.size and not header.checksum
        for address in frozen.tolist():
            try:
                table.read_into(chunk, address)
            except ChecksumError as error:
                is_whole = False
                self.damaged.append(address)
                index = axial.index(address)
                box = elements_of_chunk(index, header.chunks, state.offset, state.shape)
                what = f"{error}{_text_of_boxes((box,), 1)}"
                at = table.place_of_blob(address)
                remedy = (
                    "restore it from a copy, or overwrite the whole chunk; extarray check --data "
                    "--repair returns to what the last flush had, if that is whole"
                )
                self.problems.append(
                    Problem("chunk", what, self.log_name, at, "error", remedy, (box,))
                )
        return is_whole

    def _tell_of_chunks(self, header: Header, state: Superblock, in_doubt: bool) -> None:
        assert self.log is not None
        axial = self.log.replay(state.n_segments, state.grid)
        runs = runs_of(self.wrong)
        for number, (first, stop) in enumerate(runs[: _MOST_RUNS + 1]):
            chunks = f"chunk {first}" if stop == first + 1 else f"chunks {first} to {stop - 1}"
            indices = axial.indices(np.arange(first, min(stop, first + _MOST_BOXES))).tolist()
            boxes = tuple(
                elements_of_chunk(i, header.chunks, state.offset, state.shape) for i in indices
            )
            if number == _MOST_RUNS:
                boxes = ()
                chunks = f"{sum(z - a for a, z in runs[number:])} more chunks"
            what = f"{chunks}: the checksum does not match"
            remedy = "restore it from a copy, or overwrite the whole chunk"
            if in_doubt:
                what = f"{chunks}: either written after the last flush, or damaged"
                remedy = (
                    "if the elements are right, extarray check --data --repair --force accepts them"
                )
            what += _text_of_boxes(boxes, stop - first)
            severity: Literal["error", "warning"] = "warning" if in_doubt else "error"
            at = place_of(first, header.chunk_bytes)
            self.problems.append(
                Problem("chunk", what, self.pair.names[DATA], at, severity, remedy, boxes)
            )


def _opened(name: str, flags: int) -> File:
    """Open a regular file; return a closed one if there is none."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
        # Whatever has that name (a pipe, say), opening it must not block.
        file = File.open(name, flags | NO_WAIT)
        if stat.S_ISREG(file.stat().st_mode):
            return file
        file.close()
    return File()


def _uuid_of(log: File) -> bytes | None:
    """Return the uuid of a file of frozen chunks; None: its head is damaged."""
    head = log.read(FILE_HEAD_BYTES, 0)
    return log_uuid(head) if is_whole_head(head) else None


def _text_of_boxes(boxes: tuple[tuple[slice, ...], ...], n: int) -> str:
    """Return the end of a finding: the elements of `n` chunks, the first few in full."""
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
