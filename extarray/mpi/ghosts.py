"""Ghosts: the elements around a zone, which belong to others.  No MPI here."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsIndex

from extarray.common.arguments import as_int
from extarray.common.errors import ShapeError
from extarray.mpi.zones import extents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extarray.mpi.zones import Zone

__all__ = ["as_ghosts", "ghost_boxes"]


def as_ghosts(ghosts: SupportsIndex | Sequence[SupportsIndex] | None, ndim: int) -> tuple[int, ...]:
    """Widths of the ghosts along each axis.

    Parameters
    ----------
    ghosts : int or sequence of int, optional
        One for all axes, or one for each; None: none.
    ndim : int

    Returns
    -------
    tuple of int

    Raises
    ------
    ShapeError, ArgumentTypeError

    Examples
    --------
    >>> as_ghosts(1, 2), as_ghosts((0, 2), 2), as_ghosts(None, 2)
    ((1, 1), (0, 2), (0, 0))
    """
    given: Sequence[SupportsIndex]
    if ghosts is None:
        given = (0,) * ndim
    else:
        given = ghosts if isinstance(ghosts, Sequence) else (ghosts,) * ndim
    widths = tuple(as_int(width, "ghosts") for width in given)
    if len(widths) != ndim or min(widths) < 0:
        raise ShapeError(
            f"ghosts {ghosts!r} are not possible: give a width, at least 0, or one for each of "
            f"{ndim} axes"
        )
    return widths


def ghost_boxes(
    zone: Zone, shape: tuple[int, ...], widths: tuple[int, ...], wrap: bool
) -> Iterator[tuple[Zone, Zone]]:
    """The elements around a zone, box by box.

    Parameters
    ----------
    zone : tuple of slice
    shape : tuple of int
        Of the array.
    widths : tuple of int
        Ghosts at both ends of each axis.
    wrap : bool
        Whether the array goes on at its other end; if not, there is nothing beyond its bounds.

    Yields
    ------
    box : tuple of slice
        Of the array.
    place : tuple of slice
        Of the memory of the zone and its ghosts.

    Examples
    --------
    >>> for box, place in ghost_boxes((slice(0, 4),), (6,), (1,), wrap=True):
    ...     print(box, place)
    (slice(5, 6, None),) (slice(0, 1, None),)
    (slice(4, 5, None),) (slice(5, 6, None),)
    """
    if 0 in extents(zone):
        return
    sides = [
        list(_along(some, n, width, wrap))
        for some, n, width in zip(zone, shape, widths, strict=True)
    ]
    for parts in itertools.product(*sides):
        if not all(is_own for _, _, is_own in parts):
            yield tuple(part[0] for part in parts), tuple(part[1] for part in parts)


def _along(own: slice, n: int, width: int, wrap: bool) -> Iterator[tuple[slice, slice, bool]]:
    """Pieces of one axis of a zone with ghosts: in the array, in memory, and whether it is own."""
    first, end = own.start - width, own.stop + width
    if not wrap:
        first, end = max(first, 0), min(end, n)
    shift = width - own.start  # from index to place
    start = first
    while start < end:
        # Up to the next edge: of the own part, or where the array begins anew.
        stop = min(
            edge for edge in (own.start, own.stop, end, (start // n + 1) * n) if edge > start
        )
        index = start % n
        is_own = own.start <= start < own.stop
        yield slice(index, index + stop - start), slice(start + shift, stop + shift), is_own
        start = stop
