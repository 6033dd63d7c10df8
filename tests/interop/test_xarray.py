"""Arrays and folders of arrays in xarray, beyond xarray's own tests."""

from __future__ import annotations

import itertools
import json
import operator
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from systems import GUESSED_ENGINE

import extarray as xa

xr = pytest.importorskip("xarray", minversion="2025.1")
pytest.importorskip("dask.array")

from xarray.core import indexing  # noqa: E402

from extarray.interop.xarray import ExtArrayBackend  # noqa: E402
from extarray.interop.xarray_lazy import LazyArray  # noqa: E402
from extarray.interop.xarray_store import ArrayStore  # noqa: E402


def times(*days, unit="ns"):
    return np.array([f"2024-05-{day:02}" for day in days], f"M8[{unit}]")


def scene(t=(1, 2), y=3, x=4, name="scene"):
    shape = (len(t), y, x)
    return xr.DataArray(
        np.arange(np.prod(shape), dtype="f4").reshape(shape) + 100 * t[0],
        {
            "time": times(*t),
            "y": np.arange(y) * 0.5,
            "label": ("x", [f"no {i}" for i in range(x)]),
            "area": (("y", "x"), np.ones((y, x))),
            "height": 2.0,
        },
        ("time", "y", "x"),
        name,
        {"units": "K", "scales": np.array([1, 2], "i2")},
    )


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "folder"


# -- one array -----------------------------------------------------------------------------------


def test_an_array_comes_back(path):
    da = scene()
    da.extarray.to_extarray(path)
    with xr.open_dataarray(f"{path}.xmd") as got:
        xr.testing.assert_identical(got, da)
        assert got.dtype == da.dtype


def test_what_is_stored(path):
    scene(name="temperature").extarray.to_extarray(path, chunks={"time": 1})
    with xa.open(path) as a:
        assert a.dims == ("time", "y", "x")
        assert a.chunks == (1, 3, 4)
        assert np.isnan(a.fill_value)
        assert a.attrs["name"] == "temperature"
        assert a.attrs["units"] == "K"
        time = a.attrs["coords"]["time"]
        assert (time["dims"], time["origin"]) == (["time"], [0])
        assert time["data"].dtype == "M8[ns]"
        assert time["data"].astype("M8[D]").astype(str).tolist() == ["2024-05-01", "2024-05-02"]
        assert a.attrs["coords"]["height"]["data"] == 2.0


def test_an_array_of_another_program(path):
    """Plain attributes, written by hand, suffice."""
    coords = {
        "band": {"dims": ["band"], "data": [400, 410.5], "attrs": {"units": "nm"}},
        "day": {"data": "2024-05-01", "dtype": "M8[D]"},
    }
    a = xa.create(path, (2, 3), dims=("band", "x"), attrs={"coords": coords, "sensor": "AVIRIS"})
    a[...] = [[1, 2, 3], [4, 5, 6]]
    a.close()
    with xr.open_dataset(f"{path}.xta", engine="extarray") as ds:
        assert ds.scene.attrs == {"sensor": "AVIRIS"}
        assert ds.scene.sel(band=410.5).values.tolist() == [4, 5, 6]
        assert ds.band.attrs == {"units": "nm"}
        assert ds.day == np.datetime64("2024-05-01")


def test_coordinates_without_more(path):
    """Plain lists and arrays label the axis of their name; other values label no axis."""
    coords = {
        "band": [450.0, 550.0],
        "x": np.array(["a", "b", "c"]),
        "day": np.datetime64("2024-05-01"),
        "height": 2,
    }
    with xa.create(path, (2, 3), dims=("band", "x"), attrs={"coords": coords}) as a:
        a[...] = [[1, 2, 3], [4, 5, 6]]
        xa.rechunk(a.lazy[::-1, 1:], f"{path}-view").close()
        a.copy(f"{path}-copy").close()
    for copy in (path, f"{path}-copy"):
        with xr.open_dataarray(copy, engine="extarray") as da:
            assert da.sel(band=550, x="c") == 6
            assert (da.day == np.datetime64("2024-05-01")).all()
            assert da.height.dims == ()
    with xr.open_dataarray(f"{path}-view", engine="extarray") as da:
        assert da.band.values.tolist() == [550, 450]
        assert da.x.values.tolist() == ["b", "c"]
    with xa.open(path, "r+") as a:
        a.extend(0, 1, side="start")
    with pytest.warns(UserWarning, match="'band'.* no values for the first 1 of 3 elements"):
        da = xr.open_dataarray(path, engine="extarray")
    with da:
        assert "band" not in da.coords
        assert da.x.values.tolist() == ["a", "b", "c"]


def test_attributes_of_earlier_files(path):
    """Earlier versions stored scalars and arrays as dicts without a tag."""
    attrs = {"_FillValue": {"dtype": "<f4", "data": "NaN"}, "gain": {"dtype": "|i1", "data": [1]}}
    coords = {"x": {"dims": ["x"], "dtype": "<f8", "data": [0.5, "NaN"], "attrs": attrs}}
    xa.create(path, 2, "f4", dims=["x"], attrs={**attrs, "coords": coords}).close()
    with xr.open_dataarray(path, engine="extarray", mask_and_scale=False) as da:
        for found in (da.attrs, da.x.attrs):
            assert type(found["_FillValue"]) is np.float32
            assert (found["gain"].dtype, found["gain"].tolist()) == ("i1", [1])
        assert da.x.values.tolist()[0] == 0.5


def test_an_array_without_names(path):
    xa.ones((2, 3), path=path).close()
    with xr.open_dataset(path, engine="extarray") as ds:
        assert ds.scene.dims == ("dim_0", "dim_1")
        assert ds.scene.encoding["chunks"] == (2, 3)


@pytest.mark.parametrize("dtype", ["M8[D]", "M8[h]", "m8[D]", "M8[ms]", "M8[ns]"])
def test_times_of_any_unit(path, dtype):
    xa.from_array(np.array([1, 2, "NaT"], dtype), path, dims=["t"]).close()
    with xr.open_dataarray(path, engine="extarray") as da:
        np.testing.assert_array_equal(da.values, np.array([1, 2, "NaT"], dtype))


def test_single_bytes_are_not_joined(path):
    xa.from_array(np.array([b"a", b"b"]), path).close()
    with xr.open_dataarray(path, engine="extarray") as da:
        assert da.values.tolist() == [b"a", b"b"]


def test_names(tmp_path):
    da = xr.DataArray([1, 2], dims="x")
    da.extarray.to_extarray(tmp_path / "first")
    da.rename("other").extarray.to_extarray(tmp_path / "second")
    with xa.open(tmp_path / "first") as a, xa.open(tmp_path / "second") as b:
        assert "name" not in a.attrs
        assert b.attrs["name"] == "other"
    for path, name in (("first", "first"), ("second", "other")):
        with xr.open_dataarray(tmp_path / path, engine="extarray") as got:
            assert got.name == name


