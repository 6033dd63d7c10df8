"""What a pair of files asks of the file system: names, whole writes, space, publication."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extarray.errors import ArgumentError, ArgumentTypeError, StorageError, storage_error

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "CAN_RESERVE",
    "copy_owner",
    "datasync",
    "family",
    "file_names",
    "fill_range",
    "publish",
    "reserve_zeros",
    "resolve_path",
    "same_file",
    "sync_folder",
    "write_all",
]

_FILL_BYTES = 1 << 22

CAN_RESERVE = hasattr(os, "posix_fallocate")
datasync = getattr(os, "fdatasync", os.fsync)


def resolve_path(path: Any) -> Path:
    """Path of a pair of files, without suffix.

    Parameters
    ----------
    path : str or PathLike
        With or without a trailing ``.xmd`` or ``.xta``.

    Returns
    -------
    Path

    Examples
    --------
    >>> resolve_path("run.2024").name, resolve_path("scene.xmd").name
    ('run.2024', 'scene')
    """
    try:
        text = os.fspath(path)
    except TypeError:
        raise ArgumentTypeError(
            f"path must be a str or a path, not {type(path).__name__}"
        ) from None
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    for suffix in (".xmd", ".xta"):
        if text.endswith(suffix):
            text = text[: -len(suffix)]
            break
    if not text or text.endswith(os.sep) or "\0" in text:
        raise ArgumentError(f"path {path!r} names no file")
    return Path(text)


def file_names(path: Path) -> tuple[str, str]:
    """Names of the metadata and of the principal array.

    Parameters
    ----------
    path : Path
        Without suffix.

    Returns
    -------
    tuple of str
    """
    return f"{path}.xmd", f"{path}.xta"


@contextlib.contextmanager
def family(what: str) -> Iterator[None]:
    """Turn the system's errors into the family's.

    Parameters
    ----------
    what : str
        What was asked, and what to do.

    Raises
    ------
    StorageError
    """
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise storage_error(error, what) from error


def write_all(fd: int, data: bytes | bytearray | memoryview, offset: int) -> None:
    """Write bytes to a place in a file, all of them.

    Parameters
    ----------
    fd : int
    data : bytes-like
    offset : int

    Raises
    ------
    OSError
    """
    written = os.pwrite(fd, data, offset)
    while written < len(data):  # rare: a signal, or a disk that is nearly full
        more = os.pwrite(fd, memoryview(data)[written:], offset + written)
        if more == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        written += more


def fill_range(fd: int, fill: bytes, start: int, stop: int) -> None:
    """Write the fill value to the bytes start ... stop - 1, a whole number of elements.

    Parameters
    ----------
    fd : int
    fill : bytes
        Of one element.
    start, stop : int

    Raises
    ------
    OSError
    """
    pattern = fill * max(1, min(_FILL_BYTES, stop - start) // len(fill))
    while start < stop:
        piece = pattern[: stop - start]
        write_all(fd, piece, start)
        start += len(piece)


def publish(temporary: str, name: str, overwrite: bool) -> None:
    """Give a file its name, in one step.

    Parameters
    ----------
    temporary, name : str
    overwrite : bool
        Take the name from another file.

    Raises
    ------
    OSError
        Without `overwrite` a FileExistsError, where the name is taken.
    """
    if overwrite:
        os.replace(temporary, name)
        return
    try:
        os.link(temporary, name)
    except FileExistsError:
        raise
    except OSError:  # no hard links here
        if os.path.lexists(name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
        os.rename(temporary, name)
    else:
        os.unlink(temporary)


def reserve_zeros(fd: int, offset: int, length: int) -> None:
    """Extend a file by zero bytes that have their disk space.

    Parameters
    ----------
    fd, offset, length : int

    Raises
    ------
    OSError
    """
    if CAN_RESERVE:
        os.posix_fallocate(fd, offset, length)
    else:
        write_all(fd, bytes(length), offset)


def same_file(fd: int, name: str) -> bool:
    """Whether a name leads to an open file.

    Parameters
    ----------
    fd : int
    name : str

    Returns
    -------
    bool
    """
    try:
        return os.path.samestat(os.fstat(fd), os.stat(name))
    except OSError:
        return False


def copy_owner(source: int, target: int) -> None:
    """Give an open file the permissions of another, and as far as possible its owner and group.

    Parameters
    ----------
    source, target : int
        Descriptors.

    Raises
    ------
    OSError
    """
    there, here = os.fstat(source), os.fstat(target)
    if (there.st_uid, there.st_gid) != (here.st_uid, here.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(target, there.st_uid, there.st_gid)
    os.fchmod(target, stat.S_IMODE(there.st_mode))


def sync_folder(name: str) -> None:
    """Bring the names in the folder of a file to the disk.

    Parameters
    ----------
    name : str

    Raises
    ------
    OSError
    """
    folder = os.open(os.path.dirname(name), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
