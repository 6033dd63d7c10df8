"""``extarray check PATH``: whether the files of arrays are whole, and their repair."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extarray.cli._calls import wrong_calls
from extarray.cli._progress import Progress
from extarray.common.errors import ExtArrayError, MissingError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["add_parser", "run"]

_SUFFIXES = (".xmd", ".xta")


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Describe the command."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "check",
        help="check that the files of an array are whole, and repair them",
        description="Check that the files of an array are whole, or those of all arrays in a "
        "folder, and repair them where asked to.  Elements are looked at with --data only.",
        epilog="Exit status: 0, nothing is known to be damaged; 1, something is, or a repair was "
        "not done.",
    )
    parser.add_argument(
        "path",
        metavar="PATH",
        help="the array, .xmd or .xta may be left out; or a folder: all arrays in it and in its "
        "folders",
    )
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
    progress = _Bars() if sys.stderr.isatty() else False

    def check(path: Any) -> Any:
        return xa.check(path, args.data, args.repair, args.force, progress=progress)

    if os.path.isdir(args.path) and not _is_array(args.path):
        return _check_folder(Path(args.path), check)
    with wrong_calls():
        report = check(args.path)
    if [problem.kind for problem in report.problems] == ["file", "file"]:
        xa.open(args.path).close()  # neither file is there: the error says what is
    print(report)
    return 0 if _is_fine(report) else 1


def _is_fine(report: Any) -> bool:
    return bool(report.ok and not report.refused)


def _is_array(path: str) -> bool:
    """Tell whether files beside a folder have its name."""
    return any(os.path.lexists(path + suffix) for suffix in _SUFFIXES)


def _check_folder(folder: Path, check: Callable[[Any], Any]) -> int:
    """Check all arrays in a folder and in those below; links to folders are not followed."""
    found = {
        os.path.join(where, stem)
        for where, _, names in os.walk(folder, onerror=_raise)
        for stem, suffix in map(os.path.splitext, names)
        if suffix in _SUFFIXES
    }
    if not found:
        raise MissingError(errno.ENOENT, "there is no array in this folder", str(folder))
    n_fine = 0
    for path in sorted(found):
        try:
            report = check(path)
        except (ExtArrayError, OSError) as error:  # the others are looked at all the same
            print(f"{path}: {' '.join(str(error).split())}")
            continue
        print(report)
        n_fine += _is_fine(report)
    print(f"{folder}: {n_fine} of {len(found)} arrays without errors")
    return 0 if n_fine == len(found) else 1


def _raise(error: OSError) -> None:
    raise error


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
