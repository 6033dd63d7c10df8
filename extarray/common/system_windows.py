"""The calls of `extarray.common.system` on Windows.

Files are opened so that others may rename, replace and remove them.  Names change by the POSIX
rules where the file system knows them (NTFS does); elsewhere an open file is moved aside before it
is removed, and is not replaced.  A call that another program forbids for a moment, such as a
scanner that has a new file open, is made again for about a second.

Locks are mandatory here, and belong to a handle; so they never cover bytes that hold data.
"""

from __future__ import annotations

import sys

assert sys.platform == "win32"  # a type checker leaves out the rest elsewhere

import contextlib
import ctypes
import errno
import hashlib
import msvcrt
import os
import signal
import stat
import struct
import threading
from ctypes import wintypes
from functools import cache
from time import sleep
from typing import TYPE_CHECKING, Any

from extarray.common.file_names import problem_on_windows
from extarray.common.lazy import LazyModule

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable, Iterator
else:
    socket = LazyModule("socket")

__all__ = [
    "CAN_MAP",
    "EXCLUSIVE",
    "FREE",
    "FREES_FOLDERS",
    "HAS_RANGE_LOCKS",
    "MAPS_FREELY",
    "NARROW_NAMES",
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
    "write_at",
]

# -- the library ---------------------------------------------------------------------------------

_HANDLE, _DWORD, _NAME = wintypes.HANDLE, wintypes.DWORD, wintypes.LPCWSTR
_POINTER, _LARGE = ctypes.c_void_p, ctypes.c_int64
_library = ctypes.WinDLL("kernel32", use_last_error=True)


def _declare(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(_library, name)
    function.restype, function.argtypes = result, arguments
    return function


_create_file = _declare(
    "CreateFileW", _HANDLE, _NAME, _DWORD, _DWORD, _POINTER, _DWORD, _DWORD, _HANDLE
)
_close_handle = _declare("CloseHandle", wintypes.BOOL, _HANDLE)
_read_file = _declare("ReadFile", wintypes.BOOL, _HANDLE, _POINTER, _DWORD, _POINTER, _POINTER)
_write_file = _declare("WriteFile", wintypes.BOOL, _HANDLE, _POINTER, _DWORD, _POINTER, _POINTER)
_flush_file = _declare("FlushFileBuffers", wintypes.BOOL, _HANDLE)
_lock_file = _declare(
    "LockFileEx", wintypes.BOOL, _HANDLE, _DWORD, _DWORD, _DWORD, _DWORD, _POINTER
)
_unlock_file = _declare("UnlockFileEx", wintypes.BOOL, _HANDLE, _DWORD, _DWORD, _DWORD, _POINTER)
_control = _declare(
    "DeviceIoControl",
    *(wintypes.BOOL, _HANDLE, _DWORD, _POINTER, _DWORD, _POINTER, _DWORD, _POINTER, _POINTER),
)
_set_information = _declare(
    "SetFileInformationByHandle", wintypes.BOOL, _HANDLE, ctypes.c_int, _POINTER, _DWORD
)
_get_information = _declare(
    "GetFileInformationByHandleEx", wintypes.BOOL, _HANDLE, ctypes.c_int, _POINTER, _DWORD
)
_final_name = _declare(
    "GetFinalPathNameByHandleW", _DWORD, _HANDLE, wintypes.LPWSTR, _DWORD, _DWORD
)
_free_space = _declare("GetDiskFreeSpaceExW", wintypes.BOOL, _NAME, _POINTER, _POINTER, _POINTER)
_volume_information = _declare(
    "GetVolumeInformationByHandleW",
    *(wintypes.BOOL, _HANDLE, wintypes.LPWSTR, _DWORD),
    *(_POINTER, _POINTER, _POINTER, wintypes.LPWSTR, _DWORD),
)
_memory_status = _declare("GlobalMemoryStatusEx", wintypes.BOOL, _POINTER)
_open_process = _declare("OpenProcess", _HANDLE, _DWORD, wintypes.BOOL, _DWORD)
_wait_for = _declare("WaitForSingleObject", _DWORD, _HANDLE, _DWORD)

_NO_HANDLE = _POINTER(-1).value

_SHARES_ALL = 0x1 | 0x2 | 0x4  # reading, writing, deleting
_GENERIC_READ, _GENERIC_WRITE, _DELETE, _SYNCHRONIZE = 0x80000000, 0x40000000, 0x10000, 0x100000
_READ_ATTRIBUTES = 0x80
_ADD_FILE = 0x2
_OPENS_FOLDERS, _OPENS_LINKS = 0x02000000, 0x00200000  # FILE_FLAG_...
_TEMPORARY = 0x100 | 0x04000000  # FILE_ATTRIBUTE_TEMPORARY, FILE_FLAG_DELETE_ON_CLOSE

_ACCESS_DENIED, _SHARING_VIOLATION, _LOCK_VIOLATION, _IO_PENDING = 5, 32, 33, 997
_HANDLE_EOF, _INVALID_PARAMETER, _MORE_DATA, _NOT_LOCKED, _MAPPED = 38, 87, 234, 158, 1224
_MOST_CHARACTERS = 255  # of the name of a file
_WAIT_TIMEOUT, _DISK_FULL, _ALLOCATION_INFO = 258, 112, 5
# Another program has a file open for a moment.
_PASSING = {_ACCESS_DENIED, _SHARING_VIOLATION, _LOCK_VIOLATION, _MAPPED}
# Pauses, about a second together.
_PAUSES = tuple(0.001 * 2**i for i in range(10))


def _error(name: str | None = None, number: int | None = None) -> OSError:
    """Return the `OSError` of the last failure in this thread."""
    number = ctypes.get_last_error() if number is None else number
    return OSError(0, ctypes.FormatError(number).rstrip(". "), name, number)


def _patiently(action: Callable[[], None]) -> None:
    """Do something that another program may forbid for a moment."""
    for pause in _PAUSES:
        try:
            action()
        except OSError as error:
            if error.winerror not in _PASSING:
                raise
        else:
            return
        sleep(pause)
    action()


def _opened(name: str, access: int, sharing: int, creation: int, attributes: int) -> int:
    """Return a handle of a file."""
    handle = _create_file(name, access, sharing, None, creation, attributes, None)
    if handle == _NO_HANDLE:
        error = _error(name)
        if len(os.path.basename(name)) > _MOST_CHARACTERS:  # the system's own error is a vague one
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), name) from error
        raise error
    return int(handle)


