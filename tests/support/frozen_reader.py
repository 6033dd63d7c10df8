"""A reader of arrays with frozen chunks, written from docs/format/blobs.md alone."""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path

import format_reader
from blob_reader import chunk_of_payload, covered, need_sums, parse_header
from format_reader import crc32c, cut, need

__all__ = ["number_of_freezes", "read", "words_of"]


def parse_block(data, header):
    """Return the uuid of .xtz, the two sizes, and the offsets of the extents that count."""
    at = format_reader.optional_block(data, header, 2)
    need(at is not None, "there is no block for blobs")
    sector = cut(data, at, 512, "block")
    checksum, n, uuid, durable, given, words, codec, flags, rest = struct.unpack_from(
        "<II16sQQHHII", sector
    )
    need(crc32c(header.uuid + sector[4:]) == checksum, "the block is damaged")
    need((words, codec, flags, rest) == (2, 65535, 0, 0), "not the block of a growing array")
    extents = []
    for e, offset in enumerate(struct.unpack_from(f"<{n}Q", sector, 64)):
        need(offset % 4096 == 0, "an extent at another place")
        if offset + 16384 * 2**e > len(data):
            break
        extents.append(offset)
    return uuid, durable, given, extents


def words_of(data, extents, address):
    """Return the live word and the durable one of a chunk."""
    e = (address // 1024 + 1).bit_length() - 1
    if e >= len(extents):
        return 0, 0
    return struct.unpack_from("<2Q", data, extents[e] + 16 * (address - 1024 * (2**e - 1)))


def payload_of(log, word, address, uuid, elements):
    """Return the payload of a blob, its codec, filter and blocks; None if it is not whole."""
    offset, room = 64 * (word >> 24), 64 * (word & 0xFFFFFF)
    if offset < 64 or room < 32 or offset + room > len(log):
        return None
    checksum, n, own, number, codec, filter_id, zero, blocks = struct.unpack_from(
        "<IIQQHBBI", log, offset
    )
    if own != address or 32 + n > room:
        return None
    payload = log[offset + 32 : offset + 32 + n]
    try:
        head = log[offset + 4 : offset + 32] + covered(payload, blocks)
        need(crc32c(uuid + head) == checksum, "the blob is damaged")
        need_sums(payload, blocks, elements)
    except ValueError:
        return None
    need(number == offset // 64 and zero == 0, "the head is not that of a blob")
    return payload, codec, filter_id, blocks


def read(path):
    """Return elements and attributes of a closed array."""
    data, principal, log = (Path(f"{path}{s}").read_bytes() for s in (".xmd", ".xta", ".xtz"))
    header = parse_header(data)
    uuid, durable_size, given, extents = parse_block(data, header)
    head = struct.unpack("<8sHH4x16s16sI", cut(log, 0, 52, ".xtz"))
    need(head[0] == b"\x89XTZ\r\n\x1a\n" and head[1:3] == (3, 0), "no file of blobs")
    need(head[3] == uuid and head[5] == crc32c(log[:48]), "another file of blobs")
    need(64 <= durable_size <= given >= len(log), "sizes of the log that are not possible")
    state = format_reader.newest_state(data, header)
    size = header.chunk_bytes
    itemsize = header.fill.nbytes
    fill = header.fill.tobytes() * (size // itemsize)
    chunks = []
    for q in range(prod(state.grid)):
        live, durable = words_of(data, extents, q)
        end = 64 * (live >> 24) + 64 * (live & 0xFFFFFF)
        if live > 1 and live != durable and end > durable_size:
            live = live if payload_of(log, live, q, uuid, size // itemsize) else durable
        if live == 0:
            chunks.append(cut(principal, q * size, size, "principal array"))
        elif live == 1:
            chunks.append(fill)
        else:
            found = payload_of(log, live, q, uuid, size // itemsize)
            need(found is not None, f"the blob of chunk {q} is damaged")
            payload, codec, filter_id, blocks = found
            chunks.append(chunk_of_payload(codec, filter_id, blocks, payload, size, itemsize))
    return format_reader.elements_of(header, state, b"".join(chunks))


def number_of_freezes(path):
    data = Path(f"{path}.xmd").read_bytes()
    return struct.unpack_from("<Q", data, parse_header(data).size + 2056)[0]
