"""Threads share an array: any number of readers, beside one that grows it or writes elsewhere."""

from __future__ import annotations

import contextlib
import itertools
import sysconfig
import threading
from functools import partial

import injected
import numpy as np
import pytest
from compare import assert_same
from model import sample

import extarray as xa
from extarray.common import threads as pool
from extarray.common.limits import limits
from extarray.maintenance import transform
from extarray.numpy_api import manipulation
from extarray.streaming import folding


def run_together(*works):
    """Run callables at once; raise the first error."""
    start = threading.Barrier(len(works))
    errors = []

    def run(work):
        start.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def repeat(work, times=40):
    def repeated():
        for _ in range(times):
            work()

    return repeated


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python always has the GIL"
)
def test_importing_leaves_the_gil_off(script):
    """Import all modules that need no other library, in a fresh process."""
    found = script("""
import importlib, pkgutil, sys

import extarray

assert not sys._is_gil_enabled()
for module in pkgutil.walk_packages(extarray.__path__, "extarray."):
    try:
        importlib.import_module(module.name)
    except extarray.MissingExtraError:
        continue
    if sys._is_gil_enabled():
        print(module.name)
        break
""")
    assert found == ""


def test_a_late_write_is_not_repeated_by_what_fills(factory):
    """A view stands in for a write that begins before its elements are cut off, and continues."""
    n = 1 << 20
    with factory.array((2 * n,), "f8", chunks=(n,), fill_value=1) as array:
        late = array.chunk((1,))[:8]
        over = threading.Event()

        def write():
            while not over.is_set():
                late[...] = 7

        def grow():
            try:
                for _ in range(10):
                    array.shrink(0, n)
                    array.extend(0, n)
                    assert np.all(array[n + 8 :] == 1)
            finally:
                over.set()

        run_together(write, grow)


def test_many_readers(factory):
    expected = sample("f8", (90, 70, 11))
    with factory.array(expected.shape, "f8", chunks=(16, 16, 4)) as array:
        array[...] = expected
        run_together(
            repeat(lambda: assert_same(array[...], expected)),
            repeat(lambda: assert_same(array[5:80:3, ::-1, 2], expected[5:80:3, ::-1, 2])),
            repeat(lambda: assert_same(array[17, 33, 5], expected[17, 33, 5]), 2000),
            repeat(lambda: assert_same(array.chunk((1, 1, 1)).copy(), expected[16:32, 16:32, 4:8])),
        )


@pytest.mark.sampled(1)
def test_readers_of_an_array_that_grows(factory):
    """Existing elements stay the same through five hundred growths of every axis."""
    expected = sample("i4", (30, 20, 8))
    with factory.array(expected.shape, "i4", chunks=(8, 8, 4)) as array:
        array[...] = expected
        inside = tuple(slice(n) for n in expected.shape)
        finished = threading.Event()

        def grow():
            try:
                for step in range(500):
                    array.extend(step % 3, 1 if step % 3 else 8)
                    if array.nbytes > 2**26:
                        break
            finally:
                finished.set()

        def until_finished(work):
            def repeated():
                work()
                while not finished.is_set():
                    work()

            return repeated

        def read_new():
            rows = array[30:]
            assert not rows.any()

        def look_up():
            assert array.axial.index(array.axial.address((3, 2, 1))) == (3, 2, 1)

        run_together(
            grow,
            until_finished(lambda: assert_same(array[inside], expected)),
            until_finished(lambda: assert_same(array[29, 19, 7], expected[29, 19, 7])),
            until_finished(read_new),
            until_finished(look_up),
        )
        assert_same(array[inside], expected)
        assert not array[30:].any()


def test_writers_of_disjoint_elements(factory):
    """Writers of neighbours in one chunk do no harm: none reads, changes and writes back a byte."""
    with factory.array((64, 64), "u1", chunks=(64, 64)) as array:

        def write(column):
            def columns():
                for value in range(1, 60):
                    array[:, column::4] = value
                    assert (array[:, column::4] == value).all()

            return columns

        run_together(*map(write, range(4)))
        assert (array[...] == 59).all()


@pytest.mark.slow
@pytest.mark.parametrize(("order", "threads"), [("C", 2), ("C", 8), ("F", 3), ("Z", 3)])
def test_the_number_of_threads_makes_no_difference(factory, order, threads):
    """Transfers large enough to share: reads, writes, casts, both orders of the result."""
    shape = (200, 220, 75)
    expected = sample("f8", shape)
    with factory.array(shape, "f8", chunks=(64, 48, 32), order=order) as array:
        with xa.config.set(threads=threads):
            array[...] = expected
        with xa.config.set(threads=1):
            assert_same(array[...], expected)
        with xa.config.set(threads=threads):
            assert_same(array[...], expected)
            assert_same(
                array.read((slice(3, 197), slice(None, None, -1)), order="F"), expected[3:197, ::-1]
            )
            out = np.zeros(shape, "f4")
            assert_same(array.read(out=out), expected.astype("f4"))
            array[1:, :, 1:] = expected[:-1, :, :-1]
        assert_same(array[1:, :, 1:], expected[:-1, :, :-1])
        assert_same(array[0], expected[0])


