"""The pages in docs/format, the package, and the reader written from the pages agree."""

import re
import shutil
import struct
import warnings
import zlib
from itertools import product
from math import prod
from pathlib import Path

import format_reader
import fuzz_pairs
import numpy as np
import pytest
from dice import Dice
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import extarray as xa
from extarray.format.values import from_json

# Offset of the log of an array with two axes and a simple type.
LOG = 4096 + 8192 + 512

PAGES = Path(__file__).parents[2] / "docs" / "format"

RECORD = np.dtype([("ä", ">i4"), ("grid", "<u2", (2, 3)), ("in", [("x", "S3"), ("y", "U2")])])
ALIGNED = np.dtype([("flag", "?"), (("a title", "number"), "<f8"), ("b", "u1")], align=True)
NUMBERS = ["<u2", ">u2", "|i1", "|u1", "<i4", ">i4", "<i8", ">u8", "<f4", ">f8", "<f2", "<c16", "?"]
OTHERS = [
    "g",
    "G",
    "<M8[ms]",
    ">M8[D]",
    "<m8[25s]",
    "S1",
    "S5",
    "<U3",
    ">U2",
    "V3",
    RECORD,
    ALIGNED,
]

pytestmark = pytest.mark.thread_unsafe  # examples write to the same files

# Examples write to one folder, under new names.
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def values(shape, dtype, rng):
    """Make random values of any type."""
    dtype = np.dtype(dtype)
    result = np.zeros(shape, dtype)
    if dtype.names:
        for name in dtype.names:
            result[name] = values(result[name].shape, result[name].dtype, rng)
    elif dtype.kind == "V":
        result[...] = rng.integers(0, 256, (*shape, dtype.itemsize), "u1").view(dtype)[..., 0]
    else:
        result[...] = rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)
    return result


def equal(result, expected):
    """Tell whether arrays are equal in type, shape and values."""
    same = result.dtype == expected.dtype and result.shape == expected.shape
    return same and np.array_equal(result, expected)


def copied(path, to):
    """Copy the pair in its present state."""
    for suffix in (".xmd", ".xta"):
        shutil.copyfile(f"{path}{suffix}", f"{to}{suffix}")
    return to


def free(path):
    """Return a path whose pair is removed, if there is one; no open file needs to be replaced."""
    for suffix in (".xmd", ".xta"):
        path.with_suffix(suffix).unlink(missing_ok=True)
    return path


def layers(path):
    """Return the header and the present state, as the reader sees them."""
    return format_reader.opened(path)[:2]


def patch(path, at, data=None):
    """Overwrite bytes of a file; None: invert one byte."""
    content = bytearray(path.read_bytes())
    data = bytes([content[at] ^ 0xFF]) if data is None else data
    content[at : at + len(data)] = data
    path.write_bytes(content)


def grow(array, model, axis, by, data=None, side="end"):
    """Grow the array and its model; return the new model."""
    if data is None:
        array.extend(axis, by, side)
        shape = (*model.shape[:axis], by, *model.shape[axis + 1 :])
        data = np.full(shape, array.fill_value, model.dtype)
    else:
        array.append(data, axis, side)
    pair = [model, data] if side == "end" else [data, model]
    return np.concatenate(pair, axis).astype(model.dtype)


def cut(array, model, axis, by, side):
    """Shrink the array and its model; return the new model."""
    n = model.shape[axis]
    by = min(by, n)
    array.shrink(axis, by, side)
    return np.take(model, range(by, n) if side == "start" else range(n - by), axis)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pairs")


@pytest.fixture
def pair(tmp_path):
    """A sealed pair with 3 segments, and its elements."""
    path = tmp_path / "pair"
    model = np.arange(12, dtype="<i4").reshape(3, 4)
    with xa.create(path, model.shape, "<i4", chunks=(2, 2), attrs={"n": 1}) as array:
        array[...] = model
        for axis in (0, 1, 0):
            model = grow(array, model, axis, 3)
        array[...] = model = np.arange(model.size, dtype="<i4").reshape(model.shape)
    return path, model


