"""Functions of NumPy: the registry, and functions without a streamed form."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib import recfunctions
from numpy.testing.overrides import get_overridable_numpy_array_functions
from streaming import outcome

import extarray as xa
from extarray.numpy_api import dispatch, registry


@pytest.fixture
def pair():
    n = np.random.default_rng(5).random((5, 4))
    return xa.from_array(n, chunks=(2, 3)), n


def without_form(monkeypatch, *names):
    """Hide the streamed forms of some functions."""
    forms = {f: form for f, form in dispatch.forms().items() if f not in names}
    monkeypatch.setattr(dispatch, "form_of", forms.get)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.unwrap(x),
        lambda x: np.kron(x, x),
        lambda x: np.roll(x, 1),
        lambda x: np.block([[x, x], [x, x]]),
        lambda x: np.meshgrid(x[0], x),
        lambda x: np.linalg.svd(x).S,
        lambda x: np.piecewise(x, [x > 0.5, x <= 0.5], [1, 2]),
        lambda x: np.vander(x[0]),
        lambda x: np.array2string(x),
        lambda x: np.polyfit(x[:, 0], x[:, 1], 1),
        lambda x: np.lexsort((x[0], x[1])),
        lambda x: np.histogramdd(x, bins=2)[0],
    ],
)
def test_without_a_streamed_form(pair, call):
    a, n = pair
    got, expected = call(a), call(n)
    for one, other in zip(
        got if isinstance(got, tuple) else [got],
        expected if isinstance(expected, tuple) else [expected],
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_arrays_inside_of_arguments(pair, monkeypatch):
    a, n = pair
    without_form(monkeypatch, np.concatenate, np.einsum)
    np.testing.assert_array_equal(np.concatenate([a, n, a]), np.concatenate([n, n, n]))
    np.testing.assert_array_equal(np.concatenate((a, [a[0]])), np.concatenate([n, [n[0]]]))
    np.testing.assert_array_equal(np.einsum("ij,ij->i", a, a), np.einsum("ij,ij->i", n, n))


def test_outputs_are_written(pair, monkeypatch):
    a, n = pair
    without_form(monkeypatch, np.concatenate, np.clip, np.cumsum, np.median, np.take)
    out = xa.zeros((10, 4), chunks=(3, 3))
    assert np.concatenate([a, a], out=out) is out
    np.testing.assert_array_equal(out[...], np.concatenate([n, n]))
    small = xa.zeros(4, chunks=3)
    assert np.median(a, axis=0, out=small) is small
    np.testing.assert_array_equal(small[...], np.median(n, axis=0))
    assert np.clip(a, 0.2, 0.5, a) is a  # `out` by position
    np.testing.assert_array_equal(a[...], np.clip(n, 0.2, 0.5))


@pytest.mark.parametrize(
    "change",
    [
        lambda x: np.copyto(x, 3),
        lambda x: np.copyto(dst=x, src=x[::-1]),
        lambda x: np.fill_diagonal(x, 7),
        lambda x: np.place(x, np.arange(20).reshape(5, 4) > 3, [1, 2]),
        lambda x: np.put(x, [0, 5], [8, 9]),
        lambda x: np.put_along_axis(x, np.zeros((5, 1), int), 4, 1),
        lambda x: np.putmask(x, np.arange(20).reshape(5, 4) > 3, 5),
    ],
)
def test_changed_arguments_are_written(pair, monkeypatch, change):
    a, n = pair
    # Some compiled functions have no signature, except from their forms, in some NumPy versions.
    compiled = (np.copyto, np.putmask) if np.lib.NumpyVersion(np.__version__) >= "2.4.0" else ()
    without_form(monkeypatch, *compiled, np.put, np.place, np.fill_diagonal)
    change(n)
    change(a)
    np.testing.assert_array_equal(a[...], n)


def test_changed_records_are_written():
    dtype = [("a", "i4"), ("b", "f8")]
    source = np.array([(1, 2.0), (3, 4.0)], dtype)
    a = xa.zeros(2, dtype, chunks=1)
    recfunctions.assign_fields_by_name(a, source[["b"]], zero_unassigned=False)
    np.testing.assert_array_equal(a[...], np.array([(0, 2.0), (0, 4.0)], dtype))
    assert recfunctions.recursive_fill_fields(source, a) is a
    np.testing.assert_array_equal(a[...], source)


def test_what_needs_no_elements_reads_none(path):
    with xa.create(path, (2**20, 2**18), "f4", chunks=(2**12, 2**10), sparse=True) as huge:
        assert np.shape(huge) == (2**20, 2**18)
        assert np.ndim(huge) == 2
        assert np.size(huge) == 2**38
        assert np.size(huge, 1) == 2**18
        assert np.result_type(huge, np.float64) == np.float64
        assert np.isrealobj(huge)
        assert not np.iscomplexobj(huge)
        assert np.can_cast(huge.dtype, "f8")
        assert np.common_type(huge) == np.float32
        assert np.may_share_memory(huge, huge)
        assert not np.may_share_memory(huge, xa.zeros(3))
        assert np.einsum_path("ij,jk", huge.astype("f8"), np.ones((2**18, 1)))[0] == [
            "einsum_path",
            (0, 1),
        ]
        assert np.zeros_like(huge, "i2", shape=3).dtype == np.int16


@pytest.mark.parametrize("function", [np.zeros_like, np.ones_like, np.empty_like])
def test_arrays_like_ours_are_numpys(pair, function):
    a, _ = pair
    result = function(a, dtype="i2")
    assert type(result) is np.ndarray
    assert (result.shape, result.dtype) == ((5, 4), np.dtype("i2"))
    assert result.flags.writeable
    np.testing.assert_array_equal(np.full_like(a, 3), np.full((5, 4), 3.0))


#: Arguments that suit many functions; `of` makes our array from one of NumPy's.
_ARGUMENTS = [
    lambda of, x: (of(x),),
    lambda of, x: (of(x), of(x)),
    lambda of, x: (of(x), 1),
    lambda of, x: ([of(x), x],),
    lambda of, x: (of(x[0]), of(x[1])),
    lambda of, x: (of(x[0]),),
    lambda of, x: (of(x[0]), of(x[1]), 1),
    lambda of, x: (of(x), [0, 1], 3),
    lambda of, x: (of(x), [3, 0], 1),
    lambda of, x: (of(x), 0, 1),
    lambda of, x: (of(x), (2, 8)),
    lambda of, x: (of(x), (2, 4, 4)),
    lambda of, x: (of(x), of(x > 4), [7.0]),
    lambda of, x: (of(x), [of(x > 4)], [1]),
    lambda of, x: ([of(x > 4)], [of(x)]),
    lambda of, x: (of(x), [-1, 1], [0, 5]),
    lambda of, x: (of(x[:, :3]), of(x[1:, :3])),
    lambda of, x: (of(x.reshape(2, 4, 2)), 2),
    lambda of, x: (of(x + 20 * np.eye(4)),),
    lambda of, x: (of(x.astype("u1")),),
    lambda of, x: (of(x.astype("u1")), "i8"),
    lambda of, x: (of(x[0].astype("u1")), 3),
    lambda of, x: (of(x.astype("M8[D]")),),
    lambda of, x: (of(x.astype("M8[D]")), 0, "forward"),
    lambda of, x: (of(x.astype("M8[D]")), of(x.astype("M8[D]"))),
    lambda of, x: ((of(x.astype(int)), of(x.astype(int))), (9, 9)),
    lambda of, x: (of(x.astype(int) % 2), (of(x), x)),
    lambda of, x: ("x", of(x)),
    lambda of, x: (of(x[0].astype(int)),),
    lambda of, x: (of(np.eye(4).reshape(2, 2, 4) + x[0]), of(x[0].reshape(2, 2))),
    lambda of, x: (of(x[:, :3]), of(x[:, 1:])),
    lambda of, x: (np.sum, of(x), 0),
    lambda of, x: (np.sum, 0, of(x)),
    lambda of, x: ("ij,jk", of(x), of(x)),
    lambda of, x: (of(x), np.zeros((4, 1), int), 2.0, 1),
    lambda of, x: (of(x), np.zeros((4, 1), int), 1),
]

#: Functions that take no arrays; given one of ours as ``like=``, they return NumPy arrays.
_CREATION = {
    "arange": (3,),
    "empty": (0,),
    "eye": (2,),
    "fromfunction": (np.add, (2, 2)),
    "fromiter": ([1], int),
    "full": (2, 3),
    "identity": (2,),
    "ones": (2,),
    "tri": (2,),
    "zeros": (2,),
}


def _overridable():
    """Yield functions that have the protocol, except those of text, records and files."""
    modules = ("numpy", "numpy.fft", "numpy.linalg", "numpy.lib.scimath", "numpy.lib.stride_tricks")
    for function in get_overridable_numpy_array_functions():
        # fromstring takes buffers before NumPy 2.3, and other arguments from 2.5 on.
        of_files = ("frombuffer", "fromfile", "fromstring", "genfromtxt", "loadtxt")
        if function.__module__ in modules and function.__name__ not in of_files:
            yield function


@pytest.mark.slow
def test_no_function_refuses_our_arrays(tmp_path, monkeypatch):
    """All functions with NumPy's protocol answer as they do for NumPy's arrays."""
    monkeypatch.chdir(tmp_path)
    n = np.random.default_rng(3).integers(1, 9, (4, 4)).astype(float)

    def ours(x):
        return xa.from_array(x, chunks=(2,) * np.ndim(x))

    unseen, refused = set(), set()
    for function in _overridable():
        for arguments in _ARGUMENTS:
            expected, _ = outcome(lambda: function(*arguments(np.copy, n)))  # noqa: B023
            got, _ = outcome(lambda: function(*arguments(ours, n)))  # noqa: B023
            answered = not isinstance(expected, Exception)
            if isinstance(got, Exception) and (answered or "no implementation found" in str(got)):
                refused.add((function.__name__, repr(got)))
            if answered:
                break
        else:
            unseen.add(function.__name__)
    assert refused == set()
    assert unseen - _CREATION.keys() == set()


@pytest.mark.parametrize("name", _CREATION)
def test_creation_like_ours_gives_numpys(name):
    function, args = getattr(np, name), _CREATION[name]
    ours = xa.zeros(1)  # must have a name: NumPy's C functions use the array after dropping it
    result = function(*args, like=ours)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, function(*args))


def test_masked_arrays_go_to_numpy(pair):
    a, n = pair
    masked = np.ma.masked_less(n, 0.5)
    result = np.where(masked.mask, a, masked)
    np.testing.assert_array_equal(np.asarray(result)[masked.mask], n[masked.mask])


def test_the_table_of_forms_is_that_of_the_modules():
    """Each function is found by its name, in the module that registers its form."""
    for function, form in dispatch.forms().items():
        module = form.__module__
        if module.startswith("extarray.numpy_api."):
            assert dispatch._FORMS.module(dispatch._name(function)).__name__ == module
    present = {dispatch._name(function) for function in registry.streamed}
    assert set(dispatch._FORMS) - present <= {"cumulative_prod", "cumulative_sum"}  # NumPy 2.1


def test_the_registry():
    calls = []

    def function():
        """Stand for a function without a streamed form."""

    @registry.streams(function)
    def form(x, decline=False):
        calls.append(x)
        return NotImplemented if decline else "streamed"

    try:
        assert dispatch.dispatch(function, [xa.ExtArray], (1,), {}) == "streamed"
        with pytest.raises(TypeError):  # falls back to the function itself
            dispatch.dispatch(function, [xa.ExtArray], (1,), {"decline": True})
        assert calls == [1, 1]
    finally:
        del registry.streamed[function]


# -- documented differences from NumPy -----------------------------------------------------------


@pytest.mark.parametrize("order", ["K", "A"])
@pytest.mark.parametrize("kind", ["C", "F"])
def test_an_array_has_no_order_in_memory(order, kind):
    """Where NumPy follows the memory order, we follow the order of indices."""
    x = np.arange(6).reshape(2, 3)
    a = xa.create(None, (2, 3), x.dtype, order=kind)
    a[...] = x
    assert np.array_equal(a.ravel(order), x.ravel())
    for call in (
        lambda v, o: v.ravel(o),
        lambda v, o: v.flatten(o),
        lambda v, o: np.ravel(v, o),
        lambda v, o: v.copy(o).tobytes("A"),
        *([lambda v, o: v.reshape(2, 3, order=o)] if order == "A" else []),
    ):
        assert np.array_equal(call(a.T, order), call(x.T, "C"))
        assert not np.array_equal(call(x.T, order), call(x.T, "C"))


def test_time_differences_have_an_average():
    times = np.array([1, 2, 4], "m8[s]")
    assert np.average(xa.from_array(times)) == np.mean(times) == np.timedelta64(2, "s")
    with pytest.raises(ValueError, match="timedelta"):  # once this passes, shorten the list
        np.average(times)


@pytest.mark.parametrize(
    "other", [[1, 2, 3], [1.0, 2.0, 3.0], np.array([1, 2, 4], "m8[s]")], ids=str
)
@pytest.mark.parametrize("call", [np.dot, np.inner, np.vdot, np.outer, np.matmul])
def test_products_of_time_differences(call, other):
    times = np.array([1, 2, 4], "m8[s]")
    ours, _ = outcome(lambda: call(xa.from_array(times), other))
    expected, _ = outcome(lambda: call(times, other))
    if isinstance(expected, Exception):
        assert type(ours) is type(expected)
    else:
        assert np.array_equal(ours, expected)
        assert getattr(ours, "dtype", None) == getattr(expected, "dtype", None)


def test_records_that_are_not_zero_are_true():
    records = np.array([(1, 2.0), (3, 4.0), (0, 0.0)], [("x", "i4"), ("y", "f4")])
    a = xa.from_array(records, chunks=2)
    for condition, ours, x in (
        (records, a, records),
        (records, a, np.arange(3)),
        ([True, False, True], [True, False, True], records),
    ):
        expected = np.extract(condition, x)
        assert np.array_equal(np.extract(ours, xa.from_array(x, chunks=2)), expected)
    assert np.array_equal(np.compress(a, a), records[:2])
