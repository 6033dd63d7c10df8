"""The compiled base of `ExtArray`: indexing, whole transfers, views of chunks.

No input or output of its own: a store opens files and commits growth; this class knows the
layout, plans a transfer under the GIL, and hands it to the kernels of `_copy` and `_gather`.
"""

import _thread
import errno
import os
from array import array

import numpy as np

cimport numpy as cnp
from cpython.long cimport PyLong_AsSsize_t, PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from ._axial cimport (
    END, START, Axial, address_of, as_chunk_index, axial_t, extent_of, product,
)
from ._copy cimport count_pieces, job_t, layout_t, piece_t, prepare, run
from ._gather cimport Plan, query_t, run_visits
from ._mapping cimport (
    Counter, Region, Touched, Views, is_shown, lease, reserve_range, touched_get, touched_set,
    touched_take,
)
from ._selection cimport parse, result_shape, selection_size, selection_t
from ._types cimport (
    MAX_NDIM, ceil_div, floor_div, index_t, xa_add_overflows, xa_mul_overflows,
)

from extarray.config import config
from extarray.errors import (
    ArgumentError,
    ArgumentTypeError,
    BoundsError,
    CastingError,
    ClosedError,
    LimitError,
    ReadOnlyError,
    ShapeError,
    StorageError,
    TruncatedError,
)

cnp.import_array()

cdef extern from "<sys/stat.h>":
    ctypedef struct stat_t "struct stat":
        int64_t st_size
    int fstat(int fd, stat_t *about) nogil

cdef extern from "numpy/arrayobject.h":
    ctypedef struct descr_t "PyArray_Descr":
        pass
    ctypedef struct type_t "PyTypeObject":
        pass
    type_t PyArray_Type
    object PyArray_Scalar(void *data, cnp.dtype descr, PyObject *base)
    object PyArray_NewFromDescr(
        type_t *subtype, descr_t *descr, int nd, const cnp.npy_intp *dims,
        const cnp.npy_intp *strides, void *data, int flags, PyObject *obj)
    int PyArray_Pack(cnp.dtype descr, void *item, object value) except -1
    int NPY_ARRAY_F_CONTIGUOUS
    int NPY_ARRAY_WRITEABLE

cdef enum:
    ROOM = 48                   # pieces that fit on the stack: small transfers allocate nothing
    ITEM_ROOM = 64              # bytes of an element that fit on the stack
    WINDOW = 1 << 18            # visits to chunks that are looked up at a time

cdef index_t RELEASE_BYTES = 1 << 16        # below this, releasing the GIL costs more than it gives
cdef index_t STREAM_BYTES = 1 << 23         # results beyond the caches
cdef index_t THREAD_BYTES = 1 << 23         # the least share of a thread
cdef index_t CHECK_BYTES = 1 << 20          # above this, a look at the length of the file costs nothing


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


