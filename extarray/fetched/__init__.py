"""Arrays on web servers and in buckets, as their readers know them.

From the top down; a module uses only modules below it:

``published``
    Published arrays: a head that is replaced at each commit, and objects that never change.
``store``
    The store of an array elsewhere, which has all that the protocol `Reader` asks for.
``downloads``
    Copies of the files of an array elsewhere, to check them.
``blobs``
    Chunks in blobs of a packed file elsewhere, in another order than that of their addresses.
``heads``
    Heads of published arrays, and the pages that they name.
``frozen``
    Frozen chunks of a pair of files elsewhere, beside raw ones.
``pairs``
    Pairs of files elsewhere: metadata in whole states, also while a writer changes them.
``metadata``
    Metadata of a pair as they were fetched, and the table of frozen chunks in them.
``packs``
    Packed files elsewhere: the end of the file opens them.
``paths``
    Paths of arrays and groups elsewhere, and the door through which URLs come in.
``origins``
    The objects from which chunks come: one that never changes, or one that a writer changes.
``chunks``
    The provider of chunks, which fetches them.
``cache``
    Chunks that stay on the disk between programs.
``shadow``
    Files without a name that hold what was fetched, at the places of the original.

May use: storage, format, grid, _core, remote, common.
"""
