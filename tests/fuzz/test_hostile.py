"""Files made to do harm are refused, and have no other effect."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import struct
import threading
import tracemalloc
import warnings

import numpy as np
import places
import pytest
from fuzz_pairs import MEMBERS, PENDING, SUMS, WRITERS, Image
from systems import disk_bytes

import extarray as xa
from extarray.format.groups import decode_members
from extarray.format.labels import coordinate_values


@pytest.fixture
def pair(tmp_path):
    """Return the image and the path of a good pair: 3 segments, chunks of 2 x 2."""
    path = tmp_path / "pair"
    with xa.create(path, (3, 4), "<i4", chunks=(2, 2)) as array:
        array.extend(1, 2)
        array.extend(0, 3)
        array.attrs["unit"] = "mm"
    files = [path.with_suffix(suffix).read_bytes() for suffix in (".xmd", ".xta")]
    return Image.of(tuple(files)), path


def live(image, at, kind, value):
    """Change a field of both live superblocks."""
    for i in (0, 1):
        image.put(image.block(i) + at, kind, value)


def spoil_flushed(image):
    """Destroy all states but those of the live superblocks."""
    for i in (2, 3, 4):
        image.write(image.block(i), bytes(1024))


def refused(image, path, match, error=xa.CorruptError):
    """Require that neither mode opens the pair, whose checksums match, or changes it."""
    spoil_flushed(image)
    image.mend()
    image.store(path)
    for mode in ("r", "r+"):
        with pytest.raises(error, match=match):
            xa.open(path, mode)
    assert path.with_suffix(".xmd").read_bytes() == bytes(image.xmd)


def test_the_good_pair_opens(pair):
    image, path = pair
    spoil_flushed(image)
    image.mend()
    image.store(path)
    with xa.open(path, "r+") as array:
        assert (array.shape, array.attrs["unit"]) == ((6, 6), "mm")


# -- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -1, 2**62, 2**63 - 1, -(2**63)])
def test_absurd_chunks(pair, value):
    image, path = pair
    image.put(48, "q", value)
    refused(image, path, "values are invalid")


@pytest.mark.parametrize("rank", [33, 64, 255])
def test_absurd_rank(pair, rank):
    image, path = pair
    text = b'"<i4"'
    body = b"".join([bytes(image.xmd[:32]), bytes([rank]), bytes(image.xmd[33:48])])
    image.write(0, body + struct.pack("<q", 1) * rank + text + bytes(8))
    refused(image, path, "header is damaged: its values are invalid")


@pytest.mark.parametrize(
    "at, kind, value",
    [
        (12, "I", 0),
        (12, "I", 2**32 - 4096),
        (12, "I", 5000),
        (36, "I", 2**32 - 1),
        (40, "I", 2**31),
    ],
    ids=["no header", "far", "no multiple", "itemsize", "description"],
)
def test_absurd_lengths_in_the_header(pair, at, kind, value):
    image, path = pair
    image.put(at, kind, value)
    refused(image, path, "lengths are inconsistent|no superblock|not extarray", xa.FormatError)


def test_a_header_that_is_longer_than_it_says(pair):
    """The header's checksum would overlap the superblocks."""
    image, path = pair
    item = 4096 - 48 - 16 - 7 - 4 + 1
    image.write(48 + 16, json.dumps(f"|S{item}").encode())
    image.put(40, "I", 7)
    image.put(36, "I", item)
    refused(image, path, "its lengths are inconsistent")


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("where", [88, 88 + 16, 88 + 32], ids=["bounds", "offset", "grid"])
@pytest.mark.parametrize("value", [-1, 2**62, 2**63 - 1])
def test_absurd_bounds(pair, axis, where, value):
    image, path = pair
    live(image, where + 8 * axis, "q", value)
    refused(image, path, "values are invalid|not a valid history of growth")


def test_bounds_of_an_empty_array_are_looked_at(tmp_path):
    """While another axis is empty, no byte is missing, so the bounds need their own check."""
    path = tmp_path / "empty"
    xa.create(path, (0, 4), chunks=(2, 4)).close()
    files = [path.with_suffix(suffix).read_bytes() for suffix in (".xmd", ".xta")]
    image = Image.of(tuple(files))
    image.set_history([(0, 0, 0), (1, 0, 2**61)])  # chunks of 4 elements
    for i in (0, 1):
        image.put(image.block(i) + 88 + 8, "q", 2**63 - 1)
    refused(image, path, "values are invalid|not a valid history of growth")
    with pytest.raises(xa.LimitError, match="an axis that long"):
        xa.create(None, (0, 2**63 - 1), chunks=(2, 4))


