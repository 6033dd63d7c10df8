"""How ranks share the templates of a layout transformation: pure functions.

Each rank has a part of whole target chunks of each template, so that no two ranks write to one
chunk.  As every rank has memory of its own, a template is as many times larger as there are ranks,
where the array is: a rank then has what a single process would have as a template.  A template that
has all of an axis is cut instead.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from extarray.mpi.zones import factorizations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extarray.grid.rechunk_axis import Axis
    from extarray.maintenance.rechunk_pass import Pass

__all__ = ["Part", "shared_templates"]

#: Where a part begins and ends along each axis.
Part = tuple[tuple[int, int], ...]


class _Cut(NamedTuple):
    """Templates along one axis, cut for some ranks.

    Attributes
    ----------
    parts : list of list of (int, int)
        Of each template a part a rank, in order.
    read, written : int
        Elements of the largest parts of all templates together: what the slowest rank does.
    """

    parts: list[list[tuple[int, int]]]
    read: int
    written: int


def shared_templates(p: Pass, n_ranks: int) -> Iterator[list[Part]]:
    """The templates of a pass, each as the parts of the ranks.

    Parameters
    ----------
    p : Pass
    n_ranks : int

    Yields
    ------
    list of tuple of (int, int)
        The part of each rank that has one, in the order of ranks.  Parts may be empty.

    Notes
    -----
    The ranks are arranged along the axes so that the one with the most to do has the least: with
    the fewest elements to read and to write, in all templates together.  Source chunks across the
    edge of two parts are read by both ranks.

    Examples
    --------
    The example of [krishnamoorthy]_ on two ranks, cut where no source chunk is:

    >>> from extarray.maintenance.rechunk_pass import Task
    >>> from extarray.maintenance.rechunk_plan import swept_pass
    >>> p = swept_pass(Task((320, 288), (32, 9), (5, 16), (0, 0), 1), 1344)
    >>> p.template, next(shared_templates(p, 2))
    ((160, 144), [((0, 160), (0, 144)), ((160, 320), (0, 144))])
    """
    axes = list(zip(p.axes, p.template, strict=True))
    cuts = [
        {n: _cut(axis, template, n) for n in range(1, n_ranks + 1) if n_ranks % n == 0}
        for axis, template in axes
    ]

    def cost(grid: tuple[int, ...]) -> int:
        chosen = [cut[n] for cut, n in zip(cuts, grid, strict=True)]
        return math.prod(cut.read for cut in chosen) + math.prod(cut.written for cut in chosen)

    # Without axes there is one element, which is the first rank's.
    best = min(factorizations(n_ranks, len(axes)), key=cost) if axes else ()
    windows = [cut[n].parts for cut, n in zip(cuts, best, strict=True)]
    for template in itertools.product(*windows):
        yield list(itertools.product(*template))


def _cut(axis: Axis, template: int, n_ranks: int) -> _Cut:
    """The best cut of the templates along an axis, each into a part a rank."""
    units = [axis.target]
    if axis.reaches_all(template) or template % axis.period == 0:
        units.append(axis.period)  # no source chunk is cut
    larger = template if axis.reaches_all(template) else n_ranks * template
    return min(
        (_cut_by(axis, larger, n_ranks, unit) for unit in units),
        key=lambda cut: cut.read + cut.written,
    )


def _cut_by(axis: Axis, template: int, n_ranks: int, unit: int) -> _Cut:
    """Templates cut between units, into parts that are as even as whole ones allow."""
    parts = []
    read = written = 0
    for start, stop in axis.windows(template):
        first = start or -(axis.shift % template)  # the first template may begin before index 0
        count = -(-(stop - first) // unit)
        edges = [first + unit * (count * i // n_ranks) for i in range(n_ranks + 1)]
        edges = [min(max(edge, start), stop) for edge in edges]
        parts.append(list(itertools.pairwise(edges)))
        read += max(axis.elements_met(*part) for part in parts[-1])
        written += max(b - a for a, b in parts[-1])
    return _Cut(parts, read, written)
