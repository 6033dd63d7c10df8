"""Processes of two hosts on a file system that both share, each through its own client.

Each test runs programs on both hosts; `pair` gives the hosts in both orders.  A wait has an end
only for programs that hang; `tests/support/view_ages.py` measures how old a reader's view may be.
"""

from __future__ import annotations

import contextlib
import random
import signal
import time

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.process]

LOOK_AROUND = """
import os, socket, sys
print(open("/proc/sys/kernel/random/boot_id").read().strip(), socket.gethostname())
"""


def test_the_hosts_are_two_and_share_a_folder(hosts, shared):
    seen = [host(LOOK_AROUND).split() for host in hosts]
    assert not set(seen[0]) & set(seen[1])
    hosts[0]("import sys; open(sys.argv[1], 'w').write('there')", f"{shared}/a")
    assert hosts[1]("import sys; print(open(sys.argv[1]).read())", f"{shared}/a") == "there\n"


CREATE = """
import ast, sys
import extarray as xa
path, shape, chunks, space = sys.argv[1:]
shape, chunks = ast.literal_eval(shape), ast.literal_eval(chunks)
xa.create(path, shape, "i4", chunks=chunks, sparse=space == "sparse").close()
"""


def ended(process) -> str:
    """Return what is left of a process's output, once it has ended well."""
    rest = process.stdout.read()
    assert process.wait(250) == 0, rest
    return rest


def killed(process) -> list[str]:
    """Kill a process; return the whole lines that it had written."""
    process.kill()
    rest = process.stdout.read()
    assert process.wait(250) == -signal.SIGKILL, rest
    return rest.rpartition("\n")[0].splitlines()


def until(expected: str, host, code: str, *args) -> list[str]:
    """Run a reader until its output is as expected, as its host may see news late; return all."""
    outputs, end = [], time.monotonic() + 60
    while not outputs or outputs[-1] != expected:
        assert time.monotonic() < end, f"still {outputs[-1]!r} instead of {expected!r}"
        outputs.append(host(code, *args))
    return outputs


# -- locks ---------------------------------------------------------------------------------------

HOLDS = """
import sys
import extarray as xa
with xa.open(sys.argv[1], "r+") as array:
    print("open", flush=True)
    sys.stdin.readline()
    array.append([7])
"""

IS_REFUSED = """
import sys
import extarray as xa
try:
    xa.open(sys.argv[1], "r+", timeout=float(sys.argv[2])).close()
except xa.LockedError as error:
    print("refused:", error)
else:
    print("opened")
"""

SUM = """
import sys
import extarray as xa
with xa.open(sys.argv[1], "r+", timeout=30) as array:
    print(array[...].tolist())
"""


@pytest.mark.parametrize("end", ["closes", "dies"])
@pytest.mark.usefixtures("locks")
def test_one_writer_of_all_hosts(pair, shared, end):
    here, there = pair
    here(CREATE, f"{shared}/a", (0,), 5, "reserved")
    with here.start(HOLDS, f"{shared}/a") as writer:
        assert writer.stdout.readline() == "open\n"
        assert there(IS_REFUSED, f"{shared}/a", 0).startswith("refused:")
        assert there(IS_REFUSED, f"{shared}/a", 0.5).startswith("refused:")
        if end == "dies":
            killed(writer)
        else:
            print("on", file=writer.stdin, flush=True)
            ended(writer)
    assert there(SUM, f"{shared}/a") == ("[]\n" if end == "dies" else "[7]\n")
    assert there(IS_REFUSED, f"{shared}/a", 0) == "opened\n"


SHARES = """
import sys
import numpy as np
import extarray as xa
path, rank, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
try:
    array = xa.open(path, "r+", share=True)
except xa.errors.ExtArrayError as error:
    print("refused", error, flush=True)
    sys.exit()
print("open", flush=True)
sys.stdin.readline()
for number in range(count):
    array.append(np.full((2, 3), 1000 * rank + number, "i4"))
array.close()
"""

