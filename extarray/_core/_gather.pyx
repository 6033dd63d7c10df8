"""Queries: elements selected by points, masks and progressions, moved chunk by chunk.

A query is the outer product of factors.  A factor selects points on some axes of the array: an
arithmetic progression on one axis (a slice), a list of points on any number of axes (arrays of
indices, each point one index an axis), or the true places of a mask.  NumPy's advanced indexing is
one list and some progressions, orthogonal indexing a list an axis, pointwise indexing one list.

Each factor is sorted into parts, one for each chunk that it meets, stably: of elements that are
selected twice the last one stays last.  A combination of parts is a visit to one chunk; visits are
made in the order of addresses, each chunk once, and by any number of threads.  In a visit the
factors become loops, and the innermost one a block copy or a walk along a list.

Writes touch the bytes of the elements selected, or of one field of them, and no others.
"""

from libc.errno cimport ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

cimport numpy as cnp

from ._axial cimport Axial, address_of, extent_of, segment_of
from ._copy cimport (
    GAP_BYTES, GAP_FACTOR, PIECE, THROUGH_FILE, copy_block, cut, end_stream, layout_t, most_pieces,
    piece_t, reach, read_bytes, stage_of, worker_t, write_bytes,
)
from ._types cimport MAX_NDIM, index_t

from extarray.errors import BoundsError, SelectionError

cnp.import_array()

cdef extern from "_gather.h":
    ctypedef struct divisor_t "xa_divisor":
        pass
    enum:
        XA_BLOCK
    void *xa_table(size_t n, size_t size) noexcept nogil
    divisor_t xa_make_divisor(int64_t by, int64_t most) noexcept nogil
    int xa_locate(const char *index, int64_t step, int64_t n, int64_t extent, int64_t offset, divisor_t d,
                  int64_t grid, int64_t unit, int64_t *key, entry_t *entry) noexcept nogil
    int xa_sort(int64_t **keys, entry_t **entries, int64_t n, int bits) noexcept nogil
    int64_t xa_count(const uint8_t *mask, int64_t step, int64_t n) noexcept nogil
    entry_t *xa_select(const uint8_t *mask, int64_t step, int64_t n, int64_t at, int64_t unit,
                       int64_t user, int64_t user_step, entry_t *entry) noexcept nogil
    void xa_ask(const uint8_t *row, int64_t step, int64_t n) noexcept nogil
    void xa_move(char *chunk, char *user, const entry_t *e, int64_t n, int64_t size,
                 int write) noexcept nogil
    void xa_move_placed(char *chunk, char *user, const entry_t *e, int64_t n, int64_t size,
                        int write, const int64_t *place, int64_t pitch) noexcept nogil

cdef enum:
    MAX_DIMS = 64               # of an array of indices
    ROWS_AHEAD = 8              # of a mask
    FEW_CALLS = 8               # so few items of a chunk are read or written one by one
    OUT_OF_BOUNDS = -2          # what a failure is that is none of memory


cdef int bit_length(index_t n) noexcept nogil:
    cdef int bits = 0
    while n:
        n >>= 1
        bits += 1
    return bits


cdef void *allocate(size_t n, size_t size) except NULL:
    cdef void *memory = xa_table(n, size)
    if memory == NULL:
        raise MemoryError(f"no memory for the {n * size} bytes of a query's tables")
    return memory


# -- factors -------------------------------------------------------------------------------------

