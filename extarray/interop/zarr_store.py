"""`ZarrStore`: a Zarr store that reads its values from arrays."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.array.pyramid import Pyramid
from extarray.common.arguments import check_flag
from extarray.common.errors import ReadOnlyError
from extarray.common.extras import require
from extarray.interop.described import Described, Node, group_metadata, nodes_of
from extarray.interop.ome import Image, image_nodes
from extarray.interop.zarr_server import ZarrServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from typing import NoReturn

    Index = tuple[int, ...]

__all__ = ["ZarrStore"]

abc: Any = require("zarr.abc.store", "zarr", "a store of Zarr")
buffers: Any = require("zarr.core.buffer", "zarr", "a store of Zarr")

_METADATA = "zarr.json"
_MOST_DIGITS = 19  # of the index of a chunk
_MOST_INLINE = 1 << 18  # chunk bytes up to which a thread costs more than the read


class ZarrStore(abc.Store):  # type: ignore[misc]
    """A read-only store of Zarr format 3 that reads its values from arrays.

    `ExtArray.as_zarr_store` and `Group.as_zarr_store` make one.

    Parameters
    ----------
    source : ExtArray or Group
    name : str, optional
        Path of the array in the store; None: the array is the root.
    follow : bool
        Refresh an array whenever its metadata are requested.
    encoded : bool
        Hand out chunks in the codecs of their arrays, if Zarr has these.
    ome : bool or Pyramid
        Show an array as an image of OME-Zarr.

    Raises
    ------
    ArgumentError, DTypeError, ArgumentTypeError
        A ValueError, TypeErrors: Zarr cannot describe the array.

    Examples
    --------
    >>> import extarray as xa, zarr
    >>> a = xa.from_array([[1, 2], [3, 4]])
    >>> z = zarr.open_array(a.as_zarr_store(), mode="r")
    >>> z[1].tolist()
    [3, 4]
    """

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(
        self,
        source: Any,
        name: str | None = None,
        follow: bool = True,
        encoded: bool = False,
        ome: bool | Pyramid = False,
    ) -> None:
        super().__init__(read_only=True)
        self._follow = check_flag(follow, "follow")
        if isinstance(ome, Pyramid) or check_flag(ome, "ome"):
            self._nodes: dict[str, Node | Image] = image_nodes(source, name, ome)
        else:
            self._nodes = {**nodes_of(source, name, splits=True)}
        if check_flag(encoded, "encoded"):
            for node in self._nodes.values():
                if isinstance(node, Described):
                    node.take_codec()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZarrStore) and self._nodes == other._nodes

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"extarray://{self._label()}"

    def __repr__(self) -> str:
        return f"<extarray.interop.zarr_store.ZarrStore: {self._label()}>"

    def _label(self) -> str:
        names = [n.name for n in self._nodes.values() if isinstance(n, Described)]
        return names[0] if len(names) == 1 else f"{len(names)} arrays"

    # -- values ------------------------------------------------------------------------------------

    def _chunk_of(self, key: str) -> tuple[Described, Index] | None:
        """Return the array and chunk index of a key, or None if it cannot be a chunk."""
        if key.startswith("c/") and "/c/" not in key:
            path, places = "", key[2:]
        elif key == "c" or key.endswith("/c"):  # without axes
            path, places = key[:-2], ""
        else:
            path, is_chunk, places = key.rpartition("/c/")
            if not is_chunk:
                return None
        node = self._nodes.get(path)
        if not isinstance(node, Described):
            return None
        parts = places.split("/") if places else []
        if len(parts) != len(node.chunks):
            return None
        if not all(p.isascii() and p.isdecimal() and (p[0] != "0" or p == "0") for p in parts):
            return None
        if any(len(p) > _MOST_DIGITS for p in parts):
            return None
        return node, tuple(map(int, parts))

    def _metadata_node(self, key: str) -> Node | Image | None:
        if key == _METADATA:
            return self._nodes.get("")
        return self._nodes.get(key[: -len(_METADATA) - 1]) if key.endswith("/zarr.json") else None

    def _encode(self, node: Node | Image) -> np.ndarray[Any, Any]:
        """Return the current metadata of a node."""
        if isinstance(node, dict):
            content = group_metadata(node)
        else:
            if self._follow:
                (node.array if isinstance(node, Described) else node).refresh()
            content = node.metadata(3) if isinstance(node, Described) else node.metadata()
        return np.frombuffer(json.dumps(content).encode(), "u1")

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        """Return a value or a byte range of it as a Zarr buffer, or None for an unknown key."""
        chunk = self._chunk_of(key)
        if chunk is not None:
            node, index = chunk
            if node.chunk_bytes <= _MOST_INLINE:
                found = node.value(index)
            else:
                found = await asyncio.to_thread(node.value, index)
        else:
            about = self._metadata_node(key)
            if about is not None and not isinstance(about, dict) and about.array.mode != "r":
                # A shared writer may wait for the commit lock.
                found = await asyncio.to_thread(self._encode, about)
            else:
                found = None if about is None else self._encode(about)
        return None if found is None else _buffer(found, prototype, byte_range)

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        """Return the same as `get`, without an event loop."""
        chunk = self._chunk_of(key)
        about = self._metadata_node(key)
        if chunk is not None:
            found = chunk[0].value(chunk[1])
        else:
            found = None if about is None else self._encode(about)
        return None if found is None else _buffer(found, prototype, byte_range)

    async def get_partial_values(
        self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]
    ) -> list[Any]:
        """Return several values, or byte ranges of them."""
        wanted = [self.get(key, prototype, byte_range) for key, byte_range in key_ranges]
        return list(await asyncio.gather(*wanted))

    async def exists(self, key: str) -> bool:
        """Tell whether a key exists."""
        chunk = self._chunk_of(key)
        if chunk is not None:
            return chunk[0].has_chunk(chunk[1])
        return self._metadata_node(key) is not None

    async def getsize(self, key: str) -> int:
        """Return the size of a value in bytes, without reading chunks that no codec encodes."""
        chunk = self._chunk_of(key)
        if chunk is not None and chunk[0].codec is None and chunk[0].has_chunk(chunk[1]):
            return int(chunk[0].chunk_bytes)
        return int(await super().getsize(key))

    # -- keys --------------------------------------------------------------------------------------

    def _keys(self) -> Iterator[str]:
        for path, node in self._nodes.items():
            prefix = f"{path}/" if path else ""
            yield prefix + _METADATA
            if isinstance(node, Described):
                for index in itertools.product(*map(range, node.grid())):
                    yield prefix + "/".join(["c", *map(str, index)])

    async def list(self) -> AsyncIterator[str]:
        """Yield all keys."""
        for key in self._keys():
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys that begin with a prefix."""
        for key in self._keys():
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names directly below a prefix."""
        prefix = prefix.strip("/")
        inside = f"{prefix}/" if prefix else ""
        node = self._nodes.get(prefix)
        names: Any
        if node is not None:  # do not look at each chunk
            names = [path[len(inside) :] for path in self._nodes if path.startswith(inside)]
            names = {name.partition("/")[0]: None for name in names if name}
            names[_METADATA] = None
            if isinstance(node, Described) and 0 not in node.grid():
                names["c"] = None
        else:
            keys = (key[len(inside) :] for key in self._keys() if key.startswith(inside))
            names = dict.fromkeys(key.partition("/")[0] for key in keys)
        for name in names:
            yield name

    # -- for other programs ------------------------------------------------------------------------

    def serve(self, port: int = 0) -> ZarrServer:
        """Serve the store on a port of this machine, for programs that read Zarr from an address.

        Parameters
        ----------
        port : int
            0: a free one.

        Returns
        -------
        ZarrServer
            A context manager, which stops serving at its end; its attribute ``url`` is the address.

        Raises
        ------
        ArgumentError, StorageError
            A ValueError: no such port; an OSError: it is in use.

        Examples
        --------
        >>> import extarray as xa, json, urllib.request
        >>> a = xa.from_array([[1, 2], [3, 4]])
        >>> with a.as_zarr_store(ome=True).serve() as served:
        ...     with urllib.request.urlopen(f"{served.url}/0/zarr.json") as answer:
        ...         json.load(answer)["shape"]
        [2, 2]
        """
        image = any(isinstance(node, Image) for node in self._nodes.values())
        arrays = [n.array for n in self._nodes.values() if isinstance(n, Described)]
        name = "group"
        if image or len(arrays) == 1:
            name = os.path.basename(str(arrays[0].path or "array"))
        return ZarrServer(self, f"{name}{'.ome' * image}.zarr", port)

    # -- changes, all refused ----------------------------------------------------------------------

    def with_read_only(self, read_only: bool = False) -> ZarrStore:
        """Return the store itself, which is always read-only."""
        return self if read_only else self._refuse()

    async def set(self, key: str, value: Any) -> None:
        """Refuse: the store is read-only."""
        self._refuse()

    async def delete(self, key: str) -> None:
        """Refuse: the store is read-only."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ReadOnlyError("the Zarr store of an array is read-only; write to the array")


def _buffer(found: np.ndarray[Any, Any], prototype: Any, byte_range: Any) -> Any:
    """Return bytes, or a range of them, as a Zarr buffer."""
    if isinstance(byte_range, abc.RangeByteRequest):
        found = found[byte_range.start : byte_range.end]
    elif isinstance(byte_range, abc.OffsetByteRequest):
        found = found[byte_range.offset :]
    elif isinstance(byte_range, abc.SuffixByteRequest):
        found = found[max(0, len(found) - byte_range.suffix) :]
    elif byte_range is not None:
        raise ValueError(f"unexpected byte_range, got {byte_range!r}")
    return (prototype or buffers.default_buffer_prototype()).buffer.from_array_like(found)
