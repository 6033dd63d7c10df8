"""Axial vectors as plain memory: the mapping F* from chunk indices to addresses, and its inverse.

A growth of axis l from N* chunks adds one segment at the end of the address space.  Inside it axis
l varies slowest and the other axes keep row-major order.  The segments that grew an axis, ordered
by start index, are the axial vector of that axis ([otoo2006]_, [drxmp2009]_ section 3).

Beyond the papers, an axis also grows at its start.  Rows of chunks added there lie in the segment
in the order of their addition, away from the array, so that an uninterrupted growth lengthens the
segment at either side.  A chunk belongs to the latest segment that introduced one of its indices,
whatever the sides.

Faster than in the papers, a table for each side of an axis gives the segment that introduced each
chunk index.  Segments are numbered in the order of growth, which is that of their start addresses,
so a chunk belongs to the greatest of its k entries: k look-ups, a maximum, and k multiply-adds with
one record.  Sides of one segment need no table; sides whose table would be absurdly large for their
number of records are searched.
"""

import operator

import numpy as np

from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memcpy

from ._types cimport MAX_NDIM, index_t, xa_mul_overflows

from extarray.common.errors import ArgumentTypeError, BoundsError, LimitError, ShapeError

# Chunks whose addresses are looked up together.
cdef enum:
    AT_ONCE = 64


# -- segments ------------------------------------------------------------------------------------


cdef index_t product(const axial_t *s) except -1:
    """Return the number of chunks; raise on overflow."""
    cdef index_t result = 1
    cdef int j
    for j in range(s.ndim):
        if xa_mul_overflows(result, extent_of(s, j), &result):
            raise LimitError(
                f"a grid of {tuple(extent_of(s, i) for i in range(s.ndim))} chunks has more than "
                "2**63 - 1 chunks; choose larger chunks"
            )
    return result


cdef tuple grid_of(const axial_t *s):
    """Return the extents of the grid, in chunks."""
    cdef int j
    return tuple([extent_of(s, j) for j in range(s.ndim)])


cdef bint describe(
    axial_t *s, int32_t n, int axis, int side, const index_t *grid, const index_t *starts
) noexcept nogil:
    """Describe a segment on a side of `axis`, which found this grid, `starts` of it at the starts.

    There must be room for it.  Returns whether the grid has fewer than 2**63 chunks.
    """
    cdef int ndim = s.ndim, j
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
        overflow |= xa_mul_overflows(run, grid[axis], &total)
        # The row of chunks added first stands at the start address.
        if side == END:
            record.first = grid[axis] - starts[axis]
            coefficient[axis] = run
            constant += <uint64_t> total - <uint64_t> run * <uint64_t> record.first
        else:
            record.first = starts[axis]
            coefficient[axis] = -run
            constant += <uint64_t> total + <uint64_t> run * <uint64_t> ~record.first
    record.axis = axis
    record.side = side
    record.constant = <index_t> constant
    s.start_address[n] = total
    return not overflow


cdef inline bint describe_end(
    record_t *record, index_t *start_address, int ndim, int axis, const index_t *grid
) noexcept nogil:
    """Do `describe` for a segment at the end of an axis, if no axis has grown at its start.

    Compiled once for each constant `ndim` and `axis`.
    """
    cdef index_t *coefficient = coefficients_of(record)
    cdef index_t run = 1
    cdef bint overflow = False
    cdef int j
    for j in range(ndim - 1, -1, -1):
        if j != axis:
            coefficient[j] = run
            overflow |= xa_mul_overflows(run, grid[j], &run)
    coefficient[axis] = run
    overflow |= xa_mul_overflows(run, grid[axis], start_address)
    record.constant = 0
    record.first = grid[axis]
    record.axis = axis
    record.side = END
    return not overflow


cdef object too_many():
    return LimitError("the grid has more than 2**63 - 1 chunks; choose larger chunks")


cdef inline bint grows(int ndim, int axis, index_t *grid, const index_t *after) noexcept nogil:
    """Let `axis` grow to the extent that it has in the grid afterwards; tell whether nothing else
    differs, and it has not become shorter."""
    cdef bint fits = True
    cdef int j
    if ndim == 0:
        return True
    if after[axis] < grid[axis]:
        return False
    grid[axis] = after[axis]
    for j in range(ndim):
        fits &= grid[j] == after[j]
    return fits


