"""Norms of vectors and matrices: reductions of the elements' absolute values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from extarray.streaming.blocks import Source
from extarray.streaming.derived import Computed, flat
from extarray.streaming.functions import dispatch, streams

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__: list[str] = []


@streams(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Streamed form: a norm of all elements, of vectors, or of matrices.

    The norms of matrices by singular values are NumPy's.
    """
    if not isinstance(x, Source) or not x.shape or 0 in x.shape or x.dtype.kind not in "?biufc":
        return NotImplemented
    ndim = len(x.shape)
    if axis is None:
        plain = ord is None or (ord in ("f", "fro") and ndim == 2) or (ord == 2 and ndim == 1)
        if plain or ndim == 1:
            return _vector(x, 2 if plain else ord, None, keepdims)
        axes = tuple(range(ndim))
    else:
        axes = axis if isinstance(axis, tuple) else (axis,)
    try:
        axes = tuple(normalize_axis_index(j, ndim) for j in axes)
    except (np.exceptions.AxisError, TypeError):
        return NotImplemented  # NumPy's refusal
    if len(axes) == 1:
        return _vector(x, 2 if ord is None else ord, axes[0], keepdims)
    if len(axes) == 2 and axes[0] != axes[1]:
        return _matrix(x, ord, axes, keepdims)
    return NotImplemented


def _vector(x: Any, order: Any, axis: Any, keepdims: bool) -> Any:
    options = {"keepdims": keepdims}
    if isinstance(order, str):
        return NotImplemented  # NumPy's refusal
    if order == np.inf:
        return dispatch(np.max, (), (_sizes(x), axis), options)
    if order == -np.inf:
        return dispatch(np.min, (), (_sizes(x), axis), options)
    if order == 0:
        kind = _kind(x)
        return _sum(lambda part: (part != 0).astype(kind), x, axis, options)
    if order == 1:
        return dispatch(np.sum, (), (_sizes(x), axis), options)
    if order == 2:
        return np.sqrt(_sum(_squares, x, axis, options))
    powers = _sum(lambda part: np.abs(_inexact(part)) ** order, x, axis, options)
    return powers ** np.reciprocal(order, dtype=powers.dtype)


def _matrix(x: Any, order: Any, axes: tuple[int, int], keepdims: bool) -> Any:
    if order in (None, "fro", "f"):
        return np.sqrt(_sum(_squares, x, axes, {"keepdims": keepdims}))
    # Sums of the columns, or of the rows; then the greatest or the least.
    ways: dict[Any, tuple[int, Callable[..., Any]]] = {
        1: (0, np.max),
        -1: (0, np.min),
        np.inf: (1, np.max),
        -np.inf: (1, np.min),
    }
    if isinstance(order, str) or order not in ways:
        return NotImplemented
    first, choose = ways[order]
    sums = dispatch(np.sum, (), (_sizes(x), axes[first]), {"keepdims": True})
    result = choose(sums, axes[1 - first], keepdims=True)
    return result if keepdims else np.squeeze(result, axes)[()]


def _kind(x: Any) -> np.dtype[Any]:
    """Dtype of the norm."""
    return np.linalg.norm(np.zeros(1, x.dtype)).dtype


def _inexact(part: NDArray[Any]) -> NDArray[Any]:
    return part if part.dtype.kind in "fc" else part.astype(float)


def _squares(part: NDArray[Any]) -> NDArray[Any]:
    part = _inexact(part)
    squares: NDArray[Any]
    squares = part.real**2 + part.imag**2 if part.dtype.kind == "c" else part * part
    return squares


def _sizes(x: Any) -> Computed:
    """Absolute values."""
    return Computed(lambda part: np.abs(_inexact(part)), x, dtype=_kind(x))


def _sum(function: Callable[..., Any], x: Any, axis: Any, options: dict[str, Any]) -> Any:
    return dispatch(np.sum, (), (Computed(function, x, dtype=_kind(x)), axis), options)


@streams(np.linalg.vector_norm)
def vector_norm(
    x: Any,
    /,
    *,
    axis: Any = None,
    keepdims: bool = False,
    ord: Any = 2,
) -> Any:
    """Streamed form: a norm of vectors."""
    if isinstance(axis, tuple) or not isinstance(x, Source) or (axis is None and keepdims):
        return NotImplemented
    return norm(flat(x), ord, 0) if axis is None else norm(x, ord, axis, keepdims)


@streams(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Streamed form: a norm of matrices."""
    return norm(x, ord, (-2, -1), keepdims)
