"""The bytes of packed files: ZIP readers accept ours, and impossible ones are refused."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extarray.common.errors import CorruptError, FormatError
from extarray.format.archive import (
    ALIGNMENT,
    Member,
    check_member_name,
    crc_of_zeros,
    decode_archive,
    encode_directory,
    encode_member,
)

FILES = [("a.xta", b"x" * 100_000), ("a.xmd", b"y" * 30), ("é/b.xta", b""), ("é/b.xmd", b"z")]
FILES += [("dataset.json", b"{}"), ("empty/", b"")]


def packed(files=FILES):
    """Return the bytes of a packed file, and its members."""
    image, members = bytearray(), []
    for name, data in files:
        at, crc = len(image), zlib.crc32(data)
        head = encode_member(name, len(data), crc, at)
        members.append(Member(name, at, at + len(head), len(data), crc))
        image += head + data
    return image + encode_directory(members, len(image)), members


def decoded(image):
    return decode_archive(lambda n, at: bytes(image[at : at + n]), len(image))


def test_a_packed_file_is_a_zip_file_that_is_read_back():
    image, members = packed()
    assert decoded(image) == members
    with zipfile.ZipFile(io.BytesIO(image)) as file:
        assert file.testzip() is None
        assert [(name, file.read(name)) for name in file.namelist()] == FILES


def test_chunks_begin_at_a_page_wherever_they_are_put():
    for at in range(0, 2 * ALIGNMENT, 97):
        for size in (0, 2**33):
            assert (at + len(encode_member("a.xta", size, 0, at))) % ALIGNMENT == 0


def test_what_python_packs_is_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for name, data in FILES:
            file.writestr(zipfile.ZipInfo(name), data)
    image = (tmp_path / "a.zip").read_bytes()
    assert [(m.name, m.size, m.crc) for m in decoded(image)] == [
        (name, len(data), zlib.crc32(data)) for name, data in FILES
    ]


@given(st.binary(max_size=50), st.integers(0, 300), st.binary(max_size=9))
def test_the_sum_of_zeros_needs_no_zeros(before, n, behind):
    crc = zlib.crc32(behind, crc_of_zeros(n, zlib.crc32(before)))
    assert crc == zlib.crc32(before + bytes(n) + behind)


class Sparse:
    """A file of any length that holds only a few bytes."""

    def __init__(self):
        self.parts, self.length = {}, 0

    def put(self, at, data):
        self.parts[at] = bytes(data)
        self.length = max(self.length, at + len(data))

    def read(self, n, at):
        for start, data in self.parts.items():
            if start <= at < start + len(data):
                return data[at - start : at - start + n]
        return bytes(max(0, min(n, self.length - at)))


def test_sizes_and_places_beyond_4_gib():
    file, members, at = Sparse(), [], 0
    for name, size in [("a.xta", 5 << 30), ("a.xmd", 10), ("b.xta", 2**32 - 1), ("b.xmd", 9)]:
        head = encode_member(name, size, 7, at)
        file.put(at, head)
        members.append(Member(name, at, at + len(head), size, 7))
        at += len(head) + size
    file.put(at, encode_directory(members, at))
    assert decode_archive(file.read, file.length) == members


@pytest.mark.slow
def test_more_members_than_16_bits_count():
    image, members = packed([(f"g{n}/", b"") for n in range(70_000)])
    assert decoded(image) == members
    with zipfile.ZipFile(io.BytesIO(image)) as file:
        assert len(file.namelist()) == 70_000


@pytest.mark.parametrize(
    "name",
    ["../a.xmd", "/a.xmd", "a/../b.xmd", "./a.xmd", "a//b.xmd", "a\\b.xmd", "a\0.xmd", ".xmd"]
    + ["a.xmd/b.xmd", "dataset.json/a.xmd", "dataset.json/", "a.xmd/", "..", "../", "/"],
)
def test_names_that_no_member_can_have(name):
    assert check_member_name(name) is not None
    image, _ = packed([("a.xta", b"data")])
    other = name.encode().ljust(5, b"x")
    if len(other) == 5 and "\0" not in name:
        image = bytes(image).replace(b"a.xta", name.encode())
        with pytest.raises(CorruptError):
            decoded(image)


def test_members_of_no_array_are_passed_over_whatever_they_are():
    foreign = ["a.txt", "../x", "/x", "a\\b", "README", ".xmd", "a/.xta", "a.xmd/x", "dataset.jsom"]
    files = [("a.xta", b"data"), ("a.xmd", b"more")]
    image, members = packed(files)
    broken = {4: 8, 3: 9, 8: 5, 13: 7, 15: 0o120777 << 16, 1: 3 << 8, 16: 2**32 - 1, 11: 1}
    start = image.index(b"PK\1\2")
    entries = image[start : image.index(b"PK\5\6")]
    for name in (*foreign, *foreign, "\x81".encode("latin-1")):
        raw = name if isinstance(name, bytes) else name.encode()
        fields = list(ENTRY.unpack_from(entries))
        for place, value in (broken | {10: len(raw)}).items():
            fields[place] = value
        entries = ENTRY.pack(*fields) + raw + b"x" + entries
    n = len(files) + 2 * len(foreign) + 1
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, n, n, len(entries), start, 0)
    assert decoded(image[:start] + entries + end) == members


@pytest.mark.parametrize("name", ["a.xta", "dataset.json"])
def test_a_member_whose_name_is_damaged_is_not_passed_over(name):
    image, _ = packed([("a.xta", b"data"), ("a.xmd", b"more"), ("dataset.json", b"{}")])
    at = image.rindex(name.encode())  # in the directory
    broken = bytearray(image)
    broken[at + len(name) - 1] ^= 1
    with pytest.raises(CorruptError, match="another name in its own header"):
        decoded(broken)


#: Changes to the directory's entry of the first member, and the refusal's words.
ENTRY = struct.Struct("<4sHHHHHHIIIHHHHHII")
LIES = {
    "compressed": ({4: 8}, "compressed"),
    "encrypted": ({3: 1}, "encrypted"),
    "streamed": ({3: 8}, "encrypted, or of a kind"),
    "another size": ({8: 5, 9: 5}, "do not agree"),
    "packed size": ({8: 5}, "compressed"),
    "another sum": ({7: 1}, "do not agree"),
    "outside": ({16: 2**31}, "is not in the file"),
    "at another member": ({16: "second"}, "do not agree"),
    "larger than the file": ({8: 2**31, 9: 2**31}, "do not agree"),
    "no larger field": ({8: 2**32 - 1, 9: 2**32 - 1}, "are not stored as required"),
    "a link": ({1: 3 << 8, 15: 0o120777 << 16}, "is a link"),
    "a device": ({1: 3 << 8, 15: 0o020666 << 16}, "is a link"),
    "another disk": ({13: 1}, "is not in the file"),
    "a longer name": ({10: 9000}, "is truncated"),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_of_the_directory_are_refused(lie):
    image, members = packed()
    at = image.index(b"PK\1\2")
    fields = list(ENTRY.unpack_from(image, at))
    change, told = LIES[lie]
    for place, value in change.items():
        fields[place] = members[1].offset if value == "second" else value
    ENTRY.pack_into(image, at, *fields)
    with pytest.raises(CorruptError, match=told):
        decoded(image)


def test_members_that_lie_in_each_other_are_refused():
    # The bytes of the first member contain a local header of another, which the directory names.
    inner = encode_member("b.xmd", 2, zlib.crc32(b"{}"), 0) + b"{}"
    image, members = packed([("a.xmd", inner)])
    hidden = Member("b.xmd", members[0].start, 0, 2, zlib.crc32(b"{}"))
    end = members[0].start + members[0].size
    image = image[:end] + encode_directory([*members, hidden], end)
    with pytest.raises(CorruptError, match="inside another"):
        decoded(image)


def test_two_of_one_name_are_refused():
    image, _ = packed([("a.xmd", b"1"), ("a.xmd", b"2")])
    with pytest.raises(CorruptError, match="occurs twice"):
        decoded(image)


def test_ends_that_do_not_agree_are_refused():
    image, _ = packed()
    at = len(image) - 22
    for place in (8, 10, 12, 16):  # numbers, size, offset of the directory
        broken = bytearray(image)
        broken[at + place] ^= 1
        with pytest.raises(FormatError):
            decoded(broken)
    start = image.index(b"PK\1\2")
    large = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 6, 6, at - start, start + 1)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, at, 1)
    with pytest.raises(CorruptError, match="two end records"):
        decoded(image[:at] + large + locator + image[at:])


@given(st.data())
def test_damage_is_refused_or_seen_by_a_sum(data):
    image, members = packed()
    broken = bytearray(image)
    for _ in range(data.draw(st.integers(1, 3))):
        # Neither in the bytes of members, which have sums, nor in the padding between.
        place = data.draw(st.integers(0, 700)) - 700
        broken[place] = data.draw(st.integers(0, 255))
    try:
        found = decoded(broken)
    except FormatError:
        return
    assert all(0 <= m.offset < m.start <= m.start + m.size <= len(image) for m in found)
    assert [m.name for m in found] == [m.name for m in members]


@given(st.integers(0, 10**6))
def test_a_file_that_was_cut_off_is_refused(n):
    image, _ = packed()
    with pytest.raises(FormatError):
        decoded(image[: n % len(image)])
