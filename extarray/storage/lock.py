"""The locks of writers: advisory, on the open file description of ``.xmd``.

Such a lock belongs to the open file, not to the process.  Two opens in one process exclude each
other, closing a reader's descriptor keeps the writer's lock, and the kernel drops the lock when the
writer dies.

Readers take no lock (I4).  A lone writer locks the whole file.  Writers that share it lock single
bytes far behind its end: each writer one byte, which shows the others that it lives, and during a
commit the commit byte.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import time
from numbers import Real
from typing import TYPE_CHECKING, Any

from extarray._core._file import SIEVE_BYTE
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    FormatError,
    LockedError,
    StorageError,
)
from extarray.common.hints import hint
from extarray.common.limits import limits
from extarray.common.on_error import OnError
from extarray.common.system import (
    EXCLUSIVE,
    FREE,
    GONE,
    SHARED,
    WHOLE_LOCKS_APART,
    host_name,
    is_running,
    lock_range,
    lock_whole,
    obstacle,
)
from extarray.common.waiting import attempts, end_of
from extarray.format.blocks import (
    DIRECTORY_BYTES,
    WRITER_SLOTS,
    BlockKind,
    decode_directory,
    decode_writers,
)
from extarray.format.constants import BLOCK, HOLDER_AT, HOLDER_BYTES
from extarray.format.header import decode_header, header_bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from extarray._core._file import FileCore
    from extarray.format.header import Header

__all__ = [
    "acquire",
    "anyone_is_alive",
    "begin_commit",
    "begin_elements",
    "begin_freezing",
    "begin_replacing",
    "begin_turn",
    "can_tell",
    "can_thaw",
    "check_timeout",
    "claim",
    "end_commit",
    "end_elements",
    "end_freezing",
    "end_turn",
    "has_turn",
    "holding",
    "is_alive",
    "is_held",
    "join",
    "meets_whole_locks",
    "note_holder",
    "release",
    "thawing",
    "wait_turn",
]

# Errors of a file system without locks.
_NO_LOCKS = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK}
# Most seconds that a writer needs, after taking the lock, to note its identity.
_NOTE_PATIENCE = 0.5

# Bytes that sharing writers lock.
_COMMIT = 1 << 62
_MEMBER = _COMMIT + 1
_SLOTS = _COMMIT + 2
_TURNS = _COMMIT + (1 << 32)  # one for each ticket

# Bytes of ``.xta`` that ranks lock, one for each chunk.  Not the bytes of the chunk itself: some
# MPI libraries lock those in reads and writes, and would wait for the very rank that calls them.
_CHUNKS = 1 << 62
# Bytes of ``.xta`` that whoever thaws chunks locks, one for each chunk.
_THAWS = 1 << 61
# Byte of ``.xta`` that the lone writer locks while it freezes chunks, or makes holes of them.
_FREEZES = SIEVE_BYTE - 1


def _try(file: FileCore, kind: int, start: int = 0, length: int = 0) -> bool:
    """Lock a range of bytes (length 0: from `start` on), if it is free."""
    try:
        with file as fd:
            if limits.has_range_locks:
                lock_range(fd, kind, start, length)
            else:
                # BSD and macOS: a lock on the whole file serves the same purpose.
                lock_whole(fd, kind)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _wait(file: FileCore, kind: int, start: int, length: int) -> None:
    """Lock a range of bytes, waiting until it is free."""
    with file as fd:
        lock_range(fd, kind, start, length, wait=True)


def _drop(file: FileCore, start: int, length: int = 1) -> None:
    """Unlock a range of bytes despite errors and interrupts: others wait for it."""
    try:
        _try(file, FREE, start, length)
    except OSError:
        _try(file, FREE, start, length)
    except BaseException:  # an interrupt
        _try(file, FREE, start, length)
        raise


def _obstacle(file: FileCore, kind: int, start: int, length: int = 1) -> int:
    """Return the kind of lock that keeps this file from locking bytes, or F_UNLCK."""
    with file as fd:
        return obstacle(fd, kind, start, length)


def check_timeout(timeout: Any) -> float | None:
    """Return the seconds to wait, or None; refuse anything else.

    Parameters
    ----------
    timeout : float or None
        Any real number, including NumPy's.

    Raises
    ------
    ArgumentError, ArgumentTypeError
    """
    if timeout is None:
        return None
    kind = type(timeout)
    if kind not in (int, float) and (kind is bool or not issubclass(kind, Real)):
        raise ArgumentTypeError(f"timeout must be a number of seconds or None, not {timeout!r}")
    if not timeout >= 0:
        raise ArgumentError(f"timeout must be at least 0 seconds, not {timeout!r}")
    try:
        return float(timeout)
    except OverflowError:
        return math.inf


def acquire(file: FileCore, path: Path, timeout: float | None) -> None:
    """Take the lock of a lone writer (I6), on an ``.xmd`` that is open for writing.

    Raise LockedError if it is still held after `timeout` seconds; None waits for ever.
    """
    _take(file, path, EXCLUSIVE, 0, 0, end_of(timeout))


def claim(file: FileCore, is_made: bool = False) -> bool:
    """Take the same lock on any file, until it is closed; tell whether nobody else has it.

    Return True if the file system has no locks.  For a file that `is_made` and about to take its
    name, leave out the byte of `begin_replacing`, so that others may replace the file at once.
    """
    try:
        return _try(file, EXCLUSIVE, 0, _COMMIT if is_made else 0)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return True
        raise


def join(file: FileCore, path: Path, timeout: float | None) -> int:
    """Take the locks of a sharing writer, and the commit lock; return the writer's slot.

    `timeout` applies to waiting for a lone writer or for a slot.  The commit of another writer is
    always waited for, for some seconds.  The slot shows the others that this writer lives.

    Raises
    ------
    LockedError
        Still held after `timeout` seconds.
    StorageError
        This system cannot lock ranges for an open file.
    """
    if not limits.has_range_locks:
        raise StorageError(
            errno.ENOTSUP,
            "cannot share it with other writers: this system has no open file description locks "
            "(Linux has); open it without share=True",
            str(path),
        )
    end = end_of(timeout)
    _take(file, path, SHARED, _MEMBER, 1, end)
    patience = None if end is None else max(end, time.monotonic() + limits.commit_patience)
    for _ in attempts(end):
        for _ in attempts(patience):
            if _try(file, EXCLUSIVE, _COMMIT, 1):
                break
        else:
            raise LockedError(
                errno.EAGAIN,
                f"one of the writers{_processes(_sharers(file))} that share it does not finish a "
                f"commit; {_how_to_wait()}, or stop that process{_or_read()}",
                str(path),
            )
        for slot in range(WRITER_SLOTS):
            if _try(file, EXCLUSIVE, _SLOTS + slot, 1):
                return slot
        end_commit(file)  # a leaving writer must be able to commit
    raise LockedError(
        errno.EAGAIN,
        f"{WRITER_SLOTS} writers already share it, which is the maximum; {_how_to_wait()}, or "
        f"close one{_or_read()}",
        str(path),
    )


def _take(
    file: FileCore, path: Path, kind: int, start: int, length: int, end: float | None
) -> None:
    """Take a lock that excludes other writers, waiting until it is free."""
    for _ in attempts(end):
        if _try(file, kind, start, length):
            return
    for _ in attempts(end_of(_NOTE_PATIENCE)):
        if _is_noted(file):
            break
        if _try(file, kind, start, length):
            return
    raise LockedError(errno.EAGAIN, _refusal(file, kind), str(path))


def begin_replacing(file: FileCore) -> bool:
    """Lock a file about to be replaced as a whole; return False if someone else has.

    The lock ends with the file's descriptor.  Without locks of ranges, return True at once: there
    it would conflict with another lock of the same file.
    """
    if not limits.has_range_locks:
        return True
    try:
        return _try(file, EXCLUSIVE, _COMMIT, 1)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return True
        raise


def meets_whole_locks(file: FileCore) -> bool:
    """Tell whether locks on ranges exclude those that libraries set on a whole file.

    Network file systems make locks on ranges of the others, and Windows has one kind.
    """
    return file.is_networked or not WHOLE_LOCKS_APART


def release(file: FileCore) -> None:
    """Drop a writer's locks, for all duplicates of the descriptor (even in forked children)."""
    _try(file, FREE)


