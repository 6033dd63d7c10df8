"""Reads and writes through the brackets equal NumPy's, in results and errors."""

from __future__ import annotations

import contextlib
from array import array as array_of_c

import numpy as np
import pytest
from compare import assert_same, assert_same_outcome
from hypothesis import given
from hypothesis import strategies as st
from model import sample
from strategies import Index, built, cases, faulty_selections, selections

import extarray as xa


@given(case=cases(), data=st.data())
def test_reading_equals_numpy(factory, case, data):
    with built(factory, case) as (array, model):
        assert_same(array[...], model.data[...])
        for _ in range(4):
            selection = data.draw(selections(model.shape), label="selection")
            assert_same_outcome(lambda s=selection: array[s], lambda s=selection: model.data[s])


@given(case=cases(), data=st.data())
def test_read_equals_the_brackets(factory, case, data):
    """The only difference of `read`: a fully integer index gives a 0-d array."""
    with built(factory, case) as (array, model):
        selection = data.draw(selections(model.shape), label="selection")
        order = data.draw(st.sampled_from("CF"))
        try:
            expected = np.array(model.data[selection], case.dtype)
        except IndexError:
            with pytest.raises(xa.BoundsError):
                array.read(selection)
            return
        got = array.read(selection, order=order)
        assert_same(got, expected)
        assert got.flags[f"{order}_CONTIGUOUS"]
        out = strided_like(expected, data)
        assert array.read(selection, out=out) is out
        assert_same(out, expected)


def strided_like(expected, data):
    """Make an array of the same shape with any strides: transposed, negative, with gaps."""
    axes = data.draw(st.permutations(range(expected.ndim)), label="axes")
    steps = data.draw(st.tuples(*[st.sampled_from([1, 2, -1, -3])] * expected.ndim), label="steps")
    shape = [expected.shape[axis] * abs(steps[axis]) for axis in axes]
    out = np.zeros(shape, expected.dtype).transpose(np.argsort(axes))
    out = out[(*(slice(None, None, step) for step in steps), ...)]
    assert out.shape == expected.shape
    return out


@st.composite
def values_for(draw, shape, dtype):
    """Draw values that mostly broadcast to a shape: axes of length 1, fewer or more axes."""
    sides = [draw(st.sampled_from([n, n, 1])) for n in shape]
    sides = sides[draw(st.integers(0, len(sides))) :]
    sides = [1] * draw(st.sampled_from([0, 0, 0, 1])) + sides
    if sides and draw(st.integers(0, 9)) == 9:
        sides[draw(st.integers(0, len(sides) - 1))] += 1
    values = sample(dtype, tuple(sides), seed=draw(st.integers(0, 99)))
    if values.ndim and draw(st.booleans()):
        values = np.repeat(values, 2, axis=-1)[..., ::-2]
    return values


@given(case=cases(), data=st.data())
def test_assignment_equals_numpy(factory, case, data):
    with built(factory, case) as (array, model):
        for _ in range(3):
            selection = data.draw(selections(model.shape), label="selection")
            with contextlib.suppress(IndexError):
                target = np.shape(model.data[selection])
                values = data.draw(values_for(target, case.dtype), label="values")
                assert_same_outcome(
                    lambda s=selection, v=values: array.__setitem__(s, v),
                    lambda s=selection, v=values: model.data.__setitem__(s, v),
                )
        assert_same(array[...], model.data)


@given(case=cases(), data=st.data())
def test_faulty_selections_fail_as_numpys(factory, case, data):
    with built(factory, case) as (array, model):
        selection = data.draw(faulty_selections(model.shape), label="selection")
        assert_same_outcome(lambda: array[selection], lambda: model.data[selection])
        value = sample(case.dtype, (), 3)
        ours, numpys = array.__setitem__, model.data.__setitem__
        assert_same_outcome(lambda: ours(selection, value), lambda: numpys(selection, value))
        assert_same(array[...], model.data)


