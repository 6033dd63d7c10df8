"""Shared layout transformations leave the same bytes as serial ones: FOLDER."""

from __future__ import annotations

import itertools
import sys
import uuid
from pathlib import Path

import numpy as np
from format_reader import wrong_sums
from mpi4py import MPI
from mpierrors import raises
from patches import patch

import extarray as xa
from extarray.common.limits import limits
from extarray.format import header
from extarray.maintenance.execute import Mover
from extarray.mpi.creation import _Shared

comm = MPI.COMM_WORLD
folder = Path(sys.argv[1])
several = comm.size > 1
# Let small arrays go through as many templates and steps as large ones.
patch.setattr(limits, "rechunk_step_bytes", 1)
patch.setattr(limits, "swept_bytes", 1)
# Two runs must leave the same bytes, including the seal at the end of the file.
patch.setattr(header, "new_uuid", lambda: uuid.UUID(int=1).bytes)
names = (f"a{i}" for i in itertools.count())


def together(call):
    """Return the result of a call on rank 0, on all ranks."""
    return comm.bcast(call() if not comm.rank else None)


def next_path():
    return folder / next(names)


def make_source(shape, chunks, **options):
    """Make an array with a history at both sides; return its path and elements."""
    path = next_path()
    values = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    if not comm.rank:
        with xa.create(path, (shape[0] - 7, *shape[1:]), "i4", chunks=chunks, **options) as a:
            a[...] = values[3:-4]
            a.append(values[-4:])
            a.append(values[:3], side="start")
            a.attrs["unit"] = "mm"
    comm.Barrier()
    return path, values


def files_of(place):
    return sorted(p.name for p in folder.iterdir() if p.name.startswith(f"{place.name}."))


# The same elements at the same places, for any number of ranks.
CASES = [
    ((23, 40), (4, 40), {"chunks": (23, 3)}, None),
    ((23, 40), (5, 9), {"chunks": (7, 4), "axes": (1, 0), "order": "F"}, 2000),
    ((64, 64), (1, 64), {"chunks": (64, 1)}, 4096),  # two passes
    ((21, 18, 11), (4, 5, 3), {"chunks": (3, 6, 4), "dtype": "f8", "verify": True}, 4000),
    ((15, 6), (4, 6), {"chunks": (15, 6), "order": "H"}, None),  # fewer chunks than ranks
]
for (shape, chunks, arguments, memory), fill in zip(CASES, (0, 7, 0, 7, 0), strict=True):
    path, values = make_source(shape, chunks, fill_value=fill, dims=tuple("tyx"[: len(shape)]))
    arguments = {**arguments, **({"max_memory": memory} if memory else {})}
    serial, parallel = next_path(), next_path()
    if not comm.rank:
        xa.rechunk(path, serial, **arguments).close()
    with xa.rechunk(path, parallel, comm=comm, **arguments) as b:
        axes = arguments.get("axes", range(len(shape)))
        assert (b.mode, b.comm.size, b.fill_value) == ("r+", comm.size, fill)
        assert b.attrs["unit"] == "mm" and b.dims == tuple("tyx"[j] for j in axes)
        assert np.array_equal(b.read(), values.transpose(axes))
        comm.Barrier()
        data = [place.with_name(f"{place.name}.xta").read_bytes() for place in (serial, parallel)]
        assert data[0] == data[1], (arguments, *map(len, data))
        b.append(b[:1])
    assert files_of(parallel) == [f"{parallel.name}.xmd", f"{parallel.name}.xta"]

# Arrays that ranks have open together, views of them, and empty arrays.
path, values = make_source((20, 9), (3, 4))
with xa.open(path, comm=comm) as a:
    xa.rechunk(a.lazy[::2, 1:], next_path(), chunks=(2, 2), comm=comm).close()
    with xa.rechunk(a.T, next_path(), chunks=(4, 3), comm=comm, workers=1) as b:
        assert np.array_equal(b[...], values.T)
    with xa.rechunk(a.lazy[:0], next_path(), comm=comm) as b:
        assert b.shape == (0, 9)
