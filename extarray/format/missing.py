"""Elements that attributes declare as missing."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["as_element", "missing_elements"]


def as_element(number: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number as an element of a dtype, or None if it cannot be one.

    Integers are not converted to floats, so those beyond 2**53 keep their value.

    Parameters
    ----------
    number : int, float or Decimal
    dtype : dtype
        Integers or real numbers; others give None.

    Examples
    --------
    >>> as_element(2**63 - 1, np.dtype("i8"))
    np.int64(9223372036854775807)
    >>> as_element(-9999.0, np.dtype("u2")) is None
    True
    """
    is_finite = math.isfinite(number)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        fits = is_finite and info.min <= number <= info.max and number == int(number)
        return dtype.type(int(number)) if fits else None
    if dtype.kind != "f":
        return None
    with np.errstate(over="ignore"):
        value = dtype.type(float(number))
    return value if np.isfinite(value) == is_finite else None


#: Attributes of netCDF, GeoTIFF, ENVI and FITS that name missing elements.
_MISSING = ("_FillValue", "missing_value", "nodata", "data ignore value", "BLANK")


def missing_elements(attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> list[Any]:
    """Return the elements, other than NaN, that attributes of any format declare as missing.

    Examples
    --------
    >>> missing_elements({"data ignore value": "-9999", "nodata": 70000}, np.dtype("i2"))
    [np.int16(-9999)]
    """
    found: list[Any] = []
    for name in _MISSING:
        for said in np.ravel(np.asarray(attrs.get(name, ()))).tolist():
            try:
                number = Decimal(said.strip()) if isinstance(said, str) else said
                element = as_element(number, dtype)
            except (ArithmeticError, TypeError, ValueError):
                continue  # another attribute of this name
            if element is not None and element == element and element not in found:
                found.append(element)
    return found
