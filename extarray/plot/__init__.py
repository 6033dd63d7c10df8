"""Pictures of arrays: growth, planes of elements, the file's layout, zones, and rechunking.

``a.plot`` makes them; the functions here take what they draw as an argument.  They need
matplotlib, the extra ``[plot]``; `segments`, `stretch` and pictures as text need NumPy alone.
Figures are made without ``pyplot``, so nothing here changes matplotlib's global state or needs a
display.

Its modules, from the top down; each uses some of those below it:

``accessor``
    `Plots`: the pictures of an array, as ``a.plot``.
``text``
    Pictures as text, for terminals.
``zones``
    Zones: which chunks belong to which rank.
``layout``
    The layout: where in the file the chunks of the grid, and of a selection, lie.
``plans``
    Plans of rechunking: templates, and chunks of both kinds in them.
``growth``
    The growth map: the grid of chunks, each cell with its address, coloured by segment.
``images``
    Elements as images: planes of arrays, and colour composites of scenes.
``figures``
    Figures: new ones, and axes that are given.

May use: array, and the rooms below it.
"""

from extarray.grid.drawing import Segment, segments
from extarray.plot.accessor import Plots
from extarray.plot.growth import growth_map
from extarray.plot.images import composite, slice_image, stretch
from extarray.plot.layout import layout
from extarray.plot.plans import rechunk_passes
from extarray.plot.zones import zones

__all__ = [
    "Plots",
    "Segment",
    "composite",
    "growth_map",
    "layout",
    "rechunk_passes",
    "segments",
    "slice_image",
    "stretch",
    "zones",
]