def test_readers_that_refresh_together(disk):
    """Threads share a reader, and see growth that a writer commits."""
    with disk.array((0, 4), "i4", chunks=(3, 4)) as array, disk.open(array) as reader:

        def write():
            for row in range(400):
                array.append(np.full((1, 4), row, "i4"))

        def read():
            while len(reader) < 400:
                reader.refresh()
                rows = reader[...]
                assert (rows == np.arange(len(rows))[:, None]).all()
                for index, view in reader.chunk_views():
                    assert reader.axial.index(reader.axial.address(index)) == index
                    assert view[0, 0] == 3 * index[0]

        run_together(write, read, read)


def test_growth_from_many_threads(factory):
    """Growths come one after another, whichever thread asks."""
    with factory.array((1, 1), "u1", chunks=(2, 2), fill_value=7) as array:

        def grow(axis, by):
            def one():
                array.extend(axis, by)

            return repeat(one, 100)

        run_together(grow(0, 1), grow(1, 1), grow(0, 2), grow(1, 0))
        assert array.shape == (301, 101)
        assert (array[...] == 7).all()
        indices = np.indices(array.grid).reshape(2, -1).T
        addresses = array.axial.addresses(indices)
        assert sorted(addresses) == list(range(len(indices)))


@pytest.mark.invariant("I10")
def test_closing_while_others_read(factory):
    """A reader gets all of its values or `ClosedError`, never freed memory."""
    expected = sample("f8", (128, 128, 32))
    for _ in range(5):
        with factory.array(expected.shape, "f8", chunks=(32, 32, 32)) as array:
            array[...] = expected

            def read(array=array):
                try:
                    while True:
                        assert_same(array[...], expected)
                        assert_same(array[7, 7, 7], expected[7, 7, 7])
                except xa.ClosedError:
                    pass

            def close(array=array):
                assert_same(array[...], expected)
                array.close()

            run_together(read, read, close)


def test_arrays_of_their_own(disk):
    """Threads that create, grow, close and open their own arrays share nothing."""

    def work(seed):
        def one():
            values = sample("u2", (7, 5), seed)
            with disk.array((7, 5), "u2", chunks=3) as array:
                array[...] = values
                array.append(values)
                array.attrs["seed"] = seed
                array.close()
                with disk.open(array) as reader:
                    assert_same(reader[...], np.concatenate([values, values]))
                    assert dict(reader.attrs) == {"seed": seed}

        return repeat(one, 10)

    run_together(*map(work, range(4)))


@pytest.mark.parametrize("can_start", [True, False])
def test_fill_values_on_several_threads(factory, monkeypatch, can_start):
    monkeypatch.setattr(limits, "share_bytes", 1000)
    if not can_start:

        def fail(self):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", fail)
    fill = np.array(b"abc", "S3")[()]
    with (
        xa.config.set(threads=5),
        factory.array((1111, 7), "S3", chunks=(10, 7), fill_value=fill) as array,
    ):
        array.extend(0, 2222)
        assert (array[...] == fill).all()
        assert (array.chunk((333, 0)) == fill).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_range_in_shares(threads, monkeypatch):
    monkeypatch.setattr(limits, "share_bytes", 1000)
    parts = []
    with xa.config.set(threads=threads):
        pool.run_in_shares(lambda low, high: parts.append((low, high)), 12, 10_007, 12)
        parts.sort()
        assert len(parts) == threads
        assert [low for low, _ in parts] == [12, *(high for _, high in parts[:-1])]
        assert all(low % 12 == 0 for low, _ in parts)
        assert parts[-1][1] == 10_007
        for last in parts:

            def fail(low, high, last=last):
                if (low, high) == last:
                    raise OSError(28, "no space")

            with pytest.raises(OSError, match="no space"):
                pool.run_in_shares(fail, 12, 10_007, 12)


class Stops(BaseException):
    """An exception as a signal handler may raise."""


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, TimeoutError, Stops])
def test_threads_are_waited_for_however_often_that_is_interrupted(monkeypatch, error):
    interrupts = iter([error("first"), error("last")])
    begun, stopped, ended = threading.Event(), threading.Event(), threading.Event()
    main, wait = threading.main_thread(), threading.Event.wait

    def interrupted(event, *args):
        if threading.current_thread() is main and begun.is_set():
            if (interrupt := next(interrupts, None)) is not None:
                raise interrupt
            ended.set()
        return wait(event, *args)

    def work():
        begun.set()
        ended.wait()
        stopped.wait()

    monkeypatch.setattr(threading.Event, "wait", interrupted)
    with pytest.raises(error, match="last"):
        pool.run_together([lambda: wait(begun), work], stopped.set)
    assert stopped.is_set()
    assert next(interrupts, None) is None


