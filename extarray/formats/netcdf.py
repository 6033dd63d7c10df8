"""netCDF 3 and 4: variables with their dimensions and coordinates, through netCDF4."""

from __future__ import annotations

import contextlib
import errno
import math
import os
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from extarray.array.folders import Group
from extarray.common import system
from extarray.common.arguments import check_choice, check_flag
from extarray.common.calls import public
from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ExistsError,
)
from extarray.common.extras import require
from extarray.format.labels import CHARACTERS, UNLIMITED, axis_names
from extarray.formats.description import Description, Packing, other_packing
from extarray.formats.files import (
    Claims,
    Room,
    beside,
    check_shape_is,
    file_name,
    named_part,
    of_library,
    successor,
    target_name,
    to_disk,
    written,
)
from extarray.formats.hdf5_parts import (
    DTYPE_NOTE,
    ENUM,
    chunk_writer,
    fixed_text,
    in_place,
    payloads_of,
    takes_chunks,
    text_dtype,
    with_holes,
    with_room,
)
from extarray.formats.netcdf_classic import check_ends, ends_of
from extarray.formats.netcdf_parts import (
    Dim,
    Growth,
    as_it_is,
    attrs_that_fit,
    copy_group,
    dimension,
    fill_for,
    fill_value,
    having,
    labels_beside,
    make,
    make_dims,
    name_in_hdf5,
    path_of,
    read_attrs,
    read_coords,
    restored,
    room_for,
    stored_as,
    unknown_names,
)
from extarray.formats.transfer import Edit, Format, Sink, Source, runs
from extarray.formats.whole import (
    WholeSink,
    WholeSource,
    load_whole,
    of_group,
    save_whole,
)
from extarray.storage.filesystem import File, family

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike
    from typing import SupportsIndex

    from numpy.typing import NDArray

    from extarray.array.array import ExtArray
    from extarray.array.lazy import LazyView
    from extarray.common.arguments import Reported
    from extarray.grid.tiles import Box

    Model = Literal[
        "NETCDF4",
        "NETCDF4_CLASSIC",
        "NETCDF3_CLASSIC",
        "NETCDF3_64BIT_OFFSET",
        "NETCDF3_64BIT_DATA",
    ]

__all__ = ["NETCDF", "from_netcdf", "to_netcdf"]

_TITLE = "netCDF"
_INSTEAD = " (in a file that is open, with netCDF4.Dataset(..., 'r+'), it is written in place)"
MODELS = (
    "NETCDF4",
    "NETCDF4_CLASSIC",
    "NETCDF3_CLASSIC",
    "NETCDF3_64BIT_OFFSET",
    "NETCDF3_64BIT_DATA",
)


