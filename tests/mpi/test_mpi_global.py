"""Global arrays: real programs under mpiexec, compared with NumPy's model."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zoning import distributions

from extarray.common.errors import SelectionError
from extarray.mpi.patches import Hyperslab, Section, ZoneLayout, ghost_boxes, steps_between
from extarray.mpi.zones import Distribution, Zones
from extarray.storage import lock
from extarray.storage.filesystem import File

# Settings that make MPICH treat the ranks as several hosts, by how many ranks share memory.
HOSTS = {"one": {}, "each": {"MPIR_CVAR_NOLOCAL": "1"}, "two": {"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"}}


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "hosts", "near"), [(1, "one", 1), (3, "one", 3), (2, "each", 1)])
def test_global_arrays(mpirun, path, ranks, hosts, near):
    mpirun(ranks, "globals.py", path, near, **HOSTS[hosts])


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "hosts"), [(1, "one"), (4, "one"), (2, "each"), (3, "two")])
def test_one_sided(mpirun, ranks, hosts):
    mpirun(ranks, "onesided.py", **HOSTS[hosts])


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "hosts"), [(1, "one"), (2, "each"), (4, "two")])
def test_operations_on_sections_and_products(mpirun, path, ranks, hosts):
    mpirun(ranks, "operations.py", path, **HOSTS[hosts])


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "engine"), [(3, "mpi-io"), (2, "mmap")])
def test_additions_to_files(mpirun, path, ranks, engine):
    mpirun(ranks, "additions.py", path, engine)


HOLDER = """
import os, sys
from extarray.storage.filesystem import File
from extarray.storage.lock import holding
with holding(File.open(sys.argv[1], os.O_RDWR), 3, 2):
    print("HELD", flush=True)
    sys.stdin.read()
"""


def test_the_lock_of_a_process_that_dies_is_free(script, tmp_path):
    path = tmp_path / "a.xta"
    path.touch()
    file = File.open(str(path), os.O_RDWR)
    holder = script.start(HOLDER, path)
    try:
        assert holder.stdout.readline() == "HELD\n"
        with lock.holding(file, 0, 3):
            pass
        waiting = threading.Thread(target=take_turn, args=(file,), daemon=True)
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
    finally:
        holder.kill()
        holder.communicate(timeout=60)
    waiting.join(60)
    assert not waiting.is_alive()
    file.close()


def take_turn(file):
    with lock.holding(file, 4, 4):
        pass


# -- patches, without MPI ------------------------------------------------------------------------


@st.composite
def layouts(draw, kinds=("block", "block_cyclic", "irregular")):
    """Draw a layout of a global array's elements, and a selection."""
    ndim = draw(st.integers(1, 3))
    shape = tuple(draw(st.lists(st.integers(0, 7), min_size=ndim, max_size=ndim)))
    chunks = draw(st.lists(st.integers(1, 3), min_size=ndim, max_size=ndim))
    ghosts = tuple(draw(st.lists(st.integers(0, 2), min_size=ndim, max_size=ndim)))
    ranks = draw(st.integers(1, 6))
    cut, zero = draw(distributions(ndim, ranks, kinds)), (0,) * ndim
    if cut.is_dealt:
        ghosts = zero
    layout = ZoneLayout(Zones(cut, zero, shape, zero, chunks, ranks), np.dtype("u2"), ghosts)
    bounds = st.none() | st.integers(-8, 8)
    slices = st.builds(slice, bounds, bounds, st.sampled_from([None, 1, 2, 3, -1, -2]))
    key = tuple(draw(slices | st.integers(-n, n - 1) if n else slices) for n in shape)
    return layout, ranks, key


def memories(layout, ranks, model):
    """Return the memory of each rank, with zeros for ghosts."""
    found = [np.zeros(layout.extents(rank), "u2") for rank in range(ranks)]
    for rank, memory in enumerate(found):
        own = memory[layout.inside(rank)]
        for zone, place in layout.blocks(rank):
            own[place] = model[zone]
        assert own.all()  # adjacent zones leave no gap
    return found


@given(layouts())
def test_a_plan_is_kept_for_the_same_selection(case):
    layout, _, key = case
    plan = layout.plan(key)
    assert plan.box == Hyperslab.of(key, layout.shape, layout.dtype)
    assert plan.patches == list(layout.patches(plan.box))
    assert layout.plan((*key,)) is plan
    values = np.arange(np.prod(plan.box.shape, dtype=int)).reshape(plan.box.shape)
    np.testing.assert_array_equal(plan.view(values), plan.box.view(values))


def test_no_plan_is_taken_for_what_is_no_selection():
    """1.0 and True equal 1, but are no valid index of a slice or a boolean array."""
    zero = (0, 0)
    zones = Zones(Distribution("block", (1, 1), None), zero, (4, 6), zero, (2, 2), 2)
    layout = ZoneLayout(zones, np.dtype("f8"), zero)
    layout.plan((1, slice(1, 3)))
    with pytest.raises(TypeError):
        layout.plan((1, slice(1.0, 3)))
    with pytest.raises(IndexError):
        layout.plan((1.0, slice(1, 3)))
    with pytest.raises(SelectionError):
        layout.plan((True, slice(1, 3)))


