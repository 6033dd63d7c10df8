"""How arrays are shown at first: the direction of axes, units, colours as axis."""

from __future__ import annotations

import numpy as np
import pytest

import extarray as xa
from extarray.array.coordinates import Coordinate, coordinates_of
from extarray.view.looks import coordinate_facts, look_of


def flip_of(values, name="c", **attrs):
    """Return the flip of an axis whose coordinate is in the attribute of an array."""
    array = xa.from_array(np.zeros((len(values), 2)), dims=("a", "b"))
    form = {"dims": ["a"], "data": list(values), "attrs": attrs}
    array.attrs["coords"] = {name: form}
    with coordinates_of(array) as (coordinate, _):
        return coordinate_facts(coordinate)["flip"]


@pytest.mark.parametrize(
    ("signs", "rises", "falls"),
    [
        ({"units": "degrees_north"}, [True, False], [False, False]),
        ({"units": "degreeN"}, [True, False], [False, False]),
        ({"standard_name": "latitude"}, [True, False], [False, False]),
        ({"standard_name": "projection_y_coordinate", "units": "m"}, [True, False], [False] * 2),
        ({"standard_name": "depth", "units": "m"}, [False, False], [True, False]),
        ({"positive": "up", "units": "m"}, [True, False], [False, False]),
        ({"positive": "down", "standard_name": "height"}, [False, False], [True, False]),
        ({"units": "hPa"}, [False, False], [True, False]),
        ({"units": "degrees_east"}, [False, False], [False, True]),
        ({"units": "m"}, [False, False], [False, False]),
        ({"units": 5}, [False, False], [False, False]),
    ],
)
def test_where_coordinates_point(signs, rises, falls):
    values = np.linspace(-40.0, 50.0, 7).tolist()
    assert flip_of(values, **signs) == rises
    assert flip_of(values[::-1], **signs) == falls


def test_names_of_latitude_and_longitude():
    assert flip_of([1, 2], "lat") == [True, False]
    assert flip_of([2, 1], "Longitude") == [False, True]
    assert flip_of([1], "lat") == [True, False]
    assert flip_of(["a", "b"], "lat") == [True, False]


def test_coordinates_in_another_array(tmp_path):
    attrs = {"units": "degrees_north", "long_name": "Latitude"}
    xa.from_array(np.arange(3.0), tmp_path / "y", dims=("y",), attrs=attrs).close()
    with (
        xa.from_array(np.zeros((3, 2)), tmp_path / "a", dims=("y", "x")) as array,
        coordinates_of(array) as (coordinate, none),
    ):
        assert none is None
        assert coordinate_facts(coordinate) == {
            "name": "y",
            "units": "degrees_north",
            "title": "Latitude",
            "flip": [True, False],
        }


def test_dates_have_no_units():
    coordinate = Coordinate("t", "days since 2000-01-01", 0, np.arange(3))
    assert coordinate_facts(coordinate)["units"] == ""


@pytest.mark.parametrize(
    ("names", "shape", "dtype", "colours"),
    [
        (("axis 0", "axis 1", "axis 2"), (90, 80, 3), "u1", ["rgb", 2]),
        (("axis 0", "axis 1", "axis 2"), (90, 80, 4), "u1", ["rgb", 2]),
        (("axis 0", "axis 1", "axis 2"), (90, 80, 3), "f4", None),
        (("axis 0", "axis 1", "axis 2"), (4, 4, 3), "u1", None),
        (("axis 0", "axis 1", "axis 2"), (3, 90, 80), "u1", None),
        (("band", "y", "x"), (3, 90, 80), "u1", ["rgb", 0]),
        (("band", "y", "x"), (3, 90, 80), "u2", None),
        (("y", "x", "rgb"), (90, 80, 3), "f4", ["rgb", 2]),
        (("time", "y", "x"), (3, 90, 80), "u1", None),
        (("t", "c", "y", "x"), (9, 4, 90, 80), "u2", ["channels", 1]),
        (("channel", "y", "x"), (20, 90, 80), "u2", None),
        (("c", "y"), (3, 90), "u2", None),
        (("c", "y", "x"), (3, 90, 80), "M8[s]", None),
    ],
)
def test_axes_of_colours(names, shape, dtype, colours):
    assert look_of({}, names, shape, np.dtype(dtype))["colours"] == colours


def test_units_and_titles():
    attrs = {"units": "K", "standard_name": "sea_surface_temperature"}
    found = look_of(attrs, ("x",), (3,), np.dtype("f4"))
    assert found == {"units": "K", "title": "sea surface temperature", "colours": None}
    found = look_of({"units": ["K"], "long_name": 3}, ("x",), (3,), np.dtype("f4"))
    assert (found["units"], found["title"]) == ("", "")
