"""Live data: what arrives in an array while it is read."""

# ruff: noqa: D102 -- members of protocols

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex

import numpy as np

from extarray.array.facts import Stored
from extarray.common.config import config
from extarray.common.errors import ReplacedError
from extarray.common.lazy import LazyImports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


__all__ = ["Followed", "follow"]

_later = LazyImports({"extarray.storage.lock": "check_timeout"})


class Followed(Stored, Protocol):
    """An array that takes up what its writer has committed."""

    @property
    def _identity(self) -> bytes: ...
    def refresh(self, on_replaced: Literal["raise", "reopen"] = "raise") -> bool: ...
    def _read_exact(self, key: tuple[Any, ...]) -> NDArray[Any]: ...


# Seconds between two looks: short after news, longer while there are none.
_SHORTEST, _LONGEST = 0.0005, 0.05


def follow(
    array: Followed,
    axis: SupportsIndex | str = 0,
    timeout: float | None = None,
    on_replaced: Literal["raise", "reopen"] = "raise",
) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
    """Iterate over what arrives at an axis; see `ExtArray.follow`."""
    array._check()
    j = array._axis(axis)
    seconds = _later.check_timeout(timeout)
    ndim = array.ndim
    return _news(array, j, ndim, seconds, on_replaced, *_ends(array, j, ndim))


def _ends(array: Followed, axis: int, ndim: int) -> tuple[int, int]:
    """Return the bounds of one of `ndim` axes, counted from where index 0 was at first."""
    with array._writers.steady:
        array._check_axes(ndim)
        first = -array.origin[axis]
        return first, first + array.shape[axis]


def _news(
    array: Followed,
    axis: int,
    ndim: int,
    timeout: float | None,
    on_replaced: Literal["raise", "reopen"],
    low: int,
    high: int,
) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
    """Iterate over elements before `low` and from `high` on, as they arrive."""
    pause = _SHORTEST
    last = time.monotonic()
    while True:
        origin = array._identity
        try:
            array.refresh()
        except ReplacedError:  # and all that had arrived before was given
            if on_replaced == "raise":
                raise
            with contextlib.suppress(ReplacedError):
                array.refresh(on_replaced)
        first, stop = _ends(array, axis, ndim)
        if array._identity != origin:
            low = high = first
        parts = [(first, min(low, stop)), (max(high, first), stop)]
        low, high = first, stop  # also where it has shrunk
        if any(a < b for a, b in parts):
            for a, b in parts:
                yield from _read_parts(array, axis, ndim, a, b)
            pause, last = _SHORTEST, time.monotonic()
            continue
        waited = time.monotonic() - last
        if timeout is not None and waited >= timeout:
            return
        time.sleep(pause if timeout is None else min(pause, timeout - waited))
        pause = min(2 * pause, _LONGEST)


def _read_parts(
    array: Followed, axis: int, ndim: int, low: int, high: int
) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
    """Read elements low ... high - 1 of an axis, in parts that memory has room for."""
    while True:
        with array._writers.steady:
            # Another thread may have cut some off, or shift the indices meanwhile.
            array._check_axes(ndim)
            zero, shape = array.origin[axis], array.shape
            low, high = max(low, -zero), min(high, shape[axis] - zero)
            if low >= high:
                return
            layer = array.itemsize * int(np.prod(shape)) // max(1, shape[axis])
            stop = min(high, low + max(1, config.max_memory // max(1, layer)))
            selection = tuple(
                slice(low + zero, stop + zero) if i == axis else slice(0, n)
                for i, n in enumerate(shape)
            )
            values = array._read_exact(selection)
        yield selection, values
        low = stop
