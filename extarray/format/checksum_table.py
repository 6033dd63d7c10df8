"""The table of the checksums of chunks."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from extarray.format._crc import crc32c
from extarray.format.constants import CHECKSUM

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MOST_SUMS_EXTENTS", "decode_sums", "encode_sums", "sums_bytes", "sums_capacity"]

# What 2**63 chunks would need.
MOST_SUMS_EXTENTS = 54

_FIRST_EXTENT = 1024  # sums
_SUMS = struct.Struct("<III4x")
_IN_DOUBT = 1


def sums_capacity(number: int) -> int:
    """Return the sums that an extent of their table holds: twice as many as the one before."""
    return _FIRST_EXTENT << number


def sums_bytes(n_extents: int) -> int:
    """Return the bytes that tell where the table of checksums is."""
    return _SUMS.size + 8 * n_extents


def encode_sums(in_doubt: bool, extents: Sequence[int], uuid: bytes) -> bytes:
    """Return the bytes that tell where the extents of the table of checksums are.

    They also tell whether chunks may have been written since their sums were.  The checksum covers
    the uuid.
    """
    body = _SUMS.pack(0, _IN_DOUBT if in_doubt else 0, len(extents))[4:]
    body += struct.pack(f"<{len(extents)}Q", *extents)
    return CHECKSUM.pack(crc32c(uuid + body)) + body


def decode_sums(data: bytes, uuid: bytes) -> tuple[bool, list[int]] | None:
    """Return what `encode_sums` encoded, or None for other bytes."""
    if len(data) < _SUMS.size:
        return None
    crc, flags, n_extents = _SUMS.unpack_from(data)
    end = sums_bytes(n_extents)
    if n_extents > MOST_SUMS_EXTENTS or len(data) < end or crc32c(uuid + data[4:end]) != crc:
        return None
    extents = struct.unpack_from(f"<{n_extents}Q", data, _SUMS.size)
    return bool(flags & _IN_DOUBT), list(extents)
