"""Ufuncs: calls on mixed operands, into any output, and the other methods."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from compare import assert_same
from hypothesis import given
from hypothesis import strategies as st
from model import sample
from strategies import built, cases, chunk_shapes
from streaming import compared, masks, numbers, outcome, small_boxes

import extarray as xa

BINARY = [np.add, np.multiply, np.maximum, np.divmod, np.less, np.logical_or, np.true_divide]
BINARY += [np.power, np.arctan2, np.bitwise_and, np.subtract, np.left_shift]
UNARY = [np.sqrt, np.negative, np.modf, np.frexp, np.isnan, np.absolute, np.invert, np.conjugate]


@st.composite
def partners(draw, shape):
    """Draw another operand for an array of a shape: (ours, NumPy's)."""
    kind = draw(st.sampled_from(["python", "scalar", "array", "ours", "list"]))
    if kind == "python":
        value = draw(st.sampled_from([2, 2.5, True, -1, 300, 1j]))
        return value, value
    dtype = draw(numbers)
    if kind == "scalar":
        value = sample(dtype, (), 4)[()]
        return value, value
    own = tuple(draw(st.sampled_from([n, n, 1])) for n in shape[draw(st.integers(0, 1)) :])
    values = sample(dtype, own, 4)
    if kind == "list":
        return values.tolist(), values.tolist()
    if kind == "array":
        return values, values
    stored = xa.create(None, own, dtype, chunks=draw(chunk_shapes(len(own))))
    stored[...] = values
    return stored, values


@given(data=st.data())
def test_binary(factory, data):
    """With another array in any chunks, or scalars, on either side."""
    ufunc = data.draw(st.sampled_from(BINARY))
    with built(factory, data.draw(cases(dtypes=numbers, max_ndim=3))) as (array, model):
        ours, numpys = data.draw(partners(array.shape))
        pair, expected = (array, ours), (model.data, numpys)
        if data.draw(st.booleans()):
            pair, expected = pair[::-1], expected[::-1]
        compared(lambda: ufunc(*pair), lambda: ufunc(*expected), model.data)


@given(data=st.data())
def test_unary(memory, data):
    ufunc = data.draw(st.sampled_from(UNARY))
    with built(memory, data.draw(cases(dtypes=numbers, max_ndim=3))) as (array, model):
        compared(lambda: ufunc(array), lambda: ufunc(model.data), model.data)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("ufunc", [np.isnan, np.isfinite])
def test_predicates_into_boxes_whose_elements_are_apart(ufunc, dtype):
    """NumPy's own predicates fill wrong places of such outputs."""
    values = np.where(np.arange(40 * 9) % 3, 1, np.nan).reshape(40, 9).astype(dtype)
    expected = ufunc(values)
    a = xa.from_array(values, chunks=(40, 8))
    out = xa.create(None, (40, 9), "?", chunks=(20, 4), order="F")
    with small_boxes(512 * values.itemsize):
        np.testing.assert_array_equal(ufunc(a), expected)
        np.testing.assert_array_equal(ufunc(a.T), expected.T)
        np.testing.assert_array_equal(ufunc(a, out=out), expected)
        np.testing.assert_array_equal(ufunc(a, out=np.empty((9, 40), bool).T), expected)
        where = np.arange(9) % 2 == 0
        ufunc(a, out=out, where=where, casting="no")
        np.testing.assert_array_equal(out, expected)
        kept = np.full((40, 18), 7.0)
        ufunc(a, out=kept[:, ::2], where=where)
        np.testing.assert_array_equal(kept[:, ::2], np.where(where, expected, 7))
        assert (kept[:, 1::2] == 7).all()


@given(data=st.data())
def test_into_out(factory, data):
    """Outputs of ours and NumPy's; some may be left out."""
    ufunc = data.draw(st.sampled_from([np.add, np.multiply, np.true_divide, np.less]))
    with built(factory, data.draw(cases(dtypes=numbers, max_ndim=3))) as (array, model):
        ours, numpys = data.draw(partners(array.shape))
        dtype = data.draw(numbers)
        first = sample(dtype, array.shape, 8)
        expected, got = first.copy(), first.copy()
        options = {
            "where": data.draw(masks(array.shape)),
            "casting": data.draw(st.sampled_from(["same_kind", "unsafe", "safe"])),
        }
        with factory.array(array.shape, dtype, chunks=data.draw(chunk_shapes(array.ndim))) as out:
            out[...] = first

            def into(target):
                assert ufunc(array, ours, out=target, **options) is target
                return target[...]

            def numpy_into():
                ufunc(model.data, numpys, out=expected, **options)
                return expected[...]

            compared(lambda: into(got), numpy_into, model.data)
            expected[...] = first
            compared(lambda: np.asarray(into(out)), lambda: np.asarray(numpy_into()), model.data)


@given(data=st.data())
def test_in_place(factory, data):
    """The array is operand and output, even if another operand shares its elements."""
    with built(factory, data.draw(cases(dtypes=numbers, min_ndim=1, max_ndim=3))) as (array, model):
        flipped = data.draw(st.booleans())
        ours = array[::-1] if flipped else array
        numpys = model.data[::-1].copy() if flipped else model.data

        def add():
            np.add(array, ours, out=array)
            return array[...]

        compared(add, lambda: np.add(model.data, numpys, out=model.data), model.data)


def test_several_outputs():
    n = np.linspace(-3, 3, 30).reshape(5, 6)
    a = xa.from_array(n, chunks=(2, 2))
    whole = xa.zeros((5, 6), chunks=(3, 4))
    fraction, result = np.modf(a, out=(None, whole))
    assert result is whole
    np.testing.assert_array_equal(fraction, np.modf(n)[0])
    np.testing.assert_array_equal(whole[...], np.modf(n)[1])


def test_a_view_of_a_chunk_as_operand_and_output():
    a = xa.from_array(np.arange(12.0).reshape(4, 3), chunks=(2, 3))
    with small_boxes():
        np.add(a[:2], a.chunk((0, 0))[::-1], out=a.chunk((0, 0)))
        np.testing.assert_array_equal(a[:2], [[3, 5, 7], [3, 5, 7]])
        np.add(a, a.chunk((0, 0))[:1], out=a)
    np.testing.assert_array_equal(a[...], [[6, 10, 14], [6, 10, 14], [9, 12, 15], [12, 15, 18]])


def test_the_same_file_opened_twice(disk):
    with disk.array((6, 5), chunks=(2, 2)) as a:
        a[...] = np.arange(30).reshape(6, 5)
        expected = a[...] + a[:1]
        with disk.open(a) as reader, small_boxes():
            first = reader[:1]
            np.add(reader, first, out=a)
        np.testing.assert_array_equal(a[...], expected)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.add(x, np.ones(3)),
        lambda x: np.add(x, x, out=np.zeros((2, 2))),
        lambda x: np.add(x, x, out=np.zeros((1, 5, 4))),
        lambda x: np.add(x, 1, out=np.zeros((5, 4), "i4")),
        lambda x: np.add(x, 1, where=np.ones(3, bool)),
        lambda x: np.add(x, 1, where=np.ones(4)),
        lambda x: np.add(x, 1, dtype="i4"),
        lambda x: np.add(x, 1, casting="nonsense"),
        lambda x: np.add(x, 1, spam=1),
        lambda x: np.bitwise_and(x, x),
        lambda x: np.add(x, object()),
        lambda x: np.add.reduce(x, axis=5),
        lambda x: np.subtract.reduce(x, axis=(0, 1)),
        lambda x: np.matmul(x, x),
        lambda x: np.sqrt(x, axis=1),
    ],
)
def test_refused_as_numpy_does(call):
    n = np.arange(20.0).reshape(5, 4)
    a = xa.from_array(n, chunks=(2, 2))
    compared(lambda: call(a), lambda: call(n))


