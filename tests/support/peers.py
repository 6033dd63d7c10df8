"""File formats, and other libraries that read and write them, for tests to compare.

A `Peer` is an entry of `PEERS`; `tests/formats/test_every_format.py` runs the same checks on each.
"""

from __future__ import annotations

import contextlib
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

import extarray as xa

__all__ = ["PEERS", "Peer"]

_NUMBERS = ["i4", "u1", ">f8", ">u2", "f4", "i8"]


@dataclass(frozen=True)
class Peer:
    """A format, and another library for it.

    Parameters
    ----------
    name : str
        Name of the format.
    write, read : callable
        ``write(file, x)``, ``read(file, x)`` of the other library; `x` is an array with the
        expected shape and dtype.
    load, save : callable
        ``load(file, x, **options)`` and ``save(a, file, **options)``: ours, with whatever they need
        besides the file.
    suffix : str
    dtypes : list
        Supported by the format, bit for bit.
    ranks : sequence of int
        Supported numbers of axes.
    empty : bool
        Whether extents may be 0.
    keeps : set of str
        Stored besides elements: "attrs" (as text), "numbers" (attributes keep their types, too),
        "dims", "coords", "fill_value".
    needs : str
        Module of the library; "" for NumPy.
    is_tough : bool
        Whether the library survives files with damaged headers: netCDF's and SciPy's do not.
    streams : bool
        Whether the library takes pieces: SciPy has a whole matrix in memory.
    signed_zeros : bool
        Whether zeros keep their signs: GDAL takes a block of zeros, of either sign, for one
        that was never written.
    """

    name: str
    write: Callable[..., Any]
    read: Callable[..., Any]
    load: Callable[..., Any]
    save: Callable[..., Any]
    suffix: str
    dtypes: list[Any] = field(default_factory=lambda: list(_NUMBERS))
    ranks: tuple[int, ...] = (0, 1, 2, 3, 4)
    empty: bool = True
    keeps: frozenset[str] = frozenset()
    needs: str = ""
    is_tough: bool = True
    streams: bool = True
    signed_zeros: bool = True

    @property
    def is_there(self) -> bool:
        return not self.needs or find_spec(self.needs) is not None

    def shape(self, *extents: int) -> tuple[int, ...]:
        """Return extents for a table, with an axis of 1 added if the format has no tables."""
        return extents if len(extents) in self.ranks else (*extents, 1)

    def __repr__(self) -> str:
        return self.name


def _load_npz(file):
    with np.load(file) as there:
        assert there.files == ["arr_0"]
        return there["arr_0"]


