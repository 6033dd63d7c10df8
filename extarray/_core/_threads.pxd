# The threads of a large transfer.

from ._copy cimport job_t
from ._gather cimport QueryTables
from ._types cimport index_t


cdef index_t worth_threads(index_t size) except -1
cdef int run_pieces(const job_t *job, const int *low, const int *high, index_t n_threads) except -1
cdef int run_tables(
    QueryTables tables, index_t first, index_t stop, index_t n_threads
) except -1