cdef class ArrayCore:
    """Shape, layout and transfers of an extendible array; the base of `ExtArray`."""

    cdef Axial vectors
    cdef Region region
    cdef Views views                # that are out
    cdef Region view_region         # for views of chunks, where the engine does not map
    cdef Touched touched
    cdef cnp.dtype kind
    cdef str element_order
    cdef tuple chunk_shape
    cdef object places              # keeps layout.place alive
    cdef layout_t layout
    cdef index_t bounds[MAX_NDIM]
    # Published together with the bounds: the grid.
    cdef index_t extents[MAX_NDIM]
    cdef index_t origins[MAX_NDIM]
    cdef index_t file_bytes         # of all chunks that these bounds know
    cdef int rank
    cdef bint is_open, is_writable
    cdef bint reads_direct          # elements can be loaded from layout.base
    cdef bint writes_direct         # and stored there without a look at `touched`
    cdef bint is_durable            # what is written is to be on the disk when the call returns
    cdef index_t changes            # grows with every change of elements or bounds
    cdef bint lent                  # a view for writing is out: elements may change unseen
    # What is cut off becomes holes, which hold zeros.  Where that is not the fill value, `cuts` counts
    # the times, and what was read while it grew is looked at again; else it is None.
    cdef Counter cuts
    cdef uint64_t cuts_known        # the number for which the inner box holds
    cdef bint is_cut                # there is an inner box: of what is known, the rest was cut off
    # From where index 0 was at first.
    cdef index_t inner_low[MAX_NDIM]
    cdef index_t inner_high[MAX_NDIM]
    cdef object fill                # one element, where there is a counter
    # Where chunks have checksums; else None, and all of it is unused.
    cdef object sums
    cdef Touched written
    cdef set shown                  # addresses of the chunks that views for writing are out of
    cdef index_t writes             # that have begun ...
    cdef index_t writing            # ... and not ended
    cdef object log                 # told of what is read; None: nobody asks

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

    # -- checksums of chunks -----------------------------------------------------------------

    cdef int _begin_write(self) except -1:
        """Have the files say that checksums are in doubt, before the first write that makes it so."""
        while self.sums is not None and not self.sums.in_doubt:
            self.sums.doubt()
        # Nobody else has run since the test; but the array may have been closed before.
        self._check_writable()
        self.writes += 1
        self.writing += 1
        return 0

    @property
    def _quiet(self):
        """A number that stays the same as long as nothing is written; None while something is, or
        may be through a view."""
        return self.writes if self.writing == 0 and not self.shown else None

    def _take_written(self, index_t first, index_t limit):
        """Addresses, from `first` on, of chunks that were written since they were taken last.

        At most `limit` of them, in order.
        """
        addresses = np.empty(limit, np.int64)
        cdef index_t[::1] taken = addresses
        return addresses[:touched_take(self.written.root, first, limit, &taken[0])]

    def _note_written(self, const index_t[::1] addresses not None):
        """Have chunks count as written."""
        cdef index_t address
        cdef int failure
        self._begin_write()
        self.writing -= 1
        for address in addresses:
            failure = touched_set(self.written.root, address)
            self._check_transferred(failure, True)

    def _note_shown(self, bint last):
        """Have chunks count as written that views for writing are out of.

        After the `last` time, nobody is told of what is written through them.
        """
        if self.shown:
            self._note_written(np.fromiter(self.shown, np.int64))
        if last:
            self.shown.clear()

    @property
    def _changes(self):
        """A number that differs where elements or bounds may; None where nobody can say."""
        return None if self.lent else self.changes

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

    # -- checks ------------------------------------------------------------------------------

    # The class that derives from this one says its name, and takes the other kinds of index.

    def _name(self):
        return "the array"

    def _read_query(self, key, out, order):
        raise NotImplementedError

    def _write_query(self, key, value):
        raise NotImplementedError

    def _write_late(self, key, value):
        raise NotImplementedError

    def _sync_elements(self):
        raise NotImplementedError

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
            raise ReadOnlyError(
                f"cannot write to {self._name()}: opened with mode 'r'; reopen with mode='r+'")
        self.changes += 1       # whoever asks is about to write
        return 0

    # -- single elements ---------------------------------------------------------------------

    cdef char *_locate(self, object key) except? NULL:
        """Place of one element in memory, or NULL where `key` is not a tuple of Python ints inside
        the bounds (the general path then says what is wrong, if anything)."""
        cdef index_t chunk[MAX_NDIM]
        cdef index_t i, c, at = 0
        cdef int j, n = self.rank
        cdef object item
        if PyTuple_CheckExact(key):
            if PyTuple_GET_SIZE(key) != n:
                return NULL
            for j in range(n):
                item = <object> PyTuple_GET_ITEM(key, j)
                if not PyLong_CheckExact(item):
                    return NULL
                i = PyLong_AsSsize_t(item)
                if i < 0:
                    i += self.bounds[j]
                if <size_t> i >= <size_t> self.bounds[j]:
                    return NULL
                i += self.layout.offset[j]
                c = i // self.layout.chunk[j]
                chunk[j] = c + self.layout.low[j]
                at += (i - c * self.layout.chunk[j]) * self.layout.stride[j]
        elif n == 1 and PyLong_CheckExact(key):
            i = PyLong_AsSsize_t(key)
            if i < 0:
                i += self.bounds[0]
            if <size_t> i >= <size_t> self.bounds[0]:
                return NULL
            i += self.layout.offset[0]
            c = i // self.layout.chunk[0]
            chunk[0] = c + self.layout.low[0]
            at = (i - c * self.layout.chunk[0]) * self.layout.stride[0]
        else:
            return NULL
        return self.layout.base + address_of(&self.vectors.state, chunk) * self.layout.chunk_bytes + at

    def __getitem__(self, key):
        cdef char *place
        if self.reads_direct and self.log is None:
            try:
                place = self._locate(key)
            except OverflowError:
                place = NULL        # beyond 2**63: out of bounds, says the general path
            if place != NULL:
                value = PyArray_Scalar(place, self.kind, NULL)
                if self.cuts is None or not (self.is_cut or self.cuts.look() != self.cuts_known):
                    return value
        return self._read(key, None, "C", True)

    def __setitem__(self, key, value):
        cdef char item[ITEM_ROOM]
        cdef char *place
        cdef int rank = self.rank
        if (self.writes_direct and self.layout.itemsize <= ITEM_ROOM
                and not isinstance(value, (list, cnp.ndarray, ArrayCore))):
            try:
                place = self._locate(key)
            except OverflowError:
                place = NULL
            if place != NULL:
                # Converting a value may run any code, also code that closes this array: convert
                # first, then store.
                memcpy(item, place, self.layout.itemsize)
                try:
                    PyArray_Pack(self.kind, item, value)
                except TypeError:
                    if not is_late(value):
                        raise
                    self._write(key, value)     # which raises what NumPy raises for arrays
                    return
                self._check_writable()
                if rank != self.rank:
                    self._check_rank(rank)
                place = self._locate(key)       # growth may have moved the window
                if place != NULL and self.writes_direct:
                    memcpy(place, item, self.layout.itemsize)
                    return
        self._write(key, value)

    def __delitem__(self, key):
        raise ArgumentError("cannot delete array elements")

    # -- selections --------------------------------------------------------------------------

    def read(self, selection=..., out=None, order="C"):
        """Read a selection.

        Parameters
        ----------
        selection : index expression
            Whatever may stand between the brackets.
        out : ndarray, optional
            Where to read to: of the selection's shape, with any strides; elements are cast by
            the rule ``same_kind``.
        order : {"C", "F"}
            Memory order of a new result; of no effect with `out`.

        Returns
        -------
        ndarray
            A copy, never a view; `out` where given.  Integers alone give a 0-d array.

        Raises
        ------
        BoundsError, SelectionError
            IndexErrors: the selection is not possible.
        ShapeError, CastingError
            A ValueError and a TypeError: `out` does not fit.
        ClosedError

        Notes
        -----
        A large read into a given array is faster than one into a new array, whose pages the
        system must clear first.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]])
        >>> a.read((slice(None), 1))
        array([2, 5])
        >>> a.read(order="F").flags.f_contiguous
        True
        """
        if order not in ("C", "F"):
            raise ArgumentError(f"order {order!r} is not possible for a result; use 'C' or 'F'")
        if out is not None and not isinstance(out, cnp.ndarray):
            raise ArgumentTypeError(f"out must be a NumPy array, not {type(out).__name__}")
        return self._read(selection, out, order, False)

    def write(self, selection, values):
        """Write to a selection: ``a[selection] = values``.

        Parameters
        ----------
        selection : index expression
            As for `read`.
        values : array_like
            Broadcast to the selection's shape, and cast as NumPy's assignment does.

        Raises
        ------
        BoundsError, SelectionError
            IndexErrors: the selection is not possible.
        ShapeError
            A ValueError: `values` cannot be broadcast.
        ReadOnlyError, ClosedError
        StorageError
            An OSError: no space left (sparse arrays), or an input/output error.

        Notes
        -----
        The bytes of the selected elements are written and no others.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((2, 3), "i4")
        >>> a.write((0, slice(None)), [7, 8, 9])
        >>> a[...]
        array([[7, 8, 9],
               [0, 0, 0]], dtype=int32)
        """
        self._write(selection, values)

    def _check_axes(self, int ndim):
        """Refuse to go on where the array has another number of axes."""
        self._check_rank(ndim)

    # Who goes through an array part by part selects on each axis that it had when this began.

    def _read_exact(self, tuple key not None):
        """Read a selection that has an entry for each axis; refused where there are more by now."""
        self._check_rank(len(key))
        return self._read(key, None, "C", False)

    def _write_exact(self, tuple key not None, values):
        """Write to a selection that has an entry for each axis; refused where there are more."""
        self._check_rank(len(key))
        self._write(key, values)

    cdef object _read(self, object key, object out, str order, bint scalars):
        cdef selection_t s
        cdef index_t bounds[MAX_NDIM]
        cdef cnp.ndarray target
        self._check_open()
        self._begin(&s, bounds)
        if not parse(key, bounds, self.rank, &s):
            return self._read_query(key, out, order)
        self._check_open()      # an index may run any code, also code that closes this array
        if self.log is not None:
            self._tell(&s)
        if out is None:
            target = self._new(&s, order == "F")
            self._transfer(&s, target, False)
            if scalars and s.is_scalar:
                return target[()]
            return target
        target = out
        self._check_out(target, result_shape(&s), self.kind)
        if self._overlaps(target):
            # A view of a chunk of this very array.
            target[...] = self._read(key, None, "C", False)
        elif target.dtype == self.kind:
            self._transfer(&s, target, False)
        else:
            self._read_cast(&s, target)
        return target

    cdef int _tell(self, const selection_t *s) except -1:
        """Tell the log what is read: the extents from the first to the last element."""
        cdef int j
        cdef list extents = []
        for j in range(self.rank):
            if s.count[j] == 0:
                return 0
            extents.append((s.count[j] - 1) * (s.step[j] if s.step[j] > 0 else -s.step[j]) + 1)
        self.log.note(tuple(extents))
        return 0

    def _listen(self, log):
        """Have a log told of what is read; None: no more.  Returns the one that was told before."""
        before, self.log = self.log, log
        return before

    def _check_out(self, cnp.ndarray out not None, tuple shape, dtype):
        """Raise where elements of `dtype` cannot be read into an array."""
        if shape != (<object> out).shape:
            raise ShapeError(f"out has shape {(<object> out).shape}, the selection {shape}")
        if not out.flags.writeable:
            raise ReadOnlyError("out is read-only; give a writable array")
        if not np.can_cast(dtype, out.dtype, "same_kind"):
            raise CastingError(
                f"cannot cast {dtype} to out's {out.dtype} by the rule 'same_kind'; "
                "give an out of another dtype, or read and then use astype")

    cdef int _read_cast(self, selection_t *s, cnp.ndarray target) except -1:
        """Read into an array of another dtype, in bounded memory."""
        cdef selection_t part
        cdef cnp.ndarray block
        cdef int dim = widest(s)
        if dim < 0 or selection_size(s) * self.layout.itemsize <= block_limit():
            block = self._new(s, False)
            self._transfer(s, block, False)
            np.copyto(target, block, casting="same_kind")
            return 0
        middle = s.result_shape[dim] // 2
        for low, high in ((0, middle), (middle, s.result_shape[dim])):
            narrow(s, dim, low, high, &part)
            self._read_cast(&part, target[(slice(None),) * dim + (slice(low, high),)])
        return 0

    cdef int _write(self, object key, object value) except -1:
        cdef selection_t s
        cdef index_t bounds[MAX_NDIM]
        self._check_writable()
        self._begin(&s, bounds)
        if not parse(key, bounds, self.rank, &s):
            self._write_query(key, value)
            return 0
        self._check_writable()      # an index may run any code, also code that closes this array
        if s.is_scalar:
            # NumPy stores one element otherwise than it copies arrays.
            item = np.zeros((), self.kind)
            item[()] = np.asarray(value) if is_array(value) else value
            value = item
        elif is_late(value) and (self._shares(value) or value.size * max(
                value.dtype.itemsize, self.layout.itemsize) > block_limit()):
            self._write_late(key, value)
            return 0
        else:
            value = self._as_values(value, self.kind)
            if is_late(value):
                value = value._fetch()
        self._check_writable()          # and so may converting
        while value.ndim > s.result_ndim and value.shape[0] == 1:
            value = value[0, ...]       # NumPy, too, lets leading axes of length 1 go
        if not fits(value.shape, &s):
            raise ShapeError(
                f"could not broadcast input array from shape {shape_text(value.shape)} into shape "
                f"{shape_text(result_shape(&s))}")
        if selection_size(&s) == 0:
            return 0
        self._write_cast(&s, value)
        if self.is_durable:
            self._sync_elements()
        return 0

    def _as_values(self, value, dtype):
        """What is assigned, as an array that stays what it is while this one is written."""
        if not is_array(value):
            return to_array(value, dtype)
        if self._shares(value):
            return np.asarray(value)
        if isinstance(value, cnp.ndarray) and self._overlaps(value):
            return value.copy()
        return value

    cdef bint _shares(self, object value) except -1:
        """Whether a value is read late, box by box, and has elements of this array."""
        if not is_late(value):
            return False
        origin = getattr(value, "_origin", None)
        return origin is not None and origin == self._origin

    cdef int _write_cast(self, selection_t *s, cnp.ndarray value) except -1:
        """Write an array that broadcasts to the selection, of any dtype, in bounded memory."""
        cdef selection_t part
        cdef int dim, own
        cdef cnp.ndarray source
        if value.descr is self.kind or value.dtype == self.kind:
            return self._store(s, value)
        dim = widest(s)
        if dim < 0 or value.size * self.layout.itemsize <= block_limit():
            source = np.empty((<object> value).shape, self.kind)
            source[...] = value
            self._check_writable()
            return self._store(s, source)
        middle = s.result_shape[dim] // 2
        own = dim - (s.result_ndim - value.ndim)
        for low, high in ((0, middle), (middle, s.result_shape[dim])):
            narrow(s, dim, low, high, &part)
            if own >= 0 and value.shape[own] > 1:
                self._write_cast(&part, value[(slice(None),) * own + (slice(low, high),)])
            else:
                self._write_cast(&part, value)
        return 0

    # `append` writes before it publishes the bounds, so these two take any allocated elements.

    def _read_box(self, start, stop):
        """Read a box of allocated elements, inside the bounds or not."""
        cdef selection_t s
        cdef index_t bounds[MAX_NDIM]
        cdef cnp.ndarray block
        self._check_open()
        self._begin(&s, bounds)
        whole_box(start, stop, self.rank, &s)
        s.is_free = True
        block = self._new(&s, False)
        self._transfer(&s, block, False)
        return block

    def _write_box(self, start, stop, cnp.ndarray values not None):
        """Write to a box of allocated elements, inside the bounds or not, an array that broadcasts
        to it."""
        cdef selection_t s
        cdef index_t bounds[MAX_NDIM]
        self._check_writable()
        self._begin(&s, bounds)
        whole_box(start, stop, self.rank, &s)
        s.is_free = True
        if self._overlaps(values):
            values = values.copy()
        if selection_size(&s):
            self._write_cast(&s, values)

    cdef cnp.ndarray _new(self, const selection_t *s, bint fortran):
        """New array of the selection's shape."""
        return new_array(self.kind, s.result_ndim, <const cnp.npy_intp *> s.result_shape, NULL, NULL,
                         NPY_ARRAY_F_CONTIGUOUS if fortran else 0)

    cpdef bint _overlaps(self, cnp.ndarray values):
        """Whether the memory of an array is (or may be) that of a chunk of this array."""
        cdef const char *first
        cdef const char *last
        if self.region is None or values.size == 0:
            return False
        byte_bounds(values, &first, &last)
        return self.region.shows(first, last)

    cdef void _begin(self, selection_t *s, index_t *bounds) noexcept:
        """Note what indices mean now: reading the brackets may run any code, and other threads."""
        cdef int j
        for j in range(self.rank):
            bounds[j] = self.bounds[j]
            s.origin[j] = self.origins[j]
        s.is_free = False

    cdef int _rebase(self, selection_t *s) except -1:
        """Have a selection count from index 0 as it is now; refuse what is no longer there."""
        cdef index_t first, last
        cdef int j
        if s.ndim != self.rank:
            self._check_rank(s.ndim)
        for j in range(self.rank):
            s.start[j] += self.origins[j] - s.origin[j]
            s.origin[j] = self.origins[j]
            if s.count[j] and not s.is_free:
                first = s.start[j]
                last = first + (s.count[j] - 1) * s.step[j]
                if min(first, last) < 0 or max(first, last) >= self.bounds[j]:
                    raise BoundsError(
                        f"the bounds of {self._name()} have moved in while a selection was used: axis "
                        f"{j} has size {self.bounds[j]} now")
        return 0

    cdef int _store(self, selection_t *s, cnp.ndarray values) except -1:
        """Write an array of this dtype, which broadcasts to the shape of a selection."""
        if self.sums is None:
            return self._transfer(s, values, True)
        self._begin_write()
        try:
            # Before, that nobody takes the checksums for right; and after, as they may have been
            # made meanwhile.
            self._note_box(s)
            try:
                return self._transfer(s, values, True)
            finally:
                self._note_box(s)
        finally:
            self.writing -= 1

    cdef int _note_box(self, selection_t *s) except -1:
        """Note the chunks that a selection is written to.

        With steps longer than a chunk also those in between, whose sums are then made in vain.
        """
        cdef index_t first[MAX_NDIM]
        cdef index_t last[MAX_NDIM]
        cdef index_t chunk[MAX_NDIM]
        cdef index_t one, other
        cdef int j
        if selection_size(s) == 0:
            return 0
        self._rebase(s)
        for j in range(self.rank):
            one = s.start[j] + self.layout.offset[j]
            other = one + (s.count[j] - 1) * s.step[j]
            # Negative in what is being added at a start.
            first[j] = floor_div(min(one, other), self.layout.chunk[j]) + self.layout.low[j]
            last[j] = floor_div(max(one, other), self.layout.chunk[j]) + self.layout.low[j]
            chunk[j] = first[j]
        while True:
            self._check_transferred(
                touched_set(self.written.root, address_of(&self.vectors.state, chunk)), True)
            j = self.rank - 1
            while j >= 0:
                chunk[j] += 1
                if chunk[j] <= last[j]:
                    break
                chunk[j] = first[j]
                j -= 1
            if j < 0:
                return 0

    cdef int _transfer(self, selection_t *s, cnp.ndarray values, bint write) except -1:
        """Move a selection from or to an array of this dtype, which broadcasts to its shape."""
        if self.cuts is None or write or s.is_free or selection_size(s) == 0:
            return self._move_box(s, values, write)
        return self._read_watched(s, values)

    cdef int _read_watched(self, selection_t *s, cnp.ndarray values) except -1:
        """Read a selection; what has been cut off meanwhile, or before, gets the fill value."""
        cdef Counter cuts = self.cuts
        cdef uint64_t known
        cdef selection_t part
        cdef int dim
        while True:
            if cuts.look() != self.cuts_known:
                self._look_at_cuts()
                self._check_open()
                cuts = self.cuts
            known = self.cuts_known
            self._move_box(s, values, False)
            if cuts.look() == known:
                break
            # Of what was cut off it may have zeros.  Smaller parts are sooner read than cut.
            s.is_free = True
            dim = widest(s)
            if dim < 0:
                continue
            middle = s.result_shape[dim] // 2
            for low, high in ((0, middle), (middle, s.result_shape[dim])):
                narrow(s, dim, low, high, &part)
                self._read_watched(&part, values[(slice(None),) * dim + (slice(low, high),)])
            return 0
        if self.is_cut or s.is_free:
            self._fill_cut(s, values)
        return 0

    def _look_at_cuts(self):
        """Know all cuts that were counted before this call: whoever cuts itself knows the bounds."""
        if self.cuts is not None:
            self._know_cuts(self.cuts.look(), None)

    cdef int _inner(self, int axis, index_t *low, index_t *high) except -1:
        """What of an axis is not cut off, counted from where index 0 was at first."""
        low[0] = -self.origins[axis]
        high[0] = low[0] + self.bounds[axis]
        if self.is_cut:
            low[0] = max(low[0], self.inner_low[axis])
            high[0] = max(low[0], min(high[0], self.inner_high[axis]))
        return 0

    cdef int _fill_cut(self, const selection_t *s, cnp.ndarray values) except -1:
        """Give what of a selection is cut off the fill value."""
        cdef index_t low, high, first, stop, step
        cdef int j, dim
        for j in range(self.rank):
            self._inner(j, &low, &high)
            low += s.origin[j]
            high += s.origin[j]
            # The indices start + i * step with first <= i < stop lie in low ... high - 1.
            step = s.step[j]
            if step > 0:
                first = (low - s.start[j] - 1) // step + 1 if low > s.start[j] else 0
                stop = (high - s.start[j] - 1) // step + 1 if high > s.start[j] else 0
            else:
                first = (s.start[j] - high) // -step + 1 if s.start[j] >= high else 0
                stop = (s.start[j] - low) // -step + 1 if s.start[j] >= low else 0
            first = max(0, min(first, s.count[j]))
            stop = max(first, min(stop, s.count[j]))
            if first == 0 and stop == s.count[j]:
                continue
            for dim in range(s.result_ndim):
                if s.result_axis[dim] == j:
                    break
            else:
                values[...] = self.fill
                return 0
            before = (slice(None),) * dim
            values[before + (slice(0, first),)] = self.fill
            values[before + (slice(stop, None),)] = self.fill
        return 0

    cdef int _move_box(self, selection_t *s, cnp.ndarray values, bint write) except -1:
        """Move a selection, whatever happens meanwhile."""
        cdef index_t stride[MAX_NDIM]
        cdef index_t room_for[MAX_NDIM]
        cdef piece_t room[ROOM]
        cdef piece_t *pieces = room
        cdef job_t job
        cdef index_t total = 0, size = selection_size(s) * self.layout.itemsize
        cdef int j, i, failure, missing = s.result_ndim - values.ndim
        if size == 0:
            return 0
        self._rebase(s)
        for j in range(self.rank):
            stride[j] = 0
        for i in range(missing, s.result_ndim):
            if s.result_axis[i] >= 0 and values.shape[i - missing] > 1:
                stride[s.result_axis[i]] = values.strides[i - missing]
        count_pieces(s, self.layout.chunk, room_for)
        for j in range(self.rank):
            total += room_for[j]
        if total > ROOM:
            pieces = <piece_t *> malloc(total * sizeof(piece_t))
            if pieces == NULL:
                raise MemoryError(f"no memory for {total} pieces of a selection")
        try:
            prepare(&job, &self.vectors.state, &self.layout, s, pieces, values.data, stride)
            job.write = write
            job.stream = size >= STREAM_BYTES
            if size < RELEASE_BYTES and self.layout.base != NULL:
                failure = run(&job, -1, 0, 0)
            else:
                failure = self._run_large(&job, size)
        finally:
            if pieces != room:
                free(pieces)
        return self._check_transferred(failure, write)

    cdef int _run_large(self, job_t *job, index_t size) except -1:
        """Run a job without the GIL, on as many threads as are worth it."""
        cdef axial_t state
        cdef Axial axial = self.vectors
        # Another thread may close the array, or grow it, meanwhile: what the job uses stays.
        cdef Region _region = self.region
        cdef Touched _touched = self.touched
        cdef object _places = self.places
        cdef int failure, axis = -1, j
        cdef index_t shares = worth_threads(size)
        cdef BoxShare share
        if size >= CHECK_BYTES and self._is_cut():
            self._raise_cut()
        axial.pin(&state)
        job.axial = &state
        try:
            if shares > 1:
                # Along the first axis with pieces enough, or the one with the most.
                for j in range(job.layout.ndim):
                    if axis < 0 or job.n_pieces[j] > job.n_pieces[axis]:
                        axis = j
                    if job.n_pieces[axis] >= shares:
                        break
                shares = min(shares, job.n_pieces[axis]) if axis >= 0 else 1
            if shares <= 1:
                with nogil:
                    failure = run(job, -1, 0, 0)
                return failure
            work = []
            for i in range(shares):
                share = BoxShare()
                share.job = job
                share.axis = axis
                share.first = <int> (i * job.n_pieces[axis] // shares)
                share.stop = <int> ((i + 1) * job.n_pieces[axis] // shares)
                work.append(share)
            return run_shares(work)
        finally:
            axial.unpin()

    # -- queries -----------------------------------------------------------------------------

    def _move(self, query, cnp.ndarray values not None, bint write):
        """Move what a query selects from or (write) to an array of its shape and dtype.

        `query` is one of `extarray.indexing.query`; behind its dimensions `values` may have those
        of one element, which are contiguous.
        """
        cdef selection_t s
        cdef index_t bounds[MAX_NDIM]
        cdef int rank
        if write:
            self._check_writable()
        else:
            self._check_open()
        if query.size == 0:
            return
        rank = self._check_query(query)
        if (<object> values).shape[:len(query.shape)] != query.shape:
            raise ShapeError(f"memory of shape {(<object> values).shape} for a query of {query.shape}")
        if query.is_box and query.field is None:
            self._begin(&s, bounds)
            box_of(query, rank, &s)
            if write:
                self._store(&s, values)
            else:
                if self.log is not None:
                    self._tell(&s)
                self._transfer(&s, values, False)
        elif write and self.sums is not None:
            self._begin_write()
            try:
                self._move_points(query, values, True)
            finally:
                self.writing -= 1
        else:
            if self.log is not None and not write:
                self.log.note_query(query, self.shape)
            if self.cuts is None or write:
                self._move_points(query, values, write)
            else:
                self._read_points_watched(query, values)
        if write and self.is_durable:
            self._sync_elements()

    cdef int _check_query(self, query) except -1:
        """Raise where the array has not got what a query selects from; returns the number of axes."""
        cdef tuple extents = query.extents
        cdef int j, rank = len(extents)
        self._check_rank(rank)
        for j in range(rank):
            if extents[j] > self.bounds[j]:
                raise BoundsError(
                    f"the bounds of {self._name()} have moved in while a selection was used: axis {j} "
                    f"had size {extents[j]}, and has {self.bounds[j]}")
        return rank

    cdef int _read_points_watched(self, query, cnp.ndarray values) except -1:
        """Read what a query selects; what has been cut off meanwhile, or before, gets the fill value."""
        cdef Counter cuts = self.cuts
        cdef uint64_t known
        cdef index_t low, high
        cdef int j, rank
        while True:
            if cuts.look() != self.cuts_known:
                self._look_at_cuts()
                self._check_open()
                cuts = self.cuts
            known = self.cuts_known
            rank = self._check_query(query)
            self._move_points(query, values, False)
            if cuts.look() == known:
                break
            # As for boxes; what cannot be cut is read again.
            is_cut = False
            for part, piece in query.cut(0.5, self.chunk_shape, False):
                is_cut = True
                self._move(piece, values[part], False)
            if is_cut:
                return 0
        if self.is_cut:
            inner = []
            self._check_rank(rank)
            for j in range(rank):
                self._inner(j, &low, &high)
                inner.append((low + self.origins[j], high + self.origins[j]))
            query.fill_outside(inner, values, self.fill)
        return 0

    cdef int _move_points(self, query, cnp.ndarray values, bint write) except -1:
        """Move what a query selects, whatever happens meanwhile."""
        cdef Plan plan
        cdef Region _region
        cdef Touched _touched
        cdef object _places
        cdef query_t *q
        cdef index_t size, total, first
        cdef tuple extents = query.extents
        cdef int failure = 0, j, rank = len(extents)
        cdef bint noted = write and self.sums is not None
        plan = Plan(self.vectors)
        # Code of Python's has run since: other threads may have closed the array, or grown it.
        self._check_open()
        self._check_rank(rank)
        self._check_rank(plan.query.axial.ndim)
        _region = self.region
        _touched = self.touched
        _places = self.places
        q = &plan.query
        q.layout = self.layout
        size = 1
        for j in range(rank - 1, -1, -1):
            q.extent[j] = extents[j]
            # A table of places counts elements in C order.
            q.unit[j] = q.layout.stride[j] if q.layout.place == NULL else size
            size *= q.layout.chunk[j]
        q.user = values.data
        q.size = q.layout.itemsize if query.field is None else query.field.dtype.itemsize
        q.offset = 0 if query.field is None else query.field.offset
        q.stage_limit = block_limit() // max(1, config.threads)
        size = query.size * q.size
        q.write = write
        q.stream = not write and size >= STREAM_BYTES
        for factor in query.factors:
            factor.add_to(plan, (<object> values).strides)
        total = plan.n_combinations()
        for first in range(0, total, WINDOW):
            plan.look_up(first, min(total, first + WINDOW))
            if noted:
                self._check_transferred(self._note_visits(q), True)
            failure = run_plan(plan, worth_threads(size))
            if noted:
                self._note_visits(q)
            if failure:
                break
        return self._check_transferred(failure, write)

    cdef int _note_visits(self, const query_t *q) noexcept:
        """Note the chunks that a query writes to.  Returns 0 or an errno."""
        cdef index_t i
        cdef int failure
        for i in range(q.n_visits):
            failure = touched_set(self.written.root, q.address[i])
            if failure:
                return failure
        return 0

    cdef bint _is_cut(self) noexcept:
        """Whether somebody has cut off the file."""
        cdef stat_t about
        return (self.layout.fd >= 0 and fstat(self.layout.fd, &about) == 0
                and about.st_size < self.file_bytes)

    def _raise_cut(self):
        raise TruncatedError(
            f"the file of {self._name()} is shorter than its chunks are: another program has cut it "
            "off; restore it from a copy")

    cdef int _check_transferred(self, int failure, bint write) except -1:
        if failure:
            if self._is_cut():
                self._raise_cut()
            raise self._failed(
                failure,
                f"{os.strerror(failure)} while {'writing to' if write else 'reading'} {self._name()}")
        return 0

    def _failed(self, number, what):
        return StorageError(number, what, None if self.path is None else str(self.path))

    # -- views of chunks ---------------------------------------------------------------------

    def chunk(self, index):
        """View of one chunk, without copying.

        Parameters
        ----------
        index : sequence of k ints
            Chunk index, each in [0, grid[j]).

        Returns
        -------
        ndarray
            Clipped to the bounds; writable in mode "r+".  For orders "Z" and "H" the whole chunk
            as a 1-D view, in stored order, and writable where all of it lies inside the bounds.

        Raises
        ------
        BoundsError
            An IndexError: outside the grid.
        ClosedError
        StorageError
            An OSError: a hole of a sparse array, and no space to fill it.

        Notes
        -----
        A view stays valid when the array grows, and keeps its memory alive after `close`.  With
        the engine "pread" the file is mapped for the view, which is coherent on one host.  Where
        the array has shrunk since, or before a reader has refreshed, a view may show zeros instead
        of the fill value.  As long as views are out, this process gives no space back when the array
        shrinks.  A reader's views cannot keep a writer in another process from that; on tmpfs, let
        go of them before it shrinks: to look at what has no memory any more takes memory again, and
        where there is none left the system ends the process (SIGBUS).

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.zeros((4, 3), chunks=(2, 2))
        >>> a.chunk((1, 1))[...] = 5
        >>> a[2:, 2]
        array([5., 5.])
        """
        cdef index_t chunk[MAX_NDIM]
        cdef cnp.npy_intp dims[MAX_NDIM]
        cdef cnp.npy_intp strides[MAX_NDIM]
        cdef index_t address, need, extent, start, first, at = 0
        cdef int j, nd = self.rank
        cdef bint whole = True, writable = self.is_writable
        cdef char *data
        cdef Region region
        self._check_open()
        if not isinstance(index, (tuple, list)):
            try:
                index = tuple(index)
            except TypeError:
                if self.rank != 1:
                    raise ArgumentTypeError(
                        f"a chunk index is a tuple of {self.rank} ints, not {index!r}") from None
                index = (index,)
        as_chunk_index(index, nd, self.extents, chunk)
        self._check_open()      # converting may have run any code
        self._check_rank(nd)
        for j in range(nd):
            # What of the chunk lies inside the bounds.
            extent = self.layout.chunk[j]
            start = chunk[j] * extent - self.layout.offset[j]
            first = min(extent, max(0, -start))
            dims[j] = max(0, min(extent, self.bounds[j] - start) - first)
            whole &= dims[j] == extent
            strides[j] = self.layout.stride[j]
            at += first * strides[j]
            chunk[j] += self.layout.low[j]
        address = address_of(&self.vectors.state, chunk)
        if self.layout.place != NULL:
            # What is written outside the bounds would show when they grow.
            writable &= whole
            nd = 1
            at = 0
            dims[0] = self.layout.chunk_bytes // self.layout.itemsize
            strides[0] = self.layout.itemsize
        need = (address + 1) * self.layout.chunk_bytes
        region = self.region
        if not region.mapped:
            if self.view_region is None or not self.view_region.holds(need):
                try:
                    self.view_region = Region.file(
                        self.layout.fd, self.vectors.size * self.layout.chunk_bytes, self.is_writable,
                        True)
                except OSError as error:
                    raise self._failed(
                        error.errno, f"cannot map {self._name()}: {error.strerror}") from None
            region = self.view_region
        if self.sums is not None:
            self.shown.add(address)
            self._note_written(np.array([address]))
        if self.is_writable and self.layout.sparse:
            if not touched_get(self.layout.touched, address):
                self._reserve(address)
                touched_set(self.layout.touched, address)
        elif self.layout.hollow or (self.layout.place != NULL and not whole):
            failure = region.populate(address * self.layout.chunk_bytes, self.layout.chunk_bytes)
            if failure:
                raise self._failed(
                    errno.ENOSPC, f"no space for a view of a hole of {self._name()}; use read")
        data = region.base + address * self.layout.chunk_bytes + at
        view = new_array(self.kind, nd, dims, strides, data,
                         NPY_ARRAY_WRITEABLE if writable else 0)
        cnp.set_array_base(view, lease(region, self.views))
        self.lent |= writable
        return view

    def _peek(self, box, bint writable=False):
        """View of a box of elements that lies in one chunk, or None.

        `box` is a tuple of slices with start, stop and no step, inside the bounds.  None also where
        loads (or, with `writable`, stores) may not go straight to memory: another engine, an order
        without strides, holes; and where a view could show what is cut off.
        """
        cdef index_t chunk[MAX_NDIM]
        cdef cnp.npy_intp dims[MAX_NDIM]
        cdef cnp.npy_intp strides[MAX_NDIM]
        cdef index_t start, stop, c, at = 0
        cdef int j, n
        self._check_open()
        n = len(box)
        if n != self.rank:
            self._check_rank(n)
        if not (self.writes_direct if writable else self.reads_direct):
            return None
        if self.cuts is not None and not self.is_writable:
            return None
        for j in range(n):
            start = box[j].start
            stop = box[j].stop
            if not 0 <= start < stop <= self.bounds[j]:
                return None
            dims[j] = stop - start
            start += self.layout.offset[j]
            c = start // self.layout.chunk[j]
            start -= c * self.layout.chunk[j]
            if start + dims[j] > self.layout.chunk[j]:
                return None
            chunk[j] = c + self.layout.low[j]
            at += start * self.layout.stride[j]
            strides[j] = self.layout.stride[j]
        if n != self.rank:
            self._check_rank(n)
        at += address_of(&self.vectors.state, chunk) * self.layout.chunk_bytes
        view = new_array(self.kind, n, dims, strides, self.region.base + at,
                         NPY_ARRAY_WRITEABLE if writable else 0)
        cnp.set_array_base(view, lease(self.region, self.views))
        self.changes += writable
        return view

    def _reserve(self, address):
        """Give a chunk of a sparse file its disk space."""
        cdef index_t offset = address * self.layout.chunk_bytes
        cdef int failure = reserve_range(self.layout.fd, offset, self.layout.chunk_bytes)
        try:
            if failure == errno.EOPNOTSUPP:
                os.pwrite(
                    self.layout.fd, os.pread(self.layout.fd, self.layout.chunk_bytes, offset), offset)
            elif failure:
                raise OSError(failure, os.strerror(failure))
        except OSError as error:
            raise self._failed(
                error.errno, f"{error.strerror} while filling a hole of {self._name()}") from None

    @property
    def _is_mapped(self):
        """Whether transfers are loads and stores, and no system calls."""
        return self.layout.base != NULL

    @property
    def _region(self):
        """The region that transfers use."""
        return self.region


cdef class Share:
    """The share of one thread in a large transfer."""

    cdef int failure

    def run(self):
        raise NotImplementedError

    def run_and_release(self, lock):
        self.run()
        lock.release()


cdef class BoxShare(Share):
    """Some pieces of a box."""

    cdef const job_t *job
    cdef int axis, first, stop

    def run(self):
        with nogil:
            self.failure = run(self.job, self.axis, self.first, self.stop)


cdef class VisitShare(Share):
    """Some visits of a query."""

    cdef Plan plan
    cdef index_t first, stop

    def run(self):
        with nogil:
            self.failure = run_visits(&self.plan.query, self.first, self.stop)


cdef index_t worth_threads(index_t size) except -1:
    """How many threads a transfer of `size` bytes is worth."""
    return min(<index_t> config.threads, size // THREAD_BYTES) if size >= 2 * THREAD_BYTES else 1


cdef int run_plan(Plan plan, index_t shares) except -1:
    """Make the visits that were looked up, on as many threads as there are shares."""
    cdef VisitShare share
    cdef index_t n = plan.query.n_visits, i
    shares = max(1, min(shares, n))
    work = []
    for i in range(shares):
        share = VisitShare()
        share.plan = plan
        share.first = i * n // shares
        share.stop = (i + 1) * n // shares
        work.append(share)
    return run_shares(work)


cdef int run_shares(list work) except -1:
    """Run shares, all but the first on threads of their own.  Returns 0 or an errno."""
    cdef Share share
    # Whatever happens, nobody leaves before all shares are done: they use the caller's frame.
    waiting = []
    for share in work[1:]:
        done = _thread.allocate_lock()
        done.acquire()
        try:
            _thread.start_new_thread(share.run_and_release, (done,))
        except RuntimeError:        # no more threads
            share.run()
        else:
            waiting.append(done)
    work[0].run()
    interrupt = None
    for done in waiting:
        while True:
            try:
                done.acquire()
                break
            except BaseException as error:      # Ctrl-C
                interrupt = error
    if interrupt is not None:
        raise interrupt
    for share in work:
        if share.failure:
            return share.failure
    return 0


# -- helpers -------------------------------------------------------------------------------------

cdef cnp.ndarray new_array(
    cnp.dtype dtype, int nd, const cnp.npy_intp *dims, const cnp.npy_intp *strides, void *data, int flags
):
    Py_INCREF(dtype)        # the new array takes over a reference
    return PyArray_NewFromDescr(
        &PyArray_Type, <descr_t *> dtype, nd, dims, strides, data, flags, NULL)


cdef void byte_bounds(cnp.ndarray values, const char **first, const char **last) noexcept:
    """The memory of an array that has elements: bytes first ... last - 1."""
    cdef int i
    first[0] = values.data
    last[0] = values.data + cnp.PyArray_ITEMSIZE(values)
    for i in range(values.ndim):
        if values.strides[i] < 0:
            first[0] += (values.shape[i] - 1) * values.strides[i]
        else:
            last[0] += (values.shape[i] - 1) * values.strides[i]


def is_of_a_chunk(cnp.ndarray values not None):
    """Whether the memory of an array is (or may be) that of a chunk, of whatever array.

    Parameters
    ----------
    values : ndarray

    Returns
    -------
    bool
    """
    cdef const char *first
    cdef const char *last
    if values.size == 0:
        return False
    byte_bounds(values, &first, &last)
    return is_shown(first, last)


cdef int whole_box(object start, object stop, int ndim, selection_t *s) except -1:
    """The selection of the elements start ... stop - 1."""
    cdef int j
    s.ndim = s.result_ndim = ndim
    s.is_scalar = False
    for j in range(ndim):
        s.start[j] = start[j]
        s.step[j] = 1
        s.count[j] = s.result_shape[j] = max(0, stop[j] - start[j])
        s.result_axis[j] = j
    return 0


cdef int box_of(object query, int ndim, selection_t *s) except -1:
    """The selection of a query whose factors are all progressions."""
    cdef int dim
    s.ndim = ndim
    s.result_ndim = len(query.shape)
    for dim in range(s.result_ndim):
        s.result_axis[dim] = -1
        s.result_shape[dim] = query.shape[dim]
    for factor in query.factors:
        s.start[<int> factor.axis] = factor.start
        s.step[<int> factor.axis] = factor.step
        s.count[<int> factor.axis] = factor.count
        if factor.dim >= 0:
            s.result_axis[<int> factor.dim] = factor.axis
    return 0


cdef index_t block_limit() except -1:
    # Half for the block, half for what NumPy's cast may need beside it.
    return max(1, <index_t> config.max_memory // 2)


cdef int widest(const selection_t *s) noexcept:
    """The first dimension of the result along which it can be halved, or -1."""
    cdef int i
    for i in range(s.result_ndim):
        if s.result_axis[i] >= 0 and s.result_shape[i] > 1:
            return i
    return -1


cdef int narrow(const selection_t *s, int dim, index_t low, index_t high, selection_t *part) except -1:
    """The part of a selection from index `low` to `high` of a dimension of its result."""
    cdef int axis = s.result_axis[dim]
    part[0] = s[0]
    part.start[axis] = s.start[axis] + low * s.step[axis]
    part.count[axis] = part.result_shape[dim] = high - low
    return 0


cdef bint fits(tuple shape, const selection_t *s) except -1:
    """Whether a shape broadcasts to that of the selection."""
    cdef int missing = s.result_ndim - <int> len(shape), i
    if missing < 0:
        return False
    for i in range(len(shape)):
        if shape[i] != 1 and shape[i] != s.result_shape[missing + i]:
            return False
    return True


cdef str shape_text(tuple shape):
    # As NumPy prints shapes in its messages.
    return "(" + ",".join([str(n) for n in shape]) + ("," if len(shape) == 1 else "") + ")"


cdef bint is_array(object value) except -1:
    """Whether a value is an array: NumPy's, or one that is read part by part."""
    return isinstance(value, cnp.ndarray) or is_late(value)


cdef bint is_late(object value) except -1:
    """Whether a value is an array of ours, which is read part by part."""
    return not isinstance(value, cnp.ndarray) and hasattr(type(value), "_peek")


cdef object to_array(object value, object dtype):
    """An array of a value that is none, cast as NumPy's assignment casts."""
    if isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        item = np.zeros((), dtype)
        item[()] = value
        return item
    if hasattr(value, "__array__") or isinstance(value, (memoryview, bytearray, array)):
        return np.asarray(value)
    return np.array(value, dtype)
