"""Chunks in blobs of a local file: their table, their bytes, and a provider of them.

The array reads a *shadow*, sparse memory in which each chunk has the place that its address gives.
`ShadowProvider` fills it chunk by chunk, so that everything that reads arrays reads these, too.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import numpy as np

from extarray.common.errors import ChecksumError, CorruptError
from extarray.common.limits import limits
from extarray.format._crc import crc32c
from extarray.format.blobs import (
    FILE_HEAD_BYTES,
    BlobPlaces,
    BlobsBlock,
    check_file_head,
    decode_blob,
    decode_blobs_block,
    decode_entries,
    entry_places,
    table_bytes,
)
from extarray.format.blocks import DIRECTORY_BYTES, BlockKind, decode_directory
from extarray.format.constants import SECTOR
from extarray.format.header import encode_seal
from extarray.grid.chunking import elements_of_chunk, place_of
from extarray.storage.filesystem import File

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray.format.header import Header
    from extarray.format.superblock import Superblock

__all__ = ["Blobs", "ShadowProvider", "make_shadow"]

# Bytes of neighbouring blobs to read at once, gaps included, and the largest such gap.
_AT_ONCE = 1 << 22
_GAP = 1 << 16


class Blobs:
    """The blobs of an array in a packed file.

    Parameters
    ----------
    metadata, file : File
        ``.xmd`` and ``.xtz``.
    header : Header
    state : Superblock
    axial : Axial
    path : str
        For messages.
    verify : bool
        Compare blobs with their checksums.

    Attributes
    ----------
    block : BlobsBlock

    Raises
    ------
    CorruptError
        The metadata, the head of ``.xtz`` or its table are damaged.
    """

    def __init__(
        self,
        metadata: File,
        file: File,
        header: Header,
        state: Superblock,
        axial: Axial,
        path: str,
        verify: bool,
    ) -> None:
        self.file, self.header, self.path, self.verify = file, header, path, verify
        self._state, self._axial = state, axial
        directory = metadata.read(DIRECTORY_BYTES, header.directory_offset)
        at = decode_directory(directory, header, metadata.length).get(BlockKind.BLOBS)
        if at is None:
            raise CorruptError("the place of the block for chunks in blobs is damaged")
        data = metadata.read(SECTOR, at)
        self.block: BlobsBlock = decode_blobs_block(data, header.uuid, axial.size, file.length)
        check_file_head(file.read(FILE_HEAD_BYTES, 0), self.block, header.uuid)
        self._table: NDArray[np.uint64] | None = None
        if table_bytes(axial.size) <= limits.table_bytes:
            self._load()

    @property
    def n_chunks(self) -> int:
        """Number of chunks of the array."""
        return self._axial.size

    def _words(self, addresses: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the entries of chunks, in rising order, from the table."""
        if self._table is not None:
            return self._table[addresses]
        found = np.empty(len(addresses), "<u8")
        offsets = entry_places(self.block, addresses)
        word = found.itemsize
        for first, stop in _runs(offsets, np.full(len(offsets), word)):
            low = int(offsets[first])
            length = int(offsets[stop - 1]) + word - low
            data = self.file.read(length, low)
            if len(data) < length:
                raise CorruptError("the table of blobs is truncated")
            some = np.frombuffer(data, "<u8")
            found[first:stop] = some[(offsets[first:stop] - low) // word]
        return found

    def all_chunks(self) -> Iterator[tuple[int, memoryview | None]]:
        """Yield address and bytes of all chunks, like `chunks`, once the whole table is right."""
        if self._table is None:
            self._load()
        return self.chunks(np.arange(self.n_chunks))

    def _load(self) -> None:
        """Read the whole table, and compare it with its checksum."""
        self._table = self._words(np.arange(self.n_chunks))
        if crc32c(self._table.view(np.uint8)) != self.block.crc:
            raise CorruptError("the table of blobs is damaged: its checksum does not match")

    def places(self, addresses: NDArray[np.int64]) -> BlobPlaces:
        """Return where the blobs of chunks are, whose addresses rise."""
        try:
            words = self._words(addresses)
            return decode_entries(words, addresses, self.block, self.header.chunk_bytes)
        except ChecksumError as error:
            raise self._told(error) from None

    def chunks(self, addresses: NDArray[np.int64]) -> Iterator[tuple[int, memoryview | None]]:
        """Yield address and bytes of chunks, in the order of the file, neighbours read at once.

        None stands for a chunk of the fill value; those come first.  The bytes last until the next
        item.
        """
        places = self.places(addresses)
        order = np.argsort(places.offsets, kind="stable")
        offsets, sizes = places.offsets[order], places.sizes[order]
        wanted = addresses[order].tolist()
        n_fill = int(np.searchsorted(offsets, 1))
        yield from ((address, None) for address in wanted[:n_fill])
        offsets, sizes, wanted = offsets[n_fill:], sizes[n_fill:], wanted[n_fill:]
        for first, stop in _runs(offsets, sizes):
            low = int(offsets[first])
            data = memoryview(self.file.read(int((offsets + sizes)[first:stop].max()) - low, low))
            for i in range(first, stop):
                at = int(offsets[i]) - low
                yield wanted[i], self._decoded(data[at : at + int(sizes[i])], wanted[i])

    def damaged(self) -> Iterator[ChecksumError]:
        """Read all blobs, and yield an error for each chunk that is damaged."""
        step = max(1, _AT_ONCE // self.header.chunk_bytes)
        for first in range(0, self.n_chunks, step):
            some = np.arange(first, min(self.n_chunks, first + step))
            try:
                for _ in self.chunks(some):
                    pass
            except ChecksumError:
                for address in some:
                    try:
                        list(self.chunks(some[address - first :][:1]))
                    except ChecksumError as error:
                        yield error

    def _decoded(self, blob: memoryview, address: int) -> memoryview:
        try:
            return decode_blob(blob, address, self.block, self.header.chunk_bytes, self.verify)
        except ChecksumError as error:
            raise self._told(error) from None

    def _told(self, error: ChecksumError) -> ChecksumError:
        """Return an error about a chunk that tells which elements are lost."""
        state, index = self._state, self._axial.index(error.chunk)
        box = elements_of_chunk(index, self.header.chunks, state.offset, state.shape)
        text = ", ".join(f"{s.start}:{s.stop}" for s in box)
        what = f"its elements are [{text}]"
        if any(s.start == s.stop for s in box):
            what = "it has no elements within the bounds"
        told = ChecksumError(f"{error} in '{self.path}'; {what}; restore the file from a copy")
        told.filename, told.chunk, told.box = self.path, error.chunk, box
        return told


def _runs(offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield runs (first, stop) of rising offsets that are near each other, to read at once."""
    if not len(offsets):
        return
    ends = np.maximum.accumulate(offsets + sizes)
    first = 0
    for i, gap in enumerate((offsets[1:] - ends[:-1]).tolist(), 1):
        if gap > _GAP or int(ends[i]) - int(offsets[first]) > _AT_ONCE:
            yield first, i
            first = i
    yield first, len(offsets)


def make_shadow(length: int, uuid: bytes) -> File:
    """Return memory, as a file, for bytes of chunks and a seal: a hole but for the seal."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("extarray")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    shadow = File(fd, "chunks from blobs")
    seal = encode_seal(uuid)
    shadow.truncate(length + len(seal))
    shadow.write(seal, length)
    return shadow


class ShadowProvider:
    """Brings chunks from blobs into a shadow; see `Provider`.

    Parameters
    ----------
    blobs : Blobs
    shadow : File
        As `make_shadow` returns it.
    """

    def __init__(self, blobs: Blobs, shadow: File) -> None:
        self._blobs, self._shadow = blobs, shadow
        self._size = blobs.header.chunk_bytes
        fill = blobs.header.fill
        # Holes hold zeros, and so do chunks of a fill value of zero.
        self._fill = fill * (self._size // len(fill)) if any(fill) else None

    def provide(self, addresses: NDArray[np.int64]) -> None:
        """Write chunks to their places in the shadow."""
        for address, chunk in self._blobs.chunks(addresses):
            data = self._fill if chunk is None else chunk
            if data is not None:
                self._shadow.write(data, place_of(address, self._size))

    def ahead(self, addresses: NDArray[np.int64]) -> None:
        """Do nothing: the system reads ahead in a local file."""

    def evict(self, addresses: NDArray[np.int64]) -> None:
        """Give back the memory of chunks."""
        for run in np.split(addresses, np.flatnonzero(np.diff(addresses) > 1) + 1):
            start, stop = (int(place_of(q, self._size)) for q in (run[0], run[-1] + 1))
            self._shadow.punch(start, stop - start)
