"""Axial vectors: the mapping F* from chunk indices to addresses, its inverse, and growth.

A growth of axis l from N* chunks adjoins one segment at the end of the address space.  Inside it
axis l varies slowest and the other axes keep row-major order.  The segments that grew an axis,
ordered by start index, are the axial vector of that axis ([otoo2006]_, [drxmp2009]_ section 3).

More than the papers: an axis grows at its start, too.  The rows of chunks that are added there lie
in the segment in the order in which they are added, away from the array, so that an uninterrupted
growth lengthens the segment at either side; a chunk belongs to the latest of the segments that
introduced one of its indices, whatever the sides.

Faster than the papers: a table for each side of an axis gives, for every chunk index, the segment
that introduced it.  Segments are numbered in the order of growth, which is the order of their start
addresses, so a chunk belongs to the greatest of its k entries: k look-ups, a maximum, k
multiply-adds by one record.  Sides that one segment owns need no table, and sides whose table would
be absurdly large against the number of their records are searched.
"""

import operator

import numpy as np

from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from ._types cimport MAX_NDIM, index_t, xa_add_overflows, xa_mul_overflows

from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    BoundsError,
    CorruptError,
    LimitError,
    ReadOnlyError,
    ShapeError,
)

# A table is built below the first bound and dropped above the second; far apart, so that no
# history makes it come and go.
cdef index_t BUILD_FACTOR = 64, BUILD_FLOOR = 4096
cdef index_t DROP_FACTOR = 256, DROP_FLOOR = 16384

# Chunks whose addresses are looked up together.
cdef enum:
    AT_ONCE = 64

_SIDES = ("end", "start")


# What comes of a growth log.
ctypedef enum replay_t:
    HISTORY
    NO_HISTORY
    TOO_MANY


# A growth log: axis, side, and the grid before it, of each of n segments; and the grid at the end.
# The steps from one to the next are in bytes.
cdef struct log_t:
    Py_ssize_t n
    const char *axes
    const char *sides
    const char *grids
    Py_ssize_t axes_step
    Py_ssize_t sides_step
    Py_ssize_t grids_step
    const index_t *grid


cdef index_t product(const axial_t *s) except -1:
    """Number of chunks, checked."""
    cdef index_t result = 1
    cdef int j
    for j in range(s.ndim):
        if xa_mul_overflows(result, extent_of(s, j), &result):
            raise LimitError(
                f"a grid of {tuple(extent_of(s, i) for i in range(s.ndim))} chunks has more than "
                "2**63 - 1 chunks; choose larger chunks"
            )
    return result


cdef inline bint describe(
    axial_t *s, int ndim, int32_t n, int axis, int side, const index_t *grid, const index_t *starts
) noexcept nogil:
    """Describe a segment on a side of `axis`, which found a grid with so much of it at the starts.

    There is room for it.  Returns whether the grid has fewer than 2**63 chunks.
    """
    cdef int j
    cdef record_t *record = record_of(s, n)
    cdef index_t *coefficient = coefficients_of(record)
    cdef index_t total = 0, run = 1
    cdef uint64_t constant = 0
    cdef bint overflow = False
    if s.starts != NULL:
        memcpy(s.starts + <size_t> n * ndim, starts, ndim * sizeof(index_t))
    for j in range(ndim - 1, -1, -1):
        if j != axis:
            coefficient[j] = run
            constant += <uint64_t> run * <uint64_t> starts[j]
            # Beside an axis of length 0 the product may overflow though there is no chunk yet; such
            # a grid could never be filled.
            overflow |= xa_mul_overflows(run, grid[j], &run)
    record.first = 0
    if ndim:
        record.first = grid[axis] - starts[axis] if side == END else starts[axis]
        overflow |= xa_mul_overflows(run, grid[axis], &total)
        # The row of chunks that is added first stands at the start address.
        if side == END:
            coefficient[axis] = run
            constant += <uint64_t> total - <uint64_t> run * <uint64_t> record.first
        else:
            coefficient[axis] = -run
            constant += <uint64_t> total + <uint64_t> run * <uint64_t> ~record.first
    record.axis = axis
    record.side = side
    record.constant = <index_t> constant
    s.start_address[n] = total
    return not overflow


cdef object too_many():
    return LimitError("the grid has more than 2**63 - 1 chunks; choose larger chunks")


cdef inline void note_owner(axial_t *s, int axis, int side, int32_t segment) noexcept nogil:
    """Note that a segment introduces indices on a side of an axis; there is room."""
    cdef side_t *own = &s.sides[side][axis]
    own.segments[own.n_segments] = segment
    own.n_segments += 1


cdef inline replay_t replay_for(
    axial_t *s, int ndim, const log_t *log, const index_t *grid, index_t *starts
) noexcept nogil:
    """`replay` for `ndim` axes; made once for each constant."""
    cdef const index_t *before = grid
    cdef const index_t *after
    cdef int axis = record_of(s, s.n_segments - 1).axis, side = record_of(s, s.n_segments - 1).side
    cdef int next_axis, next_side, j
    cdef bint fits = True
    cdef Py_ssize_t i
    for i in range(log.n + 1):
        after = <const index_t *> (log.grids + i * log.grids_step) if i < log.n else log.grid
        # Between two records only the side that grew last can have grown.
        for j in range(ndim):
            fits &= (after[j] == before[j]) | ((j == axis) & (after[j] > before[j]))
        if not fits:
            return NO_HISTORY
        if side == START:
            starts[axis] += after[axis] - before[axis]
        before = after
        if i == log.n:
            break
        next_axis = (<const uint8_t *> (log.axes + i * log.axes_step))[0]
        next_side = (<const uint8_t *> (log.sides + i * log.sides_step))[0]
        if next_axis >= ndim or next_side > START or (next_axis == axis and next_side == side):
            return NO_HISTORY
        axis = next_axis
        side = next_side
        if not describe(s, ndim, s.n_segments, axis, side, before, starts):
            return TOO_MANY
        note_owner(s, axis, side, s.n_segments)
        s.n_segments += 1
    return HISTORY


