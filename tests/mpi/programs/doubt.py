"""Damaged chunks that ranks write to while checksums are in doubt: PATH ENGINE SEED STEPS."""

from __future__ import annotations

import errno
import os
import random
import sys

import numpy as np
from format_reader import wrong_sums
from mpi4py import MPI
from mpierrors import raises

import extarray as xa

comm = MPI.COMM_WORLD
path, engine, seed, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
last = comm.rank == comm.size - 1
shape, chunks = (6, 16), (2, 4)
host = comm.Split_type(MPI.COMM_TYPE_SHARED)
near = host.size == comm.size
host.Free()


def opened():
    return xa.open(path, "r+", comm=comm, engine=engine)


def sums():
    comm.Barrier()
    found = comm.bcast(wrong_sums(path) if not comm.rank else None)
    comm.Barrier()
    return found


def damage(chunk):
    """Change a byte of a chunk, as a disk might."""
    comm.Barrier()
    if not comm.rank:
        with xa.open(path) as alone:
            place = alone.axial.address(chunk) * alone.chunk_bytes
        with open(f"{path}.xta", "r+b") as file:
            file.seek(place + 8)
            byte = file.read(1)[0]
            file.seek(place + 8)
            file.write(bytes([byte ^ 255]))
    comm.Barrier()


# -- no damage is missed -----------------------------------------------------------------------


def make_damaged():
    """Make an array whose last chunk is damaged."""
    with xa.create(
        path, shape, "<i4", chunks=chunks, checksum=True, overwrite=True, comm=comm, engine=engine
    ) as array:
        array.write_zone(np.ones([s.stop - s.start for s in array.zone()], "i4"))
    assert sums() == ([], False)
    damage((2, 3))


def write_element(array):
    array[5, 15] = 9


def write_points(array):
    array[[4, 5], [12, 15]] = 9


def write_view(array):
    array.chunk((2, 3))


def write_alone(array):
    array.write((5, slice(13, 15)), 9, collective=False)


def write_soon(array):
    array.iwrite((5, slice(13, 15)), 9).wait()


def add(array):
    array.accumulate((5, 14), 9)


for write in [write_element, write_points, write_view, write_alone, write_soon, add]:
    make_damaged()
    array = opened()
    if not comm.rank:
        array[0, 0] = 7  # now the files say that checksums are in doubt
    comm.Barrier()
    if near:
        if last:
            with raises(xa.ChecksumError, "does not match its checksum"):
                write(array)
        with raises(xa.ChecksumError, "does not match its checksum"):
            array.write((5, 15) if last else slice(0), 9)
        array.close()
        assert sums() == ([11], False)
    else:
        # Only together can ranks of several hosts tell damage from the writes of others.
        if last:
            write(array)
        comm.Barrier()
        with raises(xa.ChecksumError, "chunk 11 of"):
            array.flush()
        with raises(xa.ChecksumError, "chunk 11 of"):
            array.close()
        assert array.closed
        assert sums() == ([11], True)
if not near:
    # Whoever overwrites the chunk whole, before or after, knows it.
    make_damaged()
    with opened() as array:
        if not comm.rank:
            array[0, 0] = 7
        comm.Barrier()
        if last:
            array[5, 15] = 9
            array[4:, 12:] = 1
    assert sums() == ([], False)
make_damaged()
with opened() as array:
    if not comm.rank:
        array[0, 0] = 7
    comm.Barrier()
    if last:
        array[4:, 12:] = 1
    comm.Barrier()
    array[5, 15] = 1
assert sums() == ([], False)

# -- a note that could not be cleared is written anew ------------------------------------------

if not comm.rank:

    def fails():
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    class Failing:
        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return fails if name == "datasync" else getattr(self.file, name)


with opened() as array:
    array[0, 0] = 5
    comm.Barrier()
    kept = array._store.now.sums
    settle = array._settle_together

    if not comm.rank:
        file, kept._file = kept._file, Failing(kept._file)
    with raises(xa.StorageError, "cannot write the checksums"):
        array._flush_together()
    if not comm.rank:
        kept._file = file
    assert not kept.in_doubt
    assert not kept.are_settled
    comm.Barrier()
    if last:
        array[0, 1] = 6
    assert sums()[1]  # in doubt
    array.flush()
    assert kept.are_settled
    assert sums() == ([], False)

# -- no damage is invented ---------------------------------------------------------------------

common, own = random.Random(seed), random.Random(f"{seed} {comm.rank}")
array = opened()
model = comm.bcast(array.read((...,), collective=False) if not comm.rank else None)
mine = np.zeros(shape, bool)
mine.flat[comm.rank :: comm.size] = True  # all ranks have elements of each chunk


def write_some(array):
    """Write to elements of this rank, in one of many ways."""
    i = own.randrange(shape[0])
    columns = np.flatnonzero(mine[i])
    j, value = int(own.choice(columns)), own.randrange(1000)
    how = own.randrange(7)
    if how == 0:
        array[i, j] = value
    elif how == 1:
        array.write((i, j), value, collective=False)
    elif how == 2:
        array.accumulate((i, j), value)
        value += model[i, j]
    elif how == 3:
        array.iwrite((i, j), value).wait()
    elif how == 4:
        array[[i], [j]] = value
    elif how == 5 and engine == "mmap":
        array.chunk((i // 2, j // 4))[i % 2, j % 4] = value
    else:
        step = comm.size
        first = int(columns[0])
        array[i, first::step] = value
        model[i, first::step] = value
        return
    model[i, j] = value


for _ in range(steps):
    for _ in range(own.randrange(12)):
        write_some(array)
    what = common.randrange(6)
    if what == 0:
        array.flush()
    elif what == 1:  # a chunk of its own, whole, then parts of it by others
        comm.Barrier()
        chunk = common.randrange(12)
        box = np.s_[chunk // 4 * 2 : chunk // 4 * 2 + 2, chunk % 4 * 4 : chunk % 4 * 4 + 4]
        if comm.rank == chunk % comm.size:
            array[box] = chunk
        model[box] = chunk
        comm.Barrier()
    elif what == 2:
        comm.Barrier()
        array.write_zone(np.full([s.stop - s.start for s in array.zone()], 3, "i4"))
        model[...] = 3
    elif what == 3:
        array.close()
        wrong, in_doubt = sums()
        assert not wrong
        assert not in_doubt
        array = opened()
    elif what == 4:
        array.shrink(1, 3)
        array.extend(1, 3)
        model[:, -3:] = 0
array.close()
assert sums() == ([], False)
everything = np.where(mine, model, 0)
comm.Allreduce(MPI.IN_PLACE, everything, MPI.SUM)
with xa.open(path, verify="read") as alone:
    assert np.array_equal(alone[...], everything)
