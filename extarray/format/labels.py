"""Names of axes and labels of elements, which the attributes hold, and the attributes of copies.

The attribute ``"dims"`` has the names of the axes, a list of texts.

The attribute ``"coords"`` has coordinates for xarray: for each a dict of ``"dims"``, ``"data"``,
and ``"origin"``: what the origins of these axes were when the first label was that of index 0.
Growth and shrinking at the start move the origin, and by the difference labels are found again.
None is an origin that is not known.  Labels alone, in place of the dict, are those of the axis that
has the coordinate's name.

The attribute ``"attrs_origin"`` has the origin of the array for which all else holds that is about
its elements: coordinates without an ``"origin"``, and what `places` knows.  Without it that is 0.
Users do not see it: `attrs_now` gives attributes as they are right for the present origin, and
`attrs_at` notes the origin at which they are set.

The attribute ``"dataset_origin"`` is that of an array in the folder of a dataset: its origin when
its indices were those of the other arrays.

Arrays that come from netCDF have two more: ``"unlimited_dims"`` lists the axes that may grow in the
file, and ``"char_dim_name"`` names the axis along which single bytes are the characters of texts.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentError, ArgumentTypeError
from extarray.format.attrs import decode_attrs, encode_attrs
from extarray.format.places import ATTRS_ORIGIN, Move, Taken, is_place, lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "CHARACTERS",
    "DATASET_ORIGIN",
    "UNLIMITED",
    "attrs_at",
    "attrs_now",
    "attrs_of_copy",
    "attrs_of_whole",
    "axis_names",
    "check_dims",
    "coordinate_form",
    "coordinate_values",
    "first_labels",
    "known_dims",
    "known_origin",
    "mapping_now",
    "wider_dims",
    "with_new_axis",
]

#: The attribute of an array in the folder of a dataset.
DATASET_ORIGIN = "dataset_origin"
#: Attributes of an array that came from netCDF; the second as xarray's encodings have it.
UNLIMITED = "unlimited_dims"
CHARACTERS = "char_dim_name"

# Characters that labels of one width may take: so many, and so many for each that there is.
_LEAST_WIDE, _MOST_WIDER = 1 << 16, 64


def check_dims(dims: Any, ndim: int) -> list[str]:
    """Return the names of the axes that a user gives: texts, one an axis, each once.

    Examples
    --------
    >>> check_dims(("y", "x"), 2)
    ['y', 'x']
    """
    if isinstance(dims, str):
        raise ArgumentTypeError(f"dims must be a sequence of names, not the string {dims!r}")
    try:
        names = list(dims)
    except TypeError:
        raise ArgumentTypeError(
            f"dims must be a sequence of names, not a {type(dims).__name__}"
        ) from None
    for name in names:
        if not isinstance(name, str):
            raise ArgumentTypeError(
                f"the name {name!r} in dims is a {type(name).__name__}, not a str"
            )
    if len(set(names)) < len(names):
        raise ArgumentError(f"dims {tuple(names)} has duplicate names; each axis needs its own")
    if len(names) != ndim:
        raise ArgumentError(f"dims {tuple(names)} has {len(names)} names for {ndim} axes")
    return [str(name) for name in names]


def known_dims(value: Any, ndim: int) -> tuple[str, ...] | None:
    """Return the names of the axes from the attribute ``"dims"``; None where it holds others.

    Examples
    --------
    >>> known_dims(["y", "x"], 2), known_dims("a text of somebody else", 2)
    (('y', 'x'), None)
    """
    if not isinstance(value, (list, tuple)):
        return None
    try:
        return tuple(check_dims(value, ndim))
    except (ArgumentError, ArgumentTypeError):
        return None


def wider_dims(dims: Sequence[str], position: int, name: str | None) -> list[str]:
    """Return the names of the axes with one axis more.

    Without a name it has the first of ``dim_0``, ``dim_1``, ... from its position on that is free.

    Examples
    --------
    >>> wider_dims(("y", "x"), 0, "time"), wider_dims(("dim_0", "x"), 0, None)
    (['time', 'y', 'x'], ['dim_1', 'dim_0', 'x'])
    """
    if name is None:
        numbered = (f"dim_{j}" for j in itertools.count(position))
        name = next(text for text in numbered if text not in dims)
    return check_dims((*dims[:position], name, *dims[position:]), len(dims) + 1)


def axis_names(dims: Sequence[str] | None, ndim: int) -> tuple[str, ...]:
    """Return the names of axes that coordinates refer to; without any, those xarray gives."""
    return tuple(f"dim_{j}" for j in range(ndim)) if dims is None else tuple(dims)


def coordinate_form(name: str, form: Any) -> dict[str, Any]:
    """Return an entry of the attribute ``"coords"`` as a dict with ``"dims"`` and ``"data"``.

    A list or an array labels the axis that has its name, and another value no axis.

    Examples
    --------
    >>> coordinate_form("band", [450.0, 550.0])
    {'dims': ['band'], 'data': [450.0, 550.0]}
    >>> coordinate_form("height", {"data": 2})
    {'data': 2, 'dims': []}
    """
    if not isinstance(form, dict):
        has_axis = isinstance(form, (list, tuple)) or (isinstance(form, np.ndarray) and form.ndim)
        return {"dims": [name] if has_axis else [], "data": form}
    dims = form.get("dims", [])
    return {**form, "dims": [dims] if isinstance(dims, str) else list(dims)}


def coordinate_values(form: Mapping[str, Any]) -> NDArray[Any]:
    """Return an array from ``"data"``: an array itself, or lists, and a ``"dtype"`` for these.

    In lists dates are texts of ISO 8601, complex numbers and what is not finite are texts, and byte
    strings are texts of the characters 0 to 255.  Memory is in proportion to the data: a dtype of
    texts that are far longer than all of these is as long as the longest.

    Raises
    ------
    TypeError, ValueError, KeyError, OverflowError, AttributeError
        The values are no labels.

    Examples
    --------
    >>> coordinate_values({"data": ["2024-05-01"], "dtype": "<M8[D]"})
    array(['2024-05-01'], dtype='datetime64[D]')
    >>> coordinate_values({"data": ["a", "bc"], "dtype": "S100000000"})
    array([b'a', b'bc'], dtype='|S2')
    """
    data = form["data"]
    if "dtype" in form:
        x = _as_dtype(np.array(data, object), _label_dtype(form["dtype"]))
    elif isinstance(data, np.ndarray):
        x = data
    else:
        items = np.array(data, object)
        _check_width(_longest(items), items)
        x = np.asarray(data)
    if x.dtype.kind in "OV":
        raise TypeError(f"not labels: {x.dtype}")
    return x.reshape(form["shape"]) if "shape" in form else x


def _label_dtype(text: Any) -> np.dtype[Any]:
    """Return a dtype that labels may have."""
    dtype: np.dtype[Any] = np.dtype(text)
    if not isinstance(text, str) or dtype.kind in "OV":  # and no sub-array, whose kind is "V"
        raise TypeError(f"not a dtype of labels: {text!r:.200}")
    return dtype


def _as_dtype(items: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of objects as one of a dtype."""
    if dtype.kind not in "SU":
        return items.astype(dtype)
    if dtype.kind == "S":
        encoded = np.empty(items.shape, object)
        encoded.ravel()[...] = [*map(_to_bytes, items.flat)]
        items = encoded
    longest = _longest(items)
    width = dtype.itemsize // (4 if dtype.kind == "U" else 1) or longest
    if width > longest and not _is_moderate(width, items):
        dtype = np.dtype(f"{dtype.kind}{max(1, longest)}").newbyteorder(dtype.byteorder)
    _check_width(min(width, longest), items)
    return items.astype(dtype)


