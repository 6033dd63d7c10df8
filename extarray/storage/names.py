"""The names of the two files: taken, found, changed, and given up.

The metadata get their name first.  Until the data have theirs, whoever opens the pair finds them
under a fresh one, which the array's uuid tells.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from extarray.storage.filesystem import (
    File,
    family,
    fresh_name,
    publish,
    real_name,
    sync_folders,
)
from extarray.storage.lock import note_holder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from extarray.format.header import Header

__all__ = ["Publication", "move_pair", "open_data", "remove_pair"]


@dataclass
class Publication:
    """The naming of the files of a new pair: of metadata and data, in this order as everywhere.

    Attributes
    ----------
    fresh : sequence of str
        Names under which the files are made.
    names : sequence of str
    overwrite : bool
    old : File
        The metadata that are replaced, locked; a closed file if there are none.
    old_header : Header or None
        Their header, if it is whole: they have the note of who holds the lock.
    """

    fresh: Sequence[str]
    names: Sequence[str]
    overwrite: bool
    old: File = field(default_factory=File)
    old_header: Header | None = None

    @property
    def replaces(self) -> bool:
        """True if another pair loses its names."""
        return not self.old.closed

    def publish(self, path: Path) -> None:
        """Give the files their names; `path` is for messages."""
        publish(self.fresh[0], self.names[0], self.overwrite)
        if self.replaces:
            with family("'{}' is replaced, but may not be on the disk", path):
                sync_folders(self.names)
        try:
            publish(self.fresh[1], self.names[1], self.overwrite)
        except OSError:
            if not self.replaces:
                raise

    def withdraw(self, metadata: File, data: File) -> None:
        """Remove the files unless they have replaced another pair."""
        if self.replaces and not metadata.closed and metadata.is_at(self.names[0]):
            with contextlib.suppress(OSError):
                os.replace(self.fresh[1], self.names[1])
        else:
            made = zip((metadata, data), self.names, strict=True)
            named = [name for file, name in made if not file.closed and file.is_at(name)]
            for name in (*named, *self.fresh):
                with contextlib.suppress(OSError):
                    os.unlink(name)
        self.release()

    def release(self, alone: bool = False) -> None:
        """Drop the lock of what was replaced; `alone`, see `FileCore.close`."""
        if self.old_header is not None and not alone:
            with contextlib.suppress(OSError):
                note_holder(self.old, self.old_header, False)
        with contextlib.suppress(OSError):  # nothing is lost: it is on the disk, or replaced
            self.old.close(alone)


def open_data(names: Sequence[str], uuid: bytes, flags: int) -> File:
    """Open ``.xta``, even where its creator did not get to give it its name.

    Parameters
    ----------
    names : sequence of str
    uuid : bytes
    flags : int
        As for `os.open`.  Whoever may write gives it the name.

    Returns
    -------
    File

    Raises
    ------
    OSError
    """
    metadata, name = names
    fresh = fresh_name(real_name(name), uuid)
    if not os.access(fresh, os.F_OK):
        return File.open(name, flags)
    try:
        file = File.open(fresh, flags)
    except FileNotFoundError:  # by now it has its name
        return File.open(name, flags)
    if flags & os.O_RDWR:
        with contextlib.suppress(OSError):
            os.replace(fresh, real_name(name))
        # What a creator leaves there between its link and its unlink.
        for other in (fresh, fresh_name(real_name(metadata), uuid)):
            if file.is_at(name):
                with contextlib.suppress(OSError):
                    os.unlink(other)
    return file


def move_pair(
    files: tuple[File, File],
    before: Sequence[str],
    names: Sequence[str],
    uuid: bytes,
    overwrite: bool,
) -> None:
    """Give an open pair other names, in the steps in which a new one takes its first.

    Parameters
    ----------
    files : (File, File)
    before, names : sequence of str
    uuid : bytes
    overwrite : bool
        Take the names from another pair.

    Raises
    ------
    OSError
        The pair has its old names.
    """
    metadata, data = files
    fresh = fresh_name(names[1], uuid)
    # It is found under this name as soon as the metadata have theirs.
    os.rename(before[1], fresh)
    try:
        _rename(metadata, before[0], names[0], overwrite)
        if overwrite:
            sync_folders(names)
        _rename(data, fresh, names[1], overwrite)
    except BaseException:
        if not (overwrite and metadata.is_at(names[0])):
            if metadata.is_at(names[0]):
                os.rename(names[0], before[0])
            os.rename(fresh, before[1])
            raise
        # It has replaced the other one; the next writer does what is left.


def _rename(file: File, name: str, other: str, overwrite: bool) -> None:
    """Give an open file another name."""
    try:
        publish(name, other, overwrite)
    except OSError:
        if not file.is_at(other):
            raise
        with contextlib.suppress(OSError):  # it has both
            os.unlink(name)


def remove_pair(names: Sequence[str], uuid: bytes) -> None:
    """Remove the files; the metadata first, so that nothing is left that opens.

    Parameters
    ----------
    names : sequence of str
    uuid : bytes

    Raises
    ------
    OSError
    """
    metadata, data = map(real_name, names)
    for name in (metadata, data, fresh_name(data, uuid)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
