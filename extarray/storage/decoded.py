"""Frozen chunks as the core finds them: decoded to memory when they are read."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray._core._frozen import Frozen
from extarray.common.config import config
from extarray.common.errors import ChecksumError
from extarray.common.limits import limits
from extarray.common.threads import run_together
from extarray.grid.chunking import elements_of_chunk

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray.format._blobs import BlobReader
    from extarray.storage.frozen import FrozenTable
    from extarray.storage.pair import Pair
    from extarray.storage.store import Present

__all__ = ["FrozenChunks", "show_frozen"]

# Bytes of chunks that a thread decodes at a time, or one chunk.  The memory for larger chunks is
# given back each time, which costs little beside their decoding.
_TURN_BYTES = 1 << 19


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
        self.core = Frozen(
            _Decoder(pair, table, axial), size, config.chunk_cache, table.freezes, limits.rewrites
        )
        self.look()

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
        self._readers: list[BlobReader] = []

    def decode(
        self,
        addresses: list[int],
        entries: list[int],
        keeps: bool,
        take: Callable[[list[int], list[NDArray[np.uint8]]], object],
    ) -> None:
        """Hand chunks to `take`, on several threads if there are many."""
        n, size = len(addresses), self._size
        shares = min(config.threads, n, max(1, n * size // limits.coded_bytes))
        # Chunks in turns: each turn takes the GIL once, and what it decodes is still in the caches
        # when it is moved on.
        step = max(1, min(_TURN_BYTES // size, -(-n // shares)))
        turns, choosing = iter(range(0, n, step)), threading.Lock()
        verify = self._pair.verify != "never"

        def work() -> None:
            reader, chunks = self._reader(), list(np.empty((0 if keeps else step, size), np.uint8))
            while True:
                with choosing:
                    start = next(turns, n)
                if start == n:
                    break
                numbers = list(range(start, min(start + step, n)))
                if keeps:
                    chunks = [np.empty(size, np.uint8) for _ in numbers]
                some = slice(start, start + step)
                found = chunks[: len(numbers)]
                self._fill(found, addresses[some], entries[some], verify, reader)
                take(numbers, found)
            if size <= _TURN_BYTES:
                self._readers.append(reader)

        run_together([work] * shares)

    def _reader(self) -> BlobReader:
        """Return memory for a thread, which nobody uses just now."""
        with contextlib.suppress(IndexError):
            return self._readers.pop()
        return self._table.reader()

    def _fill(
        self,
        chunks: list[NDArray[np.uint8]],
        addresses: list[int],
        entries: list[int],
        verify: bool,
        reader: BlobReader,
    ) -> None:
        """Decode chunks."""
        try:
            if self._table.asks:
                for chunk, address in zip(chunks, addresses, strict=True):
                    self._table.read_into(memoryview(chunk), address, verify)
            else:
                self._table.decode_many(chunks, addresses, entries, verify, reader)
        except ChecksumError as error:
            raise self._told(error) from None

    def _told(self, error: ChecksumError) -> ChecksumError:
        """Return an error about a chunk that tells which elements are lost."""
        pair = self._pair
        state, index = pair.state, self._axial.index(error.chunk)
        box = elements_of_chunk(index, pair.header.chunks, state.offset, state.shape)
        text = ", ".join(f"{s.start}:{s.stop}" for s in box)
        what = f"its elements are [{text}]"
        if any(s.start == s.stop for s in box):
            what = "it has no elements within the bounds"
        name = f"{pair.path}.xtz"
        told = ChecksumError(f"{error} in '{name}'; {what}; restore the file from a copy")
        told.filename, told.chunk, told.box = name, error.chunk, box
        return told
