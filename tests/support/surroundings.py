"""Variables, folders and memory that a run of the suite keeps apart from the rest of the machine.

Programs of tests inherit the environment.  A variable of the caller that changes how Python prints
or warns, or how wide or colourful a text is, or that sets the package up, would decide whether a
test passes.

All runs of a user share pytest's place for folders.  Each run removes older folders at its end,
even one in use if its lock file looks three days old, as after a jump of the clock.  So a run of
this suite has a folder of its own, which also takes the temporary files of its programs.  The run
holds a lock of the system there; the lock ends with the process, whatever ends the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, MutableMapping
from pathlib import Path

__all__ = ["Folder", "one_at_a_time", "shares_little", "shares_memory", "shed"]

#: Variables that programs of tests must not see, unless a test gives them one.
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
#: Short: addresses of sockets, which begin with it, have at most 103 bytes on some systems.
PREFIX = "xt-"
#: How many folders stay: of runs in which something failed, or that were killed.
KEPT = 3


def shed(environment: MutableMapping[str, str]) -> None:
    """Remove the variables of the caller that would decide what tests find."""
    for name in CHANGING & environment.keys():
        del environment[name]


@functools.cache
def shares_memory() -> bool:
    """Whether processes find memory by names: MPI's ranks and `multiprocessing` need it."""
    name = f"/{PREFIX}{uuid.uuid4().hex[:16]}"
    try:
        import _posixshmem

        descriptor = _posixshmem.shm_open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except (ImportError, OSError):  # Linux needs a /dev/shm that this user may write to
        return False
    os.close(descriptor)
    _posixshmem.shm_unlink(name)
    return True


@functools.cache
def shares_little() -> bool:
    """Whether the system's shared memory holds the ranks of few tests: a container has 64 MB.

    A rank of MPICH takes more than 5 MB, and each process of the suite has ten or so.
    """
    return MEMORY.is_dir() and shutil.disk_usage(MEMORY).total < LITTLE


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Keep other processes of the run out of such a block; wait for the one that is in one."""
    with open(Path(tempfile.gettempdir(), "one-at-a-time"), "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Folder:
    """The folder of one run, which no other removes while the run lives."""

    def __init__(self, parent: str | None = None):
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)).resolve()
        self._lock = os.open(self.path / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.temporary = self.path / "t"
        self.temporary.mkdir()
        #: For pytest, which makes it.
        self.base = self.path / "base"
        remove_old(self.path.parent)

    def end(self, remove: bool) -> None:
        """Let others remove the folder, or remove it."""
        os.close(self._lock)
        if remove:
            shutil.rmtree(self.path, ignore_errors=True)


def remove_old(parent: Path) -> None:
    """Remove folders of ended runs of this user, but for the last few."""
    found = []
    for lock in parent.glob(f"{PREFIX}*/lock"):
        try:
            about = lock.stat()
        except OSError:  # removed meanwhile, or another user's
            continue
        if about.st_uid == os.getuid():
            found.append((about.st_mtime, lock))
    for _, lock in sorted(found)[:-KEPT]:
        try:
            descriptor = os.open(lock, os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # its run lives
            continue
        else:
            shutil.rmtree(lock.parent, ignore_errors=True)
        finally:
            os.close(descriptor)
