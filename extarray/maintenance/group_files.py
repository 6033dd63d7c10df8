"""The files of groups: members in a folder or a packed file, and folders in the making.

A new folder is built under a fresh name beside its final one and renamed when it is complete.
Until then a lock on it tells whether someone is still at work.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extarray.common.errors import ArgumentError, MissingError
from extarray.common.system import (
    FREES_FOLDERS,
    NO_FOLLOW,
    NO_WAIT,
    exchange,
    lock_folder,
    remove,
    replace,
)
from extarray.format.archive import ATTRS_NAME, check_member_name
from extarray.format.index import INDEX_NAME
from extarray.format.suffixes import FILES, METADATA, all_names, file_names, is_of_pair, split_name
from extarray.storage import lock
from extarray.storage.filesystem import (
    File,
    family,
    link,
    random_name,
    sync_folders,
    take_after,
    walk_folders,
)
from extarray.storage.names import Packed, PackedNames, making_file
from extarray.storage.report import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

__all__ = [
    "ARRAY",
    "GROUP",
    "InFolder",
    "InPacked",
    "discard_tree",
    "empty_folder_like",
    "foreign_file",
    "is_in_the_making",
    "left_folders",
    "link_rest",
    "making_folder",
    "packed_names",
    "remove_folder",
    "remove_left_folders",
    "remove_tree",
    "swap_folders",
    "sweep",
    "told_of",
    "write_whole",
]

ARRAY, GROUP = "array", "group"

# The most seconds that threads of a library go on after its call has failed.
_LONGEST_END = 1.0
_ENDINGS = (*FILES, ".new")  # of array files, finished and in the making
# Metadata and chunks of a Zarr store, and their temporary files.
_OF_ZARR = re.compile(
    r"zarr\.json|\.z(array|attrs|group|metadata)|c?[0-9]*(\.[0-9]+)*|.*\.[0-9a-f]{32}\.partial",
    re.DOTALL,
)
_FRESH = re.compile(r".+\.[0-9a-f]{12}\.new", re.DOTALL)
# Seconds: a younger empty folder may not have its lock yet.
_IN_THE_MAKING = 60.0
# Levels of folders that one call of `shutil.rmtree` removes, which calls itself for each.
_LEVELS = 100


# -- members -------------------------------------------------------------------------------------


class InFolder:
    """The members of a group in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))

    def path(self, key: str) -> Path:
        """Return the path of a member; refuse a link that leads out of the group."""
        path = self.root / key if key else self.root
        for real in (path, *all_names(path)):
            if os.path.realpath(real) != os.fspath(real) and not Path(
                os.path.realpath(real)
            ).is_relative_to(self.root):
                raise ArgumentError(f"{key!r} is a link that leads out of the group '{self.root}'")
        return path

    def kind(self, key: str) -> str | None:
        """Return whether a name is an array or a group; None if it is neither."""
        path = self.path(key)
        metadata, _ = file_names(path)
        if key and os.path.lexists(metadata):  # also a dangling link, as `entries` lists it
            return ARRAY
        return GROUP if path.is_dir() and not (key and path.is_symlink()) else None

    def entries(self, key: str) -> list[tuple[str, str]]:
        """Return the names and kinds of the members of a group, sorted by name."""
        found = {}
        with family("cannot list the group '{}'", self.root / key):
            for entry in os.scandir(self.path(key)):
                stem, suffix = split_name(entry.name)
                if suffix == METADATA:
                    found[stem] = ARRAY
                elif entry.is_dir(follow_symlinks=False) and not is_in_the_making(entry.name):
                    found.setdefault(entry.name, GROUP)
        # Other programs may use names that no one could ask for here, nor pack.
        return sorted(item for item in found.items() if check_member_name(f"{item[0]}/") is None)

    def load_attrs(self, key: str) -> bytes | None:
        """Return the content of the attributes file, or None if there is none."""
        with family("cannot read '{}'", self.root / key / ATTRS_NAME):
            name = os.fspath(self.path(key) / ATTRS_NAME)
            try:
                file = File.open(name, os.O_RDONLY | NO_WAIT)
            except FileNotFoundError:
                return None
            with contextlib.closing(file):
                about = file.stat()
                if not stat.S_ISREG(about.st_mode):  # reading a pipe would block or give nothing
                    number = errno.EISDIR if stat.S_ISDIR(about.st_mode) else errno.EINVAL
                    raise OSError(number, "it is not a regular file", name)
                return file.read(about.st_size, 0)

    def save_attrs(self, key: str, data: bytes) -> None:
        """Replace the attributes file atomically and durably."""
        name = self.path(key) / ATTRS_NAME
        if not Path(os.path.realpath(name)).is_relative_to(self.root):
            raise ArgumentError(f"'{name}' is a link that leads out of the group '{self.root}'")
        write_whole(name, data)


