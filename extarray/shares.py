"""A long piece of work on a range of bytes, shared among threads."""

from __future__ import annotations

import contextlib
import itertools
import threading
from typing import TYPE_CHECKING

from extarray.config import config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["join_all", "run_in_shares"]

# The least share of a thread.
_SHARE = 1 << 23


def run_in_shares(call: Callable[[int, int], None], start: int, stop: int, unit: int = 1) -> None:
    """Call a function for the parts of a range, on as many threads as are worth it.

    Parameters
    ----------
    call : callable
        Called with the first byte of a part and the one behind its last.  To gain by threads it
        must let go of the GIL.
    start, stop : int
    unit : int
        Each part but the last has a whole number of so many bytes.

    Raises
    ------
    Exception
        The first that a part raised, when all parts have ended.

    Examples
    --------
    >>> found = []
    >>> run_in_shares(lambda low, high: found.append(high - low), 0, 100)
    >>> found
    [100]
    """
    n = max(1, min(config.threads, (stop - start) // _SHARE))
    edges = [start + (stop - start) // unit * i // n * unit for i in range(n)] + [stop]
    shares = list(itertools.pairwise(edges))
    errors: list[BaseException] = []
    threads = []

    def run(low: int, high: int) -> None:
        try:
            call(low, high)
        except BaseException as error:  # noqa: BLE001 -- raised by the caller's thread, below
            errors.append(error)

    try:
        for share in shares[1:]:
            thread = threading.Thread(target=run, args=share, daemon=True)
            with contextlib.suppress(RuntimeError):  # no more threads
                thread.start()
                threads.append(thread)
                continue
            call(*share)
        call(*shares[0])
    finally:
        join_all(threads)
    if errors:
        raise errors[0]


def join_all(threads: Iterable[threading.Thread]) -> None:
    """Wait for threads, also when interrupted: what they use may be closed only behind them.

    Parameters
    ----------
    threads : iterable of threading.Thread

    Raises
    ------
    KeyboardInterrupt
        The last that came meanwhile, when all have ended.
    """
    interrupt = None
    for thread in threads:
        while thread.is_alive():
            try:
                thread.join()
            except KeyboardInterrupt as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt
