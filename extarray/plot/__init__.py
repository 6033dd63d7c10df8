"""Pictures: the growth map of an array's chunks, and colour composites of scenes.

Needs matplotlib, the extra ``[plot]``; `segments` and `stretch` need NumPy alone.  Figures are made
without ``pyplot``, so nothing here changes matplotlib's global state or needs a display.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extarray.common.arguments import axis_named
from extarray.common.errors import ArgumentError, ArgumentTypeError, ShapeError
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

__all__ = ["Segment", "composite", "growth_map", "segments", "stretch"]

_INK = "#1A1A1A"

_CELL = 0.36  # side of a cell, inches
_MAX_PANEL = 11.0  # side of a panel, inches; more chunks make smaller cells
_MAX_FIGURE = 16.0  # width of the panels side by side, inches
_MIN_LINED = 2.0  # points; the thin lines around cells that are smaller could not be seen
_MIN_FONT = 4.5  # points; addresses that would be smaller are left out
_MAX_TEXTS = 10_000  # addresses in a panel; text is slow
_MAX_LEGEND = 10  # segments; more are summed up, one line an axis


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

    The colour tells the axis that grew, its shade tells when: light is early, dark is late.  Heavy
    lines separate segments.  The first segment is grey.

    Parameters
    ----------
    a : ExtArray or Axial
        The array, or its ``axial``.
    ax : matplotlib Axes or sequence of them, optional
        Where to draw; for three axes as many as there are panels.  Default: a new figure, large
        enough for the addresses to be legible.
    axis : int or str
        For three axes: the axis, or its name, with one panel for each of its chunk indices.
    at : mapping of int or str to int, optional
        Axes that are held at one chunk index, ``{axis: chunk index}``.  What is left has one to
        three axes.
    names : sequence of str, optional
        A name for each axis of the array, default its `dims`, or ``axis 0``, ``axis 1``, ...
    title : str, optional
        Title of a new figure.
    legend : bool
        Whether a new figure has a legend.
    path : path, optional
        Save the figure there, in the format of the suffix.
    dpi : float
        Dots an inch of the file.

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
        The array has no chunk, or no axis, or more than three axes that `at` does not hold, or
        the panels or their chunks are too many to be seen, or `ax` has too few axes.

    Notes
    -----
    O(number of chunks drawn).  Addresses are left out where cells are too small for them.

    References
    ----------
    [drxmp2009], figures 1 to 3.
    """
    figure_module = require("matplotlib.figure", "plot", "extarray.plot.growth_map")
    axial = getattr(a, "axial", a)
    if not hasattr(axial, "grid"):
        raise ArgumentTypeError(
            f"a {type(a).__name__} has no chunks of its own to draw; give an array, which is the "
            "base of a view, or its axial"
        )
    grid = tuple(int(n) for n in axial.grid)
    dims = getattr(a, "dims", None)
    names = axis_titles(dims if names is None else names, len(grid))
    numbered = {_number(j, dims): index for j, index in (at or {}).items()}
    held = held_axes(numbered, grid)
    free = [j for j in range(len(grid)) if j not in held]
    if not free or len(free) > 3:
        raise ArgumentError(
            f"cannot draw {len(free)} axes of the grid {grid}: a growth map shows 1 to 3; "
            "hold axes at one chunk index with at={axis: index}"
        )
    if 0 in grid:
        raise ArgumentError(f"cannot draw the grid {grid}: it has no chunk; grow the array first")

    history = segments(axial)
    panels = panels_of(
        axial, grid, held, free, panel_axis(_number(axis, dims), free, len(grid)), names
    )
    digits = len(str(max(int(panel.addresses.max()) for panel in panels)))
    if ax is None:
        figure, axes, across = _new_figure(
            figure_module, panels, digits, title, _legend_width(history, names) if legend else 0.0
        )
    else:
        axes, across = list(np.ravel(np.asarray(ax, dtype=object))), 1
        if len(axes) < len(panels):
            raise ArgumentError(f"ax has {len(axes)} axes, and there are {len(panels)} panels")
        figure = axes[0].figure.figure  # of a subfigure: the figure that it lies in
    colours = segment_colours(history)
    starts = np.array([segment.start_address for segment in history])
    drawn = []
    for number, (panel, one) in enumerate(zip(panels, axes, strict=False)):
        owner = np.searchsorted(starts, panel.addresses, side="right") - 1
        # The outer panels of a new figure carry the names of the axes for all.
        outer = (number % across == 0, number < across)
        _draw_cells(one, panel, colours[owner], outer if ax is None else (True, True))
        drawn.append((one, panel, owner))
    if legend and ax is None:
        _draw_legend(figure, history, colours, names)
    # Only the layout tells how large a cell is, and so how large the addresses may be.
    figure.draw_without_rendering()
    for one, panel, owner in drawn:
        _draw_lines_and_addresses(one, panel, owner, colours, digits)
    if path is not None:
        figure.savefig(path, dpi=dpi)
    return figure


def _number(axis: int | str, dims: Sequence[str] | None) -> int:
    """Return an axis, of which the name may be given."""
    return axis_named(axis, dims) if isinstance(axis, str) else axis


