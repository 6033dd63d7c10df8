"""Distributions, sections and products of global arrays, compared with NumPy: PATH."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from mpi4py import MPI

import extarray as xa
from extarray.mpi import GlobalArray

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
path = sys.argv[1]
rng = np.random.default_rng(5)  # equal on all ranks
few = min(size, 2)  # blocks that fit any number of ranks


def filled(model, **cut):
    """Make a global array with the elements of a model."""
    g = GlobalArray.create(model.shape, model.dtype, comm, **cut)
    boxes = g.distribution()
    for box in boxes if isinstance(boxes, list) else [boxes]:
        g.put(box, model[box])
    g.sync()
    return g


def on_last(wrong, right):
    return wrong if rank == size - 1 else right


CUTS = [
    {},
    {"kind": "irregular", "block": [[0, 2][:few], [0, 5] if size == 4 else [0]]},
    {"kind": "irregular", "block": [[0], [0, 7][:few]]},
    {"kind": "irregular", "block": [[0, 0, 5, 30][:size], [0]]},
    {"kind": "block_cyclic", "block": 2},
    {"kind": "block_cyclic", "block": (1, 3), "process_grid": (size, 1)},
    {"kind": "block_cyclic", "block": 1, "chunks": (3, 2)},
]

# -- one-sided access and ownership --------------------------------------------------------------

for cut in CUTS:
    model = rng.integers(0, 99, (11, 8))
    with filled(model, **cut) as g:
        owners = np.full(model.shape, -1)
        for r in range(size):
            zones = g.distribution(r)
            assert isinstance(zones, list) == (cut.get("kind") == "block_cyclic")
            for zone in zones if isinstance(zones, list) else [zones]:
                assert (owners[zone] == -1).all()
                owners[zone] = r
        assert owners.min() >= 0
        assert all(g.locate(index) == owners[index] for index in np.ndindex(model.shape))
        assert g.locate((-1, -1)) == owners[-1, -1]
        for key in (np.s_[:], np.s_[3:10:2, 1:7], np.s_[-4, ::-3]):
            for r, part in g.locate_region(key):
                assert (owners[part] == r).all()
        # The zones of a rank, joined.
        rows, columns = (np.flatnonzero((owners == rank).any(axis)) for axis in (1, 0))
        expected = model[np.ix_(rows, columns)]
        assert np.array_equal(g.access().reshape(expected.shape), expected)
        key = np.s_[1:10:3, ::-2]
        assert np.array_equal(g.get(), model) and np.array_equal(g.get(key), model[key])
        points = rng.integers(0, 8, (20, 2))
        assert np.array_equal(g.gather(points), model[tuple(points.T)])
        g.sync()
        g.accumulate(key, 2)
        g.sync()
        model[key] += 2 * size
        assert np.array_equal(g.get(), model)
        g.sync()
        old = g.read_inc((10, 7), 1)
        assert sorted(comm.allgather(int(old) - model[10, 7])) == list(range(size))
        g.scatter(points[rank::size], 7)
        g.sync()
        model[10, 7] += size
        model[tuple(points.T)] = 7
        assert np.array_equal(g.get(), model)
        # Redistribution, also with growth.
        for other in rng.permutation(CUTS)[:1]:
            chosen = {name: value for name, value in other.items() if name != "chunks"}
            g.distribute(**chosen)
            assert np.array_equal(g.get(), model)
        with g.duplicate() as h:
            assert h.distribution() == g.distribution() and np.array_equal(h.get(), model)
            h.extend(0, 3, "start")
            h.extend(1, 2)
            assert np.array_equal(h.get(), np.pad(model, ((3, 0), (0, 2))))
        with pytest.raises(xa.BoundsError):
            g.locate((11, 0))
        with pytest.raises(xa.ShapeError):
            g.locate(1)

# The cuts of irregular zones stay with their elements.
starts = [[0, 4][:few], [0]]
with GlobalArray.create((10, 3), "f4", comm, 2, 1, kind="irregular", block=starts) as g:
    assert g.process_grid == (few, 1)
    assert g.distribution(0) == (slice(0, 4 if few == 2 else 10), slice(0, 3))
    g.extend(0, 5)
    g.extend(0, 1, "start")
    assert g.distribution(few - 1) == (slice(5 if few == 2 else 0, 16), slice(0, 3))
    g.update_ghosts()
    for kind, block, error in [
        ("block_cyclic", 1, xa.ArgumentError),
        ("irregular", [[0, *range(size)], [0]], xa.ShapeError),
        ("irregular", [[0, 3], [0, 1], [0]], xa.ShapeError),
        ("regular", 1, xa.ArgumentError),
    ]:
        with pytest.raises(error):
            g.distribute(*on_last((kind, block), ("irregular", starts)))
    if size > 1:
        with pytest.raises(xa.ArgumentError, match="the ranks disagree"):
            g.distribute("irregular", [[0, 4 + rank], [0]])
with pytest.raises(xa.ArgumentError, match="ghosts need one zone"):
    GlobalArray.create((10, 3), "f4", comm, ghosts=1, kind="block_cyclic")

# -- element by element --------------------------------------------------------------------------

shape = (6, 9)
for left, right in [*zip(CUTS, CUTS[2:] + CUTS[:2], strict=True), (CUTS[5], CUTS[5])]:
    x, y = rng.random(shape), rng.random(shape)
    with filled(x, **left) as g, filled(y, **right) as h:
        g.apply(np.maximum, g, h)
        x = np.maximum(x, y)
        assert np.array_equal(g.get(), x)
        g.sync()
        g.apply(lambda a, b, c: a / b + c, g, h, 2)
        x = x / y + 2
        assert np.array_equal(g.get(), x)
        assert np.isclose(g.dot(h), (x * y).sum())
        h.copy_to(g)
        g.add(2, g, -1, h)
        assert np.allclose(g.get(), y)
        g.sync()
        # A function may return elements of other ranks: they are copied before they change.
        g.section(np.s_[::-1]).apply(lambda a: a, g)
        assert np.allclose(g.get(), y[::-1])

for cut, (key, other) in itertools.product(
    CUTS[1::4],
    [
        (np.s_[1:5, 2:8], np.s_[::-1, 3:9]),
        (np.s_[::2, ::-4], np.s_[1:4, :3]),
        (np.s_[3], np.s_[4, ::-1]),
        (np.s_[:, -2], np.s_[..., 0]),
        (np.s_[2, 3], np.s_[0, 0]),
        (np.s_[4:4], np.s_[:0]),
    ],
):
    x, y = rng.integers(1, 9, shape), rng.integers(1, 9, shape)
    with filled(x, **cut) as g, filled(y, kind="block_cyclic") as h:
        part = g.section(key)
        if part.shape != h.section(other).shape:
            other = tuple(slice(0, n) for n in part.shape)
        assert part.shape == x[key].shape and part.dtype == x.dtype
        part.fill(5)
        x[key] = 5
        assert np.array_equal(g.get(), x)
        g.sync()
        part.scale(3)
        part.apply(np.subtract, part, h.section(other))
        x[key] = 15 - y[other]
        assert np.array_equal(g.get(), x)
        assert part.dot(h.section(other)) == (x[key] * y[other]).sum()
        h.section(other).copy_to(part)
        x[key] = y[other]
        part.add(2, h.section(other), 1, part)
        x[key] = 2 * y[other] + x[key]
        assert np.array_equal(g.get(), x)
        g.sync()
        part.zero()
        x[key] = 0
        assert np.array_equal(g.get(), x)
        g.sync()
        part.T.apply(np.add, h.section(other).T, 1)
        x[key] = y[other] + 1
        assert np.array_equal(g.get(), x)

with filled(rng.random((5, 5)), kind="block_cyclic") as g:
    x = g.get()
    g.sync()
    g.apply(np.add, g, g.T)
    assert np.array_equal(g.get(), x + x.T)
    g.sync()
    g.section(np.s_[:, 0]).transpose(g.section(np.s_[2]))
    x = x + x.T
    x[:, 0] = x[2]
    assert np.array_equal(g.get(), x)
    with GlobalArray.create((5, 5), "i4", comm) as whole:
        for call, error in [
            (lambda: g.apply(np.add, g, on_last(g.section(0), g)), xa.ShapeError),
            (lambda: g.apply(np.add, g, on_last(np.ones(5), 1)), xa.ShapeError),
            (lambda: g.apply(on_last(5, np.add), g, g), xa.ArgumentTypeError),
            (lambda: g.apply(lambda a: a.sum(0), g), xa.ShapeError),
            (
                lambda: g.apply(on_last(lambda a: 1 // (rank - rank), lambda a: a), g),
                ArithmeticError,
            ),
            (lambda: whole.apply(np.sqrt, whole), xa.CastingError),
            (lambda: whole.matmul(g, whole), xa.CastingError),
            (lambda: g.matmul(on_last(g.section(0), g), g), xa.ShapeError),
            (lambda: g.matmul(g, on_last(g.section(np.s_[:3]), g)), xa.ShapeError),
            (lambda: g.matmul(g, on_last(5, g)), xa.ArgumentTypeError),
        ]:
            with pytest.raises(error):
                call()
    if size > 1:
        for call in (
            lambda: g.apply(on_last(np.add, np.subtract), g, 1),
            lambda: g.section(on_last(0, 1)).fill(1),
            lambda: g.apply(np.add, g, on_last(2, 1)),
            lambda: g.copy_to(g.section(on_last(np.s_[::-1], np.s_[:]))),
        ):
            with pytest.raises(xa.ArgumentError, match="the ranks disagree"):
                call()
    assert np.array_equal(g.get(), x)
    part = g.section(np.s_[1:])
    assert repr(part).startswith("<extarray.mpi.GlobalSection: shape (4, 5), of <extarray.mpi.Glob")
    for call, error in [
        (lambda: np.asarray(part), xa.ArgumentTypeError),
        (lambda: g.section([0, 1]), xa.SelectionError),
        (lambda: g.section((0, None)), xa.SelectionError),
        (lambda: g.section(5), xa.BoundsError),
    ]:
        with pytest.raises(error):
            call()
    g.sync()
    g.extend(0, 1)
    with pytest.raises(xa.ArgumentError, match="make a new section"):
        part.fill(0)

# -- products ------------------------------------------------------------------------------------

for a, b, c in zip(CUTS, CUTS[3:] + CUTS[:3], CUTS[4:] + CUTS[:4], strict=True):
    x, y, z = rng.random((11, 300)), rng.random((300, 8)), rng.random((11, 8))
    with filled(x, **a) as left, filled(y, **b) as right, filled(z, **c) as g:
        g.matmul(left, right)
        assert np.allclose(g.get(), x @ y)
        g.sync()
        g.matmul(left, right, alpha=-0.5, beta=2)
        assert np.allclose(g.get(), 1.5 * (x @ y))
        g.sync()
        # Sections and transposes, also of the array that receives the product.
        g.section(np.s_[1:9:2, ::-1]).matmul(left.section(np.s_[::-3]), right)
        expected = 1.5 * (x @ y)
        expected[1:9:2, ::-1] = x[::-3] @ y
        assert np.allclose(g.get(), expected)
        g.sync()
        g.T.matmul(right.T, left.T)
        assert np.allclose(g.get(), x @ y)
        g.sync()
        g.section(np.s_[:8, :4]).matmul(g.section(np.s_[:3]).T, left.section(np.s_[:3, :4]))
        expected = x @ y
        expected[:8, :4] = expected[:3].T @ x[:3, :4]
        assert np.allclose(g.get(), expected)

model = rng.integers(0, 9, (3, 4, 5), dtype="i4")
with (
    filled(model) as cube,
    filled(model[0].T.copy()) as other,
    GlobalArray.create((4, 4), "f8", comm) as g,
):
    g.matmul(cube.section(1), other)
    assert np.array_equal(g.get(), model[1] @ model[0].T)
    g.sync()
    g.matmul(cube.section(np.s_[1, :, :0]), other.section(np.s_[:0]), beta=1)
    assert np.array_equal(g.get(), model[1] @ model[0].T)
    g.sync()
    cube.section(np.s_[:, 2]).matmul(cube.section(np.s_[:, 1, :2]), cube.section(np.s_[0, :2]))
    model[:, 2] = model[:, 1, :2] @ model[0, :2]
    assert np.array_equal(cube.get(), model)

# -- files ---------------------------------------------------------------------------------------

model = rng.random((10, 12))
for engine in ("mpi-io", "mmap"):
    with xa.create(path + engine, (10, 12), chunks=(2, 3), comm=comm, engine=engine) as a:
        a.distribute("irregular", [[0, 3, 8, 9][:size], [0]])
        ends = [*[0, 3, 8, 9][:size], 10]
        assert [a.zone(r)[0] for r in range(size)] == [
            slice(*pair) for pair in itertools.pairwise(ends)
        ]
        local = model[a.zone()]
        a.write_zone(local)
        assert np.array_equal(a.read(), model) and np.array_equal(a.read_zone(), local)
        a.iwrite_zone(2 * local).wait()
        comm.Barrier()
        assert np.array_equal(a.iread_zone("F").wait(), 2 * local)
        assert [a.owner((i, 0)) for i in range(10)] == [
            r for r in range(size) for _ in range(ends[r], ends[r + 1])
        ]
        # Growth: each rank has a part of the new elements, and the cuts stay in place.
        part = a.zone_of_growth(0, 4)
        a.append_zone(np.ones([s.stop - s.start for s in part]), 0, 4)
        a.append(np.zeros((1, 12)))
        a.extend(0, 2, "start")
        assert a.zone(0)[0].start == 0 and a.zone(size - 1)[0].stop == len(a) == 17
        assert [a.zone(r)[0].stop for r in range(size - 1)] == [2 + end for end in ends[1:-1]]
        a.resize((6, 12))
        assert sum(s.stop - s.start for s in (a.zone(r)[0] for r in range(size))) == 6
        a.resize((17, 12))
        expected = np.zeros((17, 12))
        expected[2:6] = 2 * model[:4]
        assert np.array_equal(a.read(), expected)
        a.write(slice(None), expected + 1)
        for cut in (("irregular", [[0, 5, 5][:size], [0]]), ("block_cyclic", 2), ("block", 1)):
            a.distribute(*cut)
            with GlobalArray.from_array(a) as g:
                assert g.distribution() == a.zone()
                assert np.array_equal(g.get(), expected + 1)
                g.sync()
                g.access()[...] *= 2
                g.to_array(a)
                assert np.array_equal(a.read(), 2 * (expected + 1))
                g.scale(0.5)
                g.to_array(a)
        a.distribute("block_cyclic")
        with GlobalArray.from_array(a, ghosts=1) as g:
            assert not isinstance(g.distribution(), list)
            assert np.allclose(g.get(), expected + 1)
        with pytest.raises(xa.ShapeError, match="ranks, but there are"):
            a.distribute("irregular", [list(range(size + 1)), [0]])
