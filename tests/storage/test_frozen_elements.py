"""Processes that write elements beside each other, where chunks may be frozen."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest
from frozen_chunks import all_addresses, freeze, make, table

import extarray as xa
from extarray.common.limits import limits
from extarray.errors import ArgumentError, CorruptError, LockedError, PartnerError, ReadOnlyError
from extarray.storage import lock
from extarray.storage.filesystem import File
from extarray.storage.frozen import HANDED_ON, FrozenTable

N, C = 24, 256  # chunks, and elements of each
VALUES = np.arange(N * C, dtype="i4") % 7


@pytest.fixture
def frozen(path):
    """Return the path of an array that is all frozen."""
    with xa.create(path, N * C, "i4", chunks=C, compression="zlib") as a:
        a[...] = VALUES
    return path


def frozen_chunks(a):
    return a._store.now.frozen.frozen(0, N).tolist()


def start(function, *args):
    """Run a function in a forked process; return its number."""
    pid = os.fork()
    if not pid:
        try:
            function(*args)
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(1)
    return pid


def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def write_every(path, first, step, share="elements"):
    with xa.open(path, "r+", share=share) as a:
        for i in range(first, N * C, step):
            a[i] = i + 1
        a.flush()


@pytest.mark.slow
@pytest.mark.parametrize(
    "has_writer, share", [(False, "elements"), (True, "elements"), (False, True)]
)
def test_no_element_is_lost(frozen, has_writer, share):
    writer = xa.open(frozen, "r+") if has_writer else None
    expected = np.arange(1, N * C + 1, dtype="i4")
    with xa.open(frozen) as reader:
        writers = [start(write_every, frozen, k, 4, share) for k in range(4)]
        if writer is not None:
            writer[::4] = expected[::4]  # as one of the others
            writer.flush()
        while not np.array_equal(found := reader[...], expected):
            assert ((found == expected) | (found == VALUES)).all()
            if writers and os.waitpid(writers[0], os.WNOHANG)[0]:
                del writers[0]
            if not writers:
                break
        assert [ended(pid) for pid in writers] == [0] * len(writers)
        np.testing.assert_array_equal(reader[...], expected)
    if writer is not None:
        writer.close()
    with xa.open(frozen) as reader:
        np.testing.assert_array_equal(reader[...], expected)
        assert frozen_chunks(reader) == (list(range(N)) if has_writer else [])


@pytest.mark.slow
@pytest.mark.parametrize("share", ["elements", True])
def test_a_killed_process_loses_nothing_of_the_others(frozen, share):
    expected = np.arange(1, N * C + 1, dtype="i4")
    for n in range(6):
        with xa.open(frozen, "r+") as a:
            a[...] = VALUES
            a.freeze()
        writers = [start(write_every, frozen, k, 4, share) for k in range(4)]
        time.sleep(0.002 + 0.003 * n)
        os.kill(writers[0], signal.SIGKILL)
        assert [ended(pid) for pid in writers[1:]] == [0] * 3
        ended(writers[0])
        with xa.open(frozen) as reader:
            found = reader[...]
        for k in range(1, 4):
            np.testing.assert_array_equal(found[k::4], expected[k::4])
        assert ((found == expected) | (found == VALUES)).all()


@pytest.mark.parametrize("share", ["elements", True])
def test_a_thaw_waits_for_that_of_another_process(frozen, monkeypatch, share):
    begun, goes_on = threading.Event(), threading.Event()
    decode = FrozenTable.decode

    def slowly(self, *args):
        decode(self, *args)
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            goes_on.wait(10)

    monkeypatch.setattr(FrozenTable, "decode", slowly)
    with xa.open(frozen, "r+", share=share) as a, xa.open(frozen, "r+", share=share) as b:
        thread = threading.Thread(target=a.__setitem__, args=(1, 100))
        thread.start()
        begun.wait(10)
        b[C] = 300  # another chunk: needs no wait
        assert thread.is_alive()
        threading.Timer(0.05, goes_on.set).start()
        b[2] = 200
        assert goes_on.is_set()
        thread.join()
        assert a[:4].tolist() == [0, 100, 200, 3]
        assert b[C] == 300


def test_nothing_is_frozen_beside_them(frozen):
    with xa.open(frozen, "r+") as a:
        with xa.open(frozen, "r+", share="elements") as b:
            b[5] = -1
            assert a[5] == -1
            with pytest.raises(LockedError, match="share='elements'"):
                a.freeze()
            a.append(np.zeros(4 * C, "i4"))
            time.sleep(0.05)  # for the freezer in the background
            assert 0 not in frozen_chunks(a)
            assert not set(range(N, N + 4)) & set(a._store.now.frozen.frozen(0, N + 4).tolist())
            assert b.refresh()
            b[N * C] = 8
            for what in (b.freeze, b.thaw):
                with pytest.raises(ReadOnlyError):
                    what()
        assert a.freeze() == 5
        assert a[5] == -1
    with xa.open(frozen) as r:
        assert r[5] == -1
        assert r[N * C] == 8
        assert len(r._store.now.frozen.frozen(0, N + 4)) == N + 4


def test_holes_come_after_them(path, monkeypatch):
    make(path, VALUES.reshape(-1, 16), is_frozen=False)
    with xa.open(path, "r+") as a:
        freeze(a, all_addresses(a))
        with xa.open(path, "r+", share="elements") as b:
            holes = []
            monkeypatch.setattr(File, "punch", lambda *args: holes.append(args) or True)
            a.flush()
            assert not holes
            b[0, 1] = 50
            a.flush()
            assert not holes
        a.flush()
        first = a.chunk_bytes
        assert min(start for _, start, _ in holes) == first  # chunk 0 was thawed
        assert a[0, 1] == 50


def test_a_close_beside_them_leaves_chunks_raw(frozen):
    with xa.open(frozen, "r+", share="elements") as b:
        with xa.open(frozen, "r+") as a:
            a[:C] = 4
        b[1] = 3
        assert b[:3].tolist() == [4, 3, 4]
    with xa.open(frozen) as r:
        assert frozen_chunks(r) == list(range(1, N))
        assert r[:3].tolist() == [4, 3, 4]


def test_what_they_flushed_stays_after_a_new_freeze(frozen):
    """A blob lost in a power cut must not give way to one that is older than their flush."""
    with xa.open(frozen, "r+") as a:
        old = int(table(a).durable(np.array([0]))[0])
        with xa.open(frozen, "r+", share="elements") as b:
            b[1] = 99
            b.flush()
        assert int(table(a).durable(np.array([0]))[0]) == old
        assert a.freeze() == 1
        live, durable = table(a).entries(np.array([0]))[0], table(a).durable(np.array([0]))[0]
        assert live != 0
        assert durable == 0
        a.flush()
        assert table(a).durable(np.array([0]))[0] == live


def test_no_axis_is_added_beside_them(frozen):
    with xa.open(frozen, "r+") as a:
        with (
            xa.open(frozen, "r+", share="elements"),
            pytest.raises(LockedError, match="share='elements'"),
        ):
            a.add_axis(0)
        assert a.shape == (N * C,)
        a.add_axis(0)
    with xa.open(frozen, "r+", share="elements") as b:
        b[0, 1] = 9
        np.testing.assert_array_equal(b[0, 2:], VALUES[2:])


def test_pickles_write(frozen):
    with xa.open(frozen, "r+") as a:
        with pickle.loads(pickle.dumps(a)) as b:
            b[3] = 33
            b[[C, 2 * C]] = 44
            assert a[3] == 33
        a[4] = 34
    with xa.open(frozen) as r:
        assert r[:5].tolist() == [0, 1, 2, 33, 34]
        assert r[C] == r[2 * C] == 44


def test_what_cannot_be_is_refused(frozen, monkeypatch):
    def refuses(error, text, share="elements"):
        with pytest.raises(error, match=text):
            xa.open(frozen, "r+", share=share)
        monkeypatch.undo()

    monkeypatch.setattr(limits, "has_range_locks", False)
    refuses(ArgumentError, "share='elements'.*cannot agree")
    monkeypatch.setattr(lock, "obstacle", lambda *args: fail(errno.ENOLCK))
    refuses(ArgumentError, "cannot agree")
    monkeypatch.setattr(lock, "can_thaw", lambda file: False)
    refuses(ArgumentError, "share=True.*cannot agree", True)
    for share in ("elements", True):
        monkeypatch.setattr(File, "is_networked", True)
        monkeypatch.setattr(File, "keeps_copies", False)
        refuses(ArgumentError, "cannot agree", share)
        monkeypatch.setattr(File, "keeps_copies", True)
        refuses(ArgumentError, "cannot write compressed chunks", share)
    monkeypatch.setattr(FrozenTable, "is_mended", True)
    refuses(CorruptError, "open it once")
    monkeypatch.setattr(FrozenTable, "number", HANDED_ON)
    refuses(PartnerError, "gained an axis")


def fail(number):
    raise OSError(number, os.strerror(number))


def test_a_file_system_without_locks_has_one_writer(frozen, monkeypatch):
    with xa.open(frozen, "r+") as a:
        monkeypatch.setattr(lock, "obstacle", lambda *args: fail(errno.ENOLCK))
        monkeypatch.setattr(lock, "lock_range", lambda *args, **how: fail(errno.ENOLCK))
        for value in range(limits.rewrites + 1):  # the last one thaws it
            a[3] = value
        assert a.freeze() == 1
        assert a[3] == limits.rewrites
        monkeypatch.undo()


def write_ever_higher(path, k, seconds, told):
    """Write rising numbers to every fourth element, opening the array each time."""
    end, n = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        with xa.open(path, "r+", share="elements") as a:
            for _ in range(3):
                n += 1
                a[k::4] = n
                assert (a[k::4] == n).all()
            if n % 4 == 0:
                a.flush()
        time.sleep(0.005 * (k + 1))  # the writer freezes only while none is there
    told.write_text(str(n))


def freeze_ever_again(path, engine, seconds, told):
    """Write rising numbers to every fourth element, as the one writer, which freezes, too."""
    end, n, n_frozen = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end or not n_frozen:  # the others end, so that it can freeze
        with xa.open(path, "r+", engine=engine) as a:
            for what in (a.freeze, a.flush, a.freeze, a.thaw):
                n += 1
                a[3::4] = n
                with contextlib.suppress(LockedError):
                    n_frozen += what() or 0
    assert n_frozen
    told.write_text(str(n))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["mmap", "pread"])
def test_freezes_between_them(frozen, engine, tmp_path):
    with xa.open(frozen, "r+") as a:
        a[...] = 0
    told = [tmp_path / f"told-{k}" for k in range(4)]
    pids = [start(write_ever_higher, frozen, k, 2, told[k]) for k in range(3)]
    pids.append(start(freeze_ever_again, frozen, engine, 2, told[3]))
    end, lowest = time.monotonic() + 2, [0] * 4
    with xa.open(frozen, engine=engine) as reader:
        while time.monotonic() < end:
            values = reader[...]
            for k in range(4):
                assert values[k::4].min() >= lowest[k]
                lowest[k] = values[k::4].min()
    assert [ended(pid) for pid in pids] == [0] * 4
    with xa.open(frozen) as reader:
        for k in range(4):
            assert (reader[k::4] == int(told[k].read_text())).all()