def test_a_coordinate_of_its_own_name(tmp_path):
    da = xr.DataArray([1, 2], {"x": [1, 2]}, "x", "x")
    da.extarray.to_extarray(tmp_path / "x")
    with xr.open_dataset(tmp_path / "x", engine="extarray") as ds:
        assert ds.x.values.tolist() == [1, 2]
    with pytest.raises(xa.ArgumentError, match="same name as its coordinate"):
        (da + 1).rename("x").assign_coords(x=[5, 6]).extarray.to_extarray(tmp_path / "y")
    coords = {"z": {"dims": [], "data": 1}}
    xa.create(tmp_path / "z", (2,), attrs={"coords": coords}).close()
    with pytest.raises(xa.ArgumentError, match="set another"):
        xr.open_dataset(tmp_path / "z", engine="extarray")


def test_packed_values(path):
    da = xr.DataArray([0.5, np.nan, 2.0], dims="x", name="p")
    packing = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}
    da.extarray.to_extarray(path, encoding={"p": packing})
    with xa.open(path, "r+") as a:
        assert a[...].tolist() == [1, -1, 4]
        a.extend(0, 1)
    with xr.open_dataarray(path, engine="extarray") as got:
        np.testing.assert_array_equal(got, [0.5, np.nan, 2.0, np.nan])


def test_modes_of_an_array(path):
    da = scene()
    da.extarray.to_extarray(path)
    with pytest.raises(xa.ExistsError):
        da.extarray.to_extarray(path)
    (da + 1).extarray.to_extarray(path, mode="w")
    with xr.open_dataarray(path, engine="extarray") as got:
        np.testing.assert_array_equal(got, da + 1)
    with pytest.raises(xa.ArgumentError, match="mode 'a' is not valid"):
        da.extarray.to_extarray(path, mode="a")
    with pytest.raises(xa.ArgumentError, match="chunks and mode cannot be combined"):
        da.extarray.to_extarray(path, 2, mode="w", append_dim="y")


@pytest.mark.parametrize(
    ("da", "options", "words"),
    [
        (xr.DataArray([1], dims="x", attrs={"dims": 1}), {}, "'dims' of the variable"),
        (xr.DataArray([1], dims="x"), {"chunks": {"y": 1}}, r"unknown dimensions: \['y'\]"),
        (xr.DataArray([1], dims="x", name="a/b"), {}, "a file name"),
        (xr.DataArray([1], {"": 1}, "x"), {}, "length 1 or more"),
        (xr.DataArray([1], dims="x"), {"encoding": {None: {"zlib": True}}}, "unexpected"),
    ],
)
def test_arrays_that_are_refused(path, da, options, words):
    with pytest.raises(xa.ArgumentError, match=words):
        da.extarray.to_extarray(path, **options)
    assert list(path.parent.iterdir()) == []


def test_encodings_of_what_is_not_there(path):
    for given in (xr.DataArray([1], dims="x"), xr.Dataset({"a": ("x", [1])})):
        with pytest.raises(xa.VariableError, match="unknown variables: 'y'") as caught:
            given.extarray.to_extarray(path, encoding={"y": {}})
        assert isinstance(caught.value, KeyError)


def test_large_coordinates_are_no_attributes(path):
    da = xr.DataArray(np.zeros(70_000), {"x": np.arange(70_000)}, "x")
    with pytest.raises(xa.ArgumentError, match="write a folder"):
        da.extarray.to_extarray(path)


# -- growth of one array -------------------------------------------------------------------------


@pytest.mark.parametrize("dim", ["time", "y", "x"])
def test_append_along_any_dimension(path, dim):
    """Any dimension grows with its coordinates, whatever the order of the dimensions."""
    whole = scene((1, 2, 3, 4), 6, 8)
    n = whole.sizes[dim] // 2
    whole.isel({dim: slice(n)}).extarray.to_extarray(path, chunks=2)
    rest = whole.isel({dim: slice(n, None)})
    rest.transpose("x", "time", "y").extarray.to_extarray(path, append_dim=dim)
    with xr.open_dataarray(path, engine="extarray") as got:
        xr.testing.assert_identical(got, whole)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda da: da.isel(y=slice(2)), "2 elements along 'y'"),
        (lambda da: da.isel(y=0), "has dimensions"),
        (lambda da: da.drop_vars("time"), "'time' is in .* not given"),
        (lambda da: da.assign_coords(new=1), "cannot append 'new'"),
        (lambda da: da.assign_coords(height=3.0), "'height' differs"),
        (lambda da: da.assign_coords(y=da.y + 1), "'y' differs"),
        (lambda da: da.astype("c8"), "complex64 cannot be cast to float32"),
        (lambda da: da.rename(time="t"), "no such dimension|not in"),
    ],
)
def test_appends_that_are_refused(path, change, words):
    da = scene()
    da.extarray.to_extarray(path)
    with pytest.raises((xa.ArgumentError, xa.CastingError), match=words):
        change(scene((3,))).extarray.to_extarray(path, append_dim="time")
    with pytest.raises(xa.ArgumentError, match="no such dimension"):
        da.extarray.to_extarray(path, append_dim="band")
    with xr.open_dataarray(path, engine="extarray") as got:
        xr.testing.assert_identical(got, da)


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (np.array([1], "i2"), np.array([100_000])),
        (times(1, unit="s"), times(1) + np.timedelta64(1, "ms")),
    ],
)
def test_values_that_would_be_cut_are_refused(path, first, more):
    xr.DataArray(first, dims="x").extarray.to_extarray(path)
    with pytest.raises(xa.CastingError, match="cannot be stored as"):
        xr.DataArray(more, dims="x").extarray.to_extarray(path, append_dim="x")
    more = more.astype(first.dtype).astype(more.dtype)
    if more.dtype.kind != "U":
        xr.DataArray(more, dims="x").extarray.to_extarray(path, append_dim="x")
        with xa.open(path) as a:
            np.testing.assert_array_equal(a[1:], more)


