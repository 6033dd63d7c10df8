"""Storable data types, and their descriptions in JSON."""

from __future__ import annotations

import contextlib
import functools
import re
import reprlib
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentError, DTypeError, FormatError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_dtype", "clear_open_bytes", "decode_dtype", "encode_dtype"]

# Deepest nesting of records and sub-arrays; NumPy, for example, prints types recursively.
_DEEPEST = 32
# Descriptions of types without parts; those of most arrays are told without a pattern, which takes
# as long to compile as all else that opening an array does.
_NUMBERS = {
    "|b1", "|i1", "|u1", *(f"<{kind}{n}" for kind in "iu" for n in (2, 4, 8)),
    "<f2", "<f4", "<f8", "<c8", "<c16",
}  # fmt: skip
_TYPE_STRING = (
    r"\|(b1|[iu]1|[SV](0|[1-9][0-9]*))"
    r"|[<>]([iu][248]|f[248]|c(8|16)|U(0|[1-9][0-9]*))"
    r"|[<>][Mm]8(\[([1-9][0-9]*)?(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?"
)
# Longer floats depend on the machine: the type string alone does not tell their format.
_LONG_STRING = r"[<>](f(12|16)|c(24|32))"
# Required and optional keys of objects.
_OF_RECORD = {"fields", "itemsize", "aligned"}, {"base"}
_OF_FIELD = {"name", "type", "offset"}, {"title"}
_OF_EXTENSION = {"extension", "itemsize"}, set[str]()
_OF_LONG = {"longdouble", "digits"}, set[str]()


def check_dtype(dtype: Any) -> np.dtype[Any]:
    """Return a data type that can be stored.

    Raise DTypeError if elements have no fixed size, or size 0; ArgumentError for a sub-array type,
    whose elements would add axes.
    """
    result = _understood(dtype)
    if result.hasobject or result.char == "T":
        raise DTypeError(
            f"elements of {result} have no fixed size in bytes; use fixed-length bytes or strings "
            "('S20', 'U20'), numbers, or records of these"
        )
    if result.subdtype is not None:
        base, inner = result.subdtype
        raise ArgumentError(
            f"{result} is a subarray type; use dtype {base} and append {inner} to the shape"
        )
    if result.isbuiltin == 2 and not result.isnative:
        raise DTypeError(
            f"{result.newbyteorder('=')} is stored in this machine's byte order only; use "
            "newbyteorder('=')"
        )
    if result.itemsize == 0:
        raise DTypeError(f"elements of {result!r} have 0 bytes; give a length, e.g. 'S20'")
    if _depth(result) > _DEEPEST:
        raise DTypeError(
            f"records or subarrays are nested more than {_DEEPEST} deep; flatten the type"
        )
    if _has_swapped_units(result):
        raise DTypeError(
            "NumPy does not swap the bytes of dates without a unit, which would corrupt elements "
            f"of {result}; use native byte order (x.byteswap().view('m8') of an array x), or a "
            "unit such as '>m8[s]'"
        )
    return result


def clear_open_bytes(values: NDArray[Any]) -> None:
    """Write zero to the bytes beside each long double of x86, which NumPy leaves as they are.

    Parameters
    ----------
    values : ndarray
        Of one axis or more; it is changed in place.

    Examples
    --------
    >>> values = np.zeros(1, "g")
    >>> values[0] = np.longdouble(0)
    >>> clear_open_bytes(values)
    >>> any(values.tobytes())
    False
    """
    if values.dtype.names is not None:
        for name in values.dtype.names:
            clear_open_bytes(values[name])
    elif values.dtype.char in "gG" and np.finfo("g").nmant == 63:  # 10 bytes of 12 or 16
        numbers = values[..., None].view("g")[..., None].view(np.uint8)
        if values.dtype.isnative:
            numbers[..., 10:] = 0
        else:
            numbers[..., :-10] = 0


