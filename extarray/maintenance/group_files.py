"""The files of groups: members, in a folder or in a packed file; and folders in the making.

A folder that is made of much gets its name when it is complete.  Until then it has a fresh one
beside it, and a lock that tells whether somebody is still at work on it.
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
from typing import TYPE_CHECKING

from extarray.common.errors import ArgumentError, MissingError
from extarray.common.system import EXCLUSIVE, NO_FOLLOW, NO_WAIT, exchange, lock_whole, open_folder
from extarray.format.archive import ATTRS_NAME, check_member_name
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
from extarray.storage.names import Packed, making_file
from extarray.storage.report import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

__all__ = [
    "ARRAY",
    "GROUP",
    "InFolder",
    "InPacked",
    "empty_folder_like",
    "foreign_file",
    "is_in_the_making",
    "left_folders",
    "link_rest",
    "making_folder",
    "packed_names",
    "remove_folder",
    "remove_left_folders",
    "swap_folders",
    "sweep",
    "told_of",
    "write_whole",
]

ARRAY, GROUP = "array", "group"

_ENDINGS = (".xmd", ".xta", ".new")  # of files of arrays, and of those in the making
# Metadata and chunks of a Zarr store, and each of them while it is written.
_OF_ZARR = re.compile(
    r"zarr\.json|\.z(array|attrs|group|metadata)|c?[0-9]*(\.[0-9]+)*|.*\.[0-9a-f]{32}\.partial",
    re.DOTALL,
)
_FRESH = re.compile(r".+\.[0-9a-f]{12}\.new", re.DOTALL)
# Seconds: an empty folder that has no lock yet is younger.
_IN_THE_MAKING = 60.0


# -- where the members are -----------------------------------------------------------------------


class InFolder:
    """The members of a group in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))

    def path(self, key: str) -> Path:
        """Return the path of a member; a link that leads out of the group is refused."""
        path = self.root / key if key else self.root
        for real in (path, f"{path}.xmd", f"{path}.xta"):
            if os.path.realpath(real) != os.fspath(real) and not Path(
                os.path.realpath(real)
            ).is_relative_to(self.root):
                raise ArgumentError(f"{key!r} is a link that leads out of the group '{self.root}'")
        return path

    def kind(self, key: str) -> str | None:
        """Return the kind of the member of a name: an array, a group, or None."""
        path = self.path(key)
        if key and os.path.lexists(f"{path}.xmd"):  # also a link that leads nowhere, as listed
            return ARRAY
        return GROUP if path.is_dir() and not (key and path.is_symlink()) else None

    def entries(self, key: str) -> list[tuple[str, str]]:
        """Return the names and kinds of the members of a group, sorted by name."""
        found = {}
        with family("cannot list the group '{}'", self.root / key):
            for entry in os.scandir(self.path(key)):
                if entry.name.endswith(".xmd") and len(entry.name) > 4:
                    found[entry.name[:-4]] = ARRAY
                elif entry.is_dir(follow_symlinks=False) and not is_in_the_making(entry.name):
                    found.setdefault(entry.name, GROUP)
        # What other programs have named otherwise cannot be asked for, nor packed.
        return sorted(item for item in found.items() if check_member_name(f"{item[0]}/") is None)

    def load_attrs(self, key: str) -> bytes | None:
        """Return the content of the file of the attributes, or None if there is no such file."""
        with family("cannot read '{}'", self.root / key / ATTRS_NAME):
            name = os.fspath(self.path(key) / ATTRS_NAME)
            try:
                file = File.open(name, os.O_RDONLY | NO_WAIT)
            except FileNotFoundError:
                return None
            with contextlib.closing(file):
                about = file.stat()
                if not stat.S_ISREG(about.st_mode):  # a pipe would give nothing, or wait
                    number = errno.EISDIR if stat.S_ISDIR(about.st_mode) else errno.EINVAL
                    raise OSError(number, "it is not a regular file", name)
                return file.read(about.st_size, 0)

    def save_attrs(self, key: str, data: bytes) -> None:
        """Replace the file of the attributes, in one step, on the disk."""
        name = self.path(key) / ATTRS_NAME
        if not Path(os.path.realpath(name)).is_relative_to(self.root):
            raise ArgumentError(f"'{name}' is a link that leads out of the group '{self.root}'")
        write_whole(name, data)


