"""Median, quantiles and percentiles: exact, by whole lanes where they fit into memory.

Where they do not, their order statistics are found in a few passes over each lane (`selection`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.config import config
from extarray.numpy_api.partition import Ranked, can_select
from extarray.numpy_api.reductions import all_axes
from extarray.streaming.blocks import Source, run
from extarray.streaming.elementwise import part_of
from extarray.streaming.functions import streams
from extarray.streaming.lanes import lane_bytes, lanes
from extarray.streaming.meta_arrays import single
from extarray.streaming.operands import in_memory, store, target_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from extarray.streaming.blocks import Box

__all__: list[str] = []

_ABSENT: Any = np._NoValue

#: Arrays of the size of a box that NumPy's functions have in memory: copies, masks of NaNs.
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
    """Reduce lanes by a function of NumPy, or by `of_region` where they do not fit into memory.

    Parameters
    ----------
    function : callable
        Takes an array, ``axis`` and ``keepdims``.
    of_region : callable
        Takes an array and the box of a lane.
    a : Source or ndarray
    lead : tuple of int
        Shape of what is made of one lane; the first axes of the result.
    axis, out, keepdims
        As the user gave them.

    Returns
    -------
    ndarray, scalar or Source
        NotImplemented where there is nothing to stream.
    """
    if not isinstance(a, Source) or not a.shape or 0 in a.shape:
        return NotImplemented
    keepdims = False if keepdims is _ABSENT else bool(keepdims)
    sample = np.asarray(function(single(a), axis=axis, keepdims=keepdims))
    if isinstance(out, (Source, np.ndarray)):  # NumPy's refusals
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
        run(work, boxes, math.prod(a.shape) * a.dtype.itemsize)
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
    """Register a median."""

    def of_region(a: Any, box: Box) -> Any:
        ranked = Ranked(a, box)
        n = math.prod(s.stop - s.start for s in box)
        if past_nan and ranked.n_nan < n:
            n -= ranked.n_nan
        elif ranked.n_nan:
            return function(ranked.at(np.array([n - 1])))
        return function(ranked.at(np.unique([(n - 1) // 2, n // 2])))

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

#: Parameters alpha and beta of the continuous methods [Hyndman and Fan, 1996].
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "median_unbiased": (1 / 3.0, 1 / 3.0),
    "normal_unbiased": (3 / 8.0, 3 / 8.0),
}


def _discrete(n: int, q: NDArray[Any], method: str) -> NDArray[np.intp] | None:
    """Ranks, by a method that takes elements as they are; None for other methods."""
    if method in ("inverted_cdf", "closest_observation"):
        odd = method == "closest_observation"
        place = n * q - 1.5 if odd else n * q - 1
        below = np.floor(place)
        # At a step of the distribution function: the lower one, or the one that is even.
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
    ranks: NDArray[np.intp] = rounding[method](place).astype(np.intp)
    return ranks


def _interpolated(
    n: int, q: NDArray[Any], method: str
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]:
    """Ranks of the two elements between which a quantile lies, and the weight of the upper one."""
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
            ranked = Ranked(a, box)
            n = math.prod(s.stop - s.start for s in box)
            if past_nan and ranked.n_nan < n:
                n -= ranked.n_nan
            elif ranked.n_nan:
                return by_numpy(ranked.at(np.array([n - 1])))
            fraction = np.asarray(fractions)
            ranks = _discrete(n, fraction, method)
            if ranks is not None:
                return ranked.at(ranks)
            low, high, part = _interpolated(n, fraction, method)
            lower, upper = ranked.at(np.stack([low, high]))
            # As NumPy: a Python number as the quantile leaves the dtype as it is.
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
