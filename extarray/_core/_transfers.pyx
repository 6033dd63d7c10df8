"""Transfers between the chunks of an array and NumPy arrays: planned under the GIL, run without.

Here is also what a transfer must tell and learn: which chunks were written, for their checksums,
and what was cut off while they were read.
"""

import os

import numpy as np

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from ._axial cimport Axial, address_of, axial_t
from ._copy cimport STAGE, count_pieces, job_t, piece_t, prepare, run
from ._gather cimport Plan
from ._mapping cimport Counter, Region, Touched, touched_missed, touched_set, touched_take
from ._query cimport query_t
from ._selection cimport box_of, narrow, selection_size, selection_t, widest
from ._state cimport ArrayState
from ._threads cimport run_pieces, run_plan, worth_threads
from ._types cimport MAX_NDIM, ceil_div, floor_div, index_t

from extarray.config import config
from extarray.errors import BoundsError, ShapeError, StorageError, TruncatedError

cnp.import_array()

cdef extern from "<sys/stat.h>":
    ctypedef struct stat_t "struct stat":
        int64_t st_size
    int fstat(int fd, stat_t *about) nogil

cdef enum:
    ROOM = 48                   # pieces that fit on the stack: small transfers allocate nothing
    WINDOW = 1 << 18            # visits to chunks that are looked up at a time
    MOST_PIECES = 1 << 18       # of a box that is moved at a time

cdef index_t RELEASE_BYTES = 1 << 16        # below this, releasing the GIL costs more than it gives
cdef index_t STREAM_BYTES = 1 << 23         # results beyond the caches
cdef index_t PART_BYTES = 1 << 28           # between parts as large, signals are looked for
cdef index_t CHECK_BYTES = 1 << 20          # above this, a look at the length of the file costs nothing


