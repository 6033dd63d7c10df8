# Transfers between the chunks of an array and NumPy arrays.

cimport numpy as cnp

from ._file cimport ahead_t
from ._copy cimport job_t
from ._gather cimport QueryTables
from ._visits cimport query_t
from ._selection cimport selection_t
from ._state cimport ArrayState, Frame
from ._supply cimport Use
from ._types cimport MAX_NDIM, index_t


# Pieces of a job that were asked for, and are still to be moved.
cdef struct asked_t:
    bint is_there
    int low[MAX_NDIM]
    int high[MAX_NDIM]


cdef class Transfers(ArrayState):
    cdef int _transfer(self, Frame frame, selection_t *s, cnp.ndarray values, bint write) except -1
    cdef int _transfer_asked(self, Frame frame, selection_t *s, cnp.ndarray values) except -1
    cdef int _move_frozen(self, Frame frame, selection_t *s, cnp.ndarray values) except -1
    cdef int _move_apart(
        self, Frame frame, selection_t *s, cnp.ndarray values, index_t total
    ) except -1
    cdef int _move_or_watch(self, Frame frame, selection_t *s, cnp.ndarray values) except -1
    cdef int _move_box(self, Frame frame, selection_t *s, cnp.ndarray values, bint write) except -1
    cdef int _move_halves(
        self, Frame frame, selection_t *s, cnp.ndarray values, bint write, const index_t *n_pieces,
        bint asked
    ) except -1
    cdef int _look_for_signals(self, bint write) except -1
    cdef int _run_large(self, Frame frame, job_t *job, index_t size) except -1
    cdef int _run_cold(self, job_t *job, const int *zeros, index_t size) except -1
    cdef int _ask(
        self, job_t *job, ahead_t *ahead, const int *low, const int *high, asked_t *asked
    ) except -1
    cdef int _run_parts(self, const job_t *job, const int *low, const int *high) except -1
    cdef int _check_transferred(self, Frame frame, int failure, bint write) except -1
    cdef int _begin_query(self, Frame frame, query, index_t *origin) except -1
    cdef int _move_points(
        self, Frame frame, query, const index_t *origin, cnp.ndarray values, bint write
    ) except -1
    cdef int _run_frozen(self, Frame frame, QueryTables tables, index_t size, index_t total) except -1
    cdef int _write_noted(self, Frame frame, QueryTables tables, index_t size, index_t total) except -1
    cdef int _run_visited(self, QueryTables tables, index_t size, index_t total) except -1
    cdef int _run_cold_visits(self, QueryTables tables, index_t size, index_t total) except -1
    cdef Frame _latest_cuts(self, Frame frame)
    cdef int _read_watched(self, Frame frame, selection_t *s, cnp.ndarray values) except -1
    cdef int _read_points_watched(
        self, Frame frame, query, const index_t *origin, cnp.ndarray values
    ) except -1
    cdef int _begin_write(self, Frame frame) except -1
    cdef int _doubt(self, Frame frame) except -1
    cdef int _store(self, Frame frame, selection_t *s, cnp.ndarray values) except -1
    cdef int _note_box(self, Frame frame, const selection_t *s) except -1
    cdef Use _provide_box(self, Frame frame, const selection_t *s)
    cdef int _verify_box(self, Frame frame, const selection_t *s) except -1
    cdef int _trust_box(self, Frame frame, const selection_t *s, bint parts_only) except -1
    cdef index_t _count_unverified(self, Frame frame, const selection_t *s) except -1
    cdef int _verify_visits(self, Frame frame, const query_t *q) except -1
    cdef int _verify(self, Frame frame, addresses) except -1
    cdef void _note_visits(self, const query_t *q) noexcept
    cdef Frame _latest_table(self, Frame frame)
    cdef Frame _showing(self)
    cdef bint _rewrite(self, Frame frame, selection_t *s, cnp.ndarray values) except -1
    cdef int _thaw(self, Frame frame, addresses) except -1
    cdef int _tell(self, const selection_t *s) except -1


cdef index_t middle_of(Frame frame, const selection_t *s, int dim) noexcept
cdef index_t block_limit() except -1
