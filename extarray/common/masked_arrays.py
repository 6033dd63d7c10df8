"""Masked arrays as values: the fill value replaces masked elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["unmasked"]


def unmasked(values: Any, dtype: np.dtype[Any], fill: Any) -> NDArray[Any]:
    """Return the elements of an array, with the fill value in place of masked ones.

    If any is masked, elements are cast to `dtype`, as NumPy's assignment casts.  Records that are
    masked in part are refused.
    """
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    plain: NDArray[Any] = np.asarray(values)
    mask: Any = np.ma.getmask(values)
    if mask is np.ma.nomask:
        return plain
    if mask.dtype.names is not None:
        if not any(np.any(mask[name]) for name in mask.dtype.names):
            return plain
        raise ArgumentError("cannot store partly masked records; give .filled() of them")
    if not mask.any():
        return plain
    result: NDArray[Any] = np.empty(plain.shape, dtype)
    # A masked element may have any value, perhaps one that cannot be cast.
    np.copyto(result, plain, casting="unsafe", where=~mask)
    result[mask] = fill
    return result
