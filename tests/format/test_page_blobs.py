"""Chunks in blobs: the package and a reader written from the page accept the same files.

Readers of format 2 refuse them by the version.
"""

from __future__ import annotations

import contextlib
import struct
import warnings
import zipfile
from itertools import accumulate, product

import blob_reader
import c_reader
import format_reader
import numpy as np
import pytest
from dice import Dice
from grown_arrays import KINDS, grown
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from systems import needs_replaced_open_files

import extarray as xa
from extarray.codecs._filters import bit_shuffle, shuffle
from extarray.codecs.libraries import compress
from extarray.codecs.payloads import Encoded, decode_into, encode
from extarray.common.limits import limits
from extarray.format._crc import crc32c
from extarray.format.blobs import (
    MIXED,
    BlobsBlock,
    decode_blobs_block,
    encode_blobs_block,
    entry_places,
    extents_for,
)
from extarray.storage.names import Packed

QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_written_from_the_page_reads_every_kind(kind, tmp_path):
    with grown(tmp_path / "a", **KINDS[kind]) as a:
        a.attrs["n"] = 3
        for order in ("hilbert", "morton", 0, 1):
            for codec in (None, "zstd:shuffle", "lz4", "zlib:bitshuffle"):
                xa.pack(a, tmp_path / "a.xap", order=order, compression=codec, overwrite=True)
                elements, attrs = blob_reader.read_packed((tmp_path / "a.xap").read_bytes())
                assert elements.dtype == a.dtype
                assert np.array_equal(elements, a[...])
                assert attrs == dict(a.attrs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "codec", ["zstd", "zstd:3:shuffle", "zstd:bitshuffle", "auto", "lz4:shuffle", "zlib:1"]
)
@pytest.mark.parametrize("chunks", [(10, 13), (300, 450)], ids=["frames", "parts"])
def test_a_reader_written_from_the_page_decodes(codec, chunks, tmp_path):
    x = np.add.outer(np.arange(310) // 3, np.arange(470) // 7).astype("f4")
    x[:20, :13] = np.random.default_rng(0).normal(size=(20, 13))
    x[20:40, :40] = 7
    with xa.from_array(x, tmp_path / "a", chunks=chunks) as a:
        xa.pack(a, tmp_path / "a.xap", compression=codec)
    image = (tmp_path / "a.xap").read_bytes()
    assert len(image) < x.nbytes * 0.7
    assert np.array_equal(blob_reader.read_packed(image)[0], x)
    with xa.open(tmp_path / "a.xap") as a:
        assert np.array_equal(a[...], x)


def filtered_bytes(codec, data, size):
    out = bytearray(data)
    {None: lambda *_: None, "shuffle": shuffle, "bitshuffle": bit_shuffle}[codec.filter](
        out, data, size
    )
    return out


@given(hnp.arrays(st.sampled_from(["u1", "i2", "S3", "f4"]), st.integers(1, 70)), st.data())
def test_the_page_and_the_package_decode_the_same_payloads(x, data):
    name = data.draw(st.sampled_from(["zstd", "lz4", "zlib"]))
    codec = xa.Codec(name, filter=data.draw(st.sampled_from([None, "shuffle", "bitshuffle"])))
    size, whole = x.itemsize, memoryview(x.view("u1"))
    found = encode(codec, whole, size)
    if data.draw(st.booleans()):  # as of a large chunk
        side = data.draw(st.sampled_from([n for n in range(1, len(x) + 1) if len(x) % n == 0]))
        sides = len(x) // side, side
        steps = tuple(data.draw(st.integers(1, n)) for n in sides)
        elements = x.view("u1").reshape(*sides, size)
        corners = product(*(range(0, n, m) for n, m in zip(sides, steps, strict=True)))
        frames = []
        for i, j in corners:
            part = elements[i : i + steps[0], j : j + steps[1]].tobytes()
            frames.append(compress(codec, filtered_bytes(codec, part, size)))
        p = len(frames)
        ends = accumulate(map(len, frames), initial=4 * (5 + 2 * p))
        words = [2, *sides, *steps, *list(ends)[1:], *map(crc32c, frames)]
        payload = struct.pack(f"<{len(words)}I", *words) + b"".join(frames)
        found = Encoded(codec.id, codec.filter_id, p, payload)
    payload = bytearray(found.payload)
    if payload and data.draw(st.booleans()):
        payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    out = memoryview(bytearray(x.nbytes))
    try:
        expected = blob_reader.chunk_of_payload(*found[:3], bytes(payload), x.nbytes, size)
    except ValueError:
        with pytest.raises(xa.CorruptError):
            decode_into(out, *found[:3], memoryview(payload), size)
    else:
        decode_into(out, *found[:3], memoryview(payload), size)
        assert bytes(out) == expected


def test_many_chunks_have_several_extents(tmp_path):
    x = np.arange(90 * 80, dtype="u2").reshape(90, 80)
    x[30:60] = 0
    with xa.create(tmp_path / "a", (45, 80), "u2", chunks=(2, 1)) as a:
        a.extend(0, 45)
        a[...] = x
        xa.pack(a, tmp_path / "a.xap", order="morton")
        n_chunks = a.axial.size
    image = (tmp_path / "a.xap").read_bytes()
    members = format_reader.members_of(image)
    header = blob_reader.parse_header(members["a.xmd"][0])
    blobs = members["a.xtz"][0]
    *_, extents = blob_reader.parse_block(members["a.xmd"][0], header, n_chunks, len(blobs))
    assert [n for _, n in extents] == [1024, 2048, n_chunks - 3072]
    assert np.array_equal(blob_reader.read_packed(image)[0], x)
    with xa.open(tmp_path / "a.xap") as a:
        assert np.array_equal(a[...], x)


@given(
    st.integers(1, 2**40),
    st.lists(st.integers(0, 2**40 - 1), min_size=1, max_size=9),
)
def test_an_entry_is_where_the_page_says(n_chunks, addresses):
    n = extents_for(n_chunks)
    assert 1024 * (2**n - 1) >= n_chunks > 1024 * (2 ** (n - 1) - 1)
    starts = [64 + 8 * 10**13 * e for e in range(n)]
    block = BlobsBlock(bytes(16), 0, tuple(starts))
    found = entry_places(block, np.array([q % n_chunks for q in addresses]))
    for q, at in zip(addresses, found.tolist(), strict=True):
        q %= n_chunks
        e = (q // 1024 + 1).bit_length() - 1
        assert at == starts[e] + 8 * (q - 1024 * (2**e - 1))


def test_a_large_table_is_read_by_entries(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "table_bytes", 0)
    with grown(tmp_path / "a") as a:
        expected = a[...]
        xa.pack(a, tmp_path / "a.xap", order="hilbert")
    with xa.open(tmp_path / "a.xap") as a:
        assert a[1, 2] == expected[1, 2]
        assert np.array_equal(a[...], expected)
        n_chunks = a.axial.size
    xa.unpack(tmp_path / "a.xap", tmp_path / "b")
    image = bytearray((tmp_path / "a.xap").read_bytes())
    with Packed.find(tmp_path / "a.xap") as packed:
        member = packed.blobs["a"]
    end = member.start + member.size
    image[end - 8 * n_chunks : end] = bytes(8 * n_chunks)
    (tmp_path / "a.xap").write_bytes(image)
    with (
        xa.open(tmp_path / "a.xap") as a,
        pytest.raises(xa.ChecksumError, match="leads to no blob"),
    ):
        a[...]
    with pytest.raises(xa.CorruptError, match="table of blobs is damaged"):
        xa.unpack(tmp_path / "a.xap", tmp_path / "c")


# -- readers of format 2 ---------------------------------------------------------------------------


def test_readers_of_format_2_refuse_the_version_and_read_the_rest(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        g["a"] = np.arange(6)
        b = g.create("b", (4, 4), "f4", chunks=(2, 2))
        b.extend(1, 2)
        b[...] = 1
        xa.pack(g, tmp_path / "g.xap", order="hilbert")
    packed = format_reader.parse_packed((tmp_path / "g.xap").read_bytes())
    assert format_reader.read_packed(packed.arrays["a"])[0].tolist() == [*range(6)]
    with pytest.raises(ValueError, match="major version 3 is not 2"):
        format_reader.read_packed(packed.arrays["b"])
    with zipfile.ZipFile(tmp_path / "g.xap") as file:
        file.extractall(tmp_path / "x")
    with pytest.raises(ValueError, match="major version 3 is not 2"):
        format_reader.read(tmp_path / "x" / "b")


@pytest.mark.slow
@pytest.mark.skipif(c_reader.compiler() is None, reason="there is no C compiler")
def test_the_reader_in_c_refuses_the_version(tmp_path):
    made = c_reader.compiled(tmp_path / "reader", c_reader.SOURCE)
    assert made.returncode == 0, made.stderr
    with grown(tmp_path / "a") as a:
        xa.pack(a, tmp_path / "a.xap", order="hilbert")
    with zipfile.ZipFile(tmp_path / "a.xap") as file:
        file.extractall(tmp_path / "x")
    try:
        reader = c_reader.CReader(tmp_path)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    with contextlib.closing(reader):
        assert "version" in reader.read(tmp_path / "x" / "a")
        assert "version" in reader.read(tmp_path / "a.xap")


# -- hostile files ---------------------------------------------------------------------------------


def parts_of(path):
    with zipfile.ZipFile(path) as file:
        return {name: bytearray(file.read(name)) for name in file.namelist()}


def put_together(path, parts):
    """Write a packed file with right CRC-32 sums."""
    with zipfile.ZipFile(path, "w") as file:
        for name, data in parts.items():
            file.writestr(name, bytes(data))


def plain_scene(folder):
    with xa.create(folder / "a", (5, 6), "<i2", chunks=(2, 2), fill_value=3) as a:
        a.extend(1, 3)
        a[...] = np.arange(45).reshape(5, 9)
        a[2:4, 2:4] = 3
        xa.pack(a, folder / "a.xap", order="hilbert")


def compressed_scene(folder):
    """Pack chunks of all kinds: compressed, raw, of one element, and of the fill value."""
    with xa.create(folder / "a", (24, 27), "<i2", chunks=(8, 9), fill_value=3) as a:
        a.extend(1, 18)
        a[...] = np.add.outer(np.arange(24) // 2, np.arange(45) // 3)
        a[:8, :9] = np.random.default_rng(0).integers(-(2**15), 2**15, (8, 9))
        a[8:16, 9:18] = 7
        a[16:, 9:18] = 3
        xa.pack(a, folder / "a.xap", compression="zstd:shuffle")


def divided_scene(folder):
    """Pack chunks that are cut into blocks."""
    with xa.create(folder / "a", (48, 100), "<i2", chunks=(16, 20), fill_value=3) as a:
        a[...] = np.add.outer(np.arange(48) // 2, np.arange(100) // 3)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "divided_bytes", 0)
            patch.setattr(limits, "block_bytes", 400)
            xa.pack(a, folder / "a.xap", compression="zstd:shuffle")


@pytest.fixture(scope="module", params=[plain_scene, compressed_scene, divided_scene])
def parts(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("blobs")
    request.param(folder)
    found = parts_of(folder / "a.xap")
    return lambda: {name: data[:] for name, data in found.items()}


def block_of(parts):
    """Return the offset of the block in .xmd, and the header."""
    header = blob_reader.parse_header(bytes(parts["a.xmd"]))
    return format_reader.optional_block(bytes(parts["a.xmd"]), header, 2), header


def sign_block(parts, at, header):
    sector = bytes(parts["a.xmd"][at + 4 : at + 512])
    struct.pack_into("<I", parts["a.xmd"], at, crc32c(header.uuid + sector))


def changed(parts, dice):
    """Change some fields of the block, the table, or blobs, and mend their checksums."""
    at, header = block_of(parts)
    blobs, data = parts["a.xtz"], parts["a.xmd"]
    uuid = bytes(data[at + 8 : at + 24])
    numbers = [0, 1, 2, 63, 64, 65, 255, 2**16 - 1, 2**24 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]
    numbers += [len(blobs), len(blobs) - 64, len(blobs) + 64]
    (table,) = struct.unpack_from("<Q", data, at + 64)
    parts_table = bytes(blobs[table : table + 120])
    for _ in range(1 + dice.below(3)):
        kind = dice.below(6)
        if kind == 0:  # the block
            layout, place = dice.pick(
                [("<I", 4), ("<Q", 24), ("<Q", 32), ("<H", 40), ("<H", 42), ("<I", 44), ("<I", 48)]
                + [("<Q", 64), ("<Q", 72)]
            )
            mask = 2 ** (8 * struct.calcsize(layout)) - 1
            (old,) = struct.unpack_from(layout, data, at + place)
            new = dice.pick([old + 1, old - 1, old ^ 1 << dice.below(64), dice.pick(numbers)])
            struct.pack_into(layout, data, at + place, new & mask)
        elif kind in (1, 2):  # the table
            q = dice.below(15)
            (old,) = struct.unpack_from("<Q", blobs, table + 8 * q)
            (other,) = struct.unpack_from("<Q", blobs, table + 8 * dice.below(15))
            new = dice.pick([other, old ^ 1 << dice.below(64), old + 1, old - 1])
            new = dice.pick([new, dice.pick(numbers), old + (dice.below(9) << 24)])
            struct.pack_into("<Q", blobs, table + 8 * q, new & 2**64 - 1)
            struct.pack_into("<I", data, at + 48, crc32c(bytes(blobs[table : table + 120])))
        elif kind in (3, 4):  # a blob
            entries = struct.unpack_from("<15Q", parts_table)
            blob = 64 * (dice.pick([entry for entry in entries if entry > 1]) >> 24)
            layout, place = dice.pick(
                [("<I", 4), ("<Q", 8), ("<Q", 16), ("<H", 24), ("<B", 26), ("<B", 27), ("<I", 28)]
                + [("<B", 32), ("<B", 33), ("<I", 32), ("<B", 40)]
                + [("<I", place) for place in range(32, 64, 4)]
            )
            mask = 2 ** (8 * struct.calcsize(layout)) - 1
            (old,) = struct.unpack_from(layout, blobs, blob + place)
            new = dice.pick([old + 1, old - 1, dice.pick(numbers)]) & mask
            struct.pack_into(layout, blobs, blob + place, new)
            (n,) = struct.unpack_from("<I", blobs, blob + 4)
            (p,) = struct.unpack_from("<I", blobs, blob + 28)
            if 32 + n <= len(blobs) - blob:
                head, payload = blobs[blob + 4 : blob + 32], blobs[blob + 32 : blob + 32 + n]
                with contextlib.suppress(ValueError):  # a table that ends nowhere
                    covered = blob_reader.covered(bytes(payload), p)
                    struct.pack_into("<I", blobs, blob, crc32c(uuid + bytes(head) + covered))
        elif dice.below(2):
            del blobs[dice.pick([len(blobs) - 1, 64, 63, 0, len(blobs) - 8]) :]
            if dice.below(2):
                struct.pack_into("<Q", data, at + 24, len(blobs))
        else:
            blobs[dice.below(len(blobs)) if blobs else 0 : None] += bytes([dice.below(256)])
        if len(blobs) < table + 120:
            break
    sign_block(parts, at, header)
    return parts


def seen_by_the_package(path):
    try:
        with xa.open(path) as a:
            return a[...].tolist()
    except xa.FormatError:
        return None


def seen_by_the_page(path):
    try:
        return blob_reader.read_packed(path.read_bytes())[0].tolist()
    except ValueError:
        return None


@needs_replaced_open_files
@pytest.mark.thread_unsafe  # examples write to the same file
@given(data=st.binary(min_size=30, max_size=60))
@settings(QUICK, max_examples=150)
def test_both_take_the_same_hostile_files(parts, tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "hostile.xap"
    put_together(path, changed(parts(), Dice(data)))
    expected = seen_by_the_page(path)
    assert seen_by_the_package(path) == expected
    report = xa.check(path, data=True)
    assert report.ok == (expected is not None), str(report)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if expected is None:
            with pytest.raises(xa.FormatError):
                xa.unpack(path, path.with_suffix(""), overwrite=True)
        else:
            xa.unpack(path, path.with_suffix(""), overwrite=True)
            with xa.open(path.with_suffix("")) as a:
                assert a[...].tolist() == expected


@pytest.mark.parametrize("n", [2**31, 55, 2, 0])
def test_a_block_with_a_huge_number_of_extents_is_refused(n):
    sector = bytearray(encode_blobs_block(BlobsBlock(bytes(16), 1000, (64,)), b"u" * 16))
    struct.pack_into("<I", sector, 4, n)
    struct.pack_into("<I", sector, 0, crc32c(b"u" * 16 + bytes(sector[4:])))
    with pytest.raises(xa.CorruptError):
        decode_blobs_block(bytes(sector), b"u" * 16, 10, 1000)


def test_blobs_of_later_codecs_and_filters_ask_for_a_newer_version(tmp_path):
    plain_scene(tmp_path)
    original = parts_of(tmp_path / "a.xap")

    def write(codec, filter_id, told):
        some = {name: data[:] for name, data in original.items()}
        at, header = block_of(some)
        struct.pack_into("<H", some["a.xmd"], at + 42, told)
        sign_block(some, at, header)
        uuid, blob = bytes(some["a.xmd"][at + 8 : at + 24]), 64
        struct.pack_into("<HB", some["a.xtz"], blob + 24, codec, filter_id)
        crc = crc32c(uuid + bytes(some["a.xtz"][blob + 4 : blob + 40]))
        struct.pack_into("<I", some["a.xtz"], blob, crc)
        put_together(tmp_path / "a.xap", some)

    for codec, filter_id, match in ((6, 0, "codec 6"), (4, 0, "codec 4"), (2, 3, "filter 3")):
        write(codec, filter_id, MIXED)
        with (
            xa.open(tmp_path / "a.xap") as a,
            pytest.raises(xa.VersionError, match=f"chunk 0 cannot be read: {match}.*newer version"),
        ):
            a[...]
        assert not xa.check(tmp_path / "a.xap", data=True).ok
    write(3, 0, 2)
    with (
        xa.open(tmp_path / "a.xap") as a,
        pytest.raises(xa.ChecksumError, match="codec 3 in place of 2"),
    ):
        a[...]