# -------------------------------------------------------------------------------- random arrays

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text('aä€😀"\\\n\0', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
ATTRS = st.dictionaries(st.text(max_size=4), JSON, max_size=3)


@given(data=st.data())
@QUICK
def test_reads_what_the_package_writes(folder, data):
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    k = draw(st.integers(0, 4))
    shape = draw(st.tuples(*[st.integers(0, 5)] * k))
    chunk = draw(st.tuples(*[st.integers(1, 4)] * k))
    dtype = np.dtype(draw(st.sampled_from(NUMBERS + OTHERS)))
    attrs = draw(ATTRS)
    path = free(folder / "random")
    array = xa.create(
        path, shape, dtype, chunks=chunk, order=draw(st.sampled_from("CFZH")), attrs=attrs,
        fill_value=draw(st.sampled_from([0, 1])) if dtype in map(np.dtype, NUMBERS) else 0,
        sparse=draw(st.booleans()), engine=draw(st.sampled_from(["mmap", "pread"])),
    )  # fmt: skip
    with array:
        model = np.full(shape, array.fill_value, dtype)
        if draw(st.booleans()):
            array[...] = model = values(shape, dtype, rng)
        for _ in range(draw(st.integers(0, 6)) if k else 0):
            axis, by = draw(st.integers(0, k - 1)), draw(st.integers(0, 5))
            side = draw(st.sampled_from(["end", "start"]))
            if draw(st.integers(0, 4)) == 4:
                model = cut(array, model, axis, by, side)
                continue
            block = None
            if draw(st.booleans()):
                shape = (*model.shape[:axis], by, *model.shape[axis + 1 :])
                block = values(shape, dtype, rng)
            model = grow(array, model, axis, by, block, side)
            if draw(st.booleans()):
                array.attrs["grown"] = attrs["grown"] = f"Achse {axis} größer"
        while_open = copied(path, folder / "copy")
    assert not layers(while_open)[1].sealed
    assert layers(path)[1].sealed
    for name in (path, while_open):
        result, found = format_reader.read(name)
        assert equal(result, model)
        assert found == attrs
    if model.size:
        index = draw(st.tuples(*(st.integers(0, n - 1) for n in model.shape)))
        assert np.array_equal(format_reader.read_element(path, index), model[index])
    check_addresses(*layers(path))


def check_addresses(header, state):
    """Every chunk has its own address, and the page's other two rules give the same."""
    records = state.records
    seen = set()
    for index in product(
        *(range(-a, n - a) for n, a in zip(state.grid, state.starts, strict=True))
    ):
        q = format_reader.chunk_address(records, index)
        assert q not in seen
        assert 0 <= q * header.chunk_bytes < state.data_bytes
        seen.add(q)
        if index:
            assert inverse(records, q) == index
            assert records[selected_by_address(records, index)] == segment_of(records, q)
    assert state.bounds or seen == {0}


def segment_of(records, q):
    """Return the last segment that starts at or before an address."""
    return [record for record in records if prod(record[2]) <= q][-1]


def inverse(records, q):
    """Return the chunk index of an address."""
    axis, side, grid, added = record = segment_of(records, q)
    coefficients = [
        prod(n for r, n in enumerate(grid) if r != axis and (r > j or j == axis))
        for j in range(len(grid))
    ]
    index = [0] * len(grid)
    steps, rest = divmod(q - prod(grid), coefficients[axis])
    first = format_reader.first_index(record)
    index[axis] = first - steps if side else first + steps
    for j, coefficient in enumerate(coefficients):
        if j != axis:
            index[j], rest = divmod(rest, coefficient)
            index[j] -= added[j]
    return tuple(index)


def selected_by_address(records, index):
    """Return the segment, among one selected per axis, with the greatest start; else the later."""
    selected = []
    for j in range(len(index)):
        own = [s for s, r in enumerate(records) if r[0] == j and format_reader.owns(r, index)]
        selected.append(own[-1] if own else 0)
    return max(selected, key=lambda s: (prod(records[s][2]), s))


@pytest.mark.parametrize("order", "CFZH")
@pytest.mark.parametrize("chunk", [(5, 3), (1, 6, 1, 3), (3, 2, 5), (8, 1), (2,) * 7 + (17,)])
def test_orders(tmp_path, order, chunk):
    path, shape = tmp_path / "a", tuple(n + 1 for n in chunk[:2]) + chunk[2:]
    model = np.arange(prod(shape), dtype=">i4").reshape(shape)
    with xa.create(path, shape, ">i4", chunks=chunk, order=order) as array:
        array[...] = model
    assert equal(format_reader.read(path)[0], model)
    last = tuple(n - 1 for n in shape)
    assert format_reader.read_element(path, last) == model[last]


@pytest.mark.slow
def test_many_segments(tmp_path):
    path = tmp_path / "a"
    model = np.zeros((1, 1), "|u1")
    with xa.create(path, model.shape, "|u1", chunks=(1, 1)) as array:
        for s in range(1, 200):
            model = grow(array, model, s % 2, 1)
        array[...] = model = values(model.shape, "|u1", np.random.default_rng(1))
        while_open = copied(path, tmp_path / "copy")
    assert len(layers(path)[1].records) == 200 > 64 + 128
    assert equal(format_reader.read(path)[0], model)
    assert equal(format_reader.read(while_open)[0], model)
    for index in [(0, 0), (99, 100), (99, 99), (3, 98), (98, 3)]:
        assert format_reader.read_element(path, index) == model[index]


def test_many_segments_without_elements(tmp_path):
    path = tmp_path / "a"
    with xa.create(path, (0, 1, 1), chunks=(1, 1, 1)) as array:
        for s in range(1, 460):
            array.extend(1 + s % 2, 1)
    records = layers(path)[1].records
    assert len(records) == 460 > 64 + 128 + 256
    grids = [(0, [0, 1, 1]), (2, [0, 1, 1]), (1, [0, 1, 2])]
    assert records[:3] == [(axis, 0, grid, [0, 0, 0]) for axis, grid in grids]
    assert equal(format_reader.read(path)[0], np.empty((0, 230, 231)))


def test_attributes_move(tmp_path):
    path = tmp_path / "a"
    with xa.create(path, 3, "<i2", chunks=2) as array:
        expected = {}
        for i in range(12):
            array.attrs[f"größe {i}"] = expected[f"größe {i}"] = "€" * 2**i
            copy = copied(path, tmp_path / "copy")
            assert format_reader.read(copy)[1] == expected
        array.extend(0, 2)
    assert format_reader.read(path)[1] == expected


@pytest.mark.parametrize(("fields", "pages"), [(70, 1), (90, 2), (200, 3), (400, 6)])
def test_header_of_many_fields(tmp_path, fields, pages):
    dtype = np.dtype([(f"field {i}", "<f4") for i in range(fields)])
    path, model = tmp_path / "a", np.zeros(3, dtype)
    model[f"field {fields - 1}"] = 1, 2, 3
    with xa.create(path, 3, dtype, chunks=2) as array:
        array[...] = model
    assert layers(path)[0].size == 4096 * pages
    assert equal(format_reader.read(path)[0], model)


@pytest.mark.parametrize("fill", [0, 258])
def test_elements_outside_the_bounds_hold_the_fill_value(tmp_path, fill):
    path = tmp_path / "a"
    with xa.create(path, (3, 2), "<u2", chunks=(2, 3), fill_value=fill) as array:
        array[...] = 1
    header, _, principal = format_reader.opened(path)
    assert header.fill == [fill]
    blocks = np.frombuffer(principal, "<u2").reshape(2, 2, 3)
    assert blocks.tolist() == [[[1, 1, fill]] * 2, [[1, 1, fill], [fill] * 3]]


def test_an_index_outside_the_bounds(pair):
    for index in [(9, 0), (-1, 0), (0,), (0, 0, 0)]:
        with pytest.raises(ValueError, match="not inside the bounds"):
            format_reader.read_element(pair[0], index)


# --------------------------------------------------------------------------- damage and refusal


def refused(path, match):
    """Assert that both functions of the reader refuse the pair for this reason."""
    with pytest.raises(ValueError, match=match):
        format_reader.read(path)
    with pytest.raises(ValueError, match=match):
        format_reader.read_element(path, (0, 0))


def test_a_torn_superblock(pair):
    path, model = pair
    xmd = path.with_suffix(".xmd")
    state = layers(path)[1]
    patch(xmd, 4096 + 1024 * (state.sequence % 2) + 50)
    before = layers(path)[1]
    assert before.sequence == state.sequence - 1
    assert not before.sealed
    assert equal(format_reader.read(path)[0], model)
    patch(xmd, 4096 + 1024 * (before.sequence % 2) + 50)
    refused(
        path,
        "superblock at 4096 is damaged; the superblock at 5120 is damaged; the superblock at 8192",
    )


def test_the_older_state_has_the_older_bounds(tmp_path):
    path = tmp_path / "a"
    model = np.arange(6, dtype="<i4").reshape(2, 3)
    with xa.create(path, model.shape, "<i4", chunks=(2, 2)) as array:
        array[...] = model
        array.extend(0, 5)
        copied(path, tmp_path / "b")
    patch(tmp_path / "b.xmd", 4096 + 1024 * (layers(tmp_path / "b")[1].sequence % 2))
    assert equal(format_reader.read(tmp_path / "b")[0], model)


@pytest.mark.parametrize("record", [0, 1, 2])
@pytest.mark.parametrize("byte", [0, 4, 5, 6, 8, 23])
def test_a_damaged_record(pair, record, byte):
    patch(pair[0].with_suffix(".xmd"), LOG + 16 + 24 * record + byte)
    refused(pair[0], f"record {record} of the growth log is damaged")


def test_a_record_of_another_array(pair, tmp_path):
    other = tmp_path / "other"
    xa.create(other, (3, 4), "<i4", chunks=(2, 2)).close()
    at = slice(LOG + 16, LOG + 40)
    foreign = other.with_suffix(".xmd").read_bytes()[at]
    xmd = pair[0].with_suffix(".xmd")
    assert foreign[4:] == xmd.read_bytes()[at][4:]
    patch(xmd, at.start, foreign)
    refused(pair[0], "record 0 of the growth log is damaged")


def test_a_damaged_record_that_only_the_newer_state_needs(tmp_path):
    path = tmp_path / "a"
    model = np.arange(6, dtype="<i4").reshape(2, 3)
    with xa.create(path, model.shape, "<i4", chunks=(2, 2)) as array:
        array[...] = model
        array.extend(1, 5)
        copied(path, tmp_path / "b")
    patch(tmp_path / "b.xmd", LOG + 16 + 24)
    assert equal(format_reader.read(tmp_path / "b")[0], model)


def test_a_damaged_extent(tmp_path):
    path = tmp_path / "a"
    with xa.create(path, (0, 1, 1), chunks=(1, 1, 1)) as array:
        for s in range(1, 70):
            array.extend(1 + s % 2, 1)
    patch(path.with_suffix(".xmd"), LOG)
    with pytest.raises(ValueError, match="an extent of the growth log is damaged"):
        format_reader.read(path)


def test_damaged_attributes(pair):
    content = pair[0].with_suffix(".xmd").read_bytes()
    for found in re.finditer(re.escape(b'{"n":1}'), content):
        patch(pair[0].with_suffix(".xmd"), found.start() + 2)
    refused(pair[0], "the attributes are damaged")


@pytest.mark.parametrize("byte", [12, 16, 33, 36, 48, 66, 75])
def test_a_damaged_header(pair, byte):
    patch(pair[0].with_suffix(".xmd"), byte)
    refused(pair[0], "header")


def test_what_the_checksum_of_the_header_does_not_cover(pair):
    for at in (100, 4095):
        patch(pair[0].with_suffix(".xmd"), at)
    assert equal(format_reader.read(pair[0])[0], pair[1])


def test_a_wrong_magic(pair):
    patch(pair[0].with_suffix(".xmd"), 6, b"\n")
    refused(pair[0], "wrong magic")


def test_versions(pair):
    xmd = pair[0].with_suffix(".xmd")
    content = xmd.read_bytes()
    end = 48 + 16 + 5 + 4
    patch(xmd, 10, b"\x07\x00")
    patch(xmd, end, struct.pack("<I", format_reader.crc32c(xmd.read_bytes()[:end])))
    assert equal(format_reader.read(pair[0])[0], pair[1])  # a newer minor version
    for major in (0, 1, 3, 258):
        xmd.write_bytes(content[:8] + struct.pack("<H", major))  # later bytes are ignored
        refused(pair[0], f"major version {major} is not 2")


@pytest.mark.parametrize(
    ("at", "first", "last"),  # bytes specified as zero; range of their checksum
    [
        (44, 0, 73),
        (LOG + 12, None, None),
        (LOG + 16 + 6, LOG + 20, LOG + 40),
    ],
    ids=["header", "head of an extent", "record"],
)
def test_bytes_called_zero_are_ignored(pair, at, first, last):
    xmd = pair[0].with_suffix(".xmd")
    patch(xmd, at, b"\x05\x06")
    content = xmd.read_bytes()
    if first == 0:
        patch(xmd, last, struct.pack("<I", format_reader.crc32c(content[:last])))
    elif first:
        covered = content[16:32] + content[first:last]
        patch(xmd, first - 4, struct.pack("<I", format_reader.crc32c(covered)))
    assert equal(format_reader.read(pair[0])[0], pair[1])
    with xa.open(pair[0]) as array:
        assert equal(array[...], pair[1])


def test_a_foreign_partner(pair, tmp_path):
    path, other = pair[0], tmp_path / "other"
    xa.create(other, (9, 7), "<i4", chunks=(2, 2)).close()
    for change in (
        lambda xta: shutil.copyfile(f"{other}.xta", xta),
        lambda xta: xta.write_bytes(xta.read_bytes() + b"\0"),
        lambda xta: xta.write_bytes(xta.read_bytes()[:-1]),
    ):
        xta = copied(path, tmp_path / "copy").with_suffix(".xta")
        change(xta)
        refused(tmp_path / "copy", "do not belong together")


def with_state(path, records, grid, attrs=b"{}"):
    """Make superblock 0 of a pair with chunks of 1 claim other records and attributes."""
    xmd = path.with_suffix(".xmd")
    data = bytearray(xmd.read_bytes())
    header, k, crc = format_reader.parse_header(data), len(grid), format_reader.crc32c
    rows = [struct.pack(f"<BBH{k}q", side, axis, 0, *before) for axis, side, before in records]
    log = header.log + 16
    rows = b"".join(struct.pack("<I", crc(header.uuid + row)) + row for row in rows)
    data[log : log + len(rows)] = rows
    end = len(data)
    data += attrs
    chunks = max(prod(grid), 0)
    body = struct.pack("<IQQQQII", 0, 9, len(records), chunks, end, len(attrs), len(attrs))
    body += struct.pack("<QIIQ16x", 0, 0, crc(attrs), len(data))
    body += struct.pack(f"<{3 * k}q", *[0] * (2 * k), *grid)
    for i in range(5):
        at = format_reader.superblock_place(header, i)
        data[at : at + 4 + len(body)] = bytes(4 + len(body))
    data[header.size : header.size + 4 + len(body)] = struct.pack("<I", crc(body)) + body
    xmd.write_bytes(data)
    with path.with_suffix(".xta").open("wb") as xta:
        xta.truncate(chunks)


def both_take(path):
    """Tell whether the reader and the package, which must agree, open a pair."""
    try:
        format_reader.read(path)
    except ValueError:
        with pytest.raises(xa.FormatError):
            xa.open(path)
        return False
    xa.open(path).close()
    return True


@given(
    axis_side=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), max_size=4),
    by=st.lists(st.integers(0, 2), min_size=6, max_size=6),
    changes=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(-1, 2)), max_size=1
    ),
)
@QUICK
def test_the_rules_of_the_records(folder, axis_side, by, changes):
    """The reader and the package agree on whether a change, if any, spoils a history."""
    path = free(folder / "history")
    xa.create(path, (0, 0), "|u1", chunks=(1, 1)).close()
    grid, records, history = [0, by[0]], [], [(0, 0), *axis_side]
    for n, (axis, side) in enumerate(history):
        if history[n - 1 : n] != [(axis, side)]:
            records.append([axis, side, *grid])
        grid[axis] += by[n + 1]
    records.append([0, 0, *grid])
    for row, column, value in changes:
        records[row % len(records)][column] = value % 256 if column < 2 else value
    with_state(path, [(a, s, g) for a, s, *g in records[:-1]], records[-1][2:])
    taken = both_take(path)
    assert taken or changes


