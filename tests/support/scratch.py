"""Folders of state machines: in memory, where there is room, as a disk has no part in them.

Hundreds of small commits wait for a disk much longer than they take.  Examples that nobody has seen
(the profiles `explore` and `nightly`) go to the usual file system.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings

__all__ = ["new_folder"]

MEMORY = Path("/dev/shm")
ROOM = 1 << 29


def new_folder() -> Path:
    """Make an empty folder, which the caller removes."""
    is_new = settings.get_current_profile_name() in {"explore", "nightly"}
    has_room = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM
    parent = MEMORY if has_room and not is_new else None
    return Path(tempfile.mkdtemp(prefix="extarray-", dir=parent))
