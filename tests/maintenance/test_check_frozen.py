"""Damage to arrays with frozen chunks: `check` tells it, repair mends what it can, and says so."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import warnings

import numpy as np
import pytest
from frozen_chunks import all_addresses, create, freeze, table
from hypothesis import given, settings
from hypothesis import strategies as st
from scratch import new_folder

import extarray as xa
from extarray.format.blocks import BlockKind, entry_offset
from extarray.format.frozen import ENTRY_BYTES, encode_frozen_block, extent_bytes
from extarray.format.superblock import superblock_bytes
from extarray.storage.filesystem import File
from extarray.storage.frozen import FrozenTable

# One pair of files is damaged and restored again and again.
pytestmark = pytest.mark.thread_unsafe(reason="tests share their files")

SUFFIXES = (".xmd", ".xta", ".xtz")
ROWS = np.random.default_rng(1).integers(1, 99, (40, 12)).astype("i4")


class Files:
    """The files of an array with raw and frozen chunks, to be damaged and restored."""

    def __init__(self, path, **options):
        self.path = path
        with create(path, (0, 12), "i4", chunks=(4, 5), **options) as a:
            for first in range(0, 32, 8):
                a.append(ROWS[first : first + 8])
            every = all_addresses(a)
            self.first_frozen = every[:20]
            freeze(a, self.first_frozen)
            a.flush()
            a.append(ROWS[32:])
            a.attrs["unit"] = "m"
            a.flush()
            now = a._store.now
            self.header = now.header
            self.at, block = FrozenTable.block_of(now)
            self.extents = block.extents
            self.words = table(a).entries(all_addresses(a))
        self.content = {s: self.file(s).read_bytes() for s in SUFFIXES}

    def file(self, suffix):
        return self.path.with_name(self.path.name + suffix)

    def restore(self):
        for other in self.path.parent.iterdir():
            if other.name.startswith(self.path.name):
                other.unlink()
        for suffix, content in self.content.items():
            self.file(suffix).write_bytes(content)

    def change(self, suffix, at, data):
        with open(self.file(suffix), "r+b") as file:
            file.seek(at)
            file.write(data)

    def flip(self, suffix, at, by=0x41):
        self.change(suffix, at, bytes([self.content[suffix][at] ^ by]))

    def place_of_blob(self, address):
        return 64 * int(self.words[address] >> np.uint64(24))

    def elements(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with xa.open(self.path) as a:
                return a[...]


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "checksum"])
def whole(request):
    """Yield files that hundreds of cases restore: in memory, if there is room."""
    folder = new_folder()
    yield Files(folder / "scene", checksum=request.param)
    shutil.rmtree(folder)


@pytest.fixture
def files(whole):
    whole.restore()
    return whole


def parts(files):
    """Return places whose damage a repair can mend, by name: suffix, offset and length."""
    header, size = files.header, superblock_bytes(2)
    return {
        "header": (".xmd", 20, 8),
        "header, all of it": (".xmd", 0, header.content_bytes),
        "copy of the header": (".xmd", header.copy_offset + 20, 8),
        "superblock 0": (".xmd", header.superblock_offset(0), size),
        "superblock 1": (".xmd", header.superblock_offset(1), size),
        "place of the table": (".xmd", entry_offset(header, BlockKind.BLOBS) + 8, 4),
        "place of the table, gone": (".xmd", entry_offset(header, BlockKind.BLOBS), 0),
        "block of the table": (".xmd", files.at, 512),
        "uuid in the block": (".xmd", files.at + 8, 4),
        "extents in the block": (".xmd", files.at + 64, 8),
        "head of the log": (".xtz", 0, 64),
        "uuid in the head of the log": (".xtz", 20, 4),
        "first record": (".xmd", header.first_extent + 20, 4),
        "seal": (".xta", len(files.content[".xta"]) - 20, 4),
    }


PARTS = (
    "header", "header, all of it", "copy of the header", "superblock 0", "superblock 1",
    "place of the table", "place of the table, gone", "block of the table", "uuid in the block",
    "extents in the block", "head of the log", "uuid in the head of the log", "first record",
    "seal",
)  # fmt: skip


def test_a_whole_array(files):
    report = files.path and xa.check(files.path, data=True, repair=True, force=True)
    assert report.ok
    assert report.repaired == report.refused == []
    assert {s: files.file(s).read_bytes() for s in SUFFIXES} == files.content


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_mended(files, name):
    assert tuple(parts(files)) == PARTS
    suffix, at, length = parts(files)[name]
    files.change(suffix, at, b"\xa5" * length if length else bytes(16))
    report = xa.check(files.path, data=True)
    assert not report.ok, str(report)
    with contextlib.suppress(xa.errors.ExtArrayError):
        assert np.array_equal(files.elements(), ROWS)
    report = xa.check(files.path, data=True, repair=True)
    assert report.ok, str(report)
    assert report.repaired
    assert np.array_equal(files.elements(), ROWS)
    with xa.open(files.path, "r+") as a:
        assert a.attrs["unit"] == "m"
        assert np.array_equal(table(a).entries(np.arange(len(files.words))), files.words)
        a.append(ROWS)
        freeze(a, all_addresses(a))
    assert np.array_equal(files.elements(), np.vstack([ROWS, ROWS]))


def test_two_parts_at_once(files):
    """Each is mended by what the other one would have told."""
    for name in ("header", "place of the table", "head of the log", "superblock 0"):
        suffix, at, length = parts(files)[name]
        files.change(suffix, at, b"\xa5" * length)
    assert xa.check(files.path, data=True, repair=True).ok
    assert np.array_equal(files.elements(), ROWS)


def test_what_cannot_be_mended_stays_as_it_is(files, tmp_path):
    for suffix, at, length in (parts(files)["uuid in the block"], parts(files)["head of the log"]):
        files.change(suffix, at, b"\xa5" * length)
    before = {s: files.file(s).read_bytes() for s in SUFFIXES}
    report = xa.check(files.path, data=True, repair=True, force=True)
    assert not report.ok
    assert "are lost" in report.refused[0]
    assert {s: files.file(s).read_bytes() for s in SUFFIXES} == before

    files.restore()
    os.unlink(files.file(".xtz"))
    report = xa.check(files.path, repair=True, force=True)
    assert report.refused == ["the file of frozen chunks is missing"]

    files.restore()
    Files(tmp_path / "other")
    shutil.copy(tmp_path / "other.xtz", files.file(".xtz"))
    report = xa.check(files.path, repair=True, force=True)
    assert not report.ok
    assert report.refused
    assert files.file(".xtz").read_bytes() == (tmp_path / "other.xtz").read_bytes()

    files.restore()
    os.truncate(files.file(".xmd"), files.extents[-1] + 64)
    report = xa.check(files.path, repair=True, force=True)
    assert "table that tells which of the chunks 0 to " in str(report)
    assert "a part of it" in report.refused[0]
    assert files.file(".xmd").stat().st_size == files.extents[-1] + 64


def test_a_table_without_blobs_is_not_guessed(path):
    with create(path, (8, 5)) as a:
        a[...] = 0
        freeze(a, all_addresses(a))
        a.flush()
        at, _ = FrozenTable.block_of(a._store.now)
    with open(f"{path}.xmd", "r+b") as file:
        file.seek(at)
        file.write(bytes(512))
    report = xa.check(path, repair=True)
    assert report.refused == ["the table of frozen chunks cannot be told from its contents"]


def test_a_table_of_several_extents(path):
    with create(path, (3000,), "u1", chunks=(1,)) as a:
        a[...] = x = np.arange(3000).astype("u1")
        freeze(a, np.arange(0, 3000, 7))
        a.flush()
        at, block = FrozenTable.block_of(a._store.now)
        assert len(block.extents) == 2
    with open(f"{path}.xmd", "r+b") as file:
        file.seek(at + 64)
        file.write(b"????")
    assert xa.check(path, repair=True).ok
    with xa.open(path) as a:
        assert FrozenTable.block_of(a._store.now)[1].extents == block.extents
        assert np.array_equal(a[...], x)


# -- blobs -----------------------------------------------------------------------------------------


def test_a_damaged_blob_needs_force(files):
    files.flip(".xtz", files.place_of_blob(7) + 40)
    report = xa.check(files.path, data=True)
    (problem,) = [p for p in report.problems if p.kind == "chunk"]
    report = xa.check(files.path, data=True, repair=True)
    assert not report.ok
    assert "1 frozen chunks are damaged" in report.refused[0]
    assert {s: files.file(s).read_bytes() for s in SUFFIXES[:2]} == {
        s: files.content[s] for s in SUFFIXES[:2]
    }
    with xa.open(files.path) as a, pytest.raises(xa.errors.ChecksumError):
        a[...]
    report = xa.check(files.path, data=True, repair=True, force=True)
    assert report.ok, str(report)
    expected = ROWS.copy()
    expected[problem.boxes[0]] = 0
    assert np.array_equal(files.elements(), expected)
    with xa.open(files.path, "r+") as a:
        a.repack()
        assert np.array_equal(a[...], expected)


def copied(path):
    """Copy the files as they are, with a writer at work; return the path of the copy."""
    for suffix in SUFFIXES:
        shutil.copy(f"{path}{suffix}", f"{path}-copy{suffix}")
    return f"{path}-copy"


@pytest.mark.filterwarnings("ignore::extarray.errors.RecoveryWarning")
@pytest.mark.parametrize("before", ["raw", "frozen", "fill"])
def test_a_damaged_blob_goes_back_to_what_the_last_flush_had(path, before):
    x = np.arange(1, 21, dtype="i4").reshape(4, 5) * (before != "fill")
    with create(path, x.shape) as a:
        a[...] = x
        if before != "raw":
            freeze(a, np.arange(1))
        a.flush()
        raw = a._store.now.data.read(a.chunk_bytes, 0)
        table(a).thaw(np.arange(1))
        a[...] = x + np.arange(100, 105)
        freeze(a, np.arange(1))
        place, _ = FrozenTable.block_of(a._store.now)
        end, uuid, header = table(a).end, table(a).uuid, a._store.now.header
        at, extents = table(a).place_of_blob(0), [at for at, _ in table(a).regions]
        copy = copied(path)
    with open(f"{copy}.xta", "r+b") as file:
        file.write(raw)
    with open(f"{copy}.xmd", "r+b") as file:  # no opening mends what a flush has seen
        file.seek(place)
        file.write(encode_frozen_block(uuid, end, end, extents, header.uuid))
    with open(f"{copy}.xtz", "r+b") as file:
        file.seek(at + 36)
        file.write(b"????")
    assert "blob of chunk 0 is damaged" in str(xa.check(copy, data=True))
    report = xa.check(copy, data=True, repair=True)
    assert report.ok, str(report)
    assert "1 damaged frozen chunks are as the last flush left them" in report.repaired
    with xa.open(copy) as a:
        assert np.array_equal(a[...], x)


def test_a_check_after_a_loss_of_power_reads_as_a_reader_does(path):
    x = np.arange(1, 21, dtype="i4").reshape(4, 5)
    with create(path, x.shape) as a:
        a[...] = x
        freeze(a, np.arange(1))
        a.flush()
        end = table(a).end
        table(a).thaw(np.arange(1))
        freeze(a, np.arange(1))
        copy = copied(path)
    os.truncate(f"{copy}.xtz", end)
    assert xa.check(copy, data=True).ok
    with xa.open(copy, "r+") as a:
        assert np.array_equal(a[...], x)


# -- lengths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("frozen", ["all", "none", "first"])
def test_a_data_file_that_is_too_short(files, tmp_path, frozen):
    with xa.open(files.path, "r+") as a:
        every = all_addresses(a)
        table(a).thaw(every)
        freeze(a, {"all": every, "none": every[:0], "first": every[:20]}[frozen])
        a.flush()
        size = a._store.now.header.chunk_bytes
    os.truncate(files.file(".xta"), 10 * size)
    report = xa.check(files.path)
    assert not report.ok
    with pytest.raises(xa.errors.TruncatedError):
        xa.open(files.path)
    report = xa.check(files.path, repair=True)
    if frozen == "all":
        assert report.ok
        assert np.array_equal(files.elements(), ROWS)
        return
    if not report.ok:
        assert "needs force" in report.refused[0]
        report = xa.check(files.path, repair=True, force=True)
    assert report.ok, str(report)
    found = files.elements()
    assert found.size
    assert np.array_equal(found, ROWS[: len(found), : found.shape[1]])
    with xa.open(files.path, "r+") as a:
        a.resize(ROWS.shape)
        assert np.array_equal(a[: len(found), : found.shape[1]], found)
        assert not a[len(found) :].any()


def test_newer_states_with_frozen_chunks_need_force(files):
    """Their elements are in the log, and a hole in the data."""
    with xa.open(files.path, "r+") as a:
        a.append(ROWS)
        freeze(a, all_addresses(a))
        a.flush()
        header = a._store.now.header
        number = a._store.now.state.sequence
    assert number
    for slot in (0, 1):
        files.change(".xmd", header.superblock_offset(slot), b"?" * 16)
    report = xa.check(files.path, repair=True)
    if not report.ok:
        assert "needs force" in report.refused[0], str(report)
    else:
        assert np.array_equal(files.elements(), np.vstack([ROWS, ROWS]))


# -- interruptions ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("step", ["write", "datasync"])
def test_a_repair_that_fails_can_be_repeated(files, monkeypatch, step):
    names = ("header", "place of the table", "head of the log", "superblock 0", "superblock 1")
    for number in itertools.count():
        files.restore()
        for name in names:
            suffix, at, length = parts(files)[name]
            files.change(suffix, at, b"\xa5" * length)
        calls, real = itertools.count(), getattr(File, step)

        def fail(self, *args, real=real, calls=calls, number=number):
            if next(calls) == number:
                if step == "write":
                    real(self, args[0][: len(args[0]) // 2], args[1])
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(self, *args)

        monkeypatch.setattr(File, step, fail)
        failed = None
        try:
            report = xa.check(files.path, data=True, repair=True)
        except xa.errors.StorageError as error:
            failed = error
        monkeypatch.undo()
        if failed is not None:
            report = xa.check(files.path, data=True, repair=True)
        assert report.ok, (number, str(report))
        assert np.array_equal(files.elements(), ROWS)
        if failed is None and next(calls) <= number:
            break
    assert number > 5


# -- any damage ------------------------------------------------------------------------------------


def unprotected(files, suffix, at):
    """Tell whether a byte has no checksum, and counts: words, raw chunks, notes and numbers."""
    if suffix == ".xmd":
        spans = [(e, e + extent_bytes(n)) for n, e in enumerate(files.extents)]
        fixed = files.header.header_bytes
        spans.append((fixed + 2048, fixed + 4096))
        return any(a <= at < z for a, z in spans)
    if suffix == ".xta":
        return not files.header.checksum
    return False


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_no_byte_harms(whole, data):
    """No crash; no wrong element in silence where a checksum exists; repair makes nothing worse."""
    whole.restore()
    suffix = data.draw(st.sampled_from(SUFFIXES))
    length = len(whole.content[suffix])
    if suffix == ".xmd":
        places = st.one_of(
            st.integers(0, length - 1),
            st.integers(whole.at, whole.at + 100),
            st.integers(0, whole.header.first_extent + 300),
            st.integers(0, 30 * ENTRY_BYTES).map(lambda n: whole.extents[0] + n),
        )
    else:
        places = st.integers(0, length - 1)
    spots = data.draw(st.lists(places, min_size=1, max_size=3))
    for at in spots:
        whole.change(suffix, at, bytes([data.draw(st.integers(0, 255))]))
    is_open = any(unprotected(whole, suffix, at) for at in spots)

    def look():
        with contextlib.suppress(xa.errors.ExtArrayError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with xa.open(whole.path, verify="read") as a:
                found = a[...]
            if not is_open and found.shape == ROWS.shape:
                assert np.array_equal(found, ROWS)

    look()
    xa.check(whole.path, data=True)
    report = xa.check(whole.path, data=True, repair=True)
    look()
    if not is_open and report.ok:
        assert np.array_equal(whole.elements(), ROWS)
    assert xa.check(whole.path, data=True, repair=True, force=True) is not None
    with contextlib.suppress(xa.errors.ExtArrayError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with xa.open(whole.path, "r+") as a:
            a.append(ROWS)
            freeze(a, all_addresses(a))
