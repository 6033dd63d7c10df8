"""Zarr's description of arrays and groups: metadata, keys, and the elements of a chunk.

A Zarr chunk is one of our chunks, counted from the first element at the time of the description.
Growth at the start of an axis shifts indices but no keys, so a key never changes its meaning.
"""

from __future__ import annotations

import functools
import math
import operator
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.recfunctions import repack_fields

from extarray.array.array import ExtArray
from extarray.array.facts import store_of
from extarray.array.folders import Group
from extarray.array.split import lengths_of
from extarray.codecs.codec import Codec
from extarray.codecs.zarr import ZarrCodec
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    BoundsError,
    ChecksumError,
    DTypeError,
    LossyWarning,
    ShapeError,
)
from extarray.common.extras import require
from extarray.format.labels import CHARACTERS, SPLIT, UNLIMITED, known_split
from extarray.format.values import missing_element, missing_to_json, plain_json
from extarray.storage.blobs import Blobs
from extarray.storage.frozen import FrozenTable

if TYPE_CHECKING:
    from collections.abc import Buffer, Callable

    from numpy.typing import NDArray

    Index = tuple[int, ...]

__all__ = [
    "Described",
    "Node",
    "described_array",
    "group_metadata",
    "nodes_of",
    "path_steps",
]

zarr_dtype: Any = require("zarr.dtype", "zarr", "a view as Zarr")

#: Attribute with the value that marks missing elements.
_MISSING = "_FillValue"


