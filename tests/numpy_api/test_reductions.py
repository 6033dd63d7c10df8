"""Reductions give NumPy's answers, box by box."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model import sample
from strategies import built, cases
from streaming import axes, compared, masks, numbers, small_boxes, some_nans

import extarray as xa

WITH_DTYPE = [np.sum, np.prod, np.nansum, np.nanprod, np.mean, np.nanmean]
WITH_DDOF = [np.var, np.std, np.nanvar, np.nanstd]
WITH_INITIAL = [np.sum, np.prod, np.nansum, np.nanprod, np.max, np.min, np.nanmax, np.nanmin]
PLAIN = [np.any, np.all]
NO_MASK = [np.ptp, np.argmax, np.argmin, np.nanargmax, np.nanargmin]
ONE_AXIS = [np.argmax, np.argmin, np.nanargmax, np.nanargmin]
EXACT = [np.max, np.min, np.nanmax, np.nanmin, np.any, np.all, np.ptp, *ONE_AXIS]


def filled(array, model, nans):
    """Give the array values that do not overflow in sums, and NaNs if asked."""
    data = model.data
    if data.dtype.kind in "iu":
        data = (data % 7).astype(data.dtype)
    if nans:
        data = some_nans(data)
    array[...] = model.data = data


@given(data=st.data())
def test_like_numpy(factory, data):
    case = data.draw(cases(dtypes=numbers, max_ndim=3))
    function = data.draw(
        st.sampled_from([*WITH_DTYPE, *WITH_DDOF, *WITH_INITIAL, *PLAIN, *NO_MASK])
    )
    options = {"keepdims": data.draw(st.booleans())}
    with built(factory, case) as (array, model):
        filled(array, model, data.draw(st.booleans()))
        axis = data.draw(axes(array.ndim))
        if function in ONE_AXIS and isinstance(axis, tuple):
            axis = None
        if function not in NO_MASK:
            options["where"] = data.draw(masks(array.shape))
        if function in WITH_DTYPE and array.dtype.kind not in "?c":
            options["dtype"] = data.draw(st.sampled_from([None, "f8", "f4"]))
        if function in WITH_DDOF:
            options["ddof"] = data.draw(st.integers(0, 2))
        if function in WITH_INITIAL and array.dtype.kind not in "?c":
            options["initial"] = data.draw(st.sampled_from([np._NoValue, 1, 2]))
        compared(
            lambda: function(array, axis=axis, **options),
            lambda: function(model.data, axis=axis, **options),
            model.data,
            exact=function in EXACT,
        )


@given(data=st.data())
def test_into_out(memory, data):
    """An output of NumPy's or ours gets the same result, and is returned."""
    case = data.draw(cases(dtypes=numbers, max_ndim=3))
    function = data.draw(st.sampled_from([np.sum, np.max, np.mean, np.std, np.any, np.nanmax]))
    with built(memory, case) as (array, model):
        filled(array, model, False)
        axis = data.draw(axes(array.ndim))
        keepdims = data.draw(st.booleans())
        dtype = data.draw(numbers)
        shape = np.sum(model.data, axis=axis, keepdims=keepdims).shape
        expected = np.zeros(shape, dtype)
        got = np.zeros(shape, dtype)
        stored = xa.zeros(shape, dtype, chunks=(2,) * len(shape))

        def ours(out):
            assert function(array, axis=axis, out=out, keepdims=keepdims) is out
            return out[...]

        def numpys():
            function(model.data, axis=axis, out=expected, keepdims=keepdims)
            return expected

        # NumPy rounds to a less precise output between its steps, we at the end.
        if function is not np.any and not np.can_cast(array.dtype, dtype):
            return
        compared(lambda: ours(got), numpys, model.data)
        compared(lambda: np.asarray(ours(stored)), numpys, model.data)


@pytest.mark.parametrize("function", [np.mean, np.std, np.var])
def test_integers_into_an_output_of_more_precision(function):
    """NumPy takes its last steps in the output's precision, and earlier ones in double."""
    n = np.array([[1, 5], [0, 0], [0, 0]])
    a = xa.from_array(n, chunks=2)
    got, expected = np.zeros((2, 2), "g")
    compared(lambda: function(a, axis=0, out=got), lambda: function(n, axis=0, out=expected), n)
    np.testing.assert_allclose(got, expected, rtol=1e-15)


