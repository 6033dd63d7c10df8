"""The registry of streamed forms of NumPy's functions, and the fallback for functions without one.

A streamed form has NumPy's own signature, and `streams` registers it.  It may decline by returning
NotImplemented.  All other functions get NumPy arrays in place of ours, read whole if the limits
allow it.  Names of axes become numbers before either runs.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from extarray.common.arguments import axis_named
from extarray.streaming.blocks import Source, axis_names, read_elements, write_elements
from extarray.streaming.limits import check_result
from extarray.streaming.operands import exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Function = Callable[..., Any]

__all__ = [
    "call",
    "changed_by",
    "fall_back",
    "has_names",
    "number_axes",
    "number_axis",
    "streamed",
    "streams",
]

F = TypeVar("F", bound="Callable[..., Any]")

#: Streamed forms, by NumPy's functions.
streamed: dict[Function, Function] = {}

#: Functions that change an argument, and the argument; by name, as NumPy imports some late.
_CHANGES = {
    "assign_fields_by_name": "dst",
    "copyto": "dst",
    "fill_diagonal": "a",
    "place": "arr",
    "put": "a",
    "put_along_axis": "arr",
    "putmask": "a",
    "recursive_fill_fields": "output",
}


def streams(*functions: Function) -> Callable[[F], F]:
    """Register the streamed form of functions of its signature; it declines by NotImplemented."""

    def register(form: F) -> F:
        for function in functions:
            streamed[function] = form
        return form

    return register


def call(function: Function, *args: Any, **kwargs: Any) -> Any:
    """Call a function's streamed form, whose module must be imported, or else the fallback."""
    result = streamed[function](*args, **kwargs)
    return fall_back(function, args, kwargs) if result is NotImplemented else result


def fall_back(
    function: Function,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    changed: tuple[Any, ...] | None = None,
) -> Any:
    """Call a function with NumPy arrays in place of ours, and write back what it changed.

    Our arrays may be inside lists, tuples and dicts.  `changed` lists the arguments that the
    function changes, if its signature does not name them.  A result in an array of ours, such as
    ``out=``, comes back as that array.
    """
    name = getattr(function, "__name__", repr(function))
    whole = _Whole(name, (args, kwargs))
    result = function(*whole.exchange(args), **whole.exchange(kwargs))
    # Not earlier: the function must first refuse arguments that its signature does not bind.
    return whole.restore(result, changed_by(function, args, kwargs) if changed is None else changed)


class _Whole:
    """NumPy arrays in place of our arrays."""

    def __init__(self, name: str, arguments: Any) -> None:
        found: dict[int, Source] = {}
        exchange(arguments, Source, lambda source: found.setdefault(id(source), source))
        nbytes = sum(source.size * source.dtype.itemsize for source in found.values())
        check_result(
            nbytes,
            f"{name} works on whole arrays: reading them",
            "parts of the arrays: the functions that stream are listed in the reference",
        )
        # The pairs keep our arrays alive, as their ids are the keys.
        self._pairs = {key: (source, read_elements(source)) for key, source in found.items()}

    def exchange(self, value: Any) -> Any:
        """Return the arguments with NumPy arrays in place of ours."""
        return exchange(value, Source, lambda source: self._pairs[id(source)][1])

    def restore(self, result: Any, changed: tuple[Any, ...]) -> Any:
        """Write changed arrays back to ours, and return the result with ours in their place."""
        ours = {}
        for source, whole in self._pairs.values():
            if any(source is array for array in changed):
                write_elements(source, ..., whole)
                ours[id(whole)] = source
        if isinstance(result, tuple) and type(result) is tuple:
            return tuple(ours.get(id(item), item) for item in result)
        return ours.get(id(result), result)


def changed_by(
    function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return the arguments that a function changes, positional or keyword; some may be None."""
    given = kwargs
    signature = _signature(function)
    if signature is not None:
        given = signature.bind(*args, **kwargs).arguments
    out = given.get("out")
    name = _CHANGES.get(getattr(function, "__name__", ""), "out")
    return (*(out if isinstance(out, tuple) else (out,)), given.get(name))


# -- names of axes -------------------------------------------------------------------------------

#: Parameters of NumPy's functions that name axes of the given arrays.
_AXES = ("axis", "axes", "axis1", "axis2", "axisa", "source")

#: Functions whose axes belong to the result, or to two arrays.
_OTHER_AXES = frozenset({"expand_dims", "stack", "tensordot"})

_MOST_AXES = 64  # NumPy's limit; a longer list does not hold axes


def has_names(values: Iterable[Any]) -> bool:
    """Tell whether arguments may name axes: a string, or a short list with a string."""
    for value in values:
        kind = type(value)
        if kind is str or (
            kind in (tuple, list)
            and len(value) <= _MOST_AXES
            and any(isinstance(item, str) for item in value)
        ):
            return True
    return False


def number_axes(
    function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return arguments with numbers for names of axes, as our first named array defines them."""
    signature = _signature(function)
    if signature is None or getattr(function, "__name__", "") in _OTHER_AXES:
        return args, kwargs
    places = {name: place for place, name in enumerate(signature.parameters)}
    new_args, new_kwargs = list(args), dict(kwargs)
    for name in filter(places.__contains__, _AXES):
        if name in new_kwargs:
            new_kwargs[name] = _numbered(new_kwargs[name], (args, kwargs))
        elif places[name] < len(new_args):
            new_args[places[name]] = _numbered(new_args[places[name]], (args, kwargs))
    return tuple(new_args), new_kwargs


def number_axis(options: Mapping[str, Any], inputs: tuple[Any, ...]) -> Mapping[str, Any]:
    """Return the options of a ufunc's method with numbers for names of axes."""
    if has_names([options.get("axis")]):
        return {**options, "axis": _numbered(options["axis"], inputs)}
    return options


def _numbered(axis: Any, arguments: Any) -> Any:
    """Return an axis, or several, with numbers for names."""
    if not has_names([axis]):
        return axis
    found: list[Source] = []
    exchange(arguments, Source, found.append)
    dims = next((names for names in [axis_names(x) for x in found] if names is not None), None)
    if isinstance(axis, str):
        return axis_named(axis, dims)
    return tuple([axis_named(j, dims) if isinstance(j, str) else j for j in axis])


@cache
def _signature(function: Function) -> inspect.Signature | None:
    # Some compiled functions have no signature in some versions of NumPy; the form has the same.
    for candidate in (function, streamed.get(function)):
        with suppress(ValueError, TypeError):
            return inspect.signature(candidate)  # type: ignore[arg-type]
    return None
