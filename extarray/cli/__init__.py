"""The command line: ``extarray COMMAND ...``.

A command is a module of this package with two functions: ``add_parser(subparsers)`` describes its
arguments, ``run(args)`` does the work and returns the exit status.  A new command is such a module
and its name in `COMMANDS`.  All are imported to build the parser, so a module imports what is
heavy or optional inside ``run``.

Exit status: 0 done, 1 failed (one line on stderr says why), 2 wrong usage, 130 interrupted.

Its modules, from the top down; each uses some of those below it:

``check``
    ``extarray check PATH``: whether the files of arrays are whole, and their repair.
``demo``
    ``extarray demo``: a real scene arrives in pieces, the array grows, another process
    reads it.
``info``
    ``extarray info PATH``: what an array is, and how it grew.
``view``
    ``extarray view PATH``: arrays in the browser.
``_calls``
    Calls of commands that make no sense.
``_progress``
    Progress of long work: a bar on a terminal, plain lines elsewhere.
``_reader``
    The second process of the demo: it reads the array while the first one lets it grow.
``_report``
    The output of the demo.
``_checks``
    The checks that the two processes of the demo make, each for itself.
``_scene``
    The scene of the demo, and the order in which its pieces arrive.

May use: the face, view, plot, and the rooms below them.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from extarray.cli._calls import WrongCall
from extarray.common.errors import ExtArrayError

__all__ = ["COMMANDS", "main"]

#: The commands, in the order in which the help lists them.
COMMANDS = ("check", "demo", "info", "view")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    from extarray import __version__

    parser = argparse.ArgumentParser(
        prog="extarray",
        description="Dense N-dimensional arrays on disk that grow along any axis.",
    )
    parser.add_argument("--version", action="version", version=f"extarray {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in COMMANDS:
        module = importlib.import_module(f"{__name__}.{name}")
        module.add_parser(subparsers).set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, by the arguments of the process or others; return the exit status."""
    _open_closed_outputs()
    parser = build_parser()
    try:
        args = parser.parse_args(argv)
    except SystemExit as leave:  # argparse has printed help, the version, or what is wrong
        return leave.code if isinstance(leave.code, int) else 2
    if args.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        status: int = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has gone, as in `extarray info scene | head -1`.  What is still
        # in the buffer would raise again at exit, so it goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except WrongCall as error:
        print(f"extarray {args.command}: {_one_line(error)}", file=sys.stderr)
        return 2
    except (ExtArrayError, OSError) as error:
        print(f"extarray {args.command}: {_one_line(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"extarray {args.command}: interrupted", file=sys.stderr)
        return 130
    return status


def _open_closed_outputs() -> None:
    """Lead outputs that the caller has closed (``>&-``) nowhere; files do not get their numbers."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", closefd=False))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
