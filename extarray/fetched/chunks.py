"""The provider of the chunks of an array elsewhere: it fetches them, and keeps some on their way.

A chunk is written to the shadow file as a whole, once all of its bytes are there.
"""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import CancelledError
from mmap import PAGESIZE
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from extarray.common.config import config
from extarray.common.errors import StorageError
from extarray.common.threads import run_together

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from extarray.fetched.cache import DiskCache
    from extarray.fetched.shadow import Shadow

__all__ = ["Arrived", "Chunks", "Origin", "Version"]

# Calls of `provide`, beyond one for each chunk on its way, after which chunks that were foretold,
# but never asked for, are given up.
_PATIENCE = 32


class Handle(Protocol):
    """Chunks that are on their way."""

    def arrivals(self, wanted: Iterable[int]) -> Iterator[Arrived]:
        """Yield chunks as they come; see `Reading.arrivals`.

        Those that turn out to be of no use are left out.
        """

    def cancel(self) -> None:
        """Give them up."""


class Version(NamedTuple):
    """A version of the objects that chunks come from.

    Attributes
    ----------
    number : int
    is_sure : bool
        Later changes make another version.  Before, a tag that counts seconds may hide them.
    word : int
        Of a frozen chunk: its word in the table, which led to it; 0: the chunk is raw.
    """

    number: int
    is_sure: bool
    word: int = 0

    def vouches_for(self, brought: Version | None) -> bool:
        """Tell whether raw chunks of a version that was brought are as they are now."""
        return brought is not None and brought == (self.number, True, 0)


class Arrived(NamedTuple):
    """Numbers and bytes of chunks that have come, and their version.

    In place of the bytes of a chunk, there may be a function that returns them, and may write them
    to the room for a chunk that it is given.
    """

    chunks: Sequence[tuple[int, Any]]
    version: Version | None


class Origin(Protocol):
    """The place from which chunks come."""

    @property
    def version(self) -> Version | None:
        """The version whose chunks come next; None: whatever there is."""

    def fetch(self, addresses: NDArray[np.int64]) -> Iterator[Arrived]:
        """Yield all chunks, as they come."""

    def start(self, addresses: NDArray[np.int64]) -> Handle:
        """Begin to fetch chunks of the present version."""

    def changed(
        self, addresses: NDArray[np.int64], brought: Mapping[int, Version | None]
    ) -> list[int]:
        """Return the addresses of chunks that may not be as they were when they were brought."""

    def n_threads(self, n_chunks: int) -> int:
        """Return how many threads are worth it for the functions of so many chunks."""


class _Coming:
    """Chunks on their way, and the number of calls of `provide` before they began to come."""

    def __init__(self, addresses: list[int], handle: Handle, begun: int) -> None:
        self.numbers = {address: number for number, address in enumerate(addresses)}
        self.handle, self.begun = handle, begun


def _number(version: Version | None) -> int:
    return -1 if version is None else version.number


