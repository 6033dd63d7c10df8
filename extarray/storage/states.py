"""The state that a pair of files is in, as far as reading tells; and its growth log.

The newest superblock whose state is whole counts: its records, its attributes, and the places that
it names.  Nothing here takes a lock, or writes to a file, except what adds records to the growth
log.
"""

from __future__ import annotations

import contextlib
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
    PartnerError,
    TruncatedError,
)
from extarray.common.system import boot_id
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
    LIVE_SLOTS,
    PENDING_SLOTS,
    SEAL_BYTES,
    SPARED_SLOTS,
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
from extarray.format.superblock import (
    Superblock,
    decode_superblock,
    latest_sequence,
    regions_fit,
    superblock_bytes,
    values_fit,
)
from extarray.grid.address_runs import segment_boxes
from extarray.grid.bounds import outside
from extarray.storage.filesystem import File, family, file_names
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
    "read_records",
]

# A reader that meets a commit half way reads again; a state that stays wrong is damaged.
ATTEMPTS = 100
# Places of the two pending states, and the length of what tells their numbers.
_PENDING_OFFSETS = [number * BLOCK for number in range(len(PENDING_SLOTS))]
_PENDING_HEADS = _PENDING_OFFSETS[-1] + 16

# Boxes of elements that a text has.
_SHOWN_BOXES = 3
# Axes, sides and grids of records.
Log = tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]


class WholeState(NamedTuple):
    """A committed state, as read.

    Attributes
    ----------
    slot : int
        Of its superblock.
    state : Superblock
    axial : Axial
    attrs : str
    extents : list of int
        Of its growth log.
    """

    slot: int
    state: Superblock
    axial: Axial
    attrs: str
    extents: list[int]


