"""The NumPy model of an extendible array, and the replay of its growth history.

The model does without axial vectors: `Replay` numbers the chunks as each growth allocates them, and
`Model` keeps the elements in an ordinary ndarray.
"""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass

import numpy as np

__all__ = ["Model", "Replay", "Segment", "grid_of", "sample"]


@dataclass
class Segment:
    """The chunks that one growth allocated: a box, and the grid after it.

    Both are boxes of signed indices, counted from the start of the first grid.
    """

    axis: int
    side: str
    start_address: int  # the number of chunks before the growth
    low: list[int]
    high: list[int]
    grid_low: list[int]
    grid_high: list[int]

    @property
    def coefficients(self) -> list[int]:
        """Row-major weights of the chunk index, with the grown axis varying slowest."""
        extents = [b - a for a, b in zip(self.low, self.high, strict=True)]
        others = [n for j, n in enumerate(extents) if j != self.axis]
        weights = [math.prod(others[j + 1 :]) for j in range(len(others))]
        weights.insert(self.axis, math.prod(others) * (1 if self.side == "end" else -1))
        return weights

    @property
    def first(self) -> list[int]:
        """Index of the chunk at the start address."""
        first = list(self.low)
        if self.side == "start":
            first[self.axis] = self.high[self.axis] - 1
        return first

    def holds(self, index) -> bool:
        return all(a <= i < b for i, a, b in zip(index, self.grid_low, self.grid_high, strict=True))


class Replay:
    """The growth history of a grid of chunks."""

    def __init__(self, grid):
        self.low = [0] * len(grid)
        self.high = list(grid)
        self.size = math.prod(grid)
        box = list(self.low), list(self.high)
        self.segments = [Segment(0, "end", 0, *box, list(self.low), list(self.high))]

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple(b - a for a, b in zip(self.low, self.high, strict=True))

    def extend(self, axis: int, by: int, side: str = "end") -> None:
        """Grow by `by` chunks; growth at the side that grew last lengthens its segment."""
        if by == 0:
            return
        edge = self.high[axis] if side == "end" else self.low[axis]
        if side == "end":
            self.high[axis] += by
        else:
            self.low[axis] -= by
        segment = self.segments[-1]
        if (segment.axis, segment.side) != (axis, side):
            segment = Segment(axis, side, self.size, list(self.low), list(self.high), [], [])
            (segment.low if side == "end" else segment.high)[axis] = edge
            self.segments.append(segment)
        (segment.high if side == "end" else segment.low)[axis] = (
            self.high[axis] if side == "end" else self.low[axis]
        )
        segment.grid_low, segment.grid_high = list(self.low), list(self.high)
        self.size = math.prod(self.grid)

    def add_axis(self, position: int) -> None:
        """Add an axis, along which every chunk has index 0."""
        for edge, value in ((self.low, 0), (self.high, 1)):
            edge.insert(position, value)
        for segment in self.segments:
            segment.low.insert(position, 0)
            segment.high.insert(position, 1)
            segment.grid_low.insert(position, 0)
            segment.grid_high.insert(position, 1)
            segment.axis += segment.axis >= position
        self.segments[0].axis = 0

    def table(self) -> np.ndarray:
        """Return the address of every chunk, counted chunk by chunk."""
        addresses = np.full(self.grid, -1, np.int64)
        counter = itertools.count()
        if not self.grid:
            addresses[()] = next(counter)
            return addresses
        for segment in self.segments:
            ranges = [
                range(a - zero, b - zero)
                for a, b, zero in zip(segment.low, segment.high, self.low, strict=True)
            ]
            slowest = ranges.pop(segment.axis)
            if segment.side == "start":
                slowest = reversed(slowest)
            for position, *others in itertools.product(slowest, *ranges):
                others.insert(segment.axis, position)
                addresses[tuple(others)] = next(counter)
        return addresses

    def address(self, index) -> int:
        """Return the address of a chunk in a grid too large to count, from its first growth."""
        index = [i + zero for i, zero in zip(index, self.low, strict=True)]
        first = bisect.bisect_left(self.segments, True, key=lambda segment: segment.holds(index))
        owner = self.segments[first]
        steps = [i - n for i, n in zip(index, owner.first, strict=True)]
        weights = zip(steps, owner.coefficients, strict=True)
        return owner.start_address + sum(i * c for i, c in weights)

    def records(self, axis: int) -> list[tuple[int, int, list[int]]]:
        """Return what `axial.records(axis)` should."""
        return sorted(
            (segment.first[axis] - self.low[axis], segment.start_address, segment.coefficients)
            for segment in self.segments
            if segment.axis == axis
        )


