"""Commits of several arrays: states that wait for a decision, and the participants."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from extarray.common.errors import ArgumentError
from extarray.format._crc import crc32c
from extarray.format.constants import BLOCK, CHECKSUM
from extarray.format.superblock import (
    Superblock,
    decode_superblock,
    encode_superblock,
    superblock_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Pending", "decode_members", "decode_pending", "encode_members", "encode_pending"]

_PENDING_TAIL = struct.Struct("<I16s16s")
_MEMBERS_HEAD = struct.Struct("<II")
_MEMBER = struct.Struct("<16sI")


class Pending(NamedTuple):
    """A state of one array among several that commit together."""

    state: Superblock  # counts once the coordinator has decided the group
    group: bytes  # uuid of the commit
    coordinator: bytes  # uuid of the array that decides
    path: bytes  # of the coordinator, without suffix, relative to this array's folder


def encode_pending(pending: Pending) -> bytes:
    """Return the bytes of a pending state: its superblock, and the location of its decision.

    Raise ArgumentError if the path is too long for a block.
    """
    block = encode_superblock(pending.state)
    tail = _PENDING_TAIL.pack(len(pending.path), pending.group, pending.coordinator) + pending.path
    data = block + CHECKSUM.pack(crc32c(block + tail)) + tail
    if len(data) > BLOCK:
        raise ArgumentError(
            f"cannot commit arrays together if their relative path has {len(pending.path)} bytes; "
            "keep them closer together"
        )
    return data


def decode_pending(data: bytes, ndim: int) -> Pending | None:
    """Return the pending state of a block; None if there is none (torn, or never written)."""
    state = decode_superblock(data, ndim)
    at = superblock_bytes(ndim)
    if state is None or len(data) < at + CHECKSUM.size + _PENDING_TAIL.size:
        return None
    (crc,) = CHECKSUM.unpack_from(data, at)
    size, group, coordinator = _PENDING_TAIL.unpack_from(data, at + CHECKSUM.size)
    first = at + CHECKSUM.size + _PENDING_TAIL.size
    path = data[first : first + size]
    if crc32c(data[:at] + data[at + CHECKSUM.size : first] + path) != crc:
        return None
    if len(path) < size or b"\0" in path:  # not written by us
        return None
    return Pending(state, group, coordinator, path)


def encode_members(members: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return the bytes of the list of participants in a commit of several arrays.

    Each is a uuid and a path, without suffix, relative to the coordinator's folder.  Raise
    ArgumentError if they are too many for a block.
    """
    body = b"".join(_MEMBER.pack(uuid, len(path)) + path for uuid, path in members)
    if len(body) > BLOCK - _MEMBERS_HEAD.size:
        raise ArgumentError(
            f"cannot commit {len(members) + 1} arrays together: their paths need {len(body)} "
            f"bytes, and the limit is {BLOCK - _MEMBERS_HEAD.size}; commit fewer, or keep them "
            "closer together"
        )
    size = struct.pack("<I", len(body))
    return CHECKSUM.pack(crc32c(size + body)) + size + body


def decode_members(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return the list that `encode_members` put into a block; an empty list for other bytes."""
    if len(data) < _MEMBERS_HEAD.size:
        return []
    crc, size = _MEMBERS_HEAD.unpack_from(data)
    stop = _MEMBERS_HEAD.size + size
    if stop > len(data) or crc32c(data[CHECKSUM.size : stop]) != crc:
        return []
    members, at = [], _MEMBERS_HEAD.size
    while at + _MEMBER.size <= stop:
        uuid, length = _MEMBER.unpack_from(data, at)
        at += _MEMBER.size
        path = data[at : min(at + length, stop)]
        if len(path) < length or b"\0" in path:
            return []
        members.append((uuid, path))
        at += length
    return members if at == stop else []