cdef inline replay_t replay_ends(axial_t *s, int ndim, log_t *log, index_t *grid) noexcept nogil:
    """Do `replay` for `ndim` axes as long as all grow at their ends; compiled for each constant."""
    cdef index_t before[MAX_NDIM]
    cdef int32_t *owners[MAX_NDIM]      # where the next segment of each axis is noted
    cdef const int32_t *rooms[MAX_NDIM]
    cdef int32_t n = s.n_segments
    cdef record_t *record = record_of(s, n)
    cdef index_t *start_address = s.start_address + n
    cdef int axis = record_of(s, n - 1).axis, next_axis, j
    cdef unsigned int side
    cdef bint fits
    cdef replay_t outcome = HISTORY
    cdef const char *axes = log.axes
    cdef const char *sides = log.sides
    cdef const char *grids = log.grids
    cdef Py_ssize_t left = log.n
    cdef Py_ssize_t axes_step = log.axes_step, sides_step = log.sides_step, grids_step = log.grids_step
    for j in range(ndim):
        before[j] = grid[j]
        owners[j] = s.sides[END][j].segments + s.sides[END][j].n_segments
        rooms[j] = s.sides[END][j].segments + log.capacity[j]
    while left:
        if not grows(ndim, axis, before, <const index_t *> grids):
            outcome = NO_HISTORY
            break
        next_axis = (<const uint8_t *> axes)[0]
        side = (<const uint8_t *> sides)[0]
        if next_axis >= ndim or next_axis == axis or side != END:
            outcome = NEEDS_STARTS if next_axis < ndim and side == START else NO_HISTORY
            break
        if owners[next_axis] == rooms[next_axis]:
            log.axis = next_axis
            log.side = END
            outcome = NEEDS_ROOM
            break
        axis = next_axis
        if ndim > 1 and axis == ndim - 1:
            fits = describe_end(record, start_address, ndim, ndim - 1, before)
        elif ndim > 2 and axis == ndim - 2:
            fits = describe_end(record, start_address, ndim, ndim - 2, before)
        elif axis == 0:
            fits = describe_end(record, start_address, ndim, 0, before)
        else:
            fits = describe_end(record, start_address, ndim, axis, before)
        if not fits:
            outcome = TOO_MANY
            break
        owners[axis][0] = n
        owners[axis] += 1
        n += 1
        record = <record_t *> (<char *> record + sizeof(record_t) + ndim * sizeof(index_t))
        start_address += 1
        axes += axes_step
        sides += sides_step
        grids += grids_step
        left -= 1
    if left == 0 and not grows(ndim, axis, before, log.grid):
        outcome = NO_HISTORY
    for j in range(ndim):
        grid[j] = before[j]
        s.sides[END][j].n_segments = <int32_t> (owners[j] - s.sides[END][j].segments)
    log.axes = axes
    log.sides = sides
    log.grids = grids
    log.n = left
    s.n_segments = n
    return outcome


cdef replay_t replay_sides(axial_t *s, log_t *log, index_t *grid, index_t *starts) noexcept nogil:
    """Do `replay` whatever sides grow."""
    cdef const index_t *after
    cdef index_t before
    cdef int ndim = s.ndim, next_axis, next_side
    cdef int axis = record_of(s, s.n_segments - 1).axis, side = record_of(s, s.n_segments - 1).side
    while True:
        after = <const index_t *> log.grids if log.n else log.grid
        before = grid[axis]
        if not grows(ndim, axis, grid, after):
            return NO_HISTORY
        if ndim and side == START:
            starts[axis] += grid[axis] - before
        if log.n == 0:
            return HISTORY
        next_axis = (<const uint8_t *> log.axes)[0]
        next_side = (<const uint8_t *> log.sides)[0]
        if next_axis >= ndim or next_side > START or (next_axis == axis and next_side == side):
            return NO_HISTORY
        if s.sides[next_side][next_axis].n_segments == log.capacity[next_side * MAX_NDIM + next_axis]:
            log.axis = next_axis
            log.side = next_side
            return NEEDS_ROOM
        axis = next_axis
        side = next_side
        if not describe(s, s.n_segments, axis, side, grid, starts):
            return TOO_MANY
        note_owner(s, axis, side, s.n_segments)
        s.n_segments += 1
        log.axes += log.axes_step
        log.sides += log.sides_step
        log.grids += log.grids_step
        log.n -= 1