cdef class Plan:
    """A query made ready to be run; owns the tables, and pins the axial vectors.

    Parameters
    ----------
    axial : Axial
        Of the array.
    """

    def __init__(self, Axial axial not None):
        axial.pin(&self.query.axial)
        self.pinned = axial

    def __dealloc__(self):
        cdef int f
        if self.pinned is not None:
            self.pinned.unpin()
        for f in range(self.query.n_factors):
            free(self.query.factor[f].parts)
            free(self.query.factor[f].chunk)
            free(self.query.factor[f].entries)
        free(self.query.address)
        free(self.query.visit)

    cdef factor_t *_new_factor(self, index_t n_axes) except NULL:
        cdef factor_t *f = &self.query.factor[self.query.n_factors]
        memset(f, 0, sizeof(factor_t))
        f.n_axes = n_axes
        self.query.n_factors += 1
        return f

    def add_progression(
        self, int axis, index_t start, index_t step, index_t count, index_t user_step
    ):
        """Add the indices `start`, `start + step`, ... of an axis; a negative step runs backwards.

        Parameters
        ----------
        axis, start, step, count : int
        user_step : int
            Bytes in the user's memory from one to the next.
        """
        cdef query_t *q = &self.query
        cdef factor_t *f = self._new_factor(1)
        cdef index_t chunk = q.layout.chunk[axis], most, i
        cdef piece_t *pieces
        if count <= 1:
            step = 1            # a lone index may come with any step
        elif step < 0:
            # Forwards through the chunks, backwards through the user's memory.
            start += (count - 1) * step
            step = -step
            q.user += (count - 1) * user_step
            user_step = -user_step
        most = most_pieces(step, count, chunk)
        f.axis[0] = axis
        f.unit = q.unit[axis]
        f.at_step = step * q.unit[axis] if step < chunk else 0
        f.user_step = user_step
        f.parts = <part_t *> allocate(most, sizeof(part_t))
        f.chunk = <index_t *> allocate(most, sizeof(index_t))
        pieces = <piece_t *> allocate(most, sizeof(piece_t))
        with nogil:
            f.n_parts = cut(&q.axial, &q.layout, axis, start, step, count, pieces)
            for i in range(f.n_parts):
                f.chunk[i] = pieces[i].chunk
                f.parts[i].first = pieces[i].first * q.unit[axis]
                f.parts[i].count = pieces[i].count
                f.parts[i].user = pieces[i].position * user_step
                f.parts[i].segment = pieces[i].segment
        free(pieces)

    def add_points(self, tuple axes not None, tuple indices not None, tuple user_steps not None):
        """Add points: the i-th of each array of indices, in C order, is a point on the axes.

        Parameters
        ----------
        axes : tuple of int
        indices : tuple of ndarray of intp
            One for each axis, of one shape, with one element at least, and every index in
            [-extent, extent) of its axis.
        user_steps : tuple of int
            Bytes in the user's memory from point to point, along each dimension of the arrays.

        Raises
        ------
        BoundsError
            An IndexError: an index is out of bounds, and was not when they were checked.
        """
        cdef query_t *q = &self.query
        cdef factor_t *f = self._new_factor(len(axes))
        cdef points_t points
        cdef cnp.ndarray index
        cdef int a, d, failure
        points.ndim = len(user_steps)
        points.n = 1
        for d in range(points.ndim):
            points.count[d] = (<cnp.ndarray> indices[0]).shape[d]
            points.user_step[d] = user_steps[d]
            points.n *= points.count[d]
        f.unit = q.layout.chunk_bytes
        for a in range(f.n_axes):
            f.axis[a] = axes[a]
            f.unit = min(f.unit, q.unit[f.axis[a]])
            index = indices[a]
            points.data[a] = index.data
            for d in range(points.ndim):
                points.step[a][d] = index.strides[d]
        merge_dims(&points, f.n_axes)
        with nogil:
            failure = sort_points(q, f, &points)
        if failure == OUT_OF_BOUNDS:
            raise BoundsError("an array of indices changed while it was used, to one out of bounds")
        if failure:
            raise MemoryError(f"no memory for the tables of {points.n} points")

    def add_mask(
        self, int axis, tuple origin not None, cnp.ndarray mask not None, index_t count,
        index_t user_step
    ):
        """Add the true places of a mask, in C order.

        Parameters
        ----------
        axis : int
            The first of the axes that the mask lies on.
        origin : tuple of int
            Index of its first element, on each of these axes.
        mask : ndarray of bool
            Of one axis at least, and of nobody who may change it meanwhile: it is read twice.
        count : int
            Its true places, for which the user's memory has room.
        user_step : int
            Bytes in the user's memory from one true place to the next.

        Raises
        ------
        SelectionError
            An IndexError: there are more or fewer true places.
        """
        cdef query_t *q = &self.query
        cdef factor_t *f = self._new_factor(mask.ndim)
        cdef mask_t m
        cdef index_t most = 1, sum = 0, rows = 1, found
        cdef int d, failure
        cdef piece_t *pieces
        m.ndim = mask.ndim
        m.data = <const uint8_t *> mask.data
        m.user_step = user_step
        f.unit = q.layout.chunk_bytes
        for d in range(m.ndim):
            f.axis[d] = axis + d
            f.unit = min(f.unit, q.unit[axis + d])
            m.step[d] = mask.strides[d]
            m.count[d] = mask.shape[d]
            m.n_pieces[d] = most_pieces(1, m.count[d], q.layout.chunk[axis + d])
            sum += m.n_pieces[d]
            most *= m.n_pieces[d]
            if d < m.ndim - 1:
                rows *= m.count[d]
        f.parts = <part_t *> allocate(most, sizeof(part_t))
        f.chunk = <index_t *> allocate(most, m.ndim * sizeof(index_t))
        m.pieces[0] = pieces = <piece_t *> allocate(sum, sizeof(piece_t))
        m.rank = NULL
        try:
            m.rank = <index_t *> allocate(rows * m.n_pieces[m.ndim - 1], sizeof(index_t))
            for d in range(m.ndim):
                m.pieces[d] = pieces
                m.n_pieces[d] = cut(
                    &q.axial, &q.layout, axis + d, origin[d], 1, m.count[d], pieces)
                pieces += m.n_pieces[d]
            with nogil:
                found = rank_rows(&m)
                failure = list_mask(q, f, &m, found) if found == count else 0
        finally:
            free(m.pieces[0])
            free(m.rank)
        if found != count:
            raise SelectionError(
                f"a mask changed while it was used: {count} of its elements were true, now {found}")
        if failure:
            raise MemoryError("no memory for the tables of a mask")

    # -- visits ------------------------------------------------------------------------------

    cdef index_t n_combinations(self):
        """Number of combinations of parts, one visit each."""
        cdef index_t n = 1
        cdef int f
        for f in range(self.query.n_factors):
            n *= self.query.factor[f].n_parts
        return n

    cdef int look_up(self, index_t first, index_t stop) except -1:
        """Look up the addresses of the combinations first ... stop - 1, and sort them."""
        cdef query_t *q = &self.query
        cdef int failure
        if q.address == NULL:
            q.address = <index_t *> allocate(stop - first, sizeof(index_t))
            q.visit = <entry_t *> allocate(stop - first, sizeof(entry_t))
        q.n_visits = stop - first
        with nogil:
            failure = sort_visits(q, first)
        if failure:
            raise MemoryError(f"no memory for {q.n_visits} visits to chunks")
        return 0


