"""Packed files with compressed chunks: read in place, unpacked, checked, refused."""

from __future__ import annotations

import os
import pickle
import struct
import sys
import threading
import zipfile

import numpy as np
import pytest
from grown_arrays import KINDS, grown
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import extarray as xa
from extarray.codecs import libraries, payloads
from extarray.codecs.codec import CodecId, FilterId
from extarray.common.limits import limits
from extarray.format._crc import crc32c
from extarray.format.blobs import MIXED, decode_blob_head
from extarray.maintenance import blob_packing
from extarray.storage.file_store import FileStore
from extarray.storage.names import Packed

CODECS = ["zstd", "zstd:1:shuffle", "lz4:bitshuffle", "zlib:1", "auto"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_array_is_read_and_unpacked(kind, codec, tmp_path):
    a = grown(tmp_path / "a", **KINDS[kind])
    expected = a[...]
    xa.pack(a, tmp_path / "a.xap", compression=codec)
    facts = (a.shape, a.origin, a.dims, a.growth, a.axial.segments, dict(a.attrs), a.fill_value)
    uuid = a.info()["uuid"]
    a.close()
    with zipfile.ZipFile(tmp_path / "a.xap") as file:
        assert file.testzip() is None
        assert sorted(file.namelist()) == ["a.xmd", "a.xta", "a.xtz"]
    xa.unpack(tmp_path / "a.xap", tmp_path / "b")
    for path in (tmp_path / "a.xap", tmp_path / "b"):
        for engine in ("mmap", "pread"):
            for verify in ("never", "read"):
                with xa.open(path, engine=engine, verify=verify) as b:
                    assert np.array_equal(b[...], expected)
                    assert np.array_equal(b[1:, ::2], expected[1:, ::2])
                    assert b[0, -1] == expected[0, -1]
                    assert facts == (
                        b.shape, b.origin, b.dims, b.growth, b.axial.segments, dict(b.attrs),
                        b.fill_value,
                    )  # fmt: skip
                    assert b.info()["uuid"] == uuid
    assert xa.check(tmp_path / "a.xap", data=True).ok
    assert xa.check(tmp_path / "b", data=True).ok
    with xa.open(tmp_path / "b", "r+") as b:
        b.extend(0, 3)
        assert np.array_equal(b[: len(expected)], expected)


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(limits, "coded_bytes", 1)
    with xa.config.set(threads=2):
        yield


@given(
    hnp.arrays(
        st.sampled_from(["u1", "<i2", ">f4", "f8", "c16", "S3", "M8[s]", "i4,f8"]),
        hnp.array_shapes(max_dims=3, max_side=9),
    ),
    st.sampled_from([*CODECS, None]),
    st.sampled_from(["address", "hilbert", 0]),
    st.integers(1, 4),
)
def test_any_elements_come_back(tmp_path_factory, x, codec, order, side):
    folder = tmp_path_factory.mktemp("any")
    chunks = tuple(min(side, n) for n in x.shape)
    with xa.from_array(x, chunks=chunks) as a:
        xa.pack(a, folder / "a.xap", order=order, compression=codec)
    with xa.open(folder / "a.xap") as a:
        assert a[...].tobytes() == x.tobytes()
    xa.unpack(folder / "a.xap", folder / "a")
    with xa.open(folder / "a") as a:
        assert a[...].tobytes() == x.tobytes()


def scene_of(shape=(90, 80)):
    """Elements of which chunks of (30, 40) are smooth, noise, of one value, and zero."""
    x = np.add.outer(np.arange(shape[0]) // 3, np.arange(shape[1]) // 7).astype("<f4")
    noise = np.random.default_rng(0).integers(0, 2**32, (30, 40), "u4")
    noise[noise >> 23 & 255 == 255] ^= 1 << 30  # neither infinite nor NaN
    x[:30, :40] = noise.view("<f4")
    x[30:60, :40] = 7
    x[60:, :40] = 0
    return x


@pytest.fixture
def scene(tmp_path):
    """Pack an array of 6 chunks of 30 x 40; yield its path and elements."""
    x = scene_of()
    with xa.create(tmp_path / "a", (90, 40), "<f4", chunks=(30, 40), dims=["y", "x"]) as a:
        a.extend("x", 40)
        a[...] = x
        xa.pack(a, tmp_path / "a.xap", compression="zstd:shuffle", order="x")
    return tmp_path / "a.xap", x


def heads_of(path):
    """Return codec, filter and bytes in the file of each chunk, by address; None: no blob."""
    store, axial = FileStore.open(path, "r", 0, "pread", "flush", "write")
    try:
        places = store.blobs.places(np.arange(axial.size))
        found = []
        for q, (at, room) in enumerate(zip(places.offsets, places.sizes, strict=True)):
            if not room:
                found.append(None)
                continue
            head = decode_blob_head(store.blobs.file.read(32, at), q, store.blobs.block, room)
            found.append((head.codec, head.filter, int(room)))
        return store.blobs.block.codec, found
    finally:
        store.close()


def test_each_chunk_has_the_codec_that_suits(scene, tmp_path):
    path, _ = scene
    codec, heads = heads_of(path)
    assert codec == MIXED
    assert heads[0] == (CodecId.RAW, FilterId.NONE, 4864)  # 32 + 4800, rounded up
    assert heads[1] == (CodecId.CONSTANT, FilterId.NONE, 64)
    assert heads[2] is None
    assert all(h[:2] == (CodecId.ZSTD, FilterId.SHUFFLE) and h[2] < 2400 for h in heads[3:])
    with xa.from_array(scene_of()[:, 40:], tmp_path / "b", chunks=(30, 40)) as a:
        xa.pack(a, tmp_path / "b.xap", compression="lz4")
    codec, heads = heads_of(tmp_path / "b.xap")
    assert codec == CodecId.LZ4
    assert {head[:2] for head in heads} == {(CodecId.LZ4, FilterId.NONE)}


def test_info_tells_what_is_stored(scene):
    path, x = scene
    with xa.open(path) as a:
        info = a.info()
        assert info["compression"] == "zstd:shuffle" and info["chunk_order"] == 1
        with zipfile.ZipFile(path) as file:
            assert info["stored_bytes"] == file.getinfo("a.xtz").file_size
        assert info["ratio"] == x.nbytes / info["stored_bytes"]
        assert "ratio            " in str(info) and "zstd:shuffle" in str(info)
        assert f"zstd:shuffle, ratio {info['ratio']:.2f}" in a._repr_html_()


def test_order_and_compression_do_not_depend_on_each_other(tmp_path):
    x = scene_of()
    with xa.from_array(x, tmp_path / "a", chunks=(30, 40)) as a:
        sizes = {}
        for order in ("address", "hilbert", "morton", 0, 1):
            xa.pack(a, tmp_path / "a.xap", order=order, compression="zstd", overwrite=True)
            sizes[order] = os.path.getsize(tmp_path / "a.xap")
            with xa.open(tmp_path / "a.xap") as b:
                assert np.array_equal(b[...], x)
                assert b.info()["chunk_order"] == order
    assert max(sizes.values()) - min(sizes.values()) < 64


@pytest.mark.parametrize("threads", [1, 3])
def test_blobs_have_the_order_whichever_thread_ends_first(tmp_path, monkeypatch, threads):
    monkeypatch.setattr(limits, "coded_bytes", 1)
    monkeypatch.setattr(blob_packing, "_PIECE", 1 << 12)  # two chunks
    waits = iter([threading.Event() for _ in range(1)])
    make = blob_packing.BlobWriter._piece
    turn, slow = threading.Lock(), []

    def delayed(self, now, addresses, first):
        with turn:
            event = next(waits, None)
        if event is not None:  # the first piece ends last of those that begin with it
            slow.append(event.wait(0.05))
        return make(self, now, addresses, first)

    monkeypatch.setattr(blob_packing.BlobWriter, "_piece", delayed)
    x = np.add.outer(np.arange(240) // 3, np.arange(240) // 7).astype("<f4")
    with xa.config.set(threads=threads), xa.from_array(x, tmp_path / "a", chunks=(24, 20)) as a:
        xa.pack(a, tmp_path / "a.xap", order="hilbert", compression="zstd")
    assert slow == [False]
    with Packed.find(tmp_path / "a.xap") as packed:
        member = packed.blobs["a"]
    data = (tmp_path / "a.xap").read_bytes()[member.start : member.start + member.size]
    at, numbers = 64, []
    while len(numbers) < 120:
        _, n, _, number = struct.unpack_from("<IIQQ", data, at)
        numbers.append(number)
        at += -(-(32 + n) // 64) * 64
    assert numbers == sorted(set(numbers))
    with xa.open(tmp_path / "a.xap") as a:
        assert np.array_equal(a[...], x)


def test_an_interruption_leaves_nothing(tmp_path, two_threads):
    x = np.arange(250_000).reshape(500, 500)
    with xa.from_array(x, tmp_path / "a", chunks=(50, 50)) as a:

        def stop(done, total):
            raise KeyboardInterrupt

        n_threads = threading.active_count()
        with pytest.raises(KeyboardInterrupt):
            xa.pack(a, tmp_path / "a.xap", compression="zstd", progress=stop)
        assert threading.active_count() == n_threads
    assert sorted(os.listdir(tmp_path)) == ["a.xmd", "a.xta"]


def test_several_threads_encode_and_decode(tmp_path, two_threads):
    x = scene_of((300, 400))
    with xa.from_array(x, tmp_path / "a", chunks=(30, 40)) as a:
        xa.pack(a, tmp_path / "a.xap", compression="auto", order="morton")
    with xa.open(tmp_path / "a.xap") as a:
        assert np.array_equal(a[...], x)
    assert xa.check(tmp_path / "a.xap", data=True).ok
    done = []
    xa.unpack(tmp_path / "a.xap", tmp_path / "b", progress=lambda *now: done.append(now))
    assert done[-1][0] == done[-1][1]
    with xa.open(tmp_path / "b") as a:
        assert np.array_equal(a[...], x)


def test_it_is_read_by_everything_that_reads(scene):
    path, x = scene
    with xa.open(path) as a:
        assert np.isclose(a.sum(dtype="f8"), x.sum(dtype="f8"))
        assert np.array_equal(np.max(a, axis=0), x.max(0))
        assert np.array_equal(a[[0, 50], :][:, [1, 79]], x[[0, 50]][:, [1, 79]])
        assert np.array_equal(a[a[...] > 20], x[x > 20])
        assert np.array_equal(a.chunk((0, 1)), x[:30, 40:])
        assert np.array_equal(a.lazy[3:, ::2].T, x[3:, ::2].T)
        again = pickle.loads(pickle.dumps(a))
        assert np.array_equal(again[...], x)
        with a.copy(path.parent / "copy") as copy:
            assert np.array_equal(copy[...], x)
        with xa.open(path.parent / "copy", "r+") as copy:
            copy.extend(0, 1)
            assert np.array_equal(copy[:90], x)
        with a.rechunk((20, 50), path.parent / "other") as other:
            assert np.array_equal(other[...], x)
        with pytest.warns(xa.LossyWarning, match="names of the axes"):
            xa.to_npy(a, path.parent / "a.npy")
        assert np.array_equal(np.load(path.parent / "a.npy"), x)
        child = os.fork()
        if not child:
            os._exit(0 if np.array_equal(a[...], x) else 3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        xa.pack(a, path.parent / "plain.xap")
        xa.pack(a, path.parent / "lz4.xap", compression="lz4")
    for name in ("plain", "lz4"):
        with xa.open(path.parent / f"{name}.xap") as a:
            assert np.array_equal(a[...], x)
    with pytest.raises(xa.ReadOnlyError, match="unpack"):
        xa.open(path, "r+")


def test_groups_are_compressed(tmp_path):
    x = scene_of()
    with xa.open_group(tmp_path / "g", "w") as g:
        g["time"] = np.arange(90)
        g["north/wind"] = np.tile(x, (1, 8))
        xa.pack(g, tmp_path / "g.xap", compression=xa.Codec("zstd", 5, "shuffle"))
        xa.pack(g, tmp_path / "plain.xap")
    assert os.path.getsize(tmp_path / "g.xap") < os.path.getsize(tmp_path / "plain.xap") * 0.8
    with xa.open_group(tmp_path / "g.xap") as g:
        assert np.array_equal(g["north/wind"][:, -80:], x)
        assert g["time"].info()["compression"] == "zstd:5:shuffle"
    assert xa.check(tmp_path / "g.xap", data=True).ok
    xa.unpack(tmp_path / "g.xap", tmp_path / "back")
    with xa.open_group(tmp_path / "back", "r+") as g:
        assert np.array_equal(g["north/wind"][:, -80:], x)
        g["time"].append([90])


def test_arrays_without_elements_or_axes(tmp_path):
    for n, x in enumerate((np.zeros((0, 3)), np.array(5.0), np.zeros(4))):
        with xa.from_array(x) as a:
            xa.pack(a, tmp_path / f"{n}.xap", compression="zstd")
        with xa.open(tmp_path / f"{n}.xap") as a:
            assert np.array_equal(a[...], x)
        assert xa.check(tmp_path / f"{n}.xap", data=True).ok
        xa.unpack(tmp_path / f"{n}.xap", tmp_path / f"{n}")
        with xa.open(tmp_path / f"{n}", "r+") as a:
            assert np.array_equal(a[...], x)
            assert a.shape == x.shape


@pytest.mark.parametrize("threads", [1, 2])
def test_large_chunks_are_cut_into_blocks(tmp_path, threads):
    x = np.add.outer(np.arange(700) // 3, np.arange(500) // 7).astype("<f8")
    with xa.from_array(x, tmp_path / "a", chunks=(700, 500)) as a:
        xa.pack(a, tmp_path / "a.xap", compression="zstd:shuffle")
    with xa.config.set(threads=threads), xa.open(tmp_path / "a.xap") as a:
        assert np.array_equal(a[...], x)
        assert a.info()["ratio"] > 10


@pytest.mark.parametrize(
    "given, error",
    [("lzf", xa.ArgumentError), ("zstd:99", xa.ArgumentError), (2.5, xa.ArgumentTypeError)],
)
def test_compression_that_is_none(tmp_path, given, error):
    with xa.ones(3) as a, pytest.raises(error):
        xa.pack(a, tmp_path / "a.xap", compression=given)
    assert os.listdir(tmp_path) == []


def test_chunks_that_are_too_large_for_a_blob_are_refused(tmp_path):
    a = xa.create(tmp_path / "a", (1 << 30,), "u1", chunks=(1 << 30,), sparse=True)
    with a, pytest.raises(xa.LimitError, match="below 1 GiB"):
        xa.pack(a, tmp_path / "a.xap", compression="lz4")
    assert sorted(os.listdir(tmp_path)) == ["a.xmd", "a.xta"]


def test_memory_is_bounded(tmp_path):
    x = np.arange(64 * 64, dtype="u2").reshape(64, 64) // 50
    with xa.create(tmp_path / "a", (64, 64), "u2", chunks=(16, 16)) as a:
        a[...] = x
        xa.pack(a, tmp_path / "a.xap", compression="zlib")
    with xa.config.set(max_memory=4 * 512), xa.open(tmp_path / "a.xap") as a:
        for i in range(0, 64, 5):
            assert np.array_equal(a[i], x[i])
        assert np.array_equal(a[...], x)
        assert len(a._store.now.supply.present) <= 4


def test_the_library_is_needed_for_its_chunks_alone(scene, tmp_path, monkeypatch):
    path, x = scene
    package = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(libraries, "_zstd", libraries._zstd.__wrapped__)
    monkeypatch.setattr(payloads, "decode_alone", lambda *given: False)  # its functions are loaded
    with xa.open(path) as a:
        assert np.array_equal(a[:, :40], x[:, :40])
        with pytest.raises(xa.MissingExtraError, match="pip install"):
            a[...]
        with pytest.raises(xa.MissingExtraError):
            xa.pack(a, tmp_path / "b.xap", compression="zstd")
    assert not os.path.exists(tmp_path / "b.xap")


# -- damage ----------------------------------------------------------------------------------------


def blob_at(path, address):
    """Return the offset of a blob in the packed file, and its bytes."""
    store, _ = FileStore.open(path / "a", "r", 0, "pread", "flush", "write")
    with Packed.find(path) as packed:
        base = packed.blobs["a"].start
    try:
        places = store.blobs.places(np.array([address]))
        at = base + int(places.offsets[0])
        return at, path.read_bytes()[at : at + int(places.sizes[0])], store.blobs.block.uuid
    finally:
        store.close()


def test_damage_of_a_chunk_is_told_with_its_elements(scene, tmp_path):
    path, x = scene
    at, blob, uuid = blob_at(path, 3)
    image = bytearray(path.read_bytes())

    def changed(change, is_signed):
        new = bytearray(blob)
        change(new)
        (n,) = struct.unpack_from("<I", new, 4)
        if is_signed:
            struct.pack_into("<I", new, 0, crc32c(uuid + bytes(new[4 : 32 + n])))
        image[at : at + len(blob)] = new
        path.write_bytes(image)

    def flip(new):
        new[45] ^= 1

    def zero(new):
        new[32:60] = bytes(28)

    for change, is_signed in ((flip, False), (zero, True)):
        changed(change, is_signed)
        with xa.open(path) as a:
            assert np.array_equal(a[:, :40], x[:, :40])
            with pytest.raises(
                xa.ChecksumError, match=r"its elements are \[0:30, 40:80\]"
            ) as found:
                a[0]
            assert found.value.box == (slice(0, 30), slice(40, 80))
            assert np.array_equal(a[30:], x[30:])
        report = xa.check(path, data=True)
        assert [problem.boxes for problem in report.problems if problem.boxes] == [
            ((slice(0, 30), slice(40, 80)),)
        ]
        with pytest.raises(xa.ChecksumError):
            xa.unpack(path, tmp_path / "b")
        assert not os.path.exists(tmp_path / "b.xmd")
    with xa.open(path, verify="never") as a, pytest.raises(xa.ChecksumError, match="zstd"):
        a[0]
