"""NumPy's functions that give views: axes permuted, added or removed.

For arrays that are neither views nor stored, such as one read in another dtype, NumPy's own
functions return NumPy arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from extarray._core._array import ArrayCore
from extarray.array.lazy import LazyView, everything
from extarray.numpy_api.registry import streams
from extarray.streaming.meta_arrays import shadow

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__: list[str] = []


def _view_of(array: Any) -> LazyView | None:
    """Return an array of ours as a view; None if it has no view."""
    if isinstance(array, ArrayCore):
        own: Any = array
        own._check()
        return everything(own._released())
    return array._released() if isinstance(array, LazyView) else None


def _permuted(view: LazyView, permutes: Callable[[NDArray[Any]], NDArray[Any]]) -> LazyView:
    """Return a view with its axes in the order that NumPy gives those of a stand-in."""
    # The stride of each axis of the stand-in is the axis's number.
    standin = np.lib.stride_tricks.as_strided(
        np.zeros(1, "u1"), (1,) * view.ndim, tuple(range(view.ndim))
    )
    order = permutes(standin).strides
    return view._arrange(order, [view.shape[d] for d in order])


@streams(np.transpose)
def _transpose(a: Any, axes: Any = None) -> Any:
    view = _view_of(a)
    if view is None:
        return NotImplemented
    return _permuted(view, lambda x: np.transpose(x, axes))


@streams(np.matrix_transpose)
def _matrix_transpose(x: Any, /) -> Any:
    view = _view_of(x)
    if view is None:
        return NotImplemented
    return _permuted(view, np.matrix_transpose)


@streams(np.swapaxes)
def _swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    view = _view_of(a)
    if view is None:
        return NotImplemented
    return _permuted(view, lambda x: np.swapaxes(x, axis1, axis2))


@streams(np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    view = _view_of(a)
    if view is None:
        return NotImplemented
    return _permuted(view, lambda x: np.moveaxis(x, source, destination))


@streams(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Any:
    view = _view_of(a)
    if view is None:
        return NotImplemented
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    ndim = view.ndim + len(axes)
    new = normalize_axis_tuple(axes, ndim)
    old = iter(range(view.ndim))
    dims = [None if d in new else next(old) for d in range(ndim)]
    return view._arrange(dims, [1 if d is None else view.shape[d] for d in dims])


@streams(np.squeeze)
def _squeeze(a: Any, axis: Any = None) -> Any:
    view = _view_of(a)
    if view is None:
        return NotImplemented
    np.squeeze(shadow(view), axis)  # raises what NumPy raises
    if axis is None or not view.ndim:  # for a 0-d array NumPy accepts axes 0 and -1, too
        gone = [d for d, n in enumerate(view.shape) if n == 1]
    else:
        gone = list(normalize_axis_tuple(axis, view.ndim))
    dims = [d for d in range(view.ndim) if d not in gone]
    return view._arrange(dims, [view.shape[d] for d in dims])


@streams(np.broadcast_to)
def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    view = _view_of(array)
    if view is None:
        return NotImplemented
    extents = np.broadcast_to(shadow(view), shape).shape
    missing = len(extents) - view.ndim
    dims: list[int | None] = [None] * missing
    for d, n in enumerate(view.shape):
        dims.append(d if n == extents[missing + d] else None)
    return view._arrange(dims, extents)
