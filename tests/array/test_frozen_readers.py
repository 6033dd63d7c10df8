"""Readers of arrays with frozen chunks: forked children, other processes, and what they verify."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest

import extarray as xa

X = np.arange(1, 64 * 512 + 1, dtype="f8").reshape(64, 512)
# Of a page each, which can become a hole.
CHUNKS = (1, 512)


@pytest.fixture(params=["mmap", "pread"])
def engine(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    """Make an array of which half of the chunks are frozen."""
    path = tmp_path / "a"
    with xa.create(path, X.shape, "f8", chunks=CHUNKS, compression="zlib", freeze="never") as a:
        a[...] = X
        a.freeze()
        a[::2] = X[::2]
        a.flush()
    return path


def in_a_child(function):
    """Run a function in a forked child; return a function that waits for it."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)

    def end():
        assert os.waitpid(pid, 0)[1] == 0

    return end


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_child_keeps_what_its_parent_gives_up(path, mode, engine):
    """Each has its own memory for decoded chunks, though both had the same at the fork."""
    with xa.config.set(chunk_cache=8 * 4096), xa.open(path, mode, engine=engine) as a:
        np.testing.assert_array_equal(a[:8], X[:8])
        ready, go = os.pipe()

        def look():
            os.read(ready, 1)
            np.testing.assert_array_equal(a[:8], X[:8])
            for i in range(len(X)):
                np.testing.assert_array_equal(a[i], X[i])

        end = in_a_child(look)
        for i in range(8, len(X)):
            np.testing.assert_array_equal(a[i], X[i])
        os.write(go, b"x")
        np.testing.assert_array_equal(a[...], X)
        end()
        os.close(ready)
        os.close(go)


def test_a_child_reads_beside_freezes_of_its_parent(path, engine):
    with xa.open(path, "r+", engine=engine) as a:

        def look():
            assert a.mode == "r"
            for _ in range(12):
                np.testing.assert_array_equal(a[...], X)

        end = in_a_child(look)
        for _ in range(8):
            a.freeze()
            a.flush()
            a.thaw()
        end()


def test_a_child_does_not_wait_for_a_thread_of_its_parent(path):
    with xa.open(path) as a:
        held, end_of_thread = threading.Event(), threading.Event()

        def hold():
            with a._store.now.frozen._lock:
                held.set()
                end_of_thread.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        end = in_a_child(lambda: a._store.now.frozen.refresh())
        end_of_thread.set()
        thread.join()
        end()


@pytest.mark.parametrize("verify", ["never", "write", "read"])
def test_what_is_verified(path, verify, engine):
    with xa.open(path, engine=engine, verify=verify) as a:
        np.testing.assert_array_equal(a[...], X)
        at = a._store.now.frozen.place_of_blob(1)
    with open(f"{path}.xtz", "r+b") as file:
        file.seek(at + 4)
        file.write(b"\xff")  # the length of the payload, which counts without checksums, too
    with xa.open(path, engine=engine, verify=verify) as a:
        np.testing.assert_array_equal(a[2:], X[2:])
        with pytest.raises(xa.errors.ChecksumError, match=r"\[1:2, 0:512\]"):
            a[1]


def test_pickles_of_readers(path, engine):
    with xa.open(path, engine=engine) as a, pickle.loads(pickle.dumps(a)) as b:
        np.testing.assert_array_equal(b[...], X)
        with xa.open(path, "r+", engine=engine) as writer:
            writer.freeze()
            writer.append(X[:3])
            writer.flush()
            a.refresh()
            with pickle.loads(pickle.dumps(a)) as c:
                np.testing.assert_array_equal(c[...], np.vstack([X, X[:3]]))
            np.testing.assert_array_equal(b[...], X)


@pytest.mark.slow
def test_another_process_reads_a_pickle(path, tmp_path):
    with xa.open(path) as a:
        (tmp_path / "pickle").write_bytes(pickle.dumps(a))
    program = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    a = pickle.load(file)
print(a.mode, a.sum())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "pickle"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["r", str(X.sum())]


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_dask_reads(path, scheduler):
    dask_array = pytest.importorskip("dask.array")
    with xa.open(path) as a:
        found = dask_array.from_array(a, chunks=(16, 512)).sum(axis=1)
        np.testing.assert_array_equal(found.compute(scheduler=scheduler), X.sum(axis=1))


def test_what_is_new_is_yielded(path, engine):
    with xa.open(path, "r+", engine=engine) as writer, xa.open(path, engine=engine) as a:
        news = a.follow(timeout=0)
        for n in range(3):
            writer.append(X[n : n + 2])
            writer.freeze()
            writer.flush()
            box, data = next(news)
            np.testing.assert_array_equal(data, X[n : n + 2])
            np.testing.assert_array_equal(a[box], data)
        assert next(news, None) is None


@pytest.mark.parametrize("side", [128, 512])
def test_memory_of_decoded_chunks_is_bounded_and_given_back(tmp_path, side):
    x = np.arange(1 << 20).reshape(1024, 1024)
    xa.from_array(x, path=tmp_path / "a", chunks=side, compression="zlib:1").close()
    bound = x.nbytes // 4
    tracemalloc.start()
    try:
        with xa.config.set(chunk_cache=bound, threads=1):
            a = xa.open(tmp_path / "a")
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(2):
                for row in range(0, 1024, 64):
                    assert a[row, 5] == x[row, 5]
                    assert int(a[row : row + 64].max()) == x[row + 63, -1]
            kept, _ = tracemalloc.get_traced_memory()
            assert bound // 2 < kept - before < 2 * bound + (1 << 20)
            a.close()  # and `a` is still there
            left, _ = tracemalloc.get_traced_memory()
            assert left - before < 1 << 18
    finally:
        tracemalloc.stop()
