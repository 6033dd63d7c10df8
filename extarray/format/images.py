"""Axes of images: their kinds, units and even steps; and the metadata of OME-Zarr 0.5 about them.

Attributes of arrays have steps and units as coordinates, and names of channels as one along the
axis of channels.  OME-Zarr has a scale and a translation for each axis and level, units by their
full names, and channels with colours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.common.errors import ArgumentError, FormatError, ShapeError
from extarray.format.labels import coordinate_form, coordinate_values, first_labels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "OMERO",
    "Axis",
    "ImageAxes",
    "Labels",
    "axes_of_image",
    "channels_of",
    "even_step",
    "image_metadata",
    "kind_of",
    "labels_of",
    "range_in",
    "scales_of",
    "spelled",
]

#: Attribute with the rendering of channels, as a file of OME-Zarr had it.
OMERO = "omero"

#: Kinds of axes by their names, in lower case.
_KINDS = {
    **dict.fromkeys(["t", "time"], "time"),
    **dict.fromkeys(["c", "channel", "band", "s"], "channel"),
    **dict.fromkeys("zyx", "space"),
}
#: The order in which OME-Zarr has its axes; one of any other kind is in the place of channels.
_ORDER = {"time": 0, "channel": 1, "space": 3}
#: Axes of arrays without names, by their number.
_UNNAMED = {2: "yx", 3: "zyx", 4: "czyx", 5: "tczyx"}
#: Names of units in OME-Zarr, by the symbols that attributes have.
_PREFIXES = {
    "y": "yocto",
    "z": "zepto",
    "a": "atto",
    "f": "femto",
    "p": "pico",
    "n": "nano",
    "µ": "micro",
    "m": "milli",
    "c": "centi",
    "d": "deci",
    "h": "hecto",
    "k": "kilo",
    "M": "mega",
    "G": "giga",
    "T": "tera",
    "P": "peta",
    "E": "exa",
    "Z": "zetta",
    "Y": "yotta",
}
_SPACE = {"m": "meter", **{f"{p}m": f"{name}meter" for p, name in _PREFIXES.items()}}
_SPACE |= {"Å": "angstrom", "in": "inch", "ft": "foot", "yd": "yard", "mi": "mile", "pc": "parsec"}
_TIME = {"s": "second", **{f"{p}s": f"{name}second" for p, name in _PREFIXES.items()}}
_TIME |= {"min": "minute", "h": "hour", "d": "day"}
_SYMBOLS = {name: symbol for table in (_SPACE, _TIME) for symbol, name in table.items()}
#: Other spellings of units.
_SPELLINGS = {
    **dict.fromkeys(["um", "micron", "microns", "micrometer", "micrometre", "\\u00B5m"], "µm"),
    **dict.fromkeys(["micrometers", "micrometres", "μm"], "µm"),
    **dict.fromkeys(["nanometer", "nanometers", "nanometre", "nanometres"], "nm"),
    **dict.fromkeys(["millimeter", "millimeters", "millimetre", "millimetres"], "mm"),
    **dict.fromkeys(["centimeter", "centimeters", "centimetre", "centimetres"], "cm"),
    **dict.fromkeys(["meter", "meters", "metre", "metres"], "m"),
    **dict.fromkeys(["inch", "inches"], "in"),
    **dict.fromkeys(["sec", "second", "seconds"], "s"),
    **dict.fromkeys(["millisecond", "milliseconds", "msec"], "ms"),
    **dict.fromkeys(["minute", "minutes"], "min"),
    **dict.fromkeys(["hour", "hours", "hr"], "h"),
    **dict.fromkeys(["day", "days"], "d"),
    **dict.fromkeys(["us", "μs", "microsecond", "microseconds"], "µs"),
}
#: Most rows and columns of a plane that are read to learn its range.
_MOST_SIDE = 1024
#: Colours of channels that name none: as many as are told apart, and white for a single one.
_COLORS = ("00FFFF", "FF00FF", "FFFF00", "FF0000", "00FF00", "0000FF")


def spelled(unit: str) -> str:
    """Return the symbol of a unit, in one spelling.

    Examples
    --------
    >>> spelled("microns"), spelled("second"), spelled("counts")
    ('µm', 's', 'counts')
    """
    found = _SPELLINGS.get(unit, unit)
    return _SYMBOLS.get(found, found)


def even_step(numbers: NDArray[Any], epsilon: float = 2.0**-52) -> float | None:
    """Return the step of numbers, or None if they have none; missing ones (NaN) count not.

    `epsilon`: their precision, relative to them.

    Examples
    --------
    >>> even_step(np.arange(3, 9) * 0.1), even_step(np.array([1.0, 2.0, 4.0]))
    (0.1, None)
    """
    places = np.flatnonzero(np.isfinite(numbers))
    if len(places) < 2:
        return None
    first, last = places[0], places[-1]
    step = float((numbers[last] - numbers[first]) / (last - first))
    line = numbers[first] + (places - first) * step
    most = float(np.abs(numbers[places]).max()) * 4 * epsilon
    if not np.allclose(numbers[places], line, rtol=0, atol=max(most, abs(step) * 1e-6)):
        return None
    short = float(f"{step:.12g}")
    return short if math.isclose(short, step, rel_tol=1e-9) else step


# -- labels --------------------------------------------------------------------------------------


class Labels(NamedTuple):
    """Labels along one axis.

    Attributes
    ----------
    values : ndarray
    first : int
        Place of index 0 among them.
    attrs : dict
    """

    values: NDArray[Any]
    first: int
    attrs: Mapping[str, Any]


def labels_of(attrs: Mapping[str, Any], names: Sequence[str], lost: list[str]) -> dict[str, Labels]:
    """Return the labels of axes, by name, from the attributes of an array at origin 0.

    `lost` gets, in words, coordinates that label no single axis of that name.
    """
    found = {}
    forms = attrs.get("coords")
    for name, given in forms.items() if isinstance(forms, dict) else ():
        try:
            form = coordinate_form(name, given)
            values = coordinate_values(form)
            (first,) = first_labels(form, dict.fromkeys(form["dims"], 0))
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
            first = None
        if first is None or name not in names or form["dims"] != [name] or values.ndim != 1:
            lost.append(f"coordinate {name!r}")
        else:
            found[name] = Labels(values, first, form.get("attrs", {}))
    return found


# -- axes ----------------------------------------------------------------------------------------


def kind_of(name: str, unit: str = "") -> str | None:
    """Return the kind of an axis, by its name or its unit: "time", "channel", "space" or None.

    Examples
    --------
    >>> kind_of("X"), kind_of("frame"), kind_of("depth", "µm")
    ('space', None, 'space')
    """
    by_unit = "space" if unit in _SPACE else "time" if unit in _TIME else None
    return _KINDS.get(name.lower(), by_unit)


@dataclass(frozen=True)
class Axis:
    """An axis of an image.

    Attributes
    ----------
    name : str
    kind : str or None
        "time", "channel", "space", or None.
    unit : str
        Symbol of the unit; empty: unknown.
    scale : float
        Step from one element to the next.
    start : float
        Coordinate of the first element.
    """

    name: str
    kind: str | None
    unit: str = ""
    scale: float = 1.0
    start: float = 0.0


@dataclass(frozen=True)
class ImageAxes:
    """The axes of an array, as OME-Zarr has them.

    Attributes
    ----------
    order : tuple of int
        Axes of the array in the order of OME-Zarr.
    axes : tuple of Axis
        In this order.
    channels : list of str or None
        Names of channels.
    """

    order: tuple[int, ...]
    axes: tuple[Axis, ...]
    channels: list[str] | None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(axis.name for axis in self.axes)

    @property
    def channel(self) -> int | None:
        """Place of the axis of channels."""
        return next((j for j, axis in enumerate(self.axes) if axis.kind == "channel"), None)


def axes_of_image(
    dims: Sequence[str] | None,
    shape: Sequence[int],
    labels: Mapping[str, Labels],
    lost: list[str],
) -> ImageAxes:
    """Return the axes of an array as OME-Zarr has them.

    Parameters
    ----------
    dims : sequence of str or None
        Names of the axes; None: the last of t, c, z, y and x, but z, y and x if they are three.
    shape : sequence of int
    labels : mapping of Labels
        Labels of axes, by name.
    lost : list of str
        Collects descriptions of what OME-Zarr cannot express.

    Raises
    ------
    ShapeError
        A ValueError: OME-Zarr has no images of so many axes.
    ArgumentError
        A ValueError: the names of the axes have no meaning there.
    """
    n = len(shape)
    if not 2 <= n <= 5:
        raise ShapeError(
            f"OME-Zarr has images of 2 to 5 axes, not of {n}, as in shape {tuple(shape)}; select "
            "indices of the others"
        )
    names = tuple(_UNNAMED[n]) if dims is None else tuple(dims)
    axes, channels = [], None
    for name, extent in zip(names, shape, strict=True):
        own = labels.get(name)
        said = own.attrs.get("units", "") if own is not None else ""
        axis = Axis(name, kind_of(name, spelled(said) if isinstance(said, str) else ""))
        if axis.kind == "channel":
            channels = None if own is None else _names_of(own, extent, lost)
        elif own is not None:
            axis = _with_step(axis, own, lost)
        axes.append(axis)
    kinds = [axis.kind for axis in axes]
    n_space = kinds.count("space")
    is_known = n_space in (2, 3) and kinds.count("time") < 2 and n - n_space - ("time" in kinds) < 2
    if not is_known or n_space > 3:
        raise ArgumentError(
            "OME-Zarr has the axes t, c, z, y and x, of which y and x are always there, and one "
            f"of another name may be in the place of c; the array has {names}: name them so with "
            "a.dims = ..., or select indices of the others"
        )

    def place(j: int) -> tuple[int, int]:
        is_known = names[j].lower() in ("z", "y", "x")
        return _ORDER.get(kinds[j] or "", 2), "zyx".index(names[j].lower()) if is_known else 0

    order = tuple(sorted(range(n), key=place))
    return ImageAxes(order, tuple(axes[j] for j in order), channels)


def _names_of(labels: Labels, extent: int, lost: list[str]) -> list[str] | None:
    """Return the names of channels; those without a label have an empty one."""
    values = labels.values
    if values.dtype.kind != "U":
        lost.append("the numbers of coordinate of channels, but as text")
    found = [str(v) for v in values[max(0, labels.first) :]]
    return ([""] * -labels.first + found + [""] * extent)[:extent]


def _with_step(axis: Axis, labels: Labels, lost: list[str]) -> Axis:
    """Return an axis with the unit, step and start of its labels."""
    values = labels.values
    if values.dtype.kind not in "iuf":
        lost.append(f"coordinate {axis.name!r}, which has no numbers")
        return axis
    said = labels.attrs.get("units", "")
    unit = spelled(said) if isinstance(said, str) else ""
    numbers = values.astype(np.float64)
    epsilon = float(np.finfo(values.dtype if values.dtype.kind == "f" else np.float64).eps)
    known = np.flatnonzero(np.isfinite(numbers))
    step = even_step(numbers, epsilon)
    if len(known) == 1 == len(numbers):
        step = 1.0  # a single element: its place alone is known
    if step is None or step <= 0:
        lost.append(
            f"coordinate {axis.name!r}, "
            + ("whose steps differ" if step is None else "which does not increase")
        )
        return replace(axis, unit=unit)
    start = float(numbers[known[0]]) + (labels.first - int(known[0])) * step
    if abs(start) < step * 1e-9:
        start = 0.0
    short = float(f"{start:.12g}")
    start = short if math.isclose(short, start, rel_tol=1e-9) else start
    return replace(axis, unit=unit, scale=step, start=start)


# -- metadata ------------------------------------------------------------------------------------


def image_metadata(
    image: ImageAxes,
    levels: Sequence[tuple[str, Sequence[int], Sequence[int]]],
    name: str,
    how: str | None = None,
    omero: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the value of the attribute ``"ome"`` of a group that is an image.

    Parameters
    ----------
    image : ImageAxes
    levels : sequence of (str, sequence of int, sequence of int)
        For each level its path; for each axis, how many elements one of the level stands for, and
        how many of those of the first one are not there.
    name : str
        Name of the image.
    how : str, optional
        How the levels were made.
    omero : mapping, optional
        Rendering of channels.
    """
    axes = []
    for axis in image.axes:
        one = {"name": axis.name}
        if axis.kind is not None:
            one["type"] = axis.kind
        if axis.unit:
            one["unit"] = (_TIME if axis.kind == "time" else _SPACE).get(axis.unit, axis.unit)
        axes.append(one)
    datasets = []
    for path, factors, offsets in levels:
        parts = list(zip(image.axes, factors, offsets, strict=True))
        steps: list[dict[str, Any]] = [
            {"type": "scale", "scale": [axis.scale * f for axis, f, _ in parts]}
        ]
        # A pixel of a smaller level lies in the middle of those that it stands for.
        starts = [axis.start + axis.scale * ((f - 1) / 2 - o) for axis, f, o in parts]
        if any(starts):
            steps.append({"type": "translation", "translation": starts})
        datasets.append({"path": path, "coordinateTransformations": steps})
    image_of: dict[str, Any] = {"name": name, "axes": axes, "datasets": datasets}
    if how is not None and len(levels) > 1:
        image_of["type"] = how
        image_of["metadata"] = {"method": "extarray.pyramid", "how": how}
    found: dict[str, Any] = {"version": "0.5", "multiscales": [image_of]}
    if omero is not None:
        found[OMERO] = dict(omero)
    return found


