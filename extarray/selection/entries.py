"""Entries of an index: their kinds, and errors for anything else."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from extarray._core._lists import in_bounds
from extarray.common.errors import ArgumentError, BoundsError, SelectionError
from extarray.streaming.blocks import Source

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    Shape: TypeAlias = tuple[int, ...]
    Indices: TypeAlias = NDArray[np.intp]

__all__ = [
    "as_item",
    "check_bounds",
    "is_array",
    "is_source",
    "n_axes",
    "numpys_error",
    "parse",
    "refusal",
]


def parse(key: Any) -> list[Any]:
    """Convert all entries between the brackets, as `as_item` does."""
    return [as_item(item) for item in (key if isinstance(key, tuple) else (key,))]


def as_item(item: Any) -> Any:
    """Convert an entry between the brackets to a kind that queries are made of.

    The kinds are int, slice, None, Ellipsis, and arrays of intp or booleans, ours if they are
    masks; NotImplemented stands for anything else.
    """
    if item is None or item is ... or isinstance(item, slice):
        return item
    if isinstance(item, (bool, np.bool_)):
        return np.asarray(item)
    if is_source(item):
        if item.dtype.kind == "b" and item.ndim > 0:
            return item
        item = np.asarray(item)
    if not isinstance(item, np.ndarray):
        if not isinstance(item, (list, tuple)):
            try:
                return operator.index(item)
            except TypeError:
                pass
        try:
            item = np.asarray(item)
        except ValueError:
            return NotImplemented
        if item.size == 0:
            item = item.astype(np.intp)
    if item.dtype.kind == "b":
        return item
    if item.dtype.kind not in "iu":
        return NotImplemented
    return int(item) if item.ndim == 0 else item.astype(np.intp, copy=False)


def is_source(item: Any) -> bool:
    """Tell whether an object is one of our arrays, which are read box by box."""
    return isinstance(item, Source)


def is_array(item: Any) -> bool:
    """Tell whether an entry is an array of NumPy's, or a mask of ours."""
    return isinstance(item, np.ndarray) or is_source(item)


def n_axes(item: Any) -> int:
    """Return how many axes of the array an entry takes; 0 for Ellipsis, which takes the rest."""
    if item is None or item is ...:
        return 0
    if is_array(item) and item.dtype.kind == "b":
        return int(item.ndim)
    return 1


def numpys_error(key: Any, shape: Shape, dtype: DTypeLike) -> Exception | None:
    """Return NumPy's error for an index, in our family; None if NumPy accepts the index."""
    empty = np.broadcast_to(np.empty((), dtype), shape)
    try:
        if isinstance(key, tuple):
            empty[tuple(map(_stand_in, key))]
        else:
            empty[_stand_in(key)]
    except IndexError as error:
        text = str(error)
        beyond = "out of bounds" in text or text.startswith(("too many indices", "number of dim"))
        return BoundsError(text) if beyond else SelectionError(text)
    except ValueError as error:  # lists of lists of different lengths
        return ArgumentError(str(error))
    return None


def refusal(key: Any, shape: Shape, dtype: DTypeLike) -> Exception:
    """Return the error for an invalid index: NumPy's, in our family, if it has one."""
    return numpys_error(key, shape, dtype) or SelectionError(
        "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
        "boolean arrays are valid indices"
    )


def _stand_in(item: Any) -> Any:
    """Replace a mask of ours by one of its shape, as an error does not depend on its elements."""
    if is_source(item) and item.dtype.kind == "b":
        return np.broadcast_to(np.False_, item.shape)
    return item


def check_bounds(indices: Indices, axis: int, extent: int) -> None:
    """Raise NumPy's error if an index is out of bounds."""
    if not in_bounds(indices, extent):
        wrong = indices[(indices < -extent) | (indices >= extent)].flat[0]
        raise BoundsError(f"index {wrong} is out of bounds for axis {axis} with size {extent}")
