"""Files that other programs hold open, as Windows lets them: for themselves, or against removal."""

from __future__ import annotations

import contextlib
import os

import numpy as np
import pytest
from systems import IS_POSIX, replaces_open_files

import extarray as xa
from extarray.common import system
from extarray.errors import AccessError, ReplacedError

SUFFIXES = (".xmd", ".xta")
VALUES = np.arange(12, dtype="i4").reshape(3, 4)


@pytest.fixture
def scene(path):
    with xa.create(path, (3, 4), "i4", chunks=2) as array:
        array[...] = VALUES
    return path


def bytes_of(path):
    return [path.with_name(f"{path.name}{suffix}").read_bytes() for suffix in SUFFIXES]


# -- files that arrays have open -------------------------------------------------------------------


def test_others_rename_and_remove_files_that_are_open(scene, tmp_path):
    """Programs that have them open go on; the names are free at once."""
    moved = tmp_path / "moved"
    with (
        xa.open(scene, "r+", engine="pread") as writer,
        xa.open(scene, engine="pread") as reader,
    ):
        for suffix in SUFFIXES:
            os.rename(f"{scene}{suffix}", f"{moved}{suffix}")
        writer.append(VALUES)
        np.testing.assert_array_equal(reader[...], VALUES)
        with xa.open(moved) as other:
            np.testing.assert_array_equal(other[...], np.vstack([VALUES, VALUES]))
        for suffix in SUFFIXES:
            system.remove(f"{moved}{suffix}")
        assert not any(os.path.lexists(f"{moved}{suffix}") for suffix in SUFFIXES)
        xa.create(moved, (1,), "u1").close()
        np.testing.assert_array_equal(reader[...], VALUES)
        writer.append(VALUES)
        assert len(writer) == 9
    assert sorted(os.listdir(tmp_path)) == ["moved.xmd", "moved.xta"]


def test_an_array_that_others_read_is_replaced_or_stays(scene):
    """An error names an open file that cannot be replaced, and all is as it was."""
    before = bytes_of(scene)
    with xa.open(scene, engine="pread") as reader:
        if replaces_open_files():
            xa.create(scene, (1,), "u1", overwrite=True).close()
            with pytest.raises(ReplacedError):
                reader.refresh()
        else:
            with pytest.raises(AccessError, match="replaces no open file.*try again") as caught:
                xa.create(scene, (1,), "u1", overwrite=True)
            assert str(scene) in str(caught.value)
            assert bytes_of(scene) == before
            assert not reader.refresh()
        np.testing.assert_array_equal(reader[...], VALUES)
    assert sorted(os.listdir(scene.parent)) == ["scene.xmd", "scene.xta"]


def test_groups_go_with_the_arrays_that_are_open_in_them(tmp_path):
    with xa.open_group(tmp_path / "all", "w") as group:
        part = group.create_group("part")
        part["a"] = VALUES
        open_one = part["a"]
        del group["part"]
        assert open_one.closed
        assert os.listdir(tmp_path / "all") == []
        group["a"] = VALUES
        open_one = group["a"]
    for _ in range(2):
        with xa.open_group(tmp_path / "all", "w") as group:
            assert list(group) == []
            group["b"] = VALUES
        assert os.listdir(tmp_path) == ["all"]


# -- files that other programs have open -----------------------------------------------------------

needs_sharing_modes = pytest.mark.skipif(
    IS_POSIX, reason="only Windows lets a program keep others from a file"
)


class Scanner:
    """A program that has a file open, and shares nothing, until a call has paused for it."""

    def __init__(self, name: str, pauses: float):
        from extarray.common import system_windows as windows

        self._close = windows._close_handle
        self._handle = windows._opened(os.fspath(name), 0x80000000, 0, 3, 0)
        self.left, self.passed = pauses, 0

    def pause(self, seconds: float) -> None:
        self.left -= 1
        self.passed += 1
        if self.left < 0:
            self.end()

    def end(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            self._close(handle)


@pytest.fixture
def scanned(monkeypatch):
    """Let a program scan a file for a number of pauses, which take no time."""
    with contextlib.ExitStack() as stack:

        def scan(name, pauses):
            scanner = Scanner(name, pauses)
            stack.callback(scanner.end)
            monkeypatch.setattr("extarray.common.system_windows.sleep", scanner.pause)
            return scanner

        yield scan


def removed(scene):
    system.remove(f"{scene}.xta")
    assert not os.path.lexists(f"{scene}.xta")


def replaced(scene):
    scene.with_name("other").write_bytes(b"new")
    system.replace(f"{scene.parent}/other", f"{scene}.xta")
    assert scene.with_name("scene.xta").read_bytes() == b"new"


def renamed(scene):
    system.rename_exclusively(f"{scene}.xta", f"{scene}.old")
    assert sorted(os.listdir(scene.parent)) == ["scene.old", "scene.xmd"]


def synced(scene):
    system.sync_file(f"{scene}.xta")


def read(scene):
    with xa.open(scene) as array:
        np.testing.assert_array_equal(array[...], VALUES)


def written(scene):
    with xa.open(scene, "r+") as array:
        array.append(VALUES)
    with xa.open(scene) as array:
        assert len(array) == 6


JOBS = [removed, replaced, renamed, synced, read, written]


@needs_sharing_modes
@pytest.mark.sampled(6)
@pytest.mark.parametrize("job", JOBS)
def test_a_call_waits_for_a_program_that_looks_at_a_file(scene, scanned, job):
    scanner = scanned(f"{scene}.xta", 3)
    job(scene)
    assert scanner.passed >= 3


@needs_sharing_modes
@pytest.mark.sampled(6)
@pytest.mark.parametrize("job", JOBS)
def test_a_file_that_is_not_let_go_is_named(scene, scanned, job):
    before = bytes_of(scene)
    scanner = scanned(f"{scene}.xta", np.inf)
    with pytest.raises(PermissionError) as caught:
        job(scene)
    assert "scene.xta" in str(caught.value)
    assert 10 <= scanner.passed
    if job in (read, written):
        assert isinstance(caught.value, AccessError)
    scanner.end()
    assert bytes_of(scene) == before
    read(scene)


@needs_sharing_modes
def test_a_program_that_forbids_to_remove_a_file_forbids_nothing_else(scene, monkeypatch):
    """Python's own `open` is such a program."""
    monkeypatch.setattr("extarray.common.system_windows.sleep", lambda seconds: None)
    before = bytes_of(scene)
    with open(f"{scene}.xta", "rb"):
        for job in (removed, replaced, renamed):
            with pytest.raises(PermissionError, match=r"scene\.xta"):
                job(scene)
        assert bytes_of(scene) == before
        read(scene)
        written(scene)
    removed(scene)