scalar = next_path()
if not comm.rank:
    xa.create(scalar, (), "i4", fill_value=5).close()
comm.Barrier()
with xa.rechunk(scalar, next_path(), comm=comm) as b:
    assert b[()] == 5

# Impossible calls, on all ranks.
taken = path
with raises(xa.ExistsError):
    xa.rechunk(path, taken, comm=comm)
with raises(xa.ArgumentError, "give a path"):
    xa.rechunk(path, comm=comm)
with raises(xa.ArgumentError, "leave out in_place"):
    xa.rechunk(path, in_place=True, comm=comm)
with raises(xa.ArgumentError, "is too small"):
    xa.rechunk(path, next_path(), max_memory=8, comm=comm)
for wrong in ({"max_memory": "much"}, {"workers": -1}):
    with raises(ValueError):
        xa.rechunk(path, next_path(), **({} if comm.rank else wrong), comm=comm)
with raises(xa.ArgumentError, "the ranks disagree", several):
    xa.rechunk(path, next_path(), chunks=2 + comm.rank, comm=comm).close()
square, _ = make_source((20, 20), (4, 4))
with raises(xa.ArgumentError, "the ranks disagree", several):
    axes = (0, 1) if comm.rank else (1, 0)
    xa.rechunk(square, next_path(), axes=axes, comm=comm).close()
summed, copy = next_path(), next_path()
if not comm.rank:
    xa.from_array(np.arange(400).reshape(20, 20), summed, checksum=True, chunks=3).close()
comm.Barrier()
with xa.rechunk(summed, copy, chunks=(7, 2), verify=True, comm=comm) as b:
    assert b.info()["checksum"]
if not comm.rank:
    assert wrong_sums(copy) == ([], False)
    with open(f"{summed}.xta", "r+b") as file:
        file.write(b"oops")
comm.Barrier()
with raises(xa.ChecksumError, "elements are [0:3, 0:3]"):
    xa.rechunk(summed, next_path(), comm=comm)


# A failing rank fails all; finished work stays, and a later call continues it.
class StoppedError(Exception):
    pass


move, moved = Mover.move, []


def stop_after(n):
    def stopping(self, template):
        if len(moved) == n and comm.rank == comm.size - 1:
            raise StoppedError
        moved.append(template)
        yield from move(self, template)

    moved.clear()
    Mover.move = stopping


path, values = make_source((64, 64), (1, 64))
for interval, n in ((0, 3), (10, 1)):
    patch.setattr(limits, "journal_interval", interval)  # noted on disk often, or only at the end
    place = next_path()
    stop_after(n)
    with raises(StoppedError):
        xa.rechunk(path, place, chunks=(64, 1), max_memory=4096, comm=comm)
    assert f"{place.name}.xmd" not in files_of(place)
    stop_after(-1)
    with xa.rechunk(path, place, chunks=(64, 1), max_memory=4096, comm=comm, resume=True) as b:
        assert np.array_equal(b.read(), values)
    after = comm.allreduce(len(moved))
    stop_after(-1)
    xa.rechunk(path, next_path(), chunks=(64, 1), max_memory=4096, comm=comm).close()
    assert after < comm.allreduce(len(moved))
    assert len(files_of(place)) == 2

# A pass that cannot begin, after the source of the previous one is gone.
target = _Shared._target


def no_room(self, i, *arguments):
    if i == 2:
        raise StoppedError
    return target(self, i, *arguments)


place, arguments = next_path(), {"chunks": (64, 1), "max_memory": 600, "comm": comm}
_Shared._target = no_room
with raises(StoppedError):
    xa.rechunk(path, place, **arguments)
_Shared._target = target
with xa.rechunk(path, place, resume=True, **arguments) as b:
    assert np.array_equal(b.read(), values)
assert len(files_of(place)) == 2
