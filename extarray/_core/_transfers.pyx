"""Transfers between the chunks of an array and NumPy arrays: planned under the GIL, run without.

Transfers also note which chunks were written, for their checksums, and learn which elements were
cut off while they were read.
"""

import errno
import os

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from ._frozen cimport Decoded, Frozen, base_of, decoded, is_handed_on
from ._file cimport ahead_t, begin_sieving, end_asking, end_sieving, is_cached
from ._vectors cimport address_of, axial_t
from ._copy cimport (
    GAP_BYTES, STAGE, chunks_before, count_pieces, job_t, layout_t, piece_t, place_in_file, prepare, run,
    saves_calls,
)
from ._gather cimport QueryTables
from ._mapping cimport (
    Region, touched_drop, touched_get, touched_missed, touched_set, touched_take,
)
from ._visits cimport place_of_visit, query_t, run_visits
from ._selection cimport box_of, narrow, selection_size, selection_t, whole_box, widest
from ._state cimport ArrayState, Frame, Writes, frame_of, frame_t
from ._supply cimport Use
from ._threads cimport run_pieces, run_tables, worth_threads
from ._system cimport xa_length
from ._types cimport (
    FREE_THREADS, MAX_NDIM, acquire, add_to, ceil_div, count_of, fence, floor_div, hint_of, index_t,
    release, set_hint,
)

from extarray.common.config import config
from extarray.common.errors import BoundsError, ShapeError, StorageError, TruncatedError

cnp.import_array()

cdef enum:
    ROOM = 48                   # pieces that fit on the stack: small transfers allocate nothing
    WINDOW = 1 << 18            # visits that are looked up at a time
    MOST_PIECES = 1 << 18       # of a box, moved at a time
    MOST_APART = 1 << 12        # chunks, read one by one at a time
    AT_ONCE = 64                # decoded chunks, moved without the GIL

    # How much of a chunk a selection covers: a part, all inside the bounds, or all.
    PART = 0
    INSIDE = 1
    WHOLE = 2

# A walk through the chunks of a selection.
cdef struct walk_t:
    int ndim
    index_t low[MAX_NDIM]       # the first selected element, in grid indices ...
    index_t last[MAX_NDIM]      # ... and the last
    index_t step[MAX_NDIM]
    index_t n[MAX_NDIM]
    index_t done[MAX_NDIM]
    index_t chunk[MAX_NDIM]     # the current one, counted as in axial_t

cdef index_t RELEASE_BYTES = 1 << 16        # below this, releasing the GIL costs more than it gains
cdef index_t STREAM_BYTES = 1 << 23         # results beyond the caches
# Points further apart in the file are scattered: reading ahead of each brings unwanted bytes, and
# one large read is no faster.
cdef index_t SCATTERED_BYTES = 1 << 16
cdef index_t AHEAD_BYTES = 1 << 26          # of cold chunks that are asked for at a time
cdef index_t MANY_ITEMS = 8                 # of a visit, on average; fewer are written singly
cdef index_t PAGE_BYTES = 1 << 12           # least bytes brought in for a visit
cdef index_t ASK_BYTES = 1 << 10            # below this, a cache check costs more than it gains
cdef int MOST_PASSING = 31                  # reads between two looks
cdef index_t FAR_BYTES = 1 << 19            # below this, one look must do
cdef index_t PART_BYTES = 1 << 28           # signals are checked between parts of this size
cdef index_t CHECK_BYTES = 1 << 20          # above this, checking the file's length costs nothing


