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
    """Put arrays of ours, in memory, in the place of NumPy's arrays and scalars.

    Parameters
    ----------
    result : object
        Lists and tuples, named ones too, are gone through; other objects stay.
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
    """Make a function of NumPy one that gives arrays of ours.

    Parameters
    ----------
    function : callable
        It streams arrays of ours as far as NumPy's protocols let it.
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return as_arrays(function(*args, **kwargs))

    return wrapped


def wrap_all(module: ModuleType, names: Iterable[str], into: MutableMapping[str, Any]) -> None:
    """Put wrapped functions of a module of NumPy into a namespace.

    Parameters
    ----------
    module : module
    names : iterable of str
        Those that this version of NumPy does not have are left out.
    into : mutable mapping
        Globals of a module; what they already have stays.
    """
    for name in names:
        if name not in into and hasattr(module, name):
            into[name] = wrap(getattr(module, name))
