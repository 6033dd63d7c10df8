"""Jobs on the files of whole arrays: rechunk, check, repair, pack.

From the top down; each module uses some of those below it, and none above:

``advice``
    Advice on chunk shapes: which one needs the fewest chunks for the requests that are
    expected.
``check``
    ``check``: whether the files of an array are whole, and their repair.
``packing``
    Packed files: made of the files of arrays, and files of arrays of them.
``group_files``
    The files of groups: where members are, in folders and in packed files; folders in the making.
``rechunk_report``
    A plan as its reader sees it: figures, a table, a picture.
``transform``
    A whole transformation: its passes one after the other, and the publication of the last.
``journal``
    The progress of a pass, kept with the array that it writes.
``repair``
    Repair of a pair of files: back to the last state that is whole.
``rechunk_files``
    Names of the files that passes write, and what becomes of them.
``workers``
    A pass by several threads: each takes the next template, and has buffers of its own.
``execute``
    Carrying out a pass: whole chunks in, whole chunks out.
``inspect``
    A look at a pair of files, damaged or not: what is whole, what is not, and where.
``rechunk_plan``
    The plan of a layout transformation: pure functions, from chunk shapes to passes.
``rechunk_pass``
    A pass of a layout transformation: its chunks, templates and steps, and the memory that it
    takes.
``inspect_metadata``
    The part of `inspect` that looks at the metadata: header, states, growth log.
``salvage``
    The readable parts of damaged files: states, the growth log, the chunks of a file cut
    short.

May use: storage, streaming, and the rooms below them.
"""