def _longest(items: NDArray[Any]) -> int:
    """Return the length of the longest of objects, as texts."""
    return max(map(_length, items.flat), default=0)


def _length(item: Any) -> int:
    return len(item if isinstance(item, (str, bytes)) else str(item))


def _is_moderate(width: int, items: NDArray[Any]) -> bool:
    """Tell whether texts of a width take memory in proportion to those that there are."""
    there = sum(map(_length, items.flat))
    return width * items.size <= _LEAST_WIDE + _MOST_WIDER * there


def _check_width(width: int, items: NDArray[Any]) -> None:
    """Refuse texts of such different lengths that an array of them would be far larger."""
    if not _is_moderate(width, items):
        raise ValueError(
            f"one of {items.size} labels has {width} characters: an array of them would waste too "
            "much memory"
        )


def _to_bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else bytes(text.encode("latin-1"))


def first_labels(form: Mapping[str, Any], origin: Mapping[str, int]) -> list[int | None]:
    """Return the place of the label of index 0, along each axis of a coordinate.

    `form` is what `coordinate_form` returns, and `origin` has the present origins of the axes, by
    their names.  A place is negative where the first elements have no label, and None where it is
    not known.

    Examples
    --------
    >>> first_labels({"dims": ["x"], "data": [1, 2, 3], "origin": [0]}, {"x": -2})
    [2]
    >>> first_labels({"dims": ["x"], "data": [1, 2, 3], "origin": [None]}, {"x": -2})
    [None]
    """
    dims = form["dims"]
    then = form.get("origin", [0] * len(dims))
    if not isinstance(then, list) or len(then) != len(dims):
        then = [None] * len(dims)
    return [
        (t - origin[d] if type(t) is int else None) if d in origin else 0
        for d, t in zip(dims, then, strict=True)
    ]


