"""OME-Zarr: images with axes, places of pixels, channels and levels, in Zarr stores."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from extarray.array.array import ExtArray
from extarray.array.pyramid import SHARED, halved, level_count
from extarray.common.arguments import as_axis, as_int, check_choice
from extarray.common.calls import public
from extarray.common.config import config
from extarray.common.errors import ArgumentError, FormatError
from extarray.common.extras import require
from extarray.common.hints import hint
from extarray.format.images import (
    OMERO,
    ImageAxes,
    Labels,
    axes_of_image,
    channels_of,
    image_metadata,
    range_in,
    scales_of,
)
from extarray.format.labels import SPLIT, known_split
from extarray.format.missing import missing_elements
from extarray.formats.description import MOST_LABELS, Coordinate, Description
from extarray.formats.files import of_library, unknown_part
from extarray.formats.transfer import Format, Sink, Source, inverse
from extarray.formats.whole import WholeSource, load_whole
from extarray.formats.zarr import group_folder, opened, sink_of, source_of
from extarray.grid.tiles import tiles
from extarray.streaming.blocks import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike
    from typing import SupportsIndex

    from numpy.typing import NDArray

    from extarray.array.lazy import LazyView
    from extarray.common.arguments import Reported
    from extarray.grid.tiles import Box

__all__ = ["OME_ZARR", "from_ome_zarr", "to_ome_zarr"]

_TITLE = "OME-Zarr"
#: Versions of the metadata that are read; 0.5 is written.
_VERSIONS = ("0.1", "0.2", "0.3", "0.4", "0.5")


@public
def from_ome_zarr(
    store: Any,
    image: str | None = None,
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    level: int | None = 0,
    overwrite: bool = False,
    sparse: bool | None = None,
    compression: Any = None,
    significant_bits: int | None = None,
    progress: Reported = True,
    max_result: int | str | None = None,
) -> Any:
    """Make an array of an image in OME-Zarr, or a group of its levels or of all images.

    Parameters
    ----------
    store : str, PathLike, zarr.Group, or a store of zarr
        Anything that ``zarr.open`` takes.
    image : str, optional
        Path of the image in the store: ``"A/1/0"`` in a plate.  None: the store is the image, or
        has only one; of several, a group is made in the folder `path`.
    path : str, PathLike, or None
        Name of the new pair of files, or folder.  None: the array is in memory.
    chunks : int or sequence of int, optional
        Shape of a chunk.  None: that of the file's chunks, if these have 4 KiB or more; else as for
        `create`.
    level : int or None
        Level of the image: 0 has all elements, the next ones fewer and fewer.  None: all levels, as
        a group of arrays "0", "1" and so on, in the folder `path`.
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
        With the names of the image's axes.  Scales and translations are coordinates of the axes,
        with their ``units`` as symbols ("µm", "s"); names of channels are the coordinate of theirs.
        The image's name is the attribute ``"name"``, and the rendering of channels, with their
        colours and windows, the attribute ``"omero"``.

    Raises
    ------
    VariableError
        A KeyError: no such image, or one of several has to be named, as in a plate; the message
        names them.
    ArgumentError
        A ValueError: no such level.
    DTypeError
        A TypeError: elements that no array can have.
    FormatError
        A ValueError: the store has no image, or metadata that are not those of versions 0.1 to 0.5.
    MissingExtraError
        An ImportError: zarr is not installed.
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Warns
    -----
    LossyWarning
        The array cannot hold all of the file; the message names what is left out.

    Examples
    --------
    >>> import os, tempfile, numpy as np, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "cells.ome.zarr")
    >>> x = {"dims": ["x"], "data": [0.0, 0.5, 1.0, 1.5], "attrs": {"units": "µm"}}
    >>> a = xa.from_array(np.ones((3, 4), "u2"), dims=("y", "x"), attrs={"coords": {"x": x}})
    >>> xa.to_ome_zarr(a, name, levels=1)
    >>> b = xa.from_ome_zarr(name, level=1)
    >>> b.shape, b.dims, b.attrs["coords"]["x"]["data"].tolist()
    ((2, 2), ('y', 'x'), [0.25, 1.25])
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
    }
    if level is None:
        return _load_group(store, image, level=None, **options)
    if image is None and path is not None and len(_names(store)) > 1:
        return _load_group(store, None, level=level, **options)
    return OME_ZARR.load(store, image, level=level, **options)


