"""Means and variances, of boxes and of what they are parts of."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.numpy_api.reductions import given, reduce_part, reduce_with
from extarray.streaming.blocks import Source
from extarray.streaming.folding import Fold
from extarray.streaming.functions import streams
from extarray.streaming.operands import as_array

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from extarray.streaming.blocks import Box
    from extarray.streaming.folding import State

__all__: list[str] = []

_ABSENT: Any = np._NoValue  # "not given", in NumPy's signatures


def _inner_dtype(x: np.dtype[Any], dtype: Any, out: Any) -> np.dtype[Any]:
    """The dtype in which to sum: as NumPy's, but never half precision."""
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
    """Number of elements that count: an int where all do."""
    if where is True:
        return math.prod([part.shape[j] for j in axes])
    return np.add.reduce(np.broadcast_to(where, part.shape), axes, np.intp, keepdims=True)


class _Moments(Fold):
    """What mean and variance have in common."""

    def __init__(self, dtype: np.dtype[Any], past_nan: bool) -> None:
        super().__init__()
        self._dtype = dtype
        self._past_nan = past_nan

    def _counted(self, part: NDArray[Any], where: Any) -> Any:
        return where & ~np.isnan(part) if self._past_nan else where

    def _quiet(self) -> AbstractContextManager[Any]:
        """No warnings of divisions by 0: past NaNs there is a better one."""
        return np.errstate(all="ignore") if self._past_nan else nullcontext()


class _Mean(_Moments):
    """Sum and number."""

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
    """Mean (rounded, and the rest of it), sum of squared distances from it, and number.

    Two parts are combined by the formula of Chan, Golub and LeVeque [chan1983]_: no digits are
    lost, however far the mean is from zero.
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
        # The mean is rounded: what is missing is the mean of the distances.
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
    """Squared absolute values; `x` may be overwritten."""
    if x.dtype.kind != "c":
        np.square(x, out=x)
        return x
    squares: NDArray[Any] = x.real * x.real
    squares += x.imag * x.imag
    return squares


def _stream_mean(function: Callable[..., Any], past_nan: bool) -> None:
    """Register a mean."""

    @streams(function)
    def form(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = _ABSENT,
        *,
        where: Any = _ABSENT,
    ) -> Any:
        a = as_array(a)
        if a.dtype.kind in "mM" and dtype is not None:
            return NotImplemented  # the sum of times has no such dtype, but NumPy's result may
        skip = past_nan and a.dtype.kind in "fc"
        return reduce_with(
            lambda: _Mean(_inner_dtype(a.dtype, dtype, out), skip),
            function,
            a,
            axis,
            out,
            given(dtype=dtype, keepdims=keepdims, where=where),
        )


def _stream_variance(function: Callable[..., Any], past_nan: bool, root: bool) -> None:
    """Register a variance, or its root."""

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
            return NotImplemented  # NumPy drops the imaginary parts of the mean alone
        if correction is not _ABSENT:
            if ddof != 0:
                return NotImplemented  # which NumPy refuses
            ddof = correction
        skip = past_nan and a.dtype.kind in "fc"
        return reduce_with(
            lambda: _Variance(inner, skip, ddof, root),
            function,
            a,
            axis,
            out,
            given(dtype=dtype, keepdims=keepdims, where=where),
        )


_stream_mean(np.mean, past_nan=False)
_stream_mean(np.nanmean, past_nan=True)
_stream_variance(np.var, past_nan=False, root=False)
_stream_variance(np.std, past_nan=False, root=True)
_stream_variance(np.nanvar, past_nan=True, root=False)
_stream_variance(np.nanstd, past_nan=True, root=True)