cdef class Transfers(ArrayState):
    """Boxes and queries of an array, moved from and to NumPy arrays of its dtype."""

    cdef void _begin(self, selection_t *s, index_t *bounds) noexcept:
        """Note what indices mean now: reading the brackets may run any code, and other threads."""
        cdef int j
        for j in range(self.rank):
            bounds[j] = self.bounds[j]
            s.origin[j] = self.origins[j]
        s.is_free = False

    cdef int _rebase(self, selection_t *s) except -1:
        """Have a selection count from index 0 as it is now; refuse what is no longer there."""
        cdef index_t first, last
        cdef int j
        if s.ndim != self.rank:
            self._check_rank(s.ndim)
        for j in range(self.rank):
            s.start[j] += self.origins[j] - s.origin[j]
            s.origin[j] = self.origins[j]
            if s.count[j] and not s.is_free:
                first = s.start[j]
                last = first + (s.count[j] - 1) * s.step[j]
                if min(first, last) < 0 or max(first, last) >= self.bounds[j]:
                    raise BoundsError(
                        f"the bounds of {self._name()} have moved in while a selection was used: axis "
                        f"{j} has size {self.bounds[j]} now")
        return 0

    cdef int _transfer(self, selection_t *s, cnp.ndarray values, bint write) except -1:
        """Move a selection from or to an array of this dtype, which broadcasts to its shape."""
        if self.cuts is None or write or s.is_free or selection_size(s) == 0:
            return self._move_box(s, values, write)
        return self._read_watched(s, values)

    cdef int _move_box(self, selection_t *s, cnp.ndarray values, bint write) except -1:
        """Move a selection, whatever happens meanwhile."""
        cdef index_t stride[MAX_NDIM]
        cdef index_t room_for[MAX_NDIM]
        cdef piece_t room[ROOM]
        cdef piece_t *pieces = room
        cdef job_t job
        cdef index_t total = 0, size = selection_size(s) * self.layout.itemsize
        cdef int j, i, failure, missing = s.result_ndim - values.ndim
        if size == 0:
            return 0
        self._rebase(s)
        for j in range(self.rank):
            stride[j] = 0
        for i in range(missing, s.result_ndim):
            if s.result_axis[i] >= 0 and values.shape[i - missing] > 1:
                stride[s.result_axis[i]] = values.strides[i - missing]
        count_pieces(s, self.layout.chunk, room_for)
        for j in range(self.rank):
            total += room_for[j]
        if total > ROOM:
            if total > MOST_PIECES:
                return self._move_halves(s, values, write, room_for)
            pieces = <piece_t *> malloc(total * sizeof(piece_t))
            if pieces == NULL:
                raise MemoryError(f"no memory for {total} pieces of a selection")
        try:
            prepare(&job, &self.vectors.state, &self.layout, s, pieces, values.data, stride)
            job.write = write
            job.stream = size >= STREAM_BYTES
            if size < RELEASE_BYTES and self.layout.base != NULL:
                failure = run(&job, NULL, NULL)
            else:
                failure = self._run_large(&job, size)
        finally:
            if pieces != room:
                free(pieces)
        return self._check_transferred(failure, write)

    cdef int _move_halves(
        self, selection_t *s, cnp.ndarray values, bint write, const index_t *n_pieces
    ) except -1:
        """Move a selection of too many pieces, first one half along the axis that has most."""
        cdef selection_t part
        cdef int i, dim = -1, missing = s.result_ndim - values.ndim
        cdef index_t middle, low, high
        for i in range(s.result_ndim):
            if s.result_axis[i] >= 0 and (
                    dim < 0 or n_pieces[s.result_axis[i]] > n_pieces[s.result_axis[dim]]):
                dim = i
        middle = s.result_shape[dim] // 2
        for low, high in ((0, middle), (middle, s.result_shape[dim])):
            if low:
                PyErr_CheckSignals()
                self._check_open()
            narrow(s, dim, low, high, &part)
            inner = values
            if dim >= missing and values.shape[dim - missing] > 1:
                inner = values[(slice(None),) * (dim - missing) + (slice(low, high),)]
            self._move_box(&part, inner, write)
        return 0

    cdef int _run_large(self, job_t *job, index_t size) except -1:
        """Run a job without the GIL, on as many threads as are worth it."""
        cdef axial_t state
        cdef Axial axial = self.vectors
        # Another thread may close the array, or grow it, meanwhile: what the job uses stays.
        cdef Region _region = self.region
        cdef Touched _touched = self.touched
        cdef object _places = self.places
        cdef int failure
        cdef index_t shares = worth_threads(size), limit
        cdef int zeros[MAX_NDIM]
        if job.write:
            # An eighth of the memory for what all threads stage of new chunks.
            limit = config.max_memory // (8 * max(1, config.threads))
            while job.piece < STAGE and 2 * job.piece <= limit:
                job.piece *= 2
        if size >= CHECK_BYTES and self._is_cut():
            self._raise_cut()
        memset(zeros, 0, sizeof(zeros))
        axial.pin(&state)
        job.axial = &state
        try:
            if size > PART_BYTES:
                return run_parts(job, zeros, job.n_pieces)
            if shares > 1 and job.layout.ndim > 0:
                return run_pieces(job, zeros, job.n_pieces, shares)
            with nogil:
                failure = run(job, NULL, NULL)
            return failure
        finally:
            axial.unpin()

    cdef bint _is_cut(self) noexcept:
        """Whether somebody has cut off the file."""
        cdef stat_t about
        return (self.layout.fd >= 0 and fstat(self.layout.fd, &about) == 0
                and about.st_size < self.file_bytes)

    def _raise_cut(self):
        raise TruncatedError(
            f"the file of {self._name()} is shorter than its chunks are: another program has cut it "
            "off; restore it from a copy")

    cdef int _check_transferred(self, int failure, bint write) except -1:
        if failure:
            if self._is_cut():
                self._raise_cut()
            raise self._failed(
                failure,
                f"{os.strerror(failure)} while {'writing to' if write else 'reading'} {self._name()}")
        return 0

    def _failed(self, number, what):
        return StorageError(number, what, None if self.path is None else str(self.path))

    # -- queries -----------------------------------------------------------------------------

    def _move(self, query, cnp.ndarray values not None, bint write):
        """Move what a query selects from or (write) to an array of its shape and dtype.

        `query` is one of `extarray.indexing.query`; behind its dimensions `values` may have those
        of one element, which are contiguous.
        """
        cdef selection_t s
        cdef index_t bounds[MAX_NDIM]
        cdef index_t origin[MAX_NDIM]
        cdef int rank
        if write:
            self._check_writable()
        else:
            self._check_open()
        if query.size == 0:
            return
        rank = self._begin_query(query, origin)
        if (<object> values).shape[:len(query.shape)] != query.shape:
            raise ShapeError(f"memory of shape {(<object> values).shape} for a query of {query.shape}")
        if query.is_box and query.field is None:
            self._begin(&s, bounds)
            box_of(query, rank, &s)
            memcpy(s.origin, origin, rank * sizeof(index_t))
            if write:
                self._store(&s, values)
            else:
                if self.log is not None:
                    self._tell(&s)
                self._transfer(&s, values, False)
        elif write and self.sums is not None:
            self._begin_write()
            try:
                self._move_points(query, origin, values, True)
            finally:
                self.writing -= 1
        else:
            if self.log is not None and not write:
                self.log.note_query(query, self.shape)
            if self.cuts is None or write:
                self._move_points(query, origin, values, write)
            else:
                self._read_points_watched(query, origin, values)
        if write and self.is_durable:
            self._sync_elements()

    cdef int _begin_query(self, query, index_t *origin) except -1:
        """Note from which origin the indices of a query count; returns the number of axes."""
        cdef tuple given = query.origin
        cdef int j, rank = len(query.extents)
        self._check_rank(rank)
        for j in range(rank):
            origin[j] = self.origins[j] if given is None else given[j]
        self._check_query(query, origin)
        return rank

    cdef int _check_query(self, query, const index_t *origin) except -1:
        """Raise where the array has not got what a query selects from."""
        cdef tuple extents = query.extents
        cdef index_t shift
        cdef int j, rank = len(extents)
        self._check_rank(rank)
        for j in range(rank):
            shift = self.origins[j] - origin[j]
            if shift < 0 or <index_t> extents[j] > self.bounds[j] - shift:
                raise BoundsError(
                    f"the bounds of {self._name()} have moved in while a selection was used: axis {j} "
                    f"had size {extents[j]}, and has {self.bounds[j]}")
        return 0

    cdef int _move_points(
        self, query, const index_t *origin, cnp.ndarray values, bint write
    ) except -1:
        """Move what a query selects, whatever happens meanwhile."""
        cdef Plan plan
        cdef Region _region
        cdef Touched _touched
        cdef object _places
        cdef query_t *q
        cdef index_t size, total, first
        cdef tuple extents = query.extents
        cdef int failure = 0, j, rank = len(extents)
        cdef bint noted = write and self.sums is not None
        plan = Plan(self.vectors)
        # Code of Python's has run since: other threads may have closed the array, grown or cut it.
        self._check_open()
        self._check_query(query, origin)
        self._check_rank(plan.query.axial.ndim)
        _region = self.region
        _touched = self.touched
        _places = self.places
        q = &plan.query
        q.layout = self.layout
        size = 1
        for j in range(rank - 1, -1, -1):
            q.extent[j] = extents[j]
            q.layout.offset[j] += self.origins[j] - origin[j]
            # A table of places counts elements in C order.
            q.unit[j] = q.layout.stride[j] if q.layout.place == NULL else size
            size *= q.layout.chunk[j]
        q.user = values.data
        q.size = q.layout.itemsize if query.field is None else query.field.dtype.itemsize
        q.offset = 0 if query.field is None else query.field.offset
        q.stage_limit = block_limit() // max(1, config.threads)
        size = query.size * q.size
        q.write = write
        q.stream = not write and size >= STREAM_BYTES
        for factor in query.factors:
            factor.add_to(plan, (<object> values).strides)
        if write:
            self._check_query(query, origin)    # masks are copied by code of Python's
        total = plan.n_combinations()
        for first in range(0, total, WINDOW):
            plan.look_up(first, min(total, first + WINDOW))
            if noted:
                self._note_visits(q)
            try:
                failure = run_visited(plan, size, total)
            finally:
                if noted:
                    self._note_visits(q)
            if failure:
                break
            if first + WINDOW < total:
                PyErr_CheckSignals()
        return self._check_transferred(failure, write)

    # -- what is cut off meanwhile -----------------------------------------------------------

    cdef int _read_watched(self, selection_t *s, cnp.ndarray values) except -1:
        """Read a selection; what has been cut off meanwhile, or before, gets the fill value."""
        cdef Counter cuts = self.cuts
        cdef uint64_t known
        cdef selection_t part
        cdef index_t lows[MAX_NDIM]
        cdef index_t highs[MAX_NDIM]
        cdef int j, dim
        while True:
            if cuts.look() != self.cuts_known:
                self._look_at_cuts()
                self._check_open()
                cuts = self.cuts
            known = self.cuts_known
            # What is cut off now counts as cut off, even if it grows again while it is read.
            for j in range(self.rank):
                self._inner(j, &lows[j], &highs[j])
            self._move_box(s, values, False)
            if cuts.look() == known:
                break
            # Of what was cut off it may have zeros.  Smaller parts are sooner read than cut.
            s.is_free = True
            dim = widest(s)
            if dim < 0:
                continue
            middle = s.result_shape[dim] // 2
            for low, high in ((0, middle), (middle, s.result_shape[dim])):
                narrow(s, dim, low, high, &part)
                self._read_watched(&part, values[(slice(None),) * dim + (slice(low, high),)])
            return 0
        if self.is_cut or s.is_free:
            self._fill_cut(s, values, lows, highs)
        return 0

    cdef int _read_points_watched(
        self, query, const index_t *origin, cnp.ndarray values
    ) except -1:
        """Read what a query selects; what has been cut off meanwhile, or before, gets the fill value."""
        cdef Counter cuts = self.cuts
        cdef uint64_t known
        cdef index_t low, high
        cdef int j
        while True:
            if cuts.look() != self.cuts_known:
                self._look_at_cuts()
                self._check_open()
                cuts = self.cuts
            known = self.cuts_known
            self._move_points(query, origin, values, False)
            if cuts.look() == known:
                break
            # As for boxes; what cannot be cut is read again.
            is_cut = False
            for part, piece in query.cut(0.5, self.chunk_shape, False):
                is_cut = True
                self._move(piece, values[part], False)
            if is_cut:
                return 0
        if self.is_cut:
            inner = []
            for j in range(len(query.extents)):
                self._inner(j, &low, &high)
                inner.append((low + origin[j], high + origin[j]))
            query.fill_outside(inner, values, self.fill)
        return 0

    def _look_at_cuts(self):
        """Know all cuts that were counted before this call: whoever cuts itself knows the bounds."""
        if self.cuts is not None:
            self._know_cuts(self.cuts.look(), None)

    cdef int _inner(self, int axis, index_t *low, index_t *high) except -1:
        """What of an axis is not cut off, counted from where index 0 was at first."""
        low[0] = -self.origins[axis]
        high[0] = low[0] + self.bounds[axis]
        if self.is_cut:
            low[0] = max(low[0], self.inner_low[axis])
            high[0] = max(low[0], min(high[0], self.inner_high[axis]))
        return 0

    cdef int _fill_cut(
        self, const selection_t *s, cnp.ndarray values, const index_t *lows, const index_t *highs
    ) except -1:
        """Give what of a selection lies outside of a box, as `_inner` counts, the fill value."""
        cdef index_t low, high, first, stop, step
        cdef int j, dim
        for j in range(s.ndim):
            low = lows[j] + s.origin[j]
            high = highs[j] + s.origin[j]
            # The indices start + i * step with first <= i < stop lie in low ... high - 1.
            step = s.step[j]
            if step > 0:
                first = (low - s.start[j] - 1) // step + 1 if low > s.start[j] else 0
                stop = (high - s.start[j] - 1) // step + 1 if high > s.start[j] else 0
            else:
                first = (s.start[j] - high) // -step + 1 if s.start[j] >= high else 0
                stop = (s.start[j] - low) // -step + 1 if s.start[j] >= low else 0
            first = max(0, min(first, s.count[j]))
            stop = max(first, min(stop, s.count[j]))
            if first == 0 and stop == s.count[j]:
                continue
            for dim in range(s.result_ndim):
                if s.result_axis[dim] == j:
                    break
            else:
                values[...] = self.fill
                return 0
            before = (slice(None),) * dim
            values[before + (slice(0, first),)] = self.fill
            values[before + (slice(stop, None),)] = self.fill
        return 0

    # -- what was written, where chunks have checksums ---------------------------------------

    cdef int _begin_write(self) except -1:
        """Have the files say that checksums are in doubt, before the first write that makes it so."""
        while self.sums is not None and not self.sums.in_doubt:
            self.sums.doubt()
        # Nobody else has run since the test; but the array may have been closed before.
        self._check_writable()
        self.writes += 1
        self.writing += 1
        return 0

    @property
    def _quiet(self):
        """A number that stays the same as long as nothing is written; None while something is, or
        may be through a view, and for ever where what was written could not be noted."""
        if self.writing or self.shown or (
                self.written is not None and touched_missed(self.written.root)):
            return None
        return self.writes

    def _take_written(self, index_t first, index_t limit):
        """Addresses, from `first` on, of chunks that were written since they were taken last.

        At most `limit` of them, in order.
        """
        addresses = np.empty(limit, np.int64)
        cdef index_t[::1] taken = addresses
        return addresses[:touched_take(self.written.root, first, limit, &taken[0])]

    def _note_written(self, const index_t[::1] addresses not None):
        """Have chunks count as written."""
        cdef index_t address
        self._begin_write()
        self.writing -= 1
        for address in addresses:
            touched_set(self.written.root, address)

    def _note_shown(self, bint last):
        """Have chunks count as written that views for writing are out of.

        After the `last` time, nobody is told of what is written through them.
        """
        if self.shown:
            self._note_written(np.fromiter(self.shown, np.int64))
        if last:
            self.shown.clear()

    cdef int _store(self, selection_t *s, cnp.ndarray values) except -1:
        """Write an array of this dtype, which broadcasts to the shape of a selection."""
        if self.sums is None:
            return self._transfer(s, values, True)
        self._begin_write()
        try:
            # Before, that nobody takes the checksums for right; and after, as they may have been
            # made meanwhile.
            self._note_box(s)
            try:
                return self._transfer(s, values, True)
            finally:
                self._note_box(s)
        finally:
            self.writing -= 1

    cdef int _note_box(self, selection_t *s) except -1:
        """Note the chunks that a selection is written to."""
        cdef index_t low[MAX_NDIM]      # the first element that counts, as the grid counts them
        cdef index_t step[MAX_NDIM]
        cdef index_t n[MAX_NDIM]
        cdef index_t done[MAX_NDIM]
        cdef index_t chunk[MAX_NDIM]
        cdef index_t last
        cdef int j
        if selection_size(s) == 0:
            return 0
        self._rebase(s)
        for j in range(self.rank):
            low[j] = s.start[j] + self.layout.offset[j]
            last = low[j] + (s.count[j] - 1) * s.step[j]
            # Negative in what is being added at a start.
            low[j], last = min(low[j], last), max(low[j], last)
            step[j] = max(1, abs(s.step[j]))
            n[j] = s.count[j]
            if step[j] < self.layout.chunk[j]:
                # One element of each chunk, to the last.
                step[j] = self.layout.chunk[j]
                n[j] = floor_div(last, step[j]) - floor_div(low[j], step[j]) + 1
            chunk[j] = floor_div(low[j], self.layout.chunk[j]) + self.layout.low[j]
            done[j] = 0
        while True:
            touched_set(self.written.root, address_of(&self.vectors.state, chunk))
            j = self.rank - 1
            while j >= 0:
                done[j] += 1
                if done[j] == n[j]:
                    done[j] = 0
                chunk[j] = self.layout.low[j] + floor_div(
                    low[j] + done[j] * step[j], self.layout.chunk[j])
                if done[j]:
                    break
                j -= 1
            if j < 0:
                return 0

    cdef void _note_visits(self, const query_t *q) noexcept:
        """Note the chunks that a query writes to."""
        cdef index_t i
        for i in range(q.n_visits):
            touched_set(self.written.root, q.address[i])

    # -- what is read ------------------------------------------------------------------------

    def _listen(self, log):
        """Have a log told of what is read; None: no more.  Returns the one that was told before."""
        before, self.log = self.log, log
        return before

    cdef int _tell(self, const selection_t *s) except -1:
        """Tell the log what is read: the extents from the first to the last element."""
        cdef int j
        cdef list extents = []
        for j in range(self.rank):
            if s.count[j] == 0:
                return 0
            extents.append((s.count[j] - 1) * (s.step[j] if s.step[j] > 0 else -s.step[j]) + 1)
        self.log.note(tuple(extents))
        return 0

    def _sync_elements(self):
        """Have what was written on the disk: the class that derives from this one knows how."""
        raise NotImplementedError


