"""The cases of DRA's acceptance test (ntestc.c) on 3-D arrays: FOLDER."""

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
rng = np.random.default_rng(7889)
rank, size = comm.rank, comm.size
N, M, TURNS = 20, 60, 6


def filled(dtype):
    """Return a cube of element numbers, put in planes by the ranks, another cube, and a model."""
    g_a, g_b = (GlobalArray.create((N,) * 3, dtype, comm) for _ in range(2))
    model = np.arange(N**3, dtype=dtype).reshape(g_a.shape)
    for i in range(rank, N, size):
        g_a.put(i, model[i])
    g_a.sync()
    return g_a, g_b, model


def check_equal(g_a, g_b):
    g_b.add(1, g_a, -1, g_b)
    assert g_b.dot(g_b) == 0


def section(n, extents=None):
    """Return the first and last index of a section of a cube, with given or random extents."""
    if extents is None:
        extents = rng.integers(1, n + 1, 3)
    low = rng.integers(0, n - extents + 1)
    return low.tolist(), (low + extents - 1).tolist()


def extents_of(lo, hi):
    return np.array(hi) - lo + 1


def box(lo, hi):
    return tuple(slice(i, j + 1) for i, j in zip(lo, hi, strict=True))


pexta.init(10, 1e8, 1e10, 1e6)

# Integers: write, close, open for reading, inquire, read, compare, delete.
g_a, g_b, _ = filled("i4")
name = str(folder / "dra.file0")
d_a = pexta.create(pexta.C_INT, 3, (N, N, N), "array A", name, pexta.RW, (1, N, N))
assert d_a.array.chunks == (1, N, N)
pexta.wait(pexta.write(g_a, d_a))
pexta.close(d_a)
d_a = pexta.open(name, pexta.R)
assert pexta.inquire(d_a) == (pexta.C_INT, 3, (N, N, N), "array A", name)
pexta.wait(pexta.read(g_b, d_a))
check_equal(g_a, g_b)
pexta.delete(d_a)
assert not list(folder.iterdir())
g_a.destroy()
g_b.destroy()

# Doubles: the same, then sections of the disk array to any place of a global array.
g_a, g_b, model = filled("f8")
name = str(folder / "dra.file1")
d_a = pexta.create(pexta.C_DBL, 3, (N, N, N), "A", name, pexta.RW, (3, N, N))
pexta.wait(pexta.write(g_a, d_a))
pexta.close(d_a)
d_a = pexta.open(name, pexta.R)
pexta.wait(pexta.read(g_b, d_a))
check_equal(g_a, g_b)
for _ in range(TURNS):
    dlo, dhi = section(N)
    glo, ghi = section(N, extents_of(dlo, dhi))
    g_b.zero()
    pexta.wait(pexta.read_section(False, g_b, glo, ghi, d_a, dlo, dhi))
    wanted = np.zeros_like(model)
    wanted[box(glo, ghi)] = model[box(dlo, dhi)]
    assert np.array_equal(g_b.get(), wanted)
    g_b.sync()
pexta.delete(d_a)

# A disk array 27 times as large: sections of the global array to any place of it, and back.
d_a = pexta.create(pexta.C_DBL, 3, (M, M, M), "A", name, pexta.RW, (2, N, N))
disk = np.zeros((M, M, M))
for _ in range(TURNS):
    glo, ghi = section(N)
    dlo, dhi = section(M, extents_of(glo, ghi))
    pexta.wait(pexta.write_section(False, g_a, glo, ghi, d_a, dlo, dhi))
    disk[box(dlo, dhi)] = model[box(glo, ghi)]
    g_b.zero()
    pexta.wait(pexta.read_section(False, g_b, glo, ghi, d_a, dlo, dhi))
    assert np.array_equal(g_b.get(box(glo, ghi)), model[box(glo, ghi)])
    g_b.sync()
assert np.array_equal(d_a.array.read(), disk)

# The same in chunks for other requests, and transposed.
d_b = pexta.copy(d_a, "B", str(folder / "dra.file2"), pexta.R, (N, N, 2))
assert pexta.inquire(d_b)[2:4] == ((M, M, M), "B")
assert d_b.array.chunks == (N, N, 2)
assert np.array_equal(d_b.array.read(), disk)
d_c = pexta.copy(d_b, "C", str(folder / "dra.file3"), pexta.RW, (-1, -1, -1), transp=True)
assert d_c.array.chunks == (2, N, N)
assert np.array_equal(d_c.array.read(), disk.T)
pexta.wait(pexta.write_section(False, g_a, glo, ghi, d_c, dlo, dhi))
with raises(xa.ReadOnlyError):
    pexta.write_section(False, g_a, glo, ghi, d_b, dlo, dhi)
with raises(xa.ExistsError):
    pexta.copy(d_a, "C", d_c.filename, pexta.RW, (-1, -1, -1))
with raises(xa.ArgumentTypeError, "Unicode"):
    pexta.copy(d_a, "\udc80", folder / "dra.file4", pexta.RW, (-1, -1, -1))
with raises(xa.ArgumentError, "the ranks disagree", comm.size > 1):
    name = "E" if comm.rank else "D"
    pexta.delete(pexta.copy(d_a, name, folder / "dra.file4", pexta.RW, (-1, -1, -1)))
assert not (folder / "dra.file4.xmd").exists()
pexta.delete(d_b)
pexta.delete(d_c)
pexta.delete(d_a)
g_a.destroy()
g_b.destroy()
pexta.terminate()
assert not list(folder.iterdir())
