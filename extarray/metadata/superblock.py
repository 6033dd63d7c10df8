"""Superblocks: the committed states."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from extarray._core._crc import crc32c
from extarray.metadata.places import BLOCK, CHECKSUM

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "LAST_COMMIT",
    "LAST_SEQUENCE",
    "NO_GROUP",
    "Superblock",
    "decode_superblock",
    "encode_superblock",
    "latest_sequence",
    "superblock_bytes",
]

NO_GROUP = bytes(16)
# A superblock beyond is none; and beyond the other one writers do not begin, who must be able to
# count on.
LAST_SEQUENCE = 2**62
LAST_COMMIT = LAST_SEQUENCE // 2

_SUPERBLOCK = struct.Struct("<IIQQQQIIQIIQ16s")
# By the number of axes; behind the checksum.
_SUPERBLOCK_BODIES = [struct.Struct(f"<IQQQQIIQIIQ16s{3 * ndim}q") for ndim in range(33)]
_SEALED = 1
_UNCLEAN = 2
_SUPERSEDED = 4
_GROWTH_BIT = 4


class Superblock(NamedTuple):
    """One committed state.

    Attributes
    ----------
    sequence : int
        Number of the commit.
    sealed : bool
        The uuid follows the last chunk in ``.xta``.
    unclean : bool
        Elements of the grid outside the bounds may hold anything, and chunks there may be holes.
    superseded : bool
        Another ``.xmd`` is about to take the name of this one, or has: the array gains an axis.
    growth : int
        The growth policy, see `extarray.policy`.
    n_segments : int
        Records of the growth log that count.
    data_bytes : int
        Bytes of the chunks in ``.xta``.
    attrs_offset, attrs_bytes, attrs_capacity, attrs_crc : int
        Where the attributes stand.
    spare_offset, spare_capacity : int
        Room for the next version of the attributes.
    end : int
        Where ``.xmd`` has free space.
    group : bytes
        The last commit of several arrays that this one has decided.
    shape, offset, grid : tuple of int
        Bounds in elements, elements of the grid before the bounds, and the grid in chunks.
    """

    sequence: int
    sealed: bool
    unclean: bool
    n_segments: int
    data_bytes: int
    attrs_offset: int
    attrs_bytes: int
    attrs_capacity: int
    attrs_crc: int
    spare_offset: int
    spare_capacity: int
    end: int
    group: bytes
    shape: tuple[int, ...]
    offset: tuple[int, ...]
    grid: tuple[int, ...]
    superseded: bool = False
    growth: int = 0


def superblock_bytes(ndim: int) -> int:
    """Bytes of a superblock of an array of `ndim` axes.

    Parameters
    ----------
    ndim : int

    Returns
    -------
    int
    """
    return _SUPERBLOCK.size + 24 * ndim


def encode_superblock(block: Superblock) -> bytes:
    """Bytes of a superblock.

    Parameters
    ----------
    block : Superblock

    Returns
    -------
    bytes
    """
    shape = block.shape
    body = _SUPERBLOCK_BODIES[len(shape)].pack(
        (_SEALED if block.sealed else 0)
        | (_UNCLEAN if block.unclean else 0)
        | (_SUPERSEDED if block.superseded else 0)
        | block.growth << _GROWTH_BIT,
        block.sequence,
        block.n_segments,
        block.data_bytes,
        block.attrs_offset,
        block.attrs_bytes,
        block.attrs_capacity,
        block.spare_offset,
        block.spare_capacity,
        block.attrs_crc,
        block.end,
        block.group,
        *shape,
        *block.offset,
        *block.grid,
    )
    return CHECKSUM.pack(crc32c(body)) + body


def decode_superblock(data: bytes, ndim: int) -> Superblock | None:
    """Superblock from its bytes, or None where they are none (torn, or never written).

    Parameters
    ----------
    data : bytes
    ndim : int

    Returns
    -------
    Superblock or None
    """
    size = superblock_bytes(ndim)
    data = data[:size]
    if len(data) < size:
        return None
    (
        crc, flags, sequence, n_segments, data_bytes, attrs_offset, attrs_bytes, attrs_capacity,
        spare_offset, spare_capacity, attrs_crc, end, group,
    ) = _SUPERBLOCK.unpack_from(data)  # fmt: skip
    if crc32c(data[4:]) != crc or sequence > LAST_SEQUENCE:
        return None
    extents = struct.unpack_from(f"<{3 * ndim}q", data, _SUPERBLOCK.size)
    return Superblock(
        sequence=sequence,
        sealed=bool(flags & _SEALED),
        unclean=bool(flags & _UNCLEAN),
        n_segments=n_segments,
        data_bytes=data_bytes,
        attrs_offset=attrs_offset,
        attrs_bytes=attrs_bytes,
        attrs_capacity=attrs_capacity,
        attrs_crc=attrs_crc,
        spare_offset=spare_offset,
        spare_capacity=spare_capacity,
        end=end,
        group=group,
        shape=extents[:ndim],
        offset=extents[ndim : 2 * ndim],
        grid=extents[2 * ndim :],
        superseded=bool(flags & _SUPERSEDED),
        growth=flags >> _GROWTH_BIT,
    )


def latest_sequence(data: bytes, slots: Sequence[int]) -> int:
    """The greatest number that superblocks or pending states say they have, unchecked.

    Parameters
    ----------
    data : bytes
        From the block of the first of the slots on.
    slots : sequence of int
        In increasing order.

    Returns
    -------
    int
        0 where nothing was written; past the end of the data there is nothing.
    """
    places = (8 + (slot - slots[0]) * BLOCK for slot in slots)
    return max(int.from_bytes(data[at : at + 8], "little") for at in places)
