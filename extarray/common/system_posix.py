"""The calls of `extarray.common.system` on Linux, macOS and other systems of that family."""

from __future__ import annotations

import sys

assert sys.platform != "win32"  # a type checker leaves out the rest there

import contextlib
import errno
import fcntl
import os
import stat
import struct
from functools import cache
from typing import TYPE_CHECKING

from extarray.common.lazy import LazyModule

if TYPE_CHECKING:
    import asyncio
    import resource
    import signal
    from collections.abc import Callable, Iterator
else:
    resource = LazyModule("resource")
    signal = LazyModule("signal")

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

# -- flags of os.open ----------------------------------------------------------------------------

#: Opening a pipe by mistake does not wait for its other end.
NO_WAIT = os.O_NONBLOCK
#: Opening a symbolic link is an error.
NO_FOLLOW = os.O_NOFOLLOW


def open_file(name: str, flags: int, mode: int = 0o666) -> int:
    """Open a file like `os.open`, for bytes; others may rename, replace and remove it meanwhile."""
    return os.open(name, flags, mode)


def open_place(name: str, follow: bool = True) -> int:
    """Open a file or folder only to learn where it is, which needs no permission to read it."""
    return os.open(name, getattr(os, "O_PATH", os.O_RDONLY) | (0 if follow else NO_FOLLOW))


# -- bytes at an offset --------------------------------------------------------------------------


def read_at(fd: int, target: memoryview, offset: int) -> int:
    """Read bytes at an offset; return how many, 0 at the end of the file."""
    return os.preadv(fd, [target], offset)


def write_at(fd: int, data: bytes | memoryview, offset: int) -> int:
    """Write bytes at an offset; return how many."""
    return os.pwrite(fd, data, offset)


