"""Pure geometry: chunks, growth policies, orders of elements, runs of addresses.

From the top down; each module uses some of those below it, and none above:

``html``
    An array as HTML, for notebooks: a table of facts, its grid of chunks, and how it grew.
``drawing``
    The geometry of pictures of a grid: where cells, lines, colours of growth and labels come
    from.
``address_runs``
    Walks over the grid: the boxes of chunks that growth adjoined, and the chunks of a region.
``rechunk_axis``
    One axis of a layout transformation: how source chunks, target chunks and steps lie
    along it.
``bounds``
    The plan of a growth or a cut: new bounds, segments, elements that are new or cut off.
``order``
    Orders of the elements inside a chunk: C, Fortran, Morton ("Z") and Hilbert ("H").  A new one
    goes into `common.choices`, here (an entry in `_AXES` or `_KEYS`), and into
    docs/format/reading.md.  Nothing else asks for a letter.
``policy``
    Growth policies: how many chunks a growth allocates beyond those that it needs.
``tiles``
    Boxes that tile a shape along its chunks, for work that goes box by box.
``chunking``
    Chunk shapes: checks of the user's, and the choice of a default.

May use: common.
"""
