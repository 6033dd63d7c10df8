"""Pairs of files on a web server, while a writer changes them: whole states, and their elements."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread, Timer

import numpy as np
import pytest
from served import Files, needs_obstore, served

import extarray as xa
from extarray.common.limits import limits
from extarray.errors import (
    ChecksumError,
    MissingError,
    NotVisibleError,
    PartnerError,
    ReplacedError,
    TruncatedError,
)
from extarray.fetched import store

pytestmark = needs_obstore

X = np.random.default_rng(5).normal(size=(40, 30, 20))
CHUNKS = (4, 8, 8)


@pytest.fixture(params=["content", "time"])
def web(request, tmp_path):
    """Serve the test's folder; the tags of one server tell seconds only."""
    with served(tmp_path, tags_by=request.param) as server:
        yield server


@pytest.fixture(params=["mmap", "pread"])
def engine(request):
    return request.param


def truth(low, high):
    """Return elements that their indices tell."""
    i, j, k = np.ogrid[tuple(map(slice, low, high))]
    return (i * 3 + j * 5 + k * 7 + 1).astype("f4")


def test_two_requests_open(web, tmp_path, engine):
    xa.from_array(X, tmp_path / "a", CHUNKS, attrs={"unit": "K"}).close()
    for name in ("a", "a.xmd", "a.xta"):
        web.forget()
        with xa.open(web.url(name), engine=engine) as a:
            assert len(web.requests) == 2
            assert a.attrs["unit"] == "K"
            np.testing.assert_array_equal(a[...], X)
            assert len(web.requests) == 3
            assert str(a.path) == web.url("a")
            assert not a.refresh()
            np.testing.assert_array_equal(a[...], X)


def test_growth_is_followed(web, tmp_path, engine):
    with xa.create(tmp_path / "a", (0, 30, 20), chunks=CHUNKS) as writer:
        writer.append(X[:6])
        with xa.open(web.url("a"), engine=engine) as a:
            np.testing.assert_array_equal(a[...], X[:6])
            view = a.chunk((1, 0, 0))
            writer.append(X[6:9])
            writer.attrs["n"] = 9
            assert a.shape == (6, 30, 20)
            assert a.refresh()
            assert a.attrs["n"] == 9
            np.testing.assert_array_equal(a[...], X[:9])
            np.testing.assert_array_equal(view, X[4:6, :8, :8])
            writer.extend(1, 2)
            writer.extend(2, 1, "start")
            writer[:, 30:] = 5
            assert a.refresh()
            np.testing.assert_array_equal(a[:, :30, 1:], X[:9])
            np.testing.assert_array_equal(a[:, :30, 0], 0)
            np.testing.assert_array_equal(a[:, 30:], 5)
            assert not a.refresh()


def test_what_is_new_is_yielded(web, tmp_path):
    with (
        xa.create(tmp_path / "a", (0, 30, 20), chunks=CHUNKS) as writer,
        xa.open(web.url("a")) as a,
    ):
        news = a.follow(timeout=0)
        for n in range(0, 12, 3):
            writer.append(X[n : n + 3])
            box, data = next(news)
            np.testing.assert_array_equal(data, X[n : n + 3])
            np.testing.assert_array_equal(a[box], data)
        assert next(news, None) is None


def test_elements_that_are_overwritten_show_after_refresh(web, tmp_path):
    with xa.from_array(X, tmp_path / "a", CHUNKS) as writer, xa.open(web.url("a")) as a:
        np.testing.assert_array_equal(a[...], X)
        writer[3:5] = 7
        writer.flush()
        if web.tags_by == "time":
            os.utime(tmp_path / "a.xta", (1e9, 1e9))
        a.refresh()
        np.testing.assert_array_equal(a[3:5], np.full((2, 30, 20), 7))


def test_nothing_is_fetched_again_without_news(web, tmp_path, monkeypatch):
    monkeypatch.setattr("extarray.fetched.origins._SECONDS_OF_TAGS", 0)
    with xa.from_array(X, tmp_path / "a", CHUNKS) as writer, xa.open(web.url("a")) as a:
        np.testing.assert_array_equal(a[...], X)
        web.forget()
        for _ in range(3):
            assert not a.refresh()
            np.testing.assert_array_equal(a[...], X)
        assert len(web.requests) == 6  # the ends of two files each time
        writer.append(X[:1])
        assert a.refresh()
        np.testing.assert_array_equal(a[40], X[0])


