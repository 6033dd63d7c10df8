"""A reader of chunks in blobs, written from docs/format/blobs.md alone, on `format_reader`."""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise, product
from math import prod

import format_reader
import lz4.block
import numpy as np
import zstandard
from format_reader import crc32c, cut, need

__all__ = [
    "chunk_of_payload",
    "covered",
    "entries_of",
    "need_sums",
    "parse_block",
    "read_blobs",
    "read_packed",
]


def parse_header(data):
    """Parse a header of version 3, by that of version 2 without the JSON object."""
    need(data[:10] == b"\x89XTA\r\n\x1a\n\3\0", "not a header of version 3")
    k, flags, itemsize, dtype_bytes = struct.unpack("<BxHII", cut(data, 32, 12, "header"))
    at = 48 + 8 * k + dtype_bytes + itemsize + (32 if flags & 4 else 0)
    (length,) = struct.unpack("<I", cut(data, at, 4, "header"))
    end = at + 4 + length
    checksum = struct.unpack("<I", cut(data, end, 4, "header"))[0]
    need(crc32c(data[:end]) == checksum, "the header is damaged: its checksum does not fit")
    need(flags & 8, "a header of version 3 without bit 3")
    need(end + 4 <= struct.unpack("<I", data[12:16])[0], "header_bytes is not possible")
    plain = data[:8] + b"\2\0" + data[10:at]
    header = format_reader.parse_header(
        plain + struct.pack("<I", crc32c(plain)) + data[at + 4 : len(data)]
    )
    header.log = header.size + 8192 + -(-(end + 4) // 512) * 512
    return header


def parse_block(data, header, n_chunks, size):
    """Return the uuid of .xtz, the codec, the checksum of the table and its extents."""
    at = format_reader.optional_block(data, header, 2)
    need(at is not None, "there is no block for blobs")
    sector = cut(data, at, 512, "block")
    checksum, n, uuid, whole, _same, one, codec, also_one, table = struct.unpack_from(
        "<II16sQQHHII", sector
    )
    need(crc32c(header.uuid + sector[4:]) == checksum, "the block is damaged")
    need(one == also_one == 1 and whole == size, "not the block of a packed array")
    least = 0
    while 1024 * (2**least - 1) < n_chunks:
        least += 1
    need(n == least <= 54, "another number of extents")
    offsets = struct.unpack_from(f"<{n}Q", sector, 64)
    extents = []
    for e, offset in enumerate(offsets):
        entries = min(1024 * 2**e, n_chunks - 1024 * (2**e - 1))
        need(offset % 8 == 0 and 64 <= offset <= size - 8 * entries, "an extent outside")
        extents.append((offset, entries))
    return uuid, codec, table, extents


def entries_of(extents, blobs):
    """Return the bytes of the table, and its entries by address."""
    table = b"".join(blobs[at : at + 8 * n] for at, n in extents)
    return table, struct.unpack(f"<{len(table) // 8}Q", table)


def bytes_of_frame(codec, frame, n):
    """Return the n bytes of one frame."""
    try:
        if codec == 2:
            decoder = zstandard.ZstdDecompressor(max_window_size=max(1 << 23, n)).decompressobj()
            data = decoder.decompress(frame)
            need(decoder.eof and not decoder.unused_data, "a frame that does not end there")
        elif codec == 3:
            data = lz4.block.decompress(frame, uncompressed_size=n)
        else:
            decoder = zlib.decompressobj()
            data = decoder.decompress(frame, n + 1)
            need(decoder.eof and not decoder.unused_data, "a frame that does not end there")
    except (zstandard.ZstdError, lz4.block.LZ4BlockError, zlib.error) as error:
        raise ValueError(f"a frame does not decode: {error}") from None
    need(len(data) == n, "a frame of other bytes")
    return data


def unfiltered(number, data, size):
    """Undo a filter, byte by byte and bit by bit."""
    n = len(data) // size
    out = bytearray(data)
    if number == 1:
        for j in range(size):
            out[j::size] = data[j * n : (j + 1) * n]
    elif number == 2:
        m = n // 8 * 8
        for i in range(m):
            for j in range(size):
                bits = [data[(8 * j + k) * m // 8 + i // 8] >> i % 8 & 1 for k in range(8)]
                out[i * size + j] = sum(bit << k for k, bit in enumerate(bits))
    return bytes(out)


def frames_of(payload, p, elements):
    """Return lengths of the chunk and of a block along each axis, frames, and their checksums."""
    (k,) = struct.unpack("<I", cut(payload, 0, 4, "payload"))
    need(1 <= k <= 64, "another number of axes")
    first = 4 * (1 + 2 * k + 2 * p)
    words = struct.unpack_from(f"<{2 * (k + p)}I", cut(payload, 0, first, "payload"), 4)
    lengths, steps = words[:k], words[k : 2 * k]
    need(all(1 <= m <= n for n, m in zip(lengths, steps, strict=True)), "blocks of no elements")
    need(prod(lengths) == elements, "another number of elements")
    need(prod(-(-n // m) for n, m in zip(lengths, steps, strict=True)) == p, "other blocks")
    ends = words[2 * k : 2 * k + p]
    need(ends[-1] == len(payload), "the last block ends elsewhere")
    bounds = list(pairwise([first, *ends]))
    need(all(low <= high for low, high in bounds), "a block ends before it begins")
    return lengths, steps, [payload[low:high] for low, high in bounds], words[2 * k + p :]


def covered(payload, parts):
    """Return the bytes of a payload that the checksum of its blob covers."""
    if not parts:
        return payload
    (k,) = struct.unpack("<I", cut(payload, 0, 4, "payload"))
    return cut(payload, 0, 4 * (1 + 2 * k + 2 * parts), "payload")


def need_sums(payload, parts, elements):
    """Compare the frames of blocks with their checksums."""
    if parts:
        for frame, checksum in zip(*frames_of(payload, parts, elements)[2:], strict=True):
            need(crc32c(frame) == checksum, "a block is damaged")


def chunk_of_payload(codec, number, parts, payload, chunk_bytes, size):
    """Return the bytes of a chunk from its payload; `size` are those of an element."""
    if codec in (0, 1):
        need(number == parts == 0, "a filter or blocks")
        need(len(payload) == (chunk_bytes, size)[codec], "a payload of another length")
        return payload * (chunk_bytes // len(payload))
    need(codec in (2, 3, 5), f"codec {codec} is not known")
    need(number in (0, 1, 2), f"filter {number} is not known")
    if not parts:
        return unfiltered(number, bytes_of_frame(codec, payload, chunk_bytes), size)
    lengths, steps, frames, _ = frames_of(payload, parts, chunk_bytes // size)
    chunk = np.zeros((*lengths, size), np.uint8)
    grid = [range(0, n, m) for n, m in zip(lengths, steps, strict=True)]
    for corner, frame in zip(product(*grid), frames, strict=True):
        block = chunk[tuple(slice(low, low + m) for low, m in zip(corner, steps, strict=True))]
        data = unfiltered(number, bytes_of_frame(codec, frame, block.size), size)
        block[...] = np.frombuffer(data, np.uint8).reshape(block.shape)
    return chunk.tobytes()


def chunk_of(blobs, entry, address, uuid, chunk_bytes, codecs, size):
    """Return the bytes of the chunk that an entry leads to."""
    offset, room = 64 * (entry >> 24), 64 * (entry & 0xFFFFFF)
    most = -(-(32 + chunk_bytes) // 64) * 64
    need(offset >= 64 and 0 < room <= most, "an entry that is not possible")
    need(offset + room <= len(blobs), "an entry that leads out")
    if codecs == 0:
        need(room == most, "an entry of another length")
    head = blobs[offset : offset + 32]
    checksum, n, own, _number, codec, rest, parts = struct.unpack("<IIQQHHI", head)
    need(own == address and 32 + n <= room, f"not the blob of chunk {address}")
    payload = blobs[offset + 32 : offset + 32 + n]
    found = crc32c(uuid + head[4:] + covered(payload, parts))
    need(found == checksum, f"the blob of chunk {address} is damaged")
    need(codecs in (codec, 65535), "another codec than that of all blobs")
    need_sums(payload, parts, chunk_bytes // size)
    return chunk_of_payload(codec, rest & 0xFF, parts, payload, chunk_bytes, size)


def read_blobs(data, blobs):
    """Return elements and attributes from `.xmd` and `.xtz`."""
    header = parse_header(data)
    state = format_reader.newest_state(data, header)
    need(state.sealed, "the state is not sealed")
    n_chunks = prod(state.grid)
    uuid, codecs, checksum, extents = parse_block(data, header, n_chunks, len(blobs))
    head = struct.unpack("<8sHH4x16s16sI", cut(blobs, 0, 52, ".xtz"))
    need(head[0] == b"\x89XTZ\r\n\x1a\n" and head[1:3] == (3, 0), "no file of blobs")
    need(head[3:] == (uuid, header.uuid, crc32c(blobs[:48])), "another file of blobs")
    table, entries = entries_of(extents, blobs)
    need(crc32c(table) == checksum, "the table is damaged")
    fill = header.fill.tobytes() * (header.chunk_bytes // header.fill.nbytes)
    chunks = [
        fill
        if entry == 1
        else chunk_of(blobs, entry, q, uuid, header.chunk_bytes, codecs, header.fill.nbytes)
        for q, entry in enumerate(entries)
    ]
    return format_reader.elements_of(header, state, b"".join(chunks))


def read_packed(image, name=None):
    """Return elements and attributes of an array in a packed file; by default, the only one."""
    members = format_reader.members_of(image)
    if name is None:
        name = format_reader.parse_packed(image).alone
    need(name is not None and f"{name}.xmd" in members, "no such array")
    data = format_reader.compared(members[f"{name}.xmd"])
    if data[8:10] == b"\2\0":
        return format_reader.read_packed([members[name + s] for s in (".xmd", ".xta")])
    need(f"{name}.xtz" in members, "there are no blobs")
    seal = b"\x89XTA sealed:\r\n\x1a\n" + data[16:32]
    need(members[f"{name}.xta"][0] == seal, ".xta is not the seal")
    return read_blobs(data, members[f"{name}.xtz"][0])
