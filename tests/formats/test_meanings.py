"""Values keep their meaning in other formats: fill values, missing values, packing, bits of NaN."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import extarray as xa


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file"


# -- fill values ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("U3", "äb"), ("S3", b"ab"), ("?", True), ("M8[s]", "NaT"), ("m8[D]", 3), ("M8[ns]", 7)],
)
def test_a_fill_value_of_any_kind_goes_through_hdf5(file, dtype, fill, recwarn):
    pytest.importorskip("h5py")
    a = xa.create(None, 1, dtype, fill_value=np.array(fill, dtype)[()])
    xa.to_hdf5(a, file, "x")
    b = xa.from_hdf5(file, "x")
    b.extend(0, 1)
    assert b.dtype == a.dtype
    expected = np.full(2, fill, dtype)
    assert np.array_equal(b[...].view(f"V{a.itemsize}"), expected.view(f"V{a.itemsize}"))
    assert not recwarn.list


# -- bits of NaN, and chunks that a store leaves out ----------------------------------------------


_STORES = {
    "compressed": {},
    "open": {"compressors": None},
    "shards": {"chunks": (2,), "shards": (4,)},
}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("settings", _STORES)
@pytest.mark.parametrize(
    ("kind", "bits"),
    [("f2", 0x7E01), ("<f4", 0x7F800001), (">f4", 0xFFC12345), ("f8", 0x7FF0000000000002)],
)
@pytest.mark.parametrize("fill", ["nan", "own", "zero"])
def test_bits_of_nan_go_through_zarr(file, zarr_format, settings, kind, bits, fill):
    zarr = pytest.importorskip("zarr")
    if settings == "shards" and zarr_format == 2:
        pytest.skip("Zarr 2 has no shards")
    kind = np.dtype(kind)
    word = np.dtype(f"u{kind.itemsize}").newbyteorder(kind.byteorder)
    x = np.full(13, bits, word).view(kind)
    x[5] = np.nan
    x[8:12] = {"nan": np.nan, "own": x[0], "zero": 0}[fill]
    a = xa.from_array(x, chunks=4, fill_value={"nan": np.nan, "own": x[0], "zero": 0}[fill])
    for store in (file, zarr.storage.MemoryStore()):
        xa.to_zarr(a, store, zarr_format=zarr_format, **_STORES[settings])
        for found in (zarr.open(store)[...], xa.from_zarr(store)[...]):
            assert np.array_equal(found.astype(kind).view(word), x.view(word))


@pytest.mark.parametrize("settings", _STORES)
def test_chunks_of_the_fill_value_are_left_out(file, settings):
    zarr = pytest.importorskip("zarr")
    x = np.full(16, np.nan, "f4")
    x[5] = 1
    x[13] = -0.0
    a = xa.from_array(x, chunks=4, fill_value=np.nan)
    xa.to_zarr(a, file, **_STORES[settings])
    assert sorted(p.name for p in (file / "c").iterdir()) == ["1", "3"]
    assert np.array_equal(zarr.open(file)[...], x, equal_nan=True)
    a = xa.from_array(np.where(x == x, x, 0), chunks=4)
    xa.to_zarr(a, file, overwrite=True, config={"write_empty_chunks": True}, **_STORES[settings])
    assert len(list((file / "c").iterdir())) == 4
    xa.to_zarr(a, file, overwrite=True, **_STORES[settings])
    assert sorted(p.name for p in (file / "c").iterdir()) == ["1", "3"]
    assert np.signbit(zarr.open(file)[13])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_complex_zeros_keep_their_signs_in_zarr(file, zarr_format):
    pytest.importorskip("zarr")
    x = np.zeros(8, "c8")
    x.imag[4:] = -0.0
    xa.to_zarr(xa.from_array(x, chunks=4), file, zarr_format=zarr_format)
    assert np.array_equal(np.signbit(xa.from_zarr(file)[...].imag), np.signbit(x.imag))


@pytest.mark.parametrize("limit", ["1 MiB", "4 KiB"])
def test_chunks_of_two_boxes_keep_their_nan(file, limit):
    """A later write may fill the chunk with the plain NaN, for which zarr would remove it."""
    pytest.importorskip("zarr")
    x = np.full((2, 4096), np.nan)
    x.view("u8")[0] = 0x7FF0000000000002
    a = xa.from_array(x, chunks=(2, 4096), fill_value=np.nan)
    with xa.config.set(max_memory=limit):
        xa.to_zarr(a, file)
    assert np.array_equal(xa.from_zarr(file)[...].view("u8"), x.view("u8"))


_OTHERS = {
    "hdf5": ("x",),
    "netcdf": ("x",),
    "npz": ("x",),
    "npy": (),
    "fits": (),
    "envi": (),
    "mat": ("x",),
    "geotiff": (),
    "tiff": (),
}


@pytest.mark.parametrize("form", _OTHERS)
def test_bits_of_nan_go_through_other_formats(file, form):
    """GDAL takes blocks of other NaNs for its nodata; a warning says so."""
    needs = {"hdf5": "h5py", "netcdf": "netCDF4", "fits": "astropy", "geotiff": "rasterio"}
    needs["tiff"] = "tifffile"
    if form in needs:
        pytest.importorskip(needs[form])
    x = np.full((8, 8), 0x7F800001, "u4").view("f4")
    a = xa.from_array(x, chunks=4, fill_value=np.nan)
    target = file.with_suffix(xa.file_formats()[form].suffixes[0])
    save, load = (getattr(xa, f"{way}_{form}") for way in ("to", "from"))
    if form == "geotiff":
        with pytest.warns(xa.LossyWarning, match="the bits of NaN"):
            save(a, target)
        assert np.isnan(load(target)[...]).all()
        a = xa.from_array(x, chunks=4)
        target.unlink()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*the fill value", xa.LossyWarning)
        save(a, target, *_OTHERS[form])
    found = load(target, *_OTHERS[form])[...].reshape(x.shape).astype("f4")
    assert np.array_equal(found.view("u4"), x.view("u4"))


def test_an_array_without_axes_goes_through_zarr(file):
    pytest.importorskip("zarr")
    for value in (b"a", np.float32(0), np.float32(2)):
        xa.to_zarr(xa.from_array(np.array(value)), file, overwrite=True, zarr_format=2)
        assert xa.from_zarr(file)[()] == value


# -- attributes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_numbers_and_arrays_among_attributes_are_those_of_json(file, zarr_format):
    zarr = pytest.importorskip("zarr")
    attrs = {
        "flag_values": np.array([0, 1, 2], "i1"),
        "valid_range": np.array([0.5, 2], "f4"),
        "n": np.int16(3),
        "is_set": np.True_,
        "names": np.array(["a", "b"]),
        "pair": (1, "x"),
        "deep": {"level": np.arange(2)},
    }
    plain = {
        "flag_values": [0, 1, 2],
        "valid_range": [0.5, 2],
        "n": 3,
        "is_set": True,
        "names": ["a", "b"],
        "pair": [1, "x"],
        "deep": {"level": [0, 1]},
    }
    bad = {"none": np.array([1, np.nan]), "raw": b"x", "day": np.datetime64("2024-05-01")}
    with xa.open_group(file.with_name("g"), "w") as g:
        g.create("a", (2,), attrs={**attrs, **bad})
        g.attrs.update({**attrs, **bad})
        with pytest.warns(xa.LossyWarning) as caught:
            xa.to_zarr(g, file, zarr_format=zarr_format)
    z = zarr.open_group(file, mode="r")
    assert dict(z.attrs) == dict(z["a"].attrs) == plain
    for warning in caught:
        for name in bad:
            assert f"attribute {name!r}, which JSON cannot represent" in str(warning.message)
    assert len(caught) == 2


@pytest.mark.parametrize(
    ("dtype", "missing"),
    [("i2", np.int16(-1)), ("u1", 255), ("f4", np.float32(1e20)), ("f8", np.nan), ("c16", 1j)],
)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_value_for_missing_elements_goes_through_zarr(file, dtype, missing, zarr_format):
    pytest.importorskip("zarr")
    a = xa.from_array(np.zeros(3, dtype), dims=("x",), attrs={"_FillValue": missing})
    xa.to_zarr(a, file, zarr_format=zarr_format)
    b = xa.from_zarr(file)
    if zarr_format == 3 or missing == missing:  # in Zarr 2, a fill value of NaN suffices
        assert b.attrs["_FillValue"] == missing or missing != missing
        assert b.attrs["_FillValue"].dtype == dtype
    if zarr_format == 2:
        assert b.fill_value == np.array(missing, dtype) or missing != missing


def _missing_in_netcdf(a, file):
    netCDF4 = pytest.importorskip("netCDF4")
    xa.to_netcdf(a, file, "x")
    with netCDF4.Dataset(file) as dataset:
        return np.ma.getmaskarray(dataset["x"][:])


def _missing_in_zarr(zarr_format):
    def missing(a, file):
        pytest.importorskip("zarr")
        xr = pytest.importorskip("xarray")
        xa.to_zarr(a, file, "x", zarr_format=zarr_format)
        with xr.open_dataset(file, engine="zarr", consolidated=False) as dataset:
            return dataset["x"].isnull().to_numpy()

    return missing


def _missing_in_geotiff(a, file):
    rasterio = pytest.importorskip("rasterio")
    xa.to_geotiff(a, file)
    with rasterio.open(file) as dataset:
        return dataset.read(masked=True).mask


def _missing_in_envi(a, file):
    spectral = pytest.importorskip("spectral")
    header = file.with_suffix(".hdr")
    xa.to_envi(a, header)
    image = spectral.open_image(str(header))
    return np.asarray(image.load(scale=False)) == float(image.metadata["data ignore value"])


def _missing_in_fits(a, file):
    fits = pytest.importorskip("astropy.io.fits")
    xa.to_fits(a, file)
    # astropy ignores a BLANK of 0, which the standard allows.
    with fits.open(file, do_not_scale_image_data=True) as images:
        return images[0].data == images[0].header["BLANK"]


@pytest.mark.invariant("I13")
@pytest.mark.parametrize("value", [0, 5])
@pytest.mark.parametrize("name", ["_FillValue", "nodata", "data ignore value", "BLANK"])
@pytest.mark.parametrize(
    "missing",
    [
        _missing_in_netcdf,
        _missing_in_zarr(2),
        _missing_in_zarr(3),
        _missing_in_geotiff,
        _missing_in_envi,
        _missing_in_fits,
    ],
    ids=["netcdf", "zarr2", "zarr3", "geotiff", "envi", "fits"],
)
@pytest.mark.filterwarnings("ignore::extarray.LossyWarning")
@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_the_missing_value_of_one_format_is_that_of_another(file, missing, name, value):
    """Zero marks missing elements like any other value, though it is the default fill value."""
    x = np.arange(8, dtype="i2").reshape(1, 2, 4)
    said = str(value) if " " in name else value
    with xa.from_array(x, dims=["band", "y", "x"], attrs={name: said}) as a:
        np.testing.assert_array_equal(missing(a, file), x == value)


def test_zeros_are_not_missing_in_zarr_2(file):
    """A fill value of 0 would mean "missing" to xarray, which reads arrays with axis names."""
    zarr = pytest.importorskip("zarr")
    xa.to_zarr(xa.create(None, (4,), "i2", dims=("x",)), file, zarr_format=2)
    assert zarr.open(file).fill_value is None and zarr.open(file)[...].tolist() == [0] * 4
    other = xa.from_array(np.zeros(2, "i2"), dims=("x",), fill_value=7, attrs={"_FillValue": -1})
    with pytest.warns(xa.LossyWarning, match=r"the fill value np.int16\(7\)"):
        xa.to_zarr(other, file, zarr_format=2, overwrite=True)
    assert zarr.open(file).fill_value == -1
    xa.to_zarr(other, file, zarr_format=2, overwrite=True, fill_value=3)
    assert zarr.open(file).fill_value == 3


# -- integers of the other sign -------------------------------------------------------------------


def goes(file, model="NETCDF4", said="true", kind="i2"):
    """Write a file like a satellite's: an attribute gives integers the other sign."""
    netCDF4 = pytest.importorskip("netCDF4")
    other = {"i": "u", "u": "i"}[kind[0]] + kind[1]
    numbers = np.array([0, 1, -2 if other[0] == "i" else 250, 100, -1]).astype(other).view(kind)
    with netCDF4.Dataset(file, "w", format=model) as f:
        f.createDimension("x", 5)
        for name in ("packed", "plain", "raw"):
            fill = None if name == "raw" else numbers[-1]
            v = f.createVariable(name, kind, ("x",), fill_value=fill)
            v.set_auto_maskandscale(False)
            v._Unsigned = said
            if name == "packed":
                v.setncatts({"scale_factor": np.float32(0.5), "add_offset": np.float32(-3)})
            v[:] = numbers


