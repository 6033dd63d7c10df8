"""Checksums of chunks: their table in ``.xmd``, when to trust it, and comparisons.

The table has four bytes per chunk, by address, in extents that double in size.  An entry is the
checksum of the chunk xor that of a chunk of fill values.  So zero is right for every chunk never
written, and growth writes no entries.

A flag beside the table says that the sums are *in doubt*: chunks may have been written since.  It
is on disk before the first such write, and is cleared once new sums are on disk.
"""

from __future__ import annotations

import itertools
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from extarray._core._transfers import quiet_number
from extarray.common.config import config
from extarray.common.errors import CorruptError
from extarray.common.limits import limits
from extarray.common.threads import run_together
from extarray.format._crc import crc32c, crc32c_ranges
from extarray.format.blocks import decode_sums, encode_sums, sums_capacity
from extarray.format.constants import CELL
from extarray.format.header import Header
from extarray.format.superblock import Superblock, regions_fit
from extarray.grid.chunking import place_of
from extarray.storage.filesystem import File, family

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from numpy.typing import NDArray

    from extarray._core._supply import Supply, Use

__all__ = [
    "SUMS_AT_ONCE",
    "Comparison",
    "Sums",
    "chunk_sums",
    "extent_of_sum",
    "fill_sum",
    "read_sums",
    "read_table",
]

# Sums to write in one piece.
SUMS_AT_ONCE = 1 << 16

# Looks at a chunk before it counts as damaged, since a writer may be at work.
_LOOKS = 3


