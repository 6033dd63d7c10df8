"""The chunks of an array, packed in blobs in some order, and the table of their places."""

from __future__ import annotations

import contextlib
import errno
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray._core._axial import Axial
from extarray._core._history import replay_log
from extarray.codecs._filters import is_constant
from extarray.codecs.codec import CodecId, FilterId
from extarray.codecs.payloads import Encoded, encode
from extarray.common.arguments import as_int
from extarray.common.config import config
from extarray.common.errors import ArgumentError, ArgumentTypeError, StorageError
from extarray.common.limits import limits
from extarray.common.threads import ThreadPool
from extarray.format._crc import crc32c
from extarray.format.blobs import (
    BLOB_HEAD_BYTES,
    FILE_HEAD_BYTES,
    FILL,
    MIXED,
    BlobsBlock,
    blob_bytes,
    check_blob_size,
    encode_blob_head,
    encode_entry_of_blob,
    encode_file_head,
    extents_for,
    with_sums,
)
from extarray.format.blocks import sums_capacity
from extarray.format.header import new_uuid
from extarray.grid.chunk_order import CURVES, chunk_sequence
from extarray.grid.chunking import place_of
from extarray.grid.order import sides_in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from numpy.typing import NDArray

    from extarray.codecs.codec import Codec
    from extarray.format.header import Header
    from extarray.storage.store import Present

__all__ = [
    "ADDRESS",
    "BlobWriter",
    "axis_of",
    "check_order",
    "empty_chunks",
    "most_bytes",
    "refused",
    "sequence_of",
    "truncated",
]

#: The order of packed files of format 2.
ADDRESS = "address"

# Bytes of chunks that a thread makes blobs of at a time.
_PIECE = 1 << 20
# Times the bytes of a piece that each thread takes: its blobs, payloads, and those that wait.
_BUFFERS = 4


def check_order(order: Any) -> str | int:
    """Return an order of chunks: "address", a curve, or the number or name of an axis."""
    if isinstance(order, str):
        return order
    try:
        return as_int(order, "order")
    except ArgumentTypeError:
        raise ArgumentTypeError(
            f"order must be {_possible()}, not {type(order).__name__}"
        ) from None


def _possible() -> str:
    names = ", ".join(map(repr, (ADDRESS, *sorted(CURVES))))
    return f"{names}, or the number or name of an axis"


def axis_of(order: str | int, ndim: int, dims: Sequence[str] | None) -> str | int | None:
    """Return the order for an array, with the number of an axis; None if it lacks that axis."""
    if isinstance(order, int):
        return order % ndim if -ndim <= order < ndim else None
    if order in (ADDRESS, *CURVES):
        return order
    return tuple(dims).index(order) if dims is not None and order in dims else None


def refused(order: str | int) -> ArgumentError:
    """Return the error for an axis that nothing to pack has."""
    return ArgumentError(f"no array to pack has the axis {order!r}; order must be {_possible()}")


def sequence_of(order: str | int, records: Sequence[Any], grid: Sequence[int]) -> NDArray[Any]:
    """Return the addresses of all chunks in an order, from the growth log and the final grid."""
    axes, sides, grids = zip(*records, strict=True)
    log = np.array(axes, np.uint8), np.array(sides, np.uint8)
    axial = replay_log(Axial, *log, np.array(grids, np.int64).reshape(len(axes), -1), grid)
    found: NDArray[Any] = np.asarray(axial.addresses(chunk_sequence(axial.grid, order)))
    return found


def most_bytes(n_chunks: int, chunk_bytes: int) -> int:
    """Return the bytes of ``.xtz`` if all chunks have blobs."""
    return FILE_HEAD_BYTES + n_chunks * (blob_bytes(chunk_bytes) + 8)


class _Piece(NamedTuple):
    """Blobs of some chunks.

    Attributes
    ----------
    data : memoryview
        The blobs, one behind the other.
    addresses, sizes : list of int
        Of the chunks that have blobs: their addresses, and the bytes of their blobs.
    codecs : set of int
    n_chunks : int
        Number of all its chunks, with those of the fill value.
    """

    data: memoryview
    addresses: list[int]
    sizes: list[int]
    codecs: set[int]
    n_chunks: int