def test_refused_before_anything_changes():
    a = xa.from_array(np.arange(20).reshape(5, 4), chunks=(2, 2))
    before = a[...]
    with pytest.raises(TypeError, match="Cannot cast ufunc 'add' output"):
        a += 1.5
    with pytest.raises(ValueError, match="could not be broadcast|doesn't match"):
        a += np.ones((2, 5, 4), int)
    with pytest.raises(OverflowError):
        np.add(a.copy(), 2**70, out=a)
    np.testing.assert_array_equal(a[...], before)


def test_a_read_only_array_is_no_output(disk):
    with disk.array((5, 4), chunks=(2, 2)) as a, disk.open(a) as reader:
        with pytest.raises(xa.ReadOnlyError):
            reader += 1
        assert not a[...].any()


def test_warnings_and_errstate_reach_the_threads():
    a = xa.from_array(np.zeros((50, 50)), chunks=(5, 5))
    with small_boxes(512):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            1 / a
        with np.errstate(divide="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            1 / a
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            1 / a


def test_each_warning_comes_once():
    """Each warning comes once, as in NumPy, for any number of boxes, and names the user's line."""
    a = xa.from_array(np.arange(2500.0).reshape(50, 50) % 3, chunks=(5, 5))
    with small_boxes(512), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.divide(a[...], np.zeros_like(a), out=a)
        assert len(caught) == 2
        np.divide(xa.ones((50, 50), chunks=(5, 5)), xa.zeros((50, 50), chunks=(5, 5)), out=a)
        np.log(xa.zeros((50, 50), chunks=(5, 5)))
        np.add.reduce(xa.from_array(np.tile([np.inf, -np.inf], 500), chunks=(50,)))
        np.cov(xa.from_array(np.full((2, 100), np.inf), chunks=(2, 10)))
    texts = [str(warning.message) for warning in caught]
    assert texts[2:5] == [
        "divide by zero encountered in divide",
        "divide by zero encountered in log",
        "invalid value encountered in reduce",
    ]
    assert len(set(texts[5:])) == len(texts[5:]) > 0
    assert {warning.filename for warning in caught[2:5]} == {__file__}


def test_what_else_errstate_asks_for():
    """A log and a user's function, beside kinds for which NumPy warns."""
    a = xa.from_array(np.tile([0.0, -1.0], 50), chunks=(5,))
    told = []

    class Log:
        def write(self, message):
            told.append(message)

    with small_boxes(), np.errstate(divide="log", invalid="warn", call=Log()):
        with pytest.warns(RuntimeWarning, match="invalid value encountered in log") as caught:
            np.log(a)
        assert len(caught) == 1
    assert set(told) == {"Warning: divide by zero encountered in log\n"}
    told.clear()
    with small_boxes(), np.errstate(divide="call", call=lambda kind, _: told.append(kind)):
        with pytest.warns(RuntimeWarning, match="invalid value"):
            np.log(a)
        assert set(told) == {"divide by zero"}


@pytest.mark.invariant("I9")
def test_masked_elements_are_not_touched(disk):
    """Masked elements are not even rewritten: others may write them meanwhile (I9)."""
    with disk.array((4, 6), chunks=(2, 3)) as a, disk.open(a, mode="r") as reader:
        mask = np.zeros((4, 6), bool)
        mask[1, 2] = mask[3, 5] = True
        np.add(reader, 5, out=a, where=mask)
        np.testing.assert_array_equal(a[...], 5.0 * mask)


# -- methods -------------------------------------------------------------------------------------


@given(data=st.data())
def test_outer(memory, data):
    with built(memory, data.draw(cases(dtypes=numbers, max_ndim=2))) as (array, model):
        ours, numpys = data.draw(partners(array.shape[:1]))
        ufunc = data.draw(st.sampled_from([np.add, np.multiply, np.divmod]))
        compared(lambda: ufunc.outer(array, ours), lambda: ufunc.outer(model.data, numpys))
        compared(lambda: ufunc.outer(ours, array), lambda: ufunc.outer(numpys, model.data))


@pytest.mark.parametrize(
    "indices",
    [
        [0, 0, 3, 0],
        np.array([[4, 4], [1, -1]]),
        ([0, 0, 2], [1, 1, 3]),
        (slice(None), [0, 0, 1]),
        np.arange(20).reshape(5, 4) % 3 == 0,
        2,
        (..., 1),
        [],
    ],
    ids=str,
)
def test_at(indices):
    n = np.arange(20.0).reshape(5, 4)
    a = xa.from_array(n, chunks=(2, 3))
    np.add.at(n, indices, 2.5)
    with small_boxes():
        np.add.at(a, indices, 2.5)
    np.testing.assert_array_equal(a[...], n)
    np.negative.at(n, indices)
    with small_boxes():
        np.negative.at(a, indices)
    np.testing.assert_array_equal(a[...], n)


def test_at_with_values_that_broadcast():
    n = np.zeros((6, 5))
    a = xa.zeros((6, 5), chunks=(4, 2))
    values = np.arange(15.0).reshape(3, 5)
    np.add.at(n, [1, 1, 5], values)
    np.add.at(a, [1, 1, 5], values)
    np.testing.assert_array_equal(a[...], n)


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "c16", ">f8"])
@pytest.mark.parametrize(
    "shape", [(5,), (1,), (), (3, 1), (1, 5), (3, 5), (4,), (0,), (2, 1), (1, 3, 5)], ids=str
)
def test_at_gives_each_element_its_value(shape, dtype):
    n = np.arange(30.0).reshape(6, 5).astype(dtype)
    a = xa.from_array(n, chunks=(4, 2))
    values = np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    got, _ = outcome(lambda: np.add.at(a, [1, -1, 1], values))
    expected, _ = outcome(lambda: np.add.at(n, [1, -1, 1], values))
    assert str(got) == str(expected)
    assert expected is None or isinstance(got, type(expected))
    np.testing.assert_array_equal(a[...], n)


