"""Facts of TIFF files, through tifffile: axes, lengths and units, channels, attributes.

Three dialects write them: OME-XML, ImageJ's lines of text, and the JSON of tifffile.
"""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from xml.etree.ElementTree import Element, fromstring

import numpy as np

from extarray.common.errors import ArgumentError, DTypeError, ShapeError
from extarray.common.hints import hint
from extarray.format.images import even_step, spelled
from extarray.formats.description import MOST_LABELS, Coordinate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from extarray.formats.description import Description

__all__ = ["TITLE", "Dialect", "Layout", "facts_of", "layout_of", "metadata_for", "names_of_axes"]

TITLE = "TIFF"

#: The dialect of a file to write.
Dialect = Literal["ome", "imagej", "plain"]

_TITLES = {"ome": "OME-TIFF", "imagej": "ImageJ", "plain": TITLE}
#: Axes of an ImageJ hyperstack, from the slowest to the fastest.
_IMAGEJ_AXES = "TZCYXS"
#: Axes that have labels in a file.
_LABELLED = frozenset("TCZYX")
#: Axes of arrays without names of axes, by their number.
_UNNAMED = {
    "ome": {2: "YX", 3: "ZYX", 4: "CZYX", 5: "TCZYX"},
    "imagej": {2: "YX", 3: "ZYX", 4: "ZCYX", 5: "TZCYX"},
}
#: Letters that tifffile knows, but for Q, which stands for any other axis.
_LETTERS = frozenset("XYSTCZIRAPHEFLVMBGDNK")
#: Words that name an axis of one letter.
_WORDS = {"time": "T", "channel": "C", "band": "C"}
_DTYPES = {
    "ome": ("bool", "i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8", "c8", "c16"),
    "imagej": ("u1", "u2", "i2", "f4"),
    "plain": (
        "bool",
        "i1",
        "u1",
        "i2",
        "u2",
        "i4",
        "u4",
        "i8",
        "u8",
        "f2",
        "f4",
        "f8",
        "c8",
        "c16",
    ),
}
#: Units of OME-XML by axis: of lengths, and of time.
_LENGTHS = frozenset(
    ["m", "km", "mm", "µm", "nm", "pm", "fm", "cm", "dm", "hm", "dam", "Mm", "Gm", "Tm", "Å"]
    + ["in", "ft", "yd", "mi", "thou", "li", "pt", "pixel", "ua", "ly", "pc"]
)
_TIMES = frozenset(["s", "ms", "µs", "ns", "ps", "fs", "min", "h", "d", "cs", "ds", "ks"])
#: OME-XML's word for a length of unknown unit.
_NO_UNIT = "reference frame"
_SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0, "d": 86400.0}
#: Longest text that becomes an attribute; each change of attributes writes all of them.
_LONGEST_TEXT = 1 << 20
#: Attribute with the OME-XML of a file.
_OME_XML = "ome_xml"
#: Lines of ImageJ that say the shape, or what coordinates say.
_IMAGEJ_SHAPE = frozenset(
    ["ImageJ", "images", "channels", "slices", "frames", "hyperstack", "spacing", "unit"]
    + ["finterval", "axes", "shape", "tunit", "yunit", "zunit", "loop", "mode"]
)
#: Parts of ImageJ's metadata that stand in tags of their own, and can be written.
_IMAGEJ_PARTS = ("Info", "Labels", "Ranges", "LUTs")
#: Tags whose texts are attributes.
_TEXTS: tuple[str, ...] = (
    "ImageDescription",
    "DocumentName",
    "Make",
    "Model",
    "PageName",
    "Software",
    "DateTime",
)
_TEXTS += ("Artist", "HostComputer", "Copyright")
#: Keys of tifffile's JSON that are about the shape.
_JSON_OWN = ("shape", "axes", "truncated")
#: Units of the resolution tags.
_RESOLUTION_UNITS = {2: "inch", 3: "centimeter"}


# -- axes ----------------------------------------------------------------------------------------


