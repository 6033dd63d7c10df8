"""Zarr 2 and 3: arrays in stores, through zarr-python; chunks that are plain files, directly."""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import os
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from extarray.array.folders import Group
from extarray.array.h5py_compat import is_sparse
from extarray.codecs.codec import Codec
from extarray.codecs.zarr import LEVELS
from extarray.common import system
from extarray.common.arguments import check_flag
from extarray.common.calls import public
from extarray.common.config import config
from extarray.common.errors import ArgumentError, ArgumentTypeError, DTypeError, ExistsError
from extarray.common.extras import require
from extarray.format.labels import CHARACTERS
from extarray.format.values import missing_element, missing_from_json, missing_to_json, plain_json
from extarray.formats.description import Description, Packing, other_packing
from extarray.formats.elements import memory_of
from extarray.formats.files import of_library, read_all, unknown_part
from extarray.formats.transfer import Format, Sink, Source, cut, has_likeness, is_all
from extarray.formats.undecoded import Payloads
from extarray.formats.whole import (
    WholeSink,
    WholeSource,
    load_whole,
    save_whole,
)
from extarray.grid.tiles import tiles
from extarray.maintenance.group_files import making_folder, remove_tree, swap_folders
from extarray.storage.filesystem import File, family, followed_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from os import PathLike
    from typing import SupportsIndex

    from numpy.typing import NDArray

    from extarray.array.array import ExtArray
    from extarray.array.lazy import LazyView
    from extarray.common.arguments import Reported
    from extarray.grid.tiles import Box

__all__ = [
    "ZARR",
    "from_zarr",
    "group_folder",
    "opened",
    "sink_of",
    "source_of",
    "to_zarr",
]

_TITLE = "Zarr"
#: Chunks of at least this size in bytes are read and written singly.
_LEAST_ALONE = 1 << 17
#: Attribute in which xarray stores axis names in Zarr 2.  In an array with this attribute, xarray
#: takes the fill value for the marker of missing elements, in place of the attribute below.
_DIMENSIONS = "_ARRAY_DIMENSIONS"
_MISSING = "_FillValue"