@given(layouts())
def test_plain_boxes_are_those_of_any_selection(case):
    layout, _, key = case
    arguments = layout.shape, layout.dtype
    general = Hyperslab.of((*key, None), *arguments)  # a new axis requires the general way
    plain = Hyperslab.of(key, *arguments)
    assert plain.shape == general.shape[:-1]
    assert list(map(list, plain.ranges)) == list(map(list, general.ranges))
    places = np.arange(np.prod(plain.shape, dtype=int)).reshape(plain.shape)
    assert np.array_equal(plain.view(places), general.view(places))


@given(layouts())
def test_patches_are_what_is_selected(case):
    layout, ranks, key = case
    model = np.arange(1, np.prod(layout.shape, dtype=int) + 1, dtype="u2").reshape(layout.shape)
    memory = memories(layout, ranks, model)
    box = Hyperslab.of(key, layout.shape, layout.dtype)
    by_slices, by_runs = np.zeros(box.shape, "u2"), np.zeros(box.shape, "u2")
    for patch in layout.patches(box):
        box.view(by_slices)[patch.local] = memory[patch.rank][patch.remote]
        # In MPI's terms: runs of elements, in loops.
        place, length, loops = layout.runs(patch)
        places = np.array([place])
        for n, distance in loops:
            places = (places[:, None] + distance * np.arange(n)).reshape(-1)
        places = (places[:, None] // 2 + np.arange(length)).reshape(-1)
        part = box.view(by_runs)[patch.local]
        part[...] = memory[patch.rank].reshape(-1)[places].reshape(part.shape)
    assert np.array_equal(by_slices, model[key])
    assert np.array_equal(by_runs, model[key])


@given(layouts())
def test_locating_a_region_agrees_with_zones(case):
    layout, ranks, key = case
    owners = np.full(layout.shape, -1)
    for rank in range(ranks):
        for zone in layout.zones.of(rank):
            owners[zone] = rank
    found = np.full(layout.shape, -1)
    for rank, part in layout.owners(Hyperslab.of(key, layout.shape, layout.dtype)):
        assert (found[part] == -1).all()
        found[part] = rank
    selected = np.zeros(layout.shape, bool)
    selected[key] = True
    assert np.array_equal(found, np.where(selected, owners, -1))


@given(layouts(), st.booleans(), st.data())
def test_sections_are_what_is_selected(case, turned, data):
    layout, ranks, key = case
    model = np.arange(1, np.prod(layout.shape, dtype=int) + 1, dtype="u2").reshape(layout.shape)
    section = Section.of(key, layout.shape, layout.dtype)
    expected = model[key]
    if turned:
        section, expected = section.T, expected.T
    assert section.shape == expected.shape
    plain = model[tuple(slice(some.start, some.stop) for some in map(hull, section.box.ranges))]
    steps = tuple(slice(None, None, some.step) for some in section.box.ranges)
    box = plain[steps] if plain.size else np.empty(section.box.extents, "u2")
    assert np.array_equal(section.of_box(box), expected)
    back = np.zeros(section.box.extents, "u2")
    section.of_box(back)[...] = expected  # a view
    assert np.array_equal(back, box)
    part = [data.draw(parts(n)) for n in section.shape]
    assert section.part(part).shape == expected[tuple(part)].shape
    # The parts of all ranks make up the whole section, in its order.
    made = np.zeros(expected.shape, "u2")
    for rank in range(ranks):
        own = memories(layout, ranks, model)[rank]
        sides = layout.sides(section.box, rank)
        if all(sides):
            for patch in np.ndindex(*map(len, sides)):
                taken = [side[i] for side, i in zip(sides, patch, strict=True)]
                place = tuple(section.ordered(j, taken[j][1]) for j in section.axes)
                made[place] = section.forwards.of_box(own[tuple(some for some, _ in taken)])
    assert np.array_equal(made, expected)
    for axis, n in enumerate(section.shape):
        edges = layout.edges(section, axis)
        assert edges[0] == 0 and edges[-1] == n and edges == sorted(set(edges))


def hull(some):
    return range(some[0], some[-1] + 1) if some else range(0)


def parts(n):
    return st.builds(slice, st.integers(0, n), st.integers(0, n))


@given(st.sets(st.integers(1, 60), max_size=8), st.integers(1, 9), st.integers(9, 20))
def test_steps_follow_each_other(edges, least, most):
    steps = steps_between({0, *edges}, least, most)
    assert [some.start for some in steps] == [0, *(some.stop for some in steps)][:-1]
    assert (steps[-1].stop if steps else 0) == max(edges, default=0)
    assert all(0 < some.stop - some.start <= most for some in steps)


@given(layouts(("block", "irregular")), st.booleans())
def test_ghosts_are_what_surrounds_a_zone(case, wrap):
    layout, ranks, _ = case
    model = np.arange(1, np.prod(layout.shape, dtype=int) + 1, dtype="u2").reshape(layout.shape)
    if not model.size:
        return
    around = np.pad(model, [(w, w) for w in layout.ghosts], "wrap" if wrap else "constant")
    for rank, memory in enumerate(memories(layout, ranks, model)):
        (zone,) = layout.zones.of(rank)
        for box, place in ghost_boxes(zone, layout.shape, layout.ghosts, wrap):
            assert not memory[place].any()
            memory[place] = model[box]
        if memory.size:
            padded = (
                slice(s.start, s.stop + 2 * w) for s, w in zip(zone, layout.ghosts, strict=True)
            )
            assert np.array_equal(memory, around[tuple(padded)])