def to_ome_zarr(
    a: ExtArray | LazyView,
    store: str | PathLike[str],
    *,
    selection: Any = None,
    levels: int | None = None,
    axes: SupportsIndex | str | Sequence[SupportsIndex | str] | None = None,
    how: Literal["mean", "nearest"] | str = "mean",
    overwrite: bool = False,
    progress: Reported = True,
    **options: Any,
) -> None:
    """Write an array as an image of OME-Zarr 0.5, with smaller levels, in bounded memory.

    Parameters
    ----------
    a : ExtArray or LazyView
        Its axes are some of ``t``, ``c``, ``z``, ``y`` and ``x`` (or ``time``, ``channel``), with
        ``y`` and ``x``; one of another name may be in the place of ``c``.  They are written in this
        order, whatever the array's.  Axes without names are the last of these, but z, y and x if
        they are three.  An axis that stands for several (``split``) is written as these.
    store : str or PathLike
        The folder to make, as a rule ``NAME.ome.zarr``.
    selection : index expression, optional
        Part of the array to write, such as ``np.s_[:, 1]``.  None: all.
    levels : int, optional
        Number of smaller levels.  None: until an image has at most 256 rows and columns.
    axes : int or str, or a sequence of these, optional
        Axes of which each level has half of the elements.  None: y and x.
    how : {"mean", "nearest"}
        Means of elements, as for `pyramid`; or the first of them, as labels and masks need it.
    overwrite : bool
        Replace the folder, if it is a Zarr store.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.
    **options
        Arguments of ``zarr.create_array``, for all levels: ``compressors``, ``shards``, ``chunks``.
        By default chunks are those of the array.

    Raises
    ------
    ExistsError
        A FileExistsError: the name is taken.
    DTypeError
        A TypeError: Zarr does not support the dtype.
    ShapeError
        A ValueError: fewer than 2 axes, or more than 5.
    ArgumentError
        A ValueError: names of axes that OME-Zarr does not have, more levels than the image has,
        unknown options.
    MissingExtraError
        An ImportError: zarr is not installed.
    BoundsError, SelectionError, StorageError

    Warns
    -----
    LossyWarning
        The file cannot hold all of the array; the message names what is left out.

    Notes
    -----
    The folder has its name when it is complete.  Coordinates of even steps become scales and
    translations, and their ``units`` the units of axes; the coordinate along the channels becomes
    their names.  A level's translations say where the middles of its pixels are.  Attributes stand
    with the array, those that `from_ome_zarr` makes in the metadata of the image.

    To show an array in place, without a copy, and while it grows: ``a.as_zarr_store(ome=True)``.

    Examples
    --------
    >>> import os, tempfile, numpy as np, zarr, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "cells.ome.zarr")
    >>> xa.to_ome_zarr(xa.from_array(np.ones((2, 600, 800), "u1"), dims=("t", "y", "x")), name)
    >>> [array.shape for _, array in sorted(zarr.open(name).arrays())]
    [(2, 600, 800), (2, 300, 400), (2, 150, 200)]
    """
    OME_ZARR.save(
        a,
        store,
        selection=selection,
        overwrite=overwrite,
        progress=progress,
        levels=levels,
        axes=axes,
        how=how,
        **options,
    )


# -- images in stores ----------------------------------------------------------------------------


def _said(group: Any) -> dict[str, Any]:
    """Return the metadata of a group: in a key of their own since version 0.5."""
    attrs = dict(group.attrs)
    own = attrs.get("ome", attrs)
    return own if isinstance(own, dict) else {}


def _images(store: Any, group: Any) -> list[str]:
    """Return the paths of the images in a group, which is one itself (""), or a collection."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    said = _said(group)
    if "multiscales" in said:
        return [""]
    if isinstance(said.get("plate"), dict):
        found = []
        for well in said["plate"].get("wells") or ():
            inner = group.get(well["path"])
            about = {} if inner is None else _said(inner).get("well", {})
            found += [f"{well['path']}/{each['path']}" for each in about.get("images") or ()]
        return found
    if isinstance(said.get("well"), dict):
        return [str(each["path"]) for each in said["well"].get("images") or ()]
    if isinstance(said.get("labels"), list):
        return [str(each) for each in said["labels"]]
    if "bioformats2raw.layout" in said:
        inner = group.get("OME")
        listed = _said(inner).get("series") if inner is not None else None
        if isinstance(listed, list):
            return [str(each) for each in listed]
        numbers = itertools.takewhile(
            lambda number: isinstance(group.get(number), zarr.Group), map(str, itertools.count())
        )
        return list(numbers)
    raise FormatError(
        f"{store!r} has no metadata of an image of OME-Zarr, nor of a plate or another collection; "
        + _what_reads_arrays()
    )


def _what_reads_arrays() -> str:
    return hint(
        "extarray.from_zarr reads its arrays", "extarray import --format zarr reads its arrays"
    )


def _opened_group(store: Any) -> Any:
    """Return the group of a store."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    found = opened(store)
    if not isinstance(found, zarr.Group):
        raise FormatError(
            f"{store!r} is an array of Zarr, and no image of OME-Zarr; "
            + hint("extarray.from_zarr reads it", "extarray import --format zarr reads it")
        )
    return found