@pytest.mark.parametrize("order", "ZH")
def test_a_chunk_that_is_not_there_costs_nothing(tmp_path, order):
    """The table of an order is as large as a chunk, so it waits for the first chunk."""
    path = tmp_path / "promise"
    tracemalloc.start()  # NumPy reports its arrays to tracemalloc
    try:
        with xa.create(path, (0, 0), "u1", chunks=(2**14, 2**14), order=order) as array:
            assert array.shape == (0, 0)
        with xa.open(path, "r+") as array:
            assert array[...].shape == (0, 0)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24  # the table would have 2 GiB
    finally:
        tracemalloc.stop()
    with xa.create(None, (0, 2), "u1", chunks=(2, 2), order=order) as array:
        array.append(np.array([[1, 2], [3, 4], [5, 6]], "u1"))
        assert array[...].tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("segments", [0, 2**31, 2**40, 2**64 - 1])
def test_absurd_numbers_of_segments(pair, segments):
    image, path = pair
    live(image, 16, "Q", segments)
    refused(image, path, "growth log")


def test_a_log_of_holes(pair):
    """Memory grows with the records found intact, not with the length of the file."""
    image, path = pair
    live(image, 16, "Q", 2**31 - 1)
    live(image, 64, "Q", 2**40)
    image.put(image.log, "Q", 2**20)
    spoil_flushed(image)
    image.mend()
    image.store(path)
    os.truncate(path.with_suffix(".xmd"), 2**40)
    with pytest.raises(
        xa.CorruptError,
        match="the growth log is larger than memory|record [0-9]+ of the growth log is damaged",
    ):
        xa.open(path)


@pytest.mark.parametrize("sequence", [2**62 + 1, 2**63, 2**64 - 1])
def test_no_number_is_left_for_a_commit(pair, sequence):
    image, path = pair
    live(image, 8, "Q", sequence)
    refused(image, path, "no superblock is intact")


def test_the_last_numbers_are_for_readers(pair):
    image, path = pair
    live(image, 8, "Q", 2**62)
    spoil_flushed(image)
    image.mend()
    image.store(path)
    with xa.open(path) as array:
        assert array.shape == (6, 6)
    with pytest.raises(xa.CorruptError, match="the last possible number"):
        xa.open(path, "r+")


# -- places --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 16, 4096, 8192, places.LOG, places.LOG + 16, places.LOG - 1])
@pytest.mark.parametrize("at", [32, 48], ids=["attributes", "second room"])
def test_a_room_upon_something_else(pair, at, place):
    """A writer would write the next attributes to this room."""
    image, path = pair
    live(image, at, "Q", place)
    live(image, 40 if at == 32 else 56, "I", 2 if at == 32 else 1024)
    refused(image, path, "values are invalid|attributes")


def test_rooms_upon_one_another(pair):
    image, path = pair
    block = image.block(image.newest())
    live(image, 48, "Q", image.get(block + 32, "Q") + 8)
    live(image, 56, "I", 1024)
    refused(image, path, "values are invalid")


@pytest.mark.parametrize("end", [0, 4096, places.LOG + 16, 2**62 + 1, 2**64 - 1])
def test_unused_space_that_is_used(pair, end):
    image, path = pair
    live(image, 64, "Q", end)
    refused(image, path, "values are invalid")


def long_pair(folder):
    """Return the image and path of a pair with 14 segments, hence two extents."""
    path = folder / "long"
    with xa.create(path, (0, 1, 1), chunks=(1, 1, 1)) as array:
        for i in range(13):
            array.extend(1 + i % 2, 1)
    files = [path.with_suffix(suffix).read_bytes() for suffix in (".xmd", ".xta")]
    return Image.of(tuple(files)), path