@pytest.mark.parametrize(
    ("records", "grid", "taken"),
    [
        ([(0, 0, [0, 2])], [3, 2], True),
        ([(0, 0, [0, 2])], [3, 3], False),  # another axis has grown
        ([(0, 0, [1, 2])], [3, 2], False),  # does not begin with 0 chunks
        ([(1, 0, [0, 2])], [0, 2], False),  # record 0 must have axis 0
        ([(0, 1, [0, 2])], [3, 2], False),  # and side 0
        ([(0, 0, [0, -2])], [0, -2], False),
        ([(0, 0, [0, 2]), (0, 0, [1, 2])], [3, 2], False),  # must be one segment
        ([(0, 0, [0, 2]), (0, 1, [1, 2])], [3, 2], True),
        ([(0, 0, [0, 2]), (1, 0, [3, 2])], [3, 1], False),  # shrinks
        ([(0, 0, [0, 2]), (2, 0, [3, 2])], [3, 2], False),  # no such axis
        ([(0, 0, [0, 2]), (1, 2, [3, 2])], [3, 2], False),  # no such side
        ([(0, 0, [0, 2**32]), (1, 0, [0, 2**32])], [0, 2**33], True),
        ([(0, 0, [0, 2**32, 2**32])], [0, 2**32, 2**32], False),  # a coefficient of 2**64
        ([(0, 0, [0, 2**32, 0])], [2**32, 2**32, 0], False),  # a product of 2**64
        ([(0, 0, [0, 0, 2**32]), (1, 0, [2**32, 0, 2**32])], [2**32, 0, 2**32], False),
        ([(0, 0, [])], [], True),
        ([(1, 0, [])], [], False),
        ([(0, 0, []), (0, 1, [])], [], False),
    ],
)
def test_rules_of_records(tmp_path, records, grid, taken):
    path = tmp_path / "a"
    xa.create(path, (0,) * len(grid), "|u1", chunks=(1,) * len(grid)).close()
    with_state(path, records, grid)
    assert both_take(path) == taken


