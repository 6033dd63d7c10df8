"""The codec of an array, changed; its log of frozen chunks, repacked in place."""

from __future__ import annotations

import contextlib
import errno
import gc
import itertools
import os
import threading
import zlib

import frozen_reader
import lz4.block as lz4
import numpy as np
import pytest
from frozen_chunks import table
from systems import disk_bytes, needs_proc

import extarray as xa
from extarray.array import compression
from extarray.codecs.codec import CodecId
from extarray.common.limits import limits
from extarray.errors import (
    ArgumentError,
    ChecksumError,
    ReadOnlyError,
    ReplacedError,
    ShapeError,
    StorageError,
)
from extarray.format.blobs import BLOB_HEAD_BYTES
from extarray.storage import file_store, names, new_axis
from extarray.storage.filesystem import File

CHUNKS = (4, 256)
# Chunks take a page each, which can become a hole.
VALUES = np.random.default_rng(7).integers(1, 9, (40, 512)).astype("i4")


@pytest.fixture(params=["mmap", "pread"])
def engine(request):
    return request.param


def create(path, **options):
    options = {"compression": "zlib", "freeze": "never", "fill_value": 5, **options}
    a = xa.create(path, (0, VALUES.shape[1]), VALUES.dtype, chunks=CHUNKS, **options)
    a.append(VALUES)
    return a


def make_garbage(a, x):
    """Freeze, write and freeze again; return the elements."""
    x = x.copy()
    a.freeze()
    a.flush()
    for n in range(3):
        a[4 * n : 4 * n + 7] = x[4 * n : 4 * n + 7] = n
        a.freeze()
    a.flush()
    return x


def sizes(path):
    return {suffix: os.path.getsize(f"{path}{suffix}") for suffix in (".xmd", ".xta", ".xtz")}


def codecs(path):
    """Return the codec of each chunk by address; None: it is raw."""
    with xa.open(path) as a:
        found, frozen = [], table(a)
        with open(f"{path}.xtz", "rb") as log:
            for word in frozen.entries(np.arange(a.axial.size)).tolist():
                log.seek(64 * (word >> 24) + 24)
                found.append(int.from_bytes(log.read(2), "little") if word > 1 else None)
        return found


def read_by_page(path):
    """Return the elements of a closed array as a reader written from the format page finds them."""
    return frozen_reader.read(path)[0]


