"""Mapped pages of files that long operations have passed and no longer need."""

from __future__ import annotations

from extarray._core._mapping import give_back_pages
from extarray.common.config import config

__all__ = ["Passing"]


class Passing:
    """Counts the bytes that an operation goes through, to stay within ``config.mapped_memory``.

    Parameters
    ----------
    share : int
        Number of threads, each of which counts for itself.

    Examples
    --------
    >>> from extarray.common.config import config
    >>> with config.set(mapped_memory="64 MiB"):
    ...     passing = Passing()
    >>> passing.add(1 << 20)
    """

    __slots__ = ("_bytes", "_limit")

    def __init__(self, share: int = 1) -> None:
        limit = config.mapped_memory
        self._limit = None if limit is None else max(1, limit // share)
        self._bytes = 0

    def add(self, nbytes: int) -> None:
        """Count bytes; at the bound, take mapped pages of files out of the resident set."""
        if self._limit is None:
            return
        self._bytes += nbytes
        if self._bytes >= self._limit:
            self._bytes = 0
            give_back_pages()
