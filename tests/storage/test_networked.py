"""File systems that several hosts share: a host may see bytes late, and says so.

Here the file system of the tests counts as such; other hosts are played by threads that complete
files late.  `tests/hosts` has real ones.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import extarray as xa
from extarray._core._file import file_system_of
from extarray.common import system
from extarray.common.limits import limits
from extarray.errors import (
    ArgumentError,
    NotVisibleError,
    RecoveryWarning,
    StaleWarning,
    TruncatedError,
)
from extarray.format.constants import LIVE_SLOTS
from extarray.storage.filesystem import File


@pytest.fixture(autouse=True)
def networked(tmp_path, monkeypatch):
    """Let the file system count as shared by hosts, and shorten the waiting."""
    fd = system.open_place(str(tmp_path))
    monkeypatch.setitem(system.NETWORKED, file_system_of(fd), "a test's")
    os.close(fd)
    monkeypatch.setattr(limits, "visibility_patience", 0.3)
    monkeypatch.setattr(limits, "arrival_time", 0.01)


def rows(n, value):
    return np.full((n, 4), value, "i4")


@pytest.fixture
def growing(path):
    """Return the path of a pair that ends in a flushed state and three later rows, unsealed."""
    with xa.create(path, (0, 4), "i4", chunks=(2, 4)) as a:
        a.append(rows(4, 1))
        a.flush()
        a.append(rows(3, 2))
        assert Path(f"{path}.xta").stat().st_size - a._store.now.state.data_bytes in (0, 32)
        copies = {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in (".xmd", ".xta")}
    for suffix, data in copies.items():
        Path(f"{path}{suffix}").write_bytes(data)
    return path


def cut(path, suffix, by):
    """Shorten a file; return a function that gives it its bytes again."""
    name = f"{path}{suffix}"
    with open(name, "r+b") as file:
        data = file.read()
        file.truncate(len(data) - by)

    def complete():
        with open(name, "r+b") as file:
            file.seek(len(data) - by)
            file.write(data[len(data) - by :])

    return complete


@pytest.fixture
def later():
    """Return a function that calls another in a thread a moment later."""
    timers = []

    def call(action):
        timers.append(threading.Timer(0.1, action))
        timers[-1].start()

    yield call
    for timer in timers:
        timer.join()


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_open_waits_for_what_another_host_has_written(growing, later, mode):
    later(cut(growing, ".xta", 40))
    with xa.open(growing, mode) as a:
        assert (a[:4] == 1).all() and (a[4:] == 2).all() and len(a) == 7


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_newer_state_is_given_up_only_if_asked(growing, mode):
    complete = cut(growing, ".xta", 40)
    words = (
        r"commit \d+ of .*, of shape \(7, 4\), is not yet visible on this host.*recover=True.*"
        r"go back to commit \d+, of shape \(4, 4\)"
    )
    for recover in (None, False):
        with pytest.raises(NotVisibleError, match=words) as caught:
            xa.open(growing, mode, recover=recover)
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(NotVisibleError):
        xa.open(growing, mode)
    complete()
    assert len(xa.open(growing)) == 7  # nothing was given up
    cut(growing, ".xta", 40)
    with pytest.warns(RecoveryWarning, match=r"shape \(4, 4\)"):
        a = xa.open(growing, mode, recover=True)
    with a:
        assert (a[...] == rows(4, 1)).all()


def test_a_newer_state_without_its_records(path, later):
    """The newest superblock is here; the growth log that it refers to is not."""
    with xa.create(path, (2, 4), "i4", chunks=(2, 4)) as a:
        a.flush()
        a.extend(1, 4)
        whole = Path(f"{path}.xmd").read_bytes()
        log, data = a._store.now.extents[0], Path(f"{path}.xta").read_bytes()
    Path(f"{path}.xta").write_bytes(data)
    lacking = bytearray(whole)
    lacking[log + 40 : log + 60] = bytes(20)
    Path(f"{path}.xmd").write_bytes(lacking)
    with pytest.raises(NotVisibleError, match=r"commit 1 .* commit 0, of shape \(2, 4\)"):
        xa.open(path)

    def complete():
        with open(f"{path}.xmd", "r+b") as file:
            file.seek(log + 40)
            file.write(whole[log + 40 : log + 60])

    later(complete)
    assert xa.open(path).shape == (2, 8)


def test_an_older_superblock_alone_is_no_newer_state(growing):
    """A torn superblock counts as never written, as everywhere."""
    with xa.open(growing) as a:
        offset = a._store.now.header.superblock_offset(LIVE_SLOTS[a._store.now.state.sequence % 2])
    with open(f"{growing}.xmd", "r+b") as file:
        file.seek(offset + 40)
        file.write(b"\xff" * 8)
    assert xa.open(growing).shape == (4, 4)


def test_a_reader_waits_for_the_new_length(growing, later):
    reader = xa.open(growing)
    before = reader.shape
    with xa.open(growing, "r+") as writer:
        writer.append(rows(5, 3))
        complete = cut(growing, ".xta", 40)
        with pytest.raises(NotVisibleError, match="not yet visible"):
            reader.refresh()
        assert reader.shape == before
        assert (reader[...][4:] == 2).all()
        later(complete)
        assert reader.refresh()
        assert (reader[7:] == 3).all() and len(reader) == 12
    reader.close()


def test_a_writer_waits_until_nothing_more_arrives(growing, monkeypatch):
    """The last commits of a dead writer may come when its lock is free."""
    newer = {suffix: Path(f"{growing}{suffix}").read_bytes() for suffix in (".xta", ".xmd")}
    with xa.open(growing, "r+") as a:
        a.append(rows(2, 4))
        a.flush()
        latest = {suffix: Path(f"{growing}{suffix}").read_bytes() for suffix in (".xta", ".xmd")}
    for suffix, data in newer.items():
        Path(f"{growing}{suffix}").write_bytes(data)
    naps = []

    def sleep(seconds):
        naps.append(seconds)
        if len(naps) == 1:
            for suffix, data in latest.items():
                with open(f"{growing}{suffix}", "r+b") as file:
                    file.write(data)

    monkeypatch.setattr(time, "sleep", sleep)
    with xa.open(growing, "r+") as a:
        assert len(a) == 9 and (a[7:] == 4).all()
    assert len(naps) > 1


def test_elements_reach_the_server_before_the_commit(path, monkeypatch):
    """So no host sees a state whose elements are not there."""
    done = []
    real_sync, real_write = File.datasync, File.write

    def datasync(file):
        done.append(("sync", os.path.splitext(file.name)[1]))
        real_sync(file)

    def write(file, data, offset):
        if file.name.endswith(".xmd"):
            done.append(("write", ".xmd"))
        real_write(file, data, offset)

    with xa.create(path, (0, 4), "i4", chunks=(2, 4)) as a, xa.create(f"{path}2", 3, "i4") as b:
        a.append(rows(4, 1))  # the first commit does more
        monkeypatch.setattr(File, "datasync", datasync)
        monkeypatch.setattr(File, "write", write)
        a.append(rows(4, 2))
        assert done[0] == ("sync", ".xta") and ("write", ".xmd") in done
        done.clear()
        with xa.commit([a, b]):
            a.append(rows(1, 3))
            b.append([4])
        decision = max(i for i, step in enumerate(done) if step == ("write", ".xmd"))
        assert done[:decision].count(("sync", ".xta")) == 2
        monkeypatch.undo()


def test_a_mapping_is_refused_to_writers(growing):
    with pytest.raises(ArgumentError, match="hosts may share its file system"):
        xa.open(growing, "r+", engine="mmap")
    with pytest.warns(StaleWarning, match="old elements"):
        a = xa.open(growing, engine="mmap")
    a.close()
    with xa.open(growing) as a:
        assert a.info()["engine"] == "pread"


def test_on_one_host_a_state_is_given_up_unless_forbidden(growing, monkeypatch):
    monkeypatch.setattr(system, "NETWORKED", {})
    monkeypatch.setattr(File, "is_networked", False)
    cut(growing, ".xta", 40)
    with pytest.raises(TruncatedError):
        xa.open(growing, recover=False)
    for recover in (None, True):
        with pytest.warns(RecoveryWarning, match=r"shape \(4, 4\)"):
            xa.open(growing, recover=recover).close()


@pytest.fixture
def compressed(tmp_path, monkeypatch):
    """Return the path of an array with frozen chunks, written where the file system is local."""
    path, values = tmp_path / "frozen", np.arange(64 * 2048).reshape(64, 2048)
    with monkeypatch.context() as local:
        local.setattr(File, "keeps_copies", False)
        with xa.create(path, (0, 2048), "i8", chunks=(4, 1024), compression="zlib") as a:
            a.append(values[:60])
    return path, values


def test_frozen_chunks_are_read(compressed):
    path, values = compressed
    with xa.open(path) as a:
        np.testing.assert_array_equal(a[...], values[:60])
        assert a[3, 4] == values[3, 4]
        np.testing.assert_array_equal(
            a[[1, 59, 7], [5, 2047, 1024]], values[[1, 59, 7], [5, 2047, 1024]]
        )
        assert int(a.sum()) == values[:60].sum()


def test_a_reader_sees_what_is_frozen_and_thawed_elsewhere(compressed, monkeypatch):
    path, values = compressed
    with monkeypatch.context() as local:
        local.setattr(File, "keeps_copies", False)
        writer = xa.open(path, "r+")
        writer.thaw()
        writer.flush()
    with writer, xa.open(path) as r:
        np.testing.assert_array_equal(r[...], values[:60])
        assert writer.freeze() == 30
        writer.flush()  # makes holes
        np.testing.assert_array_equal(r[...], values[:60])
        writer[5] = values[5] = -1
        writer.append(values[60:])
        writer.freeze()
        writer.flush()
        assert r.refresh()
        np.testing.assert_array_equal(r[...], values)


@pytest.mark.parametrize("engine", ["auto", "pread"])
def test_compressed_arrays_are_not_written(compressed, tmp_path, engine):
    path, values = compressed
    with pytest.raises(ArgumentError, match="keep copies that hide"):
        xa.open(path, "r+", engine=engine)
    with pytest.raises(ArgumentError, match="leave out compression"):
        xa.create(tmp_path / "new", 8, compression="zlib", engine=engine)
    assert not list(tmp_path.glob("new*"))
    with xa.open(path) as a:
        np.testing.assert_array_equal(a[...], values[:60])