def channels_of(
    names: Sequence[str] | None,
    n: int,
    dtype: np.dtype[Any],
    ranges: Sequence[tuple[float, float] | None],
    kept: Any = None,
) -> dict[str, Any]:
    """Return the rendering of channels, for the key ``"omero"``.

    Parameters
    ----------
    names : sequence of str or None
    n : int
        Number of channels.
    dtype : dtype
    ranges : sequence of (float, float) or None
        The least and the largest element of each channel; None: unknown.
    kept : mapping, optional
        A rendering that was read, whose colours and windows stay, if it has so many channels.

    Examples
    --------
    >>> channels_of(["DAPI"], 1, np.dtype("u1"), [(3, 40)])["channels"][0]["window"]
    {'min': 0.0, 'max': 255.0, 'start': 3.0, 'end': 40.0}
    """
    before = kept.get("channels") if isinstance(kept, dict) else None
    if not (isinstance(before, list) and len(before) == n):
        before = [{}] * n
    channels = []
    for j, old in enumerate(before):
        own = dict(old) if isinstance(old, dict) else {}
        if names is not None and names[j]:
            own["label"] = names[j]
        own.setdefault("label", f"channel {j}")
        own.setdefault("color", "FFFFFF" if n == 1 else _COLORS[j % len(_COLORS)])
        own.setdefault("active", True)
        own.setdefault("window", _window(dtype, ranges[j]))
        channels.append(own)
    rest = kept if isinstance(kept, dict) else {}
    return {**rest, "channels": channels}


