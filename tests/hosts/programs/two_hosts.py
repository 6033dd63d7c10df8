"""Ranks on two hosts write, grow and read one array: PATH ENGINE.

Rank 0 is on the first host; ranks are dealt to the hosts in turn.
"""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

import extarray as xa

comm = MPI.COMM_WORLD
path, engine = sys.argv[1:]
node = comm.Split_type(MPI.COMM_TYPE_SHARED)
assert (comm.size, node.size) == (4, 2), "not on two hosts"
node.Free()
last = comm.rank == comm.size - 1  # not on the host of rank 0


def check(array, model):
    """Compare what each rank reads, with others and alone, with a model."""
    assert array.shape == model.shape
    assert np.array_equal(array.read(), model)
    assert np.array_equal(array.read_zone(), model[array.zone()])
    assert np.array_equal(array[...], model)
    assert np.array_equal(array.read(collective=False), model)
    assert np.array_equal(array.iread(np.s_[::-2, 1:]).wait(), model[::-2, 1:])
    comm.Barrier()


model = np.arange(77.0).reshape(7, 11)
a = xa.create(path, (7, 11), chunks=(2, 3), comm=comm, engine=engine, fill_value=-1)
assert a._store.now.engine == "pread"  # a mapping would not show writes of the other host
assert (a._views is None) == (engine == "pread")
a.write_zone(model[a.zone()])
check(a, model)

# Growth, along both axes and on both sides; ranks of both hosts write to most chunks.
for axis, side in ((0, "end"), (1, "start"), (0, "start"), (1, "end")):
    extents = [3 if j == axis else n for j, n in enumerate(a.shape)]
    new = np.arange(1000.0, 1000.0 + np.prod(extents)).reshape(extents)
    a.append(new, axis, side)
    model = np.concatenate([model, new] if side == "end" else [new, model], axis)
    check(a, model)
    part = a.zone_of_growth(axis, 2, side)
    a.append_zone(np.full([s.stop - s.start for s in part], 7.5), axis, 2, side)
    new = np.full([2 if j == axis else n for j, n in enumerate(model.shape)], 7.5)
    model = np.concatenate([model, new] if side == "end" else [new, model], axis)
    check(a, model)
a.extend(0, 5)
model = np.concatenate([model, np.full((5, model.shape[1]), -1.0)])
check(a, model)

# Each rank alone, in rows of its own, so that ranks of both hosts write to each chunk.
mine = slice(comm.rank, None, comm.size)
for value, write in enumerate(
    (
        lambda value: a.write(mine, value, collective=False),
        lambda value: a.iwrite(mine, value).wait(),
        lambda value: a.__setitem__(mine, value),
    )
):
    write(10 * value + comm.rank)
    model = np.arange(len(model))[:, None] % comm.size + np.full(model.shape, 10.0 * value)
    comm.Barrier()
    assert np.array_equal(a.read(collective=False), model), value
    assert np.array_equal(a.read(), model), value
    a.flush()  # brackets look at the copies of this host
    check(a, model)

# Additions to the same elements from both hosts.
for _ in range(5):
    a.accumulate(np.s_[1:9, 2:], 1 + comm.rank)
model[1:9, 2:] += 5 * sum(range(1, comm.size + 1))
comm.Barrier()
assert np.array_equal(a.read(), model)
a.flush()
check(a, model)
a.attrs["hosts"] = 2
a.close()

for mode in ("r", "r+"):
    with xa.open(path, mode, comm=comm, engine=engine) as b:
        assert b.attrs["hosts"] == 2
        check(b, model)
with xa.open(path, "r+", comm=comm, engine=engine, durability="commit") as b:
    b.write_zone(model[b.zone()] + 1)
    check(b, model + 1)

# Replaced under the same name: names are remembered, too.
again = {"chunks": (3, 3), "comm": comm, "engine": engine, "overwrite": True}
for k in range(3):
    with xa.create(path, (8, 8), "i2", **again) as c:
        c.write_zone(np.full(c.read_zone().shape, k))
        c.write((comm.rank, slice(None)), 100 + k, collective=False)
        c.flush()
        model = np.full((8, 8), k)
        model[: comm.size] = 100 + k
        check(c, model)
with xa.open(path, comm=comm, engine=engine) as c:
    check(c, model)
