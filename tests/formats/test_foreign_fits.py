"""FITS files made by astropy: compressions, types, scales, extensions, whole files compressed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile

import numpy as np
import pytest
from compare import same_values

import extarray as xa

fits = pytest.importorskip("astropy.io.fits")

X = np.random.default_rng(0).integers(0, 100, (13, 17))
F = np.random.default_rng(0).normal(size=(13, 17)).astype("f4")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file.fits"


def made(file, unit, **options):
    units = [unit] if isinstance(unit, fits.PrimaryHDU) else [fits.PrimaryHDU(), unit]
    fits.HDUList(units).writeto(file, **options)


def agrees(file, hdu=None):
    """Require that we and astropy read the same, and that astropy reads our copy alike."""
    with fits.open(file, uint=True) as f:
        images = [j for j, u in enumerate(f) if u.is_image and u.shape]
        want = np.array(f[images[0] if hdu is None else hdu].data)
    a = xa.from_fits(file, hdu)
    assert a.dtype.newbyteorder("=") == want.dtype.newbyteorder("=")
    assert same_values(a[...].astype(want.dtype), want)
    copy = file.with_name("copy.fits")
    xa.to_fits(a, copy)
    with fits.open(copy, uint=True) as f:
        f.verify("exception")
        assert same_values(np.array(f[0].data).astype(want.dtype), want)
    return a


@pytest.mark.parametrize(
    "kind", ["RICE_1", "GZIP_1", "GZIP_2", "PLIO_1", "HCOMPRESS_1", "NOCOMPRESS"]
)
@pytest.mark.parametrize("dtype", ["u1", "i2", "i4"])
def test_compressed_integers(file, kind, dtype):
    made(file, fits.CompImageHDU(X.astype(dtype), compression_type=kind))
    agrees(file)


@pytest.mark.parametrize("kind", ["RICE_1", "GZIP_1", "GZIP_2", "HCOMPRESS_1", "NOCOMPRESS"])
@pytest.mark.parametrize("level", [16, 0])
@pytest.mark.parametrize("missing", [False, True])
def test_compressed_floats(file, kind, level, missing):
    """The library turns quantized numbers into floats, and missing ones into NaN."""
    x = F.copy()
    if missing:
        x[3, 3] = np.nan
    try:
        made(file, fits.CompImageHDU(x, compression_type=kind, quantize_level=level))
        fits.getdata(file)
    except Exception as error:  # versions differ in the combinations that they support
        pytest.skip(f"this astropy does not write and read it: {error}")
    a = agrees(file)
    if level == 0 and kind.startswith("GZIP"):  # only these lose nothing at level 0
        assert same_values(a[...].astype("f4"), x)


@pytest.mark.parametrize("tile", [(1, 17), (13, 17), (4, 5)])
@pytest.mark.parametrize("planes", [None, 3])
def test_tiles(file, tile, planes):
    x = X.astype("i2") if planes is None else np.stack([X] * planes).astype("i2")
    tile = tile if planes is None else (1, *tile)
    made(file, fits.CompImageHDU(x, tile_shape=tile, name="SCI"))
    agrees(file, "SCI")


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "i8", "f4", "f8", "u2", "u4", "u8", "i1"])
@pytest.mark.parametrize("is_first", [True, False])
def test_types(file, dtype, is_first):
    x = X.astype(dtype)
    made(file, fits.PrimaryHDU(x) if is_first else fits.ImageHDU(x))
    agrees(file)


@pytest.mark.parametrize("shape", [(5,), (2, 1, 3, 4), (1,), (1, 1), (2, 3, 4, 1, 2)], ids=str)
def test_shapes(file, shape):
    made(file, fits.PrimaryHDU(np.arange(np.prod(shape), dtype="i2").reshape(shape)))
    assert agrees(file).shape == shape


@pytest.mark.parametrize(("bscale", "bzero"), [(0.1, 50), (2, 0), (1, 100), (-0.5, 3)])
def test_scaled_numbers(file, bscale, bzero):
    image = fits.PrimaryHDU((X * bscale + bzero).astype("f8"))
    image.scale("int16", bscale=bscale, bzero=bzero)
    made(file, image)
    want = fits.getdata(file)
    a = xa.from_fits(file, mask_and_scale=True)
    np.testing.assert_allclose(a[...], want, rtol=1e-6)
    packed = xa.from_fits(file)
    assert packed.dtype == ">i2" and packed.attrs.get("BSCALE", 1) == pytest.approx(bscale)
    xa.to_fits(packed, file.with_name("copy.fits"))
    np.testing.assert_array_equal(fits.getdata(file.with_name("copy.fits")), want)


def test_sums_of_a_file_are_left_behind(file):
    """The checksums belong to another header and other bytes."""
    made(file, fits.PrimaryHDU(X.astype("i2")), checksum=True)
    assert "CHECKSUM" in fits.getheader(file)
    agrees(file)
    with fits.open(file.with_name("copy.fits"), checksum=True) as f:
        assert "CHECKSUM" not in f[0].header or f[0].verify_checksum() == 1


def test_extensions_of_one_name(file):
    units = [fits.ImageHDU(X * (j + 1), name="SCI", ver=j + 1) for j in range(3)]
    fits.HDUList([fits.PrimaryHDU(), *units]).writeto(file)
    for j in (1, 2, 3):
        assert same_values(xa.from_fits(file, j)[...].astype("i8"), X * j)
    assert same_values(xa.from_fits(file, "SCI")[...].astype("i8"), X)
    assert xa.from_fits(file, 3).attrs["EXTVER"] == 3


def test_what_has_no_image(file):
    columns = [fits.Column("a", "J", array=np.arange(3))]
    fits.HDUList([fits.PrimaryHDU(), fits.BinTableHDU.from_columns(columns)]).writeto(file)
    with pytest.raises(xa.VariableError, match="it has none"):
        xa.from_fits(file)
    groups = fits.GroupData(np.zeros((2, 3, 4), "f4"), bitpix=-32, parnames=["A"], pardata=[[0, 1]])
    fits.HDUList([fits.GroupsHDU(groups)]).writeto(file, overwrite=True)
    with pytest.raises(xa.VariableError, match="it has none"):
        xa.from_fits(file)


CARDS = {
    "LONGTEXT": "y" * 200,
    "FLT": 1e300,
    "BIG": 2**40,
    "DATE-OBS": "2020-01-01T00:00:00",
    "BOOL": True,
    "APOS": "it's ''",
    "HIERARCH ESO A B": 3.5,
    "SMALL": -1e-300,
    "ZERO": 0.0,
    "EMPTY": "",
}


@pytest.mark.parametrize(("name", "value"), CARDS.items(), ids=CARDS)
def test_cards(file, name, value):
    image = fits.PrimaryHDU(X.astype("i2"))
    image.header[name] = (value, "a comment")
    made(file, image)
    key = name.removeprefix("HIERARCH ")
    a = agrees(file)
    assert a.attrs[key] == value and type(a.attrs[key]) is type(value)
    header = fits.getheader(file.with_name("copy.fits"))
    assert header[key] == value and header.comments[key] == image.header.comments[key]


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zip"])
def test_files_that_are_packed_as_a_whole(file, kind):
    made(file, fits.PrimaryHDU(X.astype("i2")))
    whole = file.with_name(f"file.fits.{kind}")
    if kind == "zip":
        with zipfile.ZipFile(whole, "w") as archive:
            archive.writestr("a.fits", file.read_bytes())
    else:
        pack = {"gz": gzip, "bz2": bz2, "xz": lzma}[kind].compress
        whole.write_bytes(pack(file.read_bytes()))
    assert same_values(xa.from_fits(whole)[...].astype("i2"), X.astype("i2"))


@pytest.mark.filterwarnings("ignore::astropy.utils.exceptions.AstropyUserWarning")
def test_files_that_are_too_short(file):
    made(file, fits.PrimaryHDU(X.astype("i2")))
    data, head = file.read_bytes(), 2880
    file.write_bytes(data[: head + 2 * X.size])  # all elements, without the padding behind them
    assert same_values(xa.from_fits(file)[...].astype("i2"), X.astype("i2"))
    for n in (head + 2 * X.size - 1, head + 100, head, head - 80, 100, 0):
        file.write_bytes(data[:n])
        with pytest.raises(xa.ExtArrayError):
            xa.from_fits(file)
