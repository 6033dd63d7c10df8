"""The compiled core: code that runs for every element, chunk or index.

The core also computes the numbers of a growth.  Work that is done once per array or per growth is
in Python, in the rooms above.  The core opens no file and commits nothing: it works on the
descriptor and the memory that a store hands it.

The kernels (``_copy``, ``_visits``, ``_parts``), the making of lists (``_gather``, ``_lists``),
look-ups of many addresses (``_axial``) and system calls run without the GIL.  They touch no Python
object, only memory that the caller's references keep alive: its `Frame` (region, descriptor,
tables), the axial vectors that it pinned, and the NumPy arrays it was given.

From the top down; each module uses only modules below it:

``_array``
    `ArrayCore`, the base of `extarray.ExtArray`: single elements, selections read and written,
    casting in bounded memory, views of chunks.
``_transfers``
    `Transfers`, the base of `ArrayCore`: plans a transfer under the GIL and hands it to the
    kernels; notes which chunks were written, and looks again at chunks that were cut off while they
    were read.
``_state``
    `ArrayState`, the base of `Transfers`: layout, bounds and region, and queries of them.
    `Frame`: the state of an array that one call uses and keeps alive.  `Writes`: which chunks were
    written.  Without the GIL, ``_sections.h`` lets threads look at a frame without counting a
    reference; only this module includes it.
``_threads``
    The threads of a large transfer, and their calls of the kernels without the GIL.
``_gather``
    `QueryTables`: the tables that run a query, made factor by factor.
``_lists``
    The selections of factors (points, places in a box, masks) as lists sorted by chunk.
``_visits``
    Queries carried out chunk by chunk, in the order of addresses.  ``_gather.h`` has the loops over
    points, masks and lists, for this module and ``_lists``.  The ``.pxd`` declares the query.
``_parts``
    Parts of chunks in file order: the runs of bytes of a file view, and the copying between its
    staging buffer and the user's memory.
``_copy``
    The kernels of a transfer, without the GIL.  ``prepare`` cuts a selection into pieces, one per
    chunk along each axis; ``run`` walks boxes of chunks with affine addresses and moves the bytes,
    through a mapping or by pread and pwrite.  ``_block.h``, which only this module includes, copies
    one strided block, and ``_lines.h``, for it and ``_gather.h``, rows of bytes.
``_axial``
    `Axial`: the Python interface of an array's axial vectors: addresses and indices, one at a time
    and vectorised.
``_history``
    `History`, the base of `Axial`: growth, and the growth log replayed, in memory that kernels read
    while another thread grows the array: they copy the struct and pin the object.
``_vectors``
    The axial vectors as plain memory (``axial_t``): the record of a segment, F* and its inverse.
    The ``.pxd`` has these as inline functions.
``_supply``
    `Supply`: which chunks are present if they come from elsewhere, and which leave to make room;
    `Use` keeps them.  `Trust`: which chunks match their checksums.
``_frozen``
    `Frozen`: which chunks are frozen, by the entries of their table, and the decoded ones that stay
    in memory.
``_mapping``
    `Region`: the address space behind an array (a mapped file, a plain file, or anonymous memory),
    which lives as long as a view of it.  Its windows differ in which pages a fault brings.
    `Touched`: sets of chunks that all threads may change.  `Counter` of cuts; `Users`, `Epoch` and
    `Lease`: who still uses chunks that were cut off.
``_selection``
    The entries between the brackets, as numbers (``selection_t``), or NumPy's error.
``_file``
    `File`: a counted descriptor, closed when its last user leaves, and the system calls on it; also
    read-ahead: asks the system for cold pages (not in its cache) that a transfer will read.
``_system``
    Declares every operating system call that compiled code makes; ``_system.h`` defines them.
``_types``
    ``index_t``, checked arithmetic, division that rounds down, and the locks and atomics of
    ``_shared.h``, which are plain loads and stores with the GIL.  Declarations only.

The core imports `extarray.common.errors` from the package, and ``_transfers`` and ``_threads`` also
`extarray.common.config`; no other Python module.  A ``.pxd`` declares the interface for the rest of
the core, a ``.pyi`` that for Python.
"""
