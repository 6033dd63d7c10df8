"""Methods that h5py's users expect and NumPy lacks; and arrays as options of `create`."""

# ruff: noqa: D102 -- members of protocols

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Mapping
from itertools import islice
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from extarray._core._array import ArrayCore
from extarray.array.encodings import compressed_as
from extarray.array.facts import Stored, tell_lost
from extarray.array.split import Split, attrs_of_split
from extarray.codecs.codec import Codec
from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExtArrayError,
    ShapeError,
)
from extarray.format.attrs import decode_attrs, encode_attrs
from extarray.format.labels import (
    DATASET_ORIGIN,
    attrs_of_copy,
    attrs_of_whole,
    axis_names,
    known_dims,
)
from extarray.format.places import Taken
from extarray.grid.address_runs import chunk_indices, region
from extarray.grid.chunking import grid_of
from extarray.selection.factors import Progression
from extarray.streaming.blocks import Source, announced, leaves_holes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from extarray.selection.axis_factors import AxisFactor


__all__ = [
    "Chunked",
    "attrs_of_view",
    "chunk_views",
    "codec_of",
    "count_chunks",
    "dtype_as_read",
    "is_sparse",
    "iter_chunks",
    "options_like",
    "options_of",
    "read_direct",
    "write_direct",
]


# Attributes that describe single elements.
_OF_ELEMENTS = ("coords", DATASET_ORIGIN)

# Attributes with which HDF5 ties datasets to their scales, and zarr 2 names axes.
_INTERNAL = frozenset(
    {
        "CLASS",
        "DIMENSION_LABELS",
        "DIMENSION_LIST",
        "NAME",
        "REFERENCE_LIST",
        "_ARRAY_DIMENSIONS",
        "_Netcdf4Coordinates",
        "_Netcdf4Dimid",
        "_NCProperties",
    }
)


class Chunked(Stored, Protocol):
    """An array that can be read and written, and shows its chunks."""

    def chunk(self, index: tuple[int, ...]) -> NDArray[Any]: ...

    # Transfers of this process alone, even where `read` and `write` are collective.
    @property
    def _fetch(self) -> Callable[..., NDArray[Any]]: ...
    def _put(self, selection: Any, values: Any) -> None: ...


def read_direct(
    array: Chunked, dest: NDArray[Any], source_sel: Any = None, dest_sel: Any = None
) -> None:
    """Read into a part of a NumPy array; see `ExtArray.read_direct`."""
    if not isinstance(dest, np.ndarray):
        raise ArgumentTypeError(f"dest must be a NumPy array, not {type(dest).__name__}")
    source = ... if source_sel is None else source_sel
    place = ... if dest_sel is None else dest_sel
    target: Any = dest[place]
    # An advanced index gives a copy, and integers alone give a scalar: no place to read into.
    is_view = isinstance(target, np.ndarray) and np.may_share_memory(target, dest)
    if is_view and np.can_cast(array.dtype, target.dtype, "same_kind"):
        try:
            array._fetch(source, out=target)
        except ShapeError:  # nothing was read; the assignment below broadcasts, if possible
            pass
        else:
            return
    dest[place] = array._fetch(source)


def write_direct(
    array: Chunked, source: ArrayLike, source_sel: Any = None, dest_sel: Any = None
) -> None:
    """Write a part of an array; see `ExtArray.write_direct`."""
    values: Any = source
    if source_sel is not None:
        if not isinstance(source, (np.ndarray, ArrayCore)):
            values = np.asarray(source)
        values = values[source_sel]
    array._put(... if dest_sel is None else dest_sel, values)


def count_chunks(array: Chunked) -> int:
    """Return the number of chunks that hold elements; see `ExtArray.nchunks`."""
    with array._writers.steady:
        shape, chunks, offset = array.shape, array.chunks, array._store.now.state.offset
    if 0 in shape:
        return 0
    return math.prod(
        (b + n - 1) // c - b // c + 1 for n, c, b in zip(shape, chunks, offset, strict=True)
    )


