"""The header: what never changes in the life of an array."""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from extarray._core._crc import crc32c
from extarray.errors import CorruptError, FormatError, TruncatedError, VersionError
from extarray.metadata.dtypes import decode_dtype, encode_dtype
from extarray.metadata.places import BLOCK, COPY_BLOCK, CUTS_BYTES, HOLDER_BYTES
from extarray.order import ORDERS

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "MAGIC",
    "VERSION",
    "Header",
    "decode_header",
    "encode_header",
    "header_bytes_of",
    "header_content",
]

MAGIC = b"\x89XTA\r\n\x1a\n"
VERSION = (1, 0)

_HEADER = struct.Struct("<8sHHI16sBcHIII")
_SPARSE = 1
_CHECKSUM_FLAG = 2


@dataclass(frozen=True)
class Header:
    """What never changes in the life of an array."""

    uuid: bytes
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    order: str
    fill: bytes
    sparse: bool
    checksum: bool = False
    version: tuple[int, int] = VERSION
    header_bytes: int = BLOCK

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
    def first_extent(self) -> int:
        """Offset of the growth log."""
        return self.copy_offset + self.header_bytes

    @property
    def copy_offset(self) -> int:
        """Offset of the copy of the header."""
        return self.superblock_offset(COPY_BLOCK)

    @property
    def cuts_offset(self) -> int:
        """Offset of the number of cuts."""
        return self.header_bytes - HOLDER_BYTES - CUTS_BYTES

    def superblock_offset(self, slot: int) -> int:
        """Offset of a superblock, or of a block behind them."""
        return self.header_bytes + slot * BLOCK


def encode_header(header: Header) -> bytes:
    """Bytes of a header, `header_bytes` of them.

    Parameters
    ----------
    header : Header

    Returns
    -------
    bytes
    """
    description = json.dumps(encode_dtype(header.dtype), separators=(",", ":")).encode()
    variable = struct.pack(f"<{header.ndim}q", *header.chunks) + description + header.fill
    used = _HEADER.size + len(variable) + 4
    size = -(-(used + CUTS_BYTES + HOLDER_BYTES) // BLOCK) * BLOCK
    fixed = _HEADER.pack(
        MAGIC,
        *header.version,
        size,
        header.uuid,
        header.ndim,
        header.order.encode(),
        (_SPARSE if header.sparse else 0) | (_CHECKSUM_FLAG if header.checksum else 0),
        header.dtype.itemsize,
        len(description),
        0,
    )
    body = fixed + variable
    return (body + struct.pack("<I", crc32c(body))).ljust(size, b"\0")


def header_bytes_of(fd: int) -> int:
    """Bytes of the header of an open ``.xmd``, unchecked.

    Parameters
    ----------
    fd : int

    Returns
    -------
    int
        `BLOCK` where the file is too short.
    """
    data = os.pread(fd, 4, 12)
    return int.from_bytes(data, "little") if len(data) == 4 else BLOCK


def decode_header(data: bytes) -> Header:
    """Header from the first bytes of ``.xmd``.

    Parameters
    ----------
    data : bytes
        All of the header, or all of the file.

    Returns
    -------
    Header

    Raises
    ------
    FormatError, VersionError, CorruptError
    """
    if not data.startswith(MAGIC[: len(data)]):
        raise FormatError("no extarray metadata: the first bytes are not its signature")
    if len(data) < _HEADER.size:
        raise TruncatedError("the header is cut off; restore the file from a copy")
    (_, major, minor, size, uuid, ndim, order, flags, itemsize, description_bytes, _zero) = (
        _HEADER.unpack_from(data)
    )
    if major > VERSION[0]:
        raise VersionError(
            f"written in format {major}.{minor}; this version of extarray reads formats up to "
            f"{VERSION[0]}: install a newer one"
        )
    used = _HEADER.size + 8 * ndim + description_bytes + itemsize
    free = size - CUTS_BYTES - HOLDER_BYTES
    if len(data) < used + 4 or free < used + 4 or size % BLOCK:
        raise CorruptError("the header is damaged: its lengths do not fit")
    (crc,) = struct.unpack_from("<I", data, used)
    if crc32c(data[:used]) != crc:
        raise CorruptError("the header is damaged: its checksum does not fit")
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
    )
    if (
        dtype.itemsize != itemsize
        or ndim > 32
        or any(n < 1 for n in chunks)
        or header.order not in ORDERS
        or header.chunk_bytes >= 2**63
    ):
        raise CorruptError("the header is damaged: its values are not possible")
    return header


def header_content(data: bytes) -> bytes:
    """The part of a header that never changes: what its checksum covers, and the checksum.

    Parameters
    ----------
    data : bytes
        A header that `decode_header` takes.

    Returns
    -------
    bytes
    """
    ndim, itemsize, description_bytes = data[32], *struct.unpack_from("<II", data, 36)
    return data[: _HEADER.size + 8 * ndim + description_bytes + itemsize + 4]
