"""Values of attributes as JSON: plain where JSON has them, others with a tag.

A tagged value is an object whose ``"$type"`` names its type::

    {"$type": "tuple", "items": [1, 2]}
    {"$type": "date", "value": "2024-05-01"}
    {"$type": "array", "dtype": "<f4", "shape": [1], "base64": "AAAAPw=="}

Any object that is not exactly of one of these forms is a plain dict.  A dict with the key
``"$type"`` is written with its own tag, so it always comes back as a dict.
"""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentTypeError, DTypeError, LimitError
from extarray.common.limits import limits
from extarray.format.constants import TAG
from extarray.format.dtypes import check_dtype, decode_dtype, encode_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "check_key",
    "from_json",
    "missing_element",
    "missing_from_json",
    "missing_to_json",
    "plain_json",
    "to_json",
    "type_name",
]

# Format 2.0 also wrote arrays up to this many bytes as lists of numbers and strings.
_MOST_DATA = 1 << 16

_NONFINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# A year, then the rest of ISO 8601 in order; neither "now" nor time zones.
_DATE = re.compile(
    r"NaT|-?[0-9]{4,}(-[0-9]{2}(-[0-9]{2}(T[0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?)?)?)?"
)
_MALFORMED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


# -- to JSON ---------------------------------------------------------------------------------------


def to_json(value: Any, where: str) -> Any:
    """Return the JSON form of a value; `where` names the value in messages.

    Raise ArgumentTypeError for a value without a form.

    Examples
    --------
    >>> to_json([1, "mm", None], "a"), to_json((1, 2), "a")
    ([1, 'mm', None], {'$type': 'tuple', 'items': [1, 2]})
    >>> to_json(np.float32(0.5), "a")
    {'$type': 'scalar', 'dtype': '<f4', 'shape': [], 'base64': 'AAAAPw=='}
    """
    kind = type(value)
    if value is None or kind in (bool, str, int) or (kind is float and math.isfinite(value)):
        return value
    encode = _ENCODERS.get(kind)
    if encode is None:
        if isinstance(value, (int, float)) and not isinstance(value, np.generic):
            return to_json(int(value) if isinstance(value, int) else float(value), where)
        if isinstance(value, str) and not isinstance(value, np.str_):
            return str.__str__(value)  # not str(value), which for an enumeration is the name
        # Other subclasses come back as their base class; not subclasses of arrays, dates and
        # times, which hold more.
        bases = (np.generic, complex, bytes, list, dict, tuple)
        base = next((base for base in bases if isinstance(value, base)), None)
        if base is None:
            raise ArgumentTypeError(
                f"attribute {where} is of type {type_name(value)}; use None, numbers, str, bytes, "
                "dates and times, NumPy scalars and arrays, or lists, tuples and dicts of these: "
                f"{_advice(value)}"
            )
        encode = _ENCODERS[base]
    return encode(value, where)


def type_name(value: Any) -> str:
    """Return the name of a value's type, with its module."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _advice(value: Any) -> str:
    """Return how to turn a value into one that is accepted."""
    if isinstance(value, np.ndarray):
        return "give np.asarray() of it"
    if isinstance(value, (bytearray, memoryview)):
        return "give bytes() of it"
    if isinstance(value, (date, time)):
        return "give its .isoformat()"
    if isinstance(value, Iterable):
        return "give a list of it"
    return "convert it to one of these"


def check_key(key: Any, where: str) -> None:
    """Refuse a key that is not a string."""
    if not isinstance(key, str):
        raise ArgumentTypeError(
            f"the key {key!r} of {where} is of type {type_name(key)}; use a str"
        )


def _encode_list(value: list[Any], where: str) -> Any:
    return [to_json(item, f"{where}[{i}]") for i, item in enumerate(value)]


def _encode_tuple(value: tuple[Any, ...], where: str) -> Any:
    return {TAG: "tuple", "items": _encode_list(list(value), where)}


def _encode_dict(value: dict[Any, Any], where: str) -> Any:
    for key in value:
        check_key(key, where)
    plain = {key: to_json(item, f"{where}[{key!r}]") for key, item in value.items()}
    return {TAG: "dict", "items": list(map(list, plain.items()))} if TAG in plain else plain


def _number(value: float) -> Any:
    """Return a floating-point number, as a string if JSON has no such number."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _encode_array(value: NDArray[Any], where: str) -> Any:
    return {TAG: "array", **_array_form(value, where)}


