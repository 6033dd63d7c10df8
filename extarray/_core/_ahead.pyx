"""Asking the system for what a transfer will read, before it reads.

A file that is not in the system's cache is read as its pages are met, one after the other, each with
what the system guesses to be wanted next.  A transfer need not let it guess: it knows all bytes
that it will touch.  They are asked for without waiting for them, so that the disk has many requests
at a time, and no others.
"""

from posix.types cimport off_t

from ._types cimport MAX_NDIM, index_t

cdef extern from "_system.h":
    bint xa_is_cached(int fd, off_t offset) noexcept nogil
    void xa_ask_for(int fd, off_t offset, off_t length) noexcept nogil

cdef enum:
    PAGE = 1 << 12
    # What lies between two parts is read with them where it is less than this fraction of one.
    GAP_SHARE = 4
    # Blocks of which more than two thirds are wanted are left to a load, which brings all of one as
    # a huge page: that takes less time than many small ones.
    BLOCK = 1 << 21
    TWO_THIRDS = BLOCK * 2 // 3


cdef bint is_cached(int fd, index_t offset) noexcept nogil:
    """Tell whether a byte of a file is in the system's cache, or may be."""
    return xa_is_cached(fd, offset)


cdef void ask_for(ahead_t *ahead, index_t start, index_t stop) noexcept nogil:
    """Ask for bytes start ... stop - 1, together with those that wait, if they are neighbours."""
    if ahead.start < ahead.stop:
        if ahead.start <= start <= ahead.stop + PAGE:
            ahead.stop = max(ahead.stop, stop)
            return
        xa_ask_for(ahead.fd, ahead.start, ahead.stop - ahead.start)
    ahead.start = start
    ahead.stop = stop


cdef void end_asking(ahead_t *ahead) noexcept nogil:
    """Ask for what still waits."""
    ask_for(ahead, 0, 0)


cdef void ask_for_block(
    ahead_t *ahead, index_t offset, const int *fast_to_slow, const index_t *stride,
    const index_t *count, int ndim, index_t itemsize
) noexcept nogil:
    """Ask for a strided block of elements, whose first one is at `offset`."""
    cdef int axes[MAX_NDIM]
    cdef index_t at[MAX_NDIM]
    cdef index_t span = itemsize, gap
    cdef index_t wanted, behind = offset
    cdef int n = 0, i, j
    for i in range(ndim):
        j = fast_to_slow[i]
        if count[j] == 1:
            continue
        gap = stride[j] - span
        if n == 0 and (gap < PAGE or gap < span // GAP_SHARE):
            span += (count[j] - 1) * stride[j]
        else:
            axes[n] = j
            at[n] = 0
            n += 1
    wanted = span
    behind += span
    for i in range(n):
        wanted *= count[axes[i]]
        behind += (count[axes[i]] - 1) * stride[axes[i]]
    if ahead.brings_blocks and wanted > (
            (behind - 1) // BLOCK - offset // BLOCK + 1) * TWO_THIRDS:
        return
    while True:
        ask_for(ahead, offset, offset + span)
        i = 0
        while i < n:
            j = axes[i]
            at[i] += 1
            offset += stride[j]
            if at[i] < count[j]:
                break
            offset -= count[j] * stride[j]
            at[i] = 0
            i += 1
        if i == n:
            return
