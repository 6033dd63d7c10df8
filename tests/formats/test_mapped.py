"""Datasets that are mapped, extended, and written back."""

from __future__ import annotations

import numpy as np
import pytest

import extarray as xa

h5py = pytest.importorskip("h5py")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file.h5"


def made(file, **options):
    x = np.arange(12.0).reshape(3, 4)
    with h5py.File(file, "w") as f:
        d = f.create_dataset("run/level", data=x, **options)
        d.attrs["unit"] = "mm"
        d.attrs["codes"] = np.array([1, 2], ">i2")
        d.dims[0].label = "time"
        f["x"] = [1, 2, 3, 4]
        f["x"].make_scale("x")
        d.dims[1].attach_scale(f["x"])
    return x


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"maxshape": (None, None), "chunks": (2, 2), "compression": "gzip"},
        {"chunks": (2, 2), "shuffle": True, "compression": "lzf", "fillvalue": 5.0},
        {"maxshape": (None, 4), "chunks": (2, 2)},
    ],
    ids=str,
)
@pytest.mark.parametrize("side", ["end", "start"])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_dataset_is_extended_on_any_axis(file, options, side, axis):
    x = made(file, **options)
    m = xa.map_hdf5(file, "run/level")
    m.extend(axis, 2, side=side)
    fill = options.get("fillvalue", 0)
    wide = [(0, 0), (0, 0)]
    wide[axis] = (2, 0) if side == "start" else (0, 2)
    expected = np.pad(x, wide, constant_values=fill)
    expected[0, 0] = m[0, 0] = 77
    m.attrs["unit"] = "cm"
    assert m.write_back() > 0
    with h5py.File(file) as f:
        d = f["run/level"]
        assert np.array_equal(d[...], expected)
        assert d.fillvalue == fill
        assert d.compression == options.get("compression")
        assert d.attrs["unit"] == "cm"
        assert d.attrs["codes"].dtype == ">i2"
        assert d.dims[0].label == "time"
        assert list(d.dims[1]) == ["x"]
        assert sorted(f) == ["run", "x"]
    assert m.write_back() == 0


def test_only_what_changed_is_written(file):
    made(file)
    m = xa.map_hdf5(file, "run/level")
    assert m.write_back() == 0
    m[1, 1] = 55
    assert m.write_back() == m.nbytes
    with h5py.File(file, "r+") as f:
        f["run/level"][0, 0] = 99
        n = xa.map_hdf5(f["run/level"])
        n.extend(0, 1)
        n.write_back()
        assert f["run/level"].shape == (4, 4)
        n[3] = 1
        n.write_back()
        assert f["run/level"][3].tolist() == [1] * 4
    assert type(n.copy()) is xa.ExtArray


def test_a_dataset_that_changed_or_is_gone_is_left_alone(file):
    made(file, maxshape=(None, None))
    m = xa.map_hdf5(file, "run/level")
    with h5py.File(file, "r+") as f:
        f["run/level"].resize((9, 4))
    with pytest.raises(xa.ArgumentError, match="map it again"):
        m.write_back()
    with h5py.File(file, "r+") as f:
        del f["run/level"]
    with pytest.raises(xa.VariableError):
        m.write_back()
    with h5py.File(file) as f:
        n = xa.map_hdf5(f["x"])
        with pytest.raises(xa.ArgumentError, match="mode 'r\\+'"):
            n.write_back()
    m.close()
    with pytest.raises(xa.ClosedError):
        m.write_back()


def test_a_variable_of_netcdf_grows_where_it_is_unlimited(tmp_path):
    nc = pytest.importorskip("netCDF4")
    file = tmp_path / "file.nc"
    x = np.arange(12, dtype="i2").reshape(3, 4)
    a = xa.from_array(x, dims=("time", "x"), attrs={"scale_factor": 0.5, "unit": "mm"})
    xa.to_netcdf(a, file, "level", unlimited="time")
    m = xa.map_netcdf(file, "level")
    m.append([[9, 9, 9, 9]])
    m[0, 0] = 7
    m.attrs["unit"] = "cm"
    assert m.write_back() > 0
    with nc.Dataset(file) as d:
        d.set_auto_maskandscale(False)
        assert np.array_equal(d["level"][...], m[...])
        assert d["level"].unit == "cm"
    m.extend(1, 1)
    with pytest.raises(xa.ArgumentError, match="is limited"):
        m.write_back()
