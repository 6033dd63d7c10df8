"""Hypothesis strategies for distributions over ranks."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from extarray.mpi.zones import Distribution

__all__ = ["distributions"]


@st.composite
def distributions(draw, ndim, ranks, kinds=("block", "block_cyclic", "irregular")):
    """Draw a distribution of an array with `ndim` axes over `ranks` ranks."""
    kind = draw(st.sampled_from(kinds))
    if kind == "irregular":
        starts, left = [], ranks
        for _ in range(ndim):
            cuts = draw(st.lists(st.integers(0, 9), max_size=left - 1))
            starts.append([0, *sorted(cuts)])
            left //= len(starts[-1])
        assert math.prod(map(len, starts)) <= ranks
        return Distribution.of(kind, draw(st.permutations(starts)), None, ndim, ranks)
    block = draw(st.lists(st.integers(1, 3), min_size=ndim, max_size=ndim))
    grid = draw(st.none() | st.permutations([ranks] + [1] * (ndim - 1)))
    return Distribution.of(kind, block, grid, ndim, ranks)
