"""Transfers that run while the program computes, and the casts of the values they move.

Values to put are cast as by NumPy's assignment.  Values to compute with are cast by the rule
"same_kind", as by NumPy's in-place operators: no fraction is lost silently.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import CastingError, DTypeError, LimitError, ShapeError
from extarray.mpi.runtime import library

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from numpy.typing import ArrayLike, NDArray


__all__ = [
    "Request",
    "ThreadRequest",
    "WindowRequest",
    "as_elements",
    "as_item",
    "check_same_kind",
    "scaled",
    "spread",
    "surely_cast",
]


class Request(ABC):
    """A transfer under way, returned by `ParallelArray.iread`, `GlobalArray.iget` and their like.

    Notes
    -----
    A thread of the rank makes file transfers, so they advance without calls to MPI; transfers of
    one array run in the order of the calls.  MPI makes one-sided transfers.  Neither `wait` nor
    `test` needs other ranks to take part.
    """

    __slots__ = ()

    @abstractmethod
    def test(self) -> bool:
        """Tell whether the transfer is over.

        Returns
        -------
        bool
        """

    @abstractmethod
    def wait(self) -> NDArray[Any] | None:
        """Wait for the end of the transfer.

        Returns
        -------
        ndarray or None
            The values read; None for a write.

        Raises
        ------
        StorageError
            An OSError: the transfer failed.
        TruncatedError
            A ValueError: another program has truncated the file.
        """


class ThreadRequest(Request):
    """A transfer made by a thread of this rank."""

    __slots__ = ("_future",)

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def test(self) -> bool:
        """Tell whether the transfer is over."""
        return self._future.done()

    def wait(self) -> NDArray[Any] | None:
        """Wait for the end of the transfer."""
        result: NDArray[Any] | None = self._future.result()
        return result


class WindowRequest(Request):
    """A one-sided transfer by MPI; `finish`, called once, returns the result.

    If `finish` is None, the transfer is over and has no result.
    """

    __slots__ = ("_finish", "_pending", "_result")

    def __init__(
        self, pending: list[Any], finish: Callable[[], NDArray[Any] | None] | None
    ) -> None:
        self._pending, self._finish = pending, finish
        self._result: NDArray[Any] | None = None

    def test(self) -> bool:
        """Tell whether the transfer is over."""
        return self._finish is None or (
            library().Request.Testall(self._pending) and self._end(self._finish)
        )

    def wait(self) -> NDArray[Any] | None:
        """Wait for the end of the transfer."""
        if self._finish is not None:
            if self._pending:
                library().Request.Waitall(self._pending)
            self._end(self._finish)
        return self._result

    def _end(self, finish: Callable[[], NDArray[Any] | None]) -> bool:
        self._result, self._finish = finish(), None
        self._pending.clear()
        return True


# Kinds of dtypes whose values decide one by one whether they can be cast.
_DOUBTFUL = "OSTUV"
# For each kind of elements, the kinds that a scalar may have.
_SIMPLER = {"b": "b", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc"}


def as_elements(values: ArrayLike, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return values as elements, cast as by NumPy's assignment; no copy if they have the dtype."""
    if isinstance(values, np.ndarray) and values.dtype == dtype:
        return values
    cast = np.empty(np.shape(values), dtype)
    cast[...] = values
    return cast


def surely_cast(values: Any, dtype: np.dtype[Any]) -> Any:
    """Return values that can all be cast to elements; raise NumPy's error if one cannot.

    Texts, objects and records of another dtype are cast here, others later.

    >>> surely_cast(np.array(["1", "2"]), np.dtype("u1"))
    array([1, 2], dtype=uint8)
    """
    if values.dtype.kind in _DOUBTFUL and values.dtype != dtype:
        return as_elements(values, dtype)
    return values


def as_item(value: Any, dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    """Return a scalar as an element, if it is of the same or a simpler kind and in range.

    `name` is the argument's, for messages.

    >>> as_item(7, np.dtype("u1"), "inc")
    array(7, dtype=uint8)
    """
    item = np.zeros((), dtype)
    if dtype.kind not in _SIMPLER:
        item[()] = value
        return item
    given = np.asarray(value)
    if given.ndim:
        raise ShapeError(f"{name} has shape {given.shape}; give a scalar")
    # NumPy turns Python integers beyond 64 bits into objects.
    kind = "i" if type(value) is int else given.dtype.kind
    if kind not in _SIMPLER[dtype.kind]:
        raise CastingError(
            f"cannot cast {name} {value!r} to {dtype} under the rule 'same_kind'; cast it first"
        )
    try:
        item[()] = given.item() if dtype.kind in "iu" else value
    except OverflowError:
        raise LimitError(f"{name} {value!r} is out of range for {dtype}") from None
    return item


def check_same_kind(given: np.dtype[Any], dtype: np.dtype[Any]) -> None:
    """Raise a CastingError if results may not become elements of a dtype."""
    if not np.can_cast(given, dtype, "same_kind"):
        raise CastingError(
            f"cannot cast {given} to elements of {dtype} under the rule 'same_kind'; cast the "
            "values first, or use an array of another dtype"
        )


def scaled(values: ArrayLike, alpha: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return values as elements, times a factor of their kind or a simpler kind.

    Values with a dtype are cast by the rule "same_kind"; Python numbers must be of the kind of the
    elements or a simpler kind.  For integers the factor becomes an element first, so that -1
    subtracts from unsigned ones too.

    >>> scaled([1, 2], -1, np.dtype("u1"))
    array([255, 254], dtype=uint8)
    """
    if dtype.kind not in "iufc":
        raise DTypeError(
            f"elements of {dtype} cannot be added; use integers, floats or complex numbers"
        )
    is_one = type(alpha) is int and alpha == 1
    if is_one and type(values) is np.ndarray and values.dtype == dtype:  # the usual case
        return values
    elements = _of_same_kind(values, dtype)
    if is_one:
        return elements
    factor = np.asarray(alpha)
    if factor.ndim or factor.dtype.kind not in _SIMPLER[dtype.kind]:
        raise CastingError(
            f"alpha {alpha!r} cannot scale elements of {dtype}; multiply the values instead"
        )
    product: NDArray[Any] = elements * factor.astype(dtype)
    return product


def _of_same_kind(values: ArrayLike, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return numbers as elements."""
    given = np.asarray(values)
    if hasattr(values, "dtype"):
        check_same_kind(given.dtype, dtype)
        return as_elements(given, dtype)
    if given.size and given.dtype.kind not in _SIMPLER[dtype.kind]:
        check_same_kind(given.dtype, dtype)
    return as_elements(values, dtype)


def spread(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Broadcast values, which may have leading axes of length 1, to a shape.

    >>> spread(np.array([[1, 2]]), (2,))
    array([1, 2])
    """
    if values.shape == shape:
        return values
    given = values
    while given.ndim > len(shape) and given.shape[0] == 1:
        given = given[0]
    try:
        return np.broadcast_to(given, shape)
    except ValueError:
        raise ShapeError(
            f"values of shape {values.shape} cannot be written to a selection of shape {shape}"
        ) from None
