"""Files that another host writes: waits for lengths, names and commits."""

from __future__ import annotations

import errno
import os
import threading
import time

import numpy as np
import pytest

import extarray as xa
from extarray.common.errors import PartnerError, StorageError
from extarray.common.limits import limits
from extarray.storage import other_hosts
from extarray.storage.filesystem import File
from extarray.storage.other_hosts import in_time, see_newest


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(limits, "visibility_patience", 0.02)


@pytest.fixture
def copies(monkeypatch):
    """Treat the file system as one where hosts keep copies."""
    monkeypatch.setattr(File, "keeps_copies", True)


def later(call):
    thread = threading.Thread(target=lambda: (time.sleep(0.03), call()))
    thread.start()
    return thread


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("size", [10, 1 << 17])
def test_a_length_that_comes_late(tmp_path, writable, size):
    path = tmp_path / "a.xta"
    path.write_bytes(b"a" * size)
    file = File.open(str(path), os.O_RDWR if writable else os.O_RDONLY)
    see_newest(file, writable, size, tmp_path / "a")
    thread = later(lambda: os.truncate(path, size + 5))
    see_newest(file, writable, size + 5, tmp_path / "a")
    assert file.length == size + 5
    assert file.read(size, 0) == b"a" * size
    thread.join()
    file.close()


def test_a_length_that_does_not_come(tmp_path, hasty):
    path = tmp_path / "a.xta"
    path.write_bytes(b"abc")
    file = File.open(str(path), os.O_RDONLY)
    with pytest.raises(StorageError, match="not yet visible here") as found:
        see_newest(file, False, 4, tmp_path / "a")
    assert found.value.errno == errno.ETIMEDOUT
    assert "has 3 bytes" in str(found.value)
    file.close()


def test_looks_until_it_is_in_time(hasty):
    errors = [PartnerError("old"), StorageError(errno.ESTALE, "old"), xa.TruncatedError("old")]

    def look():
        if errors:
            raise errors.pop()
        return 5

    assert in_time(look) == 5

    def fails(error):
        def look():
            looks.append(error)
            raise error

        return look

    looks = []
    with pytest.raises(StorageError, match="disk"):
        in_time(fails(StorageError(errno.ENOSPC, "disk")))
    assert len(looks) == 1  # waiting would not help
    with pytest.raises(PartnerError):
        in_time(fails(PartnerError("old")))
    assert len(looks) > 2


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_an_unpickled_array_waits_for_its_commit(path, hasty, copies, monkeypatch, mode):
    xa.create(path, (4, 3), "i4", chunks=(2, 2)).close()
    with xa.open(path, mode) as array:
        reopen, (*given, sequence) = array.__reduce__()
        with reopen(*given, sequence) as same:
            assert same.shape == (4, 3)
        with pytest.raises(StorageError, match="not yet visible on this host"):
            reopen(*given, sequence + 1)
    monkeypatch.setattr(limits, "visibility_patience", 60)
    with xa.open(path, "r+") as writer:
        thread = later(lambda: writer.append(np.full((1, 3), 7, "i4")))
        with reopen(*given, sequence + 2) as array:  # the seal goes first
            assert array.shape == (5, 3)
            assert (array[4] == 7).all()
        thread.join()


def test_elements_are_sent_and_copies_dropped(path, copies, monkeypatch):
    """An unpickled array on a network file system syncs each write; so shows the writer's flush."""
    monkeypatch.setattr(File, "is_networked", True)
    synced, dropped = [], []
    monkeypatch.setattr(
        other_hosts,
        "see_newest",
        lambda file, *args: dropped.append(os.path.splitext(file.name)[1]),
    )
    with xa.create(path, (4, 3), "i4", chunks=(2, 2)) as array:
        reopen, given = array.__reduce__()
        with reopen(*given) as worker:
            assert dropped == [".xmd", ".xta"]
            commits = worker._store.commits
            sync = commits.sync_elements
            monkeypatch.setattr(commits, "sync_elements", lambda: (synced.append(1), sync()))
            worker[1] = 5
            worker[[0, 2], [1, 1]] = 6
            assert len(synced) == 2
        dropped.clear()
        array.flush()
        assert dropped == [".xta"]  # the metadata are its own
        assert array[1].tolist() == [5, 5, 5]
