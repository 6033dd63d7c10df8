"""Packed numbers on show: the values that they stand for, as xarray shows them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray.common.errors import FormatError
from extarray.format.missing import missing_elements
from extarray.formats import Packing

__all__ = ["needed", "of_attrs", "unpacked"]


def needed(packing: Packing | None, fill: Any) -> Packing | None:
    """Return a packing if values differ from stored numbers; None: they are the same.

    Parameters
    ----------
    packing : Packing or None
    fill : scalar
        The fill value, which the page tells from other numbers anyway.
    """
    if packing is None:
        return None
    is_scaled = np.any(packing.scale != 1.0) or np.any(packing.offset != 0.0)
    marks_more = any(value == value and value != fill for value in packing.missing)
    return packing if is_scaled or packing.stored is not None or marks_more else None


def of_attrs(attrs: Mapping[str, Any], dtype: np.dtype[Any], fill: Any) -> Packing | None:
    """Return the packing that attributes declare, as the CF conventions do; see `needed`.

    Examples
    --------
    >>> of_attrs({"scale_factor": 0.5}, np.dtype("i2"), 0).scale
    0.5
    """
    found = None
    with contextlib.suppress(FormatError):
        found = Packing.of_attrs(attrs, dtype)
    if found is not None and found.stored is None:
        # Attributes of arrays do not tell float32 from float64.
        found = replace(found, missing=tuple(missing_elements(attrs, dtype)))
    return needed(found, fill)


def unpacked(values: NDArray[Any], attrs: Mapping[str, Any]) -> NDArray[Any]:
    """Return the values of a coordinate."""
    packing = of_attrs(attrs, values.dtype, None)
    return values if packing is None else packing.unpack(values)
