"""Runs of addresses that boxes of the grid take."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extarray import Axial
from extarray.common.limits import limits
from extarray.grid.address_runs import (
    address_runs,
    chunk_indices,
    count_runs,
    runs_between,
    runs_together,
    segment_boxes,
)

EIGHTHS = st.just((0, 8)) | st.tuples(st.integers(0, 8), st.integers(0, 8))
GROWTHS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from(["end", "start"])), max_size=6
)


BOXES = st.tuples(EIGHTHS, EIGHTHS, EIGHTHS)


def grown(history):
    axial = Axial((2, 1, 2))
    for axis, by, side in history:
        axial.grow(axis, by, side)
    return axial


def box(axial, eighths):
    ends = [(a * n // 8, b * n // 8) for (a, b), n in zip(eighths, axial.grid, strict=True)]
    return tuple(map(min, ends)), tuple(map(max, ends))


def addresses(axial, start, stop):
    return sorted(axial.address(index) for index in itertools.product(*map(range, start, stop)))


@given(GROWTHS, BOXES, st.sampled_from([1, 3, 2**16]))
def test_runs_are_the_addresses_of_a_box(history, eighths, looked_up):
    axial = grown(history)
    start, stop = box(axial, eighths)
    expected = addresses(axial, start, stop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "addresses_at_once", looked_up)
        runs = list(address_runs(axial, start, stop))
    assert all(first < last for first, last in runs)
    assert sorted(itertools.chain.from_iterable(itertools.starmap(range, runs))) == expected


@given(GROWTHS, BOXES, BOXES)
def test_runs_between_what_is_kept(history, eighths, other):
    axial = grown(history)
    start, stop = box(axial, eighths)
    kept = set(addresses(axial, *box(axial, other)))
    expected = []
    for _, _, first, last in segment_boxes(axial):
        low, high = tuple(map(max, start, first)), tuple(map(min, stop, last))
        if found := addresses(axial, low, high):
            expected += sorted({*range(found[0], found[-1] + 1)} - kept)
    firsts, lasts = runs_between(axial, start, stop, address_runs(axial, *box(axial, other)))
    assert (firsts < lasts).all()
    assert (lasts[:-1] < firsts[1:]).all()
    runs = map(range, firsts.tolist(), lasts.tolist())
    assert list(itertools.chain.from_iterable(runs)) == expected


def test_more_chunks_than_can_be_looked_up():
    axial = Axial((1, 3))
    axial.grow(0, 2**40, "start")
    axial.grow(1, 2**10)
    n = axial.grid[0]
    assert sum(len(firsts) for firsts, _ in runs_together(axial, (0, 0), axial.grid)) == 3
    assert [piece.tolist() for piece in runs_between(axial, (0, 0), (n, 9), [(4, 7)])] == [
        [0, 7],
        [4, 9 * n],
    ]
    assert list(address_runs(axial, (n // 2, 0), (n, 3))) == [
        (0, 3),
        (3, 3 + 3 * (n - 1 - n // 2)),
    ]
    ((first, last),) = address_runs(axial, (0, 5), (n, 9))
    assert (last - first, axial.index(first)) == (4 * n, (0, 5))


def test_many_runs_come_piece_by_piece():
    axial = Axial((2**30, 4))
    runs = runs_together(axial, (0, 1), (2**30, 3))
    firsts, lasts = next(runs)
    assert len(firsts) < math.prod(axial.grid) // 100
    np.testing.assert_array_equal(lasts - firsts, 2)
    np.testing.assert_array_equal(firsts, 4 * np.arange(len(firsts)) + 1)


def test_runs_are_counted_without_looking_them_up():
    axial = Axial((1, 3))
    axial.grow(0, 2**40, "start")
    axial.grow(1, 2**10)
    n = axial.grid[0]
    assert count_runs(axial, (0, 0), axial.grid) == 3
    assert count_runs(axial, (0, 1), (n, 4)) == n + 1


@pytest.mark.parametrize("order", ["address", "grid"])
@pytest.mark.parametrize("grid", [(2**61,), (2, 2**60), (2**60, 2), (2**30, 2**30)])
def test_the_first_of_more_chunks_than_can_be_held(grid, order):
    indices = chunk_indices(Axial(grid), (0,) * len(grid), grid, order)
    expected = np.ndindex(*(min(n, 9) for n in grid))
    assert list(itertools.islice(indices, 2)) == list(itertools.islice(expected, 2))


def test_no_chunk_of_many_rows_without_any():
    assert list(chunk_indices(Axial((2**60, 1)), (0, 1), (2**60, 1), "grid")) == []
