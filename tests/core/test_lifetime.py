"""One array object, many threads: everything a call uses lives until the call has ended."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time

import fuzz_threads
import numpy as np
import pytest
from compare import assert_same
from systems import needs_reports_of_holes

import extarray as xa
from extarray.array.life import Host
from extarray.storage.filesystem import File
from extarray.streaming import elementwise

FILL = 1
SHAPE = (1500, 1200)


def make(factory, **options):
    array = factory.create(SHAPE, "f8", chunks=(50, 50), fill_value=FILL, **options)
    array[...] = 2
    return array


class Reading:
    """A thread that reads repeatedly until it is told to stop, or the array is closed."""

    def __init__(self, read):
        self.read, self.seen, self.over = read, set(), threading.Event()
        self.begun = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        self.begun.wait(60)

    def run(self):
        try:
            while not self.over.is_set():
                self.begun.set()
                self.seen |= set(np.unique(self.read()).tolist())
        except xa.ClosedError:
            pass
        except BaseException as error:
            self.seen.add(repr(error))
        finally:
            self.begun.set()

    def end(self):
        self.over.set()
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self.seen


READS = {
    "box": lambda a: a[...],
    "mask": lambda a: a[np.broadcast_to(np.arange(SHAPE[1]) % 3 > 0, a.shape)],
    "list": lambda a: a[np.arange(0, 1000, 3)],
    "out": lambda a: a.read(out=np.empty(a.shape)),
    "cast": lambda a: a.read(np.s_[:1000], out=np.empty((1000, SHAPE[1]), "f4")),
}


@pytest.mark.invariant("I10")
@pytest.mark.slow
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_that_overlaps_close_gives_its_data_or_says_so(factory, read):
    for number in range(6):
        array = make(factory)
        reading = Reading(lambda array=array: read(array))
        time.sleep(0.002 * number)
        with contextlib.suppress(xa.ClosedError):
            array.shrink(0, 100)
        array.close()
        # A mask or an output may no longer have the array's shape when the call begins.
        legal = ("SelectionError", "ShapeError")
        seen = {value for value in reading.end() if not str(value).startswith(legal)}
        assert seen <= {2.0, 1.0}, seen


@pytest.mark.slow
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_another_process_cuts_is_never_seen_as_zeros(disk, read):
    """Reads find no such zeros even while this process refreshes or closes."""
    for _ in range(3):
        writer = make(disk)
        writer.flush()
        reader = disk.open(writer)
        reading = Reading(lambda reader=reader: read(reader))
        for number in range(5):
            writer.shrink(0, 60)
            if number % 2:
                reader.refresh()
        reader.close()
        writer.close()
        legal = ("SelectionError", "ShapeError", "BoundsError")  # the bounds moved before the call
        seen = {value for value in reading.end() if not str(value).startswith(legal)}
        assert seen <= {2.0, 1.0}, seen


@pytest.mark.invariant("I10")
def test_a_refresh_between_a_cut_and_the_end_of_a_read(disk, monkeypatch):
    """The read already knows the cut; it does not matter that the array then forgets it."""
    with make(disk) as writer, disk.open(writer) as reader:
        writer.shrink(0, 700)
        assert (reader[900:] == FILL).all()  # now it knows an inner box
        look = Host.look_at_cuts
        monkeypatch.setattr(Host, "look_at_cuts", lambda self, array: look(self, array))
        held = reader._held()
        assert reader.refresh() and reader.shape == (800, SHAPE[1])
        found = held[...]
        assert found.shape == SHAPE
        assert (found[:800] == 2).all() and (found[800:] == FILL).all()
        assert_same(found[np.arange(700, 900)], held[np.arange(700, 900)])


@pytest.mark.invariant("I10")
def test_nothing_is_written_to_the_file_of_a_stranger(tmp_path, monkeypatch):
    """A thread is about to mark checksums as doubtful when another one closes the array."""
    array = xa.create(tmp_path / "a", (100, 100), chunks=(10, 10), checksum=True)
    array[...] = 1
    array.flush()
    write, strangers = File.write, []

    def closing(file, data, offset):
        monkeypatch.setattr(File, "write", write)
        array.close()
        for number in range(8):  # these reuse the numbers of the closed descriptors
            name = tmp_path / f"stranger{number}"
            name.write_bytes(bytes(100_000))
            strangers.append(name.open("r+b", 0))
        write(file, data, offset)

    monkeypatch.setattr(File, "write", closing)
    with pytest.raises(xa.ClosedError, match=r"a\.x(md|ta)' was closed during use"):
        array[0, 0] = 5
    for stranger in strangers:
        with stranger:
            assert stranger.seek(0) == 0
            assert not any(stranger.read())
    assert len(strangers) == 8
    assert xa.check(tmp_path / "a", data=True).ok


def test_a_closed_file_is_no_file(tmp_path):
    """The file closes when its last user leaves, and refuses later users."""
    file = File.open(str(tmp_path / "file"), os.O_RDWR | os.O_CREAT)
    with file as fd:
        file.close()
        assert file.closed
        os.fstat(fd)  # still open
        for call in (
            lambda: file.read(1, 0),
            lambda: file.write(b"x", 0),
            lambda: file.length,
            lambda: file.truncate(0),
            lambda: file.reserve(0, 1),
            file.datasync,
            file.stat,
        ):
            with pytest.raises(xa.ClosedError, match="was closed during use"):
                call()
    with pytest.raises(OSError, match=rf"Errno {errno.EBADF}\]|WinError 6\]"):  # an invalid handle
        os.fstat(fd)
    file.close()


@pytest.mark.parametrize("what", ["metadata_bytes", "file_bytes", "disk_bytes"])
def test_facts_of_an_array_that_is_closed_meanwhile(tmp_path, monkeypatch, what):
    array = xa.zeros((4, 3), path=tmp_path / "a")
    kind = type(array._store)
    fact = getattr(kind, what)

    def closing(store):
        monkeypatch.undo()
        array.close()
        return fact.fget(store)

    monkeypatch.setattr(kind, what, property(closing))
    with pytest.raises(xa.ClosedError):
        array.info()


STREAMED = {
    "sum": (elementwise, lambda a: np.sum(a, axis=1)),
    "max": (elementwise, lambda a: np.max(a)),
    "add": (elementwise, lambda a: np.add(a, 0)),
    "view": (elementwise, lambda a: a.lazy[:, ::-1] + 0),
    "in place": (elementwise, lambda a: np.multiply(a, 1, out=a)),
}


@pytest.mark.parametrize("side", ["end", "start"])
@pytest.mark.parametrize("name", STREAMED)
def test_functions_that_stream_see_one_state(factory, monkeypatch, name, side):
    """The bounds shrink after the function's first block."""
    module, function = STREAMED[name]
    with (
        factory.create((300, 40), "f8", chunks=(10, 40), fill_value=FILL) as array,
        xa.config.set(threads=1, max_memory="64 KiB"),
    ):
        values = np.arange(300 * 40.0).reshape(300, 40)
        array[...] = values
        load = module.load

        def moving(*args):
            monkeypatch.setattr(module, "load", load)
            part = load(*args)
            array.shrink(0, 60, side)
            return part

        monkeypatch.setattr(module, "load", moving)
        if name == "in place":
            assert function(array) is array
        else:
            assert_same(function(array), function_of(name, values))
        assert_same(array[...], values[60:] if side == "start" else values[:240])