def known_origin(value: Any, ndim: int) -> tuple[int, ...] | None:
    """Return the attribute ``"dataset_origin"``, or None where it holds something else."""
    if isinstance(value, list) and len(value) == ndim and all(type(n) is int for n in value):
        return tuple(value)
    return None


# -- the origin for which attributes hold ----------------------------------------------------------


def attrs_now(text: str, origin: Sequence[int]) -> str:
    """Return attributes, a JSON text, as they are right for the present origin.

    Examples
    --------
    >>> attrs_now('{"transform":[10,0,500,0,-10,900]}', (0, 20))
    '{"transform":[10,0,300,0,-10,900]}'
    """
    if not any(origin) and ATTRS_ORIGIN not in text:
        return text
    values = decode_attrs(text)
    ndim = len(origin)
    then = known_origin(values.pop(ATTRS_ORIGIN, None), ndim) or (0,) * ndim
    names = axis_names(known_dims(values.get("dims"), ndim), ndim)
    if any(origin):
        values = _with_origins(values, dict(zip(names, then, strict=True)))
    taken = [Taken(None, j) for j in range(ndim)]
    move = Move(names, lines(taken, then, origin), names)
    return encode_attrs(_moved(move, values, []))


def attrs_at(text: str, origin: Sequence[int]) -> str:
    """Return attributes, a JSON text that a user set, with the origin for which they hold.

    Raises
    ------
    ArgumentError
        A ValueError: they have the attribute in which arrays note it.

    Examples
    --------
    >>> attrs_at('{"transform":[10,0,300,0,-10,900]}', (0, 20))
    '{"transform":[10,0,300,0,-10,900],"attrs_origin":[0,20]}'
    """
    if ATTRS_ORIGIN in text and ATTRS_ORIGIN in decode_attrs(text):
        raise ArgumentError(f"the attribute {ATTRS_ORIGIN!r} is reserved; use another")
    if not any(origin):
        return text
    values = decode_attrs(text)
    names = axis_names(known_dims(values.get("dims"), len(origin)), len(origin))
    result = _with_origins(values, dict(zip(names, origin, strict=True)))
    if any(map(is_place, values)):
        result[ATTRS_ORIGIN] = list(origin)
    return encode_attrs(result)


def mapping_now(
    attrs: Mapping[str, Any], dims: Sequence[str] | None, origin: Sequence[int]
) -> dict[str, Any]:
    """Return the attributes of a grid mapping as they are right for an array of this origin now."""
    ndim = len(origin)
    names, taken = axis_names(dims, ndim), [Taken(None, j) for j in range(ndim)]
    move = Move(names, lines(taken, [0] * ndim, origin), names)
    return move.grid_mapping(attrs, "", [])


def _with_origins(values: dict[str, Any], origin: Mapping[str, int]) -> dict[str, Any]:
    """Return attributes whose coordinates say for which origin of their axes they hold."""
    forms = values.get("coords")
    if not isinstance(forms, dict):
        return dict(values)
    named = {}
    for key, form in forms.items():
        named[key] = form
        with suppress(TypeError):
            full = coordinate_form(key, form)
            if "origin" not in full and any(d in origin for d in full["dims"]):
                named[key] = {**full, "origin": [origin.get(d, 0) for d in full["dims"]]}
    return {**values, "coords": named}


