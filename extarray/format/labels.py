"""Labels of elements that the attributes hold, and which elements they label.

The attribute ``"coords"`` has coordinates for xarray: for each a dict of ``"dims"``, ``"data"``,
and ``"origin"``: what the origins of these axes were when the first label was that of index 0.
Growth and shrinking at the start move the origin, and by the difference labels are found again.
Without ``"origin"`` they are those of an axis that never moved; null is one that is not known.

The attribute ``"dataset_origin"`` is that of an array in the folder of a dataset: its origin when
its indices were those of the other arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.format.attrs import decode_attrs, encode_attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "DATASET_ORIGIN",
    "Taken",
    "attrs_of_copy",
    "attrs_of_whole",
    "axis_names",
    "first_labels",
    "form_dims",
    "known_origin",
    "with_new_axis",
]

#: The attribute of an array in the folder of a dataset.
DATASET_ORIGIN = "dataset_origin"


class Taken(NamedTuple):
    """The part of an axis that a copy has."""

    indices: range | NDArray[Any] | None  # None: all of them, from 0 on
    axis: int | None  # of the copy; None: it has no such axis


def axis_names(dims: Sequence[str] | None, ndim: int) -> tuple[str, ...]:
    """Return the names of axes that coordinates refer to; without any, those xarray gives."""
    return tuple(f"dim_{j}" for j in range(ndim)) if dims is None else tuple(dims)


def form_dims(form: Mapping[str, Any]) -> list[str]:
    """Return the names of the axes of a coordinate, an entry of the attribute ``"coords"``."""
    dims = form.get("dims", [])
    return [dims] if isinstance(dims, str) else list(dims)


def first_labels(form: Mapping[str, Any], origin: Mapping[str, int]) -> list[int | None]:
    """Return the place of the label of index 0, along each axis of a coordinate.

    `origin` has the present origins of the axes, by their names.  A place is negative where the
    first elements have no label, and None where it is not known.

    Examples
    --------
    >>> first_labels({"dims": ["x"], "data": [1, 2, 3], "origin": [0]}, {"x": -2})
    [2]
    >>> first_labels({"dims": ["x"], "data": [1, 2, 3]}, {"x": -2})
    [None]
    """
    dims = form_dims(form)
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
        copies = {key: _copied(form, axes, zeros, new_names) for key, form in forms.items()}
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
    form: Any,
    axes: Mapping[str, Taken],
    origin: Mapping[str, int],
    new_names: Sequence[str],
) -> Any:
    """Return a coordinate of a copy; None: it does not label all elements."""
    try:
        old = form_dims(form)
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
        return form if all(each.indices is None for each in axes.values()) else None
    if data is None and not any(first != 0 for first in firsts) and "origin" not in form:
        return {**form, "dims": dims} if dims != old else form
    new = {**form, "dims": dims, "origin": zeros}
    if data is not None:
        new["data"] = data.tolist()
        new.pop("shape", None)
        if data.ndim > 1 and not data.size:
            new["shape"] = list(data.shape)
    return new


def _data_of(form: Mapping[str, Any], ndim: int) -> NDArray[Any]:
    """Return the values of a coordinate, as JSON has them."""
    data = np.array(form["data"], object)
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
    return np.asarray(data.take(wanted[0] if drop else wanted, axis), object)


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
        result["coords"] = {k: _copied(form, axes, zeros, names) for k, form in forms.items()}
    then = known_origin(values.get(DATASET_ORIGIN), ndim)
    if then is not None:
        result[DATASET_ORIGIN] = [*then[:at], 0, *then[at:]]
    return result
