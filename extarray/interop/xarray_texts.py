"""Texts some of which are missing: the text that stands for these, and the attribute that names it.

xarray has None or NaN among texts in arrays of objects, which files cannot hold, and writes them as
empty texts, unless the encoding has a marker.  The attribute is ``"missing_value"``, since xarray
reads and writes it for texts in every format; it refuses ``"_FillValue"`` in some.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentError, CastingError
from extarray.common.extras import require
from extarray.format.missing import TEXT_MARKERS, marker_of, marks_missing
from extarray.interop.xarray_tasks import is_late

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

__all__ = [
    "as_texts",
    "has_missing",
    "marked",
    "new_marker",
    "without_missing",
]

xr: Any = require("xarray", "xarray", "the xarray backend")
duck_arrays: Any = require("xarray.core.duck_array_ops", "xarray")

#: Markers by the kind of dtype: a character that Unicode keeps free, and a byte outside of UTF-8.
MARKERS: dict[str, str | bytes] = {"U": "\uffff", "S": b"\xff"}


def as_texts(variable: Any, name: Any, is_text: bool = False) -> tuple[Any, NDArray[np.bool_]]:
    """Return a variable with texts as objects, and where they are missing.

    All others are returned as they are, with nothing missing.  With `is_text`, a variable all of
    whose entries are missing has texts.

    Raises
    ------
    ArgumentError
        A ValueError: texts and byte strings, and some are missing.
    """
    nothing = np.zeros((), bool)
    if variable.dtype.kind not in "TO":
        return variable, nothing
    if is_late(variable):
        warnings.warn(
            f"variable {name!r} is a dask array with dtype=object, which is computed as a whole to "
            "see what its objects are; give it a dtype of texts by astype to avoid this",
            xr.SerializationWarning,
            stacklevel=2,
        )
        variable = variable.copy(data=variable.data.compute())
    values = variable.to_numpy().astype(object)
    gaps = np.asarray(duck_arrays.isnull(values))
    if not gaps.any():
        return variable, nothing
    kinds = {bytes if issubclass(k, bytes) else k for k in map(type, values[~gaps].ravel())}
    kinds = {str if issubclass(k, str) else k for k in kinds}
    if kinds == {str, bytes}:
        raise ArgumentError(
            f"{name!r} has texts and byte strings, and some are missing; decode the byte strings"
        )
    if not (kinds and kinds <= {str, bytes}) and (kinds or not is_text):
        return variable, nothing
    return variable.copy(data=values), gaps


def without_missing(values: NDArray[Any], mark: Any) -> NDArray[Any]:
    """Return texts as an array of their kind, with a marker (None: an empty text) for missing ones.

    Examples
    --------
    >>> without_missing(np.array(["a", None], object), "?")
    array(['a', '?'], dtype='<U1')
    """
    gaps = np.asarray(duck_arrays.isnull(values))
    some = values[~gaps]
    empty: str | bytes = b"" if some.size and isinstance(some.flat[0], bytes) else ""
    full = np.where(gaps, empty if mark is None else mark, values)
    return full.astype("S" if isinstance(empty, bytes) or isinstance(mark, bytes) else "U")


def marked(variable: Any, name: Any) -> tuple[Any, dict[str, Any]]:
    """Give texts of a variable that is to be encoded a marker for those that are missing.

    Return the variable, of which no text is missing, and the attributes that its array needs.

    Raises
    ------
    ArgumentError
        A ValueError: see `as_texts`.
    CastingError
        A TypeError: the marker is one of the texts.
    """
    encoding = dict(variable.encoding)
    given = marker_of(encoding)
    told = {key: encoding.pop(key) for key in TEXT_MARKERS if given is not None and key in encoding}
    variable, gaps = as_texts(variable, name, is_text=given is not None)
    if not gaps.any():
        if not told or variable.dtype.kind not in "OTUS":
            return variable, {}
        variable = variable.copy(deep=False)
        variable.encoding = encoding
        return variable, told
    values = variable.to_numpy()
    some = values[~gaps]
    kind = "S" if some.size and isinstance(some.flat[0], bytes) else "U"
    mark = given if given is not None else marker_of(variable.attrs)
    if mark is None:
        mark = MARKERS[kind]
        told = {"missing_value": mark}
    elif isinstance(mark, bytes) and kind == "U":  # of texts that are stored as bytes
        mark = _decoded(name, mark, encoding.get("_Encoding", "utf-8"))
        told = dict.fromkeys(told, mark)
    if np.any(some == mark):
        raise CastingError(
            f"cannot write {name!r}: {mark!r} stands for a missing text, but it is also one of the "
            f"texts; give another one: encoding={{{name!r}: {{'missing_value': ...}}}}"
        )
    full = variable.copy(data=without_missing(values, mark).astype(object))
    full.encoding = encoding
    return full, told


def _decoded(name: Any, mark: bytes, encoding: str) -> str:
    try:
        return mark.decode(encoding)
    except (LookupError, UnicodeError) as error:
        raise ArgumentError(
            f"{mark!r} cannot stand for missing texts of {name!r}: {error}; give a text"
        ) from error


def has_missing(variable: Any) -> bool:
    """Tell whether texts that are objects, a result of `as_texts`, are missing."""
    return variable.dtype.kind == "O" and bool(np.any(duck_arrays.isnull(variable.to_numpy())))


def new_marker(name: Any, stored: Any, pieces: Iterable[tuple[slice, ...]]) -> dict[str, Any]:
    """Return the attribute that an array of texts needs as soon as one is missing.

    The array has other elements than texts: no attribute.

    Parameters
    ----------
    name : str
    stored : Variable
        The array, undecoded.
    pieces : iterable of tuple of slices
        Boxes that cover it, each of which fits into memory.

    Raises
    ------
    CastingError
        A TypeError: the marker is one of its texts.
    """
    if stored.dtype.kind not in "US":
        return {}
    is_coded = "_Encoding" in stored.attrs
    told = {"missing_value": MARKERS["U" if is_coded else stored.dtype.kind]}
    mark = marks_missing({**stored.attrs, **told}, np.dtype((stored.dtype.type, 8)))
    for piece in pieces:
        if np.any(stored[piece].to_numpy() == mark):
            raise CastingError(
                f"cannot append missing texts to {name!r}: {told['missing_value']!r} would stand "
                "for them, but the array has this text; set its attribute 'missing_value' to a "
                "text that it does not have"
            )
    return told
