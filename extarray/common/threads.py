"""Long pieces of work, shared among threads."""

from __future__ import annotations

import contextvars
import itertools
import threading
from functools import partial
from typing import TYPE_CHECKING

from extarray.common.config import config
from extarray.common.limits import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["run_in_shares", "run_together"]


def run_in_shares(call: Callable[[int, int], None], start: int, stop: int, unit: int = 1) -> None:
    """Call a function for the parts of a range, on as many threads as are worth it.

    It is called with the first byte of a part and the one behind its last; to gain by threads it
    must let go of the GIL.  Each part but the last has a whole number of units.  What the first to
    fail raised is raised when all parts have ended.

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
    """Make calls at the same time: the first in this thread, each of the others in one of its own.

    The threads see the settings of the caller.  Where the system gives no more of them, this one
    makes the calls that are left.

    `stop` is called, perhaps more than once, when a call has raised or this thread is interrupted:
    for calls that can come to an early end.  When all have ended, so that whatever they use may be
    closed, what was raised in this thread is raised, or else the first of the others.

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
    # Who makes which call: this thread (0), or that of the call.  An interrupt may come between the
    # start of a thread and any note that it was started, so the thread itself says that it begins;
    # this one takes what is left, and that never begins.
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
    # However often that is interrupted, also by two signals at once: then the second one comes when
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
        interrupt = None  # it refers to this frame, and so to what the calls use
        errors.clear()


def _wait(ends: list[threading.Event], takers: dict[int, int]) -> None:
    """Wait for all calls that threads have taken; no other is taken from now on."""
    for number, end in enumerate(ends, 1):
        if takers.setdefault(number, 0):
            end.wait()


def _goes_on(ends: list[threading.Event], takers: dict[int, int]) -> bool:
    """Tell whether there is anything left to wait for."""
    return any(
        takers.setdefault(number, 0) and not end.is_set() for number, end in enumerate(ends, 1)
    )


def _nothing() -> None:
    """Do nothing: there is nothing that could come to an early end."""
