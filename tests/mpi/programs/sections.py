"""Programs like those of PEXTA's users, compared with NumPy's model: FOLDER."""

from __future__ import annotations

import contextlib
import errno
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

import extarray as xa
from extarray import pexta
from extarray.mpi import GlobalArray

comm = MPI.COMM_WORLD
folder = Path(sys.argv[1])
rng = np.random.default_rng(11)
rank, size = comm.rank, comm.size


def box(lo, hi):
    return tuple(slice(i, j + 1) for i, j in zip(lo, hi, strict=True))


def place(extents, shape):
    """Return the first and last index of a randomly placed section of given extents."""
    lo = [int(rng.integers(0, n - e + 1)) for e, n in zip(extents, shape, strict=True)]
    return lo, [i + e - 1 for i, e in zip(lo, extents, strict=True)]


def holding(shape, dtype="f8", **options):
    """Return a global array of random elements, and the same in NumPy."""
    g = GlobalArray.create(shape, dtype, comm, **options)
    model = rng.integers(0, 1000, shape).astype(dtype)
    g.access()[...] = model[g.distribution()]
    g.sync()
    return g, model


pexta.init(max_memory=400)  # bytes: so a change of shape takes several parts

# Sections of one shape, transposed, of another shape and of another number of axes.
g_a, model = holding((7, 6, 5))
d_a = pexta.create(pexta.C_DBL, 3, (8, 9, 10), "cube", folder / "cube", pexta.RW, (3, 2, 4))
d_b = pexta.create(pexta.C_DBL, 2, (40, 11), "plane", folder / "plane", pexta.RW, (-1, 4))
disks = {d_a: np.zeros((8, 9, 10)), d_b: np.zeros((40, 11))}
SECTIONS = [
    ((7, 6, 5), d_a, (7, 6, 5)),
    ((3, 1, 4), d_a, (3, 1, 4)),
    ((3, 2, 4), d_a, (4, 2, 3)),  # transposed, or reshaped
    ((4, 5, 3), d_a, (6, 5, 2)),
    ((1, 1, 5), d_a, (5, 1, 1)),
    ((7, 6, 5), d_b, (30, 7)),
    ((2, 3, 4), d_b, (24, 1)),
]
for begins in (False, True):
    write_section = pexta.iwrite_section if begins else pexta.write_section
    read_section = pexta.iread_section if begins else pexta.read_section
    for gextents, handle, dextents in SECTIONS:
        for transp in (False, True):
            disk = disks[handle]
            glo, ghi = place(gextents, model.shape)
            dlo, dhi = place(dextents, disk.shape)
            source = model[box(glo, ghi)]
            disk[box(dlo, dhi)] = (source.T if transp else source).reshape(dextents)
            request = write_section(transp, g_a, glo, ghi, handle, dlo, dhi)
            if begins:
                pexta.flick()
            pexta.wait(request)
            assert pexta.probe(request)
            assert np.array_equal(handle.array.read(), disk), (transp, gextents, dextents)
            # Transfer back, to another place.
            glo, ghi = place(gextents, model.shape)
            dlo, dhi = place(dextents, disk.shape)
            source = disk[box(dlo, dhi)]
            model[box(glo, ghi)] = (source.T if transp else source).reshape(gextents)
            request = read_section(transp, g_a, glo, ghi, handle, dlo, dhi)
            while not pexta.probe(request):
                pexta.flick()
            assert np.array_equal(g_a.get(), model), (transp, gextents, dextents)
            g_a.sync()

# Several transfers at once; closing an array completes its own.
requests = [pexta.iwrite_section(False, g_a, (0,) * 3, (6, 0, 4), d_a, (0,) * 3, (6, 0, 4))]
requests.append(pexta.iwrite_section(False, g_a, (0,) * 3, (6, 5, 4), d_b, (0, 0), (29, 6)))
pexta.close(d_b)
pexta.wait(requests[1])
pexta.wait(requests[0])
pexta.wait(pexta.REQ_INVALID)
assert pexta.probe(pexta.REQ_INVALID)
with xa.open(folder / "plane") as plane:
    assert np.array_equal(plane[:30, :7], model.reshape(30, 7))
    assert plane.attrs["name"] == "plane"
comm.Barrier()

