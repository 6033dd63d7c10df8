"""Whole files of HDF5 and netCDF as groups, and back."""

from __future__ import annotations

import functools
import json
import os

import numpy as np
import pytest

import extarray as xa
from extarray import errors

pytest.importorskip("h5py")
pytest.importorskip("netCDF4")
pytest.importorskip("zarr")


@pytest.fixture
def group(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        g.attrs["title"] = "masts"
        time = g.create("time", 3, "i8", dims=["time"], attrs={"units": "days since 2024-05-01"})
        time[:] = [1, 2, 4]
        wind = g.create("north/wind", (3, 2), "f4", dims=["time", "x"], fill_value=-1)
        wind[...] = np.arange(6).reshape(3, 2)
        x = g.create("north/x", 2, dims=["x"])
        x[:] = [0.5, 1.5]
        g["north"].attrs["height"] = 10
        level = g.create("level", 3, "i2", dims=["time"])
        level[:] = 7
        g.create_group("empty")
        yield g


def contents(g):
    """Return the whole content of a group."""
    return {
        name: dict(item.attrs)
        if isinstance(item, xa.Group)
        else (item.dims, item.dtype, item.fill_value, item[...].tolist())
        for name, item in g.walk()
    }


FORMATS = {
    "hdf5": (xa.to_hdf5, xa.from_hdf5, ".h5"),
    "netcdf": (xa.to_netcdf, xa.from_netcdf, ".nc"),
    "zarr": (xa.to_zarr, xa.from_zarr, ".zarr"),
    "zarr 2": (functools.partial(xa.to_zarr, zarr_format=2), xa.from_zarr, ".zarr"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_group_comes_back(kind, group, tmp_path):
    write, read, suffix = FORMATS[kind]
    file = tmp_path / f"file{suffix}"
    write(group, file)
    with read(file, path=tmp_path / "h") as found:
        assert isinstance(found, xa.Group) and found.mode == "r+"
        assert contents(found) == contents(group)
        assert dict(found.attrs) == dict(group.attrs)
        assert found["time"].attrs["units"] == "days since 2024-05-01"
        assert "coords" not in found["north/wind"].attrs
        found.extend("time", 2)
        write(found, file, overwrite=True)
    with read(file, path=tmp_path / "i") as found:
        assert found["north/wind"].shape == (5, 2)
    with pytest.raises(errors.ExistsError):
        write(group, file)
    with pytest.raises(errors.ExistsError):
        read(file, path=tmp_path / "h")
    with read(file, path=tmp_path / "h", overwrite=True) as found:
        assert found["time"].shape == (5,)
    assert sorted(os.listdir(tmp_path)) == [f"file{suffix}", "g", "h", "i"]


def test_scales_are_attached(group, tmp_path):
    import h5py

    xa.to_hdf5(group, tmp_path / "f.h5", compression="gzip")
    with h5py.File(tmp_path / "f.h5") as f:
        assert f["level"].dims[0][0] == f["time"]
        assert f["north/wind"].dims[1][0] == f["north/x"]
        assert f["level"].compression == "gzip"
        with xa.from_hdf5(f["north"], path=tmp_path / "n") as n:
            assert list(n) == ["wind", "x"] and dict(n.attrs) == {"height": 10}


@pytest.mark.slow
def test_files_of_xarray_are_groups(group, tmp_path):
    xr = pytest.importorskip("xarray")
    ds = xr.Dataset(
        {"rain": (("time", "y"), np.ones((2, 3)))},
        {"time": [1, 2], "lat": ("y", [1.0, 2, 3])},
        {"title": "t"},
    )
    ds.to_netcdf(tmp_path / "a.nc")
    with xa.from_netcdf(tmp_path / "a.nc", path=tmp_path / "a") as g:
        assert list(g) == ["lat", "rain", "time"]
        xa.to_netcdf(g, tmp_path / "b.nc")
    with xr.open_dataset(tmp_path / "b.nc") as found:
        assert found.equals(ds)
    with xr.open_dataset(tmp_path / "a", engine="extarray") as found:
        assert found.rain.equals(ds.rain.drop_vars("lat")) or found.equals(ds)


def test_what_no_array_has_is_named(tmp_path):
    import h5py

    with h5py.File(tmp_path / "f.h5", "w") as f:
        f["texts"] = ["a", "bc"]
        f["numbers"] = [1, 2]
        f.create_dataset("sequences", (2,), h5py.vlen_dtype("i4"))
    with pytest.warns(errors.LossyWarning, match="'sequences'"):
        g = xa.from_hdf5(tmp_path / "f.h5", path=tmp_path / "g")
    with g:
        assert list(g) == ["numbers", "texts"]
        assert g["texts"][1] == "bc"


def _of_times(f, name, shape=(2,)):
    """Make a dataset of a type that h5py does not read."""
    import h5py

    space = h5py.h5s.create_simple(shape)
    h5py.h5d.create(f.id, name.encode(), h5py.h5t.UNIX_D32LE, space)


def test_a_type_that_no_array_has_does_not_stop_a_file(tmp_path):
    import h5py

    with h5py.File(tmp_path / "f.h5", "w") as f:
        f["good"] = [1, 2]
        f["run/level"] = [3.0]
        _of_times(f, "run/times")
        record = h5py.h5t.create(h5py.h5t.COMPOUND, 8)
        record.insert(b"n", 0, h5py.h5t.STD_I32LE)
        record.insert(b"t", 4, h5py.h5t.UNIX_D32LE)
        h5py.h5d.create(f.id, b"records", record, h5py.h5s.create_simple((2,)))
        h5py.h5a.create(
            f["good"].id, b"when", h5py.h5t.UNIX_D32LE, h5py.h5s.create(h5py.h5s.SCALAR)
        )
    with pytest.raises(errors.DTypeError, match="'/run/times'"):
        xa.from_hdf5(tmp_path / "f.h5", "run/times")
    with pytest.warns(errors.LossyWarning) as caught:
        g = xa.from_hdf5(tmp_path / "f.h5", path=tmp_path / "g")
    assert list(g) == ["good", "run"] and list(g["run"]) == ["level"]
    told = {str(w.message) for w in caught}
    assert any(t.startswith("from HDF5, 'good': the array") and "'when'" in t for t in told)
    (of_group,) = [t for t in told if t.startswith("from HDF5: the group does not have ")]
    assert "'run/times' (" in of_group and "'records' (" in of_group


def test_a_scale_of_a_type_that_no_array_has(tmp_path):
    import h5py

    with h5py.File(tmp_path / "f.h5", "w") as f:
        f["level"] = [1, 2]
        _of_times(f, "t")
        h5py.h5ds.set_scale(f["t"].id, b"t")
        f["level"].dims[0].attach_scale(f["t"])
    with pytest.warns(errors.LossyWarning, match="from HDF5, 'level': .* coordinate 't'"):
        assert xa.from_hdf5(tmp_path / "f.h5", "level")[...].tolist() == [1, 2]


def test_an_array_that_cannot_be_read_is_named(tmp_path):
    import h5py

    with h5py.File(tmp_path / "f.h5", "w") as f:
        f["good"] = [1, 2]
        f.create_dataset("run/level", data=np.arange(1000), compression="gzip")
        place = f["run/level"].id.get_chunk_info(0)
    data = bytearray((tmp_path / "f.h5").read_bytes())
    data[place.byte_offset : place.byte_offset + place.size] = bytes(place.size)
    (tmp_path / "f.h5").write_bytes(data)
    with pytest.raises(errors.FormatError, match="'run/level' of "):
        xa.from_hdf5(tmp_path / "f.h5", path=tmp_path / "g")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_arrays_that_zarr_does_not_know_do_not_stop_a_store(tmp_path, zarr_format):
    import zarr

    z = zarr.open_group(tmp_path / "z", mode="w", zarr_format=zarr_format)
    for name in ("good", "run/dtype", "run/codec"):
        z.create_array(name, data=np.arange(3.0))
    file = {2: ".zarray", 3: "zarr.json"}[zarr_format]
    changes = {
        "run/dtype": {2: {"dtype": "<q9"}, 3: {"data_type": "float13"}},
        "run/codec": {2: {"compressor": {"id": "no"}}, 3: {"codecs": [{"name": "no"}]}},
    }
    for name, change in changes.items():
        place = tmp_path / "z" / name / file
        place.write_text(json.dumps(json.loads(place.read_text()) | change[zarr_format]))
    with pytest.warns(errors.LossyWarning, match=r"'run/codec' \(.*'run/dtype' \("):
        g = xa.from_zarr(tmp_path / "z", path=tmp_path / "g")
    assert list(g) == ["good", "run"] and list(g["run"]) == []
    assert xa.file_formats()["zarr"].names(tmp_path / "z") == ["good", *sorted(changes)]
    with pytest.raises(errors.FormatError):
        xa.from_zarr(tmp_path / "z", "run/dtype")


@pytest.mark.parametrize("kind", ["hdf5", "netcdf", "zarr"])
def test_warnings_name_the_array(tmp_path, kind):
    """Warnings name arrays, groups, coordinates, and single arrays."""
    suffix = {"hdf5": "h5", "netcdf": "nc", "zarr": "zarr"}[kind]
    save, load = (getattr(xa, f"{way}_{kind}") for way in ("to", "from"))
    bad = {"bad": {"a": 1j}}
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create("level", 2, attrs=bad)
        g.create("run/deep", 2, attrs=bad)
        g.attrs.update(bad)
        g["run"].attrs.update(bad)
        with pytest.warns(errors.LossyWarning) as caught:
            save(g, tmp_path / f"a.{suffix}")
        coords = {"x": {"dims": ["x"], "data": [1, 2], "attrs": bad}}
        a = xa.from_array([1, 2], dims=("x",), attrs={"coords": coords})
        with pytest.warns(errors.LossyWarning) as alone:
            save(a, tmp_path / f"b.{suffix}", "run/level")
    told = [str(w.message) for w in caught]
    for name in ("level", "run/deep"):
        assert any(f", '{name}': the file does not have attribute 'bad'" in t for t in told), name
    (of_groups,) = [t for t in told if "of the group 'run'" in t]
    assert "attribute 'bad'" in of_groups and "of the file" in of_groups
    (text,) = [str(w.message) for w in alone]
    assert ", 'run/level': the file does not have" in text
    expected = "coordinate 'x'" if kind == "zarr" else "attribute 'bad'"
    assert expected in text and "coordinate 'x'" in text
    assert load(tmp_path / f"b.{suffix}", "run/level")[...].tolist() == [1, 2]


def test_links_are_named(tmp_path):
    import h5py

    with h5py.File(tmp_path / "f.h5", "w") as f:
        f["run/level"] = [1, 2]
        f["soft"], f["far"] = h5py.SoftLink("/run/level"), h5py.ExternalLink("other.h5", "/x")
        f["second"], f["run/round"], f["kind"] = f["run/level"], f["/"], np.dtype("i4")
    with pytest.warns(errors.LossyWarning) as caught:
        g = xa.from_hdf5(tmp_path / "f.h5", path=tmp_path / "g")
    assert list(g) == ["run"] and list(g["run"]) == ["level"]
    text = str(caught[0].message)
    for words in (
        "'soft' (a link to '/run/level')",
        "'far' (a link to '/x' of the file 'other.h5')",
        "'second' (another name of 'run/level')",
        "'run/round' (another name of '/')",
        "'kind' (a data type)",
    ):
        assert words in text


def test_what_fails_leaves_nothing(group, tmp_path):
    import h5py

    with h5py.File(tmp_path / "f.h5", "w") as f:
        f["a.xmd"] = [1]
    with pytest.raises(errors.ArgumentError):
        xa.from_hdf5(tmp_path / "f.h5", path=tmp_path / "new")
    for write, file in ((xa.to_hdf5, "x.h5"), (xa.to_netcdf, "x.nc"), (xa.to_zarr, "x.zarr")):
        with pytest.raises(errors.ArgumentError):
            write(group, tmp_path / file, "name")
        with pytest.raises(errors.ArgumentError):
            write(group, tmp_path / file, selection=slice(2))
    with pytest.raises(errors.ArgumentError):
        xa.to_netcdf(group, tmp_path / "x.nc", format="NETCDF3_CLASSIC")
    with pytest.raises(errors.ArgumentError):
        xa.from_hdf5(tmp_path / "f.h5", path=tmp_path / "new", chunks=2)
    with pytest.raises(errors.MissingError):
        xa.from_hdf5(tmp_path / "none.h5", path=tmp_path / "new")
    with pytest.raises(errors.VariableError):
        xa.from_hdf5(tmp_path / "f.h5")
    assert sorted(os.listdir(tmp_path)) == ["f.h5", "g"]
