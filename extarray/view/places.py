"""The arrays of ours that a page may show: alone, in a folder, or in a packed file."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from extarray.array.coordinates import Coordinate
from extarray.array.creation import open as open_array
from extarray.array.folders import open_group
from extarray.common.errors import ExtArrayError, MissingError, ReplacedError
from extarray.common.formatting import format_disk
from extarray.fetched.paths import local_or_remote
from extarray.format.archive import ATTRS_NAME
from extarray.format.attrs import attrs_of_group, decode_attrs
from extarray.format.labels import SPLIT, known_split
from extarray.format.suffixes import METADATA, all_names, split_name, without_suffix
from extarray.maintenance.group_files import InFolder, is_in_the_making
from extarray.maintenance.group_index import names_in_group
from extarray.storage.filesystem import has_files, walk_folders
from extarray.view import packed
from extarray.view.encoding import Choice, choices_of

__all__ = ["Arrays", "Exhibit"]

#: Most arrays of a folder that are listed, and most groups.
MOST_LISTED = 2000


class Exhibit:
    """An array on show.

    Parameters
    ----------
    path : path
    """

    has_growth = True
    is_still = False  # elements may be overwritten without news

    def __init__(self, path: Any) -> None:
        self.array: Any = open_array(path, mode="r", engine="pread")  # see `planes`
        # A page may know the revision of an earlier server, or of an array closed meanwhile.
        self.revision = secrets.randbits(48)
        self._lock = threading.Lock()

    def refresh(self) -> int:
        """Follow the writer; return the revision, which changes with any news.

        Opens files that have replaced the open ones.

        Raises
        ------
        MissingError
            There are no such files; the open ones still have their elements.
        """
        with self._lock:
            try:
                if self.array.refresh(on_replaced="reopen"):
                    self.revision += 1
            except ReplacedError as error:
                raise MissingError(
                    errno.ENOENT,
                    "the array was deleted or moved; the page shows the elements it had",
                    str(self.array.path),
                ) from error
            return self.revision

    @property
    def shown(self) -> Any:
        """The array, or the view with more axes that its attribute ``"split"`` describes."""
        array = self.array
        return array.lazy.split() if known_split(array.attrs.get(SPLIT), array.dims) else array

    def close(self) -> None:
        """Close the array."""
        self.array.close()

    def choices(self) -> list[Choice]:
        """Return the parts of an element that can be shown."""
        array = self.array
        packing = packed.of_attrs(self.attrs(), array.dtype, array.fill_value)
        return choices_of(array.dtype, packing)

    def attrs(self) -> dict[str, Any]:
        """Return the attributes."""
        attrs: dict[str, Any] = self.array.attrs.asdict()
        return attrs

    def disk(self, info: Mapping[str, Any]) -> str:
        """Return the bytes that the array takes on the disk, as text."""
        return format_disk(info)

    def code(self, unpacked: bool = False) -> list[str]:
        """Return lines of Python that open the array as ``a``; its packing has one scale."""
        path = self.array.path
        text = os.path.abspath(path) if isinstance(path, Path) else str(path)
        split = "" if self.shown is self.array else ".lazy.split()"
        return ["import extarray as xa", "", f"a = xa.open({text!r}){split}"]

    def coordinate(self, dim: str) -> Coordinate | None:
        """Return the coordinate along an axis that a file attaches; ours are in attributes."""
        return None


class Arrays:
    """An array, or those of a folder or of a packed file, and their groups.

    Parameters
    ----------
    text : str

    Raises
    ------
    MissingError
        There is no array.
    """

    def __init__(self, text: str) -> None:
        self._root: Any = local_or_remote(text) or Path(text)
        self.title = str(self._root)  # without secrets
        self._packed = None if has_files(text) else names_in_group(text)
        self.is_folder = self._packed is not None or (os.path.isdir(text) and not has_files(text))
        self._alone = ""
        self._found: tuple[list[str], list[str]] = ([], [])  # by the latest look at the folder
        self._first: Exhibit | None = None
        if self.is_folder:
            self.check()
            if not self.names():
                raise MissingError(
                    errno.ENOENT,
                    "no array in this folder; name files of other formats themselves",
                    self.title,
                )
        else:
            self._first = Exhibit(self._root)
            self._alone = self._first.array.path.name

    def names(self) -> list[str]:
        """Return the names of the arrays, in order."""
        if not self.is_folder:
            return [self._alone]
        if self._packed is not None:
            return self._packed[:MOST_LISTED]
        return self._found[0]

    def _walk(self) -> tuple[list[str], list[str]]:
        """Return the names of the arrays in a folder, and of groups with attributes."""
        root = self._root.resolve()
        found: set[str] = set()
        groups: set[str] = set()
        for where, folders, files in walk_folders(root):  # does not follow links
            folders[:] = sorted(f for f in folders if not is_in_the_making(f))
            for file in files:
                stem, suffix = split_name(file)
                if suffix == METADATA and _is_inside(os.path.join(where, file), root):
                    found.add((Path(where) / stem).relative_to(root).as_posix())
                elif file == ATTRS_NAME and len(groups) < MOST_LISTED:
                    name = Path(where).relative_to(root).as_posix()
                    groups.add("" if name == "." else name)
            if len(found) >= MOST_LISTED:
                break
        return sorted(found)[:MOST_LISTED], sorted(groups)

    def groups(self) -> dict[str, Mapping[str, Any]]:
        """Return the attributes of the groups that have some, by name; the folder's is empty."""
        if not self.is_folder:
            return {}
        found: dict[str, Mapping[str, Any]] = {}
        with contextlib.suppress(ExtArrayError, OSError):
            if self._packed is None:
                place = InFolder(self._root)
                for name in self._found[1]:
                    with contextlib.suppress(ExtArrayError, OSError):
                        data = place.load_attrs(name)
                        if data is not None:
                            found[name] = decode_attrs(attrs_of_group(data))
            else:
                with open_group(self._root, "r") as group:
                    parents = {n for name in self.names() for n in _parents(name)}
                    for name in sorted(parents)[:MOST_LISTED]:
                        inner: Any = group[name] if name else group
                        found[name] = dict(inner.attrs)
        return found

    @property
    def is_cut(self) -> bool:
        """True if there are perhaps more arrays than are listed."""
        return self.is_folder and len(self.names()) >= MOST_LISTED

    def entry(self, name: str) -> dict[str, Any] | None:
        """Return None: an array has to be opened for its shape."""
        return None

    def check(self) -> None:
        """Look which arrays and groups a folder has; a large one takes long."""
        if self.is_folder and self._packed is None:
            self._found = self._walk()

    def key(self, name: str) -> Any:
        """Return what changes when shape and data type of an array may."""
        if self._packed is not None or not isinstance(self._root, Path):
            return None
        path = self._root / name if self.is_folder else self._root
        try:
            about = os.stat(f"{without_suffix(os.fspath(path))}{METADATA}")
        except OSError:
            return None
        return about.st_mtime_ns, about.st_size, about.st_ino

    def exhibit(self, name: str) -> Exhibit:
        """Open an array."""
        first, self._first = self._first, None
        if first is not None:
            return first
        if self.is_folder and self._packed is None:
            # Links may have come since the latest look.
            where = self._root.resolve()
            if not _is_inside(os.fspath(where / name) + METADATA, where):
                raise MissingError(errno.ENOENT, "no array of this name in the folder", name)
        return Exhibit(self._root / name if self.is_folder else self._root)

    def close(self) -> None:
        """Close what is open."""
        if self._first is not None:
            self._first.close()


def _parents(name: str) -> list[str]:
    """Return the names of the groups that an array is in; the outermost is empty."""
    parts = name.split("/")[:-1]
    return ["", *("/".join(parts[: n + 1]) for n in range(len(parts)))]


def _is_inside(path: str, root: Path) -> bool:
    """Tell whether all files of an array lie below a folder after resolving links."""
    names = all_names(without_suffix(path))
    return all(root in Path(os.path.realpath(name)).parents for name in names)