def _descriptor(handle: int, flags: int) -> int:
    """Return a descriptor of a handle, which it owns."""
    try:
        fd = msvcrt.open_osfhandle(handle, flags | os.O_BINARY | os.O_NOINHERIT)
    except BaseException:
        _close_handle(handle)
        raise
    with _locks_change:
        _locks.pop(fd, None)  # of a closed file that had the number
    return fd


@contextlib.contextmanager
def _handle(name: str, access: int, attributes: int = 0) -> Iterator[int]:
    """Open a file or folder for the length of a block."""
    handle = _opened(name, access, _SHARES_ALL, 3, attributes | _OPENS_FOLDERS)
    try:
        yield handle
    finally:
        _close_handle(handle)


# -- open files ----------------------------------------------------------------------------------

#: Nothing that is opened by mistake waits for its other end.
NO_WAIT = 0
#: Opening a symbolic link is an error.
NO_FOLLOW = 1 << 30

_CREATE_NEW, _CREATE_ALWAYS, _OPEN_EXISTING, _OPEN_ALWAYS, _TRUNCATE = 1, 2, 3, 4, 5
_ACCESS = {
    os.O_RDONLY: _GENERIC_READ,
    os.O_WRONLY: _GENERIC_WRITE,
    os.O_RDWR: _GENERIC_READ | _GENERIC_WRITE,
}


