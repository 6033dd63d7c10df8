"""GeoTIFF: georeferencing, bands, tiles, values for "no data", files of more than 4 GiB."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from peers import quiet_georeference

import extarray as xa

rasterio = pytest.importorskip("rasterio")
pytest.importorskip("rasterio.shutil")

#: Since GDAL 3.11, floats of 16 bits are a type; before, they were marked floats of 32 bits.
HAS_HALVES = "float16" in rasterio.dtypes.dtype_rev


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file.tif"


def made(file, **options):
    x = np.arange(2 * 40 * 50, dtype="i2").reshape(2, 40, 50)
    settings = {"count": 2, "height": 40, "width": 50, "dtype": "int16", **options}
    with quiet_georeference(), rasterio.open(file, "w", driver="GTiff", **settings) as f:
        f.write(x)
        f.update_tags(SENSOR="OLI")
        f.descriptions = ("red", "green")
        f.scales, f.offsets, f.units = (0.5, 0.5), (10.0, 10.0), ("K", "K")
    return x


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"interleave": "pixel", "compress": "lzw", "predictor": 2},
        {"tiled": True, "blockxsize": 16, "blockysize": 32, "compress": "zstd"},
        {"BIGTIFF": "YES", "compress": "deflate", "interleave": "band"},
        {"ENDIANNESS": "BIG"},
    ],
    ids=str,
)
def test_files_of_every_kind(file, options, tmp_path):
    transform = rasterio.Affine(30.0, 0.0, 583000.0, 0.0, -30.0, 4520000.0)
    x = made(file, crs="EPSG:32618", transform=transform, nodata=-9, **options)
    a = xa.from_geotiff(file)
    assert np.array_equal(a[...], x) and a.dims == ("band", "y", "x") and a.fill_value == -9
    assert a.attrs["transform"] == list(transform)[:6] and "UTM zone 18N" in a.attrs["crs"]
    assert a.attrs["SENSOR"] == "OLI" and a.attrs["units"] == ["K", "K"]
    assert a.attrs["coords"]["band"]["data"].tolist() == ["red", "green"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xa.to_geotiff(a, tmp_path / "copy.tif", **options)
        b = xa.from_geotiff(tmp_path / "copy.tif")
    assert np.array_equal(b[...], x) and b.fill_value == -9
    names = set(a.attrs) - {"coords"}
    assert {k: a.attrs[k] for k in names} == {k: b.attrs[k] for k in names}
    with rasterio.open(file) as f, rasterio.open(tmp_path / "copy.tif") as g:
        for what in ("crs", "transform", "nodata", "descriptions", "scales", "offsets", "units"):
            assert getattr(f, what) == getattr(g, what)
        assert f.tags() == g.tags()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy.tif", "file.tif"]


@pytest.mark.parametrize("options", [{}, {"compress": "deflate"}, {"ENDIANNESS": "BIG"}], ids=str)
def test_elements_of_two_bytes(file, tmp_path, options):
    x = (np.arange(2 * 32 * 48).reshape(2, 32, 48) / 7).astype("f2")
    x[0, 0, :4] = np.nan, np.inf, -0.0, 6e-8
    xa.to_geotiff(xa.from_array(x, chunks=(1, 16, 16)), file, **options)
    with quiet_georeference(), rasterio.open(file) as f:
        if not HAS_HALVES:
            assert f.tags(2, ns="IMAGE_STRUCTURE")["NBITS"] == "16"
        assert np.array_equal(f.read(), x, equal_nan=True)
    a = xa.from_geotiff(file)
    assert a.dtype == x.dtype and a[...].tobytes() == x.tobytes()


@pytest.mark.skipif(HAS_HALVES, reason="here they are numbers of two bytes")
def test_elements_of_two_bytes_that_stand_for_a_number_of_four(file):
    settings = {"count": 1, "height": 8, "width": 8, "dtype": "float32", "nbits": 16}
    with quiet_georeference(), rasterio.open(file, "w", driver="GTiff", nodata=-1e38, **settings):
        pass
    with pytest.warns(xa.LossyWarning, match="that its elements have 16 bits"):
        a = xa.from_geotiff(file)
    assert a.dtype == "f4" and a.fill_value == np.float32(-1e38)


@pytest.mark.parametrize(
    ("chunks", "options"),
    [
        ((4, 64, 64), {}),  # a box is one chunk, and several tiles
        ((8, 64, 64), {"interleave": "pixel"}),
        ((4, 64, 64), {"tiled": True, "blockxsize": 128, "blockysize": 32}),
        ((4, 60, 64), {}),  # strips
        ((4, 60, 64), {"interleave": "pixel", "blockysize": 70}),
        ((11, 16, 16), {"BIGTIFF": "YES"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("axes", [2, 3])
def test_files_without_compression_are_written(file, tmp_path, chunks, options, axes):
    x = np.random.default_rng(1).random((11, 150, 200))
    x = x if axes == 3 else x[0]
    a = xa.from_array(x, chunks=chunks[-axes:], attrs={"SENSOR": "OLI"}, fill_value=-1.0)
    xa.to_geotiff(a, file, **options)
    xa.to_geotiff(a, tmp_path / "other.tif", **{**options, "photometric": "minisblack"})
    other = tmp_path / "other.tif"
    with quiet_georeference(), rasterio.open(file) as f, rasterio.open(other) as g:
        assert np.array_equal(f.read(), x.reshape(f.count, *f.shape))
        assert np.array_equal(f.read(), g.read()) and f.tags() == g.tags()
        assert f.profile == g.profile and f.nodata == -1
    for extents in (None, (3, 50, 70), (4, 64, 64), (11, 150, 200)):
        for name in (file, other):
            with xa.from_geotiff(name, chunks=extents, path=tmp_path / "b", overwrite=True) as b:
                assert np.array_equal(b[...], x.reshape(b.shape)) and b.attrs["SENSOR"] == "OLI"


def test_packed_numbers(file):
    x = made(file, nodata=3)
    values = xa.from_geotiff(file, mask_and_scale=True)
    expected = np.where(x == 3, np.nan, x * 0.5 + 10).astype("f4")
    np.testing.assert_array_equal(values[...], expected)
    assert not {"scales", "offsets"} & set(values.attrs)


def test_tiles_are_those_of_the_array(file):
    xa.to_geotiff(xa.zeros((3, 100, 100), "u1", chunks=(1, 32, 48)), file)
    with quiet_georeference(), rasterio.open(file) as f:
        assert f.block_shapes == [(32, 48)] * 3
    xa.to_geotiff(xa.zeros((100, 100), "u1", chunks=(32, 48)), file, overwrite=True, blockysize=5)
    with quiet_georeference(), rasterio.open(file) as f:
        assert f.block_shapes == [(5, 100)]
    xa.to_geotiff(xa.zeros((100, 100), "u1", chunks=(33, 100)), file, overwrite=True)
    assert xa.from_geotiff(file).shape == (1, 100, 100)


def test_what_is_lost_is_named(file):
    attrs = {"crs": "no such thing", "transform": [1, 2], "list": [1], "scales": [1.0] * 5}
    a = xa.from_array(np.zeros((2, 3, 4), "u1"), attrs=attrs)
    with pytest.warns(xa.LossyWarning) as caught:
        xa.to_geotiff(a, file)
    assert all(repr(name) in str(caught[0].message) for name in attrs)
    with quiet_georeference(), rasterio.open(file, "r+") as f:
        f.write_colormap(1, {0: (1, 2, 3, 255)})
        f.update_tags(2, NAME="x")
    with pytest.warns(xa.LossyWarning, match=r"the colours of band 1.*'NAME' of band 2|'NAME'"):
        xa.from_geotiff(file)


def test_what_a_file_cannot_be(file):
    for a, error in (
        (xa.zeros((3,)), xa.ShapeError),
        (xa.zeros((0, 3)), xa.ShapeError),
        (xa.zeros((1, 1, 1, 1)), xa.ShapeError),
        (xa.zeros((2, 2), "?"), xa.DTypeError),
        (xa.zeros((2, 2), "S3"), xa.DTypeError),
    ):
        with pytest.raises(error):
            xa.to_geotiff(a, file)
    for option, word in (("compress", "no such thing"), ("dtype", "uint8")):
        with pytest.raises(xa.ArgumentError, match=word if option == "compress" else option):
            xa.to_geotiff(xa.zeros((2, 2)), file, **{option: word})
    with quiet_georeference():
        options = {"count": 1, "height": 2, "width": 2, "dtype": "complex_int16"}
        rasterio.open(file, "w", driver="GTiff", **options).close()
    with pytest.raises(xa.DTypeError, match="complex_int16"):
        xa.from_geotiff(file)


def test_colors_of_bands_come_back(file, tmp_path, recwarn):
    x = np.arange(4 * 20 * 30, dtype="u1").reshape(4, 20, 30)
    settings = {"count": 4, "height": 20, "width": 30, "dtype": "uint8", "photometric": "rgb"}
    with quiet_georeference(), rasterio.open(file, "w", "GTiff", ALPHA="YES", **settings) as f:
        f.write(x)
        colors = f.colorinterp
    a = xa.from_geotiff(file)
    assert a.attrs["colors"] == ["red", "green", "blue", "alpha"]
    xa.to_geotiff(a, tmp_path / "copy.tif")
    with quiet_georeference(), rasterio.open(tmp_path / "copy.tif") as f:
        assert f.colorinterp == colors and np.array_equal(f.read(), x)
    assert not [w for w in recwarn.list if issubclass(w.category, xa.LossyWarning)]


def test_what_a_file_has_beside_its_image_is_named(file):
    x = np.ones((2, 20, 30), "u1")
    settings = {"count": 2, "height": 20, "width": 30, "dtype": "uint8"}
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        quiet_georeference(),
        rasterio.open(file, "w", "GTiff", **settings) as f,
    ):
        f.write(x)
        f.update_tags(ns="MINE", key="value")
        f.write_mask(np.eye(20, 30) > 0)
    with pytest.warns(xa.LossyWarning, match=r"the tags of MINE; the mask"):
        a = xa.from_geotiff(file)
    b = xa.from_array(x, attrs={"colors": ["none", "such"]})
    with pytest.warns(xa.LossyWarning, match=r"'colors'"):
        xa.to_geotiff(b, f"{file}.2.tif")
    assert np.array_equal(a[...], x)


@pytest.mark.parametrize("n", [2, 5])
def test_a_file_of_several_pages_is_refused(file, path, n):
    image = pytest.importorskip("PIL.Image")
    pages = [image.fromarray(np.full((20, 30), j, "u2")) for j in range(n)]
    pages[0].save(file, save_all=True, append_images=pages[1:])
    with pytest.raises(xa.FormatError, match=f"has {n} pages"):
        xa.from_geotiff(file, path=path)
    assert not os.path.exists(f"{path}.xmd")
    with quiet_georeference(), rasterio.open(f"GTIFF_DIR:2:{file}") as f:  # as the error advises
        assert (xa.from_array(f.read())[...] == 1).all()


def test_overviews_and_masks_are_no_pages(file):
    x = made(file, tiled=True, blockxsize=16, blockysize=16)
    settings = rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True)
    with settings, quiet_georeference(), rasterio.open(file, "r+") as f:
        f.build_overviews([2, 4])
        f.write_mask(True)
    with pytest.warns(xa.LossyWarning, match="the mask"):
        assert np.array_equal(xa.from_geotiff(file)[...], x)


@pytest.mark.parametrize("options", [{}, {"compress": "lzw"}, {"ENDIANNESS": "BIG"}], ids=str)
@pytest.mark.parametrize(
    ("dtype", "nodata"),
    [("u1", 0), ("f4", 0.0), ("i8", 2**63 - 1), ("i8", -(2**63)), ("u8", 2**64 - 1)]
    + [("u8", 2**53 + 1), ("i8", 0), ("i8", -9999)],
)
def test_no_data_is_exact_and_comes_back(file, tmp_path, dtype, nodata, options, recwarn):
    x = np.array([[[nodata, 5], [6, 7]]], dtype)
    is_attr = nodata == 0
    a = xa.from_array(
        x, fill_value=nodata, attrs={"nodata": nodata} if is_attr else {}, chunks=(1, 16, 16)
    )
    for name in (file, tmp_path / "copy.tif"):
        xa.to_geotiff(a, name, **options)
        with quiet_georeference(), rasterio.open(name) as f:
            assert f.nodata in (float(nodata), None) and np.array_equal(f.read(), x)
        assert gdal_info(name) == nodata
        a = xa.from_geotiff(name)
        assert a.fill_value == x[0, 0, 0] and ("nodata" in a.attrs) == is_attr
        values = xa.from_geotiff(name, mask_and_scale=True)
        assert np.isnan(values[0]).tolist() == [[True, False], [False, False]]
        assert "nodata" not in values.attrs
    assert not recwarn.list


def gdal_info(name):
    """Return GDAL's value for "no data", which rasterio would round or omit."""
    with quiet_georeference(), rasterio.open(name) as f:
        rasterio.shutil.copy(f, f"{name}.vrt", driver="VRT")
    text = Path(f"{name}.vrt").read_text().partition("<NoDataValue>")[2].partition("<")[0]
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def test_no_data_as_rasterio_writes_it(file):
    """rasterio writes digits of a float, and GDAL reads those before the point: -9."""
    settings = {"count": 1, "height": 1, "width": 2, "dtype": "int64", "nodata": -(2**63)}
    with quiet_georeference(), rasterio.open(file, "w", driver="GTiff", **settings) as f:
        f.write(np.array([[[-(2**63), -9]]]))
    assert gdal_info(file) == -9
    values = xa.from_geotiff(file, mask_and_scale=True)
    assert np.array_equal(values[0, 0], [-(2.0**63), np.nan], equal_nan=True)


