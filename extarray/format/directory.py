"""The directory of optional blocks: what only some arrays have, from when they first use it."""

from __future__ import annotations

import enum
import struct
from typing import TYPE_CHECKING

from extarray.format._crc import crc32c
from extarray.format.constants import BLOCK, CHECKSUM, LAST_END, PENDING_SLOTS

if TYPE_CHECKING:
    from extarray.format.header import Header

__all__ = [
    "BLOCK_BYTES",
    "BLOCK_NAMES",
    "DIRECTORY_BYTES",
    "ENTRY_BYTES",
    "BlockKind",
    "decode_directory",
    "encode_entry",
    "entry_offset",
    "pending_offset",
]


class BlockKind(enum.IntEnum):
    """The kinds of optional blocks; the entry of a block in the directory has the number."""

    GROUP = 0  # commits of several arrays: who took part, and two pending states
    WRITERS = 1  # the table of the writers that share an array


BLOCK_BYTES = {BlockKind.GROUP: (1 + len(PENDING_SLOTS)) * BLOCK, BlockKind.WRITERS: BLOCK}
ENTRY_BYTES = 16
# For messages: the block ...
BLOCK_NAMES = {
    BlockKind.GROUP: "for commits of several arrays",
    BlockKind.WRITERS: "for several writers",
}
DIRECTORY_BYTES = ENTRY_BYTES * len(BlockKind)

_ENTRY = struct.Struct("<IIQ")


def entry_offset(header: Header, kind: BlockKind) -> int:
    """Return the offset of an entry of the directory."""
    return header.directory_offset + ENTRY_BYTES * kind


def encode_entry(offset: int, kind: BlockKind, uuid: bytes) -> bytes:
    """Return the bytes of an entry, which tells where a block is; the checksum covers the uuid."""
    body = _ENTRY.pack(0, kind, offset)[CHECKSUM.size :]
    return CHECKSUM.pack(crc32c(uuid + body)) + body


def decode_directory(data: bytes, header: Header, length: int) -> dict[BlockKind, int]:
    """Return the offsets of the blocks that there are.

    What is cut off, or damaged, or not possible in a file of this length, is left out: a block is
    on the disk before its entry is.
    """
    found: dict[BlockKind, int] = {}
    if not data.strip(b"\0"):  # as of most arrays
        return found
    for kind in BlockKind:
        entry = data[ENTRY_BYTES * kind : ENTRY_BYTES * (kind + 1)]
        if len(entry) < ENTRY_BYTES:
            break
        crc, number, offset = _ENTRY.unpack(entry)
        if (
            number == kind
            and crc32c(header.uuid + entry[CHECKSUM.size :]) == crc
            and header.first_extent <= offset <= min(length, LAST_END) - BLOCK_BYTES[kind]
        ):
            found[kind] = offset
    return found


def pending_offset(group: int, slot: int) -> int:
    """Return the offset of a pending state in the block for commits of several arrays."""
    return group + BLOCK * (1 + PENDING_SLOTS.index(slot))
