"""With statements that only some ranks leave: PATH ENGINE."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from mpi4py import MPI

import extarray as xa
from extarray.mpi import GlobalArray, Mutexes

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
path, engine = sys.argv[1:]
last = rank == size - 1
several = comm.Split(int(last), rank)  # all but the last rank; and that alone


def create(name="", comm=comm):
    return xa.create(path + name, 8, "i4", comm=comm, engine=engine, overwrite=True)


def alone(a):
    """Let go of the files on this rank."""
    xa.ExtArray.close(a)
    comm.Barrier()


# An error agreed within another communicator concerns none of the other ranks.
a = create()
if last:
    with pytest.raises(xa.MissingError), a:
        xa.open(path + "-none", comm=MPI.COMM_SELF)
assert a.closed == last
alone(a)

# The same holds for an error of some ranks.
a = create()
if not last:
    with pytest.raises(xa.BoundsError), a, create("-several", several) as b:
        b.read(9 if rank == 0 else 0)
    assert b.comm == MPI.COMM_NULL  # all ranks of its communicator have closed it
assert a.closed != last
alone(a)

# An error of all ranks is one of each group.
b = create(f"-part{int(last)}", several)
with pytest.raises(xa.BoundsError), create() as a, b:
    a.read(9 if last else 0)
assert a.comm == b.comm == MPI.COMM_NULL

# Memory and mutexes: no rank frees them alone.
g, mutexes = GlobalArray.create(8, "i4", comm), Mutexes.create(1, comm)
if last:
    with pytest.raises(xa.MissingError), g, mutexes:
        xa.open(path + "-none", comm=MPI.COMM_SELF)
g.zero()
mutexes.destroy()
g.destroy()


# All have caught an error, and one raises it again: the others notice that it left, and follow.
def caught_and_raised(a):
    try:
        a.read(9 if last else 0)
    except xa.BoundsError:
        if last:
            raise
    a.write(slice(rank, rank + 1), rank)


with pytest.raises(xa.BoundsError if last else xa.ArgumentError) as caught, create() as a:
    caught_and_raised(a)
assert a.comm == MPI.COMM_NULL
assert last or "close" in str(caught.value)

# One rank has reached the end of the statement.
with pytest.raises(xa.ArgumentError, match="the ranks disagree"), create() as a:
    last or a.read_zone()
assert a.comm == MPI.COMM_NULL

# The same with memory: seeing the writes of others is a call like any other.
with (
    pytest.raises(xa.ArgumentError, match="the ranks disagree"),
    GlobalArray.create(8, "i4", comm) as g,
):
    last or g.sync()
assert g.comm == MPI.COMM_NULL
with GlobalArray.create(8, "i4", comm) as g:
    for call in (g.zero, g.update_ghosts, g.destroy, lambda: g.extend(0, 1)):
        with pytest.raises(xa.ArgumentError, match="sync"):
            call() if last else g.sync()
    g.access()[...] = rank
    g.sync()
    assert g.get()[-1] == size - 1 and g.shape == (8,)

# Closing is a call like any other: the array stays usable.
a = create()
with pytest.raises(xa.ArgumentError, match="close"):
    a.close() if last else a.read()
a.write_zone(rank)
assert np.array_equal(
    a.read(),
    np.concatenate([np.full(a.zone(r)[0].stop - a.zone(r)[0].start, r) for r in range(size)]),
)
a.close()
a.close()


class StubbornError(Exception):
    """An error that cannot be pickled."""

    def __reduce__(self):
        raise LookupError("no bytes of this")


class Data:
    shape, dtype = (8,), np.dtype("i4")

    def __getitem__(self, key):
        raise StubbornError("the instrument is gone")


# An error that cannot be sent arrives by its words.
with create() as a:
    with pytest.raises(StubbornError if rank == 0 else xa.ExtArrayError, match="the instrument"):
        a.append(Data()) if rank == 0 else a.append(np.zeros(8, "i4"))
    assert a.shape == (8,)
several.Free()
