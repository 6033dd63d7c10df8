"""The growth map: the grid of chunks, each cell with its address, coloured by segment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray.array.facts import frozen_among
from extarray.common.errors import ArgumentTypeError
from extarray.common.extras import require
from extarray.grid.growth_map import (
    Plane,
    axis_titles,
    legend_rows,
    planes_of,
    segment_colours,
    segment_numbers,
    segments,
    text_colour,
)
from extarray.plot.figures import INK, given_axes, new_figure, saved

__all__ = ["growth_map", "map_cells"]

_CELL = 0.36  # side of a cell, inches
_MAX_PANEL = 11.0  # side of a panel, inches; with more chunks cells shrink
_MAX_FIGURE = 16.0  # width of the panels side by side, inches
_MIN_LINED = 2.0  # points; smaller cells get no thin lines, which would be invisible
_MIN_MARKED = 6.0  # points; smaller cells get no corner
_MIN_FONT = 4.5  # points; addresses in smaller type are left out
_MOST_LINES = 200  # in a panel with small cells
_MAX_TEXTS = 10_000  # addresses per panel; text is slow
_MAX_LEGEND = 10  # segments; a longer legend has one line per axis


def growth_map(
    a: Any,
    ax: Any = None,
    *,
    axis: int | str = -1,
    at: Mapping[int | str, int] | None = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
    legend: bool = True,
    path: str | os.PathLike[str] | None = None,
    dpi: float = 110,
) -> Any:
    """Draw the grid of chunks: each cell has its address, coloured by segment.

    The colour tells which axis grew, its shade when: light is early, dark is late.  Heavy lines
    separate segments.  The first segment is grey.  Hatching covers elements outside the bounds, in
    chunks that the bounds cut or that were cut off.  Frozen chunks of a compressed array have a
    dark corner, or a shade if cells are small.

    Parameters
    ----------
    a : ExtArray or Axial
        The array, or its ``axial``.
    ax : matplotlib Axes or sequence of them, optional
        Axes to draw into; for three axes of the array, one for each panel.  Default: a new figure,
        large enough for legible addresses.
    axis : int or str
        For an array of three axes: the axis, or its name, with one panel for each of its chunk
        indices.
    at : mapping of int or str to int, optional
        Axes to hold at one chunk index, ``{axis: chunk index}``.  One to three axes must be left.
    names : sequence of str, optional
        A name for each axis of the array; default: its `dims`, or ``axis 0``, ``axis 1``, ...
    title : str, optional
        Title of a new figure.
    legend : bool
        Whether a new figure has a legend.
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
    ArgumentTypeError
        `a` is a view, which has no chunks of its own: give its ``base``.
    ArgumentError
        The array has no chunk, no axis, or more than three axes that `at` does not hold; or there
        are too many panels or chunks to see; or `ax` has too few axes.

    Notes
    -----
    Takes O(number of chunks drawn).  Cells too small for addresses have none.

    References
    ----------
    [drxmp2009], figures 1 to 3.
    """
    axial = getattr(a, "axial", a)
    if not hasattr(axial, "grid"):
        raise ArgumentTypeError(
            f"a {type(a).__name__} has no chunks of its own; give the array (the base of a view) "
            "or its axial"
        )
    titles = axis_titles(getattr(a, "dims", None) if names is None else names, len(axial.grid))
    history = segments(axial)
    colours = segment_colours(history)
    rows = legend_rows(history, titles, _MAX_LEGEND) if history and legend else []
    # A legend with one line per axis goes below the panels, one per segment to their side.
    is_aside = len(history) <= _MAX_LEGEND
    inches = 0.5 + 0.055 * max((len(text) for _, text in rows), default=0)
    return map_cells(
        a,
        ax,
        axis=axis,
        at=at,
        names=titles,
        title=title,
        classes=partial(segment_numbers, history),
        colours=colours,
        legend=(
            inches if is_aside else None,
            lambda figure: _draw_legend(figure, rows, colours, is_aside),
        )
        if rows
        else None,
        marked=partial(frozen_among, a),
        path=path,
        dpi=dpi,
    )


def map_cells(
    a: Any,
    ax: Any,
    *,
    axis: int | str,
    at: Mapping[int | str, int] | None,
    names: Sequence[str],
    title: str | None,
    classes: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    colours: NDArray[np.float64],
    legend: tuple[float | None, Callable[[Any], None]] | None = None,
    show_classes: bool = False,
    marked: Callable[[NDArray[np.int64]], NDArray[np.bool_] | None] | None = None,
    path: Any = None,
    dpi: float = 110,
) -> Any:
    """Draw the grid of chunks, with a colour for each cell's class and lines between classes.

    Parameters
    ----------
    a, ax, axis, at, names, title, path, dpi
        As for `growth_map`.
    classes : callable
        Returns the class number of each of some addresses; negative: none.
    colours : ndarray, shape (classes, 3)
    legend : (width in inches or None, callable), optional
        Width None: the legend goes below the panels.  The callable draws the legend of a new
        figure.
    show_classes : bool
        Whether cells show the number of their class instead of the address.
    marked : callable, optional
        Tells which of some addresses get a dark corner; None: none.
    """
    planes = planes_of(a, axis=axis, at=at, names=names, classes=classes)
    values = [plane.classes if show_classes else plane.addresses for plane in planes]
    digits = len(str(max(int(value.max()) for value in values)))
    if ax is None:
        figure, axes, across = _new_figure(
            planes, digits, title, 0.0 if legend is None else legend[0], path
        )
    else:
        figure, axes = given_axes(ax, len(planes), f"there are {len(planes)} panels")
        across = 1
    for number, (plane, one) in enumerate(zip(planes, axes, strict=False)):
        # The outer panels of a new figure show the names of the axes for all.
        outer = (number % across == 0, number < across)
        _draw_cells(one, plane, colours, outer if ax is None else (True, True))
        _draw_outside(one, plane)
    if legend is not None and ax is None:
        legend[1](figure)
    # Only the layout determines the size of a cell, and so of the addresses.
    figure.draw_without_rendering()
    for plane, value, one in zip(planes, values, axes, strict=False):
        _draw_lines_and_values(one, plane, value, colours, digits)
        marks = None if marked is None else marked(plane.addresses)
        if marks is not None:
            _draw_marks(one, marks & (plane.classes >= 0))
    return saved(figure, path, dpi, ax)


def _draw_outside(ax: Any, plane: Plane) -> None:
    """Hatch the parts of the cells outside the bounds."""
    patches = require("matplotlib.patches", "plot", "a map of chunks")
    for top, bottom, left, right in plane.outside:
        ax.add_patch(
            patches.Rectangle(
                (left - 0.5, top - 0.5),
                right - left,
                bottom - top,
                facecolor=(1, 1, 1, 0.72),
                edgecolor="#8A8A8A",
                hatch="////",
                linewidth=0,
                gid="outside",
                zorder=2.5,
            )
        )


def _draw_marks(ax: Any, marks: NDArray[np.bool_]) -> None:
    """Give some cells a dark corner, at the lower right; a shade, if they are too small for it."""
    if _cell_size(ax, marks.shape) < _MIN_MARKED:
        shade = np.zeros((*marks.shape, 4))
        shade[marks] = (0.1, 0.1, 0.1, 0.35)
        ax.imshow(shade, interpolation="nearest", aspect="equal", gid="frozen", zorder=1.5)
        return
    collections = require("matplotlib.collections", "plot", "a map of chunks")
    corners = np.argwhere(marks)[:, None, ::-1] + 0.5
    triangle = np.array([[0, 0], [-0.28, 0], [0, -0.28]])
    ax.add_collection(
        collections.PolyCollection(
            corners + triangle, facecolors=INK, alpha=0.7, linewidths=0, gid="frozen", zorder=2.7
        ),
        autolim=False,
    )


def _new_figure(
    planes: list[Plane], digits: int, title: str | None, aside: float | None, path: Any
) -> tuple[Any, list[Any], int]:
    """Make a figure whose cells are large enough for addresses of a number of digits.

    `aside` is the width in inches of a legend at the side, None for one below.  Return the figure,
    its axes, and the number of panels side by side.
    """
    height, width = planes[0].addresses.shape
    cell = min(_CELL * max(1.0, digits / 3), _MAX_PANEL / max(height, width))
    across = max(1, min(len(planes), int(_MAX_FIGURE / (width * cell + 0.25))))
    down = -(-len(planes) // across)
    across = -(-len(planes) // down)  # the last row is no shorter than necessary
    size = (
        max(3.0, across * (width * cell + 0.25) + 0.5) + (0.0 if aside is None else aside),
        down * (height * cell + 0.45) + (0.5 if aside is None else 0.2) + (0.3 if title else 0.0),
    )
    figure = new_figure(size, path)
    axes = list(figure.subplots(down, across, squeeze=False).ravel())
    for ax in axes[len(planes) :]:
        ax.set_visible(False)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure, axes, across


def _draw_cells(
    ax: Any, plane: Plane, colours: NDArray[np.float64], outer: tuple[bool, bool]
) -> None:
    """Draw the coloured cells, and the axes around them."""
    height, width = plane.classes.shape
    cells = np.where(plane.classes[..., None] < 0, 1.0, colours[plane.classes])
    ax.imshow(cells, interpolation="nearest", aspect="equal")
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_xticks(_ticks(width))
    ax.set_yticks(_ticks(height) if plane.row_name else [])
    ax.tick_params(length=0, labelsize=7, pad=2)
    left, top = outer
    if top:
        ax.set_xlabel(plane.column_name, fontsize=8, labelpad=3)
    if left:
        ax.set_ylabel(plane.row_name, fontsize=8, labelpad=3)
    if plane.title:
        ax.set_title(plane.title, fontsize=9)
    for spine in ax.spines.values():
        spine.set_linewidth(1.2)


def _cell_size(ax: Any, shape: tuple[int, ...]) -> float:
    """Return the side of a cell in points, after the layout."""
    window = ax.get_window_extent()
    height, width = shape
    side: float = 72 / ax.figure.dpi * min(window.width / width, window.height / height)
    return side


def _draw_lines_and_values(
    ax: Any,
    plane: Plane,
    values: NDArray[np.int64],
    colours: NDArray[np.float64],
    digits: int,
) -> None:
    """Draw lines between cells, heavy between classes, and numbers if there is room."""
    collections = require("matplotlib.collections", "plot", "extarray.plot.growth_map")
    height, width = plane.classes.shape
    cell = _cell_size(ax, (height, width))
    for heavy, colour, line_width in (
        (False, "white", min(0.8, cell / 20)),
        (True, INK, min(1.6, cell / 8)),
    ):
        if heavy or cell >= _MIN_LINED:
            # Turn (top, bottom, left, right) into (x, y) of both ends; cell 0 has its middle at 0.
            ends = plane.lines(heavy)[:, [2, 0, 3, 1]].reshape(-1, 2, 2) - 0.5
            if cell < 2 * _MIN_LINED and len(ends) > _MOST_LINES:
                continue  # so many lines so near to each other would cover the colours
            ax.add_collection(
                collections.LineCollection(
                    ends, colors=colour, linewidths=line_width, capstyle="projecting"
                ),
                autolim=False,
            )
    # A digit is about 0.62 of the font size wide; 0.8 of the cell leaves a margin.
    size = min(10.0, 0.55 * cell, 0.8 * cell / (0.62 * digits))
    if size < _MIN_FONT or plane.classes.size > _MAX_TEXTS:
        return
    text_colours = [text_colour(colour) for colour in colours]
    y, x, is_inside = plane.labels()
    for (i, j), value in np.ndenumerate(values):
        if plane.classes[i, j] < 0:
            continue
        ax.text(
            x[j] - 0.5,
            y[i] - 0.5,
            str(int(value)),
            ha="center",
            va="center_baseline",
            fontsize=size,
            # Hatching makes the outside almost white.
            color=text_colours[plane.classes[i, j]] if is_inside[i, j] else INK,
            zorder=3,
        )


def _ticks(count: int) -> range:
    least = -(-count // 20)
    size = 10 ** (len(str(least)) - 1)
    return range(0, count, next(k * size for k in (1, 2, 5, 10) if k * size >= least))


def _draw_legend(
    figure: Any,
    rows: list[tuple[list[int], str]],
    colours: NDArray[np.float64],
    is_aside: bool,
) -> None:
    """Draw a legend of rows, each with the colours of a few segments."""
    patches = require("matplotlib.patches", "plot", "extarray.plot.growth_map")
    handler = require("matplotlib.legend_handler", "plot", "extarray.plot.growth_map")
    figure.legend(
        [
            tuple(patches.Patch(facecolor=colours[n], edgecolor=INK, linewidth=0.6) for n in row)
            for row, _ in rows
        ],
        [text for _, text in rows],
        loc="outside right upper" if is_aside else "outside lower center",
        ncols=1 if is_aside or figure.get_figwidth() < 7 else len(rows),
        fontsize=8,
        frameon=False,
        handlelength=1.6,
        handler_map={tuple: handler.HandlerTuple(ndivide=None, pad=0.0)},
    )