def extent_of_sum(address: int) -> tuple[int, int]:
    """Return which table extent holds the sum of a chunk, and its index there.

    Examples
    --------
    >>> extent_of_sum(0), extent_of_sum(1023), extent_of_sum(1024)
    ((0, 0), (0, 1023), (1, 0))
    """
    number = (address // sums_capacity(0) + 1).bit_length() - 1
    return number, address - sums_capacity(0) * (2**number - 1)


def fill_sum(header: Header) -> int:
    """Return the checksum of a chunk of fill values."""
    elements = header.chunk_bytes // len(header.fill)
    piece = header.fill * min(elements, max(1, (1 << 20) // len(header.fill)))
    whole, rest = divmod(header.chunk_bytes, len(piece))
    sum_ = 0
    for _ in range(whole):
        sum_ = crc32c(piece, sum_)
    return crc32c(piece[:rest], sum_)


def chunk_sums(data: File, addresses: NDArray[np.int64], chunk_bytes: int) -> NDArray[np.uint32]:
    """Compute the checksums of chunks in ``.xta``, with as many threads as pay off."""
    offsets = place_of(addresses, chunk_bytes) + data.start
    n = len(offsets)
    shares = min(config.threads, n, max(1, n * chunk_bytes // limits.share_bytes))
    if shares <= 1:
        with data as fd:
            return crc32c_ranges(fd, offsets, chunk_bytes)
    sums = np.empty(n, np.uint32)

    def work(first: int, stop: int) -> None:
        with data as fd:
            sums[first:stop] = crc32c_ranges(fd, offsets[first:stop], chunk_bytes)

    edges = [n * i // shares for i in range(shares + 1)]
    run_together([partial(work, *edge) for edge in itertools.pairwise(edges)])
    return sums


def read_sums(file: File, extents: Sequence[int], first: int, stop: int) -> NDArray[np.uint32]:
    """Return the table's entries for chunks first ... stop - 1; zeros beyond its extents.

    Raise CorruptError if the file ends too early.
    """
    found = np.zeros(stop - first, "<u4")
    low = first
    while low < stop:
        number, place = extent_of_sum(low)
        high = min(stop, low + sums_capacity(number) - place)
        if number < len(extents):
            part = file.read(4 * (high - low), extents[number] + 4 * place)
            if len(part) != 4 * (high - low):
                raise CorruptError("the table of checksums is truncated")
            found[low - first : high - first] = np.frombuffer(part, "<u4")
        low = high
    return found


class Sums:
    """The checksums of an array's chunks, as its writer keeps them.

    Parameters
    ----------
    file : File
        ``.xmd``.
    header : Header
    extents : list of int
    in_doubt : bool
    path : PathLike
        Path of the pair, for messages.

    Attributes
    ----------
    in_doubt : bool
        The files say that the sums are in doubt, so writes need not note it.
    unsettled : bool
        They may say so although nothing was written, as clearing the note has failed.
    inherited : bool
        The sums were in doubt already and stay so: nobody knows which chunks were written.
    lost : bool
        The table lacks entries of its predecessor, so all chunks count as written.
    extents : list of int
        Offsets of the table's extents.
    alone : bool
        No other process writes chunks.
    """

    def __init__(
        self,
        file: File,
        header: Header,
        extents: list[int],
        in_doubt: bool,
        path: str | PathLike[str],
    ) -> None:
        self._path = path
        self.extents = extents
        self.in_doubt = in_doubt
        self._file = file
        self._header = header
        self._offset = header.sums_offset
        self._fill: int | None = None
        self.unsettled = False
        self.inherited = False
        self.lost = False
        self.alone = True
        self._lock = threading.Lock()

    @classmethod
    def load(
        cls,
        file: File,
        header: Header,
        n_chunks: int,
        state: Superblock,
        log: Sequence[int],
        path: str | PathLike[str],
    ) -> Sums:
        """Take over the sums of the last writer, for `n_chunks` chunks.

        Table extents beyond the end of the state belong to a lost state.  `log` gives the extents
        of the growth log.
        """
        found = decode_sums(file.read(CELL, header.sums_offset), header.uuid)
        in_doubt, extents = (True, []) if found is None else found
        kept = [e for n, e in enumerate(extents) if e + 4 * sums_capacity(n) <= state.end]
        length = file.length
        if not regions_fit(state, header, log, kept) or any(
            e + 4 * sums_capacity(n) > length for n, e in enumerate(kept)
        ):
            in_doubt, kept = True, []  # forged: writing there would do harm
        self = cls(file, header, kept, in_doubt, path)
        self.inherited = in_doubt
        if in_doubt or not state.sealed:
            self.forget(n_chunks)
        if kept != extents:
            self.note(in_doubt)
        return self

    @property
    def file(self) -> File:
        """The file of the table, ``.xmd``."""
        return self._file

    @property
    def are_settled(self) -> bool:
        """True if the files say that the sums are right."""
        return not (self.in_doubt or self.unsettled)

    @property
    def reach(self) -> int:
        """Number of chunks the table has room for; no chunk beyond was written and flushed."""
        return sum(map(sums_capacity, range(len(self.extents))))

    def forget(self, first: int) -> None:
        """Erase the sums from an address on: new chunks will hold the fill value."""
        number, place = extent_of_sum(first)
        for n, offset in enumerate(self.extents[number:], number):
            start = place if n == number else 0
            self._file.erase(offset + 4 * start, offset + 4 * sums_capacity(n))

    def hand_out(self) -> None:
        """Leave sums in doubt from now on, since others may write chunks unannounced."""
        self.inherited = True
        self.doubt()

    def note(self, in_doubt: bool) -> None:
        """Write the place of the table, and whether sums are in doubt."""
        self._file.write(encode_sums(in_doubt, self.extents, self._header.uuid), self._offset)

    def doubt(self) -> None:
        """Note in the files that sums are in doubt, before any write.

        The note goes to disk first, lest a power cut keep the write and lose the flag.
        """
        with self._lock, family("cannot mark the checksums of '{}' as in doubt", self._path):
            if not self.in_doubt:
                self.note(True)
                self._file.datasync()
                self.in_doubt = True

    def make_room(
        self, address: int, state: Superblock, commit: Callable[[Superblock], None]
    ) -> None:
        """Extend the table to reach a chunk, in free space of ``.xmd`` that a commit takes.

        `state` is the present one; `commit` makes its successor count.
        """
        number, _ = extent_of_sum(address)
        offset = state.end
        new = []
        for n in range(len(self.extents), number + 1):
            new.append(offset)
            offset += 4 * sums_capacity(n)
        if new:
            # Leave a hole: a sparse array may have a single chunk written, very far away.
            length = self._file.length
            self._file.erase(state.end, min(offset, length))
            if length < offset:
                self._file.truncate(offset)
            commit(state._replace(sequence=state.sequence + 1, end=offset))
            self.extents += new
            self.note(True)

    def renew(self, data: File, addresses: NDArray[np.int64]) -> None:
        """Write the sums of chunks, in rising order; the table has room for them."""
        self.put(addresses, self.entries(data, addresses))

    def entries(self, data: File, addresses: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Compute the table entries of chunks from their present bytes."""
        if self._fill is None:  # large chunks take a while
            self._fill = fill_sum(self._header)
        sums = chunk_sums(data, addresses, self._header.chunk_bytes)
        return sums ^ np.uint32(self._fill)

    def entry_of(self, chunk: memoryview) -> int:
        """Compute the table entry of a chunk from its bytes."""
        if self._fill is None:
            self._fill = fill_sum(self._header)
        return crc32c(chunk) ^ self._fill

    def put(self, addresses: NDArray[np.int64], sums: NDArray[np.uint32]) -> None:
        """Write the result of `entries` for chunks in rising order; the table has room."""
        first = 0
        while first < len(addresses):
            # Write neighbouring entries together.
            low = int(addresses[first])
            number, place = extent_of_sum(low)
            near = min(sums_capacity(number) - place, SUMS_AT_ONCE)
            stop = int(np.searchsorted(addresses, low + near))
            part = read_sums(self._file, self.extents, low, int(addresses[stop - 1]) + 1)
            part[addresses[first:stop] - low] = sums[first:stop]
            self._file.write(part.data.cast("B"), self.extents[number] + 4 * place)
            first = stop

    def restore(self, sums: NDArray[np.uint32]) -> None:
        """Write entries of another table for chunks 0, 1, ...; the table has room."""
        low = 0
        while low < len(sums):
            number, place = extent_of_sum(low)
            part = sums[low : low + min(sums_capacity(number) - place, SUMS_AT_ONCE)]
            if part.any():
                self._file.write(part.data.cast("B"), self.extents[number] + 4 * place)
            low += len(part)

    def settle(self, array: Any, writes: int | None) -> None:
        """Note that sums are right, once they are on disk, unless something was written since.

        `writes` is the array's `quiet_number` before the sums were made.
        """
        if self.inherited or writes is None:
            return
        with self._lock:
            before = self.in_doubt  # which may be False while the sums are unsettled
            self.in_doubt = False  # anyone about to write waits for the lock now
            try:
                if quiet_number(array) != writes:
                    self.in_doubt = before
                    return
                self.note(False)
                self._file.datasync()
            except BaseException:
                self.unsettled = True
                raise
            self.unsettled = False


# -- comparisons, also while a writer is at work ---------------------------------------------------


def read_table(file: File, header: Header, end: int | None) -> tuple[bool, list[int]] | None:
    """Return whether checksums are in doubt, and the table's extents; None if it is damaged.

    Extents beyond `end`, the end of the used part of ``.xmd``, belong to a lost state.
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


class Blobs(Protocol):
    """Frozen chunks, as a comparison needs them."""

    def entries(self, addresses: NDArray[np.int64]) -> NDArray[np.uint64]: ...
    def read_into(self, target: memoryview, address: int, verify: bool = True) -> None: ...


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
        The sums of this process, if it is the writer; they know the table.
    supply : Supply, optional
        Where chunks come from elsewhere.
    frozen : Blobs, optional
        Which chunks are frozen, and so not in the data.

    Attributes
    ----------
    in_doubt : bool
        A mismatched chunk may have been written after its checksum.
    """

    def __init__(
        self,
        metadata: File,
        data: File,
        header: Header,
        end: int | None = None,
        sums: Sums | None = None,
        supply: Supply | None = None,
        frozen: Blobs | None = None,
    ) -> None:
        self.in_doubt = False
        self._frozen = frozen
        self._supply = supply
        self._sums = sums
        self._metadata, self._data, self._header, self._end = metadata, data, header, end
        self._table: list[int] | None = None
        self._empty = fill_sum(header)

    @property
    def _step(self) -> int:
        most = max(1, limits.compared_bytes // self._header.chunk_bytes)
        return most if self._supply is None else min(most, self._supply.share)

    def run(self, n_chunks: int, progress: Callable[[int, int], None] | None) -> NDArray[np.int64]:
        """Return the addresses of mismatched chunks among the first `n_chunks`."""
        step = min(SUMS_AT_ONCE, self._step)
        found = [np.empty(0, np.int64)]
        self._look_at_table()
        for first in range(0, n_chunks, step):
            wrong = self._unfit(np.arange(first, min(n_chunks, first + step)))
            if wrong.size:
                # A writer may be at work; if so, the table says so before or after.
                self._look_at_table()
                found.append(self._unfit(wrong))
                self._look_at_table()
            if progress is not None:
                progress(min(n_chunks, first + step), n_chunks)
        return np.concatenate(found)

    def surely_unfit(self, addresses: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the chunks that mismatch while nobody writes; None if nobody can tell.

        Addresses come in rising order; some may be repeated.
        """
        step = self._step
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

    def differing(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the chunks that mismatch, whether or not the checksums are in doubt.

        Addresses come in rising order.
        """
        step = self._step
        found = [np.empty(0, np.int64)]
        for first in range(0, len(addresses), step):
            for _ in range(_LOOKS):
                self._look_at_table()
                if self._table is not None:
                    break
            else:
                raise CorruptError("the block of the checksums is damaged")
            found.append(self._different(addresses[first : first + step]))
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
        used = self._use(addresses)  # a provider that fails says nothing about the chunks
        try:
            return self._different(addresses)
        except (CorruptError, OSError):
            # The file is cut off, or the disk cannot read some chunks.
            if len(addresses) == 1:
                return addresses
            return np.concatenate([self._unfit(half) for half in np.array_split(addresses, 2)])
        finally:
            del used  # from here on, chunks may be evicted

    def _use(self, addresses: NDArray[np.int64]) -> Use | None:
        """Bring chunks that come from elsewhere, and keep them while the result lives."""
        return None if self._supply is None else self._supply.use(np.unique(addresses))

    def _different(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the chunks whose sums differ from the table's."""
        assert self._table is not None
        chunk_bytes = self._header.chunk_bytes
        told = np.empty(len(addresses), np.uint32)
        first = 0
        while first < len(addresses):  # addresses may be far apart
            low = int(addresses[first])
            stop = int(np.searchsorted(addresses, low + SUMS_AT_ONCE))
            part = read_sums(self._metadata, self._table, low, int(addresses[stop - 1]) + 1)
            told[first:stop] = part[addresses[first:stop] - low]
            first = stop
        used = self._use(addresses)
        sums = chunk_sums(self._data, addresses, chunk_bytes)
        del used
        if self._frozen is not None:
            # Later than the raw places: those may have become holes meanwhile.
            chunk = memoryview(bytearray(chunk_bytes))
            for i in np.flatnonzero(self._frozen.entries(addresses)).tolist():
                self._frozen.read_into(chunk, int(addresses[i]))
                sums[i] = crc32c(chunk)
        wrong: NDArray[np.int64] = addresses[sums != told ^ np.uint32(self._empty)]
        return wrong
