"""Orders of chunks in a file: along a curve through the grid, or plane by plane."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from extarray.grid.order import positions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["CURVES", "chunk_sequence"]

#: Curves through the grid, and the orders of elements in a chunk that have the same rule.
CURVES = {"hilbert": "H", "morton": "Z"}


def chunk_sequence(grid: Sequence[int], order: str | int) -> NDArray[np.int64]:
    """Return the indices of all chunks of a grid, one a row, in an order.

    Parameters
    ----------
    grid : sequence of int
    order : str or int
        A curve of `CURVES`; or an axis, whose planes follow each other, each along the Hilbert
        curve.

    Notes
    -----
    A grid with unequal extents is a part of the smallest cube whose side is a power of two; the
    curve through the cube gives the sequence, and chunks outside the grid are left out.

    Examples
    --------
    >>> chunk_sequence((2, 3), "morton").tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [1, 2]]
    >>> chunk_sequence((2, 2), 1).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    n = math.prod(grid)
    if n == 0 or not grid:
        return np.zeros((n, len(grid)), np.int64)
    if isinstance(order, str):
        flat = np.argsort(positions(grid, CURVES[order]))
        return np.stack(np.unravel_index(flat, grid), -1).astype(np.int64)
    rest = [*grid[:order], *grid[order + 1 :]]
    plane = chunk_sequence(rest, "hilbert")
    rows = np.repeat(np.arange(grid[order]), len(plane))
    return np.insert(np.tile(plane, (grid[order], 1)), order, rows, axis=1)
