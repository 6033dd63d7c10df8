"""The choice of the state that counts in a pair of files, by reading alone; the growth log.

The newest superblock with a whole state counts: its records, its attributes, and the places that it
names.  Nothing here takes a lock, or writes to a file, except to append records to the growth log.
"""

from __future__ import annotations

import contextlib
import errno
import math
import operator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray._core._axial import Axial
from extarray._core._history import record_at, replay_log
from extarray.common.errors import (
    CorruptError,
    FormatError,
    NotVisibleError,
    PartnerError,
    TruncatedError,
)
from extarray.common.lazy import LazyImports
from extarray.common.limits import limits
from extarray.common.system import boot_id
from extarray.common.waiting import attempts, end_of
from extarray.format._crc import crc32c
from extarray.format.attrs import check_attrs
from extarray.format.blocks import (
    DIRECTORY_BYTES,
    BlockKind,
    Place,
    pending_offset,
)
from extarray.format.constants import (
    BEGUN_SLOT,
    BLOCK,
    DIRECTORY_AT,
    LIVE_SLOTS,
    PENDING_SLOTS,
    SEAL_BYTES,
    SPARED_SLOTS,
    SUPERBLOCKS_AT,
)
from extarray.format.groups import Pending, decode_pending
from extarray.format.header import Header, decode_seal
from extarray.format.records import (
    EXTENT_HEAD_BYTES,
    decode_records,
    encode_extent_head,
    encode_record,
    extent_capacity,
    extent_of_record,
    read_log,
    record_bytes,
)
from extarray.format.suffixes import file_names
from extarray.format.superblock import (
    Superblock,
    decode_superblock,
    latest_sequence,
    regions_fit,
    superblock_bytes,
    values_fit,
)
from extarray.grid.bounds import outside
from extarray.storage.filesystem import File, family
from extarray.storage.pair import Pair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from extarray.grid.tiles import Box

__all__ = [
    "ATTEMPTS",
    "Log",
    "StateReader",
    "Unvouched",
    "WholeState",
    "append_records",
    "looks",
    "read_records",
]

_later = LazyImports({"extarray.grid.address_runs": "segment_boxes"})

# Reads before a state counts as damaged: a reader may meet a half-written commit.
ATTEMPTS = 100
# Offsets of the two pending states in their block, and the length that covers their numbers.
_PENDING_OFFSETS = [number * BLOCK for number in range(len(PENDING_SLOTS))]
_PENDING_HEADS = _PENDING_OFFSETS[-1] + 16

# Boxes of elements to show in a text.
_SHOWN_BOXES = 3
# Axes, sides and grids of records.
Log = tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]


def looks(*files: File) -> Iterator[None]:
    """Yield for each look at a state that may not be whole yet.

    On a file system of one host, a writer at work may be about to complete it.  Where hosts keep
    copies, it may also be on its way from another host, which takes seconds.
    """
    yield
    if any(file.keeps_copies for file in files):
        yield from attempts(end_of(limits.visibility_patience))
    else:
        for _ in range(ATTEMPTS - 1):
            yield


class WholeState(NamedTuple):
    """A committed state, as read.

    Attributes
    ----------
    slot : int
        Slot of its superblock.
    state : Superblock
    axial : Axial
    attrs : str
    extents : list of int
        Extents of its growth log.
    """

    slot: int
    state: Superblock
    axial: Axial
    attrs: str
    extents: list[int]


class Unvouched(NamedTuple):
    """Elements that may differ from what the writer wrote, with nothing to prove otherwise.

    Attributes
    ----------
    is_copy : bool
        The files are not the writer's; otherwise the system has restarted since.
    first_byte : int
        Offset in ``.xta`` from which on all chunks are unvouched; others may lie before it.
    boxes : list of tuple of slice
        The elements.
    newest : list of tuple of slice
        Elements that the last commit added; if it added none, those at the side that gained chunks
        last.
    """

    is_copy: bool
    first_byte: int
    boxes: list[Box]
    newest: list[Box]

    def __str__(self) -> str:
        shown = [
            f"[{', '.join(f'{s.start}:{s.stop}' for s in box)}]"
            for box in self.boxes[:_SHOWN_BOXES]
        ]
        return ", ".join(shown + ["..."] * (len(self.boxes) > _SHOWN_BOXES))


