"""Progress of long work: a line on the terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from extarray.common.formatting import format_bytes
from extarray.common.limits import limits

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Progress", "say"]


class Progress:
    """Tell how many bytes are done.

    The line stands on stderr, where that is a terminal, and is cleared at the end.

    Parameters
    ----------
    total : int
        Bytes in all.
    what : str
        What is being done.
    shown : bool
        False: say nothing, on a terminal either.

    Examples
    --------
    >>> with Progress(100, "copy", shown=True) as progress:
    ...     progress.add(50)
    >>> progress.done
    50
    """

    def __init__(self, total: int, what: str, shown: bool) -> None:
        self.done = 0
        self._total, self._what = total, what
        self._shown = shown and _has_terminal()
        self._begun = self._last = time.monotonic()
        self._first = 0
        self._width = 0

    def add(self, nbytes: int) -> None:
        """Note that so many bytes more are done."""
        self.done += nbytes
        if not self._shown:
            return
        now = time.monotonic()
        if now - self._last >= limits.progress_interval:
            self._last = now
            self._show(now)

    def skip(self, nbytes: int) -> None:
        """Note that so many bytes were done before this began: they say nothing about its speed."""
        self.done += nbytes
        self._first += nbytes

    def _show(self, now: float) -> None:
        # A clock may stand still between two looks, and so may the work.
        speed = max(1.0, (self.done - self._first) / max(now - self._begun, 1e-6))
        left = round((self._total - self.done) / speed)
        text = (
            f"{self._what}: {self.done / self._total:.0%} of {format_bytes(self._total)}, "
            f"{format_bytes(int(speed))}/s, {left // 60}:{left % 60:02} left"
        )
        self._width = max(self._width, len(text))
        self._print(f"\r{text:<{self._width}}")

    def _print(self, text: str) -> None:
        """Print, as long as there is a terminal."""
        if not say(text, end=""):
            self._shown, self._width = False, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._width:
            self._print(f"\r{'':<{self._width}}\r")


def say(text: str, end: str = "\n") -> bool:
    """Print on stderr, whatever that is; tell whether it could: the work goes on without it."""
    try:
        sys.stderr.write(text + end)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # it may be None, closed, or anything
        return False
    return True


def _has_terminal() -> bool:
    """Tell whether stderr is a terminal: it may be None, closed, or any object."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False
