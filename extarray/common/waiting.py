"""Waits that end: several attempts at something, with naps in between."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["attempts", "end_of"]

# Seconds.
_FIRST_NAP, _LONGEST_NAP = 0.001, 0.05


def end_of(timeout: float | None) -> float | None:
    """Return the end of a wait that begins now; None: never."""
    return None if timeout is None else time.monotonic() + timeout


def attempts(end: float | None) -> Iterator[None]:
    """Yield for each attempt until the end, the first at once, with naps in between."""
    nap = _FIRST_NAP
    while True:
        yield
        left = nap if end is None else end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(nap, left))
        nap = min(2 * nap, _LONGEST_NAP)
