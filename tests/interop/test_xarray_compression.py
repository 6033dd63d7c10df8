"""Encodings of xarray that say how arrays are compressed, and how floats are rounded."""

from __future__ import annotations

import numpy as np
import pytest
from systems import GUESSED_ENGINE

import extarray as xa
from extarray.errors import ArgumentError, DTypeError

xr = pytest.importorskip("xarray", minversion="2025.1")
pytest.importorskip("dask.array")

import extarray.interop.xarray  # noqa: E402

X = np.random.default_rng(3).normal(280, 9, (24, 30)).astype("f4")


@pytest.fixture(params=["numpy", "dask"])
def dataset(request):
    x = X.copy()
    x[2, 3] = -9999
    ds = xr.Dataset(
        {"v": (("t", "x"), x, {"_FillValue": np.float32(-9999)}), "n": ("x", np.arange(30))},
        coords={"x": np.linspace(0, 1, 30)},
    )
    return ds.chunk(t=8) if request.param == "dask" else ds


def codec(path):
    with xa.open(path) as a:
        return a._store.now.header.encoding


def test_an_encoding_compresses_and_comes_back(dataset, tmp_path):
    how = {"compression": "zlib:3:shuffle", "freeze": "close", "chunks": (8, 10)}
    dataset.extarray.to_extarray(tmp_path / "a", encoding={"v": how})
    with xa.open(tmp_path / "a" / "v") as a:
        assert a._store.now.frozen.frozen(0, a.axial.size).tolist() == list(range(9))
    assert codec(tmp_path / "a" / "n") == {}
    with xr.open_dataset(tmp_path / "a", engine=GUESSED_ENGINE) as back:
        np.testing.assert_array_equal(back.n, np.arange(30))
        xr.testing.assert_equal(back.v, xr.where(dataset.v == -9999, np.nan, dataset.v))
        assert {key: back.v.encoding[key] for key in how} == how
        assert "compression" not in back.n.encoding
        back.extarray.to_extarray(tmp_path / "b")  # the encoding goes on
    assert codec(tmp_path / "b" / "v") == {"codec": "zlib:3:shuffle", "freeze": "close"}


def test_one_array(dataset, tmp_path):
    how = {"v": {"compression": "zlib"}, "x": {}}
    dataset.v.extarray.to_extarray(tmp_path / "v", encoding=how)
    with xr.open_dataarray(tmp_path / "v", mask_and_scale=False) as back:
        xr.testing.assert_equal(back, dataset.v)
        assert back.encoding["compression"] == "zlib"


def test_floats_are_rounded_but_for_missing_ones(dataset, tmp_path):
    dataset.extarray.to_extarray(tmp_path / "a", encoding={"v": {"significant_bits": 7}})
    with xa.open(tmp_path / "a" / "v") as a:
        found, wanted = a[...], dataset.v.values
    mantissa, exponent = np.frexp(wanted)
    rounded = np.ldexp(np.rint(np.ldexp(mantissa, 8)), exponent - 8)
    np.testing.assert_array_equal(found, np.where(wanted == -9999, wanted, rounded))


def test_what_the_encoding_of_another_engine_means_stays_there(tmp_path):
    ds = xr.Dataset({"v": ("x", X[0])})
    ds.v.encoding = {"compression": "gzip", "compression_opts": 4, "shuffle": True}  # of h5netcdf
    ds.extarray.to_extarray(tmp_path / "a")
    assert codec(tmp_path / "a" / "v") == {}


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"compression": "lzf"}, ArgumentError, "no codec 'lzf'"),
        ({"freeze": "later"}, ArgumentError, "freeze 'later' is not valid"),
        ({"compression": "zlib", "complevel": 3}, ArgumentError, "unexpected encoding"),
        ({"significant_bits": 24}, ArgumentError, "must be 1 to 23"),
        ({"dtype": "i4", "_FillValue": -1, "significant_bits": 7}, DTypeError, "not int32"),
    ],
)
def test_refusals_come_before_any_file(tmp_path, how, error, words):
    ds = xr.Dataset({"v": ("x", X[0])})
    with pytest.raises(error, match=words):
        ds.extarray.to_extarray(tmp_path / "a", encoding={"v": how})
    assert not (tmp_path / "a").exists()
