"""Attributes that locate elements: on the earth, in the sky, along the bands.

Such an attribute counts elements from index 0 as of the time when it was set; the attribute
``"attrs_origin"`` has the origin of the array at that time, unless it was 0.  Growth and shrinking
at the start, copies and views change the indices of elements.  `lines` maps present indices to
those at that time, and `Move` adapts the attributes:

- ``transform``, six numbers as in rasterio, and ``GeoTransform``, a text with the same numbers in
  GDAL's order, concern the axes named "y" and "x", or else the last two;
- ENVI's ``map info``, ``pixel size``, ``geo points``, ``rpc info``, ``x start`` and ``y start``
  also concern "y" and "x", or else the first two axes;
- ``scales``, ``offsets``, ``units`` and ``colors`` of GeoTIFF and the gains and offsets of ENVI, if
  they are lists, and ``default bands`` concern the axis named "band";
- cards of FITS are in `sky`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.common.lazy import LazyImports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "ATTRS_ORIGIN",
    "OF_IMAGE",
    "PER_BAND",
    "Line",
    "Move",
    "Taken",
    "affine",
    "is_place",
    "lines",
    "plane",
]

_later = LazyImports({"extarray.format.sky": "Pixels Run is_card move_cards"})

#: Attribute with the origin at which attributes without their own origin hold.
ATTRS_ORIGIN = "attrs_origin"

#: ENVI attributes about the rows and columns of an image.
OF_IMAGE = ("map info", "pixel size", "geo points", "rpc info", "x start", "y start")
#: Lists with an entry for each band.
PER_BAND = (
    "scales",
    "offsets",
    "units",
    "colors",
    "data gain values",
    "data offset values",
    "data reflectance gain values",
    "data reflectance offset values",
)

#: Most bands for which lists have entries: lists are attributes, and each commit writes them all.
_MOST_BANDS = 1 << 16


def is_place(name: str) -> bool:
    """Tell whether an attribute of this name may locate elements."""
    if name in _CHANGES:
        return True
    return name.isupper() and bool(_later.is_card(name))


class Taken(NamedTuple):
    """The part of an axis in a copy."""

    indices: range | NDArray[Any] | None  # None: all, from 0 on
    axis: int | None  # in the copy; None: the copy lacks the axis


class Line(NamedTuple):
    """Indices of a copy's elements along an axis, as attributes count them.

    Attributes
    ----------
    first, step : int
        Element i of the copy has the index ``first + step * i``; a step of 0: see `indices`.
    axis : int or None
        Axis of the copy.  None: it lacks the axis, and all its elements have the index `first`.
    size : int or None
        Elements along the axis of the copy; None: unknown.
    indices : ndarray or None
        The indices, if they are not evenly spaced.
    """

    first: int
    step: int
    axis: int | None
    size: int | None = None
    indices: NDArray[Any] | None = None

    @property
    def whole(self) -> Sequence[int] | None:
        """All indices; None if their number is unknown."""
        if self.indices is not None:
            return list(map(int, self.indices))
        if self.size is None:
            return None
        return range(self.first, self.first + self.size * self.step, self.step)


def lines(taken: Sequence[Taken], then: Sequence[int], now: Sequence[int]) -> list[Line]:
    """Return, for each axis, the indices of a copy's elements as attributes count them.

    Parameters
    ----------
    taken : sequence of Taken
        The part of each axis in the copy, in present indices.
    then, now : sequence of int
        The origin at which the attributes hold, and the present one.

    Examples
    --------
    Every other element from 0 on, of an axis that has grown by 20 at the start:

    >>> lines([Taken(range(0, 40, 2), 0)], [0], [20])
    [Line(first=-20, step=2, axis=0, size=20, indices=None)]
    """
    result = []
    for (indices, axis), old, new in zip(taken, then, now, strict=True):
        shift = old - new
        if indices is None:
            result.append(Line(shift, 1, axis))
            continue
        steps = {indices.step} if isinstance(indices, range) else set(np.diff(indices).tolist())
        if len(indices) < 2:  # a single element takes the step of its neighbours
            first = int(indices[0]) if len(indices) else getattr(indices, "start", 0)
            result.append(Line(first + shift, 1, axis, len(indices)))
        elif len(steps) == 1 and 0 not in steps and axis is not None:
            result.append(Line(int(indices[0]) + shift, int(steps.pop()), axis, len(indices)))
        else:
            result.append(Line(0, 0, axis, len(indices), np.asarray(indices) + shift))
    return result


def plane(names: Sequence[str], last: bool) -> tuple[int, int] | None:
    """Return the axes of rows and columns: "y" and "x", or else the last (`last`) or first two.

    Examples
    --------
    >>> plane(("y", "x", "band"), True), plane(("dim_0", "dim_1", "dim_2"), True)
    ((0, 1), (1, 2))
    >>> plane(("band", "x"), True) is None
    True
    """
    if "y" in names and "x" in names:
        return names.index("y"), names.index("x")
    if "y" in names or "x" in names or len(names) < 2:
        return None
    return (len(names) - 2, len(names) - 1) if last else (0, 1)


def affine(
    numbers: Sequence[Any], rows: Line, columns: Line, is_swapped: bool = False
) -> list[Any]:
    """Return an affine transform for other rows and columns; each pixel's centre stays.

    Examples
    --------
    >>> affine([10, 0, 500, 0, -10, 900], Line(0, 1, 0), Line(-20, 1, 1))
    [10, 0, 300, 0, -10, 900]
    """
    a, b, c, d, e, f = numbers
    x, y = _edge(columns), _edge(rows)
    first = [a * columns.step, b * rows.step]
    second = [d * columns.step, e * rows.step]
    if is_swapped:
        first.reverse()
        second.reverse()
    # Skip products with 0, so that numbers of unchanged axes stay exact to the last bit.
    return [v + 0 for v in (*first, _sum(c, a, x, b, y), *second, _sum(f, d, x, e, y))]


def _edge(line: Line) -> Any:
    """Return the outer edge of the first element, in pixels as attributes count them."""
    return line.first if line.step == 1 else line.first + (1 - line.step) / 2


def _sum(value: Any, *pairs: Any) -> Any:
    for factor, number in zip(pairs[::2], pairs[1::2], strict=True):
        if factor and number:
            value = value + factor * number
    return value


class _UnsayableError(Exception):
    """An attribute cannot locate the elements."""


class Move:
    """The move of elements from indices as attributes count them to indices of a copy.

    Parameters
    ----------
    names : sequence of str
        Names of the axes.
    lines : sequence of Line
        One for each of these axes.
    new_names : sequence of str
        Axis names of the copy.
    """

    __slots__ = ("_lines", "_names", "_new_names", "is_none")

    def __init__(
        self, names: Sequence[str], lines: Sequence[Line], new_names: Sequence[str]
    ) -> None:
        self._names, self._lines, self._new_names = tuple(names), tuple(lines), tuple(new_names)
        #: Whether all indices stay the same.
        self.is_none = len(names) == len(new_names) and all(
            line[:4] == (0, 1, j, None) for j, line in enumerate(lines)
        )

    def attrs(self, values: Mapping[str, Any], lost: list[str]) -> dict[str, Any]:
        """Return attributes that locate the elements of the copy.

        `lost` gains descriptions of attributes that cannot, and are left out.
        """
        result = dict(values)
        if self.is_none:
            return result
        for name, change in _CHANGES.items():
            if name in result:
                self._change(result, name, change, lost)
        if any(map(str.isupper, result)):
            _later.move_cards(result, self._pixels(), lost)
        return result

    def grid_mapping(self, values: Mapping[str, Any], name: str, lost: list[str]) -> dict[str, Any]:
        """Return the attributes of a coordinate without axes, such as a grid mapping of CF."""
        result, key = dict(values), "GeoTransform"
        said: list[str] = []
        if not self.is_none and key in result:
            self._change(result, key, _CHANGES[key], said)
        lost += [f"{each} of coordinate {name!r}" for each in said]
        return result

    def _change(
        self,
        result: dict[str, Any],
        name: str,
        change: Callable[[Move, Any], Any],
        lost: list[str],
    ) -> None:
        try:
            result[name] = change(self, result[name])
        except _UnsayableError as error:
            del result[name]
            lost.append(f"attribute {name!r} ({error})")
        except (TypeError, ValueError, OverflowError):
            pass  # another attribute of the same name

    # -- rows and columns --------------------------------------------------------------------

    def plane(self, last: bool) -> tuple[Line, Line, bool] | None:
        """Return the lines of rows and columns, and whether the copy swaps them.

        None if the array has none.

        Raises
        ------
        _UnsayableError
            The copy has none, or they are not evenly spaced.
        """
        old, new = plane(self._names, last), plane(self._new_names, last)
        if old is None:
            return None
        rows, columns = (self._lines[j] for j in old)
        if rows.axis is None or columns.axis is None:
            raise _UnsayableError("rows or columns are missing")
        if rows.indices is not None or columns.indices is not None:
            raise _UnsayableError("rows or columns are not evenly spaced")
        if new not in ((rows.axis, columns.axis), (columns.axis, rows.axis)):
            raise _UnsayableError("other axes have become rows and columns")
        return rows, columns, new != (rows.axis, columns.axis)

    def image(self) -> tuple[Line, Line] | None:
        """Return the lines of rows and columns for ENVI, which cannot swap them."""
        found = self.plane(last=False)
        if found is None:
            return None
        if found[2]:
            raise _UnsayableError("rows and columns are swapped")
        return found[:2]

    @property
    def bands(self) -> Line | None:
        """The line of the axis named "band"; None if there is none."""
        return self._lines[self._names.index("band")] if "band" in self._names else None

    def _pixels(self) -> Any:
        """Return the axes as FITS numbers them: from 1, the fastest first."""
        n, new = len(self._names), len(self._new_names)
        old = list(reversed(self._lines))
        kept = [None if line.axis is None else new - line.axis for line in old]
        # Dropped axes have one element each; FITS has them behind the others.
        gone = iter(range(new + 1, new + n + 1))
        places = [next(gone) if place is None else place for place in kept]
        return _later.Pixels(
            {
                j: _later.Run(line.first, line.step, place)
                for j, (line, place) in enumerate(zip(old, places, strict=True), 1)
            },
            new,
        )


def _like(value: Any, numbers: Sequence[Any]) -> Any:
    """Return numbers in a list, tuple or array, like another value."""
    return np.array(numbers) if isinstance(value, np.ndarray) else type(value)(numbers)


def _numbers(value: Any) -> list[Any]:
    found = value.tolist() if isinstance(value, np.ndarray) else list(value)
    if not all(isinstance(v, (int, float, np.number)) and not isinstance(v, bool) for v in found):
        raise TypeError("not numbers")
    return found


def _transform(move: Move, value: Any) -> Any:
    if not isinstance(value, (list, tuple, np.ndarray)):
        return value
    numbers, rest = _numbers(value)[:6], _numbers(value)[6:]
    if len(numbers) < 6 or rest not in ([], [0, 0, 1]):
        return value
    found = move.plane(last=True)
    return value if found is None else _like(value, [*affine(numbers, *found), *rest])


def _geo_transform(move: Move, value: Any) -> Any:
    numbers = [*map(float, value.split())] if isinstance(value, str) else _numbers(value)
    if len(numbers) != 6:
        return value
    found = move.plane(last=True)
    if found is None:
        return value
    c, a, b, f, d, e = numbers
    a, b, c, d, e, f = affine([a, b, c, d, e, f], *found)
    moved = [c, a, b, f, d, e]
    return " ".join(map(repr, map(float, moved))) if isinstance(value, str) else _like(value, moved)


# -- ENVI: lists of texts --------------------------------------------------------------------------


def _moved_pixel(text: Any, line: Line) -> str:
    """Return the new number of a pixel, which counts from 1 at the outer edge of the first one."""
    value = float(text)
    moved = (value - 1 - _edge(line)) / line.step + 1
    return str(text) if moved == value else repr(moved)


def _scaled(text: Any, factor: float) -> str:
    return str(text) if factor == 1 else repr(float(text) * factor)


def _map_info(move: Move, value: Any) -> Any:
    """Adapt the projection, the tie point (pixel, place), the pixel sizes, and the rest."""
    found = move.image()
    if found is None or not isinstance(value, (list, tuple)) or len(value) < 7:
        return value
    rows, columns = found
    pixel_x, pixel_y, x, y, width, height = map(float, value[1:7])
    turns = [text.partition("=")[2] for text in value[7:] if text.lower().startswith("rotation")]
    angle = math.radians(float(turns[0])) if turns else 0.0
    steps = (columns.step, rows.step)
    if angle and steps != (1, 1) and (steps[0] != steps[1] or (pixel_x, pixel_y) != (1, 1)):
        # Programs disagree about rotated pixels that are not square or have another tie point.
        raise _UnsayableError("its pixels are rotated, and change size")
    if angle and width != height:
        raise _UnsayableError("its pixels are rotated, and not square")
    # As in GDAL: the tie point stays at its pixel, and gets another place.
    right = _edge(columns) + (columns.step - 1) * (pixel_x - 1)
    down = _edge(rows) + (rows.step - 1) * (pixel_y - 1)
    sin, cos = math.sin(angle), math.cos(angle)
    result = list(value)
    for j, old, new in (
        (3, x, _sum(x, width * cos, right, width * sin, down)),
        (4, y, _sum(y, height * sin, right, -height * cos, down)),
        (5, width, width * columns.step),
        (6, height, height * rows.step),
    ):
        result[j] = str(value[j]) if new == old else repr(new)
    return type(value)(result)


def _pixel_size(move: Move, value: Any) -> Any:
    found = move.image()
    if found is None or not isinstance(value, (list, tuple)) or len(value) < 2:
        return value
    rows, columns = found
    sizes = _scaled(value[0], abs(columns.step)), _scaled(value[1], abs(rows.step))
    return type(value)([*sizes, *value[2:]])


def _geo_points(move: Move, value: Any) -> Any:
    found = move.image()
    if found is None or not isinstance(value, (list, tuple)) or len(value) % 4:
        return value
    rows, columns = found
    result = list(value)
    for j in range(0, len(value), 4):
        result[j], result[j + 1] = (
            _moved_pixel(value[j], columns),
            _moved_pixel(value[j + 1], rows),
        )
    return type(value)(result)


def _rpc_info(move: Move, value: Any) -> Any:
    found = move.image()
    if found is None or not isinstance(value, (list, tuple)) or len(value) < 90:
        return value
    result = list(value)
    for j, line in enumerate(found):  # offsets count from 0, at the centre of the first pixel
        offset = (float(value[j]) - line.first) / line.step
        result[j] = str(value[j]) if offset == float(value[j]) else repr(offset)
        result[5 + j] = _scaled(value[5 + j], 1 / line.step)
    return type(value)(result)


def _start(of_rows: bool) -> Callable[[Move, Any], Any]:
    def change(move: Move, value: Any) -> Any:
        number = int(value)
        found = move.image()
        if found is None:
            return value
        line = found[0 if of_rows else 1]
        if line.step != 1:
            raise _UnsayableError(
                "its pixels do not correspond one to one to those of the whole image"
            )
        return value if not line.first else type(value)(number + line.first)

    return change


def _default_bands(move: Move, value: Any) -> Any:
    """Return the numbers of the bands, which count from 1."""
    line = move.bands
    if line is None or not isinstance(value, (list, tuple)):
        return value
    if line.whole is None and line.first == 0:
        return value
    result = []
    for each in value:
        index = int(float(each)) - 1
        if line.whole is not None:
            place = line.whole.index(index) if index in line.whole else -1
        else:
            place = index - line.first
        if line.axis is None or place < 0:
            raise _UnsayableError("some of these bands are left out")
        result.append(type(each)(place + 1))
    return type(value)(result)


def _entries(move: Move, value: Any) -> Any:
    """Return the entries of the bands; None for a band without one."""
    line = move.bands
    if line is None or not isinstance(value, (list, tuple)):
        return value
    known, wanted = list(value), line.whole
    if wanted is None:
        wanted = range(line.first, len(known))
    if len(wanted) > _MOST_BANDS:
        raise _UnsayableError(f"there are more than {_MOST_BANDS} bands")
    return type(value)(known[i] if 0 <= i < len(known) else None for i in wanted)


_CHANGES: dict[str, Callable[[Move, Any], Any]] = {
    "transform": _transform,
    "GeoTransform": _geo_transform,
    "map info": _map_info,
    "pixel size": _pixel_size,
    "geo points": _geo_points,
    "rpc info": _rpc_info,
    "x start": _start(of_rows=False),
    "y start": _start(of_rows=True),
    "default bands": _default_bands,
    **dict.fromkeys(PER_BAND, _entries),
}
