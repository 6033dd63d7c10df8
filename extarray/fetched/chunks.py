"""The provider of the chunks of an array elsewhere: it fetches them, and keeps some on their way.

A chunk is written to the shadow file as a whole, once all of its bytes are there.
"""

from __future__ import annotations

import contextlib
import threading
from mmap import PAGESIZE
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from extarray.common.config import config
from extarray.common.errors import StorageError
from extarray.common.threads import run_together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from extarray.fetched.cache import DiskCache
    from extarray.fetched.shadow import Shadow

__all__ = ["Chunks", "Origin", "Version"]

# Calls of `provide`, beyond one for each chunk on its way, after which chunks that were foretold,
# but never asked for, are given up.
_PATIENCE = 32


class Handle(Protocol):
    """Chunks that are on their way."""

    def result(self) -> Sequence[Any]:
        """Wait for them, and return them.

        In place of the bytes of a chunk, there may be a function that returns them, and may write
        them to the room for a chunk that it is given.
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
    """

    number: int
    is_sure: bool

    def vouches_for(self, brought: Version | None) -> bool:
        """Tell whether chunks of a version that was brought are as they are now."""
        return brought is not None and brought.number == self.number and brought.is_sure


class Origin(Protocol):
    """The place from which chunks come."""

    @property
    def version(self) -> Version | None:
        """The version whose chunks come next; None: whatever there is."""

    def fetch(self, addresses: NDArray[np.int64]) -> tuple[Sequence[Any], Version | None]:
        """Return chunks, as `Handle.result` does, and the version that they belong to."""

    def start(self, addresses: NDArray[np.int64]) -> Handle:
        """Begin to fetch chunks of the present version."""

    def n_threads(self, n_chunks: int) -> int:
        """Return how many threads are worth it for the functions of so many chunks."""


class _Coming:
    """Chunks on their way, and the number of calls of `provide` before they began to come."""

    def __init__(
        self, addresses: list[int], handle: Handle, version: Version | None, begun: int
    ) -> None:
        self.addresses, self.version, self.begun = addresses, version, begun
        self._handle = handle
        self._lock = threading.Lock()

    def result(self) -> Sequence[Any]:
        """Wait for the chunks, in any number of threads, and return them."""
        with self._lock:
            return self._handle.result()

    def cancel(self) -> None:
        """Give the chunks up."""
        self._handle.cancel()


def _number(version: Version | None) -> int:
    return -1 if version is None else version.number


class Chunks:
    """A provider that writes chunks to a shadow file.

    Parameters
    ----------
    data : Shadow
    chunk_bytes : int
    origin : Origin
    bound : int
        Bytes of chunks that may be present.

    Attributes
    ----------
    brought : dict
        The version of each present chunk, by address.
    cache : DiskCache or None
        Where chunks of the version `cached` are kept on the disk.
    """

    def __init__(self, data: Shadow, chunk_bytes: int, origin: Origin, bound: int) -> None:
        self._data, self._size, self._origin, self._bound = data, chunk_bytes, origin, bound
        self.brought: dict[int, Version | None] = {}
        self.cache: DiskCache | None = None
        self.cached: int | None = None
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
            batches: dict[int, _Coming] = {}
            for address in left:
                batch = self._coming.pop(address, None)
                if batch is not None and address not in self.brought:
                    batches[id(batch)] = batch
        for batch in batches.values():
            try:
                found = batch.result()
            except StorageError:  # fetched again below, which knows what to do
                self._drop(batch)
                continue
            wanted = set(left)
            mine = [(q, b) for q, b in zip(batch.addresses, found, strict=True) if q in wanted]
            self._write([q for q, _ in mine], [b for _, b in mine], batch.version)
            left = [q for q in left if q not in {q for q, _ in mine}]
        if left and self.cache is not None and _number(self._origin.version) == self.cached:
            # Present ones are to be renewed.
            absent = [q for q in left if q not in self.brought]
            version = self._origin.version
            kept = self.cache.get(np.array(absent, np.int64))
            self._write(list(kept), list(kept.values()), version, keeps=False)
            left = [q for q in left if q not in kept]
        if left:
            chunks, version = self._origin.fetch(np.array(left, np.int64))
            self._write(left, chunks, version)

    def ahead(self, addresses: NDArray[np.int64]) -> None:
        """Begin to fetch chunks, as far as memory allows; see `Provider`."""
        most = min(config.max_memory, self._bound) // self._size
        if self.cache is not None:
            addresses = addresses[~self.cache.has(addresses)]
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
            batch = _Coming(wanted, handle, self._origin.version, self._n_calls)
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
        self,
        addresses: list[int],
        chunks: Sequence[Any],
        version: Version | None,
        keeps: bool = True,
    ) -> None:
        """Write chunks to the shadow file, and keep them on the disk."""
        cache = self.cache if keeps and self.cached == _number(version) else None
        items = zip(addresses, chunks, strict=True)
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
                        cache.put([address], [chunk])
                with self._lock if self._shares_pages else contextlib.nullcontext():
                    self._data.write(chunk, address * self._size)
                    self.brought[address] = version

        n_threads = min(len(addresses), self._origin.n_threads(len(addresses)))
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
            for address in batch.addresses:
                if self._coming.get(address) is batch:
                    del self._coming[address]

    def forget_coming(self) -> None:
        """Give up chunks on their way, which may be of an older version."""
        with self._lock:
            batches = {id(batch): batch for batch in self._coming.values()}
            self._coming.clear()
        for batch in batches.values():
            batch.cancel()
