"""Counts of values: find the edges of the bins, then count box by box."""

from __future__ import annotations

import math
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentError, ShapeError
from extarray.grid.tiles import tiles
from extarray.numpy_api import order_statistics, reductions, statistics  # noqa: F401 -- has the forms that are called
from extarray.numpy_api.registry import call, streams
from extarray.streaming.blocks import Source, run
from extarray.streaming.derived import Computed
from extarray.streaming.elementwise import part_of, run_over
from extarray.streaming.operands import as_array, chunks_of, in_memory, step_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box

    Work = Callable[[int, Box], object]

__all__: list[str] = []


def _add_boxes(count: Callable[[Box], Any], arrays: list[Any]) -> Any:
    """Sum `count` over the boxes of arrays of one shape."""
    return _add(count, lambda work: run_over(work, arrays[0].shape, arrays))


def _add(count: Callable[[Box], Any], run_boxes: Callable[[Work], None]) -> Any:
    """Sum `count` over the boxes of `run_boxes`, in order, for the same result in every run."""
    waiting: dict[int, Any] = {}
    lock = threading.Lock()
    total: Any = None
    done = 0

    def work(number: int, box: Box) -> None:
        nonlocal total, done
        some = count(box)
        with lock:
            waiting[number] = some
            while done in waiting:
                total = _added(total, waiting.pop(done))
                done += 1

    run_boxes(work)
    return total


def _row_bytes(x: Any) -> int:
    """Return the bytes per index of the first axis."""
    nbytes: int = math.prod(x.shape[1:]) * x.dtype.itemsize
    return nbytes


def _added(total: Any, some: NDArray[Any]) -> NDArray[Any]:
    """Sum two counts, of which one may lack the last values."""
    if total is None:
        return some
    if len(total) < len(some):
        total, some = some, total
    total[: len(some)] += some
    result: NDArray[Any] = total
    return result


# -- counts of integers --------------------------------------------------------------------------


