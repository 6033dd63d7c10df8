"""Elements of an array that xarray reads on demand, by any kind of index.

Indices refer to the array at the time when the dataset was opened.  The array may have grown at
either end before it is read, for example when another process receives a dataset and opens the
array again.
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
    """Elements of an array, read on demand.

    Parameters
    ----------
    manager : CachingFileManager
        Opens the array, even after pickling.
    first : tuple of int
        The lowest indices, relative to index 0 at creation.
    shape : tuple of int
        Extents; the array may be larger.
    dtype : dtype
        Dtype of the array, or the one that xarray uses instead.
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
        """Read in a thread, so that several variables are read concurrently."""
        return await asyncio.to_thread(self.__getitem__, key)

    def _product(self, key: tuple[Any, ...]) -> Any:
        """Return the outer product of integers, slices and 1-D arrays of indices."""
        with self._array() as (a, lows):
            brackets = a.oindex if any(isinstance(item, np.ndarray) for item in key) else a
            return self._known(brackets[_inside(key, self.shape, lows)])

    def _points(self, key: tuple[Any, ...]) -> Any:
        """Return the elements at points; dimensions of points come first, those of slices last."""
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
        # xarray turns slices into arrays and broadcasts each array over all dimensions.  Reduced to
        # the dimensions along which they vary, they are an outer product again, not a list of
        # points.
        with self._array() as (a, lows):
            elements = self._known(a[tuple(map(operator.add, map(_varying, key), lows))])
        return elements if elements.shape == shape else np.broadcast_to(elements, shape).copy()

    @contextmanager
    def _array(self) -> Iterator[tuple[ExtArray, tuple[int, ...]]]:
        """Yield the array and the current place of the original index 0."""
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
    """Reduce an index array to extent 1 along the dimensions in which it is constant."""
    for dim in range(index.ndim):
        first = index.take([0], dim)
        if (index == first).all():
            index = first
    return index


def _inside(key: tuple[Any, ...], shape: tuple[int, ...], lows: tuple[int, ...]) -> tuple[Any, ...]:
    """Convert an index to that of a larger array, as which the array may be opened again."""
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
    """Elements of an object that can be read by boxes, read on demand.

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
        """Return the elements selected by integers and slices."""
        outer, inner = [], []
        for item, n in zip(key, self.shape, strict=True):
            places = range(n)[item] if isinstance(item, slice) else range(n)[item : item + 1 or n]
            low, high = (min(places), max(places) + 1) if places else (0, 0)
            outer.append(slice(low, high))
            inner.append(slice(None, None, places.step) if isinstance(item, slice) else 0)
        return np.asarray(self._values[tuple(outer)])[tuple(inner)]
