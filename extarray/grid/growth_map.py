"""The growth map: the chunks of a plane of the grid, the segments that they belong to, and bounds.

Each picture of it (matplotlib, text, HTML, the page in the browser) draws the rectangles, lines,
colours and labels that this module computes, in this order, and adds nothing but the size.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.common.arguments import axis_named
from extarray.common.errors import ArgumentError
from extarray.common.hints import hint
from extarray.common.terminal import printable
from extarray.grid.address_runs import segment_boxes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Bounds = Sequence[tuple[float, float]]
    Classes = Callable[[NDArray[np.int64]], NDArray[np.int64]]

__all__ = [
    "Plane",
    "Segment",
    "axis_titles",
    "grid_bounds",
    "legend_rows",
    "mixed",
    "plane_at",
    "planes_of",
    "rectangles_of",
    "segment_colours",
    "segment_labels",
    "segment_numbers",
    "segment_words",
    "segments",
    "text_colour",
]

# Colours by Okabe and Ito, for the axis that grew: colour-blind readers can tell them apart, too.
# Axes beyond the sixth start again.
_AXIS_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
_FIRST_COLOUR = "#F2F2F2"

_MOST_PANELS = 40
_MOST_CHUNKS = 1 << 20  # of a panel, whose side has about as many pixels as cells
_LEAST_INSIDE = 0.5  # of a cell, or the label stands in the middle of the whole cell


def axis_titles(names: Sequence[str] | None, ndim: int) -> list[str]:
    """Return the names of axes, or their numbers if they have none; refuse a wrong number of names.

    Examples
    --------
    >>> axis_titles(None, 2)
    ['axis 0', 'axis 1']
    """
    if names is None:
        return [f"axis {j}" for j in range(ndim)]
    if len(names) != ndim:
        raise ArgumentError(f"names has {len(names)} entries, but the array has {ndim} axes")
    return [printable(str(name)) for name in names]


# -- segments ------------------------------------------------------------------------------------


class Segment(NamedTuple):
    """The chunks that one growth added, or several consecutive growths of one axis.

    All values are in chunks.
    """

    axis: int
    start_index: int  # lowest chunk index along the axis
    by: int  # number of chunk indices added along the axis
    start_address: int
    size: int  # number of chunks


def segments(a: Any) -> list[Segment]:
    """Return the growth history of an array, from its axial vectors.

    Parameters
    ----------
    a : ExtArray or Axial
        The array, or its ``axial``.

    Returns
    -------
    list of Segment
        In order of allocation, which is the order of start addresses.  Segments without chunks
        (made while an axis had length 0) are left out.

    Notes
    -----
    O(k s log s) for s segments of k axes.

    Examples
    --------
    >>> import extarray as xa
    >>> with xa.create(None, shape=(4, 3), dtype="u1", chunks=1) as a:
    ...     a.extend(axis=1, by=2)
    ...     segments(a)  # doctest: +NORMALIZE_WHITESPACE
    [Segment(axis=0, start_index=0, by=4, start_address=0, size=12),
     Segment(axis=1, start_index=3, by=2, start_address=12, size=8)]
    """
    axial = getattr(a, "axial", a)
    found, address = [], 0
    for axis, _, start, stop in segment_boxes(axial):
        size = math.prod(z - a for a, z in zip(start, stop, strict=True))
        if size and start:  # an array without axes never grew
            found.append(Segment(axis, start[axis], stop[axis] - start[axis], address, size))
        address += size
    return found


def segment_numbers(history: Sequence[Segment], addresses: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the segment that holds the chunk at each of some addresses."""
    starts = np.array([segment.start_address for segment in history], np.int64)
    return np.searchsorted(starts, addresses, side="right") - 1


def segment_words(history: Sequence[Segment], number: int, names: Sequence[str]) -> str:
    """Return the growth that made a segment, in words."""
    one = history[number]
    return f"{names[one.axis]} by {one.by}" if number else "first segment"


def segment_labels(history: Sequence[Segment], names: Sequence[str]) -> list[str]:
    """Return a label for each segment: its addresses, and the growth that made it."""
    labels = []
    for number, one in enumerate(history):
        last = one.start_address + one.size - 1
        addresses = f"{one.start_address} to {last}" if one.size > 1 else f"{last}"
        labels.append(f"{addresses}: {segment_words(history, number, names)}")
    return labels


