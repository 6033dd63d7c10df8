"""Frozen chunks: their entries in the table, and the shadow that reads find their bytes in.

A chunk is raw, with its bytes where its address says, or *frozen*: its bytes are in a blob, which
the entry of the chunk locates.  Blobs are never overwritten.  Reads have frozen chunks decoded into
the *shadow*, private memory with the addresses of the array, so that the same code moves both.

An entry changes by one store.  A writer freezes a chunk without waiting for reads: the raw bytes
stay until the number of freezes has grown, and a read of raw chunks during which it grew is
repeated.  Before a store, chunks are *thawed*: their bytes return to their raw places.
"""

import threading

cimport cython

import numpy as np

from ._mapping cimport Counter
from ._supply cimport Supply, Use
from ._types cimport index_t


@cython.final
cdef class Bringer:
    """The provider that `Supply` calls; it notes which blob each chunk in the shadow comes from."""

    cdef Frozen frozen
    cdef object provider

    def provide(self, addresses):
        cdef Frozen frozen = self.frozen
        entries = frozen.entries(addresses)
        known = addresses[entries != 0]
        self._forget(known)
        if len(known):
            self.provider.decode(known, entries[entries != 0])
        for address, entry in zip(addresses.tolist(), entries.tolist()):
            frozen.brought[address] = entry

    def ahead(self, addresses):
        pass

    def evict(self, addresses):
        self._forget(addresses)
        for address in addresses.tolist():
            self.frozen.brought.pop(address, None)
        self.provider.evict(addresses)

    def _forget(self, const index_t[::1] addresses):
        cdef index_t address
        for address in addresses:
            self.frozen.recent[address % N_RECENT].entry = 0


@cython.final
cdef class Frozen:
    """The chunks of an array that may be frozen.

    Parameters
    ----------
    provider : Decoder
        See the stub.
    chunk_bytes : int
    bound : int
        Most bytes of decoded chunks that stay, unless more are in use.
    freezes : Counter
        The number of freezes, which grows before raw bytes of frozen chunks are given up.
    mapped : callable
        Takes a number of bytes, and returns a region of the shadow with at least as many.
    """

    def __cinit__(
        self, provider, index_t chunk_bytes, bound, Counter freezes not None, mapped not None
    ):
        cdef Bringer bringer = Bringer.__new__(Bringer)
        bringer.frozen = self
        bringer.provider = provider
        self.supply = Supply(bringer, chunk_bytes, bound)
        self.freezes = freezes
        self.mapped = mapped
        self.kept = []
        self.brought = {}
        self.renewing = threading.Lock()
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

    cdef Use bring(self, addresses):
        """Bring chunks to the shadow as their entries are now; None: some are raw by now.

        They stay as long as the returned `Use` lives.
        """
        cdef Use used
        cdef list wanted = addresses.tolist(), entries, stale
        while True:
            entries = self.entries(addresses).tolist()
            if 0 in entries:
                return None
            with self.renewing:
                stale = [
                    address for address, entry in zip(wanted, entries)
                    if self.brought.get(address, entry) != entry]
                if stale:
                    self.supply.renew(np.array(stale, np.int64))
            used = self.supply.use(addresses)
            # Unless another thread had the chunks of earlier entries brought meanwhile.
            if [self.brought[address] for address in wanted] == entries:
                return used

    cdef int note_recent(self, index_t address) except -1:
        """Note a chunk in the shadow that is in use, and likely to be read again."""
        self.recent[address % N_RECENT].address = address
        self.recent[address % N_RECENT].entry = self.brought[address]
        return 0

    cdef int take_shadow(self, index_t length) except -1:
        """Map `length` bytes of the shadow."""
        if self.shadow is None or not self.shadow.holds(length):
            self.shadow = self.mapped(length)
        return 0
