"""Files of other formats: written beside and renamed, and read with errors of the family.

A library may write a file slowly, and stop anywhere: nobody sees the file before it takes its name.
An existing file is never changed, but copied (`successor`).  `written` protects the process if a
library cannot write a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExistsError,
    ExtArrayError,
    FormatError,
    LockedError,
    ReserveError,
    ResultError,
    StorageError,
    VariableError,
    storage_error,
)
from extarray.common.formatting import format_bytes
from extarray.common.system import (
    NO_WAIT,
    SHARED,
    copy_range,
    file_size_limit,
    free_bytes,
    lock_whole,
    read_at,
    redirect_descriptors,
    sync_file,
    write_at,
)
from extarray.storage.filesystem import File, family, replaced_name, walk_folders
from extarray.storage.lock import begin_replacing, meets_whole_locks
from extarray.storage.names import making_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray


__all__ = [
    "Claims",
    "Room",
    "Successor",
    "allowed",
    "append_range",
    "beside",
    "check_free",
    "check_shape_is",
    "file_name",
    "named_part",
    "of_library",
    "read_all",
    "successor",
    "target_name",
    "to_disk",
    "unknown_part",
    "without_lock",
    "write_all",
    "written",
]

#: Whether HDF5 files are opened for reading without its lock, which would keep writers out of those
#: that stay open.
without_lock: ContextVar[bool] = ContextVar("without_lock", default=False)
#: Errors of calls that receive an impossible offset or length.
_OF_CONTENT = (errno.EINVAL, errno.E2BIG, errno.ERANGE, errno.EOVERFLOW)
#: Arrays made from a file may take this many times its bytes, beyond ``config.max_result``: no
#: measured or computed data compresses so well.
_MOST_TIMES = 1000
#: Failures of the disk, and of the layers between it and a file.
_OF_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
#: Error numbers by the system's messages: netCDF 3 gives only these.
_NUMBERS = {os.strerror(number): number for number in errno.errorcode}
#: ERROR_LOCK_VIOLATION: HDF5 has no number of errno for it.
_LOCKED_ON_WINDOWS = "Win32 GetLastError() = 33"
_IS_OPEN = (
    "this process, or another one, has it open for writing; close it there, or give the open object"
)
#: The file system has no such call, or no locks.
_NOT_THERE = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.ENOLCK)
#: Bytes that HDF5 and netCDF write at once, or buffer.
_CACHE_BYTES = 1 << 22
#: Bytes in a file that describe an array, and each of its chunks.
_HEAD_BYTES, _ENTRY_BYTES = 1 << 16, 1 << 7


def file_name(file: Any, title: str) -> str:
    """Return the name of a file that a user gives.

    Parameters
    ----------
    file : str or PathLike
    title : str
        Title of the format.

    Raises
    ------
    ArgumentTypeError
        A TypeError: `file` is something else.
    """
    try:
        return os.fsdecode(file)
    except TypeError:
        raise ArgumentTypeError(
            f"{title}: the file must be given as a str or a path, not as a {type(file).__name__}"
        ) from None


def target_name(file: Any, title: str) -> str:
    """Return the name of a file that a user wants made, changed or replaced.

    Libraries open regular files only: opening a pipe might wait for its other end.

    Parameters
    ----------
    file : str or PathLike
    title : str
        Title of the format.

    Raises
    ------
    ArgumentTypeError
        A TypeError: `file` is something else.
    ExistsError
        A FileExistsError: it is a folder, a pipe or a device.
    AccessError
        A PermissionError: it is another user's link in a folder that is writable for all.
    """
    where = file_name(file, title)
    with family(f"{title}: cannot write '{{}}'", where):
        replaced_name(where)
    return where


@contextlib.contextmanager
def of_library(file: Any, title: str, part: str = "") -> Iterator[None]:
    """Convert a library's errors about a file into those of the family.

    Parameters
    ----------
    file : object
        The file as the user gave it.
    title : str
        Title of the format.
    part : str
        Name of the array in the file, if it is one of several.

    Raises
    ------
    FormatError
        A ValueError: the file is damaged, or of another format.
    StorageError
        An OSError from the system, such as a MissingError, or a LockedError.
    """
    which = f"{part!r} of {file!r}" if part else repr(file)
    try:
        yield
    except ExtArrayError:
        raise
    except OSError as error:
        # netCDF's own numbers, and system errors caused by numbers in the file.
        if error.errno is None or error.errno < 0 or error.errno in _OF_CONTENT:
            raise FormatError(f"{which} cannot be used as {title}: {error}") from error
        if error.errno == errno.EAGAIN or _LOCKED_ON_WINDOWS in str(error):
            raise LockedError(errno.EAGAIN, _IS_OPEN, str(file)) from error
        if error.errno in _OF_DISK:  # the user does not know the file name in the library's message
            error = OSError(error.errno, os.strerror(error.errno))
        raise storage_error(error, f"{title}: cannot use '{{}}'", file) from error
    except MemoryError as error:
        raise ReserveError(f"{which} needs more memory than available: {error}") from error
    except Warning:  # our own
        raise
    except Exception as error:
        number = _number(str(error))
        if number in _OF_DISK:
            told = OSError(number, os.strerror(number))
            raise storage_error(told, f"{title}: cannot use '{{}}'", file) from error
        raise FormatError(f"{which} cannot be used as {title}: {_words_of(error)}") from error


def _words_of(error: BaseException) -> str:
    """Return the message of an error, or of its first cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def allowed(max_result: int | str | None) -> AbstractContextManager[object]:
    """Return a context that sets ``config.max_result`` to the user's value; None: leave it."""
    if max_result is None:
        return contextlib.nullcontext()
    return config.set(max_result=max_result)


