"""Axis names and labels of elements, kept in attributes, and the attributes of copies.

The attribute ``"dims"`` is a list of the names of the axes.

The attribute ``"coords"`` has coordinates for xarray: for each a dict of ``"dims"``, ``"data"`` and
``"origin"``.  The last has the origins of these axes at the time when the first label belonged to
index 0.  Growth and shrinking at the start move the origin; the difference to the present one
locates the labels.  None is an unknown origin.  Bare labels in place of the dict belong to the axis
of the coordinate's name.

The attribute ``"attrs_origin"`` is the origin of the array for which all other attributes about
elements hold: coordinates without an ``"origin"``, and those that `places` knows.  The default is
0.  Users do not see it: `attrs_now` adapts attributes to the present origin, and `attrs_at` notes
the origin at which they are set.

The attribute ``"dataset_origin"`` of an array in a dataset's folder is the origin at which its
indices were those of the other arrays.

The attribute ``"split"`` says that an axis stands for several: for its name, it has a dict of the
names and lengths of these, in order.  One length may be -1, for as many as there are.

Arrays from netCDF have two more: ``"unlimited_dims"`` lists the axes that may grow in the file, and
``"char_dim_name"`` names the axis along which single bytes are the characters of texts.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.common.errors import ArgumentError, ArgumentTypeError
from extarray.format.attrs import decode_attrs, encode_attrs
from extarray.format.places import ATTRS_ORIGIN, Move, Taken, is_place, lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "CHARACTERS",
    "DATASET_ORIGIN",
    "SPLIT",
    "UNLIMITED",
    "attrs_at",
    "attrs_now",
    "attrs_of_copy",
    "attrs_of_whole",
    "axis_names",
    "check_dims",
    "check_split",
    "coordinate_form",
    "coordinate_values",
    "first_labels",
    "known_dims",
    "known_origin",
    "known_split",
    "mapping_now",
    "wider_dims",
    "with_new_axis",
]

#: Attribute of an array in a dataset's folder.
DATASET_ORIGIN = "dataset_origin"
#: Attributes of an array from netCDF; the second is named as in xarray's encodings.
UNLIMITED = "unlimited_dims"
CHARACTERS = "char_dim_name"

#: Attribute with the axes that stand for several.
SPLIT = "split"

# Most characters that labels of one width may take: a constant, and a multiple of actual ones.
_LEAST_WIDE, _MOST_WIDER = 1 << 16, 64


def check_dims(dims: Any, ndim: int) -> list[str]:
    """Return the names of the axes that a user gives: one string for each axis, all different.

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
    """Return the names of the axes from the attribute ``"dims"``; None if it holds anything else.

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


def check_split(split: Any, dims: Sequence[str] | None) -> dict[str, dict[str, int]]:
    """Return the splits of axes that a user gives, for an array whose axes have names.

    Examples
    --------
    >>> check_split({"frame": {"t": -1, "c": 3}}, ("frame", "y", "x"))
    {'frame': {'t': -1, 'c': 3}}
    """
    example = "such as {'frame': {'t': -1, 'c': 3, 'z': 5}}"
    if not isinstance(split, Mapping):
        raise ArgumentTypeError(
            f"split must be a dict of axes, {example}, not a {type(split).__name__}"
        )
    if dims is None:
        raise ArgumentError("split names axes; give their names, too, with dims")
    found: dict[str, dict[str, int]] = {}
    names = list(dims)
    for axis, lengths in split.items():
        if axis not in dims:
            raise ArgumentError(f"split names an axis {axis!r}, and dims are {tuple(dims)}")
        if not isinstance(lengths, Mapping) or not lengths:
            raise ArgumentTypeError(
                f"split must have a dict of names and lengths for axis {axis!r}, {example}"
            )
        own = {}
        for name, n in lengths.items():
            try:
                own[name] = operator.index(n)
            except TypeError:
                raise ArgumentTypeError(
                    f"the length of {name!r} in split must be an int, not {n!r}"
                ) from None
        if any(n < 1 and n != -1 for n in own.values()) or list(own.values()).count(-1) > 1:
            raise ArgumentError(
                f"split divides axis {axis!r} into {own}: lengths are 1 or more, and one may be "
                "-1, for as many as there are"
            )
        place = names.index(axis)
        names[place : place + 1] = own
        found[axis] = own
    check_dims(names, len(names))
    return found


def known_split(value: Any, dims: Sequence[str] | None) -> dict[str, dict[str, int]]:
    """Return the splits of axes from the attribute ``"split"``; none if it holds anything else.

    Examples
    --------
    >>> known_split({"frame": {"t": -1, "c": 3}}, ("frame", "y", "x"))
    {'frame': {'t': -1, 'c': 3}}
    >>> known_split("a text of somebody else", ("frame", "y", "x"))
    {}
    """
    try:
        return check_split(value, dims)
    except (ArgumentError, ArgumentTypeError):
        return {}


def wider_dims(dims: Sequence[str], position: int, name: str | None) -> list[str]:
    """Return the names of the axes with one more axis.

    Without a name, it gets the first free one of ``dim_0``, ``dim_1``, ... from its position on.

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
    """Return the axis names that coordinates refer to; by default xarray's."""
    return tuple(f"dim_{j}" for j in range(ndim)) if dims is None else tuple(dims)


