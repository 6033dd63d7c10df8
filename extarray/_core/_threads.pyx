"""The threads of a large transfer."""

import _thread

from ._copy cimport job_t, run
from ._gather cimport Plan
from ._types cimport index_t
from ._visits cimport run_visits

from extarray.config import config

cdef index_t THREAD_BYTES = 1 << 23         # the least share of a thread


cdef class Share:
    """The share of one thread in a large transfer."""

    cdef int failure

    def run(self):
        raise NotImplementedError

    def run_and_release(self, lock):
        self.run()
        lock.release()


cdef class BoxShare(Share):
    """Some pieces of a box."""

    cdef const job_t *job
    cdef int axis, first, stop

    def run(self):
        with nogil:
            self.failure = run(self.job, self.axis, self.first, self.stop)


cdef class VisitShare(Share):
    """Some visits of a query."""

    cdef Plan plan
    cdef index_t first, stop

    def run(self):
        with nogil:
            self.failure = run_visits(&self.plan.query, self.first, self.stop)


cdef index_t worth_threads(index_t size) except -1:
    """How many threads a transfer of `size` bytes is worth."""
    return min(<index_t> config.threads, size // THREAD_BYTES) if size >= 2 * THREAD_BYTES else 1


cdef int run_pieces(const job_t *job, int axis, index_t shares) except -1:
    """Move the pieces of a box, shared along an axis among as many threads."""
    cdef BoxShare share
    cdef index_t n = job.n_pieces[axis], i
    work = []
    for i in range(shares):
        share = BoxShare()
        share.job = job
        share.axis = axis
        share.first = <int> (i * n // shares)
        share.stop = <int> ((i + 1) * n // shares)
        work.append(share)
    return run_shares(work)


cdef int run_plan(Plan plan, index_t shares) except -1:
    """Make the visits that were looked up, on as many threads as there are shares."""
    cdef VisitShare share
    cdef index_t n = plan.query.n_visits, i
    shares = max(1, min(shares, n))
    work = []
    for i in range(shares):
        share = VisitShare()
        share.plan = plan
        share.first = i * n // shares
        share.stop = (i + 1) * n // shares
        work.append(share)
    return run_shares(work)


cdef int run_shares(list work) except -1:
    """Run shares, all but the first on threads of their own.  Returns 0 or an errno."""
    cdef Share share
    # Whatever happens, nobody leaves before all shares are done: they use the caller's frame.
    waiting = []
    for share in work[1:]:
        done = _thread.allocate_lock()
        done.acquire()
        try:
            _thread.start_new_thread(share.run_and_release, (done,))
        except RuntimeError:        # no more threads
            share.run()
        else:
            waiting.append(done)
    work[0].run()
    interrupt = None
    for done in waiting:
        while True:
            try:
                done.acquire()
                break
            except BaseException as error:      # Ctrl-C
                interrupt = error
    if interrupt is not None:
        raise interrupt
    for share in work:
        if share.failure:
            return share.failure
    return 0