class StateReader:
    """The states of a pair of files, or of its metadata alone.

    Attributes
    ----------
    fault : FormatError or None
        Fault of an array that `probe` yields.
    """

    fault: FormatError | None = None

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        # Array whose decision is missing, and its fault, if it exists.
        self.orphaned: tuple[str, FormatError | None] | None = None

    # -- superblocks -----------------------------------------------------------------------------

    def superblocks(self, slots: Sequence[int]) -> list[tuple[int, Superblock]]:
        """Return slots and whole superblocks, newest first; ties stay in slot order."""
        header = self.pair.header
        first = min(slots)
        length = SUPERBLOCKS_AT[max(slots)] + superblock_bytes(header.ndim) - SUPERBLOCKS_AT[first]
        data = self.pair.metadata.read(length, header.superblock_offset(first))
        return self.decode_superblocks(data, slots)

    def decode_superblocks(self, data: bytes, slots: Sequence[int]) -> list[tuple[int, Superblock]]:
        """Return slots and superblocks from bytes read at the first slot, newest first."""
        ndim, first = self.pair.header.ndim, SUPERBLOCKS_AT[min(slots)]
        found = []
        for slot in slots:
            block = decode_superblock(data[SUPERBLOCKS_AT[slot] - first :], ndim)
            if block is not None:
                found.append((slot, block))
        return sorted(found, key=lambda pair: pair[1].sequence, reverse=True)

    # -- the state that counts -------------------------------------------------------------------

    def newest_state(self) -> WholeState:
        """Return the newest whole state that counts; a torn one is passed over (I2)."""
        self.orphaned = None
        found = self._undisputed_state()
        if found is not None:
            return found
        newest = max((block.sequence for _, block in self.superblocks(LIVE_SLOTS)), default=-1)
        known = -1
        with contextlib.suppress(CorruptError):
            found = self.whole_state(self.decided_states(newest))
            known = found.state.sequence
            if known >= newest:
                return found
        # The newest superblock is not whole: an older pending state may be.
        return self.whole_state(self.decided_states(known))

    def _undisputed_state(self) -> WholeState | None:
        """Return the newest live state, if nothing claims to be newer."""
        pair = self.pair
        # If a writer at work has changed the others meanwhile, they may be newer: then the caller
        # looks again.
        data = pair.metadata.read(
            DIRECTORY_AT + DIRECTORY_BYTES, pair.header.superblock_offset(LIVE_SLOTS[0])
        )
        newest = latest_sequence(data, SUPERBLOCKS_AT[len(LIVE_SLOTS) :])
        blocks = pair.decode_blocks(data[DIRECTORY_AT:])
        if BlockKind.GROUP in blocks:
            newest = max(newest, self._newest_pending(blocks[BlockKind.GROUP]))
        for slot, state in self.decode_superblocks(data, LIVE_SLOTS)[:1]:
            if newest <= state.sequence:
                with contextlib.suppress(CorruptError):
                    return self._whole(slot, state)
        return None

    def whole_state(self, decided: list[tuple[int, Superblock]]) -> WholeState:
        """Return the newest whole state, of superblocks and states decided by groups."""
        # Read the others first, so that they are not newer while a writer is at work.
        spared = decided + self.superblocks(SPARED_SLOTS)
        spared.sort(key=lambda pair: pair[1].sequence, reverse=True)
        problem: Exception = CorruptError("no superblock is intact")
        found = None
        try:
            found = self.live_state()
        except CorruptError as error:
            problem = error
        for slot, state in spared:
            if found is None or state.sequence > found.state.sequence:
                with contextlib.suppress(CorruptError):
                    return self._whole(slot, state)
        if found is None:
            raise problem
        return found

    def live_state(self) -> WholeState:
        """Return the newest whole state of the live superblocks."""
        problem: Exception = CorruptError("no superblock is intact")
        before: list[tuple[int, Superblock]] = []
        for _ in range(ATTEMPTS):
            blocks = self.superblocks(LIVE_SLOTS)
            for slot, state in blocks:
                try:
                    return self._whole(slot, state)
                except CorruptError as error:
                    problem = error
            # Either damaged, or read while a writer was at work.
            if blocks and blocks == before:
                break
            before = blocks
        raise problem

    def _whole(self, slot: int, state: Superblock) -> WholeState:
        """Return a state with all its parts; raise CorruptError if any is damaged."""
        pair = self.pair
        log, extents = read_records(pair.metadata, pair.header, (), 0, state.n_segments)
        axial = replay_log(Axial, *log, state.grid)
        self.check_state(state, extents)
        return WholeState(slot, state, axial, self.read_attrs(state), extents)

    def check_visible(self, found: WholeState) -> None:
        """Raise NotVisibleError if a superblock is newer than a state found.

        A file system of one host has such a superblock only after a power failure or damage.
        """
        newest = max(
            (state for _, state in self.superblocks((*LIVE_SLOTS, *SPARED_SLOTS))),
            key=lambda state: state.sequence,
            default=found.state,
        )
        if newest.sequence > found.state.sequence:
            raise self.not_visible(newest, found.state)

    def not_visible(self, newest: Superblock, left: Superblock | None) -> NotVisibleError:
        """Return the error for a newest state that this host does not see whole.

        `left` is the state that giving it up would lead to, if it is known.
        """
        path = self.pair.path
        instead = "the newest complete one"
        if left is not None:
            instead = f"commit {left.sequence}, of shape {left.shape}"
        return NotVisibleError(
            errno.ETIMEDOUT,
            f"commit {newest.sequence} of '{path}', of shape {newest.shape}, is not yet visible on "
            "this host; try again later, or give it up: open(..., recover=True) and "
            f"check('{path}', repair=True) go back to {instead}",
            str(path),
        )

    def recovered(self, instead: Superblock) -> WholeState | None:
        """Return the newest whole state out of the reach of commits that ``.xta`` fits.

        None if there is none, or if `instead` is sealed and ``.xta`` belongs to another array.
        """
        if instead.sealed and self.read_seal(self.pair.data.length) not in (
            None,
            self.pair.header.uuid,
        ):
            return None
        spared = self.superblocks(SPARED_SLOTS)
        spared += self.decided_states(spared[0][1].sequence if spared else -1)
        for slot, state in sorted(spared, key=lambda pair: pair[1].sequence, reverse=True):
            with contextlib.suppress(CorruptError):
                if self.check_data(state) is None:
                    return self._whole(slot, state)
        return None

    def check_state(self, state: Superblock, extents: list[int]) -> None:
        """Raise if a superblock has impossible values."""
        pair = self.pair
        if not (values_fit(state, pair.header) and regions_fit(state, pair.header, extents)):
            raise CorruptError("the superblock is damaged: its values are invalid")

    def read_attrs(self, state: Superblock) -> str:
        """Read the attributes of a state, a JSON text."""
        return self.attrs_at(state.attrs_offset, state.attrs_bytes, state.attrs_crc)

    def attrs_at(self, offset: int, length: int, crc: int) -> str:
        """Read attributes from the place that a superblock gives."""
        file = self.pair.metadata
        if offset + length > file.length:
            raise CorruptError("the attributes are truncated")
        blob = file.read(length, offset)
        if len(blob) != length or crc32c(blob) != crc:
            raise CorruptError("the attributes are damaged")
        return check_attrs(blob)

    def check_data(self, state: Superblock) -> Exception | None:
        """Return what is wrong with ``.xta`` in a state, such as a truncation (I7), if anything."""
        pair = self.pair
        size = pair.data.length
        # A seal stands behind the elements; those of an unsealed array may look like one.
        seal = None
        if state.sealed or size >= state.data_bytes + SEAL_BYTES:
            seal = self.read_seal(size)
        ours = seal == pair.header.uuid
        least = state.data_bytes + (SEAL_BYTES if state.sealed else 0)
        if size == least and ours == state.sealed:  # most arrays
            return None
        metadata, name = file_names(pair.path)
        if seal is not None and not ours:
            return PartnerError(
                f"'{name}' is not the partner of '{metadata}': it ends with the uuid of another "
                "array; put both files of one array in the same folder"
            )
        if size < least:
            return TruncatedError(
                f"'{name}' has {size} bytes, but its metadata says {least}: it was truncated, or "
                "belongs to another array; restore it from a copy"
            )
        if state.sealed and (not ours or size != least):
            return PartnerError(
                f"'{name}' is not the partner of '{metadata}': it does not end with the array's "
                "uuid; put both files of one array in the same folder"
            )
        return None

    def unvouched(self, state: Superblock, axial: Axial) -> Unvouched | None:
        """Return the elements of a state that nothing vouches for, in a pair without a writer.

        A seal vouches for all.  So does the running system after a writer was killed: it keeps all
        writes in the files themselves.  After a restart, only the data of the last flush are safe.
        A copy is safe only up to the state in which the writer began, since its ``.xta`` may be
        older than its ``.xmd``, whatever was flushed in between.
        """
        pair = self.pair
        if state.sealed or not math.prod(state.shape):
            return None
        told, here = pair.told_place(), Place(boot_id(), *pair.data.identity())
        if told == here and any(here.boot):
            return None
        is_copy = told is None or told[2:] != here[2:] or told.boot == here.boot
        vouched = self._before(state.sequence + 1, (BEGUN_SLOT,) if is_copy else SPARED_SLOTS)
        boxes = self._added(state, axial, vouched)
        if not boxes:
            return None
        last = self._before(state.sequence, LIVE_SLOTS)
        newest = [] if last is None else self._added(state, axial, last)
        first_byte = 0 if vouched is None else min(vouched.state.data_bytes, state.data_bytes)
        return Unvouched(is_copy, first_byte, boxes, newest or [_outermost(state, axial)])

    def _before(self, sequence: int, slots: Sequence[int]) -> WholeState | None:
        """Return the newest whole state of some slots whose number is below `sequence`."""
        for slot, before in self.superblocks(slots):
            if before.sequence < sequence:
                with contextlib.suppress(CorruptError):
                    return self._whole(slot, before)
        return None

    def _added(self, state: Superblock, axial: Axial, before: WholeState | None) -> list[Box]:
        """Return the elements that a state has and an earlier one lacks; all without one."""
        header = self.pair.header
        low = inner = end = _low(axial, state, header)
        high = tuple(map(operator.add, low, state.shape))
        if before is not None:
            inner = _low(before.axial, before.state, header)
            end = tuple(map(operator.add, inner, before.state.shape))
        return [
            tuple(slice(i - n, j - n) for i, j, n in zip(a, z, low, strict=True))
            for a, z in outside(low, high, inner, end)
        ]

    def read_seal(self, size: int) -> bytes | None:
        """Return the uuid in the seal at the end of ``.xta``, which has that size, or None."""
        pair = self.pair
        start = max(0, size - SEAL_BYTES)
        return decode_seal(pair.data.read(SEAL_BYTES, start), start, pair.header.uuid)

    # -- states that another array decides -------------------------------------------------------

    def pendings(self) -> list[tuple[int, Pending]]:
        """Return slots and whole pending states, newest first."""
        return self.decode_pendings(self.pending_bytes())

    def pending_bytes(self) -> bytes:
        """Read the pending states; b"" without their block."""
        group = self.pair.blocks().get(BlockKind.GROUP)
        return b"" if group is None else self.pending_bytes_in(group)

    def pending_bytes_in(self, group: int) -> bytes:
        """Read the pending states of the block at an offset."""
        offset = pending_offset(group, PENDING_SLOTS[0])
        return self.pair.metadata.read(len(PENDING_SLOTS) * BLOCK, offset)

    def _newest_pending(self, group: int) -> int:
        """Return the greatest number that pending states claim, unchecked."""
        data = self.pair.metadata.read(_PENDING_HEADS, pending_offset(group, PENDING_SLOTS[0]))
        return latest_sequence(data, _PENDING_OFFSETS)

    def decode_pendings(self, data: bytes) -> list[tuple[int, Pending]]:
        """Return slots and pending states from bytes of their block, newest first."""
        found = []
        for number, slot in enumerate(PENDING_SLOTS):
            pending = decode_pending(data[number * BLOCK :][:BLOCK], self.pair.header.ndim)
            if pending is not None:
                found.append((slot, pending))
        return sorted(found, key=lambda pair: pair[1].state.sequence, reverse=True)

    def decided_states(self, known: int) -> list[tuple[int, Superblock]]:
        """Return slots and pending states that count, if newer than number `known`.

        Call this before reading the live states: a group that the coordinator has forgotten is live
        by then.
        """
        group = self.pair.blocks().get(BlockKind.GROUP)
        if group is None or self._newest_pending(group) <= known:
            return []
        return [
            (slot, pending.state)
            for slot, pending in self.pendings()
            if pending.state.sequence > known and self._is_decided(pending)
        ]

    def _is_decided(self, pending: Pending) -> bool:
        """Tell whether the coordinator has made a pending state count."""
        place = self.coordinator_of(pending)
        with self.probe(place, pending.coordinator) as coordinator:
            group = coordinator.newest_group()
        if group is None:
            self.orphaned = place, coordinator.fault
        return group == pending.group

    def coordinator_of(self, pending: Pending) -> str:
        """Return the path, without suffix, of the array that decides a pending state."""
        return self.pair.path_of(pending.path)

    def newest_group(self) -> bytes | None:
        """Return the group that the newest whole state has decided, or None if none is whole."""
        pair = self.pair
        if not pair.metadata.closed:
            try:
                with family("cannot read '{}'", f"{pair.path}.xmd"):
                    return self.whole_state([]).state.group
            except CorruptError as error:
                self.fault = CorruptError(f"'{pair.path}.xmd': {error}")
        return None

    @contextlib.contextmanager
    def probe(self, place: str, uuid: bytes) -> Iterator[StateReader]:
        """Open another array's metadata; the reader has no open file if it does not exist.

        It has none for a damaged header either, but then `fault` is set.

        Raises
        ------
        StorageError
            The array may exist, but cannot be read.
        """
        probe = StateReader(Pair(Path(place)))
        try:
            with (
                family(
                    f"cannot read '{{}}', which has changed with '{self.pair.path}'", f"{place}.xmd"
                ),
                contextlib.suppress(FileNotFoundError, NotADirectoryError),
            ):
                try:
                    probe.pair.open_metadata()
                except FormatError as error:
                    probe.fault = type(error)(f"'{place}.xmd': {error}")
                else:
                    if probe.pair.header.uuid != uuid:
                        probe.pair.close()
            yield probe
        finally:
            probe.pair.close()

    def was_superseded(self) -> bool:
        """Tell whether another ``.xmd`` has replaced the metadata, as after `add_axis`."""
        pair = self.pair
        with family("cannot read '{}'", f"{pair.path}.xmd"):
            return (
                not pair.metadata.closed  # closed: a probed array that does not exist
                and not pair.has_name
                and any(block.superseded for _, block in self.superblocks(LIVE_SLOTS)[:1])
            )


