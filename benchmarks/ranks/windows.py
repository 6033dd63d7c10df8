"""Our global arrays, and hand-written MPI windows, in one program: single calls take turns.

Hand-written means: a window, a type made in advance, one call, and a flush; values lie in one run.
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from extarray.mpi import GlobalArray


class Candidate:
    def __init__(self, comm):
        self.comm = comm
        library = MPI.Get_library_version().splitlines()[0].split(",")[0]
        self.description = f"GlobalArray, and windows by hand, {library}"

    def make(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.array = GlobalArray.create((2 * rows, columns), "f8", self.comm, process_grid=(2, 1))
        self.window = MPI.Win.Allocate(8 * rows * columns, 1, comm=self.comm)
        np.frombuffer(self.window.tomemory(), "f8")[:] = 0
        self.window.Lock_all()

    def calls(self, operation, values):
        """Return an operation's calls, by name."""
        rows, columns = values.shape
        selection = (slice(self.rows, self.rows + rows), slice(0, columns))
        box = MPI.DOUBLE.Create_vector(rows, columns, self.columns).Commit()
        method, call = getattr(self.array, operation), getattr(self.window, operation.capitalize())
        target, window = (0, 1, box), self.window

        def by_hand():
            call(values, 1, target)
            window.Flush(1)

        return {"ours": lambda: method(selection, values), "by hand": by_hand}

    def remove(self):
        self.window.Unlock_all()
        self.window.Free()
        self.array.destroy()
