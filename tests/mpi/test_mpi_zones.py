"""Zones, and the parts of transfers: pure functions without MPI."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from factory import Factory
from hypothesis import given
from hypothesis import strategies as st
from orders import NEW, new_orders
from zoning import distributions

import extarray as xa
from extarray._core._history import mark_of
from extarray.common.limits import limits
from extarray.mpi.file_parts import FileLayout, query_jobs
from extarray.mpi.file_views import Rounds
from extarray.mpi.zones import Distribution, Zones, default_process_grid
from extarray.selection.brackets import as_query

FIGURE_1 = {
    "extensions": [[1, 1], [0, 1], [0, 1], [1, 1], [0, 1], [1, 1], [0, 1]],
    "zones": [
        [0, 1, 2, 3, 4, 5],
        [6, 7, 8, 12, 13, 14],
        [9, 10, 16, 17],
        [11, 15, 18, 19],
    ],
    "places": [[0, 1, 2, 3, 4, 5], [0, 2, 4, 1, 3, 5], [0, 1, 2, 3], [0, 1, 2, 3]],
}


@pytest.fixture(scope="session")
def mmap_disk(tmp_path_factory):
    return Factory("mmap", tmp_path_factory.mktemp("parts"))


def figure_1():
    """Return the array of drxmp2009, figure 1: 10 x 12 elements in chunks of 2 x 3."""
    a = xa.create(None, (2, 3), "i4", chunks=(2, 3))
    for axis, by in FIGURE_1["extensions"]:
        a.extend(axis, by * a.chunks[axis])
    return a


@pytest.mark.parametrize("rank", range(4))
def test_zones_of_the_published_figure(rank):
    a = figure_1()
    block = Distribution.of("block", 1, None, 2, 4)
    zones = Zones(block, (0, 0), a.shape, (0, 0), a.chunks, 4)
    assert zones.process_grid == (2, 2)
    (zone,) = zones.of(rank)
    chunks = [range(s.start // c, s.stop // c) for s, c in zip(zone, a.chunks, strict=True)]
    addresses = a.axial.addresses(list(itertools.product(*chunks)))
    # File order, and the place of each chunk in the memory of the zone.
    assert sorted(addresses.tolist()) == FIGURE_1["zones"][rank]
    assert np.argsort(addresses).tolist() == FIGURE_1["places"][rank]


def test_the_figure_is_that_of_the_format():
    """The figure's addresses equal those of the growth history, chunk by chunk."""
    addresses = [[0, 1, 6, 12], [2, 3, 7, 13], [4, 5, 8, 14], [9, 10, 11, 15], [16, 17, 18, 19]]
    a = figure_1()
    assert a.axial.addresses(list(np.ndindex(5, 4))).reshape(5, 4).tolist() == addresses


@pytest.mark.parametrize(
    ("grid", "ranks", "processes"),
    [
        ((5, 4), 4, (2, 2)),
        ((100, 1), 4, (4, 1)),
        ((1, 1, 64), 4, (1, 1, 4)),
        ((3, 3), 1, (1, 1)),
        ((0, 4), 3, (1, 3)),
        ((8, 9), 6, (2, 3)),
        ((7,), 12, (12,)),
    ],
)
def test_default_process_grid(grid, ranks, processes):
    assert default_process_grid(grid, ranks) == processes


@st.composite
def cases(draw):
    """Draw a distribution, bounds, and the number of ranks."""
    ndim = draw(st.integers(1, 3))
    numbers = st.lists(st.integers(0, 9), min_size=ndim, max_size=ndim)
    low, extent, offset = draw(numbers), draw(numbers), draw(numbers)
    chunks = draw(st.lists(st.integers(1, 4), min_size=ndim, max_size=ndim))
    ranks = draw(st.integers(1, 6))
    high = [a + n for a, n in zip(low, extent, strict=True)]
    distribution = draw(distributions(ndim, ranks))
    return Zones(distribution, low, high, offset, chunks, ranks), ranks, offset, chunks


@given(cases())
def test_zones_are_a_partition_by_owners(case):
    zones, ranks, offset, chunks = case
    owners = np.full(zones.high, -1)
    for rank in range(ranks):
        found = zones.of(rank)
        assert found == sorted(found, key=lambda zone: [s.start for s in zone])
        if not zones.distribution.is_dealt:
            assert len(found) == 1
        for zone in found:
            assert (owners[zone] == -1).all()
            owners[zone] = rank
            if zones.distribution.kind == "irregular":
                continue
            for s, a, z, b, c in zip(zone, zones.low, zones.high, offset, chunks, strict=True):
                # Cuts lie between chunks, or at the ends.
                assert all(e in (a, z) or (e + b) % c == 0 for e in (s.start, s.stop))
    inside = tuple(map(slice, zones.low, zones.high))
    assert (owners[inside] >= 0).all()
    for index in itertools.product(*map(range, zones.low, zones.high)):
        assert zones.owner(index) == owners[index]
    if zones.distribution.kind == "block":
        sizes = np.array(
            [math.prod(s.stop - s.start for s in zones.of(r)[0]) for r in range(ranks)]
        )
        assert sizes.sum() == math.prod(map(int.__sub__, zones.high, zones.low))


