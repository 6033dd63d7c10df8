"""Disk resident arrays of Global Arrays, in a Python that has the library linked in (with_ga.c).

Timings cover the transfer between a global array in memory and the disk, not the one between the
global array and the memory of the ranks.  A growth reads the array, makes a larger one, and writes
it.
"""

from __future__ import annotations

import ctypes
import glob
import os

from boxes import extents
from mpi4py import MPI

C_DOUBLE, READ_WRITE = 1004, -1
library = ctypes.CDLL(None)
if not hasattr(library, "NDRA_Create"):
    raise ImportError("Global Arrays are not linked in")


def ints(numbers):
    return (ctypes.c_int * len(numbers))(*numbers)


def sizes(numbers):
    return (ctypes.c_long * len(numbers))(*numbers)


def finished(function, *arguments):
    """Begin a transfer, and wait for its end."""
    request = ctypes.c_int()
    status = getattr(library, function)(*arguments, ctypes.byref(request))
    if status or library.DRA_Wait(request):
        raise OSError(f"{function} failed")


class Array:
    knows_places = True

    def __init__(self, path, shape, chunks):
        self.path, self.shape, self.chunks, self.number = path, list(shape), chunks, 0
        self._make()

    def _make(self):
        self.number += 1
        self.memory = library.NGA_Create(C_DOUBLE, 3, ints(self.shape), b"a", ints((-1,) * 3))
        self.disk = ctypes.c_int()
        # A new name: the previous array is still being read.
        name = f"{self.path}-{self.number}".encode()
        status = library.NDRA_Create(
            C_DOUBLE, 3, sizes(self.shape), b"a", name, READ_WRITE, sizes(self.chunks),
            ctypes.byref(self.disk),
        )  # fmt: skip
        if status or not self.memory:
            raise OSError("an array cannot be made")

    def _local(self, function, box, values):
        if values.size:
            low, high = ints([s.start for s in box]), ints([s.stop - 1 for s in box])
            data, steps = ctypes.c_void_p(values.ctypes.data), ints(extents(box)[1:])
            getattr(library, function)(self.memory, low, high, data, steps)
        library.GA_Sync()

    def load(self, box, local):
        """Copy from the memory of the ranks, untimed."""
        self._local("NGA_Put", box, local)
        self._whole(box)

    def fetch(self, box, out):
        """Copy to the memory of the ranks, untimed."""
        self._local("NGA_Get", box, out)

    def _whole(self, box):
        """Set the bounds of all ranks' boxes together."""
        comm = MPI.COMM_WORLD
        edges = [[(s.start, s.stop) for s in box]] if all(extents(box)) else []
        boxes = [one for some in comm.allgather(edges) for one in some]
        self.low = [min(one[j][0] for one in boxes) for j in range(3)]
        self.high = [max(one[j][1] for one in boxes) - 1 for j in range(3)]

    def _transfer(self, way, low, high):
        patch = [*map(ints, (low, high)), self.disk, *map(sizes, (low, high))]
        finished(f"NDRA_{way}_section", ctypes.c_long(0), self.memory, *patch)

    def write(self, box, local):
        self._transfer("Write", self.low, self.high)

    def read(self, box, out):
        self._whole(box)
        self._transfer("Read", self.low, self.high)

    def grow(self, axis, by, box, local):
        old, memory, last = self.disk, self.memory, [n - 1 for n in self.shape]
        self.shape[axis] += by
        self._make()
        new, self.disk = self.disk, old
        self._transfer("Read", [0, 0, 0], last)
        library.DRA_Delete(old)
        library.GA_Destroy(memory)
        self.disk = new
        self._local("NGA_Put", box, local)
        self._transfer("Write", [0, 0, 0], [n - 1 for n in self.shape])

    def close(self):
        library.DRA_Delete(self.disk)
        library.GA_Destroy(self.memory)


class Candidate:
    def __init__(self, comm):
        self.comm = comm
        mpi = MPI.Get_library_version().splitlines()[0].split(",")[0]
        self.description = f"DRA of Debian's Global Arrays, {mpi}"
        library.GA_Initialize()
        library.MA_init(C_DOUBLE, 1 << 24, 1 << 24)
        big = ctypes.c_double(1e11)
        library.DRA_Init(64, big, big, ctypes.c_double(1 << 24))

    def create(self, path, shape, chunks):
        return Array(path, shape, chunks)

    def remove(self, path):
        self.comm.Barrier()
        if self.comm.rank == 0:
            for name in glob.glob(f"{path}-*"):
                os.unlink(name)
        self.comm.Barrier()
