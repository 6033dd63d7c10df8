"""Datasets that are mapped, extended, and written back."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import extarray as xa
from extarray.formats import netcdf

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
    if side == "start" and axis == 1:
        with pytest.warns(xa.LossyWarning, match=r"labels of axis 1 .* the scale '/x'"):
            assert m.write_back() > 0
    else:
        assert m.write_back() > 0
    can_grow = "maxshape" in options and options["maxshape"][axis] is None
    assert m.report[0].startswith("resized" if can_grow else "recreated '/run/level'")
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


# -- datasets of HDF5 that something keeps -------------------------------------------------------


def keep(f, how, folder):
    """Let something in a file keep the dataset "run/level"."""
    level = f["run/level"]
    if how == "hard link":
        f["other/name"] = level
    elif how == "attribute":
        f["x"].attrs["of"] = level.ref
    elif how == "record":
        kind = np.dtype([("n", "i4"), ("of", h5py.ref_dtype)])
        f.attrs.create("of", np.array([(1, f["x"].ref), (2, level.ref)], kind))
    elif how == "sequence":
        kind = h5py.vlen_dtype(h5py.ref_dtype)
        f.create_dataset("list", (2,), kind)[1] = np.array([f["x"].ref, level.ref], h5py.ref_dtype)
    elif how == "dataset":
        f.create_dataset("list", (5,), h5py.ref_dtype)[3] = level.ref
    elif how == "region":
        f["run"].attrs["part"] = level.regionref[:, 1:]
    elif how == "virtual":
        del f["run/level"]
        layout = h5py.VirtualLayout((3, 4), "f8")
        f["part"] = np.arange(12.0).reshape(3, 4)
        layout[...] = h5py.VirtualSource(f["part"])
        f.create_virtual_dataset("run/level", layout)
    elif how == "external":
        del f["run/level"]
        (folder / "raw").write_bytes(np.arange(12.0).tobytes())
        f.create_dataset("run/level", (3, 4), "f8", external=[(folder / "raw", 0, 96)])


HOLDERS = {
    "hard link": "the hard link '/other/name'",
    "attribute": "the attribute 'of' of '/x'",
    "record": "the attribute 'of' of '/'",
    "sequence": "the references in the dataset '/list'",
    "dataset": "the references in the dataset '/list'",
    "region": "the attribute 'part' of '/run'",
    "virtual": "it is virtual",
    "external": "raw', which has its elements",
}


@pytest.mark.parametrize("how", HOLDERS)
def test_a_dataset_that_something_keeps_is_made_anew_if_asked(file, tmp_path, how):
    x = made(file)
    with h5py.File(file, "r+") as f:
        keep(f, how, tmp_path)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is a reference", xa.LossyWarning)
        m = xa.map_hdf5(file, "run/level")
    m[0, 0] = 5
    m.write_back()  # a change in place works, whatever keeps the dataset
    m.append([[9, 9, 9, 9]])
    with pytest.raises(xa.ArgumentError, match=HOLDERS[how]) as caught:
        m.write_back()
    assert "replace=True" in str(caught.value)
    with h5py.File(file) as f:
        assert f["run/level"].shape == (3, 4) and not [k for k in f if k.startswith(".")]
    assert m.write_back(replace=True) == m.nbytes
    assert "recreated '/run/level'" in m.report[0] and HOLDERS[how] in m.report[0]
    x[0, 0] = 5
    with h5py.File(file) as f:
        assert np.array_equal(f["run/level"][...], np.vstack([x, [[9] * 4]]))
        if how == "hard link":
            assert np.array_equal(f["other/name"][...], x)
    assert m.write_back() == 0 and m.report == ()


def test_what_keeps_nothing_lets_a_dataset_be_made_anew(file):
    """Soft links, references to other datasets, and circular links to groups keep nothing."""
    made(file)
    with h5py.File(file, "r+") as f:
        f["soft"] = h5py.SoftLink("/run/level")
        f["gone"] = h5py.SoftLink("/nothing")
        f["run/round"] = f["/"]
        f.attrs["of"] = f["x"].ref
        f.create_dataset("list", (2,), h5py.ref_dtype)  # of nothing
    m = xa.map_hdf5(file, "run/level")
    m.append([[9, 9, 9, 9]])
    m.write_back()
    with h5py.File(file) as f:
        assert f["soft"].shape == (4, 4)


# -- variables of netCDF ---------------------------------------------------------------------------


def rain(nc, file, model="NETCDF4"):
    """Make a file with variables that share dimensions."""
    with nc.Dataset(file, "w", format=model) as d:
        d.title = "rain"
        d.createDimension("time")
        d.createDimension("y", 2)
        d.createDimension("x", 3)
        d.createDimension("letters", 4)
        d.createVariable("time", "f8", ("time",))[:] = [10, 20]
        d.createVariable("x", "i4", ("x",), fill_value=-1)[:] = [1, 2, 3]
        d["x"].units = "km"
        v = d.createVariable("level", "i2", ("time", "y", "x"), fill_value=-9)
        v.setncatts({"scale_factor": 0.5, "valid_range": np.array([0, 99], "i2")})
        v.set_auto_maskandscale(False)
        v[:] = np.arange(12).reshape(2, 2, 3)
        d.createVariable("area", "f4", ("y", "x"))[:] = np.arange(6).reshape(2, 3)
        d.createVariable("crs", "i4")
        d.createVariable("name", "S1", ("x", "letters"))[:] = np.array(
            [list("abcd"), list("efgh"), list("ijkl")], "S1"
        )
    return np.arange(12).reshape(2, 2, 3)


MODELS = ["NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("side", ["end", "start"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_variable_of_netcdf_grows_along_any_dimension(tmp_path, model, side, axis):
    nc = pytest.importorskip("netCDF4")
    file = tmp_path / "file.nc"
    x = rain(nc, file, model)
    m = xa.map_netcdf(file, "level")
    m.extend(axis, 2, side=side)
    m.attrs["note"] = "longer"
    in_place = (axis, side) == (0, "end")
    assert m.write_back() == (24 if in_place else m.nbytes)
    wide = [(0, 0)] * 3
    wide[axis] = (2, 0) if side == "start" else (0, 2)
    new = {0: "time", 1: "y", 2: "x"}[axis]
    assert ("recreated the file" in m.report[0]) != in_place
    assert f"the dimension {new!r} has {x.shape[axis] + 2} elements" in m.report[-1]
    sharing = {0: "'time'", 1: "'area'", 2: "'x', 'area', 'name'"}[axis]
    assert f"; {sharing} have fill values in the new ones" in m.report[-1]
    own = slice(2, None) if side == "start" else slice(0, -2)
    with nc.Dataset(file) as d:
        assert d.data_model == model and d.title == "rain"
        assert list(d.variables) == ["time", "x", "level", "area", "crs", "name"]
        assert d.dimensions["time"].isunlimited() and not d.dimensions["x"].isunlimited()
        d.set_auto_maskandscale(False)
        assert np.array_equal(d["level"][...], np.pad(x, wide, constant_values=-9))
        assert d["level"].note == "longer" and d["level"].valid_range.dtype == "i2"
        assert d["x"].units == "km" and d["x"]._FillValue == -1
        before = {"time": [10, 20], "x": [1, 2, 3], "area": np.arange(6).reshape(2, 3)}
        for name, values in before.items():
            place = tuple(own if dim == new else slice(None) for dim in d[name].dimensions)
            assert np.array_equal(d[name][place], values)
        if axis == 2:
            assert (d["x"][:2] if side == "start" else d["x"][3:]).tolist() == [-1, -1]
            d.set_auto_mask(True)
            assert d["area"][...].mask.sum() == 4
            assert nc.chartostring(d["name"][own], encoding="ascii").tolist() == [
                "abcd",
                "efgh",
                "ijkl",
            ]
    assert [p.name for p in tmp_path.iterdir()] == ["file.nc"]
    assert m.write_back() == 0 and m.report == ()


def test_all_that_a_file_has_comes_along(tmp_path):
    nc = pytest.importorskip("netCDF4")
    file = tmp_path / "file.nc"
    pair = np.dtype([("a", "i4"), ("b", "f8")])
    with nc.Dataset(file, "w") as d:
        d.createDimension("x", 3)
        g = d.createGroup("outer/inner")
        g.setncatts({"codes": np.array([1, 2], "u1"), "words": ["a", "ä"]})
        types = (
            d.createCompoundType(pair, "pair"),
            d.createVLType("i2", "list"),
            d["outer"].createEnumType("u1", "kind", {"sea": 0, "land": 1}),
        )
        records = np.array([(1, 2.5), (3, 4.5), (5, 6.5)], pair)
        g.createVariable("records", types[0], ("x",))[:] = records
        lists = np.empty(3, object)
        lists[:] = [np.arange(n, dtype="i2") for n in (1, 2, 3)]
        g.createVariable("lists", types[1], ("x",))[:] = lists
        g.createVariable("kinds", types[2], ("x",), fill_value=0)[:] = [1, 0, 1]
        g.createVariable("texts", str, ("x",))[:] = np.array(["a", "bcd", "ä"], object)
        settings = {"compression": "zlib", "complevel": 7, "shuffle": True, "fletcher32": True}
        g.createVariable("packed", ">i4", ("x",), endian="big", chunksizes=(2,), **settings)[:] = 7
        g.createVariable("plain", "f8", ("x",), fill_value=False)[:] = [1, 2, 3]
        codec = "zstd" if d.has_zstd_filter() else "zlib"
        d.createVariable("level", "f4", ("x",), compression=codec, chunksizes=(3,))[:] = [1, 2, 3]
    m = xa.map_netcdf(file, "level")
    m.append([4])
    m.write_back()
    with nc.Dataset(file) as d:
        g = d["outer/inner"]
        assert d["level"][...].tolist() == [1, 2, 3, 4] and d["level"].filters()[codec]
        assert g.codes.dtype == "u1" and g.words == ["a", "ä"]
        assert (
            g["records"].datatype.name == "pair" and g["records"][:3].tolist() == records.tolist()
        )
        assert [v.tolist() for v in g["lists"][:3]] == [[0], [0, 1], [0, 1, 2]]
        assert g["kinds"].datatype.enum_dict == {"sea": 0, "land": 1}
        assert g["kinds"][...].filled().tolist() == [1, 0, 1, 0]
        assert g["texts"][...].tolist() == ["a", "bcd", "ä", ""]
        packed = g["packed"]
        said = packed.filters()
        assert said["zlib"] and said["complevel"] == 7 and said["shuffle"] and said["fletcher32"]
        assert packed.endian() == "big" and packed.chunking() == [2]
        assert packed[:3].tolist() == [7, 7, 7] and packed[...].mask.tolist() == [False] * 3 + [
            True
        ]
        assert g["plain"].get_fill_value() is None and g["plain"][:3].tolist() == [1, 2, 3]


def test_xarray_reads_a_file_that_was_made_anew(tmp_path):
    pytest.importorskip("netCDF4")
    xr = pytest.importorskip("xarray")
    file = tmp_path / "file.nc"
    before = xr.Dataset(
        {"level": (("time", "x"), np.arange(6.0).reshape(2, 3))},
        {"time": np.array(["2024-05-01", "2024-05-02"], "M8[ns]"), "x": [1.0, 2.0, 3.0]},
    )
    before.to_netcdf(file, engine="netcdf4")
    m = xa.map_netcdf(file, "level")
    m.extend(1, 1, side="start")
    m.write_back()
    with xr.open_dataset(file, engine="netcdf4") as after:
        assert after.isel(x=slice(1, None)).equals(before)
        assert np.isnan(after.x[0]) and after.level.shape == (2, 4)


@pytest.mark.parametrize("what", ["dataset", "group", "variable"])
def test_a_file_that_is_open_is_made_anew_if_asked(tmp_path, what):
    nc = pytest.importorskip("netCDF4")
    file = tmp_path / "file.nc"
    with nc.Dataset(file, "w") as d:
        g = d.createGroup("g")
        g.createDimension("x", 2)
        g.createVariable("v", "i4", ("x",), chunksizes=(1,))[:] = [1, 2]
    d = nc.Dataset(file, "r+")
    given = {"dataset": (d, "g/v"), "group": (d["g"], "v"), "variable": (d["g/v"],)}[what]
    m = xa.map_netcdf(*given)
    m.append([3])
    with pytest.raises(xa.ArgumentError, match=r"'x' to grow.*open.*replace=True"):
        m.write_back()
    assert d["g/v"][...].tolist() == [1, 2]
    m.write_back(replace=True)
    assert not d.isopen() and type(m.dataset) is type(given[0])
    m[0] = 7
    m.write_back()
    now = m.dataset
    assert (now if what == "variable" else now[given[1]])[...].tolist() == [7, 2, 3]
    (now.group().parent if what == "variable" else now.parent or now).close()


def test_what_cannot_be_made_anew_is_left_alone(tmp_path):
    nc = pytest.importorskip("netCDF4")
    file = tmp_path / "file.nc"
    rain(nc, file)
    with nc.Dataset(file, "r+") as d:
        d.createVariable("square", "i4", ("x", "x"))[:] = 1
    before = file.read_bytes()

    def refused(name, words, *changes):
        m = xa.map_netcdf(file, name)
        for change, axis, side in changes:
            getattr(m, change)(axis, 1, side=side)
        with pytest.raises(xa.ArgumentError, match=words):
            m.write_back(replace=True)

    refused("level", "cannot shrink", ("shrink", 2, "end"))
    refused("level", "cut at its start", ("shrink", 2, "start"), ("extend", 2, "end"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*names of the axes", xa.LossyWarning)
        for axis in (0, 1):
            refused("square", "two axes", ("extend", axis, "end"))
        m = xa.map_netcdf(file, "square")
    assert file.read_bytes() == before
    m.extend(0, 1)
    m.extend(1, 1)
    m.write_back()
    with nc.Dataset(file) as d:
        assert d["square"].shape == (4, 4) and d["level"].shape == (2, 2, 4)
    with nc.Dataset(file, "r+") as d:
        d.createVariable("rough", "f4", ("x",), significant_digits=3)[:] = 1.5
    refused("level", "'rough' is quantized", ("extend", 2, "end"))
    assert [p.name for p in tmp_path.iterdir()] == ["file.nc"]


def test_a_dataset_in_memory_is_not_made_anew():
    nc = pytest.importorskip("netCDF4")
    with nc.Dataset("nowhere.nc", "w", diskless=True) as d:
        d.createDimension("x", 2)
        d.createVariable("v", "i4", ("x",))[:] = [1, 2]
        m = xa.map_netcdf(d, "v")
        m.append([3])
        with pytest.raises(xa.ArgumentError, match="is not a regular file"):
            m.write_back(replace=True)
        assert d["v"][...].tolist() == [1, 2]


def test_large_variables_are_copied_in_pieces(tmp_path):
    nc = pytest.importorskip("netCDF4")
    file = tmp_path / "file.nc"
    x = np.random.default_rng(0).integers(0, 99, (70, 50))
    with nc.Dataset(file, "w") as d:
        for name, n in (("y", 70), ("x", 50), ("z", 2)):
            d.createDimension(name, n)
        d.createVariable("a", "i8", ("y", "x"), compression="zlib", chunksizes=(16, 16))[:] = x
        d.createVariable("b", "i8", ("y", "x"))[:] = x
        d.createVariable("v", "i4", ("x", "z"))[:] = 1
    m = xa.map_netcdf(file, "v")
    m.extend(0, 3, side="start")
    with xa.config.set(max_memory=1 << 12):
        m.write_back()
    with nc.Dataset(file) as d:
        for name in "ab":
            assert np.array_equal(d[name][:, 3:], x) and d[name][:, :3].mask.all()


def test_a_file_is_what_it_was_where_writing_fails(tmp_path, monkeypatch):
    nc = pytest.importorskip("netCDF4")
    file = tmp_path / "file.nc"
    rain(nc, file)
    m = xa.map_netcdf(file, "level")
    m.extend(2, 1)
    before = file.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(netcdf, "_put_elements", lambda *args: 1 / 0)
        with pytest.raises(xa.FormatError, match="ZeroDivisionError"):
            m.write_back()
    assert file.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["file.nc"]
    assert m.write_back() == m.nbytes
