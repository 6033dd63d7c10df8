"""Import and export of other formats beside the libraries' own copies of the same bytes.

    python benchmarks/formats.py [--mib 256] [--rounds 5] [--folder DIR] [FORMAT ...]

For each format a file becomes an array in files, and an array becomes such a file.  Two copies of
the same bytes stand beside them: one by the format's own library, from file to file in its best
way, and our copy of the array.  The figures are the shortest times, which other work on the machine
disturbs least.  The first ratio is the time of the faster copy over ours, the second that of the
library's own copy: 1 is as fast, and less is slower.

The four take turns under the same conditions.  Each opens its source by name and closes it, so that
the pages of a mapping are found again each time; the source is in the page cache.  Each creates a
new file: the file of the one before is removed, untimed.  None waits for the disk, as `flush`
would.  They differ in how they work.  Our copy, import and export reserve the whole file before the
first element (the other libraries do not), and use ``config.threads`` threads; HDF5, netCDF, SciPy
and astropy copy with one thread, GDAL and zarr with as many as they choose.  HDF5 and GDAL copy
with their own calls; netCDF4, zarr, SciPy, spectral and NumPy copy through an array in memory, or a
mapping, as their users do.  Two smaller levels of OME-Zarr are written, too, by means of 2 by 2
elements; ome-zarr goes through dask.  If the file has chunks or tiles, they match the array's.  A
file in another order is a transposition, which our copy is not: ``.mat`` has Fortran order, and the
elements of ``.npy``, FITS, TIFF and ENVI pass through chunks that our copy moves unchanged.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import extarray as xa

CHUNKS = (64, 64, 64)


class Bench:
    """Files of one cube, in a folder.

    Parameters
    ----------
    folder : Path
    mib : int
        MiB of the cube, whose side is rounded to a multiple of 64.
    """

    def __init__(self, folder: Path, mib: int) -> None:
        self.folder, self.made = folder, folder / "made"
        side = 64 * max(1, round((mib << 17) ** (1 / 3) / 64))
        self.x = np.random.default_rng(0).random((side, side, side))
        self.path = folder / "array"
        with xa.create(self.path, self.x.shape, self.x.dtype, chunks=CHUNKS) as a:
            a[...] = self.x

    def clear(self) -> None:
        """Remove the files made so far."""
        shutil.rmtree(self.made, ignore_errors=True)
        self.made.mkdir()

    def our_copy(self) -> None:
        with xa.open(self.path) as a:
            a.copy(self.made / "copy").close()

    def read(self, load: Callable[..., Any], *names: Any, **options: Any) -> None:
        load(*names, path=self.made / "loaded", progress=False, **options).close()

    def write(self, save: Callable[..., Any], *names: Any, **options: Any) -> None:
        with xa.open(self.path) as a:
            save(a, *names, progress=False, **options)


def _npy(b: Bench) -> tuple[Callable[[], Any], ...]:
    file = b.folder / "cube.npy"
    np.save(file, b.x)

    def copy() -> None:
        np.save(b.made / "copy.npy", np.load(file, mmap_mode="r"))

    return (
        copy,
        lambda: b.read(xa.from_npy, file, chunks=CHUNKS),
        lambda: b.write(xa.to_npy, b.made / "saved.npy"),
    )


def _hdf5(b: Bench, chunks: tuple[int, ...] | None) -> tuple[Callable[[], Any], ...]:
    import h5py

    file = b.folder / f"cube-{chunks is None}.h5"
    with h5py.File(file, "w") as f:
        f.create_dataset("x", data=b.x, chunks=chunks)

    def copy() -> None:
        with h5py.File(file) as f, h5py.File(b.made / "copy.h5", "w") as g:
            f.copy("x", g)

    return (
        copy,
        lambda: b.read(xa.from_hdf5, file, "x", chunks=CHUNKS),
        lambda: b.write(xa.to_hdf5, b.made / "saved.h5", "x"),
    )


def _netcdf(b: Bench) -> tuple[Callable[[], Any], ...]:
    import netCDF4

    def write(path: Path, values: Any) -> None:
        with netCDF4.Dataset(path, "w") as d:
            for name, n in zip("zyx", b.x.shape, strict=True):
                d.createDimension(name, n)
            v = d.createVariable("v", "f8", tuple("zyx"), chunksizes=CHUNKS)
            v[...] = values

    file = b.folder / "cube.nc"
    write(file, b.x)

    def copy() -> None:
        with netCDF4.Dataset(file) as d:
            write(b.made / "copy.nc", d["v"][...])

    return (
        copy,
        lambda: b.read(xa.from_netcdf, file, "v"),
        lambda: b.write(xa.to_netcdf, b.made / "saved.nc", "v"),
    )


def _zarr(b: Bench) -> tuple[Callable[[], Any], ...]:
    import zarr

    def write(path: Path, values: Any) -> None:
        z = zarr.create_array(
            path, shape=b.x.shape, dtype=b.x.dtype, chunks=CHUNKS, compressors=None
        )
        z[...] = values

    file = b.folder / "cube.zarr"
    write(file, b.x)

    def copy() -> None:
        write(b.made / "copy.zarr", zarr.open(file)[...])

    return (
        copy,
        lambda: b.read(xa.from_zarr, file),
        lambda: b.write(xa.to_zarr, b.made / "saved.zarr", compressors=None),
    )


def _fits(b: Bench) -> tuple[Callable[[], Any], ...]:
    from astropy.io import fits

    file = b.folder / "cube.fits"
    fits.PrimaryHDU(b.x).writeto(file)

    def copy() -> None:
        with fits.open(file) as f:
            f.writeto(b.made / "copy.fits")

    return (
        copy,
        lambda: b.read(xa.from_fits, file, chunks=CHUNKS),
        lambda: b.write(xa.to_fits, b.made / "saved.fits"),
    )


def _envi(b: Bench) -> tuple[Callable[[], Any], ...]:
    import spectral

    file = b.folder / "cube.hdr"
    b.write(xa.to_envi, file, interleave="bip")

    def copy() -> None:
        values = spectral.envi.open(file).open_memmap(interleave="bip")
        target = b.made / "copy.hdr"
        spectral.envi.save_image(str(target), values, interleave="bip", dtype=values.dtype)

    return (
        copy,
        lambda: b.read(xa.from_envi, file, chunks=CHUNKS),
        lambda: b.write(xa.to_envi, b.made / "saved.hdr", interleave="bip"),
    )


def _geotiff(b: Bench) -> tuple[Callable[[], Any], ...]:
    import rasterio.shutil

    file = b.folder / "cube.tif"
    place = {"crs": "EPSG:4326", "transform": [1.0, 0.0, 0.0, 0.0, -1.0, 0.0]}
    with xa.open(b.path, "r+") as a:
        a.attrs.update(place)
    b.write(xa.to_geotiff, file)
    options = {"tiled": True, "blockxsize": 64, "blockysize": 64, "interleave": "band"}

    def copy() -> None:
        rasterio.shutil.copy(file, b.made / "copy.tif", driver="GTiff", **options)

    return (
        copy,
        lambda: b.read(xa.from_geotiff, file, chunks=CHUNKS),
        lambda: b.write(xa.to_geotiff, b.made / "saved.tif"),
    )


def _tiff(b: Bench) -> tuple[Callable[[], Any], ...]:
    import tifffile

    file = b.folder / "cube.tif"
    tifffile.imwrite(file, b.x, photometric="minisblack")

    def copy() -> None:
        values = tifffile.memmap(file, mode="r")
        tifffile.imwrite(b.made / "copy.tif", values, photometric="minisblack")

    return (
        copy,
        lambda: b.read(xa.from_tiff, file, chunks=CHUNKS),
        lambda: b.write(xa.to_tiff, b.made / "saved.tif"),
    )


def _ome_zarr(b: Bench) -> tuple[Callable[[], Any], ...]:
    import dask.array as da
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of its own
        from ome_zarr.scale import Methods
        from ome_zarr.writer import write_image

    file = b.folder / "cube.ome.zarr"
    b.write(xa.to_ome_zarr, file, levels=2, compressors=None)

    def copy() -> None:
        values = da.from_zarr(str(file), "0")
        group = zarr.open_group(b.made / "copy.ome.zarr", mode="w", zarr_format=3)
        options = {"chunks": CHUNKS, "compressors": None}
        how = {"scale_factors": [2, 4], "method": Methods.LOCAL_MEAN}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write_image(values, group, axes="zyx", storage_options=options, **how)

    return (
        copy,
        lambda: b.read(xa.from_ome_zarr, file),
        lambda: b.write(xa.to_ome_zarr, b.made / "saved.ome.zarr", levels=2, compressors=None),
    )


def _mat(b: Bench) -> tuple[Callable[[], Any], ...]:
    import scipy.io

    file = b.folder / "cube.mat"
    scipy.io.savemat(file, {"x": b.x})

    def copy() -> None:
        scipy.io.savemat(b.made / "copy.mat", {"x": scipy.io.loadmat(file)["x"]})

    return (
        copy,
        lambda: b.read(xa.from_mat, file, chunks=CHUNKS),
        lambda: b.write(xa.to_mat, b.made / "saved.mat", "x"),
    )


#: For each name: the required module, and a maker of the copy, the import and the export.
FORMATS: dict[str, tuple[str, Callable[[Bench], tuple[Callable[[], Any], ...]]]] = {
    "npy": ("numpy", _npy),
    "hdf5": ("h5py", lambda b: _hdf5(b, None)),
    "hdf5-chunks": ("h5py", lambda b: _hdf5(b, CHUNKS)),
    "netcdf": ("netCDF4", _netcdf),
    "zarr": ("zarr", _zarr),
    "fits": ("astropy", _fits),
    "envi": ("spectral", _envi),
    "geotiff": ("rasterio", _geotiff),
    "tiff": ("tifffile", _tiff),
    "ome-zarr": ("ome_zarr", _ome_zarr),
    "mat": ("scipy", _mat),
}


def measure(b: Bench, calls: tuple[Callable[[], Any], ...], rounds: int) -> list[float]:
    """Return the shortest time of each call in seconds; calls take turns."""
    times: list[list[float]] = [[] for _ in calls]
    for each in range(rounds + 1):
        for call, own in zip(calls, times, strict=True):
            b.clear()
            start = time.perf_counter()
            call()
            if each:  # the first round warms the cache
                own.append(time.perf_counter() - start)
    return [min(own) for own in times]


def main(argv: list[str] | None = None) -> None:
    """Measure the requested formats, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("formats", nargs="*", metavar="FORMAT", default=[])
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args(argv)
    unknown = set(asked.formats) - set(FORMATS)
    if unknown:
        parser.error(f"no such format: {', '.join(sorted(unknown))}")
    print(
        f"{'format':12} {'library':>8} {'ours':>8} "
        f"{'import':>8} {'ratio':>6} {'lib.':>6} {'export':>8} {'ratio':>6} {'lib.':>6}"
    )
    for name in asked.formats or FORMATS:
        module, make = FORMATS[name]
        if find_spec(module) is None:
            print(f"{name:12} {module} is not installed")
            continue
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            bench = Bench(Path(folder), asked.mib)
            copy, load, save = make(bench)
            theirs, ours, imports, exports = measure(
                bench, (copy, bench.our_copy, load, save), asked.rounds
            )
        best = min(theirs, ours)
        print(
            f"{name:12} {theirs:8.3f} {ours:8.3f} "
            f"{imports:8.3f} {best / imports:6.2f} {theirs / imports:6.2f} "
            f"{exports:8.3f} {best / exports:6.2f} {theirs / exports:6.2f}"
        )


if __name__ == "__main__":
    main()
