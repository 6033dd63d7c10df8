"""Means, variances, averages and covariances, combined from those of parts."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentTypeError, ShapeError
from extarray.grid.tiles import tiles
from extarray.numpy_api.reductions import (
    all_axes,
    given,
    reduce_part,
    reduce_with,
    stream_reduction,
)
from extarray.numpy_api.registry import call, streams
from extarray.streaming.blocks import Source
from extarray.streaming.derived import Computed, widened
from extarray.streaming.elementwise import part_of
from extarray.streaming.limits import check_result
from extarray.streaming.operands import as_array, chunks_of, in_memory, step_bytes
from extarray.streaming.warnings import SaidOnce

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from extarray.grid.tiles import Box
    from extarray.numpy_api.reductions import Make, Options
    from extarray.streaming.folding import State


__all__: list[str] = []

_ABSENT: Any = np._NoValue  # "not given", in NumPy's signatures


def _inner_dtype(x: np.dtype[Any], dtype: Any, out: Any) -> np.dtype[Any]:
    """Return the dtype in which to sum: NumPy's, but never half precision."""
    if dtype is not None:
        inner = np.dtype(dtype)
    elif x.kind in "?biu":
        inner = np.dtype(np.float64)
    elif isinstance(out, (Source, np.ndarray)) and out.dtype.kind in "fc":
        inner = np.result_type(x, out.dtype)
    else:
        inner = x.newbyteorder("=")
    return np.dtype(np.float32) if inner == np.float16 else inner


def _count(part: NDArray[Any], where: Any, axes: tuple[int, ...]) -> Any:
    """Return the number of elements that count; an int if all do."""
    if where is True:
        return math.prod([part.shape[j] for j in axes])
    return np.add.reduce(np.broadcast_to(where, part.shape), axes, np.intp, keepdims=True)


class _Moments:
    """Common base of mean and variance: the elements that count, and their number."""

    def __init__(self, dtype: np.dtype[Any], past_nan: bool) -> None:
        self.notes: set[str] = set()
        self._dtype = dtype
        self._past_nan = past_nan

    def _counted(self, part: NDArray[Any], where: Any) -> Any:
        return where & ~np.isnan(part) if self._past_nan else where

    def _quiet(self) -> AbstractContextManager[Any]:
        """Silence divisions by zero when NaNs are skipped: a better warning follows."""
        return np.errstate(all="ignore") if self._past_nan else nullcontext()


class _Mean(_Moments):
    """Fold of a mean: the sum and the number of elements."""

    def start(self, part: NDArray[Any], where: Any, axes: tuple[int, ...], box: Box) -> State:
        where = self._counted(part, where)
        total = reduce_part(np.add, part, axes, self._dtype, where)
        return total, _count(part, where, axes)

    def combine(self, left: State, right: State) -> State:
        return np.add(left[0], right[0], out=left[0]), left[1] + right[1]

    def finish(self, state: State) -> NDArray[Any]:
        mean: NDArray[Any] = state[0]
        count = state[1]
        if not np.all(count):
            self.notes.add("Mean of empty slice")
        with self._quiet():
            np.true_divide(mean, count, out=mean, casting="unsafe")
        return mean


class _Variance(_Moments):
    """Fold of a variance: the rounded mean and its rest, the squared deviations, the number.

    Combine two parts by the formula of Chan, Golub and LeVeque [chan1983]_, which loses no digits,
    however far the mean is from zero.
    """

    def __init__(self, dtype: np.dtype[Any], past_nan: bool, ddof: Any, root: bool) -> None:
        super().__init__(dtype, past_nan)
        self._ddof = ddof
        self._root = root

    def start(self, part: NDArray[Any], where: Any, axes: tuple[int, ...], box: Box) -> State:
        where = self._counted(part, where)
        count = _count(part, where, axes)
        some = np.maximum(count, 1)
        mean = reduce_part(np.add, part, axes, self._dtype, where)
        np.true_divide(mean, some, out=mean)
        distance = np.subtract(part, mean)
        # The mean is rounded; the mean of the distances is the missing rest.
        rest = reduce_part(np.add, distance, axes, distance.dtype, where)
        rest /= some
        squares = _square(distance)
        squares = reduce_part(np.add, squares, axes, squares.dtype, where)
        squares -= _square(rest.copy()) * count
        return mean, rest, squares, count

    def combine(self, left: State, right: State) -> State:
        mean, rest, squares, n = left
        m = right[3]
        share = m / np.maximum(n + m, 1)
        apart = (right[0] - mean) + (right[1] - rest)
        step = (apart * share).astype(mean.dtype, copy=False)
        shifted = mean + step
        rest += step - (shifted - mean)
        squares += right[2]
        squares += _square(apart) * (share * n)
        return shifted, rest, squares, n + m

    def finish(self, state: State) -> NDArray[Any]:
        variance: NDArray[Any] = state[2]
        count = state[3]
        if np.any(self._ddof >= np.asarray(count)):
            text = "Degrees of freedom <= 0 for slice"
            self.notes.add(text + "." * self._past_nan)
        freedom = np.maximum(count - self._ddof, 0)
        with self._quiet():
            np.true_divide(variance, freedom, out=variance, casting="unsafe")
        if self._past_nan:
            variance[np.broadcast_to(freedom == 0, variance.shape)] = np.nan
        if self._root:
            np.sqrt(variance, out=variance)
        return variance