def _understood(dtype: Any) -> np.dtype[Any]:
    """Return the dtype that NumPy understands, including names that `ml_dtypes` adds."""
    understood: np.dtype[Any]
    try:
        understood = np.dtype(dtype)
        return understood
    except (TypeError, ValueError, SyntaxError) as error:
        problem = str(error)
    from extarray.common.extras import require

    try:
        require("ml_dtypes", "dtypes", "a name such as 'bfloat16'")
        understood = np.dtype(dtype)
        return understood
    except (TypeError, ValueError, SyntaxError) as error:
        problem = str(error)
    except ImportError as error:
        problem = f"{problem}; {error}"
    raise DTypeError(f"{dtype!r} is not a data type: {problem}")


def _depth(dtype: np.dtype[Any]) -> int:
    """Return how many types surround the innermost; stop counting beyond the limit."""
    depth, level = -1, [dtype]
    while level and depth <= _DEEPEST:
        parts = [part for outer in level for part in _parts(outer)]
        level = list({id(part): part for part in parts}.values())
        depth += 1
    return depth


def _has_swapped_units(dtype: np.dtype[Any]) -> bool:
    """Tell whether a type is or has a date without a unit in the other byte order."""
    if dtype.kind in "mM":
        return not dtype.isnative and np.datetime_data(dtype)[0] == "generic"
    return any(map(_has_swapped_units, _parts(dtype)))


