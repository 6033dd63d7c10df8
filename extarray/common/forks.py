"""The conduct of open arrays in a forked child, and which ones there are.

Of the threads of the parent, only the one that forked goes on there.  So a lock that another one
held is never let go, and what that was about stays half done.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from extarray.common.system import after_fork_in_child

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["heirs", "in_children"]

_T = TypeVar("_T")

# In the order in which they came: a store before its array, and that before a block that it is in.
_heirs: dict[object, tuple[weakref.ref[Any], Callable[[Any], None]]] = {}


def in_children(heir: _T, method: Callable[[_T], None]) -> None:
    """Call a method of an object in each forked child, as long as the object lives.

    Objects that were given before come before.
    """
    entry = object()  # a number that is counted could be that of two threads
    _heirs[entry] = weakref.ref(heir, lambda _: _heirs.pop(entry, None)), method


def heirs(method: Callable[[Any], None]) -> list[Any]:
    """Return the objects that live and were given with a method, the first given first."""
    found = [reference() for reference, given in list(_heirs.values()) if given is method]
    return [heir for heir in found if heir is not None]


def _after_fork_in_child() -> None:
    with (
        contextlib.ExitStack() as steps
    ):  # all of them, whatever fails; the last given is the first
        for reference, method in reversed(list(_heirs.values())):
            heir = reference()
            if heir is not None:
                steps.callback(method, heir)


after_fork_in_child(_after_fork_in_child)
