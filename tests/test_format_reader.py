"""The page docs/format.md, the package, and the reader written from the page agree."""

import re
import shutil
import struct
from itertools import product
from math import prod
from pathlib import Path

import format_reader
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import extarray as xa

PAGE = (Path(__file__).parents[1] / "docs" / "format.md").read_text("utf-8")

RECORD = np.dtype([("ä", ">i4"), ("grid", "<u2", (2, 3)), ("in", [("x", "S3"), ("y", "U2")])])
ALIGNED = np.dtype([("flag", "?"), (("a title", "number"), "<f8"), ("b", "u1")], align=True)
NUMBERS = ["<u2", ">u2", "|i1", "|u1", "<i4", ">i4", "<i8", ">u8", "<f4", ">f8", "<f2", "<c16", "?"]
OTHERS = ["<M8[ms]", ">M8[D]", "<m8[25s]", "S1", "S5", "<U3", ">U2", "V3", RECORD, ALIGNED]

# Examples write to one folder again and again; the names are new ones.
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def values(shape, dtype, rng):
    """Random values of any type."""
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
    """Equal in type, shape and values."""
    same = result.dtype == expected.dtype and result.shape == expected.shape
    return same and np.array_equal(result, expected)


def copied(path, to):
    """A copy of the pair as it is now."""
    for suffix in (".xmd", ".xta"):
        shutil.copyfile(f"{path}{suffix}", f"{to}{suffix}")
    return to


