"""Queries: elements selected by points, masks and progressions, moved chunk by chunk.

A query is the outer product of factors.  A factor selects points on some axes of the array: an
arithmetic progression on one axis (a slice), a list of points on any number of axes (arrays of
indices, one index per axis and point), or the true places of a mask.  NumPy's advanced indexing is
one list and some progressions, orthogonal indexing one list per axis, pointwise indexing one list.

Each factor is sorted into parts, one per chunk that it meets.  A combination of parts is a visit to
one chunk.  Visits are made in the order of addresses, each chunk once, by any number of threads.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

cimport numpy as cnp

from ._axial cimport Axial
from ._copy cimport most_pieces, piece_t, split_axis
from ._lists cimport (
    OUT_OF_BOUNDS, TOO_MANY, list_mask, list_places, list_points, mask_t, merge_dims, places_t, points_t,
    count_rows, set_list,
)
from ._visits cimport factor_t, part_t, query_t
from ._types cimport MAX_NDIM, index_t
from ._visits cimport sort_visits

from extarray.common.errors import BoundsError, SelectionError

cnp.import_array()

cdef extern from "_gather.h":
    void *xa_table(size_t n, size_t size) noexcept nogil


cdef int check_listed(int failure, index_t n) except -1:
    """Raise for a failure to make a list of `n` elements."""
    if failure == OUT_OF_BOUNDS:
        raise BoundsError("an array of indices changed during use, to one out of bounds")
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


cdef class QueryTables:
    """The tables by which a query is run: owns their memory, and pins the axial vectors."""

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

    cdef int add(self, factor, tuple strides) except -1:
        """Add a factor of `extarray.selection`.

        `strides` are the user's bytes between elements, along each dimension of the result.
        """
        cdef str kind = factor.kind
        if kind == "progression":
            self.add_progression(
                factor.axis, factor.start, factor.step, factor.count,
                strides[factor.dim] if factor.dim >= 0 else 0)
        elif kind == "points":
            self.add_points(factor.axes, factor.indices, tuple([strides[d] for d in factor.dims]))
        elif kind == "places":
            self.add_places(
                factor.axis, factor.start, factor.extents, factor.places, strides[factor.dim])
        else:
            self.add_mask(
                factor.axis, factor.start, factor.mask, factor.count, strides[factor.dim])
        return 0

    cdef int add_progression(
        self, int axis, index_t start, index_t step, index_t count, index_t user_step
    ) except -1:
        """Add the indices `start`, `start + step`, ... of an axis; a negative step runs backwards.
        """
        cdef query_t *q = &self.query
        cdef factor_t *f = self._new_factor(1)
        cdef index_t chunk = q.layout.chunk[axis], most, i
        cdef piece_t *pieces
        if count <= 1:
            step = 1            # a lone index may have any step
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
            f.n_parts = split_axis(&q.axial, &q.layout, axis, start, step, count, pieces)
            for i in range(f.n_parts):
                f.chunk[i] = pieces[i].chunk
                f.parts[i].first = pieces[i].first * q.unit[axis]
                f.parts[i].count = pieces[i].count
                f.parts[i].user = pieces[i].position * user_step
                f.parts[i].segment = pieces[i].segment
        free(pieces)
        return 0

    cdef int add_points(self, tuple axes, tuple indices, tuple user_steps) except -1:
        """Add points: the i-th entries of all arrays, in C order, are a point on the axes.

        The arrays are of intp, of one shape and not empty.  Indices were checked; one that has gone
        out of bounds since is a `BoundsError`.
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
        return check_listed(failure, points.n)

    cdef int add_places(
        self, int axis, tuple start, tuple extents, const int64_t[::1] places, index_t user_step
    ) except -1:
        """Add places in a box, numbered in its C order and in rising order.

        The box lies on axes from `axis` on.  The places must not change meanwhile.
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
            box.start[d] = start[d]
            box.extent[d] = extents[d]
        f.list.user_step = user_step
        with nogil:
            failure = list_places(q, f, &box)
        return check_listed(failure, box.n)

    cdef int add_mask(
        self, int axis, tuple start, cnp.ndarray mask, index_t count, index_t user_step
    ) except -1:
        """Add the true places of a mask, in C order.

        The mask has at least one axis and lies on axes from `axis` on.  It is read twice and must
        not change meanwhile: a number of true places other than `count` is a `SelectionError`.
        """
        cdef query_t *q = &self.query
        cdef factor_t *f = self._new_factor(mask.ndim)
        cdef mask_t m
        cdef index_t most = 1, n_pieces = 0, rows = 1, found
        cdef int d, failure = 0
        cdef piece_t *pieces
        m.ndim = mask.ndim
        m.data = <const uint8_t *> mask.data
        for d in range(m.ndim):
            f.axis[d] = axis + d
            m.step[d] = mask.strides[d]
            m.count[d] = mask.shape[d]
            m.n_pieces[d] = most_pieces(1, m.count[d], q.layout.chunk[axis + d])
            n_pieces += m.n_pieces[d]
            most *= m.n_pieces[d]
            if d < m.ndim - 1:
                rows *= m.count[d]
        f.list.user_step = user_step
        if set_list(q, f, count) < 0:
            check_listed(TOO_MANY, count)
        f.parts = <part_t *> allocate(most, sizeof(part_t))
        f.chunk = <index_t *> allocate(most, m.ndim * sizeof(index_t))
        m.pieces[0] = pieces = <piece_t *> allocate(n_pieces, sizeof(piece_t))
        m.before = NULL
        try:
            m.before = <index_t *> allocate(rows * m.n_pieces[m.ndim - 1], sizeof(index_t))
            for d in range(m.ndim):
                m.pieces[d] = pieces
                m.n_pieces[d] = split_axis(
                    &q.axial, &q.layout, axis + d, start[d], 1, m.count[d], pieces)
                pieces += m.n_pieces[d]
            with nogil:
                found = count_rows(&m)
                if found == count:
                    failure = list_mask(q, f, &m, found)
        finally:
            free(m.pieces[0])
            free(m.before)
        if found != count:
            raise SelectionError(
                f"a mask changed during use: {count} of its elements were true, now {found} are")
        return check_listed(failure, count)

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