class BlobWriter:
    """Writes ``.xtz`` at its place in a packed file, from the first byte to the last.

    Parameters
    ----------
    write : callable
        Writes bytes at an offset of ``.xtz``.
    header : Header
    codec : Codec or None
        None: chunks stay raw.
    name : str
        Of the array, for messages.
    done : callable
        Called with bytes of chunks that are written.

    Attributes
    ----------
    size, crc : int
        Bytes written, and their CRC-32.
    """

    def __init__(
        self,
        write: Callable[[Any, int], object],
        header: Header,
        codec: Codec | None,
        name: str,
        done: Callable[[int], object],
    ) -> None:
        check_blob_size(header.chunk_bytes, name)
        self._write, self._header, self._codec, self._done = write, header, codec, done
        self._uuid = new_uuid()
        self.size = self.crc = 0
        self._put(encode_file_head(self._uuid, header.uuid))

    def _put(self, data: Any) -> None:
        self._write(data, self.size)
        self.crc = zlib.crc32(data, self.crc)
        self.size += len(data)

    def write(self, now: Present, addresses: NDArray[Any], is_zero: NDArray[Any]) -> BlobsBlock:
        """Write the blobs of chunks in a sequence, then the table; return the block about them.

        `is_zero` tells which chunks, by address, are known to hold zeros.  Threads read and encode
        chunks; this one writes them, in the sequence.
        """
        size = self._header.chunk_bytes
        words = np.full(len(addresses), FILL, "<u8")
        codecs: set[int] = set()
        if not any(self._header.fill):
            wanted = addresses[~is_zero[addresses]]
            self._done((len(addresses) - len(wanted)) * size)
            addresses = wanted
        with contextlib.closing(self._pieces(now, addresses)) as pieces:
            for piece in pieces:
                at = self.size
                for address, length in zip(piece.addresses, piece.sizes, strict=True):
                    words[address] = encode_entry_of_blob(at, length)
                    at += length
                self._put(piece.data)
                codecs |= piece.codecs
                self._done(piece.n_chunks * size)
        if len(codecs) > 1:
            return self._end(words, MIXED)
        return self._end(words, codecs.pop() if codecs else CodecId.RAW)

    def _pieces(self, now: Present, addresses: NDArray[Any]) -> Generator[_Piece]:
        """Yield all pieces in the sequence."""
        size = self._header.chunk_bytes
        step = max(1, _PIECE // size)
        firsts = range(0, len(addresses), step)
        n_threads = min(
            config.threads,
            len(firsts),
            len(addresses) * size // limits.coded_bytes,
            max(1, config.max_memory // (_BUFFERS * step * size)),
        )
        with ThreadPool(n_threads if n_threads > 1 else 0) as pool:
            ended: dict[int, _Piece] = {}
            number = 0
            for first in firsts:
                some = addresses[first : first + step]
                ended.update(pool.call(partial(self._piece, now, some, first)))
                if len(ended) > n_threads:  # the next in the sequence takes long
                    ended.update(pool.rest())
                while number < len(firsts) and firsts[number] in ended:
                    yield ended.pop(firsts[number])
                    number += 1
            ended.update(pool.rest())
            yield from (ended[first] for first in firsts[number:])

    def _piece(self, now: Present, addresses: NDArray[Any], first: int) -> tuple[int, _Piece]:
        """Make the blobs of some chunks; return them with the place of the first one."""
        size, fill = self._header.chunk_bytes, self._header.fill
        itemsize = self._header.dtype.itemsize
        sides = sides_in_memory(self._header.chunks, self._header.order)
        kept: list[int] = []
        sizes: list[int] = []
        codecs = set()
        room = memoryview(np.empty(len(addresses) * blob_bytes(size), np.uint8))
        used = 0
        for number, address in enumerate(addresses.tolist(), first):
            chunk = room[used + BLOB_HEAD_BYTES :][:size]
            if now.read_into(chunk, place_of(address, size)) < size:
                raise truncated(now)
            if chunk[:itemsize] == fill and is_constant(chunk, itemsize):
                continue
            if self._codec is None:
                encoded = Encoded(CodecId.RAW, FilterId.NONE, 0, chunk)
            else:
                encoded = with_sums(encode(self._codec, chunk, itemsize, sides))
            payload = encoded.payload
            if payload is not chunk:
                chunk[: len(payload)] = payload
            room[used : used + BLOB_HEAD_BYTES] = encode_blob_head(
                encoded, address, number + 1, self._uuid
            )
            end = used + BLOB_HEAD_BYTES + len(payload)
            used += blob_bytes(len(payload))
            room[end:used] = bytes(used - end)
            kept.append(address)
            sizes.append(blob_bytes(len(payload)))
            codecs.add(int(encoded.codec))
        return first, _Piece(room[:used], kept, sizes, codecs, len(addresses))

    def _end(self, words: NDArray[Any], codec: int) -> BlobsBlock:
        start = self.size
        table = words.view(np.uint8)
        self._put(table)
        extents = []
        for number in range(extents_for(len(words))):
            extents.append(start)
            start += 8 * sums_capacity(number)
        return BlobsBlock(
            self._uuid, self.size, tuple(extents), crc32c(table), codec=codec, in_blobs=True
        )


def truncated(now: Present) -> StorageError:
    """Return the error for an array that lost chunks while it was packed."""
    return StorageError(errno.EIO, f"'{now.path}.xta' was truncated in the meantime")


def empty_chunks(runs: Iterable[tuple[int, int]], n_chunks: int, chunk_bytes: int) -> NDArray[Any]:
    """Return which chunks lie outside all runs of bytes that were written."""
    empty = np.ones(n_chunks, bool)
    for start, stop in runs:
        empty[start // chunk_bytes : -(-stop // chunk_bytes)] = False
    return empty
