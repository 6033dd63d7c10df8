"""The readable parts of damaged files: states, the growth log, the chunks of a file cut short.

Chunks lie in the order in which the array grew, so that a file that is cut short lacks all of the
latest segments, and of one more segment the last rows of chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from extarray._core._axial import Axial
from extarray._core._history import replay_log
from extarray.common.errors import CorruptError
from extarray.common.limits import limits
from extarray.format.records import (
    EXTENT_HEAD_BYTES,
    extent_capacity,
    extent_of_record,
    record_bytes,
)
from extarray.grid.address_runs import segment_boxes
from extarray.grid.chunking import chunks_before
from extarray.storage.states import read_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from extarray.format.header import Header
    from extarray.format.superblock import Superblock
    from extarray.storage.filesystem import File

__all__ = [
    "MOST_RECORDS",
    "Salvage",
    "Slot",
    "WholeLog",
    "box_text",
    "read_log",
    "runs_of",
    "salvage",
]

MOST_RECORDS = 2**31 - 1

Index = tuple[int, ...]
#: Of a box, of chunks or of elements: the first indices, and those behind the last.
Corners = tuple[Index, Index]

_AT_ONCE = 1 << 14  # chunks that are looked at together
_MOST_BOXES = 6


class WholeLog(NamedTuple):
    """The growth log, as far as it is whole."""

    axes: NDArray[np.uint8]
    sides: NDArray[np.uint8]
    grids: NDArray[np.int64]
    extents: list[int]  # offsets of those that the records lie in
    fault: tuple[int, str] | None  # where it stops being whole, and why

    def __len__(self) -> int:
        return len(self.axes)

    def replay(self, n: int, grid: Sequence[int]) -> Axial:
        """Return the axial vectors of the first records, up to a grid; raise as `replay_log`."""
        return replay_log(Axial, self.axes[:n], self.sides[:n], self.grids[:n], grid)


@dataclass
class Slot:
    """A superblock, and what it points to."""

    number: int
    block: Superblock | None  # None: never written, or torn
    blank: bool = False  # never written
    fault: str | None = None  # why the state is not whole, attributes aside
    misplaced: bool = False  # whole otherwise, but what it points to has no place of its own
    attrs: str | None = None  # where they are whole

    @property
    def torn(self) -> bool:
        """Tell whether it was written, and is not whole by its checksum."""
        return self.block is None and not self.blank

    @property
    def whole(self) -> bool:
        """Tell whether `open` can take the state, as far as ``.xmd`` goes."""
        sound = self.fault is None and not self.misplaced
        return self.block is not None and sound and self.attrs is not None


def read_log(file: File, header: Header, stop: int) -> WholeLog:
    """Read the records of the growth log before `stop`, up to the first that is damaged.

    With `MOST_RECORDS`, as many as there are.
    """
    try:
        records, extents = read_records(file, header, (), 0, stop)
        return WholeLog(*records, extents, None)
    except CorruptError as error:
        why = str(error)
    # So many are whole, and so many are not.
    whole, damaged = 0, min(stop, 1 + file.length // record_bytes(header.ndim))
    records, extents = read_records(file, header, (), 0, whole)
    while damaged - whole > 1:
        n = (whole + damaged) // 2
        try:
            records, extents = read_records(file, header, (), 0, n)
            whole = n
        except CorruptError as error:
            damaged, why = n, str(error)
    number = extent_of_record(whole)
    if number == len(extents):  # nothing tells where the next extent is
        at = extents[-1]
    else:
        place = whole - extent_capacity(0) * (2**number - 1)
        at = extents[number] + EXTENT_HEAD_BYTES + place * record_bytes(header.ndim)
    return WholeLog(*records, extents, (at, why))


class Salvage(NamedTuple):
    """The rest of an array whose file is too short; boxes are of elements, by present indices."""

    whole: Corners | None  # the largest in which no element is lost; None: there are none
    lost: list[Corners]
    first_lost: int  # address of the first chunk that is not whole in the file
    outside: list[tuple[int, int]]  # runs of whole chunks with elements outside of the bounds

    @property
    def told(self) -> str:
        """The elements that are lost."""
        if not self.lost:
            return "no elements lost"
        more = len(self.lost) - _MOST_BOXES
        boxes = ", ".join(box_text(*box) for box in self.lost[:_MOST_BOXES])
        return f"elements lost: {boxes}" + (f" and {more} more boxes" if more > 0 else "")

    @property
    def n_outside(self) -> int:
        """Number of chunks that are whole and lie outside of the bounds."""
        return sum(stop - first for first, stop in self.outside)

    @property
    def is_empty(self) -> bool:
        """Tell whether no element can be kept."""
        return self.whole is None or not _size(self.whole)

    @property
    def bounds(self) -> str:
        """The largest bounds that are whole, as an index has them."""
        return "" if self.whole is None else box_text(*self.whole)

    def remedy(self, repair: str) -> str:
        """Tell what a repair by a command can do, and what it gives up."""
        if self.is_empty:
            return "create it again: none of its elements can be kept"
        if self.outside:
            return (
                f"{repair} --force keeps {self.bounds}, the largest intact bounds, and discards "
                f"{self.n_outside} chunks outside them"
            )
        return f"{repair} keeps {self.bounds}, the largest intact bounds"


def salvage(header: Header, block: Superblock, axial: Axial, there: int) -> Salvage:
    """Find what is left of a state that needs more bytes of chunks than are there."""
    n = chunks_before(there, header.chunk_bytes)
    boxes = [_elements(box, header, block) for box in _whole_boxes(axial, n)]
    if not boxes:
        return Salvage(None, [((), ())], n, [])
    if n > limits.chunks_looked_at:
        # Whole rows of chunks alone: what is left of one more row is what lies outside.
        *_, rest = _cut_segment(axial, n)
        row = n - rest
        whole, outside = boxes[0], [(row, n)] if row < n else []
    else:
        whole = max(boxes, key=_size)
        outside = runs_of(_outside(header, block, axial, n, whole))
    lost = [_elements(box, header, block) for box in _lost_boxes(axial, n)]
    return Salvage(whole, [box for box in lost if _size(box)], n, outside)


def _outside(
    header: Header, block: Superblock, axial: Axial, n: int, whole: Corners
) -> NDArray[np.int64]:
    """Return the addresses below `n` of chunks that have elements, and lie outside of a box."""
    chunks, offset, shape = header.chunks, block.offset, block.shape
    first = [(a + b) // c for a, b, c in zip(whole[0], offset, chunks, strict=True)]
    stop = [-(-(z + b) // c) for z, b, c in zip(whole[1], offset, chunks, strict=True)]
    found = [np.empty(0, np.int64)]
    for low in range(0, n, _AT_ONCE):
        addresses = np.arange(low, min(n, low + _AT_ONCE))
        indices = axial.indices(addresses).reshape(len(addresses), len(chunks))
        inside = np.ones(len(addresses), bool)
        shown = np.ones(len(addresses), bool)
        for j, (a, z, b, c, m) in enumerate(zip(first, stop, offset, chunks, shape, strict=True)):
            at = indices[:, j]
            inside &= (at >= a) & (at < z)
            shown &= (at >= b // c) & (at < -(-(b + m) // c))
        found.append(addresses[shown & ~inside])
    return np.concatenate(found)


def runs_of(addresses: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return rising addresses as runs: the first of each, and the one behind its last."""
    if not addresses.size:
        return []
    ends = np.flatnonzero(np.diff(addresses) > 1)
    firsts = addresses[np.concatenate([[0], ends + 1])]
    lasts = addresses[np.concatenate([ends, [addresses.size - 1]])]
    return [(int(a), int(z) + 1) for a, z in zip(firsts, lasts, strict=True)]


