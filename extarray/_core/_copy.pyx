"""Copying a selection between the chunks and the user's memory, without the GIL.

A selection is split along each axis into pieces, one per chunk that it meets; the transfer is the
outer product of the pieces.  Neighbouring pieces whose chunk indices one segment introduced form
runs.  A product of runs is a box of chunks with affine addresses: one owner and one set of
coefficients serve the whole box.

Two engines move the bytes of a chunk: the mapping, where a transfer copies a strided block, and
`pread` and `pwrite`, which move a part of a chunk as runs of bytes.  Writes touch only the bytes of
their elements, so writers of disjoint elements never harm each other, even inside one chunk.  But a
lone writer reads and writes back a part of close elements as one, gaps included.

This file has all functions that a transfer calls for each part of a chunk, for the compiler to
inline.
"""

from libc.errno cimport EINTR, EIO, ENOMEM, errno
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memchr, memcpy, memmove

from ._file cimport ask_for, ask_for_block
from ._vectors cimport axial_t, coefficients_of, record_of, segment_of
from ._mapping cimport (
    populate_alone, populate_ends, reserve_pages, touched_get, touched_set, touched_spare,
)
from ._selection cimport selection_t
from ._system cimport (
    XA_UNSUPPORTED, lock_chunk, sieving_is_over, unlock_chunk, xa_page_bytes, xa_read_at,
    xa_write_at,
)
from ._types cimport MAX_NDIM, ceil_div, floor_div, index_t


cdef extern from "_block.h":
    void xa_copy_block(
        char *d, const index_t *d_stride, const char *s, const index_t *s_stride,
        const index_t *count, int ndim, index_t size, int stream) noexcept nogil
    void xa_gather(char *d, index_t ds, const char *chunk, const index_t *place, index_t step,
                   index_t n, index_t size) noexcept nogil
    void xa_scatter(char *chunk, const index_t *place, index_t step, const char *s, index_t ss,
                    index_t n, index_t size) noexcept nogil
    void xa_copy_rows(
        char *user, const index_t *user_stride, char *const *chunk, const index_t *bytes,
        int n_pieces, const index_t *chunk_stride, index_t step, const index_t *count, int ndim,
        index_t size, int write, int stream) noexcept nogil
    void xa_stream_end() noexcept nogil
    void xa_ask_run(const char *run, index_t n) noexcept nogil
    bint xa_reads_by_rows() noexcept nogil

cdef enum:
    # Smaller new chunks are not worth a system call of their own.
    LEAST_DIRECT = 1 << 14
    # For less of a new chunk, clearing large pages takes less time than many calls.
    LEAST_NEW = 1 << 15
    # Up to this size, page faults cost more than joining new chunks, however small; in larger
    # transfers the kernel reads ahead, and faults are few.
    FEW_BYTES = 1 << 22
    # Several times the kernel's read-ahead.
    FAR_AHEAD = 1 << 20
    # Bytes that the system's cache can keep as one page.
    HUGE_PAGE = 1 << 21
    # Chunks of a row that are read together.
    ROW_PIECES = 64
    # A transfer that stays in the caches goes by rows if these meet so many chunks, in pieces of so
    # many bytes on average, and lie at most so many bytes apart in a chunk.
    ROWS_CHUNKS = 3
    ROWS_BYTES = 32
    ROWS_APART = 1 << 12
    # A shorter run is copied before a prefetch completes.
    LEAST_ASKED = 1 << 12
    # Reading the gaps between runs pays for a write from this many runs on.
    MANY_RUNS = 4
    # Most bytes asked of the system in one read or write: some refuse 2 GiB.
    MOST_AT_ONCE = 1 << 30


# -- pieces --------------------------------------------------------------------------------------

