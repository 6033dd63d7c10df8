"""Order statistics of an array of any size, exact, in bounded memory.

The elements are seen as unsigned integers, keys, that sort as the elements do.  A pass over the
array counts the keys by their leading bits; the next looks only at those keys whose leading bits
are those of a wanted element, and counts them by the next bits; and so on, until so few are left
that they fit into memory, where they are sorted.  So there are at most five passes over elements of
64 bits, whatever their values (nine where memory is so short that a pass looks at 8 bits).
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.streaming.blocks import BLOCK_BYTES, run, tiles
from extarray.streaming.elementwise import part_of
from extarray.streaming.operands import chunks_of, step_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from extarray.streaming.blocks import Box

__all__ = ["Ranked", "can_select"]

#: Bits of the keys that one pass looks at: at most, and at least.
_BITS = 16
_LEAST_BITS = 8


def _bits() -> int:
    """Bits of the keys to look at: as many as there is memory for their counts."""
    # Eight tables of so many integers are in memory at a time, of all threads.
    return max(_LEAST_BITS, min(_BITS, (step_bytes(8) // 8).bit_length() - 1))


def can_select(dtype: np.dtype[Any]) -> bool:
    """Whether the elements of a dtype have keys.

    Parameters
    ----------
    dtype : dtype

    Returns
    -------
    bool
    """
    return dtype.kind in "?iumM" or (dtype.kind == "f" and dtype.itemsize <= 8)


class Ranked:
    """The elements of a box in the order of their values, without sorting them.

    Parameters
    ----------
    x : Source or ndarray
        Of a dtype for which `can_select` holds.
    box : tuple of slice

    Attributes
    ----------
    n_nan : int
        Number of NaNs (and NaTs), which come last.
    """

    def __init__(self, x: Any, box: Box) -> None:
        self._x = x
        self._low = [s.start for s in box]
        self._shape = tuple(s.stop - s.start for s in box)
        self._dtype = x.dtype.newbyteorder("=")
        self._width = 8 * x.dtype.itemsize
        self._top = self._key_dtype.type(2**self._width - 1)
        self._lock = threading.Lock()
        self._known = min(_bits(), self._width)
        self.n_nan = 0
        #: How many keys there are for each value of their leading bits.
        self._counts = self._count_leading()

    @property
    def _key_dtype(self) -> np.dtype[Any]:
        return np.dtype(f"u{self._width // 8}")

    def at(self, ranks: NDArray[np.intp]) -> NDArray[Any]:
        """Elements by their ranks.

        Parameters
        ----------
        ranks : ndarray of int
            In [0, number of elements), in any order.

        Returns
        -------
        ndarray
            Of the shape of `ranks`.
        """
        if not ranks.size:
            return np.empty(ranks.shape, self._dtype)
        wanted, inverse = np.unique(ranks, return_inverse=True)
        prefixes = np.arange(len(self._counts), dtype=self._key_dtype)
        keys = self._refine(wanted, prefixes, self._counts, self._known)
        return self._elements(keys)[inverse.reshape(ranks.shape)]

    def _refine(
        self,
        ranks: NDArray[np.intp],
        prefixes: NDArray[Any],
        counts: NDArray[np.intp],
        known: int,
    ) -> NDArray[Any]:
        """Keys by their ranks, among those whose `known` leading bits are among `prefixes`.

        `counts` tells how many there are of each prefix; ranks and prefixes increase.
        """
        ends = np.cumsum(counts)
        groups = np.searchsorted(ends, ranks, "right")
        if known == self._width:
            return prefixes[groups]
        used, within = np.unique(groups, return_inverse=True)
        # Ranks among the keys of the prefixes that are left, and of no others.
        left = counts[used]
        ranks = ranks - (ends - counts)[groups] + (np.cumsum(left) - left)[within]
        if int(left.sum()) * self._key_dtype.itemsize <= step_bytes():
            keys = self._gather(prefixes[used], known, int(left.sum()))
            return keys[ranks]
        more = min(_bits(), self._width - known)
        found = np.empty(len(ranks), self._key_dtype)
        # As many prefixes at a time as there is memory for their counts.
        n_groups = max(1, step_bytes() // (8 << more))
        starts = np.concatenate([[0], np.cumsum(left)])
        for first in range(0, len(used), n_groups):
            last = min(first + n_groups, len(used))
            some = (first <= within) & (within < last)
            inner = prefixes[used[first:last]]
            finer = np.repeat(inner, 1 << more) << self._key_dtype.type(more)
            finer |= np.tile(np.arange(1 << more, dtype=self._key_dtype), len(inner))
            found[some] = self._refine(
                ranks[some] - starts[first], finer, self._count(inner, known, more), known + more
            )
        return found

    # -- passes over the elements ------------------------------------------------------------

    def _pass(self, work: Callable[[NDArray[Any]], None]) -> None:
        """Call `work` with the keys of each part of the box, on several threads."""

        def step(_: int, box: Box) -> None:
            place = tuple(
                slice(s.start + low, s.stop + low) for s, low in zip(box, self._low, strict=True)
            )
            work(self._keys(part_of(self._x, place)))

        itemsize = self._x.dtype.itemsize
        # Keys, prefixes, places, and those that are chosen: a dozen arrays of the size of a box.
        limit = min(BLOCK_BYTES, step_bytes(12))
        boxes = tiles(self._shape, chunks_of(self._x), itemsize, limit=limit)
        run(step, boxes, math.prod(self._shape) * itemsize)

    def _count_leading(self) -> NDArray[np.intp]:
        counts = np.zeros(1 << self._known, np.intp)
        shift = self._key_dtype.type(self._width - self._known)

        def work(keys: NDArray[Any]) -> None:
            some = np.bincount((keys >> shift).astype(np.intp), minlength=len(counts))
            n_nan = int(np.count_nonzero(keys == self._top))
            with self._lock:
                counts[:] += some
                self.n_nan += n_nan

        self._pass(work)
        if self._dtype.kind in "?iu":
            self.n_nan = 0
        return counts

    def _count(self, prefixes: NDArray[Any], known: int, more: int) -> NDArray[np.intp]:
        """How many keys have each of the prefixes, and each value of the bits behind it."""
        counts = np.zeros(len(prefixes) << more, np.intp)
        shift = self._key_dtype.type(self._width - known - more)
        mask = self._key_dtype.type((1 << more) - 1)

        def work(keys: NDArray[Any]) -> None:
            group, keys = self._among(keys, prefixes, known)
            place = (group << more) + ((keys >> shift) & mask).astype(np.intp)
            values: Any
            if len(place) < len(counts) // 4:  # a table of all would cost more than a sort
                values, some = np.unique(place, return_counts=True)
            else:
                values, some = slice(None), np.bincount(place, minlength=len(counts))
            with self._lock:
                counts[values] += some

        self._pass(work)
        return counts

    def _gather(self, prefixes: NDArray[Any], known: int, n: int) -> NDArray[Any]:
        """All keys that have one of the prefixes, sorted."""
        found = np.empty(n, self._key_dtype)
        at = 0

        def work(keys: NDArray[Any]) -> None:
            nonlocal at
            _, keys = self._among(keys, prefixes, known)
            with self._lock:
                found[at : at + len(keys)] = keys
                at += len(keys)

        self._pass(work)
        found.sort()
        return found

    def _among(
        self, keys: NDArray[Any], prefixes: NDArray[Any], known: int
    ) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """The keys that have one of the prefixes, each with the number of its prefix."""
        leading = keys >> self._key_dtype.type(self._width - known)
        # Most keys are outside of the few prefixes that are wanted.
        near = (leading >= prefixes[0]) & (leading <= prefixes[-1])
        keys, leading = keys[near], leading[near]
        if len(prefixes) == 1:
            return np.zeros(len(keys), np.intp), keys
        group = np.searchsorted(prefixes, leading)
        own = prefixes[group] == leading
        return group[own], keys[own]

    # -- keys and elements -------------------------------------------------------------------

    def _keys(self, part: NDArray[Any]) -> NDArray[Any]:
        """Unsigned integers that sort as elements do, NaNs last."""
        native = part.astype(self._dtype).reshape(-1)
        keys = native.view(self._key_dtype)
        sign = self._key_dtype.type(1 << (self._width - 1))
        if self._dtype.kind == "f":
            # Negative numbers sort the other way round, and before the others.
            nan = np.isnan(native)
            keys ^= np.where(keys & sign, self._top, sign)
            keys[nan] = self._top
        elif self._dtype.kind == "i":
            keys ^= sign
        elif self._dtype.kind in "mM":
            keys ^= sign
            keys -= self._key_dtype.type(1)  # NaT is the least integer: round to the last place
        return keys

    def _elements(self, keys: NDArray[Any]) -> NDArray[Any]:
        """What `_keys` has made keys of."""
        sign = self._key_dtype.type(1 << (self._width - 1))
        if self._dtype.kind == "f":
            nan = keys == self._top
            keys = keys ^ np.where(keys & sign, sign, self._top)
            values: NDArray[Any] = keys.view(self._dtype)
            values[nan] = np.nan
            return values
        if self._dtype.kind in "mM":
            keys = keys + self._key_dtype.type(1)
        return (keys if self._dtype.kind in "?u" else keys ^ sign).view(self._dtype)
