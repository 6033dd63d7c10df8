# Which chunks of an array are present, and which are known to be right.

cimport cython

from ._mapping cimport Lease, Touched, touched_get
from ._types cimport index_t


# Which chunks are known to be what was written: those that fitted their checksums, or were overwritten
# as wholes.  A chunk enters before it is first written to, so that one which is not in it fits.
@cython.final
cdef class Trust:
    cdef Touched known
    cdef index_t n_stored       # chunks from this address on are of this session, and known

    cdef inline bint lacks(self, index_t address) noexcept:
        return address < self.n_stored and not touched_get(self.known.root, address)


@cython.final
cdef class Supply:
    cdef object provider
    cdef Trust trust            # forgets the chunks that leave; may be None
    cdef readonly index_t most   # chunks that may be present while no more than these are in use
    cdef readonly index_t share  # chunks that one part of a call asks for at most
    cdef dict used              # address: how many use the chunk
    cdef dict idle              # addresses of the other chunks that are present, the oldest use first
    cdef set moving             # addresses of chunks that some thread has come or leave just now
    cdef object returned        # addresses that nobody has taken out of `used` yet
    cdef object lock
    cdef object moved           # notified when chunks are not `moving` any more

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


cdef Use use_of(Supply supply, list addresses)
cdef Lease lease_using(Lease lease, Use use)
