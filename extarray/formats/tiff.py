"""TIFF: OME-TIFF, ImageJ stacks, and pages of any other kind, through tifffile."""

from __future__ import annotations

import contextlib
import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.arguments import check_flag
from extarray.common.calls import public
from extarray.common.config import config
from extarray.common.errors import ArgumentError, ArgumentTypeError
from extarray.common.extras import require
from extarray.common.hints import hint
from extarray.formats.description import Description
from extarray.formats.files import beside, target_name
from extarray.formats.tiff_pages import codec_error, names_of_series, source_of_series
from extarray.formats.tiff_parts import TITLE, layout_of, metadata_for
from extarray.formats.tiff_pieces import flat, piecewise
from extarray.formats.transfer import Format, Sink
from extarray.formats.whole import WholeSource, load_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike
    from typing import SupportsIndex

    from extarray.array.array import ExtArray
    from extarray.array.lazy import LazyView
    from extarray.common.arguments import Reported
    from extarray.formats.tiff_parts import Dialect, Layout

__all__ = ["TIFF", "from_tiff", "to_tiff"]

#: Suffixes of OME-TIFF files.
_OME_SUFFIXES = (".ome.tif", ".ome.tiff", ".ome.tf2", ".ome.tf8", ".ome.btf")
#: Most bytes of elements in a file whose offsets have 32 bits; the rest is for its tags.
_CLASSIC_BYTES = (1 << 32) - (1 << 25)
#: Extents of tiles, where a page is too large to be compressed in memory.
_TILE = (512, 512)
#: Arguments of `TiffWriter.write` that the array determines, or that this module needs.
_OWN = frozenset(
    [
        "data",
        "shape",
        "dtype",
        "metadata",
        "contiguous",
        "truncate",
        "returnoffset",
        "subifds",
        "volumetric",
        "description",
        "resolution",
        "resolutionunit",
    ]
)
#: Arguments that change how elements are stored.
_STORED = frozenset(["tile", "compression", "predictor", "rowsperstrip", "bitspersample"])


@public
def from_tiff(
    file: str | PathLike[str],
    series: int | str | None = None,
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    level: int = 0,
    squeeze: bool = True,
    overwrite: bool = False,
    sparse: bool | None = None,
    compression: Any = None,
    significant_bits: int | None = None,
    progress: Reported = True,
    max_result: int | str | None = None,
) -> Any:
    """Make an array of a series of pages in a TIFF file, or a group of all, in bounded memory.

    Parameters
    ----------
    file : str or PathLike
    series : int or str, optional
        Number of the series, from 0, or its name.  None: the only one; of several, a group is made
        in the folder `path`.
    path : str, PathLike, or None
        Name of the new pair of files, or folder.  None: the array is in memory.
    chunks : int or sequence of int, optional
        Shape of a chunk.  None: that of the file's chunks, if these have 4 KiB or more; else as for
        `create`.
    level : int
        Level of a pyramid: 0 has all elements, the next ones fewer and fewer.
    squeeze : bool
        Leave out the axes of one element, other than y and x, that OME-TIFF and ImageJ imply.
        False: keep them, so that the array can grow along them.
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
    ExtArray or Group
        With the axes that the file names: ``t``, ``c``, ``z``, ``y``, ``x``, and ``s`` for the
        samples of a pixel, such as red, green and blue; ``dim_0`` and so on are unnamed.  Physical
        sizes and time increments are coordinates of these axes, with their ``units``; names of
        channels are the coordinate ``c``.  The rest of the metadata becomes attributes: the name,
        the description and the pairs of keys and values of an OME image, and ``ome_xml``; the lines
        of ImageJ, and its ``Labels``, ``Ranges``, ``LUTs`` and ``Info``; tags, or tifffile's JSON.

    Raises
    ------
    VariableError
        A KeyError: no such series, or one of several has to be named.
    DTypeError
        A TypeError: elements that no array can have.
    FormatError
        A ValueError: the file is damaged, of another format, or has no such level.
    MissingExtraError
        An ImportError: tifffile is not installed, or imagecodecs, which decompresses.
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Warns
    -----
    LossyWarning
        The array cannot hold all of the file; the message names what is left out.

    Notes
    -----
    `from_geotiff` reads rasters that have a place on the earth.  An OME-TIFF file may name others,
    in its folder, that have some of the planes; planes that are in none of them are zero.

    Examples
    --------
    >>> import os, tempfile, numpy as np, tifffile, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "cells.ome.tif")
    >>> sizes = {"axes": "ZYX", "PhysicalSizeZ": 2.0, "PhysicalSizeZUnit": "µm"}
    >>> tifffile.imwrite(name, np.ones((3, 4, 5), "u2"), metadata=sizes)
    >>> a = xa.from_tiff(name)
    >>> a.shape, a.dims, a.attrs["coords"]["z"]["data"].tolist()
    ((3, 4, 5), ('z', 'y', 'x'), [0.0, 2.0, 4.0])
    """
    options: dict[str, Any] = {
        "path": path,
        "chunks": chunks,
        "overwrite": overwrite,
        "sparse": sparse,
        "compression": compression,
        "significant_bits": significant_bits,
        "progress": progress,
        "max_result": max_result,
        "level": level,
        "squeeze": squeeze,
    }
    if series is None and path is not None and len(names_of_series(file)) > 1:
        return _load_group(file, **options)
    return TIFF.load(file, series, **options)


