"""Pictures of arrays: growth, planes of elements, the file's layout, zones, and rechunking.

``a.plot`` draws them; the functions here take the objects that they draw as arguments.  They need
matplotlib, the extra ``[plot]``; `segments`, `stretch` and pictures as text need only NumPy.
Figures are made without ``pyplot``, so nothing here changes matplotlib's global state or needs a
display.

Its modules, from the top down; each uses some of those below it:

``accessor``
    `Plots`: the pictures of an array, as ``a.plot``.
``text``
    Pictures as text, for terminals.
``zones``
    Zones: which rank has which chunks.
``layout``
    The layout: places in the file of all chunks, and of a selection's chunks.
``plans``
    Plans of rechunking: templates, with the source and target chunks in them.
``growth``
    The growth map: the grid of chunks, each cell with its address, coloured by segment.
``images``
    Elements as images: planes of arrays, and colour composites of scenes.
``figures``
    New figures, and given axes.

May use: array, and the rooms below it.
"""

from extarray.grid.growth_map import Segment, segments
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
