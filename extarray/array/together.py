"""Arrays that the ranks of a communicator make, open and rechunk together.

The room of the ranks lies above this one, so this module finds its functions by name for `create`,
`open` and `rechunk`.  It also holds the services of an array to that room: showing commits of other
processes, and reads and writes past the core.
"""

from __future__ import annotations

import operator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from extarray._core._history import mark_of
from extarray.array.growth import grow, resize
from extarray.array.life import Living, attach_store, place_elements, show_store
from extarray.common.lazy import Upward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray.common.errors import ChecksumError

__all__ = [
    "Joined",
    "check_out",
    "damage_of",
    "extend_in_order",
    "grow_by",
    "grown_at_start",
    "know",
    "noted",
    "provided",
    "show_state",
    "take_room",
    "together",
    "unknown_to",
    "values_of",
]


#: The collective forms of `create`, `open` and `rechunk`, which take the communicator first.
#: Without MPI, the first use raises `MissingExtraError`.
together = Upward({"extarray.mpi.creation": "create_together open_together rechunk_together"})

# -- services for ranks --------------------------------------------------------------------------


class Joined(Living, Protocol):
    """An array that this process has open together with others."""

    def _provide_chunks(self, addresses: NDArray[np.int64], write: bool) -> Any: ...
    def _begin_noted(self, addresses: NDArray[np.int64], whole: NDArray[np.int64]) -> None: ...
    def _end_noted(self, addresses: NDArray[np.int64]) -> None: ...
    def _unverified(self, addresses: Iterable[int]) -> list[int]: ...
    def _know(self, addresses: NDArray[np.int64]) -> None: ...
    def _damaged(self, address: int) -> ChecksumError: ...
    def _check_out(
        self, out: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None: ...
    def _as_values(self, value: Any, dtype: np.dtype[Any]) -> Any: ...
    def _overlaps(self, values: NDArray[Any]) -> bool: ...


def grow_by(array: Joined, axis: int, by: int, at_start: bool, fill: Callable[[], None]) -> None:
    """Grow one axis by elements that `fill` writes after room is made and before the commit."""
    with array._writers.resizing:
        grow(array, axis, by, at_start, fill)


def extend_in_order(array: Joined, by: Sequence[int], order: Sequence[int]) -> None:
    """Move the ends of the axes as one commit; the grid grows along the axes in `order`."""
    with array._writers.resizing:  # so that no other writer moves them in between
        resize(array, tuple(map(operator.add, array.shape, by)), None, order)


def grown_at_start(array: Joined) -> tuple[int, ...]:
    """Return the chunks that each axis has grown at its start, committed or not."""
    starts: tuple[int, ...] = mark_of(array.axial)[2]
    return starts


def show_state(array: Joined, axial: Axial) -> None:
    """Show the state that the store has taken up; new axial vectors mean new axes."""
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
    """Check the destination of a read; tell whether it shares memory with the array."""
    array._check_out(out, shape, dtype)
    return array._overlaps(out)


def values_of(array: Joined, values: Any, dtype: np.dtype[Any]) -> Any:
    """Return values ready to be written to elements of a dtype, or to a field of it."""
    return array._as_values(values, dtype)


@contextmanager
def provided(array: Joined, addresses: NDArray[np.int64]) -> Iterator[None]:
    """Keep chunks present that the block reads past the core; verify them if the array does."""
    used = array._provide_chunks(addresses, False)
    try:
        yield
    finally:
        del used  # from here on they may leave


@contextmanager
def noted(
    array: Joined, addresses: NDArray[np.int64], is_whole: NDArray[np.bool_]
) -> Iterator[None]:
    """Note the chunks that the block writes past the core; verify first those written in part."""
    array._provide_chunks(addresses[~is_whole], True)
    array._begin_noted(addresses, addresses[is_whole])
    try:
        yield
    finally:
        array._end_noted(addresses)


def unknown_to(array: Joined, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the chunks that this process does not know, so that they may be damaged (I11)."""
    return np.array(array._unverified(addresses), np.int64)


def know(array: Joined, addresses: NDArray[np.int64]) -> None:
    """Compare chunks no more that another process knows."""
    array._know(addresses)


def damage_of(array: Joined, address: int) -> ChecksumError:
    """Return the error for a chunk that does not match its checksum."""
    return array._damaged(address)
