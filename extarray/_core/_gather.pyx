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
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

cimport numpy as cnp

import numpy as np

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
    int64_t xa_place_of(const list_t *l, uint64_t entry) noexcept nogil
    int64_t xa_user_of(const list_t *l, uint64_t entry) noexcept nogil
    void *xa_table(size_t n, size_t size) noexcept nogil
    divisor_t xa_make_divisor(int64_t by, int64_t most) noexcept nogil
    int64_t xa_divide(int64_t v, divisor_t d) noexcept nogil
    int xa_locate(const char *index, int64_t step, int64_t n, int64_t extent, int64_t offset, divisor_t d,
                  int64_t grid, int64_t unit, int64_t *key, int64_t *at) noexcept nogil
    int xa_in_bounds(const char *index, int64_t n, int64_t extent) noexcept nogil
    void xa_pack(uint64_t *entry, const int64_t *key, const int64_t *at, int64_t n, int64_t first,
                 int shift, int key_shift) noexcept nogil
    int xa_sort(int64_t **keys, uint64_t **entries, int64_t n, int bits) noexcept nogil
    int xa_sort_packed(uint64_t **entries, int64_t n, int shift, int bits) noexcept nogil
    int64_t xa_count(const uint8_t *mask, int64_t step, int64_t n) noexcept nogil
    int64_t xa_positions(const uint8_t *mask, int64_t step, int64_t n, int64_t first,
                         int64_t *position) noexcept nogil
    uint64_t *xa_select(const uint8_t *mask, int64_t step, int64_t n, uint64_t next, uint64_t unit,
                        int shift, uint64_t *entry) noexcept nogil
    void xa_ask(const uint8_t *row, int64_t step, int64_t n) noexcept nogil
    void xa_move(char *chunk, char *user, const list_t *l, const uint64_t *entry, int64_t n,
                 int64_t size, int write, int sparse) noexcept nogil
    void xa_move_placed(char *chunk, char *user, const list_t *l, const uint64_t *entry, int64_t n,
                        int64_t size, int write, const int64_t *table, int64_t pitch) noexcept nogil

cdef enum:
    MAX_DIMS = 64               # of an array of NumPy's
    LINE = 64                   # bytes of a line of the processor's caches
    ROWS_AHEAD = 8              # of a mask
    FEW_CALLS = 8               # so few items of a chunk are read or written one by one
    OUT_OF_BOUNDS = -2          # what failures are that are none of memory
    TOO_MANY = -3


cdef int bit_length(index_t n) noexcept nogil:
    cdef int bits = 0
    while n > 0:
        n >>= 1
        bits += 1
    return bits


def in_bounds(cnp.ndarray indices not None, index_t extent):
    """Whether all indices are possible on an axis.

    Parameters
    ----------
    indices : ndarray
        Of integers of any kind; those of intp are looked at without any call of NumPy's.
    extent : int

    Returns
    -------
    bool
    """
    cdef index_t n = indices.size
    cdef bint found
    if (
        cnp.PyArray_TYPE(indices) != cnp.NPY_INTP or not cnp.PyArray_ISCARRAY_RO(indices)
        or extent > <index_t> 1 << 62
    ):
        return not n or bool(-extent <= indices.min() and indices.max() < extent)
    with nogil:
        found = xa_in_bounds(indices.data, n, extent)
    return found


