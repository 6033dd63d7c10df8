"""NumPy's values as JSON: for attributes that JSON does not have, and for coordinates.

An array is a dict of its dtype and of its elements, in nested lists::

    {"dtype": "<f8", "data": [0.5, "NaN"]}
    {"dtype": "<M8[D]", "data": ["2024-05-01", "2024-05-02"]}

A scalar has one element in place of the lists.  Numbers, truth values and texts stand for
themselves; NaN and the infinities are ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, a complex
number is a text such as ``"(1+2j)"``, a date one of ISO 8601, a time difference a number in the
unit of the dtype, and a byte string a text of the characters 0 to 255.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentError, ArgumentTypeError, DTypeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["decode", "decode_array", "encode", "encode_array"]


def encode_array(x: NDArray[Any]) -> dict[str, Any]:
    """Return the JSON form of an array.

    Parameters
    ----------
    x : ndarray
        Of truth values, integers, floating-point or complex numbers of at most 8 bytes a part,
        dates, time differences, texts or byte strings.

    Returns
    -------
    dict
        With the keys ``"dtype"`` and ``"data"``, and ``"shape"`` for an array of several axes that
        is empty: nested lists do not tell it.

    Raises
    ------
    DTypeError
        A TypeError: any other dtype.

    Examples
    --------
    >>> encode_array(np.array([0.5, np.nan]))
    {'dtype': '<f8', 'data': [0.5, 'NaN']}
    """
    kind = x.dtype.kind
    if kind in "biu" or kind == "U":
        data = x.tolist()
    elif kind == "f" and x.itemsize <= 8:
        data = _each(x.tolist(), lambda v: v if math.isfinite(v) else json.dumps(v))
    elif kind == "c" and x.itemsize <= 16:
        data = _each(x.tolist(), str)
    elif kind == "M":
        # NumPy does not know NaT in the other byte order.
        data = np.datetime_as_string(x.astype(x.dtype.newbyteorder("="))).tolist()
    elif kind == "m":
        data = x.astype(np.int64).tolist()
    elif kind == "S":
        data = _each(x.tolist(), lambda v: v.decode("latin-1"))
    else:
        raise DTypeError(f"values of {x.dtype} have no JSON form; keep them in an array")
    form = {"dtype": x.dtype.str, "data": data}
    if x.ndim > 1 and x.size == 0:
        form["shape"] = list(x.shape)
    return form


def _each(data: Any, convert: Any) -> Any:
    """Return nested lists with every element converted."""
    return [_each(item, convert) for item in data] if isinstance(data, list) else convert(data)


def decode_array(form: dict[str, Any]) -> NDArray[Any]:
    """Return the array from its JSON form.

    Parameters
    ----------
    form : dict
        As `encode_array` gives it; without ``"dtype"`` NumPy chooses one.

    Raises
    ------
    ArgumentError
        A ValueError: the dict is no such form.

    Examples
    --------
    >>> decode_array({"dtype": "<M8[D]", "data": ["2024-05-01"]})
    array(['2024-05-01'], dtype='datetime64[D]')
    >>> decode_array({"data": [1, 2]})
    array([1, 2])
    """
    try:
        data = form["data"]
        if "dtype" in form:
            dtype = np.dtype(form["dtype"])
            if dtype.kind == "S":
                data = _each(data, lambda v: v.encode("latin-1"))
            x = np.array(data, object).astype(dtype)
        else:
            x = np.array(data)
        if x.dtype.kind in "OV":
            raise TypeError(x.dtype)
        return x.reshape(form["shape"]) if "shape" in form else x
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ArgumentError(f"no JSON form of an array ({error!r}): {form!r:.200}") from None


def encode(value: Any) -> Any:
    """Return the JSON form of an attribute.

    Parameters
    ----------
    value : object
        What JSON has, NumPy's arrays and scalars, byte strings, and lists, tuples and dicts of
        these.

    Returns
    -------
    object
        Numbers that Python has as well, and texts, as they are; tuples as lists.

    Raises
    ------
    ArgumentTypeError
        A TypeError: there is no such form.

    Examples
    --------
    >>> encode(np.float32(0.5)), encode(np.int64(3)), encode("mm")
    ({'dtype': '<f4', 'data': 0.5}, 3, 'mm')
    """
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, (np.bool_, np.int64, np.str_)):
        return value.item()
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ArgumentTypeError(
                    f"the key {key!r} of attributes is a {type(key).__name__}; use a str"
                )
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind in ("O", "T"):
        return encode(value.tolist())
    if isinstance(value, (bytes, float, complex, np.ndarray, np.generic)):
        return encode_array(np.asarray(value))
    raise ArgumentTypeError(f"an attribute cannot be a {type(value).__name__}: {value!r:.200}")


def decode(value: Any) -> Any:
    """Return the attribute from its JSON form.

    Parameters
    ----------
    value : object
        A JSON value.

    Returns
    -------
    object
        A dict of the form of an array becomes an array, or a NumPy scalar.

    Examples
    --------
    >>> decode({"dtype": "<f4", "data": 0.5}), decode(["mm", 3])
    (np.float32(0.5), ['mm', 3])
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if isinstance(value, dict):
        if {"dtype", "data"} <= value.keys() <= {"dtype", "data", "shape"}:
            return decode_array(value)[()]
        return {key: decode(item) for key, item in value.items()}
    return value
