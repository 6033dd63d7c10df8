"""Packed files on servers and in buckets: one request for the end of the file opens them."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from extarray.common.config import config
from extarray.common.errors import CorruptError, FormatError, ResultError
from extarray.fetched.paths import RemotePath
from extarray.format.archive import ALIGNMENT, Member, checked_member, decode_directory
from extarray.format.constants import SEAL_BYTES
from extarray.remote.objects import RemoteObject
from extarray.storage.names import PackedNames

__all__ = ["TAIL_BYTES", "InPack", "RemotePack"]

#: Bytes at the end of an object that opening asks for: mostly all metadata.
TAIL_BYTES = 1 << 16

# Headers before the metadata of an array that are asked for with them.
_HEAD_BYTES = 1 << 12


class InPack(NamedTuple):
    """An array in a packed file.

    Attributes
    ----------
    name : str
        Its path in the file.
    metadata : bytes
    last : bytes
        The last bytes of its chunks' file, which are the seal of ``.xta``.
    start, size : int
        Where that file lies, and its bytes.
    has_blobs : bool
        It is ``.xtz``.
    """

    name: str
    metadata: bytes
    last: bytes
    start: int
    size: int
    has_blobs: bool


class RemotePack(PackedNames):
    """A packed file elsewhere, as of the moment when it was opened.

    Parameters
    ----------
    path : RemotePath
        Path of the file.

    Attributes
    ----------
    object : RemoteObject

    Raises
    ------
    FormatError
        It is no packed file, or damaged.
    """

    def __init__(self, path: RemotePath) -> None:
        self.path = path.outside()
        self.object, tail = RemoteObject.read_tail(path.object(), TAIL_BYTES)
        self._parts = [(self.object.size - len(tail), tail)]
        try:
            self.take_members(path, decode_directory(self.read, self.object.size))
        except FormatError as error:
            raise type(error)(f"'{path}': {error}") from None

    def read(self, length: int, offset: int) -> bytes:
        """Read bytes; those that came with others are not requested again."""
        length = max(0, min(length, self.object.size - offset))
        for start, part in self._parts:
            if start <= offset and offset + length <= start + len(part):
                return bytes(part[offset - start : offset - start + length])
        return bytes(self.object.read(offset, length))

    def open_pair(self, inner: str, verify: str) -> InPack:
        """Open an array by its path in the file; "" means the only one.

        The metadata are compared with their checksum, unless `verify` is "never".
        """
        name, (metadata, data) = self.chosen(self.path, inner)
        blobs = self.blobs.get(name)
        if metadata.size > config.max_result:
            raise ResultError(
                f"the metadata of '{self.path}/{name}' have {metadata.size} bytes, more than "
                "config.max_result"
            )
        try:
            chunks = data if blobs is None else blobs
            if chunks.start % ALIGNMENT:  # written by another program, with other headers
                chunks = checked_member(self.read, chunks)
            end = chunks.start + chunks.size
            # One request for both, as they mostly are neighbours.
            first = max(0, end - SEAL_BYTES)
            if not first <= metadata.offset <= end + _HEAD_BYTES:
                first = metadata.offset
            stop = metadata.start + metadata.size
            self._keep(first, stop - first)
            metadata = checked_member(self.read, metadata)
            content = self.read(metadata.size, metadata.start)
            last = self.read(min(SEAL_BYTES, chunks.size), max(chunks.start, end - SEAL_BYTES))
        except FormatError as error:
            raise type(error)(f"'{self.path}': {error}") from None
        self._check(metadata, content, verify)
        return InPack(name, content, last, chunks.start, chunks.size, blobs is not None)

    def _keep(self, offset: int, length: int) -> None:
        """Read bytes that are then at hand, until the next ones are kept."""
        part = self.read(length, offset)
        self._parts = [self._parts[0], (offset, part)]

    def _check(self, member: Member, content: bytes, verify: str) -> None:
        if len(content) != member.size or (verify != "never" and zlib.crc32(content) != member.crc):
            raise CorruptError(
                f"'{self.path}': '{member.name}' in it is damaged: it does not match its CRC-32"
            )

    def load(self, member: Member) -> bytes:
        """Read a whole member, such as the attributes of a group, and compare its checksum."""
        member = checked_member(self.read, member)
        content = self.read(member.size, member.start)
        self._check(member, content, "read")
        return content
