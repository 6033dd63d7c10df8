"""Arrays on a web server as xarray, dask and zarr see them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from served import needs_obstore, served

import extarray as xa

pytestmark = needs_obstore

X = np.random.default_rng(3).normal(size=(24, 30, 20))


@pytest.fixture
def web(tmp_path):
    with xa.from_array(
        X, tmp_path / "a", (4, 8, 8), dims=["t", "y", "x"], attrs={"unit": "K"}
    ) as a:
        xa.pack(a, tmp_path / "a.xap")
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create("u", X.shape, dims=["t", "y", "x"])[...] = X
        g.create("below/v", (24,), dims=["t"])[...] = X[:, 0, 0]
        g.attrs["title"] = "all"
        xa.pack(g, tmp_path / "g.xap")
    xa.index_group(tmp_path / "g")
    with served(tmp_path) as server:
        yield server


@pytest.mark.parametrize("name", ["a", "a.xmd", "a.xap"])
def test_an_array_is_a_dataset(web, name):
    xr = pytest.importorskip("xarray")
    with xr.open_dataset(web.url(name), engine="extarray") as ds:
        assert ds["a"].dims == ("t", "y", "x")
        assert ds["a"].attrs["unit"] == "K"
        np.testing.assert_array_equal(ds["a"][3:9, ::2], X[3:9, ::2])
        np.testing.assert_allclose(ds["a"].mean("t"), X.mean(0))
        with pickle.loads(pickle.dumps(ds)) as again:
            np.testing.assert_array_equal(again["a"][5], X[5])


def test_the_engine_knows_its_files(web):
    pytest.importorskip("xarray")
    from extarray.interop.xarray import ExtArrayBackend

    engine = ExtArrayBackend()
    assert engine.guess_can_open(web.url("a.xap"))
    assert engine.guess_can_open(web.url("a.xmd"))
    assert not engine.guess_can_open(web.url("a.nc"))


def test_the_engine_is_found_where_netcdf4_does_not_claim_all_urls(web, monkeypatch):
    xr = pytest.importorskip("xarray")
    plugins = xr.backends.plugins
    engines = {k: v for k, v in plugins.list_engines().items() if k != "netcdf4"}
    monkeypatch.setattr(plugins, "list_engines", lambda: engines)
    for name in ("a.xap", "a.xmd", "a.xap?X-Amz-Signature=abc"):
        with xr.open_dataset(web.url(name)) as ds:
            np.testing.assert_array_equal(ds["a"], X)


def test_chunks_of_a_dataset_stay_in_a_folder(web, tmp_path):
    xr = pytest.importorskip("xarray")
    folder = tmp_path / "cached"
    counts = []
    for _ in range(2):
        web.forget()
        with xr.open_dataset(web.url("a.xap"), engine="extarray", cache_folder=folder) as ds:
            np.testing.assert_array_equal(ds["a"], X)
        counts.append(len(web.requests))
    assert counts[1] < counts[0]
    with xr.open_datatree(web.url("g.xap"), engine="extarray", cache_folder=folder) as tree:
        np.testing.assert_array_equal(tree["below/v"], X[:, 0, 0])
    assert len(list(folder.glob("*.chunks"))) == 3


@pytest.mark.parametrize("name", ["g", "g.xap"])
def test_a_group_is_a_tree(web, name):
    xr = pytest.importorskip("xarray")
    with xr.open_dataset(web.url(name), engine="extarray") as ds:
        assert ds.attrs["title"] == "all"
        np.testing.assert_array_equal(ds["u"][2], X[2])
    with xr.open_datatree(web.url(name), engine="extarray") as tree:
        np.testing.assert_array_equal(tree["below/v"], X[:, 0, 0])
    with xr.open_datatree(web.url(name), engine="extarray", group="below") as tree:
        np.testing.assert_array_equal(tree["v"], X[:, 0, 0])


@pytest.mark.slow
def test_chunks_of_dask(web):
    pytest.importorskip("dask")
    xr = pytest.importorskip("xarray")
    with xr.open_dataset(web.url("a.xap"), engine="extarray", chunks={}) as ds:
        np.testing.assert_allclose(ds["a"].sum().compute(scheduler="threads"), X.sum())
    da = pytest.importorskip("dask.array")
    with xa.open(web.url("a")) as a:
        x = da.from_array(a, chunks=a.chunks)
        np.testing.assert_allclose(x.mean(axis=1).compute(scheduler="threads"), X.mean(axis=1))
        np.testing.assert_allclose(
            x[:4].sum().compute(scheduler="processes", num_workers=2), X[:4].sum()
        )


@pytest.mark.slow
def test_processes_of_dask_have_the_credentials(web):
    da = pytest.importorskip("dask.array")
    with xa.open(web.url("a"), storage_options={"headers": {"X-Key": "hidden"}}) as a:
        assert b"hidden" not in pickle.dumps(a)
        x = da.from_array(a, chunks=a.chunks)
        np.testing.assert_allclose(x.sum().compute(scheduler="processes", num_workers=2), X.sum())
    assert all(request.headers.get("x-key") == "hidden" for request in web.requests)


def test_a_store_of_zarr(web):
    zarr = pytest.importorskip("zarr")
    with xa.open(web.url("a.xap")) as a:
        z = zarr.open_array(a.as_zarr_store(), mode="r")
        np.testing.assert_array_equal(z[3:7], X[3:7])
    with xa.open_group(web.url("g")) as g:
        z = zarr.open_group(g.as_zarr_store(), mode="r")
        np.testing.assert_array_equal(z["below/v"][:], X[:, 0, 0])


def test_stores_of_other_libraries(web, tmp_path):
    obstore = pytest.importorskip("obstore.store")
    store = obstore.LocalStore(str(tmp_path))
    for path in ("a.xap", "a", "g/u"):
        with xa.open((store, path)) as a:
            np.testing.assert_array_equal(a[...], X)
    with xa.open_group((store, "g")) as g:
        np.testing.assert_array_equal(g["u"], X)
    fsspec = pytest.importorskip("fsspec")
    fs = fsspec.filesystem("file")
    with xa.open((fs, f"{tmp_path}/a.xap")) as a:
        np.testing.assert_array_equal(a[...], X)
    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/a.xap", (tmp_path / "a.xap").read_bytes())
    with xa.open((memory, "/bucket/a.xap")) as a:
        np.testing.assert_array_equal(a[4:8], X[4:8])