# Growth, even during a transfer: old elements stay, and the zones follow.
request = pexta.iwrite_section(False, g_a, (0,) * 3, (6, 5, 4), d_a, (2, 0, 0), (7, 4, 6))
pexta.extend(d_a, 1, 3)
pexta.extend(d_a, -1, 2)
pexta.wait(request)
assert pexta.inquire(d_a) == (pexta.C_DBL, 3, (8, 12, 12), "cube", str(folder / "cube"))
disk = np.zeros((8, 12, 12))
disk[:, :9, :10] = disks[d_a]
disk[:7, :1, :5] = model[:, :1]
disk[2:8, :5, :7] = model.reshape(6, 5, 7)
pexta.write_section(False, g_a, (0, 0, 0), (6, 2, 1), d_a, (1, 9, 10), (7, 11, 11))
disk[1:8, 9:, 10:] = model[:, :3, :2]
assert np.array_equal(d_a.array.read(), disk)
count = np.zeros(disk.shape, int)
for r in range(size):
    lo, hi = pexta.distribution(d_a, r)
    assert box(lo, hi) == d_a.array.zone(r)
    count[box(lo, hi)] += 1
assert (count == 1).all()
text = io.StringIO()
with contextlib.redirect_stdout(text):
    pexta.print_internals(d_a)
assert ("cube" in text.getvalue() and "(3, 2, 4)" in text.getvalue()) == (rank == 0)

# Copies with axes permuted as in NumPy, into new arrays and existing ones.
ORDERS = [(2, 0, 1), (1, 2, 0), (0, -1, 1)]
for transp, axes in [(False, (0, 1, 2)), (True, (2, 1, 0)), *((axes, axes) for axes in ORDERS)]:
    wanted = disk.transpose(axes)
    new = pexta.copy(d_a, "C", folder / "copy", pexta.RW, (-1, -1, -1), transp=transp)
    assert new.array.chunks == tuple(np.array((3, 2, 4))[list(axes)])
    assert np.array_equal(new.array.read(), wanted)
    pexta.delete(new)
    other = pexta.create("f8", 3, wanted.shape, "D", folder / "copy", pexta.RW, (5, 3, 2))
    assert pexta.copy(d_a, other, transp=transp) is other
    assert np.array_equal(other.array.read(), wanted)
    with xa.open(folder / "copy") as seen:
        assert np.array_equal(seen[...], wanted)
    if transp == (2, 0, 1):
        # During a growth and a transfer, dealt out to the ranks in turn.
        pexta.extend(other, (0, 1, 0), (-1, 0, -1))
        with pytest.raises(xa.ShapeError, match="extend it"):
            pexta.copy(d_a, other, transp=transp)
        twin = pexta.create("f8", 3, disk.shape, "T", folder / "twin", pexta.RW, (4, 4, 5))
        twin.array.distribute("block_cyclic", 1)
        request = pexta.iwrite_section(False, g_a, (0,) * 3, (6, 5, 4), twin, (0,) * 3, (6, 5, 4))
        pexta.copy(d_a, twin)
        assert pexta.probe(request)
        assert np.array_equal(twin.array.read(), disk)
        pexta.delete(twin)
    pexta.delete(other)
same = pexta.create("f8", 3, disk.shape, "S", folder / "same", pexta.W, (5, 3, 2))
ints = pexta.create("i8", 3, disk.shape, "I", folder / "ints", pexta.RW, (5, 3, 2))
new = ("N", folder / "new", pexta.RW, (-1, -1, -1))
for kind, match, arguments, transp in [
    *(
        (xa.ArgumentError, "not an order of 3 axes", new, t)
        for t in [(0, 1), (0, 0, 1), (0, 1, 3), ()]
    ),
    *((xa.ArgumentTypeError, "transp must be", new, t) for t in [2, None, "210", (0, 1, 2.0)]),
    (xa.ArgumentError, "not an order of 3 axes", (same,), (0, 1)),
    (xa.ArgumentTypeError, "only transp", (same, folder / "new"), False),
    (xa.ArgumentTypeError, "file name", ("N",), False),
    (xa.DTypeError, "do not cast", (ints,), False),
    (xa.ArgumentError, "same files", (d_a,), False),
]:
    with pytest.raises(kind, match=match):
        pexta.copy(d_a, *arguments, transp=transp)
