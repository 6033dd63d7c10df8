"""Published arrays and groups: the head, its lists, and chunks, as functions of bytes.

What is published is one small object that is replaced, the head, and objects that never change.  A
part of an object with chunks is a file of blobs with a table in front; so blobs are those of
``blobs``.  The head of a group has heads of arrays in it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray.common.errors import CorruptError, FormatError, VersionError
from extarray.format._crc import crc32c
from extarray.format.blobs import (
    FILE_HEAD_BYTES,
    UNIT,
    BlobPlaces,
    BlobsBlock,
    decode_entries,
    encode_file_head,
)
from extarray.format.blocks import BlockKind
from extarray.format.fresh import encode_fresh
from extarray.format.frozen import encode_blob
from extarray.format.header import BLOBS_VERSION, Header, decode_header, encode_header
from extarray.format.index import decode_index
from extarray.format.records import check_records, decode_records, encode_record, record_bytes
from extarray.format.superblock import (
    Superblock,
    decode_superblock,
    encode_superblock,
    values_fit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from extarray.codecs.payloads import Encoded
    from extarray.format.index import Index

__all__ = [
    "ENTRY",
    "FOLDER",
    "HEAD",
    "HEAD_BYTES",
    "PAGE",
    "RETIRED",
    "TABLE_AT",
    "Frame",
    "ObjectMap",
    "Published",
    "PublishedGroup",
    "Table",
    "decode_frame",
    "decode_table",
    "encode_frame",
    "encode_part",
    "encode_state",
    "for_blobs",
    "is_dense",
    "join_frames",
    "join_group",
    "key_of",
    "keys_of",
    "metadata_image",
    "name_of",
    "places_of",
    "start_of",
    "table_bytes",
    "uuid_of_name",
]

#: Names below the place of a published array.
HEAD, FOLDER = "head", "o"
#: Most bytes of a head.
HEAD_BYTES = (1 << 16) - 1
#: Offset of the table in an object with chunks.
TABLE_AT = FILE_HEAD_BYTES

#: A part of an object, with chunks of one array.
ENTRY = np.dtype(
    [
        ("uuid", "V16"),
        ("at", "<u4"),
        ("tail", "<u4"),
        ("first", "<u8"),
        ("last", "<u8"),
        ("size", "<u8"),
        ("count", "<u4"),
        ("crc", "<u4"),
    ]
)
_KEY = np.dtype({"names": ["key"], "formats": ["V20"], "offsets": [0], "itemsize": ENTRY.itemsize})
#: A part of the lists; readers need none with `graves`, which has retired entries alone.
PAGE = np.dtype([("uuid", "V16"), ("size", "<u8"), ("crc", "<u4"), ("graves", "<u4")])
#: An object that heads no longer name.
RETIRED = np.dtype([("uuid", "V16"), ("time", "<u8")])

_MAGIC = b"\x89XPB\r\n\x1a\n"
_VERSION = (1, 0)
_FRAME = struct.Struct("<8sHHI16sQ16sQQII")
_COVERED = 16  # the checksum covers the bytes from here on
_SECTION = struct.Struct("<IIQ")
_HEADER, _STATE, _RECORDS, _ATTRS, _OBJECTS, _PAGES, _RETIRED, _MEMBERS, _INDEX = range(1, 10)
_ARRAY, _PAGE, _GROUP = 1, 2, 3
_MEMBER = struct.Struct("<II")
_MOST_ADDRESS = 1 << 62


def name_of(uuid: bytes) -> str:
    """Return the name of an object below the place of its array.

    Examples
    --------
    >>> name_of(bytes(16))
    'o/00000000000000000000000000000000'
    """
    return f"{FOLDER}/{bytes(uuid).hex()}"


def uuid_of_name(name: str) -> bytes | None:
    """Return the uuid of an object by the last part of its name; None for other objects.

    Examples
    --------
    >>> uuid_of_name("00" * 16) == bytes(16), uuid_of_name("README") is None
    (True, True)
    """
    try:
        uuid = bytes.fromhex(name)
    except ValueError:
        return None
    return uuid if uuid.hex() == name and len(uuid) == 16 else None


# -- frames ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """A head, or a page, which has a part of a head's lists.

    Attributes
    ----------
    array : bytes
        Uuid of the array or the group.
    ndim : int
        0 for a group.
    is_page : bool
    number : int
        Of the head: one more at each commit.
    token : bytes
        Random bytes of the commit.
    source : int
        Number of the array's own commit that was published.
    time : int
        Milliseconds since 1970.
    header : Header or None
    state : Superblock or None
    records : ndarray of uint8
        The bytes of a record in each row.
    attrs : str or None
    entries, pages, retired : ndarray
        Of the types `ENTRY`, `PAGE` and `RETIRED`.
    is_group : bool
        It is the head of a group.
    members : dict
        The bytes of the heads of arrays, by their names in the group.
    index : bytes or None
        Index of the group.
    """

    array: bytes
    ndim: int
    is_page: bool = False
    number: int = 0
    token: bytes = bytes(16)
    source: int = 0
    time: int = 0
    header: Header | None = None
    state: Superblock | None = None
    records: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, 8), np.uint8))
    attrs: str | None = None
    entries: NDArray[Any] = field(default_factory=lambda: np.zeros(0, ENTRY))
    pages: NDArray[Any] = field(default_factory=lambda: np.zeros(0, PAGE))
    retired: NDArray[Any] = field(default_factory=lambda: np.zeros(0, RETIRED))
    is_group: bool = False
    members: Mapping[str, bytes] = field(default_factory=dict)
    index: bytes | None = None


def encode_frame(frame: Frame) -> bytes:
    """Return the bytes of a head or a page."""
    sections: list[tuple[int, bytes]] = []
    if frame.header is not None:
        sections.append((_HEADER, encode_header(frame.header)))
    if frame.state is not None:
        sections.append((_STATE, encode_superblock(frame.state)))
    if frame.attrs is not None:
        sections.append((_ATTRS, frame.attrs.encode()))
    lists = (
        (_RECORDS, frame.records),
        (_OBJECTS, frame.entries),
        (_PAGES, frame.pages),
        (_RETIRED, frame.retired),
    )
    sections += [(kind, rows.tobytes()) for kind, rows in lists if len(rows)]
    if frame.members:
        sections.append((_MEMBERS, b"".join(starmap(_encode_member, frame.members.items()))))
    if frame.index is not None:
        sections.append((_INDEX, frame.index))
    parts = [
        part
        for kind, data in sections
        for part in (_SECTION.pack(kind, 0, len(data)), data, bytes(-len(data) % 8))
    ]
    facts = frame.number, frame.token, frame.source, frame.time, frame.ndim
    kind = _PAGE if frame.is_page else _GROUP if frame.is_group else _ARRAY
    head = _FRAME.pack(_MAGIC, *_VERSION, 0, frame.array, *facts, kind)
    body = head[_COVERED:] + b"".join(parts)
    return head[: _COVERED - 4] + struct.pack("<I", crc32c(body)) + body


def decode_frame(data: bytes) -> Frame:
    """Return what a head or a page says.

    Raises
    ------
    FormatError
        It is something else, of another version, or damaged.
    """
    if data[: len(_MAGIC)] != _MAGIC:
        raise FormatError("not the head of a published array: the signature is missing")
    if len(data) < _FRAME.size:
        raise CorruptError("it is truncated")
    _, major, minor, crc, array, number, token, source, time, ndim, kind = _FRAME.unpack_from(data)
    if major != _VERSION[0]:
        raise VersionError(
            f"published in format {major}.{minor}, but this version of extarray reads "
            f"{_VERSION[0]}; install another version"
        )
    if crc32c(memoryview(data)[_COVERED:]) != crc:
        raise CorruptError("it does not match its checksum")
    if ndim > 32 or kind not in (_ARRAY, _PAGE, _GROUP):
        raise CorruptError("its values are impossible")
    found = dict(_sections(data))
    header = state = attrs = None
    try:
        if _HEADER in found:
            header = decode_header(found[_HEADER])
        if _ATTRS in found:
            attrs = found[_ATTRS].decode()
    except UnicodeDecodeError:
        raise CorruptError("its attributes are not UTF-8") from None
    if header is not None and (header.ndim, header.uuid) != (ndim, array):
        raise CorruptError("its header is that of another array")
    if _STATE in found:
        state = decode_superblock(found[_STATE], ndim)
        if state is None:
            raise CorruptError("its state is damaged")
    size = record_bytes(ndim)
    rows = _rows(found.get(_RECORDS, b""), np.dtype((np.void, size)))
    lists = {
        name: _rows(found.get(section, b""), row)
        for name, section, row in (
            ("entries", _OBJECTS, ENTRY),
            ("pages", _PAGES, PAGE),
            ("retired", _RETIRED, RETIRED),
        )
    }
    return Frame(
        array,
        ndim,
        kind == _PAGE,
        number,
        token,
        source,
        time,
        header,
        state,
        rows.view(np.uint8).reshape(-1, size),
        attrs,
        **lists,
        is_group=kind == _GROUP,
        members=dict(_members(found.get(_MEMBERS, b""))),
        index=found.get(_INDEX),
    )


def _encode_member(name: str, frame: bytes) -> bytes:
    label = name.encode()
    parts = _MEMBER.pack(len(label), len(frame)), label, bytes(-len(label) % 8)
    return b"".join((*parts, frame, bytes(-len(frame) % 8)))


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the names and heads of the arrays in a section of members."""
    at = 0
    while at < len(data):
        if at + _MEMBER.size > len(data):
            raise CorruptError("its list of arrays is truncated")
        n_label, n_frame = _MEMBER.unpack_from(data, at)
        label = at + _MEMBER.size
        frame = label + n_label + -n_label % 8
        at = frame + n_frame + -n_frame % 8
        if at > len(data):
            raise CorruptError("its list of arrays is truncated")
        try:
            yield data[label : label + n_label].decode(), data[frame : frame + n_frame]
        except UnicodeDecodeError:
            raise CorruptError("the name of an array is not UTF-8") from None


