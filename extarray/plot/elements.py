"""The elements of an array: a line, an image, or small images side by side."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from extarray.array.coordinates import Coordinate, coordinates_of, short_texts
from extarray.common.arguments import as_axis
from extarray.common.errors import ArgumentError, BoundsError
from extarray.common.extras import require
from extarray.common.lazy import LazyImports
from extarray.common.limits import limits
from extarray.common.terminal import printable
from extarray.format.missing import missing_elements
from extarray.grid.growth_map import axis_titles
from extarray.plot.figures import given_axes, new_figure, saved
from extarray.plot.scales import Scale, date_axis, date_numbers, with_unit
from extarray.streaming.extremes import ends, extremes_in_bands

__all__ = ["Values", "elements", "shown_axes", "slice_image"]

_MOST_PIXELS = 2000  # along an axis; each pixel of a larger plane shows several elements
_MOST_RUNS = 2000  # of a line, each with its least and its greatest element
_MOST_PANELS = 12
_MOST_LINES = 200  # of chunks along an axis; more would cover the picture
_MOST_MARKED = 50  # elements of a line with a mark each
_AT_ONCE = 1 << 22  # elements
_EXACT = 1 << 53  # integers up to here are floats, too
_later = LazyImports({"extarray.plot.pixels": "add_image"})

_DAYS = "days since 1970-01-01"  # where matplotlib's calendar ends
_EVERY = {1: "st", 2: "nd", 3: "rd"}


def elements(
    a: Any,
    ax: Any = None,
    *,
    axes: Sequence[int | str] | None = None,
    panels: int | str | None = None,
    at: Mapping[int | str, int] | None = None,
    field: str | None = None,
    chunks: bool = False,
    colorbar: bool = True,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
    dpi: float = 110,
    **options: Any,
) -> Any:
    """Draw the elements: a line of one axis, an image of two, and an image for each index of three.

    Elements stand at the array's coordinates, and labels have names and units, from the attributes
    ``long_name``, ``units`` and ``coords``, or from the arrays of one axis beside the array.  Of
    more than three axes, the rest is held at index 0, or as `at` says.

    Parameters
    ----------
    a : ExtArray
        Its elements are real numbers, booleans, dates, durations, or complex numbers, shown by
        magnitude.
    ax : matplotlib Axes or sequence of them, optional
        Axes to draw into: one axes for one image or line, several for as many panels.  Default: a
        new figure.
    axes : sequence of int or str, optional
        The axes of the images, by number or name: downward, and to the right; or the axis of a
        line.  Default: the last two that `at` does not hold.
    panels : int or str, optional
        The axis along which there is an image, or a line, for each index; twelve at most.  Default:
        the first axis that is left.
    at : mapping of int or str to int, optional
        Index of each other axis, ``{axis: index}``.
    field : str, optional
        The field of records to draw.
    chunks : bool
        Whether thin lines show the ends of chunks.
    colorbar : bool
        Whether a colour bar stands beside images.
    title : str, optional
        Default: the coordinates, or the indices, of the axes that are held.
    path : path, optional
        Save the figure there, in the format of the suffix.
    dpi : float
        Dots per inch in the file.
    **options
        Options of ``Axes.imshow``: ``cmap``, ``vmin``, ``vmax``; for a line, of ``Axes.plot``.

    Returns
    -------
    matplotlib.figure.Figure
        Given axes are returned in its place.

    Raises
    ------
    MissingExtraError
        Matplotlib is not installed.
    ArgumentError
        Not axes of the array, or its elements are not numbers.
    BoundsError
        An index in `at` is out of bounds.

    Notes
    -----
    Nothing is left out unsaid.  Where a pixel stands for several elements, it shows the one
    farthest from their mean; a line goes through the least and the greatest of each run.  Of more
    than 512 MiB, only every nth element is read; then the picture says so.
    """
    shown, held = shown_axes(a, axes, at or {})
    left = [j for j in range(a.ndim) if j not in shown and j not in held]
    across: int | None = None
    if panels is not None:
        across = _axis(a, panels)
        if across not in left:
            raise ArgumentError(f"panels {panels!r} is an axis of the images, or held by at")
    elif left and len(shown) == 2 and (ax is None or np.size(np.asarray(ax, object)) > 1):
        across = next((j for j in left if a.shape[j] > 1), left[0])
    index = _index_of(a, held)
    return _draw(
        a, ax, shown, across, index, field=field, chunks=chunks, colorbar=colorbar, title=title,
        path=path, dpi=dpi, options=options,
    )  # fmt: skip


def slice_image(
    a: Any,
    ax: Any = None,
    *,
    axes: Sequence[int | str] = (-2, -1),
    at: Mapping[int | str, int] | None = None,
    field: str | None = None,
    chunks: bool = False,
    colorbar: bool = True,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
    dpi: float = 110,
    **options: Any,
) -> Any:
    """Draw a plane of elements as an image, or an array of one axis as a line.

    Parameters
    ----------
    a : ExtArray
        As for `elements`.
    ax : matplotlib Axes, optional
        Axes to draw into; default: a new figure.
    axes : sequence of int or str
        The axes of the plane, by number or name: downward, and to the right.
    at : mapping of int or str to int, optional
        Index of each other axis, ``{axis: index}``; default 0.
    field, chunks, colorbar, title, path, dpi, **options
        As for `elements`.

    Returns
    -------
    matplotlib.figure.Figure
        Given axes are returned in its place.

    Raises
    ------
    MissingExtraError, ArgumentError, BoundsError
        As for `elements`.
    """
    shown, index = _plane_of(a, range(a.ndim) if a.ndim < 2 else axes, at or {})
    return _draw(
        a, ax, shown, None, index, field=field, chunks=chunks, colorbar=colorbar, title=title,
        path=path, dpi=dpi, options=options,
    )  # fmt: skip


def shown_axes(
    a: Any, axes: Sequence[int | str] | None, at: Mapping[int | str, int]
) -> tuple[list[int], dict[int, int]]:
    """Return the axes of a picture, at most two, and the indices that are held; see `elements`."""
    held = {_axis(a, axis): index for axis, index in at.items()}
    if axes is None:
        shown = [j for j in range(a.ndim) if j not in held][-2:]
    else:
        shown = [_axis(a, axis) for axis in axes]
        if len(set(shown)) != len(shown) or not 1 <= len(shown) <= 2:
            raise ArgumentError(f"axes {tuple(axes)!r} are not one or two axes of the array")
    _check_held(a, shown, held)
    return shown, held


def _plane_of(
    a: Any, axes: Sequence[int | str], at: Mapping[int | str, int]
) -> tuple[list[int], list[int]]:
    """Return the numbers of the axes of a plane, and the index of every other axis."""
    if len(axes) != min(2, a.ndim):
        raise ArgumentError(f"axes {tuple(axes)!r} are not a plane of an array with {a.ndim} axes")
    shown, held = shown_axes(a, axes or None, at)
    return shown, _index_of(a, held)


def _index_of(a: Any, held: Mapping[int, int]) -> list[int]:
    """Return an index for each axis; 0 where none is held."""
    return [held.get(j, 0) % max(1, a.shape[j]) for j in range(a.ndim)]


def _axis(a: Any, axis: int | str) -> int:
    return as_axis(axis, a.ndim, a)


def _check_held(a: Any, shown: Sequence[int], held: Mapping[int, int]) -> None:
    """Refuse indices along axes of the picture, and out of bounds."""
    for j, place in held.items():
        if j in shown:
            raise ArgumentError(f"at fixes axis {j}, which is an axis of the picture")
        if not -a.shape[j] <= place < a.shape[j]:
            raise BoundsError(f"index {place} is out of bounds for axis {j} with size {a.shape[j]}")


# -- values ----------------------------------------------------------------------------------------


class Values:
    """The elements of an array as a picture shows them: decoded, missing ones as NaN.

    Parameters
    ----------
    array : ExtArray
    field : str, optional
        The field of records.

    Raises
    ------
    ArgumentError
        They are not numbers.
    """

    def __init__(self, array: Any, field: str | None = None) -> None:
        self._array = array
        self._field = field
        names = array.dtype.names or ()
        if field is not None and field not in names:
            raise ArgumentError(
                f"there is no field {field!r}; "
                + (f"the fields are {', '.join(names)}" if names else "elements are no records")
            )
        self.dtype = dtype = array.dtype if field is None else array.dtype[field]
        self._is_foreign = dtype.isbuiltin == 2  # a number type of another package
        if dtype.kind not in "biufcmM" and not self._is_foreign:
            how = f"; draw one field, say field={dtype.names[0]!r}" if dtype.names else ""
            raise ArgumentError(f"elements of {dtype} are not numbers{how}")
        attrs = array.attrs.asdict()
        texts = [attrs.get(name, "") for name in ("long_name", "standard_name")]
        texts.append("" if array.path is None else array.path.name)
        texts.insert(0, "" if field is None else field)
        self.name = printable(next((t for t in texts if isinstance(t, str) and t), ""))
        unit = attrs.get("units", attrs.get("unit", ""))
        self.unit = printable(unit) if isinstance(unit, str) else ""
        if dtype.kind == "m":
            self.unit = np.datetime_data(dtype)[0]
        self._missing = missing_elements(attrs, dtype)
        self._scale = [
            float(said) if isinstance(said, (int, float, np.number)) else default
            for said, default in ((attrs.get("scale_factor"), 1.0), (attrs.get("add_offset"), 0.0))
        ]

    @property
    def label(self) -> str:
        """The name and unit of the elements, if attributes give them."""
        return with_unit(self.name, self.unit)

    def read(self, key: tuple[int | slice, ...]) -> NDArray[Any]:
        """Return some elements: booleans, real numbers, or dates."""
        if self._field is None:
            stored = np.asarray(self._array[key])
        else:
            stored = np.asarray(self._array.get_basic_selection(key, fields=self._field))
        kind = stored.dtype.kind
        if self._is_foreign or stored.dtype == np.float16:
            return stored.astype(np.float32)
        if kind == "c":
            return np.asarray(np.abs(stored))
        if kind == "M":
            unit = np.datetime_data(stored.dtype)[0]
            return stored.astype("M8[s]" if unit == "generic" else stored.dtype.newbyteorder("="))
        if kind == "m":
            return np.where(np.isnat(stored), np.nan, stored.astype(np.int64))
        values = stored.astype(stored.dtype.newbyteorder("="), copy=False)
        if kind in "iuf" and (self._missing or self._scale != [1.0, 0.0]):
            values = values.astype(np.result_type(values.dtype, np.float32))
            scale, offset = self._scale
            values = values * scale + offset if (scale, offset) != (1.0, 0.0) else values
            gone = np.isin(stored, self._missing)
            values[gone] = np.nan
        return values


class _Drawn(NamedTuple):
    """The values that a picture shows for a box of elements, and a note on how many they are."""

    values: NDArray[Any]
    places: list[NDArray[np.int64]]  # indices of the first elements of the cells of each axis
    note: str


def _read(
    a: Any, source: Values, shown: Sequence[int], index: Sequence[int], budget: int
) -> _Drawn:
    """Read the elements of a line or a plane: all, their extremes, or every nth."""
    shape = [a.shape[j] for j in shown]
    most = _MOST_RUNS if len(shown) == 1 else _MOST_PIXELS
    steps = [max(1, -(-n // most)) for n in shape]
    nbytes = math.prod(shape) * a.itemsize
    is_sampled = max(steps) > 1 and nbytes > budget

    def key(box: Sequence[slice]) -> tuple[int | slice, ...]:
        found: list[int | slice] = list(index)
        for j, part in zip(shown, box, strict=True):
            found[j] = part
        return tuple(found)

    def read(box: Sequence[slice]) -> NDArray[Any]:
        values = source.read(key(box))
        return values.T if len(shown) == 2 and shown[0] > shown[1] else values

    places = [np.arange(0, n, step) for n, step in zip(shape, steps, strict=True)]
    if is_sampled:
        values = read([slice(None, None, step) for step in steps])
        names = axis_titles(a.dims, a.ndim)
        parts = [
            f"every {_ordinal(s)} element along {names[j]}"
            for j, s in zip(shown, steps, strict=True)
            if s > 1
        ]
        return _Drawn(values, places, f"shows only {', '.join(parts)}")
    if max(steps) == 1:
        return _Drawn(read([slice(None)] * len(shown)), places, "")
    if len(shown) == 1:
        found = _line_ends(read, shape[0], steps[0])
        return _Drawn(found[1], [found[0]], f"least and greatest of every {steps[0]} elements")
    values = extremes_in_bands(read, shape, steps, _AT_ONCE)
    return _Drawn(values, places, "each pixel shows the extreme of its elements")


def _line_ends(read: Any, n: int, step: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Read a line in parts, and return the ends of its runs."""
    part = max(1, _AT_ONCE // step) * step
    found = []
    for start in range(0, n, part):
        places, values = ends(read((slice(start, min(n, start + part)),)), step)
        found.append((places + start, values))
    return np.concatenate([p for p, _ in found]), np.concatenate([v for _, v in found])


def _ordinal(n: int) -> str:
    """Return a number as an ordinal.

    Examples
    --------
    >>> [_ordinal(n) for n in (2, 3, 4, 11, 21)]
    ['2nd', '3rd', '4th', '11th', '21st']
    """
    return f"{n}{'th' if n % 100 in (11, 12, 13) else _EVERY.get(n % 10, 'th')}"


# -- drawing ---------------------------------------------------------------------------------------


def _draw(
    a: Any,
    ax: Any,
    shown: list[int],
    across: int | None,
    index: list[int],
    *,
    field: str | None,
    chunks: bool,
    colorbar: bool,
    title: str | None,
    path: Any,
    dpi: float,
    options: dict[str, Any],
) -> Any:
    """Draw a line or a plane, or planes along an axis."""
    source = Values(a, field)
    given = None if ax is None else given_axes(ax, 1, "a picture takes one")
    count = 1 if across is None else min(a.shape[across], _MOST_PANELS)
    if across is not None and given is not None:
        count = min(a.shape[across], len(given[1]))
    with coordinates_of(a) as coordinates:
        if not shown or not a.size or not count:
            return _draw_nothing(a, source, shown, coordinates, given, ax, title, path, dpi)
        if across is None:
            chosen = np.array([0])
        else:
            chosen = np.linspace(0, a.shape[across] - 1, count).round().astype(np.int64)
        pictures = []
        for number in chosen.tolist():
            here = [number if j == across else i for j, i in enumerate(index)]
            pictures.append((here, _read(a, source, shown, here, limits.plotted_bytes // count)))
        first = pictures[0][1]
        scales = _scales(a, shown, coordinates, first)
        if given is None:
            ratio = _ratio(scales) if options.get("aspect", _aspect(scales)) == "equal" else None
            figure, panels = _new_panels(count, len(shown), path, ratio)
        else:
            figure, panels = given
        base = _base(pictures, options) if source.dtype.kind in "iu" else 0
        if base:
            pictures = [
                (here, drawn._replace(values=drawn.values - drawn.values.dtype.type(base)))
                for here, drawn in pictures
            ]
        if len(shown) == 1:
            for one, (_, drawn) in zip(panels, pictures, strict=False):
                _draw_line(one, source, scales[0], drawn, options)
        else:
            images, are_dates = _draw_images(
                panels, a, shown, source, scales, [p for _, p in pictures], options
            )
            if colorbar and images:
                bar = figure.colorbar(images[0], ax=panels[:count])
                _finish_bar(bar, source, are_dates)
        for number, (one, (here, _)) in enumerate(zip(panels, pictures, strict=False)):
            if chunks:
                _draw_chunk_ends(a, one, shown, scales)
            if across is None:
                held = [j for j in range(a.ndim) if j not in shown]
                text = ", ".join(_at(a, coordinates, j, here[j]) for j in held)
                one.set_title(text if title is None else title, fontsize=10)
            else:
                one.set_title(_at(a, coordinates, across, here[across]), fontsize=9)
            if number == 0 and (notes := _notes([p for _, p in pictures], base)):
                _add_note(one, notes)
        if across is not None and given is None:
            _finish_panels(
                figure, panels[:count], a, coordinates, index, shown, across, count, title
            )
    return saved(figure, path, dpi, ax)


def _base(pictures: Sequence[tuple[Sequence[int], _Drawn]], options: Mapping[str, Any]) -> int:
    """Return an integer without which floats can tell the elements of pictures apart, or 0."""
    if options.keys() & {"norm", "vmin", "vmax"}:
        return 0
    planes = [drawn.values for _, drawn in pictures if drawn.values.dtype.kind in "iu"]
    if len(planes) < len(pictures):
        return 0
    low = min(int(plane.min()) for plane in planes)
    high = max(int(plane.max()) for plane in planes)
    return low if max(-low, high) > _EXACT and high - low <= _EXACT else 0


def _notes(pictures: Sequence[_Drawn], base: int) -> str:
    """Return the words about elements that pictures show otherwise than as they are."""
    notes = [pictures[0].note] if pictures[0].note else []
    if base:
        notes.append(f"values minus {base}")
    planes = [drawn.values for drawn in pictures]
    if any(plane.dtype.kind == "f" and np.isinf(plane).any() for plane in planes):
        notes.append("infinite elements are blank")
    elif not any(np.isfinite(plane).any() for plane in planes):
        notes.append("all elements are missing")
    return "; ".join(notes)


def _scales(
    a: Any, shown: Sequence[int], coordinates: Sequence[Coordinate | None], drawn: _Drawn
) -> list[Scale]:
    """Return the scale of each axis of a picture."""
    names = axis_titles(a.dims, a.ndim)
    found = []
    for j, places in zip(shown, drawn.places, strict=True):
        n = a.shape[j]
        wanted = places
        if len(shown) == 2:  # the elements on both sides of the edges of cells
            wanted = np.unique(np.concatenate([places, np.maximum(places - 1, 0), [n - 1]]))
            wanted = np.unique(np.concatenate([wanted, [min(1, n - 1), max(0, n - 2)]]))
        found.append(Scale(names[j], n, coordinates[j], wanted, len(shown) == 1))
    return found


def _new_panels(
    count: int, ndim: int, path: Any, ratio: float | None = None
) -> tuple[Any, list[Any]]:
    """Return a new figure and the axes of its panels.

    `ratio` is that of height to width of an image; None: any.
    """
    if count == 1:
        size = (6.4, 4.0 if ndim == 1 else 4.8)
        if ratio is not None:  # the colour bar is as high as the figure
            size = (6.4, max(1.8, 4.8 * ratio + 0.8)) if ratio < 1 else (4.2 / ratio + 2.0, 4.8)
        figure = new_figure(size, path)
        return figure, [figure.subplots()]
    across = math.ceil(math.sqrt(count))
    down = -(-count // across)
    high = 2.0 if ratio is None else min(max(2.4 * ratio, 0.6), 3.2)
    figure = new_figure((1.2 + 2.7 * across, 0.6 + (high + 0.4) * down), path)
    panels = list(figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel())
    for extra in panels[count:]:
        extra.set_visible(False)
    return figure, panels


def _aspect(scales: Sequence[Scale]) -> str:
    """Return whether a step is as long along both axes of an image."""
    if len(scales) < 2:
        return "auto"
    lengths = [scale.n for scale in scales]
    is_long = max(lengths) > 8 * min(lengths)
    return "equal" if _same_unit(*scales) and not is_long else "auto"


def _ratio(scales: Sequence[Scale]) -> float:
    """Return the ratio of height to width of an image, as far as figures go."""
    height, width = (abs(float(np.ptp(s.edges(np.array([0, s.n]))))) for s in scales)
    return min(max(height / width, 0.15), 6.0)


def _draw_line(
    ax: Any, source: Values, scale: Scale, drawn: _Drawn, options: Mapping[str, Any]
) -> None:
    """Draw a line; elements without a neighbour, and elements with names, as marks."""
    x = scale.places(drawn.places[0])
    values = drawn.values
    if values.dtype.kind == "M":
        y, is_date = _date_values(values)
    else:
        y, is_date = values.astype(np.float64), False
    style: dict[str, Any] = {"linewidth": 1.0}
    if scale.texts:
        style |= {"linestyle": "none", "marker": "o", "markersize": 5}  # no way leads between names
    elif len(y) <= _MOST_MARKED:
        style |= {"marker": "o", "markersize": 3}
    (line,) = ax.plot(x, y, **{**style, **options})
    known = np.isfinite(y)
    if not known.any():
        room = 0.05 * np.ptp(x) or 0.5
        ax.set_xlim(x.min() - room, x.max() + room)
    beside = np.zeros(len(y) + 2, np.bool_)
    beside[1:-1] = known
    alone = known & ~beside[:-2] & ~beside[2:]
    if alone.any() and line.get_marker() in ("None", None, "", " "):
        ax.plot(x[alone], y[alone], ".", markersize=3, color=line.get_color())
    scale.finish(ax, "x")
    ax.set_ylabel(source.label)
    if is_date:
        date_axis(ax.yaxis)
    elif values.dtype.kind == "M":
        ax.set_ylabel(with_unit(source.name, _DAYS))
    elif values.dtype.kind == "b":
        ax.set_yticks([0, 1], labels=["False", "True"])
    if len(y) > _MOST_MARKED:
        ax.margins(x=0)


def _date_values(values: NDArray[Any]) -> tuple[NDArray[np.float64], bool]:
    """Return dates as numbers, and whether these are matplotlib's."""
    known = ~np.isnat(values)
    numbers = date_numbers(values[known])
    if numbers is None:
        return _days(values), False
    found = np.full(values.shape, np.nan)
    found[known] = numbers
    return found, True


def _draw_images(
    panels: Sequence[Any],
    a: Any,
    shown: Sequence[int],
    source: Values,
    scales: Sequence[Scale],
    pictures: Sequence[_Drawn],
    options: Mapping[str, Any],
) -> tuple[list[Any], bool]:
    """Draw planes, each in its own axes and all with the same colours.

    Return the images, and whether the numbers in them are dates.
    """
    options = dict(options)
    down, right = scales
    aspect = options.pop("aspect", _aspect(scales))
    y, x = (
        scale.edges(np.append(places, scale.n))
        for scale, places in zip(scales, pictures[0].places, strict=True)
    )
    planes, are_dates = _as_numbers([picture.values for picture in pictures])
    if "norm" not in options:
        low, high = _limits(planes)
        options.setdefault("vmin", low)
        options.setdefault("vmax", high)
    images = []
    for one, plane in zip(panels, planes, strict=False):
        images.append(_later.add_image(one, x, y, plane, **options))
        one.set_aspect(aspect)
        rises = down.has_coordinates  # upward, as on a map
        one.set_ylim(*((min(y[0], y[-1]), max(y[0], y[-1])) if rises else (y[-1], y[0])))
        one.set_xlim(min(x[0], x[-1]), max(x[0], x[-1]))
        down.finish(one, "y")
        right.finish(one, "x")
    return images, are_dates


def _as_numbers(planes: list[NDArray[Any]]) -> tuple[list[NDArray[Any]], bool]:
    """Return dates as numbers, and whether they are dates for matplotlib."""
    if planes[0].dtype.kind != "M":
        return planes, False
    found = [_date_values(plane) for plane in planes]
    if all(is_date for _, is_date in found):
        return [plane for plane, _ in found], True
    return [_days(plane) for plane in planes], False


def _days(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return dates as days since 1970."""
    return np.where(np.isnat(values), np.nan, values.astype("M8[D]").astype(np.int64))


def _same_unit(one: Scale, other: Scale) -> bool:
    """Tell whether a step is as long along both axes of a picture."""
    if one.texts or other.texts:
        return False
    if not (one.has_coordinates or other.has_coordinates):
        return True
    if one.is_date or other.is_date or not (one.has_coordinates and other.has_coordinates):
        return False
    units = [scale.units.partition("_")[0].removesuffix("s") for scale in (one, other)]
    return bool(units[0]) and units[0] == units[1]


def _limits(planes: Sequence[NDArray[Any]]) -> tuple[float | None, float | None]:
    """Return the least and the greatest finite number of some planes."""
    lows, highs = [], []
    for plane in planes:
        known = plane[np.isfinite(plane)] if plane.dtype.kind == "f" else plane
        if known.size:
            lows.append(known.min())
            highs.append(known.max())
    return (min(lows), max(highs)) if lows else (0.0, 1.0)


def _finish_bar(bar: Any, source: Values, are_dates: bool) -> None:
    """Label a colour bar."""
    bar.set_label(source.label)
    if are_dates:
        date_axis(bar.ax.yaxis)
    elif source.dtype.kind == "M":
        bar.set_label(with_unit(source.name, _DAYS))
    elif source.dtype.kind == "b":
        bar.set_ticks([0, 1], labels=["False", "True"])


def _add_note(ax: Any, note: str) -> None:
    """Say above axes, at the right, what a picture shows of its elements."""
    title = ax.get_title()
    if title:
        ax.set_title(title, fontsize=ax.title.get_fontsize(), pad=16)
    ax.set_title(note, loc="right", fontsize=7, pad=4)


def _finish_panels(
    figure: Any,
    panels: Sequence[Any],
    a: Any,
    coordinates: Sequence[Coordinate | None],
    index: Sequence[int],
    shown: Sequence[int],
    across: int,
    count: int,
    title: str | None,
) -> None:
    """Leave labels to the outer panels, and say which indices there are."""
    across_panels = math.ceil(math.sqrt(count))
    for number, one in enumerate(panels):
        one.label_outer()
        if number + across_panels >= count:  # above the gap of a short last row
            one.xaxis.set_tick_params(labelbottom=True)
            one.xaxis.label.set_visible(True)
    rest = [j for j in range(a.ndim) if j not in shown and j != across]
    texts = [_at(a, coordinates, j, index[j]) for j in rest]
    if count < a.shape[across]:
        name = axis_titles(a.dims, a.ndim)[across]
        texts.append(f"{count} of the {a.shape[across]} indices along {name}")
    heads = [title] if title is not None else []
    text = "\n".join(heads + ([", ".join(texts)] if texts else []))
    if text:
        figure.suptitle(text, fontsize=10)


def _at(a: Any, coordinates: Sequence[Coordinate | None], j: int, index: int) -> str:
    """Return where an axis is held, in words."""
    name = axis_titles(a.dims, a.ndim)[j]
    coordinate = coordinates[j]
    if coordinate is not None:
        value = coordinate.at(np.array([index]))
        if value is not None:
            is_date = value.dtype.kind == "M"
            unit = "" if is_date or not coordinate.units else f" {coordinate.units}"
            return printable(f"{name} = {short_texts(value)[0]}{unit}")
    return f"{name} = {index}"


def _draw_nothing(
    a: Any,
    source: Values,
    shown: list[int],
    coordinates: Sequence[Coordinate | None],
    given: Any,
    ax: Any,
    title: str | None,
    path: Any,
    dpi: float,
) -> Any:
    """Draw labelled axes without elements, or with the only one in words."""
    figure, panels = given or _new_panels(1, len(shown), path)
    one = panels[0]
    if a.ndim:
        text = f"no elements: the shape is {a.shape}"
    else:
        value = source.read(())
        text = f"{source.label} = {value}" if source.label else f"{value}"
    one.text(0.5, 0.5, text, ha="center", va="center", transform=one.transAxes, fontsize=10)
    names = axis_titles(a.dims, a.ndim)
    for which, j in zip("xy", reversed(shown), strict=False):
        scale = Scale(names[j], a.shape[j], coordinates[j], np.arange(min(1, a.shape[j])))
        n = max(1, a.shape[j])
        limit = (-0.5, n - 0.5) if which == "x" else (n - 0.5, -0.5)
        (one.set_xlim if which == "x" else one.set_ylim)(*limit)
        Scale(scale.label, a.shape[j], None, np.arange(0)).finish(one, which)
        if not a.shape[j]:
            (one.set_xticks if which == "x" else one.set_yticks)([])
    if len(shown) < 2:
        one.set_ylabel(source.label)
        one.set_yticks([])
    if not shown:
        one.set_xticks([])
    one.set_title("" if title is None else title, fontsize=10)
    return saved(figure, path, dpi, ax)


def _draw_chunk_ends(a: Any, ax: Any, shown: Sequence[int], scales: Sequence[Scale]) -> None:
    """Draw a thin line at the end of each chunk inside the bounds."""
    patheffects: Any = require("matplotlib.patheffects", "plot", "a picture")
    # Light in dark parts of the picture, dark in light ones.
    effects = [patheffects.withStroke(linewidth=1.4, foreground="#00000055")]
    offset = a.info()["offset"]
    both = zip(reversed(shown), reversed(scales), (ax.axvline, ax.axhline), strict=False)
    for j, scale, line in both:
        first = -offset[j] % a.chunks[j] or a.chunks[j]
        ends_of_chunks = np.arange(first, a.shape[j], a.chunks[j])
        if 0 < len(ends_of_chunks) <= _MOST_LINES:
            for place in scale.edges(ends_of_chunks).tolist():
                line(place, color="white", linewidth=0.6, alpha=0.8, path_effects=effects)
