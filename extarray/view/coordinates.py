"""Coordinates of elements along an axis, as texts.

The sources are xarray's: the array's attribute ``"coords"``, or, in a folder, the array of one axis
with the name of the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from extarray.format.labels import (
    DATASET_ORIGIN,
    coordinate_form,
    coordinate_values,
    first_labels,
    known_origin,
)
from extarray.view.encoding import text_of

__all__ = ["Coordinate", "coordinate_of"]

_MOST = 4096  # labels in an answer


class Coordinate(NamedTuple):
    """Labels of the elements along an axis.

    Attributes
    ----------
    name : str
    units : str
        Empty if unknown.
    first : int
        Place of the label of index 0; may be negative.
    labels : ndarray or ExtArray, shape (n,)
    """

    name: str
    units: str
    first: int
    labels: Any

    def texts(self, indices: Sequence[int]) -> list[str]:
        """Return the labels of some elements; empty for elements without a label."""
        places = [i + self.first for i in indices[:_MOST]]
        known = [p for p in places if 0 <= p < self.labels.shape[0]]
        if not known:
            return [""] * len(places)
        low, high = min(known), max(known)
        if high - low < 8 * _MOST:
            values = np.asarray(self.labels[low : high + 1])
            found = {p: values[p - low] for p in known}
        else:
            found = {p: self.labels[p] for p in known}
        shortest = _as_short_as_possible(np.asarray(list(found.values())))
        texts = dict(zip(found, shortest, strict=True))
        return [texts.get(p, "") for p in places]


def _as_short_as_possible(values: NDArray[Any]) -> list[str]:
    """Return texts of values; dates leave out parts of the day that are zero in all of them."""
    if values.dtype.kind == "M":
        for unit in ("D", "m", "s", "ms"):
            if (values == values.astype(f"M8[{unit}]")).all():
                return [str(t).replace("T", " ") for t in values.astype(f"M8[{unit}]")]
    if values.dtype.kind == "f":
        return [f"{value:.7g}" for value in values.tolist()]
    if values.dtype.kind == "U":
        return [str(value) for value in values]  # without quotes
    return [text_of(value) for value in values]


def coordinate_of(
    axis: int,
    names: Sequence[str],
    origin: Sequence[int],
    attrs: Mapping[str, Any],
    sibling: Callable[[str], Any],
) -> Coordinate | None:
    """Return the coordinate of an axis, or None.

    Parameters
    ----------
    axis : int
    names : sequence of str
        Names of the axes.
    origin : sequence of int
        Origin of the array.
    attrs : mapping
        Attributes of the array.
    sibling : callable
        Returns another array of the folder by its name, or None.
    """
    name = names[axis]
    forms = attrs.get("coords")
    if isinstance(forms, dict):
        now = dict(zip(names, origin, strict=True))
        # Prefer the axis' own coordinate, then take any other with one label per element.
        for key in sorted(forms, key=lambda key: key != name):
            form = coordinate_form(key, forms[key])
            if form["dims"] == [name]:
                first = first_labels(form, now)[0]
                labels = _labels(form)
                if first is not None and labels is not None:
                    return Coordinate(key, _units(form.get("attrs")), first, labels)
    other = sibling(name)
    if other is None or other.ndim != 1 or (other.dims or (name,)) != (name,):
        return None
    mine = known_origin(attrs.get(DATASET_ORIGIN), len(origin)) or (0,) * len(origin)
    its = known_origin(other.attrs.get(DATASET_ORIGIN), 1) or (0,)
    first = (other.origin[0] - its[0]) - (origin[axis] - mine[axis])
    return Coordinate(name, _units(other.attrs), first, other)


def _labels(form: Mapping[str, Any]) -> NDArray[Any] | None:
    """Return the values of a coordinate; None if they cannot be shown."""
    try:
        labels = coordinate_values(form)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None
    return labels if labels.ndim == 1 and labels.dtype.kind in "biufcmMSU" else None


def _units(attrs: Any) -> str:
    units = attrs.get("units") if hasattr(attrs, "get") else None
    return units if isinstance(units, str) else ""