def _square(x: NDArray[Any]) -> NDArray[Any]:
    """Return squared absolute values; may overwrite `x`."""
    if x.dtype.kind != "c":
        np.square(x, out=x)
        return x
    squares: NDArray[Any] = x.real * x.real
    squares += x.imag * x.imag
    return squares


def _mean(past_nan: bool) -> Make:
    """Return a maker of folds of a mean."""

    def make(x: Any, out: Any, options: Options) -> Any:
        dtype = options.get("dtype")
        if x.dtype.kind in "mM" and dtype is not None:
            return NotImplemented  # NumPy casts the result, but cannot sum times in this dtype
        return _Mean(_inner_dtype(x.dtype, dtype, out), past_nan and x.dtype.kind in "fc")

    return make


def _stream_variance(function: Callable[..., Any], past_nan: bool, root: bool) -> None:
    """Register a variance, or its square root."""

    @streams(function)
    def form(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: Any = _ABSENT,
        *,
        where: Any = _ABSENT,
        mean: Any = _ABSENT,
        correction: Any = _ABSENT,
    ) -> Any:
        a = as_array(a)
        inner = _inner_dtype(a.dtype, dtype, out)
        if mean is not _ABSENT or inner.kind not in ("fc" if dtype is None else "f"):
            return NotImplemented
        if a.dtype.kind == "c" and inner.kind != "c":
            return NotImplemented  # NumPy drops the imaginary parts of the mean only
        if correction is not _ABSENT:
            if ddof != 0:
                return NotImplemented  # NumPy raises
            ddof = correction
        skip = past_nan and a.dtype.kind in "fc"
        return reduce_with(
            lambda *_: _Variance(inner, skip, ddof, root),
            function,
            a,
            axis,
            out,
            given(dtype=dtype, keepdims=keepdims, where=where),
        )


stream_reduction(np.mean, _mean(past_nan=False))
stream_reduction(np.nanmean, _mean(past_nan=True))
_stream_variance(np.var, past_nan=False, root=False)
_stream_variance(np.std, past_nan=False, root=True)
_stream_variance(np.nanvar, past_nan=True, root=False)
_stream_variance(np.nanstd, past_nan=True, root=True)


@streams(np.average)
def average(
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: Any = _ABSENT,
) -> Any:
    """Streamed form: a mean, or the weighted sum over the sum of the weights."""
    a = as_array(a)
    if not a.shape or 0 in a.shape:
        return NotImplemented
    options = {} if keepdims is _ABSENT else {"keepdims": keepdims}
    if weights is None:
        mean = call(np.mean, a, axis, **options)
        if not returned:
            return mean
        scale = mean.dtype.type(np.prod(a.shape) / max(1, np.size(mean)))
        return mean, np.broadcast_to(scale, np.shape(mean)).copy()[()]
    weights = as_array(weights)
    if weights.dtype.hasobject:
        return NotImplemented
    if weights.shape != a.shape:
        if axis is None:
            raise ArgumentTypeError("Axis must be specified when shapes of a and weights differ.")
        axes = all_axes(axis, len(a.shape))
        own = _as_given(axis, a)
        if weights.shape != tuple(a.shape[j] for j in own):
            raise ShapeError(
                "Shape of weights must be consistent with shape of a along specified axis."
            )
        if axes != own:
            return NotImplemented
        others = tuple(j for j in range(len(a.shape)) if j not in axes)
        weights = widened(weights, others)
    # NumPy chooses the dtype, on one element.
    one = np.average(np.ones(1, a.dtype), weights=np.ones(1, weights.dtype))
    total = call(np.sum, _spread(weights, a.shape), axis, dtype=one.dtype, **options)
    if np.any(total == 0.0):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    products = Computed(
        lambda x, w: np.multiply(x, w, dtype=one.dtype), a, weights, dtype=one.dtype
    )
    mean = np.divide(call(np.sum, products, axis, **options), total)
    return (mean, total) if returned else mean


