"""Metadata of a pair of files elsewhere as they were fetched, and the table of frozen chunks.

Metadata come as a whole, with one request if they are short.  A long table of frozen chunks stays
away; its pieces come when chunks are asked for.
"""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from extarray.common.config import config
from extarray.common.errors import FormatError, ReplacedError, ResultError, StorageError
from extarray.common.limits import limits
from extarray.common.on_error import OnError
from extarray.common.waiting import attempts, end_of
from extarray.fetched.packs import TAIL_BYTES
from extarray.fetched.shadow import shadow_of
from extarray.format.blocks import DIRECTORY_BYTES, BlockKind, decode_directory, sums_capacity
from extarray.format.constants import CUTS_BYTES, SECTOR
from extarray.format.frozen import (
    ENTRY_BYTES,
    TABLE_WORDS,
    decode_frozen_block,
    extent_bytes,
    extents_of,
)
from extarray.format.header import decode_header
from extarray.format.suffixes import METADATA
from extarray.remote.objects import RemoteObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from extarray.fetched.paths import RemotePath
    from extarray.fetched.shadow import Shadow
    from extarray.format.blobs import BlobsBlock
    from extarray.format.header import Header
    from extarray.remote.objects import Counts
    from extarray.storage.filesystem import File

__all__ = ["Content", "Words", "read_content"]

# Most bytes of a table of frozen chunks that come with the rest.
_TABLE_BYTES = 1 << 20
# Entries of a piece of a longer table.
_PIECE = 1 << 12


class Content(NamedTuple):
    """The bytes of ``.xmd``, but perhaps for a table of frozen chunks.

    Attributes
    ----------
    size : int
    parts : tuple of (int, bytes)
        Offsets and bytes, in rising order.
    """

    size: int
    parts: tuple[tuple[int, bytes], ...]

    def write(self, file: File, start: int, stop: int) -> None:
        """Write what there is of a range to its place in a file."""
        for at, part in self.parts:
            low, high = max(at, start), min(at + len(part), stop)
            if low < high:
                file.write(part[low - at : high - at], low)

    def shadow(self, name: str) -> Shadow:
        """Return a shadow file with the bytes."""
        file = shadow_of(name)
        with OnError(file.close):
            file.length = self.size
            self.write(file, 0, self.size)
        return file

    def cut(self, start: int, length: int) -> bytes | None:
        """Return bytes, or None if they have not come."""
        for at, part in self.parts:
            if at <= start and start + length <= at + len(part):
                return part[start - at : start - at + length]
        return None


def read_content(path: RemotePath, counts: Counts) -> tuple[Content, RemoteObject]:
    """Read ``.xmd``, with one request if it is short; return its object, too.

    It is read from the start on, so a number of freezes is no newer than the words behind it.
    """
    for _ in attempts(end_of(limits.visibility_patience)):
        found, head = RemoteObject.read_head(path.object(METADATA), TAIL_BYTES, counts)
        with contextlib.suppress(ReplacedError):  # by a writer, between two requests
            ranges = list(_without(_long_table(found, head), len(head), found.size))
            if sum(stop - start for start, stop in ranges) > config.max_result:
                raise ResultError(
                    f"the metadata '{path}{METADATA}' have {found.size} bytes, more than "
                    "config.max_result"
                )
            starts = [start for start, _ in ranges]
            parts = found.read_ranges(starts, [stop - start for start, stop in ranges])
            more = [(at, bytes(part)) for at, part in zip(starts, parts, strict=True)]
            return Content(found.size, ((0, head), *more)), found
    raise StorageError(
        errno.EAGAIN, "it keeps changing while it is read; try again", f"{path}{METADATA}"
    )


def _long_table(found: RemoteObject, head: bytes) -> list[tuple[int, int]]:
    """Return where a long table of frozen chunks lies in metadata, from their first bytes."""
    if len(head) == found.size:
        return []
    with contextlib.suppress(FormatError):  # damaged, or a writer is at work
        header = decode_header(head)
        if header.has_blobs:
            directory = head[header.directory_offset :][:DIRECTORY_BYTES]
            at = decode_directory(directory, header, found.size).get(BlockKind.BLOBS)
            if at is not None:
                data = head[at : at + SECTOR]
                if len(data) < SECTOR:
                    data = bytes(found.read(at, SECTOR))
                block = decode_frozen_block(data, header, found.size)
                extents = () if block is None else block.extents
                regions = [(at, at + extent_bytes(e)) for e, at in enumerate(extents)]
                if sum(stop - start for start, stop in regions) > _TABLE_BYTES:
                    return sorted(regions)
    return []


