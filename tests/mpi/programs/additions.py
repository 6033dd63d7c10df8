"""All ranks add to the same elements of an array in files: PATH ENGINE."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from mpi4py import MPI
from patches import patch

import extarray as xa
from extarray.common.limits import limits

comm = MPI.COMM_WORLD
path, engine = sys.argv[1:3]
rank, size = comm.rank, comm.size

patch.setattr(limits, "locked_bytes", 200)  # forces many blocks

for dtype, order in [("i4", "C"), ("f8", "F"), ("c16", "Z"), ("u1", "H"), (">f4", "C")]:
    with xa.create(
        path, (5, 6), dtype, chunks=(2, 3), order=order, comm=comm, engine=engine, overwrite=True
    ) as a:
        a.extend(1, 3, "start")
        a.extend(0, 4)
        model = np.zeros(a.shape, dtype)
        rng = np.random.default_rng(3)
        for turn in range(10):
            rows, columns = np.sort(rng.integers(0, 10, (2, 2)), axis=1)
            keys = [np.s_[rows[0] : rows[1], columns[0] : columns[1]], np.s_[::-2, 1::3]]
            key = [*keys, (turn % 9, turn % 7), ...][turn % 4]
            a.accumulate(key, rank + 1, alpha=2)
            model[key] += np.array(size * (size + 1)).astype(dtype)
        comm.Barrier()
        assert np.array_equal(a[...], model)
        comm.Barrier()
        row = np.arange(9).astype(dtype)
        a.accumulate(4, row)
        comm.Barrier()
        model[4] += (size * np.arange(9)).astype(dtype)
        assert np.array_equal(a[...], model)
        comm.Barrier()
        with pytest.raises(xa.SelectionError, match="only integers and slices"):
            a.accumulate([0, 1], 1)
        with pytest.raises(xa.ShapeError):
            a.accumulate(0, [1, 2])
        with pytest.raises(xa.BoundsError):
            a.accumulate(9, 1)
        with pytest.raises(xa.CastingError):
            a.accumulate(0, 1, alpha="x")
        with pytest.raises(xa.CastingError):
            a.accumulate(0, 1j if a.dtype.kind == "f" else 0.5 if a.dtype.kind != "c" else "x")
        comm.Barrier()

with (
    xa.create(path, (3,), "M8[s]", comm=comm, engine=engine, overwrite=True) as a,
    pytest.raises(xa.DTypeError),
):
    a.accumulate(0, 1)
with xa.create(path, (), "i8", comm=comm, engine=engine, overwrite=True) as a:
    a.accumulate((), 3)
    comm.Barrier()
    assert a[()] == 3 * size
    comm.Barrier()
with xa.open(path, comm=comm, engine=engine) as a, pytest.raises(xa.ReadOnlyError):
    a.accumulate((), 3)
