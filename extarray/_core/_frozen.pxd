# Which chunks of an array are frozen, and where reads find them.

cimport cython
from libc.stdint cimport uint64_t

from ._mapping cimport Counter, Region
from ._supply cimport Supply, Use
from ._types cimport FREE_THREADS, index_t

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


cdef struct recent_t:
    index_t address
    uint64_t entry              # 0: this place is free


@cython.final
cdef class Frozen:
    cdef readonly Supply supply     # brings frozen chunks to the shadow
    cdef Counter freezes
    cdef Region shadow              # memory with the addresses of the array
    cdef object mapped              # returns a region of the shadow that holds a number of bytes
    cdef int n_extents
    cdef uint64_t *extent[MOST_EXTENTS]
    cdef list kept                  # keeps the extents alive
    cdef dict brought               # by address: the entry whose chunk is in the shadow
    cdef recent_t recent[N_RECENT]  # chunks in the shadow that elements were read from last
    cdef object renewing            # held while chunks in the shadow are replaced by newer ones
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

    cdef inline char *recently(self, index_t address, uint64_t entry) noexcept:
        """Return the place of byte 0 of the array in the shadow, if a chunk is known to be there.

        For callers that hold the GIL until they have read.
        """
        cdef const recent_t *place = &self.recent[address % N_RECENT]
        if FREE_THREADS or place.address != address or place.entry != entry:
            return NULL
        return self.shadow.pages

    cdef int note_recent(self, index_t address) except -1
    cdef int take_shadow(self, index_t length) except -1
    cdef Use bring(self, addresses)