def _pieces(shape):
    return tuple(max(1, n // 2) for n in shape)


def _write_hdf5(file, x, **options):
    import h5py

    kind = h5py.opaque_dtype(x.dtype) if x.dtype.kind in "Mm" else x.dtype
    with h5py.File(file, "w") as f:
        f.create_dataset("level", data=x.astype(kind), **options)


def _read_hdf5(file, x):
    import h5py

    with h5py.File(file, "r") as f:
        read = f["level"][()] if f["level"].shape else np.array(f["level"][()], f["level"].dtype)
    if x.dtype.kind == "U":
        return np.char.decode(read, "utf-8").astype(x.dtype)
    return read.view(x.dtype) if read.dtype.metadata else read


def _write_netcdf(file, x, growing=False, **options):
    import netCDF4

    with netCDF4.Dataset(file, "w", **options) as d:
        dims = [f"d{j}" for j in range(x.ndim)]
        for j, (name, n) in enumerate(zip(dims, x.shape, strict=True)):
            d.createDimension(name, None if growing and j == 0 else n)
        endian = {">": "big", "<": "little"}.get(x.dtype.byteorder, "native")
        v = d.createVariable("level", x.dtype, dims, endian=endian)
        if x.size:
            v[...] = x


def _read_netcdf(file, x):
    import netCDF4

    with netCDF4.Dataset(file) as d:
        d.set_auto_mask(False)
        return np.asarray(d["level"][...]).astype(d["level"].dtype)


def _write_fits(file, x):
    from astropy.io import fits

    fits.PrimaryHDU(x).writeto(file)


def _read_fits(file, x, hdu=0):
    from astropy.io import fits

    read = fits.getdata(file, hdu)
    # Unsigned integers arrive in native byte order.
    return read.astype(x.dtype) if x.dtype.kind == "u" or x.dtype == "i1" else read


def _read_envi(file, x):
    import spectral

    image = spectral.envi.open(file)
    return np.asarray(image.open_memmap(interleave="bip"))


def _write_envi(file, x, interleave):
    import spectral

    options = {"byteorder": int(x.dtype.byteorder == ">"), "dtype": x.dtype}
    with warnings.catch_warnings():
        # It asks for a buffer as large as a band; a size of one byte means line buffering.
        warnings.filterwarnings("ignore", "line buffering", RuntimeWarning)
        spectral.envi.save_image(str(file), x, interleave=interleave, **options)


def _write_geotiff(file, x, **options):
    import rasterio

    bands, rows, columns = x.shape
    shape = {"count": bands, "height": rows, "width": columns, "dtype": x.dtype.name}
    with (
        quiet_georeference(),
        rasterio.open(file, "w", driver="GTiff", **shape, **options) as f,
    ):
        f.write(x)


def _read_geotiff(file, x):
    import rasterio

    with quiet_georeference(), rasterio.open(file) as f:
        return f.read().reshape(x.shape)


@contextlib.contextmanager
def quiet_georeference():
    """Let rasterio open files without a georeference."""
    from rasterio.errors import NotGeoreferencedWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


def _write_tiff(file, x, **options):
    import tifffile

    tifffile.imwrite(file, x, photometric="minisblack", **options)


def _read_tiff(file, x):
    import tifffile

    return tifffile.imread(file)


def _write_zarr(file, x, name=None, **options):
    import zarr

    shutil.rmtree(file, ignore_errors=True)
    options.setdefault("chunks", _pieces(x.shape))
    array = zarr.create_array(file, name=name, shape=x.shape, dtype=x.dtype, **options)
    array[...] = x


def _read_zarr(file, x, name=""):
    import zarr

    # Without axes, zarr gives a scalar in native byte order.
    return np.asarray(zarr.open(file, path=name)[...], x.dtype if x.ndim == 0 else None)


def _write_ome_zarr(file, x):
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of its own
        from ome_zarr.writer import write_multiscales_metadata
    shutil.rmtree(file, ignore_errors=True)
    group = zarr.open_group(file, mode="w", zarr_format=3)
    axes = "tczyx"[-x.ndim :] if x.ndim != 4 else "czyx"
    options = {"chunks": _pieces(x.shape), "dimension_names": tuple(axes)}
    group.create_array("s0", shape=x.shape, dtype=x.dtype, **options)[...] = x
    place = [[{"type": "scale", "scale": [1.0] * x.ndim}]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_multiscales_metadata(
            group, [{"path": "s0", "coordinateTransformations": place[0]}], axes=axes
        )


def _read_ome_zarr(file, x):
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    (node,) = Reader(parse_url(file))()
    return np.asarray(node.data[0])


def _write_mat(file, x, **options):
    import scipy.io

    scipy.io.savemat(file, {"level": x}, **options)


def _read_mat(file, x):
    import scipy.io

    read = scipy.io.loadmat(file)["level"]
    return read.astype(bool) if x.dtype.kind == "b" else read  # logical arrays are "uint8" there


def _write_mat73(file, x):
    import h5py

    names = {"f": {8: "double", 4: "single"}, "i": {}, "u": {}}
    for n in (1, 2, 4, 8):
        names["i"][n], names["u"][n] = f"int{8 * n}", f"uint{8 * n}"
    with h5py.File(file, "w", userblock_size=512) as f:
        if x.dtype.kind == "c":
            part = f"f{x.itemsize // 2}"
            values = np.empty(x.shape, [("real", part), ("imag", part)])
            values["real"], values["imag"] = x.real, x.imag
            said = names["f"][x.itemsize // 2]
        else:
            values, said = x, names[x.dtype.kind][x.itemsize]
        f["level"] = values.T
        f["level"].attrs["MATLAB_class"] = np.bytes_(said)


def _read_mat73(file, x):
    import h5py

    with h5py.File(file) as f:
        values = f["level"][()].T
    if x.dtype.kind == "c":
        return (values["real"] + 1j * values["imag"]).astype(x.dtype)
    return values


_ALL = ["attrs", "numbers", "dims", "coords", "fill_value"]
_ANY = [
    *_NUMBERS,
    *["?", "c8", ">c16", "f2", "S3", "U2", "M8[s]", "m8[D]", "V5", "g"],
    [("x", "u1"), ("y", ">f4", (2,))],
]

PEERS = [
    Peer(
        "npy",
        lambda file, x: np.save(file, x),
        lambda file, x: np.load(file),
        lambda file, x, **options: xa.from_npy(file, **options),
        xa.to_npy,
        ".npy",
        _ANY,
    ),
    Peer(
        "npy in Fortran's order",
        lambda file, x: np.save(file, np.asarray(x, order="F")),
        lambda file, x: np.load(file),
        lambda file, x, **options: xa.from_npy(file, **options),
        lambda a, file, **options: xa.to_npy(a, file, order="F", **options),
        ".npy",
        _ANY,
    ),
    Peer(
        "npz",
        lambda file, x: np.savez(file, arr_0=x),
        lambda file, x: _load_npz(file),
        lambda file, x, **options: xa.from_npz(file, **options),
        xa.to_npz,
        ".npz",
        _ANY,
    ),
    Peer(
        "npz, compressed",
        lambda file, x: np.savez_compressed(file, arr_0=np.asarray(x, order="F")),
        lambda file, x: _load_npz(file),
        lambda file, x, **options: xa.from_npz(file, **options),
        lambda a, file, **options: xa.to_npz(a, file, compressed=True, **options),
        ".npz",
        _ANY,
    ),
    Peer(
        "hdf5",
        _write_hdf5,
        _read_hdf5,
        lambda file, x, **options: xa.from_hdf5(file, "level", **options),
        lambda a, file, **options: xa.to_hdf5(a, file, "level", **options),
        ".h5",
        [kind for kind in _ANY if kind != "U2"],
        keeps=frozenset(_ALL),
        needs="h5py",
    ),
    Peer(
        "hdf5, compressed",
        lambda file, x: _write_hdf5(
            file, x, **({"compression": "gzip", "chunks": _pieces(x.shape)} if x.size else {})
        ),
        _read_hdf5,
        lambda file, x, **options: xa.from_hdf5(file, "level", **options),
        lambda a, file, **options: xa.to_hdf5(
            a,
            file,
            "level",
            **options,
            **({"compression": "lzf", "shuffle": True} if a.ndim else {}),
        ),
        ".h5",
        [kind for kind in _ANY if kind != "U2"],
        ranks=(1, 2, 3, 4),
        keeps=frozenset(_ALL),
        needs="h5py",
    ),
    Peer(
        "netcdf",
        _write_netcdf,
        _read_netcdf,
        lambda file, x, **options: xa.from_netcdf(file, "level", **options),
        lambda a, file, **options: xa.to_netcdf(a, file, "level", **options),
        ".nc",
        keeps=frozenset(_ALL),
        needs="netCDF4",
        is_tough=False,
    ),
    Peer(
        "netcdf, version 3",
        lambda file, x: _write_netcdf(file, x, x.ndim > 0, format="NETCDF3_CLASSIC"),
        _read_netcdf,
        lambda file, x, **options: xa.from_netcdf(file, "level", **options),
        lambda a, file, **options: xa.to_netcdf(
            a, file, "level", format="NETCDF3_CLASSIC", **options
        ),
        ".nc",
        ["i4", "f4", "f8", "i2", "i1"],
        empty=False,
        keeps=frozenset(_ALL),
        needs="netCDF4",
        is_tough=False,
    ),
    Peer(
        "raw",
        lambda file, x: x.tofile(file),
        lambda file, x: np.fromfile(file, x.dtype).reshape(x.shape),
        lambda file, x, **options: xa.from_raw(file, x.shape, x.dtype, **options),
        xa.to_raw,
        ".raw",
        _ANY,
    ),
    Peer(
        "fits",
        _write_fits,
        _read_fits,
        lambda file, x, **options: xa.from_fits(file, **options),
        xa.to_fits,
        ".fits",
        [">i4", "u1", ">f4", ">f8", ">i2", ">i8", ">u2", ">u4", ">u8", "i1"],
        ranks=(1, 2, 3, 4),
        empty=False,
        keeps=frozenset(["fill_value"]),
        needs="astropy",
    ),
    Peer(
        "fits, an extension",
        _write_fits,
        lambda file, x: _read_fits(file, x, -1),
        lambda file, x, **options: xa.from_fits(file, **options),
        lambda a, file, **options: xa.to_fits(a, file, "level", **options),
        ".fits",
        [">i4", ">f4", ">u2"],
        ranks=(1, 2, 3),
        empty=False,
        keeps=frozenset(["fill_value"]),
        needs="astropy",
    ),
    *(
        Peer(
            f"envi, {interleave}",
            lambda file, x, interleave=interleave: _write_envi(file, x, interleave),
            _read_envi,
            lambda file, x, **options: xa.from_envi(file, **options),
            lambda a, file, interleave=interleave, **options: xa.to_envi(
                a, file, interleave=interleave, **options
            ),
            ".hdr",
            ["i4", "u1", ">f8", ">u2", "f4", "i8", "c8", "u4"],
            ranks=(3,),
            empty=False,
            keeps=frozenset(["attrs", "fill_value"]),
            needs="spectral",
        )
        for interleave in ("bsq", "bil", "bip")
    ),
    *(
        Peer(
            f"geotiff, {interleave}",
            lambda file, x, interleave=interleave: _write_geotiff(
                file, x, interleave=interleave, compress="deflate", blockysize=1
            ),
            _read_geotiff,
            lambda file, x, **options: xa.from_geotiff(file, **options),
            lambda a, file, interleave=interleave, **options: xa.to_geotiff(
                a, file, interleave=interleave, blockysize=1, **options
            ),
            ".tif",
            ["i4", "u1", "f4", "f8", "i2", "u2", "u4", "i8", "u8", "i1", "c8", "c16"],
            ranks=(3,),
            empty=False,
            keeps=frozenset(["attrs", "fill_value"]),
            needs="rasterio",
            signed_zeros=False,
        )
        for interleave in ("band", "pixel")
    ),
    *(
        Peer(
            name,
            lambda file, x, options=options: _write_tiff(file, x, **options),
            _read_tiff,
            lambda file, x, **options: xa.from_tiff(file, **options),
            lambda a, file, given=options, **options: xa.to_tiff(a, file, **given, **options),
            ".tif",
            dtypes.split(),
            ranks=ranks,
            empty=False,
            keeps=frozenset(["attrs", "dims"]),
            needs="tifffile",
        )
        for name, options, dtypes, ranks in (
            ("tiff", {}, "i4 u1 f8 u2 f4 i8 c8 c16 f2 i1 i2 u4 u8", (2, 3, 4)),
            ("tiff, compressed", {"compression": "zlib"}, "i4 u1 f8 u2 f4 ?", (2, 3, 4)),
            (
                "tiff, in tiles",
                {"tile": (16, 32), "compression": "lzw", "bigtiff": True},
                "f4 u1 c8",
                (2, 3, 4),
            ),
        )
    ),
    Peer(
        "zarr",
        _write_zarr,
        _read_zarr,
        lambda file, x, **options: xa.from_zarr(file, **options),
        xa.to_zarr,
        ".zarr",
        ["i4", "u1", "f8", "u2", "f4", "i8", "?", "c8", "f2"],
        keeps=frozenset(["attrs", "dims", "fill_value"]),
        needs="zarr",
    ),
    Peer(
        "zarr 2, in a group",
        lambda file, x: _write_zarr(file, x, "run/level", zarr_format=2),
        lambda file, x: _read_zarr(file, x, "run/level"),
        lambda file, x, **options: xa.from_zarr(file, "run/level", **options),
        lambda a, file, **options: xa.to_zarr(a, file, "run/level", zarr_format=2, **options),
        ".zarr",
        ["i4", "u1", ">f8", ">u2", "f4", "i8", "?", "c8", "f2", "S3", "M8[s]"],
        keeps=frozenset(["attrs", "dims", "fill_value"]),
        needs="zarr",
    ),
    Peer(
        "ome-zarr",
        _write_ome_zarr,
        _read_ome_zarr,
        lambda file, x, **options: xa.from_ome_zarr(file, **options),
        xa.to_ome_zarr,
        ".ome.zarr",
        ["i4", "u1", "f8", "u2", "f4", "i8", "?", "c8", "f2"],
        ranks=(2, 3, 4, 5),
        keeps=frozenset(["attrs", "dims", "coords", "fill_value"]),
        needs="ome_zarr",
    ),
    *(
        Peer(
            "mat, compressed" if is_compressed else "mat",
            lambda file, x, is_compressed=is_compressed: _write_mat(
                file, x, do_compression=is_compressed
            ),
            _read_mat,
            lambda file, x, **options: xa.from_mat(file, **options),
            lambda a, file, **options: xa.to_mat(a, file, "level", **options),
            ".mat",
            ["i4", "u1", "f4", "f8", "i2", "u2", "u4", "i8", "u8", "i1", "c8", "c16", "?"],
            ranks=(2, 3, 4),
            needs="scipy",
            is_tough=False,
            streams=False,
        )
        for is_compressed in (False, True)
    ),
    Peer(
        "mat, version 7.3",
        _write_mat73,
        _read_mat73,
        lambda file, x, **options: xa.from_mat(file, "level", **options),
        lambda a, file, **options: xa.to_mat(a, file, "level", version="7.3", **options),
        ".mat",
        ["i4", "u1", "f4", "f8", "i2", "u2", "u4", "i8", "u8", "i1", "c8", "c16"],
        ranks=(2, 3, 4),
        empty=False,
        needs="h5py",
    ),
]
