# The state of an array.

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from ._axial cimport Axial
from ._copy cimport layout_t
from ._file cimport Sieve
from ._frozen cimport Frozen
from ._mapping cimport Counter, Epoch, Region, Touched, Users
from ._supply cimport Supply, Trust
from ._types cimport FREE_THREADS, MAX_NDIM, apart_t, index_t, lock_t
from ._vectors cimport axial_t


cdef struct frame_t:
    layout_t layout
    index_t bounds[MAX_NDIM]
    # The grid, published together with the bounds.
    index_t extents[MAX_NDIM]
    index_t origins[MAX_NDIM]
    index_t file_bytes          # of all chunks inside these bounds
    bint is_open
    bint is_writable
    bint reads_direct           # elements can be loaded from layout.base
    bint writes_direct          # and stored there without checking `touched`
    bint reads_frozen           # elements can be loaded from layout.base or decoded chunks
    bint reads_singly           # one element is read on its own: reads_frozen, or by a system call
    bint writes_called          # one element is written by a system call alone
    bint is_durable             # writes must be on the disk when the call returns
    bint asks                   # chunks need a request before they are read: a supply, or ...
    bint verifies               # ... a comparison with their checksums
    # Elements that an outside writer has cut off; `cuts` counts the cuts.
    uint64_t cuts_known         # the count for which the inner box holds
    bint is_cut                 # there is an inner box: all known elements outside were cut off
    index_t inner_low[MAX_NDIM]     # counted from the first index 0
    index_t inner_high[MAX_NDIM]
    PyObject *frame             # the frame around this; only without the GIL
    # The axial vectors: with the GIL, the ones that grow; without it, a copy from when the bounds
    # were set, since a reader of growing vectors may mix two states.
    axial_t *axial
    bint is_double              # elements are C doubles in this machine's byte order
    bint is_watched             # there is a counter of cuts


# An array at one moment: the meaning of indices, and where the elements are.  A published frame
# never changes.  Its holder may use all of it, whatever happens to the array: it keeps its
# pointers' targets alive, and counts as a user of elements that later cuts leave outside the
# bounds.
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
    # Cut-off elements become holes, which read as zeros.  If zero is not the fill value, `cuts`
    # counts the cuts, and a read during which it grew is checked again; otherwise `cuts` is None.
    cdef Counter cuts
    cdef object fill            # one element, if there is a counter
    cdef object sums            # if chunks have checksums; else None
    cdef Sieve sieve            # of the one writer, if the engine does not map; else None
    cdef Trust trust            # if checksums can verify chunks; else None
    cdef Supply supply          # if chunks come from elsewhere; else None
    cdef Frozen frozen          # if chunks may be frozen; else None
    cdef object __weakref__

    cdef Frame copied(self)
    cdef int take_vectors(self) except -1


cdef inline bint is_double(cnp.dtype kind) noexcept:
    """Tell whether elements are C doubles in this machine's byte order."""
    return kind.type_num == cnp.NPY_DOUBLE and kind.byteorder in (c"=", c"|")


# Writes to an array whose chunks have checksums, or may be frozen.
@cython.final
cdef class Writes:
    cdef Touched changed        # written since they were last considered for freezing
    cdef Touched written
    cdef Touched taken          # written, and about to be summed
    cdef set shown              # addresses of chunks with live writable views
    cdef index_t n_begun        # writes that have begun ...
    cdef index_t n_going        # ... and not ended
    cdef object gate            # a lock that writes wait for before they begin, ...
    cdef int is_held            # ... if this is set


cdef class ArrayState:
    cdef apart_t apart
    cdef Frame frame                # read it through `frame_of`
    cdef frame_t *now               # of the frame; used only without the GIL
    cdef lock_t changing            # held while a frame is made from the present one and shown
    cdef ArrayState original    # the array that this one shows as it was; None: not such a view
    cdef Users users
    cdef Region view_region         # for views of chunks, if the engine does not map
    cdef index_t changes            # grows with every change of elements or bounds
    cdef int lent                   # a writable view is out: elements may change unseen
    cdef Writes writes              # if chunks have checksums, or may be frozen; else None
    cdef object log                 # receives what is read; None: there is none
    cdef int tells                  # there is a log: a hint, checked before each read
    # The owner: knows the array's name for messages, whether its elements are in doubt, and how to
    # use indices other than boxes (`Host` in the .pyi).  None: no owner.
    cdef object host

    cdef int show(self, Frame frame) except -1
    cdef bint _publish(self, shape, offset, mark) except -1
    cdef Region mapped_for_views(self)
    cdef object listening(self)
    cdef Frame _opened(self)
    cdef Frame _writable(self)


cdef Frame take_frame(ArrayState self)
cdef const frame_t *enter_section(ArrayState self) noexcept
cdef void leave_section() noexcept


# The array as it is now: one reference, taken and counted in one step.
cdef inline Frame frame_of(ArrayState self):
    return take_frame(self) if FREE_THREADS else self.frame


# The same, unless the array is closed.
cdef inline Frame opened(ArrayState self):
    cdef Frame frame = frame_of(self)
    return frame if frame.now.is_open else self._opened()


# The array as it is now, for a look without a reference until `end_look`.  Run no Python meanwhile.
cdef inline const frame_t *begin_look(ArrayState self) noexcept:
    return enter_section(self) if FREE_THREADS else &self.frame.now


cdef inline void end_look() noexcept:
    if FREE_THREADS:
        leave_section()


cdef inline int check_opened(ArrayState self) except -1:
    """Raise a ClosedError if the array is closed; take no reference to its frame."""
    cdef bint is_open = begin_look(self).is_open
    end_look()
    if not is_open:
        self._opened()
    return 0