@pytest.mark.parametrize("place", ["circle", "room", "before the log"])
def test_extents_upon_something_else(tmp_path, place):
    """One of the chains is circular; the records are good, wherever they lie."""
    image, path = long_pair(tmp_path)
    size = 6 * (8 + 8 * 3)
    records = bytes(image.xmd[image.record(8) : image.record(8) + size])
    following = image.get(image.block(image.newest()) + 32, "Q")
    if place == "before the log":
        following = image.fixed - 1024
    elif place == "circle":
        following = image.log
    image.set_attrs(b"{}")
    live(image, 48, "Q", following if place == "room" else 0)
    live(image, 56, "I", 1024 if place == "room" else 0)
    image.put(image.log, "Q", following)
    if place != "circle":
        image.write(following + 16, records)
        image.mend()
        for i in (3, 4):
            image.write(image.block(i), bytes(1024))
        image.store(path)
        with pytest.raises(xa.CorruptError, match="are invalid"):
            xa.open(path)
    else:
        refused(image, path, "growth log")


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize(
    "at, kind, value", [(4, "B", 2), (5, "B", 3), (8, "q", -1), (16, "q", 2**62)]
)
def test_records_that_are_no_history(tmp_path, n, at, kind, value):
    image, path = long_pair(tmp_path)
    image.put(image.record(n) + at, kind, value)
    refused(image, path, "growth log")


def test_a_history_that_overflows(pair):
    image, path = pair
    image.set_history([(0, 0, 2**40), (1, 0, 2**40)])
    refused(image, path, "not a valid history of growth")


# -- texts ---------------------------------------------------------------------------------------

DEEP = 100_000


@pytest.mark.parametrize(
    "text",
    [
        b"[" * DEEP + b"]" * DEEP,
        b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b"[1]",
        b'"text"',
        b"",
        b"{",
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":1e999}',
        b'{"a":[-1e999]}',
        b'{"a":"\\ud800"}',
        b'{"\\uDC00":1}',
        b'{"a":"\xff"}',
        b'{"a":' + b"9" * 5000 + b"}",
        b"\xff\xfe{\0}\0",
    ],
    ids=lambda text: text[:12].decode("latin-1"),
)
def test_attributes_that_are_none(pair, text):
    image, path = pair
    image.set_attrs(text)
    refused(image, path, "the attributes are n")


@pytest.mark.parametrize(
    "description",
    [
        '"O"',
        '"|O8"',
        '{"fields":[{"name":"a","type":"|O8","offset":0}],"itemsize":8,"aligned":false}',
        '{"extension":"O","itemsize":8}',
        '{"extension":"object","itemsize":8}',
        '{"extension":"a8","itemsize":8}',
        '{"extension":"finfo","itemsize":8}',
        '{"extension":{"names":[]},"itemsize":8}',
        '"i4,i4"',
        '["<i4",[2]]',
        '"|S0"',
        '"|V99999999999"',
        '{"fields":[{"name":"a","type":["<u1",[65536,65536]],"offset":0}],"itemsize":8,"aligned":0}',
        '{"fields":[{"name":"a","type":["<u1",[-1]],"offset":0}],"itemsize":8,"aligned":false}',
        '{"fields":[{"name":"a","type":"<i4","offset":1e400}],"itemsize":8,"aligned":false}',
        '{"fields":[{"name":"a","type":"<i4","offset":-4}],"itemsize":8,"aligned":false}',
        '{"fields":[{"name":"a","type":"<i8","offset":4}],"itemsize":8,"aligned":false}',
        '{"fields":[{"name":"a","type":"|i1","offset":0},{"name":"a","type":"|i1","offset":1}],'
        '"itemsize":8,"aligned":false}'.replace(" ", ""),
        '{"fields":[{"name":"a","title":[],"type":"<i8","offset":0}],"itemsize":8,"aligned":false}',
        '{"fields":[{"name":"a","type":"<i8","offset":0}],"itemsize":8}',
        '{"fields":[{"name":"a","type":"<i8","offset":0}],"itemsize":8,"aligned":0}',
        '{"fields":[{"name":"a","type":"<i8","offset":0}],"itemsize":8,"aligned":true,"x":1}',
        '{"fields":[{"name":"a","type":"<i8","offset":0,"x":1}],"itemsize":8,"aligned":true}',
        '["<M8",["s",1]]',
        '{"fields":[{"name":"a","type":["<M8",["s",1]],"offset":0}],"itemsize":8,"aligned":true}',
        '{"fields":[{"name":"a","type":["<i8",[]],"offset":0}],"itemsize":8,"aligned":true}',
        '{"fields":[{"name":"a","type":"<i8","offset":0}],"itemsize":8,"aligned":true,"base":"|V8"}',
        '{"fields":[],"itemsize":8,"aligned":true,"base":' * 2 + '"<U2"}}',
        '{"extension":"bfloat16"}',
        '{"extension":"bfloat16","itemsize":8}',
        '{"longdouble":"<f16","digits":7}',
        '{"longdouble":"<f8","digits":64}',
        '"<f16"',
        '"|f8"',
        '"|i8"',
        '"<b1"',
        '"<i08"',
        '"<M8[0s]"',
        '"<M8[generic]"',
        "null",
        "{}",
        "[[]]",
        '{"fields":[{"name":"a","offset":0,"type":' * 40
        + '"|V8"'
        + '}],"itemsize":8,"aligned":false}' * 40,
    ],
    ids=lambda text: text[:24],
)
def test_types_that_are_none(pair, description):
    """Types of objects matter most: their bytes would be pointers."""
    image, path = pair
    image.set_description(description.encode(), 8)
    refused(image, path, "is not supported on this machine", xa.FormatError)