def test_at_refuses_dtypes_before_places():
    n = np.zeros((0, 3))
    a = xa.from_array(n)
    compared(lambda: np.bitwise_or.at(a, [0], 1), lambda: np.bitwise_or.at(n, [0], 1))


def test_accumulate_into_more_axes():
    n, out = np.arange(6.0).reshape(2, 3), np.zeros((2, 3, 1))
    a, ours = xa.from_array(n, chunks=2), xa.zeros((2, 3, 1))
    compared(lambda: np.cumsum(a, 0, out=ours)[...], lambda: np.cumsum(n, 0, out=out))


@pytest.mark.parametrize("dtype", ["M8[ns]", "m8[s]", ">M8[D]", ">f8", "f2"])
def test_reduceat_of_any_dtype(dtype):
    n = np.arange(20).reshape(5, 4).astype(dtype)
    a = xa.from_array(n, chunks=2)
    compared(lambda: np.maximum.reduceat(a, [0, 3], 0), lambda: np.maximum.reduceat(n, [0, 3], 0))


@pytest.mark.parametrize("where", [[1, 0, 2, 0], [[1], [0], [1]], 1, None, "", [[[True]]], (1, 2)])
def test_a_mask_is_what_is_true(where):
    n = np.arange(12.0).reshape(3, 4)
    a, out = xa.from_array(n, chunks=2), np.zeros((3, 4))
    compared(
        lambda: np.negative(a, where=where, out=xa.zeros((3, 4)))[...],
        lambda: np.negative(n, where=where, out=out),
    )
    compared(lambda: np.add.reduce(a, where=where), lambda: np.add.reduce(n, where=where))


