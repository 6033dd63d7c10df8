"""Bridges to other libraries, each imported by those who use it.

A bridge stands beside the array: it uses its public face alone, and imports its library through
`extras.require`.

Its modules, from the top down; each uses some of those below it:

``xarray``
    xarray: arrays as datasets, and datasets as arrays.
``xarray_write``
    From xarray to new files: everything is checked, and then it is written.
``xarray_update``
    Existing arrays: appended to, and written to in a region.
``xarray_options``
    Options of the accessors: those that are not possible together are refused.
``xarray_chunks``
    Arrays inside xarray's objects: loaded and stored, and tasks of dask for all else.
``xarray_encode``
    Variables as they are stored: encoded by the CF conventions, or like those stored before.
``xarray_store``
    Stored arrays as xarray's variables: one array with its coordinates, or a folder of
    arrays.
``xarray_tasks``
    Elements that dask computes, written by its tasks: later, or on a cluster.
``xarray_lazy``
    Elements of an array for xarray: read when they are needed, by any kind of index.

May use: the face, and the rooms below it.
"""
