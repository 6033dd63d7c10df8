"""FITS: which image, cards as attributes, packed and unsigned numbers, compressed images."""

from __future__ import annotations

import gzip
import warnings

import numpy as np
import pytest

import extarray as xa

fits = pytest.importorskip("astropy.io.fits")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file.fits"


def several(file):
    x = np.arange(6, dtype=">i2").reshape(2, 3)
    units = [
        fits.PrimaryHDU(),
        fits.ImageHDU(x, name="DATA"),
        fits.BinTableHDU(np.zeros(2, [("a", "i4")]), name="TABLE"),
        fits.ImageHDU(x * 2, name="STAT"),
        fits.ImageHDU(x * 3),
    ]
    fits.HDUList(units).writeto(file)
    return x


def test_an_image_is_chosen(file):
    x = several(file)
    assert xa.file_formats()["fits"].names(file) == ["DATA", "STAT", "4"]
    for hdu, factor in ((None, 1), (1, 1), ("DATA", 1), ("stat", 2), (3, 2), (4, 3), ("4", 3)):
        assert np.array_equal(xa.from_fits(file, hdu)[...], x * factor)
    for hdu in (0, 2, 9, "TABLE", "none", ""):
        with pytest.raises(xa.VariableError, match="'DATA', 'STAT', '4'"):
            xa.from_fits(file, hdu)


def test_an_extension_comes_beside_the_others(file):
    x = several(file)
    before = file.read_bytes()
    xa.to_fits(xa.from_array(x + 5), file, "NEW")
    assert file.read_bytes().startswith(before)
    with pytest.raises(xa.ExistsError, match="'stat'"):
        xa.to_fits(xa.from_array(x), file, "stat")
    xa.to_fits(xa.from_array(x + 7, dims=None), file, "STAT", overwrite=True)
    with fits.open(file) as there:
        there.verify("exception")
        assert [u.name for u in there] == ["PRIMARY", "DATA", "TABLE", "", "NEW", "STAT"]
        assert np.array_equal(there["NEW"].data, x + 5)
        assert np.array_equal(there["STAT"].data, x + 7)


def cards(header):
    own = ("", "EXTEND", "BITPIX", "SIMPLE", "NAXIS", "NAXIS1", "NAXIS2")
    return [(c.keyword, c.value, c.comment) for c in header.cards if c.keyword not in own]


def test_cards_are_attributes_and_come_back(file, tmp_path):
    image = fits.PrimaryHDU(np.arange(6, dtype="f4").reshape(2, 3))
    h = image.header
    h["OBJECT"] = ("M 13", "what it is")
    h["CTYPE1"], h["CRVAL1"], h["CDELT1"] = "RA---TAN", 83.633, -2.5e-4
    h["GOOD"], h["COUNT"], h["PHASE"] = True, 7, 1 + 2j
    h["UNKNOWN"] = None
    h["QUOTED"] = "it's"
    h["HIERARCH ESO DET CHIP1 NAME"] = "CCD"
    h["LONGTEXT"] = "x" * 150
    h.add_comment("a remark")
    h.add_history("made")
    h.add_history("changed")
    image.writeto(file)
    a = xa.from_fits(file)
    assert a.attrs["OBJECT"] == "M 13" and a.attrs["card_comments"]["OBJECT"] == "what it is"
    assert a.attrs["CRVAL1"] == 83.633 and a.attrs["GOOD"] is True and a.attrs["COUNT"] == 7
    assert a.attrs["HISTORY"] == ["made", "changed"] and a.attrs["UNKNOWN"] is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xa.to_fits(a, tmp_path / "copy.fits")
    assert cards(fits.getheader(tmp_path / "copy.fits")) == cards(h)


def test_what_no_card_holds_is_named(file):
    attrs = {"unit": "mm", "LIST": [1, 2], "NAN": np.nan, "NAXIS": 3, "ÄÖ": 1, "TEXT": "ä\n"}
    with pytest.warns(xa.LossyWarning) as caught:
        xa.to_fits(xa.from_array([1.0], attrs=attrs), file)
    text = str(caught[0].message)
    assert all(repr(name) in text for name in attrs)
    with fits.open(file) as there:
        there.verify("exception")
        assert there[0].header["UNIT"] == "mm"