class Claims:
    """The bytes that arrays made from one file claim, compared with the bytes of the file.

    A file of a few bytes can claim arrays of any size: it may be sparse, compressed, or damaged.

    Parameters
    ----------
    file : object
        The file as the user gave it.
    """

    def __init__(self, file: Any) -> None:
        self._file, self._total = file, 0
        self._new: list[_Claim] = []  # not examined yet
        self._stored: dict[Callable[[], int | None] | None, int | None] = {}

    def add(
        self,
        nbytes: int,
        stored: Callable[[], int | None] | None = None,
        made: Callable[[], int] | None = None,
    ) -> None:
        """Add an array; refuse it if it exceeds the limit and is out of all proportion.

        Parameters
        ----------
        nbytes : int
            Bytes that the array takes, or a lower bound.
        stored : callable, optional
            Returns the bytes in files behind its elements, or None if unknown; by default those of
            the file.  Equal callables count once.
        made : callable, optional
            Returns the bytes that a sparse array takes, at some cost.

        Raises
        ------
        ResultError
            A MemoryError.
        """
        self._total += nbytes
        self._new.append(_Claim(nbytes, stored, made))
        if self._total <= config.max_result:
            return
        for new in self._new:
            if new.made is not None:
                self._total += new.made() - new.nbytes
            if new.stored not in self._stored:
                has = _bytes_of(self._file) if new.stored is None else new.stored()
                self._stored[new.stored] = has
        self._new.clear()
        known = [nbytes for nbytes in self._stored.values() if nbytes is not None]
        total = sum(known)
        if (
            len(known) < len(self._stored)
            or self._total <= config.max_result
            or self._total <= _MOST_TIMES * total
        ):
            return
        raise ResultError(
            f"{self._file!r} has only {format_bytes(total)} of data, but would become "
            f"{format_bytes(self._total)}, more than config.max_result "
            f"({format_bytes(config.max_result)}); if you trust it, allow more bytes with "
            "max_result="
        )


class _Claim(NamedTuple):
    """An array that a file claims to have: the arguments of `Claims.add`."""

    nbytes: int
    stored: Callable[[], int | None] | None
    made: Callable[[], int] | None


def _bytes_of(file: Any) -> int | None:
    """Return the bytes of a file, or of all files in a folder; None for anything else."""
    try:
        name = os.fsdecode(file)
        about = os.stat(name)
    except (TypeError, ValueError, OSError):
        return None
    if not stat.S_ISDIR(about.st_mode):
        return about.st_size
    return sum(
        os.lstat(os.path.join(folder, each)).st_size
        for folder, _, names in walk_folders(name)
        for each in names
    )


def _number(text: str) -> int:
    """Return the system error number that a library's message mentions; 0: none."""
    found = re.search(r"\berrno = (\d+)", text)
    return int(found[1]) if found else _NUMBERS.get(text, 0)


