"""Attributes: JSON values, one commit for each change, copies on the way out."""

from __future__ import annotations

import json
import threading
from collections.abc import MutableMapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extarray as xa
from extarray.common.limits import limits
from extarray.format.attrs import check_attrs, decode_attrs, encode_attrs

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(attrs=st.dictionaries(st.text(max_size=5), json_values, max_size=5))
def test_values_come_back(factory, attrs):
    with factory.array((2,), attrs=attrs) as array:
        assert list(array.attrs.items()) == list(attrs.items())
        other = dict(reversed(attrs.items()))
        array.attrs.clear()
        assert len(array.attrs) == 0
        array.attrs.update(other)
        if factory.on_disk:
            array.close()
            with factory.open(array) as again:
                assert list(again.attrs.items()) == list(other.items())
                for key, value in other.items():
                    assert type(again.attrs[key]) is type(value)
        else:
            assert dict(array.attrs) == other


def test_a_mutable_mapping(factory):
    with factory.array((2,)) as array:
        attrs = array.attrs
        assert isinstance(attrs, MutableMapping)
        attrs["unit"] = "K"
        attrs["scale"] = 0.5
        assert dict(attrs) == {"unit": "K", "scale": 0.5}
        assert attrs == {"unit": "K", "scale": 0.5}
        assert "unit" in attrs
        assert "none" not in attrs
        assert attrs.get("none", 3) == 3
        assert attrs.setdefault("unit", "m") == "K"
        assert attrs.pop("scale") == 0.5
        del attrs["unit"]
        assert dict(attrs) == {}
        with pytest.raises(KeyError, match="unit"):
            attrs["unit"]
        with pytest.raises(KeyError, match="unit"):
            del attrs["unit"]
        assert array.attrs == attrs


def test_its_text_shows_the_values(memory):
    with memory.array((2,), attrs={"unit": "K"}) as array:
        assert "unit" in repr(array.attrs)
        assert "'K'" in repr(array.attrs)


def test_values_are_copies(factory):
    given_value = {"list": [1, 2]}
    with factory.array((2,), attrs={"a": given_value}) as array:
        array.attrs["b"] = given_value
        given_value["list"].append(3)
        array.attrs["a"]["list"].append(4)
        next(iter(array.attrs.values()))["list"].append(5)
        assert array.attrs["a"] == array.attrs["b"] == {"list": [1, 2]}


IMPOSSIBLE = {
    "set": {1},
    "array of objects": np.array([{}]),
    "masked array": np.ma.zeros(2),
    "lone surrogate": "\ud800",
    "object": object(),
    "inside": {"a": [1, {"b": {2}}]},
    "inside a tuple": (1, {2}),
    "key inside": {"a": {1: 2}},
    "path": __import__("pathlib").Path("x"),
}


