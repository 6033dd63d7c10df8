"""The words of frozen chunks: their table in ``.xmd``, by address.

Each chunk has two, in extents whose places the block of the table has; see ``format.frozen``.
"""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray._core._file import UNSUPPORTED
from extarray._core._mapping import MappedWords
from extarray.common.errors import CorruptError
from extarray.format.blobs import extents_for
from extarray.format.blocks import MOST_SUMS_EXTENTS, BlockKind, sums_capacity
from extarray.format.constants import SECTOR
from extarray.format.frozen import (
    ENTRY_BYTES,
    RAW,
    TABLE_ALIGNMENT,
    TABLE_WORDS,
    decode_frozen_block,
    encode_frozen_block,
    extent_bytes,
    extents_of,
)
from extarray.grid.chunking import chunks_before
from extarray.storage.filesystem import family, holes_take_space

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from extarray.format.blobs import BlobsBlock
    from extarray.format.header import Header
    from extarray.storage.filesystem import File
    from extarray.storage.pair import Pair
    from extarray.storage.store import Room

__all__ = ["FrozenWords", "reserve_extent"]

# Words of the table to look through at a time.
_WORDS_AT_ONCE = 1 << 16
_PAGE = 4096
# A live word that asks; the rest of it is the age of the question.
_ASKS = 1 << 63
_NONE = np.empty(0, np.int64)


