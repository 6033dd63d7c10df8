"""An array as HTML, for notebooks: a table of facts, its grid of chunks, and how it grew.

Everything stands in the element itself: no scripts, no style sheets, no files.  Text has the colour
of the page, and what is drawn is visible on light and on dark.  However large the grid, the
picture has a bounded number of cells.
"""

from __future__ import annotations

import html
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.info import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["describe"]

Box = tuple[int, int, tuple[int, ...], tuple[int, ...]]

# From the first growth to the last: dark blue, teal, green, yellow; apart also without colour.
_RAMP = [(58, 76, 139), (40, 122, 142), (53, 163, 124), (134, 200, 84), (240, 214, 73)]
_SHADES = 16  # growths beyond this number share colours with their neighbours

# Pixels.
_LONGEST, _SHORTEST = 190.0, 24.0  # of an axis
_LEAST_CELL = 4.0  # or the grid has no lines
_MARGIN = 24.0
_STRIP = (230.0, 12.0)

_DEPTH = (0.42, -0.30)  # what a pixel of the axis that points away is on paper
_MOST_CELLS = 48  # along an axis; more chunks are drawn together
_LISTED = 4  # growths told in words, of which the last is the array's last

_LINES = 'fill="none" stroke="#fff" stroke-opacity=".55" stroke-width=".8"'
_OUTLINE = 'fill="none" stroke="currentColor" stroke-opacity=".65" stroke-width="1.1"'
_TEXT = 'fill="currentColor" font-size="11"'
_CELL = (
    "padding:2px 14px 2px 0;text-align:left;vertical-align:top;"
    "border:0;background:none;color:inherit"
)
_HEAD = f"{_CELL};font-weight:600;white-space:nowrap;opacity:.65"


def describe(facts: Mapping[str, Any], boxes: Iterable[Box]) -> str:
    """HTML element that shows an array.

    Parameters
    ----------
    facts : mapping
        What `ExtArray.info` gives.
    boxes : iterable of (int, int, tuple of int, tuple of int)
        Axis and side of each growth, and the box of chunks that it adjoined, in order; the first
        entry is the array as it was created.

    Returns
    -------
    str
        A ``<div>`` with a table and pictures in SVG.

    Examples
    --------
    >>> import extarray as xa
    >>> facts = xa.zeros((4, 3), chunks=(2, 2)).info()
    >>> text = describe(facts, [(0, 0, (0, 0), (2, 2))])
    >>> text.startswith("<div"), text.count("<svg"), "(4, 3)" in text
    (True, 1, True)
    """
    # Before all axes have an extent there is no chunk.
    history = _History([box for box in boxes if all(map(operator.lt, *box[2:]))])
    pictures = [_grid(facts, history) if len(history) else _nothing()]
    if len(history) > 1:
        pictures.append(_growth(history))
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:8px 32px;align-items:center;'
        'line-height:1.4">' + _table(facts) + "<div>" + "".join(pictures) + "</div></div>"
    )


# -- the table -----------------------------------------------------------------------------------


def _table(facts: Mapping[str, Any]) -> str:
    """Facts that matter at a glance, of the array and of a chunk."""
    count, segments = math.prod(facts["grid"]), facts["segments"]
    chunk_bytes = math.prod(facts["chunks"]) * facts["dtype"].itemsize
    order = "" if facts["order"] == "C" else f", order {facts['order']}"
    rows = [
        ("", "<b>Array</b>", "<b>Chunk</b>"),
        ("Shape", _text(facts["shape"]), _text(facts["chunks"]) + order),
        ("Bytes", format_bytes(facts["logical_bytes"]), format_bytes(chunk_bytes)),
        ("Chunks", f"{count:,}", f"{_text(facts['grid'])} grid"),
    ]
    number = f"{segments:,} segment{'' if segments == 1 else 's'}"
    wide = [
        ("Type", f"{_text(facts['dtype'])}, fill value {_text(facts['fill_value'])}"),
        ("Growth", f"{number}, {100 * facts['utilisation']:.3g} % of the space in use"),
        ("Where", _where(facts)),
    ]
    lines = [
        f'<tr style="background:none"><th style="{_HEAD}">{name}</th>'
        f'<td style="{_CELL}">{array}</td><td style="{_CELL}">{chunk}</td></tr>'
        for name, array, chunk in rows
    ]
    lines += [
        f'<tr style="background:none"><th style="{_HEAD}">{name}</th>'
        f'<td colspan="2" style="{_CELL};overflow-wrap:anywhere">{text}</td></tr>'
        for name, text in wide
    ]
    return (
        '<table style="border-collapse:collapse;margin:0;max-width:31em"><tbody>'
        + "".join(lines)
        + "</tbody></table>"
    )


