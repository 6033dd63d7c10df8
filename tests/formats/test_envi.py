"""ENVI: headers as others write them, byte orders, what an image has for each band."""

from __future__ import annotations

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
