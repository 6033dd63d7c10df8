"""Publish an array to a bucket, where it follows the array as it grows."""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING, Any

from extarray.array.array import ExtArray
from extarray.array.life import check_not_held
from extarray.codecs.codec import Codec
from extarray.common.arguments import NOT_GIVEN, check_flag
from extarray.common.calls import public
from extarray.common.errors import ArgumentError, ArgumentTypeError, ExistsError
from extarray.common.extras import require
from extarray.common.lazy import LazyImports
from extarray.fetched.paths import NOT_THERE, local_or_remote
from extarray.format.blobs import check_blob_size
from extarray.format.suffixes import METADATA
from extarray.remote.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from extarray.fetched.paths import RemotePath
    from extarray.maintenance.packing import Snapshot
    from extarray.maintenance.publishing import Publisher
    from extarray.storage.store import Present

__all__ = ["PublishedArray", "publish"]

_later = LazyImports(
    {
        "extarray.maintenance.packing": "Snapshot codec_of",
        "extarray.maintenance.publishing": "Publisher contains",
        "extarray.remote.objects": "RemoteObject",
        "extarray.remote.writing": "Writing check_writable",
    }
)

# Seconds that a request may take: whole objects are sent, perhaps over a slow line.
_TIMEOUT = 300.0


@public
def publish(
    source: ExtArray,
    url: str | PathLike[str] | tuple[Any, str],
    *,
    compression: str | int | Codec | None = NOT_GIVEN,
    compare: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> PublishedArray:
    """Publish an array in a bucket, where it can follow the array as it grows.

    Parameters
    ----------
    source : ExtArray
        An array, open in any mode; it stays open.
    url : str or tuple
        Place of the published array: a URL (``s3://bucket/scene``; also ``gs`` and ``az``), or
        (store of obstore, path).  Its objects have names that begin with the place and "/".
    compression : str, int, Codec or None
        A codec for chunks that are not compressed, as for `pack`.  None: they are published as they
        are.  Default: the codec of the array, if it has one.
    compare : bool
        If the array is published there already, look for elements that were overwritten since; see
        `PublishedArray.update`.
    storage_options : mapping, optional
        Credentials and settings for the URL, as for `open`.

    Returns
    -------
    PublishedArray
        Its `update` publishes what is new since then.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        ValueError, TypeError: the place is no bucket, or cannot replace objects under a condition.
    ExistsError
        A FileExistsError: the files of an array are there.
    ReplacedError
        An OSError: another array is published there.
    AccessError, RemoteError
        OSErrors: nobody may write there, or the server fails again and again.
    StorageError
        As for `PublishedArray.update`.
    FormatError
        A ValueError: what is published there is damaged.
    LimitError
        An OverflowError: a chunk has 1 GiB or more.
    MissingExtraError
        An ImportError: obstore, or the library of the codec, is not installed.

    Notes
    -----
    If the array is published there already, this publishes what is new, also where the last
    publisher died.  `open` reads the place, and its `refresh` takes up later states.

    A growth takes two requests, however large the array is and along whatever axis it grows: one
    for an object with its chunks (of 32 MiB; more need more), and one that replaces the head.  A
    third one is for chunks that a growth has only partly filled.  Objects with chunks never change,
    so a reader sees one state or the next.  Several publishers of one array do no harm.

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
    if not isinstance(source, ExtArray):
        raise ArgumentTypeError(
            f"cannot publish a {type(source).__name__}; give an array, as returned by extarray.open"
        )
    source._check()
    if hasattr(source, "comm"):
        raise ArgumentError(
            f"cannot publish {source._name()} under a communicator; open it in one process"
        )
    require("obstore", "remote", "publishing in a bucket")
    options = {"timeout": _TIMEOUT, **(storage_options or {})}
    path = local_or_remote(url, options) if is_url(url) else None
    if path is None or path.packed() is not None:
        raise ArgumentError(
            f"cannot publish to {url!r}: the place must be a URL of a bucket, such as "
            "'s3://bucket/scene', or (store of obstore, path), and no packed file"
        )
    codec = compression if compression is NOT_GIVEN else Codec.parse(compression)
    if codec is NOT_GIVEN:
        codec = _later.codec_of(source._store.now.header)
    check_blob_size(source._store.now.header.chunk_bytes, source._name())
    found = PublishedArray(source, path, codec)
    found._publisher.load()
    if found._publisher.known is None:
        _check_free(path)
    found.update(compare=compare)
    return found


def _check_free(path: RemotePath) -> None:
    """Raise ExistsError if the files of an array are there, which `open` would open instead."""
    with contextlib.suppress(*NOT_THERE):
        _later.RemoteObject.read_head(path.object(METADATA), 1)
        raise ExistsError(
            errno.EEXIST,
            f"cannot publish to '{path}': the files of an array are there; publish to another "
            "place, or remove them first",
            f"{path}{METADATA}",
        )


class PublishedArray:
    """An array, and the place where it is published; `publish` returns one.

    It may be used by one thread at a time.

    Parameters
    ----------
    source : ExtArray
    path : RemotePath
    codec : Codec or None

    Attributes
    ----------
    source : ExtArray
        The array.
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

    def __init__(self, source: ExtArray, path: RemotePath, codec: Codec | None) -> None:
        self.source, self.url = source, str(path)
        place = path.object()
        _later.check_writable(place)
        self._writing = _later.Writing(place)
        self._source = _Source(source)
        self._publisher: Publisher = _later.Publisher(self._writing, codec)

    def __repr__(self) -> str:
        known = self._publisher.known
        shape = None if known is None else known.state.shape
        return f"<PublishedArray {self.url}, of shape {shape}>"

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
            that differ.  Without it, growth, cuts and attributes are published, but elements that
            were overwritten are not, unless chunks with them are published anyway.

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
        flushed.  Elements that are written meanwhile are published old or new.

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
        array = self.source
        array._check()
        check_not_held(array, "publish")
        return self._publisher.update(self._source, compare)

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
        return self._publisher.clean(self.source._store.now.header, seconds)


class _Source:
    """The array as its publisher sees it."""

    def __init__(self, array: ExtArray) -> None:
        self._array: Any = array

    @property
    def lock(self) -> Any:
        """Held while chunks are read: growth waits, and so do cuts."""
        return self._array._writers.resizing

    @property
    def _follows(self) -> bool:
        """True if others commit, too."""
        now = self._array._store.now
        return bool(now.follows or now.others is not None)

    @property
    def is_writer(self) -> bool:
        """True if nobody knows a newer state of the array."""
        return not self._follows

    def look(self) -> tuple[Present, Snapshot]:
        """Return the present of the array, and a snapshot of its newest state."""
        array = self._array
        array._check()
        if array.mode == "r+":
            array.flush()
        if self._follows:
            array.refresh()
        with self.lock:
            now = array._store.now
            return now, _later.Snapshot.of(now, array.axial)

    def has_all(self, was: Snapshot) -> bool:
        """Tell whether no element of a snapshot has been cut off since."""
        array = self._array
        if self._follows:
            array.refresh()
        with self.lock:
            now = _later.Snapshot.of(array._store.now, array.axial)
        if now.cuts != was.cuts or now.header.chunks != was.header.chunks:
            return False
        found: bool = _later.contains(now, was)
        return found
