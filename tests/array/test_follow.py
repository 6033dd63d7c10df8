"""Following an array that grows, in this process and in another."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest
from compare import assert_same
from systems import needs_replaced_open_files, skip_if_mapped_files_stay

import extarray as xa
from extarray.array import growth
from extarray.common import system

WRITER = """
import sys, time
import numpy as np
import extarray as xa
with xa.open(sys.argv[1], mode="r+", engine=sys.argv[2]) as array:
    print("ready", flush=True)
    row = len(array)
    for n in (1, 3, 2) * 100:
        array.append(np.arange(row, row + n, dtype="i4")[:, None] + np.zeros(2, "i4"))
        row += n
        if row % 50 == 1:
            time.sleep(0.01)
"""


@pytest.mark.sampled(1)
def test_all_that_another_process_appends(disk, script):
    with disk.array((4, 2), "i4", chunks=(7, 2)) as array:
        array[...] = np.arange(4)[:, None]
        path = array.path
        array.flush()
        with disk.open(array) as reader:
            array.close()
            news = reader.follow(axis=0, timeout=60)
            found = [reader[...]]
            process = script.start(WRITER, path, disk.engine)
            try:
                for selection, data in news:
                    assert_same(data, reader[selection])
                    assert selection[0].start == sum(map(len, found))
                    found.append(data)
                    if len(reader) == 604:
                        break
            finally:
                process.kill()
                process.communicate()
            assert_same(np.concatenate(found)[:, 1], np.arange(604, dtype="i4"))


GROWING = """
import sys
import numpy as np
import extarray as xa
path, engine, commits = sys.argv[1], sys.argv[2], int(sys.argv[3])
with xa.open(path, mode="r+", engine=engine) as array:
    low, high = 0, len(array)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(commits):
        n = number % 3 + 1
        side = "start" if number % 7 == 3 else "end"
        first = low - n if side == "start" else high
        array.append(np.repeat(np.arange(first, first + n, dtype="i4")[:, None], 2, 1), side=side)
        low, high = min(low, first), max(high, first + n)
        if number % 100 == 99:
            array.attrs["rows"] = high - low
    array.attrs["ended"] = True
"""

LOOKING = """
import sys
import numpy as np
import extarray as xa
states = 0
with xa.open(sys.argv[1], engine=sys.argv[2]) as array:
    print("ready", flush=True)
    while not array.attrs.get("ended"):
        if not array.refresh():
            continue
        states += 1
        n, first = len(array), -array.origin[0]
        rows = np.r_[np.arange(min(n, 20)), np.arange(max(0, n - 20), n)]
        assert (array[rows] == (rows + first)[:, None]).all(), (n, first, array[rows])
        assert array.attrs.get("rows", 0) <= n
