"""The readable parts of damaged files: states, the growth log, the chunks of a truncated file.

Chunks lie in the order in which the array grew.  A truncated file therefore lacks whole segments,
the latest ones, and the last rows of chunks of the segment before them.
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
#: Corners of a box of chunks or elements: its first indices, and those behind its last.
Corners = tuple[Index, Index]

_AT_ONCE = 1 << 14  # chunks examined together
_MOST_BOXES = 6


class WholeLog(NamedTuple):
    """The whole part of the growth log."""

    axes: NDArray[np.uint8]
    sides: NDArray[np.uint8]
    grids: NDArray[np.int64]
    extents: list[int]  # offsets of the extents that hold the records
    fault: tuple[int, str] | None  # offset and reason of the first damage

    def __len__(self) -> int:
        return len(self.axes)

    def replay(self, n: int, grid: Sequence[int]) -> Axial:
        """Return the axial vectors of the first `n` records; raise like `replay_log`."""
        return replay_log(Axial, self.axes[:n], self.sides[:n], self.grids[:n], grid)


@dataclass
class Slot:
    """A superblock, and the state of the parts it points to."""

    number: int
    block: Superblock | None  # None: never written, or torn
    blank: bool = False  # never written
    fault: str | None = None  # why the state is unusable, attributes aside
    misplaced: bool = False  # otherwise whole, but its parts overlap others or lie beyond the end
    attrs: str | None = None  # None unless whole

    @property
    def torn(self) -> bool:
        """Tell whether it was written, but fails its checksum."""
        return self.block is None and not self.blank

    @property
    def whole(self) -> bool:
        """Tell whether `open` can take the state, judged by ``.xmd`` alone."""
        sound = self.fault is None and not self.misplaced
        return self.block is not None and sound and self.attrs is not None


def read_log(file: File, header: Header, stop: int) -> WholeLog:
    """Read the first `stop` records of the growth log (`MOST_RECORDS`: all), up to any damage."""
    try:
        records, extents = read_records(file, header, (), 0, stop)
        return WholeLog(*records, extents, None)
    except CorruptError as error:
        why = str(error)
    # Bisect between the number of records known to be whole and one that includes damage.
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
    if number == len(extents):  # the place of the next extent is unknown
        at = extents[-1]
    else:
        place = whole - extent_capacity(0) * (2**number - 1)
        at = extents[number] + EXTENT_HEAD_BYTES + place * record_bytes(header.ndim)
    return WholeLog(*records, extents, (at, why))


class Salvage(NamedTuple):
    """The remains of an array whose file is too short; boxes hold elements, by present indices."""

    whole: Corners | None  # the largest box without a lost element; None if there is none
    lost: list[Corners]
    first_lost: int  # address of the first chunk that is not whole in the file
    outside: list[tuple[int, int]]  # runs of whole chunks with elements outside of that box

    @property
    def told(self) -> str:
        """The lost elements as text."""
        if not self.lost:
            return "no elements lost"
        more = len(self.lost) - _MOST_BOXES
        boxes = ", ".join(box_text(*box) for box in self.lost[:_MOST_BOXES])
        return f"elements lost: {boxes}" + (f" and {more} more boxes" if more > 0 else "")

    @property
    def n_outside(self) -> int:
        """Number of whole chunks that lie outside of the bounds."""
        return sum(stop - first for first, stop in self.outside)

    @property
    def is_empty(self) -> bool:
        """Tell whether no element can be kept."""
        return self.whole is None or not _size(self.whole)

    @property
    def bounds(self) -> str:
        """The largest whole bounds, written as an index."""
        return "" if self.whole is None else box_text(*self.whole)

    def remedy(self, repair: str) -> str:
        """Say what a repair command can do, and what it gives up."""
        if self.is_empty:
            return "create it again: none of its elements can be kept"
        if self.outside:
            return (
                f"{repair} --force keeps {self.bounds}, the largest intact bounds, and discards "
                f"{self.n_outside} chunks outside them"
            )
        return f"{repair} keeps {self.bounds}, the largest intact bounds"


def salvage(header: Header, block: Superblock, axial: Axial, there: int) -> Salvage:
    """Find the remains of a state whose chunks need more bytes than are there."""
    n = chunks_before(there, header.chunk_bytes)
    boxes = [_elements(box, header, block) for box in _whole_boxes(axial, n)]
    if not boxes:
        return Salvage(None, [((), ())], n, [])
    if n > limits.chunks_looked_at:
        # Consider only whole rows of chunks: the chunks of a partial row lie outside.
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
    """Return the addresses below `n` of chunks with elements that lie outside of a box."""
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
    """Group rising addresses into runs of (first, last + 1)."""
    if not addresses.size:
        return []
    ends = np.flatnonzero(np.diff(addresses) > 1)
    firsts = addresses[np.concatenate([[0], ends + 1])]
    lasts = addresses[np.concatenate([ends, [addresses.size - 1]])]
    return [(int(a), int(z) + 1) for a, z in zip(firsts, lasts, strict=True)]


def box_text(start: tuple[int, ...], stop: tuple[int, ...]) -> str:
    """Write a box of elements as an index.

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
    return math.prod(z - a for a, z in zip(*box, strict=True))


