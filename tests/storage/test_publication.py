"""How files get their names: links, permissions, and states between two names."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import format_reader
import numpy as np
import places
import pytest
from failing import Failing
from systems import (
    IS_ROOT,
    needs_fork,
    needs_links,
    needs_modes,
    needs_removed_working_folders,
    needs_replaced_open_files,
)

import extarray as xa
from extarray.common import system
from extarray.storage import file_store, filesystem, lock
from extarray.storage import names as names_module

SUFFIXES = (".xmd", ".xta")
VALUES = np.arange(1, 13, dtype="i4").reshape(3, 4)


def make(path, values=VALUES, **options):
    with xa.create(path, values.shape, "i4", chunks=2, **options) as array:
        array[...] = values


def mode_of(path, suffix):
    return stat.S_IMODE(os.stat(f"{path}{suffix}").st_mode)


@pytest.fixture
def umask():
    """Set the umask of the process for a test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@needs_modes
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o002, 0o664)])
def test_a_new_file_has_what_the_umask_leaves(path, umask, mask, mode):
    umask(mask)
    make(path)
    assert [mode_of(path, suffix) for suffix in SUFFIXES] == [mode] * 2


@needs_modes
def test_what_is_overwritten_keeps_its_permissions(path, umask):
    """h5py and `numpy.save` keep permissions, too: they write into the existing file."""
    make(path)
    os.chmod(f"{path}.xmd", 0o600)
    os.chmod(f"{path}.xta", 0o660)
    umask(0o077)
    make(path, VALUES + 1, overwrite=True)
    assert [mode_of(path, suffix) for suffix in SUFFIXES] == [0o600, 0o660]


@needs_modes
@pytest.mark.parametrize("old", [0o600, 0o640, 0o666])
def test_nobody_else_may_read_what_overwrites_before_it_has_its_permissions(
    path, umask, monkeypatch, old
):
    make(path)
    for suffix in SUFFIXES:
        os.chmod(f"{path}{suffix}", old)
    before, fchmod = [], os.fchmod

    def note(fd, mode):
        before.append(stat.S_IMODE(os.fstat(fd).st_mode))
        fchmod(fd, mode)

    monkeypatch.setattr(os, "fchmod", note)
    make(path, VALUES + 1, overwrite=True)
    with xa.open(path, "r+") as array:
        array.add_axis()
    assert before == [0o600] * 3
    assert [mode_of(path, suffix) for suffix in SUFFIXES] == [old] * 2


@needs_modes
@pytest.mark.skipif(IS_ROOT, reason="root may do everything")
def test_what_may_not_be_written_is_not_overwritten(path):
    make(path)
    os.chmod(f"{path}.xmd", 0o400)
    with pytest.raises(xa.errors.AccessError):
        make(path, VALUES + 1, overwrite=True)
    with xa.open(path) as array:
        assert (array[...] == VALUES).all()


@needs_removed_working_folders
@pytest.mark.parametrize(
    "call", [xa.open, xa.check, lambda path: xa.create(path, 3)], ids=["open", "check", "create"]
)
def test_a_working_folder_that_is_gone(tmp_path, monkeypatch, call):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(xa.errors.MissingError, match="no folder for 'a'"):
        call("a")


@needs_links
def test_a_linked_folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to(folder)
    make(link / "a")
    with xa.open(link / "a", "r+") as array:
        array.append(VALUES)
        array.flush()
        with xa.open(folder / "a") as reader:
            assert len(reader) == 6
        with pytest.raises(xa.LockedError):
            xa.open(folder / "a", "r+")
    assert sorted(os.listdir(folder)) == ["a.xmd", "a.xta"]


@pytest.fixture
def linked(tmp_path):
    """Return a path whose files are links to another pair, and that pair's path."""
    target = tmp_path / "elsewhere" / "target"
    target.parent.mkdir()
    make(target)
    link = tmp_path / "link"
    for suffix in SUFFIXES:
        Path(f"{link}{suffix}").symlink_to(f"{target}{suffix}")
    return link, target