# -- sharing writers -----------------------------------------------------------------------------


def begin_commit(file: FileCore) -> None:
    """Wait until no other writer commits, and exclude them."""
    _wait(file, EXCLUSIVE, _COMMIT, 1)


def end_commit(file: FileCore) -> None:
    """Let the others commit."""
    _drop(file, _COMMIT)


def is_alive(file: FileCore, slot: int) -> bool:
    """Tell whether a slot belongs to another living writer."""
    return _obstacle(file, SHARED, _SLOTS + slot) != FREE


def anyone_is_alive(file: FileCore) -> bool:
    """Tell whether another writer is alive."""
    return _obstacle(file, SHARED, _SLOTS, WRITER_SLOTS) != FREE


def begin_turn(file: FileCore, ticket: int) -> None:
    """Make holders of later tickets wait; nobody else has this ticket."""
    _wait(file, EXCLUSIVE, _TURNS + ticket, 1)


def end_turn(file: FileCore, ticket: int) -> None:
    """Let those waiting for a ticket continue."""
    _drop(file, _TURNS + ticket)


def has_turn(file: FileCore, ticket: int) -> bool:
    """Tell whether the holder of a ticket, another writer, lives and has not ended its turn."""
    return _obstacle(file, SHARED, _TURNS + ticket) != FREE


