"""Freezing: chunks that growth has left behind become compressed blobs; and their thaw.

It goes in rounds of bounded memory.  A round takes chunks that were written, encodes their bytes on
several threads, appends the blobs to the log, and gives the chunks their entries; those that were
written in the meantime stay raw.  One thread at a time takes and encodes chunks, without the lock
for commits; any thread that has this lock ends the rounds that were encoded.  A chunk that is taken
again leaves its earlier round, whose blob is stale.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
import weakref
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from extarray._core._transfers import freeze_taken, return_changed, take_changed, thaw_chunks
from extarray.array.facts import check, check_sole, freezable
from extarray.codecs._filters import is_constant
from extarray.codecs.payloads import Encoded, encode
from extarray.common.config import config
from extarray.common.errors import ArgumentError, ExtArrayError, LockedError
from extarray.common.limits import limits
from extarray.common.on_error import OnError
from extarray.common.system import after_fork_in_child
from extarray.common.threads import run_together
from extarray.format.blobs import FILL
from extarray.grid.chunking import chunks_before, place_of
from extarray.grid.order import sides_in_memory
from extarray.storage.filesystem import family

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from extarray.array.facts import Stored
    from extarray.codecs.codec import Codec
    from extarray.format.header import Header
    from extarray.storage.filesystem import File
    from extarray.storage.store import Frozen

__all__ = [
    "Hands",
    "append_blobs",
    "chunks_at_once",
    "encode_chunks",
    "freeze",
    "freeze_at_end",
    "freeze_chosen",
    "has_left",
    "notice",
    "thaw",
]

# Most chunks of a round; most bytes of them, unless one has more; seconds between looks whether a
# write has ended.
_MOST, _ROUND_BYTES, _PAUSE = 1 << 12, 1 << 24, 0.001
# Seconds from a growth to the look at what it has left behind.
_DELAY = 0.02
# Seconds after an error, so that a full disk does not have the same chunks encoded all the time.
_REST = 0.5


class Hands(Protocol):
    """The processes that freeze: they encode the chunks of a round, and write their blobs."""

    @property
    def number(self) -> int:
        """Their number; each takes chunks of a round."""

    def append(
        self, array: Stored, frozen: Frozen, addresses: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """Append blobs of raw chunks to the log, and return the words that lead to them."""


class _OwnHands:
    """One process, on its threads."""

    number = 1

    def append(
        self, array: Stored, frozen: Frozen, addresses: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        return append_blobs(array, frozen, addresses)


_OWN = _OwnHands()


def freeze(array: Stored, hands: Hands = _OWN, but: NDArray[np.int64] | None = None) -> int:
    """Freeze all raw chunks that have elements; see `ExtArray.freeze`.  Return their number.

    `but`: chunks that stay raw.
    """
    core: Any = array
    with array._writers.committing:
        frozen = _table(array)
        check_sole(array, f"freeze chunks of {array._name()}")
        if frozen.codec is None:
            raise ArgumentError(
                f"chunks of {array._name()} cannot be frozen: its compression is None; set it first"
            )
        with frozen.encoding:
            pass  # let a round in the background end
        n_frozen = _finish_rounds(array, frozen)
        return_changed(core, _raw(array, frozen))
        choose = partial(np.isin, test_elements=[] if but is None else but, invert=True)
        return n_frozen + _freeze(array, frozen, choose, True, hands)


def freeze_chosen(array: Stored, addresses: NDArray[np.int64]) -> int:
    """Freeze chunks that the caller keeps stores out of; return the number of those that are."""
    frozen = _table(array)
    with array._writers.committing:
        n_frozen = _freeze(array, frozen, lambda found: np.isin(found, addresses), True)
    _free(array, frozen)
    return n_frozen


def freeze_at_end(array: Stored) -> None:
    """Freeze what is left, if the array says so, and bring all to the disk.

    Only then do raw bytes of frozen chunks give their space back.  What cannot be frozen stays
    raw: the disk is full, the library of the codec is missing, blobs would be too large.
    """
    frozen = _table(array)
    if not frozen.may_freeze:
        return
    if _freezes_at_end(frozen):
        with contextlib.suppress(OSError, ExtArrayError, MemoryError):
            freeze(array)
    if not frozen.is_settled:
        store: Any = array._store
        store.flush()


def has_left(array: Stored) -> bool:
    """Tell whether the end of a writer freezes chunks: some are raw, and the array says so."""
    frozen = _table(array)
    return _freezes_at_end(frozen) and bool(len(_raw(array, frozen)))


def _freezes_at_end(frozen: Frozen) -> bool:
    return frozen.may_freeze and frozen.policy != "never" and frozen.codec is not None


def _raw(array: Stored, frozen: Frozen) -> NDArray[np.int64]:
    """Return the addresses of raw chunks that have elements."""
    addresses = np.arange(chunks_before(_data_bytes(array), array.chunk_bytes))
    found: NDArray[np.int64] = addresses[frozen.entries(addresses) == 0]
    return found


def _freeze_behind(array: Stored) -> None:
    """Freeze the chunks whose elements were all written, and that no write has thawed."""
    frozen = _table(array)

    def choose(addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
        return _are_complete(array, addresses) & ~_are_thawed(frozen, addresses)

    _freeze(array, frozen, choose, False)
    _free(array, frozen)


def thaw(array: Stored) -> None:
    """Give all frozen chunks their raw bytes back; see `ExtArray.thaw`."""
    core: Any = array
    n = chunks_before(_data_bytes(array), array.chunk_bytes)
    step = max(1, config.max_memory // (4 * array.chunk_bytes))
    for first in range(0, n, step):
        some = np.arange(first, min(n, first + step))
        thaw_chunks(core, some)


def _free(array: Stored, frozen: Frozen) -> None:
    """Flush, and so make holes of frozen chunks, if they keep much space by now."""
    if frozen.bytes_to_free >= limits.unfreed_bytes:
        # Bring most to the disk while appends go on: a flush stops them.
        now: Any = array._store.now
        now.data.datasync()
        array._writers.flush(array)


def _are_complete(array: Stored, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which chunks lie inside the bounds as a whole, so that no growth writes to them."""
    state, chunks = array._store.now.state, array.chunks
    index = np.asarray(array.axial.indices(addresses))
    first = index * chunks - np.array(state.offset)
    found: NDArray[np.bool_] = np.all(
        (first >= 0) & (first + np.array(chunks) <= np.array(state.shape)), axis=1
    )
    return found


