"""Checksums that ranks keep together: PATH ENGINE FILL."""

from __future__ import annotations

import errno
import os
import sys

import numpy as np
from format_reader import wrong_sums
from mpi4py import MPI
from mpierrors import raises

import extarray as xa

comm = MPI.COMM_WORLD
path, engine, fill = sys.argv[1], sys.argv[2], int(sys.argv[3])
last = comm.rank == comm.size - 1


def holds(in_doubt=False, wrong=()):
    """Require this state of the sums, and these mismatched chunks."""
    found = comm.bcast(wrong_sums(path) if not comm.rank else None)
    assert found[1] == in_doubt, found
    assert found[0] == list(wrong) or in_doubt, found


def opened(mode="r+", **options):
    return xa.open(path, mode, comm=comm, engine=engine, **options)


def flush(array):
    array.flush()
    holds()
    comm.Barrier()


def fails(*args):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


array = xa.create(
    path, (6, 8), "<i4", chunks=(2, 3), fill_value=fill, checksum=True, comm=comm, engine=engine
)
assert array.info()["checksum"]
holds(in_doubt=True)
model = np.arange(48, dtype="i4").reshape(6, 8)
array.write_zone(model[array.zone()])
flush(array)
# The last rank alone marks the sums as in doubt before it writes.
if last:
    array[1, 1] = 70
    array.write((slice(None, None, 2), slice(0, 4)), 71, collective=False)
    array[[0, 3], [1, 7]] = 72
model[1, 1] = 70
model[::2, :4] = 71
model[[0, 3], [1, 7]] = 72
comm.Barrier()
holds(in_doubt=True)
comm.Barrier()
flush(array)
# Chunks that several ranks write to; views; additions; nonblocking writes.
array[5, comm.rank % 8] = comm.rank
array.accumulate((0, 0), 1)
array.iwrite((4, slice(6, 8)), 5).wait()
model[5, : min(8, comm.size)] = range(min(8, comm.size))
model[0, 0] += comm.size
model[4, 6:] = 5
view = array.chunk((1, 1)) if last else None
comm.Barrier()
array.flush()
holds(in_doubt=True)  # a writable view exists
assert np.array_equal(array.read(), model)
# Growth by all ranks, and by parts; cuts; growth over elements cut off.
array.append(np.ones((3, 8), "i4"))
model = np.concatenate([model, np.ones((3, 8), "i4")])
part = array.zone_of_growth(1, 5, "start")
array.append_zone(np.full([s.stop - s.start for s in part], 3, "i4"), 1, 5, "start")
model = np.concatenate([np.full((9, 5), 3, "i4"), model], 1)
array.shrink(0, 4)
array.extend(0, 5)
model = np.concatenate([model[:5], np.full((5, 13), fill, "i4")])
array.extend(1, 700)
model = np.concatenate([model, np.full((10, 700), fill, "i4")], 1)
array.shrink(1, 690)
model = model[:, :-690]
assert np.array_equal(array.read(), model)
del view
array.close()
holds()

# Closing updates the sums; a failure on one rank leaves doubt on all.
with opened() as array:
    array.write_zone(model[array.zone()] + 1)
    model += 1
    entries = array._store.now.sums.entries
    if last:
        array._store.now.sums.entries = fails
    with raises(xa.StorageError, "cannot compute checksums"):
        array.flush()
    holds(in_doubt=True)
    array._store.now.sums.entries = entries
    flush(array)
    array.add_axis()
    array[0, 0, 0] = 4 if not comm.rank else array[0, 0, 0]
holds()
with opened("r", verify="read") as array:
    found = array.read()
    assert np.array_equal(found[0, 1:], model[1:])

# Damage: no damaged chunk gets a new sum, unless it is overwritten as a whole.
comm.Barrier()
if not comm.rank:
    with xa.open(path) as alone:
        place = alone.axial.address((0, 1, 1)) * 24
    with open(f"{path}.xta", "r+b") as file:
        file.seek(place + 8)
        file.write(b"oops")
damaged = comm.bcast(wrong_sums(path)[0] if not comm.rank else None)
assert len(damaged) == 1
box = (0, *xa.check(path, data=True).problems[0].boxes[0][1:])
with opened() as array:
    with raises(xa.ChecksumError, "does not match its checksum"):
        array.write((0, box[1].start, box[2].start) if last else slice(0), 5)
    with raises(xa.ChecksumError, "does not match its checksum"):
        rows, columns = [box[1].start] * 2, [box[2].start, box[2].start + 1]
        array.write((0, rows, columns) if last else slice(0), 5)
    if last:
        with raises(xa.ChecksumError, "does not match its checksum"):
            array[0, box[1].start, box[2].start] = 5
        with raises(xa.ChecksumError, "does not match its checksum"):
            array.copy()
    array.read()
    array.write((0, 0, 0), 9)
holds(wrong=damaged)
with opened("r", verify="read") as array:
    with raises(xa.ChecksumError, "does not match its checksum"):
        array.read(... if last else slice(0))
    with raises(xa.ChecksumError, "does not match its checksum", last):
        array.read(box if last else (0, 0, 0), collective=False)
with opened() as array:
    array.write(box if last else slice(0), 6)
holds()
