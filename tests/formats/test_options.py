"""HDF5 and netCDF beyond plain datasets, and formats of other packages."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from systems import IS_POSIX, needs_blocks

import extarray as xa
from extarray.common import system
from extarray.errors import ArgumentError
from extarray.formats import transfer


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file.h5"


# -- HDF5 ----------------------------------------------------------------------------------------


def test_a_virtual_dataset(file, tmp_path):
    h5py = pytest.importorskip("h5py")
    layout = h5py.VirtualLayout((3, 4), "i4", maxshape=(None, 4))
    for j in range(2):
        with h5py.File(tmp_path / f"part{j}.h5", "w") as f:
            f["x"] = np.arange(4) + 10 * j
        layout[j] = h5py.VirtualSource(tmp_path / f"part{j}.h5", "x", (4,))
    with h5py.File(file, "w") as f:
        f.create_virtual_dataset("level", layout, fillvalue=-1)
    a = xa.from_hdf5(file, "level")
    assert a[...].tolist() == [[0, 1, 2, 3], [10, 11, 12, 13], [-1] * 4] and a.fill_value == -1


def test_a_dataset_whose_elements_lie_in_another_file(file, tmp_path):
    h5py = pytest.importorskip("h5py")
    x = np.arange(12, dtype="<i4")
    (tmp_path / "raw").write_bytes(b"head" + x.tobytes())
    with h5py.File(file, "w") as f:
        parts = [(tmp_path / "raw", 4, x.nbytes)]
        f.create_dataset("level", (3, 4), "<i4", external=parts)
    assert np.array_equal(xa.from_hdf5(file, "level")[...], x.reshape(3, 4))


def test_an_enumeration_keeps_its_names(file, tmp_path):
    h5py = pytest.importorskip("h5py")
    kind = h5py.enum_dtype({"water": 0, "land": 1}, "u1")
    with h5py.File(file, "w") as f:
        f.create_dataset("mask", data=np.array([0, 1, 1], "u1"), dtype=kind)
    a = xa.from_hdf5(file, "mask")
    assert a.dtype == "u1" and a.attrs["enum"] == {"water": 0, "land": 1}
    xa.to_hdf5(a, tmp_path / "copy.h5", "mask")
    with h5py.File(tmp_path / "copy.h5") as f:
        assert h5py.check_enum_dtype(f["mask"].dtype) == {"water": 0, "land": 1}


def test_attributes_of_records(file, tmp_path, recwarn):
    h5py = pytest.importorskip("h5py")
    record = np.array((7, 2.5), [("n", "<i4"), ("x", ">f8")])
    with h5py.File(file, "w") as f:
        f["level"] = [1, 2]
        f["level"].attrs["one"] = record
        f["level"].attrs["some"] = np.array([(7, 2.5), (7, 2.5)], record.dtype)
    a = xa.from_hdf5(file, "level")
    xa.to_hdf5(a, tmp_path / "copy.h5", "level")
    assert not recwarn.list
    with h5py.File(tmp_path / "copy.h5") as f:
        for name, shape in (("one", ()), ("some", (2,))):
            kept = f["level"].attrs[name]
            assert kept.dtype == record.dtype and np.shape(kept) == shape
            assert np.array_equal(np.ravel(kept)[0], record)


@pytest.mark.parametrize("shape", [(100, 130), (64, 128), (10, 10)])
@pytest.mark.parametrize("filled", [True, False])
@pytest.mark.parametrize("driver", [None, "core"])
def test_open_chunks_are_mapped_and_written_whole(file, tmp_path, shape, filled, driver):
    """Chunks of 256 KiB and more: whole, cut by the bounds, and unwritten."""
    h5py = pytest.importorskip("h5py")
    x = np.random.default_rng(0).random((*shape, 64))
    with h5py.File(file, "w", driver=driver) as f:
        options = {"chunks": (32, 32, 32), "maxshape": (None,) * 3, "fillvalue": 5.0}
        d = f.create_dataset("level", x.shape, "f8", **options)
        d[(...,) if filled else np.s_[:40, :40]] = x if filled else x[:40, :40]
        a = xa.from_hdf5(d)
        assert np.array_equal(a[...], d[...]) and a.chunks == (32, 32, 32)
        b = xa.from_hdf5(d, chunks=(7, 50, 64))
        assert np.array_equal(b[...], d[...])
    xa.to_hdf5(b, tmp_path / "copy.h5", "x", chunks=(32, 32, 32))
    xa.to_hdf5(a.lazy[3:, ::2], tmp_path / "copy.h5", "y")
    with h5py.File(tmp_path / "copy.h5") as f:
        assert np.array_equal(f["x"][...], a[...])
        assert np.array_equal(f["y"][...], a[3:, ::2])


@needs_blocks
def test_an_export_that_fails_gives_back_what_it_reserved(file, monkeypatch):
    h5py = pytest.importorskip("h5py")
    x = np.random.default_rng(0).random((256, 64, 64))
    a = xa.from_array(x, chunks=(32, 32, 32))
    with h5py.File(file, "w") as f:
        f["small"] = x[:1]
    before = file.stat()
    seen = []

    def add(self, nbytes):
        seen.append(os.stat(file).st_blocks * 512)
        raise RuntimeError

    monkeypatch.setattr(transfer.Progress, "add", add)
    with pytest.raises(RuntimeError):
        xa.to_hdf5(a, file, "level")
    assert file.stat() == before and os.listdir(file.parent) == [file.name]
    with h5py.File(file, "r+") as f:
        seen.clear()
        with pytest.raises(RuntimeError):
            xa.to_hdf5(a, f, "level")
    monkeypatch.undo()
    if seen[0] - before.st_blocks * 512 < x.nbytes:
        pytest.skip("the file system reserves no space")
    assert file.stat().st_blocks * 512 < before.st_blocks * 512 + x.nbytes // 2
    xa.to_hdf5(a, file, "level")
    with h5py.File(file) as f:
        assert np.array_equal(f["level"][...], x) and np.array_equal(f["small"][...], x[:1])


def test_elements_that_are_arrays(file):
    h5py = pytest.importorskip("h5py")
    x = np.arange(24, dtype="f4").reshape(4, 3, 2)
    with h5py.File(file, "w") as f:
        f.create_dataset("x", (4,), np.dtype(("f4", (3, 2))))[...] = x
    with pytest.warns(xa.LossyWarning, match=r"arrays of shape \(3, 2\)"):
        a = xa.from_hdf5(file, "x")
    assert np.array_equal(a[...], x)


def _low_level(f, name, kind, shape):
    import h5py

    return h5py.Dataset(h5py.h5d.create(f.id, name, kind, h5py.h5s.create_simple(shape)))


def test_what_a_type_says_and_no_dtype_does_is_named(file):
    h5py = pytest.importorskip("h5py")
    padded = h5py.h5t.C_S1.copy()
    padded.set_size(4)
    padded.set_strpad(h5py.h5t.STR_SPACEPAD)
    with h5py.File(file, "w") as f:
        f["utf8"] = np.array(["\u00e9".encode()], h5py.string_dtype("utf-8", 4))
        f["records"] = np.ones(2, [("n", "i4"), ("kind", h5py.enum_dtype({"A": 1}, "u1"))])
        _low_level(f, b"padded", padded, (2,))[...] = [b"ab", b"xyz"]
        _low_level(f, b"bits", h5py.h5t.STD_B16LE, (2,))[...] = [1, 2]
        f["noted"] = np.arange(2)
        f["noted"].attrs.create("kind", 1, dtype=h5py.enum_dtype({"A": 1}, "u1"))
    for name, words in (
        ("utf8", "UTF-8"),
        ("records", "field 'kind'"),
        ("padded", "padding"),
        ("bits", "bit fields"),
        ("noted", "enumeration in attribute 'kind'"),
    ):
        with pytest.warns(xa.LossyWarning, match=words):
            a = xa.from_hdf5(file, name)
        assert len(a) in (1, 2)


def test_attributes_that_scales_have_are_kept_of_others(file, tmp_path, recwarn):
    h5py = pytest.importorskip("h5py")
    with h5py.File(file, "w") as f:
        f["picture"] = np.zeros((2, 3), "u1")
        f["x"] = np.arange(3)
        f["x"].make_scale("x")
        f["picture"].dims[1].attach_scale(f["x"])
        f["picture"].attrs.update({"CLASS": np.bytes_("IMAGE"), "NAME": "north"})
    a = xa.from_hdf5(file, "picture")
    assert a.attrs["CLASS"] == b"IMAGE" and a.attrs["NAME"] == "north"
    assert "CLASS" not in xa.from_hdf5(file, "x").attrs
    xa.to_hdf5(a, tmp_path / "copy.h5", "picture")
    with h5py.File(tmp_path / "copy.h5") as f:
        assert f["picture"].attrs["CLASS"] == b"IMAGE" and f["x"].is_scale
        assert f["picture"].dims[1][0] == f["x"]
    with xa.map_hdf5(tmp_path / "copy.h5", "picture") as m:
        m.extend(0, 1)
        m.write_back()
    with h5py.File(tmp_path / "copy.h5") as f:
        assert f["picture"].attrs["CLASS"] == b"IMAGE" and f["picture"].shape == (3, 3)
    assert not recwarn.list


# -- netCDF --------------------------------------------------------------------------------------


def test_groups_of_netcdf(file):
    nc = pytest.importorskip("netCDF4")
    with nc.Dataset(file, "w") as d:
        d.createDimension("x", 3)
        inner = d.createGroup("run/deep")
        inner.createDimension("y", 2)
        d.createVariable("x", "f4", ("x",))[:] = [0.5, 1.5, 2.5]
        inner.createVariable("level", "i2", ("y", "x"))[:] = [[1, 2, 3], [4, 5, 6]]
    a = xa.from_netcdf(file, "run/deep/level")
    assert a.dims == ("y", "x") and a[1].tolist() == [4, 5, 6]
    assert a.attrs["coords"]["x"]["data"].tolist() == [0.5, 1.5, 2.5]
    xa.to_netcdf(xa.from_array([[1, 2, 3]], dims=("z", "x")), file, "run/other/new")
    with nc.Dataset(file) as d:
        assert d["run/other/new"].dimensions == ("z", "x") and "x" not in d["run/other"].dimensions
    assert xa.file_formats()["netcdf"].names(file) == ["x", "run/deep/level", "run/other/new"]


def test_records_in_records_of_netcdf(file, tmp_path):
    pytest.importorskip("netCDF4")
    inner = np.dtype([("x", "u1"), ("y", "f8")])
    kind = np.dtype([("n", "i1"), ("place", inner), ("name", "S1", (3,)), ("m", "f4", (2, 2))])
    x = np.zeros(4, kind)
    x["n"], x["place"]["y"], x["name"], x["m"] = [1, 2, 3, 4], 2.5, [b"a", b"b", b"c"], np.eye(2)
    xa.to_netcdf(xa.from_array(x), file, "v")
    a = xa.from_netcdf(file, "v")
    assert all(np.array_equal(a[...][name], x[name]) for name in kind.names)
    xa.to_netcdf(a, tmp_path / "copy.nc", "v")
    b = xa.from_netcdf(tmp_path / "copy.nc", "v")
    assert b.dtype == a.dtype and b[...].tobytes() == a[...].tobytes()
    for strange in ([("p", inner, (2,))], [("p", [("q", ">i4")])], [("z", "c8")]):
        with pytest.raises(xa.DTypeError):
            xa.to_netcdf(xa.zeros(2, strange), tmp_path / "none.nc", "v")


@pytest.mark.parametrize("width", [2, 7])
@pytest.mark.parametrize("model", ["NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC"])
def test_labels_that_are_texts(file, model, width, recwarn):
    nc = pytest.importorskip("netCDF4")
    labels = np.array(["a", "\u00e9x", ""], f"U{width}")
    codes = np.array([b"a", b"bb", b""], "S2")
    coords = {"x": {"dims": ["x"], "data": labels}, "code": {"dims": ["x"], "data": codes}}
    a = xa.from_array(np.zeros(3), dims=["x"], attrs={"coords": coords})
    xa.to_netcdf(a, file, "v", format=model)
    found = xa.from_netcdf(file, "v").attrs["coords"]
    for name, values in (("x", labels), ("code", codes)):
        assert np.array_equal(found[name]["data"], values)
        assert found[name]["data"].dtype == values.dtype
    with nc.Dataset(file) as d:
        assert (d["x"].dtype is str) == (model == "NETCDF4")
    assert not recwarn.list


@pytest.mark.parametrize("with_h5py", [True, False])
@pytest.mark.parametrize("unlimited", [None, "y", True])
@pytest.mark.parametrize("kind", ["<f8", ">f8", "i4"])
def test_chunks_of_netcdf_go_as_they_are(file, tmp_path, monkeypatch, with_h5py, unlimited, kind):
    nc, h5py = pytest.importorskip("netCDF4"), pytest.importorskip("h5py")
    if not with_h5py:
        monkeypatch.setattr("extarray.formats.netcdf.find_spec", lambda name: None)
    x = np.random.default_rng(0).integers(0, 99, (200, 500)).astype(kind)
    attrs = {"coords": {"x": {"dims": ["x"], "data": np.arange(500.0)}}, "units": "m"}
    a = xa.create(None, x.shape, kind, chunks=(128, 300), dims=["y", "x"], fill_value=7)
    a[...] = x
    a.attrs.update(attrs)
    xa.to_netcdf(a, file, "run/v", unlimited=unlimited)
    with nc.Dataset(file, "r+") as d:
        v = d["run/v"]
        v.set_auto_mask(False)
        assert v.chunking() == [128, 300] and np.array_equal(v[...], x) and v.units == "m"
        assert v.endian() == ("big" if kind[0] == ">" else "little")
        assert d["run/x"][-1] == 499
        growing = [n for n, dim in d["run"].dimensions.items() if dim.isunlimited()]
        assert growing == {None: [], "y": ["y"], True: ["y", "x"]}[unlimited]
        if unlimited:
            v[250] = 1
            assert (v[249] == 7).all() and v.shape == (251, 500)
    b = xa.from_netcdf(file, "run/v", path=tmp_path / "b")
    assert b.dtype == kind and b.chunks == (128, 300) and np.array_equal(b[:200], x)
    b.close()
    with nc.Dataset(file) as d:
        assert np.array_equal(xa.from_netcdf(d, "run/v")[:200], x)
    with h5py.File(file) as f:
        assert f["run/v"].dims[1][0] == f["run/x"]


def test_a_record_that_another_variable_of_netcdf_has(file):
    nc = pytest.importorskip("netCDF4")
    with nc.Dataset(file, "w") as d:
        d.createDimension("t", None)
        d.createDimension("x", 40000)
        v = d.createVariable("v", "f8", ("t", "x"), chunksizes=(1, 40000), fill_value=-1)
        v[0] = 3
        d.createVariable("w", "i2", ("t",))[:] = [1, 2, 3]
    a = xa.from_netcdf(file, "v")
    assert a.shape == (3, 40000) and a[:, 5].tolist() == [3, -1, -1]


def test_bounds_and_grid_mappings_come_with_a_variable_of_netcdf(file, tmp_path, recwarn):
    netCDF4 = pytest.importorskip("netCDF4")
    with netCDF4.Dataset(file, "w") as d:
        for name, n in {"time": None, "y": 2, "x": 3, "nv": 2}.items():
            d.createDimension(name, n)
        time = d.createVariable("time", "f8", ("time",))
        time.setncatts({"units": "days since 2000-01-01", "bounds": "time_bnds"})
        d.createVariable("time_bnds", "f8", ("time", "nv"))[...] = np.arange(8).reshape(4, 2)
        time[:] = np.arange(4)
        crs = d.createVariable("crs", "S1", ())
        crs.setncatts({"grid_mapping_name": "latitude_longitude", "semi_major_axis": 6378137.0})
        d.createVariable("area", "f8", ("y", "x"))
        rain = d.createVariable("rain", "f4", ("time", "y", "x"))
        rain.setncatts({"grid_mapping": "crs: x y", "cell_measures": "area: area volume: none"})
        rain[...] = 1
    with pytest.warns(xa.LossyWarning) as caught:
        a = xa.from_netcdf(file, "rain")
    (told,) = [str(w.message) for w in caught]
    assert told.endswith("the array does not have the variable 'area', which 'cell_measures' names")
    coords = a.attrs["coords"]
    assert sorted(coords) == ["crs", "time", "time_bnds"] and coords["crs"]["dims"] == []
    xa.to_netcdf(a, tmp_path / "copy.nc", "rain")
    with netCDF4.Dataset(file) as d, netCDF4.Dataset(tmp_path / "copy.nc") as e:
        assert sorted(e.variables) == ["crs", "rain", "time", "time_bnds"]
        for name, v in e.variables.items():
            assert v.dimensions == d[name].dimensions and v.__dict__ == d[name].__dict__
            assert np.array_equal(v[...], d[name][...])
    recwarn.clear()
    with xa.from_netcdf(file, path=tmp_path / "whole") as g:
        assert "crs" in g and "coords" not in g["rain"].attrs
    assert not recwarn


def test_an_axis_of_a_coordinate_that_the_file_has_with_other_elements(file):
    netCDF4 = pytest.importorskip("netCDF4")
    coords = {"x_bnds": {"dims": ["x", "nv"], "data": np.zeros((3, 2))}}
    a = xa.from_array([1, 2, 3], dims=("x",), attrs={"coords": coords})
    with netCDF4.Dataset(file, "w") as d:
        d.createDimension("nv", 4)
    with pytest.warns(xa.LossyWarning, match="'x_bnds', one axis of which has other labels"):
        xa.to_netcdf(a, file, "v")
    assert xa.from_netcdf(file, "v")[...].tolist() == [1, 2, 3]


def test_labels_that_are_characters(file):
    nc = pytest.importorskip("netCDF4")
    with nc.Dataset(file, "w") as d:
        for name, n in (("x", 2), ("letters", 3)):
            d.createDimension(name, n)
        d.createVariable("v", "f4", ("x",)).coordinates = "name"
        d.createVariable("name", "S1", ("x", "letters"))[:] = [[*"abc"], [*"de"] + [b""]]
    assert xa.from_netcdf(file, "v").attrs["coords"]["name"]["data"].tolist() == [b"abc", b"de"]


def test_a_name_that_the_library_of_netcdf_cannot_take(tmp_path, monkeypatch):
    """On Windows, the library would use a file of another name."""
    pytest.importorskip("netCDF4")
    a = xa.from_array(np.arange(3))
    if IS_POSIX:
        monkeypatch.setattr(system, "NARROW_NAMES", "utf-8")
    xa.to_netcdf(a, tmp_path / "été.nc", "v")
    assert xa.from_netcdf(tmp_path / "été.nc", "v")[...].tolist() == [0, 1, 2]
    monkeypatch.setattr(system, "NARROW_NAMES", "ascii")
    for call in (
        lambda: xa.from_netcdf(tmp_path / "été.nc", "v"),
        lambda: xa.to_netcdf(a, tmp_path / "été.nc", "w"),
        lambda: xa.to_netcdf(a, tmp_path / "né.nc", "v"),
    ):
        with pytest.raises(ArgumentError, match=r"é\w*\.nc' .*code page lacks 'é'"):
            call()
    assert os.listdir(tmp_path) == ["été.nc"]


# -- formats of other packages -------------------------------------------------------------------

PACKAGE = """
import contextlib
import numpy as np
import extarray as xa
from extarray.formats import Description, Format, Sink, Source