@needs_links
def test_linked_files(linked):
    link, target = linked
    with xa.open(link, "r+") as array:
        array.append(VALUES)
        with pytest.raises(xa.LockedError):
            xa.open(target, "r+")
    with xa.open(target) as array:
        assert len(array) == 6


@needs_links
def test_overwriting_goes_through_links(linked):
    """As with h5py and NumPy, the targets of the links are replaced."""
    link, target = linked
    with pytest.raises(xa.errors.ExistsError):
        make(link)
    with xa.open(link) as reader:
        make(link, VALUES + 1, overwrite=True)
        assert (reader[...] == VALUES).all(), "who has it open keeps it"
    for suffix in SUFFIXES:
        assert Path(f"{link}{suffix}").is_symlink()
    assert sorted(os.listdir(target.parent)) == ["target.xmd", "target.xta"]
    for path in linked:
        with xa.open(path) as array:
            assert (array[...] == VALUES + 1).all()


@needs_links
def test_a_link_that_leads_nowhere(tmp_path):
    for suffix in SUFFIXES:
        (tmp_path / f"a{suffix}").symlink_to(tmp_path / f"b{suffix}")
    with pytest.raises(xa.errors.ExistsError):
        make(tmp_path / "a")
    make(tmp_path / "a", overwrite=True)
    with xa.open(tmp_path / "b") as array:
        assert (array[...] == VALUES).all()


@pytest.fixture(params=[False, True], ids=["new", "over another"])
def between(request, path, monkeypatch):
    """Return a pair whose creator died after naming its first file."""
    if request.param:
        make(path, VALUES[:, :1] * 9)
    names = []

    def publish(fresh, name, overwrite):
        if names:
            raise KeyboardInterrupt
        names.append(name)
        filesystem.publish(fresh, name, overwrite)

    with monkeypatch.context() as patch:
        patch.setattr(names_module, "publish", publish)
        patch.setattr(file_store.FileStore, "_withdraw", lambda *rest: None)
        with pytest.raises(KeyboardInterrupt):
            xa.create(path, VALUES.shape, "i4", chunks=2, overwrite=request.param, attrs={"a": 1})
    assert names == [f"{path}.xmd"]
    return path


def test_the_array_is_there_when_its_metadata_have_their_name(between, engine):
    header, state, principal = format_reader.opened(between)
    assert header.chunk == (2, 2)
    assert principal == bytes(state.data_bytes)
    with xa.open(between, engine=engine) as reader:
        assert dict(reader.attrs) == {"a": 1}
        assert not reader[...].any()
        with xa.open(between, "r+", engine=engine) as array:
            array[...] = VALUES
            array.append(VALUES)
        assert (reader[...] == VALUES).all()
    assert sorted(os.listdir(between.parent)) == ["scene.xmd", "scene.xta"]
    with xa.open(between) as array:
        assert len(array) == 6


@pytest.fixture
def plain_renames(monkeypatch):
    """Simulate a system without exclusive renames."""
    monkeypatch.setattr(system, "rename_exclusively", lambda *names: False)


def test_a_name_is_no_second_link_where_that_would_be_another_file(
    path, monkeypatch, plain_renames
):
    """With FUSE, for example, each name may have separate locks and caches."""

    def link(*names, **how):
        raise AssertionError(f"{names} would be two files")

    monkeypatch.setattr(filesystem, "is_fuse", lambda fd: os.path.exists(f"/dev/fd/{fd}"))
    monkeypatch.setattr(os, "link", link)
    make(path)
    assert sorted(os.listdir(path.parent)) == ["scene.xmd", "scene.xta"]
    with pytest.raises(xa.errors.ExistsError):
        make(path, VALUES + 1)
    with xa.open(path) as array:
        assert (array[...] == VALUES).all()


