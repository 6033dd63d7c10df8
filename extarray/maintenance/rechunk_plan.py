"""The plan of a layout transformation: pure functions, from chunk shapes to passes.

If memory does not suffice for one pass, several lead through chunk shapes in between (geometric
means).  The alternative is a template that lies in memory as a whole and may be smaller than a
max-block; chunks are then read once for each template that they meet.
"""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from extarray.common.limits import limits
from extarray.grid.rechunk_axis import Axis
from extarray.maintenance.rechunk_pass import Index, Pass, Task, check_memory, elements_held

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "MOST_PASSES",
    "intermediates",
    "plan_passes",
    "resident_pass",
    "swept_pass",
]

#: Beyond this, successive chunk shapes would hardly differ.
MOST_PASSES = 16
#: Most passes tried when some may read chunks again, since each is searched for at length.
_MOST_MIXED = 4
_TRIED_TOGETHER = 4096
_MOST_ORDERS = 24


# -- templates -----------------------------------------------------------------------------------


def _templates(axis: Axis, most: int, least: int) -> list[int]:
    """Return template extents to try along an axis, rising from `least`: whole target chunks."""
    end = axis.extent + axis.shift
    unit = axis.target
    count = -(-end // unit) - least // unit + 1
    if least >= end:
        return [axis.extent]
    if count <= most:
        return [*range(least, end, unit), end]
    tried = {least, end}
    # Spread sizes geometrically; add lcm-blocks, which cut no chunk, and their halves and doubles.
    for i in range(most):
        tried.add(round(least * (end / least) ** (i / most)) // unit * unit)
    for size in (axis.period, axis.block):
        tried.update((size << i) // unit * unit for i in range(end.bit_length()))
        tried.update((size >> i) // unit * unit for i in range(size.bit_length()))
    return sorted(n for n in tried if least <= n <= end)


def _search(
    axes: Sequence[Axis], lists: list[list[int]], fits: Callable[[Index], bool]
) -> Index | None:
    """Return the fitting template that reads least; among equals, the smallest.

    For each choice of the other axes, bisection finds the largest fitting template along the last
    axis (the feasible boundary).  From the best point of the boundary, steepest descent in steps of
    one target chunk follows, which matters if the lists were incomplete.
    """
    lists = _shortened(lists)
    costs = [
        [axis.elements_read(n) for n in tried] for axis, tried in zip(axes, lists, strict=True)
    ]
    # The best of the first i templates of the last axis, for each i.
    last: list[int] = []
    for i, cost in enumerate(costs[-1]):
        last.append(last[-1] if last and costs[-1][last[-1]] <= cost else i)
    # Promising heads first: those that could not be better then need no bisection.
    heads = sorted(
        (math.prod(c[j] for c, j in zip(costs, place, strict=False)), place)
        for place in itertools.product(*[range(len(tried)) for tried in lists[:-1]])
    )
    least = min(costs[-1])
    best: tuple[int, Index] | None = None
    for reads, place in heads:
        if best is not None and reads * least > best[0]:
            break
        head = tuple(tried[i] for tried, i in zip(lists, place, strict=False))
        if not fits((*head, lists[-1][0])):
            continue
        n = bisect.bisect_left(lists[-1], True, 1, key=lambda t: not fits((*head, t)))
        i = last[n - 1]
        found = (reads * costs[-1][i], (*head, lists[-1][i]))
        if best is None or found < best:
            best = found
    return None if best is None else _descend(axes, [tried[0] for tried in lists], best, fits)


def _shortened(lists: list[list[int]]) -> list[list[int]]:
    """Thin out the lists while their product is too large; keep the smallest templates."""
    lists = list(lists)
    while math.prod(map(len, lists[:-1])) > _TRIED_TOGETHER:
        j = max(range(len(lists) - 1), key=lambda j: len(lists[j]))
        lists[j] = lists[j][::2]
    return lists


def _descend(
    axes: Sequence[Axis], least: list[int], start: tuple[int, Index], fits: Callable[[Index], bool]
) -> Index:
    """Descend in steps of one target chunk, and return the template reached."""
    best = start
    while True:
        cost, point = best
        for j, axis in enumerate(axes):
            for n in (point[j] - axis.target, point[j] + axis.target):
                other = (*point[:j], n, *point[j + 1 :])
                if least[j] <= n and n - axis.target < axis.extent + axis.shift and fits(other):
                    reads = math.prod(map(Axis.elements_read, axes, other))
                    best = min(best, (reads, other))
        if best[0] >= cost:
            return point


def _most_tried(n_axes: int, n_orders: int = 1) -> int:
    """Return how many templates to try along each of several axes; bisection covers the last."""
    if n_axes <= 2:
        return limits.templates_tried
    return max(3, int((_TRIED_TOGETHER / n_orders) ** (1 / (n_axes - 1))))


# -- one pass ------------------------------------------------------------------------------------


def swept_pass(task: Task, budget: int) -> Pass | None:
    """Return the pass that reads least among sweeps of templates of max-blocks or more.

    None if none fits the budget, in bytes.

    Examples
    --------
    The example of [krishnamoorthy]_, with an lcm-block of 160 x 144 elements:

    >>> p = swept_pass(Task((160, 144), (32, 9), (5, 16), (0, 0), 1), 1344)
    >>> p.traversal, p.template, p.memory, p.bytes_read
    ((1, 0), (160, 144), 1344, 23040)
    """
    shape, axes = task.shape, task.axes
    base = task.in_one_step(tuple(axis.least for axis in axes))
    swept = [j for j, axis in enumerate(axes) if axis.unused]
    blocks = tuple(1 if j in swept else 0 for j in range(len(shape)))
    orders = list(itertools.islice(itertools.permutations(swept), _MOST_ORDERS))
    most = _most_tried(len(swept) - 1, len(orders))
    lists = {j: _templates(axes[j], most, axes[j].least) for j in swept}
    first = replace(base, blocks=blocks, traversal=tuple(swept))
    room = [first.room(j) for j in range(len(shape))]
    fresh = [first.fresh(j) for j in range(len(shape))]
    unused = [axis.unused for axis in axes]
    limit = budget // task.element_bytes
    best: Pass | None = None
    for order in orders:
        template = list(base.template)
        for j in order[-1:]:
            # The sweep of the slowest axis holds nothing.
            aligned = axes[j].is_aligned(axes[j].period)
            template[j] = min(axes[j].period, shape[j]) if aligned else shape[j]
        faster = order[:-1]

        def fits(
            inner: Index,
            order: Index = order,
            faster: Index = faster,
            template: list[int] = template,
        ) -> bool:
            for j, n in zip(faster, inner, strict=True):
                template[j] = min(n, shape[j])
            return elements_held(room, fresh, unused, template, order) <= limit

        inner: Index | None = ()
        if faster:
            inner = _search([axes[j] for j in faster], [lists[j] for j in faster], fits)
        elif not fits(()):
            inner = None
        if inner is None:
            continue
        for j, n in zip(faster, inner, strict=True):
            template[j] = n
        p = replace(base, template=tuple(template), blocks=blocks, traversal=order)
        if best is None or (p.bytes_read, p.memory) < (best.bytes_read, best.memory):
            best = p
    return None if best is None else _enlarged(best, budget)


def resident_pass(task: Task, budget: int) -> Pass | None:
    """Return the pass that reads least among those whose templates lie in memory as a whole.

    None if not even one target chunk fits the budget, in bytes.

    Examples
    --------
    >>> p = resident_pass(Task((8192, 8192), (16, 4096), (4096, 16), (0, 0), 8), 100 << 20)
    >>> p.template, p.bytes_read / p.bytes_written
    ((4096, 2048), 2.0)
    """
    shape, axes = task.shape, task.axes
    if not axes:
        return task.in_one_step(())
    limit = budget // task.element_bytes
    chunk = math.prod(task.source_chunks)

    def fits(template: Index) -> bool:
        return math.prod(map(min, template, shape)) + chunk <= limit

    most = _most_tried(len(axes))
    lists = [_templates(axis, most, min(axis.target, axis.extent)) for axis in axes]
    template = _search(axes, lists, fits)
    return None if template is None else task.in_one_step(template)


def _enlarged(p: Pass, budget: int) -> Pass:
    """Return the same pass with steps as large as the limits allow: each call has a cost."""
    while True:
        room = min(
            budget, limits.swept_bytes if len(p.traversal) > 1 else limits.rechunk_step_bytes
        )
        for j in reversed(range(len(p.shape))):
            larger = _larger(p, j)
            if larger is not None and larger.memory <= room:
                p = larger
                break
        else:
            return p


def _larger(p: Pass, j: int) -> Pass | None:
    """Return the same pass with a larger step along an axis, or with one for the whole template."""
    axis, n, blocks = p.axes[j], p.template[j], p.blocks[j]
    if blocks == 0 or axis.room(blocks) >= n:
        if axis.reaches_all(n) or not axis.is_aligned(n):
            return None
        return _whole(p, j, min(2 * n, axis.extent + axis.shift))
    if axis.is_aligned(n) and axis.room(2 * blocks) >= n:
        return _whole(p, j, n)
    return replace(p, blocks=(*p.blocks[:j], 2 * blocks, *p.blocks[j + 1 :]))


def _whole(p: Pass, j: int, template: int) -> Pass:
    """Return the same pass with a single step along an axis."""
    return replace(
        p,
        template=(*p.template[:j], template, *p.template[j + 1 :]),
        blocks=(*p.blocks[:j], 0, *p.blocks[j + 1 :]),
        traversal=tuple(i for i in p.traversal if i != j),
    )


# -- several passes ------------------------------------------------------------------------------


def intermediates(source: Index, target: Index, n: int, fitting: bool = False) -> list[Index]:
    """Return the chunk shapes from one to another in n passes: rounded geometric means.

    `fitting` rounds to multiples of the smaller neighbour instead, which cuts fewer chunks.  The
    n + 1 shapes include the given ones; equal neighbours are merged.

    Examples
    --------
    >>> intermediates((32, 9), (5, 16), 2)
    [(32, 9), (12, 12), (5, 16)]
    >>> intermediates((32, 9), (5, 16), 2, fitting=True)
    [(32, 9), (10, 9), (5, 16)]
    """
    pairs = zip(source, target, strict=True)
    columns = [_fitting_means(s, t, n) if fitting else _means(s, t, n) for s, t in pairs]
    shapes = list(zip(*columns, strict=True))
    between = [one for one, other in itertools.pairwise(shapes[1:]) if one != other]
    return [source, *(shape for shape in between if shape != source), target]


def _means(source: int, target: int, n: int) -> list[int]:
    """Return the extents from `source` to `target`, both included."""
    return [_root(source ** (n - i) * target**i, n) for i in range(n + 1)]


def _fitting_means(source: int, target: int, n: int) -> list[int]:
    """Return extents that are multiples of their smaller neighbours, except perhaps the largest."""
    if source > target:
        return _fitting_means(target, source, n)[::-1]
    extents = _means(source, target, n)
    for i in range(1, n):
        extents[i] = max(1, extents[i] // extents[i - 1]) * extents[i - 1]
    return extents


def _root(value: int, n: int) -> int:
    """Return the n-th root of an integer, rounded down."""
    low, high = 1, 1 << (value.bit_length() // n + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if middle**n <= value:
            low = middle
        else:
            high = middle
    return low


def plan_passes(
    task: Task, budget: int, most: int = MOST_PASSES, tables: tuple[int, int] = (0, 0)
) -> list[Pass]:
    """Return the passes that read and write the fewest bytes in a given memory.

    The budget, in bytes, must satisfy `check_memory`; the passes get what `tables`, as there,
    leave of it.

    Notes
    -----
    Prefer sweeps of templates of max-blocks or more, through geometric means.  Means that fit the
    chunks, and templates that lie in memory as a whole, must save half of one reading of the array,
    unless nothing else is possible.
    """
    task = check_memory(task, budget, tables)
    budget -= sum(tables)
    small = task.in_one_step(tuple(axis.extent + axis.shift for axis in task.axes))
    if small.memory <= min(budget, limits.rechunk_step_bytes):
        return [small]  # one step covers the whole array

    def sequence(
        shapes: list[Index], find: Callable[[Task, int], Pass | None]
    ) -> list[Pass] | None:
        passes: list[Pass] = []
        for one, other in itertools.pairwise(shapes):
            part = replace(task, source_chunks=one, target_chunks=other)
            if passes:
                part = replace(part, lead=(0,) * len(task.shape))
            if other is not shapes[-1]:
                part = replace(part, cast_itemsize=None)
            found = find(part, budget)
            if found is None:
                return None
            passes.append(found)
        return passes

    once = task.itemsize * math.prod(task.shape)
    best: list[Pass] | None = None
    for find, fitting, numbers in (
        (swept_pass, False, range(1, most + 1)),
        (swept_pass, True, range(2, most + 1)),
        (resident_pass, False, range(1, 2)),
        (_any_pass, True, range(2, min(most, _MOST_MIXED) + 1)),
    ):
        limit = math.inf if best is None else _cost(best) - once // 2
        for n in numbers:
            shapes = intermediates(task.source_chunks, task.target_chunks, n, fitting)
            if 2 * n * once > limit or (n > 1 and len(shapes) <= n):
                break
            found = sequence(shapes, find)
            if found is not None and _cost(found) <= limit:
                best = found
                limit = _cost(found) - 1
    assert best is not None  # `check_memory` ensures that one chunk of each kind fits
    return best


def _any_pass(task: Task, budget: int) -> Pass | None:
    return swept_pass(task, budget) or resident_pass(task, budget)


def _cost(passes: Sequence[Pass]) -> int:
    return sum(p.bytes_read + p.bytes_written for p in passes)