def _outermost(state: Superblock, axial: Axial) -> Box:
    """Return the elements at the side where the grid has grown last."""
    *_, (axis, side, _, _) = _later.segment_boxes(axial)
    edge = slice(0, 1) if side else slice(state.shape[axis] - 1, state.shape[axis])
    return tuple(edge if j == axis else slice(0, n) for j, n in enumerate(state.shape))


def _low(axial: Axial, state: Superblock, header: Header) -> tuple[int, ...]:
    """Return the start of the bounds, in elements from the start of the initial grid."""
    _, _, first, _ = next(_later.segment_boxes(axial))
    return tuple(b - n * c for n, c, b in zip(first, header.chunks, state.offset, strict=True))


# -- the growth log ------------------------------------------------------------------------------


def read_records(
    file: File, header: Header, known: Sequence[int], first: int, stop: int
) -> tuple[Log, list[int]]:
    """Read records first ... stop - 1 of the growth log, and the extents up to them.

    The `known` extents need no reading.  Raise CorruptError if less of the log is whole.
    """
    size, length = record_bytes(header.ndim), file.length
    if stop < first or (stop - first) * size > length:
        raise CorruptError("the growth log is shorter than the superblock says")
    # This reserves only address space: a forged length fails its checksum before much is read.
    try:
        data = np.empty(EXTENT_HEAD_BYTES + (stop - first) * size, np.uint8)
    except MemoryError:
        raise CorruptError("the growth log is larger than memory") from None
    known = known or [header.first_extent]
    with file as fd:
        extents = read_log(fd, file.start, length, header.uuid, known, data, size, first)
    return decode_records(data[EXTENT_HEAD_BYTES:].reshape(-1, size)), extents


def append_records(
    file: File, header: Header, known: Sequence[int], axial: Axial, first: int, end: int
) -> tuple[list[int], int]:
    """Write the records of segments from `first` on; return the extents and the end of the last.

    Write only new records, however long the history is (I3).  Free space begins at `end`.  The
    records count only once a superblock says so.
    """
    extents = list(known)
    uuid, size = header.uuid, record_bytes(header.ndim)
    for segment in range(first, axial.segments):
        number = extent_of_record(segment)
        if number == len(extents):
            room = EXTENT_HEAD_BYTES + extent_capacity(number) * size
            file.extend(end, room)
            file.write(encode_extent_head(0, uuid), end)
            file.write(encode_extent_head(end, uuid), extents[-1])
            extents.append(end)
            end += room
        place = segment - extent_capacity(0) * (2**number - 1)
        offset = extents[number] + EXTENT_HEAD_BYTES + place * size
        file.write(encode_record(*record_at(axial, segment), uuid), offset)
    return extents, end
