"""``extarray check PATH``: whether the files of an array are whole, and their repair."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ._calls import wrong_calls
from ._progress import Progress

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Describe the command."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "check",
        help="check that the files of an array are whole, and repair them",
        description="Check that the files of an array are whole, and repair them where asked to.",
        epilog="Exit status: 0, nothing is known to be damaged; 1, something is, or a repair was "
        "not done.",
    )
    parser.add_argument("path", metavar="PATH", help="the array; .xmd or .xta may be left out")
    parser.add_argument(
        "--data",
        action="store_true",
        help="read all chunks, and compare them with their checksums",
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="return to the last state that is whole; what is written over is copied aside first",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="with --repair: also where something is lost by it; take chunks as they are",
    )
    parser.set_defaults(parser=parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the report of `extarray.check`."""
    import extarray as xa

    if args.force and not args.repair:
        args.parser.print_usage(sys.stderr)
        print("extarray check: --force is a way to repair; give --repair too", file=sys.stderr)
        return 2
    # Where nobody looks, the report is all there is on stdout.
    progress = _Bars() if sys.stderr.isatty() else None
    with wrong_calls():
        report = xa.check(args.path, args.data, args.repair, args.force, progress=progress)
    if [problem.kind for problem in report.problems] == ["file", "file"]:
        xa.open(args.path).close()  # neither file is there: the error says what is
    print(report)
    return 0 if report.ok and not report.refused else 1


class _Bars:
    """A bar of progress for each time that the chunks are gone through."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = Progress(total, "comparing", "chunks")
        self._bar.step(f"{100 * done // total} %", done - self._done)
        self._done = done
        if done == total:
            self._bar.__exit__(None, None, None)
            self._bar, self._done = None, 0
