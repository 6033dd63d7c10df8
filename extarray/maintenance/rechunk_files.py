"""Names of the files that passes write, and their publication and removal."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from extarray.common.errors import ExistsError
from extarray.common.system import remove
from extarray.format.suffixes import file_names
from extarray.maintenance.rechunk_plan import MOST_PASSES
from extarray.storage.filesystem import File, family, fresh_name, publish
from extarray.storage.names import log_beside

__all__ = ["check_free", "finish_move", "moved_data", "pass_path", "remove_pair"]


def pass_path(path: Path, i: int) -> Path:
    """Return the path of the array that a pass writes on the way to a target."""
    return Path(f"{path}.rechunk-{i + 1}")


def check_free(path: Path) -> None:
    """Refuse a path that is taken."""
    for name in file_names(path):
        if os.path.lexists(name):
            raise ExistsError(errno.EEXIST, "it already exists; give another path", name)


def remove_pair(path: Path) -> None:
    """Remove whatever exists of a pair of files, and its file of frozen chunks."""
    # Metadata first: without them nothing opens.
    metadata, data = file_names(path)
    for name in (metadata, data, *log_beside(metadata)):
        with family("cannot remove '{}'", name), contextlib.suppress(FileNotFoundError):
            remove(name)


def finish_move(path: Path) -> bool:
    """Publish a complete target whose publication was interrupted; tell whether there was one."""
    for i in range(MOST_PASSES):
        metadata, _ = file_names(pass_path(path, i))
        if os.path.exists(moved_data(metadata, path)):
            with family("cannot finish '{}'", path):
                publish(metadata, file_names(path)[0], overwrite=False)
            return True
    return False


def moved_data(metadata: str, path: Path) -> str:
    """Return the path of a pass's data while its metadata are being moved to `path`."""
    try:
        with contextlib.closing(File.open(metadata, os.O_RDONLY)) as file:
            uuid = file.read(32, 0)[16:]
    except FileNotFoundError:
        uuid = b""
    return fresh_name(file_names(path)[1], uuid)