cdef replay_t replay(axial_t *s, const log_t *log, const index_t *grid, index_t *starts) noexcept nogil:
    """Describe the segments of a growth log, which found `grid` and `starts`; there is room.

    Goes as far as the log is a history of growth; then `starts` is what there is at its end.
    """
    if s.ndim == 2:
        return replay_for(s, 2, log, grid, starts)
    if s.ndim == 3:
        return replay_for(s, 3, log, grid, starts)
    if s.ndim == 4:
        return replay_for(s, 4, log, grid, starts)
    return replay_for(s, s.ndim, log, grid, starts)


cdef index_t extent_before(const axial_t *s, int32_t n, int j, int side) noexcept nogil:
    """Extent of a side of axis `j` when segment n began: the next one to grow it found that much."""
    cdef const side_t *own = &s.sides[side][j]
    # Segment 0 owns indices of every axis, but has grown axis 0.
    cdef int32_t low = j > 0 and side == END, high = own.n_segments, middle
    while low < high:
        middle = (low + high) // 2
        if own.segments[middle] < n:
            low = middle + 1
        else:
            high = middle
    return own.extent if low == own.n_segments else record_of(s, own.segments[low]).first


cdef int as_chunk_index(object index, int ndim, const index_t *extents, index_t *chunk) except -1:
    """Read a chunk index of Python's."""
    cdef int j
    try:
        n = len(index)
    except TypeError:
        raise ArgumentTypeError(f"a chunk index is a tuple of ints, not {index!r}") from None
    if n != ndim:
        raise ShapeError(f"a chunk index has {ndim} entries here, not {n}")
    for j in range(ndim):
        i = _integer(index[j])
        if not 0 <= i < extents[j]:
            raise BoundsError(
                f"chunk index {i} is out of bounds for axis {j} with {extents[j]} chunks")
        chunk[j] = i
    return 0


cdef inline Py_ssize_t by_tables(
    const axial_t *s, int ndim, const index_t *index, Py_ssize_t n, index_t *address
) noexcept nogil:
    """`addresses_of` where the ends of all axes have all chunks, and a table or one segment.

    The compiler makes one of it for each `ndim` that is a constant.
    """
    cdef uint64_t extent[MAX_NDIM]
    cdef const int32_t *table[MAX_NDIM]
    cdef index_t mask[MAX_NDIM]
    cdef int32_t owner[AT_ONCE]
    cdef const index_t *next_index
    cdef index_t at                 # the caller's may change meanwhile, and this one is checked
    cdef int32_t latest
    cdef int j
    cdef Py_ssize_t done = 0, i, m
    for j in range(ndim):
        extent[j] = s.sides[END][j].extent
        table[j] = s.sides[END][j].table
        mask[j] = -1
        if s.sides[END][j].n_segments == 1:     # a table of one entry
            table[j] = s.sides[END][j].segments
            mask[j] = 0
    while done < n:
        # First the owners and then their records: many loads are under way at a time.
        m = min(n - done, AT_ONCE)
        next_index = index
        for i in range(m):
            latest = 0
            for j in range(ndim):
                at = next_index[j]
                if <uint64_t> at >= extent[j]:
                    break
                latest = max(latest, table[j][at & mask[j]])
            else:
                owner[i] = latest
                next_index += ndim
                continue
            n = done + i
            m = i
            break
        for i in range(m):
            address[i] = address_in(s, ndim, owner[i], index)
            index += ndim
        address += m
        done += m
    return n


cdef Py_ssize_t addresses_of(
    const axial_t *s, const index_t *index, Py_ssize_t n, index_t *address
) noexcept nogil:
    """Addresses of n chunks, whose indices are counted from the first there are now.

    Returns how many come before the first that is out of bounds.
    """
    cdef index_t chunk[MAX_NDIM]
    cdef index_t at                 # as in `by_tables`
    cdef const side_t *end
    cdef int j
    cdef bint have_tables = True
    cdef Py_ssize_t i
    for j in range(s.ndim):
        end = &s.sides[END][j]
        have_tables &= end.n_segments == 1 or end.table_length > 0
        have_tables &= s.sides[START][j].extent == 0
    if have_tables:
        if s.ndim == 2:
            return by_tables(s, 2, index, n, address)
        if s.ndim == 3:
            return by_tables(s, 3, index, n, address)
        if s.ndim == 4:
            return by_tables(s, 4, index, n, address)
        return by_tables(s, s.ndim, index, n, address)
    for i in range(n):
        for j in range(s.ndim):
            at = index[j]
            if not 0 <= at < extent_of(s, j):
                return i
            chunk[j] = at - s.sides[START][j].extent
        address[i] = address_of(s, chunk)
        index += s.ndim
    return n


cdef inline Py_ssize_t by_search(
    const axial_t *s, int ndim, bint starts, index_t size, const index_t *address, Py_ssize_t n,
    index_t *index
) noexcept nogil:
    """`indices_of` for `ndim` axes, some grown at their `starts`; made once for each constant."""
    cdef index_t asked[AT_ONCE]     # the caller's may change meanwhile, and these are checked
    cdef int32_t owner[AT_ONCE]
    cdef int32_t hint = 0
    cdef int j
    cdef bint rising
    cdef Py_ssize_t done = 0, i, m
    while done < n:
        m = min(n - done, AT_ONCE)
        rising = True
        for i in range(m):
            asked[i] = address[i]
            if <uint64_t> asked[i] >= <uint64_t> size:
                n = done + i
                m = i
                break
            rising &= i == 0 or asked[i - 1] <= asked[i]
        # Neighbours are mostly of one segment; of others the searches go on side by side.
        for i in range(m):
            hint = owner[i] = segment_at(s, asked[i], hint if rising else -1)
        for i in range(m):
            index_in(s, ndim, starts, owner[i], asked[i], index)
            if starts:
                for j in range(ndim):
                    index[j] += s.sides[START][j].extent
            index += ndim
        address += m
        done += m
    return n


