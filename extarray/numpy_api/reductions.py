"""Reductions by a ufunc, NumPy's functions that are such; places of extremes; counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from extarray.numpy_api.registry import streams
from extarray.streaming.elementwise import as_mask
from extarray.streaming.folding import Fold, fold
from extarray.streaming.meta_arrays import single
from extarray.streaming.operands import as_array

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box
    from extarray.streaming.folding import State

__all__ = [
    "ASSOCIATIVE",
    "all_axes",
    "can_stream",
    "given",
    "loop_dtype",
    "reduce",
    "reduce_part",
    "reduce_with",
]

_ABSENT: Any = np._NoValue  # "not given", in NumPy's signatures

#: Ufuncs for which the reduction of a whole follows from those of its parts.
ASSOCIATIVE = frozenset(
    {
        *(np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin),
        *(np.logical_and, np.logical_or, np.logical_xor),
        *(np.bitwise_and, np.bitwise_or, np.bitwise_xor),
        *(np.gcd, np.lcm, np.hypot, np.logaddexp, np.logaddexp2),
    }
)


# -- what all reductions begin with --------------------------------------------------------------


def given(**options: Any) -> dict[str, Any]:
    """Return the options that a user has given.

    Returns
    -------
    dict
        Without those that are ``np._NoValue``.
    """
    return {name: value for name, value in options.items() if value is not _ABSENT}


def can_stream(x: Any) -> bool:
    """Tell whether a reduction has boxes to go by, and numbers in them.

    Returns
    -------
    bool
        False for empty arrays and those without axes too: nothing is to be streamed there.
    """
    return hasattr(x, "dtype") and x.dtype.kind in "?biufcmM" and x.size > 0 and x.ndim > 0


def all_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes that are reduced, sorted."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted(normalize_axis_tuple(axis, ndim)))


def reduce_with(
    make: Callable[[], Any],
    function: Callable[..., Any],
    x: Any,
    axis: Any,
    out: Any,
    options: Mapping[str, Any],
) -> Any:
    """Reduce with a fold: NumPy's function decides on dtypes and on what is refused.

    Parameters
    ----------
    make : callable
        Makes the fold, once NumPy has accepted the arguments; or declines, by NotImplemented.
    function : callable
        Of NumPy.
    x, axis, out
        Its arguments.
    options : mapping
        Its other arguments, as they are given.

    Returns
    -------
    ndarray, scalar or Source
        NotImplemented where there is nothing to stream.
    """
    if not can_stream(x):
        return NotImplemented
    if "where" in options:
        options = {**options, "where": as_mask(options["where"])}
    with np.errstate(all="ignore"):
        one = function(
            single(x),
            axis=axis,
            **{name: single(value) for name, value in options.items()},
            **({} if out is None else {"out": single(out)}),
        )

    work = make()
    if work is NotImplemented:
        return NotImplemented

    def refuse(x: Any, **misfits: Any) -> None:
        rest = {name: value for name, value in options.items() if name != "where"}
        function(x, axis=axis, **rest, **misfits)

    return fold(
        work,
        x,
        all_axes(axis, x.ndim),
        options.get("where", True),
        out,
        bool(options.get("keepdims", False)),
        np.asarray(one).dtype,
        refuse,
    )


# -- by a ufunc ----------------------------------------------------------------------------------


def loop_dtype(ufunc: np.ufunc, x: Any, dtype: Any, out: Any) -> np.dtype[Any]:
    """Return the dtype in which a ufunc reduces an array.

    Parameters
    ----------
    ufunc : ufunc
    x : Source or ndarray
    dtype : dtype_like or None
        As the user gave it.
    out : Source, ndarray or None
    """
    if dtype is None and out is not None:
        kinds = (out.dtype, x.dtype, None)
        loop: np.dtype[Any] = ufunc.resolve_dtypes(kinds, reduction=True, casting="unsafe")[0]
        return loop
    with np.errstate(all="ignore"):
        one: NDArray[Any] = ufunc.reduce(single(x).reshape(1), dtype=dtype, keepdims=True)
    return one.dtype  # of objects, too, which would not come back as an array otherwise


#: Elements of a row that NumPy adds up without halving it.
_SHORT_ROW = 128


def _sum_rows(part: NDArray[Any], axes: tuple[int, ...], result: NDArray[Any]) -> bool:
    """Add up short rows, as exactly as a reduction does, and at twice its speed.

    False where that cannot be done, or warnings are due that only the reduction gives.
    """
    if (
        axes != (part.ndim - 1,)
        or part.shape[-1] > _SHORT_ROW
        or part.strides[-1] != part.itemsize
        or part.dtype != result.dtype
        or part.dtype.char not in "fd"
    ):
        return False
    np.einsum("...i->...", part, out=result[..., 0])
    return bool(np.isfinite(result).all())


def reduce_part(
    ufunc: np.ufunc,
    part: NDArray[Any],
    axes: tuple[int, ...],
    dtype: np.dtype[Any],
    where: Any = True,
    **initial: Any,
) -> NDArray[Any]:
    """Reduce a box, as fast as NumPy can.

    Parameters
    ----------
    ufunc : ufunc
    part : ndarray
    axes : tuple of int
    dtype : dtype
        In which the ufunc works, and of the result.
    where : bool or ndarray
    **initial
        ``initial=``, or nothing.

    Returns
    -------
    ndarray
        Keeps the reduced axes, with length 1.
    """
    if 1 < len(axes) < part.ndim:
        # Along the slowest axis NumPy adds whole planes; what it leaves is small.  Several axes
        # at once it would walk in short runs.
        slowest = max(range(part.ndim), key=lambda j: abs(part.strides[j]))
        if slowest in axes:
            part = reduce_part(ufunc, part, (slowest,), dtype, where, **initial)
            axes = tuple([j for j in axes if j != slowest])
            where = True
    shape = [1 if j in axes else n for j, n in enumerate(part.shape)]
    result = np.empty(shape, dtype)
    # Of dates, a dtype as an argument cannot have the unit; the output has it.
    chosen = None if dtype.kind in "mM" else dtype
    if ufunc is np.add and where is True and not initial and _sum_rows(part, axes, result):
        return result
    options = initial if where is True else {"where": where, **initial}
    ufunc.reduce(part, axes, chosen, result, keepdims=True, **options)
    return result


class _ByUfunc(Fold):
    """Reduction by an associative ufunc."""

    def __init__(self, ufunc: np.ufunc, dtype: np.dtype[Any], initial: Any) -> None:
        super().__init__()
        self._ufunc = ufunc
        # Sums and products of halves are kept as singles, as NumPy does in its own loops.
        wide = dtype == np.float16 and ufunc in (np.add, np.multiply)
        self._dtype = np.dtype(np.float32) if wide else dtype
        # Where there is no identity, an initial value may count as often as it likes (a minimum).
        self._each = {}
        self._once = None
        if initial is not _ABSENT and initial is not None:
            if ufunc.identity is None:
                self._each = {"initial": initial}
            else:
                self._once = np.array(initial).astype(self._dtype)

    def start(self, part: NDArray[Any], where: Any, axes: tuple[int, ...], box: Box) -> State:
        return (reduce_part(self._ufunc, part, axes, self._dtype, where, **self._each),)

    def combine(self, left: State, right: State) -> State:
        self._ufunc(left[0], right[0], out=left[0])
        return left

    def finish(self, state: State) -> NDArray[Any]:
        values: NDArray[Any] = state[0]
        if self._once is not None:
            self._ufunc(self._once, values, out=values)
        return values


class _PastNan(_ByUfunc):
    """Sum or product, in which a NaN counts as nothing."""

    def start(self, part: NDArray[Any], where: Any, axes: tuple[int, ...], box: Box) -> State:
        return super().start(part, where & ~np.isnan(part), axes, box)


class _NanExtreme(_ByUfunc):
    """Minimum or maximum by a ufunc that prefers numbers; warns where there were none."""

    def finish(self, state: State) -> NDArray[Any]:
        values = super().finish(state)
        if np.isnan(values).any():
            self.notes.add("All-NaN slice encountered")
        return values


def reduce(
    ufunc: np.ufunc,
    x: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: tuple[Any, ...] = (None,),
    keepdims: bool = False,
    initial: Any = _ABSENT,
    where: Any = True,
) -> Any:
    """Streamed form of ``ufunc.reduce``.

    Parameters
    ----------
    ufunc : ufunc
    x, axis, dtype, out, keepdims, initial, where
        As NumPy hands them to ``__array_ufunc__``.

    Returns
    -------
    ndarray, scalar or Source
        NotImplemented where the ufunc is not associative.
    """
    if ufunc not in ASSOCIATIVE:
        return NotImplemented
    options = given(dtype=dtype, keepdims=keepdims, initial=initial, where=where)
    return _reduce(_ByUfunc, ufunc, ufunc.reduce, x, axis, out[0], options)


def _reduce(
    kind: type[_ByUfunc],
    ufunc: np.ufunc,
    function: Callable[..., Any],
    x: Any,
    axis: Any,
    out: Any,
    options: Mapping[str, Any],
    dtype: Any = None,
) -> Any:
    """Reduce by a ufunc; `function` is what the user has called."""
    dtype = options.get("dtype", dtype)

    def make() -> Any:
        loop = loop_dtype(ufunc, x, dtype, out)
        if loop.hasobject:  # Python's numbers, which grow as they are added up
            return NotImplemented
        return kind(ufunc, loop, options.get("initial", _ABSENT))

    return reduce_with(make, function, x, axis, out, options)


def _stream_sum(function: Callable[..., Any], ufunc: np.ufunc, past_nan: bool = False) -> None:
    """Register a sum or product."""

    @streams(function)
    def form(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = _ABSENT,
        initial: Any = _ABSENT,
        where: Any = _ABSENT,
    ) -> Any:
        a = as_array(a)
        kind = _PastNan if past_nan and a.dtype.kind in "fc" else _ByUfunc
        options = given(dtype=dtype, keepdims=keepdims, initial=initial, where=where)
        return _reduce(kind, ufunc, function, a, axis, out, options)


def _stream_extreme(function: Callable[..., Any], ufunc: np.ufunc, past_nan: bool = False) -> None:
    """Register a minimum or maximum."""

    @streams(function)
    def form(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = _ABSENT,
        initial: Any = _ABSENT,
        where: Any = _ABSENT,
    ) -> Any:
        kind = _NanExtreme if past_nan else _ByUfunc
        options = given(keepdims=keepdims, initial=initial, where=where)
        return _reduce(kind, ufunc, function, a, axis, out, options)


def _stream_truth(function: Callable[..., Any], ufunc: np.ufunc) -> None:
    """Register `any` or `all`."""

    @streams(function)
    def form(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = _ABSENT, *, where: Any = _ABSENT
    ) -> Any:
        options = given(keepdims=keepdims, where=where)
        return _reduce(_ByUfunc, ufunc, function, a, axis, out, options, dtype=bool)


_stream_sum(np.sum, np.add)
_stream_sum(np.prod, np.multiply)
_stream_sum(np.nansum, np.add, past_nan=True)
_stream_sum(np.nanprod, np.multiply, past_nan=True)
for _function in (np.max, np.amax):
    _stream_extreme(_function, np.maximum)
for _function in (np.min, np.amin):
    _stream_extreme(_function, np.minimum)
_stream_extreme(np.nanmax, np.fmax, past_nan=True)
_stream_extreme(np.nanmin, np.fmin, past_nan=True)
_stream_truth(np.any, np.logical_or)
_stream_truth(np.all, np.logical_and)


# -- not by one ufunc ----------------------------------------------------------------------------


class _Range(Fold):
    """From the minimum to the maximum."""

    def start(self, part: NDArray[Any], where: Any, axes: tuple[int, ...], box: Box) -> State:
        return (part.max(axes, keepdims=True), part.min(axes, keepdims=True))

    def combine(self, left: State, right: State) -> State:
        return (np.maximum(left[0], right[0]), np.minimum(left[1], right[1]))

    def finish(self, state: State) -> NDArray[Any]:
        difference: NDArray[Any] = np.subtract(*state)
        return difference


@streams(np.ptp)
def _ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _ABSENT) -> Any:
    return reduce_with(lambda: _Range(), np.ptp, a, axis, out, given(keepdims=keepdims))


class _Count(Fold):
    """Number of elements that are not zero."""

    def start(self, part: NDArray[Any], where: Any, axes: tuple[int, ...], box: Box) -> State:
        if len(axes) == part.ndim:  # several times faster
            return (np.full((1,) * part.ndim, np.count_nonzero(part)),)
        return (np.count_nonzero(part, axes, keepdims=True),)

    def combine(self, left: State, right: State) -> State:
        return (left[0] + right[0],)

    def finish(self, state: State) -> NDArray[Any]:
        count: NDArray[Any] = state[0]
        return count


@streams(np.count_nonzero)
def _count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    result = reduce_with(lambda: _Count(), np.count_nonzero, a, axis, None, {"keepdims": keepdims})
    # A whole array's count was an int before NumPy 2.3.
    whole = isinstance(result, np.intp) and axis is None
    return type(np.count_nonzero(np.ones(1)))(result) if whole else result


class _Place(Fold):
    """Place of the first extreme: the state has the extreme, and its index along the axes.

    Parts are compared by NumPy's own function, on pairs; it knows what to do about NaNs, and takes
    the first of equals.
    """

    def __init__(self, choose: Callable[..., Any], shape: tuple[int, ...], past_nan: Any) -> None:
        super().__init__()
        self._choose = choose
        self._shape = shape
        self._past_nan = past_nan

    def start(self, part: NDArray[Any], where: Any, axes: tuple[int, ...], box: Box) -> State:
        seen: Any = True
        if self._past_nan is not None:
            nan = np.isnan(part)
            seen = ~nan.all(axes, keepdims=True)
            part = np.where(nan, self._past_nan.astype(part.dtype), part)
        if len(axes) == 1:
            local = self._choose(part, axes[0], keepdims=True)
            extreme = np.take_along_axis(part, local, axes[0])
            return extreme, local + box[axes[0]].start, seen
        within = np.unravel_index(self._choose(part), part.shape)
        place = 0  # counted over the whole array, in C order
        for i, s, n in zip(within, box, self._shape, strict=True):
            place = place * n + s.start + int(i)
        ones = (1,) * part.ndim
        return part[within].reshape(ones), np.full(ones, place), seen

    def combine(self, left: State, right: State) -> State:
        # Over several axes, boxes do not come in the order of their places.
        swap = left[1].size == 1 and right[1].item() < left[1].item()
        if swap:
            left, right = right, left
        later = self._choose(np.stack([left[0], right[0]]), 0).astype(bool)
        return (
            np.where(later, right[0], left[0]),
            np.where(later, right[1], left[1]),
            left[2] | right[2],
        )

    def finish(self, state: State) -> NDArray[Any]:
        if not np.all(state[2]):
            raise ValueError("All-NaN slice encountered")
        places: NDArray[Any] = state[1]
        return places


def _stream_place(
    function: Callable[..., Any], choose: Callable[..., Any], past_nan: float | None = None
) -> None:
    """Register a function that tells the place of an extreme."""

    @streams(function)
    def form(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = _ABSENT) -> Any:
        a = as_array(a)
        skip = None if past_nan is None or a.dtype.kind not in "fc" else np.array(past_nan)
        return reduce_with(
            lambda: _Place(choose, a.shape, skip),
            function,
            a,
            axis,
            out,
            given(keepdims=keepdims),
        )


_stream_place(np.argmax, np.argmax)
_stream_place(np.argmin, np.argmin)
_stream_place(np.nanargmax, np.argmax, past_nan=-np.inf)
_stream_place(np.nanargmin, np.argmin, past_nan=np.inf)