@streams(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """Streamed form: count each integer."""
    x = as_array(x)
    arrays = [x] if weights is None else [x, as_array(weights)]
    if len(x.shape) != 1 or 0 in x.shape:
        return NotImplemented
    if arrays[-1].shape != x.shape:
        raise ShapeError("The weights and list don't have the same length.")

    def count(box: Box) -> Any:
        part, *weight = [part_of(y, box) for y in arrays]
        return np.bincount(part, weight[0] if weight else None, minlength)

    return _add_boxes(count, arrays)


# -- counts in bins ------------------------------------------------------------------------------


def _ends(a: Any) -> NDArray[Any]:
    """Return the least and the greatest element, or nothing for an empty array."""
    if 0 in a.shape:
        return np.empty(0, a.dtype)
    return np.stack([call(f, a) for f in (np.min, np.max)])


def _distance(a: Any) -> Any:
    """Return the greatest minus the least element; integers do not overflow."""
    least, greatest = _ends(a)
    return int(greatest) - int(least) if a.dtype.kind in "iu" else greatest - least


@cache
def _limits_bins() -> bool:
    """Tell whether NumPy's rule "auto" makes at most twice as many bins as "sqrt"."""
    crowded = np.concatenate([np.linspace(0, 1, 98), [-1000, 1000]])
    return len(np.histogram_bin_edges(crowded, "auto")) < len(np.histogram_bin_edges(crowded, "fd"))


def _width(rule: str, a: Any) -> Any:
    """Return the width of bins by a rule of NumPy."""

    def of(function: Callable[..., Any], *args: Any) -> Any:
        return call(function, a, *args)

    n = math.prod(a.shape)
    ptp = _distance(a)
    if rule == "sqrt":
        return ptp / np.sqrt(n)
    if rule == "sturges":
        return ptp / (np.log2(n) + 1.0)
    if rule == "rice":
        return ptp / (2.0 * n ** (1.0 / 3))
    if rule == "scott":
        return (24.0 * np.pi**0.5 / n) ** (1.0 / 3.0) * of(np.std)
    if rule == "fd":
        upper, lower = of(np.percentile, [75, 25])
        return 2.0 * (upper - lower) * n ** (-1.0 / 3.0)
    if rule == "auto":
        fd, sturges = _width("fd", a), _width("sturges", a)
        if _limits_bins():
            return min(max(fd, _width("sqrt", a) / 2), sturges)
        return min(fd, sturges) if fd else sturges
    return _doane(a, n, ptp, of(np.mean), of(np.std))


def _doane(a: Any, n: int, ptp: Any, mean: Any, deviation: Any) -> Any:
    """Return the width by Doane's rule, which takes skewness into account."""
    if n <= 2 or not deviation > 0.0:
        return 0.0
    cubes = Computed(lambda part: ((part - mean) / deviation) ** 3, a, dtype=float)
    skewness = call(np.mean, cubes)
    spread = np.sqrt(6.0 * (n - 2) / ((n + 1.0) * (n + 3)))
    return ptp / (1.0 + np.log2(n) + np.log2(1.0 + np.absolute(skewness) / spread))


def _bins_by_rule(a: Any, rule: str) -> int:
    """Return the number of bins that a rule makes."""
    if 0 in a.shape:
        return 1
    width = _width(rule, a)
    if not width:
        return 1
    if a.dtype.kind in "iu" and width < 1:
        width = 1
    return int(np.ceil(_distance(a) / width))


_RULES = frozenset({"auto", "doane", "fd", "rice", "scott", "sqrt", "sturges"})


def _edges(a: Any, bins: Any, limits: Any, weights: Any) -> tuple[Any, Any, NDArray[Any]] | None:
    """Return bins, range and edges to count with; None where NumPy needs all elements."""
    sample = np.empty(0, a.dtype)
    if isinstance(bins, str):
        np.histogram_bin_edges(sample, bins, limits, None if weights is None else sample)
        if bins not in _RULES or limits is not None or a.dtype.kind not in "iuf":
            return None
        ends = _ends(a)
        np.histogram_bin_edges(ends, 1)  # refuses infinities and NaNs
        bins = _bins_by_rule(a, bins)
    elif np.ndim(bins) or limits is not None:
        bins = in_memory(bins, "histogram")
        return bins, limits, np.histogram_bin_edges(sample, bins, limits)
    else:
        ends = _ends(a)
    edges = np.histogram_bin_edges(ends, bins)
    return bins, (ends[0], ends[-1]) if len(ends) else None, edges


@streams(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """Streamed form: the edges of bins."""
    a = as_array(a)
    found = None if a.dtype.kind == "b" else _edges(a, bins, range, weights)
    return NotImplemented if found is None else found[2]


@streams(np.histogram)
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    """Streamed form: counts in bins, and their edges."""
    a = as_array(a)
    if a.dtype.kind == "b" or 0 in a.shape:
        return NotImplemented
    arrays = [a]
    if weights is not None:
        arrays.append(as_array(weights))
        if arrays[1].shape != a.shape:
            raise ShapeError("weights should have the same shape as a.")
    found = _edges(a, bins, range, weights)
    if found is None:
        return NotImplemented
    counted, limits, edges = found

    def count(box: Box) -> Any:
        part, *weight = [part_of(x, box) for x in arrays]
        return np.histogram(part, counted, limits, weights=weight[0] if weight else None)[0]

    counts = _add_boxes(count, arrays)
    if density:
        return counts / np.diff(edges).astype(float) / counts.sum(), edges
    return counts, edges


@streams(np.histogramdd)
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    """Streamed form: counts in bins of several dimensions."""
    rows = isinstance(sample, (Source, np.ndarray))
    arrays = [sample] if rows else [as_array(x) for x in sample]
    if any(len(x.shape) != (2 if rows else 1) or 0 in x.shape for x in arrays):
        return NotImplemented
    n = arrays[0].shape[0]
    if weights is not None:
        arrays.append(as_array(weights))
    if any(x.shape[0] != n for x in arrays):
        return NotImplemented
    if rows:
        ends: Any = np.stack([call(f, sample, 0) for f in (np.min, np.max)])
    else:
        ends = [_ends(as_array(x)) for x in sample]
    if isinstance(bins, (list, tuple)):
        bins = [in_memory(x, "histogramdd") for x in bins]
    _, edges = np.histogramdd(ends, bins, range)

    def count(box: Box) -> Any:
        parts = [part_of(x, (*box, slice(0, x.shape[1])) if x.ndim == 2 else box) for x in arrays]
        weight = None if weights is None else parts.pop()
        return np.histogramdd(parts[0] if rows else parts, edges, weights=weight)[0]

    # The cost of each box includes all bins, so boxes are larger here.
    row = sum(map(_row_bytes, arrays))
    boxes = tiles((n,), chunks_of(arrays[0])[:1], row, limit=step_bytes(8))
    counts = _add(count, lambda work: run(work, boxes, n * row))
    if density:
        total = counts.sum()
        for j, edge in enumerate(edges):
            shape = np.ones(len(edges), int)
            shape[j] = -1
            counts = counts / np.diff(edge).reshape(shape)
        counts /= total
    return counts, edges


@streams(np.histogram2d)
def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    """Streamed form: counts in bins of two dimensions."""
    x, y = as_array(x), as_array(y)
    if len(x.shape) != 1 or len(y.shape) != 1:
        return NotImplemented
    if x.shape != y.shape:
        raise ArgumentError("x and y must have the same length.")
    if hasattr(bins, "__len__") and len(bins) not in (1, 2):
        bins = [np.asarray(bins)] * 2
    result = histogramdd([x, y], bins, range, density, weights)
    if result is NotImplemented:
        return NotImplemented
    counts, edges = result
    return counts, edges[0], edges[1]