def copy_range(source: int, target: int, offset: int, length: int) -> int:
    """Copy bytes to the same offset of another file; return how many.

    Some file systems let both files share them.  Raises `OSError` where the system cannot copy.
    """
    if not hasattr(os, "copy_file_range"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return os.copy_file_range(source, target, length, offset, offset)


#: Whether the core maps files into memory: the engine "mmap".
CAN_MAP = True
#: A file that is mapped can be cut, replaced and removed like any other.
MAPS_FREELY = True
#: The system can be told to begin to write what is dirty in a file.
WRITES_BACK = sys.platform == "linux"

# -- disk space ----------------------------------------------------------------------------------

# The command of macOS that allocates space behind the end of a file, and its struct fstore with
# F_ALLOCATEALL and F_PEOFPOSMODE: all or nothing, a number of bytes.
_PREALLOCATE, _FSTORE = 42, struct.Struct("=Iiqqq")


def allocate(fd: int, length: int) -> None:
    """Lengthen an empty file to `length` bytes that have their disk space, where the system can."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, length)
    elif sys.platform == "darwin":
        with contextlib.suppress(OSError):  # what is written finds out
            fcntl.fcntl(fd, _PREALLOCATE, _FSTORE.pack(4, 3, 0, length, 0))
            os.ftruncate(fd, length)


def disk_bytes(about: os.stat_result, place: int | str) -> int:
    """Return the bytes that a file takes on the disk, holes left out.

    `about` is the `os.stat` of the file, and `place` its descriptor or name.
    """
    return 512 * about.st_blocks


def free_bytes(place: int | str) -> int:
    """Return the bytes that this user may still write where a file, or a path, lies."""
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


#: Ranks of MPI can share arrays.
RUNS_MPI = True
#: Folder whose files are memory that the host's processes share, on systems that have one.
SHARED_MEMORY = "/dev/shm"


def next_data(fd: int, offset: int) -> int | None:
    """Return where the next bytes lie that are no hole, from an offset on; None: there are none.

    Where the system cannot tell, they lie at the offset itself.
    """
    try:
        return os.lseek(fd, offset, os.SEEK_DATA)
    except OSError as error:
        return None if error.errno == errno.ENXIO else offset


def next_hole(fd: int, offset: int) -> int | None:
    """Return where the next hole or the end of the file lies; None: it is not known."""
    try:
        return os.lseek(fd, offset, os.SEEK_HOLE)
    except OSError:
        return None


# ioctl_fiemap(2): the request and one extent, and flags of an extent.
_FIEMAP = 0xC020660B
_REQUEST = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=Q8xQ16xI12x")
_EXTENTS = 256
_IS_LAST, _IS_SHARED = 0x1, 0x2000


def shares_blocks(fd: int) -> bool:
    """Tell whether a file shares blocks with another; False if the file system cannot tell."""
    start = 0
    while True:
        request = bytearray(_REQUEST.size + _EXTENTS * _EXTENT.size)
        _REQUEST.pack_into(request, 0, start, 2**64 - 1 - start, 0, 0, _EXTENTS, 0)
        try:
            fcntl.ioctl(fd, _FIEMAP, request)
        except OSError:
            return False
        found = _REQUEST.unpack_from(request)[3]
        stop = _REQUEST.size + found * _EXTENT.size
        extents = list(_EXTENT.iter_unpack(request[_REQUEST.size : stop]))
        if any(flags & _IS_SHARED for _, _, flags in extents):
            return True
        if not extents or extents[-1][2] & _IS_LAST:
            return False
        start = extents[-1][0] + extents[-1][1]


# -- locks ---------------------------------------------------------------------------------------

#: Kinds of locks.
FREE, SHARED, EXCLUSIVE = fcntl.F_UNLCK, fcntl.F_RDLCK, fcntl.F_WRLCK

#: Whether a lock on a range of bytes can belong to an open file.  macOS has such locks as well, but
#: its struct flock differs.
HAS_RANGE_LOCKS = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")
#: Locks on ranges and locks on whole files do not meet, on file systems of this host.
WHOLE_LOCKS_APART = True

_FLOCK = "hhqqi4x"  # struct flock on 64-bit systems: type, whence, start, length, pid
_WHOLE = {FREE: fcntl.LOCK_UN, SHARED: fcntl.LOCK_SH, EXCLUSIVE: fcntl.LOCK_EX}


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
    command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
    fcntl.fcntl(fd, command, struct.pack(_FLOCK, kind, os.SEEK_SET, start, length, 0))


def obstacle(fd: int, kind: int, start: int, length: int = 1) -> int:
    """Return the kind of lock that keeps this file from locking a range; FREE: none does."""
    asked = struct.pack(_FLOCK, kind, os.SEEK_SET, start, length, 0)
    found: int = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))[0]
    return found


def lock_whole(fd: int, kind: int, wait: bool = False) -> None:
    """Set or drop a lock on a file or folder as a whole; other errors are those of `lock_range`."""
    fcntl.flock(fd, _WHOLE[kind] | (0 if wait else fcntl.LOCK_NB))


def lock_folder(name: str, follow: bool = True, wait: bool = False) -> int:
    """Open a folder, and lock it until the descriptor is closed.

    Raises `OSError` if another has the lock, or the file system knows none.  With `wait`, wait for
    the other, and only open the folder where the file system knows none.
    """
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | (0 if follow else NO_FOLLOW))
    try:
        lock_whole(fd, EXCLUSIVE, wait)
    except BaseException as error:
        if not (wait and isinstance(error, OSError)):
            os.close(fd)
            raise
    return fd


# -- owners and permissions ----------------------------------------------------------------------

_ACCESS_LISTS = ("system.posix_acl_access", "system.posix_acl_default")
# The system's other attributes, such as signatures, would be wrong for other bytes.
_SYSTEM_ATTRIBUTES = (*_ACCESS_LISTS, "security.selinux")


def take_permissions(fd: int, name: str) -> None:
    """Give an open file or folder the mode, owner, group and extended attributes of another.

    Access lists are extended attributes.  Where the system refuses the group, the file's own group
    may do no more than everybody.
    """
    old, new = os.stat(name), os.fstat(fd)
    mode = stat.S_IMODE(old.st_mode)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(fd, -1, old.st_gid)
        with contextlib.suppress(OSError):
            os.fchown(fd, old.st_uid, -1)
        if os.fstat(fd).st_gid != old.st_gid:
            mode &= ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
    _take_attributes(fd, name)
    os.fchmod(fd, mode)


def _take_attributes(fd: int, name: str) -> None:
    """Copy the extended attributes that may be copied, where the system has such."""
    if not hasattr(os, "listxattr"):
        return
    kept: list[str] = []
    with contextlib.suppress(OSError):
        kept = [k for k in os.listxattr(name) if k.startswith("user.") or k in _SYSTEM_ATTRIBUTES]
    for key in kept:
        with contextlib.suppress(OSError):
            os.setxattr(fd, key, os.getxattr(name, key))
    for key in {*_ACCESS_LISTS} - {*kept}:  # a new file may have one from its folder
        with contextlib.suppress(OSError):
            os.removexattr(fd, key)


def is_foreign_link(link: os.stat_result, folder: os.stat_result) -> bool:
    """Tell whether a symbolic link belongs to another user, in a folder that all may write to.

    Linux follows no such link either (``protected_symlinks``).
    """
    is_shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
    return bool(is_shared) and link.st_uid not in (os.geteuid(), folder.st_uid)


# -- names ---------------------------------------------------------------------------------------

#: A folder can be renamed, and removed, while files in it are open.
FREES_FOLDERS = True

# Flags of renameat2(2), and of macOS' call.
_AT_FDCWD, _NO_REPLACE, _EXCHANGE = -100, 1, 2
_MACOS_FLAGS = {_NO_REPLACE: 4, _EXCHANGE: 2}
_HAS_NO_SUCH_CALL = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP}


def rename_exclusively(name: str, other: str) -> bool:
    """Rename a file or folder, if nothing has the other name; False where the system cannot.

    Raises `FileExistsError` if something has it.
    """
    return _rename(name, other, _NO_REPLACE)


def exchange(one: str, other: str) -> bool:
    """Exchange the names of two files or folders, in one step; False where the system cannot."""
    return _rename(one, other, _EXCHANGE)


def _rename(name: str, other: str, how: int) -> bool:
    call = _rename_call()
    if call is None:
        return False
    number = call(os.fsencode(name), os.fsencode(other), how)
    if number in _HAS_NO_SUCH_CALL:
        return False
    if number:
        raise OSError(number, os.strerror(number), other)
    return True


@cache
def _rename_call() -> Callable[[bytes, bytes, int], int] | None:
    """Return a function that renames by a flag and returns an errno; None: the system has none."""
    import ctypes  # NumPy has loaded it

    library = ctypes.CDLL(None, use_errno=True)
    linux, macos = (getattr(library, call, None) for call in ("renameat2", "renamex_np"))
    if linux is not None:
        return lambda name, other, how: (
            ctypes.get_errno() if linux(_AT_FDCWD, name, _AT_FDCWD, other, how) else 0
        )
    if macos is not None:
        return lambda name, other, how: (
            ctypes.get_errno() if macos(name, other, _MACOS_FLAGS[how]) else 0
        )
    return None


def problem_of_name(name: str) -> str | None:
    """Return why no file or folder can have a name, without folders; None if one can."""
    return None


#: Encoding of names for libraries that take no others; None: they take all names.
NARROW_NAMES: str | None = None


def long_name(name: str) -> str:
    """Return an absolute name in the form in which it may be long."""
    return name


def replace(name: str, other: str) -> None:
    """Rename a file or folder; a file that has the other name is replaced, even if it is open."""
    os.replace(name, other)


def remove(name: str) -> None:
    """Remove a file, even if it is open; its name is free at once."""
    os.unlink(name)


#: Return what `os.stat` tells of a file or folder, even of one that is mapped.
stat_name = os.stat
#: Tell whether two results of `os.stat` are of one file.
is_same = os.path.samestat


def link(name: str, other: str) -> None:
    """Give a file, or a symbolic link itself, another name."""
    os.link(name, other, follow_symlinks=False)


def sync_file(name: str) -> None:
    """Bring the bytes of a file to the disk."""
    fd = os.open(name, os.O_RDONLY)
    try:
        _sync(fd)
    finally:
        os.close(fd)


def _sync(fd: int) -> None:
    """Bring an open file or folder to the disk; see `xa_datasync` in ``_core/_system_posix.h``."""
    command = getattr(fcntl, "F_FULLFSYNC", None)
    if command is not None:
        try:
            fcntl.fcntl(fd, command)
            return
        except OSError as error:
            if error.errno not in _HAS_NO_SUCH_CALL | {errno.ENOTTY}:
                raise
    os.fsync(fd)


def sync_folder(folder: str) -> None:
    """Bring the names in a folder to the disk, where the file system can be asked to."""
    try:
        fd = os.open(folder, os.O_RDONLY)
    except PermissionError:  # writable, but not readable
        os.sync()
        return
    try:
        _sync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(fd)


def open_nameless(folder: str, mode: int) -> int | None:
    """Make a file without a name, which `name_nameless` gives it; None: not possible here."""
    temporary = getattr(os, "O_TMPFILE", 0)
    if temporary and os.path.isdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            return os.open(folder, temporary | os.O_RDWR, mode)
    return None


def name_nameless(fd: int, name: str) -> None:
    """Give a file of `open_nameless` its name."""
    # Python follows the link in /proc only if `src_dir_fd` is given; an absolute path ignores it.
    os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=fd, follow_symlinks=True)


def name_of_descriptor(fd: int) -> str:
    """Return a path by which this process can reopen a file, even a nameless one."""
    return f"/dev/fd/{fd}"


def open_memory() -> int:
    """Return the descriptor of an empty file in memory, or else of a temporary one without name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("extarray")
    import tempfile  # which imports random and shutil

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def redirect_descriptors(about: os.stat_result) -> Iterator[int]:
    """Let each descriptor of a file lead to another file, in memory or else a temporary one.

    Yields the other file's descriptor once, to be filled; goes on when it is asked again.
    """
    fd = open_memory()
    try:
        yield fd
        for name in os.listdir("/dev/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(int(name)), about):
                    os.dup2(fd, int(name), inheritable=False)
    finally:
        os.close(fd)


# -- processes and the machine -------------------------------------------------------------------


def after_fork_in_child(function: Callable[[], None]) -> None:
    """Call a function in each forked child."""
    os.register_at_fork(after_in_child=function)


def is_running(pid: int) -> bool:
    """Tell whether this host has a process of a number, as far as this process can see."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        pass
    return True


def has_parent(pid: int) -> bool:
    """Tell whether the process of a number, which has started this one, still runs."""
    return os.getppid() == pid


def host_name() -> str:
    """Return the name of this host, as `socket.gethostname` does, which takes longer to import."""
    return os.uname().nodename


def is_closed_pipe(error: BaseException) -> bool:
    """Tell whether an error says that nobody reads any more from the pipe of stdout."""
    return isinstance(error, BrokenPipeError)


@contextlib.contextmanager
def call_at_end(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> Iterator[None]:
    """Let a loop call a function when the process is asked to end: Ctrl-C, or SIGTERM."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, function)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@cache
def boot_id() -> bytes:
    """Return 16 bytes that tell this run of the system from all others; zeros: it tells none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            digits = file.read().decode().strip().replace("-", "")
        return bytes.fromhex(digits)[:16].ljust(16, b"\0")
    except (OSError, ValueError):
        return bytes(16)


def physical_bytes() -> int | None:
    """Return the bytes of memory of the machine; None: not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None


def file_size_limit() -> int | None:
    """Return the most bytes that a file of this process may have (ulimit -f); None: no limit."""
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return None if most == resource.RLIM_INFINITY else most


def most_open_files() -> int | None:
    """Return the most files that this process may have open (ulimit -n); None: no limit."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if most == resource.RLIM_INFINITY else most
