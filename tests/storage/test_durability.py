"""Durability: the data on disk when a call returns."""

from __future__ import annotations

import errno
import os
import stat

import numpy as np
import pytest
from systems import needs_posix

import extarray as xa
from extarray.format.constants import BLOCK
from extarray.format.superblock import decode_superblock
from extarray.storage import commits, filesystem
from extarray.storage.filesystem import File

VALUES = np.arange(1, 13, dtype="i4").reshape(3, 4)


def make(path, values=VALUES, **options):
    with xa.create(path, values.shape, "i4", chunks=2, **options) as array:
        array[...] = values


def test_durability_is_told_and_checked(path):
    with xa.create(path, (2, 2)) as array:
        assert array.durability == "flush"
    with xa.open(path, "r+", durability="commit") as array:
        assert array.durability == "commit"
    for call in (lambda: xa.open(path, durability="none"), lambda: make(path, durability=None)):
        with pytest.raises(xa.errors.ArgumentError, match="use one of flush, steady, commit"):
            call()
    assert xa.zeros((2, 2)).durability is None


CHANGES = {
    "extend": lambda a: a.extend(0, 5),
    "append": lambda a: a.append(VALUES),
    "resize": lambda a: a.resize((5, 5)),
    "shrink": lambda a: a.shrink(0, 2),
    "reserve": lambda a: a.reserve((9, 9)),
    "attribute": lambda a: a.attrs.update(b=2),
    "dims": lambda a: setattr(a, "dims", ["y", "x"]),
    "element": lambda a: a.__setitem__((1, 1), 5),
    "box": lambda a: a.__setitem__(np.s_[1:, :2], 5),
    "write": lambda a: a.write(np.s_[::2], 5),
    "list": lambda a: a.__setitem__([0, 2], 5),
    "mask": lambda a: a.__setitem__(VALUES > 3, 5),
    "oindex": lambda a: a.oindex.__setitem__(([0, 2], [1]), 5),
    "view": lambda a: a.lazy[1:].T.write(0, 5),
    "ufunc": lambda a: a.__iadd__(1),
    "put": lambda a: np.put(a, [1, 5], 7),
    "fill": lambda a: a.fill(3),
    "array": lambda a: a.__setitem__(..., xa.ones((3, 4), "i4")),
}


