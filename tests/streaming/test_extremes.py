"""Extremes: no element of a cell hides behind others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from extarray.streaming.extremes import (
    ends,
    extreme_places,
    extremes,
    extremes_in_bands,
    extremes_of_groups,
)

NUMBERS = hnp.arrays(
    st.sampled_from(["u1", "i8", "f4", "f8", "?"]),
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=40),
)


def cells(values, steps):
    """Yield the place of each cell, and its elements."""
    for i, top in enumerate(range(0, values.shape[0], steps[0])):
        for j, left in enumerate(range(0, values.shape[1], steps[1])):
            yield (i, j), values[top : top + steps[0], left : left + steps[1]].ravel()


@given(NUMBERS, st.tuples(st.integers(1, 20), st.integers(1, 20)))
def test_a_cell_shows_an_end_of_its_range(values, steps):
    found = extremes(values, steps)
    assert found.dtype == values.dtype
    for place, cell in cells(values, steps):
        if values.dtype.kind == "f":
            cell = cell[~np.isnan(cell)]
        if not cell.size:
            assert np.isnan(found[place])
        else:
            assert found[place] in (cell.min(), cell.max())


@given(NUMBERS, st.tuples(st.integers(1, 20), st.integers(1, 20)))
def test_places_of_extremes(values, steps):
    keys = values.astype(np.float64)
    rows, columns = extreme_places(keys, steps)
    for place, cell in cells(keys, steps):
        i, j = rows[place], columns[place]
        assert (i // steps[0], j // steps[1]) == place
        known = cell[~np.isnan(cell)]
        assert keys[i, j] in (known.min(), known.max()) if known.size else np.isnan(keys[i, j])


@pytest.mark.parametrize("spike", [1e6, -1e6])
@pytest.mark.parametrize("steps", [(3, 4), (17, 40), (1, 7)])
def test_a_spike_shows_wherever_it_is(spike, steps):
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = rng.normal(size=(50, 60))
        values[rng.integers(50), rng.integers(60)] = spike
        assert spike in extremes(values, steps)
        read = extremes_in_bands(lambda box, values=values: values[box], values.shape, steps, 300)
        np.testing.assert_array_equal(read, extremes(values, steps))


def test_dates():
    days = np.array(["2020-01-01", "NaT", "2020-05-01", "NaT", "NaT"], "M8[D]")
    assert extremes(days, (3,)).astype(str).tolist() == ["2020-05-01", "NaT"]
    places, found = ends(days, 3)
    assert places.tolist() == [0, 2, 3]
    assert found.dtype == days.dtype


@given(
    hnp.arrays(
        st.sampled_from(["i2", "f8", "?"]), st.integers(1, 200), elements=st.just(0) | st.just(1)
    ),
    st.integers(1, 50),
    st.lists(st.integers(0, 199), max_size=20),
)
def test_a_line_keeps_the_least_and_the_greatest_of_each_run(values, step, gone):
    if values.dtype.kind == "f":
        values[[i for i in gone if i < len(values)]] = np.nan
    places, found = ends(values, step)
    np.testing.assert_array_equal(values[places], found)
    assert (np.diff(places) > 0).all()
    for start in range(0, len(values), step):
        run = values[start : start + step]
        mine = found[(places >= start) & (places < start + step)]
        known = run[~np.isnan(run)] if run.dtype.kind == "f" else run
        if known.size:
            assert {known.min(), known.max()} <= set(mine.tolist())
        else:
            assert np.isnan(mine).all()
            assert mine.size


def test_groups():
    values = np.array([[1.0, 9.0, 1.0, np.nan, 4.0, -7.0]])
    bounds = np.array([[0, 3], [3, 4], [4, 6]])
    found = extremes_of_groups(values, bounds, 1)
    assert found[0, 0] == 9
    assert np.isnan(found[0, 1])
    assert found[0, 2] in (4, -7)
    turned = extremes_of_groups(values.T > 0, np.array([[1, 3], [5, 6]]), 0)
    assert turned.ravel().tolist() == [True, False]


@pytest.mark.parametrize("dtype", ["i8", "u8", ">i8"])
def test_extremes_of_integers_beyond_floats(dtype):
    values = np.full(8, 2**63 - 1, dtype)
    values[5] -= 3  # floats would not show it
    assert extremes(values, (8,)).tolist() == [2**63 - 4]
