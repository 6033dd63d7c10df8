"""`Axial`: the Python interface of the axial vectors of a grid of chunks."""

import numpy as np

from libc.stdint cimport int32_t

from ._history cimport look
from ._types cimport MAX_NDIM, index_t
from ._vectors cimport (
    END, START, address_of, addresses_in_box, addresses_of, as_chunk_index, as_integer, axial_t,
    coefficients_of, extent_of, index_at, indices_of, product, record_of, side_t,
)

from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    BoundsError,
    ReadOnlyError,
    ShapeError,
)


cdef class Axial(History):
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

    def grow(self, axis, by, side="end"):
        """Grow an axis by a number of chunks.

        Parameters
        ----------
        axis : int
            In [-ndim, ndim).
        by : int
            Chunks, at least 0.
        side : {"end", "start"}
            Place of the new chunks: after the last index, or before the first.

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
        existing chunks.  On an error nothing changes.

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
        return bool(self.grow_axis(axis, by, side))

    # -- the mapping -------------------------------------------------------------------------

    def address(self, index):
        """Return the address of a chunk: the mapping F*.

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
        cdef axial_t room
        cdef const axial_t *s = look(self, &room)
        cdef int j
        for j in range(s.ndim):
            extents[j] = extent_of(s, j)
        as_chunk_index(index, s.ndim, extents, chunk)
        for j in range(s.ndim):
            chunk[j] -= s.sides[START][j].extent
        return address_of(s, chunk)

    def index(self, address):
        """Return the index of the chunk at an address: the inverse of F*.

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
        cdef axial_t room
        cdef const axial_t *s = look(self, &room)
        cdef int j
        index_at(s, as_address(s, address), chunk)
        return tuple([chunk[j] + s.sides[START][j].extent for j in range(s.ndim)])

    def addresses(self, indices):
        """Return the addresses of many chunks.

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
            raise BoundsError(f"chunk indices were changed during the lookup, at {done}")
        return out

    def indices(self, addresses):
        """Return the chunk indices of many addresses.

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
        cdef index_t size, nothing
        cdef axial_t state
        out = np.empty((n, ndim), np.int64)
        cdef index_t[:, ::1] result = out
        if n == 0:
            return out
        self.pin(&state)
        try:
            size = product(&state)
            with nogil:
                done = indices_of(&state, size, &asked[0], n, &result[0, 0] if ndim else &nothing)
        finally:
            self.unpin()
        if done < n:
            raise BoundsError(f"address {asked[done]} is out of bounds for {size} chunks")
        return out

    def neighbours(self, address, radius=1):
        """Return the addresses of the chunks around a chunk.

        Parameters
        ----------
        address : int
            Of the chunk, in [0, size).
        radius : int or sequence of k ints
            How far the chunk indices of a neighbour may differ (along each axis), at least 0.

        Returns
        -------
        (n,) array of int64
            In increasing order, as in the file, without the chunk itself.  At the edge of the grid
            there are fewer.

        Raises
        ------
        BoundsError
            An IndexError: no chunk has this address.
        ArgumentError, ArgumentTypeError, ShapeError
            The radius is negative, not an int, or has another number of axes.

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
        cdef index_t own, n = 1, reach
        cdef const index_t[::1] reaches = _radii(radius, self.grid)
        cdef index_t[::1] found
        self.pin(&state)
        try:
            own = as_address(&state, address)
            index_at(&state, own, chunk)
            for j in range(ndim):
                reach = reaches[j]
                low[j] = max(chunk[j] - reach, -state.sides[START][j].extent)
                high[j] = min(chunk[j] + reach, state.sides[END][j].extent - 1)
                n *= high[j] - low[j] + 1       # at most the number of chunks
            out = np.empty(n - 1, np.int64)
            if n > 1:
                found = out
                with nogil:
                    addresses_in_box(&state, low, high, n, own, &found[0])
        finally:
            self.unpin()
        out.sort()
        return out

    def records(self, axis):
        """Return the axial vector of an axis: its records, ordered by start index.

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
        cdef axial_t room
        cdef const axial_t *s = look(self, &room)
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

    def __repr__(self):
        return f"<Axial: grid {self.grid}, {self.state.n_segments} segments>"


cdef index_t as_address(const axial_t *s, address) except -1:
    cdef index_t size = product(s)
    q = as_integer(address)
    if not 0 <= q < size:
        raise BoundsError(f"address {q} is out of bounds for {size} chunks")
    return q


def _radii(radius, grid):
    """Return a radius for each axis, limited to the grid."""
    ndim = len(grid)
    radii = list(radius) if np.ndim(radius) else [radius] * ndim
    if len(radii) != ndim:
        raise ShapeError(f"the radius must be an int or {ndim} ints, not {len(radii)}")
    radii = [as_integer(r) for r in radii]
    if any(r < 0 for r in radii):
        raise ArgumentError(f"the radius must be at least 0 chunks, not {radius}")
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
