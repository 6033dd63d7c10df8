# The index expression between the brackets, as numbers.

from ._types cimport MAX_NDIM, index_t

cdef enum:
    MAX_RESULT_NDIM = 64        # NumPy's limit, newaxis included


# A box of elements: on each axis of the array `count` indices from `start` on, `step` apart
# (negative steps run backwards), and how the axes map to dimensions of the result.
cdef struct selection_t:
    int ndim
    index_t start[MAX_NDIM]
    index_t step[MAX_NDIM]
    index_t count[MAX_NDIM]
    int result_ndim
    int result_axis[MAX_RESULT_NDIM]        # the array's axis, -1: newaxis
    index_t result_shape[MAX_RESULT_NDIM]
    bint is_scalar                          # every axis has an integer, no Ellipsis


cdef bint parse(object key, const index_t *shape, int ndim, selection_t *s) except -1
cdef index_t selection_size(const selection_t *s) noexcept nogil
cdef object result_shape(const selection_t *s)
cdef int whole_box(object start, object stop, int ndim, selection_t *s) except -1
cdef int box_of(object query, int ndim, selection_t *s) except -1
cdef int widest(const selection_t *s) noexcept
cdef int narrow(const selection_t *s, int dim, index_t low, index_t high, selection_t *part) except -1
cdef bint fits(tuple shape, const selection_t *s) except -1
