"""Arrays of one writer whose chunks can be frozen: blobs in a dict, and the table in memory.

The array is an ordinary pair of files.  Freezing overwrites the raw bytes by bytes that no test
stores, when `settle` gives them up, as a hole would.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import threading
import zlib

import numpy as np

import extarray as xa
from extarray._core._frozen import Frozen
from extarray._core._mapping import Counter
from extarray._core._transfers import freeze_taken, return_changed, take_changed
from extarray.array.life import attach_store
from extarray.common import system

GONE = b"\xee"
FIRST = 1024
ALL = 1 << 40


class Freezer:
    """Freezes and thaws the chunks of an array.

    Attributes
    ----------
    decoded, thawed, rewritten : list of int
        The addresses of all chunks that were decoded, or thawed, or got other bytes while frozen.
    rewrites : bool
        Let frozen chunks get other bytes.
    """

    rewrites = False

    def __init__(self, array, bound=None):
        self.array, self.size = array, array.chunk_bytes
        self.blobs, self.numbers = {}, itertools.count(2)
        self.decoded, self.thawed, self.rewritten = [], [], []
        self.given_up = []
        self.lock = threading.Lock()
        self.counter = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the freezer
        self.counter.write(bytes(8))
        self.counter.flush()
        self.n_freezes = 0
        now = array._store.now
        self.now = now
        freezes = Counter.file(self.counter.fileno(), 0, True)
        self.core = Frozen(self, self.size, bound, freezes, 3)
        self.extents = []
        self.room_for(array.axial.size)
        self.table = self
        now.decoded = self
        attach_store(array)

    def look(self):
        """Add nothing: `room_for` does that."""

    def room_for(self, n_chunks):
        while n_chunks > FIRST * ((1 << len(self.extents)) - 1):
            words = np.zeros(2 * FIRST << len(self.extents), np.uint64)
            self.extents.append(words)
            self.core.add_extent(words)

    # -- the decoder -----------------------------------------------------------------------------

    def decode(self, addresses, entries, keeps, take):
        room = np.empty(self.size, np.uint8)
        for i, (q, entry) in enumerate(zip(addresses, entries, strict=True)):
            address, blob = self.blobs[entry]
            assert address == q
            if keeps:
                room = np.empty(self.size, np.uint8)
            room[:] = np.frombuffer(zlib.decompress(blob), np.uint8)
            take([i], [room])
            if not keeps:
                room[:] = GONE[0]
        self.decoded += addresses

    # -- freezing --------------------------------------------------------------------------------

    def raw(self, address):
        chunk = bytearray(self.size)
        self.now.data.read_into(memoryview(chunk), address * self.size)
        return chunk

    def freeze(self, wanted=None):
        """Freeze all chunks written since the last call, or some of them; return those frozen."""
        with self.lock:
            self.room_for(self.array.axial.size)
            taken = take_changed(self.array, 0, 1 << 16)
            if taken is None:
                return []
            is_left = np.zeros(len(taken), bool)
            if wanted is not None:
                is_left = ~np.isin(taken, wanted)
                return_changed(self.array, taken[is_left])
            chosen = taken[~is_left]
            chosen = chosen[self.core.entries(chosen) == 0]  # not those that were rewritten
            entries = []
            for q in chosen.tolist():
                entries.append(next(self.numbers))
                self.blobs[entries[-1]] = q, zlib.compress(self.raw(q), 1)
            done = freeze_taken(self.array, chosen, np.array(entries, np.uint64))
            self.given_up += chosen[done].tolist()
            return chosen[done].tolist()

    def settle(self):
        """Count a freeze, and then give up the raw bytes of frozen chunks."""
        with self.lock, self.core_lock():
            self.n_freezes += 1
            system.write_at(self.counter.fileno(), self.n_freezes.to_bytes(8, "little"), 0)
            for q in self.given_up:
                if self.core.entries(np.array([q]))[0]:
                    with self.now.data as fd:
                        system.write_at(fd, GONE * self.size, q * self.size)
            self.given_up = []

    def core_lock(self):
        return self.thaw_lock

    thaw_lock = contextlib.nullcontext()

    def thaw(self, addresses):
        for q in addresses.tolist():
            address, blob = self.blobs[int(self.core.entries(np.array([q]))[0])]
            assert address == q
            with self.now.data as fd:
                system.write_at(fd, zlib.decompress(blob), q * self.size)
            self.core.set_entry(q, 0)
        self.thawed += addresses.tolist()

    def alone(self):
        return contextlib.nullcontext(True)

    def rewrite(self, addresses, chunks, rests):
        assert not any(rests)  # it decodes whole chunks
        if not self.rewrites:
            return False
        for q, chunk in zip(addresses.tolist(), chunks, strict=True):
            number = next(self.numbers)
            self.blobs[number] = q, zlib.compress(chunk, 1)
            self.core.set_entry(q, number)
        self.rewritten += addresses.tolist()
        return True

    def close(self):
        self.array.close()
        self.counter.close()


@contextlib.contextmanager
def freezable(path, shape, dtype="f8", chunks_at_once=None, **options):
    """Create an array whose chunks can be frozen; yield it and its freezer."""
    array = xa.create(path, shape, dtype, **options)
    bound = None if chunks_at_once is None else chunks_at_once * array.chunk_bytes
    freezer = Freezer(array, bound)
    try:
        yield array, freezer
    finally:
        freezer.close()
