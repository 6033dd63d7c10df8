"""The state that a pair of files is in, as far as reading tells; and its growth log.

The newest superblock whose state is whole counts: its records, its attributes, and the places that
it names.  Nothing here takes a lock, or writes to a file, except what adds records to the growth
log.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray._core._axial import Axial
from extarray._core._history import record_at, replay_log
from extarray.common.errors import (
    CorruptError,
    FormatError,
    MissingError,
    PartnerError,
    TruncatedError,
)
from extarray.format._crc import crc32c
from extarray.format.attrs import check_attrs
from extarray.format.constants import (
    BLOCK,
    CUTS_BYTES,
    LIVE_SLOTS,
    PENDING_SLOTS,
    SEAL_BYTES,
    SEAL_MAGIC,
    SECTOR,
    SPARED_SLOTS,
)
from extarray.format.directory import (
    DIRECTORY_BYTES,
    BlockKind,
    decode_directory,
    pending_offset,
)
from extarray.format.groups import Pending, decode_pending
from extarray.format.header import MAGIC, VERSION, Header, decode_header, header_bytes_of
from extarray.format.records import (
    EXTENT_HEAD_BYTES,
    check_records,
    decode_extent_head,
    decode_records,
    encode_extent_head,
    encode_record,
    extent_capacity,
    extent_of_record,
    record_bytes,
)
from extarray.format.superblock import (
    Superblock,
    decode_superblock,
    latest_sequence,
    superblock_bytes,
)
from extarray.format.validity import regions_fit, values_fit
from extarray.storage.filesystem import File, absolute_names, close_all, family, file_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "ATTEMPTS",
    "OPEN_FLAGS",
    "PASSED_ON",
    "Log",
    "StateReader",
    "WholeState",
    "append_records",
    "read_records",
]

# A reader that meets a commit half way reads again; a state that stays wrong is damaged.
ATTEMPTS = 100
# A pipe must not hold up whoever opens it; for files the second flag means nothing.
OPEN_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
# Set in the number of cuts of an ``.xmd`` that another has replaced, which goes on with the number.
PASSED_ON = 1 << 63

# The beginning of a header that can be read.
_MAGIC = MAGIC + VERSION[0].to_bytes(2, "little")
# Places of the two pending states, and the length of what tells their numbers.
_PENDING_PLACES = [number * BLOCK for number in range(len(PENDING_SLOTS))]
_PENDING_HEADS = _PENDING_PLACES[-1] + 16

# Bytes of records that are checked at a time.
CHECKED_BYTES = 1 << 20

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


class StateReader:
    """A pair of files, or of its metadata alone, to be read.

    Parameters
    ----------
    path : Path
        Without suffix.

    Attributes
    ----------
    header : Header
    fault : FormatError or None
        What is wrong with an array that `probe` gives.
    """

    header: Header
    fault: FormatError | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self._metadata = File()
        self._data = File()
        # The working directory may change.
        self._names = absolute_names(path)
        # Array with a decision that is missing, and what is wrong with it, if it is there.
        self._orphaned: tuple[str, FormatError | None] | None = None

    @property
    def absolute(self) -> str:
        """Absolute path of the pair of files, without suffix."""
        return self._names[0].removesuffix(".xmd")

    @property
    def folder(self) -> str:
        """The folder that paths of other arrays start from, by whichever name this one is open."""
        return os.path.dirname(os.path.realpath(self._names[0]))

    @property
    def place(self) -> str:
        """Path without suffix by which others find the pair, free of symbolic links."""
        (stem, suffix), *partner = (os.path.splitext(os.path.realpath(n)) for n in self._names)
        if suffix == ".xmd" and partner == [(stem, ".xta")]:
            return stem
        # Links to files of other names: only beside the links are they a pair.
        folder, name = os.path.split(self.absolute)
        return os.path.join(os.path.realpath(folder), name)

    def _own_name(self, what: str) -> str:
        """Return where the name of ``.xmd`` leads, links followed: it must be the file we have."""
        if not self._metadata.is_at(self._names[0]):
            raise MissingError(
                errno.ENOENT,
                f"{what.replace('{}', str(self.path), 1)}: its files have been moved or replaced "
                "since it was opened; open it again",
                self._names[0],
            )
        return os.path.realpath(self._names[0])

    # -- the files -------------------------------------------------------------------------------

    def _open_metadata(self) -> None:
        """Open ``.xmd`` alone."""
        self._metadata = File.open(self._names[0], os.O_RDONLY | OPEN_FLAGS)
        try:
            self._read_header()
        except BaseException:
            self._metadata.close()
            raise

    def _read_header(self) -> None:
        first = self._metadata.read(BLOCK, 0)
        if len(first) == BLOCK and first.startswith(_MAGIC):
            # A description of many fields makes a header of several blocks.
            wanted = min(header_bytes_of(first), self._metadata.length)
            if wanted > BLOCK:
                first = self._metadata.read(wanted, 0)
        self.header = decode_header(first)

    def _read_cuts(self) -> int:
        """Return how many times chunks have become holes."""
        return self._read_count() & ~PASSED_ON

    def _read_count(self) -> int:
        """Read the number of cuts, with the mark `PASSED_ON` if another file goes on with it."""
        data = self._metadata.read(CUTS_BYTES, self.header.cuts_offset)
        return int.from_bytes(data, "little")

    def _blocks(self) -> dict[BlockKind, int]:
        """Return the offsets of the optional blocks that exist."""
        data = self._metadata.read(DIRECTORY_BYTES, self.header.directory_offset)
        return decode_directory(data, self.header, self._metadata.length)

    def _close_files(self) -> None:
        close_all(self._metadata, self._data)

    # -- superblocks -----------------------------------------------------------------------------

    def _superblocks(self, slots: Sequence[int]) -> list[tuple[int, Superblock]]:
        """Return slots and whole superblocks, newest first; of equal ones the first slot first."""
        first = self.header.superblock_offset(min(slots))
        last = self.header.superblock_offset(max(slots))
        length = last + superblock_bytes(self.header.ndim) - first
        return self._decode_superblocks(self._metadata.read(length, first), slots)

    def _decode_superblocks(
        self, data: bytes, slots: Sequence[int]
    ) -> list[tuple[int, Superblock]]:
        size, first = superblock_bytes(self.header.ndim), self.header.superblock_offset(min(slots))
        found = []
        for slot in slots:
            at = self.header.superblock_offset(slot) - first
            block = decode_superblock(data[at : at + size], self.header.ndim)
            if block is not None:
                found.append((slot, block))
        return sorted(found, key=lambda pair: pair[1].sequence, reverse=True)

    # -- the state that counts -------------------------------------------------------------------

    def _read_state(self) -> WholeState:
        """Return the newest state that is whole, and counts."""
        self._orphaned = None
        found = self._undisputed_state()
        if found is not None:
            return found
        newest = max((block.sequence for _, block in self._superblocks(LIVE_SLOTS)), default=-1)
        known = -1
        with contextlib.suppress(CorruptError):
            found = self._whole_state(self._decided_states(newest))
            known = found.state.sequence
            if known >= newest:
                return found
        # The newest superblock is not whole: a pending state before it may be.
        return self._whole_state(self._decided_states(known))

    def _undisputed_state(self) -> WholeState | None:
        """Return the newest state that commits write, if nothing else claims to be newer."""
        # The others first, so that they are not newer while a writer is at work.
        header = self.header
        first = header.superblock_offset(SPARED_SLOTS[0])
        others = self._metadata.read(header.directory_offset + DIRECTORY_BYTES - first, first)
        newest = latest_sequence(
            others, [header.superblock_offset(slot) - first for slot in SPARED_SLOTS]
        )
        directory = others[header.directory_offset - first :]
        blocks = decode_directory(directory, header, self._metadata.length)
        if BlockKind.GROUP in blocks:
            newest = max(newest, self._newest_pending(blocks[BlockKind.GROUP]))
        for slot, state in self._superblocks(LIVE_SLOTS)[:1]:
            if newest <= state.sequence:
                with contextlib.suppress(CorruptError):
                    return self._whole(slot, state)
        return None

    def _whole_state(self, decided: list[tuple[int, Superblock]]) -> WholeState:
        """Return the newest whole state, of the superblocks and of those that groups decided."""
        # First, so that they are not newer than the live ones while a writer is at work.
        spared = decided + self._superblocks(SPARED_SLOTS)
        spared.sort(key=lambda pair: pair[1].sequence, reverse=True)
        problem: Exception = CorruptError("no superblock is whole")
        found = None
        try:
            found = self._live_state()
        except CorruptError as error:
            problem = error
        for slot, state in spared:
            if found is None or state.sequence > found.state.sequence:
                with contextlib.suppress(CorruptError):
                    return self._whole(slot, state)
        if found is None:
            raise problem
        return found

    def _live_state(self) -> WholeState:
        """Return the newest whole state of the superblocks that commits write."""
        problem: Exception = CorruptError("no superblock is whole")
        before: list[tuple[int, Superblock]] = []
        for _ in range(ATTEMPTS):
            blocks = self._superblocks(LIVE_SLOTS)
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
        log, extents = read_records(self._metadata, self.header, (), 0, state.n_segments)
        axial = replay_log(Axial, *log, state.grid)
        self._check_state(state, extents)
        return WholeState(slot, state, axial, self._read_attrs(state), extents)

    def _recovered(self) -> WholeState | None:
        """Return the newest state out of the reach of commits that is whole, as is ``.xta``."""
        spared = self._superblocks(SPARED_SLOTS)
        spared += self._decided_states(spared[0][1].sequence if spared else -1)
        for slot, state in sorted(spared, key=lambda pair: pair[1].sequence, reverse=True):
            with contextlib.suppress(CorruptError):
                if self._check_data(state) is None:
                    return self._whole(slot, state)
        return None

    def _check_state(self, state: Superblock, extents: list[int]) -> None:
        if not (values_fit(state, self.header) and regions_fit(state, self.header, extents)):
            raise CorruptError("the superblock is damaged: its values are not possible")

    def _read_attrs(self, state: Superblock) -> str:
        if state.attrs_offset + state.attrs_bytes > self._metadata.length:
            raise CorruptError("the attributes are cut off")
        blob = self._metadata.read(state.attrs_bytes, state.attrs_offset)
        if len(blob) != state.attrs_bytes or crc32c(blob) != state.attrs_crc:
            raise CorruptError("the attributes are damaged")
        return check_attrs(blob)

    def _check_data(self, state: Superblock) -> Exception | None:
        """Return what is wrong with ``.xta`` in a state, if anything."""
        metadata, name = file_names(self.path)
        size = self._data.length
        seal = SEAL_MAGIC + self.header.uuid
        start = max(0, size - SEAL_BYTES)
        end = self._data.read(SEAL_BYTES, start)
        # A loss of power tears writes between sectors: up to there our own is as it should be.
        torn = -start % SECTOR
        is_seal = len(end) == SEAL_BYTES and end.startswith(SEAL_MAGIC)
        if is_seal and end != seal and not (torn and end[:torn] == seal[:torn]):
            return PartnerError(
                f"'{name}' is not the partner of '{metadata}': it ends with the uuid of another "
                "array; put the files of one array side by side"
            )
        # Our own seal in the place of chunks is the end of an older copy.
        least = state.data_bytes + (SEAL_BYTES if state.sealed or end == seal else 0)
        if size < least:
            return TruncatedError(
                f"'{name}' has {size} bytes, its metadata says {least}: it was cut off, or belongs "
                "to another array; restore it from a copy"
            )
        if state.sealed and (end != seal or size != least):
            return PartnerError(
                f"'{name}' is not the partner of '{metadata}': it does not end with the array's "
                "uuid; put the files of one array side by side"
            )
        return None

    # -- states that another array decides about -------------------------------------------------

    def _pendings(self) -> list[tuple[int, Pending]]:
        """Return slots and pending states that are whole, newest first."""
        return self._decode_pendings(self._pending_bytes())

    def _pending_bytes(self) -> bytes:
        group = self._blocks().get(BlockKind.GROUP)
        if group is None:
            return b""
        offset = pending_offset(group, PENDING_SLOTS[0])
        return self._metadata.read(len(PENDING_SLOTS) * BLOCK, offset)

    def _newest_pending(self, group: int) -> int:
        """Return the greatest number that pending states claim to have, unchecked."""
        data = self._metadata.read(_PENDING_HEADS, pending_offset(group, PENDING_SLOTS[0]))
        return latest_sequence(data, _PENDING_PLACES)

    def _decode_pendings(self, data: bytes) -> list[tuple[int, Pending]]:
        found = []
        for number, slot in enumerate(PENDING_SLOTS):
            pending = decode_pending(data[number * BLOCK :][:BLOCK], self.header.ndim)
            if pending is not None:
                found.append((slot, pending))
        return sorted(found, key=lambda pair: pair[1].state.sequence, reverse=True)

    def _decided_states(self, known: int) -> list[tuple[int, Superblock]]:
        """Return slots and pending states that count, newer than number `known`.

        Call it before reading the live ones: a group that the coordinator has forgotten is there.
        """
        group = self._blocks().get(BlockKind.GROUP)
        if group is None or self._newest_pending(group) <= known:
            return []
        return [
            (slot, pending.state)
            for slot, pending in self._pendings()
            if pending.state.sequence > known and self._is_decided(pending)
        ]

    def _is_decided(self, pending: Pending) -> bool:
        """Tell whether the coordinator has made a pending state count."""
        place = self.coordinator_of(pending)
        with self.probe(place, pending.coordinator) as coordinator:
            group = coordinator.newest_group()
        if group is None:
            self._orphaned = place, coordinator.fault
        return group == pending.group

    def coordinator_of(self, pending: Pending) -> str:
        """Return the path, without suffix, of the array that decides about a pending state."""
        return self._place_of(pending.path)

    def _place_of(self, path: bytes) -> str:
        """Return the path of another array that the metadata name."""
        return os.path.normpath(os.path.join(self.folder, os.fsdecode(path)))

    def newest_group(self) -> bytes | None:
        """Return the group that the newest whole state has decided; None where there is none."""
        if not self._metadata.closed:
            try:
                with family("cannot read '{}'", f"{self.path}.xmd"):
                    return self._whole_state([]).state.group
            except CorruptError as error:
                self.fault = CorruptError(f"'{self.path}.xmd': {error}")
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
        probe = StateReader(Path(place))
        try:
            with (
                family(f"cannot read '{{}}', which has changed with '{self.path}'", f"{place}.xmd"),
                contextlib.suppress(FileNotFoundError, NotADirectoryError),
            ):
                try:
                    probe._open_metadata()
                except FormatError as error:
                    probe.fault = type(error)(f"'{place}.xmd': {error}")
                else:
                    if probe.header.uuid != uuid:
                        probe._close_files()
            yield probe
        finally:
            probe._close_files()

    def was_superseded(self) -> bool:
        """Tell whether the metadata are another file by now, as after `add_axis`."""
        with family("cannot read '{}'", f"{self.path}.xmd"):
            return (
                not self._metadata.closed  # or else it was probed, and is not there
                and not self._metadata.is_at(self._names[0])
                and any(block.superseded for _, block in self._superblocks(LIVE_SLOTS)[:1])
            )


# -- the growth log ------------------------------------------------------------------------------


def read_records(
    file: File, header: Header, known: Sequence[int], first: int, stop: int
) -> tuple[Log, list[int]]:
    """Read records first ... stop - 1 of the growth log, and the extents up to them.

    Parameters
    ----------
    file : File
        ``.xmd``.
    header : Header
    known : sequence of int
        Offsets of the extents that need no reading; empty: none.
    first, stop : int

    Returns
    -------
    log : tuple of ndarray
        Axes, sides and grids.
    extents : list of int

    Raises
    ------
    CorruptError
        Less of the log is whole.
    """
    uuid, size = header.uuid, record_bytes(header.ndim)
    length = file.length
    if stop < first or (stop - first) * size > length:
        raise CorruptError("the growth log is shorter than the superblock says")
    # Address space and no more, as yet: what is no log fails its checksum before much is read.
    checked = first
    try:
        data = np.empty((stop - first) * size, np.uint8)
    except MemoryError:
        raise CorruptError("the growth log is longer than memory") from None
    place, records = memoryview(data), data.reshape(-1, size)
    extents = list(known) or [header.first_extent]
    before = number = 0  # records in the extents before this one; number of this one
    while before < stop:
        if number == len(extents):
            following = decode_extent_head(file.read(EXTENT_HEAD_BYTES, extents[-1]), uuid)
            if not 0 < following < length:
                raise CorruptError("the growth log is shorter than the superblock says")
            extents.append(following)
        capacity = extent_capacity(number)
        low, high = max(first, before), min(stop, before + capacity)
        if low < high:
            offset = extents[number] + EXTENT_HEAD_BYTES + (low - before) * size
            part = place[(low - first) * size : (high - first) * size]
            if file.read_into(part, offset) < len(part):
                raise CorruptError("the growth log is cut off")
            if (high - checked) * size > CHECKED_BYTES:
                check_records(records[checked - first : high - first], uuid, checked)
                checked = high
        before += capacity
        number += 1
    check_records(records[checked - first :], uuid, checked)
    return decode_records(records), extents


def append_records(
    file: File, header: Header, known: Sequence[int], axial: Axial, first: int, end: int
) -> tuple[list[int], int]:
    """Write the records of segments first, first + 1, ...

    Parameters
    ----------
    file : File
        ``.xmd``.
    header : Header
    known : sequence of int
        Offsets of the extents.
    axial : Axial
        Axial vectors with the segments.
    first : int
    end : int
        Where free space begins.

    Returns
    -------
    extents : list of int
    end : int
        Both as they are then; they count when a superblock says so.

    Raises
    ------
    OSError
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