cdef replay_t replay(axial_t *s, log_t *log, index_t *grid, index_t *starts) noexcept nogil:
    """Describe the segments of a growth log, which found `grid` and `starts`.

    There must be room for their records.  On return `log` is the rest of the log, and `grid` and
    `starts` are the extents there.  Stops where the log is no history of growth, or where it needs
    something first: see `replay_t`.
    """
    if s.starts != NULL:
        return replay_sides(s, log, grid, starts)
    if s.ndim == 1:
        return replay_ends(s, 1, log, grid)
    if s.ndim == 2:
        return replay_ends(s, 2, log, grid)
    if s.ndim == 3:
        return replay_ends(s, 3, log, grid)
    if s.ndim == 4:
        return replay_ends(s, 4, log, grid)
    return replay_ends(s, s.ndim, log, grid)


cdef void fill_table(const axial_t *s, side_t *own, index_t first) noexcept nogil:
    """Enter the segments of a side's places from `first` on in its table; there must be room."""
    cdef int32_t *table = own.table
    cdef const int32_t *segments = own.segments
    cdef index_t start, stop = own.extent
    cdef int32_t m = own.n_segments - 1, segment
    while stop > first:
        segment = segments[m]
        start = record_of(s, segment).first if m else 0
        start = max(start, first)
        if start < stop:
            # Many segments have one place: too few for the loop, which the compiler widens.
            stop -= 1
            table[stop] = segment
            while start < stop:
                stop -= 1
                table[stop] = segment
        m -= 1


cdef index_t extent_before(const axial_t *s, int32_t n, int j, int side) noexcept nogil:
    """Return the extent of a side of axis `j` when segment n began."""
    cdef const side_t *own = &s.sides[side][j]
    # Segment 0 owns indices of every axis, but grew only axis 0.
    cdef int32_t low = j > 0 and side == END, high = own.n_segments, middle
    while low < high:
        middle = (low + high) // 2
        if own.segments[middle] < n:
            low = middle + 1
        else:
            high = middle
    return own.extent if low == own.n_segments else record_of(s, own.segments[low]).first


# -- look-up -------------------------------------------------------------------------------------


cdef object as_integer(object value):
    """Return a Python or NumPy integer as an int."""
    if PyLong_CheckExact(value):
        return value
    if isinstance(value, (bool, np.bool_)):
        raise ArgumentTypeError(f"an int is needed, not {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"an int is needed, not {value!r}") from None


cdef int as_chunk_index(object index, int ndim, const index_t *extents, index_t *chunk) except -1:
    """Read a chunk index from a Python sequence."""
    cdef int j
    try:
        n = len(index)
    except TypeError:
        raise ArgumentTypeError(f"a chunk index must be a tuple of ints, not {index!r}") from None
    if n != ndim:
        raise ShapeError(f"a chunk index needs {ndim} entries, not {n}")
    for j in range(ndim):
        i = as_integer(index[j])
        if not 0 <= i < extents[j]:
            raise BoundsError(
                f"chunk index {i} is out of bounds for axis {j} with {extents[j]} chunks")
        chunk[j] = i
    return 0


cdef inline Py_ssize_t by_tables(
    const axial_t *s, int ndim, const index_t *index, Py_ssize_t n, index_t *address
) noexcept nogil:
    """Do `addresses_of` if all axes have grown only at their ends, and have a table or one segment.

    Compiled once for each constant `ndim`.
    """
    cdef uint64_t extent[MAX_NDIM]
    cdef const int32_t *table[MAX_NDIM]
    cdef index_t mask[MAX_NDIM]
    cdef int32_t owner[AT_ONCE]
    cdef const index_t *next_index
    cdef index_t at                 # the caller's may change meanwhile; this one is checked
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
        # Find the owners first, then their records: so many loads are in flight.
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
    """Find the addresses of n chunks, whose indices count from the current first one.

    Returns the number before the first that is out of bounds.
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
    """Do `indices_of` for `ndim` axes, some grown at their `starts`; compiled for each constant."""
    cdef index_t asked[AT_ONCE]     # the caller's may change meanwhile; these are checked
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
        # Neighbours mostly share a segment; searches for others run side by side.
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
    """Find the indices of the chunks at n addresses below `size`, counted from the first one now.

    Returns the number before the first address without a chunk.
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


cdef void addresses_in_box(
    const axial_t *s, const index_t *low, const index_t *high, index_t n, index_t but,
    index_t *addresses
) noexcept nogil:
    """Find the addresses of the n chunks low ... high, except one."""
    cdef index_t chunk[MAX_NDIM]
    cdef index_t i = 0, _visited, address
    cdef int j
    memcpy(chunk, low, s.ndim * sizeof(index_t))
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
