"""An array's files, or its memory: commits, space, locks, checksums.

From the top down; each module uses some of those below it, and none above:

``memory``
    An array in memory: the store of arrays without files.
``shared_store``
    A pair of files that several writers share.
``file_store``
    A pair of files as the store of an array, from its making or opening to its end.
``new_axis``
    A new axis: in a fresh ``.xmd``, which takes the name of the present one.
``group_member``
    An array's share in a commit of several, on the disk.
``names``
    The names of the two files: taken, found, changed, and given up.
``orphans``
    Files beside an array that interrupted work has left there.
``report``
    The findings of a check of an array's files, and the report that lists them.
``space``
    Disk space of the chunks: what growth takes, and what cuts give back.
``commits``
    A pair of files as its writer has it: commits, and what of them is on the disk.
``following``
    A pair of files as a reader has it: a state, and how it takes up what a writer commits
    later.
``pending``
    Runs of bytes that cuts have freed, and changes that wait for a commit of several
    arrays.
``checksums``
    Checksums of chunks: their table in ``.xmd``, when they can be trusted, and chunks compared
    with them.
``lock``
    The locks of writers: advisory, on the open file description of ``.xmd``.
``states``
    The state that counts, of those in a pair of files, whole or half-written; the growth log.
``filesystem``
    The file system beneath a pair of files: names, whole writes, space, publication, and the
    choice of the engine.

May use: format, grid, _core, common.
"""
