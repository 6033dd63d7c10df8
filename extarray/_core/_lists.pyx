"""Lists of the elements that a factor of a query selects: points, places in a box, a mask.

A list is sorted into parts, one per chunk that it meets, stably: if an element is selected twice,
the last selection stays last.  Points and places are located in blocks and sorted by chunk; a mask
is scanned chunk by chunk, which needs no sorting.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

cimport numpy as cnp

import numpy as np

from ._vectors cimport extent_of, segment_of
from ._copy cimport piece_t
from ._visits cimport bit_length, factor_t, part_t, query_t
from ._types cimport MAX_NDIM, index_t

cnp.import_array()

cdef extern from "_gather.h":
    ctypedef struct divisor_t "xa_divisor":
        pass
    enum:
        XA_BLOCK
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

cdef enum:
    ROWS_AHEAD = 8              # of a mask


# -- functions for Python ------------------------------------------------------------------------

def in_bounds(cnp.ndarray indices not None, index_t extent):
    """Tell whether all indices, integers of any kind, are valid on an axis."""
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


# The elements of a NumPy array of booleans, with any strides.
cdef struct strided_t:
    int ndim
    const uint8_t *data
    index_t count[MAX_DIMS]
    index_t step[MAX_DIMS]


def true_places(cnp.ndarray mask not None, index_t most):
    """Return the numbers of a mask's true places in C order, or None for more than `most`.

    Others may change the mask meanwhile: it is read once.
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
    # Memory beyond the result has not been touched; a copy releases it.
    return result[:found].copy()


cdef index_t find_places(const strided_t *m, int64_t *place, index_t most) noexcept nogil:
    """Find the true places of a non-empty mask; return their number, or more than `most`."""
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
        if not next_row(last, at, m.count, m.step, &row):
            return total


cdef inline bint next_row(
    int last, index_t *at, const index_t *count, const index_t *step, const uint8_t **row
) noexcept nogil:
    """Go to the next row along the last axis of a mask, in C order, unless this is the last."""
    cdef int d = last - 1
    while d >= 0:
        at[d] += 1
        row[0] += step[d]
        if at[d] < count[d]:
            return True
        row[0] -= count[d] * step[d]
        at[d] = 0
        d -= 1
    return False


# -- points --------------------------------------------------------------------------------------

cdef void merge_dims(points_t *p, int n_axes) noexcept nogil:
    """Drop dimensions of length 1, and merge those that are contiguous in every array."""
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
    """Locate the chunks and places of all points.  Return whether an index is out of bounds."""
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

# A list in the making: elements come in blocks, with their chunks (row-major numbers on the
# factor's axes) and their places, in units of the list.
cdef struct sorter_t:
    index_t n, done
    int64_t *key                # of all elements, if their entries have no room for it; else NULL
    int key_shift, key_bits
    int64_t block_key[XA_BLOCK]
    int64_t block_at[XA_BLOCK]


cdef int set_list(const query_t *q, factor_t *f, index_t n) noexcept nogil:
    """Set how to read `n` entries of a list on the axes of a factor, from chunks of any kind.

    Returns the bits that they take, or -1 if these exceed a word.
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
    """Allocate a list.  Return 0, or the failure; the caller frees `key`."""
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
    """Sort a complete list, and make its parts.  Return 0, or -1: no memory."""
    cdef int failure
    if s.key != NULL:
        failure = xa_sort(&s.key, &f.entries, s.n, s.key_bits)
    else:
        failure = xa_sort_packed(&f.entries, s.n, s.key_shift, s.key_bits)
    return failure if failure else make_parts(q, f, s)


cdef inline int64_t key_of(const factor_t *f, const sorter_t *s, index_t i) noexcept nogil:
    return s.key[i] if s.key != NULL else <int64_t> (f.entries[i] >> s.key_shift)


cdef int make_parts(const query_t *q, factor_t *f, const sorter_t *s) noexcept nogil:
    """Make the parts of a sorted list, one per key."""
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

cdef int list_places(query_t *q, factor_t *f, const places_t *box) noexcept nogil:
    cdef sorter_t s
    cdef int failure = begin_list(q, f, &s, box.n)
    if failure == 0:
        locate_places(q, f, box, &s)
        failure = sort_list(q, f, &s)
    free(s.key)
    return failure


cdef void locate_places(const query_t *q, factor_t *f, const places_t *box, sorter_t *s) noexcept nogil:
    """Locate all elements; values common to a row are computed once."""
    cdef int last = box.ndim - 1, a
    cdef index_t size = 1, row = -1, row_key = 0, row_at = 0, n, i, v, chunk
    cdef index_t unit = q.unit[f.axis[last]] // f.list.unit
    cdef index_t offset = q.layout.offset[f.axis[last]] + box.start[last]
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
    """Locate the first element of a row, as far as the axes before the last determine it."""
    cdef index_t v, chunk, cells = 1
    cdef int a, axis
    key[0] = at[0] = 0
    for a in range(box.ndim - 2, -1, -1):
        axis = f.axis[a]
        v = number % box.extent[a] + q.layout.offset[axis] + box.start[a]
        number //= box.extent[a]
        chunk = v // q.layout.chunk[axis]
        key[0] += chunk * cells
        at[0] += (v - chunk * q.layout.chunk[axis]) * (q.unit[axis] // f.list.unit)
        cells *= extent_of(&q.axial, axis)


# -- masks ---------------------------------------------------------------------------------------

cdef index_t count_rows(const mask_t *m) noexcept nogil:
    """Count the true places before each piece; return the number of true places."""
    cdef int d, last = m.ndim - 1
    cdef index_t at[MAX_NDIM]
    cdef index_t total = 0, i
    cdef const uint8_t *row = m.data
    cdef const piece_t *piece
    cdef index_t *before = m.before
    for d in range(last):
        at[d] = 0
    while True:
        for i in range(m.n_pieces[last]):
            piece = &m.pieces[last][i]
            before[i] = total
            total += xa_count(row + piece.position * m.step[last], m.step[last], piece.count)
        before += m.n_pieces[last]
        if not next_row(last, at, m.count, m.step, &row):
            return total


cdef int list_mask(query_t *q, factor_t *f, const mask_t *m, index_t count) noexcept nogil:
    """Make the list of a factor, of `count` entries, and its parts, chunk by chunk."""
    cdef int d, last = m.ndim - 1
    cdef index_t p[MAX_NDIM]
    cdef index_t *chunk = f.chunk
    cdef part_t *part = f.parts
    cdef uint64_t *entry
    # One entry more: the loop stores an entry before it counts it.
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
            <uint64_t> m.before[row * m.n_pieces[last] + p[last]] << f.list.shift | <uint64_t> at,
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
