"""One wrong byte in what has a checksum, found by trying them all; and what follows from the rest.

A checksum of 32 bits tells the one change of a byte that makes it fit: of the ten thousand that are
possible, another one fits by an accident of a few in a million.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from extarray.format._crc import crc32c, crc32c_rows
from extarray.format.checksum_table import MOST_SUMS_EXTENTS, sums_bytes
from extarray.format.directory import BLOCK_NAMES, ENTRY_BYTES, BlockKind, entry_offset
from extarray.format.records import EXTENT_HEAD_BYTES, decode_records, encode_record, record_bytes
from extarray.format.superblock import superblock_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extarray.format.header import Header
    from extarray.maintenance.inspect import Survey

__all__ = ["Patch", "mended", "patches"]


class Patch(NamedTuple):
    """Bytes of ``.xmd`` put right."""

    offset: int
    data: bytes
    what: str
    how: str = "one byte was put right, which its checksum tells"


def mended(data: bytes, seed: int = 0) -> bytes | None:
    """What begins with the checksum of the rest, with one byte put right.

    Parameters
    ----------
    data : bytes
    seed : int
        Checksum of what comes before the rest, and is not part of it.

    Returns
    -------
    bytes or None
        None where all fits, or where no one byte is to blame.

    Examples
    --------
    >>> whole = crc32c(b"elements").to_bytes(4, "little") + b"elements"
    >>> mended(whole.replace(b"m", b"n"))[4:]
    b'elements'
    """
    if len(data) <= 4:
        return None
    told, body = int.from_bytes(data[:4], "little"), np.frombuffer(data[4:], np.uint8)
    right = crc32c(data[4:], seed).to_bytes(4, "little")
    if sum(a != b for a, b in zip(right, data[:4], strict=True)) <= 1:
        return None if right == data[:4] else right + data[4:]
    changes = np.arange(1, 256, dtype=np.uint8)
    for place in range(len(body)):
        tries = np.repeat(body[np.newaxis], len(changes), axis=0)
        tries[:, place] ^= changes
        (hits,) = np.nonzero(crc32c_rows(tries, seed) == told)
        if hits.size:
            return data[:4] + bytes(tries[hits[0]])
    return None


def _first_record(survey: Survey, header: Header, second: bytes) -> bytes | None:
    """The record of the initial segment, which the next one tells, or the newest superblock."""
    known = [slot.block for slot in survey.slots if slot.block is not None]
    if not known:
        return None
    newest = max(known, key=lambda block: block.sequence)
    grid = newest.grid
    if newest.n_segments > 1:
        if (
            not second
            or crc32c(second[4:], crc32c(header.uuid)).to_bytes(4, "little") != second[:4]
        ):
            return None
        _, _, grids = decode_records(np.frombuffer(second, np.uint8)[np.newaxis])
        grid = tuple(int(n) for n in grids[0])
    initial = tuple(n if j else 0 for j, n in enumerate(grid))
    return encode_record(0, 0, initial, header.uuid)


def patches(survey: Survey) -> Iterator[Patch]:
    """What of ``.xmd`` can be put right: superblocks, growth log, table of checksums.

    Parameters
    ----------
    survey : Survey

    Yields
    ------
    Patch
    """
    header = survey.header
    if header is None:
        return

    def read(at: int, length: int) -> bytes:
        data = survey.metadata.read(length, at)
        return data if len(data) == length else b""

    seed = crc32c(header.uuid)
    for slot in survey.slots:
        if slot.torn:
            at = header.superblock_offset(slot.number)
            right = mended(read(at, superblock_bytes(header.ndim)))
            if right is not None:
                yield Patch(at, right, f"superblock {slot.number}")
    if survey.log is not None and survey.log.fault is not None and "log" in survey.kinds:
        at, what = survey.log.fault
        if at in survey.log.extents:
            head = read(at, EXTENT_HEAD_BYTES)  # its checksum comes last
            right = mended(head[8:12] + head[:8], seed)
            if right is not None:
                yield Patch(at, right[4:] + right[:4], what)
        else:
            size = record_bytes(header.ndim)
            right = mended(read(at, size), seed)
            if right is not None:
                yield Patch(at, right, what)
            elif at == header.first_extent + EXTENT_HEAD_BYTES:
                first = _first_record(survey, header, read(at + size, size))
                if first is not None:
                    yield Patch(at, first, what, "it was made anew, of what follows it")
    if "directory" in survey.kinds:
        for kind in BlockKind:
            at = entry_offset(header, kind)
            right = mended(read(at, ENTRY_BYTES), seed)
            if right is not None:
                yield Patch(at, right, f"the place of the block {BLOCK_NAMES[kind]}")
    if "sums" in survey.kinds:
        at = header.sums_offset
        n_extents = int.from_bytes(read(at + 8, 4), "little")
        right = (
            mended(read(at, sums_bytes(n_extents)), seed)
            if n_extents <= MOST_SUMS_EXTENTS
            else None
        )
        if right is not None:
            yield Patch(at, right, "the block of the checksums")