numeric = st.sampled_from(["i4", "u1", "f8", ">f4", "c16", "?", "f2", ">i2", "S4", "U3", "M8[D]"])


@given(
    to=numeric,
    value=st.one_of(
        st.integers(-300, 300),
        st.booleans(),
        st.floats(-1e3, 1e3, width=16),
        st.complex_numbers(max_magnitude=9),
        st.sampled_from(["12", "abc", b"7", None, "2001-02-03", np.datetime64("2001-02-03")]),
        st.sampled_from(
            [[1, 2, 3], [[1], [2]], [1, [2]], [], (5, 6, 7), [1.5, 2, 3], ["1", "", "2"]]
        ),
        st.sampled_from([range(3), range(2), array_of_c("d", [1, 2, 3]), memoryview(b"\1\2\3")]),
        st.builds(sample, numeric, st.sampled_from([(), (3,), (2, 1), (2, 3)])),
    ),
    selection=st.sampled_from(
        [..., (0, 1), (slice(None), 1), (1, ...), (0, 1, ...), (-1, slice(0))]
    ),
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
def test_assignment_casts_as_numpys(factory, to, value, selection):
    """Any value that NumPy's assignment accepts, and the same refusal of any other.

    If NumPy refuses halfway, our array stays as it was, not half written.
    """
    with factory.array((2, 3), to, chunks=(2, 2)) as array:
        before = sample(to, (2, 3))
        array[...] = before
        expected = before.copy()
        accepted = assert_same_outcome(
            lambda: array.__setitem__(selection, value),
            lambda: expected.__setitem__(selection, value),
            words=False,
        )
        assert_same(array[...], expected if accepted else before)


@pytest.mark.parametrize("max_memory", ["1 MiB", 48])
def test_assignment_from_overlapping_memory(factory, max_memory):
    """The right side is read before the left is written, in one piece or, if large, in blocks."""
    with (
        factory.array((7, 6), "i4", chunks=(2, 3)) as array,
        xa.config.set(max_memory=max_memory),
    ):

        def check(selection, value, copied):
            expected = array[...]
            expected[selection] = copied
            array[selection] = value
            assert_same(array[...], expected)

        array[...] = sample("i4", (7, 6))
        check(slice(1, None), array[:-1], array[:-1])
        view = array.chunk((0, 0))
        check((slice(0, 2), slice(1, 4)), view, view.copy())
        other_type = array.chunk((1, 0)).view("u4")
        check((slice(3, 5), slice(1, 4)), other_type, other_type.copy())
        check(..., array, array[...])
        check((slice(None, None, -1), slice(None, None, -1)), array, array[...])


@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_out_that_is_a_chunk_of_the_array(factory, dtype):
    with factory.array((2, 6), "i4", chunks=(2, 6)) as array:
        array[...] = expected = sample("i4", (2, 6))
        out = array.chunk((0, 0))
        if dtype == "i8":
            out, expected = out.view(dtype), expected[:, 1::2].astype(dtype)
            array.read((..., slice(1, None, 2)), out=out)
        else:
            expected = expected[:, ::-1].copy()
            array.read((..., slice(None, None, -1)), out=out)
        assert_same(out.copy(), expected)


@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.int64, np.intp, Index])
def test_integers_of_every_kind(factory, kind):
    with factory.array((4, 3), "i4", chunks=(2, 2)) as array:
        expected = sample("i4", (4, 3))
        array[...] = expected
        assert_same(array[kind(3), kind(1)], expected[3, 1])
        assert_same(array[kind(3)], expected[3])
        assert_same(array[kind(1) : kind(3), :: kind(2)], expected[1:3, ::2])
        array[kind(0), kind(2)] = 5
        assert array[0, 2] == 5


