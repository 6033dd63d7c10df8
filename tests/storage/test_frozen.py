"""Frozen chunks of arrays that grow: table, log, flushes, thaws, and their three files."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
import signal
from functools import partial
from pathlib import Path

import frozen_chunks
import numpy as np
import pytest
from frozen_chunks import (
    all_addresses,
    append,
    create,
    elements,
    freeze,
    make,
    opened,
    put,
    put_chunk,
    table,
)
from injected import at_every_place, interrupted, needs_no_tracing, places_of_change
from lost_pages import Disk
from systems import needs_holes, needs_huge_mappings

import extarray as xa
from extarray._core._file import UNSUPPORTED
from extarray.common.limits import limits
from extarray.format.frozen import decode_frozen_block, encode_frozen_block
from extarray.storage import commits, frozen, frozen_blobs, frozen_words, names, new_axis, space
from extarray.storage.filesystem import File

SUFFIXES = (".xmd", ".xta", ".xtz")
VALUES = np.arange(1, 121, dtype="i4").reshape(10, 12)
# Of chunks that take a page each, which can become a hole.
LARGE = np.arange(1, 64 * 96 + 1, dtype="i4").reshape(64, 96)
PAGE = (32, 32)
ENGINES = ("mmap", "pread")


def files(folder):
    return sorted(file.name for file in folder.iterdir())


def is_hollow(array, address):
    size = array._store.now.header.chunk_bytes
    return array._store.now.data.read(size, address * size).count(0) == size


# -- freezing and thawing --------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("sparse", [False, True])
def test_frozen_chunks_keep_their_elements(path, engine, sparse):
    with create(path, (10, 12), engine=engine, sparse=sparse) as a:
        a[...] = VALUES
        every = all_addresses(a)
        freeze(a, every)
        assert (table(a).entries(every) > 1).all()
        assert np.array_equal(elements(a), VALUES)
        put(a, np.s_[3:5, 4:7], -1)
        expected = VALUES.copy()
        expected[3:5, 4:7] = -1
        assert np.array_equal(elements(a), expected)
        put_chunk(a, (2, 0), np.full((4, 5), 7))
        expected[8:, :5] = 7
        assert np.array_equal(elements(a), expected)
        a.flush()
        thawed = a.axial.addresses(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]))
        live = table(a).entries(every)
        assert np.array_equal(table(a).durable(every), live)
        assert sorted(every[live == 0]) == sorted(thawed)
    with xa.open(path, engine=engine) as a:
        assert np.array_equal(elements(a), expected)
    with xa.open(path, "r+", engine=engine) as a:
        frozen_ones = table(a).frozen(0, a.axial.size)
        assert np.array_equal(table(a).thaw(all_addresses(a)), frozen_ones)
        assert np.array_equal(a[...], expected)


def test_chunks_of_the_fill_value_have_no_blob(path):
    with create(path, (8, 10), fill_value=3) as a:
        a[:4] = 5
        freeze(a, all_addresses(a))
        assert sorted(table(a).entries(all_addresses(a)).tolist())[:2] == [1, 1]
        assert elements(a).tolist() == [[5] * 10] * 4 + [[3] * 10] * 4
        a.flush()
        put(a, np.s_[6:7, 0:1], 9)
        assert elements(a)[6].tolist() == [9] + [3] * 9


def test_looking_for_frozen_chunks_reads_a_part_of_the_table(path, monkeypatch):
    with create(path, (4 * 4000, 5), sparse=True) as a:
        freeze(a, np.arange(0, 4000, 3))
        read, before = [], File.read

        def counting(self, n, at):
            read.append(n)
            return before(self, n, at)

        monkeypatch.setattr(File, "read", counting)
        for first, stop in [(0, 4), (1000, 1030), (1022, 1025), (3000, 3100), (7, 7), (3990, 9999)]:
            read.clear()
            expected = [q for q in range(first, min(stop, 4000)) if q % 3 == 0]
            assert table(a).frozen(first, stop).tolist() == expected
            assert sum(read) <= 16 * min(stop - first, 4096)
        assert table(a).count(1025) == len(range(0, 1025, 3))


@needs_holes
@pytest.mark.parametrize("fill", [0, 3])
@pytest.mark.invariant("I15")
def test_a_flush_makes_holes_of_what_is_frozen_and_a_thaw_fills_them(path, fill):
    chunks = (128, 128)  # of 64 KiB: NTFS gives back the space of no smaller ones
    x = np.arange(1, 1 + 256 * 128, dtype="i4").reshape(256, 128)
    with create(path, x.shape, chunks=chunks, fill_value=fill) as a:
        a[...] = x
        before = a._store.now.data.disk_bytes()
        forgotten = []
        table(a).forget = forgotten.extend
        freeze(a, np.arange(1))
        assert not is_hollow(a, 0)
        assert (table(a).number, forgotten) == (0, [])
        a.flush()
        assert is_hollow(a, 0)
        assert not is_hollow(a, 1)
        assert (table(a).number, forgotten) == (1, [0])
        assert a._store.now.data.disk_bytes() < before
        a.flush()
        assert table(a).number == 1
        table(a).thaw(np.arange(2))
        assert np.array_equal(a[...], x)
        a.flush()
        assert np.array_equal(a[...], x)
        assert not table(a).durable(np.arange(2)).any()


@needs_holes
def test_what_was_thawed_before_the_flush_keeps_its_bytes(path):
    with create(path, LARGE.shape, chunks=PAGE) as a:
        a[...] = LARGE
        freeze(a, all_addresses(a))
        put(a, np.s_[:32, :64], LARGE[:32, :64] + 1)
        a.flush()
        where = {i: is_hollow(a, a.axial.address(i)) for i in np.ndindex(2, 3)}
        assert [i for i, hollow in where.items() if not hollow] == [(0, 0), (0, 1)]
        expected = LARGE.copy()
        expected[:32, :64] += 1
        assert np.array_equal(elements(a), expected)


@needs_holes
def test_a_chunk_frozen_again_after_the_sync_is_no_hole_yet(path, monkeypatch):
    """Its live word may be lost, and the durable one says that it is raw."""
    with create(path, LARGE.shape, chunks=PAGE) as a:
        a[...] = LARGE
        a.flush()
        freeze(a, np.arange(2))
        settle = frozen.FrozenTable.settle

        def late(self):
            put(a, np.s_[0:1, 0:1], 77)
            monkeypatch.undo()
            freeze(a, np.arange(2))
            settle(self)

        monkeypatch.setattr(frozen.FrozenTable, "settle", late)
        a.flush()
        again = a.axial.address((0, 0))
        assert not is_hollow(a, again)
        a.flush()
        assert is_hollow(a, again)
        assert elements(a)[0, 0] == 77


@needs_holes
def test_a_chunk_frozen_during_the_sync_is_not_durable_yet(path, monkeypatch):
    with create(path, LARGE.shape, chunks=PAGE) as a:
        a[...] = LARGE
        freeze(a, np.arange(2))
        datasync = File.datasync

        def late(self):
            datasync(self)
            if self.name.endswith(".xtz"):
                freeze(a, np.arange(4))

        monkeypatch.setattr(File, "datasync", late)
        a.flush()
        monkeypatch.undo()
        live = table(a).entries(np.arange(4))
        assert live.all()
        assert table(a).durable(np.arange(4)).tolist() == [*live[:2], 0, 0]
        assert [is_hollow(a, q) for q in range(4)] == [True, True, False, False]
        a.flush()
        assert np.array_equal(table(a).durable(np.arange(4)), live)
        assert is_hollow(a, 3)


def test_arrays_without_frozen_chunks_have_two_files(path, tmp_path):
    with xa.create(path, (4,), "i4") as a:
        assert table(a) is None
        assert a._store.now.header.version == (2, 1)
    assert files(tmp_path) == ["scene.xmd", "scene.xta"]


# -- growth, cuts, axes ----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_the_table_grows_before_the_commit_of_growth(path, engine):
    with (
        create(path, (2, 3), chunks=(1, 1), engine=engine) as a,
        xa.open(path, engine=engine) as reader,
    ):
        a[...] = [[1, 2, 3], [4, 5, 6]]
        freeze(a, all_addresses(a))
        assert np.array_equal(elements(reader), a[...])
        assert table(a).reach == 1024
        a.append(np.arange(6000).reshape(2000, 3))
        assert table(a).reach == 1024 * 7
        assert all(at % 4096 == 0 for at, _ in table(a).regions)
        freeze(a, all_addresses(a))
        a.flush()
        assert table(reader).reach == 1024
        reader.refresh()
        assert table(reader).reach == table(a).reach
        assert len(table(reader).extents) == len(table(a).extents) == 3
        expected = np.vstack([[[1, 2, 3], [4, 5, 6]], np.arange(6000).reshape(2000, 3)])
        assert np.array_equal(elements(reader), expected)
        assert table(reader).extents[1].readonly
    with xa.open(path, "r+", engine=engine) as a:
        assert np.array_equal(elements(a), expected)
        a.attrs["long"] = "x" * 5000  # room behind the table
        a.append(np.zeros((1, 3), "i4"))
        assert np.array_equal(elements(a)[:-1], expected)
    assert xa.open(path).attrs["long"] == "x" * 5000


@needs_huge_mappings
def test_the_table_of_a_huge_sparse_array_takes_no_space(path):
    with create(path, (2**20, 2**20), "u1", chunks=(16, 16), sparse=True) as a:
        a[-1, -1] = 5
        last = a.axial.size - 1
        freeze(a, np.array([last]))
        a.flush()
        assert table(a).frozen(0, a.axial.size).tolist() == [last]
        assert a._store.now.metadata.disk_bytes() < 1 << 20
    with xa.open(path, "r+") as a:
        table(a).thaw(table(a).frozen(0, a.axial.size))
        assert a[-1, -1] == 5


def test_a_file_system_without_files_that_large_leaves_chunks_raw(path, monkeypatch):
    truncate = File.truncate

    def refuse(self, length):
        if ".xmd" in self.name and length > 1 << 16:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        truncate(self, length)

    monkeypatch.setattr(File, "truncate", refuse)
    with create(path, (5000,), "i4", chunks=1) as a:
        a[...] = np.arange(5000)
        reach = table(a).reach
        assert 1024 <= reach < 5000
        freeze(a, np.arange(reach))
        freeze(a, np.array([reach - 1, reach]))
        assert table(a).entries(np.array([reach - 1, reach])).astype(bool).tolist() == [True, False]
        assert np.array_equal(elements(a), np.arange(5000))


def test_cut_elements_do_not_come_back(path):
    with create(path, (10, 12)) as a:
        a[...] = VALUES
        freeze(a, all_addresses(a))
        a.flush()
        a.resize((4, 10))
        assert np.array_equal(elements(a), VALUES[:4, :10])
        a.resize((10, 12))
        expected = np.zeros((10, 12), "i4")
        expected[:4, :10] = VALUES[:4, :10]
        assert np.array_equal(elements(a), expected)
        a.flush()
        assert np.array_equal(elements(a), expected)


def test_words_of_chunks_that_growth_did_not_reach_are_cleared(path, monkeypatch):
    with create(path, (4, 5)) as a:
        a[...] = 1

        def stopped(*args):
            raise KeyboardInterrupt

        monkeypatch.setattr(a._store, "commit", stopped)
        reserve = a._store.reserve

        def and_freeze(old, new, runs=None):
            reserve(old, new, runs)
            word = table(a).append([1], [frozen_chunks.encoded({}, b"\1" * 80, 4)])
            table(a).store_live([1], word)

        monkeypatch.setattr(a._store, "reserve", and_freeze)
        with pytest.raises(KeyboardInterrupt):
            a.extend(0, 4)
        monkeypatch.undo()
        a.extend(0, 4)
        assert elements(a).tolist() == [[1] * 5] * 4 + [[0] * 5] * 4


def test_a_table_that_could_not_be_mapped_is_mapped_later(path, monkeypatch):
    mapped = frozen_words.MappedWords

    def fail(*args):
        raise OSError(errno.ENOMEM, "no memory")

    with create(path, (2, 3), chunks=(1, 1)) as a, xa.open(path) as reader:
        a[...] = [[1, 2, 3], [4, 5, 6]]
        freeze(a, all_addresses(a))
        monkeypatch.setattr(frozen_words, "MappedWords", fail)
        with pytest.raises(xa.errors.StorageError, match="cannot map"):
            a.append(np.ones((2000, 3), "i4"))
        monkeypatch.setattr(frozen_words, "MappedWords", mapped)
        assert np.array_equal(elements(a), [[1, 2, 3], [4, 5, 6]])
        length = os.path.getsize(f"{path}.xmd")
        a.append(np.ones((2000, 3), "i4"))
        assert os.path.getsize(f"{path}.xmd") < length + 10**5, "the room is used"
        freeze(a, all_addresses(a))
        a.flush()
        monkeypatch.setattr(frozen_words, "MappedWords", fail)
        with pytest.raises(xa.errors.StorageError, match="cannot map"):
            reader.refresh()
        monkeypatch.setattr(frozen_words, "MappedWords", mapped)
        reader.refresh()
        assert np.array_equal(elements(reader), elements(a))
        assert table(reader).reach == table(a).reach


@pytest.mark.parametrize("engine", ENGINES)
def test_a_new_axis_takes_the_table_along(path, engine):
    make(path, VALUES, engine=engine)
    with xa.open(path, "r+", engine=engine) as a, xa.open(path, engine=engine) as reader:
        a.add_axis()
        assert np.array_equal(elements(a), VALUES[None])
        a.append(VALUES[None] + 1)
        freeze(a, all_addresses(a))
        a.flush()
        expected = np.stack([VALUES, VALUES + 1])
        assert np.array_equal(elements(a), expected)
        # Its own metadata are another file, whose table does not change any more.
        assert table(reader).number & frozen.HANDED_ON
        table(a).thaw(all_addresses(a))
        assert np.array_equal(elements(reader), VALUES)
        assert not table(reader).latest().entries(np.arange(4)).any()
        reader.refresh()
        assert np.array_equal(elements(reader), expected)
    assert np.array_equal(opened(path), expected)


@pytest.mark.parametrize("step", ["acquire", "note_holder"])
def test_a_chunk_thawed_while_an_axis_is_added_stays_raw(path, monkeypatch, step):
    """Another thread may store to the array meanwhile."""
    make(path, VALUES)
    with xa.open(path, "r+") as a:
        old, real = table(a), getattr(new_axis.lock, step)

        def late(*args, **options):
            found = real(*args, **options)
            old.thaw(np.arange(3))
            return found

        monkeypatch.setattr(new_axis.lock, step, late)
        a.add_axis()
        monkeypatch.undo()
        old.thaw(np.array([3]))
        assert table(a) is not old
        every = all_addresses(a)
        assert every[table(a).entries(every) == 0].tolist() == [0, 1, 2, 3]
        assert np.array_equal(a[...], VALUES[None])
        a.flush()
        assert np.array_equal(table(a).durable(every), table(a).entries(every))
    assert np.array_equal(opened(path), VALUES[None])


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.add_axis(0),
        lambda a: a.repack(),
        lambda a: setattr(a, "compression", None),
    ],
    ids=["axis", "repack", "compression"],
)
def test_a_system_that_keeps_mapped_files_says_so(path, monkeypatch, change):
    def refuse(name, other):
        raise PermissionError(errno.EACCES, "it is mapped", other)

    with create(path, LARGE.shape, chunks=PAGE) as a:
        a[...] = LARGE
        freeze(a, all_addresses(a))
        a[0] += 1  # garbage for a repack
        freeze(a, all_addresses(a))
        with monkeypatch.context() as here:
            here.setattr(new_axis.system, "replace", refuse)
            here.setattr(new_axis.system, "MAPS_FREELY", False)
            with pytest.raises(xa.errors.StorageError, match=r"is mapped.*copy\(\) or rechunk\(\)"):
                change(a)
        a[1] += 1
    want = LARGE.copy()
    want[:2] += 1
    with xa.open(path) as a:
        assert np.array_equal(elements(a), want)
    assert sorted(name.suffix for name in path.parent.iterdir()) == [".xmd", ".xta", ".xtz"]


def test_larger_chunks_on_a_new_axis(path):
    with create(path, (3, 5)) as a:
        a[...] = VALUES[:3, :5]
        freeze(a, all_addresses(a))
        a.flush()
        a.add_axis(chunk=3)
        assert np.array_equal(a[...], VALUES[None, :3, :5])
        freeze(a, all_addresses(a))
        assert np.array_equal(elements(a), VALUES[None, :3, :5])


# -- readers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_reader_sees_each_freeze_and_thaw(path, engine):
    with create(path, (10, 12)) as a, xa.open(path, engine=engine) as reader:
        a[...] = VALUES
        for _ in range(3):
            freeze(a, all_addresses(a))
            a.flush()
            assert np.array_equal(elements(reader), VALUES)
            table(a).thaw(np.arange(0, 9, 2))
            assert np.array_equal(elements(reader), VALUES)
        assert table(reader).number == 3


@needs_holes
@pytest.mark.invariant("I15")
def test_a_raw_copy_is_repeated_if_the_chunk_is_frozen_meanwhile(path, monkeypatch):
    with create(path, LARGE.shape, chunks=PAGE) as a, xa.open(path) as reader:
        a[...] = LARGE
        read_raw, calls = frozen.FrozenTable._read_raw, []

        def late(self, target, address):
            calls.append(address)
            if self is table(reader) and len(calls) == 1:
                freeze(a, np.array([address]))
                a.flush()  # makes the hole
                calls[:] = [address]
            read_raw(self, target, address)

        monkeypatch.setattr(frozen.FrozenTable, "_read_raw", late)
        out = np.empty(PAGE, "i4")
        table(reader).read_into(memoryview(out).cast("B"), 0)
        assert np.array_equal(out, LARGE[:32, :32])
        assert is_hollow(a, 0)


def test_an_old_state_reads_on_beside_later_ones(path):
    with create(path, (10, 12)) as a, xa.open(path) as reader:
        a[...] = VALUES
        with xa.open(path) as old:
            freeze(a, all_addresses(a))
            append(a, VALUES)
            freeze(a, all_addresses(a))
            a.flush()
            assert np.array_equal(elements(old), VALUES)
            reader.refresh()
            assert np.array_equal(elements(reader), np.vstack([VALUES, VALUES]))


def test_a_forked_child_reads(path, forked_child):
    with create(path, (10, 12)) as a:
        a[...] = VALUES
        freeze(a, all_addresses(a))
        a.flush()

        def look():
            assert a.mode == "r"
            assert np.array_equal(elements(a), VALUES)

        forked_child(look)
        table(a).thaw(np.arange(3))
        assert np.array_equal(elements(a), VALUES)


@pytest.fixture
def forked_child():
    def run(function):
        pid = os.fork()
        if not pid:
            try:
                function()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0

    return run


@pytest.mark.parametrize("coded_bytes", [1, 1 << 30])
def test_several_threads_decode(path, monkeypatch, coded_bytes):
    monkeypatch.setattr(limits, "coded_bytes", coded_bytes)
    make(path, VALUES)
    with xa.open(path, "r+") as a:
        table(a).thaw(np.arange(2))
    with xa.open(path) as a, xa.config.set(threads=2):
        assert np.array_equal(a[...], VALUES)


def test_a_damaged_blob_is_named_with_its_elements(path):
    make(path, VALUES)
    with xa.open(path) as a:
        address = a.axial.address((1, 2))
        at = table(a).place_of_blob(address)
    with open(f"{path}.xtz", "r+b") as file:
        file.seek(at + 40)
        file.write(b"????")
    with xa.open(path) as a:
        assert np.array_equal(a[:4], VALUES[:4])
        with pytest.raises(xa.errors.ChecksumError, match=r"chunk .* \[4:8, 10:12\]") as caught:
            a[...]
        assert caught.value.chunk == address
    with xa.open(path, "r+") as a:
        for use in (a.thaw, partial(table(a).payload, address)):
            told = rf"in '{re.escape(str(path))}\.xtz'; .* \[4:8, 10:12\]"
            with pytest.raises(xa.errors.ChecksumError, match=told) as caught:
                use()
            assert caught.value.filename == f"{path}.xtz"
            assert caught.value.chunk == address


@pytest.mark.parametrize("word", [2, 2 << 24, (1 << 24) + 3, (2 << 24) - 1])
def test_a_word_that_leads_to_no_blob_is_refused_before_anything_is_read(path, word):
    """A word can name 1 GiB, which a thread would take for a chunk of any size."""
    make(path, VALUES)
    with xa.open(path) as a:
        (place,) = (at for at, _ in table(a).regions)
        right = int(table(a).entries(np.array([0]))[0])
    assert right >> 24 == 1
    with open(f"{path}.xmd", "r+b") as file:
        file.seek(place)
        file.write(word.to_bytes(8, "little") * 2)
    with xa.open(path, "r+") as a:
        for read in (lambda: a[0, 0], a.thaw, a.repack, lambda: table(a).payload(0)):
            with pytest.raises(xa.errors.ChecksumError, match="chunk 0 .*it leads to no blob"):
                read()
    assert not xa.check(path, data=True).ok


# -- files -----------------------------------------------------------------------------------------


def test_a_missing_or_foreign_log_is_told(path, tmp_path):
    make(path, VALUES)
    make(tmp_path / "other", VALUES)
    os.rename(f"{path}.xtz", tmp_path / "kept")
    with pytest.raises(xa.errors.MissingError, match="file of frozen chunks is missing"):
        xa.open(path)
    for foreign in (tmp_path / "other.xtz", tmp_path / "other.xta"):
        shutil.copy(foreign, f"{path}.xtz")
        for mode in ("r", "r+"):
            with pytest.raises(xa.errors.PartnerError, match="put the files of one array"):
                xa.open(path, mode)
    os.replace(tmp_path / "kept", f"{path}.xtz")
    assert np.array_equal(opened(path), VALUES)


def test_files_that_were_copied_open(path, tmp_path):
    make(path, VALUES)
    for suffix in (".xmd", ".xta", ".xtz"):
        shutil.copy(f"{path}{suffix}", tmp_path / f"b{suffix}")
    with xa.open(tmp_path / "b", "r+") as b:
        assert np.array_equal(elements(b), VALUES)
        table(b).thaw(all_addresses(b))
        b[...] = 1
    assert np.array_equal(opened(path), VALUES)


def test_three_files_move_and_go_together(path, tmp_path):
    make(path, VALUES)
    with xa.open_group(tmp_path, "r+") as group:
        group.move("scene", "inner/new")
    assert files(tmp_path) == ["inner"]
    assert files(tmp_path / "inner") == ["new.xmd", "new.xta", "new.xtz"]
    assert np.array_equal(opened(tmp_path / "inner/new"), VALUES)
    with xa.open_group(tmp_path, "r+") as group:
        del group["inner/new"]
    assert files(tmp_path / "inner") == []


def test_replacing_by_an_array_without_frozen_chunks_leaves_no_log(path, tmp_path):
    make(path, VALUES)
    with xa.open(path) as reader:
        xa.from_array(VALUES + 1, path, overwrite=True).close()
        assert files(tmp_path) == ["scene.xmd", "scene.xta"]
        assert np.array_equal(elements(reader), VALUES)
    make(path, VALUES + 2, overwrite=True)
    assert files(tmp_path) == ["scene.xmd", "scene.xta", "scene.xtz"]
    xa.from_array(VALUES + 3, tmp_path / "plain").close()
    with xa.open(tmp_path / "plain", "r+") as plain:
        plain._store.move(path, True)
    assert files(tmp_path) == ["scene.xmd", "scene.xta"]
    assert np.array_equal(opened(path), VALUES + 3)


def test_a_log_that_a_replaced_array_left_goes_later(path, tmp_path, monkeypatch):
    make(path, VALUES)
    shutil.copy(f"{path}.xtz", tmp_path / "kept")
    xa.from_array(VALUES, path, overwrite=True).close()
    os.rename(tmp_path / "kept", f"{path}.xtz")
    (tmp_path / "other.xtz").write_bytes(b"no log at all")
    xa.from_array(VALUES, tmp_path / "other").close()
    monkeypatch.setattr(names, "_next_looks", {})
    for name in (path, tmp_path / "other"):
        xa.open(name, "r+").close()
    assert files(tmp_path) == ["other.xmd", "other.xta", "other.xtz", "scene.xmd", "scene.xta"]


def test_a_taken_name_of_the_log_is_refused(path, tmp_path):
    (tmp_path / "scene.xtz").write_bytes(b"mine")
    with pytest.raises(xa.errors.ExistsError, match="already exists"):
        create(path, (3,), chunks=2)
    assert files(tmp_path) == ["scene.xtz"]
    create(path, (3,), chunks=2, overwrite=True).close()
    assert files(tmp_path) == ["scene.xmd", "scene.xta", "scene.xtz"]


def test_a_move_over_a_copy_keeps_both_apart(path, tmp_path):
    make(path, VALUES)
    for suffix in (".xmd", ".xta", ".xtz"):
        shutil.copy(f"{path}{suffix}", tmp_path / f"b{suffix}")
    with xa.open(tmp_path / "b", "r+") as b:
        append(b, VALUES)
    with xa.open(tmp_path / "b", "r+") as b, xa.open(path, "r+") as replaced:
        b._store.move(path, True, replaced._store)
    assert files(tmp_path) == ["scene.xmd", "scene.xta", "scene.xtz"]
    assert np.array_equal(opened(path), np.vstack([VALUES, VALUES]))


def test_copies_keep_the_codec(path, tmp_path):
    make(path, VALUES, is_frozen=False)
    with xa.open(path) as a:
        a.copy(tmp_path / "b").close()
        a.copy(tmp_path / "c", compression=None).close()
    for name in "bc":
        assert np.array_equal(opened(tmp_path / name), VALUES)
        assert (tmp_path / f"{name}.xtz").exists() == (name == "b")


# -- errors ----------------------------------------------------------------------------------------


def refuse(*args):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_the_log_as_it_was(path, monkeypatch):
    with create(path, (10, 12)) as a:
        a[...] = VALUES
        freeze(a, np.arange(3))
        end, words = table(a).end, table(a).entries(all_addresses(a))
        write = File.write

        def half(self, data, offset):
            if self.name.endswith(".xtz"):
                write(self, data[: len(data) // 2], offset)
                refuse()
            write(self, data, offset)

        monkeypatch.setattr(File, "write", half)
        with pytest.raises(xa.errors.StorageError, match=r"scene\.xtz") as caught:
            freeze(a, all_addresses(a))
        assert caught.value.errno == errno.ENOSPC
        monkeypatch.undo()
        assert (table(a).end, os.stat(f"{path}.xtz").st_size) == (end, end)
        assert np.array_equal(table(a).entries(all_addresses(a)), words)
        assert np.array_equal(elements(a), VALUES)
        freeze(a, all_addresses(a))
        a.flush()
        assert np.array_equal(elements(a), VALUES)


def test_a_thaw_stores_its_own_words_alone(path, monkeypatch):
    """Other processes may clear words of the same page, also where space cannot be reserved."""
    make(path, VALUES)
    monkeypatch.setattr(File, "reserve", lambda *args: UNSUPPORTED)
    written, write = [], File.write

    def note(file, data, at):
        if file.name.endswith(".xmd"):
            written.append((at, at + len(data)))
        write(file, data, at)

    monkeypatch.setattr(File, "write", note)
    with xa.open(path, "r+", engine="mmap") as a:
        regions = table(a).regions
        written.clear()
        table(a).thaw(np.arange(4))
        assert not table(a).entries(np.arange(4)).any()
        assert all(stop <= at or start >= at + n for start, stop in written for at, n in regions)


@pytest.mark.parametrize("step", ["reserve", "write", "datasync"])
def test_a_full_disk_stops_a_thaw_and_loses_nothing(path, monkeypatch, step):
    make(path, VALUES)
    with xa.open(path, "r+") as a:
        real = getattr(File, step)

        def fail(self, *args):
            if self.name.endswith(".xta"):
                if step == "reserve":
                    return errno.ENOSPC
                refuse()
            return real(self, *args)

        monkeypatch.setattr(File, step, fail)
        with pytest.raises(xa.errors.StorageError) as caught:
            table(a).thaw(all_addresses(a))
        assert caught.value.errno == errno.ENOSPC
        monkeypatch.undo()
        assert table(a).entries(all_addresses(a)).all()
        assert np.array_equal(elements(a), VALUES)
        table(a).thaw(all_addresses(a))
        assert np.array_equal(a[...], VALUES)


@needs_holes
def test_a_flush_that_fails_makes_no_holes(path, monkeypatch):
    with create(path, LARGE.shape, chunks=PAGE) as a:
        a[...] = LARGE
        freeze(a, all_addresses(a))
        for suffix in (".xta", ".xtz", ".xmd"):
            datasync = File.datasync

            def fail(self, suffix=suffix, datasync=datasync):
                if self.name.endswith(suffix):
                    raise OSError(errno.EIO, "no disk")
                datasync(self)

            monkeypatch.setattr(File, "datasync", fail)
            with pytest.raises(xa.errors.StorageError):
                a.flush()
            monkeypatch.undo()
            assert table(a).number == 0
            assert not is_hollow(a, 0)
        a.flush()
        assert is_hollow(a, 0)
        assert np.array_equal(elements(a), LARGE)


def test_no_space_for_words_leaves_chunks_raw(path, monkeypatch):
    with create(path, (10, 12), engine="mmap") as a:
        a[...] = VALUES
        reserve = File.reserve

        def full(self, *args):
            return errno.ENOSPC if self.name.endswith(".xmd") else reserve(self, *args)

        monkeypatch.setattr(File, "reserve", full)
        with pytest.raises(xa.errors.StorageError):
            freeze(a, all_addresses(a))
        monkeypatch.undo()
        assert not table(a).entries(all_addresses(a)).any()
        assert np.array_equal(elements(a), VALUES)


@pytest.mark.parametrize("place", [0, 4, 24, 100])
def test_a_damaged_block_is_told(path, place):
    make(path, VALUES)
    with xa.open(path) as a:
        at, _ = frozen.FrozenTable.block_of(a._store.now)
        header, length = a._store.now.header, a._store.now.metadata.length
    with open(f"{path}.xmd", "r+b") as file:
        file.seek(at)
        block = bytearray(file.read(512))
        assert decode_frozen_block(bytes(block), header, length).words == 2
        block[place] ^= 1
        file.seek(at)
        file.write(block)
    for mode in ("r", "r+"):
        with pytest.raises(xa.errors.CorruptError, match="block for chunks in blobs is damaged"):
            xa.open(path, mode)


# -- kills -----------------------------------------------------------------------------------------


def work(path, model):
    """Freeze, thaw, write, append and flush; yield the possible elements after each step."""
    with xa.open(path, "r+") as a:
        freeze(a, np.arange(4))
        yield model
        a.flush()
        yield model
        model = model.copy()
        model[2:6, 3:8] = 99
        put(a, np.s_[2:6, 3:8], 99)
        yield model
        put_chunk(a, (2, 0), np.full((4, 5), 55))
        model = model.copy()
        model[8:, :5] = 55
        yield model
        a.flush()
        yield model
        append(a, VALUES)
        model = np.vstack([model, VALUES])
        yield model
        freeze(a, all_addresses(a))
        a.flush()
        yield model


@pytest.mark.slow
@needs_no_tracing
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.invariant("I15")
def test_kills_at_every_place_lose_nothing(path, tmp_path, engine):
    """Each child is killed at one place; the parent knows which step it was in."""
    modules = (frozen, frozen_blobs, frozen_words, commits, space)
    make(tmp_path / "kept", VALUES, engine=engine)
    progress = os.memfd_create("progress")

    def begin():
        for suffix in SUFFIXES:
            shutil.copy(tmp_path / f"kept{suffix}", f"{path}{suffix}")
        os.pwrite(progress, bytes(1), 0)

    def run():
        for step, _ in enumerate(work(path, VALUES)):
            os.pwrite(progress, bytes([step + 1]), 0)

    def state():
        return [os.pread(progress, 1, 0), *(Path(f"{path}{s}").read_bytes() for s in SUFFIXES)]

    spare = tmp_path / "model"
    make(spare, VALUES, overwrite=True)
    states = [VALUES, *work(spare, VALUES)]
    begin()
    numbers = places_of_change(run, state, *modules)
    for number in numbers:
        begin()
        pid = os.fork()
        if not pid:
            seen = 0

            def kill(place, last=number):
                nonlocal seen
                seen += 1
                if seen == last:
                    os.kill(os.getpid(), signal.SIGKILL)

            try:
                with at_every_place(kill, *modules):
                    run()
                os._exit(0)
            finally:
                os._exit(1)
        status = os.waitpid(pid, 0)[1]
        assert status == 0 or os.WIFSIGNALED(status)
        done = os.pread(progress, 1, 0)[0]
        found = opened(path)
        possible = states[done : done + 2]
        shapes = {state.shape for state in possible}
        assert found.shape in shapes, (number, done)
        same = np.zeros(found.shape, bool)
        for state in possible:
            if state.shape == found.shape:
                same |= state == found
        assert same.all(), (number, done)
        with xa.open(path, "r+") as a:
            assert np.array_equal(elements(a), found)
            freeze(a, all_addresses(a))
            a.flush()
            assert np.array_equal(elements(a), found)
    assert status == 0 and len(numbers) > 30


# -- power cuts ------------------------------------------------------------------------------------


# These copies have no writer's seal, and holes where chunks are frozen.
@pytest.mark.filterwarnings("ignore::extarray.errors.RecoveryWarning")
@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.invariant("I15")
def test_power_cuts_lose_nothing_that_was_flushed(path, tmp_path, monkeypatch, seed, engine):
    """Any page changed since the last synchronization of its file may be old or new."""
    rng = np.random.default_rng(seed)
    shape, chunks = (16, 16, 64), (8, 8, 32)
    mended = 0
    for run in range(4):
        disk = Disk(path, monkeypatch)
        with create(path, shape, "f4", chunks=chunks, engine=engine, overwrite=True) as a:
            model = rng.integers(1, 50, shape).astype("f4")
            a[...] = model
            a.flush()
            allowed = [model.copy()]
            for _ in range(int(rng.integers(5, 30))):
                kind = rng.integers(0, 8)
                some = rng.permutation(a.axial.size)[: rng.integers(0, 9)]
                if kind == 0:
                    a.flush()
                    allowed = []
                elif kind <= 2:
                    freeze(a, some)
                elif kind <= 5:
                    edges = [sorted(map(int, rng.integers(0, n + 1, 2))) for n in shape]
                    key = tuple(slice(*edge) for edge in edges)
                    values = rng.integers(1, 50, [k.stop - k.start for k in key]).astype("f4")
                    put(a, key, values)
                    model[key] = values
                else:
                    index = [int(i) for i in rng.integers(0, 2, 3)]
                    key = tuple(slice(i * c, i * c + c) for i, c in zip(index, chunks, strict=True))
                    values = rng.integers(1, 50, chunks).astype("f4")
                    put_chunk(a, index, values)
                    model[key] = values
                allowed.append(model.copy())
            for cut in range(5):
                target = tmp_path / f"cut{run}-{cut}"
                disk.cut(rng, target)
                with xa.open(target) as reader:
                    found = elements(reader)
                    mended += len(table(reader)._mended)
                same = np.zeros(shape, bool)
                for state in allowed:
                    same |= found == state
                assert same.all(), f"run {run}, cut {cut}: {np.argwhere(~same).tolist()[:5]}"
                with xa.open(target, "r+", engine=engine) as writer:
                    assert np.array_equal(elements(writer), found)
                    table(writer).thaw(all_addresses(writer))
                    assert np.array_equal(writer[...], found)
                for suffix in disk.synced:
                    os.unlink(f"{target}{suffix}")
        monkeypatch.undo()
    assert mended > 0


def test_a_lost_blob_gives_way_to_what_was_flushed(path, tmp_path):
    make(path, VALUES)
    with xa.open(path, "r+") as a:
        flushed = table(a).end
        put_chunk(a, (0, 0), np.full((4, 5), 9))
        put_chunk(a, (1, 1), np.full((4, 5), 8))
        table(a).thaw(np.array([a.axial.address((2, 2))]))
        for suffix in (".xmd", ".xta", ".xtz"):
            shutil.copy(f"{path}{suffix}", tmp_path / f"b{suffix}")
    with open(tmp_path / "b.xtz", "r+b") as log:
        log.truncate(flushed + 64)
    with xa.open(tmp_path / "b") as reader:
        assert len(table(reader)._mended) == 1
        found = elements(reader)
        assert np.array_equal(found[4:], VALUES[4:])
        with xa.open(tmp_path / "b", "r+") as writer:
            assert np.array_equal(elements(writer), found)
            put_chunk(writer, (0, 0), np.full((4, 5), 6))
            append(writer, VALUES)
            writer.flush()
            reader.refresh()
            assert (elements(reader)[:4, :5] == 6).all()


# -- checks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("checksum", [False, True])
def test_a_check_knows_frozen_chunks(path, tmp_path, checksum):
    make(path, VALUES, checksum=checksum)
    report = xa.check(path, data=True)
    assert report.ok, str(report)
    with xa.open(path) as a:
        address = a.axial.address((1, 2))
        at = table(a).place_of_blob(address)
    with open(f"{path}.xtz", "r+b") as file:
        file.seek(at + 40)
        file.write(b"????")
    assert xa.check(path).ok
    report = xa.check(path, data=True)
    (problem,) = [p for p in report.problems if p.severity == "error"]
    assert (problem.kind, problem.file, problem.offset) == ("chunk", f"{path}.xtz", at)
    assert "[4:8, 10:12]" in problem.what
    os.rename(f"{path}.xtz", tmp_path / "kept")
    (problem,) = [p for p in xa.check(path).problems if p.severity == "error"]
    assert (problem.kind, problem.file) == ("file", f"{path}.xtz")
    make(tmp_path / "other", VALUES)
    shutil.copy(tmp_path / "other.xtz", f"{path}.xtz")
    report = xa.check(path, repair=True)
    (problem,) = [p for p in report.problems if p.severity == "error"]
    assert problem.kind == "frozen"
    assert "another one" in report.refused[0]


def test_a_check_tells_which_elements_it_did_not_compare(path):
    with xa.create(path, (8, 4), chunks=(4, 4), compression="zlib", freeze="never") as a:
        a[:4] = 1
        a.freeze()
    assert "extarray check --data" in str(xa.check(path))
    assert "not checked" not in str(xa.check(path, data=True))
    with xa.open(path, "r+") as a:
        a.thaw()
        a[...] = 2
    assert "not checked: elements of raw chunks" in str(xa.check(path, data=True))


def test_a_check_finds_a_damaged_table(path):
    make(path, VALUES)
    with xa.open(path) as a:
        at, _ = frozen.FrozenTable.block_of(a._store.now)
    with open(f"{path}.xmd", "r+b") as file:
        file.seek(at + 8)
        byte = file.read(1)[0]
        file.seek(at + 8)
        file.write(bytes([byte ^ 1]))
    (problem,) = [p for p in xa.check(path).problems if p.severity == "error"]
    assert (problem.kind, problem.offset) == ("frozen", at)


def test_a_repair_removes_left_overs(path, tmp_path, monkeypatch):
    make(path, VALUES)
    left = [tmp_path / f"scene{suffix}.0123456789ab.new" for suffix in (".xmd", ".xta", ".xtz")]
    for file in left:
        file.write_bytes(b"")
    assert {p.kind for p in xa.check(path).problems} == {"left over"}
    monkeypatch.setattr(names, "_IN_THE_MAKING", 0.0)
    assert xa.check(path, repair=True).ok
    assert files(tmp_path) == ["scene.xmd", "scene.xta", "scene.xtz"]
    assert np.array_equal(opened(path), VALUES)


# -- checksums of chunks, several writers ----------------------------------------------------------


@pytest.mark.parametrize("verify", ["write", "read"])
def test_checksums_are_those_of_the_elements(path, verify):
    with create(path, (10, 12), checksum=True, fill_value=3) as a:
        a[...] = VALUES
        freeze(a, np.arange(5))
        put_chunk(a, (0, 0), np.full((4, 5), 8))
        put_chunk(a, (2, 2), np.full((4, 5), 9))
        a.flush()
        expected = elements(a)
    assert xa.check(path, data=True).ok
    with xa.open(path, "r+", verify=verify) as a:
        unfit, unknown = a._store.unfit_chunks(all_addresses(a))
        assert not len(unfit)
        assert not len(unknown)
        table(a).thaw(all_addresses(a))
        a.flush()
        assert np.array_equal(a[...], expected)
    assert xa.check(path, data=True).ok


@pytest.mark.parametrize("order", ["address", "hilbert"])
@pytest.mark.parametrize("checksum", [False, True])
def test_packing_thaws(path, tmp_path, order, checksum):
    make(path, VALUES, checksum=checksum)
    with xa.open(path, "r+") as a:
        table(a).thaw(np.arange(3))
    with xa.open(path) as a:
        xa.pack(a, tmp_path / "a.xap", order=order, progress=False)
    with xa.open(tmp_path / "a.xap") as packed:
        assert np.array_equal(packed[...], VALUES)
    xa.unpack(tmp_path / "a.xap", tmp_path / "b", progress=False)
    with xa.open(tmp_path / "b", "r+") as b:
        assert table(b) is None
        assert np.array_equal(b[...], VALUES)


def test_a_forged_table_is_not_written_to(path):
    make(path, VALUES)
    with xa.open(path) as a:
        header, state = a._store.now.header, a._store.now.state
        at, block = frozen.FrozenTable.block_of(a._store.now)
        uuid = table(a).uuid
    place = -(-header.first_extent // 4096) * 4096
    for extents in ([place], [block.extents[0], block.extents[0]]):
        with open(f"{path}.xmd", "r+b") as file:
            file.truncate(1 << 20)
            file.seek(at)
            file.write(encode_frozen_block(uuid, 64, 64, extents, header.uuid))
            file.seek(0)
            before = file.read()
            with pytest.raises(xa.errors.CorruptError, match="overlaps other parts"):
                xa.open(path, "r+")
            file.seek(0)
            found = bytearray(file.read())
        # The note of the writer that was refused is another thing.
        note = slice(header.holder_offset, header.holder_offset + 128)
        found[note] = before[note]
        assert found == before
    assert state.end < 1 << 20


# -- interrupts, groups, readers in other processes ------------------------------------------------


@pytest.mark.slow
@needs_no_tracing
@pytest.mark.parametrize("engine", ENGINES)
def test_interrupts_at_every_place_lose_nothing(path, engine):
    modules = (frozen, frozen_blobs, frozen_words)
    for number in itertools.count(1, 3):
        make(path, VALUES, overwrite=True, engine=engine)
        with xa.open(path, "r+", engine=engine) as a:
            with contextlib.suppress(KeyboardInterrupt), interrupted(number, *modules) as place:
                table(a).thaw(np.arange(3))
                freeze(a, np.arange(2))
                a.flush()
                append(a, VALUES)
            found = elements(a)
            assert np.array_equal(found[:10], VALUES), place.place
            freeze(a, all_addresses(a))
            a.flush()
            every = all_addresses(a)
            assert np.array_equal(table(a).durable(every), table(a).entries(every))
            assert np.array_equal(elements(a), found), place.place
        assert np.array_equal(opened(path), found)
        if not place.place:
            break
    assert number > 100


def test_a_commit_of_several_arrays(path, tmp_path):
    make(path, VALUES)
    make(tmp_path / "b", VALUES)
    with xa.open(path, "r+") as a, xa.open(tmp_path / "b", "r+") as b:

        def grow(values):
            for one in (a, b):
                append(one, values)
                freeze(one, all_addresses(one))

        with contextlib.suppress(ZeroDivisionError), xa.commit([a, b]):
            grow(np.zeros((2000, 12), "i4"))
            raise ZeroDivisionError
        for one in (a, b):
            assert np.array_equal(elements(one), VALUES)
        with xa.commit([a, b]):
            grow(VALUES)
        a.flush()
        b.flush()
    for one in (path, tmp_path / "b"):
        assert np.array_equal(opened(one), np.vstack([VALUES, VALUES]))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.invariant("I15")
def test_readers_beside_freezes_thaws_and_holes(path, engine):
    """Each row has one value, which only rises; chunks are pages, and become holes."""
    rows = np.repeat(np.arange(1, 65, dtype="i4"), 96).reshape(64, 96)
    with create(path, rows.shape, chunks=PAGE, engine=engine) as a:
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
                    n = 0
                    while True:
                        assert np.array_equal(elements(reader), rows)
                        n += 1
                        with contextlib.suppress(BlockingIOError):
                            if os.read(stop[0], 1):
                                break
                    status = 0 if n > 3 else 2
            finally:
                os._exit(status)
        os.read(ready[0], 1)
        rng = np.random.default_rng(1)
        for _ in range(150):
            some = rng.permutation(a.axial.size)[:4]
            freeze(a, some)
            a.flush()
            table(a).thaw(rng.permutation(a.axial.size)[:3])
        os.write(stop[1], b"!")
        assert os.waitpid(pid, 0)[1] == 0
        assert table(a).number > 100
        for end in (*stop, *ready):
            os.close(end)
