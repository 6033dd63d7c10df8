"""The growth map: the grid of chunks, each cell with its address, coloured by segment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray.common.arguments import axis_named
from extarray.common.errors import ArgumentError, ArgumentTypeError
from extarray.common.extras import require
from extarray.grid.drawing import (
    Panel,
    Segment,
    axis_titles,
    cell_lines,
    held_axes,
    panel_axis,
    panels_of,
    segment_colours,
    segment_labels,
    segments,
    text_colour,
)

__all__ = ["grid_bounds", "growth_map", "map_cells"]

_INK = "#1A1A1A"

_CELL = 0.36  # side of a cell, inches
_MAX_PANEL = 11.0  # side of a panel, inches; with more chunks cells shrink
_MAX_FIGURE = 16.0  # width of the panels side by side, inches
_MIN_LINED = 2.0  # points; smaller cells get no thin lines, which would be invisible
_MIN_FONT = 4.5  # points; addresses in smaller type are left out
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
    chunks that the bounds cut or that were cut off.

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
    colours = segment_colours(history) if history else np.empty((0, 3))
    starts = np.array([segment.start_address for segment in history])
    return map_cells(
        a,
        ax,
        axis=axis,
        at=at,
        names=titles,
        title=title,
        classes=lambda addresses: np.searchsorted(starts, addresses, side="right") - 1,
        colours=colours,
        legend=(
            _legend_width(history, titles),
            lambda figure: _draw_legend(figure, history, colours, titles),
        )
        if legend and history
        else None,
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
    """
    figure_module = require("matplotlib.figure", "plot", "a map of chunks")
    axial = getattr(a, "axial", a)
    grid = tuple(int(n) for n in axial.grid)
    dims = getattr(a, "dims", None)
    numbered = {_number(j, dims): index for j, index in (at or {}).items()}
    held = held_axes(numbered, grid)
    free = [j for j in range(len(grid)) if j not in held]
    if not free or len(free) > 3:
        raise ArgumentError(
            f"cannot draw {len(free)} axes of the grid {grid}: a growth map shows 1 to 3; "
            "hold axes at one chunk index with at={axis: index}"
        )
    if 0 in grid:
        raise ArgumentError(f"cannot draw the grid {grid}: it has no chunks; grow the array first")

    across_axis = panel_axis(_number(axis, dims), free, len(grid))
    panels = panels_of(axial, grid, held, free, across_axis, list(names))
    owners = [classes(panel.addresses) for panel in panels]
    values = owners if show_classes else [panel.addresses for panel in panels]
    digits = len(str(max(int(value.max()) for value in values)))
    if ax is None:
        figure, axes, across = _new_figure(
            figure_module, panels, digits, title, 0.0 if legend is None else legend[0]
        )
    else:
        axes, across = list(np.ravel(np.asarray(ax, dtype=object))), 1
        if len(axes) < len(panels):
            raise ArgumentError(f"ax has {len(axes)} axes, but there are {len(panels)} panels")
        figure = axes[0].figure.figure  # a subfigure's: the figure around it
    bounds = grid_bounds(a)
    seen = []
    for number, (panel, owner, one) in enumerate(zip(panels, owners, axes, strict=False)):
        # The outer panels of a new figure show the names of the axes for all.
        outer = (number % across == 0, number < across)
        cells = np.where(owner[..., None] < 0, 1.0, colours[owner])
        _draw_cells(one, panel, cells, outer if ax is None else (True, True))
        inside = ((0.0, owner.shape[0]), (0.0, owner.shape[1]))
        if bounds is not None:
            places = dict(held) if across_axis is None else {**held, across_axis: number}
            inside = _inside(owner.shape, free, places, bounds)
            _draw_outside(one, owner.shape, inside)
        seen.append(inside)
    if legend is not None and ax is None:
        legend[1](figure)
    # Only the layout determines the size of a cell, and so of the addresses.
    figure.draw_without_rendering()
    for owner, value, inside, one in zip(owners, values, seen, axes, strict=False):
        _draw_lines_and_values(one, owner, value, inside, colours, digits)
    if path is not None:
        figure.savefig(path, dpi=dpi)
    return figure


