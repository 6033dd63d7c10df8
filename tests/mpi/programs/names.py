"""Names of axes and fields as in serial arrays, compared with NumPy: PATH ENGINE."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from mpi4py import MPI

import extarray as xa

comm = MPI.COMM_WORLD
path, engine = sys.argv[1], sys.argv[2]


def same(a, model):
    assert a.shape == model.shape
    assert np.array_equal(a.read(), model)
    comm.Barrier()


# -- axes ----------------------------------------------------------------------------------------

model = np.arange(24, dtype="i4").reshape(4, 6)
dims = ("time", "x")
with xa.create(path, (4, 6), "i4", chunks=(2, 3), dims=dims, comm=comm, engine=engine) as a:
    a.write(..., model)
    a.extend("time", 1)
    model = np.pad(model, ((0, 1), (0, 0)))
    same(a, model)
    a.append(np.full((5, 2), 7, "i4"), axis="x")
    model = np.pad(model, ((0, 0), (0, 2)), constant_values=7)
    same(a, model)
    a.append(np.full((2, 8), 9, "i4"), axis="time", side="start")
    model = np.pad(model, ((2, 0), (0, 0)), constant_values=9)
    same(a, model)
    a.shrink("x", 1)
    model = model[:, :-1]
    same(a, model)
    a.resize(6, axis="time")
    model = model[:6]
    same(a, model)
    assert np.array_equal(a.mean(axis="time"), model.mean(axis=0))
    assert np.array_equal(a.sum(axis=("x", "time")), model.sum())
    assert np.array_equal(a.lazy[1:].max(axis="x"), model[1:].max(axis=1))
    for change in (a.extend, a.shrink):
        with pytest.raises(xa.AxisError, match="band"):
            change("band", 1)
    if comm.size > 1:
        with pytest.raises(xa.ArgumentError, match="the ranks disagree"):
            a.extend("time" if comm.rank == 0 else "x", 1)
    same(a, model)
    # A similar array, created together.
    with xa.create(path + "-like", (3, 7), like=a, comm=comm, engine=engine) as b:
        assert (b.dims, b.chunks, b.dtype) == (dims, (2, 3), a.dtype)

# -- fields --------------------------------------------------------------------------------------

dtype = np.dtype([("v", "f4"), ("p", [("u", "i2"), ("w", "f8")])])
records = np.zeros((6, 5), dtype)
with xa.create(path, (6, 5), dtype, chunks=(2, 2), overwrite=True, comm=comm, engine=engine) as a:
    mine = slice(comm.rank, None, comm.size)
    a.write(("v", mine), np.float32(comm.rank + 1))
    for rank in range(comm.size):
        records["v"][rank :: comm.size] = rank + 1
    same(a, records)
    a[mine, "v"] = 2 * records["v"][mine]  # each rank alone
    comm.Barrier()
    records["v"] *= 2
    same(a, records)
    a.lazy["p"].lazy["u"][mine] = 5
    comm.Barrier()
    records["p"]["u"] = 5
    same(a, records)
    a.lazy[["v"]][mine] = records[["v"]][mine]
    comm.Barrier()
    same(a, records)
    for key in ("v", ("v", slice(2, 5)), (slice(2, 5), "v"), (3, "p"), (1, 2, "v")):
        rest = tuple(k for k in key if not isinstance(k, str)) if isinstance(key, tuple) else ...
        name = key if isinstance(key, str) else next(k for k in key if isinstance(k, str))
        want = records[name][rest]
        assert np.array_equal(a[key], want)
        assert np.array_equal(a.read(key), want)
        assert np.array_equal(a.lazy[key][...], want)
    with pytest.raises(xa.FieldError, match="no field of name z"):
        a.read(("z", 1))
    with pytest.raises(xa.FieldError, match="no field of name z"):
        a.lazy["z"]
    same(a, records)
