"""Pictures as text, for terminals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray.common.formatting import format_bytes, text_of
from extarray.common.limits import limits
from extarray.grid.growth_map import Plane, axis_titles, planes_of, segment_numbers, segments
from extarray.plot.elements import Values, shown_axes
from extarray.plot.layout import layout_of
from extarray.plot.zones import Zone, ranks_at
from extarray.streaming.extremes import extremes_in_bands

__all__ = ["growth_text", "layout_text", "slice_text", "zones_text"]

_SHADES = " .:-=+*#%@"
_OUTSIDE = "·"
_AT_ONCE = 1 << 22  # elements


def growth_text(
    a: Any, axis: int | str = -1, at: Mapping[int | str, int] | None = None, width: int = 100
) -> str:
    """Return the grid of chunks with the address of each, and lines between segments.

    Parameters
    ----------
    a : ExtArray
    axis, at
        As for `extarray.plot.growth_map`.
    width : int
        Characters per line; if the addresses need more, cells show the segment's digit or letter,
        without spaces.

    Returns
    -------
    str
        Chunks outside the bounds are in parentheses.

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.create(None, (2, 3), chunks=1, dims=("y", "x"))
    >>> a.extend("x", 1)
    >>> print(growth_text(a))
    y down, x to the right
     0  1  2 | 6
     3  4  5 | 7
    """
    history = segments(a)
    return _grid(a, axis, at, width, partial(segment_numbers, history))


def zones_text(
    a: Any,
    ranks: Sequence[Sequence[Zone]],
    axis: int | str = -1,
    at: Mapping[int | str, int] | None = None,
    width: int = 100,
) -> str:
    """Return the grid of chunks with the rank of each; parameters as for `growth_text`."""
    return _grid(a, axis, at, width, ranks_at(a, ranks), show_classes=True)


def _grid(
    a: Any,
    axis: int | str,
    at: Mapping[int | str, int] | None,
    width: int,
    classes: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    show_classes: bool = False,
) -> str:
    """Return the planes of a grid: a value for each chunk, and lines between classes."""
    planes = planes_of(a, axis=axis, at=at, names=axis_titles(a.dims, a.ndim), classes=classes)
    lines = []
    for plane in planes:
        head = f"{plane.row_name} down, {plane.column_name} to the right"
        head = head if plane.row_name else plane.column_name
        step = _step(plane, plane.classes if show_classes else plane.addresses, width)
        head += f", one of {step} chunks each way" if step > 1 else ""
        lines.append(f"{plane.title}: {head}" if plane.title else head)
        lines += _panel(plane, plane.classes if show_classes else plane.addresses, width)
    return "\n".join(lines)


def _panel(plane: Plane, values: NDArray[np.int64], width: int) -> list[str]:
    """Return the lines of a panel."""
    owner, outside = plane.classes, plane.is_outside
    size = len(str(int(values.max())))
    if step := _step(plane, values, width):  # without spaces, with a letter for each class
        letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        return [
            "".join(
                _OUTSIDE if out or o < 0 else letters[o % len(letters)]
                for o, out in zip(row[::step], gone[::step], strict=True)
            )
            for row, gone in zip(owner[::step], outside[::step], strict=True)
        ]
    upright, level = plane.breaks
    lines = []
    for i, row in enumerate(owner):
        cells, rule = [], []
        for j, one in enumerate(row):
            text = "" if one < 0 else str(int(values[i, j]))
            text = f"({text})" if outside[i, j] else f" {text:>{size}} "
            new = j > 0 and upright[i, j - 1]
            cells.append(("|" if new else "") + text.rjust(size + 2))
            differs = i > 0 and level[i - 1, j]
            rule.append(("+" if new else "") + ("-" if differs else " ") * (size + 2))
        if i and "-" in "".join(rule):
            lines.append("".join(rule).rstrip())
        lines.append("".join(cells).rstrip())
    return lines


def _step(plane: Plane, values: NDArray[np.int64], width: int) -> int:
    """Return how many chunks each way share a letter; 0 if each has room for a number."""
    columns, size = plane.classes.shape[1], len(str(int(values.max())))
    return 0 if columns * (size + 2) <= width else -(-columns // width)


def slice_text(
    a: Any,
    axes: Sequence[int | str] | None = None,
    at: Mapping[int | str, int] | None = None,
    width: int = 100,
    *,
    field: str | None = None,
) -> str:
    """Return a plane of elements as characters of rising darkness, from the least to the greatest.

    Parameters
    ----------
    a : ExtArray
        Its elements are real or complex numbers, or booleans.
    axes, at
        As for `extarray.plot.elements`; an axis that neither names is held at index 0.
    width : int
        Most characters per line; each stands for the extreme of its elements, if there are more.
    field : str, optional
        As for `extarray.plot.elements`.

    Returns
    -------
    str
        Elements that are not finite are ``?``.

    Examples
    --------
    >>> import numpy as np, extarray as xa
    >>> print(slice_text(xa.from_array(np.arange(10.0).reshape(2, 5))))
    axis 0 down, axis 1 to the right, 0.0 to 9.0
     .:-=
    +*#%@
    """
    shown, held = shown_axes(a, axes, at or {})
    index = [held.get(j, 0) % max(1, a.shape[j]) for j in range(a.ndim)]
    source = Values(a, field)
    if not a.size:
        return f"no elements: the shape is {a.shape}"
    if not shown:
        return f"{source.read(tuple(index))}"
    step = max(1, *(-(-a.shape[j] // width) for j in shown))
    # A character is about twice as high as wide.
    steps = [step if j == shown[-1] or step == 1 else 2 * step for j in shown]

    def read(box: Sequence[slice]) -> NDArray[Any]:
        key: list[Any] = list(index)
        for j, part in zip(shown, box, strict=True):
            key[j] = part
        values = source.read(tuple(key))
        return values.T if shown != sorted(shown) else values

    shape = [a.shape[j] for j in shown]
    is_sampled = step > 1 and math.prod(shape) * a.itemsize > limits.plotted_bytes
    if is_sampled:
        values = read([slice(None, None, one) for one in steps])
    else:
        values = extremes_in_bands(read, shape, steps, _AT_ONCE)
    values = np.atleast_2d(values)
    known = np.isfinite(values)
    ends = [text_of(find(values[known])) for find in (np.min, np.max)] if known.any() else []
    if values.dtype.kind == "M":
        values = np.where(known, values.astype(np.int64), 0)
    values = values.astype(float)
    low, high = (values[known].min(), values[known].max()) if known.any() else (0.0, 0.0)
    scaled = (np.where(known, values, low) - low) / ((high - low) or 1.0)
    places = np.minimum((scaled * len(_SHADES)).astype(int), len(_SHADES) - 1)
    names = axis_titles(a.dims, a.ndim)
    head = [f"{names[shown[0]]} down"] if len(shown) == 2 else []
    head.append(f"{names[shown[-1]]} to the right")
    head.append(" to ".join(ends) or "no finite elements")
    head += [f"{names[j]} = {index[j]}" for j in range(a.ndim) if j not in shown]
    if step > 1:
        cell = " × ".join(map(str, steps))
        head.append(f"one of {cell} elements" if is_sampled else f"extremes of {cell} elements")
    rows = [
        "".join(_SHADES[p] if k else "?" for p, k in zip(row, ok, strict=True))
        for row, ok in zip(places, known, strict=True)
    ]
    return "\n".join([", ".join(head), *rows])


def layout_text(a: Any, selection: Any = None, width: int = 100) -> str:
    """Return the file as a bar that marks the chunks that a selection touches.

    Parameters
    ----------
    a : ExtArray
    selection : index, optional
        As for `extarray.plot.layout`.
    width : int
        Characters of the bar: each is a part of the file, ``#`` if all of it is touched, ``+`` if
        some is.

    Returns
    -------
    str

    Examples
    --------
    >>> import extarray as xa
    >>> a = xa.create(None, (4, 4), "u1", chunks=1)
    >>> print(layout_text(a, (slice(None), 0), width=16))
    4 of 16 chunks, 4 B, in 4 extents
    #...#...#...#...
    0 B to 16 B
    """
    found = layout_of(a, ... if selection is None else selection)
    n = len(found.addresses)
    touched = np.zeros(n)
    touched[found.addresses[found.touched]] = 1
    cells = min(n, width)
    edges = np.linspace(0, n, cells + 1).astype(int)
    shares = np.add.reduceat(touched, edges[:-1]) / np.diff(edges)
    bar = "".join("#" if share == 1 else "+" if share else "." for share in shares)
    count = int(touched.sum())
    extents = len(found.extents)
    head = f"{count} of {n} chunks, {format_bytes(count * a.chunk_bytes)}, in {extents} extent"
    if extents != 1:
        head += "s"
    return f"{head}\n{bar}\n0 B to {format_bytes(n * a.chunk_bytes)}"
