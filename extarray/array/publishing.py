"""Publish arrays and groups in buckets, where they can grow."""

from __future__ import annotations

import contextlib
import errno
import os
from os import PathLike
from typing import TYPE_CHECKING, Any

from extarray.array.array import ExtArray
from extarray.array.creation import open as open_array
from extarray.array.life import check_not_held
from extarray.codecs.codec import Codec
from extarray.common.arguments import NOT_GIVEN, check_flag
from extarray.common.calls import public
from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExistsError,
    MissingError,
    ReplacedError,
    StorageError,
)
from extarray.common.extras import require
from extarray.common.lazy import LazyImports
from extarray.fetched.paths import NOT_THERE, local_or_remote
from extarray.format.blobs import check_blob_size
from extarray.format.index import INDEX_NAME, encode_index
from extarray.format.suffixes import METADATA
from extarray.remote.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from extarray.array.folders import Group
    from extarray.fetched.paths import RemotePath
    from extarray.maintenance.packing import Snapshot
    from extarray.maintenance.publishing import Look, Publisher, Shot

__all__ = ["Publication", "publish"]

_later = LazyImports(
    {
        "extarray.array.folders": "Group open_group",
        "extarray.array.group": "locked refresh",
        "extarray.maintenance.packing": "Snapshot",
        "extarray.maintenance.publishing": "Look Publisher Shot contains",
        "extarray.remote.objects": "RemoteObject",
        "extarray.remote.writing": "Writing check_writable",
    }
)

# Seconds that a request may take: whole objects are sent, perhaps over a slow line.
_TIMEOUT = 300.0


# Looks at a group whose arrays are replaced again and again.
_LOOKS = 20


