"""Iteration over elements in C order: read piece by piece, given one by one."""

from __future__ import annotations

import operator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.errors import ArgumentError, BoundsError, SelectionError
from extarray.protocols.blocks import Source
from extarray.protocols.choosing import pieces
from extarray.protocols.derived import flat
from extarray.protocols.elementwise import part_of
from extarray.protocols.operands import step_bytes
from extarray.protocols.standins import shadow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

__all__ = ["FlatElements", "ndenumerate"]


def ndenumerate(a: Source) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Iterate over the elements in C order, with their indices.

    ``np.ndenumerate`` does the same, but reads the whole array first.

    Parameters
    ----------
    a : ExtArray

    Yields
    ------
    index : tuple of int
    element : scalar

    Notes
    -----
    At most ``config.max_memory`` bytes are in memory at a time.

    Examples
    --------
    >>> import extarray as xa
    >>> for index, element in xa.ndenumerate(xa.from_array([[1, 2], [3, 4]])):
    ...     print(index, element)
    (0, 0) 1
    (0, 1) 2
    (1, 0) 3
    (1, 1) 4
    """
    return zip(np.ndindex(a.shape), FlatElements(a), strict=False)


class FlatElements:
    """The elements of an array in C order, as `numpy.flatiter` has them: the array's ``flat``.

    Iteration reads them piece by piece, an index those that it selects.

    Parameters
    ----------
    base : ExtArray

    Attributes
    ----------
    base : ExtArray

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.from_array([[1, 2, 3], [4, 5, 6]])
    >>> a.flat[2:5]
    array([3, 4, 5])
    >>> a.flat[[0, -1]] = 0
    >>> [int(x) for x in a.flat]
    [0, 2, 3, 4, 5, 0]
    """

    __slots__ = ("base",)

    def __init__(self, base: Any) -> None:
        self.base = base

    def __len__(self) -> int:
        size: int = flat(self.base).shape[0]
        return size

    def __iter__(self) -> Iterator[Any]:
        elements = flat(self.base)
        for piece in pieces(elements):
            yield from part_of(elements, (piece,))

    def __getitem__(self, key: Any) -> Any:
        places = self._places(key)
        if isinstance(places, slice):
            elements = flat(self.base)
            return np.array(part_of(elements, (places,)))
        return np.take(self.base, places)

    def __setitem__(self, key: Any, values: ArrayLike) -> None:
        if isinstance(key, tuple) and not key:
            raise SelectionError("Assigning to a flat iterator with a 0-D index is not supported.")
        places = self._places(key)
        if not isinstance(places, slice):
            np.put(self.base, places, values)
            return
        new = np.ravel(np.asarray(values))
        if not len(new):
            if places.start < places.stop:
                raise ArgumentError("Error setting single item of array.")
            return
        elements = flat(self.base)
        step = max(1, step_bytes() // elements.dtype.itemsize)
        for low in range(places.start, places.stop, step):
            high = min(low + step, places.stop)
            # Values that are too few begin again.
            chosen = new[np.arange(low - places.start, high - places.start) % len(new)]
            elements.write((slice(low, high),), chosen.astype(elements.dtype))

    def _places(self, key: Any) -> slice | NDArray[np.intp] | int:
        """Places in C order: a range where they are one."""
        n = len(self)
        if isinstance(key, tuple) and len(key) == 1:
            (key,) = key
        if key is Ellipsis or (isinstance(key, tuple) and not key):
            return slice(0, n)
        if isinstance(key, slice):
            low, high, step = key.indices(n)
            return slice(low, max(low, high)) if step == 1 else np.arange(low, high, step)
        if not isinstance(key, (bool, np.bool_)):
            with suppress(TypeError):
                key = operator.index(key)
        if type(key) is int:
            if not -n <= key < n:
                raise BoundsError(f"index {key} is out of bounds for size {n}")
            return key
        chosen = np.asarray(key)
        if isinstance(key, Source):
            key = chosen
        if chosen.dtype.kind == "b":
            is_usual = chosen.shape == (n,) and not isinstance(key, list)
        else:
            is_usual = chosen.dtype.kind in "iu" or not chosen.size
        if not is_usual or isinstance(key, tuple):
            # NumPy refuses, or takes it with a warning: which, depends on its version.
            try:
                shadow(self.base).flat[key]
            except IndexError as error:
                raise SelectionError(str(error)) from None
        if chosen.dtype.kind == "b":
            return np.flatnonzero(chosen)
        places = chosen.astype(np.intp)
        wrong = places[(places < -n) | (places >= n)]
        if wrong.size:
            raise BoundsError(f"index {wrong[0]} is out of bounds for size {n}")
        return places

    def copy(self) -> NDArray[Any]:
        """Copy of the elements.

        Returns
        -------
        ndarray

        Examples
        --------
        >>> import extarray as xa
        >>> xa.ones((2, 2)).flat.copy()
        array([1., 1., 1., 1.])
        """
        elements: NDArray[Any] = self.base.read().reshape(-1)
        return elements

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.copy(), dtype)
