"""Attribute values that JSON lacks come back with their types."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
from zoneinfo import ZoneInfo

import format_reader
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import extarray as xa
from extarray.format.constants import TAG
from extarray.format.values import from_json, to_json

RECORD = np.dtype([("x", ">i2", (2,)), ("y", "<i8"), ("t", ">U2")])

offsets = st.none() | st.builds(
    lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)),
    st.integers(-1439, 1439),
)
array_dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(),
    hnp.complex_number_dtypes(),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
    hnp.byte_string_dtypes(max_len=4),
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
arrays = st.one_of(
    array_dtypes.flatmap(lambda dtype: hnp.arrays(dtype, shapes)),
    st.lists(texts, min_size=1, max_size=3).map(np.array),
    hnp.arrays("<i4", shapes).map(lambda x: x.view("V4")),
    hnp.arrays("i2", shapes).map(lambda x: np.array([((1, 2), 3, "ä")], RECORD)[x * 0]),
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.dates(),
    st.times(timezones=offsets),
    st.datetimes(timezones=offsets),
    st.timedeltas(),
    arrays,
    arrays.filter(lambda x: x.ndim == 0).map(lambda x: x[()]),
)
keys = st.text(max_size=2) | st.sampled_from([TAG, "items", "value", "data", "dtype", "base64"])
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
    ),
    max_leaves=6,
)


def same(got, given_value):
    """Tell whether two values have the same type and value; arrays, bit for bit."""
    if type(got) is not type(given_value):
        return False
    if isinstance(got, (list, tuple)):
        return len(got) == len(given_value) and all(map(same, got, given_value))
    if isinstance(got, dict):
        return list(got) == list(given_value) and all(map(same, got.values(), given_value.values()))
    if isinstance(got, (np.ndarray, np.generic)):
        return (got.dtype, got.shape, got.tobytes()) == (
            given_value.dtype,
            given_value.shape,
            given_value.tobytes(),
        )
    if isinstance(got, (float, complex)):
        return repr(got) == repr(given_value)
    if isinstance(got, (dt.datetime, dt.time)):
        return got == given_value and got.utcoffset() == given_value.utcoffset()
    return got == given_value


def through_json(value):
    return json.loads(json.dumps(to_json(value, "x"), allow_nan=False))


@given(values)
def test_values_come_back(value):
    form = through_json(value)
    assert same(from_json(form), value)
    assert same(format_reader.value_of(form), value)


@given(st.dictionaries(keys, values, max_size=3))
def test_attributes_come_back(factory, attrs):
    with factory.array((2,), attrs=attrs) as array:
        assert same(dict(array.attrs), attrs)
        assert same(array.attrs.asdict(), attrs)
        array.attrs["more"] = (1, 2)
        expected = {**attrs, "more": (1, 2)}
        if factory.on_disk:
            array.close()
            with factory.open(array) as again:
                assert same(dict(again.attrs), expected)
            assert same(format_reader.read(array.path)[1], expected)
        else:
            assert same(dict(array.copy().attrs), expected)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, "NaN", "2024-05-01"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)
kinds = ["tuple", "dict", "float", "complex", "bytes", "date", "time", "datetime", "timedelta"]
dtypes = [
    "<f8",
    "|b1",
    "<i2",
    "|S2",
    "<U2",
    "<M8[D]",
    "<M8",
    "<m8[s]",
    "<c8",
    "|V1",
    "<U9999999",
    "x",
]
forms = st.fixed_dictionaries(
    {TAG: st.sampled_from([*kinds, "array", "scalar", "other"])},
    optional={
        "items": json_values | st.lists(st.tuples(st.text(max_size=1), json_values).map(list)),
        "value": json_values | st.lists(st.integers(-9, 9), min_size=2, max_size=3),
        "base64": json_values | st.sampled_from(["", "AA==", "AAAA", "AB==", "A A A", "AAA"]),
        "dtype": st.sampled_from(dtypes) | json_values,
        "data": json_values | st.lists(st.sampled_from([0, 1, 300, True, "a", 1.5, "now", "NaT"])),
        "shape": json_values | st.lists(st.integers(-1, 2), max_size=2),
        "also": json_values,
    },
)


@given(forms)
def test_any_object_with_a_tag_is_read(form):
    """Both readers read such an object alike, and it survives a round trip."""
    got = from_json(form)
    assert same(format_reader.value_of(form), got)
    assert same(from_json(through_json(got)), got)


@pytest.mark.parametrize(
    "form",
    [
        {TAG: "nothing"},
        {TAG: ["tuple"], "items": []},
        {TAG: None, "value": "NaN"},
        {TAG: "tuple"},
        {TAG: "tuple", "items": "ab"},
        {TAG: "tuple", "items": [], "also": 1},
        {TAG: "dict", "items": [["a", 1], ["a", 2]]},
        {TAG: "dict", "items": [[1, 2]]},
        {TAG: "dict", "items": {"a": 1}},
        {TAG: "float", "value": "nan"},
        {TAG: "float", "value": 0.5},
        {TAG: "complex", "value": [1]},
        {TAG: "complex", "value": [10**400, 0]},
        {TAG: "complex", "value": [True, 0]},
        {TAG: "bytes", "base64": "YQ"},
        {TAG: "bytes", "base64": "YR=="},
        {TAG: "bytes", "base64": "Y Q=="},
        {TAG: "bytes", "base64": 3},
        {TAG: "date", "value": "2024-02-30"},
        {TAG: "date", "value": "20240201"},
        {TAG: "date", "value": 20240201},
        {TAG: "datetime", "value": "2024-05-01 12:00:00"},
        {TAG: "datetime", "value": "today"},
        {TAG: "time", "value": "25:00:00"},
        {TAG: "timedelta", "value": [0, -1, 0]},
        {TAG: "timedelta", "value": [10**10, 0, 0]},
        {TAG: "timedelta", "value": [0.0, 0, 0]},
        {TAG: "array", "data": [1]},
        {TAG: "array", "dtype": "int", "data": [1]},
        {TAG: "array", "dtype": "|i1", "data": [128]},
        {TAG: "array", "dtype": "|i1", "data": [True]},
        {TAG: "array", "dtype": "|i1", "data": ["1"]},
        {TAG: "array", "dtype": "|b1", "data": [1]},
        {TAG: "array", "dtype": "<i4", "data": [[1], [2, 3]]},
        {TAG: "array", "dtype": "<f8", "data": [10**400]},
        {TAG: "array", "dtype": "<f8", "data": ["inf"]},
        {TAG: "array", "dtype": "<c16", "data": [1, 2, 3]},
        {TAG: "array", "dtype": "<U2", "data": ["abc"]},
        {TAG: "array", "dtype": "|S2", "data": ["\u0100"]},
        {TAG: "array", "dtype": "<U100000000", "data": ["a"]},
        {TAG: "array", "dtype": "<M8[D]", "data": ["today"]},
        {TAG: "array", "dtype": "<M8[s]", "data": ["2024-05-01T00:00:00+01:00"]},
        {TAG: "array", "dtype": "<M8", "data": ["2024"]},
        {TAG: "array", "dtype": "<m8[s]", "data": [2**63]},
        {TAG: "array", "dtype": "|V1", "data": ["a"]},
        {TAG: "array", "dtype": "<f8", "data": [1, 2], "shape": [2]},
        {TAG: "array", "dtype": "<f8", "data": []},
        {TAG: "array", "dtype": "<f8", "base64": "", "shape": [-1, 0]},
        {TAG: "array", "dtype": "<f8", "base64": "", "shape": [0, 2**70]},
        {TAG: "array", "dtype": "|u1", "base64": "AAAA", "shape": [2]},
        {TAG: "array", "dtype": "|u1", "base64": "AAAA", "shape": 3},
        {TAG: "array", "dtype": "|u1", "base64": "AAAA", "shape": [3.0]},
        {TAG: "array", "dtype": "|u1", "base64": "AAAA"},
        {TAG: "array", "dtype": {"extension": "nothing", "itemsize": 1}, "data": [1]},
        {TAG: "scalar", "dtype": "<f8", "data": [1]},
    ],
    ids=lambda form: str(form)[:60],
)
def test_what_is_of_no_form_is_what_json_says(factory, form):
    """In an array, too, other attributes can be read and changed."""
    assert same(from_json(form), form)
    assert same(format_reader.value_of(form), form)
    with factory.array((2,), attrs={"form": form}) as array:
        array.attrs["other"] = 1
        assert same(dict(array.attrs), {"form": form, "other": 1})


def test_the_outermost_object_is_never_a_tag(factory):
    attrs = {TAG: "float", "value": "NaN"}
    with factory.array((2,), attrs=attrs) as array:
        assert same(dict(array.attrs), attrs)


def test_an_escape_hides_no_tag(path):
    """A tag written with an escape, as other writers may do, is recognized."""
    with xa.create(path, 3, attrs={"a": "x" * 60}) as a:
        a._store.set_attrs('{"a":{"\\u0024type":"tuple","items":[]}}')
        assert a.attrs["a"] == ()
    assert format_reader.read(path)[1] == {"a": ()}


def test_arrays_have_one_form():
    form = {TAG: "array", "dtype": "|u1", "shape": [3], "base64": "AAEC"}
    assert to_json(np.arange(3, dtype="u1"), "x") == form
    form = {TAG: "scalar", "dtype": "<M8[D]", "shape": [], "base64": "hE0AAAAAAAA="}
    assert to_json(np.datetime64("2024-05-01"), "x") == form


class Number(enum.IntEnum):
    ONE = 1


class Text(str, enum.Enum):  # noqa: UP042 -- its str() is not its value
    A = "a"


class Pair(tuple):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Number.ONE, 1),
        (Text.A, "a"),
        (Pair((1, 2)), (1, 2)),
        ({Text.A: 1}, {"a": 1}),
        (type("Real", (float,), {})(math.inf), math.inf),
        (
            dt.datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")),
            dt.datetime(2024, 7, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        ),
    ],
)
def test_a_subclass_comes_back_as_its_base(value, expected):
    assert same(from_json(through_json(value)), expected)


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ({1}, "give a list of it"),
        (bytearray(b"a"), r"give bytes\(\) of it"),
        (np.array([{}]), "tolist"),
        (np.ma.zeros(2), "asarray"),
        (np.zeros(2, []), "0 bytes"),
        (object(), "convert"),
        (type("Stamp", (dt.datetime,), {})(2024, 5, 1), "isoformat"),
    ],
)
def test_other_values_are_refused(value, advice):
    with pytest.raises(xa.ArgumentTypeError, match=advice):
        to_json({"a": [value]}, "x")


def test_types_of_other_packages():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.arange(3).astype(ml_dtypes.bfloat16)
    assert same(from_json(through_json(x)), x)
    assert same(from_json(through_json(x[1])), x[1])


def test_a_memory_map_comes_back_as_an_array(tmp_path):
    x = np.memmap(tmp_path / "x", "i2", "w+", shape=(2,))
    x[:] = 3
    assert same(from_json(through_json(x)), np.array([3, 3], "i2"))


def test_they_are_shown_in_a_line(factory):
    attrs = {"image": np.zeros((3, 3)), "day": dt.date(2024, 5, 1), "gain": np.float32(0.5)}
    with factory.array((2,), attrs=attrs) as array:
        shown = str(array.info())
        assert "image: array([[0., 0., 0.], [0., 0., 0.], [0., 0., 0.]])" in shown
        assert "day: datetime.date(2024, 5, 1)" in shown
        assert "np.float32(0.5)" in array._repr_html_()
