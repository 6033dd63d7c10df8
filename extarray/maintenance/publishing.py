"""Publish arrays and groups that grow to an object store: an object for all news, and the head.

``docs/format/published.md`` has the objects and the order in which they are written.  A publisher
knows the head that it has read or written last.  A commit replaces that one, or is lost as a whole.
"""

from __future__ import annotations

import errno
import json
import secrets
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from extarray._core._axial import Axial
from extarray._core._history import replay_log, starts_after
from extarray.codecs._filters import is_constant
from extarray.codecs.codec import Codec, CodecId, FilterId
from extarray.codecs.payloads import Encoded, encode
from extarray.common.arguments import NOT_GIVEN
from extarray.common.config import config
from extarray.common.errors import (
    CorruptError,
    FormatError,
    LimitError,
    MissingError,
    ReplacedError,
    StorageError,
)
from extarray.common.hints import hint
from extarray.common.limits import limits
from extarray.common.threads import run_together
from extarray.format._crc import crc32c
from extarray.format.blobs import blob_bytes, check_blob_size
from extarray.format.header import encode_header, new_uuid
from extarray.format.published import (
    ENTRY,
    FOLDER,
    HEAD,
    HEAD_BYTES,
    PAGE,
    RETIRED,
    TABLE_AT,
    Frame,
    ObjectMap,
    Published,
    Table,
    decode_frame,
    decode_table,
    encode_frame,
    encode_part,
    encode_state,
    for_blobs,
    is_dense,
    join_frames,
    join_group,
    key_of,
    keys_of,
    name_of,
    start_of,
    table_bytes,
    uuid_of_name,
)
from extarray.format.records import decode_records, encode_record
from extarray.format.superblock import Superblock
from extarray.grid.chunking import place_of
from extarray.grid.order import sides_in_memory
from extarray.maintenance.blob_packing import truncated
from extarray.maintenance.packing import codec_of
from extarray.remote.writing import ABSENT, LostRace, milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from extarray.format.header import Header
    from extarray.grid.bounds import Bounded
    from extarray.maintenance.packing import Snapshot
    from extarray.remote.answers import Mark
    from extarray.remote.writing import Writing
    from extarray.storage.store import Present

__all__ = ["Look", "Origin", "Publisher", "Shot", "Source", "contains"]

# Commits that are begun anew, because other publishers or cleaners were faster.
_ATTEMPTS = 50
# Bytes of an object from which on chunks go to the next one, and from which on it stays as it is.
_OBJECT = 32 << 20
_MERGED = 16 << 20
# Bytes of chunks that threads encode together.
_BATCH = 16 << 20
# For chunks of arrays without a codec of which a half is empty, as at the front.
_OF_EMPTY = Codec("zlib", 1)
# Objects that are on their way at the same time.
_AT_ONCE = 2
# Entries of about the same size that become one.
_FAN_OUT = 4
# Bytes of a head from which on lists go to pages, and the part of them from which on header and
# attributes do; those of the head of an array in a group that always stays as it is; and those of
# retired entries from which on they go to pages.
_FULL_HEAD, _FACTS = 40 << 10, 3
_SHORT_MEMBER = 2 << 10
_FULL_GRAVES = 12 << 10
# Bytes of pages up to which one takes over all before it.
_SHORT_PAGES = 1 << 20

_NO_ENTRIES, _NONE_RETIRED = np.zeros(0, ENTRY), np.zeros(0, RETIRED)


_T = TypeVar("_T")

# The address of a chunk; the chunk as its codec has it, None: the fill value; and its checksum.
_Chunk: TypeAlias = "tuple[int, Encoded | None, int]"


class Source(Protocol):
    """An array that is published."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while chunks are read."""

    @property
    def is_writer(self) -> bool:
        """True if nobody knows a newer state of the array."""

    def has_all(self, was: Snapshot) -> bool:
        """Tell whether no element of a snapshot has been cut off since."""


class Shot(NamedTuple):
    """The newest state of an array, and access to its chunks."""

    source: Source
    now: Present
    was: Snapshot


class Look(NamedTuple):
    """All that is to be published, as of one moment.

    Attributes
    ----------
    shots : dict
        By the names of the arrays in the group; "" for an array without a group.
    listing : bytes or None
        The index of the group.
    """

    shots: dict[str, Shot]
    listing: bytes | None


class Origin(Protocol):
    """An array or a group that is published."""

    @property
    def is_group(self) -> bool:
        """True for a group."""

    def uuids(self) -> set[bytes]:
        """Return the uuids of all arrays."""

    def look(self) -> Look:
        """Return the newest states, as of one moment."""


class _Page(NamedTuple):
    """A page, and its entry in the head."""

    row: NDArray[Any]
    frame: Frame


class _Member(NamedTuple):
    """An array as it is published: its head, the pages with its lists, and what they say."""

    head: Frame
    pages: list[_Page]
    found: Published


