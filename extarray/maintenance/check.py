"""``check``: find damage in the files of an array, and repair it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import tempfile
import time
from typing import TYPE_CHECKING, Any

from extarray.common.arguments import check_flag, check_progress
from extarray.common.errors import ArgumentError, FormatError
from extarray.common.hints import hint
from extarray.common.progress import Progress
from extarray.fetched.downloads import download
from extarray.fetched.heads import read_place
from extarray.fetched.paths import NOT_THERE, local_or_remote, refuse_writing
from extarray.fetched.published import check_objects
from extarray.maintenance.inspect import Survey
from extarray.maintenance.packing import check_packed
from extarray.maintenance.repair import Repair
from extarray.storage import lock
from extarray.storage.filesystem import family, real_name, resolve_path
from extarray.storage.names import Packed, remove_left_overs
from extarray.storage.pair import Pair
from extarray.storage.report import Problem, Report

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike
    from pathlib import Path

    from extarray.common.arguments import Reported
    from extarray.fetched.paths import RemotePath

__all__ = ["check"]

# A writer may be at work: only trouble that persists while the files stand still is damage.
_ATTEMPTS = 100
_PAUSE = 0.002
# Copies of an array elsewhere that are checked while a writer is at work on it.
_COPIES = 3

_ANEW = "publish the array in another place"


def check(
    path: str | PathLike[str],
    data: bool = False,
    repair: bool = False,
    force: bool = False,
    *,
    progress: Reported = True,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Check the files of an array, and repair them where asked to.

    Parameters
    ----------
    path : str or PathLike
        With or without a trailing ``.xmd`` or ``.xta``.  A packed file (`pack`) is compared with
        its checksums.  Also a URL, as for `open`: a packed file, or with `data` a pair, is
        downloaded to a temporary folder; of a published array or group, tables and with `data`
        chunks are read.
    data : bool
        Read all chunks too, and compare them with their checksums if the array has any.
    repair : bool
        Return to the last whole state.  Bytes about to be overwritten are first copied to a file
        whose name ends in ``.before-repair``.
    force : bool
        With `repair`: proceed even if that loses elements, bounds or attributes that could still be
        recovered, and accept chunks that do not match their checksums.
    progress : bool or callable
        Show the progress of the comparison on a terminal or in a notebook; or a function that is
        called with the number of chunks compared so far and the total.
    storage_options : mapping, optional
        For a URL, as for `open`.

    Returns
    -------
    Report
        ``.ok``, ``.problems``, what was repaired and what was not examined; ``str()`` gives a
        readable text.

    Raises
    ------
    ArgumentError
        A ValueError: `force` without `repair`, or the path names no file.
    LockedError
        A BlockingIOError: someone has the array open for writing, which prevents a repair.
    AccessError, StorageError
        OSErrors: the files cannot be read or, for a repair, written.

    Notes
    -----
    Without `repair`, nothing changes and no lock is taken: an array can be checked while a writer
    is at work.  Damage of any kind is reported, never raised.  Memory is bounded, except that
    attributes and growth log are read whole.

    Examples
    --------
    >>> import tempfile, extarray as xa
    >>> path = f"{tempfile.mkdtemp()}/scene"
    >>> xa.ones((4, 3), path=path, checksum=True).close()
    >>> xa.check(path, data=True).ok
    True
    >>> with open(f"{path}.xta", "r+b") as file:
    ...     _ = file.write(b"oops")
    >>> report = xa.check(path, data=True)
    >>> report.ok, report.problems[0].what
    (False, 'chunk 0: the checksum does not match; its elements are [0:4, 0:3]')
    """
    for name, flag in (("data", data), ("repair", repair), ("force", force)):
        check_flag(flag, name)
    check_progress(progress)
    if force and not repair:
        raise ArgumentError("force=True requires repair=True")
    there = local_or_remote(path, storage_options)
    if there is not None:
        if repair:
            raise refuse_writing(there, "repair '{}'")
        return _check_elsewhere(there, data, progress)
    where = resolve_path(path)
    pair = Pair(where)
    if not any(map(os.path.lexists, pair.names)):
        with family("cannot check '{}'", where):
            found = _look_at_packed(where, data, repair, progress)
        if found is not None:
            return found
    metadata, principal = map(real_name, pair.names)
    pair.names = metadata, principal
    done: list[str] = []
    refused: list[str] = []
    if repair:
        with family("cannot repair '{}'", where):
            _repair(pair, data, force, progress, (done, refused))
    with family("cannot check '{}'", where):
        if repair:
            survey = _look(pair, False, False)
            if force or not survey.kinds:  # otherwise left-overs may hold what the array lacks
                done += remove_left_overs(pair.names, survey.header)
        survey = _look(pair, data, progress)
    return Report(where, survey.problems, done, refused, survey.unseen)


