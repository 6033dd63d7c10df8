"""Global Arrays, in a Python that has the library linked in (with_ga.c)."""

from __future__ import annotations

import ctypes

from mpi4py import MPI

C_DOUBLE = 1004
library = ctypes.CDLL(None)
if not hasattr(library, "NGA_Create"):
    raise ImportError("Global Arrays are not linked in")


def ints(numbers):
    return (ctypes.c_int * len(numbers))(*numbers)


class Candidate:
    def __init__(self, comm):
        self.comm = comm
        mpi = MPI.Get_library_version().splitlines()[0].split(",")[0]
        self.description = f"Debian's Global Arrays, {mpi}"
        library.GA_Initialize()
        library.MA_init(C_DOUBLE, 1 << 20, 1 << 20)

    def make(self, rows, columns):
        self.rows = rows
        shape = ints((2 * rows, columns))
        self.array = library.NGA_Create(C_DOUBLE, 2, shape, b"a", ints((rows, columns)))
        low, high = ints((0, 0)), ints((0, 0))
        library.NGA_Distribution(self.array, 1, low, high)
        assert self.array and [*low, *high] == [rows, 0, 2 * rows - 1, columns - 1]
        library.GA_Zero(self.array)

    def calls(self, operation, values):
        """Return an operation's calls, by name.  (Puts are complete at the target, too.)"""
        rows, columns = values.shape
        low, high = ints((self.rows, 0)), ints((self.rows + rows - 1, columns - 1))
        arguments = [self.array, low, high, ctypes.c_void_p(values.ctypes.data), ints((columns,))]
        if operation == "accumulate":
            arguments.append(ctypes.byref(ctypes.c_double(1)))
        names = {"get": "NGA_Get", "put": "NGA_Put", "accumulate": "NGA_Acc"}
        function = getattr(library, names[operation])

        def run():
            function(*arguments)
            library.ARMCI_Fence(1)

        if operation == "get":
            return {"ga": lambda: function(*arguments)}
        return {"ga": run}

    def remove(self):
        library.GA_Destroy(self.array)
