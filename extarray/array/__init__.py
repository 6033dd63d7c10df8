"""`ExtArray`: how it is made, grows, is viewed, shown, copied and closed.

From the top down; each module uses some of those below it, and none above:

``fromfile``
    Arrays from raw files, which have elements and nothing else.
``group``
    Several arrays that change together: one commit for all, and one look at all.
``rechunk``
    Other chunks, permuted axes, another order or dtype: of a whole array, in bounded
    memory.
``creation``
    Making and opening arrays.
``shared``
    One of several writers of an array.
``together``
    Arrays that the ranks of a communicator make, open and relay together.
``array``
    The array: all that users can do with one, and where it is done.
``follow``
    Live data: what arrives in an array while it is read.
``growth``
    Growth and shrinking: arguments to a plan, which a transaction carries out; and an axis
    more.
``h5py_compat``
    Habits of users of h5py's datasets, where NumPy has no word for it.
``view_functions``
    NumPy's functions that give views: with the axes in another order, with more or fewer of
    them.
``life``
    The life of an array on its store: made, attached, refreshed, brought to the disk, closed.
``lazy``
    Views that read late and write through: what ``a.lazy[...]`` and ``a.T`` give.
``copies``
    The elements elsewhere: in copies, pickles and other dtypes, and in dask's graphs.
``resizing``
    A change of bounds, carried out step by step or taken back whole.
``facts``
    Facts of an array: what its store says, whether it may be used, and how it is shown.

May use: storage, selection, numpy_api, and what is below them.
"""
