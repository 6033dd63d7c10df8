"""Reductions by a ufunc and the functions built on them; places of extremes; counts."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from extarray.numpy_api.registry import streams
from extarray.streaming.elementwise import as_mask
from extarray.streaming.folding import fold
from extarray.streaming.meta_arrays import single
from extarray.streaming.operands import as_array

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import NotImplementedType

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box
    from extarray.streaming.folding import Fold, State

    Options = Mapping[str, Any]
    #: Makes the fold for an array, ``out`` and the other options; NotImplemented declines.
    Make = Callable[[Any, Any, Options], Fold | NotImplementedType]

__all__ = [
    "ASSOCIATIVE",
    "all_axes",
    "can_stream",
    "given",
    "loop_dtype",
    "reduce",
    "reduce_part",
    "reduce_with",
    "stream_reduction",
]

_ABSENT: Any = np._NoValue  # "not given", in NumPy's signatures

#: Ufuncs that combine the reductions of parts into that of the whole.
ASSOCIATIVE = frozenset(
    {
        *(np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin),
        *(np.logical_and, np.logical_or, np.logical_xor),
        *(np.bitwise_and, np.bitwise_or, np.bitwise_xor),
        *(np.gcd, np.lcm, np.hypot, np.logaddexp, np.logaddexp2),
    }
)


# -- steps common to all reductions --------------------------------------------------------------


def given(**options: Any) -> dict[str, Any]:
    """Return the options that the user has given: those that are not ``np._NoValue``."""
    return {name: value for name, value in options.items() if value is not _ABSENT}


def can_stream(x: Any) -> bool:
    """Tell whether an array has boxes to reduce: numbers, at least one, and axes."""
    return hasattr(x, "dtype") and x.dtype.kind in "?biufcmM" and x.size > 0 and x.ndim > 0


def all_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes that are reduced, sorted."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted(normalize_axis_tuple(axis, ndim)))


def reduce_with(
    make: Make, function: Callable[..., Any], x: Any, axis: Any, out: Any, options: Options
) -> Any:
    """Reduce with a fold, which `make` makes once NumPy's `function` has accepted the arguments.

    `function` also decides on dtypes.  Return NotImplemented if `make` declines, or there is
    nothing to stream.
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

    work = make(x, out, options)
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


#: Options that folds support.
_OPTIONS = frozenset({"dtype", "initial", "keepdims", "where"})


def stream_reduction(function: Callable[..., Any], make: Make) -> None:
    """Register a reduction of NumPy whose folds `make` makes."""
    others = tuple(inspect.signature(function).parameters)[2:]

    @streams(function)
    def form(a: Any, axis: Any = None, *args: Any, **options: Any) -> Any:
        options.update(zip(others, args, strict=False))
        out = options.pop("out", None)
        if options:
            options = given(**options)
            if not options.keys() <= _OPTIONS:
                return NotImplemented
        return reduce_with(make, function, as_array(a), axis, out, options)

    form.__module__ = make.__module__


# -- by a ufunc ----------------------------------------------------------------------------------


def loop_dtype(ufunc: np.ufunc, x: Any, dtype: Any, out: Any) -> np.dtype[Any]:
    """Return the dtype in which a ufunc reduces `x`, given the user's `dtype` and `out`."""
    if dtype is None and out is not None:
        kinds = (out.dtype, x.dtype, None)
        loop: np.dtype[Any] = ufunc.resolve_dtypes(kinds, reduction=True, casting="unsafe")[0]
        return loop
    with np.errstate(all="ignore"):
        one: NDArray[Any] = ufunc.reduce(single(x).reshape(1), dtype=dtype, keepdims=True)
    return one.dtype  # with axes, as objects would otherwise not come back as an array


#: Longest row that NumPy sums without halving it.
_SHORT_ROW = 128


def _sum_rows(part: NDArray[Any], axes: tuple[int, ...], result: NDArray[Any]) -> bool:
    """Sum short rows twice as fast as a reduction, and as exactly; return False if impossible.

    Return False also if a result is not finite, as only the reduction warns.
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
    """Reduce a box as fast as NumPy can, in the result's `dtype`; reduced axes keep length 1."""
    if 1 < len(axes) < part.ndim:
        # Reduce the slowest axis first: NumPy then adds whole planes and leaves little.  Over
        # several axes at once, it would go in short runs.
        slowest = max(range(part.ndim), key=lambda j: abs(part.strides[j]))
        if slowest in axes:
            part = reduce_part(ufunc, part, (slowest,), dtype, where, **initial)
            axes = tuple([j for j in axes if j != slowest])
            where = True
    shape = [1 if j in axes else n for j, n in enumerate(part.shape)]
    result = np.empty(shape, dtype)
    # A dtype argument cannot carry the unit of dates; the output has it.
    chosen = None if dtype.kind in "mM" else dtype
    if ufunc is np.add and where is True and not initial and _sum_rows(part, axes, result):
        return result
    options = initial if where is True else {"where": where, **initial}
    ufunc.reduce(part, axes, chosen, result, keepdims=True, **options)
    return result


