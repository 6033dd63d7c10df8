"""Frames decoded by C functions of the packages: the bytes that the packages give, or none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extarray import Codec
from extarray.codecs import _frames, libraries
from extarray.codecs._frames import decode_alone
from extarray.codecs.codec import CodecId, FilterId
from extarray.codecs.payloads import decode_frame_into, encode

FILTERS = [None, "shuffle", "bitshuffle"]
CODECS = [Codec(name, filter=f) for name in ("zstd", "lz4") for f in FILTERS]


@pytest.fixture(autouse=True)
def shown():
    """Skip where the packages show no functions, as builds of Python may do."""
    for name in ("zstd", "lz4"):
        libraries.check_present(Codec(name))
    found = libraries._functions(libraries._ZSTD_CORE, *libraries._ZSTD_FUNCTIONS)
    if not all((*found, *libraries._functions("lz4.block._block", "LZ4_decompress_safe"))):
        pytest.skip("the packages of the codecs show no C functions")


def smooth(n, dtype):
    return (np.sin(np.arange(n) / 50) * 50).round().astype(dtype)


def frame_of(x, codec):
    found = encode(codec, memoryview(x).cast("B"), x.itemsize)
    assert found.codec == codec.id
    return found, memoryview(found.payload)


@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "c16", "S3"])
@pytest.mark.parametrize("n", [400, 4001])
def test_frames_give_their_elements(codec, dtype, n):
    x = smooth(n, "u1").astype(dtype)
    found, frame = frame_of(x, codec)
    out = bytearray(x.nbytes)
    assert decode_alone(out, found.codec, found.filter, frame, x.itemsize)
    assert bytes(out) == x.tobytes()


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_no_frame_is_taken_for_another(codec):
    x = smooth(1000, "f4")
    found, frame = frame_of(x, codec)
    how = found.codec, found.filter
    for wrong in (frame[:-1], frame[:0], bytes(frame) + b"\0", bytes(frame) * 2):
        assert not decode_alone(bytearray(x.nbytes), *how, wrong, 4)
    for n in (x.nbytes - 4, x.nbytes + 4, 4):
        assert not decode_alone(bytearray(n), *how, frame, 4)
    if found.filter:
        assert not decode_alone(bytearray(x.nbytes), *how, frame, 3)
    assert not decode_alone(bytearray(x.nbytes), found.codec, 9, frame, 4)
    assert not decode_alone(bytearray(x.nbytes), found.codec, found.filter, frame, 0)


@given(st.sampled_from(CODECS), st.data())
def test_damaged_frames_give_what_the_package_gives(codec, data):
    x = smooth(300, "i4")
    found, frame = frame_of(x, codec)
    damaged = bytearray(frame)
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    out = bytearray(x.nbytes)
    if not decode_alone(out, found.codec, found.filter, damaged, 4):
        return
    _frames.use_zstd(0, 0, 0, 0)
    _frames.use_lz4(0)
    try:
        again = bytearray(x.nbytes)
        decode_frame_into(memoryview(again), found.codec, found.filter, memoryview(damaged), 4)
    finally:
        use_functions()
    assert again == out


def use_functions():
    libraries._zstd.cache_clear()
    libraries._lz4.cache_clear()
    for name in ("zstd", "lz4"):
        libraries.check_present(Codec(name))


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_packages_without_functions_serve(codec):
    x = smooth(1000, "f4")
    found, frame = frame_of(x, codec)
    _frames.use_zstd(0, 0, 0, 0)
    _frames.use_lz4(0)
    try:
        out = bytearray(x.nbytes)
        assert not decode_alone(out, found.codec, found.filter, frame, 4)
        decode_frame_into(memoryview(out), found.codec, found.filter, frame, 4)
        assert bytes(out) == x.tobytes()
    finally:
        use_functions()
    assert decode_alone(bytearray(x.nbytes), found.codec, found.filter, frame, 4)


def test_modules_that_show_no_functions():
    assert libraries._functions("no_such_module", "f") == [0]
    assert libraries._functions("json", "f", "g") == [0, 0]  # no compiled module
    assert libraries._functions("sys", "f") == [0]  # no file
    assert libraries._functions("lz4.block._block", "LZ4_decompress_safe", "no_such") == [0, 0]


def test_plain_and_constant_frames():
    out = bytearray(6)
    assert decode_alone(out, CodecId.RAW, FilterId.NONE, b"abcdef", 2)
    assert bytes(out) == b"abcdef"
    assert decode_alone(out, CodecId.CONSTANT, FilterId.NONE, b"xyz", 3)
    assert bytes(out) == b"xyzxyz"
    assert not decode_alone(out, CodecId.RAW, FilterId.NONE, b"abcde", 1)
    assert not decode_alone(out, CodecId.RAW, FilterId.SHUFFLE, b"abcdef", 2)
    assert not decode_alone(out, CodecId.CONSTANT, FilterId.NONE, b"abcd", 4)
    assert not decode_alone(out, CodecId.ZLIB, FilterId.NONE, b"abcd", 2)
    assert not decode_alone(out, CodecId.NAMED, FilterId.NONE, b"abcd", 2)
