"""GeoTIFF: rasters of bands, with their georeferencing, through rasterio."""

from __future__ import annotations

import contextlib
import math
import os
import re
import struct
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.arguments import check_flag
from extarray.common.calls import public
from extarray.common.config import config
from extarray.common.errors import ArgumentError, DTypeError, FormatError, ShapeError
from extarray.common.extras import require
from extarray.common.hints import hint
from extarray.common.system import physical_bytes
from extarray.format.missing import as_element
from extarray.format.places import Line, affine, plane
from extarray.formats.description import Coordinate, Description, Packing
from extarray.formats.files import Room, beside, file_name, of_library, target_name
from extarray.formats.transfer import Format, Sink, Source, has_likeness
from extarray.storage.filesystem import File

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike
    from typing import IO, SupportsIndex

    from numpy.typing import NDArray

    from extarray.array.array import ExtArray
    from extarray.array.lazy import LazyView
    from extarray.common.arguments import Reported
    from extarray.grid.tiles import Box

__all__ = ["GEOTIFF", "from_geotiff", "to_geotiff"]

_TITLE = "GeoTIFF"
_DIMS = ("band", "y", "x")
_KINDS = frozenset(["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"])
#: GDAL gives floats of 2 bytes as floats of 4, with a note of their bits.
_HALF = np.dtype(np.float16)
#: Bytes of blocks that GDAL may cache; then the file is opened anew.
_KEPT_BYTES = 1 << 26
#: Part of the memory in which GDAL keeps blocks before it writes them.
_CACHE_PART = 20
#: Compression by LZW may make a block longer by half; no other makes it longer by more.
_LONGEST = 1.5
#: Integers whose value for "no data" rasterio rounds to a float, with GDAL's names for them.
_LONG = {"int64": "Int64", "uint64": "UInt64"}
#: Bits of integers that a float represents exactly.
_EXACT = 53
#: Attributes that are not tags: the georeferencing, and properties of bands.
_OWN = ("crs", "transform", "scales", "offsets", "units", "colors", "nodata")
#: Values for bands without an entry.
_DEFAULTS = {"scales": 1.0, "offsets": 0.0, "units": "", "colors": "undefined"}
#: Tags of GeoTIFF and GDAL: scale, tie points, transform, keys; metadata and nodata.
_GEOGRAPHIC_TAGS = frozenset([33550, 33922, 34264, 34735, 42112, 42113])
#: Attributes for which an array is written as GeoTIFF.
_GEOGRAPHIC_ATTRS = frozenset(["crs", "transform"])
#: Most tags of a page to look at.
_MOST_TAGS = 4096
#: Namespaces of tags that GDAL derives from the rest of a file.
_DERIVED = frozenset(["IMAGE_STRUCTURE", "DERIVED_SUBDATASETS", "SUBDATASETS"])