class FrozenWords:
    """The words of chunks, and the block that says where they are.

    Attributes
    ----------
    extents : list of memoryview
        The words of each extent as unsigned numbers in the file's byte order: live, durable, live,
        ...  Read-only for readers.  Extents are added, and replaced only by those of a successor.
        If `asks`, a live word only says that the chunk is to be read by `FrozenTable.read_into`.
    asks : bool
        Where hosts keep copies of their own, a mapping could miss a freeze by a writer on another
        host, and its raw chunk be a hole.  So readers ask for each chunk.
    uuid : bytes
        Of ``.xtz``.
    """

    def __init__(
        self, pair: Pair, metadata: File, at: int, block: BlobsBlock, header: Header
    ) -> None:
        self._pair, self._metadata, self._at, self._header = pair, metadata, at, header
        self.uuid = block.uuid
        self._block = block
        self.extents: list[memoryview] = []
        self._words: list[NDArray[np.uint64]] = []
        self.asks = metadata.keeps_copies
        self._is_mapped = not self.asks
        self._age = 0  # of the words in `extents` that ask
        self._places: list[int] = []
        self._size, self._given = block.size, block.given
        self._lock = threading.RLock()
        self._mended: dict[int, int] = {}  # by a reader, which may not write
        self._seen = 0  # number of the commit of a state with mended words
        self._ready: set[tuple[int, int]] = set()  # extents and pages that have disk space
        self._map(list(block.extents))

    @classmethod
    def block_of(cls, pair: Pair, metadata: File | None = None) -> tuple[int, BlobsBlock] | None:
        """Return offset and contents of the block; None if a packed file had the metadata.

        Raises
        ------
        CorruptError
            The block, or its entry in the directory, is damaged.
        """
        metadata = pair.metadata if metadata is None else metadata
        at = pair.blocks().get(BlockKind.BLOBS)
        if at is None:
            raise CorruptError("the place of the block for chunks in blobs is damaged")
        block = decode_frozen_block(metadata.read(SECTOR, at), pair.header, metadata.length)
        return None if block is None else (at, block)

    def _map(self, places: list[int]) -> None:
        """Take up extents at their offsets, and map those that are not mapped yet.

        On an error, the extents before count on.
        """
        pair, n = self._pair, len(self.extents)
        if not self._is_mapped:
            for number in range(n, len(places)):
                self._words.append(np.zeros(TABLE_WORDS * sums_capacity(number), "<u8"))
                self.extents.append(memoryview(self._words[-1]).cast("B").cast("Q"))
            self._places = places
            self.forget_copies()
            return
        writable = pair.mode == "r+"  # also where elements are moved by system calls
        takes_space = holes_take_space(self._metadata)
        new: list[Any] = []
        with family("cannot map the metadata of '{}'", pair.path), self._metadata as fd:
            for number in range(n, len(places)):
                length = TABLE_WORDS * sums_capacity(number)
                new.append(MappedWords(fd, places[number], length, writable))
                if takes_space:  # also in files that another program has copied
                    _raise_failure(new[-1].populate())
        self._words += [np.frombuffer(words, "<u8") for words in new]
        self.extents += [memoryview(words).cast("Q") for words in new]
        self._places = places

    def _cover_mended(self) -> None:
        """Put private copies in the place of extents with words that this reader has mended."""
        if not self._is_mapped or not self._mended:
            return
        addresses = np.array(list(self._mended), np.int64)
        numbers, within = extents_of(addresses)
        for number in np.unique(numbers).tolist():
            copy = self._words[number].copy()
            here = numbers == number
            copy[TABLE_WORDS * within[here]] = [self._mended[q] for q in addresses[here].tolist()]
            self._words[number] = copy
            self.extents[number] = memoryview(copy).cast("B").cast("Q").toreadonly()

    def forget_copies(self) -> None:
        """Ask again for chunks that are in memory, where hosts keep copies."""
        if self.asks:
            self._age += 1
            left = chunks_before(self._pair.state.data_bytes, self._header.chunk_bytes)
            for words in self._words:
                words[: TABLE_WORDS * max(0, left) : TABLE_WORDS] = _ASKS + self._age
                left -= len(words) // TABLE_WORDS

    def take_up(self) -> None:
        """Take up the block as other processes have written it.

        Raises
        ------
        CorruptError
            The block is damaged, or a writer is at work on it.
        """
        pair = self._pair
        with self._lock:
            found = self.block_of(pair)
            if found is None:
                return
            self._at, block = found
            if self._mended and pair.state.sequence != self._seen:
                # A writer has come, and has mended them, too.
                self._mended, self.extents, self._words = {}, [], []
            self._size = block.size
            if len(block.extents) > len(self._places) or not self.extents:
                self._map(list(block.extents))
            self.forget_copies()  # growth has brought more chunks

    def block_bytes(self) -> bytes:
        """Read the block, as it is."""
        return self._metadata.read(SECTOR, self._at)

    @property
    def reach(self) -> int:
        """Number of chunks that the table has room for; those beyond are raw."""
        return sum(map(sums_capacity, range(len(self._places))))

    @property
    def regions(self) -> list[tuple[int, int]]:
        """Offsets and lengths of the extents in ``.xmd``."""
        return [(at, extent_bytes(number)) for number, at in enumerate(self._places)]

    @property
    def is_mended(self) -> bool:
        """True if this reader reads what was flushed in the place of blobs that are lost."""
        return bool(self._mended)

    def entries(self, addresses: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the live words of chunks."""
        return self._load(addresses, 0)

    def are_raw(self, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which chunks are not frozen."""
        raw: NDArray[np.bool_] = self.entries(addresses) == RAW
        return raw

    def durable(self, addresses: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the durable words of chunks."""
        return self._load(addresses, 1)

    def _load(self, addresses: NDArray[np.int64], which: int) -> NDArray[np.uint64]:
        addresses = np.asarray(addresses, np.int64)
        found = np.zeros(len(addresses), np.uint64)
        numbers, within = extents_of(addresses)
        for number in np.unique(numbers).tolist():
            if number >= len(self._places):
                continue
            here = np.flatnonzero(numbers == number)
            if self._is_mapped:
                found[here] = self._words[number][TABLE_WORDS * within[here] + which]
                continue
            places = self._places[number] + ENTRY_BYTES * within[here] + 8 * which
            some = np.zeros(len(here), "<u8")
            self._metadata.read_runs(some.view(np.uint8), places, 8)
            found[here] = some
        if self._mended and not self._is_mapped and not which:
            for i, address in enumerate(addresses.tolist()):
                found[i] = self._mended.get(address, found[i])
        return found

    def _store(self, addresses: NDArray[np.int64], words: NDArray[np.uint64], which: int) -> None:
        """Store words, each in one step; the table reaches the chunks."""
        numbers, within = extents_of(addresses)
        by_pwrite = not self._is_mapped or self._pair.engine != "mmap"
        for number in np.unique(numbers).tolist():
            here = np.flatnonzero(numbers == number)
            if by_pwrite:
                places = self._places[number] + ENTRY_BYTES * within[here] + 8 * which
                for place, word in zip(places.tolist(), words[here].tolist(), strict=True):
                    self._metadata.write(word.to_bytes(8, "little"), place)
            else:
                # A word that becomes 0 has its space; another process may clear one beside it.
                self._make_ready(number, within[here[words[here] != RAW]])
                places, new = TABLE_WORDS * within[here] + which, words[here]
                differ = self._words[number][places] != new
                self._words[number][places[differ]] = new[differ]

    def _make_ready(self, number: int, within: NDArray[np.int64]) -> None:
        """Give disk space to the pages of words, since a store to a hole may find none."""
        for page in np.unique(ENTRY_BYTES * within // _PAGE).tolist():
            if (number, page) in self._ready:
                continue
            at = self._places[number] + page * _PAGE
            failure = self._metadata.reserve(at, _PAGE)
            if failure == UNSUPPORTED:
                self._metadata.write(self._metadata.read(_PAGE, at), at)
            else:
                _raise_failure(failure)
            self._ready.add((number, page))

    def put(self, addresses: NDArray[np.int64], words: NDArray[np.uint64]) -> None:
        """Store both words of chunks, as a repair does."""
        with family("cannot note frozen chunks of '{}'", self._pair.path):
            for which in range(TABLE_WORDS):
                self._store(addresses, words, which)

    def _written(
        self, first: int = 0, end: int | None = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint64]]]:
        """Yield addresses first ... end - 1 and their pairs of words, without holes of the table.

        `end`: None for that of the table.
        """
        for number, at in enumerate(self._places):
            base = sums_capacity(number) - sums_capacity(0)
            stop = at + extent_bytes(number)
            if end is not None:
                stop = min(stop, at + ENTRY_BYTES * max(0, end - base))
            start = at + ENTRY_BYTES * max(0, first - base)
            for low, high in self._metadata.written(stop) if start < stop else ():
                low = max(start, low - low % ENTRY_BYTES)
                for a in range(low, min(high, stop), ENTRY_BYTES * _WORDS_AT_ONCE):
                    b = min(high, stop, a + ENTRY_BYTES * _WORDS_AT_ONCE)
                    data = self._metadata.read(-(-(b - a) // ENTRY_BYTES) * ENTRY_BYTES, a)
                    words = np.frombuffer(data, "<u8").reshape(-1, TABLE_WORDS).astype(np.uint64)
                    yield base + (a - at) // ENTRY_BYTES + np.arange(len(words)), words

    def frozen(self, first: int, stop: int) -> NDArray[np.int64]:
        """Return the addresses of the frozen chunks among first ... stop - 1, which may be many."""
        found = [_NONE]
        for addresses, _ in self._written(first, stop):
            found.append(addresses[self.entries(addresses) != RAW])
        return np.concatenate(found)

    def count(self, stop: int) -> int:
        """Return how many of the chunks before an address are frozen."""
        return sum(
            int(np.count_nonzero(self.entries(addresses)))
            for addresses, _ in self._written(0, stop)
        )

    def make_room(self, n_chunks: int, commits: Room) -> None:
        """Extend the table to `n_chunks` chunks, in holes behind all that ``.xmd`` has.

        This comes before the commit of the growth.  No commit takes the room: like those of an
        optional block, its bytes are never free again.  If the file system has no files that large,
        the table stays shorter.
        """
        wanted = min(extents_for(n_chunks), MOST_SUMS_EXTENTS)
        if wanted <= len(self._places):
            return
        pair = self._pair
        with self._lock, family("cannot make room for the table of '{}'", pair.path):
            self.take_up()  # room that was made, but could not be mapped
            if wanted <= len(self._places):
                return
            end = max(commits.free_from, self._metadata.length)
            places = list(self._places)
            for number in range(len(places), wanted):
                at = -(-end // TABLE_ALIGNMENT) * TABLE_ALIGNMENT
                try:
                    self._metadata.truncate(at + extent_bytes(number))
                except OSError as error:
                    if error.errno not in (errno.EFBIG, errno.EINVAL):
                        raise
                    break
                reserve_extent(self._metadata, number, at)
                end = at + extent_bytes(number)
                places.append(at)
            commits.blocks_end = max(commits.blocks_end, end)
            self._write_block(places=places)
            self._map(places)

    def _write_block(
        self, size: int | None = None, given: int | None = None, places: list[int] | None = None
    ) -> None:
        size = self._size if size is None else size
        given = self._given if given is None else given
        places = self._places if places is None else places
        data = encode_frozen_block(self.uuid, size, given, places, self._header.uuid)
        self._metadata.write(data, self._at)


def reserve_extent(file: File, number: int, at: int) -> None:
    """Give space to an extent of the table if even loads from its holes take some (I7)."""
    if holes_take_space(file):
        _raise_failure(file.reserve(at, extent_bytes(number)))


def _raise_failure(failure: int) -> None:
    if failure:
        raise OSError(failure, os.strerror(failure))
