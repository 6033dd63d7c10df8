"""Zones: the published figure, reading and writing, both kinds: PATH ENGINE."""

from __future__ import annotations

import itertools
import sys

import numpy as np
from mpi4py import MPI
from patches import patch

import extarray as xa
from extarray.mpi.zones import Zones

comm = MPI.COMM_WORLD
path, engine = sys.argv[1:]


def extents(zone):
    return [s.stop - s.start for s in zone]


# Figure 1 of drxmp2009: 10 x 12 in chunks of 2 x 3, grown from one chunk.
a = xa.create(path, (2, 3), "i4", chunks=(2, 3), engine=engine, comm=comm)
for axis in (1, 0, 0, 1, 0, 1, 0):
    a.extend(axis, a.chunks[axis])
assert a.shape == (10, 12)
model = np.arange(120, dtype="i4").reshape(10, 12)
a.write_zone(model[a.zone()])
assert np.array_equal(a.read(), model)
if comm.size == 4:
    zones = [(range(6), range(6)), (range(6), range(6, 12))]
    zones += [(range(6, 10), range(6)), (range(6, 10), range(6, 12))]
    assert [tuple(range(s.start, s.stop) for s in a.zone(r)) for r in range(4)] == zones
    assert a.owner((7, 2)) == 2 and a.owner((-1, -1)) == 3

# Zones are computed once for each state.
with patch.context() as once:
    once.setattr(Zones, "__init__", None)
    a.read_zone()
    a.zone()
for order in "CF":
    local = a.read_zone(order)
    assert np.array_equal(local, model[a.zone()])
    assert local.flags[f"{order}_CONTIGUOUS"]
out = np.zeros(extents(a.zone()), "f8")
assert a.read_zone(out=out) is out and np.array_equal(out, model[a.zone()])
assert np.array_equal(a.iread_zone().wait(), model[a.zone()])

for block, grid in itertools.product([1, 2, (2, 1)], [None, (1, comm.size), (comm.size, 1)]):
    a.distribute("block_cyclic", block, grid)
    zones = a.zone()
    local = np.concatenate([model[zone].ravel() for zone in zones]) if zones else model[:0, 0]
    assert np.array_equal(a.read_zone(), local)
    model += 1
    a.write_zone(local + 1)
    assert np.array_equal(a.read(), model)
    a.iwrite_zone(local + 1).wait()
    comm.Barrier()
    owners = np.array([[a.owner((i, j)) for j in range(12)] for i in range(10)])
    for rank in range(comm.size):
        mine = np.zeros((10, 12), bool)
        for zone in a.zone(rank):
            assert not mine[zone].any()
            mine[zone] = True
        assert np.array_equal(owners == rank, mine)
    out = np.zeros(local.shape, "i4")
    assert a.read_zone(out=out) is out and np.array_equal(out, local + 1)

# Zones follow the bounds; ranks beyond the chunks have empty ones.
a.distribute()
a.resize((2, 3))
assert sum(np.prod(extents(a.zone(r))) for r in range(comm.size)) == 6
assert a.read_zone().shape == tuple(extents(a.zone()))
a.write_zone(np.zeros(extents(a.zone())))
a.resize((0, 3))
assert a.read_zone().size == 0
a.close()