def test_irregular_zones_are_the_blocks_that_were_named():
    blocks = Distribution.of("irregular", [[0, 10, 30], [0, 25]], None, 2, 7)
    zones = Zones(blocks, (0, 0), (50, 40), (0, 0), (8, 8), 7)
    edges = [(0, 10), (10, 30), (30, 50)], [(0, 25), (25, 40)]
    named = [(slice(*rows), slice(*columns)) for rows, columns in itertools.product(*edges)]
    assert [zone for rank in range(6) for zone in zones.of(rank)] == named
    assert zones.process_grid == (3, 2)
    assert [zones.owner(index) for index in [(9, 24), (10, 25), (49, 0)]] == [0, 3, 4]
    assert zones.of(6) == [(slice(50, 50), slice(40, 40))]
    # The cuts stay with their elements when three rows are added before the first.
    grown = Zones(blocks.moved((3, 0)), (0, 0), (53, 40), (0, 0), (8, 8), 7)
    assert [zone[0] for zone in map(grown.as_told, (0, 2, 4))] == [
        slice(0, 13),
        slice(13, 33),
        slice(33, 53),
    ]


def test_blocks_are_cut_as_numpy_splits():
    for n, ranks in itertools.product(range(12), range(1, 6)):
        block = Distribution.of("block", 1, None, 1, ranks)
        zones = Zones(block, (0,), (2 * n,), (0,), (2,), ranks)
        sizes = [(zones.of(r)[0][0].stop - zones.of(r)[0][0].start) // 2 for r in range(ranks)]
        assert sizes == [len(part) for part in np.array_split(np.arange(n), ranks)]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("cyclic", 1, None, 2, 4), xa.ArgumentError),
        (("block", 0, None, 2, 4), xa.ShapeError),
        (("block", (1, 2, 3), None, 2, 4), xa.ShapeError),
        (("block", 1.5, None, 2, 4), xa.ArgumentTypeError),
        (("block", 1, (2, 3), 2, 4), xa.ShapeError),
        (("block", 1, (4,), 2, 4), xa.ShapeError),
        (("block", 1, None, 0, 4), xa.ArgumentError),
        (("irregular", 1, None, 2, 4), xa.ArgumentTypeError),
        (("irregular", "ab", None, 2, 4), xa.ArgumentTypeError),
        (("irregular", [0, 10], None, 2, 4), xa.ShapeError),
        (("irregular", [[0, 10]], None, 2, 4), xa.ShapeError),
        (("irregular", [[0, 1.5], [0]], None, 2, 4), xa.ArgumentTypeError),
        (("irregular", [[1, 10], [0]], None, 2, 4), xa.ArgumentError),
        (("irregular", [[0, 10, 5], [0]], None, 2, 4), xa.ArgumentError),
        (("irregular", [[0], []], None, 2, 4), xa.ArgumentError),
        (("irregular", [[0, 1, 2], [0, 1]], None, 2, 4), xa.ShapeError),
        (("irregular", [[0, 1], [0, 1]], (4, 1), 2, 4), xa.ShapeError),
    ],
)
def test_impossible_distributions(arguments, error):
    with pytest.raises(error):
        Distribution.of(*arguments)


def test_the_error_says_how_many_blocks_are_possible():
    with pytest.raises(xa.ShapeError, match=r"3 x 2 blocks .* 6 ranks, but there are 4; give"):
        Distribution.of("irregular", [[0, 1, 2], [0, 1]], None, 2, 4)
    fitting = Distribution.of("irregular", np.array([[0, 1], [0, 1]]), (2, 2), 2, 4)
    assert fitting.edges == ((1,), (1,))


def test_an_owner_outside():
    zones = Zones(Distribution.of("block", 1, None, 1, 2), (0,), (4,), (0,), (2,), 2)
    with pytest.raises(xa.BoundsError):
        zones.owner((4,))


# -- parts of transfers --------------------------------------------------------------------------


@st.composite
def histories(draw):
    """Draw shape, chunks and order of an array, its growths, and a selection."""
    shape = draw(st.lists(st.integers(1, 5), min_size=0, max_size=3))
    chunks = draw(st.lists(st.integers(1, 4), min_size=len(shape), max_size=len(shape)))
    growth = st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from(["end", "start"]))
    growths = draw(st.lists(growth, max_size=4)) if shape else []
    final = list(shape)
    for axis, by, _ in growths:
        final[axis % len(shape)] += by
    key = [draw(st.one_of(st.integers(-n, n - 1), slices(n))) for n in final]
    if final and draw(st.booleans()):
        n = final[-1]
        key[-1] = draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=5))
    order = draw(st.sampled_from("CFZH"))
    return shape, chunks, order, growths, tuple(key)


