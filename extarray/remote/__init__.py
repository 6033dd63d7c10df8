"""Objects on web servers and in buckets: few, large, conditional requests.

An object is read as it was when it was opened: each request carries the object's ETag, so parts of
two versions never mix.  A thread in the background runs an event loop, in which requests wait
together; the caller's thread waits for their result alone, so Ctrl-C ends it at once.

obstore (the extra ``[remote]``) reads ``https``, ``http``, ``s3``, ``gs`` and ``az``; fsspec, where
it is installed, reads what obstore cannot: other schemes, options that only fsspec has, and file
systems that the user gives.

Redirections are followed within a scheme, never from https to http.  From http to https obstore
follows as well, and does not tell.

A request that fails is made again after a pause; after the last one, an error names the URL,
without anything secret, and the bytes.  Messages of the libraries below are never passed on, as
they quote whole URLs, and servers quote signatures.

Its modules, from the top down; each uses some of those below it:

``writing``
    Write new objects, and replace one under the condition that nobody else has.
``objects``
    Objects as they were when they were opened, and reading of many ranges at once.
``locations``
    The place of an object: a URL, or a path in a store or a file system; its relatives; pickles.
``obstores``
    Requests through obstore.
``filesystems``
    Requests through fsspec.
``options``
    ``storage_options``: which are ours, which are secret, and their names in obstore.
``urls``
    URLs, and stores and file systems of other libraries: tell them from paths of this machine.
``answers``
    An answer to a request, and a failure of one.
``ranges``
    Plan requests for ranges of bytes: join neighbours, read cheap gaps, split large ranges.
``background``
    The event loop in the background, and the bounds on what waits in it.

May use: common.
"""
