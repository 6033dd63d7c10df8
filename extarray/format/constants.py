"""Places in the two files: offsets, sizes, numbers of slots."""

from __future__ import annotations

import struct

__all__ = [
    "BEGUN_SLOT",
    "BLOCK",
    "CELL",
    "CHECKSUM",
    "COPY_AT",
    "COUNTERS_AT",
    "CUTS_BYTES",
    "DIRECTORY_AT",
    "FLUSHED_SLOTS",
    "HOLDER_AT",
    "HOLDER_BYTES",
    "LAST_END",
    "LIMIT",
    "LIVE_SLOTS",
    "PENDING_SLOTS",
    "PLACE_BYTES",
    "SEAL_BYTES",
    "SEAL_MAGIC",
    "SECTOR",
    "SPARED_AT",
    "SPARED_SLOTS",
    "SUMS_AT",
]

# Bytes of all chunks, and elements of an axis, with those that only its chunks have; file offsets
# are signed, and a little follows the last chunk.
LIMIT = 2**63 - 4096
# Offsets in ``.xmd`` stay below, so that room for more can be named.
LAST_END = 2**62
# The unit of the header, and of what is added when it is first used.
BLOCK = 4096
# A disk writes sectors whole, of 512 bytes at least.  What commits write is apart, in such cells,
# from what they must not touch, so that a torn write of one spares the others.
CELL = 1024
SECTOR = 512
# Commits alternate between the first two superblocks.  The others are not touched by commits, and
# so survive whatever a power cut leaves of those: two for the last flushes, one for the state with
# which the last writer began.
LIVE_SLOTS = (0, 1)
FLUSHED_SLOTS = (2, 3)
BEGUN_SLOT = 4
SPARED_SLOTS = (*FLUSHED_SLOTS, BEGUN_SLOT)
# States that count with the decision of another array: the last two, in turn.
PENDING_SLOTS = (5, 6)
# Where cells begin behind the header: numbers that writers raise, with a note; where the checksums
# of the chunks are; superblocks that commits do not touch; where the optional blocks are; and a
# copy of the header, from which it can be restored.
COUNTERS_AT = 2 * CELL
SUMS_AT = 3 * CELL
SPARED_AT = BLOCK
DIRECTORY_AT = SPARED_AT + len(SPARED_SLOTS) * CELL
COPY_AT = 2 * BLOCK
# Of the counters: the number of cuts, a note, and behind it which files were written to.
CUTS_BYTES = 8
HOLDER_AT = COUNTERS_AT + 64
HOLDER_BYTES = 64
PLACE_BYTES = 64
# What stands before the uuid at the end of a sealed ``.xta``.
SEAL_MAGIC = b"\x89XTA sealed:\r\n\x1a\n"
SEAL_BYTES = len(SEAL_MAGIC) + 16
# What begins with a checksum has it in this form.
CHECKSUM = struct.Struct("<I")
