"""References: file, first byte and number of bytes of each chunk."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import operator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from extarray.array.facts import remote_store
from extarray.array.folders import Group
from extarray.common.config import config
from extarray.common.errors import ArgumentError, ArgumentTypeError
from extarray.format.blobs import raw_places
from extarray.format.suffixes import DATA, file_names, without_suffix
from extarray.grid.chunking import place_of
from extarray.interop.described import Described, group_metadata, nodes_of
from extarray.storage.file_store import FileStore
from extarray.storage.names import Packed
from extarray.streaming.blocks import comes_late

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

__all__ = ["references"]


def references(
    source: Any, name: str | None = None, zarr_format: int = 2, url: str | None = None
) -> dict[str, Any]:
    """Return the manifest of an array or a group; see `ExtArray.to_kerchunk`."""
    if zarr_format not in (2, 3):
        raise ArgumentError(f"zarr_format {zarr_format!r} is not supported; use 2 or 3")
    if url is not None and not isinstance(url, str):
        raise ArgumentTypeError(f"url must be a str, not {type(url).__name__}")
    refs: dict[str, Any] = {}
    is_group = isinstance(source, Group)
    for path, node in nodes_of(source, name).items():
        prefix = f"{path}/" if path else ""
        if isinstance(node, Described):
            metadata = node.metadata(zarr_format)
            if zarr_format == 2:
                attributes = node.attributes(2)[0]
                if node.dims is not None:
                    # xarray reads the names of axes in Zarr 2 from this attribute.
                    attributes.setdefault("_ARRAY_DIMENSIONS", node.dims)
                refs[f"{prefix}.zarray"] = json.dumps(metadata)
                refs[f"{prefix}.zattrs"] = json.dumps(attributes)
            else:
                refs[f"{prefix}zarr.json"] = json.dumps(metadata)
            inner = path if is_group else ""
            refs.update(_chunks(node, metadata, prefix, zarr_format, url, inner))
        elif zarr_format == 2:
            refs[f"{prefix}.zgroup"] = '{"zarr_format": 2}'
            refs[f"{prefix}.zattrs"] = json.dumps(node)
        else:
            refs[f"{prefix}zarr.json"] = json.dumps(group_metadata(node))
    if ".zgroup" in refs:
        # Consolidated metadata: zarr cannot list nested groups through a reference file system.
        names = (".zgroup", ".zattrs", ".zarray")
        found = {k: json.loads(v) for k, v in refs.items() if k.rpartition("/")[2] in names}
        refs[".zmetadata"] = json.dumps({"zarr_consolidated_format": 1, "metadata": found})
    return {"version": 1, "refs": refs}


def _chunks(
    node: Described,
    metadata: dict[str, Any],
    prefix: str,
    zarr_format: int,
    url: str | None,
    inner: str,
) -> Iterator[tuple[str, Any]]:
    """Yield the key of each chunk and its place, or its bytes.

    `inner` is the path of the array in the group that the URL names.
    """
    array = node.array
    if array.path is None:
        raise ArgumentError(
            "an array in memory has no file to refer to; write one with a.copy(path)"
        )
    lead = tuple(map(operator.floordiv, array.info()["offset"], node.chunks))
    grid = [range(-(-n // c)) for n, c in zip(metadata["shape"], node.chunks, strict=True)]
    indices = list(itertools.product(*grid))
    if not indices:
        return
    places = np.array(indices, np.int64).reshape(len(indices), array.ndim) + np.array(lead, "i8")
    addresses = np.asarray(array.axial.addresses(places)).reshape(-1)
    found = _found(array, addresses, url, inner)
    size = array.chunk_bytes
    fill = _fill(node, metadata, zarr_format, int(np.count_nonzero(found.starts < 0)))
    for index, start in zip(indices, found.starts.tolist(), strict=True):
        parts = map(str, index)
        if zarr_format == 3:
            key = "/".join(["c", *parts])
        else:
            key = ".".join(parts) or "0"
        if start >= 0:
            yield prefix + key, [found.file, start, size]
        elif fill is not None:
            yield prefix + key, fill


class _Found(NamedTuple):
    """The file of the chunks, and the offset of each; -1 for chunks of the fill value."""

    file: str
    starts: NDArray[np.int64]


def _found(array: Any, addresses: NDArray[np.int64], url: str | None, inner: str) -> _Found:
    """Find chunks in the file that has them."""
    if not isinstance(array.path, Path):
        return _found_elsewhere(array, addresses, url, inner)
    path, size = array.path.absolute(), array.chunk_bytes
    with Packed.find(path) as packed:
        name = None if packed is None else packed.inner(path) or packed.alone
        if packed is not None and name in packed.blobs:
            starts = _in_blobs(array, path, addresses, packed.blobs[name].start)
            return _Found(url or packed.name, starts)
        if comes_late(array):
            raise ArgumentError(
                f"chunks of '{array.path}' are not in its file until they are read, so nothing can "
                "refer to them; write a complete file with a.copy(path)"
            )
        starts = np.asarray(place_of(addresses, size))
        if packed is not None and name in packed.arrays:
            return _Found(url or packed.name, starts + packed.arrays[name][1].start)
    return _Found(file_names(path)[1] if url is None else _url_of_data(url, inner), starts)


def _found_elsewhere(
    array: Any, addresses: NDArray[np.int64], url: str | None, inner: str
) -> _Found:
    """Find chunks in the object that has them, on a server or in a bucket."""
    store = remote_store(array)
    if url is None:
        file = store.data_url
        if file is None:
            raise ArgumentError(
                f"'{array.path}' was opened at a URL with a query, which may be secret, or in a "
                "store that has no URL; name the address for others with to_kerchunk(url=...)"
            )
    else:
        file = url if store.is_packed else _url_of_data(url, inner)
    return _Found(file, _uncoded(array, store.raw_offsets, addresses))


def _in_blobs(array: Any, path: Path, addresses: NDArray[np.int64], base: int) -> NDArray[np.int64]:
    """Return the offsets of chunks in a packed file whose chunks are in another order."""
    store, _ = FileStore.open(path, "r", 0, "pread", "flush", "write")
    with contextlib.closing(store):
        blobs = store.blobs
        return _uncoded(
            array, lambda some: raw_places(blobs.places(some), blobs.block, base), addresses
        )


def _uncoded(
    array: Any,
    offsets_of: Callable[[NDArray[np.int64]], NDArray[np.int64] | None],
    addresses: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the offsets of chunks, which are asked for in rising order of addresses."""
    order = np.argsort(addresses)
    raw = offsets_of(addresses[order])
    if raw is None:
        raise ArgumentError(
            f"chunks of '{array.path}' are encoded by a codec, to which references cannot lead; "
            "pack the array without it"
        )
    starts = np.empty_like(raw)
    starts[order] = raw
    return starts


def _fill(node: Described, metadata: dict[str, Any], zarr_format: int, n: int) -> str | None:
    """Return a chunk of the fill value in place of a reference; None if Zarr has that value."""
    array = node.array
    told = node.type.to_json_scalar(array.fill_value, zarr_format=zarr_format)
    if n == 0 or json.dumps(metadata["fill_value"]) == json.dumps(told):
        return None
    if n * array.chunk_bytes > config.max_memory:
        raise ArgumentError(
            f"{n} chunks of {node.name} hold the fill value and are not in the file, and Zarr "
            "format 2 cannot name this value beside the names of axes; use zarr_format=3, or pack "
            "the array in the order of addresses"
        )
    chunk = np.full(array.chunks, array.fill_value, array.dtype).tobytes()
    return "base64:" + base64.b64encode(chunk).decode()


def _url_of_data(url: str, inner: str) -> str:
    """Return the URL of ``.xta`` from that of a pair, or from that of a folder and a path in it."""
    parts = urlsplit(url)
    if inner:
        path = f"{parts.path.rstrip('/')}/{inner}{DATA}"
    else:
        path = without_suffix(parts.path) + DATA
    return urlunsplit(parts._replace(path=path))
