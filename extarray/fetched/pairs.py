"""Pairs of files on servers and in buckets, which may still grow: whole states, and their chunks.

A server reads ``.xmd`` while a writer changes it, so what arrives may be torn.  It is parsed aside,
and read again, until its checksums tell a whole state.  A proxy may answer with an older one: that
is passed over, so a reader never goes back.
"""

from __future__ import annotations

import contextlib
import errno
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from extarray.common.errors import (
    ArgumentError,
    CorruptError,
    FormatError,
    MissingError,
)
from extarray.fetched.metadata import Content, Words, read_content
from extarray.fetched.paths import NOT_THERE, why_read_only
from extarray.format.constants import HOLDER_BYTES, LIVE_SLOTS, SEAL_BYTES
from extarray.format.suffixes import DATA, METADATA
from extarray.remote.objects import Counts, RemoteObject
from extarray.storage.filesystem import fresh_name
from extarray.storage.frozen import HANDED_ON, FrozenTable
from extarray.storage.pair import Pair, blobs_alone
from extarray.storage.states import StateReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from extarray.fetched.paths import RemotePath
    from extarray.format.groups import Pending
    from extarray.format.header import Header

__all__ = ["Found", "RemotePair", "RemoteStates", "read_pair", "read_seal"]

# Reads of torn metadata before they count as damaged, and the seconds between two.
_ATTEMPTS = 20
_PAUSE = 0.01
# Reads of the same content before it counts as damaged.
_EQUAL = 3


class RemotePair(Pair):
    """A pair of files elsewhere: the shadows of both, and the present state."""

    path: RemotePath  # type: ignore[assignment]

    def __init__(self, path: RemotePath) -> None:
        super().__init__(path, (f"{path}{METADATA}", f"{path}{DATA}"))  # type: ignore[arg-type]

    @property
    def why_read_only(self) -> str:  # type: ignore[override]
        """Why nobody can write to it, and what to do instead."""
        return why_read_only()

    @property
    def absolute(self) -> str:
        """The URL, without suffix and secrets."""
        return str(self.path)

    @property
    def folder(self) -> str:
        """The URL of the folder."""
        return str(self.path.parent)

    @property
    def real_path(self) -> str:
        """The URL by which others find the pair."""
        return str(self.path)

    def notes_writer(self) -> bool:
        """Tell whether a writer has noted itself, which may be dead."""
        return any(self.metadata.read(HOLDER_BYTES, self.header.holder_offset))

    @property
    def has_name(self) -> bool:
        """True: the store looks at the name by itself."""
        return True

    def path_of(self, path: bytes) -> Any:
        """Return the path of another array that the metadata refer to; its own, if elsewhere."""
        try:
            return self.path.parent.joined(path.decode())
        except (ArgumentError, UnicodeDecodeError):
            return None


class RemoteStates(StateReader):
    """The states of a pair of files elsewhere."""

    def coordinator_of(self, pending: Pending) -> Any:
        """Return the path of the array that decides a pending state; None if it is out of reach."""
        return self.pair.path_of(pending.path)

    def probe(  # type: ignore[override]
        self, place: RemotePath | None, uuid: bytes
    ) -> AbstractContextManager[StateReader]:
        """Fetch another array's metadata; see `StateReader.probe`."""
        pair: Any = self.pair
        return _probing(pair.path if place is None else place, uuid, place is not None)


class _Coordinator(RemoteStates):
    """The metadata of an array that others ask for a decision, fetched each time."""

    def __init__(self, path: RemotePath, uuid: bytes) -> None:
        super().__init__(RemotePair(path))
        self._uuid = uuid

    def fetch(self) -> None:
        """Fetch the metadata; leave them closed if they do not exist, or are another array's."""
        pair = self.pair
        pair.metadata.close()
        with contextlib.suppress(*NOT_THERE):
            path: Any = pair.path
            content, _ = read_content(path, Counts())
            pair.metadata = content.shadow(pair.names[0])
            try:
                pair.read_header()
            except FormatError as error:
                self.fault = type(error)(f"'{pair.names[0]}': {error}")
                pair.metadata.close()
                return
            if pair.header.uuid != self._uuid:
                pair.metadata.close()

    def newest_group(self) -> bytes | None:
        """Return the group that the newest whole state has decided."""
        self.fetch()
        return super().newest_group()