def legend_rows(
    history: Sequence[Segment], names: Sequence[str], most: int
) -> list[tuple[list[int], str]]:
    """Return the rows of a legend: segments whose colours it shows, and a text.

    Each segment has a row, up to `most` of them; of more, each axis has one.
    """
    if len(history) <= most:
        return [([n], text) for n, text in enumerate(segment_labels(history, names))]
    rows = [([0], segment_words(history, 0, names))]
    for axis in sorted({segment.axis for segment in history[1:]}):
        mine = [n for n, s in enumerate(history) if s.axis == axis and n > 0]
        order = ", early to late" if len(mine) > 1 else ""
        text = f"{names[axis]}: {len(mine)} segment{'s' * (len(mine) > 1)}{order}"
        rows.append((sorted({mine[0], mine[len(mine) // 2], mine[-1]}), text))
    return rows


# -- colours -------------------------------------------------------------------------------------


def segment_colours(history: Sequence[Segment]) -> NDArray[np.float64]:
    """Return a colour (red, green, blue in 0...1) a segment, by axis; later ones are darker."""
    colours = np.empty((len(history), 3))
    for axis in {segment.axis for segment in history}:
        numbers = [n for n, s in enumerate(history) if s.axis == axis and n > 0]
        base = _rgb(_AXIS_COLOURS[axis % len(_AXIS_COLOURS)])
        light, dark = 0.70 * 1.0 + 0.30 * base, 0.52 * base
        for place, number in enumerate(numbers):
            # Go from a tint over the pure colour to a shade; a single segment has the pure colour.
            t = 0.5 if len(numbers) == 1 else place / (len(numbers) - 1)
            ends = (light, base) if t < 0.5 else (base, dark)
            colours[number] = mixed(*ends, 2 * t if t < 0.5 else 2 * t - 1)
    if history:
        colours[0] = _rgb(_FIRST_COLOUR)
    return colours


def mixed(one: Any, other: Any, share: float) -> NDArray[np.float64]:
    """Mix two colours."""
    low, high = np.asarray(one, np.float64), np.asarray(other, np.float64)
    colour: NDArray[np.float64] = low + (high - low) * share
    return colour


def _rgb(text: str) -> NDArray[np.float64]:
    return np.array([int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def _luminance(colour: NDArray[np.float64]) -> float:
    """Return the relative luminance as the Web Content Accessibility Guidelines define it."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def text_colour(cell: NDArray[np.float64]) -> str:
    """Return black or white, whichever contrasts more with a cell."""
    luminance = _luminance(cell)
    return "#000000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#FFFFFF"


# -- planes --------------------------------------------------------------------------------------


def rectangles_of(classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return rectangles that cover the cells of a plane, each with cells of one class.

    Each is (top, bottom, left, right), from the upper left; its class is that of its first cell.

    Examples
    --------
    >>> rectangles_of(np.array([[0, 0, 1], [0, 0, 1], [2, 2, 2]])).tolist()
    [[0, 2, 0, 2], [0, 2, 2, 3], [2, 3, 0, 3]]
    """
    height, width = classes.shape
    found = []
    for top, bottom in _runs(np.any(classes[1:] != classes[:-1], axis=1), height):
        row = classes[top]
        found += [(top, bottom, *sides) for sides in _runs(row[1:] != row[:-1], width)]
    return np.array(found, np.int64).reshape(-1, 4)


def _runs(breaks: NDArray[np.bool_], n: int) -> list[tuple[int, int]]:
    """Return the ranges of n cells between the breaks, of which `breaks[i]` is behind cell i."""
    edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), n] if n else []
    return list(itertools.pairwise(edges))


@dataclass(frozen=True)
class Plane:
    """Chunks of a plane of the grid, as a picture has them: rows downward, columns to the right.

    Places are in cells, from the upper left corner.

    Attributes
    ----------
    row_name, column_name, title : str
        A single axis has no `row_name`, a single plane no `title`.
    rows, columns : range
        The chunk index of each cell along both axes.
    addresses : (rows, columns) array of int64
    classes : (rows, columns) array of int64
        The segment of each chunk, or what else tells chunks apart; negative: none.
    inside : tuple of float
        Top, bottom, left and right of the part that lies inside the bounds of the array.
    """

    row_name: str
    column_name: str
    title: str
    rows: range
    columns: range
    addresses: NDArray[np.int64]
    classes: NDArray[np.int64]
    inside: tuple[float, float, float, float]

    @property
    def rectangles(self) -> NDArray[np.int64]:
        """Rectangles of cells of one class, as `rectangles_of` returns them."""
        return rectangles_of(self.classes)

    @property
    def breaks(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Cells whose right neighbour has another class, and cells whose lower one has."""
        classes = self.classes
        return classes[:, :-1] != classes[:, 1:], classes[:-1] != classes[1:]

    def lines(self, heavy: bool) -> NDArray[np.int64]:
        """Return lines between cells: of different classes (`heavy`), or of the same one.

        Each is (top, bottom, left, right), as long as it can be.
        """
        upright, level = self.breaks
        found = []
        for across, breaks in ((True, upright.T), (False, level)):
            for number, line in enumerate(breaks == heavy, start=1):
                edges = np.flatnonzero(np.diff(line, prepend=False, append=False)).reshape(-1, 2)
                place = np.full_like(edges, number)
                found.append(np.hstack([edges, place] if across else [place, edges]))
        return np.concatenate([np.empty((0, 4), np.int64), *found])

    @property
    def outside(self) -> list[tuple[float, float, float, float]]:
        """Rectangles outside the bounds, each (top, bottom, left, right)."""
        height, width = self.classes.shape
        top, bottom, left, right = self.inside
        parts = [
            (0.0, top, 0.0, float(width)),
            (bottom, float(height), 0.0, float(width)),
            (top, bottom, 0.0, left),
            (top, bottom, right, float(width)),
        ]
        return [part for part in parts if part[0] < part[1] and part[2] < part[3]]

    @property
    def is_outside(self) -> NDArray[np.bool_]:
        """The cells without an element inside the bounds, as a mask."""
        top, bottom, left, right = self.inside
        i, j = (np.arange(n) for n in self.classes.shape)
        rows, columns = (i < bottom) & (i + 1 > top), (j < right) & (j + 1 > left)
        return ~np.logical_and.outer(rows, columns)

    def labels(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        """Return where labels stand: y of each row, x of each column, and which cells are inside.

        A label stands in the middle of the part inside the bounds, if that is half of the cell or
        more; else the cell counts as outside, and has the label in its own middle.
        """
        height, width = self.classes.shape
        top, bottom, left, right = self.inside
        y, are_high = _middles(height, top, bottom)
        x, are_wide = _middles(width, left, right)
        return y, x, np.logical_and.outer(are_high, are_wide)


def _middles(n: int, low: float, high: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the middles of n cells along an axis, and which of them are inside its bounds."""
    cells = np.arange(n, dtype=np.float64)
    first, last = np.maximum(cells, low), np.minimum(cells + 1, high)
    inside = last - first >= _LEAST_INSIDE
    return np.where(inside, (first + last) / 2, cells + 0.5), inside


def plane_at(
    axial: Any,
    chunk: Sequence[int],
    rows: tuple[int, range] | None,
    columns: tuple[int, range],
    names: Sequence[str],
    *,
    classes: Classes,
    bounds: Bounds | None = None,
    title: str = "",
) -> Plane:
    """Return a plane of chunks.

    Parameters
    ----------
    axial : Axial
    chunk : sequence of int
        A chunk index for each axis; those along `rows` and `columns` do not matter.
    rows, columns : (int, range)
        An axis, and the chunk indices along it; `rows` may be None.
    names : sequence of str
        Names of all axes.
    classes : callable
        Gives the class of the chunk at each of some addresses.
    bounds : sequence of (float, float), optional
        Bounds of the array in the grid, as `grid_bounds` returns them; None: nothing is cut.
    """
    down = range(1) if rows is None else rows[1]
    across = columns[1]
    indices = np.empty((len(down), len(across), len(chunk)), np.int64)
    indices[...] = list(chunk)
    if rows is not None:
        indices[..., rows[0]] = np.asarray(down, np.int64)[:, None]
    indices[..., columns[0]] = np.asarray(across, np.int64)
    found = np.asarray(axial.addresses(indices.reshape(-1, len(chunk))), np.int64)
    addresses = found.reshape(len(down), len(across))
    inside = (0.0, float(len(down)), 0.0, float(len(across)))
    if bounds is not None:
        sides = [(0.0, 1.0) if rows is None else bounds[rows[0]], bounds[columns[0]]]
        shown = {columns[0]} if rows is None else {rows[0], columns[0]}
        held = [j for j in range(len(chunk)) if j not in shown]
        if any(chunk[j] + 1 <= bounds[j][0] or chunk[j] >= bounds[j][1] for j in held):
            sides[0] = (math.inf, math.inf)
        (top, bottom), (left, right) = (
            [min(max((place - along.start) / along.step, 0.0), len(along)) for place in side]
            for side, along in zip(sides, (down, across), strict=True)
        )
        inside = (top, bottom, left, right)
    return Plane(
        row_name="" if rows is None else names[rows[0]],
        column_name=names[columns[0]],
        title=title,
        rows=down,
        columns=across,
        addresses=addresses,
        classes=classes(addresses),
        inside=inside,
    )


def grid_bounds(a: Any) -> list[tuple[float, float]] | None:
    """Return the bounds in the grid, in chunks along each axis; None: no chunk is cut."""
    if not hasattr(a, "info"):
        return None
    lows = (n / c for n, c in zip(a.info()["offset"], a.chunks, strict=True))
    found = [(low, low + n / c) for low, n, c in zip(lows, a.shape, a.chunks, strict=True)]
    if all(b == (0, n) for b, n in zip(found, a.grid, strict=True)):
        return None
    return found


def planes_of(
    a: Any,
    *,
    axis: int | str = -1,
    at: Mapping[int | str, int] | None = None,
    names: Sequence[str],
    classes: Classes,
) -> list[Plane]:
    """Return the planes of chunks of a growth map; refuse more than anybody could see.

    Parameters
    ----------
    a : ExtArray or Axial
    axis : int or str
        For three axes: the one with a plane for each of its chunk indices.
    at : mapping of int or str to int, optional
        Axes that are held at one chunk index.  One to three others are left.
    names, classes
        As for `plane_at`.
    """
    axial, dims = getattr(a, "axial", a), getattr(a, "dims", None)
    grid = tuple(int(n) for n in axial.grid)
    held = _held_axes({_number(j, dims): index for j, index in (at or {}).items()}, grid)
    free = [j for j in range(len(grid)) if j not in held]
    if not free or len(free) > 3:
        raise ArgumentError(
            f"cannot draw {len(free)} axes of the grid {grid}: a growth map shows 1 to 3; "
            f"hold axes at one chunk index with {hint('at={axis: index}', '--at AXIS=INDEX')}"
        )
    if 0 in grid:
        raise ArgumentError(f"cannot draw the grid {grid}: it has no chunks; grow the array first")
    across = _panel_axis(_number(axis, dims), free, len(grid))
    count = 1 if across is None else grid[across]
    if count > _MOST_PANELS:
        raise ArgumentError(
            f"axis {across} has {count} chunk indices, but at most {_MOST_PANELS} panels are "
            f"drawn; choose another axis, or one index with "
            + hint(f"at={{{across}: index}}", f"--at {across}=INDEX")
        )
    *above, last = (j for j in free if j != across)
    height = grid[above[0]] if above else 1
    if height * grid[last] > _MOST_CHUNKS:
        raise ArgumentError(
            f"cannot draw {height} x {grid[last]} chunks of the grid {grid}: at most "
            f"{_MOST_CHUNKS} are drawn; hold an axis at one chunk index with "
            + hint("at={axis: index}", "--at AXIS=INDEX")
        )
    bounds = grid_bounds(a)
    planes = []
    for number in range(count):
        chunk = [held.get(j, number if j == across else 0) for j in range(len(grid))]
        plane = plane_at(
            axial,
            chunk,
            (above[0], range(height)) if above else None,
            (last, range(grid[last])),
            names,
            classes=classes,
            bounds=bounds,
            title="" if across is None else f"{names[across]}, chunk {number}",
        )
        planes.append(plane)
    return planes


def _number(axis: int | str, dims: Sequence[str] | None) -> int:
    """Return the number of an axis, given by number or name."""
    return axis_named(axis, dims) if isinstance(axis, str) else axis


def _held_axes(at: Mapping[int, int], grid: tuple[int, ...]) -> dict[int, int]:
    """Return the axes held at one chunk index, counted from 0; refuse other indices."""
    held: dict[int, int] = {}
    for axis, index in at.items():
        if not -len(grid) <= axis < len(grid):
            raise ArgumentError(f"at names axis {axis}, but the array has {len(grid)} axes")
        j = axis % len(grid)
        if not -grid[j] <= index < grid[j]:
            raise ArgumentError(f"at gives chunk index {index} for axis {j}, which has {grid[j]}")
        held[j] = index % grid[j]
    return held


def _panel_axis(axis: int, free: list[int], ndim: int) -> int | None:
    """Return the axis that gets one panel for each index, if there are three to show."""
    if len(free) < 3:
        return None
    if not -ndim <= axis < ndim or axis % ndim not in free:
        raise ArgumentError(f"axis {axis} has no panels: choose one of {free}")
    return axis % ndim
