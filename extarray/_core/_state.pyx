"""The state of an array: how its chunks are laid out and reached, its bounds, and its grid.

All state that a transfer uses is in one object, a `Frame`, which the transfer takes in one step,
before it releases the GIL; it looks at nothing else of the array until it ends.

Without the GIL, a thread takes the frame in a *section* (``_sections.h``).  A thread that replaces
the frame waits for earlier sections to end before it releases the old one.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_REFCNT
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdlib cimport free, malloc

from ._axial cimport Axial
from ._copy cimport place_of
from ._file cimport Sieve
from ._frozen cimport Frozen
from ._history cimport look, take_back
from ._vectors cimport START, axial_t, extent_of, product
from ._mapping cimport Counter, Region, Touched, Users, join
from ._supply cimport Supply, Trust
from ._types cimport (
    FREE_THREADS, MAX_NDIM, acquire, add_to, count_of, hint_of, index_t, make_lock, release, show_at,
    shown_at,
)

from extarray.common.errors import ArgumentError, ClosedError, ReadOnlyError, ShapeError

cdef extern from "_sections.h":
    void xa_enter_section() noexcept
    void xa_leave_section() noexcept
    void xa_wait_for_sections() noexcept


cdef tuple as_tuple(const index_t *values, int n):
    cdef tuple result = PyTuple_New(n)
    cdef int j
    for j in range(n):
        value = <object> values[j]
        Py_INCREF(value)        # the tuple takes this reference
        PyTuple_SET_ITEM(result, j, value)
    return result


@cython.final
@cython.freelist(2)      # a growth makes one, and drops the one before
cdef class Frame:
    """An array at one moment: the meaning of indices, and where the elements are.

    A call takes one frame, which keeps everything that the call uses alive until it ends (I10).
    """

    def __dealloc__(self):
        if self.epoch is not None:
            add_to(&self.epoch.n_users, -1)
        if FREE_THREADS:
            free(self.now.axial)

    cdef Frame copied(self):
        """Copy all but the epoch, for an array that is about to change."""
        cdef Frame copy = Frame.__new__(Frame)
        # Make the object first: that may run any code, even code that changes the array.
        copy.now = self.now
        if FREE_THREADS:
            copy.now.frame = <PyObject *> copy
            copy.now.axial = NULL
            if self.now.axial != NULL:
                copy.now.axial = room_for_axial()
                copy.now.axial[0] = self.now.axial[0]
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
        copy.sieve = self.sieve
        copy.trust = self.trust
        copy.supply = self.supply
        copy.frozen = self.frozen
        return copy

    cdef int take_vectors(self) except -1:
        """Take the axial vectors as they are now, uncommitted growth included."""
        if FREE_THREADS:
            if self.now.axial == NULL:
                self.now.axial = room_for_axial()
            self.vectors.pin(self.now.axial)
        else:
            self.now.axial = &self.vectors.state
        return 0

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
        """Elements of the grid before the bounds."""
        return as_tuple(self.now.layout.offset, self.now.layout.ndim)

    @property
    def chunks(self):
        """Extents of a chunk, in elements."""
        return self.chunk_shape


cdef axial_t *room_for_axial() except NULL:
    cdef axial_t *room = <axial_t *> malloc(sizeof(axial_t))
    if room == NULL:
        raise MemoryError("no memory for the axial vectors of a frame")
    return room


# The frame of an array still to be made: it is closed.
cdef Frame nothing = Frame.__new__(Frame)
nothing.now.layout.fd = -1
nothing.now.frame = <PyObject *> nothing


cdef int publish_bounds(Frame frame, const index_t *bounds) except -1:
    """Set all that follows from bounds, the offsets in the layout, and the axial vectors."""
    cdef layout_t *layout = &frame.now.layout
    cdef const axial_t *axial
    cdef int j
    frame.take_vectors()
    axial = frame.now.axial
    for j in range(layout.ndim):
        frame.now.bounds[j] = bounds[j]
        frame.now.extents[j] = extent_of(axial, j)
        layout.low[j] = -axial.sides[START][j].extent
        frame.now.origins[j] = -layout.low[j] * layout.chunk[j] - layout.offset[j]
    frame.now.is_cut = False        # these bounds are later than the inner box
    frame.now.file_bytes = place_of(layout, product(axial))
    return 0


# -- the frame of an array, which threads may replace -----------------------------------------------
# A section runs no Python and allocates nothing: a thread that replaces the frame awaits its end.


cdef Frame take_frame(ArrayState self):
    cdef Frame frame
    xa_enter_section()
    frame = <Frame> (<const frame_t *> shown_at(<void **> &self.now)).frame
    xa_leave_section()
    return frame


cdef const frame_t *enter_section(ArrayState self) noexcept:
    """Look at the array as it is now, until `leave_section`."""
    xa_enter_section()
    return <const frame_t *> shown_at(<void **> &self.now)


cdef void leave_section() noexcept:
    xa_leave_section()


@cython.final
cdef class Writes:
    """The writes to an array whose chunks have checksums or may be frozen, through any object."""

    def __cinit__(self):
        self.changed = Touched()
        self.written = Touched()
        self.taken = Touched()
        self.shown = set()


cdef class ArrayState:
    """An array as it is now: a frame, which every change replaces by another."""

    def __cinit__(self, *args, **kwargs):
        self.frame = nothing
        self.now = &nothing.now

    # Hold `changing` from copying the present frame until the new one is shown, so that no change
    # in between gets lost.

    cdef int show(self, Frame frame) except -1:
        """Show a new frame from now on: one step for other threads."""
        cdef Frame before = self.frame
        if self.users is not None:
            frame.epoch = join(self.users)
        self.frame = frame
        if FREE_THREADS:
            show_at(<void **> &self.now, &frame.now)
            xa_wait_for_sections()
        del before      # may run any code
        return 0

    def _serve(self, host not None):
        """Set the owner, which answers all questions that the core cannot.

        Each question comes with the array, so the owner need not keep track of its arrays.
        """
        self.host = host

    def _setup(
        self, Axial axial not None, dtype, tuple chunks not None, str order, tuple slow_to_fast not None,
        places, shape, offset
    ):
        """Set the layout and the bounds; again when the array has gained an axis.

        Strides follow from `slow_to_fast`, the axes of a chunk by falling stride; `order` is a
        name.  `places` is None for orders with strides, and while there is no chunk.  Other threads'
        transfers continue with the old settings.
        """
        cdef layout_t layout
        cdef index_t bounds[MAX_NDIM]
        cdef Frame frame, past
        cdef Touched fresh = Touched() if frame_of(self).touched is not None else None
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
        acquire(&self.changing)
        try:
            past = self.frame         # released after the lock
            frame = past.copied()
            if fresh is not None and stride != frame.now.layout.chunk_bytes:
                frame.touched = fresh       # a larger chunk has parts without space
            layout.touched = frame.touched.root if frame.touched is not None else NULL
            layout.base = frame.now.layout.base
            layout.pages = frame.now.layout.pages
            layout.blocks = frame.now.layout.blocks
            layout.sieve = frame.now.layout.sieve
            layout.fd = frame.now.layout.fd
            layout.start = frame.now.layout.start
            layout.sparse = frame.now.layout.sparse
            layout.hollow = frame.now.layout.hollow
            frame.now.layout = layout
            frame.vectors = axial
            frame.kind = dtype
            frame.now.is_double = is_double(frame.kind)
            frame.element_order = order
            frame.chunk_shape = chunks
            frame.places = places
            publish_bounds(frame, bounds)
            self.show(frame)
        finally:
            release(&self.changing)
        add_to(&self.changes, 1)

    def _set_places(self, const index_t[::1] table not None):
        """Set the places of elements in a chunk, for orders without strides."""
        cdef object places = table
        cdef Frame frame, past
        acquire(&self.changing)
        try:
            past = self.frame         # released after the lock
            frame = past.copied()
            frame.places = places
            frame.now.layout.place = &table[0]
            frame.now.reads_direct = frame.now.writes_direct = frame.now.reads_frozen = False
            if frame.now.layout.base != NULL:
                frame.now.reads_singly = False      # calls use the table
            self.show(frame)
        finally:
            release(&self.changing)

    @property
    def _has_places(self):
        """True if a table gives the places of elements in a chunk."""
        return frame_of(self).now.layout.place != NULL

    def _attach(
        self, Region region, bint writable, bint sparse, bint hollow, bint durable, sums=None,
        Users users=None, Trust trust=None, bint verifies=False, Sieve sieve=None, Supply supply=None,
        Frozen frozen=None
    ):
        """Attach the region that holds the chunks (None: closed), and the owners of checksums.

        `users` are those of the chunks; a store checks them before it frees any.  Chunks unknown to
        `trust` are verified before they are written in part; with `verifies`, also before they are
        read.  `sieve` belongs to the one writer, if there is one.  `supply` has the chunks that
        come from elsewhere, for an array that is open for reading.  `frozen` tells which chunks are
        frozen.
        """
        cdef bint is_open = region is not None
        cdef Touched touched = Touched() if is_open and writable and region.fd >= 0 else None
        cdef Writes writes = Writes() if sums is not None or frozen is not None else None
        cdef Users own = Users() if users is None else users
        cdef Users _users
        cdef Region _view
        cdef Frame frame, past
        if supply is not None:
            if writable:
                raise ReadOnlyError("chunks that come from elsewhere are read-only")
            if trust is None:
                trust = Trust(0)        # which knows all: so one look tells whether to ask at all
        acquire(&self.changing)
        try:
            # Replaced objects are released below, after the lock.
            _users = self.users
            _view = self.view_region
            past = self.frame         # released after the lock
            frame = past.copied()
            frame.now.is_open = is_open
            frame.now.is_writable = is_open and writable
            frame.now.layout.base = region.base if is_open else NULL
            frame.now.layout.pages = region.pages if is_open else NULL
            frame.now.layout.blocks = region.blocks if is_open else NULL
            frame.now.layout.fd = region.fd if is_open else -1
            frame.now.layout.start = region.start if is_open else 0
            # Memory has no holes.
            frame.now.layout.sparse = sparse and frame.now.layout.fd >= 0
            frame.now.layout.hollow = hollow
            if touched is not None and frame.touched is None:
                frame.touched = touched
            frame.now.layout.touched = frame.touched.root if frame.touched is not None else NULL
            frame.sieve = sieve if frame.now.is_writable and frame.now.layout.base == NULL else None
            frame.now.layout.sieve = NULL if frame.sieve is None else &frame.sieve.state
            frame.trust = trust
            frame.supply = supply
            frame.frozen = frozen
            frame.now.verifies = verifies and trust is not None
            frame.now.asks = frame.now.verifies or supply is not None or frozen is not None
            frame.now.reads_direct = (
                frame.now.layout.base != NULL and frame.now.layout.place == NULL and not hollow
                and not frame.now.asks)
            frame.now.reads_frozen = (
                frozen is not None and not FREE_THREADS and not frame.now.verifies and not hollow
                and frame.now.layout.base != NULL and frame.now.layout.place == NULL)
            frame.now.reads_singly = frame.now.reads_frozen or (
                frame.now.layout.base == NULL and frame.now.layout.fd >= 0 and not frame.now.asks)
            frame.now.is_durable = durable
            frame.sums = sums if frame.now.is_writable else None
            if writes is not None and self.writes is None:
                self.writes = writes
            frame.now.writes_direct = (
                frame.now.reads_direct and frame.now.is_writable and not frame.now.layout.sparse
                and not durable and frame.sums is None)
            frame.now.writes_called = (
                frame.now.layout.base == NULL and frame.now.reads_singly
                and frame.now.is_writable and not durable and frame.sums is None)
            frame.region = region
            if not is_open:
                frame.cuts = None
            self.view_region = None
            self.users = own
            self.show(frame)
        finally:
            release(&self.changing)

    @property
    def _original(self):
        """The array that this one shows as it was, or None."""
        return self.original

    def _set_bounds(self, shape, offset):
        """Publish bounds: all elements inside them can be read.

        `offset` is the number of grid elements before them along each axis.
        """
        self._publish(shape, offset, None)
        add_to(&self.changes, 1)

    def _undo_growth(self, shape, offset, mark not None):
        """Undo all growth since a mark and publish the bounds before it, in one step.

        Return False, and do nothing, if another thread uses the array as it is now: chunk indices,
        and offsets of elements, have other values in the grid before the growth.  Without the GIL
        nobody can tell; there, transfers use the vectors of their frame.
        """
        return self._publish(shape, offset, mark)

    cdef bint _publish(self, shape, offset, mark) except -1:
        """Publish bounds, after undoing all growth since a mark (None: no growth)."""
        cdef index_t bounds[MAX_NDIM]
        cdef index_t before[MAX_NDIM]
        cdef Frame frame, past
        cdef int j
        for j in range(frame_of(self).now.layout.ndim):
            bounds[j] = shape[j]
            before[j] = offset[j]
        acquire(&self.changing)
        try:
            past = self.frame         # released after the lock
            frame = past.copied()
            if mark is not None:
                # Two references: the array's, and the one here.  No other thread runs meanwhile.
                if not FREE_THREADS and Py_REFCNT(past) > 2:
                    return False
                with cython.critical_section(frame.vectors):
                    take_back(frame.vectors, mark)
            for j in range(frame.now.layout.ndim):
                frame.now.layout.offset[j] = before[j]
            publish_bounds(frame, bounds)
            self.show(frame)
        finally:
            release(&self.changing)
        return True

    def _watch(self, Counter cuts, uint64_t known, fill):
        """Set the counter of cuts (or None), and the count that belongs to the present bounds."""
        cdef Frame frame, past
        acquire(&self.changing)
        try:
            past = self.frame         # released after the lock
            frame = past.copied()
            frame.cuts = cuts
            frame.fill = fill
            frame.now.cuts_known = known
            frame.now.is_cut = False
            frame.now.is_watched = cuts is not None
            self.show(frame)
        finally:
            release(&self.changing)

    def _know_cuts(self, uint64_t known, inner):
        """Note the count up to which cuts are known, and the box that they left: (low, high),
        counted from the first index 0, or None if nothing is cut off."""
        cdef index_t low[MAX_NDIM]
        cdef index_t high[MAX_NDIM]
        cdef bint is_cut = False
        cdef Frame frame, past
        cdef int j
        if inner is not None:
            for j in range(frame_of(self).now.layout.ndim):
                low[j] = inner[0][j]
                high[j] = inner[1][j]
        acquire(&self.changing)
        try:
            past = self.frame         # released after the lock
            frame = past.copied()
            if inner is not None:
                for j in range(frame.now.layout.ndim):
                    frame.now.inner_low[j] = low[j]
                    frame.now.inner_high[j] = high[j]
                    is_cut |= (low[j] > -frame.now.origins[j]
                               or high[j] < frame.now.bounds[j] - frame.now.origins[j])
            frame.now.is_cut = is_cut
            frame.now.cuts_known = known
            self.show(frame)
        finally:
            release(&self.changing)

    def _forget_touched(self):
        """Forget which chunks have space: an undone growth took some away."""
        cdef Touched fresh
        cdef Frame frame, past
        if frame_of(self).touched is not None:
            fresh = Touched()
            acquire(&self.changing)
            try:
                past = self.frame         # released after the lock
                frame = past.copied()
                frame.touched = fresh
                frame.now.layout.touched = fresh.root
                self.show(frame)
            finally:
                release(&self.changing)

    # -- properties --------------------------------------------------------------------------

    @property
    def axial(self):
        """Axial vectors: the mapping between chunk indices and addresses.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((4, 3), chunks=(2, 2)).axial.address((1, 0))
        2
        """
        return frame_of(self).vectors

    @property
    def dtype(self):
        """Data type of the elements."""
        return frame_of(self).kind

    @property
    def order(self):
        """Order of the elements in a chunk: "C", "F", "Z" (Morton) or "H" (Hilbert)."""
        return frame_of(self).element_order

    @property
    def shape(self):
        """Bounds: the extent of each axis, in elements.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((4, 3)).shape
        (4, 3)
        """
        cdef Frame frame = frame_of(self)
        return as_tuple(frame.now.bounds, frame.now.layout.ndim)

    @property
    def ndim(self):
        """Number of axes."""
        return frame_of(self).now.layout.ndim

    @property
    def size(self):
        """Number of elements inside the bounds."""
        cdef Frame frame = frame_of(self)
        cdef object size = 1
        cdef int j
        for j in range(frame.now.layout.ndim):
            size *= frame.now.bounds[j]
        return size

    @property
    def itemsize(self):
        """Bytes of an element."""
        return frame_of(self).now.layout.itemsize

    @property
    def nbytes(self):
        """Bytes of the elements inside the bounds."""
        return self.size * frame_of(self).now.layout.itemsize

    @property
    def chunks(self):
        """Extents of a chunk, in elements.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((4, 3), chunks=(2, 2)).chunks
        (2, 2)
        """
        return frame_of(self).chunk_shape

    @property
    def chunk_bytes(self):
        """Bytes of a chunk."""
        return frame_of(self).now.layout.chunk_bytes

    @property
    def _grid_bytes(self):
        """Bytes of all chunks in the axial vectors, also those that are not committed."""
        cdef Frame frame = frame_of(self)
        cdef axial_t room
        return <object> product(look(frame.vectors, &room)) * <object> frame.now.layout.chunk_bytes

    @property
    def grid(self):
        """Extents of the allocated grid, in chunks.

        Examples
        --------
        >>> import extarray as xa
        >>> xa.zeros((4, 3), chunks=(2, 2)).grid
        (2, 2)
        """
        cdef Frame frame = frame_of(self)
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
        cdef Frame frame = frame_of(self)
        return as_tuple(frame.now.origins, frame.now.layout.ndim)

    @property
    def _frame(self):
        """The array as it is now, for callers that need several of its properties."""
        return frame_of(self)

    @property
    def _lead(self):
        """Elements of the first chunk of each axis that lie before index 0."""
        cdef Frame frame = frame_of(self)
        cdef int j
        return tuple([
            frame.now.layout.offset[j] % frame.now.layout.chunk[j]
            for j in range(frame.now.layout.ndim)])

    @property
    def closed(self):
        """True if `close` was called."""
        return frame_of(self).region is None

    def __len__(self):
        if frame_of(self).now.layout.ndim == 0:
            raise TypeError("len() of unsized object")
        return frame_of(self).now.bounds[0]

    @property
    def _is_mapped(self):
        """True if transfers are loads and stores, not system calls."""
        return frame_of(self).now.layout.base != NULL

    @property
    def _region(self):
        """The region that transfers use."""
        return frame_of(self).region

    @property
    def _changes(self):
        """A number that differs if elements or bounds may differ; None if unknown."""
        return None if hint_of(&self.lent) else count_of(&self.changes)

    # -- checks ------------------------------------------------------------------------------

    def _name(self):
        """Return the array's name for messages."""
        return "the array" if self.host is None else self.host.name(self)

    def _read_only(self, what):
        """Return the error for a change to an array that is open for reading."""
        return self.host.read_only(self, what)

    cdef Region mapped_for_views(self):
        """Return the region of views, for engines that do not map."""
        cdef Region region
        acquire(&self.changing)
        region = self.view_region
        release(&self.changing)
        return region

    cdef object listening(self):
        acquire(&self.changing)
        log = self.log
        release(&self.changing)
        return log

    cdef Frame _opened(self):
        """Return the frame; raise a ClosedError if the array is closed."""
        cdef Frame frame = frame_of(self)
        if frame.region is None:
            raise ClosedError(f"{self._name()} is closed; open it again with extarray.open")
        return frame

    cdef Frame _writable(self):
        cdef Frame frame = self._opened()
        cdef Frame latest
        if not frame.now.is_writable:
            raise self._read_only("write to")
        if self.original is not None:
            latest = self.original._writable()  # it may be closed, and have another writer by now
            if frame.frozen is None and latest.frozen is not None:
                raise ArgumentError(
                    f"{self._name()} has been given its first compression, and so other files, "
                    "while an operation that writes to it was under way; run that again")
        add_to(&self.changes, 1)        # the caller is about to write
        return frame

    def _check_axes(self, int ndim):
        """Refuse objects made for another number of axes, which only ever grows."""
        if ndim != frame_of(self).now.layout.ndim:
            raise ShapeError(
                f"{self._name()} has gained an axis while a selection or a view was in use: it now "
                f"has {frame_of(self).now.layout.ndim} axes, but had {ndim}; make it again")


