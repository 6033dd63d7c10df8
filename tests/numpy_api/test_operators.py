"""Operators equal NumPy's, from both sides and in place."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model import sample
from strategies import built, cases, dtypes
from streaming import compared, numbers, small_boxes

import extarray as xa

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv]
BINARY += [operator.mod, operator.pow, divmod, operator.lt, operator.le, operator.gt, operator.ge]
BINARY += [operator.eq, operator.ne, operator.and_, operator.or_, operator.xor, operator.lshift]
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv]
IN_PLACE += [operator.imod, operator.ipow, operator.iand, operator.ior, operator.ixor]
UNARY = [operator.neg, operator.pos, operator.abs, operator.invert]


@given(data=st.data())
def test_both_sides(memory, data):
    function = data.draw(st.sampled_from(BINARY))
    with built(memory, data.draw(cases(dtypes=numbers, max_ndim=3))) as (array, model):
        other = data.draw(
            st.sampled_from([2, 2.5, np.float32(3), True, None])
            | numbers.map(lambda dtype: sample(dtype, array.shape[-1:], 6))
        )
        if other is None:
            compared(lambda: function(array, array), lambda: function(model.data, model.data))
            return
        expected = model.data
        compared(lambda: function(array, other), lambda: function(expected, other), expected)
        compared(lambda: function(other, array), lambda: function(other, expected), expected)


@given(data=st.data())
def test_in_place(factory, data):
    function = data.draw(st.sampled_from(IN_PLACE))
    with built(factory, data.draw(cases(dtypes=numbers, max_ndim=3))) as (array, model):
        other = data.draw(
            st.sampled_from([3, 2.5, True])  # with 2, NumPy's errors mention square
            | numbers.map(lambda dtype: sample(dtype, array.shape[-1:], 6))
        )
        before = model.data.copy()

        def ours():
            assert function(array, other) is array
            return array.read()

        # In an operator, NumPy's array without axes becomes a scalar.
        compared(ours, lambda: function(model.data, other), before)


@given(data=st.data())
def test_unary(memory, data):
    function = data.draw(st.sampled_from(UNARY))
    with built(memory, data.draw(cases(dtypes=numbers, max_ndim=3))) as (array, model):
        compared(lambda: function(array), lambda: function(model.data))


@given(data=st.data())
def test_equality_of_any_dtype(memory, data):
    """Texts, dates and records; unrelated dtypes are unequal everywhere."""
    with built(memory, data.draw(cases(dtypes=dtypes, max_ndim=2))) as (array, model):
        n = model.data
        other = data.draw(st.sampled_from([n, n[..., :1] if n.ndim else n, 1, "abc", None]))
        for function in (operator.eq, operator.ne):
            compared(lambda: function(array, other), lambda: function(n, other))  # noqa: B023
        compared(lambda: array == array, lambda: n == n)


def test_equality_has_no_hash():
    with pytest.raises(TypeError, match="unhashable"):
        hash(xa.zeros(3))


def test_membership():
    a = xa.from_array(np.arange(20.0).reshape(5, 4), chunks=(2, 3))
    with small_boxes():
        assert 19 in a
        assert 20 not in a
        assert [0, 17, 0, 0] in a  # as in NumPy: any equal element
    assert 3 not in xa.zeros((0, 4))
    assert 3 in xa.full((), 3)


@pytest.mark.parametrize("convert", [bool, int, float, complex, operator.index])
@pytest.mark.parametrize("dtype", ["f8", "i4", "?"])
@pytest.mark.parametrize("shape", [(), (2, 2)])
def test_conversion(convert, dtype, shape):
    n = np.ones(shape, dtype)
    a = xa.from_array(n)
    compared(lambda: convert(a), lambda: convert(n))


@pytest.mark.parametrize("spec", ["", ".2f", ">8", "x"])
@pytest.mark.parametrize("data", [np.array(2.5), np.array(7), np.array("ab")], ids=str)
def test_format(data, spec):
    a = xa.from_array(data)
    compared(lambda: format(a, spec), lambda: format(data, spec))


def test_format_of_many():
    a = xa.ones(1)
    assert f"{a}" == str(a)
    with pytest.raises(TypeError, match="format string"):
        f"{a:.2f}"


def test_the_truth_of_many_is_not_read(path):
    many = "truth value of an array with more than one element"
    with (
        xa.create(path, (2**20, 2**20), "u1", chunks=(2**12, 2**10), sparse=True) as a,
        pytest.raises(ValueError, match=many),
    ):
        bool(a)


@pytest.mark.parametrize("shape", [(4,), (4, 5), (2, 4, 5)])
def test_matmul(shape):
    n = np.arange(float(np.prod(shape))).reshape(shape)
    a = xa.from_array(n, chunks=(2,) * n.ndim)
    other = np.arange(20.0).reshape(5, 4)[: n.shape[-1]]
    compared(lambda: a @ other, lambda: n @ other, n)
    if n.ndim > 1:
        compared(lambda: other @ a, lambda: other @ n, n)


def test_lists_and_scalars_of_numpy_on_the_left():
    a = xa.from_array(np.arange(3.0))
    for left in ([1, 2, 3], np.float32(2), np.arange(3), np.array(5)):
        result = left + a
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, left + np.arange(3.0))


# -- operands whose own operator runs ------------------------------------------------------------


class Prior:
    """An operand without ``__array_ufunc__`` whose priority is above NumPy's."""

    __array_priority__ = 1.0

    def __radd__(self, other):
        return "right", type(other)

    __gt__ = __radd__