@contextlib.contextmanager
def source(file, name=None, *, sep=None):
    x = np.loadtxt(file, delimiter=sep, ndmin=2)
    yield Source(Description(x.shape, x.dtype, dims=("row", "column")), lambda box: x[box])

@contextlib.contextmanager
def sink(file, name, given, *, overwrite=False):
    x = np.empty(given.shape, given.dtype)
    yield Sink(x.__setitem__, lost=given.said())
    np.savetxt(file, x)

def load_group(file, name=None, *, path, mask_and_scale=False, overwrite=False):
    with source(file) as x, xa.open_group(path, "w") as g:
        for j in range(x.description.shape[1]):
            g[f"column{j}"] = x.read((slice(None), j))
    return xa.open_group(path, "r+")

TABLE = Format("table", "text tables", (".tab",), source, sink, load_group=load_group)
NPY = Format("npy", "another .npy", (".npy",), source)
"""
ENTRIES = """[extarray.formats]
table = tables:TABLE
npy = tables:NPY
broken = no_such_module:FORMAT
"""
PROGRAM = """
import importlib.util, sys, warnings
sys.path.insert(0, sys.argv[1])
import numpy as np, extarray as xa
from extarray.formats.registry import format_of
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = xa.file_formats()
texts = " ".join(str(w.message) for w in caught)
assert "'broken'" in texts and "another format has this name" in texts, texts
assert found["npy"].title == "NumPy .npy"
table = format_of("x.TAB")
assert table is found["table"]
table.save(xa.from_array([[1.0, 2.0], [3.0, 4.0]]), sys.argv[1] + "/x.tab")
a = table.load(sys.argv[1] + "/x.tab", path=sys.argv[1] + "/a", sep=" ")
assert a[1].tolist() == [3, 4] and a.dims == ("row", "column")
a.close()
from extarray.cli import main
if importlib.util.find_spec("click"):
    line = ["import", sys.argv[1] + "/x.tab", sys.argv[1] + "/all", "--all"]
    assert main(line) == 0
    with xa.open_group(sys.argv[1] + "/all") as g:
        assert sorted(g) == ["column0", "column1"] and g["column1"][...].tolist() == [2, 4]
    assert main(["export", sys.argv[1] + "/all", sys.argv[1] + "/y.tab"]) == 2
print("fine")
"""


@pytest.mark.slow
@pytest.mark.process
def test_a_format_of_another_package(tmp_path):
    (tmp_path / "tables.py").write_text(PACKAGE)
    info = tmp_path / "tables-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tables\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True, timeout=250
    )
    assert done.stdout == "fine\n", done.stderr
