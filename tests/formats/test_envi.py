"""ENVI: headers as other programs write them, byte orders, entries for each band."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import extarray as xa

HEADER = """ENVI
description = {
  A scene,
  in two lines }
; a remark
Samples = 3
lines   = 2
bands   = 4
header offset = 5
file type = ENVI Standard
data type = 2
interleave = BIL
byte order = {order}
data ignore value = -1
reflectance scale factor = 100
map info = {{UTM, 1.0, 1.0, 583000, 4520000, 30, 30, 18, North}}
wavelength units = Nanometers
wavelength = {{450.5, 550,
  650, 750}}
fwhm = {{10, 10, 10, 10}}
bbl = {{1, 1, 0, 1}}
band names = {{blue, green, red, "near, infrared"}}
"""


def made(folder, order=1, text=HEADER):
    x = np.arange(24, dtype="<>"[order] + "i2").reshape(2, 3, 4)
    x[0, 0, 0] = -1
    data = b"head " + np.ascontiguousarray(x.transpose(0, 2, 1)).tobytes()
    (folder / "scene.bil").write_bytes(data)
    head = text.replace("{order}", str(order)).replace("{{", "{").replace("}}", "}")
    (folder / "scene.hdr").write_text(head)
    return x


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("name", ["scene.hdr", "scene.bil"])
def test_a_header_is_read(tmp_path, name, order):
    x = made(tmp_path, order, HEADER.replace('"near, infrared"', "near"))
    a = xa.from_envi(tmp_path / name)
    assert np.array_equal(a[...], x) and a.dtype == x.dtype and a.fill_value == -1
    assert a.dims == ("y", "x", "band")
    coords = a.attrs["coords"]
    assert coords["wavelength"]["data"].tolist() == [450.5, 550, 650, 750]
    assert coords["wavelength"]["attrs"] == {"units": "Nanometers"}
    assert coords["band_name"]["data"].tolist() == ["blue", "green", "red", "near"]
    assert coords["bbl"]["data"].tolist() == [1, 1, 0, 1]
    assert a.attrs["map info"][:2] == ["UTM", "1.0"]
    assert a.attrs["description"] == "A scene,\nin two lines"
    b = xa.from_envi(tmp_path / name, mask_and_scale=True)
    np.testing.assert_allclose(b[0, 0], [np.nan, 0.01, 0.02, 0.03])


@pytest.mark.parametrize("interleave", ["bsq", "bil", "bip"])
def test_a_round_trip_keeps_the_header(tmp_path, interleave, recwarn):
    made(tmp_path, 1, HEADER.replace('"near, infrared"', "near").replace("A scene,\n  in", "A"))
    a = xa.from_envi(tmp_path / "scene.hdr")
    xa.to_envi(a, tmp_path / "copy.hdr", interleave=interleave)
    b = xa.from_envi(tmp_path / "copy.hdr")
    assert np.array_equal(a[...], b[...]) and a.dtype == b.dtype and a.fill_value == b.fill_value
    assert set(a.attrs) == set(b.attrs)
    for name in set(a.attrs) - {"coords", "dims"}:
        assert a.attrs[name] == b.attrs[name]
    for name, each in a.attrs["coords"].items():
        assert each["data"].tolist() == b.attrs["coords"][name]["data"].tolist()
    assert not recwarn.list


def test_what_is_wrong_is_said(tmp_path):
    good = HEADER.replace("{{", "{").replace("}}", "}").replace("{order}", "1")
    made(tmp_path)
    for old, new, error, words in (
        ("ENVI\n", "", xa.FormatError, "begin with 'ENVI'"),
        ("bands   = 4", "", xa.FormatError, "'bands'"),
        ("bands   = 4", "bands = many", xa.FormatError, "'many'"),
        ("bands   = 4", "bands = 5", xa.FormatError, "48 bytes"),
        ("data type = 2", "data type = 7", xa.DTypeError, "7"),
        ("BIL", "tiles", xa.FormatError, "'tiles'"),
        ("byte order", "file compression = 1\nbyte order", xa.FormatError, "compressed"),
    ):
        (tmp_path / "scene.hdr").write_text(good.replace(old, new, 1))
        with pytest.raises(error, match=words):
            xa.from_envi(tmp_path / "scene.hdr")
    (tmp_path / "scene.hdr").unlink()
    with pytest.raises(xa.FormatError, match=r"no header .*scene.hdr"):
        xa.from_envi(tmp_path / "scene.bil")
    (tmp_path / "alone.hdr").write_text(good)
    with pytest.raises(xa.MissingError, match="no file of elements"):
        xa.from_envi(tmp_path / "alone.hdr")
    with pytest.raises(xa.ShapeError):
        xa.to_envi(xa.zeros((3,)), tmp_path / "new.hdr")
    with pytest.raises(xa.DTypeError, match="astype"):
        xa.to_envi(xa.zeros((3, 3), "?"), tmp_path / "new.hdr")
    xa.to_envi(xa.zeros((3, 3)), tmp_path / "table.hdr")
    assert xa.from_envi(tmp_path / "table.hdr").shape == (3, 3, 1)


def written(folder, attrs, **options):
    """Write a small image; return the header as Spectral Python reads it, and the losses."""
    spectral = pytest.importorskip("spectral")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        a = xa.from_array(np.arange(6, dtype="i2").reshape(1, 2, 3), attrs=attrs, **options)
        xa.to_envi(a, folder / "new.hdr", overwrite=True)
    assert all(w.category is xa.LossyWarning for w in caught)
    header = spectral.envi.read_envi_header(folder / "new.hdr")
    return header, " ".join(str(w.message) for w in caught)


def test_comments_inside_a_list_are_no_values(tmp_path):
    lists = (
        "wavelength = { ; in nanometers\n450.5, 550, ; near, {visible}\n; 600,\n 650, 750}; four\n"
        "fwhm = {10, 10,\n; unsure }\n 10, 10}\nband names = {a;b, b, c ; c, d}\nsensor = new\n"
    )
    start = HEADER.index("wavelength = ")
    made(tmp_path, 1, HEADER[:start] + lists)
    a = xa.from_envi(tmp_path / "scene.hdr")
    coords = a.attrs["coords"]
    assert coords["wavelength"]["data"].tolist() == [450.5, 550, 650, 750]
    assert coords["fwhm"]["data"].tolist() == [10] * 4
    assert coords["band_name"]["data"].tolist() == ["a;b", "b", "c ; c", "d"]
    assert a.attrs["sensor"] == "new"


def test_a_description_of_several_lines_is_kept(tmp_path):
    for text in ("one", "one,\ntwo = 2\n\nthree", ""):
        header, losses = written(tmp_path, {"description": text})
        assert header["description"] == text and not losses
        assert xa.from_envi(tmp_path / "new.hdr").attrs["description"] == text
    header, losses = written(tmp_path, {"description": "one\n  two\r\nthree \n"})
    assert header["description"] == "one\ntwo\nthree"
    assert "'description', except for spaces around its lines" in losses


@pytest.mark.parametrize("name", ["description", "file type", "sensor type", "wavelength units"])
@pytest.mark.parametrize(
    "value",
    ["a }\nreflectance scale factor = 10000\nx = {", {"a": 1}, np.arange(3), [1, 2], None, "a\0b"],
    ids=repr,
)
def test_what_is_no_value_of_a_header_is_refused_by_name(tmp_path, name, value):
    header, losses = written(tmp_path, {name: value})
    assert repr(name) in losses
    assert not {"reflectance scale factor", "x", "description", "sensor type"} & set(header)
    assert header["file type"] == "ENVI Standard" and "wavelength units" not in header
    assert xa.from_envi(tmp_path / "new.hdr", mask_and_scale=True)[0, 1, 2] == 5


def test_coordinates_that_a_header_does_not_hold_are_named(tmp_path):
    bands = {
        "bbl": np.array([1, np.nan, 0]),
        "wavelength": np.array([1, 2, 3], "M8[D]"),
        "fwhm": np.float32([0.1, 2, 3]),
        "band_name": np.array([b"a", b"b", b"c"]),
    }
    coords = {k: {"dims": ["band"], "data": v} for k, v in bands.items()}
    coords["fwhm"]["attrs"] = {"units": "nm", "comment": "half"}
    header, losses = written(
        tmp_path, {"coords": coords, "wavelength units": "nm"}, dims=("y", "x", "band")
    )
    assert np.float32(header["fwhm"][0]) == bands["fwhm"][0]
    assert not {"wavelength", "band names", "bbl"} & header.keys()
    assert header["wavelength units"] == "nm"
    for words in (
        "coordinate 'wavelength'",
        "coordinate 'band_name'",
        "coordinate 'bbl', since some bands have no entry",
        "attribute 'comment'",
    ):
        assert words in losses
    assert "'units'" not in losses


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("i2", 0),
        ("f4", 0.0),
        ("i8", 2**63 - 1),
        ("i8", -(2**63)),
        ("u8", 2**64 - 1),
        ("f8", np.nan),
    ],
)
def test_the_ignored_value_is_exact_and_comes_back(tmp_path, dtype, value, recwarn):
    x = np.array([[[value, 5]]], dtype)
    x.tofile(tmp_path / "a.img")
    code = {"i2": 2, "f4": 4, "f8": 5, "i8": 14, "u8": 15}[dtype]
    head = f"ENVI\nsamples = 1\nlines = 1\nbands = 2\ninterleave = bsq\ndata type = {code}\n"
    (tmp_path / "a.hdr").write_text(f"{head}data ignore value = {value}\n")
    a = xa.from_envi(tmp_path / "a.hdr")
    assert np.array_equal(a.fill_value, x[0, 0, 0], equal_nan=True)
    xa.to_envi(a, tmp_path / "b.hdr")
    b = xa.from_envi(tmp_path / "b.hdr", mask_and_scale=True)
    assert np.isnan(b[0, 0]).tolist() == [True, False] and "data ignore value" not in b.attrs
    assert not recwarn.list
    spectral = pytest.importorskip("spectral")
    header = spectral.envi.read_envi_header(tmp_path / "b.hdr")
    assert header["data ignore value"] == str(value)


@pytest.mark.parametrize(
    ("dtype", "value"), [("u2", "-1"), ("i2", "0.5"), ("i2", "nan"), ("u1", "x")]
)
def test_an_ignored_value_that_is_no_element_means_none(tmp_path, dtype, value, recwarn):
    xa.to_envi(xa.from_array(np.array([[255, 0]], dtype)), tmp_path / "a.hdr")
    with open(tmp_path / "a.hdr", "a") as stream:
        stream.write(f"data ignore value = {value}\n")
    a = xa.from_envi(tmp_path / "a.hdr", mask_and_scale=True)
    assert a[0, :, 0].tolist() == [255, 0] and a.attrs["data ignore value"] == value
    xa.to_envi(a, tmp_path / "b.hdr")
    assert f"data ignore value = {value}\n" in (tmp_path / "b.hdr").read_text()
    assert not recwarn.list
