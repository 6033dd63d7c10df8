"""The bytes of ``.xmd``: header, superblocks, growth log.

The page ``docs/format.md`` specifies them; this module is that page in Python.
"""

from __future__ import annotations

import enum
import functools
import json
import math
import os
import re
import reprlib
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from extarray._core._crc import crc32c, crc32c_rows
from extarray.errors import (
    ArgumentError,
    CorruptError,
    DTypeError,
    FormatError,
    TruncatedError,
    VersionError,
)
from extarray.order import ORDERS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BEGUN_SLOT",
    "BLOCK",
    "COPY_BLOCK",
    "CUTS_BYTES",
    "EXTENT_HEAD_BYTES",
    "FLUSHED_SLOTS",
    "GROUP_BLOCK",
    "HOLDER_BYTES",
    "LAST_COMMIT",
    "LAST_SEQUENCE",
    "LIMIT",
    "LIVE_SLOTS",
    "MAGIC",
    "MOST_SUMS_EXTENTS",
    "NO_GROUP",
    "PENDING_SLOTS",
    "SEAL_BYTES",
    "SEAL_MAGIC",
    "SPARED_SLOTS",
    "SUMS_BLOCK",
    "VERSION",
    "WRITERS_BLOCK",
    "WRITER_BYTES",
    "WRITER_SLOTS",
    "Fresh",
    "Header",
    "Pending",
    "Superblock",
    "Writer",
    "WriterKind",
    "WritersHead",
    "attrs_room",
    "check_dtype",
    "check_records",
    "decode_dtype",
    "decode_extent_head",
    "decode_header",
    "decode_members",
    "decode_pending",
    "decode_records",
    "decode_sums",
    "decode_superblock",
    "decode_writers",
    "encode_dtype",
    "encode_extent_head",
    "encode_fresh",
    "encode_header",
    "encode_members",
    "encode_pending",
    "encode_record",
    "encode_sums",
    "encode_superblock",
    "encode_writer",
    "encode_writers_head",
    "extent_capacity",
    "extent_of_record",
    "header_bytes_of",
    "header_content",
    "latest_sequence",
    "places_fit",
    "record_bytes",
    "sums_bytes",
    "sums_capacity",
    "superblock_bytes",
    "values_fit",
]

# Bytes of all chunks, and elements of an axis, with those that only its chunks have; file offsets
# are signed, and a little follows the last chunk.
LIMIT = 2**63 - 4096
MAGIC = b"\x89XTA\r\n\x1a\n"
VERSION = (1, 0)
# Superblocks lie on device blocks of their own, so that a torn write of one spares the others.
BLOCK = 4096
# Commits alternate between the first two.  The others are not touched by commits, and so survive
# whatever a power cut leaves of those: two for the last flushes, one for the state with which the
# last writer began.
LIVE_SLOTS = (0, 1)
FLUSHED_SLOTS = (2, 3)
BEGUN_SLOT = 4
SPARED_SLOTS = (*FLUSHED_SLOTS, BEGUN_SLOT)
# Blocks behind them, for what several arrays or several writers agree on.
GROUP_BLOCK = 5
WRITERS_BLOCK = 6
EXTENT_HEAD_BYTES = 16
# States that count with the decision of another array: the last two, in turn.
PENDING_SLOTS = (7, 8)
# Where the checksums of the chunks are; and a copy of the header, from which it can be restored.
SUMS_BLOCK = 9
COPY_BLOCK = 10
NO_GROUP = bytes(16)
FIRST_EXTENT_RECORDS = 64
FIRST_EXTENT_SUMS = 1024
# What 2**63 chunks would need.
MOST_SUMS_EXTENTS = 54
LEAST_ATTRS_ROOM = 1024
MOST_ATTRS_ROOM = 2**32 - 1
# The end of the header, which its checksum does not cover: the number of cuts, and a note.
CUTS_BYTES = 8
HOLDER_BYTES = 64
# Entries of the table of writers: a head, and one for each writer.
WRITER_BYTES = 64
WRITER_SLOTS = BLOCK // WRITER_BYTES - 1
# What stands before the uuid at the end of a sealed ``.xta``.
SEAL_MAGIC = b"\x89XTA sealed:\r\n\x1a\n"
SEAL_BYTES = len(SEAL_MAGIC) + 16

_HEADER = struct.Struct("<8sHHI16sBcHIII")
_SUPERBLOCK = struct.Struct("<IIQQQQIIQIIQ16s")
# By the number of axes; behind the checksum.
_SUPERBLOCK_BODIES = [struct.Struct(f"<IQQQQIIQIIQ16s{3 * ndim}q") for ndim in range(33)]
_RECORD_BODIES = [struct.Struct(f"<BBH{ndim}q") for ndim in range(33)]
_CHECKSUM = struct.Struct("<I")
_EXTENT_HEAD = struct.Struct("<QII")
_WRITERS_HEAD = struct.Struct("<QB")
_WRITER = struct.Struct("<IBBBxQQqq")

