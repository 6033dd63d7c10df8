# Axial vectors as plain memory, and look-up in them, for kernels that run without the GIL.

from libc.stdint cimport int32_t, uint8_t, uint64_t

from ._types cimport MAX_NDIM, index_t


# An axis grows at its end and at its start.  Chunk indices count from the start of the initial
# grid, so that growth changes none: those at the start are negative.  On each side, places count
# outwards from there: i on the end side, ~i (that is -1 - i) on the start side.
cdef enum:
    END = 0
    START = 1


# One side of an axis.
cdef struct side_t:
    index_t extent              # chunks
    int32_t *segments           # segments that own indices of the side, ascending
    int32_t n_segments
    int32_t *table              # place on the side -> segment that introduced it
    index_t table_length        # extent, or 0: no table


# A segment of the history.  Inside it a chunk's address is linear: constant + sum_j C[j] *
# index[j].  Its coefficients C, one per axis, follow it in memory; they are negative along an axis
# grown at its start.
cdef struct record_t:
    index_t constant
    index_t first               # N*: the extent that it found on its own side
    int32_t axis                # the axis that it grew, and
    int32_t side                # on which side


# The history of growth.
#
# Everything below a published count is immutable: growth appends, lengthens tables behind their
# published length, or installs new memory and retires the old.  A kernel therefore copies this
# struct and pins the History that owns the memory; then it may read on while another thread grows.
cdef struct axial_t:
    int ndim
    int32_t n_segments
    index_t *start_address      # (n_segments,)             M*
    char *records               # (n_segments,)             a record_t, then its coefficients
    size_t record_bytes
    index_t *starts             # (n_segments, ndim)        extents found at the starts; NULL: all 0
    side_t sides[2][MAX_NDIM]


# The outcome of replaying a growth log.
ctypedef enum replay_t:
    HISTORY
    NO_HISTORY
    TOO_MANY
    NEEDS_ROOM                  # for more segments on a side of an axis
    NEEDS_STARTS                # the extents at the starts are not kept yet


# A growth log: for each of n segments its axis, its side, and the grid before it; and the final
# grid.  The steps between records are in bytes.
cdef struct log_t:
    Py_ssize_t n
    const char *axes
    const char *sides
    const char *grids
    Py_ssize_t axes_step
    Py_ssize_t sides_step
    Py_ssize_t grids_step
    const index_t *grid
    const int32_t *capacity     # (2, MAX_NDIM)     segments that each side has room for
    int axis                    # the side that needs room
    int side


cdef index_t product(const axial_t *s) except -1

cdef tuple grid_of(const axial_t *s)
cdef object too_many()
cdef object as_integer(object value)
cdef int as_chunk_index(object index, int ndim, const index_t *extents, index_t *chunk) except -1

cdef bint describe(
    axial_t *s, int32_t n, int axis, int side, const index_t *grid, const index_t *starts
) noexcept nogil
cdef replay_t replay(axial_t *s, log_t *log, index_t *grid, index_t *starts) noexcept nogil
cdef void fill_table(const axial_t *s, side_t *own, index_t first) noexcept nogil
cdef index_t extent_before(const axial_t *s, int32_t n, int j, int side) noexcept nogil

cdef Py_ssize_t addresses_of(
    const axial_t *s, const index_t *index, Py_ssize_t n, index_t *address
) noexcept nogil
cdef Py_ssize_t indices_of(
    const axial_t *s, index_t size, const index_t *address, Py_ssize_t n, index_t *index
) noexcept nogil
cdef void addresses_in_box(
    const axial_t *s, const index_t *low, const index_t *high, index_t n, index_t but,
    index_t *addresses
) noexcept nogil


# Note that a segment introduces indices on a side of an axis; there must be room.
cdef inline void note_owner(axial_t *s, int axis, int side, int32_t segment) noexcept nogil:
    cdef side_t *own = &s.sides[side][axis]
    own.segments[own.n_segments] = segment
    own.n_segments += 1


# The record of segment n.
cdef inline record_t *record_of(const axial_t *s, int32_t n) noexcept nogil:
    return <record_t *> (s.records + <size_t> n * s.record_bytes)


