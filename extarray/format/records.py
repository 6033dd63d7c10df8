"""The growth log: records of segments, in extents."""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np

from extarray.common.errors import CorruptError
from extarray.format._crc import crc32c, crc32c_first_wrong, read_log
from extarray.format.constants import CHECKSUM

__all__ = [
    "EXTENT_HEAD_BYTES",
    "check_records",
    "decode_records",
    "encode_extent_head",
    "encode_record",
    "extent_capacity",
    "extent_of_record",
    "pack_records",
    "read_log",
    "record_bytes",
]

EXTENT_HEAD_BYTES = 16

_FIRST_EXTENT = 8  # records
_RECORD_BODIES = [struct.Struct(f"<BBH{ndim}q") for ndim in range(33)]
_EXTENT_HEAD = struct.Struct("<QII")
# Offsets in a record, as `_record_type` has them.
_SIDE_AT, _AXIS_AT, _GRID_AT = 4, 5, 8


@functools.cache
def _record_type(ndim: int) -> np.dtype[Any]:
    return np.dtype(
        [("crc", "<u4"), ("side", "u1"), ("axis", "u1"), ("zero", "<u2"), ("grid", "<i8", (ndim,))]
    )


def record_bytes(ndim: int) -> int:
    """Return the bytes of a record of the growth log."""
    return _GRID_AT + 8 * ndim


def encode_record(axis: int, side: int, grid: tuple[int, ...], uuid: bytes) -> bytes:
    """Return the bytes of a segment's record, with the grid before; the sum covers the uuid."""
    body = _RECORD_BODIES[len(grid)].pack(side, axis, 0, *grid)
    return CHECKSUM.pack(crc32c(uuid + body)) + body


def check_records(rows: np.ndarray[Any, Any], uuid: bytes, first: int) -> None:
    """Raise CorruptError if records are damaged, or of an unknown kind.

    Each contiguous row has the bytes of a record; messages number them from `first` on.
    """
    wrong = crc32c_first_wrong(rows, crc32c(uuid))
    if wrong < len(rows):
        raise CorruptError(f"record {first + wrong} of the growth log is damaged")
    if rows[:, _SIDE_AT].max(initial=0) > 1:
        raise CorruptError("the growth log has a record of an unknown kind")


def decode_records(
    rows: np.ndarray[Any, Any],
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return axes, sides and grids of checked records, as views of the rows."""
    return rows[:, _AXIS_AT], rows[:, _SIDE_AT], rows[:, _GRID_AT:].view("<i8")


def pack_records(
    axes: np.ndarray[Any, Any], sides: np.ndarray[Any, Any], grids: np.ndarray[Any, Any]
) -> bytes:
    """Return the bytes of records without checksums, for `decode_records`.

    Examples
    --------
    >>> packed = pack_records(np.array([1]), np.array([0]), np.array([[4, 3]]))
    >>> decode_records(np.frombuffer(packed, np.uint8).reshape(1, -1))
    (array([1], dtype=uint8), array([0], dtype=uint8), array([[4, 3]]))
    """
    records = np.zeros(len(axes), _record_type(grids.shape[1]))
    records["axis"], records["side"], records["grid"] = axes, sides, grids
    return records.tobytes()


def extent_capacity(number: int) -> int:
    """Return how many records an extent of the log holds: twice as many as the one before."""
    return _FIRST_EXTENT << number


def extent_of_record(number: int) -> int:
    """Return the number of the extent that holds a record of the growth log.

    Examples
    --------
    >>> extent_of_record(7), extent_of_record(8), extent_of_record(23), extent_of_record(24)
    (0, 1, 1, 2)
    """
    # Extent e begins at record (2**e - 1) times the capacity of the first extent.
    return (number // extent_capacity(0) + 1).bit_length() - 1


def encode_extent_head(next_offset: int, uuid: bytes) -> bytes:
    """Return the 16 bytes before an extent's records, with the next extent's offset or 0."""
    return _EXTENT_HEAD.pack(next_offset, crc32c(uuid + struct.pack("<Q", next_offset)), 0)
