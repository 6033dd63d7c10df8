"""Unwritten elements: zeros that take no space, neither read nor written.

Some file systems and libraries tell where a file has only such elements (`holes_of`).  In a fresh
sparse array, chunks of zeros stay holes, whatever their source (`write_fresh`).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.streaming.blocks import leaves_holes, write_elements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box
    from extarray.streaming.blocks import Source

    #: `write_fresh`, or what takes its place.
    Write = Callable[[Source, Box, NDArray[Any]], None]

__all__ = ["clear", "keeps_zeros", "write_fresh"]

# Samples to inspect first for bytes other than zero: places along each axis of a chunk, as
# fractions, and bytes at its beginning.
_SAMPLES = (0, 0.5, 0.25, 0.75)
_FIRST_BYTES = 1 << 10


def keeps_zeros(source: np.dtype[Any], target: Source) -> bool:
    """Tell whether zero bytes, cast to the target's dtype, give its fill value."""
    with np.errstate(all="ignore"):
        cast = np.zeros(1, source).astype(target.dtype)
    fresh: Any = getattr(target, "fill_value", None)
    return fresh is not None and cast.tobytes() == np.asarray(fresh, target.dtype).tobytes()


def clear(values: NDArray[Any]) -> None:
    """Zero every byte of elements, also between the fields of records."""
    raw = np.dtype((np.void, values.dtype.itemsize))
    values.view(raw)[...] = np.zeros((), raw)


def write_fresh(target: Source, box: Box, values: NDArray[Any]) -> None:
    """Write a fresh box; if the array leaves holes, chunks that get only zeros stay holes."""
    if not values.size or not leaves_holes(target) or not keeps_zeros(values.dtype, target):
        write_elements(target, box, values)
        return
    edges = [_edges(s.start, s.stop, c) for s, c in zip(box, target.chunks, strict=True)]
    for part in _not_zero(values, edges):
        place = tuple(
            slice(s.start + p.start, s.start + p.stop) for s, p in zip(box, part, strict=True)
        )
        write_elements(target, place, _part(values, part))


def _edges(start: int, stop: int, extent: int) -> list[int]:
    """Return the offsets in a range at which the chunks that it meets begin and end."""
    return [0, *range(extent - start % extent, stop - start, extent), stop - start]


def _part(values: NDArray[Any], box: Box) -> NDArray[Any]:
    """Return a part of an array; without axes, too, it is an array."""
    place: tuple[Any, ...] = (*box, ...)
    part: NDArray[Any] = values[place]
    return part


def _not_zero(values: NDArray[Any], edges: list[list[int]]) -> Iterator[Box]:
    """Yield boxes that cover exactly the chunks with a byte other than zero.

    `edges` has, for each axis, where chunks begin and where the last one ends.
    """
    if not edges:
        if _has_bytes(values):
            yield ()
        return
    found: NDArray[np.bool_] = np.zeros([len(e) - 1 for e in edges], bool)
    for place in _SAMPLES:  # these settle most chunks
        sample = [[a + int(place * (z - a)) for a, z in itertools.pairwise(e)] for e in edges]
        some = np.ascontiguousarray(values[np.ix_(*sample)])
        found |= some.view(np.uint8).reshape(*some.shape, -1).any(axis=-1)
        if found.all():
            break
    for index in np.argwhere(~found).tolist():
        box = tuple(slice(e[i], e[i + 1]) for e, i in zip(edges, index, strict=True))
        found[tuple(index)] = _has_bytes(_part(values, box))
    if found.all():
        yield tuple(slice(0, n) for n in values.shape)
        return
    for outer in np.argwhere(found.any(axis=-1)).tolist():
        turns = np.flatnonzero(np.diff(found[tuple(outer)], prepend=False, append=False)).tolist()
        others = tuple(slice(e[i], e[i + 1]) for e, i in zip(edges, outer, strict=False))
        for low, high in zip(turns[::2], turns[1::2], strict=True):
            yield (*others, slice(edges[-1][low], edges[-1][high]))


def _has_bytes(values: NDArray[Any]) -> bool:
    """Tell whether any byte of the elements is not zero."""
    raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    if raw[:_FIRST_BYTES].any():
        return True
    whole = raw.size - raw.size % 8
    return bool(np.count_nonzero(raw[:whole].view(np.uint64)) or raw[whole:].any())