@pytest.mark.parametrize(
    ("attrs", "taken"),
    [
        ('{"a":[1,2.5,null,true,"ä"]}', True),
        ('{"a":%s}' % ("9" * 4300), True),
        ('{"a":%s}' % ("9" * 4301), False),
        ('{"a":1e308}', True),
        ('{"a":1e309}', False),
        ('{"a":NaN}', False),
        ('{"a":-Infinity}', False),
        ('{"a":"\\ud83d\\ude00"}', True),
        ('{"a":"\\ud83d"}', False),
        ('{"\\ude00":1}', False),
        ('{"a":%s}' % ("[" * 100 + "]" * 100), True),
        ("[]", False),
        ("1", False),
        ("", False),
        ("{", False),
        ("\ufeff{}", False),
    ],
    ids=lambda value: str(value)[:12],
)
def test_attributes_that_are_none(tmp_path, attrs, taken):
    path = tmp_path / "a"
    xa.create(path, (0,), "|u1", chunks=1).close()
    with_state(path, [(0, 0, [0])], [0], attrs.encode())
    assert both_take(path) == taken


SEAL = b"\x89XTA sealed:\r\n\x1a\n"


@pytest.fixture(params=["sealed", "not sealed"])
def grown_since_the_flush(request, tmp_path):
    """A pair with 504 bytes of chunks, 252 of them since the last flush; and its uuid."""
    path = tmp_path / "grown"
    array = xa.create(path, (252,), "|u1", chunks=(252,), fill_value=7)
    array.flush()
    array.extend(0, 252)
    if request.param == "not sealed":
        copied(path, tmp_path / "copy")
    array.close()
    if request.param == "not sealed":
        path = copied(tmp_path / "copy", path)
    return path, request.param, path.with_suffix(".xmd").read_bytes()[16:32]


