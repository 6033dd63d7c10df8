"""GeoTIFF files made by rasterio and GDAL: types, compressions, layouts, places, masks."""

from __future__ import annotations

import numpy as np
import pytest
from compare import same_values

import extarray as xa

rasterio = pytest.importorskip("rasterio")

from rasterio.control import GroundControlPoint  # noqa: E402
from rasterio.crs import CRS  # noqa: E402
from rasterio.enums import Resampling  # noqa: E402
from rasterio.transform import Affine  # noqa: E402

X = np.random.default_rng(0).integers(0, 100, (3, 37, 53))
TILES = {"tiled": True, "blockxsize": 16, "blockysize": 32}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file.tif"


def made(file, data, edit=None, **options):
    """Make a file of bands with rasterio."""
    profile = {
        "driver": "GTiff",
        "count": len(data),
        "height": data.shape[1],
        "width": data.shape[2],
        "dtype": data.dtype.name,
        "crs": "EPSG:32633",
        "transform": Affine(10, 0, 500000, 0, -10, 4600000),
    }
    with rasterio.open(file, "w", **{**profile, **options}) as f:
        f.write(data)
        if edit is not None:
            edit(f)


def same_number(one, other):
    return one == other or (one is not None and np.isnan(one) and np.isnan(other))


def agrees(file, is_exact=True):
    """Require that we and rasterio read the same, and that rasterio reads our copy alike."""
    with rasterio.open(file) as f:
        want, profile, tags = f.read(), f.profile, f.tags()
        facts = (f.scales, f.offsets, f.units, f.descriptions)
    a = xa.from_geotiff(file)
    assert a.dims == ("band", "y", "x")
    assert a.dtype.newbyteorder("=") == want.dtype
    assert same_values(a[...].astype(want.dtype), want)
    if profile["nodata"] is not None:
        assert same_number(np.asarray(a.fill_value).item(), profile["nodata"])
    copy = file.with_name("copy.tif")
    xa.to_geotiff(a, copy)
    with rasterio.open(copy) as f:
        assert f.crs == profile["crs"]
        assert f.transform.almost_equals(profile["transform"])
        assert same_number(f.nodata, profile["nodata"])
        assert same_values(f.read(), want)
        assert (f.scales, f.offsets, f.units, f.descriptions) == facts
        if is_exact:
            assert f.tags() == tags
    return a


DTYPES = ["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES += ["float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", [{}, {**TILES, "interleave": "pixel"}], ids=["strips", "tiles"])
def test_types(file, dtype, options):
    made(file, X.astype(dtype), **options)
    agrees(file)


def test_complex_integers_are_refused(file):
    made(file, X.astype("complex64"), dtype="complex_int16")
    with pytest.raises(xa.DTypeError, match="complex_int16"):
        xa.from_geotiff(file)


@pytest.mark.parametrize("interleave", ["pixel", "band"])
@pytest.mark.parametrize(
    "compress",
    ["deflate", "lzw", "zstd", "packbits", "lzma", "lerc", "lerc_deflate", "webp", "jpeg"],
)
def test_compressions(file, compress, interleave):
    try:
        made(file, X.astype("uint8"), compress=compress, interleave=interleave, **TILES)
        with rasterio.open(file) as f:
            f.read()
    except rasterio.errors.RasterioError as error:
        pytest.skip(f"this GDAL does not write and read it: {error}")
    agrees(file)


LAYOUTS = {
    "predictor 2": ("int16", {"compress": "deflate", "predictor": 2}),
    "predictor 3": ("float32", {"compress": "deflate", "predictor": 3}),
    "BigTIFF": ("int16", {"BIGTIFF": "YES"}),
    "big endian, strips": ("int16", {"ENDIANNESS": "BIG"}),
    "big endian, tiles": ("float32", {"ENDIANNESS": "BIG", **TILES}),
    "big endian, pixels": ("float64", {"ENDIANNESS": "BIG", "interleave": "pixel"}),
    "strips of a row": ("int16", {"blockysize": 1}),
    "strips of seven rows": ("int16", {"blockysize": 7, "interleave": "band"}),
    "sparse": ("int16", {"SPARSE_OK": "TRUE", **TILES}),
    "a COG": ("int16", {"driver": "COG"}),
}


@pytest.mark.parametrize(("dtype", "options"), LAYOUTS.values(), ids=LAYOUTS)
def test_layouts(file, dtype, options):
    made(file, X.astype(dtype), **options)
    agrees(file, is_exact=options.get("driver") != "COG")


@pytest.mark.parametrize(("dtype", "bits"), [("uint8", 1), ("uint8", 4), ("uint16", 12)])
@pytest.mark.parametrize("options", [{}, TILES], ids=["strips", "tiles"])
def test_elements_of_fewer_bits(file, dtype, bits, options):
    made(file, (X % 2**bits).astype(dtype), NBITS=bits, **options)
    with rasterio.open(file) as f:
        want = f.read()
    a = xa.from_geotiff(file)
    assert same_values(a[...], want)


@pytest.mark.parametrize("bits", [16, 24])
def test_floats_of_fewer_bits(file, bits):
    """GDAL 3.10 returns floats of 4 bytes for those of 16 bits, which the array has."""
    made(file, (X / 7).astype("float32"), NBITS=bits)
    with rasterio.open(file) as f:
        want = f.read()
    a = xa.from_geotiff(file)
    assert a.dtype == ("f2" if bits == 16 else "f4")
    assert same_values(a[...].astype("f4"), want.astype("f4"))


@pytest.mark.parametrize(
    ("dtype", "nodata"),
    [("float32", 0), ("float32", -9999), ("float32", float("nan")), ("float32", 1e30)]
    + [
        ("uint8", 255),
        ("int16", -32768),
        ("int32", -(2**31)),
        ("float64", -1.7976931348623157e308),
    ],
)
def test_no_data(file, dtype, nodata):
    made(file, X.astype(dtype), nodata=nodata)
    agrees(file)


@pytest.mark.parametrize(
    "options",
    [
        {"crs": None},
        {"crs": None, "transform": Affine.identity()},
        {"transform": Affine(10, 2, 5, -1, -10, 7)},
        {"crs": "EPSG:4326", "transform": Affine(0.1, 0, -180, 0, -0.1, 90)},
        {"crs": CRS.from_proj4("+proj=laea +lat_0=52 +lon_0=10 +ellps=GRS80")},
    ],
    ids=["no system", "no place", "rotated", "degrees", "of PROJ"],
)
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_places(file, options):
    made(file, X.astype("int16"), **options)
    agrees(file)


def control_points(f):
    points = [(0, 0, 1, 2), (0, 30, 3, 2), (30, 0, 1, 5)]
    f.gcps = ([GroundControlPoint(*p, 0) for p in points], CRS.from_epsg(4326))


def coefficients(f):
    names = "LINE_OFF SAMP_OFF LAT_OFF LONG_OFF HEIGHT_OFF LINE_SCALE SAMP_SCALE LAT_SCALE"
    names += " LONG_SCALE HEIGHT_SCALE ERR_BIAS ERR_RAND"
    values = dict.fromkeys(names.split(), "1")
    for name in ("LINE_NUM", "LINE_DEN", "SAMP_NUM", "SAMP_DEN"):
        values[f"{name}_COEFF"] = " ".join(["1"] * 20)
    f.update_tags(ns="RPC", **values)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (control_points, "ground control points"),
        (coefficients, "rational polynomial coefficients"),
        (lambda f: f.write_mask(X[0] > 50), "mask"),
    ],
    ids=["points", "coefficients", "mask"],
)
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_what_an_array_does_not_have_is_named(file, edit, words):
    made(file, X.astype("uint8"), edit, crs=None, transform=None)
    with pytest.warns(xa.LossyWarning, match=words):
        a = xa.from_geotiff(file)
    assert same_values(a[...], X.astype("uint8"))


