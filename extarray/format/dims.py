"""Names of the axes: kept as the attribute ``"dims"``, a list of texts."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from extarray.common.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_dims", "known_dims", "wider_dims"]


def check_dims(dims: Any, ndim: int) -> list[str]:
    """Return the names of the axes that a user gives: texts, one an axis, each once.

    Examples
    --------
    >>> check_dims(("y", "x"), 2)
    ['y', 'x']
    """
    if isinstance(dims, str):
        raise ArgumentTypeError(f"dims must be a sequence of names, not the text {dims!r}")
    try:
        names = list(dims)
    except TypeError:
        raise ArgumentTypeError(
            f"dims must be a sequence of names, not a {type(dims).__name__}"
        ) from None
    for name in names:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"the name {name!r} in dims is a {type(name).__name__}, no str")
    if len(set(names)) < len(names):
        raise ArgumentError(f"dims {tuple(names)} has a name twice; each axis has its own")
    if len(names) != ndim:
        raise ArgumentError(f"dims {tuple(names)} has {len(names)} names for {ndim} axes")
    return [str(name) for name in names]


def known_dims(value: Any, ndim: int) -> tuple[str, ...] | None:
    """Return the names of the axes from the attribute ``"dims"``; None where it holds others.

    Examples
    --------
    >>> known_dims(["y", "x"], 2), known_dims("a text of somebody else", 2)
    (('y', 'x'), None)
    """
    try:
        return tuple(check_dims(value, ndim))
    except (ArgumentError, ArgumentTypeError):
        return None


def wider_dims(dims: Sequence[str], position: int, name: str | None) -> list[str]:
    """Return the names of the axes with one axis more.

    Without a name it has the first of ``dim_0``, ``dim_1``, ... from its position on that is free.

    Examples
    --------
    >>> wider_dims(("y", "x"), 0, "time"), wider_dims(("dim_0", "x"), 0, None)
    (['time', 'y', 'x'], ['dim_1', 'dim_0', 'x'])
    """
    if name is None:
        numbered = (f"dim_{j}" for j in itertools.count(position))
        name = next(text for text in numbered if text not in dims)
    return check_dims((*dims[:position], name, *dims[position:]), len(dims) + 1)
