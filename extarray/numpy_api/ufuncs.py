"""Ufuncs on arrays of ours, all of their methods: the body of ``__array_ufunc__``."""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ShapeError
from extarray.numpy_api.accumulations import accumulate, reduceat
from extarray.numpy_api.reductions import reduce
from extarray.streaming.blocks import Source
from extarray.streaming.dask import call_late, computed, has_late, late_type
from extarray.streaming.derived import widened
from extarray.streaming.elementwise import as_mask, as_operand, new_result, shape_of, stream
from extarray.streaming.functions import fall_back, foreign, plain, streamed
from extarray.streaming.limits import check_result
from extarray.streaming.meta_arrays import empty, shadow
from extarray.streaming.operands import as_array, in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

__all__ = ["apply"]


def apply(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a method of a ufunc with arrays of ours: the body of ``__array_ufunc__``.

    Parameters
    ----------
    ufunc : ufunc
    method : str
        "__call__", "reduce", "accumulate", "reduceat", "outer" or "at".
    inputs : tuple
    kwargs : mapping
        As NumPy hands them to the protocol: ``out`` is a tuple.

    Returns
    -------
    object
        What NumPy returns for NumPy arrays; NotImplemented where an operand belongs to another
        package that has the protocol.
    """
    kinds = {type(x) for x in (*inputs, *kwargs.get("out", ()))}
    strangers = [kind for kind in kinds if foreign(kind, "__array_ufunc__")]
    if not all(issubclass(kind, late_type()) for kind in strangers):
        bare = _without_names(strangers, inputs)
        return NotImplemented if bare is None else getattr(ufunc, method)(*bare, **kwargs)
    if strangers or has_late(kwargs.values()):
        return _call_with_late(ufunc, method, bool(strangers), inputs, kwargs)
    if all(plain(kind) for kind in kinds):
        result = _METHODS[method](ufunc, *inputs, **kwargs)
        if result is not NotImplemented:
            return result
    changed = inputs[:1] if method == "at" else kwargs.get("out", ())
    return fall_back(getattr(ufunc, method), inputs, kwargs, changed)


def _without_names(strangers: list[type], inputs: tuple[Any, ...]) -> list[Any] | None:
    """Operands for xarray, which takes what has ``dims`` for its own; None where nothing changes.

    An array that is read late in its own dtype is the same array, and has no names of axes.
    """
    if not any(base.__module__.startswith("xarray.") for x in strangers for base in x.__mro__):
        return None
    # What xarray makes of them may outlive the call.
    lasting = [x._released() if isinstance(x, Source) else x for x in inputs]
    bare = [x.astype(x.dtype) if _has_names(x) else x for x in lasting]
    return None if all(map(operator.is_, bare, lasting)) else bare


def _has_names(x: Any) -> bool:
    return isinstance(x, Source) and hasattr(x, "dims")


def _call_with_late(
    ufunc: np.ufunc, method: str, is_seen: bool, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Call a method with arrays of ours and of dask's: dask itself works on those that it sees."""
    call = getattr(ufunc, method)
    outs = kwargs.get("out", ())
    if is_seen and method in ("__call__", "outer"):
        if has_late(outs) or not outs:
            return call_late(call, inputs, kwargs)
        if all(isinstance(out, Source) for out in outs):
            options = {name: x for name, x in kwargs.items() if name != "where"}
            return call_late(call, inputs, options, kwargs.get("where", True))
    if has_late(outs) or (method == "at" and has_late(inputs[:1])):  # it would fill a copy
        return NotImplemented
    inputs, kwargs = computed(ufunc.__name__, (inputs, kwargs))
    return call(*inputs, **kwargs)


def _call(
    ufunc: np.ufunc, *inputs: Any, out: tuple[Any, ...] = (), where: Any = True, **options: Any
) -> Any:
    if ufunc.signature is not None:  # not elementwise: a function like others
        form = streamed.get(ufunc)
        if form is None:
            return NotImplemented
        return form(*inputs, **({"out": out[0]} if out else {}), **options)
    operands = [as_operand(x) for x in inputs]
    outs = out or (None,) * ufunc.nout
    where = as_mask(where)
    dtypes = _result_types(ufunc, operands, outs, where, options)
    shape = _result_shape(ufunc, operands, outs, where, options)
    order = options.pop("order", "C")
    targets = [
        new_result(shape, dtype, ufunc.__name__, order) if given is None else given
        for given, dtype in zip(outs, dtypes, strict=True)
    ]
    stream(_filling(ufunc, options), operands, targets, where)
    results = [
        target[()] if given is None and not shape else target
        for given, target in zip(outs, targets, strict=True)
    ]
    return results[0] if ufunc.nout == 1 else tuple(results)


def _filling(ufunc: np.ufunc, options: dict[str, Any]) -> Callable[..., object]:
    """What fills boxes of outputs by a ufunc.

    The elements of such a box may be apart from each other.  Where they are, NumPy's isnan and
    isfinite (2.0 to 2.5) and the ufuncs that Numba compiles (0.68), which are of another class,
    fill wrong places.
    """
    fill = partial(ufunc, **options)
    if ufunc not in (np.isnan, np.isfinite) and type(ufunc) is np.ufunc:
        return fill

    def fill_by_copies(*parts: Any, out: tuple[NDArray[Any], ...], **where: Any) -> None:
        pieces = tuple([np.empty(block.shape, block.dtype) for block in out])
        fill(*parts, out=pieces, **where)
        for block, piece in zip(out, pieces, strict=True):
            np.copyto(block, piece, **where)

    return fill_by_copies


def _result_types(
    ufunc: np.ufunc,
    operands: list[Any],
    outs: tuple[Any, ...],
    where: Any,
    options: dict[str, Any],
) -> list[np.dtype[Any]]:
    """The dtypes of the results, or NumPy's error: the ufunc decides, on empty arrays."""
    mask = {} if where is True else {"where": empty(where)}  # a word that Numba refuses
    results = ufunc(*map(empty, operands), out=tuple(map(empty, outs)), **mask, **options)
    return [result.dtype for result in (results if ufunc.nout > 1 else (results,))]


def _result_shape(
    ufunc: np.ufunc,
    operands: list[Any],
    outs: tuple[Any, ...],
    where: Any,
    options: dict[str, Any],
) -> tuple[int, ...]:
    """The shape of the results, or NumPy's error."""
    given = [out.shape for out in outs if out is not None]
    try:
        shape = np.broadcast_shapes(*map(shape_of, operands), shape_of(where), *given)
    except ValueError:
        shape = None
    if shape is None or any(shape != own for own in given):
        # NumPy raises before it looks at an element.
        ufunc(*map(shadow, operands), out=tuple(map(shadow, outs)), where=shadow(where), **options)
        raise AssertionError(f"NumPy broadcasts {operands} to {outs}")
    return shape


def _outer(ufunc: np.ufunc, a: Any, b: Any, **options: Any) -> Any:
    """As ``__call__``, the first operand having axes of length 1 for those of the second."""
    first, second = as_array(a), as_array(b)
    if ufunc.signature is not None or not (first.ndim or second.ndim):
        return NotImplemented
    axes = tuple(range(first.ndim, first.ndim + second.ndim))
    return _call(ufunc, widened(first, axes), second, **options)


def _at(ufunc: np.ufunc, a: Any, indices: Any, *values: Any) -> Any:
    """Unbuffered operation on a selection: each element is read once, and written once."""
    if not isinstance(a, Source):
        return NotImplemented
    values = tuple([as_operand(in_memory(value, "at")) for value in values])
    ufunc.at(empty(a), np.empty(0, np.intp), *map(empty, values))  # NumPy's refusal of dtypes
    if not a.shape:
        whole = a._fetch()
        ufunc.at(whole, indices, *values)
        a._put(..., whole)
        return None
    # NumPy itself tells where the selected elements are: it takes them from arrays that have the
    # index along one axis everywhere, and no memory.
    shape = np.broadcast_to(np.False_, a.shape)[indices].shape
    check_result(
        8 * (a.ndim + 4) * math.prod(shape), "at needs the selection in memory: it", "parts of it"
    )
    places = [
        np.broadcast_to(np.arange(n).reshape(-1, *[1] * (a.ndim - j - 1)), a.shape)[indices]
        for j, n in enumerate(a.shape)
    ]
    flat, inverse = np.unique(np.ravel_multi_index(places, a.shape), return_inverse=True)
    key = np.unravel_index(flat, a.shape)
    elements = a._fetch(key)
    # Along one axis, and with a value for each: for a lone axis NumPy 2 reads values that are to be
    # broadcast as if they were not.
    ufunc.at(elements, inverse.reshape(-1), *[_spread(value, shape) for value in values])
    a._put(key, elements)
    return None


def _spread(value: Any, shape: tuple[int, ...]) -> Any:
    """A value for each selected element, along one axis; a lone value stays one."""
    if not np.ndim(value):
        return value
    try:
        return np.broadcast_to(value, shape).reshape(-1)
    except ValueError:
        raise ShapeError("array is not broadcastable to correct shape") from None


_METHODS: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "reduce": reduce,
    "accumulate": accumulate,
    "reduceat": reduceat,
    "outer": _outer,
    "at": _at,
}
