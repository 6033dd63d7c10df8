"""The command line: ``extarray COMMAND ...``.

A command is a function of a module of this package, made a command by `_command.command`, which
describes its arguments; it calls the public API and prints.  A new command is such a function and
a line in `COMMANDS`.  Only the module of the command that is called is imported; what is heavy or
optional is imported in the function.  Click, which reads the command line, is in the extra
``[cli]``; if it is missing, `main` says so.

Exit status: 0 done, 1 failed (one line on stderr says why), 2 wrong usage, 130 interrupted.

Its modules, from the top down; each uses some of those below it:

``append``
    Growth by the elements of a file, together with whatever shares the axis.
``change``
    Making arrays, and changing them: growth, elements, attributes.
``check``
    Whether the files of arrays are whole, and their repair.
``demo``
    A real scene arrives in pieces, the array grows, another process reads it.
``exchange``
    Files of other formats: import and export, by the suffix, and pipes.
``files``
    Pairs of files, folders of them, packed files: listed, copied, moved, removed, packed.
``pictures``
    Arrays in pictures: in files, in the terminal, in the browser.
``work``
    Long work, and advice on it: other chunks, benchmarks.
``_reader``
    The second process of the demo: it reads the array while the first one lets it grow.
``_report``
    The output of the demo.
``_checks``
    The checks that the two processes of the demo make, each for itself.
``look``
    Looking at arrays: facts, elements, history, arrivals.
``_progress``
    Progress of long work: a bar on a terminal, plain lines elsewhere.
``_selection``
    Texts of selections and of values: parsed, never evaluated.
``_output``
    Output of commands: tables and JSON, for any terminal.
``_command``
    Commands: their arguments and options, and errors for wrong calls.

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

from extarray.common.errors import ExtArrayError
from extarray.common.terminal import print_text

__all__ = ["COMMANDS", "main"]

#: The commands, in the order in which the help lists them: module and function of each.
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
    "create": "change.create",
    "extend": "change.extend",
    "append": "append.append",
    "shrink": "change.shrink",
    "set": "change.set_",
    "attrs": "change.attrs",
    "import": "exchange.import_",
    "export": "exchange.export",
    "copy": "files.copy",
    "mv": "files.mv",
    "rm": "files.rm",
    "pack": "files.pack",
    "unpack": "files.unpack",
    "rechunk": "work.rechunk",
    "advise": "work.advise",
    "check": "check.check",
    "bench": "work.bench",
    "demo": "demo.demo",
    "completion": "_command.completion",
}


def command_line(words: Sequence[str] = ()) -> Any:
    """Return the whole command line, for click; with one command alone if that is the first word.

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
    """Run one command, by the arguments of the process or others; return the exit status."""
    _open_closed_outputs()
    words = sys.argv[1:] if argv is None else list(argv)
    name = words[0] if words and words[0] in COMMANDS else ""
    prefix = f"extarray {name}".rstrip()
    try:
        from extarray.cli import _command

        with warnings.catch_warnings():
            warnings.showwarning = partial(_warn, prefix)
            status = _command.run(command_line(words), words)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has gone, as in `extarray info scene | head -1`.  What is still
        # in the buffer would raise again at exit, so it goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ExtArrayError, OSError) as error:
        print_text(f"{prefix}: {_one_line(error)}", stream=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print_text(f"{prefix}: interrupted", stream=sys.stderr)
        return 130
    return status


def _warn(prefix: str, message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as errors are printed, without the line of source that gives it."""
    print_text(f"{prefix}: warning: {' '.join(str(message).split())}", stream=sys.stderr)


def _open_closed_outputs() -> None:
    """Lead outputs that the caller has closed (``>&-``) nowhere; files do not get their numbers."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", closefd=False))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
