"""The file system beneath a pair of files: names, whole writes, space, publication, engine."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extarray._core._file import HAS_BARRIER, UNSUPPORTED, FileCore, file_system_of
from extarray._core._mapping import write_views
from extarray.common import system
from extarray.common.arguments import check_choice
from extarray.common.choices import ENGINES
from extarray.common.config import config
from extarray.common.errors import (
    AccessError,
    ArgumentError,
    ArgumentTypeError,
    ExistsError,
    ReadOnlyError,
    StaleWarning,
    StorageError,
    storage_error,
)
from extarray.common.lazy import LazyImports, LazyModule
from extarray.common.on_error import OnError
from extarray.common.system import FUSE, NETWORKED
from extarray.format.suffixes import PAIR, file_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self

    from extarray.storage import clearing
else:
    clearing = LazyModule("extarray.storage.clearing")

__all__ = [
    "File",
    "absolute_names",
    "choose_engine",
    "close_all",
    "create_beside",
    "family",
    "followed_name",
    "fresh_name",
    "has_files",
    "holes_take_space",
    "is_folder",
    "is_fuse",
    "leaves_holes",
    "link",
    "publish",
    "random_name",
    "real_name",
    "replaced_name",
    "resolve_path",
    "shares_blocks",
    "sync_folders",
    "take_after",
    "walk_folders",
]

_later = LazyImports(
    {
        "bisect": "bisect_right",
        "extarray.common.threads": "run_in_shares",
    }
)

_FILL_BYTES = 1 << 22
# A scheme of one letter would be a drive.
_IS_ADDRESS = r"[A-Za-z][A-Za-z0-9+.-]+(://|::(?=.*://))"

# Every write moves the block here, so a store to reserved space can still find the disk full:
# a SIGBUS through a mapping.  Writes to reserved space are also not compressed, unlike the rest of
# the file.
_COPY_ON_WRITE = {0x9123683E: "Btrfs", 0x2FC12FC1: "ZFS", 0xCA451A4E: "bcachefs"}

# New data may be reported as a hole: with FUSE while only a cache has them (that of the system, or
# of a client such as GlusterFS's, whose seeks overtake its writes), with some versions of ZFS for a
# moment.
_HIDES_DATA = {FUSE, 0x2FC12FC1}

# XFS moves blocks that a file shares with its copies, and only those.
_XFS = 0x58465342

# The limit of Linux.
_MOST_LINKS = 40
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

# Pages of memory are the space there: a load from a hole allocates one.
_IN_MEMORY = {0x01021994: "tmpfs", 0x858458F6: "ramfs"}

_LONG = 2**64 - 1


class File(FileCore):
    """An open file of a pair; `FileCore` tells who may use it, and how long."""

    __slots__ = ()

    @classmethod
    def open(cls, name: str, flags: int, mode: int = 0o666, start: int = 0, size: int = -1) -> Self:
        """Open a file like `os.open`; for reading also a part of it (`size` -1: to the end).

        Others may rename, replace and remove the file meanwhile, on every system.
        """
        return cls(system.open_file(name, flags, mode), name, start, size)

    def stat(self) -> os.stat_result:
        """Return the result of `os.fstat`."""
        with self as fd:
            return os.fstat(fd)

    def datasync(self) -> None:
        """Bring the bytes to the disk, also those stored through mappings of this process."""
        if not system.MAPS_FREELY:
            with self as fd:
                failure = write_views(fd)
            if failure:
                raise OSError(failure, os.strerror(failure))
        super().datasync()

    def cut(self, length: int) -> bool:
        """Cut the file; where somebody has it mapped and keeps it long, zero the rest instead.

        Return whether it was cut.
        """
        try:
            self.truncate(length)
        except OSError as error:
            if system.MAPS_FREELY or error.errno != errno.EBUSY:
                raise
            self.erase(length, self.length)
            return False
        return True

    def sync_before(self, then: File) -> None:
        """Bring the bytes to the disk before what is written to a file, perhaps this one, later.

        They need not be there on return: they are once `then` is synchronized.
        """
        if HAS_BARRIER and (then is self or then.stat().st_dev == self.stat().st_dev):
            self.barrier()
        else:
            self.datasync()

    def disk_bytes(self) -> int:
        """Return the bytes that the file takes on the disk, holes left out."""
        with self as fd:
            return system.disk_bytes(os.fstat(fd), fd)

    def identity(self) -> tuple[int, int, int]:
        """Return device, number and generation, which no copy of the file shares.

        The system may reuse the number of a deleted file with another generation; the generation
        is 0 if the file system does not tell it.
        """
        about = self.stat()
        return about.st_dev & _LONG, about.st_ino & _LONG, self.generation & _LONG

    def is_same(self, other: File) -> bool:
        """Tell whether another file is this one, or a part of it."""
        return system.is_same(self.stat(), other.stat())

    def is_at(self, name: str) -> bool:
        """Tell whether a name leads to this file."""
        try:
            return system.is_same(self.stat(), system.stat_name(name))
        except OSError:
            return False

    def extend(self, offset: int, length: int) -> None:
        """Extend the file by zeros that have disk space."""
        failure = self.lengthen(offset, length)
        if failure == UNSUPPORTED:
            self.fill(b"\0", offset, offset + length)
        elif failure:
            raise OSError(failure, os.strerror(failure))

    def fill(self, pattern: bytes, start: int, stop: int) -> None:
        """Repeat a pattern over the bytes start ... stop - 1, a whole number of patterns.

        Threads share a long range if the file system lets them write at the same time.
        """
        piece = pattern * max(1, min(_FILL_BYTES, stop - start) // len(pattern))

        def write(low: int, high: int) -> None:
            for at in range(low, high, len(piece)):
                self.write(memoryview(piece)[: high - at], at)

        _later.run_in_shares(write, start, stop, len(pattern))

    def punch(self, offset: int, length: int) -> int:
        """Turn the pages inside a range into a hole, if the file system is known to do that.

        Return 0, or an errno; UNSUPPORTED if it is not known.
        """
        if not clearing.clears(self, FileCore.punch, random_name):
            return UNSUPPORTED
        return super().punch(offset, length)

    def zero(self, offset: int, length: int) -> int:
        """Zero a range, which keeps its disk space, without writing to it; see `punch`."""
        if not clearing.clears(self, FileCore.zero, random_name):
            return UNSUPPORTED
        return super().zero(offset, length)

    def written(self, stop: int) -> Iterator[tuple[int, int]]:
        """Yield runs (start, stop) of bytes before `stop` that together cover all but holes."""
        if not self.tells_holes:
            yield from [(0, stop)] if stop > 0 else []
            return
        with self as fd:
            at = 0
            while (start := _data(fd, self.start + at) - self.start) < stop:
                hole = _hole(fd, self.start + start) - self.start
                at = min(stop, max(start + 1, hole))
                yield start, at

    @property
    def tells_holes(self) -> bool:
        """True if the file system reports holes reliably."""
        return self.file_system not in _HIDES_DATA

    def has_holes(self) -> bool:
        """Tell whether the file may have holes that `all_holes` finds."""
        with self as fd:
            about = os.fstat(fd)
            takes_less = system.disk_bytes(about, fd) < about.st_size
        return takes_less and self.tells_holes

    def all_holes(self, starts: Sequence[int], stops: Sequence[int]) -> bool:
        """Tell whether all runs of bytes, in rising order, are holes; the file `has_holes`."""
        with self as fd:
            i = 0
            while i < len(starts):
                at = _data(fd, self.start + starts[i]) - self.start
                i = _later.bisect_right(stops, at, i)
                if i < len(starts) and starts[i] <= at:
                    return False
        return True

    def first_hole(self) -> int:
        """Return the offset of the first hole, or of the end of the file."""
        with self as fd:
            return _hole(fd, 0)

    def erase(self, start: int, stop: int) -> None:
        """Write zeros to the bytes start ... stop - 1, except to holes and existing zeros.

        Where holes are not told, read all: a hole may be data that the system has not passed on.
        """
        tells_holes = self.tells_holes
        with self as fd:
            while (start := _data(fd, start) if tells_holes else start) < stop:
                hole = _hole(fd, start) if tells_holes else stop
                end = min(stop, start + _FILL_BYTES, max(start + 1, hole))
                piece = self.read(end - start, start)
                if piece.count(0) != len(piece):
                    self.write(bytes(len(piece)), start)
                start = end


def _data(fd: int, offset: int) -> int:
    """Return the offset of the next data, or an offset beyond any file."""
    found = system.next_data(fd, offset)
    return sys.maxsize if found is None else found


def _hole(fd: int, offset: int) -> int:
    """Return the offset of the next hole, or an offset beyond any file."""
    found = system.next_hole(fd, offset)
    return sys.maxsize if found is None else found


def close_all(*files: FileCore) -> None:
    """Close all files; raise the first error afterwards."""
    failure = None
    for file in files:
        try:
            file.close()
        except BaseException as error:  # noqa: BLE001 -- raised when all are closed
            failure = failure or error
    if failure is not None:
        raise failure


def resolve_path(path: Any) -> Path:
    """Return the path of a pair of files, without suffix.

    Parameters
    ----------
    path : str or PathLike
        With or without a trailing ``.xmd`` or ``.xta``.

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
    if "://" in text and (address := re.match(_IS_ADDRESS, text)):  # whose rest may be secret
        raise ReadOnlyError(
            f"the path is a URL ({address[0]}...), and arrays there can only be "
            "opened for reading: write to a file, and upload it"
        )
    if text.endswith(PAIR):
        text = text[:-4]
        if text.endswith(PAIR):  # a.path would lead elsewhere
            raise ArgumentError(f"path {path!r} has two suffixes; leave them out")
    name = os.path.basename(text)
    if name in ("", os.curdir, os.pardir) or "\0" in text:
        raise ArgumentError(f"path {path!r} does not name a file")
    if problem := system.problem_of_name(name):
        raise ArgumentError(f"path {path!r} cannot name an array: {problem}")
    if not text.isascii():
        try:
            os.fsencode(text)
        except UnicodeEncodeError as error:
            raise ArgumentError(f"path {path!r} does not name a file: {error}") from None
    return Path(text)