ROWS = """
import sys
import extarray as xa
with xa.open(sys.argv[1], "r+", timeout=30) as array:
    rows = array[...]
    assert (rows == rows[:, :1]).all(), rows
    print(*rows[:, 0])
"""


@pytest.mark.usefixtures("locks")
def test_writers_that_share_an_array_are_on_one_host(pair, shared):
    """One on a second host is refused, or takes part without a loss."""
    here, there = pair
    here(CREATE, f"{shared}/a", (0, 3), (5, 3), "reserved")
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(host.start(SHARES, f"{shared}/a", rank, 20))
            for rank, host in enumerate([here, here, there])
        ]
        told = [writer.stdout.readline().split() for writer in writers]
        assert [words[0] for words in told[:2]] == ["open", "open"]
        for writer in writers:
            with contextlib.suppress(BrokenPipeError):
                print("on", file=writer.stdin, flush=True)
        for writer in writers:
            ended(writer)
    expected = [
        1000 * rank + number
        for rank, words in enumerate(told)
        for number in range(20)
        if words[0] == "open"
    ]
    rows = [int(word) for word in there(ROWS, f"{shared}/a").split()]
    assert rows[::2] == rows[1::2], "an append was torn"
    assert sorted(rows[::2]) == sorted(expected)


# -- readers beside a writer ---------------------------------------------------------------------

WRITES = """
import sys
import numpy as np
import extarray as xa
sparse = sys.argv[2] == "sparse"
array = xa.create(sys.argv[1], (0, 24), "i4", chunks=(4, 8), fill_value=-1, sparse=sparse)
array.attrs["rows"] = 0
print("ready", flush=True)
sys.stdin.readline()
for row in range(int(sys.argv[3])):
    array.append(np.full((1, array.shape[1]), row, "i4"))
    if row % 11 == 3:
        array.extend(1, 3)
    if row % 23 == 7:
        array.shrink(1, 2)
    if row % 7 == 0:
        array.attrs["rows"] = row + 1
    if row % 5 == 0:
        array.flush()
array.attrs["ended"] = True
array.close()
"""

READS = """
import sys
import extarray as xa
path, way = sys.argv[1], sys.argv[2]
reader, rows, looks, ended = None, 0, 0, False
print("ready", flush=True)
while not ended:
    if reader is None:
        reader = xa.open(path)
    else:
        reader.refresh()
    n = len(reader)
    assert n >= rows, f"went back from {rows} rows to {n}"
    assert reader.attrs["rows"] <= n
    ended, rows = reader.attrs.get("ended", False), n
    for row in {0, n // 3, n // 2, n - 2, n - 1} & set(range(n)):
        found = reader[row, :24]
        assert (found == row).all(), f"row {row} of {n}: {found}"
        looks += 1
    if way == "anew":
        reader.close()
        reader = None
print(rows, looks)
"""


@pytest.mark.parametrize("space", ["reserved", "sparse"])
def test_readers_beside_a_writer(pair, shared, space):
    """They find whole appends only, the right values, and never an older state than before."""
    here, there = pair
    count = 400
    with here.start(WRITES, f"{shared}/a", space, count) as writer:
        assert writer.stdout.readline() == "ready\n"
        with (
            there.start(READS, f"{shared}/a", "refresh") as first,
            there.start(READS, f"{shared}/a", "anew") as second,
            here.start(READS, f"{shared}/a", "refresh") as third,
        ):
            for reader in (first, second, third):
                assert reader.stdout.readline() == "ready\n"
            print("on", file=writer.stdin, flush=True)
            ended(writer)
            for reader in (first, second, third):
                rows, looks = map(int, ended(reader).split())
                assert rows == count
                assert looks > 0


FOLLOWS = """
import sys
import numpy as np
import extarray as xa
with xa.open(sys.argv[1]) as array:
    print("ready", flush=True)
    rows = len(array)
    for selection, data in array.follow(axis=0, timeout=100):
        assert selection[0].start == rows, (selection, rows)
        assert (data[:, :24] == np.arange(rows, rows + len(data))[:, None]).all(), (rows, data)
        rows += len(data)
        if rows == int(sys.argv[2]):
            break
print(rows)
"""


