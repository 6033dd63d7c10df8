"""Copies of files that a writer has open, and files after a system crash."""

from __future__ import annotations

import shutil
import tarfile
import warnings

import numpy as np
import pytest
from systems import needs_boot_id, needs_replaced_open_files

import extarray as xa
from extarray import cli
from extarray.common import system
from extarray.errors import RecoveryWarning
from extarray.format.blocks import encode_place
from extarray.storage.pair import Pair


def rows(n, value=1):
    return np.full((n, 4), value, "i4")


@pytest.fixture(params=["mmap", "pread"])
def writer(request, path):
    """Yield a writer that has appended and stays open."""
    with xa.create(path, (0, 4), "i4", chunks=(64, 4), engine=request.param) as a:
        a.append(rows(10))
        yield a


def copied(a, to, *suffixes):
    for suffix in suffixes:
        shutil.copyfile(f"{a.path}{suffix}", f"{to}{suffix}")


def findings(path, severity="warning", **options):
    return [p for p in xa.check(path, **options).problems if p.severity == severity]


def with_place(path, **changes):
    """Make the files say that their writer wrote elsewhere."""
    pair = Pair(path)
    pair.open_metadata()
    told = pair.told_place()
    pair.close()
    place = encode_place(told._replace(**changes), pair.header.uuid)
    with open(f"{path}.xmd", "r+b") as file:
        file.seek(pair.header.place_offset)
        file.write(place)


@needs_boot_id
@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("attrs", [False, True])
def test_the_elements_first(writer, tmp_path, flushed, attrs):
    """The flush that the metadata record happened in other files."""
    to = tmp_path / "copy"
    copied(writer, to, ".xta")
    writer.append(rows(5))
    if flushed:
        writer.flush()
    if attrs:  # commits no elements
        writer.attrs["day"] = 2
    copied(writer, to, ".xmd")
    words = r"wrote: the elements \[0:15, 0:4\] are not verified.*extarray copy"
    with pytest.warns(RecoveryWarning, match=words), xa.open(to) as a:
        assert a[9].all() and not a[10:].any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xa.open(to).close()  # warned once per process
    (problem,) = findings(to, data=True)
    assert problem.boxes == ((slice(0, 15), slice(0, 4)),) and problem.offset == 0
    assert "a copy of those that its writer wrote" in problem.what
    assert "1 warning" in str(xa.check(to, data=True))
    with xa.open(to, "r+"):
        pass  # a writer accepts the elements
    assert not findings(to)


@needs_boot_id
def test_only_what_the_writer_has_added_is_in_doubt(path, tmp_path):
    with xa.from_array(rows(10), path, (6, 4)):
        pass
    with xa.open(path, "r+") as a:
        a.append(rows(3))
        a.append(rows(1), side="start")
        copied(a, tmp_path / "b", ".xta")
        a.append(rows(4))
        a.append(rows(3), side="start")
        copied(a, tmp_path / "b", ".xmd")
        copied(a, tmp_path / "c", ".xmd", ".xta")
    boxes = ((slice(0, 4), slice(0, 4)), (slice(14, 21), slice(0, 4)))
    with pytest.warns(RecoveryWarning, match=r"\[0:4, 0:4\], \[14:21, 0:4\] are not verified; "):
        xa.open(tmp_path / "b").close()
    xa.open(tmp_path / "c").close()
    for name in "bc":
        (problem,) = findings(tmp_path / name)
        assert problem.boxes == boxes
        assert problem.offset == 2 * 6 * 4 * 4
        assert f"bytes {problem.offset} to {4 * 6 * 4 * 4 - 1}" in problem.what


@pytest.mark.parametrize("fill", [0, 9])
def test_the_metadata_first(path, tmp_path, fill):
    """Everything is there, and only `check` mentions the copy."""
    to = tmp_path / "copy"
    with xa.create(path, (0, 4), "i4", chunks=(64, 4), fill_value=fill) as a:
        for n in range(3):
            a.append(rows(30))
            a.attrs["n"] = n
        copied(a, to, ".xmd")
        a.append(rows(200))
        copied(a, to, ".xta")
    with xa.open(to) as b:
        assert (b[...] == rows(90)).all()
    (problem,) = findings(to)
    assert problem.boxes == ((slice(0, 90), slice(0, 4)),)


@needs_boot_id
def test_part_of_the_newest_elements(path, tmp_path):
    """The file was copied in the middle of an append to several chunks."""
    to = tmp_path / "copy"
    with xa.create(path, (0, 12), "i4", chunks=(64, 4)) as a:
        a.append(np.ones((5, 12), "i4"))
        with open(f"{path}.xta", "rb") as file:
            head = file.read(64 * 4 * 4)
        a.append(np.ones((1, 12), "i4"))
        copied(a, to, ".xmd", ".xta")
    with open(f"{to}.xta", "r+b") as file:
        file.write(head)
    with pytest.warns(RecoveryWarning, match=r"\[0:6, 0:12\]"), xa.open(to) as b:
        assert b[5].tolist() == [0] * 4 + [1] * 8


def test_beside_a_writer(writer, tmp_path):
    for reader in (xa.open(writer.path), xa.open(writer.path)):
        reader.close()
    assert not findings(writer.path)
    copied(writer, tmp_path / "copy", ".xmd", ".xta")
    with xa.open(tmp_path / "copy", "r+") as a:
        a.extend(0, 100)
        xa.open(tmp_path / "copy").close()  # the open writer vouches for it


