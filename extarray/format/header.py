"""The header: the facts that never change in the life of an array."""

from __future__ import annotations

import json
import os
import struct
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from extarray.common.choices import ORDERS
from extarray.common.errors import CorruptError, FormatError, TruncatedError, VersionError
from extarray.format._crc import crc32c
from extarray.format.constants import (
    BLOCK,
    CHECKSUM,
    COPY_AT,
    COUNTERS_AT,
    DIRECTORY_AT,
    FREEZES_AT,
    HOLDER_AT,
    HOLDER_BYTES,
    SEAL_BYTES,
    SEAL_MAGIC,
    SECTOR,
    SUMS_AT,
    SUPERBLOCKS_AT,
)
from extarray.format.dtypes import decode_dtype, encode_dtype

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "BLOBS_VERSION",
    "MAGIC",
    "VERSION",
    "Header",
    "decode_header",
    "decode_seal",
    "encode_header",
    "encode_seal",
    "header_bytes_of",
    "new_uuid",
    "without_blobs",
]

MAGIC = b"\x89XTA\r\n\x1a\n"
VERSION = (2, 1)
# Arrays with chunks in blobs have this version, which readers of format 2 must refuse.
BLOBS_VERSION = (3, 0)

_HEADER = struct.Struct("<8sHHI16sBcHIII")
_SPARSE = 1
_CHECKSUM_FLAG = 2
_WORK_FLAG = 4
_BLOBS_FLAG = 8
_WORK_BYTES = 32


def new_uuid() -> bytes:
    """Return a new uuid, whose last four bytes are the checksum of the seal that holds it.

    This checksum is CRC-32, as in ZIP files.  With CRC-32C, all uuids would have the same CRC-32C,
    and checksums that cover the uuid would not distinguish arrays.
    """
    start = os.urandom(16 - CHECKSUM.size)
    return start + CHECKSUM.pack(crc32(SEAL_MAGIC + start))


def encode_seal(uuid: bytes) -> bytes:
    """Return the seal at the end of a closed ``.xta``."""
    return SEAL_MAGIC + uuid


def decode_seal(end: bytes, offset: int, uuid: bytes) -> bytes | None:
    """Return the uuid in the seal at the end of ``.xta``.

    `end` has its last bytes, from `offset` on; `uuid` is that of the array.  Return None for other
    bytes, and for the array's own seal if it is torn.  Uuids of format 2.0 are random, so a seal
    without its checksum may be whole: it counts as torn if it begins with our uuid, or equals ours
    up to a sector edge, where a loss of power tears writes.
    """
    if len(end) < SEAL_BYTES or not end.startswith(SEAL_MAGIC):
        return None
    ours = encode_seal(uuid)
    if end != ours and CHECKSUM.pack(crc32(end[: -CHECKSUM.size])) != end[-CHECKSUM.size :]:
        edge, beyond = -offset % SECTOR, len(SEAL_MAGIC) + 1
        if end[:beyond] == ours[:beyond] or (0 < edge and end[:edge] == ours[:edge]):
            return None
    return end[len(SEAL_MAGIC) :]


