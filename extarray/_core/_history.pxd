# The history of growth of an array.

cimport cython
from libc.stdint cimport int32_t

from ._types cimport FREE_THREADS, MAX_NDIM, index_t
from ._vectors cimport axial_t


cdef class History:
    cdef axial_t state
    cdef int32_t segment_capacity
    cdef int32_t side_capacity[2][MAX_NDIM]
    cdef index_t table_capacity[2][MAX_NDIM]
    cdef int n_pins
    cdef bint owned                     # by an array; only that array may grow them
    cdef list retired
    cdef object __weakref__

    @cython.final
    cdef int _axis(self, object axis) except -1

    @cython.final
    cdef int pin(self, axial_t *state) except -1

    @cython.final
    cdef int unpin(self) except -1

    @cython.final
    cdef void *_allocated(self, size_t wanted) except NULL

    @cython.final
    cdef int _retire(self, void *old) except -1

    @cython.final
    cdef void *_resized(self, void *old, size_t used, size_t wanted) except NULL

    @cython.final
    cdef int _make_room(self, int32_t more) except -1

    @cython.final
    cdef int _note_starts(self) except -1

    @cython.final
    cdef int _add_segment(self, int axis, int side) except -1

    @cython.final
    cdef int _make_room_for_owners(self, int axis, int side, int32_t more) except -1

    @cython.final
    cdef bint grow_axis(self, object axis, object by, object side) except -1

    @cython.final
    cdef bint extend(self, int axis, int side, index_t by) except -1

    @cython.final
    cdef int _lengthen(self, int axis, int side, index_t by) except -1

    @cython.final
    cdef int _update_table(self, int axis, int side, index_t first) except -1

    @cython.final
    cdef tuple _extents(self, int side)


# Undo all growth since a mark; call it in a critical section of the history.
cdef int take_back(History self, mark) except -1

# The current vectors, for a look that runs no Python.  Without the GIL, a copy.
cdef inline const axial_t *look(History self, axial_t *room) except NULL:
    if FREE_THREADS:
        self.pin(room)
        return room
    return &self.state
