"""Published arrays: a head that is replaced at each commit, and objects that never change.

A reader of an old head reads on.  A newer head comes with a conditional request, and chunks that it
leads to other objects for are fetched again.
"""

from __future__ import annotations

import errno
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.common.arguments import check_choice
from extarray.common.choices import VERIFICATIONS
from extarray.common.config import config
from extarray.common.errors import (
    ArgumentError,
    ChecksumError,
    CorruptError,
    FormatError,
    MissingError,
    ReplacedError,
    ResultError,
    StorageError,
)
from extarray.common.forks import in_children
from extarray.common.hints import hint
from extarray.common.on_error import OnError
from extarray.fetched.cache import DiskCache
from extarray.fetched.chunks import Arrived, Version
from extarray.fetched.heads import Head, Place, PublishedHere, removed
from extarray.fetched.metadata import Content
from extarray.fetched.origins import Fixed, start_blobs
from extarray.fetched.pairs import RemotePair, RemoteStates
from extarray.fetched.store import RemoteStore
from extarray.format._crc import crc32c
from extarray.format.blobs import FILL, MIXED, BlobsBlock, decode_blob
from extarray.format.header import encode_seal
from extarray.format.published import (
    TABLE_AT,
    ObjectMap,
    decode_table,
    key_of,
    keys_of,
    metadata_image,
    name_of,
    places_of,
    start_of,
    table_bytes,
)
from extarray.remote.objects import Counts, RemoteObject
from extarray.storage.blobs import decoding_threads, name_elements
from extarray.storage.filesystem import family
from extarray.storage.following import Update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Self

    from numpy.typing import NDArray

    from extarray._core._axial import Axial
    from extarray.fetched.chunks import Handle
    from extarray.fetched.paths import RemotePath
    from extarray.format.blobs import Stored
    from extarray.format.published import Table
    from extarray.remote.objects import Reading
    from extarray.storage.states import WholeState

__all__ = ["PublishedStore", "check_objects", "open_store"]

# Bytes of objects that come as a whole with their tables, and how many of them stay.
_WHOLE = 1 << 16
_MOST_WHOLE = 256
# Bytes of chunks that are checked at a time.
_CHECKED = 1 << 26


def open_store(
    path: RemotePath, engine: str, verify: str | None, recover: bool | None = None
) -> tuple[RemoteStore, Axial]:
    """Open an array elsewhere: a packed file, a pair of files, or a published array."""
    place, name = path.place, ""
    if place is None:
        try:
            return RemoteStore.open(path, engine, verify, recover)
        except PublishedHere as found:
            place, name = found.place, found.name
    else:
        name = "/".join(path.parts[len(place.path.parts) :])
    if place.is_group and not name:
        raise MissingError(
            errno.ENOENT,
            f"'{path}' is a published group, not an array; "
            + hint(f"open it with extarray.open_group('{path}')", "extarray tree lists its arrays"),
            str(path),
        )
    return PublishedStore.of_place(path, engine, verify, recover, place, name)


