"""astype: an array read late in another dtype computes as NumPy does."""

from __future__ import annotations

import operator
import pickle

import numpy as np
import pytest
from compare import assert_same, assert_same_outcome
from hypothesis import given
from hypothesis import strategies as st
from strategies import built, cases, dtypes, selections

import extarray as xa

KINDS = ["f4", "f8", ">i2", "u1", "?", "c16", "S", "U", "S4", "M8[D]", "M8", "m8[s]", "i8", object]


@pytest.fixture
def pair(factory):
    data = np.linspace(-20, 20, 42).reshape(7, 6)
    with factory.array((7, 6), chunks=(3, 4)) as array:
        array[...] = data
        yield array, data


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:Casting complex")
@given(case=cases(), dtype=st.sampled_from(KINDS) | dtypes, data=st.data())
def test_all_that_is_read_is_as_numpys(factory, case, dtype, data):
    with built(factory, case) as (array, model):
        try:
            expected = model.data.astype(dtype)
        except Exception as error:
            with pytest.raises(type(error)):
                np.asarray(array.astype(dtype))
            return
        # Text lengths must not depend on the elements, as that would need a read of them.
        kind = np.empty(0, case.dtype).astype(dtype).dtype
        if kind != expected.dtype:
            return
        late = array.astype(dtype)
        assert (late.shape, late.dtype, late.ndim) == (expected.shape, kind, expected.ndim)
        assert (late.size, late.itemsize, late.nbytes) == (
            expected.size,
            expected.itemsize,
            expected.nbytes,
        )
        assert np.asarray(late).dtype == kind
        if kind.hasobject:
            assert repr(np.asarray(late)) == repr(expected)
            return
        assert_same(np.asarray(late), expected)
        selection = data.draw(selections(array.shape))
        assert_same_outcome(lambda: late[selection], lambda: expected[selection])


def test_as_h5pys_dataset(memory, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file, memory.array((4, 3), "f8") as array:
        array[...] = np.arange(12).reshape(4, 3) / 2
        dataset = file.create_dataset("x", data=array[...])
        for kind in ("f4", "i2"):
            for selection in [np.s_[1:3], np.s_[0, 1], np.s_[:, ::2], np.s_[...]]:
                expected = dataset.astype(kind)[selection]
                assert_same(array.astype(kind)[selection], expected)


EXPRESSIONS = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(axis=0),
    "max": lambda x: x.max(),
    "+ 1": lambda x: x + 1,
    "1 -": lambda x: 1 - x,
    "-": lambda x: -x,
    "<": lambda x: x < 0,
    "==": lambda x: x == x,
    "@": lambda x: x @ x.T,
    "sqrt": lambda x: np.sqrt(x * x),
    "where": lambda x: np.where(x > 0, x, 0),
    "concatenate": lambda x: np.concatenate([x, x]),
    "asarray": lambda x: np.asarray(x),
    "asarray of a dtype": lambda x: np.asarray(x, "f8"),
    "len": lambda x: len(x),
    "list": lambda x: np.array(list(x)),
    "in": lambda x: 20 in x,
    "reshape": lambda x: x.reshape(-1),
    "copy": lambda x: x.copy(),
    "astype": lambda x: np.asarray(x.astype("i4").astype("f8")),
    "astype now": lambda x: x.astype("i4", copy=False),
    "T": lambda x: np.asarray(x.T),
    "tolist": lambda x: x.tolist(),
    "float of one": lambda x: float(x[0, 0]),
}


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS.keys())
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_it_computes_as_an_array(pair, expression, dtype):
    array, data = pair
    got, expected = expression(array.astype(dtype)), expression(data.astype(dtype))
    if isinstance(expected, np.ndarray | np.generic):
        assert got.dtype == expected.dtype
        assert np.allclose(got, expected, rtol=1e-5)
    else:
        assert got == expected


WITH_INTEGERS = ["ilshift", "irshift", "iand", "ior", "ixor"]
WITH_FLOATS = ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"]


