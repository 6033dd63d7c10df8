"""The state of an array: how its chunks are laid out and reached, its bounds, and its grid.

Whatever of it a transfer uses is in one object, a `Frame`.  It is taken in one step, before the GIL is
given up, and nothing else of the array is looked at until the transfer has ended.
"""

cimport cython
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM

from ._axial cimport Axial
from ._vectors cimport START, extent_of, product
from ._mapping cimport Counter, Region, Touched, Users
from ._types cimport MAX_NDIM, index_t

from extarray.common.errors import ClosedError, ShapeError


cdef tuple as_tuple(const index_t *values, int n):
    cdef tuple result = PyTuple_New(n)
    cdef int j
    for j in range(n):
        value = <object> values[j]
        Py_INCREF(value)        # of which the tuple takes possession
        PyTuple_SET_ITEM(result, j, value)
    return result


@cython.final
@cython.freelist(2)      # a growth makes one, and the one before goes
cdef class Frame:
    """An array as it is at one moment: what indices mean, and where the elements are."""

    def __dealloc__(self):
        if self.epoch is not None:
            self.epoch.n_users -= 1

    cdef Frame copied(self):
        """Copy all but the epoch, for an array that is about to change."""
        cdef Frame copy = Frame.__new__(Frame)
        # Making an object may run any code, also code that changes the array: it comes first.
        copy.now = self.now
        copy.vectors = self.vectors
        copy.region = self.region
        copy.touched = self.touched
        copy.kind = self.kind
        copy.element_order = self.element_order
        copy.chunk_shape = self.chunk_shape
        copy.places = self.places
        copy.cuts = self.cuts
        copy.fill = self.fill
        copy.sums = self.sums
        copy.trust = self.trust
        return copy

    @property
    def ndim(self):
        """Number of axes."""
        return self.now.layout.ndim

    @property
    def shape(self):
        """Bounds, in elements."""
        return as_tuple(self.now.bounds, self.now.layout.ndim)

    @property
    def origin(self):
        """Elements that each axis has grown at its start, less those that it has shrunk there."""
        return as_tuple(self.now.origins, self.now.layout.ndim)

    @property
    def offset(self):
        """Elements that the grid has before the bounds."""
        return as_tuple(self.now.layout.offset, self.now.layout.ndim)

    @property
    def chunks(self):
        """Extents of a chunk, in elements."""
        return self.chunk_shape


# What an array shows that is still to be made: it is closed.
cdef Frame nothing = Frame.__new__(Frame)
nothing.now.layout.fd = -1


cdef int publish_bounds(Frame frame, const index_t *bounds) except -1:
    """Set what follows from bounds, the offsets in the layout, and the axial vectors."""
    cdef layout_t *layout = &frame.now.layout
    cdef int j
    for j in range(layout.ndim):
        frame.now.bounds[j] = bounds[j]
        frame.now.extents[j] = extent_of(&frame.vectors.state, j)
        layout.low[j] = -frame.vectors.state.sides[START][j].extent
        frame.now.origins[j] = -layout.low[j] * layout.chunk[j] - layout.offset[j]
    frame.now.is_cut = False        # these are later than the inner box
    frame.now.file_bytes = product(&frame.vectors.state) * layout.chunk_bytes
    return 0


@cython.final
cdef class Trust:
    """The chunks that need not be compared with their checksums any more, by whatever object."""

    def __cinit__(self, index_t n_stored):
        self.known = Touched()
        self.n_stored = n_stored


@cython.final
cdef class Writes:
    """The writes to an array whose chunks have checksums, by whatever object of it."""

    def __cinit__(self):
        self.written = Touched()
        self.shown = set()


