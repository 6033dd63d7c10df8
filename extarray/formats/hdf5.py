"""HDF5 datasets, through h5py."""

from __future__ import annotations

import contextlib
import errno
import math
import os
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import numpy as np

from extarray.array.folders import Group
from extarray.common.arguments import check_flag
from extarray.common.calls import public
from extarray.common.config import config
from extarray.common.errors import ArgumentError, ArgumentTypeError, DTypeError, ExistsError
from extarray.common.extras import require
from extarray.formats.description import (
    Coordinate,
    Description,
    Packing,
    are_labels,
    of_coordinate,
)
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
    without_lock,
    written,
)
from extarray.formats.hdf5_parts import (
    DTYPE_NOTE,
    ENUM,
    NO_VARIABLE,
    chunk_writer,
    copy_attrs,
    dtype_of,
    encoded,
    fill_value,
    fixed_text,
    holders,
    in_place,
    labels,
    payloads_of,
    plain_dtype,
    put_attrs,
    read_attrs,
    read_axes,
    restored,
    scales_of,
    stored_as,
    stored_bytes,
    takes_chunks,
    text_dtype,
    unsaid,
    with_holes,
    with_room,
    write_attrs,
)
from extarray.formats.transfer import Edit, Format, Sink, Source, runs
from extarray.formats.whole import (
    WholeSink,
    WholeSource,
    load_whole,
    of_group,
    save_whole,
)
from extarray.grid.chunking import check_chunks
from extarray.storage.filesystem import File

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from os import PathLike
    from typing import SupportsIndex

    from numpy.typing import NDArray

    from extarray.array.array import ExtArray
    from extarray.array.lazy import LazyView
    from extarray.common.arguments import Reported
    from extarray.grid.tiles import Box

__all__ = ["HDF5", "from_hdf5", "to_hdf5"]

_TITLE = "HDF5"
_INSTEAD = " (to a file that is open, with h5py.File(..., 'r+'), it is written in place)"