def to_tiff(
    a: ExtArray | LazyView,
    file: str | PathLike[str],
    *,
    selection: Any = None,
    ome: bool | None = None,
    imagej: bool = False,
    bigtiff: bool | None = None,
    pyramid: int = 0,
    overwrite: bool = False,
    progress: Reported = True,
    **options: Any,
) -> None:
    """Write an array into a TIFF file, in bounded memory.

    Parameters
    ----------
    a : ExtArray or LazyView
        Its axes ``y`` and ``x`` are the rows and columns of pages, ``s`` the samples of a pixel.
        OME-TIFF and ImageJ have ``t``, ``c`` and ``z`` besides; axes without names are the last of
        t, c, z, y and x, or in ImageJ of t, z, c, y and x, but z, y and x if they are three.
    file : str or PathLike
    selection : index expression, optional
        Part of the array to write, such as ``np.s_[:, 1]``.  None: all.
    ome : bool, optional
        Write OME-XML.  None: if the file is named ``.ome.tif``, ``.ome.tiff`` or ``.ome.btf``.
    imagej : bool
        Write a hyperstack of ImageJ: integers of 8 or 16 bits, or float32, of at most 4 GiB.
    bigtiff : bool, optional
        Write offsets of 64 bits.  None: if the elements may need more than 4 GiB.
    pyramid : int
        Number of smaller levels to write into an OME-TIFF file, each with half of the rows and
        columns of the one before: means of 2 by 2 elements.  They stand in temporary files before.
    overwrite : bool
        Replace an existing file.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.
    **options
        Arguments of ``tifffile.TiffWriter.write``, such as ``compression="zlib"``,
        ``predictor=True``, ``tile=(256, 256)`` and ``photometric="minisblack"``; and its
        ``byteorder``.

    Raises
    ------
    DTypeError
        A TypeError: such a file cannot have these elements.
    ShapeError
        A ValueError: fewer than two axes, too many, or no elements.
    ArgumentError
        A ValueError: axes that such a file does not have, or options that tifffile does not take.
    ExistsError
        A FileExistsError: the name is taken.
    MissingExtraError
        An ImportError: tifffile is not installed, or imagecodecs, which compresses.
    BoundsError, SelectionError, StorageError

    Warns
    -----
    LossyWarning
        The file cannot hold all of the array; the message names what is left out.

    Notes
    -----
    The file has its name when it is complete.  Coordinates of even steps become physical sizes and
    time increments, and the coordinate ``c`` the names of channels, in OME-TIFF and ImageJ;
    attributes become a map annotation of OME-XML, lines of ImageJ's text, or else JSON.  Large
    pages are compressed in tiles of 512 by 512.

    Examples
    --------
    >>> import os, tempfile, numpy as np, tifffile, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "cells.ome.tif")
    >>> x = {"dims": ["x"], "data": [0.0, 0.5, 1.0], "attrs": {"units": "µm"}}
    >>> a = xa.from_array(np.ones((2, 4, 3), "u1"), dims=[*"cyx"], attrs={"coords": {"x": x}})
    >>> xa.to_tiff(a, name, compression="zlib")
    >>> with tifffile.TiffFile(name) as f:
    ...     f.series[0].axes, 'PhysicalSizeX="0.5"' in f.ome_metadata
    ('CYX', True)
    """
    TIFF.save(
        a,
        file,
        selection=selection,
        overwrite=overwrite,
        progress=progress,
        ome=ome,
        imagej=imagej,
        bigtiff=bigtiff,
        pyramid=pyramid,
        **options,
    )