# -- points --------------------------------------------------------------------------------------

cdef struct points_t:
    int ndim
    index_t n
    index_t count[MAX_DIMS]
    index_t user_step[MAX_DIMS]
    const char *data[MAX_NDIM]
    index_t step[MAX_NDIM][MAX_DIMS]


cdef void merge_dims(points_t *p, int n_axes) noexcept nogil:
    """Leave out dimensions of one point, and make one of those that run on in every array."""
    cdef int d, a, k = 0
    cdef bint runs_on
    for d in range(p.ndim):
        if p.count[d] == 1:
            continue
        runs_on = k > 0 and p.user_step[k - 1] == p.count[d] * p.user_step[d]
        for a in range(n_axes):
            runs_on = runs_on and p.step[a][k - 1] == p.count[d] * p.step[a][d]
        if runs_on:
            p.count[k - 1] *= p.count[d]
        else:
            p.count[k] = p.count[d]
            k += 1
        p.user_step[k - 1] = p.user_step[d]
        for a in range(n_axes):
            p.step[a][k - 1] = p.step[a][d]
    if k == 0:
        p.count[0] = 1
        p.user_step[0] = 0
        for a in range(n_axes):
            p.step[a][0] = 0
        k = 1
    p.ndim = k


cdef int sort_points(query_t *q, factor_t *f, const points_t *p) noexcept nogil:
    """Make the list of a factor, and its parts.  Returns 0, OUT_OF_BOUNDS, or -1: no memory."""
    cdef int64_t *key = <int64_t *> xa_table(p.n, sizeof(int64_t))
    cdef index_t cells = 1
    cdef int a
    f.entries = <entry_t *> xa_table(p.n, sizeof(entry_t))
    for a in range(f.n_axes):
        cells *= extent_of(&q.axial, f.axis[a])
    if key == NULL or f.entries == NULL:
        free(key)
        return -1
    if locate_points(q, f, p, key):
        free(key)
        return OUT_OF_BOUNDS
    if xa_sort(&key, &f.entries, p.n, bit_length(cells - 1)) < 0 or make_parts(q, f, key, p.n) < 0:
        free(key)
        return -1
    free(key)
    return 0


