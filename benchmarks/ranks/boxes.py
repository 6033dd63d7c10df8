"""Divide a box among ranks."""

from __future__ import annotations

import numpy as np

PROCESS_GRIDS = {1: (1, 1, 1), 2: (2, 1, 1), 4: (2, 2, 1)}


def cut(low, high, parts, part):
    """Return one of the parts of low ... high - 1, larger parts first."""
    small, more = divmod(high - low, parts)
    return low + part * small + min(part, more), low + (part + 1) * small + min(part + 1, more)


def box_of(comm, low, high, grain):
    """Return this rank's BLOCK zone in a box, in units of `grain` elements along each axis."""
    grid = PROCESS_GRIDS[comm.size]
    place = np.unravel_index(comm.rank, grid)
    edges = []
    for a, z, n, p, c in zip(low, high, grid, place, grain, strict=True):
        first, last = cut(0, -(-(z - a) // c), n, int(p))
        edges.append((min(a + first * c, z), min(a + last * c, z)))
    return tuple(slice(*edge) for edge in edges)


def extents(box):
    return tuple(s.stop - s.start for s in box)
