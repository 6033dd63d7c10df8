"""Notes of writers, and optional blocks.

A directory locates the blocks: the table of writers, and states of commits of several arrays.  A
cell of its own locates the tables of checksums.
"""

from __future__ import annotations

import enum
import struct
from typing import TYPE_CHECKING, NamedTuple

from extarray.common.errors import CorruptError
from extarray.format._crc import crc32c
from extarray.format.constants import (
    BLOCK,
    CHECKSUM,
    LAST_END,
    LIMIT,
    PENDING_SLOTS,
    PLACE_BYTES,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extarray.format.header import Header

__all__ = [
    "BLOCK_BYTES",
    "BLOCK_NAMES",
    "DIRECTORY_BYTES",
    "ENTRY_BYTES",
    "MOST_SUMS_EXTENTS",
    "WRITER_BYTES",
    "WRITER_SLOTS",
    "BlockKind",
    "Place",
    "Writer",
    "WriterKind",
    "WritersHead",
    "decode_directory",
    "decode_place",
    "decode_sums",
    "decode_writers",
    "encode_entry",
    "encode_place",
    "encode_sums",
    "encode_writer",
    "encode_writers_head",
    "entry_offset",
    "pending_offset",
    "sums_bytes",
    "sums_capacity",
]

# -- the directory of optional blocks, each created when an array first needs it -------------------


class BlockKind(enum.IntEnum):
    """The kinds of optional blocks; the number is the place of a block's entry in the directory."""

    GROUP = 0  # commits of several arrays: the participants, and two pending states
    WRITERS = 1  # the table of the writers that share an array
    BLOBS = 2  # chunks in blobs: their file and the table of their places


BLOCK_BYTES = {
    BlockKind.GROUP: (1 + len(PENDING_SLOTS)) * BLOCK,
    BlockKind.WRITERS: BLOCK,
    BlockKind.BLOBS: BLOCK,
}
ENTRY_BYTES = 16
# In messages: "the block ..."
BLOCK_NAMES = {
    BlockKind.GROUP: "for commits of several arrays",
    BlockKind.WRITERS: "for several writers",
    BlockKind.BLOBS: "for chunks in blobs",
}
DIRECTORY_BYTES = ENTRY_BYTES * len(BlockKind)

_ENTRY = struct.Struct("<IIQ")


def entry_offset(header: Header, kind: BlockKind) -> int:
    """Return the offset of an entry of the directory."""
    return header.directory_offset + ENTRY_BYTES * kind


def encode_entry(offset: int, kind: BlockKind, uuid: bytes) -> bytes:
    """Return the bytes of an entry, which locates a block; the checksum covers the uuid."""
    body = _ENTRY.pack(0, kind, offset)[CHECKSUM.size :]
    return CHECKSUM.pack(crc32c(uuid + body)) + body


def decode_directory(data: bytes, header: Header, length: int) -> dict[BlockKind, int]:
    """Return the offsets of existing blocks.

    Leave out entries that are cut off, damaged or impossible in a file of this length: a block is
    on disk before its entry.
    """
    found: dict[BlockKind, int] = {}
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


# -- the table of the writers that share an array --------------------------------------------------

# A head, then an entry for each writer.
WRITER_BYTES = 64
WRITER_SLOTS = BLOCK // WRITER_BYTES - 1

# Largest ticket: each ticket has a byte to lock, whose offset has 63 bits.
_LAST_TICKET = 2**61
_WRITERS_HEAD = struct.Struct("<QB")
_WRITER = struct.Struct("<IBBBxQQqq24s")


class WritersHead(NamedTuple):
    """The head of the table, with facts that all sharing writers need."""

    # The last commit that cut off elements whose chunks may still take disk space; 0: none.
    cut: int = 0
    unsettled: bool = False  # new bounds that cut off elements may not be on disk yet


class WriterKind(enum.IntEnum):
    """The kinds of work that a writer may be doing."""

    IDLE = 0  # nothing that others must know
    APPENDS = 1  # writing the elements of an append
    WAITS = 2  # for its turn to change the bounds; later writers wait, too


class Writer(NamedTuple):
    """An entry of the table of writers."""

    pid: int  # also of a writer that has ended; 0: the slot was never taken
    kind: WriterKind = WriterKind.IDLE
    axis: int = 0  # of the append
    at_start: bool = False
    seen: int = 0  # number of the latest commit that the writer knows
    ticket: int = 0  # of its last append or wait; tickets are in order of arrival
    start: int = 0  # of the append, along its axis, in elements from the start of the initial grid
    stop: int = 0
    host: str = ""  # name, cut to 24 bytes of UTF-8


def encode_writers_head(head: WritersHead) -> bytes:
    """Return the bytes of the head of the table of writers."""
    return _WRITERS_HEAD.pack(*head).ljust(WRITER_BYTES, b"\0")


def encode_writer(writer: Writer) -> bytes:
    """Return the bytes of an entry of the table of writers."""
    return _WRITER.pack(*writer[:-1], writer.host.encode())


def decode_writers(data: bytes, ndim: int = 32) -> tuple[WritersHead, list[Writer]]:
    """Return the head of the table of writers, and its entries, from a block.

    Entries come by slot, up to the last one ever taken, and include writers that have ended.  Raise
    CorruptError for impossible values.
    """
    if len(data) < BLOCK:
        raise CorruptError("the table of writers is truncated")
    cut, unsettled = _WRITERS_HEAD.unpack_from(data)
    writers = []
    for offset in range(WRITER_BYTES, BLOCK, WRITER_BYTES):
        fields = _WRITER.unpack_from(data, offset)
        pid, kind, axis, at_start, seen, ticket, start, stop, host = fields
        if pid == 0:
            break  # slots are taken in order
        appends = kind == WriterKind.APPENDS
        if (
            kind > WriterKind.WAITS
            or ticket > _LAST_TICKET
            or (appends and (axis >= ndim or not -LIMIT < start <= stop < LIMIT))
        ):
            raise CorruptError("the table of writers is damaged")
        name = host.rstrip(b"\0").decode(errors="ignore")
        turn = WriterKind(kind), axis, bool(at_start), seen, ticket, start, stop
        writers.append(Writer(pid, *turn, name))
    return WritersHead(cut, bool(unsettled)), writers


# -- the file that a writer writes to ------------------------------------------------------------

_PLACE = struct.Struct("<16sQQQ")


class Place(NamedTuple):
    """The ``.xta`` that the last writer wrote to, and the boot of the system.

    As long as both are the same, the system has everything written, even if the writer died.
    """

    boot: bytes  # 16 bytes unique to this boot; zeros: not known
    device: int
    inode: int
    generation: int  # of files that reuse an inode number; 0: not known


def encode_place(place: Place, uuid: bytes) -> bytes:
    """Return the bytes of a place, as in the metadata of an array."""
    body = _PLACE.pack(*place)
    return (CHECKSUM.pack(crc32c(uuid + body)) + bytes(4) + body).ljust(PLACE_BYTES, b"\0")


def decode_place(data: bytes, uuid: bytes) -> Place | None:
    """Return the place that bytes encode; None for other bytes."""
    body = data[8 : 8 + _PLACE.size]
    if len(body) < _PLACE.size or data[:4] != CHECKSUM.pack(crc32c(uuid + body)):
        return None
    return Place(*_PLACE.unpack(body))


# -- the table of the checksums of chunks ----------------------------------------------------------

# Enough for 2**63 chunks.
MOST_SUMS_EXTENTS = 54

_FIRST_EXTENT = 1024  # sums
_SUMS = struct.Struct("<III4x")
_IN_DOUBT = 1


def sums_capacity(number: int) -> int:
    """Return how many sums an extent of their table holds: twice as many as the one before."""
    return _FIRST_EXTENT << number


def sums_bytes(n_extents: int) -> int:
    """Return the number of bytes that locate the table of checksums."""
    return _SUMS.size + 8 * n_extents


def encode_sums(in_doubt: bool, extents: Sequence[int], uuid: bytes) -> bytes:
    """Return the bytes that locate the extents of the checksum table; the sum covers the uuid.

    They also tell whether chunks may have been written later than their sums.
    """
    body = _SUMS.pack(0, _IN_DOUBT if in_doubt else 0, len(extents))[4:]
    body += struct.pack(f"<{len(extents)}Q", *extents)
    return CHECKSUM.pack(crc32c(uuid + body)) + body


def decode_sums(data: bytes, uuid: bytes) -> tuple[bool, list[int]] | None:
    """Return the arguments of `encode_sums` that made these bytes, or None for other bytes."""
    if len(data) < _SUMS.size:
        return None
    crc, flags, n_extents = _SUMS.unpack_from(data)
    end = sums_bytes(n_extents)
    if n_extents > MOST_SUMS_EXTENTS or len(data) < end or crc32c(uuid + data[4:end]) != crc:
        return None
    extents = struct.unpack_from(f"<{n_extents}Q", data, _SUMS.size)
    return bool(flags & _IN_DOUBT), list(extents)
