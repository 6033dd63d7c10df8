"""An array's files, or its memory: commits, space, locks, checksums.

From the top down; each module uses some of those below it, and none above:

``memory``
    The store of an array in memory.
``sharing``
    The policies for several writers of a pair of files: their table, turns, and lock of commits;
    and for those who write nothing but elements.
``file_store``
    The store of an array in a pair of files, which holds the parts below; the policy of one
    writer.
``new_axis``
    A new axis, or a new uuid: in a fresh ``.xmd``, which takes the name of the present one.
``group_member``
    An array's share in a commit of several, on the disk.
``names``
    The names of the two files: taken, found, changed, given up, and left over.
``report``
    The findings of a check of an array's files, and the report that lists them.
``space``
    Disk space of the chunks: what growth takes, and what cuts give back, and `release` where a
    growth fails.
``reading``
    A pair of files as its readers know it: what is there, what is new, and how it is opened again.
``commits``
    The commits of a writer: what they write in which order, and what of it is on the disk;
    checksums brought up to date.
``following``
    How a pair of files takes up what a writer commits later.
``lock``
    The locks of writers: advisory, on the open file description of ``.xmd``; the policies in
    ``file_store`` and ``sharing`` take them.
``states``
    The state that counts, of those in a pair of files, whole or half-written; the growth log.
``pair``
    An open pair of files and its present state, which the parts of a store share.
``store``
    The store as the array knows it: the protocols `Reader` and `Store`, and its present; the
    protocol `Provider`, where chunks come from elsewhere.
``checksums``
    Checksums of chunks: their table in ``.xmd``, when they can be trusted, and chunks compared
    with them.
``filesystem``
    The file system beneath a pair of files: names, whole writes, space, publication, and the
    choice of the engine.

May use: format, grid, _core, common.
"""
