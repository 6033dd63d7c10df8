"""The locks of writers: advisory, on the open file description of ``.xmd``.

Such a lock belongs to the open file, not to the process: two opens in one process exclude each
other, closing a reader's descriptor does not drop the writer's lock, and the kernel drops it when
the writer dies.

A writer alone locks the whole file.  Writers that share it lock single bytes, far behind its end:
each a byte of its own, which tells the others that it lives, and for the length of a commit the
byte of commits.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import socket
import struct
import sys
import time
from numbers import Real
from typing import TYPE_CHECKING, Any

from extarray.errors import (
    ArgumentError,
    ArgumentTypeError,
    FormatError,
    LockedError,
    StorageError,
)
from extarray.metadata.header import header_bytes_of
from extarray.metadata.places import BLOCK, HOLDER_BYTES, WRITERS_BLOCK
from extarray.metadata.writers import WRITER_SLOTS, decode_writers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from extarray.metadata.header import Header

__all__ = [
    "acquire",
    "anyone_is_alive",
    "begin_commit",
    "begin_turn",
    "check_timeout",
    "end_commit",
    "end_turn",
    "has_turn",
    "holding",
    "is_alive",
    "is_held",
    "join",
    "note_holder",
    "release",
    "wait_turn",
]

_FLOCK = "hhqqi4x"  # struct flock on 64-bit systems: type, whence, start, length, pid
_LONGEST_NAP = 0.05
# Seconds at least for another writer to come to the end of a commit: it may wait for the disk.
_PATIENCE = 5.0
# Elsewhere struct flock is another one, also where there are such locks, as on macOS.
_HAS_RANGES = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")

# Bytes that writers lock who share an array.
_COMMIT = 1 << 62
_MEMBER = _COMMIT + 1
_SLOTS = _COMMIT + 2
_TURNS = _COMMIT + (1 << 32)  # one for each ticket

# Bytes of ``.xta`` that ranks lock, one for each chunk.  Not those of the chunk itself: some MPI
# libraries lock what they read and write, and would wait for the rank that calls them.
_CHUNKS = 1 << 62


def _try(fd: int, kind: int, start: int = 0, length: int = 0) -> bool:
    """Set a lock on a range of bytes (of length 0: all from `start` on), if it is free."""
    try:
        if _HAS_RANGES:
            _call(fd, fcntl.F_OFD_SETLK, kind, start, length)
        else:
            # BSD and macOS: flock has the same meaning there.
            fcntl.flock(
                fd, fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
            )
    except (BlockingIOError, PermissionError):
        return False
    return True


def _call(fd: int, command: int, kind: int, start: int, length: int) -> int:
    """Call fcntl; returns the kind of lock that it tells of."""
    told = fcntl.fcntl(fd, command, struct.pack(_FLOCK, kind, os.SEEK_SET, start, length, 0))
    found: int = struct.unpack(_FLOCK, told)[0]
    return found


def _drop(fd: int, start: int, length: int = 1) -> None:
    """Drop the lock on a range of bytes, come what may: others wait for it."""
    try:
        _try(fd, fcntl.F_UNLCK, start, length)
    except OSError:
        _try(fd, fcntl.F_UNLCK, start, length)
    except BaseException:  # an interrupt
        _try(fd, fcntl.F_UNLCK, start, length)
        raise


def _obstacle(fd: int, kind: int, start: int, length: int = 1) -> int:
    """Kind of lock of another that keeps this one from some bytes; F_UNLCK: none does."""
    return _call(fd, fcntl.F_OFD_GETLK, kind, start, length)


def check_timeout(timeout: Any) -> float | None:
    """Seconds to wait, or None; what is no time to wait is refused.

    Parameters
    ----------
    timeout : float or None
        Any real number, NumPy's too.

    Returns
    -------
    float or None

    Raises
    ------
    ArgumentError, ArgumentTypeError
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not issubclass(type(timeout), Real):
        raise ArgumentTypeError(f"timeout must be a number of seconds or None, not {timeout!r}")
    if not timeout >= 0:
        raise ArgumentError(f"timeout must be at least 0 seconds, not {timeout!r}")
    try:
        return float(timeout)
    except OverflowError:
        return math.inf