def coordinate_form(name: str, form: Any) -> dict[str, Any]:
    """Return an entry of the attribute ``"coords"`` as a dict with ``"dims"`` and ``"data"``.

    A list or an array labels the axis of its name; any other value has no axis.

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
    """Return an array from ``"data"``: an array itself, or lists with an optional ``"dtype"``.

    In lists, dates are ISO 8601 strings, complex and nonfinite numbers are strings, and byte
    strings are strings of the characters 0 to 255.  Memory stays in proportion to the data: a
    dtype far wider than all strings shrinks to the longest.

    Raises
    ------
    TypeError, ValueError, KeyError, OverflowError, AttributeError
        The values are not labels.

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
    """Return a dtype, if labels may have it."""
    dtype: np.dtype[Any] = np.dtype(text)
    if not isinstance(text, str) or dtype.kind in "OV":  # kind "V" includes sub-arrays
        raise TypeError(f"not a dtype of labels: {text!r:.200}")
    return dtype


def _as_dtype(items: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert an array of objects to a dtype."""
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
    """Return the length of the longest item, as a string."""
    return max(map(_length, items.flat), default=0)


def _length(item: Any) -> int:
    return len(item if isinstance(item, (str, bytes)) else str(item))


def _is_moderate(width: int, items: NDArray[Any]) -> bool:
    """Tell whether strings of a width take memory in proportion to the actual ones."""
    there = sum(map(_length, items.flat))
    return width * items.size <= _LEAST_WIDE + _MOST_WIDER * there


def _check_width(width: int, items: NDArray[Any]) -> None:
    """Refuse strings whose lengths differ so much that an array of them would be far larger."""
    if not _is_moderate(width, items):
        raise ValueError(
            f"one of {items.size} labels has {width} characters: an array of them would waste too "
            "much memory"
        )


def _to_bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else bytes(text.encode("latin-1"))


def first_labels(form: Mapping[str, Any], origin: Mapping[str, int]) -> list[int | None]:
    """Return the place of index 0 among the labels, along each axis of a coordinate.

    `form` is a result of `coordinate_form`; `origin` has the present origins of the axes, by name.
    A place is negative if the first elements have no label, and None if unknown.

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
    """Return the attribute ``"dataset_origin"``; None if it holds anything else."""
    if isinstance(value, list) and len(value) == ndim and all(type(n) is int for n in value):
        return tuple(value)
    return None


# -- adaptation of attributes to the origin --------------------------------------------------------


def attrs_now(text: str, origin: Sequence[int]) -> str:
    """Adapt attributes, a JSON text, to the present origin.

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
    """Note, in attributes that a user sets as JSON text, the origin at which they hold.

    Raises
    ------
    ArgumentError
        A ValueError: they contain the attribute in which arrays keep this note.

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
    """Adapt the attributes of a grid mapping to the present origin of an array."""
    ndim = len(origin)
    names, taken = axis_names(dims, ndim), [Taken(None, j) for j in range(ndim)]
    move = Move(names, lines(taken, [0] * ndim, origin), names)
    return move.grid_mapping(attrs, "", [])


def _with_origins(values: dict[str, Any], origin: Mapping[str, int]) -> dict[str, Any]:
    """Return attributes whose coordinates name the origin of their axes at which they hold."""
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
    """Adapt attributes to the places in a copy, including attributes of coordinates."""
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
        Attributes, as stored.
    names : sequence of str
        Names of the axes.
    origin : sequence of int
        Origin of the array.
    taken : sequence of Taken
        The part of each axis in the copy.
    new_names : sequence of str
        Axis names of the copy.
    lost : list of str
        Gains descriptions of attributes and coordinates that are left out, as they cannot locate
        the elements of the copy.  Coordinates that label none of these vanish silently.

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
    """Return a coordinate of a copy; None if it labels no element, or cannot tell which."""
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
    except KeyError:  # from `_take`: no element has a label
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
    """Return the values of a coordinate, as stored."""
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

    The place is negative if the first elements have no label.

    Raises
    ------
    KeyError
        No element has a label.
    IndexError
        The labels are unknown, or elements without a label lie between others.
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
    # With a single index instead of a list, `take` drops the axis.
    return np.asarray(data.take(wanted[0] if drop else wanted, axis), data.dtype), -low


def with_new_axis(
    values: Mapping[str, Any], dims: Sequence[str] | None, ndim: int, at: int, lost: list[str]
) -> dict[str, Any]:
    """Return the attributes of an array of `ndim` axes that gains one at a place.

    `lost` is as for `attrs_of_copy`.

    Examples
    --------
    Without names, numbers identify axes:

    >>> coords = {"x": {"dims": ["dim_0"], "data": [1, 2]}}
    >>> with_new_axis({"coords": coords}, None, 1, 0, [])
    {'coords': {'x': {'dims': ['dim_1'], 'data': [1, 2]}}}
    """
    result = dict(values)
    held = known_origin(result.pop(ATTRS_ORIGIN, None), ndim)
    names = axis_names(dims, ndim)
    new_names = axis_names(None if dims is None else wider_dims(dims, at, None), ndim + 1)
    taken = [Taken(None, j + (j >= at)) for j in range(ndim)]
    # With zero origins: statements about origins stay right.
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
