"""The table of frozen chunks, found where nothing that is whole leads to it.

The words of the table have no checksum.  But a word leads to a blob that names its chunk, so an
extent is known by its contents, unless no chunk in it has a blob.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from extarray.common.errors import ChecksumError, CorruptError
from extarray.format.blobs import (
    BLOB_HEAD_BYTES,
    FILE_HEAD_BYTES,
    FILL,
    UNIT,
    BlobsBlock,
    check_blob,
    extents_for,
)
from extarray.format.blocks import sums_capacity
from extarray.format.constants import SECTOR
from extarray.format.frozen import (
    TABLE_ALIGNMENT,
    TABLE_WORDS,
    decode_frozen_block,
    encode_frozen_block,
    extent_bytes,
    place_of_word,
    places_of_words,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from extarray.format.header import Header
    from extarray.storage.filesystem import File

__all__ = ["find_block", "has_blob_of", "rebuilt_block"]

_PIECE = 1 << 20
# Blobs of an extent that are looked at before all of them are.
_FIRST = 8


def find_block(metadata: File, header: Header) -> int | None:
    """Return the offset of the block that locates the table; None if it is damaged, too."""
    length = metadata.length
    for low, high in metadata.written(length):
        first = max(low - low % SECTOR, header.first_extent)
        for at in range(first + -first % SECTOR, high, SECTOR):
            try:
                if decode_frozen_block(metadata.read(SECTOR, at), header, length) is not None:
                    return at
            except CorruptError:
                pass
    return None


def rebuilt_block(metadata: File, log: File, uuid: bytes, header: Header, n: int) -> bytes | None:
    """Return the block for a table of `n` chunks; None unless all of its extents are found.

    `uuid` is that of the log.  Nobody knows how much of the log the last flush has brought to the
    disk: the next writer examines all blobs whose words differ.
    """
    found: list[int] = []
    end = header.first_extent
    for number in range(extents_for(n)):
        first = end + -end % TABLE_ALIGNMENT
        places = [
            at
            for at in range(first, metadata.length, TABLE_ALIGNMENT)
            if _is_extent(metadata, log, number, at)
        ]
        if len(places) != 1:
            return None
        found += places
        end = places[0] + extent_bytes(number)
    length = -(-log.length // UNIT) * UNIT
    return encode_frozen_block(uuid, FILE_HEAD_BYTES, length, found, header.uuid)


def _is_extent(metadata: File, log: File, number: int, at: int) -> bool:
    """Tell whether words at an offset lead to blobs of the chunks of an extent, and some do."""
    base, size = sums_capacity(number) - sums_capacity(0), extent_bytes(number)
    if at + size > metadata.length:
        return False
    known = 0
    for low in range(at, at + size, _PIECE):
        data = metadata.read(min(_PIECE, at + size - low), low)
        words = np.frombuffer(data, "<u8").astype(np.uint64)
        used = np.flatnonzero(words > FILL)
        addresses = base + ((low - at) // 8 + used) // TABLE_WORDS
        if not _lead_to_blobs(log, words[used][:_FIRST], addresses[:_FIRST]):
            return False
        if not _lead_to_blobs(log, words[used], addresses):
            return False
        known += len(used)
    return known > 0


def _lead_to_blobs(log: File, words: NDArray[np.uint64], addresses: NDArray[np.int64]) -> bool:
    """Tell whether words lead to places in a log whose heads name the chunks."""
    offsets, sizes = places_of_words(words)
    if ((sizes < UNIT) | (offsets < FILE_HEAD_BYTES) | (offsets + sizes > log.length)).any():
        return False
    heads = np.zeros((len(words), BLOB_HEAD_BYTES), np.uint8)
    log.read_runs(heads.reshape(-1), offsets, BLOB_HEAD_BYTES)
    named: NDArray[np.int64] = heads[:, 8:16].copy().view("<i8")[:, 0]
    return bool((named == addresses).all())


def has_blob_of(log: File, words: NDArray[np.uint64], uuid: bytes) -> bool:
    """Tell whether words of the chunks 0, 1, ... lead to a blob of the log with a uuid."""
    block = BlobsBlock(uuid, 0)
    for address in np.flatnonzero(words > FILL).tolist():
        offset, size = place_of_word(int(words[address]))
        try:
            check_blob(memoryview(log.read(size, offset)), address, block)
        except ChecksumError:
            continue
        return True
    return False
