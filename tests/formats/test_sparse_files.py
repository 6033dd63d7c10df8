"""Files with unwritten parts become equally sparse arrays."""

from __future__ import annotations

import os

import numpy as np
import pytest
from compare import assert_same
from systems import disk_bytes

import extarray as xa
from extarray import cli

SHAPE, CHUNKS = (1000, 800), (50, 80)
WHERE = np.s_[120:140, 200:390]


def space(path) -> int:
    return disk_bytes(f"{path}.xta")


def make_hdf5(file, **options):
    h5py = pytest.importorskip("h5py")
    options = {"shape": SHAPE, "dtype": "f8", "chunks": CHUNKS, **options}
    with h5py.File(file, "w") as f:
        d = f.create_dataset("run/d", **options)
        d[WHERE] = 1.5
        d[0, 0] = -0.0
        d.attrs["unit"] = "mm"
        return d[...]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "f.h5"


HDF5 = {
    "plain": {},
    "small chunks": {"chunks": (5, 8)},
    "compressed": {"compression": "gzip"},
    "that may grow": {"maxshape": (None, None)},
    "another byte order": {"dtype": ">f4"},
    "chunks beyond the end": {"chunks": (300, 300)},
}


@pytest.mark.parametrize("options", HDF5.values(), ids=HDF5)
def test_hdf5(file, tmp_path, options):
    theirs = make_hdf5(file, **options)
    with xa.from_hdf5(file, "run/d", path=tmp_path / "a") as a:
        assert a.info()["sparse"] and a.attrs["unit"] == "mm"
        assert a[...].tobytes() == theirs.tobytes()
    assert space(tmp_path / "a") < theirs.nbytes / 2
    with xa.from_hdf5(file, "run/d", path=tmp_path / "b", sparse=False, chunks=(100, 100)) as b:
        assert not b.info()["sparse"]
        assert_same(b[...], theirs)
        assert space(tmp_path / "b") >= theirs.nbytes


@pytest.mark.parametrize("fill", [7.0, np.nan])
def test_hdf5_with_another_fill_value(file, tmp_path, fill):
    """Unwritten elements are not zeros here, so the array takes its full space."""
    theirs = make_hdf5(file, fillvalue=fill)
    with xa.from_hdf5(file, "run/d", path=tmp_path / "a") as a:
        assert a[...].tobytes() == theirs.tobytes()
        a.extend(0, 1)
        assert_same(a[-1], np.full(SHAPE[1], fill))
    with xa.from_hdf5(file, "run/d", mask_and_scale=True) as a:
        assert a[...].tobytes() == theirs.tobytes()


def test_packed_numbers_that_were_never_written(file, tmp_path):
    """The attributes decide whether the stored number of a hole means "missing"."""
    for number, attrs in enumerate(
        ({"scale_factor": 0.5, "add_offset": 3.0}, {"_FillValue": np.int16(0), "scale_factor": 0.5})
    ):
        h5py = pytest.importorskip("h5py")
        with h5py.File(file, "w") as f:
            d = f.create_dataset("d", SHAPE, "i2", chunks=CHUNKS)
            d[WHERE] = 4
            d.attrs.update(attrs)
            stored = d[...]
        expected = stored * 0.5 + attrs.get("add_offset", 0.0)
        if "_FillValue" in attrs:
            expected[stored == 0] = np.nan
        with xa.from_hdf5(file, "d", path=tmp_path / f"{number}", mask_and_scale=True) as a:
            assert_same(a[...], expected.astype(a.dtype))


