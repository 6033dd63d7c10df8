"""A pair of files as its writer has it: commits, and what of them is on the disk.

The order is the same everywhere: first the room, then the data, then the growth log, and last the
superblock, which makes all of it count.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from extarray._core._transfers import note_written, quiet_number, take_written
from extarray.common.errors import TruncatedError, storage_error
from extarray.format._crc import crc32c
from extarray.format.constants import (
    BEGUN_SLOT,
    FLUSHED_SLOTS,
    LIVE_SLOTS,
    SEAL_BYTES,
    SEAL_MAGIC,
    SECTOR,
)
from extarray.format.directory import BLOCK_BYTES, BlockKind, encode_entry, entry_offset
from extarray.format.fresh import Fresh, attrs_room
from extarray.format.superblock import Superblock, encode_superblock, next_superblock
from extarray.storage.checksums import SUMS_AT_ONCE, Comparison, Sums
from extarray.storage.filesystem import family, sync_folders
from extarray.storage.following import Follower
from extarray.storage.states import append_records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from extarray._core._array import ArrayCore
    from extarray._core._axial import Axial
    from extarray._core._state import Trust
    from extarray.format.header import Header
    from extarray.grid.bounds import Bounds
    from extarray.storage.pending import Held

__all__ = ["Committer"]


class Committer(Follower):
    """A pair of files, and the commits that its writer makes.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    is_durable : bool
        Changes are on the disk when a call returns.
    sums : Sums or None
        Checksums of the chunks, where a writer has to keep any.
    trust : Trust or None
        Which chunks are known to be right, where others can be verified.
    verify : {"never", "write", "read"}
        Before which operations they are verified.
    healing : lock
        Held by whoever gives damaged chunks the fill value.
    held : Held or None
        The changes that wait for a commit of several arrays.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_durable = False
        self.sums: Sums | None = None
        self.trust: Trust | None = None
        self.verify = "never"
        self.healing = threading.Lock()
        self._comparison: tuple[object, Header, Comparison] | None = None
        self.held: Held | None = None
        self._new_entry = False  # names that this store has given may not be on the disk ...
        self._found_entry = False  # ... and those that it has found
        self._has_seal = False  # in .xta, whatever the state says
        self._unsettled = False  # a cut of the bounds may not be on the disk
        self._safe_bytes = 0  # length of .xta that is on the disk, as far as this store knows
        # States that a power cut cannot take away; their attributes must stay where they are.
        self._durable: dict[int, Superblock] = {}
        self._rooms: set[tuple[int, int]] = set()  # for attributes: (offset, capacity)
        self._blocks_end = 0  # of the optional blocks: before it nothing is free

    def commit(self, bounds: Bounds, axial: Axial, data_bytes: int, cuts: bool) -> None:
        """Make new bounds count: log first, superblock last.  `cuts`: elements are cut off."""
        state = self.state
        end = self._free_from
        known = self._extents
        n_segments = axial.segments
        try:
            if self.is_durable and self.held is None:
                self._sync_data()
            self._unsettled |= cuts and self.held is None
            if n_segments > state.n_segments:
                self._extents, end = append_records(
                    self._metadata, self.header, known, axial, state.n_segments, end
                )
            self._write_superblock(
                next_superblock(
                    state,
                    self.unclean,
                    n_segments,
                    data_bytes,
                    end,
                    bounds.shape,
                    bounds.offset,
                    bounds.grid,
                )
            )
        except BaseException as error:
            if self.state is state:
                self._extents = known
            if isinstance(error, OSError):
                what = "cannot commit the new bounds of '{}'"
                raise storage_error(error, what, self.path) from error
            raise
        if self.is_durable and self.held is None:
            self._sync_commit("new bounds")

    def set_attrs(self, attrs: str) -> None:
        """Commit the attributes (a JSON text), or keep them for a commit of several arrays."""
        if self.held is not None:
            self.attrs = attrs
            return
        before = self.state
        with family("cannot write the attributes of '{}'", self.path):
            state = self._with_attrs(attrs)
            try:
                self._write_superblock(state)
            finally:
                if self.state is not before:
                    self.attrs = attrs
        if self.is_durable:
            self._sync_commit("attributes")

    def set_growth(self, growth: int) -> None:
        """Commit a growth policy."""
        with family("cannot change the growth policy of '{}'", self.path):
            self._write_superblock(
                self.state._replace(
                    sequence=self.state.sequence + 1, superseded=False, growth=growth
                )
            )
        if self.is_durable and self.held is None:
            self._sync_commit("growth policy")

    def _with_attrs(self, attrs: str) -> Superblock:
        """Write attributes to free room; return the next state, which has them."""
        state, end = self.state, self._free_from
        blob = attrs.encode()
        present = (state.attrs_offset, state.attrs_capacity)
        self._rooms |= {present, (state.spare_offset, state.spare_capacity)}
        taken = {present[0], *(block.attrs_offset for block in self._durable.values())}
        rooms = [room for room in self._rooms if room[0] not in taken and room[1] >= len(blob)]
        if rooms:
            offset, capacity = min(rooms)
        else:
            offset, capacity = end, attrs_room(len(blob))
            self._metadata.extend(offset, capacity)
            end += capacity
        self._metadata.write(blob, offset)
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
    def _free_from(self) -> int:
        """The offset from which ``.xmd`` has free space."""
        return max(self.state.end, self._blocks_end)

    def _take(self, fresh: Fresh) -> None:
        """Take over what a fresh ``.xmd`` says."""
        image, self.header, self.state, self._extents = fresh
        self._blocks_end = len(image)

    def _have_block(self, kind: BlockKind) -> int:
        """Return the offset of an optional block; make it, of zeros, where there is none."""
        blocks = self._blocks()
        if kind in blocks:
            return blocks[kind]
        at = -(-max(self._free_from, self._metadata.length) // SECTOR) * SECTOR
        self._blocks_end = at + BLOCK_BYTES[kind]
        self._metadata.extend(at, BLOCK_BYTES[kind])
        # On the disk before the directory tells of it, which takes no commit.
        self._metadata.datasync()
        entry = encode_entry(at, kind, self.header.uuid)
        self._metadata.write(entry, entry_offset(self.header, kind))
        return at

    def _write_superblock(self, state: Superblock) -> None:
        """Write the next commit, or keep it for one of several arrays."""
        if self.held is not None:
            self.state = state
            return
        offset = self.header.superblock_offset(LIVE_SLOTS[state.sequence % 2])
        data = encode_superblock(state)
        before = self.state
        try:
            self.state = state
            self._metadata.write(data, offset)
        except OSError:
            self.state = before
            raise
        except BaseException:  # an interrupt: before the write, or after it
            self._metadata.write(data, offset)
            raise

    def _write_durable(self, slot: int, state: Superblock) -> None:
        """Write a state where commits do not touch it.  The caller synchronizes."""
        state = state._replace(sealed=False, superseded=False)
        self._durable[slot] = state  # first: its attributes must stay, come what may
        self._metadata.write(encode_superblock(state), self.header.superblock_offset(slot))

    def _older(self, slots: Sequence[int]) -> int:
        """Return the slot to write next, of those that commits do not touch."""
        return min(
            slots, key=lambda slot: self._durable[slot].sequence if slot in self._durable else -1
        )

    # -- growth begins, writing ends -------------------------------------------------------------

    def begin_append(self) -> None:
        """Note in the files that a writer is at work, before it writes outside the bounds."""
        self._check_length()  # what is written would lengthen the file again
        self._begin_growth()

    def _begin_growth(self) -> None:
        """Note in the files that a writer is at work, before there is room for more."""
        if self.state.sealed or self._has_seal:
            with family("cannot grow '{}'", self.path):
                self._unseal()

    def _unseal(self) -> None:
        """Remove the uuid from the end of ``.xta``, where new chunks will stand.

        The metadata on the disk must say so first: after a power cut they would not fit.
        """
        if self.sums is not None:
            self.sums.doubt()  # after a power cut, new chunks may still have the seal
        state = self.state
        if state.sealed:
            self._has_seal = True  # until it is gone: any of this may fail half way
            state = state._replace(sequence=state.sequence + 1, sealed=False, superseded=False)
            self._write_superblock(state)
        # Not in the place of a flush, which may be the last state whose data are on the disk.
        self._write_durable(BEGUN_SLOT, state)
        self._metadata.datasync()
        if self._new_entry:
            self._sync_names()
        self._data.write(bytes(SEAL_BYTES), state.data_bytes)
        self._has_seal = False

    def _seal(self) -> None:
        """Put the uuid at the end of ``.xta``: by it, readers tell which files belong together."""
        self._check_length()
        if not self.state.sealed:
            end = self.state.data_bytes
            self._data.truncate(end)  # what a failed growth may have left
            self._data.write(SEAL_MAGIC + self.header.uuid, end)
            state = self.state
            if self.is_durable:
                self._data.datasync()
            self._write_superblock(
                state._replace(
                    sequence=state.sequence + 1,
                    sealed=True,
                    unclean=self.unclean,
                    superseded=False,
                )
            )
            if self.is_durable:
                self._metadata.datasync()

    # -- durability ------------------------------------------------------------------------------

    @property
    def durability(self) -> str:
        """The durability: "flush" or "commit"."""
        return "commit" if self.is_durable else "flush"

    def flush(self) -> None:
        """Bring data and metadata to the disk, in this order."""
        if self.mode != "r+":
            return
        with family("cannot flush '{}'", self.path):
            self._sync_data()
            self._sync_state()

    def sync_elements(self) -> None:
        """Bring the elements to the disk."""
        with family("cannot bring elements of '{}' to the disk", self.path):
            self._sync_data()

    def _check_length(self) -> None:
        """Raise if another program has cut ``.xta`` off: what is gone must not read as zeros."""
        size = self._data.length
        least = self.state.data_bytes + (SEAL_BYTES if self.state.sealed else 0)
        if size < least:
            raise TruncatedError(
                f"'{self.path}.xta' has {size} bytes, its metadata says {least}: another program "
                "has cut it off; restore it from a copy"
            )

    def _sync_data(self) -> None:
        """Bring the data to the disk."""
        self._check_length()
        self._data.datasync()
        self._safe_bytes = self.state.data_bytes

    def _sync_state(self) -> None:
        """Bring the metadata to the disk, and the names; the data are there already."""
        # To the older of two superblocks: the last flush counts until this one is done.
        state = self.state if self.held is None else self.held.before[0]
        flushed = [self._durable.get(slot) for slot in FLUSHED_SLOTS]
        is_new = all(block is None or block.sequence != state.sequence for block in flushed)
        slot = self._older(FLUSHED_SLOTS)
        try:
            if is_new:
                self._write_durable(slot, state)
            self._metadata.datasync()
        except BaseException:
            if is_new:  # the next one is written here again, and the other one stays
                self._durable[slot] = state._replace(sequence=-1)
            raise
        self._unsettled = False
        self._sync_names()

    def _sync_commit(self, what: str) -> None:
        """Bring a commit to the disk."""
        with family(f"the {what} of '{{}}' count, but may not be on the disk", self.path):
            self._sync_state()

    def _sync_names(self) -> None:
        """Bring the names of the files to the disk, where they may be new."""
        if self._new_entry or self._found_entry:
            sync_folders(self._names)
            self._new_entry = self._found_entry = False

    # -- checksums of chunks ---------------------------------------------------------------------

    def renew_sums(self, array: ArrayCore) -> int | None:
        """Write the checksums of the chunks that were written since the last time.

        Return what `Sums.settle` needs to tell whether more was written meanwhile; None where
        nobody can tell.
        """
        assert self.sums is not None
        quiet = quiet_number(array)
        n_chunks = self.state.data_bytes // self.header.chunk_bytes
        first = 0
        self._check_length()
        with family("cannot write the checksums of '{}'", self.path):
            while len(addresses := take_written(array, first, SUMS_AT_ONCE)):
                first = int(addresses[-1]) + 1
                try:
                    # A growth that failed may have written beyond.
                    known = addresses[addresses < n_chunks]
                    if known.size:
                        state = self.state._replace(end=self._free_from)
                        self.sums.make_room(int(known[-1]), state, self._write_superblock)
                        self.sums.renew(self._data, known)
                except BaseException:
                    note_written(array, addresses)
                    raise
        return quiet

    def put_sums(self, addresses: NDArray[np.int64], sums: NDArray[np.uint32]) -> None:
        """Write what `Sums.entries` returned for chunks that exist, in rising order."""
        assert self.sums is not None
        if len(addresses):
            with family("cannot write the checksums of '{}'", self.path):
                self.sums.make_room(int(addresses[-1]), self.state, self._write_superblock)
                self.sums.put(addresses, sums)

    def unfit_chunks(self, addresses: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return which chunks, given in rising order, do not fit their checksums.

        None where nobody can tell: checksums are in doubt, and were before this writer came.
        """
        with family("cannot compare chunks of '{}' with their checksums", self.path):
            try:
                return self._compared().surely_unfit(addresses)
            except OSError:
                self._check_length()
                raise

    def _compared(self) -> Comparison:
        """Return the comparison, kept because it has worked out the checksum of an empty chunk."""
        metadata, header, sums, known = self._metadata, self.header, self.sums, self._comparison
        if sums is not None and not sums.alone:  # others may have written since
            metadata, sums = sums.file, None
        key = metadata if sums is None else sums
        if known is None or known[0] is not key or known[1] is not header:
            known = key, header, Comparison(metadata, self._data, header, None, sums)
            self._comparison = known
        return known[2]

    def empty_chunk(self, address: int) -> None:
        """Give a chunk the fill value."""
        with family("cannot write to '{}'", self.path):
            size = self.header.chunk_bytes
            self._data.fill(self.header.fill, address * size, (address + 1) * size)