def decode(codec, payload, size):
    if codec == CodecId.LZ4:
        return lz4.decompress(payload, uncompressed_size=size)
    if codec == CodecId.CONSTANT:
        return payload * (size // len(payload))
    return zlib.decompress(payload) if codec else payload


def files(path):
    return sorted(file.name for file in path.parent.iterdir())


# -- the codec -------------------------------------------------------------------------------------


def test_chunks_are_frozen_by_the_codec_of_the_moment(path, engine):
    with create(path, engine=engine) as a:
        assert a.compression == xa.Codec("zlib")
        a.freeze()
        a.compression = xa.Codec("lz4")
        assert a.compression == xa.Codec("lz4")
        a.append(VALUES)
        a.freeze()
        a.compression = None
        assert a.compression is None
        a.append(VALUES)
        with pytest.raises(ArgumentError, match="its compression is None"):
            a.freeze()
        a[0] = -1
    expected = np.vstack([VALUES] * 3)
    expected[0] = -1
    n = 20  # chunks of each append; the write has thawed two
    known = [None] * 2 + [CodecId.ZLIB] * (n - 2) + [CodecId.LZ4] * n + [None] * n
    assert codecs(path) == known
    assert np.array_equal(read_by_page(path), expected)
    with xa.open(path, "r+") as a:
        assert a.compression is None
        assert np.array_equal(a[...], expected)
        a.compression = "zlib:9"
        assert a.freeze() == n + 2
        assert np.array_equal(a[...], expected)
    assert None not in codecs(path)


def test_the_policy_stays(path):
    with create(path, freeze="close") as a:
        a.compression = None
        a.compression = "lz4"
        assert table(a).policy == "close"
        assert not any(table(a).entries(np.arange(a.axial.size)))
    assert set(codecs(path)) == {CodecId.LZ4}


def test_nothing_is_frozen_behind_by_none(path):
    with create(path, freeze="behind") as a:
        a.compression = None
        a.append(VALUES)
    assert codecs(path)[20:] == [None] * 20


def test_the_same_codec_changes_no_file(path):
    with create(path) as a:
        before = os.stat(f"{path}.xmd").st_ino
        a.compression = "gzip"
        assert os.stat(f"{path}.xmd").st_ino == before
        a.compression = "lz4"
        assert os.stat(f"{path}.xmd").st_ino != before


def test_what_else_has_a_codec(tmp_path):
    assert xa.ones(3).compression is None
    with pytest.raises(ArgumentError, match="in memory"):
        xa.ones(3).compression = "lz4"
    xa.pack(xa.ones((3, 4)), tmp_path / "a.xap", compression="zlib:2", progress=False)
    with xa.open(tmp_path / "a.xap") as packed:
        assert packed.compression == xa.Codec("zlib", 2)
        with pytest.raises(ReadOnlyError):
            packed.compression = "lz4"
    with create(tmp_path / "a") as a, pytest.raises(ArgumentError, match="no codec 'zip'"):
        a.compression = "zip"
    with xa.open(tmp_path / "a") as a, pytest.raises(ReadOnlyError):
        a.compression = None


def test_the_codec_outlives_other_changes_of_the_metadata(path):
    with create(path) as a:
        a.compression = "lz4"
        a.attrs["a"] = 1
        a.add_axis()
        assert a.compression == xa.Codec("lz4")
        a.compression = "zlib:3"
        assert a.attrs["a"] == 1
    with xa.open(path) as a:
        assert (a.compression, a.attrs["a"]) == (xa.Codec("zlib", 3), 1)
        assert np.array_equal(a[0], VALUES)


# -- repacking -------------------------------------------------------------------------------------


def test_repacking_drops_garbage(path, engine):
    with create(path, engine=engine) as a:
        x = make_garbage(a, VALUES)
        before, number = sizes(path), table(a).number
        assert a.repack() is a
        after = sizes(path)
        assert after[".xtz"] == table(a).used_bytes() < before[".xtz"]
        assert table(a).number == number
        words = table(a).entries(np.arange(a.axial.size))
        assert (np.diff((words >> 24).astype(int)) > 0).all(), "not by address"
        assert np.array_equal(words, table(a).durable(np.arange(a.axial.size)))
        assert np.array_equal(a[...], x)
        a.append(x)
        a[3] = x[3] = 0
        a.freeze()
    assert files(path) == ["scene.xmd", "scene.xta", "scene.xtz"]
    assert np.array_equal(read_by_page(path)[:40], x)
    with xa.open(path, "r+") as a:
        a.repack(progress=False)
        assert np.array_equal(a[:40], x)
    assert xa.check(path, data=True).ok


@needs_proc
def test_the_old_log_gives_its_space_back_at_once(path):
    gc.disable()  # no cycle may keep what nobody needs
    try:
        with create(path) as a, xa.open(path) as reader:
            x = make_garbage(a, VALUES)
            for _ in range(2):
                assert np.array_equal(a[...], x)
                assert np.array_equal(reader[...], x)
                a[0] = x[0] = 9
                a.repack()
                a.append(x[:1])
                x = np.concatenate([x, x[:1]])
                reader.refresh()
            opened = [os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")]
            assert f"{path}.xtz" in opened
            assert f"{path}.xtz (deleted)" not in opened
    finally:
        gc.enable()


def test_nothing_to_drop_changes_no_file(path):
    with create(path) as a:
        a.freeze()
        a.flush()
        before = os.stat(f"{path}.xtz").st_ino
        a.repack()
        assert os.stat(f"{path}.xtz").st_ino == before


def test_repacking_tells_how_far_it_is(path):
    with create(path) as a:
        make_garbage(a, VALUES)
        told = []
        a.repack(progress=lambda done, total: told.append((done, total)))
        assert told[-1] == (os.path.getsize(f"{path}.xtz"),) * 2


def test_what_cannot_be_repacked_says_so(path):
    with pytest.raises(ArgumentError, match="no compression"):
        xa.ones(3).repack()
    with create(path) as a:
        with pytest.raises(ArgumentError, match="fresh array"):
            a.repack(checksum=True)
        make_garbage(a, VALUES)
    with xa.open(path) as a, pytest.raises(ReadOnlyError):
        a.repack()


def test_damage_is_not_repacked(path):
    with create(path) as a:
        x = make_garbage(a, VALUES)
    with xa.open(path) as a:
        at = table(a).place_of_blob(7) + BLOB_HEAD_BYTES + 3
    with open(f"{path}.xtz", "r+b") as log:
        log.seek(at)
        byte = log.read(1)
        log.seek(at)
        log.write(bytes([byte[0] ^ 1]))
    before = sizes(path), files(path)
    with xa.open(path, "r+") as a:
        with pytest.raises(ChecksumError, match=r"chunk 7.*overwrite the whole chunk"):
            a.repack()
        assert (sizes(path), files(path)) == before
        assert np.array_equal(a[:12], x[:12])
        with open(f"{path}.xtz", "r+b") as log:
            log.seek(at)
            log.write(byte)
        a.repack()
        assert np.array_equal(a[...], x)


@pytest.mark.parametrize(
    ("change", "suffix"), [("repack", ".xmd"), ("repack", ".xtz"), ("recode", ".xmd")]
)
def test_a_full_disk_changes_nothing(path, monkeypatch, suffix, change):
    with create(path) as a:
        x = make_garbage(a, VALUES)
        before, write = sizes(path), File.write

        def half(self, data, offset):
            if self.name.endswith(".new") and suffix in self.name:
                write(self, data[: len(data) // 2], offset)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write(self, data, offset)

        monkeypatch.setattr(File, "write", half)
        with pytest.raises(StorageError, match="No space left") as caught:
            CHANGES[change](a)
        assert caught.value.errno == errno.ENOSPC
        monkeypatch.undo()
        assert sizes(path) == before
        assert files(path) == ["scene.xmd", "scene.xta", "scene.xtz"]
        assert np.array_equal(a[...], x)
        a[0] = x[0] = 0
        a.freeze()
        CHANGES[change](a)
        assert np.array_equal(a[...], x)
    assert np.array_equal(read_by_page(path), x)


def recode(a):
    a.compression = "zlib:9" if a.compression != xa.Codec("zlib", 9) else "lz4"


CHANGES = {"repack": lambda a: a.repack(), "recode": recode, "add_axis": lambda a: a.add_axis()}


def test_the_disk_has_each_step_before_the_next(path, monkeypatch):
    """Otherwise a loss of power could leave a log that the metadata do not lead to."""
    with create(path) as a:
        make_garbage(a, VALUES)
        steps = []

        def noted(name, real):
            def call(*args):
                of = args[0].name if isinstance(args[0], File) else args[0]
                steps.append((name, of.split("scene")[1][:4] if isinstance(of, str) else "folder"))
                return real(*args)

            return call

        monkeypatch.setattr(File, "datasync", noted("sync", File.datasync))
        monkeypatch.setattr(os, "replace", noted("name", os.replace))
        monkeypatch.setattr(new_axis, "sync_folders", noted("sync", new_axis.sync_folders))
        a.repack()
        monkeypatch.undo()
    fresh = steps[steps.index(("sync", ".xtz"), 3) :]
    first = fresh.index(("name", ".xmd"))
    assert fresh[:first] == [("sync", ".xtz"), ("sync", ".xmd"), ("sync", "folder")]
    assert fresh[first + 1 :][:2] == [("sync", "folder"), ("name", ".xtz")]


# -- those who have the array open -----------------------------------------------------------------


@pytest.mark.invariant("I4")
@pytest.mark.parametrize("change", CHANGES)
def test_readers_read_on(path, engine, change):
    """Without a refresh, a reader sees what is written, and meets no hole."""
    with create(path, engine=engine) as a, xa.open(path, engine=engine) as r:
        x = make_garbage(a, VALUES)
        assert np.array_equal(r[...], x)
        a.thaw()
        a.flush()
        CHANGES[change](a)
        assert np.array_equal(r[...], x)
        a[..., 2:5, :] = x[2:5] = 77
        a.freeze()
        a.flush()
        assert a._store.now.data.read(4, 0) == bytes(4), "no hole"
        assert r[3, 4] == 77
        assert r[20, 300] == x[20, 300]
        assert np.array_equal(r[::3, [1, 500]], x[::3, [1, 500]])
        assert np.array_equal(r.chunk((1, 1)), x[4:8, 256:])
        for _ in range(2):
            CHANGES["recode"](a)
            a[..., :3, :] = x[:3] = 78
            a.freeze()
            a.flush()
            a.repack()
            assert np.array_equal(r[...], x)
        assert r.refresh()
        assert np.array_equal(r[...].reshape(x.shape), x)
        assert r.compression == a.compression
        a.append(VALUES[None] if a.ndim == 3 else VALUES)
        assert r.refresh()
        assert np.array_equal(r[...].reshape(80, 512), np.vstack([x, VALUES]))


def test_readers_of_a_chunk_that_becomes_longer(path, engine):
    x = VALUES[:3, :256].copy()
    options = {"compression": "zlib", "freeze": "never", "fill_value": 5, "engine": engine}
    with (
        xa.create(path, x.shape, "i4", chunks=CHUNKS, **options) as a,
        xa.open(path, engine=engine) as r,
    ):
        a[...] = x
        a.add_axis(chunk=3)
        a.append(x[None] + 1)
        for _ in range(2):
            a.freeze()
            a.flush()
            assert np.array_equal(r[...], x)
            a[0, 1] = x[1] = 9
            assert np.array_equal(r[...], x)
        r.refresh()
        assert np.array_equal(r[0], x)


def test_a_view_of_a_decoded_chunk_stays(path, engine):
    with create(path, engine=engine) as a, xa.open(path, engine=engine) as r:
        x = make_garbage(a, VALUES)
        view = r.chunk((0, 0))
        a.repack()
        a[...] = 0
        a.freeze()
        a.flush()
        assert not r[...].any()
        assert np.array_equal(view, x[:4, :256])


def test_a_reader_whose_path_leads_elsewhere_is_told(path, tmp_path):
    with create(path) as a:
        r = xa.open(path)
        x = make_garbage(a, VALUES)
        assert np.array_equal(r[...], x)
        a.repack()
    for suffix in (".xmd", ".xta", ".xtz"):
        os.rename(f"{path}{suffix}", tmp_path / f"other{suffix}")
    with r, pytest.raises((ReplacedError, ShapeError), match="open it again"):
        r[...]


def test_metadata_that_did_not_get_the_name_after_all(path, monkeypatch, engine):
    """A writer died, or failed, when readers had been told."""
    with create(path, engine=engine) as a, xa.open(path, engine=engine) as r:
        x = make_garbage(a, VALUES)
        table(a).hand_on()
        assert np.array_equal(r[...], x)
        assert r[3, 3] == x[3, 3]
        table(a).take_back()
        replace = os.replace

        def fail(*names):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(StorageError):
            a.repack()
        monkeypatch.setattr(os, "replace", replace)
        assert table(a).number == table(r).number < 1 << 63
        table(a).hand_on()
        a[0] = x[0] = 0
    with xa.open(path, "r+", engine=engine) as a, xa.open(path, engine=engine) as r:
        assert table(a).number < 1 << 63
        a.freeze()
        a.flush()
        assert np.array_equal(r[...], x)


def test_a_log_in_the_making_is_no_ones(path, tmp_path):
    """A writer was killed before the metadata counted: openers take the log with the name."""
    with create(path) as a:
        x = make_garbage(a, VALUES)
        fresh = f"{path}.xtz.{a._store.now.header.uuid.hex()[:12]}.new"
    with open(fresh, "wb") as file:
        file.write(b"half a log")
    with xa.open(path) as r:
        assert np.array_equal(r[...], x)
    assert xa.check(path, data=True).ok
    assert os.path.exists(fresh)
    with xa.open(path, "r+") as a:
        assert np.array_equal(a[...], x)
    assert files(path) == ["scene.xmd", "scene.xta", "scene.xtz"]


def test_who_comes_to_write_elements_leaves_a_log_in_the_making(path, monkeypatch):
    has_opened, errors = threading.Event(), []

    def open_log(*args):
        try:
            return names.open_log(*args)
        finally:
            has_opened.set()

    def write():
        try:
            with xa.open(path, "r+", share="elements") as b:
                b[0] = 8
        except BaseException as error:
            errors.append(error)
            has_opened.set()

    writer = threading.Thread(target=write)

    class NewLog(new_axis.NewLog):
        def finish(self):
            super().finish()
            writer.start()
            assert has_opened.wait(30)

    with create(path) as a:
        x = make_garbage(a, VALUES)
        with monkeypatch.context() as patch:
            patch.setattr(file_store, "open_log", open_log)
            patch.setattr(new_axis, "NewLog", NewLog)
            a.repack()
            writer.join()
        x[0] = 8
        assert errors == []
        assert np.array_equal(a[...], x)
    assert files(path) == ["scene.xmd", "scene.xta", "scene.xtz"]
    assert xa.check(path, data=True).ok
    with xa.open(path) as a:
        assert np.array_equal(a[...], x)


@pytest.mark.slow
def test_threads_beside_changes_of_the_metadata(path, engine):
    """Each thread writes its own columns, and reads them again; nothing is lost."""
    wrong, is_over = [], threading.Event()
    with create(path, engine=engine) as a:

        def work(column):
            rng = np.random.default_rng(column)
            for n in itertools.count():
                i = int(rng.integers(0, 36))
                a[i : i + 4, column::3] = n
                if not (a[i : i + 4, column::3] == n).all():
                    wrong.append((column, n))
                if is_over.is_set():
                    return

        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(25):
            a.freeze()
            a.repack()
            recode(a)
            a.flush()
        is_over.set()
        for thread in threads:
            thread.join()
        found = a[...]
    assert wrong == []
    assert np.array_equal(read_by_page(path), found)


@pytest.mark.slow
def test_a_reader_in_another_process_meets_no_hole(path, engine):
    """It never refreshes; each row has one value, which only rises."""
    with create(path, engine=engine) as a:
        rows = np.repeat(np.arange(1, 41, dtype="i4"), 512).reshape(40, 512)
        a[...] = rows
        a.flush()
        stop, ready = os.pipe(), os.pipe()
        pid = os.fork()
        if not pid:
            status = 1
            try:
                os.set_blocking(stop[0], False)
                with xa.open(path, engine=engine) as reader:
                    os.write(ready[1], b"!")
                    n, last = 0, rows
                    while True:
                        found = reader[...]
                        assert (found >= last).all(), np.argwhere(found < last)[:3]
                        assert reader[39, 511] >= found[39, 511]
                        n, last = n + 1, found
                        with contextlib.suppress(BlockingIOError):
                            if os.read(stop[0], 1):
                                break
                    assert last.max() > 1000
                    status = 0 if n > 3 else 2
            finally:
                os._exit(status)
        os.read(ready[0], 1)
        for n in range(1, 40):
            a.freeze()
            a.flush()
            a[n % 8 :: 8] = rows[n % 8 :: 8] + 100 * n
            if n % 2:
                a.repack()
            if n % 3:
                recode(a)
        a[...] = 10_000
        os.write(stop[1], b"!")
        assert os.waitpid(pid, 0)[1] == 0
        for end in (*stop, *ready):
            os.close(end)


def test_a_freeze_begun_before_leads_nowhere(path, monkeypatch):
    """Its blobs lie in the old log."""
    from extarray.array import freezing

    with create(path) as a:
        x = make_garbage(a, VALUES)
        for value in range(limits.rewrites + 1):  # the last one thaws it
            a[5] = x[5] = value
        words, seen = freezing.append_blobs, []

        def late(array, frozen, addresses):
            found = words(array, frozen, addresses)
            if not seen:
                seen.append(frozen)
                compression.repack(a, False)
            return found

        monkeypatch.setattr(freezing, "append_blobs", late)
        freezing._freeze(a, table(a), lambda q: np.ones(len(q), bool), True)
        assert seen[0] is not table(a)
        assert np.array_equal(a[...], x)
        assert table(a).entries(np.array([2, 3])).tolist() == [0, 0]
        a.freeze()
        assert np.array_equal(a[...], x)
    assert np.array_equal(read_by_page(path), x)


# -- arrays without compression --------------------------------------------------------------------


def test_an_array_without_becomes_freezable(path, engine):
    x = VALUES.reshape(40, 8, 64)
    with xa.create(path, (0, 0, 64), "i4", chunks=(4, 4, 32), fill_value=5, engine=engine) as a:
        a.attrs["unit"] = "m"
        a.extend(1, 4)
        a.append(x[:20, 4:])
        a.append(x[:20, :4], axis=1, side="start")
        a.append(x[20:])
        a.shrink(0, 3, side="start")
        grid, origin, axial = a.grid, a.origin, a.axial
        places = [axial.address(index) for index in np.ndindex(grid)]
        a.compression = "zlib"
        assert a.compression == xa.Codec("zlib")
        assert (a.grid, a.origin, a.attrs["unit"]) == (grid, origin, "m")
        assert [a.axial.address(index) for index in np.ndindex(grid)] == places
        assert np.array_equal(a[...], x[3:])
        every = np.arange(a.axial.size)
        assert table(a).entries(every).all()
        assert np.array_equal(table(a).entries(every), table(a).durable(every))
        a[5] = -1
        a.append(x[:2], side="start")
        assert np.array_equal(a[7], np.full((8, 64), -1))
    expected = np.vstack([x[:2], x[3:]])
    expected[7] = -1
    assert files(path) == ["scene.xmd", "scene.xta", "scene.xtz"]
    assert np.array_equal(read_by_page(path), expected)
    with xa.open(path, "r+", engine=engine) as a:
        assert table(a).policy == "behind"
        a.compression = None
        assert np.array_equal(a[...], expected)
    assert xa.check(path, data=True).ok


def test_space_is_given_back(path):
    x = np.repeat(np.arange(64), 64 * 1024).reshape(64, 64, 1024)
    with xa.create(path, x.shape, int, chunks=(1, 64, 1024), sparse=False) as a:
        a[...] = x
        a.flush()
        a.compression = "zlib"
        assert disk_bytes(f"{path}.xta") < x.nbytes // 8
        assert np.array_equal(a[...], x)


def test_holes_of_a_sparse_array_stay_holes(path, engine):
    shape = 1 << 14, 1 << 12
    with xa.create(path, shape, "u1", chunks=(64, 4096), sparse=True, engine=engine) as a:
        a[70, 5] = a[-1, -1] = a[-200, 7] = 3
        a.compression = "zlib"
        found = table(a).entries(np.arange(a.axial.size))
        assert np.flatnonzero(found).tolist() == [1, a.axial.size - 4, a.axial.size - 1]
        assert a[70, 5] == a[-1, -1] == a[-200, 7] == 3
        assert a[60:80].sum() == 3
        a[500, 5] = 4
        assert a[500, 5] == 4
    assert sum(disk_bytes(f"{path}{suffix}") for suffix in (".xmd", ".xta", ".xtz")) < 1 << 20


def test_readers_of_an_array_without_keep_it(path, engine):
    with xa.create(path, VALUES.shape, "i4", chunks=CHUNKS, engine=engine) as a:
        a[...] = VALUES
        with xa.open(path, engine=engine) as r, xa.open(path, engine=engine) as other:
            view = r.chunk((0, 0))
            a.compression = "lz4"
            a[:8] = 0
            a.flush()
            assert np.array_equal(r[...], VALUES)
            assert np.array_equal(view, VALUES[:4, :256])
            assert r.replaced
            r.refresh()  # the end of its writer
            with pytest.raises(ReplacedError):
                r.refresh()
            assert other.refresh(on_replaced="reopen")
            assert np.array_equal(other[8:], VALUES[8:])
            assert other.compression == xa.Codec("lz4")
            with pytest.raises(xa.errors.LockedError):
                xa.open(path, "r+")


def test_none_leaves_an_array_without_as_it_is(path):
    with xa.create(path, 3) as a:
        a.compression = None
        assert a.compression is None
        assert files(path) == ["scene.xmd", "scene.xta"]


def test_checksums_stay(path, engine):
    with xa.create(path, VALUES.shape, VALUES.dtype, chunks=CHUNKS, checksum=True) as a:
        a[...] = VALUES
    with xa.open(path, "r+", engine=engine) as a:
        a[0] = 7
        a.compression = "zlib"
        assert a.info()["checksum"]
        wanted = a[...]
        assert xa.check(path, data=True).ok
        a.thaw()
        a[1] = 8
        wanted[1] = 8
        a.append(wanted[:2])
    assert xa.check(path, data=True).ok
    with xa.open(path, "r+", engine=engine, verify="read") as a:
        assert np.array_equal(a[:-2], wanted)
        a.thaw()
        a.compression = None
    with open(f"{path}.xta", "r+b") as file:
        file.write(b"damage")
    assert not xa.check(path, data=True).ok
    with xa.open(path, verify="read") as a, pytest.raises(ChecksumError, match="chunk 0"):
        a[...]


@pytest.mark.invariant("I11")
def test_damage_is_not_compressed(path, engine):
    with xa.create(path, VALUES.shape, VALUES.dtype, chunks=CHUNKS, checksum=True) as a:
        a[...] = VALUES
    with open(f"{path}.xta", "r+b") as file:
        file.write(b"damage")
    with xa.open(path, "r+", engine=engine) as a:
        with pytest.raises(ChecksumError, match="chunk 0"):
            a.compression = "zlib"
        assert a.compression is None
        assert np.array_equal(a[2:], VALUES[2:])
    assert files(path) == ["scene.xmd", "scene.xta"]


def test_sums_in_doubt_stay_so(path, engine):
    with xa.create(path, VALUES.shape, VALUES.dtype, chunks=CHUNKS, checksum=True) as a:
        a[...] = VALUES
    with xa.open(path, "r+", share="elements") as a:
        a[0] = 7
    with xa.open(path, "r+", engine=engine) as a:
        a.compression = "zlib"
        a.thaw()
        a.compression = None
        assert np.array_equal(a[1:], VALUES[1:])
    report = xa.check(path, data=True)
    assert "doubt" in str(report)
    with xa.open(path, verify="read") as a:
        assert (a[0] == 7).all()


def test_what_cannot_become_freezable_says_so(path, tmp_path):
    with xa.create(tmp_path / "b", 8, chunks=2) as b:
        view = b.chunk((0,))
        with pytest.raises(ArgumentError, match="open it again"):
            b.compression = "zlib"
        view[:] = 3
        assert b[0] == 3
    with xa.open(tmp_path / "b", "r+") as b:
        with (
            xa.open(tmp_path / "b", "r+", share="elements") as other,
            pytest.raises(ArgumentError, match="others write elements"),
        ):
            b.compression = "zlib"
        other.close()
        b.compression = "zlib"
        assert b[0] == 3
    xa.create(tmp_path / "c", 8).close()
    refused = pytest.raises(ArgumentError, match="share it")
    with xa.open(tmp_path / "c", "r+", share=True) as c, refused:
        c.compression = "zlib"


def test_a_write_meanwhile_is_not_lost(path, monkeypatch):
    with xa.create(path, VALUES.shape, "i4", chunks=CHUNKS) as a:
        a[...] = VALUES
        append = compression.append_blobs

        def late(array, *rest):
            found = append(array, *rest)
            array[0] = 9
            return found

        monkeypatch.setattr(compression, "append_blobs", late)
        with pytest.raises(StorageError, match="another thread has written"):
            a.compression = "zlib"
        monkeypatch.undo()
        assert files(path) == ["scene.xmd", "scene.xta"]
        assert (a[0] == 9).all()
        a.compression = "zlib"
        assert (a[0] == 9).all()
        assert np.array_equal(a[1:], VALUES[1:])


@pytest.mark.parametrize("suffix", [".xmd", ".xtz"])
def test_a_full_disk_leaves_an_array_without(path, monkeypatch, suffix):
    with xa.create(path, VALUES.shape, "i4", chunks=CHUNKS) as a:
        a[...] = VALUES
        write = File.write

        def half(self, data, offset):
            if self.name.endswith(".new") and suffix in self.name:
                write(self, data[: len(data) // 2], offset)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write(self, data, offset)

        monkeypatch.setattr(File, "write", half)
        with pytest.raises(StorageError, match="No space left"):
            a.compression = "zlib"
        monkeypatch.undo()
        assert files(path) == ["scene.xmd", "scene.xta"]
        a[0] = 9
        with pytest.raises(xa.errors.LockedError):
            xa.open(path, "r+")
    with xa.open(path) as a:
        assert (a[0] == 9).all()
        assert np.array_equal(a[1:], VALUES[1:])


def test_an_operation_goes_on_while_the_codec_changes(tmp_path, engine):
    with xa.create(
        tmp_path / "a", (0, 512), "i4", chunks=CHUNKS, compression="zlib", freeze="never",
        engine=engine,
    ) as a:  # fmt: skip
        a.append(VALUES)
        held = a._held()  # as an operation has it that goes through the array part by part
        a.compression = "lz4"
        a.freeze()
        a.flush()
        np.testing.assert_array_equal(held[...], VALUES)
        expected = VALUES.copy()
        for box, value in ((np.s_[:8], 10), (np.s_[9:15, 3], 11), (np.s_[20, 20], 12)):
            held[box] = expected[box] = value
            np.testing.assert_array_equal(held[...], expected)
            np.testing.assert_array_equal(a[...], expected)
        a.freeze()
        a.flush()
        np.testing.assert_array_equal(held[...], expected)
        with pytest.raises(IndexError):
            held[40]
    with xa.open(tmp_path / "a") as a:
        np.testing.assert_array_equal(a[...], expected)


def test_an_operation_writes_to_no_files_that_a_first_codec_replaced(tmp_path, engine):
    with xa.create(tmp_path / "a", (0, 512), "i4", chunks=CHUNKS, engine=engine) as a:
        a.append(VALUES)
        held = a._held()
        a.compression = "zlib"
        np.testing.assert_array_equal(held[...], VALUES)
        with pytest.raises(ArgumentError, match="first compression.*run that again"):
            held[0] = 1
        np.testing.assert_array_equal(a[...], VALUES)
        a._held()[0] = 2
        assert (a[0] == 2).all()
