"""Heads, pages and objects of published arrays: their bytes, as the page has them, and damage."""

from __future__ import annotations

import contextlib
import json
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extarray.codecs.payloads import Encoded
from extarray.errors import CorruptError, FormatError, VersionError
from extarray.format._crc import crc32c
from extarray.format.blobs import decode_blob
from extarray.format.header import VERSION, Header, encode_header
from extarray.format.index import encode_index
from extarray.format.published import (
    ENTRY,
    PAGE,
    RETIRED,
    Frame,
    ObjectMap,
    Table,
    decode_frame,
    decode_table,
    encode_frame,
    encode_part,
    encode_state,
    for_blobs,
    join_frames,
    join_group,
    metadata_image,
    name_of,
    places_of,
    table_bytes,
    uuid_of_name,
)
from extarray.format.superblock import Superblock

UUID = bytes(range(16))
CHUNKS = (2, 3)


def a_header():
    plain = Header(UUID, np.dtype("<i2"), CHUNKS, "C", bytes(2), False, version=VERSION)
    return for_blobs(plain, json.dumps({"order": "address"}))


def a_head(entries=(), **more):
    header = a_header()
    grid = (4, 2)
    state = Superblock.first((7, 5), grid, 8 * header.chunk_bytes)._replace(sequence=3)
    head = encode_state(header, state, [(0, 0, (0, 2))], '{"unit": "K"}')
    rows = np.array(list(entries), ENTRY)
    return (
        replace(head, number=3, token=b"t" * 16, source=9, time=1_700_000_000_000)
        if not len(rows) and not more
        else replace(head, number=3, entries=rows, **more)
    )


def an_entry(uuid, first, last, count, size=1 << 20, tail=0):
    return (np.void(uuid * 16), 0, tail, first, last, size, count, 0)


def test_a_frame_has_the_bytes_of_the_page():
    head = a_head()
    data = encode_frame(head)
    assert data[:8].hex() == "89585042" + "0d0a1a0a"
    assert struct.unpack_from("<HH", data, 8) == (1, 0)
    assert struct.unpack_from("<I", data, 12) == (crc32c(data[16:]),)
    assert data[16:32] == UUID
    assert struct.unpack_from("<Q", data, 32) == (3,)
    assert data[40:56] == b"t" * 16
    assert struct.unpack_from("<QQII", data, 56) == (9, 1_700_000_000_000, 2, 1)
    sections, at = {}, 80
    while at < len(data):
        kind, zero, n = struct.unpack_from("<IIQ", data, at)
        assert zero == 0
        sections[kind] = data[at + 16 : at + 16 + n]
        at += 16 + n
        assert not any(data[at : at + -n % 8])
        at += -n % 8
    assert sorted(sections) == [1, 2, 3, 4]
    assert sections[1] == encode_header(head.header)
    assert sections[4] == b'{"unit": "K"}'
    assert (ENTRY.itemsize, PAGE.itemsize, RETIRED.itemsize) == (56, 32, 24)


def test_a_head_and_its_pages_make_a_state():
    head = a_head([an_entry(b"b", 4, 7, 4)])
    page = Frame(
        UUID,
        2,
        is_page=True,
        entries=np.array([an_entry(b"a", 0, 3, 4)], ENTRY),
        records=head.records,
    )
    facts = Frame(UUID, 2, is_page=True, header=head.header, attrs=head.attrs)
    short = replace(head, header=None, attrs=None, records=head.records[:0])
    frames = [decode_frame(encode_frame(frame)) for frame in (facts, page)]
    found = join_frames(decode_frame(encode_frame(short)), frames)
    assert found.entries["uuid"].tobytes() == b"a" * 16 + b"b" * 16
    assert (found.state.shape, found.attrs) == ((7, 5), '{"unit": "K"}')
    assert metadata_image(found) == metadata_image(join_frames(head, []))


@pytest.mark.parametrize(
    "wrong",
    [
        an_entry(b"a", 4, 3, 1),
        an_entry(b"a", 0, 8, 9),
        an_entry(b"a", 0, 3, 5),
        an_entry(b"a", 0, 3, 0),
        an_entry(b"a", 0, 3, 4, size=64 + 4 * 12 - 1),
        an_entry(b"a", 1 << 63, (1 << 63) + 3, 4),
    ],
)
def test_impossible_entries_are_refused(wrong):
    with pytest.raises(CorruptError):
        join_frames(a_head([wrong]), [])