@public
def publish(
    source: ExtArray | Group | str | PathLike[str],
    url: str | PathLike[str] | tuple[Any, str],
    *,
    compression: str | int | Codec | None = NOT_GIVEN,
    compare: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Publication:
    """Publish an array or a group in a bucket, where it can follow the original as that grows.

    Parameters
    ----------
    source : ExtArray, Group, str or PathLike
        An array or a group, open in any mode; it stays open.  Or the path of one, which is opened
        for reading.
    url : str or tuple
        Place to publish it: a URL (``s3://bucket/scene``; also ``gs`` and ``az``), or (store of
        obstore, path).  Its objects have names that begin with the place and "/".
    compression : str, int, Codec or None
        A codec for chunks that are not compressed, as for `pack`.  None: they are published as they
        are, unless a half is empty.  Default: the codec of each array, if it has one.
    compare : bool
        If it is published there already, look for elements that were overwritten since; see
        `Publication.update`.
    storage_options : mapping, optional
        Credentials and settings for the URL, as for `open`.

    Returns
    -------
    Publication
        Its `update` publishes what is new since then.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        ValueError, TypeError: the place is no bucket, or cannot replace objects under a condition.
    ExistsError
        A FileExistsError: the files of an array or a group are there.
    ReplacedError
        An OSError: another array or group is published there.
    AccessError, RemoteError
        OSErrors: nobody may write there, or the server fails again and again.
    StorageError
        As for `Publication.update`.
    FormatError
        A ValueError: what is published there is damaged.
    LimitError
        An OverflowError: a chunk has 1 GiB or more.
    MissingExtraError
        An ImportError: obstore, or the library of the codec, is not installed.

    Notes
    -----
    If it is published there already, this publishes what is new, also where the last publisher
    died.  `open` and `open_group` read the place, and `refresh` takes up later states.

    A growth takes two requests, however large the arrays are and along whatever axes they grow: one
    for an object with the chunks of all arrays (of 32 MiB; more need more), and one that replaces
    the head.  Objects with chunks never change, so a reader sees one state or the next, of all
    arrays together.  Several publishers of one array or group do no harm.  All arrays of a group
    stay open.

    Examples
    --------
    >>> import extarray as xa
    >>> from obstore.store import MemoryStore
    >>> store = MemoryStore()
    >>> a = xa.from_array([[1, 2], [3, 4]])
    >>> p = xa.publish(a, (store, "scene"))
    >>> a.append([[5, 6]], axis=0)
    >>> p.update(), p.update()
    (True, False)
    >>> xa.open((store, "scene"))[...]
    array([[1, 2],
           [3, 4],
           [5, 6]])
    """
    require("obstore", "remote", "publishing in a bucket")
    options = {"timeout": _TIMEOUT, **(storage_options or {})}
    path = local_or_remote(url, options) if is_url(url) else None
    if path is None or path.packed() is not None:
        raise ArgumentError(
            f"cannot publish to {url!r}: the place must be a URL of a bucket, such as "
            "'s3://bucket/scene', or (store of obstore, path), and no packed file"
        )
    codec = compression if compression is NOT_GIVEN else Codec.parse(compression)
    check_flag(compare, "compare")
    if isinstance(source, (str, PathLike)):
        source = _opened(source)
    found = Publication(source, path, codec)
    found._publisher.load()
    if found._publisher.known is None:
        _check_free(path)
    found.update(compare=compare)
    return found


def _opened(path: str | PathLike[str]) -> ExtArray | Group:
    """Open an array or a group for reading."""
    try:
        return open_array(path)
    except MissingError:
        if not os.path.isdir(path):
            raise
    group: Group = _later.open_group(path)
    return group


def _check_free(path: RemotePath) -> None:
    """Raise ExistsError if files are there that would be opened instead."""
    index = (path / INDEX_NAME).object()
    for place, kind in ((path.object(METADATA), "an array"), (index, "a group")):
        with contextlib.suppress(*NOT_THERE):
            _later.RemoteObject.read_head(place, 1)
            raise ExistsError(
                errno.EEXIST,
                f"cannot publish to '{path}': the files of {kind} are there; publish to "
                "another place, or remove them first",
                place.url,
            )


class Publication:
    """An array or a group, and the place where it is published; `publish` returns one.

    It may be used by one thread at a time.

    Parameters
    ----------
    source : ExtArray or Group
    path : RemotePath
    codec : Codec or None

    Attributes
    ----------
    source : ExtArray or Group
    url : str
        The place.

    Examples
    --------
    >>> import extarray as xa
    >>> from obstore.store import MemoryStore
    >>> a = xa.zeros((2, 2))
    >>> p = xa.publish(a, (MemoryStore(), "scene"))
    >>> a.append([[1, 2]], axis=0)
    >>> p.update()
    True
    >>> p.requests["puts"]
    4
    """

    def __init__(self, source: ExtArray | Group, path: RemotePath, codec: Codec | None) -> None:
        self.source, self.url = source, str(path)
        self._origin = _origin_of(source)
        place = path.object()
        _later.check_writable(place)
        self._writing = _later.Writing(place)
        self._publisher: Publisher = _later.Publisher(self._writing, self._origin, codec)

    def __repr__(self) -> str:
        return f"<extarray.Publication '{self.url}': {self.content}>"

    @property
    def content(self) -> str:
        """The published content in short: the shape of an array, or how many arrays a group has."""
        known = self._publisher.known
        if known is None:
            return "nothing"
        if not known.head.is_group:
            return str(known.members[""].found.state.shape)
        n = len(known.members)
        return f"{n} array{'s' * (n != 1)}"

    @property
    def requests(self) -> dict[str, int]:
        """Numbers of requests so far: ``puts``, ``gets``, ``lists``, ``deletes``; and bytes.

        The bytes are ``sent`` and ``received``.
        """
        return dict(vars(self._writing.requests))

    @public
    def update(self, *, compare: bool = False) -> bool:
        """Publish what is new since the last update.

        Parameters
        ----------
        compare : bool
            Compare all chunks with those that are published, by their checksums, and publish those
            that differ.  Without it, growth, cuts and attributes are published, and the arrays that
            a group gains and loses; but elements that were overwritten are not, unless chunks with
            them are published anyway.

        Returns
        -------
        bool
            False if there is nothing new, or if a later state of the array is published.

        Raises
        ------
        ClosedError
            A ValueError: the array is closed.
        ReplacedError
            An OSError: another array was published in the same place.
        AccessError, RemoteError
            OSErrors: the server fails.
        StorageError
            Also where other publishers are always faster, or elements are cut off meanwhile
            (EAGAIN); and, without `compare`, where a later state is published than that of the
            array, which was restored from a copy, or has lost commits in a power cut (ESTALE).

        Notes
        -----
        An array that is open for reading is refreshed first; one that is open for writing is
        flushed.  All arrays of a group are published as they are at one moment.  Elements that are
        written meanwhile are published old or new.

        Elements that were overwritten, or cut off and added again, between two updates need
        `compare`; it reads the whole array, and nothing but what differs is sent.

        Examples
        --------
        >>> import extarray as xa
        >>> from obstore.store import MemoryStore
        >>> a = xa.zeros((2, 2))
        >>> p = xa.publish(a, (MemoryStore(), "scene"))
        >>> a[0, 0] = 1
        >>> p.update(), p.update(compare=True)
        (False, True)
        """
        check_flag(compare, "compare")
        return self._publisher.update(compare)

    @public
    def clean(self, *, older_than: float = 86400.0) -> int:
        """Remove objects that are not needed any more.

        Parameters
        ----------
        older_than : float
            Seconds for which an object must have been out of use; a day by default.  Readers that
            have not refreshed for longer may get a ReplacedError, until they refresh.

        Returns
        -------
        int
            Number of objects that were removed.

        Raises
        ------
        ArgumentError
            A ValueError: a negative number.
        MissingError
            A FileNotFoundError: nothing is published there any more.
        AccessError, RemoteError
            OSErrors: nobody may list or remove objects there, or the server fails.

        Notes
        -----
        Objects fall out of use when chunks are published again, or their publisher dies or is
        slower than another one.  Publishers that are at work meanwhile do no harm, and come to
        none.

        Examples
        --------
        >>> import extarray as xa
        >>> from obstore.store import MemoryStore
        >>> a = xa.zeros((3, 2), chunks=(2, 2))
        >>> p = xa.publish(a, (MemoryStore(), "scene"))
        >>> for _ in range(3):
        ...     a.append([[1, 2]], axis=0)
        ...     _ = p.update()
        >>> p.clean(older_than=0)
        1
        """
        seconds = float(older_than)
        if not seconds >= 0:
            raise ArgumentError(f"older_than must be a number of seconds, not {older_than!r}")
        return self._publisher.clean(seconds)


def _origin_of(source: Any) -> _OneArray | _AllOfGroup:
    """Return what is to be published, for its publisher."""
    if isinstance(source, ExtArray):
        if hasattr(source, "comm"):
            raise ArgumentError(
                f"cannot publish {source._name()} under a communicator; open it in one process"
            )
        source._check()
        check_blob_size(source._store.now.header.chunk_bytes, source._name())
        return _OneArray(source)
    if isinstance(source, _later.Group):
        return _AllOfGroup(source)
    raise ArgumentTypeError(
        f"cannot publish a {type(source).__name__}; give an array or a group of extarray, or a "
        "path of one"
    )


class _OneArray:
    """An array as its publisher sees it."""

    is_group = False

    def __init__(self, array: ExtArray) -> None:
        self._array = array

    def uuids(self) -> set[bytes]:
        """Return the uuid of the array."""
        return {self._array._store.now.header.uuid}

    def look(self) -> Look:
        """Return the newest state."""
        array, source = self._array, _Source(self._array)
        array._check()
        check_not_held(array, "publish")
        if array.mode == "r+":
            array.flush()
        if not source.is_writer:
            array.refresh()
        with source.lock:
            look: Look = _later.Look({"": source.shot()}, None)
        return look


class _AllOfGroup:
    """The arrays and attributes of a group as its publisher sees them."""

    is_group = True

    def __init__(self, group: Group) -> None:
        self._group = group
        self._arrays: dict[str, ExtArray] = {}  # held, so that they stay open

    def _held(self) -> dict[str, ExtArray]:
        """Open all arrays of the group."""
        session, key = self._group._session, self._group._key
        session.check()
        arrays = {name: session.hold_if_there(name) for name in session.keys(key)}
        start = len(key) + bool(key)
        self._arrays = {name[start:]: a for name, a in arrays.items() if a is not None}
        return self._arrays

    def uuids(self) -> set[bytes]:
        """Return the uuids of all arrays."""
        return {array._store.now.header.uuid for array in self._held().values()}

    def look(self) -> Look:
        """Return the newest states of all arrays, as of one moment."""
        session, key = self._group._session, self._group._key
        for _ in range(_LOOKS):
            arrays = self._held()
            for array in arrays.values():
                check_not_held(array, "publish")
                if array.mode == "r+":
                    array.flush()
            with contextlib.suppress(ReplacedError):
                _later.refresh(array for array in arrays.values() if array.mode == "r")
            gone = [array for array in arrays.values() if array.mode == "r" and array.replaced]
            if not gone:
                break
            for array in gone:
                array.close()  # the next look opens what has its name now
        else:
            raise StorageError(
                errno.EAGAIN, "its arrays keep being replaced; try again later", session.shown
            )
        with _later.locked(list(arrays.values())):
            shots = {name: _Source(array).shot() for name, array in arrays.items()}
        look: Look = _later.Look(shots, encode_index(shots, session.attrs_files(key)))
        return look


class _Source:
    """An array as its publisher reads its chunks."""

    def __init__(self, array: ExtArray) -> None:
        self._array: Any = array

    @property
    def lock(self) -> Any:
        """Held while chunks are read: growth waits, and so do cuts."""
        return self._array._writers.resizing

    @property
    def is_writer(self) -> bool:
        """True if nobody knows a newer state of the array."""
        now = self._array._store.now
        return not (now.follows or now.others is not None)

    def shot(self) -> Shot:
        """Return the present state; for holders of the lock."""
        now = self._array._store.now
        shot: Shot = _later.Shot(self, now, _later.Snapshot.of(now, self._array.axial))
        return shot

    def has_all(self, was: Snapshot) -> bool:
        """Tell whether no element of a snapshot has been cut off since."""
        array = self._array
        if not self.is_writer:
            array.refresh()
        with self.lock:
            now = _later.Snapshot.of(array._store.now, array.axial)
        if now.cuts != was.cuts or now.header.chunks != was.header.chunks:
            return False
        found: bool = _later.contains(now, was)
        return found