OTHER_KINDS = {
    "mask": np.array([True, False, True, False]),
    "mask of rank 2": np.ones((4, 3), bool),
    "list": [0, 1],
    "empty list": [],
    "integer array": np.array([0, 1]),
    "integer array of rank 2": np.array([[0, 1]]),
    "array in a tuple": (slice(None), np.array([0, 1])),
    "list in a tuple": (0, [0, 1]),
    "tuple in a tuple": ((0, 1),),
    "range": range(2),
    "True": True,
    "False in a tuple": (False, 0),
    "numpy True": np.True_,
    "bool of rank 0": np.array(True),
    "field": "x",
    "fields": ["x", "y"],
    "field in a tuple of its own": ("x",),
    "list of lists": [[0, 1], [0, 1]],
    "mask and integer": (np.array([True, False, True, False]), 1),
    "floats": np.array([0.0]),
}


@pytest.mark.parametrize("selection", OTHER_KINDS.values(), ids=OTHER_KINDS.keys())
def test_no_kind_is_taken_for_another(factory, selection):
    dtype = np.dtype([("x", "i4"), ("y", "f4")])
    with factory.array((4, 3), dtype, chunks=(2, 2)) as array:
        array[...] = expected = sample(dtype, (4, 3))
        if not assert_same_outcome(lambda: array[selection], lambda: expected[selection].copy()):
            with pytest.raises(xa.SelectionError):
                array.read(selection)
            with pytest.raises(xa.SelectionError):
                array.write(selection, expected[0, 0])
            return
        value = expected[selection][..., :1].copy()
        assert_same(array.read(selection), np.asarray(expected[selection]).copy())
        array[selection] = value
        expected[selection] = value
        assert_same(array[...], expected)
        array.write(selection, value)
        assert_same(array[...], expected)


@pytest.mark.parametrize("selection", [2**63, -(10**30), (0, 2**70), slice(0, 10**30)])
def test_integers_beyond_63_bits(factory, selection):
    """Such integers are out of bounds; NumPy's classes and messages depend on its version."""
    with factory.array((4, 3), "i4", chunks=(2, 2)) as array:
        array[...] = expected = sample("i4", (4, 3))
        if isinstance(selection, slice):
            assert_same(array[selection], expected[selection])
        else:
            with pytest.raises(xa.BoundsError):
                array[selection]


@pytest.mark.parametrize(
    "selection",
    ["x", b"x", 1.0, (0, 2j), pytest.param(object(), id="object"), {}, {1}, (0, "x")],
    ids=repr,
)
def test_what_is_no_index_at_all(factory, selection):
    with factory.array((4, 3), "i4", chunks=(2, 2)) as array:
        expected = np.zeros((4, 3), "i4")
        assert_same_outcome(lambda: array[selection], lambda: expected[selection])


def test_an_integer_array_of_rank_zero_is_an_integer(factory):
    with factory.array((4, 3), "i4", chunks=(2, 2)) as array:
        array[...] = expected = sample("i4", (4, 3))
        assert_same(array[np.array(2)], expected[2])
        assert_same(array[np.array(2), np.array(-1)], expected[2, -1])


def test_results_are_copies(factory):
    with factory.array((4, 4), "i4", chunks=(2, 4)) as array:
        for selection in (..., slice(0, 2), (0, ...), (1, slice(1, 3)), (1, 1, ...)):
            result = array[selection]
            assert result.flags.writeable
            result[...] = 7
        array.read((0, 0))[...] = 7
        structured = np.zeros((), [("x", "i4")])
        assert not array[...].any()
    with factory.array((2,), structured.dtype, chunks=2) as array:
        array[0]["x"] = 5
        assert array[0]["x"] == 0


class Shown:
    """An object that NumPy converts to an array."""

    def __array__(self, dtype=None, copy=None):
        return np.ones((1, 1, 4))


class Nested:
    """A sequence that is not a list."""

    def __len__(self):
        return 1

    def __getitem__(self, i):
        return [[[1.0, 2, 3, 4]]][i]