def write_whole(name: Path, data: bytes) -> None:
    """Replace a file, in one step, on the disk."""
    with family("cannot write '{}'", name):
        with making_file(os.fspath(name), overwrite=True) as file:
            file.write(data, 0)
            file.datasync()
        sync_folders([os.fspath(name)])


class InPacked:
    """The members of a group in a packed file, or of a part of one."""

    def __init__(self, packed: Packed, inner: str) -> None:
        self.root = Path(packed.name) / inner
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
        return self.root / key

    def kind(self, key: str) -> str | None:
        """Return the kind of the member of a name: an array, a group, or None."""
        name = f"{self._prefix}{key}".removesuffix("/")
        return ARRAY if name in self._arrays else GROUP if name in self._groups else None

    def entries(self, key: str) -> list[tuple[str, str]]:
        """Return the names and kinds of the members of a group, sorted by name."""
        return sorted(self._inside.get(f"{self._prefix}{key}".removesuffix("/"), {}).items())

    def load_attrs(self, key: str) -> bytes | None:
        """Return the content of the attributes' member, or None if there is no such member."""
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
    """Return the names of the arrays of a group in a packed file; None where a path names none."""
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
    """Return the name of a file, in a folder or below it, that is of no array and no group."""
    return next((os.path.basename(name) for name in _foreign_files(folder)), None)


def _foreign_files(folder: str | Path) -> Iterator[str]:
    """Yield the paths of files, in a folder and below it, that are of no array and no group."""
    for where, _, files in walk_folders(folder):
        for name in files:
            if name != ATTRS_NAME and not name.endswith(_ENDINGS):
                yield os.path.join(where, name)


# -- folders in the making -----------------------------------------------------------------------


def is_in_the_making(name: str) -> bool:
    """Tell by its name whether a folder is made, or removed, or was left when that was interrupted.

    Examples
    --------
    >>> is_in_the_making("scene.0123456789ab.new"), is_in_the_making("scene.new")
    (True, False)
    """
    return _FRESH.fullmatch(name) is not None


