"""Packed files: ZIP files that store the files of arrays uncompressed.

A member is a file of a pair, the blobs of its chunks (``.xtz``), or the attributes of a group
(``dataset.json``); an empty group has an entry for its folder.  Files that other programs add are
ignored.  A single array without a folder and without ``dataset.json`` was packed as an array;
anything else is a group.  The bytes of each ``.xta`` and ``.xtz`` begin at a multiple of
`ALIGNMENT`, so that they can be mapped.

Reading checks every claim: names must stay inside the group, members must be uncompressed and
disjoint, and the two descriptions of each member must agree.
"""

from __future__ import annotations

import stat
import struct
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from extarray.common.errors import ArgumentError, CorruptError, FormatError
from extarray.format.suffixes import BLOBS, DATA, PAIR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = [
    "ALIGNMENT",
    "ATTRS_NAME",
    "MAGIC",
    "Member",
    "check_member_name",
    "checked_member",
    "crc_of_zeros",
    "decode_archive",
    "decode_directory",
    "encode_directory",
    "encode_member",
]

#: The bytes of chunks begin at a multiple of this, which is at least a page on most systems.
ALIGNMENT = 1 << 14
#: The file of a folder that holds the attributes of the group.
ATTRS_NAME = "dataset.json"

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_ENTRY = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_LARGE_END = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR = struct.Struct("<4sIQI")
_FIELD = struct.Struct("<HH")

#: First bytes of a packed file.
MAGIC = b"PK\3\4"
_ENTRY_MAGIC, _END_MAGIC = b"PK\1\2", b"PK\5\6"
_LARGE_END_MAGIC, _LOCATOR_MAGIC = b"PK\6\6", b"PK\6\7"
# Suffixes of the files of arrays.
_FILES = (*PAIR, BLOBS)
_SUFFIXES = tuple(suffix.encode() for suffix in _FILES)
_LARGE, _PADDING = 0x0001, 0xD935  # kinds of extra fields
_IS_UTF8 = 0x800
_UNIX = 3
_VERSION, _LARGE_VERSION = 20, 45
_MOST, _MOST_ENTRIES = 0xFFFFFFFF, 0xFFFF  # these values refer to a larger field
_DATE = 0x21  # 1 January 1980: members carry no times of their own
# The directory is read whole, up to this size.
_MOST_DIRECTORY = 1 << 28
_POLYNOMIAL = 0xEDB88320


class Member(NamedTuple):
    """A member of a packed file; a name that ends with "/" is that of an empty group."""

    name: str
    offset: int  # of its local header
    start: int  # of its bytes
    size: int
    crc: int  # CRC-32


# -- names ---------------------------------------------------------------------------------------


def _counts(raw: bytes) -> bool:
    """Tell by its name whether a member belongs to an array or a group; others are ignored."""
    last = raw.rpartition(b"/")[2]
    if last.endswith(_SUFFIXES):
        return last not in _SUFFIXES
    return last == ATTRS_NAME.encode() or raw.endswith(b"/")


def check_member_name(name: str) -> str | None:
    """Return why a member cannot have this name; None if it can."""
    parts = name.removesuffix("/").split("/")
    if "\0" in name or "\\" in name:
        return "it has a character that not all file systems allow"
    if any(part in ("", ".", "..") for part in parts):
        return "it leads out of the group"
    if any(part.endswith(PAIR) or part == ATTRS_NAME for part in parts[:-1]):
        return "it passes through a file"
    last = parts[-1]
    if name.endswith("/"):
        return None if not last.endswith(PAIR) and last != ATTRS_NAME else "it is a file"
    if last == ATTRS_NAME or (last.endswith(_FILES) and last not in _FILES):
        return None
    return "it belongs neither to an array nor to a group"


# -- writing -------------------------------------------------------------------------------------


def _encoded(name: str) -> tuple[bytes, int]:
    try:
        data = name.encode()
    except UnicodeEncodeError:
        raise ArgumentError(
            f"cannot pack {name!r}: its name is not valid Unicode; rename it"
        ) from None
    if len(data) > 4096:
        raise ArgumentError(f"cannot pack {name[:40]!r}...: its name has {len(data)} bytes")
    return data, 0 if name.isascii() else _IS_UTF8


