"""Ranges are cleared by the calls of file systems that are known to clear, else by writing."""

from __future__ import annotations

import contextlib
import errno
import os
from ctypes import c_int64

import numpy as np
import preload
import pytest
from cutting import cut_and_grow
from systems import needs_replaced_open_files

import extarray as xa
from extarray._core._file import UNSUPPORTED, FileCore
from extarray.storage import clearing
from extarray.storage.filesystem import File, random_name

FUSE, EXT4 = 0x65735546, 0xEF53
PAGE = clearing.PAGESIZE


@pytest.fixture(autouse=True)
def nothing_found(monkeypatch):
    monkeypatch.setattr(clearing, "_found", {})


@pytest.fixture
def file(tmp_path):
    """Yield a file of eight pages of ones."""
    opened = File.open(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT)
    opened.write(b"\1" * (8 * PAGE), 0)
    with contextlib.closing(opened):
        yield opened


# -- the trial -----------------------------------------------------------------------------------


def written(file, start, stop):
    """Clear a range as it ought to be."""
    file.write(bytes(stop - start), start)
    return 0


def nothing(file, offset, length):
    return 0


def whole_pages(file, offset, length):
    return written(file, offset + -offset % PAGE, (offset + length) // PAGE * PAGE)


def all_but_a_page(file, offset, length):
    return written(file, offset, offset + length - PAGE)


def all_of_each_page(file, offset, length):
    return written(file, offset // PAGE * PAGE, offset + length + -(offset + length) % PAGE)


def the_range(file, offset, length):
    return written(file, offset, offset + length)


def not_here(file, offset, length):
    return UNSUPPORTED


def the_first_time(file, offset, length):
    return the_range(file, offset, length) if file.read(1, 0) == b"\1" else 0


TRIALS = [
    pytest.param("zero", the_range, True, marks=needs_replaced_open_files),
    pytest.param("punch", whole_pages, True, marks=needs_replaced_open_files),
    ("zero", whole_pages, False),
    ("punch", the_range, False),
    *[
        (name, call, False)
        for name in ("zero", "punch")
        for call in (nothing, all_but_a_page, all_of_each_page, not_here)
    ],
    ("zero", the_first_time, False),
]


@pytest.mark.parametrize(("name", "does", "expected"), TRIALS)
def test_a_trial_finds_what_a_call_does(file, monkeypatch, name, does, expected):
    def call(*args):
        return does(*args)

    call.__name__ = name
    monkeypatch.setattr(File, "file_system", FUSE)
    assert clearing.clears(file, call, random_name) is expected
    assert os.listdir(os.path.dirname(file.name)) == ["f"]
    assert file.read(9 * PAGE, 0) == b"\1" * (8 * PAGE)


@pytest.mark.parametrize("name", ["zero", "punch"])
def test_what_a_trial_says_of_this_file_system(file, monkeypatch, name):
    call = getattr(FileCore, name)
    works = call(file, PAGE, PAGE) == 0 and not any(file.read(PAGE, PAGE))
    monkeypatch.setattr(File, "file_system", FUSE)
    assert clearing.clears(file, call, random_name) is works


@needs_replaced_open_files  # the trial's file has no name any more
def test_a_mount_is_tried_once(file, monkeypatch):
    tried = []

    def new_name(name):
        tried.append(name)
        return random_name(name)

    monkeypatch.setattr(File, "file_system", FUSE)
    for _ in range(3):
        clearing.clears(file, FileCore.zero, new_name)
    assert tried == [os.path.realpath(file.name)]
    clearing.clears(file, FileCore.punch, new_name)
    assert len(tried) == 2


def test_local_file_systems_are_not_tried(file, monkeypatch):
    monkeypatch.setattr(File, "file_system", EXT4)
    assert clearing.clears(file, FileCore.zero, lambda name: pytest.fail("tried"))
    assert not clearing._found


@needs_replaced_open_files
def test_a_trial_that_is_not_possible_is_made_later(file, monkeypatch):
    def clears():
        return clearing.clears(file, the_range_as_zero, random_name)

    def the_range_as_zero(*args):
        return the_range(*args)

    def refuse(*args):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    the_range_as_zero.__name__ = "zero"
    monkeypatch.setattr(File, "file_system", FUSE)
    with monkeypatch.context() as refused:
        refused.setattr(clearing, "open_file", refuse)
        assert not clears()
    assert clears()


def test_a_trial_elsewhere_tells_nothing(file, monkeypatch, tmp_path):
    """The name that a file had may lie on another mount by now."""
    other = "/dev/shm"
    if not os.path.isdir(other) or os.stat(other).st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("needs two file systems")
    monkeypatch.setattr(File, "file_system", FUSE)
    name = f"{other}/{os.path.basename(random_name('extarray'))}"
    assert not clearing.clears(file, FileCore.punch, lambda _: name)
    assert not clearing._found
    assert not os.path.exists(name)


# -- files ---------------------------------------------------------------------------------------


def test_calls_that_are_not_known_to_clear_are_not_made(file, monkeypatch):
    monkeypatch.setattr(clearing, "clears", lambda *args: False)
    assert file.zero(0, 2 * PAGE) == UNSUPPORTED
    assert file.punch(0, 2 * PAGE) == UNSUPPORTED
    assert file.read(8 * PAGE, 0) == b"\1" * (8 * PAGE)


# -- arrays --------------------------------------------------------------------------------------

OPTIONS = [
    {"sparse": sparse, "fill_value": fill, "checksum": checksum}
    for sparse, fill, checksum in ((False, 0, False), (True, 0, True), (False, 7, True))
]


@pytest.mark.parametrize("options", OPTIONS, ids=["reserved", "sparse", "another fill value"])
def test_what_was_cut_off_is_cleared_by_writing(path, monkeypatch, options):
    monkeypatch.setattr(File, "file_system", FUSE)
    monkeypatch.setattr(clearing, "clears", lambda *args: False)
    cut_and_grow(path, engine="pread", **options)


def test_no_hole_is_punched_that_is_not_known_to_be_one(path, monkeypatch):
    monkeypatch.setattr(clearing, "clears", lambda *args: False)
    with xa.create(path, (64, 2**14), "u1", chunks=(1, 2**14), engine="pread") as a:
        a[...] = 1
        a.flush()
        before = a.info()["disk_bytes"]
        a.shrink(0, 60)
        assert a.info()["disk_bytes"] == before
        a.extend(0, 60)
        assert (a[:4] == 1).all() and not a[4:].any()


def test_arrays_take_and_return_space_as_on_macos(path, macos, monkeypatch, engine):
    """Calls of files are those of macOS: it reserves no inner range, and zeroes none."""

    def call(function):
        def act(file, offset, length):
            with file as fd:
                return function(fd, c_int64(offset), c_int64(length))

        return act

    for name in ("lengthen", "punch"):
        monkeypatch.setattr(File, name, call(getattr(macos, name)))
    for name in ("reserve", "zero"):
        monkeypatch.setattr(File, name, lambda *args: UNSUPPORTED)
    with xa.create(path, (64, 2**14), "u1", chunks=(1, 2**14), engine=engine) as a:
        a[...] = 1
        a.flush()
        before = a.info()["disk_bytes"]
        a.shrink(0, 60)
        assert a.info()["disk_bytes"] <= before - 59 * 2**14
        a.extend(0, 60)
        assert (a[:4] == 1).all() and not a[4:].any()
        assert a.info()["disk_bytes"] >= before  # no store meets a hole
        a.append(np.full((3, 2**14), 2, "u1"))
        assert (a[64:] == 2).all() and not a[4:64].any()
    cut_and_grow(path.with_name("other"), 0, engine=engine)


@pytest.mark.slow
def test_a_file_system_that_takes_zeroing_for_allocation(script, shim, tmp_path):
    folder = tmp_path / "watched"
    folder.mkdir()
    script(
        f"""
import os, sys
import preload
from cutting import cut_and_grow
from extarray._core._file import FileCore
from extarray.storage import clearing
from extarray.storage.filesystem import File
File.file_system = {FUSE}
control = preload.Control()
path = os.environ["PRELOAD_FOLDER"] + "/a"
with control.fault(1, preload.NOT_ZEROED) as fired:
    for options in {OPTIONS!r}:
        cut_and_grow(path, engine="pread", **options)
    assert fired(), "the trial has met it"
assert not any(found for (*_, name), found in clearing._found.items() if name == "zero")
assert sorted(os.listdir(os.path.dirname(path))) == ["a.xmd", "a.xta"]
""",
        env=preload.environment(shim, folder, tmp_path / "control"),
    )
