# Queries, the outer products of factors, between chunks and the user's memory; and their visits.

from libc.stdint cimport int32_t, int64_t, uint64_t

from ._copy cimport layout_t
from ._file cimport ahead_t
from ._types cimport MAX_NDIM, index_t
from ._vectors cimport axial_t


cdef extern from "_gather.h":
    ctypedef struct list_t "xa_list":
        uint64_t at_mask, number_mask
        int shift
        int64_t unit
        int64_t user_step
        const int64_t *user


# What one factor selects in one chunk (one, along the axes of the factor).
cdef struct part_t:
    index_t first               # a list: its first entry; else the place of the first element
    index_t count
    index_t user                # place of the first element in the user's memory (lists: 0)
    int32_t segment             # the latest segment that introduced one of the chunk's indices


# Points on some axes, in parts of one chunk each: as lists, or in arithmetic progression.
cdef struct factor_t:
    int n_axes
    int axis[MAX_NDIM]
    index_t n_parts
    part_t *parts
    index_t *chunk              # (n_parts, n_axes): chunk indices, as axial_t counts
    uint64_t *entries           # NULL: in progression
    list_t list                 # how they are read
    index_t *user               # what `list.user` points to
    index_t at_step, user_step  # of a progression


cdef struct query_t:
    layout_t layout
    axial_t axial
    index_t extent[MAX_NDIM]    # bounds: negative indices count from there
    index_t unit[MAX_NDIM]      # from an element to the next one along an axis, as entries count
    int n_factors
    factor_t factor[MAX_NDIM]
    char *user
    index_t size                # bytes moved of each element ...
    index_t offset              # ... and where in the element they begin
    index_t stage_limit         # bytes of a chunk that may be staged
    index_t gap                 # bytes between elements that are read with them, at most
    bint write, stream
    bint sieves                 # it has the leave of the layout's sieve
    ahead_t *ahead              # NULL: elements are moved; else the file is asked for them
    # Visits to chunks, by address: the numbers of the combinations of parts.
    index_t n_visits
    index_t *address
    uint64_t *visit


cdef inline int bit_length(index_t n) noexcept nogil:
    cdef int bits = 0
    while n > 0:
        n >>= 1
        bits += 1
    return bits


cdef int sort_visits(query_t *q, index_t first) noexcept nogil
cdef index_t place_of_visit(const query_t *q, index_t i) noexcept nogil
cdef int run_visits(const query_t *q, index_t first, index_t stop) noexcept nogil