def layers(path):
    """The header and the present state, as the reader sees them."""
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
    """A sealed pair with 3 segments, and what it holds."""
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
    path = folder / "random"
    array = xa.create(
        path, shape, dtype, chunks=chunk, order=draw(st.sampled_from("CFZH")), attrs=attrs,
        fill_value=draw(st.sampled_from([0, 1])) if dtype in map(np.dtype, NUMBERS) else 0,
        sparse=draw(st.booleans()), engine=draw(st.sampled_from(["mmap", "pread"])),
        overwrite=True,
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
    """Every chunk has its own address, and the other two rules of the page tell the same."""
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
    """The last segment that starts at or before the address."""
    return [record for record in records if prod(record[2]) <= q][-1]


def inverse(records, q):
    """The chunk index of an address."""
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
    """Of the segments selected, one an axis, that with the greatest start address; the later."""
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


@pytest.mark.parametrize(("fields", "pages"), [(70, 1), (80, 2), (200, 3), (400, 6)])
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
    """Both functions of the reader refuse the pair, for this reason."""
    with pytest.raises(ValueError, match=match):
        format_reader.read(path)
    with pytest.raises(ValueError, match=match):
        format_reader.read_element(path, (0, 0))


def test_a_torn_superblock(pair):
    path, model = pair
    xmd = path.with_suffix(".xmd")
    state = layers(path)[1]
    patch(xmd, 4096 + 4096 * (state.sequence % 2) + 50)
    before = layers(path)[1]
    assert before.sequence == state.sequence - 1
    assert not before.sealed
    assert equal(format_reader.read(path)[0], model)
    patch(xmd, 4096 + 4096 * (before.sequence % 2) + 50)
    refused(path, "superblock 0 is damaged; superblock 1 is damaged; superblock 2 is damaged")


def test_the_older_state_has_the_older_bounds(tmp_path):
    path = tmp_path / "a"
    model = np.arange(6, dtype="<i4").reshape(2, 3)
    with xa.create(path, model.shape, "<i4", chunks=(2, 2)) as array:
        array[...] = model
        array.extend(0, 5)
        copied(path, tmp_path / "b")
    patch(tmp_path / "b.xmd", 4096 + 4096 * (layers(tmp_path / "b")[1].sequence % 2))
    assert equal(format_reader.read(tmp_path / "b")[0], model)


@pytest.mark.parametrize("record", [0, 1, 2])
@pytest.mark.parametrize("byte", [0, 4, 5, 6, 8, 23])
def test_a_damaged_record(pair, record, byte):
    patch(pair[0].with_suffix(".xmd"), 4096 * 12 + 16 + 24 * record + byte)
    refused(pair[0], f"record {record} of the growth log is damaged")


def test_a_record_of_another_array(pair, tmp_path):
    other = tmp_path / "other"
    xa.create(other, (3, 4), "<i4", chunks=(2, 2)).close()
    at = slice(4096 * 12 + 16, 4096 * 12 + 40)
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
    patch(tmp_path / "b.xmd", 4096 * 12 + 16 + 24)
    assert equal(format_reader.read(tmp_path / "b")[0], model)


def test_a_damaged_extent(tmp_path):
    path = tmp_path / "a"
    with xa.create(path, (0, 1, 1), chunks=(1, 1, 1)) as array:
        for s in range(1, 70):
            array.extend(1 + s % 2, 1)
    patch(path.with_suffix(".xmd"), 4096 * 12)
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
    for at in (100, 4096 - 64, 4095):
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
    patch(xmd, 8, b"\x02\x00")
    refused(pair[0], "major version 2 is newer")
    xmd.write_bytes(content[:8] + b"\x02\x01")  # nothing behind the version is looked at
    refused(pair[0], "major version 258 is newer")


@pytest.mark.parametrize(
    ("at", "first", "last"),  # the bytes called zero; what their checksum covers
    [
        (44, 0, 73),
        (4096 * 12 + 12, None, None),
        (4096 * 12 + 16 + 6, 4096 * 12 + 20, 4096 * 12 + 40),
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


def test_a_short_principal_array(pair, tmp_path):
    array = xa.open(pair[0], "r+")
    array.extend(0, 3)
    while_open = copied(pair[0], tmp_path / "copy")
    array.close()
    for path in (pair[0], while_open):
        xta = path.with_suffix(".xta")
        xta.write_bytes(xta.read_bytes()[: layers(path)[1].data_bytes - 1])
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


# --------------------------------------------------------------------------------- the page itself


def test_checksum():
    assert format_reader.crc32c(b"123456789") == 0xE3069283


def test_positions_of_the_page():
    rows = re.search(r"  Z   (.*?)```", PAGE, re.DOTALL)[1].replace("H", " ").splitlines()
    table = np.array([row.split() for row in rows[:3]], int)
    for order, columns in (("Z", slice(5)), ("H", slice(5, 10))):
        assert equal(format_reader.positions((3, 5), order), table[:, columns])


def stated(line):
    """(offset, byte or None) of one line of the example; None is a byte left open."""
    offset, rest = re.match(r" *(\d+)  (.*)", line).groups()
    found, at = [], int(offset)
    while token := re.match(r" *(?:([0-9A-F]{2})( …)?|\((\d+) bytes\))(?= |$)", rest):
        value, wide, free = token.groups()
        found += [None] * int(free) if free else [int(value, 16), *([0] * 7 if wide else [])]
        rest = rest[token.end() :]
    return [(at + i, byte) for i, byte in enumerate(found)]


def test_example_of_the_page(tmp_path):
    path = tmp_path / "tiny"
    a = xa.create(path, shape=(2, 3), dtype="<u2", chunks=(2, 2))
    a[...] = [[1, 2, 3], [4, 5, 6]]
    a.extend(0, 1)
    a.close()
    xmd, xta = (path.with_suffix(suffix).read_bytes() for suffix in (".xmd", ".xta"))
    section = PAGE.split("## An example to the byte")[1].split("\n## ")[0]
    blocks = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    said = [
        [pair for line in block.splitlines() if re.match(r" *\d", line) for pair in stated(line)]
        for block in blocks
    ]
    assert len(said) == 3
    for content, pairs in zip((xta, xmd, xmd), said, strict=True):
        for at, byte in pairs:
            assert byte is None or content[at] == byte, at
    # Nothing is left out: the offsets follow one another.
    assert [at for at, _ in said[0]] == list(range(64)) == list(range(len(xta)))
    assert [at for at, _ in said[1]] == list(range(75))
    assert [at for at, _ in said[2]] == list(range(4096, 4232))
    assert xta[48:] == xmd[16:32]
    crc = format_reader.crc32c
    assert crc(xmd[:71]) == int.from_bytes(xmd[71:75], "little")
    assert crc(xmd[4100 : 4096 + 88 + 48]) == int.from_bytes(xmd[4096:4100], "little")
    record = xmd[49168:49192]
    assert record[4:] == struct.pack("<BBHqq", 0, 0, 0, 0, 2)
    assert crc(xmd[16:32] + record[4:]) == int.from_bytes(record[:4], "little")
    assert xmd[49152:49160] == bytes(8)
    assert crc(xmd[16:32] + bytes(8)) == int.from_bytes(xmd[49160:49164], "little")
    attrs_at, length = struct.unpack("<QI", xmd[4128:4140])
    assert xmd[attrs_at : attrs_at + length] == b"{}"
    assert format_reader.read(path)[0].tolist() == [[1, 2, 3], [4, 5, 6], [0, 0, 0]]
