"""Orders of chunks: sequences of all chunks, and how near neighbours lie."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extarray.grid.chunk_order import chunk_sequence

GRIDS = st.lists(st.integers(0, 6), max_size=4)


@given(GRIDS, st.sampled_from(["hilbert", "morton", 0]))
def test_each_chunk_comes_once(grid, order):
    if order == 0 and not grid:
        return
    found = chunk_sequence(grid, order)
    assert found.shape == (np.prod(grid, dtype=int), len(grid))
    assert {*map(tuple, found.tolist())} == {*itertools.product(*map(range, grid))}


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_planes_of_an_axis_follow_each_other(grid, data):
    axis = data.draw(st.integers(0, len(grid) - 1))
    found = chunk_sequence(grid, axis)
    assert (np.diff(found[:, axis]) >= 0).all()
    rest = [n for j, n in enumerate(grid) if j != axis]
    plane = chunk_sequence(rest, "hilbert")
    for n in range(grid[axis]):
        here = np.delete(found[found[:, axis] == n], axis, 1)
        assert here.tolist() == plane.tolist()


def test_along_the_hilbert_curve_the_next_chunk_of_a_cube_is_a_neighbour():
    for grid in ((8, 8), (4, 4, 4)):
        steps = np.abs(np.diff(chunk_sequence(grid, "hilbert"), axis=0)).sum(1)
        assert (steps == 1).all()


def test_along_the_morton_curve_bits_of_the_axes_take_turns():
    found = chunk_sequence((4, 2), "morton").tolist()
    keys = [((i & 2) << 2) | ((i & 1) << 1) | j for i, j in found]
    assert keys == sorted(keys)


@pytest.mark.parametrize("order", ["hilbert", "morton"])
def test_a_plane_takes_few_requests(order):
    """Runs of a plane, with gaps of up to 4 chunks read, on a grid of 12 x 10 x 6 chunks."""
    grid = (12, 10, 6)
    sequence = chunk_sequence(grid, order)
    for axis, n in enumerate(grid):
        for at in range(n):
            places = np.flatnonzero(sequence[:, axis] == at)
            gaps = np.diff(places) - 1
            read = len(places) + gaps[gaps <= 4].sum()
            assert 1 + (gaps > 4).sum() <= 31
            assert read <= 2.6 * len(places)