@pytest.mark.parametrize("opening, closing", [("[", "]"), ('{"fields":', "}"), ('["<u1",', "]")])
def test_a_type_that_is_nested_deeply(tmp_path, opening, closing):
    dtype = np.dtype([(f"field {i}", "<f4") for i in range(400)])  # a header with room for the type
    path = tmp_path / "deep"
    xa.create(path, 3, dtype).close()
    files = [path.with_suffix(suffix).read_bytes() for suffix in (".xmd", ".xta")]
    image = Image.of(tuple(files))
    depth = 1500
    image.set_description((opening * depth + "[]" + closing * depth).encode(), 8)
    refused(image, path, "recursion|not supported on this machine", xa.FormatError)


@pytest.mark.parametrize("around", [lambda d: [("a", d)], lambda d: (d, (1,))])
def test_a_type_that_is_too_deep_is_not_made(tmp_path, around):
    """A type that `create` accepts can be opened again."""
    dtype = np.dtype("<i4")
    for _ in range(31):
        dtype = np.dtype(around(dtype))
    xa.zeros(3, [("a", dtype)], path=tmp_path / "a").close()
    with xa.open(tmp_path / "a") as array:
        assert array.dtype == np.dtype([("a", dtype)])
    with pytest.raises(xa.DTypeError, match="more than 32 deep"):
        xa.zeros(3, [("a", np.dtype(around(dtype)))])


def test_what_is_told_of_an_array_stays_short():
    """NumPy would print a whole record, and count empty sub-arrays one by one."""
    dtype = np.dtype([("a", "<f4", (1, 127, 8366, 1, 3, 0)), ("b", "<i4")])
    assert "(a record of 4 B)" in str(xa.zeros(3, dtype).info())
    assert "(a record of 4.0 MiB)" in xa.zeros(1, [("a", "u1", (2048, 2048))])._repr_html_()
    assert "(datetime64)" in str(xa.full(2, np.array(7).view("M8")[()], "M8").info())


# -- states that a reader meets ------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil, match",
    [
        (lambda image: live(image, 16, "Q", 1), "growth log"),
        (lambda image: live(image, 16, "Q", 2**40), "growth log"),
        (lambda image: image.set_attrs(b"[" * DEEP), "attributes"),
        (lambda image: live(image, 88, "q", 2**62), "are invalid"),
        (lambda image: image.set_history([(0, 0, 1), (1, 0, 9), (0, 1, 2**50)]), "growth"),
        (lambda image: live(image, 64, "Q", 0), "are invalid"),
    ],
    ids=["fewer segments", "more segments", "attributes", "bounds", "history", "end"],
)
def test_refresh(pair, spoil, match):
    """`refresh` adopts no part of a damaged state, and the whole state once it is restored."""
    image, path = pair
    good = bytes(image.xmd)
    with xa.open(path) as array:
        spoil(image)
        live(image, 8, "Q", 1000)
        image.mend()
        with open(path.with_suffix(".xmd"), "r+b") as file:
            file.write(image.xmd)
        for _ in range(2):
            with pytest.raises(xa.CorruptError, match=match):
                array.refresh()
            assert (array.shape, array.grid, array.axial.segments) == ((6, 6), (3, 3), 3)
            assert array[5, 5] == 0
        with open(path.with_suffix(".xmd"), "r+b") as file:
            file.write(good)
        assert not array.refresh()
    with xa.open(path, "r+") as writer, xa.open(path) as array:
        writer.extend(1, 5)
        assert array.refresh()
        assert array.shape == (6, 11)


