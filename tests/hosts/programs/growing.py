"""Append and flush planes until the end: PATH.  Print the number of planes after each flush.

Plane i has elements i.
"""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

import extarray as xa

comm = MPI.COMM_WORLD
with xa.create(sys.argv[1], (0, 20, 30), "i4", chunks=(3, 8, 8), comm=comm) as a:
    for i in range(100_000):
        part = a.zone_of_growth(0, 1)
        a.append_zone(np.full([s.stop - s.start for s in part], i), 0, 1)
        if i % 2:
            a.flush()
            if not comm.rank:
                print(len(a), flush=True)
