"""The compiled base of `ExtArray`: indexing, whole transfers, views of chunks.

This module gives brackets and values their meaning.  `_state` holds the array, `_transfers` moves a
selection.  Stores open files and commit growth; nothing here does input or output of its own.
"""

import errno
import os
from array import array

import numpy as np

cimport cython
cimport numpy as cnp
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport uint64_t
from libc.string cimport memset

from ._vectors cimport address_of, as_chunk_index
from ._copy cimport chunks_before, layout_t, move_item, place_of
from ._frozen cimport Decoded, is_handed_on
from ._mapping cimport (
    Lease, Region, is_shown, lease, reserve_pages, touched_get, touched_set,
)
from ._selection cimport (
    fits, narrow, parse, result_shape, selection_size, selection_t, whole_box, widest,
)
from ._state cimport Frame, begin_look, check_opened, end_look, frame_of, frame_t, opened
from ._supply cimport lease_using
from ._system cimport XA_UNSUPPORTED
from ._transfers cimport Transfers, block_limit, middle_of
from ._types cimport FREE_THREADS, MAX_NDIM, acquire, add_to, hint_of, index_t, release, set_hint

from extarray._core._transfers import note_written
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    CastingError,
    ReadOnlyError,
    ShapeError,
)

cnp.import_array()

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

cdef extern from *:
    """
    #include <string.h>
    #include <numpy/arrayscalars.h>

    /* Doubles are read most: PyArray_Scalar would determine the kind of each one anew. */
    static PyObject *xa_double_scalar(double number)
    {
        PyObject *scalar = PyDoubleArrType_Type.tp_alloc(&PyDoubleArrType_Type, 0);
        if (scalar != NULL)
            PyArrayScalar_VAL(scalar, Double) = number;
        return scalar;
    }

    /* One element.  A thread may store while another loads, as with NumPy's arrays; a race detector
     * must skip these functions. */
    static inline double xa_load_double(const char *place)
    {
        double number;
        memcpy(&number, place, sizeof(number));
        return number;
    }
    static inline void xa_store_double(char *place, double number)
    {
        memcpy(place, &number, sizeof(number));
    }
    static inline void xa_move_item(char *to, const char *from, size_t itemsize)
    {
        memcpy(to, from, itemsize);
    }

    /* Take a plain int; returns 0 if it is none, or is not below 2**63. */
    static inline int xa_as_index(PyObject *item, Py_ssize_t *index)
    {
        if (!PyLong_CheckExact(item))
            return 0;
        *index = PyLong_AsSsize_t(item);
        if (*index == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
        return 1;
    }
    """
    object xa_double_scalar(double number)
    double xa_load_double(const char *place) noexcept
    void xa_store_double(char *place, double number) noexcept
    void xa_move_item(char *to, const char *from_, size_t itemsize) noexcept
    bint xa_as_index(PyObject *item, Py_ssize_t *index) noexcept

cdef enum:
    ITEM_ROOM = 64              # bytes of an element that fit on the stack


cpdef int check_destination(out, order) except -1:
    """Check where a read puts its result: in an array, or a new one in order C or F."""
    if order not in ("C", "F"):
        raise ArgumentError(f"order {order!r} is not valid for a result; use 'C' or 'F'")
    if out is not None and not isinstance(out, cnp.ndarray):
        raise ArgumentTypeError(f"out must be a NumPy array, not {type(out).__name__}")
    return 0


