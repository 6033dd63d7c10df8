"""`ExtArray`: how it is made, grows, is viewed, shown, copied and closed.

From the top down; each module uses some of those below it, and none above:

``folders``
    Groups: folders of arrays and groups; and packed files.
``group_session``
    A group while it is open: the arrays that it has open, and what is done to its members.
``group``
    Several arrays together: one commit for all, one look at all, and the end of all.
``rechunk``
    Other chunks, permuted axes, another order or dtype: of a whole array, in bounded
    memory.
``creation``
    Making and opening arrays.
``together``
    Arrays that the ranks of a communicator make, open and relay together.
``array``
    `ExtArray`: every public method with its docstring, and the function that does the work.
``writers``
    The policies of an array's writers: one, several, and those who write nothing but elements.
    They have the locks that make a change one step, for threads and for writers.
``growth``
    Growth and shrinking: arguments to a plan, which a transaction carries out; new axes; and
    following: blocks that arrive in an array while it is read.
``h5py_compat``
    Methods that h5py's datasets have and NumPy's arrays lack; what arrays say of
    themselves.
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
    A change of bounds: a transaction, carried out step by step or taken back whole.
``facts``
    Facts of an array by its store: mode, path, attributes, whether it may be used; `info`; what
    a policy of writers answers.

May use: maintenance, selection, numpy_api, and the rooms below them.
"""