class Described:
    """Zarr's description of an array.

    Parameters
    ----------
    array : ExtArray

    Attributes
    ----------
    chunks : tuple of int
    first : tuple of int
        The first element, relative to index 0 when the array was created.
    codec : ZarrCodec or None
        The codec of the values of chunks; None: they are elements.
    names : tuple of str or None
        Names of the axes; None: those of the array.
    shown : callable or None
        Returns the shape; None: that of the array.
    told : dict or None
        The attributes; None: those of the array.

    Raises
    ------
    ArgumentError
        A ValueError: Zarr cannot describe the order of elements in chunks, or the place of the
        bounds.
    DTypeError
        A TypeError: Zarr does not support the dtype.
    """

    def __init__(self, array: ExtArray) -> None:
        self.array = array
        self.codec: ZarrCodec | None = None
        self.names: tuple[str, ...] | None = None
        self.shown: Callable[[], Index] | None = None
        self.told: dict[str, Any] | None = None
        self._pad: Any = None
        self.name = "the array" if array.path is None else f"'{array.path}'"
        if hasattr(array, "comm"):
            raise ArgumentError(
                f"cannot show {self.name} as Zarr under a communicator; open it in one process"
            )
        if array.order not in ("C", "F"):
            raise ArgumentError(
                f"cannot show {self.name} as Zarr: no Zarr codec supports the element order "
                f"{array.order!r} within chunks; copy it with a.copy(order='C')"
            )
        self.chunks = array.chunks
        self.first = tuple(map(operator.neg, array.origin))
        self.type, self.data_type = _type_of(array.dtype, self.name)
        for axis, (f, c) in enumerate(zip(self.first, self.chunks, strict=True)):
            if f % c:
                raise ArgumentError(
                    f"cannot show {self.name} as Zarr: its first element along axis {axis} is "
                    f"number {f % c} in a chunk of {c}, but Zarr chunks begin with the array; "
                    "copy it with a.copy()"
                )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Described):
            return False
        if (self.first, self.codec) != (other.first, other.codec):
            return False
        mine, path = self.array, self.array.path
        return mine is other.array or (path is not None and path == other.array.path)

    __hash__ = None  # type: ignore[assignment]

    @property
    def chunk_bytes(self) -> int:
        """Bytes of the elements of a chunk."""
        return self.array.chunk_bytes

    @property
    def dims(self) -> tuple[str, ...] | None:
        """Names of the axes, or None."""
        if self.names is not None:
            return self.names
        return () if self.array.ndim == 0 else self.array.dims

    def bounds(self) -> Index:
        """Return the shape; raise if keys have changed their meaning since the description."""
        array = self.array
        self.check_axes()
        while True:
            origin, shape = array.origin, array.shape
            if origin == array.origin:
                break
        if tuple(map(operator.neg, origin)) != self.first:
            raise ArgumentError(
                f"{self.name} has grown or shrunk at the start of an axis since as_zarr_store, "
                "and Zarr cannot shift indices; call as_zarr_store again"
            )
        return shape

    def shape(self) -> Index:
        """Return the shape that the metadata tell."""
        bounds = self.bounds()
        return bounds if self.shown is None else self.shown()

    def pad_with(self, value: Any) -> None:
        """Fill chunks outside the bounds with a value in place of zeros."""
        self._pad = value

    def grid(self) -> Index:
        """Return the number of Zarr chunks along each axis."""
        shape = self.shape()
        return tuple(-(-n // c) for n, c in zip(shape, self.chunks, strict=True))

    # -- metadata ----------------------------------------------------------------------------------

    def metadata(self, zarr_format: int) -> dict[str, Any]:
        """Return the current content of ``zarr.json`` or ``.zarray``."""
        array, dtype = self.array, self.array.dtype
        shape = self.shape()
        fill = array.fill_value
        if zarr_format == 2 and self.dims is not None:
            # xarray recognizes the array by its dims, and takes the fill value as the missing
            # value.
            fill = missing_element(array.attrs.get(_MISSING), dtype)
        if fill is not None:
            fill = self.type.to_json_scalar(fill, zarr_format=zarr_format)
        if zarr_format == 2:
            return {
                "zarr_format": 2,
                "shape": shape,
                "chunks": self.chunks,
                "dtype": self.type.to_json(zarr_format=2)["name"],
                "compressor": None,
                "fill_value": fill,
                "order": array.order,
                "filters": None,
                "dimension_separator": ".",
            }
        codecs: list[dict[str, Any]] = [{"name": "bytes"}]
        if array.itemsize > 1:
            codecs[0]["configuration"] = {"endian": _endian(dtype)}
        if array.order == "F" and len(self.chunks) > 1:
            reverse = {"order": tuple(range(len(self.chunks)))[::-1]}
            codecs.insert(0, {"name": "transpose", "configuration": reverse})
        found = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": self.data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": self.chunks}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill,
            "codecs": codecs,
            "attributes": self.attributes(3)[0] if self.told is None else self.told,
            "storage_transformers": [],
        }
        if self.dims is not None:
            found["dimension_names"] = self.dims
        if self.codec is not None:
            self.codec.tell(found, 3)
        return found

    def attributes(self, zarr_format: int) -> tuple[dict[str, Any], list[str]]:
        """Return the attributes that JSON can represent, and the names of the others."""
        values, dtype = self.array.attrs.asdict(), self.array.dtype
        for key in ("dims", UNLIMITED, CHARACTERS):
            values.pop(key, None)  # stored elsewhere in Zarr, or not at all
        lost = []
        if isinstance(values.get("coords"), dict):
            del values["coords"]  # Zarr stores coordinates as arrays
            lost.append("coords")
        missing = values.pop(_MISSING, None)
        is_told = self.dims is not None and missing_element(missing, dtype) is not None
        if missing is not None and zarr_format == 3:
            try:
                values[_MISSING] = missing_to_json(missing, dtype)
            except ArgumentTypeError:
                lost.append(_MISSING)
        elif missing is not None and not is_told:
            values[_MISSING] = missing
        plain, others = _plain_attrs(values)
        return plain, lost + others

    # -- chunks ------------------------------------------------------------------------------------

    def take_codec(self) -> None:
        """Let values be in the codec that the array has now, if Zarr has it.

        It stays the codec of the values, whatever becomes of the chunks: any that are raw, or
        encoded otherwise, are encoded when they are asked for.
        """
        blobs = self._blobs()
        if blobs is None:
            return
        told = blobs.codec if isinstance(blobs, FrozenTable) else blobs.header.compression
        self.codec = ZarrCodec.nearest(Codec.parse(told), self.array.itemsize)

    def value(self, index: Index) -> NDArray[np.uint8] | None:
        """Return a chunk as Zarr reads it; None if it has no element."""
        if self.codec is None:
            return self.chunk(index)
        found: Buffer | None = self._payload(self.codec, index)
        if found is None:
            chunk = self.chunk(index)
            if chunk is None:
                return None
            found = self.codec.encode(chunk)
        return np.frombuffer(found, np.uint8)

    def _blobs(self) -> FrozenTable | Blobs | None:
        """Return what has the encoded chunks of the array, in a file."""
        store = store_of(self.array)
        if store is None:  # in memory
            return None
        found = store.now.frozen or getattr(store, "blobs", None)
        return found if isinstance(found, (FrozenTable, Blobs)) else None

    def _payload(self, codec: ZarrCodec, index: Index) -> Buffer | None:
        """Return a chunk as it is stored; None: it is to be encoded.

        Chunks at the edge may have anything outside the bounds.
        """
        array, store, blobs = self.array, store_of(self.array), self._blobs()
        self.check_axes()
        if isinstance(blobs, FrozenTable):
            if blobs.asks:
                return None
            blobs = blobs.latest()
        if blobs is None or array.chunk_bytes != store.now.header.chunk_bytes:
            return None
        origin, shape, offset = array.origin, array.shape, store.now.state.offset
        place = []
        for i, c, f, o, n, lead in zip(
            index, self.chunks, self.first, origin, shape, offset, strict=True
        ):
            low = i * c + f + o
            if low < 0 or low + c > n:
                return None
            place.append((low + lead) // c)
        address = int(array.axial.addresses(np.array([place], np.int64).reshape(1, -1))[0])
        if (origin, offset) != (array.origin, store.now.state.offset):
            return None
        try:
            found = blobs.payload(address)
        except ChecksumError:  # which is told where the chunk is decoded
            return None
        return found.payload if found is not None and codec.has(found) else None

    def chunk(self, index: Index) -> NDArray[np.uint8] | None:
        """Return the bytes of a chunk, with zeros outside the bounds; None if it has no element."""
        array = self.array
        while True:
            self.check_axes()
            origin, shape = array.origin, array.shape
            source, target = [], []
            for i, c, f, o, n in zip(index, self.chunks, self.first, origin, shape, strict=True):
                low = i * c + f + o
                start, stop = max(low, 0), min(low + c, n)
                if start >= stop:
                    return None
                source.append(slice(start, stop))
                target.append(slice(start - low, stop - low))
            is_whole = all(t.stop - t.start == c for t, c in zip(target, self.chunks, strict=True))
            make = np.empty if is_whole else np.zeros
            found = make(self.chunks, array.dtype, "F" if array.order == "F" else "C")
            if not is_whole and self._pad is not None:
                found[...] = self._pad
            inside: Any = (*target, ...)  # the ellipsis gives a view even without axes
            try:
                array.read(tuple(source), out=found[inside])
            except (BoundsError, ShapeError):
                if (origin, shape) == (array.origin, array.shape):
                    raise
            else:
                if origin == array.origin:
                    return found.T.reshape(-1).view("u1") if array.order == "F" else _bytes(found)

    def has_chunk(self, index: Index) -> bool:
        """Tell whether a chunk has an element inside the bounds."""
        self.check_axes()
        array = self.array
        places = zip(index, self.chunks, self.first, array.origin, array.shape, strict=True)
        return all(-c < i * c + f + o < n for i, c, f, o, n in places)

    def check_axes(self) -> None:
        """Raise if the array has gained an axis."""
        if self.array.ndim != len(self.chunks):
            raise ShapeError(
                f"{self.name} has gained an axis since as_zarr_store; call as_zarr_store again"
            )


class _Frames(Described):
    """Zarr's description of an array in chunks of one element along an axis."""

    def __init__(self, array: ExtArray, axis: int) -> None:
        super().__init__(array)
        self._is_stored = self.chunks[axis] == 1
        self.chunks = (*self.chunks[:axis], 1, *self.chunks[axis + 1 :])

    def _payload(self, codec: ZarrCodec, index: Index) -> Buffer | None:
        return super()._payload(codec, index) if self._is_stored else None


class DescribedSplit(Described):
    """Zarr's description of an array one of whose axes stands for several.

    A chunk has one element along each of these.  Chunks that have not come are missing in Zarr,
    which reads them as the fill value.

    Parameters
    ----------
    array : ExtArray
    axis : str
        The axis.
    lengths : dict
        Lengths by name of the axes that it stands for; only the first may be -1.
    """

    def __init__(self, array: ExtArray, axis: str, lengths: dict[str, int]) -> None:
        super().__init__(array)
        assert array.dims is not None
        self._axis, self._lengths = array.dims.index(axis), lengths
        self._frames = _Frames(array, self._axis)
        self.chunks = self._spread(self._frames.chunks, (1,) * len(lengths))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DescribedSplit) or not super().__eq__(other):
            return False
        return (self._axis, [*self._lengths.items()]) == (other._axis, [*other._lengths.items()])

    __hash__ = None

    def _spread(self, items: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*items[: self._axis], *new, *items[self._axis + 1 :])

    @property
    def dims(self) -> tuple[str, ...] | None:
        """Names of the axes."""
        names = self.array.dims
        return None if names is None else self._spread(names, tuple(self._lengths))

    def pad_with(self, value: Any) -> None:
        """Fill chunks outside the bounds with a value in place of zeros."""
        self._frames.pad_with(value)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of the elements of a chunk."""
        return math.prod(self.chunks) * self.array.itemsize

    def bounds(self) -> Index:
        """Return the shape; raise if keys have changed their meaning since the description."""
        shape = self._frames.bounds()
        found = lengths_of(shape[self._axis], self._lengths, False, f"axis {self._axis}")
        return self._spread(shape, found)

    def attributes(self, zarr_format: int) -> tuple[dict[str, Any], list[str]]:
        """Return the attributes that JSON can represent, and the names of the others."""
        plain, lost = super().attributes(zarr_format)
        plain.pop(SPLIT, None)
        return plain, [name for name in lost if name != SPLIT]

    def take_codec(self) -> None:
        """Let values be in the codec that the array has now, if Zarr has it."""
        self._frames.take_codec()
        self.codec = self._frames.codec

    def value(self, index: Index) -> NDArray[np.uint8] | None:
        """Return a chunk as Zarr reads it; None if it has no element."""
        flat = self._flat(index)
        return None if flat is None else self._frames.value(flat)

    def has_chunk(self, index: Index) -> bool:
        """Tell whether a chunk has an element inside the bounds."""
        flat = self._flat(index)
        return flat is not None and self._frames.has_chunk(flat)

    def check_axes(self) -> None:
        """Raise if the array has gained an axis."""
        self._frames.check_axes()

    def _flat(self, index: Index) -> Index | None:
        """Return the index of a chunk without the split; None if there is no such chunk."""
        last, place = self._axis + len(self._lengths), 0
        for i, n in zip(index[self._axis : last], self._lengths.values(), strict=True):
            if n != -1 and i >= n:
                return None
            place = place * n + i if n != -1 else i
        return (*index[: self._axis], place, *index[last:])


def described_array(array: ExtArray, splits: bool = True) -> Described:
    """Describe an array: with the axes for which one of its own stands, if it says so (`splits`).

    If several of its own do, or if a length of -1 stands behind the first, it is described as it
    is: with the latter, keys would change their meaning when the array grows.
    """
    found = known_split(array.attrs.get(SPLIT), array.dims) if splits else {}
    if len(found) == 1:
        ((axis, lengths),) = found.items()
        if -1 not in list(lengths.values())[1:]:
            return DescribedSplit(array, axis, lengths)
    return Described(array)


Node = Described | dict[str, Any]


def _bytes(elements: NDArray[Any]) -> NDArray[np.uint8]:
    return elements.reshape(-1).view("u1")


def _endian(dtype: np.dtype[Any]) -> str:
    return "little" if dtype == dtype.newbyteorder("<") else "big"


@functools.lru_cache(maxsize=64)
def _of_zarr(dtype: np.dtype[Any]) -> tuple[Any, Any, np.dtype[Any]]:
    """Return the Zarr type of a dtype, its JSON, and the dtype that Zarr makes of that.

    Cached, because asking Zarr takes longer than everything else in a view.
    """
    found = zarr_dtype.parse_dtype(dtype, zarr_format=3)
    with warnings.catch_warnings():
        # The warning about unsettled type names concerns files that are kept, not this store.
        warnings.simplefilter("ignore")
        text = found.to_json(zarr_format=3)
        back = type(found).from_json(text, zarr_format=3)
    known = back.to_native_dtype().newbyteorder(">" if _endian(dtype) == "big" else "<")
    return found, text, known


def _is_as_in_zarr(dtype: np.dtype[Any]) -> bool:
    """Tell whether a dtype is not a record, or has Zarr's layout, without which Zarr warns."""
    if dtype.names is None:
        return True
    return _endian(dtype) == "little" and dtype == repack_fields(dtype, recurse=True)


