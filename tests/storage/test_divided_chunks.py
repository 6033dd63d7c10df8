"""Frozen chunks that are cut into blocks: reads decode the blocks that they touch."""

from __future__ import annotations

import struct
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import extarray as xa
from extarray.codecs import payloads
from extarray.codecs.codec import CodecId
from extarray.common.limits import limits
from extarray.format._blobs import BlobReader
from extarray.format._crc import crc32c
from extarray.storage import frozen, frozen_blobs
from extarray.storage.decoded import RestOfChunk, _Rooms

SHAPE, CHUNKS = (64, 64, 150), (32, 32, 150)
_X, _Y, _Z = np.ogrid[: SHAPE[0], : SHAPE[1], : SHAPE[2]]
X = (_X * _X // 7 + _Y * 3 + _Z // 4).astype("<i4")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Cut chunks into 2 x 2 blocks."""
    monkeypatch.setattr(limits, "divided_bytes", 1 << 16)
    monkeypatch.setattr(limits, "block_bytes", 150 << 10)


@pytest.fixture
def decoded(monkeypatch):
    """Note the numbers of blocks that are decoded one by one, and chunks that are decoded whole."""
    found = []
    blocks, whole = frozen_blobs.DividedBlob.decode, frozen.FrozenTable.decode_many
    part = frozen.FrozenTable.decode_part

    def decode_part(self, *arguments):
        n = len(found)
        numbers = part(self, *arguments)
        if numbers and len(found) == n:  # without `decode_blocks`
            found.append(numbers)
        return numbers

    def decode_blocks(self, target, numbers, reader):
        found.append(list(numbers))
        return blocks(self, target, numbers, reader)

    def decode_whole(self, targets, *arguments):
        found.extend(["whole"] * len(targets))
        return whole(self, targets, *arguments)

    monkeypatch.setattr(frozen_blobs.DividedBlob, "decode", decode_blocks)
    monkeypatch.setattr(frozen.FrozenTable, "decode_many", decode_whole)
    monkeypatch.setattr(frozen.FrozenTable, "decode_part", decode_part)
    return found


def frozen_array(path, **options):
    options = {"chunks": CHUNKS, "compression": "zstd:1:shuffle", **options}
    with xa.create(path, SHAPE, "<i4", **options) as a:
        a[...] = X
        a.freeze()
    return path


def test_planes_boxes_and_elements_decode_their_blocks(tmp_path, decoded):
    frozen_array(tmp_path / "a")
    for box, expected in [
        (np.s_[3], [[0, 1]] * 2),
        (np.s_[:, 40], [[0, 2]] * 2),
        (np.s_[:, :, 149], ["whole"] * 4),
        (np.s_[17:20, 20:30, 5], [[3]]),
        (np.s_[10:20, 1:3], [[0, 2]]),
        (np.s_[31:15:-1, 5], [[2]]),
        (np.s_[1, 2, 3], [[0]]),
        (np.s_[[1, 2], [2, 3], 3], ["whole"]),
        (np.s_[...], ["whole"] * 4),
    ]:
        with xa.open(tmp_path / "a") as a:
            np.testing.assert_array_equal(a[box], X[box])
        assert decoded == expected, box
        decoded.clear()


def test_other_blocks_come_when_they_are_wanted(tmp_path, decoded):
    frozen_array(tmp_path / "a")
    with xa.open(tmp_path / "a") as a:
        np.testing.assert_array_equal(a[3], X[3])
        np.testing.assert_array_equal(a[4], X[4])
        np.testing.assert_array_equal(a[:, 3], X[:, 3])
        assert decoded == [[0, 1], [0, 1], [2], [0, 2]]
        np.testing.assert_array_equal(a[[5, 9, 30], 3, 1], X[[5, 9, 30], 3, 1])
        np.testing.assert_array_equal(a[[5, 9, 30], 25, 1], X[[5, 9, 30], 25, 1])
        assert decoded[4:] == [[3]]
        np.testing.assert_array_equal(a[...], X)


def test_a_chunk_whose_elements_are_read_often_comes_as_a_whole(tmp_path, decoded):
    frozen_array(tmp_path / "a")
    with xa.open(tmp_path / "a") as a:
        for k in range(9):
            assert a[k, 1, k] == X[k, 1, k]
        assert decoded == [[0], [1, 2, 3]]
        for k in range(32):
            assert a[k, k, k] == X[k, k, k]
        assert len(decoded) == 2


@pytest.mark.parametrize("order", ["C", "F", "Z", "H"])
def test_any_order_of_elements(tmp_path, order):
    frozen_array(tmp_path / "a", order=order)
    for box in (np.s_[5], np.s_[:, 33], np.s_[..., 70], np.s_[3:60:7, ::-5, 4:9], np.s_[60, 1, 2]):
        with xa.open(tmp_path / "a") as a:
            np.testing.assert_array_equal(a[box], X[box])


def damage_last_block(path):
    """Zero the last of the blocks of chunk 0."""
    with xa.open(path) as a:
        table = a._store.now.frozen
        word = int(table.entries(np.array([0]))[0])
        cut = table.divided(0, word, a.chunk_bytes, True).cut
        at = table.place_of_blob(0) + 32
    log = path.with_suffix(".xtz")
    data = bytearray(log.read_bytes())
    start, stop = cut.frame(3)
    data[at + start : at + stop] = bytes(stop - start)
    log.write_bytes(data)


@pytest.mark.parametrize("verify", ["never", "write"])
def test_a_damaged_block_does_not_keep_others_from_being_read(tmp_path, verify):
    frozen_array(tmp_path / "a")
    damage_last_block(tmp_path / "a")
    with xa.open(tmp_path / "a", verify=verify) as a:
        np.testing.assert_array_equal(a[3], X[3])
        np.testing.assert_array_equal(a[:, 3], X[:, 3])
        for box in (np.s_[20, 20, 7], np.s_[20], np.s_[...]):
            with pytest.raises(xa.ChecksumError, match=r"the blob of chunk 0.*0:32, 0:32, 0:150"):
                a[box]
        np.testing.assert_array_equal(a[:16], X[:16])
    report = xa.check(tmp_path / "a", data=True)
    assert not report.ok and "chunk 0" in str(report)
    assert xa.check(frozen_array(tmp_path / "b"), data=True).ok


def test_the_table_of_blocks_is_covered_by_a_checksum(tmp_path):
    frozen_array(tmp_path / "a")
    with xa.open(tmp_path / "a") as a:
        at = a._store.now.frozen.place_of_blob(0)
    log = tmp_path / "a.xtz"
    whole = log.read_bytes()
    for place in (32, 36, 44, 52, 56, 68, 80):
        data = bytearray(whole)
        data[at + place] ^= 4
        log.write_bytes(data)
        with xa.open(tmp_path / "a") as a, pytest.raises(xa.ChecksumError, match="chunk 0"):
            a[3, 3, 3]


def test_a_table_of_blocks_that_is_longer_than_its_payload(tmp_path):
    frozen_array(tmp_path / "a")
    with xa.open(tmp_path / "a") as a:
        table = a._store.now.frozen
        at, uuid = table.place_of_blob(0), table.uuid
    n, blocks, rest = 20, 1, struct.pack("<7I", 2, 1, 1, 1, 1, 20, 0)
    head = struct.pack("<IQQHBBI", n, 0, 1, CodecId.ZSTD, 0, 0, blocks) + rest
    log = tmp_path / "a.xtz"
    data = bytearray(log.read_bytes())
    blob = struct.pack("<I", crc32c(head, crc32c(uuid))) + head
    data[at : at + len(blob)] = blob
    log.write_bytes(data)
    with xa.open(tmp_path / "a") as a:
        for box in (np.s_[3, 3, 3], np.s_[...]):
            with pytest.raises(xa.ChecksumError, match="chunk 0"):
                a[box]
        np.testing.assert_array_equal(a[32:], X[32:])
    assert not xa.check(tmp_path / "a", data=True).ok


def test_a_chunk_of_many_blocks_has_a_longer_table(tmp_path, decoded, monkeypatch):
    monkeypatch.setattr(limits, "block_bytes", 1 << 8)
    frozen_array(tmp_path / "a")
    with xa.open(tmp_path / "a") as a:
        np.testing.assert_array_equal(a[3], X[3])
        word = int(a._store.now.frozen.entries(np.array([0]))[0])
        cut = a._store.now.frozen.divided(0, word, a.chunk_bytes, True).cut
    assert len(cut) > 512
    assert len(decoded) == 2 and len(decoded[0]) == 75


def test_blocks_of_chunks_above_a_gibibyte_are_left_to_python():
    n = (1 << 30) + 64
    reader = BlobReader(bytes(16), int(CodecId.ZSTD), 1, n)
    room = np.empty(n, np.uint8)  # which nobody touches
    assert not reader.read_blocks(0, 0, room, (n,), (1 << 16,), [], CodecId.ZSTD, 0, True)


@pytest.fixture
def in_python(monkeypatch):
    """Let nothing be decoded without the GIL."""
    monkeypatch.setattr(payloads, "decode_block_alone", lambda *_: False)
    monkeypatch.setattr(payloads, "decode_alone", lambda *_: False)
    monkeypatch.setattr(
        frozen.FrozenTable,
        "reader",
        lambda self: SimpleNamespace(read=_nothing, read_part=_none, read_blocks=_none),
    )


def _nothing(fd, words, *_):
    return list(range(len(words)))


def _none(*_):
    return None


@pytest.mark.parametrize("order", ["C", "F", "Z"])
@pytest.mark.parametrize("codec", [("zstd", "shuffle"), ("lz4", "bitshuffle"), ("zlib", None)])
def test_decoding_with_the_gil_gives_the_same(tmp_path, order, codec, in_python):
    frozen_array(tmp_path / "a", order=order, compression=xa.Codec(codec[0], filter=codec[1]))
    for box in (np.s_[5], np.s_[:, 33], np.s_[..., 70], np.s_[60, 1, 2], np.s_[...]):
        with xa.open(tmp_path / "a") as a:
            np.testing.assert_array_equal(a[box], X[box])


@pytest.mark.parametrize("codec", [("zstd", "bitshuffle"), ("lz4", "shuffle"), ("zlib", "shuffle")])
def test_any_codec_and_filter(tmp_path, codec):
    frozen_array(tmp_path / "a", compression=xa.Codec(codec[0], filter=codec[1]))
    for box in (np.s_[5], np.s_[:, 33], np.s_[..., 70], np.s_[60, 1, 2], np.s_[...]):
        with xa.open(tmp_path / "a") as a:
            np.testing.assert_array_equal(a[box], X[box])


@pytest.fixture
def compressed(monkeypatch):
    """Note how many bytes are compressed at a time."""
    found, compress = [], payloads.compress

    def noted(codec, data, *arguments):
        found.append(len(data))
        return compress(codec, data, *arguments)

    monkeypatch.setattr(payloads, "compress", noted)
    return found


def test_only_blocks_that_are_written_to_are_compressed_again(tmp_path, compressed):
    y = X.copy()
    with xa.open(frozen_array(tmp_path / "a"), "r+") as a:
        n_log = (tmp_path / "a.xtz").stat().st_size
        for box, blocks in [
            (np.s_[3, 5], [1]),
            (np.s_[3, 20:40, 7], [1, 1]),
            (np.s_[14:18, 3:5:2], [2]),
            (np.s_[::9, 40], [2, 2]),
            (np.s_[32:, 32:, :9], [4]),
            (np.s_[32:, :32], [4]),
        ]:
            compressed.clear()
            a[box] = y[box] = y[box] // 2 + 3
            assert compressed == [a.chunk_bytes // 4] * sum(blocks)
            np.testing.assert_array_equal(a[...], y)
        assert (tmp_path / "a.xtz").stat().st_size > n_log
        assert a._store.now.frozen.count(4) == 4
    assert xa.check(tmp_path / "a", data=True).ok
    with xa.open(tmp_path / "a") as a:
        np.testing.assert_array_equal(a[...], y)


@pytest.mark.parametrize("codec", ["lz4", xa.Codec("zstd", 1), xa.Codec("zstd", 3, "shuffle")])
def test_blocks_of_another_codec_are_compressed_again(tmp_path, compressed, codec):
    y = X.copy()
    with xa.open(frozen_array(tmp_path / "a"), "r+") as a:
        a.compression = codec
        compressed.clear()
        a[3, 5] = y[3, 5] = 8
        is_same = isinstance(codec, xa.Codec) and codec.filter == "shuffle"
        assert len([n for n in compressed if n == a.chunk_bytes // 4]) == (1 if is_same else 4)
        np.testing.assert_array_equal(a[...], y)
    with xa.open(tmp_path / "a") as a:
        np.testing.assert_array_equal(a[...], y)


def test_noise_that_is_written_makes_a_chunk_raw(tmp_path):
    y = X.copy()
    y[:16, :32] = np.random.default_rng(1).integers(0, 2**32, (16, 32, 150), "u4").view("i4")
    y[16:32, 16:32] = y[:16, :16]
    with xa.open(frozen_array(tmp_path / "a"), "r+") as a:
        a[:16, :32] = y[:16, :32]
        a[16:32, 16:32] = y[16:32, 16:32]
        np.testing.assert_array_equal(a[...], y)
    with xa.open(tmp_path / "a") as a:
        np.testing.assert_array_equal(a[...], y)


@pytest.mark.parametrize("verify", ["never", "write"])
def test_a_damaged_block_gets_no_new_checksum(tmp_path, verify):
    """Written to another block, the chunk would get a new blob, with checksums of what it has."""
    frozen_array(tmp_path / "a")
    damage_last_block(tmp_path / "a")
    before = (tmp_path / "a.xtz").read_bytes()
    with xa.open(tmp_path / "a", "r+", verify=verify) as a:
        with pytest.raises(xa.ChecksumError, match=r"the blob of chunk 0.*0:32, 0:32, 0:150"):
            a[3, 5] = 1
        np.testing.assert_array_equal(a[3], X[3])
        a[3, 40] = 7
    assert (tmp_path / "a.xtz").read_bytes()[: len(before)] == before
    report = xa.check(tmp_path / "a", data=True)
    assert not report.ok and "chunk 0" in str(report)


def test_written_boxes_keep_the_other_blocks(tmp_path):
    y = X.copy()
    with xa.open(frozen_array(tmp_path / "a"), "r+") as a:
        for n, box in enumerate((np.s_[3, 5], np.s_[20:40, 20:40, 3], np.s_[31], np.s_[0, 0, 0])):
            np.testing.assert_array_equal(a[box], y[box])
            a[box] = y[box] = n
            np.testing.assert_array_equal(a[10:20], y[10:20])
    with xa.open(tmp_path / "a") as a:
        np.testing.assert_array_equal(a[...], y)


def test_packs_and_a_copy_have_the_same_elements(tmp_path):
    frozen_array(tmp_path / "a")
    with xa.open(tmp_path / "a") as a:
        xa.pack(a, tmp_path / "a.xap", compression="zstd:1:shuffle")
        a.copy(tmp_path / "b").close()
    for name in ("a.xap", "b"):
        with xa.open(tmp_path / name) as a:
            np.testing.assert_array_equal(a[:, 40], X[:, 40])
            np.testing.assert_array_equal(a[...], X)
        assert xa.check(tmp_path / name, data=True).ok


def test_threads_want_blocks_of_one_chunk(tmp_path):
    frozen_array(tmp_path / "a")
    wrong = []
    with xa.open(tmp_path / "a") as a:

        def work(seed):
            rng = np.random.default_rng(seed)
            for _ in range(40):
                i, j = rng.integers(0, 64, 2)
                if not (a[i, j] == X[i, j]).all() or a[j, i, 3] != X[j, i, 3]:
                    wrong.append((i, j))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert not wrong


def test_a_chunk_becomes_whole_while_another_thread_has_waited_for_it(tmp_path, monkeypatch):
    frozen_array(tmp_path / "a")
    want, is_there, may_go_on = RestOfChunk.want, threading.Event(), threading.Event()

    def want_and_wait(self, box):
        want(self, box)
        if threading.current_thread() is slow:
            is_there.set()
            assert may_go_on.wait(60)

    def work():
        found.append(a[1])

    monkeypatch.setattr(RestOfChunk, "want", want_and_wait)
    found, slow = [], threading.Thread(target=work)
    with xa.open(tmp_path / "a") as a:
        assert a[20, 20, 0] == X[20, 20, 0]
        assert a[20, 40, 0] == X[20, 40, 0]
        slow.start()
        assert is_there.wait(60)
        np.testing.assert_array_equal(a[...], X)
        may_go_on.set()
        slow.join()
    np.testing.assert_array_equal(found, X[None, 1])


def test_memory_of_chunks_comes_back():
    rooms = _Rooms(1 << 18, 1 << 26)
    kept = [rooms.take() for _ in range(40)]
    for n, room in enumerate(kept):
        room[:] = n
    assert all((room == n).all() for n, room in enumerate(kept))
    places = {room.ctypes.data for room in kept}
    assert len(places) == 40
    del kept, room
    again = [rooms.take() for _ in range(40)]
    assert {room.ctypes.data for room in again} == places
    assert _Rooms(1 << 25, 1 << 26).take().nbytes == 1 << 25


def test_memory_of_chunks_stays_while_there_are_views_of_it():
    rooms = _Rooms(1 << 18, 1 << 26)
    views = []
    for n in range(40):
        room = rooms.take()
        room[:] = n
        views += [room[4:].view("u4")[1:].reshape(2, -1)] if n % 2 else [memoryview(room)[7:]]
        del room
    for n, view in enumerate(views):
        assert (np.asarray(view).view("u1") == n).all()


def test_views_of_chunks_that_have_left(tmp_path):
    frozen_array(tmp_path / "a", chunks=(4, 32, 150))
    with xa.config.set(chunk_cache=1), xa.open(tmp_path / "a") as a:
        views = [a.chunk((i, 1, 0))[1:] if i % 2 else a.chunk((i, 1, 0)) for i in range(16)]
        np.testing.assert_array_equal(a[...], X)
        for i, view in enumerate(views):
            np.testing.assert_array_equal(view, X[4 * i + i % 2 : 4 * i + 4, 32:])


def test_decoded_chunks_that_leave_make_room(tmp_path):
    frozen_array(tmp_path / "a")
    with xa.config.set(chunk_cache=2 * 32 * 32 * 150 * 4), xa.open(tmp_path / "a") as a:
        for _ in range(3):
            for i, j in np.ndindex(2, 2):
                box = np.s_[32 * i : 32 * i + 32, 32 * j : 32 * j + 32]
                np.testing.assert_array_equal(a[box], X[box])


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Return paths of arrays with chunks that are cut, and their elements."""
    folder, found = tmp_path_factory.mktemp("divided"), []
    rng = np.random.default_rng(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "divided_bytes", 0)
        patch.setattr(limits, "block_bytes", 500)
        for n, (shape, chunks, dtype, order) in enumerate(
            [
                ((900,), (400,), "f8", "C"),
                ((50, 70), (20, 33), "u1", "C"),
                ((50, 70), (33, 20), "<i2", "F"),
                ((40, 30, 9), (20, 17, 9), "S3", "C"),
                ((20, 18, 16, 3), (17, 16, 16, 2), "f4", "C"),
                ((16, 1, 18, 2, 16), (16, 1, 16, 2, 16), "c16", "F"),
            ]
        ):
            x = rng.integers(0, 3, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]
            path = folder / f"{n}"
            codec = ("zstd", "zlib:1:shuffle", "lz4:bitshuffle")[n % 3]
            with xa.create(path, shape, dtype, chunks=chunks, order=order, compression=codec) as a:
                a[...] = x
                a.freeze()
                stored = a._store.now.frozen.stored(np.arange(a.axial.size))
                assert sum(one.blocks > 1 for one in stored) > 1
            found.append((path, x))
    return found


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_selections_are_those_of_numpy(several, data):
    limits.divided_bytes = 0  # put back by the fixture
    path, x = data.draw(st.sampled_from(several))
    with xa.open(path) as a:
        for _ in range(data.draw(st.integers(1, 4))):
            box = tuple(data.draw(st.one_of(st.integers(0, n - 1), st.slices(n))) for n in x.shape)
            np.testing.assert_array_equal(a[box], x[box])
