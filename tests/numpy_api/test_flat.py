"""Reads and assignments of elements in C order, as with `numpy.flatiter`."""

from __future__ import annotations

import numpy as np
import pytest
from compare import assert_same, assert_same_outcome
from hypothesis import given
from hypothesis import strategies as st
from strategies import built, cases
from streaming import small_boxes

import extarray as xa

PAIRS = np.dtype([("x", "i4"), ("y", "f8")])

VALUES = [7, 300, -1, np.nan, [], [1, 2, 3], np.int64(300), np.array([300]), "x", [[4.5], [5]]]


@st.composite
def keys(draw, n):
    """Draw an index into n elements."""
    ends = st.none() | st.integers(-n - 2, n + 2)
    steps = st.none() | st.integers(-3, 3).filter(bool)
    slices = st.builds(slice, ends, ends, steps)
    if n == 0:
        return draw(slices)
    places = st.integers(-n, n - 1)
    return draw(slices | places | st.lists(places, max_size=5))


@given(case=cases(max_ndim=3), data=st.data())
def test_read(factory, case, data):
    with built(factory, case) as (array, model):
        key = data.draw(keys(array.size))
        with small_boxes():
            got = array.flat[key]
        assert_same(got, model.data.flat[key])


@given(case=cases(dtypes=st.sampled_from([np.dtype("u1"), np.dtype(">f8")])), data=st.data())
def test_assigned(factory, case, data):
    """Values include those that NumPy refuses or repeats."""
    with built(factory, case) as (array, model):
        key = data.draw(keys(array.size))
        value = data.draw(st.sampled_from(VALUES))
        with small_boxes():
            assert_same_outcome(
                lambda: array.flat.__setitem__(key, value),
                lambda: model.data.flat.__setitem__(key, value),
                words=False,
            )
        assert_same(array[...], model.data)


def test_assigned_from_an_array_of_ours(memory):
    with memory.array((3, 4), chunks=(2, 2)) as a:
        a.flat = xa.from_array(np.arange(12.0))
        a.flat[::-1] = a
        assert_same(a[...], np.arange(12.0)[::-1].reshape(3, 4))


def test_records(memory):
    with memory.array((2, 2), PAIRS, chunks=(1, 2)) as a:
        n = np.zeros((2, 2), PAIRS)
        for array in (a, n):
            array.flat[0] = (3, 4)
            array.flat[2:] = [(5, 6)]
        assert_same(a[...], n)


@pytest.mark.parametrize("key", [slice(None), slice(None, None, 2), [0] * 50])
def test_a_result_that_is_too_large(memory, key):
    with (
        memory.array((10, 10), chunks=(4, 4)) as a,
        xa.config.set(max_result=300),
        pytest.raises(xa.ResultError),
    ):
        a.flat[key]