def unknown_part(file: Any, asked: Any, kind: str, there: Iterable[str]) -> VariableError:
    """Return the error for a part of a file that does not exist, or needs a name.

    Parameters
    ----------
    file : object
    asked : object
        The name; None: none was given.
    kind : str
        Kind of such parts: "a dataset".
    there : iterable of str
        Existing names.
    """
    names = list(there)
    shown = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
    has = f"the names are {shown}" if names else "it has none"
    if asked is None:
        return VariableError(f"{file!r} has more than one array; name {kind}: {has}")
    return VariableError(f"{file!r} has no {kind.partition(' ')[2]} {asked!r}; {has}")


def named_part(
    whole: Any,
    name: Any,
    file: Any,
    *,
    title: str,
    part: str,
    kind: type,
    look_up: Callable[[Any, Any], Any],
    names: Callable[[Any], Iterable[str]],
) -> Any:
    """Return a library's array by its name in an open file.

    Parameters
    ----------
    whole : object
        An open file, a group of it, or the array itself, which takes no name.
    name : str
    file : object
        The file as it was given, for messages.
    title, part : str
        The format, and the kind of array, as for `of_library` and `unknown_part`.
    kind : type
        The library's class of such arrays.
    look_up : callable
        ``look_up(whole, name)`` returns the object of a name, or None.
    names : callable
        ``names(whole)`` returns the names of all such arrays.

    Raises
    ------
    VariableError
        A KeyError: there is no such array.
    """
    if isinstance(whole, kind):
        if name is not None:
            said = f"the {part.partition(' ')[2]} {whole.name!r}"  # type: ignore[attr-defined]
            raise ArgumentError(f"give either {said}, or a file and a name")
        return whole
    if name is not None:
        with of_library(file, title):
            found = look_up(whole, name)
        if isinstance(found, kind):
            return found
    raise unknown_part(file, name, part, names(whole))


def check_shape_is(found: tuple[int, ...], old: tuple[int, ...]) -> None:
    """Refuse to change an array of a file whose shape has changed."""
    if found != old:
        raise ArgumentError(
            f"the dataset now has shape {found}, but had {old} when it was mapped or written "
            "back; map it again"
        )


def check_free(name: str, overwrite: bool) -> None:
    """Refuse an existing name before any work."""
    if not overwrite and os.path.lexists(name):
        raise ExistsError(errno.EEXIST, "it already exists; replace it with overwrite=True", name)


@contextlib.contextmanager
def beside(name: str, overwrite: bool) -> Iterator[str]:
    """Yield the name of a fresh file, which takes its own name at the end of the block.

    If the block fails, the old holder keeps the name, and nothing else is left.  The file gets the
    permissions of the one that it replaces, so the block must write into it, not replace it.

    Parameters
    ----------
    name : str
        Final name of the file.
    overwrite : bool
        Take the name from another file.

    Yields
    ------
    str
        Name of an empty file in the same folder.

    Raises
    ------
    ExistsError
        A FileExistsError: the name is taken.
    StorageError
    """
    check_free(name, overwrite)
    with contextlib.ExitStack() as stack:
        with family("cannot write '{}'", name):
            file = stack.enter_context(making_file(name, overwrite))
        yield file.name
        with family("cannot write '{}'", name):
            stack.close()


# -- files that libraries change -----------------------------------------------------------------


@dataclass(frozen=True)
class Successor:
    """A file that replaces another at the end of a block.

    Attributes
    ----------
    name : str
        Name of the file, which is empty at first.
    copy : callable
        Copies the other file into it.
    """

    name: str
    copy: Callable[[], None]