def test_cut_elements_hold_the_fill_value_or_what_they_held(web, tmp_path, engine):
    with xa.create(tmp_path / "a", (40, 30, 20), chunks=CHUNKS, fill_value=-1) as writer:
        writer[...] = X
        with xa.open(web.url("a"), engine=engine) as a:
            np.testing.assert_array_equal(a[:8], X[:8])
            writer.shrink(0, 32)
            writer.flush()
            found = a[...]
            np.testing.assert_array_equal(found[:8], X[:8])
            rest = found[8:]
            assert ((rest == -1) | (rest == X[8:])).all()
            assert a.refresh()
            np.testing.assert_array_equal(a[...], X[:8])
            writer.extend(0, 4)
            assert a.refresh()
            np.testing.assert_array_equal(a[8:], np.full((4, 30, 20), -1))


def test_a_new_axis_is_taken_up(web, tmp_path):
    x = X[:, :, 0]
    with xa.from_array(x, tmp_path / "a", (4, 8)) as writer, xa.open(web.url("a")) as a:
        np.testing.assert_array_equal(a[...], x)
        writer.add_axis()
        writer.append(x[None] + 1)
        assert a.refresh()
        np.testing.assert_array_equal(a[...], np.stack([x, x + 1]))
        writer.append(x[None] + 2)
        assert a.refresh()
        np.testing.assert_array_equal(a[2], x + 2)


@pytest.mark.parametrize("checksum", [False, True])
def test_larger_chunks_on_a_new_axis(web, tmp_path, checksum):
    """A single chunk becomes a part of a larger one."""
    x = X[:4, :8, 0]
    with (
        xa.from_array(x, tmp_path / "a", (4, 8), checksum=checksum) as writer,
        xa.open(web.url("a")) as a,
    ):
        np.testing.assert_array_equal(a[...], x)
        view = a.chunk((0, 0))
        writer.add_axis(chunk=3)
        writer.append(x[None] + 1)
        assert a.refresh()
        np.testing.assert_array_equal(a[...], np.stack([x, x + 1]))
        for n in (2, 3, 4):
            writer.append(x[None] + n)
        assert a.refresh()
        np.testing.assert_array_equal(a[...], x + np.arange(5.0)[:, None, None])
        np.testing.assert_array_equal(view, x)


def test_another_array_is_not_taken_up(web, tmp_path):
    xa.from_array(X, tmp_path / "a", CHUNKS).close()
    a = xa.open(web.url("a"))
    np.testing.assert_array_equal(a[:4], X[:4])
    xa.from_array(X[:20] + 1, tmp_path / "a", CHUNKS, overwrite=True).close()
    with pytest.raises(ReplacedError):
        a[20:]
    with pytest.raises(ReplacedError):
        a.refresh()
    assert a.replaced
    np.testing.assert_array_equal(a[:4], X[:4])
    pickled = pickle.dumps(a)
    with pytest.raises(MissingError, match="another array has replaced it"):
        pickle.loads(pickled)
    assert a.refresh(on_replaced="reopen")
    np.testing.assert_array_equal(a[...], X[:20] + 1)
    for suffix in (".xmd", ".xta"):
        os.unlink(tmp_path / f"a{suffix}")
    with pytest.raises(ReplacedError):
        a.refresh()
    a.close()


