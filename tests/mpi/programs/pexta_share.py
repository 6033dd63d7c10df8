"""Sessions of PEXTA that write while a writer outside grows the array: FOLDER SEED STEPS."""

from __future__ import annotations

import subprocess
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
folder, seed, steps = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rank, size = comm.rank, comm.size
place = folder / "a"

OUTSIDE = """
import sys
import numpy as np
import extarray as xa
path, share, rounds = sys.argv[1], sys.argv[2] == "True", int(sys.argv[3])
with xa.open(path, "r+", share=share) as a:
    for number in range(rounds):
        axis = number % a.ndim
        shape = [2 if j == axis else n for j, n in enumerate(a.shape)]
        a.append(np.full(shape, 100.0 + number), axis)
        print(a.shape, flush=True)
"""


# The experiment of the thesis (8.5.3): a cube grows by 2 on its axes in turn, outside, while a
# session computes and writes; at its end the session writes back, and the next one reads it anew.
ROUNDS = 12
for share, compression in ((True, None), ("elements", None), (True, "zlib")):
    first = np.arange(1.0, 12**3 + 1).reshape(12, 12, 12)
    if rank == 0:
        xa.from_array(first, place, chunks=(4, 4, 4), compression=compression).close()
    comm.Barrier()
    pexta.init()
    d = pexta.open(place, pexta.RW, share=share)
    g = holding(comm, first)
    outside = None
    if rank == 0:
        command = [sys.executable, "-c", OUTSIDE, place, str(share), str(ROUNDS)]
        outside = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert outside.stdout.readline()
    factor, is_over = 1, False
    while not is_over:
        g.scale(-1)
        factor *= -1
        pexta.write_section(False, g, (0, 0, 0), (11, 11, 11), d, (0, 0, 0), (11, 11, 11))
        is_over = comm.bcast(outside is None or outside.poll() is not None)
    model = np.zeros((12, 12, 12))
    for number in range(ROUNDS):
        model = np.pad(
            model,
            [(0, 2 if j == number % 3 else 0) for j in range(3)],
            constant_values=100.0 + number,
        )
    model[:12, :12, :12] = factor * first
    pexta.write(g, d)
    assert g.shape == model.shape
    assert np.array_equal(g.get(), model)
    pexta.terminate()
    g.destroy()
    if outside is not None:
        assert outside.wait() == 0
        outside.stdout.close()
    pexta.init()
    d = pexta.open(place, pexta.R)
    g = holding(comm, first)
    pexta.read(g, d)
    assert np.array_equal(g.get(), model)
    g.sync()
    g.destroy()
    pexta.terminate()
    remove(comm, place)

# What is possible beside other writers, and what is not.
if rank == 0:
    xa.from_array(np.arange(12.0).reshape(3, 4), place, chunks=(2, 2)).close()
comm.Barrier()
pexta.init()
with raises(xa.ArgumentError, "is for writers"):
    pexta.open(place, pexta.R, share=True)
with raises(xa.ArgumentTypeError, "share"):
    pexta.open(place, pexta.RW, share="all")
if size > 1:
    with raises(xa.ArgumentError, "the ranks disagree"):
        pexta.open(place, pexta.RW, share="elements" if rank else True)
lone = xa.open(place, "r+") if rank == 0 else None
with raises(xa.LockedError):
    pexta.open(place, pexta.RW, share=True)
with raises(xa.LockedError):
    pexta.open(place, pexta.RW)
d = pexta.open(place, pexta.RW, share="elements")
with raises(xa.ReadOnlyError, "share='elements'"):
    pexta.extend(d, 0, 1)
with raises(xa.ReadOnlyError, "share='elements'"):
    d.array.attrs["unit"] = "m"
assert not pexta.refresh(d)
if lone is not None:
    lone.extend(0, 2)
    lone.add_axis()
comm.Barrier()
assert pexta.refresh(d)
assert pexta.inquire(d).dims == (1, 5, 4)
d.array.write(..., np.arange(20.0).reshape(1, 5, 4))
d.array.flush()
comm.Barrier()
if lone is not None:
    assert np.array_equal(lone[0], np.arange(20.0).reshape(5, 4))
    lone.extend(1, 1)
    lone[0, 5] = 9
    lone.close()
comm.Barrier()
with GlobalArray.create((1, 5, 4), "f8", comm) as g:
    g.fill(3)
    pexta.write(g, d)
    wanted = np.full((1, 6, 4), 3.0)
    wanted[0, 5] = 9
    assert np.array_equal(g.get(), wanted)
    g.sync()
assert pexta.inquire(d).dims == (1, 6, 4)
pexta.close(d)
d = pexta.open(place, pexta.RW, share=True)
with raises(xa.ArgumentError, "while writers share it"):
    d.array.append(np.zeros((1, 1, 4)), axis=1)
with raises(xa.ArgumentError, "while writers share it"):
    d.array.append_zone(0, axis=1, by=0)
with raises(xa.ArgumentError, "while writers share it"):
    d.array.add_axis()
other = xa.open(place, "r+", share=True) if rank == 0 else None
comm.Barrier()
with raises(xa.LockedError):
    pexta.open(place, pexta.RW)
# Each change builds on what the others have made, and all ranks know it afterwards.
if other is not None:
    other.attrs["outside"] = 1
    other.extend(2, 3)
