"""PEXTA disk arrays that grow along several axes, and follow outside growth: FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI
from mpierrors import raises

import extarray as xa
from extarray import pexta
from extarray.mpi import GlobalArray

comm = MPI.COMM_WORLD
folder = Path(sys.argv[1])
rank, size = comm.rank, comm.size


def box(lo, hi):
    return tuple(slice(i, j + 1) for i, j in zip(lo, hi, strict=True))


def holding(model, **options):
    """Make a global array with the elements of a NumPy array."""
    g = GlobalArray.create(model.shape, model.dtype, comm, **options)
    g.access()[...] = model[g.distribution()]
    g.sync()
    return g


def sequence(d_a):
    """Return the number of the last commit."""
    return d_a.array._pair.now.state.sequence


pexta.init(max_array_size=100_000)

# Several axes grow in their sequence, by one commit, but not before all ranks meet.
shape, grown = (4, 3, 2), (7, 3, 4)
model = np.arange(24.0).reshape(shape)
g_a = holding(model)
d_a = pexta.create(pexta.C_DBL, 3, shape, "A", folder / "a", pexta.RW, (2, 1, 1))
twin = xa.zeros(shape, "f8", chunks=(2, 1, 1))
twin.extend(2, 2)
twin.extend(0, 3)
written = pexta.iwrite(g_a, d_a)
before = sequence(d_a)
request = pexta.extend(d_a, (3, 0, 2), (1, -1, 0))
assert pexta.inquire(d_a).dims == shape
pexta.wait(request)
assert sequence(d_a) == before + 1
assert pexta.inquire(d_a).dims == grown
pexta.wait(written)
for index in np.ndindex(*twin.grid):
    assert d_a.array.axial.address(index) == twin.axial.address(index)
pexta.wait(request)  # a second time
assert pexta.probe(request)
wanted = np.zeros(grown)
wanted[:4, :, :2] = model
assert np.array_equal(d_a.array.read(), wanted)

# Each of these completes the growth: `probe`, a transfer, another growth, `copy`, `close`.
request = pexta.extend(d_a, (9, 1, 0), (-1, 0, 1))  # an axis without a position does not grow
pexta.flick()
assert pexta.inquire(d_a).dims == (7, 3, 4)
assert pexta.probe(request)
assert pexta.inquire(d_a).dims == (7, 4, 4)
pexta.extend(d_a, (1, 0, 0), (0, -1, -1))
pexta.write_section(False, g_a, (0, 0, 0), (0, 2, 1), d_a, (7, 0, 0), (7, 2, 1))
assert pexta.inquire(d_a).dims == (8, 4, 4)
pexta.extend(d_a, (0, 1, 0), (0, 1, 2))
d_a.array.dims = ("z", "y", "x")
assert pexta.probe(pexta.extend(d_a, "x", 1))  # one axis, at once
assert pexta.inquire(d_a).dims == (8, 5, 5)
pexta.extend(d_a, (1, 0, 0), (0, -1, -1))
d_b = pexta.copy(d_a, "B", folder / "b", pexta.RW, (-1, -1, -1))
assert pexta.inquire(d_b).dims == pexta.inquire(d_a).dims == (9, 5, 5)
pexta.extend(d_b, (1, 1, 1), (2, 1, 0))
pexta.close(d_b)
d_b = pexta.open(folder / "b", pexta.R)
assert pexta.inquire(d_b).dims == (10, 6, 6)
pexta.delete(d_b)

# An impossible call is an error on all ranks, and changes nothing.
before = sequence(d_a)
for kind, match, edims, odims in [
    (xa.ShapeError, "3 axes", (1, 1), (0, 1)),
    (xa.ShapeError, "3 axes", (1, 1, 1), (0, 1)),
    (xa.ArgumentError, "not a valid sequence", (1, 1, 1), (0, 0, 1)),
    (xa.ArgumentError, "not a valid sequence", (1, 1, 1), (2, 0, -1)),
    (xa.ArgumentError, "negative numbers", (1, -1, 1), (2, 0, 1)),
    (xa.ArgumentError, "at least 0", 1, -1),
    (xa.ArgumentTypeError, "do not match", (1, 1, 1), 0),
    (xa.ArgumentTypeError, "do not match", 0, (1, 1, 1)),
    (xa.AxisError, "'w'", "w", 1),
    (xa.ArgumentTypeError, "odims must be", (1, 1, 1), (0, 1, 2.5)),
]:
    with raises(kind, match):
        pexta.extend(d_a, edims, odims)
with raises(xa.StorageError, "max_array_size"):
    pexta.extend(d_a, (100_000, 0, 0), (0, -1, -1))
with raises(xa.ArgumentError, "the ranks disagree", size > 1):
    pexta.extend(d_a, (1, 1, 0), (0, 1, -1) if rank else (1, 0, -1))
if size == 1:
    pexta.delete(d_a)
else:
    assert sequence(d_a) == before
    # One rank calls another routine during a growth of the others.
    pexta.extend(d_a, (1, 0, 0), (0, -1, -1))
    with raises(xa.ArgumentError, "the ranks disagree"):
        pexta.terminate() if rank else pexta.write(g_a, d_a)
    pexta.delete(d_a)
# A growth in progress counts once a later call completes it.
d_a, d_b = (
    pexta.create(pexta.C_DBL, 1, (10,), name, folder / name, pexta.RW, (5,)) for name in "ab"
)
first, second = pexta.extend(d_a, (10,), (0,)), pexta.extend(d_b, (10,), (0,))
d_a.array.close()
with raises(xa.ClosedError, "closed"):
    pexta.wait(first)
assert pexta.probe(first)
pexta.terminate()
with xa.open(folder / "b") as b:
    assert b.shape == (20,)

# The global array decides the zones.
pexta.init()
for n in [n for n in range(1, size + 1) if size % n == 0]:
    processes = (n, size // n)
    g_b = GlobalArray.create((12, 12), "f8", comm, (2, 3), process_grid=processes)
    assert g_b.process_grid == processes
    d_b = pexta.create(
        pexta.C_DBL, 2, (12, 12), "B", folder / "b", pexta.RW, (2, 3), g_b, overwrite=True
    )
    for r in range(size):
        assert box(*pexta.distribution(d_b, r)) == g_b.distribution(r) == d_b.array.zone(r)
    pexta.wait(pexta.extend(d_b, (6, 0), (0, -1)))
    assert d_b.array.zone(size - 1)[1] == g_b.distribution(size - 1)[1]
    assert d_b.array.zone(size - 1)[0].stop == 18
    with raises(xa.ShapeError, "the same number"):
        pexta.create(pexta.C_DBL, 1, (9,), "C", folder / "c", pexta.RW, (3,), g_b)
    g_b.destroy()
    pexta.delete(d_b)
with raises(xa.ArgumentTypeError, "GlobalArray"):
    pexta.create(pexta.C_DBL, 1, (9,), "C", folder / "c", pexta.RW, (3,), (1, 1))
pexta.terminate()
g_a.destroy()

# Reads follow growth by an outside writer, in the bounds of both arrays.
pexta.init()
place = folder / "outside"
model = np.arange(30.0).reshape(5, 6)
if rank == 0:
    xa.from_array(model, place, chunks=(2, 2)).close()
comm.Barrier()


def grown_outside(*steps):
    """Append to an array by a separate writer, and return its elements."""
    if rank == 0:
        with xa.open(place, "r+") as a:
            for values, axis, side in steps:
                a.append(values, axis, side)
            whole = a[...]
    else:
        whole = None
    return comm.bcast(whole)


d_a = pexta.open(place, pexta.R)
assert not pexta.refresh(d_a)
g_a = GlobalArray.create(model.shape, "f8", comm, ghosts=1)
for read in (pexta.read, pexta.iread):
    pexta.wait(read(g_a, d_a))
    assert np.array_equal(g_a.get(), model)
    g_a.sync()
    model = grown_outside((np.full((4, 6 if read is pexta.read else 9), 7.0), 0, "end"))
    model = grown_outside((np.full((model.shape[0], 3), 8.0), 1, "start"))
    pexta.wait(read(g_a, d_a))
    assert g_a.shape == pexta.inquire(d_a).dims == model.shape
    assert g_a.ghosts == (1, 1)
    assert np.array_equal(g_a.get(), model)
    zones = [g_a.distribution(r) for r in range(size)]
    assert sum(z[0].stop * z[1].stop == model.size for z in zones) == 1
    g_a.sync()

# A transfer in progress keeps its memory until it is over; later ones use their own bounds.
g_b = g_a.duplicate()
earlier = pexta.iread(g_b, d_a)
model = grown_outside((np.full((1, model.shape[1]), 9.0), 0, "end"))
later = pexta.iread(g_b, d_a)
pexta.wait(earlier)
pexta.wait(later)
assert np.array_equal(g_b.get(), model)
g_b.sync()
n, m = model.shape
pexta.read_section(False, g_b, (0, 0), (0, m - 1), d_a, (n - 1, 0), (n - 1, m - 1))
model = grown_outside((np.full((2, m), 5.0), 0, "end"))
pexta.read_section(False, g_b, (0, 0), (0, m - 1), d_a, (n + 1, 0), (n + 1, m - 1))
assert (g_b.get(0) == 5).all()
g_b.sync()
assert np.array_equal(d_a.array.read(), model)

# An array larger from the beginning has not grown.  Global arrays never become smaller.
small = GlobalArray.create((2, 2), "f8", comm)
large = GlobalArray.create((n + 3, m), "f8", comm)
for other in (small, large):
    for read in (pexta.read, pexta.iread):
        with raises(xa.ShapeError, "use sections"):
            read(other, d_a)
model = grown_outside((np.full((2, m), 4.0), 0, "end"))
assert pexta.refresh(d_a)
assert pexta.inquire(d_a).dims == model.shape
assert not pexta.refresh(d_a)
assert np.array_equal(d_a.array.read(), model)
pexta.close(d_a)
with raises(xa.ClosedError, "refresh"):
    pexta.refresh(d_a)

# Transfers follow this program's own growth.
d_a = pexta.open(place, pexta.RW)
assert not pexta.refresh(d_a)
g_c, g_d = (GlobalArray.create(model.shape, "f8", comm) for _ in range(2))
pexta.extend(d_a, (1, 1), (1, 0))
pexta.wait(pexta.iread(g_c, d_a))
model = np.pad(model, ((0, 1), (0, 1)))
assert np.array_equal(g_c.get(), model)
g_c.sync()
g_c.scale(2)
pexta.write(g_c, d_a)
model *= 2
assert np.array_equal(d_a.array.read(), model)
pexta.write(g_d, d_a)
model[:-1, :-1] = 0
assert np.array_equal(d_a.array.read(), model)
assert np.array_equal(g_d.get(), model)
g_d.sync()
for g in (g_a, g_b, g_c, g_d, small, large):
    g.destroy()
pexta.delete(d_a)
pexta.terminate()

# Global arrays of any distribution are written and read, and decide the zones of disk arrays.
pexta.init()
model = np.arange(140.0).reshape(10, 14)
for cut in (
    {"kind": "irregular", "block": [[0, 7, 8][:size], [0]]},
    {"kind": "irregular", "block": [[0], [0]]},
    {"kind": "block_cyclic", "block": 3, "process_grid": (1, size)},
    {"kind": "block_cyclic", "block": 1, "chunks": (2, 3)},
):
    g_a = GlobalArray.create(model.shape, "f8", comm, **cut)
    for number in range(rank, 10, size):
        g_a.put(number, model[number])
    g_a.sync()
    d_a = pexta.create("f8", 2, model.shape, "x", folder / "x", pexta.RW, (2, 3), g_a)
    zones = d_a.array.zone()
    if cut["kind"] == "irregular":
        assert zones == g_a.distribution()
    else:
        assert isinstance(zones, list)
        assert zones == g_a.distribution() or cut["block"] == 3
    g_b = GlobalArray.create(model.shape, "f8", comm, kind="irregular", block=[[0, 1][:size], [0]])
    pexta.write(g_a, d_a)
    assert np.array_equal(d_a.array.read(), model)
    pexta.wait(pexta.iread(g_b, d_a))
    assert np.array_equal(g_b.get(), model)
    g_b.sync()
    g_a.zero()
    pexta.wait(pexta.iread_section(True, g_a, (1, 2), (5, 8), d_a, (0, 0), (6, 4)))
    expected = np.zeros(model.shape)
    expected[1:6, 2:9] = model[:7, :5].T
    assert np.array_equal(g_a.get(), expected)
    g_a.sync()
    pexta.iwrite_section(False, g_a, (1, 2), (5, 8), d_a, (5, 7), (9, 13))
    pexta.delete(d_a)
    g_a.destroy()
    g_b.destroy()
pexta.terminate()

# All ranks close all arrays of a communicator, in the order in which they were opened.
pexta.init()
arrays = [xa.create(folder / name, (4,), comm=comm) for name in "xyz"]
d_a = pexta.create("f8", 1, (4,), "d", folder / "d", pexta.RW, (2,))
arrays.reverse()
xa.close_all()
assert all(a.closed for a in (*arrays, d_a.array))
pexta.terminate()
