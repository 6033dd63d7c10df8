"""Arrays as Zarr: stores that compute where the chunks are, and manifests that list it.

``a.as_zarr_store()`` and ``a.to_kerchunk()`` lead here; groups have both, too.  They need zarr, the
extra ``[zarr]``.  No chunk is written anew: what Zarr cannot say of an array is refused.

Its modules, from the top down; each uses some of those below it:

``zarr_store``
    `ZarrStore`: a store of Zarr whose values are read from arrays.
``kerchunk``
    References: for each chunk the file, the first byte and the number of bytes.
``described``
    Arrays and groups as Zarr describes them: metadata, keys, and which elements a chunk has.

May use: array, and the rooms below it.
"""
