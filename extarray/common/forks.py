"""Open arrays in a forked child, and the registry of objects that it notifies.

Only the thread that forked goes on in the child.  So a lock that another thread held is never
released there, and its work stays half done.
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

# In order of registration: a store before its array, and the array before blocks that use it.
_heirs: dict[object, tuple[weakref.ref[Any], Callable[[Any], None]]] = {}


def in_children(heir: _T, method: Callable[[_T], None]) -> None:
    """Call a method of an object, while it lives, in forked children, in order of registration."""
    entry = object()  # two threads could draw the same number from a counter
    _heirs[entry] = weakref.ref(heir, lambda _: _heirs.pop(entry, None)), method


def heirs(method: Callable[[Any], None]) -> list[Any]:
    """Return the living objects registered with a method, in order of registration."""
    found = [reference() for reference, given in list(_heirs.values()) if given is method]
    return [heir for heir in found if heir is not None]


def _after_fork_in_child() -> None:
    with (
        contextlib.ExitStack() as steps
    ):  # calls all of them, even if one fails, the last one pushed first
        for reference, method in reversed(list(_heirs.values())):
            heir = reference()
            if heir is not None:
                steps.callback(method, heir)


after_fork_in_child(_after_fork_in_child)