def _names(store: Any) -> list[str]:
    """Return the paths of the images in a store; the path is empty if the store is one."""
    group = _opened_group(store)
    with of_library(store, _TITLE):
        return _images(store, group)


def _multiscale(store: Any, name: Any) -> tuple[Any, dict[str, Any], list[Mapping[str, Any]]]:
    """Return the group of an image, its metadata, and the entries of its levels."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    outer = _opened_group(store)
    with of_library(store, _TITLE):
        if name:
            group = outer.get(str(name).strip("/"))
            if not isinstance(group, zarr.Group) or "multiscales" not in _said(group):
                raise unknown_part(store, name, "an image", _images(store, outer))
        else:
            names = _images(store, outer)
            if len(names) != 1:
                raise unknown_part(store, None, "an image", names)
            group = outer.get(names[0]) if names[0] else outer
        said = _said(group)
        found = said.get("multiscales")
        first = found[0] if isinstance(found, list) and found else None
        datasets = first.get("datasets") if isinstance(first, dict) else None
        version = said.get("version", (first or {}).get("version", "0.4"))
        if version not in _VERSIONS:
            raise FormatError(
                f"{store!r} is OME-Zarr of version {version!r}; versions {_VERSIONS[0]} to "
                f"{_VERSIONS[-1]} are read; " + _what_reads_arrays()
            )
        if not isinstance(datasets, list) or not all(isinstance(d, dict) for d in datasets):
            raise FormatError(f"the metadata of {store!r} name no levels")
    return group, said, datasets


# -- reading -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _source(store: Any, name: Any = None, *, level: int = 0) -> Iterator[Source]:
    """Open a level of an image for reading."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    group, said, datasets = _multiscale(store, name)
    number = as_int(level, "level")
    if not 0 <= number < len(datasets):
        raise ArgumentError(f"level {level} is not there; the levels are 0 to {len(datasets) - 1}")
    with of_library(store, _TITLE):
        dataset = datasets[number]
        array = group.get(str(dataset.get("path")))
        if not isinstance(array, zarr.Array):
            raise FormatError(f"the metadata of {store!r} name an array {dataset!r}, which is none")
        source = _described(source_of(array), said, dataset, dict(group.attrs))
    yield source


def _described(
    source: Source, said: Mapping[str, Any], dataset: Mapping[str, Any], outer: dict[str, Any]
) -> Source:
    """Return the source of an array with what the metadata of its image say."""
    given, lost = source.description, list(source.lost)
    multiscale = said["multiscales"][0]
    axes, problems = scales_of(multiscale, dataset, given.ndim)
    lost += problems
    if len(said["multiscales"]) > 1:
        lost.append("the other multiscales of its metadata")
    names = tuple(axis.name for axis in axes)
    if len(set(names)) < len(names):
        raise FormatError(f"its metadata have the axes {names}, of which two have one name")
    attrs = dict(given.attrs)
    if outer.get("ome") is not None or "multiscales" in outer:
        own = {"ome", "multiscales", OMERO, "labels", "image-label"}
        attrs = {**{k: v for k, v in outer.items() if k not in own}, **attrs}
    coords: dict[str, Coordinate] = {}
    rendering = said.get(OMERO)
    for axis, n in zip(axes, given.shape, strict=True):
        if axis.kind == "channel":
            found = _labels_in(rendering, n)
            if found is not None:
                coords[axis.name] = Coordinate((axis.name,), found, {})
        elif axis.unit or axis.scale != 1 or axis.start:
            if n > MOST_LABELS:
                words = f"{axis.scale:.12g} {axis.unit}".rstrip()
                lost.append(
                    f"the step {words} of its elements along {axis.name!r}: the axis is too long"
                )
                continue
            values = axis.start + np.arange(n) * axis.scale
            coords[axis.name] = Coordinate(
                (axis.name,), values, {"units": axis.unit} if axis.unit else {}
            )
    if isinstance(rendering, dict):
        attrs.setdefault(OMERO, rendering)
    if isinstance(multiscale.get("name"), str) and multiscale["name"]:
        attrs.setdefault("name", multiscale["name"])
    description = replace(given, attrs=attrs, dims=names, coords=coords)
    return replace(source, description=description, lost=lost)