def absolute_names(path: Path) -> tuple[str, str]:
    """Return absolute names of metadata and principal array.

    Raise MissingError if the path is relative to a deleted working folder.
    """
    with family("no folder for '{}'", path):
        stem = system.long_name(os.path.abspath(path))
    return file_names(stem)


def has_files(path: str | Path) -> bool:
    """Tell whether a file of a pair, or a link with its name, is there; path without suffix."""
    return any(map(os.path.lexists, file_names(path)))


def walk_folders(
    folder: str | Path, onerror: Callable[[OSError], object] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield folders with the names of their folders and files, like `os.walk`.

    Any depth is possible, even with links that lead to themselves; links are not followed.  The
    caller may remove folders from the list to skip them.
    """
    left = [os.fspath(folder)]
    while left:
        where = left.pop()
        folders: list[str] = []
        files: list[str] = []
        try:
            with os.scandir(where) as entries:
                for entry in entries:
                    (folders if is_folder(entry) else files).append(entry.name)
        except OSError as error:
            if onerror is not None:
                onerror(error)
            continue
        yield where, folders, files
        inner = [os.path.join(where, name) for name in reversed(folders)]
        left += [name for name in inner if not os.path.islink(name)]


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a folder or leads to one; a link to itself leads nowhere."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def real_name(name: str) -> str:
    """Return the target of a symbolic link; any other name unchanged."""
    return os.path.realpath(name) if os.path.islink(name) else name


def fresh_name(name: str, uuid: bytes) -> str:
    """Return the temporary name of a file of a pair, for a name that `real_name` gives."""
    return f"{name}.{uuid.hex()[:12]}.new"


def random_name(name: str) -> str:
    """Return a unique temporary name for a file or folder."""
    return fresh_name(name, os.urandom(6))


def followed_name(name: str) -> str:
    """Return the end of a chain of symbolic links, where something is to be put.

    Raises
    ------
    AccessError
        The link belongs to another user, in a folder that all may write to.  Such links are not
        followed, as under the system's ``protected_symlinks``.
    """
    asked = name
    for _ in range(_MOST_LINKS):
        try:
            about = os.lstat(name)
        except FileNotFoundError:
            break
        if not stat.S_ISLNK(about.st_mode):
            break
        folder = os.path.dirname(name) or os.curdir
        if system.is_foreign_link(about, os.stat(folder)):
            what = "it is a link of another user in a world-writable folder"
            raise AccessError(errno.EACCES, f"{what}, and is not followed; remove the link", asked)
        name = os.path.join(os.path.realpath(folder), os.readlink(name))
    else:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), asked)
    return name if name == asked else os.path.realpath(name)


def replaced_name(name: str) -> str:
    """Return the name of the regular file to replace or make, following symbolic links.

    Raises
    ------
    ExistsError
        Something other than a regular file has the name, and no file replaces that.
    AccessError
        The link is not followed; see `followed_name`.
    """
    real = followed_name(name)
    with contextlib.suppress(FileNotFoundError):
        mode = os.lstat(real).st_mode
        if not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "not a regular file")
            number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EEXIST
            raise ExistsError(number, f"it is {kind}, which a file cannot replace", name)
    return real


def create_beside(fresh: str, name: str, like: str | None = None) -> File:
    """Make the file `fresh`, with the permissions of the file whose name it will take.

    `like` names another model; see `take_after`.  Nobody else may read the file before that.
    Errors name the final name, or the missing folder, since the user knows only those.
    """
    like = name if like is None else like
    mode = 0o666
    with contextlib.suppress(OSError):
        mode = os.stat(like).st_mode & stat.S_IRWXU
    try:
        file = File.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    except FileNotFoundError as error:
        if os.path.isdir(os.path.dirname(fresh)):
            error.strerror = "cannot create files in this folder"
        else:
            error.strerror = "no such folder; create it first"
        error.filename = os.path.dirname(name) or os.curdir
        raise
    except OSError as error:
        error.filename = name
        raise
    with OnError(_discard, file, fresh):
        take_after(file, like)
    return file


def _discard(file: File, name: str) -> None:
    """Close and remove a file that nobody else knows."""
    with contextlib.suppress(OSError):
        system.remove(name)
    file.close()


def take_after(file: File, name: str) -> None:
    """Give a file or folder the mode, owner, group and extended attributes of another, if any.

    See `extarray.common.system.take_permissions`.
    """
    if os.path.exists(name):
        with file as fd:
            system.take_permissions(fd, name)


class family:  # noqa: N801 -- used like a function in with statements
    """A block in which the system's errors become the family's.

    `what` says what was asked, and what to do; the path replaces ``{}``.
    """

    __slots__ = ("_path", "_what")

    def __init__(self, what: str, path: object) -> None:
        self._what = what
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: object
    ) -> None:
        if kind is not None and isinstance(error, OSError) and not isinstance(error, StorageError):
            raise storage_error(error, self._what, self._path) from error


def publish(temporary: str, name: str, overwrite: bool) -> None:
    """Rename a file atomically; with `overwrite`, replace another file."""
    if overwrite:
        system.replace(temporary, name)
        return
    if system.rename_exclusively(temporary, name):
        return
    try:
        link(temporary, name)
    except FileExistsError as error:
        raise FileExistsError(error.errno, error.strerror, name) from None
    except OSError:  # no usable hard links here
        # Claim the name with an empty file, which only one process can create; then replace it.
        os.close(system.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        try:
            system.replace(temporary, name)
        except BaseException:
            with contextlib.suppress(OSError):
                if os.stat(name).st_size == 0:
                    system.remove(name)
            raise
    else:
        system.remove(temporary)


def link(name: str, other: str) -> None:
    """Give a file a second name, by which it is the same file.

    Refuse that with FUSE, where the system may see two files with separate caches and locks:
    neither would see the other's writes, nor exclude its writers.
    """
    fd = system.open_place(name, follow=False)
    try:
        if is_fuse(fd):
            raise OSError(UNSUPPORTED, os.strerror(UNSUPPORTED), other)
    finally:
        os.close(fd)
    system.link(name, other)


def sync_folders(names: Iterable[str]) -> None:
    """Bring the names of files to the disk, if the file system supports it."""
    for folder in {os.path.dirname(real_name(name)) for name in names}:
        system.sync_folder(folder)


# -- the engine, by the type of the file system --------------------------------------------------


def holes_take_space(file: FileCore) -> bool:
    """Tell whether a load from a hole, through a mapping, takes space and may find none."""
    return file.file_system in _IN_MEMORY


def leaves_holes(path: Path) -> bool:
    """Tell whether files at a path should keep holes where nobody has written yet.

    They should where reserving space guarantees nothing and prevents compression.
    """
    folder = os.path.dirname(real_name(file_names(path)[1])) or os.curdir
    try:
        fd = system.open_place(folder)
    except OSError:  # making the files will report the error
        return False
    try:
        return file_system_of(fd) in _COPY_ON_WRITE
    finally:
        os.close(fd)


def is_fuse(fd: int) -> bool:
    """Tell whether a file, or its place, lies on a file system that a process provides (FUSE)."""
    return file_system_of(fd) == FUSE


def shares_blocks(file: FileCore) -> bool:
    """Tell whether a file shares blocks with another; False if its file system does not say."""
    with file as fd:
        return system.shares_blocks(fd)


def choose_engine(asked: str, file: FileCore, writable: bool) -> str:
    """Choose the engine for a file.

    "auto" follows ``config.engine``; if that is "auto" too, the file system decides.
    """
    check_choice(asked, "engine", ENGINES)
    if asked == "auto":
        asked = config.engine
    if not system.CAN_MAP:
        if asked == "mmap":
            raise ArgumentError(
                "engine 'mmap' does not exist on this system; leave out engine, or give "
                "engine='pread'"
            )
        return "pread"
    if asked == "auto" and not system.MAPS_FREELY:
        return "pread"  # others should not find that they cannot replace the file
    kind = file.file_system
    networked = kind in NETWORKED
    if asked == "mmap" and networked:
        if writable:
            raise ArgumentError(
                f"engine 'mmap' cannot write '{file.name}': hosts may share its file system "
                f"({NETWORKED[kind]}), and a mapping does not see their writes; leave out engine, "
                "or give engine='pread'"
            )
        warnings.warn(
            f"engine 'mmap' may show old elements of '{file.name}' for ever: hosts may share its "
            f"file system ({NETWORKED[kind]}), and a mapping does not see their writes; leave out "
            "engine, or give engine='pread'",
            StaleWarning,
            stacklevel=7,
        )
    if asked != "auto":
        return asked
    if networked or (writable and _moves_blocks(kind, file)):
        return "pread"
    return "mmap"


def _moves_blocks(kind: int, file: FileCore) -> bool:
    """Tell whether a store to reserved space may need other space."""
    return kind in _COPY_ON_WRITE or (kind == _XFS and shares_blocks(file))
