"""The layout: places in the file of all chunks, and of a selection's chunks."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from extarray.common.errors import ArgumentError
from extarray.common.extras import require
from extarray.common.formatting import format_bytes
from extarray.grid.chunking import place_of
from extarray.grid.growth_map import axis_titles, segment_colours, segment_numbers, segments
from extarray.plot.figures import RED, finished, on_axes

__all__ = ["Layout", "layout", "layout_of"]

_MOST_CHUNKS = 100_000
_WIDE = 0.8  # inches for the label of a tick
# a vector file holds at most this many chunks as vectors; more become pixels
_MOST_VECTORS = 5_000


class Layout(NamedTuple):
    """Addresses of all chunks in row-major order, which of them are touched, and their extents."""

    addresses: NDArray[np.int64]
    touched: NDArray[np.bool_]
    extents: NDArray[np.int64]  # (n, 2): first address, and the one after the last
    is_selected: bool


def layout_of(a: Any, selection: Any = None) -> Layout:
    """Return the chunks' addresses, and which a selection of integers, slices and lists touches."""
    n = math.prod(a.grid)
    if not n:
        raise ArgumentError(
            f"cannot draw the grid {a.grid}: it has no chunks; grow the array first"
        )
    if n > _MOST_CHUNKS:
        raise ArgumentError(
            f"cannot draw {n} chunks: at most {_MOST_CHUNKS} are supported; draw a copy with "
            "larger chunks"
        )
    grid = np.indices(a.grid, np.int64).reshape(a.ndim, n).T
    addresses = np.asarray(a.axial.addresses(np.ascontiguousarray(grid)))
    touched = np.zeros(a.grid, np.bool_)
    if selection is not None:
        touched[np.ix_(*_chunks_of(a, selection))] = True
    touched = touched.ravel()
    found = np.sort(addresses[touched])
    breaks = np.flatnonzero(np.diff(found) > 1)
    starts = np.r_[found[:1], found[breaks + 1]]
    stops = np.r_[found[breaks], found[-1:]] + 1
    return Layout(addresses, touched, np.stack([starts, stops], 1), selection is not None)