def encode_member(name: str, size: int, crc: int, at: int, start: int | None = None) -> bytes:
    """Return the local header of a member at offset `at`; bytes of chunks follow it, aligned.

    They begin at `start` if that is given: where a header for at least this size ended.
    """
    data, flags = _encoded(name)
    is_large = size >= _MOST
    extra = _FIELD.pack(_LARGE, 16) + struct.pack("<QQ", size, size) if is_large else b""
    if name.endswith((DATA, BLOBS)):
        end = at + _LOCAL.size + len(data) + len(extra)
        room = -end % ALIGNMENT if start is None else start - end
        if room < _FIELD.size + 2:
            room += ALIGNMENT
        extra += _FIELD.pack(_PADDING, room - _FIELD.size) + struct.pack("<H", ALIGNMENT)
        extra += bytes(room - _FIELD.size - 2)
    short = _MOST if is_large else size
    version = _LARGE_VERSION if is_large else _VERSION
    fixed = version, flags, 0, 0, _DATE, crc, short, short, len(data), len(extra)
    return _LOCAL.pack(MAGIC, *fixed) + data + extra


def encode_directory(members: Sequence[Member], at: int) -> bytes:
    """Return the end of a packed file: its directory, which begins at offset `at`."""
    pieces = []
    for name, offset, _, size, crc in members:
        data, flags = _encoded(name)
        large = [n for n in (size, size, offset) if n >= _MOST]
        extra = _FIELD.pack(_LARGE, 8 * len(large)) if large else b""
        extra += struct.pack(f"<{len(large)}Q", *large)
        version = _LARGE_VERSION if large else _VERSION
        is_folder = name.endswith("/")
        mode = (stat.S_IFDIR | 0o755) << 16 | 0x10 if is_folder else (stat.S_IFREG | 0o644) << 16
        sizes = min(size, _MOST), min(size, _MOST), len(data), len(extra)
        fixed = _UNIX << 8 | version, version, flags, 0, 0, _DATE, crc, *sizes
        pieces.append(_ENTRY.pack(_ENTRY_MAGIC, *fixed, 0, 0, 0, mode, min(offset, _MOST)))
        pieces += data, extra
    directory = b"".join(pieces)
    n, size = len(members), len(directory)
    if n >= _MOST_ENTRIES or size >= _MOST or at >= _MOST:
        numbers = 44, _UNIX << 8 | _LARGE_VERSION, _LARGE_VERSION, 0, 0, n, n, size, at
        directory += _LARGE_END.pack(_LARGE_END_MAGIC, *numbers)
        directory += _LOCATOR.pack(_LOCATOR_MAGIC, 0, at + size, 1)
    short = min(n, _MOST_ENTRIES)
    return directory + _END.pack(
        _END_MAGIC, 0, 0, short, short, min(size, _MOST), min(at, _MOST), 0
    )


def crc_of_zeros(length: int, crc: int = 0) -> int:
    """Return the CRC-32 of bytes whose CRC-32 is `crc`, followed by zeros, in O(log length).

    Examples
    --------
    >>> import zlib
    >>> crc_of_zeros(1000, zlib.crc32(b"abc")) == zlib.crc32(b"abc" + bytes(1000))
    True
    """
    power, factor = 1 << 31, 1 << 23  # x**0 and x**8; the highest bit is the lowest power
    while length:
        if length & 1:
            power = _product(factor, power)
        factor = _product(factor, factor)
        length >>= 1
    return _product(power, crc ^ _MOST) ^ _MOST


def _product(a: int, b: int) -> int:
    """Multiply two polynomials modulo that of the CRC-32."""
    product, bit = 0, 1 << 31
    while bit:
        if a & bit:
            product ^= b
        b = b >> 1 ^ _POLYNOMIAL if b & 1 else b >> 1
        bit >>= 1
    return product


# -- reading -------------------------------------------------------------------------------------


def decode_archive(read: Callable[[int, int], bytes], length: int) -> list[Member]:
    """Return the members of arrays and groups in a packed file, in the order of the file.

    ``read(n, at)`` returns `n` bytes from an offset on, or fewer at the end of the file.  Raise
    FormatError for a file that is not packed, CorruptError for one that is damaged or malicious.
    """
    entries, _, end = _entries(read, length)
    members = [_checked(read, *entry) for entry in entries]
    members.sort(key=lambda member: member.offset)
    _check_places(members, end)
    return members


