"""Several writers of one array, in one process: locks, visibility, failures."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
import socket
import threading

import format_reader
import injected
import numpy as np
import places
import pytest
from compare import assert_same
from systems import needs_blocks, needs_holes, needs_small_holes

import extarray as xa
from extarray.array import writers as policies
from extarray.array.life import let_go
from extarray.common import system
from extarray.common.limits import limits
from extarray.format import blocks
from extarray.format.constants import BLOCK
from extarray.storage import lock, sharing
from extarray.storage.filesystem import File
from extarray.storage.following import Follower

needs_ranges = pytest.mark.skipif(not limits.has_range_locks, reason="needs locks that Linux has")
pytestmark = needs_ranges


def share(path, engine="mmap", **options):
    return xa.open(path, "r+", share=True, engine=engine, **options)


@pytest.fixture
def pair(path, engine):
    """Yield two writers of an array of shape (0, 3)."""
    xa.create(path, (0, 3), "i4", chunks=(4, 2), sparse=False).close()
    with share(path, engine) as one, share(path, engine) as two:
        yield one, two


class Gate:
    """Data that wait until a test releases them."""

    def __init__(self, values, then=None):
        self.values = np.asarray(values, "i4")
        self.shape, self.dtype = self.values.shape, self.values.dtype
        self.entered, self.go, self.then = threading.Event(), threading.Event(), then

    def __getitem__(self, selection):
        self.entered.set()
        assert self.go.wait(60)
        if self.then is not None:
            self.then()
        return self.values[selection]


@contextlib.contextmanager
def in_flight(array, values, axis=0, side="end"):
    """Keep another thread's append unfinished for the length of a block."""
    gate = Gate(values)
    thread = threading.Thread(target=array.append, args=(gate, axis, side))
    thread.start()
    try:
        assert gate.entered.wait(60)
        yield
    finally:
        gate.go.set()
        thread.join(60)
    assert not thread.is_alive()


def rows(*values):
    return np.repeat(np.array(values, "i4")[:, None], 3, axis=1)


# Visibility ------------------------------------------------------------------------------------


def test_growth_sees_the_growth_of_others(pair):
    one, two = pair
    one.append(rows(1, 2))
    two.append(rows(3))
    assert one.shape == (2, 3) and two.shape == (3, 3)
    one.extend(1, 1)
    assert_same(one[:, 0], np.array([1, 2, 3], "i4"))
    two.resize((4, 4))
    one.shrink(0, 1, side="start")
    two.append(np.full((1, 4), 9, "i4"), side="start")
    assert_same(two[:, 0], np.array([9, 2, 3, 0], "i4"))
    assert two.origin == (0, 0)
    assert one.refresh() and not one.refresh()
    assert_same(one[...], two[...])
    one.reserve((20, 4))
    two.extend(0, 10)
    assert two.grid == one.grid == (5, 2)


def test_elements_are_seen_at_once(pair):
    one, two = pair
    one.append(rows(1, 2, 3))
    two.refresh()
    one[:, 0], two[:, 1] = 10, 20
    assert_same(one[...], two[...])
    assert one[0].tolist() == [10, 20, 1]


def test_attributes_of_all(pair):
    one, two = pair
    for step in range(5):
        one.attrs["one"], two.attrs["two"] = step, "x" * 400 * step
        two.flush()
    assert dict(two.attrs) == {"one": 4, "two": "x" * 1600}
    assert one.attrs.pop("two") == "x" * 1600
    two.refresh()
    assert dict(two.attrs) == {"one": 4}


def test_follow_sees_what_others_append(pair):
    one, two = pair
    news = one.follow(timeout=0)
    two.append(rows(1))
    two.append(rows(2))
    assert [data[:, 0].tolist() for _, data in news] == [[1, 2]]


def test_another_reader_of_the_format(pair, path):
    one, two = pair
    one.append(rows(1, 2))
    with in_flight(two, rows(3, 4, 5)):
        values, _ = format_reader.read(path)
        assert_same(values, rows(1, 2))
    assert_same(format_reader.read(path)[0], rows(1, 2, 3, 4, 5))


# The order of appends --------------------------------------------------------------------------


