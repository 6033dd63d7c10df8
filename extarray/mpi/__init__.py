"""Arrays of several processes, through MPI.

`extarray.create` and `extarray.open` with ``comm=`` return a `ParallelArray`, which keeps its
elements in files; `GlobalArray` keeps its elements in the memory of all ranks.  From the top down:

``creation``
    Make, open and rechunk arrays on all ranks together, with ``comm=``.
``global_array``
    `GlobalArray`: how it is made, grows and ends.
``collectives``
    Operations of all ranks on global arrays and their sections: elementwise, and products.
``access``
    One-sided access of a rank to any part of a global array.
``windows``
    The memory of all ranks, and how elements move between ranks.
``mutexes``
    `Mutexes`: ranks take turns.
``array``
    `ParallelArray`: how it grows, changes, is followed, flushed and closed.
``freezing``
    Freezing by the ranks of one host.
``parallel_io``
    Read and write the elements of a `ParallelArray`, on all ranks together or on one.
``rank_io``
    Transfers of one rank, through MPI-IO or its own engine; additions under a lock.
``file_views``
    A file view, a staging buffer, and the rounds that all ranks take together.
``file_parts``
    The parts of a transfer in the order of the file.
``patches``
    Hyperslabs and sections: the parts of a selection in the memory of each rank; ghosts.  Pure
    functions.
``replica``
    The store of the ranks that do not commit.
``host_memory``
    Bytes of memory that ranks share if all are on one host.
``zones``
    Zones: which rank has which elements, also after growth.
``requests``
    Transfers that run while the program computes, and the values that they move.
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
