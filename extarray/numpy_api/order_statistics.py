"""Exact medians, quantiles and percentiles of arrays of any size.

NumPy handles lanes that fit into memory.  In longer lanes, each element becomes a key: an unsigned
integer, such that keys sort as the elements do.  The first pass over the array counts the keys by
their leading bits.  The next looks only at keys that share these bits with a wanted element, and
counts them by the next bits.  When few enough keys remain to fit into memory, they are sorted.
Elements of 64 bits need at most five passes, whatever their values (nine if memory is so short that
a pass looks at 8 bits).
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.config import config
from extarray.grid.tiles import BLOCK_BYTES, tiles
from extarray.numpy_api.reductions import all_axes
from extarray.numpy_api.registry import streams
from extarray.streaming.blocks import Source, run
from extarray.streaming.elementwise import part_of
from extarray.streaming.lanes import lane_bytes, lanes
from extarray.streaming.meta_arrays import single
from extarray.streaming.operands import chunks_of, in_memory, step_bytes, store, target_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box


__all__ = ["InOrder", "can_select"]

#: Most and fewest bits of the keys that one pass looks at.
_BITS = 16
_LEAST_BITS = 8


def _bits() -> int:
    """Return how many bits of the keys to look at, such that their counts fit into memory."""
    # All threads together hold eight such tables of integers at a time.
    return max(_LEAST_BITS, min(_BITS, (step_bytes(8) // 8).bit_length() - 1))


def can_select(dtype: np.dtype[Any]) -> bool:
    """Tell whether elements of a dtype have keys."""
    return dtype.kind in "?iumM" or (dtype.kind == "f" and dtype.itemsize <= 8)


class InOrder:
    """The elements of a box in the order of their values, selected without a sort.

    Parameters
    ----------
    x : Source or ndarray
        Its dtype must satisfy `can_select`.
    box : tuple of slice

    Attributes
    ----------
    n_nan : int
        Number of NaNs (or NaTs), which come last.
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
        #: Number of keys for each value of their leading bits.
        self._counts = self._count_leading()

    @property
    def _key_dtype(self) -> np.dtype[Any]:
        return np.dtype(f"u{self._width // 8}")

    def count(self, past_nan: bool) -> int | None:
        """Return how many elements count, less NaNs if `past_nan`; None: the result is NaN."""
        n: int = math.prod(self._shape)
        if past_nan and self.n_nan < n:
            return n - self.n_nan
        return None if self.n_nan else n

    def last(self) -> NDArray[Any]:
        """Return the last element as an array of one; it is NaN if there is any NaN."""
        return self.at(np.array([math.prod(self._shape) - 1]))

    def at(self, positions: NDArray[np.intp]) -> NDArray[Any]:
        """Return the elements at positions in the order; positions may have any shape."""
        if not positions.size:
            return np.empty(positions.shape, self._dtype)
        wanted, inverse = np.unique(positions, return_inverse=True)
        prefixes = np.arange(len(self._counts), dtype=self._key_dtype)
        keys = self._refine(wanted, prefixes, self._counts, self._known)
        return self._elements(keys)[inverse.reshape(positions.shape)]

    def _refine(
        self,
        positions: NDArray[np.intp],
        prefixes: NDArray[Any],
        counts: NDArray[np.intp],
        known: int,
    ) -> NDArray[Any]:
        """Return the keys at positions among those whose `known` leading bits are in `prefixes`.

        `counts` has the number of keys of each prefix; positions and prefixes increase.
        """
        ends = np.cumsum(counts)
        groups = np.searchsorted(ends, positions, "right")
        if known == self._width:
            return prefixes[groups]
        used, within = np.unique(groups, return_inverse=True)
        # Renumber the positions among the keys of the used prefixes.
        left = counts[used]
        positions = positions - (ends - counts)[groups] + (np.cumsum(left) - left)[within]
        if int(left.sum()) * self._key_dtype.itemsize <= step_bytes():
            keys = self._gather(prefixes[used], known, int(left.sum()))
            return keys[positions]
        more = min(_bits(), self._width - known)
        found = np.empty(len(positions), self._key_dtype)
        # Take only as many prefixes at a time as their counts fit into memory.
        n_groups = max(1, step_bytes() // (8 << more))
        starts = np.concatenate([[0], np.cumsum(left)])
        for first in range(0, len(used), n_groups):
            last = min(first + n_groups, len(used))
            some = (first <= within) & (within < last)
            inner = prefixes[used[first:last]]
            finer = np.repeat(inner, 1 << more) << self._key_dtype.type(more)
            finer |= np.tile(np.arange(1 << more, dtype=self._key_dtype), len(inner))
            found[some] = self._refine(
                positions[some] - starts[first],
                finer,
                self._count(inner, known, more),
                known + more,
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
        # Keys, prefixes, places and chosen keys make a dozen arrays of the size of a box.
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
        """Count the keys with each prefix, by the value of the next `more` bits."""
        counts = np.zeros(len(prefixes) << more, np.intp)
        shift = self._key_dtype.type(self._width - known - more)
        mask = self._key_dtype.type((1 << more) - 1)

        def work(keys: NDArray[Any]) -> None:
            group, keys = self._among(keys, prefixes, known)
            place = (group << more) + ((keys >> shift) & mask).astype(np.intp)
            values: Any
            if len(place) < len(counts) // 4:  # a sort is cheaper than a full table
                values, some = np.unique(place, return_counts=True)
            else:
                values, some = slice(None), np.bincount(place, minlength=len(counts))
            with self._lock:
                counts[values] += some

        self._pass(work)
        return counts

    def _gather(self, prefixes: NDArray[Any], known: int, n: int) -> NDArray[Any]:
        """Return all `n` keys that have one of the prefixes, sorted."""
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
        """Return the keys that have one of the prefixes, and the number of each key's prefix."""
        leading = keys >> self._key_dtype.type(self._width - known)
        # Most keys lie outside the few wanted prefixes.
        near = (leading >= prefixes[0]) & (leading <= prefixes[-1])
        keys, leading = keys[near], leading[near]
        if len(prefixes) == 1:
            return np.zeros(len(keys), np.intp), keys
        group = np.searchsorted(prefixes, leading)
        own = prefixes[group] == leading
        return group[own], keys[own]

    # -- keys and elements -------------------------------------------------------------------

    def _keys(self, part: NDArray[Any]) -> NDArray[Any]:
        """Return unsigned integers that sort as the elements do, NaNs last."""
        native = part.astype(self._dtype).reshape(-1)
        keys = native.view(self._key_dtype)
        sign = self._key_dtype.type(1 << (self._width - 1))
        if self._dtype.kind == "f":
            # Negative numbers sort before the others, in reverse.
            nan = np.isnan(native)
            keys ^= np.where(keys & sign, self._top, sign)
            keys[nan] = self._top
        elif self._dtype.kind == "i":
            keys ^= sign
        elif self._dtype.kind in "mM":
            keys ^= sign
            keys -= self._key_dtype.type(1)  # NaT is the least integer: wrap to the last place
        return keys

    def _elements(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Return the elements of keys: the inverse of `_keys`."""
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


_ABSENT: Any = np._NoValue

#: Arrays of the size of a box that NumPy's functions hold: copies, masks of NaNs.
_PARTS = 5


def _reduce_lanes(
    function: Callable[..., Any],
    of_region: Callable[[Any, Box], Any],
    a: Any,
    lead: tuple[int, ...],
    axis: Any,
    out: Any,
    keepdims: Any,
) -> Any:
    """Reduce lanes by a function of NumPy, or by `of_region` if they do not fit into memory.

    The function takes an array, ``axis`` and ``keepdims``; `of_region` takes an array and the box
    of a lane.  `lead` is the shape of the result of one lane: the first axes of the result.
    Return NotImplemented if there is nothing to stream.
    """
    if not isinstance(a, Source) or not a.shape or 0 in a.shape:
        return NotImplemented
    keepdims = False if keepdims is _ABSENT else bool(keepdims)
    sample = np.asarray(function(single(a), axis=axis, keepdims=keepdims))
    if isinstance(out, (Source, np.ndarray)):  # raises NumPy's errors
        function(single(a), axis=axis, keepdims=keepdims, out=np.empty(sample.shape, out.dtype))
    axes = all_axes(axis, len(a.shape))
    kept = [1 if j in axes else n for j, n in enumerate(a.shape)]
    shape = [n for j, n in enumerate(kept) if keepdims or j not in axes]
    name = getattr(function, "__name__", "the reduction")
    target = target_for(out, (*lead, *shape), sample.dtype, name, "unsafe")
    whole = tuple(slice(0, n) for n in lead)

    def put(box: Box, values: Any) -> None:
        place = tuple(
            slice(0, 1) if j in axes else s for j, s in enumerate(box) if keepdims or j not in axes
        )
        extents = [s.stop - s.start for s in place]
        store(target, (*whole, *place), np.reshape(values, (*lead, *extents)))

    if _PARTS * lane_bytes(a, axes) <= config.max_memory or not can_select(a.dtype):

        def work(_: int, box: Box) -> None:
            put(box, function(part_of(a, box), axis=axes, keepdims=True))

        boxes = lanes(a, axes, name, _PARTS)
        run(work, boxes, math.prod(a.shape) * a.dtype.itemsize, (a,))
    else:
        for index in np.ndindex(*kept):
            box = tuple(
                slice(0, n) if j in axes else slice(i, i + 1)
                for j, (i, n) in enumerate(zip(index, a.shape, strict=True))
            )
            put(box, of_region(a, box))
    if out is None and not target.shape:
        return target[()]
    return target


# -- median --------------------------------------------------------------------------------------


def _stream_median(function: Callable[..., Any], past_nan: bool) -> None:
    """Register a median; `past_nan` skips NaNs."""

    def of_region(a: Any, box: Box) -> Any:
        in_order = InOrder(a, box)
        n = in_order.count(past_nan)
        if n is None:
            return function(in_order.last())
        return function(in_order.at(np.unique([(n - 1) // 2, n // 2])))

    @streams(function)
    def form(
        a: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        keepdims: Any = _ABSENT,
    ) -> Any:
        return _reduce_lanes(function, of_region, a, (), axis, out, keepdims)


_stream_median(np.median, past_nan=False)
_stream_median(np.nanmedian, past_nan=True)


# -- quantiles -----------------------------------------------------------------------------------

#: Alpha and beta of the continuous methods [Hyndman and Fan, 1996].
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "median_unbiased": (1 / 3.0, 1 / 3.0),
    "normal_unbiased": (3 / 8.0, 3 / 8.0),
}


def _discrete(n: int, q: NDArray[Any], method: str) -> NDArray[np.intp] | None:
    """Return the positions of quantiles if the method does not interpolate; else None."""
    if method in ("inverted_cdf", "closest_observation"):
        odd = method == "closest_observation"
        place = n * q - 1.5 if odd else n * q - 1
        below = np.floor(place)
        # At a step of the distribution function, take the lower element, or the even one.
        stay = (place == below) & ((below % 2 == 1) | (not odd))
        return np.maximum(np.where(stay, below, below + 1), 0).astype(np.intp)
    place = (n - 1) * q
    if method == "linear" and place.dtype.kind in "iu":
        return place.astype(np.intp)
    rounding: dict[str, Callable[..., Any]] = {
        "lower": np.floor,
        "higher": np.ceil,
        "nearest": np.around,
    }
    if method not in rounding:
        return None
    positions: NDArray[np.intp] = rounding[method](place).astype(np.intp)
    return positions


def _interpolated(
    n: int, q: NDArray[Any], method: str
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
    """Return the positions of the elements around a quantile, and the weight of the upper one."""
    place: NDArray[Any]
    if method == "averaged_inverted_cdf":
        place = n * q - 1
    elif method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        place = n * q + (alpha + q * (1 - alpha - beta)) - 1
    else:  # linear, midpoint
        place = (n - 1) * q
    below = np.floor(place)
    weight = place - below
    if method == "averaged_inverted_cdf":
        weight = np.where(weight == 0, 0.5, 1.0).astype(weight.dtype)
    elif method == "midpoint":
        weight = np.where(weight == 0, 0.0, 0.5).astype(weight.dtype)
    low = np.clip(below, 0, n - 1).astype(np.intp)
    high = np.clip(np.where(place < 0, 0, below + 1), 0, n - 1).astype(np.intp)
    return low, high, weight


def _stream_quantile(function: Callable[..., Any], scale: int, past_nan: bool) -> None:
    """Register a quantile (`scale` 1) or percentile (`scale` 100)."""

    @streams(function)
    def form(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: Any = "linear",
        keepdims: Any = _ABSENT,
        *,
        weights: Any = None,
        **options: Any,
    ) -> Any:
        if weights is not None or options:
            return NotImplemented
        points = in_memory(q, function.__name__)
        shape = np.shape(points)
        fractions = np.true_divide(points, scale) if scale != 1 else np.asarray(points)

        def by_numpy(part: Any, **where: Any) -> Any:
            return function(part, points, method=method, **where)

        by_numpy.__name__ = function.__name__

        def of_region(a: Any, box: Box) -> Any:
            in_order = InOrder(a, box)
            n = in_order.count(past_nan)
            if n is None:
                return by_numpy(in_order.last())
            fraction = np.asarray(fractions)
            positions = _discrete(n, fraction, method)
            if positions is not None:
                return in_order.at(positions)
            low, high, part = _interpolated(n, fraction, method)
            lower, upper = in_order.at(np.stack([low, high]))
            # As in NumPy, a quantile that is a Python number does not change the dtype.
            weight = float(part) if isinstance(points, (int, float)) else part
            difference = upper - lower
            return np.where(
                np.asarray(weight) >= 0.5,
                upper - difference * (1 - weight),
                lower + difference * weight,
            )

        return _reduce_lanes(by_numpy, of_region, a, shape, axis, out, keepdims)


_stream_quantile(np.quantile, 1, past_nan=False)
_stream_quantile(np.percentile, 100, past_nan=False)
_stream_quantile(np.nanquantile, 1, past_nan=True)
_stream_quantile(np.nanpercentile, 100, past_nan=True)
