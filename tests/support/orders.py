"""Two additional orders of elements in a chunk, to find code that asks for a letter."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from extarray.common.choices import ORDERS
from extarray.format import header
from extarray.grid import order


def _backwards(points, bits):
    """Return keys that number elements from last to first, in C order."""
    k, _ = points.shape
    place = np.zeros_like(points[0])
    for coordinate in points:
        place = (place << np.uint64(bits)) | coordinate
    return (np.uint64((1 << k * bits) - 1) - place).reshape(1, -1)


def _rolled(ndim):
    """Return axes by falling stride: axis 0 varies fastest, the rest as in C order."""
    return (*range(1, ndim), 0)[:ndim] if ndim else ()


#: The new orders: the first needs a table, the second has strides.
NEW = ("P", "Q")


def stored(elements, name):
    """Return the elements of a chunk as they lie in a file, by NumPy alone."""
    if name == "P":
        return elements.ravel()[::-1]
    return np.moveaxis(elements, 0, -1).ravel() if elements.ndim else elements.ravel()


@contextlib.contextmanager
def new_orders():
    """Register the new orders where the map of `extarray.grid` says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(order._KEYS, "P", _backwards)
        patch.setitem(order._AXES, "Q", _rolled)
        letters = (*ORDERS, *NEW)
        patch.setattr(order, "ORDERS", letters)
        patch.setattr(header, "ORDERS", letters)
        yield
