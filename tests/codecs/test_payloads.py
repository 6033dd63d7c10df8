"""Payloads of chunks: round trips, what other libraries read, and hostile bytes."""

from __future__ import annotations

import math
import struct
import sys
import tracemalloc
import zlib
from importlib import metadata

import lz4.block
import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from extarray import Codec
from extarray.codecs import codec as codec_module
from extarray.codecs import libraries, payloads
from extarray.codecs.codec import CodecId, FilterId
from extarray.codecs.payloads import (
    Blocks,
    Encoded,
    decode_blocks_into,
    decode_into,
    encode,
    read_blocks,
)
from extarray.common.errors import CorruptError, MissingExtraError, VersionError
from extarray.common.limits import limits

NAMES = ["zstd", "lz4", "zlib"]
FILTERS = [None, "shuffle", "bitshuffle", "auto"]
CODECS = [Codec(name, filter=f) for name in NAMES for f in FILTERS]
MIB = 1 << 20


def bytes_of(x):
    return memoryview(np.ascontiguousarray(x).reshape(-1).view(np.uint8))


def decoded(found, n, itemsize):
    out = memoryview(bytearray(n))
    payload = memoryview(found.payload)
    decode_into(out, found.codec, found.filter, found.blocks, payload, itemsize)
    return bytes(out)


def smooth(n, dtype="f4"):
    return (np.sin(np.arange(n) / 50) * 50).round().astype(dtype)


DTYPES = hnp.scalar_dtypes() | hnp.array_dtypes(max_size=3)


@given(
    hnp.arrays(DTYPES.filter(lambda d: d.itemsize > 0), st.integers(1, 300)),
    st.sampled_from(CODECS),
)
def test_any_elements_come_back(x, codec):
    data = bytes_of(x)
    assert decoded(encode(codec, data, x.dtype.itemsize), len(data), x.dtype.itemsize) == data