@public
def from_netcdf(
    file: Any,
    variable: str | None = None,
    *,
    path: str | PathLike[str] | None = None,
    chunks: SupportsIndex | Sequence[SupportsIndex] | None = None,
    mask_and_scale: bool = False,
    text: Any = "U",
    overwrite: bool = False,
    sparse: bool | None = None,
    compression: Any = None,
    significant_bits: int | None = None,
    progress: Reported = True,
    max_result: int | str | None = None,
) -> Any:
    """Make an array of a variable, or a group of a whole netCDF file, in bounded memory.

    Parameters
    ----------
    file : str, PathLike, netCDF4.Dataset, netCDF4.Group or netCDF4.Variable
    variable : str, optional
        Name of the variable: ``"group/name"``; not for a ``netCDF4.Variable``.  None, with a path:
        the whole file becomes a group in the folder `path`.
    path : str, PathLike, or None
        Name of the new pair of files, or folder.  None: the array is in memory.
    chunks : int or sequence of int, optional
        Shape of a chunk.  None: that of the file's chunks, if these have 4 KiB or more; else as for
        `create`.
    mask_and_scale : bool
        Unpack numbers as the attributes ``scale_factor``, ``add_offset``, ``_FillValue``,
        ``missing_value`` and ``_Unsigned`` say; missing elements become NaN.  False: take elements
        and attributes as they are.
    text : {"U", "S"} or dtype_like
        Data type for texts of variable length: "U", which fits the longest, "U20", for example, or
        "S" for their bytes.
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
        With the attributes, fill value and dimensions of the variable.  Its coordinates are the
        variables named like its dimensions, those in its attributes ``coordinates`` and
        ``grid_mapping``, and their ``bounds``.  The attribute ``unlimited_dims`` names the
        dimensions that are unlimited in the file, and ``char_dim_name`` the one along which single
        bytes are the characters of texts; xarray joins them.  In a group, every variable is an
        array, and arrays refer to their coordinates by name.  A group is open in mode "r+".

    Raises
    ------
    VariableError
        A KeyError: no variable of this name; the message names those in the file.
    DTypeError
        A TypeError: texts or sequences of variable length.
    FormatError
        A ValueError: the file is damaged, or of another format.
    MissingExtraError
        An ImportError: netCDF4 is not installed.
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Warns
    -----
    LossyWarning
        The array cannot hold all of the file; the message names what is left out.

    Notes
    -----
    Compressed chunks of a netCDF-4 file that is given by its path are taken over as `from_hdf5`
    does it, if h5py is installed: ``compression="zlib:shuffle"``, for example.

    Examples
    --------
    >>> import os, tempfile, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "rain.nc")
    >>> rain = xa.from_array([[1, 2], [3, 4]], dims=("time", "x"), attrs={"units": "mm"})
    >>> xa.to_netcdf(rain, name, "rain", unlimited="time")
    >>> a = xa.from_netcdf(name, "rain")
    >>> a.dims, a.attrs["units"], a.attrs["unlimited_dims"]
    (('time', 'x'), 'mm', ['time'])
    """
    if variable is None and path is not None and not hasattr(file, "dtype"):
        return load_whole(
            _TITLE,
            file,
            _whole_source(file, text),
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
    return NETCDF.load(
        file,
        variable,
        text=text,
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


def to_netcdf(
    a: ExtArray | LazyView | Group,
    file: str | PathLike[str],
    variable: str | None = None,
    *,
    selection: Any = None,
    unlimited: bool | str | Sequence[str] | None = None,
    format: Model | str | None = None,
    overwrite: bool = False,
    progress: Reported = True,
    **options: Any,
) -> None:
    """Add an array to a netCDF file, or write a group to a new one, in bounded memory.

    Parameters
    ----------
    a : ExtArray, LazyView or Group
        A group becomes a whole file.
    file : str or PathLike
        A file that does not exist is made.
    variable : str, optional
        Name of the variable: ``"group/name"``; groups are made.  None for a group.
    selection : index expression, optional
        Part of the array to write, such as ``np.s_[:, 1]``.  None: all.
    unlimited : bool, str or sequence of str, optional
        Names of the dimensions that may grow in the file; True: all.  None: those in the attribute
        ``unlimited_dims``.  In netCDF 3, only the first dimension can be unlimited.
    format : {"NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", ...}, optional
        Data model, as in ``netCDF4.Dataset``.  None: that of the file, or "NETCDF4".
    overwrite : bool
        Replace a variable that has this name; for a group, the file.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.
    **options
        Arguments of ``netCDF4.Dataset.createVariable``: ``compression="zlib"``,
        ``shuffle=True``, ``chunksizes``.  By default chunks are those of the array.

    Raises
    ------
    ExistsError
        A FileExistsError: the file has a variable of this name.
    DTypeError
        A TypeError: netCDF does not support the dtype.
    ArgumentError
        A ValueError: options that netCDF does not have.
    MissingExtraError
        An ImportError: netCDF4 is not installed.
    BoundsError, SelectionError, StorageError

    Warns
    -----
    LossyWarning
        The file cannot hold all of the array; the message names what is left out.

    Notes
    -----
    A new file appears when it is complete; an existing one is copied and replaced.  netCDF cannot
    remove variables: `overwrite` replaces the whole file, if it only has this variable and its
    coordinates, or the elements of a variable of the same dtype and dimensions.

    Compressed chunks of the array are written to a new file as `to_hdf5` does it, if h5py is
    installed: with ``compression="zlib"``, and ``shuffle`` as their filter is.

    A fill value other than zero is the variable's ``_FillValue``.  Dates become numbers with
    ``units``, texts bytes with an additional dimension, booleans bytes; complex numbers get a
    dimension of 2.  `from_netcdf` restores them.

    Examples
    --------
    >>> import os, tempfile, netCDF4, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "rain.nc")
    >>> xa.to_netcdf(xa.from_array([[1, 2], [3, 4]], dims=("time", "x")), name, "rain")
    >>> with netCDF4.Dataset(name) as d:
    ...     d["rain"].dimensions, d["rain"][0].tolist()
    (('time', 'x'), [1, 2])
    """
    if isinstance(a, Group):
        if variable is not None:
            raise ArgumentError("a group is written whole, into its own file; leave out name")
        whole = _whole_sink(file, overwrite, unlimited, format, options)
        save_whole(_TITLE, a, file, whole, selection=selection, progress=progress)
        return
    NETCDF.save(
        a,
        file,
        variable,
        selection=selection,
        unlimited=unlimited,
        format=format,
        overwrite=overwrite,
        progress=progress,
        **options,
    )


def _encoding(name: str, told: str) -> dict[str, str]:
    """Return the option of netCDF4 that tells its library which file has a name.

    On Windows, the library takes UTF-8 for the system's code page, and would use another file.
    Errors tell the name that the user knows.
    """
    code = system.NARROW_NAMES
    if code is None or name.isascii():
        return {}
    try:
        name.encode(code)
    except UnicodeEncodeError as error:
        raise ArgumentError(
            f"netCDF4 cannot use {told!r} on this system: its code page lacks "
            f"{error.object[error.start]!r}; rename the file or its folder"
        ) from None
    return {"encoding": code}


@contextlib.contextmanager
def opened(file: Any, mode: str, **options: Any) -> Iterator[Any]:
    """Open a netCDF4 dataset, group or variable, or yield the one that the user has open."""
    nc: Any = require("netCDF4", "netcdf", "netCDF")
    if isinstance(file, (nc.Dataset, nc.Variable)):
        yield file
        return
    where = file_name(file, _TITLE)
    with of_library(where, _TITLE):
        if mode != "w":
            os.stat(where)  # raises the error of the system
        dataset = nc.Dataset(where, mode, **options, **_encoding(where, where))
    try:
        yield dataset
    except BaseException:
        with contextlib.suppress(Exception):
            dataset.close()
        raise
    with of_library(where, _TITLE):
        dataset.close()


def _walk(group: Any, prefix: str = "") -> Iterator[str]:
    """Yield the names of all variables in a group and below."""
    for name in group.variables:
        yield prefix + name
    for name, inner in group.groups.items():
        yield from _walk(inner, f"{prefix}{name}/")


def _names(file: Any) -> list[str]:
    """Return the names of the variables in a file."""
    with opened(file, "r") as dataset, of_library(file, _TITLE):
        return list(_walk(dataset))


def _group_of(dataset: Any, path: list[str]) -> Any:
    """Return a group of a dataset, or None."""
    for name in path:
        dataset = dataset.groups.get(name)
        if dataset is None:
            return None
    return dataset


def _variable_of(dataset: Any, name: Any) -> Any:
    """Return a variable of a dataset, or None."""
    *path, last = str(name).strip("/").split("/")
    group = _group_of(dataset, path)
    return None if group is None else group.variables.get(last)


def find(dataset: Any, name: Any, file: Any) -> Any:
    """Return a variable of netCDF4 by its name, as `named_part` does."""
    nc: Any = require("netCDF4", "netcdf", "netCDF")
    return named_part(
        dataset,
        name,
        file,
        title=_TITLE,
        part="a variable",
        kind=nc.Variable,
        look_up=_variable_of,
        names=_walk,
    )


# -- reading -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _source(
    file: Any, name: Any = None, *, text: Any = "U", is_alone: bool = True, is_ours: bool = False
) -> Iterator[Source]:
    """Open a variable for reading, alone or as one of all in its file.

    `is_ours`: the dataset that is given was opened here, not by the user.
    """
    with opened(file, "r") as dataset:
        variable = find(dataset, name, file)
        with as_it_is(variable), contextlib.ExitStack() as stack:
            with of_library(file, _TITLE):
                source = source_of(variable, text, is_alone)
                if dataset is not file or is_ours:
                    source = _within_its_file(variable, source)
                if dataset is not file:
                    source = stack.enter_context(_in_place(variable, source))
            yield source


def _within_its_file(variable: Any, source: Source) -> Source:
    """Return a source that raises FormatError for a file that was cut off.

    The library reads zeros there.  A file that the user has open may lack what is not written yet.
    """
    root = _root_of(variable)
    if not root.data_model.startswith("NETCDF3"):
        return source
    path, read = root.filepath(), source.read
    ends, needed = ends_of(path), {variable.name, *source.description.coords}
    if not ends:
        return source

    def checked(box: Box) -> NDArray[Any]:
        check_ends(path, ends, needed)
        return read(box)

    check_ends(path, ends, needed)
    return replace(source, read=checked)


@contextlib.contextmanager
def _in_place(variable: Any, source: Source) -> Iterator[Source]:
    """Yield a source that maps elements in an HDF5 file, if h5py finds them contiguous."""
    root, given = _root_of(variable), source.description
    found = None
    with contextlib.ExitStack() as stack:
        if root.data_model.startswith("NETCDF4") and find_spec("h5py") is not None:
            h5py: Any = require("h5py", "hdf5", "HDF5")
            with contextlib.suppress(OSError, RuntimeError, ValueError, KeyError):
                # netCDF4 tells neither where elements lie nor which chunks exist.  With h5py,
                # contiguous elements take half the time, and a sparse import reads no hole.
                file = stack.enter_context(h5py.File(root.filepath(), "r"))
                group = variable.group()
                inside = name_in_hdf5(variable.name, variable.dimensions, group)
                dataset = file[f"{group.path}/{inside}"]
                # The shapes differ if another variable is longer along an unlimited dimension.
                if dataset.shape == given.shape and dataset.dtype == given.dtype == variable.dtype:
                    found = in_place(dataset, given.dtype, given, source.read) or source
                    found = replace(found, payloads=payloads_of(dataset, given.dtype))
                    found = with_holes(found, dataset)
        yield source if found is None else replace(found, lost=source.lost, stored=source.stored)


def source_of(variable: Any, text: Any = "U", is_alone: bool = True) -> Source:
    """Return a source for the stored elements of a netCDF4 variable."""
    nc: Any = require("netCDF4", "netcdf", "netCDF")
    lost: list[str] = []
    attrs = read_attrs(variable, lost)
    shape, dims = tuple(variable.shape), tuple(variable.dimensions)
    kind, decode = variable.dtype, None
    where, stored = f"the variable {variable.name!r}", _Stored(_root_of(variable))
    outer = len(shape)
    if kind is str or np.dtype(kind).hasobject or isinstance(variable.datatype, nc.VLType):
        if kind is not str:
            raise DTypeError(
                f"{where} has sequences of variable length; pad them to one length, in a variable "
                "with one more dimension"
            )
        is_bytes = np.dtype(text).kind == "S"

        def texts(box: Any) -> NDArray[Any]:
            x = np.asarray(variable[box], object)
            if is_bytes:
                return np.array([v.encode() for v in x.ravel()], object).reshape(x.shape)
            return x

        Claims(where).add(math.prod(shape), stored)
        steps = runs(shape, 64, max(1, config.max_memory // 4))
        kind = text_dtype(map(texts, steps), text)

        def read(box: Box) -> NDArray[Any]:
            return fixed_text(texts(box or ...), kind, where)
    else:
        kind, outer, decode = restored(np.dtype(kind), len(shape), shape, attrs)
        inner = tuple(slice(0, n) for n in shape[outer:])

        def read(box: Box) -> NDArray[Any]:
            values = np.asarray(variable[(*box, *inner) or ...])
            return values if decode is None else decode(values)

    if isinstance(variable.datatype, nc.EnumType) and ENUM not in attrs:
        attrs[ENUM] = {str(k): int(v) for k, v in variable.datatype.enum_dict.items()}
    pieces = variable.chunking()
    own = dims[:outer]
    given = Description(
        shape[:outer],
        kind,
        tuple(pieces[:outer]) if isinstance(pieces, list) else None,
        fill_value(attrs, kind) if decode is None else 0,
        attrs,
        dims=None if own == axis_names(None, outer) else own,
        packing=Packing.of_attrs(attrs, kind),
    )
    if len(set(own)) < len(own):
        lost.append(f"the names of the axes {own}, since one occurs twice")
        given.dims = None
    if given.dims is not None:
        found = {d: dimension(variable.group(), d) for d in own}
        given.unlimited = tuple(d for d in own if found[d] is not None and found[d].isunlimited())
    if given.dims is not None and is_alone:
        given.coords = read_coords(variable, own, attrs, lost)
    if kind == "S1" and own:
        attrs[CHARACTERS] = own[-1]
    return Source(given, read, lost=lost, stored=stored)


# -- writing -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _sink(
    file: Any,
    name: Any,
    given: Description,
    *,
    overwrite: bool = False,
    unlimited: Any = None,
    format: Any = None,
    **options: Any,
) -> Iterator[Sink]:
    """Create a variable in a new file, or in a copy that then replaces the file."""
    require("netCDF4", "netcdf", "netCDF")
    where = target_name(file, _TITLE)
    if not isinstance(name, str) or not name.strip("/"):
        raise ArgumentTypeError("name the variable: 'rain', for example")
    if format is not None:
        check_choice(format, "format", MODELS)
    check_flag(overwrite, "overwrite")
    growing = _unlimited(given, unlimited)
    with contextlib.ExitStack() as stack:
        mode = "w"
        if os.path.exists(where):
            new = stack.enter_context(successor(where, _TITLE))
            fresh = new.name
            if not _check_place(where, name, given, overwrite):
                new.copy()
                mode = "r+"
        else:
            fresh = stack.enter_context(beside(where, False))
        writing = stack.enter_context(contextlib.ExitStack())
        dataset, room = writing.enter_context(_written(fresh, where, mode, format or "NETCDF4"))
        if format is not None and dataset.data_model != format:
            raise ArgumentError(f"{where!r} is a file of {dataset.data_model}, not {format}")
        with of_library(where, _TITLE):
            sink = _variable_sink(dataset, name, given, growing, options, room)
            sink.lost += unknown_names(dataset[name])
        if mode == "w" and _is_plain(dataset, name, given):
            if growing:  # the library fills all variables along an unlimited dimension
                last = tuple(n - 1 for n in given.shape)
                with of_library(where, _TITLE):
                    dataset[name][last] = np.zeros((), given.dtype)
            writing.close()
            sink = writing.enter_context(_by_h5py(fresh, where, name, given, sink))
        yield sink


@contextlib.contextmanager
def _written(fresh: str, where: str, mode: str, model: str) -> Iterator[tuple[Any, Room]]:
    """Open a private file for writing, and allocate its space."""
    nc: Any = require("netCDF4", "netcdf", "netCDF")
    own = _encoding(fresh, where) | ({"format": model} if mode == "w" else {})
    with written(
        fresh,
        where,
        _TITLE,
        lambda: nc.Dataset(fresh, mode, **own),
        lambda dataset: dataset.sync(),
    ) as both:
        yield both


def _is_plain(dataset: Any, name: str, given: Description) -> bool:
    """Tell whether h5py may write the elements of a new variable directly."""
    if not dataset.data_model.startswith("NETCDF4") or find_spec("h5py") is None:
        return False
    variable = dataset[name]
    # h5py compresses like netCDF4, and takes chunks that are compressed already.
    own = {"complevel": 0, "zlib": False, "shuffle": False}
    filters = {**(variable.filters() or {}), **own}
    return (
        0 not in given.shape
        and given.dtype.kind in "iuf"
        and variable.dtype == given.dtype
        and isinstance(variable.chunking(), list)
        and not any(filters.values())
        and variable.quantization() is None
        # otherwise HDF5 knows it by another name
        and dimension(variable.group(), variable.name) is None
    )


@contextlib.contextmanager
def _by_h5py(fresh: str, where: str, name: str, given: Description, sink: Sink) -> Iterator[Sink]:
    """Yield a sink that writes whole chunks of a new variable directly."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    with written(
        fresh,
        where,
        _TITLE,
        lambda: h5py.File(fresh, "r+"),
        lambda file: file.flush(),
        lambda file: file.id.get_filesize(),
    ) as (file, room):
        with of_library(where, _TITLE):
            dataset = file[name]
            single = takes_chunks(dataset, given.dtype)
            payloads = payloads_of(dataset, given.dtype, room)
        write = chunk_writer(dataset) if single else dataset.__setitem__
        write = with_room(dataset, room, write)
        yield replace(sink, write=write, single=single, payloads=payloads)


def _unlimited(given: Description, asked: Any) -> tuple[str, ...]:
    """Return the names of the dimensions that may grow."""
    names = axis_names(given.dims, given.ndim)
    if asked is None:
        return given.unlimited
    if isinstance(asked, bool):
        return names if asked else ()
    wanted = (asked,) if isinstance(asked, str) else tuple(asked)
    unknown = [d for d in wanted if d not in names]
    if unknown:
        raise ArgumentError(f"unlimited names {unknown}, but the array has axes {names}")
    return wanted


def _check_place(where: str, name: str, given: Description, overwrite: bool) -> bool:
    """Refuse an existing name; tell whether the whole file is replaced."""
    with opened(where, "r") as dataset:
        *path, last = name.strip("/").split("/")
        group = _group_of(dataset, path)
        if group is None or last not in group.variables:
            return False
        if not overwrite:
            raise ExistsError(
                errno.EEXIST,
                f"it already has a variable {name!r}; replace it with overwrite=True",
                where,
            )
        variable = group.variables[last]
        own = {name.strip("/"), *given.coords, *variable.dimensions}
        own |= set(str(getattr(variable, "coordinates", "")).split())
        if set(_walk(dataset)) <= own:
            return True
        raise ExistsError(
            errno.EEXIST,
            f"it has {name!r} among other variables, and netCDF cannot remove variables; write to "
            "another file, or under another name",
            where,
        )


def _variable_sink(
    dataset: Any,
    name: str,
    given: Description,
    growing: tuple[str, ...],
    options: dict[str, Any],
    room: Room,
) -> Sink:
    """Create a variable and its coordinates."""
    model = dataset.data_model
    lost: list[str] = other_packing(given.attrs)
    *path, last = str(name).strip("/").split("/")
    group = dataset
    for part in path:
        if not model == "NETCDF4":
            raise ArgumentError(f"a {model} file has no groups")
        group = group.groups[part] if part in group.groups else group.createGroup(part)
    stored = stored_as(given.dtype, model)
    room.need(2 * sum(each.values.nbytes for each in given.coords.values()), len(given.coords))
    dims = make_dims(group, last, given, growing)
    attrs = dict(given.attrs)
    attrs.pop(CHARACTERS, None)  # the type in the file implies it
    extra = labels_beside(group, last, given, lost)
    if extra:
        attrs["coordinates"] = " ".join(extra)
    settings = dict(options)
    if given.shape and model.startswith("NETCDF4"):
        assert given.chunks is not None
        pieces = [
            c if d in growing else max(1, min(c, n))
            for c, n, d in zip(given.chunks, given.shape, dims, strict=True)
        ]
        settings.setdefault("chunksizes", (*pieces, *stored.inner))
    fill = fill_for(given, stored, attrs, lost)
    if not model.startswith("NETCDF4"):  # which writes fill values at once
        extents = [max(n, len(dimension(group, d))) for n, d in zip(given.shape, dims, strict=True)]
        room.need(math.prod((*extents, *stored.inner)) * stored.dtype.itemsize)
    variable = make(group, last, stored, dims, attrs, fill, settings, lost)
    inner = tuple(slice(0, n) for n in stored.inner)
    need = room_for(variable, room)

    def write(box: Box, values: NDArray[Any]) -> None:
        need(box)
        variable[(*box, *inner) or ...] = values if stored.encode is None else stored.encode(values)

    chunks = variable.chunking()
    return Sink(
        write,
        chunks=tuple(chunks[: given.ndim]) if isinstance(chunks, list) else None,
        lost=lost,
    )


@contextlib.contextmanager
def _edit(
    file: Any,
    name: Any,
    old: tuple[int, ...],
    new: tuple[int, ...],
    moved: tuple[int, ...],
    replace: bool,
) -> Iterator[Edit]:
    """Open a variable for change; its file is recreated unless unlimited dimensions suffice.

    It is also recreated if the first element moves along a shared dimension.  Changes are made in a
    copy that replaces the file, or in place if the user has the file open.
    """
    nc: Any = require("netCDF4", "netcdf", "netCDF")

    def plan(dataset: Any) -> tuple[Any, dict[Dim, Growth]]:
        variable = find(dataset, name, file)
        check_shape_is(tuple(variable.shape[: len(old)]), old)
        return variable, _growth(variable, new, moved)

    if isinstance(file, (nc.Dataset, nc.Variable)):
        variable, growth = plan(file)
        root = _root_of(variable)
        if any(each.needs_file for each in growth.values()):
            with _remade_here(file, variable, growth, replace) as edit:
                yield edit
            return
        with _open_in_place(root) as room:
            yield from _grown(variable, growth, room, room.need)
        return
    where = target_name(file, _TITLE)
    with contextlib.ExitStack() as stack:
        there = stack.enter_context(successor(where, _TITLE, _INSTEAD))
        with opened(where, "r") as dataset:
            variable, growth = plan(dataset)
            if any(each.needs_file for each in growth.values()):
                with _remade(there.name, where, variable, growth) as edit:
                    yield edit
                return
        there.copy()
        dataset, room = stack.enter_context(_written(there.name, where, "r+", ""))
        variable, growth = plan(dataset)
        yield from _grown(variable, growth, room, None)


def _grown(variable: Any, growth: dict[Dim, Growth], room: Room, reserve: Any) -> Iterator[Edit]:
    """Yield the change of a variable that can grow in its file."""
    need = room_for(variable, room)

    def write(box: Box, values: NDArray[Any]) -> None:
        need(box)
        _put_elements(variable, box, values)

    said = [each.said(dim) for (_, dim), each in growth.items()]
    with as_it_is(variable):
        yield Edit(write, partial(_put_attrs, variable), reserve, said=said)


@contextlib.contextmanager
def _open_in_place(root: Any) -> Iterator[Room]:
    """Yield the space of a file that the user has open."""
    where = root.filepath()
    with family("cannot write '{}'", where):
        own = File.open(where, os.O_RDWR) if os.path.isfile(where) else None
    room = Room(own, where, _TITLE)
    try:
        with of_library(where, _TITLE):
            root.sync()
        room.need(0)
        yield room
        with of_library(where, _TITLE):
            root.sync()
    finally:
        with contextlib.suppress(OSError, RuntimeError):
            root.sync()  # into the allocated space
        room.close()


def _growth(variable: Any, new: tuple[int, ...], moved: tuple[int, ...]) -> dict[Dim, Growth]:
    """Return the growth of each dimension of a variable, or refuse it."""
    found: dict[Dim, Growth] = {}
    changed: set[Dim] = set()
    for dim, n, extent, move in zip(variable.dimensions, new, variable.shape, moved, strict=False):
        there = dimension(variable.group(), dim)
        key = (there.group().path, dim)
        sharing = [name for name in having(_root_of(variable), key) if name != path_of(variable)]
        needs_file = bool(n > extent and not there.isunlimited()) or bool(move and sharing)
        growth = Growth(n, move, sharing, needs_file)
        problem = ""
        if n < extent:
            problem = f"cannot shrink to {n}"
        elif move < 0 and sharing:
            problem = f"is shared with {', '.join(map(repr, sharing))}, and was cut at its start"
        elif found.setdefault(key, growth) != growth:
            problem = "is used for two axes of the variable, which now differ"
        if problem:
            raise ArgumentError(
                f"the dimension {dim!r} of {extent} elements {problem}; write the array to "
                "another file with extarray.to_netcdf"
            )
        if n != extent or move:
            changed.add(key)
    return {key: growth for key, growth in found.items() if key in changed}


@contextlib.contextmanager
def _remade(fresh: str, where: str, variable: Any, growth: dict[Dim, Growth]) -> Iterator[Edit]:
    """Open a variable in a copy of its file with other dimensions."""
    root = _root_of(variable)
    said = [f"recreated the file {where!r}", *(each.said(dim) for (_, dim), each in growth.items())]
    with _written(fresh, where, "w", root.data_model) as (target, room):
        with of_library(where, _TITLE):
            copy_group(root, target, growth, path_of(variable), room)
        made = find(target, path_of(variable), where)
        need = room_for(made, room)

        def write(box: Box, values: NDArray[Any]) -> None:
            need(box)
            _put_elements(made, box, values)

        with as_it_is(made):
            yield Edit(write, partial(_put_attrs, made), is_fresh=True, said=said)


@contextlib.contextmanager
def _remade_here(
    file: Any, variable: Any, growth: dict[Dim, Growth], replace: bool
) -> Iterator[Edit]:
    """Open a variable in a copy of a file that the user has open, and then open the new file."""
    nc: Any = require("netCDF4", "netcdf", "netCDF")
    root, where = _root_of(variable), _root_of(variable).filepath()
    if not os.path.isfile(where):
        raise ArgumentError(
            f"{where!r} is not a regular file and cannot be recreated; use to_netcdf"
        )
    if not replace:
        dims = ", ".join(repr(dim) for _, dim in growth)
        raise ArgumentError(
            f"the file {where!r} must be recreated for its dimensions {dims} to grow, but it is "
            "open; map it by name, or let write_back(replace=True) close it and open the new one"
        )
    with of_library(where, _TITLE):
        root.sync()
    with beside(where, True) as fresh:
        with _remade(fresh, where, variable, growth) as edit:
            yield edit
        with family("cannot write '{}'", where):
            to_disk(fresh)
    with of_library(where, _TITLE):
        root.close()
        found = nc.Dataset(where, "r+", **_encoding(where, where))
    if isinstance(file, nc.Variable):
        edit.file = find(found, path_of(variable), where)
    else:
        edit.file = found if file.path == "/" else found[file.path]


@dataclass(frozen=True)
class _Stored:
    """Finds the size of the file of a dataset and all its variables."""

    dataset: Any

    def __call__(self) -> int | None:
        """Return the bytes, or None if it is not a local file."""
        try:
            return os.stat(self.dataset.filepath()).st_size
        except (OSError, ValueError):
            return None


def _root_of(variable: Any) -> Any:
    """Return the dataset of a variable."""
    group = variable.group()
    while group.parent is not None:
        group = group.parent
    return group


def _put_elements(variable: Any, box: Box, values: NDArray[Any]) -> None:
    """Write elements to a variable in the form of `to_netcdf`."""
    kind = np.dtype(variable.dtype)
    encode: Any = None
    inner: tuple[slice, ...] = ()
    if DTYPE_NOTE in variable.ncattrs() and kind != values.dtype:
        if values.dtype.kind in "iuf" and kind.kind in "iuf":
            values = values.astype(kind)
        else:
            stored = stored_as(values.dtype, _root_of(variable).data_model)
            encode, inner = stored.encode, tuple(slice(0, n) for n in stored.inner)
    variable[(*box, *inner) or ...] = values if encode is None else encode(values)


def _put_attrs(variable: Any, new: dict[str, Any], gone: list[str], lost: list[str]) -> None:
    """Set some attributes, and remove others."""
    for name in gone:
        if name in variable.ncattrs():
            variable.delncattr(name)
    new = {k: v for k, v in new.items() if k not in (ENUM, UNLIMITED, CHARACTERS)}
    if "_FillValue" in new:
        lost.append("attribute '_FillValue', which can only be set when a variable is created")
        del new["_FillValue"]
    variable.setncatts(attrs_that_fit(new, _root_of(variable).data_model, lost))


# -- whole files ---------------------------------------------------------------------------------


@contextlib.contextmanager
def _whole_source(file: Any, text: Any = "U") -> Iterator[WholeSource]:
    """Open a file or a group in it with everything that a group needs."""
    lost: list[str] = []
    with opened(file, "r") as outer:
        groups: dict[str, dict[str, Any]] = {}

        def visit(name: str, group: Any) -> None:
            told: list[str] = []
            groups[name] = read_attrs(group, told)
            lost.extend(of_group(name, told))
            for inner, each in group.groups.items():
                visit(f"{name}/{inner}".lstrip("/"), each)

        @contextlib.contextmanager
        def source(name: str) -> Iterator[Source]:
            is_ours = outer is not file
            with _source(outer, name, text=text, is_alone=False, is_ours=is_ours) as found:
                yield found

        with of_library(file, _TITLE):
            visit("", outer)
            names = list(_walk(outer))
        yield WholeSource(groups, names, source, lost)


@contextlib.contextmanager
def _whole_sink(
    file: Any, overwrite: bool, unlimited: Any, format: Any, options: dict[str, Any]
) -> Iterator[WholeSink]:
    """Create a file for a group."""
    where = target_name(file, _TITLE)
    model = check_choice(format or "NETCDF4", "format", MODELS)
    asked = (unlimited,) if isinstance(unlimited, str) else unlimited
    with (
        beside(where, check_flag(overwrite, "overwrite")) as fresh,
        _written(fresh, where, "w", model) as (outer, room),
    ):

        @contextlib.contextmanager
        def sink(name: str, given: Description) -> Iterator[Sink]:
            own = asked
            if asked is not None and not isinstance(asked, bool):
                own = [d for d in asked if d in (given.dims or ())]
            with of_library(where, _TITLE):
                each = _variable_sink(outer, name, given, _unlimited(given, own), options, room)
            yield each

        def put_attrs(name: str, attrs: Mapping[str, Any]) -> list[str]:
            lost: list[str] = []
            with of_library(where, _TITLE):
                group = outer
                if name and model != "NETCDF4":
                    raise ArgumentError(f"a {model} file has no groups")
                if name:
                    group = outer.createGroup(name)
                group.setncatts(attrs_that_fit(attrs, model, lost))
            return lost

        yield WholeSink(sink, put_attrs)


def _code(file: str, name: Any) -> list[str]:
    """Return lines of Python that open a variable."""
    opening = [f"a = netCDF4.Dataset({file!r})[{name!r}]", "a.set_auto_maskandscale(False)"]
    return ["import netCDF4", "", *opening]


NETCDF = Format(
    "netcdf",
    _TITLE,
    (".nc", ".nc4", ".cdf", ".netcdf"),
    _source,
    _sink,
    part="a variable",
    extra="netcdf",
    names=_names,
    edit=_edit,
    load_group=from_netcdf,
    save_group=to_netcdf,
    outline=_whole_source,
    code=_code,
)
