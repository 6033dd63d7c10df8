"""Chunks compared with their checksums, also while a writer is at work."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from extarray.errors import CorruptError
from extarray.filesystem import read_all
from extarray.metadata.header import Header
from extarray.metadata.places import BLOCK, SUMS_BLOCK
from extarray.metadata.sumstable import decode_sums, sums_capacity
from extarray.sums import SUMS_AT_ONCE, chunk_sums, fill_sum, read_sums

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["Comparison", "read_table"]

# Bytes that are read between two tellings of progress.
_STEP_BYTES = 1 << 26


def read_table(fd: int, header: Header, end: int) -> tuple[bool, list[int]] | None:
    """Whether checksums are in doubt, and the extents of their table; None where it is damaged.

    Parameters
    ----------
    fd : int
        Of ``.xmd``.
    header : Header
    end : int
        Where ``.xmd`` is unused: what lies beyond is of a state that is lost.

    Returns
    -------
    tuple of bool and list of int, or None
    """
    block = read_all(fd, BLOCK, header.superblock_offset(SUMS_BLOCK))
    found = decode_sums(block, header.uuid)
    if found is None:
        return None
    in_doubt, offsets = found
    stops = [at + 4 * sums_capacity(number) for number, at in enumerate(offsets)]
    extents = [at for at, stop in zip(offsets, stops, strict=True) if stop <= end]
    length = os.fstat(fd).st_size
    return None if any(stop > length for stop in stops[: len(extents)]) else (in_doubt, extents)


class Comparison:
    """A comparison of chunks with their checksums.

    Parameters
    ----------
    metadata, data : int
        Descriptors of the two files.
    header : Header
    end : int
        As for `read_table`.

    Attributes
    ----------
    in_doubt : bool
        What does not fit may have been written after its checksum was.
    """

    def __init__(self, metadata: int, data: int, header: Header, end: int) -> None:
        self.in_doubt = False
        self._metadata, self._data, self._header, self._end = metadata, data, header, end
        self._table: list[int] | None = None
        self._empty = fill_sum(header)

    def run(self, n_chunks: int, progress: Callable[[int, int], None] | None) -> NDArray[np.int64]:
        """Addresses of the chunks, of the first `n_chunks`, that do not fit."""
        step = max(1, min(SUMS_AT_ONCE, _STEP_BYTES // self._header.chunk_bytes))
        found = [np.empty(0, np.int64)]
        self._look_at_table()
        for first in range(0, n_chunks, step):
            wrong = self._unfit(np.arange(first, min(n_chunks, first + step)))
            if wrong.size:
                # A writer may have been at work; then, before or after, the table says so.
                self._look_at_table()
                found.append(self._unfit(wrong))
                self._look_at_table()
            if progress is not None:
                progress(min(n_chunks, first + step), n_chunks)
        return np.concatenate(found)

    def _look_at_table(self) -> None:
        table = read_table(self._metadata, self._header, self._end)
        self._table = None if table is None else table[1]
        self.in_doubt |= table is None or table[0]

    def _unfit(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        first, stop = int(addresses[0]), int(addresses[-1]) + 1
        if self._table is None:
            return addresses
        try:
            told = read_sums(self._metadata, self._table, first, stop)[addresses - first]
            sums = chunk_sums(self._data, addresses, self._header.chunk_bytes)
        except (CorruptError, OSError):
            # Cut off, or the disk cannot read some of them.
            if len(addresses) == 1:
                return addresses
            return np.concatenate([self._unfit(half) for half in np.array_split(addresses, 2)])
        wrong: NDArray[np.int64] = addresses[sums != told ^ np.uint32(self._empty)]
        return wrong
