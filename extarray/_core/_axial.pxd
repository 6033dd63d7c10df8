# The Python interface of an array's axial vectors.

from ._history cimport History


cdef class Axial(History):
    pass
