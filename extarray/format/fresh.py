"""A whole new ``.xmd``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from extarray.format.blocks import (
    BLOCK_BYTES,
    BlockKind,
    encode_entry,
    encode_sums,
    entry_offset,
    sums_capacity,
)
from extarray.format.constants import LIVE_SLOTS, SECTOR
from extarray.format.header import Header, encode_header, header_bytes_of
from extarray.format.records import (
    EXTENT_HEAD_BYTES,
    encode_extent_head,
    encode_record,
    extent_capacity,
    record_bytes,
)
from extarray.format.superblock import Superblock, encode_superblock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Fresh", "attrs_room", "encode_fresh"]

_LEAST_ATTRS_ROOM = 1024
_MOST_ATTRS_ROOM = 2**32 - 1


class Fresh(NamedTuple):
    """A new ``.xmd``: its bytes, and their meaning."""

    image: bytearray
    header: Header  # with its length in the file
    state: Superblock  # with the places of the attributes and of the free space
    extents: list[int]  # offsets of the extents of the growth log


def encode_fresh(
    header: Header,
    state: Superblock,
    records: Sequence[tuple[int, int, tuple[int, ...]]],
    attrs: str,
    slots: Sequence[int],
    blocks: Mapping[BlockKind, bytes] | None = None,
    sums: bytes | None = None,
) -> Fresh:
    """Return a new ``.xmd`` that holds one state.

    Offsets in `state` have no effect.  `records` has axis, side and grid of all records of the
    growth log; `attrs` is the JSON text; `slots` are the superblocks that hold the state; `blocks`
    has the first bytes of optional blocks.  `sums` is the table of checksums of the chunks; without
    it they are in doubt.
    """
    first_bytes = encode_header(header)
    header = header._replace(
        header_bytes=header_bytes_of(first_bytes), content_bytes=len(first_bytes)
    )
    size, uuid = record_bytes(header.ndim), header.uuid
    pieces = [(0, first_bytes), (header.copy_offset, first_bytes)]
    extents: list[int] = []
    end, done = header.first_extent, 0
    while done < len(records) or not extents:
        capacity = extent_capacity(len(extents))
        some = records[done : done + capacity]
        done += len(some)
        extents.append(end)
        end += EXTENT_HEAD_BYTES + capacity * size
        head = encode_extent_head(end if done < len(records) else 0, uuid)
        pieces.append((extents[-1], head + b"".join(encode_record(*r, uuid) for r in some)))
    blob = attrs.encode()
    room = max(_LEAST_ATTRS_ROOM, len(blob))
    pieces.append((end, blob))
    # The end is that of the attributes: optional blocks are found by the directory.
    state = state.with_attrs(blob, end, room)._replace(n_segments=len(records))
    length = end + room
    if header.checksum:
        tables: list[int] = []
        done = 0
        while sums is not None and done < len(sums):
            size = 4 * sums_capacity(len(tables))
            pieces.append((length, sums[done : done + size]))
            tables.append(length)
            done, length = done + size, length + size
        pieces.append((header.sums_offset, encode_sums(sums is None, tables, uuid)))
        state = state._replace(end=length)
    for slot in slots:
        block = state if slot in LIVE_SLOTS else state._replace(sealed=False)
        pieces.append((header.superblock_offset(slot), encode_superblock(block)))
    for kind, data in (blocks or {}).items():
        at = -(-length // SECTOR) * SECTOR
        length = at + BLOCK_BYTES[kind]
        pieces.append((at, data))
        pieces.append((entry_offset(header, kind), encode_entry(at, kind, uuid)))
    image = bytearray(length)
    for offset, piece in pieces:
        image[offset : offset + len(piece)] = piece
    return Fresh(image, header, state, extents)


def attrs_room(length: int) -> int:
    """Return the bytes to reserve for attributes of a length, with room for longer ones.

    Examples
    --------
    >>> attrs_room(10), attrs_room(1000), attrs_room(2**31) == 2**32 - 1
    (1024, 2000, True)
    """
    return max(_LEAST_ATTRS_ROOM, min(2 * length, _MOST_ATTRS_ROOM))
