# A transfer: the outer product of pieces of axes, between chunks and the user's memory.

from libc.stdint cimport int32_t

from ._axial cimport axial_t
from ._mapping cimport touched_t
from ._selection cimport selection_t
from ._types cimport MAX_NDIM, index_t


# The part of a selection along one axis that lies in one chunk.
cdef struct piece_t:
    index_t chunk           # chunk index on the axis
    index_t first           # first element, counted in the chunk
    index_t count           # elements
    index_t position        # first element, counted in the selection
    int32_t segment         # the segment that introduced the chunk index
    int32_t run_end         # the piece after the last one of the same segment


# How the chunks of an array are laid out and reached.
cdef struct layout_t:
    int ndim
    index_t itemsize
    index_t chunk[MAX_NDIM]             # elements
    index_t stride[MAX_NDIM]            # bytes from element to element in a chunk ("C", "F")
    int fast_to_slow[MAX_NDIM]          # axes by rising stride
    index_t chunk_bytes
    const index_t *place                # "Z", "H": C-order position in a chunk -> stored position
    char *base                          # the mapped file or memory; NULL: by pread and pwrite
    int fd                              # -1: anonymous memory
    touched_t *touched                  # NULL: stores may go through the mapping at once
    bint sparse
    bint hollow                         # a load from a hole may find no space, too


cdef struct job_t:
    layout_t layout
    const axial_t *axial
    bint write
    bint stream
    char *user
    index_t user_stride[MAX_NDIM]       # bytes from selected element to selected element
    index_t step[MAX_NDIM]              # elements, > 0
    piece_t *pieces[MAX_NDIM]
    int n_pieces[MAX_NDIM]


cdef int count_pieces(const selection_t *s, const index_t *chunk, index_t *n) except -1
cdef int prepare(
    job_t *job, const axial_t *axial, const layout_t *layout, const selection_t *s,
    piece_t *room, char *user, const index_t *user_stride
) except -1 nogil
cdef int run(const job_t *job, int axis, int first, int stop) noexcept nogil
cdef int reserve_range(int fd, index_t offset, index_t length) noexcept nogil
