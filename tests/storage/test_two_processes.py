"""A writer in another process, on every system: followed, refused, killed."""

from __future__ import annotations

import time

import numpy as np
import pytest

import extarray as xa
from extarray.common.system import is_running
from extarray.storage import lock

WRITER = """
import sys
import numpy as np, extarray as xa
path, engine, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
with xa.create(path, (0, 4), "i4", chunks=(8, 3), engine=engine) as array:
    print("open", flush=True)
    for i in range(n):
        array.append(np.full((1, 4), i, "i4"))
        array.flush()
    print("written", flush=True)
    sys.stdin.readline()
"""

SHARING = """
import sys
import numpy as np, extarray as xa
path, number = sys.argv[1], int(sys.argv[2])
with xa.open(path, "r+", share=True) as array:
    for _ in range(20):
        array.append(np.full((1, 4), number, "i4"))
        array.flush()
"""

LIMIT = 60.0

pytestmark = pytest.mark.slow


@pytest.fixture
def started(script):
    """Start writers, and end those that are left."""
    processes = []

    def start(*arguments):
        processes.append(script.start(*arguments))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait(LIMIT)
        process.stdin.close()
        process.stdout.close()


def said(process, word):
    assert process.stdout.readline().strip() == word


def test_a_reader_follows(started, path, engine):
    writer = started(WRITER, path, engine, 50)
    said(writer, "open")
    end, seen = time.monotonic() + LIMIT, 0
    with xa.open(path, engine=engine) as reader:
        while seen < 50 and time.monotonic() < end:
            reader.refresh()
            assert len(reader) >= seen
            seen = len(reader)
            assert (reader[...] == np.arange(seen)[:, None]).all()
    assert seen == 50
    said(writer, "written")


def test_a_second_writer_is_refused_with_the_name_of_the_first(started, path, engine):
    writer = started(WRITER, path, engine, 1)
    said(writer, "open")
    said(writer, "written")
    named = rf"process {writer.pid} on {lock.own_host()}"
    with pytest.raises(xa.LockedError, match=named):
        xa.open(path, "r+", engine=engine)
    with pytest.raises(xa.LockedError, match=named):
        xa.create(path, (1,), overwrite=True)
    writer.communicate("\n", timeout=LIMIT)
    with xa.open(path, "r+", engine=engine) as array:
        assert array[...].tolist() == [[0] * 4]


def test_a_killed_writer_is_in_nobody_s_way(started, path, engine):
    writer = started(WRITER, path, engine, 20)
    said(writer, "open")
    said(writer, "written")
    assert is_running(writer.pid)
    writer.kill()
    writer.wait(LIMIT)
    assert not is_running(writer.pid)
    with xa.open(path, "r+", timeout=LIMIT, engine=engine) as array:
        assert (array[...] == np.arange(20)[:, None]).all()
        array.append(np.full((1, 4), 20, "i4"))
    with xa.open(path, engine=engine) as reader:
        assert len(reader) == 21


def test_writers_share(started, path):
    xa.create(path, (0, 4), "i4", chunks=(8, 3)).close()
    writers = [started(SHARING, path, number) for number in range(2)]
    for writer in writers:
        writer.communicate(timeout=LIMIT)
        assert writer.returncode == 0
    with xa.open(path) as array:
        assert np.bincount(array[:, 1]).tolist() == [20, 20]
