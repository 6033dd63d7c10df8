"""Checks of arguments: an int, an axis, a flag, a number of bytes, one of a few strings."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from extarray.common import system
from extarray.common.choices import DURABILITIES
from extarray.common.errors import ArgumentError, ArgumentTypeError, AxisError
from extarray.common.hints import hint

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "NOT_GIVEN",
    "Reported",
    "as_axis",
    "as_int",
    "as_ints",
    "axis_named",
    "check_choice",
    "check_durability",
    "check_flag",
    "check_progress",
    "parse_bytes",
]

#: Values of `progress=`: whether to show it, or a function of the bytes done and the total.
Reported: TypeAlias = bool | Callable[[int, int], object]


class _NotGiven:
    """Marks an option as not given, where None has a meaning of its own."""

    def __repr__(self) -> str:
        return "<default>"


NOT_GIVEN: Any = _NotGiven()

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS[f"{_letter}IB"] = 1024**_power
    _UNITS[f"{_letter}B"] = 1000**_power


def _index(value: Any) -> int:
    """Return an integer, Python's or NumPy's, as an int; raise TypeError for anything else."""
    if isinstance(value, (bool, np.bool)):
        raise TypeError
    return operator.index(value)


def as_int(value: SupportsIndex, name: str, kinds: str = "an int") -> int:
    """Return an argument as an int; an error names it, and the `kinds` it may be."""
    if type(value) is int:
        return value
    try:
        return _index(value)
    except TypeError:
        raise ArgumentTypeError(f"{name} must be {kinds}, not {value!r}") from None


def as_ints(values: SupportsIndex | Sequence[SupportsIndex], name: str) -> tuple[int, ...]:
    """Return one int or several as a tuple.

    Examples
    --------
    >>> as_ints(3, "chunks"), as_ints([2, 3], "chunks")
    ((3,), (2, 3))
    """
    try:
        return (_index(values),)
    except TypeError:
        pass
    try:
        return tuple(_index(n) for n in values)  # type: ignore[union-attr]
    except TypeError:
        raise ArgumentTypeError(
            f"{name} must be an int or a sequence of ints, not {values!r}"
        ) from None


def as_axis(axis: SupportsIndex | str, ndim: int, array: Any = None) -> int:
    """Return the number of an axis, counted from 0; negative numbers count from the end.

    A string is the name of an axis, one of the `dims` of `array`.
    """
    if type(axis) is int:  # the usual case
        j = axis
    elif isinstance(axis, str):
        return axis_named(axis, getattr(array, "dims", None))
    else:
        j = as_int(axis, "axis")
    if not -ndim <= j < ndim:
        raise AxisError(j, ndim)
    return j % ndim


def axis_named(name: str, dims: Sequence[str] | None) -> int:
    """Return the number of the axis with a name.

    Examples
    --------
    >>> axis_named("x", ("y", "x"))
    1
    """
    if dims is None:
        raise ArgumentTypeError(
            f"axis must be an int, not {name!r}: the axes are unnamed; name them with "
            + hint("a.dims = (...)", "extarray attrs PATH 'dims=[\"NAME\", ...]'")
        )
    if name not in dims:
        raise AxisError(f"no axis is named {str(name)!r}; the axes are {tuple(dims)}")
    return tuple(dims).index(name)


def check_flag(value: Any, name: str) -> bool:
    """Return an argument that is true or false; refuse strings, even "True", and other objects."""
    if value is True or value is False:  # the usual case
        return value
    if isinstance(value, np.bool) or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise ArgumentTypeError(f"{name} must be True or False, not {value!r}")


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Return an argument that is one of a few strings.

    Examples
    --------
    >>> check_choice("mmap", "engine", ["mmap", "pread"])
    'mmap'
    """
    if not isinstance(value, str) or value not in choices:
        raise ArgumentError(f"{name} {value!r} is not valid; use one of {', '.join(choices)}")
    return str(value)


def check_durability(value: Any) -> str:
    """Return a durability that the system can give.

    Examples
    --------
    >>> check_durability("commit")
    'commit'
    """
    durability = check_choice(value, "durability", DURABILITIES)
    if durability == "steady" and not system.WRITES_BACK:
        raise ArgumentError(
            "durability 'steady' needs Linux: this system cannot be told to begin to write; leave "
            "it out, and call flush now and then"
        )
    return durability


def parse_bytes(value: int | str) -> int:
    """Return a number of bytes, at least 0, from a number or a string such as ``"256 MiB"``.

    Units are B, kB, MB, GB, TB (powers of 1000), and KiB, MiB, GiB, TiB (powers of 1024).

    Examples
    --------
    >>> parse_bytes("256 MiB")
    268435456
    """
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:[eE]\d+)?)\s*([A-Za-z]*)\s*", value)
        unit = None if match is None else _UNITS.get(match[2].upper())
        if match is None or unit is None or math.isinf(float(match[1]) * unit):
            raise ArgumentError(f"{value!r} is not a number of bytes; write for example '256 MiB'")
        return int(float(match[1]) * unit)
    number = as_int(value, "a number of bytes", "an int or a string")
    if number < 0:
        raise ArgumentError(f"{number} is not a number of bytes")
    return number


def check_progress(value: Any) -> Reported:
    """Return the argument `progress=`, checked.

    Examples
    --------
    >>> check_progress(True)
    True
    """
    if isinstance(value, bool) or callable(value):
        return value  # type: ignore[no-any-return]
    raise ArgumentTypeError(
        f"progress must be True, False, or a function of (done, total), not {value!r}"
    )
