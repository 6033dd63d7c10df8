# The state of an array.

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from ._axial cimport Axial
from ._copy cimport layout_t
from ._file cimport Sieve
from ._mapping cimport Counter, Epoch, Region, Touched, Users
from ._supply cimport Supply, Trust
from ._types cimport FREE_THREADS, MAX_NDIM, apart_t, index_t, lock_t
from ._vectors cimport axial_t


cdef struct frame_t:
    layout_t layout
    index_t bounds[MAX_NDIM]
    # Published together with the bounds: the grid.
    index_t extents[MAX_NDIM]
    index_t origins[MAX_NDIM]
    index_t file_bytes          # of all chunks that these bounds know
    bint is_open
    bint is_writable
    bint reads_direct           # elements can be loaded from layout.base
    bint writes_direct          # and stored there without a look at `touched`
    bint is_durable             # what is written is to be on the disk when the call returns
    bint asks                   # chunks are asked for before they are read: there is a supply, or ...
    bint verifies               # ... they are compared with their checksums
    # Which elements an outside writer has cut off, where `cuts` counts the times.
    uint64_t cuts_known         # the number for which the inner box holds
    bint is_cut                 # there is an inner box: of what is known, the rest was cut off
    index_t inner_low[MAX_NDIM]     # from where index 0 was at first
    index_t inner_high[MAX_NDIM]
    PyObject *frame             # that it is of; where there is no GIL alone
    # The axial vectors.  With the GIL they are those that the array grows.  Without it they are as they
    # were when the bounds were set, since a look at those that grow may see two states.
    axial_t *axial
    bint is_double              # elements are the doubles of C, in the byte order of this machine
    bint is_watched             # there is a counter of cuts


# An array as it is at one moment: what indices mean, and where the elements are.  Nobody changes a
# frame that an array shows.  Who takes one may use all of it, whatever becomes of the array: it keeps
# alive what its pointers lead to, and is a user of what later cuts leave outside the bounds.
@cython.final
cdef class Frame:
    cdef apart_t apart
    cdef frame_t now
    cdef Axial vectors
    cdef Region region          # None: the array is closed
    cdef Epoch epoch
    cdef Touched touched
    cdef cnp.dtype kind
    cdef str element_order
    cdef tuple chunk_shape
    cdef object places          # keeps layout.place alive
    # What is cut off becomes holes, which hold zeros.  Where that is not the fill value, `cuts` counts
    # the times, and what was read while it grew is looked at again; else it is None.
    cdef Counter cuts
    cdef object fill            # one element, where there is a counter
    cdef object sums            # where chunks have checksums; else None
    cdef Sieve sieve            # of the one writer, where the engine does not map; else None
    cdef Trust trust            # where there are some by which chunks can be verified; else None
    cdef Supply supply          # where chunks come from elsewhere; else None
    cdef object __weakref__

    cdef Frame copied(self)
    cdef int take_vectors(self) except -1


cdef inline bint is_double(cnp.dtype kind) noexcept:
    """Tell whether elements are the doubles of C, in the byte order of this machine."""
    return kind.type_num == cnp.NPY_DOUBLE and kind.byteorder in (c"=", c"|")


# What is written to an array whose chunks have checksums.
@cython.final
cdef class Writes:
    cdef Touched written
    cdef set shown              # addresses of the chunks that views for writing are out of
    cdef index_t n_begun        # writes that have begun ...
    cdef index_t n_going        # ... and not ended


cdef class ArrayState:
    cdef apart_t apart
    cdef Frame frame                # `frame_of` takes it
    cdef frame_t *now               # of the frame; used where there is no GIL alone
    cdef lock_t changing            # held by who makes a frame of the present one, and shows it
    cdef ArrayState original    # which this one shows as it was; None: this is no such array
    cdef Users users
    cdef Region view_region         # for views of chunks, where the engine does not map
    cdef index_t changes            # grows with every change of elements or bounds
    cdef int lent                   # a view for writing is out: elements may change unseen
    cdef Writes writes              # where chunks have checksums; else None
    cdef object log                 # told of what is read; None: nobody asks
    cdef int tells                  # there is a log: a hint, looked at before each read
    # What has the array: it is asked what messages call it, where its elements are in doubt, and
    # how indices beyond boxes are read and written (`Host` in the .pyi).  None: nobody has it.
    cdef object host

    cdef int show(self, Frame frame) except -1
    cdef Region mapped_for_views(self)
    cdef object listening(self)
    cdef Frame _opened(self)
    cdef Frame _writable(self)


cdef Frame take_frame(ArrayState self)
cdef const frame_t *enter_section(ArrayState self) noexcept
cdef void leave_section() noexcept


# The array as it is now: a reference, taken and counted in one step.
cdef inline Frame frame_of(ArrayState self):
    return take_frame(self) if FREE_THREADS else self.frame


# The same, where the array is not closed.
cdef inline Frame opened(ArrayState self):
    cdef Frame frame = frame_of(self)
    return frame if frame.now.is_open else self._opened()


# The array as it is now, to look at without a reference until `end_look`, and to run no Python.
cdef inline const frame_t *begin_look(ArrayState self) noexcept:
    return enter_section(self) if FREE_THREADS else &self.frame.now


cdef inline void end_look() noexcept:
    if FREE_THREADS:
        leave_section()


cdef inline int check_opened(ArrayState self) except -1:
    """Raise a ClosedError where the array is closed; without a reference to what it is."""
    cdef bint is_open = begin_look(self).is_open
    end_look()
    if not is_open:
        self._opened()
    return 0