def chunk_views(
    array: Chunked, order: Literal["address", "grid"] = "address"
) -> Iterator[tuple[tuple[int, ...], NDArray[Any]]]:
    """Iterate over views of the chunks; see `ExtArray.chunk_views`."""
    shape, chunks, offset = _grid_now(array, order)
    # The chunks that the bounds need.
    first = tuple(map(operator.floordiv, offset, chunks))
    last = grid_of(tuple(map(operator.add, offset, shape)), chunks)
    indices = chunk_indices(array.axial, first, last if array.size else first, order)
    indices = _asked_ahead(array, _while_axes_stay(array, indices, len(shape)))
    return ((index, array.chunk(index)) for index in indices)


def iter_chunks(
    array: Chunked, sel: Any = None, order: Literal["address", "grid"] = "address"
) -> Iterator[tuple[slice, ...]]:
    """Iterate over chunks that meet a selection; see `ExtArray.iter_chunks`."""
    shape, chunks, offset = _grid_now(array, order)
    if sel is None:
        sel = ...
    start, stop = (tuple(map(operator.add, edge, offset)) for edge in region(sel, shape))
    first = tuple(map(operator.floordiv, start, chunks))
    # An empty selection meets no chunk.
    last = first if any(map(operator.eq, start, stop)) else grid_of(stop, chunks)
    indices = chunk_indices(array.axial, first, last, order)
    return (
        # Step 1, as h5py gives.
        tuple(
            slice(max(i * c, low) - b, min((i + 1) * c, high) - b, 1)
            for i, c, b, low, high in zip(index, chunks, offset, start, stop, strict=True)
        )
        for index in _asked_ahead(array, _while_axes_stay(array, indices, len(shape)))
    )