@pytest.mark.parametrize("function", [np.sum, np.mean, np.max, np.argmax, np.any, np.var])
@pytest.mark.parametrize(
    "options",
    [
        {"axis": 2},
        {"axis": (0, 0)},
        {"axis": 1.5},
        {"axis": 0, "out": np.zeros(3, int)},
        {"axis": 0, "out": np.zeros((1, 4), int)},
        {"axis": 0, "out": 3},
    ],
    ids=str,
)
def test_refused_as_numpy_does(function, options):
    n = np.arange(20.0).reshape(5, 4)
    a = xa.from_array(n, chunks=(2, 2))
    compared(lambda: function(a, **options), lambda: function(n, **options))


@pytest.mark.parametrize("where", [np.ones(3, bool), np.ones((2, 5, 4), bool), np.ones(4, int)])
@pytest.mark.parametrize("function", [np.sum, np.mean, np.std, np.min])
def test_masks_refused_as_numpy_does(function, where):
    n = np.arange(20.0).reshape(5, 4)
    a = xa.from_array(n, chunks=(2, 2))
    options = {"where": where, **({"initial": 9} if function is np.min else {})}
    compared(lambda: function(a, **options), lambda: function(n, **options))


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[D]"])
@pytest.mark.parametrize("function", [np.min, np.max, np.sum, np.mean, np.argmin, np.ptp, np.var])
def test_dates(function, dtype):
    n = sample(dtype, (5, 4))
    n[3, 1] = "NaT"
    a = xa.from_array(n, chunks=(2, 2))
    for options in ({}, {"axis": 0}, {"axis": 1}):
        compared(partial(function, a, **options), partial(function, n, **options))


@pytest.mark.parametrize("dtype", ["S3", "U2", "V5", [("x", "u1"), ("y", "f4")]])
@pytest.mark.parametrize("function", [np.min, np.sum, np.argmax, np.count_nonzero, np.any])
def test_what_is_no_number_goes_to_numpy(function, dtype):
    n = sample(dtype, (5, 4))
    a = xa.from_array(n, chunks=(2, 2))
    try:
        expected = function(n)
    except TypeError:
        with pytest.raises(TypeError):
            function(a)
    else:
        assert function(a) == expected


@given(data=st.data())
def test_count_nonzero(memory, data):
    case = data.draw(cases(dtypes=numbers, max_ndim=3))
    with built(memory, case) as (array, model):
        axis, keepdims = data.draw(axes(array.ndim)), data.draw(st.booleans())
        compared(
            lambda: np.count_nonzero(array, axis, keepdims=keepdims),
            lambda: np.count_nonzero(model.data, axis, keepdims=keepdims),
        )


@given(data=st.data())
def test_ufunc_reduce(memory, data):
    case = data.draw(cases(dtypes=numbers, max_ndim=3))
    ufunc = data.draw(
        st.sampled_from(
            [np.add, np.multiply, np.fmax, np.logical_xor, np.bitwise_and, np.gcd, np.hypot]
            + [np.logaddexp, np.subtract, np.arctan2, np.divide]
        )
    )
    options = {}
    with built(memory, case) as (array, model):
        filled(array, model, False)
        options = {
            "axis": data.draw(axes(array.ndim)),
            "keepdims": data.draw(st.booleans()),
            "where": data.draw(masks(array.shape)),
        }
        compared(
            lambda: ufunc.reduce(array, **options),
            lambda: ufunc.reduce(model.data, **options),
            model.data,
        )


# -- places of extremes --------------------------------------------------------------------------


@pytest.mark.parametrize("function", [np.argmax, np.argmin, np.nanargmax, np.nanargmin])
def test_the_first_of_equals(function):
    n = np.random.default_rng(1).integers(0, 3, (7, 9)).astype(float)
    a = xa.from_array(n, chunks=(2, 4))
    for options in ({}, {"axis": 0}, {"axis": 1}):
        compared(partial(function, a, **options), partial(function, n, **options), exact=True)


