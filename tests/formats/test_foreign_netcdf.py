"""netCDF files made by netCDF4 and SciPy: models, filters, types, names, groups."""

from __future__ import annotations

import numpy as np
import pytest
from compare import same_values

import extarray as xa

nc = pytest.importorskip("netCDF4")

X = np.random.default_rng(0).integers(0, 100, (5, 7))
OLD = ["i1", "i2", "i4", "f4", "f8"]
NEW = [*OLD, "u1", "u2", "u4", "i8", "u8"]
MODELS = {
    "NETCDF3_CLASSIC": OLD,
    "NETCDF3_64BIT_OFFSET": OLD,
    "NETCDF3_64BIT_DATA": NEW,
    "NETCDF4_CLASSIC": OLD,
    "NETCDF4": NEW,
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file.nc"


def made(file, dtype="i4", name="v", dims=("y", "x"), model="NETCDF4", unlimited=(), **options):
    """Make a file with one variable, with netCDF4."""
    with nc.Dataset(file, "w", format=model) as f:
        for dim, n in zip(("y", "x"), X.shape, strict=True):
            f.createDimension(dim, None if dim in unlimited else n)
        v = f.createVariable(name, dtype, dims, **options)
        v.set_auto_maskandscale(False)
        v[:] = X.astype(dtype)


def stored(file, name):
    """Return the elements, axis names and attributes that netCDF4 reads, unmasked and unscaled."""
    with nc.Dataset(file) as f:
        f.set_auto_maskandscale(False)
        f.set_auto_chartostring(False)
        v = f[name]
        return np.asarray(v[...]), v.dimensions, {k: v.getncattr(k) for k in v.ncattrs()}


def agrees(file, name="v"):
    """Require that we and netCDF4 read the same, and that netCDF4 reads our copy alike."""
    want, dims, attrs = stored(file, name)
    a = xa.from_netcdf(file, name)
    assert (a.dtype, a.shape) == (want.dtype, want.shape)
    assert tuple(a.dims or ()) == dims
    assert same_values(a[...], want)
    copy = file.with_name("copy.nc")
    xa.to_netcdf(a, copy, name)
    again, dims_again, attrs_again = stored(copy, name)
    assert again.dtype == want.dtype
    assert dims_again == dims
    assert same_values(again, want)
    assert set(attrs) <= set(attrs_again)
    for key, value in attrs.items():
        assert np.asarray(attrs_again[key]).dtype == np.asarray(value).dtype
        assert same_values(np.asarray(attrs_again[key]), np.asarray(value))
    return a


@pytest.mark.parametrize(("model", "dtype"), [(m, t) for m, types in MODELS.items() for t in types])
def test_types_of_all_models(file, model, dtype):
    made(file, dtype, model=model)
    agrees(file)


@pytest.mark.parametrize("model", MODELS)
def test_unlimited_dimensions_of_all_models(file, model):
    made(file, model=model, unlimited="y")
    a = agrees(file)
    assert a.attrs["unlimited_dims"] == ["y"]
    with nc.Dataset(file.with_name("copy.nc")) as f:
        assert f.dimensions["y"].isunlimited() and not f.dimensions["x"].isunlimited()


FILTERS = {
    "zlib": {"zlib": True, "complevel": 9, "shuffle": True, "fletcher32": True},
    "parts": {"zlib": True, "chunksizes": (2, 3)},
    "zstd": {"compression": "zstd"},
    "bzip2": {"compression": "bzip2"},
    "blosc": {"compression": "blosc_lz4"},
    "contiguous": {"contiguous": True},
    "no fill": {"fill_value": False},
    "a fill value": {"fill_value": 7},
    "plain chunks": {"chunksizes": (2, 7)},
}


@pytest.mark.parametrize("options", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("name", ["v", "x"])
def test_filters_and_names(file, options, name):
    """A variable of two axes with the name of a dimension is not a coordinate."""
    try:
        made(file, name=name, **options)
    except RuntimeError as error:
        pytest.skip(f"this netCDF4 has no such filter: {error}")
    a = agrees(file, name)
    assert "coords" not in a.attrs


@pytest.mark.parametrize("chunks", [None, (3,)])
def test_a_variable_with_the_name_of_a_dimension_that_it_does_not_have(file, chunks):
    """HDF5 stores the dimension under that name, here with the variable's length and type."""
    with nc.Dataset(file, "w") as f:
        f.createDimension("y", 7)
        f.createDimension("x", 7)
        options = {"chunksizes": chunks} if chunks else {}
        f.createVariable("x", ">f4", ("y",), endian="big", **options)[:] = np.arange(7) + 1
        f.createVariable("v", "i4", ("x",))[:] = np.arange(7)
    assert agrees(file, "x")[...].tolist() == list(range(1, 8))
    assert "coords" not in xa.from_netcdf(file, "v").attrs
    a = xa.map_netcdf(file, "x")
    a.extend(0, 1)
    a[7] = 9
    a.write_back()
    assert stored(file, "x")[0].tolist() == [1, 2, 3, 4, 5, 6, 7, 9]


@pytest.mark.parametrize("mode", ["BitGroom", "BitRound", "GranularBitRound"])
def test_rounded_numbers(file, mode):
    made(file, "f4", significant_digits=3, quantize_mode=mode, zlib=True)
    want, _, _ = stored(file, "v")
    assert same_values(xa.from_netcdf(file, "v")[...], want)


@pytest.mark.parametrize("endian", ["big", "little"])
@pytest.mark.parametrize("chunks", [None, (2, 3)])
def test_byte_orders(file, endian, chunks):
    dtype = "<>"[endian == "big"] + "i4"
    made(file, dtype, endian=endian, **({"chunksizes": chunks} if chunks else {}))
    assert agrees(file).dtype == dtype


def test_two_unlimited_dimensions_and_other_lengths(file):
    """A variable shorter than others along a dimension has fill values at the end."""
    with nc.Dataset(file, "w") as f:
        f.createDimension("t", None)
        f.createDimension("m", None)
        f.createVariable("long", "i4", ("t", "m"))[:4, :3] = 1
        short = f.createVariable("short", "f4", ("t",), fill_value=-1)
        short[:2] = 5
    assert agrees(file, "long").shape == (4, 3)
    assert agrees(file, "short")[...].tolist() == [5, 5, -1, -1]


ATTRS = {
    "text": "täxt",
    "empty": "",
    "list": ["a", "bc"],
    "small": np.int8(3),
    "some": np.arange(3, dtype="u2"),
    "float": np.float32(1.5),
    "nan": np.nan,
    "valid_range": np.array([0, 50], "i4"),
    "scale_factor": 0.5,
    "units": "K",
    "flag_values": np.array([1, 2], "i4"),
    "cell_methods": "time: mean",
    "long_name": "a" * 300,
}


@pytest.mark.parametrize(("name", "value"), ATTRS.items(), ids=ATTRS)
def test_attributes(file, name, value):
    made(file)
    with nc.Dataset(file, "r+") as f:
        f["v"].setncattr(name, value)
    assert name in agrees(file).attrs


def test_packed_numbers_are_unpacked_as_netcdf4_does(file):
    made(file, "i2")
    with nc.Dataset(file, "r+") as f:
        f["v"].setncatts(
            {"scale_factor": 0.5, "add_offset": 10.0, "missing_value": np.int16(X[0, 0])}
        )
    with nc.Dataset(file) as f:
        want = f["v"][...].filled(np.nan)
    np.testing.assert_array_equal(xa.from_netcdf(file, "v", mask_and_scale=True)[...], want)


def test_unsigned_numbers_in_signed_bytes(file):
    made(file, "i1")
    with nc.Dataset(file, "r+") as f:
        f["v"].setncattr("_Unsigned", "true")
        f["v"][0, :2] = -1, -128
    agrees(file)
    with nc.Dataset(file) as f:
        want = f["v"][...]
    assert want[0, 0] == 255
    assert same_values(xa.from_netcdf(file, "v", mask_and_scale=True)[...], np.asarray(want))


@pytest.mark.parametrize("model", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_characters(file, model):
    with nc.Dataset(file, "w", format=model) as f:
        f.createDimension("n", 3)
        f.createDimension("l", 4)
        v = f.createVariable("v", "S1", ("n", "l"))
        v[:] = np.array([list("abcd"), list("ef  "), list("g\0\0\0")], "S1")
    agrees(file)


def test_texts_of_variable_length(file):
    with nc.Dataset(file, "w") as f:
        f.createDimension("n", 3)
        f.createVariable("v", str, ("n",))[:] = np.array(["a", "bc", "ä"], object)
    a = xa.from_netcdf(file, "v")
    assert a.dtype == "U2"
    assert a[...].tolist() == ["a", "bc", "ä"]
    assert xa.from_netcdf(file, "v", text="S")[...].tolist() == [b"a", b"bc", "ä".encode()]
    xa.to_netcdf(a, file.with_name("copy.nc"), "v")
    with nc.Dataset(file.with_name("copy.nc")) as f:
        assert f["v"][...].tolist() == ["a", "bc", "ä"]


def test_types_that_users_make(file):
    record = np.dtype([("a", "i4"), ("b", "f8")], align=True)
    with nc.Dataset(file, "w") as f:
        f.createDimension("n", 2)
        kind = f.createCompoundType(record, "pair")
        f.createVariable("v", kind, ("n",))[:] = np.array([(1, 0.5), (2, -1)], record)
        names = f.createEnumType("u1", "names", {"A": 0, "B": 1})
        f.createVariable("e", names, ("n",), fill_value=0)[:] = np.array([0, 1], "u1")
        f.createVariable("s", f.createVLType("i4", "seq"), ("n",))[0] = np.array([1, 2], "i4")
    assert xa.from_netcdf(file, "v")[...].tolist() == [(1, 0.5), (2, -1)]
    assert xa.from_netcdf(file, "e").attrs["enum"] == {"A": 0, "B": 1}
    with pytest.raises(xa.DTypeError, match="sequences of variable length"):
        xa.from_netcdf(file, "s")


def test_a_dimension_that_occurs_twice_is_named(file):
    with nc.Dataset(file, "w") as f:
        f.createDimension("n", 3)
        f.createVariable("v", "i4", ("n", "n"))[:] = np.arange(9).reshape(3, 3)
    with pytest.warns(xa.LossyWarning, match=r"\('n', 'n'\)"):
        a = xa.from_netcdf(file, "v")
    assert a.dims is None and a[2, 1] == 7


@pytest.mark.parametrize("model", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_scalars_and_what_is_empty(file, model):
    with nc.Dataset(file, "w", format=model) as f:
        f.createDimension("n", None)
        f.createVariable("scalar", "f8", ())[...] = 3.5
        f.createVariable("empty", "i4", ("n",))
    assert agrees(file, "scalar")[...] == 3.5
    assert agrees(file, "empty").shape == (0,)


def test_dimensions_and_coordinates_of_outer_groups(file):
    with nc.Dataset(file, "w") as f:
        f.createDimension("y", 5)
        f.createVariable("y", "f8", ("y",))[:] = np.arange(5.0)
        inner = f.createGroup("a/b")
        inner.createDimension("x", 7)
        v = inner.createVariable("v", "i4", ("y", "x"))
        v[:] = X
    a = agrees(file, "a/b/v")
    assert a.attrs["coords"]["y"]["data"].tolist() == list(range(5))
    for name in ("v", "a/v", "a/b/none", "a/b"):
        with pytest.raises(xa.VariableError, match="'a/b/v'|a/b/v"):
            xa.from_netcdf(file, name)


def test_a_dataset_in_memory():
    with nc.Dataset("memory.nc", "w", diskless=True, persist=False) as f:
        f.createDimension("y", 5)
        f.createDimension("x", 7)
        f.createVariable("v", "i4", ("y", "x"))[:] = X
        assert same_values(xa.from_netcdf(f, "v")[...], X.astype("i4"))
        assert same_values(xa.from_netcdf(f["v"])[...], X.astype("i4"))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("unlimited", [True, False])
def test_files_of_scipy(file, version, unlimited):
    io = pytest.importorskip("scipy.io")
    with io.netcdf_file(file, "w", version=version) as f:
        f.createDimension("t", None if unlimited else 5)
        f.createDimension("n", 7)
        for name, dtype in (("v", "i2"), ("w", "f8")):
            f.createVariable(name, dtype, ("t", "n"))[:5] = X
        f.variables["v"].units = b"m"
    assert agrees(file).attrs["units"] == "m"
    a = agrees(file, "w")
    with io.netcdf_file(file, mmap=False) as f:
        assert same_values(a[...], f.variables["w"][:].astype("f8"))
    xa.to_netcdf(a, file.with_name("own.nc"), "w", format="NETCDF3_64BIT_OFFSET")
    with io.netcdf_file(file.with_name("own.nc"), mmap=False) as f:
        assert same_values(f.variables["w"][:].astype("f8"), X.astype("f8"))


@pytest.mark.parametrize("records", [("y",), ("y", "z"), ("z",), ()])
@pytest.mark.parametrize("model", [m for m in MODELS if m.startswith("NETCDF3")])
def test_classic_files_that_were_cut_off_are_refused(file, model, records):
    """The library reads zeros behind the end.  Padding, and what others hold, may be missing."""
    x = (X + 1).astype("i2")  # no zeros
    values = {"x": x[0], "y": x, "z": x[:, 0]}
    names = ("x", *records)
    with nc.Dataset(file, "w", format=model) as f:
        f.title = "records"
        f.createDimension("t", None)
        f.createDimension("n", 7)
        for name, dims in (("x", ("n",)), ("y", ("t", "n")), ("z", ("t",))):
            if name in names:
                v = f.createVariable(name, "i2", dims)
                v.unit = "m"
                v[:] = values[name]
    whole = file.read_bytes()
    refused = set()
    for length in range(len(whole), len(whole) - 100, -3):
        file.write_bytes(whole[:length])
        for name in names:
            try:
                assert same_values(xa.from_netcdf(file, name)[...], values[name])
            except xa.ExtArrayError:
                refused.add(name)
                assert length < len(whole)
    assert refused >= {names[-1]}
    file.write_bytes(whole[:-4])
    with pytest.raises(xa.errors.FormatError, match="was cut off"):
        xa.from_netcdf(file, path=file.with_name("group"))
