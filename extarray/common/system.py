"""Every call of the operating system that Python does not have on all systems.

The rest of the package calls ``os`` for what every system has alike (folders, names), and this
module for everything else: open files, locks, bytes at an offset, disk space, ownership, names
given in one step, facts of processes.  `system_posix` and `system_windows` define the same
functions; another system needs another such module and another version of ``_core/_system.h``, and
no other change.

Errors are the system's own, `OSError`; callers say what was asked.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
from typing import TYPE_CHECKING

from extarray.common.lazy import LazyModule

if sys.platform == "win32":
    from extarray.common.system_windows import (
        CAN_MAP,
        EXCLUSIVE,
        FREE,
        FREES_FOLDERS,
        HAS_RANGE_LOCKS,
        MAPS_FREELY,
        NARROW_NAMES,
        NO_FOLLOW,
        NO_WAIT,
        RUNS_MPI,
        SHARED,
        SHARED_MEMORY,
        WHOLE_LOCKS_APART,
        WRITES_BACK,
        after_fork_in_child,
        allocate,
        boot_id,
        call_at_end,
        copy_range,
        disk_bytes,
        exchange,
        file_size_limit,
        free_bytes,
        has_parent,
        host_name,
        is_closed_pipe,
        is_foreign_link,
        is_running,
        is_same,
        link,
        lock_folder,
        lock_range,
        lock_whole,
        long_name,
        most_open_files,
        name_nameless,
        name_of_descriptor,
        next_data,
        next_hole,
        obstacle,
        open_file,
        open_memory,
        open_nameless,
        open_place,
        physical_bytes,
        problem_of_name,
        read_at,
        redirect_descriptors,
        remove,
        rename_exclusively,
        replace,
        shares_blocks,
        stat_name,
        sync_file,
        sync_folder,
        take_permissions,
        write_at,
    )
else:
    from extarray.common.system_posix import (
        CAN_MAP,
        EXCLUSIVE,
        FREE,
        FREES_FOLDERS,
        HAS_RANGE_LOCKS,
        MAPS_FREELY,
        NARROW_NAMES,
        NO_FOLLOW,
        NO_WAIT,
        RUNS_MPI,
        SHARED,
        SHARED_MEMORY,
        WHOLE_LOCKS_APART,
        WRITES_BACK,
        after_fork_in_child,
        allocate,
        boot_id,
        call_at_end,
        copy_range,
        disk_bytes,
        exchange,
        file_size_limit,
        free_bytes,
        has_parent,
        host_name,
        is_closed_pipe,
        is_foreign_link,
        is_running,
        is_same,
        link,
        lock_folder,
        lock_range,
        lock_whole,
        long_name,
        most_open_files,
        name_nameless,
        name_of_descriptor,
        next_data,
        next_hole,
        obstacle,
        open_file,
        open_memory,
        open_nameless,
        open_place,
        physical_bytes,
        problem_of_name,
        read_at,
        redirect_descriptors,
        remove,
        rename_exclusively,
        replace,
        shares_blocks,
        stat_name,
        sync_file,
        sync_folder,
        take_permissions,
        write_at,
    )

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator
else:
    signal = LazyModule("signal")

__all__ = [
    "CAN_MAP",
    "COHERENT",
    "EXCLUSIVE",
    "FREE",
    "FREES_FOLDERS",
    "FUSE",
    "GONE",
    "HAS_RANGE_LOCKS",
    "MAPS_FREELY",
    "NARROW_NAMES",
    "NETWORKED",
    "NO_FOLLOW",
    "NO_WAIT",
    "RUNS_MPI",
    "SHARED",
    "SHARED_MEMORY",
    "WHOLE_LOCKS_APART",
    "WRITES_BACK",
    "after_fork_in_child",
    "allocate",
    "boot_id",
    "call_at_end",
    "copy_range",
    "cores",
    "disk_bytes",
    "exchange",
    "file_size_limit",
    "free_bytes",
    "has_parent",
    "host_name",
    "is_closed_pipe",
    "is_foreign_link",
    "is_running",
    "is_same",
    "link",
    "lock_folder",
    "lock_range",
    "lock_whole",
    "long_name",
    "most_open_files",
    "name_nameless",
    "name_of_descriptor",
    "next_data",
    "next_hole",
    "obstacle",
    "open_file",
    "open_memory",
    "open_nameless",
    "open_place",
    "physical_bytes",
    "problem_of_name",
    "read_at",
    "redirect_descriptors",
    "remove",
    "rename_exclusively",
    "replace",
    "shares_blocks",
    "stat_name",
    "sync_file",
    "sync_folder",
    "take_permissions",
    "uninterrupted",
    "write_at",
]

# -- types of file systems -----------------------------------------------------------------------

#: The type of a file system that a process provides.
FUSE = 0x65735546

#: Types of file systems that several hosts may share, by their numbers in statfs(2).
NETWORKED = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFE534D42: "SMB2",
    0xFF534D42: "CIFS",
    0x5346414F: "AFS",
    0x73757245: "Coda",
    0x0BD00BD0: "Lustre",
    0x47504653: "GPFS",
    0x00C36400: "Ceph",
    0x19830326: "BeeGFS",
    0xAAD7AAEA: "PanFS",
    0x20030528: "OrangeFS",
    0x01161970: "GFS2",
    0x7461636F: "OCFS2",
    0x01021997: "9P",
    FUSE: "FUSE",
    0x786F4256: "VirtualBox shared folder",
}
#: Types whose hosts see each other's writes at once.  With the others, a host may go on showing its
#: own copy of a page, or of a length.
COHERENT = {0x0BD00BD0, 0x47504653, 0x00C36400, 0x01161970, 0x7461636F}
#: Errors of calls on an open file that another host has replaced or removed.
GONE = {errno.ENOENT, errno.ESTALE}

# -- processes and the machine -------------------------------------------------------------------


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait for the end of a block of a few calls to the system."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is None:  # None: not set by Python
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)  # to whatever the program does then


def cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
