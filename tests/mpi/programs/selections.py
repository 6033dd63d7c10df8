"""Selections of all kinds, different on each rank, compared with NumPy: PATH ENGINE STAGE."""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI
from patches import patch

import extarray as xa
from extarray.common.limits import limits

comm = MPI.COMM_WORLD
path, engine, stage = sys.argv[1], sys.argv[2], int(sys.argv[3])
if stage:  # small limits: many pieces, views and jobs
    few = {"parts_at_once": 30, "elements_at_once": 100, "view_bytes": 400, "view_runs": 40}
    for name, limit in few.items():
        patch.setattr(limits, name, limit)
rng = np.random.default_rng(7)
own = np.random.default_rng([7, comm.rank])


def box(shape, random):
    """Return slices with any steps, and integers."""
    key = []
    for n in shape:
        step = int(random.choice([1, 1, 2, 3, -1, -2, n]))
        first, last = sorted(random.integers(0, n + 1, 2).tolist())
        kind = random.integers(6)
        if kind == 0:
            key.append(int(random.integers(-n, n)))
        elif kind == 1:
            key.append(slice(None))
        else:
            key.append(slice(first, last, step) if step > 0 else slice(last, first or None, step))
    if random.integers(3) == 0:
        key.insert(int(random.integers(len(key) + 1)), None)
    return tuple(key)


def points(shape, random):
    """Return index arrays with repetitions, a mask, or both with slices."""
    kind = random.integers(4)
    if kind == 0:
        return random.random(shape) < 0.3
    if kind == 1:
        return tuple(random.integers(-n, n, (2, 3)) for n in shape)
    if kind == 2:
        return (random.integers(0, shape[0], 4), slice(None, None, -1))
    return (slice(1, None, 2), random.random(shape[1]) < 0.5)


def disjoint(shape, rank):
    """Return a part of the array that no other rank has, not aligned with chunks."""
    return (slice(None), slice(rank, None, comm.size))


def run(order, dtype, chunks, **options):
    shape = (9, 14, 5)
    a = xa.create(
        path, (7, 11, 5), dtype, chunks=chunks, order=order, overwrite=True, engine=engine,
        comm=comm, **options
    )  # fmt: skip
    a._stage = stage or a._stage
    # Grow, so that addresses are not row-major, and indices do not begin with a chunk.
    a.extend(1, 2)
    a.extend(0, 1)
    a.extend(1, 1, "start")
    a.extend(0, 1, "start")
    assert a.shape == shape
    model = np.empty(shape, dtype)
    model[...] = a.fill_value
    assert np.array_equal(a.read(), model)
    for _ in range(3):
        values = rng.integers(0, 200, shape).astype(dtype)
        for rank in range(comm.size):
            part = disjoint(shape, rank)
            model[part] = values[part]
        part = disjoint(shape, comm.rank)
        a.write(part, values[part])
        for make in (box, points):
            key = make(shape, own)
            assert np.array_equal(a.read(key), model[key]), key
            assert np.array_equal(a.read(key, collective=False), model[key]), key
            assert np.array_equal(a[key], model[key]), key
        key = box(shape, own)
        out = np.zeros(model[key].shape[::-1], dtype).T
        assert a.read(key, out) is out
        assert np.array_equal(out, model[key])
        assert a.read(key, order="F").flags.f_contiguous
    # All ranks write, each with another kind of index, to separate layers.
    for kind in range(4):
        layer = model[comm.rank :: comm.size]
        values = own.integers(0, 200, layer.shape).astype(dtype)
        mine = (slice(comm.rank, None, comm.size), slice(None), [0, 2, 2])
        if kind == 1:
            mine = (slice(comm.rank, None, comm.size), slice(None, None, -3), slice(1, 4))
        if kind == 2:
            mine = (slice(comm.rank, None, comm.size), 3, ..., None)
        if kind == 3:
            mask = np.zeros(shape, bool)
            mask[comm.rank :: comm.size] = values > 100
            mine = mask
        new = own.integers(0, 200, model[mine].shape).astype(dtype)
        a.write(mine, new)
        model[mine] = new
        for rank, rows in enumerate(comm.allgather(model[comm.rank :: comm.size])):
            model[rank :: comm.size] = rows
        assert np.array_equal(a.read(), model), kind
    a.write(disjoint(shape, comm.rank), np.float64(comm.rank), collective=True)
    for rank in range(comm.size):
        model[disjoint(shape, rank)] = rank
    assert np.array_equal(a.read(), model)
    # One rank acts alone; the others have nothing to do.
    nothing = comm.rank != comm.size - 1
    got = a.read(slice(0) if nothing else ...)
    assert np.array_equal(got, model[:0] if nothing else model)
    a.write(slice(0) if nothing else ..., 1)
    model[...] = 1
    assert np.array_equal(a.read(), model)
    # Operations that are not collective belong to one rank.
    if not nothing:
        assert a.sum() == model.size and np.sort(a, axis=1).shape == shape
        assert (a == 1)[...].all() and a.astype(dtype)[0].tolist() == [[1] * 5] * 14
        assert np.concatenate([a, a]).shape == (18, 14, 5) and a.lazy[1].T[...].shape == (5, 14)
        held = xa.zeros(shape, dtype)
        held[...] = a
        held[...] = a.astype(dtype)
        assert np.array_equal(held[...], model) and np.array_equal(a.copy()[...], model)
        a.read_direct(out := np.zeros(shape, dtype))
        a.write_direct(out)
        assert a.read(..., collective=False).size == a.flat[:].size
    requests = [a.iread(box(shape, own)) for _ in range(3)]
    assert all((request.wait() == 1).all() for request in requests)
    assert all(request.test() for request in requests)
    comm.Barrier()
    assert a.iwrite(disjoint(shape, comm.rank), 2).wait() is None
    comm.Barrier()
    assert (a.read() == 2).all()
    a.close()