def range_in(values: Any, image: ImageAxes, channel: int) -> tuple[float, float] | None:
    """Return the range of the finite elements in one plane of a channel; None: there are none.

    `values` is an array of any kind that slices read.
    """
    if 0 in values.shape or values.dtype.kind not in "biuf":
        return None
    index: list[int | slice] = []
    for j, (axis, n) in enumerate(zip(image.axes, values.shape, strict=True)):
        if j == image.channel:
            if channel >= n:
                return None
            index.append(channel)
        elif j < values.ndim - 2:
            index.append(n // 2 if axis.kind == "space" else 0)
        else:
            index.append(slice(None, None, -(-n // _MOST_SIDE)))
    plane = np.asarray(values[tuple(index)])
    finite = plane[np.isfinite(plane)]
    if not finite.size:
        return None
    low, high = float(finite.min()), float(finite.max())
    return low, high if high > low else low + 1


def _window(dtype: np.dtype[Any], found: tuple[float, float] | None) -> dict[str, float]:
    """Return the range of colours, which is that of the elements where it is known."""
    low, high = (0.0, 1.0) if found is None else found
    least, most = low, high
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        least, most = float(info.min), float(info.max)
        if found is None:
            low, high = least, most
    return {"min": float(least), "max": float(most), "start": float(low), "end": float(high)}


def scales_of(
    multiscale: Mapping[str, Any], dataset: Mapping[str, Any], ndim: int
) -> tuple[list[Axis], list[str]]:
    """Return the axes of a level with steps and starts; and what is left out, in words.

    Parameters
    ----------
    multiscale, dataset : mapping
        An entry of ``"multiscales"``, and one of its ``"datasets"``.
    ndim : int
        Number of axes of its array.

    Raises
    ------
    FormatError
        A ValueError: the entries are not as the specification says.
    """
    said, lost = multiscale.get("axes", [*"tczyx"]), []  # without axes up to version 0.2
    if not isinstance(said, list) or len(said) != ndim:
        raise FormatError(f"its metadata have the axes {said!r}, and its array has {ndim}")
    axes = []
    for one in said:
        about = {"name": one} if isinstance(one, str) else one  # as in version 0.3
        if not isinstance(about, dict) or not isinstance(about.get("name"), str):
            raise FormatError(f"its metadata have the axis {one!r}, which has no name")
        unit, kind = about.get("unit"), about.get("type")
        unit = spelled(unit) if isinstance(unit, str) else ""
        kind = kind if isinstance(kind, str) else kind_of(about["name"], unit)
        axes.append(Axis(about["name"], kind, unit))
    scale, start = np.ones(ndim), np.zeros(ndim)
    for source in (dataset, multiscale):
        for step in source.get("coordinateTransformations") or ():
            kind = step.get("type") if isinstance(step, dict) else None
            try:
                if kind == "scale":
                    scale, start = scale * _vector(step, kind, ndim), start * step[kind]
                elif kind == "translation":
                    start = start + _vector(step, kind, ndim)
                elif kind != "identity":
                    lost.append(f"the transformation of type {kind!r}")
            except (KeyError, TypeError, ValueError):
                lost.append(f"the {kind} {step.get(kind, step.get('path'))!r:.60}")
    return [
        replace(axis, scale=float(s), start=float(t))
        for axis, s, t in zip(axes, scale, start, strict=True)
    ], lost


def _vector(step: Mapping[str, Any], kind: str, ndim: int) -> NDArray[np.float64]:
    """Return the numbers of a transformation."""
    found = np.array(step[kind], np.float64)
    if found.shape != (ndim,) or not np.isfinite(found).all():
        raise ValueError("other numbers")
    return found