@public
def from_geotiff(
    file: str | PathLike[str],
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    mask_and_scale: bool = False,
    overwrite: bool = False,
    sparse: bool | None = None,
    compression: Any = None,
    significant_bits: int | None = None,
    progress: Reported = True,
    max_result: int | str | None = None,
) -> ExtArray:
    """Make an array of a GeoTIFF file, in bounded memory.

    Parameters
    ----------
    file : str or PathLike
    path : str, PathLike, or None
        Name of the new pair of files.  None: the array is in memory.
    chunks : int or sequence of int, optional
        Shape of a chunk.  None: that of the file's chunks, if these have 4 KiB or more; else as for
        `create`.
    mask_and_scale : bool
        Unpack the numbers of each band by its scale and its offset; elements that are the file's
        ``nodata`` become NaN.  False: take elements as they are.
    overwrite : bool
        Replace an existing pair of files.
    sparse : bool, optional
        Leave holes in place of zeros, as for `create`.  None: do so if parts of the file were never
        written.
    compression : str, int, Codec or None
        Codec of the new array, as for `create`; all chunks are frozen at the end.
    significant_bits : int, optional
        Round floats to so many bits of the mantissa, as for `from_array`.  None: take them as they
        are.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.
    max_result : int or str, optional
        Largest array, in bytes or as ``"2 TiB"``, that a file of less than a thousandth of its size
        may make; holes hardly count.  None: ``config.max_result``.

    Returns
    -------
    ExtArray
        With the axes ``band``, ``y`` and ``x``.  Its fill value is the file's ``nodata``, which is
        an attribute instead where it is zero or no element.  The attributes ``crs`` (well-known
        text) and ``transform`` have the georeferencing, the latter as 6 numbers: x is ``t[0] *
        column + t[1] * row + t[2]``, and y the same of the other three; ``scales``, ``offsets``,
        ``units`` and ``colors`` (words such as "red") have an entry for each band, and None for one
        that is added before others; tags are attributes, too.  Descriptions of bands are the
        coordinate ``band``.

    Raises
    ------
    DTypeError
        A TypeError: complex integers.
    FormatError
        A ValueError: the file is damaged, of another format, or has several pages.
    MissingExtraError
        An ImportError: rasterio is not installed.
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Warns
    -----
    LossyWarning
        The array cannot hold all of the file; the message names what is left out.

    Notes
    -----
    Pages of a TIFF file, such as the planes of a stack, are images of their own, which `from_tiff`
    reads; masks and overviews are none.

    Examples
    --------
    >>> import os, tempfile, numpy as np, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.tif")
    >>> attrs = {"crs": "EPSG:32618", "transform": [30.0, 0.0, 583000.0, 0.0, -30.0, 4520000.0]}
    >>> xa.to_geotiff(xa.from_array(np.ones((1, 2, 3), "u2"), attrs=attrs), name)
    >>> a = xa.from_geotiff(name)
    >>> a.shape, a.dims, a.attrs["transform"][2]
    ((1, 2, 3), ('band', 'y', 'x'), 583000.0)
    """
    return GEOTIFF.load(
        file,
        path=path,
        chunks=chunks,
        mask_and_scale=mask_and_scale,
        overwrite=overwrite,
        sparse=sparse,
        compression=compression,
        significant_bits=significant_bits,
        progress=progress,
        max_result=max_result,
    )


def to_geotiff(
    a: ExtArray | LazyView,
    file: str | PathLike[str],
    *,
    selection: Any = None,
    overwrite: bool = False,
    progress: Reported = True,
    **options: Any,
) -> None:
    """Write an array into a GeoTIFF file, in bounded memory.

    Parameters
    ----------
    a : ExtArray or LazyView
        With 3 axes, which are bands, rows and columns; or with 2, for one band.  Its fill value, or
        else its attribute ``nodata``, is the file's ``nodata``.
    file : str or PathLike
    selection : index expression, optional
        Part of the array to write, such as ``np.s_[:, 1]``.  None: all.
    overwrite : bool
        Replace an existing file.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.
    **options
        Arguments of ``rasterio.open``: ``compress="deflate"``, ``interleave="pixel"``,
        ``blockxsize``, ``BIGTIFF="YES"``.  By default the file is a BigTIFF where it may exceed
        4 GiB, and has tiles like the array's chunks where these are multiples of 16.  Elements of
        float16 have 16 bits in the file, too.

    Raises
    ------
    DTypeError
        A TypeError: GeoTIFF has no such elements.
    ShapeError
        A ValueError: the array has another number of axes, or no elements.
    ArgumentError
        A ValueError: options that rasterio does not take.
    ExistsError
        A FileExistsError: the name is taken.
    MissingExtraError
        An ImportError: rasterio is not installed.
    BoundsError, SelectionError, StorageError

    Warns
    -----
    LossyWarning
        The file cannot hold all of the array; the message names what is left out.

    Notes
    -----
    The file has its name when it is complete.  A block of negative zeros alone comes back as zeros:
    GDAL takes it for one that was never written.

    Examples
    --------
    >>> import os, tempfile, numpy as np, rasterio, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.tif")
    >>> attrs = {"crs": "EPSG:4326", "transform": [0.5, 0.0, 7.0, 0.0, -0.5, 51.0]}
    >>> xa.to_geotiff(xa.from_array([[1, 2, 3], [4, 5, 6]], attrs=attrs), name, compress="deflate")
    >>> with rasterio.open(name, driver="GTiff") as f:
    ...     f.count, f.height, f.width, f.bounds.top, f.profile["compress"]
    (1, 2, 3, 51.0, 'deflate')
    """
    GEOTIFF.save(a, file, selection=selection, overwrite=overwrite, progress=progress, **options)