@pytest.mark.parametrize("name", ["what?.tif", "a b&c.tif", "ü?x=1.tif"])
@pytest.mark.parametrize("count", [1, 3])
def test_no_data_is_exact_whatever_the_name(tmp_path, name, count):
    if os.name == "nt" and "?" in name:
        pytest.skip("no such name here")
    nodata = 2**63 + 1
    a = xa.from_array(np.full((count, 3, 2), nodata, "u8"), fill_value=nodata)
    xa.to_geotiff(a, tmp_path / name, compress="deflate")
    assert gdal_info(tmp_path / name) == nodata
    b = xa.from_geotiff(tmp_path / name)
    assert b.fill_value == nodata and np.array_equal(b[...], a[...])


def test_no_data_of_64_bits_beside_all_else_that_a_file_says(file):
    transform = [30.0, 0.0, 583000.0, 0.0, -30.0, 4520000.0]
    attrs = {"crs": "EPSG:32618", "transform": transform, "SENSOR": "OLI", "scales": [0.5, 0.5]}
    x = np.arange(2 * 40 * 50).reshape(2, 40, 50)
    a = xa.from_array(x, fill_value=-(2**62) - 1, attrs=attrs, chunks=(1, 16, 32))
    xa.to_geotiff(a, file, interleave="pixel", BIGTIFF="YES", compress="lzw")
    with rasterio.open(file) as f:
        assert f.crs.to_epsg() == 32618 and list(f.transform)[:6] == transform
        assert f.profile["interleave"] == "pixel" and f.profile["compress"] == "lzw"
        assert f.block_shapes == [(16, 32)] * 2 and f.scales == (0.5, 0.5)
        assert np.array_equal(f.read(), x)
    assert file.read_bytes()[2] == 43  # BigTIFF
    b = xa.from_geotiff(file)
    assert b.fill_value == a.fill_value and np.array_equal(b[...], x)
    assert {k: b.attrs[k] for k in ("transform", "SENSOR")} == {
        "transform": transform,
        "SENSOR": "OLI",
    }