@pytest.mark.parametrize("indices", [[7], [0.5], ([0], [0], [0])])
def test_at_refused_as_numpy_does(indices):
    n = np.zeros((6, 5))
    a = xa.from_array(n, chunks=(4, 2))
    compared(partial(np.add.at, a, indices, 1), partial(np.add.at, n, indices, 1))


# -- operands of other libraries -----------------------------------------------------------------


def test_masked_arrays_keep_their_masks():
    a = xa.from_array(np.arange(6.0).reshape(2, 3), chunks=(1, 2))
    masked = np.ma.masked_less(np.arange(3.0), 1)
    for result in (np.add(a, masked), np.add(masked, a)):
        assert isinstance(result, np.ma.MaskedArray)
        assert result.mask[:, 0].all()


class Labelled(np.ndarray):
    """A subclass whose elements may mean anything: NumPy handles calls with it."""


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda x, y, out: np.add(x, y, out=out), (3, 3)),
        (lambda x, y, out: np.add(x, y, out), (3, 3)),
        (lambda x, y, out: np.modf(x, out=(None, out))[1], (3, 3)),
        (lambda x, y, out: np.add.reduce(x, axis=1, out=out), (3,)),
        (lambda x, y, out: np.add.accumulate(x, out=out), (3, 3)),
        (lambda x, y, out: np.add.reduceat(x, [0, 2], out=out), (2, 3)),
        (lambda x, y, out: np.multiply.outer(x, y[0], out=out), (3, 3, 3)),
        (lambda x, y, out: np.subtract.reduce(x, out=out), (3,)),
        (lambda x, y, out: np.sum(x, axis=0, out=out), (3,)),
        (lambda x, y, out: np.sum(x, 0, None, out), (3,)),
        (lambda x, y, out: np.matmul(x, y, out=out, dtype="f8"), (3, 3)),
        (lambda x, y, out: np.matmul(x, y, out=out, axes=[(1, 0), (0, 1), (0, 1)]), (3, 3)),
        (lambda x, y, out: np.vecdot(x, y, axis=0, out=out), (3,)),
        (lambda x, y, out: np.linalg.svd(x) and np.dot(x, y, out), (3, 3)),
    ],
)
@pytest.mark.parametrize("kind", [np.ndarray, Labelled, np.ma.MaskedArray])
def test_outputs_that_numpy_fills(call, shape, kind):
    """Even if arrays are read whole, the output is written and returned."""
    n = np.arange(9.0).reshape(3, 3) + np.eye(3)
    expected = np.zeros(shape)
    call(n, n, expected)
    given = n.view(kind)
    for operands in ((xa.from_array(n, chunks=(2, 2)), given), (given, given), (given, n)):
        out = xa.zeros(shape, chunks=(2,) * len(shape))
        assert call(*operands, out) is out
        np.testing.assert_array_equal(out[...], expected)