# Like NumPy's arrays from 2.5 on: `match a: case [first, *rest]` accepts it as a sequence.
@cython.collection_type("sequence")
cdef class ArrayCore(Transfers):
    """Indexing, transfers and views of an extendible array; the base of `ExtArray`."""

    # -- single elements ---------------------------------------------------------------------

    @cython.final
    cdef char *_locate(self, const frame_t *now, object key) noexcept:
        """Return the memory of one element, or NULL as `offset_of` returns -1."""
        cdef index_t offset = offset_of(now, key)
        return NULL if offset < 0 else now.layout.pages + offset

    def __getitem__(self, key):
        cdef Frame frame
        cdef char *place = NULL
        cdef double number
        cdef bint is_number = False
        # Doubles, which are read most, are loaded without a reference to the frame; boxes take one.
        cdef const frame_t *now = begin_look(self)
        if now.reads_direct and not hint_of(&self.tells):
            place = self._locate(now, key)
            if place != NULL and now.is_double and not now.is_watched:
                number = xa_load_double(place)
                is_number = True
        end_look()
        if is_number:
            return xa_double_scalar(number)
        if place != NULL:
            frame = frame_of(self)
            if FREE_THREADS:
                place = self._locate(&frame.now, key) if frame.now.reads_direct else NULL
            if place != NULL:
                value = PyArray_Scalar(place, frame.kind, NULL)
                if frame.cuts is None or not (
                        frame.now.is_cut or frame.cuts.look() != frame.now.cuts_known):
                    return value
        elif frame_of(self).now.reads_singly:
            value = self._read_singly(key)
            if value is not None:
                return value
        return self._read(key, None, "C", True)

    @cython.final
    cdef object _read_singly(self, key):
        """Return one element, or None if it takes the general path."""
        cdef Frame frame = frame_of(self)
        if hint_of(&self.tells) or frame.cuts is not None:
            return None
        return self._read_frozen(frame, key) if frame.now.reads_frozen else self._read_called(frame, key)

    @cython.final
    cdef object _read_called(self, Frame frame, key):
        """Return one element of a file that is not mapped, or None if `key` is not that of one.

        Nothing is kept from call to call: another process may write to the element in between, and
        only a system call could tell.
        """
        cdef char item[ITEM_ROOM]
        cdef index_t offset
        cdef int failure
        if frame.now.layout.itemsize > ITEM_ROOM:
            return None
        offset = offset_of(&frame.now, key)
        if offset < 0:
            return None
        with nogil:
            failure = move_item(&frame.now.layout, item, offset, False)
        if failure:
            self._check_transferred(frame, failure, False)
        if frame.now.is_double:
            return xa_double_scalar(xa_load_double(item))
        return PyArray_Scalar(item, frame.kind, NULL)

    @cython.final
    cdef object _read_frozen(self, Frame frame, key):
        """Return one element of an array whose chunks may be frozen, or None.

        None: `key` is not that of one element, or its chunk is frozen and was not read from of late.
        """
        cdef char *place
        cdef Decoded chunk
        cdef index_t offset, address
        cdef uint64_t entry, number
        place = self._locate(&frame.now, key)
        if place == NULL:
            return None
        offset = place - frame.now.layout.pages
        address = chunks_before(&frame.now.layout, offset)
        number = frame.frozen.freezes.look()
        if is_handed_on(number):
            return None
        entry = frame.frozen.live(address)
        if entry:
            chunk = frame.frozen.recently(address, entry)
            return None if chunk is None else PyArray_Scalar(chunk.base + offset, frame.kind, NULL)
        value = PyArray_Scalar(place, frame.kind, NULL)
        return value if frame.frozen.freezes.look() == number else None

    def __setitem__(self, key, value):
        cdef Frame frame
        cdef char item[ITEM_ROOM]
        cdef char *place = NULL
        cdef double number
        cdef bint is_direct
        cdef const frame_t *now
        if PyFloat_CheckExact(value):
            number = PyFloat_AS_DOUBLE(value)
            now = begin_look(self)
            if now.writes_direct and now.is_double:
                place = self._locate(now, key)
                if place != NULL:
                    xa_store_double(place, number)
            end_look()
            if place != NULL:
                return
        frame = frame_of(self)
        if (frame.now.writes_direct and frame.now.layout.itemsize <= ITEM_ROOM
                and not isinstance(value, (list, cnp.ndarray, ArrayCore))):
            place = self._locate(&frame.now, key)
            if place != NULL:
                # Convert first, then store: converting may run any code, even code that closes this
                # array.
                xa_move_item(item, place, frame.now.layout.itemsize)
                try:
                    PyArray_Pack(frame.kind, item, value)
                except (TypeError, ValueError):
                    if not is_late(value):
                        raise
                    self._write(key, value)     # as an array, NumPy takes other text and dates too
                    return
                self._writable()
                now = begin_look(self)
                is_direct = now.writes_direct
                if is_direct:
                    xa_move_item(place, item, frame.now.layout.itemsize)
                end_look()
                if is_direct:
                    return
        elif frame.now.writes_called and self._write_called(frame, key, value):
            return
        self._write(key, value)

    @cython.final
    cdef bint _write_called(self, Frame frame, key, value) except -1:
        """Write one element of a file that is not mapped.

        False: `key` is not that of one, or the value needs the general path.  Nothing is written
        yet.
        """
        cdef char item[ITEM_ROOM]
        cdef index_t offset
        cdef int failure
        if (frame.now.layout.itemsize > ITEM_ROOM
                or isinstance(value, (list, cnp.ndarray, ArrayCore))):
            return False
        offset = offset_of(&frame.now, key)
        if offset < 0:
            return False
        if frame.now.is_double and PyFloat_CheckExact(value):
            xa_store_double(item, PyFloat_AS_DOUBLE(value))
        else:
            memset(item, 0, frame.now.layout.itemsize)
            try:
                PyArray_Pack(frame.kind, item, value)
            except (TypeError, ValueError):
                if not is_late(value):
                    raise
                return False
        self._writable()        # converting may run any code, even code that closes this array
        with nogil:
            failure = move_item(&frame.now.layout, item, offset, True)
        if failure:
            self._check_transferred(frame, failure, True)
        return True

    def __delitem__(self, key):
        raise ArgumentError("cannot delete array elements")

    # -- selections --------------------------------------------------------------------------

    def read(self, selection=..., out=None, order="C"):
        """Read a selection.

        Parameters
        ----------
        selection : index expression
            Anything allowed between the brackets.
        out : ndarray, optional
            Target of the selection's shape, with any strides; elements are cast by the rule
            ``same_kind``.
        order : {"C", "F"}
            Memory order of a new result; no effect with `out`.

        Returns
        -------
        ndarray
            A copy, never a view; `out` if given.  Integers alone give a 0-d array.

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
        check_destination(out, order)
        return self._read(selection, out, order, False)

    def write(self, selection, values):
        """Write to a selection: ``a[selection] = values``.

        Parameters
        ----------
        selection : index expression
            As for `read`.
        values : array_like
            Broadcast to the selection's shape, and cast as in NumPy's assignment; but masked
            elements of a masked array become the fill value.

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
        If others may write, only the bytes of the selected elements are written.  With the engine
        "pread", the only writer of an array may also write back the bytes between them.

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

    # Code that goes through an array part by part selects on each axis the array had at the start.

    def _read_exact(self, tuple key not None):
        """Read a selection that has an entry for each axis; refuse if the array has more axes by
        now."""
        self._check_axes(len(key))
        return self._read(key, None, "C", False)

    def _write_exact(self, tuple key not None, values):
        """Write to a selection that has an entry for each axis; refuse if the array has more by
        now."""
        self._check_axes(len(key))
        self._write(key, values)

    @cython.final
    cdef object _read(self, object key, object out, str order, bint scalars):
        cdef selection_t s
        cdef Frame frame = opened(self)
        cdef cnp.ndarray target
        if not parse(key, frame.now.bounds, frame.now.layout.ndim, &s):
            return self.host.read_index(self, key, out, order, frame)
        check_opened(self)      # an index may run any code, even code that closes this array
        if hint_of(&self.tells):
            self._tell(&s)
        if out is None:
            target = new_of(frame, &s, order == "F")
            self._transfer(frame, &s, target, False)
            if scalars and s.is_scalar:
                return target[()]
            return target
        target = out
        self._check_out(target, result_shape(&s), frame.kind)
        if self._overlaps(target):
            # A view of a chunk of this same array.
            target[...] = self._read(key, None, "C", False)
        elif target.dtype == frame.kind:
            self._transfer(frame, &s, target, False)
        else:
            self._read_cast(frame, &s, target)
        return target

    def _check_out(self, cnp.ndarray out not None, tuple shape, dtype):
        """Raise if elements of `dtype` cannot be read into an array."""
        if shape != (<object> out).shape:
            raise ShapeError(f"out has shape {(<object> out).shape}, but the selection has {shape}")
        if not out.flags.writeable:
            raise ReadOnlyError("out is read-only; give a writable array")
        if not np.can_cast(dtype, out.dtype, "same_kind"):
            raise CastingError(
                f"cannot cast {dtype} to {out.dtype} of out under the rule 'same_kind'; "
                "give out another dtype, or read and then use astype")

    cdef int _read_cast(self, Frame frame, selection_t *s, cnp.ndarray target) except -1:
        """Read into an array of another dtype, in bounded memory."""
        cdef selection_t part
        cdef cnp.ndarray block
        cdef int dim = widest(s)
        if dim < 0 or selection_size(s) * frame.now.layout.itemsize <= block_limit():
            block = new_of(frame, s, False)
            self._transfer(frame, s, block, False)
            np.copyto(target, block, casting="same_kind")
            return 0
        middle = s.result_shape[dim] // 2
        for low, high in ((0, middle), (middle, s.result_shape[dim])):
            if low:
                self._look_for_signals(False)
            narrow(s, dim, low, high, &part)
            self._read_cast(frame, &part, target[(slice(None),) * dim + (slice(low, high),)])
        return 0

    cdef int _write(self, object key, object value) except -1:
        cdef selection_t s
        cdef Frame frame = self._writable()
        cdef object given = value
        if not parse(key, frame.now.bounds, frame.now.layout.ndim, &s):
            self.host.write_index(self, key, value, frame)
            return 0
        self._writable()        # an index may run any code, even code that closes this array
        if s.is_scalar:
            # NumPy stores one element differently from how it copies arrays.
            item = np.zeros((), frame.kind)
            if is_array(value):
                value = self._as_values(value, frame.kind)
                if is_late(value):
                    value = self.host.elements(value)
            item[()] = value
            value = item
        elif is_late(value) and (self._shares(value) or value.size * max(
                value.dtype.itemsize, frame.now.layout.itemsize) > block_limit()):
            self.host.write_late(self, key, value)
            return 0
        else:
            value = self._as_values(value, frame.kind)
            if is_late(value):
                value = self.host.elements(value)
        self._writable()        # and so may converting
        if value.ndim > s.result_ndim:
            check_depth(given, value.shape, s.result_ndim)
        while value.ndim > s.result_ndim and value.shape[0] == 1:
            value = value[0, ...]       # NumPy too drops leading axes of length 1
        if not fits(value.shape, &s):
            raise ShapeError(
                f"could not broadcast input array from shape {shape_text(value.shape)} into shape "
                f"{shape_text(result_shape(&s))}")
        if selection_size(&s) == 0:
            return 0
        if frame.trust is not None and frame.sums is not None and value.dtype != frame.kind:
            self._trust_box(frame, &s, True)    # before any part is cast and written
        self._write_cast(frame, &s, value)
        if frame.now.is_durable:
            self.host.sync(self)
        return 0

    def _as_values(self, value, dtype):
        """Return the assigned value as an array that does not change while this one is written."""
        if not is_array(value):
            return to_array(value, dtype)
        if self._shares(value):
            return self.host.elements(value)
        if isinstance(value, cnp.ndarray):
            if not cnp.PyArray_CheckExact(value) and isinstance(value, np.ma.MaskedArray):
                value = self.host.unmasked(self, value, dtype)
            if not cnp.PyArray_CheckExact(value):
                value = np.asarray(value)   # a matrix would never lose its first axis
            if cnp.PyArray_TYPE(value) == cnp.NPY_VSTRING:
                value = self.host.texts(self, value, dtype)
            if self._overlaps(value):
                return value.copy()
        return value

    cdef bint _shares(self, object value) except -1:
        """Tell whether a value is read late, box by box, and has elements of this array."""
        return is_late(value) and self.host.shares(self, value)

    cdef int _write_cast(self, Frame frame, selection_t *s, cnp.ndarray value) except -1:
        """Write an array of any dtype that broadcasts to the selection, in bounded memory."""
        cdef selection_t part
        cdef int dim, own
        cdef cnp.ndarray source
        if value.descr is frame.kind or value.dtype == frame.kind:
            return self._store(frame, s, value)
        dim = widest(s)
        if dim < 0 or value.size * frame.now.layout.itemsize <= block_limit():
            source = np.empty((<object> value).shape, frame.kind)
            source[...] = value
            self._writable()
            return self._store(frame, s, source)
        middle = middle_of(frame, s, dim)
        own = dim - (s.result_ndim - value.ndim)
        for low, high in ((0, middle), (middle, s.result_shape[dim])):
            if low:
                self._look_for_signals(True)
            narrow(s, dim, low, high, &part)
            if own >= 0 and value.shape[own] > 1:
                self._write_cast(
                    frame, &part, value[(slice(None),) * own + (slice(low, high),)])
            else:
                self._write_cast(frame, &part, value)
        return 0

    # `append` writes before it publishes the bounds, so these two accept any allocated element.

    def _read_box(self, start, stop):
        """Read a box of allocated elements, inside the bounds or not."""
        cdef selection_t s
        cdef cnp.ndarray block
        cdef Frame frame = with_growth(self._opened())
        whole_box(start, stop, frame.now.layout.ndim, &s)
        block = new_of(frame, &s, False)
        self._transfer(frame, &s, block, False)
        return block

    def _write_box(self, start, stop, cnp.ndarray values not None):
        """Write an array that broadcasts to a box of allocated elements, inside the bounds or not.
        """
        cdef selection_t s
        cdef Frame frame = with_growth(self._writable())
        whole_box(start, stop, frame.now.layout.ndim, &s)
        if self._overlaps(values):
            values = values.copy()
        if selection_size(&s):
            self._write_cast(frame, &s, values)

    cpdef bint _overlaps(self, cnp.ndarray values):
        """Tell whether an array's memory is (or may be) part of a chunk of this array."""
        cdef const char *first
        cdef const char *last
        cdef Region region = frame_of(self).region
        if region is None or values.size == 0:
            return False
        byte_bounds(values, &first, &last)
        return region.shows(first, last)

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
            as a 1-D view, in stored order, and writable if all of it lies inside the bounds.

        Raises
        ------
        BoundsError
            An IndexError: outside the grid.
        ClosedError
        StorageError
            An OSError: a hole of a sparse array, and no space to fill it; or (mode "r+") neither the
            file system nor the system can fill one without writing to it.

        Notes
        -----
        A view stays valid when the array grows, and keeps its memory alive after `close`.  With the
        engine "pread" the file is mapped for the view, which is coherent on one host.  Elements
        that are cut off keep their values and their space while an older view is alive.  A reader's
        views cannot keep a writer in another process from freeing that space, and may then show
        zeros instead of the fill value.  On tmpfs, drop such views before the writer shrinks the
        array: accessing freed space takes memory again, and if none is left the system ends the
        process (SIGBUS).

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
        cdef Frame frame = self._opened(), latest = frame
        cdef const layout_t *layout = &frame.now.layout
        cdef index_t address, place, extent, start, first, size = layout.chunk_bytes, at = 0
        cdef int j, nd = layout.ndim
        cdef bint whole = True, writable = frame.now.is_writable, is_hole, may_be_hole, lends = True
        cdef char *data
        cdef Region region = frame.region
        cdef Lease owner
        if not isinstance(index, (tuple, list)):
            try:
                index = tuple(index)
            except TypeError:
                if nd != 1:
                    raise ArgumentTypeError(
                        f"a chunk index must be a tuple of {nd} ints, not {index!r}") from None
                index = (index,)
        as_chunk_index(index, nd, frame.now.extents, chunk)
        self._opened()      # converting may have run any code
        for j in range(nd):
            # The part of the chunk inside the bounds.
            extent = layout.chunk[j]
            start = chunk[j] * extent - layout.offset[j]
            first = min(extent, max(0, -start))
            dims[j] = max(0, min(extent, frame.now.bounds[j] - start) - first)
            whole &= dims[j] == extent
            strides[j] = layout.stride[j]
            at += first * strides[j]
            chunk[j] += layout.low[j]
        address = address_of(frame.now.axial, chunk)
        place = place_of(layout, address)
        if layout.place != NULL:
            # Elements written outside the bounds would appear when the bounds grow.
            writable &= whole
            nd = 1
            at = 0
            dims[0] = size // layout.itemsize
            strides[0] = layout.itemsize
        if frame.frozen is not None and writable:
            self._begin_write(frame)
            try:
                self.writes.shown.add(address)      # not to be frozen from here on
                self._thaw(frame, np.array([address]))
            finally:
                add_to(&self.writes.n_going, -1)
        elif frame.frozen is not None and is_handed_on(frame.frozen.freezes.look()):
            latest = self._latest_table(frame)
        if frame.frozen is not None and not writable and latest.frozen.live(address):
            view = self._frozen_chunk(latest, address, nd, dims, strides, at)
            if view is not None:
                return view
        owner = lease(region, frame.epoch)
        if frame.trust is not None and (frame.now.asks or frame.sums is not None):
            if frame.supply is not None:
                owner = lease_using(owner, frame.supply.use(np.array([address])))
            if (frame.now.verifies or frame.sums is not None) and frame.trust.lacks(address):
                self._verify(frame, np.array([address]))
        is_hole = (
            frame.now.is_writable and layout.sparse
            and not touched_get(frame.touched.root, address))
        may_be_hole = not (frame.now.is_writable and layout.sparse) and (
            layout.hollow or (layout.place != NULL and not whole))
        if not region.mapped:
            owner.region = region = self._mapped(frame, place_of(layout, address + 1))
            lends = self.host.lends(self)
            writable &= lends
            if writable and frame.sieve is not None:
                frame.sieve.stop()      # it must not overwrite stores through the view
        if frame.sums is not None and lends:
            self.writes.shown.add(address)
            note_written(self, np.array([address]), False)
        if is_hole:
            self._fill_hole(region, place, size)
            touched_set(frame.touched.root, address)
        elif may_be_hole and region.populate(place, size):
            raise self._failed(
                errno.ENOSPC, f"no space for a view of a hole of {self._name()}; use read")
        data = region.base + place + at
        view = new_array(frame.kind, nd, dims, strides, data,
                         NPY_ARRAY_WRITEABLE if writable else 0)
        cnp.set_array_base(view, owner)
        if writable:
            set_hint(&self.lent, True)
        return view

    cdef object _frozen_chunk(
        self, Frame frame, index_t address, int nd, cnp.npy_intp *dims, cnp.npy_intp *strides, index_t at
    ):
        """Return a read-only view of a decoded chunk; None if it is raw by now."""
        cdef dict found = None
        cdef Decoded chunk
        while found is None:
            if not frame.frozen.live(address):
                return None
            found = frame.frozen.bring(np.array([address]))
        chunk = found[address]
        view = new_array(
            frame.kind, nd, dims, strides, chunk.base + place_of(&frame.now.layout, address) + at, 0)
        cnp.set_array_base(view, chunk.memory)
        return view

    cdef Region _mapped(self, Frame frame, index_t need):
        """Map the file for views of chunks if the engine does not."""
        cdef Region region = self.mapped_for_views()
        try:
            if region is not None and region.shows_up_to(need):
                return region
            region = Region.file(
                frame.now.layout.fd, frame.now.file_bytes, frame.now.is_writable, True,
                frame.now.layout.start)
        except OSError as error:
            raise self._failed(
                error.errno, f"cannot map {self._name()}: {error.strerror}") from None
        acquire(&self.changing)
        before, self.view_region = self.view_region, region
        release(&self.changing)
        del before
        return region

    def _peek(self, box, bint writable=False):
        """Return a view of a box of elements that lies in one chunk, or None.

        `box` is a tuple of slices with start, stop and no step, inside the bounds.  None also if
        loads (or, with `writable`, stores) may not go straight to memory (another engine, an order
        without strides, holes), and if a view could show elements that are cut off.
        """
        cdef index_t chunk[MAX_NDIM]
        cdef cnp.npy_intp dims[MAX_NDIM]
        cdef cnp.npy_intp strides[MAX_NDIM]
        cdef index_t start, stop, c, at = 0
        cdef Frame frame = self._opened()
        cdef const layout_t *layout = &frame.now.layout
        cdef int j, n = len(box)
        if n != layout.ndim:
            self._check_axes(n)
        if not (frame.now.writes_direct if writable else frame.now.reads_direct):
            return None
        if frame.cuts is not None:
            return None
        for j in range(n):
            start = box[j].start
            stop = box[j].stop
            if not 0 <= start < stop <= frame.now.bounds[j]:
                return None
            dims[j] = stop - start
            start += layout.offset[j]
            c = start // layout.chunk[j]
            start -= c * layout.chunk[j]
            if start + dims[j] > layout.chunk[j]:
                return None
            chunk[j] = c + layout.low[j]
            at += start * layout.stride[j]
            strides[j] = layout.stride[j]
        at += place_of(layout, address_of(frame.now.axial, chunk))
        view = new_array(frame.kind, n, dims, strides, layout.base + at,
                         NPY_ARRAY_WRITEABLE if writable else 0)
        cnp.set_array_base(view, lease(frame.region, frame.epoch))
        if writable:
            add_to(&self.changes, 1)
        return view

    cdef int _fill_hole(self, Region region, index_t start, index_t size) except -1:
        """Give a chunk of a sparse file, mapped by a region, its disk space."""
        cdef int failure
        with nogil:
            failure = reserve_pages(region.fd, start, size)
        if failure == 0:
            failure = region.populate_alone(start, start + size)
        elif failure == XA_UNSUPPORTED:
            # Stores get space from the system, too.  Do not write here: writing back what was read
            # would undo what others wrote in between.
            failure = region.populate_whole(start, start + size)
            if failure == XA_UNSUPPORTED:
                raise self._failed(
                    failure,
                    f"cannot fill a hole of {self._name()} for a view: the file system cannot preallocate "
                    "space; use read and write, or create the array with sparse=False")
        else:
            raise self._failed(
                failure, f"{os.strerror(failure)} while filling a hole of {self._name()}")
        if failure:
            raise self._failed(
                errno.ENOSPC, f"no space for a view of a hole of {self._name()}; use write")
        return 0


