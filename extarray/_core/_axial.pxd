# The axial vectors of an array, as Python has them.

cimport cython

from ._history cimport History
from ._types cimport index_t


cdef class Axial(History):
    @cython.final
    cdef index_t _address(self, address) except -1
