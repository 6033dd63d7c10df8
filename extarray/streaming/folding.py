"""Folding: the states of boxes are combined pairwise into a result.

The order depends only on how the array is cut, not on which thread is faster, so every run has the
same result.  Pairwise, rounding errors grow with the logarithm of the number of boxes, as in
NumPy's own sums.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from extarray.grid.chunking import product
from extarray.grid.tiles import BLOCK_BYTES, axis_pieces
from extarray.streaming.blocks import Source, box_bytes, run
from extarray.streaming.elementwise import fits, meet, new_result, part_of, shape_of
from extarray.streaming.meta_arrays import shadow
from extarray.streaming.operands import chunks_of, store
from extarray.streaming.warnings import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box

    #: Facts about some elements; each entry keeps the reduced axes, with length 1, or is an int
    #: for all.
    State = tuple[Any, ...]

__all__ = ["Fold", "fold"]


class Fold(Protocol):
    """The steps of a reduction: make the state of a box, and combine two states."""

    @property
    def notes(self) -> Collection[str]:
        """Warnings to give once each, at the end."""

    def start(self, part: NDArray[Any], where: Any, axes: tuple[int, ...], box: Box) -> State:
        """Return the state of a box, from the elements for which `where` holds.

        `axes` are reduced; do not write to `part`.
        """

    def combine(self, left: State, right: State) -> State:
        """Return the state of two parts; `left` comes first, and may be overwritten."""

    def finish(self, state: State) -> NDArray[Any]:
        """Return the values of the result, with the reduced axes of length 1."""


def fold(
    work: Fold,
    x: Any,
    axes: tuple[int, ...],
    where: Any,
    out: Any,
    keepdims: bool,
    dtype: np.dtype[Any],
    refuse: Callable[..., Any],
) -> Any:
    """Reduce an array along axes in [0, ndim), on which it has elements; perhaps to a scalar.

    Elements where `where`, which broadcasts to the array, holds count.  `dtype` is that of a new
    result.  `refuse` gets stand-ins for arguments that do not fit, and raises NumPy's error.
    """
    extents = x.shape  # read once: another thread may let the array grow
    shape = tuple(1 if j in axes else n for j, n in enumerate(extents) if keepdims or j not in axes)
    if (out is not None and out.shape != shape) or not fits(shape_of(where), extents):
        fixed = {} if where is True else {"where": shadow(where)}
        if out is not None:
            fixed["out"] = shadow(out)
        refuse(shadow(x), **fixed)
        raise AssertionError(f"NumPy takes out {out!r} and where {where!r} for {x!r}")
    aside = out is None or any(
        isinstance(y, (Source, np.ndarray)) and meet(y, out) for y in (x, where)
    )
    target = (
        new_result(shape, dtype if out is None else out.dtype, "the reduction") if aside else out
    )

    def put(box: Box, values: NDArray[Any]) -> None:
        if not keepdims:
            box = tuple([s for j, s in enumerate(box) if j not in axes])
            values = values.squeeze(axes)
        store(target, box, values)

    _fold_boxes(work, x, extents, axes, where, put)
    for text in sorted(work.notes):
        warn(text, RuntimeWarning)
    if out is None:
        return target if shape else target[()]
    if aside:
        out[...] = target
    return out


def _fold_boxes(
    work: Fold,
    x: Any,
    extents: tuple[int, ...],
    axes: tuple[int, ...],
    where: Any,
    put: Callable[[Box, NDArray[Any]], None],
) -> None:
    """Fold an array box by box, and put each part of the result once all its boxes are folded."""
    itemsize = x.dtype.itemsize + (where is not True)
    nbytes = math.prod(extents) * itemsize
    # A thread keeps at most one state per level of a tree: the logarithm of the number of boxes.
    depth = (nbytes // BLOCK_BYTES).bit_length()
    pieces = axis_pieces(extents, chunks_of(x), itemsize, limit=box_bytes(depth))
    kept = [j for j in range(len(pieces)) if j not in axes]
    n_steps = math.prod(len(pieces[j]) for j in axes)
    trees: dict[int, _Tree] = {}
    lock = threading.Lock()

    def boxes() -> Iterator[Box]:
        """Yield all boxes of one part of the result, then those of the next."""
        order = [*kept, *axes]
        places = np.argsort(order).tolist()
        for entries in product(*(pieces[j] for j in order)):
            yield tuple([entries[i] for i in places])

    def step(number: int, box: Box) -> None:
        part, place = divmod(number, n_steps)
        state = work.start(part_of(x, box), part_of(where, box), axes, box)
        with lock:
            tree = trees.get(part)
            if tree is None:
                tree = trees[part] = _Tree(n_steps, work.combine)
        last = tree.add(place, state)
        if last is not None:
            with lock:
                del trees[part]
            own = tuple([slice(0, 1) if j in axes else s for j, s in enumerate(box)])
            put(own, work.finish(last))

    run(step, boxes(), nbytes, (x, where))


class _Tree:
    """Combines states in a fixed order, each pair as soon as both are there."""

    def __init__(self, n: int, combine: Callable[[State, State], State]) -> None:
        self._n = n
        self._combine = combine
        self._waiting: dict[tuple[int, int], State] = {}
        self._lock = threading.Lock()

    def add(self, place: int, state: State) -> State | None:
        """Add the state of a place; return the last state once all are combined."""
        n = self._n
        level = 0
        while n > 1:
            other = place ^ 1
            if other < n:
                with self._lock:
                    found = self._waiting.pop((level, other), None)
                    if found is None:
                        self._waiting[level, place] = state
                        return None
                first, second = (state, found) if place < other else (found, state)
                state = self._combine(first, second)
            place //= 2
            n = (n + 1) // 2
            level += 1
        return state