def _sections(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kinds and bytes of the sections of a frame."""
    at, seen = _FRAME.size, set()
    while at < len(data):
        if at + _SECTION.size > len(data):
            raise CorruptError("a section of it is truncated")
        kind, _, length = _SECTION.unpack_from(data, at)
        at += _SECTION.size
        if length > len(data) - at or kind in seen:
            raise CorruptError("a section of it is too long, or occurs twice")
        seen.add(kind)
        yield kind, data[at : at + length]
        at += length + -length % 8


def _rows(data: bytes, kind: np.dtype[Any]) -> NDArray[Any]:
    if len(data) % kind.itemsize:
        raise CorruptError("a list of it ends within an entry")
    return np.frombuffer(data, kind)


class Published(NamedTuple):
    """A state of a published array, from a head and its pages.

    Attributes
    ----------
    head : Frame
    header : Header
    state : Superblock
    records : ndarray of uint8
    attrs : str
    entries, retired : ndarray
        A reader has not all that are retired.
    """

    head: Frame
    header: Header
    state: Superblock
    records: NDArray[np.uint8]
    attrs: str
    entries: NDArray[Any]
    retired: NDArray[Any]


def join_frames(head: Frame, pages: Sequence[Frame]) -> Published:
    """Return the state that a head and its pages say.

    Raises
    ------
    CorruptError
        They do not fit each other, or say what cannot be.
    """
    if head.is_page or head.is_group or head.state is None:
        raise CorruptError("the head of the published array has no state")
    frames = [*pages, head]
    for page in pages:
        if not page.is_page or (page.array, page.ndim) != (head.array, head.ndim):
            raise CorruptError("a page of the published array is that of another array")
    headers = [frame.header for frame in frames if frame.header is not None]
    attrs = [frame.attrs for frame in frames if frame.attrs is not None]
    if len(headers) != 1 or len(attrs) != 1:
        raise CorruptError("the published array has no header or attributes, or several")
    header, state = headers[0], head.state
    size = record_bytes(head.ndim)
    records = np.concatenate([f.records.reshape(len(f.records), size) for f in frames])
    entries = np.concatenate([frame.entries for frame in frames])
    retired = np.concatenate([frame.retired for frame in frames])
    if len(records) != state.n_segments or not values_fit(state, header):
        raise CorruptError("the state of the published array does not fit its growth log")
    check_records(np.ascontiguousarray(records), header.uuid, 0)
    n_chunks = state.data_bytes // header.chunk_bytes if header.chunk_bytes else _MOST_ADDRESS
    first, last, count = (entries[name].astype(np.int64) for name in ("first", "last", "count"))
    least = TABLE_AT + table_bytes(entries)
    wrong = (first < 0) | (last < first) | (last >= n_chunks)
    wrong |= (count < 1) | (count > last - first + 1)
    if wrong.any() or (entries["size"].astype(np.int64) < least).any():
        raise CorruptError("an entry of the published array is impossible")
    return Published(head, header, state, records, attrs[0], entries, retired)


class PublishedGroup(NamedTuple):
    """A state of a published group, from its head and pages.

    Attributes
    ----------
    head : Frame
    listing : Index
    members : dict
        The heads of all arrays, by their names.
    retired : ndarray
    """

    head: Frame
    listing: Index
    members: dict[str, Frame]
    retired: NDArray[Any]


def join_group(head: Frame, pages: Sequence[Frame]) -> PublishedGroup:
    """Return the state that the head of a group and its pages say.

    Raises
    ------
    CorruptError
        They do not fit each other, or say what cannot be.
    """
    found: dict[str, bytes] = {}
    frames = [*pages, head]
    for frame in frames:
        if frame.array != head.array or frame.is_page == (frame is head):
            raise CorruptError("a page of the published group is that of another one")
        found.update(frame.members)
    indexes = [frame.index for frame in frames if frame.index is not None]
    if not head.is_group or len(indexes) != 1:
        raise CorruptError("the published group has no index, or several")
    try:
        listing = decode_index(indexes[0])
    except FormatError as error:
        raise CorruptError(str(error)) from None
    members = {}
    for name in listing.arrays:
        if name not in found:
            raise CorruptError(f"the published group lists {name!r}, but has no head of it")
        member = decode_frame(found[name])
        if member.is_page or member.is_group or member.state is None:
            raise CorruptError(f"the head of {name!r} in the published group is none")
        members[name] = member
    retired = np.concatenate([frame.retired for frame in frames])
    return PublishedGroup(head, listing, members, retired)


def metadata_image(found: Published) -> bytes:
    """Return an ``.xmd`` with the state, as readers of files know it."""
    axes, sides, grids = decode_records(np.ascontiguousarray(found.records))
    rows = zip(axes.tolist(), sides.tolist(), grids.tolist(), strict=True)
    records = [(axis, side, tuple(grid)) for axis, side, grid in rows]
    state = found.state._replace(sealed=True, superseded=False, sequence=found.head.number)
    blocks: Mapping[BlockKind, bytes] = {}
    fresh = encode_fresh(found.header, state, records, found.attrs, (0,), blocks)
    return bytes(fresh.image)


def encode_state(
    header: Header,
    state: Superblock,
    records: Sequence[tuple[int, int, tuple[int, ...]]],
    attrs: str,
) -> Frame:
    """Return a head with a state alone; see `encode_fresh` about the arguments."""
    size = record_bytes(header.ndim)
    data = b"".join(encode_record(*record, header.uuid) for record in records)
    rows = np.frombuffer(data, np.uint8).reshape(-1, size)
    state = state._replace(n_segments=len(rows), sealed=True)
    return Frame(header.uuid, header.ndim, header=header, state=state, records=rows, attrs=attrs)


# -- objects with chunks ---------------------------------------------------------------------------


def keys_of(entries: NDArray[Any]) -> NDArray[Any]:
    """Return what tells each part from all others: its object, and its offset in there.

    Examples
    --------
    >>> keys_of(np.zeros(2, ENTRY)).tolist() == [bytes(20)] * 2
    True
    """
    found: NDArray[Any] = np.ascontiguousarray(entries).view(_KEY)["key"]
    return found


def key_of(entry: Any) -> bytes:
    """Return what tells a part from all others."""
    return bytes(entry["uuid"].tobytes() + entry["at"].tobytes())


def start_of(entry: Any) -> int:
    """Return the offset of a part in its object."""
    return int(entry["at"]) * UNIT


def is_dense(entries: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which parts have all chunks from their first address to their last."""
    found: NDArray[np.bool_] = entries["last"] - entries["first"] + 1 == entries["count"]
    return found


def table_bytes(entries: NDArray[Any]) -> NDArray[np.int64]:
    """Return the bytes of the tables of parts."""
    sizes = np.where(is_dense(entries), 12, 20)
    found: NDArray[np.int64] = entries["count"].astype(np.int64) * sizes
    return found


class Table(NamedTuple):
    """The table of a part.

    Attributes
    ----------
    addresses : ndarray of int64
        In rising order.
    words : ndarray of uint64
    sums : ndarray of uint32
        Checksums of the chunks, decoded.
    """

    addresses: NDArray[np.int64]
    words: NDArray[np.uint64]
    sums: NDArray[np.uint32]

    def find(self, addresses: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the places of addresses in the table, and which of them are there."""
        at = np.searchsorted(self.addresses, addresses)
        at = np.minimum(at, len(self.addresses) - 1)
        return at, self.addresses[at] == addresses


def decode_table(data: bytes, entry: Any) -> Table:
    """Return the table of the part of an entry; raise CorruptError if it is damaged."""
    n, first, last = int(entry["count"]), int(entry["first"]), int(entry["last"])
    if crc32c(data) != int(entry["crc"]):
        raise CorruptError("the table of an object does not match its checksum")
    if last - first + 1 == n:
        addresses = np.arange(first, last + 1, dtype=np.int64)
        at = 0
    else:
        addresses, at = np.frombuffer(data, "<i8", n), 8 * n
        if (addresses[[0, -1]] != (first, last)).any() or (np.diff(addresses) <= 0).any():
            raise CorruptError("the table of an object has impossible addresses")
    words = np.frombuffer(data, "<u8", n, at)
    return Table(addresses, words, np.frombuffer(data, "<u4", n, at + 8 * n))


def places_of(
    table: Table, at: NDArray[np.int64], entry: Any, codec: int, chunk_bytes: int
) -> tuple[BlobPlaces, BlobsBlock]:
    """Return where blobs lie in a part, by the places of their chunks in the table."""
    block = BlobsBlock(entry["uuid"].tobytes(), int(entry["size"]), codec=codec)
    return decode_entries(table.words[at], table.addresses[at], block, chunk_bytes), block


def encode_part(
    array: bytes,
    uuid: bytes,
    chunks: Sequence[tuple[int, Encoded | None, int]],
    is_tail: bool,
    start: int = 0,
) -> tuple[list[bytes | memoryview], NDArray[Any], Table]:
    """Return the pieces of a part of an object, its entry, and its table.

    Parameters
    ----------
    array, uuid : bytes
        Of the array, and of the object.
    chunks : sequence of (int, Encoded or None, int)
        Rising addresses, the chunks as codecs have them, and checksums of the decoded bytes; None
        for the fill value.
    is_tail : bool
        The chunks will be published again.
    start : int
        Offset of the part in the object.
    """
    n = len(chunks)
    addresses = np.array([address for address, *_ in chunks], "<i8")
    entry = np.zeros(1, ENTRY)
    entry["uuid"] = np.void(uuid)
    entry["first"], entry["last"], entry["count"] = addresses[0], addresses[-1], n
    entry["tail"], entry["at"] = is_tail, start // UNIT
    before = TABLE_AT + int(table_bytes(entry)[0])
    at = -(-before // UNIT) * UNIT
    words = np.ones(n, "<u8")
    blobs: list[bytes | memoryview] = []
    for number, (address, encoded, _) in enumerate(chunks):
        if encoded is not None:
            blob, words[number] = encode_blob(encoded, address, at, uuid)
            blobs += blob
            at += sum(map(len, blob))
    sums = np.array([crc for *_, crc in chunks], "<u4")
    table = b"" if is_dense(entry)[0] else addresses.tobytes()
    table += words.tobytes() + sums.tobytes()
    entry["size"], entry["crc"] = at, crc32c(table)
    head = encode_file_head(uuid, array) + table
    pieces = [head, bytes(-len(head) % UNIT), *blobs]
    return pieces, entry, Table(addresses.astype(np.int64), words, sums)


class ObjectMap:
    """Map of chunks to the parts of objects that have their newest versions.

    Parameters
    ----------
    entries : ndarray of ENTRY
        The last one that has a chunk counts.
    table : callable
        Returns the tables of objects, by their numbers among the entries, as a dict.
    """

    def __init__(
        self, entries: NDArray[Any], table: Callable[[list[int]], Mapping[int, Table]]
    ) -> None:
        self.entries, self._table = entries, table
        first = entries["first"].astype(np.int64)
        stop = entries["last"].astype(np.int64) + 1
        dense = is_dense(entries)
        # Objects without gaps: one number for each interval between two ends of any.
        self._edges = np.unique(np.concatenate([first[dense], stop[dense]]))
        self._owners = np.full(len(self._edges) + 1, -1, np.int64)
        ends = (np.searchsorted(self._edges, some[dense]).tolist() for some in (first, stop))
        for number, low, high in zip(np.flatnonzero(dense).tolist(), *ends, strict=True):
            self._owners[low + 1 : high + 1] = number
        self._sparse = np.flatnonzero(~dense)[::-1].tolist()
        self._first, self._stop = first, stop

    def owners(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the objects that have chunks; -1 for those of the fill value."""
        found = self._owners[np.searchsorted(self._edges, addresses, "right")]
        possible = [
            number
            for number in self._sparse
            if (self._within(number, addresses) & (found < number)).any()
        ]
        tables = self._table(possible) if possible else {}
        for number in possible:  # the newest first
            here = np.flatnonzero(self._within(number, addresses) & (found < number))
            if len(here):
                _, is_there = tables[number].find(addresses[here])
                found[here[is_there]] = number
        return found

    def _within(self, number: int, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
        low, high = self._first[number], self._stop[number]
        found: NDArray[np.bool_] = (addresses >= low) & (addresses < high)
        return found

    def covered(self) -> NDArray[np.bool_]:
        """Tell which objects newer ones without gaps cover as a whole."""
        starts = np.concatenate([[np.iinfo(np.int64).min], self._edges])
        low = np.searchsorted(starts, self._first, "right") - 1
        high = np.searchsorted(starts, self._stop, "left")
        # The least owner of each range; ranges of both kinds alternate, and one more ends the last.
        bounds = np.stack([low, high], axis=1).ravel()
        least = np.minimum.reduceat(np.append(self._owners, -1), bounds)[::2]
        found: NDArray[np.bool_] = least > np.arange(len(self.entries))
        return found


def for_blobs(header: Header, note: str) -> Header:
    """Return the header of an array whose chunks are in blobs, with a note on them."""
    return header._replace(version=BLOBS_VERSION, blobs=note, work=b"")