@public
def from_zarr(
    store: Any,
    name: str | None = None,
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
) -> Any:
    """Make an array of a Zarr array, or a group of a whole store, in bounded memory.

    Parameters
    ----------
    store : str, PathLike, zarr.Array, zarr.Group, or a store of zarr
        Anything that ``zarr.open`` takes.
    name : str, optional
        Name of the array in the store: ``"run/level"``.  None: the store is an array, or, with a
        path, the whole group of the store becomes a group in the folder `path`.
    path : str, PathLike, or None
        Name of the new pair of files, or folder.  None: the array is in memory.
    chunks : int or sequence of int, optional
        Shape of a chunk.  None: that of the file's chunks, if these have 4 KiB or more; else as for
        `create`.
    mask_and_scale : bool
        Unpack numbers as the attributes ``scale_factor``, ``add_offset``, ``_FillValue``,
        ``missing_value`` and ``_Unsigned`` say; missing elements become NaN.  False: take elements
        and attributes as they are.
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
        With the array's fill value, attributes and axis names: the ``dimension_names`` of Zarr 3,
        or the attribute ``_ARRAY_DIMENSIONS`` of Zarr 2.  Its chunks are the shards, if there are
        any.  A group is open in mode "r+".

    Raises
    ------
    VariableError
        A KeyError: no array of this name; the message names those in the file.
    DTypeError
        A TypeError: texts of variable length, objects.
    FormatError
        A ValueError: the file is damaged, or of another format.
    MissingExtraError
        An ImportError: zarr is not installed.
    ResultError
        A MemoryError: the file has far less data than the array would take; see `max_result`.
    MissingError, ExistsError, ChunksError, StorageError, ReserveError

    Warns
    -----
    LossyWarning
        The array cannot hold all of the file; the message names what is left out.

    Notes
    -----
    The attribute ``_FillValue`` declares the value of missing elements.  In Zarr 2, xarray has no
    such attribute: the fill value of an array with ``_ARRAY_DIMENSIONS`` serves instead, and
    becomes the attribute here.

    Compressed chunks of the store become frozen chunks as they are, without being encoded anew, if
    `compression` names their codec: ``"zstd"`` or ``"zlib"``, and ``"zstd:shuffle"`` or
    ``"zlib:shuffle"`` after numcodecs' Shuffle; ``":auto"`` takes either.  The level does not
    matter; `chunks` are those of the store, without shards, in C order.  Each chunk is decoded
    once, so a damaged one is refused.  All others, also those of Zarr's "gzip", are encoded.

    Examples
    --------
    >>> import os, tempfile, zarr, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.zarr")
    >>> z = zarr.create_array(name, shape=(2, 2), dtype="i4", dimension_names=("y", "x"))
    >>> z[...] = [[1, 2], [3, 4]]
    >>> a = xa.from_zarr(name)
    >>> a[...], a.dims
    (array([[1, 2],
           [3, 4]], dtype=int32), ('y', 'x'))
    """
    if name is None and path is not None:
        found = opened(store)
        if not hasattr(found, "dtype"):
            return load_whole(
                _TITLE,
                store,
                _whole_source(found),
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
    return ZARR.load(
        store,
        name,
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


def to_zarr(
    a: ExtArray | LazyView | Group,
    store: Any,
    name: str | None = None,
    *,
    selection: Any = None,
    zarr_format: Literal[2, 3] = 3,
    overwrite: bool = False,
    progress: Reported = True,
    **options: Any,
) -> None:
    """Write an array or a group to a Zarr store, of format 2 or 3, in bounded memory.

    Parameters
    ----------
    a : ExtArray, LazyView or Group
        A group becomes a folder of its own.
    store : str, PathLike, zarr.Group, or a store of zarr
    name : str, optional
        Name of the array in the store: ``"run/level"``; groups are made.  None: the whole store is
        the array, or the group.
    selection : index expression, optional
        Part of the array to write, such as ``np.s_[:, 1]``.  None: all.
    zarr_format : {2, 3}
        Version of the format.
    overwrite : bool
        Replace an array of this name; for a group, the folder.
    progress : bool or callable
        Show progress on a terminal or in a notebook.  A function is called with the bytes done and
        the bytes in all.
    **options
        Arguments of ``zarr.create_array``: ``compressors``, ``shards``, ``chunks``.  By default
        chunks are those of the array.

    Raises
    ------
    ExistsError
        A FileExistsError: the name is taken.
    DTypeError
        A TypeError: Zarr does not support the dtype.
    ArgumentError
        A ValueError: unknown options.
    MissingExtraError
        An ImportError: zarr is not installed.
    BoundsError, SelectionError, StorageError

    Warns
    -----
    LossyWarning
        The file cannot hold all of the array; the message names what is left out.

    Notes
    -----
    In a folder, the array appears when it is complete.  In other stores, it is written in place,
    and removed again if that fails.

    Compressed chunks of the array, in its files or in a packed one, are written as they are if
    `compressors` (and `filters`) are their codec, zstd or zlib, and `chunks` are theirs.  They are
    whole, and of up to 256 KiB, or came from such a store; others are encoded by zarr.

    Attributes that are NumPy numbers or arrays become JSON numbers and lists.  In Zarr 2, the fill
    value of an array with axis names is its attribute ``_FillValue``, since xarray takes elements
    equal to the fill value for missing ones; without the attribute, it is the array's fill value,
    or none if that is zero.

    Examples
    --------
    >>> import os, tempfile, zarr, extarray as xa
    >>> name = os.path.join(tempfile.mkdtemp(), "scene.zarr")
    >>> xa.to_zarr(xa.from_array([[1, 2], [3, 4]], dims=("y", "x")), name, "level")
    >>> z = zarr.open(name)["level"]
    >>> z[0].tolist(), z.metadata.dimension_names
    ([1, 2], ('y', 'x'))
    """
    if isinstance(a, Group):
        if name is not None:
            raise ArgumentError("a group is written whole, into its own store; leave out name")
        whole = _whole_sink(store, overwrite, zarr_format, options)
        save_whole(_TITLE, a, store, whole, selection=selection, progress=progress)
        return
    ZARR.save(
        a,
        store,
        name,
        selection=selection,
        zarr_format=zarr_format,
        overwrite=overwrite,
        progress=progress,
        **options,
    )


def _is_path(store: Any) -> bool:
    return isinstance(store, (str, os.PathLike)) and "://" not in os.fspath(store)


def opened(store: Any) -> Any:
    """Return a zarr array or group, open for reading."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    if isinstance(store, (zarr.Array, zarr.Group)):
        return store
    with of_library(store, _TITLE):
        if _is_path(store):
            os.stat(store)  # raises the error of the system
        return zarr.open(store, mode="r")


def _members(group: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name of each member of a group, with the array, the group, or an error.

    zarr itself yields all members or none.
    """
    if group.metadata.consolidated_metadata is not None or not group.store.supports_listing:
        yield from sorted(group.members())
        return
    zarr: Any = require("zarr", "zarr", _TITLE)

    async def listed() -> list[str]:
        return [name async for name in group.store.list_dir(group.path)]

    for name in sorted(zarr.core.sync.sync(listed())):
        try:
            yield name, group[name]
        except KeyError:
            continue  # a file of another kind
        except (TypeError, ValueError, RuntimeError) as error:
            yield name, error


def _walk(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the members of a group and of its groups, arrays first."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    members = list(_members(group))
    for name, item in members:
        if not isinstance(item, zarr.Group):
            yield prefix + name, item
    for name, item in members:
        if isinstance(item, zarr.Group):
            yield prefix + name, item
            yield from _walk(item, f"{prefix}{name}/")


def _array_names(group: Any) -> list[str]:
    """Return the names of the arrays in a group and below."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    return [name for name, item in _walk(group) if not isinstance(item, zarr.Group)]


def _names(store: Any) -> list[str]:
    """Return the names of the arrays in a store; the name is empty if the store is an array."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    found = opened(store)
    with of_library(store, _TITLE):
        return [""] if isinstance(found, zarr.Array) else _array_names(found)


# -- reading -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _source(store: Any, name: Any = None) -> Iterator[Source]:
    """Open an array for reading."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    found = opened(store)
    if isinstance(found, zarr.Group):
        group, found = found, None
        with of_library(store, _TITLE):
            if name:
                found = group.get(str(name).strip("/"))
            if not isinstance(found, zarr.Array):
                raise unknown_part(store, name, "an array", _array_names(group))
    elif name:
        raise unknown_part(store, name, "an array", [])
    with of_library(store, _TITLE):
        source = source_of(found)
    yield source


def _stored(array: Any) -> int | None:
    """Return the bytes of an array in its store, or None if unknown."""
    try:
        return int(array.nbytes_stored())
    except Exception:  # noqa: BLE001 -- any store may raise anything
        return None


def source_of(array: Any) -> Source:
    """Return a source for a zarr array."""
    lost: list[str] = []
    dtype = np.dtype(array.dtype)
    if dtype.hasobject or dtype.kind == "T":
        raise DTypeError(
            f"the array {array.name!r} has elements of {dtype}, which have no fixed size"
        )
    attrs = dict(array.attrs)
    shape = tuple(array.shape)
    names: Any = getattr(array.metadata, "dimension_names", None)
    if array.metadata.zarr_format == 2 and _DIMENSIONS in attrs:
        names = attrs.pop(_DIMENSIONS)
        if _marks_missing(array.fill_value, dtype):
            attrs.setdefault(_MISSING, array.fill_value)
    if _MISSING in attrs:
        attrs[_MISSING] = missing_from_json(attrs[_MISSING], dtype)
    given = Description(
        shape,
        dtype,
        tuple(getattr(array, "shards", None) or array.chunks),
        attrs=attrs,
        packing=Packing.of_attrs({k: _number(v, dtype) for k, v in attrs.items()}, dtype),
    )
    if array.fill_value is not None:
        given.fill_value = np.asarray(array.fill_value, dtype)[()]
    if names is not None and any(n is not None for n in names):
        dims = tuple(n if n is not None else f"dim_{j}" for j, n in enumerate(names))
        if len(dims) == len(shape) and len(set(dims)) == len(dims) and all(dims):
            given.dims = dims
        else:
            lost.append(f"the names of the axes {dims}")
    if dtype == "S1" and given.dims:
        attrs[CHARACTERS] = given.dims[-1]  # as in xarray

    def read(box: Box) -> NDArray[Any]:
        return np.asarray(array[box or ...]).astype(dtype, copy=False)

    zarr: Any = require("zarr", "zarr", _TITLE)
    stored = partial(_stored, array)
    payloads = _payloads_of(array, dtype)
    if isinstance(array.store, zarr.storage.LocalStore) and _lies_open(zarr, array, dtype):
        where = os.path.join(array.store.root, *filter(None, array.path.split("/")))
        found = _open_chunks(where, array, given, read, lost)
        return _with_holes(replace(found, stored=stored), array)
    return _with_holes(Source(given, read, lost=lost, stored=stored, payloads=payloads), array)


def _with_holes(source: Source, array: Any) -> Source:
    """Return a source that knows which chunks of an array in a folder have no file."""
    if not is_sparse(array):
        return source
    zarr: Any = require("zarr", "zarr", _TITLE)
    if not isinstance(array.store, zarr.storage.LocalStore):
        return replace(source, sparse=True)
    where = os.path.join(array.store.root, *filter(None, array.path.split("/")))
    pieces, key_of = tuple(array.shards or array.chunks), array.metadata.encode_chunk_key

    def is_hole(box: Box) -> bool:
        return not any(
            os.path.exists(os.path.join(where, *key_of(index).split("/")))
            for index in itertools.product(
                *(range(s.start // c, -(-s.stop // c)) for s, c in zip(box, pieces, strict=True))
            )
        )

    return replace(source, sparse=True, is_hole=is_hole)


def _open_chunks(
    where: str,
    array: Any,
    given: Description,
    read: Callable[[Box], NDArray[Any]],
    lost: list[str],
) -> Source:
    """Return a source that reads files of whole chunks; zarr would copy each once more."""
    chunks, key_of = tuple(array.chunks), array.metadata.encode_chunk_key
    nbytes = math.prod(chunks) * given.dtype.itemsize
    own = threading.local()

    def whole(box: Box) -> NDArray[Any]:
        """Return the elements of a box in a chunk, in reused memory."""
        index = tuple(b.start // c for b, c in zip(box, chunks, strict=True))
        buffer = memory_of(own, nbytes).view(given.dtype).reshape(chunks)
        try:
            fd = system.open_file(os.path.join(where, *key_of(index).split("/")), os.O_RDONLY)
        except FileNotFoundError:
            return read(box)
        try:
            if os.fstat(fd).st_size != nbytes or not read_all(fd, buffer):
                return read(box)
        finally:
            os.close(fd)
        starts = [b.start - i * c for b, i, c in zip(box, index, chunks, strict=True)]
        return buffer[
            tuple(slice(a, a + b.stop - b.start) for a, b in zip(starts, box, strict=True))
        ]

    def several(box: Box) -> NDArray[Any]:
        values = np.empty([b.stop - b.start for b in box], given.dtype)
        for part in cut(box, chunks):
            places = zip(part, box, strict=True)
            values[tuple(slice(p.start - b.start, p.stop - b.start) for p, b in places)] = whole(
                part
            )
        return values

    is_large = nbytes >= _LEAST_ALONE
    return Source(given, whole if is_large else several, parallel=True, single=is_large, lost=lost)


def _marks_missing(value: Any, dtype: np.dtype[Any]) -> bool:
    """Tell whether a fill value for missing elements must be declared; NaN need not be."""
    return value is not None and dtype.kind in "iufcbSU" and bool(np.all(value == value))


def _number(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a JSON number to an element of a float dtype, like other markers of missing ones."""
    return dtype.type(value) if type(value) in (int, float) and dtype.kind == "f" else value


# -- writing -------------------------------------------------------------------------------------


@contextlib.contextmanager
def sink_of(
    store: Any,
    name: Any,
    given: Description,
    *,
    overwrite: bool = False,
    zarr_format: Any = 3,
    **options: Any,
) -> Iterator[Sink]:
    """Create an array: in a folder beside its place, or in place in a store of another kind."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    if zarr_format not in (2, 3):
        raise ArgumentError(f"zarr_format {zarr_format!r} is not supported; use 2 or 3")
    check_flag(overwrite, "overwrite")
    inner = str(name).strip("/") if name else ""
    lost: list[str] = other_packing(given.attrs)
    if isinstance(store, zarr.Group):
        inner = "/".join(filter(None, [store.path, inner]))
        store = store.store
    root = store.root if isinstance(store, zarr.storage.LocalStore) else store
    with contextlib.ExitStack() as stack:
        if _is_path(root):
            fresh = stack.enter_context(_folder(zarr, root, inner, overwrite, zarr_format))
            target, inside = fresh, None
        else:
            target, inside = store, inner or None
            stack.enter_context(_place(zarr, store, inner, overwrite))
        with of_library(store, _TITLE):
            array = _made(zarr, target, inside, given, zarr_format, overwrite, options, lost)
        if _is_path(root) and _lies_open(zarr, array, given.dtype):
            yield _chunk_files(fresh, array, given, lost)
            return
        chunks = tuple(array.shards or array.chunks)
        keeps = not _is_path(root)  # memory may keep the array that it receives
        fill = _left_out(array, given.dtype)

        def write(box: Box, values: NDArray[Any]) -> None:
            nonlocal array, fill
            if fill is not None and has_likeness(values, array.chunks, fill):
                # zarr would omit it; from here on omit none, since boxes may share chunks.
                array, fill = array.with_config({"write_empty_chunks": True}), None
            array[box or ...] = values.copy() if keeps else values

        yield Sink(write, chunks=chunks, lost=lost, payloads=_payloads_of(array, given.dtype))


def _lies_open(zarr: Any, array: Any, dtype: np.dtype[Any]) -> bool:
    """Tell whether each chunk of a zarr array is a file with only its elements."""
    if array.shards or array.compressors or array.filters or not array.shape or 0 in array.shape:
        return False
    if math.prod(array.chunks) * dtype.itemsize > config.max_memory // 4:
        return False  # boxes may be parts of it
    if dtype.kind not in "iufcb" or dtype.isbuiltin == 2 or array.dtype != dtype:
        return False
    if array.metadata.zarr_format == 2:
        return bool(array.metadata.order == "C")
    (codec, *others) = array.metadata.codecs
    if others or not isinstance(codec, zarr.codecs.BytesCodec):
        return False
    return _has_order_of(codec, dtype)


def _payloads_of(array: Any, dtype: np.dtype[Any]) -> Payloads | None:
    """Return the chunks of an array as its codecs have encoded them, if a codec of ours can."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    if array.shards or not array.shape or dtype.kind not in "iufcb" or array.dtype != dtype:
        return None
    if array.metadata.zarr_format == 2:
        if array.metadata.order != "C":
            return None
        steps = [step.get_config() for step in array.filters]
        steps += [step.get_config() for step in array.compressors]
    else:
        first, *others = array.metadata.codecs
        if not isinstance(first, zarr.codecs.BytesCodec) or not _has_order_of(first, dtype):
            return None
        steps = [step.to_dict() for step in others]
    facts = [(s.get("id", s.get("name")), {**s, **(s.get("configuration") or {})}) for s in steps]
    names = [str(name).removeprefix("numcodecs.") for name, _ in facts]
    shuffles = names[:1] == ["shuffle"] and facts[0][1].get("elementsize") == dtype.itemsize
    if len(names) != 1 + shuffles or names[-1] not in LEVELS:
        return None
    chunks, key_of = tuple(array.chunks), array.metadata.encode_chunk_key
    buffers = zarr.core.buffer.default_buffer_prototype().buffer

    def get(index: tuple[int, ...]) -> bytes | None:
        place = array.store_path / key_of(index)
        if isinstance(array.store, zarr.storage.LocalStore):
            try:
                with open(os.path.join(array.store.root, place.path), "rb") as file:
                    return file.read()
            except FileNotFoundError:
                return None
        found = zarr.core.sync.sync(place.get())
        return None if found is None else bytes(found.to_bytes())

    def put(index: tuple[int, ...], payload: bytes) -> None:
        place = array.store_path / key_of(index)
        zarr.core.sync.sync(place.set(buffers.from_bytes(payload)))

    codec = Codec(names[-1], filter="shuffle" if shuffles else None)
    return Payloads(codec, chunks, get, put)


def _has_order_of(codec: Any, dtype: np.dtype[Any]) -> bool:
    """Tell whether zarr's codec of bytes stores them in the order that a dtype has."""
    endian = getattr(codec.endian, "value", codec.endian)
    return dtype.itemsize == 1 or endian == ("little" if dtype.str[0] == "<" else "big")


def _chunk_files(where: str, array: Any, given: Description, lost: list[str]) -> Sink:
    """Return a sink that writes files of whole chunks; zarr would copy each once more."""
    chunks, key_of = tuple(array.chunks), array.metadata.encode_chunk_key
    left_out = _left_out(array, given.dtype)
    # A chunk may have any elements outside the bounds.
    fill = np.zeros((), given.dtype) if array.fill_value is None else array.fill_value

    def write(box: Box, values: NDArray[Any]) -> None:
        for inner in tiles(values.shape, chunks, 1, limit=1, split=False):
            part = values[inner]
            if part.shape != chunks:
                whole = np.full(chunks, fill, given.dtype)
                whole[tuple(slice(0, n) for n in part.shape)] = part
                part = whole
            part = np.ascontiguousarray(part)
            if left_out is not None and is_all(part, left_out):
                continue
            places = zip(box, inner, chunks, strict=True)
            index = tuple((b.start + p.start) // c for b, p, c in places)
            name = os.path.join(where, *key_of(index).split("/"))
            os.makedirs(os.path.dirname(name), exist_ok=True)
            file = File.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                if is_large:  # the file system finds its space at once, not page by page
                    file.reserve(0, part.nbytes)
                file.write(part.reshape(-1).view(np.uint8), 0)
            finally:
                file.close()

    is_large = math.prod(chunks) * given.dtype.itemsize >= _LEAST_ALONE
    return Sink(write, chunks=chunks, single=is_large, parallel=True, lost=lost)


def _left_out(array: Any, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Return the element whose chunks need not be written, or None if all must be.

    This is the fill value in the metadata, which has only one kind of NaN.
    """
    if array.fill_value is None or array.config.write_empty_chunks:
        return None
    form = array.metadata.zarr_format
    kind = array.metadata.dtype if form == 2 else array.metadata.data_type
    said = kind.to_json_scalar(array.fill_value, zarr_format=form)
    return np.asarray(kind.from_json_scalar(said, zarr_format=form), dtype)


@contextlib.contextmanager
def _folder(zarr: Any, root: Any, inner: str, overwrite: bool, zarr_format: int) -> Iterator[str]:
    """Yield a folder that takes the place of an array at the end of the block, in one step.

    It brings missing groups around it along.
    """
    steps = [p for p in inner.split("/") if p]
    with of_library(root, _TITLE):
        store = os.path.realpath(followed_name(os.path.abspath(os.fspath(root))))
        place = followed_name(os.path.join(store, *steps))
        if not _is_free(place):
            if not overwrite:
                raise ExistsError(
                    errno.EEXIST, "it already exists; replace it with overwrite=True", place
                )
            if not any(os.path.exists(os.path.join(place, f)) for f in ("zarr.json", ".zarray")):
                raise ExistsError(
                    errno.EEXIST, "it is not a Zarr array, so it is not replaced", place
                )
            if not isinstance(zarr.open(place, mode="r"), zarr.Array):
                raise ExistsError(
                    errno.EEXIST, "it is a group, which an array cannot replace", place
                )
        os.stat(os.path.dirname(store))  # only one level of folders is made
        top = store
        while steps and not _is_free(top):
            top = os.path.join(top, steps.pop(0))
        form = _format_of(root, zarr_format)
    with _replaced(top) as fresh:
        where = os.path.join(fresh, *steps)
        with family("cannot write '{}'", place):
            os.makedirs(where, exist_ok=True)
        yield where
        with of_library(root, _TITLE):
            if steps:
                _make_groups(zarr, fresh, steps[:-1], form)
            if top != store:
                above = os.path.relpath(os.path.dirname(top), store).split(os.sep)
                _make_groups(zarr, store, [p for p in above if p != os.curdir], form)


def _make_groups(zarr: Any, root: str, steps: list[str], form: int) -> None:
    """Turn nested folders that are no groups yet into groups."""
    group = zarr.open_group(root, mode="a", zarr_format=form)
    for step in steps:
        group = group.require_group(step)


def _is_free(place: str) -> bool:
    """Tell whether a place is empty, or has an empty folder."""
    return not os.path.lexists(place) or (os.path.isdir(place) and not os.listdir(place))


@contextlib.contextmanager
def _replaced(place: str) -> Iterator[str]:
    """Yield a folder that takes a place at the end of the block, in one step.

    Until then it is outside all groups, where Zarr would find it.
    """
    with family("cannot write '{}'", place):
        place = os.path.realpath(followed_name(place))
        parent = outer = os.path.dirname(place)
        while os.path.dirname(outer) != outer and any(
            os.path.exists(os.path.join(outer, name)) for name in ("zarr.json", ".zgroup")
        ):
            outer = os.path.dirname(outer)
        if not os.access(outer, os.W_OK) or os.stat(outer).st_dev != os.stat(parent).st_dev:
            outer = parent
    with making_folder(place, _take_place, within=outer) as fresh:
        yield fresh


def _take_place(fresh: str, place: str) -> None:
    """Give a folder its name; remove the former holder."""
    if not os.path.lexists(place):
        system.replace(fresh, place)
        return
    swap_folders(fresh, place)
    if not _remove(fresh):
        with family(f"'{place}' is replaced, but its old content is left in '{{}}'", fresh):
            remove_tree(fresh)


def _remove(folder: str) -> bool:
    """Remove a folder; try twice, as a failure may be temporary."""
    for _ in range(2):
        remove_tree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return True
    return False


def _format_of(root: Any, default: int) -> int:
    """Return the format of a group in a folder, or `default` for a new one."""
    where = os.fspath(root)
    if os.path.exists(os.path.join(where, "zarr.json")):
        return 3
    return 2 if os.path.exists(os.path.join(where, ".zgroup")) else default


@contextlib.contextmanager
def _place(zarr: Any, store: Any, inner: str, overwrite: bool) -> Iterator[None]:
    """Refuse an existing place in a store; leave nothing there if the block fails."""
    with of_library(store, _TITLE):
        try:
            there = zarr.open(store, path=inner, mode="r")
        except (FileNotFoundError, KeyError, zarr.errors.BaseZarrError):
            there = None
        if there is not None and not isinstance(there, zarr.Array):
            if inner or any(True for _ in there.keys()):  # noqa: SIM118 -- a group of zarr
                raise ExistsError(
                    errno.EEXIST, "it is a group, which an array cannot replace", inner
                )
        elif there is not None and not overwrite:
            raise ExistsError(
                errno.EEXIST,
                "it already has an array; replace it with overwrite=True",
                inner or "/",
            )
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            zarr.core.sync.sync(zarr.storage.StorePath(store, inner).delete_dir())
        raise


def _made(
    zarr: Any,
    store: Any,
    inner: str | None,
    given: Description,
    zarr_format: int,
    overwrite: bool,
    options: dict[str, Any],
    lost: list[str],
) -> Any:
    """Create a zarr array."""
    own_attrs, settings = dict(given.attrs), dict(options)
    own_attrs.pop(CHARACTERS, None)
    if given.fills or given.dtype.kind in "iufcbMm":
        settings.setdefault("fill_value", np.asarray(given.fill_value, given.dtype)[()])
    if zarr_format == 3:
        missing = own_attrs.pop(_MISSING, None if given.fills else given.missing)
    elif (given.dims is not None or not given.shape) and "fill_value" not in options:
        settings["fill_value"] = _missing_of_zarr_2(given, own_attrs, lost)
    attrs = _json_attrs(own_attrs, lost)
    if zarr_format == 3 and missing is not None:
        try:
            attrs[_MISSING] = missing_to_json(missing, given.dtype)
        except ArgumentTypeError as error:
            lost.append(f"attribute {_MISSING!r} ({error})")
    lost.extend(f"coordinate {each!r}" for each in given.coords)
    if given.dims is not None and zarr_format == 3:
        settings.setdefault("dimension_names", given.dims)
    elif zarr_format == 2 and (given.dims is not None or not given.shape):
        attrs.setdefault(_DIMENSIONS, list(given.dims or ()))
    if given.shape and "chunks" not in settings:
        assert given.chunks is not None
        own = tuple(max(1, min(c, n)) for c, n in zip(given.chunks, given.shape, strict=True))
        shards = settings.get("shards")
        settings["chunks"] = "auto" if shards is not None else own
    try:
        return zarr.create_array(
            store,
            name=inner,
            shape=given.shape,
            dtype=given.dtype,
            zarr_format=zarr_format,
            attributes=attrs,
            overwrite=overwrite and inner is not None,
            **settings,
        )
    except (TypeError, ValueError) as error:
        if "dtype" in str(error).lower() or "data type" in str(error).lower():
            raise DTypeError(
                f"Zarr {zarr_format} does not support elements of {given.dtype}: {error}"
            ) from error
        raise ArgumentError(f"zarr cannot create such an array: {error}") from error


def _missing_of_zarr_2(given: Description, attrs: dict[str, Any], lost: list[str]) -> Any:
    """Return the fill value of an array for xarray; None: no value marks missing elements.

    The attribute that other formats use for this is removed.
    """
    fill = np.asarray(given.fill_value, given.dtype)[()] if given.fills else None
    found = missing_element(attrs.get(_MISSING), given.dtype)
    if found is None:
        return given.missing if fill is None else fill
    del attrs[_MISSING]
    if fill is not None and fill.tobytes() != found.tobytes():
        lost.append(f"the fill value {fill!r}, since Zarr 2 uses {found!r} for missing elements")
    return found


def _json_attrs(attrs: Mapping[str, Any], lost: list[str]) -> dict[str, Any]:
    """Convert attributes to JSON; collect in `lost` what JSON cannot hold."""
    kept: dict[str, Any] = {}
    for key, value in attrs.items():
        try:
            kept[key] = plain_json(value)
        except ArgumentTypeError:
            lost.append(f"attribute {key!r}, which JSON cannot represent")
        else:
            if isinstance(value, (np.ndarray, np.generic, tuple)):
                lost.append(f"the type of the attribute {key!r}")
    return kept


# -- whole stores --------------------------------------------------------------------------------


@contextlib.contextmanager
def _whole_source(outer: Any) -> Iterator[WholeSource]:
    """Yield a zarr group with everything that a group needs."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    groups: dict[str, dict[str, Any]] = {}
    arrays: dict[str, Any] = {}
    lost: list[str] = []

    @contextlib.contextmanager
    def source(name: str) -> Iterator[Source]:
        with of_library(outer, _TITLE, name):
            found = source_of(arrays[name])
        yield found

    with of_library(outer, _TITLE):
        groups[""] = dict(outer.attrs)
        for name, item in _walk(outer):
            if isinstance(item, zarr.Group):
                groups[name] = dict(item.attrs)
            elif isinstance(item, zarr.Array):
                arrays[name] = item
            else:
                lost.append(f"{name!r} ({item})")
    yield WholeSource(groups, list(arrays), source, lost)


@contextlib.contextmanager
def _whole_sink(
    store: Any, overwrite: bool, zarr_format: Any, options: dict[str, Any]
) -> Iterator[WholeSink]:
    """Create a store for a group: a folder, which takes its name at the end of the block."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    if zarr_format not in (2, 3):
        raise ArgumentError(f"zarr_format {zarr_format!r} is not supported; use 2 or 3")
    with group_folder(store, overwrite, _TITLE) as fresh:
        with of_library(store, _TITLE):
            outer = zarr.open_group(fresh, mode="a", zarr_format=zarr_format)

        def sink(name: str, given: Description) -> AbstractContextManager[Sink]:
            return sink_of(fresh, name, given, zarr_format=zarr_format, **options)

        def put_attrs(name: str, attrs: Mapping[str, Any]) -> list[str]:
            lost: list[str] = []
            with of_library(store, _TITLE):
                group = outer.require_group(name) if name else outer
                group.attrs.update(_json_attrs(attrs, lost))
            return lost

        yield WholeSink(sink, put_attrs)


@contextlib.contextmanager
def group_folder(store: Any, overwrite: Any, title: str) -> Iterator[str]:
    """Yield a folder for a whole store, which takes its place at the end of the block."""
    if not _is_path(store):
        raise ArgumentError(f"{title}: a group is written to a folder; give its path")
    with of_library(store, title):
        place = followed_name(os.path.abspath(os.fspath(store)))
        there = os.path.lexists(place)
        if there and not check_flag(overwrite, "overwrite"):
            raise ExistsError(
                errno.EEXIST, "it already exists; replace it with overwrite=True", place
            )
        if there and not any(
            os.path.exists(os.path.join(place, f)) for f in ("zarr.json", ".zgroup", ".zarray")
        ):
            raise ExistsError(errno.EEXIST, "it is not a Zarr store, so it is not replaced", place)
    with _replaced(place) as fresh:
        yield fresh


@contextlib.contextmanager
def _outline(store: Any) -> Iterator[WholeSource]:
    """Yield what a store has; an array in place of a group has an empty name."""
    zarr: Any = require("zarr", "zarr", _TITLE)
    found = opened(store)
    if isinstance(found, zarr.Array):
        yield WholeSource({}, [""], lambda name: _source(found), [])
    else:
        with _whole_source(found) as outline:
            yield outline


def _code(store: str, name: Any) -> list[str]:
    """Return lines of Python that open an array."""
    path = f", path={name!r}" if name else ""
    return ["import zarr", "", f'a = zarr.open_array({store!r}{path}, mode="r")']


ZARR = Format(
    "zarr",
    _TITLE,
    (".zarr",),
    _source,
    sink_of,
    part="an array",
    extra="zarr",
    names=_names,
    load_group=from_zarr,
    save_group=to_zarr,
    outline=_outline,
    code=_code,
)
