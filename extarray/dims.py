"""Names of the axes: kept as the attribute ``"dims"``, a list of texts."""

from __future__ import annotations

from typing import Any

from extarray.errors import ArgumentError, ArgumentTypeError

__all__ = ["check_dims", "known_dims"]


def check_dims(dims: Any, ndim: int) -> list[str]:
    """Names of the axes that a user gives.

    Parameters
    ----------
    dims : sequence of str
        Unique, one an axis.
    ndim : int

    Returns
    -------
    list of str

    Raises
    ------
    ArgumentTypeError
        A TypeError: no sequence of texts.
    ArgumentError
        A ValueError: a name occurs twice, or there are too few or too many.

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
    """Names of the axes from the attribute ``"dims"``, or None where it holds something else.

    Parameters
    ----------
    value : object
        A JSON value.
    ndim : int

    Returns
    -------
    tuple of str, or None

    Examples
    --------
    >>> known_dims(["y", "x"], 2), known_dims("a text of somebody else", 2)
    (('y', 'x'), None)
    """
    try:
        return tuple(check_dims(value, ndim))
    except (ArgumentError, ArgumentTypeError):
        return None