class Chunks:
    """A provider that writes chunks to a shadow file.

    Parameters
    ----------
    data : Shadow
    chunk_bytes : int
    origin : Origin

    Attributes
    ----------
    brought : dict
        The version of each present chunk, by address.
    bytes_ahead : int
        Most bytes of chunks on their way that nobody has asked for yet.
    cache : DiskCache or None
        Where chunks of one version, its `number`, are kept on the disk.
    """

    def __init__(self, data: Shadow, chunk_bytes: int, origin: Origin) -> None:
        self._data, self._size, self._origin = data, chunk_bytes, origin
        self.bytes_ahead = config.max_memory // 2
        self.brought: dict[int, Version | None] = {}
        self.cache: DiskCache | None = None
        self._coming: dict[int, _Coming] = {}  # by address
        self._n_calls = 0
        self._lock = threading.Lock()
        # Small chunks share pages, so that one that leaves and one that comes may meet.
        self._shares_pages = chunk_bytes % PAGESIZE != 0

    # -- the protocol of providers -------------------------------------------------------------

    def provide(self, addresses: NDArray[np.int64]) -> None:
        """Fetch chunks, except for those on their way; see `Provider`."""
        left = addresses.tolist()
        with self._lock:
            self._n_calls += 1
            batches: dict[int, tuple[_Coming, list[int]]] = {}
            for address in left:
                batch = self._coming.pop(address, None)
                if batch is not None and address not in self.brought:
                    batches.setdefault(id(batch), (batch, []))[1].append(address)
        come: set[int] = set()
        try:
            for batch, wanted in batches.values():
                come |= self._take(batch, wanted)
        except BaseException:
            for batch, _ in batches.values():  # what is interrupted ends, for other chunks, too
                self._drop(batch)
                batch.handle.cancel()
            raise
        left = [q for q in left if q not in come]
        cache, version = self.cache, self._origin.version
        if left and cache is not None and _number(version) == cache.number:
            # Present ones are to be renewed.
            absent = [q for q in left if q not in self.brought]
            kept = cache.get(np.array(absent, np.int64))
            self._write(list(kept.items()), version, keeps=False)
            left = [q for q in left if q not in kept]
        step = max(1, config.max_memory // self._size)
        for first in range(0, len(left), step):
            some = left[first : first + step]
            for chunks, version in self._origin.fetch(np.array(some, np.int64)):
                self._write([(some[number], chunk) for number, chunk in chunks], version)

    def _take(self, batch: _Coming, wanted: list[int]) -> set[int]:
        """Write chunks that were on their way, as they come; return those that did."""
        come: set[int] = set()
        numbers = {batch.numbers[q]: q for q in wanted}
        try:
            for chunks, version in batch.handle.arrivals(numbers):
                found = [(numbers[number], chunk) for number, chunk in chunks]
                self._write(found, version)
                come.update(q for q, _ in found)
        except (StorageError, CancelledError):
            # `provide` fetches them, and knows what to do; another thread that was interrupted, or
            # has found a newer version, has given the chunks up.
            self._drop(batch)
        return come

    def ahead(self, addresses: NDArray[np.int64]) -> None:
        """Begin to fetch chunks, as far as memory allows; see `Provider`."""
        most = self.bytes_ahead // self._size
        cache = self.cache
        if cache is not None:
            addresses = addresses[~cache.has(addresses)]
        with self._lock:
            patience = _PATIENCE + len(self._coming)  # each call may ask for one of these alone
            old = [q for q, b in self._coming.items() if self._n_calls - b.begun > patience]
            for address in old:
                self._coming.pop(address)
            wanted = [q for q in addresses.tolist() if q not in self._coming]
            wanted = wanted[: max(0, most - len(self._coming))]
            if not wanted:
                return
            handle = self._origin.start(np.array(wanted, np.int64))
            batch = _Coming(wanted, handle, self._n_calls)
            self._coming.update(dict.fromkeys(wanted, batch))

    def evict(self, addresses: NDArray[np.int64]) -> None:
        """Free the space of chunks; see `Provider`."""
        gone = addresses.tolist()
        with self._lock:
            for address in gone:
                self.brought.pop(address, None)
            if self._shares_pages:
                self._punch(gone)
        if not self._shares_pages:
            self._punch(gone)

    # -- the shadow file -----------------------------------------------------------------------

    def _write(
        self, chunks: Sequence[tuple[int, Any]], version: Version | None, keeps: bool = True
    ) -> None:
        """Write chunks, with their addresses, to the shadow file, and keep them on the disk."""
        cache = self.cache
        if not keeps or cache is None or cache.number != _number(version):
            cache = None
        items = iter(chunks)
        lock, stopped = threading.Lock(), threading.Event()

        def share() -> None:
            room = memoryview(np.empty(self._size, np.uint8))
            while not stopped.is_set():
                with lock:
                    item = next(items, None)
                if item is None:
                    return
                address, chunk = item
                if callable(chunk):
                    chunk = chunk(room)
                if cache is not None:
                    with lock:
                        cache.put([(address, chunk)])
                with self._lock if self._shares_pages else contextlib.nullcontext():
                    self._data.write(chunk, address * self._size)
                    self.brought[address] = version

        n_threads = min(len(chunks), self._origin.n_threads(len(chunks)))
        run_together([share] * max(1, n_threads), stopped.set)

    def _punch(self, gone: list[int]) -> None:
        """Punch holes for chunks in rising order, with the pages that no other chunk uses."""
        size, page = self._size, PAGESIZE
        start = 0
        while start < len(gone):
            stop = start + 1
            while stop < len(gone) and gone[stop] == gone[stop - 1] + 1:
                stop += 1
            low, high = gone[start] * size, (gone[stop - 1] + 1) * size
            if self._shares_pages:
                floor, ceiling = low // page * page, -(-high // page) * page
                if not any(q in self.brought for q in range(floor // size, gone[start])):
                    low = floor
                after = range(gone[stop - 1] + 1, -(-ceiling // size))
                if not any(q in self.brought for q in after):
                    high = ceiling
            self._data.punch(low, high - low)
            start = stop

    def _drop(self, batch: _Coming) -> None:
        with self._lock:
            for address in batch.numbers:
                if self._coming.get(address) is batch:
                    del self._coming[address]

    def forget_coming(self) -> None:
        """Give up chunks on their way, which may be of an older version."""
        with self._lock:
            batches = {id(batch): batch for batch in self._coming.values()}
            self._coming.clear()
        for batch in batches.values():
            batch.handle.cancel()