@pytest.mark.invariant("I6")
@pytest.mark.parametrize("side", ["end", "start"])
def test_appends_are_committed_as_they_began(pair, side):
    one, two = pair
    seen = []
    with xa.open(one.path) as reader:
        with in_flight(one, rows(1, 2), side=side):
            thread = threading.Thread(target=two.append, args=(rows(3), 0, side))
            thread.start()
            thread.join(0.1)
            assert thread.is_alive(), "those before it come first"
            reader.refresh()
            seen.append(reader.shape)
        thread.join()
        reader.refresh()
        assert seen == [(0, 3)]
        assert reader[:, 0].tolist() == ([1, 2, 3] if side == "end" else [3, 1, 2])


@pytest.mark.parametrize("side", ["end", "start"])
@pytest.mark.parametrize("lengths", [(2, 1), (1, 7), (5, 5)])
def test_the_gap_of_a_failed_append_is_closed(pair, side, lengths):
    one, two = pair
    first, second = rows(*range(1, lengths[0] + 1)), rows(*range(50, 50 + lengths[1]))

    def fail():
        raise RuntimeError("no data")

    gate, errors = Gate(first, fail), []

    def append():
        try:
            one.append(gate, 0, side)
        except RuntimeError as error:
            errors.append(error)

    threads = [threading.Thread(target=append)]
    threads[0].start()
    assert gate.entered.wait(60)
    threads.append(threading.Thread(target=two.append, args=(second, 0, side)))
    threads[1].start()
    threads[1].join(0.02)
    gate.go.set()
    for thread in threads:
        thread.join(60)
    assert len(errors) == 1
    assert_same(two[...], second)
    one.extend(0, 9, side)
    new = one[lengths[1] :] if side == "end" else one[: -lengths[1]]
    assert not new.any(), "what was never committed must not show"


def test_what_goes_on_while_an_append_is_in_flight(pair):
    one, two = pair
    two.append(rows(1, 2))
    with in_flight(one, rows(3)):
        two[0] = 7
        two.attrs["a"] = 1
        two.flush()
        assert not two.refresh()
        with share(one.path) as three:
            assert three[:, 0].tolist() == [7, 2]
    assert two.refresh()
    assert two[:, 0].tolist() == [7, 2, 3]


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.extend(0, 1),
        lambda a: a.resize((9, 9)),
        lambda a: a.shrink(0, 1),
        lambda a: a.reserve((9, 9)),
        lambda a: a.append(np.ones((4, 1), "i4"), axis=1),
        lambda a: a.append(np.ones((2, 3), "i4"), side="start"),
    ],
)
def test_other_changes_wait_for_appends(pair, change):
    one, two = pair
    one.append(rows(1, 2))
    with in_flight(one, rows(3, 4)):
        thread = threading.Thread(target=change, args=(two,))
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
    thread.join(60)
    assert not thread.is_alive()
    expected = xa.from_array(rows(1, 2, 3, 4))
    change(expected)
    assert_same(two[...], expected[...])


def test_who_waits_is_not_overtaken(pair, path):
    one, two = pair
    with share(path) as three:
        with in_flight(one, rows(1)):
            threads = [threading.Thread(target=two.extend, args=(0, 1))]
            threads[0].start()
            while not any(w.kind == blocks.WriterKind.WAITS for w in waiting(path)):
                pass
            threads.append(threading.Thread(target=three.append, args=(rows(3),)))
            threads[1].start()
            threads[1].join(0.05)
        for thread in threads:
            thread.join(60)
        assert three[:, 0].tolist() == [1, 0, 3]


def waiting(path):
    with open(f"{path}.xmd", "rb") as file:
        xmd = file.read()
    block = xmd[places.optional_block(xmd, 1) :][:BLOCK]
    return blocks.decode_writers(block)[1]


def test_an_append_whose_data_grow_the_array(pair):
    """The append would wait for itself, through the other writer."""
    one, two = pair
    for change in (lambda: two.extend(0, 1), lambda: two.append(rows(1))):
        gate = Gate(rows(1), change)
        gate.go.set()
        with pytest.raises(xa.ArgumentError, match="during an append"):
            one.append(gate)
    two.append(rows(5))
    one.refresh()
    assert_same(one[...], rows(5))


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.extend(0, 1),
        lambda a: a.append(rows(1)),
        lambda a: a.attrs.update(a=1),
        lambda a: a.flush(),
    ],
)
def test_an_append_whose_data_commit(pair, change):
    one, two = pair
    gate = Gate(rows(1), lambda: change(one))
    gate.go.set()
    with pytest.raises(xa.ArgumentError, match="during an append"):
        one.append(gate)
    assert not one.refresh() and not one.attrs
    gate.then = one.refresh
    one.append(gate)
    two.append(rows(2))
    assert_same(two[...], rows(1, 2))
    gate.then = one.close
    with pytest.raises(xa.ClosedError):
        one.append(gate)
    two.extend(0, 2)
    assert_same(two[...], rows(1, 2, 0, 0))


