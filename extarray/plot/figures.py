"""New figures, which notebooks and windows show, and given axes."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from extarray.common.errors import ArgumentError
from extarray.common.extras import require

__all__ = ["INK", "RED", "finished", "frame_colour", "given_axes", "new_figure", "on_axes", "saved"]

#: Colours of lines over coloured areas, whatever the style.
INK, RED = "#1A1A1A", "#C0392B"


def new_figure(size: tuple[float, float], path: Any = None) -> Any:
    """Return a new figure of a size in inches.

    It is one of ``pyplot``'s where somebody may look at it: in a notebook or another interactive
    session, or if the program has imported ``pyplot``.  A figure that goes to a file, or that
    belongs to a program without ``pyplot``, needs no window, and nothing has to close it.
    """
    figures: Any = require("matplotlib.figure", "plot", "a picture")
    if path is not None or not ("matplotlib.pyplot" in sys.modules or _is_interactive()):
        return figures.Figure(figsize=size, layout="constrained")
    pyplot: Any = require("matplotlib.pyplot", "plot", "a picture")
    figure = pyplot.figure(figsize=size, layout="constrained")
    if "inline" in pyplot.get_backend():
        # The notebook shows all new figures at the end of the cell.  As the value of the cell, this
        # one would be there twice.
        figure._ipython_display_ = partial(_display_once, figure)
    return figure


def _is_interactive() -> bool:
    """Tell whether a person sees at once what a call returns."""
    if hasattr(sys, "ps1") or sys.flags.interactive:
        return True
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None


def _display_once(figure: Any) -> None:
    """Show a figure in a notebook, and nowhere again unless somebody asks."""
    vars(figure).pop("_ipython_display_", None)
    display: Any = sys.modules["IPython.display"]  # the inline backend uses it
    pyplot: Any = require("matplotlib.pyplot", "plot", "a picture")
    display.display(figure)
    pyplot.close(figure)


def on_axes(
    ax: Any, size: tuple[float, float], rows: int = 1, path: Any = None, **settings: Any
) -> tuple[Any, Any]:
    """Return a figure and its axes: a new one of a size in inches, or the given ones."""
    if ax is not None:
        return ax.figure.figure, ax
    figure = new_figure(size, path)
    return figure, figure.subplots(rows, 1, **settings)


def given_axes(ax: Any, least: int, needs: str) -> tuple[Any, list[Any]]:
    """Return the figure and the list of given axes; refuse fewer than `least`.

    `needs` describes the need, for the message.
    """
    axes = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(axes) < least:
        raise ArgumentError(f"ax has {len(axes)} axes, but {needs}")
    return axes[0].figure.figure, axes  # a subfigure's: the figure around it


def frame_colour() -> str:
    """Return the colour of frames around pictures, which the style chooses."""
    matplotlib: Any = require("matplotlib", "plot", "a picture")
    colour: str = matplotlib.rcParams["axes.edgecolor"]
    return colour


def finished(figure: Any, ax: Any, title: str | None, path: Any, dpi: float, given: Any) -> Any:
    """Set the title of axes; then go on as `saved` does."""
    if title is not None:
        ax.set_title(title, fontsize=10)
    return saved(figure, path, dpi, given)


def saved(figure: Any, path: Any, dpi: float, given: Any) -> Any:
    """Save a figure if a path is given; return the given axes, or else the figure.

    The figure of given axes belongs to the caller, whose notebook shows it in any case.
    """
    if path is not None:
        figure.savefig(path, dpi=dpi)
    return figure if given is None else given
