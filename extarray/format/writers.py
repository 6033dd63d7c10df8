"""The table of the writers that share an array."""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

from extarray.common.errors import CorruptError
from extarray.format.constants import BLOCK, LIMIT

__all__ = [
    "WRITER_BYTES",
    "WRITER_SLOTS",
    "Writer",
    "WriterKind",
    "WritersHead",
    "decode_writers",
    "encode_writer",
    "encode_writers_head",
]

# Entries: a head, and one for each writer.
WRITER_BYTES = 64
WRITER_SLOTS = BLOCK // WRITER_BYTES - 1

# A writer's ticket beyond is none: each has a byte to be locked, whose number has 63 bits.
_LAST_TICKET = 2**61
_WRITERS_HEAD = struct.Struct("<QB")
_WRITER = struct.Struct("<IBBBxQQqq24s")


class WritersHead(NamedTuple):
    """The head of the table: what the writers that share an array tell each other."""

    # The last commit that cut elements off whose chunks may still have disk space; 0: none.
    cut: int = 0
    unsettled: bool = False  # new bounds that cut elements off may not be on the disk yet


class WriterKind(enum.IntEnum):
    """The kinds of work that a writer is about."""

    IDLE = 0  # nothing that others must know
    APPENDS = 1  # writing the elements of an append
    WAITS = 2  # for its turn to change the bounds: who comes later waits, too


class Writer(NamedTuple):
    """Entry of the table of writers."""

    pid: int  # also of a writer that is no more; 0: the slot was never taken
    kind: WriterKind = WriterKind.IDLE
    axis: int = 0  # of the append
    at_start: bool = False
    seen: int = 0  # number of the commit up to which the writer knows the array
    ticket: int = 0  # of its last append or wait, in the order of their coming
    start: int = 0  # of the append, along its axis, in elements from that of the initial grid
    stop: int = 0
    host: str = ""  # name, cut to 24 bytes of UTF-8


def encode_writers_head(head: WritersHead) -> bytes:
    """Return the bytes of the head of the table of writers."""
    return _WRITERS_HEAD.pack(*head).ljust(WRITER_BYTES, b"\0")


def encode_writer(writer: Writer) -> bytes:
    """Return the bytes of an entry of the table of writers."""
    return _WRITER.pack(*writer[:-1], writer.host.encode())


def decode_writers(data: bytes, ndim: int = 32) -> tuple[WritersHead, list[Writer]]:
    """Return the head of the table of writers, from a block, and its entries.

    They are by slot, up to the last one that was ever taken; also of writers that are no more.
    CorruptError where a value is not possible.
    """
    if len(data) < BLOCK:
        raise CorruptError("the table of writers is cut off")
    cut, unsettled = _WRITERS_HEAD.unpack_from(data)
    writers = []
    for offset in range(WRITER_BYTES, BLOCK, WRITER_BYTES):
        fields = _WRITER.unpack_from(data, offset)
        pid, kind, axis, at_start, seen, ticket, start, stop, host = fields
        if pid == 0:
            break  # slots are taken from the first one on
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
