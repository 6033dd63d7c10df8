"""Arrays of several processes, through MPI.

`extarray.create` and `extarray.open` with ``comm=`` give a `ParallelArray`.  From the top down:

``rechunking``, ``sharing``
    Layout transformations that ranks share, and which has which part: `extarray.rechunk` with
    ``comm=``.
``opening``
    Making and opening: rank 0 does, the others follow.
``globalarray``
    `GlobalArray`: elements in the memory of all ranks, read and written one-sided.
``array``
    `ParallelArray`: collective reading, writing and growth.
``transfers``, ``direct``
    What a rank moves, through MPI-IO or by its own engine.
``fileviews``
    A file view, a staging buffer, and rounds that all ranks make together.
``plans``
    Parts of a transfer in the order of the file.
``replica``
    The store of the ranks that commit nothing.
``agreement``
    Steps that all ranks take, or none.
``zones``
    Which rank has which part: pure functions.
``library``, ``requests``
    The MPI library, loaded late; transfers that go on while the program computes.
"""

from extarray.mpi.array import ParallelArray
from extarray.mpi.globalarray import GlobalArray
from extarray.mpi.requests import Request

__all__ = ["GlobalArray", "ParallelArray", "Request"]