def test_nobody_takes_a_name_that_another_takes_where_there_are_no_links(
    path, monkeypatch, plain_renames
):
    plain = os.replace

    def link(*names, **how):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    def replace(*names):
        monkeypatch.setattr(os, "replace", plain)
        with pytest.raises(xa.errors.ExistsError):
            make(path, VALUES + 1)
        replace.tried = True
        plain(*names)

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(os, "replace", replace)
    make(path)
    assert replace.tried
    assert sorted(os.listdir(path.parent)) == ["scene.xmd", "scene.xta"]
    with xa.open(path) as array:
        assert (array[...] == VALUES).all()


def test_a_name_that_cannot_be_taken_is_given_up_where_there_are_no_links(
    path, monkeypatch, plain_renames
):
    def refuse(*names, **how):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        make(path)
    assert os.listdir(path.parent) == []


@pytest.mark.skipif(shutil.which("bindfs") is None, reason="no FUSE here")
def test_readers_and_writers_of_what_was_made_through_fuse(tmp_path):
    folder, mounted = tmp_path / "folder", tmp_path / "mounted"
    folder.mkdir()
    mounted.mkdir()
    if subprocess.run(["bindfs", folder, mounted], capture_output=True, timeout=60).returncode:
        pytest.skip("FUSE is not permitted")
    try:
        path = mounted / "a"
        with xa.create(path, VALUES.shape, "i4", chunks=2) as array:
            with pytest.raises(xa.LockedError):
                xa.open(path, "r+")
            with xa.open(path) as reader:
                array[...] = VALUES
                array.append(VALUES)
                assert reader.refresh()
                assert (reader[3:] == VALUES).all()
    finally:
        subprocess.run(["umount", "-l", mounted], check=True, timeout=60)


@needs_replaced_open_files
def test_what_is_left_of_creators_is_in_nobody_s_way(path):
    for suffix in SUFFIXES:
        Path(f"{path}{suffix}.0123456789ab.new").write_bytes(b"rubbish")
    make(path)
    make(path, VALUES + 1, overwrite=True)
    with xa.open(path, "r+") as array:
        array.append(VALUES)
        assert len(array) == 6


@needs_replaced_open_files
def test_it_can_be_overwritten_between_two_names(between):
    make(between, VALUES + 1, overwrite=True)
    with xa.open(between) as array:
        assert (array[...] == VALUES + 1).all()


# -- filled before they are named ------------------------------------------------------------------


def fail(path):
    raise RuntimeError("the source fails")


def names_in(path):
    return sorted(os.listdir(path.parent))


@pytest.fixture
def small_blocks():
    with xa.config.set(max_memory=16):
        yield


@needs_replaced_open_files
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_source_that_fails_leaves_what_was_there(path, small_blocks, overwrite):
    if overwrite:
        make(path)
    before = names_in(path)
    with pytest.raises(RuntimeError):
        xa.from_array(Failing(path, fail), path, chunks=2, overwrite=overwrite)
    assert names_in(path) == before
    if overwrite:
        with xa.open(path, "r+") as array:
            assert (array[...] == VALUES).all()
    xa.from_array(VALUES, path, overwrite=overwrite).close()


@needs_fork
def test_who_is_killed_while_it_fills_leaves_what_was_there(path, forked):
    make(path)
    code = """
import os, signal, sys
import extarray as xa, failing
xa.config.set(max_memory=16).__enter__()
source = failing.Failing(sys.argv[1], lambda path: os.kill(os.getpid(), signal.SIGKILL))
xa.from_array(source, sys.argv[1], chunks=2, overwrite=True)
"""
    status, *_ = forked.run(code, path)
    assert status == -signal.SIGKILL
    with xa.open(path, "r+") as array:
        assert (array[...] == VALUES).all()
    assert xa.check(path).ok


