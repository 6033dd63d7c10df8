# Visits of a query to chunks.

from ._query cimport query_t
from ._types cimport index_t


cdef int sort_visits(query_t *q, index_t first) noexcept nogil
cdef int run_visits(const query_t *q, index_t first, index_t stop) noexcept nogil