class _Segment(NamedTuple):
    """The chunks that one growth added."""

    axis: int
    side: int
    start: Index
    stop: Index
    edge: int  # of the previous grid, at the far side of the axis

    @property
    def n_rows(self) -> int:
        """Number of layers of chunks along the grown axis."""
        return self.stop[self.axis] - self.start[self.axis]

    @property
    def row(self) -> int:
        """Number of chunks in a row."""
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
        """Return the bounds of the previous grid extended by the first rows of the segment."""
        low, high = self.rows(0, n_rows)
        (high if self.side else low)[self.axis] = self.edge
        return low, high

    def digits(self, n: int) -> Iterator[tuple[int, int, int]]:
        """Split `n` chunks of a row by axis, slowest first: yield axis, whole layers, remainder."""
        size = self.row
        for j in range(len(self.start)):
            if j != self.axis:
                size //= self.stop[j] - self.start[j]
                layers, n = divmod(n, size)
                yield j, layers, n


def _segments(axial: Axial) -> Iterator[tuple[_Segment, int]]:
    """Yield each segment with its first address, in address order."""
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
    """Yield boxes of chunks whose addresses are all below `n`, including the largest such box."""
    if not axial.ndim:
        if n:
            yield (), ()
        return
    segment, n_rows, rest = _cut_segment(axial, n)
    low, high = segment.grid(n_rows)
    yield tuple(low), tuple(high)
    if rest:
        # Include the partial row; every other row is cut to the same part.
        low, high = segment.grid(n_rows + 1)
        for j, layers, _ in segment.digits(rest):
            high[j] = low[j] + layers
            yield tuple(low), tuple(high)
            high[j] += 1


def _lost_boxes(axial: Axial, n: int) -> Iterator[Corners]:
    """Yield boxes of chunks that together cover the addresses from `n` on."""
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
                # First the layers that follow along this axis, then the rest of the same layer.
                low[j] = first + (1 if more else 0)
                yield tuple(low), tuple(high)
                if not more:
                    break
                low[j], high[j] = first, first + 1
            n_rows += 1
        low, high = segment.rows(n_rows, segment.n_rows)
        yield tuple(low), tuple(high)


def _cut_segment(axial: Axial, n: int) -> tuple[_Segment, int, int]:
    """Return the segment with address `n`, or the last one; its whole rows before it; the rest."""
    for segment, address in _segments(axial):
        if n < address + segment.n_rows * segment.row:
            return segment, *divmod(n - address, segment.row)
    return segment, segment.n_rows, 0
