"""Groups imported from files of other formats: xarray reads them as it reads the files."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

import extarray as xa

xr = pytest.importorskip("xarray", minversion="2025.1")

import extarray.interop.xarray  # noqa: E402


@pytest.mark.parametrize("chunked", [False, True])
def test_text_that_was_never_written_is_empty(tmp_path, chunked):
    words = np.array(["a", "bb"])
    ds = xr.Dataset({"s": ("x", words), "b": ("x", words.astype("S2")), "n": ("x", [1, 2])})
    ds["t"] = "x", np.array(["2024-05-01", "2024-05-02"], "M8[ns]")
    if chunked:
        pytest.importorskip("dask.array")
        ds = ds.chunk({"x": 1})
    ds.extarray.to_extarray(tmp_path / "d")
    with xa.open_group(tmp_path / "d", "r+") as g:
        g.extend("x", 1)
        assert g["s"][...].tolist() == ["a", "bb", ""]
        assert g["b"][...].tolist() == [b"a", b"bb", b""]
        assert g["n"][...].tolist() == [1, 2, 0]
        assert np.isnat(g["t"][2])
    with xr.open_dataset(tmp_path / "d", engine="extarray") as back:
        assert back["s"].values.tolist() == ["a", "bb", ""]


# -- stores of Zarr ------------------------------------------------------------------------------


def packed():
    """Return a dataset with missing values of several kinds, and with zeros that are values."""
    ds = xr.Dataset(
        {
            "packed": ("x", [1.5, np.nan, 2.5]),
            "own": ("x", np.array([0, np.nan, -999], "f4")),
            "plain": ("x", np.array([0, np.nan, -999], "f4")),
            "count": ("x", [0, 1, 2]),
            "is_set": ("x", [True, False, True]),
            "word": ("x", ["a", "", "c"]),
            "raw": ("x", np.array([b"a", b"", b"c"])),
            "day": ("x", np.array(["2000-01-01", "NaT", "2000-01-02"], "M8[ns]")),
        },
        {"x": [0, 10, 20]},
        {"levels": [1, 2]},
    )
    ds["packed"].encoding = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}
    ds["own"].encoding = {"_FillValue": np.float32(1e20)}
    return ds


@pytest.mark.filterwarnings("ignore:.*Zarr V3 specification")
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_missing_values_of_a_store_of_zarr(tmp_path, zarr_format):
    pytest.importorskip("zarr")
    ds = packed()
    ds.to_zarr(tmp_path / "z", zarr_format=zarr_format)
    with xr.open_zarr(tmp_path / "z") as theirs:
        theirs.load()
    with xa.from_zarr(tmp_path / "z", path=tmp_path / "g") as g:
        with xr.open_dataset(tmp_path / "g", engine="extarray") as back:
            xr.testing.assert_identical(back.load(), theirs)
        for form in (2, 3):
            out = tmp_path / f"out{form}"
            if (zarr_format, form) == (3, 2):
                with pytest.warns(xa.LossyWarning, match="the fill value .*nan"):
                    xa.to_zarr(g, out, zarr_format=form)
            else:
                xa.to_zarr(g, out, zarr_format=form)
            with xr.open_zarr(out, consolidated=False) as again:
                xr.testing.assert_identical(again.load(), theirs)
        with xr.open_zarr(g.as_zarr_store(), consolidated=False) as again:
            xr.testing.assert_identical(again.load(), theirs)
    values = xa.from_zarr(tmp_path / "z", "packed", mask_and_scale=True)[...]
    np.testing.assert_array_equal(values, [1.5, np.nan, 2.5])


def test_references_say_what_is_missing_and_take_no_zero_for_it(tmp_path):
    zarr = pytest.importorskip("zarr")
    fsspec = pytest.importorskip("fsspec")
    packed()[["packed", "own", "plain", "count"]].extarray.to_extarray(tmp_path / "d")
    with xa.open_group(tmp_path / "d") as g:
        refs = g.to_kerchunk()
    fs = fsspec.filesystem("reference", fo=refs, asynchronous=True)
    store = zarr.storage.FsspecStore(fs, read_only=True, path="")
    with xr.open_zarr(store, zarr_format=2, consolidated=True) as found:
        expected = packed()[["packed", "own", "plain", "count"]]
        xr.testing.assert_equal(found.load(), expected)


def test_what_zarr_does_not_have_is_named(tmp_path):
    pytest.importorskip("zarr")
    with xa.open_group(tmp_path / "g", "w") as g:
        g.attrs["raw"] = b"x"
        g.create("run/a", (2,), "i2", attrs={"_FillValue": np.nan, "x": b"", "n": np.arange(2)})
        with pytest.warns(xa.LossyWarning) as caught:
            g.as_zarr_store()
        (told,) = [str(w.message) for w in caught]
        assert "'raw' of the group, '_FillValue' of 'run/a', 'x' of 'run/a'; they" in told
        a = g["run/a"]
        a.attrs["coords"] = {"dim_0": [1, 2]}
        name = re.escape(os.path.join("run", "a"))
        with pytest.warns(xa.LossyWarning, match=f"'coords' of '.*{name}'"):
            a.as_zarr_store()


# -- files of netCDF -----------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["NETCDF4", "NETCDF3_CLASSIC"])
@pytest.mark.parametrize(("kind", "said"), [("i1", "true"), ("i2", "true"), ("u1", "false")])
def test_integers_of_another_sign(tmp_path, model, kind, said):
    netCDF4 = pytest.importorskip("netCDF4")
    if kind == "u1" and model != "NETCDF4":
        pytest.skip("netCDF 3 has no unsigned integers")
    with netCDF4.Dataset(tmp_path / "f.nc", "w", format=model) as f:
        f.createDimension("x", 3)
        for name, notes in {"a": {"scale_factor": np.float32(0.5)}, "b": {}}.items():
            v = f.createVariable(name, kind, ("x",), fill_value=np.array(3, kind))
            v.set_auto_maskandscale(False)
            v.setncatts({"_Unsigned": said, **notes})
            v[:] = np.array([0, 3, 200], "u1").view(kind[0] + "1")
    xa.from_netcdf(tmp_path / "f.nc", path=tmp_path / "g").close()
    with (
        xr.open_dataset(tmp_path / "f.nc", engine="netcdf4") as theirs,
        xr.open_dataset(tmp_path / "g", engine="extarray") as ours,
    ):
        xr.testing.assert_identical(ours.load(), theirs.load())
        assert np.isnan(ours["b"][1])
        assert ours["b"][2] == {"i1": 200, "i2": 65480, "u1": -56}[kind]


def put(group, name, kind, dims, values, fill=None, **notes):
    """Make a variable of stored values, without masks, scales or texts."""
    v = group.createVariable(name, kind, dims, fill_value=fill)
    v.set_auto_maskandscale(False)
    v.set_auto_chartostring(False)
    v.setncatts(notes)
    v[...] = values


def characters(*texts, n=8):
    return np.array([text.encode() for text in texts], f"S{n}").view("S1").reshape(-1, n)


def forecast(file, model):
    """Write a file with everything that the CF conventions attach to variables."""
    netCDF4 = pytest.importorskip("netCDF4")
    with netCDF4.Dataset(file, "w", format=model) as f:
        sizes = {"time": None, "y": 3, "x": 4, "nv": 2, "station": 3, "strlen": 8}
        for name, n in sizes.items():
            f.createDimension(name, n)
        f.setncatts({"title": "t", "levels": np.array([1.0, 2])})
        time = {"units": "days since 2000-01-01", "calendar": "standard", "bounds": "time_bnds"}
        put(f, "time", "f8", ("time",), [0.5, 1.5], **time)
        put(f, "time_bnds", "f8", ("time", "nv"), [[0, 1], [1, 2]])
        places = np.arange(12, dtype="f4").reshape(3, 4)
        places[0, 0] = -999
        put(f, "lat", "f4", ("y", "x"), places, np.float32(-999), units="degrees_north")
        places[0, 1] = np.nan
        put(f, "lon", "f4", ("y", "x"), places, np.float32(-999), units="degrees_east")
        put(f, "height", "f8", (), 2.0, units="m")
        put(f, "crs", "i4", (), 0, grid_mapping_name="latitude_longitude")
        notes = {"coordinates": "lat lon height", "grid_mapping": "crs", "scale_factor": 0.01}
        numbers = np.arange(24, dtype="i2").reshape(2, 3, 4)
        put(f, "t2m", "i2", ("time", "y", "x"), numbers, np.int16(7), add_offset=273.15, **notes)
        put(f, "rain", "f4", ("time", "y", "x"), 1.0, coordinates="lat lon elsewhere")
        put(f, "name", "S1", ("station", "strlen"), characters("Bonn", "Graz", "Wien"))
        towns = characters("K\u00f6ln", "Graz", "Wien")
        put(f, "town", "S1", ("station", "strlen"), towns, _Encoding="utf-8")
        put(f, "wind", "f4", ("station",), [1, 2, 3], coordinates="name")
        put(f, "code", "S1", ("station",), [b"a", b"b", b"c"])  # no text: numbers share its axis
        put(f, "word", "S1", ("strlen",), characters("abc")[0])
        put(f, "letter", "S1", (), b"z")
        flags = {"flag_values": np.array([0, 1], "i1"), "flag_meanings": "a b"}
        put(f, "flag", "i1", ("x",), [0, 1, 1, 0], **flags)
        put(f, "is_set", "i1", ("x",), [0, 1, 1, 0], dtype="bool")
        if model == "NETCDF4":
            deep = f.createGroup("deep")
            deep.createDimension("z", 2)
            deep.setncattr("note", "n")
            put(deep, "depth", "f4", ("z",), [1, 2])
            put(deep, "salt", "f4", ("time", "z"), 1.0, coordinates="lat depth")


MODELS = ["NETCDF4", "NETCDF3_CLASSIC"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"decode_coords": "all"},
        {"decode_coords": False},
        {"concat_characters": False},
        {"mask_and_scale": False},
        {"decode_cf": False},
        {"drop_variables": ["lat", "town"]},
    ],
    ids=lambda options: "-".join(options),
)
def test_a_file_is_what_xarray_reads(tmp_path, model, options):
    forecast(tmp_path / "f.nc", model)
    xa.from_netcdf(tmp_path / "f.nc", path=tmp_path / "g").close()
    with (
        xr.open_dataset(tmp_path / "f.nc", engine="netcdf4", **options) as theirs,
        xr.open_dataset(tmp_path / "g", engine="extarray", **options) as ours,
    ):
        xr.testing.assert_identical(ours.load(), theirs.load())
        assert ours.encoding["unlimited_dims"] == theirs.encoding["unlimited_dims"] == {"time"}
        if options == {}:
            assert {"lat", "lon", "height", "name"} <= set(ours.coords)
            assert ours["name"].encoding["char_dim_name"] == "strlen"


@pytest.mark.parametrize("model", MODELS)
def test_a_file_of_a_group_is_what_xarray_reads(tmp_path, model, recwarn):
    forecast(tmp_path / "f.nc", model)
    with xa.from_netcdf(tmp_path / "f.nc", path=tmp_path / "g") as g:
        assert "coords" not in g["t2m"].attrs and g["t2m"].attrs["coordinates"] == "lat lon height"
        xa.to_netcdf(g, tmp_path / "again.nc", format=model)
    assert not recwarn.list
    with (
        xr.open_dataset(tmp_path / "f.nc") as theirs,
        xr.open_dataset(tmp_path / "again.nc") as ours,
    ):
        xr.testing.assert_identical(ours.load(), theirs.load())
        assert ours.encoding["unlimited_dims"] == {"time"}


@pytest.mark.slow
def test_a_file_with_groups_is_the_tree_that_xarray_reads(tmp_path):
    forecast(tmp_path / "f.nc", "NETCDF4")
    xa.from_netcdf(tmp_path / "f.nc", path=tmp_path / "g").close()
    with (
        xr.open_datatree(tmp_path / "f.nc", engine="netcdf4") as theirs,
        xr.open_datatree(tmp_path / "g", engine="extarray") as ours,
    ):
        xr.testing.assert_identical(ours.load(), theirs.load())
        assert "depth" in ours["deep"].coords


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*Zarr V3 specification")
@pytest.mark.filterwarnings("ignore:.*the type of the attribute")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_store_of_a_group_is_what_xarray_reads(tmp_path, zarr_format):
    pytest.importorskip("zarr")
    forecast(tmp_path / "f.nc", "NETCDF3_CLASSIC")
    with xa.from_netcdf(tmp_path / "f.nc", path=tmp_path / "g") as g:
        xa.to_zarr(g, tmp_path / "z", zarr_format=zarr_format)
        stores = [tmp_path / "z", g.as_zarr_store()]
        with xr.open_dataset(tmp_path / "f.nc") as theirs:
            theirs.load()
        for store in stores:
            with xr.open_zarr(store, consolidated=False) as ours:
                xr.testing.assert_identical(ours.load(), theirs)
    xa.from_zarr(tmp_path / "z", path=tmp_path / "h").close()
    with xr.open_dataset(tmp_path / "h", engine="extarray") as ours:
        xr.testing.assert_identical(ours.load(), theirs)


def test_one_variable_of_a_file(tmp_path):
    """A lone variable has its coordinates as attributes; characters become texts, too."""
    forecast(tmp_path / "f.nc", "NETCDF4")
    xa.from_netcdf(tmp_path / "f.nc", "t2m", path=tmp_path / "t2m").close()
    xa.from_netcdf(tmp_path / "f.nc", "town", path=tmp_path / "town").close()
    with xr.open_dataset(tmp_path / "f.nc") as theirs:
        with xr.open_dataset(tmp_path / "t2m.xmd") as ours:
            assert {"lat", "lon", "height", "time"} <= set(ours.coords)
            xr.testing.assert_equal(ours["t2m"].drop_vars("crs"), theirs["t2m"])
        with xr.open_dataset(tmp_path / "town.xmd") as ours:
            xr.testing.assert_identical(ours["town"].variable, theirs["town"].variable)


def test_one_array_of_a_group_has_no_coordinates_to_write(tmp_path):
    netCDF4 = pytest.importorskip("netCDF4")
    forecast(tmp_path / "f.nc", "NETCDF4")
    with (
        xa.from_netcdf(tmp_path / "f.nc", path=tmp_path / "g") as g,
        pytest.warns(xa.LossyWarning, match="'t2m': .* coordinate 'lat'; coordinate 'lon'"),
    ):
        xa.to_netcdf(g["t2m"], tmp_path / "one.nc", "t2m")
    with netCDF4.Dataset(tmp_path / "one.nc") as f:
        assert list(f.variables) == ["t2m"]


def test_coordinates_of_groups_of_earlier_versions(tmp_path):
    """Earlier versions stored coordinates both as arrays and as attributes of labelled arrays."""
    coords = {"lat": {"dims": ["y", "x"], "data": [[1.0, 2.0]]}}
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create("lat", (1, 2), dims=["y", "x"])[...] = [[1, 2]]
        g.create("rain", (1, 2), dims=["y", "x"], attrs={"coords": coords})
    with xr.open_dataset(tmp_path / "g", engine="extarray") as ours:
        assert set(ours.coords) == {"lat"} and ours["rain"].coords["lat"].shape == (1, 2)


def test_an_attribute_of_another_meaning_stays(path):
    xa.create(path, 2, dims=("x",), attrs={"unlimited_dims": "x", "char_dim_name": "x"}).close()
    with xr.open_dataset(f"{path}.xmd") as ds:
        (variable,) = ds.data_vars.values()
        assert variable.attrs == {"unlimited_dims": "x", "char_dim_name": "x"}
        assert "unlimited_dims" not in ds.encoding


def test_truth_values_of_arrays_are_those_of_xarray(tmp_path):
    pytest.importorskip("netCDF4")
    a = xa.from_array(np.array([True, False]), dims=("x",))
    xa.to_netcdf(a, tmp_path / "f.nc", "mask")
    with xr.open_dataset(tmp_path / "f.nc") as theirs:
        assert theirs["mask"].dtype == bool and theirs["mask"].values.tolist() == [True, False]
    b = xa.from_netcdf(tmp_path / "f.nc", "mask")
    assert b.dtype == bool and "dtype" not in b.attrs
