"""Frozen chunks: the package and a reader written from the page read the same files."""

from __future__ import annotations

import json

import format_reader
import frozen_chunks
import frozen_reader
import numpy as np
import pytest
from blob_reader import parse_header
from frozen_chunks import (
    ENCODING,
    all_addresses,
    append,
    create,
    elements,
    freeze,
    put,
    put_chunk,
    table,
)
from hypothesis import given
from hypothesis import strategies as st

import extarray as xa
from extarray.codecs.payloads import Encoded
from extarray.common.errors import CorruptError, LimitError
from extarray.common.limits import limits
from extarray.format.blobs import encode_blobs_block
from extarray.format.frozen import (
    decode_frozen_block,
    encode_blob,
    encode_frozen_block,
    extent_bytes,
)
from extarray.format.header import Header, decode_header, encode_header, new_uuid


@pytest.mark.parametrize("order", "CFZH")
@pytest.mark.parametrize("fill", [0, 7])
def test_a_reader_written_from_the_page_reads_what_is_frozen(path, order, fill):
    rng = np.random.default_rng(1)
    with create(path, (4, 4), "i2", chunks=(2, 2), order=order, fill_value=fill) as a:
        a[...] = rng.integers(0, 99, (4, 4))
        for step in range(6):
            a.append(rng.integers(0, 99, (2, a.shape[1])).astype("i2"))
            a.append(rng.integers(0, 99, (a.shape[0], 2)).astype("i2"), axis=1)
            freeze(a, rng.permutation(a.axial.size)[: 3 * step + 2])
            if step % 2:
                a.flush()
            table(a).thaw(rng.permutation(a.axial.size)[:step])
        freeze(a, np.arange(3))
        a.attrs["n"] = 1
        expected = elements_in_order(a)
        number = table(a).number
    found, attrs = frozen_reader.read(path)
    assert np.array_equal(found, expected)
    assert attrs == {"n": 1}
    assert frozen_reader.number_of_freezes(path) >= number > 0
    with xa.open(path, "r+") as a:
        table(a).thaw(all_addresses(a))
        assert np.array_equal(a[...], expected)


def elements_in_order(array):
    """Return the elements by a copy of the files in which everything is raw."""
    frozen_ones = table(array).frozen(0, array.axial.size)
    live = table(array).entries(frozen_ones)
    table(array).thaw(frozen_ones)
    found = array[...]
    table(array).store_live(frozen_ones, live)
    return found


def test_many_chunks_have_several_extents(path):
    with create(path, (4000,), "u1", chunks=1) as a:
        a[...] = np.arange(4000) % 251
        freeze(a, np.arange(0, 4000, 3))
        append(a, np.full(100, 9, "u1"))
        put(a, (np.s_[3000:3010],), 4)
        put_chunk(a, (3999,), [77])
        expected = elements(a)
    found, _ = frozen_reader.read(path)
    assert np.array_equal(found, expected)
    data = path.with_suffix(".xmd").read_bytes()
    header = parse_header(data)
    _, _, _, extents = frozen_reader.parse_block(data, header)
    assert len(extents) == 3
    assert frozen_reader.words_of(data, extents, 3999)[0] > 1


