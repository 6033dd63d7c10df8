"""The chunks of an array that is packed in another order: blobs, and the table of their places."""

from __future__ import annotations

import errno
import os
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray._core._axial import Axial
from extarray._core._history import replay_log
from extarray.common.arguments import as_int
from extarray.common.errors import ArgumentError, ArgumentTypeError, StorageError
from extarray.format._crc import crc32c
from extarray.format.blobs import (
    BLOB_HEAD_BYTES,
    FILE_HEAD_BYTES,
    FILL,
    BlobsBlock,
    Codec,
    blob_bytes,
    check_blob_size,
    encode_blob_head,
    encode_entry_of_blob,
    encode_file_head,
    extents_for,
)
from extarray.format.blocks import sums_capacity
from extarray.grid.chunk_order import CURVES, chunk_sequence
from extarray.grid.chunking import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

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

_PIECE = 1 << 22


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


class BlobWriter:
    """Writes ``.xtz`` at its place in a packed file, from the first byte to the last.

    Parameters
    ----------
    write : callable
        Writes bytes at an offset of ``.xtz``.
    header : Header
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
        name: str,
        done: Callable[[int], object],
    ) -> None:
        check_blob_size(header.chunk_bytes, name)
        self._write, self._header, self._done = write, header, done
        self._uuid = os.urandom(16)
        self.size = self.crc = 0
        self._put(encode_file_head(self._uuid, header.uuid))

    def _put(self, data: Any) -> None:
        self._write(data, self.size)
        self.crc = zlib.crc32(data, self.crc)
        self.size += len(data)

    def write(self, now: Present, addresses: NDArray[Any], is_zero: NDArray[Any]) -> BlobsBlock:
        """Write the blobs of chunks in a sequence, then the table; return the block about them.

        `is_zero` tells which chunks, by address, are known to hold zeros.
        """
        size, fill = self._header.chunk_bytes, self._header.fill
        step = blob_bytes(size)
        words = np.full(len(addresses), FILL, "<u8")
        room = memoryview(bytearray(max(step, _PIECE // step * step)))
        used, number = 0, 0
        left_out = is_zero if not any(fill) else np.zeros(len(addresses), bool)
        for address in addresses.tolist():
            self._done(size)
            if left_out[address]:
                continue
            chunk = room[used + BLOB_HEAD_BYTES :][:size]
            if now.read_into(chunk, place_of(address, size)) < size:
                raise truncated(now)
            if _is_filled(chunk, fill):
                continue
            number += 1
            room[used : used + BLOB_HEAD_BYTES] = encode_blob_head(
                chunk, address, number, self._uuid
            )
            room[used + BLOB_HEAD_BYTES + size : used + step] = bytes(step - BLOB_HEAD_BYTES - size)
            words[address] = encode_entry_of_blob(self.size + used, step)
            used += step
            if used == len(room):
                self._put(room)
                used = 0
        self._put(room[:used])
        return self._end(words)

    def _end(self, words: NDArray[Any]) -> BlobsBlock:
        start = self.size
        table = words.view(np.uint8)
        self._put(table)
        extents = []
        for number in range(extents_for(len(words))):
            extents.append(start)
            start += 8 * sums_capacity(number)
        return BlobsBlock(
            self._uuid, self.size, tuple(extents), crc32c(table), codec=Codec.RAW, in_blobs=True
        )


def _is_filled(chunk: memoryview, fill: bytes) -> bool:
    """Tell whether a chunk holds the fill value everywhere."""
    n = len(fill)
    if chunk[:n] != fill:
        return False
    found = np.frombuffer(chunk, np.uint8)
    return np.array_equal(found[n:], found[:-n])


def truncated(now: Present) -> StorageError:
    """Return the error for an array that lost chunks while it was packed."""
    return StorageError(errno.EIO, f"'{now.path}.xta' was truncated in the meantime")


def empty_chunks(runs: Iterable[tuple[int, int]], n_chunks: int, chunk_bytes: int) -> NDArray[Any]:
    """Return which chunks lie outside all runs of bytes that were written."""
    empty = np.ones(n_chunks, bool)
    for start, stop in runs:
        empty[start // chunk_bytes : -(-stop // chunk_bytes)] = False
    return empty