cdef bint locate_points(const query_t *q, factor_t *f, const points_t *p, int64_t *key) noexcept nogil:
    """Chunks (row-major numbers on the axes of the factor) and places of all points.

    Returns whether an index is out of bounds.
    """
    cdef divisor_t divisor[MAX_NDIM]
    cdef index_t grid[MAX_NDIM]
    cdef index_t extent[MAX_NDIM]
    cdef index_t offset[MAX_NDIM]
    cdef const char *data[MAX_NDIM]
    cdef index_t at[MAX_DIMS]
    cdef index_t user = 0, done, n, i
    cdef int a, d, last = p.ndim - 1, wrong = 0
    cdef entry_t *entry = f.entries
    for a in range(f.n_axes):
        grid[a] = extent_of(&q.axial, f.axis[a])
        extent[a] = q.extent[f.axis[a]]
        offset[a] = q.layout.offset[f.axis[a]]
        divisor[a] = xa_make_divisor(q.layout.chunk[f.axis[a]], extent[a] + offset[a])
        data[a] = p.data[a]
    for d in range(p.ndim):
        at[d] = 0
    while True:
        done = 0
        while done < p.count[last]:
            n = min(<index_t> XA_BLOCK, p.count[last] - done)
            for i in range(n):
                key[i] = 0
                entry[i].at = 0
                entry[i].user = user + (done + i) * p.user_step[last]
            for a in range(f.n_axes):
                wrong |= xa_locate(
                    data[a] + done * p.step[a][last], p.step[a][last], n, extent[a],
                    offset[a], divisor[a], grid[a], q.unit[f.axis[a]], key, entry)
            key += n
            entry += n
            done += n
        d = last - 1
        while d >= 0:
            at[d] += 1
            user += p.user_step[d]
            for a in range(f.n_axes):
                data[a] += p.step[a][d]
            if at[d] < p.count[d]:
                break
            user -= p.count[d] * p.user_step[d]
            for a in range(f.n_axes):
                data[a] -= p.count[d] * p.step[a][d]
            at[d] = 0
            d -= 1
        if d < 0:
            return wrong


cdef int make_parts(const query_t *q, factor_t *f, const int64_t *key, index_t n) noexcept nogil:
    """Parts of a sorted list, one for each key."""
    cdef index_t i, m = 1, rest, extent
    cdef part_t *part
    cdef index_t *chunk
    cdef int a
    for i in range(1, n):
        m += key[i] != key[i - 1]
    f.n_parts = m
    f.parts = part = <part_t *> xa_table(m, sizeof(part_t))
    f.chunk = chunk = <index_t *> xa_table(m * f.n_axes, sizeof(index_t))
    if part == NULL or chunk == NULL:
        return -1
    i = 0
    while i < n:
        part.first = i
        part.count = 1
        part.user = 0
        while i + part.count < n and key[i + part.count] == key[i]:
            part.count += 1
        rest = key[i]
        for a in range(f.n_axes - 1, -1, -1):
            extent = extent_of(&q.axial, f.axis[a])
            chunk[a] = rest % extent + q.layout.low[f.axis[a]]
            rest //= extent
        part.segment = latest_segment(q, f, chunk)
        i += part.count
        part += 1
        chunk += f.n_axes
    return 0


cdef int32_t latest_segment(const query_t *q, const factor_t *f, const index_t *chunk) noexcept nogil:
    cdef int32_t latest = 0
    cdef int a
    for a in range(f.n_axes):
        latest = max(latest, segment_of(&q.axial, f.axis[a], chunk[a]))
    return latest


# -- masks ---------------------------------------------------------------------------------------

cdef struct mask_t:
    int ndim
    const uint8_t *data
    index_t count[MAX_NDIM]
    index_t step[MAX_NDIM]
    index_t user_step
    piece_t *pieces[MAX_NDIM]
    index_t n_pieces[MAX_NDIM]
    index_t *rank               # (rows, pieces of the last axis): true places before, in C order


