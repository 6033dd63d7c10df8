"""Operations of a single rank call no collective method of the array: PATH ENGINE."""

from __future__ import annotations

import pickle
import sys

import numpy as np
from mpi4py import MPI

import extarray as xa
from extarray.mpi import ParallelArray

COLLECTIVE = (
    *("read", "write", "read_zone", "write_zone", "distribute", "extend", "append", "append_zone"),
    *("resize", "shrink", "reserve", "add_axis", "refresh", "flush", "close"),
)
comm = MPI.COMM_WORLD
expected = np.arange(60.0).reshape(6, 10)


def refuse(*args, **options):
    raise AssertionError("a collective method was called by one rank alone")


def equal(found, wanted):
    np.testing.assert_array_equal(np.asarray(found), wanted)


with xa.create(sys.argv[1], (6, 10), chunks=(2, 3), engine=sys.argv[2], comm=comm) as a:
    a.write(... if comm.rank == 0 else slice(0), expected if comm.rank == 0 else expected[:0])
    a.flush()
    collective = {name: getattr(ParallelArray, name) for name in COLLECTIVE}
    for name in collective:
        setattr(ParallelArray, name, refuse)
    for rank in range(comm.size):
        comm.Barrier()
        if rank != comm.rank:
            continue
        wanted = expected.copy()
        equal(a[1:5, ::-2], wanted[1:5, ::-2])
        equal(a[[0, 5], [1, 2]], wanted[[0, 5], [1, 2]])
        equal(a[a.to_numpy() > 30], wanted[wanted > 30])
        equal(list(a), wanted)
        equal(a.tolist(), wanted)
        equal(a + 1, wanted + 1)
        equal(np.sqrt(a), np.sqrt(wanted))
        equal(np.sort(a, axis=0), np.sort(wanted, axis=0))
        equal(np.concatenate([a, a]), np.concatenate([wanted, wanted]))
        equal(np.where(a > 9, a, 0), np.where(wanted > 9, wanted, 0))
        equal(np.from_dlpack(a), wanted)
        equal(a.astype("i4"), wanted.astype("i4"))
        equal(a.lazy[1:4].T, wanted[1:4].T)
        equal(a.get_orthogonal_selection(([1, 3], slice(2, 4))), wanted[[1, 3], 2:4])
        equal(a.oindex[[1, 3]], wanted[[1, 3]])
        equal(a.copy(), wanted)
        equal(pickle.loads(pickle.dumps(a)), wanted)
        target = np.empty((2, 10))
        a.read_direct(target, np.s_[:2], np.s_[:])
        equal(target, wanted[:2])
        assert np.sum(a) == a.sum() == wanted.sum()
        assert np.array_equal(a, wanted)
        assert "6" in repr(a)
        assert a.info()["shape"] == (6, 10)
        a += 1
        a[0] = 0
        a[a[:, 0] > 30, 1] = -1
        a.lazy[2:4, 3] = 7
        wanted += 1
        wanted[0] = 0
        wanted[wanted[:, 0] > 30, 1] = -1
        wanted[2:4, 3] = 7
        equal(a, wanted)
        a[...] = expected
    comm.Barrier()
    for name, method in collective.items():
        setattr(ParallelArray, name, method)
    equal(a.read(), expected)