@contextlib.contextmanager
def making_folder(
    name: str,
    publish: Callable[[str, str], object] = os.rename,
    *,
    within: str | None = None,
    old: str | None = None,
) -> Iterator[str]:
    """Make a folder for the length of a block, which then takes its name unless it raises (I14).

    What earlier calls for the name have left is removed first.  The folder, and the files of arrays
    in it, have the permissions of those that they replace.

    Parameters
    ----------
    name : str
    publish : callable, optional
        Gives the folder its name; called with both names.
    within : str, optional
        Folder in which this one is made; by default that in which it will be.
    old : str, optional
        Folder that is replaced; by default the one that has the name, if any.

    Yields
    ------
    str
        Under which it is made.
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
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    with family("cannot make the folder '{}'", name):
        sync_folders([name])


def empty_folder_like(name: str) -> str | None:
    """Make an empty folder beside another one, with its permissions; None: it cannot be made."""
    fresh = random_name(name)
    try:
        os.mkdir(fresh, 0o700)
    except OSError:
        return None
    _take_after(fresh, name)
    return fresh


def _take_after(fresh: str, name: str) -> None:
    """Give a folder, and what it has of arrays and groups, the permissions of another one."""
    for where, _, files in reversed([*walk_folders(fresh)]):  # the outermost comes last
        other = os.path.normpath(os.path.join(name, os.path.relpath(where, fresh)))
        if os.path.isdir(other):
            for file in files:
                if file == ATTRS_NAME or file.endswith((".xmd", ".xta")):
                    _take_one_after(os.path.join(where, file), os.path.join(other, file))
            _take_one_after(where, other)


def _take_one_after(fresh: str, name: str) -> None:
    """Give one file or folder the permissions of another one, if there is such."""
    file = File.open(fresh, os.O_RDONLY | NO_WAIT | NO_FOLLOW)
    try:
        take_after(file, name)
    finally:
        file.close()


def swap_folders(fresh: str, name: str) -> None:
    """Give two folders the names of each other, on the disk: in one step, where the system can.

    Elsewhere a kill in between may leave no folder of the second name.  The one that had it is
    beside it then, under a name that nobody takes for a left-over.
    """
    if not exchange(fresh, name):
        old = f"{random_name(name).removesuffix('.new')}.old"
        os.rename(name, old)
        try:
            os.rename(fresh, name)
        except BaseException:
            os.rename(old, name)
            raise
        os.rename(old, fresh)
    sync_folders([name])


def link_rest(name: str, fresh: str, gone: Collection[str] = ()) -> None:
    """Give all that is in a folder, and not in another one, a place in that as well.

    Files get a second name, so whoever has them open notices nothing.

    Parameters
    ----------
    name, fresh : str
        Of the folder, and of the other one.
    gone : collection of str
        Names of files that get none.

    Raises
    ------
    OSError
        The file system has no such names, or none that help.
    """
    with os.scandir(name) as found:
        entries = list(found)
    for entry in entries:
        other = os.path.join(fresh, entry.name)
        if entry.is_dir(follow_symlinks=False):
            if not is_in_the_making(entry.name):
                os.mkdir(other, 0o700)
                link_rest(entry.path, other)
                shutil.copystat(entry.path, other, follow_symlinks=False)
                _take_one_after(other, entry.path)
        elif entry.name not in gone and not os.path.lexists(other):
            link(entry.path, other)


def sweep(old: str, name: str, gone: Collection[str] = ()) -> None:
    """Remove a folder whose files are in another one by `link_rest`, or are to go.

    What has come into it since is moved to the other one.
    """
    with os.scandir(old) as found:
        entries = list(found)
    for entry in entries:
        other = os.path.join(name, entry.name)
        if entry.is_dir(follow_symlinks=False):
            if os.path.lexists(other):
                sweep(entry.path, other)
            else:
                os.rename(entry.path, other)
        elif entry.name in gone or _is_same(entry.path, other):
            os.unlink(entry.path)
        else:
            os.replace(entry.path, other)
    os.rmdir(old)


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samestat(os.lstat(one), os.lstat(other))
    except (FileNotFoundError, NotADirectoryError):
        return False


def remove_folder(name: str) -> None:
    """Remove a folder with all that is in it; who looks for it finds all of it or nothing."""
    with _at_work(name):
        fresh = name
        if not is_in_the_making(os.path.basename(name)):
            fresh = random_name(name)
            os.rename(name, fresh)
        shutil.rmtree(fresh)


@contextlib.contextmanager
def _at_work(folder: str) -> Iterator[None]:
    """Hold the lock on a folder that tells that somebody is at work, where there are such."""
    fd = open_folder(folder)
    try:
        with contextlib.suppress(OSError):
            lock_whole(fd, EXCLUSIVE, wait=True)
        yield
    finally:
        os.close(fd)


def left_folders(name: str | None = None, folder: str = "") -> list[str]:
    """Return the folders that were to take a name, or any name in a folder, and did not."""
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
    """Return what a check tells of a folder that was left."""
    return Problem(
        "left over",
        "left by an unpack, an import or a removal that was interrupted or is still running",
        folder,
        None,
        "warning",
        "the next call for this name, or extarray check --repair, removes it if no job is running",
    )


def remove_left_folders(folders: list[str]) -> list[str]:
    """Remove folders that were left, and that nobody is at work on; return what was done."""
    done = []
    for folder in folders:
        with contextlib.suppress(OSError):
            fd = open_folder(folder, follow=False)
            try:
                lock_whole(fd, EXCLUSIVE)
                if _is_abandoned(folder):
                    shutil.rmtree(folder)
                    done.append(f"{folder} was removed")
            finally:
                os.close(fd)
    return done


def _is_ours(folder: str) -> bool:
    """Tell whether a folder has nothing but files of arrays and groups, or those of Zarr.

    What `link_rest` has given a name there is no loss: the folder in its place has it, too.
    """
    place = folder.rsplit(".", 2)[0]
    if all(
        _is_same(name, os.path.join(place, os.path.relpath(name, folder)))
        for name in _foreign_files(folder)
    ):
        return True
    return all(_OF_ZARR.fullmatch(name) for _, _, files in walk_folders(folder) for name in files)


def _is_abandoned(folder: str) -> bool:
    """Tell whether a folder, whose lock we have, is nobody's, and has nothing but our files."""
    if not os.listdir(folder):
        return time.time() - os.stat(folder).st_mtime >= _IN_THE_MAKING
    if not _is_ours(folder):
        return False
    for where, _, files in walk_folders(folder):
        for name in files:
            if name.endswith(".xmd"):
                file = File.open(os.path.join(where, name), os.O_RDONLY | NO_WAIT)
                try:
                    if lock.is_held(file):
                        return False
                finally:
                    file.close()
    return True