@pytest.mark.parametrize(
    ("stored", "more"),
    [
        ("f4", np.array([0.1, np.nan])),
        ("f4", np.array([1e300])),
        ("f4", np.array([2**24 + 1])),
        ("f8", np.array([2**53 + 1])),
        ("c8", np.array([0.1 + 1j])),
        ("i2", np.array([100_000])),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_what_an_append_may_lose_is_said(path, folder, stored, more, whole):
    """Values are rounded only by a casting rule, as NumPy does."""
    first = xr.DataArray(np.ones(2, stored), dims="x", name="v")
    new = xr.DataArray(more, dims="x", name="v")
    if whole:
        first, new, path = first.to_dataset(), new.to_dataset(), folder
    first.extarray.to_extarray(path)
    for rule in (None, "safe", "equiv", "no"):
        with pytest.raises(xa.CastingError, match="give casting='same_kind'"):
            new.extarray.to_extarray(path, append_dim="x", casting=rule)
    for rule in ("same_kind", "unsafe"):
        new.extarray.to_extarray(path, append_dim="x", casting=rule)
    with xa.open(path / "v" if whole else path) as a:
        np.testing.assert_array_equal(
            a[...], np.concatenate([np.ones(2), more, more]).astype(stored)
        )


@pytest.mark.parametrize(("stored", "more"), [("f4", np.array([0.5, 2.0])), ("i2", [-7])])
def test_values_that_fit_are_appended(path, stored, more, monkeypatch):
    monkeypatch.setattr(xa.config, "max_memory", 1)
    xr.DataArray(np.ones((2, 3), stored)).extarray.to_extarray(path)
    new = np.resize(more, (3, 3))
    xr.DataArray(new).extarray.to_extarray(path, append_dim="dim_0")
    new[2, 2] = 2**25 + 1
    with pytest.raises(xa.CastingError, match="without loss"):
        xr.DataArray(new).extarray.to_extarray(path, append_dim="dim_0")
    with xa.open(path) as a:
        assert a.shape == (5, 3)
        np.testing.assert_array_equal(a[2:], np.resize(more, (3, 3)))


def test_another_kind_is_cast_when_it_is_said(path):
    xr.DataArray(np.ones(1, "i2"), dims="x").extarray.to_extarray(path)
    new = xr.DataArray([1.5, -2.7], dims="x")
    for rule in (None, "same_kind"):
        with pytest.raises(xa.CastingError, match="give casting='unsafe'"):
            new.extarray.to_extarray(path, append_dim="x", casting=rule)
    new.extarray.to_extarray(path, append_dim="x", casting="unsafe")
    with xa.open(path) as a:
        assert a[...].tolist() == [1, 1, -2]
    with pytest.raises(xa.ArgumentError, match="requires append_dim"):
        new.extarray.to_extarray(path, mode="w", casting="unsafe")
    with pytest.raises(xa.ArgumentError, match="casting"):
        new.extarray.to_extarray(path, append_dim="x", casting="any")


@pytest.mark.parametrize("whole", [False, True])
def test_an_append_waits_for_other_writers(path, folder, whole):
    da = xr.DataArray([1.0, 2.0], dims="x", name="v")
    source, target = (da.to_dataset(), folder) if whole else (da, path)
    source.extarray.to_extarray(target)
    with pytest.raises(xa.ArgumentError, match="timeout .* requires append_dim"):
        source.extarray.to_extarray(target, mode="w", timeout=1)
    writer = xa.open(folder / "v" if whole else path, "r+")
    try:
        for timeout in (0, 0.01):
            with pytest.raises(xa.LockedError):
                source.extarray.to_extarray(target, append_dim="x", timeout=timeout)
        ends = threading.Timer(0.1, writer.close)
        ends.start()
        source.extarray.to_extarray(target, append_dim="x", timeout=60)
        ends.join()
    finally:
        writer.close()
    with xa.open(folder / "v" if whole else path) as a:
        assert a[...].tolist() == [1, 2, 1, 2]


def test_packed_values_are_appended_alike(path):
    da = xr.DataArray([0.5, np.nan], dims="x", name="p")
    da.extarray.to_extarray(
        path, encoding={"p": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}}
    )
    (da + 1).extarray.to_extarray(path, append_dim="x")
    with xa.open(path) as a:
        assert a[...].tolist() == [1, -1, 3, -1]


def test_an_append_that_fails_leaves_everything(path):
    dask = pytest.importorskip("dask.array")
    da = scene()
    da.extarray.to_extarray(path)

    def fail(block):
        raise RuntimeError("no more")

    more = scene((3, 4))
    more.data = dask.from_array(more.values).map_blocks(fail, dtype="f4", meta=np.empty(0, "f4"))
    with pytest.raises(RuntimeError, match="no more"):
        more.extarray.to_extarray(path, append_dim="time")
    with xr.open_dataarray(path, engine="extarray") as got:
        xr.testing.assert_identical(got, da)


def test_the_first_part_is_not_appended(path, folder):
    da = xr.DataArray([1.0], {"x": [0]}, ["x"], "level")
    with pytest.raises(xa.MissingError, match="write its first part without append_dim"):
        da.extarray.to_extarray(path, append_dim="x")
    with pytest.raises(xa.MissingError, match="write its first part without append_dim"):
        da.to_dataset().extarray.to_extarray(folder, append_dim="x")
    da.to_dataset().extarray.to_extarray(folder)
    message = r"a folder, with the arrays 'level', 'x'; open one, .* all with extarray.open_group"
    with pytest.raises(xa.MissingError, match=message):
        xa.open(folder)
    with pytest.raises(xa.MissingError, match=message):
        da.extarray.to_extarray(folder, append_dim="x")


@pytest.mark.parametrize("dtype", ["i8", "u1", "bool"])
@pytest.mark.parametrize("missing", [np.nan, -1.0])
def test_integers_are_appended_where_values_may_be_missing(path, dtype, missing):
    da = xr.DataArray([1.0, np.nan], {"x": [0, 1]}, ["x"], "level")
    da.extarray.to_extarray(path, encoding={"level": {"_FillValue": missing}})
    more = da.fillna(1).astype(dtype).assign_coords(x=[2, 3])
    more.extarray.to_extarray(path, append_dim="x")
    with xr.open_dataarray(path, engine="extarray") as got:
        np.testing.assert_array_equal(got, [1, np.nan, 1, 1])


def test_coordinates_that_do_not_fit(path):
    """Too many between the two commits of an append; too few after others grow the array."""
    da = scene()
    da.extarray.to_extarray(path)
    with xa.open(path, "r+") as a:
        coords = a.attrs["coords"]
        data = coords["time"]["data"]
        coords["time"]["data"] = np.append(data, np.datetime64("2024-06-01", "ns"))
        a.attrs["coords"] = coords
    with pytest.warns(UserWarning, match="the surplus is ignored"):
        ds = xr.open_dataarray(path, engine="extarray")
    with ds:
        xr.testing.assert_identical(ds, da)
    with pytest.warns(UserWarning, match="the surplus is ignored"):
        scene((3,)).extarray.to_extarray(path, append_dim="time")
    with xr.open_dataarray(path, engine="extarray") as ds:
        np.testing.assert_array_equal(ds.time, times(1, 2, 3))
    with xa.open(path, "r+") as a:
        a.extend(2, 1)
    with pytest.warns(UserWarning, match="it is left out"):
        ds = xr.open_dataarray(path, engine="extarray")
    with ds:
        assert ds.shape == (3, 3, 5)
        assert "time" in ds.coords
        assert "label" not in ds.coords


# -- labels, where the start moves ---------------------------------------------------------------


def dated(path, origin):
    """Return four dates with the values 1 to 4."""
    form = {"dims": ["time"], "dtype": "M8[D]", "data": list(map(str, times(1, 2, 3, 4, unit="D")))}
    if origin is not None:
        form["origin"] = origin
    coords = {"time": form, "place": {"data": 7}}
    return xa.from_array([1, 2, 3, 4], path, dims=["time"], attrs={"coords": coords})


def labelled(path):
    """Return the day of each value, as xarray reads it."""
    with xr.open_dataarray(path, engine="extarray") as da:
        assert da.place == 7
        if "time" not in da.coords:
            return None
        days = da.time.values.astype("M8[D]").astype(str)
        return {day[-2:]: int(v) for day, v in zip(days, da.values, strict=True)}


def test_labels_stay_with_their_elements_when_the_start_moves(path):
    with dated(path, [0]) as a:
        a.shrink(0, 1, side="start")
    assert labelled(path) == {"02": 2, "03": 3, "04": 4}
    with xa.open(path, "r+") as a:
        a.append([5])
    with pytest.warns(UserWarning, match="has 3 values for 4 elements; it is left out"):
        assert labelled(path) is None
    with xa.open(path, "r+") as a:
        a.shrink(0, 2)
        a.append([1], side="start")
    with pytest.warns(UserWarning, match="the surplus is ignored"):
        assert labelled(path) == {"01": 1, "02": 2, "03": 3}
    with xa.open(path, "r+") as a:
        a.append([0], side="start")
    with pytest.warns(UserWarning, match="no values for the first 1 of 4 elements; it is left out"):
        assert labelled(path) is None


def test_labels_are_those_of_the_origin_at_which_they_were_set(path):
    with dated(path, None) as a:
        assert labelled(path) == {"01": 1, "02": 2, "03": 3, "04": 4}
        a.shrink(0, 1, side="start")
        assert labelled(path) == {"02": 2, "03": 3, "04": 4}
        coords = a.attrs["coords"]
        assert coords["time"]["origin"] == [0]
        del coords["time"]["origin"]
        coords["time"]["data"] = ["2024-05-12", "2024-05-13", "2024-05-14"]
        a.attrs["coords"] = coords
        a.attrs["unit"] = "mm"  # leaves the labels as they are
        assert labelled(path) == {"12": 2, "13": 3, "14": 4}
        a.shrink(0, 1, side="start")
    assert labelled(path) == {"13": 3, "14": 4}


def test_labels_that_do_not_tell_where_they_begin(path):
    with dated(path, [None]) as a:
        a.shrink(0, 1, side="start")
        a.append([5])
    with pytest.warns(UserWarning, match="its 'origin' is invalid; it is left out"):
        assert labelled(path) is None
    with xa.open(path, "r+") as a:
        coords = a.attrs["coords"]
        coords["time"].update(data=["2024-05-12", "2024-05-13", "2024-05-14", "2024-05-15"])
        coords["time"]["origin"] = list(a.origin)
        a.attrs["coords"] = coords
    assert labelled(path) == {"12": 2, "13": 3, "14": 4, "15": 5}


def test_a_window_that_rolls_with_its_labels(path):
    """Appended elements get labels, and labels of elements cut off do not pile up."""
    da = xr.DataArray([1, 2, 3, 4], {"time": times(1, 2, 3, 4), "place": 7}, ["time"], "series")
    da.extarray.to_extarray(path)
    for day in range(5, 9):
        da[:1].assign_coords(time=times(day)).copy(data=[day]).extarray.to_extarray(
            path, append_dim="time"
        )
        with xa.open(path, "r+") as a:
            a.shrink(0, 1, side="start")
    assert labelled(path) == {"05": 5, "06": 6, "07": 7, "08": 8}
    with xa.open(path) as a:
        assert len(a.attrs["coords"]["time"]["data"]) == 5


VIEWS = [
    (lambda a: a, {"02": 2, "03": 3, "04": 4}),
    (lambda a: a.lazy[...], {"02": 2, "03": 3, "04": 4}),
    (lambda a: a.lazy[::-1], {"04": 4, "03": 3, "02": 2}),
    (lambda a: a.lazy[1:3], {"03": 3, "04": 4}),
    (lambda a: a.lazy[[2, 0]], {"04": 4, "02": 2}),
    (lambda a: a.lazy[:0], {}),
]


@pytest.mark.parametrize(("view", "expected"), VIEWS)
@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.filterwarnings("ignore:coordinate.*the surplus is ignored")
def test_labels_go_with_a_view_that_is_copied(tmp_path, view, expected, rolled):
    with dated(tmp_path / "a", [0]) as a:
        a.shrink(0, 1, side="start")
        if rolled:  # the labelled elements move out of the first chunk
            a.append([0, 0], side="start")
            a.shrink(0, 2, side="start")
        xa.rechunk(view(a), tmp_path / "b", chunks=2).close()
    assert labelled(tmp_path / "b") == expected


@pytest.mark.parametrize("copy", ["copy", "repack", "pickle"])
def test_labels_go_with_a_copy(tmp_path, copy):
    with dated(None, [0]) as a:
        a.shrink(0, 1, side="start")
        if copy == "pickle":
            pickle.loads(pickle.dumps(a)).copy(tmp_path / "b").close()
        else:
            getattr(a, copy)(tmp_path / "b").close()
    assert labelled(tmp_path / "b") == {"02": 2, "03": 3, "04": 4}


@pytest.mark.filterwarnings("ignore:coordinate.*it is left out")
def test_a_copy_does_not_forget_that_labels_are_not_known(tmp_path):
    with dated(tmp_path / "a", [None]) as a:
        a.shrink(0, 1, side="start")
        a.copy(tmp_path / "b").close()
        with pytest.warns(xa.LossyWarning, match="'time', which does not say which"):
            xa.rechunk(a.lazy[::-1], tmp_path / "c").close()
    assert labelled(tmp_path / "b") is None
    assert labelled(tmp_path / "c") is None
    with xa.open(tmp_path / "b") as b:
        assert b.attrs["coords"]["time"]["data"][0] == "2024-05-01"


@pytest.mark.parametrize("dims", [None, ("time", "y", "x")])
def test_labels_of_axes_that_change_places(tmp_path, dims):
    t, y, x = dims or ("dim_0", "dim_1", "dim_2")
    coords = {
        "day": {"dims": t, "data": [1, 2]},
        "area": {"dims": [y, x], "data": [[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23]]},
    }
    values = np.arange(24).reshape(2, 3, 4)
    a = xa.from_array(values, tmp_path / "a", dims=dims, attrs={"coords": coords})
    with a:
        xa.rechunk(a.lazy[1, 1:, ::2], tmp_path / "b", axes=(1, 0)).close()
    with xr.open_dataarray(tmp_path / "b", engine="extarray") as b:
        np.testing.assert_array_equal(b, values[1, 1:, ::2].T)
        assert b.day == 2
        area = b.area.transpose(*b.dims)
        np.testing.assert_array_equal(area, [[10, 20], [12, 22]])
    with xa.open(tmp_path / "a", "r+") as a:
        a.add_axis(0)
        a.extend(0, 1)
    with xr.open_dataarray(tmp_path / "a", engine="extarray") as got:
        assert got.day.dims == (got.dims[1],)
        assert got.area.dims == got.dims[2:]


def test_a_dataset_that_is_read_when_the_start_has_moved(path):
    """A process that receives the dataset opens the array anew."""
    dated(path, [0]).close()
    with ArrayStore(path) as store:
        da = store.get_variables()[path.name]
        store.close()
        with xa.open(path, "r+") as a:
            a.append([-1, 0], side="start")
        np.testing.assert_array_equal(da, [1, 2, 3, 4])
        np.testing.assert_array_equal(da[::-1][1:], [3, 2, 1])
        store.close()
        with xa.open(path, "r+") as a:
            a.shrink(0, 3, side="start")
            a.append([5, 6])
        with pytest.raises(
            xa.BoundsError, match="lost elements since it was opened; open it again"
        ):
            da.to_numpy()


def level(y):
    return xr.Dataset(
        {"v": (("y", "x"), np.array(y)[:, None] * np.ones((1, 2))), "w": ("y", y)},
        {"y": np.array(y) + 0.5},
    )


def test_an_array_of_a_dataset_that_grows_at_the_start(folder):
    level([3, 4]).extarray.to_extarray(folder)
    with xa.open(folder / "v", "r+") as v:
        v.append([[-1, -1]], side="start")
    with pytest.warns(UserWarning, match="disagree about where 'y' begins; the 2 elements"):
        ds = xr.open_dataset(folder, engine="extarray")
    with ds:
        xr.testing.assert_identical(ds.load(), level([3, 4]))
    with pytest.warns(UserWarning, match="disagree about where"):
        level([5]).extarray.to_extarray(folder, append_dim="y")
    with xa.open(folder / "v") as v:
        np.testing.assert_array_equal(v[:, 0], [-1, 3, 4, 5])
    with xa.open(folder / "v", "r+") as v:
        v.shrink(0, 2, side="start")
    with pytest.warns(UserWarning, match="disagree about where"):
        ds = xr.open_dataset(folder, engine="extarray")
    with ds:
        xr.testing.assert_identical(ds.load(), level([4, 5]))


def test_a_dataset_that_rolls(folder):
    """Arrays that are added or copied belong to the others' present elements."""
    level([1, 2, 3]).extarray.to_extarray(folder)
    for name in ("v", "w", "y"):
        with xa.open(folder / name, "r+") as a:
            a.shrink(0, 1, side="start")
    xr.Dataset({"new": ("y", [20, 30])}).extarray.to_extarray(folder, mode="a")
    xa.rechunk(folder / "v", in_place=True).close()
    expected = level([2, 3]).assign(new=("y", [20, 30]))
    with xr.open_dataset(folder, engine="extarray") as ds:
        xr.testing.assert_identical(ds.load(), expected)
    with xa.open(folder / "new", "r+") as a:
        a.shrink(0, 1, side="start")
    with pytest.warns(UserWarning, match="disagree about where"):
        ds = xr.open_dataset(folder, engine="extarray")
    with ds:
        xr.testing.assert_identical(ds.load(), expected.isel(y=[1]))


def test_arrays_that_do_not_tell_what_belongs_together(folder):
    """Files of earlier versions or other programs have no common origin."""
    level([1, 2, 3]).assign_coords(far=("y", [1, 2, 3])).extarray.to_extarray(folder)
    for name in ("v", "w", "y", "far"):
        with xa.open(folder / name, "r+") as a:
            del a.attrs["dataset_origin"]
            a.shrink(0, 1, side="start")
    with xr.open_dataset(folder, engine="extarray") as ds:
        xr.testing.assert_identical(ds.drop_vars("far").load(), level([2, 3]))
    with xa.open(folder / "v", "r+") as v:
        v.shrink(0, 1, side="start")
    with pytest.warns(UserWarning, match="its coordinates are left out"):
        ds = xr.open_dataset(folder, engine="extarray")
    with ds:
        assert set(ds.variables) == {"v", "w"}
        assert ds.sizes["y"] == 1
    with (
        pytest.warns(UserWarning, match="its coordinates are left out"),
        pytest.raises(xa.ArgumentError, match="write the dataset again"),
    ):
        level([4]).extarray.to_extarray(folder, append_dim="y")


def test_an_array_that_is_being_written(path):
    scene().extarray.to_extarray(path)
    with xa.open(path, "r+"), pytest.raises(xa.LockedError):
        scene((3,)).extarray.to_extarray(path, append_dim="time")


# -- reading -------------------------------------------------------------------------------------


def test_a_dataset_keeps_its_bounds(path):
    """Additions by a writer stay unseen, even when the array is opened anew."""
    xa.from_array(np.arange(4.0), path, dims=["x"]).close()
    with xr.open_dataarray(path, engine="extarray", cache=False) as da:
        with xa.open(path, "r+") as a:
            a.append([9.0])
        copy = pickle.loads(pickle.dumps(da))
        for each in (da, copy):
            assert each.values.tolist() == [0, 1, 2, 3]
            assert each[::-1].values.tolist() == [3, 2, 1, 0]
            assert each[[3, 0, 3]].values.tolist() == [3, 0, 3]
        copy.close()


@pytest.fixture
def board(path):
    """Return 100 x 100 elements, stored in chunks of 800 bytes."""
    x = np.arange(10_000.0).reshape(100, 100)
    xa.from_array(x, path, chunks=(10, 10), dims=("y", "x")).close()
    return x


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what is read")
@pytest.mark.parametrize(
    ("select", "n_chunks"),
    [
        (lambda da: da[3, 4], 1),
        (lambda da: da[5:20, 95:], 2),
        (lambda da: da[::-30, 7], 4),
        (lambda da: da.isel(y=[99, 0, 99], x=[55, 5]), 4),
        (lambda da: da.isel(y=slice(10), x=[55, -1]), 2),
        (lambda da: da.isel(y=xr.DataArray([0, 50, 99]), x=xr.DataArray([99, 5, 0])), 3),
        (lambda da: da.isel(y=xr.DataArray([[0, 50], [99, 1]]), x=slice(20, 30)), 3),
        (lambda da: da[[99, 1]].transpose("x", "y")[5:8].isel(y=0), 1),
    ],
)
def test_no_more_is_read_than_is_selected(board, path, select, n_chunks):
    def bytes_read():
        return int(Path("/proc/self/io").read_text().split()[1])

    with xa.config.set(engine="pread"), xr.open_dataarray(path, engine="extarray") as da:
        selected = select(da)
        bytes_read()
        cost = bytes_read() - bytes_read()
        before = bytes_read()
        values = selected.values
        n_bytes = bytes_read() - before + cost
    np.testing.assert_array_equal(values, select(xr.DataArray(board, dims=("y", "x"))))
    assert values.nbytes <= n_bytes <= n_chunks * 800


def test_dask_reads_block_by_block(board, path, monkeypatch):
    sizes = []
    read = xa.ExtArray.__getitem__

    def spy(self, key):
        result = read(self, key)
        sizes.append(result.size)
        return result

    monkeypatch.setattr(xa.ExtArray, "__getitem__", spy)
    with xr.open_dataarray(f"{path}.xmd", chunks={"y": 10, "x": 100}) as da:
        assert sizes == []
        np.testing.assert_array_equal(da.sum("x"), board.sum(1))
        assert sizes == [1000] * 10


@pytest.mark.parametrize("n_dims", [1, 2])
def test_every_kind_of_index(path, n_dims):
    """Each index gives what xarray's adapter of NumPy's arrays gives, in a grown array, too."""
    x = np.arange(7 * 6 * 5.0).reshape(7, 6, 5)
    xa.from_array(x, path, chunks=(3, 2, 2)).close()
    rng = np.random.default_rng(0)

    def items(n):
        yield from (slice(None), slice(4, None, -2), slice(1, 1), slice(-9, None, -1))
        yield rng.integers(-n, n, (3, 2)[:n_dims])
        yield rng.integers(-n, n, (1, 1)[:n_dims])

    manager = xr.backends.CachingFileManager(xa.open, path, mode="r")
    lazy = LazyArray(manager, (0, 0, 0), x.shape, x.dtype)
    expected = indexing.as_indexable(x)
    with xa.open(path, "r+") as a:
        for axis in range(3):
            a.extend(axis, 1)
            a.extend(axis, axis, side="start")
    for key in itertools.product(*map(items, x.shape)):
        if not any(isinstance(item, np.ndarray) for item in key):
            continue
        points = indexing.VectorizedIndexer(key)
        np.testing.assert_array_equal(lazy[points], expected.vindex[points], strict=True)
        if n_dims == 1:
            product = indexing.OuterIndexer(key)
            np.testing.assert_array_equal(lazy[product], expected.oindex[product], strict=True)
    manager.close()


def test_points_that_xarray_spreads_are_a_product(board, path, monkeypatch):
    """A list of points along some dimensions is combined with all of the others."""
    keys = []
    read = xa.ExtArray.__getitem__

    def spy(self, key):
        keys.append([np.size(item) for item in key])
        return read(self, key)

    monkeypatch.setattr(xa.ExtArray, "__getitem__", spy)
    places = xr.DataArray([3, 50, 3], dims="place")
    with xr.open_dataarray(path, engine="extarray", cache=False) as da:
        np.testing.assert_array_equal(da.isel(x=places).T, board[:, [3, 50, 3]].T)
        same = da.isel(y=xr.zeros_like(places), x=xr.zeros_like(places)).values
    assert keys == [[100, 3], [1, 1]]
    assert same.tolist() == [0, 0, 0]
    assert same.flags.writeable


def test_an_index_beyond_the_bounds(board, path):
    with xr.open_dataarray(path, engine="extarray") as da:
        with xa.open(path, "r+") as a:
            a.extend(0, 5)
        for key in ([0, 103], xr.DataArray([103])):
            with pytest.raises(IndexError, match="103 .*out of"):
                pickle.loads(pickle.dumps(da)).isel(y=key).load()


@pytest.mark.parametrize("shape", [(50, 100), (100,)])
def test_an_array_that_was_replaced_by_a_smaller_one(board, path, shape):
    with xr.open_dataarray(path, engine="extarray", cache=False) as da:
        xa.create(path, shape, overwrite=True).close()
        np.testing.assert_array_equal(da, board)  # an open array stays
        da.close()
        with pytest.raises(xa.BoundsError, match=r"had shape \(100, 100\), but has "):
            da.load()


def test_dask_chunks_are_those_of_the_array(path):
    xa.from_array(np.zeros((6, 5)), path, chunks=(4, 5), dims=("y", "x")).close()
    with xr.open_dataarray(f"{path}.xmd", chunks={}) as da:
        assert da.chunks == ((4, 2), (5,))
    with xr.open_dataarray(f"{path}.xmd", chunks="auto") as da:
        assert da.chunks == ((6,), (5,))


def test_reading_from_many_threads(path):
    x = np.arange(4000.0).reshape(40, 100)
    xa.from_array(x, path, chunks=(7, 9), dims=("y", "x")).close()
    start = threading.Barrier(4)
    with xr.open_dataarray(path, engine="extarray", cache=False) as da:

        def work(i):
            start.wait()
            return all((da[j % 40].values == x[j % 40]).all() for j in range(i, i + 60))

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(4)))


