"""The arrays on show: one, those of a folder or of a file, or several of these."""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from extarray.array.coordinates import Coordinate, coordinate_of
from extarray.common.errors import ArgumentError, ExtArrayError, MissingError
from extarray.common.formatting import format_attrs, format_bytes, format_fill, text_of
from extarray.format.suffixes import PAIR
from extarray.formats import Packing
from extarray.maintenance.group_index import names_in_group
from extarray.remote.urls import is_url
from extarray.storage.filesystem import has_files
from extarray.view.encoding import PARTS, Choice
from extarray.view.foreign import ForeignExhibit, ForeignFile, foreign_file
from extarray.view.looks import coordinate_facts, look_of
from extarray.view.places import Arrays, Exhibit

__all__ = ["Gallery"]

_MOST_OPEN = 16  # arrays
_MOST_ATTRS = 1 << 16  # letters of the attributes of all groups
_LOOK = 1.0  # seconds between two looks at what there is
_SHARE = 20  # times as long as a look took, until the next one
_PATIENCE = 1.0  # seconds of a look in which arrays are opened for their shapes


def _place(path: str | os.PathLike[str]) -> Arrays | ForeignFile:
    """Return the arrays that a path names."""
    text = os.fspath(path)
    # Other formats are archives, too: without arrays of ours.
    if has_files(text) or text.endswith(PAIR) or is_url(text) or names_in_group(text):
        return Arrays(text)
    return foreign_file(text) or Arrays(text)


class Gallery:
    """The arrays that a page may ask for, by name; nothing else can be reached.

    Parameters
    ----------
    *paths : path
        Each an array, a group (a folder, or a packed file), or a file of another format.  The names
        of the arrays of several paths begin with those of the files or folders.

    Raises
    ------
    MissingError
        There is no array.
    """

    def __init__(self, *paths: str | os.PathLike[str]) -> None:
        if not paths:
            raise ArgumentError("give at least one path")
        self._places: dict[str, Arrays | ForeignFile] = {}
        self._open: dict[str, Exhibit | ForeignExhibit] = {}  # the most recently used one last
        self._used: dict[str, int] = {}
        self._lock, self._looking = threading.Lock(), threading.Lock()
        self._entries: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._tree: dict[str, Any] = {}
        self._revision, self._next = secrets.randbits(48), 0.0
        try:
            for path in paths:
                place = _place(path)
                label = "" if len(paths) == 1 else self._label(place.title)
                self._places[label] = place
        except BaseException:
            self.close()
            raise
        places = list(self._places.values())
        self.title = ", ".join(place.title for place in places)
        self.is_folder = len(places) > 1 or places[0].is_folder

    def _label(self, title: str) -> str:
        """Return a name for one of several paths."""
        name = Path(title.rstrip("/\\")).name or title
        later = (f"{name} ({n})" for n in itertools.count(2))
        return next(each for each in itertools.chain([name], later) if each not in self._places)

    def names(self) -> list[str]:
        """Return the names of the arrays, in order."""
        return [full for label, place in self._places.items() for full in _full_names(label, place)]

    def _find(self, name: str) -> tuple[Arrays | ForeignFile, str]:
        """Return the place of an array, and its name there.

        Raises
        ------
        MissingError
            No array has the name.
        """
        for looks in (False, True):  # it may be newer than the latest look
            for label, place in self._places.items():
                if looks:
                    with contextlib.suppress(ExtArrayError, OSError):
                        place.check()
                inner = _full_names(label, place).get(name)
                if inner is not None:
                    return place, inner
        raise MissingError(errno.ENOENT, "no array of this name", name)

    def tree(self, known: int | None = None) -> dict[str, Any] | None:
        """Return the arrays with shape and data type, or an error, and the groups.

        Parameters
        ----------
        known : int, optional
            Return None if what there is still has this revision.
        """
        with self._looking:
            if time.monotonic() >= self._next:
                clock = time.monotonic()
                found = self._look(clock + _PATIENCE)
                if found != self._tree:
                    self._tree = found
                    self._revision += 1
                self._next = time.monotonic() + max(_LOOK, _SHARE * (time.monotonic() - clock))
            if known == self._revision:
                return None
            facts = {"title": self.title, "is_folder": self.is_folder, "tree": self._revision}
            return facts | self._tree

    def _look(self, end: float) -> dict[str, Any]:
        """Look at all places; arrays that are new are opened before an end."""
        arrays: list[dict[str, Any]] = []
        groups: list[dict[str, Any]] = []
        left = _MOST_ATTRS
        for label, place in self._places.items():
            error = None
            try:
                place.check()
            except (ExtArrayError, OSError) as problem:
                error = _line(problem)
            for full, name in _full_names(label, place).items():
                arrays.append(self._entry(full, place, name, error, end))
            for name, attrs in place.groups().items():
                if left > 0:
                    full = "/".join(filter(None, [label, name]))
                    lines = _attrs(attrs)
                    left -= sum(map(len, lines))
                    groups.append({"name": full, "attrs": lines})
        names = {each["name"] for each in arrays}
        self._entries = {n: entry for n, entry in self._entries.items() if n in names}
        is_cut = any(place.is_cut for place in self._places.values())
        return {"arrays": arrays, "groups": groups, "is_cut": is_cut}

    def _entry(
        self, full: str, place: Arrays | ForeignFile, name: str, error: str | None, end: float
    ) -> dict[str, Any]:
        """Return what a list tells about an array."""
        if error is not None:
            return {"name": full, "error": error}
        entry = place.entry(name)
        if entry is not None:
            return {"name": full, **entry}
        key = place.key(name)
        known = self._entries.get(full)
        if known is not None and known[0] == key:
            return known[1]
        if time.monotonic() > end:
            return {"name": full}
        try:
            with self.exhibit(full) as exhibit:
                exhibit.refresh()
                array = exhibit.shown
                entry = {
                    "name": full,
                    "shape": list(array.shape),
                    "dtype": _short(str(array.dtype)),
                }
        except (ExtArrayError, OSError) as problem:
            entry = {"name": full, "error": _line(problem)}
        self._entries[full] = (key, entry)
        return entry

    @contextmanager
    def exhibit(self, name: str) -> Iterator[Exhibit | ForeignExhibit]:
        """Open an array by its name, and keep it open while in use.

        Raises
        ------
        MissingError
            No array has the name.
        """
        with self._lock:
            exhibit = self._open.pop(name, None)
            if exhibit is None:
                place, inner = self._find(name)
                exhibit = place.exhibit(inner)
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
            for place in self._places.values():
                place.close()

    def coordinates(self, name: str, exhibit: Exhibit | ForeignExhibit) -> list[Coordinate | None]:
        """Return the coordinate of each axis of an array."""
        array = exhibit.array
        dims = array.dims or tuple(f"dim_{j}" for j in range(array.ndim))
        attrs = exhibit.attrs()
        shown = exhibit.shown.dims or dims
        # Axes that a split makes are not cut: their labels count from 0.
        names = [*dims, *(dim for dim in shown if dim not in dims)]
        origin = [*array.origin, *(0 for _ in names[len(dims) :])]

        def coordinate(dim: str) -> Coordinate | None:
            axis = names.index(dim)
            return exhibit.coordinate(dim) or coordinate_of(
                axis, names, origin, attrs, lambda dim: self._sibling(name, dim)
            )

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

    def describe(self, name: str, exhibit: Exhibit | ForeignExhibit) -> dict[str, Any]:
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
            "choices": [
                _choice(choice, info["fill_value"], exhibit) for choice in exhibit.choices()
            ],
            "chunks": list(info["chunks"]),
            "grid": list(info["grid"]),
            "offset": list(info["offset"]),
            "origin": list(info["origin"]),
            "fill": _short(format_fill(info["fill_value"])),
            "bytes": format_bytes(info["logical_bytes"]),
            "disk": exhibit.disk(info),
            "segments": info["segments"],
            "order": info["order"],
            "attrs": [_short(line) for line in format_attrs(info)],
            "code": exhibit.code(),
            "has_growth": exhibit.has_growth,
            "is_still": exhibit.is_still,
            **look_of(exhibit.attrs(), names, shown.shape, array.dtype),
        }


