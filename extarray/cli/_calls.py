"""Calls of commands that make no sense."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from extarray.common.errors import ArgumentError

__all__ = ["WrongCall", "wrong_calls"]


class WrongCall(Exception):  # noqa: N818 -- the exit status says so
    """A call of the command that is not possible, whatever the files are."""


@contextlib.contextmanager
def wrong_calls() -> Iterator[None]:
    """Say of the call what extarray says of arguments."""
    try:
        yield
    except ArgumentError as error:
        raise WrongCall(str(error)) from None
