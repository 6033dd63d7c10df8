"""Averages and covariances: what is known of two parts is combined to what is known of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentTypeError, ShapeError
from extarray.numpy_api.reductions import all_axes
from extarray.streaming.blocks import tiles
from extarray.streaming.derived import Computed, widened
from extarray.streaming.elementwise import part_of
from extarray.streaming.functions import dispatch, streams
from extarray.streaming.limits import check_result
from extarray.streaming.operands import as_array, chunks_of, in_memory, step_bytes
from extarray.streaming.warnings import SaidOnce

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_ABSENT: Any = np._NoValue


@streams(np.average)
def average(
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: Any = _ABSENT,
) -> Any:
    """Streamed form: a mean, or the sum of products with weights over the sum of these."""
    a = as_array(a)
    if not a.shape or 0 in a.shape:
        return NotImplemented
    options = {} if keepdims is _ABSENT else {"keepdims": keepdims}
    if weights is None:
        mean = dispatch(np.mean, (), (a, axis), options)
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
    # NumPy's own choice of dtype, on one element.
    one = np.average(np.ones(1, a.dtype), weights=np.ones(1, weights.dtype))
    total = dispatch(np.sum, (), (_spread(weights, a.shape), axis), {"dtype": one.dtype, **options})
    if np.any(total == 0.0):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    products = Computed(
        lambda x, w: np.multiply(x, w, dtype=one.dtype), a, weights, dtype=one.dtype
    )
    mean = np.divide(dispatch(np.sum, (), (products, axis), options), total)
    return (mean, total) if returned else mean


def _as_given(axis: Any, a: Any) -> tuple[int, ...]:
    """The axes in the order in which they are given."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    return tuple(j % len(a.shape) for j in axes)


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    """An array broadcast to a shape."""
    if x.shape == shape:
        return x
    place = np.broadcast_to(np.zeros((), bool), shape)
    return Computed(lambda part, _: part, x, place, dtype=x.dtype)


# -- covariances ---------------------------------------------------------------------------------


class _Comoments:
    """Means of variables, and sums of products of their deviations, of the observations so far.

    Two parts are combined as Chan, Golub and LeVeque do: nothing large is subtracted.
    """

    def __init__(self, n: int, dtype: np.dtype[Any]) -> None:
        self._weight: Any = 0
        self._means = np.zeros(n, dtype)
        self.products = np.zeros((n, n), dtype)

    def add(self, block: NDArray[Any], weights: NDArray[Any] | None) -> None:
        """Take up observations, one a column."""
        weight = block.shape[1] if weights is None else weights.sum()
        if weight == 0:
            # Nothing comes of numbers; but of NaN, and of infinity, NaN.
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
    """Streamed form: covariances of variables, from blocks of their observations."""
    given = [as_array(x) for x in ((m,) if y is None else (m, y))]
    if any(len(x.shape) not in (1, 2) or 0 in x.shape for x in given):
        return NotImplemented
    # The axis of the variables, and that of the observations, of each.
    axes = [0 if rowvar or len(x.shape) == 1 else 1 for x in given]
    arrays = [widened(x, (0,)) if len(x.shape) == 1 else x for x in given]
    n = arrays[0].shape[1 - axes[0]]
    if any(x.shape[1 - j] != n for x, j in zip(arrays, axes, strict=True)):
        return NotImplemented
    fweights, aweights = (in_memory(w, "cov") for w in (fweights, aweights))
    # One variable of zeros: NumPy's refusals, its warning, and the dtype.
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
    moments.products *= np.true_divide(1, scale)  # in place: the dtype stays
    return moments.products.squeeze()


def _weights(
    n: int, bias: Any, ddof: Any, fweights: Any, aweights: Any
) -> tuple[NDArray[Any] | None, Any]:
    """Weights of observations, and what the sums of products are divided by.

    NumPy checks the weights, and warns where there are too few observations.
    """
    if fweights is None and aweights is None:
        zeros = np.broadcast_to(0.0, (n,)) if n <= 2 else np.zeros(2)
        np.cov(zeros, bias=bias, ddof=None if ddof is None else ddof - n + len(zeros))
        degrees = n - (ddof if ddof is not None else 0 if bias else 1)
        return None, max(degrees, 0.0)
    np.cov(np.zeros(n), bias=bias, ddof=ddof, fweights=fweights, aweights=aweights)
    weights = np.ones(n)
    for given in (fweights, aweights):
        if given is not None:
            weights = weights * np.asarray(given, float)
    ddof = ddof if ddof is not None else 0 if bias else 1
    total = weights.sum()
    if aweights is None or ddof == 0:
        degrees = total - ddof
    else:
        degrees = total - ddof * np.sum(weights * np.asarray(aweights, float)) / total
    return weights, max(degrees, 0.0)


@streams(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: Any = True, *, dtype: Any = None) -> Any:
    """Streamed form: `cov`, over the deviations of the variables."""
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