# -- helpers -------------------------------------------------------------------------------------

cdef index_t offset_of(const frame_t *now, object key) noexcept:
    """Return the offset of one element from the first chunk.

    -1 if `key` is not a tuple of Python ints inside the bounds (the general path then raises any
    error).
    """
    cdef const layout_t *layout = &now.layout
    cdef index_t chunk[MAX_NDIM]
    cdef Py_ssize_t i
    cdef index_t c, at = 0
    cdef int j, n = layout.ndim
    if PyTuple_CheckExact(key):
        if PyTuple_GET_SIZE(key) != n:
            return -1
        for j in range(n):
            if not xa_as_index(PyTuple_GET_ITEM(key, j), &i):
                return -1
            if i < 0:
                i += now.bounds[j]
            if <size_t> i >= <size_t> now.bounds[j]:
                return -1
            i += layout.offset[j]
            c = i // layout.chunk[j]
            chunk[j] = c + layout.low[j]
            at += (i - c * layout.chunk[j]) * layout.stride[j]
    elif n == 1 and xa_as_index(<PyObject *> key, &i):
        if i < 0:
            i += now.bounds[0]
        if <size_t> i >= <size_t> now.bounds[0]:
            return -1
        i += layout.offset[0]
        c = i // layout.chunk[0]
        chunk[0] = c + layout.low[0]
        at = (i - c * layout.chunk[0]) * layout.stride[0]
    else:
        return -1
    return place_of(layout, address_of(now.axial, chunk)) + at