def test_frames_that_do_not_fit_are_refused():
    head = a_head()
    other = Frame(bytes(16), 2, is_page=True)
    with pytest.raises(CorruptError, match="another array"):
        join_frames(head, [other])
    with pytest.raises(CorruptError, match="several"):
        join_frames(head, [Frame(UUID, 2, is_page=True, attrs="{}")])
    with pytest.raises(CorruptError, match="growth log"):
        join_frames(replace(head, records=head.records[:0]), [])
    with pytest.raises(CorruptError, match="no state"):
        join_frames(Frame(UUID, 2, is_page=True), [])


def test_versions_and_other_files():
    data = bytearray(encode_frame(a_head()))
    data[8] = 2
    with pytest.raises(VersionError):
        decode_frame(bytes(data))
    for other in (b"", b"<html>", bytes(data[:9])):
        with pytest.raises(FormatError):
            decode_frame(other)


@given(st.data())
def test_no_damage_is_overlooked(data):
    entries = [an_entry(b"a", 0, 3, 4), an_entry(b"b", 4, 7, 3)]
    good = encode_frame(a_head(entries, retired=np.zeros(2, RETIRED), pages=np.zeros(1, PAGE)))
    bad = bytearray(good)
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(bad) - 1))
        bad[at] ^= data.draw(st.integers(1, 255))
        if 10 <= at < 12:  # a minor version changes nothing
            assert (
                decode_frame(bytes(bad)).entries.tobytes() == decode_frame(good).entries.tobytes()
            )
            return
    else:
        del bad[data.draw(st.integers(0, len(bad) - 1)) :]
    with pytest.raises(FormatError):
        decode_frame(bytes(bad))


@given(st.data())
def test_hostile_sections_are_refused_or_read(data):
    good = encode_frame(a_head([an_entry(b"a", 0, 3, 4)]))
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(16, len(bad) - 1))
        bad[at] = data.draw(st.integers(0, 255))
    bad[12:16] = struct.pack("<I", crc32c(bytes(bad[16:])))
    with contextlib.suppress(FormatError):
        metadata_image(join_frames(decode_frame(bytes(bad)), []))


def a_group(**members):
    index = encode_index(members, {"": b'{"attrs": {}}', "air": None})
    heads = {name: encode_frame(head) for name, head in members.items()}
    return Frame(b"g" * 16, 0, number=4, is_group=True, members=heads, index=index)


def test_the_head_of_a_group_has_the_bytes_of_the_page():
    data = encode_frame(a_group(wind=a_head()))
    assert struct.unpack_from("<QQII", data, 56) == (0, 0, 0, 3)
    kind, _, n = struct.unpack_from("<IIQ", data, 80)
    section = data[96 : 96 + n]
    n_name, n_head = struct.unpack_from("<II", section)
    assert (kind, n_name, n_head) == (8, 4, len(encode_frame(a_head())))
    assert section[8:16] == b"wind" + bytes(4)
    assert section[16 : 16 + n_head] == encode_frame(a_head())
    found = join_group(decode_frame(data), [])
    assert found.listing.arrays == ["wind"] and list(found.members) == ["wind"]
    assert join_frames(found.members["wind"], []).state.shape == (7, 5)


def test_the_last_head_of_an_array_counts_if_the_index_lists_it():
    group = a_group(wind=a_head(), rain=a_head())
    heads = {"rain": encode_frame(replace(a_head(), number=1)), "gone": b"x"}
    page = Frame(b"g" * 16, 0, is_page=True, members=heads)
    found = join_group(group, [page])
    assert {name: head.number for name, head in found.members.items()} == {"wind": 3, "rain": 3}
    short = replace(group, members={"wind": group.members["wind"]})
    assert join_group(short, [page]).members["rain"].number == 1
    for bad in (
        replace(short, index=None),
        replace(short, index=b"{}"),
        replace(group, members={"wind": encode_frame(page), "rain": heads["rain"]}),
    ):
        with pytest.raises(CorruptError):
            join_group(bad, [page])
    with pytest.raises(CorruptError, match="has no head"):
        join_group(short, [])
    with pytest.raises(CorruptError, match="another"):
        join_group(short, [replace(page, array=bytes(16))])


