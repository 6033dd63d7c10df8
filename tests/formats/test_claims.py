"""Files that claim to be larger than they are: refused, or read in bounded time and memory."""

from __future__ import annotations

import os
import struct
import tracemalloc

import numpy as np
import pytest

import extarray as xa
from extarray import cli

SHAPE = 4096, 4096  # 16 MiB, almost none of which is written


def hdf5(path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as f:
        f.create_dataset("level", SHAPE, "u1", chunks=(256, 256), compression=1)[0, 0] = 7
    return xa.from_hdf5, (path, "level")


def hdf5_group(path):
    """Make a file of arrays, no single one of which is too large."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as f:
        for name in "ab":
            f.create_dataset(name, (2048, 4096), "u1", chunks=(256, 256))
    return xa.from_hdf5, (path,)


def hdf5_texts(path):
    """Make a file of texts, all of which must be read to find the longest."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as f:
        f.create_dataset("level", SHAPE, h5py.string_dtype(), chunks=(256, 256))
    return lambda *args, **kw: xa.from_hdf5(*args, text="S1", **kw), (path, "level")


def mapped_hdf5(path):
    return xa.map_hdf5, hdf5(path)[1]


def netcdf(path):
    nc = pytest.importorskip("netCDF4")
    with nc.Dataset(path, "w") as f:
        for name, n in zip("yx", SHAPE, strict=True):
            f.createDimension(name, n)
        f.createVariable("level", "u1", ("y", "x"), chunksizes=(256, 256), fill_value=0, zlib=True)[
            0, 0
        ] = 7
    return xa.from_netcdf, (path, "level")


def zarr(path):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(str(path), shape=SHAPE, dtype="u1", chunks=(256, 256))[0, 0] = 7
    return xa.from_zarr, (str(path),)


def geotiff(path):
    rasterio = pytest.importorskip("rasterio")
    options = {"tiled": True, "blockxsize": 256, "blockysize": 256, "sparse_ok": True}
    with rasterio.open(
        path,
        "w",
        "GTiff",
        *SHAPE,
        1,
        dtype="uint8",
        transform=rasterio.Affine(2, 0, 0, 0, 2, 0),
        **options,
    ):
        pass
    return xa.from_geotiff, (path,)


def pages(path):
    tifffile = pytest.importorskip("tifffile")
    tiles = (np.zeros((256, 256), "u1") if j == 0 else None for j in range(256))
    options = {"shape": SHAPE, "dtype": "u1", "tile": (256, 256), "compression": "zlib"}
    tifffile.imwrite(path, tiles, **options)
    return xa.from_tiff, (path,)


FORMATS = [hdf5, hdf5_group, hdf5_texts, mapped_hdf5, netcdf, zarr, geotiff, pages]


@pytest.mark.slow
@pytest.mark.parametrize("make", FORMATS)
def test_a_file_that_says_it_is_much_larger(make, tmp_path):
    path, target = tmp_path / f"file.{make.__name__}", tmp_path / "array"
    read, names = make(path)
    with (
        xa.config.set(max_result="15 MiB"),
        pytest.raises(xa.ResultError, match=r"would become 16.0 MiB.* with max_result=") as caught,
    ):
        read(*names, path=target, sparse=False)
    assert str(path) in str(caught.value) or make is hdf5_texts
    assert sorted(os.listdir(tmp_path)) == [path.name], "nothing is left"
    for allowed in ({"max_result": "16 MiB"}, {}):  # by the argument, then by the setting
        with xa.config.set(max_result="15 MiB" if allowed else "16 MiB"):
            made = read(*names, path=target, sparse=False, overwrite=True, **allowed)
        array = made["b"] if make is hdf5_group else made
        assert array.shape[-2:] == (SHAPE if make is not hdf5_group else (2048, 4096))
        assert not array[..., 1:].any()
        made.close()


@pytest.mark.slow
@pytest.mark.parametrize("make", [hdf5, hdf5_group, mapped_hdf5, netcdf, zarr, pages])
def test_holes_that_stay_holes_are_no_claim(make, tmp_path):
    """The array takes space for one box, of at most 4 MiB."""
    read, names = make(tmp_path / "file")
    with xa.config.set(max_result="5 MiB"):
        made = read(*names, path=tmp_path / "array")
    array = made["b"] if make is hdf5_group else made
    assert array.info()["sparse"]
    assert array[0, 0] == (0 if make in (hdf5_group, pages) else 7)
    assert not array[..., 1:].any()
    made.close()


def test_holes_of_another_value_are_a_claim(tmp_path):
    """The array would have its fill value written everywhere."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "file.h5", "w") as f:
        f.create_dataset("level", SHAPE, "u1", chunks=(256, 256), fillvalue=3)
    with (
        xa.config.set(max_result="5 MiB"),
        pytest.raises(xa.ResultError, match=r"would become 16.0 MiB"),
    ):
        xa.from_hdf5(tmp_path / "file.h5", "level", path=tmp_path / "array")


def test_what_a_file_has_is_the_sum_of_its_arrays(tmp_path):
    """The size of the whole file vouches for both arrays, not that of the small one alone."""
    h5py = pytest.importorskip("h5py")
    noise = np.random.default_rng(1).integers(0, 255, (1024, 1024), "u1")
    with h5py.File(tmp_path / "file.h5", "w") as f:
        f["large"] = noise
        f["small"] = np.arange(3)
    with (
        xa.config.set(max_result="100 KiB"),
        xa.from_hdf5(tmp_path / "file.h5", path=tmp_path / "group") as group,
    ):
        assert (group["large"][...] == noise).all() and group["small"][...].tolist() == [0, 1, 2]


def test_variables_of_netcdf_share_the_bytes_of_their_file(tmp_path):
    nc = pytest.importorskip("netCDF4")
    with nc.Dataset(tmp_path / "file.nc", "w") as f:
        f.createDimension("x", 1 << 21)
        for name in "abcd":
            f.createVariable(name, "u1", ("x",), chunksizes=(1 << 16,), fill_value=0)
    size = 1000 * os.path.getsize(tmp_path / "file.nc")
    assert size < 8 << 20 < 4 * size
    with (
        xa.config.set(max_result="1 MiB"),
        pytest.raises(xa.ResultError, match="would become 8.0 MiB"),
    ):
        xa.from_netcdf(tmp_path / "file.nc", path=tmp_path / "group", sparse=False)


def test_a_virtual_dataset_has_the_bytes_of_its_sources(tmp_path):
    h5py = pytest.importorskip("h5py")
    whole = h5py.VirtualLayout((2, 4096, 1024), "u1")
    rng = np.random.default_rng(1)
    for j in range(2):
        with h5py.File(tmp_path / f"part{j}.h5", "w") as f:
            f["x"] = rng.integers(0, 255, (4096, 1024), "u1")
        whole[j] = h5py.VirtualSource(f"part{j}.h5", "x", (4096, 1024))
    with h5py.File(tmp_path / "whole.h5", "w") as f:
        f.create_virtual_dataset("x", whole)
    assert os.path.getsize(tmp_path / "whole.h5") < 8192 * 1024 // 1000 * 2
    with xa.config.set(max_result="1 MiB"):
        assert xa.from_hdf5(tmp_path / "whole.h5", "x").shape == (2, 4096, 1024)
    for j in range(2):
        (tmp_path / f"part{j}.h5").unlink()
    with xa.config.set(max_result="1 MiB"), pytest.raises(xa.ResultError, match="would become"):
        xa.from_hdf5(tmp_path / "whole.h5", "x")


def test_the_command(tmp_path, capsys):
    _, (path, name) = hdf5(tmp_path / "file.h5")
    words = ["import", f"{path}:/{name}", str(tmp_path / "array")]
    with xa.config.set(max_result="1 MiB"):
        assert cli.main(words) == 1
        assert "would become 4.0 MiB" in capsys.readouterr().err
        assert cli.main([*words, "--no-sparse"]) == 1
        assert "would become 16.0 MiB" in capsys.readouterr().err
        assert cli.main([*words, "--no-sparse", "--max-result", "16 MiB"]) == 0
        with xa.create(tmp_path / "grown", (0, 4096), "u1", chunks=(256, 256)):
            pass
        assert cli.main(["append", str(tmp_path / "grown"), f"{path}:/{name}"]) == 1
        assert "would become 16.0 MiB" in capsys.readouterr().err


def test_what_is_compressed_well_is_no_claim(tmp_path):
    """The file stores its zeros, compressed to a thousandth."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "file.h5", "w") as f:
        f.create_dataset("level", data=np.zeros(SHAPE, "u1"), chunks=(1024, 1024), compression=1)
    with xa.config.set(max_result=1):
        assert xa.from_hdf5(tmp_path / "file.h5", "level").shape == SHAPE


# -- coordinates -----------------------------------------------------------------------------------


def test_coordinates_of_hdf5_that_nobody_could_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    n = 1 << 40
    with h5py.File(tmp_path / "file.h5", "w") as f:
        f.create_dataset("x", (n,), "f8", chunks=(1024,)).make_scale("x")
        f.create_dataset("text", (4,), f"S{1 << 30}", chunks=(1,)).make_scale("text")
        f.create_dataset("level", (4, n), "f4", chunks=(1, 1024))
        f["level"].dims[1].attach_scale(f["x"])
        f["level"].dims[0].attach_scale(f["text"])
        f["small"] = np.arange(4)
        f["small"].dims[0].attach_scale(f["text"])
    with pytest.warns(xa.LossyWarning, match="coordinate 'text' .4 elements, too many") as told:
        assert xa.from_hdf5(tmp_path / "file.h5", "small")[...].tolist() == [0, 1, 2, 3]
    assert len(told) == 1
    for options in ({"sparse": False}, {}):  # skipping the holes one by one would take hours
        with (
            xa.config.set(max_result="1 GiB"),
            pytest.raises(xa.ResultError, match="would become 16.0 TiB"),
        ):
            xa.from_hdf5(tmp_path / "file.h5", "level", **options)


def test_coordinates_of_netcdf_that_nobody_could_read(tmp_path):
    nc = pytest.importorskip("netCDF4")
    with nc.Dataset(tmp_path / "file.nc", "w") as f:
        for name, n in (("y", 4), ("x", 1 << 40), ("chars", 1 << 40)):
            f.createDimension(name, n)
        f.createVariable("level", "f4", ("y",))[...] = [1, 2, 3, 4]
        f["level"].coordinates = "far name near"
        f.createVariable("far", "f8", ("y", "x"), chunksizes=(1, 1024))
        f.createVariable("name", "S1", ("y", "chars"), chunksizes=(1, 1024))
        f.createVariable("near", "f8", ("y",))[...] = [5, 6, 7, 8]
    with pytest.warns(xa.LossyWarning, match=r"'far' .* too many.*'name' .4 elements, too many"):
        a = xa.from_netcdf(tmp_path / "file.nc", "level")
    assert a[...].tolist() == [1, 2, 3, 4]
    assert list(a.attrs["coords"]) == ["near"]
    assert "coordinates" not in a.attrs


# -- TIFF ----------------------------------------------------------------------------------------


def tiff(path, bands, size=4096, offset=8, order="<"):
    """Write a file whose bands have one element each, stored one after another."""
    short, long = (lambda tag, n: (tag, 3, n)), (lambda tag, n: (tag, 4, n))
    tags = [
        short(256, 1),
        short(257, 1),
        short(258, 8),
        short(259, 1),
        short(262, 1),
        long(273, offset),
        short(277, bands),
        short(278, 1),
        long(279, bands),
        short(284, 1),
    ]
    data = struct.pack(f"{order}2sHIH", b"II" if order == "<" else b"MM", 42, 8, len(tags))
    for tag, kind, n in tags:
        data += struct.pack(f"{order}HHI{'H2x' if kind == 3 else 'I'}", tag, kind, 1, n)
    path.write_bytes((data + bytes(4)).ljust(size, b"\1"))


@pytest.mark.slow
@pytest.mark.parametrize("order", "<>")
def test_a_tiff_of_4_kb_that_says_it_has_65281_bands(tmp_path, order):
    """GDAL would try to read each band."""
    pytest.importorskip("rasterio")
    tiff(tmp_path / "file.tif", 65281, order=order)
    with pytest.raises(xa.FormatError, match=r"4096 bytes, but .* 65289"):
        xa.from_geotiff(tmp_path / "file.tif")
    pytest.importorskip("tifffile")
    with pytest.raises(xa.FormatError, match=r"4088 bytes of elements, but .* 65281"):
        xa.from_tiff(tmp_path / "file.tif")


@pytest.mark.slow
@pytest.mark.parametrize("order", "<>")
def test_a_tiff_that_has_so_many_bands(tmp_path, order):
    pytest.importorskip("rasterio")
    tiff(tmp_path / "file.tif", 20_000, 40_000, 20_000, order)
    assert (xa.from_geotiff(tmp_path / "file.tif")[...] == np.ones((20_000, 1, 1), "u1")).all()


def test_a_tag_that_says_it_is_longer_than_the_file(tmp_path):
    pytest.importorskip("rasterio")
    tiff(tmp_path / "file.tif", 2)
    data = bytearray((tmp_path / "file.tif").read_bytes())
    at = data.index(struct.pack("<HHI", 273, 4, 1))
    struct.pack_into("<I", data, at + 4, 1 << 29)
    (tmp_path / "file.tif").write_bytes(data)
    tracemalloc.start()
    try:
        for read in (xa.from_geotiff, xa.from_tiff):
            with pytest.raises((xa.FormatError, xa.MissingExtraError)):
                read(tmp_path / "file.tif")
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
