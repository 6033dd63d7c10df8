"""References: file, first byte and number of bytes of each chunk."""

from __future__ import annotations

import itertools
import json
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentError
from extarray.format.suffixes import file_names
from extarray.grid.chunking import place_of
from extarray.interop.described import Described, group_metadata, nodes_of
from extarray.storage.names import Packed
from extarray.streaming.blocks import comes_late

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["references"]


def references(source: Any, name: str | None = None, zarr_format: int = 2) -> dict[str, Any]:
    """Return the manifest of an array or a group; see `ExtArray.to_kerchunk`."""
    if zarr_format not in (2, 3):
        raise ArgumentError(f"zarr_format {zarr_format!r} is not supported; use 2 or 3")
    refs: dict[str, Any] = {}
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
            refs.update(_chunks(node, metadata["shape"], prefix, zarr_format))
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
    node: Described, shape: tuple[int, ...], prefix: str, zarr_format: int
) -> Iterator[tuple[str, list[Any]]]:
    """Yield the key of each chunk and its place."""
    array = node.array
    if array.path is None:
        raise ArgumentError(
            "an array in memory has no file to refer to; write one with a.copy(path)"
        )
    if comes_late(array):
        raise ArgumentError(
            f"chunks of '{array.path}' are not in its file until they are read, so nothing can "
            "refer to them; write a complete file with a.copy(path)"
        )
    file, start = _file_and_start(array.path)
    lead = tuple(map(operator.floordiv, array.info()["offset"], node.chunks))
    grid = [range(-(-n // c)) for n, c in zip(shape, node.chunks, strict=True)]
    indices = list(itertools.product(*grid))
    if not indices:
        return
    places = np.array(indices, np.int64).reshape(len(indices), array.ndim) + np.array(lead, "i8")
    addresses = np.asarray(array.axial.addresses(places)).reshape(-1).tolist()
    size = array.chunk_bytes
    for index, address in zip(indices, addresses, strict=True):
        parts = map(str, index)
        if zarr_format == 3:
            key = "/".join(["c", *parts])
        else:
            key = ".".join(parts) or "0"
        yield prefix + key, [file, start + place_of(address, size), size]


def _file_and_start(path: Path) -> tuple[str, int]:
    """Return the file with the chunks of an array, and the offset of the first chunk."""
    path = path.absolute()
    with Packed.find(path) as packed:
        if packed is not None:
            inner = packed.inner(path) or packed.alone
            if inner is not None and inner in packed.arrays:
                return packed.name, packed.arrays[inner][1].start
    return file_names(path)[1], 0
