"""HTML for notebooks: an array's facts, grid of chunks and growth; a tree.

The element is self-contained: no scripts, style sheets or files.  Text has the page's colour, and
drawings are visible on light and dark.  The picture has a bounded number of cells and colours, and
costs bounded work, however large the grid and long its history.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

from extarray.common.formatting import format_attrs, format_bytes, format_disk, format_fill
from extarray.grid.cuboid import Face, Growth, Growths, Label, cuboid_of, strip_of
from extarray.grid.growth_map import axis_titles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


__all__ = ["describe", "describe_view", "tree"]

# Pixels.
_STRIP = (230.0, 12.0)

_LONGEST_NAME = 16  # letters of an axis name

_LINES = 'fill="none" stroke="#fff" stroke-opacity=".55" stroke-width=".8"'
_OUTLINE = 'fill="none" stroke="currentColor" stroke-opacity=".65" stroke-width="1.1"'
_TEXT = 'fill="currentColor" font-size="11"'
_CELL = (
    "padding:2px 14px 2px 0;text-align:left;vertical-align:top;"
    "border:0;background:none;color:inherit"
)
_HEAD = f"{_CELL};font-weight:600;white-space:nowrap;opacity:.65"


def describe(facts: Mapping[str, Any], n_growths: int, growth: Callable[[int], Growth]) -> str:
    """Return the HTML element that shows an array: a ``<div>`` with a table and pictures in SVG.

    `facts` is a result of `ExtArray.info`.  `growth` returns, for the number of a growth, its axis
    and side, and the grid after it as a box of chunk indices; growth 0 is the array as created.  It
    is called for only a few growths.

    Examples
    --------
    >>> import extarray as xa
    >>> facts = xa.zeros((4, 3), chunks=(2, 2)).info()
    >>> text = describe(facts, 1, lambda n: (0, 0, (0, 0), (2, 2)))
    >>> text.startswith("<div"), text.count("<svg"), "(4, 3)" in text
    (True, 1, True)
    """
    growths = Growths(n_growths, growth)
    names = _names(facts)
    if growths.is_empty or 0 in facts["shape"]:
        picture = _nothing()
    else:
        picture, left = _grid(facts, names, growths)
        if growths.n_shades > 1:
            picture += _growth(names, growths, left)
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:8px 32px;align-items:center;'
        f'margin:4px 0 8px;line-height:1.4">{_table(facts)}<div>{picture}</div></div>'
    )


def describe_view(view: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return the HTML element that shows a view: a ``<div>`` with a table.

    `view` has the shape, chunks, dtype, bytes and axis names of the view, and its index in the
    array as text; `facts` is a result of `ExtArray.info`.

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.zeros((4, 3))
    >>> view = {"shape": (2, 3), "chunks": (2, 3), "dtype": a.dtype, "dims": None, "bytes": 48}
    >>> view["index"] = "2:4, 0:3"
    >>> text = describe_view(view, a.info())
    >>> text.startswith("<div"), "[2:4, 0:3]" in text
    (True, True)
    """
    part = format_bytes(math.prod(view["chunks"]) * view["dtype"].itemsize)
    rows = [
        ("", "<b>View</b>", "<b>Best read by</b>"),
        ("Shape", _text(view["shape"]), _text(view["chunks"])),
        ("Bytes", format_bytes(view["bytes"]), part),
    ]
    wide = [("Axes", _text(", ".join(view["dims"])))] if view["dims"] else []
    wide += [
        ("Type", _text(view["dtype"])),
        ("Shows", f"[{_text(view['index'])}] of an array of shape {_text(facts['shape'])}"),
        ("Where", _where(facts)),
    ]
    return f'<div style="margin:4px 0 8px;line-height:1.4">{_rows(rows, wide)}</div>'


def _names(facts: Mapping[str, Any]) -> list[str]:
    """Return the names of the axes, shortened, or their numbers."""
    return [
        name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
        for name in axis_titles(facts["dims"] or None, len(facts["shape"]))
    ]


# -- the table -----------------------------------------------------------------------------------


def _table(facts: Mapping[str, Any]) -> str:
    """Return a table of the main facts of the array and of a chunk."""
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
    wide = [("Axes", _text(", ".join(facts["dims"])))] if facts["dims"] else []
    wide += [
        ("Type", f"{_text(facts['dtype'])}, fill value {_text(format_fill(facts['fill_value']))}"),
        ("Growth", f"{number}, {100 * facts['utilisation']:.3g} % of the space in use"),
        ("Where", _where(facts)),
    ]
    attrs = format_attrs(facts)
    if attrs:
        wide.append(("Attributes", "".join(f"<div>{_text(line)}</div>" for line in attrs)))
    return _rows(rows, wide)


def _rows(rows: Sequence[tuple[str, str, str]], wide: Sequence[tuple[str, str]]) -> str:
    """Return a table: rows of two cells, then wide rows of one; cells are HTML."""
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
    size, *more = format_disk(facts).split(", ", 1)
    told = _text(", ".join([f"{size} on disk", *more]))
    return f"{_text(facts['path'])} ({told}), mode {_text(facts['mode'])}"


def _text(value: Any) -> str:
    """Return the text of a value, shortened if it is long."""
    text = str(value)
    if len(text) > 240:
        text = f"{text[:160]} … {text[-60:]}"
    return html.escape(text)


# -- growth --------------------------------------------------------------------------------------


