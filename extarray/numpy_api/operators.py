"""The operators of arrays, by ufuncs; NumPy's rules decide whose operator runs."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from extarray.common.lazy import LazyImports, LazyModule
from extarray.streaming.blocks import Source, read_elements

if TYPE_CHECKING:
    from collections.abc import Callable

    from extarray.numpy_api import registry
    from extarray.streaming import elementwise, meta_arrays
else:
    elementwise = LazyModule("extarray.streaming.elementwise")
    meta_arrays = LazyModule("extarray.streaming.meta_arrays")
    registry = LazyModule("extarray.numpy_api.registry")

__all__ = ["binary", "compare", "contains", "in_place", "reflected"]

_later = LazyImports(
    {"extarray.numpy_api.reductions": "reduce", "extarray.streaming.derived": "Computed"}
)

#: Maps each operator to the method that Python calls on the right operand.
_OPERATORS = {
    **{name: f"__r{name}__" for name in ("add", "sub", "mul", "matmul", "truediv", "floordiv")},
    **{name: f"__r{name}__" for name in ("mod", "divmod", "pow", "lshift", "rshift")},
    **{name: f"__r{name}__" for name in ("and", "or", "xor")},
    "lt": "__gt__",
    "le": "__ge__",
    "gt": "__lt__",
    "ge": "__le__",
    "eq": "__eq__",
    "ne": "__ne__",
}


def _operator(name: str) -> Callable[[Any, Any], Any]:
    function: Callable[[Any, Any], Any]
    function = divmod if name == "divmod" else getattr(operator, f"__{name}__")
    return function


def binary(name: str) -> Callable[..., Any]:
    """Make the binary operator of the left operand; `name` is as in `operator`: "add"."""
    return _binary(name, "", lambda own, other: (own, other))


def reflected(name: str) -> Callable[..., Any]:
    """Make the binary operator of the right operand; `name` is as for `binary`."""
    return _binary(name, "r", lambda own, other: (other, own))


def _binary(
    name: str, prefix: str, ordered: Callable[[Any, Any], tuple[Any, Any]]
) -> Callable[..., Any]:
    """Make an operator; `ordered` puts its operands in order."""
    method_name = f"__{prefix}{name}__"
    by_ufunc, function = getattr(NDArrayOperatorsMixin, method_name), _operator(name)

    def method(self: Source, other: Any) -> Any:
        if _decides(other, name):
            return registry.fall_back(function, ordered(self, other), {})
        return by_ufunc(self, other)

    return _named(method, method_name)


def in_place(name: str) -> Callable[..., Any]:
    """Make an in-place operator, which defers to operands that have only a priority."""
    by_ufunc = getattr(NDArrayOperatorsMixin, f"__i{name}__")

    def method(self: Source, other: Any) -> Any:
        return NotImplemented if _has_priority(other) else by_ufunc(self, other)

    return _named(method, f"__i{name}__")


def _named(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    method.__name__ = name
    method.__qualname__ = f"NumpyMixin.{name}"
    return method


def _decides(other: Any, name: str) -> bool:
    """Tell whether NumPy leaves an operator to the other operand, which then needs an ndarray.

    NumPy defers to a class with a priority but without the protocol, such as sparse matrices.
    Python defers to a subclass of ndarray with its own operator, such as ``np.matrix``.
    """
    kind = type(other)
    if kind is np.ndarray or isinstance(other, Source):
        return False
    if issubclass(kind, np.ndarray):
        own = _OPERATORS[name]
        return getattr(kind, own) is not getattr(np.ndarray, own)
    return _has_priority(other)


def _has_priority(other: Any) -> bool:
    """Tell whether an operand has no ``__array_ufunc__`` but a priority above that of arrays."""
    if hasattr(other, "__array_ufunc__"):
        return False
    priority: float = getattr(other, "__array_priority__", 0.0)
    return priority > 0.0


def compare(ufunc: np.ufunc, function: Callable[..., Any], a: Source, other: Any) -> Any:
    """Compare by a ufunc, or by Python's operator if the ufunc does not accept the dtypes."""
    if getattr(other, "__array_ufunc__", ufunc) is None:
        return NotImplemented
    if _decides(other, function.__name__):
        return registry.fall_back(function, (a, other), {})
    as_operand = elementwise.as_operand
    if not a.shape and not elementwise.shape_of(as_operand(other)):
        # NumPy's result depends on the dtype.
        return function(
            read_elements(a), read_elements(other) if isinstance(other, Source) else other
        )
    if a.dtype.kind == "V":
        function(meta_arrays.empty(a), meta_arrays.empty(as_operand(other)))  # raises NumPy's error
    try:
        return ufunc(a, other)
    except TypeError:
        return elementwise.elementwise(
            elementwise.assigning(function), [a, other], dtype=bool, name=ufunc.__name__
        )


def contains(a: Source, value: Any) -> bool:
    """Tell whether an element equals a value."""
    equal = _later.Computed(operator.eq, a, value, dtype=bool)
    found = _later.reduce(np.logical_or, equal, axis=None)
    return bool(read_elements(equal).any() if found is NotImplemented else found)