@pytest.mark.parametrize("behind", [False, True])
def test_an_interrupt_while_a_thread_is_started(monkeypatch, behind):
    """If the call has failed, the thread begins nothing more, or the call waits for it."""
    start, threads, made = threading.Thread.start, [], []

    def interrupted(thread):
        threads.append(thread)
        if behind:
            start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    calls = [lambda n=n: made.append(n) for n in range(3)]
    with pytest.raises(KeyboardInterrupt):
        pool.run_together(calls)
    before = list(made)
    for thread in threads:
        if behind:
            thread.join()
        else:
            thread.run()
    assert made == before
    assert len(threads) == 1


@pytest.mark.thread_unsafe  # inspects all threads of the process
@injected.needs_no_tracing
def test_an_interrupt_at_every_place_of_shared_work():
    """No work outlives an interrupted call; without an interrupt, no work is lost."""
    others = {*threading.enumerate()}
    for number in itertools.count(1):
        made, stopped = [], threading.Event()

        def call(number, made=made, stopped=stopped):
            if number:
                stopped.wait(0.002)
            made.append(number)

        with (
            contextlib.suppress(KeyboardInterrupt),
            injected.interrupted(number, pool) as interrupt,
        ):
            pool.run_together([partial(call, n) for n in range(3)], stopped.set)
        before = list(made)
        for thread in {*threading.enumerate()} - others:
            thread.join()
        assert made == before, interrupt.place
        if not interrupt.place:
            break
    assert sorted(made) == [0, 1, 2]
    assert number > 20


@pytest.mark.parametrize("error", [RuntimeError, MemoryError])
@pytest.mark.parametrize("number", [0, 1])
def test_calls_that_no_thread_is_to_be_had_for(monkeypatch, error, number):
    start, started = threading.Thread.start, []

    def fail(thread):
        if len(started) == number:
            raise error("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail)
    made = []
    pool.run_together([lambda n=n: made.append(n) for n in range(4)])
    assert sorted(made) == [0, 1, 2, 3]
    array = xa.from_array(np.arange(2.0**21))
    with xa.config.set(threads=3):
        assert np.sum(array) == 2.0**20 * (2**21 - 1)
        assert_same(xa.rechunk(array, chunks=(1 << 20,), progress=False)[...], array[...])


@pytest.mark.parametrize(
    "copy",
    [
        lambda a, path: a.copy(),
        lambda a, path: a.copy(path, chunks=(3, 1)),
        lambda a, path: xa.rechunk(a, chunks=(1, 4), progress=False),
        lambda a, path: xa.from_array(a, path),
        lambda a, path: xa.from_array(a.lazy[...]),
    ],
    ids=["in memory", "in files", "rechunk", "from_array", "of a view"],
)
def test_a_copy_is_of_one_moment(factory, tmp_path, monkeypatch, copy):
    """Another thread grows the array when the copy is planned but not begun."""
    plan_passes = transform.plan_passes
    with factory.array((4, 5), "i4", chunks=(2, 2)) as a:
        a[...] = 1

        def and_grow(*args):
            found = plan_passes(*args)
            run_together(lambda: a.append(np.ones((3, 5), "i4")))
            return found

        monkeypatch.setattr(transform, "plan_passes", and_grow)
        with copy(a, tmp_path / "copy") as b:
            assert_same(b[...], np.ones((4, 5), "i4"))
        assert a.shape == (7, 5)


@pytest.mark.parametrize(
    ("module", "made", "call"),
    [
        (folding, "new_result", lambda a: np.sum(a, axis=1)),
        (folding, "new_result", lambda a: a.astype("f4").max(axis=(1,), keepdims=True)),
        (manipulation, "target_for", lambda a: np.concatenate([a, a])),
    ],
    ids=["a reduction", "of another dtype", "concatenate"],
)
def test_a_result_is_of_one_moment(factory, monkeypatch, module, made, call):
    """Another thread grows the array when the result exists but is empty."""
    make = getattr(module, made)
    with factory.array((4, 5), "i4", chunks=(2, 2)) as a:
        a[...] = sample("i4", (4, 5))
        expected = call(a[...])

        def and_grow(*args):
            run_together(lambda: a.append(np.ones((3, 5), "i4")))
            return make(*args)

        monkeypatch.setattr(module, made, and_grow)
        assert_same(call(a), expected)
        assert a.shape == (7, 5)