@contextlib.contextmanager
def _opened(where: str, mode: str, shown: str, **options: Any) -> Iterator[Any]:
    """Yield a dataset of rasterio, for which GDAL makes and reads no files beside it."""
    rasterio: Any = require("rasterio", "geotiff", _TITLE)
    with contextlib.ExitStack() as stack:
        with of_library(shown, _TITLE):
            if mode == "r":
                os.stat(where)  # raises the error of the system
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
                stack.enter_context(
                    rasterio.Env(GDAL_PAM_ENABLED="NO", GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR")
                )
                dataset = rasterio.open(where, mode, driver="GTiff", **options)
            kind: Any = type(dataset)
            dataset.__class__ = _with_ranges(kind)
        try:
            yield dataset
        except BaseException:
            with contextlib.suppress(Exception):
                dataset.close()
            raise
        with of_library(shown, _TITLE):
            dataset.close()


_with_range: dict[Any, Any] = {}  # classes of rasterio, and their subclasses


def _with_ranges(kind: Any) -> Any:
    """Return a subclass of a dataset's class in which a range lists the bands.

    For each band of a call, rasterio makes a tuple of all bands and searches it, which takes
    minutes for 65,000 bands of one element.
    """
    bands = property(lambda dataset: range(1, dataset.count + 1))
    return _with_range.setdefault(kind, type(kind.__name__, (kind,), {"indexes": bands}))


def _window(box: Box) -> tuple[tuple[int, int], tuple[int, int]]:
    rows, columns = box[-2:]
    return (rows.start, rows.stop), (columns.start, columns.stop)


# -- reading -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _source(file: Any, name: Any = None) -> Iterator[Source]:
    """Open a file for reading."""
    where = file_name(file, _TITLE)
    with contextlib.ExitStack() as stack:
        dataset = stack.enter_context(_opened(where, "r", where))
        with of_library(where, _TITLE):
            pages = max(1, len(dataset.subdatasets))
            if pages > 1:
                raise FormatError(
                    f"{where!r} has {pages} pages, but only GeoTIFF files with one page can be "
                    "read; "
                    + hint(
                        "extarray.from_tiff reads all pages, without their places; or read one of "
                        f"them with rasterio.open('GTIFF_DIR:1:{where}'), and make an array with "
                        "extarray.from_array",
                        "extarray import --format tiff reads all pages, without their places",
                    )
                )
            _check_length(where, dataset)
            given, lost = _described(dataset, _exact_nodata(where, dataset))
        most = max(1, min(_KEPT_BYTES, config.max_memory // 2))
        kept = 0

        def read(box: Box) -> NDArray[Any]:
            nonlocal dataset, kept
            if kept > most:  # GDAL caches blocks until the file is closed
                stack.close()
                dataset, kept = stack.enter_context(_opened(where, "r", where)), 0
            bands = list(range(box[0].start + 1, box[0].stop + 1))
            values: NDArray[Any] = dataset.read(bands, window=_window(box))
            kept += values.nbytes
            return values.astype(given.dtype, copy=False)

        yield Source(given, read, lost=lost)


def _check_length(where: str, dataset: Any) -> None:
    """Refuse a file that ends before its last block; GDAL would notice band by band."""
    has, band = os.stat(where).st_size, dataset.count
    rows, columns = dataset.block_shapes[0]
    last = f"{(dataset.width - 1) // columns}_{(dataset.height - 1) // rows}"
    place, size = (
        dataset.get_tag_item(f"BLOCK_{what}_{last}", "TIFF", bidx=band)
        for what in ("OFFSET", "SIZE")
    )
    end = int(place or 0) + int(size or 0)
    if place is not None and end > has:
        raise FormatError(f"{where!r} has {has} bytes, but its elements end at byte {end}")


def _exact_nodata(where: str, dataset: Any) -> float | int | None:
    """Return the number for "no data", unrounded.

    rasterio rounds integers to floats, and omits a number that the dtype cannot hold.  A VRT file
    is text, and has all digits.
    """
    rounded: float | None = dataset.nodata
    if rounded is not None and dataset.dtypes[0] not in _LONG:
        return rounded
    # Most files have no such number, and some have very many bands: ask one band first.
    if dataset.count > 1 and "?" not in where and _nodata_in_vrt(f"vrt://{where}?bands=1") is None:
        return None
    return _nodata_in_vrt(dataset)


def _nodata_in_vrt(source: Any) -> float | int | None:
    """Return the number for "no data" that GDAL writes into a VRT copy of a dataset or file."""
    rasterio: Any = require("rasterio", "geotiff", _TITLE)
    shutil: Any = require("rasterio.shutil", "geotiff", _TITLE)
    with rasterio.io.MemoryFile(ext=".vrt") as file:
        shutil.copy(source, file.name, driver="VRT")
        found = re.search(r"<NoDataValue>([^<]*)</NoDataValue>", file.read().decode())
    if found is None:
        return None
    return int(found[1]) if found[1].lstrip("-").isdecimal() else float(found[1])


def _described(dataset: Any, nodata: float | None) -> tuple[Description, list[str]]:
    """Return the description of a dataset of rasterio, and the facts that no array can hold."""
    rasterio: Any = require("rasterio", "geotiff", _TITLE)
    lost: list[str] = []
    kinds = set(dataset.dtypes)
    if len(kinds) > 1 or "complex_int16" in kinds:
        raise DTypeError(f"the bands have elements of {', '.join(sorted(kinds))}")
    n = dataset.count
    dtype, bits = np.dtype(kinds.pop()), {_bits(dataset, j) for j in range(1, n + 1)}
    if dtype == np.float32 and bits == {16} and _is_half(nodata):
        dtype = _HALF
    elif dtype.kind == "f" and bits != {None}:
        fewer = " and ".join(str(n) for n in sorted(bits, key=str))
        lost.append(f"that its elements have {fewer} bits")
    attrs: dict[str, Any] = dict(dataset.tags())
    lost.extend(f"the tag {k!r}, whose name is reserved" for k in _OWN if k in attrs)
    attrs = {k: v for k, v in attrs.items() if k not in _OWN}
    if dataset.crs is not None:
        attrs["crs"] = dataset.crs.to_wkt()
    if not dataset.transform.is_identity:
        attrs["transform"] = [float(v) for v in tuple(dataset.transform)[:6]]
    for key, value, default in (
        ("scales", dataset.scales, 1.0),
        ("offsets", dataset.offsets, 0.0),
        ("units", dataset.units, None),
    ):
        if any(v != default for v in value):
            attrs[key] = [v if v is not None else "" for v in value]
    colors = [c.name for c in dataset.colorinterp]
    if "palette" not in colors and set(colors) - {"gray", "undefined"}:
        attrs["colors"] = colors
    if dataset.gcps[0]:
        lost.append("the ground control points")
    if dataset.rpcs is not None:
        lost.append("the rational polynomial coefficients")
    spaces = {s for s in dataset.tag_namespaces() if not s.startswith(("RPC", "xml:"))}
    lost.extend(f"the tags of {s}" for s in sorted(spaces - _DERIVED) if dataset.tags(ns=s))
    if "alpha" not in colors and any(
        rasterio.enums.MaskFlags.per_dataset in flags for flags in dataset.mask_flag_enums
    ):
        lost.append("the mask")
    for j in range(1, n + 1):
        lost.extend(f"the tag {k!r} of band {j}" for k in dataset.tags(j))
        with contextlib.suppress(ValueError):
            dataset.colormap(j)
            lost.append(f"the colours of band {j}")
    rows, columns = dataset.block_shapes[0]
    is_pixel = str(dataset.profile.get("interleave", "")).lower() == "pixel"
    given = Description(
        (n, dataset.height, dataset.width),
        dtype,
        (n if is_pixel else 1, rows, columns),
        attrs=attrs,
        dims=_DIMS,
    )
    missing = None if nodata is None else as_element(nodata, dtype)
    if missing is not None:
        given.fill_value = missing
    if nodata is not None and not given.fills:  # zero is every array's fill value
        attrs["nodata"] = nodata if missing is None else missing.item()
    if any(dataset.descriptions):
        names = np.array([d or "" for d in dataset.descriptions])
        given.coords["band"] = Coordinate(("band",), names, {})
    scale, offset = _of_bands(dataset.scales), _of_bands(dataset.offsets)
    if dtype.kind in "iuf":
        small = dtype.itemsize <= 2 or dtype == np.float32
        if missing is not None or np.any(scale != 1) or np.any(offset != 0):
            values = np.dtype(np.float32 if small else np.float64)
            said_so = ("scales", "offsets", *(() if missing is None else ("nodata",)))
            none = () if missing is None else (missing,)
            given.packing = Packing(scale, offset, none, values, said_so)
    return given, lost


def _of_bands(numbers: tuple[float, ...]) -> float | NDArray[Any]:
    """Return the number that all bands share, or an array that broadcasts over rows and columns."""
    return numbers[0] if len(set(numbers)) == 1 else np.reshape(numbers, (-1, 1, 1))


def _bits(dataset: Any, band: int) -> int | None:
    """Return the bits of an element in the file if GDAL returns more; else None."""
    text = dataset.tags(band, ns="IMAGE_STRUCTURE").get("NBITS", "")
    return int(text) if text.isdecimal() else None


def _is_half(nodata: float | None) -> bool:
    """Tell whether half floats can hold the value that GDAL returns for unwritten elements."""
    return nodata is None or not math.isfinite(nodata) or abs(nodata) <= float(np.finfo(_HALF).max)


# -- writing -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _sink(
    file: Any, name: Any, given: Description, *, overwrite: bool = False, **options: Any
) -> Iterator[Sink]:
    """Make a file."""
    rasterio: Any = require("rasterio", "geotiff", _TITLE)
    where = target_name(file, _TITLE)
    check_flag(overwrite, "overwrite")
    if given.ndim not in (2, 3) or 0 in given.shape:
        raise ShapeError(
            "a raster needs 2 or 3 axes and at least one element, but the array has shape "
            f"{given.shape}; select another part"
        )
    kind = given.dtype
    if kind.names is not None or kind.isbuiltin == 2 or kind.str[1:] not in _KINDS:
        raise DTypeError(
            f"GeoTIFF does not support elements of {kind}; convert them to one of "
            f"{', '.join(sorted(_KINDS))} {hint('with a.astype', 'with extarray rechunk --dtype')}"
        )
    lost: list[str] = []
    with beside(where, overwrite) as fresh, contextlib.ExitStack() as stack:
        settings = _settings(given, options, lost)
        known = {str(each.value).lower() for each in rasterio.enums.Compression}
        asked = str(settings.get("compress") or "none")
        if asked.lower() not in known:  # GDAL would ignore it
            raise ArgumentError(f"compress {asked!r} is not possible; use one of {sorted(known)}")
        is_compressed = asked.lower() != "none"
        room = stack.enter_context(contextlib.closing(_room(fresh, where, is_compressed)))
        room.check()
        dataset = stack.enter_context(_created(fresh, where, settings, given, lost))
        stored = dataset.dtypes[0]
        rows, columns = dataset.block_shapes[0]
        n_blocks = dataset.count * -(-dataset.height // rows) * -(-dataset.width // columns)
        itemsize = np.dtype(stored).itemsize
        nbytes = 0 if is_compressed else n_blocks * rows * columns * itemsize
        room.need(nbytes + 6 * len(repr(given.attrs)), n_blocks)  # attributes become XML
        nodata = np.asarray(settings.get("nodata", 0))

        def write(box: Box, values: NDArray[Any]) -> None:
            nonlocal nodata
            cube = values.reshape(-1, *values.shape[-2:])
            if nodata != nodata and has_likeness(
                cube, (1, *dataset.block_shapes[0]), nodata.astype(cube.dtype)
            ):
                lost.append("the bits of NaN, where a block has no other elements")
                nodata = np.asarray(0)  # said once
            if is_compressed:
                room.need(math.ceil(_LONGEST * cube.size * itemsize))
            first = box[0].start if given.ndim == 3 else 0
            bands = list(range(first + 1, first + len(cube) + 1))
            dataset.write(cube.astype(stored, copy=False), bands, window=_window(box))

        pieces = (
            max(1, given.chunks[-3]) if given.chunks and given.ndim == 3 else 1,
            rows,
            columns,
        )
        if str(settings.get("interleave", "")).lower() == "pixel" and given.ndim == 3:
            pieces = (given.shape[0], rows, columns)
        yield Sink(write, chunks=pieces[-given.ndim :], lost=lost)


def _room(fresh: str, where: str, is_compressed: bool) -> Room:
    """Return the space of a new file: GDAL reports no error of the writes in which it closes one.

    Without compression, all of the elements' space is taken at once.
    """
    with of_library(where, _TITLE):
        file = File.open(fresh, os.O_RDWR)
    cache = (physical_bytes() or 1 << 34) // _CACHE_PART
    return Room(file, where, _TITLE, kept=cache if is_compressed else 0)


@contextlib.contextmanager
def _created(
    fresh: str, where: str, settings: dict[str, Any], given: Description, lost: list[str]
) -> Iterator[Any]:
    """Yield a new dataset of rasterio, complete but for its elements."""
    nodata = settings.get("nodata")
    is_long = isinstance(nodata, int) and abs(nodata) > 1 << _EXACT
    try:
        context = (
            _created_by_vrt(fresh, where, **settings)
            if is_long
            else _opened(fresh, "w", where, **settings)
        )
        dataset = context.__enter__()
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"rasterio cannot create such a file: {error}") from error
    with contextlib.ExitStack() as stack:
        stack.push(context.__exit__)
        with of_library(where, _TITLE):
            _describe(dataset, given, lost)
        yield dataset


@contextlib.contextmanager
def _created_by_vrt(
    fresh: str,
    where: str,
    *,
    count: int,
    height: int,
    width: int,
    dtype: str,
    nodata: int,
    crs: Any = None,
    transform: Any = None,
    **options: Any,
) -> Iterator[Any]:
    """Yield a new dataset like `_opened`, with all digits of the number for "no data".

    rasterio would round it to a float.  GDAL copies it from a VRT file without elements.
    """
    rasterio: Any = require("rasterio", "geotiff", _TITLE)
    shutil: Any = require("rasterio.shutil", "geotiff", _TITLE)
    bands = "".join(
        f'<VRTRasterBand dataType="{_LONG[dtype]}" band="{band}">'
        f"<NoDataValue>{nodata}</NoDataValue></VRTRasterBand>"
        for band in range(1, count + 1)
    )
    empty = f'<VRTDataset rasterXSize="{width}" rasterYSize="{height}">{bands}</VRTDataset>'
    with of_library(where, _TITLE), rasterio.io.MemoryFile(empty.encode(), ext=".vrt") as file:
        shutil.copy(file.name, fresh, driver="GTiff", **{"SPARSE_OK": True, **options})
    with _opened(fresh, "r+", where) as dataset:
        with of_library(where, _TITLE):
            if crs is not None:
                dataset.crs = crs
            if transform is not None:
                dataset.transform = transform
        yield dataset


def _settings(given: Description, options: dict[str, Any], lost: list[str]) -> dict[str, Any]:
    """Return the arguments with which rasterio makes a file."""
    rasterio: Any = require("rasterio", "geotiff", _TITLE)
    settings: dict[str, Any] = {
        "count": given.shape[0] if given.ndim == 3 else 1,
        "height": given.shape[-2],
        "width": given.shape[-1],
        "dtype": given.dtype.newbyteorder("=").name,
        "BIGTIFF": "IF_SAFER",
        "interleave": "band",
    }
    if given.dtype.newbyteorder("=") == _HALF:
        settings.update(dtype="float32", nbits=16)
    own = sorted({"driver", "count", "height", "width", "dtype", "nodata"} & set(options))
    if own:
        raise ArgumentError(
            f"the array already determines {', '.join(map(repr, own))}; leave it out"
        )
    if given.chunks is not None and not {"tiled", "blockxsize", "blockysize"} & set(options):
        rows, columns = given.chunks[-2:]
        if rows % 16 == 0 and columns % 16 == 0:
            settings.update(tiled=True, blockysize=rows, blockxsize=columns)
    attrs = given.attrs
    if "crs" in attrs:
        try:
            settings["crs"] = rasterio.crs.CRS.from_user_input(attrs["crs"])
        except (rasterio.errors.CRSError, TypeError, ValueError, AttributeError) as error:
            lost.append(f"attribute 'crs' ({error})")
    if "transform" in attrs:
        try:
            settings["transform"] = rasterio.Affine(*_transform(given))
        except (TypeError, ValueError) as error:
            lost.append(f"attribute 'transform' ({error})")
    nodata = attrs.get("nodata")
    is_number = isinstance(nodata, (int, float, np.number))
    missing = as_element(nodata, given.dtype) if is_number else None
    if given.fills and given.dtype.kind != "c":
        fill = np.asarray(given.fill_value, given.dtype)[()]
        settings["nodata"] = fill.item()
        if missing is not None and not np.array_equal(missing, fill, equal_nan=True):
            lost.append(f"attribute 'nodata', as the fill value is {fill!r}")
    elif given.fills:
        lost.append(f"the fill value {given.fill_value!r}")
    elif missing is not None:
        settings["nodata"] = missing.item()
    elif given.missing is not None:
        settings["nodata"] = given.missing.item()
    if nodata is not None and missing is None:
        lost.append("attribute 'nodata', which is not an element")
    settings.update(options)
    return settings


def _transform(given: Description) -> list[float]:
    """Return the transform of an array for the rows and columns of the file, its last two axes.

    Raises
    ------
    ValueError
        The transform concerns other axes.
    """
    numbers = [float(v) for v in given.attrs["transform"]]
    found, last = plane(given.names, last=True), (given.ndim - 2, given.ndim - 1)
    if found == last:
        return numbers
    if found != last[::-1]:
        raise ValueError(f"the last axes of {given.names} are not y and x; transpose the array")
    rows, columns = (Line(0, 1, j) for j in found)
    return affine(numbers, rows, columns, is_swapped=True)


def _entries(key: str, given: Description, lost: list[str]) -> list[Any]:
    """Return an attribute's entry for each band; bands without one get the default."""
    default, entries = _DEFAULTS[key], given.entries(given.attrs[key], 0)
    without = [str(j) for j, each in enumerate(entries, 1) if each is None]
    if len(without) == len(entries):
        raise ValueError("no band has an entry")
    if without:
        lost.append(
            f"attribute {key!r} of the bands {', '.join(without)}, which get {default!r} in the "
            "file"
        )
    return [default if each is None else each for each in entries]


def _describe(dataset: Any, given: Description, lost: list[str]) -> None:
    """Write the tags, and the properties of bands."""
    rasterio: Any = require("rasterio", "geotiff", _TITLE)
    tags = {}
    for key, value in given.attrs.items():
        if key in ("scales", "offsets", "units"):
            try:
                setattr(dataset, key, tuple(_entries(key, given, lost)))
            except (TypeError, ValueError) as error:
                lost.append(f"attribute {key!r} ({error})")
        elif key == "colors":
            try:
                colors = _entries(key, given, lost)
                dataset.colorinterp = tuple(rasterio.enums.ColorInterp[c] for c in colors)
            except (KeyError, TypeError, ValueError) as error:
                lost.append(f"attribute {key!r} ({error})")
        elif key in _OWN:
            continue
        elif isinstance(value, str) and "\0" not in value and key and "=" not in key:
            tags[key] = value
        elif isinstance(value, (bool, int, float, np.generic)):
            tags[key] = str(value)
            lost.append(f"attribute {key!r}, but as text")
        else:
            lost.append(f"attribute {key!r}, which is not text")
    dataset.update_tags(**tags)
    for name, each in given.coords.items():
        is_band = given.dims is not None and given.ndim == 3 and each.dims == (given.dims[0],)
        if name == "band" and is_band and each.values.dtype.kind == "U":
            dataset.descriptions = tuple(str(v) or None for v in each.values)
        else:
            lost.append(f"coordinate {name!r}")
    if given.dims is not None and given.dims != _DIMS[-given.ndim :]:
        lost.append(f"the names of the axes {given.dims}")


# -- choice among TIFF files ---------------------------------------------------------------------


def _suits(file: Any, attrs: Mapping[str, Any] | None) -> bool:
    """Tell whether a file of pages is a raster with a place, or an array is to be one."""
    if attrs is not None:
        return bool(_GEOGRAPHIC_ATTRS & attrs.keys())
    try:
        with open(file, "rb") as stream:
            return bool(_GEOGRAPHIC_TAGS & set(_first_tags(stream)))
    except (OSError, struct.error):
        return False  # whoever reads it says what it lacks


def _first_tags(stream: IO[bytes]) -> Iterator[int]:
    """Yield the numbers of the tags of a file's first page."""
    order = {b"II": "<", b"MM": ">"}.get(stream.read(2))
    if order is None:
        return
    (version,) = struct.unpack(f"{order}H", stream.read(2))
    is_big = version == 43
    stream.seek(8 if is_big else 4)
    (place,) = struct.unpack(f"{order}{'Q' if is_big else 'I'}", stream.read(8 if is_big else 4))
    if place > 1 << 62:
        return
    stream.seek(place)
    (n,) = struct.unpack(f"{order}{'Q' if is_big else 'H'}", stream.read(8 if is_big else 2))
    for _ in range(min(n, _MOST_TAGS)):
        entry = stream.read(20 if is_big else 12)
        yield struct.unpack(f"{order}H", entry[:2])[0]


GEOTIFF = Format(
    "geotiff",
    _TITLE,
    (".tif", ".tiff", ".gtiff"),
    _source,
    _sink,
    extra="geotiff",
    suits=_suits,
)
