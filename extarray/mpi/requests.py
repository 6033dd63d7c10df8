"""Requests: transfers that go on while the program computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future

    from numpy.typing import NDArray

__all__ = ["Request"]


class Request:
    """A transfer under way, as `ParallelArray.iread` and its like give it.

    Parameters
    ----------
    future : Future
        Of the thread that makes the transfer.

    Notes
    -----
    A thread of the rank makes the transfer, so it goes on without calls to MPI.  Transfers of one
    array follow each other in the order in which they were asked for.  Neither `wait` nor `test`
    needs the other ranks.
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
            What was read; None for a write.

        Raises
        ------
        StorageError
            An OSError: the transfer failed.
        """
        result: NDArray[Any] | None = self._future.result()
        return result