# -- for the room of arrays ------------------------------------------------------------------------


def hold(ArrayState self not None, ArrayState array not None):
    """Make an array show another one as it is now, whatever happens to the other.

    Bounds, layout and chunks stay the present ones.  Writes count as writes to the other array, and
    fail once that is closed.
    """
    self.original = array
    self.host = array.host
    acquire(&array.changing)
    self.frame = array.frame
    self.users = array.users
    self.writes = array.writes
    self.view_region = array.view_region
    self.changes = count_of(&array.changes)
    self.lent = hint_of(&array.lent)
    self.log = array.log
    self.tells = hint_of(&array.tells)
    release(&array.changing)
    if FREE_THREADS:
        self.now = &self.frame.now


def verify_reads(ArrayState self not None):
    """Verify all chunks read from now on, for an array that `hold` was called for."""
    cdef Frame before = self.frame
    cdef Frame frame
    if before.trust is None or before.now.verifies:
        return
    frame = before.copied()
    frame.now.verifies = frame.now.asks = True
    frame.now.reads_direct = frame.now.reads_frozen = frame.now.reads_singly = False
    frame.now.writes_direct = frame.now.writes_called = False
    frame.epoch = before.epoch
    if frame.epoch is not None:
        add_to(&frame.epoch.n_users, 1)
    self.frame = frame
    if FREE_THREADS:
        self.now = &frame.now       # no other thread has this array yet


def renew_lock(ArrayState self not None):
    """Take a fresh lock in a forked child: a thread of the parent may have held it."""
    make_lock(&self.changing)


def abandon(ArrayState self not None, start):
    """Detach views from the bytes beyond `start` in the file."""
    for region in (frame_of(self).region, self.mapped_for_views()):
        if region is not None:
            region.abandon(start)