@pytest.mark.parametrize("checksum", [False, True])
def test_states_are_whole(tmp_path, engine, checksum):
    """A writer appends on three axes meanwhile, and the server reads what it has half written."""
    low, high = (0, 0, 0), [4, 16, 16]
    writer = xa.from_array(truth(low, high), tmp_path / "a", (2, 16, 16), checksum=checksum)
    ended, is_enough = threading.Event(), threading.Event()

    def write():
        rng = np.random.default_rng(0)
        with writer:
            for n in range(300):
                if n >= 60 and is_enough.is_set():
                    break
                axis, by = int(rng.integers(0, 3)), int(rng.integers(1, 4))
                start = [0, 0, 0]
                start[axis] = high[axis]
                high[axis] += by
                writer.append(truth(start, high), axis=axis)
                if n % 7 == 0:
                    writer.flush()
                time.sleep(0.005 if n < 60 else 0.1)
        ended.set()

    thread = threading.Thread(target=write)
    rng, n_states = np.random.default_rng(1), 0
    with served(tmp_path) as web, xa.open(web.url("a"), engine=engine) as a:
        thread.start()
        before = a.shape
        while True:
            is_last = ended.is_set()
            n_states += a.refresh()
            if n_states > 3:
                is_enough.set()
            assert all(n >= m for n, m in zip(a.shape, before, strict=True))
            before = a.shape
            for _ in range(2):
                start = [int(rng.integers(0, n)) for n in a.shape]
                stop = [
                    min(n, i + int(rng.integers(1, 20)))
                    for i, n in zip(start, a.shape, strict=True)
                ]
                found = a[tuple(map(slice, start, stop))]
                np.testing.assert_array_equal(found, truth(start, stop))
            if is_last:
                break
        thread.join()
        assert a.shape == tuple(high)
        np.testing.assert_array_equal(a[...], truth(low, high))
        web.forget()
        np.testing.assert_array_equal(a[...], truth(low, high))
        assert not web.requests
        assert n_states > 3


class _Torn(Files):
    """A folder whose server reads `.xmd` in two halves, from two moments, again and again."""

    def __init__(self, folder, n_times):
        super().__init__(folder)
        self.before, self.left = {}, n_times

    def __getitem__(self, name):
        now = super().__getitem__(name)
        before = self.before.get(name, now)
        if name.endswith(".xmd") and self.left and before != now:
            self.left -= 1
            return now[: self.middle] + before[self.middle :]
        return now


def test_torn_metadata_are_read_again(tmp_path):
    with xa.create(tmp_path / "a", (0, 30, 20), chunks=CHUNKS) as writer, served(tmp_path) as web:
        web.objects = files = _Torn(tmp_path, 0)
        files.middle = writer._store.now.header.directory_offset
        writer.append(X[:4])
        with xa.open(web.url("a")) as a:
            for n in range(4, 40, 4):
                files.before["a.xmd"] = (tmp_path / "a.xmd").read_bytes()
                writer.append(X[n : n + 4])
                files.left = 1
                a.refresh()
                np.testing.assert_array_equal(a[...], X[: n + 4])
                assert not files.left


def test_it_never_goes_back(tmp_path):
    """A proxy between may answer with what it has kept."""
    with xa.create(tmp_path / "a", (0, 30, 20), chunks=CHUNKS) as writer:
        writer.append(X[:4])
        old = {f"a{s}": (tmp_path / f"a{s}").read_bytes() for s in (".xmd", ".xta")}
        writer.append(X[4:10])
        with served(tmp_path) as web, xa.open(web.url("a")) as a:
            np.testing.assert_array_equal(a[:6], X[:6])
            now, web.objects = web.objects, {**old, "a.xta": (tmp_path / "a.xta").read_bytes()}
            web.tag = lambda name: f'"{len(web.objects[name])}"'
            assert not a.refresh()
            np.testing.assert_array_equal(a[...], X[:10])
            web.objects = now
            writer.append(X[10:12])
            assert a.refresh()
            np.testing.assert_array_equal(a[...], X[:12])


# -- threads --------------------------------------------------------------------------------------


def test_chunks_on_their_way_during_a_refresh_are_of_the_new_state(tmp_path):
    """A thread fetches a chunk while another takes up a commit that changes it."""
    with xa.create(tmp_path / "a", (0, 30, 20), chunks=CHUNKS) as writer, served(tmp_path) as web:
        writer.append(X[:5])  # the second row of chunks is not full
        with xa.open(web.url("a")) as a, ThreadPoolExecutor(1) as pool:
            sent, go_on = Event(), Event()
            origin, fetch = a._store.origin, a._store.origin.fetch

            def late(addresses):
                found = fetch(addresses)
                sent.set()
                assert go_on.wait(60)
                return found

            origin.fetch = late
            reading = pool.submit(a.read)
            assert sent.wait(60)
            origin.fetch = fetch
            writer.append(X[5:7])
            Timer(0.2, go_on.set).start()
            assert a.refresh()
            np.testing.assert_array_equal(a[...], X[:7])
            np.testing.assert_array_equal(reading.result(), X[:5])


