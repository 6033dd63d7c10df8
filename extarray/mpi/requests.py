"""Requests: transfers that go on while the program computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from extarray.mpi.runtime import library

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from numpy.typing import NDArray

__all__ = ["Request", "ThreadRequest", "WindowRequest"]


class Request(ABC):
    """A transfer under way, as `ParallelArray.iread`, `GlobalArray.iget` and their like give it.

    Notes
    -----
    Transfers of files are made by a thread of the rank, so they go on without calls to MPI, and
    those of one array follow each other in the order in which they were asked for.  One-sided
    transfers are MPI's.  Neither `wait` nor `test` needs the other ranks to take part.
    """

    __slots__ = ()

    @abstractmethod
    def test(self) -> bool:
        """Whether the transfer is over.

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
            What was read; None for a write.

        Raises
        ------
        StorageError
            An OSError: the transfer failed.
        TruncatedError
            A ValueError: another program has cut the file off.
        """


class ThreadRequest(Request):
    """A transfer that a thread of this rank makes.

    Parameters
    ----------
    future : Future
        Of the thread.
    """

    __slots__ = ("_future",)

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def test(self) -> bool:
        """Whether the transfer is over.

        Returns
        -------
        bool
        """
        return self._future.done()

    def wait(self) -> NDArray[Any] | None:
        """Wait for the end of the transfer.

        Returns
        -------
        ndarray or None
        """
        result: NDArray[Any] | None = self._future.result()
        return result


class WindowRequest(Request):
    """A one-sided transfer, which MPI makes.

    Parameters
    ----------
    pending : list of mpi4py.MPI.Request
    finish : callable
        Called once, when MPI is done; returns the result.
    """

    __slots__ = ("_finish", "_pending", "_result")

    def __init__(self, pending: list[Any], finish: Callable[[], NDArray[Any] | None]) -> None:
        self._pending = pending
        self._finish: Callable[[], NDArray[Any] | None] | None = finish
        self._result: NDArray[Any] | None = None

    def test(self) -> bool:
        """Whether the transfer is over.

        Returns
        -------
        bool
        """
        return self._finish is None or (
            library().Request.Testall(self._pending) and self._end(self._finish)
        )

    def wait(self) -> NDArray[Any] | None:
        """Wait for the end of the transfer.

        Returns
        -------
        ndarray or None
        """
        if self._finish is not None:
            if self._pending:
                library().Request.Waitall(self._pending)
            self._end(self._finish)
        return self._result

    def _end(self, finish: Callable[[], NDArray[Any] | None]) -> bool:
        self._result, self._finish = finish(), None
        self._pending.clear()
        return True