@public
def from_hdf5(
    file: Any,
    name: str | None = None,
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
    """Make an array of a dataset, or a group of a whole HDF5 file, in bounded memory.

    Parameters
    ----------
    file : str, PathLike, h5py.File, h5py.Group or h5py.Dataset
    name : str, optional
        Name of the dataset: ``"/group/name"``; not for a ``h5py.Dataset``.  None, with a path: the
        whole file, or the ``h5py.Group``, becomes a group in the folder `path`.
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
        With the fill value and attributes of the dataset.  Labels of axes, or the names of their
        scales, become `dims`, and scales become coordinates; in a group, scales become arrays
        instead.  A group is open in mode "r+".

    Raises
    ------
    VariableError
        A KeyError: no dataset of this name; the message names those in the file.
    DTypeError
        A TypeError: texts of variable length, references, sequences.
    FormatError
        A ValueError: the file is damaged, of another format, or needs a filter that is missing.
    MissingExtraError
        An ImportError: h5py is not installed.
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Warns
    -----
    LossyWarning
        The array cannot hold all of the file; the message names what is left out.

    Notes
    -----
    Compressed chunks of the file become frozen chunks as they are, without being encoded anew, if
    `compression` names their codec: ``"gzip"`` or ``"zstd"`` (HDF5's filter 32015), and
    ``"gzip:shuffle"`` or ``"zstd:shuffle"`` where they are shuffled; ``":auto"`` takes either.  The
    level does not matter; `chunks` are those of the file, and elements are numbers that stay as
    they are.  Each chunk is decoded once, so a damaged one is refused.  All others are encoded.

    Examples
    --------
    >>> import os, tempfile, h5py, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.h5")
    >>> with h5py.File(name, "w") as f:
    ...     f["level"] = [[1, 2], [3, 4]]
    ...     f["level"].attrs["unit"] = "mm"
    >>> a = xa.from_hdf5(name, "level")
    >>> a[...], a.attrs["unit"]
    (array([[1, 2],
           [3, 4]]), 'mm')
    """
    if name is None and path is not None and not hasattr(file, "dtype"):
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
    return HDF5.load(
        file,
        name,
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


def to_hdf5(
    a: ExtArray | LazyView | Group,
    file: Any,
    name: str | None = None,
    *,
    selection: Any = None,
    overwrite: bool = False,
    progress: Reported = True,
    **options: Any,
) -> None:
    """Add an array to an HDF5 file, or write a group to a new one, in bounded memory.

    Parameters
    ----------
    a : ExtArray, LazyView or Group
        A group becomes a whole file.
    file : str, PathLike, h5py.File or h5py.Group
        A file that does not exist is made.
    name : str, optional
        Name of the dataset: ``"/group/name"``; groups are made.  None for a group.
    selection : index expression, optional
        Part of the array to write, such as ``np.s_[:, 1]``.  None: all.
    overwrite : bool
        Replace a dataset that has this name; for a group, the file.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.
    **options
        Arguments of ``h5py.Group.create_dataset``: ``compression="gzip"``, ``shuffle=True``,
        ``chunks``, ``maxshape``.  By default chunks are those of the array, and every axis may
        grow.

    Raises
    ------
    ExistsError
        A FileExistsError: the file has an object of this name.
    DTypeError
        A TypeError: HDF5 does not have such elements.
    MissingExtraError
        An ImportError: h5py is not installed.
    BoundsError, SelectionError, StorageError

    Warns
    -----
    LossyWarning
        The file cannot hold all of the array; the message names what is left out.

    Notes
    -----
    A new file appears when it is complete; an existing one is copied and replaced in one step, so
    it is never half written.  This takes the time and the space of a copy, unless the file system
    has reflinks (as Btrfs and XFS do).  In a file that is given open, or that this process has open
    with h5py, the dataset is written in place: its space is allocated first, and it appears when it
    is complete; but if the process is killed, the file may be damaged.

    Compressed chunks of the array, in its files or in a packed one, are written as they are if
    `compression` and `shuffle` ask for their codec, and `chunks` are theirs: "zlib" is HDF5's gzip.
    They are whole, and of up to 256 KiB, or came from such a file; others are encoded by HDF5.

    Coordinates along one axis become dimension scales in the same group.  Texts ("U") are stored as
    UTF-8 of fixed length, dates as h5py's opaque data.

    Examples
    --------
    >>> import os, tempfile, h5py, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.h5")
    >>> a = xa.from_array([[1, 2], [3, 4]], dims=("y", "x"))
    >>> xa.to_hdf5(a, name, "run/level", compression="gzip")
    >>> with h5py.File(name) as f:
    ...     f["run/level"][:, 0], f["run/level"].dims[1].label
    (array([1, 3]), 'x')
    """
    if isinstance(a, Group):
        if name is not None:
            raise ArgumentError("a group is written whole, into its own file; leave out name")
        whole = _whole_sink(file, overwrite, options)
        save_whole(_TITLE, a, file, whole, selection=selection, progress=progress)
        return
    HDF5.save(a, file, name, selection=selection, overwrite=overwrite, progress=progress, **options)


@contextlib.contextmanager
def opened(file: Any, mode: str) -> Iterator[Any]:
    """Open a group of h5py, or yield the one that the user has open."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    if isinstance(file, (h5py.Group, h5py.Dataset)):
        if not file:
            raise ArgumentError(f"{file!r}: open the file again")
        yield file
        return
    where = file_name(file, _TITLE)
    with of_library(where, _TITLE):
        if not os.path.exists(where):
            os.stat(where)  # raises the error of the system
        group = _file(h5py, where, mode)
    try:
        yield group
    except BaseException:
        with contextlib.suppress(Exception):
            group.close()
        raise
    with of_library(where, _TITLE):
        group.close()


def _file(h5py: Any, where: str, mode: str) -> Any:
    """Open a file; one that a writer in SWMR mode has open, as its readers do."""
    if mode == "r" and without_lock.get():
        # A file that this process has open with its lock cannot be opened without.
        with contextlib.suppress(OSError, ValueError):
            return h5py.File(where, mode, locking=False)
    try:
        return h5py.File(where, mode)
    except OSError as error:
        # As a reader of SWMR, HDF5 tries to read a damaged file for minutes.
        if mode == "r" and "already open for write" in str(error):
            with contextlib.suppress(OSError):
                return h5py.File(where, mode, libver="latest", swmr=True)
        raise


def _names(file: Any) -> list[str]:
    """Return the names of the datasets in a file or group."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    names: list[str] = []
    with opened(file, "r") as group, of_library(file, _TITLE):
        group.visititems(
            lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
        )
    return names


def find(group: Any, name: Any, file: Any) -> Any:
    """Return a dataset of h5py by its name, as `named_part` does."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    return named_part(
        group,
        name,
        file,
        title=_TITLE,
        part="a dataset",
        kind=h5py.Dataset,
        look_up=lambda group, name: group.get(os.fsdecode(name)),
        names=_names,
    )


# -- reading -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _source(file: Any, name: Any = None, *, text: Any = "U") -> Iterator[Source]:
    """Open a dataset for reading."""
    with opened(file, "r") as group:
        dataset = find(group, name, file)
        with of_library(file, _TITLE):
            source = source_of(dataset, text)
        yield source


def source_of(dataset: Any, text: Any = "U") -> Source:
    """Return a source for a dataset of h5py."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    lost: list[str] = []
    where = f"the dataset {dataset.name!r}"
    attrs = read_attrs(h5py, dataset.attrs, lost)
    kind: Any = dtype_of(dataset, where)
    if dataset.shape is None:
        lost.append("that the dataset is empty, without a shape")
        dtype = plain_dtype(h5py, kind, where)
        given = Description((0,), dtype, attrs=attrs)
        return Source(given, lambda box: np.empty((0,), dtype), lost=lost)
    decode: Any = None
    reader = dataset
    inner: tuple[int, ...] = ()
    string = h5py.check_string_dtype(kind)
    if kind.kind == "O" and string is not None:
        # Many writers call their texts ASCII, whatever they hold.
        reader = dataset.asstr("utf-8") if np.dtype(text).kind == "U" else dataset
        Claims(where).add(math.prod(dataset.shape), partial(stored_bytes, dataset))
        steps = runs(dataset.shape, 64, max(1, config.max_memory // 4))
        try:
            kind = text_dtype((np.asarray(reader[box]) for box in steps), text)
        except UnicodeDecodeError as error:
            raise DTypeError(
                f"{where} has texts that are not UTF-8 ({error}); give text='S' for their bytes"
            ) from None

        def decode(x: Any, kind: Any = kind) -> Any:
            return fixed_text(np.asarray(x), kind, where)
    else:
        if kind.subdtype is not None:
            kind, inner = kind.subdtype
            lost.append(f"that its elements are arrays of shape {inner}")
        kind, decode = restored(plain_dtype(h5py, kind, where), attrs.pop(DTYPE_NOTE, None))
        if decode is None:
            lost.extend(unsaid(h5py, dataset))
    names = h5py.check_enum_dtype(dataset.dtype)
    if names is not None and ENUM in attrs:
        lost.append("the names of the enumeration")
    elif names is not None:
        attrs[ENUM] = {str(k): int(v) for k, v in names.items()}
    shape = (*dataset.shape, *inner)
    given = Description(
        shape,
        kind,
        None if dataset.chunks is None else (*dataset.chunks, *inner),
        fill_value(dataset, kind, decode),
        attrs,
        packing=Packing.of_attrs(attrs, kind),
    )
    read_axes(h5py, dataset, given, lost)
    n = len(dataset.shape)

    def read(box: Box) -> NDArray[Any]:
        values = np.asarray(reader[box[:n]])
        if inner:
            rest: tuple[Any, ...] = (..., *box[n:])
            values = values[rest]
        return values if decode is None else decode(values)

    found = in_place(dataset, kind, given, read) if decode is None and not inner else None
    payloads = payloads_of(dataset, kind) if decode is None and not inner else None
    source = replace(
        found or Source(given, read),
        lost=lost,
        stored=partial(stored_bytes, dataset),
        payloads=payloads,
    )
    return with_holes(source, dataset)


# -- writing -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _sink(
    file: Any, name: Any, given: Description, *, overwrite: bool = False, **options: Any
) -> Iterator[Sink]:
    """Create a dataset in a new file, or under a temporary name in an existing file."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    check_flag(overwrite, "overwrite")
    if name is None or not str(name).strip("/"):
        raise ArgumentTypeError("name the dataset: 'group/name', for example")
    name = os.fsdecode(name)
    stored_as(given.dtype)  # refuse before a file is copied
    if isinstance(file, h5py.Group):
        changing = _open_in_place(file)
    else:
        changing = _changed(
            target_name(file, _TITLE), lambda group: _check_place(h5py, group, name, overwrite)
        )
    with changing as (group, room):
        _check_place(h5py, group, name, overwrite)
        with made(group, name, given, options, room) as sink:
            yield sink
            with of_library(room.shown, _TITLE):
                put(group, sink.dataset, name, sink.scales, room, sink.lost)


# -- files that are changed ----------------------------------------------------------------------


@contextlib.contextmanager
def _written(fresh: str, where: str, mode: str, **options: Any) -> Iterator[tuple[Any, Room]]:
    """Open a private file for writing, and allocate its space."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    with written(
        fresh,
        where,
        _TITLE,
        lambda: h5py.File(fresh, mode, **options),
        lambda file: file.flush(),
        lambda file: file.id.get_filesize(),
    ) as both:
        yield both


@contextlib.contextmanager
def _changed(where: str, check: Callable[[Any], object]) -> Iterator[tuple[Any, Room]]:
    """Open a file for change: a new one, a copy that replaces it, or one that is open here.

    Parameters
    ----------
    where : str
    check : callable
        Takes an existing file, and refuses an impossible change before the file is copied.
    """
    with contextlib.ExitStack() as stack:
        here = _open_here(where)
        if here is not None:
            yield stack.enter_context(_open_in_place(here))
        elif os.path.exists(where):
            new = stack.enter_context(successor(where, _TITLE, _INSTEAD))
            with opened(where, "r") as old:
                check(old)
            new.copy()
            yield stack.enter_context(_written(new.name, where, "r+"))
        else:
            fresh = stack.enter_context(beside(where, False))
            yield stack.enter_context(_written(fresh, where, "w"))


def _open_here(where: str) -> Any:
    """Return a file that this process has open for writing with h5py, or None."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    with contextlib.suppress(OSError):
        about = os.stat(where)
        for each in h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE):
            with contextlib.suppress(OSError, NotImplementedError):
                is_it = os.path.samestat(os.fstat(each.get_vfd_handle()), about)
                if is_it and each.get_intent() != h5py.h5f.ACC_RDONLY:
                    return h5py.File(each)
    return None


@contextlib.contextmanager
def _open_in_place(group: Any) -> Iterator[tuple[Any, Room]]:
    """Yield an object that the user has open for change, with the space of its file."""
    with opened(group, "r+"):
        file = group.file
        if file.mode == "r":
            raise ArgumentError(f"{file.filename!r} is open read-only; open it with mode 'r+'")
        own = None
        if file.driver == "sec2":
            own = File(os.dup(file.id.get_vfd_handle()), file.filename)
        room = Room(own, file.filename, _TITLE, file.id.get_filesize)
        try:
            room.need(0)
            yield group, room
            with of_library(file.filename, _TITLE):
                file.flush()
        finally:
            with contextlib.suppress(OSError, RuntimeError):
                file.flush()  # into the allocated space
            room.close()


@dataclass
class Made(Sink):
    """A sink that is a dataset.

    Attributes
    ----------
    dataset : h5py.Dataset
    scales : list of (str, int, Coordinate)
        Coordinates to store as scales: name, axis, labels.
    """

    dataset: Any = None
    scales: list[tuple[str, int, Coordinate]] = field(default_factory=list)


def _check_place(h5py: Any, group: Any, name: str, overwrite: bool) -> None:
    """Refuse a name that exists or is not possible."""
    with of_library(group.file.filename, _TITLE):
        there = group.get(name, getlink=False) if name in group else None
        path = name.strip("/").split("/")
        for j in range(1, len(path)):
            outer = "/".join(path[:j])
            if outer in group and not isinstance(group[outer], h5py.Group):
                raise ExistsError(
                    errno.EEXIST, f"it has {outer!r}, which is not a group", group.file.filename
                )
    if there is None:
        return
    if not isinstance(there, h5py.Dataset):
        raise ExistsError(
            errno.EEXIST, f"it has {name!r}, which is not a dataset", group.file.filename
        )
    if not overwrite:
        raise ExistsError(
            errno.EEXIST,
            f"it already has a dataset {name!r}; replace it with overwrite=True",
            group.file.filename,
        )


@contextlib.contextmanager
def made(
    group: Any, name: str, given: Description, options: dict[str, Any], room: Room
) -> Iterator[Made]:
    """Create a dataset under a temporary name; remove it if the block fails."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    stored = stored_as(given.dtype)
    lost: list[str] = []
    root = group.file
    temporary = f".{uuid4().hex}.new"
    attrs = dict(given.attrs)
    kind = stored.dtype
    if kind.kind in "iu" and isinstance(attrs.get(ENUM), dict):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            kind = h5py.enum_dtype(attrs[ENUM], kind)
            del attrs[ENUM]
    if stored.note is not None:
        attrs[DTYPE_NOTE] = stored.note
    settings: dict[str, Any] = dict(options)
    if given.shape:
        settings.setdefault("maxshape", (None,) * given.ndim)
        most = np.broadcast_to(np.array(settings["maxshape"], object), (given.ndim,))
        assert given.chunks is not None
        own = [
            c if m is None else max(1, min(c, m)) for c, m in zip(given.chunks, most, strict=True)
        ]
        settings.setdefault("chunks", tuple(own))
    if given.fills:
        fill = np.asarray(given.fill_value, given.dtype)
        # As an array, since a scalar loses the tag by which h5py stores dates.
        settings.setdefault("fillvalue", stored.encode(fill) if stored.encode else fill)
    try:
        with of_library(room.shown, _TITLE):
            try:
                dataset = root.create_dataset(temporary, given.shape, kind, **settings)
            except (TypeError, ValueError) as error:
                raise ArgumentError(f"h5py cannot create such a dataset: {error}") from error
            write_attrs(h5py, dataset.attrs, attrs, lost)
            for j, dim in enumerate(given.dims or ()):
                dataset.dims[j].label = dim

        def write(box: Box, values: NDArray[Any]) -> None:
            dataset[box] = values if stored.encode is None else stored.encode(values)

        single = stored.encode is None and takes_chunks(dataset, given.dtype)
        each = with_room(dataset, room, chunk_writer(dataset) if single else write)
        payloads = payloads_of(dataset, given.dtype, room) if stored.encode is None else None
        sink = Made(each, chunks=dataset.chunks, single=single, lost=lost, payloads=payloads)
        sink.dataset = dataset
        sink.scales = list(_scales_of(given, _parent(group, name), name, lost))
        yield sink
    except BaseException:
        with contextlib.suppress(Exception):
            del root[temporary]
        raise


def _parent(group: Any, name: str) -> Any:
    """Return the group in which a dataset will lie, or None if it does not exist yet."""
    outer = name.rstrip("/").rpartition("/")[0]
    if not outer:
        return group.file if name.startswith("/") else group
    return group.get(outer)


def _scales_of(
    given: Description, parent: Any, name: str, lost: list[str]
) -> Iterator[tuple[str, int, Coordinate]]:
    """Yield name, axis and labels of the coordinates that scales can hold."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    own = name.rpartition("/")[2]
    for scale, each in given.coords.items():
        reason = ""
        if len(each.dims) != 1 or each.dims[0] not in (given.dims or ()) or "/" in scale:
            reason = "which does not lie along one axis"
        elif scale == own and given.ndim > 1:
            reason = "since the dataset itself has this name"
        elif scale != own and parent is not None and scale in parent:
            there = parent[scale]
            if (
                not isinstance(there, h5py.Dataset)
                or there.shape != each.values.shape
                or not are_labels(labels(h5py, there, len(there)), each.values)
            ):
                reason = "since the file has another object of this name"
        if reason:
            lost.append(f"coordinate {scale!r}, {reason}")
        else:
            yield scale, (given.dims or ()).index(each.dims[0]), each


@contextlib.contextmanager
def _edit(
    file: Any,
    name: Any,
    old: tuple[int, ...],
    new: tuple[int, ...],
    moved: tuple[int, ...],
    replace: bool,
) -> Iterator[Edit]:
    """Open a dataset for change: resize it, or recreate it if its size is fixed.

    Changes are made in a copy that replaces the file, or in place if the user has the file open or
    the elements are in other files.
    """
    h5py: Any = require("h5py", "hdf5", "HDF5")

    def plan(group: Any) -> tuple[Any, _Plan]:
        dataset = find(group, name, file)
        if dataset.shape is None:
            raise ArgumentError(
                f"{dataset.name!r} is empty, without a shape: no elements are written back to it; "
                "extarray.to_hdf5 writes the array under another name"
            )
        check_shape_is(tuple(dataset.shape[: len(old)]), old)
        return dataset, _planned(dataset, new, replace)

    with contextlib.ExitStack() as stack:
        is_here = isinstance(file, (h5py.Group, h5py.Dataset))
        if is_here:
            changing = _open_in_place(file)
        else:
            with opened(file, "r") as group:
                dataset, _ = plan(group)
                where, name = dataset.file.filename, dataset.name  # the target of an external link
                is_here = dataset.is_virtual or bool(dataset.external)
            if is_here and _open_here(where) is None:
                changing = _open_in_place(stack.enter_context(opened(where, "r+")))
            else:
                is_here = is_here or _open_here(where) is not None
                changing = _changed(where, plan)
        group, room = stack.enter_context(changing)
        dataset, planned = plan(group)
        target = dataset
        if planned.resizes:
            stack.enter_context(_resized(dataset, new, room))
        elif planned.said:
            room.need(0)
            target = stack.enter_context(made_like(dataset, new))

        def put(box: Box, values: NDArray[Any]) -> None:
            target[box] = encoded(values)

        yield Edit(
            with_room(target, room, put, is_new=target is not dataset),
            partial(put_attrs, target),
            reserve=room.need if is_here else None,
            is_fresh=target is not dataset,
            file=target if target is not dataset and file is dataset else None,
            said=planned.said,
            lost=_labels_that_stay(dataset, moved),
        )
        if target is not dataset:
            with of_library(file, _TITLE):
                take_place(target, dataset)


class _Plan(NamedTuple):
    """A plan to reshape a dataset: its description, and whether it only resizes."""

    said: list[str]
    resizes: bool


def _planned(dataset: Any, new: tuple[int, ...], replace: bool) -> _Plan:
    """Plan the reshaping of a dataset, or refuse it."""
    if tuple(dataset.shape) == new:
        return _Plan([], False)
    most = zip(new, dataset.maxshape, strict=True)
    if dataset.chunks is not None and all(m is None or n <= m for n, m in most):
        return _Plan([f"resized {dataset.name!r} from {dataset.shape} to {new}"], True)
    return _Plan([_remake(dataset, new, replace)], False)


@contextlib.contextmanager
def _resized(dataset: Any, new: tuple[int, ...], room: Room) -> Iterator[None]:
    """Resize a dataset; restore its shape if the block fails."""
    old, where = dataset.shape, dataset.file.filename
    room.need(0, math.prod(-(-n // c) for n, c in zip(new, dataset.chunks, strict=True)))
    with of_library(where, _TITLE):
        dataset.resize(new)
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            dataset.resize(old)
        raise


def _remake(dataset: Any, new: tuple[int, ...], replace: bool) -> str:
    """Describe how a dataset is recreated and what keeps the old one; or refuse."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    where, name = dataset.file.filename, dataset.name
    if dataset.is_scale:
        raise ArgumentError(
            f"the dataset {name!r} of {where!r} is a dimension scale and cannot grow; write the "
            "array to another file, or under another name, with extarray.to_hdf5"
        )
    with of_library(where, _TITLE):
        found = holders(h5py, dataset)
    text = f"recreated {name!r} to grow from {dataset.shape} to {new}"
    if not found:
        return text
    kept = "; ".join(found)
    if not replace:
        raise ArgumentError(
            f"the dataset {name!r} of {where!r} has a fixed size, and replacing it would leave "
            f"the old one to {kept}; allow that with write_back(replace=True), or write the array "
            "under another name with extarray.to_hdf5"
        )
    return f"{text}; the old one stays with {kept}"


def _labels_that_stay(dataset: Any, moved: tuple[int, ...]) -> list[str]:
    """Describe which scales label other elements after the first one has moved."""
    return [
        f"the labels of axis {j} at their elements: the scale {scale.name!r} begins with the "
        f"former first element, which has moved by {n}"
        for j, n in enumerate(moved)
        if n
        for scale in scales_of(dataset.dims[j])
        if NO_VARIABLE not in str(scale.attrs.get("NAME", ""))
    ]


@contextlib.contextmanager
def made_like(dataset: Any, shape: tuple[int, ...]) -> Iterator[Any]:
    """Create a dataset of another shape under a temporary name; remove it if the block fails.

    It has the type, filters, fill value and attributes of `dataset`, and may grow.
    """
    h5py: Any = require("h5py", "hdf5", "HDF5")
    where = dataset.file.filename
    root, temporary = dataset.file, f"/.{uuid4().hex}.new"
    try:
        with of_library(where, _TITLE):
            kind = dataset.id.get_type()
            if dataset.chunks is None:
                properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                chunks = check_chunks(None, shape, dataset.dtype.itemsize)
                properties.set_chunk(chunks)
                if dataset.id.get_create_plist().fill_value_defined() == 2:
                    fill = np.asarray(dataset.fillvalue, dataset.dtype)
                    properties.set_fill_value(fill)
            else:
                properties = dataset.id.get_create_plist()
            space = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED,) * len(shape))
            made = h5py.h5d.create(root.id, temporary.encode(), kind, space, properties)
            fresh = h5py.Dataset(made)
            copy_attrs(h5py, dataset, fresh)
        yield fresh
    except BaseException:
        with contextlib.suppress(Exception):
            del root[temporary]
        raise


