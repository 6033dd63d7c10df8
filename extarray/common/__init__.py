"""Settings, errors, threads and progress, for all rooms.

From the top down; each module uses only modules below it:

``progress``
    Progress of long work: on the terminal, in a notebook, or passed to the user's function.
``extras``
    Optional packages, all imported through one function where they are used.
``calls``
    Calls of public functions: keywords of other libraries, and tracebacks without our own frames.
``forks``
    Open arrays in a forked child.
``masked_arrays``
    Masked arrays as values: the fill value replaces masked elements.
``threads``
    Long work, shared among threads.
``config``
    Settings of the process, and of one thread for a while.
``arguments``
    Checks of arguments: an int, an axis by number or name (`as_axis`), a flag, a number of bytes,
    one of a few strings.  (`numpy_api.registry` turns names of axes into numbers for NumPy's
    functions, and NumPy itself checks numbers.)
``formatting``
    Facts as text: sizes, attributes, fill values, and a dict that prints as a table.
``hints``
    Advice in messages: for programs, or for the shell while a command runs.
``on_error``
    Blocks that are undone if they raise.
``waiting``
    Waits that end: several attempts at something, with naps in between.
``limits``
    Limits at which work is divided, shared or given up; tests change them.
``choices``
    Words that a caller chooses from, each list once: engines, orders in a chunk, and the like.
``terminal``
    Text for a terminal, with control characters escaped.
``system``
    Every call of the operating system that Python does not have on all systems.
``system_posix``, ``system_windows``
    The same functions twice, for Linux and its like, and for Windows.
``lazy``
    Modules that are imported when one of their names is first used.
``file_names``
    Names that a system allows for files.
``errors``
    The error family: every error that extarray raises on purpose is an `ExtArrayError`.

May use: no other room.
"""