def names_of_axes(letters: str) -> tuple[str, ...]:
    """Return the names of axes that letters of tifffile stand for.

    An axis of unknown meaning, and another one of the same letter, have the name of xarray.

    Examples
    --------
    >>> names_of_axes("TCZYX"), names_of_axes("QQYX")
    (('t', 'c', 'z', 'y', 'x'), ('dim_0', 'dim_1', 'y', 'x'))
    """
    return tuple(
        f"dim_{j}" if letter == "Q" or letter in letters[:j] else letter.lower()
        for j, letter in enumerate(letters)
    )


@dataclass(frozen=True)
class Layout:
    """The axes of an array, as a file has them.

    Attributes
    ----------
    order : tuple of int
        Axes of the array, from the slowest to the fastest of the file.
    axes : str
        Their letters, without one of a single sample, which is the last.
    shape : tuple of int
        Extents of these.
    samples : {"", "contig", "separate"}
        Where the samples of a pixel stand: together, or in planes.
    """

    order: tuple[int, ...]
    axes: str
    shape: tuple[int, ...]
    samples: Literal["", "contig", "separate"]

    @property
    def lead(self) -> str:
        """Letters of the axes that count pages."""
        return self.axes[: len(self.axes) - 2 - bool(self.samples)]

    @property
    def page(self) -> tuple[int, ...]:
        """Shape of a page."""
        return self.shape[len(self.lead) :]

    def place(self, letter: str) -> int:
        """Return the axis of the array that has a letter."""
        return self.order[self.axes.index(letter)]


def layout_of(given: Description, dialect: Dialect) -> Layout:
    """Return the layout of an array in a file.

    Raises
    ------
    ShapeError
        A ValueError: a file cannot have so many axes, or the array has no elements.
    ArgumentError
        A ValueError: a name of an axis has no meaning there.
    DTypeError
        A TypeError: the dialect has no such elements.
    """
    title, n = _TITLES[dialect], given.ndim
    most = 5 if given.dims is None and dialect != "plain" else 64
    if not 2 <= n <= most or 0 in given.shape:
        raise ShapeError(
            f"{title} needs at least 2 axes{f', at most {most},' if most < 64 else ''} and at "
            f"least one element, but the array has shape {given.shape}; select another part"
        )
    dtype = given.dtype
    known = [np.dtype(kind) for kind in _DTYPES[dialect]]
    if dtype.names is not None or dtype.isbuiltin == 2 or dtype.newbyteorder("=") not in known:
        raise DTypeError(
            f"{title} does not support elements of {dtype}; convert them to one of "
            f"{', '.join(map(str, known))} {hint('with a.astype', 'with extarray rechunk --dtype')}"
        )
    letters = _letters(given, dialect)
    for letter in set(letters) - {"Q"}:
        if letters.count(letter) > 1:
            raise ArgumentError(f"several of the axes {given.dims} would be {letter} in the file")
    y, x = letters.index("Y"), letters.index("X")
    lead = [j for j, letter in enumerate(letters) if letter not in "YXS"]
    if dialect == "imagej":
        lead.sort(key=lambda j: _IMAGEJ_AXES.index(letters[j]))
    order, samples = [*lead, y, x], ""
    if "S" in letters:
        s = letters.index("S")
        samples = "separate" if s < min(y, x) and dialect != "imagej" else "contig"
        order = [*lead, s, y, x] if samples == "separate" else [*lead, y, x, s]
        if dialect == "imagej" and (given.shape[s] not in (1, 3, 4) or dtype != np.uint8):
            raise ArgumentError(
                f"ImageJ has 3 or 4 samples of uint8 for each pixel, but the array has "
                f"{given.shape[s]} of {dtype}; name the axis 'c'"
            )
        if given.shape[s] == 1:  # no file has an axis of a single sample
            order, samples = [*lead, y, x, s], ""
    kept = order[: len(lead) + 2 + bool(samples)]
    return Layout(
        tuple(order),
        "".join(letters[j] for j in kept),
        tuple(given.shape[j] for j in kept),
        samples,  # type: ignore[arg-type]
    )


