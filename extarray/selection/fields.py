"""Names of fields as indices of an array of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from extarray.common.errors import ArgumentError, FieldError
from extarray.selection.query import Field

__all__ = ["Fields", "dtype_of_fields", "field_of", "has_gaps", "split_names"]

#: One name selects the field alone, several names records of these fields, None whole elements.
Fields: TypeAlias = str | Sequence[str] | None


def split_names(key: Any, dtype: np.dtype[Any]) -> tuple[Any, Fields]:
    """Split an index into the index without names of fields, and the names.

    Names stand alone, as in NumPy, or anywhere among other entries, as in h5py.

    Examples
    --------
    >>> point = np.dtype([("x", "f4"), ("y", "f4")])
    >>> split_names("x", point), split_names((2, ["y", "x"]), point), split_names(("x", "y"), point)
    ((Ellipsis, 'x'), ((2,), ['y', 'x']), ((), ['x', 'y']))
    """
    if dtype.names is None:
        return key, None
    if _is_names(key):
        return ..., key
    if type(key) is not tuple or len(key) < 2:  # NumPy refuses a tuple of one name
        return key, None
    found = [item for item in key if _is_names(item)]
    if not found:
        return key, None
    rest = tuple([item for item in key if not _is_names(item)])
    if len(found) == 1:
        return rest, found[0]
    return rest, [name for item in found for name in ([item] if isinstance(item, str) else item)]


def _is_names(item: Any) -> bool:
    """Tell whether an entry of an index is the name of a field, or a list of names."""
    return isinstance(item, str) or (
        isinstance(item, list) and bool(item) and all(isinstance(name, str) for name in item)
    )


def field_of(dtype: np.dtype[Any], name: str) -> Field:
    """Find a field of a structured dtype."""
    if dtype.fields is None or name not in dtype.fields:
        raise FieldError(f"no field of name {name}")
    inner, offset = dtype.fields[name][:2]
    return Field(inner, offset)


def dtype_of_fields(dtype: np.dtype[Any], names: Sequence[str]) -> np.dtype[Any]:
    """Return the dtype of some fields as NumPy makes it, with their offsets in the element."""
    for name in names:
        field_of(dtype, name)
    try:
        return np.empty((), dtype)[list(names)].dtype
    except ValueError as error:
        raise ArgumentError(str(error)) from None


def has_gaps(dtype: np.dtype[Any]) -> bool:
    """Tell whether a record has bytes between its fields, or behind the last."""
    if dtype.fields is None:
        return False
    return dtype.itemsize > sum(inner.itemsize for inner, *_ in dtype.fields.values())