with pytest.raises(xa.ArgumentError, match="mode W"):
    pexta.copy(same, ints)
assert not list(folder.glob("new*"))
pexta.delete(same)
pexta.delete(ints)

# Debugging output.
pexta.set_debug(True)
text = io.StringIO()
with contextlib.redirect_stderr(text):
    pexta.read_section(True, g_a, (0, 0, 0), (1, 1, 1), d_a, (2, 2, 2), (3, 3, 3))
pexta.set_debug(False)
assert "(0, 0, 0) ... (1, 1, 1) in memory" in text.getvalue()
assert "(2, 2, 2) ... (3, 3, 3) (axes in reverse) on the disk" in text.getvalue()

# An impossible call is an error on all ranks, and changes nothing.
other = GlobalArray.create((8, 12, 12), "f4", comm)
ERRORS = [
    (
        xa.ShapeError,
        "sections have 1 elements in memory, but 2",
        lambda: pexta.write_section(False, g_a, (0,) * 3, (0,) * 3, d_a, (0,) * 3, (0, 0, 1)),
    ),
    (
        xa.BoundsError,
        "for axis 2",
        lambda: pexta.read_section(False, g_a, (0,) * 3, (0, 0, 5), d_a, (0,) * 3, (0, 0, 5)),
    ),
    (xa.DTypeError, "float32", lambda: pexta.write(other, d_a)),
    (xa.ShapeError, "use sections", lambda: pexta.iread(g_a, d_a)),
    (xa.ArgumentTypeError, "GlobalArray", lambda: pexta.read(model, d_a)),
    (xa.ArgumentTypeError, "handle", lambda: pexta.read(g_a, d_a.array)),
    (xa.ClosedError, "closed", lambda: pexta.read(g_a, d_b)),
    (xa.ArgumentTypeError, "request", lambda: pexta.wait(0)),
    (xa.AxisError, "axis 3", lambda: pexta.extend(d_a, 3, 1)),
    (xa.ArgumentError, "RW", lambda: pexta.open(folder / "plane", 7)),
    (xa.ArgumentTypeError, "path", lambda: pexta.open(3, pexta.R)),
    (xa.MissingError, "nothing", lambda: pexta.open(folder / "nothing", pexta.R)),
    (
        xa.ExistsError,
        "plane",
        lambda: pexta.create("f8", 1, (3,), "", folder / "plane", pexta.RW, (-1,)),
    ),
    (
        xa.ShapeError,
        "ndim 2",
        lambda: pexta.create("f8", 2, (3,), "", folder / "new", pexta.RW, (-1,)),
    ),
    (xa.ArgumentError, "begun", pexta.init),
    (xa.ArgumentError, "pair of files", lambda: pexta.set_default_config(3, 3)),
]
if size > 1:
    ERRORS += [
        (
            xa.ArgumentError,
            "the ranks disagree",
            lambda: pexta.write_section(
                False, g_a, (0,) * 3, (0,) * 3, d_a, (rank, 0, 0), (rank, 0, 0)
            ),
        ),
        (
            xa.BoundsError,
            "for axis 0",
            lambda: pexta.write_section(
                False, g_a, (0,) * 3, (0,) * 3, d_a, (20 * rank, 0, 0), (20 * rank, 0, 0)
            ),
        ),
    ]
    twin = g_a.duplicate()
    with pytest.raises(xa.ArgumentError, match="from global array"):
        pexta.write_section(
            False, twin if rank else g_a, (0,) * 3, (1,) * 3, d_a, (0,) * 3, (1,) * 3
        )
    twin.destroy()
    alone = comm.Split(rank)
    mine = GlobalArray.create((7, 6, 5), "f8", alone)
    with pytest.raises(xa.ArgumentError, match="other ranks"):
        pexta.write(mine, d_a)
    mine.destroy()
    alone.Free()
for kind, match, call in ERRORS:
    with pytest.raises(kind, match=match):
        call()
assert np.array_equal(d_a.array.read(), disk)
other.destroy()