def table_of_the_page():
    """Return the page's rules for each end of `.xta`, for sealed and unsealed states."""
    page = (PAGES / "index.md").read_text("utf-8")
    table = page.split("| `.xta` ends with |")[1].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {end: {"sealed": sealed, "not sealed": other} for end, sealed, other in rows}


@pytest.mark.parametrize(
    ("row", "length", "end"),
    [
        (0, 504, "own"),
        (1, 512, "own"),
        (2, 503, "own"),
        (2, 472, "own"),
        (3, 471, "own"),
        (3, 252, "own"),
        (4, 504, "none"),
        (4, 600, "none"),
        (4, 504, "torn at a sector"),
        (4, 520, "torn"),
        (5, 503, "none"),
        (5, 252, "none"),
        (6, 504, "another"),
        (6, 600, "another"),
        (6, 520, "another of 2.0"),
        (7, 472, "another"),
        (7, 480, "another of 2.0"),
        (8, 230, "another"),
        (8, 221, "another of 2.0"),
    ],
)
def test_the_table_of_the_page(grown_since_the_flush, row, length, end):
    path, state, uuid = grown_since_the_flush
    said = list(table_of_the_page().values())[row][state]
    own, others = SEAL + uuid, bytes([~uuid[0] & 255]) + bytes(11)
    another = SEAL + others
    another += struct.pack("<I", zlib.crc32(another))
    ends = {
        "own": own,
        "none": b"",
        "another": another,
        "another of 2.0": SEAL + others + bytes(4),
        "torn": own[:20] + bytes(12),
        "torn at a sector": own[:8] + bytes(24),
    }
    content = b"\7" * length + ends[end]
    path.with_suffix(".xta").write_bytes(content)
    if said == "refuse":
        refused(path, "do not belong together")
        with pytest.raises(xa.PartnerError):
            xa.open(path)
        return
    expected = np.frombuffer(content, "u1")[: 504 if said == "accept" else 252]
    assert equal(format_reader.read(path)[0], expected)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with xa.open(path) as array:
            assert equal(array[...], expected)
    assert [w.category for w in caught] == [xa.RecoveryWarning] * (said == "recover")