def _are_thawed(frozen: Frozen, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which chunks this session has thawed, of which there may be many more."""
    thawed = frozen.thawed
    return np.array([address in thawed for address in addresses.tolist()], np.bool_)


def _freeze(
    array: Stored,
    frozen: Frozen,
    choose: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
    waits: bool,
    hands: Hands = _OWN,
) -> int:
    """Freeze chunks that were written and are chosen; return their number.

    `waits`: a write under way is awaited; otherwise it ends the work.
    """
    first, n_frozen = 0, 0
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
            with frozen.encoding:
                found = _encode_round(array, frozen, choose, first, hands)
            # The thread in the background may have taken chunks just before.  With `waits`, its
            # round ends here, too: the caller may be about to close the array.
            if found is not None and (waits or len(found)):
                with array._writers.committing:
                    n_frozen += _finish_rounds(array, frozen)
                if len(found):
                    first = int(found[-1]) + 1
                    continue
        if found is not None or not waits:
            return n_frozen
        time.sleep(_PAUSE)


class _Round:
    """Chunks that were taken, and the words of those that were chosen and encoded."""

    def __init__(
        self,
        taken: NDArray[np.int64],
        chosen: NDArray[np.int64],
        words: NDArray[np.uint64],
        renewals: int,
    ) -> None:
        self.taken, self.chosen, self.words, self.renewals = taken, chosen, words, renewals

    def drop(self, addresses: NDArray[np.int64]) -> None:
        """Leave chunks to a later round, which has taken them again."""
        self.taken = np.setdiff1d(self.taken, addresses)
        stay = ~np.isin(self.chosen, addresses)
        self.chosen, self.words = self.chosen[stay], self.words[stay]


def _encode_round(
    array: Stored,
    frozen: Frozen,
    choose: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
    first: int,
    hands: Hands = _OWN,
) -> NDArray[np.int64] | None:
    """Take chunks from the address `first` on, and encode those that are chosen.

    Return the taken ones; None during a write, or while ranks freeze.
    """
    if frozen.ranks_freeze and hands is _OWN:
        return None
    core: Any = array
    now, size = array._store.now, array.chunk_bytes
    renewals = frozen.renewals
    with frozen.taking:
        taken = take_changed(core, first, hands.number * chunks_at_once(array))
        if taken is None or not len(taken):
            return taken
        for earlier in frozen.encoded:  # these chunks were written since
            earlier.drop(taken)
    with OnError(return_changed, core, taken):
        inside = taken < min(frozen.reach, chunks_before(_data_bytes(array), size))
        inside &= frozen.entries(taken) == 0
        if now.held is not None:  # growth that may still be taken back
            inside[:] = False
        chosen = taken[inside]
        chosen = _undamaged(array, chosen[choose(chosen)])
        words = hands.append(array, frozen, chosen)
    frozen.encoded.append(_Round(taken, chosen, words, renewals))
    return taken


def _finish_rounds(array: Stored, frozen: Frozen) -> int:
    """Give encoded chunks their words, unless they were written meanwhile; return their number.

    The caller holds the lock for commits, so a thread that waits for it, to freeze what it has
    encoded, finds this done.
    """
    core: Any = array
    n_frozen = 0
    with frozen.taking:
        while frozen.encoded:
            found = frozen.encoded.pop()
            try:
                is_same = array._store.now.frozen is frozen and frozen.renewals == found.renewals
                if len(found.chosen) and is_same and not array.closed:
                    frozen.announce(found.chosen)
                    decoded = array._store.now.decoded
                    assert decoded is not None
                    decoded.look()
                    n_frozen += int(freeze_taken(core, found.chosen, found.words).sum())
            finally:
                # Whatever is frozen has bytes elsewhere, and the raw place may be a hole.  Thawed
                # chunks stay raw until `freeze`, which looks at all raw ones: each later round
                # would only take them again.
                left = frozen.entries(found.taken) == 0
                left &= ~_are_thawed(frozen, found.taken)
                return_changed(core, found.taken[left])
    return n_frozen


def _undamaged(array: Stored, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the raw chunks that match their checksums: blobs would hide damage (I11)."""
    core: Any = array
    store: Any = array._store
    unknown = np.sort(np.array(core._unverified(addresses), np.int64))
    if not len(unknown):
        return addresses
    left = np.union1d(*store.chunk_sums.unfit_chunks(unknown))
    core._know(np.setdiff1d(unknown, left))
    return np.setdiff1d(addresses, left)


def chunks_at_once(array: Stored) -> int:
    """Return how many chunks are frozen at a time."""
    return max(1, min(_MOST, _ROUND_BYTES // array.chunk_bytes))


def append_blobs(array: Stored, frozen: Frozen, addresses: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Append blobs of raw chunks to the log, and return the words that lead to them."""
    now: Any = array._store.now
    codec = frozen.codec
    assert codec is not None
    encoded = encode_chunks(now.data, now.path, now.header, codec, addresses)
    words = np.full(len(addresses), FILL, np.uint64)
    kept = [number for number, one in enumerate(encoded) if one is not None]
    words[kept] = frozen.append(addresses[kept], [one for one in encoded if one is not None])
    return words


def encode_chunks(
    data: File, path: Path, header: Header, codec: Codec, addresses: NDArray[np.int64]
) -> list[Encoded | None]:
    """Encode raw chunks of ``.xta``, on several threads; None: the fill value everywhere."""
    size, itemsize, fill = header.chunk_bytes, header.dtype.itemsize, header.fill
    encoded: list[Encoded | None] = [None] * len(addresses)
    sides = sides_in_memory(header.chunks, header.order)
    left = iter(enumerate(addresses.tolist()))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number, address = next(left, (-1, 0))
            if number < 0:
                return
            chunk = memoryview(bytearray(size))
            with family("cannot read '{}'", f"{path}.xta"):
                if data.read_into(chunk, place_of(address, size)) < size:
                    raise OSError(errno.EIO, "it was truncated in the meantime")
            if chunk[:itemsize] != fill or not is_constant(chunk, itemsize):
                encoded[number] = encode(codec, chunk, itemsize, sides)

    n = max(1, min(config.threads, len(addresses) * size // limits.coded_bytes))
    run_together([work] * n)
    return encoded


def _table(array: Stored) -> Frozen:
    frozen: Frozen | None = freezable(array)._store.now.frozen
    if frozen is None:  # closed just now
        check(array)
    assert frozen is not None
    return frozen


def _data_bytes(array: Stored) -> int:
    state: Any = array._store.now.state
    return int(state.data_bytes)


# -- in the background -----------------------------------------------------------------------------


class _Worker:
    """A thread that freezes what the arrays of this process have left behind."""

    def __init__(self) -> None:
        self._noticed: SimpleQueue[tuple[int, weakref.ref[Any]]] = SimpleQueue()
        self._waiting: set[int] = set()  # ids of arrays in the queue, as they may have no hash
        threading.Thread(target=self._run, name="extarray-freezer", daemon=True).start()

    def awaits(self, array: Any) -> bool:
        """Tell whether it will look at an array soon."""
        return id(array) in self._waiting

    def notice(self, array: Any) -> None:
        """Look at an array soon."""
        self._waiting.add(id(array))
        self._noticed.put((id(array), weakref.ref(array)))

    def _run(self) -> None:
        while True:
            number, found = self._noticed.get()
            time.sleep(_DELAY)
            array = found()
            self._waiting.discard(number)
            has_failed = False
            if array is not None and not array.closed:
                try:
                    _freeze_behind(array)
                except Exception:  # noqa: BLE001 -- what cannot be frozen now stays raw
                    has_failed = True  # an error that lasts shows at the next write
            del array
            if has_failed:
                time.sleep(_REST)


_worker: _Worker | None = None


def _forget() -> None:
    global _worker
    _worker = None


after_fork_in_child(_forget)


def notice(array: Stored) -> None:
    """Let chunks that a growth has left behind be frozen in the background."""
    global _worker
    if _worker is not None and _worker.awaits(array):  # for many a growth, all that it costs
        return
    frozen = array._store.now.frozen
    if frozen is None or not frozen.may_freeze or frozen.policy != "behind" or frozen.codec is None:
        return
    if _worker is None:
        _worker = _Worker()
    _worker.notice(array)
