# Asking the system for what a transfer will read, before it reads.

from ._types cimport index_t


# What of a file was asked for, and is still to be: neighbours become one request.
cdef struct ahead_t:
    int fd
    bint brings_blocks          # a load brings the huge page that it meets: see Region
    index_t start               # of what waits for its neighbours
    index_t stop                # `start`: nothing waits


cdef bint is_cached(int fd, index_t offset) noexcept nogil
cdef void ask_for(ahead_t *ahead, index_t start, index_t stop) noexcept nogil
cdef void ask_for_block(
    ahead_t *ahead, index_t offset, const int *fast_to_slow, const index_t *stride,
    const index_t *count, int ndim, index_t itemsize
) noexcept nogil
cdef void end_asking(ahead_t *ahead) noexcept nogil