def _moved(move: Move, values: Mapping[str, Any], lost: list[str]) -> dict[str, Any]:
    """Return attributes with the places of a copy, those of its coordinates' attributes, too."""
    result = move.attrs(values, lost)
    forms = result.get("coords")
    if isinstance(forms, dict) and not move.is_none:
        result["coords"] = dict(forms)
        for key, form in forms.items():
            attrs = form.get("attrs") if isinstance(form, dict) and not form.get("dims") else None
            if isinstance(attrs, dict):
                attrs = move.grid_mapping(attrs, key, lost)
                result["coords"][key] = {**form, "attrs": attrs}
    return result


# -- copies ----------------------------------------------------------------------------------------


def attrs_of_whole(text: str, dims: Sequence[str] | None, origin: Sequence[int]) -> str:
    """Return the attributes, a JSON text, of a copy of a whole array."""
    if not any(origin) and ATTRS_ORIGIN not in text:
        return text
    names = axis_names(dims, len(origin))
    taken = [Taken(None, j) for j in range(len(origin))]
    return encode_attrs(attrs_of_copy(decode_attrs(text), names, origin, taken, names, []))


def attrs_of_copy(
    values: Mapping[str, Any],
    names: Sequence[str],
    origin: Sequence[int],
    taken: Sequence[Taken],
    new_names: Sequence[str],
    lost: list[str],
) -> dict[str, Any]:
    """Return the attributes of a copy, whose indices count from its own start.

    Parameters
    ----------
    values : mapping
        Attributes, as they are stored.
    names : sequence of str
        Of the axes.
    origin : sequence of int
        Of the array.
    taken : sequence of Taken
        The part of each axis that the copy has.
    new_names : sequence of str
        Of the axes of the copy.
    lost : list of str
        Takes, in words, attributes and coordinates that cannot say where the elements of the copy
        are, and are left out.  Coordinates that label none of these go without a word.

    Examples
    --------
    >>> coords = {"x": {"dims": ["x"], "data": [1, 2, 3, 4]}}
    >>> every_other = Taken(range(2, -1, -2), 0)
    >>> attrs_of_copy({"coords": coords}, ["x"], [0], [every_other], ["x"], [])
    {'coords': {'x': {'dims': ['x'], 'data': [3, 1], 'origin': [0]}}}
    """
    values = dict(values)
    held = known_origin(values.pop(ATTRS_ORIGIN, None), len(names)) or (0,) * len(names)
    move = Move(names, lines(taken, held, origin), new_names)
    result = _moved(move, values, lost)
    forms = result.get("coords")
    if isinstance(forms, dict):
        axes = dict(zip(names, taken, strict=True))
        zeros = dict(zip(names, origin, strict=True))
        if any(held) or any(origin):
            result = _with_origins(result, dict(zip(names, held, strict=True)))
            forms = result["coords"]
        copies = {
            key: _copied(key, form, axes, zeros, new_names, lost) for key, form in forms.items()
        }
        result["coords"] = {key: form for key, form in copies.items() if form is not None}
    then = known_origin(values.get(DATASET_ORIGIN), len(names))
    if then is not None:
        del result[DATASET_ORIGIN]
        now = [0] * len(new_names)
        for (indices, axis), was, zero in zip(taken, then, origin, strict=True):
            if axis is None:
                continue
            if indices is not None and not (isinstance(indices, range) and indices.step == 1):
                break
            now[axis] = was - zero + (0 if indices is None else indices.start)
        else:
            result[DATASET_ORIGIN] = now
    return result