cdef int check_listed(int failure, index_t n) except -1:
    """Raise what making a list of `n` elements has failed for."""
    if failure == OUT_OF_BOUNDS:
        raise BoundsError("an array of indices changed while it was used, to one out of bounds")
    if failure == TOO_MANY:
        raise MemoryError(f"no room to list {n} elements in chunks so large at once")
    if failure:
        raise MemoryError(f"no memory for the tables of {n} elements")
    return 0


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
            free(self.query.factor[f].user)
        free(self.query.address)
        free(self.query.visit)

    cdef factor_t *_new_factor(self, index_t n_axes) except NULL:
        cdef factor_t *f = &self.query.factor[self.query.n_factors]
        if n_axes > MAX_NDIM or self.query.n_factors == MAX_NDIM:
            raise SelectionError(f"more than {MAX_NDIM} axes or factors of a query")
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
        for a in range(f.n_axes):
            f.axis[a] = axes[a]
            index = indices[a]
            points.data[a] = index.data
            for d in range(points.ndim):
                points.step[a][d] = index.strides[d]
        merge_dims(&points, f.n_axes)
        with nogil:
            failure = list_points(q, f, &points)
        check_listed(failure, points.n)

    def add_places(
        self, int axis, tuple origin not None, tuple extents not None,
        const int64_t[::1] places not None, index_t user_step
    ):
        """Add places in a box, numbered in its C order and by rising number.

        Parameters
        ----------
        axis : int
            The first of the axes that the box lies on.
        origin, extents : tuple of int
            Of the box, on each of these axes.
        places : (n,) array of int64
            Of nobody who may change them meanwhile.
        user_step : int
            Bytes in the user's memory from one to the next.
        """
        cdef query_t *q = &self.query
        cdef factor_t *f = self._new_factor(len(extents))
        cdef places_t box
        cdef int d, failure
        box.ndim = f.n_axes
        box.n = places.shape[0]
        box.place = &places[0] if box.n else NULL
        for d in range(box.ndim):
            f.axis[d] = axis + d
            box.origin[d] = origin[d]
            box.extent[d] = extents[d]
        f.list.user_step = user_step
        with nogil:
            failure = list_places(q, f, &box)
        check_listed(failure, box.n)

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
        cdef int d, failure = 0
        cdef piece_t *pieces
        m.ndim = mask.ndim
        m.data = <const uint8_t *> mask.data
        for d in range(m.ndim):
            f.axis[d] = axis + d
            m.step[d] = mask.strides[d]
            m.count[d] = mask.shape[d]
            m.n_pieces[d] = most_pieces(1, m.count[d], q.layout.chunk[axis + d])
            sum += m.n_pieces[d]
            most *= m.n_pieces[d]
            if d < m.ndim - 1:
                rows *= m.count[d]
        f.list.user_step = user_step
        if set_list(q, f, count) < 0:
            check_listed(TOO_MANY, count)
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
                if found == count:
                    failure = list_mask(q, f, &m, found)
        finally:
            free(m.pieces[0])
            free(m.rank)
        if found != count:
            raise SelectionError(
                f"a mask changed while it was used: {count} of its elements were true, now {found}")
        check_listed(failure, count)

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
            q.visit = <uint64_t *> allocate(stop - first, sizeof(uint64_t))
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


cdef int list_points(query_t *q, factor_t *f, const points_t *p) noexcept nogil:
    """Make the list of a factor, and its parts.  Returns 0, or what the failure is."""
    cdef sorter_t s
    cdef int d, last = p.ndim - 1, failure
    cdef bint is_even = True
    for d in range(last):
        is_even = is_even and p.user_step[d] == p.count[d + 1] * p.user_step[d + 1]
    f.list.user_step = p.user_step[last]
    if not is_even:
        f.list.user = f.user = <index_t *> xa_table(p.n, sizeof(index_t))
        if f.user == NULL:
            return -1
    failure = begin_list(q, f, &s, p.n)
    if failure == 0:
        failure = OUT_OF_BOUNDS if locate_points(q, f, p, &s) else sort_list(q, f, &s)
    free(s.key)
    return failure


