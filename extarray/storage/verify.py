"""Chunks compared with their checksums, also while a writer is at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from extarray.common.errors import CorruptError
from extarray.format.checksum_table import decode_sums, sums_capacity
from extarray.format.constants import CELL
from extarray.format.header import Header
from extarray.storage.checksums import SUMS_AT_ONCE, Sums, chunk_sums, fill_sum, read_sums

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from extarray.storage.filesystem import File

__all__ = ["Comparison", "read_table"]

# Bytes that are read between two tellings of progress.
_STEP_BYTES = 1 << 26
# A writer may be at work: how often a chunk is looked at before it counts as damaged.
_LOOKS = 3


def read_table(file: File, header: Header, end: int | None) -> tuple[bool, list[int]] | None:
    """Whether checksums are in doubt, and the extents of their table; None where it is damaged.

    Parameters
    ----------
    file : File
        ``.xmd``.
    header : Header
    end : int or None
        Where ``.xmd`` is unused: what lies beyond is of a state that is lost.  None: where it ends.

    Returns
    -------
    tuple of bool and list of int, or None
    """
    block = file.read(CELL, header.sums_offset)
    found = decode_sums(block, header.uuid)
    if found is None:
        return None
    in_doubt, offsets = found
    stops = [at + 4 * sums_capacity(number) for number, at in enumerate(offsets)]
    extents = [at for at, stop in zip(offsets, stops, strict=True) if end is None or stop <= end]
    length = file.length
    return None if any(stop > length for stop in stops[: len(extents)]) else (in_doubt, extents)


class Comparison:
    """A comparison of chunks with their checksums.

    Parameters
    ----------
    metadata, data : File
        The two files.
    header : Header
    end : int or None
        As for `read_table`.
    sums : Sums, optional
        Those of this process, which is the writer: it knows the table.

    Attributes
    ----------
    in_doubt : bool
        What does not fit may have been written after its checksum was.
    """

    def __init__(
        self,
        metadata: File,
        data: File,
        header: Header,
        end: int | None = None,
        sums: Sums | None = None,
    ) -> None:
        self.in_doubt = False
        self._sums = sums
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

    def surely_unfit(self, addresses: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Those of some chunks that do not fit, though nobody writes; None where nobody can tell.

        Parameters
        ----------
        addresses : array of int64
            In rising order; some may be repeated.

        Returns
        -------
        array of int64 or None

        Raises
        ------
        OSError
        """
        step = max(1, _STEP_BYTES // self._header.chunk_bytes)
        found = [np.empty(0, np.int64)]
        for first in range(0, len(addresses), step):
            wrong = addresses[first : first + step]
            for look in range(_LOOKS + 1):
                self.in_doubt = False
                self._look_at_table()
                if self.in_doubt:
                    return None
                if look < _LOOKS and wrong.size:
                    wrong = self._different(wrong)
            found.append(wrong)
        return np.concatenate(found)

    def _look_at_table(self) -> None:
        if self._sums is not None:
            self._table = self._sums.extents
            self.in_doubt |= self._sums.inherited or self._sums.lost
            return
        table = read_table(self._metadata, self._header, self._end)
        self._table = None if table is None else table[1]
        self.in_doubt |= table is None or table[0]

    def _unfit(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._table is None:
            return addresses
        try:
            return self._different(addresses)
        except (CorruptError, OSError):
            # Cut off, or the disk cannot read some of them.
            if len(addresses) == 1:
                return addresses
            return np.concatenate([self._unfit(half) for half in np.array_split(addresses, 2)])

    def _different(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of chunks whose sums are not those of the table."""
        assert self._table is not None
        chunk_bytes = self._header.chunk_bytes
        told = np.empty(len(addresses), np.uint32)
        first = 0
        while first < len(addresses):  # they may be far from each other
            low = int(addresses[first])
            stop = int(np.searchsorted(addresses, low + SUMS_AT_ONCE))
            part = read_sums(self._metadata, self._table, low, int(addresses[stop - 1]) + 1)
            told[first:stop] = part[addresses[first:stop] - low]
            first = stop
        sums = chunk_sums(self._data, addresses, chunk_bytes)
        wrong: NDArray[np.int64] = addresses[sums != told ^ np.uint32(self._empty)]
        return wrong