# -- groups -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _whole_source(file: Any, level: int, squeeze: bool) -> Iterator[WholeSource]:
    """Open all series of a file."""

    def source(name: str) -> Any:
        return source_of_series(file, name, level=level, squeeze=squeeze)

    yield WholeSource({"": {}}, names_of_series(file), source, [])


def _load_group(
    file: Any,
    name: Any = None,
    *,
    path: Any,
    level: int = 0,
    squeeze: bool = True,
    **options: Any,
) -> Any:
    """Make a group of all series."""
    if name is not None:
        raise ArgumentError(f"a group has all series; leave out {name!r}")
    return load_whole(TITLE, file, _whole_source(file, level, squeeze), path, **options)


# -- writing -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _sink(
    file: Any,
    name: Any,
    given: Description,
    *,
    overwrite: bool = False,
    ome: bool | None = None,
    imagej: bool = False,
    bigtiff: bool | None = None,
    pyramid: int = 0,
    **options: Any,
) -> Iterator[Sink]:
    """Make a file."""
    tifffile: Any = require("tifffile", "tiff", TITLE)
    where = target_name(file, TITLE)
    check_flag(overwrite, "overwrite")
    dialect = _dialect(where, ome, check_flag(imagej, "imagej"))
    layout = layout_of(given, dialect)
    pyramid = _checked_pyramid(pyramid, dialect)
    settings = _settings(given.nbytes // 3 * (4 if pyramid else 3), dialect, bigtiff, options)
    lost: list[str] = []
    arguments = {**_samples(given, layout), **options}
    if pyramid:
        arguments.setdefault("tile", _TILE)
    is_cut = pyramid or any(options.get(key) for key in _STORED)
    is_flat = not is_cut and given.dtype != np.bool_
    if not is_flat:
        _check_order(given, layout)
        page = math.prod(layout.page) * given.dtype.itemsize
        if not arguments.get("tile") and page > config.max_memory // 8:
            arguments["tile"] = _TILE
    stored = given.dtype.newbyteorder(settings.get("byteorder", "="))
    _check_tile(arguments.get("tile"), layout, stored)
    _try(tifffile, layout, stored, settings, arguments)
    arguments.update(metadata_for(given, layout, dialect, lost), dtype=stored)
    arguments["shape"] = layout.shape
    if dialect == "imagej" and layout.shape[-1] == 1:  # as it takes a last 1 for samples
        arguments["shape"] += (1,)
        arguments["metadata"]["axes"] += "S"
    if isinstance(name, str) and name:
        arguments["metadata"].setdefault("Name" if dialect == "ome" else "name", name)
    with beside(where, overwrite) as fresh:
        if is_flat:
            with flat(tifffile, fresh, where, given, settings, arguments) as write:
                yield Sink(write, sequential=layout.order, parallel=True, lost=lost)
        else:
            with piecewise(tifffile, fresh, where, layout, settings, arguments, pyramid) as put:
                pieces = [1] * given.ndim
                for axis, n in zip(layout.order, (1,) * len(layout.lead) + put.piece, strict=False):
                    pieces[axis] = n
                yield Sink(put, chunks=tuple(pieces), single=True, lost=lost)


def _dialect(where: str, ome: bool | None, imagej: bool) -> Dialect:
    """Return the dialect of a new file."""
    if ome is not None:
        check_flag(ome, "ome")
    if imagej:
        if ome:
            raise ArgumentError("a file is of OME-TIFF or of ImageJ: leave out ome or imagej")
        return "imagej"
    if ome is None:
        ome = where.lower().endswith(_OME_SUFFIXES)
    return "ome" if ome else "plain"


def _settings(
    nbytes: int, dialect: Dialect, bigtiff: bool | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of ``tifffile.TiffWriter``; `options` keeps those of its `write`."""
    own = sorted(_OWN & set(options))
    if own:
        raise ArgumentError(
            f"the array already determines {', '.join(map(repr, own))}; leave it out, or set the "
            "attributes and coordinates of the array"
        )
    if bigtiff is not None:
        check_flag(bigtiff, "bigtiff")
    is_large = nbytes > _CLASSIC_BYTES
    settings: dict[str, Any] = {
        "bigtiff": is_large if bigtiff is None else bigtiff,
        "ome": dialect == "ome",
        "imagej": dialect == "imagej",
    }
    if "byteorder" in options:
        settings["byteorder"] = options.pop("byteorder")
        if settings["byteorder"] not in ("<", ">"):
            raise ArgumentError(f"byteorder is '<' or '>', not {settings['byteorder']!r}")
    elif dialect == "imagej":
        settings["byteorder"] = ">"
    if dialect == "imagej":
        if settings["bigtiff"]:
            raise ArgumentError(
                "ImageJ reads stacks of at most 4 GiB, and no BigTIFF; write OME-TIFF with ome=True"
            )
        if any(options.get(key) for key in _STORED):
            raise ArgumentError(
                "ImageJ reads stacks without compression, strips and tiles; leave out "
                f"{', '.join(sorted(_STORED & set(options)))}, or write OME-TIFF with ome=True"
            )
    elif bigtiff is False and is_large:
        raise ArgumentError(f"elements of {nbytes} bytes need BigTIFF; leave out bigtiff")
    return settings


def _checked_pyramid(pyramid: Any, dialect: Dialect) -> int:
    """Return a number of levels, if such a file can have it."""
    if isinstance(pyramid, bool) or not isinstance(pyramid, (int, np.integer)):
        raise ArgumentTypeError(f"pyramid is a number of levels, not {pyramid!r}")
    if pyramid < 0:
        raise ArgumentError(f"pyramid is a number of levels, not {pyramid}")
    if pyramid and dialect != "ome":
        raise ArgumentError("OME-TIFF alone has levels of a pyramid: give ome=True")
    return int(pyramid)


def _samples(given: Description, layout: Layout) -> dict[str, Any]:
    """Return the arguments of `write` that say how the samples of a pixel are stored."""
    if not layout.samples:
        # Without the second and third, a last axis of one column would be one of samples.
        return {"photometric": "minisblack", "planarconfig": "contig", "extrasamples": ()}
    n = layout.shape[layout.axes.index("S")]
    is_color = n in (3, 4) and given.dtype.kind == "u"
    return {"photometric": "rgb" if is_color else "minisblack", "planarconfig": layout.samples}


def _check_order(given: Description, layout: Layout) -> None:
    """Refuse axes in another order than that of strips and tiles."""
    long = [axis for axis in layout.order if given.shape[axis] > 1]
    if long != sorted(long):
        raise ArgumentError(
            "compression, tiles and elements of one bit need the axes in the file's order: "
            + hint(
                f"write np.transpose(a, {layout.order})",
                "make such an array with extarray rechunk --axes "
                + ",".join(map(str, layout.order)),
            )
        )


def _check_tile(tile: Any, layout: Layout, stored: np.dtype[Any]) -> None:
    """Refuse tiles that tifffile does not take, or that memory does not hold."""
    if not tile:
        return
    try:
        extents = [int(n) for n in tile]
    except (TypeError, ValueError):
        extents = []
    if len(extents) != 2 or min(extents) < 16 or any(n % 16 for n in extents):
        raise ArgumentError(f"tile is two multiples of 16, rows and columns, not {tile!r}")
    samples = layout.page[-1] if layout.samples == "contig" else 1
    if math.prod(extents) * samples * stored.itemsize > max(1 << 22, config.max_memory // 4):
        raise ArgumentError(
            f"a tile of {tuple(extents)} takes more than a quarter of config.max_memory; take a "
            "smaller one"
        )


def _try(
    tifffile: Any, layout: Layout, stored: np.dtype[Any], settings: Any, arguments: Any
) -> None:
    """Write a small image with the arguments, to learn whether tifffile takes them."""
    n = len(layout.lead)
    page = list(layout.page)
    for j, letter in enumerate(layout.axes[n:]):
        if letter != "S":
            page[j] = min(page[j], 16)
    tile = arguments.get("tile")
    try:
        one = np.zeros(page, stored)
        if tile:
            samples = layout.page[-1:] if layout.samples == "contig" else ()
            one = np.zeros((*tile, *samples), stored)
        count = layout.page[0] if tile and layout.samples == "separate" else 1
        with tifffile.TiffWriter(io.BytesIO(), **settings) as writer:
            writer.write(
                iter([one] * count),
                shape=(1,) * n + tuple(page),
                dtype=stored,
                metadata={"axes": layout.axes},
                **arguments,
            )
    except Exception as error:
        raise codec_error(error) or ArgumentError(
            f"tifffile cannot write such a file: {error}"
        ) from error


TIFF = Format(
    "tiff",
    TITLE,
    (".tif", ".tiff", ".btf", ".tf8", *_OME_SUFFIXES),
    source_of_series,
    _sink,
    part="a series",
    extra="tiff",
    names=names_of_series,
    load_group=_load_group,
)