def grid_of(shape, chunks) -> tuple[int, ...]:
    return tuple(-(-n // c) for n, c in zip(shape, chunks, strict=True))


class Model:
    """An ndarray whose bounds move, and the history of its chunks."""

    def __init__(self, shape, dtype, chunks, fill_value=None):
        self.chunks = tuple(chunks)
        self.dtype = np.dtype(dtype)
        self.fill = np.zeros((), self.dtype)
        if fill_value is not None:
            self.fill[()] = fill_value
        self.data = self._filled(shape)
        self.origin = (0,) * len(self.data.shape)
        self.replay = Replay(grid_of(shape, self.chunks))

    def _filled(self, shape) -> np.ndarray:
        data = np.empty(shape, self.dtype)
        data[...] = self.fill
        return data

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def grid(self) -> tuple[int, ...]:
        return self.replay.grid

    @property
    def offset(self) -> tuple[int, ...]:
        """Elements of the grid before the bounds."""
        edges = zip(self.origin, self.replay.low, self.chunks, strict=True)
        return tuple(-n - zero * c for n, zero, c in edges)

    @property
    def box(self) -> list[tuple[int, int]]:
        """The bounds, relative to the original index 0."""
        return [(-n, m - n) for n, m in zip(self.origin, self.shape, strict=True)]

    def extend(self, axis: int, by: int, side: str = "end") -> None:
        added = list(self.shape)
        added[axis] = by
        self.append(self._filled(added), axis, side)

    def append(self, data, axis: int, side: str = "end") -> None:
        pair = [self.data, data] if side == "end" else [data, self.data]
        self.data = np.concatenate(pair, axis, dtype=self.dtype, casting="no")
        if side == "start":
            self._shift(axis, data.shape[axis])
        self._cover(axis)

    def shrink(self, axis: int, by: int, side: str = "end") -> None:
        n = self.shape[axis]
        kept = slice(by, n) if side == "start" else slice(n - by)
        self.data = np.moveaxis(np.moveaxis(self.data, axis, 0)[kept], 0, axis).copy()
        if side == "start":
            self._shift(axis, -by)

    def resize(self, shape) -> None:
        for axis, (new, old) in enumerate(zip(shape, self.shape, strict=True)):
            if new < old:
                self.shrink(axis, old - new)
        for axis, (new, old) in enumerate(zip(shape, self.shape, strict=True)):
            self.extend(axis, new - old)

    def reserve(self, shape) -> None:
        for axis, n in enumerate(shape):
            self._cover(axis, n)

    def add_axis(self, position: int, chunk: int = 1) -> None:
        self.data = np.expand_dims(self.data, position)
        for name, value in (("chunks", chunk), ("origin", 0)):
            before = getattr(self, name)
            setattr(self, name, (*before[:position], value, *before[position:]))
        self.replay.add_axis(position)

    def _shift(self, axis: int, by: int) -> None:
        self.origin = tuple(n + by * (j == axis) for j, n in enumerate(self.origin))

    def _cover(self, axis: int, extent: int = 0) -> None:
        """Grow the grid to cover the bounds of an axis, or `extent` elements."""
        chunk, first = self.chunks[axis], -self.origin[axis]
        low, high = self.replay.low[axis], self.replay.high[axis]
        last = first + max(extent, self.shape[axis])
        self.replay.extend(axis, max(0, low - first // chunk), "start")
        self.replay.extend(axis, max(0, -(-last // chunk) - high))

    def chunk(self, index) -> np.ndarray:
        """Return the part of chunk `index` that lies inside the bounds."""
        place = []
        for i, c, zero, n in zip(index, self.chunks, self.replay.low, self.origin, strict=True):
            start = (i + zero) * c + n
            place.append(slice(max(0, start), max(0, start + c)))
        return self.data[(*place, ...)]


def sample(dtype, shape, seed: int = 0) -> np.ndarray:
    """Return reproducible values of any dtype that use all of its bits."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    if dtype.names:
        out = np.zeros(shape, dtype)
        for number, name in enumerate(dtype.names):
            inner = dtype.fields[name][0]
            full = (*np.shape(out), *inner.shape)
            out[name] = sample(inner.base, full, seed + number + 1)
        return out
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        native = dtype.newbyteorder("=")
        return rng.integers(limits.min, limits.max, shape, native, endpoint=True).astype(dtype)
    if dtype.kind in "mM":
        return rng.integers(-(10**9), 10**9, shape).astype("i8").astype(dtype)
    if dtype.kind in "SU":
        return rng.integers(0, 10**6, shape).astype("U6").astype(dtype)
    if dtype.kind == "c":
        pairs = np.asarray(rng.standard_normal((*shape, 2)))
        return pairs.view("c16")[..., 0].astype(dtype)
    if dtype.type is np.void:
        raw = rng.integers(0, 256, (math.prod(shape), dtype.itemsize), np.uint8)
        return raw.view(dtype).reshape(shape)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)
