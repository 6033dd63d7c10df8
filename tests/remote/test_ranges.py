"""Requests planned for ranges of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import extarray.errors as errors
from extarray.remote.ranges import plan

RANGES = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 300)), max_size=20)


def assembled(requests, sizes, source):
    """Return the ranges that the parts of requests make."""
    found = [bytearray(size) for size in sizes]
    filled = [0] * len(sizes)
    for request in requests:
        body = source[request.start : request.stop]
        for part in request.parts:
            found[part.number][part.at : part.at + part.size] = body[part.offset :][: part.size]
            filled[part.number] += part.size
    assert filled == sizes
    return found


@given(RANGES, st.integers(0, 500), st.floats(1, 4), st.integers(50, 1000))
def test_any_ranges(ranges, gap, waste, split):
    source = bytes(i * 7 % 251 for i in range(4400))
    offsets, sizes = [o for o, _ in ranges], [s for _, s in ranges]
    requests = plan(offsets, sizes, gap, waste, split)
    parts = assembled(requests, sizes, source)
    assert parts == [source[o : o + s] for o, s in ranges]
    # No byte is read twice, no request is too large, and gaps are within both bounds.
    edges = [edge for r in requests for edge in (r.start, r.stop)]
    assert edges == sorted(edges)
    assert all(0 < r.stop - r.start <= split for r in requests)
    wanted = {i for o, s in ranges for i in range(o, o + s)}
    assert sum(r.stop - r.start for r in requests) <= max(waste, 1) * len(wanted)
    for request in requests:
        absent = 0
        for i in range(request.start, request.stop):
            absent = 0 if i in wanted else absent + 1
            assert absent <= gap


def test_neighbours_need_one_request():
    (request,) = plan([20, 0, 10], [10, 10, 10], gap=0, waste=1)
    assert (request.start, request.stop) == (0, 30)


def test_the_smallest_gaps_are_read_first():
    requests = plan([0, 120, 225, 500], [100, 100, 100, 100], gap=1000, waste=1.05)
    assert [(r.start, r.stop) for r in requests] == [(0, 100), (120, 325), (500, 600)]
    assert len(plan([0, 120, 225, 500], [100] * 4, gap=1000, waste=2)) == 1


def test_gaps_up_to_the_limit_are_read():
    assert len(plan([0, 150], [100, 100], gap=50, waste=2)) == 1
    assert len(plan([0, 151], [100, 100], gap=50, waste=2)) == 2


def test_large_ranges_are_divided_about_equally_and_at_edges():
    requests = plan([0], [100], gap=0, waste=1, split=40)
    assert [(r.start, r.stop) for r in requests] == [(0, 34), (34, 68), (68, 100)]
    requests = plan(range(0, 100, 10), [10] * 10, gap=0, waste=1, split=40)
    assert [(r.start, r.stop) for r in requests] == [(0, 30), (30, 60), (60, 100)]


@pytest.mark.parametrize("offsets, sizes", [([0], [1, 2]), ([-1], [1]), ([1], [-1])])
def test_ranges_that_are_none(offsets, sizes):
    with pytest.raises(errors.ArgumentError):
        plan(offsets, sizes, 0, 1)
