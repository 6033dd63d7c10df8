"""Publish an array that grows to an object store: one object for its news, and one for the head.

``docs/format/published.md`` has the objects and the order in which they are written.  A publisher
knows the head that it has read or written last.  A commit replaces that one, or is lost as a whole.
"""

from __future__ import annotations

import errno
import json
import secrets
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from extarray._core._axial import Axial
from extarray._core._history import replay_log, starts_after
from extarray.codecs._filters import is_constant
from extarray.codecs.codec import CodecId, FilterId
from extarray.codecs.payloads import Encoded, encode
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
    encode_object,
    encode_state,
    for_blobs,
    is_dense,
    join_frames,
    name_of,
    table_bytes,
    uuid_of_name,
)
from extarray.format.records import decode_records, encode_record
from extarray.format.superblock import Superblock
from extarray.grid.chunking import place_of
from extarray.grid.order import sides_in_memory
from extarray.maintenance.blob_packing import truncated
from extarray.remote.writing import ABSENT, LostRace, milliseconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from extarray.codecs.codec import Codec
    from extarray.format.header import Header
    from extarray.grid.bounds import Bounded
    from extarray.maintenance.packing import Snapshot
    from extarray.remote.answers import Mark
    from extarray.remote.writing import Writing
    from extarray.storage.store import Present

__all__ = ["Publisher", "Source", "contains"]

# Commits that are begun anew, because other publishers or cleaners were faster.
_ATTEMPTS = 50
# Bytes of an object from which on chunks go to the next one, and from which on it stays as it is.
_OBJECT = 32 << 20
_MERGED = 16 << 20
# Bytes of chunks that threads encode together.
_BATCH = 16 << 20
# Objects that are on their way at the same time.
_AT_ONCE = 2
# Entries of about the same size that become one.
_FAN_OUT = 4
# Bytes of header and attributes from which on they have a page of their own; those of a head from
# which on its lists go to a page; and those of pages up to which one takes over all before it.
_FACTS = 16 << 10
_FULL_HEAD = 48 << 10
_SHORT_PAGES = 1 << 20


# The address of a chunk; the chunk as its codec has it, None: the fill value; and its checksum.
_Chunk: TypeAlias = "tuple[int, Encoded | None, int]"


class _Page(NamedTuple):
    """A page, and its entry in the head."""

    row: NDArray[Any]
    frame: Frame


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


class Source(Protocol):
    """The array that is published."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while chunks are read."""

    @property
    def is_writer(self) -> bool:
        """True if nobody knows a newer state of the array."""

    def look(self) -> tuple[Present, Snapshot]:
        """Return the present of the array, and a snapshot of its newest state."""

    def has_all(self, was: Snapshot) -> bool:
        """Tell whether no element of a snapshot has been cut off since."""


