"""Additions to elements in files, of which none is lost, whichever ranks make them.

To add means to read, add, and write back, and nobody else may do so in between.  A lock on the
chunks keeps the others off: an advisory one, of the open file, as that of writers.  It needs
nothing prepared, and no rank to take part; who waits sleeps, and the lock of a process that dies is
free.  A mutex in an MPI window would need a window for each array that is opened, and would have to
wait for ranks in long computations.

An addition goes block by block, and has one lock at a time: no two ranks wait for each other.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.grid.tiles import tiles
from extarray.mpi.patches import Box
from extarray.mpi.values import scaled, spread
from extarray.storage.filesystem import family
from extarray.storage.lock import holding

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["accumulate"]

# Bytes that are added to under one lock, unless a chunk has more: others wait for as long.
_BLOCK_BYTES = 1 << 20


def accumulate(array: Any, selection: Any, values: ArrayLike, alpha: Any) -> None:
    """Add to a selection of an array in files.

    Parameters
    ----------
    array : ParallelArray
    selection : int, slice, Ellipsis, None, or a tuple of them
    values : array_like
    alpha : scalar

    Raises
    ------
    BoundsError, SelectionError, ShapeError, DTypeError, CastingError, StorageError
    """
    box = Box.of(selection, array.shape, array.dtype)
    added = box.view(spread(scaled(values, alpha, array.dtype), box.shape))
    for part in tiles(box.extents, array.chunks, array.itemsize, limit=_BLOCK_BYTES, split=False):
        ranges = [some[s] for some, s in zip(box.ranges, part, strict=True)]
        place = tuple(slice(some.start, some.stop, some.step) for some in ranges)
        with (
            array._adding,
            family("cannot lock a part of '{}' to add to it", array.path),
            holding(array._store._data, *_span(array, ranges)),
        ):
            block = array.read(place, collective=False)
            block += added[part]
            array.write(place, block, collective=False)


def _span(array: Any, ranges: list[range]) -> tuple[int, int]:
    """Address of the first chunk of a box in the file, and the number of chunks up to the last."""
    chunks = [
        np.unique((np.array(some, np.int64) + offset) // chunk).tolist()
        for some, offset, chunk in zip(ranges, array._store.offset, array.chunks, strict=True)
    ]
    addresses = array.axial.addresses(np.array([*itertools.product(*chunks)], np.int64))
    first, last = int(addresses.min()), int(addresses.max())
    return first, last + 1 - first
