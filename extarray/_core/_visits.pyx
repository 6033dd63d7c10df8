"""Visits of a query to chunks: move the elements that one combination of parts selects there.

In a visit the factors become loops, and the innermost becomes a block copy or a walk along a list:
in memory, or by pread and pwrite.  Writes touch only the bytes of the selected elements, or of one
field of them; only a writer with leave also writes back the bytes between them.
"""

from libc.errno cimport ENOMEM
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from ._file cimport ask_for
from ._vectors cimport address_of
from ._copy cimport (
    GAP_FACTOR, SIEVE_BYTES, THROUGH_FILE, copy_block, end_stream, layout_t, move_bytes, move_marked,
    place_in_file, place_of, reach, stage_of, worker_t,
)
from ._system cimport lock_chunk, sieving_is_over, unlock_chunk
from ._types cimport MAX_NDIM, index_t

cdef extern from "_gather.h":
    int64_t xa_place_of(const list_t *l, uint64_t entry) noexcept nogil
    int64_t xa_user_of(const list_t *l, uint64_t entry) noexcept nogil
    void *xa_table(size_t n, size_t size) noexcept nogil
    int xa_sort(int64_t **keys, uint64_t **entries, int64_t n, int bits) noexcept nogil
    void xa_move(char *chunk, char *user, const list_t *l, const uint64_t *entry, int64_t n,
                 int64_t size, int write, int sparse, int stream) noexcept nogil
    void xa_move_placed(char *chunk, char *user, const list_t *l, const uint64_t *entry, int64_t n,
                        int64_t size, int write, const int64_t *table, int64_t pitch) noexcept nogil

cdef enum:
    LINE = 64                   # bytes of a cache line of the processor
    FEW_CALLS = 8               # up to this many items of a chunk are read or written singly


cdef void decode(const query_t *q, index_t number, index_t *chosen) noexcept nogil:
    """Find the part of each factor in a combination."""
    cdef int k
    for k in range(q.n_factors - 1, -1, -1):
        chosen[k] = number % q.factor[k].n_parts
        number //= q.factor[k].n_parts


cdef int sort_visits(query_t *q, index_t first) noexcept nogil:
    """Sort visits of the combinations from number `first` on, by address."""
    cdef index_t i, most = 0
    cdef index_t chosen[MAX_NDIM]
    cdef index_t chunk[MAX_NDIM]
    cdef const factor_t *f
    cdef int k, a
    for i in range(q.n_visits):
        decode(q, first + i, chosen)
        for k in range(q.n_factors):
            f = &q.factor[k]
            for a in range(f.n_axes):
                chunk[f.axis[a]] = f.chunk[chosen[k] * f.n_axes + a]
        q.address[i] = address_of(&q.axial, chunk)
        q.visit[i] = first + i
        most = max(most, q.address[i])
    return xa_sort(&q.address, &q.visit, q.n_visits, bit_length(most))


# One factor of a visit: a list, or (entries NULL) a progression.
cdef struct loop_t:
    index_t count
    index_t at_step, user_step
    const uint64_t *entries
    const list_t *list


cdef enum item_t:
    BLOCK                       # a strided block
    LIST                        # a list of places in bytes
    PLACED                      # a list of places in elements, through the table
    MARK                        # mark the elements; nothing moves
    CALL                        # a system call
    ASK                         # ask the system for it; nothing moves


# The work in one chunk: `depth` nested loops, and one item inside the innermost.
cdef struct visit_t:
    const query_t *query
    int depth
    loop_t loop[MAX_NDIM]
    item_t kind
    bint stream                 # stores may bypass the caches
    index_t size                # bytes that are moved at once
    char *chunk                 # memory of the chunk, or of its staged part
    index_t offset              # place of the chunk, or of its staged part
    uint8_t *marks
    const uint64_t *entries     # LIST, PLACED
    const list_t *list
    index_t n_entries
    int block_ndim              # BLOCK
    index_t block_count[MAX_NDIM]
    index_t block_at_step[MAX_NDIM]
    index_t block_user_step[MAX_NDIM]