class Header(NamedTuple):
    """The header: the facts that never change in the life of an array."""

    uuid: bytes
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    order: str
    fill: bytes
    sparse: bool
    checksum: bool = False
    version: tuple[int, int] = VERSION
    header_bytes: int = BLOCK
    content_bytes: int = 0
    work: bytes = b""  # of the `rechunk` that made the array: see `extarray.array.rechunk`
    blobs: str = ""  # JSON note on how chunks were put into blobs; "": there are none

    @property
    def facts(self) -> Header:
        """The header without the lengths of its bytes, to compare with another one."""
        return self._replace(header_bytes=BLOCK, content_bytes=0)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.chunks)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk."""
        size = self.dtype.itemsize
        for extent in self.chunks:
            size *= extent
        return size

    @property
    def has_blobs(self) -> bool:
        """True if chunks are in blobs, as in format 3."""
        return self.version[0] == BLOBS_VERSION[0]

    @property
    def chunk_order(self) -> str | int | None:
        """Order of the chunks in blobs, as it was asked for; None if the note does not tell."""
        found = self._told_of_blobs("order")
        return found if isinstance(found, (str, int)) else None

    @property
    def compression(self) -> str | None:
        """The codec of the chunks in blobs, as it was asked for; None if there is none."""
        found = self._told_of_blobs("compression")
        return found if isinstance(found, str) else None

    def _told_of_blobs(self, key: str) -> object:
        """Return what the note on the blobs says; None: nothing."""
        try:
            found: object = json.loads(self.blobs)[key]
        except (ValueError, RecursionError, TypeError, KeyError):
            return None
        return found

    @property
    def encoding(self) -> dict[str, Any]:
        """Note on the codec of chunks that are frozen; empty if there is none."""
        try:
            found = json.loads(self.blobs)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) and "codec" in found else {}

    @property
    def first_extent(self) -> int:
        """Offset of the growth log."""
        return self.copy_offset + -(-self.content_bytes // SECTOR) * SECTOR

    @property
    def copy_offset(self) -> int:
        """Offset of the copy of the header."""
        return self.header_bytes + COPY_AT

    @property
    def cuts_offset(self) -> int:
        """Offset of the number of cuts."""
        return self.header_bytes + COUNTERS_AT

    @property
    def freezes_offset(self) -> int:
        """Offset of the number of freezes."""
        return self.header_bytes + FREEZES_AT

    @property
    def holder_offset(self) -> int:
        """Offset of the note about the present writer."""
        return self.header_bytes + HOLDER_AT

    @property
    def place_offset(self) -> int:
        """Offset of the place of the files written to."""
        return self.holder_offset + HOLDER_BYTES

    @property
    def sums_offset(self) -> int:
        """Offset of the bytes that locate the checksums of the chunks."""
        return self.header_bytes + SUMS_AT

    @property
    def directory_offset(self) -> int:
        """Offset of the directory of optional blocks."""
        return self.header_bytes + DIRECTORY_AT

    def renewed(self, **changes: Any) -> Header:
        """Return the header of another array, like this one but for the changes."""
        fresh = {"uuid": new_uuid(), "version": VERSION, "work": b"", "blobs": ""}
        return self._replace(**(fresh | changes))

    def freezing(self, encoding: dict[str, Any]) -> Header:
        """Return the header of the same array, whose chunks may be frozen as the encoding says."""
        return self._replace(version=BLOBS_VERSION, blobs=json.dumps(encoding))

    def superblock_offset(self, slot: int) -> int:
        """Return the offset of a superblock."""
        return self.header_bytes + SUPERBLOCKS_AT[slot]


def encode_header(header: Header) -> bytes:
    """Return the bytes of a header, without the zeros that fill up `header_bytes`."""
    description = json.dumps(encode_dtype(header.dtype), separators=(",", ":")).encode()
    variable = struct.pack(f"<{header.ndim}q", *header.chunks) + description + header.fill
    variable += header.work
    if header.has_blobs:
        note = header.blobs.encode()
        variable += CHECKSUM.pack(len(note)) + note
    used = _HEADER.size + len(variable) + 4
    size = -(-used // BLOCK) * BLOCK
    fixed = _HEADER.pack(
        MAGIC,
        *header.version,
        size,
        header.uuid,
        header.ndim,
        header.order.encode(),
        (_SPARSE if header.sparse else 0)
        | (_CHECKSUM_FLAG if header.checksum else 0)
        | (_WORK_FLAG if header.work else 0)
        | (_BLOBS_FLAG if header.has_blobs else 0),
        header.dtype.itemsize,
        len(description),
        0,
    )
    body = fixed + variable
    return body + struct.pack("<I", crc32c(body))


def without_blobs(header: Header) -> Header:
    """Return the header of the same array with its chunks in ``.xta``."""
    if not header.has_blobs:
        return header
    seal = encode_seal(header.uuid)
    is_random = CHECKSUM.pack(crc32(seal[: -CHECKSUM.size])) != seal[-CHECKSUM.size :]
    return header._replace(version=(2, 0) if is_random else VERSION, blobs="")


def header_bytes_of(data: bytes) -> int:
    """Return the bytes of a header, unchecked, from its first 16; `BLOCK` if there are fewer."""
    return int.from_bytes(data[12:16], "little") if len(data) >= 16 else BLOCK


def decode_header(data: bytes) -> Header:
    """Return the header from the first bytes of ``.xmd``, which hold at least the header."""
    if not data.startswith(MAGIC[: len(data)]):
        raise FormatError("not extarray metadata: the signature is missing")
    if len(data) < _HEADER.size:
        raise TruncatedError("the header is truncated; restore the file from a copy")
    (_, major, minor, size, uuid, ndim, order, flags, itemsize, description_bytes, _zero) = (
        _HEADER.unpack_from(data)
    )
    if major > BLOBS_VERSION[0]:
        raise VersionError(
            f"written in format {major}.{minor}, but this version of extarray reads formats up to "
            f"{BLOBS_VERSION[0]}; install a newer version"
        )
    if major < VERSION[0]:
        raise VersionError(
            f"written in format {major}.{minor}, from before the first release, which is no "
            f"longer supported; this version of extarray reads format {VERSION[0]}: copy the "
            "array through NumPy with the version that wrote it"
        )
    work_bytes = _WORK_BYTES if flags & _WORK_FLAG else 0
    used = _HEADER.size + 8 * ndim + description_bytes + itemsize + work_bytes
    note_at = used
    if major == BLOBS_VERSION[0]:
        used += 4 + int.from_bytes(data[used : used + 4], "little")
    if len(data) < used + 4 or size < used + 4 or size % BLOCK:
        raise CorruptError("the header is damaged: its lengths are inconsistent")
    (crc,) = struct.unpack_from("<I", data, used)
    if crc32c(data[:used]) != crc:
        raise CorruptError("the header is damaged: its checksum does not match")
    at = _HEADER.size
    chunks = struct.unpack_from(f"<{ndim}q", data, at)
    at += 8 * ndim
    try:
        description = json.loads(data[at : at + description_bytes].decode())
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"the header is damaged: {error}") from None
    dtype = decode_dtype(description)
    at += description_bytes
    header = Header(
        uuid=uuid,
        dtype=dtype,
        chunks=chunks,
        order=order.decode("latin-1"),
        fill=bytes(data[at : at + itemsize]),
        sparse=bool(flags & _SPARSE),
        checksum=bool(flags & _CHECKSUM_FLAG),
        version=(major, minor),
        header_bytes=size,
        content_bytes=used + 4,
        work=bytes(data[at + itemsize : note_at]),
        blobs=data[note_at + 4 : used].decode(errors="replace"),
    )
    if (
        dtype.itemsize != itemsize
        or ndim > 32
        or min(chunks, default=1) < 1
        or header.order not in ORDERS
        or header.chunk_bytes >= 2**63
        or header.has_blobs != bool(flags & _BLOBS_FLAG and major == BLOBS_VERSION[0])
    ):
        raise CorruptError("the header is damaged: its values are invalid")
    return header