@contextlib.contextmanager
def successor(where: str, title: str, instead: str = "") -> Iterator[Successor]:
    """Make a file that replaces another in a single step, on the disk, at the block's end.

    Until then the old file stays unchanged, and others may read it.  A concurrent writer of the
    file makes this call fail, or cannot begin to write (through the locks that HDF5 uses).

    Parameters
    ----------
    where : str
        Name of the old file.
    title : str
        Title of its format.
    instead : str
        Alternative without a copy, for the error if the disk has no room for one.

    Raises
    ------
    LockedError
        A BlockingIOError: somebody writes to the file.
    StorageError
        Also if the file has changed in the meantime (ESTALE).
    """
    with _kept_from_others(where) as old, beside(where, True) as fresh:
        facts = _facts(old.stat())

        def copy() -> None:
            try:
                _copy(old, fresh)
            except OSError as error:
                what = f"{title}: cannot copy '{{}}' to change the copy"
                is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                raise storage_error(error, what + instead * is_full, where) from error

        yield Successor(fresh, copy)
        with family(f"{title}: cannot write '{{}}'", where):
            to_disk(fresh)
            if not old.is_at(where) or _facts(old.stat()) != facts:
                raise StorageError(
                    errno.ESTALE, "it was changed in the meantime; call again", where
                )


def to_disk(name: str) -> None:
    """Flush a file to disk: it must be there before it replaces another."""
    sync_file(name)


def _facts(about: os.stat_result) -> tuple[int, int]:
    return about.st_size, about.st_mtime_ns


@contextlib.contextmanager
def _kept_from_others(where: str) -> Iterator[File]:
    """Yield an open file that HDF5 lets nobody write, and no other `successor` replaces."""
    with family("cannot write '{}'", where):
        while True:
            file = File.open(where, os.O_RDWR | NO_WAIT)
            try:
                has = _shared(file) and (meets_whole_locks(file) or begin_replacing(file))
                is_there = file.is_at(where)
            except BaseException:
                file.close()
                raise
            if has and is_there:
                break
            file.close()
            if is_there:
                raise LockedError(errno.EAGAIN, _IS_OPEN, where)
    try:
        yield file
    finally:
        file.close()


def _shared(file: File) -> bool:
    """Take the lock of HDF5's readers; False: a writer has its lock."""
    if os.environ.get("HDF5_USE_FILE_LOCKING", "").upper() in ("FALSE", "0"):
        return True
    try:
        with file as fd:
            lock_whole(fd, SHARED)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
    return True


def _copy(old: File, name: str) -> None:
    """Copy a file into an empty one, without moving bytes if the file system can share them."""
    new = File.open(name, os.O_WRONLY)
    try:
        size = old.length
        with old as source, new as target:
            for low, high in old.written(size):
                while low < high:
                    try:
                        done = copy_range(source, target, low, high - low)
                    except OSError as error:
                        if error.errno in _OF_DISK:
                            raise
                        data = old.read(min(high - low, 1 << 20), low)
                        write_all(target, data, low)
                        done = len(data)
                    if not done:
                        break  # the file became shorter; the check at the end finds that
                    low += done
        new.truncate(size)
    finally:
        new.close()


class Room:
    """Disk space for a file that a library writes, allocated ahead of the library.

    HDF5 and netCDF write much of a file when they close it.  If that fails, nothing can be undone,
    and a signal ends the process sooner or later.

    Parameters
    ----------
    file : File or None
        Open for writing, and closed by `close`; None: the file is not on a disk.
    shown, title : str
        Name of the file and title of its format, for errors.
    size : callable, optional
        Returns the size of the file, including bytes that the library has not written yet.
    kept : int
        Most bytes of elements that the library keeps before it writes them.
    """

    def __init__(
        self,
        file: File | None,
        shown: str,
        title: str,
        size: Callable[[], int] | None = None,
        kept: int = _CACHE_BYTES,
    ) -> None:
        self._file, self.shown, self._title, self._size = file, shown, title, size
        self._kept = kept
        self._first = self._high = 0 if file is None else file.length
        self._told = 0

    def need(self, nbytes: int, chunks: int = 0) -> None:
        """Allocate space for the elements that come next, and for their metadata.

        Parameters
        ----------
        nbytes : int
            Most bytes of the elements; those of earlier calls are in the file, or in the library's
            buffers.
        chunks : int
            Number of chunks that get an entry.

        Raises
        ------
        StorageError
            There is no such space.
        """
        if self._file is None:
            return
        self._told += nbytes
        end = max(self._file.length, self._size() if self._size else 0) + nbytes
        end += _HEAD_BYTES + min(self._kept, self._told) + chunks * _ENTRY_BYTES
        if end > self._high:
            failure = self._take(self._high, end)
            if failure:
                raise self.error(failure)
            self._high = end

    def check(self) -> None:
        """Raise the error that more space would meet, before a library opens the file.

        A library that makes a file anew gives back space taken before.
        """
        failure = self.fails()
        if failure:
            raise self.error(failure)

    def error(self, number: int) -> StorageError:
        """Return the error of a number, for the file that cannot be written."""
        error = OSError(number, os.strerror(number))
        return storage_error(error, f"{self._title}: cannot write '{{}}'", self.shown)

    def _take(self, start: int, end: int) -> int:
        """Allocate the space of a range of the file; return the error number."""
        assert self._file is not None
        most = file_size_limit()
        if most is not None and end > most:
            return errno.EFBIG
        failure = self._file.reserve(start, end - start)
        if failure not in _NOT_THERE:
            return failure
        with self._file as fd:
            is_full = end - os.fstat(fd).st_size > free_bytes(fd)
        return errno.ENOSPC if is_full else 0

    def fails(self) -> int:
        """Return the error number that more space would meet; 0: none."""
        if self._file is None:
            return 0
        end = self._file.length
        return self._take(end, end + _HEAD_BYTES)

    def close(self) -> None:
        """Release space that the file does not need."""
        if self._file is None:
            return
        file, self._file = self._file, None
        with contextlib.suppress(OSError):
            if self._high > self._first:
                file.truncate(file.length)
        file.close()