def test_the_first_nan_is_the_extreme():
    n = np.ones((6, 6))
    n[1, 5] = n[2, 0] = np.nan
    a = xa.from_array(n, chunks=(2, 2))
    compared(lambda: np.argmax(a), lambda: np.argmax(n))
    compared(lambda: a.argmin(axis=1), lambda: n.argmin(axis=1))


# -- numbers -------------------------------------------------------------------------------------


def test_the_sum_of_many_is_as_good_as_numpys():
    n = np.full(1 << 20, 0.1, "f4")
    a = xa.from_array(n, chunks=1 << 9)
    exact = float(n[0]) * n.size
    with small_boxes(1 << 11):
        assert abs(float(a.sum()) - exact) <= 2 * abs(float(n.sum()) - exact) + 1e-3


def test_the_variance_of_what_is_far_from_zero():
    n = 1e9 + np.random.default_rng(2).standard_normal((100, 100))
    a = xa.from_array(n, chunks=(7, 7))
    with small_boxes(512):
        np.testing.assert_allclose(a.var(), n.var(), rtol=1e-9)
        np.testing.assert_allclose(a.std(axis=1, ddof=1), n.std(axis=1, ddof=1), rtol=1e-9)


def test_halves_do_not_overflow_in_means():
    n = np.full(100_000, 60_000, "f2")
    a = xa.from_array(n, chunks=1000)
    assert a.mean() == n.mean() == 60_000
    assert a.mean().dtype == np.float16


def test_the_same_in_every_run():
    """Sums have the same bits, whatever the timing of the threads."""
    n = np.random.default_rng(3).standard_normal((300, 300)).astype("f4")
    a = xa.from_array(n, chunks=(17, 23))
    sums = set()
    for threads in (1, 2, 3, 4, 4, 4):
        with small_boxes(4096, threads):
            sums.add((a.sum().tobytes(), a.std(axis=0).tobytes()))
    assert len(sums) == 1


# -- accumulate and reduceat ---------------------------------------------------------------------


@given(data=st.data())
def test_accumulate(memory, data):
    case = data.draw(cases(dtypes=numbers, min_ndim=1, max_ndim=3))
    ufunc = data.draw(st.sampled_from([np.add, np.multiply, np.maximum, np.subtract]))
    with built(memory, case) as (array, model):
        filled(array, model, data.draw(st.booleans()))
        axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
        compared(
            lambda: ufunc.accumulate(array, axis),
            lambda: ufunc.accumulate(model.data, axis),
        )


def test_accumulate_in_place():
    n = np.arange(20.0).reshape(5, 4)
    a = xa.from_array(n, chunks=(2, 3))
    assert np.add.accumulate(a, axis=0, out=a) is a
    np.testing.assert_array_equal(a[...], np.add.accumulate(n))


@pytest.mark.parametrize("axis", [None, (0,)])
def test_a_lone_axis_need_not_be_named(axis):
    n = np.arange(9)
    a = xa.from_array(n, chunks=2)
    compared(lambda: np.add.accumulate(a, axis), lambda: np.add.accumulate(n, axis))
    compared(lambda: np.add.reduceat(a, [0, 4], axis), lambda: np.add.reduceat(n, [0, 4], axis))


@given(data=st.data())
def test_reduceat(memory, data):
    case = data.draw(cases(dtypes=numbers, min_ndim=1, max_ndim=3))
    ufunc = data.draw(st.sampled_from([np.add, np.maximum, np.subtract]))
    with built(memory, case) as (array, model):
        filled(array, model, False)
        axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
        n = array.shape[axis]
        indices = data.draw(st.lists(st.integers(-1, n), max_size=5))
        if data.draw(st.booleans()):
            indices = sorted({i for i in indices if 0 <= i < n})
        indices = np.array(indices, np.intp)
        compared(
            lambda: ufunc.reduceat(array, indices, axis),
            lambda: ufunc.reduceat(model.data, indices, axis),
        )
