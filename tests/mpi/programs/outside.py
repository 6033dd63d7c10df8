"""A serial process grows the array that the ranks read: PATH ENGINE."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from mpi4py import MPI

import extarray as xa

comm = MPI.COMM_WORLD
path, engine = sys.argv[1:]
WRITER = """
import sys, numpy as np, extarray as xa
with xa.open(sys.argv[1], "r+") as a:
    for n in range(1, 4):
        a.append(np.full((5, a.shape[1]), n), axis=0)
        a.append(np.full((a.shape[0], 2), -n), axis=1, side="start")
    a.attrs["done"] = True
"""
if comm.rank == 0:
    xa.create(path, (2, 3), "i8", chunks=(2, 2)).close()
comm.Barrier()
with xa.open(path, comm=comm, engine=engine) as a:
    assert a.read().shape == (2, 3)
    if comm.rank == 0:
        subprocess.run([sys.executable, "-c", WRITER, path], check=True, timeout=250)
    assert a.shape == (2, 3)
    assert a.refresh() is True
    assert a.refresh() is False
    assert (a.shape, a.attrs["done"]) == ((17, 9), True)
    model = np.zeros((2, 3), "i8")
    for n in range(1, 4):
        model = np.concatenate([model, np.full((5, model.shape[1]), n)])
        model = np.concatenate([np.full((len(model), 2), -n), model], axis=1)
    assert np.array_equal(a.read(), model)
    assert np.array_equal(a.read_zone(), model[a.zone()])
    assert np.array_equal(a[...], model)