def test_a_closed_array_is_copied_in_any_order(writer, tmp_path):
    writer.close()
    copied(writer, tmp_path / "copy", ".xta", ".xmd")
    xa.open(tmp_path / "copy").close()
    assert not findings(tmp_path / "copy")


@needs_boot_id
def test_a_killed_writer_loses_nothing(path, forked):
    code = """
import os, sys
import numpy as np
import extarray as xa
a = xa.open(sys.argv[1], "r+")
a.append(np.ones((100, 4), "i4"))
a.extend(0, 100)
os._exit(9)
"""
    xa.create(path, (0, 4), "i4", chunks=(64, 4)).close()
    with pytest.raises(AssertionError, match="exit status 9"):
        forked(code, path)
    with xa.open(path) as a:  # a warning would be an error
        assert a.shape == (200, 4) and a[:100].all()
    assert not findings(path)
    assert any("did not close" in p.what for p in findings(path, "note"))


def left_open(a):
    """Leave a writer's own files as a kill does."""
    names = [f"{a.path}{suffix}" for suffix in (".xmd", ".xta")]
    content = []
    for name in names:
        with open(name, "rb") as file:
            content.append(file.read())
    a.close()
    for name, data in zip(names, content, strict=True):
        with open(name, "r+b") as file:
            file.truncate(0)
            file.write(data)


@needs_boot_id
def test_a_system_that_went_down(writer):
    """Flushed elements are there; the rest is uncertain."""
    path = writer.path
    writer.flush()
    writer.append(rows(5))
    left_open(writer)
    xa.open(path).close()  # the same boot
    with_place(path, boot=b"another run of.."[:16])
    words = r"went down since: the elements \[10:15, 0:4\] are not verified"
    with pytest.warns(RecoveryWarning, match=words), xa.open(path) as a:
        assert a[...].all()
    (problem,) = findings(path)
    assert problem.boxes == ((slice(10, 15), slice(0, 4)),)
    with xa.open(path, "r+") as a:
        a.flush()
        left_open(a)
    with_place(path, boot=b"yet another run."[:16])
    xa.open(path).close()
    assert not findings(path)


def test_another_file_with_the_same_number(writer):
    """The system may reuse a deleted file's inode number."""
    path = writer.path
    left_open(writer)
    with_place(path, generation=12345)
    assert "a copy of those" in findings(path)[0].what


@needs_boot_id
def test_a_place_that_is_not_known(writer, tmp_path):
    path = writer.path
    writer.extend(0, 5)
    left_open(writer)
    with open(f"{path}.xmd", "r+b") as file:
        file.seek(4096 + 2112 + 64)
        assert any(file.read(64))
        file.seek(-64, 1)
        file.write(bytes(64))
    with pytest.warns(RecoveryWarning, match=r"a copy of .*\[0:15, 0:4\]"):
        xa.open(path).close()


def test_where_locks_do_not_reach_check_alone_says_so(writer, tmp_path, monkeypatch):
    to = tmp_path / "copy"
    copied(writer, to, ".xta")
    writer.append(rows(5))
    copied(writer, to, ".xmd")
    kind = writer._store.now.data.file_system
    monkeypatch.setitem(system.NETWORKED, kind, "a test's")
    with xa.open(to) as a:
        assert not a[10:].any()
    (problem,) = findings(to)
    assert "unless a writer has it open on another host" in problem.what


@needs_replaced_open_files
def test_an_axis_more(writer):
    """The new metadata file knows of the same elements."""
    path = writer.path
    writer.add_axis()
    writer.append(np.ones((1, 10, 4), "i4"))
    left_open(writer)
    xa.open(path).close()
    assert not findings(path)


@needs_boot_id
def test_a_writer_that_shared_it(path):
    xa.create(path, (0, 4), "i4", chunks=(64, 4)).close()
    with xa.open(path, "r+", share=True) as a, xa.open(path, "r+", share=True) as b:
        a.append(rows(3))
        b.append(rows(3))
        xa.open(path).close()
        copied(a, f"{path}.copy", ".xta")
        b.extend(0, 50)
        copied(a, f"{path}.copy", ".xmd")
    with pytest.warns(RecoveryWarning, match=r"\[0:56, 0:4\]"):
        xa.open(f"{path}.copy").close()


@needs_boot_id
def test_an_archive_and_the_command(writer, tmp_path, capsys):
    archive = tmp_path / "backup.tar"
    with tarfile.open(archive, "w") as tar:
        for suffix in (".xta", ".xmd"):
            tar.add(f"{writer.path}{suffix}", arcname=f"backup{suffix}")
            writer.append(rows(1))
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    with pytest.warns(RecoveryWarning, match=r"\[0:11, 0:4\]"):
        xa.open(tmp_path / "backup").close()
    pytest.importorskip("click")
    assert cli.main(["check", str(tmp_path / "backup")]) == 0
    assert "are not verified" in capsys.readouterr().out
    assert cli.main(["copy", str(writer.path), str(tmp_path / "whole")]) == 0
    with xa.open(tmp_path / "whole") as a:
        assert a[...].tolist() == rows(12).tolist()
    assert not findings(tmp_path / "whole")