def test_a_pipe_does_not_hang(tmp_path):
    """Opening a pipe normally waits for a writer."""
    path = tmp_path / "pipe"
    os.mkfifo(path.with_suffix(".xmd"))
    os.mkfifo(path.with_suffix(".xta"))
    done = []

    def attempt():
        for mode in ("r", "r+"):
            with pytest.raises(xa.ExtArrayError):
                xa.open(path, mode)
        done.append(True)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(60)
    assert done


# -- states that a power cut leaves ----------------------------------------------------------------


def test_a_writer_counts_on_from_the_greatest_number(pair):
    """A flushed state may be newer than the states of the last two commits."""
    image, path = pair
    newest = image.block(image.newest())
    state = bytes(image.xmd[newest : newest + 88 + 48])
    spoil_flushed(image)
    image.write(image.block(3), state)
    image.put(image.block(3) + 4, "I", 0)  # unsealed, like all of them
    image.put(image.block(3) + 8, "Q", 500)
    for i in (0, 1):
        image.put(image.block(i) + 8, "Q", 10 + i)
    image.mend()
    image.store(path)
    with pytest.warns(xa.RecoveryWarning):
        array = xa.open(path, "r+")
    with array:
        array.attrs["unit"] = "cm"
        array.extend(0, 1)
    with xa.open(path) as array:
        assert (array.shape, array.attrs["unit"]) == ((7, 6), "cm")


def test_the_extents_are_those_of_the_state_that_is_whole(tmp_path):
    """Examining a damaged state leaves no trace in the choice of extents."""
    image, path = long_pair(tmp_path)
    newest = image.block(image.newest())
    image.write(image.block(4), bytes(image.xmd[newest : newest + 88 + 24 * 3]))
    image.put(image.block(4) + 8, "Q", 500)
    image.put(image.block(4) + 16, "Q", 1)  # now the state contradicts itself
    image.mend()
    image.store(path)
    with xa.open(path, "r+") as array:
        shape = array.shape
        for i in range(1, 71):
            array.extend(1 + i % 2, 1)
    with xa.open(path) as array:
        assert array.shape == (shape[0], shape[1] + 35, shape[2] + 35)
        assert array.axial.segments == 84


def test_a_refresh_across_the_end_of_an_extent(tmp_path):
    """One new record is the last of an extent, and one is in the next extent."""
    path = tmp_path / "long"
    with xa.create(path, (0, 1, 1), chunks=(1, 1, 1)) as writer:
        for i in range(6):
            writer.extend(1 + i % 2, 1)
        with xa.open(path) as reader:
            assert reader.axial.segments == 7
            for i in range(6, 8):
                writer.extend(1 + i % 2, 1)
            assert reader.refresh()
            assert (reader.axial.segments, reader.shape) == (9, writer.shape)


# -- agreements between arrays and writers -------------------------------------------------------


def with_pending(image, path, length=None):
    """Add a pending state that is newer than all others."""
    newest, at, end = image.block(image.newest()), image.block(PENDING[0]), 88 + 24 * image.k
    image.write(at, bytes(image.xmd[newest : newest + end]))
    image.put(at + 4, "I", 0)
    image.put(at + 8, "Q", image.get(newest + 8, "Q") + 1)
    image.put(at + end + 4, "I", len(path) if length is None else length)
    image.write(at + end + 40, path)
    image.together = True
    image.mend()


