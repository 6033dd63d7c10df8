"""Text for a terminal, with control characters escaped.

Names of files, axes and attributes may come from anybody.  A terminal obeys control characters in
them: it moves the cursor, changes its display, and may run commands.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["print_text", "printable"]

# Control characters (C0, DEL, C1), line separators, and marks that change the direction of text,
# with which one name can look like another.
_MARKS = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_CONTROLS = re.compile(f"[\0-\x1f\x7f-\x9f{_MARKS}]")
_CONTROLS_IN_LINES = re.compile(f"[\0-\x09\x0b-\x1f\x7f-\x9f{_MARKS}]")


def printable(text: str) -> str:
    r"""Return a text with its control characters escaped, and the rest unchanged.

    Examples
    --------
    >>> print(printable("\u00e9t\u00e9 \\ \x1b[2J\n"))
    été \ \x1b[2J\n
    """
    return _CONTROLS.sub(_in_letters, text)


def print_text(text: str, end: str = "\n", stream: TextIO | None = None) -> None:
    r"""Print lines; escape control characters, and characters that the encoding lacks.

    Parameters
    ----------
    text : str
        Its line feeds end lines.  Escape line feeds in a name inside a line with `printable`.
    end : str
    stream : text stream, optional
        None: stdout.

    Examples
    --------
    >>> print_text("a name: \x1b[2J")
    a name: \x1b[2J
    """
    stream = sys.stdout if stream is None else stream
    text = _CONTROLS_IN_LINES.sub(_in_letters, text)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + end)
    stream.flush()


def _in_letters(match: re.Match[str]) -> str:
    return repr(match[0])[1:-1]