comm.Barrier()
d.array.attrs["inside"] = 2
assert dict(d.array.attrs) == {"outside": 1, "inside": 2}
assert d.array.shape == (1, 6, 7)
if other is not None:
    other.extend(1, 1)
comm.Barrier()
pexta.wait(pexta.extend(d, (0, 1, 1), (-1, 1, 0)))
assert comm.allgather(d.array.shape) == [(1, 8, 8)] * size
if other is not None:
    other.extend(1, 1)
    assert other.attrs["inside"] == 2
comm.Barrier()
d.array.flush()
assert comm.allgather(d.array.shape) == [(1, 9, 8)] * size
if other is not None:
    other.shrink(2, 5)
comm.Barrier()
assert pexta.refresh(d)
assert comm.allgather(d.array.shape) == [(1, 9, 3)] * size
if other is not None:
    other.close()
with xa.open(place, "r+", share=True, durability="commit", comm=comm) as durable:
    durable.extend(1, 1)
    durable.write_zone(rank)
    durable.attrs["durable"] = True
assert pexta.refresh(d)
assert pexta.inquire(d).dims == (1, 10, 3)
pexta.terminate()
if rank == 0:
    assert xa.check(place).ok
remove(comm, place)
pexta.init()
if rank == 0:
    xa.create(place, (3, 4), chunks=(2, 2), checksum=True).close()
comm.Barrier()
for share in (True, "elements"):
    with raises(xa.ArgumentError, "checksum=False"):
        pexta.open(place, pexta.RW, share=share)
pexta.terminate()
remove(comm, place)


class Older:
    """A global array, what it holds, and where its first element is in the disk array."""

    def __init__(self, values):
        self.g, self.values = holding(comm, values), values.copy()
        self.place = [0] * values.ndim

    def check(self):
        assert self.g.shape == self.values.shape
        assert np.array_equal(self.g.get(), self.values)
        self.g.sync()


# Random growth outside and inside, against NumPy.
rng = np.random.default_rng(seed)
for share in (True, "elements", False):
    shape = tuple(rng.integers(1, 7, rng.integers(1, 4)).tolist())
    disk = rng.integers(1, 1000, shape).astype(float)
    if rank == 0:
        xa.from_array(disk, place, chunks=tuple(rng.integers(1, 5, len(shape)).tolist())).close()
    else:
        rng.integers(1, 5, len(shape))
    comm.Barrier()
    pexta.init(max_memory=200)
    mode = pexta.RW if share else pexta.R
    d = pexta.open(place, mode, share=share)
    outside = xa.open(place, "r+", share=share is True) if rank == 0 else None
    olders = [Older(disk) for _ in range(3)]
    kinds = ["grow"] * 3 + ["read"] * 2 + ["reopen"]
    kinds += ["write", "write", "part"] * bool(share) + ["inside"] * (share is True)
    for _ in range(steps):
        kind, one = kinds[rng.integers(len(kinds))], olders[rng.integers(len(olders))]
        begins = bool(rng.integers(2))
        if kind in ("grow", "inside"):
            axis, by = int(rng.integers(disk.ndim)), int(rng.integers(1, 4))
            at_start = kind == "grow" and rng.random() < 0.2
            value = 0 if kind == "inside" else int(rng.integers(1, 1000))
            width = [(0, 0)] * disk.ndim
            width[axis] = (by, 0) if at_start else (0, by)
            added = [by if j == axis else n for j, n in enumerate(disk.shape)]
            disk = np.pad(disk, width, constant_values=value)
            if kind == "inside":
                pexta.extend(d, axis, by)
            elif outside is not None:
                outside.append(np.full(added, float(value)), axis, "start" if at_start else "end")
            comm.Barrier()
            for each in olders:
                each.place[axis] += by if at_start else 0
        elif kind == "read":
            if begins:
                pexta.iread(one.g, d)
                one.g.sync()
            else:
                pexta.read(one.g, d)
            one.values, one.place = disk.copy(), [0] * disk.ndim
            one.check()
        elif kind == "write":
            own = tuple(slice(p, p + n) for p, n in zip(one.place, one.values.shape, strict=True))
            is_known = True
            try:
                if begins:
                    pexta.iwrite(one.g, d)
                    one.g.sync()
                else:
                    pexta.write(one.g, d)
            except xa.ShapeError as error:
                is_known = "at a start too" not in str(error)
            if is_known:
                disk[own] = one.values
                one.values, one.place = disk.copy(), [0] * disk.ndim
            else:
                assert any(d.array.origin)
            one.check()
        elif kind == "part":
            one.g.scale(-1)
            one.values *= -1
            high = [n - 1 for n in one.values.shape]
            dhigh = [p + n for p, n in zip(one.place, high, strict=True)]
            pexta.write_section(False, one.g, [0] * disk.ndim, high, d, one.place, dhigh)
            own = tuple(slice(p, n + 1) for p, n in zip(one.place, dhigh, strict=True))
            disk[own] = one.values
        else:
            pexta.close(d)
            d = pexta.open(place, mode, share=share)
        if rng.random() < 0.3:
            pexta.refresh(d)
            assert d.array.shape == disk.shape
            assert np.array_equal(d.array.read(), disk)
    if outside is not None:
        outside.refresh()
        assert np.array_equal(outside[...], disk)
        outside.close()
    pexta.terminate()
    for one in olders:
        one.g.destroy()
    remove(comm, place)
