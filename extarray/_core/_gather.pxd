# The tables by which a query is run.

from libc.stdint cimport int64_t

cimport numpy as cnp

from ._axial cimport Axial
from ._visits cimport factor_t, query_t
from ._types cimport index_t


cdef class QueryTables:
    cdef query_t query
    cdef Axial pinned

    cdef factor_t *_new_factor(self, index_t n_axes) except NULL
    cdef int add(self, factor, tuple strides) except -1
    cdef int add_progression(
        self, int axis, index_t start, index_t step, index_t count, index_t user_step
    ) except -1
    cdef int add_points(self, tuple axes, tuple indices, tuple user_steps) except -1
    cdef int add_places(
        self, int axis, tuple start, tuple extents, const int64_t[::1] places, index_t user_step
    ) except -1
    cdef int add_mask(
        self, int axis, tuple start, cnp.ndarray mask, index_t count, index_t user_step
    ) except -1
    cdef index_t n_combinations(self)
    cdef int look_up(self, index_t first, index_t stop) except -1