def as_netcdf4_reads(file, name):
    netCDF4 = pytest.importorskip("netCDF4")
    with netCDF4.Dataset(file) as f:
        return f[name][:]


def assert_as(values, masked):
    """Assert that values are those of a masked array, with NaN where one is missing."""
    got, expected = (np.ma.filled(np.ma.asarray(x, "f8"), np.nan) for x in (values, masked))
    assert np.array_equal(got, expected, equal_nan=True)


@pytest.mark.parametrize("kind", ["i1", "i2", "i4"])
@pytest.mark.parametrize("model", ["NETCDF4", "NETCDF3_CLASSIC"])
@pytest.mark.parametrize("name", ["packed", "plain", "raw"])
def test_an_attribute_says_that_integers_are_unsigned(file, kind, model, name):
    goes(file, model, "true", kind)
    expected = as_netcdf4_reads(file, name)
    a = xa.from_netcdf(file, name, mask_and_scale=True)
    assert_as(a[...], expected)
    assert "_Unsigned" not in a.attrs
    if name == "raw":
        assert a.dtype == f"u{kind[1]}" and a.fill_value == 0
    raw = xa.from_netcdf(file, name)
    assert raw.dtype == kind and raw.attrs["_Unsigned"] == "true"
    xa.to_netcdf(raw, file.with_name("copy.nc"), name, format=model)
    assert_as(as_netcdf4_reads(file.with_name("copy.nc"), name), expected)


