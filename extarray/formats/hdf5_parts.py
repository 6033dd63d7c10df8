"""Parts of HDF5 files through h5py: data types, attributes, scales, places of elements."""

from __future__ import annotations

import contextlib
import glob
import json
import math
import os
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.array.h5py_compat import is_sparse
from extarray.codecs.codec import Codec
from extarray.common.errors import CastingError, DTypeError, FormatError
from extarray.common.extras import require
from extarray.common.hints import hint
from extarray.format.constants import LIMIT
from extarray.format.dtypes import decode_dtype, encode_dtype
from extarray.formats.description import Coordinate, many_labels, of_coordinate
from extarray.formats.elements import Pieces, mapped, part_of
from extarray.formats.transfer import Source, runs
from extarray.formats.undecoded import Payloads
from extarray.grid.chunking import grid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from extarray.formats.description import Description
    from extarray.formats.files import Room
    from extarray.grid.tiles import Box

__all__ = [
    "DTYPE_NOTE",
    "ENUM",
    "INTERNAL",
    "NO_VARIABLE",
    "Stored",
    "chunk_writer",
    "copy_attrs",
    "dtype_of",
    "encoded",
    "fill_value",
    "fixed_text",
    "holders",
    "in_place",
    "labels",
    "payloads_of",
    "plain_dtype",
    "put_attrs",
    "read_attrs",
    "read_axes",
    "restored",
    "scales_of",
    "stored_as",
    "stored_bytes",
    "takes_chunks",
    "text_dtype",
    "unsaid",
    "with_holes",
    "with_room",
    "write_attrs",
]

#: Attribute with the dtype of elements that are stored as another one.
DTYPE_NOTE = "extarray_dtype"
#: Attribute with the names of an enumeration.
ENUM = "enum"
#: Chunks of at least this size in bytes are mapped or written directly, as the cost of a call is
#: small in comparison.
_LEAST_MAPPED = 1 << 18
#: Numbers of HDF5's filters: byte shuffle, and codecs whose payloads arrays take over as they are.
_SHUFFLE, _CODECS = 2, {1: "zlib", 32015: "zstd"}
#: Text by which netCDF marks a dimension without a coordinate.
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"
#: Attributes by which HDF5 and netCDF store names of axes, which are in `dims` and `coords`.
#: Scales also have ``CLASS`` and ``NAME``, but other objects, such as images, use these, too.
INTERNAL = frozenset(
    [
        *["DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"],
        *["_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict", "_NCProperties"],
    ]
)


class Stored(NamedTuple):
    """The HDF5 form of elements whose dtype HDF5 lacks.

    Attributes
    ----------
    dtype : dtype
        Dtype in the file.
    encode : callable or None
        Converts elements of an array to those of the file; None: they are equal.
    note : str or None
        Dtype of the array, for `DTYPE_NOTE`.
    """

    dtype: np.dtype[Any]
    encode: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    note: str | None = None


