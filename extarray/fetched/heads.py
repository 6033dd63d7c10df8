"""Heads of published arrays, and the pages that they name."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NamedTuple

from extarray.common.config import config
from extarray.common.errors import CorruptError, FormatError, ReplacedError, ResultError
from extarray.common.hints import hint
from extarray.common.limits import limits
from extarray.common.waiting import attempts, end_of
from extarray.format._crc import crc32c
from extarray.format.published import (
    HEAD,
    HEAD_BYTES,
    Published,
    decode_frame,
    join_frames,
    name_of,
)
from extarray.remote.objects import RemoteObject

if TYPE_CHECKING:
    from extarray.fetched.paths import RemotePath
    from extarray.format.published import Frame
    from extarray.remote.objects import Counts

__all__ = ["Head", "PublishedHere", "read_head", "removed"]


class Head(NamedTuple):
    """A head as it was fetched, with its pages.

    Attributes
    ----------
    path : RemotePath
        Of the published array.
    object : RemoteObject
    found : Published
    pages : dict
        By their uuids.
    """

    path: RemotePath
    object: RemoteObject
    found: Published
    pages: dict[bytes, Frame]

    def refreshed(self) -> Head | None:
        """Return the head as it is now, or None if it is still the same.

        Raises
        ------
        MissingError
            There is none any more.
        """
        newer = self.object.refreshed()
        return None if newer is None else _whole(self.path, newer, self.pages)


class PublishedHere(Exception):  # noqa: N818 -- an answer
    """There is a published array; `head` is its head."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head


def read_head(path: RemotePath, counts: Counts) -> Head:
    """Fetch the head of a published array, and the pages that it names.

    Raises
    ------
    MissingError, AccessError
        There is none.
    FormatError
        It is something else, or damaged.
    """
    found, _ = RemoteObject.read_tail((path / HEAD).object(), HEAD_BYTES, counts)
    return _whole(path, found, {})


def _whole(path: RemotePath, found: RemoteObject, known: dict[bytes, Frame]) -> Head:
    """Return a head with its pages, which come with one request each unless they are known."""
    for _ in attempts(end_of(limits.visibility_patience)):
        try:
            if found.size > HEAD_BYTES:
                raise CorruptError(f"it has {found.size} bytes, more than a head")
            head = decode_frame(found.tail)
        except FormatError as error:
            raise type(error)(f"'{path}/{HEAD}': {error}") from None
        try:
            pages = _pages(path, head, known, found.counts)
        except ReplacedError:  # a cleaner has removed one, which newer heads do not name
            newer = found.refreshed()
            if newer is None:
                break
            found = newer
            continue
        try:
            return Head(path, found, join_frames(head, list(pages.values())), pages)
        except FormatError as error:
            raise type(error)(f"'{path}/{HEAD}': {error}") from None
    raise CorruptError(f"'{path}': objects that its head names are missing; publish it anew")


def _pages(
    path: RemotePath, head: Frame, known: dict[bytes, Frame], counts: Counts
) -> dict[bytes, Frame]:
    """Return the pages that a head names, and readers need, in its order."""
    rows = head.pages[head.pages["graves"] == 0]
    if int(rows["size"].sum()) > config.max_result:
        raise ResultError(f"the pages of '{path}' exceed config.max_result")
    coming = {}
    for row in rows:
        uuid = row["uuid"].tobytes()
        if uuid not in known:
            place = (path / name_of(uuid)).object()
            page = RemoteObject(place, int(row["size"]), None, counts=counts).any_version()
            coming[uuid] = page.start([0], [int(row["size"])])
    pages = {}
    for row in rows:
        uuid = row["uuid"].tobytes()
        if uuid in known:
            pages[uuid] = known[uuid]
            continue
        data = bytes(coming[uuid].result()[0])
        try:
            if crc32c(data) != int(row["crc"]):
                raise CorruptError("it does not match its checksum")
            pages[uuid] = decode_frame(data)
        except FormatError as error:
            raise type(error)(f"'{path}/{name_of(uuid)}': {error}") from None
    return pages


def removed(path: RemotePath) -> ReplacedError:
    """Return the error for an object that the state of a reader needs, and that is gone."""
    return ReplacedError(
        errno.ESTALE,
        f"an object of '{path}' was removed: newer states do not need it; "
        + hint("refresh() to read the newest one", "start again")
        + ", and let cleaners wait longer",
        str(path),
    )