def box_text(start: tuple[int, ...], stop: tuple[int, ...]) -> str:
    """Return a box of elements as an index has it.

    Examples
    --------
    >>> box_text((0, 5), (10, 6))
    '[0:10, 5:6]'
    """
    return f"[{', '.join(f'{a}:{z}' for a, z in zip(start, stop, strict=True)) or '()'}]"


def _elements(box: Corners, header: Header, block: Superblock) -> Corners:
    """Return the elements of a box of chunks, by present indices."""
    low, high = [], []
    for a, z, c, b, m in zip(*box, header.chunks, block.offset, block.shape, strict=True):
        low.append(min(max(a * c - b, 0), m))
        high.append(min(max(z * c - b, low[-1]), m))
    return tuple(low), tuple(high)


def _size(box: Corners) -> int:
    """Return the number of elements."""
    return math.prod(z - a for a, z in zip(*box, strict=True))


class _Segment(NamedTuple):
    """The chunks that a growth has added."""

    axis: int
    side: int
    start: Index
    stop: Index
    edge: int  # of the grid that it found, at the side of its axis that it left

    @property
    def n_rows(self) -> int:
        """Number of layers of chunks along its axis."""
        return self.stop[self.axis] - self.start[self.axis]

    @property
    def row(self) -> int:
        """Number of chunks of a row."""
        pairs = enumerate(zip(self.start, self.stop, strict=True))
        return math.prod(z - a for j, (a, z) in pairs if j != self.axis)

    def rows(self, first: int, stop: int) -> tuple[list[int], list[int]]:
        """Return the bounds of rows first ... stop - 1."""
        low, high, j = list(self.start), list(self.stop), self.axis
        if self.side:
            low[j], high[j] = high[j] - stop, high[j] - first
        else:
            low[j], high[j] = low[j] + first, low[j] + stop
        return low, high

    def grid(self, n_rows: int) -> tuple[list[int], list[int]]:
        """Return the bounds of the grid that was there, with the first rows of the segment."""
        low, high = self.rows(0, n_rows)
        (high if self.side else low)[self.axis] = self.edge
        return low, high

    def digits(self, n: int) -> Iterator[tuple[int, int, int]]:
        """Yield how `n` chunks fill a row: by axis, from the slowest, whole layers and the rest."""
        size = self.row
        for j in range(len(self.start)):
            if j != self.axis:
                size //= self.stop[j] - self.start[j]
                layers, n = divmod(n, size)
                yield j, layers, n


