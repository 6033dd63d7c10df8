"""Stand-ins for arrays, from which NumPy takes decisions without looking at elements.

So dtypes, axes and errors are NumPy's own, and no decision is made twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from extarray.streaming.blocks import Source

__all__ = ["empty", "shadow", "single"]


def empty(x: Any) -> Any:
    """Return an array of the dtype of `x` without elements, to learn the dtype of a ufunc's result.

    Pass objects without a dtype through, so that Python's numbers still adapt to other dtypes.
    """
    return np.empty(0, x.dtype) if isinstance(x, (Source, np.ndarray, np.generic)) else x


def single(x: Any) -> Any:
    """Return a one-element array with the dtype and ndim of `x`; pass other objects through."""
    if not isinstance(x, (Source, np.ndarray)):
        return x
    # Ones, as a mask must let the element through; text, records and dates have no 1.
    make = np.ones if x.dtype.kind in "?biufc" else np.zeros
    return make((1,) * len(x.shape), x.dtype)


def shadow(x: Any) -> Any:
    """Return an array with the dtype and shape of `x` in the memory of one element.

    Pass other objects through.
    """
    if not isinstance(x, (Source, np.ndarray)):
        return x
    one = np.zeros((), x.dtype)
    return np.lib.stride_tricks.as_strided(one, x.shape, (0,) * len(x.shape))