def stored_as(dtype: np.dtype[Any]) -> Stored:
    """Return the HDF5 form of elements of a dtype.

    Raises
    ------
    DTypeError
        A TypeError: HDF5 does not support the dtype.
    """
    h5py: Any = require("h5py", "hdf5", "HDF5")
    note = json.dumps(encode_dtype(dtype))
    if dtype.names is not None:
        for name, entry in dtype.fields.items():  # type: ignore[union-attr]
            base = entry[0].base
            if base.kind in "UMm" or base.isbuiltin == 2:
                raise DTypeError(
                    f"the field {name!r} has type {base}, which HDF5 does not support in a "
                    "record; use byte strings ('S20') for text, int64 for dates"
                )
        return Stored(dtype)
    if dtype.kind == "U":
        kind = h5py.string_dtype("utf-8", 4 * (dtype.itemsize // 4))
        return Stored(kind, lambda x: np.char.encode(x, "utf-8").astype(kind), note)
    if dtype.kind in "Mm":
        kind = h5py.opaque_dtype(dtype)
        return Stored(kind, lambda x: x.astype(kind))
    if dtype.isbuiltin == 2:
        kind = np.dtype(f"V{dtype.itemsize}")
        return Stored(kind, lambda x: x.view(kind), note)
    return Stored(dtype)


def restored(
    dtype: np.dtype[Any], note: Any
) -> tuple[np.dtype[Any], Callable[[NDArray[Any]], NDArray[Any]] | None]:
    """Return the array's dtype for elements in a file, and the conversion.

    Parameters
    ----------
    dtype : dtype
        Dtype in the file.
    note : object
        The attribute `DTYPE_NOTE`, or None.
    """
    if note is None:
        return dtype, None
    try:
        wanted = decode_dtype(json.loads(note))
    except (FormatError, ValueError, TypeError, RecursionError):
        return dtype, None
    if wanted.kind == "U" and dtype.kind == "S" and wanted.itemsize <= 4 * dtype.itemsize:
        return wanted, lambda x: np.char.decode(x, "utf-8").astype(wanted)
    if wanted.itemsize == dtype.itemsize and dtype.kind == "V" and dtype.names is None:
        return wanted, lambda x: x.view(wanted)
    return dtype, None


def dtype_of(dataset: Any, where: str) -> np.dtype[Any]:
    """Return the dtype of a dataset.

    Raises
    ------
    DTypeError
        A TypeError: h5py has no dtype for it, as for HDF5 times.
    """
    try:
        dtype: np.dtype[Any] = dataset.dtype
    except TypeError as error:
        raise DTypeError(f"{where} has elements of a type that h5py cannot read: {error}") from (
            error
        )
    return dtype


def plain_dtype(h5py: Any, dtype: np.dtype[Any], where: str) -> np.dtype[Any]:
    """Return the dtype of a dataset without metadata of h5py, if its elements have a fixed size.

    Raises
    ------
    DTypeError
        A TypeError: texts of variable length, references, sequences.
    """
    if dtype.kind == "O":
        if h5py.check_string_dtype(dtype) is not None:
            raise DTypeError(
                f"{where} has strings of variable length, which lie elsewhere in the file; make an "
                f"array of them by {hint('extarray.from_hdf5', 'extarray import')}"
            )
        if h5py.check_ref_dtype(dtype) is not None:
            raise DTypeError(
                f"{where} has references to other objects in its file, which are meaningless "
                "elsewhere"
            )
        raise DTypeError(
            f"{where} has sequences of variable length; pad them to one length, in a dataset with "
            "one more axis"
        )
    if dtype.hasobject:
        names = [n for n, e in (dtype.fields or {}).items() if e[0].hasobject]
        raise DTypeError(
            f"{where} has records with fields of variable length or references: {names}; read the "
            "other fields with h5py, dataset.fields([...]), and pass them to extarray.from_array"
        )
    if dtype.names is None and dtype.metadata:
        return np.dtype(dtype.str)
    return dtype


def unsaid(h5py: Any, dataset: Any) -> list[str]:
    """Describe properties of an HDF5 type that the dtype lacks."""
    dtype, kind = dataset.dtype, dataset.id.get_type()
    lost = [
        f"the names of the enumeration in the field {name!r}"
        for name, entry in (dtype.fields or {}).items()
        if h5py.check_enum_dtype(entry[0].base) is not None
    ]
    text = h5py.check_string_dtype(dtype)
    if text is not None and text.length is not None:
        if text.encoding == "utf-8":
            lost.append("that its texts are of UTF-8")
        if kind.get_strpad() == h5py.h5t.STR_SPACEPAD:
            lost.append("that spaces at the end of its texts are padding")
    if kind.get_class() == h5py.h5t.BITFIELD:
        lost.append("that its elements are bit fields")
    return lost


def stored_bytes(dataset: Any) -> int:
    """Return the stored bytes of the elements of a dataset."""
    own: int = dataset.id.get_storage_size()
    folder = os.path.dirname(dataset.file.filename)
    names = [name for name, _, _ in dataset.external or ()]
    if dataset.is_virtual:
        names += [each.file_name for each in dataset.virtual_sources() if each.file_name != "."]
        own = os.stat(dataset.file.filename).st_size
    # "%b" in the name of a source stands for the number of a block, each in its own file.
    patterns = {glob.escape(name).replace("%b", "*") for name in names}
    found = {
        os.path.realpath(each)
        for pattern in patterns
        for each in glob.glob(os.path.join(glob.escape(folder), pattern))
    }
    return own + sum(os.stat(each).st_size for each in found)


def text_dtype(elements: Any, text: Any) -> np.dtype[Any]:
    """Return a fixed dtype for texts of variable length; search for the longest if needed.

    Parameters
    ----------
    elements : iterable of ndarray
        Arrays of str or bytes.
    text : dtype_like
        "U" or "S", with or without a length.
    """
    wanted: np.dtype[Any] = np.dtype(text)
    if wanted.kind not in "US":
        raise DTypeError(
            f"text={text!r} is not a string type; use 'U' or 'S', with or without a length"
        )
    if wanted.itemsize:
        return wanted
    longest = 1
    for part in elements:
        longest = max(longest, max(map(len, part.ravel()), default=1))
    return np.dtype(f"{wanted.kind}{longest}")


def fixed_text(values: NDArray[Any], dtype: np.dtype[Any], where: str) -> NDArray[Any]:
    """Convert texts to a fixed dtype without truncation."""
    longest = max(map(len, values.ravel()), default=0)
    room = dtype.itemsize // (4 if dtype.kind == "U" else 1)
    if longest > room:
        raise CastingError(
            f"{where} has a string of length {longest}, but {dtype} holds {room}; give "
            f"text='{dtype.kind}' for the longest length"
        )
    return values.astype(dtype)


# -- attributes ----------------------------------------------------------------------------------


def read_attrs(h5py: Any, attrs: Any, lost: list[str]) -> dict[str, Any]:
    """Return the attributes of an h5py object, except those that HDF5 uses itself."""
    result: dict[str, Any] = {}
    own = _own_names(attrs)
    for name in attrs:
        if name in own:
            continue
        try:
            value = attrs[name]
            if h5py.check_enum_dtype(attrs.get_id(name).dtype) is not None:
                lost.append(f"the names of the enumeration in attribute {name!r}")
        except (OSError, TypeError, ValueError, RuntimeError, KeyError) as error:
            lost.append(f"attribute {name!r} ({error})")
            continue
        if isinstance(value, h5py.Empty):
            lost.append(f"attribute {name!r}, which is empty")
            continue
        if isinstance(value, np.ndarray) and value.dtype.kind == "O" and value.size:
            value = value.tolist()
        if isinstance(value, np.ndarray) and value.dtype.metadata:
            value = value.view(value.dtype.str)
        if isinstance(value, (h5py.Reference, h5py.RegionReference)):
            lost.append(f"attribute {name!r}, which is a reference")
            continue
        result[name] = value
    return result


def _own_names(attrs: Any) -> frozenset[str]:
    """Return the names of attributes that HDF5 and netCDF use themselves."""
    try:
        is_scale = attrs.get("CLASS", b"") in (b"DIMENSION_SCALE", "DIMENSION_SCALE")
    except (OSError, TypeError, ValueError, RuntimeError, KeyError):
        is_scale = False
    return INTERNAL | {"CLASS", "NAME"} if is_scale else INTERNAL


def write_attrs(h5py: Any, target: Any, attrs: Mapping[str, Any], lost: list[str]) -> None:
    """Set the attributes of an h5py object."""
    for name, value in attrs.items():
        try:
            target[name] = _attr(h5py, value)
        except (OSError, TypeError, ValueError, RuntimeError, KeyError) as error:
            lost.append(f"attribute {name!r} ({error})")


def _attr(h5py: Any, value: Any) -> Any:
    """Convert an attribute to a form that h5py accepts."""
    if value is None or isinstance(value, dict):
        raise TypeError(f"HDF5 attributes cannot hold a {type(value).__name__}")
    if isinstance(value, (list, tuple)):
        if all(isinstance(v, str) for v in value) and value:
            return np.array(value, h5py.string_dtype())
        given = np.array(value)
        if given.dtype.kind not in "biufc":
            raise TypeError("HDF5 attributes cannot hold a list of mixed types")
        return given
    array = np.asarray(value)
    if array.dtype.kind == "U":
        return array.astype(h5py.string_dtype()) if array.ndim else str(value)
    if array.dtype.kind in "Mm":
        return array.astype(h5py.opaque_dtype(array.dtype))[()]
    return value


def fill_value(dataset: Any, kind: np.dtype[Any], decode: Any = None) -> Any:
    """Return the value of elements that were never written.

    Parameters
    ----------
    dataset : h5py.Dataset
    kind : dtype
        Dtype of the array.
    decode : callable, optional
        Converts elements of the file to those of the array; None: they are equal.
    """
    try:
        value = dataset.fillvalue
    except (RuntimeError, TypeError, ValueError):  # not defined
        return 0
    if decode is not None and dataset.dtype.kind != "O":
        return decode(np.asarray([value], dataset.dtype))[0]
    if dataset.dtype.kind == "O" or kind.kind in "SUV" or kind.isbuiltin == 2:
        filled = np.asarray(value, dataset.dtype) if dataset.dtype.kind != "O" else None
        if filled is None or filled.dtype != kind:
            return 0
        return filled[()] if filled.tobytes().strip(b"\0") else 0
    values = np.unique(np.asarray(value, dataset.dtype.base).astype(kind))
    return values[0] if values.size == 1 else 0


def read_axes(h5py: Any, dataset: Any, given: Description, lost: list[str]) -> None:
    """Read names of axes and coordinates from labels and scales."""
    dims: list[str] = []
    coords: dict[str, Coordinate] = {}
    if given.ndim != len(dataset.shape):
        return
    named = False
    if dataset.is_scale and dataset.ndim == 1:
        dims, named = [dataset.name.rpartition("/")[2]], True
    else:
        scales = []
        for j in range(dataset.ndim):
            found = scales_of(dataset.dims[j])
            label = dataset.dims[j].label
            own = label or (found[0].name or "").rpartition("/")[2] if found or label else ""
            named = named or bool(own)
            dims.append(own or f"dim_{j}")
            scales.append(found)
        for j, found in enumerate(scales):
            for scale in found:
                _read_scale(h5py, scale, dims[j], dataset.shape[j], coords, lost)
    if not named:
        return
    if len(set(dims)) < len(dims):
        lost.append(f"the names of the axes {tuple(dims)}, since one occurs twice")
        return
    given.dims, given.coords = tuple(dims), coords


def scales_of(axis: Any) -> list[Any]:
    """Return the scales of an axis, or none if they are damaged."""
    try:
        return list(axis.values())
    except (RuntimeError, ValueError, KeyError, TypeError):
        return []


def _read_scale(
    h5py: Any, scale: Any, dim: str, extent: int, coords: dict[str, Coordinate], lost: list[str]
) -> None:
    """Read a coordinate from a scale of an axis."""
    if NO_VARIABLE in str(scale.attrs.get("NAME", "")):
        return
    name = (scale.name or dim).rpartition("/")[2]
    try:
        string = h5py.check_string_dtype(dtype_of(scale, "it"))
    except DTypeError as error:
        lost.append(f"coordinate {name!r} ({error})")
        return
    reason = ""
    if scale.ndim != 1 or scale.shape[0] < extent:
        reason = ", which does not label all elements"
    elif name in coords:
        reason = ", which occurs twice"
    elif scale.dtype.hasobject and string is None:
        reason = f", of {scale.dtype}"
    elif many := many_labels(extent, extent * scale.dtype.itemsize):
        reason = f" ({many})"
    if reason:
        lost.append(f"coordinate {name!r}{reason}")
        return
    told: list[str] = []
    values = labels(h5py, scale, extent)
    coords[name] = Coordinate((dim,), values, read_attrs(h5py, scale.attrs, told))
    lost += of_coordinate(name, told)


def labels(h5py: Any, scale: Any, extent: int) -> NDArray[Any]:
    """Return the values of a scale."""
    if h5py.check_string_dtype(scale.dtype) is not None and scale.dtype.kind == "O":
        text: NDArray[Any] = scale.asstr()[:extent].astype(str)
        return text
    values: NDArray[Any] = scale[:extent]
    return values.view(values.dtype.str) if values.dtype.metadata else values


def copy_attrs(h5py: Any, old: Any, new: Any) -> None:
    """Copy attributes unchanged, and attach the scales."""
    for j in range(len(old.shape)):
        new.dims[j].label = old.dims[j].label
        for scale in old.dims[j].values():
            new.dims[j].attach_scale(scale)
    own = _own_names(old.attrs)
    for name in old.attrs:
        if name in own:
            continue
        source = h5py.h5a.open(old.id, name.encode())
        target = h5py.h5a.create(new.id, name.encode(), source.get_type(), source.get_space())
        if source.get_space().get_simple_extent_type() == h5py.h5s.NULL:
            continue
        values = np.empty(source.shape, source.dtype)
        source.read(values)
        target.write(values)


def holders(h5py: Any, dataset: Any) -> list[str]:
    """Describe what keeps a dataset or its elements after another one takes its name.

    Searches the whole file for references, since HDF5 does not record their holders.
    """
    found: list[str] = []
    if dataset.is_virtual:
        found.append("the datasets of which it is a view (it is virtual)")
    found.extend(
        f"the file {name!r}, which has its elements" for name, _, _ in dataset.external or ()
    )
    seen = set()

    def has_references(kind: Any) -> bool:
        return bool(kind.detect_class(h5py.h5t.REFERENCE))

    def visit(name: str, item: Any) -> None:
        if item.id in seen:
            return
        seen.add(item.id)
        for key in item.attrs:
            if key == "REFERENCE_LIST":  # of a scale: the new dataset is attached instead
                continue
            is_reference = has_references(h5py.h5a.open(item.id, key.encode()).get_type())
            if is_reference and _refers(h5py, item.attrs[key], dataset):
                found.append(f"the attribute {key!r} of {name!r}")
        if (
            isinstance(item, h5py.Dataset)
            and item.shape is not None
            and has_references(item.id.get_type())
        ):
            boxes = runs(item.shape, item.dtype.itemsize, 1 << 20)
            if any(_refers(h5py, item[box], dataset) for box in boxes):
                found.append(f"the references in the dataset {name!r}")
        if isinstance(item, h5py.Group):
            for key in item:
                if isinstance(item.get(key, getlink=True), h5py.HardLink):
                    inner = f"{name.rstrip('/')}/{key}"
                    if item[key] == dataset and inner != dataset.name:
                        found.append(f"the hard link {inner!r}")
                    visit(inner, item[key])

    visit("/", dataset.file["/"])
    return found


def _refers(h5py: Any, values: Any, dataset: Any) -> bool:
    """Tell whether values, records or sequences contain a reference to a dataset."""
    if isinstance(values, h5py.Reference):
        with contextlib.suppress(ValueError, RuntimeError, KeyError):  # dangling references
            return bool(values) and dataset.file[values] == dataset
        return False
    kind = getattr(values, "dtype", None)
    if kind is not None and kind.names:
        return any(_refers(h5py, values[name], dataset) for name in kind.names)
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        return any(_refers(h5py, value, dataset) for value in values.flat)
    return False


def encoded(values: NDArray[Any]) -> NDArray[Any]:
    """Return elements in the form of `to_hdf5`."""
    stored = stored_as(values.dtype)
    return values if stored.encode is None else stored.encode(values)


def put_attrs(dataset: Any, new: dict[str, Any], gone: list[str], lost: list[str]) -> None:
    """Set some attributes, and remove others."""
    h5py: Any = require("h5py", "hdf5", "HDF5")
    for name in gone:
        if name in dataset.attrs:
            del dataset.attrs[name]
    write_attrs(h5py, dataset.attrs, {k: v for k, v in new.items() if k != ENUM}, lost)


# -- elements inside a file ------------------------------------------------------------------------


def _lies_open(dataset: Any, kind: np.dtype[Any]) -> bool:
    """Tell whether the elements are stored in the file in the form of an array."""
    file = dataset.file
    if dataset.is_virtual or dataset.external or not dataset.size or file.driver != "sec2":
        return False
    if kind.kind not in "iuf" or file.userblock_size or not _has_bytes_of(dataset, kind):
        return False
    if file.mode != "r":
        file.flush()
    return True


def _has_bytes_of(dataset: Any, kind: np.dtype[Any]) -> bool:
    """Tell whether numbers have the bytes of a dtype in the file."""
    if kind.kind not in "iufcb" or kind.char in "gG":
        return False
    h5py: Any = require("h5py", "hdf5", "HDF5")
    stored, wanted = dataset.id.get_type(), h5py.h5t.py_create(kind)
    if stored.get_class() == h5py.h5t.ENUM and kind.kind != "b":
        stored = stored.get_super()
    # Integers may have fewer bits than their bytes, or begin at another bit: h5py converts these.
    return bool(stored == wanted)


def payloads_of(dataset: Any, kind: np.dtype[Any], room: Room | None = None) -> Payloads | None:
    """Return the chunks of a dataset as its filters have encoded them, if a codec of ours can.

    Parameters
    ----------
    dataset : h5py.Dataset
    kind : dtype
        Of the elements outside the file.
    room : Room, optional
        The space of the file that is written.
    """
    if dataset.chunks is None or not _has_bytes_of(dataset, kind):
        return None
    properties = dataset.id.get_create_plist()
    filters = [properties.get_filter(i) for i in range(properties.get_nfilters())]
    shuffles = bool(filters) and filters[0][0] == _SHUFFLE and filters[0][2][:1] == (kind.itemsize,)
    names = [_CODECS.get(number) for number, *_ in filters[shuffles:]]
    if len(names) != 1 or names[0] is None:
        return None
    chunks = tuple(dataset.chunks)

    def place(index: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(i * c for i, c in zip(index, chunks, strict=True))

    def get(index: tuple[int, ...]) -> bytes | None:
        try:
            mask, payload = dataset.id.read_direct_chunk(place(index))
        except (OSError, RuntimeError, ValueError):
            return None  # it has none, or the library tells why not when it reads the elements
        return None if mask else payload

    def put(index: tuple[int, ...], payload: bytes) -> None:
        if room is not None:
            room.need(len(payload), 1)
        dataset.id.write_direct_chunk(place(index), payload)

    codec = Codec(names[0], filter="shuffle" if shuffles else None)
    return Payloads(codec, chunks, get, put)


def _contiguous(dataset: Any, given: Description) -> Source | None:
    """Return a source for contiguous elements in a file, or None."""
    offset = dataset.id.get_offset() if dataset.chunks is None else None
    where = dataset.file.filename
    if offset is None or os.stat(where).st_size < offset + dataset.nbytes:
        return None  # h5py reports the error
    elements = mapped(where, given.dtype, dataset.shape, offset)
    return Source(given, partial(part_of, elements), mapped=True)


def _chunked(
    dataset: Any, given: Description, read: Callable[[Box], NDArray[Any]]
) -> Source | None:
    """Return a source for chunks without filters; None if they are small or filtered.

    The library would copy every chunk once more, and only one at a time.
    """
    chunks, kind = dataset.chunks, given.dtype
    nbytes = 0 if chunks is None else math.prod(chunks) * kind.itemsize
    if nbytes < _LEAST_MAPPED or dataset.id.get_create_plist().get_nfilters():
        return None
    places: dict[tuple[int, ...], int] = {}

    def note(chunk: Any) -> None:
        if chunk.size == nbytes and not chunk.filter_mask:
            places[tuple(chunk.chunk_offset)] = chunk.byte_offset

    dataset.id.chunk_iter(note)
    where = dataset.file.filename
    if not places or max(places.values()) + nbytes > os.stat(where).st_size:
        return None
    pieces, lock = Pieces(where), threading.Lock()

    def whole(box: Box) -> NDArray[Any]:
        """Read a whole chunk directly; leave other boxes and unwritten chunks to the library."""
        place = places.get(tuple(b.start for b in box))
        if place is None or any(
            b.stop != min(b.start + c, n)
            for b, c, n in zip(box, chunks, dataset.shape, strict=True)
        ):
            with lock:
                return read(box)
        chunk = pieces.read([place], nbytes).view(kind).reshape(chunks)
        return chunk[tuple(slice(0, b.stop - b.start) for b in box)]

    return Source(given, whole, single=True, parallel=True)


def in_place(
    dataset: Any, kind: np.dtype[Any], given: Description, read: Callable[[Box], NDArray[Any]]
) -> Source | None:
    """Return a source that reads elements in place, or None if the library has to read them."""
    if not _lies_open(dataset, kind):
        return None
    return _contiguous(dataset, given) or _chunked(dataset, given, read)


def with_holes(source: Source, dataset: Any) -> Source:
    """Return a source that knows which chunks of an h5py dataset were never written."""
    if dataset.shape is None or not is_sparse(dataset):
        return source
    if dataset.chunks is None:
        return replace(source, sparse=True, is_hole=lambda box: True)
    chunks = dataset.chunks
    grid = grid_of(dataset.shape, chunks)
    if math.prod(grid) >= LIMIT:
        return replace(source, sparse=True)
    found: list[tuple[int, ...]] = []
    dataset.id.chunk_iter(lambda chunk: found.append(chunk.chunk_offset))
    places = np.array(found, np.int64).reshape(len(found), len(grid)) // chunks
    written = np.sort(np.ravel_multi_index(tuple(places.T), grid))

    def is_hole(box: Box) -> bool:
        ranges = [
            np.arange(s.start // c, -(-s.stop // c)) for s, c in zip(box, chunks, strict=False)
        ]
        # Chunk numbers ascend along the last axis, in rows of the others.
        *outer, last = ranges
        rows = np.ravel_multi_index(np.ix_(*outer, last[:1]), grid).ravel()
        low, high = np.searchsorted(written, [rows, rows + len(last)])
        return bool((low == high).all())

    return replace(source, sparse=True, is_hole=is_hole)


def chunk_writer(dataset: Any) -> Callable[[Box, NDArray[Any]], None]:
    """Return a function that writes boxes to a new dataset, and whole chunks directly."""

    def write(box: Box, values: NDArray[Any]) -> None:
        if values.shape == dataset.chunks:  # a chunk cut at the edge is not whole
            dataset.id.write_direct_chunk(tuple(b.start for b in box), values)
        else:
            dataset[box] = values

    return write


def with_room(
    dataset: Any,
    room: Room,
    write: Callable[[Box, NDArray[Any]], None],
    is_new: bool = True,
) -> Callable[[Box, NDArray[Any]], None]:
    """Return a function that writes boxes to a dataset after allocating their space.

    A new dataset without filters is allocated at once, so that the file system can store it
    contiguously.
    """
    chunks, itemsize = dataset.chunks, dataset.dtype.itemsize
    if chunks is None:
        if dataset.id.get_offset() is None:  # no elements yet
            room.need(dataset.size * itemsize)
        return write
    n = math.prod(-(-extent // c) for extent, c in zip(dataset.shape, chunks, strict=True))
    nbytes = math.prod(chunks) * itemsize
    if is_new and not dataset.id.get_create_plist().get_nfilters():
        room.need(n * nbytes, n)
        return write

    def write_part(box: Box, values: NDArray[Any]) -> None:
        parts = (-(-b.stop // c) - b.start // c for b, c in zip(box, chunks, strict=True))
        room.need(math.prod(parts) * nbytes, n)
        write(box, values)

    return write_part


def takes_chunks(dataset: Any, kind: np.dtype[Any]) -> bool:
    """Tell whether whole chunks may be written directly, without a copy by the library."""
    return (
        dataset.chunks is not None
        and kind.kind in "iufc"
        and kind.char not in "gG"
        and math.prod(dataset.chunks) * kind.itemsize >= _LEAST_MAPPED
        and not dataset.id.get_create_plist().get_nfilters()
        and dataset.id.get_type().get_size() == kind.itemsize
    )