def _letters(given: Description, dialect: Dialect) -> str:
    """Return the letters of the axes of an array, in its order."""
    n = given.ndim
    if given.dims is None:
        return _UNNAMED[dialect][n] if dialect != "plain" else "Q" * (n - 2) + "YX"
    allowed = _LETTERS if dialect == "plain" else frozenset(_IMAGEJ_AXES)
    letters = []
    for name in given.dims:
        letter = _WORDS.get(name.lower(), name.upper())
        letters.append(letter if letter in allowed else "Q")
    if {"Y", "X"} <= set(letters):
        if dialect == "plain" or "Q" not in letters:
            return "".join(letters)
    elif dialect == "plain" and not {"Y", "X"} & set(letters):
        free = [j for j, letter in enumerate(letters) if letter != "S"][-2:]
        if len(free) == 2:
            for j, letter in zip(free, "YX", strict=True):
                letters[j] = letter
            return "".join(letters)
    raise ArgumentError(
        f"{_TITLES[dialect]} has the axes "
        f"{'y and x, and others' if dialect == 'plain' else 't, c, z, y, x and s'}, but the array "
        f"has {given.dims}; name them so with a.dims = ..., or select indices of the others"
    )


# -- facts of a file -----------------------------------------------------------------------------


class Facts(NamedTuple):
    """Attributes and coordinates of an array.

    Attributes
    ----------
    attrs : dict
    coords : dict of Coordinate
    """

    attrs: dict[str, Any]
    coords: dict[str, Coordinate]


def facts_of(
    tiff: Any, number: int, dims: tuple[str, ...], shape: tuple[int, ...], lost: list[str]
) -> Facts:
    """Return the facts of a series.

    Parameters
    ----------
    tiff : tifffile.TiffFile
    number : int
        Number of the series.
    dims, shape : tuple
        Axes of the array, which may be a level of the series.
    lost : list of str
        Collects descriptions of what is left out.
    """
    series = tiff.series[number]
    facts = Facts({}, {})
    top = dict(zip(names_of_axes(series.axes), series.shape, strict=True))
    scales = {
        d: top[d] / n if d in ("x", "y", "z") and d in top else 1.0
        for d, n in zip(dims, shape, strict=True)
    }
    there = _There(facts, dict(zip(dims, shape, strict=True)), scales, lost)
    page = series.keyframe
    if series.kind == "ome":
        _of_ome(tiff, number, there)
    elif series.kind == "imagej":
        _of_imagej(tiff, page, there)
    else:
        _of_plain(page, there)
    if getattr(page, "colormap", None) is not None:
        lost.append("its map of colours")
    if page.iccprofile is not None:
        lost.append("its profile of colours")
    return facts


@dataclass
class _There:
    """Facts of a series as they are found."""

    facts: Facts
    extents: dict[str, int]
    scales: dict[str, float]
    lost: list[str]

    def step(self, dim: str, size: Any, unit: str | None, first: float = 0.0) -> None:
        """Add a coordinate of even steps."""
        try:
            size = float(size)
        except (TypeError, ValueError):
            return
        n = self.extents.get(dim)
        if n is None or not math.isfinite(size) or size == 0:
            return
        if n > MOST_LABELS:
            words = f"{size * self.scales[dim]:.12g} {unit or ''}".rstrip()
            self.lost.append(
                f"the size {words} of its elements along {dim!r}: the axis is too long"
            )
            return
        self.label(dim, first + np.arange(n) * (size * self.scales[dim]), unit)

    def label(self, dim: str, values: NDArray[Any], unit: str | None = None) -> None:
        """Add a coordinate of an axis."""
        attrs = {} if unit in (None, "", _NO_UNIT) else {"units": spelled(unit)}
        self.facts.coords[dim] = Coordinate((dim,), values, attrs)

    def text(self, name: str, text: str) -> None:
        """Add an attribute."""
        if len(text) > _LONGEST_TEXT:
            self.lost.append(f"{name!r}, a text of {len(text)} characters")
        elif text:
            self.facts.attrs[name] = text


