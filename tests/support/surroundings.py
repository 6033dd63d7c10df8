"""Variables, folders and memory that a run of the suite separates from the rest of the machine.

Test programs inherit the environment.  A caller's variable that changes Python's output or
warnings, the width or colour of texts, or the package's settings could decide a test.

All runs of a user share pytest's place for folders.  Each run removes older folders at its end,
even one in use if its lock file looks three days old, as after a jump of the clock.  So a run of
this suite has a separate folder, which also takes the temporary files of its programs.  The run
holds a system lock there, which ends with the process, however that ends.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from extarray.common.system import EXCLUSIVE, lock_whole

__all__ = ["Folder", "one_at_a_time", "shares_little", "shares_memory", "shed"]

#: Variables that test programs must not see, unless a test sets them.
CHANGING = {
    "PYTHONDEVMODE",
    "PYTHONINSPECT",
    "PYTHONIOENCODING",
    "PYTHONOPTIMIZE",
    "PYTHONSAFEPATH",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
    "PYTHONVERBOSE",
    "PYTHONWARNINGS",
    *("CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR"),
    *("MPLBACKEND", "TQDM_DISABLE", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
    *("EXTARRAY_ENGINE", "EXTARRAY_MAPPED_MEMORY", "EXTARRAY_MAX_MEMORY", "EXTARRAY_MAX_RESULT"),
    *("EXTARRAY_NUM_THREADS", "EXTARRAY_VERIFY", "EXTARRAY_WARN_RESULT"),
}
MEMORY = Path("/dev/shm")
LITTLE = 1 << 29
#: Short, since socket addresses begin with it, and may have only 103 bytes on some systems.
PREFIX = "xt-"
#: Number of folders that stay, from runs that failed or were killed.
KEPT = 3


def shed(environment: MutableMapping[str, str]) -> None:
    """Remove variables of the caller that would influence tests."""
    for name in CHANGING & environment.keys():
        del environment[name]


@functools.cache
def shares_memory() -> bool:
    """Tell whether processes can share named memory, as MPI ranks and `multiprocessing` do."""
    name = f"/{PREFIX}{uuid.uuid4().hex[:16]}"
    try:
        import _posixshmem

        descriptor = _posixshmem.shm_open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except (ImportError, OSError):  # Linux needs a writable /dev/shm
        return False
    os.close(descriptor)
    _posixshmem.shm_unlink(name)
    return True


@functools.cache
def shares_little() -> bool:
    """Tell whether shared memory suffices for the ranks of only few tests: containers have 64 MB.

    A rank of MPICH takes more than 5 MB, and each process of the suite has ten or so.
    """
    return MEMORY.is_dir() and shutil.disk_usage(MEMORY).total < LITTLE


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Let only one process of the run at a time into such a block."""
    with open(Path(tempfile.gettempdir(), "one-at-a-time"), "wb") as file:
        lock_whole(file.fileno(), EXCLUSIVE, wait=True)
        yield


class Folder:
    """The folder of one run; no other run removes it meanwhile."""

    def __init__(self, parent: str | None = None, files: str | None = None):
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)).resolve()
        self._lock = os.open(self.path / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        lock_whole(self._lock, EXCLUSIVE, wait=True)
        self.temporary = self.path / "t"
        self.temporary.mkdir()
        #: The folder that pytest makes, on another file system if that is to be tried.
        self.base = self.path / "base"
        if files:
            self.base = Path(tempfile.mkdtemp(prefix=PREFIX, dir=files))
        remove_old(self.path.parent)

    def end(self, remove: bool) -> None:
        """Allow others to remove the folder, or remove it."""
        os.close(self._lock)
        if remove:
            shutil.rmtree(self.base, ignore_errors=True)
            shutil.rmtree(self.path, ignore_errors=True)


def remove_old(parent: Path) -> None:
    """Remove folders of this user's ended runs, except the last few."""
    found = []
    for lock in parent.glob(f"{PREFIX}*/lock"):
        try:
            about = lock.stat()
        except OSError:  # removed meanwhile, or owned by another user
            continue
        if not hasattr(os, "getuid") or about.st_uid == os.getuid():
            found.append((about.st_mtime, lock))
    for _, lock in sorted(found)[:-KEPT]:
        try:
            descriptor = os.open(lock, os.O_RDWR)
        except OSError:
            continue
        try:
            lock_whole(descriptor, EXCLUSIVE)
        except OSError:  # its run is alive
            continue
        else:
            shutil.rmtree(lock.parent, ignore_errors=True)
        finally:
            os.close(descriptor)
