"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from typing import Any, final

from extarray.common.extras import require
from extarray.common.terminal import print_text

__all__ = ["Progress"]

_LINES = 8  # approximate number of plain lines


@final
class Progress:
    """Reports the progress of work in steps of a unit.

    Shows a bar if stderr is a terminal and tqdm is installed, else a few plain lines on stdout.
    """

    def __init__(self, total: int, what: str, unit: str) -> None:
        self._total, self._what, self._unit = total, what, unit
        self._done = 0
        self._bar: Any = None
        if sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None:
            tqdm = require("tqdm", "cli", "the progress bar")
            sys.stdout.flush()
            # An unset terminal width is 0, with which tqdm would print nothing.
            width = min(shutil.get_terminal_size().columns, 120)
            self._bar = tqdm.tqdm(total=total, desc=what, unit=f" {unit}", ncols=width, delay=1e-9)

    def step(self, text: str, by: int = 1) -> None:
        """Record `by` finished steps; `text` describes the result."""
        self._done += by
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh=False)
            self._bar.update(by)
        elif self._done * _LINES // self._total > (self._done - by) * _LINES // self._total:
            print_text(f"{self._what}: {self._done} of {self._total} {self._unit}, {text}")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
