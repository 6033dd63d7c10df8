"""From brackets to queries: an index becomes a plan that the core carries out.

From the top down; each module uses some of those below it, and none above:

``access_log``
    Reads of an array: a sample of selections, from which chunk shapes are advised.
``placement``
    Placement of a view in its array: a query on the view is one on the array.
``selections``
    The ways in which zarr's arrays are read and written, one pair for each kind of index.
``indexable``
    Arrays and views as every kind of index takes them, and how these are read and written.
``transfers``
    Queries read and written: in parts that memory has room for, each moved by the compiled
    core.
``parts``
    Parts of views: what a view has of one axis of its array.
``brackets``
    NumPy's rules for what stands between the brackets: basic and advanced indices, and both
    mixed.
``fields``
    Names of fields as indices of an array of records.
``orthogonal``
    Orthogonal indices, which act on their axes one by one: of elements, and of chunks.
``pointwise``
    Indices that select points: by an index for each axis, or by a mask of the array's
    shape.
``entries``
    Entries between the brackets: which kinds there are, and what is none.
``query``
    A query: the outer product of factors, and the shape of what they select.
``masks``
    Factors of an array of booleans that lies on some neighbouring axes.
``factors``
    Factors: what an index selects on some axes of an array, and how it is cut and counted.

May use: streaming, grid, _core, common.
"""
