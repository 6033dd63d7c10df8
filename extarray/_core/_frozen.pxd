# Which chunks of an array are frozen, and where reads find them.

cimport cython
cimport numpy as cnp
from libc.stdint cimport uint64_t

from ._mapping cimport Counter
from ._types cimport index_t

cdef extern from *:
    """
    /* Entries of the table, which other processes and threads change; a reader that finds an entry
     * finds all that was stored before it. */
    #define xa_live(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
    #define xa_set_live(p, word) __atomic_store_n((p), (word), __ATOMIC_RELEASE)
    #define xa_last_bit(n) (63 - __builtin_clzll(n))
    """
    uint64_t xa_live(const uint64_t *p) noexcept nogil
    void xa_set_live(uint64_t *p, uint64_t word) noexcept nogil
    int xa_last_bit(uint64_t n) noexcept nogil

cdef enum:
    MOST_EXTENTS = 54
    FIRST_BITS = 10             # the first extent has 2^10 entries, each one twice those before
    N_RECENT = 256

cdef inline bint is_handed_on(uint64_t number) noexcept:
    """Tell by a number of freezes whether other metadata have the table, or take it just now."""
    return number >> 63


@cython.final
cdef class Decoded:
    cdef index_t address
    cdef uint64_t entry             # leads to the blob
    cdef object memory
    cdef char *base                 # byte 0 of the file would be here
    cdef object rest                # decodes blocks that are missing in the memory; None: none are

    cdef int want(self, object box) except -1
    cdef bint is_whole(self) except -1


cdef Decoded decoded(
    index_t address, uint64_t entry, cnp.ndarray memory, index_t chunk_bytes, object rest)
cdef char *base_of(index_t address, cnp.ndarray memory, index_t chunk_bytes) noexcept


@cython.final
cdef class Frozen:
    cdef object decoder
    cdef index_t chunk_bytes
    cdef bint divides               # chunks may be cut into blocks that are decoded alone
    cdef index_t most               # decoded chunks that stay
    cdef readonly index_t share     # most chunks of a read that are kept
    cdef Counter freezes
    cdef int n_extents
    cdef uint64_t *extent[MOST_EXTENTS]
    cdef list kept                  # keeps the extents alive
    cdef dict chunks                # decoded ones by address, the oldest use first
    cdef list recent                # those that elements were read from last
    cdef object lock
    cdef index_t rewrites           # times that a frozen chunk is written to before it is thawed
    cdef dict rewritten             # how often chunks were written to while they were frozen
    cdef readonly object thawing    # held while entries become 0, or raw bytes are given up

    cdef inline uint64_t *place(self, index_t address) noexcept:
        """Return the place of an entry; NULL beyond the table."""
        cdef int e = xa_last_bit(<uint64_t> (address >> FIRST_BITS) + 1)
        if e >= self.n_extents:
            return NULL
        return self.extent[e] + 2 * (address - (((<index_t> 1 << e) - 1) << FIRST_BITS))

    cdef inline uint64_t live(self, index_t address) noexcept:
        """Return the entry of a chunk; 0: it is raw."""
        cdef const uint64_t *place = self.place(address)
        return 0 if place == NULL else xa_live(place)

    cdef inline Decoded recently(self, index_t address, uint64_t entry):
        """Return a decoded chunk, if elements were read from it of late."""
        cdef Decoded one = <Decoded> self.recent[address % N_RECENT]
        return one if one is not None and one.address == address and one.entry == entry else None

    cdef Decoded find(self, index_t address, uint64_t entry)
    cdef int keep(self, Decoded one) except -1
    cdef int note_recent(self, Decoded one) except -1
    cdef dict bring(self, addresses)
