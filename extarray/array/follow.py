"""Live data: what arrives in an array while it is read."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from extarray.array.base import StoredArray
from extarray.common.config import config
from extarray.common.errors import ReplacedError
from extarray.storage.lock import check_timeout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["LiveMixin"]

# Seconds between two looks: short after news, longer while there are none.
_SHORTEST, _LONGEST = 0.0005, 0.05


class LiveMixin(StoredArray):
    """Following an array that grows."""

    __slots__ = ()

    if TYPE_CHECKING:

        def refresh(self, on_replaced: Any = "raise") -> bool: ...  # noqa: D102

    def follow(
        self,
        axis: SupportsIndex = 0,
        timeout: float | None = None,
        on_replaced: Literal["raise", "reopen"] = "raise",
    ) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
        """Iterate over what arrives at an axis, as it arrives.

        Parameters
        ----------
        axis : int
            In [-ndim, ndim).
        timeout : float, optional
            Seconds without news after which the iteration ends; None: it goes on for ever.
        on_replaced : {"raise", "reopen"}
            As for `refresh`: raise `ReplacedError`, or go on with the array that has the path now,
            from its first element; where none has it, wait for one.

        Yields
        ------
        selection : tuple of slice
            Of the elements that are new, in the array as it is then.
        data : ndarray
            ``a[selection]``; of much that arrives at once, at most ``config.max_memory`` bytes at a
            time.

        Raises
        ------
        AxisError, ArgumentError, ArgumentTypeError, ClosedError, CorruptError
        ShapeError
            The array has gained an axis, or its successor has another number of them: begin anew.
        ReplacedError
            A FileNotFoundError: its files were replaced, removed or moved, so that nothing can
            arrive any more.

        Notes
        -----
        What was there when `follow` was called is not given: read it first, and nothing is missed.
        An array open for reading refreshes itself before each look; a writer sees what its other
        threads append.  Growth at the start of the axis is given too.  Each append is seen whole;
        of several at once, the selection has all.  What is cut off before it was seen is not given,
        nor is what takes the place of elements that were seen and cut off between two looks.

        Examples
        --------
        >>> import extarray as xa
        >>> a = xa.create(None, (0, 2), "i4")
        >>> news = a.follow(timeout=0)
        >>> a.append([[1, 2]])
        >>> for selection, data in news:
        ...     print(selection, data)
        (slice(0, 1, None), slice(0, 2, None)) [[1 2]]
        """
        self._check()
        j = self._axis(axis)
        seconds = check_timeout(timeout)
        ndim = self.ndim
        return self._news(j, ndim, seconds, on_replaced, *self._ends(j, ndim))

    def _ends(self, axis: int, ndim: int) -> tuple[int, int]:
        """Bounds of one of `ndim` axes, counted from where index 0 was at first."""
        with self._steady:
            self._check_axes(ndim)
            first = -self.origin[axis]
            return first, first + self.shape[axis]

    def _news(
        self,
        axis: int,
        ndim: int,
        timeout: float | None,
        on_replaced: Literal["raise", "reopen"],
        low: int,
        high: int,
    ) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
        """Elements before `low` and from `high` on."""
        pause = _SHORTEST
        last = time.monotonic()
        while True:
            origin = self._origin
            try:
                self.refresh()
            except ReplacedError:  # and all that had arrived before was given
                if on_replaced == "raise":
                    raise
                with contextlib.suppress(ReplacedError):
                    self.refresh(on_replaced)
            first, stop = self._ends(axis, ndim)
            if self._origin != origin:
                low = high = first
            parts = [(first, min(low, stop)), (max(high, first), stop)]
            low, high = first, stop  # also where it has shrunk
            if any(a < b for a, b in parts):
                for a, b in parts:
                    yield from self._read_parts(axis, ndim, a, b)
                pause, last = _SHORTEST, time.monotonic()
                continue
            waited = time.monotonic() - last
            if timeout is not None and waited >= timeout:
                return
            time.sleep(pause if timeout is None else min(pause, timeout - waited))
            pause = min(2 * pause, _LONGEST)

    def _read_parts(
        self, axis: int, ndim: int, low: int, high: int
    ) -> Iterator[tuple[tuple[slice, ...], NDArray[Any]]]:
        """Read elements low ... high - 1 of an axis, in parts that memory has room for."""
        while True:
            with self._steady:
                # Another thread may have cut some off, or shift the indices meanwhile.
                self._check_axes(ndim)
                zero, shape = self.origin[axis], self.shape
                low, high = max(low, -zero), min(high, shape[axis] - zero)
                if low >= high:
                    return
                layer = self.itemsize * int(np.prod(shape)) // max(1, shape[axis])
                stop = min(high, low + max(1, config.max_memory // max(1, layer)))
                selection = tuple(
                    slice(low + zero, stop + zero) if i == axis else slice(0, n)
                    for i, n in enumerate(shape)
                )
                values = self._read_exact(selection)
            yield selection, values
            low = stop
