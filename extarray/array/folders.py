"""Groups: folders of arrays and of groups; one file with all of it, to move.

A thin layer over the file system: the members of a group are what the folder holds at that moment.
`group_session` carries out what the methods do to members.
"""

from __future__ import annotations

import errno
import os
from collections.abc import ItemsView, Iterator, MutableMapping, ValuesView
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from extarray.array import facts
from extarray.array.array import ExtArray
from extarray.array.creation import create, from_array
from extarray.array.group_session import Session, is_in
from extarray.array.life import check_not_held
from extarray.codecs.codec import Codec
from extarray.common.arguments import NOT_GIVEN, check_choice, check_durability, check_flag
from extarray.common.calls import public
from extarray.common.choices import ENGINES, VERIFICATIONS
from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExistsError,
    MissingError,
    ReadOnlyError,
    VariableError,
)
from extarray.common.formatting import format_tree
from extarray.common.hints import hint
from extarray.common.lazy import LazyImports
from extarray.common.system import problem_of_name, remove, replace
from extarray.fetched.paths import check_options, local_or_remote, refuse_writing
from extarray.format.archive import check_member_name
from extarray.format.attrs import Attributes
from extarray.format.suffixes import file_names
from extarray.maintenance.group_files import (
    ARRAY,
    GROUP,
    InFolder,
    InPacked,
    empty_folder_like,
    foreign_file,
    left_folders,
    making_folder,
    remove_left_folders,
    remove_tree,
)
from extarray.maintenance.group_index import group_at
from extarray.storage.filesystem import family, followed_name
from extarray.storage.lock import check_timeout
from extarray.storage.names import Packed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from os import PathLike
    from typing import Self

    from numpy.typing import ArrayLike, DTypeLike

    from extarray.common.arguments import Reported

__all__ = ["Group", "changed_group", "open_group", "pack", "replace_group"]

_later = LazyImports(
    {
        "extarray.maintenance.packing": "Part Snapshot check_order write_packed",
        "extarray.grid.html": "tree",
    }
)

_MODES = ("r", "r+", "a", "w", "w-")
# A folder may be writable and still be impossible to rename.
_CANNOT_RENAME = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM)