class _Draft(NamedTuple):
    """A new state of an array, whose lists are not divided into pages yet."""

    head: Frame
    entries: NDArray[Any]
    pages: list[_Page]


class Known(NamedTuple):
    """A published array or group, as of one head.

    Attributes
    ----------
    head : Frame
    members : dict
        By the names of arrays in the group; "" for an array without a group.
    pages, graves : list of _Page
        With heads of arrays in a group, and its index; with retired entries.
    retired : ndarray
    listing : bytes or None
        Of a group.
    named : ndarray
        Uuids of all objects.
    """

    head: Frame
    members: dict[str, _Member]
    pages: list[_Page]
    graves: list[_Page]
    retired: NDArray[Any]
    listing: bytes | None
    named: NDArray[Any]

    def all_pages(self) -> dict[bytes, _Page]:
        """Return all pages by their uuids."""
        own = [page for member in self.members.values() for page in member.pages]
        return {page.row["uuid"].tobytes(): page for page in [*own, *self.pages, *self.graves]}


class _News(NamedTuple):
    """The addresses of chunks to publish, and the objects that go on.

    Attributes
    ----------
    settled, front : ndarray of int64
        Chunks of objects that last, and of the tail.
    stays : ndarray of bool or None
        Which entries of the known head go on; None: none, and no page.
    """

    settled: NDArray[np.int64]
    front: NDArray[np.int64]
    stays: NDArray[np.bool_] | None