def decode_directory(read: Callable[[int, int], bytes], length: int) -> list[Member]:
    """Return the members that a packed file has by its directory alone, as `decode_archive` does.

    The own headers of the members are not read: each is taken to end where the next one begins,
    as `encode_member` puts them.  Whoever reads a member has to compare its header
    (`checked_member`), or its content, with what is told here.
    """
    entries, offsets, end = _entries(read, length, only_directory=True)
    next_ones = dict(zip(offsets, [*offsets[1:], end], strict=True))
    members = []
    for name, raw, size, crc, offset in entries:
        start = next_ones[offset] - size
        if start < offset + _LOCAL.size + len(raw):
            _refuse(f"member {name!r} begins inside another one, or reaches into one")
        members.append(Member(name, offset, start, size, crc))
    members.sort(key=lambda member: member.offset)
    _check_places(members, end)
    return members


def checked_member(read: Callable[[int, int], bytes], member: Member) -> Member:
    """Return a member of `decode_directory` at the place that its own header tells."""
    return _checked(read, member.name, member.name.encode(), member.size, member.crc, member.offset)


def _check_places(members: Sequence[Member], end: int) -> None:
    """Refuse members, sorted by offset, that overlap or reach beyond the end of all."""
    free = 0
    for member in members:
        if member.offset < free:
            _refuse(f"member {member.name!r} begins inside another one")
        free = member.start + member.size
    if free > end:
        _refuse(f"member {members[-1].name!r} reaches into the directory")


def _refuse(what: str) -> NoReturn:
    raise CorruptError(f"the packed file is damaged: {what}")


def _end(read: Callable[[int, int], bytes], length: int) -> tuple[int, int, int]:
    """Return the number of entries of the directory, and its start and end."""
    at = length - _END.size
    last = read(_END.size, at) if at >= 0 else b""
    if len(last) < _END.size or not last.startswith(_END_MAGIC):
        raise FormatError("not a packed file: it does not end as a ZIP file, or has a comment")
    _, disk, first_disk, n_here, n, size, start, comment = _END.unpack(last)
    end = at
    before = read(_LOCATOR.size, at - _LOCATOR.size) if at >= _LOCATOR.size else b""
    if before.startswith(_LOCATOR_MAGIC):
        _, other, place, n_disks = _LOCATOR.unpack(before)
        end = at - _LOCATOR.size - _LARGE_END.size
        large = read(_LARGE_END.size, end) if end >= 0 else b""
        if other or n_disks != 1 or place != end or not large.startswith(_LARGE_END_MAGIC):
            _refuse("its two end records do not agree")
        _, room, _, _, other, first, *numbers = _LARGE_END.unpack(large)
        short = (n_here, _MOST_ENTRIES), (n, _MOST_ENTRIES), (size, _MOST), (start, _MOST)
        pairs = zip(short, numbers, strict=True)
        if room != _LARGE_END.size - 12 or other or first:
            _refuse("its two end records do not agree")
        if any(few not in (number, most) for (few, most), number in pairs):
            _refuse("its two end records do not agree")
        n_here, n, size, start = numbers
    if disk or first_disk or comment or n_here != n:
        _refuse("its end record refers to other parts")
    if start + size != end or size < n * _ENTRY.size or size > _MOST_DIRECTORY:
        _refuse("its directory is not where the end record says")
    return n, start, end


