"""An open group: the arrays that it has open, and operations on its members."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import threading
import weakref
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from extarray.array.creation import open as open_array
from extarray.array.group import commit, locked, moments, refresh
from extarray.array.life import check_not_held
from extarray.common.errors import (
    AxisError,
    ClosedError,
    ExtArrayError,
    FormatError,
    MissingError,
    ReadOnlyError,
    ReplacedError,
    ShapeError,
    StorageError,
)
from extarray.common.lazy import LazyImports
from extarray.common.system import FREES_FOLDERS, replace
from extarray.format.archive import ATTRS_NAME
from extarray.format.attrs import attrs_of_group
from extarray.format.index import INDEX_NAME
from extarray.format.suffixes import all_names
from extarray.maintenance.group_files import (
    ARRAY,
    GROUP,
    InFolder,
    InPacked,
    link_rest,
    remove_folder,
    remove_tree,
    swap_folders,
    sweep,
)
from extarray.maintenance.group_index import InIndex, InPublished, index_group, renew_indexes
from extarray.storage.filesystem import family, sync_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, MutableMapping

    from extarray.array.array import ExtArray
    from extarray.maintenance.packing import Part, Snapshot
    from extarray.storage.store import Present

__all__ = ["Session", "is_in"]

_later = LazyImports({"extarray.maintenance.packing": "Part Snapshot"})

_MOST_ROWS = 200  # of a tree
_MOST_KEPT = 16  # readers that packing keeps open: each takes descriptors
_MOST_OPEN = 64  # open writers to which only the group refers
_ALONE = 2  # references to an item that only one list has: the list's, and getrefcount's own


def is_in(name: str, key: str) -> bool:
    """Tell whether a name is a key, or lies below it."""
    return not key or name == key or name.startswith(f"{key}/")


class Session:
    """The place of a group and of the groups in it, and the arrays that are open.

    Members have keys: their paths from the group that was opened, whose own key is "".
    """

    def __init__(
        self, place: InFolder | InPacked | InIndex, shown: str, mode: str, options: dict[str, Any]
    ) -> None:
        self.place, self.shown, self.mode, self.options = place, shown, mode, options
        self.is_closed = False
        self.lock = threading.RLock()
        # A reader stays open while anything refers to it.  Writers stay open, or else each write
        # would open one again; those asked for longest ago come first.
        self.writers: OrderedDict[str, ExtArray] = OrderedDict()
        self.arrays: MutableMapping[str, ExtArray] = (
            self.writers if mode == "r+" else weakref.WeakValueDictionary()
        )
        self._most = _MOST_OPEN

    def check(self, what: str | None = None) -> None:
        """Raise if the group is closed, or if `what` would change a read-only one."""
        if self.is_closed:
            raise ClosedError(f"the group '{self.shown}' is closed; open it again with open_group")
        if what is not None and self.mode != "r+":
            raise ReadOnlyError(
                f"cannot {what} in the group '{self.shown}': opened with mode 'r'; reopen with "
                "mode='r+'"
            )

    # -- arrays ----------------------------------------------------------------------------------

    def _open_one(self, key: str) -> ExtArray | None:
        """Return an array that is open; None if it is not."""
        array = self.arrays.get(key)
        return None if array is None or array.closed else array

    def hold(self, key: str) -> ExtArray:
        """Return the array of a key; open it if it is not open."""
        with self.lock:
            array = self._open_one(key)
            if array is None:
                array = self._open(key, self.mode)
                self.keep(key, array)
            elif key in self.writers:
                self.writers.move_to_end(key)
            return array

    def _open(self, key: str, mode: str = "r") -> ExtArray:
        """Open the array of a key."""
        try:
            return open_array(self.place.path(key), mode, **self.options)
        except MissingError as error:
            if not isinstance(self.place, InIndex):
                raise
            raise MissingError(errno.ENOENT, self.place.explain(key), error.filename) from None

    def hold_if_there(self, key: str) -> ExtArray | None:
        """Return the array of a key; None: it was removed after it was listed."""
        try:
            return self.hold(key)
        except MissingError:
            if self.place.kind(key) == ARRAY:
                raise
            return None

    def keep(self, key: str, array: ExtArray) -> None:
        """Keep an array open; close surplus writers to which nothing else refers."""
        with self.lock:
            self.arrays.pop(key, None)  # a closed one
            self.arrays[key] = array
            if len(self.writers) <= self._most:
                return
            for name in list(self.writers)[:-1]:
                if len(self.writers) <= _MOST_OPEN:
                    break
                box = [self.writers.pop(name)]  # other threads cannot find it any more
                if sys.getrefcount(box[0]) > _ALONE:
                    self.writers[name] = box[0]
                else:
                    box[0].close()
            left = len(self.writers)
            # If users hold that many, do not look through them again for each new one.
            self._most = _MOST_OPEN if left <= _MOST_OPEN else 2 * left

    @contextlib.contextmanager
    def look(self, key: str) -> Iterator[ExtArray]:
        """Yield an array to look at: an open one, or a reader for the length of the block."""
        array = self._open_one(key)
        if array is not None:
            yield array
            return
        with self._open(key) as array:
            yield array

    def refresh(self, key: str) -> bool:
        """Take up what others have committed to the open arrays of a group, and to its members."""
        self.check()
        with self.lock, contextlib.ExitStack() as stack:
            arrays = [
                array
                for name, array in list(self.arrays.items())
                if is_in(name, key) and not array.closed
            ]
            place, is_new = self.place, False
            if isinstance(place, InPublished):
                before = place.place.sequence
                if not stack.enter_context(place.place.one_look()):
                    raise ReplacedError(
                        errno.ENOENT,
                        f"'{self.shown}' was removed, or something else was published there; open "
                        "it again",
                        self.shown,
                    )
                is_new = place.place.sequence != before
                place.renew()
                arrays = [array for array in arrays if not _files(array).is_gone]
            return refresh(arrays) or is_new

    def members(self, key: str) -> list[tuple[str, str]]:
        """Return the keys and kinds of the members of a group, sorted by name."""
        prefix = f"{key}/" if key else ""
        return [(f"{prefix}{name}", kind) for name, kind in self.place.entries(key)]

    def walk(self, key: str) -> Iterator[tuple[str, str]]:
        """Yield the keys and kinds of all members of a group and below, a group before its members.

        Groups may nest to any depth.  A group that is removed meanwhile has no members.
        """
        left = self.members(key)[::-1]
        while left:
            full, kind = left.pop()
            yield full, kind
            if kind == GROUP:
                with contextlib.suppress(MissingError):
                    left += self.members(full)[::-1]

    def keys(self, key: str, of: str = ARRAY) -> Iterator[str]:
        """Yield the keys of the arrays, or of the groups, in a group and below."""
        return (full for full, kind in self.walk(key) if kind == of)

    def hold_all(self, key: str, kind: str) -> list[ExtArray]:
        """Open an array, or all arrays in a group, so that nobody else can write to them."""
        return [self.hold(full) for full in ([key] if kind == ARRAY else self.keys(key))]

    def close(self, key: str, quietly: bool = False) -> None:
        """Close the open arrays of a group, whatever fails."""
        with self.lock, contextlib.ExitStack() as steps:
            for name in [n for n in self.arrays if is_in(n, key)]:
                array = self.arrays.pop(name)
                if quietly:
                    steps.enter_context(contextlib.suppress(ExtArrayError, OSError))
                steps.callback(array.close)

    # -- attributes of groups --------------------------------------------------------------------

    def load_attrs(self, key: str) -> str:
        """Return the attributes of a group, as JSON text."""
        self.check()
        data = self.place.load_attrs(key)
        if data is None:
            return "{}"
        try:
            return attrs_of_group(data)
        except FormatError as error:
            raise FormatError(f"'{self.place.path(key) / ATTRS_NAME}': {error}") from None

    def save_attrs(self, key: str, change: Callable[[], str | None]) -> None:
        """Save the attributes that `change` returns for a group; None: leave them."""
        with self.lock:
            self.check("change attributes")
            text = change()
            if text is not None:
                form = {"attrs": json.loads(text)}
                data = json.dumps(form, ensure_ascii=False, allow_nan=False, indent=1)
                assert isinstance(self.place, InFolder)
                self.place.save_attrs(key, f"{data}\n".encode())
                self.changed()

    def changed(self) -> None:
        """Bring the index of the group up to date, if it has one, after members changed."""
        renew_indexes(self.place.root)

    # -- changes ---------------------------------------------------------------------------------

    def remove(self, key: str, kind: str) -> None:
        """Remove an array, or a group with all its members, to which nobody else writes."""
        with self.lock:
            arrays = self.hold_all(key, kind)
            for array in arrays:
                check_not_held(array, "delete")
            if kind == ARRAY:
                _files(arrays[0]).remove()
            else:
                folder = os.fspath(self.place.path(key))
                if not FREES_FOLDERS:
                    # Even if the folder gets another name, open files keep it from being removed.
                    self.close(key, quietly=True)
                with family("cannot remove the group '{}'", folder):
                    self._rename(key, folder, partial(remove_folder, folder))
            self.close(key, quietly=True)
            self.changed()

    def replace(self, fresh: str) -> None:
        """Give another folder the name of the group, and remove the group.

        Raise LockedError if anybody else writes to the group.
        """
        arrays = {name: self.hold(name) for name in self.keys("")}
        if os.path.lexists(os.path.join(self.place.root, INDEX_NAME)):
            index_group(fresh)
        self._swap(fresh, arrays)
        remove_folder(fresh)

    def _swap(self, fresh: str, gone: dict[str, ExtArray]) -> None:
        """Exchange the names of a folder and the group's; some of its arrays go with it."""
        root = os.fspath(self.place.root)
        self._rename("", root, partial(swap_folders, fresh, root))
        if not FREES_FOLDERS:
            self.close("", quietly=True)
            return
        for name, array in gone.items():
            _files(array).take_place(Path(fresh, name))

    def _rename(self, key: str, folder: str, rename: Callable[[], object]) -> None:
        """Rename the folder of a group whose arrays are open, maybe only after closing them.

        Where a folder has to stay while files in it are open, the session closes its own; whoever
        else has one open keeps the folder where it is, and `rename` raises.
        """
        try:
            rename()
        except PermissionError:
            if FREES_FOLDERS or not os.path.isdir(folder):
                raise
            self.close(key, quietly=True)
            rename()

    def take_in(self, fresh: str, gone: Iterable[str], in_place: bool) -> None:
        """Take in the content of another folder, while some arrays of the group go.

        This takes one step: link all other files of the group into the folder, then give it the
        group's name.  With `in_place`, or where files get no links or the folder has to stay while
        somebody has a file in it open, the arrays move one by one.

        Parameters
        ----------
        fresh : str
            The folder, which is removed.
        gone : iterable of str
            Names of arrays; LockedError is raised if anybody else writes to them.
        in_place : bool
            Whether the folder of the group has to stay.
        """
        root = os.fspath(self.place.root)
        new = [name for name, kind in InFolder(Path(fresh)).entries("") if kind == ARRAY]
        old = {name: self.hold(name) for name in gone}
        files = {file for name in old for file in all_names(name)}
        files.update(os.listdir(fresh))
        if not in_place:
            try:
                link_rest(root, fresh, files)
            except OSError:  # the file system has no links, or a file has too many
                in_place = True
        if not in_place:
            try:
                self._swap(fresh, old)
            except PermissionError:
                if FREES_FOLDERS:
                    raise
                in_place = True  # somebody has a file in it open
                old = {name: self.hold(name) for name in old}
        if in_place:
            self._take_one_by_one(fresh, new, old)
        else:
            sweep(fresh, root, files)
        self.changed()

    def _take_one_by_one(self, fresh: str, new: list[str], old: dict[str, ExtArray]) -> None:
        """Move the arrays of a folder, and its file of attributes, into the group."""
        for name in new:
            with open_array(Path(fresh, name), "r+") as array:
                replaced = _files(old[name]) if name in old else None
                _files(array).move(self.place.path(name), name in old, replaced)
        for name in set(old) - set(new):
            _files(old[name]).remove()
        assert isinstance(self.place, InFolder)
        with family("cannot write '{}'", self.place.root):
            self.place.save_attrs("", Path(fresh, ATTRS_NAME).read_bytes())
            remove_tree(fresh)

    def move(self, key: str, kind: str, other: str, new: Path) -> None:
        """Give a member another key, and its files the path of that key."""
        arrays = self.hold_all(key, kind)
        for array in arrays:
            check_not_held(array, "move")
        if kind == ARRAY:
            _files(arrays[0]).move(new, False)
        else:
            old = self.place.path(key)
            with family(f"cannot move '{{}}' to '{new}'", old):
                rename = partial(replace, os.fspath(old), os.fspath(new))
                self._rename(key, os.fspath(old), rename)
                sync_folders([os.fspath(new), os.fspath(old)])
        for name in [n for n in self.arrays if is_in(n, key)]:
            array = self.arrays.pop(name)
            self.arrays[other + name[len(key) :]] = array
            if kind == GROUP:
                _files(array).take_place(new / name[len(key) + 1 :])
        self.changed()

    def extend(
        self, key: str, axis: str, by: SupportsIndex, side: Literal["end", "start"], name: str
    ) -> None:
        """Grow all arrays, in a group and below, with an axis of a name; see `Group.extend`."""
        self.check("extend arrays")
        found = {}
        dims: set[str] = set()
        with self.lock:
            for full in self.keys(key):
                with self.look(full) as array:
                    own = array.dims or ()
                dims.update(own)
                if axis in own:
                    found[full] = self.hold(full)
        if not found:
            names = ", ".join(map(repr, sorted(dims))) or "names of axes at all"
            raise AxisError(f"no array of {name!r} has an axis {axis!r}; their axes are {names}")
        extents: dict[int, str] = {}
        for full, array in found.items():
            extents.setdefault(array.shape[(array.dims or ()).index(axis)], full)
        if len(extents) > 1:
            told = ", ".join(f"{n} in {full!r}" for n, full in extents.items())
            raise ShapeError(
                f"cannot extend {axis!r} in the group {name!r}: its arrays differ in extent along "
                f"it: {told}; make them equal first, with extend or shrink"
            )
        with commit(found.values()):
            for array in found.values():
                array.extend(axis, by, side)

    # -- shown and packed ------------------------------------------------------------------------

    def tree(self, key: str) -> list[tuple[int, str, str]]:
        """Return the rows of a tree: depth, name, and facts of an array."""
        rows: list[tuple[int, str, str]] = []
        above = f"{key}/".count("/") if key else 0
        if not self.is_closed:
            with contextlib.suppress(ExtArrayError):  # the folder may be gone
                for full, kind in self.walk(key):
                    if len(rows) == _MOST_ROWS:
                        rows.append((0, "...", ""))
                        break
                    facts = self._facts(full) if kind == ARRAY else ""
                    rows.append((full.count("/") - above, full.rpartition("/")[2], facts))
        return rows

    def _facts(self, key: str) -> str:
        """Return the shape, data type and axis names of an array, for a row of a tree."""
        try:
            with self.look(key) as array:
                dims = "" if array.dims is None else "  " + ", ".join(array.dims)
                return f"{array.shape} {array.dtype}{dims}"
        except (ExtArrayError, OSError) as error:
            return f"cannot be opened: {type(error).__name__}"

    def attrs_files(self, key: str) -> dict[str, bytes | None]:
        """Return, for each group in a group, the file of its attributes; None: an empty group.

        A group without attributes is left out if it has members, which imply it.
        """
        found: dict[str, bytes | None] = {}
        for full in (key, *self.keys(key, GROUP)):
            self.load_attrs(full)  # raises if they are damaged
            data = self.place.load_attrs(full)
            if full == key:
                data = data or b'{"attrs": {}}\n'
            if data is not None or not self.place.entries(full):
                found[full[len(key) :].lstrip("/")] = data
        return found

    @contextlib.contextmanager
    def parts(self, key: str) -> Iterator[list[Part]]:
        """Yield the parts to pack of a group: its arrays as they were at one moment.

        Writers that the group has open cannot grow meanwhile.  All other arrays are looked at one
        by one, again and again until none has changed in between; few of them are open at a time,
        however many there are.
        """
        with contextlib.ExitStack() as stack:
            with self.lock:
                names = list(self.keys(key))
                found = {name: self._open_one(name) for name in names}
            mine = {name: array for name, array in found.items() if array is not None}
            for array in mine.values():
                check_not_held(array, "pack")
                if array.mode == "r+":
                    array.flush()
            writers = {name: array for name, array in mine.items() if array.mode == "r+"}
            stack.enter_context(locked(list(writers.values())))
            kept = dict(mine)

            @contextlib.contextmanager
            def opened(name: str) -> Iterator[ExtArray]:
                if name in kept:
                    yield kept[name]
                    return
                options = {key: self.options[key] for key in ("engine", "verify")}
                with open_array(self.place.path(name), **options) as array:
                    yield array

            def look(name: str) -> Snapshot:
                if name not in kept and len(kept) - len(mine) < _MOST_KEPT:
                    kept[name] = stack.enter_context(opened(name))
                with opened(name) as array:
                    if array.mode == "r":
                        array.refresh()
                    with array._writers.resizing:
                        shot: Snapshot = _later.Snapshot.of(array._store.now, array.axial)
                    return shot

            @contextlib.contextmanager
            def present(name: str) -> Iterator[Present]:
                with opened(name) as array:
                    yield array._store.now

            looks = {name: partial(look, name) for name in names}
            seen = next(moments(list(looks.values())), None)
            if seen is None:
                raise StorageError(
                    errno.EAGAIN,
                    f"its {len(names)} arrays keep changing while they are packed; try again "
                    "when they change less often",
                    self.shown,
                )
            yield [
                _later.Part(name[len(key) :].lstrip("/"), seen[each], partial(present, name))
                for name, each in looks.items()
            ]


def _files(array: ExtArray) -> Any:
    files = array._store.files
    assert files is not None
    return files