def _type_of(dtype: np.dtype[Any], name: str) -> tuple[Any, Any]:
    """Return the Zarr type that reads elements unchanged, and its JSON."""
    if _is_as_in_zarr(dtype):
        try:
            found, text, known = _of_zarr(dtype)
        except (TypeError, ValueError, KeyError) as error:
            raise DTypeError(
                f"cannot show {name} as Zarr, which does not support {dtype}: {error}"
            ) from error
        if known == dtype:
            return found, text
    raise DTypeError(
        f"cannot show {name} as Zarr: records in Zarr have little-endian fields without gaps, "
        f"unlike {dtype}; convert it with a.astype"
    )


# -- several ---------------------------------------------------------------------------------------


def nodes_of(source: Any, name: str | None = None, splits: bool = False) -> dict[str, Node]:
    """Return what Zarr sees of an array or group: arrays, and attributes of groups, by path.

    `name` places an array in groups that are made up for it; None: the array is the root.  With
    `splits`, an axis that stands for several is shown as these.
    """
    nodes: dict[str, Node] = {}
    lost: list[str] = []
    if isinstance(source, Group):
        nodes[""], missed = _plain_attrs(dict(source.attrs))
        lost = [f"{each!r} of the group" for each in missed]
        for path, item in source.walk():
            if isinstance(item, Group):
                nodes[path], missed = _plain_attrs(dict(item.attrs))
            else:
                nodes[path] = array = described_array(item, splits)
                missed = array.attributes(3)[1]
            lost += [f"{each!r} of {path!r}" for each in missed]
    elif isinstance(source, ExtArray):
        steps = path_steps(name)
        for n in range(len(steps)):
            nodes["/".join(steps[:n])] = {}
        nodes["/".join(steps)] = only = described_array(source, splits)
        lost = [f"{each!r} of {only.name}" for each in only.attributes(3)[1]]
    else:
        raise ArgumentTypeError(
            f"cannot show a {type(source).__name__} as Zarr; give an array or a group, as "
            "returned by extarray.open or open_group, and copy a view first"
        )
    if lost:
        warnings.warn(
            f"JSON, and so Zarr, cannot represent the attributes {', '.join(lost)}; they are left "
            "out",
            LossyWarning,
            stacklevel=4,
        )
    return nodes


def group_metadata(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the ``zarr.json`` of a group."""
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def path_steps(name: str | None) -> list[str]:
    """Split a path in a group."""
    if name is None:
        return []
    if not isinstance(name, str):
        raise ArgumentTypeError(f"name must be a str, not {type(name).__name__}")
    steps = name.strip("/").split("/")
    if any(step in ("", ".", "..", "zarr.json") for step in steps):
        raise ArgumentError(f"{name!r} is not a path in a group; give one such as 'run/level'")
    return steps


def _plain_attrs(values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return attributes for JSON, with Python numbers, and the names of all others."""
    plain: dict[str, Any] = {}
    others = []
    for name, value in values.items():
        try:
            plain[name] = plain_json(value)
        except ArgumentTypeError:
            others.append(name)
    return plain, others