def _where(facts: Mapping[str, Any]) -> str:
    if facts["path"] is None:
        return "in memory"
    size = format_bytes(facts["disk_bytes"])
    return f"{_text(facts['path'])} ({size} on disk), mode {_text(facts['mode'])}"


def _text(value: Any) -> str:
    """Text of a value, cut where it is long."""
    text = str(value)
    if len(text) > 240:
        text = f"{text[:160]} … {text[-60:]}"
    return html.escape(text)


# -- growth --------------------------------------------------------------------------------------


class _History:
    """Which growth adjoined which chunk, and its colour.

    A chunk was there as soon as the grid had become large enough along every axis.
    """

    def __init__(self, boxes: Sequence[Box]) -> None:
        self.axes = [axis for axis, *_ in boxes]
        self.at_start = [side == 1 for _, side, *_ in boxes]
        starts = np.array([start for *_, start, _ in boxes], np.int64)
        stops = np.array([stop for *_, stop in boxes], np.int64)
        #: Chunks that each growth adjoined.
        self.sizes = [math.prod(extents) for extents in (stops - starts).tolist()]
        # The grid after each growth.
        self.starts = np.minimum.accumulate(starts, axis=0) if boxes else starts
        self.stops = np.maximum.accumulate(stops, axis=0) if boxes else stops

    def __len__(self) -> int:
        return len(self.axes)

    def by(self, growth: int) -> int:
        """Chunk indices that a growth, not the first, added to its axis."""
        axis = self.axes[growth]
        extents = (
            self.stops[growth - 1 : growth + 1, axis] - self.starts[growth - 1 : growth + 1, axis]
        )
        return int(extents[1] - extents[0])

    def owners(self, axis: int, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first growth after which an axis had these chunk indices."""
        return np.maximum(
            np.searchsorted(self.stops[:, axis], indices, side="right"),
            np.searchsorted(-self.starts[:, axis], -indices, side="left"),
        )

    def shade(self, growth: Any) -> Any:
        """Number of the colour of a growth, or of each of an array of growths."""
        n = len(self)
        return growth if n <= _SHADES else growth * _SHADES // n

    def colour(self, shade: int) -> str:
        """Colour of a shade, in CSS."""
        place = shade / max(1, min(len(self), _SHADES) - 1) * (len(_RAMP) - 1)
        low = min(int(place), len(_RAMP) - 2)
        part = place - low
        mixed = [round(a + (b - a) * part) for a, b in zip(_RAMP[low], _RAMP[low + 1], strict=True)]
        return f"#{mixed[0]:02x}{mixed[1]:02x}{mixed[2]:02x}"


def _growth(history: _History) -> str:
    """The file as a strip of segments, and the growths in words."""
    width, height = _STRIP
    ends = np.cumsum(history.sizes, dtype=float)
    ends *= width / max(1.0, float(ends[-1]))
    pieces, x, n = [], 0.0, len(history)
    for growth, end in enumerate(ends.tolist()):
        shade = history.shade(growth)
        # Neighbours of one colour, and what is too small to be seen, go with what follows.
        if growth + 1 < n and (history.shade(growth + 1) == shade or end - x < 0.25):
            continue
        pieces.append(
            f'<rect x="{_n(x)}" width="{_n(end - x)}" height="{height:g}" '
            f'fill="{history.colour(shade)}"/>'
        )
        if n <= _SHADES and 0 < x and end - x > 1.5:
            pieces.append(f'<path d="M{_n(x)} 0v{height:g}" {_LINES}/>')
        x = end
    strip = (
        f'<svg width="{width:g}" height="{height:g}" style="display:block;border-radius:3px" '
        'role="img" aria-label="Segments in the order of the file">' + "".join(pieces) + "</svg>"
    )
    told = list(range(n)) if n <= _LISTED + 1 else [*range(_LISTED - 1), None, n - 1]
    words = [
        f"<span>… {n - _LISTED:,} more</span>"
        if growth is None
        else '<span style="white-space:nowrap"><span style="display:inline-block;width:9px;'
        "height:9px;border-radius:2px;margin-right:4px;"
        f'background:{history.colour(history.shade(growth))}"></span>{_told(history, growth)}'
        "</span>"
        for growth in told
    ]
    return (
        f'<div style="margin:6px 0 0 {_MARGIN:g}px">'
        + strip
        + '<div style="display:flex;flex-wrap:wrap;'
        f'gap:0 10px;max-width:{width:g}px;font-size:11px;margin-top:4px">'
        + "".join(words)
        + "</div></div>"
    )


def _told(history: _History, growth: int) -> str:
    if growth == 0:
        first = (history.stops[0] - history.starts[0]).tolist()
        return f"first {_text('×'.join(map(str, first)))}"
    where = " at its start" if history.at_start[growth] else ""
    return f"axis {history.axes[growth]} +{history.by(growth):,}{where}"


# -- the grid ------------------------------------------------------------------------------------


@dataclass
class _Axis:
    """An axis as it is drawn: cells between edges, in pixels, and the first growth of each."""

    label: str
    edges: list[float]
    owners: NDArray[np.int64]
    has_lines: bool

    @property
    def length(self) -> float:
        return self.edges[-1]


@dataclass
class _Face:
    """A side of the box: its first corner, and for both axes what a pixel of them is on paper."""

    corner: tuple[float, float]
    rows: _Axis
    down: tuple[float, float]
    columns: _Axis
    right: tuple[float, float]
    owners: NDArray[np.int64]  # the growth that adjoined each cell
    veil: str  # a colour over it, so that the sides stand apart


def _grid(facts: Mapping[str, Any], history: _History) -> str:
    """The grid of chunks: a row, a plane, or a box of the three axes with most chunks."""
    shape, grid = facts["shape"], facts["grid"]
    most = sorted(sorted(range(len(shape)), key=lambda j: -grid[j])[:3])
    longest = max((shape[j] for j in most), default=1)
    axes = [_axis(j, shape[j], facts["chunks"][j], longest, history) for j in most]
    while len(axes) < 2:  # a row, or one cell
        axes.insert(0, _Axis("", [0.0, _SHORTEST], np.zeros(1, np.int64), False))
    rows, columns = axes[-2:]
    front = np.maximum.outer(rows.owners, columns.owners)
    faces = [_Face((0.0, 0.0), rows, (0.0, 1.0), columns, (1.0, 0.0), front, "none")]
    labels = [
        _label(columns.label, columns.length / 2, rows.length + 14, "middle"),
        _label(rows.label, -8, rows.length / 2 + 4, "end")
        if len(rows.label) < 3
        else _label(rows.label, -8, rows.length / 2, "middle", turned=True),
    ]
    far_x = far_y = right_margin = 0.0
    if len(axes) == 3:
        depth = axes[0]
        far_x, far_y = _DEPTH[0] * depth.length, _DEPTH[1] * depth.length
        # The top shows the first rows, the side the last columns.
        top = np.maximum.outer(depth.owners, columns.owners)
        side = np.maximum.outer(rows.owners, np.maximum(depth.owners, columns.owners[-1]))
        at = columns.length
        faces += [
            _Face((0.0, 0.0), depth, _DEPTH, columns, (1.0, 0.0), top, "#fff"),
            _Face((at, 0.0), rows, (0.0, 1.0), depth, _DEPTH, side, "#000"),
        ]
        labels.append(_label(depth.label, at + far_x / 2 + 7, rows.length + far_y / 2 + 9, "start"))
        right_margin = 7.0 * len(depth.label)
    bottom = rows.length + 20
    others = [j for j in range(len(shape)) if j not in most]
    if others:
        names = f"axes {', '.join(map(str, others))}" if len(others) > 1 else f"axis {others[0]}"
        labels.append(_label(f"{names}: first chunk", columns.length / 2, bottom + 8, "middle"))
        bottom += 16
    width = _MARGIN + columns.length + max(far_x, far_x / 2 + right_margin, 8.0)
    return (
        f'<svg width="{_n(width)}" height="{_n(bottom - far_y + 4)}" '
        'style="display:block;overflow:visible" role="img" aria-label="Grid of chunks">'
        f'<g transform="translate({_n(_MARGIN)} {_n(4 - far_y)})">'
        + "".join([_face(face, history) for face in faces] + labels)
        + "</g></svg>"
    )


def _axis(axis: int, extent: int, chunk: int, longest: int, history: _History) -> _Axis:
    """An axis with a bounded number of cells."""
    n = -(-extent // chunk)
    length = max(_SHORTEST, _LONGEST * extent / longest)
    cells = min(n, _MOST_CELLS)
    stops = [(cell + 1) * n // cells for cell in range(cells)]
    # Of several chunks in a cell, the one in the middle.
    middles = [(low + high) // 2 for low, high in zip([0, *stops], stops, strict=False)]
    label = f"axis {axis} · {extent:,}"
    return _Axis(
        label=label if len(label) * 6 < length else f"{extent:,}",
        edges=[0.0, *(min(stop * chunk, extent) / extent * length for stop in stops)],
        owners=history.owners(axis, np.array(middles, np.int64)),
        has_lines=cells == n and length / n >= _LEAST_CELL,
    )


def _face(face: _Face, history: _History) -> str:
    """A side of the box: cells of one colour as one path, lines between chunks, an outline."""
    rows, columns = face.rows, face.columns
    (x, y), (dx, dy), (rx, ry) = face.corner, face.down, face.right

    def path(top: float, left: float, *steps: tuple[float, float]) -> str:
        start = f"M{_n(x + top * dx + left * rx)} {_n(y + top * dy + left * ry)}l"
        return start + " ".join(
            f"{_n(tall * dx + wide * rx)} {_n(tall * dy + wide * ry)}" for tall, wide in steps
        )

    def block(top: float, bottom: float, left: float, right: float) -> str:
        tall, wide = bottom - top, right - left
        return path(top, left, (0.0, wide), (tall, 0.0), (0.0, -wide)) + "z"

    shades = history.shade(face.owners)
    paths: dict[int, str] = {}
    for first, last in _runs([row.tobytes() for row in shades]):
        for left, right in _runs(shades[first].tolist()):
            piece = block(
                rows.edges[first], rows.edges[last], columns.edges[left], columns.edges[right]
            )
            shade = int(shades[first, left])
            paths[shade] = paths.get(shade, "") + piece
    whole = block(0.0, rows.length, 0.0, columns.length)
    drawn = [
        f'<path d="{cells}" fill="{colour}" stroke="{colour}" stroke-width=".4"/>'
        for cells, colour in ((paths[shade], history.colour(shade)) for shade in sorted(paths))
    ]
    if face.veil != "none":
        drawn.append(f'<path d="{whole}" fill="{face.veil}" fill-opacity=".2"/>')
    lines = ""
    if rows.has_lines:
        lines += "".join(path(at, 0.0, (0.0, columns.length)) for at in rows.edges[1:-1])
    if columns.has_lines:
        lines += "".join(path(0.0, at, (rows.length, 0.0)) for at in columns.edges[1:-1])
    if lines:
        drawn.append(f'<path d="{lines}" {_LINES}/>')
    drawn.append(f'<path d="{whole}" {_OUTLINE}/>')
    return "".join(drawn)


def _runs(values: Sequence[Any]) -> list[tuple[int, int]]:
    """Ranges of equal neighbours."""
    starts = [i for i, value in enumerate(values) if i == 0 or value != values[i - 1]]
    return list(zip(starts, [*starts[1:], len(values)], strict=True))


def _nothing() -> str:
    """The place of a grid without a chunk."""
    return (
        f'<svg width="{_STRIP[0]:g}" height="60" style="display:block" role="img" '
        'aria-label="No chunk">'
        f'<rect x="1" y="1" width="{_STRIP[0] - 2:g}" height="58" rx="4" {_OUTLINE} '
        'stroke-dasharray="4 4"/>' + _label("no chunk yet", _STRIP[0] / 2, 34, "middle") + "</svg>"
    )


def _label(text: str, x: float, y: float, anchor: str, turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {_n(x)} {_n(y)})"' if turned else ""
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}" {_TEXT}{turn}>'
        f"{html.escape(text)}</text>"
        if text
        else ""
    )


def _n(value: float) -> str:
    """A number of pixels, short."""
    return f"{value:.1f}".removesuffix(".0")
