"""Arrays of several processes, through MPI.

`extarray.create` and `extarray.open` with ``comm=`` give a `ParallelArray`, whose elements are in
files; `GlobalArray` has its elements in the memory of all ranks.  From the top down:

``creation``
    Arrays made, opened and rechunked by all ranks together, with ``comm=``.
``global_array``
    `GlobalArray`: how it is made, grows and ends.
``collectives``
    Operations of all ranks on global arrays and sections of them, element by element, and products.
``access``
    One-sided access of a rank to any part of a global array.
``windows``
    The memory of all ranks, and how elements move to and from that of others.
``mutexes``
    `Mutexes`: turns that ranks take.
``array``
    `ParallelArray`: how it grows, changes, is followed, flushed and closed.
``parallel_io``
    The elements of a `ParallelArray`, read and written by all ranks together or by one.
``rank_io``
    Transfers of one rank, through MPI-IO or by its own engine; additions under a lock.
``file_views``
    A file view, a staging buffer, and rounds that all ranks make together.
``file_parts``
    The parts of a transfer in the order of the file.
``patches``
    Hyperslabs and sections: the parts of a selection in the memory of each rank; ghosts.  Pure
    functions.
``replica``
    The store of the ranks that commit nothing.
``zones``
    Zones: which elements belong to which rank, also after a growth.
``requests``
    Transfers that go on while the program computes, and the values that they bring.
``runtime``
    The MPI library, loaded late, its hints and errors; steps that all ranks take, or none.

May use: array, and the rooms below it.
"""

from extarray.mpi.array import ParallelArray
from extarray.mpi.collectives import GlobalSection
from extarray.mpi.global_array import GlobalArray
from extarray.mpi.mutexes import Mutexes
from extarray.mpi.requests import Request

__all__ = ["GlobalArray", "GlobalSection", "Mutexes", "ParallelArray", "Request"]