cdef index_t most_pieces(index_t step, index_t count, index_t chunk) noexcept nogil:
    """Bound the number of chunks that an arithmetic progression meets."""
    if step < 0:
        step = -step
    if count <= 1 or step >= chunk:
        return count
    return min(count, ((count - 1) * step + 1) // chunk + 2)


cdef void count_pieces(const selection_t *s, const index_t *chunk, index_t *n) noexcept:
    """Bound the number of pieces along each axis."""
    cdef int j
    for j in range(s.ndim):
        n[j] = most_pieces(s.step[j], s.count[j], chunk[j])


cdef int32_t split_axis(
    const axial_t *axial, const layout_t *L, int axis, index_t start, index_t step, index_t count,
    piece_t *p
) noexcept nogil:
    """Split an arithmetic progression, step > 0, into pieces; return their number."""
    cdef index_t chunk = L.chunk[axis], low = L.low[axis], done = 0, c
    cdef int32_t m = 0
    start += L.offset[axis]
    c = floor_div(start, chunk)     # negative if an append writes before the bounds
    while done < count:
        p[m].chunk = c + low
        p[m].first = start - c * chunk
        p[m].position = done
        p[m].count = 1 if step >= chunk else min(count - done, (chunk - 1 - p[m].first) // step + 1)
        p[m].segment = segment_of(axial, axis, c + low)
        done += p[m].count
        if done < count:
            start += p[m].count * step
            c = c + 1 if step < chunk else floor_div(start, chunk)
        m += 1
    return m


cdef int prepare(
    job_t *job, const axial_t *axial, const layout_t *layout, const selection_t *s,
    piece_t *room, char *user, const index_t *user_stride
) except -1 nogil:
    """Fill a job; `room` has space for the pieces that `count_pieces` counts."""
    cdef int j, ndim = s.ndim
    cdef int32_t m, i
    cdef index_t start, step, count
    cdef piece_t *p
    job.layout = layout[0]
    job.axial = axial
    job.user = user
    job.write = False
    job.sieves = False
    job.is_new = False
    job.stream = False
    job.ahead = NULL
    job.piece = PIECE
    for j in range(ndim):
        start = s.start[j]
        count = s.count[j]
        step = s.step[j] if count > 1 else 1        # a lone index may have any step
        job.user_stride[j] = user_stride[j]
        if step < 0:
            # Forwards through the chunks, backwards through the user's memory.
            start += (count - 1) * step
            step = -step
            job.user += (count - 1) * user_stride[j]
            job.user_stride[j] = -user_stride[j]
        # A larger step has no next element inside a chunk; its bytes might overflow.
        job.step[j] = step if step < layout.chunk[j] else 1
        job.pieces[j] = p = room
        m = split_axis(axial, layout, j, start, step, count, p)
        job.n_pieces[j] = m
        for i in range(m - 1, -1, -1):
            if i + 1 < m and p[i + 1].segment == p[i].segment:
                p[i].run_end = p[i + 1].run_end
            else:
                p[i].run_end = i + 1
        room += m
    return 0


# -- bytes of a file -----------------------------------------------------------------------------

cdef int move_bytes(
    const layout_t *L, char *memory, index_t n, index_t offset, bint write
) noexcept nogil:
    """Read bytes of the chunks into memory, or (`write`) write them: 0, or an errno."""
    cdef ssize_t moved
    offset += L.start
    while n > 0:
        if write:
            moved = xa_write_at(L.fd, memory, min(n, <index_t> MOST_AT_ONCE), offset)
        else:
            moved = xa_read_at(L.fd, memory, min(n, <index_t> MOST_AT_ONCE), offset)
        if moved < 0:
            if errno == EINTR:
                continue
            return errno
        if moved == 0:
            return EIO          # the file is too short for its metadata, or no reason is given
        memory += moved
        offset += moved
        n -= moved
    return 0


cdef int move_item(const layout_t *L, char *item, index_t place, bint write) noexcept nogil:
    """Read one element of a file that is not mapped, or (`write`) write it: 0, or an errno.

    `place` is its offset from the first chunk; in orders "Z" and "H", that in C order.
    """
    cdef index_t address = chunks_before(L, place), chunk
    cdef int failure
    if L.place != NULL:
        chunk = place_of(L, address)
        place = chunk + L.place[(place - chunk) // L.itemsize] * L.itemsize
    if not write or L.sieve == NULL:
        return move_bytes(L, item, L.itemsize, place, write)
    lock_chunk(L.sieve, address)        # another thread may be about to write back old bytes
    failure = move_bytes(L, item, L.itemsize, place, True)
    unlock_chunk(L.sieve, address)
    return failure


cdef char *stage_of(worker_t *w, index_t n) noexcept nogil:
    if w.stage_bytes < <size_t> n:
        free(w.stage)
        w.stage = <char *> malloc(n)
        w.stage_bytes = n if w.stage != NULL else 0
    return w.stage


# -- a part of one chunk -------------------------------------------------------------------------
# `at` is the byte offset of the part's first element in the chunk, `user` its place in the user's
# memory, `count` its extents, `stride` the bytes between its elements in the chunk.

cdef index_t span_of(const index_t *count, const index_t *stride, int ndim, index_t itemsize) noexcept nogil:
    """Return the bytes from the first element to the end of the last."""
    cdef index_t span = itemsize
    cdef int j
    for j in range(ndim):
        span += (count[j] - 1) * stride[j]
    return span


cdef index_t size_of(const index_t *count, int ndim, index_t itemsize) noexcept nogil:
    cdef index_t size = itemsize
    cdef int j
    for j in range(ndim):
        size *= count[j]
    return size


cdef int slowest_axis(const job_t *job, const index_t *count) noexcept nogil:
    """Return the axis of more than one element with the largest stride, or -1."""
    cdef int i, j
    for i in range(job.layout.ndim - 1, -1, -1):
        j = job.layout.fast_to_slow[i]
        if count[j] > 1:
            return j
    return -1


cdef bint is_joined(
    const layout_t *L, const index_t *stride, const index_t *count, index_t gap, index_t factor
) noexcept nogil:
    """Tell whether no gap between elements exceeds `gap` bytes, or `factor` times the bytes beside
    it."""
    cdef index_t inner = L.itemsize
    cdef int i, j
    for i in range(L.ndim):
        j = L.fast_to_slow[i]
        if count[j] > 1:
            if stride[j] - inner > max(gap, factor * inner):
                return False
            inner += (count[j] - 1) * stride[j]
    return True


cdef int file_part(
    const job_t *job, worker_t *w, index_t offset, char *user, const index_t *stride, index_t *count
) noexcept nogil:
    """Move a part of a chunk from or to the file; `offset` is that of its first element.

    Small gaps are moved too, unless the part is written and there are other writers.
    """
    cdef const layout_t *L = &job.layout
    cdef index_t span = span_of(count, stride, L.ndim, L.itemsize)
    cdef index_t size = size_of(count, L.ndim, L.itemsize)
    cdef index_t limit = PIECE if job.write and L.base == NULL else STAGE
    cdef index_t n, i = 0, m = 1
    cdef int axis = slowest_axis(job, count), failure = 0
    cdef bint is_dense = span == size, joined = is_dense
    cdef char *stage
    if axis < 0 or (is_dense and (span <= limit or not job.write) and is_run(job, count)):
        # One run on both sides.
        return move_bytes(L, user, size, offset, job.write)
    if not is_dense:
        if not job.write:
            joined = is_close(span, size) or is_joined(L, stride, count, READ_BYTES, 1)
        elif job.sieves:
            joined = is_joined(L, stride, count, SIEVE_BYTES - 1, 0)
    if span <= limit and joined:
        stage = stage_of(w, span)
        if stage == NULL:
            return ENOMEM
        if job.write:
            if not is_dense:
                failure = move_bytes(L, stage, span, offset, False)
                if failure:
                    return failure
            xa_copy_block(stage, stride, user, job.user_stride, count, L.ndim, L.itemsize, False)
        failure = move_bytes(L, stage, span, offset, job.write)
        if failure == 0 and not job.write:
            xa_copy_block(user, job.user_stride, stage, stride, count, L.ndim, L.itemsize, job.stream)
        return failure
    n = count[axis]
    if joined:
        m = max(1, n // ceil_div(span, limit))
    while i < n and failure == 0:
        count[axis] = min(m, n - i)
        failure = file_part(
            job, w, offset + i * stride[axis], user + i * job.user_stride[axis], stride, count)
        i += m
    count[axis] = n
    return failure


cdef bint saves_calls(const job_t *job) noexcept nogil:
    """Tell whether writing back gaps saves many calls in the largest parts, or in those that are
    smaller along one axis: at the edges of the selection, where runs end inside chunks."""
    cdef int j
    if job.layout.place != NULL or gaps_save_calls(job, -1):
        return True
    for j in range(job.layout.ndim):
        if job.n_pieces[j] > 1 and gaps_save_calls(job, j):
            return True
    return False


cdef bint gaps_save_calls(const job_t *job, int edge) noexcept nogil:
    """Do `saves_calls` for parts at the edges along one axis (-1: none), and large along the others.
    """
    cdef const layout_t *L = &job.layout
    cdef index_t inner = L.itemsize, n_runs = 1, n_calls = 1, stride, most
    cdef bint is_dense = True, joined = True
    cdef int i, j
    cdef int32_t p
    for i in range(L.ndim):
        j = L.fast_to_slow[i]
        most = 1
        if j == edge:
            most = min(job.pieces[j][0].count, job.pieces[j][job.n_pieces[j] - 1].count)
        else:
            for p in range(min(job.n_pieces[j], 2)):
                most = max(most, job.pieces[j][p].count)
        if most == 1:
            continue
        stride = L.stride[j] * job.step[j]
        is_dense &= stride == inner
        joined &= stride - inner < SIEVE_BYTES
        inner += (most - 1) * stride
        if not is_dense:
            n_runs *= most
        if not joined:
            n_calls *= most
    return n_runs >= MANY_RUNS * n_calls


cdef bint is_run(const job_t *job, const index_t *count) noexcept nogil:
    """Tell whether the user's memory holds a part's elements in chunk order, without gaps.  (The
    part is known to have no gaps in the chunk.)"""
    cdef const layout_t *L = &job.layout
    cdef index_t expected = L.itemsize
    cdef int i, j
    for i in range(L.ndim):
        j = L.fast_to_slow[i]
        if count[j] > 1:
            if job.user_stride[j] != expected:
                return False
            expected *= count[j]
    return True


cdef void permute(
    const job_t *job, char *chunk, char *user, const index_t *first, const index_t *count, uint8_t *marks
) noexcept nogil:
    """Move a part between a chunk in order "Z" or "H" and the user's memory, through the table of
    places.  With `marks`, mark the places and move nothing."""
    cdef const layout_t *L = &job.layout
    cdef index_t at[MAX_NDIM]
    cdef index_t row = 0, stride = 1, step_bytes, i
    cdef index_t place_step[MAX_NDIM]
    cdef int j, last = L.ndim - 1
    if L.ndim == 0:
        if marks != NULL:
            marks[0] = 1
        elif job.write:
            memcpy(chunk, user, L.itemsize)
        else:
            memcpy(user, chunk, L.itemsize)
        return
    for j in range(last, -1, -1):
        place_step[j] = stride * job.step[j]
        row += first[j] * stride
        stride *= L.chunk[j]
        at[j] = 0
    step_bytes = job.user_stride[last]
    while True:
        if marks != NULL:
            for i in range(count[last]):
                marks[L.place[row + i * place_step[last]]] = 1
        elif job.write:
            xa_scatter(chunk, L.place + row, place_step[last], user, step_bytes, count[last], L.itemsize)
        else:
            xa_gather(user, step_bytes, chunk, L.place + row, place_step[last], count[last], L.itemsize)
        j = last - 1
        while j >= 0:
            at[j] += 1
            row += place_step[j]
            user += job.user_stride[j]
            if at[j] < count[j]:
                break
            row -= count[j] * place_step[j]
            user -= count[j] * job.user_stride[j]
            at[j] = 0
            j -= 1
        if j < 0:
            return


cdef int permuted_part(
    const job_t *job, worker_t *w, index_t offset, char *user, const index_t *first, const index_t *count
) noexcept nogil:
    """Move a part of a chunk in order "Z" or "H" by pread and pwrite."""
    cdef const layout_t *L = &job.layout
    cdef char *stage = stage_of(w, L.chunk_bytes)
    cdef uint8_t *marks
    cdef index_t n = L.chunk_bytes // L.itemsize, gap = 0
    cdef int failure = 0
    if stage == NULL:
        return ENOMEM
    if not job.write:
        failure = move_bytes(L, stage, L.chunk_bytes, offset, False)
        if failure == 0:
            permute(job, stage, user, first, count, NULL)
        return failure
    # If there are other writers, only the places of the given elements may be written.
    marks = <uint8_t *> calloc(n, 1)
    if marks == NULL:
        return ENOMEM
    permute(job, stage, user, first, count, marks)
    if job.sieves:
        gap = (SIEVE_BYTES - 1) // L.itemsize
        failure = move_marked(L, stage, marks, n, offset, gap, False, True)
    if failure == 0:
        permute(job, stage, user, first, count, NULL)
        failure = move_marked(L, stage, marks, n, offset, gap, True, False)
    free(marks)
    return failure


cdef int move_marked(
    const layout_t *L, char *memory, const uint8_t *marks, index_t n, index_t offset, index_t gap,
    bint write, bint gaps_only
) noexcept nogil:
    """Read or write the runs of marked elements, of `n` that begin at a file offset; runs at most
    `gap` elements apart are joined.  With `gaps_only`, skip runs without a gap."""
    cdef index_t size = L.itemsize, first = 0, stop, following, most = max(PIECE // size, <index_t> 1)
    cdef int failure = 0
    cdef bint has_gap
    while failure == 0:
        first = place_of_mark(marks, 1, first, n)
        if first == n:
            break
        has_gap = False
        stop = place_of_mark(marks, 0, first, n)
        following = place_of_mark(marks, 1, stop, min(n, stop + gap + 1))
        while following < min(n, stop + gap + 1):
            has_gap = True
            stop = place_of_mark(marks, 0, following, n)
            following = place_of_mark(marks, 1, stop, min(n, stop + gap + 1))
        if write:
            stop = min(stop, first + most)
        if has_gap or not gaps_only:
            failure = move_bytes(
                L, memory + first * size, (stop - first) * size, offset + first * size, write)
        first = stop
    return failure


cdef inline index_t place_of_mark(
    const uint8_t *marks, int wanted, index_t first, index_t stop
) noexcept nogil:
    """Find the next mark of a kind at or after a place; `stop` if there is none before it."""
    cdef const void *found = memchr(marks + first, wanted, stop - first)
    return stop if found == NULL else <const uint8_t *> found - marks


cdef void reserve_ahead(const layout_t *L, index_t address) noexcept nogil:
    """Give holes their disk space by whole huge pages, where chunks are first written in a row.

    The system's cache then keeps each of them as one page, and one store makes it ready for all.
    The row must be as long as the space beyond it, up to a huge page.  On a failure the chunk gets
    its own space, as others do.
    """
    cdef index_t low = place_of(L, address), high = place_of(L, address + 1), before = address
    cdef index_t start = (low + HUGE_PAGE - 1) & -HUGE_PAGE
    if start >= high or L.blocks == L.base:
        return
    while low - place_of(L, before) < HUGE_PAGE:
        before -= 1
        if before < 0 or not touched_get(L.touched, before):
            return
    high = (high + HUGE_PAGE - 1) & -HUGE_PAGE
    if reserve_pages(L.fd, low, high - low) == 0:
        populate_ends(L.blocks, start, high)


cdef int reach(const layout_t *L, index_t address, bint write) noexcept nogil:
    """Tell whether a chunk may be loaded from (or, with `write`, stored to) at L.base: 0,
    THROUGH_FILE, or an errno.  Give a hole its disk space before the first store."""
    cdef int failure
    if L.base == NULL:
        return THROUGH_FILE
    if write:
        if L.sparse and not touched_get(L.touched, address):
            reserve_ahead(L, address)
            # I7: no store may meet a hole, which may have no space behind it.
            failure = reserve_pages(L.fd, place_of(L, address), L.chunk_bytes)
            if failure == XA_UNSUPPORTED:
                return THROUGH_FILE
            if failure:
                return failure
            if populate_alone(L.base, place_of(L, address), place_of(L, address + 1)):
                return THROUGH_FILE
            touched_set(L.touched, address)
    elif L.hollow and (L.touched == NULL or not touched_get(L.touched, address)):
        return THROUGH_FILE
    return 0


cdef inline void reserve_new(const layout_t *L, index_t offset, index_t size) noexcept nogil:
    """Give a hole its disk space before a write through the file: the system takes longer to find
    the space while it writes.  Where this fails, the write tells why."""
    if L.sparse:
        reserve_pages(L.fd, offset, size)


cdef bint note_touched(const layout_t *L, index_t address, index_t n) noexcept nogil:
    """Allow stores through the mapping to n chunks that have their disk space, if possible."""
    cdef index_t i
    if L.sparse and populate_ends(L.base, place_of(L, address), place_of(L, address + n)):
        return False
    for i in range(n):
        touched_set(L.touched, address + i)
    return True


cdef void copy_block(
    char *d, const index_t *d_stride, const char *s, const index_t *s_stride,
    const index_t *count, int ndim, index_t size, bint stream
) noexcept nogil:
    """Copy a strided block of elements, for other kernels."""
    xa_copy_block(d, d_stride, s, s_stride, count, ndim, size, stream)


cdef void end_stream() noexcept nogil:
    """Make stores that bypassed the caches visible to other threads."""
    xa_stream_end()


cdef int write_fresh(
    const job_t *job, worker_t *w, index_t address, char *user, const index_t *stride, index_t *count
) noexcept nogil:
    """Write a whole chunk for the first time, by one system call (I12).

    The kernel need not clear pages that are written through the file, and makes large ones if each
    is written whole.  So chunks wait in the stage for their neighbours, up to the next boundary of
    the job's pieces.
    """
    cdef const layout_t *L = &job.layout
    cdef index_t offset = place_of(L, address), end = offset + L.chunk_bytes
    cdef index_t room = L.chunk_bytes
    cdef int failure, j
    if L.chunk_bytes > job.piece // 2:
        reserve_new(L, offset, L.chunk_bytes)
        failure = file_part(job, w, offset, user, stride, count)
        if failure == 0:
            note_touched(L, address, 1)
        return failure
    if w.n_fresh and address != w.first_fresh + w.n_fresh:
        failure = end_fresh(job, w)
        if failure:
            return failure
    for j in range(L.ndim):
        room = min(room * job.n_pieces[j], job.piece + L.chunk_bytes)
    if stage_of(w, room) == NULL:
        return ENOMEM
    if w.n_fresh == 0:
        w.first_fresh = address
        w.stage_offset = offset
    xa_copy_block(
        w.stage + (offset - w.stage_offset), stride, user, job.user_stride, count, L.ndim, L.itemsize,
        False)
    w.n_fresh += 1
    end -= end % job.piece
    return write_staged(job, w, end) if end > w.stage_offset else 0


cdef int write_staged(const job_t *job, worker_t *w, index_t end) noexcept nogil:
    """Write the staged bytes that lie before an offset of the file."""
    cdef const layout_t *L = &job.layout
    cdef index_t start = w.stage_offset, size = end - start, i
    cdef index_t address = w.first_fresh, n = chunks_before(L, end) - address   # complete ones
    cdef index_t rest = place_of(L, address + w.n_fresh) - end
    cdef int failure
    w.first_fresh += n
    w.stage_offset = end
    w.n_fresh -= n
    if size >= LEAST_DIRECT or rest or start % L.chunk_bytes:
        reserve_new(L, start, size)
        failure = move_bytes(L, w.stage, size, start, True)
        if failure:
            w.n_fresh = 0
            return failure
        memmove(w.stage, w.stage + size, rest)
    else:
        for i in range(n):
            failure = reach(L, address + i, True)
            if failure > 0:
                return failure
            if failure == THROUGH_FILE:
                failure = move_bytes(
                    L, w.stage + i * L.chunk_bytes, L.chunk_bytes, start + i * L.chunk_bytes, True)
                if failure:
                    return failure
            else:
                memcpy(L.base + start + i * L.chunk_bytes, w.stage + i * L.chunk_bytes, L.chunk_bytes)
    if n:
        note_touched(L, address, n)
    return 0


cdef int end_fresh(const job_t *job, worker_t *w) noexcept nogil:
    """Write the chunks that wait in the stage."""
    return write_staged(job, w, place_of(&job.layout, w.first_fresh + w.n_fresh))


cdef bint goes_direct(const job_t *job) noexcept nogil:
    """Tell whether mapped chunks are first written through the file.

    False if small chunks are written in part: the kernel's read-ahead at the first store would
    create pages of bytes still to be written, to be filled again.  False also if the rest of a page
    may lack space, which later stores need.
    """
    cdef const layout_t *L = &job.layout
    cdef index_t n_chunks = 1
    cdef int j
    cdef int32_t i
    if not job.write or L.base == NULL or L.touched == NULL or L.place != NULL:
        return False
    if L.sparse and L.chunk_bytes % xa_page_bytes():
        return False
    for j in range(L.ndim):
        n_chunks *= job.n_pieces[j]
    if L.chunk_bytes < LEAST_DIRECT and n_chunks * L.chunk_bytes > FEW_BYTES:
        return False
    if L.chunk_bytes < FAR_AHEAD:
        for j in range(L.ndim):
            for i in range(job.n_pieces[j]):
                if job.pieces[j][i].count != L.chunk[j]:
                    return False
    return True


cdef void ask_for_part(
    const job_t *job, index_t address, index_t at, const index_t *stride, const index_t *count
) noexcept nogil:
    """Ask the system for the part of the selection in the chunk at an address."""
    cdef const layout_t *L = &job.layout
    cdef index_t offset = place_in_file(L, address)
    if L.place != NULL:
        ask_for(job.ahead, offset, offset + L.chunk_bytes)
    else:
        ask_for_block(
            job.ahead, offset + at, L.fast_to_slow, stride, count, L.ndim, L.itemsize)


cdef int locked_part(
    const job_t *job, worker_t *w, index_t address, index_t at, char *user, const index_t *stride,
    const index_t *first, index_t *count
) noexcept nogil:
    """Write a part of a chunk while no other thread writes to the chunk."""
    cdef const layout_t *L = &job.layout
    cdef index_t offset = place_of(L, address)
    cdef job_t own
    cdef int failure
    lock_chunk(L.sieve, address)
    if job.sieves and sieving_is_over(L.sieve):
        own = job[0]
        own.sieves = False
        job = &own
    if L.place != NULL:
        failure = permuted_part(job, w, offset, user, first, count)
    else:
        failure = file_part(job, w, offset + at, user, stride, count)
    unlock_chunk(L.sieve, address)
    return failure


cdef int transfer_part(
    const job_t *job, worker_t *w, index_t address, index_t at, char *user,
    const index_t *stride, const index_t *first, index_t *count
) noexcept nogil:
    """Move the part of the selection in the chunk at `address`."""
    cdef const layout_t *L = &job.layout
    cdef index_t offset = place_of(L, address), span
    cdef char *base = L.base
    cdef char *chunk
    cdef int failure
    if job.ahead != NULL:
        ask_for_part(job, address, at, stride, count)
        return 0
    if (w.is_direct and size_of(count, L.ndim, L.itemsize) == L.chunk_bytes
            and not touched_get(L.touched, address)):
        return write_fresh(job, w, address, user, stride, count)
    if w.n_fresh:
        failure = end_fresh(job, w)     # the stage may be needed
        if failure:
            return failure
    if job.is_new and L.place == NULL:
        span = span_of(count, stride, L.ndim, L.itemsize)
        if span >= LEAST_NEW and span == size_of(count, L.ndim, L.itemsize):
            # The kernel makes pages of just the bytes written, and need not clear them.
            if at == 0:     # so appends begin a chunk
                reserve_new(L, offset, L.chunk_bytes)
            return file_part(job, w, offset + at, user, stride, count)
        if LEAST_NEW <= span <= L.chunk_bytes // 2:
            base = L.pages
    if (job.write and L.sparse and L.base != NULL and L.place == NULL
            and size_of(count, L.ndim, L.itemsize) == L.itemsize and touched_spare(L.touched, address)):
        return file_part(job, w, offset + at, user, stride, count)
    failure = reach(L, address, job.write)
    if failure == THROUGH_FILE:
        if job.write and L.sieve != NULL:
            return locked_part(job, w, address, at, user, stride, first, count)
        if L.place != NULL:
            return permuted_part(job, w, offset, user, first, count)
        return file_part(job, w, offset + at, user, stride, count)
    if failure:
        return failure
    chunk = base + offset
    if L.place != NULL:
        permute(job, chunk, user, first, count, NULL)
    elif job.write:
        xa_copy_block(chunk + at, stride, user, job.user_stride, count, L.ndim, L.itemsize, job.stream)
    else:
        xa_copy_block(user, job.user_stride, chunk + at, stride, count, L.ndim, L.itemsize, job.stream)
    return 0


# -- rows of chunks ------------------------------------------------------------------------------

cdef bint goes_by_rows(const job_t *job) noexcept nogil:
    """Tell whether a transfer goes row by row through rows of chunks: if both sides' element orders
    allow it, and it takes less time so."""
    cdef const layout_t *L = &job.layout
    cdef int last = L.ndim - 1
    if (
        L.ndim == 0 or job.ahead != NULL or job.is_new or L.base == NULL or L.place != NULL
        or L.hollow or L.stride[last] != L.itemsize or job.user_stride[last] != L.itemsize
    ):
        return False
    if job.stream:
        return job.write or xa_reads_by_rows()
    return has_long_rows(job)


cdef bint has_long_rows(const job_t *job) noexcept nogil:
    """Tell whether rows meet several chunks, in long pieces that follow each other in each chunk: the
    processor then prefetches them, and the user's memory is accessed in order."""
    cdef const layout_t *L = &job.layout
    cdef int last = L.ndim - 1, i, j
    cdef int32_t n = job.n_pieces[last]
    cdef const piece_t *end = &job.pieces[last][n - 1]
    if n < ROWS_CHUNKS or job.step[last] != 1 or (
            (end.position + end.count) * L.itemsize < n * ROWS_BYTES):
        return False
    for i in range(L.ndim):
        j = L.fast_to_slow[i]
        if j != last and job.pieces[j][0].count > 1:
            return L.stride[j] * job.step[j] <= ROWS_APART
    return True


cdef int run_rows(const job_t *job, worker_t *w, const int *low, const int *high) noexcept nogil:
    """Move the pieces low ... high - 1, by rows of chunks along the last axis."""
    cdef const layout_t *L = &job.layout
    cdef const axial_t *A = job.axial
    cdef int ndim = L.ndim, last = ndim - 1, j, n, q, failure
    cdef int p[MAX_NDIM]
    cdef index_t stride[MAX_NDIM]
    cdef index_t count[MAX_NDIM]
    cdef index_t start[MAX_NDIM]
    cdef char *chunk[ROW_PIECES]
    cdef index_t length[ROW_PIECES]
    cdef index_t at, user, address
    cdef uint64_t base = 0          # intermediate sums may exceed 63 bits
    cdef int32_t outer_owner, owner, previous
    cdef const piece_t *piece
    cdef const index_t *c = NULL
    cdef bint firsts_differ = job.write and L.touched != NULL and (L.sparse or w.is_direct)
    for j in range(ndim):
        p[j] = low[j]
        stride[j] = L.stride[j] * job.step[j]
    while True:
        at = user = 0
        outer_owner = 0
        for j in range(last):
            piece = &job.pieces[j][p[j]]
            at += piece.first * L.stride[j]
            user += piece.position * job.user_stride[j]
            count[j] = piece.count
            start[j] = piece.first
            outer_owner = max(outer_owner, piece.segment)
        previous = -1
        q = low[last]
        while q < high[last]:
            n = 0
            while q + n < high[last] and n < ROW_PIECES:
                piece = &job.pieces[last][q + n]
                owner = max(outer_owner, piece.segment)
                if owner != previous:
                    # Affine along the run of chunks with this owner.
                    c = coefficients_of(record_of(A, owner))
                    base = <uint64_t> record_of(A, owner).constant
                    for j in range(last):
                        base += <uint64_t> c[j] * <uint64_t> job.pieces[j][p[j]].chunk
                    previous = owner
                address = <index_t> (base + <uint64_t> c[last] * <uint64_t> piece.chunk)
                if firsts_differ and not touched_get(L.touched, address):
                    # A first write has its own path: it ends the group, or is one alone.
                    if n == 0:
                        count[last] = piece.count
                        start[last] = piece.first
                        failure = transfer_part(
                            job, w, address, at + piece.first * L.itemsize,
                            job.user + user + piece.position * L.itemsize, stride, start, count)
                        if failure:
                            return failure
                        q += 1
                        continue
                    break
                chunk[n] = L.base + place_of(L, address) + at + piece.first * L.itemsize
                length[n] = piece.count * L.itemsize
                n += 1
            if n:
                xa_copy_rows(
                    job.user + user + job.pieces[last][q].position * L.itemsize, job.user_stride,
                    chunk, length, n, stride, stride[last], count, last, L.itemsize, job.write,
                    job.stream)
                q += n
        j = last - 1
        while j >= 0:
            p[j] += 1
            if p[j] < high[j]:
                break
            p[j] = low[j]
            j -= 1
        if j < 0:
            return end_fresh(job, w) if w.n_fresh else 0


# -- the whole transfer --------------------------------------------------------------------------

cdef bint moves_runs(const job_t *job, const int *low) noexcept nogil:
    """Tell whether parts of chunks are mapped runs that are worth prefetching, judging by the
    first: the processor's own prefetching stops at the end of a run."""
    cdef const layout_t *L = &job.layout
    cdef index_t size = L.itemsize, count
    cdef int i, j
    if L.ndim == 0 or L.base == NULL or L.place != NULL or job.ahead != NULL:
        return False
    for i in range(L.ndim):
        j = L.fast_to_slow[i]
        count = job.pieces[j][low[j]].count
        if count > 1:
            if L.stride[j] * job.step[j] != size:
                return False
            size *= count
    return size >= LEAST_ASKED


cdef int run(const job_t *job, const int *low, const int *high) noexcept nogil:
    """Run the pieces low ... high - 1 of a job, or (`low` NULL) all of it.  Return 0 or an errno.
    """
    cdef const layout_t *L = &job.layout
    cdef const axial_t *A = job.axial
    cdef int ndim = L.ndim, j, failure = 0
    cdef int zeros[MAX_NDIM]
    cdef int run_low[MAX_NDIM]
    cdef int run_high[MAX_NDIM]
    cdef int p[MAX_NDIM]
    cdef index_t stride[MAX_NDIM]
    cdef index_t count[MAX_NDIM]
    cdef index_t start[MAX_NDIM]
    cdef uint64_t address[MAX_NDIM + 1]     # intermediate sums may exceed 63 bits
    cdef index_t at[MAX_NDIM + 1]
    cdef index_t user[MAX_NDIM + 1]
    cdef const piece_t *piece
    cdef const index_t *coefficient
    cdef int32_t owner
    cdef index_t following
    cdef bint asks
    cdef worker_t w
    w.stage = NULL
    w.stage_bytes = 0
    w.n_fresh = 0
    w.is_direct = goes_direct(job)
    if low == NULL:
        for j in range(ndim):
            zeros[j] = 0
        low = zeros
        high = &job.n_pieces[0]
    for j in range(ndim):
        if low[j] >= high[j]:
            return 0
        stride[j] = L.stride[j] * job.step[j]
        run_low[j] = low[j]
        run_high[j] = min(job.pieces[j][low[j]].run_end, high[j])
    if goes_by_rows(job):
        failure = run_rows(job, &w, low, high)
        free(w.stage)
        if job.stream:
            xa_stream_end()
        return failure
    asks = moves_runs(job, low)
    while True:
        # A box of chunks with one owner, in which addresses are affine.
        owner = 0
        for j in range(ndim):
            owner = max(owner, job.pieces[j][run_low[j]].segment)
            p[j] = run_low[j]
        coefficient = coefficients_of(record_of(A, owner))
        address[0] = <uint64_t> record_of(A, owner).constant
        at[0] = 0
        user[0] = 0
        j = 0
        while True:
            while j < ndim:
                piece = &job.pieces[j][p[j]]
                address[j + 1] = address[j] + <uint64_t> coefficient[j] * <uint64_t> piece.chunk
                at[j + 1] = at[j] + piece.first * L.stride[j]
                user[j + 1] = user[j] + piece.position * job.user_stride[j]
                count[j] = piece.count
                start[j] = piece.first
                j += 1
            if asks and p[ndim - 1] + 1 < run_high[ndim - 1]:
                piece = &job.pieces[ndim - 1][p[ndim - 1] + 1]
                following = <index_t> (
                    address[ndim - 1] + <uint64_t> coefficient[ndim - 1] * <uint64_t> piece.chunk)
                xa_ask_run(
                    L.base + place_of(L, following) + at[ndim - 1]
                    + piece.first * L.stride[ndim - 1], LEAST_ASKED)
            failure = transfer_part(
                job, &w, <index_t> address[ndim], at[ndim], job.user + user[ndim], stride, start, count)
            if failure:
                break
            j -= 1
            while j >= 0:
                p[j] += 1
                if p[j] < run_high[j]:
                    break
                p[j] = run_low[j]
                j -= 1
            if j < 0:
                break
        if failure:
            break
        j = ndim - 1
        while j >= 0:
            run_low[j] = run_high[j]
            if run_low[j] < high[j]:
                run_high[j] = min(job.pieces[j][run_low[j]].run_end, high[j])
                break
            run_low[j] = low[j]
            run_high[j] = min(job.pieces[j][low[j]].run_end, high[j])
            j -= 1
        if j < 0:
            break
    if failure == 0 and w.n_fresh:
        failure = end_fresh(job, &w)
    free(w.stage)
    if job.stream:
        xa_stream_end()
    return failure