def write_whole(name: Path, data: bytes) -> None:
    """Replace a file atomically and durably."""
    with family("cannot write '{}'", name):
        with making_file(os.fspath(name), overwrite=True) as file:
            file.write(data, 0)
            file.datasync()
        sync_folders([os.fspath(name)])


class InPacked:
    """The members of a group in a packed file, or in a part of one."""

    def __init__(self, packed: PackedNames, inner: str, root: Any) -> None:
        self.root = root
        self._prefix = f"{inner}/" if inner else ""
        self._arrays, self._groups = packed.arrays, packed.groups
        self._inside: dict[str, dict[str, str]] = {}
        for names, kind in ((packed.groups, GROUP), (packed.arrays, ARRAY)):
            for name in names:
                folder, _, last = name.rpartition("/")
                if name:
                    self._inside.setdefault(folder, {})[last] = kind

    def path(self, key: str) -> Path:
        """Return the path of a member, through the file."""
        path: Path = self.root / key
        return path

    def kind(self, key: str) -> str | None:
        """Return whether a name is an array or a group; None if it is neither."""
        name = f"{self._prefix}{key}".removesuffix("/")
        return ARRAY if name in self._arrays else GROUP if name in self._groups else None

    def array_names(self) -> list[str]:
        """Return the names of all arrays in the group and below."""
        start = self._prefix
        return sorted(name[len(start) :] for name in self._arrays if name.startswith(start))

    def entries(self, key: str) -> list[tuple[str, str]]:
        """Return the names and kinds of the members of a group, sorted by name."""
        return sorted(self._inside.get(f"{self._prefix}{key}".removesuffix("/"), {}).items())

    def load_attrs(self, key: str) -> bytes | None:
        """Return the content of the attributes member, or None if there is none."""
        member = self._groups[f"{self._prefix}{key}".removesuffix("/")]
        if member is None:
            return None
        with family("cannot read '{}'", self.root), Packed.find(self.root) as packed:
            if packed is None or packed.groups.get(member.name.rpartition("/")[0]) != member:
                raise MissingError(
                    errno.ENOENT, "the packed file was replaced; open it again", str(self.root)
                )
            return packed.read(member)


def packed_names(path: Path) -> list[str] | None:
    """Return the names of a packed group's arrays; None if the path names no packed group."""
    with Packed.find(Path(os.path.abspath(path))) as packed:
        if packed is None or packed.alone is not None:
            return None
        inner = packed.inner(Path(os.path.abspath(path)))
        if inner not in packed.groups:
            return None
        return sorted(
            name[len(inner) :].lstrip("/")
            for name in packed.arrays
            if not inner or name.startswith(f"{inner}/")
        )


def foreign_file(folder: str | Path) -> str | None:
    """Return the name of a file in or below a folder that belongs to no array or group."""
    return next((os.path.basename(name) for name in _foreign_files(folder)), None)


def _foreign_files(folder: str | Path) -> Iterator[str]:
    """Yield the paths of files in or below a folder that belong to no array or group."""
    for where, _, files in walk_folders(folder):
        for name in files:
            if name not in (ATTRS_NAME, INDEX_NAME) and not name.endswith(_ENDINGS):
                yield os.path.join(where, name)


# -- folders in the making -----------------------------------------------------------------------


def is_in_the_making(name: str) -> bool:
    """Tell by its name whether a folder is being made or removed, or was left by such work.

    Examples
    --------
    >>> is_in_the_making("scene.0123456789ab.new"), is_in_the_making("scene.new")
    (True, False)
    """
    return _FRESH.fullmatch(name) is not None


