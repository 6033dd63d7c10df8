"""Analyses whose results take almost half of their permitted memory: SCENE."""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np
from mpi4py import MPI

import extarray as xa
from extarray.apps import hyperspectral as hs

comm = MPI.COMM_WORLD
MEMORY = 6 * 2**20

with xa.open(sys.argv[1], "r", comm=comm) as a:
    rows, columns, bands = a.shape
    count = MEMORY // 2 // (rows * columns * 8)
    members = np.random.default_rng(0).random((count, bands))
    for name, call in {
        "pct": lambda scene: hs.pct(scene, count, comm=comm, max_memory=MEMORY).scores,
        "mnf": lambda scene: hs.mnf(scene, count, comm=comm, max_memory=MEMORY).scores,
        "nfindr": lambda scene: hs.nfindr(scene, count + 1, comm=comm, max_memory=MEMORY).volume,
        "nnls": lambda scene: hs.abundances(scene, members, "nnls", comm=comm, max_memory=MEMORY),
    }.items():
        call(a[:30, :30])  # triggers imports and caches
        tracemalloc.start()
        found = call(a)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most <= MEMORY, (name, comm.rank, most)
        if np.ndim(found):
            assert isinstance(found, np.ndarray) and found.nbytes > 0.9 * MEMORY / 2
    if comm.rank == 0:
        print("ok")
