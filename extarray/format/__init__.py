"""The bytes of ``.xmd`` and of packed files, in pure functions, as ``docs/format`` has them.

From the top down; each module uses only modules below it:

``published``
    Published arrays: the head, its lists, and objects with chunks.
``index``
    The index of a group, for readers that cannot list: names, and attributes of groups.
``archive``
    Packed files: ZIP files that store the files of arrays uncompressed.
``fresh``
    A whole new ``.xmd``.
``groups``
    Commits of several arrays: states that wait for a decision, and the list of the arrays.
``images``
    Axes of images: their kinds, units and even steps; and the metadata of OME-Zarr about them.
``labels``
    Axis names and labels of elements, kept in attributes, and the attributes of copies.
``missing``
    Elements that attributes declare as missing, and texts that stand for those that are missing.
``places``
    Attributes that locate elements: on the earth, in the sky, along the bands.
``sky``
    FITS cards that locate pixels: world coordinate systems, and others that count pixels.
``attrs``
    Attributes: a mutable mapping, kept as JSON; each change is a commit.
``values``
    Values of attributes as JSON: plain where JSON has them, others with a tag.
``superblock``
    Superblocks: the committed states, and checks of their values.
``frozen``
    Frozen chunks of arrays that grow: the table of their blobs in ``.xmd``, and its entries.
``blobs``
    Chunks in blobs: ``.xtz``, its blobs, and the table of their places.
``blocks``
    Notes of writers, and optional blocks: their directory, and the tables of writers and of
    checksums.
``records``
    The growth log: records of segments, in extents.
``header``
    The header: the facts that never change in the life of an array.
``dtypes``
    Storable data types, and their descriptions in JSON.
``suffixes``
    Names of the files of an array: a stem, and a suffix.
``constants``
    Places in the two files: offsets, sizes, numbers of slots.
``_superblock``
    The bytes of a superblock, which every commit writes.
``_blobs``
    Blobs of one frame each, read, checked and decoded without the GIL.
``_crc``
    CRC-32C; reading the growth log, with its checks, from a file.

May use: codecs, common.
"""