@contextlib.contextmanager
def making_folder(
    name: str,
    publish: Callable[[str, str], object] = replace,
    *,
    within: str | None = None,
    old: str | None = None,
) -> Iterator[str]:
    """Make a folder for the length of a block; rename it at the end, unless it raises (I14).

    First remove what earlier calls for the name have left.  The folder and the array files in it
    get the permissions of those that they replace.

    Parameters
    ----------
    name : str
    publish : callable, optional
        Gives the folder its name; called with both names.
    within : str, optional
        Folder in which this one is made; by default, the parent of `name`.
    old : str, optional
        Folder to replace; by default, the present folder of that name, if any.

    Yields
    ------
    str
        Temporary name of the folder.
    """
    stem = name if within is None else os.path.join(within, os.path.basename(name))
    old = name if old is None else old
    remove_left_folders(left_folders(stem))
    fresh = random_name(stem)
    is_there = os.path.isdir(old)
    with family("cannot make the folder '{}'", name):
        os.mkdir(fresh, 0o700 if is_there else 0o777)
    try:
        with contextlib.ExitStack() as stack:
            with family("cannot make the folder '{}'", name):
                stack.enter_context(_at_work(fresh))
            yield fresh
            with family("cannot make the folder '{}'", name):
                if is_there:
                    _take_after(fresh, old)
                publish(fresh, name)
    except BaseException:
        discard_tree(fresh)
        raise
    with family("cannot make the folder '{}'", name):
        sync_folders([name])
    if not FREES_FOLDERS and os.path.lexists(fresh):
        remove_tree(fresh, ignore_errors=True)  # or else the next call does


def discard_tree(folder: str) -> None:
    """Remove a folder that nobody else knows.

    A library that fails may still have threads that write files into it, and Windows keeps the
    folder of a file that a thread is about to close.  Wait a little for these.
    """
    end = time.monotonic() + _LONGEST_END
    remove_tree(folder, ignore_errors=True)
    while os.path.lexists(folder) and time.monotonic() < end:
        time.sleep(0.01)
        remove_tree(folder, ignore_errors=True)


def empty_folder_like(name: str) -> str | None:
    """Make an empty sibling of a folder, with its permissions; return None if that fails."""
    fresh = random_name(name)
    try:
        os.mkdir(fresh, 0o700)
    except OSError:
        return None
    _take_after(fresh, name)
    return fresh


def _take_after(fresh: str, name: str) -> None:
    """Give a folder, and the array and group files in it, the permissions of another folder."""
    for where, _, files in reversed([*walk_folders(fresh)]):  # the outermost folder comes last
        other = os.path.normpath(os.path.join(name, os.path.relpath(where, fresh)))
        if os.path.isdir(other):
            for file in files:
                if file == ATTRS_NAME or is_of_pair(file):
                    _take_one_after(os.path.join(where, file), os.path.join(other, file))
            _take_one_after(where, other)


def _take_one_after(fresh: str, name: str) -> None:
    """Give a file or folder the permissions of another one, if that exists."""
    file = File.open(fresh, os.O_RDONLY | NO_WAIT | NO_FOLLOW)
    try:
        take_after(file, name)
    finally:
        file.close()


def swap_folders(fresh: str, name: str) -> None:
    """Exchange the names of two folders durably, and atomically where the system can.

    Elsewhere, a kill in between may leave the second name without a folder.  The folder that had it
    then stands beside it, under a name that is never taken for a left-over.
    """
    if not exchange(fresh, name):
        old = f"{random_name(name).removesuffix('.new')}.old"
        replace(name, old)
        try:
            replace(fresh, name)
        except BaseException:
            replace(old, name)
            raise
        replace(old, fresh)
    sync_folders([name])