def test_what_the_backend_opens(path, folder):
    backend = ExtArrayBackend()
    folder.mkdir()
    assert not backend.guess_can_open(folder)
    xa.zeros((2, 3), path=folder / "a").close()
    assert backend.guess_can_open(folder)
    assert backend.guess_can_open(str(folder))
    assert backend.guess_can_open("scene.xmd")
    assert not backend.guess_can_open(path)
    xa.zeros(2, path=path).close()
    assert backend.guess_can_open(path)
    assert backend.guess_can_open(path.with_suffix(".xta"))
    assert not backend.guess_can_open("scene.nc")
    assert not backend.guess_can_open(b"\0")
    assert not backend.guess_can_open(xr.backends.InMemoryDataStore())
    with xr.open_dataset(folder, engine=GUESSED_ENGINE) as ds:
        assert ds.a.dims == ("a_dim_0", "a_dim_1")


def test_nothing_to_open(folder):
    with pytest.raises(FileNotFoundError):
        xr.open_dataset(folder, engine="extarray")
    folder.mkdir()
    with pytest.raises(xa.MissingError, match="no arrays"):
        xr.open_dataset(folder, engine="extarray")


@pytest.mark.parametrize(
    "form", [None, {}, {"dims": ["x"], "data": 1}, {"data": [object.__name__], "dtype": "f8"}]
)
def test_a_coordinate_that_is_none(path, form):
    xa.create(path, (2,), dims=["x"], attrs={"coords": {"c": form}}).close()
    with pytest.raises(xa.ArgumentError, match="coordinate 'c'"):
        xr.open_dataset(path, engine="extarray")