# Permissions of the modes.
for mode, reads, writes in [(pexta.R, True, False), (pexta.W, False, True), (-1, True, True)]:
    d_b = pexta.open(folder / "plane", mode)
    calls = [(pexta.read_section, reads), (pexta.write_section, writes)]
    for call, permitted in calls:
        arguments = (False, g_a, (0,) * 3, (0,) * 3, d_b, (0, 0), (0, 0))
        with contextlib.nullcontext() if permitted else pytest.raises(ValueError, match="RW"):
            call(*arguments)
    with contextlib.nullcontext() if writes else pytest.raises(xa.ReadOnlyError):
        pexta.extend(d_b, 0, 1)
    pexta.close(d_b)

# A file with a writer in another program is not removed.
d_b = pexta.open(folder / "plane", pexta.R)
writer = xa.open(folder / "plane", "r+") if rank == 0 else None
with pytest.raises(xa.LockedError):
    pexta.delete(d_b)
if writer is not None:
    writer.close()
comm.Barrier()
d_b = pexta.open(folder / "plane", pexta.R)
pexta.delete(d_b)
assert not list(folder.glob("plane*"))
pexta.terminate()
assert d_a.array.closed
g_a.destroy()
with pytest.raises(xa.ClosedError):
    pexta.flick()

# Whole arrays, distributed differently in memory and on disk; some processes read for all.
pexta.init(2, 1e4, 1.5e4)
pexta.set_default_config(-1, 1)
g_a, model = holding((25, 40), "i8", process_grid=(1, size))
args = (pexta.C_LONG, 2, (25, 40))
d_a = pexta.create(*args, "A", folder / "a", pexta.RW, (25, 3))
d_b = pexta.create_config(
    pexta.C_INT, 1, (1000,), "B", folder / "b", pexta.RW, (-1,), 1, 2, overwrite=True
)
pexta.wait(pexta.iwrite(g_a, d_a))
g_a.zero()
pexta.wait(pexta.iread(g_a, d_a))
assert np.array_equal(g_a.get(), model)
g_a.sync()
g_a.zero()
pexta.read(g_a, d_a)
assert np.array_equal(g_a.get(), model)
g_a.sync()
for code, call in [
    (errno.EMFILE, lambda: pexta.open(folder / "a", pexta.R)),
    (errno.EFBIG, lambda: pexta.extend(d_a, 0, 7)),
    (errno.EDQUOT, lambda: pexta.extend(d_b, 0, 1000)),
]:
    with pytest.raises(xa.StorageError) as caught:
        call()
    assert caught.value.errno == code
d_b.array.close()  # closed by its own method, it no longer counts
pexta.close(pexta.open(folder / "b", pexta.R))

# Empty transfers work, too.
with GlobalArray.create((0, 3), "f4", comm) as nothing:
    d_c = pexta.create("f4", 2, (0, 3), "nothing", folder / "nothing", pexta.RW, (2, 3))
    pexta.write(nothing, d_c)
    pexta.wait(pexta.iread(nothing, d_c))
    pexta.delete(d_c)

# All ranks wait for one transfer; an argument that is invalid on one rank fails on all.
first, second = pexta.iwrite(g_a, d_a), pexta.iwrite(g_a, d_a)
for call in (pexta.wait, pexta.probe):
    if size > 1:
        with pytest.raises(xa.ArgumentError, match="transfer"):
            call(second if rank == size - 1 else first)
        with pytest.raises(xa.ArgumentError, match="REQ_INVALID"):
            call(pexta.REQ_INVALID if rank == size - 1 else first)
        with pytest.raises(xa.ArgumentError, match="terminate"):
            pexta.terminate() if rank == size - 1 else call(first)
    with pytest.raises(xa.ArgumentTypeError, match="request"):
        call("first" if rank == size - 1 else first)
pexta.wait(second)
if size > 1:
    with pytest.raises(xa.ArgumentError, match="over"):
        pexta.wait(second if rank == size - 1 else first)
pexta.wait(first)
pexta.wait(second)

# A transfer that fails on one rank fails on all, once they meet.
request = pexta.iwrite(g_a, d_a)
if rank == size - 1:
    request._work._error = xa.StorageError(errno.EIO, "lost")
with pytest.raises(xa.StorageError, match="lost"):
    pexta.wait(request)
pexta.iwrite(g_a, d_a)
pexta.terminate()
g_a.destroy()
with xa.open(folder / "a") as a:
    assert np.array_equal(a[...], model)
