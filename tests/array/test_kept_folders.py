"""Groups on a system that renames no folder in which a file is open, as Windows does not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import extarray as xa
from extarray.array import group_session
from extarray.array.folders import changed_group, replace_group
from extarray.maintenance import group_files

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the files that are open"),
    pytest.mark.thread_unsafe(reason="looks at all files that the process has open"),
]


def has_open_files(folder: str) -> bool:
    """Tell whether this process has a file below a folder open."""
    for fd in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:  # the listing's own
            continue
        if name.startswith(os.path.join(os.path.realpath(folder), "")):
            return True
    return False


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    real = group_files.replace

    def replace(name, other):
        if os.path.isdir(name) and has_open_files(name):
            raise PermissionError(13, "a file in it is open", name)
        real(name, other)

    for module in (group_session, group_files):
        monkeypatch.setattr(module, "FREES_FOLDERS", False)
        monkeypatch.setattr(module, "replace", replace)
    monkeypatch.setattr(group_files, "exchange", lambda one, other: False)


@pytest.fixture
def group(tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        g["north/wind"] = np.arange(3)
        g["north/rain"] = np.arange(4)
        g["old"] = np.arange(5)
        yield g


def fresh_folder(folder: Path) -> str:
    with xa.open_group(folder, "w") as g:
        g["new"] = np.arange(6)
    return os.fspath(folder)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_group_with_open_arrays_is_removed(group):
    del group["north"]
    assert list(group) == ["old"] and names(group.path) == ["old.xmd", "old.xta"]


def test_a_group_with_open_arrays_is_moved(group):
    group.move("north", "south")
    assert group["south/wind"][...].tolist() == [0, 1, 2]
    group["south/wind"][0] = 7
    assert list(group) == ["old", "south"]


def test_a_group_is_replaced(group, tmp_path):
    group.close()
    replace_group(fresh_folder(tmp_path / "h"), os.fspath(group.path))
    with xa.open_group(group.path) as g:
        assert list(g) == ["new"]
    assert names(tmp_path) == ["g"]


@pytest.mark.parametrize("is_read", [False, True])
def test_a_group_takes_in_others(group, tmp_path, is_read):
    """A reader of an array keeps the folder, so the arrays move one by one."""
    group.close()
    reader = xa.open(group.path / "old") if is_read else None
    with changed_group(group.path, ["old"]) as fresh:
        xa.from_array(np.arange(7), os.path.join(fresh, "old")).close()
        Path(fresh, "dataset.json").write_text('{"attrs": {"n": 7}}')
    if reader is not None:
        assert reader[...].tolist() == [0, 1, 2, 3, 4]
        reader.close()
    with xa.open_group(group.path) as g:
        assert list(g) == ["north", "old"] and g["old"].shape == (7,) and g.attrs == {"n": 7}
        assert g["north/wind"][...].tolist() == [0, 1, 2]
    assert names(tmp_path) == ["g"]


def test_whoever_reads_a_group_keeps_its_folder(group):
    with xa.open(group.path / "north" / "wind") as reader:
        for call in (lambda: group.move("north", "south"), lambda: group.__delitem__("north")):
            with pytest.raises(xa.AccessError, match="a file in it is open"):
                call()
        assert reader[...].tolist() == [0, 1, 2]
    assert group["north/wind"][...].tolist() == [0, 1, 2]