def test_no_data_that_is_no_element(file, tmp_path):
    made(file, nodata=-9999)
    file.write_bytes(file.read_bytes().replace(b"-9999\0", b"1e+09\0"))
    a = xa.from_geotiff(file)
    assert a.fill_value == 0 and a.attrs["nodata"] == 1e9
    assert not np.isnan(xa.from_geotiff(file, mask_and_scale=True)[...]).any()
    with pytest.warns(xa.LossyWarning, match="'nodata', which is not an element"):
        xa.to_geotiff(a, tmp_path / "copy.tif")
    b = xa.from_array(np.ones((1, 2), "u1"), fill_value=3, attrs={"nodata": 4})
    with pytest.warns(xa.LossyWarning, match="attribute 'nodata', as the fill value"):
        xa.to_geotiff(b, tmp_path / "other.tif")
    with quiet_georeference(), rasterio.open(tmp_path / "other.tif") as f:
        assert f.nodata == 3


def test_a_tag_whose_name_has_a_meaning_is_named(file):
    x = made(file)
    with quiet_georeference(), rasterio.open(file, "r+") as f:
        f.update_tags(nodata="7", crs="here")
    with pytest.warns(xa.LossyWarning, match=r"the tag 'crs'.*the tag 'nodata'"):
        a = xa.from_geotiff(file)
    assert np.array_equal(a[...], x) and not {"nodata", "crs"} & set(a.attrs)


