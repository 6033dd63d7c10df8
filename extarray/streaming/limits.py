"""Limits on how much a function may bring into memory unasked."""

from __future__ import annotations

import inspect
from contextlib import suppress
from functools import cache

import numpy as np

from extarray.common.config import config
from extarray.common.errors import ResultError, ResultWarning
from extarray.common.formatting import format_bytes
from extarray.streaming.warnings import warn

__all__ = ["check_result", "other_way"]


def check_result(nbytes: int, what: str, streamed_way: str) -> None:
    """Warn of a large result in memory, and refuse one that is too large.

    `nbytes` stay in memory; temporary arrays of an operation do not count.  `what` begins the
    message ("the result of add"), and `streamed_way` follows "use".

    Examples
    --------
    >>> check_result(2**20, "the result of add", "out=")
    >>> check_result(2**60, "the result of add", "out= with an ExtArray")
    Traceback (most recent call last):
    ...
    extarray.errors.ResultError: the result of add would take 1024.0 PiB of memory, more than \
config.max_result; use out= with an ExtArray
    """
    if nbytes > config.max_result:
        raise ResultError(
            f"{what} would take {format_bytes(nbytes)} of memory, more than config.max_result; "
            f"use {streamed_way}"
        )
    if nbytes > config.warn_result:
        warn(
            f"{what} takes {format_bytes(nbytes)} of memory; to avoid it, use {streamed_way}",
            ResultWarning,
        )


@cache
def other_way(name: str) -> str:
    """Return the text that tells what to use if a function's result does not fit into memory.

    Examples
    --------
    >>> other_way("add"), other_way("sort")
    ('out= with an ExtArray', 'the method sort, which works in place')
    """
    if name in ("sort", "partition"):
        return f"the method {name}, which works in place"
    for module in (np, np.fft, np.linalg):
        function = getattr(module, name, None)
        if inspect.isroutine(function):
            with suppress(ValueError):  # compiled ones have no signature in some versions of NumPy
                if "out" not in inspect.signature(function).parameters:
                    return "parts of the arrays, as a.lazy[...] gives them"
            break
    return "out= with an ExtArray"
