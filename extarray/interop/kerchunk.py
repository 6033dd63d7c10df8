"""References: file, first byte and number of bytes of each chunk."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import operator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from extarray.array.facts import store_of
from extarray.array.folders import Group
from extarray.codecs._filters import repeat
from extarray.codecs.codec import Codec, CodecId, FilterId
from extarray.codecs.zarr import ZarrCodec
from extarray.common.config import config
from extarray.common.errors import ArgumentError, ArgumentTypeError
from extarray.format.blobs import Stored
from extarray.format.suffixes import BLOBS, DATA, blobs_name, file_names, without_suffix
from extarray.grid.chunking import place_of
from extarray.interop.described import Described, group_metadata, nodes_of
from extarray.storage.file_store import FileStore
from extarray.storage.names import Packed
from extarray.streaming.blocks import comes_late

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
            chunks = _Chunks(node, metadata, zarr_format, url, path if is_group else "")
            if chunks.coding is not None:
                chunks.coding.tell(metadata, zarr_format)
            if zarr_format == 2:
                attributes = node.attributes(2)[0]
                if node.dims is not None:
                    # xarray reads the names of axes in Zarr 2 from this attribute.
                    attributes.setdefault("_ARRAY_DIMENSIONS", node.dims)
                refs[f"{prefix}.zarray"] = json.dumps(metadata)
                refs[f"{prefix}.zattrs"] = json.dumps(attributes)
            else:
                refs[f"{prefix}zarr.json"] = json.dumps(metadata)
            refs.update((prefix + key, place) for key, place in chunks.items())
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


# A range of a file, the element that fills a chunk, or None for a chunk of the fill value.
_Place = tuple[str, int, int] | bytes | None


class _Chunks:
    """The chunks of an array: where each one is, or its bytes.

    Parameters
    ----------
    node : Described
    metadata : dict
        Of Zarr.
    zarr_format : int
    url : str or None
    inner : str
        Path of the array in the group that the URL names.

    Attributes
    ----------
    coding : ZarrCodec or None
        The codec of the chunks.
    """

    def __init__(
        self,
        node: Described,
        metadata: dict[str, Any],
        zarr_format: int,
        url: str | None,
        inner: str,
    ) -> None:
        array = node.array
        if array.path is None:
            raise ArgumentError(
                "an array in memory has no file to refer to; write one with a.copy(path)"
            )
        self._node, self._metadata, self._format = node, metadata, zarr_format
        self._size = array.chunk_bytes
        self.coding: ZarrCodec | None = None
        lead = tuple(map(operator.floordiv, array.info()["offset"], node.chunks))
        grid = [range(-(-n // c)) for n, c in zip(metadata["shape"], node.chunks, strict=True)]
        self._indices = list(itertools.product(*grid))
        self._places: list[_Place] = []
        if self._indices:
            places = np.array(self._indices, np.int64).reshape(len(self._indices), array.ndim)
            addresses = np.asarray(array.axial.addresses(places + np.array(lead, "i8")))
            self._find(addresses.reshape(-1), url, inner)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield the key of each chunk and its place, or its bytes."""
        inline: dict[bytes, str] = {}
        n_inline = sum(isinstance(place, bytes) for place in self._places)
        fill = self._fill(self._places.count(None), n_inline)
        for index, place in zip(self._indices, self._places, strict=True):
            parts = map(str, index)
            key = "/".join(["c", *parts]) if self._format == 3 else ".".join(parts) or "0"
            if isinstance(place, tuple):
                yield key, list(place)
            elif place is None:
                if fill is not None:
                    yield key, fill
            else:
                if place not in inline:
                    inline[place] = self._inline(place)
                yield key, inline[place]

    def _find(self, addresses: NDArray[np.int64], url: str | None, inner: str) -> None:
        """Find chunks in the file that has them."""
        array = self._node.array
        if not isinstance(array.path, Path):
            self._find_elsewhere(addresses, url, inner)
            return
        path = array.path.absolute()
        metadata, data = file_names(path)
        names = {DATA: data, BLOBS: blobs_name(metadata)}
        if url is not None:
            names = {suffix: _url_of_file(url, inner, suffix) for suffix in names}
        table = store_of(array).now.frozen
        if table is not None:
            self._take(table.stored(addresses), names, table.policy != "never")
            return
        base = 0
        with Packed.find(path) as packed:
            name = None if packed is None else packed.inner(path) or packed.alone
            if packed is not None and name in packed.blobs:
                names = dict.fromkeys(names, url or packed.name)
                self._take(_in_blobs(path, addresses), names, False, packed.blobs[name].start)
                return
            if comes_late(array):
                raise ArgumentError(
                    f"chunks of '{array.path}' are not in its file until they are read, so nothing "
                    "can refer to them; write a complete file with a.copy(path)"
                )
            if packed is not None and name in packed.arrays:
                names = dict.fromkeys(names, url or packed.name)
                base = packed.arrays[name][1].start
        size = self._size
        raw = [Stored(DATA, int(place_of(q, size)), size) for q in addresses.tolist()]
        self._take(raw, names, False, base)

    def _find_elsewhere(self, addresses: NDArray[np.int64], url: str | None, inner: str) -> None:
        """Find chunks in the objects that have them, on a server or in a bucket."""
        array = self._node.array
        store = store_of(array)
        names = {suffix: store.url_of(suffix) for suffix in (DATA, BLOBS)}
        if url is not None:
            is_one = store.is_packed
            names = {s: url if is_one else _url_of_file(url, inner, s) for s in names}
        if None in names.values():
            raise ArgumentError(
                f"'{array.path}' was opened at a URL with a query, which may be secret, or in a "
                "store that has no URL; name the address for others with to_kerchunk(url=...)"
            )
        order = np.argsort(addresses)
        sorted_places = store.stored(addresses[order])
        back = np.argsort(order).tolist()
        self._take([sorted_places[n] for n in back], names, store.may_freeze)

    def _take(
        self,
        stored: Sequence[Stored | None],
        names: dict[str, str],
        may_freeze: bool,
        base: int = 0,
    ) -> None:
        """Refer to chunks in files, by suffix, which begin at `base`; find the codec of all.

        `may_freeze`: those in ``.xta`` will be elsewhere.
        """
        codings: set[tuple[int, int, bool, bool]] = set()
        for one in stored:
            if one is None:
                self._places.append(None)
            elif one.codec == CodecId.CONSTANT:
                self._places.append(one.element[: self._node.array.itemsize])
            else:
                if may_freeze and one.suffix == DATA:
                    raise ArgumentError(
                        f"some chunks of '{self._node.array.path}' are not compressed yet, and "
                        "references to them would lead to holes once they are; freeze all chunks "
                        "with a.freeze(), or close the array"
                    )
                self._places.append((names[one.suffix], base + one.offset, one.size))
                codings.add((one.codec, one.filter, one.blocks > 1, one.scatters))
        self.coding = self._coding(codings)

    def _coding(self, codings: set[tuple[int, int, bool, bool]]) -> ZarrCodec | None:
        """Return the codec of all chunks; raise if Zarr lacks it, or if there are several."""
        kinds = {(codec, filter_id) for codec, filter_id, *_ in codings}
        if kinds <= {(CodecId.RAW, FilterId.NONE)}:
            return None
        if len(kinds) == 1:
            ((codec, filter_id),) = kinds
            names: dict[int, str] = {CodecId.ZSTD: "zstd", CodecId.ZLIB: "zlib"}
            name = names.get(codec)
            many = [scatters for _, _, has_many, scatters in codings if has_many]
            if many and (filter_id or codec != CodecId.ZSTD or any(many)):  # not one stream
                name = None
            if name is not None and filter_id in (FilterId.NONE, FilterId.SHUFFLE):
                chosen = "shuffle" if filter_id else None
                return ZarrCodec(Codec(name, 1, chosen), self._node.array.itemsize)
        is_mixed = (CodecId.RAW, FilterId.NONE) in kinds and not store_of(
            self._node.array
        ).now.packed_as
        remedy = "freeze all chunks alike with a.freeze(), or " if is_mixed else ""
        raise ArgumentError(
            f"chunks of '{self._node.array.path}' are encoded in a way to which references cannot "
            "lead: Zarr has one codec for all chunks, 'zstd' or 'zlib', perhaps with the filter "
            "'shuffle', for chunks of up to 256 KiB, and none that are stored raw because no codec "
            f"makes them smaller; {remedy}pack the array without compression"
        )

    def _inline(self, element: bytes) -> str:
        """Return a chunk of one element as references have it."""
        chunk = bytearray(self._size)
        repeat(chunk, element)
        data = bytes(chunk)
        if self.coding is not None:
            data = self.coding.encode(data)
        return "base64:" + base64.b64encode(data).decode()

    def _fill(self, n_fill: int, n_inline: int) -> str | None:
        """Return a chunk of the fill value in place of a reference; None if Zarr has that value.

        Raise ArgumentError if chunks without references take too much memory.
        """
        node = self._node
        array = node.array
        told = node.type.to_json_scalar(array.fill_value, zarr_format=self._format)
        zarr_has_it = json.dumps(self._metadata["fill_value"]) == json.dumps(told)
        n = n_inline if zarr_has_it else n_inline + n_fill
        if self.coding is None and n * self._size > config.max_memory:
            raise ArgumentError(
                f"{n} chunks of {node.name} hold one value each and are not in the file, and Zarr "
                "format 2 cannot name the fill value beside the names of axes; use zarr_format=3, "
                "or pack the array in the order of addresses, without compression"
            )
        if n_fill == 0 or zarr_has_it:
            return None
        return self._inline(np.array(array.fill_value, array.dtype).tobytes())


def _in_blobs(path: Path, addresses: NDArray[np.int64]) -> list[Stored | None]:
    """Return where the chunks of a packed array lie in its blobs."""
    store, _ = FileStore.open(path, "r", 0, "pread", "flush", "write")
    with contextlib.closing(store):
        return store.blobs.stored(addresses)


def _url_of_file(url: str, inner: str, suffix: str) -> str:
    """Return the URL of a file of a pair from that of the pair, or of a folder and a path in it."""
    parts = urlsplit(url)
    if inner:
        path = f"{parts.path.rstrip('/')}/{inner}{suffix}"
    else:
        path = without_suffix(parts.path) + suffix
    return urlunsplit(parts._replace(path=path))
