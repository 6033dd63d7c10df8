"""Plan requests for ranges of bytes: join neighbours, read cheap gaps, split large ranges.

Each request costs a round trip, so a gap between two ranges is read if that takes less time.  All
gaps together are bounded as well: a share of the bytes that are wanted.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from extarray.common.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

__all__ = ["SPLIT", "Part", "Planned", "plan"]

#: Most bytes of a request.  Larger ranges are divided, to use several connections.
SPLIT = 8 << 20


class Part(NamedTuple):
    """Bytes of a request that belong to one range: `size` bytes from `offset` of the request."""

    number: int  # of the range
    offset: int
    size: int
    at: int  # where they begin in the range


class Planned(NamedTuple):
    """A request for the bytes `start` ... `stop` - 1, and the parts of ranges that they hold."""

    start: int
    stop: int
    parts: list[Part]


def plan(
    offsets: ArrayLike | Sequence[int],
    sizes: ArrayLike | Sequence[int],
    gap: int,
    waste: float,
    split: int = SPLIT,
) -> list[Planned]:
    """Return the requests that read ranges of bytes, in the order of their bytes.

    Parameters
    ----------
    offsets, sizes : sequences of int
        Of each range, in any order; ranges may overlap or be empty.
    gap : int
        Most bytes between two ranges that one request reads.
    waste : float
        All requests together read at most this many times the bytes that are wanted.  The smallest
        gaps are read first.
    split : int
        Most bytes of a request.

    Examples
    --------
    >>> for planned in plan([0, 100, 10], [10, 5, 10], gap=50, waste=2):
    ...     print(planned.start, planned.stop, [part.number for part in planned.parts])
    0 20 [0, 2]
    100 105 [1]
    """
    begin = np.asarray(offsets, np.int64).reshape(-1)
    length = np.asarray(sizes, np.int64).reshape(-1)
    if len(begin) != len(length):
        raise ArgumentError(f"{len(begin)} offsets, but {len(length)} sizes")
    if len(begin) and (begin.min() < 0 or length.min() < 0):
        raise ArgumentError("a range of bytes cannot begin, or end, before 0")
    order = np.argsort(begin, kind="stable")
    order = order[length[order] > 0]
    if not len(order):
        return []
    begin, end = begin[order], begin[order] + length[order]
    reach = np.maximum.accumulate(end)  # ranges may lie within others
    between = begin[1:] - reach[:-1]
    wanted = int(reach[-1] - begin[0] - between[between > 0].sum())
    costs = np.where((between > 0) & (between <= gap), between, 0)
    # The smallest gaps whose sum the waste allows.
    cheap = np.flatnonzero(costs)
    cheap = cheap[np.argsort(costs[cheap], kind="stable")]
    cheap = cheap[np.cumsum(costs[cheap]) <= max(0.0, waste - 1) * wanted]
    joined = between <= 0
    joined[cheap] = True
    edges = np.flatnonzero(~joined) + 1
    firsts = [0, *edges.tolist()]
    lasts = [*edges.tolist(), len(order)]
    planned = []
    for first, last in zip(firsts, lasts, strict=True):
        members = list(
            zip(
                order[first:last].tolist(),
                begin[first:last].tolist(),
                end[first:last].tolist(),
                strict=True,
            )
        )
        planned += _divide(members, int(begin[first]), int(reach[last - 1]), split)
    return planned


def _divide(
    members: list[tuple[int, int, int]], start: int, stop: int, split: int
) -> list[Planned]:
    """Divide one run of ranges into requests of at most `split` bytes, about equally large."""
    if stop - start <= split:
        cuts = [start, stop]
    else:
        count = -(-(stop - start) // split)
        step = -(-(stop - start) // count)
        cuts = [*range(start, stop, step), stop]
        # A cut at the edge of a range spares joining the range's parts in memory.
        edges = np.unique(np.array([low for _, low, _ in members]))
        for i in range(1, len(cuts) - 1):
            edge = int(edges[np.searchsorted(edges, cuts[i], side="right") - 1])
            if edge > cuts[i - 1] and cuts[i + 1] - edge <= split:
                cuts[i] = edge
    planned = [Planned(low, high, []) for low, high in itertools.pairwise(cuts) if low < high]
    for index, low, high in members:
        i = max(0, int(np.searchsorted(cuts, low, side="right")) - 1)
        while i < len(planned) and planned[i].start < high:
            a, b = max(low, planned[i].start), min(high, planned[i].stop)
            planned[i].parts.append(Part(index, a - planned[i].start, b - a, a - low))
            i += 1
    return planned