@pytest.mark.parametrize("order", "CFZH")
@pytest.mark.parametrize("codec", ["zlib", "zstd:shuffle", "lz4:bitshuffle"])
def test_a_reader_written_from_the_page_reads_blocks(path, order, codec, monkeypatch):
    monkeypatch.setattr(limits, "divided_bytes", 0)
    monkeypatch.setattr(limits, "block_bytes", 700)
    shape, chunks = (36, 50, 7), (18, 25, 7)
    x = np.add.outer(np.add.outer(np.arange(36) // 3, np.arange(50) // 5), np.arange(7)).astype(
        "i4"
    )
    with xa.create(path, shape, "i4", chunks=chunks, order=order, compression=codec) as a:
        a[...] = x
        a.freeze()
        kinds = [one.blocks > 1 for one in table(a).stored(all_addresses(a))]
        assert kinds == [True] * 4
    np.testing.assert_array_equal(frozen_reader.read(path)[0], x)
    with xa.open(path) as a:
        np.testing.assert_array_equal(a[...], x)


def test_the_header_tells_how_chunks_are_encoded(path):
    frozen_chunks.make(path, np.arange(20).reshape(4, 5))
    data = path.with_suffix(".xmd").read_bytes()
    header = decode_header(data)
    assert (header.version, header.encoding) == ((3, 0), ENCODING)
    assert json.loads(header.blobs) == ENCODING
    for note in ("", "[1]", "{}", '{"order": 0}', "{"):
        plain = Header(new_uuid(), np.dtype("i4"), (2,), "C", bytes(4), False)
        noted = plain.freezing({})
        noted = Header(**{**noted._asdict(), "blobs": note})
        assert decode_header(encode_header(noted).ljust(4096, b"\0")).encoding == {}
    assert format_reader.newest_state(data, parse_header(data)).sealed


HEADER = Header(b"a" * 16, np.dtype("i4"), (2,), "C", bytes(4), False).freezing(ENCODING)


@given(st.integers(64, 2**40), st.integers(0, 2**40), st.lists(st.integers(1, 2**30), max_size=54))
def test_blocks_survive_a_round_trip(size, more, places):
    extents = [16384 + 4096 * place for place in places]
    data = encode_frozen_block(b"z" * 16, size, size + more, extents, HEADER.uuid)
    block = decode_frozen_block(data, HEADER, 2**62)
    fitting = next((n for n, at in enumerate(extents) if at + extent_bytes(n) > 2**62), len(places))
    assert (block.uuid, block.size, block.given) == (b"z" * 16, size, size + more)
    assert (list(block.extents), block.words, block.in_blobs) == (extents[:fitting], 2, False)
    for place in range(0, 512, 37):
        wrong = bytearray(data)
        wrong[place] ^= 16
        with pytest.raises(CorruptError):
            decode_frozen_block(bytes(wrong), HEADER, 2**62)


def test_extents_that_are_cut_off_do_not_count():
    data = encode_frozen_block(b"z" * 16, 64, 64, [1 << 20, 1 << 21], HEADER.uuid)
    ends = (1 << 20) + 16384, (1 << 21) + 32768
    for length, n in ((ends[0] - 1, 0), (ends[0], 1), (ends[1] - 1, 1), (ends[1], 2)):
        assert len(decode_frozen_block(data, HEADER, length).extents) == n


def test_impossible_blocks_are_refused():
    whole = decode_frozen_block(
        encode_frozen_block(b"z" * 16, 64, 64, [1 << 20], HEADER.uuid), HEADER, 2**62
    )
    for change in ({"words": 3}, {"in_blobs": True}, {"size": 8}, {"extents": (4096 * 3 + 512,)}):
        data = encode_blobs_block(whole._replace(**change), HEADER.uuid)
        with pytest.raises(CorruptError):
            decode_frozen_block(data, HEADER, 2**62)
    packed = encode_blobs_block(whole._replace(words=1, in_blobs=True), HEADER.uuid)
    assert decode_frozen_block(packed, HEADER, 2**62) is None


def test_limits_of_the_log():
    one = Encoded(0, 0, 0, b"abcd")
    blob, word = encode_blob(one, 3, (1 << 46) - 64, b"z" * 16)
    assert len(b"".join(blob)) == 64
    assert word == ((1 << 40) - 1) << 24 | 1
    with pytest.raises(LimitError, match="64 TiB"):
        encode_blob(one, 3, 1 << 46, b"z" * 16)

    class Long(bytes):
        def __len__(self):
            return 1 << 30

    with pytest.raises(LimitError, match="less than 1 GiB"):
        encode_blob(Encoded(0, 0, 0, Long()), 3, 64, b"z" * 16)