def test_a_reader_follows_each_append(pair, shared):
    here, there = pair
    with here.start(WRITES, f"{shared}/a", "reserved", 150) as writer:
        assert writer.stdout.readline() == "ready\n"
        with there.start(FOLLOWS, f"{shared}/a", 150) as reader:
            assert reader.stdout.readline() == "ready\n"
            print("on", file=writer.stdin, flush=True)
            ended(writer)
            assert ended(reader) == "150\n"


FLUSHED = """
import sys
import numpy as np
import extarray as xa
path, value = sys.argv[1], int(sys.argv[2])
with xa.open(path, "r+", timeout=30) as array:
    array.append(np.full((1, 50), value, "i4"))
    array[0, 0] = value
    array.flush()
    print("flushed", flush=True)
    sys.stdin.readline()
"""

OPENED_NOW = """
import sys
import extarray as xa
with xa.open(sys.argv[1]) as array:
    print(len(array), array[-1].min(), array[-1].max(), array[0, 0])
"""


def test_an_array_opened_after_a_flush_shows_it_soon(pair, shared):
    """The writer may still have it open; until then the state before is seen, and is whole."""
    here, there = pair
    here(CREATE, f"{shared}/a", (0, 50), (5, 50), "reserved")
    for value in range(1, 9):
        with here.start(FLUSHED, f"{shared}/a", value) as writer:
            assert writer.stdout.readline() == "flushed\n"
            now = f"{value} {value} {value} {value}\n"
            for found in until(now, there, OPENED_NOW, f"{shared}/a"):
                rows, low, high, changed = map(int, found.split())
                assert rows in {value - 1, value}
                assert low == high == rows
                assert changed in {value - 1, value}
            print("on", file=writer.stdin, flush=True)
            ended(writer)


# -- writers that move, and are killed -----------------------------------------------------------

MOVES = """
import sys
import numpy as np
import extarray as xa
path, way, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
durability = {"durability": "commit"} if way == "durable" else {}
with xa.open(path, "r+", timeout=60, **durability) as array:
    frames = len(array)
    print(frames, flush=True)
    for low in range(0, frames, 64):
        found = array[low : low + 64]
        expected = np.arange(low, low + len(found))[:, None, None]
        assert (found == expected).all(), f"frames {low}...: {np.unique(found)}"
    print("whole", flush=True)
    while True:
        array.append(np.full((1, size, size), len(array), "i4"))
        if way == "flush":
            array.flush()
        print(len(array), flush=True)
"""


@pytest.mark.parametrize("way", ["append", "flush", "durable"])
@pytest.mark.parametrize("size", [8, 64])
def test_killed_writers_on_either_side_lose_no_frame(hosts, shared, way, size):
    """Each begins where the last one on the other host ended; the append under way may count."""
    path, rng = f"{shared}/a", random.Random(size)
    hosts[0](CREATE, path, (0, size, size), (4, size, size), "reserved")
    told = 0
    for turn in range(8):
        with hosts[turn % 2].start(MOVES, path, way, size) as writer:
            began = writer.stdout.readline()
            assert began, f"turn {turn}: refused, after {told} frames"
            assert told <= int(began) <= told + 1, f"turn {turn} began at {began.strip()} of {told}"
            assert writer.stdout.readline() == "whole\n"
            told = int(began)
            for _ in range(rng.randint(1, 60)):
                told = int(writer.stdout.readline())
            for line in killed(writer):
                told = int(line)


# -- writers of elements -------------------------------------------------------------------------

ELEMENTS = """
import sys
import extarray as xa
path, rank, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with xa.open(path, "r+", share="elements") as array:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(1, rounds + 1):
        for row in range(rank, array.shape[1], 2):
            array[number % 4, row] = 1000 * number + rank
        array[4, :, rank::2] = 1000 * number + rank
    array.flush()
"""