def _without(regions: list[tuple[int, int]], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield what is left of a range without regions in rising order."""
    for low, high in regions:
        if start < low:
            yield start, min(low, stop)
        start = max(start, high)
    if start < stop:
        yield start, stop


class Words:
    """The table of frozen chunks in metadata that were fetched.

    Parameters
    ----------
    content : Content
    found : RemoteObject
        The object from which a long table comes.
    header : Header
    block : BlobsBlock
    may_change : bool

    Attributes
    ----------
    content, block
        As given.
    chunk_bytes : int
    number : int
        Number of freezes, as it was before the words.
    identity : tuple
        What tells the file from another one that takes its name.
    may_change : bool
        A writer is noted, which may be dead.
    """

    def __init__(
        self,
        content: Content,
        found: RemoteObject,
        header: Header,
        block: BlobsBlock,
        may_change: bool,
    ) -> None:
        self.content, self.block, self.may_change = content, block, may_change
        self._found, self._header = found, header
        self.chunk_bytes = header.chunk_bytes
        self.identity = header.uuid, header.ndim
        self.number = int.from_bytes(
            content.cut(header.freezes_offset, CUTS_BYTES) or b"", "little"
        )
        # The entries of extents that came with the rest, and of pieces of others.
        self._extents: dict[int, NDArray[np.uint64]] = {}
        self._pieces: dict[tuple[int, int], NDArray[np.uint64]] = {}
        for number, at in enumerate(block.extents):
            data = content.cut(at, extent_bytes(number))
            if data is not None:
                self._extents[number] = _entries(data)

    def renewed(self) -> Words:
        """Return the same words, without the pieces of a long table, which may have changed."""
        if not (self._pieces and self.may_change):
            return self
        return Words(self.content, self._found, self._header, self.block, self.may_change)

    def missing(self, addresses: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Return the pieces, by extent and number, that have to come for some chunks."""
        if len(self._extents) == len(self.block.extents):
            return []
        numbers, within = extents_of(addresses)
        wanted = set(zip(numbers.tolist(), (within // _PIECE).tolist(), strict=True))
        return [
            (extent, piece)
            for extent, piece in sorted(wanted - self._pieces.keys())
            if extent < len(self.block.extents) and extent not in self._extents
        ]

    def fetch(self, pieces: list[tuple[int, int]]) -> list[NDArray[np.uint64]]:
        """Fetch pieces of the table, from whatever file has the name now."""
        starts, sizes = [], []
        for extent, piece in pieces:
            first = piece * _PIECE
            n = min(_PIECE, sums_capacity(extent) - first)
            starts.append(self.block.extents[extent] + ENTRY_BYTES * first)
            sizes.append(ENTRY_BYTES * n)
        parts = self._found.any_version().read_ranges(starts, sizes)
        if any(len(part) != size for part, size in zip(parts, sizes, strict=True)):
            raise ReplacedError(
                errno.ESTALE, "the metadata were replaced while they were read", str(self._found)
            )
        return [_entries(bytes(part)) for part in parts]

    def put(self, pieces: list[tuple[int, int]], entries: list[NDArray[np.uint64]]) -> None:
        """Take in pieces that are those of this table."""
        self._pieces.update(zip(pieces, entries, strict=True))

    def of(self, addresses: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the live words of chunks, and the durable ones; no piece is missing."""
        found = np.zeros((len(addresses), TABLE_WORDS), np.uint64)
        numbers, within = extents_of(addresses)
        for extent in np.unique(numbers).tolist():
            if extent >= len(self.block.extents):
                continue
            here = np.flatnonzero(numbers == extent)
            if extent in self._extents:
                found[here] = self._extents[extent][within[here]]
                continue
            pieces = within[here] // _PIECE
            for piece in np.unique(pieces).tolist():
                some = here[pieces == piece]
                found[some] = self._pieces[extent, piece][within[some] % _PIECE]
        return found[:, 0], found[:, 1]


def _entries(data: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(data, "<u8").reshape(-1, TABLE_WORDS)