@pytest.mark.parametrize("blank", [None, -1])
def test_packed_numbers_are_kept_or_unpacked(file, blank):
    image = fits.PrimaryHDU(np.array([[5, 7, -1]], "i2"))
    image.header["BSCALE"], image.header["BZERO"] = 0.5, 100
    if blank is not None:
        image.header["BLANK"] = blank
    image.writeto(file)
    with fits.open(file, "update", do_not_scale_image_data=True) as there:  # as they are
        there[0].data = np.array([[5, 7, -1]], ">i2")
        there[0].header["BSCALE"], there[0].header["BZERO"] = 0.5, 100
    a = xa.from_fits(file)
    assert a[...].tolist() == [[5, 7, -1]] and a.dtype == ">i2" and a.attrs["BSCALE"] == 0.5
    assert a.fill_value == (blank or 0)
    b = xa.from_fits(file, mask_and_scale=True)
    with fits.open(file) as there:
        np.testing.assert_array_equal(b[...], there[0].data)
        assert b.dtype == np.float32
    assert not {"BSCALE", "BZERO", "BLANK"} & set(b.attrs)
    again = file.with_name("again.fits")
    xa.to_fits(a, again)
    np.testing.assert_array_equal(fits.getdata(again), fits.getdata(file))


@pytest.mark.parametrize("options", [{}, {"tile_shape": (8, 16)}, {"compression_type": "GZIP_2"}])
@pytest.mark.parametrize("dtype", ["i2", "u2", "i4"])
def test_a_compressed_image(file, dtype, options):
    x = np.random.default_rng(0).integers(0, 1000, (40, 50)).astype(dtype)
    units = [fits.PrimaryHDU(), fits.CompImageHDU(x, name="SCI", **options)]
    fits.HDUList(units).writeto(file)
    a = xa.from_fits(file, "SCI")
    assert np.array_equal(a[...], x) and a.dtype == np.dtype(dtype).newbyteorder(">")


def test_a_file_that_is_compressed_as_a_whole(file):
    x = several(file)
    whole = file.with_name("file.fits.gz")
    whole.write_bytes(gzip.compress(file.read_bytes()))
    assert np.array_equal(xa.from_fits(whole, "STAT")[...], x * 2)
    with pytest.raises(xa.FormatError, match="compressed"):
        xa.to_fits(xa.from_array(x), whole, "NEW")


def test_elements_that_fits_does_not_have(file):
    for dtype in ("?", "c8", "S3", "f2", "M8[s]", [("a", "i4")]):
        with pytest.raises(xa.DTypeError, match="astype"):
            xa.to_fits(xa.zeros((2, 2), dtype), file)
    assert not file.exists()


@pytest.mark.parametrize(
    ("dtype", "blank"),
    [("u2", 7), ("u2", 0), ("u4", 2**32 - 1), ("u8", 2**64 - 1), ("u8", 0), ("i1", -128)]
    + [("i2", 0), ("i8", 2**63 - 1), ("i8", -(2**63)), ("u1", 255)],
)
def test_blank_is_an_element_whatever_the_sign_in_the_file(file, tmp_path, dtype, blank, recwarn):
    x = np.array([[blank, 1, 100]], dtype)
    zero = {"u2": 1 << 15, "u4": 1 << 31, "u8": 1 << 63, "i1": -128}.get(dtype, 0)
    image = fits.PrimaryHDU(x)
    image.header["BLANK"] = blank - zero
    image.writeto(file)
    a = xa.from_fits(file)
    assert np.array_equal(a[...], x) and int(a.fill_value) == a.attrs["BLANK"] == blank
    xa.to_fits(a, tmp_path / "copy.fits")
    assert not recwarn.list
    for name in (file, tmp_path / "copy.fits"):
        assert fits.getheader(name)["BLANK"] == blank - zero
        values = xa.from_fits(name, mask_and_scale=True)
        assert np.array_equal(values[...], [[np.nan, 1, 100]], equal_nan=True)
        assert "BLANK" not in values.attrs
        with fits.open(name, do_not_scale_image_data=True) as there:
            assert there[0].data.tolist() == [[blank - zero, 1 - zero, 100 - zero]]
    del a.attrs["BLANK"]
    xa.to_fits(a, tmp_path / "third.fits")
    assert fits.getheader(tmp_path / "third.fits").get("BLANK") == (blank - zero if blank else None)


def test_a_blank_that_is_no_element_is_named(file):
    a = xa.from_array(np.array([[1, 2]], "u2"), attrs={"BLANK": -1}, fill_value=9)
    with pytest.warns(xa.LossyWarning, match=r"fill value.*9.*'BLANK', which is not an element"):
        xa.to_fits(a, file)
    assert "BLANK" not in fits.getheader(file)
    assert xa.from_fits(file)[...].tolist() == [[1, 2]]
