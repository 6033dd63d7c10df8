"""Steady writing: elements go to the disk in the background, soon after they were made."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import threading

import numpy as np
import pytest
from systems import needs_fork, needs_signals

import extarray as xa
from extarray.common import arguments, system
from extarray.storage import steady
from extarray.storage.filesystem import File

needs_writing_back = pytest.mark.skipif(
    not system.WRITES_BACK, reason="this system cannot be told to begin to write what is dirty"
)
FRAME = np.arange(64 * 256, dtype="u2").reshape(1, 64, 256)
#: Seconds in which a thread has to do something; only what hangs reaches it.
PATIENCE = 250


class Rounds:
    """The rounds of writing back, as they come: names of files."""

    def __init__(self, monkeypatch):
        self.files = []
        self._came = threading.Condition()
        monkeypatch.setattr(steady, "_PERIOD", 0.001)
        self._write_back = File.write_back
        monkeypatch.setattr(File, "write_back", lambda file: self._note(file))

    def _note(self, file):
        self._write_back(file)
        with self._came:
            self.files.append(os.path.basename(file.name))
            self._came.notify_all()

    def wait(self, name):
        """Wait for a round that begins from now on and writes a file."""
        with self._came:
            del self.files[:]
            # The first may have begun before.
            assert self._came.wait_for(lambda: self.files.count(name) > 1, PATIENCE)


@pytest.fixture
def rounds(monkeypatch):
    return Rounds(monkeypatch)


def threads():
    return [one for one in threading.enumerate() if one.name == "extarray-steady"]


def wait_for_end(before=()):
    for thread in threads():
        if thread not in before:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def dirty_pages(file):
    """Return how many pages of a file the system has yet to begin to write (cachestat(2))."""
    with file as fd:
        asked, found = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
        if ctypes.CDLL(None, use_errno=True).syscall(451, fd, asked, found, 0):
            pytest.skip("this system does not count dirty pages")
    return found[1]


@needs_writing_back
def test_dirty_pages_are_on_their_way_after_a_round(path, engine):
    """Pages that were written by calls, or stored to through the mapping."""
    with xa.create(path, (0, 64, 256), "u2", engine=engine) as array:
        file = array._store.now.data
        if file.file_system == 0x01021994:
            pytest.skip("tmpfs has no disk")
        for _ in range(40):
            array.append(FRAME)
        array[3, 5, 7] = 9
        left = file.length
        while left:  # a page that is being written, and was stored to meanwhile, waits
            file.write_back()
            left = dirty_pages(file)
        assert array[3, 5, 7] == 9 and np.array_equal(array[39:], FRAME)


@needs_writing_back
@pytest.mark.parametrize("options", [{}, {"sparse": True}, {"checksum": True}])
def test_the_chunks_are_written_back_until_the_array_is_closed(path, engine, rounds, options):
    with xa.create(path, (0, 64, 256), "u2", engine=engine, durability="steady", **options) as a:
        a.append(FRAME)
        rounds.wait("scene.xta")
        assert a.durability == "steady" and set(rounds.files) == {"scene.xta"}
    wait_for_end()
    with xa.open(path, "r+", durability="steady") as a:
        a[0] = FRAME[0]
        rounds.wait("scene.xta")
    wait_for_end()


@needs_writing_back
def test_blobs_are_written_back_too(path, rounds):
    with xa.create(path, (0, 64, 256), "u2", compression="zlib", durability="steady") as a:
        a.append(FRAME)
        rounds.wait("scene.xtz")
        assert set(rounds.files) == {"scene.xta", "scene.xtz"}


@needs_writing_back
def test_who_does_not_ask_has_no_thread(path):
    with xa.create(path, (4, 4), "u2", durability="steady"):
        before = threads()
        assert before
        for durability in ("flush", "commit"):
            with xa.create(f"{path}-{durability}", (4, 4), "u2", durability=durability):
                pass
        with xa.open(path, durability="steady") as reader:  # without effect
            assert reader.durability == "steady"
        assert set(threads()) <= set(before)
    wait_for_end()


@needs_writing_back
@pytest.mark.parametrize("share", [False, True, "elements"])
def test_writers_that_share_and_copies_in_other_processes_are_steady(path, share, rounds):
    xa.zeros((4, 4), path=path).close()
    with xa.open(path, "r+", share=share, durability="steady") as a:
        rounds.wait("scene.xta")
        with pickle.loads(pickle.dumps(a)) as b:
            assert b.durability == "steady"
        a[...] = 3
    wait_for_end()


@needs_writing_back
def test_arrays_of_a_group_and_successors_stay_steady(tmp_path, rounds):
    with xa.open_group(tmp_path / "g", "w", durability="steady") as g:
        a = g.create("scene", shape=(4, 6), dtype="i4")
        a[...] = 7
        rounds.wait("scene.xta")
        a.compression = "zlib"  # other files take the place of these
        rounds.wait("scene.xtz")
        assert a.durability == "steady" and np.all(a[...] == 7)
    wait_for_end()


@needs_writing_back
def test_a_thread_ends_with_an_array_that_nobody_closed(path, rounds):
    a = xa.create(path, (4, 4), "i4", durability="steady")
    rounds.wait("scene.xta")
    with pytest.warns(ResourceWarning):
        del a
    wait_for_end()


@needs_writing_back
@needs_signals
def test_a_kill_loses_no_frame(path, forked, engine):
    code = """
import os, signal, sys
import numpy as np
import extarray as xa
frame = np.arange(64 * 256, dtype="u2").reshape(1, 64, 256)
a = xa.create(sys.argv[1], (0, 64, 256), "u2", durability="steady", engine=sys.argv[2])
for i in range(30):
    a.append(frame + i)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert forked.run(code, path, engine)[0] == -signal.SIGKILL
    with xa.open(path) as a:
        assert a.shape == (30, 64, 256)
        for i in range(30):
            assert np.array_equal(a[i], FRAME[0] + np.uint16(i))


@needs_writing_back
@needs_fork
def test_a_forked_child_leaves_writing_to_its_parent(path, forked):
    code = """
import os, sys, threading, warnings
import extarray as xa
def threads():
    return [one for one in threading.enumerate() if one.name == "extarray-steady"]
with xa.create(sys.argv[1], (4, 4), "i4", durability="steady") as a:
    assert threads()
    warnings.simplefilter("ignore")  # of a fork beside threads
    child = os.fork()
    if not child:
        os._exit(bool(threads()) or a.mode != "r")
    assert os.waitpid(child, 0)[1] == 0
    assert threads()
"""
    status, _, errors = forked.run(code, path)
    assert status == 0, errors


@needs_writing_back
def test_without_threads_nothing_stays_open(path, monkeypatch):
    xa.zeros((2, 2), path=path).close()

    def start(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(xa.errors.ReserveError, match="no more threads"):
            xa.open(path, "r+", durability="steady")
        with pytest.raises(xa.errors.ReserveError, match="no more threads"):
            xa.create(path, (3, 3), overwrite=True, durability="steady")
    with xa.open(path, "r+") as a:
        assert a.shape == (3, 3)


def test_other_systems_refuse(path, monkeypatch):
    xa.zeros((2, 2), path=path).close()
    monkeypatch.setattr(arguments.system, "WRITES_BACK", False)
    for call in (
        lambda: xa.create(f"{path}-2", (2, 2), durability="steady"),
        lambda: xa.open(path, "r+", durability="steady"),
        lambda: xa.open_group(path.parent, durability="steady"),
    ):
        with pytest.raises(xa.errors.ArgumentError, match="'steady' needs Linux"):
            call()