def _encode_scalar(value: np.generic, where: str) -> Any:
    return {TAG: "scalar", **_array_form(np.asarray(value), where)}


def _array_form(x: NDArray[Any], where: str) -> dict[str, Any]:
    """Return dtype, shape and elements of an array."""
    try:
        dtype = encode_dtype(check_dtype(x.dtype))
    except DTypeError as error:
        raise ArgumentTypeError(f"attribute {where}: {error}; or give its .tolist()") from None
    if x.nbytes > limits.attrs_bytes:
        raise LimitError(f"attribute {where} has {x.nbytes} bytes: keep large data in arrays")
    return {"dtype": dtype, "shape": list(x.shape), "base64": _encode_base64(x.tobytes())}


def _encode_base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


_ENCODERS: dict[type, Callable[[Any, str], Any]] = {
    list: _encode_list,
    dict: _encode_dict,
    tuple: _encode_tuple,
    float: lambda value, _: {TAG: "float", "value": _number(value)},
    complex: lambda value, _: {
        TAG: "complex",
        "value": [_number(value.real), _number(value.imag)],
    },
    bytes: lambda value, _: {TAG: "bytes", "base64": _encode_base64(value)},
    datetime: lambda value, _: {TAG: "datetime", "value": value.isoformat()},
    date: lambda value, _: {TAG: "date", "value": value.isoformat()},
    time: lambda value, _: {TAG: "time", "value": value.isoformat()},
    timedelta: lambda value, _: {
        TAG: "timedelta",
        "value": [value.days, value.seconds, value.microseconds],
    },
    np.ndarray: _encode_array,
    np.memmap: _encode_array,
    np.generic: _encode_scalar,
}


# -- from JSON -------------------------------------------------------------------------------------


def from_json(value: Any) -> Any:
    """Return the value of a JSON form.

    Examples
    --------
    >>> from_json([1, {"$type": "tuple", "items": [1, 2]}])
    [1, (1, 2)]

    A dict that does not match a form to the letter stays a dict:

    >>> from_json({"$type": "date", "value": "today"})
    {'$type': 'date', 'value': 'today'}
    """
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if TAG in value:
        kind = value[TAG]
        keys, decode = _DECODERS.get(kind if isinstance(kind, str) else "", ((), None))
        if decode is not None and set(value) - {TAG} in keys:
            try:
                return decode(value)
            except _MALFORMED:
                pass
    return {key: from_json(item) for key, item in value.items()}


def _decode_tuple(form: dict[str, Any]) -> Any:
    return tuple(from_json(_of_type(form["items"], list)))


