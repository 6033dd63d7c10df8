"""Ranks and compressed arrays: PATH ENGINE."""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI
from mpierrors import raises

import extarray as xa

comm = MPI.COMM_WORLD
path, engine = sys.argv[1:]
COLUMNS = 512


def frozen_chunks():
    with xa.open(path) as array:
        return len(array._store.now.frozen.frozen(0, array.axial.size)), array.axial.size


def holds(expected):
    """Require these elements of a program outside."""
    comm.Barrier()
    if not comm.rank:
        with xa.open(path) as outside:
            assert np.array_equal(outside[...], expected)
    comm.Barrier()


def create(**options):
    given = {"chunks": (8, 128), "compression": "zlib", "comm": comm, "engine": engine}
    return xa.create(path, (40, COLUMNS), "i4", **{**given, **options})


values = np.arange(40 * COLUMNS, dtype="i4").reshape(40, COLUMNS)
if engine == "mpi-io":
    with raises(xa.ArgumentError, "mpi-io"):
        create()
    if not comm.rank:
        with xa.create(path, (40, COLUMNS), "i4", chunks=(8, 128), compression="zlib") as array:
            array[...] = values
    comm.Barrier()
    for mode in ("r", "r+"):
        with raises(xa.ArgumentError, "mpi-io"):
            xa.open(path, mode, comm=comm, engine=engine)
    holds(values)
    sys.exit()

with create() as array:
    array.write_zone(values[array.zone()])
    array.flush()
    assert np.array_equal(array.read_zone(), values[array.zone()])
    assert len(set(comm.allgather(array.freeze()))) == 1
    comm.Barrier()
    assert comm.bcast(frozen_chunks() if not comm.rank else None) == (20, 20)
    assert np.array_equal(array.read_zone(), values[array.zone()])
holds(values)
for n in range(2):
    assert comm.bcast(frozen_chunks() if not comm.rank else None) == (20 + 4 * n, 20 + 4 * n)
    with (
        xa.open(path, "r+", comm=comm, engine=engine) as array,
        xa.open(path, comm=comm, engine=engine) as reader,
    ):
        assert np.array_equal(reader[...], values)
        comm.Barrier()
        # Each chunk has elements of all ranks, which write without a collective call.
        for i in range(comm.rank, len(values), comm.size):
            array[i, ::2] = -values[i, ::2]
            array[[i], 1::2] = -values[i, 1::2]
        values = -values
        comm.Barrier()
        for shown in (array, reader):
            assert np.array_equal(shown[...], values)
            assert np.array_equal(shown.read_zone(), values[shown.zone()])
        array.extend(0, 8)
        values = np.concatenate([values, np.zeros((8, COLUMNS), "i4")])
        for i in range(comm.rank, 8, comm.size):
            array[40 + 8 * n + i] = values[40 + 8 * n + i] = i
        values[-8:] = np.arange(8)[:, np.newaxis]
        array.flush()
        assert reader.refresh()
        comm.Barrier()
        for shown in (array, reader):
            assert np.array_equal(shown[...], values)
        comm.Barrier()
    holds(values)
with xa.open(path, "r+", comm=comm, engine=engine) as array:
    array.resize((11, 300))
    array.resize((11, 600))
    values = np.pad(values[:11, :300], ((0, 0), (0, 300)))
    assert np.array_equal(array[...], values)
    with raises(xa.LockedError, "change its metadata when", comm.size > 1):
        array.add_axis(0)
    if comm.size == 1:
        values = values[np.newaxis]
    if comm.rank == comm.size - 1:
        array.thaw()
    comm.Barrier()
    assert np.array_equal(array[...], values)
holds(values)

if not comm.rank:
    with xa.open(path) as array:
        xa.pack(array, f"{path}.xap", compression="zlib")
    comm.Barrier()
else:
    comm.Barrier()
with (
    raises(xa.ArgumentError, "it is packed", comm.size > 1),
    xa.open(f"{path}.xap", comm=comm, engine=engine) as array,
):
    assert np.array_equal(array[...], values)
