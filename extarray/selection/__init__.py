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
``execution``
    Queries carried out: in parts that memory has room for, each moved by one call of the compiled
    core.
``axis_factors``
    Factors of one axis each: what a view has of the axes of its array.
``pointwise``
    zarr's rules for points (``vindex``): an index for each axis, or a mask of the array's
    shape.
``orthogonal``
    Orthogonal indices, which act on their axes one by one: of elements, and of chunks.
``brackets``
    NumPy's rules: a basic or advanced index, or a mixture, becomes a query.
``fields``
    Names of fields as indices of an array of records.
``entries``
    Entries of an index: their kinds, and the errors for anything else.
``query``
    A query: the outer product of factors, and the shape of what they select.
``masks``
    Masks as factors: an array of booleans that selects along some neighbouring axes.
``factors``
    Factors: the part of a query along some axes, and how it is split and counted.

May use: streaming, grid, _core, common.
"""
