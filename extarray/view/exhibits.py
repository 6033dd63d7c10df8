"""The arrays on show: one, or those of a folder, open for reading."""

from __future__ import annotations

import errno
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from extarray.array.coordinates import Coordinate, coordinate_of
from extarray.array.creation import open as open_array
from extarray.common.errors import ExtArrayError, MissingError, ReplacedError
from extarray.common.formatting import format_attrs, format_bytes, format_disk, format_fill, text_of
from extarray.fetched.paths import local_or_remote
from extarray.format.labels import SPLIT, known_split
from extarray.format.suffixes import METADATA, all_names, split_name, without_suffix
from extarray.maintenance.group_files import is_in_the_making
from extarray.maintenance.group_index import names_in_group
from extarray.storage.filesystem import has_files, walk_folders
from extarray.view.encoding import PARTS, Choice, choices_of
from extarray.view.looks import coordinate_facts, look_of

__all__ = ["Exhibit", "Gallery"]

_MOST_OPEN = 16  # arrays
_MOST_LISTED = 2000


class Exhibit:
    """An array on show.

    Parameters
    ----------
    path : path
    """

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
        return choices_of(self.array.dtype)


class Gallery:
    """The arrays that a page may ask for, by name; nothing else can be reached.

    Parameters
    ----------
    path : path
        An array, or a group: a folder, or a packed file.

    Raises
    ------
    MissingError
        There is no array.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text = os.fspath(path)
        self._root: Any = local_or_remote(text) or Path(text)
        self.title = str(self._root)  # without secrets
        self._packed = None if has_files(text) else names_in_group(text)
        self.is_folder = self._packed is not None or (os.path.isdir(text) and not has_files(text))
        self._open: dict[str, Exhibit] = {}  # the most recently used one last
        self._used: dict[str, int] = {}
        self._lock = threading.Lock()
        self._alone = ""
        if self.is_folder:
            if not self.names():
                raise MissingError(errno.ENOENT, "no array in this folder", self.title)
        else:
            exhibit = Exhibit(self._root)
            self._alone = exhibit.array.path.name
            self._open[self._alone] = exhibit

    def names(self) -> list[str]:
        """Return the names of the arrays, in order."""
        if not self.is_folder:
            return [self._alone]
        if self._packed is not None:
            return self._packed[:_MOST_LISTED]
        root = self._root.resolve()
        found = set()
        for where, folders, files in walk_folders(root):  # does not follow links
            folders[:] = sorted(f for f in folders if not is_in_the_making(f))
            for file in files:
                stem, suffix = split_name(file)
                if suffix == METADATA and _is_inside(os.path.join(where, file), root):
                    found.add((Path(where) / stem).relative_to(root).as_posix())
            if len(found) >= _MOST_LISTED:
                break
        return sorted(found)[:_MOST_LISTED]

    def listing(self) -> list[dict[str, Any]]:
        """Return name, shape and data type of each array, or its error."""
        entries = []
        for name in self.names():
            try:
                with self.exhibit(name) as exhibit:
                    array = exhibit.shown
                    entries.append(
                        {"name": name, "shape": list(array.shape), "dtype": str(array.dtype)}
                    )
            except (ExtArrayError, OSError) as error:
                entries.append({"name": name, "error": " ".join(str(error).split())})
        return entries

    @contextmanager
    def exhibit(self, name: str) -> Iterator[Exhibit]:
        """Open an array by its name, and keep it open while in use.

        Raises
        ------
        MissingError
            No array has the name.
        """
        with self._lock:
            exhibit = self._open.pop(name, None)
            if exhibit is None:
                if name not in self.names():
                    raise MissingError(errno.ENOENT, "no array of this name", name)
                exhibit = Exhibit(self._root / name if self.is_folder else self._root)
            self._open[name] = exhibit
            self._used[name] = self._used.get(name, 0) + 1
            idle = [other for other in self._open if not self._used.get(other)]
            too_many = [
                self._open.pop(other) for other in idle[: max(0, len(self._open) - _MOST_OPEN)]
            ]
        for other in too_many:
            other.close()
        try:
            yield exhibit
        finally:
            with self._lock:
                self._used[name] -= 1

    def close(self) -> None:
        """Close all arrays."""
        with self._lock:
            for exhibit in self._open.values():
                exhibit.close()
            self._open.clear()

    def coordinates(self, name: str, exhibit: Exhibit) -> list[Coordinate | None]:
        """Return the coordinate of each axis of an array."""
        array = exhibit.array
        dims = array.dims or tuple(f"dim_{j}" for j in range(array.ndim))
        attrs = array.attrs.asdict()
        shown = exhibit.shown.dims or dims
        # Axes that a split makes are not cut: their labels count from 0.
        names = [*dims, *(dim for dim in shown if dim not in dims)]
        origin = [*array.origin, *(0 for _ in names[len(dims) :])]

        def coordinate(dim: str) -> Coordinate | None:
            axis = names.index(dim)
            return coordinate_of(axis, names, origin, attrs, lambda dim: self._sibling(name, dim))

        return [coordinate(dim) for dim in shown]

    def _sibling(self, name: str, other: str) -> Any:
        """Return the array of another name in the same folder, or None."""
        if not self.is_folder or other in (".", "..") or "/" in other:
            return None
        path = (Path(name).parent / other).as_posix()
        if path == name or path not in self.names():
            return None
        try:
            with self.exhibit(path) as exhibit:
                return exhibit.array
        except (ExtArrayError, OSError):
            return None

    def describe(self, name: str, exhibit: Exhibit) -> dict[str, Any]:
        """Return the facts that the page needs before it shows elements of an array."""
        revision = exhibit.revision
        array, shown = exhibit.array, exhibit.shown
        info = array.info()
        if shown is not array:
            chunks, zeros = shown.chunks, (0,) * shown.ndim
            grid = tuple(-(-n // c) for n, c in zip(shown.shape, chunks, strict=True))
            info |= {"shape": shown.shape, "dims": shown.dims, "chunks": chunks, "grid": grid}
            info |= {"offset": zeros, "origin": zeros}
        names = list(info["dims"] or [f"axis {j}" for j in range(shown.ndim)])
        coordinates = self.coordinates(name, exhibit)
        return {
            "name": name,
            "revision": revision,
            "shape": list(info["shape"]),
            "names": names,
            "coordinates": [c and coordinate_facts(c) for c in coordinates],
            "dtype": _short(str(info["dtype"])),
            "choices": [_choice(choice, info["fill_value"]) for choice in exhibit.choices()],
            "chunks": list(info["chunks"]),
            "grid": list(info["grid"]),
            "offset": list(info["offset"]),
            "origin": list(info["origin"]),
            "fill": _short(format_fill(info["fill_value"])),
            "bytes": format_bytes(info["logical_bytes"]),
            "disk": format_disk(info),
            "segments": info["segments"],
            "order": info["order"],
            "attrs": [_short(line) for line in format_attrs(info)],
            **look_of(array.attrs, names, shown.shape, array.dtype),
        }


def _choice(choice: Choice, fill: Any) -> dict[str, Any]:
    """Return the facts that the page needs about a field."""
    value = choice.of(fill)
    return {
        "label": choice.label,
        "dtype": str(choice.dtype),
        "kind": choice.kind,
        "unit": choice.unit,
        "parts": list(PARTS) if choice.kind == "complex" else [],
        "fill": text_of(value),
        # Zero is often an ordinary value.
        "zero": bool(value == np.zeros((), choice.dtype)[()]),
    }


def _short(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:299]}…"


def _is_inside(path: str, root: Path) -> bool:
    """Tell whether all files of an array lie below a folder after resolving links."""
    names = all_names(without_suffix(path))
    return all(root in Path(os.path.realpath(name)).parents for name in names)
