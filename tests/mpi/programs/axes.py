"""Added axes, growth policies and durability, compared with NumPy: PATH ENGINE FILL."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest
from mpi4py import MPI
from patches import patch

import extarray as xa
from extarray.common.system import WRITES_BACK

comm = MPI.COMM_WORLD
path, engine, fill = sys.argv[1], sys.argv[2], int(sys.argv[3])
several = comm.size > 1


def same(a, model):
    """Require that all ranks see the model: together, alone, and in zones."""
    assert a.shape == model.shape
    assert np.array_equal(a.read(), model)
    assert np.array_equal(a[...], model)
    assert np.array_equal(a.read_zone(), model[a.zone()])
    grids = comm.allgather((a.grid, a.axial.segments, a.chunks, a.growth, a.dims))
    assert all(grid == grids[0] for grid in grids)
    comm.Barrier()


# -- this program adds axes ----------------------------------------------------------------------

model = np.arange(48, dtype="i4").reshape(6, 8)
options = {"comm": comm, "engine": engine, "fill_value": fill, "dims": ("y", "x")}
for order in "CZ":
    a = xa.create(path, (6, 8), "i4", chunks=(4, 4), order=order, overwrite=True, **options)
    a.distribute("block_cyclic", (1, 2))
    a.write(..., model)
    a.add_axis(name="time")
    same(a, model[None])
    assert a.dims == ("time", "y", "x")
    # Exercise everything an array does, with another axis.
    a.append(model[None] + 100)
    a.extend(0, 1, side="start")
    wide = np.concatenate([np.full_like(model[None], fill), model[None], model[None] + 100])
    same(a, wide)
    a.write_zone(a.read_zone() + 1)
    same(a, wide + 1)
    a.add_axis(-1, "band")
    same(a, wide[..., None] + 1)
    with pytest.raises(
        xa.ArgumentError, match="the ranks disagree" if several else "duplicate names"
    ):
        a.add_axis(0, "band" if comm.rank == 0 else "channel")
    with pytest.raises(xa.ChunksError):
        a.add_axis(0, chunk=2)
    with pytest.raises(xa.AxisError):
        a.add_axis(7)
    same(a, wide[..., None] + 1)
    a.close()
    with xa.open(path, comm=comm, engine=engine) as b:
        same(b, wide[..., None] + 1)

# Chunks that are longer along the new axis.
a = xa.create(path, (2, 3), "i4", chunks=(2, 3), overwrite=True, **options)
a.write(..., model[:2, :3])
a.add_axis(0, "time", chunk=4)
a.extend(0, 5)
same(a, np.concatenate([model[None, :2, :3], np.full((5, 2, 3), fill, "i4")]))
a.close()

# -- another program adds axes, and cuts elements off ---------------------------------------------

WRITER = """
import sys, extarray as xa
with xa.open(sys.argv[1], "r+") as a:
    exec(sys.argv[2])
"""


def outside(code):
    if comm.rank == 0:
        subprocess.run([sys.executable, "-c", WRITER, path, code], check=True, timeout=250)
    comm.Barrier()


if comm.rank == 0:
    with xa.create(path, (64, 64), "i4", chunks=(32, 32), fill_value=fill, overwrite=True) as new:
        new[...] = 5
comm.Barrier()
with xa.open(path, comm=comm, engine=engine) as a:
    outside("a.shrink(0, 32)")
    # Chunks became holes of zeros: elements cut off read as old, or as the fill value.
    for kind, place in (("block", np.s_[:, :]), ("block_cyclic", np.s_[40:])):
        a.distribute(kind)
        for values in (a.read(place), a.read(place, collective=False), a.read_zone(), a[40:]):
            assert np.isin(values, [5, fill]).all()
        assert np.isin(a.iread_zone().wait(), [5, fill]).all()
    assert (a.read(np.s_[:32]) == 5).all()
    a.distribute()
    assert a.refresh() is True
    same(a, np.full((32, 64), 5, "i4"))
    outside("a.add_axis(); a.extend(0, 1)")
    assert (a.read() == 5).all()
    assert a.refresh() is True
    assert a.refresh() is False
    model = np.stack([np.full((32, 64), 5, "i4"), np.full((32, 64), fill, "i4")])
    same(a, model)
    outside("a.shrink(1, 32)")
    assert np.isin(a.read(), [5, fill]).all()
    assert a.refresh() is True
    same(a, model[:, :0])

# -- growth policies -----------------------------------------------------------------------------

a = xa.create(path, (1, 1), "i4", chunks=1, overwrite=True, growth=("linear", 4), comm=comm)
model = np.zeros((1, 1), "i4")
for n in range(1, 10):
    a.append(np.full((1, n), n, "i4"), axis=0, side="end" if n % 2 else "start")
    new = np.full((1, n), n, "i4")
    model = np.concatenate([model, new] if n % 2 else [new, model])
    a.extend(1, 1)
    model = np.pad(model, ((0, 0), (0, 1)))
    if n == 5:
        a.growth = "doubling"
assert a.growth == "doubling" and a.axial.segments < 10
same(a, model)
with pytest.raises(xa.ArgumentError):
    a.growth = "exact" if comm.rank == 0 and several else ("linear", 0)
assert a.growth == "doubling"
a.close()

# -- durability ----------------------------------------------------------------------------------

a = xa.create(path, (4, 4), "i4", overwrite=True, durability="commit", engine=engine, comm=comm)
synced = 0
sync = type(a._store.commits).sync_elements


def count(commits):
    global synced
    synced += 1
    sync(commits)


patch.setattr(type(a._store.commits), "sync_elements", count)
for write in (
    lambda: a.write(comm.rank % 4, comm.rank),
    lambda: a.write(comm.rank % 4, comm.rank, collective=False),
    lambda: a.write_zone(1),
    lambda: a.iwrite_zone(2).wait(),
    lambda: a.append(np.ones((3, 4), "i4")),
    lambda: a.__setitem__(0, 3),
):
    before = synced
    write()
    assert synced > before
    comm.Barrier()
assert comm.allgather(a.durability) == ["commit"] * comm.size
a.close()
with xa.open(path, "r+", durability="commit", engine=engine, comm=comm) as a:
    assert comm.allgather(a.durability) == ["commit"] * comm.size
    a.add_axis()
    assert a.read((0, 0, 0)) == 3
if WRITES_BACK:  # each rank, as ranks may be on several hosts
    with xa.open(path, "r+", durability="steady", engine=engine, comm=comm) as a:
        assert comm.allgather(a.durability) == ["steady"] * comm.size
        assert any(thread.name == "extarray-steady" for thread in threading.enumerate())