@pytest.mark.parametrize("call", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("sparse", [False, True])
def test_each_change_ends_on_the_disk(path, engine, sparse, call, monkeypatch):
    """The last operation on each file brings it to the disk."""
    make(path, sparse=sparse)
    events = []

    def noting(name):
        function = getattr(File, name)

        def note(file, *rest):
            events.append((name, file))
            return function(file, *rest)

        monkeypatch.setattr(File, name, note)

    with xa.open(path, "r+", engine=engine, durability="commit") as array:
        noting("datasync")
        noting("write")
        call(array)
        assert events[-1][0] == "datasync"
        no_elements = call in (CHANGES["attribute"], CHANGES["dims"])
        assert no_elements or ("datasync", array._store.now.data) in events
        monkeypatch.undo()
        with xa.open(path) as reader:
            assert reader.shape == array.shape


def test_a_view_of_a_chunk_is_left_to_flush(path, engine, monkeypatch):
    with xa.create(path, (4, 4), "i4", durability="commit", engine=engine) as array:
        calls = []
        monkeypatch.setattr(File, "datasync", lambda file: calls.append(file))
        array.chunk((0, 0))[...] = 3
        assert not calls
        array.flush()
        assert calls


def test_flush_waits_for_the_disk_and_nothing_else_does(path, engine, monkeypatch):
    calls = []
    monkeypatch.setattr(File, "datasync", lambda file: calls.append(file))
    with xa.create(path, VALUES.shape, "i4", chunks=2, engine=engine) as array:
        for call in CHANGES.values():
            if call is not CHANGES["shrink"]:
                array.resize(VALUES.shape)
                calls.clear()
                call(array)
                assert not calls
        array.flush()
        assert len(calls) == 2


@pytest.fixture
def events(monkeypatch):
    """Calls on files in a system with barriers, as (name, file)."""
    found = []

    def noting(name):
        function = getattr(File, name)

        def note(file, *rest):
            found.append((name, file))
            return function(file, *rest)

        monkeypatch.setattr(File, name, note)

    for name in ("write", "barrier", "datasync"):
        noting(name)
    monkeypatch.setattr(filesystem, "HAS_BARRIER", True)
    return found


@pytest.mark.parametrize("call", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_barrier_is_enough_before_a_synchronization(path, sparse, call, events):
    """Each call waits for the disk at its end, whatever only kept an order before."""
    make(path, sparse=sparse)
    with xa.open(path, "r+", durability="commit") as array:
        now = array._store.now
        events.clear()
        call(array)
        # Waiting for one file waits for all that a barrier has let through.
        assert events[-1][0] == "datasync"
        waited = [file for name, file in events if name == "datasync"]
        kept = [file for name, file in events if name == "barrier"]
        if call in (CHANGES["extend"], CHANGES["append"], CHANGES["resize"]):
            assert now.data in kept and now.metadata in kept and waited == [now.metadata]
        if now.data in kept:
            before = events[: events.index(("barrier", now.data))]
            assert now.metadata in [file for name, file in events[len(before) :] if name == "write"]


def test_a_flush_waits_once_for_a_disk_that_keeps_an_order(path, events):
    with xa.create(path, VALUES.shape, "i4", chunks=2) as array:
        array[...] = VALUES
        now = array._store.now
        events.clear()
        array.flush()
        syncs = [event for event in events if event[0] != "write"]
        assert syncs == [("barrier", now.data), ("datasync", now.metadata)]


def test_files_on_two_disks_need_more_than_a_barrier(path, events, monkeypatch):
    with xa.create(path, VALUES.shape, "i4", chunks=2) as array:
        array[...] = VALUES
        now = array._store.now
        real = File.stat

        def elsewhere(file):
            about = real(file)
            return about if file is now.data else os.stat_result((*about[:2], -1, *about[3:]))

        monkeypatch.setattr(File, "stat", elsewhere)
        events.clear()
        array.flush()
        syncs = [event for event in events if event[0] != "write"]
        assert syncs == [("datasync", now.data), ("datasync", now.metadata)]


def test_an_error_of_the_disk_after_a_commit_says_that_it_counts(path, monkeypatch):
    make(path)
    with xa.open(path, "r+", durability="commit") as array:
        real = commits.Committer.sync_state

        def fail(self):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        for change, what in (
            (CHANGES["append"], "new bounds"),
            (CHANGES["attribute"], "attributes"),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(commits.Committer, "sync_state", fail)
                with pytest.raises(
                    xa.StorageError, match=f"the {what} of .* are committed, but may not be"
                ):
                    change(array)
        assert commits.Committer.sync_state is real
        assert (len(array), dict(array.attrs)) == (6, {"b": 2})
        array.append(VALUES)
        with xa.open(path) as reader:
            assert (len(reader), dict(reader.attrs)) == (9, {"b": 2})


@pytest.mark.parametrize("failing", ["write", "datasync"])
def test_a_flush_that_failed_is_made_again(path, failing, monkeypatch):
    """The previous flush counts until the retry succeeds."""
    with xa.create(path, VALUES.shape, "i4", chunks=2) as array:
        array[...] = VALUES
        array.flush()
        real = getattr(File, failing)
        for rows in (6, 9):

            def fail(file, *rest):
                if file is array._store.now.metadata:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                return real(file, *rest)

            array.append(VALUES)
            with monkeypatch.context() as patch:
                patch.setattr(File, failing, fail)
                for _ in range(3):
                    with pytest.raises(xa.StorageError, match="cannot flush"):
                        array.flush()
            assert 3 in [state_in(array, slot) for slot in (2, 3)] or rows == 9
            array.flush()
            assert rows in [state_in(array, slot) for slot in (2, 3)]


@pytest.mark.thread_unsafe(reason="it listens to the warnings of the process")
def test_what_was_flushed_outlasts_beginnings_that_were_not(path):
    """The states in which writers begin are on disk; their data need not be."""
    with xa.create(path, VALUES.shape, "i4", chunks=2) as array:
        array[...] = VALUES
        array.flush()
        flushed = array._store.now.state.data_bytes
    for _ in range(4):
        with xa.open(path, "r+") as array:
            array.append(VALUES)
            xmd = bytearray(path.with_suffix(".xmd").read_bytes())
    # A power cut: the last commits are torn, and new data never reached the disk.
    xmd[4096:6144] = bytes(2048)
    path.with_suffix(".xmd").write_bytes(xmd)
    os.truncate(f"{path}.xta", flushed)
    with pytest.warns(xa.RecoveryWarning), xa.open(path) as array:
        assert (array[...] == VALUES).all()


def state_in(array, slot):
    """Return the number of rows of the state in a superblock."""
    header = array._store.now.header
    with open(f"{array.path}.xmd", "rb") as file:
        file.seek(header.superblock_offset(slot))
        block = decode_superblock(file.read(BLOCK), header.ndim)
    return block and block.shape[0]


def test_a_folder_that_cannot_be_synchronized(path, monkeypatch):
    """A file system may lack the operation; a real error must be raised."""
    real = os.fsync

    def fsync(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(number, os.strerror(number))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    with xa.create(path, (2, 2)) as array:
        number = errno.EINVAL
        array.flush()
    with xa.create(path, (2, 2), overwrite=True) as array:
        number = errno.EIO
        with pytest.raises(xa.StorageError, match="cannot flush"):
            array.flush()
        monkeypatch.undo()
        array.flush()


@needs_posix("call that brings the names in a folder to the disk")
@pytest.mark.parametrize("options", [{}, {"durability": "commit"}, {"share": True}], ids=str)
def test_the_names_are_on_the_disk_with_the_first_flush_of_any_writer(path, options, monkeypatch):
    """This holds even if another writer made the array and never flushed."""
    make(path)
    folders, fsync = [], os.fsync

    def note(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            folders.append(os.fstat(fd).st_ino)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", note)
    with xa.open(path, "r+", **options) as array:
        if "durability" not in options:
            array.append(VALUES)
            assert not folders
            array.flush()
        assert folders == [path.parent.stat().st_ino]
        array.append(VALUES)
        array.flush()
        assert len(folders) == 1


@pytest.mark.skipif(not hasattr(os, "sync"), reason="the system offers no sync")
def test_names_in_a_folder_that_may_not_be_read(path, monkeypatch):
    make(path)
    opened, calls = os.open, []

    def refuse(name, flags, *rest):
        if name == str(path.parent):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return opened(name, flags, *rest)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "sync", lambda: calls.append("sync"))
    with xa.open(path, "r+") as array:
        array.flush()
    assert calls == ["sync"]
