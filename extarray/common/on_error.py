"""Blocks that are undone where they raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OnError"]


class OnError:
    """A block that is undone by a call if anything is raised in it, an interrupt included.

    It is no generator: an interrupt that comes when the block has ended would throw this one away,
    and its end would undo what was done.

    Parameters
    ----------
    undo : callable
        It is called with `args` if the block raises, and the error goes on.  What it raises itself
        takes the place of the error.
    *args
        Its arguments.
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
