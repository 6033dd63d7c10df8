"""The grid as a cuboid of a bounded number of cells and colours, and the file as a strip.

Whatever the size of an array, and however long its history, the picture for a notebook is small.
All of its geometry is here, in pixels; a renderer only draws.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.grid.growth_map import mixed, rectangles_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Cuboid", "Face", "Growth", "Growths", "Label", "Piece", "cuboid_of", "strip_of"]

#: Axis and side that grew, and the grid after it as a box of chunk indices.
Growth = tuple[int, int, tuple[int, ...], tuple[int, ...]]

# Dark blue, teal, green, yellow, from the first growth to the last; distinct even without colour.
_RAMP = [(58, 76, 139), (40, 122, 142), (53, 163, 124), (134, 200, 84), (240, 214, 73)]
_SHADES = 16  # number of colours; more growths share one with their neighbours

# Pixels.
_LONGEST, _SHORTEST = 190.0, 24.0  # of an axis
_LEAST_CELL = 4.0  # smaller cells get no lines
_LEAST_PIECE, _LEAST_LINED = 0.25, 1.5  # of the strip: to be seen, and to have a line before it
_MARGIN = 24.0  # at the left, for a rotated label
_LETTER = 6.0

_DEPTH = (0.42, -0.30)  # x and y on paper of a pixel along the axis that points away
_MOST_CELLS = 48  # along an axis; more chunks share cells
_LISTED = 4  # growths described in words; the last of them is the array's last


# -- growths -------------------------------------------------------------------------------------


class Growths:
    """The growths of a grid, each with the shade of the chunks that it added.

    A chunk was there as soon as the grid had become large enough along every axis: of the growths
    that share a shade, only the grid after the last matters.
    """

    def __init__(self, n: int, growth: Callable[[int], Growth]) -> None:
        # Until all axes have an extent, no chunk exists.
        first = bisect_left(range(n), True, key=lambda number: 0 not in _extents(growth(number)))
        self._growth = growth
        self._first = first
        self._n = n = n - first
        self.is_empty = n == 0
        self.n_shades = min(n, _SHADES)
        self._lasts = [(shade + 1) * n // self.n_shades - 1 for shade in range(self.n_shades)]
        grids = [growth(first + last) for last in self._lasts]
        self.starts = np.array([start for *_, start, _ in grids], np.int64)
        self.stops = np.array([stop for *_, stop in grids], np.int64)

    def shades(self, axis: int, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first shade in which an axis had each of some chunk indices."""
        return np.maximum(
            np.searchsorted(self.stops[:, axis], indices, side="right"),
            np.searchsorted(-self.starts[:, axis], -indices, side="left"),
        )

    def colour(self, shade: int) -> str:
        """Return the colour of a shade, in CSS."""
        place = shade / max(1, self.n_shades - 1) * (len(_RAMP) - 1)
        low = min(int(place), len(_RAMP) - 2)
        red, green, blue = np.rint(mixed(_RAMP[low], _RAMP[low + 1], place - low)).astype(int)
        return f"#{red:02x}{green:02x}{blue:02x}"

    def shares(self) -> list[float]:
        """Return the share of the file at which each shade ends."""
        totals = [math.prod(extents) for extents in (self.stops - self.starts).tolist()]
        return [total / totals[-1] for total in totals]

    def told(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Return colours and words for a few growths; omitted ones have words without a colour."""
        n = self._n
        numbers = range(n) if n <= _LISTED + 1 else [*range(_LISTED - 1), n - 1]
        words = []
        for k in numbers:
            axis, side, *_ = growth = self._growth(self._first + k)
            extents = _extents(growth)
            if k == 0:
                text = f"first {'×'.join(map(str, extents))}"
            else:
                before = _extents(self._growth(self._first + k - 1))
                where = " at its start" if side else ""
                text = f"{names[axis]} +{extents[axis] - before[axis]:,}{where}"
            words.append((self.colour(bisect_left(self._lasts, k)), text))
        if len(words) < n:
            words.insert(-1, ("", f"… {n - len(words):,} more"))
        return words


def _extents(growth: Growth) -> list[int]:
    """Return the extents of the grid after a growth."""
    *_, start, stop = growth
    return [b - a for a, b in zip(start, stop, strict=True)]


class Piece(NamedTuple):
    """A part of the strip, in pixels, and its shade."""

    start: float
    stop: float
    shade: int
    has_line: bool  # before it


def strip_of(growths: Growths, width: float) -> list[Piece]:
    """Return the file as a strip of a width: a piece for each shade that can be seen."""
    pieces, x = [], 0.0
    for shade, share in enumerate(growths.shares()):
        stop = share * width
        # A piece too small to be seen goes with the next one.
        if stop - x < _LEAST_PIECE and share < 1:
            continue
        pieces.append(Piece(x, stop, shade, 0 < x and stop - x > _LEAST_LINED))
        x = stop
    return pieces


# -- the cuboid ----------------------------------------------------------------------------------


class Label(NamedTuple):
    """A text and its place; `anchor` is the part of the text that is there, as in SVG."""

    text: str
    x: float
    y: float
    anchor: str
    is_turned: bool = False


@dataclass
class CellAxis:
    """An axis as drawn: cells between edges, in pixels, and the first shade of each."""

    label: str
    edges: list[float]
    shades: NDArray[np.int64]
    has_lines: bool

    @property
    def length(self) -> float:
        """Pixels."""
        return self.edges[-1]


@dataclass
class Face:
    """A side of the cuboid.

    Attributes
    ----------
    corner : (float, float)
        x and y of its first corner on paper.
    down, right : (float, float)
        x and y on paper of a pixel along the rows, and along the columns.
    rows, columns : CellAxis
    veil : str
        A colour over the face, so that the sides stand apart; empty: none.
    """

    corner: tuple[float, float]
    rows: CellAxis
    down: tuple[float, float]
    columns: CellAxis
    right: tuple[float, float]
    shades: NDArray[np.int64]  # of each cell
    veil: str = ""

    def place(self, down: float, right: float) -> tuple[float, float]:
        """Return x and y on paper of a place on the face."""
        dx, dy = self.step(down, right)
        return self.corner[0] + dx, self.corner[1] + dy

    def step(self, down: float, right: float) -> tuple[float, float]:
        """Return x and y on paper of a step along the face."""
        (dx, dy), (rx, ry) = self.down, self.right
        return down * dx + right * rx, down * dy + right * ry

    def rectangles(self) -> dict[int, list[tuple[float, float, float, float]]]:
        """Return top, bottom, left and right of the parts of each shade, in pixels of the face."""
        found: dict[int, list[tuple[float, float, float, float]]] = {}
        rows, columns = self.rows.edges, self.columns.edges
        for top, bottom, left, right in rectangles_of(self.shades).tolist():
            box = (rows[top], rows[bottom], columns[left], columns[right])
            found.setdefault(int(self.shades[top, left]), []).append(box)
        return {shade: found[shade] for shade in sorted(found)}

    def lines(self) -> list[tuple[float, float, float, float]]:
        """Return lines between chunks, each top, bottom, left and right."""
        tall, wide = self.rows.length, self.columns.length
        level = self.rows.edges[1:-1] if self.rows.has_lines else []
        upright = self.columns.edges[1:-1] if self.columns.has_lines else []
        return [(y, y, 0.0, wide) for y in level] + [(0.0, tall, x, x) for x in upright]


class Cuboid(NamedTuple):
    """A row, a plane or a cuboid of chunks on paper of a size; faces and labels have one origin."""

    width: float
    height: float
    origin: tuple[float, float]
    faces: list[Face]
    labels: list[Label]


def cuboid_of(facts: Mapping[str, Any], names: Sequence[str], growths: Growths) -> Cuboid:
    """Return the grid of chunks as it is drawn: the three axes with most chunks, or fewer.

    `facts` is what `ExtArray.info` gives.
    """
    shape, grid = facts["shape"], facts["grid"]
    most = sorted(sorted(range(len(shape)), key=lambda j: -grid[j])[:3])
    longest = max((shape[j] for j in most), default=1)
    axes = [
        _cell_axis(j, names[j], shape[j], facts["offset"][j], facts["chunks"][j], longest, growths)
        for j in most
    ]
    while len(axes) < 2:  # a row, or one cell
        axes.insert(0, CellAxis("", [0.0, _SHORTEST], np.zeros(1, np.int64), False))
    rows, columns = axes[-2:]
    front = np.maximum.outer(rows.shades, columns.shades)
    faces = [Face((0.0, 0.0), rows, (0.0, 1.0), columns, (1.0, 0.0), front)]
    is_turned = _width(rows.label) < rows.length
    left = _MARGIN if is_turned else 12 + _width(rows.label)
    labels = [
        Label(columns.label, columns.length / 2, rows.length + 14, "middle"),
        Label(rows.label, -8, rows.length / 2, "middle", is_turned=True)
        if is_turned
        else Label(rows.label, -8, rows.length / 2 + 4, "end"),
    ]
    far_x = far_y = 0.0
    right = max(8.0, (_width(columns.label) - columns.length) / 2)
    if len(axes) == 3:
        depth = axes[0]
        far_x, far_y = _DEPTH[0] * depth.length, _DEPTH[1] * depth.length
        # The top shows the first rows, the side the last columns.
        top = np.maximum.outer(depth.shades, columns.shades)
        side = np.maximum.outer(rows.shades, np.maximum(depth.shades, columns.shades[-1]))
        at = columns.length
        faces += [
            Face((0.0, 0.0), depth, _DEPTH, columns, (1.0, 0.0), top, "#fff"),
            Face((at, 0.0), rows, (0.0, 1.0), depth, _DEPTH, side, "#000"),
        ]
        labels.append(Label(depth.label, at + far_x / 2 + 7, rows.length + far_y / 2 + 9, "start"))
        right = max(far_x, far_x / 2 + 7 + _width(depth.label))
    bottom = rows.length + 20
    others = [names[j] for j in range(len(shape)) if j not in most]
    if others:
        text = f"{', '.join(others)}: first chunk"
        labels.append(Label(text, columns.length / 2, bottom + 8, "middle"))
        bottom += 16
    return Cuboid(
        left + columns.length + right, bottom - far_y + 4, (left, 4 - far_y), faces, labels
    )


def _width(text: str) -> float:
    """Estimate the width of a label in pixels."""
    return _LETTER * len(text)


def _cell_axis(
    axis: int,
    name: str,
    extent: int,
    offset: int,
    chunk: int,
    longest: int,
    growths: Growths,
) -> CellAxis:
    """Return an axis with a bounded number of cells, for the chunks that hold the elements.

    `offset` counts the elements of the chunks before index 0, `longest` those of the longest axis
    of the picture.
    """
    first, lead = divmod(offset, chunk)
    n = -(-(extent + lead) // chunk)
    length = max(_SHORTEST, _LONGEST * extent / longest)
    cells = min(n, _MOST_CELLS)
    stops = [(cell + 1) * n // cells for cell in range(cells)]
    # A cell of several chunks has the shade of the middle one.
    middles = [(low + high) // 2 for low, high in zip([0, *stops], stops, strict=False)]
    return CellAxis(
        label=f"{name} · {extent:,}",
        edges=[0.0, *(min(stop * chunk - lead, extent) / extent * length for stop in stops)],
        shades=growths.shades(axis, first + np.array(middles, np.int64)),
        has_lines=cells == n and length / n >= _LEAST_CELL,
    )
