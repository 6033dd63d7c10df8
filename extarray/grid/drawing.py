"""The geometry of pictures of a grid: cells, lines, colours of growth, and labels.

A picture for a notebook has a bounded number of cells and colours, however large the array and long
its history.  A growth map has a cell for every chunk.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.common.errors import ArgumentError
from extarray.common.terminal import printable
from extarray.grid.address_runs import segment_boxes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "SHORTEST",
    "CellAxis",
    "Face",
    "Growth",
    "Growths",
    "Panel",
    "Segment",
    "axis_titles",
    "cell_axis",
    "cell_lines",
    "held_axes",
    "panel_axis",
    "panels_of",
    "runs_of_equals",
    "segment_colours",
    "segment_labels",
    "segments",
    "text_colour",
]

#: Axis and side that grew, and the grid after it as a box of chunk indices.
Growth = tuple[int, int, tuple[int, ...], tuple[int, ...]]

# Dark blue, teal, green, yellow, from the first growth to the last; distinct even without colour.
_RAMP = [(58, 76, 139), (40, 122, 142), (53, 163, 124), (134, 200, 84), (240, 214, 73)]
_SHADES = 16  # number of colours; more growths share one with their neighbours

# Pixels.
_LONGEST, SHORTEST = 190.0, 24.0  # of an axis
_LEAST_CELL = 4.0  # smaller cells get no lines

_MOST_CELLS = 48  # along an axis; more chunks share cells
_LISTED = 4  # growths described in words; the last of them is the array's last

# Colours by Okabe and Ito, for the axis that grew: colour-blind readers can tell them apart, too.
# Axes beyond the sixth start again.
_AXIS_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
_FIRST_COLOUR = "#F2F2F2"

_MOST_PANELS = 40
_MOST_CHUNKS = 1 << 20  # of a panel, whose side has about as many pixels as cells


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


# -- growth --------------------------------------------------------------------------------------


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


class Growths:
    """The growths of a grid, each with the shade of the chunks that it added.

    A chunk exists once every axis is long enough: of growths that share a shade, only the grid
    after the last one matters.
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
        red, green, blue = np.rint(_mixed(_RAMP[low], _RAMP[low + 1], place - low)).astype(int)
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


def segment_labels(history: list[Segment], names: Sequence[str]) -> list[str]:
    """Return a label for each segment: its addresses, and the growth that made it."""
    labels = []
    for number, one in enumerate(history):
        last = one.start_address + one.size - 1
        addresses = f"{one.start_address} to {last}" if one.size > 1 else f"{last}"
        growth = "first segment" if number == 0 else f"{names[one.axis]} by {one.by}"
        labels.append(f"{addresses}: {growth}")
    return labels


def segment_colours(history: list[Segment]) -> NDArray[np.float64]:
    """Return a colour (red, green, blue in 0...1) a segment, by axis; later ones are darker."""
    colours = np.empty((len(history), 3))
    for axis in {segment.axis for segment in history}:
        numbers = [n for n, s in enumerate(history) if s.axis == axis and n > 0]
        base = _rgb(_AXIS_COLOURS[axis % len(_AXIS_COLOURS)])
        light, dark = 0.70 * 1.0 + 0.30 * base, 0.52 * base
        for place, number in enumerate(numbers):
            # From a tint over the pure colour to a shade; a single segment has the pure colour.
            t = 0.5 if len(numbers) == 1 else place / (len(numbers) - 1)
            ends = (light, base) if t < 0.5 else (base, dark)
            colours[number] = _mixed(*ends, 2 * t if t < 0.5 else 2 * t - 1)
    colours[0] = _rgb(_FIRST_COLOUR)
    return colours


def _mixed(one: Any, other: Any, share: float) -> NDArray[np.float64]:
    """Mix two colours."""
    low, high = np.asarray(one, np.float64), np.asarray(other, np.float64)
    mixed: NDArray[np.float64] = low + (high - low) * share
    return mixed


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


# -- a cuboid in a bounded number of cells -------------------------------------------------------


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
    """A side of the cuboid: its first corner, and the vector on paper for a pixel of each axis."""

    corner: tuple[float, float]
    rows: CellAxis
    down: tuple[float, float]
    columns: CellAxis
    right: tuple[float, float]
    shades: NDArray[np.int64]  # of each cell
    veil: str  # a colour drawn over it, to set the sides apart


