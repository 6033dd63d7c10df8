"""Frozen chunks: their entries in the table, and the decoded ones that stay in memory.

A chunk is raw, with its bytes where its address says, or *frozen*: its bytes are in a blob, which
the entry of the chunk locates.  Blobs are never overwritten.  A read has each frozen chunk decoded
to memory of its own, and moves it from there by the code that moves raw chunks: it subtracts from
the memory's address that of the chunk in the file.  Decoded chunks stay for later reads, the most
recently used ones.

An entry changes by one store.  A writer freezes a chunk without waiting for reads: the raw bytes
stay until the number of freezes has grown, and a read of raw chunks during which it grew is
repeated.  Before a store, chunks are *thawed*: their bytes return to their raw places, and to the
disk.  But what is written to a frozen chunk for the first few times goes to a new blob, which need
not wait for the disk: most chunks in which a box is corrected are not written to many times.
"""

import threading

cimport cython
cimport numpy as cnp
from libc.stdint cimport uintptr_t

import numpy as np

from ._mapping cimport Counter
from ._types cimport FREE_THREADS, index_t

cnp.import_array()


@cython.final
cdef class Decoded:
    """The bytes of a frozen chunk."""

    cdef int want(self, object box) except -1:
        """Decode what is missing in a box of the chunk; None: in all of it."""
        rest = self.rest    # another thread may find meanwhile that all is there
        if rest is not None:
            rest.want(box)
            if not FREE_THREADS and rest.is_whole:
                self.rest = None
        return 0

    cdef bint is_whole(self) except -1:
        """Tell whether all bytes are there."""
        rest = self.rest
        return rest is None or rest.is_whole


cdef Decoded decoded(
    index_t address, uint64_t entry, cnp.ndarray memory, index_t chunk_bytes, object rest
):
    """Note that some memory holds the bytes of a frozen chunk, or those of some of its blocks."""
    cdef Decoded self = Decoded.__new__(Decoded)
    self.address = address
    self.entry = entry
    self.memory = memory
    self.rest = rest
    self.base = base_of(address, memory, chunk_bytes)
    return self


cdef char *base_of(index_t address, cnp.ndarray memory, index_t chunk_bytes) noexcept:
    """Return where byte 0 of the file would be if some memory were the place of a chunk."""
    # Unsigned, as the difference may lie below all memory.
    return <char *> (
        <uintptr_t> cnp.PyArray_DATA(memory) - <uintptr_t> address * <uintptr_t> chunk_bytes)


@cython.final
cdef class Kept:
    """Takes chunks from a decoder, and keeps all of them."""

    cdef Frozen frozen
    cdef list addresses, entries
    cdef dict found             # by address

    def __call__(self, list numbers not None, list chunks not None, list rests=None):
        cdef Decoded one
        cdef index_t k, i
        for k, i in enumerate(numbers):
            one = decoded(
                self.addresses[i], self.entries[i], chunks[k], self.frozen.chunk_bytes,
                None if rests is None else rests[k])
            self.frozen.keep(one)
            self.found[one.address] = one


@cython.final
cdef class Frozen:
    """The chunks of an array that may be frozen.

    Parameters
    ----------
    decoder : Decoder
        See the stub.
    chunk_bytes : int
    bound : int or None
        Most bytes of decoded chunks that stay, at least one chunk; None: all.
    freezes : Counter
        The number of freezes, which grows before raw bytes of frozen chunks are given up.
    rewrites : int
        How many times a frozen chunk is written to before it is thawed.
    divides : bool
        The decoder can decode parts of chunks.
    """

    def __cinit__(
        self, decoder, index_t chunk_bytes, bound, Counter freezes not None, index_t rewrites,
        bint divides=False
    ):
        self.decoder = decoder
        self.divides = divides
        self.chunk_bytes = chunk_bytes
        self.most = (<index_t> 1 << 62) if bound is None else max(1, <index_t> bound // chunk_bytes)
        self.share = max(1, self.most // 4)     # room for several threads, and for later reads
        self.freezes = freezes
        self.kept = []
        self.chunks = {}
        self.recent = [None] * N_RECENT
        self.lock = threading.Lock()
        self.rewrites = rewrites
        self.rewritten = {}
        self.thawing = threading.Lock()

    def add_extent(self, const uint64_t[::1] words not None):
        """Add an extent of the table: memory that all processes with the array share.

        Each chunk has two words, the first of which counts here.  The one writer's memory is
        writable.
        """
        if self.n_extents == MOST_EXTENTS or words.shape[0] != (
            <index_t> 2 << FIRST_BITS + self.n_extents
        ):
            raise ValueError(f"extent {self.n_extents} does not have {words.shape[0]} words")
        self.kept.append(words)
        self.extent[self.n_extents] = <uint64_t *> &words[0]
        self.n_extents += 1

    def entries(self, const index_t[::1] addresses not None):
        """Return the entries of chunks; 0: raw."""
        cdef index_t i
        cdef uint64_t[::1] found
        result = np.empty(addresses.shape[0], np.uint64)
        found = result
        for i in range(addresses.shape[0]):
            found[i] = self.live(addresses[i])
        return result

    def set_entry(self, index_t address, uint64_t entry):
        """Set the entry of a chunk, for whoever looks from now on; for the one writer."""
        cdef uint64_t *place = self.place(address)
        if place == NULL:
            raise ValueError(f"the table has no entry of chunk {address}")
        xa_set_live(place, entry)

    cdef Decoded find(self, index_t address, uint64_t entry):
        """Return a decoded chunk that is as its entry says; None: it is not in memory."""
        cdef Decoded one
        with self.lock:
            one = self.chunks.get(address)
            if one is None or one.entry != entry:
                return None
            del self.chunks[address]        # to become the last that leaves
            self.chunks[address] = one
            return one

    cdef int keep(self, Decoded one) except -1:
        """Keep a decoded chunk, in the place of those used least recently."""
        cdef list leaving = []      # freed without the lock
        with self.lock:
            leaving.append(self.chunks.pop(one.address, None))
            self.chunks[one.address] = one
            while len(self.chunks) > self.most:
                leaving.append(self.chunks.pop(next(iter(self.chunks))))
            for old in leaving:
                if old is not None and self.recent[(<Decoded> old).address % N_RECENT] is old:
                    self.recent[(<Decoded> old).address % N_RECENT] = None
        return 0

    cdef dict bring(self, addresses):
        """Return decoded chunks by address, as their entries are now; None: some are raw by now."""
        cdef dict found = {}
        cdef list missing = [], words = []
        cdef Decoded one
        cdef index_t address
        cdef uint64_t entry
        cdef Kept kept
        for address in addresses.tolist():
            entry = self.live(address)
            if entry == 0:
                return None
            one = self.find(address, entry)
            if one is None:
                missing.append(address)
                words.append(entry)
            else:
                one.want(None)
                found[address] = one
        if missing:
            kept = Kept.__new__(Kept)
            kept.frozen, kept.addresses, kept.entries, kept.found = self, missing, words, found
            self.decoder.decode(missing, words, True, kept)
        return found

    cdef int note_recent(self, Decoded one) except -1:
        """Note a decoded chunk that is likely to be read again, if it stays in memory."""
        if not one.is_whole():
            return 0
        with self.lock:
            if not FREE_THREADS and self.chunks.get(one.address) is one:
                self.recent[one.address % N_RECENT] = one
        return 0