def test_data_that_do_not_fit(pair):
    one, two = pair
    two.extend(1, 1)
    with pytest.raises(xa.ShapeError, match=r"\(n, 4\) is needed"):
        one.append(rows(1))
    with pytest.raises(xa.CastingError):
        one.append(np.ones((1, 4), "f8"))
    one.append(np.empty((0, 4), "i4"))
    two.append(np.ones((1, 4), "i4"))
    assert two.shape == (1, 4)


def test_threads_of_one_writer(pair):
    one = pair[0]

    def work(array, number):
        for step in range(20):
            array.append(rows(100 * number + step))
            array.attrs[str(number)] = step

    threads = [threading.Thread(target=work, args=(pair[n % 2], n)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    one.refresh()
    found = one[:, 2].tolist()
    assert sorted(found) == [100 * n + step for n in range(4) for step in range(20)]
    for n in range(4):
        assert [x for x in found if x // 100 == n] == [100 * n + step for step in range(20)]
    assert dict(one.attrs) == {str(n): 19 for n in range(4)}


# Space ------------------------------------------------------------------------------------------


def disk_bytes(path):
    name = f"{path}.xta"
    return system.disk_bytes(os.stat(name), name)


@needs_holes
@pytest.mark.parametrize("sparse", [False, True])
def test_space_is_given_back_when_all_know_of_the_cut(path, engine, sparse):
    xa.create(path, (64, 1024), "f8", chunks=(8, 1024), sparse=sparse).close()
    with share(path, engine) as one, share(path, engine) as two:
        one[...] = two[...] = 1
        full = disk_bytes(path)
        one.shrink(0, 48, side="start")
        assert disk_bytes(path) == full
        two[0] = 2  # it does not know yet that this was cut off
        two.refresh()
        one.attrs["any"] = "step"
        assert disk_bytes(path) <= full // 2
        two.append(np.full((3, 1024), 5.0), side="start")
        one.extend(0, 40, side="start")
        assert not one[:40].any()
        assert (one[40:43] == 5).all() and (one[43:] == 1).all()
        assert (two[3:] == 1).all()


@needs_holes
def test_space_is_given_back_at_the_end(path):
    xa.create(path, (64, 1024), "f8", chunks=(8, 1024)).close()
    two = share(path)
    with share(path) as one:
        one[...] = 1
        full = disk_bytes(path)
        two.shrink(0, 48)
        two.close()
        assert disk_bytes(path) == full
    assert disk_bytes(path) <= full // 2
    with xa.open(path) as array:
        assert (array[...] == 1).all()


@needs_holes
def test_a_durable_writer_gives_back_when_it_opens_what_a_dead_one_has_cut_off(path):
    xa.full((64, 1024), 7, "f8", path=path, chunks=(8, 1024)).close()
    left = path.with_name("left")  # the files of a writer that dies after a cut
    with share(path) as one:
        one.shrink(0, 48)
        for suffix in (".xmd", ".xta"):
            shutil.copyfile(f"{path}{suffix}", f"{left}{suffix}")
        cuts = one._store.now.read_cuts()
    full = disk_bytes(left)
    with share(left, durability="commit") as two:
        assert disk_bytes(left) <= full // 2
        assert two._store.now.read_cuts() == cuts + 1
        assert (two[...] == 7).all()


@needs_small_holes
def test_a_rolling_window_of_two(pair):
    one = pair[0]
    one.extend(1, 1021)
    for step in range(60):
        pair[step % 2].append(np.full((4, 1024), step, "i4"))
        if step >= 4:
            pair[step // 2 % 2].shrink(0, 4, side="start")
    one.refresh()
    assert one[:, 5].tolist() == [n for n in range(56, 60) for _ in range(4)]
    assert disk_bytes(one.path) <= 20 * 4 * 4096


def test_a_cut_is_on_the_disk_before_others_overwrite_it(pair, monkeypatch):
    one, two = pair
    one.append(rows(1, 2, 3))
    one.shrink(0, 1)  # part of a chunk, which is never freed
    synced, real = [], File.datasync
    monkeypatch.setattr(File, "datasync", lambda file: (synced.append(file), real(file)))
    two.refresh()
    two.attrs["any"] = 1
    assert not synced
    two.extend(0, 1)
    assert synced[-1:] == [two._store.now.metadata]
    synced.clear()
    one.extend(0, 1)
    one.append(rows(4))
    assert not synced, "once is enough"
    assert_same(one[...], rows(1, 2, 0, 0, 4))


@needs_blocks
def test_room_that_is_reserved_keeps_its_space(pair):
    """Reserved chunks keep their space even where chunks were freed before."""
    one, two = pair
    one.extend(1, 1021)
    one.append(np.ones((8, 1024), "i4"))
    one.shrink(0, 8)
    one.append(np.ones((8, 1024), "i4"))  # fill the grid again
    before = disk_bytes(one.path)
    one.reserve((80, 1024))
    two.refresh()
    one.attrs["any"] = 1
    assert disk_bytes(one.path) > before + 200_000


# Locks ------------------------------------------------------------------------------------------


@pytest.mark.invariant("I6")
def test_writers_that_share_and_one_that_does_not(path):
    xa.zeros((2, 2), path=path).close()
    with share(path), share(path):
        for timeout in (0, 0.02):
            with pytest.raises(xa.LockedError, match=r"this process already .* shared writing"):
                xa.open(path, "r+", timeout=timeout)
        with pytest.raises(xa.LockedError):
            xa.create(path, (1,), overwrite=True)
        assert xa.open(path).shape == (2, 2)
    with xa.open(path, "r+"):
        for timeout in (0, 0.02):
            with pytest.raises(xa.LockedError, match="without sharing it"):
                share(path, timeout=timeout)
    xa.open(path, "r+").close()


SHARES = """
import sys
import extarray as xa
with xa.open(sys.argv[1], "r+", share=True):
    print(flush=True)
    sys.stdin.read()
"""


def test_who_shares_it_is_told(path, forked):
    xa.zeros((2, 2), path=path).close()
    here = socket.gethostname()
    with forked.start(SHARES, path) as first:
        first.stdout.readline()
        alone = re.escape(f"another writer (process {first.pid} on {here}) shares it")
        with pytest.raises(xa.LockedError, match=alone):
            xa.open(path, "r+")
        with share(path):
            with pytest.raises(xa.LockedError) as caught:
                xa.open(path, "r+")
            pids = ", ".join(map(str, sorted([os.getpid(), first.pid])))
            assert f"other writers (processes {pids} on {here}) share it" in str(caught.value)
            first.stdin.close()
            assert first.wait(60) == 0
            # The other process has ended, after noting that it holds the lock.
            with pytest.raises(xa.LockedError, match=r"this process already has it open \(process"):
                xa.open(path, "r+")


@pytest.mark.slow
def test_each_of_those_who_share_it_is_told_with_its_host(path, forked):
    """Long host names are cut, between characters."""
    xa.zeros((2, 2), path=path).close()
    name = "x" * 23 + "üy"
    code = f"""
from extarray.storage import lock, sharing
lock.host_name = sharing.host_name = lambda: {name!r}
{SHARES}
"""
    with forked.start(code, path) as far, share(path):
        far.stdout.readline()
        with pytest.raises(xa.LockedError) as caught:
            xa.open(path, "r+")
        named = str(caught.value).partition("(")[2].partition(")")[0].split("; ")
        assert sorted(named) == sorted(
            [
                f"process {os.getpid()} on {socket.gethostname()[:24]}",
                f"process {far.pid} on {'x' * 23}",
            ]
        )
        far.stdin.close()
        assert far.wait(60) == 0


@pytest.mark.parametrize("shared", [False, True])
def test_either_waits_for_the_other(path, shared):
    xa.zeros((2, 2), path=path).close()
    first = xa.open(path, "r+", share=not shared)
    opened = []
    thread = threading.Thread(
        target=lambda: opened.append(xa.open(path, "r+", share=shared, timeout=60))
    )
    thread.start()
    thread.join(0.05)
    assert not opened
    first.close()
    thread.join(60)
    opened[0].extend(0, 1)
    opened[0].close()


def test_sharing_is_for_writers(path):
    xa.zeros((2, 2), path=path).close()
    with pytest.raises(xa.ArgumentError, match="mode='r\\+'"):
        xa.open(path, share=True)


def test_systems_without_such_locks(path, monkeypatch):
    xa.zeros((2, 2), path=path).close()
    monkeypatch.setattr(limits, "has_range_locks", False)
    with pytest.raises(xa.StorageError, match="without share=True") as caught:
        share(path)
    assert caught.value.errno == errno.ENOTSUP
    with xa.open(path, "r+") as array, pytest.raises(xa.LockedError):
        xa.open(array.path, "r+")


def test_more_writers_than_there_are_slots(path):
    xa.zeros((2, 2), path=path).close()
    with contextlib.ExitStack() as stack:
        arrays = [stack.enter_context(share(path, "pread")) for _ in range(blocks.WRITER_SLOTS)]
        for timeout in (0, 0.02):
            with pytest.raises(xa.LockedError, match="63 writers already share it"):
                share(path, timeout=timeout)
        # A waiting writer does not keep others from committing, and so from closing.
        thread = threading.Timer(0.02, arrays[7].close)
        thread.start()
        for timeout in (60, None):
            with share(path, timeout=timeout) as array:
                array.extend(0, 1)
        thread.join()
        stack.enter_context(share(path)).extend(0, 1)
        assert arrays[0].refresh()


def test_a_writer_that_does_not_come_to_the_end_of_a_commit(path, monkeypatch):
    """An opener waits for its timeout, but for some seconds at least."""
    xa.zeros((2, 2), path=path).close()
    with share(path) as one:
        one._store.writers.begin_commit()
        try:
            with monkeypatch.context() as patch:
                patch.setattr(limits, "commit_patience", 0)
                for timeout in (0, 0.02):
                    with pytest.raises(xa.LockedError, match=f"{os.getpid()}.* finish a commit"):
                        share(path, timeout=timeout)
            for timeout in (0, 60):
                thread = threading.Thread(target=lambda t=timeout: share(path, timeout=t).close())
                thread.start()
                thread.join(0.02)
                one._store.writers.end_commit()
                thread.join(60)
                assert not thread.is_alive()
                one._store.writers.begin_commit()
        finally:
            one._store.writers.end_commit()


@pytest.mark.invariant("I4")
def test_a_reader_takes_no_lock(pair, monkeypatch):
    one, _ = pair
    one.append(rows(1))

    def refuse(*args):
        raise AssertionError("a lock")

    monkeypatch.setattr(pytest.importorskip("fcntl"), "fcntl", refuse)
    with xa.open(one.path) as reader:
        assert reader[0, 0] == 1
        reader.refresh()
    monkeypatch.undo()


@pytest.mark.invariant("I4")
def test_what_is_known_is_not_read_again(pair, monkeypatch):
    """A writer keeps its knowledge until another one has changed something."""
    one, two = pair
    one.append(rows(1))

    def refuse(*args):
        raise AssertionError("decoded")

    with monkeypatch.context() as patch:
        patch.setattr(sharing, "decode_writers", refuse)
        patch.setattr(Follower, "take_up", refuse)
        one.append(rows(2))
        one.attrs["a"] = 1
        one.extend(0, 1)
        one.append(rows(3), side="start")
        with pytest.raises(AssertionError, match="decoded"):
            two.append(rows(4))
    two.append(rows(4))
    assert two.attrs == {"a": 1}
    two.attrs["a"] = 2
    one.append(rows(5))
    assert one.attrs == {"a": 2}
    assert_same(one[...], rows(3, 1, 2, 0, 4, 5))


def test_a_step_that_failed_is_read_again(pair, monkeypatch):
    """Earlier commits of others must not count as known."""
    one, two = pair
    one.append(rows(1))
    two.append(rows(2))
    with monkeypatch.context() as patch:
        patch.setattr(Follower, "take_up", _fail)
        with pytest.raises(xa.StorageError):
            one.append(rows(3))
    one.append(rows(4))
    assert_same(one[...], rows(1, 2, 4))


def _fail(*args):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_closed_one(pair):
    one, two = pair
    one.close()
    one.close()
    for call in (
        lambda: one.append(rows(1)),
        lambda: one.extend(0, 1),
        lambda: one.attrs.update(a=1),
        one.refresh,
        one.flush,
    ):
        with pytest.raises(xa.ClosedError):
            call()
    two.append(rows(1))


def test_the_table_of_writers():
    head = blocks.WritersHead(2**63, True)
    entries = [
        blocks.Writer(7, blocks.WriterKind.APPENDS, 31, True, 5, 2**60, -(2**62), 2**62),
        blocks.Writer(8, seen=1),
    ]
    block = blocks.encode_writers_head(head) + b"".join(map(blocks.encode_writer, entries))
    block = block.ljust(BLOCK, b"\0")
    assert blocks.decode_writers(block) == (head, entries)
    with pytest.raises(xa.CorruptError):
        blocks.decode_writers(block[:-1])
    with pytest.raises(xa.CorruptError):
        blocks.decode_writers(block[:68] + b"\3" + block[69:])


def test_a_damaged_table(path):
    """The first writer clears it; those that rely on it refuse it."""
    xa.create(path, (0, 3), "i4", chunks=(4, 2)).close()
    share(path).close()

    def damage():
        with open(f"{path}.xmd", "r+b") as file:
            file.seek(places.optional_block(file.read(), 1) + 64)
            file.write(b"\xff" * 4000)

    damage()
    one = share(path)
    one.append(rows(1))
    damage()
    for call in (lambda: share(path), lambda: one.append(rows(2)), one.refresh):
        with pytest.raises(xa.CorruptError, match="table of writers"):
            call()
    with pytest.raises(xa.LockedError, match="other writers share it"):
        xa.open(path, "r+")
    one[0] = 5
    one.close()
    with share(path) as one:
        one.append(rows(2))
        assert_same(one[...], rows(5, 2))


def test_sealed_by_the_last(pair, path):
    one, two = pair
    one.append(rows(1))
    one.close()
    two.append(rows(2))
    two.close()
    assert_same(format_reader.read(path)[0], rows(1, 2))
    with xa.open(path, "r+") as array:
        assert array._store.now.state.sealed and not array._store.now.unclean


def test_who_opens_while_another_closes(path):
    xa.create(path, (0, 3), "i4", chunks=(4, 2)).close()

    def work(number):
        for _ in range(25):
            with share(path) as array:
                array.append(rows(number))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    with xa.open(path, "r+") as array:
        assert np.bincount(array[:, 1]).tolist() == [25, 25, 25]


FORK = """
import os, sys
import extarray as xa
a = xa.open(sys.argv[1], "r+", share=True)
a.append([[1, 1, 1]])
child = os.fork()
if child == 0:
    assert a.mode == "r" and a[0, 0] == 1
    try:
        a.append([[2, 2, 2]])
    except xa.ReadOnlyError:
        with xa.open(sys.argv[1], "r+", share=True) as b:
            b.append([[3, 3, 3]])
        assert a.refresh() and a.shape == (2, 3)
        a.close()
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
a.append([[4, 4, 4]])
print(a[:, 0].tolist())
a.close()
xa.open(sys.argv[1], "r+").close()
"""


@pytest.mark.slow
def test_a_forked_child_reads(path, forked):
    xa.create(path, (0, 3), "i8", chunks=(4, 2)).close()
    assert forked(FORK, path) == "[1, 3, 4]\n"


def die(*arrays):
    """Do to open arrays what the death of their process does."""
    for array in arrays:
        array._store.writers.ticket = 0
        array._store.now.close()
        let_go(array)


def test_when_all_have_died(path, engine):
    """Left-overs of dead writers never show, whoever opens and grows the array."""
    xa.create(path, (0, 3), "i4", chunks=(4, 2)).close()
    for step in range(3):
        one, two = share(path, engine), share(path, engine)
        one.append(rows(step))
        policy = two._writers
        step = policy.committing
        step.__enter__()
        first = policy._begin_append(two, 0, False, 6)
        two._store.writers.end_commit()
        policy._fill_place(two, 0, first, 6, rows(7, 7, 7, 7, 7, 7))
        die(one, two)
    with share(path, engine) as one, share(path, engine) as two:
        two.extend(0, 5)
        assert_same(two[...], rows(0, 1, 2, 0, 0, 0, 0, 0))
        one.append(rows(9))
        assert one.shape == (9, 3)


# Failures ---------------------------------------------------------------------------------------


def breaking(monkeypatch, number, how):
    """Make one system call fail or be interrupted; return the call counter."""
    calls = [0]

    def wrap(module, name):
        real = getattr(module, name)

        def call(*args):
            calls[0] += 1
            if calls[0] != number:
                return real(*args)
            if how == "fails":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if how == "interrupted after":
                real(*args)
            raise KeyboardInterrupt

        monkeypatch.setattr(module, name, call)

    for name in ("pwrite", "ftruncate", "posix_fallocate"):
        wrap(os, name)
    wrap(pytest.importorskip("fcntl"), "fcntl")
    return calls


CHANGES = {
    "append": lambda a: a.append(rows(7, 8, 9, 10, 11)),
    "append inside a chunk": lambda a: a.append(rows(7)),
    "append of a source": lambda a: a.append(xa.from_array(rows(7, 8, 9, 10, 11))),
    "append at the start": lambda a: a.append(rows(7, 8), side="start"),
    "extend": lambda a: a.extend(1, 4),
    "shrink": lambda a: a.shrink(0, 2),
    "attributes": lambda a: a.attrs.update(a="x" * 2000),
}


@pytest.mark.parametrize("how", ["fails", "interrupted before", "interrupted after"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_every_call_once(path, monkeypatch, change, how):
    """The others are unharmed; the array is as before, or as intended."""
    expected = xa.from_array(rows(1, 2, 3))
    before = expected[...]
    change(expected)
    after = expected[...]
    for number in range(1, 80):
        xa.create(path, (0, 3), "i4", chunks=(4, 2), overwrite=True).close()
        with share(path) as one, share(path) as two:
            one.append(rows(1, 2, 3))
            with monkeypatch.context() as patch:
                calls = breaking(patch, number, how)
                with contextlib.suppress(xa.StorageError, KeyboardInterrupt):
                    change(one)
            two.refresh()
            values = two[...]
            if two.attrs or values.shape != before.shape:
                assert_same(values, after)
            else:
                assert_same(values, before)
            two.append(np.full((1, two.shape[1]), 50, "i4"))
            one.extend(0, 6)
            one.append(np.full((1, two.shape[1]), 51, "i4"), side="start")
            one.extend(1, 3)
            assert (one[0, :-3] == 51).all() and (one[-7, :-3] == 50).all()
            assert not one[-6:].any() and not one[:, -3:].any()
            assert_same(one[1:-7, :-3], values)
        if calls[0] < number:
            break
    assert 2 < number < 79


def is_free(array) -> bool:
    """Tell whether no thread or other writer waits for anything of an array."""
    policy, others = array._writers, array._store.writers
    found = []

    def look():
        for one in (policy._turn, others.steady):
            found.append(one.acquire(blocking=False))
            if found[-1]:
                one.release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return found == [True, True] and not others.is_committing()


@pytest.mark.slow
@injected.needs_no_tracing
@pytest.mark.parametrize(
    "change",
    [*CHANGES.values(), lambda a: a.refresh(), lambda a: a.close()],
    ids=[*CHANGES.keys(), "refresh", "close"],
)
def test_an_interrupt_at_every_place(path, change):
    """Whatever an interrupted writer held, other writers and its own threads can continue."""
    expected = xa.from_array(rows(1, 2, 3))
    states = [expected[...]]
    change(expected)
    states += [] if expected.closed else [expected[...]]
    for number in itertools.count(1):
        xa.create(path, (0, 3), "i4", chunks=(4, 2), overwrite=True).close()
        one, two = share(path), share(path)
        one.append(rows(1, 2, 3))
        with (
            contextlib.suppress(KeyboardInterrupt),
            injected.interrupted(number, policies, sharing, lock) as interrupt,
        ):
            change(one)
        where = f"{number}, {interrupt.place}"
        assert one.closed or is_free(one), where
        file = two._store.now.metadata
        assert lock._obstacle(file, system.EXCLUSIVE, lock._COMMIT) == system.FREE, where
        assert lock._obstacle(file, system.EXCLUSIVE, lock._TURNS, 1000) == system.FREE, where
        two.refresh()
        assert any(two.shape == s.shape and (two[...] == s).all() for s in states), where
        two.append(np.full((1, two.shape[1]), 50, "i4"))
        if not one.closed:
            one.append(np.full((1, two.shape[1]), 51, "i4"))
        two.refresh()
        assert (two[-1] == (50 if one.closed else 51)).all(), where
        one.close()
        two.close()
        if not interrupt.place:
            break
    assert number > 20


@injected.needs_no_tracing
def test_an_interrupt_while_a_chunk_is_held(tmp_path):
    """Nobody waits for the chunk afterwards."""
    path = tmp_path / "file"
    path.touch()
    place = lock._CHUNKS + 5
    one, two = (File.open(str(path), os.O_RDWR) for _ in range(2))
    with contextlib.closing(one), contextlib.closing(two):
        for number in itertools.count(1):
            with (
                contextlib.suppress(KeyboardInterrupt),
                injected.interrupted(number, lock) as interrupt,
                lock.holding(one, 5, 1),
            ):
                assert lock._obstacle(two, system.EXCLUSIVE, place) == system.EXCLUSIVE
            assert lock._obstacle(two, system.EXCLUSIVE, place) == system.FREE
            if not interrupt.place:
                break
        assert number > 5


def test_every_read_fails_once(path, monkeypatch):
    """The error belongs to the family and names the path."""
    xa.create(path, (0, 3), "i4", chunks=(4, 2)).close()
    real = File.read
    with share(path) as one, share(path) as two:
        for number in itertools.count():
            calls = itertools.count()

            def read(file, length, offset, calls=calls, number=number):
                if next(calls) != number:
                    return real(file, length, offset)
                raise OSError(errno.EIO, os.strerror(errno.EIO))

            shape, error = two.shape, None
            with monkeypatch.context() as patch:
                patch.setattr(File, "read", read)
                try:
                    one.append(rows(number))
                    shape = (shape[0] + 1, 3)
                except xa.StorageError as caught:
                    error = caught
            two.refresh()
            assert two.shape == shape
            assert error is None or str(path) in str(error)
            if next(calls) <= number:
                break
    assert number > 3


LIMIT = """
import resource, sys
import numpy as np
import extarray as xa
path, engine, sparse = sys.argv[1], sys.argv[2], sys.argv[3] == "True"
xa.create(path, (0, 1000), "f8", chunks=(4, 1000), sparse=sparse).close()
a = xa.open(path, "r+", share=True, engine=engine)
b = xa.open(path, "r+", share=True, engine=engine)
a.append(np.ones((3, 1000)))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, -1))
for array in (a, b, a):
    try:
        array.append(np.ones((100, 1000)))
    except xa.StorageError as error:
        assert "too large" in str(error), error
    else:
        raise AssertionError("there was space for this")
b.append(np.full((2, 1000), 2.0))
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
a.append(np.full((100, 1000), 3.0))
assert (a[:3] == 1).all() and (a[3:5] == 2).all() and (a[5:] == 3).all() and a.shape[0] == 105
"""


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True])
def test_limit_of_a_file(forked, path, engine, sparse):
    forked(LIMIT + "a.close(); b.close()\n", path, engine, sparse)


FULL_DISK = """
import errno, os, subprocess, sys
import numpy as np
import extarray as xa
folder, engine = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], check=True)
path = f"{folder}/scene"
for sparse in (False, True):
    xa.create(path, (0, 1000), "f8", chunks=(4, 1000), sparse=sparse, overwrite=True).close()
    a = xa.open(path, "r+", share=True, engine=engine)
    b = xa.open(path, "r+", share=True, engine=engine)
    a.append(np.ones((3, 1000)))
    for array in (a, b, a):
        try:
            array.append(np.ones((1000, 1000)))
        except xa.StorageError as error:
            assert error.errno == errno.ENOSPC, error
        else:
            raise AssertionError("there was space for this")
    b.append(np.full((20, 1000), 2.0))
    a.append(np.full((1, 1000), 3.0))
    assert (a[:3] == 1).all() and (a[3:23] == 2).all() and (a[23:] == 3).all()
    a.close(); b.close()
"""


@pytest.mark.sampled(1)
def test_full_disk(private_mount, script, tmp_path, engine):
    script(FULL_DISK, tmp_path, engine, prefix=private_mount)
