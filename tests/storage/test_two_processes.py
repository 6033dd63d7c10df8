"""Writers and readers in processes of their own, on every system: followed, refused, killed."""

from __future__ import annotations

import time

import numpy as np
import pytest
from engines import ENGINES

import extarray as xa
from extarray.common.system import host_name, is_running

#: Appends rows, and says how many there are after each append.
WRITER = """
import sys
import numpy as np, extarray as xa
path, engine, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
with xa.create(path, (0, 500), "i4", chunks=(8, 300), engine=engine) as array:
    print("open", flush=True)
    for i in range(n):
        array.append(np.full((1, 500), i, "i4"))
        print(i + 1, flush=True)
    print("written", flush=True)
    sys.stdin.readline()
"""

SHARING = """
import sys
import numpy as np, extarray as xa
path, number, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with xa.open(path, "r+", share=True) as array:
    print("open", flush=True)
    for i in range(n):
        array.append(np.full((1, 4), number, "i4"))
        print(i + 1, flush=True)
"""

TOGETHER = """
import sys
import numpy as np, extarray as xa
paths, engine, n = sys.argv[1:3], sys.argv[3], int(sys.argv[4])
arrays = [xa.create(path, (0, 4), "i4", chunks=(8, 3), engine=engine) for path in paths]
print("open", flush=True)
for i in range(n):
    with xa.commit(arrays):
        for number, array in enumerate(arrays):
            array.append(np.full((1 + number, 4), i, "i4"))
            array.attrs["step"] = i + 1
    print(i + 1, flush=True)
"""

LIMIT = 250.0
MANY = 10**6  # more than anybody waits for


@pytest.fixture
def started(forked):
    """Start writers, and end those that are left."""
    processes = []

    def start(*arguments):
        processes.append(forked.start(*arguments))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait(LIMIT)
        process.stdin.close()
        process.stdout.close()


def said(process, word):
    for line in process.stdout:
        if line.strip() == str(word):
            return
    raise AssertionError(f"the process has ended, and never said {word}")


def killed(process, said):
    """Kill a process; return the number of steps that it has reported, at least those it said."""
    process.kill()
    process.wait(LIMIT)
    assert not is_running(process.pid)
    reported = [int(line) for line in process.stdout if line[:-1].isdigit() and line[-1] == "\n"]
    return reported[-1] if reported else said


def rows(n):
    return np.repeat(np.arange(n, dtype="i4")[:, None], 500, axis=1)


@pytest.mark.parametrize("reading", ENGINES)
@pytest.mark.parametrize("writing", ENGINES)
def test_a_reader_follows(started, path, writing, reading):
    writer = started(WRITER, path, writing, 50)
    said(writer, "open")
    end, seen = time.monotonic() + LIMIT, 0
    with xa.open(path, engine=reading) as reader:
        while seen < 50 and time.monotonic() < end:
            reader.refresh()
            assert len(reader) >= seen
            seen = len(reader)
            np.testing.assert_array_equal(reader[...], rows(seen))
        assert seen == 50
        said(writer, "written")


def test_a_second_writer_is_refused_with_the_name_of_the_first(started, path, engine):
    writer = started(WRITER, path, engine, 1)
    said(writer, "written")
    named = rf"process {writer.pid} on {host_name()}"
    with pytest.raises(xa.LockedError, match=named):
        xa.open(path, "r+", engine=engine)
    with pytest.raises(xa.LockedError, match=named):
        xa.create(path, (1,), overwrite=True)
    writer.stdin.write("\n")
    writer.stdin.flush()
    assert writer.wait(LIMIT) == 0
    with xa.open(path, "r+", engine=engine) as array:
        np.testing.assert_array_equal(array[...], rows(1))


@pytest.mark.parametrize("reading", ENGINES)
@pytest.mark.parametrize("writing", ENGINES)
def test_a_writer_that_is_killed_loses_nothing(started, path, writing, reading):
    """Its lock is free at once; all rows that it has reported are there, and readers go on."""
    writer = started(WRITER, path, writing, MANY)
    said(writer, "open")
    with xa.open(path, engine=reading) as reader:
        said(writer, 20)
        reader.refresh()
        assert is_running(writer.pid)
        reported = killed(writer, 20)
        with xa.open(path, "r+", engine=writing) as array:
            n = len(array)
            assert n in (reported, reported + 1)
            np.testing.assert_array_equal(array[...], rows(n))
            array.append(rows(n + 1)[n:])
            reader.refresh()
            np.testing.assert_array_equal(reader[...], rows(n + 1))
    assert xa.check(path).ok


def test_writers_share(started, path):
    xa.create(path, (0, 4), "i4", chunks=(8, 3)).close()
    writers = [started(SHARING, path, number, 20) for number in range(2)]
    for writer in writers:
        said(writer, 20)
        assert writer.wait(LIMIT) == 0
    with xa.open(path) as array:
        assert np.bincount(array[:, 1]).tolist() == [20, 20]


def test_one_of_several_writers_is_killed(started, path):
    """The others go on at once, and the array has no gap."""
    xa.create(path, (0, 4), "i4", chunks=(8, 3)).close()
    writer = started(SHARING, path, 7, MANY)
    said(writer, "open")
    with xa.open(path, "r+", share=True) as other:
        for _ in range(10):
            other.append(np.full((1, 4), 8, "i4"))
        said(writer, 10)
        reported = killed(writer, 10)
        other.append(np.full((1, 4), 8, "i4"))
        other.extend(1, 1)
    with xa.open(path, "r+") as array:  # nobody shares it any more
        assert (array[:, :4] == array[:, :1]).all()
        assert np.bincount(array[:, 1]).tolist()[7:] in ([reported, 11], [reported + 1, 11])
        assert not array[:, 4].any()


def test_a_writer_of_several_arrays_is_killed(started, tmp_path, engine):
    paths = [tmp_path / name for name in "ab"]
    writer = started(TOGETHER, *paths, engine, MANY)
    said(writer, "open")
    with xa.open(paths[0], engine=engine) as a, xa.open(paths[1], engine=engine) as b:
        for step in (1, 10, 30):
            said(writer, step)
            xa.refresh([a, b])
            assert len(b) == 2 * len(a) >= 2 * step
        reported = killed(writer, 30)
        xa.refresh([a, b])
        n = len(a)
        assert n in (reported, reported + 1)
        assert len(b) == 2 * n
        assert a.attrs["step"] == b.attrs["step"] == n
        assert (a[...] == np.arange(n)[:, None]).all()
        assert (b[...] == np.repeat(np.arange(n), 2)[:, None]).all()
    with xa.open(paths[0], "r+") as a, xa.open(paths[1], "r+") as b:
        with xa.commit([a, b]):
            a.extend(0, 1)
            b.extend(0, 2)
        assert len(b) == 2 * len(a) == 2 * (n + 1)