@contextlib.contextmanager
def _taking_place(fresh: Any, place: str) -> Iterator[None]:
    """Give a dataset a name, and remove the former holder; undo both if the block fails.

    At any moment, the file has one of them complete.
    """
    file, temporary, aside = fresh.file, fresh.name, f"/.{uuid4().hex}.old"
    file.flush()
    is_there = place in file
    if is_there:
        file.move(place, aside)
    try:
        file.move(temporary, place)
        yield
        file.flush()
    except BaseException:
        with contextlib.suppress(Exception):
            if temporary not in file:
                file.move(place, temporary)
            if is_there:
                file.move(aside, place)
        raise
    if is_there:
        del file[aside]


def take_place(fresh: Any, dataset: Any) -> None:
    """Give a dataset the name of another one, which is removed."""
    with _taking_place(fresh, dataset.name):
        for j in range(len(dataset.shape)):
            for scale in list(dataset.dims[j].values()):
                dataset.dims[j].detach_scale(scale)


def put(group: Any, fresh: Any, name: str, scales: list[Any], room: Room, lost: list[str]) -> None:
    """Give a dataset its name and scales; collect in `lost` what scales cannot hold."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    place = name if name.startswith("/") else f"{group.name.rstrip('/')}/{name}"
    is_held = bool(scales) and "CLASS" in fresh.attrs  # HDF5 takes it for the attribute of a scale
    made: list[str] = []
    told: list[str] = []
    for _, _, each in scales:
        room.need(2 * each.values.nbytes, 1)
    try:
        with _taking_place(fresh, place):
            parent = group.file[place].parent
            if is_held:
                h5py.h5a.rename(fresh.id, b"CLASS", b"CLASS.held")
            for scale, axis, each in scales:
                if scale == place.rpartition("/")[2]:
                    fresh.make_scale(scale)
                    continue
                if scale not in parent:
                    made.append(f"{parent.name.rstrip('/')}/{scale}")
                    told += of_coordinate(scale, _make_scale(h5py, parent, scale, each))
                fresh.dims[axis].attach_scale(parent[scale])
            if is_held:
                h5py.h5a.rename(fresh.id, b"CLASS.held", b"CLASS")
    except BaseException:
        for each in made:
            with contextlib.suppress(Exception):
                del group.file[each]
        raise
    lost += told


def _make_scale(h5py: Any, parent: Any, scale: str, each: Coordinate) -> list[str]:
    """Create the dataset of a coordinate; describe its lost attributes."""
    stored = stored_as(each.values.dtype)
    text = each.values.dtype.kind == "U"
    values = each.values if stored.encode is None or text else stored.encode(each.values)
    parent.create_dataset(
        scale,
        data=values.astype(object) if text else values,
        dtype=h5py.string_dtype() if text else stored.dtype,
        maxshape=(None,),
    )
    lost: list[str] = []
    write_attrs(h5py, parent[scale].attrs, each.attrs, lost)
    parent[scale].make_scale(scale)
    return lost


# -- whole files ---------------------------------------------------------------------------------


@contextlib.contextmanager
def _whole_source(file: Any, text: Any = "U") -> Iterator[WholeSource]:
    """Open a file or a group in it with everything that a group needs."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    lost: list[str] = []
    with opened(file, "r") as outer:
        groups: dict[str, dict[str, Any]] = {}
        names: list[str] = []
        seen: dict[Any, str] = {}

        def take(name: str, group: Any) -> None:
            told: list[str] = []
            groups[name] = read_attrs(h5py, group.attrs, told)
            lost.extend(of_group(name, told))

        def visit(prefix: str, group: Any) -> None:
            for key in group:
                name, link = prefix + key, group.get(key, getlink=True)
                if isinstance(link, h5py.SoftLink):
                    lost.append(f"{name!r} (a link to {link.path!r})")
                    continue
                if isinstance(link, h5py.ExternalLink):
                    lost.append(f"{name!r} (a link to {link.path!r} of the file {link.filename!r})")
                    continue
                with of_library(file, _TITLE, name):
                    item = group[key]
                if item.id in seen:
                    lost.append(f"{name!r} (another name of {seen[item.id]!r})")
                    continue
                seen[item.id] = name
                if isinstance(item, h5py.Dataset):
                    names.append(name)
                elif isinstance(item, h5py.Group):
                    take(name, item)
                    visit(f"{name}/", item)
                else:
                    lost.append(f"{name!r} (a data type)")

        @contextlib.contextmanager
        def source(name: str) -> Iterator[Source]:
            with of_library(file, _TITLE, name):
                found = source_of(outer[name], text)
            yield found

        with of_library(file, _TITLE):
            seen[outer.id] = "/"
            take("", outer)
            visit("", outer)
        yield WholeSource(groups, names, source, lost)