cdef Py_ssize_t indices_of(
    const axial_t *s, index_t size, const index_t *address, Py_ssize_t n, index_t *index
) noexcept nogil:
    """Indices of the chunks at n addresses below `size`, counted from the first there are now.

    Returns how many come before the first that no chunk has.
    """
    if s.starts != NULL:
        return by_search(s, s.ndim, True, size, address, n, index)
    if s.ndim == 2:
        return by_search(s, 2, False, size, address, n, index)
    if s.ndim == 3:
        return by_search(s, 3, False, size, address, n, index)
    if s.ndim == 4:
        return by_search(s, 4, False, size, address, n, index)
    return by_search(s, s.ndim, False, size, address, n, index)


cdef class Axial:
    """Axial vectors of an extendible grid of chunks.

    Arrays hand theirs out as ``a.axial``.  Indices and addresses count chunks, on the allocated
    grid; the byte offset of a chunk in ``.xta`` is its address times the bytes of a chunk.

    Parameters
    ----------
    grid : sequence of int
        Extents of the initial grid, in chunks, each at least 0.

    Raises
    ------
    LimitError
        An OverflowError: the grid has 2**63 chunks or more.

    References
    ----------
    .. [otoo2006] E. J. Otoo, Parallel and Distributed Access of Dense Multidimensional
       Extendible Array Files, LBNL 2006.
    .. [drxmp2009] E. J. Otoo and D. Rotem, Parallel Access of Out-Of-Core Dense Extendible
       Arrays, LBNL 2009.

    Examples
    --------
    The array of [drxmp2009]_, figure 3:

    >>> axial = Axial((4, 3, 1))
    >>> for axis, by in [(2, 1), (2, 1), (1, 1), (0, 2), (2, 1)]:
    ...     _ = axial.grow(axis, by)
    >>> axial.grid
    (6, 4, 4)
    >>> axial.address((4, 2, 2))
    56
    >>> axial.index(56)
    (4, 2, 2)
    """

    def __cinit__(self, grid):
        cdef index_t extent, last
        cdef int j
        extents = [operator.index(n) for n in grid]
        if len(extents) > MAX_NDIM:
            raise ArgumentError(f"{len(extents)} axes; at most {MAX_NDIM} are possible")
        if any(n < 0 for n in extents):
            raise ArgumentError(f"negative extent in the grid {tuple(extents)}")
        if any(n >= 2**63 for n in extents):
            raise LimitError(f"an extent of the grid {tuple(extents)} exceeds 2**63 - 1 chunks")
        self.retired = []
        self.state.ndim = len(extents)
        self.state.record_bytes = sizeof(record_t) + self.state.ndim * sizeof(index_t)
        # The initial segment is a growth of axis 0 from nothing.
        for j in range(1, self.state.ndim):
            extent = extents[j]
            self.state.sides[END][j].extent = extent
        self._add_segment(0, END)
        if self.state.ndim:
            last = extents[0]
            self._lengthen(0, END, last)

    def __dealloc__(self):
        cdef int j, side
        free(self.state.start_address)  # and what lies behind it, see _make_room
        free(self.state.starts)
        for j in range(self.state.ndim):
            for side in range(2):
                free(self.state.sides[side][j].segments)
                free(self.state.sides[side][j].table)
        for address in self.retired or ():
            free(<void *> <size_t> address)

    # -- memory ------------------------------------------------------------------------------

    cdef int pin(self, axial_t *state) except -1:
        """Copy the state for a kernel; its memory stays valid until `unpin`."""
        state[0] = self.state
        self.n_pins += 1
        return 0

    cdef int unpin(self) except -1:
        self.n_pins -= 1
        if self.n_pins == 0 and self.retired:
            for address in self.retired:
                free(<void *> <size_t> address)
            self.retired = []
        return 0

    cdef void *_allocated(self, size_t wanted) except NULL:
        cdef void *new = malloc(wanted)
        if new == NULL:
            raise MemoryError(f"no memory for {wanted} bytes of axial vectors")
        return new

    cdef int _retire(self, void *old) except -1:
        """Free memory, as soon as no kernel reads it."""
        if old != NULL and self.n_pins:
            self.retired.append(<size_t> old)
        else:
            free(old)
        return 0

    cdef void *_resized(self, void *old, size_t used, size_t wanted) except NULL:
        cdef void *new = self._allocated(wanted)
        if old != NULL:
            memcpy(new, old, used)
            self._retire(old)
        return new

    # -- growth ------------------------------------------------------------------------------

    cdef int _make_room(self, int32_t more) except -1:
        """Room for more segments."""
        cdef axial_t *s = &self.state
        cdef axial_t old
        cdef size_t n = s.n_segments, ndim = s.ndim, capacity
        if more > 0x7FFFFFFF - s.n_segments:
            raise LimitError("2**31 - 1 segments; copy the array into a fresh one")
        if s.n_segments + more <= self.segment_capacity:
            return 0
        capacity = max(4, n + more, min(n + n // 2, 0x7FFFFFFF))
        old = s[0]
        if s.starts != NULL:
            s.starts = <index_t *> self._resized(
                s.starts, n * ndim * sizeof(index_t), capacity * ndim * sizeof(index_t))
        # One piece of memory has all.
        s.start_address = <index_t *> self._allocated(
            capacity * (sizeof(index_t) + s.record_bytes))
        s.records = <char *> (s.start_address + capacity)
        if n:
            memcpy(s.start_address, old.start_address, n * sizeof(index_t))
            memcpy(s.records, old.records, n * s.record_bytes)
        self.segment_capacity = <int32_t> capacity
        self._retire(old.start_address)
        return 0

    cdef int _note_starts(self) except -1:
        """Keep from now on what segments find at the starts; those so far have found nothing."""
        cdef axial_t *s = &self.state
        cdef size_t row = s.ndim * sizeof(index_t)
        if s.starts == NULL:
            s.starts = <index_t *> self._allocated(self.segment_capacity * row)
            memset(s.starts, 0, s.n_segments * row)
        return 0

    cdef int _add_segment(self, int axis, int side) except -1:
        """Begin a segment on a side of `axis`; the caller lengthens it."""
        cdef axial_t *s = &self.state
        cdef int32_t n = s.n_segments
        cdef index_t grid[MAX_NDIM]
        cdef index_t starts[MAX_NDIM]
        cdef int j
        for j in range(s.ndim):
            grid[j] = extent_of(s, j)
            starts[j] = s.sides[START][j].extent
        if n == self.segment_capacity:
            self._make_room(1)
        if side == START:
            self._note_starts()
        if not describe(s, s.ndim, n, axis, side, grid, starts):
            raise too_many()
        if n == 0:
            # Segment 0 owns the initial indices of every axis.
            for j in range(s.ndim):
                self._make_room_for_owners(j, END, 1)
                note_owner(s, j, END, n)
        elif s.ndim:
            self._make_room_for_owners(axis, side, 1)
            note_owner(s, axis, side, n)
        s.n_segments = n + 1
        return 0

    cdef int _make_room_for_owners(self, int axis, int side, int32_t more) except -1:
        """Room for more segments that introduce indices on a side of an axis."""
        cdef side_t *own = &self.state.sides[side][axis]
        cdef int32_t m = own.n_segments
        cdef int32_t capacity
        if m + more > self.side_capacity[side][axis]:
            capacity = max(4, m + max(m, more))
            own.segments = <int32_t *> self._resized(
                own.segments, m * sizeof(int32_t), capacity * sizeof(int32_t))
            self.side_capacity[side][axis] = capacity
        return 0

    cdef int _lengthen(self, int axis, int side, index_t by) except -1:
        """Lengthen the last segment, which is one of this side of `axis`."""
        cdef axial_t *s = &self.state
        cdef side_t *own = &s.sides[side][axis]
        cdef index_t old = own.extent, extent
        if xa_add_overflows(extent_of(s, axis), by, &extent):
            raise LimitError(f"axis {axis} cannot have more than 2**63 - 1 chunks")
        own.extent = old + by
        try:
            product(s)
            self._update_table(axis, side, old)
        except BaseException:
            own.extent = old
            raise
        return 0

    cdef int _update_table(self, int axis, int side, index_t first) except -1:
        """Bring the table of a side up to date for places from `first` on."""
        cdef axial_t *s = &self.state
        cdef side_t *own = &s.sides[side][axis]
        cdef index_t extent = own.extent, n = own.n_segments, i, start, stop, capacity
        cdef int32_t m, segment
        if n <= 1:
            return 0
        if own.table_length == 0:
            if extent > BUILD_FACTOR * n + BUILD_FLOOR:
                return 0
            first = 0
        elif extent > DROP_FACTOR * n + DROP_FLOOR:
            own.table_length = 0
            return 0
        if extent > self.table_capacity[side][axis]:
            capacity = max(64, 2 * extent)
            own.table = <int32_t *> self._resized(
                own.table, own.table_length * sizeof(int32_t), capacity * sizeof(int32_t))
            self.table_capacity[side][axis] = capacity
        elif first == 0 and self.n_pins:
            # A kernel may still read the table that was dropped.
            own.table = <int32_t *> self._resized(
                own.table, 0, self.table_capacity[side][axis] * sizeof(int32_t))
        stop = extent
        for m in range(<int32_t> n - 1, -1, -1):
            segment = own.segments[m]
            start = 0 if m == 0 else record_of(s, segment).first
            for i in range(max(start, first), stop):
                own.table[i] = segment
            stop = min(stop, start)
            if stop <= first:
                break
        own.table_length = extent
        return 0

    def grow(self, axis, by, side="end"):
        """Grow an axis by a number of chunks.

        Parameters
        ----------
        axis : int
            In [-ndim, ndim).
        by : int
            Chunks, at least 0.
        side : {"end", "start"}
            Where the new chunks come: behind the last index, or before the first.

        Returns
        -------
        bool
            Whether a segment was added: an uninterrupted growth of the side that grew last only
            lengthens its segment.

        Raises
        ------
        AxisError, ArgumentError, LimitError
        ReadOnlyError
            These axial vectors are those of an array: grow the array.

        Notes
        -----
        O(k), amortised.  No address changes.  A growth at the start shifts the indices of all
        chunks that there are.  On an error nothing has changed.

        Examples
        --------
        >>> axial = Axial((1, 1))
        >>> axial.grow(1, 2), axial.grow(1, 1), axial.grid
        (True, False, (1, 4))
        >>> axial.address((0, 1))
        1
        >>> axial.grow(1, 2, side="start"), axial.grid
        (True, (1, 6))
        >>> axial.address((0, 3)), axial.address((0, 1)), axial.address((0, 0))
        (1, 4, 5)
        """
        if self.owned:
            raise ReadOnlyError(
                "cannot grow the axial vectors of an array alone; grow the array: extend, append, "
                "resize")
        return self._grow(axis, by, side)

    def _own(self):
        """Have `grow` refuse from now on: an array keeps its chunks in step with these vectors."""
        self.owned = True

    def _grow(self, axis, by, side="end"):
        """What `grow` does, for the array that owns the vectors."""
        cdef int j = self._axis(axis), which
        if side not in _SIDES:
            raise ArgumentError(f"side {side!r} is not possible; use 'end' or 'start'")
        which = _SIDES.index(side)
        by = _integer(by)
        if by < 0:
            raise ArgumentError(f"cannot grow axis {j} by {by} chunks: give at least 0")
        if by >= 2**63:
            raise LimitError(f"axis {j} cannot have more than 2**63 - 1 chunks")
        if by == 0:
            return False
        return self.extend(j, which, by)

    cdef bint extend(self, int axis, int side, index_t by) except -1:
        """Grow a side of an axis by at least one chunk; returns whether a segment was added."""
        cdef axial_t *s = &self.state
        cdef const record_t *last = record_of(s, s.n_segments - 1)
        if last.axis == axis and last.side == side:
            self._lengthen(axis, side, by)
            return False
        self._add_segment(axis, side)
        try:
            self._lengthen(axis, side, by)
        except BaseException:
            s.n_segments -= 1
            s.sides[side][axis].n_segments -= 1
            raise
        return True

    def _mark(self):
        """Describe the present state for `_rollback`.

        Examples
        --------
        >>> axial = Axial((2, 2))
        >>> mark = axial._mark()
        >>> _ = axial.grow(1, 3)
        >>> axial._rollback(mark)
        >>> axial.grid, axial.segments
        ((2, 2), 1)
        """
        return self.state.n_segments, self._extents(END), self._extents(START)

    def _rollback(self, mark):
        """Undo all growth since `_mark`; for a growth that failed before its commit.

        Parameters
        ----------
        mark : object
            What `_mark` returned.

        Examples
        --------
        See `_mark`.
        """
        cdef axial_t *s = &self.state
        cdef const record_t *last
        cdef side_t *own
        cdef int j, side
        n_segments, *extents = mark
        while s.n_segments > n_segments:
            s.n_segments -= 1
            last = record_of(s, s.n_segments)
            s.sides[last.side][last.axis].n_segments -= 1
        for side in range(2):
            for j in range(s.ndim):
                own = &s.sides[side][j]
                own.extent = extents[side][j]
                # A side of one segment has no table.
                own.table_length = 0 if own.n_segments <= 1 else min(own.table_length, own.extent)

    def _record(self, segment):
        """Record of a segment in the growth log: its axis, its side, and the grid before it.

        Parameters
        ----------
        segment : int
            In [0, segments).

        Returns
        -------
        axis, side : int
            The side is 0 for the end and 1 for the start.
        grid : tuple of int

        Examples
        --------
        >>> axial = Axial((4, 3))
        >>> _ = axial.grow(1, 2), axial.grow(0, 1, "start")
        >>> axial._record(0), axial._record(1), axial._record(2)
        ((0, 0, (0, 3)), (1, 0, (4, 3)), (0, 1, (4, 5)))
        """
        cdef axial_t *s = &self.state
        cdef int32_t n = self._segment(segment)
        cdef int j
        grid = tuple(
            [extent_before(s, n, j, END) + extent_before(s, n, j, START) for j in range(s.ndim)])
        return record_of(s, n).axis, record_of(s, n).side, grid

    def _with_axis(self, position):
        """Axial vectors with one axis more, along which every chunk has index 0.

        Parameters
        ----------
        position : int
            Of the new axis, in [0, ndim].

        Returns
        -------
        Axial
            With the same segments, and the same address for every chunk.

        Notes
        -----
        O(E k log E) for E segments.  These vectors stay as they are: who reads by them may go on.

        Examples
        --------
        >>> axial = Axial((4, 3))
        >>> _ = axial.grow(1, 2)
        >>> wider = axial._with_axis(0)
        >>> wider.grid, wider.address((0, 1, 4)), axial.address((1, 4))
        ((1, 4, 5), 17, 17)
        """
        cdef axial_t *s = &self.state
        cdef const record_t *record
        cdef int at = position, ndim = s.ndim, j
        cdef int32_t n = s.n_segments, i
        cdef uint8_t[::1] axes = np.zeros(n, np.uint8)
        cdef uint8_t[::1] sides = np.zeros(n, np.uint8)
        cdef index_t[:, ::1] grids = np.ones((n, ndim + 1), np.int64)
        grid = [*self.grid[:at], 1, *self.grid[at:]]
        for i in range(n):
            record = record_of(s, i)
            axes[i] = record.axis + (record.axis >= at)
            sides[i] = record.side
            for j in range(ndim):
                grids[i, j + (j >= at)] = extent_before(s, i, j, END) + extent_before(s, i, j, START)
        # The initial segment is a growth of axis 0, from nothing to what it had come to when the
        # next one began.
        if at == 0 and ndim:
            grids[0, 1] = grids[1, 1] if n > 1 else grid[1]
        axes[0] = 0
        grids[0, 0] = 0
        return type(self)._replay(axes, sides, grids, grid)

    def _growth(self, segment):
        """What a segment made of the grid.

        Parameters
        ----------
        segment : int
            In [0, segments).

        Returns
        -------
        axis, side : int
            What grew; the side is 0 for the end and 1 for the start.
        start, stop : tuple of int
            The grid after it, as a box of chunk indices, counted as they are now.

        Examples
        --------
        >>> axial = Axial((4, 3))
        >>> _ = axial.grow(1, 2), axial.grow(0, 1, "start")
        >>> axial._growth(1), axial._growth(2)
        ((1, 0, (1, 0), (5, 5)), (0, 1, (0, 0), (5, 5)))
        """
        cdef axial_t *s = &self.state
        cdef int32_t n = self._segment(segment)
        cdef int j
        start = []
        stop = []
        for j in range(s.ndim):
            zero = s.sides[START][j].extent
            start.append(zero - extent_before(s, n + 1, j, START))
            stop.append(zero + extent_before(s, n + 1, j, END))
        return record_of(s, n).axis, record_of(s, n).side, tuple(start), tuple(stop)

    cdef int32_t _segment(self, segment) except -1:
        cdef Py_ssize_t n = segment
        if not 0 <= n < self.state.n_segments:
            raise BoundsError(
                f"segment {segment} is out of bounds for {self.state.n_segments} segments")
        return <int32_t> n

    @classmethod
    def _replay(
        cls, const uint8_t[:] axes not None, const uint8_t[:] sides not None,
        const index_t[:, :] grids not None, grid
    ):
        """Axial vectors from a growth log.

        Parameters
        ----------
        axes, sides : (n,) array of uint8
            Axis of each segment, and its side: 0 for the end, 1 for the start.
        grids : (n, k) array of int64
            Grid before each segment, each contiguous.
        grid : sequence of int
            Grid after the last.

        Raises
        ------
        CorruptError
            The log is no history of growth.

        Examples
        --------
        >>> axial = Axial._replay(
        ...     np.array([0, 1], np.uint8), np.zeros(2, np.uint8), np.array([[0, 3], [4, 3]]), (4, 5))
        >>> axial.grid, axial.address((0, 3))
        ((4, 5), 12)
        """
        cdef Axial self
        # The initial segment is a growth of axis 0 from nothing.
        if (axes.shape[0] == 0 or axes[0] != 0 or sides[0] != 0 or grids.shape[1] != len(grid)
                or any(n < 0 for n in grids[0]) or (len(grid) > 0 and grids[0, 0] != 0)):
            raise CorruptError("the growth log does not begin with the initial segment")
        try:
            self = cls.__new__(cls, [grids[0, j] for j in range(len(grid))])
        except LimitError as error:
            raise CorruptError(f"the growth log is no history of growth: {error}") from None
        self._replay_more(axes[1:], sides[1:], grids[1:], grid)
        return self

    def _replay_more(
        self, const uint8_t[:] axes not None, const uint8_t[:] sides not None,
        const index_t[:, :] grids not None, grid
    ):
        """Replay the segments that a growth log has gained.

        Parameters are those of `_replay`; the first segment given follows the last one known.

        Raises
        ------
        CorruptError
            The log is no history of growth; nothing has changed.

        Examples
        --------
        >>> axial = Axial((4, 3))
        >>> axial._replay_more(
        ...     np.array([1], np.uint8), np.array([0], np.uint8), np.array([[4, 3]]), (4, 5))
        >>> axial.grid
        (4, 5)
        """
        cdef axial_t *s = &self.state
        cdef index_t extents[MAX_NDIM]      # of the grid, before and after
        cdef index_t last_grid[MAX_NDIM]
        cdef index_t starts[MAX_NDIM]
        cdef index_t known[2][MAX_NDIM]     # extents of the sides, before
        cdef int32_t owned[2][MAX_NDIM]     # segments that are new to each side
        cdef log_t log
        cdef Py_ssize_t i, n = axes.shape[0]
        cdef int ndim = s.ndim, j, side
        cdef replay_t outcome
        if (sides.shape[0] != n or grids.shape[0] != n or (n and grids.shape[1] != ndim) or len(grid) != ndim
                or (n and ndim > 1 and grids.strides[1] != sizeof(index_t))):
            raise CorruptError("the growth log is not one of this array")
        for j in range(ndim):
            last_grid[j] = grid[j]
            extents[j] = extent_of(s, j)
            starts[j] = s.sides[START][j].extent
            for side in range(2):
                known[side][j] = s.sides[side][j].extent
                owned[side][j] = 0
        log.n = n
        log.axes = <const char *> &axes[0] if n else NULL
        log.sides = <const char *> &sides[0] if n else NULL
        log.grids = <const char *> &grids[0, 0] if n and ndim else NULL
        log.axes_step = axes.strides[0]
        log.sides_step = sides.strides[0]
        log.grids_step = grids.strides[0]
        log.grid = last_grid
        mark = self._mark()
        try:
            self._make_room(min(n, 0x7FFFFFFF))
            for i in range(n):
                if axes[i] < ndim and sides[i] < 2:
                    owned[sides[i]][axes[i]] += 1
            for j in range(ndim):
                for side in range(2):
                    self._make_room_for_owners(j, side, owned[side][j])
                if owned[START][j]:
                    self._note_starts()
            outcome = replay(s, &log, extents, starts)
            if outcome == NO_HISTORY:
                raise CorruptError(f"the growth log is no history of growth at segment {s.n_segments}")
            if outcome == TOO_MANY:
                raise too_many()
            for j in range(ndim):
                s.sides[END][j].extent = last_grid[j] - starts[j]
                s.sides[START][j].extent = starts[j]
            product(s)
            for j in range(ndim):
                for side in range(2):
                    self._update_table(j, side, known[side][j])
        except LimitError as error:
            self._rollback(mark)
            raise CorruptError(f"the growth log is no history of growth: {error}") from None
        except BaseException:
            self._rollback(mark)
            raise

    def _starts_after(self, axes, sides, grids, grid):
        """Chunks at the start of each axis, after a growth log that is not replayed here.

        Parameters are those of `_replay_more`.

        Examples
        --------
        >>> axial = Axial((4, 3))
        >>> axial._starts_after(
        ...     np.array([1], np.uint8), np.array([1], np.uint8), np.array([[4, 3]]), (4, 5))
        [0, 2]
        """
        cdef axial_t *s = &self.state
        starts = list(self._extents(START))
        last = record_of(s, s.n_segments - 1).axis
        side = record_of(s, s.n_segments - 1).side
        before = self.grid
        for next_axis, next_side, after in [*zip(axes, sides, grids), (0, 0, grid)]:
            if side == START:
                starts[last] += int(after[last]) - int(before[last])
            last, side, before = int(next_axis), next_side, after
        return starts

    # -- the mapping -------------------------------------------------------------------------

    def _axis(self, axis):
        axis = _integer(axis)
        if not -self.state.ndim <= axis < self.state.ndim:
            raise AxisError(axis, self.state.ndim)
        return axis % self.state.ndim

    cdef tuple _extents(self, int side):
        cdef int j
        return tuple([self.state.sides[side][j].extent for j in range(self.state.ndim)])

    @property
    def grid(self):
        """Extents of the allocated grid, in chunks.

        Examples
        --------
        >>> Axial((4, 3)).grid
        (4, 3)
        """
        cdef int j
        return tuple([extent_of(&self.state, j) for j in range(self.state.ndim)])

    @property
    def ndim(self):
        """Number of axes, k."""
        return self.state.ndim

    @property
    def size(self):
        """Number of chunks: the least address that no chunk has."""
        return product(&self.state)

    @property
    def segments(self):
        """Number of segments, the initial one included."""
        return self.state.n_segments

    def address(self, index):
        """Address of a chunk: the mapping F*.

        Parameters
        ----------
        index : sequence of k ints
            Chunk index, each in [0, grid[j]).

        Returns
        -------
        int
            Position in the principal array, in chunks.

        Raises
        ------
        BoundsError
            An IndexError: outside the allocated grid.

        Notes
        -----
        O(k).  The address never changes while the array exists.

        References
        ----------
        [drxmp2009]_, equation 1.

        Examples
        --------
        >>> axial = Axial((4, 3))
        >>> _ = axial.grow(1, 2)
        >>> axial.address((0, 3))
        12
        """
        cdef index_t extents[MAX_NDIM]
        cdef index_t chunk[MAX_NDIM]
        cdef int j
        for j in range(self.state.ndim):
            extents[j] = extent_of(&self.state, j)
        as_chunk_index(index, self.state.ndim, extents, chunk)
        for j in range(self.state.ndim):
            chunk[j] -= self.state.sides[START][j].extent
        return address_of(&self.state, chunk)

    def index(self, address):
        """Index of the chunk at an address: the inverse of F*.

        Parameters
        ----------
        address : int
            In [0, size).

        Returns
        -------
        tuple of k ints

        Raises
        ------
        BoundsError
            An IndexError: no chunk has this address.

        Notes
        -----
        O(k + log E) for E segments: one binary search.

        Examples
        --------
        >>> axial = Axial((4, 3))
        >>> _ = axial.grow(1, 2)
        >>> axial.index(12)
        (0, 3)
        """
        cdef index_t chunk[MAX_NDIM]
        cdef int j
        index_at(&self.state, self._address(address), chunk)
        return tuple(
            [chunk[j] + self.state.sides[START][j].extent for j in range(self.state.ndim)])

    def addresses(self, indices):
        """Addresses of many chunks.

        Parameters
        ----------
        indices : (n, k) array_like of int
            Chunk indices, each in [0, grid[j]).

        Returns
        -------
        (n,) array of int64

        Raises
        ------
        BoundsError
            An index lies outside the allocated grid.

        Examples
        --------
        >>> axial = Axial((2, 2))
        >>> axial.addresses([(0, 1), (1, 1)])
        array([1, 3])
        """
        cdef const index_t[:, ::1] chunks = _integers(indices, 2, self.state.ndim)
        cdef Py_ssize_t n = chunks.shape[0], done
        cdef int ndim = self.state.ndim, j
        cdef axial_t state
        cdef index_t extents[MAX_NDIM]
        cdef index_t chunk[MAX_NDIM]
        out = np.empty(n, np.int64)
        cdef index_t[::1] result = out
        if n == 0:
            return out
        self.pin(&state)
        try:
            with nogil:
                done = addresses_of(&state, &chunks[0, 0] if ndim else &result[0], n, &result[0])
        finally:
            self.unpin()
        if done < n:
            for j in range(ndim):
                extents[j] = extent_of(&state, j)
            as_chunk_index([chunks[done, j] for j in range(ndim)], ndim, extents, chunk)
            raise BoundsError(f"chunk indices were changed while they were looked up, at {done}")
        return out

    def indices(self, addresses):
        """Chunk indices of many addresses.

        Parameters
        ----------
        addresses : (n,) array_like of int
            Each in [0, size).

        Returns
        -------
        (n, k) array of int64

        Raises
        ------
        BoundsError
            No chunk has one of the addresses.

        Examples
        --------
        >>> Axial((2, 2)).indices([1, 3])
        array([[0, 1],
               [1, 1]])
        """
        cdef const index_t[::1] asked = _integers(addresses, 1, -1)
        cdef Py_ssize_t n = asked.shape[0], done
        cdef int ndim = self.state.ndim
        cdef index_t size = self.size, nothing
        cdef axial_t state
        out = np.empty((n, ndim), np.int64)
        cdef index_t[:, ::1] result = out
        if n == 0:
            return out
        self.pin(&state)
        try:
            with nogil:
                done = indices_of(&state, size, &asked[0], n, &result[0, 0] if ndim else &nothing)
        finally:
            self.unpin()
        if done < n:
            raise BoundsError(f"address {asked[done]} is out of bounds for {size} chunks")
        return out

    def neighbours(self, address, radius=1):
        """Addresses of the chunks around a chunk.

        Parameters
        ----------
        address : int
            Of the chunk, in [0, size).
        radius : int or sequence of k ints
            How far the chunk indices of a neighbour may differ (along each axis), at least 0.

        Returns
        -------
        (n,) array of int64
            In increasing order, which is that of the file; the chunk itself is left out.  At the
            edge of the grid there are fewer.

        Raises
        ------
        BoundsError
            An IndexError: no chunk has this address.
        ArgumentError, ArgumentTypeError, ShapeError
            A radius that is negative, is no int, or one for another number of axes.

        Notes
        -----
        O(k + log E) for the inverse, and O(k) for each neighbour.

        Examples
        --------
        >>> axial = Axial((4, 3))
        >>> _ = axial.grow(1, 2)
        >>> axial.neighbours(5), axial.neighbours(5, radius=(0, 2))
        (array([ 1,  2,  4,  7,  8, 12, 13, 14]), array([ 3,  4, 13, 17]))
        """
        cdef index_t low[MAX_NDIM]
        cdef index_t high[MAX_NDIM]
        cdef index_t chunk[MAX_NDIM]
        cdef axial_t state
        cdef int ndim = self.state.ndim, j
        cdef index_t own = self._address(address), n = 1, reach
        cdef const index_t[::1] reaches = _radii(radius, self.grid)
        self.pin(&state)
        try:
            index_at(&state, own, chunk)
            for j in range(ndim):
                reach = reaches[j]
                low[j] = max(chunk[j] - reach, -state.sides[START][j].extent)
                high[j] = min(chunk[j] + reach, state.sides[END][j].extent - 1)
                chunk[j] = low[j]
                n *= high[j] - low[j] + 1       # no more than there are chunks
            out = np.empty(n - 1, np.int64)
            if n > 1:
                _walk_box(&state, low, high, chunk, n, own, out)
        finally:
            self.unpin()
        out.sort()
        return out

    def records(self, axis):
        """Axial vector of an axis: its records, ordered by start index.

        Parameters
        ----------
        axis : int
            In [-ndim, ndim).

        Returns
        -------
        start_index : (m,) array of int64
            N*: the chunk index on this axis with which each segment begins.  A segment that grew the
            start of the axis begins with its highest index.
        start_address : (m,) array of int64
            M*: the address of each segment's first chunk.
        coefficients : (m, k) array of int64
            C: what one step along each axis adds to the address, inside the segment; negative along
            an axis that grew at its start.

        Raises
        ------
        AxisError

        Notes
        -----
        The initial segment belongs to axis 0.

        References
        ----------
        [drxmp2009]_, section 3.

        Examples
        --------
        >>> axial = Axial((4, 3))
        >>> _ = axial.grow(1, 2)
        >>> start_index, start_address, coefficients = axial.records(1)
        >>> start_index.tolist(), start_address.tolist(), coefficients.tolist()
        ([3], [12], [[1, 4]])
        """
        cdef axial_t *s = &self.state
        cdef int j = self._axis(axis), i, skipped = 1 if j else 0   # segment 0 is axis 0's
        cdef const side_t *at_start = &s.sides[START][j]
        cdef const side_t *at_end = &s.sides[END][j]
        cdef Py_ssize_t n = at_start.n_segments + at_end.n_segments - skipped, m
        cdef int32_t segment
        indices = np.empty(n, np.int64)
        addresses = np.empty(n, np.int64)
        coefficients = np.empty((n, s.ndim), np.int64)
        cdef index_t[::1] index = indices
        cdef index_t[::1] address = addresses
        cdef index_t[:, ::1] coefficient = coefficients
        for m in range(n):
            if m < at_start.n_segments:
                segment = at_start.segments[at_start.n_segments - 1 - m]
                index[m] = at_start.extent + ~record_of(s, segment).first
            else:
                segment = at_end.segments[m - at_start.n_segments + skipped]
                index[m] = at_start.extent + record_of(s, segment).first
            address[m] = s.start_address[segment]
            for i in range(s.ndim):
                coefficient[m, i] = coefficients_of(record_of(s, segment))[i]
        return indices, addresses, coefficients

    def _address(self, address):
        q = _integer(address)
        if not 0 <= q < self.size:
            raise BoundsError(f"address {q} is out of bounds for {self.size} chunks")
        return q

    def __repr__(self):
        return f"<Axial: grid {self.grid}, {self.state.n_segments} segments>"


def _integer(value):
    if PyLong_CheckExact(value):
        return value
    if isinstance(value, (bool, np.bool_)):
        raise ArgumentTypeError(f"an int is needed, not {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"an int is needed, not {value!r}") from None


cdef int _walk_box(
    const axial_t *s, const index_t *low, const index_t *high, index_t *chunk, index_t n,
    index_t but, index_t[::1] addresses
) except -1:
    """Addresses of the n chunks low ... high, but for one; `chunk` begins at low."""
    cdef index_t i = 0, _visited, address
    cdef int j
    with nogil:
        for _visited in range(n):
            address = address_of(s, chunk)
            if address != but:
                addresses[i] = address
                i += 1
            for j in range(s.ndim - 1, -1, -1):
                chunk[j] += 1
                if chunk[j] <= high[j]:
                    break
                chunk[j] = low[j]
    return 0


def _radii(radius, grid):
    """A radius for each axis, as far as the grid goes."""
    ndim = len(grid)
    radii = list(radius) if np.ndim(radius) else [radius] * ndim
    if len(radii) != ndim:
        raise ShapeError(f"a radius is an int, or {ndim} ints here, not {len(radii)}")
    radii = [_integer(r) for r in radii]
    if any(r < 0 for r in radii):
        raise ArgumentError(f"a radius is at least 0 chunks, not {radius}")
    return np.array([min(r, n) for r, n in zip(radii, grid)], np.int64)


def _integers(values, ndim, columns):
    array = np.asarray(values)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)      # np.asarray([]) is float
    if array.dtype.kind not in "iu":
        raise ArgumentTypeError(f"integers are needed, not {array.dtype}")
    if ndim == 2 and array.ndim == 1 and array.size == 0:
        array = array.reshape(0, columns)
    if array.ndim != ndim or (columns >= 0 and array.shape[1] != columns):
        wanted = "(n,)" if ndim == 1 else f"(n, {columns})"
        raise ShapeError(f"an array of shape {wanted} is needed, not {array.shape}")
    return np.ascontiguousarray(array, np.int64)