def _copied(
    name: str,
    given: Any,
    axes: Mapping[str, Taken],
    origin: Mapping[str, int],
    new_names: Sequence[str],
    lost: list[str],
) -> Any:
    """Return a coordinate of a copy; None: it labels none of the elements, or cannot say which."""
    try:
        form = coordinate_form(name, given)
        old = form["dims"]
        firsts = first_labels(form, origin)
        data: Any = None
        dims: list[str] = []
        zeros: list[int | None] = []
        for d, first in zip(old, firsts, strict=True):
            indices, axis = axes.get(d, (None, -1))
            if indices is not None:
                data = _data_of(form, len(old)) if data is None else data
                data, first = _take(data, len(dims), first, indices, axis is None)
            if axis is not None:
                dims.append(new_names[axis] if d in axes else d)
                zeros.append(first)
    except KeyError:  # `_take`: no label is among them
        return None
    except (AttributeError, IndexError, TypeError, ValueError):
        if all(each.indices is None for each in axes.values()):
            return given
        lost.append(f"coordinate {name!r}, which does not say which elements it labels")
        return None
    if data is None and not any(first != 0 for first in firsts) and "origin" not in form:
        return {**form, "dims": dims} if dims != old else given
    new = {**form, "dims": dims, "origin": zeros}
    if data is not None:
        is_list = not isinstance(form["data"], np.ndarray)
        new["data"] = data.tolist() if is_list else data
        new.pop("shape", None)
        if is_list and data.ndim > 1 and not data.size:
            new["shape"] = list(data.shape)
    return new


def _data_of(form: Mapping[str, Any], ndim: int) -> NDArray[Any]:
    """Return the values of a coordinate, as they are stored."""
    given = form["data"]
    data: NDArray[Any] = given if isinstance(given, np.ndarray) else np.array(given, object)
    if "shape" in form:
        data = data.reshape(form["shape"])
    if data.ndim != ndim:
        raise ValueError("its values have another number of axes")
    return data


def _take(
    data: NDArray[Any], axis: int, first: int | None, indices: range | NDArray[Any], drop: bool
) -> tuple[NDArray[Any], int]:
    """Return the labels of some elements, and the place of the first element among them.

    That is negative where the first elements have no label.

    Raises
    ------
    KeyError
        None of them has a label.
    IndexError
        It is not known which they have, or elements without a label are between others.
    """
    if first is None:
        raise IndexError("no label is known")
    wanted = np.asarray(indices, np.int64) + first
    known = (wanted >= 0) & (wanted < data.shape[axis])
    places = np.flatnonzero(known)
    low = 0
    if len(places) < len(wanted):
        if not len(places):
            raise KeyError("no label")
        low = int(places[0])
        if places[-1] - low + 1 > len(places):
            raise IndexError("elements without a label lie between others")
        wanted = wanted[known]
    # `take` of one index in place of a list of them leaves no axis.
    return np.asarray(data.take(wanted[0] if drop else wanted, axis), data.dtype), -low


def with_new_axis(
    values: Mapping[str, Any], dims: Sequence[str] | None, ndim: int, at: int, lost: list[str]
) -> dict[str, Any]:
    """Return the attributes of an array that gains an axis at a place; `ndim` counts those so far.

    `lost` is as for `attrs_of_copy`.

    Examples
    --------
    Without names, axes are known by their numbers:

    >>> coords = {"x": {"dims": ["dim_0"], "data": [1, 2]}}
    >>> with_new_axis({"coords": coords}, None, 1, 0, [])
    {'coords': {'x': {'dims': ['dim_1'], 'data': [1, 2]}}}
    """
    result = dict(values)
    held = known_origin(result.pop(ATTRS_ORIGIN, None), ndim)
    names = axis_names(dims, ndim)
    new_names = axis_names(None if dims is None else wider_dims(dims, at, None), ndim + 1)
    taken = [Taken(None, j + (j >= at)) for j in range(ndim)]
    # As if the origins were zero: what attributes say of them stays right.
    result = _moved(Move(names, lines(taken, [0] * ndim, [0] * ndim), new_names), result, lost)
    forms = result.get("coords")
    if dims is None and isinstance(forms, dict):
        axes = dict(zip(names, taken, strict=True))
        zeros = dict.fromkeys(axes, 0)
        result["coords"] = {
            key: _copied(key, form, axes, zeros, new_names, lost) for key, form in forms.items()
        }
    then = known_origin(values.get(DATASET_ORIGIN), ndim)
    for key, value in ((DATASET_ORIGIN, then), (ATTRS_ORIGIN, held)):
        if value is not None:
            result[key] = [*value[:at], 0, *value[at:]]
    return result