@pytest.mark.parametrize("value", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_other_values_change_nothing(factory, value):
    with factory.array((2,), attrs={"a": 1}) as array:
        with pytest.raises(xa.ArgumentTypeError):
            array.attrs["a"] = value
        with pytest.raises(xa.ArgumentTypeError):
            array.attrs.update({"first": 1, "bad": value, "last": 2})
        with pytest.raises(xa.ArgumentTypeError):
            array.attrs.setdefault("new", value)
        assert dict(array.attrs) == {"a": 1}
        if factory.on_disk:
            with factory.open(array) as reader:
                assert dict(reader.attrs) == {"a": 1}
    with pytest.raises(xa.ArgumentTypeError):
        xa.create(None, shape=(1,), attrs={"bad": value})


@pytest.mark.parametrize("key", [1, None, b"k", ("a",), True])
def test_keys_are_text(factory, key):
    with factory.array((2,)) as array:
        with pytest.raises(TypeError) as caught:
            array.attrs[key] = 1
        assert isinstance(caught.value, xa.ExtArrayError)
        assert len(array.attrs) == 0


def test_a_value_that_refers_to_itself(memory):
    loop = []
    loop.append(loop)
    with memory.array((2,), attrs={"a": 1}) as array:
        with pytest.raises((TypeError, ValueError)) as caught:
            array.attrs["loop"] = loop
        assert isinstance(caught.value, xa.ExtArrayError)
        assert dict(array.attrs) == {"a": 1}


def nested(levels, innermost):
    """Return the JSON of so many objects in each other."""
    return "".join(['{"a":'] * levels) + innermost + "}" * levels


def test_levels_that_are_few_enough(factory):
    value = json.loads(nested(98, "[[1]]"))
    with factory.array((2, 3), attrs={"deep": value}) as array:
        array.extend(0, 1, "start")
        array.attrs["more"] = value
        assert dict(array.attrs) == {"deep": value, "more": value}
        for deeper in ([value], (value,), {"b": value}, {"$type": value}):
            with pytest.raises(xa.ArgumentTypeError, match="deeper than 100 levels"):
                array.attrs["deep"] = deeper
        assert dict(array.attrs) == {"deep": value, "more": value}


def test_levels_of_a_group(scratch):
    value = json.loads(nested(98, "[[1]]"))
    with xa.open_group(scratch / "g", "w") as group:
        group.attrs["deep"] = value
        with pytest.raises(xa.ArgumentTypeError, match="deeper than 100 levels"):
            group.attrs["deep"] = [value]
    with xa.open_group(scratch / "g") as group:
        assert dict(group.attrs) == {"deep": value}


@pytest.mark.parametrize(("levels", "ok"), [(34, True), (101, True), (102, False), (5000, False)])
def test_levels_of_a_file(levels, ok):
    text = nested(levels, "1")
    if ok:
        assert check_attrs(text.encode()) == text
    else:
        with pytest.raises(xa.CorruptError, match="nested"):
            check_attrs(text.encode())


def test_levels_that_another_tag_would_add():
    """Objects with a tag not known here are dicts, which take a tag when they are written again."""
    for levels in (34, 35):
        text = nested(levels, "1").replace("{", '{"$type":"?",')
        text = text.replace('"$type":"?",', "", 1)  # the attributes themselves take no tag
        if levels == 34:
            assert encode_attrs(decode_attrs(check_attrs(text.encode()))).count("{") == 34
        else:
            with pytest.raises(xa.CorruptError, match="deeper than 100 levels"):
                check_attrs(text.encode())


@pytest.mark.parametrize("attrs", [3, "text", [1]])
def test_attrs_at_creation_are_a_mapping(attrs):
    with pytest.raises(TypeError):
        xa.create(None, shape=(1,), attrs=attrs)


def test_update_is_one_commit(disk):
    """A reader that refreshes after the update sees all of it; in between, none."""
    with disk.array((2,)) as array, disk.open(array) as reader:
        array.attrs.update({"a": 1}, b=2)
        array.attrs.update([("c", 3)])
        assert dict(reader.attrs) == {}
        assert reader.refresh()
        assert dict(reader.attrs) == {"a": 1, "b": 2, "c": 3}
        assert not reader.refresh()


def test_attributes_and_growth_are_independent(disk):
    with disk.array((2,), chunks=1) as array:
        for step in range(30):
            array.attrs["step"] = step
            array.extend(0, 1)
        with disk.open(array) as reader:
            assert dict(reader.attrs) == {"step": 29}
            assert reader.shape == (32,)
        array[:] = 4
        array.close()
        with disk.open(array, mode="r+") as again:
            again.attrs["more"] = "x" * 10
            again.extend(0, 1)
            assert dict(again.attrs) == {"step": 29, "more": "x" * 10}
            assert again[...].tolist() == [4.0] * 32 + [0.0]


def test_large_attributes(disk):
    """Larger than any part of the file of fixed size."""
    large = {"text": "ä" * 300_000, "list": list(range(50_000))}
    with disk.array((2,), attrs={"small": 1}) as array:
        array.attrs["large"] = large
        array.extend(0, 5000)
        array.close()
        with disk.open(array, mode="r+") as again:
            assert dict(again.attrs) == {"small": 1, "large": large}
            again.attrs["large"] = None
            again.extend(0, 1)
        with disk.open(array) as reader:
            assert dict(reader.attrs) == {"small": 1, "large": None}


def test_read_only(disk):
    with disk.array((2,), attrs={"a": 1}) as array, disk.open(array) as reader:
        for change in (
            lambda: reader.attrs.__setitem__("a", 2),
            lambda: reader.attrs.__delitem__("a"),
            lambda: reader.attrs.update(b=1),
            lambda: reader.attrs.clear(),
            lambda: reader.attrs.pop("a"),
        ):
            with pytest.raises(xa.ReadOnlyError, match=r"mode='r\+'"):
                change()
        assert dict(reader.attrs) == {"a": 1}


def test_closed(factory):
    with factory.array((2,), attrs={"a": 1}) as array:
        attrs = array.attrs
        array.close()
        with pytest.raises(xa.ClosedError):
            attrs["a"] = 2


def test_threads_lose_none_of_each_others_attributes():
    array = xa.zeros((1,))

    def add(number):
        for i in range(50):
            array.attrs[f"{number}-{i}"] = i

    threads = [threading.Thread(target=add, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(array.attrs) == 200


def test_what_the_files_cannot_count(path, monkeypatch):
    monkeypatch.setattr(limits, "attrs_bytes", 1000)
    with pytest.raises(xa.errors.LimitError, match="the limit is 1000"):
        xa.create(path, 3, attrs={"a": "x" * 1000})
    assert not list(path.parent.iterdir())
    with xa.create(path, 3) as a:
        with pytest.raises(OverflowError, match="keep large data in arrays"):
            a.attrs["a"] = "x" * 1000
        a.attrs["a"] = 1
        assert dict(a.attrs) == {"a": 1}


@pytest.mark.parametrize("value", ["\U0001f600", "\\ud800", 1e308, "1e999"], ids=ascii)
def test_what_looks_like_something_else_is_taken(path, value):
    """Surrogate pairs, escaped escapes, large numbers."""
    with xa.create(path, 3, attrs={"a": value}) as a:
        a.attrs["b"] = value
    with xa.open(path) as a:
        assert dict(a.attrs) == {"a": value, "b": value}