def wait_turn(file: FileCore, ticket: int) -> None:
    """Wait until the holder of a ticket has ended its turn or died."""
    # Waiters do not exclude each other, and nobody locks this byte exclusively again, so a lock
    # left by an interrupt does no harm.
    _wait(file, SHARED, _TURNS + ticket, 1)
    _drop(file, _TURNS + ticket)


# -- elements ------------------------------------------------------------------------------------


def begin_elements(file: FileCore, path: Path) -> None:
    """Share the element writers' lock on ``.xta`` until `end_elements`.

    A lone writer notices and writes only elements, too; wait for its present write.  Where the
    file system cannot lock, there is no such writer.

    Raises
    ------
    LockedError
        The lone writer is still writing after some seconds.
    """
    try:
        if limits.has_range_locks:
            # On Windows the lone writer looks for sharers by locking this byte for a moment.
            _wait(file, SHARED, SIEVE_BYTE + 1, 1)
        for _ in attempts(end_of(limits.commit_patience)):
            if limits.has_range_locks:
                if _obstacle(file, SHARED, _FREEZES, 2) == FREE:  # nor SIEVE_BYTE
                    return
            elif _try(file, SHARED):
                return
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return
        raise
    raise LockedError(
        errno.EAGAIN,
        "the writer that has it open does not finish a write; try again, or stop that process",
        str(path),
    )


def end_elements(file: FileCore) -> None:
    """Drop the lock of `begin_elements`, even if views keep the file open."""
    with contextlib.suppress(OSError):
        _try(file, FREE, SIEVE_BYTE + 1, 1)


def can_thaw(file: FileCore) -> bool:
    """Tell whether several processes may thaw chunks of the file."""
    if not limits.has_range_locks:
        return False
    try:
        _obstacle(file, SHARED, _FREEZES)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        raise
    return True


def begin_freezing(file: FileCore) -> bool:
    """Keep writers of elements from coming, until `end_freezing`; tell whether none is there."""
    if not limits.has_range_locks:  # no such process writes to frozen chunks
        return True
    try:
        is_taken = _try(file, EXCLUSIVE, _FREEZES, 1)
        return is_taken and _obstacle(file, EXCLUSIVE, SIEVE_BYTE + 1) == FREE
    except OSError as error:
        if error.errno in _NO_LOCKS:  # as above
            return True
        raise


def end_freezing(file: FileCore) -> None:
    """Let writers of elements come."""
    if limits.has_range_locks:
        with contextlib.suppress(OSError):
            _drop(file, _FREEZES)


@contextlib.contextmanager
def thawing(file: FileCore, address: int, count: int) -> Iterator[None]:
    """Keep other processes from thawing consecutive chunks of ``.xta``, waiting for them.

    Where the file system cannot lock, nobody else thaws.
    """
    if not can_thaw(file):
        yield
        return
    start = _THAWS + address
    with OnError(_drop, file, start, count):
        _wait(file, EXCLUSIVE, start, count)
        yield
        _drop(file, start, count)


@contextlib.contextmanager
def holding(file: FileCore, address: int, count: int) -> Iterator[None]:
    """Keep others from consecutive chunks of ``.xta``, waiting for their holders."""
    start = _CHUNKS + address
    with OnError(_drop, file, start, count):  # also if interrupted while locking or unlocking
        if limits.has_range_locks:
            _wait(file, EXCLUSIVE, start, count)
        else:
            with file as fd:
                lock_whole(fd, EXCLUSIVE, wait=True)
        yield
        _drop(file, start, count)


# -- messages ------------------------------------------------------------------------------------


def note_holder(file: FileCore, header: Header, held: bool, place: bytes = b"") -> None:
    """Note in ``.xmd`` who holds the lock, or clear the note; it serves messages only.

    `header` is the known one, as that in the file may be damaged by now.  The `place` that
    `Pair.place` gives, if any, follows the note.
    """
    note = _own_note() if held else b""
    file.write(note.ljust(HOLDER_BYTES, b"\0") + place, header.holder_offset)


