"""Coordinates of elements along an axis, as values and as texts.

The sources are xarray's: the array's attribute ``"coords"``, or, in a folder, the array of one axis
with the name of the axis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from extarray.array.creation import open as open_array
from extarray.common.errors import ExtArrayError
from extarray.common.formatting import text_of
from extarray.format.labels import (
    DATASET_ORIGIN,
    axis_names,
    coordinate_form,
    coordinate_values,
    first_labels,
    known_origin,
)

__all__ = ["Coordinate", "attached", "coordinate_of", "coordinates_of", "short_texts"]

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
    title : str
        The name in words; empty if unknown.
    calendar : str
    points : str
        Where greater values are by convention: ``"up"``, ``"down"``, ``"right"``, or empty.
    """

    name: str
    units: str
    first: int
    labels: Any
    title: str = ""
    calendar: str = ""
    points: str = ""

    @property
    def descends(self) -> bool:
        """True if the last label is less than the first."""
        n = self.labels.shape[0]
        is_ordered = n > 1 and self.labels.dtype.kind in "iufmM"
        return bool(is_ordered and self.labels[n - 1] < self.labels[0])

    def at(self, indices: NDArray[np.int64]) -> NDArray[Any] | None:
        """Return the labels of some elements in ascending order; None if one has no label.

        Numbers that count time from a date are dates.
        """
        places = np.asarray(indices, np.int64) + self.first
        n = self.labels.shape[0]
        if not places.size or places[0] < 0 or places[-1] >= n:
            return None
        low, high = int(places[0]), int(places[-1]) + 1
        if high - low <= 2 * places.size + _MOST:
            found = np.asarray(self.labels[low:high])[places - low]
        else:
            found = np.asarray(self.labels[places])
        return _as_dates(found, self.units, self.calendar)

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
        shortest = short_texts(np.asarray(list(found.values())))
        texts = dict(zip(found, shortest, strict=True))
        return [texts.get(p, "") for p in places]


# Seconds of the units in which times are counted from a date.
_SECONDS = {"day": 86400.0, "hour": 3600.0, "minute": 60.0, "second": 1.0} | {
    "hr": 3600.0,
    "h": 3600.0,
    "min": 60.0,
    "sec": 1.0,
    "s": 1.0,
    "d": 86400.0,
    "millisecond": 1e-3,
    "msec": 1e-3,
    "ms": 1e-3,
    "microsecond": 1e-6,
}
_CALENDARS = ("", "standard", "gregorian", "proleptic_gregorian")
_SINCE = re.compile(
    r"(\w+) since (\d{1,4}-\d{1,2}-\d{1,2})"
    r"(?:[T ]+(\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?(?:Z| ?UTC)?"
)
_FIRST_GREGORIAN = np.datetime64("1582-10-15")


def _as_dates(values: NDArray[Any], units: str, calendar: str) -> NDArray[Any]:
    """Return numbers that count time from a date as dates; others as they are.

    Examples
    --------
    >>> _as_dates(np.array([0, 1.5]), "days since 2024-05-01", "")
    array(['2024-05-01T00:00:00.000000', '2024-05-02T12:00:00.000000'],
          dtype='datetime64[us]')
    """
    found = _SINCE.fullmatch(units.strip())
    if not found or values.dtype.kind not in "iuf" or calendar not in _CALENDARS:
        return values
    unit = found[1].lower()
    second = _SECONDS.get(unit, _SECONDS.get(unit.removesuffix("s")))
    if second is None:
        return values
    day = "-".join(f"{int(n):0{w}}" for n, w in zip(found[2].split("-"), (4, 2, 2), strict=True))
    try:
        start = np.datetime64(f"{day}T{(found[3] or '0:00').zfill(5)}", "us")
    except ValueError:
        return values
    counts = values.astype(np.float64) * second * 1e6
    if not np.isfinite(counts).all() or np.abs(counts).max(initial=0) > 2.0**62:
        return values
    dates: NDArray[Any] = start + np.rint(counts).astype("m8[us]")
    # Before that day other calendars than NumPy's were in use.
    return values if (dates < _FIRST_GREGORIAN).any() else dates


