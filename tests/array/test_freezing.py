"""Arrays that grow with compression: the same elements, whatever is frozen, thawed, or cut."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import tempfile
import threading
import time
import zlib

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from systems import disk_bytes

import extarray as xa
from extarray.array import freezing
from extarray.codecs import codec, libraries, payloads
from extarray.common import system
from extarray.common.limits import Limits, limits
from extarray.errors import (
    ArgumentError,
    ChecksumError,
    LimitError,
    MissingExtraError,
    ReadOnlyError,
    StorageError,
)
from extarray.storage import decoded, frozen
from extarray.storage.frozen import FrozenTable


@pytest.fixture(params=["mmap", "pread"])
def engine(request):
    return request.param


def frozen_chunks(a):
    return a._store.now.frozen.frozen(0, a.axial.size).tolist()


def test_chunks_left_behind_are_frozen(tmp_path, engine):
    x = np.arange(40 * 64 * 64, dtype="i4").reshape(40, 64, 64)
    path = tmp_path / "a"
    with xa.create(
        path, (0, 64, 64), "i4", chunks=(8, 32, 32), compression="zlib", engine=engine
    ) as a:
        for i in range(20):
            a.append(x[2 * i : 2 * i + 2])
        np.testing.assert_array_equal(a[...], x)
    with xa.open(path, engine=engine) as a:
        assert frozen_chunks(a) == list(range(20))
        np.testing.assert_array_equal(a[...], x)
        np.testing.assert_array_equal(a[::7, 3, ::-5], x[::7, 3, ::-5])
        np.testing.assert_array_equal(a[[3, 39], :, [1, 60]], x[[3, 39], :, [1, 60]])
        assert a[39, 63, 63] == x[39, 63, 63]
    assert os.path.getsize(f"{path}.xtz") < x.nbytes
    assert disk_bytes(f"{path}.xta") < x.nbytes // 8


def test_a_round_in_the_background_that_comes_between_is_ended(tmp_path, monkeypatch):
    """The thread in the background takes all chunks just before the end does."""
    x = np.arange(64.0).reshape(8, 8)
    with xa.create(tmp_path / "a", (0, 8), chunks=(2, 4), compression="zlib", freeze="close") as a:
        a.append(x)
        table = a._store.now.frozen

        def behind(*chunks):
            monkeypatch.undo()
            freezing.return_changed(*chunks)
            with table.encoding:
                freezing._encode_round(a, table, lambda addresses: addresses >= 0, 0)

        monkeypatch.setattr(freezing, "return_changed", behind)
    with xa.open(tmp_path / "a") as a:
        assert frozen_chunks(a) == list(range(8))
        np.testing.assert_array_equal(a[...], x)


@pytest.mark.parametrize("policy", ["never", "close"])
def test_nothing_is_frozen_unasked(tmp_path, policy):
    with xa.create(tmp_path / "a", (0, 8), chunks=(2, 4), compression="zlib", freeze=policy) as a:
        a.append(np.ones((8, 8)))
        assert frozen_chunks(a) == []
        if policy == "never":
            assert a.freeze() == 8
            assert a.freeze() == 0
            for n in range(limits.rewrites):
                a[0, 0] = n
                assert len(frozen_chunks(a)) == 8
            a[0, 1] = 2  # once more
            assert len(frozen_chunks(a)) == 7
            a.thaw()
            assert frozen_chunks(a) == []
    with xa.open(tmp_path / "a") as a:
        assert len(frozen_chunks(a)) == (0 if policy == "never" else 8)
        assert a[1, 1] == 1


def test_a_box_in_frozen_chunks_leaves_them_frozen(tmp_path, engine):
    x = np.arange(16 * 16.0).reshape(16, 16)
    path = tmp_path / "a"
    with xa.create(path, x.shape, chunks=(4, 4), compression="zlib", engine=engine) as a:
        a[...] = x
    reader = xa.open(path, engine=engine)
    np.testing.assert_array_equal(reader[...], x)
    with xa.open(path, "r+", engine=engine) as a:
        a[1:9, 3:8] = x[1:9, 3:8] = -1
        assert len(frozen_chunks(a)) == 16
        np.testing.assert_array_equal(a[...], x)
        np.testing.assert_array_equal(reader[...], x)
        for n in range(limits.rewrites):
            assert len(frozen_chunks(a)) == 16
            a[3, 7] = x[3, 7] = n
        assert len(frozen_chunks(a)) == 15
        np.testing.assert_array_equal(a[...], x)
        np.testing.assert_array_equal(reader[...], x)
        a.flush()
        np.testing.assert_array_equal(reader[...], x)
    reader.close()
    with xa.open(path) as a:
        assert len(frozen_chunks(a)) == 16
        np.testing.assert_array_equal(a[...], x)


@pytest.mark.parametrize("steps", [[], ["flush"], ["flush", "freeze", "flush"], ["repack"]])
def test_boxes_in_frozen_chunks_keep_checksums_right(tmp_path, engine, steps):
    x = np.arange(20, dtype="i4").reshape(4, 5)
    path = tmp_path / "a"
    a = xa.create(
        path, x.shape, "i4", chunks=(2, 3), compression="zlib", freeze="never", checksum=True,
        engine=engine,
    )  # fmt: skip
    with a:
        a[...] = x
        a.freeze()
        a.flush()
        with xa.open(path, engine=engine, verify="read") as reader:
            a[2:, :2] = x[2:, :2] = -1
            for step in steps:
                getattr(a, step)()
            a.thaw()
            reader.refresh()
            np.testing.assert_array_equal(reader[...], x)
            a.flush()
            np.testing.assert_array_equal(reader[...], x)
    assert xa.check(path, data=True).ok


@pytest.mark.parametrize("codec", ["zlib", "lz4", "zstd:1:shuffle"])
@pytest.mark.parametrize("cache", [1, 1 << 20])
def test_threads_decode_chunks_in_turns(tmp_path, monkeypatch, engine, codec, cache):
    monkeypatch.setattr(limits, "coded_bytes", 1000)
    monkeypatch.setattr(decoded, "_TURN_BYTES", 1000)
    monkeypatch.setattr(xa.config, "threads", 3)
    monkeypatch.setattr(xa.config, "chunk_cache", cache)
    x = (np.arange(60 * 80).reshape(60, 80) % 777).astype("i4")
    x[8:24, 16:40] = 0  # the fill value
    x[40:48, :8] = 5
    path = tmp_path / "a"
    with xa.create(path, x.shape, "i4", chunks=(8, 8), compression=codec, engine=engine) as a:
        a[...] = x
    with xa.open(path, "r+", engine=engine) as a:
        assert len(frozen_chunks(a)) == 80
        a[30:40, 30:40] = x[30:40, 30:40]
        a.thaw()
        a.freeze()
        a[:3, 70:] = x[:3, 70:] + 1
        x[:3, 70:] += 1
        found = [None] * 4

        def read(k):
            found[k] = a[15 * k : 15 * k + 15]

        threads = [threading.Thread(target=read, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(np.concatenate(found), x)
        np.testing.assert_array_equal(a[...], x)
        np.testing.assert_array_equal(a[::-9, 3:77:5], x[::-9, 3:77:5])
        place = a._store.now.frozen.place_of_blob(41)
    with open(f"{path}.xtz", "r+b") as file:
        file.seek(place + 33)
        byte = file.read(1)[0]
        file.seek(place + 33)
        file.write(bytes([byte ^ 1]))
    with xa.open(path, engine=engine) as a:
        with pytest.raises(ChecksumError, match="restore the file") as error:
            a[...]
        assert error.value.chunk == 41
        damaged = a.axial.index(41)[0]
        for k in range(8):
            if k != damaged:
                np.testing.assert_array_equal(a[8 * k : 8 * k + 8], x[8 * k : 8 * k + 8])


def test_readers_follow(tmp_path, engine):
    path = tmp_path / "a"
    x = np.random.default_rng(1).integers(0, 9, (30, 40))
    with (
        xa.create(path, (0, 40), int, chunks=(4, 16), compression="zlib", engine=engine) as a,
        xa.open(path, engine=engine) as r,
    ):
        for i in range(0, 30, 3):
            a.append(x[i : i + 3])
            if i % 2:
                a.freeze()
                a.flush()
            r.refresh()
            np.testing.assert_array_equal(r[...], x[: i + 3])
        a[5:9, 3:20] = x[5:9, 3:20] = -1
        np.testing.assert_array_equal(r[...], x)
        a.freeze()
        np.testing.assert_array_equal(r[...], x)
        a.flush()
        np.testing.assert_array_equal(r[...], x)


def test_space_is_given_back_while_an_array_grows(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "unfreed_bytes", 1 << 18)
    x = np.arange(1 << 14, dtype="i8").reshape(64, -1)
    with xa.create(tmp_path / "a", (0, 256), "i8", chunks=(8, 64), compression="zlib") as a:
        for _ in range(200):
            a.append(x)
            if disk_bytes(tmp_path / "a.xta") < a.nbytes // 2:
                break
            time.sleep(0.01)
        else:
            pytest.fail("raw bytes of frozen chunks keep their space")


def test_no_chunk_is_encoded_twice(tmp_path, monkeypatch):
    encoded = []

    def encode(codec, chunk, itemsize, sides):
        encoded.append(bytes(chunk[:8]))
        time.sleep(0.002)
        return payloads.encode(codec, chunk, itemsize, sides)

    monkeypatch.setattr(freezing, "encode", encode)
    monkeypatch.setattr(freezing, "_DELAY", 0)
    monkeypatch.setattr(freezing, "_ROUND_BYTES", 1 << 14)
    with xa.create(tmp_path / "a", (0, 16), "i8", chunks=(8, 16), compression="zlib") as a:
        for i in range(0, 800, 16):
            a.append(np.arange(256).reshape(16, 16) + 16 * i)
    assert len(encoded) == len(set(encoded)) == 100


def test_thawed_chunks_are_looked_at_once(tmp_path, monkeypatch):
    looked_at = []

    def are_thawed(frozen, addresses):
        looked_at.append(addresses.tolist())
        return are_thawed_(frozen, addresses)

    are_thawed_ = freezing._are_thawed
    x = np.arange(64).reshape(16, 4)
    with xa.create(tmp_path / "a", (0, 4), int, chunks=(2, 4), compression="zlib") as a:
        monkeypatch.setattr(freezing, "notice", lambda array: None)
        monkeypatch.setattr(freezing, "_are_thawed", are_thawed)
        a.append(x)
        freezing._freeze_behind(a)
        assert frozen_chunks(a) == [*range(8)]
        a.thaw()
        a[...] = x + 1
        freezing._freeze_behind(a)
        looked_at.clear()
        freezing._freeze_behind(a)
        assert not any(looked_at)
        assert frozen_chunks(a) == []
        assert a.freeze() == 8
        np.testing.assert_array_equal(a[...], x + 1)


@pytest.mark.parametrize(
    "error",
    [
        LimitError("too large"),
        MissingExtraError("no library"),
        StorageError(errno.ENOSPC, "no space"),
        MemoryError(),
    ],
)
def test_what_cannot_be_frozen_at_the_end_stays_raw(tmp_path, monkeypatch, error):
    x = np.arange(1 << 14).reshape(16, -1)
    with xa.create(tmp_path / "a", (0, 1024), int, chunks=(4, 1024), compression="zlib") as a:
        monkeypatch.setattr(freezing, "notice", lambda array: None)
        a.append(x[:8])
        a.freeze()
        a.append(x[8:])

        def encode(*_):
            raise error

        monkeypatch.setattr(freezing, "encode", encode)
        with pytest.raises(type(error)):
            a.freeze()
    with xa.open(tmp_path / "a") as a:
        assert frozen_chunks(a) == [0, 1]
        np.testing.assert_array_equal(a[...], x)
    assert disk_bytes(tmp_path / "a.xta") < x.nbytes * 3 // 4


def hide_zstd(monkeypatch):
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(libraries, "_zstd", libraries._zstd.__wrapped__)


def test_writers_need_the_library_that_compresses_what_they_leave(tmp_path, monkeypatch):
    x = np.arange(1 << 12).reshape(16, -1)
    xa.from_array(x, path=tmp_path / "a", chunks=(4, 256), compression="zstd").close()
    never = {"compression": "zstd", "freeze": "never"}
    xa.create(tmp_path / "never", (0, 256), int, chunks=(4, 256), **never).close()
    with monkeypatch.context() as patch:
        hide_zstd(patch)
        with pytest.raises(
            MissingExtraError, match=r"for writing: .*zstd.*pip install.*share"
        ) as caught:
            xa.open(tmp_path / "a", "r+")
        assert caught.value.name.endswith("zstd")
        with xa.open(tmp_path / "a") as a:
            assert a.shape == x.shape
        with xa.open(tmp_path / "a", "r+", share=True) as a:
            a.append(x[:4])
        with xa.open(tmp_path / "never", "r+") as a:
            a.append(x)
            with pytest.raises(MissingExtraError, match="zstd"):
                a.freeze()
            np.testing.assert_array_equal(a[...], x)
    with xa.open(tmp_path / "a", "r+") as a:  # no lock is left
        assert a.freeze() == 1
        np.testing.assert_array_equal(a[...], np.vstack([x, x[:4]]))


def test_writers_need_the_package_of_a_codec(tmp_path, monkeypatch):
    class Point:
        def load(self):
            return self

        def encode(self, data, itemsize, level):
            return zlib.compress(data)

    for module in (codec, libraries):
        monkeypatch.setattr(module, "registered", lambda: {"other": Point()})
    libraries._named.cache_clear()
    xa.create(tmp_path / "a", (0, 4), chunks=2, compression="other").close()
    monkeypatch.setattr(codec, "registered", dict)
    with pytest.raises(MissingExtraError, match="package registers its codec 'other'.*share=True"):
        xa.open(tmp_path / "a", "r+")
    with xa.open(tmp_path / "a", "r+", share=True) as a:
        a.append(np.ones((3, 4)))
    libraries._named.cache_clear()


@pytest.mark.parametrize("error", [LimitError("too large"), MissingExtraError("no library")])
def test_a_write_thaws_chunks_that_cannot_be_frozen_again(tmp_path, monkeypatch, error):
    x = np.arange(1 << 12).reshape(8, -1)
    with xa.create(tmp_path / "a", x.shape, int, chunks=(4, 512), compression="zlib") as a:
        a[...] = x
        a.freeze()

        def encode(*_):
            raise error

        monkeypatch.setattr(frozen, "encode", encode)
        a[2:6, 3] = x[2:6, 3] = -1
        a[0, 0] = x[0, 0] = 5
        assert frozen_chunks(a) == []
        np.testing.assert_array_equal(a[...], x)


def test_the_background_rests_after_an_error(tmp_path, monkeypatch):
    tried, rests = threading.Event(), threading.Event()

    def fail(array):
        tried.set()
        raise StorageError(errno.ENOSPC, "no space")

    class Time:
        @staticmethod
        def sleep(seconds):
            if tried.is_set() and seconds == freezing._REST:
                rests.set()

    monkeypatch.setattr(freezing, "_freeze_behind", fail)
    monkeypatch.setattr(freezing, "time", Time)
    with xa.create(tmp_path / "a", (0, 4), int, chunks=(2, 4), compression="zlib") as a:
        a.append(np.ones((8, 4), int))
        assert rests.wait(30)


WAITER = """
import sys, threading, time
import numpy as np
import extarray as xa
with xa.create(
    sys.argv[1], (4, 8), int, chunks=(4, 4), compression="zlib", freeze="never", engine="pread"
) as a:
    a[...] = 1
    a.freeze()
    for value in range(11):  # thaws the first chunk
        a[0, 0] = value
    sieve = a._store.now.sieve
    writer = threading.Thread(target=a.__setitem__, args=(np.s_[:, 3:5], 7))
    with sieve:  # as growth into places that a cut has left does
        writer.start()
        for _ in range(100):
            time.sleep(0.001)
    writer.join()
    assert (a[:, 3:5] == 7).all()
