# Transfers between the chunks of an array and NumPy arrays.

cimport numpy as cnp

from ._copy cimport job_t
from ._query cimport query_t
from ._selection cimport selection_t
from ._state cimport ArrayState
from ._types cimport index_t


cdef class Transfers(ArrayState):
    cdef void _begin(self, selection_t *s, index_t *bounds) noexcept
    cdef int _rebase(self, selection_t *s) except -1
    cdef int _transfer(self, selection_t *s, cnp.ndarray values, bint write) except -1
    cdef int _move_box(self, selection_t *s, cnp.ndarray values, bint write) except -1
    cdef int _move_halves(
        self, selection_t *s, cnp.ndarray values, bint write, const index_t *n_pieces
    ) except -1
    cdef int _run_large(self, job_t *job, index_t size) except -1
    cdef bint _is_cut(self) noexcept
    cdef int _check_transferred(self, int failure, bint write) except -1
    cdef int _begin_query(self, query, index_t *origin) except -1
    cdef int _check_query(self, query, const index_t *origin) except -1
    cdef int _move_points(
        self, query, const index_t *origin, cnp.ndarray values, bint write
    ) except -1
    cdef int _read_watched(self, selection_t *s, cnp.ndarray values) except -1
    cdef int _read_points_watched(
        self, query, const index_t *origin, cnp.ndarray values
    ) except -1
    cdef int _inner(self, int axis, index_t *low, index_t *high) except -1
    cdef int _fill_cut(
        self, const selection_t *s, cnp.ndarray values, const index_t *lows, const index_t *highs
    ) except -1
    cdef int _begin_write(self) except -1
    cdef int _store(self, selection_t *s, cnp.ndarray values) except -1
    cdef int _note_box(self, selection_t *s) except -1
    cdef void _note_visits(self, const query_t *q) noexcept
    cdef int _tell(self, const selection_t *s) except -1


cdef index_t block_limit() except -1
