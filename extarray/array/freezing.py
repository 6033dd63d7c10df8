"""Freezing: chunks that growth has left behind become compressed blobs; and their thaw.

One thread at a time freezes chunks of an array, in rounds of bounded memory.  A round takes chunks
that were written, encodes their bytes on several threads, appends the blobs to the log, and gives
the chunks their entries; those that were written in the meantime stay raw.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray._core._transfers import freeze_taken, return_changed, take_changed
from extarray.codecs.payloads import Encoded, encode
from extarray.common.config import config
from extarray.common.errors import StorageError
from extarray.common.limits import limits
from extarray.common.threads import run_together
from extarray.grid.chunking import chunks_before, place_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from extarray.array.life import Living
    from extarray.storage.frozen import FrozenChunks

__all__ = ["freeze", "freeze_behind", "thaw"]

# Most chunks of a round, and seconds between looks whether a write has ended.
_MOST, _PAUSE = 1 << 12, 0.001


def freeze(array: Living) -> int:
    """Freeze all raw chunks that have elements; see `ExtArray.freeze`.  Return their number."""
    core: Any = array
    frozen = array._store.now.frozen_chunks
    with array._writers.committing:
        size = array._store.now.state.data_bytes
        everything = np.arange(chunks_before(size, array.chunk_bytes))
        raw = everything[frozen.entries(everything) == 0]
        return_changed(core, raw)
        return _freeze(array, frozen, lambda addresses: np.ones(len(addresses), bool), True)


def freeze_behind(array: Living) -> int:
    """Freeze the chunks whose elements were all written, and not lately; return their number."""
    frozen = array._store.now.frozen_chunks
    return _freeze(array, frozen, lambda addresses: _are_complete(array, addresses), False)


def thaw(array: Living) -> None:
    """Give all frozen chunks their raw bytes back; see `ExtArray.thaw`."""
    core: Any = array
    n = chunks_before(array._store.now.state.data_bytes, array.chunk_bytes)
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
    frozen: FrozenChunks,
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
            inside = taken < chunks_before(now.state.data_bytes, array.chunk_bytes)
            if now.held is not None:  # growth that may still be taken back
                inside[:] = False
            chosen = taken[inside]
            chosen = chosen[choose(chosen)]
            if len(chosen):
                blobs = _encoded(array, frozen, chosen)
                n_bytes = sum(frozen.bytes_of(encoded) for _, encoded in blobs)
                with array._writers.committing:
                    if frozen.renewals == renewals and not array.closed:
                        frozen.make_room(array.axial.size, n_bytes)
                        entries = frozen.append(blobs)
                        done = chosen[freeze_taken(core, chosen, entries)]
                        frozen.note_frozen(done)
                        n_frozen += len(done)
                        left = np.setdiff1d(taken, done)
        finally:
            return_changed(core, left)


def _encoded(
    array: Living, frozen: FrozenChunks, addresses: NDArray[np.int64]
) -> list[tuple[int, Encoded]]:
    """Return the raw bytes of chunks as the codec has them."""
    now, size = array._store.now, array.chunk_bytes
    itemsize = now.header.dtype.itemsize
    found: list[tuple[int, Encoded]] = []
    left = iter(addresses.tolist())
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                address = next(left, None)
            if address is None:
                return
            chunk = memoryview(bytearray(size))
            if now.data.read_into(chunk, place_of(address, size)) < size:
                raise StorageError(5, f"'{now.path}.xta' was truncated in the meantime")
            result = address, encode(frozen.codec, chunk, itemsize)
            with lock:
                found.append(result)

    n = max(1, min(config.threads, len(addresses) * size // limits.share_bytes))
    run_together([work] * n)
    return sorted(found, key=lambda blob: blob[0])
