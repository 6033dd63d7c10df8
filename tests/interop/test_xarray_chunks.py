"""Arrays inside xarray's objects: loaded, computed, stored by our chunk manager."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import extarray as xa

xr = pytest.importorskip("xarray")

from xarray.namedarray import parallelcompat  # noqa: E402

from extarray.interop.xarray_chunks import ExtArrayManager  # noqa: E402

VALUES = np.arange(24.0).reshape(4, 6)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Register the entry points of pyproject.toml, whenever the package was installed."""
    tomllib = pytest.importorskip("tomllib")
    project = Path(__file__).resolve().parents[2] / "pyproject.toml"
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["entry-points"]
    group = "xarray.chunkmanagers"
    ours = [EntryPoint(name, value, group) for name, value in table[group].items()]
    others = [e for e in parallelcompat.entry_points(group=group) if e.name != "extarray"]
    managers = parallelcompat.load_chunkmanagers(others + ours)
    monkeypatch.setattr(parallelcompat, "list_chunkmanagers", lambda: managers)


@pytest.fixture(params=["array", "view"])
def array(request, path):
    """Yield an array in files, or a view of one, with the elements of `VALUES`."""
    if request.param == "array":
        with xa.from_array(VALUES, path, chunks=(3, 4)) as a:
            yield a
    else:
        with xa.from_array(VALUES.T, path, chunks=(3, 4)) as a:
            yield a.lazy[...].T


@pytest.mark.parametrize("load", ["load", "compute", "persist"])
@pytest.mark.parametrize("whole", [False, True])
def test_values_are_loaded(array, load, whole):
    da = xr.DataArray(array, {"y": [0, 1, 2, 3]}, ("y", "x"), "v")
    got = getattr(da.to_dataset() if whole else da, load)()
    got = got.v if whole else got
    assert type(got.data) is np.ndarray
    xr.testing.assert_identical(got, xr.DataArray(VALUES, {"y": [0, 1, 2, 3]}, ("y", "x"), "v"))


def test_load_is_in_place_and_compute_is_not(array):
    da = xr.DataArray(array, dims=("y", "x"))
    da.compute()
    assert da.data is array
    da.load()
    assert type(da.data) is np.ndarray


def test_values_beside_numpys_are_loaded(array):
    ds = xr.Dataset({"a": (("y", "x"), array), "b": ("y", [1, 2, 3, 4])}).compute()
    np.testing.assert_array_equal(ds.a.data, VALUES)
    assert ds.b.values.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("memory", [None, 100])
@pytest.mark.parametrize("compute", [True, False])
def test_a_netcdf_file_is_written(array, tmp_path, memory, compute, monkeypatch):
    pytest.importorskip("scipy")
    if not compute:
        pytest.importorskip("dask")
    if memory:
        monkeypatch.setattr(xa.config, "max_memory", memory)
    target = tmp_path / "v.nc"
    da = xr.DataArray(array, dims=("y", "x"), name="v", attrs={"units": "K"})
    later = da.to_netcdf(target, engine="scipy", compute=compute)
    if not compute:
        later.compute()
    with xr.open_dataarray(target, engine="scipy") as got:
        xr.testing.assert_identical(got, xr.DataArray(VALUES, None, ("y", "x"), "v", da.attrs))


def test_a_netcdf_file_of_an_array_with_coordinates(tmp_path):
    """netCDF has no dict attributes: they become coordinates, or are left out."""
    pytest.importorskip("scipy")
    path, target = tmp_path / "a", tmp_path / "a.nc"
    labels = [450.0, 550.0]
    attrs = {"units": "K", "coords": {"band": labels}}
    xa.from_array(VALUES[:, :2], path, dims=("y", "band"), attrs=attrs).close()
    plain = xr.DataArray(VALUES[:, :2], dims=("y", "band"), name="a", attrs={"units": "K"})
    with xr.open_dataarray(path, engine="extarray") as da:
        da.to_netcdf(target, engine="scipy")
    with xr.open_dataarray(target, engine="scipy") as got:
        xr.testing.assert_identical(got, plain.assign_coords(band=labels))
    with xa.open(path) as a:
        held = xr.DataArray(a, name="a")
        with pytest.raises(TypeError, match="coords"):
            held.to_netcdf(target, engine="scipy")
        held.drop_attrs().to_netcdf(target, engine="scipy")
        with xr.open_dataarray(target, engine="scipy") as got:
            xr.testing.assert_identical(got, plain.drop_attrs())
        xr.DataArray(a, name="a", attrs={"units": "K"}).to_netcdf(target, engine="scipy")
    with xr.open_dataarray(target, engine="scipy") as got:
        xr.testing.assert_identical(got, plain)


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 4, 5)])
@pytest.mark.parametrize("memory", [1, 200, 1 << 20])
def test_boxes_reach_every_element_of_a_target(shape, memory, monkeypatch):
    monkeypatch.setattr(xa.config, "max_memory", memory)
    values = np.random.default_rng(1).random(shape)
    a = xa.from_array(values)
    target, larger = np.full(shape, -1.0), np.full([n + 2 for n in shape], -1.0)
    region = tuple(slice(1, n + 1) for n in shape)
    ExtArrayManager().store([a, a], [target, larger], regions=[None, region], lock=None, flush=True)
    np.testing.assert_array_equal(target, values)
    np.testing.assert_array_equal(larger[region], values)
    assert (larger == -1).sum() == larger.size - values.size


@pytest.mark.parametrize("shape", [(4, 6), (0, 5), ()])
def test_chunks_are_told_as_dask_tells_them(shape):
    a = xa.zeros(shape, chunks=(3, 4)[: len(shape)])
    dask = pytest.importorskip("dask.array")
    assert ExtArrayManager().chunks(a) == dask.zeros(shape, chunks=a.chunks).chunks


def test_functions_of_chunks_get_tasks(array):
    dask = pytest.importorskip("dask.array")
    da = xr.DataArray(array, dims=("y", "x"))
    got = xr.apply_ufunc(np.sqrt, da, dask="parallelized", output_dtypes=["f8"])
    assert isinstance(got.data, dask.Array)
    np.testing.assert_array_equal(got, np.sqrt(VALUES))
    assert da.chunk({"x": 2}).chunksizes["x"] == (2, 2, 2)
    assert isinstance(xr.zeros_like(da).data, dask.Array)
    (same,) = xr.unify_chunks(da)
    assert same.chunks == array.to_dask().chunks


def test_a_loaded_object_is_compared_with_its_source(array):
    da = xr.DataArray(array, dims=("y", "x"))
    assert da.identical(da.compute())
    assert not da.identical(da.compute() + 1)


def test_loading_needs_no_dask(array, monkeypatch):
    """Calls that do need dask say so."""
    monkeypatch.setitem(sys.modules, "dask", None)
    manager = ExtArrayManager()
    np.testing.assert_array_equal(manager.compute(array)[0], VALUES)
    with pytest.raises(xa.MissingExtraError, match="pip install dask"):
        manager.from_array(VALUES, 2)