@pytest.mark.parametrize("chunks", [(1, 16, 16), (3, 70, 90), (2, 33, 50)], ids=str)
@pytest.mark.parametrize("interleave", ["band", "pixel"])
@pytest.mark.parametrize(
    "blocks", [{}, {"blockysize": 7}, {"tiled": True, "blockxsize": 32, "blockysize": 16}], ids=str
)
@pytest.mark.parametrize("options", [{}, {"BIGTIFF": "YES"}, {"dtype": "complex64"}], ids=str)
def test_files_without_compression(file, chunks, interleave, blocks, options):
    x = np.random.default_rng(0).integers(0, 999, (3, 70, 90))
    settings = {"count": 3, "height": 70, "width": 90, "dtype": "uint16", **blocks, **options}
    with (
        quiet_georeference(),
        rasterio.open(file, "w", "GTiff", interleave=interleave, **settings) as f,
    ):
        f.write(x.astype(settings["dtype"]))
    with xa.config.set(max_memory=1 << 14):
        a = xa.from_geotiff(file, chunks=chunks)
    assert a.dtype == settings["dtype"] and np.array_equal(a[...], x)


@pytest.mark.parametrize(
    "options",
    [
        {"compress": "lzw"},
        {"ENDIANNESS": "BIG"},
        {"NBITS": 12},
        {"SPARSE_OK": True, "tiled": True, "blockxsize": 16, "blockysize": 16},
    ],
    ids=str,
)
def test_elements_that_are_no_plain_bytes(file, options):
    x = np.zeros((2, 40, 50), "u2")
    x[:, :10, :10] = 7
    settings = {"count": 2, "height": 40, "width": 50, "dtype": "uint16", **options}
    with quiet_georeference(), rasterio.open(file, "w", "GTiff", **settings) as f:
        f.write(x[:, :16, :16], window=((0, 16), (0, 16)))
    assert np.array_equal(xa.from_geotiff(file)[...], x)


@pytest.mark.parametrize("options", [{}, {"compress": "lzw"}, {"interleave": "pixel"}], ids=str)
@pytest.mark.parametrize(
    "tiles", [{}, {"tiled": True, "blockxsize": 16, "blockysize": 32}], ids=str
)
def test_a_file_that_was_cut_off(file, options, tiles):
    made(file, **options, **tiles)
    with open(file, "r+b") as stream:
        stream.truncate(3000)
    with pytest.raises(xa.FormatError):
        xa.from_geotiff(file)