@public
def open_group(
    path: str | PathLike[str],
    mode: Literal["r", "r+", "a", "w", "w-"] | str = "r",
    *,
    timeout: float | None = 0,
    engine: Literal["auto", "mmap", "pread"] | str = "auto",
    durability: Literal["flush", "steady", "commit"] | str = "flush",
    verify: Literal["never", "write", "read"] | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | PathLike[str] | None = None,
) -> Group:
    """Open a folder as a group of arrays and groups, or make one.

    Parameters
    ----------
    path : str, PathLike, or tuple
        Path of the folder, or of a packed file (see `pack`), which can only be read.  Also a URL,
        or a tuple of a store and a path, as for `open`: of a published group (see `publish`), of a
        packed file, or of a folder that has an index (see `index_group`).
    mode : {"r", "r+", "a", "w", "w-"}
        "r" reads; "r+" reads and writes; "a" does too, and makes the group if it is missing; "w"
        makes it anew, in place of what was there; "w-" makes it where nothing is there.
    timeout, engine, durability, verify
        As for `open`, which opens the arrays when they are first asked for.
    storage_options, cache
        As for `open`.

    Returns
    -------
    Group
        Also a context manager, which closes it.

    Raises
    ------
    MissingError
        A FileNotFoundError: there is no such folder.
    ExistsError
        A FileExistsError: the path exists, and the mode is "w-"; or it is no group, and the mode
        would replace it.
    LockedError
        A BlockingIOError: the mode is "w", and another process writes to an array in it.
    ReadOnlyError, FormatError, ArgumentError
        ValueErrors: a packed file opened for writing; a damaged one; another mode.
    StorageError

    Notes
    -----
    Any folder is a group, whoever made it; files that belong to no array are ignored.  The group
    has no lock: each array has its own, which a group in mode "r+" takes when it opens the array.
    It keeps arrays open; beyond 64 it closes those that were asked for longest ago and that nobody
    else has.

    The group that mode "w" replaces stays until its successor has its name, in one step where the
    system can exchange names (Linux and macOS, on most local file systems).  Elsewhere a killed
    process may leave the old folder beside it, with ``.old`` at the end of its name.

    Examples
    --------
    >>> import extarray as xa
    >>> with xa.open_group("weather", "w") as g:
    ...     t = g.create("time", shape=2, dtype="i8", dims=["time"])
    ...     w = g.create("station/wind", shape=(2, 3), dims=["time", "x"])
    ...     g.extend("time", 4)
    >>> xa.open_group("weather")
    <extarray.Group '/': 'weather', mode 'r'>
    ├── station
    │   └── wind  (6, 3) float64  time, x
    └── time  (6,) int64  time
    """
    check_choice(mode, "mode", _MODES)
    check_choice(engine, "engine", ENGINES)
    check_durability(durability)
    timeout = check_timeout(timeout)
    asked = config.verify if verify is None else check_choice(verify, "verify", VERIFICATIONS)
    there = local_or_remote(path, storage_options, cache)
    if there is not None:
        if mode != "r":
            raise refuse_writing(there, f"open the group '{{}}' with mode {mode!r}")
        check_options(there, timeout)
        options = {"timeout": timeout, "engine": engine, "durability": durability, "verify": asked}
        return Group(Session(group_at(there), str(there), mode, options), "")
    try:
        given = Path(os.path.abspath(os.fsdecode(path)))
        shown = os.fsdecode(path)
    except TypeError:
        raise ArgumentTypeError(
            f"path must be a str or a path, not {type(path).__name__}"
        ) from None
    with family("cannot open the group '{}'", shown):
        options = {
            "timeout": timeout,
            "engine": engine,
            "durability": durability,
            "verify": asked,
        }
        if not given.is_dir():
            with Packed.find(given) as packed:
                if packed is not None:
                    if mode != "r":
                        raise ReadOnlyError(
                            f"cannot open '{shown}' with mode {mode!r}: a packed file is "
                            "read-only; "
                            + hint(f"extarray.unpack({shown!r}, path)", "extarray unpack FILE DST")
                            + " makes a folder from it"
                        )
                    inner = packed.inner(given)
                    if inner not in packed.groups:
                        raise MissingError(errno.ENOENT, "no such group in the packed file", shown)
                    session = Session(
                        InPacked(packed, inner, Path(packed.name) / inner), shown, mode, options
                    )
                    return Group(session, "")
        if mode in ("r", "r+") or (mode == "a" and given.is_dir()):
            if not given.is_dir():
                what = "no such folder; create it " + hint("with mode='w-'", "first")
                if given.exists():
                    what = "it is neither a folder nor a packed file"
                elif os.path.exists(file_names(given)[0]):
                    what = "it is an array, not a group; "
                    what += hint("use extarray.open", "give the folder that it is in")
                raise MissingError(errno.ENOENT, what, shown)
        elif mode == "w" and given.is_dir():
            _empty(given, shown, options)
        elif mode == "w-" and os.path.lexists(given):
            raise ExistsError(
                errno.EEXIST,
                "it already exists; open it with mode='r+', or replace it with mode='w'",
                shown,
            )
        else:
            given.mkdir(parents=True, exist_ok=mode == "a")
        session = Session(InFolder(given), shown, "r" if mode == "r" else "r+", options)
        return Group(session, "")


def replace_group(fresh: str, name: str) -> None:
    """Give a folder the name of a group, and remove the group that had it, if any.

    Parameters
    ----------
    fresh : str
        The folder.
    name : str
        Path of the group, or a free path.

    Raises
    ------
    ExistsError
        The group has files that belong to no array.
    LockedError
        Another process writes to an array in it.
    AccessError
        It is another user's link, in a folder that everybody may write to.
    """
    if os.path.isdir(name):
        with _to_be_replaced(Path(name), name, {"timeout": 0, "engine": "auto"}) as session:
            session.replace(fresh)
    else:
        replace(fresh, name)


