"""Rounding of mantissas, so that floats compress: the bits that are left out become zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.arguments import as_int
from extarray.common.errors import ArgumentError, DTypeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Rounding", "check_bits", "has_mantissa", "round_mantissas"]

# Elements that are rounded at a time, so that temporary arrays stay in the cache.
_STEP = 1 << 14


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


@dataclass(frozen=True)
class Rounding:
    """Rounding of the elements of an array on their way into it.

    Parameters
    ----------
    dtype : dtype
        Data type of the array; `has_mantissa` of it.
    bits : int
        Bits of the mantissa that stay.
    kept : tuple of scalar
        Elements that stay as they are, since they mark missing ones.
    """

    dtype: np.dtype[Any]
    bits: int
    kept: tuple[Any, ...] = ()

    def __call__(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return a rounded copy of elements, cast to the data type.

        Examples
        --------
        >>> Rounding(np.dtype("f4"), 3, (-999,))(np.array([1.1, -999, -999.5]))
        array([   1.125, -999.   , -1024.   ], dtype=float32)
        """
        found = values.astype(self.dtype)
        stay = [found == one for one in self.kept]
        before = [found[where] for where in stay]  # a zero may be negative
        round_mantissas(found, self.bits)
        for where, elements in zip(stay, before, strict=True):
            found[where] = elements
        return found


def round_mantissas(values: NDArray[Any], bits: int) -> None:
    """Round floats in place, so that only the first bits of their mantissas differ from zero.

    Parameters
    ----------
    values : ndarray
        `has_mantissa` of its dtype.
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
    if values.dtype.kind == "c":
        round_mantissas(values.real, bits)
        round_mantissas(values.imag, bits)
        return
    info = np.finfo(values.dtype)
    if bits >= info.nmant or not values.size:
        return
    size = values.dtype.itemsize
    order = values.dtype.byteorder
    found = values.view(f"{order if order in '<>' else '='}u{size}")
    flags: Any = ["external_loop", "buffered"]
    steps = np.nditer(found, flags, ["readwrite"], order="K", buffersize=_STEP)
    with steps:
        for step in steps:
            _round(step, info, info.nmant - bits)


def _round(found: Any, info: np.finfo[Any], gone: int) -> None:
    """Round numbers, given as unsigned integers, so that the last bits become zeros."""
    size = found.dtype.itemsize
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