cdef int run_visited(Plan plan, index_t size, index_t total) except -1:
    """Make the visits that were looked up, of `total` that move `size` bytes, in parts as a job."""
    cdef index_t each = size // total + 1, most = max(<index_t> 1, PART_BYTES // each)
    cdef index_t n = plan.query.n_visits, parts = ceil_div(n, most), i, first, stop
    cdef int failure = 0
    for i in range(parts):
        if i:
            PyErr_CheckSignals()
        first = i * n // parts
        stop = (i + 1) * n // parts
        failure = run_plan(plan, first, stop, worth_threads(min(size, (stop - first) * each)))
        if failure:
            break
    return failure


cdef int run_parts(const job_t *job, const int *low, const int *high) except -1:
    """Run the pieces low ... high - 1 of a job, first one half of them where they are many: between
    two parts a signal (Ctrl-C) may end it.  One chunk is one part, however large it is."""
    cdef int middle[MAX_NDIM]
    cdef index_t size = job.layout.itemsize, shares
    cdef const piece_t *last
    cdef int j, axis = -1, failure
    for j in range(job.layout.ndim):
        last = &job.pieces[j][high[j] - 1]
        size *= last.position + last.count - job.pieces[j][low[j]].position
        if axis < 0 and high[j] - low[j] > 1:
            axis = j
    if size <= PART_BYTES or axis < 0:
        shares = worth_threads(size)
        if shares > 1 and axis >= 0:
            return run_pieces(job, low, high, shares)
        with nogil:
            failure = run(job, low, high)
        return failure
    memcpy(middle, high, sizeof(middle))
    middle[axis] = low[axis] + (high[axis] - low[axis]) // 2
    failure = run_parts(job, low, middle)
    if failure:
        return failure
    PyErr_CheckSignals()
    memcpy(middle, low, sizeof(middle))
    middle[axis] = low[axis] + (high[axis] - low[axis]) // 2
    return run_parts(job, middle, high)


cdef index_t block_limit() except -1:
    # Half for the block, half for what NumPy's cast may need beside it.
    return max(1, <index_t> config.max_memory // 2)
