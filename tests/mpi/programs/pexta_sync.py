"""PEXTA transfers under way end in the collective calls of their global array: FOLDER."""

from __future__ import annotations

import errno
import os
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
SHAPE, TURNED = (12, 10), (10, 12)
CORNERS = (0, 0), (11, 9), (0, 0), (9, 11)

pexta.init(max_memory=160)  # bytes: a change of shape takes several parts


def on_disk(name, seed):
    """Return a disk array of random elements, and the same in NumPy."""
    model = np.random.default_rng(seed).integers(0, 1000, TURNED).astype(float)
    d = pexta.create(pexta.C_DBL, 2, TURNED, name, folder / name, pexta.RW, (4, 5))
    d.array.write(..., model)
    return d, model


def begin(g, d, reads=True):
    """Begin a transfer that no rank can end alone, as it has many parts."""
    glo, ghi, dlo, dhi = CORNERS
    call = pexta.iread_section if reads else pexta.iwrite_section
    request = call(False, g, glo, ghi, d, dlo, dhi)
    assert "over" not in str(request)
    return request


def is_over(request):
    return "over" in str(request)


def check(g, model):
    assert np.array_equal(g.get(), model.reshape(g.shape))


(d_a, a), (d_b, b) = on_disk("a", 1), on_disk("b", 2)
g, h = (GlobalArray.create(SHAPE, "f8", comm) for _ in range(2))

# `sync` ends the transfers of its own array, those of another one go on.
first, second = begin(g, d_a), begin(h, d_b)
h.sync()
assert is_over(second) and not is_over(first)
check(h, b)
g.sync()
assert is_over(first)
check(g, a)
pexta.wait(first)
assert pexta.probe(second)
h.sync()
pexta.iread_section(True, g, *CORNERS[:2], d_a, *CORNERS[2:])  # one part, in the background
g.sync()
assert np.array_equal(g.get(), a.T)

# Several transfers of one array are under way together; the array's next call ends all.
one, two = begin(g, d_a), begin(g, d_b)
assert not is_over(one)
g.sync()
assert is_over(one) and is_over(two)
one = begin(h, d_b)
h.sync()
# So do other collective calls, on operands too.
for call in (
    lambda: g.fill(0),
    lambda: h.dot(g),
    lambda: h.add(0, g, 1, h),
    lambda: g.section((slice(0, 2), 1)).scale(1),
    lambda: h.apply(np.maximum, h, g),
    lambda: g.distribute(process_grid=(1, size)),
    lambda: g.update_ghosts(),
    lambda: g.duplicate().destroy(),
):
    request = begin(g, d_a)
    call()
    assert is_over(request)
for array in (g, h):
    array.sync()
request = begin(g, d_a)
g.distribute()
check(g, a)
with GlobalArray.create(SHAPE, "f8", comm) as last:
    request = begin(last, d_a)
assert is_over(request)

# A write ends, too: after `sync` the array may be changed.
with GlobalArray.create(SHAPE, "f8", comm) as source:
    source.access()[...] = np.arange(120.0).reshape(SHAPE)[source.distribution()]
    request = begin(source, d_b, reads=False)
    source.sync()
    source.zero()
    assert is_over(request)
    assert np.array_equal(d_b.array.read(), np.arange(120.0).reshape(TURNED))
d_b.array.write(..., b)

# A transfer that fails on one rank fails in `sync` on all; later ones are still under way.
one, two = begin(g, d_a), begin(g, d_b)
if rank == size - 1:
    one._work._error = xa.StorageError(errno.EIO, "lost")
with raises(xa.StorageError, "lost"):
    g.sync()
assert is_over(one) and not is_over(two)
g.sync()
assert is_over(two)
check(g, b)
g.sync()
one = begin(h, d_a)
if rank == size - 1:
    one._work._error = xa.StorageError(errno.EIO, "lost")
with raises(xa.StorageError, "lost"), h:
    pass
assert is_over(one)

# Files that another program cuts off, read by calls.
pexta.set_default_config(-1, 1)
if rank == 0:
    xa.from_array(a, folder / "cut", chunks=(4, 5)).close()
comm.Barrier()
cut = pexta.open(folder / "cut", pexta.R)
comm.Barrier()
if rank == 0:
    os.truncate(folder / "cut.xta", 80)
comm.Barrier()
request = pexta.iread_section(False, g, *CORNERS[:2], cut, *CORNERS[2:])
with raises(xa.TruncatedError):
    g.sync()
assert is_over(request)
g.sync()
pexta.close(cut)

# Ranks that disagree.
if size > 1:
    request, other = begin(g, d_a), begin(g, d_b)
    with raises(xa.ArgumentError, "the ranks disagree"):
        g.fill(1) if rank else g.sync()
    assert not is_over(request)
    g.sync()
    assert is_over(other)
    check(g, b)
    g.sync()

# `flick` and `probe` go on with what a later call ends.
request = begin(g, d_a)
pexta.flick()
pexta.probe(request)
g.sync()
check(g, a)
g.sync()
g.destroy()
pexta.terminate()