@needs_replaced_open_files
def test_until_it_is_filled_others_see_what_was_there(path, small_blocks):
    def look(path):
        with xa.open(path) as array:
            assert (array[...] == VALUES).all()
        with pytest.raises(xa.LockedError):
            xa.open(path, "r+")
        with pytest.raises(xa.LockedError):
            make(path, overwrite=True)

    make(path)
    source = Failing(path, look)
    with xa.from_array(source, path, chunks=2, overwrite=True) as array:
        assert source.reads > 1
        assert (array[...] == 5).all()
        array.append(array[:1])
        array.flush()
    assert names_in(path) == ["scene.xmd", "scene.xta"]
    with xa.open(path) as array:
        assert array.shape == (5, 4)


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_array_that_came_meanwhile(path, small_blocks, overwrite):
    came = []

    def come(path):
        if not came:
            came.append(xa.from_array(VALUES, path))

    source = Failing(path, come)
    error = xa.LockedError if overwrite else xa.errors.ExistsError
    with pytest.raises(error):
        xa.from_array(source, path, chunks=2, overwrite=overwrite)
    came[0].close()
    assert names_in(path) == ["scene.xmd", "scene.xta"]
    with xa.open(path) as array:
        assert (array[...] == VALUES).all()


@needs_replaced_open_files
def test_an_array_is_overwritten_by_what_is_made_of_it(path):
    make(path)
    with xa.open(path) as old, xa.from_array(old, path, chunks=3, overwrite=True) as array:
        assert array.chunks == (3, 3)
        assert (array[...] == old[...]).all()


def test_a_raw_file_that_is_too_short_leaves_nothing(path, tmp_path):
    raw = tmp_path / "raw"
    VALUES.tofile(raw)
    for shape in ((5, 4), (-1, 5)):
        with pytest.raises(xa.errors.ShapeError):
            xa.fromfile(raw, "i4", shape=shape, path=path)
        assert names_in(path) == ["raw"]
    with xa.fromfile(raw, "i4", shape=(-1, 4), path=path) as array:
        array.append(VALUES)
    assert names_in(path) == ["raw", "scene.xmd", "scene.xta"]


@pytest.mark.slow
def test_a_forked_child_leaves_the_names_alone(path, forked):
    make(path)
    code = """
import os, sys
import extarray as xa, failing

def fork(path):
    child = os.fork()
    if child == 0:
        raise KeyboardInterrupt  # there, too, it is no longer filled
    assert os.waitpid(child, 0)[1] == 0

xa.config.set(max_memory=16).__enter__()
try:
    source = failing.Failing(sys.argv[1], fork)
    xa.from_array(source, sys.argv[1], chunks=2, overwrite=True).close()
except KeyboardInterrupt:
    os._exit(0)
"""
    forked(code, path)
    assert names_in(path) == ["scene.xmd", "scene.xta"]
    with xa.open(path, "r+") as array:
        assert (array[...] == 5).all()


@needs_replaced_open_files
def test_what_replaces_an_array_can_be_opened_whatever_becomes_of_later_commits(path):
    """A power cut may tear both live superblocks."""
    make(path)
    with xa.from_array(VALUES + 1, path, chunks=2, overwrite=True) as array:
        array.extend(0, 2)
        array.extend(0, 2)
        damaged = bytearray(Path(f"{path}.xmd").read_bytes())
        for slot in (0, 1):
            damaged[places.superblock(slot) + 20] ^= 1
        principal = Path(f"{path}.xta").read_bytes()
    Path(f"{path}.xmd").write_bytes(damaged)
    Path(f"{path}.xta").write_bytes(principal)
    with pytest.warns(xa.errors.RecoveryWarning), xa.open(path) as array:
        assert (array[...] == VALUES + 1).all()


def test_a_library_may_lock_the_file_that_it_writes(tmp_path, monkeypatch):
    """HDF5 locks a whole file, which excludes our locks where the system has one kind."""
    for apart in (True, False):
        monkeypatch.setattr(lock, "WHOLE_LOCKS_APART", apart)
        with names_module.making_file(str(tmp_path / f"{apart}"), False) as file:
            other = filesystem.File.open(file.name, os.O_RDWR)
            assert lock.is_held(other) is (apart and lock.can_tell())
            other.close()