def _asked_ahead(array: Chunked, indices: Iterator[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """Yield indices of chunks; those that come from elsewhere are asked for many at a time."""
    supply = array._store.now.supply
    if supply is None:
        yield from indices
        return
    # As many again are present, or come, while these are used.
    most = max(1, min(supply.most // 4, config.max_memory // (4 * array.chunk_bytes)))

    def tell(some: list[tuple[int, ...]]) -> None:
        supply.ahead(np.sort(array.axial.addresses(np.array(some, np.int64))))

    yield from announced(iter(lambda: list(islice(indices, most)), []), tell)


# -- datasets of other libraries -----------------------------------------------------------------


def options_of(x: Any, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the properties of a dataset of h5py or zarr, as options of `create`.

    `dtype` is that of the elements as they are read.  Options that extarray cannot hold are left
    out: chunks larger than memory allows, attributes that are references.
    """
    package = type(x).__module__.partition(".")[0]
    if package not in ("h5py", "zarr"):
        return {}
    found: dict[str, Any] = {}
    chunks = getattr(x, "chunks", None)
    if chunks and math.prod(chunks) * dtype.itemsize <= config.max_memory:
        found["chunks"] = chunks
    fill = getattr(x, "fillvalue" if package == "h5py" else "fill_value", None)
    if fill is not None and x.dtype == dtype:
        found["fill_value"] = fill
    given = {name: x.attrs[name] for name in x.attrs if name not in _INTERNAL}
    found["attrs"] = {name: value for name, value in given.items() if _has_form(name, value)}
    dims = _names_in_h5py(x) if package == "h5py" else _names_in_zarr(x)
    names = known_dims(dims, len(x.shape))
    if names is not None and all(names):
        found["dims"] = names
    return found


def codec_of(x: Any) -> Codec | None:
    """Return the codec of a dataset of h5py or zarr; None: it has none, or none that exists here.

    Filters that change no size, such as checksums, do not count.
    """
    package = type(x).__module__.partition(".")[0]
    try:
        if package == "h5py":
            return Codec.of_filters(_filters_of_h5py(x))
        if package == "zarr":
            return Codec.parse(list(x.compressors) or None) if not x.filters else None
    except (ExtArrayError, AttributeError, NotImplementedError):
        pass
    return None


def _filters_of_h5py(x: Any) -> list[tuple[int, tuple[int, ...]]]:
    """Return numbers and options of a dataset's filters, in the order of writing."""
    properties = x.id.get_create_plist()
    found = map(properties.get_filter, range(properties.get_nfilters()))
    return [(number, options) for number, _, options, _ in found]


def is_sparse(x: Any) -> bool:
    """Tell whether an array leaves holes, or a dataset of h5py or zarr lacks chunks.

    Ask only those stores of zarr that list their chunks at no cost.
    """
    if isinstance(x, Source):
        return leaves_holes(x)
    h5py: Any = sys.modules.get("h5py")
    zarr: Any = sys.modules.get("zarr")
    if h5py is not None and isinstance(x, h5py.Dataset) and not (x.is_virtual or x.external):
        if not x.size:
            return False
        if x.chunks is None:
            return x.id.get_offset() is None and x.id.get_storage_size() == 0
        return bool(x.id.get_num_chunks() < math.prod(grid_of(x.shape, x.chunks)))
    if zarr is not None and isinstance(x, zarr.Array):
        kinds = zarr.storage.LocalStore, zarr.storage.MemoryStore
        return isinstance(x.store, kinds) and bool(x.nchunks_initialized < x.nchunks)
    return False


def options_like(
    like: Any, shape: tuple[int, ...] | None, dtype: np.dtype[Any] | None
) -> dict[str, Any]:
    """Return the properties of an array, as options of `create` for another one.

    The new array has its own shape or dtype if these are given: properties that do not fit them are
    left out.
    """
    if isinstance(like, (str, bytes, PathLike, Mapping)):
        raise ArgumentTypeError(
            f"like must be an array, not a {type(like).__name__}; open it, and give the array"
        )
    x: Any = like if hasattr(like, "shape") and hasattr(like, "dtype") else np.asarray(like)
    own_shape, own_dtype = tuple(x.shape), dtype_as_read(x)
    if isinstance(x, Source):
        found = _options_of_ours(x)
    else:
        found = {**options_of(x, own_dtype), "compression": codec_of(x)}
    found["shape"] = own_shape if shape is None else shape
    found["dtype"] = own_dtype if dtype is None else dtype
    if len(found["shape"]) != len(own_shape):
        for name in ("chunks", "dims"):
            found.pop(name, None)
    if found["shape"] != own_shape and "attrs" in found:
        found["attrs"] = {k: v for k, v in found["attrs"].items() if k not in _OF_ELEMENTS}
    if "fill_value" in found and not _has_value(found["dtype"], found["fill_value"], own_dtype):
        del found["fill_value"]
    return found


def _options_of_ours(x: Any) -> dict[str, Any]:
    """Return the properties of one of our arrays, of a view, or of one with another dtype."""
    found = {name: getattr(x, name) for name in ("chunks", "fill_value") if hasattr(x, name)}
    if getattr(x, "dims", None) is not None:
        found["dims"] = x.dims
    base: Any = x if isinstance(x, ArrayCore) else getattr(x, "base", None)
    is_ours = isinstance(base, ArrayCore)
    if is_ours:
        found |= compressed_as(base)
    if base is not x:
        if is_ours:
            lost: list[str] = []
            attrs = attrs_of_view(base, x, lost)
            tell_lost("like", lost)
            found["attrs"] = {k: v for k, v in attrs.items() if k not in (DATASET_ORIGIN, "dims")}
        return found
    now = base._store.now
    attrs = decode_attrs(attrs_of_whole(now.attrs, base.dims, base.origin))
    attrs.pop("dims", None)
    attrs.pop(DATASET_ORIGIN, None)
    return {
        **found,
        "attrs": attrs,
        "order": base.order,
        "growth": base.growth,
        "sparse": now.header.sparse,
        "checksum": now.header.checksum,
    }


def attrs_of_view(base: Any, source: Any, lost: list[str]) -> dict[str, Any]:
    """Return the attributes, with labels and places of the elements that the source shows.

    Parameters
    ----------
    base : ExtArray
        The array that has the attributes.
    source : ExtArray or LazyView
        The array, or a view of it.
    lost : list of str
        Gets, in words, the attributes that are left out, as they cannot locate these elements.
    """
    split = getattr(source, "_array", None)
    if isinstance(split, Split):
        values = attrs_of_split(split, attrs_of_view(base, split.view, lost), lost)
        names = axis_names(split.dims, len(split.shape))
        taken = list(map(_taken, source._factors, split.shape))
        new_names = axis_names(source.dims, source.ndim)
        return attrs_of_copy(values, names, split.origin, taken, new_names, lost)
    with base._writers.steady:
        taken = (
            [Taken(None, j) for j in range(base.ndim)]
            if isinstance(source, ArrayCore)
            else list(map(_taken, source._factors, base.shape))
        )
        names, new_names = axis_names(base.dims, base.ndim), axis_names(source.dims, source.ndim)
        values = decode_attrs(base._store.now.attrs)
        return attrs_of_copy(values, names, base.origin, taken, new_names, lost)


def _taken(factor: AxisFactor, extent: int) -> Taken:
    """Return the part of an axis that a view shows."""
    axis = factor.dims[0] if factor.dims else None
    if not isinstance(factor, Progression):
        return Taken(factor.indices[0], axis)
    places = range(factor.start, factor.start + factor.count * factor.step, factor.step)
    return Taken(None if axis is not None and places == range(extent) else places, axis)


def _has_value(dtype: np.dtype[Any], value: Any, own: np.dtype[Any]) -> bool:
    """Tell whether a fill value is the same in another dtype."""
    if dtype == own:
        return True
    item = np.zeros((), own)
    item[()] = value
    try:
        with np.errstate(all="ignore"):
            cast = item.astype(dtype)
            return bool(cast == item or (cast != cast and item != item))
    except (TypeError, ValueError):
        return False


def dtype_as_read(source: Any) -> np.dtype[Any]:
    """Return the dtype that slicing gives: a different one if numbers are scaled."""
    dtype: np.dtype[Any] = source.dtype
    if isinstance(source, (np.ndarray, Source)) or 0 in source.shape:
        return dtype
    first: Any = source[tuple(slice(0, 1) for _ in source.shape)]
    return first.dtype if isinstance(first, np.ndarray) else dtype


def _has_form(name: str, value: Any) -> bool:
    """Tell whether extarray can hold a value as an attribute."""
    try:
        encode_attrs({name: value})
    except ExtArrayError:
        return False
    return True


def _names_in_h5py(x: Any) -> list[str]:
    """Return the label of each axis, or the name of its scale."""
    return [
        dim.label or (str(dim[0].name).rpartition("/")[2] if len(dim) else "")
        for dim in getattr(x, "dims", ())
    ]


def _names_in_zarr(x: Any) -> Any:
    return getattr(x.metadata, "dimension_names", None) or x.attrs.get("_ARRAY_DIMENSIONS")


def _grid_now(
    array: Chunked, order: str
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return shape, chunks and offset of the bounds in the grid; check the order."""
    if order not in ("address", "grid"):
        raise ArgumentError(f"order {order!r} is not valid; use 'address' or 'grid'")
    array._check()
    return array.shape, array.chunks, array._store.now.state.offset


def _while_axes_stay(
    array: Chunked, indices: Iterator[tuple[int, ...]], ndim: int
) -> Iterator[tuple[int, ...]]:
    """Yield the indices while the array has `ndim` axes; raise once it has more."""
    for index in indices:
        array._check_axes(ndim)
        yield index
