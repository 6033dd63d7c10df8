"""An error found by one rank is raised by all, and none hangs: PATH ENGINE."""

from __future__ import annotations

import contextlib
import os
import resource
import sys

import numpy as np
from mpi4py import MPI
from mpierrors import raises

import extarray as xa
from extarray.mpi.runtime import Agreement

comm = MPI.COMM_WORLD
path, engine = sys.argv[1:]
last = comm.rank == comm.size - 1
several = comm.size > 1


def create(**options):
    given = {"shape": (4, 6), "dtype": "i4", "chunks": (2, 3), "engine": engine, "comm": comm}
    return xa.create(options.pop("path", path), **{**given, **options})


# Text of rank 0 takes one MPI call, or two.
with Agreement.on_duplicate(comm) as agreement:
    for n in (0, 600, *range(1000, 1024), 5000):
        assert agreement.tell(b"x" * n if not comm.rank else None) == b"x" * n
agreement.comm.Free()

# Opening.
with raises(xa.MissingError):
    xa.open(path, comm=comm)
with raises(xa.ArgumentError, "give a path"):
    create(path=None)
with raises(xa.ArgumentError, "the ranks disagree", several):
    create(chunks=(2, 3) if comm.rank else (3, 2), overwrite=True).close()
with raises(xa.ShapeError):
    create(shape=(-1, 2) if last else (4, 6))
unusual = path + os.fsdecode(b"\xff")
with raises(xa.ArgumentError, "the ranks disagree", several):
    create(path=unusual if last else path, overwrite=True).close()
create(path=unusual, overwrite=True).close()
with raises(xa.ArgumentTypeError, "communicator"):
    xa.create(path, (2, 2), comm="world")
with raises(xa.ArgumentError, "communicator"):
    xa.create(path, (2, 2), info={"cb_nodes": 1})
with raises(xa.ArgumentError, "mmap, pread, mpi-io"):
    create(engine="threads")
part = comm.Split(0 if last else MPI.UNDEFINED)
with raises(xa.ArgumentError, "not a rank of the communicator", not last):
    xa.create(path + "-part", (2, 2), comm=part).close()
if last:
    part.Free()
with raises(xa.ArgumentError, "is for writers"):
    xa.open(path, "r", share=True, comm=comm)
if several:
    with raises(xa.ArgumentError, "the ranks disagree"):
        xa.open(path, "r+", share="elements" if last else True, comm=comm)
with raises(xa.ArgumentError, "does not accept this value for hint"):
    create(info={"": 1} if last else {})
model = np.arange(24, dtype="i4").reshape(4, 6)
a = create(overwrite=True, info={"romio_cb_write": "automatic", "cb_nodes": 1})
a.write_zone(model[a.zone()])
if engine == "mpi-io" and MPI.get_vendor()[0] == "MPICH":
    # The user's hints override those of the package.
    hints = a._views._file.Get_info()
    assert (hints.Get("romio_cb_write"), hints.Get("cb_nodes")) == ("automatic", "1")
    assert (hints.Get("romio_ds_write"), hints.Get("romio_cb_read")) == ("disable", "disable")
    hints.Free()
    # MPI opens this file on some ranks alone; all can read.
    alone = {"romio_cb_read": "enable", "romio_no_indep_rw": "true"}
    with create(path=path + "-alone", info=alone) as other:
        other.write_zone(model[other.zone()])
        assert np.array_equal(other.read(), model)
with raises(xa.ExistsError):
    create()
with raises(xa.LockedError):
    xa.open(path, "r+", comm=comm)
if last:
    with raises(xa.LockedError):
        xa.open(path, "r+")
    # Readers need no lock.
    with xa.open(path) as reader:
        assert reader.shape == (4, 6)

# Reading and writing: the failing rank says why, and the array stays usable.
with raises(xa.BoundsError, "index 9 is out of bounds"):
    a.read(9 if last else 0)
with raises(xa.ShapeError, "broadcast"):
    a.write(..., np.zeros(5 if last else 6, "i4"))
with raises(xa.CastingError):
    a.read(..., out=np.zeros((4, 6), "u4" if last else "i4"))
# Each rank alone knows its texts and objects: nobody writes before all have checked them.
for wrong in (np.array(["7"] * 5 + ["seven"]), np.array([7] * 5 + [None])):
    with raises((TypeError, ValueError)):
        a.write(..., wrong if last else 7)
