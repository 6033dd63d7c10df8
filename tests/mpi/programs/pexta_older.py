"""PEXTA transfers enlarge global arrays that are older than a disk array: FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from held_arrays import holding, remove
from mpi4py import MPI
from mpierrors import raises

import extarray as xa
from extarray import pexta
from extarray.mpi import GlobalArray

comm = MPI.COMM_WORLD
folder = Path(sys.argv[1])
rank, size = comm.rank, comm.size
place = folder / "a"


def on_rank_0(call):
    """Make a call on rank 0, as another program would, and return its result on all ranks."""
    comm.Barrier()
    return comm.bcast(call() if rank == 0 else None)


def new_file(shape, chunks):
    values = np.arange(1.0, np.prod(shape) + 1).reshape(shape)
    xa.from_array(values, place, chunks=chunks).close()
    return values


def grown(*steps):
    """Grow the file by new values, each step an axis, a number and a side; return its elements."""
    with xa.open(place, "r+") as a:
        for axis, by, side in steps:
            shape = [by if j == axis else n for j, n in enumerate(a.shape)]
            a.append(np.full(shape, 9.0), axis, side)
        return a[...]


# Session one has an array; it grows outside; session two reads it, or writes it back.
first = on_rank_0(lambda: new_file((12, 12, 12), (2, 4, 4)))
g, h = holding(comm, -first), GlobalArray.create(first.shape, "f8", comm)
model = on_rank_0(lambda: grown((0, 2, "end"), (1, 2, "end"), (2, 2, "end"), (0, 2, "end")))
pexta.init()
d = pexta.open(place, pexta.R)
pexta.read(h, d)
assert h.shape == model.shape == (16, 14, 14)
assert np.array_equal(h.get(), model)
h.sync()
pexta.close(d)
d = pexta.open(place, pexta.RW)
pexta.write(g, d)
model[:12, :12, :12] = -first
assert g.shape == model.shape
assert np.array_equal(g.get(), model)
assert np.array_equal(d.array.read(), model)
g.sync()
# Now both are equal, and written as a whole.
g.scale(2)
pexta.wait(pexta.iwrite(g, d))
assert np.array_equal(d.array.read(), 2 * model)
for array in (g, h):
    array.destroy()
pexta.terminate()
remove(comm, place)

# Growth at a start: elements keep their place in the file.
first = on_rank_0(lambda: new_file((6, 8), (2, 4)))
pexta.init()
g, older = (
    holding(comm, -first, ghosts=1),
    holding(comm, -first, kind="irregular", block=[[0, 1][:size], [0]]),
)
d = pexta.open(place, pexta.RW)
d.array.extend(0, 3, "start")
d.array.extend(1, 5, "end")
pexta.write(g, d)
model = np.zeros((9, 13))
model[3:, :8] = -first
assert np.array_equal(d.array.read(), model)
assert np.array_equal(g.get(), model)
g.sync()
assert g.ghosts == (1, 1)
pexta.close(d)
# An array of an earlier session may be older than that growth, so its place is unknown.
d = pexta.open(place, pexta.RW)
with raises(xa.ShapeError, "at a start too"):
    pexta.write(older, d)
assert older.shape == (6, 8)
pexta.read(older, d)
assert np.array_equal(older.get(), model)
older.sync()
for array in (g, older):
    array.destroy()
pexta.terminate()
remove(comm, place)

# Bounds that the array never had are refused, and so are ranks that disagree.
first = on_rank_0(lambda: new_file((6, 8), (2, 4)))
pexta.init()
d = pexta.open(place, pexta.RW)
for shape in ((6, 4), (4, 9), (6, 9), (48,), (6, 8, 1)):
    with GlobalArray.create(shape, "f8", comm) as other:
        for call in (pexta.read, pexta.write, pexta.iread, pexta.iwrite):
            with raises(xa.ShapeError, "use sections"):
                call(other, d)
        assert other.shape == shape
g, h = holding(comm, first), holding(comm, -first)
pexta.wait(pexta.extend(d, (2, 4), (0, 1)))
if size > 1:
    with raises(xa.ArgumentError, "the ranks disagree"):
        pexta.write(g if rank else h, d)
    assert g.shape == h.shape == first.shape
    with raises(xa.ArgumentError, "the ranks disagree"):
        pexta.write(g, d) if rank else pexta.read(g, d)

# Arrays that show the memory of a global array stay what they were, and end no process.
own = h.access()
part = own[:1, :1].T
before = own.copy()
pexta.write(h, d)
assert h.shape == (8, 12)
assert np.array_equal(own, before)
own[...] = 78
part[...] = 77
model = np.pad(-first, ((0, 2), (0, 4)))
assert np.array_equal(d.array.read(), model)
assert np.array_equal(h.get(), model)
h.sync()
own = h.access()
pexta.wait(pexta.extend(d, (1, 1), (0, 1)))
pexta.read(h, d)
assert len(h._left) == 2
assert (part == 77).all()
del own, part
h.extend(0, 1)
assert not h._left
g.destroy()
h.destroy()

# Transfers under way end before the memory moves.
g = GlobalArray.create((9, 13), "f8", comm)
request = pexta.iread(g, d)
pexta.wait(pexta.extend(d, (3, 0), (0, -1)))
later = pexta.iwrite(g, d)
assert pexta.probe(request)
pexta.wait(later)
model = np.pad(model, ((0, 4), (0, 1)))
assert np.array_equal(g.get(), model)
assert np.array_equal(d.array.read(), model)
g.sync()

g.destroy()
pexta.terminate()
remove(comm, place)
