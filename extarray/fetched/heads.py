"""Heads of published arrays and groups, and the pages that they name."""

from __future__ import annotations

import contextlib
import errno
import threading
from typing import TYPE_CHECKING, NamedTuple

from extarray.common.config import config
from extarray.common.errors import (
    CorruptError,
    FormatError,
    MissingError,
    ReplacedError,
    ResultError,
)
from extarray.common.forks import in_children
from extarray.common.hints import hint
from extarray.common.limits import limits
from extarray.common.waiting import attempts, end_of
from extarray.fetched.paths import NOT_THERE
from extarray.format._crc import crc32c
from extarray.format.published import (
    HEAD,
    HEAD_BYTES,
    Published,
    decode_frame,
    join_frames,
    join_group,
    name_of,
)
from extarray.remote.objects import Counts, RemoteObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extarray.fetched.paths import RemotePath
    from extarray.format.index import Index
    from extarray.format.published import Frame, PublishedGroup

__all__ = ["Head", "Place", "PublishedHere", "find_group", "read_place", "removed"]


class Head(NamedTuple):
    """A state of a published array.

    Attributes
    ----------
    path : RemotePath
        Of the place, where the objects are.
    object : RemoteObject
        The head of the place.
    found : Published
    """

    path: RemotePath
    object: RemoteObject
    found: Published


class PublishedHere(Exception):  # noqa: N818 -- an answer
    """The array is published; `place` is where, and `name` its name in the group there."""

    def __init__(self, place: Place, name: str) -> None:
        super().__init__()
        self.place, self.name = place, name