def _as_given(axis: Any, a: Any) -> tuple[int, ...]:
    """Return the axes in the order given."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    return tuple(j % len(a.shape) for j in axes)


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    """Return an array broadcast to a shape."""
    if x.shape == shape:
        return x
    place = np.broadcast_to(np.zeros((), bool), shape)
    return Computed(lambda part, _: part, x, place, dtype=x.dtype)


# -- covariances ---------------------------------------------------------------------------------


class _Comoments:
    """Means of variables, and sums of products of their deviations, over the observations so far.

    Combine two parts as Chan, Golub and LeVeque do, without a difference of large numbers.
    """

    def __init__(self, n: int, dtype: np.dtype[Any]) -> None:
        self._weight: Any = 0
        self._means = np.zeros(n, dtype)
        self.products = np.zeros((n, n), dtype)

    def add(self, block: NDArray[Any], weights: NDArray[Any] | None) -> None:
        """Add observations, one a column."""
        weight = block.shape[1] if weights is None else weights.sum()
        if weight == 0:
            # Numbers contribute nothing; NaNs and infinities contribute NaN.
            nothing = (block * (0 if weights is None else weights)).sum(axis=1)
            self._means += nothing
            self.products += nothing[:, None] + nothing
            return
        means = np.average(block, axis=1, weights=weights)
        block -= means[:, None]
        weighted = block if weights is None else block * weights
        self.products += block @ weighted.T.conj()
        shift = means - self._means
        both = self._weight + weight
        self.products += np.outer(shift, shift.conj()) * (self._weight * (weight / both))
        self._means += shift * (weight / both)
        self._weight = both


@streams(np.cov)
def cov(
    m: Any,
    y: Any = None,
    rowvar: Any = True,
    bias: Any = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """Streamed form: covariances of variables, from blocks of observations."""
    given = [as_array(x) for x in ((m,) if y is None else (m, y))]
    if any(len(x.shape) not in (1, 2) or 0 in x.shape for x in given):
        return NotImplemented
    # The axis of the variables of each array.
    axes = [0 if rowvar or len(x.shape) == 1 else 1 for x in given]
    arrays = [widened(x, (0,)) if len(x.shape) == 1 else x for x in given]
    n = arrays[0].shape[1 - axes[0]]
    if any(x.shape[1 - j] != n for x, j in zip(arrays, axes, strict=True)):
        return NotImplemented
    fweights, aweights = (in_memory(w, "cov") for w in (fweights, aweights))
    # One variable of zeros raises NumPy's errors and its warning, and tells the dtype.
    sample: Any = [np.zeros((1, 2), x.dtype) for x in given]
    kind = np.dtype(np.cov(*sample, dtype=dtype).dtype)
    weights, scale = _weights(n, bias, ddof, fweights, aweights)
    n_variables = sum(x.shape[j] for x, j in zip(arrays, axes, strict=True))
    check_result(2 * n_variables**2 * kind.itemsize, "the result of cov", "fewer variables")
    moments = _Comoments(n_variables, kind)
    chunks = chunks_of(arrays[0])[1 - axes[0]]
    pieces = tiles((n,), (chunks,), n_variables * kind.itemsize, limit=step_bytes(4))
    with SaidOnce():
        for (piece,) in pieces:
            rows = [
                part_of(x, (slice(0, x.shape[0]), piece))
                if j == 0
                else part_of(x, (piece, slice(0, x.shape[1]))).T
                for x, j in zip(arrays, axes, strict=True)
            ]
            block = np.concatenate(rows, dtype=kind, casting="unsafe")
            moments.add(block, None if weights is None else weights[piece])
    moments.products *= np.true_divide(1, scale)  # in place, to keep the dtype
    return moments.products.squeeze()


def _weights(
    n: int, bias: Any, ddof: Any, fweights: Any, aweights: Any
) -> tuple[NDArray[Any] | None, Any]:
    """Return weights of observations, which NumPy has checked, and the divisor of the sums."""
    if fweights is None and aweights is None:
        zeros = np.broadcast_to(0.0, (n,)) if n <= 2 else np.zeros(2)
        np.cov(zeros, bias=bias, ddof=None if ddof is None else ddof - n + len(zeros))
        degrees = n - (ddof if ddof is not None else 0 if bias else 1)
        return None, max(degrees, 0.0)
    np.cov(np.zeros(n), bias=bias, ddof=ddof, fweights=fweights, aweights=aweights)
    weights = np.ones(n)
    for factor in (fweights, aweights):
        if factor is not None:
            weights = weights * np.asarray(factor, float)
    ddof = ddof if ddof is not None else 0 if bias else 1
    total = weights.sum()
    if aweights is None or ddof == 0:
        degrees = total - ddof
    else:
        degrees = total - ddof * np.sum(weights * np.asarray(aweights, float)) / total
    return weights, max(degrees, 0.0)


@streams(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: Any = True, *, dtype: Any = None) -> Any:
    """Streamed form: divide `cov` by the deviations of the variables."""
    products = cov(x, y, rowvar, dtype=dtype)
    if products is NotImplemented:
        return NotImplemented
    if not products.ndim:
        return products / products
    deviations = np.sqrt(np.diag(products).real)
    products /= deviations[:, None]
    products /= deviations
    for part in (products.real, products.imag) if products.dtype.kind == "c" else (products,):
        np.clip(part, -1, 1, out=part)
    return products
