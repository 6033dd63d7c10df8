"""The threads of a large transfer."""

import _thread

from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock,
    PyThread_release_lock, PyThread_type_lock,
)

from ._copy cimport job_t, run
from ._gather cimport QueryTables
from ._types cimport MAX_NDIM, index_t
from ._visits cimport run_visits

from extarray.common.config import config

cdef extern from "_shared.h":
    # For threads that run without the GIL.
    index_t take_next "xa_take_next"(index_t *p) noexcept nogil
    void note "xa_note"(int *p, int n) noexcept nogil

cdef index_t THREAD_BYTES = 1 << 23         # for each thread, at least
cdef index_t SHARES = 4                     # for each thread: an idle thread takes the next one


cdef class Work:
    """The shares of a large transfer: an idle thread takes the next one."""

    cdef index_t n_shares
    cdef index_t n_taken
    cdef index_t n_over
    cdef int failure
    cdef PyThread_type_lock ended       # held until all shares have run

    def __cinit__(self):
        self.ended = PyThread_allocate_lock()
        if self.ended == NULL:
            raise MemoryError("no memory for the lock of a thread")
        PyThread_acquire_lock(self.ended, WAIT_LOCK)

    def __dealloc__(self):
        if self.ended != NULL:
            PyThread_free_lock(self.ended)

    cdef int move(self, index_t i) noexcept nogil:
        return 0

    def run(self):
        """Run shares until all have been taken."""
        cdef index_t i
        cdef int failure
        with nogil:
            while True:
                i = take_next(&self.n_taken)
                if i >= self.n_shares:
                    break
                failure = self.move(i)
                if failure:
                    note(&self.failure, failure)
                if take_next(&self.n_over) + 1 == self.n_shares:
                    PyThread_release_lock(self.ended)

    cdef void wait(self) noexcept:
        """Wait until all shares have run, once none is left to take."""
        with nogil:
            if self.n_shares:
                PyThread_acquire_lock(self.ended, WAIT_LOCK)
                PyThread_release_lock(self.ended)


cdef class BoxWork(Work):
    """The pieces low ... high - 1 of a box; `parts` is the number of parts along each axis."""

    cdef const job_t *job
    cdef const int *low
    cdef const int *high
    cdef int parts[MAX_NDIM]

    cdef int move(self, index_t i) noexcept nogil:
        cdef int low[MAX_NDIM]
        cdef int high[MAX_NDIM]
        cdef int j
        cdef index_t n, part
        for j in range(self.job.layout.ndim - 1, -1, -1):
            n = self.high[j] - self.low[j]
            part = i % self.parts[j]
            i //= self.parts[j]
            low[j] = self.low[j] + <int> (part * n // self.parts[j])
            high[j] = self.low[j] + <int> ((part + 1) * n // self.parts[j])
        return run(self.job, low, high)


cdef class VisitWork(Work):
    """The visits first ... stop - 1 of a query."""

    cdef QueryTables tables
    cdef index_t first, stop

    cdef int move(self, index_t i) noexcept nogil:
        cdef index_t n = self.stop - self.first
        return run_visits(
            &self.tables.query, self.first + i * n // self.n_shares,
            self.first + (i + 1) * n // self.n_shares)


cdef index_t worth_threads(index_t size) except -1:
    """Return how many threads a transfer of `size` bytes is worth."""
    return min(<index_t> config.threads, size // THREAD_BYTES) if size >= 2 * THREAD_BYTES else 1


cdef int run_pieces(const job_t *job, const int *low, const int *high, index_t n_threads) except -1:
    """Move the pieces low ... high - 1 of a box, on up to `n_threads` threads."""
    cdef BoxWork work = BoxWork()
    cdef index_t wanted = SHARES * n_threads
    cdef int j
    work.job, work.low, work.high = job, low, high
    work.n_shares = 1
    for j in range(job.layout.ndim):
        work.parts[j] = <int> min(
            <index_t> (high[j] - low[j]), (wanted + work.n_shares - 1) // work.n_shares)
        work.n_shares *= work.parts[j]
    return run_work(work, n_threads)


cdef int run_tables(QueryTables tables, index_t first, index_t stop, index_t n_threads) except -1:
    """Make some of the visits that were looked up, on up to `n_threads` threads."""
    cdef VisitWork work = VisitWork()
    work.tables, work.first, work.stop = tables, first, stop
    work.n_shares = min(SHARES * n_threads, stop - first)
    return run_work(work, n_threads)


cdef int run_work(Work work, index_t n_threads) except -1:
    """Run all shares, on this thread and others.  Return 0 or an errno."""
    interrupt = None
    # No thread leaves before all shares are done: they use the caller's frame.  This thread runs
    # the shares of threads that cannot be started.
    try:
        for _ in range(1, min(n_threads, work.n_shares)):
            _thread.start_new_thread(work.run, ())
    except Exception:
        pass
    except BaseException as error:      # Ctrl-C
        interrupt = error
    work.run()
    work.wait()
    if interrupt is not None:
        raise interrupt
    return work.failure
