"""Operations block by block, in bounded memory, on threads.

From the top down; each module uses only modules below it:

``derived``
    Operands computed as they are read; their elements are stored nowhere.
``folding``
    Folding: the states of boxes are combined pairwise into a result.
``lanes``
    Functions along an axis, box by box; each box has the axis whole.
``dask``
    dask: task graphs that read an array late, and operations that mix dask's arrays with ours.
``meta_arrays``
    Stand-ins for arrays, from which NumPy takes decisions without looking at elements.
``operands``
    Arguments and results of NumPy's functions, whether ours, NumPy's or array_likes; the bytes a
    step may have (`step_bytes`).
``elementwise``
    Elementwise operations, box by box, on operands of any mix, into arrays of NumPy or ours.
``holes``
    Unwritten elements: zeros that take no space, neither read nor written.
``blocks``
    Streaming: an operation runs over boxes of elements, each in memory for a moment.  Decides how
    many bytes a box may have (`box_bytes`; `operands.step_bytes` for whole lanes and tables) and
    how many threads work; `grid.tiles` decides the shape of a box.
``extremes``
    Extremes of cells: what a picture shows of an array that has more elements than places.
``limits``
    Limits on how much a function may bring into memory unasked.
``mapped_pages``
    Mapped pages of files that long operations have passed and no longer need.
``warnings``
    Warnings that point at the user's line, each given once.

May use: grid, _core, common.
"""
