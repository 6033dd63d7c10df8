"""`ExtArray`: how it is made, grows, is viewed, shown, copied and closed.

From the top down; each module uses only modules below it:

``publishing``
    Arrays in buckets that follow an array as it grows.
``pyramid``
    Smaller and smaller copies of an array that grow with it.
``folders``
    Groups: folders of arrays and groups; and packed files.
``group_session``
    An open group: the arrays that it has open, and operations on its members.
``group``
    Several arrays together: commit, refresh and close.
``rechunk``
    Copies with other chunks, axes, order or dtype, in bounded memory.
``coordinates``
    Coordinates of elements along an axis: labels in attributes, or in arrays beside the array.
``creation``
    Making and opening arrays.
``together``
    Arrays that the ranks of a communicator make, open and rechunk together.
``array``
    `ExtArray`: each public method with its docstring calls the function that does the work.
``writers``
    How the writers of an array share it: one writer, several, or writers of elements alone.
    They hold the locks that make a change one step, for threads and for writers.
``widening``
    A longer text type for an array of texts that meets a longer one.
``growth``
    Growth and shrinking: from arguments to a plan that a transaction carries out; new axes;
    and `follow`, which yields blocks as they arrive.
``compression``
    The codec of an array, changed; its frozen chunks without garbage.
``h5py_compat``
    Methods that h5py's datasets have and NumPy's arrays lack; arrays as options of `create`.
``view_functions``
    NumPy's functions that return views: axes permuted, added or removed.
``life``
    The life of an array on its store: made, attached, refreshed, flushed, closed.
``lazy``
    Views that read late and write through: ``a.lazy[...]`` and ``a.T``.
``split``
    An axis split into several, below a view: frames become time points, channels and slices.
``copies``
    The elements elsewhere: in copies, pickles, other dtypes and dask's graphs.
``filling``
    Elements that fill a new array: rounded, and frozen as soon as chunks are whole.
``resizing``
    A change of bounds: a transaction, carried out step by step or taken back whole.
``freezing``
    Chunks that growth has left behind, compressed on request, at close, or in the background.
``facts``
    Facts that the store of an array tells: mode, path, attributes, whether it may be used;
    `info`; and the protocol of a policy of writers.
``encodings``
    Compression of a new array: as asked for, or that of the array whose elements it takes; and
    rounding, which makes elements compress.

May use: maintenance, selection, numpy_api, and the rooms below them.
"""
