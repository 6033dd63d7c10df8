"""Advice in messages: what to write in a program, or what to type while a command runs.

Both stand side by side where a message is made, and whoever reads it gets the one that is of use.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["for_shell", "hint"]

_is_for_shell = False


def hint(python: str, shell: str) -> str:
    """Return the advice for programs, or in a block of `for_shell` the one for the shell.

    Examples
    --------
    >>> hint("extarray.unpack(file, path)", "extarray unpack FILE PATH")
    'extarray.unpack(file, path)'
    >>> with for_shell():
    ...     hint("extarray.unpack(file, path)", "extarray unpack FILE PATH")
    'extarray unpack FILE PATH'
    """
    return shell if _is_for_shell else python


@contextlib.contextmanager
def for_shell() -> Iterator[None]:
    """Give advice for the shell, in all threads: the process runs one command."""
    global _is_for_shell
    before, _is_for_shell = _is_for_shell, True
    try:
        yield
    finally:
        _is_for_shell = before
