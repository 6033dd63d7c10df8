"""One-sided operations compared with NumPy: elements, points, requests, mutexes, ghosts, growth."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

import extarray as xa
from extarray.mpi import GlobalArray, Mutexes

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
rng = np.random.default_rng(7)  # equal on all ranks

# -- concurrent additions to elements of all types -----------------------------------------------

codes = {np.dtype(code).char for code in np.typecodes["AllInteger"] + np.typecodes["AllFloat"]}
for dtype in sorted(codes - {"e"}):
    with GlobalArray.create((5, 6), dtype, comm, ghosts=(1, 0)) as g:
        model = np.zeros((5, 6), dtype)
        values = rng.integers(0, 20, (5, 6)).astype(dtype)
        whole = [1, -1, 2] if values.dtype.kind in "iu" else [0.5, -1, True]
        factors = [*whole, 1 - 2j] if values.dtype.kind == "c" else whole
        for alpha in factors:
            g.accumulate((slice(None, None, -2), slice(1, 5)), values[::2, 2:], alpha)
            term = values[::2, 2:] * np.array(alpha).astype(dtype)
            for _ in range(size):
                model[::-2, 1:5] += term
        g.sync()
        assert np.allclose(g.get(), model) and g.get().dtype == dtype
        g.sync()
        old = g.read_inc((4, 5), 3)
        assert old.dtype == dtype
        assert sorted(comm.allgather(old - model[4, 5])) == [3 * r for r in range(size)]

# MPI has types for some of these, but does not add their elements, or adds them wrongly.
for dtype in ("e", "?", ">i4", "S3", "m8[s]"):
    with GlobalArray.create((3, 4), dtype, comm) as g:
        for add in (
            lambda g: g.accumulate(0, 1),
            lambda g: g.scatter_acc([(0, 0)], 1),
            lambda g: g.read_inc((0, 0)),
        ):
            with pytest.raises(xa.DTypeError):
                add(g)

with GlobalArray.create((3, 4), "i4", comm) as g:
    for alpha in (0.5, 1j, "2", [1, 2]):
        with pytest.raises(xa.CastingError):
            g.accumulate(0, 1, alpha)
    with pytest.raises(xa.ShapeError):
        g.accumulate(0, [1, 2, 3])
    for values in (0.5, [1, 0.5, 1, 1], np.ones(4), np.ones(4, "m8[s]"), 1j, "2"):
        with pytest.raises(xa.CastingError):
            g.accumulate(0, values)
        with pytest.raises(xa.CastingError):
            g.scatter_acc([(0, 0)] * 4, values)
    for inc, error in [
        ([], xa.ShapeError),
        ([7, 8], xa.ShapeError),
        (0.5, xa.CastingError),
        ("2", xa.CastingError),
        (1 << 31, OverflowError),
        (np.int64(-1 - (1 << 31)), xa.LimitError),
        (1 << 90, xa.LimitError),
    ]:
        with pytest.raises(error):
            g.read_inc((0, 0), inc)
    g.sync()
    assert not g.get().any()
    g.sync()
    g.accumulate(0, np.ones(4, "i8"))
    g.accumulate(0, [True, 1, np.uint8(1), np.int64(1)])
    g.sync()
    assert (g.get(0) == 2 * size).all()
    for out, error in [
        ([0], xa.ArgumentTypeError),
        (np.zeros(4, "i4"), xa.ShapeError),
        (np.zeros((3, 4), "i2")[:, :0], xa.ShapeError),
        (np.zeros((3, 4), "u4"), xa.CastingError),
        (np.broadcast_to(np.zeros((), "i4"), (3, 4)), xa.ReadOnlyError),
    ]:
        with pytest.raises(error):
            g.get(out=out)

# -- results and values in the array itself ------------------------------------------------------

with GlobalArray.create((8, 9), "i4", comm) as g:
    model = np.arange(72, dtype="i4").reshape(8, 9)
    g.access()[...] = model[g.distribution()]
    g.sync()
    for out in (np.empty((8, 9), "i4"), np.empty((9, 8), "i4").T, np.empty((8, 18), "f8")[:, ::2]):
        assert g.get(out=out) is out
        assert np.array_equal(out, model)
    out = np.empty((4, 1), "i4")
    assert np.array_equal(g.get((slice(None, None, -2), 3, None), out), model[::-2, 3, None])
    g.sync()
    if rank == 0:
        # Values that are part of the array itself are read before they change.
        mine = g.access()
        n, m = len(mine) - (len(mine) == 8), mine.shape[1]
        g.put(np.s_[1 : 1 + n, :m], mine[:n])
        model[1 : 1 + n, :m] = model[:n, :m].copy()
        assert np.array_equal(g.get(), model)

# Results may go to elements of the array itself, even to those being read.
with GlobalArray.create((4, 5 * size), "i4", comm, process_grid=(1, size)) as g:
    model = np.arange(20 * size, dtype="i4").reshape(4, -1)
    whole, first = np.s_[:, 5 * rank : 5 * rank + 5], 5 * rank
    for read in (g.get, lambda key, out: g.iget(key, out).wait()):
        for key, place in [
            ((slice(None, None, -1), whole[1]), np.s_[:, :]),
            (np.s_[:3, first : first + 5], np.s_[1:, :]),
            (np.s_[:, first + 4 : None if not first else first - 1 : -1], np.s_[:, :]),
            (np.s_[:, max(first - 2, 0) : max(first - 2, 0) + 4], np.s_[:, 1:]),
        ]:
            mine = g.access()
            mine[...] = model[whole]
            g.sync()
            out = mine[place]
            reads = size == 1 or rank % 2  # no rank writes where another reads
            if reads:
                assert read(key, out) is out
                assert np.array_equal(out, model[key])
            g.sync()

# Parts for several ranks, too large for MPI to buffer.
with GlobalArray.create((400, 600), "f8", comm, process_grid=(1, size)) as g:
    model = rng.random((400, 600))
    if rank == size - 1:
        g.put(..., model.T.copy().T)
        assert np.array_equal(g.get(), model)
    g.sync()
    g.accumulate(..., model[:, ::-1])
    g.sync()
    assert np.allclose(g.get(), model + size * model[:, ::-1])

# -- points --------------------------------------------------------------------------------------

for shape, chunks in [((7, 5), None), ((4, 3, 6), 2), ((11,), None)]:
    with GlobalArray.create(shape, "i8", comm, chunks, ghosts=1) as g:
        model = np.zeros(shape, "i8")
        for turn in range(3 * size):
            points = rng.integers(-np.array(shape), shape, (15, len(shape)))
            values = rng.integers(0, 1000, 15)
            index = tuple(points.T)
            if turn % size == rank:
                g.scatter(points, values)
                for place, value in zip(points % shape, values, strict=True):
                    model[tuple(place)] = value
                assert np.array_equal(g.gather(points), model[index])  # visible to itself at once
            g.sync()
            model = comm.bcast(model, turn % size)
            assert np.array_equal(g.gather(points), model[index])
            g.sync()
            g.scatter_acc(points, values, alpha=rank + 1)
            np.add.at(model, index, values * sum(range(size + 1)))
            g.sync()
            assert np.array_equal(g.get(), model)
            g.sync()
        nothing = np.empty((0, len(shape)), int)
        g.scatter(nothing, 1)
        g.scatter_acc(nothing, 1)
        assert g.gather(nothing).shape == (0,)
        with pytest.raises(xa.BoundsError, match="out of bounds for axis 0"):
            g.gather([shape])
        with pytest.raises(xa.ShapeError):
            g.gather(0)
        with pytest.raises(xa.SelectionError):
            g.gather(np.zeros((1, len(shape))))
        with pytest.raises(xa.ShapeError):
            g.scatter(points, [1, 2])

# -- requests ------------------------------------------------------------------------------------

with GlobalArray.create((6, 6), "f8", comm) as g:
    mine = np.full(6, rank + 1.0)
    if rank < 6:
        requests = [g.iput((rank, slice(None)), mine)]
        requests[0].wait()
        assert np.array_equal(g.get(rank), mine)  # visible to itself at once
    g.sync()
    requests = [g.iaccumulate((slice(None), 2), 1.0, alpha=k) for k in range(5)]
    for request in requests:
        while not request.test():
            pass
        assert request.wait() is None
    g.sync()
    model = np.repeat(np.where(np.arange(6) < size, np.arange(6) + 1.0, 0), 6).reshape(6, 6)
    model[:, 2] += 10 * size
    out = np.empty((3, 6))
    requests = [g.iget(), g.iget(np.s_[::2], out), g.iget((5, 2))]
    found = [request.wait() for request in requests]
    assert np.array_equal(found[0], model) and np.array_equal(found[1], model[::2])
    assert found[1] is out and found[2] == model[5, 2]
    assert requests[0].test() and requests[0].wait() is found[0]

# -- mutexes -------------------------------------------------------------------------------------

with GlobalArray.create(3, "i8", comm) as g, g.create_mutexes(3) as mutexes:
    for turn in range(12):
        with mutexes.held(turn % 3):
            g.put(turn % 3, g.get(turn % 3) + 1)  # lost unless ranks take turns
    g.sync()
    assert g.get().tolist() == [4 * size] * 3
    with pytest.raises(xa.ArgumentError, match="does not hold"):
        mutexes.unlock(0)
    with pytest.raises(xa.BoundsError):
        mutexes.lock(3)
    comm.Barrier()
    if rank == 0:
        mutexes.lock(1)  # `destroy` unlocks it
        with pytest.raises(xa.ArgumentError, match="already"):
            mutexes.lock(1)
with pytest.raises(xa.ArgumentError):
    Mutexes.create(0, comm)
with pytest.raises(xa.ClosedError):
    mutexes.lock(0)

# -- ghosts --------------------------------------------------------------------------------------

for shape, widths, chunks in [
    ((7, 5), 1, None),
    ((6, 9), (2, 0), 2),
    ((4, 3, 5), (1, 0, 2), None),
    ((3,), 4, None),
    ((1, 6), (3, 1), 3),
]:
    model = rng.random(shape)
    with GlobalArray.create(shape, "f8", comm, chunks, widths) as g:
        pads = [(w, w) for w in g.ghosts]
        g.access()[...] = model[g.distribution()]
        zone = g.distribution()
        padded = tuple(slice(s.start, s.stop + 2 * w) for s, w in zip(zone, g.ghosts, strict=True))
        is_empty = any(s.start == s.stop for s in zone)
        own = g.access(ghosts=True)
        g.update_ghosts(wrap=False)
        if not is_empty:
            assert np.array_equal(own, np.pad(model, pads)[padded])
        g.update_ghosts()
        if not is_empty:
            assert np.array_equal(own, np.pad(model, pads, "wrap")[padded])
        g.scale(2)
        assert np.array_equal(g.get(), 2 * model)
        with g.duplicate() as copy:
            assert copy.ghosts == g.ghosts and copy.distribution() == zone
            assert np.array_equal(copy.get(), 2 * model)

for ghosts in (-1, (1,), (1, 2, 3)):
    with pytest.raises(xa.ShapeError):
        GlobalArray.create((4, 4), "f8", comm, ghosts=ghosts)

# -- growth --------------------------------------------------------------------------------------

for shape, chunks, ghosts in [((3, 4), None, None), ((5, 2), 2, 1), ((0, 3), None, 1)]:
    model = rng.integers(0, 100, shape)
    g = GlobalArray.create(shape, "i8", comm, chunks, ghosts)
    g.access()[...] = model[g.distribution()]
    for axis, by, side in [(0, 2, "end"), (-1, 3, "start"), (1, 0, "end"), (0, 5, "start")]:
        g.extend(axis, by, side)
        pads = [(0, 0), (0, 0)]
        pads[axis] = (by, 0) if side == "start" else (0, by)
        model = np.pad(model, pads)
        assert g.shape == model.shape
        assert np.array_equal(g.get(), model)
        g.sync()
        g.access()[...] += 1
        model += 1
    with pytest.raises(xa.AxisError):
        g.extend(2, 1)
    with pytest.raises(xa.ArgumentError):
        g.extend(0, -1)
    with pytest.raises(xa.ArgumentError):
        g.extend(0, 1, "left")
    if size > 1:
        with pytest.raises(xa.ArgumentError, match="the ranks disagree"):
            g.extend(0, rank)
    with pytest.MonkeyPatch.context() as patch:
        if rank == size - 1:  # the others learn of it
            patch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=1, f_frsize=8))
        with pytest.raises(xa.ReserveError, match="has 8"):
            g.extend(1, 1)
    g.sync()
    assert np.array_equal(g.get(), model)
    g.destroy()
