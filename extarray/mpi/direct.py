"""What a rank reads or writes by its own engine, a mapping or pread: no MPI-IO.

The functions are those of `extarray.mpi.transfers`.  They say whether something is possible; their
transfers have no jobs, and do all at the end, when the ranks have agreed that it is.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from extarray.array.array import ExtArray
from extarray.mpi.transfers import (
    Transfer,
    cast_blocks,
    check_local,
    in_turn,
    parsed_read,
    parsed_write,
    size_of,
)
from extarray.mpi.values import surely_cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from extarray.mpi.transfers import Staged
    from extarray.mpi.zones import Zone

__all__ = ["filling", "reading", "reading_zones", "writing", "writing_zones"]


def _at_the_end(action: Callable[[], Any], write: bool) -> Transfer:
    return Transfer(iter(()), write, action)


def reading(
    array: Staged, selection: Any, out: NDArray[Any] | None, order: Literal["C", "F"]
) -> Transfer:
    """As `extarray.mpi.transfers.reading`.

    Parameters
    ----------
    array, selection, out, order
        As there.

    Returns
    -------
    Transfer
    """
    parsed_read(array, selection, out, order)
    return _at_the_end(lambda: ExtArray.read(array, selection, out, order), False)


def writing(array: Staged, selection: Any, values: Any) -> Transfer:
    """As `extarray.mpi.transfers.writing`.

    Parameters
    ----------
    array, selection, values
        As there.

    Returns
    -------
    Transfer
    """
    *_, given = parsed_write(array, selection, values)
    return _at_the_end(lambda: ExtArray.write(array, selection, given), True)


def reading_zones(array: Staged, ranges: list[list[slice]], out: NDArray[Any] | None) -> Transfer:
    """As `extarray.mpi.transfers.reading_zones`.

    Parameters
    ----------
    array, ranges, out
        As there.

    Returns
    -------
    Transfer
    """
    size = size_of(ranges)
    if out is not None:
        array._check_out(out, (size,), array.dtype)

    def action() -> NDArray[Any]:
        local = np.empty(size, array.dtype) if out is None else out
        for zone, (place, _) in zip(itertools.product(*ranges), in_turn(ranges), strict=True):
            local[place] = ExtArray.read(array, zone).reshape(-1)
        return local

    return _at_the_end(action, False)


def writing_zones(array: Staged, ranges: list[list[slice]], local: Any) -> Transfer:
    """As `extarray.mpi.transfers.writing_zones`.

    Parameters
    ----------
    array, ranges, local
        As there.

    Returns
    -------
    Transfer
    """
    values = surely_cast(check_local(ranges, local), array.dtype)

    def action() -> None:
        for zone, (place, box) in zip(itertools.product(*ranges), in_turn(ranges), strict=True):
            _write(array, zone, values[place].reshape([s.stop - s.start for s in box]))

    return _at_the_end(action, True)


def filling(array: Staged, parts: list[tuple[Zone, Zone]], values: Any) -> Transfer:
    """As `extarray.mpi.transfers.filling`.

    Parameters
    ----------
    array, parts, values
        As there.

    Returns
    -------
    Transfer
    """

    def action() -> None:
        for box, block in cast_blocks(array, parts, values):
            _write(array, box, block)

    return _at_the_end(action, True)


def _write(array: Staged, box: Zone, values: NDArray[Any]) -> None:
    """Write to a box of allocated elements, inside the bounds or not."""
    array._write_box([s.start for s in box], [s.stop for s in box], values)
