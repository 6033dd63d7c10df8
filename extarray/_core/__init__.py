"""The compiled core: what runs for every element, every chunk or every index.

The numbers of a growth are worked out here, too.  All other work, done once per array or per
growth, is in Python, in the rooms above.  The core opens no file and commits nothing: it works on
the descriptor and the memory that a store hands it.

Without the GIL run the kernels (``_copy``, ``_visits``, ``_parts``), the making of lists
(``_gather``, ``_lists``), look-ups of many addresses (``_axial``), and system calls.  They touch no
Python object, only memory that references of the caller keep alive: of its `Frame` (region,
descriptor, tables), of the axial vectors that it has pinned, and of the NumPy arrays it was given.

From the top down; each module uses some of those below it, and none above:

``_array``
    `ArrayCore`, the base of `extarray.ExtArray`: single elements, selections read and written,
    casting in bounded memory, views of chunks.
``_transfers``
    `Transfers`, the base of `ArrayCore`: plans a transfer under the GIL and hands it to the
    kernels; notes which chunks were written, and looks again at chunks that were cut off while they
    were read.
``_state``
    `ArrayState`, the base of `Transfers`: layout, bounds and region, and what is told of them.
    `Frame`: what a call takes of an array, and keeps alive.  `Writes`: which chunks were written.
    Without the GIL, ``_sections.h`` lets threads look at a frame without counting a reference; only
    this module includes it.
``_threads``
    The threads of a large transfer, and their calls of the kernels without the GIL.
``_gather``
    `QueryTables`: the tables by which a query is run, made factor by factor.
``_lists``
    The selections of factors (points, places in a box, masks) as lists that are sorted by chunk.
``_visits``
    Queries carried out chunk by chunk, in the order of their addresses.  ``_gather.h`` has the
    loops over points, masks and lists, for this module and ``_lists``.  The ``.pxd`` declares the
    query.
``_parts``
    Parts of chunks in the order of the file: the runs of bytes of a file view, and the copying
    between its staging buffer and the user's memory.
``_copy``
    The kernels of a transfer, without the GIL.  ``prepare`` cuts a selection into pieces, one a
    chunk along each axis; ``run`` walks boxes of chunks with affine addresses and moves the bytes,
    through a mapping or by pread and pwrite.  ``_block.h``, which only this module includes, copies
    one strided block.
``_axial``
    `Axial`: the axial vectors of an array, as Python has them: addresses and indices, one at a time
    and vectorised.
``_history``
    `History`, the base of `Axial`: growth, and the growth log replayed, in memory that kernels read
    while another thread grows the array: they copy the struct and pin the object.
``_vectors``
    The axial vectors as plain memory (``axial_t``): the record of a segment, F* and its inverse.
    The ``.pxd`` has these as inline functions.
``_supply``
    `Supply`: which chunks are present, where they come from elsewhere, and which leave for others;
    `Use` keeps them.  `Trust`: which chunks match their checksums.
``_mapping``
    `Region`: the address space behind an array (a mapped file, a plain file, or anonymous memory),
    which lives as long as a view of it, and whose windows differ in what a page fault brings.
    `Touched`: sets of chunks that all threads may change.  `Counter` of cuts; `Users`, `Epoch` and
    `Lease`: who still uses what was cut off.
``_selection``
    The entries between the brackets, as numbers (``selection_t``), or NumPy's error.
``_file``
    `File`: a counted descriptor, closed when its last user leaves, and the system calls on it; also
    read-ahead: asks the system for cold pages (not in its cache) that a transfer will read.
``_system``
    Every call of the operating system that compiled code makes, declared; ``_system.h`` has them.
``_types``
    ``index_t``, checked arithmetic, division that rounds down, and the locks and atomics of
    ``_shared.h``, which are plain loads and stores with the GIL.  Declarations alone.

Of the package's Python modules the core imports `extarray.common.errors`, and ``_transfers`` and
``_threads`` also `extarray.common.config`; no others.
A ``.pxd`` is what other modules of the core may use; a ``.pyi`` is what Python may.
"""