def test_metadata_that_a_reader_fetches_during_a_refresh(tmp_path, monkeypatch):
    """They may tell of a commit that is newer than the data that the refresh has looked at."""
    with xa.create(tmp_path / "a", (0, 30, 20), chunks=CHUNKS) as writer, served(tmp_path) as web:
        writer.append(X[:5])
        with xa.open(web.url("a")) as a:
            np.testing.assert_array_equal(a[...], X[:5])
            read_seal = store.read_seal

            def and_more(*arguments):
                found = read_seal(*arguments)
                np.testing.assert_array_equal(a[...], X[:5])
                if len(writer) < 18:
                    writer.append(X[10:18])
                    thread = Thread(target=a._store._confirm)
                    thread.start()
                    thread.join()
                return found

            writer.append(X[5:10])
            monkeypatch.setattr(store, "read_seal", and_more)
            assert a.refresh()
            np.testing.assert_array_equal(a[...], X[: len(a)])
            monkeypatch.undo()
            a.refresh()
            np.testing.assert_array_equal(a[...], X[:18])


@pytest.mark.slow
@pytest.mark.parametrize("tags_by", ["content", "time"])
@pytest.mark.parametrize("seed", range(3))
def test_threads_read_whole_states(tmp_path, tags_by, seed):
    low, high = (0, 0, 0), [4, 16, 16]
    writer = xa.from_array(truth(low, high), tmp_path / "a", (3, 5, 7), checksum=seed == 1)
    ended = Event()

    def write():
        rng = np.random.default_rng(seed)
        with writer:
            for _ in range(50):
                axis, by = int(rng.integers(0, 3)), int(rng.integers(1, 4))
                start = [0, 0, 0]
                start[axis] = high[axis]
                high[axis] += by
                writer.append(truth(start, high), axis=axis)
                time.sleep(0.004)
        ended.set()

    def read(a, seed):
        rng = np.random.default_rng(seed)
        while not ended.is_set():
            if rng.random() < 0.4:
                a.refresh()
            start = [int(rng.integers(0, n)) for n in a.shape]
            stop = [
                min(n, i + int(rng.integers(1, 20))) for i, n in zip(start, a.shape, strict=True)
            ]
            np.testing.assert_array_equal(a[tuple(map(slice, start, stop))], truth(start, stop))

    with (
        served(tmp_path, tags_by=tags_by) as web,
        xa.open(web.url("a")) as a,
        ThreadPoolExecutor(5) as pool,
    ):
        jobs = [pool.submit(write), *(pool.submit(read, a, n) for n in range(4))]
        for job in jobs:
            job.result()
        a.refresh()
        np.testing.assert_array_equal(a[...], truth(low, high))


# -- pickles --------------------------------------------------------------------------------------


def test_a_pickle_shows_no_older_state_than_its_sender_had(tmp_path, monkeypatch):
    """The receiver asks a proxy that has kept an older state, for a while or for ever."""
    with xa.create(tmp_path / "a", (0, 30, 20), chunks=CHUNKS) as writer, served(tmp_path) as web:
        web.tag = lambda name: f'"{len(web.objects[name])}"'
        writer.append(X[:4])
        old = {f"a{s}": (tmp_path / f"a{s}").read_bytes() for s in (".xmd", ".xta")}
        with xa.open(web.url("a")) as a:
            writer.append(X[4:10])
            pickled_before = pickle.dumps(a)
            assert a.refresh()
            pickled = pickle.dumps(a)
            writer.append(X[10:12])
            with pickle.loads(pickled) as b:
                np.testing.assert_array_equal(b[...], X[:12])
            now, web.objects = web.objects, old
            monkeypatch.setattr(limits, "visibility_patience", 0.0)
            with pytest.raises(NotVisibleError, match="newer state"):
                pickle.loads(pickled)
            with pickle.loads(pickled_before) as b:
                np.testing.assert_array_equal(b[...], X[:4])
            monkeypatch.setattr(limits, "visibility_patience", 60.0)
            monkeypatch.setattr(limits, "remote_pause", 0.01)
            threading.Timer(0.05, setattr, (web, "objects", now)).start()
            with pickle.loads(pickled) as b:
                np.testing.assert_array_equal(b[...], X[:12])


