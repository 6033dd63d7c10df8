"""Kills of a job that leave different files, as a process that preload.py watches finds them.

A kill leaves files and nothing else, so kills that leave the same files are one case.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from preload import Control, TogetherError

__all__ = ["distinct_kills", "files"]

#: Calls that can do a part of their work.
_TRANSFERS = ("pwrite", "write", "copy_file_range")


def files(folder: Path) -> tuple:
    """Return all that readers can find in a folder, as bytes."""
    found = []
    for place in sorted(folder.rglob("*")):
        about = place.lstat()
        if place.is_symlink():
            content = os.fsencode(os.readlink(place))
        else:
            content = place.read_bytes() if place.is_file() else b""
        right = about.st_mode, about.st_uid, about.st_gid
        found.append((str(place), right, about.st_nlink, content))
    return tuple(found)


def distinct_kills(
    start: Callable[[], int], folder: Path, control: Control
) -> tuple[int, list[tuple[int, str]]] | None:
    """Return the number of calls of a job, and its kills that leave different files.

    `start` starts a process that arms `LOOK` and does the job.  Files that are mapped change
    between calls, too.  None: several threads call the system.
    """
    control.fired = False
    pid = start()
    before, kills, number = None, [], 0
    try:
        for place, (name, now) in enumerate(control.looks(pid, lambda: files(folder))):
            number = place // 2 + 1
            if now != before:
                kills.append((number, "after" if place % 2 else "before"))
                if place % 2 and name in _TRANSFERS:
                    kills.append((number, "half"))
            before = now
    except BaseException as error:
        os.kill(pid, signal.SIGKILL)  # it waits, and has the output open
        if isinstance(error, (TogetherError, FileNotFoundError)):
            return None
        raise
    finally:
        control.arm(0, 0)
        status = os.waitpid(pid, 0)[1]
    assert status == 0
    return number, kills
