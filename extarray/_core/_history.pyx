"""The growth history of a grid of chunks: its memory, growth, and the replay of the growth log.

Growth adds segments and changes none, so every address stays as it is (I1).

While kernels read the memory, growth appends to it, lengthens tables behind their published length,
or installs new memory and retires the old until the last kernel has left.  Without the GIL, retired
memory lives as long as the vectors, since frames copy the struct that points to it; it totals at
most a few times the memory in use.
"""

import operator

import numpy as np

cimport cython
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from ._types cimport FREE_THREADS, MAX_NDIM, index_t, xa_add_overflows
from ._vectors cimport (
    END, NEEDS_ROOM, NEEDS_STARTS, NO_HISTORY, START, TOO_MANY, as_integer, axial_t, describe,
    extent_before, extent_of, fill_table, grid_of, log_t, note_owner, product, record_of, record_t,
    replay, replay_t, side_t, too_many,
)

from extarray.common.errors import (
    ArgumentError,
    AxisError,
    BoundsError,
    CorruptError,
    LimitError,
)

# A table is built below the first bound and dropped above the second, far apart, so that no history
# makes it come and go.
cdef index_t BUILD_FACTOR = 64, BUILD_FLOOR = 4096
cdef index_t DROP_FACTOR = 256, DROP_FLOOR = 16384


