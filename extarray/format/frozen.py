"""Frozen chunks of arrays that grow: the block that locates their table, its entries, their blobs.

The table lies in ``.xmd`` and has two words a chunk, by address.  *Live* says where the chunk is
now; *durable*, where it was at the last flush.  A word is `RAW`, `FILL`, or the entry of a blob,
as in ``blobs``.  Extents begin at multiples of `TABLE_ALIGNMENT`, so that each can be mapped.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from extarray.codecs.payloads import Encoded
from extarray.common.errors import CorruptError, LimitError
from extarray.format._crc import crc32c
from extarray.format.blobs import (
    BLOB_HEAD_BYTES,
    FILE_HEAD_BYTES,
    UNIT,
    BlobsBlock,
    blob_bytes,
    check_blob,
    encode_blob_head,
    encode_blobs_block,
    encode_entry_of_blob,
    encode_file_head,
    with_sums,
)
from extarray.format.blocks import MOST_SUMS_EXTENTS, sums_capacity
from extarray.format.constants import BLOCK, CHECKSUM, LAST_END, SECTOR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from extarray.format.header import Header

__all__ = [
    "ENTRY_BYTES",
    "RAW",
    "TABLE_ALIGNMENT",
    "TABLE_WORDS",
    "check_log_head",
    "decode_frozen_block",
    "encode_blob",
    "encode_frozen_block",
    "extent_bytes",
    "extents_of",
    "is_log",
    "is_whole_head",
    "log_uuid",
    "move_blob",
    "place_of_word",
    "places_of_words",
]

#: The chunk lies at its place in ``.xta``, which may be a hole.
RAW = 0
TABLE_WORDS = 2
ENTRY_BYTES = 8 * TABLE_WORDS
TABLE_ALIGNMENT = BLOCK

_BLOCK = struct.Struct("<II16sQQHHII")
_EXTENTS_AT = 64
_ARRAY_AT = 32
_LENGTH_BITS = 24
_MOST_UNITS = (1 << _LENGTH_BITS) - 1


# -- the block -------------------------------------------------------------------------------------


def extent_bytes(number: int) -> int:
    """Return the bytes of an extent of the table.

    Examples
    --------
    >>> extent_bytes(0), extent_bytes(1)
    (16384, 32768)
    """
    return ENTRY_BYTES * sums_capacity(number)


def encode_frozen_block(
    uuid: bytes, size: int, given: int, extents: list[int], array: bytes
) -> bytes:
    """Return the first sector of the block.

    Parameters
    ----------
    uuid, array : bytes
        Of ``.xtz``, and of the array.
    size : int
        Bytes of ``.xtz`` that the last flush brought to the disk.
    given : int
        End of the part of ``.xtz`` that writers may have used.
    extents : list of int
        Offsets of the extents of the table in ``.xmd``.
    """
    block = BlobsBlock(uuid, size, tuple(extents), words=TABLE_WORDS, in_blobs=False, given=given)
    return encode_blobs_block(block, array)


def decode_frozen_block(data: bytes, header: Header, length: int) -> BlobsBlock | None:
    """Return what the block of an array that grows says; None for that of a packed array.

    Leave out extents from the first one on that a file of this length does not hold: after a loss
    of power, nothing in them counts.

    Raises
    ------
    CorruptError
        The block is damaged.
    """
    body = data[CHECKSUM.size : SECTOR]
    if len(data) < SECTOR or CHECKSUM.pack(crc32c(header.uuid + body)) != data[: CHECKSUM.size]:
        raise CorruptError("the block for chunks in blobs is damaged")
    _, n, own, size, given, words, codec, flags, _ = _BLOCK.unpack_from(data)
    if words == 1:
        return None
    if n > MOST_SUMS_EXTENTS or words != TABLE_WORDS or flags or not FILE_HEAD_BYTES <= size:
        raise CorruptError("the block for chunks in blobs has impossible values")
    found: list[int] = []
    for number, at in enumerate(struct.unpack_from(f"<{n}Q", data, _EXTENTS_AT)):
        if at < header.first_extent or at % TABLE_ALIGNMENT or at > LAST_END:
            raise CorruptError("an extent of the table of frozen chunks is at an impossible place")
        if at + extent_bytes(number) > length:
            break
        found.append(at)
    given = max(size, given)
    return BlobsBlock(own, size, tuple(found), 0, words, codec, in_blobs=False, given=given)


def extents_of(addresses: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the extents that have the entries of chunks, and the indices there.

    Examples
    --------
    >>> [found.tolist() for found in extents_of(np.array([0, 1023, 1024, 3071, 3072]))]
    [[0, 0, 1, 1, 2], [0, 1023, 0, 2047, 0]]
    """
    first = sums_capacity(0)
    numbers = np.frexp((addresses // first + 1).astype(np.float64))[1].astype(np.int64) - 1
    return numbers, addresses - (np.int64(first) << numbers) + first


def places_of_words(words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the offsets and sizes of blobs in ``.xtz``; zeros for `RAW` and `FILL`."""
    offsets = (words >> np.uint64(_LENGTH_BITS)).astype(np.int64) * UNIT
    sizes = (words & np.uint64(_MOST_UNITS)).astype(np.int64) * UNIT
    sizes[offsets == 0] = 0
    return offsets, sizes


def place_of_word(word: int) -> tuple[int, int]:
    """Return offset and size of the blob in ``.xtz`` that a word leads to.

    Examples
    --------
    >>> place_of_word(3 << 24 | 2)
    (192, 128)
    """
    return (word >> _LENGTH_BITS) * UNIT, (word & _MOST_UNITS) * UNIT


# -- the log ---------------------------------------------------------------------------------------


def check_log_head(data: bytes, uuid: bytes) -> None:
    """Raise CorruptError unless the head of ``.xtz`` is whole and has a uuid.

    The array in it is the one that the file was made for; its uuid may have changed since.
    """
    wanted = encode_file_head(uuid, data[_ARRAY_AT : _ARRAY_AT + 16].ljust(16, b"\0"))
    if data[:FILE_HEAD_BYTES] != wanted:
        raise CorruptError("the file of blobs is damaged")


def is_log(head: bytes) -> bool:
    """Tell by its first bytes whether a file has blobs."""
    return head[:_ARRAY_AT] == encode_file_head(head[16:_ARRAY_AT], bytes(16))[:_ARRAY_AT]


def is_whole_head(head: bytes) -> bool:
    """Tell whether a file of blobs begins with a head that matches its checksum."""
    try:
        check_log_head(head, log_uuid(head).ljust(16, b"\0"))
    except CorruptError:
        return False
    return True


def log_uuid(head: bytes) -> bytes:
    """Return the uuid in the head of a file of blobs."""
    return head[16:_ARRAY_AT]


def encode_blob(
    encoded: Encoded, address: int, offset: int, uuid: bytes
) -> tuple[tuple[bytes, bytes | memoryview, bytes], int]:
    """Return a blob for an offset of ``.xtz`` in three parts, and the word that leads to it.

    The number of a blob is its offset in units: it rises along the file, as writers append.

    Raises
    ------
    LimitError
        The blob takes 1 GiB or more, or ends behind 64 TiB.
    """
    encoded = with_sums(encoded)
    payload = encoded.payload
    size = blob_bytes(len(payload))
    if size > _MOST_UNITS * UNIT:
        raise LimitError(
            f"cannot freeze chunk {address}: encoded it has {len(payload)} bytes, and blobs have "
            "less than 1 GiB; rechunk the array"
        )
    word = encode_entry_of_blob(offset, size)
    head = encode_blob_head(encoded, address, offset // UNIT, uuid)
    rest = size - len(head) - len(payload)
    return (head, payload, bytes(rest)), word


def move_blob(blob: memoryview, address: int, uuid: bytes, offset: int, new: bytes) -> bytes:
    """Return the blob of a chunk for an offset of another log, with its payload as it is.

    Parameters
    ----------
    blob : memoryview
    address : int
    uuid, new : bytes
        Of the log that it comes from, and of the other one.
    offset : int

    Raises
    ------
    ChecksumError
        This is not the blob of the chunk, or it is damaged; ``chunk`` names the chunk.
    """
    head = check_blob(blob, address, BlobsBlock(uuid, 0))
    payload = blob[BLOB_HEAD_BYTES : BLOB_HEAD_BYTES + head.payload_bytes]
    encoded = Encoded(head.codec, head.filter, head.blocks, payload)
    return b"".join(encode_blob(encoded, address, offset, new)[0])
