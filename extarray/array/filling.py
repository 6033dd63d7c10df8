"""Elements that fill a new array: rounded on their way in, and frozen as soon as chunks are whole.

Chunks are encoded while their bytes are still in memory, and their raw places give their space back
on the way.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.array.freezing import freeze_chosen
from extarray.common.config import config
from extarray.common.limits import limits
from extarray.streaming.holes import write_fresh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from extarray.codecs.rounding import Rounding
    from extarray.grid.tiles import Box
    from extarray.streaming.holes import Write

__all__ = ["writer"]


def writer(array: Any, rounding: Rounding | None = None) -> Write:
    """Return a function in the place of `write_fresh` for a new array; each element comes once.

    Threads may call it at the same time.
    """
    frozen = array._store.now.frozen
    if frozen is not None and frozen.codec is not None and frozen.policy != "never":
        return _Filling(array, rounding).write
    if rounding is None:
        return write_fresh
    return lambda target, box, values: write_fresh(target, box, rounding(values))


class _Filling:
    """Writes boxes, and counts the elements of each chunk."""

    def __init__(self, array: Any, rounding: Rounding | None) -> None:
        self._array, self._rounding = array, rounding
        self._missing: dict[int, int] = {}  # elements, by the address of a chunk that has begun
        self._whole: list[int] = []  # addresses of whole chunks, not frozen yet
        self._turns = threading.Condition()
        self._n_writing = 0
        self._is_freezing = False
        self._threads = config.threads  # those that write may have fewer each

    def write(self, target: Any, box: Box, values: NDArray[Any]) -> None:
        """Write a box; freeze chunks if enough of them are whole, while other threads wait."""
        if self._rounding is not None:
            values = self._rounding(values)
        with self._turns:
            self._turns.wait_for(lambda: not self._is_freezing)
            self._n_writing += 1
        try:
            write_fresh(target, box, values)
        finally:
            with self._turns:
                self._n_writing -= 1
                self._turns.notify_all()
        if not values.size:
            return
        with self._turns:
            self._turns.wait_for(lambda: not self._is_freezing)
            for address, n, wanted in self._parts(box):
                missing = self._missing.pop(address, wanted) - n
                if missing:
                    self._missing[address] = missing
                else:
                    self._whole.append(address)
            if len(self._whole) * self._array.chunk_bytes < limits.unfrozen_bytes:
                return
            self._is_freezing = True
            self._turns.wait_for(lambda: not self._n_writing)
        try:
            self._freeze()
        finally:
            with self._turns:
                self._is_freezing = False
                self._turns.notify_all()

    def _parts(self, box: Box) -> Iterator[tuple[int, int, int]]:
        """Yield each chunk of a box: its address, and its elements in the box and in the array."""
        array = self._array
        indices, counts, extents = [], np.ones((), np.int64), np.ones((), np.int64)
        for s, c, n in zip(box, array.chunks, array.shape, strict=True):
            i = np.arange(s.start // c, -(-s.stop // c))
            indices.append(i)
            here = np.minimum((i + 1) * c, s.stop) - np.maximum(i * c, s.start)
            counts = np.multiply.outer(counts, here)
            extents = np.multiply.outer(extents, np.minimum((i + 1) * c, n) - i * c)
        grid = np.stack(np.meshgrid(*indices, indexing="ij"), -1) if indices else np.empty((1, 0))
        addresses = array.axial.addresses(grid.reshape(counts.size, array.ndim).astype(np.int64))
        found = (each.reshape(-1).tolist() for each in (addresses, counts, extents))
        yield from zip(*found, strict=True)

    def _freeze(self) -> None:
        """Freeze the whole chunks."""
        whole = np.array(self._whole, np.int64)
        self._whole.clear()
        with config.set(threads=self._threads):
            freeze_chosen(self._array, whole)