# -- folders -------------------------------------------------------------------------------------


def weather(t=(1, 2)):
    return xr.Dataset(
        {
            "wind": (("time", "x"), np.full((len(t), 3), t[0], "f4"), {"units": "m/s"}),
            "rain": (("x", "time"), np.full((3, len(t)), t[0])),
            "mask": ("x", [True, False, True]),
        },
        {"time": times(*t), "x": [1, 2, 3], "station": ("x", ["a", "b", "c"]), "height": 2},
        {"title": "weather", "numbers": [1, 2]},
    )


def test_a_dataset_comes_back(folder):
    ds = weather()
    ds.extarray.to_extarray(folder, chunks={"time": 1})
    with xr.open_dataset(folder, engine=GUESSED_ENGINE) as got:
        xr.testing.assert_identical(got, ds)
        assert got.rain.encoding["chunks"] == (3, 1)
    with xa.open(folder / "wind") as a:
        assert a.dims == ("time", "x")
        assert a.chunks == (1, 3)
    with xa.open(folder / "mask") as a:
        assert a.dtype == bool
    attrs = json.loads((folder / "dataset.json").read_text())["attrs"]
    assert attrs == {"title": "weather", "numbers": [1, 2]}


@pytest.mark.parametrize("dim", ["time", "x"])
def test_a_dataset_grows_along_any_dimension(folder, dim):
    whole = weather((1, 2, 3)).isel(x=[0, 1, 2, 0, 1]).assign_coords(x=[1, 2, 3, 4, 5])
    n = whole.sizes[dim] // 2
    whole.isel({dim: slice(n)}).extarray.to_extarray(folder)
    whole.isel({dim: slice(n, None)}).extarray.to_extarray(folder, append_dim=dim)
    with xr.open_dataset(folder, engine=GUESSED_ENGINE) as got:
        xr.testing.assert_identical(got, whole)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ds: ds.drop_vars("rain"), "'rain' is in .* not given"),
        (lambda ds: ds.drop_vars("time"), "'time' is in .* not given"),
        (lambda ds: ds.assign(snow=("time", [1])), "cannot append 'snow'"),
        (lambda ds: ds.assign(mask=~ds.mask), "'mask' differs"),
        (lambda ds: ds.assign(rain=ds.rain * 1j), "complex128 cannot be cast to int64"),
        (lambda ds: ds.isel(x=slice(2)), "2 elements along 'x'"),
    ],
)
def test_a_dataset_that_does_not_fit(folder, change, words):
    ds = weather()
    ds.extarray.to_extarray(folder)
    with pytest.raises((xa.ArgumentError, xa.CastingError), match=words):
        change(weather((3,))).extarray.to_extarray(folder, append_dim="time")
    with xr.open_dataset(folder, engine=GUESSED_ENGINE) as got:
        xr.testing.assert_identical(got, ds)


