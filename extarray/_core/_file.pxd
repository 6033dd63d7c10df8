# Open files.

cimport cython
from libc.stdint cimport int64_t

from ._system cimport off_t, sieve_t
from ._types cimport index_t


# Acts on a range of a file; returns 0, or an errno.
ctypedef int (*action_t)(int fd, off_t offset, off_t length) noexcept nogil


cdef class FileCore:
    cdef int fd                 # -1: closed
    cdef Py_ssize_t n_users     # running calls, and blocks that borrow the descriptor
    cdef bint is_closed         # or will be when the last user leaves
    cdef public str name        # for messages: the file may get another one
    cdef readonly index_t start  # where in the file its bytes begin
    cdef index_t size            # number of its bytes; -1: all that follow
    cdef int64_t kind              # of its file system (statfs); -1: not asked yet
    cdef object __weakref__

    cdef int enter(self) except -1
    cdef int64_t _kind(self, int fd) noexcept
    cdef bint _keeps_copies(self, int fd) except -1
    cdef int leave(self) except -1
    cdef int _do(self, action_t action, off_t offset, off_t length) except -1
    cdef int _must(self, action_t action, off_t length) except -1
    cdef index_t _read(self, char *target, index_t length, index_t offset) except -1


# Leave to write back the bytes between elements while nobody else writes to the file.
@cython.final
cdef class Sieve:
    cdef sieve_t state


cdef bint begin_sieving(sieve_t *sieve, int fd) noexcept nogil
cdef void end_sieving(sieve_t *sieve, int fd) noexcept nogil


# Read-ahead of a file: neighbouring ranges become one request.
cdef struct ahead_t:
    int fd
    bint brings_blocks          # a load brings a whole huge page: see Region
    index_t start               # the range that waits for its neighbours
    index_t stop                # `start`: nothing waits


cdef bint is_cached(int fd, index_t offset) noexcept nogil
cdef void ask_for(ahead_t *ahead, index_t start, index_t stop) noexcept nogil
cdef void ask_for_block(
    ahead_t *ahead, index_t offset, const int *fast_to_slow, const index_t *stride,
    const index_t *count, int ndim, index_t itemsize
) noexcept nogil
cdef void end_asking(ahead_t *ahead) noexcept nogil
