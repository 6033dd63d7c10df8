"""Rounding of mantissas, so that floats compress: the bits that are left out become zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.arguments import as_int
from extarray.common.errors import ArgumentError, DTypeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_bits", "has_mantissa", "round_mantissas"]


def has_mantissa(dtype: np.dtype[Any]) -> bool:
    """Tell whether elements of a dtype can be rounded: floats, and complex numbers of them."""
    return dtype.kind in "fc" and np.finfo(dtype).nmant + np.finfo(dtype).iexp + 1 in (16, 32, 64)


def check_bits(bits: Any, dtype: np.dtype[Any] | None = None) -> int:
    """Return a number of bits of mantissas; raise an error if elements cannot have that many.

    Examples
    --------
    >>> check_bits(7, np.dtype("f4"))
    7
    """
    number = as_int(bits, "significant_bits")
    most = 52
    if dtype is not None:
        if not has_mantissa(dtype):
            raise DTypeError(
                f"significant_bits rounds floats of 2, 4 or 8 bytes, not {dtype}; leave it out"
            )
        most = np.finfo(dtype).nmant
    if not 1 <= number <= most:
        raise ArgumentError(f"significant_bits must be 1 to {most}, not {number}")
    return number


def round_mantissas(values: NDArray[Any], bits: int) -> None:
    """Round floats in place, so that only the first bits of their mantissas differ from zero.

    Parameters
    ----------
    values : ndarray
        Contiguous; `has_mantissa` of its dtype.
    bits : int
        Bits of the mantissa that stay, the leading 1 of normal numbers not counted.

    Notes
    -----
    Ties go to the neighbour whose last bit is 0, as in IEEE 754.  The relative error of normal
    numbers is at most 2**-(bits + 1).  NaN, infinity and zero stay; a number that would become
    infinite is rounded towards zero.  Known as *bit rounding*: R. Kouznetsov, "A note on precision-
    preserving compression of scientific data", Geosci. Model Dev. 14 (2021), 377-389.

    Examples
    --------
    >>> x = np.array([1.1, -3.3, np.nan, 0, np.inf])
    >>> round_mantissas(x, 3)
    >>> x.tolist()
    [1.125, -3.25, nan, 0.0, inf]
    """
    info = np.finfo(values.dtype)
    gone = info.nmant - bits
    if gone <= 0:
        return
    size = (info.nmant + info.iexp + 1) // 8
    order = values.dtype.byteorder
    found = values.reshape(-1).view(f"{order if order in '<>' else '='}u{size}")
    one = found.dtype.type(1)
    kept = found.dtype.type((1 << 8 * size) - (1 << gone))
    exponent = found.dtype.type(((1 << info.iexp) - 1) << info.nmant)
    is_number = found & exponent != exponent
    rounded = found + ((found >> found.dtype.type(gone)) & one)
    rounded += found.dtype.type((1 << gone - 1) - 1)
    rounded &= kept
    overflows = is_number & (rounded & exponent == exponent)
    np.copyto(found, rounded, where=is_number & ~overflows)
    np.copyto(found, found & kept, where=overflows)
