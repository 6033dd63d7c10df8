"""Groups of files of other formats in xarray: as xarray reads the files themselves."""

from __future__ import annotations

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
    """A dataset with missing values of several kinds, and with zeros that are values."""
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
        with pytest.warns(xa.LossyWarning, match="'coords' of '.*run/a'"):
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