def slices(n):
    bounds = st.none() | st.integers(-n - 1, n + 1)
    return st.builds(slice, bounds, bounds, st.sampled_from([None, 1, 2, 3, 7, -1, -2]))


def layout_of(a, stage):
    starts = mark_of(a.axial)[2]
    offset = [n * c - o for n, c, o in zip(starts, a.chunks, a.origin, strict=True)]
    return FileLayout(a.axial, a.chunks, tuple(offset), a.order, a.itemsize, stage)


def carry_out(jobs, file, stage):
    """Do what a file view does with a file's bytes; return a mask of the touched ones."""
    touched = np.zeros(file.size, bool)
    for job in jobs:
        rounds = Rounds(job, stage)
        for edges in rounds.views:
            lengths, displacements = rounds.runs(edges)
            runs = [(d, d + n) for d, n in zip(displacements, lengths, strict=True)]
            # MPI requires rising order; adjacent runs are joined.
            assert all(a < b for a, b in runs)
            assert all(end < start for (_, end), (start, _) in itertools.pairwise(runs))
            shown = np.concatenate([np.arange(*run) for run in runs])
            touched[shown] = True
            for first, stop in itertools.pairwise(edges):
                n = rounds.nbytes(first, stop)
                assert n <= stage or stop == first + 1
                piece, shown = shown[:n], shown[n:]
                if job.write:
                    rounds.move(first, stop)
                    file[piece] = rounds.buffer[:n]
                else:
                    rounds.buffer[:n] = file[piece]
                    rounds.move(first, stop)
            assert not shown.size
        rounds.finish()
    return touched


@pytest.mark.invariant("I9")
@given(histories(), st.sampled_from([2, 16, 1 << 18]), st.booleans())
def test_parts_move_what_is_selected_and_write_nothing_else(mmap_disk, history, stage, tiny):
    shape, chunks, order, growths, key = history
    with (
        pytest.MonkeyPatch.context() as patch,
        mmap_disk.array(shape, "u2", chunks=chunks, order=order) as a,
    ):
        if tiny:
            patch.setattr(limits, "parts_at_once", 3)
            patch.setattr(limits, "elements_at_once", 4)
            patch.setattr(limits, "view_bytes", 20)
            patch.setattr(limits, "view_runs", 3)
        for axis, by, side in growths:
            a.extend(axis % a.ndim, by, side)
        model = np.arange(a.size, dtype="u2").reshape(a.shape)
        a[...] = model
        name = a.path.with_name(a.path.name + ".xta")
        n = a.axial.size * a.chunk_bytes
        file = np.fromfile(name, np.uint8, n)
        query, layout = as_query(key, a.shape, a.dtype), layout_of(a, stage)
        for target in (np.zeros(query.shape, "u2"), np.zeros(query.shape[::-1], "u2").T):
            carry_out(query_jobs(layout, query, target, False), file, stage)
            assert np.array_equal(target, model[key])
        new = ~model[key]
        touched = carry_out(query_jobs(layout, query, new, True), file, stage)
        a[key] = new
        assert np.array_equal(file, np.fromfile(name, np.uint8, n))
        chosen = np.zeros(a.shape, bool)
        chosen[key] = True
        assert np.count_nonzero(touched) == 2 * np.count_nonzero(chosen)


@pytest.mark.parametrize("order", NEW)
@pytest.mark.parametrize("key", [(slice(1, 6), slice(None, None, 2)), ([4, 0, 3], 1), (2, 5)])
def test_parts_of_chunks_in_a_new_order(mmap_disk, key, order):
    with new_orders(), mmap_disk.array((5, 6), "u2", chunks=(2, 4), order=order) as a:
        a.extend(0, 2)
        model = np.arange(a.size, dtype="u2").reshape(a.shape)
        a[...] = model
        name = a.path.with_name(a.path.name + ".xta")
        file = np.fromfile(name, np.uint8, a.axial.size * a.chunk_bytes)
        query, layout = as_query(key, a.shape, a.dtype), layout_of(a, 16)
        target = np.zeros(query.shape, "u2")
        carry_out(query_jobs(layout, query, target, False), file, 16)
        assert np.array_equal(target, model[key])
        carry_out(query_jobs(layout, query, ~model[key], True), file, 16)
        a[key] = ~model[key]
        assert np.array_equal(file, np.fromfile(name, np.uint8, file.size))