cdef Frame with_growth(Frame frame):
    """Return a frame that also has the chunks of a growth that is not committed."""
    cdef Frame grown
    if not FREE_THREADS:
        return frame        # its vectors are the ones that grow
    grown = frame.copied()
    grown.take_vectors()
    grown.epoch = frame.epoch
    if grown.epoch is not None:
        add_to(&grown.epoch.n_users, 1)
    return grown


cdef cnp.ndarray new_of(Frame frame, const selection_t *s, bint fortran):
    """Make an array of a selection's shape."""
    return new_array(frame.kind, s.result_ndim, <const cnp.npy_intp *> s.result_shape, NULL, NULL,
                     NPY_ARRAY_F_CONTIGUOUS if fortran else 0)


cdef cnp.ndarray new_array(
    cnp.dtype dtype, int nd, const cnp.npy_intp *dims, const cnp.npy_intp *strides, void *data, int flags
):
    Py_INCREF(dtype)        # the new array takes over a reference
    return PyArray_NewFromDescr(
        &PyArray_Type, <descr_t *> dtype, nd, dims, strides, data, flags, NULL)


cdef void byte_bounds(cnp.ndarray values, const char **first, const char **last) noexcept:
    """Set the bounds of a non-empty array's memory: bytes first ... last - 1."""
    cdef int i
    first[0] = values.data
    last[0] = values.data + cnp.PyArray_ITEMSIZE(values)
    for i in range(values.ndim):
        if values.strides[i] < 0:
            first[0] += (values.shape[i] - 1) * values.strides[i]
        else:
            last[0] += (values.shape[i] - 1) * values.strides[i]