def short_texts(values: NDArray[Any]) -> list[str]:
    """Return texts of values; dates leave out parts of the day that are zero in all of them."""
    if values.dtype.kind == "M":
        for unit in ("D", "m", "s", "ms"):
            if (values == values.astype(f"M8[{unit}]")).all():
                return [str(t).replace("T", " ") for t in values.astype(f"M8[{unit}]")]
    if values.dtype.kind == "f":
        # Eastings and northings in metres, say, have more digits than degrees.
        return [f"{value:.{7 if abs(value) < 1e6 else 12}g}" for value in values.tolist()]
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
                    kept = form.get("attrs")
                    words = (*_words(kept), _points(key, kept))
                    return Coordinate(key, _units(kept), first, labels, *words)
    other = sibling(name)
    if other is None or other.ndim != 1 or (other.dims or (name,)) != (name,):
        return None
    mine = known_origin(attrs.get(DATASET_ORIGIN), len(origin)) or (0,) * len(origin)
    its = known_origin(other.attrs.get(DATASET_ORIGIN), 1) or (0,)
    first = (other.origin[0] - its[0]) - (origin[axis] - mine[axis])
    words = (*_words(other.attrs), _points(name, other.attrs))
    return Coordinate(name, _units(other.attrs), first, other, *words)


def attached(name: str, labels: Any, attrs: Mapping[str, Any]) -> Coordinate:
    """Return the coordinate of an axis that a file attaches to an array.

    Examples
    --------
    >>> attached("lat", np.array([50.0, 51.0]), {"units": "degrees_north"}).units
    'degrees_north'
    """
    return Coordinate(name, _units(attrs), 0, labels, *_words(attrs), _points(name, attrs))


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


def _words(attrs: Any) -> tuple[str, str]:
    """Return the name in words, and the calendar."""
    get = attrs.get if hasattr(attrs, "get") else {}.get
    texts = [get("long_name") or get("standard_name"), get("calendar")]
    title, calendar = (text if isinstance(text, str) else "" for text in texts)
    return title, calendar


_NORTH = re.compile(r"degrees?_?n(orth)?")
_EAST = re.compile(r"degrees?_?e(ast)?")
_PRESSURES = {"pa", "hpa", "kpa", "mbar", "millibar", "millibars", "bar", "dbar", "decibar"}
_MEANINGS = (
    ("up", {"latitude", "grid_latitude", "projection_y_coordinate", "altitude", "height"}),
    ("down", {"depth", "air_pressure", "sea_water_pressure"}),
    ("right", {"longitude", "grid_longitude", "projection_x_coordinate"}),
)
_NAMES = {"lat": "up", "latitude": "up", "lon": "right", "long": "right", "longitude": "right"}


def _points(name: str, attrs: Any) -> str:
    """Return the side of a picture where a coordinate has its greater values.

    The signs are those of the CF conventions, and the names of latitude and longitude.
    """

    def text(key: str) -> str:
        value = attrs.get(key) if hasattr(attrs, "get") else None
        return value.strip().lower() if isinstance(value, str) else ""

    if text("positive") in ("up", "down"):
        return text("positive")
    for side, meanings in _MEANINGS:
        if text("standard_name") in meanings:
            return side
    units = text("units")
    if _NORTH.fullmatch(units):
        return "up"
    if _EAST.fullmatch(units):
        return "right"
    if units in _PRESSURES:
        return "down"
    return _NAMES.get(name.lower(), "")


@contextmanager
def coordinates_of(array: Any) -> Iterator[list[Coordinate | None]]:
    """Yield the coordinate of each axis of an array; arrays beside it are open meanwhile."""
    names = axis_names(array.dims, array.ndim)
    attrs = array.attrs.asdict()
    with ExitStack() as opened:

        def sibling(name: str) -> Any:
            if array.dims is None or array.path is None or array.path.name == name:
                return None
            if "/" in name or name in ("", ".", ".."):
                return None
            try:
                other = open_array(array.path.with_name(name), mode="r")
            except (ExtArrayError, OSError, ValueError):
                return None
            return opened.enter_context(other)

        yield [
            coordinate_of(axis, names, array.origin, attrs, sibling) for axis in range(array.ndim)
        ]
