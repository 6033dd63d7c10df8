"""Chunks in blobs: ``.xtz``, its blobs, and the table that locates them by the address of a chunk.

Everything here is a function of bytes, so it serves local files and objects on servers alike.  A
reader knows the address of a chunk; `entry_places` says where its entry is, `decode_entries` where
its blob is, and `decode_blob` gives its bytes.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from extarray.codecs.codec import CodecId
from extarray.codecs.payloads import Blocks, Encoded, decode_into, n_axes_of, read_blocks
from extarray.codecs.payloads import table_bytes as bytes_of_blocks_table
from extarray.common.errors import ChecksumError, CorruptError, LimitError, VersionError
from extarray.format._crc import crc32c
from extarray.format.blocks import MOST_SUMS_EXTENTS, sums_capacity
from extarray.format.constants import CHECKSUM, SECTOR
from extarray.format.suffixes import BLOBS

if TYPE_CHECKING:
    from collections.abc import Buffer

    from numpy.typing import NDArray

__all__ = [
    "BLOB_HEAD_BYTES",
    "FILE_HEAD_BYTES",
    "FILL",
    "MIXED",
    "UNIT",
    "BlobHead",
    "BlobPlaces",
    "BlobsBlock",
    "Stored",
    "blamed",
    "blob_bytes",
    "bytes_before_blocks",
    "check_blob",
    "check_blob_size",
    "check_file_head",
    "check_frame",
    "damaged_entry",
    "decode_blob",
    "decode_blob_head",
    "decode_blobs_block",
    "decode_blocks",
    "decode_entries",
    "decode_stored",
    "encode_blob_head",
    "encode_blobs_block",
    "encode_entry_of_blob",
    "encode_file_head",
    "entry_places",
    "extents_for",
    "fits_blob",
    "payload_of",
    "read_of_blob",
    "table_bytes",
    "with_sums",
]

#: Blobs begin at multiples of this, and entries count their places and lengths in it.
UNIT = 64
FILE_HEAD_BYTES = 64
BLOB_HEAD_BYTES = 32
#: Bytes from the beginning of a blob that tell how many bytes stand before the first block.
_BLOCKS_AT = BLOB_HEAD_BYTES + 4
#: Entry of a chunk that holds the fill value everywhere and has no blob.
FILL = 1
#: In place of a codec: each blob says which one it has.
MIXED = 0xFFFF

_MAGIC = b"\x89XTZ\r\n\x1a\n"
_FILE_HEAD = struct.Struct("<8sHH4x16s16sI")
_FILE_VERSION = (3, 0)
_BLOB_HEAD = struct.Struct("<IIQQHBxI")
_BLOCK = struct.Struct("<II16sQQHHII")
_EXTENTS_AT = 64
_IN_BLOBS = 1
_LENGTH_BITS = 24
_MOST_UNITS = (1 << _LENGTH_BITS) - 1
_MOST_OFFSET = 1 << 64 - _LENGTH_BITS
_WORD = 8


# -- the block in ``.xmd`` -------------------------------------------------------------------------


class BlobsBlock(NamedTuple):
    """Facts of the blobs, as the metadata have them.

    Attributes
    ----------
    uuid : bytes
        Of ``.xtz``.
    size : int
        Bytes of ``.xtz`` that are whole.
    extents : tuple of int
        Offsets of the extents of the table.
    crc : int
        Checksum of the table, one extent after the other.
    words : int
        Words of an entry; the first one counts.
    codec : int
        The codec of all blobs, or `MIXED`.
    in_blobs : bool
        The table is in ``.xtz``; otherwise in ``.xmd``.
    given : int
        End of the part of ``.xtz`` that writers may have used; 0: `size`.
    """

    uuid: bytes
    size: int
    extents: tuple[int, ...] = ()
    crc: int = 0
    words: int = 1
    codec: int = MIXED
    in_blobs: bool = True
    given: int = 0


def encode_blobs_block(block: BlobsBlock, uuid: bytes) -> bytes:
    """Return the first sector of the block; the checksum covers the uuid of the array."""
    flags = _IN_BLOBS if block.in_blobs else 0
    end = block.given or block.size
    fixed = block.uuid, block.size, end, block.words, block.codec, flags, block.crc
    body = _BLOCK.pack(0, len(block.extents), *fixed).ljust(_EXTENTS_AT, b"\0")
    body += struct.pack(f"<{len(block.extents)}Q", *block.extents)
    body = body.ljust(SECTOR, b"\0")[CHECKSUM.size :]
    return CHECKSUM.pack(crc32c(uuid + body)) + body


def decode_blobs_block(data: bytes, uuid: bytes, n_chunks: int, size: int) -> BlobsBlock:
    """Return what the block of a packed array says.

    Parameters
    ----------
    data : bytes
        At least its first sector.
    uuid : bytes
        Of the array.
    n_chunks : int
    size : int
        Bytes of ``.xtz``.

    Raises
    ------
    CorruptError
        The block is damaged, or does not fit the array or ``.xtz``.
    """
    body = data[CHECKSUM.size : SECTOR]
    if len(data) < SECTOR or CHECKSUM.pack(crc32c(uuid + body)) != data[: CHECKSUM.size]:
        raise CorruptError("the block for chunks in blobs is damaged")
    _, n, own, whole, _, words, codec, flags, crc = _BLOCK.unpack_from(data)
    if n > MOST_SUMS_EXTENTS:
        raise CorruptError("the block for chunks in blobs has too many extents")
    extents = struct.unpack_from(f"<{n}Q", data, _EXTENTS_AT)
    block = BlobsBlock(own, whole, extents, crc, words, codec, flags == _IN_BLOBS)
    if whole != size:
        raise CorruptError(f"the file of blobs has {size} bytes, but the metadata say {whole}")
    if words != 1 or not block.in_blobs or n != extents_for(n_chunks):
        raise CorruptError("the table of blobs is not that of a packed array")
    for number, at in enumerate(extents):
        stop = at + _WORD * _entries_in(number, n_chunks)
        if at < FILE_HEAD_BYTES or at % _WORD or stop > size:
            raise CorruptError("the table of blobs is not inside the file of blobs")
    return block


# -- the table -------------------------------------------------------------------------------------


def extents_for(n_chunks: int) -> int:
    """Return how many extents the table of some chunks has.

    Examples
    --------
    >>> extents_for(0), extents_for(1024), extents_for(1025)
    (0, 1, 2)
    """
    return ((n_chunks - 1) // sums_capacity(0) + 1).bit_length() if n_chunks else 0


def _entries_in(number: int, n_chunks: int) -> int:
    """Return how many entries of chunks an extent has: the last one ends with the last chunk."""
    before = sums_capacity(number) - sums_capacity(0)
    return min(sums_capacity(number), n_chunks - before)


def table_bytes(n_chunks: int) -> int:
    """Return the bytes of the whole table of a packed array, whose extents follow each other."""
    return _WORD * n_chunks


def entry_places(block: BlobsBlock, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the offsets of the entries of chunks, of 8 bytes each, in the file of the table."""
    first = sums_capacity(0)
    numbers = np.frexp((addresses // first + 1).astype(np.float64))[1] - 1
    starts = np.array(block.extents, np.int64)[numbers]
    within = addresses - (np.int64(first) << numbers) + first
    places: NDArray[np.int64] = starts + _WORD * block.words * within
    return places


def blob_bytes(payload_bytes: int) -> int:
    """Return the bytes from a blob's beginning to that of the next one."""
    return -(-(BLOB_HEAD_BYTES + payload_bytes) // UNIT) * UNIT


def fits_blob(payload_bytes: int) -> bool:
    """Tell whether a chunk fits into a blob, however it is encoded."""
    return blob_bytes(payload_bytes) <= _MOST_UNITS * UNIT


def check_blob_size(payload_bytes: int, name: str) -> None:
    """Raise LimitError for a chunk that is too large for a blob."""
    if not fits_blob(payload_bytes):
        raise LimitError(
            f"cannot compress the chunks of {name}, or put them in another order: each has "
            f"{payload_bytes} bytes, and an entry of the table names blobs below 1 GiB; pack them "
            "as they are, or rechunk the array"
        )


def encode_entry_of_blob(offset: int, size: int) -> int:
    """Return the entry of a chunk whose blob is at an offset of ``.xtz`` and takes `size` bytes."""
    if offset >= _MOST_OFFSET * UNIT:
        raise LimitError("a file of blobs has at most 64 TiB")
    return (offset // UNIT) << _LENGTH_BITS | size // UNIT


class BlobPlaces(NamedTuple):
    """Offsets and sizes of blobs in ``.xtz``; both are 0 for chunks of the fill value."""

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]


def decode_entries(
    words: NDArray[np.uint64], addresses: NDArray[np.int64], block: BlobsBlock, chunk_bytes: int
) -> BlobPlaces:
    """Return the places of the blobs of chunks from their entries.

    Raise ChecksumError, which names a chunk, if an entry leads out of the file or to no blob.
    """
    words = words.astype(np.uint64)
    is_fill = words == FILL
    offsets = (words >> np.uint64(_LENGTH_BITS)).astype(np.int64) * UNIT
    sizes = (words & np.uint64(_MOST_UNITS)).astype(np.int64) * UNIT
    offsets[is_fill] = sizes[is_fill] = 0
    most = blob_bytes(chunk_bytes)
    least = most if block.codec == CodecId.RAW else UNIT
    wrong = (sizes < least) | (sizes > most) | (sizes > block.size - offsets)
    wrong = ~is_fill & (wrong | (offsets < FILE_HEAD_BYTES))
    if wrong.any():
        raise damaged_entry(int(addresses[np.argmax(wrong)]))
    return BlobPlaces(offsets, sizes)


def damaged_entry(address: int) -> ChecksumError:
    """Return the error about the entry of a chunk that can lead to no blob."""
    error = ChecksumError(
        f"the entry of chunk {address} in the table of blobs is damaged: it leads to no blob"
    )
    error.chunk = address
    return error


# -- ``.xtz`` and its blobs ------------------------------------------------------------------------


def encode_file_head(uuid: bytes, array: bytes) -> bytes:
    """Return the head of ``.xtz``, which has the uuids of the file and of the array."""
    body = _FILE_HEAD.pack(_MAGIC, *_FILE_VERSION, uuid, array, 0)[: -CHECKSUM.size]
    return (body + CHECKSUM.pack(crc32c(body))).ljust(FILE_HEAD_BYTES, b"\0")


def check_file_head(data: bytes, block: BlobsBlock, array: bytes) -> None:
    """Raise CorruptError unless the head of ``.xtz`` is that of this array's blobs."""
    if data[: _FILE_HEAD.size] != encode_file_head(block.uuid, array)[: _FILE_HEAD.size]:
        raise CorruptError("the file of blobs is damaged, or belongs to another array")


def with_sums(encoded: Encoded) -> Encoded:
    """Return an encoded chunk with the checksums of its blocks, for its blob."""
    payload, n = encoded.payload, encoded.blocks
    if not n:
        return encoded
    first = bytes_of_blocks_table(n_axes_of(payload), n)
    ends = struct.unpack_from(f"<{n}I", payload, first - 2 * CHECKSUM.size * n)
    bounds = pairwise((first, *ends))
    sums = [crc32c(memoryview(payload)[start:stop]) for start, stop in bounds]
    at = first - CHECKSUM.size * n
    parts = payload[:at], struct.pack(f"<{n}I", *sums), payload[first:]
    return encoded._replace(payload=b"".join(parts))


def encode_blob_head(encoded: Encoded, address: int, number: int, uuid: bytes) -> bytes:
    """Return the head of a blob of `with_sums`; the checksum covers the uuid of ``.xtz``, too."""
    codec, filter_id, blocks, payload = encoded
    body = _BLOB_HEAD.pack(0, len(payload), address, number, codec, filter_id, blocks)
    body = body[CHECKSUM.size :]
    covered = memoryview(payload)
    if blocks:
        covered = covered[: bytes_of_blocks_table(n_axes_of(payload), blocks)]
    return CHECKSUM.pack(crc32c(covered, crc32c(uuid + body))) + body


class BlobHead(NamedTuple):
    """Facts about a payload, which follows them."""

    crc: int
    payload_bytes: int
    codec: int
    filter: int
    blocks: int


def decode_blob_head(head: Buffer, address: int, block: BlobsBlock, room: int) -> BlobHead:
    """Return what the head of a blob says, which has `room` bytes; its checksum is not compared.

    Raises
    ------
    ChecksumError
        This is not the blob of the chunk, or it is damaged; ``chunk`` names the chunk.
    """
    if min(memoryview(head).nbytes, room) < BLOB_HEAD_BYTES:
        raise _damaged(address, "it is truncated")
    crc, n, own, _, codec, filter_id, blocks = _BLOB_HEAD.unpack_from(head)
    if own != address or BLOB_HEAD_BYTES + n > room:
        raise _damaged(address, "another one is in its place")
    if block.codec not in (codec, MIXED):
        raise _damaged(address, f"it has codec {codec} in place of {block.codec}")
    return BlobHead(crc, n, codec, filter_id, blocks)


def _damaged(address: int, what: str) -> ChecksumError:
    error = ChecksumError(f"the blob of chunk {address} is damaged: {what}")
    error.chunk = address
    return error


def blamed(error: CorruptError | VersionError, address: int) -> Exception:
    """Return an error of a codec as one that tells which chunk cannot be decoded."""
    if isinstance(error, ChecksumError):
        return error
    if isinstance(error, VersionError):
        return VersionError(f"chunk {address} cannot be read: {error}")
    return _damaged(address, str(error))


class Stored(NamedTuple):
    """The place of a chunk in a file, and how it is encoded there.

    Attributes
    ----------
    suffix : str
        Of the file.
    offset, size : int
        The bytes of the chunk, or the frames of all its blocks.
    codec, filter, blocks : int
    scatters : bool
        The elements of its blocks do not follow each other in the chunk.
    element : bytes
        The element of a constant chunk.
    """

    suffix: str
    offset: int
    size: int
    codec: int = CodecId.RAW
    filter: int = 0
    blocks: int = 0
    scatters: bool = False
    element: bytes = b""


def read_of_blob(size: int, itemsize: int) -> int:
    """Return how many bytes of a blob `decode_stored` needs."""
    return min(size, max(_BLOCKS_AT, BLOB_HEAD_BYTES + itemsize))


def decode_stored(data: Buffer, address: int, block: BlobsBlock, offset: int, size: int) -> Stored:
    """Return what the first bytes of a blob at an offset of ``.xtz`` tell.

    Raise ChecksumError if this is not the blob of the chunk.
    """
    head = decode_blob_head(data, address, block, size)
    rest = bytes(data)[BLOB_HEAD_BYTES:]
    before, n_axes = 0, 0
    if head.blocks:  # whose frames follow each other behind a table
        try:
            n_axes = n_axes_of(rest)
        except CorruptError as error:
            raise _damaged(address, str(error)) from None
        before = bytes_of_blocks_table(n_axes, head.blocks)
    element = rest if head.codec == CodecId.CONSTANT else b""
    place = offset + BLOB_HEAD_BYTES + before, head.payload_bytes - before
    return Stored(BLOBS, *place, head.codec, head.filter, head.blocks, n_axes > 1, element)


def check_blob(blob: memoryview, address: int, block: BlobsBlock, verify: bool = True) -> BlobHead:
    """Return what the head of a blob says; raise ChecksumError unless it is the chunk's, and whole.

    Without `verify`, its checksum is not compared.
    """
    head = decode_blob_head(blob, address, block, len(blob))
    if not verify:
        return head
    payload = blob[BLOB_HEAD_BYTES : BLOB_HEAD_BYTES + head.payload_bytes]
    first = _check_covered(blob, head, address, block)
    if head.blocks:
        n = head.blocks
        *ends, last = struct.unpack_from(f"<{n}I", payload, first - 2 * CHECKSUM.size * n)
        sums = struct.unpack_from(f"<{n}I", payload, first - CHECKSUM.size * n)
        for (start, stop), crc in zip(pairwise((first, *ends, last)), sums, strict=True):
            check_frame(payload[start:stop], crc, address)
    return head


def _check_covered(blob: memoryview, head: BlobHead, address: int, block: BlobsBlock) -> int:
    """Compare a blob with its checksum; return the bytes of the payload that it covers."""
    first = head.payload_bytes
    if head.blocks:
        try:
            first = bytes_of_blocks_table(n_axes_of(blob[BLOB_HEAD_BYTES:]), head.blocks)
        except CorruptError as error:
            raise _damaged(address, str(error)) from None
    stop = BLOB_HEAD_BYTES + first
    covered = blob[CHECKSUM.size : stop]
    if (
        first > head.payload_bytes
        or stop > len(blob)
        or crc32c(covered, crc32c(block.uuid)) != head.crc
    ):
        raise _damaged(address, "it does not match its checksum")
    return first


def check_frame(frame: memoryview, crc: int, address: int) -> None:
    """Raise ChecksumError, which names the chunk, unless the frame of a block has a checksum."""
    if crc32c(frame) != crc:
        raise _damaged(address, "a block of it does not match its checksum")


def decode_blocks(
    data: memoryview,
    address: int,
    block: BlobsBlock,
    room: int,
    chunk_bytes: int,
    itemsize: int,
    verify: bool = True,
) -> tuple[BlobHead, Blocks | None]:
    """Return how a chunk is cut into blocks, from the first bytes of its blob.

    Parameters
    ----------
    data : memoryview
    address : int
    block : BlobsBlock
    room : int
        Bytes of the blob.
    chunk_bytes, itemsize : int
    verify : bool
        Compare what stands before the first block with the checksum.

    Returns
    -------
    BlobHead
    Blocks or None
        None: it is not cut, or `data` ends too early.

    Raises
    ------
    ChecksumError
        This is not the blob of the chunk, or it is damaged.
    """
    head = decode_blob_head(data, address, block, room)
    if not head.blocks or len(data) < _BLOCKS_AT:
        return head, None
    table = data[BLOB_HEAD_BYTES:]
    try:
        if len(table) < bytes_of_blocks_table(n_axes_of(table), head.blocks):
            return head, None
        if verify:
            _check_covered(data, head, address, block)
        n = head.payload_bytes
        return head, read_blocks(table, head.codec, head.blocks, chunk_bytes, itemsize, n)
    except CorruptError as error:
        raise _damaged(address, str(error)) from None


def bytes_before_blocks(data: memoryview) -> int:
    """Return how many bytes of a blob with blocks stand before the first one.

    `data`: its first bytes, not verified; at least those up to the number of axes.
    """
    n_axes, n = n_axes_of(data[BLOB_HEAD_BYTES:]), _BLOB_HEAD.unpack_from(data)[-1]
    return BLOB_HEAD_BYTES + bytes_of_blocks_table(n_axes, n)


def payload_of(blob: memoryview, address: int, block: BlobsBlock, verify: bool = True) -> Encoded:
    """Return the payload of a chunk from its blob, as its codec has it.

    Parameters
    ----------
    blob : memoryview
    address : int
    block : BlobsBlock
    verify : bool
        Compare the blob with its checksum.

    Raises
    ------
    ChecksumError
        This is not the blob of the chunk, or it is damaged; ``chunk`` names the chunk.
    """
    _, n, codec, filter_id, blocks = check_blob(blob, address, block, verify)
    return Encoded(codec, filter_id, blocks, blob[BLOB_HEAD_BYTES : BLOB_HEAD_BYTES + n])


def decode_blob(
    blob: memoryview,
    address: int,
    block: BlobsBlock,
    room: memoryview,
    itemsize: int,
    verify: bool = True,
    threads: int = 1,
) -> memoryview:
    """Return the bytes of a chunk from its blob.

    Parameters
    ----------
    blob : memoryview
    address : int
    block : BlobsBlock
    room : memoryview
        As many bytes as a chunk has, for one that a codec has encoded; a raw one stays where it is.
    itemsize : int
        Bytes of an element.
    verify : bool
        Compare the blob with its checksum.
    threads : int
        Most threads that decode parts of it.

    Raises
    ------
    ChecksumError
        This is not the blob of the chunk, or it is damaged; ``chunk`` names the chunk.
    VersionError
        A newer version has encoded it.
    MissingExtraError
        The library of its codec is not installed.
    """
    _, n, codec, filter_id, blocks = check_blob(blob, address, block, verify)
    payload = blob[BLOB_HEAD_BYTES : BLOB_HEAD_BYTES + n]
    if codec == CodecId.RAW and not filter_id and not blocks and len(payload) == len(room):
        return payload
    try:
        decode_into(room, codec, filter_id, blocks, payload, itemsize, threads)
    except (CorruptError, VersionError) as error:
        raise blamed(error, address) from None
    return room
