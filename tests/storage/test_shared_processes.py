"""Several writers of one array in separate processes, which are stopped and killed."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import numpy as np
import pytest
from compare import assert_same
from engines import ENGINES

import extarray as xa
from extarray.common.limits import limits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not limits.has_range_locks, reason="needs locks that Linux has"),
]

TIMEOUT = 250
# Bytes that an append writes in one step; with 0, it writes all while others commit.
appends = pytest.mark.parametrize("at_once", [0, 1 << 20])
# A writer without share freezes all chunks when it closes, before others share the array.
compressions = pytest.mark.parametrize("compression", [None, "zlib"])
LIMITS = "from extarray.common.limits import limits; limits.append_at_once = {}\n"


@contextlib.contextmanager
def processes(forked, code, arguments):
    """Run code in a process for each tuple of arguments; leave none at the end."""
    with contextlib.ExitStack() as stack:
        started = []
        for each in arguments:
            process = stack.enter_context(forked.start(code, *each))
            stack.callback(process.kill)
            started.append(process)
        yield started


def go(started):
    """Let waiting processes begin together."""
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()


def ended(started):
    for process in started:
        assert process.wait(TIMEOUT) == 0


# Elements ---------------------------------------------------------------------------------------

ELEMENTS = """
import sys
import numpy as np
import extarray as xa
path, engine, rank, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with xa.open(path, "r+", share=True, engine=engine) as a:
    print("ready", flush=True)
    sys.stdin.readline()
    for step in range(1, 30):
        a[:, rank:40:size] = step
        a[rank::size, 40 + rank] = step
        for i in range(rank, 40, size):
            a[i, 50] = step
    a.attrs[str(rank)] = step
"""


@pytest.mark.parametrize("order, compression", [("C", None), ("Z", None), ("C", "zlib")])
def test_disjoint_elements_in_the_same_chunks(forked, path, order, compression):
    """Single bytes, neighbours in memory, through both engines at once."""
    chunks = (16, 60)
    xa.create(path, (40, 60), "u1", chunks=chunks, order=order, compression=compression).close()
    arguments = [(path, ENGINES[rank % len(ENGINES)], rank, 4) for rank in range(4)]
    with processes(forked, ELEMENTS, arguments) as started:
        go(started)
        ended(started)
    with xa.open(path, "r+") as array:
        expected = np.zeros((40, 60), "u1")
        expected[:, :40] = 29
        for rank in range(4):
            expected[rank::4, 40 + rank] = 29
        expected[:, 50] = 29
        assert_same(array[...], expected)
        assert dict(array.attrs) == {str(rank): 29 for rank in range(4)}


# Appends ----------------------------------------------------------------------------------------

APPENDS = """
import sys
import numpy as np
import extarray as xa
path, engine, rank, side, count = *sys.argv[1:3], int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
rng = np.random.default_rng(rank)
with xa.open(path, "r+", share=True, engine=engine) as a:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        n = int(rng.integers(1, 9))
        block = np.empty((n, 5), "i4")
        block[:, 0], block[:, 1], block[:, 2], block[:, 3] = rank, number, np.arange(n), n
        block[:, 4] = rng.integers(1, 1 << 30)
        a.append(block, side=side)
"""


def runs(values):
    """Return (rank, number) of the appends in an array; each must be whole."""
    found, at = [], 0
    while at < len(values):
        rank, number, first, n, tag = values[at].tolist()
        block = values[at : at + n]
        assert first == 0 and len(block) == n > 0, "whole, without a gap"
        assert (block[:, [0, 1, 3, 4]] == [rank, number, n, tag]).all()
        assert block[:, 2].tolist() == list(range(n))
        found.append((rank, number))
        at += n
    return found


def check_frozen(path, found):
    """The last writer, which was alone, has frozen what the others have appended."""
    with xa.open(path) as array:
        about = array.info()
        assert about["frozen_chunks"] == array.axial.size
        assert runs(array[...]) in (found, found[::-1])


@pytest.mark.parametrize("engine, side", [("mmap", "end"), ("pread", "start")])
@appends
@compressions
def test_appends_of_four_processes(forked, path, engine, side, at_once, compression):
    with xa.create(path, (0, 5), "i4", chunks=(7, 3), compression=compression) as array:
        array.append(np.array([[4, 0, n, 9, 1] for n in range(9)], "i4"))
    arguments = [(path, engine, rank, side, 60) for rank in range(4)]
    code = LIMITS.format(at_once) + APPENDS
    with processes(forked, code, arguments) as started, xa.open(path) as reader:
        go(started)
        known, states = reader[...], 0
        while any(process.poll() is None for process in started):
            if reader.refresh():
                values = reader[...]
                assert_same(
                    values[: len(known)] if side == "end" else values[len(values) - len(known) :],
                    known,
                )
                runs(values)
                known, states = values, states + 1
        ended(started)
    assert states > 1
    with xa.open(path, "r+") as array:
        found = runs(array[...])
        assert not array._store.now.unclean
    if side == "start":
        found.reverse()
    for rank in range(4):
        assert [number for r, number in found if r == rank] == list(range(60))
    if compression is not None:
        check_frozen(path, found)


# Kills ------------------------------------------------------------------------------------------

KILLS = """
import os, random, signal, sys, time
import numpy as np
import extarray as xa

