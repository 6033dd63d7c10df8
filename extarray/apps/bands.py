"""Bands of rows that a program computes at a time: as memory allows, or a rank's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import extarray as xa

__all__ = ["bands"]


def bands(array: xa.ExtArray, axis: int, nbytes: int) -> Iterator[slice]:
    """Yield the indices along an axis, some at a time.

    Parameters
    ----------
    array : ExtArray
        If it was opened with ``comm=``, `share` has divided it along the axis: each rank gets one
        slice, its own, which may be empty.
    axis : int
    nbytes : int
        Memory for the work on one index; one slice takes up to ``config.max_memory``.

    Yields
    ------
    slice
    """
    if communicator(array) is not None:
        yield array.zone()[axis]  # type: ignore[attr-defined]
        return
    step = max(1, xa.config.max_memory // max(1, nbytes))
    for start in range(0, array.shape[axis], step):
        yield slice(start, min(start + step, array.shape[axis]))


def communicator(array: xa.ExtArray) -> Any:
    """Return the communicator that an array was opened with, or None."""
    return getattr(array, "comm", None)


def share(array: xa.ExtArray, axis: int) -> None:
    """Divide an array among the ranks along one axis only; without ranks, do nothing."""
    comm = communicator(array)
    if comm is not None:
        grid = [comm.size if j == axis else 1 for j in range(array.ndim)]
        array.distribute("block", process_grid=grid)  # type: ignore[attr-defined]
