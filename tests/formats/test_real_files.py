"""Real files of each format, in the folder that EXTARRAY_TEST_DATA names."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import extarray as xa
from extarray.format.values import to_json

FOLDER = Path(os.environ.get("EXTARRAY_TEST_DATA", "/nowhere"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="EXTARRAY_TEST_DATA names no folder"),
    pytest.mark.filterwarnings("ignore::extarray.errors.LossyWarning"),
]


def files(*suffixes):
    return sorted(p for p in FOLDER.rglob("*") if p.suffix.lower() in suffixes) or ["none"]


def assert_same(a, b, among=()):
    assert a.dtype == b.dtype and a.shape == b.shape and a.dims == b.dims
    assert a[...].tobytes() == b[...].tobytes()
    ours, theirs = ({k: to_json(v, k) for k, v in each.attrs.items()} for each in (a, b))
    assert {k for k in ours | theirs if ours.get(k) != theirs.get(k)} <= set(among)


@pytest.mark.parametrize("file", files(".h5", ".hdf5"), ids=lambda p: Path(p).name)
def test_hdf5(file, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(file) as f:
        names = []
        f.visititems(lambda k, v: names.append(k) if isinstance(v, h5py.Dataset) else None)
        assert names
        for name in names:
            text = "S" if f[name].dtype.hasobject else None
            a = xa.from_hdf5(f[name], text=text)
            if text is None:
                assert a[...].tobytes() == np.asarray(f[name][()]).tobytes()
            xa.to_hdf5(a, tmp_path / "file.h5", "x", overwrite=True)
            assert_same(xa.from_hdf5(tmp_path / "file.h5", "x"), a)


@pytest.mark.parametrize("file", files(".nc", ".cdf"), ids=lambda p: Path(p).name)
def test_netcdf(file, tmp_path):
    nc = pytest.importorskip("netCDF4")
    with nc.Dataset(file) as d:
        for j, (name, v) in enumerate(d.variables.items()):
            a = xa.from_netcdf(file, name)
            v.set_auto_maskandscale(False)
            v.set_auto_chartostring(False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warns of a _FillValue that is no element
                assert a[...].tobytes() == np.asarray(v[...]).tobytes()
            xa.to_netcdf(a, tmp_path / f"{j}.nc", name)
            # For integers, NaN is not a _FillValue.
            among = (
                ("_FillValue", "coords") if v.dtype.kind in "iu" or "eraint" in str(file) else ()
            )
            assert_same(xa.from_netcdf(tmp_path / f"{j}.nc", name), a, among)


@pytest.mark.parametrize("file", files(".npy"), ids=lambda p: Path(p).name)
def test_npy(file, tmp_path):
    a = xa.from_npy(file)
    assert a[...].tobytes() == np.load(file).tobytes()
    xa.to_npy(a, tmp_path / "file.npy")
    assert (tmp_path / "file.npy").read_bytes()[-a.nbytes :] == a[...].tobytes()


@pytest.mark.parametrize("file", files(".fits"), ids=lambda p: Path(p).name)
def test_fits(file, tmp_path):
    fits = pytest.importorskip("astropy.io.fits")
    with fits.open(file, do_not_scale_image_data=True, uint=False) as there:
        names = xa.file_formats()["fits"].names(file)
        assert names
        for j, name in enumerate(names):
            a = xa.from_fits(file, name)
            stored = there[int(name) if name.isdigit() else name].data
            if a.dtype.kind == "u" and a.itemsize > 1:
                stored = fits.getdata(file)
            np.testing.assert_array_equal(a[...], stored)
            xa.to_fits(a, tmp_path / f"{j}.fits")
            # Comments too long for their cards are truncated.
            assert_same(xa.from_fits(tmp_path / f"{j}.fits"), a, ("card_comments",))
            xa.to_fits(a, tmp_path / "all.fits", name)
            assert_same(xa.from_fits(tmp_path / "all.fits", name), a, ("EXTNAME", "card_comments"))


@pytest.mark.parametrize("scene", range(0, 228, 19))
def test_geotiff(scene, tmp_path):
    rasterio = pytest.importorskip("rasterio")
    file = files(".tif")[scene]
    a = xa.from_geotiff(file)
    with rasterio.open(file) as f:
        assert np.array_equal(a[...], f.read())
    xa.to_geotiff(a, tmp_path / "file.tif", compress="deflate")
    assert_same(xa.from_geotiff(tmp_path / "file.tif"), a)


@pytest.mark.parametrize("file", files(".mat"), ids=lambda p: Path(p).name)
def test_mat(file, tmp_path):
    sio = pytest.importorskip("scipy.io")
    there = sio.loadmat(file)
    for name in xa.file_formats()["mat"].names(file):
        if there[name].dtype.kind in "OU":
            with pytest.raises(xa.DTypeError):
                xa.from_mat(file, name)
            continue
        a = xa.from_mat(file, name)
        assert np.array_equal(a[...], there[name]) and a.dtype == there[name].dtype
        for version in ("5", "7.3"):
            xa.to_mat(a, tmp_path / f"file{version}.mat", name, version=version)
            assert_same(xa.from_mat(tmp_path / f"file{version}.mat", name), a)
