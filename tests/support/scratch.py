"""Folders of tests in which a disk has no part: in memory, where there is room.

Hundreds of small commits of a state machine wait for a disk much longer than they take, and
gigabytes of holes are read from it as if they were there.  Examples that nobody has seen (the
profiles `explore` and `nightly`) go to the usual file system.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from surroundings import MEMORY

__all__ = ["MEMORY", "new_folder"]

ROOM = 1 << 29


def new_folder() -> Path:
    """Make an empty folder, which the caller removes."""
    is_new = settings.get_current_profile_name() in {"explore", "nightly"}
    has_room = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM
    parent = MEMORY if has_room and not is_new else None
    return Path(tempfile.mkdtemp(prefix="extarray-", dir=parent))