def _labels_in(rendering: Any, n: int) -> NDArray[Any] | None:
    """Return the names of channels; None: there are none."""
    channels = rendering.get("channels") if isinstance(rendering, dict) else None
    if not isinstance(channels, list) or len(channels) != n:
        return None
    labels = [each.get("label") if isinstance(each, dict) else None for each in channels]
    if not any(isinstance(label, str) and label for label in labels):
        return None
    return np.array([label if isinstance(label, str) else "" for label in labels])


# -- groups --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _levels_in(store: Any, image: Any) -> Iterator[WholeSource]:
    """Open all levels of an image."""
    _, _, datasets = _multiscale(store, image)

    def source(name: str) -> Any:
        return _source(store, image, level=int(name))

    yield WholeSource({"": {}}, [str(j) for j in range(len(datasets))], source, [])


@contextlib.contextmanager
def _images_in(store: Any, level: int) -> Iterator[WholeSource]:
    """Open all images of a collection."""
    yield WholeSource({"": {}}, _names(store), partial(_source, store, level=level), [])


def _load_group(
    store: Any, name: Any = None, *, path: Any, level: int | None = 0, **options: Any
) -> Any:
    """Make a group of all images of a collection, or of all levels of one image."""
    if path is None:
        raise ArgumentError("a group of levels is a folder; give its path")
    is_one = name is not None or len(_names(store)) == 1
    if is_one:
        return load_whole(_TITLE, store, _levels_in(store, name), path, **options)
    if level is None:
        raise unknown_part(store, None, "an image", _names(store))
    return load_whole(_TITLE, store, _images_in(store, level), path, **options)


# -- writing -------------------------------------------------------------------------------------


def _as_shown(a: Any) -> Any:
    """Return an array with the axes for which others stand, if it says so."""
    if isinstance(a, ExtArray) and known_split(a.attrs.get(SPLIT), a.dims):
        return a.lazy.split()
    return a


@contextlib.contextmanager
def _sink(
    store: Any,
    name: Any,
    given: Description,
    *,
    overwrite: bool = False,
    levels: int | None = None,
    axes: Any = None,
    how: str = "mean",
    **options: Any,
) -> Iterator[Sink]:
    """Create the group of an image in a folder beside its place."""
    require("zarr", "zarr", _TITLE)
    check_choice(how, "how", ("mean", "nearest"))
    lost: list[str] = []
    image = axes_of_image(given.dims, given.shape, _labels(given, lost), lost)
    order = image.order
    if given.dims is not None and image.names != given.dims:
        lost.append(f"the order of the axes {given.dims}, which are {image.names}")
    attrs = dict(given.attrs)
    kept, said = attrs.pop(OMERO, None), attrs.pop("name", None)
    if not isinstance(said, str):
        said = (
            name if isinstance(name, str) and name else os.path.basename(str(store)).split(".")[0]
        )
    own = replace(
        given,
        shape=_turned(given.shape, order),
        chunks=_turned(given.chunks or given.shape, order),
        dims=image.names,
        coords={},
        attrs=attrs,
    )
    halves = _halved_axes(axes, given, image)
    count = _checked_levels(levels, [own.shape[j] for j in halves], own.shape)
    with group_folder(store, overwrite, _TITLE) as fresh:
        with sink_of(fresh, "0", own, **options) as top:
            lost += top.lost
            is_same = order == tuple(range(len(order)))
            back = inverse(order)

            def write(box: Box, values: NDArray[Any]) -> None:
                top.write(_turned(box, order), values.transpose(order))

            yield Sink(
                top.write if is_same else write,
                chunks=None if top.chunks is None else _turned(top.chunks, back),
                single=top.single,
                parallel=top.parallel,
                lost=lost,
                payloads=top.payloads if is_same else None,
            )
        with of_library(store, _TITLE):
            about = _write_levels(fresh, own, halves, count, how, options)
            _write_metadata(fresh, image, about, said, how, kept)