path, engine, rounds, kills = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
log = os.open(f"{path}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def write(rank):
    rng = np.random.default_rng(rank)
    a = xa.open(path, "r+", share=True, engine=engine)
    for number in range(10**6):
        n = int(rng.integers(1, 9))
        block = np.empty((n, 5), "i4")
        block[:, 0], block[:, 1], block[:, 2], block[:, 3] = rank, number, np.arange(n), n
        block[:, 4] = rng.integers(1, 1 << 30)
        a.append(block)
        os.write(log, f"{rank} {number}\\n".encode())
        if number % 7 == rank % 7:
            a.attrs[str(rank % 4)] = [rank, number]
        if number % 11 == rank % 11:
            a.extend(0, 0)
            a.reserve((a.shape[0] + 9, 5))


def start(rank):
    pid = os.fork()
    if pid == 0:
        try:
            write(rank)
        except BaseException as error:
            os.write(2, f"{rank}: {error!r}\\n".encode())
        finally:
            os._exit(1)
    return pid


random.seed(int(sys.argv[5]))
rank = 0
for _ in range(rounds):
    living = []
    for _ in range(kills):
        while len(living) < 3:
            living.append(start(rank))
            rank += 1
        time.sleep(random.random() * 0.03)
        pid = living.pop(random.randrange(3))
        os.kill(pid, signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    for pid in living:
        os.kill(pid, signal.SIGKILL)
    for pid in living:
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    with xa.open(path, "r+", timeout=0) as a:  # the locks of the dead are free at once
        rows = a.shape[0]
        a.extend(0, 20)
        assert not a[rows:].any(), "what was never committed must not show"
        a.shrink(0, 20)
"""


@pytest.mark.invariant("I5")
@pytest.mark.parametrize("engine, seed", [("mmap", 1), ("pread", 2)])
@appends
@compressions
def test_killed_appenders(forked, path, engine, seed, at_once, compression):
    """Some appenders live long, some die as they open: each append is whole or absent."""
    xa.create(path, (0, 5), "i4", chunks=(7, 5), compression=compression).close()
    assert forked(LIMITS.format(at_once) + KILLS, path, engine, 4, 40, seed) == ""
    with xa.open(path, "r+") as array:
        found = runs(array[...])
        attrs = dict(array.attrs)
    returned = {}
    with open(f"{path}.log") as log:
        for line in log:
            rank, number = map(int, line.split())
            returned[rank] = number
    assert len(returned) > 3
    for rank in {rank for rank, _ in found} | set(returned):
        numbers = [number for r, number in found if r == rank]
        assert numbers == list(range(len(numbers))), "in the order of the calls"
        last = returned.get(rank, -1)
        assert len(numbers) in (last + 1, last + 2), "the call in flight may be there, or not"
    for rank, number in attrs.values():
        assert number <= returned[rank]


# Changes of all kinds ---------------------------------------------------------------------------

MIXED = """
import sys
import numpy as np
import extarray as xa
path, engine, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
with xa.open(path, "r+", share=True, engine=engine) as a:
    print("ready", flush=True)
    sys.stdin.readline()
    done = 0
    while done < 60:
        if rank == 0:
            a.extend(1, 1)
        elif rank == 1:
            rows = a.shape[0]
            if rows > 200:  # one of the others may be at its end when the other begins
                a.shrink(0, rows - 200, side="start")
            a.attrs["shrinks"] = done
        else:
            try:
                a.append(np.full((3, a.shape[1]), 1000 * rank + done, "i4"))
            except xa.ShapeError:  # an axis has grown meanwhile
                a.refresh()
                continue
        done += 1
        a.attrs[str(rank)] = done
"""


@appends
@compressions
def test_changes_of_all_kinds(forked, path, at_once, compression):
    with xa.create(path, (30, 2), "i4", chunks=(4, 3), compression=compression) as array:
        array[...] = 1000
    arguments = [(path, ENGINES[rank % len(ENGINES)], rank) for rank in range(4)]
    with processes(forked, LIMITS.format(at_once) + MIXED, arguments) as started:
        go(started)
        ended(started)
    with xa.open(path, "r+") as array:
        assert dict(array.attrs) == {**{str(rank): 60 for rank in range(4)}, "shrinks": 59}
        assert array.shape[1] == 62
        values = array[...]
        numbers = values[:, 0]
        for rank in (2, 3):
            own = numbers[numbers // 1000 == rank]
            assert (np.diff(own) >= 0).all() and own[-1] % 1000 == 59
        # An append has its value in the columns that existed then, and zeros in later ones.
        for row in values:
            n = np.count_nonzero(row)
            assert n >= 2 and (row[:n] == row[0]).all()
        rows = array.shape[0]
        array.extend(0, 50)
        array.extend(1, 5)
        assert not array[rows:].any() and not array[:, 62:].any()


# Stops ------------------------------------------------------------------------------------------

STOPPED = """
import os, signal, sys
import numpy as np
import extarray as xa


class Data:
    shape, dtype = (2, 3), np.dtype("i4")

    def __getitem__(self, selection):
        print("in flight", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        return np.full((2, 3), 7, "i4")[selection]


with xa.open(sys.argv[1], "r+", share=True, engine=sys.argv[2]) as a:
    a.append(Data())
"""

BEHIND = """
import sys
import extarray as xa
with xa.open(sys.argv[1], "r+", share=True, engine=sys.argv[2]) as a:
    try:
        print("ready", flush=True)
        a.append([[8, 8, 8]])
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    a.append([[9, 9, 9]])
"""


def stopped(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("engine, then", [("mmap", "goes on"), ("pread", "dies")])
def test_a_stopped_writer_blocks_appends_behind_it_alone(forked, path, engine, then):
    xa.create(path, (0, 3), "i4", chunks=(4, 2)).close()
    with xa.open(path, "r+", share=True, engine=engine) as array:
        array.append([[1, 1, 1]])
        with contextlib.ExitStack() as stack:
            (first,) = stack.enter_context(processes(forked, STOPPED, [(path, engine)]))
            assert first.stdout.readline() == "in flight\n"
            while not stopped(first.pid):
                time.sleep(0.001)
            (second,) = stack.enter_context(processes(forked, BEHIND, [(path, engine)]))
            assert second.stdout.readline() == "ready\n"
            array[0] = 2
            array.attrs["a"] = 1
            array.flush()
            assert not array.refresh()
            with xa.open(path) as reader, xa.open(path, "r+", share=True) as third:
                assert reader[...].tolist() == third[...].tolist() == [[2, 2, 2]]
            time.sleep(0.1)  # usually enough for the second to get its place
            second.send_signal(signal.SIGINT)
            assert second.stdout.readline() == "interrupted\n"
            first.send_signal(signal.SIGCONT if then == "goes on" else signal.SIGKILL)
            assert second.wait(TIMEOUT) == 0
            first.wait(TIMEOUT)
        assert array.refresh()
        expected = [2, 7, 7, 9] if then == "goes on" else [2, 9]
        assert array[:, 1].tolist() == expected


def test_the_lock_of_a_killed_writer_is_free_at_once(forked, path):
    """For waiting writers too, alone or sharing."""
    xa.create(path, (0, 3), "i4", chunks=(4, 2)).close()
    code = """
import sys
import extarray as xa
a = xa.open(sys.argv[1], "r+", share=sys.argv[2] == "True")
a.append([[1, 1, 1]])
print("ready", flush=True)
sys.stdin.read()
"""
    for shared in (False, True):
        with processes(forked, code, [(path, shared)]) as (first,):
            assert first.stdout.readline() == "ready\n"
            with pytest.raises(xa.LockedError, match=str(first.pid)):
                xa.open(path, "r+", share=not shared)
            os.kill(first.pid, signal.SIGKILL)
            with xa.open(path, "r+", share=not shared, timeout=TIMEOUT) as array:
                array.append([[2, 2, 2]])
    assert xa.open(path)[:, 0].tolist() == [1, 2, 1, 2]
