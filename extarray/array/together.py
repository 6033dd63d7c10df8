"""Arrays that the ranks of a communicator make, open and relay together.

The ranks' own room is above this one.  This module finds its functions by name for `create`, `open`
and `rechunk`.  It also holds what an array offers to these functions: showing commits of other
processes, and reads and writes past the core.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from extarray._core._history import mark_of
from extarray.array.growth import grow, resize
from extarray.array.life import Living, attach_store, place_elements, show_store
from extarray.common.lazy import Upward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from extarray._core._axial import Axial

__all__ = [
    "Joined",
    "check_out",
    "grow_by",
    "grown_at_start",
    "noted",
    "provided",
    "resize_in_order",
    "show_state",
    "take_room",
    "together",
    "values_of",
]


#: The collective forms of `create`, `open` and `rechunk`, which take the communicator first.
#: Without MPI, the first use raises `MissingExtraError`.
together = Upward({"extarray.mpi.creation": "create_together open_together rechunk_together"})

# -- what ranks ask of their array ---------------------------------------------------------------


class Joined(Living, Protocol):
    """An array that this process has open together with others."""

    def _provide_chunks(self, addresses: NDArray[np.int64], write: bool) -> Any: ...
    def _begin_noted(self, addresses: NDArray[np.int64]) -> None: ...
    def _end_noted(self, addresses: NDArray[np.int64]) -> None: ...
    def _check_out(
        self, out: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None: ...
    def _as_values(self, value: Any, dtype: np.dtype[Any]) -> Any: ...
    def _overlaps(self, values: NDArray[Any]) -> bool: ...


def grow_by(array: Joined, axis: int, by: int, at_start: bool, fill: Callable[[], None]) -> None:
    """Grow one axis by what `fill` writes, when there is room and before it is committed."""
    with array._writers.resizing:
        grow(array, axis, by, at_start, fill)


def resize_in_order(array: Joined, shape: tuple[int, ...], order: Sequence[int]) -> None:
    """Give the axes new ends as one commit, for which the grid grows along them in an order."""
    resize(array, shape, None, order)


def grown_at_start(array: Joined) -> tuple[int, ...]:
    """Return the chunks that each axis has grown at its start, also where that is not committed."""
    starts: tuple[int, ...] = mark_of(array.axial)[2]
    return starts


def show_state(array: Joined, axial: Axial) -> None:
    """Show the state that the store has taken up; other axial vectors: other axes, too."""
    show_store(array, axial)
    array._forget_touched()


def take_room(array: Joined) -> None:
    """Use the room that another process has made for an append."""
    if array._store.now.region is not array._region:
        attach_store(array)
    if array.axial.size and not array._has_places:
        place_elements(array)
    array._forget_touched()


def check_out(
    array: Joined, out: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> bool:
    """Check where to read to; tell whether it shares memory with the array."""
    array._check_out(out, shape, dtype)
    return array._overlaps(out)


def values_of(array: Joined, values: Any, dtype: np.dtype[Any]) -> Any:
    """Return values that can be written to elements of a dtype, or to a field of it."""
    return array._as_values(values, dtype)


@contextmanager
def provided(array: Joined, addresses: NDArray[np.int64]) -> Iterator[None]:
    """Have chunks that are read past the core meanwhile: present, and verified if that is asked."""
    used = array._provide_chunks(addresses, False)
    yield
    del used  # from here on they may leave


@contextmanager
def noted(
    array: Joined, addresses: NDArray[np.int64], in_part: NDArray[np.int64]
) -> Iterator[None]:
    """Note the chunks that are written past the core meanwhile; verify those written in part."""
    array._provide_chunks(in_part, True)
    array._begin_noted(addresses)
    try:
        yield
    finally:
        array._end_noted(addresses)
