"""Arrays of several processes, through MPI.

`extarray.create` and `extarray.open` with ``comm=`` give a `ParallelArray`.  From the top down:

``rechunking``, ``sharing``
    Layout transformations that ranks share, and which has which part: `extarray.rechunk` with
    ``comm=``.
``opening``
    Making and opening: rank 0 does, the others follow.
``globalarray``
    `GlobalArray`: elements in the memory of all ranks; how they are made, grow and end.
``collectives``, ``mutexes``
    What all ranks do with global arrays as wholes; turns that ranks take.
``access``
    What one rank reads, writes and adds to, of any part of a global array.
``onesided``, ``windows``
    How that moves to and from the memory of others, and that memory.
``ghosts``
    The elements around a zone.
``array``
    `ParallelArray`: how it is followed, flushed and closed.
``changes``
    Collective growth, and other changes: rank 0 makes them, the others take them up.
``parallelio``
    Reading and writing, collective or by one rank.
``zoned``
    Which rank has which part of an array.
``additions``
    Additions to elements in files, of which none is lost.
``direct``, ``transfers``
    What a rank moves, through MPI-IO or by its own engine.
``patches``
    Which part of a selection lies where: pure functions.
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
``requests``, ``values``
    Transfers that go on while the program computes; what is put or added to elements.
``runtime``
    The MPI library, loaded late; its hints and errors.
"""

from extarray.mpi.array import ParallelArray
from extarray.mpi.globalarray import GlobalArray
from extarray.mpi.mutexes import Mutexes
from extarray.mpi.requests import Request

__all__ = ["GlobalArray", "Mutexes", "ParallelArray", "Request"]
