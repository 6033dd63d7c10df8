"""Elements that attributes declare as missing, and texts that stand for those that are missing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import CastingError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from numpy.typing import NDArray

__all__ = [
    "MISSING",
    "TEXT_MARKERS",
    "as_element",
    "marker_of",
    "marks_missing",
    "missing_elements",
    "plain_texts",
]


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
MISSING = ("_FillValue", "missing_value", "nodata", "data ignore value", "BLANK")


def _number_of(text: str) -> Decimal:
    """Return the number that a text says, with all its digits."""
    from decimal import Decimal  # which few attributes need

    return Decimal(text.strip())


def missing_elements(attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> list[Any]:
    """Return the elements, other than NaN, that attributes of any format declare as missing.

    Examples
    --------
    >>> missing_elements({"data ignore value": "-9999", "nodata": 70000}, np.dtype("i2"))
    [np.int16(-9999)]
    """
    found: list[Any] = []
    for name in MISSING:
        for said in np.ravel(np.asarray(attrs.get(name, ()))).tolist():
            try:
                number = _number_of(said) if isinstance(said, str) else said
                element = as_element(number, dtype)
            except (ArithmeticError, TypeError, ValueError):
                continue  # another attribute of this name
            if element is not None and element == element and element not in found:
                found.append(element)
    return found


# -- texts ---------------------------------------------------------------------------------------

#: Attributes that name the text that stands for missing ones; the first that is there counts.
TEXT_MARKERS = ("_FillValue", "missing_value")


def marker_of(attrs: Mapping[str, Any]) -> str | bytes | None:
    """Return the text that attributes declare as missing, or None."""
    for key in TEXT_MARKERS:
        found = attrs.get(key)
        if found is not None:
            item = np.ravel(found)[0].item() if np.size(found) == 1 else found
            return item if isinstance(item, (str, bytes)) else None
    return None


def marks_missing(attrs: Mapping[str, Any], dtype: np.dtype[Any]) -> Any:
    """Return the marker as an element of a dtype; None if there is none, or if it does not fit."""
    mark = marker_of(attrs)
    if isinstance(mark, str) and dtype.kind == "S":
        try:
            mark = mark.encode(str(attrs.get("_Encoding", "ascii")))
        except (LookupError, UnicodeError):
            return None
    if not isinstance(mark, {"U": str, "S": bytes}.get(dtype.kind, ())):
        return None
    found = np.array(mark).astype(dtype)[()]
    return found if found == mark else None


def plain_texts(
    values: NDArray[Any], dtype: np.dtype[Any], attrs: Mapping[str, Any] | None
) -> NDArray[Any]:
    """Return the texts of a ``StringDType`` as texts of a dtype, as long as they are.

    The text that attributes declare as missing stands for those that are.  NumPy would write them
    as "None" or "nan".  A field of records (`attrs` is None) has no such text.  Values of other
    dtypes are returned as they are.

    Raises
    ------
    CastingError
        A TypeError: texts are missing, and no text stands for them, or one of the others is it.

    Examples
    --------
    >>> texts = np.array(["long", None], np.dtypes.StringDType(na_object=None))
    >>> plain_texts(texts, np.dtype("U2"), {"missing_value": "?"})
    array(['long', '?'], dtype='<U4')
    """
    if values.dtype.kind != "T" or dtype.kind not in "US":
        return values
    objects = values.astype(object)
    is_text = np.frompyfunc(lambda text: isinstance(text, str), 1, 1)(objects).astype(bool)
    try:
        some: NDArray[Any] = objects[is_text].astype(dtype.type)
    except UnicodeEncodeError as error:
        raise CastingError(
            f"cannot store {error.object!r:.80} in an array of {dtype.str}, whose texts are ASCII; "
            "encode the texts, or store them in an array of dtype 'U'"
        ) from None
    if is_text.all():
        return some.reshape(values.shape)
    if attrs is None:
        raise CastingError(
            f"cannot store missing texts in a field of {dtype.str}; replace them first"
        )
    mark = marks_missing(attrs, dtype)
    most = dtype.itemsize // np.dtype((dtype.type, 1)).itemsize
    if mark is None:
        raise CastingError(
            f"cannot store missing texts in an array of {dtype.str}; set its attribute "
            f"'missing_value' to a text of at most {most} characters that stands for them, or "
            "replace them first"
        )
    if np.any(some == mark):
        raise CastingError(
            f"cannot store missing texts: {mark.item()!r} stands for them by an attribute, but it "
            "is also one of the texts; replace the missing ones first"
        )
    longest = np.promote_types(some.dtype, np.array(mark).dtype)
    result = np.full(values.shape, mark, longest)
    result[is_text] = some
    return result