cdef index_t rank_rows(const mask_t *m) noexcept nogil:
    """Fill the ranks; returns the number of true places."""
    cdef int d, last = m.ndim - 1
    cdef index_t at[MAX_NDIM]
    cdef index_t total = 0, i
    cdef const uint8_t *row = m.data
    cdef const piece_t *piece
    cdef index_t *rank = m.rank
    for d in range(last):
        at[d] = 0
    while True:
        for i in range(m.n_pieces[last]):
            piece = &m.pieces[last][i]
            rank[i] = total
            total += xa_count(row + piece.position * m.step[last], m.step[last], piece.count)
        rank += m.n_pieces[last]
        d = last - 1
        while d >= 0:
            at[d] += 1
            row += m.step[d]
            if at[d] < m.count[d]:
                break
            row -= m.count[d] * m.step[d]
            at[d] = 0
            d -= 1
        if d < 0:
            return total


cdef int list_mask(query_t *q, factor_t *f, const mask_t *m, index_t count) noexcept nogil:
    """Make the list of a factor, of so many entries, and its parts, chunk by chunk."""
    cdef int d, last = m.ndim - 1
    cdef index_t p[MAX_NDIM]
    cdef index_t *chunk = f.chunk
    cdef part_t *part = f.parts
    cdef entry_t *entry
    # One entry more: the loop that writes them stores before it counts.
    f.entries = entry = <entry_t *> xa_table(count + 1, sizeof(entry_t))
    if entry == NULL:
        return -1
    for d in range(m.ndim):
        p[d] = 0
    while True:
        part.first = entry - f.entries
        entry = list_piece(q, f, m, p, entry)
        part.count = entry - f.entries - part.first
        if part.count:
            part.user = 0
            for d in range(m.ndim):
                chunk[d] = m.pieces[d][p[d]].chunk
            part.segment = latest_segment(q, f, chunk)
            part += 1
            chunk += m.ndim
        d = last
        while d >= 0:
            p[d] += 1
            if p[d] < m.n_pieces[d]:
                break
            p[d] = 0
            d -= 1
        if d < 0:
            break
    f.n_parts = part - f.parts
    return 0


cdef entry_t *list_piece(
    const query_t *q, const factor_t *f, const mask_t *m, const index_t *p, entry_t *entry
) noexcept nogil:
    """Append the true places of the part of a mask that lies in one chunk."""
    cdef int d, last = m.ndim - 1
    cdef index_t i[MAX_NDIM]
    cdef index_t at = 0, row = 0, rows = 1, unit = q.unit[f.axis[last]]
    cdef index_t row_step[MAX_NDIM]
    cdef const uint8_t *data = m.data
    cdef const piece_t *piece
    for d in range(last, -1, -1):
        piece = &m.pieces[d][p[d]]
        i[d] = 0
        at += piece.first * q.unit[f.axis[d]]
        data += piece.position * m.step[d]
        if d < last:
            row_step[d] = rows
            row += piece.position * rows
            rows *= m.count[d]
    piece = &m.pieces[last][p[last]]
    while True:
        if last > 0:
            xa_ask(data + ROWS_AHEAD * m.step[last - 1], m.step[last], piece.count)
        entry = xa_select(
            data, m.step[last], piece.count, at, unit,
            m.rank[row * m.n_pieces[last] + p[last]] * m.user_step, m.user_step, entry)
        d = last - 1
        while d >= 0:
            i[d] += 1
            at += q.unit[f.axis[d]]
            data += m.step[d]
            row += row_step[d]
            if i[d] < m.pieces[d][p[d]].count:
                break
            at -= i[d] * q.unit[f.axis[d]]
            data -= i[d] * m.step[d]
            row -= i[d] * row_step[d]
            i[d] = 0
            d -= 1
        if d < 0:
            return entry


# -- visits --------------------------------------------------------------------------------------

cdef void decode(const query_t *q, index_t number, index_t *chosen) noexcept nogil:
    """The part of each factor in a combination."""
    cdef int k
    for k in range(q.n_factors - 1, -1, -1):
        chosen[k] = number % q.factor[k].n_parts
        number //= q.factor[k].n_parts


cdef int sort_visits(query_t *q, index_t first) noexcept nogil:
    """Visits of the combinations from number `first` on, by address."""
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
        q.visit[i].at = first + i
        most = max(most, q.address[i])
    return xa_sort(&q.address, &q.visit, q.n_visits, bit_length(most))


