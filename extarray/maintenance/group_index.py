"""Indexes of groups, for readers that cannot list a folder; and groups that such readers see."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extarray.common.config import config
from extarray.common.errors import (
    ArgumentTypeError,
    FormatError,
    MissingError,
    ResultError,
)
from extarray.common.hints import hint
from extarray.common.lazy import LazyImports
from extarray.fetched.paths import NOT_THERE, local_or_remote, refuse_writing
from extarray.format.index import INDEX_NAME, Index, decode_index, encode_index
from extarray.maintenance.group_files import (
    ARRAY,
    GROUP,
    InFolder,
    InPacked,
    packed_names,
    write_whole,
)
from extarray.storage.filesystem import family

if TYPE_CHECKING:
    from os import PathLike

    from extarray.fetched.heads import Place
    from extarray.fetched.packs import RemotePack
    from extarray.fetched.paths import RemotePath

__all__ = [
    "InIndex",
    "InPublished",
    "InRemotePack",
    "group_at",
    "index_group",
    "names_in_group",
    "renew_indexes",
]

# For groups elsewhere: with them come asyncio, ssl and email.
_later = LazyImports(
    {
        "extarray.fetched.heads": "find_group read_place",
        "extarray.fetched.packs": "RemotePack TAIL_BYTES",
        "extarray.remote.objects": "RemoteObject",
    }
)


def index_group(path: str | PathLike[str]) -> None:
    """Write an index of a group into its folder, for readers on a web server or in a bucket.

    Servers do not list folders, at least not all alike.  The index, ``extarray-index.json``, lists
    the arrays and groups in the folder and below, and has the attributes of the groups: upload it
    with them, and ``extarray.open_group(url)`` opens the group with one request.  A folder that has
    an index keeps it up to date when a group changes (`Group.create`, ``del``, `Group.move`,
    attributes, datasets of xarray); index it anew after other programs have changed it.

    Parameters
    ----------
    path : str or PathLike
        Path of the folder.

    Raises
    ------
    MissingError
        A FileNotFoundError: there is no such folder.
    StorageError

    Examples
    --------
    >>> import extarray as xa
    >>> with xa.open_group("reading", "w") as g:
    ...     a = g.create("station/wind", shape=(2, 3))
    >>> xa.index_group("reading")
    """
    there = local_or_remote(path)
    if there is not None:
        raise refuse_writing(there, "write an index of '{}'")
    try:
        folder = Path(os.path.abspath(os.fsdecode(path)))
    except TypeError:
        raise ArgumentTypeError(
            f"path must be a str or a path, not {type(path).__name__}"
        ) from None
    if not folder.is_dir():
        raise MissingError(errno.ENOENT, "no such folder", os.fsdecode(path))
    _write(folder)


def _write(folder: Path) -> None:
    inside = InFolder(folder)
    arrays: list[str] = []
    groups = {"": inside.load_attrs("")}
    left = [""]
    while left:
        key = left.pop()
        for name, kind in inside.entries(key):
            full = f"{key}/{name}" if key else name
            if kind == ARRAY:
                arrays.append(full)
            else:
                groups[full] = inside.load_attrs(full)
                left.append(full)
    write_whole(folder / INDEX_NAME, encode_index(arrays, groups))


def renew_indexes(folder: str | Path) -> None:
    """Bring the indexes of a folder, and of all that it lies in, up to date, where they exist."""
    place = Path(folder)
    for parent in (place, *place.parents):
        if os.path.lexists(parent / INDEX_NAME):
            _write(parent)


# -- groups elsewhere ----------------------------------------------------------------------------


class InRemotePack(InPacked):
    """The members of a group in a packed file elsewhere."""

    def __init__(self, pack: RemotePack, inner: str) -> None:
        root = pack.path / inner
        root.pack = pack
        super().__init__(pack, inner, root)
        self._pack = pack
        self.is_alone = pack.alone is not None and not inner

    def load_attrs(self, key: str) -> bytes | None:
        """Return the content of the attributes member, or None if there is none."""
        member = self._groups[f"{self._prefix}{key}".removesuffix("/")]
        return None if member is None else self._pack.load(member)


class InIndex:
    """The members of a group elsewhere that has an index."""

    def __init__(self, root: RemotePath, index: Index) -> None:
        self.root: Any = root
        self._take(index)

    def _take(self, index: Index) -> None:
        """List what an index has."""
        self._groups, self._arrays = index.groups, index.arrays
        self._inside: dict[str, dict[str, str]] = {}
        for name in filter(None, index.groups):
            self._put(name, GROUP)
        for name in index.arrays:
            self._put(name, ARRAY)

    def _put(self, name: str, kind: str) -> None:
        """Note a member, and the groups that its name goes through."""
        folder, _, last = name.rpartition("/")
        self._inside.setdefault(folder, {})[last] = kind
        while folder:
            folder, _, last = folder.rpartition("/")
            self._inside.setdefault(folder, {}).setdefault(last, GROUP)

    def array_names(self) -> list[str]:
        """Return the names of all arrays in the group and below."""
        return sorted(self._arrays)

    def path(self, key: str) -> Any:
        """Return the path of a member."""
        return self.root / key if key else self.root

    def kind(self, key: str) -> str | None:
        """Return whether a name is an array or a group; None if it is neither."""
        if not key:
            return GROUP
        folder, _, last = key.rpartition("/")
        return self._inside.get(folder, {}).get(last)

    def entries(self, key: str) -> list[tuple[str, str]]:
        """Return the names and kinds of the members of a group, sorted by name."""
        return sorted(self._inside.get(key, {}).items())

    def load_attrs(self, key: str) -> bytes | None:
        """Return the content of the attributes file, or None if there was none."""
        return self._groups.get(key)

    def explain(self, key: str) -> str:
        """Say why a listed array may be missing."""
        return (
            f"the index of the group '{self.root}' lists {key!r}, which is not there: the index is "
            f"outdated; write it anew with {_how_to_index()}, and upload it"
        )


class InPublished(InIndex):
    """The members of a published group, as the newest head has them that was fetched.

    Parameters
    ----------
    root : RemotePath
        The path that was asked for: of the place, or below it.
    place : Place
    inner : str
        The name of the group in the place.
    """

    def __init__(self, root: RemotePath, place: Place, inner: str) -> None:
        self.place, self._inner = place, inner
        root.place = place
        super().__init__(root, _index_below(place.index, inner))

    def renew(self) -> None:
        """List what the newest head has that was fetched."""
        self._take(_index_below(self.place.index, self._inner))

    def explain(self, key: str) -> str:
        """Say why a listed array may be missing."""
        return f"the group '{self.root}' has lost {key!r} meanwhile; refresh it"


def _how_to_index() -> str:
    return hint("extarray.index_group(folder)", "extarray index FOLDER")


def group_at(path: RemotePath) -> InRemotePack | InIndex:
    """Open a group elsewhere: published, in a packed file, or a folder with an index."""
    packed = path.packed()
    if packed is None:
        try:
            return _read_index(path, path)
        except NOT_THERE as error:
            missing = error
        found = _published(path) or _in_another(path)
        if found is not None:
            return found
        try:
            packed = (pack := _later.RemotePack(path.as_file())).path, ""
        except (*NOT_THERE, FormatError):
            if not isinstance(missing, MissingError):
                raise missing from None
            raise MissingError(
                errno.ENOENT,
                f"no group '{path}': it is not published, no packed file, and has no index; write "
                f"one with {_how_to_index()}, and upload it with the arrays",
                missing.filename,
            ) from None
    else:
        pack = path.pack = path.pack or _later.RemotePack(packed[0])
    if packed[1] not in pack.groups:
        raise MissingError(errno.ENOENT, "no such group in the packed file", str(path))
    return InRemotePack(pack, packed[1])


def names_in_group(path: str | PathLike[str]) -> list[str] | None:
    """Return the names of the arrays of a packed group, or of one elsewhere.

    Parameters
    ----------
    path : str or PathLike

    Returns
    -------
    list of str or None
        None: the path names no such group, but perhaps an array or a folder.
    """
    there = local_or_remote(path)
    if there is None:
        return packed_names(Path(path))
    try:
        place = group_at(there)
    except NOT_THERE:
        return None
    if isinstance(place, InRemotePack) and place.is_alone:
        return None
    return place.array_names()


def _published(path: RemotePath) -> InPublished | None:
    """Open a published group; None if there is none."""
    try:
        place = _later.read_place(path)
    except NOT_THERE:
        return None
    if not place.is_group:
        raise MissingError(
            errno.ENOENT,
            f"'{path}' is a published array, not a group; "
            + hint("use extarray.open", "give its path alone"),
            str(path),
        )
    return InPublished(path, place, "")


def _in_another(path: RemotePath) -> InIndex | None:
    """Open a group by the index of a group that it is in, or of a published one."""
    place = path
    while place.parts:
        place = place.parent
        with suppress(*NOT_THERE):
            return _read_index(place, path)
    found = _later.find_group(path)
    if found is None or found[1] not in _groups_of(found[0].index):
        return None
    return InPublished(path, *found)


def _groups_of(index: Index) -> set[str]:
    """Return the names of all groups, also of those that the names of others go through."""
    found = set(index.groups)
    for name in (*index.groups, *index.arrays):
        while name:
            name = name.rpartition("/")[0]
            found.add(name)
    return found


def _index_below(index: Index, prefix: str) -> Index:
    """Return the part of an index that lists a group in it."""
    start = f"{prefix}/" if prefix else ""
    arrays = [name[len(start) :] for name in index.arrays if name.startswith(start)]
    groups = {
        name[len(start) :]: attrs for name, attrs in index.groups.items() if name.startswith(start)
    }
    groups[""] = index.groups.get(prefix)
    return Index(arrays, groups)


def _read_index(place: RemotePath, path: RemotePath) -> InIndex:
    """Read the index of a group, for a group in it."""
    with family("cannot open the group '{}'", path):
        found, tail = _later.RemoteObject.read_tail(
            (place / INDEX_NAME).object(), _later.TAIL_BYTES
        )
        if found.size > config.max_result:
            raise ResultError(
                f"the index of '{place}' has {found.size} bytes, more than config.max_result"
            )
        data = bytes(found.read(0, found.size - len(tail))) + bytes(tail)
    try:
        index = decode_index(data)
    except FormatError as error:
        raise type(error)(f"'{place}/{INDEX_NAME}': {error}") from None
    prefix = "/".join(path.parts[len(place.parts) :])
    if prefix and prefix not in index.groups:
        raise MissingError(errno.ENOENT, f"no group {prefix!r} in '{place}'", str(path))
    return InIndex(path, _index_below(index, prefix))
