"""What is known of an array: how its chunks are laid out and reached, its bounds, and its grid."""

from ._axial cimport END, START, Axial, extent_of, product
from ._mapping cimport Counter, Region, Touched, Views
from ._types cimport (
    MAX_NDIM, ceil_div, floor_div, index_t, xa_add_overflows, xa_mul_overflows,
)

from extarray.errors import ClosedError, LimitError, ReadOnlyError, ShapeError


cdef bint holding(
    index_t start, index_t stop, index_t before, index_t chunk, index_t extent, index_t limit,
    index_t *rows, index_t *total
) noexcept nogil:
    """What an axis of `extent` chunks needs to hold elements start ... stop - 1: chunks at its start,
    and chunks in all.

    `before` is what its grid has before element 0.  Returns whether all of them have fewer than
    `limit` elements.
    """
    cdef index_t end, elements
    if start <= -limit or xa_add_overflows(stop, before, &end):
        return False
    rows[0] = max(0, -floor_div(start + before, chunk))
    return not (
        xa_add_overflows(rows[0], max(extent, ceil_div(end, chunk)), total)
        or xa_mul_overflows(total[0], chunk, &elements)
        or elements >= limit)


cdef class ArrayState:
    """Layout, bounds and region of an array, and what is known of cuts."""

    def __cinit__(self, *args, **kwargs):
        self.layout.fd = -1

    def _setup(
        self, Axial axial not None, dtype, tuple chunks not None, str order, places, shape, offset
    ):
        """Set the layout and the bounds; again where the array has gained an axis.

        `places` is None for orders with strides.  What was set before lives on where transfers of
        other threads use it.  All of it changes in one step for these: once they are counted out,
        nothing runs any code of Python's.
        """
        cdef layout_t layout
        cdef index_t bounds[MAX_NDIM]
        cdef index_t extents[MAX_NDIM]
        cdef index_t origins[MAX_NDIM]
        cdef int j, i, rank = len(chunks)
        cdef index_t stride = dtype.itemsize
        cdef const index_t[::1] table
        cdef Axial old_vectors = self.vectors
        cdef Touched touched = self.touched
        old = self.kind, self.element_order, self.chunk_shape, self.places, self.touched
        layout.ndim = rank
        layout.itemsize = stride
        for i in range(rank):
            j = i if order == "F" else rank - 1 - i
            layout.fast_to_slow[i] = j
            layout.chunk[j] = chunks[j]
            layout.stride[j] = stride
            stride *= layout.chunk[j]
        layout.chunk_bytes = stride
        if touched is not None and stride != self.layout.chunk_bytes:
            touched = Touched()     # a larger chunk has parts without space
        layout.place = NULL
        if places is not None:
            table = places
            layout.place = &table[0]
            places = table
        for j in range(rank):
            bounds[j] = shape[j]
            layout.offset[j] = offset[j]
            extents[j] = extent_of(&axial.state, j)
            layout.low[j] = -axial.state.sides[START][j].extent
            origins[j] = -layout.low[j] * layout.chunk[j] - layout.offset[j]
        self.vectors = axial
        self.kind = dtype
        self.element_order = order
        self.chunk_shape = chunks
        self.places = places
        self.touched = touched
        layout.touched = touched.root if touched is not None else NULL
        layout.base = self.layout.base
        layout.fd = self.layout.fd
        layout.sparse = self.layout.sparse
        layout.hollow = self.layout.hollow
        self.layout = layout
        self.bounds = bounds
        self.extents = extents
        self.origins = origins
        self.rank = rank
        self.file_bytes = product(&axial.state) * stride
        self.changes += 1
        del old, old_vectors

    def _set_places(self, const index_t[::1] table not None):
        """Set where elements stand in a chunk, for the orders without strides."""
        self.places = table
        self.layout.place = &table[0]
        self.reads_direct = self.writes_direct = False

    @property
    def _has_places(self):
        """Whether there is such a table."""
        return self.layout.place != NULL

    def _attach(
        self, Region region, bint writable, bint sparse, bint hollow, bint durable, sums=None,
        Views views=None
    ):
        """Take the region that holds the chunks (None: closed), and what keeps their checksums.

        `views` counts those of chunks that are out.
        """
        self.is_open = region is not None
        self.is_writable = self.is_open and writable
        self.layout.base = region.base if self.is_open else NULL
        self.layout.fd = region.fd if self.is_open else -1
        # Memory has no holes.
        self.layout.sparse = sparse and self.layout.fd >= 0
        self.layout.hollow = hollow
        if self.is_writable and region.fd >= 0 and self.touched is None:
            self.touched = Touched()
        self.layout.touched = self.touched.root if self.touched is not None else NULL
        self.reads_direct = self.layout.base != NULL and self.layout.place == NULL and not hollow
        self.is_durable = durable
        self.sums = sums if self.is_writable else None
        if self.sums is not None and self.written is None:
            self.written = Touched()
            self.shown = set()
        self.writes_direct = (
            self.reads_direct and self.is_writable and not self.layout.sparse and not durable
            and self.sums is None)
        self.region = region
        self.view_region = None
        self.views = Views() if views is None else views

    def _allocate(self, low, high, index_t limit):
        """Grow the grid to hold elements low ... high - 1; returns the rows added at the starts.

        No `low`: the starts stay.  It is a LimitError where an axis would have `limit` elements,
        those beside the bounds counted; the grid may have grown along others then.
        """
        cdef index_t rows, extent, total
        cdef int j
        added = [0] * self.rank
        for j in range(self.rank):
            if low is None and high[j] <= self.bounds[j]:
                continue
            extent = extent_of(&self.vectors.state, j)
            try:
                fits = holding(
                    0 if low is None else low[j], high[j], self.layout.offset[j],
                    self.layout.chunk[j], extent, limit, &rows, &total)
            except OverflowError:
                fits = False
            if not fits:
                raise LimitError(
                    f"cannot grow axis {j} so far: with its chunks it would have 2**63 elements, or "
                    "nearly")
            if rows:
                self.vectors.extend(j, START, rows)
                added[j] = rows
            if total > rows + extent:
                self.vectors.extend(j, END, total - rows - extent)
        return tuple(added)

    def _set_bounds(self, shape, offset):
        """Publish bounds: what lies inside them is there to be read.

        `offset` is what the grid has before them along each axis, in elements.
        """
        cdef int j
        for j in range(self.rank):
            self.bounds[j] = shape[j]
            self.extents[j] = extent_of(&self.vectors.state, j)
            self.layout.offset[j] = offset[j]
            self.layout.low[j] = -self.vectors.state.sides[START][j].extent
            self.origins[j] = -self.layout.low[j] * self.layout.chunk[j] - offset[j]
        self.is_cut = False     # these are later than the inner box
        self.file_bytes = product(&self.vectors.state) * self.layout.chunk_bytes
        self.changes += 1

    def _watch(self, Counter cuts, uint64_t known, fill):
        """Take the counter of cuts (or None), and the number that the present bounds go with."""
        self.cuts = cuts
        self.fill = fill
        self._know_cuts(known, None)

    def _know_cuts(self, uint64_t known, inner):
        """Note up to which number the cuts are known, and what they left: (low, high), counted from
        where index 0 was at first, or None where that is all."""
        cdef bint is_cut = False
        cdef int j
        if inner is not None:
            for j in range(self.rank):
                self.inner_low[j] = inner[0][j]
                self.inner_high[j] = inner[1][j]
                is_cut |= (self.inner_low[j] > -self.origins[j]
                           or self.inner_high[j] < self.bounds[j] - self.origins[j])
        self.is_cut = is_cut
        self.cuts_known = known

    def _note_cut(self):
        """Tell threads that read what has been cut off that it is about to be destroyed."""
        if self.cuts is not None:
            self.cuts.increase()

    def _forget_touched(self):
        """Forget which chunks have space: a growth was undone, and took some away."""
        if self.touched is not None:
            self.touched = Touched()
            self.layout.touched = self.touched.root

    def _abandon(self, start):
        """Leave what lies behind `start` bytes of the file to views alone, without the file."""
        for region in (self.region, self.view_region):
            if region is not None:
                region.abandon(start)

    # -- what the array is -------------------------------------------------------------------

    @property
    def axial(self):
        """Axial vectors: the mapping between chunk indices and addresses.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((4, 3), chunks=(2, 2)).axial.address((1, 0))
        2
        """
        return self.vectors

    @property
    def dtype(self):
        """Data type of the elements."""
        return self.kind

    @property
    def order(self):
        """Order of the elements in a chunk: "C", "F", "Z" (Morton) or "H" (Hilbert)."""
        return self.element_order

    @property
    def shape(self):
        """Bounds: the extent of each axis, in elements.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((4, 3)).shape
        (4, 3)
        """
        cdef int j
        return tuple([self.bounds[j] for j in range(self.rank)])

    @property
    def ndim(self):
        """Number of axes."""
        return self.rank

    @property
    def size(self):
        """Number of elements inside the bounds."""
        cdef object size = 1
        cdef int j
        for j in range(self.rank):
            size *= self.bounds[j]
        return size

    @property
    def itemsize(self):
        """Bytes of an element."""
        return self.layout.itemsize

    @property
    def nbytes(self):
        """Bytes of the elements inside the bounds."""
        return self.size * self.layout.itemsize

    @property
    def chunks(self):
        """Extents of a chunk, in elements.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((4, 3), chunks=(2, 2)).chunks
        (2, 2)
        """
        return self.chunk_shape

    @property
    def chunk_bytes(self):
        """Bytes of a chunk."""
        return self.layout.chunk_bytes

    @property
    def _grid_bytes(self):
        """Bytes of all chunks that the axial vectors know, also those that are not committed."""
        return <object> product(&self.vectors.state) * <object> self.layout.chunk_bytes

    @property
    def grid(self):
        """Extents of the allocated grid, in chunks.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((4, 3), chunks=(2, 2)).grid
        (2, 2)
        """
        cdef int j
        return tuple([self.extents[j] for j in range(self.rank)])

    @property
    def origin(self):
        """Elements that each axis has grown at its start, less those that it has shrunk there.

        Index i of an axis was index ``i - origin`` when the array was created.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((4, 3))
        >>> a.extend(axis=1, by=2, side="start")
        >>> a.origin
        (0, 2)
        """
        cdef int j
        return tuple([self.origins[j] for j in range(self.rank)])

    @property
    def _frame(self):
        """Shape and origin, both of one moment: what indices mean."""
        cdef index_t bounds[MAX_NDIM]
        cdef index_t origins[MAX_NDIM]
        cdef int j, rank = self.rank
        for j in range(rank):       # making tuples may run any code
            bounds[j] = self.bounds[j]
            origins[j] = self.origins[j]
        return tuple([bounds[j] for j in range(rank)]), tuple([origins[j] for j in range(rank)])

    @property
    def _lead(self):
        """Elements of the first chunk of each axis that lie before index 0."""
        cdef int j
        return tuple([self.layout.offset[j] % self.layout.chunk[j] for j in range(self.rank)])

    @property
    def closed(self):
        """Whether `close` was called."""
        return not self.is_open

    def __len__(self):
        if self.rank == 0:
            raise TypeError("len() of unsized object")
        return self.bounds[0]

    @property
    def _is_mapped(self):
        """Whether transfers are loads and stores, and no system calls."""
        return self.layout.base != NULL

    @property
    def _region(self):
        """The region that transfers use."""
        return self.region

    @property
    def _changes(self):
        """A number that differs where elements or bounds may; None where nobody can say."""
        return None if self.lent else self.changes

    # -- checks ------------------------------------------------------------------------------

    def _name(self):
        """What messages call the array; the class that derives from this one knows better."""
        return "the array"

    def _read_only(self, what):
        """The error for what would change an array that is open for reading."""
        return ReadOnlyError(
            f"cannot {what} {self._name()}: opened with mode 'r'; reopen with mode='r+'")

    cdef int _check_open(self) except -1:
        if not self.is_open:
            raise ClosedError(f"{self._name()} is closed; open it again with extarray.open")
        return 0

    cdef int _check_rank(self, int rank) except -1:
        """Refuse what was made ready for an array of another rank; ranks only ever grow."""
        if rank != self.rank:
            raise ShapeError(
                f"{self._name()} has gained an axis while a selection or a view of it was in use: it "
                f"has {self.rank} axes now, and had {rank}; make it anew")
        return 0

    cdef int _check_writable(self) except -1:
        self._check_open()
        if not self.is_writable:
            raise self._read_only("write to")
        self.changes += 1       # whoever asks is about to write
        return 0

    def _check_axes(self, int ndim):
        """Refuse to go on where the array has another number of axes."""
        self._check_rank(ndim)
