"""A program of several ranks: times, messages and requests of collective calls on one array.

``mpiexec -n 4 python -m mpi4py calls.py ARRAY RESULTS`` opens and grows an array, and writes a JSON
object to a file: for each call its seconds on the slowest rank, and the calls to MPI and the bytes
that rank 0 has sent.  Between two calls each rank asks for a file that does not exist, so that a
trace of its system calls can be divided.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from mpi4py import MPI

import extarray as xa

#: Begins the names of files that do not exist.
MARK = "/between-calls-"
STEPS = 6
MOST_CHUNKS = 10_000  # of a slab to write


class Counted(MPI.Intracomm):
    """A communicator that counts the collective calls, and the bytes, of all its duplicates."""

    calls = 0
    nbytes = 0

    def _note(self, nbytes: int) -> None:
        Counted.calls += 1
        Counted.nbytes += nbytes

    def Bcast(self, buffer: Any, root: int = 0) -> None:  # noqa: N802 (MPI's)
        self._note(memoryview(buffer).nbytes)
        super().Bcast(buffer, root)

    def bcast(self, obj: Any = None, root: int = 0) -> Any:
        found = super().bcast(obj, root)
        self._note(len(pickle.dumps(found)))
        return found

    def Allreduce(self, mine: Any, total: Any, op: MPI.Op = MPI.SUM) -> None:  # noqa: N802
        self._note(mine.nbytes)
        super().Allreduce(mine, total, op)


def resident(field: str) -> int:
    """Return bytes of this process that are in memory now ("VmRSS"), or were at most ("VmHWM")."""
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith(field))


class Course:
    """The calls so far."""

    def __init__(self, comm: Counted) -> None:
        self.comm = comm
        self.found: dict[str, dict[str, float]] = {}

    @contextlib.contextmanager
    def call(self, name: str, times: int = 1) -> Iterator[None]:
        self.comm.Barrier()
        with contextlib.suppress(FileNotFoundError):
            os.stat(MARK + name)
        Counted.calls = Counted.nbytes = 0
        start = time.perf_counter()
        yield
        seconds = time.perf_counter() - start
        slowest = MPI.COMM_WORLD.allreduce(seconds, MPI.MAX)
        self.found[name] = {
            "seconds": slowest / times,
            "calls": Counted.calls / times,
            "bytes": Counted.nbytes / times,
        }


def ones(part: tuple[slice, ...]) -> np.ndarray:
    return np.ones([some.stop - some.start for some in part], "u1")


def main(path: str, results: str) -> None:
    comm = Counted(MPI.COMM_WORLD)
    course = Course(comm)
    with xa.create(f"{path}-small", (1, 1), "u1", chunks=1, comm=comm, overwrite=True):
        pass  # loads modules
    before = resident("VmRSS")
    with course.call("open"):
        array = xa.open(path, "r+", comm=comm)
    held, most = resident("VmRSS") - before, resident("VmHWM") - before
    segments = array.axial.segments
    with course.call("extend", STEPS):
        for step in range(STEPS):
            array.extend(step % 2, 1)
    if max(array.grid) < MOST_CHUNKS:
        with course.call("append_zone", STEPS):
            for step in range(STEPS):
                array.append_zone(ones(array.zone_of_growth(step % 2, 1)), step % 2, 1)
    box = slice(comm.rank, comm.rank + 1), slice(0, 64)
    with course.call("write"):
        array.write(box, ones(box))
    with course.call("read"):
        array.read(box)
    with course.call("flush"):
        array.flush()
    with course.call("close"):
        array.close()
    with course.call("end"):
        pass
    memory = MPI.COMM_WORLD.gather((held, most))
    if memory is not None:
        del course.found["end"]
        with open(results, "w") as file:
            json.dump({"segments": segments, "calls": course.found, "memory": memory}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
