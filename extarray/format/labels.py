"""Names of axes and labels of elements, which the attributes hold.

The attribute ``"dims"`` has the names of the axes, a list of texts.

The attribute ``"coords"`` has coordinates for xarray: for each a dict of ``"dims"``, ``"data"``,
and ``"origin"``: what the origins of these axes were when the first label was that of index 0.
Growth and shrinking at the start move the origin, and by the difference labels are found again.
Without ``"origin"`` they are those of an axis that never moved; None is one that is not known.
Labels alone, in place of the dict, are those of the axis that has the coordinate's name.

The attribute ``"dataset_origin"`` is that of an array in the folder of a dataset: its origin when
its indices were those of the other arrays.

Arrays that come from netCDF have two more: ``"unlimited_dims"`` lists the axes that may grow in the
file, and ``"char_dim_name"`` names the axis along which single bytes are the characters of texts.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.common.errors import ArgumentError, ArgumentTypeError
from extarray.format.attrs import decode_attrs, encode_attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "CHARACTERS",
    "DATASET_ORIGIN",
    "UNLIMITED",
    "Taken",
    "attrs_of_copy",
    "attrs_of_whole",
    "axis_names",
    "check_dims",
    "coordinate_form",
    "coordinate_values",
    "first_labels",
    "known_dims",
    "known_origin",
    "wider_dims",
    "with_new_axis",
]

#: The attribute of an array in the folder of a dataset.
DATASET_ORIGIN = "dataset_origin"
#: Attributes of an array that came from netCDF; the second as xarray's encodings have it.
UNLIMITED = "unlimited_dims"
CHARACTERS = "char_dim_name"


class Taken(NamedTuple):
    """The part of an axis that a copy has."""

    indices: range | NDArray[Any] | None  # None: all of them, from 0 on
    axis: int | None  # of the copy; None: it has no such axis


def check_dims(dims: Any, ndim: int) -> list[str]:
    """Return the names of the axes that a user gives: texts, one an axis, each once.

    Examples
    --------
    >>> check_dims(("y", "x"), 2)
    ['y', 'x']
    """
    if isinstance(dims, str):
        raise ArgumentTypeError(f"dims must be a sequence of names, not the text {dims!r}")
    try:
        names = list(dims)
    except TypeError:
        raise ArgumentTypeError(
            f"dims must be a sequence of names, not a {type(dims).__name__}"
        ) from None
    for name in names:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"the name {name!r} in dims is a {type(name).__name__}, no str")
    if len(set(names)) < len(names):
        raise ArgumentError(f"dims {tuple(names)} has a name twice; each axis has its own")
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
    strings are texts of the characters 0 to 255.

    Examples
    --------
    >>> coordinate_values({"data": ["2024-05-01"], "dtype": "<M8[D]"})
    array(['2024-05-01'], dtype='datetime64[D]')
    """
    data = form["data"]
    dtype = np.dtype(form["dtype"]) if "dtype" in form else None
    if dtype is not None and dtype.kind == "S":
        data = np.array([*map(_to_bytes, np.array(data, object).flat)], object).reshape(
            np.shape(data)
        )
    x = np.asarray(data if dtype is None else np.array(data, object).astype(dtype))
    if x.dtype.kind in "OV":
        raise TypeError(f"no labels: {x.dtype}")
    return x.reshape(form["shape"]) if "shape" in form else x


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
    >>> first_labels({"dims": ["x"], "data": [1, 2, 3]}, {"x": -2})
    [None]
    """
    dims = form["dims"]
    now = [origin.get(d, 0) for d in dims]
    if "origin" not in form:
        return [None if n else 0 for n in now]
    then = form["origin"]
    if not isinstance(then, list) or len(then) != len(dims):
        then = [None] * len(dims)
    return [
        (t - n if type(t) is int else None) if d in origin else 0
        for d, t, n in zip(dims, then, now, strict=True)
    ]


def known_origin(value: Any, ndim: int) -> tuple[int, ...] | None:
    """Return the attribute ``"dataset_origin"``, or None where it holds something else."""
    if isinstance(value, list) and len(value) == ndim and all(type(n) is int for n in value):
        return tuple(value)
    return None


def attrs_of_whole(text: str, dims: Sequence[str] | None, origin: Sequence[int]) -> str:
    """Return the attributes, a JSON text, of a copy of a whole array."""
    if not any(origin):
        return text
    names = axis_names(dims, len(origin))
    taken = [Taken(None, j) for j in range(len(origin))]
    return encode_attrs(attrs_of_copy(decode_attrs(text), names, origin, taken, names))


def attrs_of_copy(
    values: Mapping[str, Any],
    names: Sequence[str],
    origin: Sequence[int],
    taken: Sequence[Taken],
    new_names: Sequence[str],
) -> dict[str, Any]:
    """Return the attributes of a copy, whose indices count from its own start.

    What was taken is told for each axis.  Coordinates that do not label all of it are left out.

    Examples
    --------
    >>> coords = {"x": {"dims": ["x"], "data": [1, 2, 3, 4]}}
    >>> every_other = Taken(range(2, -1, -2), 0)
    >>> attrs_of_copy({"coords": coords}, ["x"], [0], [every_other], ["x"])
    {'coords': {'x': {'dims': ['x'], 'data': [3, 1], 'origin': [0]}}}
    """
    result = dict(values)
    forms = values.get("coords")
    if isinstance(forms, dict):
        axes = dict(zip(names, taken, strict=True))
        zeros = dict(zip(names, origin, strict=True))
        copies = {key: _copied(key, form, axes, zeros, new_names) for key, form in forms.items()}
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
) -> Any:
    """Return a coordinate of a copy; None: it does not label all elements."""
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
                data = _take(data, len(dims), first, indices, axis is None)
                first = 0
            if axis is not None:
                dims.append(new_names[axis] if d in axes else d)
                zeros.append(first)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return given if all(each.indices is None for each in axes.values()) else None
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
        raise ValueError("not the values of so many axes")
    return data


def _take(
    data: NDArray[Any], axis: int, first: int | None, indices: range | NDArray[Any], drop: bool
) -> NDArray[Any]:
    """Return the labels of some elements; an IndexError where one has none."""
    if first is None:
        raise IndexError("no label is known")
    wanted = np.asarray(indices, np.int64) + first
    if wanted.size and wanted.min() < 0:
        raise IndexError("the first elements have no label")
    # `take` of one index in place of a list of them leaves no axis.
    return np.asarray(data.take(wanted[0] if drop else wanted, axis), data.dtype)


def with_new_axis(
    values: Mapping[str, Any], dims: Sequence[str] | None, ndim: int, at: int
) -> dict[str, Any]:
    """Return the attributes of an array that gains an axis at a place; `ndim` counts those so far.

    Examples
    --------
    Without names, axes are known by their numbers:

    >>> coords = {"x": {"dims": ["dim_0"], "data": [1, 2]}}
    >>> with_new_axis({"coords": coords}, None, 1, 0)
    {'coords': {'x': {'dims': ['dim_1'], 'data': [1, 2]}}}
    """
    result = dict(values)
    forms = values.get("coords")
    if dims is None and isinstance(forms, dict):
        names = axis_names(None, ndim + 1)
        axes = {name: Taken(None, j + (j >= at)) for j, name in enumerate(names[:-1])}
        # As if the origins were zero: what the coordinates say of them stays right.
        zeros = dict.fromkeys(axes, 0)
        result["coords"] = {
            key: _copied(key, form, axes, zeros, names) for key, form in forms.items()
        }
    then = known_origin(values.get(DATASET_ORIGIN), ndim)
    if then is not None:
        result[DATASET_ORIGIN] = [*then[:at], 0, *then[at:]]
    return result
