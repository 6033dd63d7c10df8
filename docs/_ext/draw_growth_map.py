"""Draws the growth map of the README: the array of [otoo2006], figure 3a.

    python docs/_ext/draw_growth_map.py docs/_static

A test compares the numbers of this picture with the published ones.
"""

import sys
from pathlib import Path

import extarray as xa
from extarray.plot import growth_map

#: The first grid, then (axis, by) of each growth, in chunks.
GRID = (4, 3)
GROWTHS = ((1, 2), (0, 3), (1, 3), (0, 2), (1, 2))


def main(folder):
    with xa.create(None, shape=GRID, dtype="u1", chunks=1) as a:
        for axis, by in GROWTHS:
            a.extend(axis=axis, by=by)
        growth_map(a, path=Path(folder, "growth-map.png"), dpi=130)


if __name__ == "__main__":
    main(sys.argv[1])