def link_rest(name: str, fresh: str, gone: Collection[str] = ()) -> None:
    """Link everything in a folder that another one lacks into that one.

    Files get a second name, so whoever has them open notices nothing.

    Parameters
    ----------
    name, fresh : str
        The folder, and the other one.
    gone : collection of str
        Names of files to skip.

    Raises
    ------
    OSError
        The file system has no usable hard links.
    """
    left, made = [(name, fresh)], []
    while left:
        where, there = left.pop()
        with os.scandir(where) as found:
            entries = list(found)
        for entry in entries:
            other = os.path.join(there, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if not is_in_the_making(entry.name):
                    os.mkdir(other, 0o700)
                    left.append((entry.path, other))
                    made.append((entry.path, other))
            elif not (where == name and entry.name in gone) and not os.path.lexists(other):
                link(entry.path, other)
    for where, other in reversed(made):  # filled, which changes times
        shutil.copystat(where, other, follow_symlinks=False)
        _take_one_after(other, where)


def sweep(old: str, name: str, gone: Collection[str] = ()) -> None:
    """Remove a folder whose files were linked into another one by `link_rest`, or are to go.

    Move newer arrivals to the other folder.
    """
    left, empty = [(old, name)], []
    while left:
        where, there = left.pop()
        empty.append(where)
        with os.scandir(where) as found:
            entries = list(found)
        for entry in entries:
            other = os.path.join(there, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if os.path.lexists(other):
                    left.append((entry.path, other))
                else:
                    replace(entry.path, other)
            elif (where == old and entry.name in gone) or _is_same(entry.path, other):
                remove(entry.path)
            else:
                replace(entry.path, other)
    for where in reversed(empty):
        try:
            os.rmdir(where)
        except OSError as error:
            # A removed file may keep its folder until others have closed the file.
            if FREES_FOLDERS or error.errno != errno.ENOTEMPTY:
                raise


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samestat(os.lstat(one), os.lstat(other))
    except (FileNotFoundError, NotADirectoryError):
        return False


def remove_tree(folder: str, ignore_errors: bool = False) -> None:
    """Remove a folder and its contents, which may be deeper than Python's limit of recursion."""
    folder = folder.rstrip(os.sep)
    places = [where for where, _, _ in walk_folders(folder)]
    for where in reversed(places):  # inner folders first
        depth = where.count(os.sep) - folder.count(os.sep)
        if depth and depth % _LEVELS == 0:
            shutil.rmtree(where, ignore_errors)
    shutil.rmtree(folder, ignore_errors)


def remove_folder(name: str) -> None:
    """Remove a folder and its contents; others see all of it or nothing."""
    with _at_work(name):
        fresh = name
        if not is_in_the_making(os.path.basename(name)):
            fresh = random_name(name)
            replace(name, fresh)
        # A removed file may keep its folder until others have closed the file.
        remove_tree(fresh, ignore_errors=not FREES_FOLDERS)


@contextlib.contextmanager
def _at_work(folder: str) -> Iterator[None]:
    """Hold the lock on a folder that marks work in progress, where folders can be locked."""
    fd = lock_folder(folder, wait=True)
    try:
        yield
    finally:
        os.close(fd)


def left_folders(name: str | None = None, folder: str = "") -> list[str]:
    """Return unfinished folders meant for a name, or for any name in a folder."""
    if name is not None:
        folder = os.path.dirname(os.path.abspath(name))
    stem = None if name is None else os.path.basename(name)
    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder or os.curdir) as entries:
        found += [
            entry.path
            for entry in entries
            if is_in_the_making(entry.name)
            and stem in (None, entry.name.rsplit(".", 2)[0])
            and entry.is_dir(follow_symlinks=False)
        ]
    return sorted(found)


def told_of(folder: str) -> Problem:
    """Return a check's finding about an abandoned folder."""
    return Problem(
        "left over",
        "left by an unpack, an import or a removal that was interrupted or is still running",
        folder,
        None,
        "warning",
        "the next call for this name, or extarray check --repair, removes it if no job is running",
    )


def remove_left_folders(folders: list[str]) -> list[str]:
    """Remove abandoned folders that nobody is working on; return a line for each."""
    done = []
    for folder in folders:
        with contextlib.suppress(OSError):
            fd = lock_folder(folder, follow=False)
            try:
                if _is_abandoned(folder):
                    remove_tree(folder)
                    done.append(f"{folder} was removed")
            finally:
                os.close(fd)
    return done


def _is_ours(folder: str) -> bool:
    """Tell whether a folder has only files of arrays and groups, or those of Zarr.

    Foreign files that `link_rest` has linked count as ours: the folder in its place has them too.
    """
    place = folder.rsplit(".", 2)[0]
    if all(
        _is_same(name, os.path.join(place, os.path.relpath(name, folder)))
        for name in _foreign_files(folder)
    ):
        return True
    return all(_OF_ZARR.fullmatch(name) for _, _, files in walk_folders(folder) for name in files)


def _is_abandoned(folder: str) -> bool:
    """Tell whether a folder, whose lock we hold, is abandoned and has only our files."""
    if not os.listdir(folder):
        return time.time() - os.stat(folder).st_mtime >= _IN_THE_MAKING
    if not _is_ours(folder):
        return False
    for where, _, files in walk_folders(folder):
        for name in files:
            if name.endswith(METADATA):
                file = File.open(os.path.join(where, name), os.O_RDONLY | NO_WAIT)
                try:
                    if lock.is_held(file):
                        return False
                finally:
                    file.close()
    return True
