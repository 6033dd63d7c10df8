"""Ranks and compressed arrays: refused by name, or right: PATH ENGINE."""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI
from mpierrors import raises

import extarray as xa

comm = MPI.COMM_WORLD
path, engine = sys.argv[1:]
values = np.arange(12 * 256).reshape(12, 256)
refused = comm.size > 1 or engine == "mpi-io"

if not comm.rank:
    with xa.create(path, (0, 256), "i8", chunks=(4, 128), compression="zlib") as array:
        array.append(values)
    with xa.open(path) as array:
        xa.pack(array, f"{path}.xap", compression="zlib")
comm.Barrier()
with raises(xa.ArgumentError, "cannot be compressed yet"):
    xa.create(path, (0, 256), chunks=(4, 128), compression="zlib", overwrite=True, comm=comm)
for name, mode in ((path, "r"), (f"{path}.xap", "r"), (path, "r+")):
    with (
        raises(xa.ArgumentError, "may be compressed", refused),
        xa.open(name, mode, comm=comm, engine=engine) as array,
    ):
        assert np.array_equal(array[...], values)
        assert np.array_equal(array.read_zone(), values)
        if mode == "r+":
            array.write_zone(values := -values)
            array.append(values[:3])
            values = np.concatenate([values, values[:3]])
        assert np.array_equal(array.read_zone(), values)
comm.Barrier()
if not comm.rank:
    with xa.open(path) as array:
        assert np.array_equal(array[...], values)