def test_bytes_too_few_for_a_seal_are_none(tmp_path):
    """An array without chunks has a torn seal."""
    path = tmp_path / "a"
    array = xa.create(path, (0,), "|u1", chunks=4)
    copied(path, tmp_path / "b")
    array.close()
    (tmp_path / "b.xta").write_bytes(path.with_suffix(".xta").read_bytes()[:20])
    assert equal(format_reader.read(tmp_path / "b")[0], np.empty(0, "u1"))
    xa.open(tmp_path / "b").close()


def test_a_short_principal_array(pair, tmp_path):
    array = xa.open(pair[0], "r+")
    array.extend(0, 3)
    while_open = copied(pair[0], tmp_path / "copy")
    array.close()
    for path in (pair[0], while_open):
        xta = path.with_suffix(".xta")
        xta.write_bytes(xta.read_bytes()[:100])  # less than any state needs
        refused(path, "the .xta is too short")


def test_bytes_behind_the_data_of_an_unsealed_array(pair, tmp_path):
    array = xa.open(pair[0], "r+")
    array.extend(0, 3)
    expected = array[...]
    while_open = copied(pair[0], tmp_path / "copy")
    array.close()
    with open(f"{while_open}.xta", "ab") as xta:
        xta.write(b"\1" * 1000)
    assert equal(format_reader.read(while_open)[0], expected)


