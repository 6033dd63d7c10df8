# The axial vectors of an array, as Python has them.

from ._history cimport History


cdef class Axial(History):
    pass