def grid_bounds(a: Any) -> list[tuple[float, float]] | None:
    """Return the bounds in the grid, in chunks along each axis; None: no chunk is cut."""
    if not hasattr(a, "info"):
        return None
    lows = (n / c for n, c in zip(a.info()["offset"], a.chunks, strict=True))
    found = [(low, low + n / c) for low, n, c in zip(lows, a.shape, a.chunks, strict=True)]
    if all(b == (0, n) for b, n in zip(found, a.grid, strict=True)):
        return None
    return found


def _inside(
    extents: tuple[int, int],
    free: list[int],
    places: Mapping[int, int],
    bounds: list[tuple[float, float]],
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the rows and the columns of a panel between which the bounds lie.

    `places` has the chunk indices of the other axes; if one is outside, the whole panel is.
    """
    height, width = extents
    if any(place + 1 <= bounds[j][0] or place >= bounds[j][1] for j, place in places.items()):
        return (height, height), (0.0, width)
    shown = [j for j in free if j not in places]
    left, right = (min(max(x, 0.0), width) for x in bounds[shown[-1]])
    top, bottom = 0.0, float(height)
    if len(shown) == 2:
        top, bottom = (min(max(y, 0.0), height) for y in bounds[shown[0]])
    return (top, bottom), (left, right)


def _draw_outside(
    ax: Any, extents: tuple[int, int], inside: tuple[tuple[float, float], tuple[float, float]]
) -> None:
    """Hatch the parts of the cells outside the bounds."""
    patches = require("matplotlib.patches", "plot", "a map of chunks")
    height, width = extents
    (top, bottom), (left, right) = inside
    for x, y, w, h in (
        (0, 0, width, top),
        (0, bottom, width, height - bottom),
        (0, top, left, bottom - top),
        (right, top, width - right, bottom - top),
    ):
        if w > 0 and h > 0:
            ax.add_patch(
                patches.Rectangle(
                    (x - 0.5, y - 0.5),
                    w,
                    h,
                    facecolor=(1, 1, 1, 0.72),
                    edgecolor="#8A8A8A",
                    hatch="////",
                    linewidth=0,
                    gid="outside",
                    zorder=2.5,
                )
            )


def _number(axis: int | str, dims: Sequence[str] | None) -> int:
    """Return the number of an axis, given by number or name."""
    return axis_named(axis, dims) if isinstance(axis, str) else axis


def _new_figure(
    figure_module: Any,
    panels: list[Panel],
    digits: int,
    title: str | None,
    aside: float | None,
) -> tuple[Any, list[Any], int]:
    """Make a figure whose cells are large enough for addresses of a number of digits.

    `aside` is the width in inches of a legend at the side, None for one below.  Return the figure,
    its axes, and the number of panels side by side.
    """
    height, width = panels[0].addresses.shape
    cell = min(_CELL * max(1.0, digits / 3), _MAX_PANEL / max(height, width))
    across = max(1, min(len(panels), int(_MAX_FIGURE / (width * cell + 0.25))))
    down = -(-len(panels) // across)
    across = -(-len(panels) // down)  # spread the panels evenly over the rows
    size = (
        max(3.0, across * (width * cell + 0.25) + 0.5) + (0.0 if aside is None else aside),
        down * (height * cell + 0.45) + (0.5 if aside is None else 0.2) + (0.3 if title else 0.0),
    )
    figure = figure_module.Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(down, across, squeeze=False).ravel())
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure, axes, across


def _draw_cells(
    ax: Any, panel: Panel, cells: NDArray[np.float64], outer: tuple[bool, bool]
) -> None:
    """Draw the coloured cells and the labels around them."""
    height, width = panel.addresses.shape
    ax.imshow(cells, interpolation="nearest", aspect="equal")
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_xticks(_ticks(width))
    ax.set_yticks(_ticks(height) if panel.row_name else [])
    ax.tick_params(length=0, labelsize=7, pad=2)
    left, top = outer
    if top:
        ax.set_xlabel(panel.column_name, fontsize=8, labelpad=3)
    if left:
        ax.set_ylabel(panel.row_name, fontsize=8, labelpad=3)
    if panel.title:
        ax.set_title(panel.title, fontsize=9)
    for spine in ax.spines.values():
        spine.set_color(_INK)
        spine.set_linewidth(1.2)


def _draw_lines_and_values(
    ax: Any,
    owner: NDArray[np.int64],
    values: NDArray[np.int64],
    inside: tuple[tuple[float, float], tuple[float, float]],
    colours: NDArray[np.float64],
    digits: int,
) -> None:
    """Draw lines between cells, heavy between classes, and numbers if there is room."""
    collections = require("matplotlib.collections", "plot", "extarray.plot.growth_map")
    height, width = owner.shape
    window = ax.get_window_extent()
    cell = 72 / ax.figure.dpi * min(window.width / width, window.height / height)  # points
    thin, heavy = cell_lines(owner)
    for lines, colour, line_width in (
        (thin if cell >= _MIN_LINED else thin[:0], "white", min(0.8, cell / 20)),
        (heavy, _INK, min(1.6, cell / 8)),
    ):
        ax.add_collection(
            collections.LineCollection(
                lines, colors=colour, linewidths=line_width, capstyle="projecting"
            ),
            autolim=False,
        )
    # A digit is about 0.62 of the font size wide; 0.8 of the cell leaves a margin.
    size = min(10.0, 0.55 * cell, 0.8 * cell / (0.62 * digits))
    if size < _MIN_FONT or owner.size > _MAX_TEXTS:
        return
    text_colours = [text_colour(colour) for colour in colours]
    for (i, j), value in np.ndenumerate(values):
        if owner[i, j] < 0:
            continue
        (y, is_high), (x, is_wide) = (
            _middle(k, *ends) for k, ends in ((i, inside[0]), (j, inside[1]))
        )
        ax.text(
            x,
            y,
            str(int(value)),
            ha="center",
            va="center_baseline",
            fontsize=size,
            # White covers cells that are mostly outside.
            color=text_colours[owner[i, j]] if is_high and is_wide else _INK,
            zorder=3,
        )


def _middle(cell: int, low: float, high: float) -> tuple[float, bool]:
    """Return the position of a cell's number along an axis, and whether it is inside the bounds.

    It is the middle of the part inside, if that is half of the cell or more.
    """
    first, last = max(cell, low), min(cell + 1, high)
    if last - first < 0.5:
        return float(cell), False
    return (cell, True) if last - first == 1 else ((first + last) / 2 - 0.5, True)


def _ticks(count: int) -> range:
    return range(0, count, -(-count // 20))


def _draw_legend(
    figure: Any, history: list[Segment], colours: NDArray[np.float64], names: list[str]
) -> None:
    """Draw a line for each segment while they are few, else one for each axis with its shades."""
    patches = require("matplotlib.patches", "plot", "extarray.plot.growth_map")
    handler = require("matplotlib.legend_handler", "plot", "extarray.plot.growth_map")

    def patch(number: int) -> Any:
        return patches.Patch(facecolor=colours[number], edgecolor=_INK, linewidth=0.6)

    handles: list[Any] = []
    labels: list[str] = []
    aside = _legend_width(history, names) is not None
    if aside:
        labels = segment_labels(history, names)
        handles = [patch(number) for number in range(len(history))]
    else:
        handles.append(patch(0))
        labels.append("first segment")
        for axis in sorted({segment.axis for segment in history[1:]}):
            mine = [n for n, s in enumerate(history) if s.axis == axis and n > 0]
            shown = sorted({mine[0], mine[len(mine) // 2], mine[-1]})
            handles.append(tuple(patch(number) for number in shown))
            order = ", early to late" if len(mine) > 1 else ""
            labels.append(f"{names[axis]}: {len(mine)} segment{'s' * (len(mine) > 1)}{order}")
    figure.legend(
        handles,
        labels,
        loc="outside right upper" if aside else "outside lower center",
        ncols=1 if aside or figure.get_figwidth() < 7 else len(handles),
        fontsize=8,
        frameon=False,
        handlelength=1.6,
        handler_map={tuple: handler.HandlerTuple(ndivide=None, pad=0.0)},
    )


def _legend_width(history: list[Segment], names: list[str]) -> float | None:
    """Return the width in inches of a legend at the side; None for a legend below."""
    if len(history) > _MAX_LEGEND:
        return None
    return 0.5 + 0.055 * max(len(label) for label in segment_labels(history, names))
