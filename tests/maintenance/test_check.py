"""`check` finds all damage and nothing else; repair loses nothing without force."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import stat
import subprocess
import sys
import time
import warnings

import numpy as np
import places
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scratch import new_folder
from systems import needs_links, needs_replaced_open_files, needs_signals

import extarray as xa
from extarray import cli
from extarray.common import system
from extarray.format.blocks import BlockKind, encode_entry
from extarray.format.groups import Pending, encode_pending
from extarray.format.header import decode_header
from extarray.format.superblock import decode_superblock, encode_superblock, superblock_bytes
from extarray.maintenance import inspect
from extarray.storage import names as names_module
from extarray.storage.filesystem import File

# One pair of files is damaged and restored again and again.
pytestmark = pytest.mark.thread_unsafe(reason="tests share their files")

SUFFIXES = (".xmd", ".xta")
RECORD = 8 + 8 * 2


def make(path, **options):
    """Make an array of five commits with elements, and return its content."""
    a = xa.create(path, (4, 5), "<i4", chunks=(2, 2), attrs={"unit": "m"}, **options)
    model = np.arange(1, 21, dtype="i4").reshape(4, 5)
    a[...] = model
    a.flush()
    a.append(np.full((4, 3), 21, "i4"), 1)
    a.attrs["name"] = "x"
    a.append(np.full((2, 8), 22, "i4"), 0)
    model = np.concatenate([model, np.full((4, 3), 21, "i4")], 1)
    model = np.concatenate([model, np.full((2, 8), 22, "i4")], 0)
    a.close()
    return model


class Pair:
    """The files of an array, to be damaged and restored."""

    def __init__(self, path, make=make, **options):
        self.path = path
        self.model = make(path, **options)
        self.content = [self.file(suffix).read_bytes() for suffix in SUFFIXES]

    def file(self, suffix):
        return self.path.with_name(self.path.name + suffix)

    def restore(self):
        """Restore the files, and remove all others beside them."""
        for other in self.path.parent.iterdir():
            if other.name.startswith(self.path.name):
                other.unlink()
        for suffix, content in zip(SUFFIXES, self.content, strict=True):
            self.file(suffix).write_bytes(content)

    def flip(self, suffix, at, by=0x41):
        content = bytearray(self.file(suffix).read_bytes())
        content[at] ^= by
        self.file(suffix).write_bytes(content)

    def cut(self, suffix, length):
        os.truncate(self.file(suffix), length)

    def check(self, **options):
        return xa.check(self.path, **options)

    def block(self, slot):
        raw = self.content[0][places.superblock(slot) :][: superblock_bytes(2)]
        return decode_superblock(raw, 2)

    def opened(self):
        """Return elements and attributes; a warning is an error."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with xa.open(self.path) as a:
                return a[...], dict(a.attrs)


@pytest.fixture(scope="module")
def whole():
    """Yield files that hundreds of cases restore: in memory, if there is room."""
    folder = new_folder()
    yield Pair(folder / "scene", checksum=True)
    shutil.rmtree(folder)


@pytest.fixture
def pair(whole):
    whole.restore()
    return whole


def kinds(report, severity="error"):
    return sorted({p.kind for p in report.problems if p.severity == severity})


# -- whole files ---------------------------------------------------------------------------------


def test_a_whole_array(pair):
    report = pair.check(data=True)
    assert report.ok
    assert report.problems == report.repaired == report.refused == []
    assert str(report) == f"{pair.path}: ok"
    assert pair.check(repair=True, force=True).repaired == []
    assert [pair.file(suffix).read_bytes() for suffix in SUFFIXES] == pair.content


OPERATIONS = st.sampled_from(
    ["append", "extend", "shrink", "attrs", "much attrs", "write", "flush", "reopen"]
)


