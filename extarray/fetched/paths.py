"""Paths of arrays and groups on servers and in buckets, and the one door from what users give."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from extarray.common.errors import (
    AccessError,
    ArgumentError,
    ArgumentTypeError,
    MissingError,
    ReadOnlyError,
)
from extarray.common.hints import hint
from extarray.format.suffixes import PACKED, PAIR, without_suffix
from extarray.remote.urls import OF_SCHEME, is_url
from extarray.storage.filesystem import resolve_path
from extarray.storage.lock import check_timeout

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from extarray.remote.locations import Location

__all__ = [
    "NOT_THERE",
    "RemotePath",
    "as_path",
    "check_options",
    "local_or_remote",
    "refuse_writing",
    "why_read_only",
]

#: Errors for an object that may not exist: a bucket that may not be listed denies access to it.
NOT_THERE = (MissingError, AccessError)

_URL = r"(?s)(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<host>[^/?#]+)(?P<path>[^?#]*)(?P<end>.*)"


class RemotePath:
    """The path of an array or a group on a server or in a bucket.

    It is used like a `pathlib.Path` as far as it can be: ``path / "name"``, ``path.name``,
    ``path.parent``; ``str(path)`` is the URL, without secrets.

    Parameters
    ----------
    root : Location
        A folder of objects, or one object.
    parts : sequence of str
        Names from there on, the last without the suffix of a pair.
    cache : str, optional
        Folder in which chunks stay between programs.
    is_file : bool
        The root is a packed file, whatever its name is.

    Attributes
    ----------
    pack : RemotePack or None
        The packed file that the path leads to or through, if it is open.
    place : Place or None
        The published group that the path leads into, if it is open.
    """

    __slots__ = ("cache", "is_file", "pack", "parts", "place", "root")

    def __init__(
        self,
        root: Location,
        parts: tuple[str, ...] = (),
        cache: str | None = None,
        is_file: bool = False,
        pack: Any = None,
        place: Any = None,
    ) -> None:
        self.root, self.parts, self.cache, self.is_file = root, parts, cache, is_file
        self.pack, self.place = pack, place

    @classmethod
    def of(cls, given: Any, options: Mapping[str, Any] | None, cache: str | None) -> RemotePath:
        """Return the path that a user has named by a URL, or by a store and a path."""
        from extarray.remote.locations import Location

        if isinstance(given, tuple) and len(given) == 2:
            text, inner = _through_pack(os.fspath(given[1]))
            first, *folders = text.split("/")
            if inner or not first or any(name in {"", ".", ".."} for name in folders):
                first, folders = text, []
            place = Location.of((given[0], first), options)
            return cls(place, inner or tuple(folders), cache, bool(inner))
        pieces = re.fullmatch(_URL, given) if isinstance(given, str) else None
        if pieces is None or pieces["scheme"].lower() not in OF_SCHEME:
            text, inner = _through_pack(given) if isinstance(given, str) else (given, ())
            return cls(Location.of(text, options), inner, cache, bool(inner))
        path, end = pieces["path"], pieces["end"]
        is_web = pieces["scheme"].lower().startswith("http")
        if not is_web and "?" in end:
            raise ArgumentError(
                f"a {pieces['scheme']} URL has no query, such as a signature: give credentials in "
                "storage_options, or an https URL; an object whose name has '?' opens by "
                "(store, path)"
            )
        if not is_web:
            path, end = path + end, ""  # "#" in the name of an object
        root = Location.of(f"{pieces['scheme']}://{pieces['host']}/{end}", options)
        names = tuple(name for name in path.split("/") if name)
        if is_web:
            names = tuple(map(unquote, names))
        return cls(root, _without_suffix(names), cache)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.root, self.parts, self.cache, self.is_file)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return "/".join([self.root.url.rstrip("/"), *self.parts])

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    @property
    def name(self) -> str:
        """The last name, without the suffix of a pair."""
        return self.parts[-1] if self.parts else self.root.name

    @property
    def stem(self) -> str:
        """The last name without any suffix."""
        return os.path.splitext(self.name)[0]

    @property
    def parent(self) -> RemotePath:
        """The folder."""
        if not self.parts:
            raise ArgumentError(f"'{self}' has no folder that is known")
        return self._with(self.parts[:-1])

    def _with(self, parts: tuple[str, ...]) -> RemotePath:
        return RemotePath(self.root, parts, self.cache, self.is_file, self.pack, self.place)

    def outside(self) -> RemotePath:
        """Return the path alone, so that whoever opens it opens what is there then."""
        return RemotePath(self.root, self.parts, self.cache, self.is_file)

    def __truediv__(self, name: str) -> RemotePath:
        return self._with((*self.parts, *(part for part in name.split("/") if part)))

    def with_name(self, name: str) -> RemotePath:
        """Return the path beside this one."""
        return self.parent / name

    def joined(self, relative: str) -> RemotePath:
        """Follow a relative path with ``..`` from here; raise ArgumentError if it leads outside."""
        if relative.startswith("/"):
            raise ArgumentError(f"{relative!r} leads out of '{self}'")
        parts = list(self.parts)
        for part in relative.split("/"):
            if part == "..":
                if not parts:
                    raise ArgumentError(f"{relative!r} leads out of '{self}'")
                parts.pop()
            elif part not in ("", "."):
                parts.append(part)
        return self._with(tuple(parts))

    def object(self, suffix: str = "") -> Location:
        """Return the location of the object with this path and a suffix."""
        found = self.root.child("/".join(self.parts)) if self.parts else self.root
        return found.suffixed(suffix) if suffix else found

    def as_file(self) -> RemotePath:
        """Return the path as that of a packed file, whatever its name is."""
        return RemotePath(self.object(), (), self.cache, True)

    def packed(self) -> tuple[RemotePath, str] | None:
        """Return the packed file that the path leads to or through, by its name, and the rest."""
        if self.is_file or self.root.name.endswith(PACKED):
            return self._with(()), "/".join(self.parts)
        for i, part in enumerate(self.parts, 1):
            if part.endswith(PACKED):
                return self._with(self.parts[:i]), "/".join(self.parts[i:])
        return None


def _through_pack(text: str) -> tuple[str, tuple[str, ...]]:
    """Split a path at the packed file that it leads through; take away the suffix of a pair."""
    file, end, inner = text.partition(f"{PACKED}/")
    if not end:
        return without_suffix(text), ()
    return file + PACKED, _without_suffix(tuple(name for name in inner.split("/") if name))


def _without_suffix(parts: tuple[str, ...]) -> tuple[str, ...]:
    if not parts:
        return parts
    last = without_suffix(parts[-1])
    if last.endswith(PAIR):
        raise ArgumentError(f"path {parts[-1]!r} has two suffixes; leave them out")
    return (*parts[:-1], last)


def local_or_remote(
    path: Any, storage_options: Mapping[str, Any] | None = None, cache: Any = None
) -> RemotePath | None:
    """Return the remote path that a user's path means; None for a path of this machine.

    This is the one door through which URLs come in.

    Parameters
    ----------
    path : str, PathLike, RemotePath, or what `Location.of` takes
    storage_options : mapping, optional
        Options of the URL's store.
    cache : str or PathLike, optional
        Folder of the cache.
    """
    folder = None if cache is None else _folder(cache)
    if isinstance(path, RemotePath):
        if folder is None or folder == path.cache:
            return path
        return RemotePath(path.root, path.parts, folder, path.is_file, path.pack, path.place)
    if is_url(path):
        return RemotePath.of(path, storage_options, folder)
    for name, given in (("storage_options", storage_options or None), ("cache", cache)):
        if given is not None:
            raise ArgumentError(
                f"{name} is for arrays on servers and in buckets, but path {path!r} is a local "
                "file; leave it out"
            )
    return None


def _folder(cache: Any) -> str:
    """Return the absolute path of the cache."""
    try:
        name = os.fsdecode(cache)
    except TypeError:
        raise ArgumentTypeError(
            f"cache must be the path of a folder, not {type(cache).__name__}"
        ) from None
    if not name:
        raise ArgumentError("cache must be the path of a folder; leave it out to keep no chunks")
    return os.path.abspath(name)


def as_path(
    path: Any, storage_options: Mapping[str, Any] | None = None, cache: Any = None
) -> Path | RemotePath:
    """Return the path of an array, local or remote, without suffix."""
    found = local_or_remote(path, storage_options, cache)
    return resolve_path(path) if found is None else found


def check_options(path: RemotePath, timeout: float | None) -> None:
    """Refuse what an array elsewhere cannot do for whoever opens it for reading."""
    if check_timeout(timeout) != 0:
        raise ArgumentError(
            f"timeout is for locks of files, which '{path}' lacks; seconds to wait for its server "
            "go in storage_options={'timeout': ...}"
        )


def why_read_only() -> str:
    """Say why nobody can write to an array elsewhere, and what to do instead."""
    how = hint("extarray.open(url).copy(path)", "extarray copy URL PATH")
    return (
        f"arrays on servers and in buckets can only be read; copy it to a file with {how}, change "
        "that, and upload it"
    )


def refuse_writing(path: object, what: str = "open '{}' for writing") -> ReadOnlyError:
    """Return the error for a change of what lies on a server or in a bucket."""
    return ReadOnlyError(f"cannot {what.replace('{}', str(path), 1)}: {why_read_only()}")