def _entries(
    read: Callable[[int, int], bytes], length: int, only_directory: bool = False
) -> tuple[list[tuple[str, bytes, int, int, int]], list[int], int]:
    """Return (name, raw name, size, CRC, offset) of each member, and the end of the members.

    In between come the offsets of all entries, in rising order, those of other files included.
    With `only_directory`, nothing else is read.
    """
    n, start, end = _end(read, length)
    directory = read(end - start, start)
    if len(directory) != end - start:
        _refuse("its directory is truncated")
    found, names, at = [], set(), 0
    offsets = set()
    for _ in range(n):
        if at + _ENTRY.size > len(directory) or directory[at : at + 4] != _ENTRY_MAGIC:
            _refuse("its directory has fewer entries than the end record says")
        (_, made, _, flags, method, _, _, crc, packed, size, n_name, n_extra, n_comment, disk) = (
            numbers := _ENTRY.unpack_from(directory, at)
        )[:14]
        mode, offset = numbers[15], numbers[16]
        at += _ENTRY.size
        raw, extra = directory[at : at + n_name], directory[at + n_name : at + n_name + n_extra]
        at += n_name + n_extra + n_comment
        if at > len(directory):
            _refuse("its directory is truncated")
        if not _counts(raw):
            # Damage could hide a member.
            if not only_directory and _counts(_own_name(read, offset, start)):
                _refuse(f"member {raw!r} has another name in its own header")
            if only_directory and _MOST in (packed, size, offset):
                *_, offset = _large(extra, repr(raw), packed, size, offset)
            offsets.add(offset)
            continue
        name = _name(raw, flags)
        packed, size, offset = _large(extra, name, packed, size, offset)
        offsets.add(offset)
        if method or packed != size:
            _refuse(f"member {name!r} is compressed; only stored members can be read in place")
        if disk or offset + _LOCAL.size > start:
            _refuse(f"member {name!r} is not in the file")
        kind = stat.S_IFMT(mode >> 16) if made >> 8 == _UNIX else 0
        if kind not in (0, stat.S_IFDIR if name.endswith("/") else stat.S_IFREG):
            _refuse(f"member {name!r} is a link or another special file")
        if name.endswith("/") and size:
            _refuse(f"member {name!r} is a folder, and has bytes")
        if name in names:
            _refuse(f"the name {name!r} occurs twice")
        names.add(name)
        found.append((name, raw, size, crc, offset))
    if at != len(directory):
        _refuse("its directory has more entries than the end record says")
    return found, sorted(offsets), start


def _own_name(read: Callable[[int, int], bytes], offset: int, end: int) -> bytes:
    """Return the name in the local header at an offset; empty if no header is there."""
    header = read(_LOCAL.size, offset) if offset + _LOCAL.size <= end else b""
    if len(header) < _LOCAL.size or not header.startswith(MAGIC):
        return b""
    return read(_LOCAL.unpack(header)[9], offset + _LOCAL.size)


def _name(raw: bytes, flags: int) -> str:
    if flags & ~_IS_UTF8:
        _refuse(f"member {raw!r} is encrypted, or of a kind that cannot be read in place")
    try:
        name = raw.decode("utf-8" if flags else "ascii")
    except UnicodeDecodeError:
        _refuse(f"the name {raw!r} is not text")
    problem = check_member_name(name)
    if problem is not None:
        _refuse(f"the member name {name!r} is not allowed: {problem}")
    return name


def _fields(extra: bytes, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the contents of each extra field."""
    at = 0
    while at < len(extra):
        if at + _FIELD.size > len(extra):
            _refuse(f"a field of member {name!r} is truncated")
        kind, size = _FIELD.unpack_from(extra, at)
        at += _FIELD.size + size
        if at > len(extra):
            _refuse(f"a field of member {name!r} is truncated")
        yield kind, extra[at - size : at]


def _large(extra: bytes, name: str, *numbers: int) -> list[int]:
    """Replace numbers that overflow their fields by those in the extra field."""
    large = [data for kind, data in _fields(extra, name) if kind == _LARGE]
    missing = sum(number == _MOST for number in numbers)
    if len(large) != bool(missing) or any(len(data) != 8 * missing for data in large):
        _refuse(f"the sizes of member {name!r} are not stored as required")
    more = iter(struct.unpack(f"<{missing}Q", large[0]) if missing else ())
    return [next(more) if number == _MOST else number for number in numbers]


def _checked(
    read: Callable[[int, int], bytes], name: str, raw: bytes, size: int, crc: int, offset: int
) -> Member:
    """Return a member, after a check that its local header agrees with its directory entry."""
    fixed = read(_LOCAL.size + len(raw), offset)
    if len(fixed) != _LOCAL.size + len(raw) or not fixed.startswith(MAGIC):
        _refuse(f"member {name!r} is not where the directory says")
    _, _, flags, method, _, _, own_crc, *sizes, n_name, n_extra = _LOCAL.unpack_from(fixed)
    start = offset + _LOCAL.size + len(raw) + n_extra
    if sizes != [size, size]:
        extra = read(n_extra, start - n_extra)
        if len(extra) != n_extra:
            _refuse(f"a field of member {name!r} is truncated")
        sizes = _large(extra, name, *sizes)
    if (
        fixed[_LOCAL.size :] != raw
        or n_name != len(raw)
        or flags & ~_IS_UTF8
        or method
        or own_crc != crc
        or sizes != [size, size]
    ):
        _refuse(f"two descriptions of member {name!r} do not agree")
    return Member(name, offset, start, size, crc)