def _decode_dict(form: dict[str, Any]) -> Any:
    pairs = _of_type(form["items"], list)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ValueError("no pairs")
    keys = [_of_type(key, str) for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError("a key twice")
    return {key: from_json(item) for key, item in pairs}


def _of_type(value: Any, kind: type) -> Any:
    """Return a value if it is exactly of a type."""
    if type(value) is not kind:
        raise TypeError(type(value))
    return value


def _of_number(value: Any) -> float:
    """Return the floating-point number that `_number` encoded."""
    if isinstance(value, str):
        return _NONFINITE[value]
    return float(value if type(value) is int else _of_type(value, float))


def _decode_float(form: dict[str, Any]) -> Any:
    return _NONFINITE[form["value"]]


def _decode_complex(form: dict[str, Any]) -> Any:
    real, imaginary = _of_type(form["value"], list)
    return complex(_of_number(real), _of_number(imaginary))


def _decode_bytes(form: dict[str, Any]) -> Any:
    return _decode_base64(form["base64"])


def _decode_base64(text: Any) -> bytes:
    data = binascii.a2b_base64(_of_type(text, str))
    if _encode_base64(data) != text:
        raise ValueError("not valid base64")
    return data


def _exactly(result: Any, text: Any, given: Any) -> Any:
    """Return a result if its form is exactly the given one, not another with the same meaning."""
    if text != given:
        raise ValueError(f"{given} is {text}")
    return result


def _decode_moment(kind: Any) -> Callable[[dict[str, Any]], Any]:
    """Return the function that decodes dates or times of a type."""

    def decode(form: dict[str, Any]) -> Any:
        result = kind.fromisoformat(form["value"])
        return _exactly(result, result.isoformat(), form["value"])

    return decode


def _decode_timedelta(form: dict[str, Any]) -> Any:
    days, seconds, microseconds = (_of_type(n, int) for n in _of_type(form["value"], list))
    result = timedelta(days, seconds, microseconds)
    parts = [result.days, result.seconds, result.microseconds]
    return _exactly(result, parts, form["value"])


def _array(form: dict[str, Any]) -> NDArray[Any]:
    """Return the array of a form, unless it is much larger than the form."""
    dtype = decode_dtype(form["dtype"])
    if "base64" in form:
        shape, data = _of_type(form["shape"], list), _decode_base64(form["base64"])
        if not all(_of_type(n, int) >= 0 for n in shape):
            raise ValueError("a negative extent")
        if math.prod(shape) * dtype.itemsize != len(data):
            raise ValueError("not the bytes of such an array")
        return np.ndarray(shape, dtype, data).copy()
    if not isinstance(form["dtype"], str) or dtype.kind == "V":
        raise ValueError("elements that cannot be written as lists")
    x = np.array(form["data"], object)
    values, extents = x.ravel().tolist(), x.shape
    if not 0 < len(values) * dtype.itemsize <= _MOST_DATA * (2 if dtype.kind == "c" else 1):
        raise ValueError("such an array cannot be written as lists")
    if dtype.kind == "c":
        if extents[-1] != 2:
            raise ValueError("a complex number needs two parts")
        pairs = _elements(values, np.dtype(np.float64)).reshape(-1, 2)
        result: NDArray[Any] = pairs.view(np.complex128)
        extents = extents[:-1]
    else:
        result = _elements(values, dtype)
    with np.errstate(over="ignore"):
        return result.astype(dtype).reshape(extents)


def _elements(values: list[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return elements of a dtype, in native byte order, from numbers and strings."""
    kind, native = dtype.kind, dtype.newbyteorder("=")
    if kind == "f":
        return np.array([_of_number(value) for value in values], np.float64)
    types = {"b": bool, "i": int, "u": int, "m": int}
    for value in values:
        _of_type(value, types.get(kind, str))
    if kind == "m":
        return np.array(values, np.int64).view(native)
    if kind in "US":
        texts = [value.encode("latin-1") for value in values] if kind == "S" else values
        if max(map(len, texts), default=0) > dtype.itemsize // (4 if kind == "U" else 1):
            raise ValueError("a string that is too long")
        return np.array(texts, native)
    if kind == "M" and not all(map(_DATE.fullmatch, values)):
        raise ValueError("no date")
    result = np.array(values, native)
    if result.dtype != native:
        raise ValueError("dates of another unit")
    return result


def _decode_scalar(form: dict[str, Any]) -> Any:
    x = _array(form)
    if x.ndim:
        raise ValueError("not one element")
    return x[()]


_Decoder = tuple[tuple[set[str], ...], "Callable[[dict[str, Any]], Any]"]
_OF_ARRAY = ({"dtype", "data"}, {"dtype", "shape", "base64"})
_DECODERS: dict[str, _Decoder] = {
    "tuple": (({"items"},), _decode_tuple),
    "dict": (({"items"},), _decode_dict),
    "float": (({"value"},), _decode_float),
    "complex": (({"value"},), _decode_complex),
    "bytes": (({"base64"},), _decode_bytes),
    "datetime": (({"value"},), _decode_moment(datetime)),
    "date": (({"value"},), _decode_moment(date)),
    "time": (({"value"},), _decode_moment(time)),
    "timedelta": (({"value"},), _decode_timedelta),
    "array": (_OF_ARRAY, _array),
    "scalar": (_OF_ARRAY, _decode_scalar),
}


# -- JSON without tags ---------------------------------------------------------------------------


def plain_json(value: Any) -> Any:
    """Return a value as JSON without tags: NumPy's numbers and arrays as numbers and lists.

    Raises
    ------
    ArgumentTypeError
        A TypeError: JSON has no such value.

    Examples
    --------
    >>> plain_json(np.arange(3, dtype="i1")), plain_json(np.float32(0.5)), plain_json(("x", None))
    ([0, 1, 2], 0.5, ['x', None])
    """
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufU":
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain_json(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain_json(item) for key, item in value.items()}
    is_number = isinstance(value, float) and math.isfinite(value)
    if value is None or is_number or isinstance(value, (bool, int, str)):
        return value
    raise ArgumentTypeError(f"JSON cannot represent a {type_name(value)} such as {value!r:.40}")


#: Kinds of numbers that may denote missing elements of a kind.
_NUMBERS = {"i": "iu", "u": "iu", "f": "iuf", "c": "iufc"}


def missing_element(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the element that an attribute ``_FillValue`` denotes in a dtype; None: no element.

    Examples
    --------
    >>> missing_element([-1], np.dtype("i2")), missing_element(np.nan, np.dtype("i2"))
    (np.int16(-1), None)
    """
    said = np.asarray(value)
    if said.size != 1 or said.dtype.kind not in _NUMBERS.get(dtype.kind, dtype.kind):
        return None
    with np.errstate(over="ignore"):
        found = said.astype(dtype).reshape(())[()]
    return None if dtype.kind in "iu" and found != said else found


def missing_to_json(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the attribute ``_FillValue`` of Zarr 3 in xarray's form: floats in base64.

    Raises
    ------
    ArgumentTypeError
        A TypeError: there is no such form.

    Examples
    --------
    >>> missing_to_json(np.nan, np.dtype("f4")), missing_to_json(np.int16(-1), np.dtype("i2"))
    ('AAAAAAAA+H8=', -1)
    """
    found = missing_element(value, dtype)
    if found is None or dtype.kind not in "biufc":
        raise ArgumentTypeError(
            f"Zarr 3 cannot represent such a value for missing elements of {dtype}"
        )
    if dtype.kind == "c":
        return [_double_to_text(found.real), _double_to_text(found.imag)]
    return _double_to_text(found) if dtype.kind == "f" else found.item()


def missing_from_json(value: Any, dtype: np.dtype[Any]) -> Any:
    """Decode a result of `missing_to_json`; return a value of any other form as it is.

    Examples
    --------
    >>> missing_from_json("AAAAAAAA+H8=", np.dtype("f4")), missing_from_json(-1, np.dtype("i2"))
    (np.float32(nan), np.int16(-1))
    """
    number = value
    try:
        if dtype.kind == "c" and isinstance(value, list):
            number = complex(*map(_text_to_double, value))
        elif dtype.kind == "f" and isinstance(value, str):
            number = _text_to_double(value)
    except _MALFORMED:
        return value
    found = missing_element(number, dtype) if isinstance(number, (int, float, complex)) else None
    return value if found is None else found


def _double_to_text(value: float) -> str:
    return _encode_base64(np.array(value, "<f8").tobytes())


def _text_to_double(text: str) -> float:
    (value,) = np.frombuffer(_decode_base64(text), "<f8")
    return float(value)