class Publisher:
    """A place of a published array, as its head was when it was read or written last.

    Parameters
    ----------
    writing : Writing
    codec : Codec or None
        For chunks that are not compressed.

    Attributes
    ----------
    known : Published or None
        None: there is none.
    """

    def __init__(self, writing: Writing, codec: Codec | None) -> None:
        self._writing, self._codec = writing, codec
        self._mark: Mark = ABSENT
        self._pages: list[_Page] = []
        self._tables: dict[bytes, Table] = {}
        self.known: Published | None = None

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
                self._mark, self.known, self._pages = ABSENT, None, []
                return
            head = self._decoded(found.data, HEAD)
            at_hand = {page.row["uuid"].tobytes(): page for page in self._pages}
            pages = []
            for row in head.pages:
                page = at_hand.get(row["uuid"].tobytes()) or self._read_page(row)
                if page is None:
                    break  # a cleaner was faster
                pages.append(page)
            else:
                self._adopt(head, pages, found.mark)
                return
        raise self._damaged("pages that its head names are missing")

    def _decoded(self, data: bytes, name: str) -> Frame:
        try:
            return decode_frame(data)
        except FormatError as error:
            raise type(error)(f"'{self._writing.place.url}/{name}': {error}") from None

    def _read_page(self, row: Any) -> _Page | None:
        name = name_of(row["uuid"].tobytes())
        found = self._writing.read(name)
        if found is None:
            return None
        if len(found.data) != row["size"] or crc32c(found.data) != row["crc"]:
            raise self._damaged(f"'{name}' is damaged")
        return _Page(row, self._decoded(found.data, name))

    def _damaged(self, what: str) -> CorruptError:
        return CorruptError(f"'{self._writing.place.url}': {what}; publish to another place")

    def _adopt(self, head: Frame, pages: list[_Page], mark: Mark) -> None:
        try:
            known = join_frames(head, [page.frame for page in pages])
        except CorruptError as error:
            raise self._damaged(str(error)) from None
        self.known, self._pages, self._mark = known, pages, mark
        uuids = {row.tobytes() for row in known.entries["uuid"]}
        self._tables = {uuid: t for uuid, t in self._tables.items() if uuid in uuids}

    def check_array(self, header: Header) -> None:
        """Raise ReplacedError if the place is that of another array."""
        known = self.known
        if known is not None and known.header.uuid != header.uuid:
            raise ReplacedError(
                errno.EEXIST,
                f"'{self._writing.place.url}' has another array published, with the uuid "
                f"{known.header.uuid.hex()}; publish to another place, or remove its objects first",
                self._writing.place.url,
            )

    def _tables_of(self, entries: NDArray[Any], numbers: Sequence[int]) -> dict[int, Table]:
        """Return tables of objects, by their numbers; read those that are not at hand."""
        found = {}
        for number in numbers:
            row = entries[number]
            uuid = row["uuid"].tobytes()
            if uuid not in self._tables:
                n_bytes = int(table_bytes(entries[number : number + 1])[0])
                data = self._writing.read_part(name_of(uuid), TABLE_AT, n_bytes)
                self._tables[uuid] = decode_table(data, row)
            found[number] = self._tables[uuid]
        return found

    # -- commits ---------------------------------------------------------------------------------

    def update(self, source: Source, compares: bool = False) -> bool:
        """Publish what is new; return False if nothing is.

        Parameters
        ----------
        source : Source
        compares : bool
            Look for chunks that were overwritten: compare all with their checksums.

        Raises
        ------
        ReplacedError
            Another array is published there.
        StorageError
            Other publishers were faster again and again, or elements were cut off (EAGAIN); a later
            state of the array is published than its writer knows (ESTALE).
        """
        for _ in range(_ATTEMPTS):
            now, was = source.look()
            self.check_array(was.header)
            news = self._news(source, now, was, compares)
            if news is None:
                return False
            new = self._put_chunks(source, now, was, news.settled, False)
            new += self._put_chunks(source, now, was, news.front, True)
            if not source.has_all(was):
                continue
            retired: list[bytes] = []
            entries = np.concatenate([self._going_on(news, retired), *new])
            pages = [] if news.stays is None else self._pages
            if self._commit(self._head_of(was), entries, retired, pages):
                return True
        raise self._busy()

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

    def _header_of(self, was: Snapshot) -> Header:
        note: dict[str, Any] = {"order": "address"}
        if self._codec is not None:
            note["compression"] = str(self._codec)
        return for_blobs(replace(was.header, checksum=False), json.dumps(note))

    def _going_on(self, news: _News, retired: list[bytes]) -> NDArray[Any]:
        """Return the entries that go on, and note the objects of all others."""
        known = self.known
        if known is None:
            return np.zeros(0, ENTRY)
        uuids = known.entries["uuid"]
        if news.stays is None:
            retired += [row.tobytes() for row in uuids]
            retired += [page.row["uuid"].tobytes() for page in self._pages]
            return np.zeros(0, ENTRY)
        # A page goes on naming what it names, until it is replaced.
        stays = news.stays | np.isin(uuids, _uuids_of(self._pages))
        retired += [row.tobytes() for row in uuids[~stays]]
        return known.entries[stays]

    def _commit(
        self,
        head: Frame,
        entries: NDArray[Any],
        retired: list[bytes],
        pages: list[_Page],
        forgets: NDArray[np.bool_] | None = None,
    ) -> bool:
        """Replace the head; False: somebody else was faster, whose head is known now.

        `forgets` tells which retired entries are to be left out.
        """
        known, now = self.known, milliseconds()
        number = 1 if known is None else known.head.number + 1
        old = np.zeros(0, RETIRED) if known is None else known.retired
        head, pages = self._paged(head, entries, old, retired, list(pages), now, forgets)
        state = head.state
        assert state is not None
        head = replace(
            head,
            number=number,
            token=secrets.token_bytes(16),
            time=now,
            state=state._replace(sequence=number),
            pages=np.array([page.row for page in pages], PAGE),
        )
        data = encode_frame(head)
        if len(data) > HEAD_BYTES:
            raise LimitError(f"the head would have {len(data)} bytes, more than {HEAD_BYTES}")
        join_frames(head, [page.frame for page in pages])  # nobody would read what is wrong
        try:
            mark = self._writing.replace(HEAD, data, self._mark)
        except LostRace:
            self.load()
            # The answer to an attempt may have been lost.
            return self.known is not None and self.known.head.token == head.token
        self._adopt(head, pages, mark)
        return True

    def _paged(
        self,
        head: Frame,
        entries: NDArray[Any],
        old: NDArray[Any],
        retired: list[bytes],
        pages: list[_Page],
        now: int,
        forgets: NDArray[np.bool_] | None,
    ) -> tuple[Frame, list[_Page]]:
        """Put lists that are too long for a head into pages, and name those.

        `old` has retired entries of the head and the pages; `retired`, objects that retire now.
        """
        facts = [page for page in pages if page.frame.header is not None]
        graves = [page for page in pages if page.row["graves"]]
        lists = [page for page in pages if page.frame.header is None and not page.row["graves"]]
        assert head.header is not None and head.attrs is not None
        first = encode_header(head.header)
        if len(first) + len(head.attrs.encode()) > _FACTS:
            own = [(page.frame.header, page.frame.attrs) for page in facts]
            if own != [(head.header, head.attrs)]:
                retired += [page.row["uuid"].tobytes() for page in facts]
                frame = Frame(
                    head.array, head.ndim, is_page=True, header=head.header, attrs=head.attrs
                )
                facts = [self._put_page(frame)]
            head = replace(head, header=None, attrs=None)
        else:
            retired += [page.row["uuid"].tobytes() for page in facts]
            facts = []
        if forgets is not None:
            retired += [page.row["uuid"].tobytes() for page in graves]
            old, graves = old[~forgets], []
        n_records = sum(len(page.frame.records) for page in lists)
        n_retired = sum(len(page.frame.retired) for page in graves)
        rest = Frame(
            head.array,
            head.ndim,
            is_page=True,
            records=head.records[n_records:],
            entries=entries[~np.isin(entries["uuid"], _uuids_of(lists))],
            retired=np.concatenate([old[n_retired:], _retired(retired, now)]),
        )
        most = _FULL_HEAD - len(encode_frame(replace(head, records=rest.records[:0])))
        if len(encode_frame(rest)) > most and rest.retired.nbytes > most // 2:
            rest = self._with_graves(graves, rest, now)
        if len(encode_frame(rest)) > most:
            rest = self._with_lists(lists, rest, entries, now)
        head = replace(head, records=rest.records, entries=rest.entries, retired=rest.retired)
        return head, [*facts, *graves, *lists]

    def _with_graves(self, graves: list[_Page], rest: Frame, now: int) -> Frame:
        """Put the retired entries of a head into a page, in place of short ones before it."""
        taken = _taken(graves, rest.retired.nbytes)
        parts = [page.frame.retired for page in taken]
        page = Frame(
            rest.array, rest.ndim, is_page=True, retired=np.concatenate([*parts, rest.retired])
        )
        graves.append(self._put_page(page, True))
        also = [page.row["uuid"].tobytes() for page in taken]
        return replace(rest, retired=_retired(also, now))

    def _with_lists(
        self, lists: list[_Page], rest: Frame, entries: NDArray[Any], now: int
    ) -> Frame:
        """Put records and entries of a head into a page, in place of short ones before it."""
        taken = _taken(lists, len(encode_frame(rest)))
        frames = [page.frame for page in taken]
        is_tail = rest.entries["tail"] > 0
        named = np.concatenate([*(f.entries for f in frames), rest.entries[~is_tail]])
        lasts = ~np.isin(named["uuid"], self._covered(entries))
        also = [row.tobytes() for row in named["uuid"][~lasts]]
        also += [page.row["uuid"].tobytes() for page in taken]
        page = replace(
            rest,
            records=np.concatenate([*(f.records for f in frames), rest.records]),
            entries=named[lasts],
            retired=rest.retired[:0],
        )
        lists.append(self._put_page(page))
        return replace(
            rest,
            records=rest.records[:0],
            entries=rest.entries[is_tail],
            retired=np.concatenate([rest.retired, _retired(also, now)]),
        )

    def _covered(self, entries: NDArray[Any]) -> NDArray[Any]:
        """Return the objects that later ones replace as a whole."""
        found: NDArray[Any] = entries["uuid"][self._map_of(entries).covered()]
        return found

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

    def _news(self, source: Source, now: Present, was: Snapshot, compares: bool) -> _News | None:
        """Return what to publish; None if the head has this state, or a later one."""
        known, state = self.known, was.state
        if known is not None and _source_of(was) < known.head.source:
            if not source.is_writer:
                return None  # another publisher has seen a later state
            if not compares:
                raise StorageError(
                    errno.ESTALE,
                    f"commit {known.head.source} of the array is published, but the array is at "
                    f"commit {_source_of(was)}: it was restored from a copy, or has lost commits "
                    "in a power cut; publish its present state with "
                    + hint("compare=True", "--compare"),
                    self._writing.place.url,
                )
        axial = _axial_of(was.records, state.grid)
        box = _Box.of(state, axial, was.header.chunks)
        if known is None or not _goes_on(known, was):
            every = box.chunks(axial, box.low, box.high)
            return _News(every, every[:0], None)
        entries, objects = known.entries, self._map_of(known.entries)
        old = _Box.of(known.state, _axial_of_rows(known), was.header.chunks)
        dirty, front = _changed(axial, old.moved(box), box)
        if compares:
            dirty = np.union1d(dirty, self._overwritten(source, now, was, objects, axial, box))
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
        self,
        source: Source,
        now: Present,
        was: Snapshot,
        objects: ObjectMap,
        axial: Axial,
        box: _Box,
    ) -> NDArray[np.int64]:
        """Return the chunks that differ from those that were published."""
        size, fill = was.header.chunk_bytes, was.header.fill
        every = box.chunks(axial, box.low, box.high)
        owners = objects.owners(every)
        filled = crc32c(fill * (size // max(1, len(fill))))
        sums = np.full(len(every), filled, np.uint32)
        for number in np.unique(owners[owners >= 0]).tolist():
            here = np.flatnonzero(owners == number)
            table = self._tables_of(objects.entries, [number])[number]
            sums[here] = table.sums[table.find(every[here])[0]]
        room = memoryview(np.empty(size, np.uint8))
        found = []
        for address, known in zip(every.tolist(), sums.tolist(), strict=True):
            with source.lock:
                _read(now, room, address)
            if crc32c(room) != known:
                found.append(address)
        return np.array(found, np.int64)

    # -- chunks ----------------------------------------------------------------------------------

    def _put_chunks(
        self,
        source: Source,
        now: Present,
        was: Snapshot,
        addresses: NDArray[np.int64],
        is_tail: bool,
    ) -> list[NDArray[Any]]:
        """Write objects with chunks, and return their entries."""
        check_blob_size(was.header.chunk_bytes, f"'{now.path}'")
        left = addresses.tolist()
        entries: list[NDArray[Any]] = []
        coming: list[Future[Any]] = []
        try:
            while left:
                with source.lock:
                    chunks = self._encoded(now, was, left)
                del left[: len(chunks)]
                uuid = new_uuid()
                parts, entry, table = encode_object(was.header.uuid, uuid, chunks, is_tail)
                self._tables[uuid] = table
                entries.append(entry)
                if len(coming) == _AT_ONCE:
                    coming.pop(0).result()
                coming.append(self._writing.begin_put(name_of(uuid), parts))
            while coming:
                coming.pop(0).result()
        except BaseException:
            for future in coming:
                future.cancel()
            raise
        return entries

    def _encoded(self, now: Present, was: Snapshot, addresses: Sequence[int]) -> list[_Chunk]:
        """Encode chunks, as many as an object holds."""
        most = min(_OBJECT, max(1, config.max_memory // 8))
        step = max(1, min(_BATCH, most) // max(1, was.header.chunk_bytes))
        chunks: list[_Chunk] = []
        total = 0
        for first in range(0, len(addresses), step):
            some = self._together(now, was, addresses[first : first + step])
            chunks += some
            total += sum(blob_bytes(len(one.payload)) for _, one, _ in some if one is not None)
            if total >= most:
                break
        return chunks

    def _together(self, now: Present, was: Snapshot, addresses: Sequence[int]) -> list[_Chunk]:
        """Encode chunks on several threads."""
        found: dict[int, _Chunk] = {}
        left, lock, stopped = iter(addresses), threading.Lock(), threading.Event()

        def share() -> None:
            while not stopped.is_set():
                with lock:
                    address = next(left, None)
                if address is None:
                    return
                found[address] = self._chunk(now, was, address)

        n_bytes = len(addresses) * was.header.chunk_bytes
        n_threads = min(config.threads, len(addresses), n_bytes // limits.coded_bytes)
        run_together([share] * max(1, n_threads), stopped.set)
        return [found[address] for address in addresses]

    def _chunk(self, now: Present, was: Snapshot, address: int) -> _Chunk:
        """Encode a chunk."""
        header = was.header
        itemsize = header.dtype.itemsize
        room = memoryview(np.empty(header.chunk_bytes, np.uint8))
        _read(now, room, address)
        crc = crc32c(room)
        if room[:itemsize] == header.fill and is_constant(room, itemsize):
            return address, None, crc
        encoded = None if now.frozen is None else now.frozen.payload(address)
        if encoded is None and self._codec is not None:
            sides = sides_in_memory(header.chunks, header.order)
            encoded = encode(self._codec, room, itemsize, sides)
        elif encoded is None:
            encoded = Encoded(CodecId.RAW, FilterId.NONE, 0, room)
        return address, encoded, crc

    # -- cleaning --------------------------------------------------------------------------------

    def clean(self, header: Header, older_than: float) -> int:
        """Remove objects that no head has named for some seconds; return their number.

        A head of its own makes sure that no commit on its way names what is removed.
        """
        for _ in range(_ATTEMPTS):
            listed = self._writing.listed(FOLDER)
            self.load()
            self.check_array(header)
            known = self.known
            if known is None:
                place = self._writing.place.url
                raise MissingError(errno.ENOENT, f"nothing is published at '{place}'", place)
            end = milliseconds() - older_than * 1000
            is_due = known.retired["time"] <= end
            named = {row.tobytes() for row in known.entries["uuid"]}
            named |= {page.row["uuid"].tobytes() for page in self._pages}
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
            head = replace(known.head, header=known.header, attrs=known.attrs)
            head = replace(head, records=known.records)
            if self._commit(head, known.entries, [], self._pages, is_due):
                self._writing.remove([f"{FOLDER}/{name}" for name in victims])
                return len(victims)
        raise self._busy()


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
            # Of the axes before this one, only what both bounds have.
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


def _retired(uuids: Sequence[bytes], now: int) -> NDArray[Any]:
    found = np.zeros(len(uuids), RETIRED)
    found["uuid"] = [np.void(uuid) for uuid in uuids]
    found["time"] = now
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


def _uuids_of(pages: Sequence[_Page]) -> NDArray[Any]:
    """Return the uuids of the objects with chunks that pages name."""
    parts = [page.frame.entries["uuid"] for page in pages]
    return np.concatenate([np.zeros(0, ENTRY)["uuid"], *parts])
