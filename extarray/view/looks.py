"""Tell how an array is shown at first: its units, the direction of its axes, colours as axis.

Attributes mean what the CF conventions and xarray mean by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from extarray.array.coordinates import Coordinate

__all__ = ["coordinate_facts", "look_of"]

_COLOURS = {"rgb", "rgba", "color", "colour", "colors", "colours"}
_SAMPLES = {"band", "bands", "sample", "samples", "s", "c", "ch", "channel", "channels"}
_CHANNELS = {"c", "ch", "channel", "channels"}
_LEAST_IMAGE = 5  # an image of colours has more rows and columns than it has colours
_MOST_CHANNELS = 8
_LONGEST = 200  # characters


def coordinate_facts(coordinate: Coordinate) -> dict[str, Any]:
    """Return the facts that the page needs about the coordinate of an axis.

    Among them ``"flip"``: whether index 0 is at the bottom if the axis runs down the picture, and
    at the right if the axis runs across.
    """
    points = coordinate.points
    flip = [False, False]
    if points in ("up", "down"):
        flip[0] = coordinate.descends == (points == "down")
    elif points == "right":
        flip[1] = coordinate.descends
    return {
        "name": coordinate.name,
        "units": _units(coordinate.units),
        "title": coordinate.title[:_LONGEST],
        "flip": flip,
    }


def _units(text: str) -> str:
    """Return units; empty if the labels are dates, which have none."""
    return "" if " since " in text else text[:_LONGEST]


def look_of(
    attrs: Any, names: Sequence[str], shape: Sequence[int], dtype: np.dtype[Any]
) -> dict[str, Any]:
    """Return units and title of the values, and an axis whose elements are colours.

    Parameters
    ----------
    attrs : mapping
        Attributes of the array.
    names : sequence of str
        Names of its axes.
    shape : sequence of int
    dtype : dtype

    Returns
    -------
    dict
        ``"colours"`` is ``[kind, axis]``, where the kind is ``"rgb"`` or ``"channels"``, or None.

    Examples
    --------
    >>> look_of({"units": "K"}, ["y", "x", "rgb"], (90, 90, 3), np.dtype("u1"))
    {'units': 'K', 'title': '', 'colours': ['rgb', 2]}
    """

    def text(key: str) -> str:
        value = attrs.get(key)
        return value[:_LONGEST] if isinstance(value, str) else ""

    title = text("long_name") or text("standard_name").replace("_", " ")
    return {
        "units": _units(text("units")),
        "title": title,
        "colours": _colours(names, shape, dtype),
    }


def _colours(
    names: Sequence[str], shape: Sequence[int], dtype: np.dtype[Any]
) -> list[str | int] | None:
    """Return the kind and the number of an axis of colours; None: the array has no such axis."""
    if len(shape) < 3 or dtype.kind not in "uif" or dtype.isbuiltin == 2:
        return None
    last = len(shape) - 1
    for axis in (last, *range(last)):
        others = sorted(n for j, n in enumerate(shape) if j != axis)
        name, size = names[axis].lower(), shape[axis]
        if others[-2] < _LEAST_IMAGE:
            continue
        is_named = name in _COLOURS or (dtype == np.uint8 and name in _SAMPLES)
        is_unnamed = dtype == np.uint8 and axis == last and name.startswith("axis ")
        if size in (3, 4) and (is_named or is_unnamed):
            return ["rgb", axis]
        if name in _CHANNELS and 2 <= size <= _MOST_CHANNELS:
            return ["channels", axis]
    return None