with raises(ValueError, "seven"):
    a.write_zone("seven" if last else 7)
assert np.array_equal(a.read(), model)
with raises(xa.ArgumentError, "the ranks disagree", several):
    if last:
        a.write(slice(0), 0)
    else:
        a.read(slice(0))
assert np.array_equal(a.read(), model)

# Arrays may hold the numbers.
a.distribute(process_grid=np.array([comm.size, 1]))
a.distribute("block_cyclic", block=np.array([1, 2]))
with raises(ValueError, "seven"):
    a.write_zone(np.full(a.read_zone().shape, "7" if comm.rank else "seven"))
assert np.array_equal(a.read(), model)
a.distribute()

# Growth: conflicting arguments, impossible ones, and failing data.
with raises(xa.ArgumentError, "the ranks disagree", several):
    a.extend(0, int(several and last))
with raises(xa.AxisError):
    a.extend(5 if last else 0, 1)
with raises(xa.ShapeError):
    a.append(np.zeros((2, 6 + last), "i4"))
with raises(xa.ShapeError, "zone_of_growth"):
    a.append_zone(np.zeros((9, 9)), 0, 4)
with raises(xa.ArgumentError, "the ranks disagree", several):
    a.attrs.update({"rank": comm.rank} if several else {})
a.attrs["unit"] = "mm"
with raises(xa.ArgumentTypeError, "object"):
    a.attrs["rank"] = object() if last else 0
with raises(xa.ArgumentTypeError, "set"):
    a.attrs.update(rank={1} if last else 0.0)
with raises(TypeError, "int"):
    a.attrs.update(5 if last else {})
with raises(KeyError):
    del a.attrs["nothing" if last else "unit"]
with raises(KeyError):
    a.attrs.pop("nothing" if last else "unit")
with raises(xa.ArgumentError, "the ranks disagree", several):
    assert a.attrs.pop("nothing" if last else "unit", "none") == "none"
with raises(TypeError, "unhashable"):
    a.attrs[[] if last else "unit"] = "mm"
with raises(TypeError, "unhashable"):
    a.attrs.setdefault([] if last else "nothing", "none")
with raises(xa.ArgumentError, "the ranks disagree", several):
    assert a.attrs.setdefault("nothing" if several and last else "unit", "none") == "mm"
assert a.attrs.setdefault("unit") == "mm"
assert a.attrs.pop("nothing", rank := comm.rank) == rank
with raises(xa.ArgumentTypeError, "dims"):
    a.dims = 5 if last else ("y", "x")
with raises(xa.ArgumentError, "the ranks disagree", several):
    a.dims = ("y", "x") if several and last else None
assert dict(a.attrs) == {"unit": "mm"}
with raises(xa.ArgumentError, "the ranks disagree", several):
    a.distribute("block_cyclic", block=1 + (several and last))


class Failing:
    """Data that cannot be read on one rank."""

    shape, dtype = (40, 6), np.dtype("i4")

    def __getitem__(self, key):
        if last:
            raise RuntimeError("the instrument is gone")
        return np.ones(self.shape, self.dtype)[key]


for side in ("end", "start"):
    with raises(RuntimeError, "the instrument is gone"):
        a.append(Failing(), side=side)
    assert a.shape == (4, 6) and np.array_equal(a.read(), model)
assert (a.grid, a.axial.segments) == ((2, 2), 1)
# Growth clears the remains of the failed append.
a.extend(0, 40)
assert np.array_equal(a.read(), np.concatenate([model, np.zeros((40, 6), "i4")]))
a.shrink(0, 40)


class Late:
    """Data that are read part by part."""

    shape, dtype = (5, 6), np.dtype("i2")

    def __getitem__(self, key):
        return np.arange(30, dtype="i2").reshape(5, 6)[key]


a.append(Late())
model = np.concatenate([model, Late()[...]])
assert np.array_equal(a.read(), model)


class Texts:
    """Texts that are read part by part, with a long one at the end."""

    shape, dtype = (60,), np.dtype("U9")

    def __getitem__(self, key):
        return np.array([*["band"] * 59, "longer"], self.dtype)[key]


class Masked(Texts):
    """Texts with a masked one at the end."""

    def __getitem__(self, key):
        return np.ma.array(["band"] * 60, "U9", mask=[False] * 59 + [True])[key]


