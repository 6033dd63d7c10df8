"""Bridges to other libraries: arrays as datasets of xarray, and as stores of Zarr.

A bridge stands beside the array: it uses public names alone, and imports its library through
`extras.require`.  xarray's is imported by programs and found by xarray; to Zarr's lead
``a.as_zarr_store()`` and ``a.to_kerchunk()``, and the like of groups.

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
``xarray_fit``
    Data beside arrays that are there: names, extents, labels and attributes have to agree.
``xarray_encode``
    Variables as they are stored: encoded by the CF conventions, or like those stored before.
``xarray_coding``
    Values and how arrays store them: encoded, decoded by xarray, and compared.
``xarray_store``
    Stored arrays as xarray's variables: one array with its coordinates, or a folder of
    arrays.
``xarray_tasks``
    Elements that dask computes, written by its tasks: later, or on a cluster.
``xarray_lazy``
    Elements of an array for xarray: read when they are needed, by any kind of index.
``zarr_store``
    `ZarrStore`: a store of Zarr whose values are read from arrays.  No chunk is written anew.
``kerchunk``
    References: for each chunk the file, the first byte and the number of bytes.
``described``
    Arrays and groups as Zarr describes them: metadata, keys, and which elements a chunk has.
    What Zarr cannot say of an array is refused.

May use: array, and the rooms below it.
"""
