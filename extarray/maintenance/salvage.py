"""What is left of an array whose ``.xta`` has lost its end: which elements, and in which bounds.

Chunks lie in the order in which the array grew, so that a file that is cut short lacks all of the
latest segments, and of one more segment the last rows of chunks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray.format.header import Header
    from extarray.format.superblock import Superblock

__all__ = ["Salvage", "box_text", "salvage"]

#: A box of chunks or of elements: its first indices, and those behind its last.
Box = tuple[tuple[int, ...], tuple[int, ...]]

_AT_ONCE = 1 << 14  # chunks that are looked at together
_MOST_CHUNKS = 1 << 20  # that are looked at one by one
_MOST_BOXES = 6


class Salvage(NamedTuple):
    """What a file that is too short has of an array.

    Attributes
    ----------
    whole : tuple of tuple of int, or None
        The largest bounds in which no element is lost, by present indices: the first, and those
        behind the last.  None: there are none, as of an array without axes.
    lost : list of tuple of tuple of int
        Boxes of what is lost, in the same way.
    first_lost : int
        Address of the first chunk that is not whole in the file.
    outside : list of tuple of int
        Runs of addresses of chunks that are whole, have elements, and lie outside of the bounds.
    """

    whole: Box | None
    lost: list[Box]
    first_lost: int
    outside: list[tuple[int, int]]

    @property
    def told(self) -> str:
        """Which elements are lost."""
        if not self.lost:
            return "no element is lost"
        more = len(self.lost) - _MOST_BOXES
        boxes = ", ".join(box_text(*box) for box in self.lost[:_MOST_BOXES])
        return f"lost are {boxes}" + (f" and {more} boxes more" if more > 0 else "")

    @property
    def n_outside(self) -> int:
        """Number of chunks that are whole and lie outside of the bounds."""
        return sum(stop - first for first, stop in self.outside)

    @property
    def is_empty(self) -> bool:
        """Whether no element can be kept."""
        return self.whole is None or not _size(self.whole)

    @property
    def bounds(self) -> str:
        """The largest bounds that are whole, as an index has them."""
        return "" if self.whole is None else box_text(*self.whole)

    def remedy(self, repair: str) -> str:
        """Tell what a repair can do, and what it gives up.

        Parameters
        ----------
        repair : str
            The command.

        Returns
        -------
        str
        """
        if self.is_empty:
            return "make it anew: none of its elements can be kept"
        if self.outside:
            return (
                f"{repair} --force keeps {self.bounds}, the largest bounds that are whole, and "
                f"gives up {self.n_outside} chunks outside of them"
            )
        return f"{repair} keeps {self.bounds}, the largest bounds that are whole"


def salvage(header: Header, block: Superblock, axial: Axial, there: int) -> Salvage:
    """Find what is left of an array.

    Parameters
    ----------
    header : Header
    block : Superblock
        Of a state that needs more bytes of chunks than there are.
    axial : Axial
        Of that state.
    there : int
        Bytes of chunks in the file.

    Returns
    -------
    Salvage
    """
    n = there // header.chunk_bytes
    boxes = [_elements(box, header, block) for box in _whole_boxes(axial, n)]
    if not boxes:
        return Salvage(None, [((), ())], n, [])
    if n > _MOST_CHUNKS:
        # Whole rows of chunks alone: what is left of one more row is what lies outside.
        segment, rest = _cut_segment(axial, n)
        row = n if segment is None else n - rest % segment.size
        whole, outside = boxes[0], [(row, n)] if row < n else []
    else:
        whole = max(boxes, key=_size)
        outside = _runs(_outside(header, block, axial, n, whole))
    lost = [_elements(box, header, block) for box in _lost_boxes(axial, n)]
    return Salvage(whole, [box for box in lost if _size(box)], n, outside)


def _outside(
    header: Header, block: Superblock, axial: Axial, n: int, whole: Box
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


def _runs(addresses: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return addresses in rising order as runs: the first, and the one behind the last."""
    if not addresses.size:
        return []
    ends = np.flatnonzero(np.diff(addresses) > 1)
    firsts = addresses[np.concatenate([[0], ends + 1])]
    lasts = addresses[np.concatenate([ends, [addresses.size - 1]])]
    return [(int(a), int(z) + 1) for a, z in zip(firsts, lasts, strict=True)]


def box_text(start: tuple[int, ...], stop: tuple[int, ...]) -> str:
    """Return a box of elements as an index has it.

    Parameters
    ----------
    start, stop : tuple of int

    Returns
    -------
    str

    Examples
    --------
    >>> box_text((0, 5), (10, 6))
    '[0:10, 5:6]'
    """
    return f"[{', '.join(f'{a}:{z}' for a, z in zip(start, stop, strict=True)) or '()'}]"