class Place:
    """A place where an array or a group is published, and the newest head that was fetched.

    The arrays of a group that were opened together share one, so that a look at the head is one for
    all of them.

    Parameters
    ----------
    path : RemotePath
    found : RemoteObject
        The head, with all of its bytes in its tail.

    Attributes
    ----------
    path : RemotePath
    """

    def __init__(self, path: RemotePath, found: RemoteObject) -> None:
        self.path = path.outside()
        self._lock = threading.RLock()
        self._pages: dict[bytes, Frame] = {}
        self._is_there, self._looks = True, 0  # as the last look told; blocks of one look
        self._object = found
        self._take(found)
        in_children(self, Place._forked)

    def _forked(self) -> None:
        self._lock = threading.RLock()

    @property
    def counts(self) -> Counts:
        """Requests that were made for heads and pages."""
        return self._object.counts

    @property
    def is_group(self) -> bool:
        """True if a group is published there."""
        return self._group is not None

    @property
    def sequence(self) -> int:
        """Number of the newest head that was fetched."""
        return self._frame.number

    @property
    def index(self) -> Index:
        """The index of the group."""
        assert self._group is not None
        return self._group.listing

    # -- the newest head -------------------------------------------------------------------------

    def look(self) -> bool:
        """Fetch a newer head, if there is one; return False if there is none any more.

        It is none, either, if something else is published there by now.
        """
        with self._lock:
            if self._looks:  # there was one already
                return self._is_there
            self._is_there = self._look()
            return self._is_there

    def _look(self) -> bool:
        try:
            newer = self._object.refreshed()
        except MissingError:
            return False
        if newer is None:
            return True
        frame = self._decoded(newer)
        if (frame.array, frame.is_group) != (self._frame.array, self._frame.is_group):
            return False
        if frame.number > self._frame.number:  # else a proxy has kept an older one
            self._take(newer)
        return True

    @contextlib.contextmanager
    def one_look(self) -> Iterator[bool]:
        """Let all looks in a block of this thread be the one with which it begins."""
        with self._lock:
            found = self.look()
            self._looks += 1
            try:
                yield found
            finally:
                self._looks -= 1

    def _take(self, found: RemoteObject) -> None:
        """Take up a head, and the pages of a group, which come with one request each."""
        for _ in attempts(end_of(limits.visibility_patience)):
            frame = self._decoded(found)
            try:
                group = self._joined(frame) if frame.is_group else None
            except ReplacedError:  # a cleaner has removed a page, which newer heads do not name
                newer = found.refreshed()
                if newer is None:
                    break
                found = newer
                continue
            self._object, self._frame, self._group = found, frame, group
            frames = [frame, *(() if group is None else group.members.values())]
            named = {row.tobytes() for one in frames for row in one.pages["uuid"]}
            self._pages = {uuid: page for uuid, page in self._pages.items() if uuid in named}
            return
        raise self._missing()

    def _missing(self) -> CorruptError:
        return CorruptError(
            f"'{self.path}': objects that its head names are missing; publish it anew"
        )

    def _joined(self, frame: Frame) -> PublishedGroup:
        pages = self._pages_of(frame)
        try:
            return join_group(frame, pages)
        except FormatError as error:
            raise self._told(error) from None

    def _decoded(self, found: RemoteObject) -> Frame:
        try:
            if found.size > HEAD_BYTES:
                raise CorruptError(f"it has {found.size} bytes, more than a head")
            return decode_frame(found.tail)
        except FormatError as error:
            raise self._told(error) from None

    def _told(self, error: FormatError) -> FormatError:
        return type(error)(f"'{self.path}/{HEAD}': {error}")

    # -- arrays ----------------------------------------------------------------------------------

    def number(self, name: str) -> int:
        """Return the number of the newest state of an array; 0 if there is none."""
        frame = self._of(name)
        return 0 if frame is None else frame.number

    def uuid(self, name: str) -> bytes | None:
        """Return the uuid of the array of a name; None if there is none."""
        frame = self._of(name)
        return None if frame is None else frame.array

    def _of(self, name: str) -> Frame | None:
        """Return the newest head of an array; None if there is none."""
        if self._group is not None:
            return self._group.members.get(name)
        return None if name else self._frame

    def head(self, name: str) -> Head:
        """Return the newest state of an array, "" if there is no group.

        Raises
        ------
        MissingError
            There is no such array, or not any more.
        """
        with self._lock:
            for _ in attempts(end_of(limits.visibility_patience)):
                frame = self._of(name)
                if frame is None:
                    raise MissingError(
                        errno.ENOENT,
                        f"no array {name!r} in the published group '{self.path}'"
                        if self.is_group
                        else f"no array '{self.path}/{name}'",
                        str(self.path / name),
                    )
                try:
                    pages = self._pages_of(frame)
                except ReplacedError:
                    before = self._object
                    if not self._look() or self._object is before:
                        break
                    continue
                try:
                    return Head(self.path, self._object, join_frames(frame, pages))
                except FormatError as error:
                    raise self._told(error) from None
            raise self._missing()

    def _pages_of(self, head: Frame) -> list[Frame]:
        """Return the pages that a head names, and readers need, in its order.

        Raises
        ------
        ReplacedError
            A cleaner has removed one.
        """
        rows = head.pages[head.pages["graves"] == 0]
        if int(rows["size"].sum()) > config.max_result:
            raise ResultError(f"the pages of '{self.path}' exceed config.max_result")
        coming = {}
        for row in rows:
            uuid, size = row["uuid"].tobytes(), int(row["size"])
            if uuid not in self._pages:
                place = (self.path / name_of(uuid)).object()
                page = RemoteObject(place, size, None, counts=self.counts).any_version()
                coming[uuid] = page.start([0], [size])
        for row in rows:
            uuid = row["uuid"].tobytes()
            if uuid not in coming:
                continue
            data = bytes(coming[uuid].result()[0])
            try:
                if crc32c(data) != int(row["crc"]):
                    raise CorruptError("it does not match its checksum")
                self._pages[uuid] = decode_frame(data)
            except FormatError as error:
                raise type(error)(f"'{self.path}/{name_of(uuid)}': {error}") from None
        return [self._pages[row["uuid"].tobytes()] for row in rows]


def read_place(path: RemotePath, counts: Counts | None = None) -> Place:
    """Fetch the head of what is published at a place.

    Raises
    ------
    MissingError, AccessError
        There is none.
    FormatError
        It is something else, or damaged.
    """
    found, _ = RemoteObject.read_tail((path / HEAD).object(), HEAD_BYTES, counts)
    return Place(path, found)


def find_group(path: RemotePath, counts: Counts | None = None) -> tuple[Place, str] | None:
    """Return the published group that a path leads into, and the name there; None without one."""
    place = path
    while place.parts:
        place = place.parent
        with contextlib.suppress(*NOT_THERE):
            found = read_place(place, counts)
            if found.is_group:
                return found, "/".join(path.parts[len(place.parts) :])
    return None


def removed(path: RemotePath) -> ReplacedError:
    """Return the error for an object that the state of a reader needs, and that is gone."""
    return ReplacedError(
        errno.ESTALE,
        f"an object of '{path}' was removed: newer states do not need it; "
        + hint("refresh() to read the newest one", "start again")
        + ", and let cleaners wait longer",
        str(path),
    )
