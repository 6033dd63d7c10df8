# Which chunks of an array are present, and which are known to be right.

cimport cython

from ._mapping cimport Lease, Touched, touched_get, touched_set
from ._types cimport index_t


# Chunks known to hold the bytes that were written: they matched their checksums, or were
# overwritten as a whole.  A chunk enters before the first write to it, so that one outside the set
# still matches.
@cython.final
cdef class Trust:
    cdef Touched known
    cdef index_t n_stored       # chunks from this address on are known: this session made them
    cdef readonly bint is_joint     # other processes of the session write chunks, too
    cdef const unsigned char[::1] kept      # keeps `told` and `marks` alive
    cdef unsigned char *told        # not 0: processes outside the session may write; may be NULL
    cdef unsigned char *marks       # of chunks that some process of the session knows; may be NULL
    cdef index_t n_marks            # chunks whose addresses differ by a multiple share a mark

    cdef inline bint lacks(self, index_t address) noexcept:
        return address < self.n_stored and not touched_get(self.known.root, address)

    cdef inline void know(self, index_t address) noexcept:
        if self.marks != NULL and address < self.n_stored:
            self.marks[address % self.n_marks] = 1
        touched_set(self.known.root, address)


@cython.final
cdef class Supply:
    cdef object provider
    cdef Trust trust            # forgets the chunks that leave; may be None
    cdef readonly index_t most   # chunks that may be present, unless more are in use
    cdef readonly index_t share  # most chunks that one part of a call asks for
    cdef readonly index_t most_ahead    # chunks that the provider begins to bring ahead
    cdef dict used              # address: number of users of the chunk
    cdef dict idle              # addresses of the other present chunks, oldest use first
    cdef dict moving            # chunks that a thread is bringing or evicting: number of the move
    cdef index_t n_moves
    cdef object returned        # addresses whose uses have ended, still counted in `used`
    cdef object lock
    cdef object moved           # notified when chunks stop `moving`

    cdef int _move(self, list addresses) except -1
    cdef int _stop_moving(self, list addresses) except -1
    cdef int _take_back(self) except -1
    cdef list _leaving(self, index_t n_coming)


@cython.final
cdef class Use:
    cdef Supply supply
    cdef list addresses


# The owner of a view of a chunk that has to stay present.
@cython.final
cdef class UsingLease(Lease):
    cdef Use use


cdef index_t chunks_within(n_bytes, index_t chunk_bytes) except -1
cdef Use use_of(Supply supply, list addresses)
cdef Lease lease_using(Lease lease, Use use)
