"""Where tests make their files, and the engines for that file system.

`EXTARRAY_TEST_FOLDER` names a folder on a file system to try.  Where hosts may share it, writers do
not map files.
"""

from __future__ import annotations

import os
import tempfile

import extarray as xa
from extarray.common.system import CAN_MAP, MAPS_FREELY

__all__ = ["ENGINES", "FOLDER"]

FOLDER = os.environ.get("EXTARRAY_TEST_FOLDER")


def usual_engine(folder: str | None) -> str:
    """Return the engine that a writer gets there."""
    with (
        tempfile.TemporaryDirectory(dir=folder) as inner,
        xa.create(f"{inner}/a", (1,), "u1") as array,
    ):
        return array.info()["engine"]


def can_map() -> bool:
    """Tell whether writers may ask for the engine "mmap" there."""
    if not CAN_MAP:
        return False
    # Where a mapping hinders others, the engine is there, but not the usual one.
    return FOLDER is None or not MAPS_FREELY or usual_engine(FOLDER) == "mmap"


ENGINES = ["mmap", "pread"] if can_map() else ["pread"]