@given(
    operations=st.lists(OPERATIONS, max_size=12),
    seed=st.integers(0, 999),
    fill=st.sampled_from([0, 9]),
    sparse=st.booleans(),
    checksum=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_what_writers_leave_behind_is_whole(
    tmp_path_factory, operations, seed, fill, sparse, checksum
):
    """A copy of the files at any moment, as a killed writer leaves them, is whole."""
    folder = tmp_path_factory.mktemp("left")
    rng = np.random.default_rng(seed)
    a = xa.create(
        folder / "a", (3, 2), "i2", chunks=(2, 2), fill_value=fill, sparse=sparse, checksum=checksum
    )
    for number, operation in enumerate(operations, 1):
        axis, side = int(rng.integers(2)), str(rng.choice(["end", "start"]))
        by = int(rng.integers(1, 4))
        if operation == "append":
            shape = [by if j == axis else n for j, n in enumerate(a.shape)]
            a.append(np.full(shape, number, "i2"), axis, side)
        elif operation == "extend":
            a.extend(axis, by, side)
        elif operation == "shrink":
            a.shrink(axis, min(by, a.shape[axis]), side)
        elif operation == "attrs":
            a.attrs["n"] = number
        elif operation == "much attrs":
            a.attrs["text"] = "x" * 900 * number
        elif operation == "write":
            a[...] = number
        elif operation == "flush":
            a.flush()
        else:
            a.close()
            a = xa.open(folder / "a", "r+")
        for suffix in SUFFIXES:
            shutil.copyfile(folder / f"a{suffix}", folder / f"b{suffix}")
        for name in "ab":
            report = xa.check(folder / name, data=True)
            assert report.ok, str(report)
            # Nothing vouches for the writer's additions in a copy.
            expected = {"chunk"} if name == "a" else {"chunk", "data"}
            assert {*kinds(report, "warning")} <= expected, str(report)
    a.close()
    report = xa.check(folder / "a", data=True)
    assert report.problems == [], str(report)


@pytest.mark.slow
def test_a_writer_at_work_is_no_problem(path, forked):
    """`check` finds no damage while a writer makes changes, and neither waits for the other."""
    code = """
import sys, numpy as np, extarray as xa
a = xa.create(sys.argv[1], (0, 3), "i4", chunks=(2, 2), checksum=True)
print("ready", flush=True)
for n in range(10**9):
    a.append(np.full((1, 3), n, "i4"))
    a.attrs["n"] = "x" * (n % 3000)
    a[0] = n
    if n % 5 == 0:
        a.flush()
    if n % 7 == 0:
        a.extend(1, 1); a.shrink(1, 1)
    if n % 50 == 0:
        a.close()
        a = xa.open(sys.argv[1], "r+")
"""
    with forked.start(code, path) as writer:
        try:
            assert writer.stdout.readline() == "ready\n"
            for number in range(60):
                report = xa.check(path, data=number % 2 == 1)
                assert report.ok, str(report)
        finally:
            writer.kill()
    report = xa.check(path, data=True)
    assert report.ok, str(report)


def test_no_lock_is_taken_and_repair_wants_it(pair):
    with xa.open(pair.path, "r+") as a:
        report = pair.check(data=True)
        assert report.ok
        assert [p.what for p in report.problems] == ["a writer has it open"]
        with pytest.raises(xa.LockedError, match=r"close that array first, or use extarray\.open"):
            pair.check(repair=True)
        a[0, 0] = 1


# -- damage --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_damaged_byte_of_the_elements_is_found(pair):
    for at in range(len(pair.content[1])):
        pair.flip(".xta", at, 1 + at % 255)
        report = pair.check(data=True)
        assert not report.ok, at
        (problem,) = report.problems
        assert problem.file == str(pair.file(".xta"))
        size = 16  # chunk bytes
        assert problem.offset in (at // size * size, 192)
        pair.flip(".xta", at, 1 + at % 255)
    assert pair.check(data=True).ok


@pytest.mark.slow
def test_every_damaged_byte_of_the_metadata_is_found_and_put_right(pair):
    """Some bytes are harmless.  Damaged attributes leave older ones."""
    written = np.flatnonzero(np.frombuffer(pair.content[0], "u1"))
    harmless = 0
    for at in written[::3]:
        pair.restore()
        pair.flip(".xmd", at)
        if not pair.check(data=True).problems:
            harmless += 1
        else:
            report = pair.check(data=True, repair=True)
            if not report.ok and places.LOG <= at < places.LOG + 16 + 3 * RECORD:
                assert "force" in report.refused[0]  # it would give up a growth
                continue
            # Nobody can tell whether the sum or the chunk is wrong.
            assert report.ok or kinds(report) in (["chunk"], ["sums"]), str(report)
        elements, attrs = pair.opened()
        equal(pair, elements)
        assert attrs["unit"] == "m"
    assert harmless < 20


@pytest.mark.slow
@given(
    flips=st.lists(
        st.tuples(
            st.sampled_from(SUFFIXES),
            st.one_of(
                st.integers(0, 200),
                st.integers(0, 13).flatmap(lambda n: st.integers(1024 * n, 1024 * n + 150)),
                st.integers(places.LOG, places.LOG + 200),
                st.integers(0, 20000),
            ),
            st.integers(1, 255),
        ),
        max_size=4,
    ),
    cuts=st.lists(st.tuples(st.sampled_from(SUFFIXES), st.integers(0, 60000)), max_size=1),
    force=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_any_damage_gives_a_report_and_repair_says_what_it_did(whole, flips, cuts, force):
    whole.restore()
    for suffix, length in cuts:
        if length < whole.file(suffix).stat().st_size:
            whole.cut(suffix, length)
    for suffix, at, by in flips:
        if at < whole.file(suffix).stat().st_size:
            whole.flip(suffix, at, by)
    damaged = [whole.file(suffix).read_bytes() for suffix in SUFFIXES]
    report = whole.check(data=True)
    assert isinstance(str(report), str)
    assert [whole.file(suffix).read_bytes() for suffix in SUFFIXES] == damaged
    if report.ok:
        elements, attrs = whole.opened()
        np.testing.assert_array_equal(elements, whole.model)
        assert attrs == {"unit": "m", "name": "x"}
    repaired = whole.check(data=True, repair=True, force=force)
    if not repaired.ok:
        assert repaired.refused
        if force and "chunks" not in " ".join(repaired.refused):
            with pytest.raises(xa.ExtArrayError):
                whole.opened()
        return
    elements, attrs = whole.opened()
    if not force:
        # Only changed or cut elements and older attributes are lost.
        shared = tuple(slice(0, n) for n in elements.shape)
        if not any(suffix == ".xta" for suffix, *_ in flips):
            np.testing.assert_array_equal(elements, whole.model[shared])
            if not any(suffix == ".xta" for suffix, _ in cuts):
                assert elements.shape == whole.model.shape
    with xa.open(whole.path, "r+") as a:
        a.extend(0, 3)
        a.attrs["new"] = 1
    after = whole.check(data=True)
    assert after.ok, str(after)


def altered(pair, slot=0, **values):
    """Write a superblock with other values and a matching checksum."""
    block = pair.block(slot)._replace(**values)
    content = bytearray(pair.file(".xmd").read_bytes())
    data = encode_superblock(block)
    content[places.superblock(slot) :][: len(data)] = data
    content[places.superblock(slot) : places.superblock(slot) + len(data)] = data
    pair.file(".xmd").write_bytes(content)


@pytest.mark.parametrize(
    "values",
    [
        {"n_segments": 2**63},
        {"n_segments": 2**31 - 1},
        {"n_segments": 0},
        {"data_bytes": 2**63},
        {"grid": (2**40, 2**22), "data_bytes": 2**62 * 16 % 2**64},
        {"grid": (2**62, 0), "data_bytes": 0, "shape": (0, 0)},
        {"shape": (-1, 2)},
        {"offset": (2**62, 2**62)},
        {"attrs_offset": 2**63, "attrs_bytes": 2**32 - 1},
        {"attrs_bytes": 2**32 - 1},
        {"end": 2**63},
        {"end": 0},
        {"sequence": 2**64 - 1},
        {"spare_offset": 10, "spare_capacity": 2**31},
        {"attrs_capacity": 2**32 - 1},
    ],
    ids=str,
)
def test_impossible_values_take_no_time_and_no_memory(pair, values):
    start = time.process_time()
    altered(pair, 0, **{"sequence": 1000, **values})
    report = pair.check(data=True)
    assert not report.ok
    assert pair.check(data=True, repair=True, force=True).ok
    assert pair.file(".xmd").stat().st_size < 10**6
    assert time.process_time() - start < 60
    with contextlib.suppress(xa.ExtArrayError):
        pair.opened()


@pytest.mark.parametrize(
    "text", [b'{"unit":NaN}            ', b"[1]", b'"text"', b"\xff", b"{", b"[" * 5000]
)
def test_attributes_that_are_no_object(pair, text):
    from extarray.format._crc import crc32c

    at = pair.block(0).attrs_offset
    content = bytearray(pair.file(".xmd").read_bytes().ljust(at + 8000, b"\0"))
    content[at : at + len(text)] = text
    pair.file(".xmd").write_bytes(content)
    for slot in (0, 1):
        altered(pair, slot, attrs_bytes=len(text), attrs_crc=crc32c(text))
    assert "attrs" in kinds(pair.check())
    assert pair.check(repair=True).ok
    np.testing.assert_array_equal(pair.opened()[0], pair.model)


@pytest.mark.parametrize(
    "kind",
    [
        *("missing", "folder", "pipe", "empty", "text"),
        pytest.param("link to nothing", marks=needs_links),
    ],
)
def test_what_is_no_array(tmp_path, kind):
    path = tmp_path / "scene"
    for suffix in SUFFIXES:
        file = tmp_path / f"scene{suffix}"
        if kind == "folder":
            file.mkdir()
        elif kind == "pipe":
            os.mkfifo(file)
        elif kind == "empty":
            file.touch()
        elif kind == "text":
            file.write_text("no array\n" * 3000)
        elif kind == "link to nothing":
            file.symlink_to(tmp_path / "nothing")
    report = xa.check(path)
    assert not report.ok
    assert not xa.check(path, data=True, repair=True, force=True).ok
    assert len(list(tmp_path.iterdir())) == (0 if kind == "missing" else 2)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_missing_file(pair, suffix):
    pair.file(suffix).unlink()
    report = pair.check(data=True, repair=True)
    assert kinds(report) == ["file"]
    (reason,) = report.refused
    assert reason.endswith("missing: restore it from a copy")


def test_rooms_that_overlap(pair):
    room = pair.block(0).attrs_offset + 8
    altered(pair, 0, sequence=1000, spare_offset=room, spare_capacity=100)
    report = pair.check()
    assert kinds(report) == ["room"]
    assert pair.check(repair=True).ok
    np.testing.assert_array_equal(pair.opened()[0], pair.model)


# -- repair --------------------------------------------------------------------------------------


def repaired(pair, lossless, shape=(6, 8), attrs=("unit", "name"), severity="error"):
    """Repair without force, then with it if necessary; return the elements."""
    before = [pair.file(suffix).read_bytes() for suffix in SUFFIXES]
    assert kinds(pair.check(data=True), severity)
    report = pair.check(data=True, repair=True)
    assert report.ok == lossless, str(report)
    if not lossless:
        assert report.refused
        assert "force" in report.refused[0]
        assert [pair.file(suffix).read_bytes() for suffix in SUFFIXES] == before
        report = pair.check(data=True, repair=True, force=True)
    assert report.ok, str(report)
    assert report.repaired
    elements, found = pair.opened()
    assert elements.shape == shape
    assert tuple(found) == attrs
    # Overwritten bytes are kept.
    aside = pair.file(".xmd.before-repair")
    assert aside.read_bytes() == before[0]
    assert aside.stat().st_mode == pair.file(".xmd").stat().st_mode
    with xa.open(pair.path, "r+") as a:
        a.append(np.zeros((1, shape[1]), "i4"))
    assert not pair.check(data=True).problems
    return elements


def equal(pair, elements):
    np.testing.assert_array_equal(elements, pair.model)


def test_header_and_its_copy(pair):
    pair.flip(".xmd", 60)
    with pytest.raises(xa.CorruptError):
        pair.opened()
    equal(pair, repaired(pair, lossless=True))
    assert decode_header(pair.file(".xmd").read_bytes()).chunks == (2, 2)
    pair.restore()
    pair.flip(".xmd", places.COPY + 60)
    assert kinds(pair.check()) == ["copy"]
    equal(pair, repaired(pair, lossless=True))
    pair.restore()
    pair.flip(".xmd", 60)
    pair.flip(".xmd", places.COPY + 60)
    report = pair.check(repair=True, force=True)
    assert not report.ok
    assert "the layout of the chunks is unknown" in report.refused[0]


def test_a_header_of_several_blocks(tmp_path):
    dtype = np.dtype([(f"field {i}", "<f4") for i in range(200)])
    path = tmp_path / "a"
    xa.ones(3, dtype, path=path).close()
    content = bytearray(path.with_suffix(".xmd").read_bytes())
    content[12:16] = b"\xff\xff\xff\xff"  # header length
    path.with_suffix(".xmd").write_bytes(content)
    assert not xa.check(path).ok
    assert xa.check(path, repair=True).ok
    with xa.open(path) as a:
        assert a.dtype == dtype


@pytest.mark.parametrize("slots", [[0], [1], [0, 1], [2], [3], [4], [0, 1, 2]], ids=str)
def test_torn_superblocks(pair, slots):
    for slot in slots:
        pair.flip(".xmd", places.superblock(slot) + 100)
        pair.flip(".xmd", places.superblock(slot) + 30)
    # A flush torn by a power cut leaves a spare one like this, and nothing is lost.
    severity = "error" if {0, 1} & set(slots) else "warning"
    assert pair.check().ok == (severity == "warning")
    equal(pair, repaired(pair, lossless=True, severity=severity))


@pytest.mark.parametrize(
    "values",
    [
        {"attrs_capacity": 3},
        {"spare_offset": 0, "spare_capacity": 9},
        {"spare_offset": 4096, "spare_capacity": 9},
        {"end": 13500},
        {"end": 2**62 + 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("slot", [0, 1, 2])
def test_places_that_open_does_not_take(pair, slot, values):
    """One rule for both: `open` accepts every place that `check` accepts."""
    newest = pair.block(newest_slot(pair)).sequence
    sequence = newest + 5 if slot < 2 else pair.block(slot).sequence
    altered(pair, slot, **{"sequence": sequence, **values})
    with xa.open(pair.path) as a:
        assert a._store.now.state.sequence <= newest
    report = pair.check()
    assert report.ok == (slot == 2)
    assert report.problems
    equal(pair, repaired(pair, lossless=True, severity="error" if slot < 2 else "warning"))


@pytest.mark.parametrize("sequence", [2**61 + 1, 2**62])
def test_no_number_is_left_for_a_commit(pair, sequence):
    altered(pair, 0, sequence=sequence)
    equal(pair, pair.opened()[0])
    with pytest.raises(xa.CorruptError, match="the last possible number"):
        xa.open(pair.path, "r+")
    before = pair.file(".xmd").read_bytes()
    report = pair.check(repair=True, force=True)
    assert kinds(report) == ["superblock"]
    assert "the last possible number" in report.refused[0]
    assert pair.file(".xmd").read_bytes() == before


def test_a_log_that_fills_its_extents(tmp_path):
    """`check` examines the rooms of exactly the extents that are needed."""
    pair = Pair(tmp_path / "a")
    with xa.open(pair.path, "r+") as a:
        for n in range(55):
            a.extend(n % 2, 2)
            if n >= 53:  # 56 segments, then 57
                assert not [p for p in pair.check().problems if p.severity != "note"]
        state, extents = a._store.now.state, a._store.now.extents
    assert (state.n_segments, len(extents)) == (57, 4)
    pair.content = [pair.file(suffix).read_bytes() for suffix in SUFFIXES]
    altered(pair, 0, sequence=1000, spare_offset=extents[1] + 8, spare_capacity=8)
    assert kinds(pair.check()) == ["room"]


def test_a_damaged_record_of_the_newest_growth(pair):
    """With force, the array returns to the previous state."""
    for at in range(RECORD):
        if at not in (6, 7):
            pair.flip(".xmd", places.LOG + 16 + RECORD * 2 + at)
            elements = repaired(pair, lossless=False, shape=(4, 5), attrs=("unit",))
            np.testing.assert_array_equal(elements, pair.model[:4, :5])
            pair.restore()


def test_a_damaged_head_of_an_extent(tmp_path):
    """The records of later extents are lost."""
    path = tmp_path / "a"
    with xa.create(path, (0, 1, 1), "u1", chunks=1) as a:
        for number in range(1, 70):
            a.extend(1 + number % 2, 1)
    content = bytearray(path.with_suffix(".xmd").read_bytes())
    content[places.LOG + 2] ^= 4
    path.with_suffix(".xmd").write_bytes(content)
    assert kinds(xa.check(path)) == ["log", "superblock"]
    assert xa.check(path, repair=True, force=True).ok
    with xa.open(path) as a:
        assert a.info()["segments"] < 70


def test_damaged_records(pair):
    """The previous states are whole, or nothing is."""
    for at in (8, 16):
        pair.flip(".xmd", places.LOG + 16 + RECORD * 2 + at)
    elements = repaired(pair, lossless=False, shape=(4, 5), attrs=("unit",))
    np.testing.assert_array_equal(elements, pair.model[:4, :5])
    pair.restore()
    for at in (8, 16):
        for record in (0, 1):
            pair.flip(".xmd", places.LOG + 16 + RECORD * record + at)
    report = pair.check(repair=True, force=True)
    assert report.refused == ["no state can be recovered"]


@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("growths", [0, 1, 3])
def test_the_record_of_the_initial_segment_follows_from_the_rest(tmp_path, shape, growths):
    def grown(path):
        with xa.create(path, shape, "i4", chunks=2 if shape else None) as a:
            a[...] = 7
            for n in range(growths if shape else 0):
                a.extend((n + 1) % a.ndim, 3, "start" if n % 2 else "end")
            return a[...]

    pair = Pair(tmp_path / "a", grown)
    for at in (0, 1, 5, 9):
        if at < 8 + 8 * len(shape):
            pair.flip(".xmd", places.LOG + 16 + at)
    assert "log" in kinds(pair.check())
    report = pair.check(repair=True)
    assert report.ok, str(report)
    assert "rebuilt from the records after it" in " ".join(report.repaired)
    equal(pair, pair.opened()[0])


def test_the_newest_commit_is_lost(pair):
    """Only the first flushed state is left; repair copies later chunks aside and cuts them off."""
    first = next(slot for slot in range(2, 5) if pair.block(slot).shape == (4, 5))
    for slot in set(range(5)) - {first}:
        pair.flip(".xmd", places.superblock(slot) + 100)
        pair.flip(".xmd", places.superblock(slot) + 30)
    elements = repaired(pair, lossless=False, shape=(4, 5), attrs=("unit",))
    np.testing.assert_array_equal(elements, pair.model[:4, :5])
    kept = pair.file(".xta.before-repair").read_bytes()
    assert kept == pair.content[1][6 * 16 :]


def test_no_superblock_is_whole(pair):
    for slot in range(5):
        pair.flip(".xmd", places.superblock(slot) + 100)
        pair.flip(".xmd", places.superblock(slot) + 101)
    equal(pair, repaired(pair, lossless=False))


def test_no_superblock_is_left(pair):
    content = bytearray(pair.content[0])
    content[4096:6144] = bytes(2048)
    content[8192:11264] = bytes(3072)
    pair.file(".xmd").write_bytes(content)
    equal(pair, repaired(pair, lossless=False, attrs=()))


def test_damaged_attributes(pair):
    at = pair.block(0).attrs_offset
    pair.flip(".xmd", at + 3)
    assert kinds(pair.check()) == ["attrs", "superblock"]
    equal(pair, repaired(pair, lossless=True, attrs=("unit",)))
    pair.restore()
    blocks = [pair.block(slot) for slot in range(5)]
    for at in {block.attrs_offset for block in blocks if block is not None}:
        pair.flip(".xmd", at + 1)
    equal(pair, repaired(pair, lossless=False, attrs=()))


@pytest.mark.parametrize("lost", [1, 32, 33, 60])
def test_a_data_file_that_is_too_short(pair, lost):
    size = len(pair.content[1])
    pair.cut(".xta", size - lost)
    if lost <= 32:
        equal(pair, repaired(pair, lossless=True))
    else:
        # Some chunks of the last row (4:6, ...) remain; larger bounds are whole without them.
        (problem,) = pair.check().problems
        first, kept, given_up = (6, (6, 6), 2) if lost == 33 else (4, (4, 8), 2)
        assert f"elements lost: [4:6, {first}:8]" in problem.what
        box = f"[0:{kept[0]}, 0:{kept[1]}], the largest intact bounds"
        assert f"keeps {box}, and discards {given_up} chunks" in problem.remedy
        elements = repaired(pair, lossless=False, shape=kept)
        np.testing.assert_array_equal(elements, pair.model[: kept[0], : kept[1]])
        with xa.open(pair.path, "r+") as a:
            a.extend(0, 2)
            a.extend(1, 2)
            # Discarded elements do not come back.
            assert not a[kept[0] :].any()
            assert not a[:, kept[1] :].any()


def test_a_data_file_too_short_for_every_state(pair):
    pair.cut(".xta", 50)
    # Chunks 0 to 2 remain, and two bytes of the next.
    (problem,) = pair.check().problems
    assert "elements lost: [2:4, 0:6], [0:4, 6:8], [4:6, 0:8]" in problem.what
    assert "repair keeps [0:2, 0:6], the largest intact bounds" in problem.remedy
    elements = repaired(pair, lossless=True, shape=(2, 6))
    np.testing.assert_array_equal(elements, pair.model[:2, :6])


def test_a_data_file_without_any_chunk(pair):
    pair.cut(".xta", 15)
    before = pair.file(".xmd").read_bytes()
    assert "none of its elements can be kept" in pair.check().problems[0].remedy
    for force in (False, True):
        report = pair.check(repair=True, force=force)
        assert not report.ok
        assert "no state can be recovered" in report.refused[0]
    assert pair.file(".xmd").read_bytes() == before


def test_a_data_file_that_is_too_long(pair):
    with pair.file(".xta").open("ab") as file:
        file.write(b"more")
    equal(pair, repaired(pair, lossless=True))
    assert pair.file(".xta.before-repair").read_bytes() == pair.content[1][-32:] + b"more"


@pytest.mark.parametrize("at", [-1, -16, -17, -32])
def test_a_damaged_seal(pair, at):
    pair.flip(".xta", len(pair.content[1]) + at)
    equal(pair, repaired(pair, lossless=True))


def test_a_foreign_seal_is_refused(pair, tmp_path):
    make(tmp_path / "other")
    shutil.copyfile(tmp_path / "other.xta", pair.file(".xta"))
    before = pair.file(".xmd").read_bytes()
    report = pair.check(repair=True, force=True)
    assert kinds(report) == ["data"]
    assert "the data file of this array is missing" in report.refused[0]
    assert pair.file(".xmd").read_bytes() == before
    content = bytearray(before)
    content[4096:6144] = bytes(2048)
    content[8192:11264] = bytes(3072)
    pair.file(".xmd").write_bytes(content)
    assert (
        "the data file of this array is missing" in pair.check(repair=True, force=True).refused[0]
    )


def test_metadata_that_are_cut_off(pair):
    state = pair.block(0)
    pair.cut(".xmd", state.attrs_offset + state.attrs_bytes)
    report = pair.check()
    assert kinds(report) == ["room"]
    equal(pair, repaired(pair, lossless=True))


def test_copies_aside_have_fresh_names(pair):
    for number in ("", "-2", "-3"):
        pair.flip(".xmd", 60)
        damaged = pair.file(".xmd").read_bytes()
        assert pair.check(repair=True).ok
        assert pair.file(f".xmd.before-repair{number}").read_bytes() == damaged


# -- interrupted repairs ---------------------------------------------------------------------------


def damaged_attributes(pair):
    pair.flip(".xmd", pair.block(newest_slot(pair)).attrs_offset + 3)


def newest_slot(pair):
    return max((0, 1), key=lambda slot: pair.block(slot).sequence)


def torn(*slots):
    def tear(pair):
        for slot in slots:
            pair.flip(".xmd", places.superblock(slot) + 30)
            pair.flip(".xmd", places.superblock(slot) + 100)

    return tear


def torn_but_for_the_attributes(pair):
    """Damage the attributes of a state; a torn superblock has the other ones."""
    newest = newest_slot(pair)
    torn(1 - newest, 2, 3, 4)(pair)
    damaged_attributes(pair)


DAMAGES = {
    "attributes": damaged_attributes,
    "attributes, and torn": torn_but_for_the_attributes,
    "torn": torn(0, 1),
    "all torn": torn(*range(5)),
    "header": lambda pair: pair.flip(".xmd", 60),
    "cut off": lambda pair: pair.cut(".xta", len(pair.content[1]) - 60),
    "cut off for every state": lambda pair: pair.cut(".xta", 50),
    "seal": lambda pair: pair.flip(".xta", len(pair.content[1]) - 5),
    "longer": lambda pair: pair.cut(".xta", len(pair.content[1]) + 100),
}


class Failing:
    """Make the disk fail at the n-th call that changes a file, and at all later ones."""

    def __init__(self, monkeypatch, number, half):
        self.left, self.half = number, half
        write, truncate = File.write, File.truncate

        def failing_write(file, data, offset):
            if self.count():
                if self.half and self.left == 0:
                    write(file, data[: len(data) // 2], offset)
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            write(file, data, offset)

        def failing_truncate(file, length):
            if self.count():
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            truncate(file, length)

        monkeypatch.setattr(File, "write", failing_write)
        monkeypatch.setattr(File, "truncate", failing_truncate)

    def count(self):
        self.left -= 1
        return self.left <= 0


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True], ids=["fails", "half"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_repair_that_fails_at_any_write_can_be_done_again(pair, monkeypatch, damage, half):
    DAMAGES[damage](pair)
    before = [pair.file(suffix).read_bytes() for suffix in SUFFIXES]
    assert pair.check(repair=True, force=True).ok
    elements, attrs = pair.opened()
    for number in itertools.count(1):
        pair.restore()
        for suffix, content in zip(SUFFIXES, before, strict=True):
            pair.file(suffix).write_bytes(content)
        with monkeypatch.context() as patch:
            disk = Failing(patch, number, half)
            with contextlib.suppress(xa.StorageError):
                pair.check(repair=True, force=True)
        assert pair.check(repair=True, force=True).ok
        found = pair.opened()
        np.testing.assert_array_equal(found[0], elements)
        assert found[1] == attrs, f"at write {number}"
        if disk.left > 0:
            break


def test_a_copy_aside_that_fails_does_not_stay(pair, monkeypatch):
    pair.flip(".xmd", 60)
    with monkeypatch.context() as patch:
        Failing(patch, 2, False)
        with pytest.raises(xa.StorageError):
            pair.check(repair=True)
    assert [file.name for file in pair.path.parent.glob("*.before-repair*")] == []


# -- checksums -----------------------------------------------------------------------------------


def test_a_damaged_chunk(pair):
    pair.flip(".xta", 3 * 16 + 5)
    pair.flip(".xta", 4 * 16 + 5)
    report = pair.check(data=True)
    (problem,) = report.problems
    assert problem.what.startswith("chunks 3 to 4: the checksum does not match; their elements are")
    assert problem.offset == 48
    assert pair.check().ok  # the chunks were not examined
    repaired(pair, lossless=False)


@needs_signals
def test_chunks_in_doubt(pair, forked):
    code = """
import os, signal, sys, extarray as xa
a = xa.open(sys.argv[1], "r+")
a[0, 0] = 77
os.kill(os.getpid(), signal.SIGKILL)
"""
    with pytest.raises(AssertionError, match="exit status -9"):
        forked(code, pair.path)
    report = pair.check(data=True)
    assert report.ok
    assert kinds(report, "warning") == ["chunk"]
    assert kinds(report, "note") == ["sums"]
    report = pair.check(data=True, repair=True)
    assert report.ok
    assert report.refused
    report = pair.check(data=True, repair=True, force=True)
    assert report.problems == []
    assert pair.opened()[0][0, 0] == 77


@pytest.mark.slow
def test_doubt_without_a_reason_goes(pair, forked):
    code = """
import os, signal, sys, extarray as xa
a = xa.open(sys.argv[1], "r+")
a[0, 0] = a[0, 0]
os.kill(os.getpid(), signal.SIGKILL)
"""
    with pytest.raises(AssertionError, match="exit status -9"):
        forked(code, pair.path)
    assert kinds(pair.check(data=True), "note") == ["sums"]
    assert kinds(pair.check(repair=True), "note") == ["sums"]
    assert pair.check(data=True, repair=True).problems == []


def test_a_damaged_table_of_checksums(pair):
    pair.flip(".xmd", places.SUMS + 8)
    assert kinds(pair.check()) == ["sums"]
    equal(pair, repaired(pair, lossless=False))


def test_an_array_without_checksums(path):
    make(path)
    report = xa.check(path, data=True)
    assert (report.ok, report.problems) == (True, [])
    (unseen,) = report.unseen
    assert "no checksums; a.copy(path, checksum=True) makes a copy" in unseen
    assert str(report).count("no checksums") == 1


def test_progress_is_told(path):
    with xa.create(path, (200, 1), "u1", chunks=1, checksum=True) as a:
        a[...] = 1
    seen = []
    xa.check(path, data=True, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (200, 200)


# -- left-overs ----------------------------------------------------------------------------------


def left_over(pair, suffix, age=3600.0):
    file = pair.file(f"{suffix}.0123456789ab.new")
    file.write_bytes(b"half")
    os.utime(file, (time.time() - age,) * 2)
    return file


def test_left_overs_are_removed(pair):
    files = [left_over(pair, suffix) for suffix in SUFFIXES]
    other = pair.path.with_name("other.xmd.0123456789ab.new")
    other.touch()
    report = pair.check()
    assert report.ok
    assert [p.file for p in report.problems] == [str(file) for file in files]
    report = pair.check(repair=True)
    assert report.problems == []
    assert not any(file.exists() for file in files)
    assert other.exists()
    other.unlink()


def test_a_part_of_the_array_is_no_left_over(pair):
    """The maker died before naming the second file, which belongs to the array all the same."""
    identifier = decode_header(pair.content[0]).uuid.hex()[:12]
    file = pair.file(f".xta.{identifier}.new")
    pair.file(".xta").rename(file)
    os.utime(file, (0, 0))
    assert pair.check(repair=True, force=True, data=True).problems == []
    assert file.exists()
    file.rename(pair.file(".xta"))


def test_the_next_open_for_writing_removes_left_overs(pair):
    files = [left_over(pair, suffix, age=0.0) for suffix in SUFFIXES]
    xa.open(pair.path).close()
    assert all(file.exists() for file in files)  # a reader changes nothing
    names_module._next_looks.clear()
    xa.open(pair.path, "r+").close()
    assert not any(file.exists() for file in files)


def test_work_of_a_rechunk_that_was_interrupted_is_found(pair):
    files = [pair.file(f".rechunk-1{suffix}") for suffix in SUFFIXES]
    for file in files:
        file.write_bytes(b"half")
    report = pair.check(repair=True)
    assert report.ok
    assert [p.file for p in report.problems] == [str(file) for file in files]
    assert all("resume=True" in p.remedy for p in report.problems)
    assert all(file.exists() for file in files)  # they may hold hours of work


def test_left_overs_of_who_is_at_work_stay(pair):
    young = left_over(pair, ".xta", age=1.0)
    assert len(pair.check(repair=True).problems) == 1
    assert young.exists()


def test_left_overs_of_a_creation_that_has_the_lock_stay(pair, forked):
    file = left_over(pair, ".xmd")
    code = """
import os, sys
from pathlib import Path
from extarray.storage import lock
from extarray.storage.filesystem import File
file = File.open(sys.argv[1], os.O_RDWR)
lock.acquire(file, Path(sys.argv[1]), 0)
print("ready", flush=True)
sys.stdin.read()
"""
    with forked.start(code, file) as holder:
        assert holder.stdout.readline() == "ready\n"
        pair.check(repair=True)
        assert file.exists()
        holder.stdin.close()
        holder.wait(60)
    pair.check(repair=True)
    assert not file.exists()


def test_left_overs_stay_while_the_array_is_damaged(pair):
    file = left_over(pair, ".xmd")
    pair.file(".xta").unlink()
    pair.check(repair=True)
    assert file.exists()


# -- arguments, permissions, the command ---------------------------------------------------------


def test_force_belongs_to_repair(path):
    with pytest.raises(ValueError, match="repair=True"):
        xa.check(path, force=True)
    with pytest.raises(TypeError):
        xa.check(3)


def test_read_only_files_can_be_checked(pair):
    for suffix in SUFFIXES:
        pair.file(suffix).chmod(stat.S_IRUSR)
    assert pair.check(data=True).ok
    for suffix in SUFFIXES:  # Windows removes no other files
        pair.file(suffix).chmod(stat.S_IRUSR | stat.S_IWUSR)


def command(*args):
    return subprocess.run(
        [sys.executable, "-m", "extarray", "check", *map(str, args)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


@pytest.mark.slow
def test_exit_status(pair):
    done = command(pair.path, "--data")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{pair.path}: ok\n", "")
    pair.flip(".xta", 7)
    done = command(f"{pair.path}.xmd", "--data")
    assert done.returncode == 1
    assert "chunk 0: the checksum does not match" in done.stdout
    done = command(pair.path, "--force")
    assert done.returncode == 2
    assert "Usage: extarray" in done.stderr


@pytest.mark.parametrize("name", ["", "folder/"])
def test_what_names_no_file_is_a_wrong_call(name, capsys):
    for command in ("check", "info"):
        assert cli.main([command, name]) == 2
        assert "does not name a file" in capsys.readouterr().err


def test_a_repair_that_is_refused_has_failed(pair, capsys):
    """The next writer finishes a commit of several arrays; the array opens all the same."""
    newest = pair.block(newest_slot(pair))
    state = newest._replace(sequence=newest.sequence + 1, sealed=False)
    block = encode_pending(Pending(state, b"g" * 16, b"c" * 16, b"coordinator"))
    content = bytearray(pair.content[0])
    at = len(content) + 4096
    content += bytes(3 * 4096)
    content[at : at + len(block)] = block
    directory = places.DIRECTORY
    content[directory : directory + 16] = encode_entry(at - 4096, BlockKind.GROUP, content[16:32])
    pair.file(".xmd").write_bytes(content)
    assert cli.main(["check", str(pair.path)]) == 0
    assert cli.main(["check", "--repair", str(pair.path)]) == 1
    assert "not repaired: a commit of several arrays" in capsys.readouterr().out
    assert cli.main(["check", "--repair", "--force", str(pair.path)]) == 0
    equal(pair, pair.opened()[0])


def test_a_look_beside_a_writer_is_repeated_for_warnings_too(pair, monkeypatch):
    """The writer was between two commits, say, when the superblocks were read."""
    looks, look = [], inspect.Survey.look

    def once(self):
        look(self)
        if not looks:
            self.warning("superblock", "read half way", 0, "")
            os.truncate(self.pair.names[0], os.path.getsize(self.pair.names[0]) + 1)
        looks.append(1)

    monkeypatch.setattr(inspect.Survey, "look", once)
    assert pair.check().problems == []
    assert len(looks) == 2


def do(step, a, b):
    """Do one step of a writer, with two arrays of shape (3, 4)."""
    rows = np.ones((2, 4), "i4")
    if step == "group":
        with xa.commit([a, b]):
            a.append(rows)
            b.append(rows)
    elif step in ("append", "share"):
        a.append(rows)
    elif step == "log":  # more segments than the log's first extent holds
        for n in range(10):
            a.extend(n % 2, 2)
    elif step == "shrink":
        a.shrink(0, 2)
    elif step == "attrs":
        a.attrs["long"] = "x" * 5000
    elif step == "axis":
        a.add_axis()
    else:
        a.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", ["group", "share", "append", "log", "shrink", "attrs", "axis", "close"]
)
def test_a_look_beside_a_writer_at_every_step(path, monkeypatch, step):
    """A writer completes a step just before any one read of the survey."""
    read = File.read
    due = []  # reads left before the step, and the step

    def read_later(self, length, offset):
        if due:
            due[0] -= 1
            if due[0] < 0:
                act = due[1]
                due.clear()
                act()
        return read(self, length, offset)

    monkeypatch.setattr(File, "read", read_later)
    for number in itertools.count():
        names = [path.with_name(f"{name}{number}") for name in "ab"]
        for name in names:
            xa.create(name, (3, 4), "i4", chunks=(2, 2)).close()
        with (
            xa.open(names[0], "r+", share=step == "share") as a,
            xa.open(names[1], "r+") as b,
        ):
            due[:] = [number, lambda a=a, b=b: do(step, a, b)]
            problems = [problem for name in names for problem in xa.check(name).problems]
            is_over = bool(due)  # the survey made fewer reads
            due.clear()
        assert [problem for problem in problems if problem.severity != "note"] == []
        if is_over:
            break
    assert number > 10


def test_the_command(pair, capsys):
    def run(*args):
        status = cli.main(["check", *map(str, args)])
        return status, capsys.readouterr().out

    pair.flip(".xta", 7)
    status, out = run(pair.path, "--data", "--repair")
    assert status == 1
    assert "not repaired" in out
    status, out = run(pair.path, "--data", "--repair", "--force")
    assert status == 0
    assert "repaired: 1 checksum" in out
    for wrong in ([], [pair.path, "--force"], [pair.path, "--no"]):
        assert run(*wrong) == (2, "")
    assert run(pair.path.with_name("nothing"))[0] == 1


# -- findings in detail --------------------------------------------------------------------------


def test_a_damaged_chunk_names_its_elements(path):
    with xa.create(path, (5, 7), "i4", chunks=(2, 3), checksum=True) as a:
        a.extend(0, 3, side="start")  # adds chunks 9 ... 14
        a[...] = 1
        a.shrink(1, 2)
    for chunk in (4, 5, 9, 10, 11, 12):
        with open(f"{path}.xta", "r+b") as file:
            file.seek(24 * chunk)
            file.write(b"?")
    first, second = xa.check(path, data=True).problems
    assert first.what == (
        "chunks 4 to 5: the checksum does not match; their elements are [5:7, 3:5]"
    )
    assert first.boxes == (
        (slice(5, 7), slice(3, 5)),
        (slice(5, 7), slice(5, 5)),
    )
    assert second.what.startswith(
        "chunks 9 to 12: the checksum does not match; their elements are ["
    )
    assert second.what.endswith(", ...")
    assert len(second.boxes) == 4
    with xa.open(path, verify="never") as a:
        for problem in (first, second):
            for box in problem.boxes:
                index = tuple(
                    (s.start + lead) // c for s, lead, c in zip(box, (1, 0), (2, 3), strict=True)
                )
                assert a[box].size == 0 or a.axial.address(index) in (4, 9, 10, 11, 12)


def test_what_was_not_looked_at(pair, path):
    report = pair.check()
    assert report.ok
    (text,) = report.unseen
    assert "--data" in text
    assert str(report) == f"not checked: {text}\n{pair.path}: ok (not everything was checked)"
    assert pair.check(data=True).unseen == []
    xa.ones(5, path=path).close()
    for data in (False, True):
        report = xa.check(path, data=data)
        assert report.ok
        assert "no checksums" in report.unseen[0]
    xa.ones(0, path=f"{path}0").close()
    assert xa.check(f"{path}0").unseen == []


def test_a_folder(tmp_path, capsys):
    (tmp_path / "below").mkdir()
    paths = [tmp_path / "a", tmp_path / "b", tmp_path / "below" / "c"]
    for path in paths:
        xa.ones((4, 3), path=path, checksum=True).close()
    (tmp_path / "notes.txt").write_text("no array")
    assert cli.main(["check", str(tmp_path), "--data"]) == 0
    lines = [f"{path}: ok" for path in paths]
    lines += [f"{tmp_path}: 3 of 3 arrays without errors"]
    assert capsys.readouterr().out.splitlines() == lines
    with open(f"{paths[1]}.xta", "r+b") as file:
        file.write(b"?")
    os.unlink(f"{paths[2]}.xta")
    assert cli.main(["check", str(tmp_path), "--data"]) == 1
    out = capsys.readouterr().out
    assert "its elements are [0:4, 0:3]" in out
    assert out.splitlines()[0] == lines[0]
    assert out.splitlines()[-1] == f"{tmp_path}: 1 of 3 arrays without errors"
    # A folder and an array share a name.
    (tmp_path / "a").mkdir()
    assert cli.main(["check", str(paths[0]), "--data"]) == 0
    assert capsys.readouterr().out == f"{paths[0]}: ok\n"
    (tmp_path / "empty").mkdir()
    assert cli.main(["check", str(tmp_path / "empty")]) == 1
    assert "no array in this folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    "step",
    [
        "the data get their name",
        pytest.param("another pair gets the names", marks=needs_replaced_open_files),
    ],
)
def test_a_check_between_two_names(tmp_path, monkeypatch, step):
    """The files change after the check has opened the metadata."""
    xa.from_array(np.arange(6), tmp_path / "a").close()
    xa.from_array(np.arange(20.0), tmp_path / "b").close()
    with xa.open(tmp_path / "a") as array:
        uuid = array._store.now.header.uuid
    data, fresh = tmp_path / "a.xta", tmp_path / f"a.xta.{uuid.hex()[:12]}.new"
    if step == "the data get their name":
        data.rename(fresh)
    plain, done = File.open, []

    def opened(name, *more):
        if ".xta" in name and not done:
            done.append(name)
            if fresh.exists():
                fresh.rename(data)
            else:
                for suffix in (".xmd", ".xta"):
                    system.replace(f"{tmp_path}/b{suffix}", f"{tmp_path}/a{suffix}")
        return plain(name, *more)

    monkeypatch.setattr(File, "open", opened)
    report = xa.check(tmp_path / "a")
    assert report.ok and done, str(report)
