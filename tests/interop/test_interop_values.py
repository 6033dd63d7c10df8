"""NumPy's values as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from compare import same_values
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import extarray as xa
from extarray.interop.values import decode, decode_array, encode, encode_array

dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(sizes=(64, 128)),
    hnp.datetime64_dtypes(max_period="m", min_period="ns"),
    hnp.timedelta64_dtypes(),
)


def through_json(value):
    return json.loads(json.dumps(value, allow_nan=False))


@given(dtypes.flatmap(lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=0, min_side=0))))
def test_arrays_come_back(x):
    got = decode_array(through_json(encode_array(x)))
    assert got.dtype == x.dtype
    assert got.shape == x.shape
    if x.dtype.kind in "fc":
        # Not every NaN is the same, bit for bit.
        np.testing.assert_array_equal(got, x)
        zero = x == 0
        assert (np.signbit(got.real) == np.signbit(x.real))[zero].all()
    else:
        assert same_values(got, x)


@pytest.mark.parametrize(
    "x",
    [
        np.array(["", "ä", "two words"]),
        np.array([[b"a", b"\xff\x00b"]]),
        np.array(b"ab"),
        np.zeros((2, 0), "U3"),
    ],
)
def test_texts_come_back(x):
    got = decode_array(through_json(encode_array(x)))
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, x)


@pytest.mark.parametrize("x", [np.zeros(2, "O"), np.zeros(2, "i4,f8"), np.zeros(2, "V3")])
def test_other_dtypes_are_refused(x):
    with pytest.raises(xa.DTypeError):
        encode_array(x)


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 2**70, 0.5, "mm", [], [1, "a", None], {}, {"a": [1, {"b": 2.5}]}],
)
def test_what_json_has_stays(value):
    assert encode(value) == value
    assert decode(through_json(encode(value))) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int64(3), 3),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        ((1, 2), [1, 2]),
        (np.float32(0.1), np.float32(0.1)),
        (np.uint8(255), np.uint8(255)),
        (b"ab", np.bytes_(b"ab")),
        (1 + 2j, np.complex128(1 + 2j)),
        (float("-inf"), np.float64("-inf")),
        (np.datetime64("2024-05-01"), np.datetime64("2024-05-01")),
        ([np.int8(1)], [np.int8(1)]),
    ],
)
def test_attributes(value, expected):
    got = decode(through_json(encode(value)))
    assert got == expected
    assert type(got) is type(expected)


def test_arrays_as_attributes():
    got = decode(through_json(encode({"a": np.arange(3, dtype="i2"), "b": np.array(["x"], "O")})))
    assert got["a"].dtype == "i2"
    assert got["a"].tolist() == [0, 1, 2]
    assert got["b"] == ["x"]


@pytest.mark.parametrize("value", [object(), {1: 2}, {"a": {(1,): 2}}, [set()]])
def test_no_attribute(value):
    with pytest.raises(xa.ArgumentTypeError):
        encode(value)


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"data": object},
        {"dtype": "nothing", "data": 1},
        {"dtype": "<i4", "data": ["a"]},
        {"dtype": "<f8", "data": [1, 2], "shape": [3]},
        {"dtype": "|S2", "data": [1]},
        {"data": [[1], [2, 3]]},
    ],
)
def test_no_form_of_an_array(form):
    with pytest.raises(xa.ArgumentError):
        decode_array(form)
