"""The program of each rank of a candidate of benchmarks/parallel.py: arrays in files.

``python -m mpi4py program.py CANDIDATE FOLDER MASTER``.  It also runs on old versions of NumPy and
mpi4py, which parallel HDF5 brings along.
"""

from __future__ import annotations

import importlib
import os
import sys

import numpy as np
from boxes import box_of, extents
from mpi4py import MPI
from orders import serve

comm = MPI.COMM_WORLD
#: Cut off on both sides for cases not aligned with chunks.
MARGIN = 5, 3


def values(box):
    """Return the elements of a box: distinct, and determined by the index alone."""
    i, j, k = np.ogrid[box]
    return 1e8 * i + 1e4 * j + k + 1.0


class Program:
    """The orders, by name."""

    def __init__(self, name, folder):
        self.candidate = importlib.import_module(name).Candidate(comm)
        self.folder = folder
        self.array = None

    def describe(self):
        return self.candidate.description

    def make(self, shape, chunks):
        self.shape, self.chunks = shape, chunks
        self.array = self.candidate.create(os.path.join(self.folder, "array"), shape, chunks)

    def remove(self):
        self.array.close()
        self.array = None
        self.candidate.remove(os.path.join(self.folder, "array"))

    def first(self, shape, chunks):
        """Time creation and the first write together: libraries make room in either of them."""
        return self._second(lambda: self._first(shape, chunks))

    def _first(self, shape, chunks):
        box = box_of(comm, (0, 0, 0), shape, chunks)
        local = values(box)

        def action():
            self.make(shape, chunks)
            self._load(box, local)
            self.array.write(box, local)

        seconds = self._timed(action)
        self.remove()
        return seconds

    def _box(self, aligned):
        if aligned:
            return box_of(comm, (0, 0, 0), self.shape, self.chunks)
        low = (MARGIN[0],) * 3
        high = tuple(n - MARGIN[1] for n in self.shape)
        return box_of(comm, low, high, (1, 1, 1))

    def write(self, aligned):
        box = self._box(aligned)
        local = values(box)
        self._load(box, local)
        return self._timed(lambda: self.array.write(box, local))

    def read(self, aligned, check):
        box = self._box(aligned)
        out = np.full(extents(box), -1.0)  # its pages in use already
        seconds = self._timed(lambda: self.array.read(box, out))
        if check:
            self._check(box, out)
        return seconds

    def _load(self, box, local):
        """Prepare a write if the library has its own array in memory."""
        if hasattr(self.array, "load"):
            self.array.load(box, local)

    def _check(self, box, found):
        if hasattr(self.array, "fetch"):
            self.array.fetch(box, found)
        if self.array.knows_places:
            assert np.array_equal(found, values(box)), "wrong elements"

    def grow(self, shape, chunks, by, times):
        """Grow axes 0, 1, 2 in turn, writing each new part; return the times."""
        return self._second(lambda: self._grow(shape, chunks, by, times))

    def _grow(self, shape, chunks, by, times):
        self.make(shape, chunks)
        shape = list(shape)
        box = box_of(comm, (0, 0, 0), shape, chunks)
        local = values(box)
        self._load(box, local)
        self.array.write(box, local)
        seconds = []
        for number in range(times):
            axis = number % 3
            low = [0, 0, 0]
            low[axis] = shape[axis]
            shape[axis] += by
            if hasattr(self.array, "zone_of_growth"):
                box = self.array.zone_of_growth(axis, by)
            else:
                box = box_of(comm, low, shape, chunks)
            local = values(box)
            seconds.append(self._timed(lambda a=axis, b=box, v=local: self.array.grow(a, by, b, v)))
        box = box_of(comm, (0, 0, 0), shape, chunks)
        out = np.full(extents(box), -1.0)  # its pages in use already
        self.array.read(box, out)
        self._check(box, out)
        self.remove()
        return seconds

    @staticmethod
    def _second(action):
        """Return the result of an action's second run.

        New files take free memory.  A virtual machine may have returned it to its host, and getting
        it back takes many times as long as a copy; the second run finds the memory that the first
        has taken and released.
        """
        action()
        return action()

    def _timed(self, action):
        """Return the seconds until the last rank is done."""
        comm.Barrier()
        began = MPI.Wtime()
        action()
        comm.Barrier()
        return comm.bcast(MPI.Wtime() - began)


if __name__ == "__main__":
    serve(Program, *sys.argv[1:])