@contextlib.contextmanager
def _probing(path: RemotePath, uuid: bytes, exists: bool) -> Iterator[StateReader]:
    reader = _Coordinator(path, uuid) if exists else RemoteStates(RemotePair(path))
    try:
        yield reader
    finally:
        reader.pair.close()


# -- the metadata --------------------------------------------------------------------------------


class Found(NamedTuple):
    """Whole metadata, as fetched.

    Attributes
    ----------
    content : Content
        Of ``.xmd``.
    header : Header
    sequence, cuts : int
        Numbers of the newest whole state, and of cuts.
    is_torn : bool
        A newer state is not whole, as after the death of a writer.
    words : Words or None
        Of frozen chunks, if there may be any.
    """

    content: Content
    header: Header
    sequence: int
    cuts: int
    is_torn: bool
    words: Words | None

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Numbers that never fall: of the state, of cuts, and of freezes."""
        n_freezes = 0 if self.words is None else self.words.number & ~HANDED_ON
        return self.sequence, self.cuts, n_freezes


def read_pair(path: RemotePath, counts: Counts, known: Content | None = None) -> Found | None:
    """Fetch the metadata of a pair, in a whole state; None if they equal the `known` ones.

    Raises
    ------
    MissingError
        There is no such array.
    FormatError
        It is damaged.
    """
    problem: Exception = CorruptError("no superblock is intact")
    older, last, n_equal = None, None, 0
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE * attempt)
        content, source = read_content(path, counts)
        if content == known:
            return None
        n_equal = n_equal + 1 if content == last else 0
        if n_equal == _EQUAL:
            break  # damaged, rather than torn
        last = content
        pair = RemotePair(path)
        pair.metadata = content.shadow(pair.names[0])
        try:
            pair.read_header()
            states = RemoteStates(pair)
            state = states.newest_state().state
            blocks = states.superblocks(LIVE_SLOTS)
            newest = max((block.sequence for _, block in blocks), default=0)
            is_torn = newest > state.sequence
            words = _words_of(pair, content, source, not state.sealed)
            found = Found(content, pair.header, state.sequence, pair.read_cuts(), is_torn, words)
            if not is_torn or (older is not None and older.content == content):
                return found  # otherwise a writer is at work
            older = found
        except FormatError as error:
            problem = error
        finally:
            pair.close()
    if older is not None:
        return older
    raise type(problem)(f"'{path}{METADATA}': {problem}")


def _words_of(
    pair: RemotePair, content: Content, source: RemoteObject, is_open: bool
) -> Words | None:
    """Return the words of frozen chunks in metadata, if there may be any."""
    if not pair.header.has_blobs:
        return None
    found = FrozenTable.block_of(pair)
    if found is None:
        raise blobs_alone(pair.names[0])
    may_change = is_open or pair.notes_writer()
    return Words(content, source, pair.header, found[1], may_change)


def read_seal(pair: RemotePair, counts: Counts) -> tuple[RemoteObject, bytes]:
    """Open ``.xta``, and return its last bytes, which are its seal if it has one.

    An array that is being replaced has its data under the fresh name for a moment.
    """
    path, uuid = pair.path, pair.header.uuid
    try:
        return RemoteObject.read_tail(path.object(DATA), SEAL_BYTES, counts)
    except NOT_THERE as error:
        with contextlib.suppress(*NOT_THERE):
            return RemoteObject.read_tail(path.object(fresh_name(DATA, uuid)), SEAL_BYTES, counts)
        if not isinstance(error, MissingError):
            raise error
        raise MissingError(
            errno.ENOENT,
            f"cannot open '{path}': the metadata file exists, but its data file is missing; put "
            "both files in the same place",
            pair.names[1],
        ) from None