def cell_axis(
    axis: int,
    name: str,
    extent: int,
    offset: int,
    chunk: int,
    longest: int,
    growths: Growths,
) -> CellAxis:
    """Return an axis with a bounded number of cells, for the chunks that hold the elements.

    `offset` is the number of elements of the chunks before index 0; `longest`, the extent of the
    longest axis of the picture.
    """
    first, lead = divmod(offset, chunk)
    n = -(-(extent + lead) // chunk)
    length = max(SHORTEST, _LONGEST * extent / longest)
    cells = min(n, _MOST_CELLS)
    stops = [(cell + 1) * n // cells for cell in range(cells)]
    # Of several chunks in a cell, draw the one in the middle.
    middles = [(low + high) // 2 for low, high in zip([0, *stops], stops, strict=False)]
    return CellAxis(
        label=f"{name} · {extent:,}",
        edges=[0.0, *(min(stop * chunk - lead, extent) / extent * length for stop in stops)],
        shades=growths.shades(axis, first + np.array(middles, np.int64)),
        has_lines=cells == n and length / n >= _LEAST_CELL,
    )


def runs_of_equals(values: Sequence[Any]) -> list[tuple[int, int]]:
    """Return the ranges of equal neighbours.

    Examples
    --------
    >>> runs_of_equals("aab")
    [(0, 2), (2, 3)]
    """
    starts = [i for i, value in enumerate(values) if i == 0 or value != values[i - 1]]
    return list(zip(starts, [*starts[1:], len(values)], strict=True))


# -- planes of all chunks ------------------------------------------------------------------------


class Panel(NamedTuple):
    """A plane of chunks as drawn: rows downward, columns to the right."""

    addresses: NDArray[np.int64]  # (rows, columns)
    row_name: str  # names and title may be empty
    column_name: str
    title: str


def held_axes(at: Mapping[int, int] | None, grid: tuple[int, ...]) -> dict[int, int]:
    """Return the axes held at one chunk index, counted from 0; refuse other indices."""
    held: dict[int, int] = {}
    for axis, index in (at or {}).items():
        if not -len(grid) <= axis < len(grid):
            raise ArgumentError(f"at names axis {axis}, but the array has {len(grid)} axes")
        j = axis % len(grid)
        if not -grid[j] <= index < grid[j]:
            raise ArgumentError(f"at gives chunk index {index} for axis {j}, which has {grid[j]}")
        held[j] = index % grid[j]
    return held


def panel_axis(axis: int, free: list[int], ndim: int) -> int | None:
    """Return the axis that gets one panel for each index, if there are three to show."""
    if len(free) < 3:
        return None
    if not -ndim <= axis < ndim or axis % ndim not in free:
        raise ArgumentError(f"axis {axis} has no panels: choose one of {free}")
    return axis % ndim


def panels_of(
    axial: Any,
    grid: tuple[int, ...],
    held: dict[int, int],
    free: list[int],
    across: int | None,
    names: list[str],
) -> list[Panel]:
    """Return the planes of chunks of a growth map; refuse more than anybody could see.

    `held` maps axes to their one chunk index; `free` has the other one to three axes.  If three,
    `across` is the one that gets a plane for each of its chunk indices.
    """
    plane = [j for j in free if j != across]
    count = 1 if across is None else grid[across]
    if count > _MOST_PANELS:
        raise ArgumentError(
            f"axis {across} has {count} chunk indices, but at most {_MOST_PANELS} panels are "
            f"drawn; choose another axis, or one index with at={{{across}: index}}"
        )
    height = grid[plane[0]] if len(plane) == 2 else 1
    width = grid[plane[-1]]
    if height * width > _MOST_CHUNKS:
        raise ArgumentError(
            f"cannot draw {height} x {width} chunks of the grid {grid}: at most {_MOST_CHUNKS} "
            "are drawn; hold an axis at one chunk index with at={axis: index}"
        )
    panels = []
    for number in range(count):
        indices = np.zeros((height, width, len(grid)), dtype=np.int64)
        for j, index in held.items():
            indices[..., j] = index
        if across is not None:
            indices[..., across] = number
        if len(plane) == 2:
            indices[..., plane[0]] = np.arange(height)[:, None]
        indices[..., plane[-1]] = np.arange(width)
        addresses = np.asarray(axial.addresses(indices.reshape(-1, len(grid))))
        panels.append(
            Panel(
                addresses.reshape(height, width),
                names[plane[0]] if len(plane) == 2 else "",
                names[plane[-1]],
                "" if across is None else f"{names[across]}, chunk {number}",
            )
        )
    return panels


def cell_lines(owner: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lines, (n, 2 ends, x and y), between cells of one segment, and of different ones."""
    found: list[list[NDArray[np.float64]]] = [[], []]
    upright = owner[:, :-1] != owner[:, 1:]
    level = owner[:-1, :] != owner[1:, :]
    for different in (False, True):
        i, j = np.nonzero(upright == different)
        found[different].append(
            np.stack([np.stack([j + 0.5, i - 0.5], 1), np.stack([j + 0.5, i + 0.5], 1)], 1)
        )
        i, j = np.nonzero(level == different)
        found[different].append(
            np.stack([np.stack([j - 0.5, i + 0.5], 1), np.stack([j + 0.5, i + 0.5], 1)], 1)
        )
    return np.concatenate(found[False]), np.concatenate(found[True])
