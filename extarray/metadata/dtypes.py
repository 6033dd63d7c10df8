"""Data types that can be stored, and their descriptions in JSON."""

from __future__ import annotations

import re
import reprlib
import warnings
from typing import Any

import numpy as np

from extarray.errors import ArgumentError, DTypeError, FormatError

__all__ = ["check_dtype", "decode_dtype", "encode_dtype"]

# Records in records; printing NumPy's types, say, is recursive.
_DEEPEST = 32
# What a description of a data type says of a type without parts.
_TYPE_STRING = re.compile(r"[<>|][biufcSUVMm][0-9]+(\[[0-9]*[A-Za-z]+\])?")


def check_dtype(dtype: Any) -> np.dtype[Any]:
    """A data type that can be stored.

    Parameters
    ----------
    dtype : dtype_like

    Returns
    -------
    dtype

    Raises
    ------
    DTypeError
        A TypeError: no fixed size, or itemsize 0.
    ArgumentError
        A ValueError: a sub-array type, whose elements would add axes.
    """
    result = _understood(dtype)
    if result.hasobject or result.char == "T":
        raise DTypeError(
            f"elements of {result} have no fixed size in bytes; use fixed-length bytes or text "
            "('S20', 'U20'), numbers, or records of these"
        )
    if result.subdtype is not None:
        base, inner = result.subdtype
        raise ArgumentError(
            f"{result} is a sub-array type; use dtype {base} and append {inner} to the shape"
        )
    if result.isbuiltin == 2 and not result.isnative:
        raise DTypeError(
            f"{result.newbyteorder('=')} is stored in this machine's byte order only; use "
            "newbyteorder('=')"
        )
    if result.itemsize == 0:
        raise DTypeError(f"elements of {result!r} have 0 bytes; give a length, e.g. 'S20'")
    if _depth(result) > _DEEPEST:
        raise DTypeError(f"a type of records in records, deeper than {_DEEPEST}; make it flatter")
    return result


def _understood(dtype: Any) -> np.dtype[Any]:
    """What NumPy understands, and the names that it knows as soon as `ml_dtypes` is imported."""
    understood: np.dtype[Any]
    try:
        understood = np.dtype(dtype)
        return understood
    except TypeError as error:
        problem = str(error)
    from extarray.extras import require

    try:
        require("ml_dtypes", "dtypes", "a name such as 'bfloat16'")
        understood = np.dtype(dtype)
        return understood
    except TypeError as error:
        problem = str(error)
    except ImportError as error:
        problem = f"{problem}; {error}"
    raise DTypeError(f"{dtype!r} is no data type: {problem}")


def _depth(dtype: np.dtype[Any]) -> int:
    """How deep records are nested, not counted far beyond what is allowed."""
    depth, level = 0, [dtype]
    while level and depth <= _DEEPEST:
        below = [part.base.fields for part in level if part.base.fields is not None]
        level = list(
            {id(entry[0]): entry[0] for fields in below for entry in fields.values()}.values()
        )
        depth += 1
    return depth


def encode_dtype(dtype: np.dtype[Any]) -> Any:
    """JSON value that describes a data type.

    Parameters
    ----------
    dtype : dtype

    Returns
    -------
    str, list or dict
        A type string such as ``"<f8"``; ``[type, [extents]]`` for a sub-array; a dict for a
        structured type; ``{"extension": name, "itemsize": n}`` for a type from another package.

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
        if dtype.type is not np.void:
            record["base"] = dtype.str  # a number whose parts have names
        return record
    if dtype.isbuiltin == 2:
        return {"extension": dtype.name, "itemsize": dtype.itemsize}
    return dtype.str


def decode_dtype(value: Any) -> np.dtype[Any]:
    """Data type from its description.

    Parameters
    ----------
    value : str, list or dict
        What `encode_dtype` returned.

    Returns
    -------
    dtype

    Raises
    ------
    FormatError
        A ValueError: not a description, or a type that this machine does not have.

    Examples
    --------
    >>> decode_dtype("<u2")
    dtype('uint16')
    """
    try:
        return check_dtype(_decoded(value, 0))
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        problem = str(error)
    raise FormatError(
        f"the data type {reprlib.repr(value)} is not known on this machine: {problem}"
    )


def _decoded(value: Any, depth: int) -> np.dtype[Any]:
    """Data type of a description, or of a part of one that lies so deep in it."""
    if depth > 2 * _DEEPEST:  # a list for each record, where there are sub-arrays
        raise ValueError("it is nested too deeply")
    if isinstance(value, str):
        if not _TYPE_STRING.fullmatch(value):
            raise ValueError("it is no type string")
        return np.dtype(value)
    if isinstance(value, list):
        base, extents = value
        return np.dtype((_decoded(base, depth + 1), tuple(extents)))
    if "extension" in value:
        return _extension_dtype(value["extension"])
    fields = value["fields"]
    titles = [field.get("title") for field in fields]
    description = {
        "names": [field["name"] for field in fields],
        "formats": [_decoded(field["type"], depth + 1) for field in fields],
        "offsets": [field["offset"] for field in fields],
        "itemsize": value["itemsize"],
    }
    if any(title is not None for title in titles):
        if not all(title is None or isinstance(title, str) for title in titles):
            raise TypeError("a title is a text")
        description["titles"] = titles
    if "base" in value:
        parts = np.dtype(description)  # type: ignore[call-overload]
        return np.dtype((_decoded(value["base"], depth + 1), parts))
    return np.dtype(description, align=bool(value["aligned"]))  # type: ignore[call-overload, no-any-return]


def _extension_dtype(name: Any) -> np.dtype[Any]:
    if not isinstance(name, str):
        raise TypeError("the name of an extension is a text")
    try:
        with warnings.catch_warnings():  # a file may give any name, also one that NumPy would drop
            warnings.simplefilter("ignore", DeprecationWarning)
            found: np.dtype[Any] = np.dtype(name)
    except TypeError:
        from extarray.extras import require

        found = np.dtype(getattr(require("ml_dtypes", "dtypes"), name))
    if found.isbuiltin != 2:
        raise ValueError("it is no type of another package")
    return found
