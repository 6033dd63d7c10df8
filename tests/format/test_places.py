"""Attributes that locate elements: reading, setting, copying, keeping."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from systems import needs_replaced_open_files

import extarray as xa

TRANSFORM = [10.0, 0.0, 500.0, 0.0, -10.0, 900.0]
WEST = [10.0, 0.0, 300.0, 0.0, -10.0, 900.0]  # of an array with 20 more columns


def stored(array):
    """Return the attributes as stored in the file."""
    return json.loads(array._store.now.attrs)


def test_attributes_are_read_as_they_are_right_now(factory, path):
    with factory.array((3, 4), dims=("y", "x"), attrs={"transform": TRANSFORM, "unit": "mm"}) as a:
        a.extend("x", 20, side="start")
        assert a.attrs.asdict() == {"transform": WEST, "unit": "mm", "dims": ["y", "x"]}
        assert a.attrs["transform"] == a.info()["attrs"]["transform"] == WEST
        assert stored(a)["transform"] == TRANSFORM  # growth writes no attributes
        a.shrink("x", 20, side="start")
        assert a.attrs["transform"] == TRANSFORM


def test_attributes_are_those_of_the_origin_at_which_they_are_set(factory):
    with factory.array((3, 4), dims=("y", "x"), attrs={"transform": TRANSFORM}) as a:
        a.extend("x", 20, side="start")
        numbers = a.attrs["transform"]
        numbers[5] = 0.0
        a.attrs["transform"] = numbers
        assert stored(a)["attrs_origin"] == [0, 20]
        assert a.attrs.asdict() == {"transform": [*WEST[:5], 0.0], "dims": ["y", "x"]}
        a.extend("y", 1, side="start")
        a.extend("x", 1, side="start")
        want = [10.0, 0.0, 290.0, 0.0, -10.0, 10.0]
        assert a.attrs["transform"] == want
        a.attrs["unit"] = "mm"  # not about places, which stay
        assert a.attrs["transform"] == want
        a.dims = None
        assert a.attrs["transform"] == want
        a.shrink(0, 1, side="start")
        a.shrink(1, 21, side="start")
        assert a.attrs["transform"] == [*TRANSFORM[:5], 0.0]
        a.attrs["transform"] = TRANSFORM
        assert "attrs_origin" not in stored(a)


def test_the_attribute_of_the_origin_belongs_to_the_array(factory):
    with factory.array((3, 4), attrs={"transform": TRANSFORM}) as a:
        for _ in range(2):  # with the origin at 0, and elsewhere
            with pytest.raises(xa.errors.ArgumentError, match="'attrs_origin'"):
                a.attrs["attrs_origin"] = [0, 3]
            a.extend(1, 20, side="start")
        a.shrink(1, 40, side="start")
        assert a.attrs.asdict() == {"transform": TRANSFORM}


def copies(a, folder):
    """Yield arrays with the elements of another."""
    yield a.copy()
    yield pickle.loads(pickle.dumps(a.copy()))
    yield xa.create(None, like=a)
    yield xa.rechunk(a, None, chunks=(2, 2))
    yield xa.rechunk(a.lazy[...], None)
    with a.copy(folder / "copy") as b:
        yield b
    with a.repack(folder / "packed") as b:
        yield b
    if a.path is not None:
        yield pickle.loads(pickle.dumps(a))
        with xa.open(a.path, "r") as b:
            yield b


def test_copies_know_their_places(disk, path, tmp_path):
    coords = {
        "crs": {"data": 0, "attrs": {"GeoTransform": "500 10 0 900 0 -10"}},
        "x": [1, 2, 3, 4],
    }
    attrs = {"transform": TRANSFORM, "CRPIX1": 1.0, "coords": coords}
    with xa.create(path, (3, 4), "i2", dims=("y", "x"), attrs=attrs) as a:
        a.extend("x", 20, side="start")
        for b in copies(a, tmp_path):
            assert b.attrs["transform"] == WEST and b.attrs["CRPIX1"] == 21
            b_coords = b.attrs["coords"]
            assert b_coords["crs"]["attrs"]["GeoTransform"] == "300.0 10.0 0.0 900.0 0.0 -10.0"
            first = b.origin[1] - b_coords["x"]["origin"][0]
            assert (first, list(b_coords["x"]["data"])) == (20, [1, 2, 3, 4])


def test_views_know_their_places(tmp_path):
    a = xa.from_array(np.zeros((3, 4)), dims=("y", "x"), attrs={"transform": TRANSFORM})
    a.extend("x", 20, side="start")
    for key, want in (
        (np.s_[1:, 20:], [10, 0, 500, 0, -10, 890]),
        (np.s_[:, ::-1], [-10, 0, 540, 0, -10, 900]),
        (np.s_[::2, 1::4], [40, 0, 295, 0, -20, 905]),  # pixel centres stay
        (np.s_[2:, [3, 5, 7]], [20, 0, 325, 0, -10, 880]),
    ):
        assert xa.rechunk(a.lazy[key], None).attrs["transform"] == want
        assert xa.create(None, like=a.lazy[key]).attrs["transform"] == want
    with pytest.warns(xa.LossyWarning, match="like: the array does not have attribute 'transform'"):
        b = xa.create(None, like=a.lazy[0])
    assert "transform" not in b.attrs


@pytest.mark.slow
@given(data=st.data())
def test_places_at_any_time(data):
    """An element keeps its place through any growth, shrinking and setting."""
    a = xa.from_array(np.arange(12).reshape(3, 4), attrs={"transform": TRANSFORM})

    def place(row, column):
        t = a.attrs["transform"]
        assert len(t) == 6
        return t[0] * column + t[1] * row + t[2], t[3] * column + t[4] * row + t[5]

    for _ in range(data.draw(st.integers(1, 6))):
        what = data.draw(st.sampled_from(["extend", "shrink", "set", "copy"]))
        axis = data.draw(st.integers(0, 1))
        if what == "extend":
            a.extend(axis, data.draw(st.integers(1, 5)), side="start")
        elif what == "shrink":
            a.shrink(axis, data.draw(st.integers(0, a.shape[axis] - 1)), side="start")
        elif what == "set":
            a.attrs["transform"] = a.attrs["transform"]
        else:
            a = a.copy()
        for row, column in np.argwhere(a[...] == 11):  # the last element; new ones are zeros
            assert place(row, column) == (530, 880)


@needs_replaced_open_files
def test_new_axes(factory):
    """Rows and columns stay the named axes, or else the last two."""
    with factory.array((3, 4), dims=("y", "x"), attrs={"transform": TRANSFORM}) as a:
        a.extend("x", 20, side="start")
        a.add_axis(2, "band")
        assert a.attrs["transform"] == WEST
        a.attrs["transform"] = WEST
        a.add_axis(0, "time")
        assert stored(a)["attrs_origin"] == [0, 0, 20, 0] and a.attrs["transform"] == WEST
    with factory.array((3, 4), attrs={"transform": TRANSFORM}) as a:
        a.add_axis(0)
        a.extend(2, 20, side="start")
        assert a.attrs["transform"] == WEST
        with pytest.warns(xa.LossyWarning, match="add_axis: .* 'transform'"):
            a.add_axis(3)
        assert "transform" not in a.attrs


@pytest.mark.parametrize(
    "value",
    [
        "a text",
        None,
        5,
        [1, 2, 3],
        ["a"] * 6,
        [1, 0, 0, 0, 1, 0, 5, 5, 5],
        {"a": 1},
        [True] * 6,
    ],
    ids=str,
)
def test_attributes_that_only_have_the_name(factory, value):
    names = (
        "transform",
        "GeoTransform",
        "map info",
        "x start",
        "CRPIX1",
        "CD1_1",
        "LTV1",
        "DATASEC",
    )
    attrs = dict.fromkeys((*names, "geo points", "rpc info", "default bands", "scales"), value)
    with factory.array((3, 4), dims=("band", "x"), attrs=attrs) as a:
        a.extend(1, 2, side="start")
        if value != 5 and not isinstance(value, str):
            assert {k: v for k, v in a.attrs.items() if k != "dims"} == attrs
        b = a.copy()
        assert set(b.attrs) == {*attrs, "dims"}


def test_forms_of_a_transform(factory):
    attrs = {"transform": tuple(TRANSFORM), "GeoTransform": np.array([500.0, 10, 0, 900, 0, -10])}
    with factory.array((3, 4), attrs=attrs) as a:
        a.extend(1, 20, side="start")
        assert a.attrs["transform"] == tuple(WEST)
        assert a.attrs["GeoTransform"].tolist() == [300, 10, 0, 900, 0, -10]
        a.attrs["transform"] = [*WEST, 0, 0, 1]
        a.extend(1, 1, side="start")
        assert a.attrs["transform"] == [10, 0, 290, 0, -10, 900, 0, 0, 1]


def test_pixels_of_a_rational_polynomial(factory):
    numbers = ["10.0", "20.0", *["0"] * 3, "5", "6", *["0"] * 83, "1"]
    with factory.array((30, 40), dims=("y", "x"), attrs={"rpc info": numbers}) as a:
        a.extend("y", 3, side="start")
        assert a.attrs["rpc info"] == ["13.0", *numbers[1:]]
        b = xa.rechunk(a.lazy[3::2, ::-1], None)
        assert list(map(float, b.attrs["rpc info"][:2])) == [5, 19]
        assert list(map(float, b.attrs["rpc info"][5:7])) == [2.5, -6]