print(states)
"""


@pytest.mark.invariant("I2", "I4")
@pytest.mark.slow
def test_readers_find_whole_commits_while_a_writer_makes_them(disk, script):
    """Readers and writer never wait for each other; EXTARRAY_TEST_COMMITS sets the commits."""
    commits = int(os.environ.get("EXTARRAY_TEST_COMMITS", 2000))
    with disk.array((1, 2), "i4", chunks=(64, 2)) as array:
        path = array.path
        array.close()
        writer = script.start(GROWING, path, disk.engine, commits)
        readers = []
        try:
            assert writer.stdout.readline() == "ready\n"
            readers += [script.start(LOOKING, path, engine) for engine in ("mmap", "pread")]
            for reader in readers:
                assert reader.stdout.readline() == "ready\n"
            writer.communicate("go\n", timeout=250)
            states = [int(reader.communicate(timeout=60)[0]) for reader in readers]
            assert min(states) > 0
            assert all(process.returncode == 0 for process in (writer, *readers))
        finally:
            for process in (writer, *readers):
                process.kill()
                process.communicate()
        with xa.open(path) as array:
            assert len(array) == 1 + sum(number % 3 + 1 for number in range(commits))


def test_threads_of_one_process(memory):
    with memory.array((0, 3), "i4", chunks=(4, 3)) as array:
        news = array.follow(timeout=60)

        def work():
            for n in range(50):
                array.append(np.full((1, 3), n, "i4"))

        thread = threading.Thread(target=work)
        thread.start()
        found = []
        for _, data in news:
            found.extend(data[:, 0].tolist())
            if len(found) == 50:
                break
        thread.join()
        assert found == list(range(50))


def test_both_ends_and_other_axes(factory):
    with factory.array((2, 2), "i4", chunks=(3, 3)) as array:
        array[...] = 1
        news = array.follow(0, timeout=0)
        array.append([[2, 2]], side="start")
        array.extend(1, 1)
        array.append([[3, 3, 3]])
        got = [(selection, data.tolist()) for selection, data in news]
        assert got == [
            (np.s_[0:1, 0:3], [[2, 2, 0]]),
            (np.s_[3:4, 0:3], [[3, 3, 3]]),
        ]
        assert list(array.follow(0, timeout=0)) == []


def test_what_is_cut_off_before_it_was_seen(memory):
    with memory.array((2, 2), "i4") as array:
        news = array.follow(timeout=0)
        array.extend(0, 5)
        array.shrink(0, 6, side="start")
        assert [selection[0] for selection, _ in news] == [slice(0, 1)]


def test_what_comes_after_a_cut(memory, monkeypatch):
    with memory.array((5, 1), "i4", chunks=(2, 1)) as array:
        changes = iter([lambda: array.shrink(0, 3), lambda: array.append([[100], [101]])])
        monkeypatch.setattr(growth.time, "sleep", lambda seconds: next(changes)())
        assert next(array.follow())[1].ravel().tolist() == [100, 101]


def test_much_at_once_comes_in_parts(memory):
    with memory.array((0, 100), "u1", chunks=(10, 100)) as array:
        news = array.follow(timeout=0)
        array.extend(0, 1000)
        with xa.config.set(max_memory=10_000):
            sizes = [data.shape for _, data in news]
        assert sizes == [(100, 100)] * 10


def test_growth_at_the_start_while_a_part_is_read(memory, monkeypatch):
    """Indices chosen before the growth mean the same elements when they are read."""
    with memory.array((0,), "i8", chunks=8) as array:
        news = array.follow(timeout=0)
        array.append([1, 2, 3])
        read = type(array)._read_exact
        others = []

        def late(self, selection):
            if not others:
                others.append(threading.Thread(target=array.append, args=([77], 0, "start")))
                others[0].start()
                others[0].join(0.05)
            return read(self, selection)

        monkeypatch.setattr(type(array), "_read_exact", late)
        found = []
        for _, values in news:
            found += [int(n) for n in values]
            others[0].join()
        assert found == [1, 2, 3, 77]


def test_it_ends_after_the_time_given(disk):
    with disk.array((1, 1)) as array:
        began = time.monotonic()
        assert list(array.follow(timeout=0.05)) == []
        assert time.monotonic() - began >= 0.05


@pytest.mark.parametrize(
    ("arguments", "error"),
    [((2,), xa.AxisError), ((0, -1), xa.ArgumentError), ((0, float("nan")), xa.ArgumentError)],
)
def test_refused_at_once(memory, arguments, error):
    with memory.array((2, 2)) as array, pytest.raises(error):
        array.follow(*arguments)


@needs_replaced_open_files
def test_an_array_that_is_overwritten(disk):
    """Elements appended before are yielded; then nothing can arrive any more."""
    with disk.array((0, 2), "i4") as writer:
        news = disk.open(writer).follow()
        writer.append([[1, 2]])
        writer.close()
        xa.create(writer.path, (5, 2), "i4", overwrite=True).close()
        assert_same(next(news)[1], np.array([[1, 2]], "i4"))
        with pytest.raises(xa.ReplacedError, match="were replaced, removed or moved") as caught:
            next(news)
        assert isinstance(caught.value, FileNotFoundError)
        assert caught.value.filename == str(writer.path)


def replace(path):
    xa.from_array(np.arange(6, dtype="i4").reshape(3, 2), path, overwrite=True).close()


def remove(path):
    for suffix in (".xmd", ".xta"):
        system.remove(f"{path}{suffix}")


def spoil(path):
    with open(f"{path}.new", "wb") as file:
        file.write(b"no array")
    system.replace(f"{path}.new", f"{path}.xmd")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(replace, marks=needs_replaced_open_files),
        remove,
        pytest.param(spoil, marks=needs_replaced_open_files),
    ],
)
def test_a_viewer_learns_that_its_files_are_gone(disk, change):
    if change is not spoil:
        skip_if_mapped_files_stay(disk.engine)
    with disk.create((2, 2), "f8", fill_value=7) as writer:
        path = writer.path
        reader, other = disk.open(writer), xa.open(path)
        writer.extend(0, 1)
        writer.close()
        assert reader.refresh() and not reader.refresh() and not reader.replaced
        change(path)
        assert reader.replaced and other.replaced
        for look in (reader.refresh, lambda: xa.refresh([reader])):
            with pytest.raises(xa.ReplacedError, match="open it again, or refresh with"):
                look()
        assert other.refresh(), "what came before is taken up"
        with pytest.raises(xa.ReplacedError):
            other.refresh()
        assert_same(reader[...], np.full((3, 2), 7.0))
        if change is not replace:
            with pytest.raises((xa.ReplacedError, xa.CorruptError, xa.FormatError)):
                reader.refresh("reopen")
            assert_same(reader[...], np.full((3, 2), 7.0))
        reader.close()
        other.close()


@needs_replaced_open_files
def test_a_viewer_becomes_what_replaced_its_array(disk):
    with disk.array((2, 2, 2), "f8", fill_value=7, dims=["a", "b", "c"]) as writer:
        path, reader, view = writer.path, disk.open(writer), None
        view = reader.lazy[1:]
        writer.close()
        replace(path)
        with pytest.raises(xa.ArgumentError, match="on_replaced 'yes' is not valid"):
            reader.refresh("yes")
        assert reader.refresh(on_replaced="reopen")
        assert (reader.shape, reader.dtype, reader.fill_value) == ((3, 2), np.dtype("i4"), 0)
        assert_same(reader[...], np.arange(6, dtype="i4").reshape(3, 2))
        assert reader.dims is None and not reader.replaced and not reader.refresh()
        with pytest.raises(xa.MissingError, match="make a new view"):
            view[...]
        assert_same(reader.lazy[1:][0], np.array([2, 3], "i4"))
        with xa.open(path, "r+") as again:
            again.append([[8, 9]])
            assert reader.refresh() and reader[3, 1] == 9
        reader.close()


@needs_replaced_open_files
def test_following_what_replaces_an_array(disk):
    with disk.array((0, 2), "i4") as writer:
        path = writer.path
        news = disk.open(writer).follow(timeout=60, on_replaced="reopen")
        writer.append([[1, 2]])
        assert_same(next(news)[1], np.array([[1, 2]], "i4"))
        writer.close()
        remove(path)
        late = threading.Timer(0.2, replace, (path,))
        late.start()
        selection, data = next(news)
        assert selection == np.s_[0:3, 0:2]
        assert_same(data, np.arange(6, dtype="i4").reshape(3, 2))
        late.join()
        xa.create(path, (3,), overwrite=True).close()
        with pytest.raises(xa.ShapeError):
            next(news)


@needs_replaced_open_files
def test_a_name_that_has_gained_an_axis_is_the_array_itself(disk):
    with disk.array((2, 2), "f8", fill_value=7) as writer, disk.open(writer) as reader:
        writer.add_axis()
        writer.close()
        assert not reader.replaced and reader.refresh() and reader.ndim == 3


@pytest.mark.parametrize("other", [True, False])
def test_an_array_that_was_moved(disk, monkeypatch, other):
    """The writer goes on, whether or not another array has its old name."""
    sleep, naps = time.sleep, []
    with disk.array((0, 2), "i4") as writer, disk.open(writer) as reader:
        path = writer.path
        for suffix in (".xmd", ".xta"):
            os.rename(f"{path}{suffix}", f"{path}-moved{suffix}")
        xa.create(path, (5, 2), "i4").close()
        if not other:
            for suffix in (".xmd", ".xta"):
                os.unlink(f"{path}{suffix}")

        def nap(seconds):
            naps.append(seconds)
            if naps.count(growth._LONGEST) == 3:
                writer.append([[1, 2]])
            sleep(0)

        with monkeypatch.context() as patch:
            patch.setattr(growth.time, "sleep", nap)
            assert_same(next(reader.follow())[1], np.array([[1, 2]], "i4"))
        writer.close()
        for suffix in (".xmd", ".xta"):
            os.replace(f"{path}-moved{suffix}", f"{path}{suffix}")
