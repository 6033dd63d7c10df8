"""Files beside an array that interrupted work has left there."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING

from extarray.storage import lock
from extarray.storage.filesystem import File
from extarray.storage.report import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extarray.format.header import Header

__all__ = ["left_overs", "remove_left_overs", "remove_seldom"]

# Seconds: a file that has no lock yet is younger.
_IN_THE_MAKING = 60.0
# A look at a folder of many files may take long: the next one waits this many times as long.
_PATIENCE = 100
_next_looks: dict[str, float] = {}


def left_overs(names: tuple[str, str], header: Header | None) -> list[Problem]:
    """Find the files that creations, and `rechunk`, have left beside a pair.

    Parameters
    ----------
    names : tuple of str
        Of ``.xmd`` and ``.xta``.
    header : Header or None
        The array's: what was made as a part of it is not left over.

    Returns
    -------
    list of Problem
    """
    what = "left by a creation that was interrupted, or is under way"
    remedy = "the next open for writing, or extarray check --repair, removes it"
    found = [
        Problem("left over", what, name, None, "warning", f"{remedy}, if nobody is at work")
        for name in _unnamed(names, header)
    ]
    what = "left by a rechunk that was interrupted, or is under way"
    remedy = "the same rechunk with resume=True goes on with it; without, it starts afresh"
    return found + [
        Problem("left over", what, name, None, "warning", remedy) for name in _unfinished(names)
    ]


def _unnamed(names: tuple[str, str], header: Header | None) -> list[str]:
    """Return the files that were to take the names of a pair."""
    found = _beside(names, r"\.(xmd|xta)\.[0-9a-f]{12}\.new")
    if header is not None:
        # The array's own data may have that name still.
        own = f".xta.{header.uuid.hex()[:12]}.new"
        found = [name for name in found if not name.endswith(own) and not _is_file(name, names[0])]
    return found


def _unfinished(names: tuple[str, str]) -> list[str]:
    """Return the files of passes of a `rechunk` to the names of a pair."""
    return _beside(names, r"\.rechunk-[0-9]+\.(xmd|xta)(\.[0-9a-f]{12}\.new)?")


def _beside(names: tuple[str, str], ending: str) -> list[str]:
    """Return the files in the folder of a pair whose names are its stem and an ending."""
    folder, metadata = os.path.split(os.path.abspath(names[0]))
    pattern = re.compile(re.escape(metadata.removesuffix(".xmd")) + ending)
    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        found += [entry.path for entry in entries if pattern.fullmatch(entry.name)]
    return sorted(found)


def _is_file(name: str, other: str) -> bool:
    """Tell whether two names are of one file."""
    with contextlib.suppress(OSError):
        return os.path.samefile(name, other)
    return False


def remove_left_overs(names: tuple[str, str], header: Header | None) -> list[str]:
    """Remove what creations have left that nobody is at work on; return what was done.

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
    # The data before the metadata, whose lock tells of both.
    for name in reversed(_unnamed(names, header)):
        with contextlib.suppress(OSError):
            stem, identifier, _ = name.rsplit(".", 2)
            metadata = f"{stem.removesuffix('.xta').removesuffix('.xmd')}.xmd.{identifier}.new"
            with _opened(metadata) as file:
                if _is_abandoned(name, file):
                    os.unlink(name)
                    done.append(f"{name} was removed")
    return done


def remove_seldom(names: tuple[str, str], header: Header) -> None:
    """Remove what creations have left, unless that was tried in the same folder not long ago.

    Parameters
    ----------
    names, header
        As for `remove_left_overs`.
    """
    folder = os.path.dirname(os.path.abspath(names[0]))
    begun = time.monotonic()
    if begun >= _next_looks.get(folder, begun):
        remove_left_overs(names, header)
        ended = time.monotonic()
        if len(_next_looks) > 1000:
            _next_looks.clear()
        _next_looks[folder] = ended + _PATIENCE * (ended - begun)


def _is_abandoned(name: str, metadata: File | None) -> bool:
    """Tell whether nobody is at work on a file any more, by the lock of the metadata beside it."""
    if metadata is not None and lock.is_held(metadata):
        return False
    # Metadata are locked before anything is written to them.
    if metadata is not None and lock.can_tell() and metadata.stat().st_size:
        return True
    about = os.stat(name)
    # Complete data may have got this name a moment ago, before the metadata that has another.
    changed = about.st_mtime if metadata is not None else max(about.st_mtime, about.st_ctime)
    return time.time() - changed >= _IN_THE_MAKING


@contextlib.contextmanager
def _opened(name: str) -> Iterator[File | None]:
    """Open a file for the length of a block; None where there is none."""
    try:
        file = File.open(name, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        yield None
        return
    try:
        yield file
    finally:
        file.close()
