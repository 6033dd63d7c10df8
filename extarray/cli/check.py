"""``extarray check PATH``: check the files of arrays, and repair them."""

from __future__ import annotations

import dataclasses
import errno
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extarray.cli._command import JSON, array_path, command, flag, usage_error, wrong_calls
from extarray.cli._output import print_json
from extarray.cli._progress import Progress
from extarray.common.errors import ExtArrayError, MissingError
from extarray.common.terminal import print_text, printable
from extarray.format.suffixes import split_name
from extarray.maintenance.group_files import (
    is_in_the_making,
    left_folders,
    remove_left_folders,
    told_of,
)
from extarray.storage.filesystem import has_files, walk_folders
from extarray.storage.names import is_pass, left_files, remove_left_files, stem_of, told_of_file
from extarray.storage.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check"]

# The beginning of lines of a report about what was not examined.
_UNSEEN = "not checked"


@command(
    "check",
    "check the files of an array for damage, and repair them",
    array_path(),
    flag("--data", "also read all chunks and compare them with their checksums"),
    flag("--repair", "return to the last undamaged state; keep a copy of overwritten bytes"),
    flag("--force", "with --repair: repair even if data are lost, and accept chunks as they are"),
    JSON,
    details="If PATH is a folder, all arrays in it and below are checked.  Elements are checked "
    "only with --data.\n\nExit status: 0 if no damage was found; 1 if damage was found, or could "
    "not be repaired.",
)
def check(path: str, data: bool, repair: bool, force: bool, as_json: bool) -> int:
    """Print the report of `extarray.check`."""
    import extarray as xa

    if force and not repair:
        raise usage_error("--force requires --repair")
    # Without a terminal, print nothing but the report.
    progress = _Bars() if sys.stderr.isatty() else False

    def look(path: Any) -> Any:
        return xa.check(path, data, repair, force, progress=progress)

    if os.path.isdir(path) and not has_files(path):
        return _check_folder(Path(path), repair, look, as_json)
    with wrong_calls():
        report = look(path)
    if [problem.kind for problem in report.problems] == ["file", "file"]:
        xa.open(path).close()  # both files are missing: the error of `open` says so
    if as_json:
        print_json(_told(report))
    else:
        print_text(str(report))
    return 0 if _is_fine(report) else 1


def _told(report: Any) -> dict[str, Any]:
    """Convert a report for JSON."""
    return {"ok": report.ok, **dataclasses.asdict(report)}


def _is_fine(report: Any) -> bool:
    return bool(report.ok and not report.refused)


def _check_folder(folder: Path, repair: bool, look: Callable[[Any], Any], as_json: bool) -> int:
    """Check all arrays in a folder and below, without following links to folders."""
    found, left = set(), left_folders(os.fspath(folder))
    files = []
    for where, folders, names in walk_folders(folder, onerror=_raise_unless_gone):
        left += left_folders(folder=where)
        files += left_files(folder=where)
        folders[:] = [name for name in folders if not is_in_the_making(name)]
        for stem, suffix in map(split_name, names):
            if suffix and not is_pass(stem):
                found.add(os.path.join(where, stem))
    # An array's report has the files beside it, as some may be its own.
    files = [name for name in files if stem_of(name) not in found]
    if not found and not left and not files:
        raise MissingError(errno.ENOENT, "no array in this folder", str(folder))
    n_fine = 0
    told: list[Any] = []
    unseen: Counter[str] = Counter()
    done = [*remove_left_folders(left), *remove_left_files(files)] if repair else []
    rest = [told_of(path) for path in left if os.path.lexists(path)]
    rest += [told_of_file(path) for path in files if os.path.lexists(path)]
    if done or rest:
        report = Report(folder, rest, done)
        told.append(_told(report))
        if not as_json:
            print_text("\n".join(str(report).split("\n")[:-1]))
    for path in sorted(found):
        try:
            report = look(path)
        except (ExtArrayError, OSError) as error:  # go on with the other arrays
            what = " ".join(str(error).split())
            told.append({"path": path, "ok": False, "error": what})
            if not as_json:
                print_text(printable(f"{path}: {what}"))
            continue
        told.append(_told(report))
        if not as_json:
            lines = str(report).split("\n")
            print_text("\n".join(line for line in lines if not line.startswith(_UNSEEN)))
            unseen.update(line for line in lines if line.startswith(_UNSEEN))
        n_fine += _is_fine(report)
    if as_json:
        print_json(told)
    else:
        for line, n in unseen.items():  # once, not for each array
            arrays = f"{n} array{'s' * (n > 1)}"
            print_text(f"{_UNSEEN} in {arrays}{line.removeprefix(_UNSEEN)}")
        print_text(printable(f"{folder}: {n_fine} of {len(found)} arrays without errors"))
    return 0 if n_fine == len(found) else 1


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


class _Bars:
    """Shows a progress bar for each pass over the chunks."""

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