def is_of_a_chunk(cnp.ndarray values not None):
    """Tell whether an array's memory is (or may be) part of a chunk of any array."""
    cdef const char *first
    cdef const char *last
    if values.size == 0:
        return False
    byte_bounds(values, &first, &last)
    return is_shown(first, last)


cdef str shape_text(tuple shape):
    # NumPy prints shapes like this in its messages.
    return "(" + ",".join([str(n) for n in shape]) + ("," if len(shape) == 1 else "") + ")"


cdef bint is_array(object value) except -1:
    """Tell whether a value is an array: NumPy's, or one read part by part."""
    return isinstance(value, cnp.ndarray) or is_late(value)


cdef bint is_late(object value) except -1:
    """Tell whether a value is an array of this package, which is read part by part."""
    return not isinstance(value, cnp.ndarray) and hasattr(type(value), "_peek")


def check_depth(value not None, tuple shape not None, int ndim):
    """Raise if lists, which form an array of this shape, are nested deeper than their target.

    NumPy drops leading axes of length 1, but only those of arrays.
    """
    if is_array(value) or is_in_memory(value):
        return
    if hasattr(value, "__array_interface__") or hasattr(value, "__array_struct__"):
        return
    raise ShapeError(
        "setting an array element with a sequence. The requested array would exceed the maximum "
        f"number of dimension of {ndim}: the lists have shape {shape_text(shape)}")


cdef bint is_in_memory(object value) except -1:
    """Tell whether a value that is no array exposes its elements like one."""
    return hasattr(value, "__array__") or isinstance(value, (memoryview, bytearray, array))


cdef object to_array(object value, object dtype):
    """Convert a value that is no array, and cast it as NumPy's assignment casts."""
    if isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        item = np.zeros((), dtype)
        item[()] = value
        return item
    if is_in_memory(value):
        return np.asarray(value)
    return np.array(value, dtype)
