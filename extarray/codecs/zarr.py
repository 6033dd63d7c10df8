"""Codecs as Zarr has them: their names in its metadata, and chunks in their form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from extarray.codecs._filters import shuffle
from extarray.codecs.codec import Codec
from extarray.codecs.libraries import ZLIB_LEVEL, ZSTD_LEVEL, compress

if TYPE_CHECKING:
    from collections.abc import Buffer

    from extarray.codecs.payloads import Encoded

__all__ = ["LEVELS", "ZarrCodec"]

#: Codecs whose frames Zarr reads as they are, with their default levels.  Its "gzip" has another
#: container than "zlib", and its "lz4" begins with a size.
LEVELS = {"zstd": ZSTD_LEVEL, "zlib": ZLIB_LEVEL}


class ZarrCodec(NamedTuple):
    """A codec that Zarr has, too, and perhaps byte shuffle before it.

    Attributes
    ----------
    codec : Codec
        Named in `LEVELS`; its filter is None or "shuffle".
    itemsize : int
        Bytes of an element.
    """

    codec: Codec
    itemsize: int

    @classmethod
    def nearest(cls, codec: Codec | None, itemsize: int) -> ZarrCodec | None:
        """Return what Zarr has for a codec; None: it has nothing like it.

        "auto" chooses byte shuffle for most numbers.

        Examples
        --------
        >>> ZarrCodec.nearest(Codec("auto"), 8)
        ZarrCodec(codec=Codec('zstd', filter='shuffle'), itemsize=8)
        >>> ZarrCodec.nearest(Codec("zstd", filter="bitshuffle"), 8) is None
        True
        """
        if codec is None or codec.name not in LEVELS or codec.filter == "bitshuffle":
            return None
        shuffles = codec.filter is not None and itemsize > 1
        return cls(Codec(codec.name, codec.level, "shuffle" if shuffles else None), itemsize)

    def tell(self, metadata: dict[str, Any], zarr_format: int) -> None:
        """Name the codec in the metadata of Zarr."""
        name, size = self.codec.name, {"elementsize": self.itemsize}
        level = LEVELS[name] if self.codec.level is None else self.codec.level
        if zarr_format == 2:
            metadata["compressor"] = {"id": name, "level": level}
            if self.codec.filter is not None:
                metadata["filters"] = [{"id": "shuffle", **size}]
            return
        if self.codec.filter is not None:
            metadata["codecs"].append({"name": "numcodecs.shuffle", "configuration": size})
        how: dict[str, Any] = {"level": level}
        if name == "zstd":
            metadata["codecs"].append({"name": name, "configuration": how | {"checksum": False}})
        else:
            metadata["codecs"].append({"name": f"numcodecs.{name}", "configuration": how})

    def has(self, found: Encoded) -> bool:
        """Tell whether Zarr decodes a payload as it is."""
        return (found.codec, found.filter, found.blocks) == (
            self.codec.id,
            self.codec.filter_id,
            0,
        )

    def encode(self, chunk: Buffer) -> bytes:
        """Return the bytes of a chunk as Zarr has them."""
        if self.codec.filter is None:
            return compress(self.codec, chunk)
        out = bytearray(memoryview(chunk).nbytes)
        shuffle(out, chunk, self.itemsize)
        return compress(self.codec, out, self.itemsize)
