"""Offsets in ``.xmd`` with a header of one block: docs/format/reading.md."""

COUNTERS, SUMS, DIRECTORY, COPY = 4096 + 2048, 4096 + 3072, 4096 + 7168, 4096 + 8192
#: The growth log, if the header has at most 512 bytes before its zeros.
LOG = COPY + 512


def superblock(slot: int) -> int:
    """Return the offset of a superblock."""
    return 4096 + 1024 * slot if slot < 2 else 8192 + 1024 * (slot - 2)


def optional_block(xmd: bytes, number: int) -> int:
    """Return the offset of an optional block from the directory; number 0 is the group block."""
    at = DIRECTORY + 16 * number + 8
    return int.from_bytes(xmd[at : at + 8], "little")
