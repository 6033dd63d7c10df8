"""Jobs on the files of whole arrays: rechunk, check, repair, pack.

From the top down; a module uses only modules below it:

``advice``
    Advice on chunk shapes: which one needs the fewest chunks for the expected requests.
``check``
    ``check``: find damage in the files of an array, and repair it.
``publishing``
    Publish an array that grows to an object store: one object for its news, and one for the head.
``packing``
    Packed files: pack arrays into one file, check it, and unpack it.
``group_index``
    Indexes of groups, for readers that cannot list a folder; and groups that such readers see.
``blob_packing``
    The chunks of an array that is packed in another order: blobs, and the table of their places.
``group_files``
    The files of groups: members in a folder or a packed file, and folders in the making.
``rechunk_report``
    A plan as its reader sees it: figures, a table, a picture.
``transform``
    A whole transformation: run its passes in turn and publish the last.
``journal``
    The progress of a pass, kept with the array that the pass writes.
``repair``
    Repair of a pair of files: return to the last whole state.
``lost_table``
    The table of frozen chunks, found where nothing that is whole leads to it.
``rechunk_files``
    Names of the files that passes write, and their publication and removal.
``workers``
    A pass by several threads: each takes the next template and has its own buffers.
``execute``
    Execution of a pass: read whole chunks, write whole chunks.
``inspect``
    Survey of a pair of files, damaged or not: what is whole, what is not, and where.
``rechunk_plan``
    The plan of a layout transformation: pure functions, from chunk shapes to passes.
``rechunk_pass``
    One pass of a layout transformation: its chunks, templates, steps and memory.
``inspect_metadata``
    The part of `inspect` that examines the metadata: header, states, growth log.
``salvage``
    The readable parts of damaged files: states, the growth log, the chunks of a truncated file.

May use: storage, streaming, and the rooms below them.
"""