def function_of(name, values):
    if name == "view":
        return values[:, ::-1] + 0
    return STREAMED[name][1](values)


def test_what_a_function_returns_is_of_the_array_itself(factory):
    """Results never refer to the held array that the function worked on."""
    with factory.create((6, 4), "f8", chunks=(2, 2)) as array:
        for view in (np.transpose(array), array.T, np.moveaxis(array, 0, 1), np.flip(array.T, 0)):
            if isinstance(view, np.ndarray):
                continue
            assert view.base is array
        assert np.add(array, 1, out=array) is array
        late = array.astype("f4")
        assert late._source is array
        array.extend(0, 2)
        assert late.shape == (8, 4)


@needs_reports_of_holes
@pytest.mark.invariant("I10")
def test_space_that_a_transfer_uses_is_given_back_when_it_has_ended(disk):
    with disk.create((1024, 64), "i4", chunks=(8, 8), fill_value=3) as array:
        array[...] = 1
        array.flush()
        held = array._held()
        before = array.info()["disk_bytes"]
        array.shrink(0, 512)
        array.flush()
        assert array.info()["disk_bytes"] == before
        assert (held[512:] == 1).all()
        del held
        array.shrink(0, 64)
        array.flush()
        assert array.info()["disk_bytes"] < before


def test_views_of_chunks_keep_what_they_show(factory):
    with factory.create((40,), "u1", chunks=(10,), fill_value=3) as array:
        array[...] = 1
        view = array.chunk((3,))
        array.shrink(0, 20)
        array.shrink(0, 5)
        assert (view == 1).all()
        array.extend(0, 25)
        assert array[...].tolist() == [1] * 15 + [3] * 25


@pytest.mark.slow
def test_threads_in_random_steps(tmp_path):
    """A short run of the fuzzer, which runs for hours by hand."""
    counts = fuzz_threads.run(0, tmp_path, rounds=60)
    assert counts["shrink"] > 50 and counts["read_all"] > 50 and counts["read_box: ClosedError"]
