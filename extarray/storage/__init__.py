"""An array's files, or its memory: commits, space, locks, checksums.

From the top down; a module uses only modules below it:

``memory``
    The store of an array in memory.
``sharing``
    The policies for several writers of a pair of files (their table, turns and commit lock), and
    for writers of elements only.
``file_store``
    The store of an array in a pair of files, built from the parts below; the policy of one writer.
``steady``
    Steady writing: elements go to the disk in the background, soon after they were made.
``new_axis``
    A new axis, codec, log or uuid: a fresh ``.xmd`` takes the name of the present one.
``decoded``
    Frozen chunks as the core finds them: decoded to memory when they are read.
``frozen``
    Frozen chunks of a pair of files that grows: the order in which table and log change.
``frozen_blobs``
    The blobs of frozen chunks: their log in ``.xtz``, which only grows.
``frozen_words``
    The words of frozen chunks: their table in ``.xmd``, by address.
``group_member``
    An array's share in a commit of several, on disk.
``names``
    The names of the files: taken, found, changed and given up; left-overs.
``report``
    The findings of a check of an array's files, and the report that lists them.
``space``
    Disk space of the chunks: growth takes it, cuts give it back, `release` undoes failed growth.
``reading``
    A pair of files as its readers know it: its contents, its updates, and how to open it again.
``commits``
    The commits of a writer: their writes in order, and which of them are on disk; updates of
    checksums.
``following``
    Updates of a pair of files to later commits.
``blobs``
    Chunks in blobs of a local file: their table, their bytes, and a provider of them.
``lock``
    The locks of writers: advisory, on the open file description of ``.xmd``; the policies in
    ``file_store`` and ``sharing`` take them.
``states``
    The choice of the state that counts in a pair of files, whole or half-written; the growth log.
``pair``
    An open pair of files and its present state, which the parts of a store share.
``store``
    The store as the array knows it: the protocols `Reader` and `Store`, its present, and the
    protocol `Provider` of chunks from elsewhere.
``checksums``
    Checksums of chunks: their table in ``.xmd``, when to trust it, and comparisons.
``other_hosts``
    Views of a file that another host writes to, where clients of its file system keep copies.
``filesystem``
    The file system beneath a pair of files: names, whole writes, space, publication, and the
    choice of the engine.
``clearing``
    Trust in a file system to clear ranges of files as asked: by its type, or by a trial.

May use: format, grid, _core, codecs, common.
"""
