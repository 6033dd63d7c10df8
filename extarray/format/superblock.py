"""Superblocks: the committed states, and whether what they say can be true."""

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
# Offset and length of the attributes, and their checksum.
_ATTRS_PLACE = struct.Struct("<32xQI16xI")
# A superblock beyond is none; and beyond the other one writers do not begin, who must be able to
# count on.
LAST_SEQUENCE = 2**62
LAST_COMMIT = LAST_SEQUENCE // 2


class Superblock(NamedTuple):
    """One committed state.  `extarray.format._superblock` knows its fields by their order."""

    sequence: int  # number of the commit
    sealed: bool  # the uuid follows the last chunk in ``.xta``
    unclean: bool  # of the grid outside the bounds: anything may be there, and chunks may be holes
    n_segments: int  # records of the growth log that count
    data_bytes: int  # of the chunks in ``.xta``
    attrs_offset: int
    attrs_bytes: int
    attrs_capacity: int
    attrs_crc: int
    spare_offset: int  # room for the next version of the attributes
    spare_capacity: int
    end: int  # where ``.xmd`` has free space
    group: bytes  # the last commit of several arrays that this one has decided
    shape: tuple[int, ...]  # in elements
    offset: tuple[int, ...]  # elements of the grid before the bounds
    grid: tuple[int, ...]  # in chunks
    superseded: bool = False  # another ``.xmd`` takes its name, or has: the array gains an axis
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
        """Return commit 0, whose bounds begin where the grid does; it points to nothing yet."""
        numbers = 0, False, unclean, n_segments, data_bytes, *[0] * 7
        return cls._make((*numbers, NO_GROUP, shape, (0,) * len(shape), grid, False, growth))

    def with_attrs(self, blob: bytes, at: int, room: int) -> Superblock:
        """Return the state with attributes at a place, and free space behind their room."""
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
    """Return the superblock from its bytes; None if they are not one (torn, or never written)."""
    fields = superblock_fields(data, ndim)
    if fields is None:
        return None
    block = Superblock._make(fields)
    return block if block.sequence <= LAST_SEQUENCE else None


def latest_sequence(data: bytes, places: Sequence[int]) -> int:
    """Return the greatest number that superblocks or pending states say they have, unchecked.

    They stand at places in the data.  0 where nothing was written; past the end there is nothing.
    """
    return max([int.from_bytes(data[at + 8 : at + 16], "little") for at in places])


def attrs_location(data: bytes) -> tuple[int, int, int]:
    """Return the offset, length and checksum of the attributes that a superblock names, unchecked.

    `data` are its bytes, torn or not.
    """
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
    """Tell whether all that a superblock points to lies in a region of ``.xmd`` of its own.

    `extents` are the offsets of the extents that its records lie in, `sums` those of the table of
    checksums.  `others`, offsets and lengths, must lie apart as well, and may lie behind what the
    superblock knows.
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