@contextlib.contextmanager
def written(
    fresh: str,
    where: str,
    title: str,
    open_file: Callable[[], Any],
    flush: Callable[[Any], object],
    size: Callable[[Any], int] | None = None,
) -> Iterator[tuple[Any, Room]]:
    """Let a library write a private file, and close it whatever the disk does.

    Parameters
    ----------
    fresh, where : str
        Name of the file, and its final name.
    title : str
        Title of its format.
    open_file, flush, size : callable
        ``open_file()`` opens the file, ``flush(file)`` writes the library's buffers, and
        ``size(file)`` is for `Room`.

    Yields
    ------
    tuple of (object, Room)
        The library's object, and the space of the file.
    """
    with of_library(where, title):
        own = File.open(fresh, os.O_RDWR)
    room = Room(own, where, title, lambda: own.length if size is None else size(file))
    try:
        room.check()
        with of_library(where, title):
            file = open_file()
        step = "write"
        try:
            room.need(0)
            yield file, room
            with of_library(where, title):
                step = "flush"
                flush(file)
                step = "close"
                file.close()
        except BaseException as error:
            failure = room.fails() if isinstance(error, FormatError) else 0
            if step == "write":
                try:
                    flush(file)
                except Exception:  # noqa: BLE001 -- told already
                    step = "flush"
            if step != "write":  # HDF5 is still in the midst of the first attempt
                _go_on_in_memory(fresh)
            with contextlib.suppress(Exception):
                if step == "close" and hasattr(file, "_isopen"):
                    file._isopen = 0  # netCDF has released the file already
                else:
                    file.close()
            if failure:
                raise room.error(failure) from error
            raise
    finally:
        room.close()


def _go_on_in_memory(fresh: str) -> None:
    """Move a file that this process has open on a failing disk into memory.

    So a library, which may have to read the file, can close it without a crash.
    """
    with contextlib.suppress(OSError):
        about = os.stat(fresh)
        for fd in redirect_descriptors(about):
            if about.st_size <= config.max_memory:
                append_range(fresh, fd, 0, about.st_size)


def read_all(fd: int, target: NDArray[Any]) -> bool:
    """Fill an array with the first bytes of a file; tell whether there are enough."""
    view, place = memoryview(target.reshape(-1).view(np.uint8)), 0
    while place < len(view):
        done = read_at(fd, view[place:], place)
        if not done:
            return False
        place += done
    return True


def write_all(fd: int, data: bytes | memoryview, place: int) -> None:
    """Write all bytes: one call writes at most 2 GiB."""
    view = memoryview(data)
    while view:
        done = write_at(fd, view, place)
        view, place = view[done:], place + done


def append_range(where: str, fd: int, low: int, high: int) -> None:
    """Copy a byte range of a file to the end of another."""
    with open(where, "rb") as stream, open(fd, "ab", closefd=False) as target:
        stream.seek(low)
        while low < high:
            data = stream.read(min(1 << 20, high - low))
            if not data:
                raise FormatError(f"{where!r} is truncated")
            target.write(data)
            low += len(data)