@pytest.mark.parametrize("suffix", [".xmd", ".xta"])
def test_cut_anywhere(pair, suffix):
    file = pair[0].with_suffix(suffix)
    content = file.read_bytes()
    used = len(content.rstrip(b"\0"))
    for length in {*range(0, used, 97), *range(100), used - 1}:
        file.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"."):
            format_reader.read(pair[0])


# ----------------------------------------------------------------------------- pairs made at random


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    seeds = fuzz_pairs.seeds(tmp_path_factory.mktemp("seeds"))
    return lambda data: fuzz_pairs.changed(seeds, Dice(data))


@pytest.mark.slow
@given(data=st.binary(min_size=20, max_size=100))
@settings(QUICK, max_examples=200)
def test_the_reader_and_the_package_take_the_same_pairs(folder, changed, data):
    """Changed pairs, with checksums corrected, open in the same states."""
    path = folder / "changed"
    changed(data).store(path)
    if path.with_suffix(".xta").stat().st_size > 1 << 24:
        return  # the reader would read all of it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xa.RecoveryWarning)
        try:
            with xa.open(path) as array:
                expected = array._store.now.state.sequence, array.shape, dict(array.attrs)
        except (xa.StorageError, xa.MissingExtraError):
            return  # the page leaves this case to readers
        except xa.FormatError:
            expected = None
    try:
        _, state, _ = format_reader.opened(path)
        assert (state.sequence, tuple(state.bounds), state.attrs) == expected
    except ValueError:
        assert expected is None


# --------------------------------------------------------------------------------- the page itself


def test_checksum():
    assert format_reader.crc32c(b"123456789") == 0xE3069283


def test_positions_of_the_page():
    page = (PAGES / "reading.md").read_text("utf-8")
    rows = re.search(r"  Z   (.*?)```", page, re.DOTALL)[1].replace("H", " ").splitlines()
    table = np.array([row.split() for row in rows[:3]], int)
    for order, columns in (("Z", slice(5)), ("H", slice(5, 10))):
        assert equal(format_reader.positions((3, 5), order), table[:, columns])


def stated(line):
    """Return (offset, byte or None) pairs of one line of the example; None: not specified."""
    offset, rest = re.match(r" *(\d+)  (.*)", line).groups()
    found, at = [], int(offset)
    while token := re.match(r" *(?:([0-9A-F]{2})( …)?|\((\d+) bytes\))(?= |$)", rest):
        value, wide, free = token.groups()
        found += [None] * int(free) if free else [int(value, 16), *([0] * 7 if wide else [])]
        rest = rest[token.end() :]
    return [(at + i, byte) for i, byte in enumerate(found)]


def test_example_of_the_pages(tmp_path):
    path = tmp_path / "tiny"
    a = xa.create(path, shape=(2, 3), dtype="<u2", chunks=(2, 2))
    a[...] = [[1, 2, 3], [4, 5, 6]]
    a.extend(0, 1)
    a.close()
    xmd, xta = (path.with_suffix(suffix).read_bytes() for suffix in (".xmd", ".xta"))
    page = (PAGES / "example.md").read_text("utf-8")
    blocks = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    said = [
        [pair for line in block.splitlines() if re.match(r" *\d", line) for pair in stated(line)]
        for block in blocks
    ]
    assert len(said) == 3
    for content, pairs in zip((xta, xmd, xmd), said, strict=True):
        for at, byte in pairs:
            assert byte is None or content[at] == byte, at
    # The example is complete: its offsets are consecutive.
    assert [at for at, _ in said[0]] == list(range(64)) == list(range(len(xta)))
    assert [at for at, _ in said[1]] == list(range(75))
    assert [at for at, _ in said[2]] == list(range(4096, 4232))
    assert xta[48:] == xmd[16:32]
    crc = format_reader.crc32c
    assert crc(xmd[:71]) == int.from_bytes(xmd[71:75], "little")
    assert crc(xmd[4100 : 4096 + 88 + 48]) == int.from_bytes(xmd[4096:4100], "little")
    record = xmd[12816:12840]
    assert record[4:] == struct.pack("<BBHqq", 0, 0, 0, 0, 2)
    assert crc(xmd[16:32] + record[4:]) == int.from_bytes(record[:4], "little")
    assert xmd[12800:12808] == bytes(8)
    assert crc(xmd[16:32] + bytes(8)) == int.from_bytes(xmd[12808:12812], "little")
    attrs_at, length = struct.unpack("<QI", xmd[4128:4140])
    assert xmd[attrs_at : attrs_at + length] == b"{}"
    assert format_reader.read(path)[0].tolist() == [[1, 2, 3], [4, 5, 6], [0, 0, 0]]