def acquire(fd: int, path: Path, timeout: float | None) -> None:
    """Take the lock of a writer that is alone.

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
    for _ in _attempts(_end(timeout)):
        if _try(fd, fcntl.F_WRLCK):
            return
    raise LockedError(errno.EAGAIN, _refusal(fd, fcntl.F_WRLCK), str(path))


def join(fd: int, path: Path, timeout: float | None) -> int:
    """Take the locks of a writer among others, and that of commits.

    The commit of another writer is waited for some seconds, however short the time.

    Parameters
    ----------
    fd : int
        Descriptor of ``.xmd``, open for writing.
    path : Path
        For the message.
    timeout : float or None
        Seconds to wait for a writer that is alone, or for a slot; None: for ever.

    Returns
    -------
    int
        The slot by which the others see that this writer lives.

    Raises
    ------
    LockedError
        A BlockingIOError: still held after `timeout` seconds.
    StorageError
        An OSError: this system cannot lock ranges for an open file.
    """
    if not _HAS_RANGES:
        raise StorageError(
            errno.ENOTSUP,
            "cannot share it with other writers: that needs open-file-description locks on ranges "
            "of bytes, which Linux has; open it without share=True",
            str(path),
        )
    end = _end(timeout)
    for _ in _attempts(end):
        if _try(fd, fcntl.F_RDLCK, _MEMBER, 1):
            break
    else:
        raise LockedError(errno.EAGAIN, _refusal(fd, fcntl.F_RDLCK), str(path))
    patience = None if end is None else max(end, time.monotonic() + _PATIENCE)
    for _ in _attempts(end):
        for _ in _attempts(patience):
            if _try(fd, fcntl.F_WRLCK, _COMMIT, 1):
                break
        else:
            raise LockedError(
                errno.EAGAIN,
                f"one of the writers{_processes(_sharers(fd))} that share it does not come to the "
                "end of a commit; wait with timeout=, end it there, or open with mode='r'",
                str(path),
            )
        for slot in range(WRITER_SLOTS):
            if _try(fd, fcntl.F_WRLCK, _SLOTS + slot, 1):
                return slot
        end_commit(fd)  # whoever is about to leave must commit
    raise LockedError(
        errno.EAGAIN,
        f"{WRITER_SLOTS} writers share it, no more are possible; wait with timeout=, close one, or "
        "open with mode='r'",
        str(path),
    )


def _end(timeout: float | None) -> float | None:
    """When a time to wait that begins now is over; None: never."""
    return None if timeout is None else time.monotonic() + timeout


def _attempts(end: float | None) -> Iterator[None]:
    """Moments to try something, now and again until the end, with naps between them."""
    nap = 0.001
    while True:
        yield
        left = nap if end is None else end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(nap, left))
        nap = min(2 * nap, _LONGEST_NAP)


def release(fd: int) -> None:
    """Drop a writer's locks, for every duplicate of the descriptor (also a forked child's).

    Parameters
    ----------
    fd : int
    """
    _try(fd, fcntl.F_UNLCK)


# -- writers that share --------------------------------------------------------------------------


def begin_commit(fd: int) -> None:
    """Wait until no other of the writers commits, and keep them from it.

    Parameters
    ----------
    fd : int
    """
    _call(fd, fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, _COMMIT, 1)


def end_commit(fd: int) -> None:
    """Let the others commit.

    Parameters
    ----------
    fd : int
    """
    _drop(fd, _COMMIT)


def is_alive(fd: int, slot: int) -> bool:
    """Whether a slot is that of another writer, who lives.

    Parameters
    ----------
    fd, slot : int

    Returns
    -------
    bool
    """
    return _obstacle(fd, fcntl.F_RDLCK, _SLOTS + slot) != fcntl.F_UNLCK


def anyone_is_alive(fd: int) -> bool:
    """Whether another writer lives.

    Parameters
    ----------
    fd : int

    Returns
    -------
    bool
    """
    return _obstacle(fd, fcntl.F_RDLCK, _SLOTS, WRITER_SLOTS) != fcntl.F_UNLCK


def begin_turn(fd: int, ticket: int) -> None:
    """Have those wait who come after a ticket.

    Parameters
    ----------
    fd, ticket : int
        The ticket was given to nobody else.
    """
    _call(fd, fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, _TURNS + ticket, 1)


def end_turn(fd: int, ticket: int) -> None:
    """Have nobody wait for a ticket any more.

    Parameters
    ----------
    fd, ticket : int
    """
    _drop(fd, _TURNS + ticket)


def has_turn(fd: int, ticket: int) -> bool:
    """Whether the holder of a ticket, another writer, lives and has not ended its turn.

    Parameters
    ----------
    fd, ticket : int

    Returns
    -------
    bool
    """
    return _obstacle(fd, fcntl.F_RDLCK, _TURNS + ticket) != fcntl.F_UNLCK


def wait_turn(fd: int, ticket: int) -> None:
    """Wait until the holder of a ticket has ended its turn, or its life.

    Parameters
    ----------
    fd, ticket : int
    """
    # Those who wait do not exclude each other, and nobody will want to write here again: nor does
    # it matter if an interrupt leaves the lock.
    _call(fd, fcntl.F_OFD_SETLKW, fcntl.F_RDLCK, _TURNS + ticket, 1)
    _drop(fd, _TURNS + ticket)


# -- elements ------------------------------------------------------------------------------------


@contextlib.contextmanager
def holding(fd: int, address: int, count: int) -> Iterator[None]:
    """Keep others from some chunks for the length of a with statement; waits for who has them.

    Parameters
    ----------
    fd : int
        Descriptor of ``.xta``, open for writing.
    address : int
        Of the first chunk.
    count : int
        Chunks that follow each other in the file.
    """
    start = _CHUNKS + address
    try:
        if _HAS_RANGES:
            _call(fd, fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, start, count)
        else:
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
        _drop(fd, start, count)
    except BaseException:
        # Also if it was interrupted when the lock was taken, or about to be dropped.
        _drop(fd, start, count)
        raise


# -- messages ------------------------------------------------------------------------------------


def note_holder(fd: int, header: Header, held: bool) -> None:
    """Leave a note in ``.xmd`` that tells who holds the lock; for messages only.

    Parameters
    ----------
    fd : int
        Descriptor of ``.xmd``, open for writing.
    header : Header
        Its own: what the file says may be damaged by now, and the place anything.
    held : bool
        False: clear the note.
    """
    note = _own_note() if held else b""
    os.pwrite(fd, note.ljust(HOLDER_BYTES, b"\0"), header.header_bytes - HOLDER_BYTES)


def _own_note() -> bytes:
    return f"{os.getpid()} {socket.gethostname()}".encode()[: HOLDER_BYTES - 1]


def _refusal(fd: int, kind: int) -> str:
    """Why a lock was not to be had, and what to do."""
    mine = _note(fd) == _own_note()
    if _HAS_RANGES and _obstacle(fd, fcntl.F_WRLCK, _MEMBER) == fcntl.F_RDLCK:
        pids = _sharers(fd)
        if mine and pids == [os.getpid()]:
            return (
                f"this process has it open already{_processes(pids)}, and shares it; close that "
                "array first, write here as well with share=True, or read with mode='r'"
            )
        subject = "another writer" if len(pids) == 1 else "other writers"
        return (
            f"{subject}{_processes(pids)} share{'s' * (len(pids) == 1)} it; close it there first; "
            "extarray.open can wait for that with timeout=, write as well with share=True, and "
            "read with mode='r'"
        )
    if mine:
        # As where a cell of a notebook runs once more.
        holder = f"this process has it open already{_holder(fd)}"
        there, close = "in both places", "close that array first"
    else:
        holder = f"another writer{_holder(fd)} has it open"
        there, close = "there", "close it there first"
    if kind == fcntl.F_RDLCK:
        return (
            f"{holder}, and does not share it; wait with timeout=, open it {there} with share=True "
            "too, or open with mode='r'"
        )
    # Also to who would replace or repair it, and cannot wait.
    return (
        f"{holder}; {close}; extarray.open can wait for that with timeout=, and read with mode='r'"
    )


def _note(fd: int) -> bytes:
    """What `note_holder` has left."""
    return os.pread(fd, HOLDER_BYTES, max(0, header_bytes_of(fd) - HOLDER_BYTES)).rstrip(b"\0")


def _holder(fd: int) -> str:
    try:
        pid, host = _note(fd).decode("ascii").split(" ", 1)
        return f" (process {int(pid)} on {host})"
    except ValueError:
        return ""


def _sharers(fd: int) -> list[int]:
    """Numbers of the processes whose writers share it."""
    table = os.pread(fd, BLOCK, header_bytes_of(fd) + WRITERS_BLOCK * BLOCK)
    try:
        _, writers = decode_writers(table)
    except FormatError:
        return []
    return sorted({writer.pid for slot, writer in enumerate(writers) if is_alive(fd, slot)})


def _processes(pids: list[int]) -> str:
    if not pids:
        return ""
    return f" (process{'es' * (len(pids) > 1)} {', '.join(map(str, pids))})"


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
    return _HAS_RANGES and _obstacle(fd, fcntl.F_WRLCK, 0, 0) != fcntl.F_UNLCK
