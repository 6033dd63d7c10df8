"""Freed memory goes back to the system, so that a process of the suite stays small to its end.

The peak of each process is told at the end of a run.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
from mmap import PAGESIZE

__all__ = ["MOST", "GivesBack", "Peak"]

#: Bytes that no process of the suite should exceed, without its children.
MOST = 1 << 30
#: Growth, in bytes, at which a look for garbage pays.
_MUCH = 64 << 20
#: Parameters of glibc's `mallopt`: hundreds of tests start threads, which would get heaps of their
#: own, and a large array once freed would make the library keep others of its size.
_SETTINGS = {"arenas": (-8, 2), "map above": (-3, 4 << 20), "keep": (-1, 32 << 20)}


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
        library = ctypes.CDLL(None) if os.name == "posix" else None
        self._trim = getattr(library, "malloc_trim", None)
        if self._trim is not None:  # glibc
            for parameter, value in _SETTINGS.values():
                library.mallopt(parameter, value)

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


class Peak:
    """The most memory that a process has had, and the test that took it there.

    Attributes
    ----------
    nbytes : int
        Resident memory, with mapped files and libraries; 0 where nobody tells.
    test : str
        The last test in which the peak rose by `_MUCH`.
    """

    def __init__(self) -> None:
        self.nbytes = self._now()
        self.test = ""
        self._base = self.nbytes

    @staticmethod
    def _now() -> int:
        with contextlib.suppress(ImportError):
            import resource

            unit = 1 if sys.platform == "darwin" else 1024
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        return 0

    def look(self, test: str) -> None:
        """Note the peak behind a test."""
        self.nbytes = self._now()
        if self.nbytes - self._base >= _MUCH:
            self._base, self.test = self.nbytes, test
