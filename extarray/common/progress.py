"""Progress of long work: on the terminal, in a notebook, or passed to the user's function."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

from extarray.common.extras import require
from extarray.common.formatting import format_bytes
from extarray.common.limits import limits
from extarray.common.terminal import print_text, printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from extarray.common.arguments import Reported

__all__ = ["Progress", "say"]

# Most characters of the text beside a bar.
_MOST_WORDS = 40


class Progress:
    """The progress of some work, in bytes.

    It shows a bar if tqdm is installed, else a line, on stderr if that is a terminal, or in a
    notebook; and clears it at the end.

    Parameters
    ----------
    total : int
        All bytes.
    what : str
        Name of the work.  The middle of a longer text is left out, to leave room for the bar.
    reported : bool or callable
        False: show nothing, not even on a terminal.  A function is called with the bytes done and
        `total`; then nothing is shown, and an error that it raises ends the work.

    Examples
    --------
    >>> with Progress(100, "copy", True) as progress:
    ...     progress.add(50)
    >>> progress.done
    50
    >>> with Progress(100, "copy", print) as progress:
    ...     progress.add(50)
    50 100
    """

    def __init__(self, total: int, what: str, reported: Reported) -> None:
        self.done = 0
        half = _MOST_WORDS // 2
        short = what if len(what) <= _MOST_WORDS else f"{what[:half]}...{what[-half:]}"
        self._total, self._what = total, short
        self._call = None if isinstance(reported, bool) else reported
        self._shown = reported is True and (_has_terminal() or _has_notebook())
        self._begun = self._last = time.monotonic()
        self._first = 0
        self._width = 0
        self._bar: Any = None

    def add(self, nbytes: int) -> None:
        """Note that further bytes are done."""
        self.done += nbytes
        if self._call is not None:
            self._call(self.done, self._total)
        if not self._shown:
            return
        if self.done == self._first:
            return  # no rate yet
        now = time.monotonic()
        if now - self._last >= limits.progress_interval:
            self._last = now
            self._show(now)

    def skip(self, nbytes: int) -> None:
        """Note bytes that were done before this began: they do not count for the speed."""
        self.done += nbytes
        self._first += nbytes

    def _show(self, now: float) -> None:
        if self._bar is None and not self._width and importlib.util.find_spec("tqdm") is not None:
            self._attempt(self._make_bar)
        elif self._bar is not None:
            self._attempt(lambda: self._bar.update(self.done - self._bar.n))
        else:
            self._show_line(now)

    def _make_bar(self) -> None:
        """Begin a bar, in the style of a terminal or a notebook."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without widgets gets a plain bar
            kind = require("tqdm.auto", "cli", "the bar").tqdm
            # Do without tqdm's thread, which watches for stalled bars.
            quiet = type("Bar", (kind,), {"monitor_interval": 0})
            self._bar = quiet(
                total=self._total,
                desc=self._what,
                unit="B",
                unit_scale=True,
                unit_divisor=1024,
                initial=self._first,
                leave=False,
                mininterval=0,
                delay=1e-9,  # show it with the first update, which has a rate
                # An unset terminal width is 0, with which tqdm would print nothing.
                ncols=None if _has_notebook() else min(shutil.get_terminal_size().columns, 120),
            )
            elapsed = time.monotonic() - self._begun  # the work is older than the bar
            self._bar.start_t -= elapsed
            self._bar.last_print_t -= elapsed
            self._bar.update(self.done - self._bar.n)

    def _attempt(self, action: Callable[[], object]) -> None:
        """Draw while possible; otherwise the work goes on without a display."""
        try:
            action()
        except (OSError, ValueError, AttributeError):
            self._shown = False

    def _show_line(self, now: float) -> None:
        text = f"{self._what}: {self.done / self._total:.0%} of {format_bytes(self._total)}"
        moved, elapsed = self.done - self._first, now - self._begun
        if moved > 0 and elapsed > 0:
            left = round((self._total - self.done) * elapsed / moved)
            text += f", {format_bytes(int(moved / elapsed))}/s, {left // 60}:{left % 60:02} left"
        self._width = max(self._width, len(text))
        self._print(text)

    def _print(self, text: str) -> None:
        """Print over the line; stop if stderr fails.  The next text begins there, too."""
        if not say(f"{text:<{self._width}}", end="\r"):
            self._shown, self._width = False, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._attempt(self._bar.close)
        if self._width:
            self._print("")


def say(text: str, end: str = "\n") -> bool:
    """Print a line on stderr; return False if that fails, so that the work goes on without it."""
    try:
        print_text(printable(text), end, sys.stderr)
    except (OSError, ValueError, AttributeError):  # stderr may be None, closed, or any object
        return False
    return True


def _has_terminal() -> bool:
    """Tell whether stderr is a terminal; it may be None, closed, or any object."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


def _has_notebook() -> bool:
    """Tell whether the code runs in a notebook, which shows output below a cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")