cdef bint locate_points(const query_t *q, factor_t *f, const points_t *p, sorter_t *s) noexcept nogil:
    """Chunks and places of all points.  Returns whether an index is out of bounds."""
    cdef divisor_t divisor[MAX_NDIM]
    cdef index_t grid[MAX_NDIM]
    cdef index_t extent[MAX_NDIM]
    cdef index_t offset[MAX_NDIM]
    cdef index_t unit[MAX_NDIM]
    cdef const char *data[MAX_NDIM]
    cdef index_t at[MAX_DIMS]
    cdef index_t user = 0, done, n, i
    cdef int a, d, last = p.ndim - 1, wrong = 0
    for a in range(f.n_axes):
        grid[a] = extent_of(&q.axial, f.axis[a])
        extent[a] = q.extent[f.axis[a]]
        offset[a] = q.layout.offset[f.axis[a]]
        unit[a] = q.unit[f.axis[a]] // f.list.unit
        divisor[a] = xa_make_divisor(q.layout.chunk[f.axis[a]], extent[a] + offset[a])
        data[a] = p.data[a]
    for d in range(p.ndim):
        at[d] = 0
    while True:
        done = 0
        while done < p.count[last]:
            n = min(<index_t> XA_BLOCK, p.count[last] - done)
            clear_block(s, n)
            for a in range(f.n_axes):
                wrong |= xa_locate(
                    data[a] + done * p.step[a][last], p.step[a][last], n, extent[a],
                    offset[a], divisor[a], grid[a], unit[a], s.block_key, s.block_at)
            if f.user != NULL:
                for i in range(n):
                    f.user[s.done + i] = user + (done + i) * p.user_step[last]
            add_block(f, s, n)
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


# -- lists that are sorted by chunk --------------------------------------------------------------

# A list in the making: elements come in blocks, with their chunks (row-major numbers on the axes of
# the factor) and their places, in units of the list.
cdef struct sorter_t:
    index_t n, done
    int64_t *key                # of all elements, where their entries have no room for it; else NULL
    int key_shift, key_bits
    int64_t block_key[XA_BLOCK]
    int64_t block_at[XA_BLOCK]