def test_variables_without_the_dimension_need_not_be_given(folder):
    weather().extarray.to_extarray(folder)
    weather((3,)).drop_vars(["mask", "height"]).extarray.to_extarray(folder, append_dim="time")
    with xr.open_dataset(folder, engine=GUESSED_ENGINE) as got:
        assert got.sizes["time"] == 3
        assert got.mask.values.tolist() == [True, False, True]


def test_an_append_that_did_not_end(folder):
    """Readers see the common extent of all arrays; the next append goes on from there."""
    ds = weather()
    ds.extarray.to_extarray(folder)
    with xa.open(folder / "wind", "r+") as a:
        a.append(np.full((2, 3), 77, "f4"), axis=0)
    with pytest.warns(UserWarning, match="disagree about the extent of 'time'; the smallest, 2"):
        got = xr.open_dataset(folder, engine=GUESSED_ENGINE)
    with got:
        xr.testing.assert_identical(got, ds)
    for days in ((3,), (4, 5)):
        with pytest.warns(UserWarning, match="disagree"):
            weather(days).extarray.to_extarray(folder, append_dim="time")
    with xr.open_dataset(folder, engine=GUESSED_ENGINE) as got:
        assert got.wind[:, 0].values.tolist() == [1, 1, 3, 4, 4]
        assert got.rain[0].values.tolist() == [1, 1, 3, 4, 4]


