"""Chunks in blobs of a packed file elsewhere: compressed, or in another order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from extarray.common.config import config
from extarray.common.errors import ChecksumError, CorruptError, ResultError
from extarray.fetched.chunks import Arrived
from extarray.fetched.origins import Fixed, read_stored, start_blobs
from extarray.format.blobs import decode_blob, decode_blobs_block
from extarray.format.blocks import DIRECTORY_BYTES, BlockKind, decode_directory
from extarray.format.constants import SECTOR
from extarray.storage.blobs import ChunkTable, decoding_threads, name_elements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from extarray.fetched.chunks import Handle
    from extarray.fetched.pairs import RemotePair
    from extarray.format.blobs import Stored
    from extarray.remote.objects import Reading, RemoteObject
    from extarray.storage.states import WholeState

__all__ = ["InBlobs"]


class InBlobs(Fixed):
    """The chunks in ``.xtz`` of a packed file.

    Parameters
    ----------
    found : RemoteObject
    base, size : int
        Where ``.xtz`` lies in it, and its bytes.
    pair : RemotePair
    state : WholeState

    Raises
    ------
    CorruptError
        The metadata or the table of places are damaged.
    """

    def __init__(
        self, found: RemoteObject, base: int, size: int, pair: RemotePair, state: WholeState
    ) -> None:
        header = pair.header
        super().__init__(found, base, header.chunk_bytes)
        self._pair, self._state = pair, state
        self._verifies = pair.verify != "never"
        directory = pair.metadata.read(DIRECTORY_BYTES, header.directory_offset)
        at = decode_directory(directory, header, pair.metadata.length).get(BlockKind.BLOBS)
        if at is None:
            raise CorruptError("the place of the block for chunks in blobs is damaged")
        n_chunks = state.axial.size
        data = pair.metadata.read(SECTOR, at)
        self._block = decode_blobs_block(data, header.uuid, n_chunks, size)
        self._table = ChunkTable(self._block, header.chunk_bytes, n_chunks, self._read_table)
        self.filled = header.fill * (header.chunk_bytes // max(1, len(header.fill)))

    def n_threads(self, n_chunks: int) -> int:
        """Return how many threads are worth it to decode so many chunks."""
        return decoding_threads(self._block, n_chunks * self._size)

    def _read_table(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        starts = [self._base + start for start, _ in ranges]
        sizes = [stop - start for start, stop in ranges]
        return [bytes(part) for part in self.object.read_ranges(starts, sizes)]

    def _places(self, addresses: NDArray[Any]) -> tuple[list[int], list[int]]:
        """Return offsets and sizes of the blobs of chunks; 0 for those of the fill value."""
        try:
            places = self._table.places(addresses)
        except ChecksumError as error:
            raise self._told(error) from None
        if int(places.sizes.sum()) > config.max_result:
            raise ResultError(
                f"{len(addresses)} chunks, which are needed at a time, exceed config.max_result"
            )
        return places.offsets.tolist(), places.sizes.tolist()

    def stored(self, addresses: NDArray[Any]) -> list[Stored | None]:
        """Return where chunks lie in the object, and how they are encoded; see `Fixed.stored`."""
        try:
            places = self._table.places(addresses)
            header, known = self._pair.header, addresses.tolist()
            return read_stored(self.object, self._block, known, places, header, self._base)
        except ChecksumError as error:
            raise self._told(error) from None

    def start(self, addresses: NDArray[Any]) -> Handle:
        """Begin to fetch chunks."""
        offsets, sizes = self._places(addresses)
        starts = [self._base + offset for offset, size in zip(offsets, sizes, strict=True) if size]
        present = [size for size in sizes if size]
        handle = start_blobs(self.object, starts, present, len(self._pair.header.chunks))
        return _Coded(self, handle, addresses.tolist(), sizes)

    def decoded(self, address: int, blob: Any, threads: int, room: memoryview) -> Any:
        """Return a chunk from its blob, perhaps in `room`."""
        itemsize = self._pair.header.dtype.itemsize
        try:
            return decode_blob(blob, address, self._block, room, itemsize, self._verifies, threads)
        except ChecksumError as error:
            raise self._told(error) from None

    def _told(self, error: ChecksumError) -> ChecksumError:
        """Return an error about a chunk that tells which elements are lost."""
        state, path = self._state, f"{self._pair.path}.xtz"
        return name_elements(error, self._pair.header, state.state, state.axial, path)


class _Coded:
    """Blobs on their way."""

    def __init__(
        self, origin: InBlobs, reading: Reading, addresses: list[int], sizes: list[int]
    ) -> None:
        self._origin, self._reading, self._addresses = origin, reading, addresses
        # Numbers of the blobs among the chunks, and of the chunks among the blobs.
        self._chunks = [number for number, size in enumerate(sizes) if size]
        self._blobs = {number: blob for blob, number in enumerate(self._chunks)}

    def arrivals(self, wanted: Iterable[int]) -> Iterator[Arrived]:
        """Yield chunks of the fill value, and functions that decode others, as they come."""
        version = self._origin.version
        blobs, filled = [], []
        for number in wanted:
            blob = self._blobs.get(number)
            if blob is None:
                filled.append((number, self._origin.filled))
            else:
                blobs.append(blob)
        if filled:
            yield Arrived(filled, version)
        for found in self._reading.arrivals(blobs):
            numbers = [self._chunks[blob] for blob, _ in found]
            # Threads share chunks, or the parts of a single one.
            threads = self._origin.n_threads(1) if len(found) == 1 else 1
            chunks = [
                (number, partial(self._origin.decoded, self._addresses[number], blob, threads))
                for number, (_, blob) in zip(numbers, found, strict=True)
            ]
            yield Arrived(chunks, version)

    def cancel(self) -> None:
        """Give them up."""
        self._reading.cancel()