def _turned(items: Sequence[Any], order: Sequence[int]) -> tuple[Any, ...]:
    """Return the items of axes in an order."""
    return tuple(items[j] for j in order)


def _labels(given: Description, lost: list[str]) -> dict[str, Labels]:
    """Return the labels along single axes; `lost` collects other coordinates."""
    found = {}
    for name, each in given.coords.items():
        if each.dims == (name,) and given.dims is not None and name in given.dims:
            found[name] = Labels(each.values, 0, each.attrs)
        else:
            lost.append(f"coordinate {name!r}")
    return found


def _halved_axes(axes: Any, given: Description, image: ImageAxes) -> list[int]:
    """Return the axes that levels halve, by their numbers in the file."""
    if axes is None:
        return [len(image.axes) - 2, len(image.axes) - 1]
    chosen = [axes] if isinstance(axes, str) or not np.iterable(axes) else list(axes)
    found = []
    for name in chosen:
        if isinstance(name, str):
            if name not in image.names:
                raise ArgumentError(f"there is no axis {name!r}; the axes are {image.names}")
            found.append(image.names.index(name))
        else:
            found.append(image.order.index(as_axis(name, given.ndim)))
    if not found or len(set(found)) < len(found):
        raise ArgumentError(f"axes names one axis or more, each once, not {axes!r}")
    return sorted(found)


def _checked_levels(levels: Any, extents: list[int], shape: tuple[int, ...]) -> int:
    """Return the number of smaller levels."""
    if levels is None:
        return level_count(extents)
    count = as_int(levels, "levels")
    if count < 0 or (count and max(extents) >> count == 0):
        raise ArgumentError(f"an image of shape {shape} does not have {levels} smaller levels")
    return count


def _write_levels(
    fresh: str, own: Description, halves: list[int], count: int, how: str, options: dict[str, Any]
) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Write the smaller levels, each from the one before; return the factors of all."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    zeros = (0,) * own.ndim
    about = [("0", (1,) * own.ndim, zeros)]
    missing = missing_elements(own.attrs, own.dtype)
    attrs = {name: own.attrs[name] for name in SHARED if name in own.attrs}
    shape = own.shape
    for number in range(1, count + 1):
        above = source_of(zarr.open(os.path.join(fresh, str(number - 1)), mode="r"))
        larger = shape
        shape = tuple(-(-n // 2) if j in halves else n for j, n in enumerate(larger))
        with sink_of(fresh, str(number), replace(own, shape=shape, attrs=attrs), **options) as sink:

            def work(
                _: int, box: Box, above: Any = above, sink: Any = sink, larger: Any = larger
            ) -> None:
                place = tuple(
                    slice(2 * s.start, min(2 * s.stop, n)) if j in halves else s
                    for j, (s, n) in enumerate(zip(box, larger, strict=True))
                )
                values = halved(above.read(place), halves, how, missing)
                sink.write(box, np.ascontiguousarray(values))

            chunks = sink.chunks or shape
            limit = max(1, min(1 << 22, config.max_memory >> (3 + len(halves))))
            boxes = tiles(shape, chunks, own.dtype.itemsize, limit=limit, split=False)
            if sink.parallel and above.parallel:
                run(work, boxes, math.prod(shape) * own.dtype.itemsize)
            else:
                for box in boxes:
                    work(0, box)
        factors = tuple(1 << number if j in halves else 1 for j in range(own.ndim))
        about.append((str(number), factors, zeros))
    return about


def _write_metadata(
    fresh: str,
    image: ImageAxes,
    about: list[tuple[str, tuple[int, ...], tuple[int, ...]]],
    name: str,
    how: str,
    kept: Any,
) -> None:
    """Write the metadata of an image into its group."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    group = zarr.open_group(fresh, mode="r+", zarr_format=3)
    omero = None
    if image.channels is not None or isinstance(kept, dict):
        place = image.channel
        n = 1 if place is None else group["0"].shape[place]
        # The smallest level that has all channels.
        level = group[next(p for p, f, _ in reversed(about) if place is None or f[place] == 1)]
        ranges = [range_in(level, image, j) for j in range(n)]
        omero = channels_of(image.channels, n, np.dtype(level.dtype), ranges, kept)
    group.attrs["ome"] = image_metadata(image, about, name, how, omero)


OME_ZARR = Format(
    "ome-zarr",
    _TITLE,
    (".ome.zarr",),
    _source,
    _sink,
    part="an image",
    extra="zarr",
    names=_names,
    load_group=_load_group,
    view=_as_shown,
)