def open_file(name: str, flags: int, mode: int = 0o666) -> int:
    """Open a file like `os.open`, for bytes; others may rename, replace and remove it meanwhile."""
    if flags & os.O_CREAT:
        creation = _OPEN_ALWAYS
        if flags & os.O_EXCL:
            creation = _CREATE_NEW
        elif flags & os.O_TRUNC:
            creation = _CREATE_ALWAYS
    else:
        creation = _TRUNCATE if flags & os.O_TRUNC else _OPEN_EXISTING
    attributes = 0x80 | (_OPENS_LINKS if flags & NO_FOLLOW else 0)
    access = _ACCESS[flags & (os.O_WRONLY | os.O_RDWR)]
    handle = 0

    def attempt() -> None:
        nonlocal handle
        try:
            handle = _opened(name, access, _SHARES_ALL, creation, attributes)
        except PermissionError as error:
            if error.winerror != _ACCESS_DENIED:
                raise
            _explain_refusal(name, flags)
            if not os.path.isdir(name):
                raise
            # Other systems open a folder for reading, though it has no bytes.
            handle = _opened(name, access, _SHARES_ALL, creation, attributes | _OPENS_FOLDERS)

    _patiently(attempt)
    fd = _descriptor(handle, flags & (os.O_WRONLY | os.O_RDWR))
    if flags & NO_FOLLOW and os.path.islink(name):
        os.close(fd)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return fd


def _explain_refusal(name: str, flags: int) -> None:
    """Raise the error that other systems have for what is here a refused access, if it is one."""
    about = os.lstat(name) if os.path.lexists(name) else None
    if about is None:
        return
    if stat.S_ISDIR(about.st_mode) and flags & (os.O_WRONLY | os.O_RDWR):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if flags & (os.O_WRONLY | os.O_RDWR) and not about.st_mode & stat.S_IWRITE:
        raise PermissionError(errno.EACCES, "the file is read-only", name)


def open_place(name: str, follow: bool = True) -> int:
    """Open a file or folder only to learn where it is, which needs no permission to read it."""
    attributes = _OPENS_FOLDERS | (0 if follow else _OPENS_LINKS)
    return _descriptor(_opened(name, 0, _SHARES_ALL, _OPEN_EXISTING, attributes), os.O_RDONLY)


# -- bytes at an offset --------------------------------------------------------------------------

_MOST = 1 << 30  # bytes of one call


class _Overlapped(ctypes.Structure):
    """OVERLAPPED: where in a file something is done."""

    _fields_ = (
        ("internal", _POINTER),
        ("internal_high", _POINTER),
        ("low", _DWORD),
        ("high", _DWORD),
        ("event", _HANDLE),
    )


def _at(offset: int) -> Any:
    return ctypes.byref(_Overlapped(low=offset & 0xFFFFFFFF, high=offset >> 32))


def read_at(fd: int, target: memoryview, offset: int) -> int:
    """Read bytes at an offset; return how many, 0 at the end of the file."""
    length = min(target.nbytes, _MOST)
    if not length:
        return 0
    buffer = (ctypes.c_char * length).from_buffer(target)
    done = _DWORD()
    if not _read_file(msvcrt.get_osfhandle(fd), buffer, length, ctypes.byref(done), _at(offset)):
        if ctypes.get_last_error() == _HANDLE_EOF:
            return 0
        raise _error()
    return done.value


def write_at(fd: int, data: bytes | memoryview, offset: int) -> int:
    """Write bytes at an offset; return how many."""
    piece = bytes(memoryview(data)[:_MOST])
    done = _DWORD()
    if not _write_file(
        msvcrt.get_osfhandle(fd), piece, len(piece), ctypes.byref(done), _at(offset)
    ):
        raise _error()
    return done.value


def copy_range(source: int, target: int, offset: int, length: int) -> int:
    """Raise `OSError`: the system cannot copy between open files."""
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


#: Whether the core maps files into memory: the engine "mmap".
CAN_MAP = all(
    hasattr(ctypes.WinDLL("kernelbase"), name) for name in ("VirtualAlloc2", "MapViewOfFile3")
)
#: A file that is mapped can be cut, replaced and removed like any other.
MAPS_FREELY = False
#: The system can be told to begin to write what is dirty in a file.
WRITES_BACK = False

# -- disk space ----------------------------------------------------------------------------------