cdef int do_item(const visit_t *v, index_t at, char *user) noexcept nogil:
    cdef const query_t *q = v.query
    cdef const layout_t *L = &q.layout
    cdef index_t place
    if v.kind == BLOCK:
        if q.write:
            copy_block(v.chunk + at, v.block_at_step, user, v.block_user_step, v.block_count,
                       v.block_ndim, v.size, v.stream)
        else:
            copy_block(user, v.block_user_step, v.chunk + at, v.block_at_step, v.block_count,
                       v.block_ndim, v.size, v.stream)
        return 0
    if v.kind == LIST:
        xa_move(
            v.chunk + at, user, v.list, v.entries, v.n_entries, v.size, q.write,
            v.n_entries < L.chunk_bytes // LINE, v.stream)
        return 0
    if v.kind == PLACED:
        xa_move_placed(
            v.chunk, user, v.list, v.entries, v.n_entries, v.size, q.write, L.place + at, L.itemsize)
        return 0
    place = at if L.place == NULL else L.place[at] * L.itemsize
    if v.kind == ASK:
        place += L.start + v.offset + q.offset
        ask_for(q.ahead, place, place + v.size)
        return 0
    if v.kind == MARK:
        memset(v.marks + place // L.itemsize, 1, max(v.size // L.itemsize, <index_t> 1))
        return 0
    return move_bytes(L, user, v.size, v.offset + q.offset + place, q.write)


cdef int do_loops(const visit_t *v, int level, index_t at, char *user) noexcept nogil:
    cdef const loop_t *loop = &v.loop[level]
    cdef index_t i
    cdef int failure = 0
    if level == v.depth:
        return do_item(v, at, user)
    for i in range(loop.count):
        if loop.entries != NULL:
            failure = do_loops(
                v, level + 1, at + xa_place_of(loop.list, loop.entries[i]),
                user + xa_user_of(loop.list, loop.entries[i]))
        else:
            failure = do_loops(v, level + 1, at + i * loop.at_step, user + i * loop.user_step)
        if failure:
            break
    return failure


cdef int visit(const query_t *q, worker_t *w, index_t address, index_t number) noexcept nogil:
    """Move the elements that a combination of parts selects in its chunk."""
    cdef const layout_t *L = &q.layout
    cdef visit_t v
    cdef const factor_t *f
    cdef const part_t *part
    cdef loop_t *loop
    cdef index_t at = 0
    cdef index_t chosen[MAX_NDIM]
    cdef char *user = q.user
    cdef int k, failure
    v.query = q
    v.depth = 0
    v.stream = q.stream
    v.size = q.size
    v.offset = place_of(L, address)
    decode(q, number, chosen)
    for k in range(q.n_factors):
        f = &q.factor[k]
        part = &f.parts[chosen[k]]
        loop = &v.loop[v.depth]
        loop.count = part.count
        if f.entries != NULL:
            loop.entries = f.entries + part.first
            loop.list = &f.list
        else:
            at += part.first
            user += part.user
            if part.count == 1:
                continue
            loop.entries = NULL
            loop.at_step = f.at_step
            loop.user_step = f.user_step
        v.depth += 1
    join_runs(&v)
    if q.ahead != NULL:
        v.kind = ASK
        return do_loops(&v, 0, at, user)
    failure = reach(L, address, q.write)
    if failure == 0:
        v.chunk = L.base + v.offset + q.offset
        return through_memory(&v, at, user)
    if failure == THROUGH_FILE:
        if not q.write or L.sieve == NULL:
            return through_file(&v, w, at, user, False)
        lock_chunk(L.sieve, address)
        failure = through_file(&v, w, at, user, q.sieves and not sieving_is_over(L.sieve))
        unlock_chunk(L.sieve, address)
    return failure


cdef index_t place_of_visit(const query_t *q, index_t i) noexcept nogil:
    """Return the file offset of one element that a visit moves."""
    cdef const layout_t *L = &q.layout
    cdef const factor_t *f
    cdef const part_t *part
    cdef index_t at = 0
    cdef index_t chosen[MAX_NDIM]
    cdef int k
    decode(q, q.visit[i], chosen)
    for k in range(q.n_factors):
        f = &q.factor[k]
        part = &f.parts[chosen[k]]
        if f.entries != NULL:
            at += xa_place_of(&f.list, f.entries[part.first])
        else:
            at += part.first
    if L.place != NULL:
        at = L.place[at] * L.itemsize
    return place_in_file(L, q.address[i]) + at


cdef void drop_loop(visit_t *v, int k) noexcept nogil:
    v.depth -= 1
    while k < v.depth:
        v.loop[k] = v.loop[k + 1]
        k += 1


cdef void join_runs(visit_t *v) noexcept nogil:
    """Merge elements that are contiguous on both sides."""
    cdef const query_t *q = v.query
    cdef int k = 0
    if q.layout.place != NULL or q.size != q.layout.itemsize:
        return
    while k < v.depth:
        if v.loop[k].entries == NULL and v.loop[k].at_step == v.size and v.loop[k].user_step == v.size:
            v.size *= v.loop[k].count
            drop_loop(v, k)
            k = 0
        else:
            k += 1


cdef int through_memory(visit_t *v, index_t at, char *user) noexcept nogil:
    """Move a part of a chunk that is in memory: choose the innermost loop."""
    cdef const query_t *q = v.query
    cdef const layout_t *L = &q.layout
    cdef int k, finest = -1, nearest = -1, m = 0
    cdef uint64_t one = 0
    cdef uint64_t *expanded = NULL
    cdef list_t even            # of numbers that are places as well
    cdef index_t i
    cdef int failure
    for k in range(v.depth):
        if v.loop[k].entries == NULL:
            if nearest < 0 or v.loop[k].at_step < v.loop[nearest].at_step:
                nearest = k
        elif finest < 0 or v.loop[k].list.unit < v.loop[finest].list.unit:
            finest = k
    v.kind = LIST if L.place == NULL else PLACED
    memset(&even, 0, sizeof(list_t))
    even.at_mask = even.number_mask = <uint64_t> -1
    v.list = &even
    v.entries = &one
    v.n_entries = 1
    if L.place == NULL and nearest >= 0 and (
        finest < 0 or v.loop[nearest].at_step <= v.loop[finest].list.unit
    ):
        v.kind = BLOCK
        for k in range(v.depth - 1, -1, -1):
            if v.loop[k].entries == NULL:
                v.block_count[m] = v.loop[k].count
                v.block_at_step[m] = v.loop[k].at_step
                v.block_user_step[m] = v.loop[k].user_step
                m += 1
                drop_loop(v, k)
        if v.size != q.size:
            # Joined elements are an axis again: as such they may bypass the caches.
            v.block_count[m] = v.size // q.size
            v.block_at_step[m] = v.block_user_step[m] = v.size = q.size
            m += 1
        v.block_ndim = m
    elif finest >= 0:
        v.entries = v.loop[finest].entries
        v.list = v.loop[finest].list
        v.n_entries = v.loop[finest].count
        drop_loop(v, finest)
    elif nearest >= 0:
        v.n_entries = v.loop[nearest].count
        v.entries = expanded = <uint64_t *> xa_table(v.n_entries, sizeof(uint64_t))
        if expanded == NULL:
            return ENOMEM
        even.unit = v.loop[nearest].at_step
        even.user_step = v.loop[nearest].user_step
        for i in range(v.n_entries):
            expanded[i] = i
        drop_loop(v, nearest)
    failure = do_loops(v, 0, at, user)
    free(expanded)
    return failure


# -- through the file ----------------------------------------------------------------------------

cdef void reach_of(const visit_t *v, index_t *low, index_t *high) noexcept nogil:
    """Set the byte range of the chunk, relative to the loops' start, that holds all elements."""
    cdef const layout_t *L = &v.query.layout
    cdef const loop_t *loop
    cdef index_t least, most, i
    cdef int k
    low[0] = 0
    high[0] = max(v.size, L.itemsize)
    for k in range(v.depth):
        loop = &v.loop[k]
        if loop.entries == NULL:
            high[0] += (loop.count - 1) * loop.at_step
            continue
        least = most = xa_place_of(loop.list, loop.entries[0])
        for i in range(1, loop.count):
            least = min(least, xa_place_of(loop.list, loop.entries[i]))
            most = max(most, xa_place_of(loop.list, loop.entries[i]))
        low[0] += least
        high[0] += most


cdef int through_file(
    visit_t *v, worker_t *w, index_t at, char *user, bint sieves
) noexcept nogil:
    """Move a part of a chunk by pread and pwrite; with `sieves`, gaps between elements too."""
    cdef const query_t *q = v.query
    cdef const layout_t *L = &q.layout
    cdef index_t items = 1, low, high, span, n, gap
    cdef int k, failure = 0
    cdef bint dense
    cdef char *stage
    for k in range(v.depth):
        items *= v.loop[k].count
    if L.place == NULL:
        reach_of(v, &low, &high)
        low += at
        high += at
    else:
        low = 0
        high = L.chunk_bytes
    span = high - low
    if items <= FEW_CALLS or span > q.stage_limit or (
            q.write and not sieves and q.size != L.itemsize):
        v.kind = CALL
        return do_loops(v, 0, at, user)
    v.chunk = stage_of(w, span)
    if v.chunk == NULL:
        return ENOMEM
    v.stream = v.stream and not q.write     # what is staged is needed soon
    if L.place == NULL:
        at -= low
    v.offset += low
    dense = span <= q.gap or span <= GAP_FACTOR * items * v.size
    if dense and not q.write:
        failure = move_bytes(L, v.chunk, span, v.offset, False)
        if failure:
            return failure
        v.chunk += q.offset
        return through_memory(v, at, user)
    n = span // L.itemsize
    v.marks = <uint8_t *> calloc(n + 1, 1)
    if v.marks == NULL:
        return ENOMEM
    v.kind = MARK
    do_loops(v, 0, at, user)
    # If there are other writers, only the bytes of the given elements may be written.
    gap = (q.gap if not q.write else SIEVE_BYTES - 1 if sieves else 0) // L.itemsize
    stage = v.chunk
    if not q.write or sieves:
        # The rest of an element beside a field is a gap, too.
        failure = move_marked(
            L, stage, v.marks, n, v.offset, gap, False, q.write and q.size == L.itemsize)
    if failure == 0:
        v.chunk += q.offset
        failure = through_memory(v, at, user)
    if failure == 0 and q.write:
        failure = move_marked(L, stage, v.marks, n, v.offset, gap, True, False)
    free(v.marks)
    return failure


cdef int run_visits(const query_t *q, index_t first, index_t stop) noexcept nogil:
    """Make the visits first ... stop - 1.  Return 0 or an errno."""
    cdef worker_t w
    cdef index_t i
    cdef int failure = 0
    w.stage = NULL
    w.stage_bytes = 0
    for i in range(first, stop):
        failure = visit(q, &w, q.address[i], q.visit[i])
        if failure:
            break
    free(w.stage)
    if q.stream:
        end_stream()
    return failure
