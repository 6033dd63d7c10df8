"""Elements of an array for xarray: read when they are needed, by any kind of index.

An index is one of the array as it was when the dataset was opened.  The array may have grown by
the time that it is read, at either end: a process that is sent a dataset, for example, opens it
anew.
"""

from __future__ import annotations

import asyncio
import operator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import BoundsError
from extarray.common.extras import require

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extarray.array.array import ExtArray

__all__ = ["LazyArray", "LazyBoxes"]

xr: Any = require("xarray", "xarray", "the xarray backend")
indexing: Any = require("xarray.core.indexing", "xarray")


class LazyArray(xr.backends.BackendArray):  # type: ignore[misc]
    """Elements of an array, read when they are needed.

    Parameters
    ----------
    manager : CachingFileManager
        Opens the array, also after it was pickled.
    first : tuple of int
        The least indices, counted from where index 0 was at first.
    shape : tuple of int
        Extents; the array may be larger.
    dtype : dtype
        The array's, or one that xarray has in its place.
    """

    __slots__ = ("_first", "_manager", "dtype", "shape")

    def __init__(
        self,
        manager: Any,
        first: tuple[int, ...],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:
        self._manager = manager
        self._first = first
        self.shape = shape
        self.dtype = dtype

    def __getitem__(self, key: Any) -> Any:
        is_pointwise = isinstance(key, indexing.VectorizedIndexer)
        return self._points(key.tuple) if is_pointwise else self._product(key.tuple)

    async def async_getitem(self, key: Any) -> Any:
        """Read in a thread: several variables are read at the same time."""
        return await asyncio.to_thread(self.__getitem__, key)

    def _product(self, key: tuple[Any, ...]) -> Any:
        """Return the elements where integers, slices and arrays of indices of an axis each meet."""
        with self._array() as (a, lows):
            brackets = a.oindex if any(isinstance(item, np.ndarray) for item in key) else a
            return self._known(brackets[_inside(key, self.shape, lows)])

    def _points(self, key: tuple[Any, ...]) -> Any:
        """Return the elements at points, whose dimensions come first, those of slices last."""
        left = n_slices = sum(isinstance(item, slice) for item in key)
        indices = []
        for item, n in zip(key, self.shape, strict=True):
            if isinstance(item, slice):
                left -= 1
                indices.append(np.arange(n)[item].reshape(-1, *(1,) * left))
            else:
                indices.append(item.reshape(*item.shape, *(1,) * n_slices))
        key = _inside(tuple(indices), self.shape, (0,) * len(self.shape))
        shape = np.broadcast_shapes(*map(np.shape, key))
        if 0 in shape:
            return np.empty(shape, self.dtype)
        # xarray makes arrays of its slices, and spreads each array over all dimensions.  Taken back
        # to those along which they vary, they are a product, and not a list of its points.
        with self._array() as (a, lows):
            elements = self._known(a[tuple(map(operator.add, map(_varying, key), lows))])
        return elements if elements.shape == shape else np.broadcast_to(elements, shape).copy()

    @contextmanager
    def _array(self) -> Iterator[tuple[ExtArray, tuple[int, ...]]]:
        """Return the array, and where index 0 is by now."""
        with self._manager.acquire_context() as a:
            lows = tuple(map(operator.add, self._first, a.origin))
            if a.ndim != len(self.shape) or any(map(operator.gt, self.shape, a.shape)):
                raise BoundsError(
                    f"'{a.path}' had shape {self.shape}, but has {a.shape} now; open it again"
                )
            for low, n, extent in zip(lows, self.shape, a.shape, strict=True):
                if n and not 0 <= low <= extent - n:
                    raise BoundsError(
                        f"'{a.path}' has lost elements since it was opened; open it again"
                    )
            yield a, lows

    def _known(self, elements: Any) -> Any:
        return elements.astype(self.dtype, copy=False)


def _varying(index: Any) -> Any:
    """Return an array of indices, with extent 1 along the dimensions along which it is constant."""
    for dim in range(index.ndim):
        first = index.take([0], dim)
        if (index == first).all():
            index = first
    return index


def _inside(key: tuple[Any, ...], shape: tuple[int, ...], lows: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the same index of a larger array, as which an array may be opened again."""
    return tuple(map(_inside_axis, key, shape, lows, range(len(shape))))


def _inside_axis(item: Any, extent: int, low: int, axis: int) -> Any:
    if isinstance(item, slice):
        places = range(low, low + extent)[item]
        if not places:
            return slice(0, 0)
        return slice(places.start, None if places.stop < 0 else places.stop, places.step)
    indices = np.asarray(item)
    outside = (indices < -extent) | (indices >= extent)
    if outside.any():
        raise BoundsError(
            f"index {indices[outside][0]} is out of bounds for axis {axis} with size {extent}"
        )
    return (np.where(indices < 0, indices + extent, indices) + low)[()]


class LazyBoxes(xr.backends.BackendArray):  # type: ignore[misc]
    """Elements of anything that gives boxes of them, read when they are needed.

    Parameters
    ----------
    values
        An object with shape, dtype, and slicing by slices of step 1.
    """

    __slots__ = ("_values", "dtype", "shape")

    def __init__(self, values: Any) -> None:
        self._values = values
        self.shape = tuple(values.shape)
        self.dtype = values.dtype

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.BASIC, self._box
        )

    def _box(self, key: tuple[Any, ...]) -> Any:
        """Return the elements where integers and slices meet."""
        outer, inner = [], []
        for item, n in zip(key, self.shape, strict=True):
            places = range(n)[item] if isinstance(item, slice) else range(n)[item : item + 1 or n]
            low, high = (min(places), max(places) + 1) if places else (0, 0)
            outer.append(slice(low, high))
            inner.append(slice(None, None, places.step) if isinstance(item, slice) else 0)
        return np.asarray(self._values[tuple(outer)])[tuple(inner)]
