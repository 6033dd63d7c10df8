"""The blobs of frozen chunks: their log in ``.xtz``, which only grows.

A blob is never overwritten.  A new log replaces one that has much that nobody needs.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.codecs.payloads import decode_blocks_into, encode_again
from extarray.common.errors import ChecksumError, CorruptError, VersionError
from extarray.format._blobs import BlobReader
from extarray.format.blobs import (
    BLOB_HEAD_BYTES,
    FILE_HEAD_BYTES,
    FILL,
    Stored,
    blamed,
    blob_bytes,
    bytes_before_blocks,
    check_frame,
    damaged_entry,
    decode_blob,
    decode_blocks,
    decode_stored,
    encode_entry_of_blob,
    encode_file_head,
    payload_of,
    read_of_blob,
)
from extarray.format.frozen import RAW, encode_blob, place_of_word, places_of_words
from extarray.format.suffixes import DATA
from extarray.grid.chunking import place_of
from extarray.storage.filesystem import family
from extarray.storage.frozen_words import FrozenWords

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from extarray.codecs.codec import Codec
    from extarray.codecs.payloads import Blocks, Box, Encoded
    from extarray.format.blobs import BlobHead, BlobsBlock
    from extarray.format.header import Header
    from extarray.storage.filesystem import File
    from extarray.storage.pair import Pair

__all__ = ["DividedBlob", "FrozenBlobs", "NewLog", "bytes_in_log", "new_log", "write_blobs"]

# Space of the log that a writer takes at a time.
_REGION = 1 << 24
# Bytes of blobs that are copied at a time, and appended at a time: joining them holds the GIL.
_AT_ONCE = 1 << 22
_PIECE = 1 << 18
# Bytes of a blob to read at first, which reach up to its first block unless it has hundreds.
_BEFORE_BLOCKS = 1 << 12


def new_log(uuid: bytes, array: bytes) -> bytes:
    """Return the contents of a new ``.xtz``."""
    return encode_file_head(uuid, array)


class FrozenBlobs(FrozenWords):
    """The words of chunks, and the blobs that they lead to.

    Attributes
    ----------
    log : File
        ``.xtz``.
    """

    def __init__(
        self, pair: Pair, metadata: File, at: int, block: BlobsBlock, header: Header, log: File
    ) -> None:
        super().__init__(pair, metadata, at, block, header)
        self.log = log
        self._end = 0
        self._claims: list[int] = []  # where room begins that is not written yet

    @property
    def end(self) -> int:
        """Bytes of the log that are in use."""
        return self._end

    def place_of_blob(self, address: int) -> int:
        """Return the offset of the blob of a frozen chunk in ``.xtz``."""
        return int(places_of_words(self.entries(np.array([address])))[0][0])

    def stored(self, addresses: NDArray[np.int64]) -> list[Stored | None]:
        """Return where chunks lie, and how they are encoded; None for those of the fill value."""
        found: list[Stored | None] = []
        words = self.entries(addresses)
        places = zip(
            *map(np.ndarray.tolist, (addresses, words, *places_of_words(words))), strict=True
        )
        for address, word, offset, size in places:
            if word == RAW:
                n_bytes = self._header.chunk_bytes
                found.append(Stored(DATA, place_of(address, n_bytes), n_bytes))
            elif word == FILL:
                found.append(None)
            else:
                wanted = read_of_blob(size, self._header.dtype.itemsize)
                data = self._pair.blobs.read(wanted, offset)
                found.append(decode_stored(data, address, self._block, offset, size))
        return found

    def reader(self) -> BlobReader:
        """Return memory for one thread that decodes many chunks; see `decode_many`."""
        dtype = self._header.dtype
        return BlobReader(self.uuid, self._block.codec, dtype.itemsize, self._header.chunk_bytes)

    def decode_many(
        self,
        targets: list[NDArray[np.uint8]],
        addresses: list[int],
        words: list[int],
        verify: bool,
        reader: BlobReader,
    ) -> None:
        """Decode chunks as `decode` does, mostly without the GIL."""
        left: Sequence[int] = range(len(targets))
        if targets[0].nbytes == self._header.chunk_bytes:
            with self.log as fd:
                left = reader.read(fd, words, addresses, targets, verify)
        for i in left:
            self.decode(memoryview(targets[i]), addresses[i], words[i], verify)

    def decode(self, target: memoryview, address: int, word: int, verify: bool = True) -> None:
        """Decode the chunk that a live word leads to, not `RAW`, into as many bytes as it has.

        Raises
        ------
        ChecksumError
            The blob is damaged; ``chunk`` names the chunk.
        """
        fill, size = self._header.fill, len(target)
        if word == FILL:
            target[:] = fill * (size // len(fill))
            return
        blob = self._blob(address, word)
        itemsize, whole = self._header.dtype.itemsize, target
        if size < self._header.chunk_bytes:  # for a reader that knows fewer axes
            whole = memoryview(bytearray(self._header.chunk_bytes))
        found = decode_blob(blob, address, self._block, whole, itemsize, verify)
        if found is not target:
            target[:] = found[:size]

    def decode_part(
        self,
        target: NDArray[np.uint8],
        address: int,
        word: int,
        sides: tuple[int, ...],
        box: Box,
        verify: bool,
        reader: BlobReader,
    ) -> list[int]:
        """Decode the blocks of a chunk with elements of a box; return their numbers.

        None are decoded if the box needs all, or the chunk has none.

        Parameters
        ----------
        target : ndarray of uint8
            Memory for the chunk.
        address, word : int
        sides : tuple of int
            Of the chunk, the slowest axis first.
        box : sequence of tuple of int
        verify : bool
        reader : BlobReader

        Raises
        ------
        ChecksumError
            One of the blocks is damaged, or the blob before the first one.
        """
        if target.nbytes == self._header.chunk_bytes:
            with self.log as fd:
                found = reader.read_part(fd, word, address, target, sides, box, verify)
            if found is not None:
                return found
        divided = self.divided(address, word, target.nbytes, verify)
        if divided is None:
            return []
        numbers = divided.cut.numbers_in(sides, box)
        if len(numbers) == len(divided.cut):
            return []
        divided.decode(target, numbers, reader)
        return numbers

    def divided(self, address: int, word: int, n_bytes: int, verify: bool) -> DividedBlob | None:
        """Return the blob that a live word leads to, if its blocks can be decoded one by one.

        `n_bytes`: those of a chunk that the caller knows.  Raise ChecksumError if the blob is
        damaged before its first block.
        """
        header = self._header
        if word == FILL or n_bytes != header.chunk_bytes:
            return None
        offset, size = self._place(address, word)
        how = self._block, size, header.chunk_bytes, header.dtype.itemsize
        data = memoryview(self.log.read(min(size, _BEFORE_BLOCKS), offset))
        head, cut = decode_blocks(data, address, *how, verify)
        if cut is None and head.blocks and size > len(data):  # they are many
            data = memoryview(self.log.read(min(size, bytes_before_blocks(data)), offset))
            head, cut = decode_blocks(data, address, *how, verify)
        if cut is None:
            return None
        return DividedBlob(self.log, offset, address, head, cut, header.dtype.itemsize, verify)

    def payload(self, address: int) -> Encoded | None:
        """Return a frozen chunk as its codec has it; None: it is raw, or has the fill value.

        Raises
        ------
        ChecksumError
            The blob is damaged; ``chunk`` names the chunk.
        """
        word = int(self.entries(np.array([address]))[0])
        if word in (RAW, FILL):
            return None
        try:
            return payload_of(self._blob(address, word), address, self._block)
        except ChecksumError as error:
            raise self.told(error) from None

    def told(self, error: ChecksumError) -> ChecksumError:
        """Return an error about a damaged blob of an open array that names file and elements."""
        decoded: Any = self._pair.decoded
        return error if decoded is None else decoded.told(error)

    def _blob(self, address: int, word: int) -> memoryview:
        """Read the blob that a word leads to."""
        offset, n_bytes = self._place(address, word)
        return memoryview(self.log.read(n_bytes, offset))

    def _place(self, address: int, word: int) -> tuple[int, int]:
        """Return offset and bytes of a blob, unless none can be there, or none that large."""
        offset, n_bytes = place_of_word(word)
        if offset < FILE_HEAD_BYTES or not 0 < n_bytes <= blob_bytes(self._header.chunk_bytes):
            raise damaged_entry(address)
        return offset, n_bytes

    def claim(self, n_bytes: int) -> int:
        """Take room at the end of the log for blobs; return where it begins.

        Whoever writes them there stores no word before all are written, and then calls
        `keep_claim`.  Until then no synchronization counts the room as on the disk (I15).
        """
        with self._lock, family("cannot write to '{}'", f"{self._pair.path}.xtz"):
            at = self._end
            self._give(at + n_bytes)
            self._end = at + n_bytes
            self._claims.append(at)
        return at

    def keep_claim(self, at: int) -> None:
        """Note that the room from `at` on is written."""
        with self._lock:
            self._claims.remove(at)

    def disclaim(self, at: int, n_bytes: int) -> None:
        """Give room back that no word leads to, unless more was taken behind it."""
        with self._lock, contextlib.suppress(OSError):
            self._claims.remove(at)
            if self._end == at + n_bytes:
                self._end = at
                self.log.truncate(at)

    def _give(self, end: int) -> None:
        """Note in the block that the log may be in use up to some end."""
        if end > self._given:
            given = -(-end // _REGION) * _REGION
            self._write_block(given=given)
            self._given = given

    def seal(self) -> None:
        """Note the exact end of the log, as a writer does that ends."""
        with self._lock:
            if self._given != self._end:
                self._write_block(given=self._end)
                self._given = self._end

    def used_bytes(self) -> int:
        """Return the bytes of the log that its head and the blobs of frozen chunks take."""
        found = FILE_HEAD_BYTES
        for _, words in self._written():
            found += int(places_of_words(words[:, 0])[1].sum())
        return found


class DividedBlob:
    """A blob whose chunk is cut into blocks.

    Parameters
    ----------
    log : File
    offset : int
        Of the blob.
    address : int
        Of the chunk.
    head : BlobHead
    cut : Blocks
    itemsize : int
    verify : bool
        Compare blocks with their checksums.
    """

    def __init__(
        self,
        log: File,
        offset: int,
        address: int,
        head: BlobHead,
        cut: Blocks,
        itemsize: int,
        verify: bool,
    ) -> None:
        self._log, self._start, self._address = log, offset + BLOB_HEAD_BYTES, address
        self._head, self.cut, self._itemsize, self._verify = head, cut, itemsize, verify

    def decode(self, target: NDArray[np.uint8], numbers: Sequence[int], reader: BlobReader) -> None:
        """Write the elements of some blocks, by rising number, to the memory of the chunk.

        `reader`: of the table, as `FrozenTable.reader` returns it.

        Raises
        ------
        ChecksumError
            One of them is damaged; ``chunk`` names the chunk.
        """
        cut, codec, filter_id = self.cut, self._head.codec, self._head.filter
        places = [(number, *cut.frame(number), cut.sums[number]) for number in numbers]
        how = target, cut.sides, cut.steps, places, codec, filter_id, self._verify
        with self._log as fd:
            if reader.read_blocks(fd, self._start, *how):
                return
        frames = ((number, self._frame(number, self._verify)) for number in numbers)
        try:
            decode_blocks_into(memoryview(target), codec, filter_id, cut, frames, self._itemsize)
        except (CorruptError, VersionError) as error:
            raise blamed(error, self._address) from None

    def encoded(
        self, codec: Codec, chunk: NDArray[np.uint8], numbers: Collection[int]
    ) -> Encoded | None:
        """Return the chunk with other elements in some blocks, which alone are compressed anew.

        None: another codec has made it, or it would be stored without any.  Raise ChecksumError if
        one of the other blocks is damaged: the payload gets checksums of what it has.
        """
        filter_id = self._head.filter
        if codec.id != self._head.codec or codec.filter_id not in (None, filter_id):
            return None
        kept = {
            number: self._frame(number, verify=True)
            for number in range(len(self.cut))
            if number not in numbers
        }
        return encode_again(codec, filter_id, memoryview(chunk), self._itemsize, self.cut, kept)

    def _frame(self, number: int, verify: bool) -> memoryview:
        start, stop = self.cut.frame(number)
        frame = memoryview(self._log.read(stop - start, self._start + start))
        if verify:
            check_frame(frame, self.cut.sums[number], self._address)
        return frame


class NewLog:
    """A log in the making, which begins with its head.

    Parameters
    ----------
    file : File
        Empty.
    uuid, array : bytes
        Of the log, and of the array.
    tell : callable
        Called with numbers of bytes that were written.

    Attributes
    ----------
    file : File
    uuid : bytes
    end : int
        Bytes of the log, including those not written yet.
    """

    def __init__(
        self, file: File, uuid: bytes, array: bytes, tell: Callable[[int], object]
    ) -> None:
        self.file, self.uuid, self._tell = file, uuid, tell
        self._pieces = [new_log(uuid, array)]
        self._at, self.end = 0, FILE_HEAD_BYTES

    def append(self, blob: bytes) -> int:
        """Append a blob; return the word that leads to it."""
        word = encode_entry_of_blob(self.end, len(blob))
        self._pieces.append(blob)
        self.end += len(blob)
        if self.end - self._at >= _AT_ONCE:
            self._write()
        return word

    def _write(self) -> None:
        self.file.write(b"".join(self._pieces), self._at)
        self._tell(self.end - self._at)
        self._pieces, self._at = [], self.end

    def finish(self) -> None:
        """Bring all to the disk."""
        self._write()
        self.file.datasync()


def bytes_in_log(encoded: Iterable[Encoded]) -> int:
    """Return the bytes that the blobs of encoded chunks take."""
    return sum(blob_bytes(len(one.payload)) for one in encoded)


def write_blobs(
    log: File,
    uuid: bytes,
    addresses: Sequence[int] | NDArray[np.int64],
    encoded: Sequence[Encoded],
    at: int,
) -> NDArray[np.uint64]:
    """Write blobs of chunks one after the other to a log; return the words that lead to them.

    Raises
    ------
    LimitError
        The log or a blob would be too large.
    """
    found = np.empty(len(encoded), np.uint64)
    first = end = at
    parts: list[bytes | memoryview] = []
    for i, (address, one) in enumerate(zip(addresses, encoded, strict=True)):
        blob, found[i] = encode_blob(one, int(address), end, uuid)
        parts += blob
        end += sum(map(len, blob))
        if end - first >= _PIECE or i + 1 == len(encoded):
            log.write(b"".join(parts), first)
            first, parts = end, []
    return found