def _parts(dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    """Return the types of the parts of a record or a sub-array."""
    if dtype.subdtype is not None:
        return [dtype.subdtype[0]]
    return [entry[0] for entry in (dtype.fields or {}).values()]


def encode_dtype(dtype: np.dtype[Any]) -> Any:
    """Return the JSON value that describes a data type.

    A type string such as ``"<f8"``; ``[type, [extents]]`` for a sub-array; a dict for a structured
    type; ``{"extension": name, "itemsize": n}`` for a type from another package;
    ``{"longdouble": type string, "digits": n}`` for floats whose format depends on the machine.

    Examples
    --------
    >>> encode_dtype(np.dtype("u2"))
    '<u2'
    """
    if dtype.subdtype is not None:
        base, extents = dtype.subdtype
        return [encode_dtype(base), list(extents)]
    if dtype.fields is not None:
        assert dtype.names is not None
        fields = []
        for name in dtype.names:
            entry = dtype.fields[name]
            field = {"name": name, "type": encode_dtype(entry[0]), "offset": int(entry[1])}
            if len(entry) > 2 and isinstance(entry[2], str):
                field["title"] = entry[2]
            fields.append(field)
        record = {"fields": fields, "itemsize": dtype.itemsize, "aligned": dtype.isalignedstruct}
        if dtype.type is not np.void:  # a number with named parts
            extension = np.dtype(dtype.type)
            base = extension if extension.isbuiltin == 2 else np.dtype(dtype.str)
            record["base"] = encode_dtype(base)
        return record
    if dtype.isbuiltin == 2:
        return {"extension": dtype.name, "itemsize": dtype.itemsize}
    if dtype.str not in _NUMBERS and re.fullmatch(_LONG_STRING, dtype.str):
        return {"longdouble": dtype.str, "digits": _long_digits()}
    return dtype.str


def _long_digits() -> int:
    """Return the binary digits of this machine's `long double`: 64 on x86, 113 on others."""
    return int(np.finfo(np.longdouble).nmant) + 1


def decode_dtype(value: Any) -> np.dtype[Any]:
    """Return the data type that `encode_dtype` described.

    Raise FormatError for anything else, or a type that this machine lacks.

    Examples
    --------
    >>> decode_dtype("<u2")
    dtype('uint16')
    """
    try:
        return _of_type_string(value) if isinstance(value, str) else check_dtype(_decoded(value, 0))
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        problem = str(error)
    raise FormatError(
        f"the data type {reprlib.repr(value)} is not supported on this machine: {problem}"
    )


@functools.lru_cache(maxsize=256)
def _of_type_string(value: str) -> np.dtype[Any]:
    """Return the data type of a type string; cached, as it has no parts that could be renamed."""
    return check_dtype(_decoded(value, 0))


def _decoded(value: Any, depth: int) -> np.dtype[Any]:
    """Return the data type of a description, or of a part at this depth of one."""
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(value, str):
        if value not in _NUMBERS and not re.fullmatch(_TYPE_STRING, value):
            raise ValueError("it is not a type string")
        return np.dtype(value)
    if isinstance(value, list):
        base, extents = value
        if not extents or not all(type(n) is int and n >= 0 for n in extents):
            raise ValueError("a subarray needs extents")  # NumPy would accept other lists
        return np.dtype((_decoded(base, depth + 1), tuple(extents)))
    if "longdouble" in value:
        return _long_dtype(value)
    if "extension" in value:
        return _extension_dtype(value)
    return _record_dtype(value, depth)


def _check_keys(value: dict[str, Any], keys: tuple[set[str], set[str]]) -> None:
    """Raise if an object lacks a key, or has an unknown one, which could mean anything."""
    needed, possible = keys
    if not needed <= set(value) <= needed | possible:
        raise ValueError(f"it has the keys {sorted(value)}, which do not describe a type")


def _record_dtype(value: dict[str, Any], depth: int) -> np.dtype[Any]:
    _check_keys(value, _OF_RECORD)
    fields = value["fields"]
    for field in fields:
        _check_keys(field, _OF_FIELD)
    description = {
        "names": [field["name"] for field in fields],
        "formats": [_decoded(field["type"], depth + 1) for field in fields],
        "offsets": [field["offset"] for field in fields],
        "itemsize": value["itemsize"],
    }
    titles = [field["title"] for field in fields if "title" in field]
    if titles:
        if not all(isinstance(title, str) for title in titles):
            raise TypeError("a title must be a string")
        description["titles"] = [field.get("title") for field in fields]
    if not isinstance(value["aligned"], bool):
        raise TypeError("aligned must be true or false")
    parts = np.dtype(description)  # type: ignore[call-overload]
    if "base" in value:
        base = _decoded(value["base"], depth + 1)
        if base.type is np.void or "fields" in value["base"]:
            raise ValueError("its base is neither a number nor a string")
        return np.dtype((base, parts))
    if value["aligned"]:
        with contextlib.suppress(ValueError):  # alignment depends on the machine
            parts = np.dtype(description, align=True)  # type: ignore[call-overload]
    return parts  # type: ignore[no-any-return]


def _long_dtype(value: dict[str, Any]) -> np.dtype[Any]:
    _check_keys(value, _OF_LONG)
    if not re.fullmatch(_LONG_STRING, value["longdouble"]):
        raise ValueError("it is not a long double")
    found: np.dtype[Any] = np.dtype(value["longdouble"])
    if value["digits"] != _long_digits():
        raise ValueError(
            f"a long double has {_long_digits()} binary digits here, and {value['digits']} there"
        )
    return found


def _extension_dtype(value: dict[str, Any]) -> np.dtype[Any]:
    _check_keys(value, _OF_EXTENSION)
    name = value["extension"]
    if not isinstance(name, str):
        raise TypeError("the name of an extension must be a string")
    try:
        with warnings.catch_warnings():  # a file may contain any name, even a deprecated one
            warnings.simplefilter("ignore", DeprecationWarning)
            found: np.dtype[Any] = np.dtype(name)
    except TypeError:
        from extarray.common.extras import require

        found = np.dtype(getattr(require("ml_dtypes", "dtypes"), name))
    if found.isbuiltin != 2:
        raise ValueError("it is not a type of another package")
    if found.itemsize != value["itemsize"]:
        raise ValueError(f"it has {found.itemsize} bytes here")
    return found