# A superblock beyond is none; and beyond the other one writers do not begin, who must be able to
# count on.
LAST_SEQUENCE = 2**62
LAST_COMMIT = LAST_SEQUENCE // 2
# A writer's ticket beyond is none: each has a byte to be locked, whose number has 63 bits.
LAST_TICKET = 2**61
# Offsets in ``.xmd`` stay below, so that room for more can be named.
_LAST_END = 2**62

# Records in records; printing NumPy's types, say, is recursive.
_DEEPEST = 32
# What a description of a data type says of a type without parts.
_TYPE_STRING = re.compile(r"[<>|][biufcSUVMm][0-9]+(\[[0-9]*[A-Za-z]+\])?")
_PENDING_TAIL = struct.Struct("<I16s16s")
_SUMS = struct.Struct("<III4x")
_MEMBERS_HEAD = struct.Struct("<II")
_MEMBER = struct.Struct("<16sI")

_SPARSE = 1
_CHECKSUM_FLAG = 2
_IN_DOUBT = 1
_SEALED = 1
_UNCLEAN = 2
_SUPERSEDED = 4
_GROWTH_BIT = 4


@dataclass(frozen=True)
class Header:
    """What never changes in the life of an array."""

    uuid: bytes
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    order: str
    fill: bytes
    sparse: bool
    checksum: bool = False
    version: tuple[int, int] = VERSION
    header_bytes: int = BLOCK

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.chunks)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk."""
        size = self.dtype.itemsize
        for extent in self.chunks:
            size *= extent
        return size

    @property
    def first_extent(self) -> int:
        """Offset of the growth log."""
        return self.copy_offset + self.header_bytes

    @property
    def copy_offset(self) -> int:
        """Offset of the copy of the header."""
        return self.superblock_offset(COPY_BLOCK)

    @property
    def cuts_offset(self) -> int:
        """Offset of the number of cuts."""
        return self.header_bytes - HOLDER_BYTES - CUTS_BYTES

    def superblock_offset(self, slot: int) -> int:
        """Offset of a superblock, or of a block behind them."""
        return self.header_bytes + slot * BLOCK


class Superblock(NamedTuple):
    """One committed state.

    Attributes
    ----------
    sequence : int
        Number of the commit.
    sealed : bool
        The uuid follows the last chunk in ``.xta``.
    unclean : bool
        Elements of the grid outside the bounds may hold anything, and chunks there may be holes.
    superseded : bool
        Another ``.xmd`` is about to take the name of this one, or has: the array gains an axis.
    growth : int
        The growth policy, see `extarray.policy`.
    n_segments : int
        Records of the growth log that count.
    data_bytes : int
        Bytes of the chunks in ``.xta``.
    attrs_offset, attrs_bytes, attrs_capacity, attrs_crc : int
        Where the attributes stand.
    spare_offset, spare_capacity : int
        Room for the next version of the attributes.
    end : int
        Where ``.xmd`` has free space.
    group : bytes
        The last commit of several arrays that this one has decided.
    shape, offset, grid : tuple of int
        Bounds in elements, elements of the grid before the bounds, and the grid in chunks.
    """

    sequence: int
    sealed: bool
    unclean: bool
    n_segments: int
    data_bytes: int
    attrs_offset: int
    attrs_bytes: int
    attrs_capacity: int
    attrs_crc: int
    spare_offset: int
    spare_capacity: int
    end: int
    group: bytes
    shape: tuple[int, ...]
    offset: tuple[int, ...]
    grid: tuple[int, ...]
    superseded: bool = False
    growth: int = 0


class Fresh(NamedTuple):
    """A fresh ``.xmd``: its bytes, and what they say.

    Attributes
    ----------
    image : bytearray
    header : Header
        With its length in the file.
    state : Superblock
        With the places of the attributes and of the free space.
    extents : list of int
        Offsets of the extents of the growth log.
    """

    image: bytearray
    header: Header
    state: Superblock
    extents: list[int]


class Pending(NamedTuple):
    """A state of one array of several that commit together.

    Attributes
    ----------
    state : Superblock
        Counts if the coordinator has decided the group.
    group : bytes
        Uuid of the commit.
    coordinator : bytes
        Uuid of the array that decides.
    path : bytes
        Where it is, without suffix, relative to the folder of this one.
    """

    state: Superblock
    group: bytes
    coordinator: bytes
    path: bytes


# -- data types ----------------------------------------------------------------------------------


def check_dtype(dtype: Any) -> np.dtype[Any]:
    """A data type that can be stored.

    Parameters
    ----------
    dtype : dtype_like

    Returns
    -------
    dtype

    Raises
    ------
    DTypeError
        A TypeError: no fixed size, or itemsize 0.
    ArgumentError
        A ValueError: a sub-array type, whose elements would add axes.
    """
    try:
        result: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise DTypeError(f"{dtype!r} is no data type: {error}") from None
    if result.hasobject or result.char == "T":
        raise DTypeError(
            f"elements of {result} have no fixed size in bytes; use fixed-length bytes or text "
            "('S20', 'U20'), numbers, or records of these"
        )
    if result.subdtype is not None:
        base, inner = result.subdtype
        raise ArgumentError(
            f"{result} is a sub-array type; use dtype {base} and append {inner} to the shape"
        )
    if result.isbuiltin == 2 and not result.isnative:
        raise DTypeError(
            f"{result.newbyteorder('=')} is stored in this machine's byte order only; use "
            "newbyteorder('=')"
        )
    if result.itemsize == 0:
        raise DTypeError(f"elements of {result!r} have 0 bytes; give a length, e.g. 'S20'")
    if _depth(result) > _DEEPEST:
        raise DTypeError(f"a type of records in records, deeper than {_DEEPEST}; make it flatter")
    return result


def _depth(dtype: np.dtype[Any]) -> int:
    """How deep records are nested, not counted far beyond what is allowed."""
    depth, level = 0, [dtype]
    while level and depth <= _DEEPEST:
        below = [part.base.fields for part in level if part.base.fields is not None]
        level = list(
            {id(entry[0]): entry[0] for fields in below for entry in fields.values()}.values()
        )
        depth += 1
    return depth


def encode_dtype(dtype: np.dtype[Any]) -> Any:
    """JSON value that describes a data type.

    Parameters
    ----------
    dtype : dtype

    Returns
    -------
    str, list or dict
        A type string such as ``"<f8"``; ``[type, [extents]]`` for a sub-array; a dict for a
        structured type; ``{"extension": name, "itemsize": n}`` for a type from another package.

    Examples
    --------
    >>> encode_dtype(np.dtype("u2"))
    '<u2'
    """
    if dtype.subdtype is not None:
        base, extents = dtype.subdtype
        return [encode_dtype(base), list(extents)]
    if dtype.fields is not None:
        assert dtype.names is not None
        fields = []
        for name in dtype.names:
            entry = dtype.fields[name]
            field = {"name": name, "type": encode_dtype(entry[0]), "offset": int(entry[1])}
            if len(entry) > 2 and isinstance(entry[2], str):
                field["title"] = entry[2]
            fields.append(field)
        record = {"fields": fields, "itemsize": dtype.itemsize, "aligned": dtype.isalignedstruct}
        if dtype.type is not np.void:
            record["base"] = dtype.str  # a number whose parts have names
        return record
    if dtype.isbuiltin == 2:
        return {"extension": dtype.name, "itemsize": dtype.itemsize}
    return dtype.str


def decode_dtype(value: Any) -> np.dtype[Any]:
    """Data type from its description.

    Parameters
    ----------
    value : str, list or dict
        What `encode_dtype` returned.

    Returns
    -------
    dtype

    Raises
    ------
    FormatError
        A ValueError: not a description, or a type that this machine does not have.

    Examples
    --------
    >>> decode_dtype("<u2")
    dtype('uint16')
    """
    try:
        return check_dtype(_decoded(value, 0))
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        problem = str(error)
    raise FormatError(
        f"the data type {reprlib.repr(value)} is not known on this machine: {problem}"
    )


def _decoded(value: Any, depth: int) -> np.dtype[Any]:
    """Data type of a description, or of a part of one that lies so deep in it."""
    if depth > 2 * _DEEPEST:  # a list for each record, where there are sub-arrays
        raise ValueError("it is nested too deeply")
    if isinstance(value, str):
        if not _TYPE_STRING.fullmatch(value):
            raise ValueError("it is no type string")
        return np.dtype(value)
    if isinstance(value, list):
        base, extents = value
        return np.dtype((_decoded(base, depth + 1), tuple(extents)))
    if "extension" in value:
        return _extension_dtype(value["extension"])
    fields = value["fields"]
    titles = [field.get("title") for field in fields]
    description = {
        "names": [field["name"] for field in fields],
        "formats": [_decoded(field["type"], depth + 1) for field in fields],
        "offsets": [field["offset"] for field in fields],
        "itemsize": value["itemsize"],
    }
    if any(title is not None for title in titles):
        if not all(title is None or isinstance(title, str) for title in titles):
            raise TypeError("a title is a text")
        description["titles"] = titles
    if "base" in value:
        parts = np.dtype(description)  # type: ignore[call-overload]
        return np.dtype((_decoded(value["base"], depth + 1), parts))
    return np.dtype(description, align=bool(value["aligned"]))  # type: ignore[call-overload, no-any-return]


def _extension_dtype(name: Any) -> np.dtype[Any]:
    if not isinstance(name, str):
        raise TypeError("the name of an extension is a text")
    try:
        found: np.dtype[Any] = np.dtype(name)
    except TypeError:
        from extarray.extras import require

        found = np.dtype(getattr(require("ml_dtypes", "dtypes"), name))
    if found.isbuiltin != 2:
        raise ValueError("it is no type of another package")
    return found


# -- header --------------------------------------------------------------------------------------


def encode_header(header: Header) -> bytes:
    """Bytes of a header, `header_bytes` of them.

    Parameters
    ----------
    header : Header

    Returns
    -------
    bytes
    """
    description = json.dumps(encode_dtype(header.dtype), separators=(",", ":")).encode()
    variable = struct.pack(f"<{header.ndim}q", *header.chunks) + description + header.fill
    used = _HEADER.size + len(variable) + 4
    size = -(-(used + CUTS_BYTES + HOLDER_BYTES) // BLOCK) * BLOCK
    fixed = _HEADER.pack(
        MAGIC,
        *header.version,
        size,
        header.uuid,
        header.ndim,
        header.order.encode(),
        (_SPARSE if header.sparse else 0) | (_CHECKSUM_FLAG if header.checksum else 0),
        header.dtype.itemsize,
        len(description),
        0,
    )
    body = fixed + variable
    return (body + struct.pack("<I", crc32c(body))).ljust(size, b"\0")


def header_bytes_of(fd: int) -> int:
    """Bytes of the header of an open ``.xmd``, unchecked.

    Parameters
    ----------
    fd : int

    Returns
    -------
    int
        `BLOCK` where the file is too short.
    """
    data = os.pread(fd, 4, 12)
    return int.from_bytes(data, "little") if len(data) == 4 else BLOCK


def decode_header(data: bytes) -> Header:
    """Header from the first bytes of ``.xmd``.

    Parameters
    ----------
    data : bytes
        All of the header, or all of the file.

    Returns
    -------
    Header

    Raises
    ------
    FormatError, VersionError, CorruptError
    """
    if not data.startswith(MAGIC[: len(data)]):
        raise FormatError("no extarray metadata: the first bytes are not its signature")
    if len(data) < _HEADER.size:
        raise TruncatedError("the header is cut off; restore the file from a copy")
    (_, major, minor, size, uuid, ndim, order, flags, itemsize, description_bytes, _zero) = (
        _HEADER.unpack_from(data)
    )
    if major > VERSION[0]:
        raise VersionError(
            f"written in format {major}.{minor}; this version of extarray reads formats up to "
            f"{VERSION[0]}: install a newer one"
        )
    used = _HEADER.size + 8 * ndim + description_bytes + itemsize
    free = size - CUTS_BYTES - HOLDER_BYTES
    if len(data) < used + 4 or free < used + 4 or size % BLOCK:
        raise CorruptError("the header is damaged: its lengths do not fit")
    (crc,) = struct.unpack_from("<I", data, used)
    if crc32c(data[:used]) != crc:
        raise CorruptError("the header is damaged: its checksum does not fit")
    at = _HEADER.size
    chunks = struct.unpack_from(f"<{ndim}q", data, at)
    at += 8 * ndim
    try:
        description = json.loads(data[at : at + description_bytes].decode())
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"the header is damaged: {error}") from None
    dtype = decode_dtype(description)
    at += description_bytes
    header = Header(
        uuid=uuid,
        dtype=dtype,
        chunks=chunks,
        order=order.decode("latin-1"),
        fill=bytes(data[at : at + itemsize]),
        sparse=bool(flags & _SPARSE),
        checksum=bool(flags & _CHECKSUM_FLAG),
        version=(major, minor),
        header_bytes=size,
    )
    if (
        dtype.itemsize != itemsize
        or ndim > 32
        or any(n < 1 for n in chunks)
        or header.order not in ORDERS
        or header.chunk_bytes >= 2**63
    ):
        raise CorruptError("the header is damaged: its values are not possible")
    return header


def header_content(data: bytes) -> bytes:
    """The part of a header that never changes: what its checksum covers, and the checksum.

    Parameters
    ----------
    data : bytes
        A header that `decode_header` takes.

    Returns
    -------
    bytes
    """
    ndim, itemsize, description_bytes = data[32], *struct.unpack_from("<II", data, 36)
    return data[: _HEADER.size + 8 * ndim + description_bytes + itemsize + 4]


# -- superblocks ---------------------------------------------------------------------------------


def superblock_bytes(ndim: int) -> int:
    """Bytes of a superblock of an array of `ndim` axes.

    Parameters
    ----------
    ndim : int

    Returns
    -------
    int
    """
    return _SUPERBLOCK.size + 24 * ndim


def encode_superblock(block: Superblock) -> bytes:
    """Bytes of a superblock.

    Parameters
    ----------
    block : Superblock

    Returns
    -------
    bytes
    """
    shape = block.shape
    body = _SUPERBLOCK_BODIES[len(shape)].pack(
        (_SEALED if block.sealed else 0)
        | (_UNCLEAN if block.unclean else 0)
        | (_SUPERSEDED if block.superseded else 0)
        | block.growth << _GROWTH_BIT,
        block.sequence,
        block.n_segments,
        block.data_bytes,
        block.attrs_offset,
        block.attrs_bytes,
        block.attrs_capacity,
        block.spare_offset,
        block.spare_capacity,
        block.attrs_crc,
        block.end,
        block.group,
        *shape,
        *block.offset,
        *block.grid,
    )
    return _CHECKSUM.pack(crc32c(body)) + body


def decode_superblock(data: bytes, ndim: int) -> Superblock | None:
    """Superblock from its bytes, or None where they are none (torn, or never written).

    Parameters
    ----------
    data : bytes
    ndim : int

    Returns
    -------
    Superblock or None
    """
    size = superblock_bytes(ndim)
    data = data[:size]
    if len(data) < size:
        return None
    (
        crc, flags, sequence, n_segments, data_bytes, attrs_offset, attrs_bytes, attrs_capacity,
        spare_offset, spare_capacity, attrs_crc, end, group,
    ) = _SUPERBLOCK.unpack_from(data)  # fmt: skip
    if crc32c(data[4:]) != crc or sequence > LAST_SEQUENCE:
        return None
    extents = struct.unpack_from(f"<{3 * ndim}q", data, _SUPERBLOCK.size)
    return Superblock(
        sequence=sequence,
        sealed=bool(flags & _SEALED),
        unclean=bool(flags & _UNCLEAN),
        n_segments=n_segments,
        data_bytes=data_bytes,
        attrs_offset=attrs_offset,
        attrs_bytes=attrs_bytes,
        attrs_capacity=attrs_capacity,
        attrs_crc=attrs_crc,
        spare_offset=spare_offset,
        spare_capacity=spare_capacity,
        end=end,
        group=group,
        shape=extents[:ndim],
        offset=extents[ndim : 2 * ndim],
        grid=extents[2 * ndim :],
        superseded=bool(flags & _SUPERSEDED),
        growth=flags >> _GROWTH_BIT,
    )


def latest_sequence(data: bytes, slots: Sequence[int]) -> int:
    """The greatest number that superblocks or pending states say they have, unchecked.

    Parameters
    ----------
    data : bytes
        From the block of the first of the slots on.
    slots : sequence of int
        In increasing order.

    Returns
    -------
    int
        0 where nothing was written; past the end of the data there is nothing.
    """
    places = (8 + (slot - slots[0]) * BLOCK for slot in slots)
    return max(int.from_bytes(data[at : at + 8], "little") for at in places)


def values_fit(block: Superblock, header: Header) -> bool:
    """Whether the numbers of a superblock agree: bounds, grid, and bytes of the chunks.

    Parameters
    ----------
    block : Superblock
    header : Header

    Returns
    -------
    bool
    """
    n_chunks = math.prod(block.grid)
    return (
        n_chunks * header.chunk_bytes == block.data_bytes < LIMIT
        and block.n_segments >= 1
        and all(n >= 0 for n in (*block.shape, *block.offset))
        and all(
            b + n <= g * c < LIMIT
            for b, n, g, c in zip(block.offset, block.shape, block.grid, header.chunks, strict=True)
        )
    )


def places_fit(
    block: Superblock, header: Header, extents: Sequence[int], sums: Sequence[int] = ()
) -> bool:
    """Whether all that a superblock points to has its place in ``.xmd``, and nothing two.

    Parameters
    ----------
    block : Superblock
    header : Header
    extents : sequence of int
        Offsets of the extents that its records lie in.
    sums : sequence of int
        Offsets of the extents of the table of checksums.

    Returns
    -------
    bool
    """
    size = record_bytes(header.ndim)
    places = [
        (offset, EXTENT_HEAD_BYTES + extent_capacity(number) * size)
        for number, offset in enumerate(extents)
    ]
    places += [(offset, 4 * sums_capacity(number)) for number, offset in enumerate(sums)]
    places.append((block.attrs_offset, block.attrs_capacity))
    if block.spare_offset or block.spare_capacity:
        places.append((block.spare_offset, block.spare_capacity))
    free = header.first_extent
    for offset, length in sorted(places):
        if offset < free:
            return False
        free = offset + length
    return free <= block.end <= _LAST_END and block.attrs_bytes <= block.attrs_capacity


# -- commits of several arrays -------------------------------------------------------------------


def encode_pending(pending: Pending) -> bytes:
    """Bytes of a pending state: its superblock, and where its decision is.

    Parameters
    ----------
    pending : Pending

    Returns
    -------
    bytes

    Raises
    ------
    ArgumentError
        A ValueError: the path is too long for a block.
    """
    block = encode_superblock(pending.state)
    tail = _PENDING_TAIL.pack(len(pending.path), pending.group, pending.coordinator) + pending.path
    data = block + _CHECKSUM.pack(crc32c(block + tail)) + tail
    if len(data) > BLOCK:
        raise ArgumentError(
            f"cannot commit arrays together whose paths differ by {len(pending.path)} bytes; keep "
            "them nearer to one another"
        )
    return data


def decode_pending(data: bytes, ndim: int) -> Pending | None:
    """Pending state from its bytes, or None where they are none (torn, or never written).

    Parameters
    ----------
    data : bytes
        A block.
    ndim : int

    Returns
    -------
    Pending or None
    """
    state = decode_superblock(data, ndim)
    at = superblock_bytes(ndim)
    if state is None or len(data) < at + _CHECKSUM.size + _PENDING_TAIL.size:
        return None
    (crc,) = _CHECKSUM.unpack_from(data, at)
    size, group, coordinator = _PENDING_TAIL.unpack_from(data, at + _CHECKSUM.size)
    first = at + _CHECKSUM.size + _PENDING_TAIL.size
    path = data[first : first + size]
    if crc32c(data[:at] + data[at + _CHECKSUM.size : first] + path) != crc:
        return None
    if len(path) < size or b"\0" in path:  # no writer of ours did that
        return None
    return Pending(state, group, coordinator, path)


def encode_members(members: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Bytes of the list of those who took part in a commit of several arrays.

    Parameters
    ----------
    members : sequence of (bytes, bytes)
        Uuid and path, without suffix, relative to the folder of the coordinator.

    Returns
    -------
    bytes

    Raises
    ------
    ArgumentError
        A ValueError: too many for a block.
    """
    body = b"".join(_MEMBER.pack(uuid, len(path)) + path for uuid, path in members)
    if len(body) > BLOCK - _MEMBERS_HEAD.size:
        raise ArgumentError(
            f"cannot commit {len(members) + 1} arrays together: with their paths they need "
            f"{len(body)} bytes of {BLOCK - _MEMBERS_HEAD.size}; commit fewer, or keep them nearer "
            "to one another"
        )
    size = struct.pack("<I", len(body))
    return _CHECKSUM.pack(crc32c(size + body)) + size + body


