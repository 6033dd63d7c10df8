"""Repair of a pair of files: return to the last whole state.

Bytes about to be overwritten are copied aside first.  Steps that could lose recoverable elements or
attributes need `force`.
"""

from __future__ import annotations

import contextlib
import os
import stat
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from extarray.common.errors import ChecksumError, CorruptError
from extarray.common.system import remove
from extarray.format.blobs import FILE_HEAD_BYTES, FILL, encode_file_head
from extarray.format.blocks import BLOCK_NAMES, ENTRY_BYTES, BlockKind, encode_entry, entry_offset
from extarray.format.constants import LIMIT, LIVE_SLOTS, SEAL_BYTES, SECTOR, SPARED_SLOTS
from extarray.format.fresh import attrs_room
from extarray.format.frozen import decode_frozen_block, is_whole_head, log_uuid
from extarray.format.header import Header, encode_seal
from extarray.format.records import (
    EXTENT_HEAD_BYTES,
    check_records,
    decode_records,
    encode_record,
    extent_capacity,
    record_bytes,
)
from extarray.format.superblock import (
    LAST_COMMIT,
    Superblock,
    attrs_location,
    encode_superblock,
    superblock_bytes,
)
from extarray.grid.chunking import chunks_before, place_of
from extarray.maintenance.inspect import Survey
from extarray.maintenance.lost_table import find_block, has_blob_of, rebuilt_block
from extarray.maintenance.salvage import Slot
from extarray.storage import lock
from extarray.storage.checksums import SUMS_AT_ONCE, Sums, read_table
from extarray.storage.commits import renew_sums
from extarray.storage.filesystem import File, family
from extarray.storage.frozen import FrozenTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extarray.common.arguments import Reported
    from extarray.maintenance.salvage import Salvage

__all__ = ["Repair"]

_PIECE = 1 << 20
# Most records that an unfinished commit can leave: one for each axis and side.
_MOST_UNCOMMITTED = 64
# Findings that a new state settles.
_OF_STATES = {"superblock", "log", "attrs", "room", "data"}


class TargetState(NamedTuple):
    """The state to return to."""

    block: Superblock
    attrs: str
    lost: str | None  # losses that need force, if any
    did: str
    slots: frozenset[int] = frozenset()  # superblocks that it is read from
    outside: tuple[tuple[int, int], ...] = ()  # runs of chunks to give up
    first_lost: int | None = None  # first chunk that the file lacks; all later ones are lost too