@pytest.mark.parametrize("name", ["matvec", "vecmat"])
def test_generalised_ufuncs_fill_an_output(name):
    function = getattr(np, name, None)
    if function is None:
        pytest.skip("this NumPy does not have the function")
    n = np.arange(9.0).reshape(3, 3)
    operands = (n, np.ones(3)) if name == "matvec" else (np.ones(3), n)
    out = xa.zeros(3)
    assert function(*map(xa.from_array, operands), out=out) is out
    np.testing.assert_array_equal(out[...], function(*operands))


def test_in_place_with_arrays_that_go_to_numpy():
    a = same = xa.zeros(3)
    same += np.ma.ones(3)
    assert same is a
    np.testing.assert_array_equal(a[...], 1)
    np.add.at(a, [0, 1], np.ma.ones(2))
    np.testing.assert_array_equal(a[...], [2, 2, 1])


class Foreign:
    """Another package's array, which can work with ours."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return "foreign"

    def __array_function__(self, function, types, args, kwargs):
        return "foreign"


def test_foreign_arrays_have_their_way():
    a = xa.zeros((2, 3))
    assert np.add(a, Foreign()) == "foreign"
    assert a + Foreign() == "foreign"
    assert np.concatenate([a, Foreign()]) == "foreign"
    assert np.where(a, Foreign(), 0) == "foreign"


def _through(view, way):
    """Return a view of a chunk as another library returns it, with a base that is not ours."""
    if way == "buffer":
        return np.asarray(memoryview(view))
    if way == "dlpack":
        return np.from_dlpack(view)
    return np.ndarray(view.shape, view.dtype, view.data)


@pytest.mark.parametrize("way", ["buffer", "dlpack", "ndarray"])
def test_a_view_of_a_chunk_that_went_through_another_library(factory, way):
    n = np.arange(16.0).reshape(4, 4)
    with factory.array((4, 4), chunks=(4, 4)) as a, xa.config.set(max_memory=16):
        a[...] = n
        chunk = _through(a.chunk((0, 0)), way)
        if not chunk.flags.writeable:
            pytest.skip("np.from_dlpack gives read-only arrays before NumPy 2.1")
        np.add(chunk.T, 0, out=a)
        assert_same(a[...], n.T.copy())
        np.add(a.lazy[::-1], 0, out=chunk)
        assert_same(a[...], n.T[::-1].copy())


def test_a_view_of_a_chunk_of_another_handle(disk):
    """A reader and a writer of one file, in one process, are two mappings of it."""
    n = np.arange(6.0)
    with disk.array((6,), chunks=(6,)) as a, disk.open(a) as reader:
        view = reader.chunk((0,))
        for selection in ([1, 2, 3, 4, 5], np.s_[1:], np.arange(6) > 0):
            a[...] = n
            a[selection] = view[:-1]
            assert_same(a[...], np.array([0.0, 0, 1, 2, 3, 4]))
        a[...] = n
        with xa.config.set(max_memory=16):
            np.add(view[::-1], 0, out=a)
        assert_same(a[...], n[::-1].copy())
        # A chunk of an old window.
        old = a.chunk((0,))
        a.extend(0, 60)
        a.chunk((10,))
        a[:6] = n
        a[1:6] = old[:-1]
        assert_same(a[:6], np.array([0.0, 0, 1, 2, 3, 4]))
