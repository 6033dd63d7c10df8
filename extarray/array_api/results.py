"""Results of NumPy's functions, as arrays of the namespace."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.array import creation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, MutableMapping
    from types import ModuleType

__all__ = ["as_arrays", "wrap", "wrap_all"]


def as_arrays(result: Any) -> Any:
    """Replace NumPy's arrays and scalars by our arrays, in memory.

    Parameters
    ----------
    result : object
        Lists and tuples are searched, named tuples too; other objects stay.
    """
    if isinstance(result, (np.ndarray, np.generic)):
        return creation.from_array(np.asarray(result))
    if isinstance(result, list):
        return [as_arrays(item) for item in result]
    if isinstance(result, tuple):
        items = map(as_arrays, result)
        return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
    return result


def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of NumPy return our arrays.

    Parameters
    ----------
    function : callable
        It streams our arrays as far as NumPy's protocols allow.
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return as_arrays(function(*args, **kwargs))

    return wrapped


def wrap_all(module: ModuleType, names: Iterable[str], into: MutableMapping[str, Any]) -> None:
    """Put wrapped functions of one of NumPy's modules into a namespace.

    Parameters
    ----------
    module : module
    names : iterable of str
        Names that this version of NumPy lacks are left out.
    into : mutable mapping
        Globals of a module; existing names stay.
    """
    for name in names:
        if name not in into and hasattr(module, name):
            into[name] = wrap(getattr(module, name))