class Repair:
    """Repair a pair, whose lock the caller holds, according to a survey.

    Append completed steps to `done`, and reasons for omitted ones to `left`.
    """

    def __init__(self, survey: Survey, force: bool, done: list[str], left: list[str]) -> None:
        self.survey = survey
        self.force = force
        self.done = done
        self.left = left
        self._metadata_saved = False

    @property
    def header(self) -> Header:
        """The header; without one, nothing is repaired."""
        assert self.survey.header is not None
        return self.survey.header

    def run(self, data: bool, progress: Reported) -> None:
        """Repair whatever can be repaired; with `data`, examine the chunks too."""
        survey = self.survey
        if survey.pair.metadata.closed:
            self.left.append("the metadata file of this array is missing: restore it from a copy")
            return
        if survey.header is None:
            self.left.append(
                "the header and its copy are damaged: the layout of the chunks is unknown"
            )
            return
        if survey.pair.data.closed or survey.seal == "foreign":
            self.left.append("the data file of this array is missing: restore it from a copy")
            return
        if survey.pending is not None and not self.force:
            self.left.append(
                "a commit of several arrays is unfinished: open the array for writing, in the "
                "same folder as the others, to finish it; or use force to roll it back for this "
                "array"
            )
            return
        if survey.pending is not None:
            self._take_back_pending()
        if survey.kinds & {"header", "copy"}:
            self._mend_header()
        if "log" in survey.kinds:
            self._restore_first_record()
        if "directory" in survey.kinds:
            self._mend_directory()
        spoilt = any(
            slot.number in SPARED_SLOTS and not (slot.blank or slot.whole) for slot in survey.slots
        )
        if survey.header.has_blobs and not self._mend_table():
            return
        if (survey.kinds & _OF_STATES or spoilt) and not self._mend_state():
            return
        if survey.header.has_blobs and data:
            survey.look_at_chunks(progress)
            if survey.damaged:
                self._mend_blobs()
        if survey.header.checksum:
            if data:
                survey.look_at_chunks(progress)
            self._mend_sums()

    # -- copies of overwritten bytes ---------------------------------------------------------

    def _save(self, number: int, first: int, stop: int) -> None:
        """Copy bytes first ... stop - 1 of a file aside, unless all are zero."""
        pair = self.survey.pair
        file = (pair.metadata, pair.data, pair.blobs)[number]
        name = (*pair.names, self.survey.log_name)[number]
        with family("cannot keep a copy of '{}'", name):
            aside = self._copy_aside(file, name, first, stop)
        if aside:
            part = "" if first == 0 else f" from byte {first} on"
            self.done.append(f"the previous content of {name}{part} is kept in {aside}")

    def _copy_aside(self, file: File, name: str, first: int, stop: int) -> str:
        """Copy bytes of a file to a new one; return its name, or "" if all bytes are zero."""
        pieces = ((at, file.read(min(_PIECE, stop - at), at)) for at in range(first, stop, _PIECE))
        copy, aside = File(), ""
        try:
            for at, piece in pieces:
                if piece.count(0) == len(piece):
                    continue
                if copy.closed:
                    mode = stat.S_IMODE(file.stat().st_mode)
                    copy, aside = _new_file(f"{name}.before-repair", mode)
                copy.write(piece, at - first)
            if aside:
                copy.truncate(stop - first)
                copy.datasync()
        except BaseException:
            if aside:  # a partial copy would pass for a complete one
                remove(aside)
            raise
        finally:
            copy.close()
        return aside

    def _save_metadata(self) -> None:
        if not self._metadata_saved:
            # Clear our note: the copy shows the file as it was before this process had the lock.
            lock.note_holder(self.survey.pair.metadata, self.header, False)
            self._save(0, 0, self.survey.metadata_bytes)
            lock.note_holder(self.survey.pair.metadata, self.header, True)
            self._metadata_saved = True

    # -- header ------------------------------------------------------------------------------

    def _mend_header(self) -> None:
        self._save_metadata()
        file, block = self.survey.pair.metadata, self.survey.header_block
        if "header" in self.survey.kinds:
            file.write(block, 0)
            self.done.append("the header was restored from its copy")
        else:
            file.write(block, self.header.copy_offset)
            self.done.append("the copy of the header was rewritten")
        file.datasync()

    # -- growth log and directory ------------------------------------------------------------

    def _restore_first_record(self) -> None:
        """Rebuild the record of the initial segment from what follows it."""
        header, log = self.header, self.survey.log
        at = header.first_extent + EXTENT_HEAD_BYTES
        if log is None or log.fault is None or log.fault[0] != at:
            return
        grid = self._initial_grid()
        if grid is None:
            return
        self._save_metadata()
        self.survey.pair.metadata.write(encode_record(0, 0, grid, header.uuid), at)
        self.survey.pair.metadata.datasync()
        self.done.append(f"{log.fault[1]}: it was rebuilt from the records after it")
        self.survey.look()

    def _initial_grid(self) -> tuple[int, ...] | None:
        """Return the grid before the first growth, from the next record or the newest superblock.

        Its first axis is 0, as in the record of the initial segment.
        """
        header, known = self.header, self.survey.known
        if not known:
            return None
        newest = max(known, key=lambda block: block.sequence)
        grid, size = newest.grid, record_bytes(header.ndim)
        if newest.n_segments > 1:
            data = self.survey.pair.metadata.read(
                size, header.first_extent + EXTENT_HEAD_BYTES + size
            )
            rows = np.frombuffer(data.ljust(size, b"\0"), np.uint8)[None]
            try:
                check_records(rows, header.uuid, 1)
            except CorruptError:
                return None
            grid = tuple(decode_records(rows)[2][0].tolist())
        return tuple(n if j else 0 for j, n in enumerate(grid))

    def _mend_directory(self) -> None:
        """Clear damaged directory entries of optional blocks."""
        lost = self.survey.lost_blocks(self.header)
        if self.header.has_blobs and BlockKind.BLOBS in lost:
            lost.remove(BlockKind.BLOBS)  # see `_mend_table`
        if BlockKind.GROUP in lost and not self.force:
            self.left.append(
                "an unfinished commit of several arrays may exist, and its state would be lost: "
                "discarding it needs force"
            )
            lost.remove(BlockKind.GROUP)
        if not lost:
            return
        self._save_metadata()
        for kind in lost:
            self.survey.pair.metadata.write(bytes(ENTRY_BYTES), entry_offset(self.header, kind))
            self.done.append(f"the damaged place of the block {BLOCK_NAMES[kind]} was cleared")
        self.survey.pair.metadata.datasync()
        self.survey.look()

    # -- frozen chunks -----------------------------------------------------------------------

    def _mend_table(self) -> bool:
        """Mend what leads to frozen chunks; return False if nobody can tell where they are."""
        survey, pair = self.survey, self.survey.pair
        if pair.blobs.closed:
            self.left.append("the file of frozen chunks is missing")
            return False
        if pair.frozen is None:
            why = self._mend_way_to_blobs()
            if why:
                self.left.append(why)
                return False
            survey.look()
        if pair.frozen is None or survey.lacks_words:
            self.left.append("the table of frozen chunks is lost, or a part of it")
            return False
        return True

    def _mend_way_to_blobs(self) -> str:
        """Mend the block of the table, its place, and the head of the log; say what is left."""
        survey, pair, header = self.survey, self.survey.pair, self.header
        metadata, log = pair.metadata, pair.blobs
        head = log.read(FILE_HEAD_BYTES, 0)
        at = survey.blocks.get(BlockKind.BLOBS)
        if at is None:
            at = find_block(metadata, header)
            if at is None:
                return "the place of the table of frozen chunks is lost"
            self._save_metadata()
            entry = encode_entry(at, BlockKind.BLOBS, header.uuid)
            metadata.write(entry, entry_offset(header, BlockKind.BLOBS))
            metadata.datasync()
            self.done.append("the place of the table of frozen chunks was found by its contents")
        data = metadata.read(SECTOR, at)
        try:
            block = decode_frozen_block(data, header, metadata.length)
        except CorruptError:
            if not is_whole_head(head):
                return "the block of the table of frozen chunks and the head of their file are lost"
            sizes = [state.data_bytes for state in survey.known] or [survey.data_bytes]
            n = chunks_before(max(sizes), header.chunk_bytes)
            rebuilt = rebuilt_block(metadata, log, log_uuid(head), header, n)
            if rebuilt is None:
                return "the table of frozen chunks cannot be told from its contents"
            self._save_metadata()
            metadata.write(rebuilt, at)
            metadata.datasync()
            self.done.append("the block of the table of frozen chunks was rebuilt from the table")
            return ""
        if block is not None and not (is_whole_head(head) and log_uuid(head) == block.uuid):
            table = FrozenTable.survey(pair, at, block)
            words = table.entries(np.arange(table.reach))
            if is_whole_head(head) or not has_blob_of(log, words, block.uuid):
                return "the file of frozen chunks is another one, which has none of them"
            self._save(2, 0, FILE_HEAD_BYTES)
            log.write(encode_file_head(block.uuid, header.uuid), 0)
            log.datasync()
            self.done.append("the head of the file of frozen chunks was rewritten")
        return ""

    def _mend_blobs(self) -> None:
        """Return damaged frozen chunks to what the last flush had; with force, give up the rest."""
        survey, table = self.survey, self.survey.pair.frozen
        assert table is not None
        addresses = np.array(survey.damaged, np.int64)
        durable = table.durable(addresses)
        differs = durable != table.entries(addresses)
        chunk = memoryview(bytearray(self.header.chunk_bytes))
        for i in np.flatnonzero(differs & (durable > FILL)).tolist():
            try:
                table.decode(chunk, int(addresses[i]), int(durable[i]))
            except ChecksumError:
                differs[i] = False
        n_lost = int((~differs).sum())
        words = np.where(differs, durable, np.uint64(FILL))
        if n_lost and not self.force:
            self.left.append(
                f"{n_lost} frozen chunks are damaged; giving them the fill value needs force"
            )
            addresses, words = addresses[differs], words[differs]
        if not len(addresses):
            return
        self._save_metadata()
        table.put(addresses, words)
        survey.pair.metadata.datasync()
        n_back = int(differs.sum())
        if n_back:
            self.done.append(f"{n_back} damaged frozen chunks are as the last flush left them")
        if n_lost and self.force:
            self.done.append(f"{n_lost} damaged frozen chunks were given the fill value")
        survey.look()

    def _have_blobs(self, first: int) -> bool:
        """Tell whether chunks from an address on are frozen, other than those of the fill value."""
        table = self.survey.pair.frozen
        if table is None:
            return self.header.has_blobs
        some = table.frozen(first, table.reach)
        return bool((table.entries(some) != FILL).any())

    # -- the state ---------------------------------------------------------------------------

    def _target(self) -> TargetState | None:
        """Return the best state that the files allow."""
        there = self.survey.chunk_bytes_there
        states = [(slot, slot.block) for slot in self.survey.slots if slot.block is not None]
        states = [(slot, block) for slot, block in states if slot.fault is None]
        states.sort(key=lambda state: -state[1].sequence)
        if self.survey.rest is not None:
            return self._target_of_rest(self.survey.rest)
        for slot, block in states:
            if block.data_bytes <= there:
                return self._target_of(slot, block, newest=block is states[0][1])
        return self._target_of_log(there)

    def _target_of_rest(self, rest: Salvage) -> TargetState | None:
        """Return the present state, reduced to the largest whole bounds."""
        slot = self.survey.present
        assert slot is not None
        assert slot.block is not None
        if rest.is_empty:
            return None
        assert rest.whole is not None
        start, stop = rest.whole
        block = slot.block._replace(
            shape=tuple(z - a for a, z in zip(start, stop, strict=True)),
            offset=tuple(b + a for b, a in zip(slot.block.offset, start, strict=True)),
        )
        target = self._target_of(slot, block, newest=True)
        lost = [] if target.lost is None else [target.lost]
        if self.header.has_blobs and self._have_blobs(rest.first_lost):
            lost.append("frozen chunks outside the largest intact bounds have elements")
        if rest.outside:
            lost.append(
                f"{rest.n_outside} chunks outside {rest.bounds}, the largest intact bounds, have "
                "elements"
            )
        return target._replace(
            lost=" and ".join(lost) or None,
            did=f"the array keeps its elements {rest.bounds}; {rest.told}",
            outside=tuple(rest.outside),
            first_lost=rest.first_lost,
        )

    def _target_of(self, slot: Slot, block: Superblock, newest: bool) -> TargetState:
        lost = []
        torn = any(s.number in LIVE_SLOTS and s.torn for s in self.survey.slots)
        faulty = any(
            s.block is not None and s.fault is not None and s.block.sequence > block.sequence
            for s in self.survey.slots
        )
        if (not newest or torn or faulty) and self._has_elements(block.data_bytes):
            name = self.survey.pair.names[1]
            lost.append(f"{name} has chunks of a newer state after byte {block.data_bytes}")
        attrs, source = slot.attrs, slot.number
        if attrs is None:
            attrs, source = self._other_attrs()
            if attrs is None:
                attrs = "{}"
                lost.append("the attributes are damaged, and no older ones exist")
        if slot.misplaced:  # its end cannot be trusted
            block = block._replace(end=self.survey.metadata_bytes)
        return TargetState(
            block,
            attrs,
            " and ".join(lost) or None,
            f"the array was returned to commit {block.sequence}, of shape {block.shape}",
            frozenset({slot.number, source}),
        )

    def _other_attrs(self) -> tuple[str | None, int]:
        """Return the newest whole attributes and their slot, even from a torn superblock.

        Without any, return None and an arbitrary slot.
        """
        whole = [slot for slot in self.survey.slots if slot.block and slot.attrs is not None]
        if whole:
            newest = max(whole, key=lambda slot: slot.block.sequence if slot.block else 0)
            return newest.attrs, newest.number
        header = self.header
        for number in (*LIVE_SLOTS, *SPARED_SLOTS):
            at = header.superblock_offset(number)
            raw = self.survey.pair.metadata.read(superblock_bytes(header.ndim), at)
            # A torn superblock's pointer counts if the checksum of the attributes confirms it.
            offset, length, crc = attrs_location(raw)
            if length >= 2:
                with contextlib.suppress(CorruptError):
                    return self.survey.states.attrs_at(offset, length, crc), number
        return None, LIVE_SLOTS[0]

    def _has_elements(self, first: int) -> bool:
        """Tell whether ``.xta`` has anything but fill values and zeros from a byte on."""
        header = self.header
        if header.has_blobs and self._have_blobs(chunks_before(first, header.chunk_bytes)):
            return True
        size = len(header.fill)
        pattern = header.fill * max(1, _PIECE // size)
        for at in range(first, self.survey.chunk_bytes_there, len(pattern)):
            stop = min(len(pattern), self.survey.chunk_bytes_there - at)
            piece = self.survey.pair.data.read(stop, at)
            if piece != pattern[: len(piece)] and piece.count(0) != len(piece):
                return True
        return False

    def _target_of_log(self, there: int) -> TargetState | None:
        """Derive a state from the growth log and the length of ``.xta``; no superblock is whole."""
        header, log = self.header, self.survey.log
        if log is None:
            return None
        n_chunks = chunks_before(there, header.chunk_bytes)
        for n in range(len(log), max(0, len(log) - _MOST_UNCOMMITTED), -1):
            grid = [int(extent) for extent in log.grids[n - 1]]
            axis = int(log.axes[n - 1])
            if grid:
                others = 1
                for j, extent in enumerate(grid):
                    others *= extent if j != axis else 1
                grown = n_chunks // others if others else grid[axis]
                if grown < grid[axis] + (n > 1 and others > 0):
                    continue  # this growth was not committed
                grid[axis] = grown
            try:
                axial = log.replay(n, grid)
            except (CorruptError, MemoryError):
                continue
            if axial.size > n_chunks:
                continue
            shape = tuple(g * c for g, c in zip(grid, header.chunks, strict=True))
            attrs, source = self._other_attrs()
            return TargetState(
                Superblock.first(
                    shape, tuple(grid), place_of(axial.size, header.chunk_bytes), n, unclean=True
                ),
                attrs if attrs is not None else "{}",
                "no superblock is intact: the bounds are lost, and would become those of all chunks"
                + (", and so are the attributes" if attrs is None else ""),
                f"the shape {shape} was recovered from the growth log; it includes all chunks",
                frozenset({source}),
            )
        return None

    def _mend_state(self) -> bool:
        """Return to the best state, if that is permitted, and survey the files again."""
        target, survey = self._target(), self.survey
        if target is None or (target.lost and not self.force):
            self.left.append(
                "no state can be recovered"
                if target is None
                else f"{target.lost}; discarding that needs force"
            )
            return False
        if target.block.sequence > LAST_COMMIT:
            self.left.append(
                f"commit {target.block.sequence} has the last possible number; copy the array to "
                "a new one"
            )
            return False
        self._save_metadata()
        self._save(1, target.block.data_bytes, self._end_to_save(target.block))
        if target.first_lost is not None:
            first = min([target.first_lost, *(run[0] for run in target.outside[:1])])
            lost = place_of(first, self.header.chunk_bytes)
            self._save(1, lost, survey.chunk_bytes_there)
        sums = self._doubt_sums(target) if self.header.checksum else None
        self._give_up(target.outside, sums)
        self._return_to(target)
        if sums is not None:
            sums.note(sums.inherited or (target.lost is not None and target.first_lost is None))
            survey.pair.metadata.datasync()
        self.done.append(target.did)
        survey.look()
        return True

    def _doubt_sums(self, target: TargetState) -> Sums:
        """Return the checksums of the state, in doubt until the files have returned to it."""
        survey, header = self.survey, self.header
        table = read_table(survey.pair.metadata, header, target.block.end or survey.metadata_bytes)
        if table is None:
            self.done.append("the table of checksums was lost: all checksums are in doubt")
        in_doubt, extents = (True, []) if table is None else table
        sums = Sums(survey.pair.metadata, header, extents, False, survey.pair.names[0])
        sums.inherited = in_doubt
        sums.doubt()
        n = chunks_before(target.block.data_bytes, header.chunk_bytes)
        sums.forget(n if target.first_lost is None else target.first_lost)
        return sums

    def _give_up(self, runs: tuple[tuple[int, int], ...], sums: Sums | None) -> None:
        """Overwrite chunks outside of the new bounds with the fill value."""
        header, file = self.header, self.survey.pair.data
        for first, stop in runs:
            file.fill(header.fill, *(place_of(q, header.chunk_bytes) for q in (first, stop)))
            if sums is not None:
                for low in range(first, stop, SUMS_AT_ONCE):
                    sums.renew(file, np.arange(low, min(stop, low + SUMS_AT_ONCE)))
        if runs:
            file.datasync()
            self._make_raw(runs)

    def _make_raw(self, runs: Sequence[tuple[int, int]]) -> None:
        """Let the raw places of chunks count, whose elements are given up."""
        table = self.survey.pair.frozen
        if table is not None:
            for first, stop in runs:
                some = table.frozen(first, min(stop, table.reach))
                table.put(some, np.zeros(len(some), np.uint64))
            self.survey.pair.metadata.datasync()

    def _return_to(self, target: TargetState) -> None:
        """Commit a state, sealed, to both live superblocks.

        Its parts are on disk before their sources are overwritten or cut off.  A repair that fails
        halfway or is killed can therefore be repeated with the same result.
        """
        survey, header = self.survey, self.header
        block, blob = target.block, target.attrs.encode()
        file = survey.pair.metadata
        present = None if survey.present is None else survey.present.block
        clean = block is present and block.sealed and not block.unclean
        attrs_at = self._free_from()
        last = max((b.sequence for b in survey.known if b.sequence <= LAST_COMMIT), default=0)
        state = block.with_attrs(blob, attrs_at, attrs_room(len(blob)))
        state = state._replace(sequence=last + 1, sealed=False, unclean=not clean)
        file.truncate(max(survey.metadata_bytes, state.end))
        file.write(blob, attrs_at)
        file.datasync()
        first = next(n for n in (*LIVE_SLOTS, *SPARED_SLOTS) if n not in target.slots)
        if first in LIVE_SLOTS and LIVE_SLOTS[state.sequence % len(LIVE_SLOTS)] != first:
            state = state._replace(sequence=state.sequence + 1)
        self._write_state(state, first)
        for _ in LIVE_SLOTS:
            state = state._replace(sequence=state.sequence + 1)
            self._commit(state)
        # The spared superblocks may describe states that this one cannot continue from.
        spared = [header.superblock_offset(number) for number in SPARED_SLOTS]
        for at in (*spared, *survey.pending_offsets().values()):
            file.write(bytes(superblock_bytes(header.ndim)), at)
        file.datasync()
        self._fit_data(block.data_bytes, target.first_lost)
        if target.first_lost is not None:
            self._make_raw([(target.first_lost, LIMIT)])
        survey.pair.data.write(encode_seal(header.uuid), block.data_bytes)
        survey.pair.data.datasync()
        self._commit(state._replace(sequence=state.sequence + 1, sealed=True))

    def _take_back_pending(self) -> None:
        """Undo an unfinished commit of several arrays, for this array."""
        self._save_metadata()
        for at in self.survey.pending_offsets().values():
            self.survey.pair.metadata.write(bytes(superblock_bytes(self.header.ndim)), at)
        self.survey.pair.metadata.datasync()
        self.done.append(f"commit {self.survey.pending} of several arrays was rolled back")

    def _end_to_save(self, block: Superblock) -> int:
        """Return the end of the part to cut off ``.xta``, without a seal that stays."""
        sealed = self.survey.seal == "ours"
        stays = sealed and self.survey.data_bytes == block.data_bytes + SEAL_BYTES
        return block.data_bytes if stays else self.survey.data_bytes

    def _commit(self, state: Superblock) -> None:
        self._write_state(state, LIVE_SLOTS[state.sequence % len(LIVE_SLOTS)])

    def _write_state(self, state: Superblock, slot: int) -> None:
        at = self.header.superblock_offset(slot)
        self.survey.pair.metadata.write(encode_superblock(state), at)
        self.survey.pair.metadata.datasync()

    def _free_from(self) -> int:
        """Return an offset in ``.xmd`` behind everything that may still be needed."""
        header, log = self.header, self.survey.log
        assert log is not None
        size = record_bytes(header.ndim)
        return max(
            self.survey.metadata_bytes,
            *(
                at + EXTENT_HEAD_BYTES + extent_capacity(number) * size
                for number, at in enumerate(log.extents)
            ),
        )

    def _fit_data(self, length: int, first_lost: int | None) -> None:
        """Give ``.xta`` the length of the chunks; fill missing parts with the fill value."""
        header, file = self.header, self.survey.pair.data
        there = self.survey.chunk_bytes_there
        file.truncate(min(length, there))
        if there < length:
            start = there - there % len(header.fill)
            if first_lost is not None:  # a part of that chunk may be there
                start = place_of(first_lost, header.chunk_bytes)
            file.fill(header.fill, start, length)
        file.datasync()

    # -- checksums ---------------------------------------------------------------------------

    def _mend_sums(self) -> None:
        survey, header = self.survey, self.header
        assert survey.present is not None
        assert survey.present.block is not None
        state = survey.present.block
        if survey.sums is None:
            wrong = np.arange(chunks_before(state.data_bytes, header.chunk_bytes))
            refusal = (
                "the checksums of chunks are lost; computing new ones from the chunks as they are"
            )
        else:
            wrong = survey.wrong
            refusal = "chunks do not match their checksums; accepting them as they are"
        in_doubt, extents = (True, []) if survey.sums is None else survey.sums
        if wrong.size and not self.force:
            self.left.append(f"{refusal} needs force")
            return
        if not (wrong.size or survey.sums is None or (in_doubt and survey.compared)):
            return
        self._save_metadata()
        sums = Sums(survey.pair.metadata, header, extents, in_doubt, survey.pair.names[0])
        if wrong.size:
            sums.make_room(int(wrong[-1]), state, self._commit)
        for first in range(0, len(wrong), SUMS_AT_ONCE):
            renew_sums(survey.pair, sums, wrong[first : first + SUMS_AT_ONCE])
        survey.pair.data.datasync()
        survey.pair.metadata.datasync()
        sums.note(False)
        survey.pair.metadata.datasync()
        self.done.append(
            f"{len(wrong)} checksums were computed from the chunks as they are"
            if wrong.size
            else "all checksums match, and are no longer in doubt"
        )


def _new_file(name: str, mode: int) -> tuple[File, str]:
    """Create a file of that name, numbered if taken, with the permissions `mode`."""
    for number in count(1):
        full = name if number == 1 else f"{name}-{number}"
        with contextlib.suppress(FileExistsError):
            return File.open(full, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode), full
    raise AssertionError
