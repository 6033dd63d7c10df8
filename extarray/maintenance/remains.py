"""What remains of damaged metadata: superblocks, attributes, the growth log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from extarray.common.errors import CorruptError
from extarray.format._crc import crc32c, crc32c_rows
from extarray.format.header import Header
from extarray.format.records import (
    EXTENT_HEAD_BYTES,
    decode_extent_head,
    decode_records,
    extent_capacity,
    record_bytes,
)
from extarray.format.superblock import Superblock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from extarray.storage.filesystem import File

__all__ = ["MOST_RECORDS", "Log", "Slot", "read_log"]

MOST_RECORDS = 2**31 - 1


class Log(NamedTuple):
    """The growth log, as far as it is whole."""

    axes: NDArray[np.uint8]
    sides: NDArray[np.uint8]
    grids: NDArray[np.int64]
    extents: list[int]
    fault: tuple[int, str] | None  # where it stops being whole, and why

    def __len__(self) -> int:
        return len(self.axes)


@dataclass
class Slot:
    """A superblock, and what it points to.

    Attributes
    ----------
    block : Superblock or None
        None: never written, or torn.
    blank : bool
        Never written.
    fault : str or None
        Why the state is not whole, attributes aside.
    misplaced : bool
        What it points to has no place of its own, where it is whole otherwise.
    attrs : str or None
        The attributes, where they are whole.
    """

    number: int
    block: Superblock | None
    blank: bool = False
    fault: str | None = None
    misplaced: bool = False
    attrs: str | None = None

    @property
    def torn(self) -> bool:
        """Whether it was written, and is not whole by its checksum."""
        return self.block is None and not self.blank

    @property
    def whole(self) -> bool:
        """Whether `open` can take the state, as far as ``.xmd`` goes."""
        sound = self.fault is None and not self.misplaced
        return self.block is not None and sound and self.attrs is not None


def read_log(file: File, header: Header, stop: int) -> Log:
    """The records of the growth log before `stop`, up to the first that is damaged."""
    size, length = record_bytes(header.ndim), file.length
    seed = crc32c(header.uuid)
    extents, parts, done = [header.first_extent], [np.empty((0, size), np.uint8)], 0
    fault = None
    while True:
        offset = extents[-1] + EXTENT_HEAD_BYTES
        wanted = min(stop - done, extent_capacity(len(extents) - 1))
        there = max(0, min(wanted, (length - offset) // size))
        rows = np.frombuffer(file.read(there * size, offset), np.uint8)
        rows = rows[: len(rows) // size * size].reshape(-1, size)
        good = crc32c_rows(rows[:, 4:], seed) == rows[:, :4].copy().view("<u4")[:, 0]
        good &= rows[:, 4] < 2
        n = len(rows) if good.all() else int(good.argmin())
        parts.append(rows[:n])
        done += n
        if n < wanted:
            what = "damaged" if n < len(rows) else "cut off"
            fault = offset + n * size, f"record {done} of the growth log is {what}"
            break
        if done == stop:
            break
        try:
            following = decode_extent_head(file.read(EXTENT_HEAD_BYTES, extents[-1]), header.uuid)
            if not header.first_extent < following < length:
                raise CorruptError("the growth log is cut off")
        except CorruptError as error:
            fault = extents[-1], str(error)
            break
        extents.append(following)
    axes, sides, grids = decode_records(np.concatenate(parts))
    return Log(axes, sides, grids, extents, fault)