def _choice(choice: Choice, fill: Any, exhibit: Exhibit | ForeignExhibit) -> dict[str, Any]:
    """Return the facts that the page needs about a field."""
    value = choice.fill_of(fill)
    return {
        "label": choice.label,
        "python": "".join(
            f"[{step!r}]" if isinstance(step, str) else f"[..., {', '.join(map(str, step))}]"
            for step in choice.steps
        ),
        "dtype": str(choice.dtype),
        "packing": None if choice.packing is None else _packing(choice.packing, exhibit),
        "kind": choice.kind,
        "unit": choice.unit,
        "parts": list(PARTS) if choice.kind == "complex" else [],
        "fill": text_of(value),
        # Zero is often an ordinary value.
        "zero": bool(value == np.zeros((), choice.dtype)[()]),
    }


def _packing(packing: Packing, exhibit: Exhibit | ForeignExhibit) -> dict[str, Any]:
    """Return how Python unpacks numbers: by ``"code"``, which opens them unpacked, or itself."""
    if any(isinstance(each, np.ndarray) for each in (packing.scale, packing.offset)):
        return {"code": exhibit.code(unpacked=True)}
    missing = [value.item() for value in map(np.asarray, packing.missing) if value == value]
    return {
        "code": None,
        "stored": None if packing.stored is None else packing.stored.name,
        "dtype": packing.values.name,
        "scale": "" if packing.scale == 1 else repr(packing.scale),
        "offset": "" if packing.offset == 0 else repr(packing.offset),
        "missing": [repr(value) if math.isfinite(value) else f"np.{value}" for value in missing],
    }


def _short(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:299]}…"


def _line(error: Exception) -> str:
    """Return the message of an error in one line."""
    return " ".join(str(error).split())


def _attrs(attrs: Mapping[str, Any]) -> list[str]:
    """Return names and values of the attributes of a group, one a line."""
    return [_short(line) for line in format_attrs({"attrs": attrs, "dims": None})]


def _full_names(label: str, place: Arrays | ForeignFile) -> dict[str, str]:
    """Return the names of the arrays of a place: those on show, and those in the place."""
    if not label:
        return {name: name for name in place.names()}
    if not place.is_folder:
        return dict.fromkeys([label], place.names()[0])
    return {f"{label}/{name}": name for name in place.names()}