def decode_members(data: bytes) -> list[tuple[bytes, bytes]]:
    """Uuids and paths of those who took part in a commit of several arrays.

    Parameters
    ----------
    data : bytes
        A block.

    Returns
    -------
    list of (bytes, bytes)
        Empty where the bytes are no list.
    """
    if len(data) < _MEMBERS_HEAD.size:
        return []
    crc, size = _MEMBERS_HEAD.unpack_from(data)
    stop = _MEMBERS_HEAD.size + size
    if stop > len(data) or crc32c(data[_CHECKSUM.size : stop]) != crc:
        return []
    members, at = [], _MEMBERS_HEAD.size
    while at + _MEMBER.size <= stop:
        uuid, length = _MEMBER.unpack_from(data, at)
        at += _MEMBER.size
        path = data[at : min(at + length, stop)]
        if len(path) < length or b"\0" in path:
            return []
        members.append((uuid, path))
        at += length
    return members if at == stop else []


# -- growth log ----------------------------------------------------------------------------------


@functools.cache
def _record_type(ndim: int) -> np.dtype[Any]:
    return np.dtype(
        [("crc", "<u4"), ("side", "u1"), ("axis", "u1"), ("zero", "<u2"), ("grid", "<i8", (ndim,))]
    )


def record_bytes(ndim: int) -> int:
    """Bytes of a record of the growth log.

    Parameters
    ----------
    ndim : int

    Returns
    -------
    int
    """
    return 8 + 8 * ndim


