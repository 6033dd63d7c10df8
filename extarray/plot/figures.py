"""New figures, and given axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from extarray.common.errors import ArgumentError
from extarray.common.extras import require

__all__ = ["INK", "RED", "finished", "given_axes", "on_axes", "saved"]

#: Colours of lines.
INK, RED = "#1A1A1A", "#C0392B"


def on_axes(ax: Any, size: tuple[float, float], rows: int = 1, **settings: Any) -> tuple[Any, Any]:
    """Return a figure and its axes: a new one of a size in inches, or the given ones."""
    figures: Any = require("matplotlib.figure", "plot", "a picture")
    if ax is not None:
        return ax.figure.figure, ax
    figure = figures.Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, 1, **settings)


def given_axes(ax: Any, least: int, needs: str) -> tuple[Any, list[Any]]:
    """Return the figure and the list of given axes; refuse fewer than `least`.

    `needs` describes the need, for the message.
    """
    axes = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(axes) < least:
        raise ArgumentError(f"ax has {len(axes)} axes, but {needs}")
    return axes[0].figure.figure, axes  # a subfigure's: the figure around it


def finished(figure: Any, ax: Any, title: str | None, path: Any, dpi: float) -> Any:
    """Set the title of axes, save the figure if a path is given, and return it."""
    if title is not None:
        ax.set_title(title, fontsize=10)
    return saved(figure, path, dpi)


def saved(figure: Any, path: Any, dpi: float) -> Any:
    """Save a figure if a path is given, and return it."""
    if path is not None:
        figure.savefig(path, dpi=dpi)
    return figure
