"""Ranks follow a program outside that grows the array: PATH PLANES.

Print READY when the array is open.  Plane i has elements i.
"""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

import extarray as xa

comm = MPI.COMM_WORLD
path, planes = sys.argv[1], int(sys.argv[2])
with xa.open(path, comm=comm) as a:
    if not comm.rank:
        print("READY", flush=True)
    n = 0
    while n < planes:
        a.refresh()
        assert len(a) >= n
        n = len(a)
        for found in (a.read(), a.read(collective=False), a[...]):
            assert (found == np.arange(n)[:, None, None]).all(), (n, found[:, 0, 0])
