"""NumPy's functions, methods and operators, streamed.

A streamed form has the signature of NumPy's function.  Its module is imported when the function is
first called; the table in ``dispatch`` tells which one it is.

From the top down; each module uses some of those below it, and none above:

``methods``
    The operators, protocols and methods that arrays share with ndarray.
``dlpack``
    Members of the array API standard beyond NumPy's protocols.
``operators``
    Operators by ufuncs, with NumPy's rules of whose operand decides.
``dispatch``
    The bodies of ``__array_function__`` and ``__array_ufunc__``; the table of streamed forms.
``c_order``
    Elements in C order, read and written piece by piece: iteration, ``flat``, files.
``histograms``
    Counts of values: the edges of the bins first, then every box is counted alone.
``linalg``
    Products, by panels of the operands; norms.
``statistics``
    Means, variances, averages and covariances: of parts first, then of both together.
``order_statistics``
    Medians, quantiles and percentiles, exact, of arrays of any size.
``along_axis``
    Functions along an axis: accumulations, differences, Fourier transforms, any of lanes.
``sorting``
    Sorting along an axis, by whole lanes; sets of values; places in a sorted array.
``manipulation``
    Arrays joined along an axis, or made like another; shapes and dtypes.
``elementwise_functions``
    Functions that treat each element alone, and comparisons of all elements: box by box.
``indexing``
    Elements taken, put and found by their places.
``reductions``
    Reductions by a ufunc, NumPy's functions that are such; places of extremes; counts.
``registry``
    The registry of streamed forms (``streams``), and the way of functions that have none.

May use: streaming, grid, _core, common.
"""
