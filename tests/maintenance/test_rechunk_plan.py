"""Plans of layout transformations: one axis, templates, passes; no arrays needed."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import extarray as xa
from extarray.common.limits import limits
from extarray.grid.rechunk_axis import Axis
from extarray.maintenance import rechunk_plan as planning
from extarray.maintenance.rechunk_pass import Pass, Task, least_memory
from extarray.maintenance.rechunk_plan import intermediates, plan_passes, resident_pass, swept_pass


@st.composite
def axes(draw):
    source = draw(st.integers(1, 20))
    return Axis(
        draw(st.integers(1, 60)), source, draw(st.integers(1, 20)), draw(st.integers(0, source - 1))
    )


# -- one axis ------------------------------------------------------------------------------------


@given(axes(), st.integers(1, 6))
def test_elements_read_are_those_of_the_windows(axis, n):
    for template in (n * axis.target, axis.least, axis.period, axis.extent):
        windows = axis.windows(template)
        assert windows[0][0] == 0
        assert windows[-1][1] == axis.extent
        assert all(a[1] == b[0] for a, b in itertools.pairwise(windows))
        assert axis.elements_read(template) == sum(itertools.starmap(axis.elements_met, windows))
        if axis.is_aligned(template):
            assert axis.elements_read(template) == axis.extent


@given(axes(), st.integers(1, 3))
def test_steps_read_whole_chunks_and_hold_no_more_than_is_said(axis, blocks):
    if axis.is_short:
        blocks = 0
    template = axis.extent if axis.unused or axis.is_short else axis.period
    for start, stop in axis.windows(template):
        steps = list(axis.steps(start, stop, blocks))
        assert (steps[0].written, steps[0].read) == (start, start)
        assert (steps[-1].complete, steps[-1].end) == (stop, stop)
        for one, other in itertools.pairwise(steps):
            assert (one.complete, one.end) == (other.written, other.read)
            assert (one.end + axis.lead) % axis.source == 0
            assert one.complete % axis.target == 0
        if blocks:
            assert max(s.end - s.complete for s in steps) <= axis.unused
            assert max(s.end - s.written for s in steps) <= axis.room(blocks)
            assert max(s.end - s.read for s in steps) <= axis.fresh(blocks)


@given(axes())
def test_what_is_held_is_no_more_than_the_bound_and_reaches_it(axis):
    long = Axis(4 * axis.period + 2 * axis.block, axis.source, axis.target, axis.lead)
    steps = list(long.steps(0, long.extent, 1))
    assert max(s.end - s.complete for s in steps) == long.unused


# -- the example of the paper --------------------------------------------------------------------

LCM_BLOCK = (160, 144)
SOURCE, TARGET = (32, 9), (5, 16)


def paper(memory):
    return xa.rechunk_plan(
        LCM_BLOCK, source_chunks=SOURCE, chunks=TARGET, dtype="u1", max_memory=memory
    ).passes


def test_the_blocks_of_the_paper():
    two = [Axis(n, s, t) for n, s, t in zip(LCM_BLOCK, SOURCE, TARGET, strict=True)]
    assert [axis.block for axis in two] == [32, 16]
    assert [axis.unused for axis in two] == [4, 8]
    assert tuple(axis.period for axis in two) == LCM_BLOCK
    assert math.prod(axis.period for axis in two) == 23040


def test_1344_elements_hold_all_the_unused_data():
    (p,) = paper(1344)
    assert p.traversal == (1, 0)
    assert p.memory == 1344
    assert p.template == LCM_BLOCK
    assert p.bytes_read == p.bytes_written == 23040


def test_the_other_traversal_would_hold_more():
    (p,) = paper(1344)
    other = replace(p, traversal=(0, 1))
    assert other.memory > p.memory


def test_900_elements_allow_one_pass_with_a_smaller_template():
    (p,) = paper(900)
    assert p.memory <= 900
    assert math.prod(p.template) < 23040
    assert p.bytes_read > 23040
    assert p.bytes_written == 23040


def test_800_elements_need_two_passes():
    one, other = paper(800)
    assert one.target_chunks == other.source_chunks == (12, 12)
    assert max(one.memory, other.memory) <= 800


def best_of_all(p, memory):
    """Return the least that any fitting sweep of max-blocks reads."""
    steps = [range(axis.target, max(axis.extent, axis.period) + 1, axis.target) for axis in p.axes]
    sweeps = (
        replace(p, template=template, traversal=traversal, blocks=(1, 1))
        for template in itertools.product(*steps)
        for traversal in itertools.permutations(range(2))
    )
    return min(sweep.bytes_read for sweep in sweeps if sweep.memory <= memory)


def test_the_templates_of_less_memory_are_our_own():
    """For 900 elements the paper prints 120 x 6, which does not consist of whole new chunks."""
    (p,) = paper(900)
    assert p.template == (160, 32)
    assert math.prod(p.template) > 120 * 6
    assert (6 % TARGET[1], p.template[1] % TARGET[1]) == (6, 0)
    assert p.bytes_read == best_of_all(p, 900)


def test_the_templates_of_two_passes_are_lcm_blocks_as_far_as_memory_allows():
    one, other = paper(800)
    assert [axis.period for axis in one.axes] == [96, 36]
    assert one.template == (96, 24)
    assert one.bytes_read == best_of_all(one, 800)
    assert other.template == (60, 48) == tuple(axis.period for axis in other.axes)
    assert other.bytes_read == best_of_all(other, 800) == 23040


def test_means_of_the_paper():
    assert intermediates((8, 1000), (1000, 8), 3) == [(8, 1000), (40, 200), (200, 40), (1000, 8)]
    assert intermediates((4, 4), (4, 4), 1) == [(4, 4), (4, 4)]


# -- the best of the family ----------------------------------------------------------------------


@st.composite
def problems(draw, k=2, longest=24):
    shape = draw(st.lists(st.integers(1, longest), min_size=k, max_size=k).map(tuple))
    chunks = st.lists(st.integers(1, 8), min_size=k, max_size=k).map(tuple)
    source, target = draw(chunks), draw(chunks)
    lead = tuple(draw(st.integers(0, c - 1)) for c in source)
    source = tuple(min(n + e, c) for n, e, c in zip(shape, lead, source, strict=True))
    target = tuple(map(min, target, shape))
    least = least_memory(source, target, 1)
    return Task(shape, source, target, lead, 1), draw(st.integers(least, 5 * least))


def templates_of(axis, least):
    end = axis.extent + axis.shift
    return sorted({*range(least, end, axis.target), axis.extent if least >= end else end})


@given(problems())
def test_a_swept_pass_reads_least_of_all_templates_and_orders(problem):
    task, budget = problem
    found = swept_pass(task, budget)
    two = task.axes
    swept = [j for j in range(2) if two[j].unused]
    blocks = tuple(1 if j in swept else 0 for j in range(2))
    costs = [math.inf]
    # Along axes that hold nothing, larger templates than max-blocks read no less.
    lists = [templates_of(axis, axis.least) if axis.unused else [axis.least] for axis in two]
    for template in itertools.product(*lists):
        for order in itertools.permutations(swept):
            p = Pass(task, template, blocks, order)
            if p.memory <= budget:
                costs.append(p.bytes_read)
    if found is None:
        assert min(costs) == math.inf
    else:
        assert found.memory <= budget
        assert found.bytes_read == min(costs)


@given(problems())
def test_a_resident_pass_reads_least_of_all_templates(problem):
    task, budget = problem
    found = resident_pass(task, budget)
    lists = [templates_of(axis, min(axis.target, axis.extent)) for axis in task.axes]
    costs = [
        task.in_one_step(template).bytes_read
        for template in itertools.product(*lists)
        if math.prod(map(min, template, task.shape)) + math.prod(task.source_chunks) <= budget
    ]
    assert found.memory <= budget
    assert found.bytes_read == min(costs)


@given(problems(k=3, longest=10))
def test_a_plan_fits_and_no_pass_of_it_could_go(problem):
    task, budget = problem
    passes = plan_passes(task, budget)
    assert all(p.memory <= budget for p in passes)
    assert passes[0].source_chunks == task.source_chunks
    assert passes[-1].target_chunks == task.target_chunks
    for one, other in itertools.pairwise(passes):
        assert one.target_chunks == other.source_chunks
    once = math.prod(task.shape)
    if len(passes) > 1:
        one_pass = swept_pass(task, budget)
        cost = sum(p.bytes_read + p.bytes_written for p in passes)
        if one_pass is not None:
            assert cost < one_pass.bytes_read + once


@given(problems())
def test_with_memory_for_all_of_the_array_each_chunk_is_read_once(problem):
    task, _ = problem
    for memory in (least_memory(task.shape, task.source_chunks, 1), 1 << 30):
        (p,) = plan_passes(task, memory)
        assert p.bytes_read == p.bytes_written


def test_reading_again_is_cheaper_than_a_second_pass():
    plan = xa.rechunk_plan(
        (8192, 8192), source_chunks=(16, 4096), chunks=(4096, 16), max_memory="100 MiB"
    )
    assert len(plan.passes) == 1
    assert plan.bytes_read == 2 * plan.bytes_written


def test_more_memory_makes_little_more_work():
    def work(memory):
        shape, chunks = (247, 213), {"source_chunks": (123, 17), "chunks": (39, 26)}
        plan = xa.rechunk_plan(shape, dtype="u1", max_memory=memory, **chunks)
        return (plan.bytes_read + plan.bytes_written) / math.prod(shape)

    # A second pass becomes possible in between, but templates in memory are still better.
    assert work(6064) <= work(4851) == 4


def test_steepest_descent_finds_what_is_not_in_the_lists(monkeypatch):
    monkeypatch.setattr(limits, "templates_tried", 4)
    (few,) = paper(1343)
    monkeypatch.undo()
    (all_,) = paper(1343)
    assert few.bytes_read <= 1.1 * all_.bytes_read


def test_many_axes_are_not_tried_in_all_combinations():
    plan = xa.rechunk_plan(
        (3,) * 20, source_chunks=(1, 2) * 10, chunks=(2, 1) * 10, dtype="u1", max_memory="64 KiB"
    )
    assert plan.memory <= 64 << 10
    assert plan.bytes_read == plan.bytes_written == 2 * 3**20


def test_templates_that_could_not_be_better_are_not_tried():
    ways = [Axis(1000, 7, 11), Axis(900, 9, 5), Axis(800, 13, 8)]
    asked = []

    def fits(template):
        asked.append(template)
        return True

    found = planning._search(ways, [[11, 110, 1000], [10, 100, 900], [16, 160, 800]], fits)
    assert found == (1000, 900, 800)
    assert len(asked) < 9  # one pair of extents along the first two axes


# -- published cases -----------------------------------------------------------------------------


@pytest.mark.parametrize(("memory", "n_passes"), [("500 MB", 7), ("2.5 GB", 4)])
def test_era5(memory, n_passes):
    """Global hours to series of places: 1.5 TB, from rechunker's multi-stage planning.

    In a single stage, each chunk would be read or written in some 3500 parts.
    """
    plan = xa.rechunk_plan(
        (350640, 721, 1440),
        source_chunks=(31, 721, 1440),
        chunks=(350640, 10, 10),
        dtype="f4",
        max_memory=memory,
    )
    assert len(plan.passes) == n_passes
    # No pass reads anything twice.
    assert plan.bytes_read == plan.bytes_written == n_passes * 350640 * 721 * 1440 * 4


# -- reports -------------------------------------------------------------------------------------


def test_too_little_memory_names_the_least():
    least = 8 * (32 * 9 + 5 * 16)
    with pytest.raises(ValueError, match=f"needs {least} bytes") as caught:
        xa.rechunk_plan(LCM_BLOCK, source_chunks=SOURCE, chunks=TARGET, max_memory=least - 1)
    assert isinstance(caught.value, xa.ArgumentError)
    plan = xa.rechunk_plan(LCM_BLOCK, source_chunks=SOURCE, chunks=TARGET, max_memory=least)
    assert plan.memory <= least


def test_text_and_picture():
    plan = xa.rechunk_plan(
        LCM_BLOCK, source_chunks=SOURCE, chunks=TARGET, dtype="u1", max_memory=800
    )
    lines = repr(plan).splitlines()
    assert len(lines) == 5
    assert "(32, 9) -> (12, 12)" in lines[2]
    assert "(12, 12) -> (5, 16)" in lines[3]
    assert plan._repr_html_().count("<svg") == 2


def test_axes_of_a_shape_are_permuted():
    plan = xa.rechunk_plan((6, 4), source_chunks=(3, 2), chunks=(4, 1), axes=(1, 0))
    assert plan.shape == (4, 6)
    assert plan.passes[0].source_chunks == (2, 3)
    with pytest.raises(xa.ArgumentError, match="axes"):
        xa.rechunk_plan((6, 4), axes=(0, 0, 1))


def test_passes_are_the_same_for_all_orders():
    a = xa.zeros((20, 30), chunks=(4, 5))
    for src, present in ((a, {}), (a.shape, {"source_chunks": a.chunks})):
        plans = [xa.rechunk_plan(src, chunks=7, order=order, **present) for order in "CH"]
        assert plans[0].passes == plans[1].passes == xa.rechunk_plan(a, chunks=7).passes
        assert [plan.table_bytes for plan in plans] == [0, 8 * 7 * 7]
        with pytest.raises(xa.ArgumentError, match="order"):
            xa.rechunk_plan(src, order="X")


def test_nothing_to_do_and_no_axes():
    assert xa.rechunk_plan((0, 4), chunks=(2, 2)).passes == ()
    assert "nothing to do" in repr(xa.rechunk_plan((0, 4)))
    assert xa.rechunk_plan(()).bytes_read == 8
