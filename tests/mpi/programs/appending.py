"""Append planes and write to old ones until killed: PATH.  Print READY at the start.

Plane i has elements i.  After LIMIT planes, if given, the last rank ends by an error.
"""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

import extarray as xa

comm = MPI.COMM_WORLD
path, limit = sys.argv[1], int(sys.argv[2])
with xa.create(path, (0, 20, 30), "i4", chunks=(3, 8, 8), comm=comm, engine="mpi-io") as a:
    for i in range(100_000):
        axis_0 = a.zone_of_growth(0, 1)
        a.append_zone(np.full([s.stop - s.start for s in axis_0], i), 0, 1)
        if i % 3 == 2:
            a.write_zone(np.arange(i + 1)[a.zone()[0], None, None])
        if i == 10 and comm.rank == 0:
            print("READY", flush=True)
        if i + 1 == limit and comm.rank == comm.size - 1:
            raise RuntimeError("a mistake of the program")
