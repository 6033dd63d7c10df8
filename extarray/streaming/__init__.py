"""Operations block by block, in bounded memory, on threads.

From the top down; each module uses some of those below it, and none above:

``derived``
    Operands that are computed as they are read: no element of theirs is stored.
``folding``
    Folding: what boxes give is combined to a result, two by two.
``lanes``
    Functions along an axis: box by box, with this axis whole in each box.
``dask``
    dask: arrays of tasks that read an array late, and operations on them and arrays of
    ours.
``meta_arrays``
    Arrays that stand for others where NumPy is to decide something without looking at
    elements.
``operands``
    Arguments and results of NumPy's functions: of ours, of NumPy's, or made of array_likes; how
    much of them a step may have (`step_bytes`).
``elementwise``
    Elementwise operations: box by box over operands of any mix, into NumPy arrays or arrays
    of ours.
``holes``
    Elements that nobody has written: zeros that take no space, neither read nor written.
``blocks``
    Streaming: an operation runs over boxes of elements, each in memory for a moment.  Decides how
    many bytes a box may have (`box_bytes`; for whole lanes and tables `operands.step_bytes`) and
    how many threads work; `grid.tiles` decides the shape of a box.
``limits``
    Limits of what a function may bring into memory without being asked.
``mapped_pages``
    Mapped pages of files that long operations have passed, and need no more.
``warnings``
    Warnings that point at the line of the user, and say a thing once.

May use: grid, _core, common.
"""
