"""Ranks on two hosts share one array: PATH."""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

import extarray as xa

comm = MPI.COMM_WORLD
path = sys.argv[1]
node = comm.Split_type(MPI.COMM_TYPE_SHARED)
assert (comm.size, node.size) == (4, 2), "not on two hosts"
node.Free()

model = np.arange(77.0).reshape(7, 11)
a = xa.create(path, (7, 11), chunks=(2, 3), comm=comm)
# No mapping, since each host has its own page cache.
assert a._store.now.engine == "pread"
assert a._views is not None, "not through MPI-IO"
a.write_zone(model[a.zone()])
for axis, side in ((0, "end"), (1, "start"), (0, "start")):
    extents = [3 if j == axis else n for j, n in enumerate(a.shape)]
    new = np.arange(1000.0, 1000.0 + np.prod(extents)).reshape(extents)
    a.append(new, axis, side)
    model = np.concatenate([model, new] if side == "end" else [new, model], axis)
    a.flush()  # makes writes visible to the other host
    assert np.array_equal(a.read(), model)
    assert np.array_equal(a[...], model)
    comm.Barrier()
a.attrs["hosts"] = 2
a.close()
with xa.open(path, comm=comm) as b:
    assert b.attrs["hosts"] == 2
    assert np.array_equal(b.read_zone(), model[b.zone()])
