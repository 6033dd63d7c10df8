"""Single elements of files that are not mapped: one call each, and nothing kept between calls."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import extarray as xa

#: Writes elements one by one, and says how many there are after each.
WRITER = """
import sys
import extarray as xa
with xa.open(sys.argv[1], "r+", engine="pread") as array:
    for i in range(10**6):
        array[i % 40, i // 40 % 50] = i + 1.0
        print(i + 1, flush=True)
"""

needs_counts = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts calls")


@pytest.fixture
def path(tmp_path):
    xa.create(tmp_path / "a", (40, 50), "f8", chunks=(16, 16)).close()
    return tmp_path / "a"


def counts():
    """Return the numbers of this thread's calls that read and that write, and their bytes."""
    found = dict(line.split(": ") for line in Path("/proc/thread-self/io").read_text().splitlines())
    return np.array([int(found[name]) for name in ("syscr", "rchar", "syscw", "wchar")])


@needs_counts
@pytest.mark.parametrize("order", "CFZH")
def test_an_element_is_one_call(path, order):
    options = {"chunks": (16, 16), "order": order, "engine": "pread"}
    with xa.create(path, (40, 50), "f8", overwrite=True, **options) as array:
        array[20, 30]
        start = counts()
        alone = counts() - start  # the calls that read the counts
        start = counts()
        assert array[20, 30] == 0
        assert (counts() - start - alone).tolist() == [1, 8, 0, 0]
        start = counts()
        array[20, 30] = 5
        assert (counts() - start - alone).tolist() == [0, 0, 1, 8]


@pytest.mark.parametrize("other", [{"share": "elements"}, {"mode": "r"}], ids=str)
def test_others_see_an_element_at_once(path, other):
    """A writer of elements may open the files of a sole writer at any time."""
    with xa.open(path, "r+", engine="pread") as array:
        assert array[0, 0] == array[39, 49] == 0
        with xa.open(path, **{"mode": "r+", "engine": "pread", **other}) as second:
            for n in range(1, 4):
                array[39, 49] = n
                assert second[39, 49] == n
                if second.mode == "r+":
                    second[0, 0] = -n
                    assert array[0, 0] == -n


@pytest.mark.process
def test_a_killed_writer_loses_no_element(forked, path):
    writer = forked.start(WRITER, path)
    try:
        with xa.open(path, engine="pread") as reader:
            for line in writer.stdout:
                assert reader[(int(line) - 1) % 40, (int(line) - 1) // 40 % 50] >= float(line)
                if int(line) == 100:
                    break
            writer.kill()
            writer.wait(250.0)
            last = max([100, *(int(line) for line in writer.stdout if line.endswith("\n"))])
            assert reader[(last - 1) % 40, (last - 1) // 40 % 50] >= last
    finally:
        writer.kill()
        writer.wait(250.0)
        writer.stdin.close()
        writer.stdout.close()
    assert xa.check(path).ok


def test_a_conversion_that_closes_the_array(path):
    class Closing:
        def __float__(self):
            array.close()
            return 1.0

    with xa.open(path, "r+", engine="pread") as array, pytest.raises(xa.ClosedError):
        array[3, 4] = Closing()
    with xa.open(path) as array:
        assert array[3, 4] == 0
        with pytest.raises(xa.ReadOnlyError):
            array[3, 4] = 1.0


def test_elements_beside_growth_and_cuts_of_another_thread(path):
    done = threading.Event()
    with xa.open(path, "r+", engine="pread") as array:

        def move():
            for _ in range(100):
                array.append(np.ones((40, 3)), 1)
                array.shrink(1, 3)
            done.set()

        thread = threading.Thread(target=move)
        thread.start()
        n = 0
        while not done.is_set():
            n += 1
            array[n % 40, n % 50] = float(n)
            assert array[n % 40, n % 50] == n
        thread.join()
        assert array.shape == (40, 50)


@pytest.mark.parametrize("fill", [0, 7])
def test_an_element_that_is_cut_off_meanwhile(tmp_path, fill):
    with xa.create(
        tmp_path / "a", (6, 9), "i4", chunks=(2, 3), fill_value=fill, engine="pread"
    ) as array:
        array[...] = 5
        with xa.open(tmp_path / "a", engine="pread") as reader:
            assert reader[5, 8] == 5
            array.shrink(0, 4)
            array.flush()
            assert reader[5, 8] in (5, fill)
            array.extend(0, 4)
            array[5, 8] = 6
            assert reader[1, 8] == 5
            reader.refresh()
            assert reader[5, 8] == 6
            assert reader[5, 7] == fill


def test_indices_that_only_look_like_those_of_an_element(path):
    model = np.zeros((40, 50))
    with xa.open(path, "r+", engine="pread") as array:
        for key in [(3,), 3, (3, 4, None), (True, 4), (np.int64(3), 4), (-1, -1), (..., 3, 4)]:
            array[key] = 2
            model[key] = 2
            np.testing.assert_array_equal(array[key], model[key], strict=True)
        for key in [(40, 0), (0, -51), (0, 0, 0)]:
            with pytest.raises(IndexError):
                array[key]
            with pytest.raises(IndexError):
                array[key] = 1
        np.testing.assert_array_equal(array[...], model)