@pytest.mark.slow
def test_another_process_sees_what_its_sender_had(tmp_path):
    program = """
import pickle, sys, numpy as np
from extarray.common.limits import limits
limits.visibility_patience = 0.5
try:
    a = pickle.load(sys.stdin.buffer)
except TimeoutError as error:
    assert type(error).__name__ == "NotVisibleError", error
    print("late")
else:
    print(len(a), a[...].sum())
"""
    with (
        xa.create(tmp_path / "a", (0, 3), "i4", chunks=(64, 3)) as writer,
        served(tmp_path, tag=lambda name: f'"{len(web.objects[name])}"') as web,
    ):
        writer.append([[1, 1, 1]])
        old = {f"a{s}": (tmp_path / f"a{s}").read_bytes() for s in (".xmd", ".xta")}
        writer.append([[2, 2, 2]])
        with xa.open(web.url("a")) as a:
            pickled = pickle.dumps(a)
        writer.append([[3, 3, 3]])
        for objects, said in ((web.objects, "3 18"), (old, "late")):
            web.objects = objects
            done = subprocess.run(
                [sys.executable, "-c", program],
                input=pickled,
                stdout=subprocess.PIPE,
                check=True,
                timeout=60,
            )
            assert done.stdout.decode().strip() == said


# -- several arrays --------------------------------------------------------------------------------


def test_commits_of_several_arrays(web, tmp_path):
    paths = [tmp_path / name for name in "ab"]
    writers = [xa.create(path, (0, 20), chunks=(4, 8)) for path in paths]
    readers = [xa.open(web.url(path.name)) for path in paths]
    try:
        for n in range(1, 5):
            with xa.commit(writers):
                for writer in writers:
                    writer.append(X[n, :1])
            assert xa.refresh(readers)
            for reader in readers:
                np.testing.assert_array_equal(reader[...], X[1 : n + 1, 0])
        assert not xa.refresh(readers)
    finally:
        for array in (*writers, *readers):
            array.close()


# -- damage ----------------------------------------------------------------------------------------


def test_damaged_pairs_are_refused(web, tmp_path):
    xa.from_array(X, tmp_path / "a", CHUNKS).close()
    xa.from_array(X, tmp_path / "b", CHUNKS).close()
    whole = {s: (tmp_path / f"a{s}").read_bytes() for s in (".xmd", ".xta")}
    (tmp_path / "a.xta").write_bytes(whole[".xta"][:-1000])
    with pytest.raises((TruncatedError, PartnerError)):
        xa.open(web.url("a"))
    (tmp_path / "a.xta").write_bytes((tmp_path / "b.xta").read_bytes())
    with pytest.raises(PartnerError, match="another array"):
        xa.open(web.url("a"))
    os.unlink(tmp_path / "a.xta")
    with pytest.raises(MissingError, match="data file is missing"):
        xa.open(web.url("a"))
    (tmp_path / "a.xmd").write_bytes(whole[".xmd"][:100])
    with pytest.raises(xa.FormatError):
        xa.open(web.url("a"))


def test_damaged_chunks_are_found(web, tmp_path):
    with xa.from_array(X, tmp_path / "a", CHUNKS, checksum=True) as a:
        damaged = a.axial.address((1, 0, 0)) * a.chunk_bytes
    with open(tmp_path / "a.xta", "r+b") as file:
        file.seek(damaged)
        file.write(b"oops")
    with xa.open(web.url("a")) as a:
        with pytest.raises(ChecksumError, match=r"a\.xta"):
            a[4]
        np.testing.assert_array_equal(a[0], X[0])
    with xa.open(web.url("a"), verify="never") as a:
        np.testing.assert_array_equal(a[5], X[5])


# -- processes -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_forked_child_reads_or_is_refused(tmp_path):
    xa.from_array(X, tmp_path / "a", CHUNKS).close()
    program = """
import os, sys, numpy as np, extarray as xa
a = xa.open(sys.argv[1])
x = np.load(sys.argv[2])
assert (a[:8] == x[:8]).all()
child = os.fork()
if not child:
    status = 1
    try:
        status = int(not (a[:12] == x[:12]).all())
    except xa.ExtArrayError as error:  # without fsspec
        status = int("forked" not in str(error))
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
assert (a[...] == x).all()
"""
    np.save(tmp_path / "x.npy", X)
    with served(tmp_path) as web:
        subprocess.run(
            [sys.executable, "-c", program, web.url("a"), tmp_path / "x.npy"],
            check=True,
            timeout=60,
        )
