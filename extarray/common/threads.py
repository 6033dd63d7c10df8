"""Long work, shared among threads."""

from __future__ import annotations

import contextvars
import itertools
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from extarray.common.config import config
from extarray.common.limits import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from queue import SimpleQueue
    from types import TracebackType
    from typing import Self

__all__ = ["ThreadPool", "run_in_shares", "run_together"]


def run_in_shares(call: Callable[[int, int], None], start: int, stop: int, unit: int = 1) -> None:
    """Call a function for the parts of a range, on as many threads as the range justifies.

    `call` gets the start and stop of a part, in bytes; to gain from threads it must release the
    GIL.  Each part but the last has a whole number of units.  The first error is raised once all
    parts have ended.

    Examples
    --------
    >>> found = []
    >>> run_in_shares(lambda low, high: found.append(high - low), 0, 100)
    >>> found
    [100]
    """
    n = min(config.threads, (stop - start) // limits.share_bytes)
    if n <= 1:
        call(start, stop)
        return
    edges = [start + (stop - start) // unit * i // n * unit for i in range(n)] + [stop]
    run_together([partial(call, low, high) for low, high in itertools.pairwise(edges)])


def run_together(
    calls: Sequence[Callable[[], object]], stop: Callable[[], object] | None = None
) -> None:
    """Make calls at the same time: the first in this thread, each other one in its own thread.

    Threads see the caller's settings.  If the system has no more threads, this one makes the
    remaining calls.

    `stop` serves calls that can end early.  It is called, perhaps repeatedly, once a call has
    raised or this thread is interrupted.  When all calls have ended, so that whatever they use may
    be closed, the error of this thread is raised, or else the first error of another.

    Examples
    --------
    >>> found = set()
    >>> run_together([partial(found.add, n) for n in range(3)])
    >>> found
    {0, 1, 2}
    """
    first, *others = calls
    stop = stop or _nothing
    errors: list[BaseException] = []
    ends = [threading.Event() for _ in others]
    # Maps each call to the thread that makes it: this one (0), or the call's own.  An interrupt may
    # come between the start of a thread and any note of it.  So the thread itself notes that it
    # begins, and this one takes the remaining calls, which then never begin elsewhere.
    takers: dict[int, int] = {}

    def assist(number: int, call: Callable[[], object]) -> None:
        if takers.setdefault(number, number) == number:
            try:
                call()
            except BaseException as error:  # noqa: BLE001 -- raised by the caller's thread, below
                errors.append(error)
                stop()
            finally:
                ends[number - 1].set()

    interrupt: BaseException | None = None
    try:
        for number, call in enumerate(others, 1):
            context = contextvars.copy_context()
            thread = threading.Thread(target=context.run, args=(assist, number, call), daemon=True)
            try:
                thread.start()
            except (RuntimeError, MemoryError):  # no more threads
                break
        first()
        for number, call in enumerate(others, 1):
            if takers.setdefault(number, 0) == 0:
                call()
        _wait(ends, takers)
    except BaseException as error:  # noqa: BLE001 -- raised when all have ended
        interrupt = error
    # Loops, as interrupts may repeat, even as two signals at once: the second then arrives while
    # the first is handled.
    while _goes_on(ends, takers):
        try:
            while _goes_on(ends, takers):
                try:
                    stop()
                    _wait(ends, takers)
                except BaseException as error:  # noqa: BLE001 -- raised when all have ended
                    interrupt = error
        except BaseException as error:  # noqa: BLE001 -- raised when all have ended
            interrupt = error
    try:
        if interrupt is not None:
            raise interrupt
        if errors:
            raise errors[0]
    finally:
        interrupt = None  # it refers to this frame, and so to everything the calls use
        errors.clear()


def _wait(ends: list[threading.Event], takers: dict[int, int]) -> None:
    """Wait for all calls that threads have taken; they can take no more from now on."""
    for number, end in enumerate(ends, 1):
        if takers.setdefault(number, 0):
            end.wait()


def _goes_on(ends: list[threading.Event], takers: dict[int, int]) -> bool:
    """Tell whether any call is left to wait for."""
    return any(
        takers.setdefault(number, 0) and not end.is_set() for number, end in enumerate(ends, 1)
    )


def _nothing() -> None:
    """Do nothing: no call can end early."""


class ThreadPool:
    """Threads that each make one call at a time, while the owner's thread goes on.

    They see the owner's settings.  All calls have ended at the end of the block; if the block
    fails, calls that have not begun are dropped.  The owner's next call raises a call's error.

    Parameters
    ----------
    threads : int
        If 0, or if the system has none left, the owner's thread makes the calls.

    Examples
    --------
    >>> with ThreadPool(1) as pool:
    ...     pool.call(partial(sum, [1, 2])) + pool.call(partial(sum, [3, 4])) + pool.rest()
    [3, 7]
    """

    def __init__(self, threads: int) -> None:
        from queue import SimpleQueue  # small jobs need no threads

        self._calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._open = 0
        self._is_over = False
        self._threads: list[threading.Thread] = []
        for _ in range(threads):
            context = contextvars.copy_context()
            thread = threading.Thread(target=context.run, args=(self._work,), daemon=True)
            try:
                thread.start()
            except (RuntimeError, MemoryError):  # no more threads
                break
            self._threads.append(thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        interrupt: BaseException | None = None
        self._is_over = kind is not None
        for _ in self._threads:
            self._calls.put(None)
        while any(thread.is_alive() for thread in self._threads):
            try:
                for thread in self._threads:
                    thread.join()
            except BaseException as again:  # noqa: BLE001 -- raised when all have ended
                interrupt, self._is_over = again, True
        if interrupt is not None:
            raise interrupt

    def call(self, function: Callable[[], Any]) -> list[Any]:
        """Let a thread make a call once one is free; return the results of calls that ended."""
        if not self._threads:
            return [function()]
        found = []
        while self._open >= len(self._threads):
            found.append(self._ended())
        self._open += 1
        self._calls.put(function)
        return found

    def rest(self) -> list[Any]:
        """Wait for all calls; return the results that `call` has not returned."""
        return [self._ended() for _ in range(self._open)]

    def _ended(self) -> Any:
        """Wait for a call to end; raise its error, or return its result."""
        value, error = self._done.get()
        self._open -= 1
        if error is not None:
            raise error
        return value

    def _work(self) -> None:
        """Make calls until None ends the queue."""
        while True:
            function = self._calls.get()
            if function is None:
                return
            if self._is_over:
                continue
            try:
                found: tuple[Any, BaseException | None] = function(), None
            except BaseException as error:  # noqa: BLE001 -- raised by the owner's thread
                found = None, error
            self._done.put(found)
            del function, found
