"""Bridges to other libraries: xarray's datasets, Zarr stores, recordings, napari's layers.

A bridge uses only public names of arrays, and imports its library through `extras.require`.
Programs import the bridges to xarray, ome-writers and useq-schema; xarray and napari find theirs.
``as_zarr_store()`` and ``to_kerchunk()`` of arrays and groups lead to the Zarr bridge.

Its modules, from the top down; each uses some of those below it:

``napari``
    The reader of napari: arrays as layers that follow their growth; ``napari.yaml`` names it.
``ome_writers``
    The backend of ome-writers: streams of frames become recordings.
``useq``
    Recordings of a useq-schema sequence, whose events have places in them.
``recording``
    `Recording`: a group with the frames of a microscope, and what is known about each.
``xarray``
    Arrays as datasets, and datasets as arrays.
``xarray_write``
    Write xarray objects to new files, after all checks have passed.
``xarray_update``
    Append to existing arrays, or write to a region of them.
``xarray_options``
    Options of the accessors; refuses those that exclude each other.
``xarray_chunks``
    Arrays inside xarray objects: loaded and stored here, otherwise as dask tasks.
``xarray_fit``
    Check new data against existing arrays: names, extents, labels and attributes.
``xarray_encode``
    Encode variables by the CF conventions, or like the stored ones.
``xarray_coding``
    Encode values, decode them by xarray, and compare.
``xarray_texts``
    Texts with missing entries: the text that stands for a missing one.
``xarray_store``
    Stored arrays as xarray variables: one array with its coordinates, or a folder of arrays.
``xarray_split``
    Axes that stand for several, shown to xarray as these.
``xarray_tasks``
    Elements that dask tasks write, later or on a cluster.
``xarray_lazy``
    Elements of an array that xarray reads on demand, by any kind of index.
``zarr_store``
    `ZarrStore`: a Zarr store that reads its values from arrays, without rewriting chunks.
``zarr_server``
    A store of Zarr on a port of this machine, for programs that read Zarr from an address.
``ome``
    Arrays in place as images of OME-Zarr: a group with metadata, the array, and its pyramid.
``kerchunk``
    References: file, first byte and number of bytes of each chunk.
``described``
    Zarr's description of arrays and groups: metadata, keys, and the elements of a chunk.
    Refuses arrays that Zarr cannot describe.

May use: array, and the rooms below it.
"""