def encode_record(axis: int, side: int, grid: tuple[int, ...], uuid: bytes) -> bytes:
    """Bytes of the record of a segment.

    Parameters
    ----------
    axis, side : int
        Axis that the segment grew; 0 at its end, 1 at its start.
    grid : tuple of int
        Grid before the segment.
    uuid : bytes
        The array's: checksums cover it, so that no record of another array is taken.

    Returns
    -------
    bytes
    """
    body = _RECORD_BODIES[len(grid)].pack(side, axis, 0, *grid)
    return _CHECKSUM.pack(crc32c(uuid + body)) + body


def check_records(rows: np.ndarray[Any, Any], uuid: bytes, first: int) -> None:
    """Raise where records are damaged.

    Parameters
    ----------
    rows : (n, m) array of uint8
        The bytes of each record, contiguous.
    uuid : bytes
    first : int
        Number of the first of them, for messages.

    Raises
    ------
    CorruptError
        A checksum does not fit, or a record is of an unknown kind.
    """
    records = _as_records(rows)
    wrong = np.flatnonzero(crc32c_rows(rows[:, 4:], crc32c(uuid)) != records["crc"])
    if wrong.size:
        raise CorruptError(f"record {first + wrong[0]} of the growth log is damaged")
    if (records["side"] > 1).any():
        raise CorruptError("the growth log has a record of an unknown kind")


