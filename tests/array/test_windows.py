"""What Windows has otherwise: drives, reserved names, names that differ in case alone, no MPI."""

from __future__ import annotations

import os

import numpy as np
import pytest

import extarray as xa
from extarray.array import folders
from extarray.common import system
from extarray.common.file_names import problem_on_windows
from extarray.maintenance import packing
from extarray.mpi.runtime import library
from extarray.storage.filesystem import resolve_path

VALUES = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def on_windows(monkeypatch):
    """Let the rules of Windows for names hold."""
    for module in (system, folders):
        monkeypatch.setattr(module, "problem_of_name", problem_on_windows)


@pytest.mark.parametrize("path", ["C:\\data\\a", "C:/data/a", "c://data/a", "\\\\host\\share\\a"])
def test_a_drive_is_no_scheme(path):
    assert os.fspath(resolve_path(path)).replace("\\", "/").endswith("/a")
    with pytest.raises(xa.errors.ReadOnlyError, match="URL"):
        resolve_path("cc://data/a")


@pytest.mark.parametrize("name", ["nul", "con.xmd", "a:b", "x?"])
def test_no_array_has_a_name_of_a_device(tmp_path, on_windows, name):
    with pytest.raises(xa.ArgumentError, match=r"Windows has .*name"):
        xa.create(f"{tmp_path}{os.sep}{name}", (1,))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["aux", "a/nul", "com1/b", "a."])
def test_no_member_has_a_name_of_a_device(tmp_path, on_windows, name):
    with xa.open_group(tmp_path / "g", "w") as group:
        with pytest.raises(xa.ArgumentError, match="Windows"):
            group.create(name, (1,))
        assert list(group) == []


def test_nothing_is_unpacked_under_a_name_of_a_device(tmp_path, monkeypatch):
    if os.name == "nt":
        pytest.skip("such a file cannot be made here")
    with xa.open_group(tmp_path / "g", "w") as group:
        group.create("inner/nul", (2, 3), "f8")[...] = VALUES
        xa.pack(group, tmp_path / "g.xap")
    monkeypatch.setattr(packing, "problem_of_name", problem_on_windows)
    with pytest.raises(xa.ArgumentError, match=r"'inner/nul' here: Windows has a device"):
        xa.unpack(tmp_path / "g.xap", tmp_path / "h")
    assert not (tmp_path / "h").exists()


def tells_case(folder) -> bool:
    (folder / "Case").touch()
    return not (folder / "cASE").exists()


def test_members_that_differ_in_case_alone(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as group:
        group.create("a", (2, 3), "f8")[...] = VALUES
        if tells_case(tmp_path):
            group.create("A", (1,), "f8")
            assert sorted(group) == ["A", "a"]
        else:
            with pytest.raises(xa.errors.ExistsError, match=r"it is 'a': .* upper from lower case"):
                group.create("A", (1,), "f8")
            assert list(group) == ["a"]
        assert (group["a"][...] == VALUES).all()


def test_a_long_path(tmp_path):
    folder = tmp_path
    while len(os.fspath(folder)) < 300:
        folder /= "a" * 50
        os.mkdir(system.long_name(os.fspath(folder)))
    with xa.create(folder / "scene", (2, 3), "f8") as array:
        array[...] = VALUES
    with xa.open(folder / "scene", "r+") as array:
        array.append(VALUES)
    with xa.open(folder / "scene") as array:
        assert (array[2:] == VALUES).all()


def test_there_is_no_communicator_where_it_is_not_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(system, "RUNS_MPI", False)
    library.cache_clear()
    with pytest.raises(xa.errors.MissingExtraError, match=r"Windows.*share=True"):
        xa.create(tmp_path / "a", (1,), comm="world")
    assert os.listdir(tmp_path) == []