@pytest.mark.parametrize(
    ("count", "options"),
    [
        (4, {"photometric": "RGB", "ALPHA": "YES"}),
        (4, {"photometric": "CMYK"}),
        (3, {"photometric": "RGB"}),
    ],
    ids=lambda value: str(value),
)
def test_colours(file, count, options):
    made(file, np.concatenate([X, X])[:count].astype("uint8"), **options)
    a = agrees(file)
    with rasterio.open(file) as f, rasterio.open(file.with_name("copy.tif")) as g:
        assert f.colorinterp == g.colorinterp
    assert len(a) == count


def test_a_table_of_colours(file):
    table = {i: (i, 255 - i, 7, 255) for i in range(256)}
    data = X[:1].astype("uint8")
    made(file, data, lambda f: f.write_colormap(1, table), photometric="palette")
    with pytest.warns(xa.LossyWarning, match="colo"):
        a = xa.from_geotiff(file)
    assert same_values(a[...], data)


def facts(f):
    f.scales, f.offsets = (0.5, 0.5, 0.25), (1.0, 2.0, 3.0)
    f.units, f.descriptions = ("m", "s", "K"), ("blue", None, "red")
    f.update_tags(A="b")


def test_what_bands_have(file):
    made(file, X.astype("int16"), facts)
    agrees(file)


@pytest.mark.parametrize("nodata", [None, 7])
@pytest.mark.parametrize(
    "options", [{}, TILES, {"interleave": "pixel"}], ids=["", "tiles", "pixel"]
)
def test_bands_of_different_scales_are_unpacked_each_by_its_own(file, nodata, options):
    made(file, X.astype("int16"), facts, nodata=nodata, **options)
    with rasterio.open(file) as f:
        scales, offsets = (np.reshape(each, (3, 1, 1)) for each in (f.scales, f.offsets))
        want = f.read(masked=True) * scales + offsets
    want = np.ma.filled(want, np.nan)
    a = xa.from_geotiff(file, mask_and_scale=True)
    np.testing.assert_array_equal(a[...], want)
    assert np.isnan(a.fill_value)
    assert not {"scales", "offsets", "nodata"} & set(a.attrs)


def test_overviews_are_left_out(file):
    made(file, X.astype("int16"), lambda f: f.build_overviews([2, 4], Resampling.nearest))
    assert agrees(file).shape == X.shape


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 53), (2, 37, 1)])
@pytest.mark.parametrize("options", [{}, {**TILES, "compress": "lzw"}], ids=["strips", "tiles"])
def test_small_images(file, shape, options):
    made(file, np.full(shape, 7, "int16"), **options)
    agrees(file)


def test_a_part_of_what_was_appended_is_what_rasterio_reads(file):
    """The bounds cut the tiles along the edges, in the file and in the array."""
    a = xa.create(None, (0, 37, 53), "int16", chunks=(2, 16, 16), dims=("band", "y", "x"))
    a.attrs["transform"] = [10.0, 0.0, 5.0, 0.0, -10.0, 7.0]
    for band in X.astype("int16"):
        a.append(band[None])
    xa.to_geotiff(a, file, selection=(slice(1, 3), slice(5, 30), slice(3, 50)))
    with rasterio.open(file) as f:
        assert same_values(f.read(), X[1:3, 5:30, 3:50].astype("int16"))
        assert tuple(f.transform)[:6] == (10, 0, 35, 0, -10, -43)
