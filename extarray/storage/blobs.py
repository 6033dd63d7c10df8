"""Chunks in blobs of a local file: their table, their bytes, and a provider of them.

The array reads a *shadow*, sparse memory in which each chunk has the place that its address gives.
`ShadowProvider` fills it chunk by chunk, so that everything that reads arrays reads these, too.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import numpy as np

from extarray.codecs.codec import CodecId
from extarray.common.config import config
from extarray.common.errors import ChecksumError, CorruptError
from extarray.common.limits import limits
from extarray.common.system import open_memory
from extarray.common.threads import run_together
from extarray.format._crc import crc32c
from extarray.format.blobs import (
    BLOB_HEAD_BYTES,
    FILE_HEAD_BYTES,
    BlobPlaces,
    BlobsBlock,
    Stored,
    check_file_head,
    decode_blob,
    decode_blobs_block,
    decode_entries,
    decode_stored,
    entry_places,
    payload_of,
    read_of_blob,
    table_bytes,
)
from extarray.format.blocks import DIRECTORY_BYTES, BlockKind, decode_directory
from extarray.format.constants import SECTOR
from extarray.format.header import encode_seal
from extarray.format.suffixes import BLOBS
from extarray.grid.chunking import elements_of_chunk, place_of
from extarray.storage.filesystem import File

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray.codecs.payloads import Encoded
    from extarray.format.header import Header
    from extarray.format.superblock import Superblock

    # Returns the bytes of ranges (start, stop).
    Read = Callable[[list[tuple[int, int]]], Sequence[bytes]]
    # Takes the address and the bytes of a chunk; None stands for the fill value.
    Take = Callable[[int, memoryview | None], object]

__all__ = [
    "Blobs",
    "ChunkTable",
    "ShadowProvider",
    "decoding_threads",
    "make_shadow",
    "name_elements",
]

# Bytes of neighbouring blobs to read at once, gaps included, and the largest such gap.
_AT_ONCE = 1 << 22
_GAP = 1 << 16
# Parts of the work for each thread, so that all end at about the same time.
_PARTS = 4
# Bytes of chunks to decode between two reports of progress.
_REPORTED = 1 << 25
# Entries of a piece of the table, and their bytes.
_PIECE = 1 << 13
_WORD = 8


class ChunkTable:
    """The table of the blobs of a packed array, read piece by piece as chunks are asked for.

    Parameters
    ----------
    block : BlobsBlock
    chunk_bytes, n_chunks : int
    read : callable
        Takes a list of (start, stop), ranges of ``.xtz``, and returns their bytes.

    Raises
    ------
    CorruptError
        The table is small, and does not match its checksum.

    Notes
    -----
    It knows nothing of files, so that it also serves objects on servers.  Pieces stay in memory, 8
    bytes a chunk.
    """

    def __init__(self, block: BlobsBlock, chunk_bytes: int, n_chunks: int, read: Read) -> None:
        self.block, self.chunk_bytes, self.n_chunks, self._read = block, chunk_bytes, n_chunks, read
        self._pieces: dict[int, NDArray[np.uint64]] = {}
        self._is_right = False
        if table_bytes(n_chunks) <= limits.table_bytes:
            self.check()

    def check(self) -> None:
        """Read the whole table, and compare it with its checksum; raise CorruptError if wrong."""
        if self._is_right:
            return
        numbers = range(-(-self.n_chunks // _PIECE))
        self._fetch(numbers)
        crc = 0
        for number in numbers:
            crc = crc32c(self._pieces[number].view(np.uint8), crc)
        if crc != self.block.crc:
            raise CorruptError("the table of blobs is damaged: its checksum does not match")
        self._is_right = True

    def places(self, addresses: NDArray[np.int64]) -> BlobPlaces:
        """Return where the blobs of chunks are; raise ChecksumError if an entry leads to none."""
        return decode_entries(self._words(addresses), addresses, self.block, self.chunk_bytes)

    def _words(self, addresses: NDArray[np.int64]) -> NDArray[np.uint64]:
        numbers = addresses // _PIECE
        order = np.argsort(numbers, kind="stable")
        wanted, firsts = np.unique(numbers[order], return_index=True)
        self._fetch(wanted.tolist())
        found = np.empty(len(addresses), "<u8")
        for number, here in zip(wanted.tolist(), np.split(order, firsts)[1:], strict=True):
            found[here] = self._pieces[number][addresses[here] - number * _PIECE]
        return found

    def _fetch(self, numbers: Sequence[int]) -> None:
        """Read the missing ones of some pieces of the table together."""
        numbers = [number for number in numbers if number not in self._pieces]
        ranges: list[tuple[int, int]] = []
        counts = []
        for number in numbers:
            stop = min(self.n_chunks, (number + 1) * _PIECE)
            places = entry_places(self.block, np.arange(number * _PIECE, stop))
            edges = np.flatnonzero(np.diff(places) != _WORD) + 1  # between two extents
            runs = np.split(places, edges)
            ranges += [(int(run[0]), int(run[-1]) + _WORD) for run in runs]
            counts.append(len(runs))
        parts = iter(self._read(ranges) if ranges else [])
        for number, count in zip(numbers, counts, strict=True):
            data = b"".join(itertools.islice(parts, count))
            stop = min(self.n_chunks, (number + 1) * _PIECE)
            if len(data) != _WORD * (stop - number * _PIECE):
                raise CorruptError("the table of blobs is truncated")
            self._pieces[number] = np.frombuffer(data, "<u8")


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
    table : ChunkTable

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
        self._size = header.chunk_bytes
        self._state, self._axial = state, axial
        directory = metadata.read(DIRECTORY_BYTES, header.directory_offset)
        at = decode_directory(directory, header, metadata.length).get(BlockKind.BLOBS)
        if at is None:
            raise CorruptError("the place of the block for chunks in blobs is damaged")
        data = metadata.read(SECTOR, at)
        self.block: BlobsBlock = decode_blobs_block(data, header.uuid, axial.size, file.length)
        check_file_head(file.read(FILE_HEAD_BYTES, 0), self.block, header.uuid)
        self.table = ChunkTable(self.block, self._size, axial.size, self._read)

    def _read(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        return [self.file.read(stop - start, start) for start, stop in ranges]

    def all_chunks(self, take: Take) -> Iterator[int]:
        """Decode all chunks like `chunks`, once the whole table is right; yield numbers of them."""
        self.table.check()
        addresses = np.arange(self._axial.size)
        addresses = addresses[np.argsort(self.places(addresses).offsets, kind="stable")]
        step = max(1, _REPORTED // self._size)
        for first in range(0, len(addresses), step):
            some = addresses[first : first + step]
            self.chunks(some, take)
            yield len(some)

    def places(self, addresses: NDArray[np.int64]) -> BlobPlaces:
        """Return where the blobs of chunks are; see `ChunkTable.places`."""
        try:
            return self.table.places(addresses)
        except ChecksumError as error:
            raise self._told(error) from None

    def stored(self, addresses: NDArray[np.int64]) -> list[Stored | None]:
        """Return where chunks lie, and how they are encoded; None for those of the fill value."""
        places = self.places(addresses)
        found: list[Stored | None] = [None] * len(addresses)
        for n in np.argsort(places.offsets, kind="stable").tolist():
            offset, size = int(places.offsets[n]), int(places.sizes[n])
            if size and self.block.codec == CodecId.RAW:
                found[n] = Stored(BLOBS, offset + BLOB_HEAD_BYTES, self._size)
            elif size:
                wanted = read_of_blob(size, self.header.dtype.itemsize)
                data = self.file.read(wanted, offset)
                found[n] = decode_stored(data, int(addresses[n]), self.block, offset, size)
        return found

    def chunks(self, addresses: NDArray[np.int64], take: Take) -> None:
        """Decode chunks, on several threads if they are worth it, and hand them to a function.

        Neighbours in the file are read at once.  The bytes last until the function returns.
        """
        places = self.places(addresses)
        order = np.argsort(places.offsets, kind="stable")
        offsets, sizes = places.offsets[order], places.sizes[order]
        wanted = addresses[order].tolist()
        n_fill = int(np.searchsorted(offsets, 1))
        for address in wanted[:n_fill]:
            take(address, None)
        offsets, sizes, wanted = offsets[n_fill:], sizes[n_fill:], wanted[n_fill:]
        n_threads = decoding_threads(self.block, len(wanted) * self._size)
        at_once = _AT_ONCE
        if n_threads > 1:
            at_once = min(_AT_ONCE, int(sizes.sum()) // (n_threads * _PARTS))
        runs = _runs(offsets, sizes, at_once)

        def take_run(first: int, stop: int, room: memoryview) -> None:
            low = int(offsets[first])
            length = int((offsets + sizes)[first:stop].max()) - low
            data = memoryview(self.file.read(length, low))
            for i in range(first, stop):
                at = int(offsets[i]) - low
                blob = data[at : at + int(sizes[i])]
                take(wanted[i], self._decoded(blob, wanted[i], room, within))

        # Threads share chunks, or the parts of a single one.
        within = n_threads if len(wanted) == 1 else 1
        if n_threads == 1 or len(wanted) == 1:
            room = memoryview(np.empty(self._size, np.uint8))
            for run in runs:
                take_run(*run, room)
            return
        lock, stopped = threading.Lock(), threading.Event()

        def share() -> None:
            room = memoryview(np.empty(self._size, np.uint8))
            while not stopped.is_set():
                with lock:
                    run = next(runs, None)
                if run is None:
                    return
                take_run(*run, room)

        run_together([share] * n_threads, stopped.set)

    def payload(self, address: int) -> Encoded | None:
        """Return a chunk as its codec has it; None: it has the fill value.

        Raises
        ------
        ChecksumError
            The blob is damaged.
        """
        places = self.places(np.array([address]))
        offset, size = int(places.offsets[0]), int(places.sizes[0])
        if not size:
            return None
        try:
            return payload_of(memoryview(self.file.read(size, offset)), address, self.block)
        except ChecksumError as error:
            raise self._told(error) from None

    def damaged(self) -> Iterator[ChecksumError]:
        """Read all blobs, and yield an error for each chunk that is damaged."""
        step = max(1, _AT_ONCE // self._size)
        for first in range(0, self._axial.size, step):
            some = np.arange(first, min(self._axial.size, first + step))
            try:
                self.chunks(some, _drop)
            except ChecksumError:
                for address in some:
                    try:
                        self.chunks(some[address - first :][:1], _drop)
                    except ChecksumError as error:
                        yield error

    def _decoded(
        self, blob: memoryview, address: int, room: memoryview, threads: int
    ) -> memoryview:
        itemsize = self.header.dtype.itemsize
        try:
            return decode_blob(blob, address, self.block, room, itemsize, self.verify, threads)
        except ChecksumError as error:
            raise self._told(error) from None

    def _told(self, error: ChecksumError) -> ChecksumError:
        return name_elements(error, self.header, self._state, self._axial, self.path)


def name_elements(
    error: ChecksumError, header: Header, state: Superblock, axial: Axial, path: str
) -> ChecksumError:
    """Return an error about a chunk of a packed array that says which elements are lost."""
    index = axial.index(error.chunk)
    box = elements_of_chunk(index, header.chunks, state.offset, state.shape)
    text = ", ".join(f"{s.start}:{s.stop}" for s in box)
    what = f"its elements are [{text}]"
    if any(s.start == s.stop for s in box):
        what = "it has no elements within the bounds"
    named = ChecksumError(f"{error} in '{path}'; {what}; restore the file from a copy")
    named.filename, named.chunk, named.box = path, error.chunk, box
    return named


def _drop(address: int, chunk: memoryview | None) -> None:
    """Do nothing with a chunk that was read to see whether it is right."""


def decoding_threads(block: BlobsBlock, n_bytes: int) -> int:
    """Return how many threads are worth it to decode chunks of so many bytes."""
    share = limits.share_bytes if block.codec == CodecId.RAW else limits.coded_bytes
    most: int = config.threads
    return max(1, min(most, n_bytes // share))


def _runs(
    offsets: NDArray[np.int64], sizes: NDArray[np.int64], at_once: int
) -> Iterator[tuple[int, int]]:
    """Yield runs (first, stop) of rising offsets that are near each other, to read at once."""
    if not len(offsets):
        return
    ends = np.maximum.accumulate(offsets + sizes)
    first = 0
    for i, gap in enumerate((offsets[1:] - ends[:-1]).tolist(), 1):
        if gap > _GAP or int(ends[i]) - int(offsets[first]) > at_once:
            yield first, i
            first = i
    yield first, len(offsets)


def make_shadow(length: int, uuid: bytes) -> File:
    """Return memory, as a file, for bytes of chunks and a seal: a hole but for the seal."""
    shadow = File(open_memory(), "chunks from blobs")
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
        self._size, self._fill = blobs.header.chunk_bytes, blobs.header.fill

    def provide(self, addresses: NDArray[np.int64]) -> None:
        """Write chunks to their places in the shadow."""
        self._blobs.chunks(addresses, self._put)

    def _put(self, address: int, chunk: memoryview | None) -> None:
        at = place_of(address, self._size)
        if chunk is not None:
            self._shadow.write(chunk, at)
        elif any(self._fill):  # holes hold zeros
            self._shadow.fill(self._fill, at, at + self._size)

    def ahead(self, addresses: NDArray[np.int64]) -> None:
        """Do nothing: the system reads ahead in a local file."""

    def evict(self, addresses: NDArray[np.int64]) -> None:
        """Give back the memory of chunks."""
        for run in np.split(addresses, np.flatnonzero(np.diff(addresses) > 1) + 1):
            start, stop = (int(place_of(q, self._size)) for q in (run[0], run[-1] + 1))
            self._shadow.punch(start, stop - start)
