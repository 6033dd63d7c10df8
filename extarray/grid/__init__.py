"""Pure geometry: chunks, growth policies, orders of elements, runs of addresses.

From the top down; each module uses only modules below it:

``html``
    HTML for notebooks: an array's facts, grid of chunks and growth; a tree.
``cuboid``
    The grid as a cuboid of a bounded number of cells and colours, and the file as a strip.
``growth_map``
    The growth map: chunks of a plane, their segments, and the bounds; colours and labels.
``address_runs``
    Walks over the grid: the boxes of chunks that growth added, and the chunks of a region.
``rechunk_axis``
    One axis of a layout transformation: how source chunks, target chunks and steps lie along it.
``bounds``
    The plan of a growth or a cut: new bounds, segments, and elements that are new or cut off.
``chunk_order``
    Orders of chunks in a file: along a curve through the grid, or plane by plane.
``order``
    Orders of the elements inside a chunk: C, Fortran, Morton ("Z") and Hilbert ("H").  A new order
    needs an entry in `common.choices`, here (in `_AXES` or `_KEYS`), and in
    docs/format/reading.md.  No other code compares the letters.
``policy``
    Growth policies: how many chunks a growth allocates beyond those it needs.
``tiles``
    Boxes that tile a shape along its chunks, for work that goes box by box.
``chunking``
    Chunk shapes: checks of the user's, and the choice of a default; the places of chunks.

May use: common.
"""
