"""Superblocks: the committed states, and checks of their values."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, NamedTuple

from extarray.format._crc import crc32c
from extarray.format._superblock import (
    encode_superblock,
    next_superblock,
    superblock_bytes,
    superblock_fields,
)
from extarray.format.blocks import sums_capacity
from extarray.format.constants import LAST_END, LIMIT
from extarray.format.records import EXTENT_HEAD_BYTES, extent_capacity, record_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extarray.format.header import Header

__all__ = [
    "LAST_COMMIT",
    "LAST_SEQUENCE",
    "NO_GROUP",
    "Superblock",
    "attrs_location",
    "decode_superblock",
    "encode_superblock",
    "latest_sequence",
    "next_superblock",
    "regions_fit",
    "superblock_bytes",
    "values_fit",
]

NO_GROUP = bytes(16)
# Offset, length and checksum of the attributes.
_ATTRS_PLACE = struct.Struct("<32xQI16xI")
# Larger numbers are not superblocks.  Writers do not begin beyond the smaller limit, so that they
# can count on.
LAST_SEQUENCE = 2**62
LAST_COMMIT = LAST_SEQUENCE // 2


class Superblock(NamedTuple):
    """One committed state.  `extarray.format._superblock` relies on the order of its fields."""

    sequence: int  # number of the commit
    sealed: bool  # the uuid follows the last chunk in ``.xta``
    unclean: bool  # outside the bounds, chunks may have any content, or be holes
    n_segments: int  # valid records of the growth log
    data_bytes: int  # of the chunks in ``.xta``
    attrs_offset: int
    attrs_bytes: int
    attrs_capacity: int
    attrs_crc: int
    spare_offset: int  # room for the next version of the attributes
    spare_capacity: int
    end: int  # where free space in ``.xmd`` begins
    group: bytes  # the last commit of several arrays that this array has decided
    shape: tuple[int, ...]  # in elements
    offset: tuple[int, ...]  # elements of the grid before the bounds
    grid: tuple[int, ...]  # in chunks
    superseded: bool = False  # another ``.xmd`` takes or took its name: the array gains an axis
    growth: int = 0  # the growth policy, see `extarray.grid.policy`

    @classmethod
    def first(
        cls,
        shape: tuple[int, ...],
        grid: tuple[int, ...],
        data_bytes: int,
        n_segments: int = 0,
        unclean: bool = False,
        growth: int = 0,
    ) -> Superblock:
        """Return commit 0, with bounds at the start of the grid; it points to nothing yet."""
        numbers = 0, False, unclean, n_segments, data_bytes, *[0] * 7
        return cls._make((*numbers, NO_GROUP, shape, (0,) * len(shape), grid, False, growth))

    def with_attrs(self, blob: bytes, at: int, room: int) -> Superblock:
        """Return the state with attributes at an offset, and free space behind their room."""
        return self._replace(
            attrs_offset=at,
            attrs_bytes=len(blob),
            attrs_capacity=room,
            attrs_crc=crc32c(blob),
            spare_offset=0,
            spare_capacity=0,
            end=at + room,
        )


def decode_superblock(data: bytes, ndim: int) -> Superblock | None:
    """Return the superblock that bytes encode; None for other bytes (torn, or never written)."""
    fields = superblock_fields(data, ndim)
    if fields is None:
        return None
    block = Superblock._make(fields)
    return block if block.sequence <= LAST_SEQUENCE else None


def latest_sequence(data: bytes, places: Sequence[int]) -> int:
    """Return the greatest sequence number, unchecked, of superblocks or pending states at places.

    Unwritten ones, and those past the end, count as 0.
    """
    return max([int.from_bytes(data[at + 8 : at + 16], "little") for at in places])


def attrs_location(data: bytes) -> tuple[int, int, int]:
    """Return offset, length and checksum of the attributes in superblock bytes, even torn ones."""
    offset, length, crc = _ATTRS_PLACE.unpack(
        data[: _ATTRS_PLACE.size].ljust(_ATTRS_PLACE.size, b"\0")
    )
    return offset, length, crc


def values_fit(block: Superblock, header: Header) -> bool:
    """Tell whether the numbers of a superblock agree: bounds, grid, and bytes of the chunks."""
    n_chunks = math.prod(block.grid)
    if n_chunks * header.chunk_bytes != block.data_bytes or block.data_bytes >= LIMIT:
        return False
    if block.n_segments < 1 or min(block.shape + block.offset, default=0) < 0:
        return False
    for b, n, g, c in zip(block.offset, block.shape, block.grid, header.chunks, strict=True):
        if not b + n <= g * c < LIMIT:
            return False
    return True


def regions_fit(
    block: Superblock,
    header: Header,
    extents: Sequence[int],
    sums: Sequence[int] = (),
    others: Sequence[tuple[int, int]] = (),
) -> bool:
    """Tell whether everything that a superblock points to has its own region of ``.xmd``.

    `extents` are the offsets of the extents of its records; `sums`, those of the checksum table.
    The regions in `others`, (offset, length) pairs, must be disjoint as well, and may lie beyond
    the superblock's end.
    """
    first = extent_capacity(0) * record_bytes(header.ndim)
    regions = [
        (offset, EXTENT_HEAD_BYTES + (first << number)) for number, offset in enumerate(extents)
    ]
    regions += [(offset, 4 * sums_capacity(number)) for number, offset in enumerate(sums)]
    regions.append((block.attrs_offset, block.attrs_capacity))
    if block.spare_offset or block.spare_capacity:
        regions.append((block.spare_offset, block.spare_capacity))
    free = header.first_extent
    for offset, length in sorted([*regions, *others]):
        if offset < free:
            return False
        free = offset + length
    last = max([offset + length for offset, length in regions])
    return last <= block.end <= LAST_END and block.attrs_bytes <= block.attrs_capacity
