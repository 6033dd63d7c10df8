"""The command line: ``extarray COMMAND ...``.

`_command.command` turns a function of a module here into a command, and describes its arguments;
the function calls the public API and prints.  To add a command, write such a function and add a
line to `COMMANDS`.  Only the module of the called command is imported; its function imports what is
heavy or optional.  Click reads the command line; without it, ``--version`` and ``info`` work, and
`main` says how to install it.

Exit status: 0 done, 1 failed (with one line on stderr), 2 wrong usage, 130 interrupted.

Its modules, from the top down; each uses some of those below it:

``append``
    Append the elements of a file, and extend all arrays that share the axis.
``change``
    Create arrays; change their extent, elements and attributes; repack them.
``check``
    Check the files of arrays, and repair them.
``demo``
    A real scene arrives in pieces: one process grows an array, another reads it.
``exchange``
    Import and export other formats, chosen by suffix; pipes.
``files``
    List, copy, move, remove and pack arrays and folders of them.
``pictures``
    Draw arrays in files, in the terminal, and in the browser; serve them to viewers.
``publish``
    Publish arrays in buckets, and follow them as they grow.
``work``
    Long work: rechunk, recommend chunk shapes, benchmark.
``_reader``
    The second process of the demo, which reads the growing array.
``_report``
    The output of the demo.
``_checks``
    The checks that both processes of the demo make.
``look``
    Show facts, elements, history and arrivals of arrays.
``_alone``
    Run ``--version`` and ``info`` where NumPy alone is installed, without Click.
``_progress``
    Progress of long work: a bar on a terminal, plain lines elsewhere.
``_selection``
    Parse selections and values, without evaluating them.
``_output``
    Print tables and JSON on any terminal.
``_command``
    Define commands, arguments and options; report wrong calls.

May use: apps, the face, view, plot, interop, formats, and the rooms below them.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

from extarray.common.errors import ExtArrayError, MissingExtraError
from extarray.common.hints import for_shell
from extarray.common.system import is_closed_pipe, open_file
from extarray.common.terminal import print_text

__all__ = ["COMMANDS", "main"]

#: Module and function of each command, in the order of the help.
COMMANDS = {
    "info": "look.info",
    "ls": "files.ls",
    "tree": "files.tree",
    "show": "look.show",
    "dump": "look.dump",
    "history": "look.history",
    "follow": "look.follow",
    "plot": "pictures.plot",
    "view": "pictures.view",
    "serve": "pictures.serve",
    "create": "change.create",
    "extend": "change.extend",
    "append": "append.append",
    "shrink": "change.shrink",
    "set": "change.set_",
    "attrs": "change.attrs",
    "import": "exchange.import_",
    "export": "exchange.export",
    "convert": "exchange.convert",
    "copy": "files.copy",
    "mv": "files.mv",
    "rm": "files.rm",
    "pack": "files.pack",
    "publish": "publish.publish",
    "index": "files.index",
    "unpack": "files.unpack",
    "rechunk": "work.rechunk",
    "repack": "change.repack",
    "advise": "work.advise",
    "check": "check.check",
    "bench": "work.bench",
    "demo": "demo.demo",
    "completion": "_command.completion",
}


def command_line(words: Sequence[str] = ()) -> Any:
    """Return the click group of all commands, or of the first word alone if that is a command.

    Raises
    ------
    MissingExtraError
        Click is not installed.
    """
    from extarray import __version__
    from extarray.cli import _command

    group = _command.group("extarray", __version__)
    for name in words[:1] if words and words[0] in COMMANDS else COMMANDS:
        module, function = COMMANDS[name].split(".")
        group.add_command(getattr(importlib.import_module(f"{__name__}.{module}"), function))
    return group


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command with `argv`, or the arguments of the process; return the exit status."""
    _open_closed_outputs()
    words = sys.argv[1:] if argv is None else list(argv)
    name = words[0] if words and words[0] in COMMANDS else ""
    prefix = f"extarray {name}".rstrip()
    try:
        with for_shell(), warnings.catch_warnings():
            warnings.showwarning = partial(_warn, prefix)
            status = _run(words)
        sys.stdout.flush()
    except (ExtArrayError, OSError) as error:
        if is_closed_pipe(error):
            # The reader of the pipe has exited, as in `extarray info scene | head -1`.  Redirect
            # stdout to the null device, or flushing the buffer would raise again at exit.
            os.dup2(open_file(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        print_text(f"{prefix}: {_one_line(error)}", stream=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print_text(f"{prefix}: interrupted", stream=sys.stderr)
        return 130
    return status


def _run(words: Sequence[str]) -> int:
    """Run the command that `words` name; return the exit status."""
    try:
        from extarray.cli import _command
    except MissingExtraError:
        from extarray.cli import _alone

        status = _alone.run(words)
        if status is None:
            raise
        return status
    return _command.run(command_line(words), words)


def _warn(prefix: str, message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning like an error, without the source line that raised it."""
    print_text(f"{prefix}: warning: {' '.join(str(message).split())}", stream=sys.stderr)


def _open_closed_outputs() -> None:
    """Redirect closed outputs (``>&-``) to the null device; no file must get their descriptors."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = open_file(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", closefd=False))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