def allocate(fd: int, length: int) -> None:
    """Give a file disk space for `length` bytes, where the system can."""
    asked = struct.pack("<q", length)
    is_done = _set_information(msvcrt.get_osfhandle(fd), _ALLOCATION_INFO, asked, len(asked))
    if not is_done and ctypes.get_last_error() == _DISK_FULL:
        raise _error()


def disk_bytes(about: os.stat_result, place: int | str) -> int:
    """Return the bytes that a file takes on the disk, holes left out.

    `about` is the `os.stat` of the file, and `place` its descriptor or name.
    """
    found = ctypes.create_string_buffer(24)  # FILE_STANDARD_INFO begins with AllocationSize
    try:
        if isinstance(place, int):
            is_known = _get_information(msvcrt.get_osfhandle(place), 1, found, len(found))
        else:
            with _handle(place, 0) as handle:
                is_known = _get_information(handle, 1, found, len(found))
    except OSError:
        is_known = False
    return int(struct.unpack_from("<q", found)[0]) if is_known else about.st_size


def free_bytes(place: int | str) -> int:
    """Return the bytes that this user may still write where a file, or a path, lies."""
    name = name_of_descriptor(place) if isinstance(place, int) else os.path.abspath(place)
    folder = name if os.path.isdir(name) else os.path.dirname(name)
    free = _LARGE()
    if not _free_space(folder, ctypes.byref(free), None, None):
        raise _error(folder)
    return free.value


#: Ranks of MPI can share arrays.
RUNS_MPI = False
#: Folder whose files are memory that the host's processes share, on systems that have one.
SHARED_MEMORY = ""

_QUERY_ALLOCATED_RANGES = 0x000940CF
_RANGE = struct.Struct("<qq")  # FILE_ALLOCATED_RANGE_BUFFER: start, length
_RANGES = 256


def _allocated(fd: int, offset: int, most: int) -> list[tuple[int, int]] | None:
    """Return up to `most` runs (start, stop) of a file that are no holes; None: not known."""
    asked = _RANGE.pack(offset, (1 << 63) - 1 - offset)
    found = ctypes.create_string_buffer(most * _RANGE.size)
    size = _DWORD()
    is_known = _control(
        msvcrt.get_osfhandle(fd),
        _QUERY_ALLOCATED_RANGES,
        *(asked, len(asked), found, len(found), ctypes.byref(size), None),
    )
    if not is_known and ctypes.get_last_error() != _MORE_DATA:
        return None
    return [(at, at + n) for at, n in _RANGE.iter_unpack(found.raw[: size.value])]


def next_data(fd: int, offset: int) -> int | None:
    """Return where the next bytes lie that are no hole, from an offset on; None: there are none.

    Where the system cannot tell, they lie at the offset itself.
    """
    runs = _allocated(fd, offset, 1)
    if runs is None:
        return offset if offset < os.fstat(fd).st_size else None
    return max(offset, runs[0][0]) if runs else None


def next_hole(fd: int, offset: int) -> int | None:
    """Return where the next hole or the end of the file lies; None: it is not known."""
    end = os.fstat(fd).st_size
    while offset < end:
        runs = _allocated(fd, offset, _RANGES)
        if runs is None:
            return None
        for start, stop in runs:
            if start > offset:
                return offset
            offset = max(offset, stop)
        if len(runs) < _RANGES:
            break
    return min(offset, end)


def shares_blocks(fd: int) -> bool:
    """Tell whether a file shares blocks with another; False if the file system cannot tell."""
    return False


# -- locks ---------------------------------------------------------------------------------------
# LockFileEx differs from what callers expect: a handle's own locks stand in its way, none becomes
# another, only a whole one can be dropped, and none can be looked at.  So the locks of each
# descriptor are noted here.

#: Kinds of locks.
FREE, SHARED, EXCLUSIVE = 0, 1, 2

#: Whether a lock on a range of bytes can belong to an open file.
HAS_RANGE_LOCKS = True
#: Locks on ranges and locks on whole files do not meet.
WHOLE_LOCKS_APART = False

