"""The bytes of ``.xmd`` and of packed files, in pure functions, as ``docs/format`` has them.

From the top down; each module uses some of those below it, and none above:

``archive``
    Packed files: ZIP files with the files of arrays in them, stored as they are.
``fresh``
    A whole ``.xmd``, as it is made.
``groups``
    Commits of several arrays: states that wait for a decision, and the list of the arrays.
``labels``
    Names of axes and labels of elements, which the attributes hold, and the attributes of
    copies.
``places``
    Attributes that say where elements are: on the earth, in the sky, along the bands.
``sky``
    Cards of FITS that say where pixels are: world coordinate systems, and others that count
    pixels.
``attrs``
    Attributes: a mutable mapping of names and values, kept as JSON; each change is a
    commit.
``values``
    Values of attributes as JSON: values that JSON has as they are, and others with a tag.
``superblock``
    Superblocks: the committed states, and checks of what they say.
``blocks``
    Notes of writers, and blocks that only some arrays have: their directory, and the tables of
    writers and of checksums.
``records``
    The growth log: records of segments, in extents.
``header``
    The header: what never changes in the life of an array.
``dtypes``
    Data types that can be stored, and their descriptions in JSON.
``constants``
    Places in the two files: offsets, sizes, numbers of slots.
``_superblock``
    The bytes of a superblock, which every commit writes.
``_crc``
    CRC-32C; the growth log as it lies in a file, read and checked at once.

May use: common.
"""
