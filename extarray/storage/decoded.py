"""Frozen chunks as the core finds them: decoded to memory when they are read."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray._core._frozen import Frozen
from extarray.common.config import config
from extarray.common.errors import ChecksumError
from extarray.common.limits import limits
from extarray.common.threads import run_together
from extarray.grid.order import sides_in_memory
from extarray.storage.blobs import name_elements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray._core._frozen import Rest
    from extarray.codecs.codec import Codec
    from extarray.codecs.payloads import Box, Encoded
    from extarray.format._blobs import BlobReader
    from extarray.storage.frozen import FrozenTable
    from extarray.storage.frozen_blobs import DividedBlob
    from extarray.storage.pair import Pair
    from extarray.storage.store import Present

__all__ = ["FrozenChunks", "RestOfChunk", "show_frozen"]

# Bytes of chunks that a thread decodes at a time, or one chunk.  The memory for larger chunks is
# given back each time, which costs little beside their decoding.
_TURN_BYTES = 1 << 19
# How often a chunk is read without another block, before all blocks come: elements of a chunk that
# is whole take a shorter way.
_MOST_USES = 4
# Bytes of memory to take at a time, once some chunks have been decoded.
_SLAB = 1 << 23
_FEW = 1 << 20


def show_frozen(pair: Present, axial: Axial) -> None:
    """Let the core know the table of frozen chunks as it is now, if there is one."""
    table: Any = pair.frozen
    if table is None:
        pair.decoded = None
        return
    known: Any = pair.decoded
    if known is not None and known.process != os.getpid():
        table.drop_locks()
        known = None  # its memory and its locks are the parent's
    if known is None or known.table is not table:
        found: Any = pair
        pair.decoded = FrozenChunks(found, table, axial)
    else:
        known.look()


class FrozenChunks:
    """The table of frozen chunks as the core knows it.

    Parameters
    ----------
    pair : Pair
    table : FrozenTable
    axial : Axial
        For messages about damaged chunks.

    Attributes
    ----------
    table : FrozenTable
    core : Frozen
    process : int
        Id of the process whose memory it is.
    """

    def __init__(self, pair: Pair, table: FrozenTable, axial: Axial) -> None:
        self.table = table
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._n_extents = 0
        # The core refers to the decoder alone.  A cycle would keep the log of a replaced table
        # open, and its space taken, until the garbage collector comes.
        size = pair.header.chunk_bytes
        self._decoder = decoder = _Decoder(pair, table, axial)
        divides = size > limits.divided_bytes and not table.asks
        self.core = Frozen(
            decoder, size, config.chunk_cache, table.freezes, limits.rewrites, divides
        )
        self.look()

    def told(self, error: ChecksumError) -> ChecksumError:
        """Return an error about a damaged blob that names the file and the elements."""
        return self._decoder.told(error)

    def look(self) -> None:
        """Show the core the extents that the table has gained."""
        with self._lock:
            for words in self.table.extents[self._n_extents :]:
                self.core.add_extent(np.frombuffer(words, np.uint64))
                self._n_extents += 1


class _Decoder:
    """Decodes frozen chunks for the core; a `Decoder` of its `Frozen`."""

    def __init__(self, pair: Pair, table: FrozenTable, axial: Axial) -> None:
        self._pair, self._table, self._axial = pair, table, axial
        self._size = pair.header.chunk_bytes
        self.sides = sides_in_memory(pair.header.chunks, pair.header.order)
        self._rooms = _Rooms(self._size, config.chunk_cache)
        self._readers: list[BlobReader] = []

    def decode(
        self,
        addresses: list[int],
        entries: list[int],
        keeps: bool,
        take: Callable[[list[int], list[NDArray[np.uint8]], Sequence[Rest | None] | None], object],
        boxes: list[Box | None] | None = None,
    ) -> None:
        """Hand chunks to `take`, on several threads if there are many."""
        n, size = len(addresses), self._size
        shares = min(config.threads, n, max(1, n * size // limits.coded_bytes))
        # Chunks in turns: each turn takes the GIL once, and what it decodes is still in the caches
        # when it is moved on.
        step = max(1, min(_TURN_BYTES // size, -(-n // shares)))
        turns, choosing = iter(range(0, n, step)), threading.Lock()

        def work() -> None:
            reader, chunks = self.reader(), list(np.empty((0 if keeps else step, size), np.uint8))
            while True:
                with choosing:
                    start = next(turns, n)
                if start == n:
                    break
                numbers = list(range(start, min(start + step, n)))
                if keeps:
                    chunks = [self._rooms.take() for _ in numbers]
                some = slice(start, start + step)
                found, wanted = chunks[: len(numbers)], None if boxes is None else boxes[some]
                take(
                    numbers,
                    found,
                    self._fill(found, addresses[some], entries[some], wanted, reader),
                )
            self.give_reader(reader)

        run_together([work] * shares)

    def reader(self) -> BlobReader:
        """Return memory for a thread, which nobody uses just now."""
        with contextlib.suppress(IndexError):
            return self._readers.pop()
        return self._table.reader()

    def give_reader(self, reader: BlobReader) -> None:
        """Take memory back; that for large chunks is not kept."""
        if self._size <= _TURN_BYTES:
            self._readers.append(reader)

    def _fill(
        self,
        chunks: list[NDArray[np.uint8]],
        addresses: list[int],
        entries: list[int],
        boxes: list[Box | None] | None,
        reader: BlobReader,
    ) -> list[Rest | None] | None:
        """Decode chunks, or at least boxes of them; return the blocks of each that are left."""
        verify = self._pair.verify != "never"
        try:
            if self._table.asks:
                for chunk, address in zip(chunks, addresses, strict=True):
                    self._table.read_into(memoryview(chunk), address, verify)
                return None
            if boxes is None:
                self._table.decode_many(chunks, addresses, entries, verify, reader)
                return None
            rests: list[Rest | None] = []
            for chunk, address, entry, box in zip(chunks, addresses, entries, boxes, strict=True):
                rest = None
                if box is not None:
                    rest = self._part(chunk, address, entry, box, verify, reader)
                if rest is None:
                    self._table.decode_many([chunk], [address], [entry], verify, reader)
                rests.append(rest)
        except ChecksumError as error:
            raise self.told(error) from None
        return rests

    def _part(
        self,
        chunk: NDArray[np.uint8],
        address: int,
        entry: int,
        box: Box,
        verify: bool,
        reader: BlobReader,
    ) -> RestOfChunk | None:
        """Decode the blocks of a chunk with elements of a box; None: it takes all blocks."""
        how = self.sides, box, verify, reader
        numbers = self._table.decode_part(chunk, address, entry, *how)
        return RestOfChunk(self, address, entry, chunk, numbers) if numbers else None

    def divided(self, address: int, entry: int) -> DividedBlob:
        """Return the blob of a chunk of which some blocks were decoded."""
        verify = self._pair.verify != "never"
        found = self._table.divided(address, entry, self._size, verify)
        assert found is not None
        return found

    def told(self, error: ChecksumError) -> ChecksumError:
        """Return an error about a chunk that tells which elements are lost."""
        pair = self._pair
        return name_elements(error, pair.header, pair.state, self._axial, f"{pair.path}.xtz")


class _Rooms:
    """Memory for chunks, which comes back when nobody has it any more.

    The system gives memory page by page as it is first touched, which takes as long as decoding
    does, or longer; large pieces of NumPy's come in large pages.

    Parameters
    ----------
    size : int
        Bytes of a chunk.
    bound : int
        Bytes of chunks that stay in memory, and so at most those to take at a time.
    """

    def __init__(self, size: int, bound: int) -> None:
        self._size, self._slab = size, min(_SLAB, bound)
        self._taken = 0
        # Lists and dicts of Python's: threads change them in one step.
        self._free: list[NDArray[np.uint8]] = []
        self._used: dict[int, weakref.ref[NDArray[np.uint8]]] = {}

    def take(self) -> NDArray[np.uint8]:
        """Return memory for one chunk, with any contents."""
        try:
            place = self._free.pop()
        except IndexError:
            place = self._more()
        # NumPy bases views on the array that owns the memory, if all between are arrays: a view of
        # `place[:]` would keep the slab alone.  This room has another base, so its views keep it.
        room = np.frombuffer(memoryview(place), np.uint8)
        key = id(room)
        self._used[key] = weakref.ref(room, lambda _: self._give_back(key, place))
        return room

    def _give_back(self, key: int, place: NDArray[np.uint8]) -> None:
        del self._used[key]
        self._free.append(place)

    def _more(self) -> NDArray[np.uint8]:
        n = self._slab // self._size if self._taken * self._size >= _FEW else 1
        self._taken += max(1, n)
        slab = np.empty(max(1, n) * self._size, np.uint8)
        places = [slab[at : at + self._size] for at in range(0, len(slab), self._size)]
        self._free += places[1:]
        return places[0]


class RestOfChunk:
    """The blocks of a chunk that are not decoded yet; a `Rest` of the core's.

    Mostly they are never wanted, so the head of the blob is read again if they are.

    Parameters
    ----------
    decoder : _Decoder
    address, entry : int
        Of the chunk.
    chunk : ndarray
        Memory for the chunk.
    numbers : list of int
        Blocks that are decoded.
    """

    def __init__(
        self,
        decoder: _Decoder,
        address: int,
        entry: int,
        chunk: NDArray[np.uint8],
        numbers: list[int],
    ) -> None:
        self._decoder, self._address, self._entry = decoder, address, entry
        self._chunk, self._decoded = chunk, numbers
        self._blob: DividedBlob | None = None
        self._uses = 0
        self._lock = threading.Lock()
        self.is_whole = False  #: All of them have come.

    def encoded(self, codec: Codec) -> Encoded | None:
        """Return the chunk with what its memory has, and these blocks as they were compressed.

        None: they must be decoded for it.
        """
        try:
            with self._lock:
                blob = self._divided()
                return blob.encoded(codec, self._chunk, set(self._decoded))
        except ChecksumError as error:
            raise self._decoder.told(error) from None

    def want(self, box: Box | None) -> None:
        """Decode those with elements of a box, or all; those of a chunk that is used often, too."""
        if self.is_whole:
            return
        try:
            with self._lock:
                self._want(box)
        except ChecksumError as error:
            raise self._decoder.told(error) from None

    def _want(self, box: Box | None) -> None:
        blob = self._divided()
        missing = set(range(len(blob.cut))).difference(self._decoded)
        wanted = missing
        if box is not None and self._uses < _MOST_USES:
            wanted = missing.intersection(blob.cut.numbers_in(self._decoder.sides, box))
            self._uses += not wanted
        if wanted:
            reader = self._decoder.reader()
            blob.decode(self._chunk, sorted(wanted), reader)
            self._decoder.give_reader(reader)
            self._decoded = [*self._decoded, *wanted]
            self.is_whole = len(wanted) == len(missing)

    def _divided(self) -> DividedBlob:
        if self._blob is None:
            self._blob = self._decoder.divided(self._address, self._entry)
        return self._blob
