"""Superblocks: the committed states."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from extarray.format._superblock import (
    encode_superblock,
    next_superblock,
    superblock_bytes,
    superblock_fields,
)

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
    "next_superblock",
    "superblock_bytes",
]

NO_GROUP = bytes(16)
# A superblock beyond is none; and beyond the other one writers do not begin, who must be able to
# count on.
LAST_SEQUENCE = 2**62
LAST_COMMIT = LAST_SEQUENCE // 2


class Superblock(NamedTuple):
    """One committed state.  `extarray.format._superblock` knows its fields by their order.

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
        The growth policy, see `extarray.grid.policy`.
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


def decode_superblock(data: bytes, ndim: int) -> Superblock | None:
    """Return the superblock from its bytes; None where they are none (torn, or never written)."""
    fields = superblock_fields(data, ndim)
    if fields is None:
        return None
    block = Superblock._make(fields)
    return block if block.sequence <= LAST_SEQUENCE else None


def latest_sequence(data: bytes, places: Sequence[int]) -> int:
    """Return the greatest number that superblocks or pending states say they have, unchecked.

    Parameters
    ----------
    data : bytes
    places : sequence of int
        Where they stand in it.

    Returns
    -------
    int
        0 where nothing was written; past the end of the data there is nothing.
    """
    return max(int.from_bytes(data[at + 8 : at + 16], "little") for at in places)
