"""Global arrays compared with NumPy: PATH NEAR (number of ranks that share memory with each)."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from mpi4py import MPI

import extarray as xa
from extarray.mpi import GlobalArray

comm = MPI.COMM_WORLD
path = sys.argv[1]
rng = np.random.default_rng(5)
rank, size = comm.rank, comm.size

with GlobalArray.create(size, "i8", comm) as g:
    assert len(g._window.near) == int(sys.argv[2]) or MPI.get_vendor()[0] != "MPICH"


def selection(shape):
    """Return slices with any steps, and integers; the same on all ranks."""
    key = []
    for n in shape:
        first, last = sorted(rng.integers(0, n + 1, 2).tolist())
        step = int(rng.choice([1, 1, 2, 3]))
        choice = rng.integers(5)
        if choice == 0 and n:
            key.append(int(rng.integers(-n, n)))
        elif choice == 1:
            key.append(slice(None, None, -step))
        elif choice == 2:
            key.append(slice(None))
        else:
            key.append(slice(first, last, step))
    return tuple(key)


# Every rank gets, puts and accumulates anywhere; puts happen one rank at a time.
for shape, dtype, chunks in [
    ((7, 10), "i8", None),
    ((5, 4, 6), "f8", (2, 2, 2)),
    ((3,), "c16", None),
    ((9, 2), "u2", 2),
    ((0, 3), "f4", None),
]:
    with GlobalArray.create(shape, dtype, comm, chunks) as g:
        model = np.zeros(shape, dtype)
        assert (g.get() == 0).all()
        g.sync()
        zones = np.zeros(shape, int)
        for r in range(size):
            zones[g.distribution(r)] += 1
        assert (zones == 1).all()
        for turn in range(12):
            key = selection(shape)
            values = rng.integers(0, 50, model[key].shape).astype(dtype)
            if rank == turn % size:
                g.put(key, values)
                model[key] = values
                assert np.array_equal(g.get(key), model[key])  # visible to itself at once
            model[key] = values
            g.sync()
            assert np.array_equal(g.get(), model)
            key = selection(shape)
            assert np.array_equal(g.get(key), model[key])
            assert g.get(key).shape == model[key].shape
            g.sync()
            # Simultaneous additions: none is lost.
            key = selection(shape)
            g.accumulate(key, rank + 1, alpha=2)
            model[key] += np.array(size * (size + 1)).astype(dtype)
            g.sync()
            assert np.array_equal(g.get(), model), (key, turn)
            g.sync()
        g.access()[...] += np.array(rank).astype(dtype)
        for r in range(size):
            model[g.distribution(r)] += np.array(r).astype(dtype)
        g.sync()
        assert np.array_equal(g.get(), model)
        g.sync()
        g.fill(3)
        assert (g.get() == 3).all()
        g.sync()

# Tickets: each number goes to one rank.
with GlobalArray.create((4, 4), "i8", comm) as g:
    mine = [int(g.read_inc((3, 1))) for _ in range(20)]
    found = np.concatenate(comm.allgather(mine))
    assert sorted(found) == list(range(20 * size))
    g.sync()
    assert g.get((3, 1)) == 20 * size
    g.sync()
    assert g.read_inc((0, 0), 0) == 0
    with pytest.raises(xa.SelectionError):
        g.read_inc(0)

# Collective operations, also between arrays with different zones.
shape = (6, 8)
left, right = rng.random(shape), rng.random(shape)
g, h = (GlobalArray.create(shape, "f8", comm, grid) for grid in (None, (4, 4)))
t = GlobalArray.create(shape[::-1], "f8", comm)
g.access()[...] = left[g.distribution()]
h.access()[...] = right[h.distribution()]
assert np.isclose(g.dot(h), (left * right).sum())
g.add(2, g, -1, h)
g.scale(3)
left = 3 * (2 * left - right)
assert np.allclose(g.get(), left)
t.transpose(g)
assert np.allclose(t.get(), left.T)
g.copy_to(h)
copy = h.duplicate()
h.zero()
assert np.allclose(copy.get(), left) and (h.get() == 0).all()
assert copy.distribution() == h.distribution()


def on_last(wrong, right):
    return wrong if rank == size - 1 else right


# An error found by one rank is raised by all, and nothing changes.
copy.destroy()
alone = GlobalArray.create(shape, "f8", MPI.COMM_SELF)
twin = GlobalArray.create(shape, "f8", comm)
for call, error in [
    (lambda: g.add(1, on_last(t, g), 1, h), xa.ShapeError),
    (lambda: g.add(1, h, 1, on_last(None, g)), xa.ArgumentTypeError),
    (lambda: g.add(1, h, 1, on_last(copy, g)), xa.ClosedError),
    (lambda: g.add(on_last([1, 2], 1), h, 1, g), xa.ShapeError),
    (lambda: g.add(1, h, on_last(None, 1), g), (TypeError, xa.ArgumentError)),
    (lambda: g.dot(on_last(t, g)), xa.ShapeError),
    (lambda: g.dot(on_last(5, g)), xa.ArgumentTypeError),
    (lambda: g.copy_to(on_last(t, h)), xa.ShapeError),
    (lambda: g.copy_to(on_last("h", h)), xa.ArgumentTypeError),
    (lambda: t.transpose(on_last(t, g)), xa.ShapeError),
    (lambda: t.transpose(on_last(5, g)), xa.ArgumentTypeError),
    (lambda: g.scale(on_last(np.ones((2, 1)), 1)), xa.ShapeError),
    (lambda: g.scale(on_last(1j, 2)), (xa.CastingError, xa.ArgumentError)),
    (lambda: g.fill(on_last(1j, 2)), xa.CastingError),
    (lambda: g.fill(on_last([1, 2], 2)), xa.ShapeError),
    (lambda: g.to_array(on_last(5, None)), xa.ArgumentTypeError),
]:
    with pytest.raises(error):
        call()
if size > 1:
    for call, words in [
        (
            lambda: g.fill(rank),
            r"fill with np.float64\(0.0\), rank 1 to fill with np.float64\(1.0\)",
        ),
        (lambda: g.scale(rank), "scale by"),
        (lambda: g.add(rank, g, 1, g), "add"),
        (lambda: g.add(1, g, rank, g), "add"),
        (lambda: g.scale(2) if rank else g.zero(), "rank 0 asks to zero, rank 1 to scale by"),
        (lambda: g.copy_to(on_last(h, twin)), "copy to global array"),
        (lambda: g.add(1, on_last(h, twin), 1, g), "add global array"),
        (lambda: g.dot(on_last(h, twin)), "dot global array"),
        (lambda: t.transpose(on_last(h, g)), "transpose global array"),
        (lambda: g.copy_to(alone), "different ranks"),
        (lambda: g.update_ghosts(on_last(False, True)), "wrap False"),
    ]:
        with pytest.raises(xa.ArgumentError, match=words):
            call()
with pytest.raises(ValueError, match="ambiguous"):
    g.update_ghosts(on_last(np.ones(2), True))
for array in (twin, alone):
    array.destroy()
assert np.allclose(g.get(), left) and np.allclose(t.get(), left.T) and not h.get().any()

# No fraction is lost silently.
with GlobalArray.create(shape, "i4", comm) as whole:
    whole.fill(np.int64(3))
    for call, error in [
        (lambda: whole.fill(2.7), xa.CastingError),
        (lambda: whole.fill(1 << 31), xa.LimitError),
        (lambda: whole.scale(0.5), xa.CastingError),
        (lambda: whole.add(0.5, whole, 1, whole), xa.CastingError),
        (lambda: whole.add(1, whole, 1, g), xa.CastingError),
        (lambda: g.copy_to(whole), xa.CastingError),
    ]:
        with pytest.raises(error):
            call()
    assert (whole.get() == 3).all()
    whole.sync()
    whole.scale(np.int64(2))
    whole.add(2, whole, True, whole)
    whole.copy_to(h)
    assert (h.get() == 18).all()
for array in (g, h, t):
    array.destroy()

# Sums of small integers have large types.
for dtype, sums in [("i1", "i8"), ("u2", "u8"), ("u8", "u8"), ("f4", "f4"), ("?", "?")]:
    with GlobalArray.create((6, 8), dtype, comm) as g:
        if dtype == "?":
            with pytest.raises(xa.CastingError):
                g.fill(1)
        g.fill(True if dtype == "?" else 100)
        assert g.dot(g) == (True if dtype == "?" else 480_000) and g.dot(g).dtype == sums

# Reading from files, and writing back.
shape = (11, 13)
model = np.arange(143, dtype="f8").reshape(shape)
with xa.create(path, shape, chunks=(2, 3), comm=comm) as a:
    a.write_zone(model[a.zone()])
    with GlobalArray.from_array(a) as g:
        assert g.distribution() == a.zone() and g.chunks == a.chunks
        assert np.array_equal(g.get(), model)
        g.sync()
        g.access()[...] *= 2
        g.to_array(a)
        with xa.create(path + "i", shape, "i4", comm=comm) as whole, pytest.raises(xa.CastingError):
            g.to_array(whole)
        with xa.create(path + "n", (2, 2), comm=comm) as small, pytest.raises(xa.ShapeError):
            g.to_array(on_last(small, a))
        if size > 1:
            # Nobody would write the zones of other ranks.
            with (
                xa.create(f"{path}-{rank}", shape, comm=MPI.COMM_SELF) as own,
                pytest.raises(xa.ArgumentError, match="other ranks"),
            ):
                g.to_array(on_last(own, a))
            with (
                xa.create(path + "s", shape, comm=comm) as second,
                pytest.raises(xa.ArgumentError, match="the ranks disagree"),
            ):
                g.to_array(on_last(second, a))
        with pytest.raises(xa.ClosedError):
            g.to_array(on_last(small, a))
        turned = comm.Split(0, -rank)
        with xa.create(path + "t", shape, chunks=1, comm=turned) as other:
            g.to_array(other)
            assert np.array_equal(other.read(), 2 * model)
        turned.Free()
    assert np.array_equal(a.read(), 2 * model)
    # Zones equal the array's, even if chunks do not begin at index 0, and stay equal.
    a.distribute("block", process_grid=(1, size))
    a.extend(1, 4, "start")
    with GlobalArray.from_array(a, ghosts=1) as g, g.duplicate() as h:
        assert g.distribution() == h.distribution() == a.zone()
        a.extend(1, 1, "start")
        a.extend(0, 2)
        for array in (g, h):
            array.extend(1, 1, "start")
            array.extend(0, 2)
            assert array.distribution() == a.zone()
            assert np.array_equal(array.get(), a.read())
    a.distribute("block_cyclic")
    with GlobalArray.from_array(a) as g:
        assert np.array_equal(g.get(), a.read())

# Errors.
with (
    pytest.raises(xa.ArgumentError, match="the ranks disagree")
    if size > 1
    else pytest.raises(xa.ShapeError)
):
    GlobalArray.create((4, 4) if rank else (4, -1 if size == 1 else 5), "i8", comm)
with pytest.raises(xa.ArgumentError, match="at least one axis"):
    GlobalArray.create((), "i8", comm)
g = GlobalArray.create((4, 4), "M8[s]", comm)
g.put(0, np.datetime64("2026-01-01"))
assert g.get((0, 0)) == np.datetime64("2026-01-01")
with pytest.raises(xa.DTypeError):
    g.accumulate(0, 1)
with pytest.raises(xa.BoundsError):
    g.get(4)
for lists in ([0, 1], [], (0, [])):
    with pytest.raises(xa.SelectionError, match="only integers and slices"):
        g.get(lists)
with pytest.raises(xa.ShapeError):
    g.put(0, np.zeros(3, "M8[s]"))
with pytest.raises(xa.BoundsError):
    g.distribution(size)
with pytest.raises(xa.ArgumentTypeError, match=r"get\(\).*access\(\)"):
    np.asarray(g)
for wrong in (xa.zeros((2, 2)), np.zeros(2), 5):
    with pytest.raises(xa.ArgumentTypeError, match="comm="):
        GlobalArray.from_array(wrong)
assert (len(g), g.ndim, g.size, g.nbytes) == (4, 2, 16, 128)
first, second = (f"{s.start}:{s.stop}" for s in g.distribution())
words = "<extarray.mpi.GlobalArray: shape (4, 4), datetime64[s], "
assert repr(g) == f"{words}zone ({first}, {second}), rank {rank} of {size}>"
g.destroy()
g.destroy()
assert repr(g) == f"{words}destroyed>"
for call in (g.get, g.access, g.distribution, g.sync, g.zero):
    with pytest.raises(xa.ClosedError):
        call()