def check_objects(
    place: Place, name: str, data: bool, done: Callable[[int], object]
) -> Iterator[FormatError | StorageError]:
    """Read the tables of a published array, and with `data` all chunks; yield what is wrong.

    `done` is called with numbers of chunks.
    """
    path = place.path / name if name else place.path
    store, axial = PublishedStore.of_place(path, "pread", "read", None, place, name)
    try:
        size = store.now.header.chunk_bytes
        step = max(1, min(_CHECKED, config.max_memory // 4) // max(1, size)) if data else 1 << 20
        room = memoryview(np.empty(size if data else 0, np.uint8))
        for first in range(0, axial.size, step):
            some = np.arange(first, min(first + step, axial.size), dtype=np.int64)
            try:
                store.origin.check(some, room if data else None)
            except (FormatError, StorageError) as error:
                if not data:
                    yield error
                else:
                    yield from _wrong(store.origin, some, room)
            done(len(some))
    finally:
        store.close()


def _wrong(
    origin: InObjects, addresses: NDArray[np.int64], room: memoryview
) -> Iterator[FormatError | StorageError]:
    """Yield an error for each chunk that cannot be read; one for all that have the same."""
    seen = set()
    for at in range(len(addresses)):
        try:
            origin.check(addresses[at : at + 1], room)
        except (FormatError, StorageError) as error:
            if str(error) not in seen:
                seen.add(str(error))
                yield error


class _Part(NamedTuple):
    """Chunks on their way that come from one object.

    Attributes
    ----------
    reading : Reading
    numbers, addresses, sums : list of int
        Of the chunks, in the order of the ranges that are read; and their checksums.
    block : BlobsBlock
    key : bytes
        What tells the part of an object from all others.
    """

    reading: Reading
    numbers: list[int]
    addresses: list[int]
    sums: list[int]
    block: BlobsBlock
    key: bytes


class InObjects(Fixed):
    """The chunks of a published array, as of the head that was taken up last.

    Parameters
    ----------
    pair : RemotePair
    counts : Counts
    head : Head
    axial : Axial
        For messages about damaged chunks.
    """

    def __init__(self, pair: RemotePair, counts: Counts, head: Head, axial: Axial) -> None:
        super().__init__(head.object, 0, pair.header.chunk_bytes)
        self._pair, self._counts = pair, counts
        self._tables: dict[bytes, Table] = {}
        self._whole: dict[bytes, RemoteObject] = {}
        self.filled = pair.header.fill * (self._size // max(1, len(pair.header.fill)))
        self._sum_filled = crc32c(self.filled)
        self._number = 0
        self.take(head, axial)

    @property
    def version(self) -> Version:
        """The version of the head."""
        return Version(self._number, True)

    def take(self, head: Head, axial: Axial) -> None:
        """Take chunks from the objects of another head from now on."""
        entries = head.found.entries
        known = {key.tobytes() for key in keys_of(entries)}
        self._tables = {key: t for key, t in self._tables.items() if key in known}
        self._whole = {key: o for key, o in self._whole.items() if key in known}
        objects = ObjectMap(entries, partial(self._tables_of, entries))
        self.object, self.axial, self._place = head.object, axial, head.path
        self._number += 1
        self._objects = objects  # at once, for threads that read

    def n_threads(self, n_chunks: int) -> int:
        """Return how many threads are worth it to decode so many chunks."""
        return decoding_threads(BlobsBlock(bytes(16), 0, codec=MIXED), n_chunks * self._size)

    # -- objects ---------------------------------------------------------------------------------

    def _object(self, entry: Any) -> RemoteObject:
        """Return an object up to the end of a part; it never changes, so no request opens it."""
        whole = self._whole.get(key_of(entry))
        if whole is not None:
            return whole
        place = (self._place / name_of(entry["uuid"].tobytes())).object()
        end = start_of(entry) + int(entry["size"])
        return RemoteObject(place, end, None, counts=self._counts).any_version()

    def _tables_of(self, entries: NDArray[Any], numbers: list[int]) -> dict[int, Table]:
        """Return tables of objects, by their numbers; fetch those that are not at hand."""
        missing = [n for n in numbers if key_of(entries[n]) not in self._tables]
        sizes = table_bytes(entries)
        if int(sizes[missing].sum()) > config.max_result:
            raise ResultError("the tables of objects, which are needed at a time, are too long")
        coming = []
        for number in missing:
            entry, size = entries[number], int(entries["size"][number])
            found, is_whole = self._object(entry), size <= _WHOLE
            start, length = (0, size) if is_whole else (TABLE_AT, int(sizes[number]))
            start += start_of(entry)
            coming.append((entry, number, is_whole, found.start([start], [length])))
        try:
            for entry, number, is_whole, reading in coming:
                data = bytes(reading.result()[0])
                if is_whole:
                    if len(self._whole) < _MOST_WHOLE:
                        self._whole[key_of(entry)] = self._kept(entry, data)
                    data = data[TABLE_AT : TABLE_AT + int(sizes[number])]
                self._tables[key_of(entry)] = self._decoded_table(data, entry)
        except ReplacedError:
            raise removed(self._pair.path) from None
        return {n: self._tables[key_of(entries[n])] for n in numbers}

    def _kept(self, entry: Any, data: bytes) -> RemoteObject:
        place = (self._place / name_of(entry["uuid"].tobytes())).object()
        end = start_of(entry) + len(data)
        return RemoteObject(place, end, None, data, counts=self._counts)

    def _decoded_table(self, data: bytes, entry: Any) -> Table:
        try:
            return decode_table(data, entry)
        except CorruptError as error:
            name = name_of(entry["uuid"].tobytes())
            raise CorruptError(f"'{self._place}/{name}': {error}") from None

    # -- chunks ----------------------------------------------------------------------------------

    def start(self, addresses: NDArray[Any]) -> Handle:
        """Begin to fetch chunks."""
        number, objects = self._number, self._objects
        owners = objects.owners(addresses)
        numbers = np.unique(owners[owners >= 0]).tolist()
        tables = self._tables_of(objects.entries, numbers)
        filled = np.flatnonzero(owners < 0).tolist()
        places = []
        total = 0
        for n in numbers:
            here = np.flatnonzero(owners == n)
            entry, table = objects.entries[n], tables[n]
            at, _ = table.find(addresses[here])
            try:
                found, block = places_of(table, at, entry, MIXED, self._size)
            except ChecksumError as error:
                raise self._told(error) from None
            filled += here[table.words[at] == FILL].tolist()
            is_blob = table.words[at] != FILL
            places.append((entry, here[is_blob], table.sums[at][is_blob], found, is_blob, block))
            total += int(found.sizes.sum())
        if total > config.max_result:
            raise ResultError(
                f"{len(addresses)} chunks, which are needed at a time, exceed config.max_result"
            )
        n_axes, parts = len(self._pair.header.chunks), []
        for entry, here, sums, found, is_blob, block in places:
            if not len(here):
                continue
            offsets = (found.offsets[is_blob] + start_of(entry)).tolist()
            sizes = found.sizes[is_blob].tolist()
            reading, key = start_blobs(self._object(entry), offsets, sizes, n_axes), key_of(entry)
            parts.append(
                _Part(reading, here.tolist(), addresses[here].tolist(), sums.tolist(), block, key)
            )
        return _Coming(self, number, parts, set(filled))

    def changed(self, addresses: NDArray[Any], brought: Mapping[int, Version | None]) -> list[int]:
        """Return the addresses of chunks that differ from those that were brought.

        A chunk that has moved to another object need not differ: if there are several from there,
        its table tells.
        """
        entries = self._objects.entries
        owners = self._objects.owners(addresses)
        keys = [b"" if owner < 0 else key_of(entries[owner]) for owner in owners.tolist()]
        found: list[int] = []
        moved: list[int] = []
        for at, (address, key) in enumerate(zip(addresses.tolist(), keys, strict=True)):
            version = brought.get(address)
            if version is None or not version.log or not key:
                # One of the fill value costs nothing to renew.
                if version is None or (version.log, version.word) != (key, FILL):
                    found.append(address)
            elif version.log != key:
                moved.append(at)
        numbers, counts = np.unique(owners[moved], return_counts=True)
        worth = numbers[(counts > 1) & (entries["tail"][numbers] == 0)]
        may_stay = np.isin(owners[moved], worth)
        found.extend(addresses[moved][~may_stay].tolist())
        left = addresses[moved][may_stay]
        try:
            sums = self.sums(left).tolist()
        except (FormatError, StorageError):  # whoever needs the chunks will be told
            found.extend(left.tolist())
            return found
        for address, crc in zip(left.tolist(), sums, strict=True):
            version = brought.get(address)
            if version is None or version.word != crc:
                found.append(address)
        return found

    def sums(self, addresses: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return the checksums of chunks, decoded."""
        objects = self._objects
        owners = objects.owners(addresses)
        found = np.full(len(addresses), self._sum_filled, np.uint32)
        numbers = np.unique(owners[owners >= 0]).tolist()
        for number, table in self._tables_of(objects.entries, numbers).items():
            here = np.flatnonzero(owners == number)
            found[here] = table.sums[table.find(addresses[here])[0]]
        return found

    def check(self, addresses: NDArray[np.int64], room: memoryview | None) -> None:
        """Read the tables that lead to chunks, and, with room for one, the chunks.

        Raises
        ------
        FormatError, StorageError
            Something is damaged, or missing.
        """
        if room is None:
            objects = self._objects
            owners = np.unique(objects.owners(addresses))
            self._tables_of(objects.entries, owners[owners >= 0].tolist())
            return
        for chunks, _ in self.fetch(addresses):
            for _, chunk in chunks:
                if callable(chunk):
                    chunk(room)

    def stored(self, addresses: NDArray[np.int64]) -> list[Stored | None]:
        """Raise ArgumentError: chunks are in several objects."""
        raise ArgumentError(
            f"the chunks of '{self._pair.path}', a published array, are in many objects; copy it "
            "to a file first"
        )

    def decoded(
        self, address: int, blob: Any, block: BlobsBlock, threads: int, room: memoryview
    ) -> Any:
        """Return a chunk from its blob, perhaps in `room`."""
        itemsize, verifies = self._pair.header.dtype.itemsize, self._pair.verify != "never"
        try:
            return decode_blob(blob, address, block, room, itemsize, verifies, threads)
        except ChecksumError as error:
            raise self._told(error) from None

    def _told(self, error: ChecksumError) -> ChecksumError:
        """Return an error about a chunk that tells which elements are lost."""
        pair = self._pair
        return name_elements(error, pair.header, pair.state, self.axial, str(pair.path))

    def removed(self) -> ReplacedError:
        """Return the error for an object that a cleaner has removed."""
        return removed(self._pair.path)


class _Coming:
    """Chunks on their way, from several objects."""

    def __init__(
        self, origin: InObjects, number: int, parts: list[_Part], filled: set[int]
    ) -> None:
        self._origin, self._number, self._parts, self._filled = origin, number, parts, filled
        self._at = {
            number: (at, place)
            for at, part in enumerate(parts)
            for place, number in enumerate(part.numbers)
        }

    def arrivals(self, wanted: Iterable[int]) -> Iterator[Arrived]:
        """Yield chunks of the fill value, and functions that decode others, as they come."""
        origin, filled = self._origin, []
        left: dict[int, list[int]] = {}
        for number in wanted:
            if number in self._filled:
                filled.append((number, origin.filled))
            else:
                at, place = self._at[number]
                left.setdefault(at, []).append(place)
        # The object of a chunk without a blob is not noted: such a chunk costs nothing to renew.
        if filled:
            yield Arrived(filled, Version(self._number, True, FILL))
        for at, places in left.items():
            part = self._parts[at]
            try:
                for found in part.reading.arrivals(places):
                    threads = origin.n_threads(1) if len(found) == 1 else 1
                    for place, blob in found:
                        address, crc = part.addresses[place], part.sums[place]
                        chunk = partial(origin.decoded, address, blob, part.block, threads)
                        version = Version(self._number, True, crc, part.key)
                        yield Arrived([(part.numbers[place], chunk)], version)
            except ReplacedError:
                raise origin.removed() from None

    def cancel(self) -> None:
        """Give them up."""
        for part in self._parts:
            part.reading.cancel()


class PublishedStore(RemoteStore):
    """The store of a published array; `open_store` returns one."""

    origin: InObjects
    place: Place
    _name: str
    _head: Head

    @classmethod
    def of_place(
        cls,
        path: RemotePath,
        engine: str,
        verify: str | None,
        recover: bool | None,
        place: Place,
        name: str,
    ) -> tuple[Self, Axial]:
        """Open an array from the newest head that was fetched; "": it is in no group."""
        head = place.head(name)
        verify = config.verify if verify is None else check_choice(verify, "verify", VERIFICATIONS)
        self = cls(path, verify)
        self._recover = recover
        self.counts = head.object.counts
        with OnError(self.now.close), family("cannot open '{}'", path):
            self._head, self.place, self._name = head, place, name
            found = self._read_head(head)
            self.origin = InObjects(self.now, self.counts, head, found.axial)
            self._begin(found, engine)
        in_children(self, cls._forked)
        return self, found.axial

    def _read_head(self, head: Head) -> WholeState:
        image = metadata_image(head.found)
        found = self._read_state(Content(len(image), ((0, image),)), 0, b"")
        self._end_data(found)
        return found

    def _end_data(self, found: WholeState) -> None:
        """Give the data the seal that the state of a published array stands for."""
        seal = encode_seal(self.now.header.uuid)
        self._take_end(found.state.data_bytes + len(seal), seal)

    # -- updates ---------------------------------------------------------------------------------

    def _fetch(self) -> bool:
        """Ask for a newer head; tell whether there is one of this array."""
        return self.place.look() and self._is_same()

    def _is_same(self) -> bool:
        """Tell whether the newest head that was fetched still has the array."""
        return self.place.uuid(self._name) == self._head.found.header.uuid

    @property
    def is_gone(self) -> bool:
        """True if the newest head that was fetched has another array, or none, of this name."""
        return not self._is_same()

    def prepare(self) -> None:
        """Fetch all that `refresh` needs, after the newest head of several arrays was fetched."""
        if self.was_superseded():
            self.place.head(self._name)

    def refresh(self, axial: Axial) -> Axial | None:
        """Adopt a newer head; one request, if there is none."""
        pair = self.now
        with family("cannot refresh '{}'", pair.path):
            self._is_replaced = not self._fetch()
            if self._is_replaced or not self.was_superseded():
                return None
            return self._adopt_head(self.place.head(self._name))

    def _adopt_head(self, head: Head) -> Axial:
        pair = self.now
        is_same_size = head.found.header.chunk_bytes == pair.header.chunk_bytes
        image = metadata_image(head.found)
        other = RemotePair(pair.path)
        try:
            other.metadata = Content(len(image), ((0, image),)).shadow(pair.names[0])
            try:
                other.read_header()
                found = RemoteStates(other).newest_state()
            except FormatError as error:
                raise type(error)(f"'{pair.path}/head': {error}") from None
            pair.cover(found.state.data_bytes)
            with self._lock:
                pair.metadata, other.metadata = other.metadata, pair.metadata
                pair.header = other.header
                self._head = head
                self._end_data(found)
            pair.watch_cuts()
            self.following.adopt(Update(found.state, None, found.extents, found.attrs, 0))
            if not is_same_size:
                self.origin = InObjects(pair, self.counts, head, found.axial)
                self._begin_chunks()
            else:
                self._renew(head, found.axial)
                self._begin_cache()
            return found.axial
        finally:
            other.close()

    def _begin_cache(self) -> None:
        """Keep chunks on the disk, if that is asked for; those of all heads, in one place."""
        provider, folder = self.provider, self._given.cache
        cache, provider.cache = provider.cache, None
        if folder is None:
            return
        size, now = self.now.header.chunk_bytes, self.origin.version
        if cache is None:
            key = [self.now.absolute, "published", self.now.header.uuid.hex(), size]
            cache = DiskCache(folder, key, size, now.number, self.origin.sums)
        cache.number, provider.cache = now.number, cache

    def _renew(self, head: Head, axial: Axial) -> None:
        """Let chunks come anew that other objects have by now."""
        supply = self.now.supply
        assert supply is not None
        self.origin.take(head, axial)
        self.provider.forget_coming()
        supply.settle()
        n_chunks = axial.size
        present = supply.present
        present = present[present < n_chunks]
        supply.renew(np.array(self.origin.changed(present, self.provider.brought), np.int64))

    def was_superseded(self) -> bool:
        """Tell whether a newer head was fetched than the one that was taken up."""
        return self._is_same() and self.place.number(self._name) > self._head.found.head.number

    # -- contents --------------------------------------------------------------------------------

    def url_of(self, suffix: str) -> str | None:
        """Return None: chunks are in several objects."""
        return None

    @property
    def generation(self) -> tuple[int, Any]:
        """Number of the array's own commit, and a digest of the list of its objects.

        Neither changes when a cleaner replaces the head.
        """
        found = self._head.found
        return found.head.source, sha256(found.entries.tobytes()).hexdigest()

    @property
    def file_bytes(self) -> int:
        """Bytes of the objects with chunks."""
        return int(self._head.found.entries["size"].sum())
