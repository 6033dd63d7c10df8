"""Freezing: chunks that growth has left behind become compressed blobs; and their thaw.

One thread at a time freezes chunks of an array, in rounds of bounded memory.  A round takes chunks
that were written, encodes their bytes on several threads, appends the blobs to the log, and gives
the chunks their entries; those that were written in the meantime stay raw.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
import weakref
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray._core._transfers import freeze_taken, return_changed, take_changed
from extarray.codecs._filters import is_constant
from extarray.codecs.payloads import Encoded, encode
from extarray.common.config import config
from extarray.common.errors import LockedError, StorageError
from extarray.common.limits import limits
from extarray.common.system import after_fork_in_child
from extarray.common.threads import run_together
from extarray.format.blobs import FILL
from extarray.grid.chunking import chunks_before, place_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from extarray.array.life import Living
    from extarray.storage.store import Frozen

__all__ = ["freeze", "freeze_at_end", "notice", "thaw"]

# Most chunks of a round, and seconds between looks whether a write has ended.
_MOST, _PAUSE = 1 << 12, 0.001
# Seconds from a growth to the look at what it has left behind.
_DELAY = 0.02


def freeze(array: Living) -> int:
    """Freeze all raw chunks that have elements; see `ExtArray.freeze`.  Return their number."""
    core: Any = array
    frozen = _table(array)
    with array._writers.committing:
        size = _data_bytes(array)
        everything = np.arange(chunks_before(size, array.chunk_bytes))
        raw = everything[frozen.entries(everything) == 0]
        return_changed(core, raw)
        return _freeze(array, frozen, lambda addresses: np.ones(len(addresses), bool), True)


def freeze_at_end(array: Living) -> None:
    """Freeze what is left, if the array says so, and bring all to the disk.

    Only then do raw bytes of frozen chunks give their space back.
    """
    frozen = _table(array)
    if not frozen.may_freeze:
        return
    if frozen.codec is not None and frozen.policy != "never":
        with contextlib.suppress(LockedError):
            freeze(array)
    if not frozen.is_settled:
        store: Any = array._store
        store.flush()


def _freeze_behind(array: Living) -> None:
    """Freeze the chunks whose elements were all written, and that no write has thawed."""
    frozen = _table(array)

    def choose(addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
        return _are_complete(array, addresses) & ~np.isin(addresses, list(frozen.thawed))

    _freeze(array, frozen, choose, False)


def thaw(array: Living) -> None:
    """Give all frozen chunks their raw bytes back; see `ExtArray.thaw`."""
    core: Any = array
    n = chunks_before(_data_bytes(array), array.chunk_bytes)
    step = max(1, config.max_memory // (4 * array.chunk_bytes))
    for first in range(0, n, step):
        some = np.arange(first, min(n, first + step))
        core._thaw_chunks(some)


def _are_complete(array: Living, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which chunks lie inside the bounds as a whole, so that no growth writes to them."""
    state, chunks = array._store.now.state, array.chunks
    index = np.asarray(array.axial.indices(addresses))
    first = index * chunks - np.array(state.offset)
    found: NDArray[np.bool_] = np.all(
        (first >= 0) & (first + np.array(chunks) <= np.array(state.shape)), axis=1
    )
    return found