cdef class History:
    """The segments of a grid of chunks, and the resulting grid."""

    def __cinit__(self, grid):
        cdef index_t extent, last
        cdef int j
        extents = [operator.index(n) for n in grid]
        if len(extents) > MAX_NDIM:
            raise ArgumentError(f"{len(extents)} axes; at most {MAX_NDIM} are supported")
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
        free(self.state.start_address)  # and the records in the same block, see _make_room
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
        if FREE_THREADS:
            with cython.critical_section(self):
                state[0] = self.state
            return 0
        state[0] = self.state
        self.n_pins += 1
        return 0

    cdef int unpin(self) except -1:
        if FREE_THREADS:
            return 0
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
        """Free memory as soon as no kernel reads it."""
        if old != NULL and (FREE_THREADS or self.n_pins):
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
        cdef axial_t *s = &self.state
        cdef axial_t old
        cdef size_t n = s.n_segments, ndim = s.ndim, wanted = n + more, capacity
        if more > 0x7FFFFFFF - s.n_segments:
            raise LimitError("the array has the maximum of 2**31 - 1 segments; copy it to a new array")
        if s.n_segments + more <= self.segment_capacity:
            return 0
        # A replay leaves room, too: the first growth after it would copy the whole history.
        capacity = max(<size_t> 4, min(wanted + wanted // 2, <size_t> 0x7FFFFFFF))
        old = s[0]
        if s.starts != NULL:
            s.starts = <index_t *> self._resized(
                s.starts, n * ndim * sizeof(index_t), capacity * ndim * sizeof(index_t))
        # One block of memory holds both.
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
        """From now on keep the extents that segments find at the starts; so far all were 0."""
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
        if not describe(s, n, axis, side, grid, starts):
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
        """Make room for more segments that introduce indices on a side of an axis."""
        cdef side_t *own = &self.state.sides[side][axis]
        cdef index_t m = own.n_segments, wanted = m + more, capacity
        if wanted > self.side_capacity[side][axis]:
            capacity = max(4, min(2 * wanted, 0x7FFFFFFF))      # as in `_make_room`
            own.segments = <int32_t *> self._resized(
                own.segments, m * sizeof(int32_t), capacity * sizeof(int32_t))
            self.side_capacity[side][axis] = <int32_t> capacity
        return 0

    cdef int _lengthen(self, int axis, int side, index_t by) except -1:
        """Lengthen the last segment, which belongs to this side of `axis`."""
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
        """Update the table of a side for places from `first` on."""
        cdef axial_t *s = &self.state
        cdef side_t *own = &s.sides[side][axis]
        cdef index_t extent = own.extent, n = own.n_segments, capacity
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
        elif first == 0 and (FREE_THREADS or self.n_pins):
            # A kernel may still read the table that was dropped.
            own.table = <int32_t *> self._resized(
                own.table, 0, self.table_capacity[side][axis] * sizeof(int32_t))
        fill_table(s, own, first)
        own.table_length = extent
        return 0

    cdef bint grow_axis(self, object axis, object by, object side) except -1:
        """Grow an axis; return whether a segment was added."""
        cdef int j = self._axis(axis), which
        if side == "end":
            which = END
        elif side == "start":
            which = START
        else:
            raise ArgumentError(f"side {side!r} is not valid; use 'end' or 'start'")
        by = as_integer(by)
        if by < 0:
            raise ArgumentError(f"cannot grow axis {j} by {by} chunks: give at least 0")
        if by >= 2**63:
            raise LimitError(f"axis {j} cannot have more than 2**63 - 1 chunks")
        if by == 0:
            return False
        with cython.critical_section(self):
            return self.extend(j, which, by)

    cdef bint extend(self, int axis, int side, index_t by) except -1:
        """Grow a side of an axis by at least one chunk; return whether a segment was added."""
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

    def _grid_after(self, segment):
        """Return a segment's effect on the grid: the axis and the side that grew (0: the end, 1:
        the start), and the start and the stop of the grid after it, in today's chunk indices.

        Examples
        --------
        >>> history = History((4, 3))
        >>> grow_by(history, [(1, 2, "end"), (0, 1, "start")])
        >>> history._grid_after(1), history._grid_after(2)
        ((1, 0, (1, 0), (5, 5)), (0, 1, (0, 0), (5, 5)))
        """
        cdef axial_t room
        cdef const axial_t *s = look(self, &room)
        cdef int32_t n = segment_number(s, segment)
        cdef int j
        start = []
        stop = []
        for j in range(s.ndim):
            zero = s.sides[START][j].extent
            start.append(zero - extent_before(s, n + 1, j, START))
            stop.append(zero + extent_before(s, n + 1, j, END))
        return record_of(s, n).axis, record_of(s, n).side, tuple(start), tuple(stop)

    cdef int _axis(self, object axis) except -1:
        axis = as_integer(axis)
        if not -self.state.ndim <= axis < self.state.ndim:
            raise AxisError(axis, self.state.ndim)
        return axis % self.state.ndim

    cdef tuple _extents(self, int side):
        cdef tuple extents = PyTuple_New(self.state.ndim)
        cdef axial_t room
        cdef const axial_t *s = look(self, &room)
        cdef int j
        for j in range(s.ndim):
            extent = <object> s.sides[side][j].extent
            Py_INCREF(extent)       # the tuple takes this reference
            PyTuple_SET_ITEM(extents, j, extent)
        return extents

    @property
    def grid(self):
        """Extents of the allocated grid, in chunks.

        Examples
        --------
        >>> History((4, 3)).grid
        (4, 3)
        """
        cdef axial_t room
        return grid_of(look(self, &room))

    @property
    def ndim(self):
        """Number of axes, k."""
        return self.state.ndim

    @property
    def size(self):
        """Number of chunks: the least address that no chunk has."""
        cdef axial_t room
        return product(look(self, &room))

    @property
    def segments(self):
        """Number of segments, the initial one included."""
        return self.state.n_segments


cdef int32_t segment_number(const axial_t *s, segment) except -1:
    cdef Py_ssize_t n = segment
    if not 0 <= n < s.n_segments:
        raise BoundsError(f"segment {segment} is out of bounds for {s.n_segments} segments")
    return <int32_t> n


# -- for the array that owns the vectors, and for its store ----------------------------------------


def claim(History self not None):
    """Make `grow` refuse from now on: an array keeps its chunks in step with these vectors."""
    self.owned = True


def grow_by(History self not None, steps):
    """Grow by steps (axis, by, side), each as in `grow`, for the array that owns the vectors.

    On an error, the steps before it have been taken.
    """
    for axis, by, side in steps:
        self.grow_axis(axis, by, side)


def mark_of(History self not None):
    """Describe the present state for `roll_back`.

    Examples
    --------
    >>> history = History((2, 2))
    >>> mark = mark_of(history)
    >>> grow_by(history, [(1, 3, "end")])
    >>> roll_back(history, mark)
    >>> history.grid, history.segments
    ((2, 2), 1)
    """
    return self.state.n_segments, self._extents(END), self._extents(START)


def roll_back(History self not None, mark):
    """Undo all growth since `mark_of`, after a growth that failed before its commit."""
    with cython.critical_section(self):
        take_back(self, mark)


cdef int take_back(History self, mark) except -1:
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
            if self.n_pins:
                # The next growth takes new memory: kernels may search these segments, too.
                self.side_capacity[side][j] = own.n_segments
    if self.n_pins:
        self.segment_capacity = s.n_segments
    return 0


def record_at(History self not None, segment):
    """Return a segment's record in the growth log: its axis, its side (0: the end, 1: the start),
    and the grid before it.

    Examples
    --------
    >>> history = History((4, 3))
    >>> grow_by(history, [(1, 2, "end"), (0, 1, "start")])
    >>> record_at(history, 0), record_at(history, 1), record_at(history, 2)
    ((0, 0, (0, 3)), (1, 0, (4, 3)), (0, 1, (4, 5)))
    """
    cdef axial_t room
    cdef const axial_t *s = look(self, &room)
    cdef int32_t n = segment_number(s, segment)
    cdef int j
    grid = tuple(
        [extent_before(s, n, j, END) + extent_before(s, n, j, START) for j in range(s.ndim)])
    return record_of(s, n).axis, record_of(s, n).side, grid


def records_from(History self not None, first):
    """Return the records of the growth log from segment `first` on, as arrays.

    They are the axes, the sides (0: the end, 1: the start), and the grids before the segments, as
    `replay_log` takes them.  O(k) a segment, where `record_at` takes O(k log E).

    Examples
    --------
    >>> history = History((4, 3))
    >>> grow_by(history, [(1, 2, "end"), (0, 1, "start")])
    >>> axes, sides, grids = records_from(history, 1)
    >>> axes.tolist(), sides.tolist(), grids.tolist()
    ([1, 0], [0, 1], [[4, 3], [4, 5]])
    """
    cdef axial_t s
    cdef const record_t *record
    cdef index_t extents[2][MAX_NDIM]
    cdef uint8_t[::1] some_axes
    cdef uint8_t[::1] some_sides
    cdef index_t[:, ::1] some_grids
    cdef Py_ssize_t start = first, n, i
    cdef int j, ndim
    self.pin(&s)
    try:
        n = s.n_segments - start
        if start < 0 or n < 0:
            raise BoundsError(f"segment {first} is out of bounds for {s.n_segments} segments")
        ndim = s.ndim
        axes = np.empty(n, np.uint8)
        sides = np.empty(n, np.uint8)
        grids = np.empty((n, ndim), np.int64)
        some_axes, some_sides, some_grids = axes, sides, grids
        for j in range(ndim):
            extents[END][j] = s.sides[END][j].extent
            extents[START][j] = s.sides[START][j].extent
        # Backwards: a segment knows the extent that it found on its side.
        for i in range(n - 1, -1, -1):
            record = record_of(&s, <int32_t> (start + i))
            some_axes[i] = record.axis
            some_sides[i] = record.side
            extents[record.side][record.axis] = record.first
            for j in range(ndim):
                some_grids[i, j] = extents[END][j] + extents[START][j]
    finally:
        self.unpin()
    return axes, sides, grids


def with_axis(History self not None, position):
    """Return the axial vectors with one more axis, along which every chunk has index 0.

    They have the same segments, and the same address for every chunk.  O(E k) for E segments.
    These vectors stay unchanged, so readers may go on using them.

    Examples
    --------
    >>> history = History((4, 3))
    >>> grow_by(history, [(1, 2, "end")])
    >>> wider = with_axis(history, 0)
    >>> wider.grid, wider.segments
    ((1, 4, 5), 2)
    """
    axes, sides, grids = records_from(self, 0)
    at = position
    axes += axes >= at
    grids = np.insert(grids, at, 1, 1)
    grid = [*self.grid[:at], 1, *self.grid[at:]]
    # The initial segment is a growth of axis 0 from nothing to its extent when the next one began.
    if at == 0 and self.ndim:
        grids[0, 1] = grids[1, 1] if len(axes) > 1 else grid[1]
    axes[0] = 0
    grids[0, 0] = 0
    return replay_log(type(self), axes, sides, grids, grid)


def replay_log(
    type kind not None, const uint8_t[:] axes not None, const uint8_t[:] sides not None,
    const index_t[:, :] grids not None, grid
):
    """Return the axial vectors, of a `kind` that derives from `History`, from a growth log.

    The log has the axis of each segment, its side (0: the end, 1: the start), the grid before it,
    and the final grid.  Raises a `CorruptError` if it is not a history of growth.

    Examples
    --------
    >>> history = replay_log(History,
    ...     np.array([0, 1], np.uint8), np.zeros(2, np.uint8), np.array([[0, 3], [4, 3]]), (4, 5))
    >>> history.grid, history.segments
    ((4, 5), 2)
    """
    cdef History self
    cdef Py_ssize_t ndim = len(grid), j
    cdef index_t least = 0
    # The initial segment is a growth of axis 0 from nothing.
    if (axes.shape[0] == 0 or axes[0] != 0 or sides.shape[0] == 0 or sides[0] != 0
            or grids.shape[0] == 0 or grids.shape[1] != ndim or (ndim > 0 and grids[0, 0] != 0)):
        raise CorruptError("the growth log does not begin with the initial segment")
    first = []
    for j in range(ndim):
        first.append(grids[0, j])
        least = min(least, grids[0, j])
    if least < 0:
        raise CorruptError("the growth log does not begin with the initial segment")
    try:
        self = kind.__new__(kind, first)
    except LimitError as error:
        raise CorruptError(f"the growth log is not a valid history of growth: {error}") from None
    add_segments(self, axes[1:], sides[1:], grids[1:], grid)
    return self


def replay_more(
    History self not None, const uint8_t[:] axes not None, const uint8_t[:] sides not None,
    const index_t[:, :] grids not None, grid
):
    """Replay segments that a growth log, as for `replay_log`, has gained.

    The first one given follows the last one known.  On an error nothing changes.

    Examples
    --------
    >>> history = History((4, 3))
    >>> replay_more(history,
    ...     np.array([1], np.uint8), np.array([0], np.uint8), np.array([[4, 3]]), (4, 5))
    >>> history.grid
    (4, 5)
    """
    add_segments(self, axes, sides, grids, grid)


cdef int add_segments(
    History self, const uint8_t[:] axes, const uint8_t[:] sides, const index_t[:, :] grids, grid
) except -1:
    """Do `replay_more`."""
    cdef axial_t *s = &self.state
    cdef index_t extents[MAX_NDIM]      # of the grid, before and after
    cdef index_t last_grid[MAX_NDIM]
    cdef index_t starts[MAX_NDIM]
    cdef index_t known[2][MAX_NDIM]     # extents of the sides, before
    cdef log_t log
    cdef Py_ssize_t n = axes.shape[0]
    cdef int ndim = s.ndim, j, side
    cdef replay_t outcome
    if (sides.shape[0] != n or grids.shape[0] != n or (n and grids.shape[1] != ndim) or len(grid) != ndim
            or (n and ndim > 1 and grids.strides[1] != sizeof(index_t))):
        raise CorruptError("the growth log belongs to another array")
    for j in range(ndim):
        last_grid[j] = grid[j]
        extents[j] = extent_of(s, j)
        starts[j] = s.sides[START][j].extent
        for side in range(2):
            known[side][j] = s.sides[side][j].extent
    log.n = n
    log.axes = <const char *> &axes[0] if n else NULL
    log.sides = <const char *> &sides[0] if n else NULL
    log.grids = <const char *> &grids[0, 0] if n and ndim else NULL
    log.axes_step = axes.strides[0]
    log.sides_step = sides.strides[0]
    log.grids_step = grids.strides[0]
    log.grid = last_grid
    log.capacity = &self.side_capacity[0][0]
    mark = mark_of(self)
    with cython.critical_section(self):
        try:
            self._make_room(min(n, 0x7FFFFFFF))
            while True:
                outcome = replay(s, &log, extents, starts)
                if outcome == NEEDS_ROOM:
                    self._make_room_for_owners(log.axis, log.side, 1)
                elif outcome == NEEDS_STARTS:
                    self._note_starts()
                else:
                    break
            if outcome == NO_HISTORY:
                raise CorruptError(
                    f"the growth log is not a valid history of growth at segment {s.n_segments}")
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
            take_back(self, mark)
            raise CorruptError(f"the growth log is not a valid history of growth: {error}") from None
        except BaseException:
            take_back(self, mark)
            raise


def starts_after(History self not None, axes, sides, grids, grid):
    """Return the chunks at the start of each axis, after a growth log that is not replayed here.

    Parameters are those of `replay_more`.

    Examples
    --------
    >>> history = History((4, 3))
    >>> starts_after(history,
    ...     np.array([1], np.uint8), np.array([1], np.uint8), np.array([[4, 3]]), (4, 5))
    [0, 2]
    """
    cdef axial_t room
    cdef const axial_t *s = look(self, &room)
    starts = list(self._extents(START))
    last = record_of(s, s.n_segments - 1).axis
    side = record_of(s, s.n_segments - 1).side
    before = grid_of(s)
    for next_axis, next_side, after in [*zip(axes, sides, grids), (0, 0, grid)]:
        if side == START:
            starts[last] += int(after[last]) - int(before[last])
        last, side, before = int(next_axis), next_side, after
    return starts
