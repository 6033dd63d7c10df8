"""Leave an array of 4 ranks for plain programs: PATH."""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

import extarray as xa

comm = MPI.COMM_WORLD
with xa.create(sys.argv[1], (0, 40), "i4", chunks=(4, 8), comm=comm) as a:
    for _ in range(6):
        part = a.zone_of_growth(0, 5)
        rows, columns = (np.arange(s.start, s.stop) for s in part)
        a.append_zone(100 * rows[:, None] + columns, 0, 5)
    a.append(np.full((30, 2), -5), axis=1)