@pytest.mark.parametrize("codec", [*CODECS, Codec("zstd", 9), Codec("lz4", 9)], ids=str)
@pytest.mark.parametrize("n", [1000, 65535, 65536, 65537, 200001])
def test_chunks_of_any_size_come_back_smaller(codec, n):
    x = smooth(n)
    found = encode(codec, bytes_of(x), 4)
    assert found.codec == codec.id
    assert len(found.payload) < x.nbytes * 0.9
    assert (found.blocks > 1) == (x.nbytes > MIB // 4)
    assert found.blocks != 1  # nothing to decode alone; one frame is what others know
    assert decoded(found, x.nbytes, 4) == x.tobytes()


@pytest.mark.parametrize("threads", [1, 2, 3, 50])
def test_threads_share_blocks(threads):
    x = smooth(700_000)
    found = encode(Codec("zstd", filter="shuffle"), bytes_of(x), 4)
    assert found.blocks == 43
    out = memoryview(bytearray(x.nbytes))
    decode_into(out, *found[:3], memoryview(found.payload), 4, threads)
    assert out == x.tobytes()
    payload = bytearray(found.payload)
    payload[-30:] = bytes(30)
    with pytest.raises(CorruptError):
        decode_into(out, *found[:3], memoryview(payload), 4, threads)


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8", "c16"])
def test_equal_elements_take_one(dtype):
    x = np.full(1000, 7, dtype)
    found = encode(Codec("zstd"), bytes_of(x), x.itemsize)
    assert found == (CodecId.CONSTANT, FilterId.NONE, 0, x[:1].tobytes())
    assert decoded(found, x.nbytes, x.itemsize) == x.tobytes()


def test_a_chunk_of_one_large_element_is_compressed():
    data = memoryview(b"a large record " * 1000)
    found = encode(Codec("zlib"), data, len(data))
    assert found.codec == CodecId.ZLIB and len(found.payload) < 200
    large = memoryview(bytes(data) * 50)
    found = encode(Codec("zlib"), large, len(large))
    assert found.blocks == 0
    assert decoded(found, len(large), len(large)) == large
    assert encode(Codec("zlib"), memoryview(b"ab"), 2)[:3] == (CodecId.RAW, FilterId.NONE, 0)


@pytest.mark.parametrize("name", NAMES)
def test_noise_stays_raw_and_is_not_copied(name):
    data = memoryview(np.random.default_rng(0).bytes(100_000))
    found = encode(Codec(name), data, 4)
    assert found[:3] == (CodecId.RAW, FilterId.NONE, 0)
    assert found.payload is data
    assert decoded(found, len(data), 4) == data


def test_the_filter_that_suits_is_chosen():
    codec = Codec("auto")
    floats = smooth(50_000) + np.random.default_rng(0).normal(0, 0.01, 50_000).astype("f4")
    text = np.frombuffer(b"a table of words that come again and again, " * 2000, "u4")
    flags = (np.random.default_rng(1).random(80_000) < 0.1).astype("u1")
    assert encode(codec, bytes_of(floats), 4).filter != FilterId.NONE
    assert encode(codec, bytes_of(text), 4).filter == FilterId.NONE
    assert encode(codec, bytes_of(flags), 1).filter == FilterId.BITSHUFFLE
    for x in (floats, text, flags):
        sizes = [
            len(encode(Codec("zstd", filter=f), bytes_of(x), x.itemsize).payload)
            for f in FILTERS[:3]
        ]
        auto = encode(codec, bytes_of(x), x.itemsize)
        assert len(auto.payload) < 1.2 * min(sizes) < max(sizes)


# -- other libraries -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1000, 300_000])
@pytest.mark.parametrize("name", NAMES)
def test_other_libraries_decode_our_frames(name, n):
    decode = {
        "zstd": lambda frame, size: zstandard.ZstdDecompressor().decompress(frame),
        "lz4": lambda frame, size: lz4.block.decompress(frame, uncompressed_size=size),
        "zlib": lambda frame, size: zlib.decompress(frame),
    }[name]
    x = smooth(n)
    found = encode(Codec(name), bytes_of(x), 4)
    frames = [found.payload]
    if found.blocks:
        n_payload = len(found.payload)
        cut = read_blocks(found.payload, codec_id(name), found.blocks, x.nbytes, 4, n_payload)
        frames = [found.payload[slice(*cut.frame(number))] for number in range(len(cut))]
    assert len(frames) == -(-x.nbytes // limits.block_bytes)
    step = -(-n // len(frames))
    parts = [x[at : at + step] for at in range(0, n, step)]
    assert [decode(*one) for one in zip(frames, map(nbytes_of, parts), strict=True)] == [
        part.tobytes() for part in parts
    ]


def codec_id(name):
    return Codec(name).id


def nbytes_of(x):
    return x.nbytes


def test_we_decode_frames_of_others():
    x = smooth(1000).tobytes()
    ours = memoryview(bytearray(len(x)))
    for compressor in (
        zstandard.ZstdCompressor(level=3, write_checksum=True),
        zstandard.ZstdCompressor(level=19, write_content_size=False),
    ):
        decode_into(ours, CodecId.ZSTD, 0, 0, memoryview(compressor.compress(x)), 4)
        assert ours == x
    streamed = zstandard.ZstdCompressor(level=19).compressobj()  # of unknown size: a large window
    frame = streamed.compress(x) + streamed.flush()
    decode_into(ours, CodecId.ZSTD, 0, 0, memoryview(frame), 4)
    assert ours == x
    decode_into(ours, CodecId.ZLIB, 0, 0, memoryview(zlib.compress(x, 9)), 4)
    assert ours == x


# -- hostile payloads ------------------------------------------------------------------------------


def refused(codec, filter_id, blocks, payload, n=4000, itemsize=4, error=CorruptError):
    with pytest.raises(error):
        decode_into(
            memoryview(bytearray(n)), codec, filter_id, blocks, memoryview(payload), itemsize
        )


def test_payloads_of_another_length_are_refused():
    refused(CodecId.RAW, 0, 0, bytes(3999))
    refused(CodecId.RAW, 1, 0, bytes(4000))
    refused(CodecId.RAW, 0, 1, bytes(4004))
    refused(CodecId.CONSTANT, 0, 0, bytes(3))
    refused(CodecId.CONSTANT, 0, 0, b"")
    refused(CodecId.CONSTANT, 2, 0, bytes(4))
    refused(4, 0, 0, bytes(4), error=VersionError)
    refused(CodecId.ZSTD, 3, 0, zstandard.compress(bytes(4000)), error=VersionError)
    refused(CodecId.NAMED, 0, 0, b"")
    refused(CodecId.NAMED, 0, 0, b"\x05abc")
    refused(CodecId.NAMED, 0, 0, b"\x03abc", error=VersionError)


@pytest.mark.parametrize("size", [0, 3999, 4001, 1 << 26])
@pytest.mark.parametrize("name", NAMES)
def test_frames_of_more_or_fewer_bytes_are_refused(name, size):
    frame = {
        "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
        "lz4": lambda data: lz4.block.compress(data, store_size=False),
        "zlib": lambda data: zlib.compress(data, 1),
    }[name](bytes(size))
    tracemalloc.start()
    try:
        refused(Codec(name).id, 0, 0, frame)
        assert tracemalloc.get_traced_memory()[1] < MIB // 2
    finally:
        tracemalloc.stop()


def test_a_frame_that_asks_for_a_large_window_is_refused():
    data = np.random.default_rng(0).bytes(100) * 20
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    frame = compressor.compress(data) + compressor.flush()
    refused(CodecId.ZSTD, 0, 0, frame, n=2000)


def test_a_second_frame_or_bytes_behind_are_refused():
    x = smooth(1000).tobytes()
    for frame in (zstandard.compress(x), zlib.compress(x)):
        codec = CodecId.ZLIB if frame[0] == 0x78 else CodecId.ZSTD
        refused(codec, 0, 0, frame + frame)
        refused(codec, 0, 0, frame + b"\0")
        refused(codec, 0, 0, frame[:-1])


def test_blocks_that_do_not_fit_are_refused():
    x = smooth(300_000).reshape(600, 500)
    found = encode(Codec("zstd"), bytes_of(x), 4, x.shape)
    p = found.blocks
    words = list(struct.unpack_from(f"<{5 + 2 * p}I", found.payload))
    assert words[:5] == [2, 600, 500, 75, 125] and p == 32
    rest = bytes(found.payload[4 * len(words) :])

    def try_words(words, blocks=p, n=x.nbytes):
        payload = struct.pack(f"<{len(words)}I", *words) + rest
        refused(found.codec, found.filter, blocks, payload, n)

    def with_word(at, word):
        return [*words[:at], word, *words[at + 1 :]]

    for at, change in [(0, -2), (0, 1), (1, 1), (2, -1), (3, -75), (3, 526), (4, -1), (4, -125)]:
        try_words(with_word(at, words[at] + change))
    try_words([2, 500, 600, *words[3:]])
    try_words([2, 600, 500, 500, 250, *words[5:]])
    for word in (0, words[6] + 1, 0xFFFFFFFF):
        try_words(with_word(5, word))
    for change in (-1, 1):
        try_words(with_word(4 + p, words[4 + p] + change))
    try_words(words, blocks=2**32 - 1)
    try_words(words, blocks=len(found.payload))
    try_words(words, blocks=p + 1)
    try_words(words, n=x.nbytes - 4)
    try_words([1, 300_000, 1, *words[5:]], blocks=300_000)
    for empty in (b"", b"\0\0\0", b"\1\0\0\0"):
        refused(CodecId.ZSTD, 0, 1, empty)
    for codec in (CodecId.RAW, CodecId.CONSTANT, CodecId.NAMED):
        refused(codec, 0, p, bytes(found.payload), x.nbytes)


@pytest.mark.parametrize("k", [2, 33, 63, 64])
@pytest.mark.parametrize("place", [0, -1])
def test_blocks_may_have_more_axes_than_numpy(k, place):
    x = smooth(100)
    frames = [zlib.compress(x[:50]), zlib.compress(x[50:])]
    sides, steps = [1] * (k - 1), [1] * (k - 1)
    sides.insert(place % k, 100)
    steps.insert(place % k, 50)
    first = 4 * (1 + 2 * k + 4)
    ends = [first + len(frames[0]), first + len(frames[0]) + len(frames[1])]
    table = struct.pack(f"<{5 + 2 * k}I", k, *sides, *steps, *ends, 0, 0)
    found = Encoded(CodecId.ZLIB, FilterId.NONE, 2, b"".join((table, *frames)))
    assert decoded(found, x.nbytes, 4) == x.tobytes()


@pytest.fixture
def small_blocks():
    """Let chunks of any size be cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "divided_bytes", 0)
        patch.setattr(limits, "block_bytes", 600)
        yield


@given(
    st.builds(
        lambda dtype, shape, seed: (
            np.random.default_rng(seed)
            .integers(0, 3, (*shape, np.dtype(dtype).itemsize), np.uint8)
            .view(dtype)[..., 0]
        ),
        st.sampled_from(["u1", "<i2", "S3", "f4", ">f8", "c16", "S40"]),
        hnp.array_shapes(max_dims=5, max_side=40).filter(lambda s: np.prod(s) < 20_000),
        st.integers(0, 99),
    ),
    st.sampled_from(CODECS),
    st.integers(1, 3),
    st.data(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_blocks_are_cuboids(small_blocks, x, codec, threads, data):
    size = x.itemsize
    found = encode(codec, bytes_of(x), size, x.shape)
    out = np.zeros_like(x)
    whole = memoryview(out.reshape(-1).view(np.uint8))
    payload = memoryview(found.payload)
    decode_into(whole, *found[:3], payload, size, threads)
    assert out.tobytes() == x.tobytes()
    if not found.blocks:
        return
    cut = read_blocks(payload, found.codec, found.blocks, x.nbytes, size, len(payload))
    box = []
    for n in x.shape:
        low = data.draw(st.integers(0, n - 1))
        box.append((low, data.draw(st.integers(low + 1, n))))
    numbers = cut.numbers_in(x.shape, box)
    assert numbers == sorted(set(numbers))
    out[...] = np.zeros((), x.dtype)
    frames = ((number, payload[slice(*cut.frame(number))]) for number in numbers)
    decode_blocks_into(whole, found.codec, found.filter, cut, frames, size)
    here = tuple(slice(*bounds) for bounds in box)
    assert out[here].tobytes() == x[here].tobytes()
    # No block is named that has no element of the box, unless axes are taken for one.
    if len(cut.sides) == x.ndim:
        cells = [
            range(low // step, (high - 1) // step + 1)
            for (low, high), step in zip(box, cut.steps, strict=True)
        ]
        assert len(numbers) == math.prod(map(len, cells))


def test_a_compressor_that_failed_is_not_used_again(monkeypatch):
    x = bytes_of(smooth(2000))
    codec = Codec("zstd", 1, "shuffle")
    expected = encode(codec, x, 4).payload
    level, encoder = libraries._thread.encoder
    assert level == 1

    class Fails:
        FLUSH_BLOCK = FLUSH_FRAME = 0

        def set_pledged_input_size(self, n):
            raise MemoryError

    monkeypatch.setattr(libraries._thread, "encoder", (1, Fails()))
    with pytest.raises(MemoryError):
        encode(codec, x, 4)
    assert encode(codec, x, 4).payload == expected
    assert libraries._thread.encoder[1] is not encoder


def test_a_plane_across_any_axis_needs_few_blocks():
    shape = (96, 128, 160)
    x = smooth(math.prod(shape), "f8").reshape(shape)
    found = encode(Codec("zstd", filter="shuffle"), bytes_of(x), 8, shape)
    n = len(found.payload)
    cut = read_blocks(found.payload, found.codec, found.blocks, x.nbytes, 8, n)
    assert (cut.steps, len(cut)) == ((12, 16, 40), 256)
    for axis, count in enumerate((32, 32, 64)):
        box = [(0, side) for side in shape]
        box[axis] = (7, 8)
        assert len(cut.numbers_in(shape, box)) == count


def test_blocks_that_others_have_cut_are_found():
    cut = Blocks((100, 6), (30, 4))
    assert cut.numbers_in((10, 10, 6), [(0, 10), (0, 10), (0, 1)]) == [0, 2, 4, 6]
    assert cut.numbers_in((20, 30), [(0, 1), (0, 1)]) == list(range(8))  # other axes: all
    assert Blocks((600,), (250,)).numbers_in((2, 300), [(0, 1), (0, 10)]) == [0]


@given(
    st.sampled_from([*CodecId, 4, 6]),
    st.integers(0, 3),
    st.sampled_from([0, 1, 2, 3, 7, 1000, 2**32 - 1]),
    st.binary(max_size=200),
    st.booleans(),
)
def test_any_payload_decodes_or_is_refused(codec, filter_id, blocks, payload, begins_well):
    if begins_well:
        start = encode(Codec("zstd", filter="shuffle"), bytes_of(smooth(250)), 4).payload
        payload = bytes(start[:100]) + payload
    out = memoryview(bytearray(1000))
    try:
        decode_into(out, codec, filter_id, blocks, memoryview(payload), 4)
    except (CorruptError, VersionError):
        return
    assert len(out) == 1000


@given(
    st.sampled_from(CODECS), st.integers(0, 10_000), st.integers(1, 255), st.sampled_from([2500, 9])
)
def test_a_changed_byte_gives_other_bytes_or_an_error(codec, at, change, n):
    x = smooth(n)
    found = encode(codec, bytes_of(x), 4)
    payload = bytearray(found.payload)
    payload[at % len(payload)] ^= change
    out = memoryview(bytearray(x.nbytes))
    try:
        decode_into(out, found.codec, found.filter, found.blocks, memoryview(payload), 4)
    except CorruptError:
        return
    assert len(out) == x.nbytes


# -- libraries that are missing, and those of other packages ---------------------------------------


@pytest.mark.parametrize(
    "name, package",
    [
        ("zstd", "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"),
        ("lz4", "lz4"),
    ],
)
def test_a_missing_library_is_named(monkeypatch, name, package):
    x = smooth(1000)
    found = encode(Codec(name), bytes_of(x), 4)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(libraries, f"_{name}", getattr(libraries, f"_{name}").__wrapped__)
    with pytest.raises(MissingExtraError, match=rf"needs '{package}'.*pip install {package}"):
        encode(Codec(name), bytes_of(x), 4)
    # A process that could not import the library has not found its functions either.
    monkeypatch.setattr(payloads, "decode_alone", lambda *arguments: False)
    with pytest.raises(MissingExtraError, match=package):
        decoded(found, x.nbytes, 4)
    zlibbed = encode(Codec("zlib"), bytes_of(x), 4)  # comes with Python
    assert decoded(zlibbed, x.nbytes, 4) == x.tobytes()


class Halves:
    """A lossy codec: it keeps the high halves of elements of 4 bytes."""

    def encode(self, data, itemsize, level):
        assert itemsize == 4
        return np.frombuffer(data, "<u2")[1::2].tobytes() + bytes([level or 0])

    def decode(self, payload, size, itemsize):
        halves = np.frombuffer(payload[:-1], "<u2")
        return np.stack([np.zeros_like(halves), halves], axis=-1)


@pytest.fixture
def halves(monkeypatch):
    point = metadata.EntryPoint("halves", f"{__name__}:Halves", "extarray.codecs")
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda self: Halves())

    libraries._named.cache_clear()
    for module in (codec_module, libraries):
        monkeypatch.setattr(module, "registered", lambda: {"halves": point})
    yield
    libraries._named.cache_clear()


@pytest.mark.parametrize("n", [1000, 300_000])
def test_codecs_of_other_packages(halves, n):
    x = np.random.default_rng(0).normal(size=n).astype("f4")
    codec = Codec("halves", level=7)
    found = encode(codec, bytes_of(x), 4)
    assert found[:3] == (CodecId.NAMED, FilterId.NONE, 0)
    assert bytes(found.payload[:7]) == b"\x06halves" and found.payload[-1] == 7
    expected = (x.view("u4") & 0xFFFF0000).view("f4")
    assert decoded(found, x.nbytes, 4) == expected.tobytes()
    assert Codec.parse("halves:7") == codec
    with pytest.raises(CorruptError, match="'halves' does not decode"):
        decode_into(memoryview(bytearray(8)), found.codec, 0, 0, memoryview(b"\x06halvesabcd"), 4)
    with pytest.raises(CorruptError, match="does not hold the 8 bytes"):
        decode_into(memoryview(bytearray(8)), found.codec, 0, 0, memoryview(b"\x06halvesab\0"), 4)


@pytest.mark.parametrize("error", [MemoryError, ModuleNotFoundError])
def test_a_codec_that_cannot_work_does_not_mean_damage(halves, monkeypatch, error):
    def decode(self, payload, size, itemsize):
        raise error

    monkeypatch.setattr(Halves, "decode", decode)
    with pytest.raises(error):
        decode_into(memoryview(bytearray(8)), CodecId.NAMED, 0, 0, memoryview(b"\x06halvesab"), 4)


def test_a_codec_that_no_package_registers(halves):
    x = smooth(1000)
    found = encode(Codec("halves"), bytes_of(x), 4)
    payload = memoryview(bytes(found.payload).replace(b"halves", b"thirds"))
    with pytest.raises(VersionError, match="'thirds', which no installed package registers"):
        decode_into(memoryview(bytearray(x.nbytes)), found.codec, 0, 0, payload, 4)