def rows_of(page, heading):
    """Return the rows of the table below a line of a page, as lists of cells."""
    table = (PAGES / page).read_text("utf-8").split(heading)[1].split("\n\n")[0].splitlines()
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table[2:]]


def test_the_floats_of_a_byte():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    table = rows_of("optional.md", "| name | sign |")
    assert len(table) == 11
    for name, *numbers, infinities, nan in table:
        sign, exponent, mantissa, bias = map(int, numbers)
        bits = sign + exponent + mantissa
        dtype = np.dtype(getattr(ml_dtypes, name))
        for byte, found in enumerate(np.arange(2**bits, dtype="u1").view(dtype).astype("f8")):
            e, m = byte >> mantissa & 2**exponent - 1, byte & 2**mantissa - 1
            ones = e == 2**exponent - 1
            value = (-1) ** (sign and byte >> bits - 1) * float(
                2.0 ** (e - bias) * (1 + m / 2**mantissa)
                if e or not mantissa
                else 2.0 ** (1 - bias) * m / 2**mantissa
            )
            if infinities == "yes" and ones and not m:
                value *= np.inf
            is_nan = {
                "exponent of ones, other mantissas": ones and m,
                "all bits but the sign are ones": ones and m == 2**mantissa - 1,
                "none": False,
            }
            is_nan = is_nan[nan] if nan in is_nan else byte == int(nan, 16)
            assert np.isnan(found) if is_nan else found == value, (name, byte)


def test_the_integers_of_less_than_a_byte():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    raw = np.arange(256, dtype="u1")
    for bits in (1, 2, 4):
        low = raw.astype("i8") & 2**bits - 1
        unsigned, signed = (getattr(ml_dtypes, f"{kind}{bits}") for kind in ("uint", "int"))
        assert raw.view(unsigned).astype("i8").tolist() == low.tolist()
        expected = low - 2**bits * (low >> bits - 1)
        assert raw.view(signed).astype("i8").tolist() == expected.tolist()


PARTS = {
    "date": ["2024-05-01", "0001-01-01", "2023-02-29", "0000-01-01", "24-5-1", "2024-W01-1"],
    "time": ["12:30:00", "23:59:60", "24:00:00", "12:30", "12:30:00.000250", "12:30:00.00025"]
    + ["12:30:00.000000", "00:00:00", "1２:30:00", "123000"],
    "offset": ["", "+02:00", "-00:00", "+00:00", "Z", "+24:00", "-23:59", "+02:00:30", "+02:00:00"]
    + ["-00:00:30", "+01:00:00.000000", "+0200", "+01:30:59.999999", "+02"],
}  # fmt: skip


@pytest.mark.parametrize("kind", ["date", "time", "datetime"])
def test_the_grammar_of_dates_and_times(kind):
    days = PARTS["date"] if kind != "time" else [""]
    clocks = list(product(PARTS["time"], PARTS["offset"])) if kind != "date" else [("", "")]
    taken = 0
    for day, (clock, offset) in product(days, clocks):
        for between in ["T", " ", "t"] if kind == "datetime" else [""]:
            form = {"$type": kind, "value": f"{day}{between}{clock}{offset}"}
            found = from_json(form)
            assert found == format_reader.value_of(form)
            assert type(found) is type(format_reader.value_of(form))
            taken += found != form
    assert taken == {"date": 2, "time": 3 * 7, "datetime": 2 * 3 * 7}[kind]


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "25s"])
def test_dates_in_lists(unit):
    texts = ["2024", "-0044-03-15", "2024-05", "2024-05-01", "2024-05-01T12", "2024-05-01T12:30"]
    texts += ["2024-05-01T12:30:00", "2024-05-01T12:30:00.25", "NaT", "24", "2024-5", "now", "nat"]
    for text in [*texts, "2024-05-01T", "2024-05-01 12", "2024-02-30", "2024-05-01T12:30:00Z"]:
        form = {"$type": "array", "dtype": f"<M8[{unit}]", "data": [text]}
        found, expected = from_json(form), format_reader.value_of(form)
        assert type(found) is type(expected), text
        if isinstance(found, np.ndarray):
            found, expected = found.view("i8").tolist(), expected.view("i8").tolist()
        assert found == expected, text