def test_modes_of_a_dataset(folder):
    ds = weather()
    ds.extarray.to_extarray(folder)
    with pytest.raises(xa.ExistsError, match="it already has arrays"):
        ds.extarray.to_extarray(folder)
    extra = (ds[["rain"]] + 1).assign(snow=ds.rain).assign_attrs(more=1)
    extra.extarray.to_extarray(folder, mode="a")
    with xr.open_dataset(folder, engine=GUESSED_ENGINE) as got:
        assert got.attrs == {**ds.attrs, "more": 1}
        xr.testing.assert_identical(got.drop_attrs(), ds.assign(extra).drop_attrs())
    with pytest.raises(xa.ShapeError, match="Unable to update size"):
        weather((1, 2, 3)).extarray.to_extarray(folder, mode="a")
    weather((5,)).drop_vars("mask").extarray.to_extarray(folder, mode="w")
    with xr.open_dataset(folder, engine=GUESSED_ENGINE) as got:
        xr.testing.assert_identical(got, weather((5,)).drop_vars("mask"))
    assert not list(folder.glob("mask*"))


def test_variables_are_found_by_their_names(folder):
    """A file's name may differ from its variable's; no variable takes another's place."""
    folder.mkdir()
    xa.zeros((2,), path=folder / "t").close()
    with xa.open(folder / "t", "r+") as a:
        a.attrs.update(name="temperature", dims=["x"])
    for names in (["t"], ["temperature", "t"]):
        ds = xr.Dataset({name: ("x", [1.0, 2.0]) for name in names})
        with pytest.raises(xa.ExistsError, match="it is the variable 'temperature'"):
            ds.extarray.to_extarray(folder, mode="a")
    ds[["temperature"]].extarray.to_extarray(folder, mode="a")
    with xr.open_dataset(folder, engine=GUESSED_ENGINE) as got:
        assert list(got) == ["temperature"]
        assert got.temperature.values.tolist() == [1, 2]
    ds.extarray.to_extarray(folder, mode="w")
    with xr.open_dataset(folder, engine=GUESSED_ENGINE) as got:
        xr.testing.assert_identical(got, ds)


def test_what_a_crash_left_is_replaced(folder):
    weather().extarray.to_extarray(folder)
    (folder / "wind.xmd").unlink()
    weather((3,)).extarray.to_extarray(folder, mode="w")
    with xr.open_dataset(folder, engine=GUESSED_ENGINE) as got:
        xr.testing.assert_identical(got, weather((3,)))


def test_dask_takes_no_results_of_before_an_append(folder):
    """xarray names tasks after the path and its modification time."""
    weather().extarray.to_extarray(folder)
    names = set()
    for day in (3, 4):
        with xr.open_dataset(folder, engine=GUESSED_ENGINE, chunks={}) as ds:
            names.add(ds.wind.data.name)
        weather((day,)).extarray.to_extarray(folder, append_dim="time")
    assert len(names) == 2


def test_arrays_that_are_no_dataset_are_not_replaced(folder):
    folder.mkdir()
    xa.zeros((2,), path=folder / "precious").close()
    for mode in ("w-", "w"):
        with pytest.raises(xa.ExistsError):
            weather().extarray.to_extarray(folder, mode=mode)
    assert sorted(p.name for p in folder.iterdir()) == ["precious.xmd", "precious.xta"]


def test_a_dataset_that_fails_leaves_no_files(folder):
    dask = pytest.importorskip("dask.array")

    def fail(block):
        raise RuntimeError("no more")

    bad = dask.zeros(3).map_blocks(fail, dtype="f8", meta=np.empty(0))
    with pytest.raises(RuntimeError, match="no more"):
        weather().assign(zzz=("x", bad)).extarray.to_extarray(folder)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("ds", "error"),
    [
        (xr.Dataset({"a": ("x", [1]), "b": ("x", np.array([{}]))}), ValueError),
        (xr.Dataset({"a": ("x", [1]), "b": ("x", [1], {"coords": 1})}), xa.ArgumentError),
        (xr.Dataset({"a": ("x", [1]), "b.xmd": ("x", [1])}), xa.ArgumentError),
        (xr.Dataset({"a": ("x", [1])}, attrs={"a": object()}), xa.ArgumentTypeError),
        (xr.Dataset({"a": ("x", [1]), "b": ("x", [1], {"a": object()})}), xa.ArgumentTypeError),
    ],
)
def test_datasets_that_are_refused(folder, ds, error):
    with pytest.raises(error):
        ds.extarray.to_extarray(folder)
    assert not folder.exists()


