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


# The selection of one factor in one chunk (that is, one along the axes of the factor).
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
    index_t *chunk              # (n_parts, n_axes): chunk indices, counted as in axial_t
    uint64_t *entries           # NULL: in progression
    list_t list                 # how to read them
    index_t *user               # the target of `list.user`
    index_t at_step, user_step  # of a progression


cdef struct query_t:
    layout_t layout
    axial_t axial
    index_t extent[MAX_NDIM]    # bounds: the base of negative indices
    index_t unit[MAX_NDIM]      # place difference of neighbours along an axis, in units of entries
    int n_factors
    factor_t factor[MAX_NDIM]
    char *user
    index_t size                # bytes moved of each element ...
    index_t offset              # ... and where in the element they begin
    index_t stage_limit         # bytes of a chunk that may be staged
    index_t gap                 # most bytes between elements that are read with them
    bint write, stream
    bint sieves                 # it may use the layout's sieve
    ahead_t *ahead              # NULL: elements are moved; else only asked for
    # Visits to chunks, sorted by address: numbers of combinations of parts.
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
