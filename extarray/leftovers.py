"""Files of creations that did not come to their end."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING

from extarray import lock
from extarray.findings import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extarray.metadata.header import Header

__all__ = ["left_overs", "remove_left_overs"]

# A file that has no lock yet is younger.
_IN_THE_MAKING = 60.0


def left_overs(names: tuple[str, str], header: Header | None) -> list[Problem]:
    """Files beside a pair, under the names that creations make them by.

    Parameters
    ----------
    names : tuple of str
        Of ``.xmd`` and ``.xta``.
    header : Header or None
        The array's: what was made as a part of it is none.

    Returns
    -------
    list of Problem
    """
    folder, metadata = os.path.split(os.path.abspath(names[0]))
    stem = re.escape(metadata.removesuffix(".xmd"))
    pattern = re.compile(rf"{stem}\.(xmd|xta)\.[0-9a-f]{{12}}\.new")
    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        found += [entry.path for entry in entries if pattern.fullmatch(entry.name)]
    if header is not None:
        # The array's own data may have that name still.
        own = f".xta.{header.uuid.hex()[:12]}.new"
        found = [name for name in found if not name.endswith(own) and not _is_file(name, names[0])]
    what = "left by a creation that was interrupted, or is under way"
    remedy = "extarray check --repair removes it, if nobody is at work"
    return [Problem("left over", what, name, None, "warning", remedy) for name in sorted(found)]


def _is_file(name: str, other: str) -> bool:
    """Whether two names are of one file."""
    with contextlib.suppress(OSError):
        return os.path.samefile(name, other)
    return False


def remove_left_overs(names: tuple[str, str], header: Header | None) -> list[str]:
    """Remove what creations have left that nobody is at work on; returns what was done.

    Parameters
    ----------
    names : tuple of str
        Of ``.xmd`` and ``.xta``.
    header : Header or None
        As for `left_overs`.

    Returns
    -------
    list of str
    """
    done = []
    for problem in left_overs(names, header):
        with contextlib.suppress(OSError):
            # Its metadata has the lock of the one who makes it; before that it is young.
            if time.time() - os.stat(problem.file).st_mtime < _IN_THE_MAKING:
                continue
            stem, identifier, _ = problem.file.rsplit(".", 2)
            metadata = f"{stem.removesuffix('.xta').removesuffix('.xmd')}.xmd.{identifier}.new"
            with _opened(metadata) as fd:
                if fd >= 0 and lock.is_held(fd):
                    continue
                os.unlink(problem.file)
                done.append(f"{problem.file} was removed")
    return done


@contextlib.contextmanager
def _opened(name: str) -> Iterator[int]:
    """Descriptor of a file for the length of a block; -1 where there is none."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        yield -1
        return
    try:
        yield fd
    finally:
        os.close(fd)
