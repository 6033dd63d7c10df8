"""Arrays that stand for others where NumPy is to decide something without looking at elements.

So dtypes, axes and errors are NumPy's own, and nothing is decided twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from extarray.streaming.blocks import Source

__all__ = ["empty", "shadow", "single"]


def empty(x: Any) -> Any:
    """Make an array of the dtype of `x`, without elements: for the dtype of a ufunc's result.

    Objects other than arrays and NumPy's scalars come back as they are; among them Python's
    numbers, which adapt to others.
    """
    return np.empty(0, x.dtype) if isinstance(x, (Source, np.ndarray, np.generic)) else x


def single(x: Any) -> Any:
    """Make an array of one element, of the dtype and number of axes of another.

    What is no array comes back as it is.
    """
    if not isinstance(x, (Source, np.ndarray)):
        return x
    # A mask has to let the element through; texts, records and dates have no one.
    make = np.ones if x.dtype.kind in "?biufc" else np.zeros
    return make((1,) * len(x.shape), x.dtype)


def shadow(x: Any) -> Any:
    """Make an array of the dtype and shape of another that takes the memory of one element.

    What is no array comes back as it is.
    """
    if not isinstance(x, (Source, np.ndarray)):
        return x
    one = np.zeros((), x.dtype)
    return np.lib.stride_tricks.as_strided(one, x.shape, (0,) * len(x.shape))
