"""Folders of tests that do not depend on a disk: in memory, if there is room.

Hundreds of small commits of a state machine wait for a disk much longer than they run, and
gigabytes of holes are read from it like data.  New examples (the profiles `explore` and `nightly`)
use the usual file system, and all do where one is to be tried.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from engines import FOLDER
from hypothesis import settings
from surroundings import MEMORY

__all__ = ["MEMORY", "new_folder"]

ROOM = 1 << 29


def new_folder() -> Path:
    """Make an empty folder; the caller removes it."""
    is_new = settings.get_current_profile_name() in {"explore", "nightly"}
    has_room = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM
    parent = FOLDER or (MEMORY if has_room and not is_new else None)
    return Path(tempfile.mkdtemp(prefix="extarray-", dir=parent))