DEEP_VALUES = {
    "lists": [[[1.0]]],
    "two lists": [[1.0]],
    "a row in a list": [[1.0, 2, 3, 4]],
    "tuples": (((1.0,),),),
    "an array in a list": [np.ones((1, 4))],
    "an array without axes in a list": [np.array(1.0)],
    "a sequence": Nested(),
    "no elements": [[[]]],
    "an array": np.ones((1, 1, 4)),
    "a matrix": np.ones((1, 4)).view(np.matrix),
    "a masked array": np.ma.ones((1, 1, 4)),
    "memory": memoryview(np.ones((1, 1, 4))),
    "what has __array__": Shown(),
}


@pytest.mark.parametrize("values", DEEP_VALUES.values(), ids=DEEP_VALUES)
@pytest.mark.parametrize(
    "selection",
    [0, np.s_[0, :], np.s_[0, 0], np.s_[0, 0, ...], np.s_[:1], ..., np.s_[None, 0], np.s_[0, ::-1]]
    + [[0, 1], np.s_[[0, 1], [1, 2]], np.arange(12).reshape(3, 4) > 5],
    ids=str,
)
@pytest.mark.parametrize("kind", ["array", "view"])
def test_values_of_more_axes_than_the_selection(kind, selection, values):
    """An array's leading axes of length 1 are dropped; lists are refused."""
    model = np.zeros((3, 4))
    array = xa.from_array(model, chunks=2)
    target = array if kind == "array" else array.lazy[...]
    try:
        model[selection] = values
    except (ValueError, TypeError) as error:
        with pytest.raises(type(error)):
            target[selection] = values
    else:
        target[selection] = values
    assert_same(array[...], model)


def test_lists_that_are_nested_too_deeply_are_named():
    message = r"maximum number of dimension of 1: the lists have shape \(1,1,4\)"
    with pytest.raises(xa.ShapeError, match=message):
        xa.zeros((3, 4))[0] = [[[1, 2, 3, 4]]]


def test_read_casts_into_out_by_same_kind(factory):
    with factory.array((3, 2), "i4", chunks=2) as array:
        array[...] = expected = sample("i4", (3, 2))
        for dtype in ("f8", "i8", ">i4", "i2", "c8"):
            out = np.zeros((3, 2), dtype)
            array.read(out=out)
            assert_same(out, expected.astype(dtype))
        for dtype in ("u4", "?", "M8[s]"):
            with pytest.raises(xa.CastingError, match="same_kind"):
                array.read(out=np.zeros((3, 2), dtype))


def test_read_whole_by_default(factory):
    with factory.array((3, 2), "i4", chunks=2) as array:
        array[...] = expected = sample("i4", (3, 2))
        assert_same(array.read(), expected)


BAD_OUT = {
    "shape": (np.zeros((2, 3)), xa.ShapeError),
    "rank": (np.zeros(6), xa.ShapeError),
    "broadcast": (np.zeros((1, 3, 2)), xa.ShapeError),
    "list": ([[0, 0]] * 3, xa.ArgumentTypeError),
    "read-only": (np.broadcast_to(np.zeros(2), (3, 2)), ValueError),
}


@pytest.mark.parametrize(("out", "error"), BAD_OUT.values(), ids=BAD_OUT.keys())
def test_out_that_cannot_be(factory, out, error):
    with factory.array((3, 2), "f8", chunks=2) as array:
        with pytest.raises(error) as caught:
            array.read(out=out)
        assert isinstance(caught.value, xa.ExtArrayError)


@pytest.mark.parametrize("order", ["A", "K", "c", "Z", "", None, 3])
def test_orders_of_a_result(factory, order):
    with (
        factory.array((3, 2), "f8", chunks=2) as array,
        pytest.raises(xa.ExtArrayError, match="order"),
    ):
        array.read(order=order)


def test_write_is_assignment(factory):
    with factory.array((3, 4), "f4", chunks=2) as array:
        expected = np.zeros((3, 4), "f4")
        assert array.write((slice(None), slice(None, None, -2)), [1, 2]) is None
        expected[:, ::-2] = [1, 2]
        array.write(..., expected + 1)
        assert_same(array[...], expected + 1)
        array.write((1, 2), 9)
        assert array[1, 2] == 9
        with pytest.raises(xa.ShapeError, match="could not broadcast"):
            array.write(slice(0, 2), [1, 2, 3])


