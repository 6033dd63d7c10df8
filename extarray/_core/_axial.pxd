# Axial vectors as plain memory, for kernels that run without the GIL.

from libc.stdint cimport int32_t

from ._types cimport MAX_NDIM, index_t


# The history of growth.  Segment s grew axis `axis[s]` when the grid was `grid_before[s*ndim:]`.
# Inside it the address of a chunk is linear: sum_j coefficient[s*ndim + j] * index[j].  (There is no
# constant: the start address M* is N* C_l, because both are products of the grid before.)
#
# Everything below a published count is immutable: growth appends, lengthens tables behind their
# published length, or installs new memory and retires the old.  A kernel therefore copies this
# struct, pins the Axial that owns the memory, and may read on while another thread grows.
cdef struct axial_t:
    int ndim
    int32_t n_segments
    int32_t *axis                       # (n_segments,)
    index_t *start_address              # (n_segments,)             M*
    index_t *grid_before                # (n_segments, ndim)        on its own axis: N*
    index_t *coefficient                # (n_segments, ndim)        C
    index_t grid[MAX_NDIM]
    int32_t *axis_segments[MAX_NDIM]    # the segments that own indices of axis j, ascending; [0] is 0
    int32_t n_axis_segments[MAX_NDIM]
    int32_t *table[MAX_NDIM]            # chunk index on axis j -> segment that introduced it
    index_t table_length[MAX_NDIM]      # grid[j], or 0: no table


cdef class Axial:
    cdef axial_t state
    cdef int32_t segment_capacity
    cdef int32_t axis_capacity[MAX_NDIM]
    cdef index_t table_capacity[MAX_NDIM]
    cdef int n_pins
    cdef bint owned                     # by an array, which alone may grow them
    cdef list retired
    cdef object __weakref__

    cdef int pin(self, axial_t *state) except -1
    cdef int unpin(self) except -1
    cdef void *_resized(self, void *old, size_t used, size_t wanted) except NULL
    cdef int _make_room(self, int32_t more) except -1
    cdef int _add_segment(self, int axis, const index_t *grid_before) except -1
    cdef int _note_owner(self, int axis, int32_t segment) except -1
    cdef int _lengthen(self, int axis, index_t by) except -1
    cdef int _update_table(self, int axis, index_t first) except -1
    cdef tuple _grid(self)


# The segment that introduced chunk index `i` of axis `j`.
cdef inline int32_t segment_of(const axial_t *s, int j, index_t i) noexcept nogil:
    cdef int32_t low, high, middle
    if s.n_axis_segments[j] == 1:
        return 0
    if s.table_length[j]:
        return s.table[j][i]
    low = 0
    high = s.n_axis_segments[j]
    while high - low > 1:
        middle = (low + high) // 2
        if s.grid_before[<size_t> s.axis_segments[j][middle] * s.ndim + j] <= i:
            low = middle
        else:
            high = middle
    return s.axis_segments[j][low]


# F*: the chunk belongs to the latest of the segments that introduced one of its indices.
cdef inline index_t address_of(const axial_t *s, const index_t *index) noexcept nogil:
    cdef int32_t owner = 0, segment
    cdef int j
    cdef index_t address
    if s.n_segments > 1:
        for j in range(s.ndim):
            segment = segment_of(s, j, index[j])
            if segment > owner:
                owner = segment
    address = 0
    for j in range(s.ndim):
        address += s.coefficient[<size_t> owner * s.ndim + j] * index[j]
    return address


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
    cdef index_t rest = address - s.start_address[segment]
    cdef index_t quotient
    cdef int j, axis = s.axis[segment]
    if s.ndim == 0:
        return segment
    quotient = rest // c[axis]
    index[axis] = s.grid_before[<size_t> segment * s.ndim + axis] + quotient
    rest -= quotient * c[axis]
    for j in range(s.ndim):
        if j != axis:
            quotient = rest // c[j]
            index[j] = quotient
            rest -= quotient * c[j]
    return segment
