"""NumPy's two protocols on our arrays: ``__array_function__`` and ``__array_ufunc__``.

A module of streamed forms is imported when one of its functions is first called.
"""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ShapeError
from extarray.common.lazy import LazyImports, Upward
from extarray.numpy_api.registry import (
    changed_by,
    fall_back,
    has_names,
    number_axes,
    number_axis,
    streamed,
)
from extarray.streaming.blocks import Source, hold, read_elements, release, write_elements
from extarray.streaming.dask import call_late, computed, has_late, is_known, late_type
from extarray.streaming.derived import widened
from extarray.streaming.elementwise import as_mask, as_operand, new_result, shape_of, stream
from extarray.streaming.limits import check_result
from extarray.streaming.meta_arrays import empty, shadow
from extarray.streaming.operands import as_array, exchange, in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    Function = Callable[..., Any]

__all__ = ["apply", "dispatch", "form_of", "forms", "steadily"]

#: Maps each module to the names, below ``numpy``, of the functions that it streams.
_FORMS = LazyImports(
    {
        "extarray.numpy_api.along_axis": (
            "apply_along_axis cumprod cumsum cumulative_prod cumulative_sum diff fft.fft "
            "fft.fft2 fft.fftn fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.irfft "
            "fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn gradient nancumprod "
            "nancumsum unwrap"
        ),
        "extarray.numpy_api.c_order": "save savez savez_compressed",
        "extarray.numpy_api.elementwise_functions": (
            "allclose angle around array_equal array_equiv choose clip copyto digitize fix "
            "i0 imag interp isclose iscomplex isneginf isposinf isreal nan_to_num real "
            "round select sinc where"
        ),
        "extarray.numpy_api.histograms": (
            "bincount histogram histogram2d histogram_bin_edges histogramdd"
        ),
        "extarray.numpy_api.indexing": (
            "argwhere compress diagonal extract flatnonzero nonzero place put putmask take trace"
        ),
        "extarray.numpy_api.linalg": (
            "dot einsum inner linalg.matmul linalg.matrix_norm linalg.norm linalg.tensordot "
            "linalg.vecdot linalg.vector_norm matmul outer tensordot vdot vecdot"
        ),
        "extarray.numpy_api.manipulation": (
            "append can_cast column_stack common_type concatenate dstack einsum_path "
            "empty_like full_like hstack iscomplexobj isrealobj may_share_memory ndim "
            "ones_like result_type shape size stack vstack zeros_like"
        ),
        "extarray.numpy_api.order_statistics": (
            "median nanmedian nanpercentile nanquantile percentile quantile"
        ),
        "extarray.numpy_api.reductions": (
            "all amax amin any argmax argmin count_nonzero max min nanargmax nanargmin "
            "nanmax nanmin nanprod nansum prod ptp sum"
        ),
        "extarray.numpy_api.sorting": (
            "argpartition argsort intersect1d isin partition searchsorted setdiff1d "
            "setxor1d sort union1d unique unique_all unique_counts unique_inverse "
            "unique_values"
        ),
        "extarray.numpy_api.statistics": "average corrcoef cov mean nanmean nanstd nanvar std var",
    }
)

#: The functions that give views, by the module of views of arrays.
_VIEWS = Upward(
    {
        "extarray.array.view_functions": (
            "broadcast_to expand_dims matrix_transpose moveaxis squeeze swapaxes transpose"
        )
    }
)

_later = LazyImports(
    {
        "extarray.numpy_api.along_axis": "accumulate reduceat",
        "extarray.numpy_api.reductions": "reduce",
    }
)


def form_of(function: Function) -> Function | None:
    """Return the streamed form of a function of NumPy, if it has one."""
    form = streamed.get(function)
    if form is None:
        name = _name(function)
        for table in (_FORMS, _VIEWS):
            if name in table:
                table.module(name)  # registers its forms
                form = streamed.get(function)
    return form


def _name(function: Function) -> str:
    """Return the name of a function below ``numpy``, as the tables list it."""
    package, name = getattr(function, "__module__", None), getattr(function, "__name__", "")
    return f"{package}.{name}".removeprefix("numpy.") if package else name


def forms() -> Mapping[Function, Function]:
    """Return the streamed forms, by NumPy's functions."""
    for table in (_FORMS, _VIEWS):
        for name in table:
            table.module(name)
    return streamed