class Deaf:
    """An operand that takes no part in ufuncs."""

    __array_ufunc__ = None

    def __radd__(self, other):
        return "right", type(other)


def sparse(values):
    return pytest.importorskip("scipy.sparse").csr_array(values)


GUESTS = {
    "matrix": np.matrix,
    "masked": lambda values: np.ma.masked_equal(values, 2.0),
    "sparse": sparse,
    "memmap": lambda values: np.asarray(values).view(np.memmap),
    "priority": lambda values: Prior(),
    "lower": lambda values: np.float64(2.0),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("guest", GUESTS.values(), ids=GUESTS.keys())
@pytest.mark.parametrize(
    "function",
    [operator.add, operator.mul, operator.matmul, operator.lt, operator.eq, operator.iadd],
)
@pytest.mark.parametrize("side", ["left", "right"])
def test_who_decides(guest, function, side):
    """NumPy leaves the operator to sparse matrices, np.matrix and masked arrays."""
    n = np.array([[1.0, 2.0], [3.0, 4.0]])
    other = guest(n.T)

    def call(array):
        array = array.copy()
        first, second = (array, other) if side == "left" else (other, array)
        try:
            result = function(first, second)
        except (TypeError, ValueError) as error:
            return type(error)
        if function is operator.iadd and isinstance(result, xa.ExtArray):
            assert result is array
            result = result[...]
        return result

    got, expected = call(xa.from_array(n, chunks=1)), call(n)
    assert type(got) is type(expected)
    if isinstance(expected, np.ma.MaskedArray):
        np.testing.assert_array_equal(got.mask, expected.mask)
        np.testing.assert_array_equal(got.data, expected.data)
    elif hasattr(expected, "toarray"):
        np.testing.assert_array_equal(got.toarray(), expected.toarray())
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(got, expected)
    else:
        assert got == expected


def test_none_for_the_protocol_leaves_the_operator():
    assert xa.zeros(3) + Deaf() == ("right", xa.ExtArray)
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.add(xa.zeros(3), Deaf())


def test_who_decides_gets_numpy_arrays_within_limits():
    array = xa.zeros(1000)
    with xa.config.set(max_result=1000), pytest.raises(MemoryError, match="add works on whole"):
        array + Prior()


# -- methods -------------------------------------------------------------------------------------

CALLS = [
    ("all", (), {}),
    ("any", (0,), {}),
    ("argmax", (1,), {}),
    ("argmin", (), {"keepdims": True}),
    ("argsort", (0,), {}),
    ("clip", (3, 9), {}),
    ("clip", (), {"max": 9}),
    ("compress", ([True, False, True], 0), {}),
    ("conj", (), {}),
    ("cumprod", (1,), {}),
    ("cumsum", (), {}),
    ("diagonal", (1,), {}),
    ("dot", (np.arange(4.0),), {}),
    ("flatten", ("F",), {}),
    ("item", (7,), {}),
    ("item", (-1,), {}),
    ("item", (1, 2), {}),
    ("item", ((1, 2),), {}),
    ("item", (), {}),
    ("item", (100,), {}),
    ("max", (0,), {"initial": 3}),
    ("mean", (0,), {"dtype": "f4"}),
    ("min", (), {"keepdims": True}),
    ("nonzero", (), {}),
    ("prod", (1,), {}),
    ("ravel", (), {}),
    ("repeat", (2, 1), {}),
    ("reshape", (4, 5), {}),
    ("reshape", ((2, -1),), {}),
    ("round", (1,), {}),
    ("squeeze", (), {}),
    ("std", (1,), {"ddof": 1}),
    ("sum", (), {}),
    ("swapaxes", (0, 1), {}),
    ("take", ([1, -1], 0), {}),
    ("tobytes", ("F",), {}),
    ("tolist", (), {}),
    ("trace", (), {}),
    ("transpose", (), {}),
    ("transpose", (1, 0), {}),
    ("var", ((0, 1),), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS, ids=lambda x: str(x)[:20])
def test_method(name, args, kwargs):
    n = np.linspace(0, 10, 20).reshape(5, 4)
    a = xa.from_array(n, chunks=(2, 3))
    compared(
        lambda: getattr(a, name)(*args, **kwargs), lambda: getattr(n, name)(*args, **kwargs), n
    )


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.5.0", reason="NumPy 2.5 brought it")
def test_descending():
    n = np.array([[3.0, np.nan, 1], [2, 2, 5]])
    a = xa.from_array(n, chunks=(1, 2))
    compared(lambda: a.argsort(descending=True), lambda: n.argsort(descending=True))
    for array in (a, n):
        array.sort(0, descending=True)
    compared(lambda: a[...], lambda: n)


def test_choices_one_by_one():
    n = np.array([[1, 0, 2], [2, 2, 0]])
    a = xa.from_array(n, chunks=(1, 2))
    choices = (n + 10, [1, 2, 3], 7)
    compared(lambda: a.choose(*choices), lambda: n.choose(*choices))
    compared(lambda: a.choose(choices), lambda: n.choose(choices))
    compared(lambda: a.choose(n, 5, mode="clip"), lambda: n.choose(n, 5, mode="clip"))


@pytest.mark.parametrize("dtype", ["?", "u1", "f4", "c8"])
def test_conjugates_have_the_dtype(dtype):
    n = sample(dtype, (3, 4))
    a = xa.from_array(n, chunks=(2, 2))
    compared(a.conj, n.conj)
    compared(a.conjugate, n.conjugate)


def test_attributes():
    n = sample("c8", (3, 4, 5))
    a = xa.from_array(n, chunks=(2, 2, 2))
    for name in ("T", "mT", "real", "imag"):
        np.testing.assert_array_equal(getattr(a, name)[...], getattr(n, name))


def test_fill():
    a = xa.zeros((3, 4), "i4", chunks=(2, 2))
    a.fill(5)
    assert (a == 5).all()


PARTS = [3, 2.5, 1 + 2j, True, [1, 2, 3, 4], np.arange(12).reshape(1, 3, 4), np.ones((3, 1)) * 1j]
PARTS += [np.arange(5), "text", xa.full((3, 4), 2.5)]


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("values", PARTS, ids=lambda values: str(values).partition("\n")[0][:20])
@pytest.mark.parametrize("name", ["real", "imag"])
@pytest.mark.parametrize("dtype", ["c8", "f8", "i2", "S3"])
def test_parts_of_complex_numbers_are_assigned(dtype, name, values):
    data = np.ones((3, 4), dtype)
    array, other = (xa.from_array(data, chunks=(2, 3)) for _ in range(2))
    twin = np.asarray(values) if isinstance(values, xa.ExtArray) else values
    try:
        setattr(data, name, twin)
    except Exception as error:
        for target in (array, other.T.T):
            with pytest.raises(type(error)):
                setattr(target, name, values)
    else:
        setattr(array, name, values)
        setattr(other.T.T, name, values)
    np.testing.assert_array_equal(array[...], data)
    np.testing.assert_array_equal(other[...], data)