@contextlib.contextmanager
def _whole_sink(file: Any, overwrite: bool, options: dict[str, Any]) -> Iterator[WholeSink]:
    """Create a file for a group."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    where = target_name(file, _TITLE)
    with (
        beside(where, check_flag(overwrite, "overwrite")) as fresh,
        _written(fresh, where, "w") as (outer, room),
    ):

        @contextlib.contextmanager
        def sink(name: str, given: Description) -> Iterator[Sink]:
            _check_place(h5py, outer, name, False)
            with made(outer, name, given, options, room) as each:
                yield each
                with of_library(where, _TITLE):
                    put(outer, each.dataset, name, each.scales, room, each.lost)

        def put_attrs(name: str, attrs: Mapping[str, Any]) -> list[str]:
            lost: list[str] = []
            with of_library(where, _TITLE):
                group = outer.require_group(name) if name else outer
                write_attrs(h5py, group.attrs, attrs, lost)
            return lost

        yield WholeSink(sink, put_attrs, attaches=True)


def _code(file: str, name: Any) -> list[str]:
    """Return lines of Python that open a dataset."""
    return ["import h5py", "", f"a = h5py.File({file!r})[{name!r}]"]


HDF5 = Format(
    "hdf5",
    _TITLE,
    (".h5", ".hdf5", ".hdf", ".he5"),
    _source,
    _sink,
    part="a dataset",
    extra="hdf5",
    names=_names,
    edit=_edit,
    load_group=from_hdf5,
    save_group=to_hdf5,
    outline=_whole_source,
    code=_code,
)