cdef int set_list(const query_t *q, factor_t *f, index_t n) noexcept nogil:
    """Say how `n` entries of a list on the axes of a factor are read, from chunks of any kind.

    Returns the number of bits that they take, or -1 where these are more than a word has.
    """
    cdef index_t most = 0
    cdef int a, bits
    f.list.unit = q.layout.chunk_bytes
    for a in range(f.n_axes):
        f.list.unit = min(f.list.unit, q.unit[f.axis[a]])
    for a in range(f.n_axes):
        most += (q.layout.chunk[f.axis[a]] - 1) * (q.unit[f.axis[a]] // f.list.unit)
    f.list.shift = bit_length(most)
    bits = bit_length(max(n - 1, <index_t> 0))
    if f.list.shift + bits > 64:
        return -1
    f.list.at_mask = (<uint64_t> 1 << f.list.shift) - 1
    f.list.number_mask = (<uint64_t> 1 << bits) - 1
    return f.list.shift + bits


cdef int begin_list(const query_t *q, factor_t *f, sorter_t *s, index_t n) noexcept nogil:
    """Memory for a list.  Returns 0, or what the failure is; `key` is to be freed by the caller."""
    cdef index_t cells = 1
    cdef int a
    s.n = n
    s.done = 0
    s.key = NULL
    s.key_shift = set_list(q, f, n)
    if s.key_shift < 0:
        return TOO_MANY
    for a in range(f.n_axes):
        cells *= extent_of(&q.axial, f.axis[a])
    if cells == 0:
        return OUT_OF_BOUNDS
    s.key_bits = bit_length(cells - 1)
    f.entries = <uint64_t *> xa_table(n, sizeof(uint64_t))
    if f.entries == NULL:
        return -1
    if s.key_shift + s.key_bits >= 64:
        s.key = <int64_t *> xa_table(n, sizeof(int64_t))
        if s.key == NULL:
            return -1
    return 0


cdef void clear_block(sorter_t *s, index_t n) noexcept nogil:
    memset(s.block_key, 0, n * sizeof(int64_t))
    memset(s.block_at, 0, n * sizeof(int64_t))


cdef void add_block(factor_t *f, sorter_t *s, index_t n) noexcept nogil:
    """Append a block of elements to a list."""
    cdef index_t i
    if s.key != NULL:
        for i in range(n):
            s.key[s.done + i] = s.block_key[i]
            s.block_key[i] = 0
        xa_pack(f.entries + s.done, s.block_key, s.block_at, n, s.done, f.list.shift, 0)
    else:
        xa_pack(f.entries + s.done, s.block_key, s.block_at, n, s.done, f.list.shift, s.key_shift)
    s.done += n


cdef int sort_list(const query_t *q, factor_t *f, sorter_t *s) noexcept nogil:
    """Sort a list whose elements are all there, and make its parts.  Returns 0, or -1: no memory."""
    cdef int failure
    if s.key != NULL:
        failure = xa_sort(&s.key, &f.entries, s.n, s.key_bits)
    else:
        failure = xa_sort_packed(&f.entries, s.n, s.key_shift, s.key_bits)
    return failure if failure else make_parts(q, f, s)


cdef inline int64_t key_of(const factor_t *f, const sorter_t *s, index_t i) noexcept nogil:
    return s.key[i] if s.key != NULL else <int64_t> (f.entries[i] >> s.key_shift)


cdef int make_parts(const query_t *q, factor_t *f, const sorter_t *s) noexcept nogil:
    """Parts of a sorted list, one for each key."""
    cdef index_t i, n = 0, rest, extent
    cdef int64_t key
    cdef part_t *part
    cdef index_t *chunk
    cdef int a
    for i in range(s.n):
        n += i == 0 or key_of(f, s, i) != key_of(f, s, i - 1)
    f.n_parts = n
    f.parts = part = <part_t *> xa_table(n, sizeof(part_t))
    f.chunk = chunk = <index_t *> xa_table(n * f.n_axes, sizeof(index_t))
    if part == NULL or chunk == NULL:
        return -1
    i = 0
    while i < s.n:
        part.first = i
        part.user = 0
        key = rest = key_of(f, s, i)
        while i < s.n and key_of(f, s, i) == key:
            i += 1
        part.count = i - part.first
        for a in range(f.n_axes - 1, -1, -1):
            extent = extent_of(&q.axial, f.axis[a])
            chunk[a] = rest % extent + q.layout.low[f.axis[a]]
            rest //= extent
        part.segment = latest_segment(q, f, chunk)
        part += 1
        chunk += f.n_axes
    return 0


cdef int32_t latest_segment(const query_t *q, const factor_t *f, const index_t *chunk) noexcept nogil:
    cdef int32_t latest = 0
    cdef int a
    for a in range(f.n_axes):
        latest = max(latest, segment_of(&q.axial, f.axis[a], chunk[a]))
    return latest


# -- places --------------------------------------------------------------------------------------

cdef struct places_t:
    int ndim
    index_t n
    const int64_t *place
    index_t origin[MAX_NDIM]
    index_t extent[MAX_NDIM]


cdef int list_places(query_t *q, factor_t *f, const places_t *box) noexcept nogil:
    """Make the list of a factor, and its parts.  Returns 0, or what the failure is."""
    cdef sorter_t s
    cdef int failure = begin_list(q, f, &s, box.n)
    if failure == 0:
        locate_places(q, f, box, &s)
        failure = sort_list(q, f, &s)
    free(s.key)
    return failure


cdef void locate_places(const query_t *q, factor_t *f, const places_t *box, sorter_t *s) noexcept nogil:
    """Chunks and places of all elements: what a row has in common is found once."""
    cdef int last = box.ndim - 1, a
    cdef index_t size = 1, row = -1, row_key = 0, row_at = 0, n, i, v, chunk
    cdef index_t unit = q.unit[f.axis[last]] // f.list.unit
    cdef index_t offset = q.layout.offset[f.axis[last]] + box.origin[last]
    cdef index_t grid = extent_of(&q.axial, f.axis[last])
    cdef divisor_t by_row, by_chunk
    cdef const int64_t *place = box.place
    for a in range(box.ndim):
        size *= box.extent[a]
    by_row = xa_make_divisor(box.extent[last], size)
    by_chunk = xa_make_divisor(q.layout.chunk[f.axis[last]], offset + box.extent[last])
    while s.done < s.n:
        n = min(<index_t> XA_BLOCK, s.n - s.done)
        for i in range(n):
            v = place[i] - row
            if row < 0 or v >= box.extent[last]:
                v = xa_divide(place[i], by_row)
                row = v * box.extent[last]
                locate_row(q, f, box, v, &row_key, &row_at)
                v = place[i] - row
            v += offset
            chunk = xa_divide(v, by_chunk)
            s.block_key[i] = row_key * grid + chunk
            s.block_at[i] = row_at + (v - chunk * q.layout.chunk[f.axis[last]]) * unit
        place += n
        add_block(f, s, n)


cdef void locate_row(
    const query_t *q, const factor_t *f, const places_t *box, index_t number, index_t *key, index_t *at
) noexcept nogil:
    """Chunk and place of the first element of a row, as far as the axes before the last say them."""
    cdef index_t v, chunk, cells = 1
    cdef int a, axis
    key[0] = at[0] = 0
    for a in range(box.ndim - 2, -1, -1):
        axis = f.axis[a]
        v = number % box.extent[a] + q.layout.offset[axis] + box.origin[a]
        number //= box.extent[a]
        chunk = v // q.layout.chunk[axis]
        key[0] += chunk * cells
        at[0] += (v - chunk * q.layout.chunk[axis]) * (q.unit[axis] // f.list.unit)
        cells *= extent_of(&q.axial, axis)


# Booleans of any array of NumPy's.
cdef struct strided_t:
    int ndim
    const uint8_t *data
    index_t count[MAX_DIMS]
    index_t step[MAX_DIMS]


def true_places(cnp.ndarray mask not None, index_t most):
    """The true places of a mask, if they are few.

    Parameters
    ----------
    mask : ndarray of bool
        Others may change it meanwhile: it is read once.
    most : int
        So many at most.

    Returns
    -------
    (n,) array of int64, or None
        Their numbers in C order, rising; None: they are more.
    """
    cdef strided_t m
    cdef int d
    cdef index_t found
    cdef int64_t[::1] places
    m.data = <const uint8_t *> mask.data
    if mask.flags.c_contiguous:
        m.ndim = 1
        m.count[0] = mask.size
        m.step[0] = 1
    else:
        m.ndim = mask.ndim      # of a view: perhaps more than an array has
        for d in range(m.ndim):
            m.count[d] = mask.shape[d]
            m.step[d] = mask.strides[d]
    result = np.empty(most, np.int64)
    if most == 0 or mask.size == 0:
        return None if mask.any() else result[:0].copy()
    places = result
    with nogil:
        found = find_places(&m, &places[0], most)
    if found > most:
        return None
    # Memory behind what was found has not been touched; a copy gives it back.
    return result[:found].copy()


cdef index_t find_places(const strided_t *m, int64_t *place, index_t most) noexcept nogil:
    """Numbers of the true places of a mask that is not empty; returns how many, or more than `most`
    where there are more."""
    cdef int64_t position[XA_BLOCK]
    cdef index_t at[MAX_DIMS]
    cdef index_t total = 0, first, n, number = 0
    cdef const uint8_t *row = m.data
    cdef int d, last = m.ndim - 1
    for d in range(last):
        at[d] = 0
    while True:
        first = 0
        while first < m.count[last]:
            n = xa_positions(
                row + first * m.step[last], m.step[last],
                min(<index_t> XA_BLOCK, m.count[last] - first), number + first, position)
            if n > most - total:
                return most + 1
            memcpy(place + total, position, n * sizeof(int64_t))
            total += n
            first += XA_BLOCK
        number += m.count[last]
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


# -- masks ---------------------------------------------------------------------------------------

cdef struct mask_t:
    int ndim
    const uint8_t *data
    index_t count[MAX_NDIM]
    index_t step[MAX_NDIM]
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
    cdef uint64_t *entry
    # One entry more: the loop that writes them stores before it counts.
    f.entries = entry = <uint64_t *> xa_table(count + 1, sizeof(uint64_t))
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


cdef uint64_t *list_piece(
    const query_t *q, const factor_t *f, const mask_t *m, const index_t *p, uint64_t *entry
) noexcept nogil:
    """Append the true places of the part of a mask that lies in one chunk."""
    cdef int d, last = m.ndim - 1
    cdef index_t i[MAX_NDIM]
    cdef index_t at = 0, row = 0, rows = 1
    cdef index_t row_step[MAX_NDIM]
    cdef index_t unit[MAX_NDIM]
    cdef const uint8_t *data = m.data
    cdef const piece_t *piece
    for d in range(last, -1, -1):
        piece = &m.pieces[d][p[d]]
        i[d] = 0
        unit[d] = q.unit[f.axis[d]] // f.list.unit
        at += piece.first * unit[d]
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
            data, m.step[last], piece.count,
            <uint64_t> m.rank[row * m.n_pieces[last] + p[last]] << f.list.shift | <uint64_t> at,
            unit[last], f.list.shift, entry)
        d = last - 1
        while d >= 0:
            i[d] += 1
            at += unit[d]
            data += m.step[d]
            row += row_step[d]
            if i[d] < m.pieces[d][p[d]].count:
                break
            at -= i[d] * unit[d]
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
                       v.block_ndim, v.size, False)
        else:
            copy_block(user, v.block_user_step, v.chunk + at, v.block_at_step, v.block_count,
                       v.block_ndim, v.size, q.stream)
        return 0
    if v.kind == LIST:
        xa_move(
            v.chunk + at, user, v.list, v.entries, v.n_entries, v.size, q.write,
            v.n_entries < L.chunk_bytes // LINE)
        return 0
    if v.kind == PLACED:
        xa_move_placed(
            v.chunk, user, v.list, v.entries, v.n_entries, v.size, q.write, L.place + at, L.itemsize)
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
            failure = do_loops(
                v, level + 1, at + xa_place_of(loop.list, loop.entries[i]),
                user + xa_user_of(loop.list, loop.entries[i]))
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
    cdef uint64_t one = 0
    cdef uint64_t *expanded = NULL
    cdef list_t even            # of numbers that are places as well
    cdef index_t i
    cdef int failure
    for k in range(v.depth):
        if v.loop[k].entries == NULL:
            if nearest < 0 or v.loop[k].at_step < v.loop[nearest].at_step:
                nearest = k
        elif list < 0 or v.loop[k].list.unit < v.loop[list].list.unit:
            list = k
    v.kind = LIST if L.place == NULL else PLACED
    memset(&even, 0, sizeof(list_t))
    even.at_mask = even.number_mask = <uint64_t> -1
    v.list = &even
    v.entries = &one
    v.n_entries = 1
    if L.place == NULL and nearest >= 0 and (
        list < 0 or v.loop[nearest].at_step <= v.loop[list].list.unit
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
        v.list = v.loop[list].list
        v.n_entries = v.loop[list].count
        drop_loop(v, list)
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
        least = most = xa_place_of(loop.list, loop.entries[0])
        for i in range(1, loop.count):
            least = min(least, xa_place_of(loop.list, loop.entries[i]))
            most = max(most, xa_place_of(loop.list, loop.entries[i]))
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
        failure = visit(q, &w, q.address[i], q.visit[i])
        if failure:
            break
    free(w.stage)
    if q.stream:
        end_stream()
    return failure