labels = create(path=path + "-labels", shape=(3,), dtype="U4", chunks=(2,), fill_value="none")
labels.write(slice(None), "old")
for source in (Texts(), np.array(Texts()[:]), np.array(Texts()[:]).tolist()):
    with raises(xa.CastingError, "cannot append strings of 6 characters"):
        labels.append(source)
    assert labels.read().tolist() == ["old"] * 3
(new,) = labels.zone_of_growth(0, 60)
zone = slice(new.start - 3, new.stop - 3)
with raises(xa.CastingError, "cannot append strings of 6 characters"):
    labels.append_zone(Texts()[zone], 0, 60)
assert labels.read().tolist() == ["old"] * 3
labels.append_zone(np.array(["band"] * 60, "U9")[zone], 0, 60)
labels.append(Masked())
assert labels.read().tolist() == ["old"] * 3 + ["band"] * 119 + ["none"]
labels.close()

# No room on rank 0, which makes it.
old = resource.getrlimit(resource.RLIMIT_FSIZE)
if comm.rank == 0:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, old[1]))
with raises(xa.StorageError):
    a.extend(0, 1 << 20)
assert a.shape == (9, 6) and np.array_equal(a.read(), model)
resource.setrlimit(resource.RLIMIT_FSIZE, old)
with raises(ValueError, "follow"):
    a.follow()
# Copies belong to one process, as do commits of several arrays.
assert type(a.copy()) is xa.ExtArray
with xa.rechunk(a, chunks=(3, 2)) as other:
    assert np.array_equal(other[...], model)
with raises(xa.ArgumentError, "communicator"), xa.commit([a]):
    pass
with raises(xa.ArgumentError, "communicator"):
    xa.rechunk(a, chunks=(3, 2), in_place=True)
assert np.array_equal(a.read(), model)
a.flush()
a.close()
a.close()
with raises(xa.ClosedError):
    a.read()
with raises(xa.ClosedError):
    a.extend(0, 1)
with raises(xa.ClosedError):
    a.distribute()

# No room at a write, for the last rank alone.  (Stores to a mapping know no such limit.)
a = create(path=path + "-sparse", shape=(1 << 12, 64), chunks=(64, 64), sparse=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, old[1]))
mine = slice(3000, None) if last else slice(10 * comm.rank, 10 * comm.rank + 10)
with contextlib.suppress(xa.StorageError) if engine == "mmap" else raises(xa.StorageError):
    a.write(mine, 1)
resource.setrlimit(resource.RLIMIT_FSIZE, old)
a.write(slice(comm.rank, None, comm.size), 2)
assert (a.read() == 2).all()
a.close()

# A read-only array; and an error of all ranks ends the statement on all of them.
with raises(xa.ReadOnlyError, "reopen"), xa.open(path, comm=comm, engine=engine) as b:
    assert np.array_equal(b.read_zone(), model[b.zone()])
    assert b.refresh() is False
    b.flush()
    with raises(xa.ArgumentError, "communicator"):
        xa.refresh([b])
    b.write_zone(0)
assert b.closed
with raises(xa.ReadOnlyError), xa.open(path, comm=comm, engine=engine) as b:
    b.extend(0, 1)
xa.open(path, "r+", comm=comm, timeout=60).close()

# An overwritten array stays open for its readers, which never read another one.
b = xa.open(path, comm=comm, engine=engine)
comm.Barrier()
if last:
    xa.create(path, (9, 6), "i4", chunks=(2, 3), fill_value=7, overwrite=True).close()
comm.Barrier()
assert np.array_equal(b.read(), model)
files = len(os.listdir("/dev/fd"))
with raises(xa.PartnerError, "overwritten", when=engine == "mpi-io"):
    assert np.array_equal(b.read(collective=False), model)
assert len(os.listdir("/dev/fd")) == files
b.close()

# Another program truncates the file: nobody reads lost elements, and all ranks can close it.
a = create(path=path + "-cut", shape=(64, 64), chunks=(16, 16))
comm.Barrier()
if last:
    os.truncate(path + "-cut.xta", 5000)
comm.Barrier()
if engine != "mmap":  # which meets a signal
    with raises(xa.TruncatedError, "another program"):
        a.read((slice(None), comm.rank))
    with raises(xa.TruncatedError, "another program"):
        a.iread((slice(None), comm.rank)).wait()
with raises(xa.TruncatedError, "another program"), a:
    assert np.array_equal(a.read(0), np.zeros(64))
assert a.closed