def _elements(box: Box, header: Header, block: Superblock) -> Box:
    """Return the elements of a box of chunks, by present indices."""
    low, high = [], []
    for a, z, c, b, m in zip(*box, header.chunks, block.offset, block.shape, strict=True):
        low.append(min(max(a * c - b, 0), m))
        high.append(min(max(z * c - b, low[-1]), m))
    return tuple(low), tuple(high)


def _size(box: Box) -> int:
    """Return the number of elements."""
    return math.prod(z - a for a, z in zip(*box, strict=True))


class _Segment(NamedTuple):
    """The chunks that a growth has added."""

    axis: int
    side: int
    before: Box  # the grid that it found
    rows: int
    size: int  # of a row, in chunks
    others: list[int]  # axes beside its own, the one that varies slowest first

    def box(self, first: int, stop: int, rest: Box | None = None) -> Box:
        """Return rows first ... stop - 1, of which some or all along the other axes."""
        low, high = map(list, self.before if rest is None else rest)
        j, (start, end) = self.axis, (side[self.axis] for side in self.before)
        if self.side:
            low[j], high[j] = start - stop, start - first
        else:
            low[j], high[j] = end + first, end + stop
        return tuple(low), tuple(high)


def _segments(axial: Axial) -> Iterator[_Segment]:
    """Yield the segments in the order of their addresses."""
    for number in range(axial.segments):
        axis, side, start, stop = axial._growth(number)
        if number:
            _, _, low, high = axial._growth(number - 1)
        else:
            low = start
            high = tuple(start[j] if j == axis else stop[j] for j in range(len(stop)))
        rows = (stop[axis] - start[axis]) - (high[axis] - low[axis])
        others = [j for j in range(len(start)) if j != axis]
        size = math.prod(high[j] - low[j] for j in others)
        yield _Segment(axis, side, (low, high), rows, size, others)


def _whole_boxes(axial: Axial, n: int) -> Iterator[Box]:
    """Yield boxes of chunks, all of whose addresses are below `n`; the largest is one of them."""
    if not axial.ndim:
        if n:
            yield (), ()
        return
    segment, rest = _cut_segment(axial, n)
    if segment is None:
        _, _, start, stop = axial._growth(axial.segments - 1)
        yield start, stop
        return
    rows, rest = divmod(rest, segment.size)

    def of_rows(count: int) -> tuple[list[int], list[int]]:
        """Return the grid that was there, with so many rows of the segment."""
        low, high = map(list, segment.before)
        if segment.side:
            low[segment.axis] -= count
        else:
            high[segment.axis] += count
        return low, high

    low, high = of_rows(rows)
    yield tuple(low), tuple(high)
    if not rest:
        return
    # With the row that is there in part, of which all other rows must not have more.
    low, high = of_rows(rows + 1)
    size = segment.size
    for j in segment.others:
        size //= segment.before[1][j] - segment.before[0][j]
        digit, rest = divmod(rest, size)
        high[j] = low[j] + digit
        yield tuple(low), tuple(high)
        high[j] += 1


def _lost_boxes(axial: Axial, n: int) -> Iterator[Box]:
    """Yield boxes of chunks that together have the addresses from `n` on."""
    if not axial.ndim:
        if n < axial.size:
            yield (), ()
        return
    address = 0
    for segment in _segments(axial):
        end = address + segment.rows * segment.size
        if end > n:
            rows, rest = divmod(max(0, n - address), segment.size)
            if rest:
                low, high = map(list, segment.before)
                size = segment.size
                for j in segment.others:
                    size //= segment.before[1][j] - segment.before[0][j]
                    digit, rest = divmod(rest, size)
                    first = low[j]
                    # What follows along this axis, and then what is in the same place of it.
                    low[j] = first + digit + (1 if rest else 0)
                    yield segment.box(rows, rows + 1, (tuple(low), tuple(high)))
                    if not rest:
                        break
                    low[j], high[j] = first + digit, first + digit + 1
                rows += 1
            yield segment.box(rows, segment.rows)
        address = end


def _cut_segment(axial: Axial, n: int) -> tuple[_Segment | None, int]:
    """Return the segment that has address `n`, and the chunks of it before; None: none has."""
    address = 0
    for segment in _segments(axial):
        size = segment.rows * segment.size
        if n < address + size:
            return segment, n - address
        address += size
    return None, 0