@contextmanager
def changed_group(folder: Path, gone: Collection[str]) -> Iterator[str]:
    """Make a folder of arrays for a block, and move its content into a group afterwards.

    All of it enters the group in one step, and in the same step arrays of the group go; if the
    block fails, the group is unchanged.  A missing group is made.  A group that has to keep its
    folder (something is mounted on it, or this process is at work in it), or whose files get no
    links, takes in the arrays one by one.

    Parameters
    ----------
    folder : Path
        Folder of the group.
    gone : collection of str
        Names of its arrays that go; all else stays.

    Raises
    ------
    LockedError
        Another process writes to an array that goes.
    """
    with family("cannot change '{}'", folder):
        name = os.path.realpath(followed_name(os.path.abspath(folder)))
    if not os.path.isdir(name):
        with family("cannot make the folder '{}'", folder):
            os.makedirs(os.path.dirname(name), exist_ok=True)
        with making_folder(name) as fresh:
            yield fresh
        return
    stays = _is_in_use(name) or not os.access(os.path.dirname(name), os.W_OK)

    def publish(fresh: str, _: str) -> None:
        session = Session(
            InFolder(Path(name)), os.fspath(folder), "r+", {"timeout": 0, "engine": "auto"}
        )
        try:
            session.take_in(fresh, gone, stays)
        finally:
            session.close("", quietly=True)

    with making_folder(
        os.path.join(name, "members") if stays else name, publish, old=name
    ) as fresh:
        yield fresh


@contextmanager
def _to_be_replaced(folder: Path, shown: str, options: dict[str, Any]) -> Iterator[Session]:
    with family("cannot replace '{}'", shown):
        followed_name(os.path.abspath(folder))
    foreign = foreign_file(folder)
    if foreign is not None:
        raise ExistsError(
            errno.EEXIST,
            f"it is not replaced, because {foreign!r} does not belong to an array; remove that "
            "first, or give another folder",
            shown,
        )
    session = Session(InFolder(folder), shown, "r+", options)
    try:
        yield session
    finally:
        session.close("", quietly=True)


def _empty(folder: Path, shown: str, options: dict[str, Any]) -> None:
    """Empty a group; remove nothing if it is no group or if another process writes to it.

    An empty folder takes its name, in one step where the system can exchange names.
    """
    with _to_be_replaced(folder, shown, options) as session:
        root = os.fspath(session.place.root)
        arrays = session.hold_all("", GROUP)
        remove_left_folders(left_folders(root))
        fresh = None if _is_in_use(root) else empty_folder_like(root)
        if fresh is not None:
            try:
                session.replace(fresh)
            except OSError as error:
                with suppress(OSError):
                    os.rmdir(fresh)
                if error.errno not in _CANNOT_RENAME:
                    raise
            else:
                return
        for entry in os.scandir(root):  # the folder itself has to stay
            if entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path)
            else:
                remove(entry.path)
        del arrays  # held until here


def _is_in_use(folder: str) -> bool:
    """Tell whether something is mounted on a folder, or this process is at work in it."""
    try:
        here = os.path.realpath(os.curdir)
    except OSError:
        here = os.sep
    return os.path.ismount(folder) or is_in(here, folder)


# -- groups --------------------------------------------------------------------------------------


class _Items(ItemsView[str, Any]):
    """The items of a group, while others may remove some."""

    _mapping: Group

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self._mapping._members()


class _Values(ValuesView[Any]):
    """The members of a group, while others may remove some."""

    _mapping: Group

    def __iter__(self) -> Iterator[Any]:
        return (item for _, item in self._mapping._members())


