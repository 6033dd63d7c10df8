"""Execution of a pass: read whole chunks, write whole chunks, in the planned memory.

Templates are independent and can be done in any order, so several processes may share a pass.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.streaming.blocks import holes_of, read_elements
from extarray.streaming.holes import clear, keeps_zeros, write_fresh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from extarray.grid.rechunk_axis import Step
    from extarray.maintenance.rechunk_pass import Pass
    from extarray.streaming.blocks import Source
    from extarray.streaming.holes import Write

__all__ = ["Mover"]

Index = tuple[int, ...]
#: Elements, and the array index of the first of them.
Piece = tuple[Index, "NDArray[Any]"]


class Mover:
    """Move the elements of templates from one array to another, with axes in one order.

    Notes
    -----
    The buffers take `Pass.memory`.  One holds what a step reads, and keeps the elements that wait
    along the fastest swept axis.  Each other axis with waiting elements has its own buffer.  An
    element that waits along several axes waits along the fastest of them first.
    """

    def __init__(self, p: Pass, source: Source, target: Source, write: Write = write_fresh) -> None:
        self._pass, self._source, self._target = p, source, target
        self._write = write
        dtype = source.dtype
        # Holes of the source need no copy: the target has their zeros already.
        self._is_hole = holes_of(source)
        self._skips_holes = self._is_hole is not None and keeps_zeros(dtype, target)
        swept = [j for j in p.traversal if p.blocks[j]]
        self._fastest = swept[0] if swept else None
        self._slower = swept[1:]
        axes = range(len(p.shape))
        # The slowest axis is outermost; an axis that is not swept has a single step.
        self._nest = [*(j for j in axes if j not in swept), *reversed(swept)]
        extents = [p.room(j) if j == self._fastest else p.fresh(j) for j in axes]
        self._buffer = np.empty([min(n, m) for n, m in zip(extents, p.shape, strict=True)], dtype)
        self._held: dict[int, NDArray[Any]] = {}
        faster = swept[:1]
        for j in self._slower:
            held = [min(p.template[i], p.shape[i]) if i in faster else p.fresh(i) for i in axes]
            held[j] = p.axes[j].unused
            self._held[j] = np.empty([min(n, m) for n, m in zip(held, p.shape, strict=True)], dtype)
            faster.append(j)

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return self._buffer.nbytes + sum(held.nbytes for held in self._held.values())

    def move(self, template: tuple[tuple[int, int], ...]) -> Iterator[int]:
        """Move the elements of a template; after each step, yield how many it has read."""
        p = self._pass
        start = tuple(a for a, _ in template)
        if self._skips_holes:
            assert self._is_hole is not None
            if self._is_hole(tuple(slice(a, b) for a, b in template)):
                yield math.prod(b - a for a, b in template)
                return
        steps = [
            list(axis.steps(a, b, blocks))
            for axis, (a, b), blocks in zip(p.axes, template, p.blocks, strict=True)
        ]
        back = np.argsort(self._nest)
        for nested in itertools.product(*[steps[j] for j in self._nest]):
            yield self._step([nested[i] for i in back], start)

    def _step(self, steps: list[Step], start: Index) -> int:
        """Read a step of each axis, write the complete elements, hold the rest."""
        k = self._fastest
        first = [s.written if j == k else s.read for j, s in enumerate(steps)]
        pairs = list(zip(steps, first, strict=True))
        # With the ellipsis, an array without axes stays an array.
        held: tuple[Any, ...] = tuple(slice(0, s.end - a) for s, a in pairs)
        block = self._buffer[(*held, ...)]
        fresh: tuple[Any, ...] = tuple(slice(s.read - a, None) for s, a in pairs)
        new = block[(*fresh, ...)]
        box = tuple(slice(s.read, s.end) for s in steps)
        if self._is_hole is not None and self._is_hole(box):
            clear(new)
        else:
            read_elements(self._source, box, out=new)
        ready: list[Piece] = [(tuple(first), block)]
        if k is not None:
            ready = [(tuple(first), _part(block, k, 0, steps[k].complete - steps[k].written))]
        waiting: list[tuple[int, Piece]] = []
        for j in self._slower:
            ready, later = self._split(ready, j, steps[j].complete)
            waiting += [(j, piece) for piece in later]
            if steps[j].read > steps[j].written:
                ready.append(self._old(j, steps, start))
        for low, values in ready:
            if values.size:
                box = tuple(slice(a, a + n) for a, n in zip(low, values.shape, strict=True))
                self._write(self._target, box, values)
        # Elements that wait along a slower axis may come from where a faster one holds its own.
        for j, (low, values) in reversed(waiting):
            self._held_part(j, steps, start, low, values.shape)[...] = values
        if k is not None:
            # A step completes more elements than it leaves, so the two parts do not overlap.
            stays = steps[k].end - steps[k].complete
            size = block.shape[k]
            _part(block, k, 0, stays)[...] = _part(block, k, size - stays, size)
        return new.size

    @staticmethod
    def _split(pieces: list[Piece], j: int, complete: int) -> tuple[list[Piece], list[Piece]]:
        """Split pieces at an index of an axis."""
        before, after = [], []
        for low, values in pieces:
            n = min(max(complete - low[j], 0), values.shape[j])
            if n:
                before.append((low, _part(values, j, 0, n)))
            if n < values.shape[j]:
                moved = (*low[:j], low[j] + n, *low[j + 1 :])
                after.append((moved, _part(values, j, n, values.shape[j])))
        return before, after

    def _old(self, j: int, steps: list[Step], start: Index) -> Piece:
        """Return the elements that an axis holds, where the faster axes are complete."""
        low = [s.read for s in steps]
        shape = [s.end - s.read for s in steps]
        low[j], shape[j] = steps[j].written, steps[j].read - steps[j].written
        for i in self._faster(j):
            low[i], shape[i] = steps[i].written, steps[i].complete - steps[i].written
        index = [slice(0, n) for n in shape]
        for i in self._faster(j):
            index[i] = slice(low[i] - start[i], low[i] - start[i] + shape[i])
        return tuple(low), self._held[j][tuple(index)]

    def _held_part(
        self, j: int, steps: list[Step], start: Index, low: Index, shape: Index
    ) -> NDArray[Any]:
        """Return the part of the elements that an axis holds into which a piece goes."""
        zero = [s.read for s in steps]
        zero[j] = steps[j].complete
        for i in self._faster(j):
            zero[i] = start[i]
        index = tuple(slice(a - z, a - z + n) for a, z, n in zip(low, zero, shape, strict=True))
        return self._held[j][index]

    def _faster(self, j: int) -> list[int]:
        """Return the axes that are swept faster than `j`."""
        assert self._fastest is not None
        return [self._fastest, *self._slower[: self._slower.index(j)]]


def _part(values: NDArray[Any], j: int, start: int, stop: int) -> NDArray[Any]:
    part: NDArray[Any] = values[(slice(None),) * j + (slice(start, stop),)]
    return part