def test_array_protocol(factory):
    with factory.array((3, 2), "f8", chunks=2) as array:
        array[...] = expected = sample("f8", (3, 2))
        assert_same(np.asarray(array), expected)
        assert_same(np.asarray(array, dtype="f4"), expected.astype("f4"))
        assert_same(np.array(array, order="F"), expected)
        assert_same(np.asarray(array, copy=True), expected)
        with pytest.raises(ValueError, match="copy"):
            np.asarray(array, copy=False)
        whole = np.asarray(array)
        whole[...] = 0
        assert_same(array[...], expected)


def test_sequence_protocol(factory):
    with factory.array((3, 2), ">i2", chunks=2) as array:
        array[...] = expected = sample(">i2", (3, 2))
        assert len(array) == 3
        rows = list(array)
        assert len(rows) == 3
        for row, other in zip(rows, expected, strict=True):
            assert_same(row, other)
        array.extend(0, 2)
        assert len(array) == len(list(array)) == 5
    with factory.array((3,), "f8", chunks=2) as array:
        for item, other in zip(array, np.zeros(3), strict=True):
            assert_same(item, other)
    with factory.array((), "f8") as array:
        assert_same_outcome(lambda: len(array), lambda: len(np.zeros(())))
        assert_same_outcome(lambda: iter(array), lambda: iter(np.zeros(())))


@pytest.mark.parametrize("order", ["C", "F", "Z", "H"])
@pytest.mark.parametrize("ndim", [0, 1, 5, 16, 32])
def test_ranks(factory, ndim, order):
    shape = (2,) * min(ndim, 5) + (1,) * (ndim - 5)
    chunks = (1, 2, 1, 3, 1)[:ndim] + (1,) * (ndim - 5)
    with factory.array(shape, "u2", chunks=chunks, order=order) as array:
        array[...] = expected = sample("u2", shape)
        if ndim:
            array.extend(-1, 1)
            expected = np.concatenate([expected, np.zeros_like(expected[..., :1])], axis=-1)
        assert array.ndim == ndim
        assert_same(array[...], expected)
        for item in (-1, slice(None, None, -1)):
            assert_same(array[(item,) * ndim], expected[(item,) * ndim])


def test_indices_beyond_32_bits(disk):
    with disk.array((3,), "u1", chunks=2**20, sparse=True) as array:
        array.extend(0, 2**38)
        for power in (31, 32, 36, 37):
            array[2**power] = power
            array[2**power + 1 : 2**power + 3] = [1, 2]
        assert array[2**37] == array[-(2**37) - 3] == 37
        assert array[2**36 : 2**36 + 4].tolist() == [36, 1, 2, 0]
        assert array[:: 2**36].tolist() == [0, 36, 37, 0, 0]
        assert array[2**37 : 0 : -(2**36)].tolist() == [37, 36]
        assert_same_outcome(
            lambda: array[2**39], lambda: np.broadcast_to(np.uint8(0), array.shape)[2**39]
        )


@pytest.mark.parametrize("count", [32, 64, 65])
def test_many_new_axes(factory, count):
    """NumPy allows 64 axes."""
    with factory.array((3,), "i4", chunks=2) as array:
        expected = np.zeros(3, "i4")
        selection = (None,) * (count - 1) + (slice(None),)
        assert_same_outcome(lambda: array[selection], lambda: expected[selection])


def test_patterns_of_sequences(factory):
    """Arrays match patterns of sequences, as NumPy's do from 2.5 on."""
    with factory.array((3, 2), "i4", chunks=2) as array:
        array[...] = data = np.arange(6, dtype="i4").reshape(3, 2)
        match array:
            case [first, *rest]:
                assert_same(first, data[0])
                assert_same(np.array(rest), data[1:])
            case _:
                raise AssertionError("no sequence")
        match array:
            case [_, _]:
                raise AssertionError("three rows taken for two")