class Group(MutableMapping[str, Any]):
    """A folder of arrays and groups, as a mapping by names.

    Made by `open_group`.  A name may be a path: ``g["a/b"]``.  ``repr`` is a tree.  A group that is
    unpickled is open for reading.

    Examples
    --------
    >>> import numpy as np, extarray as xa
    >>> g = xa.open_group("mission", "w")
    >>> g["scene"] = np.ones((2, 3))
    >>> g.create_group("calibration").attrs["date"] = "2024-05-01"
    >>> list(g), "scene" in g, g["scene"].shape
    (['calibration', 'scene'], True, (2, 3))
    >>> g.close()
    """

    __slots__ = ("__weakref__", "_key", "_session")

    def __init__(self, session: Session, key: str) -> None:
        self._session = session
        self._key = key

    def __reduce__(self) -> tuple[Any, ...]:
        self._session.check()
        session = self._session
        root = session.place.root
        place = os.fspath(root) if isinstance(root, Path) else root  # paths elsewhere are pickled
        return _reopened, (place, self._key, session.options["verify"])

    # -- facts -----------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Path from the group that was opened, whose own name is "/"."""
        return f"/{self._key}"

    @property
    def path(self) -> Path:
        """Path of the folder, or a path through the packed file."""
        return self._session.place.path(self._key)

    @property
    def mode(self) -> str:
        """Mode of the arrays that the group opens: "r" or "r+"."""
        return self._session.mode

    @property
    def closed(self) -> bool:
        """True after `close` of the group that was opened."""
        return self._session.is_closed

    @property
    def attrs(self) -> Attributes:
        """Attributes of the group: a mutable mapping, kept in ``dataset.json``; see `Attributes`.

        Examples
        --------
        >>> import extarray as xa
        >>> with xa.open_group("survey", "w") as g:
        ...     g.attrs["title"] = "north"
        ...     dict(g.attrs)
        {'title': 'north'}
        """
        session, key = self._session, self._key
        return Attributes(partial(session.load_attrs, key), partial(session.save_attrs, key))

    # -- names -----------------------------------------------------------------------------------

    def _full(self, name: str) -> str:
        """Return a member's full name in the opened group; refuse an impossible name."""
        if not isinstance(name, str):
            raise ArgumentTypeError(f"the name must be a str, not {type(name).__name__}")
        problem = "it is empty" if not name else check_member_name(f"{name}/")
        if problem is None:
            problem = next(filter(None, map(problem_of_name, name.rstrip("/").split("/"))), None)
        if problem is not None or name.endswith("/"):
            raise ArgumentError(
                f"{name!r} cannot be the name of a member of a group: "
                f"{problem or 'it ends in a slash'}; use names such as 'a' and 'a/b'"
            )
        return f"{self._key}/{name}" if self._key else name

    def _kind(self, name: str) -> tuple[str, str | None]:
        """Return the full name of a member, and its kind."""
        self._session.check()
        key = self._full(name)
        folder = key
        while "/" in folder:  # a link, and all behind it, is no part of the group
            folder = folder.rpartition("/")[0]
            if self._session.place.kind(folder) is None:
                return key, None
        return key, self._session.place.kind(key)

    def __getitem__(self, name: str) -> ExtArray | Group:
        key, kind = self._kind(name)
        if kind == ARRAY:
            return self._session.hold(key)
        if kind == GROUP:
            return Group(self._session, key)
        some = ", ".join(map(repr, list(self)[:5]))
        raise VariableError(
            f"the group {self.name!r} has no member {name!r}"
            + (f"; its members are {some}" * bool(some))
        )

    def __setitem__(self, name: str, value: ArrayLike) -> None:
        key = self._free(name)
        self._session.keep(key, from_array(value, self._made(key)))
        self._session.changed()

    def __delitem__(self, name: str) -> None:
        session = self._session
        session.check("delete")
        key, kind = self._kind(name)
        if kind is None:
            raise VariableError(f"the group {self.name!r} has no member {name!r}")
        session.remove(key, kind)

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self._kind(name)[1] is not None
        except ArgumentError:
            return False

    def __iter__(self) -> Iterator[str]:
        self._session.check()
        return iter([name for name, _ in self._session.place.entries(self._key)])

    def __len__(self) -> int:
        self._session.check()
        return len(self._session.place.entries(self._key))

    def items(self) -> ItemsView[str, Any]:
        """Return a view of the names and the members; it skips members removed meanwhile."""
        return _Items(self)

    def values(self) -> ValuesView[Any]:
        """Return a view of the members; it skips those removed meanwhile."""
        return _Values(self)

    def _members(self) -> Iterator[tuple[str, ExtArray | Group]]:
        """Yield the names and the members that still exist when their turn comes."""
        self._session.check()
        for key, kind in self._session.members(self._key):
            item = Group(self._session, key) if kind == GROUP else self._session.hold_if_there(key)
            if item is not None:
                yield key.rpartition("/")[2], item

    def arrays(self) -> Iterator[tuple[str, ExtArray]]:
        """Iterate over the names and the arrays of this group.

        Yields
        ------
        tuple of str and ExtArray
        """
        self._session.check()
        for key, kind in self._session.members(self._key):
            array = self._session.hold_if_there(key) if kind == ARRAY else None
            if array is not None:
                yield key.rpartition("/")[2], array

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Iterate over the names and the groups in this one.

        Yields
        ------
        tuple of str and Group
        """
        self._session.check()
        for key, kind in self._session.members(self._key):
            if kind == GROUP:
                yield key.rpartition("/")[2], Group(self._session, key)

    def walk(self) -> Iterator[tuple[str, ExtArray | Group]]:
        """Iterate over all members of the group and below: a group before its members.

        Members that are removed meanwhile are skipped.

        Yields
        ------
        tuple of str and (ExtArray or Group)
            The path from here, and the member.

        Examples
        --------
        >>> import extarray as xa
        >>> with xa.open_group("tour", "w") as g:
        ...     a = g.create("north/level", shape=3)
        ...     [name for name, _ in g.walk()]
        ['north', 'north/level']
        """
        session, start = self._session, len(self._key) + bool(self._key)
        session.check()
        for key, kind in session.walk(self._key):
            session.check()
            item = Group(session, key) if kind == GROUP else session.hold_if_there(key)
            if item is not None:
                yield key[start:], item

    # -- changes ---------------------------------------------------------------------------------

    def _free(self, name: str) -> str:
        """Return the full name of a member to be made; refuse a name that is taken."""
        self._session.check("create")
        key, kind = self._kind(name)
        parent = key
        while "/" in parent:
            parent = parent.rpartition("/")[0]
            if self._session.place.kind(parent) == ARRAY:
                raise ExistsError(
                    errno.EEXIST, f"{parent!r} is an array, not a group", str(self.path / name)
                )
        if kind is not None or os.path.lexists(self._session.place.path(key)):
            raise ExistsError(
                errno.EEXIST,
                f"the group {self.name!r} already has a member {name!r}; delete it first"
                + self._note_of_case(key),
                str(self.path / name),
            )
        return key

    def _note_of_case(self, key: str) -> str:
        """Return a note for whoever cannot make a member because a name differs in case alone."""
        parent, _, last = key.rpartition("/")
        if self._session.place.kind(parent) != GROUP:
            return ""
        names = [name for name, _ in self._session.place.entries(parent)]
        other = [name for name in names if name.lower() == last.lower()]
        if last in names or not other:
            return ""
        return f" (it is {other[0]!r}: the file system does not tell upper from lower case)"

    def _made(self, key: str) -> Path:
        """Return the path of an array to be made, after making its folder."""
        path = self._session.place.path(key)
        with family("cannot make the group '{}'", path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def create(
        self,
        name: str,
        shape: SupportsIndex | Iterable[SupportsIndex],
        dtype: DTypeLike = float,
        **options: Any,
    ) -> ExtArray:
        """Make an array in the group, and the groups that its name goes through.

        Parameters
        ----------
        name : str
        shape, dtype, **options
            As for `extarray.create`; its `overwrite`, `comm` and `info` are not possible.

        Returns
        -------
        ExtArray
            In mode "r+"; open while anything refers to it, until it or the group is closed.

        Raises
        ------
        ExistsError
            A FileExistsError: the name is taken.
        ReadOnlyError, ArgumentError
            ValueErrors; also a name that leads out of the group.

        Examples
        --------
        >>> import extarray as xa
        >>> with xa.open_group("field", "w") as g:
        ...     g.create("plots/a", shape=(0, 3), dims=["time", "x"]).shape
        (0, 3)
        """
        for other in ("overwrite", "comm", "info"):
            if other in options:
                raise ArgumentError(f"{other} is not supported in a group; use extarray.create")
        key = self._free(name)
        options = {
            "engine": self._session.options["engine"],
            "durability": self._session.options["durability"],
            **options,
        }
        array = create(self._made(key), shape, dtype, **options)  # type: ignore[arg-type]
        self._session.keep(key, array)
        self._session.changed()
        return array

    def create_group(self, name: str) -> Group:
        """Make a group in this one, and the groups that its name goes through.

        Parameters
        ----------
        name : str

        Returns
        -------
        Group

        Raises
        ------
        ExistsError
            A FileExistsError: the name is taken.
        ReadOnlyError, ArgumentError
            ValueErrors; also a name that leads out of the group.
        """
        key = self._free(name)
        path = self._session.place.path(key)
        with family("cannot make the group '{}'", path):
            path.mkdir(parents=True)
        self._session.changed()
        return Group(self._session, key)

    def require_group(self, name: str) -> Group:
        """Return the group of a name, and make it if it is missing.

        Parameters
        ----------
        name : str

        Returns
        -------
        Group
        """
        _, kind = self._kind(name)
        if kind is None:
            return self.create_group(name)
        found = self[name]
        if not isinstance(found, Group):
            raise ExistsError(errno.EEXIST, "it is an array, not a group", str(self.path / name))
        return found

    def move(self, source: str, target: str) -> None:
        """Give a member another name, also in another group below this one.

        Parameters
        ----------
        source, target : str

        Raises
        ------
        VariableError
            A KeyError: there is no such member.
        ExistsError
            A FileExistsError: the new name is taken.
        LockedError
            A BlockingIOError: another process writes to an array that would move.
        ReadOnlyError, ArgumentError

        Notes
        -----
        Arrays that the group has open stay open.  Readers in other processes keep theirs.

        Examples
        --------
        >>> import extarray as xa
        >>> with xa.open_group("shelf", "w") as g:
        ...     a = g.create("draft", shape=3)
        ...     g.move("draft", "done/first")
        ...     a[0] = 7
        ...     g["done/first"].sum()
        np.float64(7.0)
        """
        session = self._session
        session.check("move")
        with session.lock:
            key, kind = self._kind(source)
            if kind is None:
                raise VariableError(f"the group {self.name!r} has no member {source!r}")
            other = self._full(target)
            if kind == GROUP and is_in(other, key):
                raise ArgumentError(f"cannot move {source!r} into itself, as {target!r}")
            self._free(target)
            session.move(key, kind, other, self._made(other))

    def extend(self, axis: str, by: SupportsIndex, side: Literal["end", "start"] = "end") -> None:
        """Grow all arrays with an axis of a name, here and in the groups below, in one commit.

        Parameters
        ----------
        axis : str
            As in `ExtArray.dims`.
        by : int
            Elements, at least 0.
        side : {"end", "start"}
            As for `ExtArray.extend`.

        Raises
        ------
        AxisError
            No array has such an axis.
        ShapeError
            A ValueError: arrays have different extents along it.
        LockedError
            A BlockingIOError: another process writes to one of them.
        ReadOnlyError, StorageError

        Notes
        -----
        After a crash, or a loss of power, all of them have grown or none has; see
        `extarray.commit`.

        Examples
        --------
        >>> import extarray as xa
        >>> with xa.open_group("station", "w") as g:
        ...     time = g.create("time", shape=0, dtype="i8", dims=["time"])
        ...     wind = g.create("wind", shape=(0, 3), dims=["time", "x"])
        ...     g.extend("time", 4)
        ...     time.shape, wind.shape
        ((4,), (4, 3))
        """
        self._session.extend(self._key, axis, by, side, self.name)

    def as_zarr_store(self, *, follow: bool = True, encoded: bool = False) -> Any:
        """Return a store of Zarr that shows the group and all of its present members.

        Parameters
        ----------
        follow, encoded : bool
            As for `ExtArray.as_zarr_store`.

        Returns
        -------
        extarray.interop.zarr_store.ZarrStore
            In format 3.  Attributes of groups are those of this moment.

        Raises
        ------
        ArgumentError, DTypeError
            As `ExtArray.as_zarr_store`, for one of the arrays.
        MissingExtraError
            zarr is not installed.
        ClosedError

        Examples
        --------
        >>> import extarray as xa, zarr
        >>> with xa.open_group("shown", "w") as g:
        ...     a = g.create("run/wind", shape=(2, 3), dims=["time", "x"])
        ...     zarr.open_group(g.as_zarr_store(), mode="r")["run/wind"].shape
        (2, 3)
        """
        self._session.check()
        return facts.zarr_store(self, None, follow, encoded)

    def to_kerchunk(self, *, zarr_format: Literal[2, 3] = 2, url: str | None = None) -> Any:
        """Return the places of the chunks of all arrays; see `ExtArray.to_kerchunk`.

        Parameters
        ----------
        zarr_format : {2, 3}
            Version of Zarr in whose terms the arrays are described.
        url : str, optional
            Address at which others find the packed file, or the folder.

        Examples
        --------
        >>> import extarray as xa
        >>> with xa.open_group("listed", "w") as g:
        ...     a = g.create("wind", shape=2, dtype="i4")
        ...     list(g.to_kerchunk()["refs"])
        ['.zgroup', '.zattrs', 'wind/.zarray', 'wind/.zattrs', 'wind/0', '.zmetadata']
        """
        self._session.check()
        return facts.zarr_references(self, None, zarr_format, url)

    def refresh(self) -> bool:
        """Take up what others have committed, in all arrays that the group has open, together.

        Returns
        -------
        bool
            Whether anything was new.

        Raises
        ------
        ReplacedError, StorageError
            As `extarray.refresh`; a published group is not there any more.

        Notes
        -----
        All arrays show states that existed together.  The members and attributes of a group that is
        published (see `publish`) are those of the same state, which takes one request; a folder
        shows what it has at any moment.

        Examples
        --------
        >>> import extarray as xa
        >>> with xa.open_group("station", "w") as g:
        ...     a = g.create("wind", shape=0)
        ...     with xa.open_group("station") as reader:
        ...         b = reader["wind"]
        ...         a.append([1.5])
        ...         reader.refresh(), b.shape
        (True, (1,))
        """
        return self._session.refresh(self._key)

    def flush(self) -> None:
        """Bring all arrays that the group has open to the disk."""
        self._session.check()
        with self._session.lock:
            arrays = list(self._session.arrays.items())
        for key, array in arrays:
            if is_in(key, self._key) and not array.closed:
                array.flush()

    def close(self) -> None:
        """Close the arrays that the group has opened, and those of the groups below.

        The group that `open_group` returned cannot be used afterwards; closing twice is allowed.
        """
        if not self._session.is_closed:
            try:
                self._session.close(self._key)
            finally:
                self._session.is_closed = not self._key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- shown -----------------------------------------------------------------------------------

    def _head(self) -> str:
        mode = "closed" if self.closed else f"mode '{self.mode}'"
        return f"<extarray.Group {self.name!r}: '{self._session.shown}', {mode}>"

    def __repr__(self) -> str:
        return format_tree(self._head(), self._session.tree(self._key))

    def _repr_html_(self) -> str:
        shown: str = _later.tree(self._head(), self._session.tree(self._key))
        return shown


def _reopened(path: Any, key: str, verify: str | None = None) -> Any:
    group = open_group(path, verify=verify)
    return group[key] if key else group


# -- one file ------------------------------------------------------------------------------------


def pack(
    source: ExtArray | Group,
    path: str | PathLike[str],
    *,
    order: str | int = "address",
    compression: Any = NOT_GIVEN,
    overwrite: bool = False,
    progress: Reported = True,
) -> None:
    """Write an array, or a group with all that is in it, to one file.

    Parameters
    ----------
    source : ExtArray or Group
        An array in files or in memory.
    path : str or PathLike
        Path of the file; ``.xap`` is the usual suffix.
    order : {"address", "hilbert", "morton"}, int or str
        Order of the chunks in the file: that of their addresses, as in the files of the array;
        along a curve through the grid, which keeps neighbours on all axes together; or plane by
        plane of an axis, given by its number or name (in a group, of the arrays that have it).
    compression : str, int, Codec or None
        A codec for all chunks, such as "zstd", "lz4", "auto", or a `Codec`, which has a level and
        a filter: ``"zstd:5:shuffle"`` is short for one.  An int is a level of h5py's "gzip";
        codecs of hdf5plugin, numcodecs and zarr are translated.  None: not compressed.  Default: as
        each array is.
    overwrite : bool
        Replace an existing file.
    progress : bool or callable
        Show how far the work has come, on a terminal or in a notebook; or a function, which is
        called with the bytes that are done, and with those in all.

    Raises
    ------
    ExistsError
        A FileExistsError: the file exists.
    ChecksumError
        A ValueError: a chunk does not match its checksum; see `open`, ``verify``.
    ArgumentError, ClosedError
        ValueErrors; also inside a block of `commit`, for an array under a communicator, if
        nothing has the axis of `order`, and if there is no such `compression`.
    MissingExtraError
        An ImportError: the library of the codec is not installed.
    LimitError
        An OverflowError: chunks have 1 GiB or more, and are to be compressed or in another order.
    StorageError
        Also where elements are cut off meanwhile (EAGAIN).

    Notes
    -----
    The file is a ZIP file that stores the files of the arrays as they are, chunks at page
    boundaries, with a checksum of each (CRC-32).  `open` and `open_group` open it in place, without
    unpacking: they map chunks from where they lie, whatever the history of the array, read-only; an
    array in it has the path ``file/name``.  `unpack` makes files that can grow again; so does any
    program for ZIP files, of arrays in the order of addresses.

    Another order pays where the file is read from a server: a plane across an axis that grew late
    then lies in fewer pieces.  Compression pays where space or the network is scarce: measured
    values become half as large, more or less.  Either makes an array of format 3, which readers of
    format 2 refuse.  Reading copies its chunks to memory, in place of mapping them, compares each
    with a checksum, and decodes it, several at a time on ``config.threads`` threads.  Chunks of
    the fill value take no space in the file, those of any other one value 64 bytes, and those that
    a codec would not make smaller stay raw.  An array that is not compressed, and for which the
    order is that of addresses anyway, is packed as without `order`.

    Arrays are packed as of one moment; changes of bounds and attributes wait meanwhile.  Elements
    that are written meanwhile may be packed old or new.  The file gets its name when it is whole
    and on the disk: an interruption leaves nothing new, or the old file.

    Examples
    --------
    >>> import extarray as xa
    >>> with xa.from_array([[1, 2], [3, 4]]) as a:
    ...     a.extend(1, 1)
    ...     xa.pack(a, "scene.xap")
    >>> with xa.open("scene.xap") as b:
    ...     b[...]
    array([[1, 2, 0],
           [3, 4, 0]])
    """
    check_flag(overwrite, "overwrite")
    order = _later.check_order(order)
    codec = compression if compression is NOT_GIVEN else Codec.parse(compression)
    there = local_or_remote(path)
    if there is not None:
        raise refuse_writing(there, "pack to '{}'")
    try:
        target = Path(os.fsdecode(path))
    except TypeError:
        raise ArgumentTypeError(
            f"path must be a str or a path, not {type(path).__name__}"
        ) from None
    if isinstance(source, Group):
        session, key = source._session, source._key
        session.check()
        with session.parts(key) as parts:
            attrs = session.attrs_files(key)
            _later.write_packed(parts, attrs, target, overwrite, progress, order, codec)
        return
    if not isinstance(source, ExtArray):
        raise ArgumentTypeError(
            f"cannot pack a {type(source).__name__}; give an array or a group, as returned by "
            "extarray.open or open_group"
        )
    source._check()
    if hasattr(source, "comm"):
        raise ArgumentError(
            f"cannot pack {source._name()} under a communicator; open it in one process"
        )
    check_not_held(source, "pack")
    if source.mode == "r+":
        source.flush()
    name = source.path.name if source.path is not None else target.stem
    with source._writers.resizing:
        now = source._store.now
        part = _later.Part(name, _later.Snapshot.of(now, source.axial), lambda: nullcontext(now))
        _later.write_packed([part], {}, target, overwrite, progress, order, codec)
