# A query made ready to be run.

from ._axial cimport Axial
from ._query cimport factor_t, query_t
from ._types cimport index_t


cdef class Plan:
    cdef query_t query
    cdef Axial pinned

    cdef factor_t *_new_factor(self, index_t n_axes) except NULL
    cdef index_t n_combinations(self)
    cdef int look_up(self, index_t first, index_t stop) except -1
