"""Where things stand in the two files."""

from __future__ import annotations

import struct

__all__ = [
    "BEGUN_SLOT",
    "BLOCK",
    "CHECKSUM",
    "COPY_BLOCK",
    "CUTS_BYTES",
    "FLUSHED_SLOTS",
    "GROUP_BLOCK",
    "HOLDER_BYTES",
    "LAST_END",
    "LIMIT",
    "LIVE_SLOTS",
    "PENDING_SLOTS",
    "SEAL_BYTES",
    "SEAL_MAGIC",
    "SPARED_SLOTS",
    "SUMS_BLOCK",
    "WRITERS_BLOCK",
]

# Bytes of all chunks, and elements of an axis, with those that only its chunks have; file offsets
# are signed, and a little follows the last chunk.
LIMIT = 2**63 - 4096
# Offsets in ``.xmd`` stay below, so that room for more can be named.
LAST_END = 2**62
# Superblocks lie on device blocks of their own, so that a torn write of one spares the others.
BLOCK = 4096
# Commits alternate between the first two.  The others are not touched by commits, and so survive
# whatever a power cut leaves of those: two for the last flushes, one for the state with which the
# last writer began.
LIVE_SLOTS = (0, 1)
FLUSHED_SLOTS = (2, 3)
BEGUN_SLOT = 4
SPARED_SLOTS = (*FLUSHED_SLOTS, BEGUN_SLOT)
# Blocks behind them, for what several arrays or several writers agree on.
GROUP_BLOCK = 5
WRITERS_BLOCK = 6
# States that count with the decision of another array: the last two, in turn.
PENDING_SLOTS = (7, 8)
# Where the checksums of the chunks are; and a copy of the header, from which it can be restored.
SUMS_BLOCK = 9
COPY_BLOCK = 10
# The end of the header, which its checksum does not cover: the number of cuts, and a note.
CUTS_BYTES = 8
HOLDER_BYTES = 64
# What stands before the uuid at the end of a sealed ``.xta``.
SEAL_MAGIC = b"\x89XTA sealed:\r\n\x1a\n"
SEAL_BYTES = len(SEAL_MAGIC) + 16
# What begins with a checksum has it in this form.
CHECKSUM = struct.Struct("<I")