class _ByUfunc:
    """Reduction by an associative ufunc."""

    def __init__(self, ufunc: np.ufunc, dtype: np.dtype[Any], initial: Any) -> None:
        self.notes: set[str] = set()
        self._ufunc = ufunc
        # As NumPy does, keep sums and products of half precision in single precision.
        wide = dtype == np.float16 and ufunc in (np.add, np.multiply)
        self._dtype = np.dtype(np.float32) if wide else dtype
        # Without an identity, the initial value may count repeatedly (a minimum).
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
    """Sum or product that skips NaNs."""

    def start(self, part: NDArray[Any], where: Any, axes: tuple[int, ...], box: Box) -> State:
        if part.dtype.kind in "fc":
            where = where & ~np.isnan(part)
        return super().start(part, where, axes, box)


class _NanExtreme(_ByUfunc):
    """Minimum or maximum by a ufunc that prefers numbers to NaNs; warns if all are NaN."""

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
    """Stream ``ufunc.reduce``; decline nonassociative ufuncs."""
    if ufunc not in ASSOCIATIVE:
        return NotImplemented
    options = given(dtype=dtype, keepdims=keepdims, initial=initial, where=where)
    return reduce_with(_by(ufunc), ufunc.reduce, x, axis, out[0], options)


def _by(ufunc: np.ufunc, kind: type[_ByUfunc] = _ByUfunc, dtype: Any = None) -> Make:
    """Return a maker of folds by a ufunc; `dtype` applies unless the user gives one."""

    def make(x: Any, out: Any, options: Options) -> Any:
        loop = loop_dtype(ufunc, x, options.get("dtype", dtype), out)
        if loop.hasobject:  # sums of Python's numbers grow
            return NotImplemented
        return kind(ufunc, loop, options.get("initial", _ABSENT))

    return make


for _function, _make in (
    (np.sum, _by(np.add)),
    (np.prod, _by(np.multiply)),
    (np.nansum, _by(np.add, _PastNan)),
    (np.nanprod, _by(np.multiply, _PastNan)),
    (np.max, _by(np.maximum)),
    (np.amax, _by(np.maximum)),
    (np.min, _by(np.minimum)),
    (np.amin, _by(np.minimum)),
    (np.nanmax, _by(np.fmax, _NanExtreme)),
    (np.nanmin, _by(np.fmin, _NanExtreme)),
    (np.any, _by(np.logical_or, dtype=bool)),
    (np.all, _by(np.logical_and, dtype=bool)),
):
    stream_reduction(_function, _make)


# -- by more than one ufunc ----------------------------------------------------------------------


class _Range:
    """Maximum minus minimum."""

    notes = ()

    def start(self, part: NDArray[Any], where: Any, axes: tuple[int, ...], box: Box) -> State:
        return (part.max(axes, keepdims=True), part.min(axes, keepdims=True))

    def combine(self, left: State, right: State) -> State:
        return (np.maximum(left[0], right[0]), np.minimum(left[1], right[1]))

    def finish(self, state: State) -> NDArray[Any]:
        difference: NDArray[Any] = np.subtract(*state)
        return difference


stream_reduction(np.ptp, lambda x, out, options: _Range())


class _Count:
    """Number of nonzero elements."""

    notes = ()

    def start(self, part: NDArray[Any], where: Any, axes: tuple[int, ...], box: Box) -> State:
        if len(axes) == part.ndim:  # several times faster than with axes
            return (np.full((1,) * part.ndim, np.count_nonzero(part)),)
        return (np.count_nonzero(part, axes, keepdims=True),)

    def combine(self, left: State, right: State) -> State:
        return (left[0] + right[0],)

    def finish(self, state: State) -> NDArray[Any]:
        count: NDArray[Any] = state[0]
        return count


@streams(np.count_nonzero)
def _count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    options = {"keepdims": keepdims}
    result = reduce_with(lambda *_: _Count(), np.count_nonzero, a, axis, None, options)
    # Before NumPy 2.3, the count of a whole array was an int.
    whole = isinstance(result, np.intp) and axis is None
    return type(np.count_nonzero(np.ones(1)))(result) if whole else result


class _Place:
    """Place of the first extreme; the state has the extreme and its index along the axes.

    NumPy's own function compares parts, pair by pair: it handles NaNs, and prefers the first of
    equals.
    """

    notes = ()

    def __init__(self, choose: Callable[..., Any], shape: tuple[int, ...], past_nan: Any) -> None:
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
        place = 0  # in C order of the whole array
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


def _first(choose: Callable[..., Any], past_nan: float | None = None) -> Make:
    """Return a maker of folds that find the place of an extreme."""

    def make(x: Any, out: Any, options: Options) -> Any:
        skip = None if past_nan is None or x.dtype.kind not in "fc" else np.array(past_nan)
        return _Place(choose, x.shape, skip)

    return make


stream_reduction(np.argmax, _first(np.argmax))
stream_reduction(np.argmin, _first(np.argmin))
stream_reduction(np.nanargmax, _first(np.argmax, past_nan=-np.inf))
stream_reduction(np.nanargmin, _first(np.argmin, past_nan=np.inf))
