"""Layout of the two files: offsets, sizes, numbers of slots; and the tag in attributes."""

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
    "FREEZES_AT",
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
    "SUPERBLOCKS_AT",
    "TAG",
]

# Limit of the bytes of all chunks, and of the elements of an axis, including those only in its
# chunks: file offsets are signed, and a little follows the last chunk.
LIMIT = 2**63 - 4096
# Limit of offsets in ``.xmd``, so that there is room to name more.
LAST_END = 2**62
# The unit of the header, and of blocks that are added when first used.
BLOCK = 4096
# A disk writes whole sectors, of at least 512 bytes.  Cells of this size separate the bytes that
# commits write from bytes they must not touch, so that a torn write of one spares the others.
CELL = 1024
SECTOR = 512
# Commits alternate between the first two superblocks.  Commits never touch the others, so these
# survive a power cut, whatever it leaves of the first two: two hold the states of the last flushes,
# one the state in which the last writer began.
LIVE_SLOTS = (0, 1)
FLUSHED_SLOTS = (2, 3)
BEGUN_SLOT = 4
SPARED_SLOTS = (*FLUSHED_SLOTS, BEGUN_SLOT)
# States that count only with the decision of another array: the last two, in turn.
PENDING_SLOTS = (5, 6)
# Offsets of cells behind the header: counters that writers raise, with a note; the location of the
# checksums of the chunks; superblocks that commits do not touch; the directory of optional blocks;
# and a copy of the header, from which it can be restored.
COUNTERS_AT = 2 * CELL
SUMS_AT = 3 * CELL
SPARED_AT = BLOCK
DIRECTORY_AT = SPARED_AT + len(SPARED_SLOTS) * CELL
COPY_AT = 2 * BLOCK
# The offset of each superblock, by its slot.
SUPERBLOCKS_AT = (
    *(number * CELL for number in range(len(LIVE_SLOTS))),
    *(SPARED_AT + number * CELL for number in range(len(SPARED_SLOTS))),
)
# In the cell of counters: the number of cuts, that of freezes, the note, and behind it the files
# written to.
CUTS_BYTES = 8
FREEZES_AT = COUNTERS_AT + CUTS_BYTES
HOLDER_AT = COUNTERS_AT + 64
HOLDER_BYTES = 64
PLACE_BYTES = 64
# Precedes the uuid at the end of a sealed ``.xta``.
SEAL_MAGIC = b"\x89XTA sealed:\r\n\x1a\n"
SEAL_BYTES = len(SEAL_MAGIC) + 16
# The form of a checksum at the beginning of a structure.
CHECKSUM = struct.Struct("<I")
# The key that makes an object a tagged value, in the JSON of attributes.
TAG = "$type"