class _Held:
    """The user's arrays, with the bounds that they have when a call begins.

    So a call that streams through an array sees one state of its bounds, even if other threads
    move them.
    """

    def __init__(self) -> None:
        self._pairs: dict[int, tuple[Source, Any]] = {}

    def exchange(self, value: Any) -> Any:
        """Return the arguments with held arrays in place of the user's arrays."""
        return exchange(value, Source, self._hold)

    def _hold(self, source: Source) -> Any:
        pair = self._pairs.get(id(source))
        if pair is None:
            pair = self._pairs[id(source)] = source, hold(source)
        return pair[1]

    def restore(self, result: Any) -> Any:
        """Return a result with the user's arrays in place of the held ones."""
        if isinstance(result, Source):
            for given, held in self._pairs.values():
                if result is held:
                    return given
            return release(result)
        elif type(result) is tuple or type(result) is list:
            return type(result)(map(self.restore, result))
        return result


def steadily(
    call: Callable[..., Any],
    function: Function,
    way: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call `dispatch` or `apply` with held bounds; the result has the user's arrays again."""
    held = _Held()
    return held.restore(call(function, way, held.exchange(args), held.exchange(kwargs)))


def dispatch(
    function: Function, types: Iterable[type], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Call a function of NumPy: the body of ``__array_function__``.

    Return NotImplemented if an argument belongs to another package that implements the protocol.
    """
    strangers = [kind for kind in types if foreign(kind, "__array_function__")]
    if not all(issubclass(kind, late_type()) for kind in strangers):
        return NotImplemented
    form = form_of(function)
    if has_names(args) or has_names(kwargs.values()):
        args, kwargs = number_axes(function, args, kwargs)
    if strangers or has_late((*args, *kwargs.values())):
        return _call_function_with_late(function, bool(strangers), args, kwargs)
    if form is not None and all(issubclass(kind, Source) or plain(kind) for kind in types):
        result = form(*args, **kwargs)
        if result is not NotImplemented:
            return result
    return fall_back(function, args, kwargs)


def _call_function_with_late(
    function: Function, is_seen: bool, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Call a function with arrays of ours and of dask.

    Dask itself does the work if it finds its arrays.  Like NumPy, it does not look in ``where=``.
    """
    changed = [x for x in changed_by(function, args, kwargs) if x is not None]
    is_named = all(x is kwargs.get("out") for x in changed)
    if is_seen and is_named and is_known(function):
        return call_late(function, args, kwargs)
    if has_late(changed):  # only a copy would change
        return NotImplemented
    args, kwargs = computed(function.__name__, (args, kwargs))
    return function(*args, **kwargs)


def foreign(kind: type, protocol: str) -> bool:
    """Tell whether a type implements a protocol with a method that is neither NumPy's nor ours."""
    method = getattr(kind, protocol, None)
    return method not in (None, getattr(np.ndarray, protocol)) and not issubclass(kind, Source)


def plain(kind: type) -> bool:
    """Tell whether a type is not a subclass of ndarray that gives elements another meaning.

    Streamed forms would lose, for example, the mask of a masked array.
    """
    return kind in (np.ndarray, np.memmap) or not issubclass(kind, np.ndarray)


def apply(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a method of a ufunc: the body of ``__array_ufunc__``, so ``out`` is a tuple.

    Return NotImplemented if an operand belongs to another package that implements the protocol.
    """
    kinds = {type(x) for x in (*inputs, *kwargs.get("out", ()))}
    strangers = [kind for kind in kinds if foreign(kind, "__array_ufunc__")]
    if not all(issubclass(kind, late_type()) for kind in strangers):
        bare = _without_names(strangers, inputs)
        return NotImplemented if bare is None else getattr(ufunc, method)(*bare, **kwargs)
    if method != "__call__":
        kwargs = number_axis(kwargs, inputs)
    if strangers or has_late(kwargs.values()):
        return _call_ufunc_with_late(ufunc, method, bool(strangers), inputs, kwargs)
    if all(plain(kind) for kind in kinds):
        result = _METHODS[method](ufunc, *inputs, **kwargs)
        if result is not NotImplemented:
            return result
    changed = inputs[:1] if method == "at" else kwargs.get("out", ())
    return fall_back(getattr(ufunc, method), inputs, kwargs, changed)


def _without_names(strangers: list[type], inputs: tuple[Any, ...]) -> list[Any] | None:
    """Return the operands without names of axes, for xarray; None if that changes nothing.

    Xarray takes any operand with ``dims`` for its own.  ``x.astype(x.dtype)`` is the same array,
    read late, without names.
    """
    if not any(base.__module__.startswith("xarray.") for x in strangers for base in x.__mro__):
        return None
    # Results of xarray may keep the operands beyond this call.
    lasting = [release(x) if isinstance(x, Source) else x for x in inputs]
    bare = [x.astype(x.dtype) if _has_names(x) else x for x in lasting]
    return None if all(map(operator.is_, bare, lasting)) else bare


def _has_names(x: Any) -> bool:
    return isinstance(x, Source) and hasattr(x, "dims")


def _call_ufunc_with_late(
    ufunc: np.ufunc, method: str, is_seen: bool, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Call a method with arrays of ours and of dask; dask does the work if it sees its arrays."""
    call = getattr(ufunc, method)
    outs = kwargs.get("out", ())
    if is_seen and method in ("__call__", "outer"):
        if has_late(outs) or not outs:
            return call_late(call, inputs, kwargs)
        if all(isinstance(out, Source) for out in outs):
            options = {name: x for name, x in kwargs.items() if name != "where"}
            return call_late(call, inputs, options, kwargs.get("where", True))
    if has_late(outs) or (method == "at" and has_late(inputs[:1])):  # only a copy would change
        return NotImplemented
    inputs, kwargs = computed(ufunc.__name__, (inputs, kwargs))
    return call(*inputs, **kwargs)


def _call(
    ufunc: np.ufunc, *inputs: Any, out: tuple[Any, ...] = (), where: Any = True, **options: Any
) -> Any:
    if ufunc.signature is not None:  # a generalized ufunc is not elementwise
        form = form_of(ufunc)
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
    """Return a function that fills boxes of outputs by a ufunc.

    A box may not be contiguous.  There NumPy's isnan and isfinite (2.0 to 2.5), and the ufuncs
    that Numba compiles (0.68; another class), write to wrong places: these fill a copy.
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
    """Return the dtypes of the results, or raise NumPy's error: try the ufunc on empty arrays."""
    mask = {} if where is True else {"where": empty(where)}  # Numba refuses the keyword
    results = ufunc(*map(empty, operands), out=tuple(map(empty, outs)), **mask, **options)
    return [result.dtype for result in (results if ufunc.nout > 1 else (results,))]


def _result_shape(
    ufunc: np.ufunc,
    operands: list[Any],
    outs: tuple[Any, ...],
    where: Any,
    options: dict[str, Any],
) -> tuple[int, ...]:
    """Return the shape of the results, or raise NumPy's error."""
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
    """Call a ufunc on all pairs: the first operand gains an axis of length 1 per axis of `b`."""
    first, second = as_array(a), as_array(b)
    if ufunc.signature is not None or not (first.ndim or second.ndim):
        return NotImplemented
    axes = tuple(range(first.ndim, first.ndim + second.ndim))
    return _call(ufunc, widened(first, axes), second, **options)


def _at(ufunc: np.ufunc, a: Any, indices: Any, *values: Any) -> Any:
    """Operate on a selection unbuffered: read and write each element once."""
    if not isinstance(a, Source):
        return NotImplemented
    values = tuple([as_operand(in_memory(value, "at")) for value in values])
    ufunc.at(empty(a), np.empty(0, np.intp), *map(empty, values))  # raises NumPy's errors
    if not a.shape:
        whole = read_elements(a)
        ufunc.at(whole, indices, *values)
        write_elements(a, ..., whole)
        return None
    # NumPy itself resolves the index: it indexes, for each axis, a broadcast array that holds
    # the index along that axis and takes no memory.
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
    elements = read_elements(a, key)
    # Pass 1-d places and a value for each: with a single axis, NumPy 2 misreads values that need
    # broadcasting.
    ufunc.at(elements, inverse.reshape(-1), *[_spread(value, shape) for value in values])
    write_elements(a, key, elements)
    return None


def _spread(value: Any, shape: tuple[int, ...]) -> Any:
    """Return a 1-d array with a value for each selected element; a scalar stays a scalar."""
    if not np.ndim(value):
        return value
    try:
        return np.broadcast_to(value, shape).reshape(-1)
    except ValueError:
        raise ShapeError("array is not broadcastable to correct shape") from None


_METHODS: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "reduce": lambda *args, **options: _later.reduce(*args, **options),
    "accumulate": lambda *args, **options: _later.accumulate(*args, **options),
    "reduceat": lambda *args, **options: _later.reduceat(*args, **options),
    "outer": _outer,
    "at": _at,
}
