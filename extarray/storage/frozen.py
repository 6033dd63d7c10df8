"""Frozen chunks of a pair of files that grows: the order in which table and log change.

A chunk is *raw*, at its place in ``.xta``, or *frozen*: a blob of the log, which is never
overwritten.  The table in ``.xmd`` says which, by address, in two words (see ``format.frozen``).

Each rule serves a kill or a power cut (I15).  A blob is in its file before the live word leads to
it.  A flush brings log and ``.xta`` to the disk, then lets the durable words follow, then brings
``.xmd`` to the disk, and only then makes holes of frozen chunks.  A thaw brings the raw bytes to
the disk before it clears the live word.  So a live word whose blob is lost can give way to the
durable one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from extarray._core._file import UNSUPPORTED
from extarray._core._mapping import Counter
from extarray.codecs.codec import Codec
from extarray.codecs.payloads import encode
from extarray.common.errors import (
    ChecksumError,
    CorruptError,
    LimitError,
    MissingExtraError,
    PartnerError,
    ReplacedError,
    StorageError,
)
from extarray.common.on_error import OnError
from extarray.common.system import boot_id
from extarray.format.blobs import (
    FILE_HEAD_BYTES,
    FILL,
    UNIT,
    encode_entry_of_blob,
)
from extarray.format.blocks import BlockKind, Place
from extarray.format.frozen import (
    ENTRY_BYTES,
    RAW,
    TABLE_ALIGNMENT,
    TABLE_WORDS,
    check_log_head,
    decode_frozen_block,
    encode_frozen_block,
    extent_bytes,
    extents_of,
    move_blob,
    places_of_words,
)
from extarray.grid.chunking import place_of
from extarray.grid.order import sides_in_memory
from extarray.storage import lock
from extarray.storage.filesystem import File, family
from extarray.storage.frozen_blobs import FrozenBlobs, NewLog, bytes_in_log, write_blobs
from extarray.storage.frozen_words import reserve_extent
from extarray.storage.names import open_log
from extarray.storage.pair import Pair
from extarray.storage.states import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from extarray.codecs.payloads import Encoded
    from extarray.format.blobs import BlobsBlock
    from extarray.format.header import Header
    from extarray.storage.commits import Committer

__all__ = ["HANDED_ON", "FrozenTable"]

#: Flag in the number of freezes of a replaced ``.xmd``: its successor has the table now.
HANDED_ON = 1 << 63


class Rest(Protocol):
    """The blocks of a chunk that are neither in its memory nor written to."""

    def encoded(self, codec: Codec) -> Encoded | None:
        """Return the chunk with these blocks as they are; None: they must be decoded for it."""

    def want(self, box: None) -> None:
        """Decode them."""


class FrozenTable(FrozenBlobs):
    """The table of frozen chunks of an open pair of files, and the log of their blobs.

    Made by `create`, `load` and `successor`.  Threads may call everything at the same time, but the
    caller keeps stores out of chunks that it freezes, and out of frozen ones.

    Attributes
    ----------
    freezes : Counter
        Number of freezes; `HANDED_ON` is set in it if another ``.xmd`` has the table, or takes it
        just now: see `latest`.  A reader of raw bytes compares it before and after.
    thawed : set of int
        Chunks that this session has thawed.
    renewals : int
        How many times chunks outside the bounds were made ready for growth.
    encoding : Lock
        Held while chunks are taken and encoded.
    taking : Lock
        Held while notes of written chunks are taken, or looked at.
    encoded : list
        Rounds of chunks that wait for their words.
    may_freeze : bool
        False in processes that only thaw, beside the writer or other ones.
    forget : callable or None
        Called with addresses before their raw bytes become holes.
    """

    def __init__(
        self,
        pair: Pair,
        metadata: File,
        at: int,
        block: BlobsBlock,
        log: File,
        header: Header | None = None,
    ) -> None:
        super().__init__(pair, metadata, at, block, pair.header if header is None else header, log)
        self.forget: Callable[[NDArray[np.int64]], object] | None = None
        self.renewals = 0
        self.encoding, self.taking = threading.Lock(), threading.Lock()
        self.ranks_freeze = False
        self.encoded: list[Any] = []
        self.may_freeze = True
        self._keeps_blobs = False  # later metadata are in the making, or have the table
        self._next: FrozenTable | None = None  # the table of later metadata
        self.thawed: set[int] = set()
        self._counting, self._n_freezing = threading.Lock(), 0  # of blocks of `freezing`
        # Addresses whose live word is newer than their durable one, frozen ones that may have raw
        # bytes, words on the disk that durable words shall follow, those that have.
        self._dirty: set[int] = set()
        self._unpunched: set[int] = set()
        self._synced: dict[int, int] = {}
        self._settled: set[int] = set()
        self._synced_end = 0
        with metadata as fd:
            is_mapped = self._is_mapped and pair.engine == "mmap"
            self.freezes = Counter.file(fd, self._header.freezes_offset, is_mapped)

    # -- beginnings ------------------------------------------------------------------------------

    @classmethod
    def create(cls, pair: Pair, commits: Committer, uuid: bytes) -> FrozenTable:
        """Add the block to a new pair, whose ``.xtz`` has its head."""
        at = commits.ensure_block(BlockKind.BLOBS)
        size = pair.blobs.length
        block = encode_frozen_block(uuid, size, size, [], pair.header.uuid)
        pair.metadata.write(block, at)
        found = decode_frozen_block(block, pair.header, pair.metadata.length)
        assert found is not None
        self = cls(pair, pair.metadata, at, found, pair.blobs)
        self._end = size
        return self

    @classmethod
    def load(
        cls, pair: Pair, at: int, block: BlobsBlock, n_chunks: int, joins: bool = False
    ) -> FrozenTable:
        """Take over the table of an open pair, mended where a power cut has lost blobs.

        A live word beyond the end of the log on the disk that leads to no whole blob gives way to
        the durable one.  `joins`: a writer that is at work has done this, and may thaw just now.

        Raises
        ------
        CorruptError
            ``.xtz`` has no head, or that of another file.
        """
        check_log_head(pair.blobs.read(FILE_HEAD_BYTES, 0), block.uuid)
        self = cls(pair, pair.metadata, at, block, pair.blobs)
        length = pair.blobs.length
        self._end = max(-(-length // UNIT) * UNIT, block.given)
        self._seen = pair.state.sequence
        if joins:
            return self
        is_known = pair.told_place() == Place(boot_id(), *pair.data.identity())
        if pair.mode == "r+":
            if self.number & HANDED_ON:  # by a writer that ended before other metadata had the name
                self.take_back()
            self.clear_from(n_chunks)
        self._look_through(is_known and any(boot_id()), length)
        return self

    @classmethod
    def survey(cls, pair: Pair, at: int, block: BlobsBlock) -> FrozenTable:
        """Return the table as it is, for those who examine it."""
        self = cls(pair, pair.metadata, at, block, pair.blobs)
        self._end = pair.blobs.length
        self._look_through(False, self._end)
        return self

    def _look_through(self, is_whole: bool, length: int) -> None:
        """Find words newer than the last flush; mend lost ones, unless all writes are there."""
        lost: list[tuple[int, int]] = []
        size = self._header.chunk_bytes
        for addresses, words in self._written():
            live, durable = words[:, 0], words[:, 1]
            new = live != durable
            self._dirty.update(addresses[new].tolist())
            self._unpunched.update(addresses[new & (live != RAW)].tolist())
            if is_whole:
                continue
            offsets, sizes = places_of_words(live)
            suspect = new & (sizes > 0) & (offsets + sizes > self._size)
            for i in np.flatnonzero(suspect).tolist():
                address = int(addresses[i])
                is_lost = int(offsets[i] + sizes[i]) > length + UNIT
                if not is_lost:
                    try:
                        self.decode(memoryview(bytearray(size)), address, int(live[i]))
                    except ChecksumError:
                        is_lost = True
                if is_lost:
                    lost.append((address, int(durable[i])))
        if not lost:
            return
        if self._pair.mode == "r+":
            found, words = (np.array(side) for side in zip(*lost, strict=True))
            self.store_live(found.astype(np.int64), words.astype(np.uint64))
        else:
            self._mended = dict(lost)
            self._cover_mended()

    # -- words -----------------------------------------------------------------------------------

    @property
    def codec(self) -> Codec | None:
        """The codec of chunks that are frozen from now on; None: none are."""
        return Codec.parse(self._header.encoding.get("codec"))

    @property
    def policy(self) -> str:
        """The time to freeze chunks unasked: "behind", "close" or "never"."""
        found = self._header.encoding.get("freeze", "never")
        return found if found in ("behind", "close") else "never"

    @property
    def number(self) -> int:
        """Number of freezes, with the flag `HANDED_ON`."""
        return self.freezes.value

    def store_live(
        self, addresses: NDArray[np.int64], words: NDArray[np.uint64], is_hole: bool = False
    ) -> None:
        """Let the live words of chunks lead to blobs of the log, or to their raw places (0).

        Each word changes in one step.  `is_hole`: the raw places are holes already.

        Raises
        ------
        LimitError
            The table cannot reach the chunks, which stay raw.
        StorageError
            There is no space for the words.
        """
        addresses = np.asarray(addresses, np.int64)
        words = np.broadcast_to(np.asarray(words, np.uint64), addresses.shape)
        if not len(addresses):
            return
        if int(addresses.max()) >= self.reach:
            raise LimitError(
                f"cannot freeze chunk {int(addresses.max())} of '{self._pair.path}': the file "
                "system has no files large enough for its table"
            )
        with self._lock, family("cannot note frozen chunks of '{}'", self._pair.path):
            if self._next is not None:
                self._next.store_live(addresses, self._moved(addresses, words), is_hole)
                return
            # First: an interrupt must not leave a changed word that no flush looks at.
            self._dirty.update(addresses.tolist())
            if not is_hole:
                self._unpunched.update(addresses[words != RAW].tolist())
            self._store(addresses, words, 0)
            self._unpunched.difference_update(addresses[words == RAW].tolist())

    @property
    def is_settled(self) -> bool:
        """True if all words are on the disk, and no frozen chunk has raw bytes left."""
        return not (self._dirty or self._unpunched or self._synced)

    @property
    def bytes_to_free(self) -> int:
        """Bytes of raw places that the next flush makes holes of."""
        return len(self._unpunched) * self._header.chunk_bytes

    def note_renewal(self) -> None:
        """Count that chunks outside the bounds are made ready for growth."""
        self.renewals += 1

    def announce(self, addresses: NDArray[np.int64]) -> None:
        """Prepare for words that the core stores in the mapped extents.

        Chunks that stay raw after all do no harm.
        """
        with self._lock, family("cannot note frozen chunks of '{}'", self._pair.path):
            self._dirty.update(addresses.tolist())
            self._unpunched.update(addresses.tolist())
            self._forget_durable(addresses)
            numbers, within = extents_of(addresses)
            for number in np.unique(numbers).tolist():
                self._make_ready(number, within[numbers == number])

    def _forget_durable(self, addresses: NDArray[np.int64]) -> None:
        """Let the raw places of chunks count, before they are frozen again, after a power cut.

        Their bytes are on the disk since the thaw.  Another process may have flushed later ones,
        which the durable words of an earlier flush lack.
        """
        durable = self.durable(addresses) != RAW
        old = addresses[durable & (self.entries(addresses) == RAW)]
        self._store(old, np.zeros(len(old), np.uint64), 1)

    def clear_from(self, first: int) -> None:
        """Clear the words of chunks from an address on, which are new when growth reaches them."""
        with self._lock, family("cannot clear the table of '{}'", self._pair.path):
            for addresses, words in self._written(first):
                some = addresses[words.any(axis=1)]
                if len(some):
                    for which in range(TABLE_WORDS):
                        self._store(some, np.zeros(len(some), np.uint64), which)
                    for known in (self._dirty, self._unpunched, self._settled):
                        known.difference_update(some.tolist())
                    for address in some.tolist():
                        self._synced.pop(address, None)

    # -- the log ---------------------------------------------------------------------------------

    def append(
        self, addresses: Sequence[int] | NDArray[np.int64], encoded: Sequence[Encoded]
    ) -> NDArray[np.uint64]:
        """Append blobs of chunks to the log; return the words that lead to them.

        On an error the log is as before.

        Raises
        ------
        LimitError
            The log or a blob would be too large.
        StorageError
            The disk is full.
        """
        with self._lock, family("cannot write to '{}'", f"{self._pair.path}.xtz"):
            later = self._next
            if later is not None and later.uuid == self.uuid:  # the end of the log is its business
                return later.append(addresses, encoded)
            size = bytes_in_log(encoded)
            at = self.claim(size)
            with OnError(self.disclaim, at, size):
                words = write_blobs(self.log, self.uuid, addresses, encoded, at)
            self.keep_claim(at)
        return words

    @contextlib.contextmanager
    def frozen_by_ranks(self) -> Iterator[None]:
        """Let no thread in the background freeze chunks, while ranks do."""
        with self.encoding:
            self.ranks_freeze = True
        try:
            yield
        finally:
            self.ranks_freeze = False

    def _read_raw(self, target: memoryview, address: int) -> None:
        n = self._pair.data.read_into(target, place_of(address, len(target)))
        if n < len(target):
            self._pair.check_length()
            raise StorageError(errno.EIO, "it was truncated", f"{self._pair.path}.xta")

    # -- reading ---------------------------------------------------------------------------------

    def read_into(self, target: memoryview, address: int, verify: bool = True) -> None:
        """Read a chunk, raw or frozen, into as many bytes as it has."""
        while True:
            self._look_afresh()
            number = self.number
            if number & HANDED_ON and (latest := self.latest()) is not self:
                latest.read_into(target, address, verify)
                return
            word = int(self.entries(np.array([address]))[0])
            if word != RAW:
                self.decode(target, address, word, verify)
                return
            self._read_raw(target, address)
            self._look_afresh()
            is_same = self.number == number
            if is_same and (not number & HANDED_ON or self.latest() is self):
                return

    def _look_afresh(self) -> None:
        """Let the next look at ``.xmd`` show what another host has written."""
        if self.asks:
            self._metadata.forget()

    # -- thaws -----------------------------------------------------------------------------------

    def thaw(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Put frozen chunks back to their raw places; return which were frozen.

        Their space comes first, and one synchronization serves all.  On an error every chunk has
        its elements; some may be raw.

        Raises
        ------
        StorageError
            The disk is full.
        """
        pair, size = self._pair, self._header.chunk_bytes
        addresses = np.unique(np.asarray(addresses, np.int64))
        later = self._next
        if later is not None:  # other threads may have thawed chunks by that one
            return later.thaw(addresses)
        addresses = addresses[self.entries(addresses) != RAW]
        if not len(addresses):
            return addresses
        with self._lock, self._thawing(addresses[0], addresses[-1] + 1):
            if self._next is not None:
                return self._next.thaw(addresses)
            words = self.entries(addresses)  # another process may have thawed some
            addresses, words = addresses[words != RAW], words[words != RAW]
            if not len(addresses):
                return addresses
            chunk = memoryview(bytearray(size))
            with family("cannot make room for chunks in '{}'", f"{pair.path}.xta"):
                for start, stop in _in_bytes(addresses, size):
                    failure = pair.data.reserve(start, stop - start)
                    if failure not in (0, UNSUPPORTED):
                        raise OSError(failure, os.strerror(failure))
                for address, word in zip(addresses.tolist(), words.tolist(), strict=True):
                    try:
                        self.decode(chunk, address, word)
                    except ChecksumError as error:
                        raise self.told(error) from None
                    pair.data.write(chunk, place_of(address, size))
                pair.data.datasync()
            self.store_live(addresses, np.zeros(len(addresses), np.uint64))
            self.thawed.update(addresses.tolist())
        return addresses

    def rewrite(
        self,
        addresses: NDArray[np.int64],
        chunks: Sequence[NDArray[np.uint8]],
        rests: Sequence[Rest | None],
    ) -> bool:
        """Give frozen chunks other bytes, in new blobs; False: they must be thawed in place of it.

        Nothing needs to be on the disk before: if a power cut loses the blobs, those of the last
        flush count again.  On an error all chunks are as before.

        Parameters
        ----------
        addresses : ndarray of int64
        chunks : sequence of ndarray of uint8
        rests : sequence of Rest or None
            Of each chunk, the blocks that are neither in its memory nor change.

        Raises
        ------
        StorageError
            The disk is full.
        ChecksumError
            One of the blocks that do not change is damaged.
        """
        itemsize, codec = self._header.dtype.itemsize, self.codec
        if codec is None:
            return False
        sides = sides_in_memory(self._header.chunks, self._header.order)
        encoded = []
        try:
            for chunk, rest in zip(chunks, rests, strict=True):
                found = None if rest is None else rest.encoded(codec)
                if found is None:
                    if rest is not None:
                        rest.want(None)
                    found = encode(codec, memoryview(chunk), itemsize, sides)
                encoded.append(found)
            with self._lock:
                if self._keeps_blobs or (self.entries(addresses) == RAW).any():
                    return False
                # Raw bytes that are left of the time before stay to be given up.
                self.store_live(addresses, self.append(addresses, encoded), True)
        except (LimitError, MissingExtraError):  # of blobs, which raw chunks do without
            return False
        return True

    def let_go(self, first: int, stop: int) -> None:
        """Make chunks raw whose elements nobody needs: their raw places count.

        Those may be holes.  If zero is not the fill value they are filled first, for readers that
        do not know yet that the elements were cut off.
        """
        pair, fill, size = self._pair, self._header.fill, self._header.chunk_bytes
        with self._lock:
            some = self.frozen(first, stop)
            if not len(some):
                return
            with self._thawing(some[0], some[-1] + 1):
                if any(fill):
                    with family("cannot make room for chunks in '{}'", f"{pair.path}.xta"):
                        for start, end in _in_bytes(some, size):
                            pair.data.fill(fill, start, end)
                self.store_live(some, np.zeros(len(some), np.uint64))

    @contextlib.contextmanager
    def _thawing(self, first: int, stop: int) -> Iterator[None]:
        """Keep other processes from thawing chunks; with the lock of threads held."""
        file = self._pair.data
        with contextlib.ExitStack() as stack:
            with family("cannot lock chunks of '{}'", f"{self._pair.path}.xta"):
                stack.enter_context(lock.thawing(file, int(first), int(stop - first)))
            yield

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Keep other processes from writing to chunks; yield whether none may do that now."""
        if not self.may_freeze:
            yield False
            return
        with self.freezing() as is_alone:
            yield is_alone

    @contextlib.contextmanager
    def freezing(self) -> Iterator[bool]:
        """Keep processes that write elements from coming; yield whether none is there.

        Whoever freezes chunks holds this from the reading of their elements on, and whoever makes
        holes: otherwise another process could store to a chunk meanwhile, or thaw it.
        """
        file = self._pair.data
        with self._counting, family("cannot lock '{}'", f"{self._pair.path}.xta"):
            is_alone = lock.begin_freezing(file)
            self._n_freezing += is_alone
            if not self._n_freezing:
                lock.end_freezing(file)
        try:
            yield is_alone
        finally:
            with self._counting:
                self._n_freezing -= is_alone
                if not self._n_freezing and not file.closed:
                    lock.end_freezing(file)

    # -- flushes ---------------------------------------------------------------------------------

    def snapshot(self) -> tuple[NDArray[np.int64], NDArray[np.uint64], int]:
        """Return what a synchronization of log and ``.xta`` that begins now brings to the disk."""
        with self._lock:
            # Beside others that thaw, the words stay, and their raw places do not become holes.
            addresses = np.array(sorted(self._dirty) if self.may_freeze else [], np.int64)
            end = min(self._claims, default=self._end)
            return addresses, self.entries(addresses), end

    def sync(self, snapshot: tuple[NDArray[np.int64], NDArray[np.uint64], int]) -> None:
        """Bring the log to the disk, where ``.xta`` is already, as of a snapshot."""
        self.log.datasync()
        addresses, words, end = snapshot
        with self._lock:
            self._synced.update(zip(addresses.tolist(), words.tolist(), strict=True))
            self._synced_end = max(self._synced_end, end)
            same = self.entries(addresses) == words
            self._dirty.difference_update(addresses[same].tolist())

    def settle(self) -> None:
        """Let durable words follow, before ``.xmd`` goes to the disk."""
        with self._lock:
            if self._synced:
                addresses = np.array(sorted(self._synced), np.int64)
                words = np.array([self._synced[q] for q in addresses.tolist()], np.uint64)
                self._store(addresses, words, 1)
                self._settled.update(self._synced)
            if self._synced_end > self._size:
                self._write_block(size=self._synced_end)
                self._size = self._synced_end
            self._synced = {}

    def punch(self) -> None:
        """Make holes of frozen chunks, once their durable words are on the disk."""
        pair, size = self._pair, self._header.chunk_bytes
        if not self._settled:
            return
        with self.freezing() as is_alone, self._lock:
            if not is_alone:
                return
            addresses = np.array(sorted(self._settled & self._unpunched), np.int64)
            self._settled = set()
            # A chunk may have been thawed, or frozen again from raw bytes that no flush has seen.
            words = self.entries(addresses)
            addresses = addresses[(words != RAW) & (words == self.durable(addresses))]
            if not len(addresses):
                return
            self.count_freezes()
            if self.forget is not None:
                self.forget(addresses)
            for start, stop in _in_bytes(addresses, size):
                pair.data.punch(start, stop - start)
            self._unpunched.difference_update(addresses.tolist())

    def count_freezes(self) -> None:
        """Raise the number of freezes, so that readers notice that raw bytes go."""
        self._write_number((self.number + 1) % HANDED_ON)

    def _write_number(self, number: int) -> None:
        self._metadata.write(number.to_bytes(8, "little"), self._header.freezes_offset)

    # -- other files -----------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take up extents that the writer has added."""
        if self.number & HANDED_ON or self._metadata is not self._pair.metadata:
            return
        with contextlib.suppress(CorruptError):  # a writer may be at work
            self.take_up()

    # -- later metadata --------------------------------------------------------------------------

    def latest(self) -> FrozenTable:
        """Return the table that counts now: this one, or that of later metadata.

        A reader finds them by their name.

        Raises
        ------
        ReplacedError
            Later metadata have had the table, and others have the name now, or none.
        """
        table = self
        while table.number & HANDED_ON:
            later = table._later()
            if later is None:
                break
            table = later
        return table

    def _later(self) -> FrozenTable | None:
        """Return the table of the next metadata; None if they have not taken the name yet."""
        with self._lock:
            if self._next is None and self._pair.mode == "r":
                self._next = self._find_later()
            return self._next

    def _find_later(self) -> FrozenTable | None:
        pair = self._pair
        for _ in range(ATTEMPTS):
            other = Pair(Path(pair.absolute))
            try:
                with family("cannot read '{}'", pair.path):
                    other.open_metadata()
                    if other.metadata.is_same(self._metadata):
                        return None
                    found = self.table_in(other)
                    if found is not None:
                        other.metadata = File()
                        return found
                    break
            except (PartnerError, FileNotFoundError):  # replaced once more, just now
                time.sleep(0.002)
            except NotADirectoryError:
                break
            finally:
                other.close()
        raise ReplacedError(
            errno.ENOENT,
            f"cannot read '{pair.path}': a writer has given it other metadata, and then its files "
            "were replaced, removed or moved; open it again",
            str(pair.path),
        )

    def table_in(self, other: Pair) -> FrozenTable | None:
        """Return the table in later metadata, which are open, with its log; None if they are not.

        Raises
        ------
        PartnerError, FileNotFoundError
            The log is not there: even later metadata have the name by now.
        CorruptError
            The block of the table is damaged.
        """
        header = other.header
        # A chunk may have become longer, with a new axis, if there is no other one.
        is_later = header.uuid == self._header.uuid and header.has_blobs
        if not is_later or header.chunk_bytes < self._header.chunk_bytes:
            return None
        found = self.block_of(other)
        if found is None:
            return None
        log = self.log
        if found[1].uuid != self.uuid:
            log = open_log(other.names, header.uuid, found[1].uuid, os.O_RDONLY)
        return FrozenTable(self._pair, other.metadata, *found, log, header)

    def for_reader(self) -> FrozenTable:
        """Return the table for a forked child, which has its own descriptor of ``.xmd``."""
        new = self.table_in(self._pair)
        if new is None:
            raise CorruptError(f"'{self._pair.path}.xmd' has no table of frozen chunks")
        new._end, new.may_freeze = self._end, False
        return new

    def successor(self, log: File | None = None) -> FrozenTable:
        """Return the table in the ``.xmd`` that the pair has now; `log`: its new log, if any."""
        pair = self._pair
        if self._metadata is pair.metadata:
            return self
        found = self.block_of(pair)
        if found is None:
            raise CorruptError(f"'{pair.path}.xmd' has no table of frozen chunks")
        new = FrozenTable(pair, pair.metadata, *found, self.log if log is None else log)
        new.forget = self.forget
        with self._lock:
            if log is None:
                new._end, new._given = self._end, max(self._given, new._given)
            else:
                new._end = new._given = log.length
            new._dirty, new._unpunched = set(self._dirty), set(self._unpunched)
            new._synced_end = self._synced_end
            if log is None:
                new._synced, new._settled = dict(self._synced), set(self._settled)
            else:  # all words lead to a log that is on the disk
                new._settled, new._synced_end = set(self._unpunched), log.length
            new.thawed, new.renewals = self.thawed, self.renewals
            self._next = new
            # Other threads may have thawed chunks since the words were copied, and still do.
            addresses = np.array(sorted(self._dirty), np.int64)
            new._store(addresses, self._moved(addresses, self.entries(addresses)), 0)
        return new

    def _moved(self, addresses: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return words for the next table, to whose log their blobs are copied if it is another."""
        new = self._next
        assert new is not None
        if new.uuid == self.uuid:
            return words
        moved = words.copy()
        for i in np.flatnonzero(words > FILL).tolist():
            with new._lock:
                at = new._end
                blob = self._moved_blob(int(addresses[i]), int(words[i]), at, new.uuid)
                new._give(at + len(blob))
                new.log.write(blob, at)
                new._end = at + len(blob)
            moved[i] = encode_entry_of_blob(at, len(blob))
        return moved

    def drop_locks(self) -> None:
        """Drop, in a forked child, the lock that a thread of the parent may hold."""
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def keeping_blobs(self) -> Iterator[None]:
        """Let no frozen chunk get a new blob while its word is copied to later metadata.

        Nor afterwards, if they have taken the table over.
        """
        with self._lock:
            self._keeps_blobs = True
        try:
            yield
        finally:
            with self._lock:
                self._keeps_blobs = self._next is not None

    def hand_on(self) -> None:
        """Tell readers of this ``.xmd`` that another one has the table, once it has the name."""
        self._write_number(self.number | HANDED_ON)

    def take_back(self) -> None:
        """Tell readers of this ``.xmd`` that it has the table after all."""
        self._write_number(self.number & ~HANDED_ON)

    def block_for(self, array: bytes, places: list[int], log: NewLog | None = None) -> bytes:
        """Return the block of another ``.xmd`` with the table at other offsets."""
        if log is not None:
            return encode_frozen_block(log.uuid, log.end, log.end, places, array)
        return encode_frozen_block(self.uuid, self._size, self._given, places, array)

    def places_behind(self, end: int) -> list[int]:
        """Return offsets for the extents of another ``.xmd`` whose other bytes end there."""
        places = []
        for number in range(len(self._places)):
            at = -(-end // TABLE_ALIGNMENT) * TABLE_ALIGNMENT
            places.append(at)
            end = at + extent_bytes(number)
        return places

    def copy_to(self, file: File, places: list[int], log: NewLog | None = None) -> None:
        """Copy the words to the extents of a successor, at their offsets, without holes.

        With a new log, copy the blobs of frozen chunks to it, by address.  Their words are durable,
        as the log goes to the disk before the metadata get their name.
        """
        if places:
            last = len(places) - 1
            file.truncate(places[last] + extent_bytes(last))
        for number, at in enumerate(places):
            reserve_extent(file, number, at)
        for addresses, words in self._written():
            numbers, within = extents_of(addresses)
            if log is not None:
                words = np.repeat(self._copy_blobs(addresses, words[:, 0], log)[:, None], 2, axis=1)
            for number in np.unique(numbers).tolist():
                here = numbers == number
                at = places[number] + ENTRY_BYTES * int(within[here][0])
                file.write(words[here].astype("<u8").tobytes(), at)

    def _copy_blobs(
        self, addresses: NDArray[np.int64], words: NDArray[np.uint64], log: NewLog
    ) -> NDArray[np.uint64]:
        """Append the blobs of chunks to a new log; return the words that lead to them there."""
        moved = words.copy()
        for i in np.flatnonzero(words > FILL).tolist():
            address, word = int(addresses[i]), int(words[i])
            moved[i] = log.append(self._moved_blob(address, word, log.end, log.uuid))
        return moved

    def _moved_blob(self, address: int, word: int, offset: int, uuid: bytes) -> bytes:
        """Return the blob of a chunk as it stands at an offset of another log."""
        try:
            return move_blob(self._blob(address, word), address, self.uuid, offset, uuid)
        except ChecksumError as error:
            name = f"{self._pair.path}.xtz"
            told = ChecksumError(
                f"cannot copy '{name}': {error}; overwrite the whole chunk, or restore the file "
                "from a copy"
            )
            told.filename, told.chunk = name, address
            raise told from None


def _in_bytes(addresses: NDArray[np.int64], size: int) -> Iterator[tuple[int, int]]:
    """Yield runs of bytes that chunks with rising addresses take."""
    if len(addresses):
        for run in np.split(addresses, np.flatnonzero(np.diff(addresses) > 1) + 1):
            yield place_of(int(run[0]), size), place_of(int(run[-1]) + 1, size)