class Unvouched(NamedTuple):
    """Elements that nothing tells to be those that the writer wrote.

    Attributes
    ----------
    is_copy : bool
        The files are others than the writer's; or else the system has been started anew since.
    first_byte : int
        Of ``.xta``, from which on all chunks are such; there may be others before it.
    boxes : list of tuple of slice
        The elements.
    newest : list of tuple of slice
        Those that the last commit has added; where it has added none, those at the side that has
        gained chunks last.
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
    """The states that a pair of files, or its metadata alone, has.

    Attributes
    ----------
    fault : FormatError or None
        What is wrong with an array that `probe` gives.
    """

    fault: FormatError | None = None

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        # Array with a decision that is missing, and what is wrong with it, if it is there.
        self.orphaned: tuple[str, FormatError | None] | None = None

    # -- superblocks -----------------------------------------------------------------------------

    def superblocks(self, slots: Sequence[int]) -> list[tuple[int, Superblock]]:
        """Return slots and whole superblocks, newest first; of equal ones the first slot first."""
        pair = self.pair
        first = pair.header.superblock_offset(min(slots))
        last = pair.header.superblock_offset(max(slots))
        length = last + superblock_bytes(pair.header.ndim) - first
        return self.decode_superblocks(pair.metadata.read(length, first), slots)

    def decode_superblocks(self, data: bytes, slots: Sequence[int]) -> list[tuple[int, Superblock]]:
        """Return the slots and superblocks of bytes read from the first slot on, newest first."""
        pair = self.pair
        size, first = superblock_bytes(pair.header.ndim), pair.header.superblock_offset(min(slots))
        found = []
        for slot in slots:
            at = pair.header.superblock_offset(slot) - first
            block = decode_superblock(data[at : at + size], pair.header.ndim)
            if block is not None:
                found.append((slot, block))
        return sorted(found, key=lambda pair: pair[1].sequence, reverse=True)

    # -- the state that counts -------------------------------------------------------------------

    def newest_state(self) -> WholeState:
        """Return the newest state that is whole, and counts: a torn one is passed over (I2)."""
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
        # The newest superblock is not whole: a pending state before it may be.
        return self.whole_state(self.decided_states(known))

    def _undisputed_state(self) -> WholeState | None:
        """Return the newest state that commits write, if nothing else claims to be newer."""
        pair = self.pair
        # The others first, so that they are not newer while a writer is at work.
        header = pair.header
        first = header.superblock_offset(SPARED_SLOTS[0])
        others = pair.metadata.read(header.directory_offset + DIRECTORY_BYTES - first, first)
        newest = latest_sequence(
            others, [header.superblock_offset(slot) - first for slot in SPARED_SLOTS]
        )
        blocks = pair.decode_blocks(others[header.directory_offset - first :])
        if BlockKind.GROUP in blocks:
            newest = max(newest, self._newest_pending(blocks[BlockKind.GROUP]))
        for slot, state in self.superblocks(LIVE_SLOTS)[:1]:
            if newest <= state.sequence:
                with contextlib.suppress(CorruptError):
                    return self._whole(slot, state)
        return None

    def whole_state(self, decided: list[tuple[int, Superblock]]) -> WholeState:
        """Return the newest whole state, of the superblocks and of those that groups decided."""
        # First, so that they are not newer than the live ones while a writer is at work.
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
        """Return the newest whole state of the superblocks that commits write."""
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
        """Return a state with all that belongs to it; raise CorruptError if any is damaged."""
        pair = self.pair
        log, extents = read_records(pair.metadata, pair.header, (), 0, state.n_segments)
        axial = replay_log(Axial, *log, state.grid)
        self.check_state(state, extents)
        return WholeState(slot, state, axial, self.read_attrs(state), extents)

    def recovered(self, instead: Superblock) -> WholeState | None:
        """Return the newest state out of the reach of commits that is whole, as is ``.xta``.

        None if there is none, or if ``.xta`` is that of another array, though `instead` is sealed.
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
        """Raise if a superblock's values are not possible."""
        pair = self.pair
        if not (values_fit(state, pair.header) and regions_fit(state, pair.header, extents)):
            raise CorruptError("the superblock is damaged: its values are invalid")

    def read_attrs(self, state: Superblock) -> str:
        """Read the attributes of a state, a JSON text."""
        return self.attrs_at(state.attrs_offset, state.attrs_bytes, state.attrs_crc)

    def attrs_at(self, offset: int, length: int, crc: int) -> str:
        """Read attributes from where a superblock says that they are."""
        file = self.pair.metadata
        if offset + length > file.length:
            raise CorruptError("the attributes are truncated")
        blob = file.read(length, offset)
        if len(blob) != length or crc32c(blob) != crc:
            raise CorruptError("the attributes are damaged")
        return check_attrs(blob)

    def check_data(self, state: Superblock) -> Exception | None:
        """Return what is wrong with ``.xta`` in a state, if anything: too short, say (I7)."""
        pair = self.pair
        metadata, name = file_names(pair.path)
        size = pair.data.length
        # Elements of an array that is not sealed may look like a seal: it stands behind them.
        seal = None
        if state.sealed or size >= state.data_bytes + SEAL_BYTES:
            seal = self.read_seal(size)
        ours = seal == pair.header.uuid
        if seal is not None and not ours:
            return PartnerError(
                f"'{name}' is not the partner of '{metadata}': it ends with the uuid of another "
                "array; put both files of one array in the same folder"
            )
        least = state.data_bytes + (SEAL_BYTES if state.sealed else 0)
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
        """Return which elements of a state nothing vouches for, of a pair without a writer.

        The seal does, and so does the system where the writer was killed, as it keeps what was
        written: as long as it runs, and in the files themselves.  After its end, what was on the
        disk at the last flush is there.  In a copy there is no more for certain than when the
        writer began: of ``.xta`` it may be older than of ``.xmd``, whatever was flushed between.
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
        """Return the newest whole state of some slots with a number below another one."""
        for slot, before in self.superblocks(slots):
            if before.sequence < sequence:
                with contextlib.suppress(CorruptError):
                    return self._whole(slot, before)
        return None

    def _added(self, state: Superblock, axial: Axial, before: WholeState | None) -> list[Box]:
        """Return the elements of a state that one before it has not; None: all of them."""
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
        """Return the uuid in the seal that ``.xta``, of that size, ends with; None if in none."""
        pair = self.pair
        start = max(0, size - SEAL_BYTES)
        return decode_seal(pair.data.read(SEAL_BYTES, start), start, pair.header.uuid)

    # -- states that another array decides about -------------------------------------------------

    def pendings(self) -> list[tuple[int, Pending]]:
        """Return slots and pending states that are whole, newest first."""
        return self.decode_pendings(self.pending_bytes())

    def pending_bytes(self) -> bytes:
        """Read the block of pending states; empty where there is none."""
        group = self.pair.blocks().get(BlockKind.GROUP)
        return b"" if group is None else self.pending_bytes_in(group)

    def pending_bytes_in(self, group: int) -> bytes:
        """Read the pending states of the block at an offset."""
        offset = pending_offset(group, PENDING_SLOTS[0])
        return self.pair.metadata.read(len(PENDING_SLOTS) * BLOCK, offset)

    def _newest_pending(self, group: int) -> int:
        """Return the greatest number that pending states claim to have, unchecked."""
        data = self.pair.metadata.read(_PENDING_HEADS, pending_offset(group, PENDING_SLOTS[0]))
        return latest_sequence(data, _PENDING_OFFSETS)

    def decode_pendings(self, data: bytes) -> list[tuple[int, Pending]]:
        """Return the slots and pending states of such a block, newest first."""
        found = []
        for number, slot in enumerate(PENDING_SLOTS):
            pending = decode_pending(data[number * BLOCK :][:BLOCK], self.pair.header.ndim)
            if pending is not None:
                found.append((slot, pending))
        return sorted(found, key=lambda pair: pair[1].state.sequence, reverse=True)

    def decided_states(self, known: int) -> list[tuple[int, Superblock]]:
        """Return slots and pending states that count, newer than number `known`.

        Call it before reading the live ones: a group that the coordinator has forgotten is there.
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
        """Return the path, without suffix, of the array that decides about a pending state."""
        return self.pair.path_of(pending.path)

    def newest_group(self) -> bytes | None:
        """Return the group that the newest whole state has decided; None where there is none."""
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
        """Open another array, to look at its metadata; without a file where it is not there.

        Nor does it have a file where its header is damaged: `fault` tells the two cases apart.

        Raises
        ------
        StorageError
            It may be there, and cannot be read.
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
        """Tell whether the metadata are another file by now, as after `add_axis`."""
        pair = self.pair
        with family("cannot read '{}'", f"{pair.path}.xmd"):
            return (
                not pair.metadata.closed  # or else it was probed, and is not there
                and not pair.has_name
                and any(block.superseded for _, block in self.superblocks(LIVE_SLOTS)[:1])
            )


def _outermost(state: Superblock, axial: Axial) -> Box:
    """Return the elements at the side of the bounds where the grid has grown last."""
    *_, (axis, side, _, _) = segment_boxes(axial)
    edge = slice(0, 1) if side else slice(state.shape[axis] - 1, state.shape[axis])
    return tuple(edge if j == axis else slice(0, n) for j, n in enumerate(state.shape))


def _low(axial: Axial, state: Superblock, header: Header) -> tuple[int, ...]:
    """Return where bounds begin, in elements from the start of the initial grid."""
    _, _, first, _ = next(segment_boxes(axial))
    return tuple(b - n * c for n, c, b in zip(first, header.chunks, state.offset, strict=True))


# -- the growth log ------------------------------------------------------------------------------


def read_records(
    file: File, header: Header, known: Sequence[int], first: int, stop: int
) -> tuple[Log, list[int]]:
    """Read records first ... stop - 1 of the growth log, and the extents up to them.

    Of the `known` extents none needs reading.  Raise CorruptError where less of the log is whole.
    """
    size, length = record_bytes(header.ndim), file.length
    if stop < first or (stop - first) * size > length:
        raise CorruptError("the growth log is shorter than the superblock says")
    # Address space and no more, as yet: what is no log fails its checksum before much is read.
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
    """Write the records of segments first, first + 1, ...; return the extents, and where they end.

    Only new records are written, however long the history is (I3).  Free space begins at `end`.
    Nothing of this counts before a superblock says so.
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