# One factor of a visit: a list, or (entries NULL) a progression.
cdef struct loop_t:
    index_t count
    index_t at_step, user_step
    const entry_t *entries
    index_t unit


cdef enum item_t:
    BLOCK                       # a strided block
    LIST                        # a list of places in bytes
    PLACED                      # a list of places in elements, through the table
    MARK                        # note which elements there are; nothing moves
    CALL                        # a system call


# What is done in one chunk: `depth` nested loops, and one item inside the innermost.
cdef struct visit_t:
    const query_t *query
    int depth
    loop_t loop[MAX_NDIM]
    item_t kind
    index_t size                # bytes that are moved at once
    char *chunk                 # memory of the chunk, or of the part of it that is staged
    index_t place_in_file       # of the chunk
    uint8_t *marks
    const entry_t *entries      # LIST, PLACED
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
                       v.block_ndim, v.size, False)
        else:
            copy_block(user, v.block_user_step, v.chunk + at, v.block_at_step, v.block_count,
                       v.block_ndim, v.size, q.stream)
        return 0
    if v.kind == LIST:
        xa_move(v.chunk + at, user, v.entries, v.n_entries, v.size, q.write)
        return 0
    if v.kind == PLACED:
        xa_move_placed(v.chunk, user, v.entries, v.n_entries, v.size, q.write, L.place + at, L.itemsize)
        return 0
    place = at if L.place == NULL else L.place[at] * L.itemsize
    if v.kind == MARK:
        memset(v.marks + place // L.itemsize, 1, max(v.size // L.itemsize, <index_t> 1))
        return 0
    if q.write:
        return write_bytes(L.fd, user, v.size, v.place_in_file + q.offset + place)
    return read_bytes(L.fd, user, v.size, v.place_in_file + q.offset + place)


cdef int do_loops(const visit_t *v, int level, index_t at, char *user) noexcept nogil:
    cdef const loop_t *loop = &v.loop[level]
    cdef index_t i
    cdef int failure = 0
    if level == v.depth:
        return do_item(v, at, user)
    for i in range(loop.count):
        if loop.entries != NULL:
            failure = do_loops(v, level + 1, at + loop.entries[i].at, user + loop.entries[i].user)
        else:
            failure = do_loops(v, level + 1, at + i * loop.at_step, user + i * loop.user_step)
        if failure:
            break
    return failure


cdef int visit(const query_t *q, worker_t *w, index_t address, index_t number) noexcept nogil:
    """Move what a combination of parts selects in its chunk."""
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
    v.size = q.size
    v.place_in_file = address * L.chunk_bytes
    decode(q, number, chosen)
    for k in range(q.n_factors):
        f = &q.factor[k]
        part = &f.parts[chosen[k]]
        loop = &v.loop[v.depth]
        loop.count = part.count
        loop.unit = f.unit
        if f.entries != NULL:
            loop.entries = f.entries + part.first
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
    failure = reach(L, address, q.write)
    if failure == 0:
        v.chunk = L.base + v.place_in_file + q.offset
        return through_memory(&v, at, user)
    if failure == THROUGH_FILE:
        return through_file(&v, w, at, user)
    return failure


cdef void drop_loop(visit_t *v, int k) noexcept nogil:
    v.depth -= 1
    while k < v.depth:
        v.loop[k] = v.loop[k + 1]
        k += 1


cdef void join_runs(visit_t *v) noexcept nogil:
    """Elements that follow each other on both sides are moved as one."""
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
    """Move a part of a chunk that is in memory: choose what goes innermost."""
    cdef const query_t *q = v.query
    cdef const layout_t *L = &q.layout
    cdef int k, list = -1, nearest = -1, m = 0
    cdef entry_t one
    cdef entry_t *expanded = NULL
    cdef index_t i
    cdef int failure
    for k in range(v.depth):
        if v.loop[k].entries == NULL:
            if nearest < 0 or v.loop[k].at_step < v.loop[nearest].at_step:
                nearest = k
        elif list < 0 or v.loop[k].unit < v.loop[list].unit:
            list = k
    v.kind = LIST if L.place == NULL else PLACED
    one.at = one.user = 0
    v.entries = &one
    v.n_entries = 1
    if L.place == NULL and nearest >= 0 and (
        list < 0 or v.loop[nearest].at_step <= v.loop[list].unit
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
            # Joined elements are an axis again: as such they may go past the caches.
            v.block_count[m] = v.size // q.size
            v.block_at_step[m] = v.block_user_step[m] = v.size = q.size
            m += 1
        v.block_ndim = m
    elif list >= 0:
        v.entries = v.loop[list].entries
        v.n_entries = v.loop[list].count
        drop_loop(v, list)
    elif nearest >= 0:
        v.n_entries = v.loop[nearest].count
        v.entries = expanded = <entry_t *> xa_table(v.n_entries, sizeof(entry_t))
        if expanded == NULL:
            return ENOMEM
        for i in range(v.n_entries):
            expanded[i].at = i * v.loop[nearest].at_step
            expanded[i].user = i * v.loop[nearest].user_step
        drop_loop(v, nearest)
    failure = do_loops(v, 0, at, user)
    free(expanded)
    return failure


# -- through the file ----------------------------------------------------------------------------

cdef void reach_of(const visit_t *v, index_t *low, index_t *high) noexcept nogil:
    """Bytes of the chunk, counted from the place of the loops' start, that hold all elements."""
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
        least = most = loop.entries[0].at
        for i in range(1, loop.count):
            least = min(least, loop.entries[i].at)
            most = max(most, loop.entries[i].at)
        low[0] += least
        high[0] += most


cdef int through_file(visit_t *v, worker_t *w, index_t at, char *user) noexcept nogil:
    """Move a part of a chunk by pread and pwrite."""
    cdef const query_t *q = v.query
    cdef const layout_t *L = &q.layout
    cdef index_t items = 1, low, high, span
    cdef int k, failure
    cdef bint dense
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
    if items <= FEW_CALLS or span > q.stage_limit or (q.write and q.size != L.itemsize):
        v.kind = CALL
        return do_loops(v, 0, at, user)
    v.chunk = stage_of(w, span)
    if v.chunk == NULL:
        return ENOMEM
    if L.place == NULL:
        at -= low
    v.place_in_file += low
    dense = span <= GAP_BYTES or span <= GAP_FACTOR * items * v.size
    if dense and not q.write:
        failure = read_bytes(L.fd, v.chunk, span, v.place_in_file)
        if failure:
            return failure
        v.chunk += q.offset
        return through_memory(v, at, user)
    v.marks = <uint8_t *> calloc(span // L.itemsize + 1, 1)
    if v.marks == NULL:
        return ENOMEM
    v.kind = MARK
    do_loops(v, 0, at, user)
    if q.write:
        # Only the bytes of the elements given may be written: run by run of them.
        failure = through_memory(v, at, user)
        if failure == 0:
            failure = move_runs(v, span // L.itemsize, 0)
    else:
        failure = move_runs(v, span // L.itemsize, GAP_BYTES // L.itemsize)
        if failure == 0:
            v.chunk += q.offset
            failure = through_memory(v, at, user)
    free(v.marks)
    return failure


cdef int move_runs(const visit_t *v, index_t n, index_t gap) noexcept nogil:
    """Read or write the runs of marked elements; runs at most `gap` elements apart are one."""
    cdef const query_t *q = v.query
    cdef index_t size = q.layout.itemsize, first = 0, stop, i, most = max(PIECE // size, <index_t> 1)
    cdef int failure = 0
    while failure == 0:
        while first < n and not v.marks[first]:
            first += 1
        if first == n:
            break
        stop = i = first + 1
        while i < n and i - stop <= gap:
            i += 1
            if v.marks[i - 1]:
                stop = i
        if q.write:
            stop = min(stop, first + most)
            failure = write_bytes(
                q.layout.fd, v.chunk + first * size, (stop - first) * size, v.place_in_file + first * size)
        else:
            failure = read_bytes(
                q.layout.fd, v.chunk + first * size, (stop - first) * size, v.place_in_file + first * size)
        first = stop
    return failure


cdef int run_visits(const query_t *q, index_t first, index_t stop) noexcept nogil:
    """Make the visits first ... stop - 1.  Returns 0 or an errno."""
    cdef worker_t w
    cdef index_t i
    cdef int failure = 0
    w.stage = NULL
    w.stage_bytes = 0
    for i in range(first, stop):
        failure = visit(q, &w, q.address[i], q.visit[i].at)
        if failure:
            break
    free(w.stage)
    if q.stream:
        end_stream()
    return failure