cdef class Transfers(ArrayState):
    """Boxes and queries of an array, moved from and to NumPy arrays of its dtype.

    Every method takes the selection's frame, and uses no other state of the array.
    """

    cdef int _transfer(self, Frame frame, selection_t *s, cnp.ndarray values, bint write) except -1:
        """Move a selection from or to an array of this dtype, which broadcasts to its shape."""
        if frame.now.asks and not write:
            return self._transfer_asked(frame, s, values)
        if frame.cuts is None or write or selection_size(s) == 0:
            return self._move_box(frame, s, values, write)
        return self._read_watched(frame, s, values)

    cdef int _transfer_asked(self, Frame frame, selection_t *s, cnp.ndarray values) except -1:
        """Read a selection whose chunks must first be present, and right.

        A selection of more chunks than may be present is read in parts.
        """
        cdef walk_t w
        cdef index_t total = 1
        cdef int j
        cdef Use _used
        if selection_size(s) == 0:
            return 0
        if frame.supply is not None:
            begin_walk(&w, &frame.now.layout, s)
            for j in range(s.ndim):
                total *= w.n[j]
            if total > frame.supply.share:
                if total <= frame.supply.most_ahead:
                    # One request for all parts, which come while the first ones are moved.
                    frame.supply.ahead(chunks_of(frame, s))
                return self._move_halves(frame, s, values, False, w.n, True)
        if frame.frozen is None:
            _used = self._provide_box(frame, s)     # kept until the end
        return self._move_or_watch(frame, s, values)

    cdef int _move_frozen(self, Frame frame, selection_t *s, cnp.ndarray values) except -1:
        """Read a selection whose chunks may be frozen, whatever else happens meanwhile."""
        cdef Frozen frozen = frame.frozen
        cdef walk_t w
        cdef Frame latest
        cdef index_t total = 1, n_frozen
        cdef uint64_t number
        cdef int j
        if selection_size(s) == 0:
            return 0
        begin_walk(&w, &frame.now.layout, s)
        for j in range(s.ndim):
            total *= w.n[j]
        while True:
            number = frozen.freezes.look()
            if is_handed_on(number):
                latest = self._latest_table(frame)
                if latest is not frame:
                    return self._move_frozen(latest, s, values)
            n_frozen = count_frozen(frame, s)
            if n_frozen == 0:
                if frame.now.verifies:
                    self._verify_box(frame, s)
                self._move_box(frame, s, values, False)
                if frozen.freezes.look() == number and (
                        not is_handed_on(number) or self._latest_table(frame) is frame):
                    return 0
                # It may have met holes.  A shorter read is less likely to meet more.
                if total == 1:
                    continue
            elif total <= MOST_APART and (n_frozen == total or not frame.now.verifies):
                return self._move_apart(frame, s, values, total)
            return self._move_halves(frame, s, values, False, w.n, True)

    cdef int _move_apart(
        self, Frame frame, selection_t *s, cnp.ndarray values, index_t total
    ) except -1:
        """Read a selection chunk by chunk, each raw or decoded."""
        cdef Frozen frozen = frame.frozen
        cdef Frame latest
        cdef bint is_done
        cdef ChunkMoves reads
        cdef Decoded one = None
        cdef list raw, missing
        cdef list addresses, entries, boxes
        cdef index_t i
        cdef uint64_t number, entry
        cdef list left = list(range(total))
        reads = ChunkMoves.__new__(ChunkMoves)
        frame.vectors.pin(&reads.axial)
        try:
            reads.set_up(frame, s, values, total)
            if selection_size(s) * frame.now.layout.itemsize >= CHECK_BYTES and is_truncated(frame):
                self._raise_truncated()
            while left:
                number = frozen.freezes.look()
                if is_handed_on(number):
                    latest = self._latest_table(frame)
                    if latest is not frame:
                        return self._move_frozen(latest, s, values)
                raw, missing, addresses, entries, boxes = [], [], [], [], []
                for i in left:
                    entry = frozen.live(reads.address[i])
                    if entry == 0:
                        raw.append(i)
                        continue
                    one = frozen.find(reads.address[i], entry)
                    if one is None:
                        missing.append(i)
                        addresses.append(reads.address[i])
                        entries.append(entry)
                        if frozen.divides:
                            boxes.append(reads.box(i))
                    else:
                        if one.rest is not None:
                            one.want(reads.box(i))
                        reads.move(i, one.base)
                if missing:
                    reads.numbers, reads.entries = missing, entries
                    if frozen.divides:
                        frozen.decoder.decode(addresses, entries, reads.keeps, reads, boxes)
                    else:
                        frozen.decoder.decode(addresses, entries, reads.keeps, reads)
                    one = reads.last
                for i in raw:
                    reads.move(i, NULL)
                self._check_transferred(frame, reads.failure, False)
                # Raw chunks may have become holes meanwhile.
                is_done = frozen.freezes.look() == number and (
                    not is_handed_on(number) or self._latest_table(frame) is frame)
                left = [] if is_done else raw
                if left:
                    self._look_for_signals(False)
        finally:
            frame.vectors.unpin()
        if total == 1 and selection_size(s) == 1 and one is not None:
            frozen.note_recent(one)
        return 0

    cdef int _move_or_watch(self, Frame frame, selection_t *s, cnp.ndarray values) except -1:
        """Read a selection whose chunks are present, and right."""
        if frame.cuts is not None:
            return self._read_watched(frame, s, values)
        if frame.frozen is not None:
            return self._move_frozen(frame, s, values)
        return self._move_box(frame, s, values, False)

    cdef int _move_box(self, Frame frame, selection_t *s, cnp.ndarray values, bint write) except -1:
        """Move a selection, whatever happens meanwhile."""
        cdef index_t stride[MAX_NDIM]
        cdef index_t room_for[MAX_NDIM]
        cdef piece_t room[ROOM]
        cdef piece_t *pieces = room
        cdef job_t job
        cdef index_t total = 0, size = selection_size(s) * frame.now.layout.itemsize
        cdef int j, failure
        if size == 0:
            return 0
        look_up_strides(s, values, stride)
        count_pieces(s, frame.now.layout.chunk, room_for)
        for j in range(s.ndim):
            total += room_for[j]
        if total > ROOM:
            if total > MOST_PIECES:
                return self._move_halves(frame, s, values, write, room_for, False)
            pieces = <piece_t *> malloc(total * sizeof(piece_t))
            if pieces == NULL:
                raise MemoryError(f"no memory for {total} pieces of a selection")
        try:
            prepare(
                &job, frame.now.axial, &frame.now.layout, s, pieces, values.data, stride)
            job.write = write
            job.stream = size >= STREAM_BYTES
            if size < RELEASE_BYTES and frame.now.layout.base != NULL and (
                    write or size < ASK_BYTES or not looks_cold(frame.region, &job, size)):
                job.layout.base = job.layout.pages
                failure = run(&job, NULL, NULL)
            else:
                job.is_new = write and is_outside(s, &frame.now)
                failure = self._run_large(frame, &job, size)
        finally:
            if pieces != room:
                free(pieces)
        return self._check_transferred(frame, failure, write) if failure else 0

    cdef int _move_halves(
        self, Frame frame, selection_t *s, cnp.ndarray values, bint write, const index_t *n_pieces,
        bint asked
    ) except -1:
        """Move a selection of too many pieces, halved along the axis that has most.

        `asked`: ask for the chunks of each half.
        """
        cdef selection_t part
        cdef int i, dim = -1, missing = s.result_ndim - values.ndim
        cdef index_t middle, low, high
        for i in range(s.result_ndim):
            if s.result_axis[i] >= 0 and (
                    dim < 0 or n_pieces[s.result_axis[i]] > n_pieces[s.result_axis[dim]]):
                dim = i
        middle = middle_of(frame, s, dim)
        for low, high in ((0, middle), (middle, s.result_shape[dim])):
            if low:
                self._look_for_signals(write)
            narrow(s, dim, low, high, &part)
            inner = values
            if dim >= missing and values.shape[dim - missing] > 1:
                inner = values[(slice(None),) * (dim - missing) + (slice(low, high),)]
            if asked and frame.frozen is not None:
                self._move_frozen(frame, &part, inner)
            elif asked:
                self._transfer_asked(frame, &part, inner)
            else:
                self._move_box(frame, &part, inner, write)
        return 0

    cdef int _look_for_signals(self, bint write) except -1:
        """Check for signals (Ctrl-C) between two parts of a transfer; let closing end a write.

        A read stays valid, but a closed file may have another writer by now.
        """
        PyErr_CheckSignals()
        if write:
            self._writable()
        return 0

    cdef int _run_large(self, Frame frame, job_t *job, index_t size) except -1:
        """Run a job without the GIL, on as many threads as pay."""
        cdef axial_t state
        cdef int failure
        cdef index_t shares = worth_threads(size), limit
        cdef int zeros[MAX_NDIM]
        if job.write:
            # All threads together may stage an eighth of the memory in new chunks.
            limit = config.max_memory // (8 * config.threads)
            while job.piece < STAGE and 2 * job.piece <= limit:
                job.piece *= 2
            job.is_new = job.layout.base != NULL and job.layout.fd >= 0 and job.is_new
        if size >= CHECK_BYTES and is_truncated(frame):
            self._raise_truncated()
        memset(zeros, 0, sizeof(zeros))
        frame.vectors.pin(&state)
        if FREE_THREADS:
            state = frame.now.axial[0]      # another thread may have undone a growth since
        job.axial = &state
        try:
            if job.write:
                if job.layout.sieve != NULL and saves_calls(job):
                    job.sieves = begin_sieving(job.layout.sieve, job.layout.fd)
            elif size >= ASK_BYTES and looks_cold(frame.region, job, size):
                return self._run_cold(job, zeros, size)
            if size > PART_BYTES:
                return self._run_parts(job, zeros, job.n_pieces)
            if shares > 1 and job.layout.ndim > 0:
                return run_pieces(job, zeros, job.n_pieces, shares)
            with nogil:
                failure = run(job, NULL, NULL)
            return failure
        finally:
            if job.sieves:
                end_sieving(job.layout.sieve, job.layout.fd)
            frame.vectors.unpin()

    cdef int _run_cold(self, job_t *job, const int *zeros, index_t size) except -1:
        """Run a job on cold bytes: ask for each part while the one before it is moved."""
        cdef ahead_t ahead
        cdef asked_t asked
        cdef int failure
        ahead.fd = job.layout.fd
        ahead.start = ahead.stop = 0
        asked.is_there = False
        ahead.brings_blocks = size >= RELEASE_BYTES and job.layout.base != job.layout.blocks
        job.layout.base = job.layout.blocks if ahead.brings_blocks else job.layout.pages
        failure = self._ask(job, &ahead, zeros, job.n_pieces, &asked)
        return failure if failure else self._run_parts(job, asked.low, asked.high)

    cdef int _ask(
        self, job_t *job, ahead_t *ahead, const int *low, const int *high, asked_t *asked
    ) except -1:
        """Ask for the pieces low ... high - 1 of a job, and move those asked for before."""
        cdef int middle[MAX_NDIM]
        cdef index_t size = job.layout.chunk_bytes
        cdef int j, axis = -1, failure
        for j in range(job.layout.ndim):
            size *= high[j] - low[j]
            if axis < 0 and high[j] - low[j] > 1:
                axis = j
        if size > AHEAD_BYTES and axis >= 0:
            memcpy(middle, high, sizeof(middle))
            middle[axis] = low[axis] + (high[axis] - low[axis]) // 2
            failure = self._ask(job, ahead, low, middle, asked)
            if failure:
                return failure
            memcpy(middle, low, sizeof(middle))
            middle[axis] = low[axis] + (high[axis] - low[axis]) // 2
            return self._ask(job, ahead, middle, high, asked)
        with nogil:
            job.ahead = ahead
            failure = run(job, low, high)
            end_asking(ahead)
            job.ahead = NULL
        if failure == 0 and asked.is_there:
            failure = self._run_parts(job, asked.low, asked.high)
            self._look_for_signals(False)
        memcpy(asked.low, low, sizeof(asked.low))
        memcpy(asked.high, high, sizeof(asked.high))
        asked.is_there = True
        return failure

    cdef int _run_parts(self, const job_t *job, const int *low, const int *high) except -1:
        """Run the pieces low ... high - 1 of a job, halving large ones, so that a signal (Ctrl-C)
        may end it between two parts.  One chunk is one part, however large."""
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
        failure = self._run_parts(job, low, middle)
        if failure:
            return failure
        self._look_for_signals(job.write)
        memcpy(middle, low, sizeof(middle))
        middle[axis] = low[axis] + (high[axis] - low[axis]) // 2
        return self._run_parts(job, middle, high)

    def _raise_truncated(self):
        raise TruncatedError(
            f"the file of {self._name()} is shorter than its chunks: another program has truncated "
            "it; restore it from a copy")

    cdef int _check_transferred(self, Frame frame, int failure, bint write) except -1:
        if failure:
            if is_truncated(frame):
                self._raise_truncated()
            raise self._failed(
                failure,
                f"{os.strerror(failure)} while {'writing to' if write else 'reading'} {self._name()}")
        return 0

    def _failed(self, number, what):
        return StorageError(number, what, self.host.path(self))

    # -- queries -----------------------------------------------------------------------------

    def _move(self, query, cnp.ndarray values not None, bint write):
        """Move the elements of a query from or (write) to an array of its shape and dtype.

        `query` is one of `extarray.selection.query`.  Behind the dimensions of the query,
        `values` may have those of one element, which are contiguous.
        """
        cdef selection_t s
        cdef index_t origin[MAX_NDIM]
        cdef Frame frame = self._writable() if write else self._opened()
        cdef int j
        if query.frame is not None:
            frame = query.frame
        if query.size == 0:
            return
        self._begin_query(frame, query, origin)
        if (<object> values).shape[:len(query.shape)] != query.shape:
            raise ShapeError(f"memory of shape {(<object> values).shape} for a query of {query.shape}")
        if query.is_box and query.field is None:
            box_of(query, frame.now.layout.ndim, &s)
            for j in range(s.ndim):
                s.start[j] += frame.now.origins[j] - origin[j]
            if write:
                self._store(frame, &s, values)
            else:
                if hint_of(&self.tells):
                    self._tell(&s)
                self._transfer(frame, &s, values, False)
        else:
            if hint_of(&self.tells) and not write:
                log = self.listening()
                if log is not None:
                    log.note_query(query, frame.shape)
            if frame.cuts is None or write:
                self._move_points(frame, query, origin, values, write)
            else:
                self._read_points_watched(frame, query, origin, values)
        if write and frame.now.is_durable:
            self.host.sync(self)

    cdef int _begin_query(self, Frame frame, query, index_t *origin) except -1:
        """Note the origin of a query's indices; raise if the array lacks some of the selected
        elements."""
        cdef tuple given = query.origin
        cdef tuple extents = query.extents
        cdef index_t shift
        cdef int j, ndim = frame.now.layout.ndim
        if len(extents) != ndim:
            self._check_axes(len(extents))
        for j in range(ndim):
            origin[j] = frame.now.origins[j] if given is None else given[j]
            shift = frame.now.origins[j] - origin[j]
            if shift < 0 or <index_t> extents[j] > frame.now.bounds[j] - shift:
                raise BoundsError(
                    f"{self._name()} has shrunk since the selection was made: axis {j} "
                    f"had size {extents[j]}, but has {frame.now.bounds[j]}")
        return 0

    cdef int _move_points(
        self, Frame frame, query, const index_t *origin, cnp.ndarray values, bint write
    ) except -1:
        """Move the elements of a query, whatever happens meanwhile."""
        cdef QueryTables tables
        cdef query_t *q
        cdef index_t size, total, first = 0, stop, window = WINDOW
        cdef tuple extents = query.extents
        cdef int failure = 0, j
        cdef bint noted = write and (frame.sums is not None or frame.frozen is not None)
        cdef Use _used = None
        tables = QueryTables(frame.vectors)
        q = &tables.query
        if FREE_THREADS:
            q.axial = frame.now.axial[0]    # as in `_run_large`
        q.layout = frame.now.layout
        size = 1
        for j in range(q.layout.ndim - 1, -1, -1):
            q.extent[j] = extents[j]
            q.layout.offset[j] += frame.now.origins[j] - origin[j]
            # A table of places counts elements in C order.
            q.unit[j] = q.layout.stride[j] if q.layout.place == NULL else size
            size *= q.layout.chunk[j]
        q.user = values.data
        q.size = q.layout.itemsize if query.field is None else query.field.dtype.itemsize
        q.offset = 0 if query.field is None else query.field.offset
        q.stage_limit = block_limit() // config.threads
        size = query.size * q.size
        if query.size < frame.now.file_bytes // SCATTERED_BYTES:
            q.layout.base = q.layout.pages
        q.write = write
        q.sieves = False
        q.ahead = NULL
        q.gap = GAP_BYTES
        q.stream = size >= STREAM_BYTES
        for factor in query.factors:
            tables.add(factor, (<object> values).strides)
        total = tables.n_combinations()
        if noted:
            return self._write_noted(frame, tables, size, total)
        while first < total:
            stop = min(total, first + window)
            tables.look_up(first, stop)
            if frame.frozen is not None:
                failure = self._run_frozen(frame, tables, size, total)
                if failure:
                    break
                if stop < total:
                    self._look_for_signals(False)
                first = stop
                continue
            if frame.now.asks and not write:
                if frame.supply is not None:
                    found = visited(q)
                    if len(found) > frame.supply.share and stop - first > 1:
                        window = (stop - first) // 2
                        continue
                    _used = frame.supply.use(found)     # kept until the next part
                if frame.now.verifies:
                    self._verify_visits(frame, q)
            if not write and visits_look_cold(frame.region, q, size, total):
                failure = self._run_cold_visits(tables, size, total)
            else:
                failure = self._run_visited(tables, size, total)
            if failure:
                break
            if stop < total:
                self._look_for_signals(write)
            first = stop
        return self._check_transferred(frame, failure, write)

    cdef int _run_frozen(self, Frame frame, QueryTables tables, index_t size, index_t total) except -1:
        """Make the visits that were looked up, to chunks that may be frozen."""
        cdef query_t *q = &tables.query
        cdef Frozen frozen = frame.frozen
        cdef layout_t layout = q.layout
        cdef index_t *address = q.address
        cdef uint64_t *visit = q.visit
        cdef index_t n = q.n_visits, n_raw, first, stop, i
        cdef uint64_t number
        cdef int failure = 0
        cdef bint is_done = False
        cdef dict found
        try:
            while not is_done and not failure:
                number = frozen.freezes.look()
                if is_handed_on(number):
                    frame = self._latest_table(frame)
                    frozen = frame.frozen
                n_raw = part_visits(q, frozen)
                q.n_visits = n_raw
                if n_raw:
                    if frame.now.verifies:
                        self._verify_visits(frame, q)
                    if visits_look_cold(frame.region, q, size, total):
                        failure = self._run_cold_visits(tables, size, total)
                    else:
                        failure = self._run_visited(tables, size, total)
                # Otherwise it may have met holes.
                is_done = frozen.freezes.look() == number and (
                    not is_handed_on(number) or self._latest_table(frame) is frame)
                first = n_raw
                while is_done and not failure and first < n:
                    stop = min(n, first + frozen.share)
                    q.address = address + first
                    q.visit = visit + first
                    q.n_visits = stop - first
                    found = frozen.bring(visited(q))
                    is_done = found is not None
                    q.address = address
                    q.visit = visit
                    q.n_visits = n
                    i = first
                    while is_done and not failure and i < stop:
                        look_into(&q.layout, (<Decoded> found[address[i]]).base)
                        failure = run_tables(tables, i, i + 1, 1)
                        i += 1
                    q.layout = layout
                    first = stop
                q.address = address
                q.visit = visit
                q.n_visits = n
        finally:
            q.layout = layout
            q.address = address
            q.visit = visit
            q.n_visits = n
        return failure

    cdef int _write_noted(self, Frame frame, QueryTables tables, index_t size, index_t total) except -1:
        """Write the elements of a query, if chunks have checksums or may be frozen."""
        cdef query_t *q = &tables.query
        cdef index_t first
        cdef int failure = 0
        self._begin_write(frame)
        try:
            if frame.trust is not None or frame.frozen is not None:
                for first in range(0, total, WINDOW):       # before anything is written
                    tables.look_up(first, min(total, first + WINDOW))
                    if frame.frozen is not None:
                        self._note_visits(q)
                        self._thaw(frame, visited(q))
                    if frame.trust is not None:
                        self._verify_visits(frame, q)
            if frame.sums is not None:
                self._doubt(frame)
            for first in range(0, total, WINDOW):
                if total > WINDOW or frame.trust is None and frame.frozen is None:
                    tables.look_up(first, min(total, first + WINDOW))
                self._note_visits(q)
                try:
                    failure = self._run_visited(tables, size, total)
                finally:
                    self._note_visits(q)
                if failure:
                    break
                if first + WINDOW < total:
                    self._look_for_signals(True)
        finally:
            add_to(&self.writes.n_going, -1)
        return self._check_transferred(frame, failure, True)

    cdef int _run_visited(self, QueryTables tables, index_t size, index_t total) except -1:
        """Make the `total` visits that were looked up, which move `size` bytes, in parts as a job.
        """
        cdef query_t *q = &tables.query
        cdef index_t each = size // total + 1, most = max(<index_t> 1, PART_BYTES // each)
        cdef index_t n = q.n_visits, parts = ceil_div(n, most), i, first, stop
        cdef int failure = 0
        if q.write and q.layout.sieve != NULL and each > MANY_ITEMS * q.size:
            q.sieves = begin_sieving(q.layout.sieve, q.layout.fd)
        try:
            for i in range(parts):
                if i:
                    self._look_for_signals(q.write)
                first = i * n // parts
                stop = (i + 1) * n // parts
                failure = run_tables(
                    tables, first, stop, worth_threads(min(size, (stop - first) * each)))
                if failure:
                    break
        finally:
            if q.sieves:
                end_sieving(q.layout.sieve, q.layout.fd)
                q.sieves = False
        return failure

    cdef int _run_cold_visits(self, QueryTables tables, index_t size, index_t total) except -1:
        """Do `_run_visited` on cold bytes: ask for each part while the one before it is moved."""
        cdef query_t *q = &tables.query
        cdef ahead_t ahead
        cdef index_t each = size // total + PAGE_BYTES, most = max(<index_t> 1, AHEAD_BYTES // each)
        cdef index_t n = q.n_visits, parts = ceil_div(n, most), i
        cdef int failure = 0
        ahead.fd = q.layout.fd
        ahead.start = ahead.stop = 0
        ahead.brings_blocks = False
        q.gap = PAGE_BYTES
        if q.layout.base != NULL:
            q.layout.base = q.layout.pages
        for i in range(parts + 1):
            if i < parts:
                q.ahead = &ahead
                with nogil:
                    failure = run_visits(q, i * n // parts, (i + 1) * n // parts)
                    end_asking(&ahead)
                q.ahead = NULL
            if i:
                self._look_for_signals(False)
                failure = run_tables(
                    tables, (i - 1) * n // parts, i * n // parts,
                    worth_threads(min(size, n // parts * each)))
            if failure:
                break
        return failure

    # -- cuts during a read ------------------------------------------------------------------

    cdef Frame _latest_cuts(self, Frame frame):
        """Return a frame that knows all cuts counted before this call."""
        cdef Frame known = self._opened()
        if known.cuts is None or known.cuts.look() != known.now.cuts_known:
            self.host.look_at_cuts(self)
            known = self._opened()
        if known.now.layout.ndim != frame.now.layout.ndim:
            self._check_axes(frame.now.layout.ndim)
        return known

    cdef int _read_watched(self, Frame frame, selection_t *s, cnp.ndarray values) except -1:
        """Read a selection; elements cut off before or meanwhile get the fill value."""
        cdef Frame known
        cdef selection_t part
        cdef index_t lows[MAX_NDIM]
        cdef index_t highs[MAX_NDIM]
        cdef int dim
        while True:
            # An element cut off now stays cut off, even if it grows again while it is read.
            known = self._latest_cuts(frame)
            if frame.frozen is not None:
                self._move_frozen(frame, s, values)
            else:
                self._move_box(frame, s, values, False)
            if known.cuts.look() == known.now.cuts_known:
                break
            # It may have read zeros for cut-off elements.  Repeat in halves: a shorter read is less
            # likely to meet another cut.
            dim = widest(s)
            if dim < 0:
                continue
            middle = s.result_shape[dim] // 2
            for low, high in ((0, middle), (middle, s.result_shape[dim])):
                narrow(s, dim, low, high, &part)
                self._read_watched(
                    frame, &part, values[(slice(None),) * dim + (slice(low, high),)])
            return 0
        if what_is_left(frame, known, lows, highs):
            fill_cut(frame, known.fill, s, values, lows, highs)
        return 0

    cdef int _read_points_watched(
        self, Frame frame, query, const index_t *origin, cnp.ndarray values
    ) except -1:
        """Read the elements of a query; those cut off before or meanwhile get the fill value."""
        cdef Frame known
        cdef index_t lows[MAX_NDIM]
        cdef index_t highs[MAX_NDIM]
        cdef int j
        while True:
            known = self._latest_cuts(frame)
            self._move_points(frame, query, origin, values, False)
            if known.cuts.look() == known.now.cuts_known:
                break
            # As for boxes; what cannot be split is read again.
            is_split = False
            for part, piece in query.split(0.5, frame.chunk_shape, False):
                is_split = True
                self._read_points_watched(frame, piece, origin, values[part])
            if is_split:
                return 0
        if what_is_left(frame, known, lows, highs):
            inner = []
            for j in range(frame.now.layout.ndim):
                inner.append((lows[j] + origin[j], highs[j] + origin[j]))
            query.fill_outside(inner, values, known.fill)
        return 0

    # -- notes of written chunks, if they have checksums -------------------------------------

    cdef int _begin_write(self, Frame frame) except -1:
        """Count a write, before it changes anything; first wait while writes are held off."""
        cdef Writes writes = self.writes
        add_to(&writes.n_begun, 1)
        add_to(&writes.n_going, 1)
        fence()
        while hint_of(&writes.is_held):     # see `hold_writes`
            add_to(&writes.n_going, -1)
            with writes.gate:
                pass
            add_to(&writes.n_going, 1)
            fence()
        return 0

    cdef int _doubt(self, Frame frame) except -1:
        """Mark checksums as doubtful in the files, before the first write that makes them so.

        Writes are counted before they look at the flag, which others clear before they look at the
        counts: so one of the two sees the other's step.
        """
        while not frame.sums.in_doubt:
            frame.sums.doubt()
        self._writable()        # the array may have been closed before
        return 0

    cdef int _store(self, Frame frame, selection_t *s, cnp.ndarray values) except -1:
        """Write an array of this dtype, which broadcasts to the shape of a selection."""
        if frame.sums is None and frame.frozen is None:
            return self._transfer(frame, s, values, True)
        if frame.frozen is None and frame.trust is not None:
            self._trust_box(frame, s, False)
        self._begin_write(frame)
        try:
            if frame.frozen is not None and selection_size(s):
                # Noted chunks are not frozen until the write has ended.
                self._note_box(frame, s)
                if self._rewrite(frame, s, values):
                    return 0
                self._thaw(frame, chunks_of(frame, s))
                if frame.trust is not None:
                    self._trust_box(frame, s, False)
            if frame.sums is not None:
                self._doubt(frame)
            # Note before the write, so that nobody trusts the checksums, and after it, since they
            # may have been made meanwhile.
            self._note_box(frame, s)
            try:
                return self._transfer(frame, s, values, True)
            finally:
                self._note_box(frame, s)
        finally:
            add_to(&self.writes.n_going, -1)

    cdef int _note_box(self, Frame frame, const selection_t *s) except -1:
        """Note the chunks that a selection is written to."""
        cdef walk_t w
        if selection_size(s) == 0:
            return 0
        begin_walk(&w, &frame.now.layout, s)
        while True:
            note(self.writes, address_of(frame.now.axial, w.chunk))
            if not next_chunk(&w, &frame.now.layout):
                return 0

    cdef void _note_visits(self, const query_t *q) noexcept:
        """Note the chunks that a query writes to."""
        cdef index_t i
        for i in range(q.n_visits):
            note(self.writes, q.address[i])

    # -- frozen chunks -----------------------------------------------------------------------

    cdef Frame _latest_table(self, Frame frame):
        """Return a frame with the table of frozen chunks that counts now; the same if it has it."""
        cdef Frame now, latest
        self.host.look_at_table(self if self.original is None else self.original)
        now = self._showing()
        if now.frozen is frame.frozen or now.frozen is None:
            return frame
        latest = frame.copied()
        latest.frozen = now.frozen
        return latest

    cdef Frame _showing(self):
        """Return the frame of the array; of the original, if this one was made by `hold`.

        Only the original learns that other metadata have the table of frozen chunks.
        """
        return self._opened() if self.original is None else self.original._opened()

    cdef int _thaw(self, Frame frame, addresses) except -1:
        """Give frozen chunks their raw bytes back, before a write that is noted already."""
        cdef Frozen frozen
        self._writable()
        # Other metadata may have the table by now.  From here on, no chunk written to is frozen.
        frozen = self._showing().frozen
        if not frozen.entries(addresses).any():
            return 0
        with frozen.thawing:
            frozen_ones = addresses[frozen.entries(addresses) != 0]
            if len(frozen_ones):
                self.host.thaw(self, frozen_ones)
        self._writable()        # the array may have been closed meanwhile
        return 0

    # -- chunks made ready before use: present, and right ------------------------------------

    cdef Use _provide_box(self, Frame frame, const selection_t *s):
        """Make the chunks of a selection present, and verify them if reads do.

        They stay present as long as the returned `Use` lives (None: all chunks always are).
        """
        cdef Use used = None
        if frame.supply is not None:
            used = frame.supply.use(chunks_of(frame, s))
        if frame.now.verifies:
            self._verify_box(frame, s)
        return used

    cdef bint _rewrite(self, Frame frame, selection_t *s, cnp.ndarray values) except -1:
        """Write a box to chunks some of which are frozen, chunk by chunk.

        Those that were seldom written to while they were frozen stay so: they get new blobs, unless
        other processes may store to them, too.  Chunks with checksums are thawed and verified.
        False: nothing is written yet.
        """
        cdef Frozen frozen = frame.frozen
        cdef ChunkMoves writes
        cdef walk_t w
        cdef list raw = [], again = [], missing = [], chunks, rests, entries, boxes
        cdef index_t total = 1, i
        cdef Takes taker
        cdef int j
        begin_walk(&w, &frame.now.layout, s)
        for j in range(s.ndim):
            total *= w.n[j]
        # Other metadata may have the table by now.
        self._writable()
        if (frame.sums is not None or frame.trust is not None
                or self._showing().frozen is not frozen):
            return False
        if total > frozen.share or not count_frozen(frame, s):
            return False
        writes = ChunkMoves.__new__(ChunkMoves)
        frame.vectors.pin(&writes.axial)
        try:
            writes.set_up(frame, s, values, total)
            writes.job.write = True
            with frozen.thawing, self.host.alone(self) as is_alone:
                if not is_alone:
                    return False
                begin_walk(&w, &frame.now.layout, s)
                for i in range(total):
                    if (not frozen.live(writes.address[i])
                            or frozen.rewritten.get(writes.address[i], 0) >= frozen.rewrites):
                        raw.append(i)
                    else:
                        again.append(i)
                        if coverage(&w, &frame.now, s) != WHOLE:
                            missing.append(i)
                    next_chunk(&w, &frame.now.layout)
                if not again:
                    return False
                taker = Takes.__new__(Takes)
                taker.chunks = {
                    i: np.empty(frozen.chunk_bytes, np.uint8) for i in again if i not in missing}
                taker.numbers = missing
                taker.rests = {}
                if missing:
                    addresses = [writes.address[i] for i in missing]
                    entries = [frozen.live(writes.address[i]) for i in missing]
                    if frozen.divides:
                        boxes = [writes.box(i) for i in missing]
                        frozen.decoder.decode(addresses, entries, True, taker, boxes)
                    else:
                        frozen.decoder.decode(addresses, entries, True, taker)
                chunks = [taker.chunks[i] for i in again]
                rests = [taker.rests.get(i) for i in again]
                for i, chunk in zip(again, chunks):
                    writes.move(i, base_of(writes.address[i], chunk, frozen.chunk_bytes))
                self._check_transferred(frame, writes.failure, True)
                addresses = np.array([writes.address[i] for i in again], np.int64)
                frozen_ones = np.array(
                    [writes.address[i] for i in raw if frozen.live(writes.address[i])], np.int64)
                if len(frozen_ones):
                    self.host.thaw(self, frozen_ones)
                if not self.host.rewrite(self, frozen, addresses, chunks, rests):
                    return False
                for i in again:
                    frozen.rewritten[writes.address[i]] = (
                        frozen.rewritten.get(writes.address[i], 0) + 1)
            self._writable()        # as in `_thaw`
            self._note_box(frame, s)
            try:
                for i in raw:
                    writes.move(i, NULL)
            finally:
                self._note_box(frame, s)
            self._check_transferred(frame, writes.failure, True)
        finally:
            frame.vectors.unpin()
        return True

    def _provide_chunks(self, addresses, bint write):
        """Prepare chunks that code outside these transfers will read, or write in part.

        They stay present as long as the returned object lives.
        """
        cdef Frame frame = self._writable() if write else self._opened()
        if frame.frozen is not None:
            raise StorageError(
                errno.ENOTSUP, f"{self._name()} has frozen chunks, which this operation cannot use yet")
        used = None if frame.supply is None else frame.supply.use(np.unique(addresses))
        if (frame.trust is not None and (write or frame.now.verifies)
                and not touched_missed(frame.trust.known.root)):
            self._verify(frame, np.array(unverified(frame, addresses), np.int64))
        return used

    @property
    def _comes_late(self):
        """True if chunks come from elsewhere."""
        return frame_of(self).supply is not None

    def _ahead(self, boxes not None):
        """Tell the source of chunks that boxes of elements, inside the bounds, are read soon."""
        cdef selection_t s
        cdef Frame frame = frame_of(self)
        cdef list addresses = []
        if frame.supply is None:
            return
        for box in boxes:
            if len(box) != frame.now.layout.ndim:
                return
            whole_box([part.start for part in box], [part.stop for part in box], len(box), &s)
            if selection_size(&s):
                addresses.append(chunks_of(frame, &s))
        if addresses:
            frame.supply.ahead(
                addresses[0] if len(addresses) == 1 else np.unique(np.concatenate(addresses)))

    cdef int _verify_box(self, Frame frame, const selection_t *s) except -1:
        """Verify the chunks that a selection is in."""
        cdef walk_t w
        cdef index_t n = self._count_unverified(frame, s)
        cdef index_t address, i = 0
        cdef index_t[::1] found
        if n == 0:
            return 0
        addresses = np.empty(n, np.int64)
        found = addresses
        begin_walk(&w, &frame.now.layout, s)
        while i < n:
            address = address_of(frame.now.axial, w.chunk)
            if frame.trust.lacks(address):
                found[i] = address
                i += 1
            if not next_chunk(&w, &frame.now.layout):
                break
        return self._verify(frame, addresses[:i])

    cdef int _trust_box(self, Frame frame, const selection_t *s, bint parts_only) except -1:
        """Prepare a write to a selection: verify the chunks that it covers in part (I11).

        Chunks overwritten whole keep nothing and become known, unless `parts_only`.  If a chunk is
        overwritten inside the bounds and does not match, its part outside gets the fill value.
        """
        cdef walk_t w
        cdef index_t n = self._count_unverified(frame, s)
        cdef index_t address, i = 0, n_parts = 0, n_edges = 0, n_wholes = 0
        cdef index_t[::1] parts, edges, wholes
        cdef int how
        if n == 0:
            return 0
        addresses = np.empty((3, n), np.int64)
        parts, edges, wholes = addresses
        begin_walk(&w, &frame.now.layout, s)
        while n_parts + n_edges + n_wholes < n:
            address = address_of(frame.now.axial, w.chunk)
            if frame.trust.lacks(address):
                how = coverage(&w, &frame.now, s)
                if how == PART:
                    parts[n_parts] = address
                    n_parts += 1
                elif how == INSIDE:
                    edges[n_edges] = address
                    n_edges += 1
                else:
                    wholes[n_wholes] = address
                    n_wholes += 1
            if not next_chunk(&w, &frame.now.layout):
                break
        self._verify(frame, addresses[0, :n_parts])
        if parts_only:
            return 0
        if n_edges:
            self.host.heal(self, np.sort(addresses[1, :n_edges]))
        for i in range(n_wholes):
            frame.trust.know(wholes[i])
        return 0

    cdef index_t _count_unverified(self, Frame frame, const selection_t *s) except -1:
        """Return the number of chunks of a selection that are not known."""
        cdef walk_t w
        cdef index_t n = 0
        # Without memory for the set, unknown chunks may be ones that this session has written.
        if selection_size(s) == 0 or touched_missed(frame.trust.known.root):
            return 0
        begin_walk(&w, &frame.now.layout, s)
        while True:
            n += frame.trust.lacks(address_of(frame.now.axial, w.chunk))
            if not next_chunk(&w, &frame.now.layout):
                return n

    cdef int _verify_visits(self, Frame frame, const query_t *q) except -1:
        """Verify the chunks that a query visits."""
        cdef index_t i, n = 0
        cdef index_t[::1] found
        if frame.trust is None or touched_missed(frame.trust.known.root):
            return 0
        for i in range(q.n_visits):
            n += frame.trust.lacks(q.address[i])
        if n == 0:
            return 0
        addresses = np.empty(n, np.int64)
        found = addresses
        n = 0
        for i in range(q.n_visits):
            if frame.trust.lacks(q.address[i]) and (n == 0 or found[n - 1] != q.address[i]):
                found[n] = q.address[i]
                n += 1
        return self._verify(frame, addresses[:n])

    cdef int _verify(self, Frame frame, addresses) except -1:
        """Compare chunks with their checksums; those that match become known."""
        cdef index_t address
        cdef const index_t[::1] found = addresses
        if found.shape[0] == 0:
            return 0
        wrong, untold = self.host.unfit(self, np.sort(addresses))
        for address in wrong:
            # Unless another thread has verified and written it since.
            if frame.trust.lacks(address):
                raise self.host.damaged(self, frame, address)
        if len(untold):
            found = np.setdiff1d(addresses, untold)
        for address in found:
            frame.trust.know(address)
        return 0

    def _verify_all(self):
        """Verify all chunks of an array open for writing."""
        cdef Frame frame = self._writable()
        if frame.trust is not None and frame.sums is not None:
            self._verify(frame, np.array(
                unverified(frame, range(chunks_before(&frame.now.layout, frame.now.file_bytes))), np.int64))

    def _begin_noted(
        self, const index_t[::1] addresses not None, const index_t[::1] whole not None
    ):
        """Begin a write to chunks by code outside these transfers; the `whole` become known."""
        cdef Frame frame = self._writable()
        cdef index_t address
        self._begin_write(frame)
        if frame.sums is not None:
            try:
                self._doubt(frame)
            except BaseException:
                add_to(&self.writes.n_going, -1)
                raise
        if frame.trust is not None:
            for address in whole:
                frame.trust.know(address)
        for address in addresses:
            note(self.writes, address)
        fence()     # marks come before the write

    def _end_noted(self, const index_t[::1] addresses not None):
        """End a write to chunks."""
        cdef index_t address
        for address in addresses:
            note(self.writes, address)
        add_to(&self.writes.n_going, -1)

    def _unverified(self, addresses):
        """Return the chunks that are not known; none if memory for the set was lacking."""
        cdef Frame frame = self._opened()
        if frame.trust is None or touched_missed(frame.trust.known.root):
            return []
        return unverified(frame, addresses)

    def _know(self, const index_t[::1] addresses not None):
        """Mark chunks as known."""
        cdef Frame frame = self._opened()
        cdef index_t address
        for address in addresses:
            frame.trust.know(address)

    def _damaged(self, index_t address):
        """Return the error for a chunk that does not match its checksum."""
        return self.host.damaged(self, self._opened(), address)

    # -- the log of reads --------------------------------------------------------------------

    def _listen(self, log):
        """Log reads from now on (None: stop); return the previous log."""
        acquire(&self.changing)
        before = self.log
        self.log = log
        set_hint(&self.tells, log is not None)
        release(&self.changing)
        return before

    cdef int _tell(self, const selection_t *s) except -1:
        """Log a read: the extents from the first to the last element."""
        cdef int j
        cdef list extents = []
        for j in range(s.ndim):
            if s.count[j] == 0:
                return 0
            extents.append((s.count[j] - 1) * (s.step[j] if s.step[j] > 0 else -s.step[j]) + 1)
        log = self.listening()
        if log is not None:
            log.note(tuple(extents))
        return 0


cdef list unverified(Frame frame, addresses):
    """Return the chunks that a frame does not know."""
    cdef index_t address
    return [address for address in addresses if frame.trust.lacks(address)]


cdef cnp.ndarray chunks_of(Frame frame, const selection_t *s):
    """Return the addresses of the chunks that a selection has elements of, in rising order."""
    cdef walk_t w
    cdef index_t n = 1, i = 0
    cdef index_t[::1] found
    cdef int j
    begin_walk(&w, &frame.now.layout, s)
    for j in range(w.ndim):
        n *= w.n[j]
    addresses = np.empty(n, np.int64)
    found = addresses
    while True:
        found[i] = address_of(frame.now.axial, w.chunk)
        i += 1
        if not next_chunk(&w, &frame.now.layout):
            break
    addresses.sort()
    return addresses


cdef cnp.ndarray visited(const query_t *q):
    """Return the addresses of the chunks that a query visits, in rising order."""
    cdef index_t i
    addresses = np.empty(q.n_visits, np.int64)
    cdef index_t[::1] found = addresses
    for i in range(q.n_visits):
        found[i] = q.address[i]
    return np.unique(addresses)


cdef inline void note(Writes writes, index_t address) noexcept:
    """Note a chunk that is written to."""
    touched_set(writes.changed.root, address)
    touched_set(writes.written.root, address)


cdef index_t count_frozen(Frame frame, const selection_t *s) noexcept:
    """Return the number of chunks of a non-empty selection that are frozen."""
    cdef walk_t w
    cdef index_t n = 0
    begin_walk(&w, &frame.now.layout, s)
    while True:
        n += frame.frozen.live(address_of(frame.now.axial, w.chunk)) != 0
        if not next_chunk(&w, &frame.now.layout):
            return n


cdef index_t part_visits(query_t *q, Frozen frozen) except -1:
    """Put visits to raw chunks before those to frozen ones; return the number of the former.

    The order within both stays.
    """
    cdef index_t i, n_raw = 0, n_frozen = 0
    cdef index_t[::1] address
    cdef uint64_t[::1] visit
    for i in range(q.n_visits):
        n_frozen += frozen.live(q.address[i]) != 0
    if n_frozen == 0:
        return q.n_visits
    if n_frozen == q.n_visits:
        return 0
    address = np.empty(q.n_visits, np.int64)
    visit = np.empty(q.n_visits, np.uint64)
    n_frozen = 0
    for i in range(q.n_visits):
        if frozen.live(q.address[i]):
            address[n_frozen] = q.address[i]
            visit[n_frozen] = q.visit[i]
            n_frozen += 1
        else:
            q.address[n_raw] = q.address[i]
            q.visit[n_raw] = q.visit[i]
            n_raw += 1
    for i in range(n_frozen):
        q.address[n_raw + i] = address[i]
        q.visit[n_raw + i] = visit[i]
    return n_raw


cdef void look_into(layout_t *layout, char *base) noexcept nogil:
    """Let a layout find a chunk in memory, at its place from `base` on."""
    layout.base = layout.pages = layout.blocks = base
    layout.fd = -1
    layout.start = 0
    layout.sparse = layout.hollow = False
    layout.touched = NULL
    layout.sieve = NULL


cdef void look_up_strides(
    const selection_t *s, cnp.ndarray values, index_t *stride
) noexcept:
    """Look up how many bytes of the values lie between selected elements, along each axis."""
    cdef int i, j, missing = s.result_ndim - values.ndim
    for j in range(s.ndim):
        stride[j] = 0
    for i in range(missing, s.result_ndim):
        if s.result_axis[i] >= 0 and values.shape[i - missing] > 1:
            stride[s.result_axis[i]] = values.strides[i - missing]


@cython.final
cdef class Takes:
    """Takes decoded chunks that are then written to."""

    cdef list numbers
    cdef dict chunks, rests     # by number

    def __call__(self, list numbers not None, list chunks not None, list rests=None):
        for i, chunk in zip(numbers, chunks):
            self.chunks[self.numbers[i]] = chunk
        if rests is not None:
            for i, rest in zip(numbers, rests):
                self.rests[self.numbers[i]] = rest


@cython.final
cdef class ChunkMoves:
    """The moves of the chunks of a selection, one by one; threads may share reads.

    Called by a decoder, it moves a chunk from memory that the decoder has filled.
    """

    cdef Frame frame
    cdef object values              # keeps the target alive
    cdef job_t job
    cdef axial_t axial
    cdef piece_t *pieces
    cdef index_t *address           # of each chunk
    cdef int *low                   # numbers of its pieces
    cdef bint keeps, releases
    cdef list numbers, entries      # of the chunks that are to be decoded
    cdef Decoded last
    cdef int failure

    def __dealloc__(self):
        free(self.pieces)
        free(self.address)
        free(self.low)

    def __call__(self, list numbers not None, list chunks not None, list rests=None):
        cdef index_t number[AT_ONCE]
        cdef char *base[AT_ONCE]
        cdef index_t start, i, k, n = len(numbers)
        cdef Decoded one
        cdef int failure = 0
        for start in range(0, n, AT_ONCE):
            k = min(n - start, <index_t> AT_ONCE)
            for i in range(k):
                number[i] = self.numbers[numbers[start + i]]
                base[i] = base_of(
                    self.address[number[i]], chunks[start + i], self.job.layout.chunk_bytes)
            if self.releases:
                with nogil:
                    for i in range(k):
                        failure = self.run_one(number[i], base[i]) or failure
            else:
                for i in range(k):
                    failure = self.run_one(number[i], base[i]) or failure
        if failure:
            self.failure = failure
        if self.keeps:
            for i in range(n):
                number[0] = self.numbers[numbers[i]]
                one = decoded(
                    self.address[number[0]], self.entries[numbers[i]], chunks[i],
                    self.job.layout.chunk_bytes, None if rests is None else rests[i])
                self.frame.frozen.keep(one)
                self.last = one

    cdef list box(self, index_t i):
        """Return which part of a chunk is selected, by axes of falling stride; None: all may be."""
        cdef const layout_t *L = &self.job.layout
        cdef const int *low = self.low + i * L.ndim
        cdef const piece_t *piece
        cdef list found = []
        cdef bint is_whole = True
        cdef index_t stop
        cdef int at, j
        if L.place != NULL:
            return None
        for at in range(L.ndim - 1, -1, -1):
            j = L.fast_to_slow[at]
            piece = &self.job.pieces[j][low[j]]
            stop = piece.first + (piece.count - 1) * self.job.step[j] + 1
            is_whole = is_whole and piece.first == 0 and stop == L.chunk[j]
            found.append((piece.first, stop))
        return None if is_whole else found

    cdef int move(self, index_t i, char *base) except -1:
        """Move a chunk in memory, at its place from `base` on; NULL: at its raw place."""
        cdef int failure
        if self.releases:
            with nogil:
                failure = self.run_one(i, base)
        else:
            failure = self.run_one(i, base)
        if failure:
            self.failure = failure
        return 0

    cdef int run_one(self, index_t i, char *base) noexcept nogil:
        """Do the job of `move`; return 0, or how it failed."""
        cdef job_t job = self.job
        cdef int ndim = job.layout.ndim, j
        cdef const int *low = self.low + i * ndim
        cdef int high[MAX_NDIM]
        for j in range(ndim):
            high[j] = low[j] + 1
        if base != NULL:
            look_into(&job.layout, base)
        return run(&job, low, high)

    cdef int set_up(
        self, Frame frame, const selection_t *s, cnp.ndarray values, index_t total
    ) except -1:
        """Prepare the moves of a non-empty selection of some chunks; `axial` is pinned meanwhile."""
        cdef index_t stride[MAX_NDIM]
        cdef index_t room_for[MAX_NDIM]
        cdef index_t n_pieces = 0, size = selection_size(s) * frame.now.layout.itemsize, i = 0
        cdef walk_t w
        cdef int j, ndim = s.ndim
        self.frame, self.values = frame, values
        count_pieces(s, frame.now.layout.chunk, room_for)
        for j in range(ndim):
            n_pieces += room_for[j]
        self.pieces = <piece_t *> malloc(max(1, n_pieces) * sizeof(piece_t))
        self.address = <index_t *> malloc(total * sizeof(index_t))
        self.low = <int *> malloc(max(1, total * ndim) * sizeof(int))
        if self.pieces == NULL or self.address == NULL or self.low == NULL:
            raise MemoryError(f"no memory to move {total} chunks")
        if FREE_THREADS:
            self.axial = frame.now.axial[0]     # as in `_run_large`
        look_up_strides(s, values, stride)
        prepare(&self.job, &self.axial, &frame.now.layout, s, self.pieces, values.data, stride)
        self.job.stream = size >= STREAM_BYTES
        # A call, or a wait for another thread's write to the chunk, must not keep the GIL.
        self.releases = size >= RELEASE_BYTES or frame.now.layout.base == NULL
        self.keeps = total <= frame.frozen.share
        begin_walk(&w, &frame.now.layout, s)
        while True:
            self.address[i] = address_of(&self.axial, w.chunk)
            for j in range(ndim):
                self.low[i * ndim + j] = w.done[j]
            i += 1
            if not next_chunk(&w, &frame.now.layout):
                return 0


cdef void begin_walk(walk_t *w, const layout_t *layout, const selection_t *s) noexcept:
    """Begin a walk through the chunks of a non-empty selection."""
    cdef index_t low, last
    cdef int j
    w.ndim = s.ndim
    for j in range(s.ndim):
        low = s.start[j] + layout.offset[j]
        last = low + (s.count[j] - 1) * s.step[j]
        # Negative in elements being added at a start.
        w.low[j] = min(low, last)
        w.last[j] = max(low, last)
        w.step[j] = max(1, abs(s.step[j]))
        w.n[j] = s.count[j]
        if w.step[j] < layout.chunk[j]:
            # One element of each chunk, to the last.
            w.step[j] = layout.chunk[j]
            w.n[j] = (floor_div(w.last[j], w.step[j]) - floor_div(w.low[j], w.step[j]) + 1)
        w.chunk[j] = floor_div(w.low[j], layout.chunk[j]) + layout.low[j]
        w.done[j] = 0


cdef bint next_chunk(walk_t *w, const layout_t *layout) noexcept:
    """Go to the next chunk, unless this is the last."""
    cdef int j = w.ndim - 1
    while j >= 0:
        w.done[j] += 1
        if w.done[j] == w.n[j]:
            w.done[j] = 0
        w.chunk[j] = layout.low[j] + floor_div(
            w.low[j] + w.done[j] * w.step[j], layout.chunk[j])
        if w.done[j]:
            return True
        j -= 1
    return False


cdef int coverage(const walk_t *w, const frame_t *now, const selection_t *s) noexcept:
    """Return how much of a walk's current chunk its selection covers."""
    cdef const layout_t *layout = &now.layout
    cdef index_t first, stop
    cdef bint is_dense
    cdef int j, how = WHOLE
    for j in range(w.ndim):
        if layout.chunk[j] == 1:
            continue
        first = (w.chunk[j] - layout.low[j]) * layout.chunk[j]
        stop = first + layout.chunk[j]
        is_dense = s.step[j] == 1 or s.step[j] == -1 or s.count[j] == 1
        if is_dense and w.low[j] <= first and w.last[j] >= stop - 1:
            continue
        first = max(first, layout.offset[j])
        stop = min(stop, layout.offset[j] + now.bounds[j])
        if first >= stop or (
                w.low[j] <= first and w.last[j] >= stop - 1 if is_dense else stop - first == 1):
            how = INSIDE
        else:
            return PART
    return how


cdef bint is_outside(const selection_t *s, const frame_t *now) noexcept:
    """Tell whether a selection begins outside the bounds, as appended elements do."""
    cdef int j
    for j in range(s.ndim):
        if s.start[j] < 0 or s.start[j] >= now.bounds[j]:
            return True
    return False


cdef bint looks_cold(Region region, const job_t *job, index_t size) noexcept:
    """Do `is_cold`, unless the last looks were in vain."""
    cdef int passing = hint_of(&region.passing)
    if passing > 0:
        set_hint(&region.passing, passing - 1)
        return False
    if is_cold(job, size):
        set_hint(&region.warm, 0)
        return True
    passing = min(2 * hint_of(&region.warm) + 1, MOST_PASSING)
    set_hint(&region.warm, passing)
    set_hint(&region.passing, passing)
    return False


cdef bint visits_look_cold(Region region, const query_t *q, index_t size, index_t total) noexcept:
    """Do `looks_cold` for a query of `total` visits that move `size` bytes.

    False if most of each mapped chunk is moved: the system's read-ahead cannot be bettered.
    """
    cdef index_t k
    if q.layout.fd < 0 or size < ASK_BYTES or (
            q.layout.base != NULL and size // total > q.layout.chunk_bytes // 2):
        return False
    cdef int passing = hint_of(&region.passing)
    if passing > 0:
        set_hint(&region.passing, passing - 1)
        return False
    for k in range(3):
        if not is_cached(q.layout.fd, place_of_visit(q, (q.n_visits - 1) * k // 2)):
            set_hint(&region.warm, 0)
            return True
    passing = min(2 * hint_of(&region.warm) + 1, MOST_PASSING)
    set_hint(&region.warm, passing)
    set_hint(&region.passing, passing)
    return False


cdef bint is_cold(const job_t *job, index_t size) noexcept:
    """Tell whether a job of `size` bytes reads cold bytes, by its first, middle and last piece.

    False for large jobs on whole chunks: the system's read-ahead cannot be bettered.
    """
    cdef const layout_t *L = &job.layout
    cdef index_t chunk[MAX_NDIM]
    cdef index_t offset, whole = L.chunk_bytes
    cdef const piece_t *piece
    cdef int j, k
    if L.fd < 0:
        return False
    if size > AHEAD_BYTES:
        for j in range(L.ndim):
            whole *= job.n_pieces[j]
        if size >= whole // 2:
            return False
    for k in range(3 if size >= FAR_BYTES else 1):
        offset = 0
        for j in range(L.ndim):
            piece = &job.pieces[j][(job.n_pieces[j] - 1) * ((k + 1) % 3) // 2]
            chunk[j] = piece.chunk
            if L.place == NULL:
                offset += piece.first * L.stride[j]
        offset += place_in_file(L, address_of(job.axial, chunk))
        if not is_cached(L.fd, offset):
            return True
    return False


cdef bint is_truncated(Frame frame) noexcept:
    """Tell whether another program has truncated the file."""
    cdef int64_t length = 0
    return (frame.now.layout.fd >= 0 and xa_length(frame.now.layout.fd, &length) == 0
            and length - frame.now.layout.start < frame.now.file_bytes)


cdef bint what_is_left(Frame frame, Frame known, index_t *lows, index_t *highs) noexcept:
    """Set the extents of each axis that are not cut off, as another frame knows them, counted from
    the first index 0.  Return whether any are missing."""
    cdef index_t low, high
    cdef bint is_less = False
    cdef int j
    for j in range(frame.now.layout.ndim):
        low = -known.now.origins[j]
        high = low + known.now.bounds[j]
        if known.now.is_cut:
            low = max(low, known.now.inner_low[j])
            high = min(high, known.now.inner_high[j])
        lows[j] = max(low, -frame.now.origins[j])
        highs[j] = max(lows[j], min(high, frame.now.bounds[j] - frame.now.origins[j]))
        is_less |= (lows[j] > -frame.now.origins[j]
                    or highs[j] < frame.now.bounds[j] - frame.now.origins[j])
    return is_less


cdef int fill_cut(
    Frame frame, object fill, const selection_t *s, cnp.ndarray values, const index_t *lows,
    const index_t *highs
) except -1:
    """Give the part of a selection outside a box (as in `what_is_left`) the fill value."""
    cdef index_t low, high, first, stop, step
    cdef int j, dim
    for j in range(s.ndim):
        low = lows[j] + frame.now.origins[j]
        high = highs[j] + frame.now.origins[j]
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
            values[...] = fill
            return 0
        before = (slice(None),) * dim
        values[before + (slice(0, first),)] = fill
        values[before + (slice(stop, None),)] = fill
    return 0


cdef index_t middle_of(Frame frame, const selection_t *s, int dim) noexcept:
    """Return where to halve a selection: between two chunks, if possible."""
    cdef const layout_t *layout = &frame.now.layout
    cdef index_t middle = s.result_shape[dim] // 2, beyond
    cdef int axis = s.result_axis[dim]
    if axis >= 0 and s.step[axis] == 1:
        beyond = (s.start[axis] + middle + layout.offset[axis]) % layout.chunk[axis]
        if beyond < middle:
            middle -= beyond
        elif middle + layout.chunk[axis] - beyond < s.result_shape[dim]:
            middle += layout.chunk[axis] - beyond
    return middle


cdef index_t block_limit() except -1:
    # Half for the block, half for memory that NumPy's cast may need beside it.
    return max(1, <index_t> config.max_memory // 2)


# -- notes of written chunks, for the store that keeps checksums -----------------------------------


def quiet_number(Transfers self not None):
    """Return a number that stays the same as long as nothing is written.

    None during a write, or while a writable view is out; forever None if writes are not or could
    not be noted.
    """
    cdef Writes writes = self.writes
    fence()         # see `_begin_write`
    if (writes is None or count_of(&writes.n_going) or writes.shown
            or touched_missed(writes.written.root) or touched_missed(writes.taken.root)):
        return None
    return count_of(&writes.n_begun)


def take_written(Transfers self not None, index_t first, index_t limit):
    """Take the addresses, from `first` on, of chunks written since the last call.

    At most `limit` of them, in order.  `return_taken` puts them back until `drop_taken`, so that no
    interrupt loses any between this call and their new checksums in the table.
    """
    cdef Writes writes = self.writes
    cdef index_t i, n
    addresses = np.empty(limit, np.int64)
    cdef index_t[::1] taken = addresses
    n = touched_take(writes.written.root, first, limit, &taken[0])
    for i in range(n):
        touched_set(writes.taken.root, taken[i])
    return addresses[:n]


def drop_taken(Transfers self not None, const index_t[::1] addresses not None):
    """Let go of chunks taken, whose checksums are in the table."""
    cdef index_t address
    for address in addresses:
        touched_drop(self.writes.taken.root, address)


def return_taken(Transfers self not None):
    """Put back the chunks that were taken and not dropped."""
    cdef Writes writes = self.writes
    cdef index_t address = 0
    while touched_take(writes.taken.root, address, 1, &address):
        touched_set(writes.written.root, address)


# -- notes of written chunks, for the store that freezes them ----------------------------------------


def take_changed(Transfers self not None, index_t first, index_t limit):
    """Take the addresses, from `first` on, of chunks written since they were last taken.

    At most `limit` of them, in order, and none with a writable view.  None during a write.
    """
    cdef Writes writes = self.writes
    cdef index_t n
    fence()         # see `_begin_write`
    if count_of(&writes.n_going):
        return None
    addresses = np.empty(limit, np.int64)
    cdef index_t[::1] taken = addresses
    n = touched_take(writes.changed.root, first, limit, &taken[0])
    fence()
    return addresses[:n]


def hold_writes(Transfers self not None, gate):
    """Let writes wait for a lock before they begin; None: let them begin.

    One of the two sees the other's step: the write that begins, or whoever calls this and then
    looks for writes under way.
    """
    cdef Writes writes = self.writes
    if gate is not None:
        writes.gate = gate
    set_hint(&writes.is_held, gate is not None)
    fence()


def shown_chunks(Transfers self not None):
    """Return the addresses of chunks that have had writable views."""
    return np.array(sorted(self.writes.shown.copy()), np.int64)


def return_changed(Transfers self not None, const index_t[::1] addresses not None):
    """Put back chunks that were taken, but not frozen."""
    cdef index_t address
    for address in addresses:
        touched_set(self.writes.changed.root, address)


def freeze_taken(
    Transfers self not None, const index_t[::1] addresses not None, const uint64_t[::1] entries not None
):
    """Give raw chunks their entries, unless they were written since they were taken.

    Return which chunks are frozen now, as a boolean array.
    """
    cdef Frame frame = self._writable()
    cdef Frozen frozen = frame.frozen
    cdef Writes writes = self.writes
    cdef unsigned char[::1] found
    cdef index_t i
    result = np.zeros(addresses.shape[0], np.bool_)
    found = result.view(np.uint8)
    if FREE_THREADS and count_of(&writes.n_going):
        return result
    for i in range(addresses.shape[0]):
        if (frozen.live(addresses[i]) == 0 and not touched_get(writes.changed.root, addresses[i])
                and addresses[i] not in writes.shown):
            frozen.set_entry(addresses[i], entries[i])
            found[i] = True
    return result


def thaw_chunks(Transfers self not None, addresses):
    """Give frozen chunks their raw bytes back."""
    cdef Frame frame = self._writable()
    self._begin_write(frame)
    try:
        self._thaw(frame, addresses)
    finally:
        add_to(&self.writes.n_going, -1)


def note_written(
    Transfers self not None, const index_t[::1] addresses not None, bint whole=True
):
    """Count chunks as written; they become known, unless `whole` is False."""
    self._begin_noted(addresses, addresses if whole else addresses[:0])
    # Without `_end_noted`: nothing is written in between, so once is enough.
    add_to(&self.writes.n_going, -1)


def note_shown(Transfers self not None, bint last):
    """Count the chunks with writable views as written.

    After the `last` call, writes through these views go unnoticed.
    """
    shown = self.writes.shown.copy()        # other threads add to it
    if shown:
        note_written(self, np.fromiter(shown, np.int64), False)
    if last:
        self.writes.shown.clear()