ALL_ELEMENTS = """
import sys
import numpy as np
import extarray as xa
with xa.open(sys.argv[1]) as array:
    values = array[...]
rounds = int(sys.argv[2])
expected = np.empty_like(values)
for rank in range(2):
    for number in range(rounds - 3, rounds + 1):
        expected[number % 4, rank::2] = 1000 * number + rank
    expected[4, :, rank::2] = 1000 * rounds + rank
wrong = np.argwhere(values != expected)
print(f"{len(wrong)} wrong: {wrong[:4].tolist()}..." if len(wrong) else "right")
"""


@pytest.mark.parametrize("space", ["reserved", "sparse"])
def test_writers_of_elements_in_the_same_chunks(hosts, shared, space):
    hosts[0](CREATE, f"{shared}/a", (5, 24, 64), (5, 24, 64), space)
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(host.start(ELEMENTS, f"{shared}/a", rank, 12))
            for rank, host in enumerate(hosts)
        ]
        for writer in writers:
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            print("on", file=writer.stdin, flush=True)
        for writer in writers:
            ended(writer)
    for host in hosts:
        until("right\n", host, ALL_ELEMENTS, f"{shared}/a", 12)


EXTENDS = """
import sys
import extarray as xa
with xa.open(sys.argv[1], "r+") as array:
    for line in sys.stdin:
        array.extend(0, int(line))
        array.flush()
        print(len(array), flush=True)
"""

FILLS = """
import sys, time
import extarray as xa
with xa.open(sys.argv[1], "r+", share="elements") as array:
    for line in sys.stdin:
        rows = int(line)
        while len(array) < rows:
            if not array.refresh():
                time.sleep(0.01)
        array[int(sys.argv[2]) : rows : 2] = rows
        array.flush()
        print("filled", flush=True)
"""


def test_writers_of_elements_fill_what_a_third_extends(pair, shared):
    here, there = pair
    here(CREATE, f"{shared}/a", (0, 6), (4, 6), "reserved")
    with contextlib.ExitStack() as stack:
        owner, *writers = (
            stack.enter_context(host.start(*program))
            for host, *program in [
                (here, EXTENDS, f"{shared}/a"),
                (here, FILLS, f"{shared}/a", 0),
                (there, FILLS, f"{shared}/a", 1),
            ]
        )
        for rows in range(3, 31, 3):
            print(3, file=owner.stdin, flush=True)
            assert owner.stdout.readline() == f"{rows}\n"
            for writer in writers:
                print(rows, file=writer.stdin, flush=True)
            for writer in writers:
                assert writer.stdout.readline() == "filled\n"
            for host in pair:
                until(f"{rows} [{rows}]\n", host, VALUES, f"{shared}/a")


# -- arrays that are replaced --------------------------------------------------------------------

LOOKS_AGAIN = """
import sys, time
import extarray as xa
with xa.open(sys.argv[1]) as array:
    print(len(array), flush=True)
    sys.stdin.readline()
    old = set(array[...].ravel().tolist())
    assert old == {3}, old
    try:
        for _ in range(3000):
            array.refresh()
            assert array.shape == (3, 4)
            time.sleep(0.01)
    except xa.ReplacedError:
        print("replaced", flush=True)
    array.refresh(on_replaced="reopen")
    print(len(array), set(array[...].ravel().tolist()))
"""

VALUES = """
import sys
import numpy as np
import extarray as xa
with xa.open(sys.argv[1]) as array:
    print(len(array), np.unique(array[...]).tolist())
"""

FILLED = """
import sys
import numpy as np
import extarray as xa
path, rows = sys.argv[1], int(sys.argv[2])
xa.from_array(np.full((rows, 4), rows, "i4"), path, overwrite=True).close()
"""


def test_a_reader_learns_that_its_array_was_replaced(pair, shared):
    here, there = pair
    here(FILLED, f"{shared}/a", 3)
    with there.start(LOOKS_AGAIN, f"{shared}/a") as reader:
        assert reader.stdout.readline() == "3\n"
        here(FILLED, f"{shared}/a", 5)
        print("on", file=reader.stdin, flush=True)
        assert ended(reader) == "replaced\n5 {5}\n"
    # An array opened anew is never a mixture of both.
    for rows in range(6, 12):
        here(FILLED, f"{shared}/a", rows)
        found = until(f"{rows} [{rows}]\n", there, VALUES, f"{shared}/a")
        assert set(found) <= {f"{n} [{n}]\n" for n in (rows - 1, rows)}


