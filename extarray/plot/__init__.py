"""Pictures of arrays: elements, growth, the file's layout, zones, and rechunking.

``a.plot`` draws them; the functions here take the objects that they draw as arguments.  They need
matplotlib, the extra ``[plot]``; `segments`, `stretch` and pictures as text need only NumPy.
Figures are ``pyplot``'s where somebody may look at them: in an interactive session, or where the
program has imported ``pyplot``.  Elsewhere, and where a figure goes to a file, nothing here changes
matplotlib's global state or needs a display.

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
    Scenes as images: colour composites, and the stretch of contrast.
``elements``
    The elements of an array: a line, an image, or small images side by side.
``pixels``
    An image each of whose pixels shows the extreme of its cells, at any size and zoom.
``scales``
    Scales: the axes of a picture of elements, with coordinates, dates and texts.
``figures``
    New figures, which notebooks and windows show, and given axes.

May use: array, and the rooms below it.
"""

from extarray.grid.growth_map import Segment, segments
from extarray.plot.accessor import Plots
from extarray.plot.elements import elements, slice_image
from extarray.plot.growth import growth_map
from extarray.plot.images import composite, stretch
from extarray.plot.layout import layout
from extarray.plot.plans import rechunk_passes
from extarray.plot.zones import zones

__all__ = [
    "Plots",
    "Segment",
    "composite",
    "elements",
    "growth_map",
    "layout",
    "rechunk_passes",
    "segments",
    "slice_image",
    "stretch",
    "zones",
]