def test_arrays_with_coordinates_of_their_own(folder):
    folder.mkdir()
    coords = {"x": {"dims": ["x"], "data": [1, 2]}}
    for name in "ab":
        xa.create(folder / name, (2,), dims=["x"], attrs={"coords": coords}).close()
    with xr.open_dataset(folder, engine=GUESSED_ENGINE) as ds:
        assert set(ds.coords) == {"x"}
        assert set(ds.data_vars) == {"a", "b"}
    more = xr.Dataset({"a": ("x", [3.0]), "b": ("x", [3.0])}, {"x": [3]})
    with pytest.raises(xa.ArgumentError, match="store it as an array"):
        more.extarray.to_extarray(folder, append_dim="x")
    with xa.open(folder / "b", "r+") as b:
        b.attrs["coords"] = {"x": {"dims": ["x"], "data": [1, 3]}}
    with pytest.raises(xa.ArgumentError, match="differs from that of the other arrays"):
        xr.open_dataset(folder, engine=GUESSED_ENGINE)
    with xa.open(folder / "b", "r+") as b:
        b.attrs.update(coords={}, name="a")
    with pytest.raises(xa.ArgumentError, match="two arrays"):
        xr.open_dataset(folder, engine=GUESSED_ENGINE)


def test_coordinates_of_axes_of_other_arrays(folder):
    """Nobody can tell which elements of those arrays the coordinates label."""
    folder.mkdir()
    coords = {"y": {"dims": ["y"], "data": [1, 2]}, "z": {"dims": ["z"], "data": [1, 2]}}
    xa.create(folder / "a", (2,), dims=["x"], attrs={"coords": coords}).close()
    xa.create(folder / "b", (2,), dims=["y"]).close()
    with pytest.warns(UserWarning, match="labels 'y', which is an axis of other arrays"):
        ds = xr.open_dataset(folder, engine=GUESSED_ENGINE)
    with ds:
        assert set(ds.coords) == {"z"}


def test_damaged_attributes_of_a_dataset(folder):
    weather().extarray.to_extarray(folder)
    (folder / "dataset.json").write_text("{")
    with pytest.raises(xa.FormatError, match="attributes of a dataset"):
        xr.open_dataset(folder, engine=GUESSED_ENGINE)


def test_an_empty_dataset(folder):
    xr.Dataset(attrs={"a": 1}).extarray.to_extarray(folder)
    with xr.open_dataset(folder, engine="extarray") as ds:
        assert ds.attrs == {"a": 1}
        assert not ds.variables


def test_what_dask_holds_is_written_block_by_block(folder):
    dask = pytest.importorskip("dask.array")
    x = np.arange(6000.0).reshape(60, 100)
    ds = xr.Dataset({"a": (("y", "x"), dask.from_array(x, chunks=(7, 30)))})
    with xa.config.set(max_memory=8 * 7 * 30):
        ds.extarray.to_extarray(folder, chunks={"y": 16, "x": 16})
        ds.extarray.to_extarray(folder, append_dim="y")
    with xr.open_dataset(folder, engine=GUESSED_ENGINE) as got:
        np.testing.assert_array_equal(got.a, np.concatenate([x, x]))


def test_a_netcdf_file_becomes_a_folder(tmp_path, folder):
    pytest.importorskip("scipy")
    ds = weather().drop_vars("mask")
    ds.to_netcdf(tmp_path / "weather.nc", engine="scipy")
    with xr.open_dataset(tmp_path / "weather.nc", engine="scipy") as source:
        source.extarray.to_extarray(folder)
        with xr.open_dataset(folder, engine=GUESSED_ENGINE) as got:
            xr.testing.assert_identical(got.load(), source.load())


def test_importing_the_package_does_not_import_xarray(script):
    assert script("import sys, extarray; print('xarray' in sys.modules)").split() == ["False"]


# -- our arrays beside xarray's objects, and in them --------------------------------------------


@pytest.fixture(params=[None, ("y", "x"), ("a", "b")], ids=str)
def named(request):
    n = np.arange(20.0).reshape(4, 5)
    return xa.from_array(n, chunks=2), n, request.param


BESIDE = {
    "add": lambda a, x: a + x,
    "reflected": lambda a, x: x + a,
    "ufunc": lambda a, x: np.add(a, x),
    "comparison": lambda a, x: a == x,
    "in place": lambda a, x: operator.iadd(a, x),
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("function", BESIDE.values(), ids=BESIDE.keys())
def test_operators_with_objects_of_xarray(named, function, late):
    """Positions count, as for NumPy's arrays; names of the array's axes do not."""
    array, n, array.dims = named
    other = xr.DataArray(n % 3, dims=("y", "x"), coords={"y": [1, 2, 3, 4]})
    expected = function(n.copy(), other)
    for x in (other, other.variable):
        got = function(array.copy(), x.chunk(y=2) if late else x)
        assert type(got) is type(x)
        assert got.dims == expected.dims
        np.testing.assert_array_equal(got, expected)


def test_in_place_the_array_is_written():
    array = a = xa.zeros((2, 3))
    a += xr.DataArray(np.ones((2, 3)))
    assert array.sum() == 6


def test_without_dask_nothing_is_a_task(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.array", None)
    other = xr.DataArray(np.ones((2, 3)))
    assert isinstance(xa.zeros((2, 3)) + other, xr.DataArray)


INSIDE = {
    "rolling": lambda x: x.rolling(y=2).mean(),
    "pad": lambda x: x.pad(y=1),
    "dot": lambda x: x.dot(x),
    "quantile": lambda x: x.quantile(0.5, "y"),
    "weighted": lambda x: x.weighted(x).mean("y"),
    "differentiate": lambda x: x.differentiate("y"),
    "isel": lambda x: x.isel(y=[0, 2], x=[1, 1]),
    "sel": lambda x: x.sel(y=[4, 1]),
    "where": lambda x: x.where(x > 3, 0),
    "T": lambda x: x.T[1:],
    "concat": lambda x: xr.concat([x, x], "y"),
    "groupby": lambda x: x.groupby("y").mean(),
}


@pytest.mark.parametrize("function", INSIDE.values(), ids=INSIDE.keys())
def test_an_array_in_a_dataarray(function):
    n = np.arange(20.0).reshape(4, 5)
    coords = {"y": [1, 2, 3, 4]}
    got, expected = (
        function(xr.DataArray(x, coords, ("y", "x"))) for x in (xa.from_array(n, chunks=2), n)
    )
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected))
    assert got.dims == expected.dims


def test_what_a_dataarray_of_an_array_lacks():
    """xarray selects points only from arrays that it knows: NumPy's, dask's and its lazy ones."""
    array = xa.ones((4, 5))
    points = {"dim_0": xr.DataArray([0, 2], dims="p"), "dim_1": xr.DataArray([1, 3], dims="p")}
    with pytest.raises(TypeError, match="Vectorized indexing is not supported"):
        xr.DataArray(array).isel(points)
    with pytest.raises(TypeError, match="NoneType"):
        xr.where(xr.DataArray(array) > 3, array, 0)
    with pytest.raises(TypeError, match="NoneType"):
        np.add(xr.DataArray(array), array)
    for way in (array[...], array.to_dask()):
        assert xr.DataArray(way).isel(points).sum() == 2
    assert xr.where(xr.DataArray(array) > 3, array[...], 0).sum() == 0
