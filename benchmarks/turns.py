"""Times of calls that take turns, so that noise from outside hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def best_times(calls: Mapping[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """Return the least time of each call, in seconds."""
    times = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name] = min(times[name], time.perf_counter() - start)
    return times
