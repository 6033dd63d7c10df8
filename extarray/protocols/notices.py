"""Warnings that point at the line of the user."""

from __future__ import annotations

import sys
import warnings

__all__ = ["warn"]

#: Packages whose frames stand between a user's line and what gives the warning.
_WITHIN = ("extarray", "numpy")


def warn(text: str, category: type[Warning]) -> None:
    """Warn, and name the line outside of this package and NumPy that led here.

    Parameters
    ----------
    text : str
    category : type of Warning
    """
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _WITHIN:
            break
        frame = frame.f_back
        level += 1
    warnings.warn(text, category, stacklevel=level)