if stage:
    run("C", "i4", (2, 3, 2))
    run("Z", "i4", (4, 4, 8))
else:
    for order in "CFZH":
        run(order, "i4", (2, 3, 2))
    run("C", "u1", (4, 4, 8), fill_value=3)
    run("F", "c16", (1, 1, 1), sparse=True)
    run("C", ">f8", (9, 2, 5))

# Offsets in the file beyond 32 bits.
far = 9 << 30
a = xa.create(
    path, (far,), "u1", chunks=1 << 20, overwrite=True, sparse=True, engine=engine, comm=comm
)  # fmt: skip
a.write(slice(far - 1000 + comm.rank, None, comm.size), comm.rank + 1)
model = np.resize(np.arange(1, comm.size + 1, dtype="u1"), 1000)
assert np.array_equal(a.read(slice(far - 1000, None)), model)
assert np.array_equal(a.read(np.arange(-1000, -1, 3)), model[:-1:3])
a.close()

# Fields of records, and arrays without axes.
kind = np.dtype([("x", "i4"), ("y", "f8", (2,)), ("z", "S3")])
a = xa.create(path, (6, 4), kind, chunks=4, overwrite=True, engine=engine, comm=comm)
a._stage = stage or a._stage
model = np.zeros((6, 4), kind)
a.write("x" if comm.rank == 0 else slice(0), np.int32(5) if comm.rank == 0 else model[:0])
model["x"] = 5
assert np.array_equal(a.read("x"), model["x"])
assert np.array_equal(a.read(["x", "z"]), model[["x", "z"]])
model["z"] = b"abc"
model["y"] = np.arange(48).reshape(6, 4, 2)
if comm.rank == 0:
    a.write(["x", "y"], model[["x", "y"]], collective=False)
    a.write("z", model["z"], collective=False)
comm.Barrier()
assert np.array_equal(a.read(), model)
assert np.array_equal(a.read("y"), model["y"])
a.close()

a = xa.create(path, (), "f4", overwrite=True, engine=engine, comm=comm)
a.write((), 3)
assert a.read().shape == () and a.read() == 3
a.close()

# MPI sees numbers without an MPI type as bytes.
when = np.arange(12).astype("M8[s]").reshape(3, 4)
a = xa.create(path, (3, 4), when.dtype, chunks=2, overwrite=True, engine=engine, comm=comm)
a.write_zone(when[a.zone()])
assert np.array_equal(a.read(), when)
a.close()
