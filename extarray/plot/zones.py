"""Zones: which rank has which chunks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray.common.errors import ArgumentError
from extarray.grid.growth_map import axis_titles
from extarray.plot.growth import map_cells

__all__ = ["ranks_at", "zones"]

Zone = tuple[slice, ...]

# Colours by Okabe and Ito, and tints of them, that colour-blind readers can tell apart.
_COLOURS = (
    *((0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (213, 94, 0), (86, 180, 233)),
    *((140, 190, 220), (250, 215, 140), (140, 210, 190), (235, 195, 215), (240, 180, 140)),
)


def ranks_at(
    a: Any, ranks: Sequence[Sequence[Zone]]
) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    """Return a function that returns the rank of each chunk address; -1: none."""
    owners = np.full(a.grid, -1, np.int64)
    offset = a.info()["offset"]
    for rank, boxes in enumerate(ranks):
        for box in boxes:
            if any(part.start >= part.stop for part in box):
                continue
            place = tuple(
                slice((part.start + o) // c, -(-(part.stop + o) // c))
                for part, o, c in zip(box, offset, a.chunks, strict=True)
            )
            owners[place] = rank

    def classes(addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        indices = np.asarray(a.axial.indices(addresses.ravel()))
        found: NDArray[np.int64] = owners[tuple(indices.T)].reshape(addresses.shape)
        return found

    return classes


def zones(
    a: Any,
    ranks: Sequence[Sequence[Zone]],
    ax: Any = None,
    *,
    axis: int | str = -1,
    at: Mapping[int | str, int] | None = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
    dpi: float = 110,
) -> Any:
    """Draw which rank has which chunks: each cell has the rank's number, and its colour.

    Parameters
    ----------
    a : ExtArray
    ranks : sequence of sequence of tuple of slice
        The boxes of elements of each rank; ``a.plot.zones(n)`` computes them.
    ax : matplotlib Axes or sequence of them, optional
        As for `growth_map`.
    axis : int or str
        As for `growth_map`.
    at : mapping of int or str to int, optional
        As for `growth_map`.
    names : sequence of str, optional
        As for `growth_map`.
    title : str, optional
        Title of a new figure.
    path : path, optional
        Save the figure there, in the format of the suffix.
    dpi : float
        Dots per inch in the file.

    Returns
    -------
    matplotlib.figure.Figure
        Given axes are returned in its place.

    Raises
    ------
    MissingExtraError, ArgumentError
        As for `growth_map`; or there is no rank.
    """
    if not ranks:
        raise ArgumentError("zones need at least one rank")
    colours = np.array([_COLOURS[rank % len(_COLOURS)] for rank in range(len(ranks))]) / 255
    return map_cells(
        a,
        ax,
        axis=axis,
        at=at,
        names=axis_titles(a.dims if names is None else names, a.ndim),
        title=title,
        classes=ranks_at(a, ranks),
        colours=colours,
        show_classes=True,
        path=path,
        dpi=dpi,
    )
