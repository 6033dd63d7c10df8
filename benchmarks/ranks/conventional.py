"""One array in row-major order; growing any axis but the first rewrites it."""

from __future__ import annotations

import os

import numpy as np
from boxes import box_of, extents


class Array:
    knows_places = True

    def __init__(self, comm, path, shape):
        self.comm, self.path, self.shape = comm, path, list(shape)
        self._map()

    def _map(self):
        """Map the file, as long as the shape says."""
        if self.comm.rank == 0:
            with open(self.path, "ab") as file:
                file.truncate(8 * int(np.prod(self.shape)))
        self.comm.Barrier()
        self.values = np.memmap(self.path, "f8", "r+", shape=tuple(self.shape))

    def write(self, box, local):
        self.values[box] = local

    def read(self, box, out):
        out[...] = self.values[box]

    def grow(self, axis, by, box, local):
        old, values = list(self.shape), self.values
        self.shape[axis] += by
        if axis:
            self.comm.Barrier()
            if self.comm.rank == 0:
                os.unlink(self.path)  # ranks that have the old file mapped keep it
            self.comm.Barrier()
        self._map()
        if axis:
            kept = box_of(self.comm, (0, 0, 0), old, (1, 1, 1))
            if all(extents(kept)):
                self.values[kept] = values[kept]
        self.values[box] = local

    def close(self):
        del self.values


class Candidate:
    description = "row-major, numpy.memmap; growth of axes 1 and 2 copies the array"

    def __init__(self, comm):
        self.comm = comm

    def create(self, path, shape, chunks):
        return Array(self.comm, path, shape)

    def remove(self, path):
        if self.comm.rank == 0:
            os.unlink(path)
        self.comm.Barrier()
