"""Plans of rechunking: templates, with the source and target chunks in them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from extarray.common.errors import ArgumentError
from extarray.common.extras import require
from extarray.common.formatting import format_bytes
from extarray.grid.growth_map import axis_titles
from extarray.plot.figures import RED, frame_colour, given_axes, new_figure, saved

__all__ = ["rechunk_passes"]

_SOURCE = "#9A9A9A"
_MOST_LINES = 400  # along an axis; more would merge into an area


def rechunk_passes(
    plan: Any,
    ax: Any = None,
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
    dpi: float = 110,
) -> Any:
    """Draw the passes of a plan: their templates, and source and target chunks in the first one.

    Each pass has two panels of the last two axes.  The upper one is the array with its templates,
    each read and written separately; the end of the array cuts them off.  The lower one is the
    first template: grey lines show chunks to read, dashed red lines chunks to write.

    Parameters
    ----------
    plan : RechunkPlan
        A plan from `extarray.rechunk_plan`.
    ax : matplotlib Axes or sequence of them, optional
        Axes to draw into, two for each pass, all upper ones first; default: a new figure.
    names : sequence of str, optional
        A name for each axis of the new array.
    title : str, optional
        Title of a new figure.
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
        The plan has no pass or fewer than two axes, or `ax` has too few axes.
    """
    if not plan.passes:
        raise ArgumentError("the plan has no passes, so there is nothing to draw")
    if len(plan.shape) < 2:
        raise ArgumentError("a plan is drawn along its last two axes, but this one has fewer")
    titles = axis_titles(names, len(plan.shape))
    count = len(plan.passes)
    if ax is None:
        figure = new_figure((3.6 * count + 0.4, 7.0), path)
        panels = list(np.ravel(figure.subplots(2, count)))
        if title is not None:
            figure.suptitle(title, fontsize=11)
    else:
        figure, panels = given_axes(ax, 2 * count, f"{count} passes take {2 * count}")
    for number, one in enumerate(plan.passes):
        _draw_whole(panels[number], one, number + 1, titles)
        _draw_template(panels[count + number], one, titles)
    if ax is None:
        _draw_legend(figure)
    return saved(figure, path, dpi, ax)


def _draw_whole(ax: Any, one: Any, number: int, titles: list[str]) -> None:
    """Draw the templates of a pass in the array."""
    patches: Any = require("matplotlib.patches", "plot", "a plan")
    height, width = one.shape[-2:]
    _frame(ax, (height, width), titles)
    down, right = _first(one)
    ax.add_patch(patches.Rectangle((0, 0), right, down, facecolor="#F6DDA8", linewidth=0))
    _draw_lines(ax, one.template[-2:], (height, width), {"color": frame_colour(), "linewidth": 0.8})
    ax.set_title(
        f"pass {number}: {one.source_chunks} to {one.target_chunks}\n"
        f"reads {format_bytes(one.bytes_read)}, writes {format_bytes(one.bytes_written)}",
        fontsize=9,
    )


def _draw_template(ax: Any, one: Any, titles: list[str]) -> None:
    """Draw the source and target chunks in the first template of a pass."""
    extents = _first(one)
    _frame(ax, extents, titles)
    ax.set_facecolor("#FCF3DF")
    _draw_lines(ax, one.source_chunks[-2:], extents, {"color": _SOURCE, "linewidth": 1.4})
    dashed = {"color": RED, "linewidth": 1.0, "linestyle": (0, (4, 3))}
    _draw_lines(ax, one.target_chunks[-2:], extents, dashed)
    ax.set_title(f"template of {one.template}, {format_bytes(one.memory)}", fontsize=9)


def _first(one: Any) -> tuple[int, int]:
    """Return the extents of the first template inside the array."""
    down, right = (min(t, n) for t, n in zip(one.template[-2:], one.shape[-2:], strict=True))
    return down, right


def _frame(ax: Any, extents: tuple[int, int], titles: list[str]) -> None:
    """Set the limits of axes to a box at the origin, and label both axes."""
    height, width = extents
    ax.set_xlim(0, width)
    ax.set_ylim(height, 0)
    ax.set_aspect("equal" if max(height, width) < 4 * min(height, width) else "auto")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_ylabel(titles[-2])
    ax.set_xlabel(titles[-1])
    for spine in ax.spines.values():
        spine.set_linewidth(1.2)


def _draw_lines(
    ax: Any, extents: Sequence[int], within: Sequence[int], style: dict[str, Any]
) -> None:
    """Draw the lines of a grid of extents in a box at the origin."""
    height, width = within
    rows, columns = (
        range(n, most, n) if most / n <= _MOST_LINES else []
        for n, most in zip(extents, within, strict=True)
    )
    ax.hlines(rows, 0, width, **style)
    ax.vlines(columns, 0, height, **style)


def _draw_legend(figure: Any) -> None:
    lines: Any = require("matplotlib.lines", "plot", "a plan")
    handles = [
        lines.Line2D([], [], color=frame_colour(), linewidth=0.8),
        lines.Line2D([], [], color=_SOURCE, linewidth=1.4),
        lines.Line2D([], [], color=RED, linewidth=1.0, linestyle=(0, (4, 3))),
    ]
    labels = ["templates", "chunks read", "chunks written"]
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
