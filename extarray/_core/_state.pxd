# What is known of an array.

cimport numpy as cnp
from libc.stdint cimport uint64_t

from ._axial cimport Axial
from ._copy cimport layout_t
from ._mapping cimport Counter, Region, Touched, Views
from ._types cimport MAX_NDIM, index_t


cdef class ArrayState:
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

    cdef int _check_open(self) except -1
    cdef int _check_rank(self, int rank) except -1
    cdef int _check_writable(self) except -1