def _segments(axial: Axial) -> Iterator[tuple[_Segment, int]]:
    """Yield the segments, each with its first address, in the order of these."""
    low, high = [0] * axial.ndim, [0] * axial.ndim
    address = 0
    for number, (axis, side, start, stop) in enumerate(segment_boxes(axial)):
        if not number:
            low = list(start)
        segment = _Segment(axis, side, start, stop, (high if side else low)[axis])
        yield segment, address
        address += segment.n_rows * segment.row
        low, high = list(map(min, low, start)), list(map(max, high, stop))


def _whole_boxes(axial: Axial, n: int) -> Iterator[Corners]:
    """Yield boxes of chunks, all of whose addresses are below `n`; the largest is one of them."""
    if not axial.ndim:
        if n:
            yield (), ()
        return
    segment, n_rows, rest = _cut_segment(axial, n)
    low, high = segment.grid(n_rows)
    yield tuple(low), tuple(high)
    if rest:
        # With the row that is there in part, of which all other rows must not have more.
        low, high = segment.grid(n_rows + 1)
        for j, layers, _ in segment.digits(rest):
            high[j] = low[j] + layers
            yield tuple(low), tuple(high)
            high[j] += 1


def _lost_boxes(axial: Axial, n: int) -> Iterator[Corners]:
    """Yield boxes of chunks that together have the addresses from `n` on."""
    if not axial.ndim:
        if n < axial.size:
            yield (), ()
        return
    for segment, address in _segments(axial):
        if address + segment.n_rows * segment.row <= n:
            continue
        n_rows, rest = divmod(max(0, n - address), segment.row)
        if rest:
            low, high = segment.rows(n_rows, n_rows + 1)
            for j, layers, more in segment.digits(rest):
                first = low[j] + layers
                # What follows along this axis, and then what is in the same layer of it.
                low[j] = first + (1 if more else 0)
                yield tuple(low), tuple(high)
                if not more:
                    break
                low[j], high[j] = first, first + 1
            n_rows += 1
        low, high = segment.rows(n_rows, segment.n_rows)
        yield tuple(low), tuple(high)


def _cut_segment(axial: Axial, n: int) -> tuple[_Segment, int, int]:
    """Return the segment that has address `n`, or the last; its whole rows before, and the rest."""
    for segment, address in _segments(axial):
        if n < address + segment.n_rows * segment.row:
            return segment, *divmod(n - address, segment.row)
    return segment, segment.n_rows, 0
