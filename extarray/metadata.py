"""The bytes of ``.xmd``: header, superblocks, growth log.

The page ``docs/format.md`` specifies them; this module is that page in Python.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
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
    "EXTENT_HEAD_BYTES",
    "FLUSHED_SLOTS",
    "GROUP_BLOCK",
    "HOLDER_BYTES",
    "LIVE_SLOTS",
    "MAGIC",
    "MOST_SUMS_EXTENTS",
    "SEAL_BYTES",
    "SEAL_MAGIC",
    "SUMS_BLOCK",
    "VERSION",
    "WRITERS_BLOCK",
    "Header",
    "Superblock",
    "check_dtype",
    "decode_dtype",
    "decode_extent_head",
    "decode_header",
    "decode_records",
    "decode_sums",
    "decode_superblock",
    "encode_dtype",
    "encode_extent_head",
    "encode_header",
    "encode_record",
    "encode_sums",
    "encode_superblock",
    "extent_capacity",
    "header_bytes_of",
    "header_content",
    "record_bytes",
    "sums_bytes",
    "sums_capacity",
    "superblock_bytes",
]

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
# Blocks behind them, for what several arrays or several writers agree on.
GROUP_BLOCK = 5
WRITERS_BLOCK = 6
# Where the checksums of the chunks are; and a copy of the header, from which it can be restored.
SUMS_BLOCK = 7
COPY_BLOCK = 8
EXTENT_HEAD_BYTES = 16
FIRST_EXTENT_RECORDS = 64
FIRST_EXTENT_SUMS = 1024
# What 2**63 chunks would need.
MOST_SUMS_EXTENTS = 54
HOLDER_BYTES = 64
# What stands before the uuid at the end of a sealed ``.xta``.
SEAL_MAGIC = b"\x89XTA sealed:\r\n\x1a\n"
SEAL_BYTES = len(SEAL_MAGIC) + 16

_HEADER = struct.Struct("<8sHHI16sBcHIII")
_SUPERBLOCK = struct.Struct("<IIQQQQIIQIIQ")
# By the number of axes; behind the checksum.
_SUPERBLOCK_BODIES = [struct.Struct(f"<IQQQQIIQIIQ{3 * ndim}q") for ndim in range(33)]
_RECORD_BODIES = [struct.Struct(f"<BBH{ndim}q") for ndim in range(33)]
_CHECKSUM = struct.Struct("<I")
_EXTENT_HEAD = struct.Struct("<QII")
_SUMS = struct.Struct("<III4x")

_SPARSE = 1
_CHECKSUM_FLAG = 2
_SEALED = 1
_UNCLEAN = 2
_IN_DOUBT = 1


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
    shape: tuple[int, ...]
    offset: tuple[int, ...]
    grid: tuple[int, ...]


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
    return result


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
            if len(entry) > 2 and entry[2] is not None:
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
        if isinstance(value, str):
            return np.dtype(value)
        if isinstance(value, list):
            base, extents = value
            return np.dtype((decode_dtype(base), tuple(extents)))
        if "extension" in value:
            return _extension_dtype(value["extension"])
        fields = value["fields"]
        titles = [field.get("title") for field in fields]
        description = {
            "names": [field["name"] for field in fields],
            "formats": [decode_dtype(field["type"]) for field in fields],
            "offsets": [field["offset"] for field in fields],
            "itemsize": value["itemsize"],
        }
        if any(title is not None for title in titles):
            description["titles"] = titles
        if "base" in value:
            parts = np.dtype(description)  # type: ignore[call-overload]
            return np.dtype((np.dtype(value["base"]), parts))
        return np.dtype(description, align=bool(value["aligned"]))  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError(
            f"the data type {value!r} is not known on this machine: {error}"
        ) from None


def _extension_dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        pass
    from extarray.extras import require

    ml_dtypes = require("ml_dtypes", "dtypes")
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
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
    size = -(-(used + HOLDER_BYTES) // BLOCK) * BLOCK
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
    if len(data) < used + 4 or size < used + 4 or size % BLOCK:
        raise CorruptError("the header is damaged: its lengths do not fit")
    (crc,) = struct.unpack_from("<I", data, used)
    if crc32c(data[:used]) != crc:
        raise CorruptError("the header is damaged: its checksum does not fit")
    at = _HEADER.size
    chunks = struct.unpack_from(f"<{ndim}q", data, at)
    at += 8 * ndim
    try:
        description = json.loads(data[at : at + description_bytes])
    except ValueError as error:
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
        (_SEALED if block.sealed else 0) | (_UNCLEAN if block.unclean else 0),
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
        spare_offset, spare_capacity, attrs_crc, end,
    ) = _SUPERBLOCK.unpack_from(data)  # fmt: skip
    if crc32c(data[4:]) != crc:
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
        shape=extents[:ndim],
        offset=extents[ndim : 2 * ndim],
        grid=extents[2 * ndim :],
    )


# -- growth log ----------------------------------------------------------------------------------


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


def decode_records(
    rows: np.ndarray[Any, Any], uuid: bytes
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Axes, sides and grids from the bytes of records.

    Parameters
    ----------
    rows : (n, m) array of uint8
        The bytes of each record, contiguous.
    uuid : bytes

    Returns
    -------
    axes, sides : (n,) array of uint8
    grids : (n, k) array of int64
        Views of `rows`.

    Raises
    ------
    CorruptError
        A checksum does not fit, or a record is of an unknown kind.
    """
    records = rows.view(_record_type(rows.shape[1] // 8 - 1))[:, 0]
    wrong = np.flatnonzero(crc32c_rows(rows[:, 4:], crc32c(uuid)) != records["crc"])
    if wrong.size:
        raise CorruptError(f"record {wrong[0]} of the growth log is damaged")
    if (records["side"] > 1).any():
        raise CorruptError("the growth log has a record of an unknown kind")
    return records["axis"], records["side"], records["grid"]


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