@pytest.mark.parametrize(
    "where, length",
    [(b"a\0b", None), (b"a", 5000), (b"a", 2**32 - 1)],
    ids=["NUL", "beyond the block", "far"],
)
@pytest.mark.parametrize("share", [False, True])
def test_paths_of_pending_states(pair, where, length, share):
    """A pending state whose path leads nowhere does not count."""
    image, path = pair
    with_pending(image, where, length)
    image.store(path)
    assert xa.check(path).ok
    with xa.open(path) as array:
        assert array.shape == (6, 6)
    with xa.open(path, "r+", share=share) as array:
        assert array.shape == (6, 6)
    xa.create(path, (1,), overwrite=True).close()


def entry(path, length=None):
    return b"u" * 16 + struct.pack("<I", len(path) if length is None else length) + path


@pytest.mark.parametrize(
    "size, body",
    [
        (None, entry(b"a\0b")),
        (None, entry(b"a", 2**32 - 1)),
        (None, entry(b"good") + b"u" * 19),
        (5000, entry(b"a" * 4068)),
        (2**32 - 1, b""),
    ],
    ids=["NUL", "long path", "half an entry", "beyond the block", "far"],
)
def test_lists_of_members(pair, size, body):
    image, path = pair
    at = image.block(MEMBERS)
    image.write(at + 4, struct.pack("<I", len(body) if size is None else size) + body)
    image.together = True
    image.mend()
    image.store(path)
    assert decode_members(bytes(image.xmd[at : at + 4096])) == []
    beside = path.with_name("beside")
    with (
        xa.open(path, "r+") as array,
        xa.create(beside, (1,)) as other,
        xa.commit([array, other]),
    ):
        array.extend(0, 1)
        other.extend(0, 1)
    assert (xa.open(path).shape, xa.open(beside).shape) == ((7, 6), (2,))
    image.store(path)
    xa.create(path, (1,), overwrite=True).close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "at, kind, value",
    [
        (4, "B", 3),
        (5, "B", 2),
        (16, "Q", 2**61 + 1),
        (16, "Q", 2**64 - 1),
        (24, "q", 9),
        (32, "q", 2**63 - 1),
    ],
    ids=["kind", "axis", "ticket", "last ticket", "start", "stop"],
)
def test_the_table_of_writers(pair, at, kind, value):
    """Writers refuse a table damaged at work, except for elements; the next one renews it."""
    image, path = pair
    image.store(path)
    name = str(path)
    with xa.open(path, "r+", share=True) as one, xa.open(path, "r+", share=True) as two:
        with open(f"{path}.xmd", "r+b", buffering=0) as file:
            file.seek(Image(bytearray(file.read())).block(WRITERS) + 64 * 3)
            hostile = bytearray(struct.pack("<IBBBxQQqq", 1, 1, 0, 0, 0, 5, 3, 6))
            hostile[at : at + struct.calcsize(kind)] = struct.pack(f"<{kind}", value)
            file.write(hostile)
        for change in (lambda: one.append(one[:1]), lambda: two.attrs.update(a=1), one.refresh):
            with pytest.raises(xa.CorruptError, match=f"'{name}.xmd': the table of writers"):
                change()
        with pytest.raises(xa.CorruptError, match=f"'{name}.xmd': the table of writers"):
            xa.open(path, "r+", share=True)
        with pytest.raises(xa.LockedError):
            xa.open(path, "r+")
        one[0, 0] = 7
        assert two[0, 0] == 7
    with xa.open(path, "r+", share=True) as array:
        array.append(array[:1])
        assert array.shape == (7, 6)


@pytest.mark.parametrize("where", ["header", "log", "beyond", "twice", "attributes"])
def test_a_table_of_checksums_in_the_place_of_something_else(tmp_path, where):
    """Writers do not write to such a table, but begin another."""
    path = tmp_path / "sums"
    with xa.create(
        path, (3, 4), "<i4", chunks=(2, 2), checksum=True, attrs={"unit": "mm"}
    ) as array:
        array[...] = 1
    files = [path.with_suffix(suffix).read_bytes() for suffix in (".xmd", ".xta")]
    image = Image.of(tuple(files))
    at, newest = image.block(SUMS), image.block(image.newest())
    good = image.get(at + 16, "Q")
    places = {
        "header": [0],
        "log": [image.log],
        "beyond": [good, *((1 << 20) + 4096 * (2**n - 1) for n in range(1, 17))],
        "twice": [good, good],
        "attributes": [image.get(newest + 32, "Q")],
    }[where]
    if where == "beyond":
        live(image, 64, "Q", 2**40)
    image.put(at + 8, "I", len(places))
    image.write(at + 16, struct.pack(f"<{len(places)}Q", *places))
    image.together = True
    image.mend()
    image.store(path)
    with xa.open(path, "r+") as array:
        array[0] = 2
        array.extend(0, 2)
    with xa.open(path) as array:
        assert array[:, 0].tolist() == [2, 1, 1, 0, 0]
        assert array.attrs["unit"] == "mm"
    assert disk_bytes(f"{path}.xmd") < 1 << 20