def _of_ome(tiff: Any, number: int, there: _There) -> None:
    """Add the facts of an image in OME-XML."""
    text = tiff.ome_metadata
    root = fromstring(text)
    image = _image(root, [tiff.series[j] for j in range(number + 1)])
    if image is not None:
        _of_image(root, image, there)
    there.text(_OME_XML, text)


def _local(element: Element) -> str:
    """Return the tag of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def _inner(element: Element, tag: str) -> list[Element]:
    """Return the elements of a tag that lie directly in another."""
    return [each for each in element if _local(each) == tag]


def _image(root: Element, series: Sequence[Any]) -> Element | None:
    """Return the image of the last of some series; images without elements have none."""
    images = iter(_inner(root, "Image"))
    found = None
    for each in series:
        for image in images:
            pixels = next(iter(_inner(image, "Pixels")), None)
            is_same = pixels is not None and (image.get("Name") or "") == each.name
            if is_same and pixels is not None:
                sizes = pixels.get("SizeY"), pixels.get("SizeX")
                is_same = sizes == (str(each.keyframe.imagelength), str(each.keyframe.imagewidth))
            if is_same:
                found = image
                break
        else:
            return None
    return found


def _of_image(root: Element, image: Element, there: _There) -> None:
    pixels = _inner(image, "Pixels")[0]
    if image.get("Name"):
        there.text("name", str(image.get("Name")))
    for each in _inner(image, "Description"):
        there.text("description", each.text or "")
    for each in _inner(image, "AcquisitionDate"):
        there.text("acquisition_date", each.text or "")
    for axis in "XYZ":
        unit = pixels.get(f"PhysicalSize{axis}Unit", "µm")
        there.step(axis.lower(), pixels.get(f"PhysicalSize{axis}"), unit)
    there.step("t", pixels.get("TimeIncrement"), pixels.get("TimeIncrementUnit", "s"))
    if "t" in there.extents and "t" not in there.facts.coords:
        _of_planes(pixels, there)
    names = [each.get("Name") or "" for each in _inner(pixels, "Channel")]
    if any(names) and len(names) == there.extents.get("c"):
        there.label("c", np.array(names))
    wanted = {each.get("ID") for each in _inner(image, "AnnotationRef")}
    for outer in _inner(root, "StructuredAnnotations"):
        for each in _inner(outer, "MapAnnotation"):
            if each.get("ID") in wanted:
                for pair in each.iter():
                    if _local(pair) == "M" and pair.get("K"):
                        there.facts.attrs.setdefault(str(pair.get("K")), pair.text or "")


def _of_planes(pixels: Element, there: _There) -> None:
    """Add the times of the first planes at each time, if all have one."""
    times: dict[int, float] = {}
    unit = "s"
    for each in _inner(pixels, "Plane"):
        if each.get("TheZ") == "0" and each.get("TheC") == "0" and each.get("DeltaT"):
            try:
                times[int(each.get("TheT", ""))] = float(each.get("DeltaT", ""))
            except ValueError:
                return
            unit = each.get("DeltaTUnit", "s")
    n = there.extents["t"]
    if sorted(times) == list(range(n)) and n <= MOST_LABELS:
        there.label("t", np.array([times[j] for j in range(n)]), unit)


def _of_imagej(tiff: Any, page: Any, there: _There) -> None:
    """Add the facts of an ImageJ hyperstack."""
    said = dict(tiff.imagej_metadata or {})
    unit = str(said.get("unit", ""))
    for dim, tag in (("x", "XResolution"), ("y", "YResolution")):
        ratio = page.tags.valueof(tag)
        if isinstance(ratio, tuple) and len(ratio) == 2 and all(ratio):
            own = str(said.get(f"{dim}unit", unit))
            if own not in ("", "pixel", "pixels") or ratio[0] != ratio[1]:
                there.step(dim, ratio[1] / ratio[0], own)
    there.step("z", said.get("spacing"), str(said.get("zunit", unit)))
    there.step("t", said.get("finterval"), str(said.get("tunit", "s")))
    labels = said.pop("Labels", None)
    if labels and not _of_labels([str(each) for each in labels], there):
        there.facts.attrs["Labels"] = [str(each) for each in labels]
    for name, value in said.items():
        if name in _IMAGEJ_SHAPE:
            continue
        if name == "LUTs":
            value = [np.asarray(each).tolist() for each in value]
        if isinstance(value, (str, bool, int, float)) or (
            isinstance(value, (list, tuple)) and name in _IMAGEJ_PARTS
        ):
            there.facts.attrs[name] = list(value) if isinstance(value, tuple) else value
        else:
            there.lost.append(f"ImageJ's {name!r}")
    if said.get("mode") not in (None, "grayscale"):
        there.facts.attrs["mode"] = said["mode"]


def _of_labels(labels: list[str], there: _There) -> bool:
    """Add the labels of slices as names of channels, if they are; tell whether they are."""
    n = there.extents.get("c", 0)
    lead = [there.extents[d] for d in there.extents if d in ("t", "z", "c")]
    if n < 2 or math.prod(lead) != len(labels) or list(there.extents)[len(lead) - 1] != "c":
        return False
    names = labels[:n]
    if labels != names * (len(labels) // n):
        return False
    there.label("c", np.array(names))
    return True


def _of_plain(page: Any, there: _There) -> None:
    """Add the attributes of a file of another kind: tags, or JSON."""
    text = page.description
    said = None
    if text.startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            said = json.loads(text)
    if isinstance(said, dict) and "shape" in said:
        there.facts.attrs.update({k: v for k, v in said.items() if k not in _JSON_OWN})
    else:
        said = None
    for name in _TEXTS:
        value = page.tags.valueof(name)
        if name == "ImageDescription" and said is not None:
            continue
        if isinstance(value, str) and value and value != "tifffile.py":
            there.text(name, value) if name not in there.facts.attrs else None
    unit = page.tags.valueof("ResolutionUnit")
    ratios = [page.tags.valueof(tag) for tag in ("XResolution", "YResolution")]
    if unit in _RESOLUTION_UNITS and all(isinstance(r, tuple) and all(r) for r in ratios):
        there.facts.attrs["resolution"] = [r[0] / r[1] for r in ratios]
        there.facts.attrs["resolution_unit"] = _RESOLUTION_UNITS[unit]


# -- facts for a file ----------------------------------------------------------------------------


def metadata_for(
    given: Description, layout: Layout, dialect: Dialect, lost: list[str]
) -> dict[str, Any]:
    """Return arguments of ``tifffile.TiffWriter.write`` that say the facts of an array.

    `lost` collects descriptions of what the file cannot hold.
    """
    if given.fills:
        lost.append(f"the fill value {given.fill_value!r}")
    letters = dict(zip(layout.axes, layout.order, strict=False))  # without one of a single sample
    names = names_of_axes(layout.axes)
    if given.dims is not None and tuple(given.dims[j] for j in layout.order) != names:
        lost.append(f"the names of the axes {given.dims}")
    attrs = dict(given.attrs)
    if _OME_XML in attrs and dialect == "ome":
        del attrs[_OME_XML]
        lost.append(f"attribute {_OME_XML!r}, which is written anew")
    said: dict[str, Any] = {}
    if dialect != "plain" or given.dims is not None:
        said["axes"] = layout.axes
    if dialect == "plain":
        lost.extend(
            f"coordinate {name!r}, which needs ome=True"
            if name in "tczyx"
            else f"coordinate {name!r}"
            for name in given.coords
        )
        return _for_plain(attrs, said, lost)
    labels = {
        letter: given.coords[given.names[axis]]
        for letter, axis in letters.items()
        if letter in _LABELLED and given.names[axis] in given.coords
    }
    steps = _Steps(given, layout, labels, lost)
    if dialect == "ome":
        return _for_ome(attrs, said, steps, lost)
    return _for_imagej(attrs, said, steps, lost)


class _Steps:
    """Coordinates of axes as files of images hold them: steps of lengths, names of channels."""

    def __init__(
        self, given: Description, layout: Layout, labels: Mapping[str, Coordinate], lost: list[str]
    ) -> None:
        self.layout, self._lost, self._labels = layout, lost, dict(labels)
        axes = {each.dims: letter for letter, each in labels.items() if len(each.dims) == 1}
        used = {given.names[layout.place(letter)] for letter in axes.values()}
        lost.extend(f"coordinate {name!r}" for name in given.coords if name not in used)

    def drop(self, letter: str, why: str) -> None:
        """Note that a coordinate is lost."""
        self._lost.append(f"coordinate {self._labels[letter].dims[0]!r}{why}")

    def channels(self) -> list[str] | None:
        """Return the names of channels."""
        if "C" not in self._labels:
            return None
        values = self._labels["C"].values
        if values.dtype.kind != "U":
            self._lost.append("the numbers of coordinate of channels, but as text")
        return [str(each) for each in values]

    def unit(self, letter: str) -> str:
        """Return the unit of a coordinate, in one spelling."""
        unit = self._labels[letter].attrs.get("units", "")
        return spelled(unit) if isinstance(unit, str) else ""

    def times(self) -> list[float] | None:
        """Return the numbers of the coordinate of time."""
        numbers = self._numbers("T")
        return None if numbers is None else [float(v) for v in numbers]

    def size(self, letter: str) -> float | None:
        """Return the step of a coordinate, if it is even."""
        numbers = self._numbers(letter)
        if numbers is None:
            return None
        step = even_step(numbers, self._epsilon(letter))
        if step is None:
            if len(numbers) > 1 or numbers[0] != 0:
                self.drop(letter, ", whose steps differ" if len(numbers) > 1 else ", of one label")
            return None
        if step <= 0:
            self.drop(letter, ", which does not increase")
            return None
        if not np.isfinite(numbers).all():
            self._lost.append(f"that labels of {self._labels[letter].dims[0]!r} are missing")
        place = int(np.flatnonzero(np.isfinite(numbers))[0])
        start = float(numbers[place]) - place * step
        if abs(start) > step * 1e-9:
            name = self._labels[letter].dims[0]
            self._lost.append(f"the start {start:.12g} of coordinate {name!r}")
        return step

    def _numbers(self, letter: str) -> NDArray[Any] | None:
        if letter not in self._labels:
            return None
        values = self._labels[letter].values
        if values.ndim != 1 or values.dtype.kind not in "iuf":
            self.drop(letter, ", which has no numbers")
            return None
        return values.astype(np.float64)

    def _epsilon(self, letter: str) -> float:
        """Return the precision of labels, relative to them."""
        dtype = self._labels[letter].values.dtype
        return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)


def _for_plain(attrs: dict[str, Any], said: dict[str, Any], lost: list[str]) -> dict[str, Any]:
    """Return arguments of a file whose attributes are JSON."""
    result: dict[str, Any] = {}
    ratios, unit = attrs.get("resolution"), attrs.get("resolution_unit")
    if unit in _RESOLUTION_UNITS.values() and ratios is not None and _are_positive(ratios):
        result["resolution"] = tuple(_rational(Fraction(float(r))) for r in ratios)
        result["resolutionunit"] = str(unit)
        del attrs["resolution"], attrs["resolution_unit"]
    for name, value in attrs.items():
        plain = value.item() if isinstance(value, np.generic) else value
        plain = plain.tolist() if isinstance(plain, np.ndarray) else plain
        try:
            text = json.dumps(plain, allow_nan=False)
        except (TypeError, ValueError):
            lost.append(f"attribute {name!r}, which JSON cannot represent")
            continue
        if name in _JSON_OWN or "\0" in text:
            lost.append(f"attribute {name!r}, whose name is reserved")
        else:
            said[name] = plain
    return {**result, "metadata": said}


def _are_positive(numbers: Any) -> bool:
    """Tell whether two positive numbers are given."""
    return (
        isinstance(numbers, (list, tuple, np.ndarray))
        and len(numbers) == 2
        and all(isinstance(r, (int, float, np.number)) and 1e-9 < r < 1 << 31 for r in numbers)
    )


def _rational(value: Fraction) -> tuple[int, int]:
    """Return a positive number as two integers of 32 bits."""
    close = value.limit_denominator(1 << 16)
    if close != value and close.numerator < 1 << 15:
        close = value.limit_denominator((1 << 31) // max(1, math.ceil(value)))
    return max(1, close.numerator), close.denominator


def _texts(attrs: Mapping[str, Any], lost: list[str]) -> dict[str, str]:
    """Return attributes as texts."""
    result = {}
    for name, value in attrs.items():
        if isinstance(value, str) and _is_xml(value) and _is_xml(name) and name.strip():
            result[name] = value
        elif isinstance(value, (bool, int, float, np.generic)) and _is_xml(name) and name.strip():
            result[name] = str(value)
            lost.append(f"attribute {name!r}, but as text")
        else:
            lost.append(f"attribute {name!r}, which is not text")
    return result


def _is_xml(text: str) -> bool:
    """Tell whether XML can hold a text."""
    return all(
        c in "\t\n\r" or (c >= " " and not "\ud800" <= c <= "\udfff") for c in text
    ) and not ({"\ufffe", "\uffff", "\r"} & set(text))


def _for_ome(
    attrs: dict[str, Any], said: dict[str, Any], steps: _Steps, lost: list[str]
) -> dict[str, Any]:
    """Return arguments of an OME-TIFF file."""
    for axis in "XYZ":
        size = steps.size(axis)
        if size is not None:
            said[f"PhysicalSize{axis}"] = size
            said[f"PhysicalSize{axis}Unit"] = _ome_unit(steps, axis, _LENGTHS, _NO_UNIT, lost)
    times = steps.times()
    if times is not None:
        unit = _ome_unit(steps, "T", _TIMES, "s", lost)
        step = even_step(np.array(times))
        is_whole = all(map(math.isfinite, times))
        if is_whole and step is not None and step > 0 and times[0] == 0:
            said["TimeIncrement"], said["TimeIncrementUnit"] = step, unit
        elif is_whole:
            said["Plane"] = _planes(times, unit, steps.layout)
        else:
            steps.drop("T", ", which lacks labels")
    channels = steps.channels()
    if channels is not None:
        said["Channel"] = {"Name": channels}
    for name, key in (("name", "Name"), ("description", "Description")):
        if isinstance(attrs.get(name), str) and _is_xml(attrs[name]):
            said[key] = attrs.pop(name)
    if isinstance(attrs.get("acquisition_date"), str):
        date = attrs.pop("acquisition_date")
        try:
            said["AcquisitionDate"] = str(np.datetime64(date.removesuffix("Z"), "s"))
        except ValueError:
            lost.append("attribute 'acquisition_date', which is no date")
    texts = _texts(attrs, lost)
    if texts:
        said["MapAnnotation"] = {"Namespace": "extarray/attributes", "Value": texts}
    return {"metadata": said}


def _ome_unit(
    steps: _Steps, letter: str, known: Iterable[str], default: str, lost: list[str]
) -> str:
    """Return a unit that OME-XML knows."""
    unit = steps.unit(letter)
    if unit in known:
        return unit
    if unit:
        lost.append(f"the unit {unit!r} of {letter.lower()!r}, which OME-XML does not know")
    return default


def _planes(times: list[float], unit: str, layout: Layout) -> dict[str, Any]:
    """Return the times of all planes."""
    lead = layout.shape[: len(layout.lead)]
    at = np.indices(lead)[layout.lead.index("T")].ravel()
    return {"DeltaT": [times[j] for j in at], "DeltaTUnit": [unit] * len(at)}


def _for_imagej(
    attrs: dict[str, Any], said: dict[str, Any], steps: _Steps, lost: list[str]
) -> dict[str, Any]:
    """Return arguments of a file of ImageJ."""
    result: dict[str, Any] = {"metadata": said}
    sizes = {axis: steps.size(axis) for axis in "XYZ"}
    units = {axis: steps.unit(axis) for axis, size in sizes.items() if size is not None}
    if len(set(units.values())) > 1:
        lost.append(f"the units {units}: ImageJ has one for all")
    unit = next(iter(units.values()), "")
    if unit:
        said["unit"] = {"µm": "um"}.get(unit, unit.encode("unicode_escape").decode())
    if sizes["X"] is not None or sizes["Y"] is not None:
        result["resolution"] = tuple(
            _inverse(sizes[axis] or 1.0, axis.lower(), lost) for axis in "XY"
        )
    if sizes["Z"] is not None:
        said["spacing"] = sizes["Z"]
    interval = steps.size("T")
    if interval is not None:
        factor = _SECONDS.get(steps.unit("T") or "s")
        if factor is None:
            steps.drop("T", ", whose unit ImageJ does not know")
        else:
            said["finterval"] = interval * factor
    channels = steps.channels()
    pages = math.prod(steps.layout.shape[: len(steps.layout.lead)])
    if channels is not None:
        attrs.pop("Labels", None)
        lead = steps.layout.shape[: len(steps.layout.lead)]
        at = np.indices(lead)[steps.layout.lead.index("C")].ravel()
        said["Labels"] = [channels[j] for j in at]
    for name, value in attrs.items():
        if name in _IMAGEJ_PARTS:
            problem = _put_part(said, name, value, pages, steps.layout)
        elif isinstance(value, (bool, int, float, str, np.generic)):
            problem = _put_line(said, name, value)
        else:
            problem = "which is not text"
        if problem:
            lost.append(f"attribute {name!r}, {problem}")
    return result


def _inverse(size: float, dim: str, lost: list[str]) -> tuple[int, int]:
    """Return the number of pixels in a unit of length, as two integers."""
    exact = 1 / Fraction(repr(size))
    ratio = (exact.numerator, exact.denominator)
    if max(ratio) >= 1 << 32:
        ratio = _rational(exact)
        if not math.isclose(ratio[1] / ratio[0], size, rel_tol=1e-6):
            lost.append(
                f"the size {size} of elements along {dim!r}, which is {ratio[1] / ratio[0]}"
            )
    return ratio


def _put_part(said: dict[str, Any], name: str, value: Any, pages: int, layout: Layout) -> str:
    """Add a part of ImageJ's metadata that has a tag; return the problem, if any."""
    channels = layout.shape[layout.axes.index("C")] if "C" in layout.axes else 1
    try:
        if name == "Info":
            if not isinstance(value, str):
                return "which is not text"
            said[name] = value
        elif name == "Labels":
            if len(value) != pages or not all(isinstance(each, str) for each in value):
                return f"which does not have a text for each of {pages} planes"
            said[name] = list(value)
        elif name == "Ranges":
            numbers = [float(v) for v in value]
            if len(numbers) != 2 * channels:
                return f"which does not have two numbers for each of {channels} channels"
            said[name] = tuple(numbers)
        else:
            tables = np.asarray(value, np.uint8)
            if tables.shape != (channels, 3, 256):
                return f"which does not have a table for each of {channels} channels"
            said[name] = list(tables)
    except (OverflowError, TypeError, ValueError):
        return "which has other values"
    return ""


def _put_line(said: dict[str, Any], name: str, value: Any) -> str:
    """Add an attribute as a line of ImageJ's text; return the problem, if any."""
    text = str(value)
    if name in _IMAGEJ_SHAPE - {"mode", "loop"} or name in said:
        return "whose name is reserved"
    if not (name.isascii() and name.isidentifier() and name == name.lower()):
        return "whose name cannot begin a line of ImageJ's text"
    if not (text.isascii() and text.isprintable() and text.strip() == text and text):
        return "which is no line of ASCII text"
    said[name] = value.item() if isinstance(value, np.generic) else value
    return ""