"""


def test_a_write_to_raw_and_frozen_chunks_waits_without_the_gil(tmp_path):
    command = [sys.executable, "-c", WAITER, os.fspath(tmp_path / "a")]
    subprocess.run(command, check=True, timeout=60)


def test_damage_is_not_frozen(tmp_path, engine):
    path = tmp_path / "a"
    with xa.create(
        path, (8, 4), int, chunks=(2, 4), compression="zlib", freeze="never", checksum=True
    ) as a:
        a[...] = np.arange(32).reshape(8, 4)
    with open(f"{path}.xta", "r+b") as file:
        file.seek(100)
        file.write(b"\xff")
    with xa.open(path, "r+", engine=engine) as a:
        assert a.freeze() == 3
        assert frozen_chunks(a) == [0, 2, 3]
        with pytest.raises(ChecksumError, match=r"2:4"):
            a[2, 0] = 5
        assert a[4, 1] == 17
    found = xa.check(path, data=True)
    assert [problem.boxes for problem in found.problems if problem.severity == "error"] == [
        ((slice(2, 4), slice(0, 4)),)
    ]


def test_a_round_that_comes_late_changes_nothing(tmp_path):
    """A chunk was written, and taken by another round, before the first one has ended."""
    x = np.arange(64.0).reshape(8, 8)
    with xa.create(tmp_path / "a", x.shape, chunks=(4, 4), compression="zlib", freeze="never") as a:
        frozen = a._store.now.frozen

        def encode():
            freezing._encode_round(a, frozen, lambda addresses: addresses >= 0, 0)

        a[...] = x
        encode()
        a[0, 0] = x[0, 0] = -1
        encode()
        assert [found.chosen.tolist() for found in frozen.encoded] == [[1, 2, 3], [0]]
        late = frozen.encoded.pop()
        assert freezing._finish_rounds(a, frozen) == 3
        np.testing.assert_array_equal(a[...], x)
        frozen.encoded.append(late)
        assert freezing._finish_rounds(a, frozen) == 1
        a.flush()
        assert a.freeze() == 0
        np.testing.assert_array_equal(a[...], x)


def test_a_chunk_that_was_to_be_written_and_is_frozen_stays_so(tmp_path, monkeypatch):
    x = np.arange(32.0).reshape(8, 4)
    with xa.create(tmp_path / "a", x.shape, chunks=(4, 4), compression="zlib", freeze="never") as a:
        a[...] = x
        a.freeze()
        a.flush()
        full = StorageError(errno.ENOSPC, "no space")

        def thaw(*_):
            raise full

        with monkeypatch.context() as patch:
            patch.setattr(FrozenTable, "thaw", thaw)
            with pytest.raises(StorageError, match="no space"):
                a[[0, 1], [0, 1]] = 1
        assert a.freeze() == 0
        np.testing.assert_array_equal(a[...], x)


def test_what_cannot_be_compressed_says_so(tmp_path):
    with pytest.raises(ArgumentError, match="needs files"):
        xa.create(None, 3, compression="zlib")
    with pytest.raises(ArgumentError, match="freeze"):
        xa.create(tmp_path / "a", 3, compression="zlib", freeze="soon")
    with pytest.raises(ArgumentError, match="give compression, too"):
        xa.create(tmp_path / "a", 3, freeze="close")
    with pytest.raises(ArgumentError, match="no codec 'zip'"):
        xa.create(tmp_path / "a", 3, compression="zip")
    with (
        xa.create(tmp_path / "a", 3) as a,
        pytest.raises(ArgumentError, match="no compression"),
    ):
        a.freeze()
    xa.create(tmp_path / "b", 3, compression="zlib").close()
    with xa.open(tmp_path / "b") as b, pytest.raises(ReadOnlyError):
        b.freeze()


class Freezing(RuleBasedStateMachine):
    """An array that freezes, thaws, grows, shrinks and is opened again shows what NumPy shows."""

    engine = "mmap"

    @initialize(
        shape=st.tuples(st.integers(0, 5), st.integers(1, 6)),
        policy=st.sampled_from(["never", "close", "behind"]),
        sparse=st.booleans(),
        fill=st.sampled_from([0, 7]),
        checksum=st.booleans(),
        rewrites=st.sampled_from([3, 10]),
    )
    def create(self, shape, policy, sparse, fill, checksum, rewrites):
        limits.rewrites = rewrites
        self.folder = tempfile.TemporaryDirectory()
        self.path = f"{self.folder.name}/a"
        self.fill, self.n = fill, 0
        self.a = xa.create(
            self.path, shape, "i4", chunks=(2, 3), compression="zlib", freeze=policy,
            fill_value=fill, sparse=sparse, checksum=checksum, engine=self.engine,
        )  # fmt: skip
        self.x = np.full(shape, fill, "i4")
        self.verify = "read" if checksum else "write"
        self.reader = xa.open(self.path, engine=self.engine, verify=self.verify)

    def new(self, shape):
        self.n += 1
        return np.arange(np.prod(shape), dtype="i4").reshape(shape) + 1000 * self.n

    @rule(data=st.data())
    def write(self, data):
        box = tuple(
            slice(*sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))) for n in self.x.shape
        )
        self.a[box] = self.x[box] = self.new(self.x[box].shape)

    @rule(axis=st.integers(0, 1), by=st.integers(1, 4), side=st.sampled_from(["start", "end"]))
    def append(self, axis, by, side):
        if self.x.shape[axis] > 14:
            return
        new = self.new([by if j == axis else n for j, n in enumerate(self.x.shape)])
        self.a.append(new, axis=axis, side=side)
        self.x = np.concatenate((self.x, new) if side == "end" else (new, self.x), axis=axis)

    @rule(axis=st.integers(0, 1), by=st.integers(1, 4), side=st.sampled_from(["start", "end"]))
    def extend(self, axis, by, side):
        if self.x.shape[axis] > 14:
            return
        self.a.extend(axis, by, side=side)
        shape = [by if j == axis else n for j, n in enumerate(self.x.shape)]
        new = np.full(shape, self.fill, "i4")
        self.x = np.concatenate((self.x, new) if side == "end" else (new, self.x), axis=axis)

    @rule(axis=st.integers(0, 1), data=st.data(), side=st.sampled_from(["start", "end"]))
    def shrink(self, axis, data, side):
        by = data.draw(st.integers(0, self.x.shape[axis]))
        self.a.shrink(axis, by, side=side)
        keep = slice(by, None) if side == "start" else slice(0, self.x.shape[axis] - by)
        self.x = self.x[(slice(None),) * axis + (keep,)].copy()

    @rule()
    def freeze(self):
        self.a.freeze()

    @rule()
    def thaw(self):
        self.a.thaw()

    @rule()
    def flush(self):
        self.a.flush()

    @precondition(lambda self: system.MAPS_FREELY)  # the table of frozen chunks is mapped
    @rule()
    def repack(self):
        self.a.repack()

    @precondition(lambda self: system.MAPS_FREELY)
    @rule(codec=st.sampled_from(["zlib:1", "zlib:9"]))
    def recode(self, codec):
        self.a.compression = codec

    @rule()
    def open_again(self):
        self.a.close()
        found = xa.check(self.path, data=True)
        assert found.ok, found
        self.a = xa.open(self.path, "r+", engine=self.engine, verify=self.verify)

    @rule()
    def follow(self):
        self.reader.refresh()
        np.testing.assert_array_equal(self.reader[...], self.x)

    @precondition(lambda self: self.x.size)
    @rule(data=st.data())
    def read_some(self, data):
        at = tuple(data.draw(st.integers(0, n - 1)) for n in self.x.shape)
        assert self.a[at] == self.x[at]
        mask = self.x % 3 == 1
        np.testing.assert_array_equal(self.a[mask], self.x[mask])

    @invariant()
    def is_right(self):
        if hasattr(self, "a"):
            np.testing.assert_array_equal(self.a[...], self.x)

    def teardown(self):
        if hasattr(self, "a"):
            self.a.close()
            self.reader.close()
            self.folder.cleanup()
            limits.rewrites = Limits().rewrites


class FreezingByCalls(Freezing):
    engine = "pread"


TestFreezing = Freezing.TestCase
TestFreezingByCalls = FreezingByCalls.TestCase
for case in (TestFreezing, TestFreezingByCalls):
    case.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@pytest.mark.slow
def test_threads_grow_write_and_read_beside_freezes(tmp_path, engine):
    wrong, is_over = [], threading.Event()
    with xa.create(
        tmp_path / "a", (16, 24), int, chunks=(4, 4), compression="zlib", engine=engine
    ) as a:
        a[...] = -1

        def work(column):
            rng = np.random.default_rng(column)
            for n in range(200):
                i = int(rng.integers(0, 12))
                a[i : i + 4, column::3] = n
                if not (a[i : i + 4, column::3] == n).all():
                    wrong.append((column, n))

        def tend():
            while not is_over.is_set():
                a.freeze()
                a.flush()
                a.extend(0, 1)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        tender = threading.Thread(target=tend)
        for thread in (tender, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        is_over.set()
        tender.join()
    assert wrong == []


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("policy", ["behind", "close", "never"])
def test_commits_of_several_arrays(tmp_path, policy, fails):
    x = np.arange(12 * 8).reshape(12, 8)
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        with xa.create(path, (0, 8), chunks=(4, 4), compression="zlib", freeze=policy) as a:
            a.append(x)
            a.freeze()
    with xa.open(paths[0], "r+") as a, xa.open(paths[1], "r+") as b:
        with contextlib.suppress(ZeroDivisionError), xa.commit([a, b]):
            for array in (a, b):
                array.append(-x)
                array[0] = 7  # thaws, and is not taken back
                with pytest.raises(ArgumentError, match="inside a block"):
                    array.freeze()
            assert 1 // (not fails)
        expected = np.concatenate([x, -x][: 1 if fails else 2])
        expected[0] = 7
        np.testing.assert_array_equal(a[...], expected)
        a.append(x)
        b.append(x)
        if policy != "close":
            a.freeze()
            assert frozen_chunks(a) == list(range(a.axial.size))
    expected = np.concatenate([expected, x])
    for path in paths:
        with xa.open(path) as a:
            np.testing.assert_array_equal(a[...], expected)
            if policy != "never":
                assert frozen_chunks(a) == list(range(a.axial.size))
