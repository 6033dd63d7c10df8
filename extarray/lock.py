"""The writer's lock: advisory, on the open file description of ``.xmd``.

Such a lock belongs to the open file, not to the process: two opens in one process exclude each
other, closing a reader's descriptor does not drop the writer's lock, and the kernel drops it when
the writer dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
import time
from typing import TYPE_CHECKING

from extarray.errors import ArgumentError, ArgumentTypeError, LockedError
from extarray.metadata import HOLDER_BYTES, header_bytes_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["acquire", "check_timeout", "is_held", "note_holder", "release"]

_FLOCK = "hhqqi4x"  # struct flock on 64-bit systems: type, whence, start, length, pid
_LONGEST_NAP = 0.05


def _try(fd: int, kind: int) -> bool:
    try:
        if hasattr(fcntl, "F_OFD_SETLK"):
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0))
        else:
            # BSD and macOS: flock has the same meaning there.
            fcntl.flock(
                fd, fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
            )
    except (BlockingIOError, PermissionError):
        return False
    return True


def check_timeout(timeout: float | None) -> None:
    """Refuse what is no time to wait.

    Parameters
    ----------
    timeout : float or None

    Raises
    ------
    ArgumentError, ArgumentTypeError
    """
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise ArgumentTypeError(f"timeout must be a number of seconds or None, not {timeout!r}")
    if not timeout >= 0:
        raise ArgumentError(f"timeout must be at least 0 seconds, not {timeout!r}")


def acquire(fd: int, path: Path, timeout: float | None) -> None:
    """Take the writer's lock.

    Parameters
    ----------
    fd : int
        Descriptor of ``.xmd``, open for writing.
    path : Path
        For the message.
    timeout : float or None
        Seconds to wait; None: for ever.

    Raises
    ------
    LockedError
        A BlockingIOError: still held after `timeout` seconds.
    """
    end = None if timeout is None else time.monotonic() + timeout
    nap = 0.001
    while not _try(fd, fcntl.F_WRLCK):
        left = nap if end is None else end - time.monotonic()
        if left <= 0:
            raise LockedError(
                errno.EAGAIN,
                f"another writer{_holder(fd)} has it open; wait with timeout=, close it there, or "
                "open with mode='r'",
                str(path),
            )
        time.sleep(min(nap, left))
        nap = min(2 * nap, _LONGEST_NAP)


def release(fd: int) -> None:
    """Drop the writer's lock, for every duplicate of the descriptor (also a forked child's).

    Parameters
    ----------
    fd : int
    """
    _try(fd, fcntl.F_UNLCK)


def note_holder(fd: int, held: bool) -> None:
    """Leave a note in ``.xmd`` that tells who holds the lock; for messages only.

    Parameters
    ----------
    fd : int
        Descriptor of ``.xmd``, open for writing.
    held : bool
        False: clear the note.
    """
    note = f"{os.getpid()} {socket.gethostname()}".encode()[: HOLDER_BYTES - 1] if held else b""
    os.pwrite(fd, note.ljust(HOLDER_BYTES, b"\0"), header_bytes_of(fd) - HOLDER_BYTES)


def _holder(fd: int) -> str:
    note = os.pread(fd, HOLDER_BYTES, max(0, header_bytes_of(fd) - HOLDER_BYTES)).rstrip(b"\0")
    try:
        pid, host = note.decode("ascii").split(" ", 1)
        return f" (process {int(pid)} on {host})"
    except ValueError:
        return ""


def is_held(fd: int) -> bool:
    """Whether a writer holds the lock, without taking it; False where the system cannot tell.

    Parameters
    ----------
    fd : int
        Descriptor of ``.xmd``.

    Returns
    -------
    bool
    """
    if not hasattr(fcntl, "F_OFD_GETLK"):
        return False
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    told = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))
    return bool(told[0] != fcntl.F_UNLCK)