def _freeze(
    array: Living,
    frozen: Frozen,
    choose: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
    waits: bool,
) -> int:
    """Freeze chunks that were written and are chosen; return their number.

    `waits`: a write under way is awaited; otherwise it ends the work.
    """
    core: Any = array
    now = array._store.now
    first, n_frozen = 0, 0
    most = max(1, min(_MOST, config.max_memory // (4 * array.chunk_bytes)))
    while True:
        with frozen.freezing() as is_alone:
            if not is_alone:
                if not waits:
                    return n_frozen
                raise LockedError(
                    errno.EAGAIN,
                    "other processes have it open to write elements (share='elements'), and could "
                    "do that while chunks are frozen; freeze them when those have closed it",
                    str(array.path),
                )
            renewals = frozen.renewals
            taken = take_changed(core, first, most)
            if taken is None:
                if not waits:
                    return n_frozen
                time.sleep(_PAUSE)
                continue
            if not len(taken):
                return n_frozen
            first = int(taken[-1]) + 1
            left = taken
            try:
                inside = taken < chunks_before(_data_bytes(array), array.chunk_bytes)
                if now.held is not None:  # growth that may still be taken back
                    inside[:] = False
                chosen = taken[inside]
                chosen = chosen[choose(chosen)]
                if len(chosen):
                    words = _words(array, frozen, chosen)
                    with array._writers.committing:
                        if frozen.renewals == renewals and not array.closed:
                            frozen.announce(chosen)
                            decoded = now.decoded
                            assert decoded is not None
                            decoded.look()
                            done = chosen[freeze_taken(core, chosen, words)]
                            n_frozen += len(done)
                            left = np.setdiff1d(taken, done)
            finally:
                return_changed(core, left)


def _words(array: Living, frozen: Frozen, addresses: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Append blobs of raw chunks to the log, and return the words that lead to them."""
    now: Any = array._store.now
    size, itemsize, fill = array.chunk_bytes, array.itemsize, now.header.fill
    codec = frozen.codec
    assert codec is not None
    encoded: list[Encoded | None] = [None] * len(addresses)
    left = iter(enumerate(addresses.tolist()))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number, address = next(left, (-1, 0))
            if number < 0:
                return
            chunk = memoryview(bytearray(size))
            if now.data.read_into(chunk, place_of(address, size)) < size:
                raise StorageError(errno.EIO, f"'{now.path}.xta' was truncated in the meantime")
            if chunk[:itemsize] != fill or not is_constant(chunk, itemsize):
                encoded[number] = encode(codec, chunk, itemsize)

    n = max(1, min(config.threads, len(addresses) * size // limits.coded_bytes))
    run_together([work] * n)
    words = np.full(len(addresses), FILL, np.uint64)
    kept = [number for number, one in enumerate(encoded) if one is not None]
    words[kept] = frozen.append(addresses[kept], [one for one in encoded if one is not None])
    return words


def _table(array: Living) -> Frozen:
    frozen: Frozen | None = array._store.now.frozen
    assert frozen is not None
    return frozen


def _data_bytes(array: Living) -> int:
    state: Any = array._store.now.state
    return int(state.data_bytes)


# -- in the background -----------------------------------------------------------------------------


class _Worker:
    """A thread that freezes what the arrays of this process have left behind."""

    def __init__(self) -> None:
        self._noticed: SimpleQueue[weakref.ref[Any]] = SimpleQueue()
        self._waiting: set[int] = set()  # ids of arrays in the queue
        threading.Thread(target=self._run, name="extarray-freezer", daemon=True).start()

    def notice(self, array: Any) -> None:
        """Look at an array soon."""
        if id(array) not in self._waiting:
            self._waiting.add(id(array))
            self._noticed.put(weakref.ref(array))

    def _run(self) -> None:
        while True:
            found = self._noticed.get()
            time.sleep(_DELAY)
            array = found()
            self._waiting.discard(id(array))
            if array is not None and not array.closed:
                # What cannot be frozen now stays raw; an error that lasts shows at the next write.
                with contextlib.suppress(Exception):
                    _freeze_behind(array)
            del array


_worker: _Worker | None = None


def _forget() -> None:
    global _worker
    _worker = None


after_fork_in_child(_forget)


def notice(array: Living) -> None:
    """Let chunks that a growth has left behind be frozen in the background."""
    global _worker
    frozen = array._store.now.frozen
    if frozen is None or not frozen.may_freeze or frozen.policy != "behind" or frozen.codec is None:
        return
    if _worker is None:
        _worker = _Worker()
    _worker.notice(array)
