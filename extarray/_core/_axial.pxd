# Axial vectors as plain memory, for kernels that run without the GIL.

cimport cython
from libc.stdint cimport int32_t, uint8_t, uint64_t

from ._types cimport MAX_NDIM, index_t


# An axis grows at its end and at its start.  Chunk indices are counted from the start of the initial
# grid, so that growth changes none: those at the start are negative.  On either side of that place
# chunks are counted outwards: i on the end side, ~i (that is -1 - i) on the start side.
cdef enum:
    END = 0
    START = 1


# One side of an axis.
cdef struct side_t:
    index_t extent              # chunks
    int32_t *segments           # those that own indices of the side, ascending
    int32_t n_segments
    int32_t *table              # place on the side -> segment that introduced it
    index_t table_length        # extent, or 0: no table


# The history of growth.  Segment s grew side `side[s]` of axis `axis[s]`.  Inside it the address of a
# chunk is linear: constant[s] + sum_j coefficient[s*ndim + j] * index[j].
#
# Everything below a published count is immutable: growth appends, lengthens tables behind their
# published length, or installs new memory and retires the old.  A kernel therefore copies this
# struct, pins the Axial that owns the memory, and may read on while another thread grows.
cdef struct axial_t:
    int ndim
    int32_t n_segments
    int32_t *axis               # (n_segments,)
    uint8_t *side               # (n_segments,)
    index_t *start_address      # (n_segments,)             M*
    index_t *constant           # (n_segments,)
    index_t *coefficient        # (n_segments, ndim)        C; negative along an axis grown at its start
    index_t *first              # (n_segments,)             N*: what it found on its own side
    index_t *starts             # (n_segments, ndim)        what it found at the starts; NULL: nothing
    side_t sides[2][MAX_NDIM]


cdef class Axial:
    cdef axial_t state
    cdef int32_t segment_capacity
    cdef int32_t side_capacity[2][MAX_NDIM]
    cdef index_t table_capacity[2][MAX_NDIM]
    cdef int n_pins
    cdef bint owned                     # by an array, which alone may grow them
    cdef list retired
    cdef object __weakref__

    @cython.final
    cdef int pin(self, axial_t *state) except -1

    @cython.final
    cdef int unpin(self) except -1

    @cython.final
    cdef void *_allocated(self, size_t wanted) except NULL

    @cython.final
    cdef int _retire(self, void *old) except -1

    @cython.final
    cdef void *_resized(self, void *old, size_t used, size_t wanted) except NULL

    @cython.final
    cdef int _make_room(self, int32_t more) except -1

    @cython.final
    cdef int _note_starts(self) except -1

    @cython.final
    cdef int _add_segment(self, int axis, int side) except -1

    @cython.final
    cdef int _make_room_for_owners(self, int axis, int side, int32_t more) except -1

    @cython.final
    cdef bint extend(self, int axis, int side, index_t by) except -1

    @cython.final
    cdef int _lengthen(self, int axis, int side, index_t by) except -1

    @cython.final
    cdef int _update_table(self, int axis, int side, index_t first) except -1

    @cython.final
    cdef tuple _extents(self, int side)

    @cython.final
    cdef int32_t _segment(self, segment) except -1


# Number of chunks, checked.
cdef index_t product(const axial_t *s) except -1


cdef int as_chunk_index(object index, int ndim, const index_t *extents, index_t *chunk) except -1


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
        if s.first[side.segments[middle]] <= i:
            low = middle
        else:
            high = middle
    return side.segments[low]


# F*: the chunk belongs to the latest of the segments that introduced one of its indices.
cdef inline index_t address_of(const axial_t *s, const index_t *index) noexcept nogil:
    cdef int32_t owner = 0, segment
    cdef int j
    cdef uint64_t address       # what is added on the way may exceed 63 bits
    if s.n_segments > 1:
        for j in range(s.ndim):
            segment = segment_of(s, j, index[j])
            if segment > owner:
                owner = segment
    address = <uint64_t> s.constant[owner]
    for j in range(s.ndim):
        address += <uint64_t> s.coefficient[<size_t> owner * s.ndim + j] * <uint64_t> index[j]
    return <index_t> address


# The last segment whose start address is at most `address`.  `hint` is tried first.
cdef inline int32_t segment_at(const axial_t *s, index_t address, int32_t hint) noexcept nogil:
    cdef int32_t low, n, half
    if s.start_address[hint] <= address and (
        hint + 1 == s.n_segments or address < s.start_address[hint + 1]
    ):
        return hint
    low = 0
    n = s.n_segments
    while n > 1:      # no branch depends on the data but the loop: the compiler selects
        half = n // 2
        low = low + half if s.start_address[low + half] <= address else low
        n -= half
    return low


# The inverse of F*; returns the segment.
cdef inline int32_t index_at(
    const axial_t *s, index_t address, int32_t hint, index_t *index
) noexcept nogil:
    cdef int32_t segment = segment_at(s, address, hint)
    cdef const index_t *c = s.coefficient + <size_t> segment * s.ndim
    cdef const index_t *low = NULL if s.starts == NULL else s.starts + <size_t> segment * s.ndim
    cdef index_t rest = address - s.start_address[segment]
    cdef index_t quotient
    cdef int j, axis = s.axis[segment], side = s.side[segment]
    if s.ndim == 0:
        return segment
    quotient = rest // (c[axis] if side == END else -c[axis])
    rest -= quotient * (c[axis] if side == END else -c[axis])
    quotient += s.first[segment]
    index[axis] = quotient if side == END else ~quotient
    for j in range(s.ndim):
        if j != axis:
            quotient = rest // c[j]
            index[j] = quotient if low == NULL else quotient - low[j]
            rest -= quotient * c[j]
    return segment
