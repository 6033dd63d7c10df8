"""``extarray append`` of files that encode numbers, or locate elements, differently."""

from __future__ import annotations

import numpy as np
import pytest

import extarray as xa

pytest.importorskip("click")

from extarray.cli import main

ELEMENTS = np.arange(12, dtype="i2").reshape(3, 4)


def append(*words):
    return main(["append", *map(str, words)])


@pytest.mark.invariant("I13")
@pytest.mark.parametrize(
    ("dtype", "given", "fits"),
    [
        ("i2", np.array([70000]), False),
        ("i2", np.array([-7]), True),
        ("u8", np.array([7], "u4"), True),
        ("i8", np.array([1 << 63], "u8"), None),  # NumPy refuses this kind
        ("f8", np.array([(1 << 53) + 1]), False),
        ("f4", np.array([1e300]), False),
        ("f4", np.array([0.5, np.nan]), True),
        ("U2", np.array(["abc"]), False),
        ("M8[D]", np.array(["2024-01-01T06"], "M8[h]"), False),
        ("M8[D]", np.array(["2024-01-01T00", "NaT"], "M8[h]"), True),
    ],
)
def test_elements_that_another_dtype_changes_are_refused(tmp_path, capsys, dtype, given, fits):
    xa.zeros(3, dtype, path=tmp_path / "a", chunks=2).close()
    np.save(tmp_path / "more.npy", given)
    assert (append(tmp_path / "a", tmp_path / "more.npy") == 0) == bool(fits)
    if fits is False:
        assert "without loss" in capsys.readouterr().err
    with xa.open(tmp_path / "a") as a:
        assert len(a) == 3 + bool(fits) * len(given)
        if fits:
            np.testing.assert_array_equal(a[3:], given.astype(dtype))


def test_nothing_is_appended_where_a_later_box_does_not_fit(tmp_path):
    xa.zeros((1, 1 << 10), "i4", path=tmp_path / "a", chunks=(1 << 8, 1 << 10)).close()
    more = np.zeros((1 << 12, 1 << 10), "i8")
    more[-1, -1] = 1 << 40
    np.save(tmp_path / "more.npy", more)
    assert append(tmp_path / "a", tmp_path / "more.npy") != 0
    with xa.open(tmp_path / "a") as a:
        assert a.shape == (1, 1 << 10)
    assert main(["check", str(tmp_path / "a")]) == 0


def tile(path, north=900.0, size=10.0, nodata=None, scale=None):
    rasterio = pytest.importorskip("rasterio")
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        height=3,
        width=4,
        count=1,
        dtype="int16",
        crs="EPSG:32633",
        transform=rasterio.Affine(size, 0.0, 500.0, 0.0, -size, north),
        nodata=nodata,
    ) as file:
        file.write(ELEMENTS, 1)
        if scale is not None:
            file.scales = (scale,)
    return path


@pytest.mark.invariant("I13")
@pytest.mark.parametrize(
    ("side", "other", "words"),
    [
        ("end", {"north": 870.0}, None),
        ("start", {"north": 930.0}, None),
        ("end", {"north": 900.0}, "do not adjoin"),
        ("start", {"north": 870.0}, "do not adjoin"),
        ("end", {"north": 870.0, "size": 20.0}, "do not adjoin"),
        ("end", {"north": 870.0, "nodata": 5}, "5 marks missing"),
        ("end", {"north": 870.0, "nodata": 0}, "0 marks missing"),
        ("end", {"north": 870.0, "scale": 2.0}, "'scales' is [2.0]"),
    ],
)
def test_tiles_have_to_continue_the_raster(tmp_path, capsys, side, other, words):
    xa.from_geotiff(tile(tmp_path / "1.tif"), path=tmp_path / "a").close()
    more = tile(tmp_path / "2.tif", **other)
    code = append(tmp_path / "a", more, "--axis", "y", "--side", side)
    if words is None:
        assert code == 0
    else:
        assert code != 0
        assert words in capsys.readouterr().err
    with xa.open(tmp_path / "a") as a:
        assert a.shape == (1, 3 if words else 6, 4)


@pytest.mark.parametrize("nodata", [0, 5])
def test_tiles_with_the_same_missing_value_are_appended(tmp_path, nodata):
    xa.from_geotiff(tile(tmp_path / "1.tif", nodata=nodata), path=tmp_path / "a").close()
    more = tile(tmp_path / "2.tif", north=870.0, nodata=nodata)
    assert append(tmp_path / "a", more, "--axis", "y") == 0


@pytest.mark.parametrize(
    ("axis", "other", "words"),
    [
        ("y", {}, None),
        ("y", {"wavelength": ["1", "3"]}, "'wavelength'"),
        ("y", {"data gain values": ["0.5", "0.2"]}, "'data gain values'"),
        ("band", {"wavelength": ["3", "4"]}, "'data gain values'"),
    ],
)
def test_images_have_to_have_the_same_bands(tmp_path, capsys, axis, other, words):
    envi = pytest.importorskip("spectral.io.envi")
    said = {"wavelength": ["1", "2"], "data gain values": ["0.1", "0.2"]}
    cube = np.arange(24, dtype="u2").reshape(3, 4, 2)
    envi.save_image(str(tmp_path / "1.hdr"), cube, metadata=said)
    envi.save_image(str(tmp_path / "2.hdr"), cube, metadata=said | other)
    xa.from_envi(tmp_path / "1.hdr", path=tmp_path / "a").close()
    code = append(tmp_path / "a", tmp_path / "2.hdr", "--axis", axis)
    assert (code == 0) == (words is None)
    if words is not None:
        assert words in capsys.readouterr().err
