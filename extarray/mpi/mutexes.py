"""Mutexes of the ranks of a communicator, in an MPI window.

Waiting ranks form a queue (Mellor-Crummey and Scott's).  Each knows only its successor, and polls
only its own memory until its predecessor passes the mutex on.  So ranks are served in the order of
arrival, and waiting costs other ranks nothing.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from extarray.common.arguments import as_int
from extarray.common.errors import ArgumentError, BoundsError, ClosedError
from extarray.mpi.runtime import Agreement, is_agreed, library

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

__all__ = ["Mutexes"]

_NOBODY = -1
# A rank's words for each mutex: the last rank of the queue (on the mutex's home rank only), this
# rank's successor, and whether this rank waits.
_WORDS = 3
_LAST, _NEXT, _WAITS = range(_WORDS)

_BYTES = np.dtype(np.int64).itemsize
# Polls that only yield the processor; later polls sleep for `_NAP` seconds in between.
_LOOKS = 100
_NAP = 1e-4


class Mutexes:
    """A set of mutexes, each held by one rank at a time.

    Made by `Mutexes.create` and `GlobalArray.create_mutexes`.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
    count : int

    Notes
    -----
    One rank alone calls `lock` and `unlock`.  The next rank to `lock` gets what this rank put into
    a global array before `unlock`.  Mutexes separate ranks, not threads of one rank.

    Examples
    --------
    >>> with Mutexes.create(2, MPI.COMM_WORLD) as mutexes:  # doctest: +SKIP
    ...     with mutexes.held(0):
    ...         g.put(3, 2 * g.get(3))
    """

    def __init__(self, comm: Any, count: int) -> None:
        MPI = library()
        self._comm, self._count = comm, count
        self._held = set[int]()
        self._window = MPI.Win.Allocate(_BYTES * _WORDS * count, 1, comm=comm)
        self._window.Lock_all()
        words = np.frombuffer(self._window.tomemory(), np.int64)
        words[:] = _NOBODY
        self._window.Sync()
        comm.Barrier()
        self._window.Sync()

    @classmethod
    def create(cls, count: SupportsIndex, comm: Any) -> Self:
        """Create mutexes, all free; collective.

        Parameters
        ----------
        count : int
            Number of mutexes, at least 1; the same on all ranks.
        comm : mpi4py.MPI.Intracomm

        Returns
        -------
        Mutexes

        Raises
        ------
        ArgumentError, ArgumentTypeError
            On all ranks, if one has a reason.

        Examples
        --------
        >>> mutexes = Mutexes.create(4, MPI.COMM_WORLD)  # doctest: +SKIP
        """
        with Agreement.on_duplicate(comm) as agreement:
            with agreement.step() as step:
                n = as_int(count, "count")
                if n < 1:
                    raise ArgumentError(f"count must be at least 1, not {n}")
                step.arguments = f"create {n} mutexes"
            return cls(agreement.comm, n)

    def lock(self, number: SupportsIndex) -> None:
        """Wait until no other rank has a mutex, and take it.

        Parameters
        ----------
        number : int
            In [0, count).

        Raises
        ------
        BoundsError
        ArgumentError
            A ValueError: this rank has it already.

        Examples
        --------
        >>> mutexes.lock(0)  # doctest: +SKIP
        """
        i = self._number(number)
        if i in self._held:
            raise ArgumentError(f"this rank already holds mutex {i}; unlock it first")
        rank = self._comm.rank
        self._set(rank, _NEXT, i, _NOBODY)
        self._set(rank, _WAITS, i, 1)
        before = self._set(self._home(i), _LAST, i, rank)
        if before != _NOBODY:
            self._set(before, _NEXT, i, rank)
            self._wait(_WAITS, i, 1)
        self._held.add(i)
        self._window.Sync()

    def unlock(self, number: SupportsIndex) -> None:
        """Release a mutex to the next rank that waits for it.

        Parameters
        ----------
        number : int

        Raises
        ------
        BoundsError
        ArgumentError
            A ValueError: this rank does not have it.

        Examples
        --------
        >>> mutexes.unlock(0)  # doctest: +SKIP
        """
        i = self._number(number)
        if i not in self._held:
            raise ArgumentError(f"this rank does not hold mutex {i}; lock it first")
        self._window.Sync()
        rank = self._comm.rank
        after = self._get(_NEXT, i)
        if after == _NOBODY:
            if self._leave(i, rank):
                self._held.remove(i)
                return
            # a successor has arrived, and is about to write its rank
            after = self._wait(_NEXT, i, _NOBODY)
        self._set(after, _WAITS, i, 0)
        self._held.remove(i)

    @contextlib.contextmanager
    def held(self, number: SupportsIndex) -> Iterator[None]:
        """Hold a mutex for the length of a with statement.

        Parameters
        ----------
        number : int

        Examples
        --------
        >>> with mutexes.held(0):  # doctest: +SKIP
        ...     g.put(3, 2 * g.get(3))
        """
        self.lock(number)
        try:
            yield
        finally:
            self.unlock(number)

    def destroy(self) -> None:
        """Free the mutexes; collective.  Unlocks those that this rank has.

        Examples
        --------
        >>> mutexes.destroy()  # doctest: +SKIP
        """
        if self._window is None:
            return
        for i in sorted(self._held):
            self.unlock(i)
        window, self._window = self._window, None
        window.Unlock_all()
        window.Free()
        self._comm.Free()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        # A rank that leaves by its own error does not wait for the others.
        if self._window is not None and (error is None or is_agreed(error, self._comm)):
            self.destroy()

    def _number(self, number: SupportsIndex) -> int:
        if self._window is None:
            raise ClosedError("the mutexes were destroyed; create new ones")
        i = as_int(number, "number")
        if not 0 <= i < self._count:
            raise BoundsError(f"no mutex {i}; the mutexes are 0 to {self._count - 1}")
        return i

    # -- words of a mutex, on any rank ---------------------------------------------------------

    def _home(self, i: int) -> int:
        """Return the rank that keeps the end of a queue; mutexes are spread over the ranks."""
        return int(i % self._comm.size)

    def _displacement(self, word: int, i: int) -> int:
        return _BYTES * (_WORDS * i + word)

    def _set(self, rank: int, word: int, i: int, value: int) -> int:
        """Set a word; return its old value."""
        return self._fetch(rank, word, i, value, library().REPLACE)

    def _get(self, word: int, i: int) -> int:
        """Return a word of this rank."""
        return self._fetch(self._comm.rank, word, i, 0, library().NO_OP)

    def _fetch(self, rank: int, word: int, i: int, value: int, operation: Any) -> int:
        new, old = np.array(value, np.int64), np.empty((), np.int64)
        self._window.Fetch_and_op(new, old, rank, self._displacement(word, i), operation)
        self._window.Flush(rank)
        return int(old)

    def _leave(self, i: int, rank: int) -> bool:
        """Leave a queue if no rank has queued behind; tell whether this succeeded."""
        home = self._home(i)
        nobody, last = np.array(_NOBODY, np.int64), np.array(rank, np.int64)
        old = np.empty((), np.int64)
        self._window.Compare_and_swap(nobody, last, old, home, self._displacement(_LAST, i))
        self._window.Flush(home)
        return int(old) == rank

    def _wait(self, word: int, i: int, value: int) -> int:
        """Wait until a word of this rank no longer has a value; return the new one."""
        looks = 0
        while (found := self._get(word, i)) == value:
            looks += 1
            time.sleep(0 if looks < _LOOKS else _NAP)
        return found
