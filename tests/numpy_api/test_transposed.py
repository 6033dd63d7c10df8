"""Transposed boxes: elements whose axes have another order in memory than in the chunk."""

from __future__ import annotations

import numpy as np
import pytest
from compare import assert_same
from hypothesis import given
from hypothesis import strategies as st

import extarray as xa


def random_values(shape, itemsize, seed=0):
    """Make elements of `itemsize` random bytes."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 256, (*shape, itemsize), "u1")
    return values.view(f"V{itemsize}").reshape(shape)


@st.composite
def boxes(draw):
    """Draw values of an array, a box of them, and the order of axes in memory."""
    ndim = draw(st.integers(1, 4))
    most = (90, 90, 24, 9)[ndim - 1]
    shape = tuple(draw(st.integers(1, most)) for _ in range(ndim))
    itemsize = draw(st.one_of(st.integers(1, 17), st.sampled_from([24, 32, 63, 64, 65, 80])))
    values = random_values(shape, itemsize, draw(st.integers(0, 9)))
    # One chunk holds all values, or nearly all.
    chunks = tuple(max(1, n - draw(st.integers(0, 3))) for n in shape)
    order = draw(st.sampled_from("CF"))
    array = xa.create(None, shape, values.dtype, chunks=chunks, order=order)
    array[...] = values
    box = []
    for n in shape:
        start = draw(st.integers(0, n - 1))
        step = draw(st.sampled_from([1, 1, 1, 2, -1]))
        box.append(slice(start, None, step))
    return values, array, tuple(box), draw(st.permutations(range(ndim)))


def guarded(shape, itemsize, axes, gap):
    """Make memory with its axes in another order, as part of memory with gaps around its rows."""
    outer = [shape[j] for j in axes]
    whole = random_values([*outer[:-1], outer[-1] + gap + 1], itemsize, 77)
    return whole, whole[..., gap : gap + outer[-1]].transpose(np.argsort(axes))


@given(boxes(), st.integers(0, 9))
def test_reading_fills_the_box_and_no_byte_beside_it(problem, gap):
    values, array, box, axes = problem
    wanted = values[box]
    whole, out = guarded(wanted.shape, values.itemsize, axes, gap)
    expected = whole.copy()
    expected[..., gap : gap + wanted.shape[axes[-1]]] = wanted.transpose(axes)
    array.read(box, out=out)
    assert_same(whole, expected)


@given(boxes(), st.integers(0, 9))
def test_writing_changes_the_box_and_no_byte_beside_it(problem, gap):
    values, array, box, axes = problem
    _, new = guarded(values[box].shape, values.itemsize, axes, gap)
    array[box] = new
    values[box] = new
    assert_same(array[...], values)


@pytest.mark.parametrize("itemsize", [1, 2, 3, 4, 8, 12, 16])
@pytest.mark.parametrize("side", [520, 512])
def test_squares_larger_than_a_strip_of_the_kernel(itemsize, side):
    values = random_values((side, 130), itemsize)
    a = xa.from_array(values, chunks=values.shape)
    assert_same(np.asarray(a.T), values.T.copy())
    assert_same(xa.rechunk(a, axes=(1, 0), chunks=(130, side))[...], values.T.copy())


@pytest.mark.parametrize("axes", [(2, 1, 0), (1, 0, 2), (0, 2, 1), (1, 2, 0), (2, 0, 1)])
@pytest.mark.parametrize("last", [2, 3, 40])
def test_rows_that_both_sides_have_move_as_one(tmp_path, axes, last):
    values = np.random.default_rng(1).random((37, 41, last)).astype("f4")
    a = xa.from_array(values, chunks=(16, 41, last))
    assert_same(np.asarray(a.transpose(axes)), values.transpose(axes).copy())
    with xa.rechunk(a, tmp_path / "new", axes=axes, chunks=8) as b:
        assert_same(b[...], values.transpose(axes).copy())