cdef class ArrayState:
    """An array as it is now: a frame, which every change replaces by another."""

    def __cinit__(self, *args, **kwargs):
        self.frame = nothing

    cdef int show(self, Frame frame) except -1:
        """Be what a new frame says, from now on: one step for other threads."""
        cdef Frame before = self.frame
        if self.users is not None:
            frame.epoch = self.users.last
            frame.epoch.n_users += 1
        self.frame = frame
        del before      # which may run any code
        return 0

    def _serve(self, host not None):
        """Take what is asked from now on for all that the core cannot tell by itself.

        It is given the array with each question, and need not know which arrays it has.
        """
        self.host = host

    def _setup(
        self, Axial axial not None, dtype, tuple chunks not None, str order, tuple slow_to_fast not None,
        places, shape, offset
    ):
        """Set the layout and the bounds; again where the array has gained an axis.

        Strides follow from `slow_to_fast`, the axes of a chunk by falling stride; `order` is a name.
        `places` is None for orders with strides, and as long as there is no chunk.  Transfers of other
        threads go on with what was set before.
        """
        cdef layout_t layout
        cdef index_t bounds[MAX_NDIM]
        cdef Frame frame
        cdef Touched fresh = Touched()
        cdef int j, i, ndim = len(chunks)
        cdef index_t stride = dtype.itemsize
        cdef const index_t[::1] table
        layout.ndim = ndim
        layout.itemsize = stride
        for i in range(ndim):
            j = slow_to_fast[ndim - 1 - i]
            layout.fast_to_slow[i] = j
            layout.chunk[j] = chunks[j]
            layout.stride[j] = stride
            stride *= layout.chunk[j]
        layout.chunk_bytes = stride
        layout.place = NULL
        if places is not None:
            table = places
            layout.place = &table[0]
            places = table
        for j in range(ndim):
            bounds[j] = shape[j]
            layout.offset[j] = offset[j]
        frame = self.frame.copied()
        if frame.touched is not None and stride != frame.now.layout.chunk_bytes:
            frame.touched = fresh       # a larger chunk has parts without space
        layout.touched = frame.touched.root if frame.touched is not None else NULL
        layout.base = frame.now.layout.base
        layout.pages = frame.now.layout.pages
        layout.blocks = frame.now.layout.blocks
        layout.fd = frame.now.layout.fd
        layout.start = frame.now.layout.start
        layout.sparse = frame.now.layout.sparse
        layout.hollow = frame.now.layout.hollow
        frame.now.layout = layout
        frame.vectors = axial
        frame.kind = dtype
        frame.element_order = order
        frame.chunk_shape = chunks
        frame.places = places
        publish_bounds(frame, bounds)
        self.changes += 1
        self.show(frame)

    def _set_places(self, const index_t[::1] table not None):
        """Set where elements stand in a chunk, for the orders without strides."""
        cdef object places = table
        cdef Frame frame = self.frame.copied()
        frame.places = places
        frame.now.layout.place = &table[0]
        frame.now.reads_direct = frame.now.writes_direct = False
        self.show(frame)

    @property
    def _has_places(self):
        """True if a table says where elements stand in a chunk."""
        return self.frame.now.layout.place != NULL

    def _attach(
        self, Region region, bint writable, bint sparse, bint hollow, bint durable, sums=None,
        Users users=None, Trust trust=None, bint verifies=False
    ):
        """Take the region that holds the chunks (None: closed), and what keeps their checksums.

        `users` are those of the chunks, which a store asks for before it gives any back.  Chunks that
        `trust` does not know are verified before they are written to in part; if it `verifies`, also
        before they are read.
        """
        cdef Touched touched = Touched()
        cdef Writes writes = Writes()
        cdef Users own = Users() if users is None else users
        cdef Frame frame = self.frame.copied()
        cdef bint is_open = region is not None
        frame.now.is_writable = is_open and writable
        frame.now.layout.base = region.base if is_open else NULL
        frame.now.layout.pages = region.pages if is_open else NULL
        frame.now.layout.blocks = region.blocks if is_open else NULL
        frame.now.layout.fd = region.fd if is_open else -1
        frame.now.layout.start = region.start if is_open else 0
        # Memory has no holes.
        frame.now.layout.sparse = sparse and frame.now.layout.fd >= 0
        frame.now.layout.hollow = hollow
        if frame.now.is_writable and region.fd >= 0 and frame.touched is None:
            frame.touched = touched
        frame.now.layout.touched = frame.touched.root if frame.touched is not None else NULL
        frame.trust = trust
        frame.now.verifies = verifies and trust is not None
        frame.now.reads_direct = (
            frame.now.layout.base != NULL and frame.now.layout.place == NULL and not hollow
            and not frame.now.verifies)
        frame.now.is_durable = durable
        frame.sums = sums if frame.now.is_writable else None
        if sums is not None and self.writes is None:
            self.writes = writes
        frame.now.writes_direct = (
            frame.now.reads_direct and frame.now.is_writable and not frame.now.layout.sparse
            and not durable and frame.sums is None)
        frame.region = region
        if not is_open:
            frame.cuts = None
        self.view_region = None
        self.users = own
        self.show(frame)

    @property
    def _original(self):
        """The array that this one shows as it was; None where this is no such array."""
        return self.original

    def _set_bounds(self, shape, offset):
        """Publish bounds: what lies inside them is there to be read.

        `offset` is what the grid has before them along each axis, in elements.
        """
        cdef index_t bounds[MAX_NDIM]
        cdef index_t before[MAX_NDIM]
        cdef Frame frame
        cdef int j
        for j in range(self.frame.now.layout.ndim):
            bounds[j] = shape[j]
            before[j] = offset[j]
        frame = self.frame.copied()
        for j in range(frame.now.layout.ndim):
            frame.now.layout.offset[j] = before[j]
        publish_bounds(frame, bounds)
        self.changes += 1
        self.show(frame)

    def _watch(self, Counter cuts, uint64_t known, fill):
        """Take the counter of cuts (or None), and the number that the present bounds go with."""
        cdef Frame frame = self.frame.copied()
        frame.cuts = cuts
        frame.fill = fill
        frame.now.cuts_known = known
        frame.now.is_cut = False
        self.show(frame)

    def _know_cuts(self, uint64_t known, inner):
        """Note up to which number the cuts are known, and what they left: (low, high), counted from
        where index 0 was at first, or None where that is all."""
        cdef index_t low[MAX_NDIM]
        cdef index_t high[MAX_NDIM]
        cdef bint is_cut = False
        cdef Frame frame
        cdef int j
        if inner is not None:
            for j in range(self.frame.now.layout.ndim):
                low[j] = inner[0][j]
                high[j] = inner[1][j]
        frame = self.frame.copied()
        if inner is not None:
            for j in range(frame.now.layout.ndim):
                frame.now.inner_low[j] = low[j]
                frame.now.inner_high[j] = high[j]
                is_cut |= (low[j] > -frame.now.origins[j]
                           or high[j] < frame.now.bounds[j] - frame.now.origins[j])
        frame.now.is_cut = is_cut
        frame.now.cuts_known = known
        self.show(frame)

    def _forget_touched(self):
        """Forget which chunks have space: a growth was undone, and took some away."""
        cdef Touched fresh
        cdef Frame frame
        if self.frame.touched is not None:
            fresh = Touched()
            frame = self.frame.copied()
            frame.touched = fresh
            frame.now.layout.touched = fresh.root
            self.show(frame)

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
        return self.frame.vectors

    @property
    def dtype(self):
        """Data type of the elements."""
        return self.frame.kind

    @property
    def order(self):
        """Order of the elements in a chunk: "C", "F", "Z" (Morton) or "H" (Hilbert)."""
        return self.frame.element_order

    @property
    def shape(self):
        """Bounds: the extent of each axis, in elements.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((4, 3)).shape
        (4, 3)
        """
        cdef Frame frame = self.frame
        return as_tuple(frame.now.bounds, frame.now.layout.ndim)

    @property
    def ndim(self):
        """Number of axes."""
        return self.frame.now.layout.ndim

    @property
    def size(self):
        """Number of elements inside the bounds."""
        cdef Frame frame = self.frame
        cdef object size = 1
        cdef int j
        for j in range(frame.now.layout.ndim):
            size *= frame.now.bounds[j]
        return size

    @property
    def itemsize(self):
        """Bytes of an element."""
        return self.frame.now.layout.itemsize

    @property
    def nbytes(self):
        """Bytes of the elements inside the bounds."""
        return self.size * self.frame.now.layout.itemsize

    @property
    def chunks(self):
        """Extents of a chunk, in elements.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((4, 3), chunks=(2, 2)).chunks
        (2, 2)
        """
        return self.frame.chunk_shape

    @property
    def chunk_bytes(self):
        """Bytes of a chunk."""
        return self.frame.now.layout.chunk_bytes

    @property
    def _grid_bytes(self):
        """Bytes of all chunks that the axial vectors know, also those that are not committed."""
        cdef Frame frame = self.frame
        return <object> product(&frame.vectors.state) * <object> frame.now.layout.chunk_bytes

    @property
    def grid(self):
        """Extents of the allocated grid, in chunks.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((4, 3), chunks=(2, 2)).grid
        (2, 2)
        """
        cdef Frame frame = self.frame
        return as_tuple(frame.now.extents, frame.now.layout.ndim)

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
        cdef Frame frame = self.frame
        return as_tuple(frame.now.origins, frame.now.layout.ndim)

    @property
    def _frame(self):
        """The array as it is now, for who needs more than one thing of it."""
        return self.frame

    @property
    def _lead(self):
        """Elements of the first chunk of each axis that lie before index 0."""
        cdef Frame frame = self.frame
        cdef int j
        return tuple([
            frame.now.layout.offset[j] % frame.now.layout.chunk[j]
            for j in range(frame.now.layout.ndim)])

    @property
    def closed(self):
        """True if `close` was called."""
        return self.frame.region is None

    def __len__(self):
        if self.frame.now.layout.ndim == 0:
            raise TypeError("len() of unsized object")
        return self.frame.now.bounds[0]

    @property
    def _is_mapped(self):
        """True if transfers are loads and stores, and no system calls."""
        return self.frame.now.layout.base != NULL

    @property
    def _region(self):
        """The region that transfers use."""
        return self.frame.region

    @property
    def _changes(self):
        """A number that differs where elements or bounds may; None where nobody can say."""
        return None if self.lent else self.changes

    # -- checks ------------------------------------------------------------------------------

    def _name(self):
        """Return what messages call the array."""
        return "the array" if self.host is None else self.host.name(self)

    def _read_only(self, what):
        """Return the error for what would change an array that is open for reading."""
        return self.host.read_only(self, what)

    cdef Frame _opened(self):
        """Take the array as it is now; it is a ClosedError where it is closed."""
        cdef Frame frame = self.frame
        if frame.region is None:
            raise ClosedError(f"{self._name()} is closed; open it again with extarray.open")
        return frame

    cdef Frame _writable(self):
        """Take the array as it is now, to write to it."""
        cdef Frame frame = self._opened()
        if not frame.now.is_writable:
            raise self._read_only("write to")
        if self.original is not None:
            self.original._writable()   # or it is closed, and has another writer by now
        self.changes += 1       # whoever asks is about to write
        return frame

    def _check_axes(self, int ndim):
        """Refuse what was made ready for another number of axes, which only ever grows."""
        if ndim != self.frame.now.layout.ndim:
            raise ShapeError(
                f"{self._name()} has gained an axis while a selection or a view of it was in use: it "
                f"has {self.frame.now.layout.ndim} axes now, and had {ndim}; make it anew")


# -- for the room of arrays ------------------------------------------------------------------------


def hold(ArrayState self not None, ArrayState array not None):
    """Make an array show another one as it is now, whatever becomes of that.

    Reading and writing go on with the bounds, the layout and the chunks of this moment.  What is
    written counts as written to the other one, and nothing is once that is closed.
    """
    self.original = array
    self.host = array.host
    self.frame = array.frame
    self.users = array.users
    self.writes = array.writes
    self.view_region = array.view_region
    self.changes = array.changes
    self.lent = array.lent
    self.log = array.log


def verify_reads(ArrayState self not None):
    """From now on verify the chunks that are read, of an array that `hold` was called for."""
    cdef Frame before = self.frame
    cdef Frame frame
    if before.trust is None or before.now.verifies:
        return
    frame = before.copied()
    frame.now.verifies = True
    frame.now.reads_direct = frame.now.writes_direct = False
    frame.epoch = before.epoch
    if frame.epoch is not None:
        frame.epoch.n_users += 1
    self.frame = frame


def abandon(ArrayState self not None, start):
    """Leave what lies behind `start` bytes of the file to views alone, without the file."""
    for region in (self.frame.region, self.view_region):
        if region is not None:
            region.abandon(start)
