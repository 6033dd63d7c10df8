"""The NumPy model of an extendible array, and the replay of its growth history.

The model knows nothing of axial vectors: `Replay` numbers the chunks as each growth allocates them,
and `Model` keeps the elements in an ordinary ndarray.
"""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Model", "Replay", "Segment", "grid_of", "sample"]


@dataclass
class Segment:
    """The chunks that one growth allocated."""

    axis: int
    start_index: int  # the extent of the axis before the growth
    start_address: int  # the number of chunks before the growth
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def coefficients(self) -> list[int]:
        """Row-major weights of the chunk index, with the grown axis varying slowest."""
        others = [n for j, n in enumerate(self.before) if j != self.axis]
        weights = [math.prod(others[j + 1 :]) for j in range(len(others))]
        weights.insert(self.axis, math.prod(others))
        return weights

    def holds(self, index) -> bool:
        return all(i < n for i, n in zip(index, self.after, strict=True))


@dataclass
class Replay:
    """The growth history of a grid of chunks."""

    grid: tuple[int, ...]
    segments: list[Segment] = field(init=False)

    def __post_init__(self):
        self.grid = tuple(self.grid)
        before = (0, *self.grid[1:]) if self.grid else ()
        self.segments = [Segment(0, 0, 0, before, self.grid)]

    @property
    def size(self) -> int:
        return math.prod(self.grid)

    def extend(self, axis: int, by: int) -> None:
        """Grow by `by` chunks; a growth of the axis that grew last lengthens its segment."""
        if by == 0:
            return
        grown = tuple(n + by * (j == axis) for j, n in enumerate(self.grid))
        last = self.segments[-1]
        if last.axis == axis:
            last.after = grown
        else:
            segment = Segment(axis, self.grid[axis], self.size, self.grid, grown)
            self.segments.append(segment)
        self.grid = grown

    def table(self) -> np.ndarray:
        """The address of every chunk, counted chunk by chunk."""
        addresses = np.full(self.grid, -1, np.int64)
        counter = itertools.count()
        if not self.grid:
            addresses[()] = next(counter)
            return addresses
        for segment in self.segments:
            ranges = [range(n) for n in segment.before]
            slowest = range(segment.start_index, segment.after[segment.axis])
            del ranges[segment.axis]
            for position, *others in itertools.product(slowest, *ranges):
                others.insert(segment.axis, position)
                addresses[tuple(others)] = next(counter)
        return addresses

    def address(self, index) -> int:
        """The address of one chunk of a grid too large to count: its first growth allocated it."""
        first = bisect.bisect_left(self.segments, True, key=lambda segment: segment.holds(index))
        owner = self.segments[first]
        address = owner.start_address - owner.start_index * owner.coefficients[owner.axis]
        return address + sum(i * c for i, c in zip(index, owner.coefficients, strict=True))

    def records(self, axis: int) -> list[tuple[int, int, list[int]]]:
        """What `axial.records(axis)` has to say."""
        return [
            (segment.start_index, segment.start_address, segment.coefficients)
            for segment in self.segments
            if segment.axis == axis
        ]


def grid_of(shape, chunks) -> tuple[int, ...]:
    return tuple(-(-n // c) for n, c in zip(shape, chunks, strict=True))


class Model:
    """An ndarray that grows, and the history of its chunks."""

    def __init__(self, shape, dtype, chunks, fill_value=None):
        self.chunks = tuple(chunks)
        self.dtype = np.dtype(dtype)
        self.fill = np.zeros((), self.dtype)
        if fill_value is not None:
            self.fill[()] = fill_value
        self.data = self._filled(shape)
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

    def extend(self, axis: int, by: int) -> None:
        shape = list(self.shape)
        shape[axis] += by
        grown = self._filled(shape)
        grown[tuple(slice(n) for n in self.shape)] = self.data
        self.data = grown
        self.replay.extend(axis, grid_of(shape, self.chunks)[axis] - self.grid[axis])

    def append(self, data, axis: int) -> None:
        before = self.shape[axis]
        self.extend(axis, data.shape[axis])
        np.moveaxis(self.data, axis, 0)[before:] = np.moveaxis(data, axis, 0)

    def resize(self, shape) -> None:
        for axis, (new, old) in enumerate(zip(shape, self.shape, strict=True)):
            self.extend(axis, new - old)

    def chunk(self, index) -> np.ndarray:
        """The part of chunk `index` that lies inside the bounds."""
        pairs = zip(index, self.chunks, strict=True)
        return self.data[(*(slice(i * c, (i + 1) * c) for i, c in pairs), ...)]


def sample(dtype, shape, seed: int = 0) -> np.ndarray:
    """Values of any dtype that use all of its bits, reproducibly."""
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
