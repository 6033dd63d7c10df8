"""Blocks that are undone if they raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OnError"]


class OnError:
    """A block that a call undoes if anything is raised in it, including an interrupt.

    Not a generator-based context manager: an interrupt just after the block would discard the
    generator, whose cleanup would then undo finished work.

    Parameters
    ----------
    undo : callable
        Called with `args` if the block raises; then the error goes on.  An error that `undo` raises
        replaces it.
    *args
        Arguments of `undo`.
    """

    __slots__ = ("_args", "_undo")

    def __init__(self, undo: Callable[..., object], *args: object) -> None:
        self._undo = undo
        self._args = args

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._undo(*self._args)