_AT_ONCE = 0x1  # LOCKFILE_FAIL_IMMEDIATELY
_KIND = {SHARED: 0, EXCLUSIVE: 0x2}
# Lower bytes may hold data, which a lock would keep from readers.  A lock on them begins here:
# below every byte that anybody locks alone, and behind the end of every file.
_FIRST = 1 << 60
_END = (1 << 63) - 1
# Another program that looks at a lock holds it for a moment.
_LOOKS = (0.0, 0.001, 0.004)
_LONGEST_NAP = 0.01

_locks: dict[int, list[tuple[int, int, int]]] = {}  # by descriptor: start, stop, kind
_locks_change = threading.Lock()


def _place(start: int, length: int) -> tuple[int, int]:
    """Return the bytes (start, stop) that are locked for a range."""
    stop = start + length if length else _END
    return max(start, _FIRST), max(stop, _FIRST)


def _lock(fd: int, kind: int, start: int, stop: int) -> bool:
    """Lock bytes at once; tell whether nobody else has a lock that excludes it."""
    length = stop - start
    if _lock_file(
        msvcrt.get_osfhandle(fd),
        *(_KIND[kind] | _AT_ONCE, 0, length & 0xFFFFFFFF, length >> 32, _at(start)),
    ):
        return True
    if ctypes.get_last_error() in {_LOCK_VIOLATION, _IO_PENDING}:
        return False
    raise _error()


def _unlock(fd: int, start: int, stop: int) -> None:
    length = stop - start
    size = length & 0xFFFFFFFF, length >> 32
    is_done = _unlock_file(msvcrt.get_osfhandle(fd), 0, *size, _at(start))
    if not is_done and ctypes.get_last_error() != _NOT_LOCKED:
        raise _error()