@given(st.data())
def test_hostile_groups_are_refused_or_read(data):
    bad = bytearray(encode_frame(a_group(wind=a_head(), rain=a_head())))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(16, len(bad) - 1))
        bad[at] = data.draw(st.integers(0, 255))
    bad[12:16] = struct.pack("<I", crc32c(bytes(bad[16:])))
    with contextlib.suppress(FormatError):
        for head in join_group(decode_frame(bytes(bad)), []).members.values():
            join_frames(head, [])


def test_names():
    uuid = bytes(range(16))
    assert uuid_of_name(name_of(uuid).rpartition("/")[2]) == uuid
    assert [uuid_of_name(name) for name in ("", "head", "AB" * 16, "ab" * 15)] == [None] * 4


@pytest.mark.parametrize("addresses", [[3, 4, 5], [3, 5, 9]])
def test_an_object_has_the_bytes_of_the_page(addresses):
    header, uuid = a_header(), b"o" * 16
    chunks = []
    for n, address in enumerate(addresses):
        chunk = np.full(CHUNKS, n, "<i2").tobytes()
        encoded = Encoded(0, 0, 0, memoryview(chunk)) if n else None
        chunks.append((address, encoded, crc32c(chunk)))
    parts, entry, table = encode_part(UUID, uuid, chunks, True)
    data = b"".join(parts)
    assert entry["size"][0] == len(data) and entry["tail"][0] == 1
    assert (entry["first"][0], entry["last"][0]) == (addresses[0], addresses[-1])
    is_dense = addresses == [3, 4, 5]
    at = 64 + 8 * 3 * (not is_dense)
    assert is_dense or struct.unpack_from("<3Q", data, 64) == tuple(addresses)
    words = struct.unpack_from("<3Q", data, at)
    assert struct.unpack_from("<3I", data, at + 24) == tuple(crc for *_, crc in chunks)
    stored = data[64 : at + 24 + 12]
    assert (len(stored), crc32c(stored)) == (table_bytes(entry)[0], entry["crc"][0])
    assert words[0] == 1
    again = decode_table(stored, entry[0])
    assert all((x == y).all() for x, y in zip(again, table, strict=True))
    places, block = places_of(again, np.arange(3), entry[0], 0xFFFF, header.chunk_bytes)
    assert places.offsets.tolist() == [(w >> 24) * 64 if w > 1 else 0 for w in words]
    for n in (1, 2):
        start, size = places.offsets[n], places.sizes[n]
        blob = memoryview(data)[start : start + size]
        found = decode_blob(blob, addresses[n], block, memoryview(bytearray(12)), 2)
        assert bytes(found) == np.full(CHUNKS, n, "<i2").tobytes()
    with pytest.raises(CorruptError):
        decode_table(stored[:-1] + bytes([stored[-1] ^ 1]), entry[0])


@given(st.lists(st.sets(st.integers(0, 25), min_size=1), max_size=8))
def test_the_last_object_that_has_a_chunk_counts(sets):
    entries = np.zeros(len(sets), ENTRY)
    tables, expected = {}, np.full(26, -1)
    for number, members in enumerate(sets):
        addresses = np.array(sorted(members), np.int64)
        entries["first"][number], entries["last"][number] = addresses[0], addresses[-1]
        entries["count"][number] = len(addresses)
        n = len(addresses)
        tables[number] = Table(addresses, np.ones(n, np.uint64), np.zeros(n, np.uint32))
        expected[addresses] = number
    asked = []

    def fetch(numbers):
        asked.extend(numbers)
        return {number: tables[number] for number in numbers}

    objects = ObjectMap(entries, fetch)
    assert objects.owners(np.arange(26)).tolist() == expected.tolist()
    dense = entries["last"] - entries["first"] + 1 == entries["count"]
    assert not any(dense[number] for number in asked)
    for number, members in enumerate(sets):
        later = {q for n in range(number + 1, len(sets)) if dense[n] for q in sets[n]}
        span = set(range(min(members), max(members) + 1))
        assert objects.covered()[number] == (span <= later)
