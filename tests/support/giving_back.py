"""Freed memory goes back to the system, so that a process of the suite stays small to its end."""

from __future__ import annotations

import ctypes
import gc
import os
from mmap import PAGESIZE

__all__ = ["GivesBack"]

#: Growth, in bytes, at which a look for garbage pays.
_MUCH = 128 << 20


def _anonymous() -> int:
    """Return the bytes of memory that the process has for itself; 0 where nobody tells."""
    try:
        with open("/proc/self/statm") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except OSError:
        return 0
    return (resident - shared) * PAGESIZE


class GivesBack:
    """Gives memory back when it has grown much since the last time.

    Cycles of large arrays (dask's graphs) live until Python looks at all objects, which it does
    rarely once many modules are loaded; and the C library keeps what threads have freed.
    """

    def __init__(self) -> None:
        self.kept = 0
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None

    def look(self) -> bool:
        """Give memory back if there is reason to; return whether that was so."""
        now = _anonymous()
        # Memory that went back in between must not grow again unnoticed.
        self.kept = min(self.kept, now) if self.kept else now
        if now - self.kept < _MUCH:
            return False
        gc.collect()
        if self._trim is not None:
            self._trim(0)
        self.kept = _anonymous()
        return True