class Publisher:
    """A place where an array or a group is published, as its head was when last read or written.

    Parameters
    ----------
    writing : Writing
    origin : Origin
    codec : Codec or None, optional
        For chunks that are not compressed; by default the codec of each array.

    Attributes
    ----------
    known : Known or None
        None: there is nothing.
    """

    def __init__(self, writing: Writing, origin: Origin, codec: Codec | None = NOT_GIVEN) -> None:
        self._writing, self._origin, self._codec = writing, origin, codec
        self._mark: Mark = ABSENT
        self._tables: dict[bytes, Table] = {}
        self.known: Known | None = None

    # -- the head ------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the head, and the pages that it names.

        Raises
        ------
        FormatError
            What is there is no head, or damaged.
        """
        for _ in range(_ATTEMPTS):
            found = self._writing.read(HEAD)
            if found is None:
                self._mark, self.known = ABSENT, None
                return
            head = self._decoded(found.data, HEAD)
            at_hand = {} if self.known is None else self.known.all_pages()
            try:
                self._adopt(self._joined(head, at_hand), found.mark)
            except MissingError:
                continue  # a cleaner was faster
            return
        raise self._damaged("pages that its head names are missing")

    def _decoded(self, data: bytes, name: str) -> Frame:
        try:
            return decode_frame(data)
        except FormatError as error:
            raise type(error)(f"'{self._writing.place.url}/{name}': {error}") from None

    def _joined(self, head: Frame, at_hand: dict[bytes, _Page]) -> Known:
        """Return what a head and its pages say; read those pages that are not at hand."""
        pages = self._pages_of(head, at_hand)
        try:
            if not head.is_group:
                found = join_frames(head, _frames(pages))
                member = _Member(head, [page for page in pages if not page.row["graves"]], found)
                return _known(head, {"": member}, [], pages, None)
            group = join_group(head, _frames(pages))
            members = {}
            for name, frame in group.members.items():
                own = self._pages_of(frame, at_hand)
                members[name] = _Member(frame, own, join_frames(frame, _frames(own)))
        except CorruptError as error:
            raise self._damaged(str(error)) from None
        index = next(f.index for f in (head, *_frames(pages)) if f.index is not None)
        return _known(head, members, pages, pages, index)

    def _pages_of(self, head: Frame, at_hand: dict[bytes, _Page]) -> list[_Page]:
        return [at_hand.get(row["uuid"].tobytes()) or self._read_page(row) for row in head.pages]

    def _read_page(self, row: Any) -> _Page:
        name = name_of(row["uuid"].tobytes())
        found = self._writing.read(name)
        if found is None:
            place = self._writing.place.url
            raise MissingError(errno.ENOENT, f"there is no object '{place}/{name}'", place)
        if len(found.data) != row["size"] or crc32c(found.data) != row["crc"]:
            raise self._damaged(f"'{name}' is damaged")
        return _Page(row, self._decoded(found.data, name))

    def _damaged(self, what: str) -> CorruptError:
        return CorruptError(f"'{self._writing.place.url}': {what}; publish to another place")

    def _adopt(self, known: Known, mark: Mark) -> None:
        self.known, self._mark = known, mark
        named = [keys_of(member.found.entries) for member in known.members.values()]
        keys = {key.tobytes() for part in named for key in part}
        self._tables = {key: table for key, table in self._tables.items() if key in keys}

    def check_origin(self) -> None:
        """Raise ReplacedError if something else is published at the place."""
        known = self.known
        if known is None:
            return
        place, kind = self._writing.place.url, "group" if known.head.is_group else "array"
        there = {member.head.array for member in known.members.values()}
        uuids = self._origin.uuids()
        is_same = known.head.is_group == self._origin.is_group
        if is_same and (there & uuids or (self._origin.is_group and not (there and uuids))):
            return
        other = "another" if is_same else "an" if kind == "array" else "a"
        raise ReplacedError(
            errno.EEXIST,
            f"'{place}' has {other} {kind} published, with the uuid {known.head.array.hex()}; "
            "publish to another place, or remove its objects first",
            place,
        )

    def _tables_of(self, entries: NDArray[Any], numbers: Sequence[int]) -> dict[int, Table]:
        """Return tables of parts, by their numbers; read those that are not at hand."""
        found = {}
        for number in numbers:
            row = entries[number]
            key = key_of(row)
            if key not in self._tables:
                n_bytes = int(table_bytes(entries[number : number + 1])[0])
                name = name_of(row["uuid"].tobytes())
                data = self._writing.read_part(name, start_of(row) + TABLE_AT, n_bytes)
                self._tables[key] = decode_table(data, row)
            found[number] = self._tables[key]
        return found

    # -- commits ---------------------------------------------------------------------------------

    def update(self, compares: bool = False) -> bool:
        """Publish what is new; return False if nothing is.

        Parameters
        ----------
        compares : bool
            Look for chunks that were overwritten: compare all with their checksums.

        Raises
        ------
        ReplacedError
            Another array or group is published there.
        StorageError
            Other publishers were faster again and again, or elements were cut off (EAGAIN); a later
            state of the array is published than its writer knows (ESTALE).
        """
        for _ in range(_ATTEMPTS):
            look = self._origin.look()
            self.check_origin()
            if self._is_older(look, compares):
                return False
            known, news = self.known, {}
            for name, shot in look.shots.items():
                member = None if known is None else known.members.get(name)
                found = self._news(member, shot, compares)
                if found is not None:
                    news[name] = found
            if known is not None and not news and look.listing == known.listing:
                return False
            new = self._put_chunks(look, news)
            if not all(look.shots[n].source.has_all(look.shots[n].was) for n in news):
                continue
            drafts = {}
            for name, one in news.items():
                member = None if known is None else known.members.get(name)
                pages = [] if member is None or one.stays is None else member.pages
                entries = np.concatenate([_going_on(member, one), *new[name]])
                drafts[name] = _Draft(self._head_of(look.shots[name].was), entries, pages)
            if self._commit(drafts, look.listing, list(look.shots)):
                return True
        raise self._busy()

    def _is_older(self, look: Look, compares: bool) -> bool:
        """Tell whether another publisher has seen a later state of an array.

        Raise StorageError if that is not possible, unless chunks are compared anyway.
        """
        for name, shot in look.shots.items():
            member = None if self.known is None else self.known.members.get(name)
            if member is None or member.head.array != shot.was.header.uuid:
                continue
            mine, there = _source_of(shot.was), member.head.source
            if mine >= there or (shot.source.is_writer and compares):
                continue
            if not shot.source.is_writer:
                return True
            raise StorageError(
                errno.ESTALE,
                f"commit {there} of the array is published, but the array is at commit {mine}: it "
                "was restored from a copy, or has lost commits in a power cut; publish its present "
                "state with " + hint("compare=True", "--compare"),
                f"{self._writing.place.url}/{name}".rstrip("/"),
            )
        return False

    def _busy(self) -> StorageError:
        return StorageError(
            errno.EAGAIN,
            "other publishers keep replacing its head, or elements keep being cut off; try again",
            self._writing.place.url,
        )

    def _head_of(self, was: Snapshot) -> Frame:
        """Return a head with the state of a snapshot, and nothing else."""
        header, bounds = self._header_of(was), was.state
        n_bytes = place_of(was.n_chunks, header.chunk_bytes)
        state = Superblock.first(
            bounds.shape, bounds.grid, n_bytes, unclean=was.unclean, growth=was.growth
        )._replace(offset=bounds.offset)
        head = encode_state(header, state, was.records, was.attrs)
        return replace(head, source=_source_of(was))

    def _codec_for(self, was: Snapshot) -> Codec | None:
        return codec_of(was.header) if self._codec is NOT_GIVEN else self._codec

    def _header_of(self, was: Snapshot) -> Header:
        note: dict[str, Any] = {"order": "address"}
        codec = self._codec_for(was)
        if codec is not None:
            note["compression"] = str(codec)
        return for_blobs(was.header._replace(checksum=False), json.dumps(note))

    def _commit(
        self,
        drafts: Mapping[str, _Draft],
        index: bytes | None,
        names: Sequence[str],
        forgets: NDArray[np.bool_] | None = None,
    ) -> bool:
        """Replace the head; False: somebody else was faster, whose head is known now.

        `names` are those of all arrays; `forgets` tells which retired entries are to be left out.
        """
        known, now = self.known, milliseconds()
        number = 1 if known is None else known.head.number + 1
        before = {} if known is None else known.members
        most = max(_SHORT_MEMBER, _FULL_HEAD // max(1, len(names)))
        members = {
            name: self._member(drafts[name], number, most) if name in drafts else before[name]
            for name in names
        }
        if index is None:
            member = members[""]
            assert member.head.state is not None
            state = member.head.state._replace(sequence=number)
            head, own, pages = replace(member.head, state=state), member.pages, list[_Page]()
        else:
            changed = {name: encode_frame(members[name].head) for name in drafts}
            head, pages = self._head_of_group(index, names, changed)
            own = pages
        graves = [] if known is None else list(known.graves)
        retired = _NONE_RETIRED if known is None else known.retired
        if forgets is not None:
            retired, graves = retired[~forgets], []
        buried = sum(len(page.frame.retired) for page in graves)
        named = _named(members, pages)
        gone = [] if known is None else [known.named[~np.isin(known.named, named)]]
        if forgets is not None and known is not None:
            gone.append(np.array([page.row["uuid"] for page in known.graves], "V16"))
        retired = np.concatenate([retired[buried:], *(_retired(some, now) for some in gone)])
        if retired.nbytes > _FULL_GRAVES:
            taken = _taken(graves, retired.nbytes)
            parts = [page.frame.retired for page in taken]
            frame = Frame(
                head.array, head.ndim, is_page=True, retired=np.concatenate([*parts, retired])
            )
            graves.append(self._put_page(frame, True))
            retired = _retired(np.array([page.row["uuid"] for page in taken], "V16"), now)
        head = replace(
            head,
            number=number,
            token=secrets.token_bytes(16),
            time=now,
            pages=_rows([*own, *graves]),
            retired=retired,
        )
        data = encode_frame(head)
        if len(data) > HEAD_BYTES:
            raise LimitError(f"the head would have {len(data)} bytes, more than {HEAD_BYTES}")
        if index is not None:
            join_group(head, _frames([*own, *graves]))  # nobody would read what is wrong
        else:
            members[""] = members[""]._replace(head=head)
        try:
            mark = self._writing.replace(HEAD, data, self._mark)
        except LostRace:
            self.load()
            # The answer to an attempt may have been lost.
            return self.known is not None and self.known.head.token == head.token
        self._adopt(_known(head, members, pages, graves, index), mark)
        return True

    def _head_of_group(
        self, index: bytes, names: Sequence[str], changed: Mapping[str, bytes]
    ) -> tuple[Frame, list[_Page]]:
        """Return the head of a group, and its pages; put what is too long for a head into them."""
        known, wanted = self.known, set(names)
        pages = [] if known is None else known.pages
        listings = [page for page in pages if page.frame.index is not None]
        lists = [page for page in pages if page.frame.index is None]
        old = {} if known is None else known.head.members
        short = {name: old[name] for name in old.keys() & wanted} | dict(changed)
        if short.keys() >= wanted:
            lists = []
        array = new_uuid() if known is None else known.head.array
        head = Frame(array, 0, is_group=True, members=short, index=index)
        if len(index) <= _FULL_HEAD // _FACTS:
            listings = []
        else:
            if [page.frame.index for page in listings] != [index]:
                listings = [self._put_page(Frame(array, 0, is_page=True, index=index))]
            head = replace(head, index=None)
        length = len(encode_frame(head))
        if length > _FULL_HEAD:
            taken = _taken(lists, length)
            some = {n: m for page in taken for n, m in page.frame.members.items() if n in wanted}
            some |= short
            lists.append(self._put_page(Frame(array, 0, is_page=True, members=some)))
            head = replace(head, members={})
        return head, [*listings, *lists]

    def _member(self, draft: _Draft, number: int, most: int) -> _Member:
        """Put lists that make the head of an array longer than `most` into pages."""
        head, entries, pages = draft
        facts = [page for page in pages if page.frame.header is not None]
        lists = [page for page in pages if page.frame.header is None]
        assert head.header is not None and head.attrs is not None and head.state is not None
        if len(encode_header(head.header)) + len(head.attrs.encode()) <= most // _FACTS:
            facts = []
        else:
            own = [(page.frame.header, page.frame.attrs) for page in facts]
            if own != [(head.header, head.attrs)]:
                frame = Frame(
                    head.array, head.ndim, is_page=True, header=head.header, attrs=head.attrs
                )
                facts = [self._put_page(frame)]
            head = replace(head, header=None, attrs=None)
        n_records = sum(len(page.frame.records) for page in lists)
        named = [keys_of(page.frame.entries) for page in lists]
        is_named = np.isin(keys_of(entries), np.concatenate([keys_of(_NO_ENTRIES), *named]))
        head = replace(head, records=head.records[n_records:], entries=entries[~is_named])
        if len(encode_frame(head)) > most:
            head = self._with_lists(lists, head, entries)
        head = replace(
            head,
            number=number,
            state=draft.head.state._replace(sequence=number),  # type: ignore[union-attr]
            pages=_rows([*facts, *lists]),
        )
        found = join_frames(head, _frames([*facts, *lists]))  # nobody would read what is wrong
        return _Member(head, [*facts, *lists], found)

    def _with_lists(self, lists: list[_Page], head: Frame, entries: NDArray[Any]) -> Frame:
        """Put records and entries of a head into a page, in place of short ones before it."""
        is_tail = head.entries["tail"] > 0
        page = Frame(
            head.array,
            head.ndim,
            is_page=True,
            records=head.records,
            entries=head.entries[~is_tail],
        )
        taken = _taken(lists, len(encode_frame(page)))
        frames = [page.frame for page in taken] + [page]
        named = np.concatenate([frame.entries for frame in frames])
        covered = keys_of(entries)[self._map_of(entries).covered()]
        page = replace(
            page,
            records=np.concatenate([frame.records for frame in frames]),
            entries=named[~np.isin(keys_of(named), covered)],
        )
        lists.append(self._put_page(page))
        return replace(head, records=head.records[:0], entries=head.entries[is_tail])

    def _map_of(self, entries: NDArray[Any]) -> ObjectMap:
        return ObjectMap(entries, lambda numbers: self._tables_of(entries, numbers))

    def _put_page(self, frame: Frame, has_graves: bool = False) -> _Page:
        uuid, data = new_uuid(), encode_frame(frame)
        row = np.zeros(1, PAGE)
        row["uuid"], row["size"], row["crc"] = np.void(uuid), len(data), crc32c(data)
        row["graves"] = has_graves
        self._writing.put(name_of(uuid), [data])
        return _Page(row[0], frame)

    # -- what is new -----------------------------------------------------------------------------

    def _news(self, member: _Member | None, shot: Shot, compares: bool) -> _News | None:
        """Return what to publish of an array; None if nothing is new."""
        was, state = shot.was, shot.was.state
        axial = _axial_of(was.records, state.grid)
        box = _Box.of(state, axial, was.header.chunks)
        if member is None or not _goes_on(member.found, was):
            every = box.chunks(axial, box.low, box.high)
            return _News(every, every[:0], None)
        known = member.found
        entries, objects = known.entries, self._map_of(known.entries)
        old = _Box.of(known.state, _axial_of_rows(known), was.header.chunks)
        dirty, front = _changed(axial, old.moved(box), box)
        if compares:
            dirty = np.union1d(dirty, self._overwritten(shot, objects, axial, box))
        if not len(dirty):
            before = known.state.shape, known.state.offset, known.state.grid, known.attrs
            if before == (state.shape, state.offset, state.grid, was.attrs):
                return None
            return _News(dirty, dirty, np.ones(len(entries), bool))
        # Chunks of the tail that stay as they are go on.
        stays = entries["tail"] == 0
        tails = np.flatnonzero(~stays).tolist()
        if tails:
            left = np.concatenate([t.addresses for t in self._tables_of(entries, tails).values()])
            left = np.unique(left)
            left = left[np.isin(objects.owners(left), tails)]
            dirty = np.union1d(dirty, box.inside(axial, left))
        is_front = np.isin(dirty, front)
        settled = dirty[~is_front]
        if len(settled):
            settled = self._with_small_ones(objects, settled, stays, axial, box)
        return _News(settled, dirty[is_front], stays)

    def _with_small_ones(
        self,
        objects: ObjectMap,
        settled: NDArray[np.int64],
        stays: NDArray[np.bool_],
        axial: Axial,
        box: _Box,
    ) -> NDArray[np.int64]:
        """Take over the chunks of the last few objects, while those are as small as what is new.

        Note in `stays` which objects do not go on.
        """
        entries = objects.entries
        mean = int(entries["size"].sum()) // max(1, int(entries["count"].sum())) + 1
        kept = np.flatnonzero(stays & (entries["size"] < _MERGED)).tolist()
        while len(kept) >= _FAN_OUT - 1:
            some = kept[1 - _FAN_OUT :]
            counts = entries["count"][some].astype(np.int64)
            if counts.max() > len(settled) or (len(settled) + counts.sum()) * mean > _MERGED:
                break
            for number, addresses in self._addresses_of(entries, some).items():
                mine = addresses[objects.owners(addresses) == number]
                settled = np.union1d(settled, box.inside(axial, mine))
                stays[number] = False
            del kept[1 - _FAN_OUT :]
        return settled

    def _addresses_of(
        self, entries: NDArray[Any], numbers: Sequence[int]
    ) -> dict[int, NDArray[np.int64]]:
        """Return the addresses of the chunks of objects."""
        dense = is_dense(entries)
        sparse = [number for number in numbers if not dense[number]]
        found = {number: t.addresses for number, t in self._tables_of(entries, sparse).items()}
        for number in numbers:
            if dense[number]:
                first, last = int(entries["first"][number]), int(entries["last"][number])
                found[number] = np.arange(first, last + 1, dtype=np.int64)
        return found

    def _overwritten(
        self, shot: Shot, objects: ObjectMap, axial: Axial, box: _Box
    ) -> NDArray[np.int64]:
        """Return the chunks that differ from those that were published."""
        source, now, was = shot
        size, fill = was.header.chunk_bytes, was.header.fill
        every = box.chunks(axial, box.low, box.high)
        owners = objects.owners(every)
        filled = crc32c(fill * (size // max(1, len(fill))))
        sums = np.full(len(every), filled, np.uint32)
        for number in np.unique(owners[owners >= 0]).tolist():
            here = np.flatnonzero(owners == number)
            table = self._tables_of(objects.entries, [number])[number]
            sums[here] = table.sums[table.find(every[here])[0]]
        found: list[int] = []
        step = max(1, _BATCH // max(1, size))
        for first in range(0, len(every), step):
            some = every[first : first + step]
            with source.lock:
                present = _each(partial(_crc_of, now, size), some.tolist(), size)
            found += some[np.array(present, np.uint32) != sums[first : first + step]].tolist()
        return np.array(found, np.int64)

    # -- objects with chunks ---------------------------------------------------------------------

    def _put_chunks(self, look: Look, news: Mapping[str, _News]) -> dict[str, list[NDArray[Any]]]:
        """Write objects with the chunks of all arrays, and return the entries of each."""
        entries: dict[str, list[NDArray[Any]]] = {name: [] for name in news}
        most = min(_OBJECT, max(1, config.max_memory // 8))
        pieces: list[bytes | memoryview] = []
        uuid, size = new_uuid(), 0
        with self._several_puts() as put:
            for name, addresses, is_tail in (
                (name, some, is_tail)
                for name, one in news.items()
                for some, is_tail in ((one.settled, False), (one.front, True))
            ):
                shot, left = look.shots[name], addresses.tolist()
                header = shot.was.header
                check_blob_size(header.chunk_bytes, f"'{shot.now.path}'")
                while left:
                    with shot.source.lock:
                        chunks = self._encoded(shot, left, most - size)
                    del left[: len(chunks)]
                    some, entry, table = encode_part(header.uuid, uuid, chunks, is_tail, size)
                    self._tables[key_of(entry[0])] = table
                    entries[name].append(entry)
                    pieces += some
                    size += int(entry["size"][0])
                    if size >= most:
                        put(name_of(uuid), pieces)
                        pieces, uuid, size = [], new_uuid(), 0
            if pieces:
                put(name_of(uuid), pieces)
        return entries

    @contextmanager
    def _several_puts(self) -> Iterator[Callable[[str, list[bytes | memoryview]], None]]:
        """Let a block write objects, a few at a time; all are there when it ends."""
        coming: list[Future[Any]] = []

        def put(name: str, pieces: list[bytes | memoryview]) -> None:
            if len(coming) == _AT_ONCE:
                coming.pop(0).result()
            coming.append(self._writing.begin_put(name, pieces))

        try:
            yield put
            while coming:
                coming.pop(0).result()
        except BaseException:
            for future in coming:
                future.cancel()
            raise

    def _encoded(self, shot: Shot, addresses: Sequence[int], most: int) -> list[_Chunk]:
        """Encode chunks, until they have as many bytes as an object has room for."""
        step = max(1, min(_BATCH, most) // max(1, shot.was.header.chunk_bytes))
        codec = self._codec_for(shot.was)
        chunks: list[_Chunk] = []
        total = 0
        for first in range(0, len(addresses), step):
            work = partial(_encoded_chunk, shot, codec)
            some = _each(work, addresses[first : first + step], shot.was.header.chunk_bytes)
            chunks += some
            total += sum(blob_bytes(len(one.payload)) for _, one, _ in some if one is not None)
            if total >= most:
                break
        return chunks

    # -- cleaning --------------------------------------------------------------------------------

    def clean(self, older_than: float) -> int:
        """Remove objects that no head has named for some seconds; return their number.

        A head of its own makes sure that no commit on its way names what is removed.
        """
        for _ in range(_ATTEMPTS):
            listed = self._writing.listed(FOLDER)
            self.load()
            self.check_origin()
            known = self.known
            if known is None:
                place = self._writing.place.url
                raise MissingError(errno.ENOENT, f"nothing is published at '{place}'", place)
            end = milliseconds() - older_than * 1000
            is_due = known.retired["time"] <= end
            named = {row.tobytes() for row in known.named}
            named |= {page.row["uuid"].tobytes() for page in known.graves}
            named |= {row.tobytes() for row in known.retired["uuid"][~is_due]}
            victims = [
                one.name
                for one in listed
                if (uuid := uuid_of_name(one.name)) is not None
                and uuid not in named
                and one.modified * 1000 <= end
            ]
            if not victims:
                return 0
            if self._commit({}, known.listing, list(known.members), is_due):
                self._writing.remove([f"{FOLDER}/{name}" for name in victims])
                return len(victims)
        raise self._busy()


# -- chunks ----------------------------------------------------------------------------------------


def _each(work: Callable[[int], _T], addresses: Sequence[int], chunk_bytes: int) -> list[_T]:
    """Return the results of a function for each chunk, by several threads."""
    found: dict[int, _T] = {}
    left, lock, stopped = iter(addresses), threading.Lock(), threading.Event()

    def share() -> None:
        while not stopped.is_set():
            with lock:
                address = next(left, None)
            if address is None:
                return
            found[address] = work(address)

    n_bytes = len(addresses) * chunk_bytes
    n_threads = min(config.threads, len(addresses), n_bytes // limits.coded_bytes)
    run_together([share] * max(1, n_threads), stopped.set)
    return [found[address] for address in addresses]


def _crc_of(now: Present, size: int, address: int) -> int:
    room = memoryview(np.empty(size, np.uint8))
    _read(now, room, address)
    return crc32c(room)


def _encoded_chunk(shot: Shot, codec: Codec | None, address: int) -> _Chunk:
    header, now = shot.was.header, shot.now
    itemsize = header.dtype.itemsize
    room = memoryview(np.empty(header.chunk_bytes, np.uint8))
    _read(now, room, address)
    crc = crc32c(room)
    if room[:itemsize] == header.fill and is_constant(room, itemsize):
        return address, None, crc
    encoded = None if now.frozen is None else now.frozen.payload(address)
    half = len(room) // itemsize // 2 * itemsize
    if codec is None and half and any(is_constant(p, itemsize) for p in (room[:half], room[half:])):
        codec = _OF_EMPTY
    if encoded is None and codec is not None:
        encoded = encode(codec, room, itemsize, sides_in_memory(header.chunks, header.order))
    elif encoded is None:
        encoded = Encoded(CodecId.RAW, FilterId.NONE, 0, room)
    return address, encoded, crc


# -- what has changed ------------------------------------------------------------------------------


class _Box(NamedTuple):
    """The bounds of an array in its grid.

    Attributes
    ----------
    low, high : tuple of int
        Elements from the beginning of the grid.
    starts : tuple of int
        Chunks that were added at the start of each axis.
    sides : tuple of int
        Of a chunk.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    starts: tuple[int, ...]
    sides: tuple[int, ...]

    @classmethod
    def of(cls, bounds: Bounded, axial: Axial, sides: tuple[int, ...]) -> _Box:
        """Return the bounds of a state."""
        k = len(sides)
        nothing = np.zeros(0, np.uint8), np.zeros(0, np.uint8), np.zeros((0, k), np.int64)
        starts = starts_after(axial, *nothing, bounds.grid)
        high = [b + n for b, n in zip(bounds.offset, bounds.shape, strict=True)]
        return cls(tuple(bounds.offset), tuple(high), tuple(starts), sides)

    def moved(self, other: _Box) -> _Box:
        """Return the same elements in the grid of a later state."""
        by = [(b - a) * n for a, b, n in zip(self.starts, other.starts, self.sides, strict=True)]
        low = tuple(n + d for n, d in zip(self.low, by, strict=True))
        high = tuple(n + d for n, d in zip(self.high, by, strict=True))
        return _Box(low, high, other.starts, self.sides)

    def chunks(self, axial: Axial, low: Sequence[int], high: Sequence[int]) -> NDArray[np.int64]:
        """Return the addresses of the chunks that have elements of a box, in rising order."""
        if any(a >= b for a, b in zip(low, high, strict=True)):
            return np.zeros(0, np.int64)
        ranges = [
            np.arange(a // n, -(-b // n)) for a, b, n in zip(low, high, self.sides, strict=True)
        ]
        mesh = np.meshgrid(*ranges, indexing="ij")
        if not mesh:
            return np.zeros(1, np.int64)
        indices = np.stack([axis.ravel() for axis in mesh], axis=1)
        return np.sort(axial.addresses(indices))

    def inside(self, axial: Axial, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the addresses of those chunks that have elements within the bounds."""
        if not len(addresses) or not self.sides:
            return addresses
        begin = axial.indices(addresses) * np.array(self.sides)
        is_in = (begin < self.high) & (begin + self.sides > self.low)
        found: NDArray[np.int64] = addresses[is_in.all(axis=1)]
        return found


def _changed(axial: Axial, old: _Box, new: _Box) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the chunks with elements that bounds have gained, and those at their front.

    The front has the chunks, partly filled, at the sides on which the bounds have moved out.
    """
    nothing = np.zeros(0, np.int64)
    low = tuple(map(max, old.low, new.low))
    high = tuple(map(min, old.high, new.high))
    if any(a >= b for a, b in zip(low, high, strict=True)):
        low = high = new.low  # all elements are new
    dirty, front = [nothing], [nothing]
    for axis, side in enumerate(new.sides):
        for is_end in (False, True):
            a, b = (high, new.high) if is_end else (new.low, low)
            if a[axis] >= b[axis]:
                continue
            # On the axes before this one, the part that both bounds have.
            first = [*low[:axis], a[axis], *new.low[axis + 1 :]]
            stop = [*high[:axis], b[axis], *new.high[axis + 1 :]]
            dirty.append(new.chunks(axial, first, stop))
            edge = new.high[axis] if is_end else new.low[axis]
            if edge % side:
                first, stop = list(new.low), list(new.high)
                first[axis], stop[axis] = (edge - 1, edge) if is_end else (edge, edge + 1)
                front.append(new.chunks(axial, first, stop))
    return np.unique(np.concatenate(dirty)), np.unique(np.concatenate(front))


def contains(now: Snapshot, was: Snapshot) -> bool:
    """Tell whether all elements of a snapshot are elements of a later one."""
    sides = was.header.chunks
    new = _Box.of(now.state, _axial_of(now.records, now.state.grid), sides)
    old = _Box.of(was.state, _axial_of(was.records, was.state.grid), sides).moved(new)
    corners = zip(old.low, old.high, new.low, new.high, strict=True)
    return all(c <= a and b <= d for a, b, c, d in corners)


def _axial_of(records: Sequence[Any], grid: Sequence[int]) -> Axial:
    axes, sides, grids = zip(*records, strict=True)
    log = np.array(axes, np.uint8), np.array(sides, np.uint8)
    return replay_log(Axial, *log, np.array(grids, np.int64).reshape(len(axes), -1), grid)


def _axial_of_rows(known: Published) -> Axial:
    axes, sides, grids = map(np.ascontiguousarray, decode_records(known.records))
    return replay_log(Axial, axes, sides, grids, known.state.grid)


def _goes_on(known: Published, was: Snapshot) -> bool:
    """Tell whether an array has all chunks of a published state, at the same addresses."""
    one, two = known.header, was.header
    if (one.dtype, one.chunks, one.order, one.fill) != (two.dtype, two.chunks, two.order, two.fill):
        return False
    n = len(known.records)
    rows = b"".join(
        encode_record(axis, side, grid, two.uuid) for axis, side, grid in was.records[:n]
    )
    is_same = n <= len(was.records) and rows == known.records.tobytes()
    return is_same and all(a <= b for a, b in zip(known.state.grid, was.state.grid, strict=True))


def _source_of(was: Snapshot) -> int:
    """Return the number of the array's commit; 0 in memory, where nobody counts them."""
    return int(getattr(was.state, "sequence", 0))


def _read(now: Present, room: memoryview, address: int) -> None:
    if now.read_into(room, place_of(address, len(room))) < len(room):
        raise truncated(now)


def _going_on(member: _Member | None, news: _News) -> NDArray[Any]:
    """Return the entries of an array that go on."""
    if member is None or news.stays is None:
        return _NO_ENTRIES
    entries = member.found.entries
    # A page goes on naming what it names, until it is replaced.
    paged = [keys_of(page.frame.entries) for page in member.pages]
    stays = news.stays | np.isin(keys_of(entries), np.concatenate([keys_of(_NO_ENTRIES), *paged]))
    found: NDArray[Any] = entries[stays]
    return found


# -- lists of heads --------------------------------------------------------------------------------


def _known(
    head: Frame,
    members: dict[str, _Member],
    pages: list[_Page],
    graves: list[_Page],
    index: bytes | None,
) -> Known:
    """Return what a head and its pages say; `pages` and `graves` may have those of both kinds."""
    pages = [page for page in pages if not page.row["graves"]]
    graves = [page for page in graves if page.row["graves"]]
    retired = np.concatenate([*(page.frame.retired for page in graves), head.retired])
    return Known(head, members, pages, graves, retired, index, _named(members, pages))


def _named(members: Mapping[str, _Member], pages: Sequence[_Page]) -> NDArray[Any]:
    """Return the uuids of all objects that a state needs."""
    own = [page for member in members.values() for page in member.pages]
    some = np.array([page.row["uuid"] for page in (*own, *pages)], "V16")
    entries = [member.found.entries["uuid"] for member in members.values()]
    found: NDArray[Any] = np.unique(np.concatenate([some, *entries]))
    return found


def _frames(pages: Iterable[_Page]) -> list[Frame]:
    return [page.frame for page in pages]


def _rows(pages: Sequence[_Page]) -> NDArray[Any]:
    return np.array([page.row for page in pages], PAGE)


def _retired(uuids: NDArray[Any], now: int) -> NDArray[Any]:
    found = np.zeros(len(uuids), RETIRED)
    found["uuid"], found["time"] = uuids, now
    return found


def _taken(pages: list[_Page], length: int) -> list[_Page]:
    """Take the last pages, as long as they are short, from a list for one of that length."""
    taken: list[_Page] = []
    while pages:
        size = int(pages[-1].row["size"])
        if length + size > _SHORT_PAGES and size > length:
            break
        taken.insert(0, pages.pop())
        length += size
    return taken