def _without(start: int, stop: int, held: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Return the parts of a range that no lock of a list covers."""
    parts = []
    for low, high, _ in sorted(held):
        if start < min(low, stop):
            parts.append((start, min(low, stop)))
        start = max(start, high)
    if start < stop:
        parts.append((start, stop))
    return parts


def _change(fd: int, kind: int, start: int, stop: int) -> bool:
    """Set or drop a lock, at once; tell whether nobody else stands in its way."""
    with _locks_change:
        held = _locks.setdefault(fd, [])
        # Locks of another kind end where they meet the range; the rest of them is locked again.
        others = [lock for lock in held if lock[2] != kind and lock[0] < stop and start < lock[1]]
        for lock in others:
            _unlock(fd, *lock[:2])
            held.remove(lock)
        taken: list[tuple[int, int, int]] = []
        is_free = True
        if kind != FREE:
            same = [lock for lock in held if lock[2] == kind]
            for low, high in _without(start, stop, same):
                is_free = _lock(fd, kind, low, high)
                if not is_free:
                    break
                taken.append((low, high, kind))
        if not is_free:
            for low, high, _ in taken:
                _unlock(fd, low, high)
            taken = []
        for low, high, before in others:
            kept = [(low, high)]
            if is_free:
                kept = _without(low, high, [(start, stop, kind)])
            taken += [(a, b, before) for a, b in kept if _lock(fd, before, a, b)]
        held += taken
        if not held:
            del _locks[fd]
        return is_free


def lock_range(fd: int, kind: int, start: int, length: int, wait: bool = False) -> None:
    """Set or drop a lock on a range of bytes, which belongs to the open file.

    Parameters
    ----------
    fd : int
    kind : {FREE, SHARED, EXCLUSIVE}
    start, length : int
        The range; of length 0 it has no end.
    wait : bool
        Wait until the range is free.

    Raises
    ------
    BlockingIOError, PermissionError
        Another open file has a lock on some of the range.
    """
    place = _place(start, length)
    if place[0] == place[1]:
        return
    for pause in _LOOKS:
        sleep(pause)
        if _change(fd, kind, *place):
            return
    # Not LockFileEx without haste: meanwhile no other thread could read from the handle.
    nap = _LOOKS[-1]
    while wait:
        sleep(nap)
        if _change(fd, kind, *place):
            return
        nap = min(2 * nap, _LONGEST_NAP)
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def obstacle(fd: int, kind: int, start: int, length: int = 1) -> int:
    """Return the kind of lock that keeps this file from locking a range; FREE: none does."""
    place = _place(start, length)
    found = FREE
    for pause in _LOOKS:
        sleep(pause)
        with _locks_change:
            parts = _without(*place, _locks.get(fd, []))
            found = max((_obstacle(fd, kind, *part) for part in parts), default=FREE)
        if found == FREE:
            break
    return found


def _obstacle(fd: int, kind: int, start: int, stop: int) -> int:
    """Try to lock bytes, for a moment, and return what keeps this file from it."""
    for attempt in dict.fromkeys((kind, SHARED)):
        if _lock(fd, attempt, start, stop):
            _unlock(fd, start, stop)
            return FREE if attempt == kind else SHARED
    return EXCLUSIVE


def lock_whole(fd: int, kind: int, wait: bool = False) -> None:
    """Set or drop a lock on a file as a whole; errors are those of `lock_range`."""
    lock_range(fd, kind, 0, 0, wait)


def lock_folder(name: str, follow: bool = True, wait: bool = False) -> int:
    """Open a folder, and lock it until the descriptor is closed.

    Raises `OSError` if another has the lock.  With `wait`, wait for the other.
    """
    # Folders have no bytes to lock; but who may add files lets nobody else who may.  Making files
    # in the folder asks for no such handle.
    attributes = _OPENS_FOLDERS | (0 if follow else _OPENS_LINKS)
    access = _ADD_FILE | _SYNCHRONIZE
    nap = 0.001
    while True:
        try:
            handle = _opened(name, access, 0x1 | 0x4, _OPEN_EXISTING, attributes)
        except PermissionError as error:
            if error.winerror != _SHARING_VIOLATION:
                raise
            if not wait:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), name) from None
        else:
            return _descriptor(handle, os.O_RDONLY)
        sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP)


# -- owners and permissions ----------------------------------------------------------------------


def take_permissions(fd: int, name: str) -> None:
    """Do nothing: a new file has the rights that its folder passes on."""


def is_foreign_link(link: os.stat_result, folder: os.stat_result) -> bool:
    """Return False: only users with a special right make symbolic links here."""
    return False


# -- names ---------------------------------------------------------------------------------------

#: A folder can be renamed, and removed, while files in it are open.
FREES_FOLDERS = False

# FILE_SUPPORTS_POSIX_UNLINK_RENAME
_POSIX_NAMES = 0x400
_RENAME_INFO, _DISPOSITION_INFO = 22, 21  # FileRenameInfoEx, FileDispositionInfoEx
# FILE_RENAME_REPLACE_IF_EXISTS, ..._POSIX_SEMANTICS, ..._IGNORE_READONLY_ATTRIBUTE
_RENAMES = 0x1 | 0x2 | 0x40
# FILE_DISPOSITION_DELETE, ..._POSIX_SEMANTICS, ..._IGNORE_READONLY_ATTRIBUTE
_REMOVES = struct.pack("<I", 0x1 | 0x2 | 0x10)


def _has_posix_names(handle: int) -> bool:
    """Tell whether a file system changes the names of open files at once."""
    flags = _DWORD()
    is_known = _volume_information(handle, None, 0, None, None, ctypes.byref(flags), None, 0)
    return bool(is_known) and bool(flags.value & _POSIX_NAMES)


def problem_of_name(name: str) -> str | None:
    """Return why no file or folder can have a name, without folders; None if one can."""
    return problem_on_windows(name)


# A name of a file may have 259 characters, and that of a folder 247; temporary names add some.
_SHORT = 230


#: Encoding of names for libraries that take no others.
NARROW_NAMES: str | None = "mbcs"


def long_name(name: str) -> str:
    """Return an absolute name in the form in which it may be long."""
    if len(name) <= _SHORT or name.startswith(("\\\\?\\", "\\\\.\\")):
        return name
    return f"\\\\?\\UNC{name[1:]}" if name.startswith("\\\\") else f"\\\\?\\{name}"


def replace(name: str, other: str) -> None:
    """Rename a file or folder; a file that has the other name is replaced.

    An open file is replaced only where the file system changes the names of open files (NTFS).
    """
    # FILE_RENAME_INFO: flags, the folder's handle, the length of the name, the name.
    target = os.path.abspath(other).encode("utf-16-le", "surrogatepass")
    asked = struct.pack("<IxxxxQI", _RENAMES, 0, len(target)) + target + bytes(2)
    replaces = True

    def attempt() -> None:
        nonlocal replaces
        with _handle(name, _DELETE | _SYNCHRONIZE, _OPENS_LINKS) as handle:
            replaces = _has_posix_names(handle)
            if replaces and not os.path.isdir(name):
                if not _set_information(handle, _RENAME_INFO, asked, len(asked)):
                    raise _error(other)
                return
        os.replace(name, other)

    try:
        _patiently(attempt)
    except PermissionError as error:
        if error.winerror not in _PASSING:
            raise
        if replaces or os.path.isdir(name):
            what = "a file in it" if os.path.isdir(name) else "it or the file to replace"
            why = (
                f"; maybe {what} is open somewhere, and the system does not permit that; close it "
                "there, and try again"
            )
        else:
            why = (
                ": this file system replaces no open file, and whoever writes an array has its "
                "files open; use another name, or a disk with NTFS; if it is open elsewhere, close "
                "it there, and try again"
            )
        raise PermissionError(error.errno, f"cannot be renamed to {other!r}{why}", name) from error


def remove(name: str) -> None:
    """Remove a file, even if it is open; its name is free at once."""

    def attempt() -> None:
        with _handle(name, _DELETE | _SYNCHRONIZE, _OPENS_LINKS) as handle:
            if os.path.isdir(name) and not os.path.islink(name):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
            if _has_posix_names(handle):
                if not _set_information(handle, _DISPOSITION_INFO, _REMOVES, len(_REMOVES)):
                    raise _error(name)
                return
        # An open file keeps its name to the end, so it gets one that nobody wants.
        aside = f"{name}.{os.urandom(6).hex()}.gone"
        os.rename(name, aside)
        try:
            os.unlink(aside)
        except OSError:
            os.rename(aside, name)
            raise

    _patiently(attempt)


def rename_exclusively(name: str, other: str) -> bool:
    """Rename a file or folder, if nothing has the other name.

    Raises `FileExistsError` if something has it.
    """
    _patiently(lambda: os.rename(name, other))
    return True


def exchange(one: str, other: str) -> bool:
    """Return False: the system cannot exchange the names of two files or folders."""
    return False


def stat_name(name: str) -> os.stat_result:
    """Return what `os.stat` tells of a file or folder, even of one that is mapped for writing.

    `os.stat` does not share files that it opens; without opening them, it learns no number.
    """
    handle = _opened(name, _READ_ATTRIBUTES, _SHARES_ALL, _OPEN_EXISTING, _OPENS_FOLDERS)
    fd = _descriptor(handle, os.O_RDONLY)
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)


def is_same(one: os.stat_result, other: os.stat_result) -> bool:
    """Tell whether two results of `os.stat` are of one file."""
    # Not every volume has a number, nor tells it of a file that has got another name.
    volumes = {one.st_dev, other.st_dev}
    return one.st_ino == other.st_ino and (len(volumes) == 1 or 0 in volumes)


def link(name: str, other: str) -> None:
    """Give a file another name."""
    _patiently(lambda: os.link(name, other))


def sync_file(name: str) -> None:
    """Bring the bytes of a file to the disk."""

    def attempt() -> None:
        with _handle(name, _GENERIC_WRITE) as handle:
            if not _flush_file(handle):
                raise _error(name)

    _patiently(attempt)


def sync_folder(folder: str) -> None:
    """Bring the names in a folder to the disk, where the file system can be asked to.

    NTFS keeps names in its journal; it may still lose the last of them.
    """
    with contextlib.suppress(PermissionError), _handle(folder, _GENERIC_WRITE) as handle:
        _flush_file(handle)


def open_nameless(folder: str, mode: int) -> int | None:
    """Return None: every file has a name here."""
    return None


def name_nameless(fd: int, name: str) -> None:
    """Give a file of `open_nameless` its name; there is none."""
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), name)


def name_of_descriptor(fd: int) -> str:
    """Return a path by which this process can reopen a file."""
    handle = msvcrt.get_osfhandle(fd)
    name = ctypes.create_unicode_buffer(_final_name(handle, None, 0, 0) + 1)
    if not _final_name(handle, name, len(name), 0):
        raise _error()
    return name.value


def open_memory() -> int:
    """Return the descriptor of an empty temporary file, which is removed once it is closed."""
    import tempfile  # which imports random and shutil

    name = os.path.join(tempfile.gettempdir(), f"extarray-{os.urandom(16).hex()}.tmp")
    access = _GENERIC_READ | _GENERIC_WRITE | _DELETE
    return _descriptor(_opened(name, access, _SHARES_ALL, _CREATE_NEW, _TEMPORARY), os.O_RDWR)


# The runtime has no more descriptors.
_MOST_OPEN = 8192


def redirect_descriptors(about: os.stat_result) -> Iterator[int]:
    """Let each descriptor of a file lead to another file, a temporary one.

    Yields the other file's descriptor once, to be filled; goes on when it is asked again.
    """
    fd = open_memory()
    try:
        yield fd
        for other in range(_MOST_OPEN):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(other), about):
                    os.dup2(fd, other, inheritable=False)
    finally:
        os.close(fd)


# -- processes and the machine -------------------------------------------------------------------


def after_fork_in_child(function: Callable[[], None]) -> None:
    """Do nothing: no process forks here."""


def is_running(pid: int) -> bool:
    """Tell whether this host has a process of a number, as far as this process can see."""
    try:
        # PROCESS_QUERY_LIMITED_INFORMATION
        process = _open_process(0x1000 | _SYNCHRONIZE, False, pid)
    except ctypes.ArgumentError:  # no such number
        return False
    if not process:
        return ctypes.get_last_error() == _ACCESS_DENIED
    try:
        return bool(_wait_for(process, 0) == _WAIT_TIMEOUT)
    finally:
        _close_handle(process)


def has_parent(pid: int) -> bool:
    """Tell whether the process of a number, which has started this one, still runs.

    Another may lie between: in a virtual environment, Python starts the real Python.
    """
    return is_running(pid)


def host_name() -> str:
    """Return the name of this host."""
    return socket.gethostname()


def is_closed_pipe(error: BaseException) -> bool:
    """Tell whether an error says that nobody reads any more from the pipe of stdout."""
    if isinstance(error, BrokenPipeError):
        return True
    # The C runtime has a vague error for it.
    if not isinstance(error, OSError) or error.errno != errno.EINVAL:
        return False
    if error.winerror or error.filename is not None:
        return False
    try:
        return stat.S_ISFIFO(os.fstat(1).st_mode)
    except OSError:
        return False


@contextlib.contextmanager
def call_at_end(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> Iterator[None]:
    """Let a loop call a function when the process is asked to end: Ctrl-C, or Ctrl-Break."""

    def called(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(function)

    before = {number: signal.signal(number, called) for number in (signal.SIGINT, signal.SIGBREAK)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# KUSER_SHARED_DATA.BootId: a number that each start of the system raises, at an address that all
# processes have.
_BOOT_AT = 0x7FFE02C4


@cache
def boot_id() -> bytes:
    """Return 16 bytes that tell this run of the system from all others; zeros: it tells none."""
    import winreg

    number = ctypes.c_uint32.from_address(_BOOT_AT).value
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SOFTWARE\Microsoft\Cryptography") as key:
            machine = str(winreg.QueryValueEx(key, "MachineGuid")[0])
    except OSError:
        return bytes(16)
    if not number:
        return bytes(16)
    return hashlib.sha256(f"{machine} {number}".encode()).digest()[:16]


def physical_bytes() -> int | None:
    """Return the bytes of memory of the machine; None: not known."""
    status = ctypes.create_string_buffer(struct.pack("<I", 64), 64)  # MEMORYSTATUSEX
    if not _memory_status(status):
        return None
    return int(struct.unpack_from("<8xQ", status)[0])


def file_size_limit() -> int | None:
    """Return None: the system has no limit of a process."""
    return None


def most_open_files() -> int | None:
    """Return the most files that this process may have open; None: no limit."""
    return _MOST_OPEN