def test_an_attribute_says_that_integers_have_a_sign(file):
    """netCDF4 ignores the attribute, xarray does not."""
    goes(file, said="false", kind="u2")
    assert xa.from_netcdf(file, "raw", mask_and_scale=True)[...].tolist() == [0, 1, -2, 100, -1]
    values = xa.from_netcdf(file, "packed", mask_and_scale=True)[...]
    assert np.array_equal(values, [-3, -2.5, -4, 47, np.nan], equal_nan=True)
    goes(file, said="True", kind="u2")  # integers that are unsigned anyway
    assert xa.from_netcdf(file, "raw", mask_and_scale=True)[-1] == 65535


def test_unsigned_integers_of_hdf5_and_zarr(file):
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("zarr")
    goes(file)
    expected = as_netcdf4_reads(file, "packed")
    with h5py.File(file) as f:
        assert_as(xa.from_hdf5(f, "packed", mask_and_scale=True)[...], expected)
    with pytest.warns(xa.LossyWarning, match="the type of the attribute 'scale_factor'"):
        xa.to_zarr(xa.from_netcdf(file, "packed"), file.with_name("z"))
    assert_as(xa.from_zarr(file.with_name("z"), mask_and_scale=True)[...], expected)


@pytest.mark.parametrize("scale", [0.5, -0.5])
@pytest.mark.parametrize("limits", ["stored", "values"])
def test_limits_of_packed_numbers_are_unpacked_with_them(file, scale, limits):
    netCDF4 = pytest.importorskip("netCDF4")
    low, high = (np.int16(2), np.int16(1000)) if limits == "stored" else np.float32([-600, 600])
    with netCDF4.Dataset(file, "w") as f:
        f.createDimension("x", 4)
        v = f.createVariable("v", "i2", ("x",), fill_value=np.int16(-1))
        v.set_auto_maskandscale(False)
        both = {"valid_min": low, "valid_max": high, "valid_range": np.array([low, high])}
        v.setncatts({"scale_factor": np.float32(scale), "add_offset": np.float32(10), **both})
        v[:] = [2, 5, 900, 1000]
    a = xa.from_netcdf(file, "v", mask_and_scale=True)
    expected = np.array([2, 5, 900, 1000]) * scale + 10
    assert np.array_equal(a[...], expected)
    if limits == "stored":
        assert a.attrs["valid_min"] == expected.min() == a.attrs["valid_range"][0]
        assert a.attrs["valid_max"] == expected.max() == a.attrs["valid_range"][1]
    else:
        assert a.attrs["valid_min"] == low and a.attrs["valid_range"].tolist() == [low, high]
    xa.to_netcdf(a, file.with_name("copy.nc"), "v")
    assert_as(as_netcdf4_reads(file.with_name("copy.nc"), "v"), expected)


@pytest.mark.invariant("I13")
@pytest.mark.parametrize("to", ["netcdf", "zarr"])
def test_packing_that_a_format_does_not_know_is_named(tmp_path, to):
    """xarray reads the stored numbers, despite the attributes of GeoTIFF."""
    pytest.importorskip({"netcdf": "netCDF4"}.get(to, to))
    how = {"chunks": (2,), "dims": ["x"], "attrs": {"scales": [0.5], "offsets": [0.0]}}
    a = xa.from_array(np.arange(3, dtype="i2"), **how)
    place = tmp_path / f"a.{to}"
    with pytest.warns(xa.LossyWarning, match="'v': .*packing by attribute 'scales'") as seen:
        getattr(xa, f"to_{to}")(a, place, "v")
    assert not any("offsets" in str(each.message) for each in seen)
    a.attrs["scales"] = [1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", xa.LossyWarning)
        getattr(xa, f"to_{to}")(a, tmp_path / f"b.{to}", "v")
