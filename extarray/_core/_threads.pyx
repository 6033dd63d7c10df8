"""The threads of a large transfer."""

import _thread

from cpython.pythread cimport (
    WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock,
    PyThread_release_lock, PyThread_type_lock,
)

from ._copy cimport job_t, run
from ._gather cimport QueryTables
from ._types cimport MAX_NDIM, index_t, take_flag
from ._visits cimport run_visits

from extarray.common.config import config

cdef index_t THREAD_BYTES = 1 << 23         # the least share of a thread


cdef class Share:
    """The share of one thread in a large transfer, which is run once, by whoever comes first."""

    cdef int failure
    cdef int is_taken
    cdef PyThread_type_lock ended       # held until the share has been run

    def __cinit__(self):
        self.ended = PyThread_allocate_lock()
        if self.ended == NULL:
            raise MemoryError("no memory for the lock of a thread")
        PyThread_acquire_lock(self.ended, WAIT_LOCK)

    def __dealloc__(self):
        if self.ended != NULL:
            PyThread_free_lock(self.ended)

    cdef int move(self) noexcept nogil:
        return 0

    def run(self):
        """Run the share, if nobody has begun."""
        if take_flag(&self.is_taken):
            return
        with nogil:
            self.failure = self.move()
            PyThread_release_lock(self.ended)

    cdef void wait(self) noexcept:
        """Wait until a share that somebody has begun has been run."""
        with nogil:
            PyThread_acquire_lock(self.ended, WAIT_LOCK)
            PyThread_release_lock(self.ended)


cdef class BoxShare(Share):
    """Some pieces of a box."""

    cdef const job_t *job
    cdef int low[MAX_NDIM]
    cdef int high[MAX_NDIM]

    cdef int move(self) noexcept nogil:
        return run(self.job, self.low, self.high)


cdef class VisitShare(Share):
    """Some visits of a query."""

    cdef QueryTables tables
    cdef index_t first, stop

    cdef int move(self) noexcept nogil:
        return run_visits(&self.tables.query, self.first, self.stop)


cdef index_t worth_threads(index_t size) except -1:
    """Return how many threads a transfer of `size` bytes is worth."""
    return min(<index_t> config.threads, size // THREAD_BYTES) if size >= 2 * THREAD_BYTES else 1


cdef int run_pieces(const job_t *job, const int *low, const int *high, index_t shares) except -1:
    """Move the pieces low ... high - 1 of a box, on as many threads as there are shares, or fewer."""
    cdef BoxShare share
    cdef index_t n, i
    cdef int axis = 0, j
    # Along the first axis with pieces enough, or the one with the most.
    for j in range(job.layout.ndim):
        if high[j] - low[j] > high[axis] - low[axis]:
            axis = j
        if high[axis] - low[axis] >= shares:
            break
    n = high[axis] - low[axis]
    shares = min(shares, n)
    work = []
    for i in range(shares):
        share = BoxShare()
        share.job = job
        for j in range(job.layout.ndim):
            share.low[j] = low[j]
            share.high[j] = high[j]
        share.low[axis] = low[axis] + <int> (i * n // shares)
        share.high[axis] = low[axis] + <int> ((i + 1) * n // shares)
        work.append(share)
    return run_shares(work)


cdef int run_tables(QueryTables tables, index_t first, index_t stop, index_t shares) except -1:
    """Make some of the visits that were looked up, on as many threads as there are shares."""
    cdef VisitShare share
    cdef index_t n = stop - first, i
    shares = max(1, min(shares, n))
    work = []
    for i in range(shares):
        share = VisitShare()
        share.tables = tables
        share.first = first + i * n // shares
        share.stop = first + (i + 1) * n // shares
        work.append(share)
    return run_shares(work)


cdef int run_shares(list work) except -1:
    """Run shares, all but the first on threads of their own.  Returns 0 or an errno."""
    cdef Share share
    interrupt = None
    # Nobody leaves before all shares are done: they use the caller's frame.  What no thread has begun,
    # because there are no more of them or no memory for one, is done here.
    try:
        for share in work[1:]:
            _thread.start_new_thread(share.run, ())
    except Exception:
        pass
    except BaseException as error:      # Ctrl-C
        interrupt = error
    for share in work:
        share.run()
    for share in work:
        share.wait()
    if interrupt is not None:
        raise interrupt
    for share in work:
        if share.failure:
            return share.failure
    return 0
