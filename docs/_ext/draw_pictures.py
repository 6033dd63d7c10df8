"""Draws the pictures of the how-to on pictures.

python docs/_ext/draw_pictures.py docs/_static
"""

import sys
from pathlib import Path

import numpy as np

import extarray as xa


def scene():
    """An array that has grown on three sides, and whose bounds cut chunks."""
    a = xa.create(None, (100, 90), "f4", chunks=(16, 20), dims=("y", "x"))
    a.attrs.update(long_name="height", units="m")
    growths = (("x", 50, "end"), ("y", 45, "end"), ("y", 10, "start"), ("x", 33, "end"))
    for axis, by, side in growths:
        a.extend(axis, by, side=side)
    y, x = np.indices(a.shape)
    a[...] = 10 * np.sin(y / 20) * np.cos(x / 30)
    return a


def main(folder):
    a = scene()
    folder = Path(folder)
    a.plot.growth(path=folder / "plot-growth.png", dpi=80)
    a.plot.slice(chunks=True, path=folder / "plot-slice.png", dpi=80)
    a.plot.layout(np.s_[20:60, 10:50], path=folder / "plot-layout.png", dpi=80)
    a.plot.zones(6, path=folder / "plot-zones.png", dpi=80)
    plan = xa.rechunk_plan(a, chunks=(140, 4), max_memory=4000)
    a.plot.plan(plan, path=folder / "plot-plan.png", dpi=80)


if __name__ == "__main__":
    main(sys.argv[1])
