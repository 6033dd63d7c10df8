"""Where tests make their files, and the engines for that file system.

`EXTARRAY_TEST_FOLDER` names a folder on a file system to try.  Where hosts may share it, writers do
not map files.
"""

from __future__ import annotations

import os
import tempfile

import extarray as xa

__all__ = ["ENGINES", "FOLDER"]

FOLDER = os.environ.get("EXTARRAY_TEST_FOLDER")


def usual_engine(folder: str | None) -> str:
    """Return the engine that a writer gets there."""
    with (
        tempfile.TemporaryDirectory(dir=folder) as inner,
        xa.create(f"{inner}/a", (1,), "u1") as array,
    ):
        return array.info()["engine"]


IS_TRIED = FOLDER is not None or os.name == "nt"
ENGINES = ["pread"] if IS_TRIED and usual_engine(FOLDER) == "pread" else ["mmap", "pread"]