def _own_note() -> bytes:
    return f"{os.getpid()} {host_name()}".encode()[: HOLDER_BYTES - 1]


def _how_to_wait() -> str:
    return hint("wait with timeout=", "wait, by --timeout where the command has it")


def _or_read() -> str:
    return hint(", or open with mode='r'", "")


def _refusal(file: FileCore, kind: int) -> str:
    note = _note(file)
    mine = note == _own_note()
    if _is_shared(file):
        sharers = _sharers(file)
        if [(pid, host_name().startswith(host)) for pid, host in sharers] == [(os.getpid(), True)]:
            return (
                f"this process already has it open{_processes(sharers)} for shared writing; close "
                "that array first, open it here with share=True too, or read with mode='r'"
            )
        subject = "another writer" if len(sharers) == 1 else "other writers"
        return (
            f"{subject}{_processes(sharers)} share{'s' * (len(sharers) == 1)} it; close it there "
            + hint(
                "first, or use extarray.open with timeout= to wait, share=True to write too, or "
                "mode='r' to read",
                f"first, or {_how_to_wait()}",
            )
        )
    holder = _parse_note(note)
    name = _processes([] if holder is None else [holder])
    if mine:
        # For example, a cell of a notebook was run again.
        subject = f"this process already has it open{name}"
        there, close = "in both places", "close that array first"
    else:
        subject = f"another writer{name} has it open"
        there, close = "there", "close it there first"
    if kind == SHARED:
        return (
            f"{subject}, without sharing it; {_how_to_wait()}, or open it {there} with share=True "
            f"too{_or_read()}"
        )
    # Callers that replace or repair the array, and cannot wait, give this message too.
    wait = hint("use extarray.open with timeout= to wait, or mode='r' to read", _how_to_wait())
    return f"{subject}; {close}, or {wait}"


def _is_noted(file: FileCore) -> bool:
    """Tell whether the note names a running holder: a dead one may have left its note."""
    if _is_shared(file):
        return bool(_sharers(file))
    holder = _parse_note(_note(file))
    return holder is not None and (holder[1] != host_name() or is_running(holder[0]))


def _is_shared(file: FileCore) -> bool:
    return limits.has_range_locks and _obstacle(file, EXCLUSIVE, _MEMBER) == SHARED


def _note(file: FileCore) -> bytes:
    return file.read(HOLDER_BYTES, header_bytes_of(file.read(16, 0)) + HOLDER_AT).rstrip(b"\0")


def _parse_note(note: bytes) -> tuple[int, str] | None:
    """Return the process and host of a note, or None if it is empty or malformed."""
    try:
        pid, host = note.decode().split(" ", 1)
        return (int(pid), host) if int(pid) > 0 else None
    except ValueError:
        return None


def _sharers(file: FileCore) -> list[tuple[int, str]]:
    """Return the processes and hosts of the sharing writers."""
    try:
        header = decode_header(file.read(header_bytes_of(file.read(16, 0)), 0))
        directory = file.read(DIRECTORY_BYTES, header.directory_offset)
        blocks = decode_directory(directory, header, file.length)
        if BlockKind.WRITERS not in blocks:
            return []
        _, writers = decode_writers(file.read(BLOCK, blocks[BlockKind.WRITERS]))
    except FormatError:
        return []
    alive = (writer for slot, writer in enumerate(writers) if is_alive(file, slot))
    return sorted({(writer.pid, writer.host) for writer in alive})


def _processes(found: list[tuple[int, str]]) -> str:
    """List process numbers in parentheses, grouped by host; return "" for none."""
    by_host: dict[str, list[str]] = {}
    for pid, host in found:
        by_host.setdefault(host, []).append(str(pid))
    parts = [
        f"process{'es' * (len(pids) > 1)} {', '.join(pids)} on {host}"
        for host, pids in by_host.items()
    ]
    return f" ({'; '.join(parts)})" if parts else ""


def can_tell() -> bool:
    """Tell whether the system can report locks that others hold."""
    return limits.has_range_locks


def is_held(file: FileCore) -> bool:
    """Tell whether a writer holds the lock, without taking it; False if the system cannot say."""
    try:
        return limits.has_range_locks and _obstacle(file, EXCLUSIVE, 0, 0) != FREE
    except OSError as error:
        if error.errno in GONE:
            return False
        raise