REPLACES = """
import sys
import numpy as np
import extarray as xa
try:
    xa.from_array(np.full((2, 4), 9, "i4"), sys.argv[1], overwrite=True).close()
except xa.LockedError:
    print("refused")
else:
    print("replaced")
"""


@pytest.mark.usefixtures("locks")
def test_an_array_with_a_writer_is_not_replaced_on_the_other_host(pair, shared):
    here, there = pair
    here(CREATE, f"{shared}/a", (0,), 5, "reserved")
    with here.start(HOLDS, f"{shared}/a") as writer:
        assert writer.stdout.readline() == "open\n"
        assert there(REPLACES, f"{shared}/a") == "refused\n"
        print("on", file=writer.stdin, flush=True)
        ended(writer)
    assert there(SUM, f"{shared}/a") == "[7]\n"
    assert there(REPLACES, f"{shared}/a") == "replaced\n"
    until("2 [9]\n", here, VALUES, f"{shared}/a")


# -- groups --------------------------------------------------------------------------------------

COMMITS = """
import sys
import numpy as np
import extarray as xa
folder, count = sys.argv[1], int(sys.argv[2])
arrays = [xa.open(f"{folder}/{name}", "r+", timeout=60) for name in ("data", "time", "quality")]
rows = {len(array) for array in arrays}
assert len(rows) == 1, rows
print(*rows, flush=True)
sys.stdin.readline()
for _ in range(count):
    row = len(arrays[0])
    with xa.commit(arrays):
        for array in arrays:
            array.append(np.full((1, *array.shape[1:]), row))
            array.attrs["rows"] = row + 1
    print(row + 1, flush=True)
for array in arrays:
    array.close()
"""

REFRESHES = """
import sys
import extarray as xa
folder, count = sys.argv[1], int(sys.argv[2])
arrays = [xa.open(f"{folder}/{name}") for name in ("data", "time", "quality")]
print("ready", flush=True)
rows = 0
while rows < count:
    xa.refresh(arrays)
    found = {len(array) for array in arrays} | {a.attrs.get("rows", 0) for a in arrays}
    assert len(found) == 1, found
    assert rows <= min(found), f"went back from {rows} rows to {found}"
    (rows,) = found
    for row in {0, rows // 2, rows - 1} & set(range(rows)):
        assert all((array[row] == row).all() for array in arrays), row
print(rows)
"""

NEW_GROUP = """
import sys
import extarray as xa
for name, shape in [("data", (0, 3)), ("time", (0,)), ("quality", (0, 2))]:
    xa.create(f"{sys.argv[1]}/{name}", shape, "i8", chunks=(2, *shape[1:])).close()
"""


def test_commits_of_several_arrays_are_seen_whole(pair, shared):
    here, there = pair
    here(NEW_GROUP, shared)
    with (
        here.start(COMMITS, shared, 120) as writer,
        there.start(REFRESHES, shared, 120) as reader,
    ):
        assert writer.stdout.readline() == "0\n"
        assert reader.stdout.readline() == "ready\n"
        print("on", file=writer.stdin, flush=True)
        ended(writer)
        assert ended(reader) == "120\n"


def test_killed_writers_of_several_arrays_lose_no_commit(hosts, shared):
    hosts[0](NEW_GROUP, shared)
    rng, told = random.Random(3), 0
    for turn in range(8):
        with hosts[turn % 2].start(COMMITS, shared, 10**6) as writer:
            began = writer.stdout.readline()
            assert began, f"turn {turn}: refused, after {told} commits"
            assert told <= int(began) <= told + 1, f"turn {turn} began at {began.strip()} of {told}"
            print("on", file=writer.stdin, flush=True)
            told = int(began)
            for _ in range(rng.randint(1, 30)):
                told = int(writer.stdout.readline())
            for line in killed(writer):
                told = int(line)
