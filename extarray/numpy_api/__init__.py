"""NumPy's functions, methods and operators, streamed.

A streamed form has the signature of NumPy's function.  The table in ``dispatch`` names its module,
which is imported when the function is first called.

From the top down; each module uses only modules below it:

``methods``
    The operators, protocols and methods that arrays share with ndarray.
``dlpack``
    Members of the array API standard beyond NumPy's protocols.
``operators``
    Operators by ufuncs; NumPy's rules decide whose operator runs.
``dispatch``
    The bodies of ``__array_function__`` and ``__array_ufunc__``; the table of streamed forms.
``c_order``
    Elements in C order, read and written piece by piece: iteration, ``flat``, files.
``histograms``
    Counts of values: find the edges of the bins, then count box by box.
``linalg``
    Products, by panels of the operands; norms.
``statistics``
    Means, variances, averages and covariances, combined from those of parts.
``order_statistics``
    Exact medians, quantiles and percentiles of arrays of any size.
``along_axis``
    Functions along an axis: accumulations, differences, Fourier transforms, any user's function.
``sorting``
    Sorting along an axis, by whole lanes; sets of values; places in a sorted array.
``manipulation``
    Arrays joined along an axis, or made like another; shapes and dtypes.
``elementwise_functions``
    Functions that treat each element alone, and comparisons of all elements: box by box.
``indexing``
    Elements taken, put and found by their places.
``reductions``
    Reductions by a ufunc and the functions built on them; places of extremes; counts.
``registry``
    The registry of streamed forms (``streams``), and the fallback for functions without one.

May use: streaming, grid, _core, common.
"""
