"""Ranks that share an array see cuts and growth of a writer outside: PATH ENGINE."""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI
from mpierrors import raises

import extarray as xa

comm = MPI.COMM_WORLD
path, engine = sys.argv[1:]
rank, size = comm.rank, comm.size
FILL = 5

for share in (True, "elements"):
    if engine == "mmap" and share == "elements":
        with raises(xa.ArgumentError, "engine='pread'"):
            xa.open(path, "r+", share=share, comm=comm, engine=engine)
        continue
    for sparse, compression in ((False, None), (True, None), (False, "zlib")):
        if rank == 0:
            options = {"fill_value": FILL, "sparse": sparse, "compression": compression}
            xa.create(path, (8, 8), "i8", chunks=(2, 2), **options, overwrite=True).close()
        comm.Barrier()
        if engine == "mpi-io" and compression:
            with raises(xa.ArgumentError, "may be compressed"):
                xa.open(path, "r+", share=share, comm=comm, engine=engine)
            continue
        with xa.open(path, "r+", share=share, comm=comm, engine=engine) as a:
            values = np.arange(100, 164).reshape(8, 8)
            a.write_zone(values[a.zone()])
            outside = xa.open(path, "r+", share=share is True) if rank == 0 else None
            if outside is not None:
                outside.shrink(0, 4)
            comm.Barrier()
            # The ranks still have the old bounds, and find old elements there, or the fill value.
            seen = a.read()
            assert np.array_equal(seen[:4], values[:4])
            assert ((seen == values) | (seen == FILL))[4:].all()
            a.write((slice(4, 8), rank), rank)  # what was cut off: lost
            assert a.refresh()
            assert a.shape == (4, 8)
            comm.Barrier()
            if outside is not None:
                outside.extend(1, 3)
                outside.extend(0, 2)
            comm.Barrier()
            assert a.refresh()
            assert a.shape == (6, 11)
            if share is True:
                assert (a.read()[4:] == FILL).all()
            a.write((slice(4, 6), slice(rank, None, size)), FILL)
            comm.Barrier()
            a.accumulate((slice(0, 6), 9), 1)
            comm.Barrier()
            if outside is not None:
                assert (outside[:, 9] == FILL + size).all()
                assert (outside[4:, :9] == FILL).all()
                outside.close()
            a.flush()
            comm.Barrier()
if rank == 0:
    assert xa.check(path).ok
