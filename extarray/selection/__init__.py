"""From brackets to queries: an index becomes a plan that the core carries out.

From the top down; each module uses only modules below it:

``access_log``
    Recorded reads of an array: a sample of selections, from which chunk shapes are advised.
``placement``
    Placement of a view in its array: turns a query on the view into one on the array.
``selections``
    The selection methods of zarr's arrays, a pair to read and write for each kind of index.
``indexable``
    Reads and writes of arrays and views by an index of any kind.
``execution``
    Execution of queries, in parts that fit into memory, each moved by one call of the core.
``axis_factors``
    Factors of one axis each: a view's selection of each axis of its array.
``pointwise``
    zarr's rules for points (``vindex``): an index for each axis, or a mask of the array's shape.
``orthogonal``
    Orthogonal indices, which act on each axis independently: of elements, and of chunks.
``brackets``
    NumPy's rules: a basic, advanced or mixed index becomes a query.
``fields``
    Names of fields as indices of an array of records.
``entries``
    Entries of an index: their kinds, and errors for anything else.
``query``
    A query: the outer product of factors, and the shape of the result.
``masks``
    Masks as factors: an array of booleans that selects along neighbouring axes.
``factors``
    Factors: the part of a query along some axes, with its splitting and counting.

May use: streaming, grid, _core, common.
"""