def _growth(names: Sequence[str], growths: Growths, left: float) -> str:
    """Return the file as a strip of segments, and the growths in words."""
    width, height = _STRIP
    pieces = []
    for piece in strip_of(growths, width):
        pieces.append(
            f'<rect x="{_n(piece.start)}" width="{_n(piece.stop - piece.start)}" '
            f'height="{height:g}" fill="{growths.colour(piece.shade)}"/>'
        )
        if piece.has_line:
            pieces.append(f'<path d="M{_n(piece.start)} 0v{height:g}" {_LINES}/>')
    strip = (
        f'<svg width="{width:g}" height="{height:g}" style="display:block;border-radius:3px" '
        'role="img" aria-label="Segments in the order of the file">' + "".join(pieces) + "</svg>"
    )
    words = [
        '<span style="white-space:nowrap"><span style="display:inline-block;width:9px;height:9px;'
        f'border-radius:2px;margin-right:4px;background:{colour}"></span>{_text(text)}</span>'
        if colour
        else f"<span>{text}</span>"
        for colour, text in growths.told(names)
    ]
    return (
        f'<div style="margin:6px 0 0 {left:g}px">'
        + strip
        + '<div style="display:flex;flex-wrap:wrap;'
        f'gap:0 10px;max-width:{width:g}px;font-size:11px;margin-top:4px">'
        + "".join(words)
        + "</div></div>"
    )


# -- the grid ------------------------------------------------------------------------------------


def _grid(facts: Mapping[str, Any], names: Sequence[str], growths: Growths) -> tuple[str, float]:
    """Return the grid of chunks, and the pixels that it has at the left for a label."""
    drawn = cuboid_of(facts, names, growths)
    x, y = drawn.origin
    svg = (
        f'<svg width="{_n(drawn.width)}" height="{_n(drawn.height)}" '
        'style="display:block;overflow:visible" role="img" aria-label="Grid of chunks">'
        f'<g transform="translate({_n(x)} {_n(y)})">'
        + "".join(_face(face, growths) for face in drawn.faces)
        + "".join(map(_label, drawn.labels))
        + "</g></svg>"
    )
    return svg, x


def _face(face: Face, growths: Growths) -> str:
    """Return a side of the cuboid: a path for each colour, lines between chunks, an outline."""

    def path(top: float, left: float, *steps: tuple[float, float]) -> str:
        x, y = face.place(top, left)
        on_paper = (face.step(*step) for step in steps)
        return f"M{_n(x)} {_n(y)}l" + " ".join(f"{_n(dx)} {_n(dy)}" for dx, dy in on_paper)

    def block(top: float, bottom: float, left: float, right: float) -> str:
        tall, wide = bottom - top, right - left
        return path(top, left, (0.0, wide), (tall, 0.0), (0.0, -wide)) + "z"

    whole = block(0.0, face.rows.length, 0.0, face.columns.length)
    drawn = []
    for shade, boxes in face.rectangles().items():
        colour, cells = growths.colour(shade), "".join(block(*box) for box in boxes)
        drawn.append(f'<path d="{cells}" fill="{colour}" stroke="{colour}" stroke-width=".4"/>')
    if face.veil:
        drawn.append(f'<path d="{whole}" fill="{face.veil}" fill-opacity=".2"/>')
    lines = "".join(
        path(top, left, (bottom - top, right - left)) for top, bottom, left, right in face.lines()
    )
    if lines:
        drawn.append(f'<path d="{lines}" {_LINES}/>')
    drawn.append(f'<path d="{whole}" {_OUTLINE}/>')
    return "".join(drawn)


def _nothing() -> str:
    """Return the picture of a grid without chunks."""
    return (
        f'<svg width="{_STRIP[0]:g}" height="60" style="display:block" role="img" '
        'aria-label="No chunk">'
        f'<rect x="1" y="1" width="{_STRIP[0] - 2:g}" height="58" rx="4" {_OUTLINE} '
        'stroke-dasharray="4 4"/>'
        + _label(Label("no chunks yet", _STRIP[0] / 2, 34, "middle"))
        + "</svg>"
    )


def _label(label: Label) -> str:
    """Return a text; nothing where it is empty."""
    if not label.text:
        return ""
    x, y = _n(label.x), _n(label.y)
    turn = f' transform="rotate(-90 {x} {y})"' if label.is_turned else ""
    return (
        f'<text x="{x}" y="{y}" text-anchor="{label.anchor}" {_TEXT}{turn}>'
        f"{html.escape(label.text)}</text>"
    )


def _n(value: float) -> str:
    """Format a number of pixels briefly."""
    return f"{value:.1f}".removesuffix(".0")


def tree(head: str, rows: Sequence[tuple[int, str, str]]) -> str:
    """Return a tree as an HTML element, from a head and rows of (depth, name, facts).

    Examples
    --------
    >>> tree("<all>", [(0, "a", "(4,)")])
    '<div><code>&lt;all&gt;</code><ul><li><b>a</b> <code>(4,)</code></li></ul></div>'
    """
    parts = [f"<div><code>{html.escape(head)}</code>"]
    level = -1
    for depth, name, facts in rows:
        parts += ["<ul>"] * (depth - level) + ["</li>"] * (level >= depth)
        parts += ["</ul></li>"] * (level - depth)
        level = depth
        parts.append(f"<li><b>{html.escape(name)}</b>")
        if facts:
            parts.append(f" <code>{html.escape(facts)}</code>")
    parts += ["</li></ul>"] * (level + 1)
    return "".join([*parts, "</div>"])
