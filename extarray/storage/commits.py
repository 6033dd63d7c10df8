"""The commits of a writer, and which of them are on disk.

Order of a commit: first the growth log, then the superblock, which makes all of it count.  Room and
data come before both, in the order of `array.resizing`.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import numpy as np

from extarray._core._transfers import drop_taken, quiet_number, return_taken, take_written
from extarray.common.errors import CorruptError, storage_error
from extarray.common.lazy import LazyImports, LazyModule
from extarray.common.system import MAPS_FREELY
from extarray.format._crc import crc32c
from extarray.format.blocks import (
    BLOCK_BYTES,
    DIRECTORY_BYTES,
    BlockKind,
    encode_entry,
    entry_offset,
)
from extarray.format.constants import (
    BEGUN_SLOT,
    FLUSHED_SLOTS,
    LIVE_SLOTS,
    SEAL_BYTES,
    SECTOR,
    SPARED_SLOTS,
)
from extarray.format.header import encode_seal
from extarray.format.superblock import (
    LAST_COMMIT,
    Superblock,
    encode_superblock,
    next_superblock,
    regions_fit,
)
from extarray.grid.chunking import chunks_before, place_of
from extarray.storage.filesystem import family
from extarray.storage.pair import PASSED_ON
from extarray.storage.states import append_records

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from extarray._core._array import ArrayCore
    from extarray._core._axial import Axial
    from extarray._core._supply import Trust
    from extarray.format.fresh import Fresh
    from extarray.format.header import Header
    from extarray.grid.bounds import Bounds
    from extarray.storage import checksums
    from extarray.storage.checksums import Comparison, Sums
    from extarray.storage.pair import Pair
    from extarray.storage.states import StateReader
else:
    checksums = LazyModule("extarray.storage.checksums")

__all__ = ["Committer", "SumKeeper", "renew_sums"]

_later = LazyImports({"extarray.format.fresh": "attrs_room"})


class Committer:
    """The commits that the writer of a pair of files makes.

    Attributes
    ----------
    may_be_sealed : bool
        ``.xta`` may end with a seal, whatever the state says.
    unsettled : bool
        A cut of the bounds may not be on disk.
    safe_bytes : int
        Length of ``.xta`` known to be on disk.
    durable : dict
        States by slot that survive a power cut; their attributes must stay in place.
    blocks_end : int
        End of the optional blocks; there is no free space before it.
    """

    def __init__(self, pair: Pair, states: StateReader) -> None:
        self.pair = pair
        self.states = states
        self.may_be_sealed = False
        self.unsettled = False
        self.safe_bytes = 0
        self.durable: dict[int, Superblock] = {}
        self.blocks_end = 0
        self._rooms: set[tuple[int, int]] = set()  # (offset, capacity) of rooms for attributes

    def commit(self, bounds: Bounds, axial: Axial, data_bytes: int, cuts: bool) -> None:
        """Make new bounds count: log first, superblock last.  `cuts`: they cut elements off."""
        pair = self.pair
        if cuts and pair.others is not None:
            with family("cannot commit the new bounds of '{}'", pair.path):
                pair.others.note_cut(pair.state.sequence + 1)
        state = pair.state
        end = self.free_from
        known = pair.extents
        n_segments = axial.segments
        try:
            if (pair.is_durable or pair.data.keeps_copies) and pair.held is None:
                self.sync_data()  # on other hosts, too, elements are there before the commit
            self.unsettled |= cuts and pair.held is None
            if n_segments > state.n_segments:
                pair.extents, end = append_records(
                    pair.metadata, pair.header, known, axial, state.n_segments, end
                )
            # I2: this one write makes the commit count.
            self.write_superblock(
                next_superblock(
                    state,
                    pair.unclean,
                    n_segments,
                    data_bytes,
                    end,
                    bounds.shape,
                    bounds.offset,
                    bounds.grid,
                )
            )
        except BaseException as error:
            if pair.state is state:
                pair.extents = known
            if isinstance(error, OSError):
                what = "cannot commit the new bounds of '{}'"
                raise storage_error(error, what, pair.path) from error
            raise
        if pair.is_durable and pair.held is None:
            self._sync_commit("new bounds")

    def set_attrs(self, attrs: str) -> None:
        """Commit the attributes (a JSON text), or hold them for a commit of several arrays."""
        pair = self.pair
        if pair.held is not None:
            pair.attrs = attrs
            return
        before = pair.state
        with family("cannot write the attributes of '{}'", pair.path):
            state = self.with_attrs(attrs)
            try:
                self.write_superblock(state)
            finally:
                if pair.state is not before:
                    pair.attrs = attrs
        if pair.is_durable:
            self._sync_commit("attributes")

    def set_growth(self, growth: int) -> None:
        """Commit a growth policy."""
        pair = self.pair
        with family("cannot change the growth policy of '{}'", pair.path):
            self.write_superblock(
                pair.state._replace(
                    sequence=pair.state.sequence + 1, superseded=False, growth=growth
                )
            )
        if pair.is_durable and pair.held is None:
            self._sync_commit("growth policy")

    def with_attrs(self, attrs: str) -> Superblock:
        """Write attributes to free room; return the next state, which points to them."""
        pair = self.pair
        self._look_at_durable()
        state, end = pair.state, self.free_from
        blob = attrs.encode()
        present = (state.attrs_offset, state.attrs_capacity)
        self._rooms |= {present, (state.spare_offset, state.spare_capacity)}
        taken = {present[0], *(block.attrs_offset for block in self.durable.values())}
        rooms = [room for room in self._rooms if room[0] not in taken and room[1] >= len(blob)]
        if rooms:
            offset, capacity = min(rooms)
        else:
            offset, capacity = end, _later.attrs_room(len(blob))
            pair.metadata.extend(offset, capacity)
            end += capacity
        pair.metadata.write(blob, offset)
        return state._replace(
            sequence=state.sequence + 1,
            attrs_offset=offset,
            attrs_bytes=len(blob),
            attrs_capacity=capacity,
            attrs_crc=crc32c(blob),
            spare_offset=present[0],
            spare_capacity=present[1],
            end=end,
            superseded=False,
        )

    @property
    def free_from(self) -> int:
        """The offset from which ``.xmd`` is free."""
        return max(self.pair.state.end, self.blocks_end)

    def take(self, fresh: Fresh) -> None:
        """Adopt the contents of a fresh ``.xmd``."""
        pair = self.pair
        image, pair.header, pair.state, pair.extents = fresh
        self.blocks_end = len(image)
        self._rooms = set()

    def ensure_block(self, kind: BlockKind) -> int:
        """Return the offset of an optional block; create it, zeroed, if it is missing."""
        pair = self.pair
        blocks = pair.blocks()
        if kind in blocks:
            return blocks[kind]
        at = -(-max(self.free_from, pair.metadata.length) // SECTOR) * SECTOR
        self.blocks_end = at + BLOCK_BYTES[kind]
        pair.metadata.extend(at, BLOCK_BYTES[kind])
        # The block must be on disk before the directory names it, which takes no commit.
        pair.metadata.sync_before(pair.metadata)
        entry = encode_entry(at, kind, pair.header.uuid)
        pair.metadata.write(entry, entry_offset(pair.header, kind))
        return at

    def write_superblock(self, state: Superblock) -> None:
        """Write the next commit, or hold it for a commit of several arrays."""
        pair = self.pair
        if pair.held is not None:
            pair.state = state
            return
        offset = pair.header.superblock_offset(LIVE_SLOTS[state.sequence % 2])
        data = encode_superblock(state)
        before = pair.state
        try:
            pair.state = state
            pair.metadata.write(data, offset)
        except BaseException as error:
            try:
                if isinstance(error, OSError):
                    pair.state = before
                else:  # an interrupt, before or after the write
                    pair.metadata.write(data, offset)
            finally:
                if pair.others is not None:  # they go by the file's contents
                    with contextlib.suppress(OSError):
                        found = pair.metadata.read(len(data), offset)
                        pair.state = state if found == data else before
            raise

    def write_durable(self, slot: int, state: Superblock) -> None:
        """Write a state where commits do not touch it; the caller synchronizes."""
        pair = self.pair
        state = state._replace(sealed=False, superseded=False)
        self.durable[slot] = state  # first: its attributes must stay even if the write fails
        pair.metadata.write(encode_superblock(state), pair.header.superblock_offset(slot))

    def _look_at_durable(self) -> None:
        """Note the durable states that other writers have written."""
        pair = self.pair
        if pair.others is not None:
            with family("cannot read '{}'", f"{pair.path}.xmd"):
                self.durable = dict(self.states.superblocks(SPARED_SLOTS))

    def older(self, slots: Sequence[int]) -> int:
        """Return the slot of the oldest durable state, to be overwritten next."""
        return min(
            slots, key=lambda slot: self.durable[slot].sequence if slot in self.durable else -1
        )

    # -- taking over -----------------------------------------------------------------------------

    def find_blocks(self) -> None:
        """Find the end of the optional blocks, which a state does not give."""
        pair = self.pair
        places = [(at, BLOCK_BYTES[kind]) for kind, at in pair.blocks().items()]
        if pair.frozen is not None:
            places += pair.frozen.regions
        if not regions_fit(pair.state, pair.header, pair.extents, others=places):
            # Forged: writing there would do harm.
            pair.metadata.write(bytes(DIRECTORY_BYTES), pair.header.directory_offset)
            places = []
        self.blocks_end = max((at + length for at, length in places), default=0)

    def take_over(self, resolve: Callable[[], None]) -> None:
        """Begin to write where the last writer ended, by intention or not.

        Once all durable states are known, `resolve` settles pending ones.
        """
        pair = self.pair
        numbers, live = [pair.state.sequence], []
        for slot, block in self.states.superblocks((*LIVE_SLOTS, *SPARED_SLOTS)):
            numbers.append(block.sequence)
            if slot in LIVE_SLOTS:
                live.append(block.sequence)
            else:
                self.durable[slot] = block
        # Count newer states that are not whole, too: they must never come back.
        newest = max(numbers)
        if newest > LAST_COMMIT:
            raise CorruptError(
                f"'{pair.path}.xmd' has commit {newest}, the last possible number; copy the array "
                "to a new one"
            )
        resolve()
        if live[:1] != [pair.state.sequence] or newest != pair.state.sequence:
            for sequence in (newest + 1, newest + 2):
                self.write_superblock(pair.state._replace(sequence=sequence, superseded=False))
            pair.metadata.datasync()

    # -- beginning of growth, end of writing -----------------------------------------------------

    def settle(self) -> None:
        """Bring a cut of the bounds to the disk before the elements cut off are destroyed.

        After a power cut, the state before it could be the newest; it must not lack elements.
        """
        pair = self.pair
        others = pair.others
        if others is not None:  # another writer may have made the cut
            self.unsettled = others.unsettled
            self.safe_bytes = 0  # they may have lengthened the file
        if self.unsettled:
            with family("cannot commit the new bounds of '{}'", pair.path):
                if pair.state.data_bytes > self.safe_bytes:  # else the state would not fit the file
                    self.sync_data()
                self.sync_state()
        if others is not None and others.unsettled:
            others.note_settled()

    def begin_renewal(self) -> None:
        """Prepare to write to places left by a cut or a failed append."""
        self.pair.check_length()  # as in `begin_append`; a load through a mapping would not return
        self.settle()

    def begin_cut(self) -> None:
        """Tell readers that chunks outside the bounds are about to become holes."""
        pair = self.pair
        # Without a zero fill value, readers rely on the number of cuts to notice.
        if any(pair.header.fill) and pair.held is None:
            with family("cannot release space of '{}'", pair.path):
                number = (pair.read_cuts() + 1) % PASSED_ON
                pair.write_count(number)
                pair.cuts_known = number

    def begin_append(self) -> None:
        """Note in the files that a writer is at work, before it writes outside the bounds."""
        self.pair.check_length()  # writes would lengthen a truncated file again
        self.begin_growth()

    def begin_growth(self) -> None:
        """Note in the files that a writer is at work, before making room for more."""
        pair = self.pair
        if pair.state.sealed or self.may_be_sealed:
            with family("cannot grow '{}'", pair.path):
                # Another writer may have died before or after removing the seal.
                if pair.state.sealed or pair.others is None or self._is_sealed():
                    self._unseal()
                self.may_be_sealed = False

    def _is_sealed(self) -> bool:
        pair = self.pair
        end = pair.data.read(SEAL_BYTES, pair.state.data_bytes)
        return bytes(end) == encode_seal(pair.header.uuid)

    def _unseal(self) -> None:
        """Remove the seal from the end of ``.xta``, where new chunks will stand.

        The metadata on disk must say so first: after a power cut the files would not match.
        """
        pair = self.pair
        if pair.sums is not None:
            pair.sums.doubt()  # after a power cut, new chunks may still have the seal
        state = pair.state
        if state.sealed:
            self.may_be_sealed = True  # until the seal is gone: any step may fail halfway
            state = state._replace(sequence=state.sequence + 1, sealed=False, superseded=False)
            self.write_superblock(state)
        # Keep the flushed slots: one may be the last state whose data are on disk.
        self.write_durable(BEGUN_SLOT, state)
        pair.metadata.sync_before(pair.data)
        if pair.names_given:
            pair.sync_names()
        pair.data.write(bytes(SEAL_BYTES), state.data_bytes)

    def seal(self) -> None:
        """Put the uuid at the end of ``.xta``: it tells readers which files belong together."""
        pair = self.pair
        pair.check_length()
        if pair.frozen is not None:
            pair.frozen.seal()
        if not pair.state.sealed:
            end = pair.state.data_bytes
            if not self._drop_rest(end):
                self._settle_unsealed()
                return
            pair.data.write(encode_seal(pair.header.uuid), end)
            state = pair.state
            if pair.is_durable:
                self.sync_data()
                if pair.frozen is not None:
                    pair.frozen.settle()
            self.write_superblock(
                state._replace(
                    sequence=state.sequence + 1,
                    sealed=True,
                    unclean=pair.unclean,
                    superseded=False,
                )
            )
            if pair.is_durable:
                pair.metadata.datasync()

    def _drop_rest(self, end: int) -> bool:
        """Drop bytes that a growth may have left behind the chunks, and make room for the seal.

        Return False if the file stays longer, since somebody has it mapped.
        """
        pair = self.pair
        if not MAPS_FREELY:
            if pair.data.length == end + SEAL_BYTES:
                return True
            pair.region = None  # views may still keep it
        return pair.data.cut(end)

    def _settle_unsealed(self) -> None:
        """Leave the files as a writer would who ends where it has begun.

        Everything is on the disk, so nobody has to doubt it, not even in a copy.
        """
        self.sync_data()
        self.write_durable(BEGUN_SLOT, self.pair.state)
        self.sync_state()

    # -- durability ------------------------------------------------------------------------------

    def flush(self) -> None:
        """Bring data and metadata to the disk, in this order."""
        pair = self.pair
        if pair.mode != "r+":
            return
        with family("cannot flush '{}'", pair.path):
            self.sync_data()
            self.sync_state()

    def sync_elements(self) -> None:
        """Bring the elements to the disk."""
        with family("cannot flush elements of '{}'", self.pair.path):
            self.sync_data(alone=True)
            if self.pair.elements_only and self.pair.frozen is not None:
                self.pair.metadata.datasync()  # words of chunks that this process has thawed

    def sync_data(self, alone: bool = False) -> None:
        """Bring the data to the disk, before the metadata.

        Unless `alone`, they may get there only when the metadata are synchronized, too.
        """
        pair = self.pair
        pair.check_length()
        frozen = None if pair.elements_only else pair.frozen  # the writer's log is not theirs
        snapshot = None if frozen is None else frozen.snapshot()
        if alone:
            pair.data.datasync()
        else:
            pair.data.sync_before(pair.metadata)
        if frozen is not None and snapshot is not None:
            frozen.sync(snapshot)
        self.safe_bytes = pair.state.data_bytes

    def sync_state(self) -> None:
        """Bring the metadata and names to the disk; the data are there already."""
        pair = self.pair
        self._look_at_durable()
        # Overwrite the older flushed superblock: the last flush counts until this one is done.
        state = pair.state if pair.held is None else pair.held.before[0]
        flushed = [self.durable.get(slot) for slot in FLUSHED_SLOTS]
        is_new = all(block is None or block.sequence != state.sequence for block in flushed)
        slot = self.older(FLUSHED_SLOTS)
        try:
            if is_new:
                self.write_durable(slot, state)
            if pair.frozen is not None:
                pair.frozen.settle()
            pair.metadata.datasync()
        except BaseException:
            if is_new:  # the next flush uses this slot again and keeps the other one
                self.durable[slot] = state._replace(sequence=-1)
            raise
        self.unsettled = False
        pair.sync_names()
        if pair.frozen is not None:
            pair.frozen.punch()

    def _sync_commit(self, what: str) -> None:
        with family(
            f"the {what} of '{{}}' are committed, but may not be on the disk", self.pair.path
        ):
            self.sync_state()


class SumKeeper:
    """The checksums of the chunks of a pair of files: updates and comparisons.

    Attributes
    ----------
    healing : lock
        Held by whoever gives damaged chunks the fill value.
    """

    def __init__(self, pair: Pair, commits: Committer) -> None:
        self.pair = pair
        self.healing = threading.Lock()
        self._commits = commits
        self._comparison: tuple[object, Header, Comparison] | None = None

    def renew_sums(self, array: ArrayCore) -> int | None:
        """Write the checksums of the chunks written since the last time.

        Return the number from which `Sums.settle` tells whether more was written meanwhile; None if
        nobody can tell.
        """
        pair = self.pair
        assert pair.sums is not None
        return_taken(array)  # by a call that failed
        quiet = quiet_number(array)
        n_chunks = chunks_before(pair.state.data_bytes, pair.header.chunk_bytes)
        first = 0
        pair.check_length()
        with family("cannot write the checksums of '{}'", pair.path):
            while len(addresses := take_written(array, first, checksums.SUMS_AT_ONCE)):
                first = int(addresses[-1]) + 1
                # A growth that failed may have written beyond the known chunks.
                known = addresses[addresses < n_chunks]
                if known.size:
                    state = pair.state._replace(end=self._commits.free_from)
                    pair.sums.make_room(int(known[-1]), state, self._commits.write_superblock)
                    renew_sums(pair, pair.sums, known)
                drop_taken(array, addresses)
        return quiet

    def put_sums(self, addresses: NDArray[np.int64], sums: NDArray[np.uint32]) -> None:
        """Write the result of `Sums.entries` for chunks that exist, in rising order."""
        pair = self.pair
        assert pair.sums is not None
        if len(addresses):
            with family("cannot write the checksums of '{}'", pair.path):
                pair.sums.make_room(int(addresses[-1]), pair.state, self._commits.write_superblock)
                pair.sums.put(addresses, sums)

    def unfit_chunks(
        self, addresses: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which chunks, given in rising order, mismatch their checksums.

        And those of which nobody can tell: they may have been written since, by others or before
        this writer came.
        """
        pair = self.pair
        with family("cannot compare chunks of '{}' with their checksums", pair.path):
            try:
                compared = self._compared()
                raw = self._raw(addresses)
                if pair.trust is None or not pair.trust.is_joint:
                    found = _surely(compared, raw)
                else:
                    found = _jointly(compared, pair.trust, raw)
                # A chunk may have been frozen meanwhile, and its raw place may be a hole.
                return self._raw(found[0]), self._raw(found[1])
            except OSError:
                pair.check_length()
                raise

    def _raw(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the chunks that are not frozen: blobs have checksums of their own."""
        frozen = self.pair.frozen
        return addresses if frozen is None else addresses[frozen.are_raw(addresses)]

    def _compared(self) -> Comparison:
        """Return the comparison, cached because it computes the checksum of an empty chunk."""
        pair = self.pair
        metadata, header, sums, known = pair.metadata, pair.header, pair.sums, self._comparison
        if sums is not None and not sums.alone:  # others may have written since
            metadata, sums = sums.file, None
        key = metadata if sums is None else sums
        if known is None or known[0] is not key or known[1] is not header:
            known = (
                key,
                header,
                checksums.Comparison(metadata, pair.data, header, None, sums, pair.supply),
            )
            self._comparison = known
        return known[2]

    def empty_chunk(self, address: int) -> None:
        """Give a chunk the fill value."""
        pair = self.pair
        with family("cannot write to '{}'", pair.path):
            start, stop = (place_of(q, pair.header.chunk_bytes) for q in (address, address + 1))
            pair.data.fill(pair.header.fill, start, stop)


def renew_sums(pair: Pair, sums: Sums, addresses: NDArray[np.int64]) -> None:
    """Write the sums of chunks, in rising order; those of frozen ones from their blobs."""
    is_frozen = None if pair.frozen is None else ~pair.frozen.are_raw(addresses)
    if is_frozen is None or pair.frozen is None or not is_frozen.any():
        sums.renew(pair.data, addresses)
        return
    found = np.empty(len(addresses), np.uint32)
    found[~is_frozen] = sums.entries(pair.data, addresses[~is_frozen])
    chunk = memoryview(bytearray(pair.header.chunk_bytes))
    for i in np.flatnonzero(is_frozen).tolist():
        pair.frozen.read_into(chunk, int(addresses[i]))
        found[i] = sums.entry_of(chunk)
    sums.put(addresses, found)


def _surely(
    compared: Comparison, addresses: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what `SumKeeper.unfit_chunks` does, unless other processes of the session write."""
    unfit = compared.surely_unfit(addresses)
    return (addresses[:0], addresses) if unfit is None else (unfit, addresses[:0])


def _jointly(
    compared: Comparison, trust: Trust, addresses: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what `SumKeeper.unfit_chunks` does, if other processes of the session write.

    The checksums are those of the last settling, or newer.  So a chunk that mismatches is damaged,
    unless a process of the session knows it and has written to it since.
    """
    differ = compared.differing(addresses)
    none = addresses[:0]
    if not len(differ):
        return none, none
    marked = trust.marked(differ)
    if marked is None:
        return _surely(compared, differ)
    return differ[~marked], none if trust.has_own_marks else differ[marked]
