"""Limits of what a function may bring into memory without being asked."""

from __future__ import annotations

from extarray.config import config
from extarray.errors import ResultError, ResultWarning
from extarray.info import format_bytes
from extarray.protocols.notices import warn

__all__ = ["check_result"]


def check_result(nbytes: int, what: str, streamed_way: str) -> None:
    """Warn of a result in memory that is large, and refuse one that is too large.

    Parameters
    ----------
    nbytes : int
        Bytes that will be in memory, not counting what an operation needs for a moment.
    what : str
        What they are, the first words of the message: "the result of add".
    streamed_way : str
        What to do instead, in words that follow "use".

    Raises
    ------
    ResultError
        A MemoryError: more than ``config.max_result``.

    Warns
    -----
    ResultWarning
        More than ``config.warn_result``.

    Examples
    --------
    >>> check_result(2**20, "the result of add", "out=")
    >>> check_result(2**60, "the result of add", "out= with an ExtArray")
    Traceback (most recent call last):
    ...
    extarray.errors.ResultError: the result of add would take 1024.0 PiB of memory, more than \
config.max_result allows; use out= with an ExtArray
    """
    if nbytes > config.max_result:
        raise ResultError(
            f"{what} would take {format_bytes(nbytes)} of memory, more than config.max_result "
            f"allows; use {streamed_way}"
        )
    if nbytes > config.warn_result:
        warn(
            f"{what} takes {format_bytes(nbytes)} of memory; to avoid it, use {streamed_way}",
            ResultWarning,
        )