def stretch(image: Any, percentiles: tuple[float, float] = (2.0, 98.0)) -> NDArray[np.float32]:
    """Stretch the contrast of each channel of an image to 0...1.

    Parameters
    ----------
    image : array_like, shape (rows, columns, channels)
        Real numbers; NaN is allowed and becomes 0.
    percentiles : (float, float)
        The percentiles of a channel, in 0...100, that become 0 and 1; what lies beyond is clipped.

    Returns
    -------
    ndarray of float32, shape as `image`
        A constant channel becomes 0.

    Examples
    --------
    >>> stretch([[[0], [5], [10]]], (0, 100)).ravel()
    array([0. , 0.5, 1. ], dtype=float32)
    """
    values = np.asarray(image, dtype=np.float64)
    if values.ndim != 3 or 0 in values.shape:
        raise ShapeError(
            f"an image is (rows, columns, channels), none of them 0, not {values.shape}"
        )
    values = np.where(np.isfinite(values), values, np.nan)
    flat = values.reshape(-1, values.shape[2])
    result = np.zeros(values.shape, dtype=np.float32)
    for channel in range(values.shape[2]):
        known = flat[:, channel][~np.isnan(flat[:, channel])]
        if known.size == 0:
            continue
        low, high = np.percentile(known, percentiles)
        if high > low:
            scaled = (values[..., channel] - low) / (high - low)
            result[..., channel] = np.nan_to_num(scaled, nan=0.0).clip(0.0, 1.0)
    return result


def composite(
    cube: Any,
    bands: Sequence[int],
    ax: Any = None,
    *,
    percentiles: tuple[float, float] = (2.0, 98.0),
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
    dpi: float = 110,
) -> Any:
    """Draw a colour composite: three bands of a scene as red, green and blue.

    Parameters
    ----------
    cube : ExtArray or ndarray, shape (rows, columns, bands)
        Only the three bands are read.
    bands : sequence of three int
        The bands that are shown in red, green and blue, in this order.
    ax : matplotlib Axes, optional
        Where to draw; default: a new figure.
    percentiles : (float, float)
        As in `stretch`.
    title : str, optional
        Title of the axes.
    path : path, optional
        Save the figure there, in the format of the suffix.
    dpi : float
        Dots an inch of the file.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    MissingExtraError
        Matplotlib is not installed.
    ArgumentError
        `cube` has not three axes, or `bands` are not three.
    """
    figure_module = require("matplotlib.figure", "plot", "extarray.plot.composite")
    if len(cube.shape) != 3:
        raise ShapeError(f"a scene is (rows, columns, bands), not {tuple(cube.shape)}")
    if len(bands) != 3:
        raise ArgumentError(f"a composite takes three bands, not {len(bands)}")
    image = stretch(
        np.stack([np.asarray(cube[:, :, band]) for band in bands], axis=-1), percentiles
    )
    if ax is None:
        figure = figure_module.Figure(figsize=(5.0, 5.2), layout="constrained")
        ax = figure.add_subplot()
    else:
        figure = ax.figure
    ax.imshow(image, interpolation="nearest")
    ax.set_xlabel("column")
    ax.set_ylabel("row")
    if title is not None:
        ax.set_title(title, fontsize=10)
    if path is not None:
        figure.savefig(path, dpi=dpi)
    return figure


def _new_figure(
    figure_module: Any,
    panels: list[Panel],
    digits: int,
    title: str | None,
    aside: float | None,
) -> tuple[Any, list[Any], int]:
    """Make a figure whose cells are large enough for addresses of so many digits.

    `aside` is the width in inches that a legend at the side needs, None where it lies below.
    Returns the figure, its axes, and how many panels lie side by side.
    """
    height, width = panels[0].addresses.shape
    cell = min(_CELL * max(1.0, digits / 3), _MAX_PANEL / max(height, width))
    across = max(1, min(len(panels), int(_MAX_FIGURE / (width * cell + 0.25))))
    down = -(-len(panels) // across)
    across = -(-len(panels) // down)  # no shorter last row than need be
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
    """Draw the coloured cells and what stands around them."""
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


def _draw_lines_and_addresses(
    ax: Any, panel: Panel, owner: NDArray[np.int64], colours: NDArray[np.float64], digits: int
) -> None:
    """Draw lines between cells, heavy between segments, and addresses where there is room."""
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
    # A digit is about 0.62 of the font's size wide; 0.8 of the cell leaves a margin.
    size = min(10.0, 0.55 * cell, 0.8 * cell / (0.62 * digits))
    if size < _MIN_FONT or owner.size > _MAX_TEXTS:
        return
    text_colours = [text_colour(colour) for colour in colours]
    for (i, j), address in np.ndenumerate(panel.addresses):
        ax.text(
            j,
            i,
            str(int(address)),
            ha="center",
            va="center_baseline",
            fontsize=size,
            color=text_colours[owner[i, j]],
        )


def _ticks(count: int) -> range:
    return range(0, count, -(-count // 20))


def _draw_legend(
    figure: Any, history: list[Segment], colours: NDArray[np.float64], names: list[str]
) -> None:
    """Draw a line a segment while they are few, else a line an axis with its range of shades."""
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
    """Return the inches that a legend at the side needs; None where it has a line an axis."""
    if len(history) > _MAX_LEGEND:
        return None
    return 0.5 + 0.055 * max(len(label) for label in segment_labels(history, names))
