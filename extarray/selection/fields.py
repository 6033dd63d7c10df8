"""Names of fields as indices of an array of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from extarray.common.errors import ArgumentError, FieldError
from extarray.selection.query import Field

__all__ = ["Fields", "dtype_of_fields", "field_of", "names_of"]

#: A name gives the field alone, names give records of these fields; none: whole elements.
Fields: TypeAlias = str | Sequence[str] | None


def names_of(key: Any, dtype: np.dtype[Any]) -> Fields:
    """Return the key, where it is the name of a field or a list of names of a dtype."""
    if dtype.names is None:
        return None
    if isinstance(key, str):
        return key
    if isinstance(key, list) and key and all(isinstance(name, str) for name in key):
        return key
    return None


def field_of(dtype: np.dtype[Any], name: str) -> Field:
    """Find a field of a structured dtype."""
    if dtype.fields is None or name not in dtype.fields:
        raise FieldError(f"no field of name {name}")
    inner, offset = dtype.fields[name][:2]
    return Field(inner, offset)


def dtype_of_fields(dtype: np.dtype[Any], names: Sequence[str]) -> np.dtype[Any]:
    """Return the dtype that NumPy gives to some fields, where they are in the whole element."""
    for name in names:
        field_of(dtype, name)
    try:
        return np.empty((), dtype)[list(names)].dtype
    except ValueError as error:
        raise ArgumentError(str(error)) from None