@pytest.mark.parametrize("name", [*WITH_INTEGERS, *WITH_FLOATS])
def test_in_place_operators_make_it_an_array(pair, name):
    array, data = pair
    operate = getattr(operator, name)
    dtype, other = ("i4", 3) if name in WITH_INTEGERS else ("f4", np.float64(2.5))
    if name == "imatmul":
        other = np.eye(6)

    def change(x):
        y = x.astype(dtype)
        y = operate(y, other)
        assert type(y) is np.ndarray
        return y

    with np.errstate(invalid="ignore"):
        assert_same_outcome(lambda: change(array), lambda: change(data), words=False)
    assert (array[...] == data).all()


@pytest.mark.thread_unsafe(reason="changes the array of a fixture")
def test_it_reads_late(pair):
    array, data = pair
    late = array.astype("f4")
    now = array.astype("f4", copy=True)
    array[0, 0] = 77
    array.extend(0, 1)
    assert late[0, 0] == 77
    assert late.shape == (8, 6)
    assert_same(now, data.astype("f4"))


def test_arguments_about_memory_give_arrays(pair):
    array, data = pair
    for options in [{"copy": True}, {"copy": False}, {"order": "K"}, {"order": "C"}]:
        assert_same(array.astype("f4", **options), data.astype("f4"))
        assert array.astype("f4", **options).flags.writeable
    assert array.astype("f4", "F").flags.f_contiguous
    assert array.astype("f8", copy=False).base is None
    with xa.config.set(max_result=100), pytest.raises(xa.ResultError, match="is lazy"):
        array.astype("f4", copy=True)
    with xa.config.set(max_result=100):
        assert array.astype("f4").sum() == pytest.approx(0, abs=1e-4)


def test_it_is_not_written_to(pair):
    array, data = pair
    late = array.astype("f4")
    with pytest.raises(xa.ReadOnlyError, match="copy=True"):
        late[0] = 1
    with pytest.raises(ValueError, match="is read-only"):
        late[late > 0] = 1
    with pytest.raises(xa.ReadOnlyError):
        np.add(array, 1, out=late)
    assert (array[...] == data).all()


def test_casting_rules(pair):
    array, data = pair
    for casting in ["no", "equiv", "safe", "same_kind", "unsafe"]:
        for dtype in ["i4", "f4", "f8", ">f8", "c16"]:
            assert_same_outcome(
                lambda d=dtype, c=casting: np.asarray(array.astype(d, casting=c)),
                lambda d=dtype, c=casting: data.astype(d, casting=c),
            )
    with pytest.raises(xa.CastingError):
        array.astype("i4", casting="safe")


def test_fields(memory):
    with memory.array(3, [("x", "i4"), ("y", "f8")]) as array:
        array[...] = [(1, 2), (3, 4), (5, 6)]
        to = np.dtype([("x", "f4"), ("y", "i2")])
        assert_same(array.astype(to)["x"], array[...].astype(to)["x"])
        assert_same(array.astype(to)[1:], array[...].astype(to)[1:])


def test_a_scalar_array(memory):
    with memory.array((), fill_value=2.5) as array:
        late = array.astype("i2")
        assert_same(late[()], np.int16(2))
        assert_same(late[...], np.array(2, "i2"))
        assert int(late) == 2
        for call in (len, iter):
            with pytest.raises(TypeError):
                call(late)


def test_it_says_what_it_is(pair):
    array, _ = pair
    assert repr(array.astype("f4")) == f"<extarray.AsType: float32 of {array!r}>"
    with pytest.raises(TypeError, match="unhashable"):
        hash(array.astype("f4"))


def test_it_is_pickled_with_its_array(pair):
    array, data = pair
    got = pickle.loads(pickle.dumps(array.astype("f4")))
    assert_same(got[...], data.astype("f4"))


def test_a_closed_array(factory):
    with factory.array(3) as array:
        late = array.astype("f4")
        array.close()
        for call in (lambda: array.astype("f4"), lambda: late[0], lambda: np.asarray(late)):
            with pytest.raises(xa.ClosedError):
                call()


def test_dlpack(memory):
    with memory.array((3, 4), "i4", chunks=(2, 2)) as a:
        a[...] = np.arange(12).reshape(3, 4)
        late = a.astype("f4")
        np.testing.assert_array_equal(np.from_dlpack(late), np.arange(12, dtype="f4").reshape(3, 4))
        with pytest.raises(BufferError, match="cast when read"):
            late.__dlpack__(copy=False)
