"""Boxes that tile a shape along its chunks, for work that goes box by box."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from extarray.grid.chunking import product

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Self

__all__ = ["BLOCK_BYTES", "Box", "Grain", "axis_pieces", "tiles"]

Box = tuple[slice, ...]

#: Bytes of a box whose elements stay in the cache between two steps of an operation.
BLOCK_BYTES = 1 << 21
#: Chunks of this size deserve a step of their own; smaller ones are combined.
_LEAST_BYTES = 1 << 18


class Grain(tuple[int, ...]):  # noqa: SLOT001 -- a tuple of any length has no slots
    """Extents of chunks, and of the part of each axis's first chunk before index 0 (`lead`)."""

    lead: tuple[int, ...]

    def __new__(cls, chunks: tuple[int, ...], lead: tuple[int, ...]) -> Self:
        """Make extents with a lead."""
        self = super().__new__(cls, chunks)
        self.lead = lead
        return self


def tiles(
    shape: Sequence[int],
    chunks: Sequence[int],
    itemsize: int,
    whole: Collection[int] = (),
    limit: int = BLOCK_BYTES,
    split: bool = True,
) -> Iterator[Box]:
    """Yield boxes that tile a shape, in C order, each inside a chunk or made of whole chunks.

    Parameters
    ----------
    shape, chunks : tuple of int
        Extents, in elements.  The first chunk of each axis begins at index 0, or as a `Grain`
        says.
    itemsize : int
        Bytes of an element (of all operands together).
    whole : collection of int
        Axes not to cut.
    limit : int
        Most bytes of a box, if `whole` and `split` allow it.
    split : bool
        Whether chunks may be cut.  If not, boxes are made of as many whole chunks as the limit
        allows.

    Examples
    --------
    >>> list(tiles((3, 4), (2, 4), 1, limit=8))
    [(slice(0, 2, None), slice(0, 4, None)), (slice(2, 3, None), slice(0, 4, None))]
    >>> [box for box, in tiles((5,), (2,), 1, limit=4, split=False)]
    [slice(0, 4, None), slice(4, 5, None)]
    """
    return product(*axis_pieces(shape, chunks, itemsize, whole, limit, split))


def axis_pieces(
    shape: Sequence[int],
    chunks: Sequence[int],
    itemsize: int,
    whole: Collection[int] = (),
    limit: int = BLOCK_BYTES,
    split: bool = True,
) -> list[list[slice] | _Pieces]:
    """Return the pieces of each axis, whose products are the boxes of `tiles`.

    They are sized iterables, not lists, as an axis may have more pieces than fit into memory.

    Examples
    --------
    >>> [list(pieces) for pieces in axis_pieces((3, 4), (2, 4), 1, limit=8)]
    [[slice(0, 2, None), slice(2, 3, None)], [slice(0, 4, None)]]
    """
    block = [
        n if j in whole else min(c, n) for j, (n, c) in enumerate(zip(shape, chunks, strict=True))
    ]
    size = math.prod(block) * itemsize
    if size == 0:
        return [[slice(0, n)] if n else [] for n in shape]
    free = [j for j in range(len(shape)) if j not in whole]
    if size < (min(limit, _LEAST_BYTES) if split else limit):
        for j in reversed(free):
            more = min(max(1, limit // size), -(-shape[j] // block[j]))
            size = size * more
            block[j] *= more
    for j in free:
        if split and size > limit and block[j] > 1:
            part = max(1, block[j] * limit // size)
            size = size // block[j] * part
            block[j] = part
    lead = chunks.lead if isinstance(chunks, Grain) else (0,) * len(shape)
    return [
        [slice(0, n)] if j in whole or (n <= b and not first) else _Pieces(n, c, b, first)
        for j, (n, c, b, first) in enumerate(zip(shape, chunks, block, lead, strict=True))
    ]


class _Pieces:
    """Pieces of an axis, of `block` elements, which do not cross the end of a larger chunk."""

    __slots__ = ("_block", "_extent", "_lead", "_outer")

    def __init__(self, extent: int, chunk: int, block: int, lead: int) -> None:
        self._extent, self._block, self._lead = extent, block, lead
        self._outer = max(chunk, block)

    def __iter__(self) -> Iterator[slice]:
        extent, block, outer = self._extent, self._block, self._outer
        for low in range(-self._lead, extent, outer):
            high = min(low + outer, extent)
            for start in range(max(0, low), high, block):
                yield slice(start, min(start + block, high))

    def __len__(self) -> int:
        first = min(self._outer - self._lead, self._extent)
        whole, last = divmod(self._extent - first, self._outer)
        parts = [-(-n // self._block) for n in (first, self._outer, last)]
        return parts[0] + whole * parts[1] + parts[2]