def _chunks_of(a: Any, selection: Any) -> list[NDArray[np.int64]]:
    """Return the chunk indices that a selection touches, along each axis."""
    parts = list(selection) if isinstance(selection, tuple) else [selection]
    if any(part is None or isinstance(part, str) for part in parts):
        raise ArgumentError("a layout takes integers, slices, ..., and lists of integers")
    given = [part is Ellipsis for part in parts]
    at = given.index(True) if any(given) else len(parts)
    rest = len(parts) - sum(given)
    if sum(given) > 1 or rest > a.ndim:
        raise ArgumentError(f"the selection {selection!r} has too many indices for {a.ndim} axes")
    parts[at : at + 1] = [slice(None)] * (a.ndim - rest)
    found = []
    for part, n, o, c in zip(parts, a.shape, a.info()["offset"], a.chunks, strict=True):
        places = np.asarray(range(n)[part] if isinstance(part, slice) else np.arange(n)[part])
        found.append(np.unique((np.atleast_1d(places) + o) // c).astype(np.int64))
    return found


def layout(
    a: Any,
    selection: Any = None,
    ax: Any = None,
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
    dpi: float = 110,
) -> Any:
    """Draw the place of each chunk in the file against its place in the grid.

    A bar is a chunk: as long as it is in the file, in the row of its place in the grid, last axis
    fastest, in the colour of its segment.  With a selection, chunks that it does not touch are
    pale, and a strip below shows the touched extents of the file: one access reads each.

    Parameters
    ----------
    a : ExtArray
    selection : index, optional
        Integers, slices, ``...`` and lists of integers; lists apply axis by axis.
    ax : matplotlib Axes or sequence of two, optional
        Axes to draw into, and axes for the strip; default: a new figure.
    names : sequence of str, optional
        A name for each axis of the array; default: its `dims`, or ``axis 0``, ``axis 1``, ...
    title : str, optional
        Default, with a selection: the numbers of chunks, bytes and extents that it touches.
    path : path, optional
        Save the figure there, in the format of the suffix.
    dpi : float
        Dots per inch in the file.

    Returns
    -------
    matplotlib.figure.Figure
        Given axes are returned in its place.

    Raises
    ------
    MissingExtraError
        Matplotlib is not installed.
    ArgumentError
        There is no chunk, or more than 100,000; or `selection` has another kind of index.
    BoundsError, IndexError
        The selection is out of bounds.
    """
    collections: Any = require("matplotlib.collections", "plot", "a layout")
    colors: Any = require("matplotlib.colors", "plot", "a layout")
    ticker: Any = require("matplotlib.ticker", "plot", "a layout")
    found = layout_of(a, selection)
    titles = axis_titles(a.dims if names is None else names, a.ndim)
    strip: Any = None
    if ax is None and found.is_selected:
        figure, (drawn, strip) = on_axes(
            None, (6.4, 4.8), 2, path, sharex=True, height_ratios=(12, 1)
        )
    else:
        given = list(np.ravel(np.asarray(ax, dtype=object))) if ax is not None else [None]
        figure, drawn = on_axes(given[0], (6.4, 4.4), path=path)
        strip = given[1] if found.is_selected and len(given) > 1 else None
    history = segments(a)
    ground = np.asarray(colors.to_rgb(drawn.get_facecolor()))
    # The cells' own colours would be too light as lines on white, and too dark on black.
    is_dark = ground.mean() < 0.5
    colours = segment_colours(history)
    colours = 0.35 + 0.65 * colours if is_dark else 0.85 * colours
    colours[0] = 0.75 if is_dark else 0.45
    shade = colours[segment_numbers(history, found.addresses)]
    if found.is_selected:
        shade = np.where(found.touched[:, None], shade, 0.3 * shade + 0.7 * ground)
    n, size = len(found.addresses), a.chunk_bytes
    rows = np.arange(n)
    corners = np.empty((n, 4, 2))
    corners[:, (0, 3), 0] = place_of(found.addresses, size)[:, None]
    corners[:, (1, 2), 0] = place_of(found.addresses + 1, size)[:, None]
    corners[:, (0, 1), 1] = rows[:, None] - 0.45
    corners[:, (2, 3), 1] = rows[:, None] + 0.45
    drawn.add_collection(
        collections.PolyCollection(
            corners,
            facecolors=shade,
            edgecolors=shade,
            linewidths=1.0,
            rasterized=n > _MOST_VECTORS,
        ),
        autolim=False,
    )
    drawn.set_xlim(0, n * size)
    drawn.set_ylim(n - 0.5, -0.5)
    ticks = _row_ticks(a.grid)
    drawn.set_yticks([row for row, _ in ticks], [text for _, text in ticks])
    drawn.set_ylabel(f"chunk in the grid ({', '.join(titles)})")
    last = strip if strip is not None else drawn
    last.set_xlabel("offset in the file")
    last.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: format_bytes(int(x))))
    # Powers of two are round numbers of bytes.
    room = last.get_window_extent().width / figure.dpi / _WIDE
    step = 2.0 ** math.ceil(math.log2(n * size / min(6.0, max(1.0, room))))
    last.xaxis.set_major_locator(ticker.MultipleLocator(step))
    if strip is not None:
        _draw_strip(strip, found, size)
    if title is None and found.is_selected:
        count, touched = len(found.extents), int(found.touched.sum())
        title = (
            f"{touched} of {n} chunks, {format_bytes(touched * size)}, in {count} "
            f"extent{'s' * (count != 1)}"
        )
    return finished(figure, drawn, title, path, dpi, ax)


def _row_ticks(grid: tuple[int, ...]) -> list[tuple[int, str]]:
    """Return rows of chunks and their indices: the first of each run along the last axes."""
    n = math.prod(grid)
    step = next((s for s in np.cumprod((1, *grid[::-1])).tolist() if n // max(1, s) <= 12), n)
    rows = range(0, n, max(1, step))
    return [(row, str(tuple(map(int, np.unravel_index(row, grid))))) for row in rows]


def _draw_strip(strip: Any, found: Layout, size: int) -> None:
    """Draw the file as a bar, with the touched extents in it."""
    spans = [(int(a) * size, int(z - a) * size) for a, z in found.extents]
    strip.broken_barh(spans, (0, 1), facecolor=RED, edgecolor=RED, linewidth=0.4)
    strip.set_ylim(0, 1)
    strip.set_yticks([0.5], ["touched"])
    strip.tick_params(axis="y", length=0)