def test_a_group_of_which_one_was_lost(tmp_path):
    """A missing member cannot be asked, not even when all members are examined."""
    a, b = (xa.zeros((1,), path=tmp_path / name) for name in "ab")
    a.close()
    b.close()
    files = [(tmp_path / "b").with_suffix(suffix).read_bytes() for suffix in (".xmd", ".xta")]
    image = Image.of(tuple(files))
    with xa.open(tmp_path / "a") as a, xa.open(tmp_path / "b") as b:
        with_pending(image, b"lost")
        (tmp_path / "b.xmd").write_bytes(bytes(image.xmd))
        assert not xa.refresh([a, b])
        assert b.shape == (1,)


# -- labels --------------------------------------------------------------------------------------

LONG = "x" * 100_000
HOSTILE_LABELS = {
    "bytes": {"data": ["a", "b", "c"], "dtype": "S100000000"},
    "text": {"data": ["a", "b", "c"], "dtype": "<U100000000"},
    "a subarray": {"data": [1, 2, 3], "dtype": "(100000000,)f8"},
    "a record": {"data": [1, 2, 3], "dtype": "f8,(100000000,)f8"},
    "one is long": {"data": [LONG, "b", *["c"] * 998]},
    "one is long, and a type": {"data": [LONG, "b", *["c"] * 998], "dtype": "U"},
    "numbers": {"data": [1, 2, 3], "dtype": "U100000000"},
}


@pytest.mark.parametrize("form", HOSTILE_LABELS.values(), ids=HOSTILE_LABELS)
@pytest.mark.parametrize("job", ["npy", "h5py", "xarray", "tornado"])
def test_labels_take_memory_as_they_are_long(scratch, form, job):
    """Exports, xarray and displays take memory in proportion to the data."""
    if job != "npy":
        pytest.importorskip(job)
    attrs = {"coords": {"x": {"dims": ["x"], "origin": [0], **form}}}
    xa.create(scratch / "a", (len(form["data"]),), dims=["x"], attrs=attrs).close()

    def do():
        with (
            xa.open(scratch / "a") as a,
            warnings.catch_warnings(),
            contextlib.suppress(xa.ArgumentError),
        ):
            warnings.simplefilter("ignore")
            if job == "npy":
                xa.to_npy(a, scratch / "a.npy", overwrite=True)
            elif job == "h5py":
                xa.to_hdf5(a, scratch / "a.h5", "a", overwrite=True)
            elif job == "xarray":
                importlib.import_module("xarray").open_dataset(
                    str(scratch / "a"), engine="extarray"
                ).close()
            else:
                from extarray.array.coordinates import coordinate_of

                found = coordinate_of(0, ["x"], [0], a.attrs, lambda name: None)
                assert found is None or len(found.texts([0, 1, 2])) == 3

    do()  # the first call imports libraries
    tracemalloc.start()
    try:
        do()
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()


def test_labels_keep_a_width_that_is_in_proportion():
    for dtype in ("|S20", "<U300", ">U5", "<U1000"):
        found = coordinate_values({"data": ["a", "bcd"] * 20, "dtype": dtype})
        assert found.dtype == dtype
        assert (found == np.array(["a", "bcd"] * 20, dtype)).all()
    found = coordinate_values({"data": ["a", "bcd"], "dtype": ">U100000000"})
    assert (found.dtype, found.tolist()) == (np.dtype(">U3"), ["a", "bcd"])
    found = coordinate_values({"data": [12, 345], "dtype": "U100000000"})
    assert (found.dtype, found.tolist()) == (np.dtype("U3"), ["12", "345"])
