"""Settings, errors, threads and progress, for all rooms.

From the top down; each module uses some of those below it, and none above:

``progress``
    Progress of long work: on the terminal, in a notebook, or to a function of the user's.
``extras``
    Optional packages: imported where they are used, all through one function.
``forks``
    The conduct of open arrays in a forked child.
``lazy``
    Names of modules that are imported when one of them is first used.
``masked_arrays``
    Masked arrays as values: the fill value takes the place of masked elements.
``threads``
    Long pieces of work, shared among threads.
``config``
    Settings of the process, and of a part of it for a while.
``arguments``
    Checks of arguments: an int, an axis by number or name (`as_axis`), a flag, a number of bytes,
    one of a few texts.  (NumPy's functions take names from `numpy_api.registry`, and NumPy's own
    check of numbers.)
``formatting``
    Texts of facts: sizes, attributes, fill values, and a dict that prints as a table.
``on_error``
    Blocks that are undone where they raise.
``limits``
    Limits at which work is divided, shared or given up, which tests change.
``choices``
    Words that a caller chooses from, each list once: engines, orders in a chunk, and the like.
``terminal``
    Text for a terminal: control characters are written in letters.
``system``
    Every call of the operating system that Python does not have on all systems.
``errors``
    The error family: every error that extarray raises on purpose is an `ExtArrayError`.

May use: no other room.
"""