def _look_at_packed(path: Path, data: bool, repair: bool, progress: Reported) -> Report | None:
    """Check a packed file, if a path leads to or through one; otherwise return None."""
    try:
        with Packed.find(path) as packed:
            if packed is None:
                return None
            if repair:
                raise ArgumentError(
                    f"'{packed.path}' is a packed file, which cannot be repaired; restore it from "
                    "a copy, or extract undamaged members with a ZIP program"
                )
            return check_packed(packed, path, data, progress)
    except FormatError as error:
        return Report(path, [Problem("file", str(error), os.fspath(path), None, "error")])


def _check_published(path: RemotePath, data: bool, progress: Reported) -> Report | None:
    """Check a published array or group; return None if there is none."""
    shown: Any = path
    try:
        place = read_place(path)
        names = place.index.arrays if place.is_group else [""]
        grids = {name: place.head(name).found.state.grid for name in names}
    except NOT_THERE:
        return None
    except FormatError as error:
        return Report(shown, [Problem("file", str(error), str(path), None, "error", _ANEW)])
    problems: list[Problem] = []
    n_chunks = sum(map(math.prod, grids.values()))
    with Progress(max(1, n_chunks), "check", check_progress(progress)) as line:
        for name in names:
            where = f"{path}/{name}".rstrip("/")
            problems += [
                Problem("chunk", str(wrong), where, None, "error", _ANEW)
                for wrong in check_objects(place, name, data, line.add)
            ]
    how = hint("extarray.check(url, data=True)", "extarray check --data")
    unseen = [] if data else [f"chunks in '{path}'; {how} reads them"]
    return Report(shown, problems, unseen=unseen)


def _check_elsewhere(path: RemotePath, data: bool, progress: Reported) -> Report:
    """Check a copy of an array elsewhere; copy it again if a writer was at work meanwhile."""
    found = None if path.packed() is not None else _check_published(path, data, progress)
    if found is not None:
        return found
    for _ in range(_COPIES):
        with tempfile.TemporaryDirectory(prefix="extarray-check-") as folder:
            with family("cannot check '{}'", path):
                name, url = download(path, folder, data)
            report = check(name, data, progress=progress)
        problems = [
            dataclasses.replace(
                problem,
                **{
                    key: getattr(problem, key).replace(url[0], url[1])
                    for key in ("file", "what", "remedy")
                },
            )
            for problem in report.problems
        ]
        if report.ok or path.packed() is not None:
            break
    shown: Any = path
    unseen = [text.replace(url[0], url[1]) for text in report.unseen]
    return dataclasses.replace(report, path=shown, problems=problems, unseen=unseen)


def _look(pair: Pair, data: bool, progress: Reported) -> Survey:
    """Survey the files, and repeat that if they changed meanwhile."""
    for attempt in range(_ATTEMPTS):
        survey = Survey(pair)
        with survey.opened():
            before = survey.fingerprint()
            survey.look()
            suspect = any(p.severity != "note" and p.kind != "left over" for p in survey.problems)
            stands = survey.fingerprint() == before and survey.is_in_place()
            if not suspect or stands or attempt == _ATTEMPTS - 1:
                if data:
                    survey.look_at_chunks(progress)
                break
        time.sleep(_PAUSE)
    return survey


def _repair(
    pair: Pair,
    data: bool,
    force: bool,
    progress: Reported,
    said: tuple[list[str], list[str]],
) -> None:
    """Repair the files as their only writer; append to `said` what was done and refused."""
    survey = Survey(pair)
    pair.engine = "pread"  # words of frozen chunks are written by calls
    with survey.opened(os.O_RDWR):
        if not pair.metadata.closed:
            lock.acquire(pair.metadata, pair.path, 0)
        survey.look()
        header = survey.header  # None: the place of the holder's note is unknown
        if header is not None:
            lock.note_holder(pair.metadata, header, True)
        try:
            Repair(survey, force, *said).run(data, progress)
        finally:
            if header is not None:
                with contextlib.suppress(OSError):
                    lock.note_holder(pair.metadata, header, False)
            if not pair.metadata.closed:
                with contextlib.suppress(OSError):  # a traceback may keep a copy of the descriptor
                    lock.release(pair.metadata)
