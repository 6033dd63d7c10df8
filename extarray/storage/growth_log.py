"""The growth log of an open ``.xmd``: read as far as a state needs it, and added to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import CorruptError
from extarray.format.header import Header
from extarray.format.records import (
    EXTENT_HEAD_BYTES,
    check_records,
    decode_extent_head,
    decode_records,
    encode_extent_head,
    encode_record,
    extent_capacity,
    extent_of_record,
    record_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extarray._core._axial import Axial
    from extarray.storage.filesystem import File

__all__ = ["Log", "append_records", "read_records"]

# Of the records, at a time.
CHECKED_BYTES = 1 << 20

# Axes, sides and grids of records.
Log = tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]


def read_records(
    file: File, header: Header, known: Sequence[int], first: int, stop: int
) -> tuple[Log, list[int]]:
    """Records first ... stop - 1 of the growth log, and the extents up to them.

    Parameters
    ----------
    file : File
        ``.xmd``.
    header : Header
    known : sequence of int
        Offsets of the extents that need no reading; empty: none.
    first, stop : int

    Returns
    -------
    log : tuple of ndarray
        Axes, sides and grids.
    extents : list of int

    Raises
    ------
    CorruptError
        Less of it is whole.
    """
    uuid, size = header.uuid, record_bytes(header.ndim)
    length = file.length
    if stop < first or (stop - first) * size > length:
        raise CorruptError("the growth log is shorter than the superblock says")
    # Address space and no more, as yet: what is no log fails its checksum before much is read.
    checked = first
    try:
        data = np.empty((stop - first) * size, np.uint8)
    except MemoryError:
        raise CorruptError("the growth log is longer than memory") from None
    place, records = memoryview(data), data.reshape(-1, size)
    extents = list(known) or [header.first_extent]
    before = number = 0  # records in the extents before this one; number of this one
    while before < stop:
        if number == len(extents):
            following = decode_extent_head(file.read(EXTENT_HEAD_BYTES, extents[-1]), uuid)
            if not 0 < following < length:
                raise CorruptError("the growth log is shorter than the superblock says")
            extents.append(following)
        capacity = extent_capacity(number)
        low, high = max(first, before), min(stop, before + capacity)
        if low < high:
            offset = extents[number] + EXTENT_HEAD_BYTES + (low - before) * size
            part = place[(low - first) * size : (high - first) * size]
            if file.read_into(part, offset) < len(part):
                raise CorruptError("the growth log is cut off")
            if (high - checked) * size > CHECKED_BYTES:
                check_records(records[checked - first : high - first], uuid, checked)
                checked = high
        before += capacity
        number += 1
    check_records(records[checked - first :], uuid, checked)
    return decode_records(records), extents


def append_records(
    file: File, header: Header, known: Sequence[int], axial: Axial, first: int, end: int
) -> tuple[list[int], int]:
    """Write the records of segments first, first + 1, ...

    Parameters
    ----------
    file : File
        ``.xmd``.
    header : Header
    known : sequence of int
        Offsets of the extents.
    axial : Axial
        Axial vectors with the segments.
    first : int
    end : int
        Where free space begins.

    Returns
    -------
    extents : list of int
    end : int
        As they are then; they count when a superblock says so.

    Raises
    ------
    OSError
    """
    extents = list(known)
    uuid, size = header.uuid, record_bytes(header.ndim)
    for segment in range(first, axial.segments):
        number = extent_of_record(segment)
        if number == len(extents):
            room = EXTENT_HEAD_BYTES + extent_capacity(number) * size
            file.extend(end, room)
            file.write(encode_extent_head(0, uuid), end)
            file.write(encode_extent_head(end, uuid), extents[-1])
            extents.append(end)
            end += room
        place = segment - extent_capacity(0) * (2**number - 1)
        offset = extents[number] + EXTENT_HEAD_BYTES + place * size
        file.write(encode_record(*axial._record(segment), uuid), offset)
    return extents, end
