"""Draws what a notebook shows of the array of ``how-to/look-at-an-array.md``, as HTML.

    python docs/_ext/draw_array.py docs/_static

A test compares the file with what the package shows.
"""

import sys
from pathlib import Path

import extarray as xa


def scene():
    """Return the array of the page."""
    a = xa.create(None, (120, 200, 300), "u2", chunks=(40, 50, 50), dims=("time", "y", "x"))
    for axis, by in [(2, 100), (0, 80), (1, 80), (0, 80)]:
        a.extend(axis, by)
    return a


if __name__ == "__main__":
    Path(sys.argv[1], "array.html").write_text(scene()._repr_html_() + "\n", encoding="utf-8")