def decode_records(
    rows: np.ndarray[Any, Any],
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Axes, sides and grids from the bytes of records, which `check_records` has seen.

    Parameters
    ----------
    rows : (n, m) array of uint8

    Returns
    -------
    axes, sides : (n,) array of uint8
    grids : (n, k) array of int64
        Views of `rows`.
    """
    records = _as_records(rows)
    return records["axis"], records["side"], records["grid"]


def _as_records(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return rows.view(_record_type(rows.shape[1] // 8 - 1))[:, 0]


def extent_capacity(number: int) -> int:
    """Records that an extent of the growth log holds: each twice as many as the one before.

    Parameters
    ----------
    number : int
        0 for the first extent.

    Returns
    -------
    int
    """
    return FIRST_EXTENT_RECORDS << number


def extent_of_record(number: int) -> int:
    """Number of the extent that holds a record of the growth log.

    Parameters
    ----------
    number : int

    Returns
    -------
    int

    Examples
    --------
    >>> extent_of_record(63), extent_of_record(64), extent_of_record(191), extent_of_record(192)
    (0, 1, 1, 2)
    """
    # Extent e has the records from (2**e - 1) times those of the first extent on.
    return (number // extent_capacity(0) + 1).bit_length() - 1


def encode_extent_head(next_offset: int, uuid: bytes) -> bytes:
    """The 16 bytes before the records of an extent: where the next extent is.

    Parameters
    ----------
    next_offset : int
        0: there is none.
    uuid : bytes

    Returns
    -------
    bytes
    """
    return _EXTENT_HEAD.pack(next_offset, crc32c(uuid + struct.pack("<Q", next_offset)), 0)


def decode_extent_head(data: bytes, uuid: bytes) -> int:
    """Offset of the next extent, 0 where there is none.

    Parameters
    ----------
    data : bytes
    uuid : bytes

    Returns
    -------
    int

    Raises
    ------
    CorruptError
    """
    if len(data) < _EXTENT_HEAD.size:
        raise CorruptError("the growth log is cut off")
    next_offset, crc, _ = _EXTENT_HEAD.unpack_from(data)
    if crc32c(uuid + struct.pack("<Q", next_offset)) != crc:
        raise CorruptError("the growth log is damaged: the head of an extent")
    return int(next_offset)


# -- table of writers ----------------------------------------------------------------------------


class WritersHead(NamedTuple):
    """What the writers that share an array tell each other, once for all.

    Attributes
    ----------
    cut : int
        Sequence number of the last commit that cut elements off whose chunks may still have their
        disk space; 0: none.
    unsettled : bool
        New bounds that cut elements off may not be on the disk yet.
    """

    cut: int = 0
    unsettled: bool = False


class WriterKind(enum.IntEnum):
    """What a writer is about.

    Attributes
    ----------
    IDLE
        Nothing that others must know.
    APPENDS
        Writing the elements of an append.
    WAITS
        Waiting to change the bounds: who comes later waits, too.
    """

    IDLE = 0
    APPENDS = 1
    WAITS = 2


class Writer(NamedTuple):
    """Entry of the table of writers.

    Attributes
    ----------
    pid : int
        Process, also of a writer that is no more; 0: the slot was never taken.
    kind : WriterKind
    axis : int
    at_start : bool
        Of the append: its axis, and whether it is at the start.
    seen : int
        Sequence number of the commit up to which the writer knows the array.
    ticket : int
        Number of its last append or wait, in the order of their coming.
    start, stop : int
        Of the append: its place along the axis, in elements from the start of the initial grid.
    """

    pid: int
    kind: WriterKind = WriterKind.IDLE
    axis: int = 0
    at_start: bool = False
    seen: int = 0
    ticket: int = 0
    start: int = 0
    stop: int = 0


def encode_writers_head(head: WritersHead) -> bytes:
    """Bytes of the head of the table of writers.

    Parameters
    ----------
    head : WritersHead

    Returns
    -------
    bytes
    """
    return _WRITERS_HEAD.pack(*head).ljust(WRITER_BYTES, b"\0")


def encode_writer(writer: Writer) -> bytes:
    """Bytes of an entry of the table of writers.

    Parameters
    ----------
    writer : Writer

    Returns
    -------
    bytes
    """
    return _WRITER.pack(*writer).ljust(WRITER_BYTES, b"\0")


def decode_writers(data: bytes, ndim: int = 32) -> tuple[WritersHead, list[Writer]]:
    """Head and entries of the table of writers.

    Parameters
    ----------
    data : bytes
        A block.
    ndim : int
        Of the array, where that is known.

    Returns
    -------
    head : WritersHead
    writers : list of Writer
        By slot, up to the last one that was ever taken; also of writers that are no more.

    Raises
    ------
    CorruptError
        A value is not possible.
    """
    if len(data) < BLOCK:
        raise CorruptError("the table of writers is cut off")
    cut, unsettled = _WRITERS_HEAD.unpack_from(data)
    writers = []
    for offset in range(WRITER_BYTES, BLOCK, WRITER_BYTES):
        pid, kind, axis, at_start, seen, ticket, *place = _WRITER.unpack_from(data, offset)
        if pid == 0:
            break  # slots are taken from the first one on
        appends = kind == WriterKind.APPENDS
        if (
            kind > WriterKind.WAITS
            or ticket > LAST_TICKET
            or (appends and (axis >= ndim or not -LIMIT < place[0] <= place[1] < LIMIT))
        ):
            raise CorruptError("the table of writers is damaged")
        writers.append(Writer(pid, WriterKind(kind), axis, bool(at_start), seen, ticket, *place))
    return WritersHead(cut, bool(unsettled)), writers


# -- the whole file ------------------------------------------------------------------------------


def encode_fresh(
    header: Header,
    state: Superblock,
    records: Sequence[tuple[int, int, tuple[int, ...]]],
    attrs: str,
    slots: Sequence[int],
) -> Fresh:
    """A fresh ``.xmd`` that tells of one state.

    Parameters
    ----------
    header : Header
    state : Superblock
        What it says of places in the file has no effect.
    records : sequence of (axis, side, grid)
        Of the growth log, all that count.
    attrs : str
        Attributes, a JSON text.
    slots : sequence of int
        Superblocks that hold the state.

    Returns
    -------
    Fresh
    """
    first_bytes = encode_header(header)
    header = replace(header, header_bytes=len(first_bytes))
    size, uuid = record_bytes(header.ndim), header.uuid
    pieces = [(0, first_bytes), (header.copy_offset, first_bytes)]
    if header.checksum:
        pieces.append((header.superblock_offset(SUMS_BLOCK), encode_sums(True, [], header.uuid)))
    extents: list[int] = []
    end, done = header.first_extent, 0
    while done < len(records) or not extents:
        capacity = extent_capacity(len(extents))
        some = records[done : done + capacity]
        done += len(some)
        extents.append(end)
        end += EXTENT_HEAD_BYTES + capacity * size
        head = encode_extent_head(end if done < len(records) else 0, uuid)
        pieces.append((extents[-1], head + b"".join(encode_record(*r, uuid) for r in some)))
    blob = attrs.encode()
    room = max(LEAST_ATTRS_ROOM, len(blob))
    pieces.append((end, blob))
    state = state._replace(
        n_segments=len(records),
        attrs_offset=end,
        attrs_bytes=len(blob),
        attrs_capacity=room,
        attrs_crc=crc32c(blob),
        spare_offset=0,
        spare_capacity=0,
        end=end + room,
    )
    for slot in slots:
        block = state if slot in LIVE_SLOTS else state._replace(sealed=False)
        pieces.append((header.superblock_offset(slot), encode_superblock(block)))
    image = bytearray(end + room)
    for offset, piece in pieces:
        image[offset : offset + len(piece)] = piece
    return Fresh(image, header, state, extents)


def attrs_room(length: int) -> int:
    """Bytes of a room for attributes, and for longer ones to come.

    Parameters
    ----------
    length : int
        Bytes of the attributes.

    Returns
    -------
    int

    Examples
    --------
    >>> attrs_room(10), attrs_room(1000), attrs_room(2**31) == 2**32 - 1
    (1024, 2000, True)
    """
    return max(LEAST_ATTRS_ROOM, min(2 * length, MOST_ATTRS_ROOM))


# -- checksums of chunks -------------------------------------------------------------------------


def sums_capacity(number: int) -> int:
    """Sums that an extent of the table of checksums holds: each twice as many as the one before.

    Parameters
    ----------
    number : int
        0 for the first extent.

    Returns
    -------
    int
    """
    return FIRST_EXTENT_SUMS << number


def sums_bytes(n_extents: int) -> int:
    """Bytes that tell where the table of checksums is.

    Parameters
    ----------
    n_extents : int

    Returns
    -------
    int
    """
    return _SUMS.size + 8 * n_extents


def encode_sums(in_doubt: bool, extents: Sequence[int], uuid: bytes) -> bytes:
    """Bytes that tell where the table of checksums is, and whether they are up to date.

    Parameters
    ----------
    in_doubt : bool
        Chunks may have been written since their sums were.
    extents : sequence of int
        Offsets of the extents of the table.
    uuid : bytes
        The array's: the checksum covers it.

    Returns
    -------
    bytes
    """
    body = _SUMS.pack(0, _IN_DOUBT if in_doubt else 0, len(extents))[4:]
    body += struct.pack(f"<{len(extents)}Q", *extents)
    return _CHECKSUM.pack(crc32c(uuid + body)) + body


def decode_sums(data: bytes, uuid: bytes) -> tuple[bool, list[int]] | None:
    """What `encode_sums` encoded, or None where the bytes are none of that.

    Parameters
    ----------
    data : bytes
    uuid : bytes

    Returns
    -------
    in_doubt : bool
    extents : list of int
    """
    if len(data) < _SUMS.size:
        return None
    crc, flags, n_extents = _SUMS.unpack_from(data)
    end = sums_bytes(n_extents)
    if n_extents > MOST_SUMS_EXTENTS or len(data) < end or crc32c(uuid + data[4:end]) != crc:
        return None
    extents = struct.unpack_from(f"<{n_extents}Q", data, _SUMS.size)
    return bool(flags & _IN_DOUBT), list(extents)