# The coefficients of a record.
cdef inline index_t *coefficients_of(const record_t *record) noexcept nogil:
    return <index_t *> (record + 1)


# Extent of axis j, both sides.
cdef inline index_t extent_of(const axial_t *s, int j) noexcept nogil:
    return s.sides[END][j].extent + s.sides[START][j].extent


# The segment that introduced chunk index `i` of axis `j`.
cdef inline int32_t segment_of(const axial_t *s, int j, index_t i) noexcept nogil:
    cdef int which = END if i >= 0 else START
    cdef const side_t *side = &s.sides[which][j]
    cdef int32_t low, high, middle
    if which == START:
        i = ~i
    if side.n_segments == 1:
        return side.segments[0]
    if side.table_length:
        return side.table[i]
    low = 0
    high = side.n_segments
    while high - low > 1:
        middle = (low + high) // 2
        if record_of(s, side.segments[middle]).first <= i:
            low = middle
        else:
            high = middle
    return side.segments[low]


# The address of a chunk of a segment; `ndim`, the array's, may be a constant.
cdef inline index_t address_in(
    const axial_t *s, int ndim, int32_t segment, const index_t *index
) noexcept nogil:
    cdef const record_t *record = record_of(s, segment)
    cdef const index_t *c = coefficients_of(record)
    cdef uint64_t address = <uint64_t> record.constant  # intermediate sums may exceed 63 bits
    cdef int j
    for j in range(ndim):
        address += <uint64_t> c[j] * <uint64_t> index[j]
    return <index_t> address


# F*: the chunk belongs to the latest of the segments that introduced one of its indices.
cdef inline index_t address_of(const axial_t *s, const index_t *index) noexcept nogil:
    cdef int32_t owner = 0, segment
    cdef int j
    if s.n_segments > 1:
        for j in range(s.ndim):
            segment = segment_of(s, j, index[j])
            if segment > owner:
                owner = segment
    return address_in(s, s.ndim, owner, index)


# The last segment whose start address is at most `address`; tries `hint` first, unless it is -1.
cdef inline int32_t segment_at(const axial_t *s, index_t address, int32_t hint) noexcept nogil:
    cdef int32_t low, n, half
    if hint >= 0 and s.start_address[hint] <= address and (
        hint + 1 == s.n_segments or address < s.start_address[hint + 1]
    ):
        return hint
    low = 0
    n = s.n_segments
    while n > 1:      # branch-free but for the loop: the compiler selects
        half = n // 2
        low = low + half if s.start_address[low + half] <= address else low
        n -= half
    return low


# The index of the chunk at an address of a segment.  `ndim` and `starts` (whether any axis has
# grown at its start) may be constants.
cdef inline void index_in(
    const axial_t *s, int ndim, bint starts, int32_t segment, index_t address, index_t *index
) noexcept nogil:
    cdef const record_t *record = record_of(s, segment)
    cdef const index_t *c = coefficients_of(record)
    cdef const index_t *low = s.starts + <size_t> segment * ndim if starts else NULL
    cdef bint at_start = starts and record.side == START
    cdef uint64_t rest = address - s.start_address[segment], along, quotient
    cdef int j, axis = record.axis, last = ndim - 2 if record.axis == ndim - 1 else ndim - 1
    if ndim == 0:
        return
    along = -c[axis] if at_start else c[axis]
    quotient = rest // along
    rest -= quotient * along
    quotient += record.first
    index[axis] = ~quotient if at_start else quotient
    for j in range(last):
        if j != axis:
            quotient = rest // <uint64_t> c[j]
            rest -= quotient * <uint64_t> c[j]
            index[j] = quotient - low[j] if starts else quotient
    if ndim > 1:        # the last other axis has coefficient 1
        index[last] = rest - low[last] if starts else rest


# The inverse of F*.
cdef inline void index_at(const axial_t *s, index_t address, index_t *index) noexcept nogil:
    index_in(s, s.ndim, s.starts != NULL, segment_at(s, address, -1), address, index)
