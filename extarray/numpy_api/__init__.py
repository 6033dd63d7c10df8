"""NumPy's functions, methods and operators, streamed.

From the top down; each module uses some of those below it, and none above:

``dlpack``
    What the array API standard wants of an array, beyond NumPy's protocols.
``methods``
    What an array of ours has of an ndarray: operators, protocols, methods.
``catalogue``
    All streamed forms: to import this module is to register them.
``iteration``
    Iteration over elements in C order: read piece by piece, given one by one.
``ufuncs``
    Ufuncs on arrays of ours, all of their methods: the body of ``__array_ufunc__``.
``along``
    Functions along an axis: differences, gradients, any function of lanes.
``comparing``
    Comparison of whole arrays: box by box, until a difference is found.
``cumulative``
    Cumulative sums and products: accumulations of a ufunc, of an axis or of all elements.
``describing``
    Functions that ask what an array is, and not what is in it: no element is read.
``files``
    Writing the elements of an array to a file, piece by piece in C order.
``fourier``
    Fourier transforms: by whole lanes along one axis, or along several one after the other.
``histograms``
    Counts of values: the edges of the bins first, then every box is counted alone.
``joining``
    Joining arrays along an axis: each part is copied to its place.
``linalg``
    Products of arrays: panels of the operands are multiplied by BLAS, and summed up in the
    result.
``moments``
    Means and variances, of boxes and of what they are parts of.
``norms``
    Norms of vectors and matrices: reductions of the elements' absolute values.
``pointwise``
    Functions that treat each element alone: box by box, as ufuncs do.
``quantiles``
    Median, quantiles and percentiles: exact, by whole lanes where they fit into memory.
``sorting``
    Sorting along an axis, by whole lanes; sets of values; places in a sorted array.
``statistics``
    Averages and covariances: what is known of two parts is combined to what is known of
    both.
``accumulations``
    ``ufunc.accumulate`` and ``ufunc.reduceat``: along one axis, box after box, with a
    carry.
``choosing``
    Elements by their places: taken, put, found.
``partition``
    Order statistics of an array of any size, exact, in bounded memory.
``reductions``
    Reductions by a ufunc, and what NumPy has of them as functions; places of extremes;
    counts.

May use: streaming, grid, _core, common.
"""
