# Lists of the elements that a factor of a query selects, and their sources.

from libc.stdint cimport int64_t, uint8_t

from ._copy cimport piece_t
from ._visits cimport factor_t, query_t
from ._types cimport MAX_NDIM, index_t


cdef enum:
    MAX_DIMS = 64               # of a NumPy array
    OUT_OF_BOUNDS = -2          # failures other than lack of memory
    TOO_MANY = -3


# Points: one index per axis, from each array.
cdef struct points_t:
    int ndim
    index_t n
    index_t count[MAX_DIMS]
    index_t user_step[MAX_DIMS]
    const char *data[MAX_NDIM]
    index_t step[MAX_NDIM][MAX_DIMS]


# Places in a box, by their numbers in its C order.
cdef struct places_t:
    int ndim
    index_t n
    const int64_t *place
    index_t start[MAX_NDIM]
    index_t extent[MAX_NDIM]


# A mask, split into pieces of one chunk along each axis.
cdef struct mask_t:
    int ndim
    const uint8_t *data
    index_t count[MAX_NDIM]
    index_t step[MAX_NDIM]
    piece_t *pieces[MAX_NDIM]
    index_t n_pieces[MAX_NDIM]
    index_t *before             # (rows, pieces of the last axis): true places before, in C order


# Each of these makes the list of a factor and its parts.  Returns 0, -1 (no memory), or another
# failure.
cdef int list_points(query_t *q, factor_t *f, const points_t *p) noexcept nogil
cdef int list_places(query_t *q, factor_t *f, const places_t *box) noexcept nogil
cdef int list_mask(query_t *q, factor_t *f, const mask_t *m, index_t count) noexcept nogil

cdef void merge_dims(points_t *p, int n_axes) noexcept nogil
cdef int set_list(const query_t *q, factor_t *f, index_t n) noexcept nogil
cdef index_t count_rows(const mask_t *m) noexcept nogil