def test_hdf5_of_which_nothing_was_written(file, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(file, "w") as f:
        f.create_dataset("chunked", SHAPE, "f8", chunks=CHUNKS)
        f.create_dataset("contiguous", SHAPE, "f8")
        f.create_dataset("scalar", (), "f8")
        f.create_dataset("empty", (0, 5), "f8", chunks=(1, 5), maxshape=(None, 5))
        f.create_dataset("arrays", SHAPE, "(3,)f4", chunks=CHUNKS)
    for name, shape in {
        "chunked": SHAPE,
        "contiguous": SHAPE,
        "scalar": (),
        "empty": (0, 5),
    }.items():
        with xa.from_hdf5(file, name, path=tmp_path / name) as a:
            assert_same(a[...], np.zeros(shape))
        assert space(tmp_path / name) < 100_000
    with pytest.warns(xa.LossyWarning), xa.from_hdf5(file, "arrays", path=tmp_path / "x") as a:
        assert_same(a[...], np.zeros((*SHAPE, 3), "f4"))
    assert space(tmp_path / "x") < 100_000


@pytest.mark.slow
def test_a_huge_dataset_is_gone_through_by_its_chunks(file, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(file, "w") as f:
        d = f.create_dataset("d", (10**5, 10**5), "f8", chunks=(10**3, 10**3))
        d[5, 7], d[-1, -1] = 3, 4
    with xa.from_hdf5(file, "d", path=tmp_path / "a", chunks=(2000, 500)) as a:
        assert (a[5, 7], a[-1, -1], a[5, 8]) == (3, 4, 0)
    assert space(tmp_path / "a") < 10**8


def test_a_whole_file_and_what_is_mapped(file, tmp_path):
    theirs = make_hdf5(file)
    with xa.from_hdf5(file, path=tmp_path / "g") as g:
        assert_same(g["run/d"][...], theirs)
    assert space(tmp_path / "g/run/d") < theirs.nbytes / 2
    with xa.from_hdf5(file, path=tmp_path / "h", sparse=False):
        assert space(tmp_path / "h/run/d") >= theirs.nbytes
    with xa.map_hdf5(file, "run/d", path=tmp_path / "m") as m:
        assert_same(m[...], theirs)
        m[900, 700] = 5
        m.write_back()
    assert space(tmp_path / "m") < theirs.nbytes / 2
    theirs[900, 700] = 5
    h5py = pytest.importorskip("h5py")
    with h5py.File(file) as f:
        assert_same(f["run/d"][...], theirs)


def test_from_array_of_a_dataset(file, tmp_path):
    theirs = make_hdf5(file)
    h5py = pytest.importorskip("h5py")
    with h5py.File(file) as f:
        with xa.from_array(f["run/d"], tmp_path / "a") as a:
            assert_same(a[...], theirs)
        with xa.from_array(f["run/d"], tmp_path / "b", sparse=False) as b:
            assert_same(b[...], theirs)
    assert space(tmp_path / "a") < theirs.nbytes / 2 <= theirs.nbytes <= space(tmp_path / "b")


@pytest.mark.parametrize("zlib", [False, True])
def test_netcdf(tmp_path, zlib):
    nc = pytest.importorskip("netCDF4")
    pytest.importorskip("h5py")
    with nc.Dataset(tmp_path / "f.nc", "w") as d:
        d.createDimension("y", SHAPE[0])
        d.createDimension("x", SHAPE[1])
        for name, fill in (("zero", 0.0), ("default", None)):
            v = d.createVariable(
                name, "f8", ("y", "x"), chunksizes=CHUNKS, fill_value=fill, zlib=zlib
            )
            v.set_auto_mask(False)
            v[WHERE] = 1.5
    with nc.Dataset(tmp_path / "f.nc") as d:
        d.set_auto_mask(False)
        theirs = {name: d[name][...] for name in ("zero", "default")}
    for name, values in theirs.items():
        with xa.from_netcdf(tmp_path / "f.nc", name, path=tmp_path / name) as a:
            assert_same(a[...], values)
    assert space(tmp_path / "zero") < theirs["zero"].nbytes / 2


STORES = {
    "3": {"zarr_format": 3},
    "2": {"zarr_format": 2},
    "without a codec": {"zarr_format": 3, "compressors": None},
    "shards": {"zarr_format": 3, "shards": (100, 160)},
    "another fill value": {"zarr_format": 3, "fill_value": 5.0},
}


@pytest.mark.parametrize("options", STORES.values(), ids=STORES)
@pytest.mark.parametrize("in_memory", [False, True])
def test_zarr(tmp_path, options, in_memory):
    zarr = pytest.importorskip("zarr")
    store = zarr.storage.MemoryStore() if in_memory else tmp_path / "z"
    z = zarr.create_array(store, shape=SHAPE, chunks=CHUNKS, dtype="f8", **options)
    z[WHERE] = 1.5
    theirs = z[...]
    for number, make in enumerate(
        (lambda to: xa.from_zarr(store, path=to), lambda to: xa.from_array(z, to))
    ):
        with make(tmp_path / f"a{number}") as a:
            assert_same(a[...], theirs)
        if "fill_value" not in options:
            assert space(tmp_path / f"a{number}") < theirs.nbytes / 2
    with xa.from_zarr(store, path=tmp_path / "b", sparse=False) as b:
        assert_same(b[...], theirs)
    assert space(tmp_path / "b") >= theirs.nbytes


def test_files_with_holes(tmp_path):
    values = np.zeros(SHAPE)
    np.save(tmp_path / "a.npy", values[:0])
    with open(tmp_path / "a.npy", "wb") as f:
        np.lib.format.write_array_header_1_0(
            f, {"descr": "<f8", "fortran_order": False, "shape": SHAPE}
        )
        start = f.tell()
        f.seek(start + (500 * SHAPE[1] + 3) * 8)
        f.write(np.float64(2.5).tobytes())
        f.truncate(start + values.nbytes)
    os.link(tmp_path / "a.npy", tmp_path / "a.raw")
    theirs = np.load(tmp_path / "a.npy")
    with xa.from_npy(tmp_path / "a.npy", path=tmp_path / "npy", chunks=(50, 80)) as a:
        assert_same(a[...], theirs)
    with xa.from_raw(
        tmp_path / "a.raw", SHAPE, "<f8", start, path=tmp_path / "raw", chunks=(50, 80)
    ) as a:
        assert_same(a[...], theirs)
    for name in ("npy", "raw"):
        assert space(tmp_path / name) < theirs.nbytes / 2
    np.save(tmp_path / "b.npy", theirs)
    with xa.from_npy(tmp_path / "b.npy", path=tmp_path / "b", chunks=CHUNKS) as b:
        assert_same(b[...], theirs)
        assert space(tmp_path / "b") >= theirs.nbytes, "whoever wrote the zeros wanted them"
    with xa.from_npy(tmp_path / "b.npy", path=tmp_path / "c", chunks=CHUNKS, sparse=True) as c:
        assert_same(c[...], theirs)
        assert space(tmp_path / "c") < theirs.nbytes / 2


def test_the_command_line(file, tmp_path):
    pytest.importorskip("click")
    theirs = make_hdf5(file)

    def run(*words):
        assert cli.main([str(word) for word in words]) == 0

    run("import", f"{file}:/run/d", tmp_path / "a")
    run("copy", tmp_path / "a", tmp_path / "b")
    run("rechunk", tmp_path / "a", tmp_path / "c", "--chunks", "100,40")
    run("rechunk", tmp_path / "a", "--chunks", "100,40", "--plan", tmp_path / "no", "--sparse")
    for name in "abc":
        assert_same(xa.open(tmp_path / name)[...], theirs)
        assert space(tmp_path / name) < theirs.nbytes / 2
    run("import", f"{file}:/run/d", tmp_path / "d", "--no-sparse")
    run("copy", tmp_path / "a", tmp_path / "e", "--no-sparse")
    for name in "de":
        assert space(tmp_path / name) >= theirs.nbytes
    run("copy", tmp_path / "e", tmp_path / "f", "--sparse")
    assert space(tmp_path / "f") < theirs.nbytes / 2
