"""Chunks that stay on the disk between programs."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import needs_obstore, served
from systems import needs_small_holes

import extarray as xa
from extarray.errors import ArgumentError, StorageError
from extarray.fetched.cache import DiskCache

pytestmark = needs_obstore

X = np.random.default_rng(9).normal(size=(32, 64, 32))
CHUNKS = (4, 16, 16)


@pytest.fixture
def web(tmp_path):
    with xa.from_array(X, tmp_path / "a", CHUNKS) as a:
        xa.pack(a, tmp_path / "a.xap")
    with served(tmp_path) as server:
        yield server


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "deep" / "cache"


@pytest.mark.parametrize(("name", "n_requests"), [("a.xap", 1), ("a", 2)])
def test_what_was_read_once_is_not_requested_again(web, folder, name, n_requests):
    with xa.open(web.url(name), cache=folder) as a:
        np.testing.assert_array_equal(a[4:12], X[4:12])
    web.forget()
    with xa.open(web.url(name), cache=folder) as a:
        np.testing.assert_array_equal(a[5:11], X[5:11])
        assert len(web.requests) == n_requests
        np.testing.assert_array_equal(a[...], X)
        web.forget()
        np.testing.assert_allclose(a.sum(), X.sum())
    with xa.open_group(web.url("a.xap"), cache=folder) as g:
        np.testing.assert_array_equal(g["a"][0], X[0])


def test_another_version_is_fetched(web, folder, tmp_path):
    for name in ("a", "a.xap"):
        xa.open(web.url(name), cache=folder)[...]
    with xa.open(tmp_path / "a", "r+") as a:
        a[...] = X + 1
        xa.pack(a, tmp_path / "a.xap", overwrite=True)
    for name in ("a", "a.xap"):
        with xa.open(web.url(name), cache=folder) as a:
            np.testing.assert_array_equal(a[...], X + 1)


def test_pairs_with_a_writer_are_not_kept(web, folder, tmp_path):
    with xa.open(tmp_path / "a", "r+") as writer:
        writer[0] = 1
        with xa.open(web.url("a"), cache=folder) as a:
            np.testing.assert_array_equal(a[0], np.ones((64, 32)))
            writer[0] = 2
            writer.append(X[:1])
            a.refresh()
            np.testing.assert_array_equal(a[0], np.full((64, 32), 2))
        assert not folder.exists()
        writer[3] = 3
        writer.flush()
        with xa.open(web.url("a"), cache=folder) as a:
            np.testing.assert_array_equal(a[3], np.full((64, 32), 3))
        assert not folder.exists()
        writer[3] = X[3]
        writer.close()
        with xa.open(web.url("a"), cache=folder) as a:
            np.testing.assert_array_equal(a[1:], np.concatenate([X[1:], X[:1]]))
        web.forget()
        with xa.open(web.url("a"), cache=folder) as a:
            np.testing.assert_array_equal(a[32], X[0])
            assert len(web.requests) == 2


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=20))
def test_damage_costs_a_fetch(tmp_path_factory, changes):
    tmp_path = tmp_path_factory.mktemp("damage")
    x = X[:8]
    with xa.from_array(x, tmp_path / "a", CHUNKS) as a:
        xa.pack(a, tmp_path / "a.xap")
    with served(tmp_path) as web:
        with xa.open(web.url("a.xap"), cache=tmp_path / "cache") as a:
            a[...]
        for name in os.listdir(tmp_path / "cache"):
            content = bytearray((tmp_path / "cache" / name).read_bytes())
            for place, value in changes:
                if content:
                    content[place % len(content)] = value
            (tmp_path / "cache" / name).write_bytes(content[: len(content) - len(changes)])
        with xa.open(web.url("a.xap"), cache=tmp_path / "cache") as a:
            np.testing.assert_array_equal(a[...], x)


def test_the_folder_is_bounded(web, folder, tmp_path):
    def taken():
        return sum(os.stat(folder / f).st_blocks * 512 for f in os.listdir(folder))

    bound = 20 * 8192
    with xa.config.set(disk_cache=bound):
        with xa.open(web.url("a"), cache=folder) as a:
            np.testing.assert_array_equal(a[...], X)
            assert taken() <= bound + 4 * 4096
            np.testing.assert_array_equal(a[...], X)
        os.utime(next(folder.glob("*.table")), (1, 1))
        with xa.open(web.url("a.xap"), cache=folder) as a:
            np.testing.assert_array_equal(a[...], X)
        assert taken() <= bound + 4 * 4096
        assert len(list(folder.glob("*.chunks"))) == 1  # the older one is gone
        web.forget()
        with xa.open(web.url("a.xap"), cache=folder) as a:
            np.testing.assert_array_equal(a[...], X)


def test_many_programs_that_keep_little_stay_within_the_bound(tmp_path):
    bound = 10 * 8192
    with xa.config.set(disk_cache=bound):
        for n in range(60):  # each less than the share that is written between two looks
            cache = DiskCache(str(tmp_path), [n], 4096)
            cache.put([(0, bytes([n + 1]) * 4096)])
            cache.close()
    assert sum(p.stat().st_blocks * 512 for p in tmp_path.glob("*.chunks")) <= bound + 4096


@needs_small_holes
def test_chunks_used_longest_ago_leave_first(tmp_path, monkeypatch):
    now = 1e9
    monkeypatch.setattr(time, "time", lambda: now)
    cache = DiskCache(str(tmp_path), ["a"], 8192)
    chunks = [bytes([n]) * 8192 for n in range(16)]
    with xa.config.set(disk_cache=10 * 8192):
        for n in range(9):
            now += 100
            cache.put([(n, chunks[n])])
        now += 100
        assert cache.get(np.array([0])) == {0: chunks[0]}
        for n in range(9, 14):
            now += 100
            cache.put([(n, chunks[n])])
    found = cache.get(np.arange(16))
    assert found == {n: chunks[n] for n in found}
    assert 0 in found
    assert 13 in found
    assert not {1, 2, 3} & set(found)
    cache.close()


@pytest.mark.slow
def test_processes_share_it(web, folder, tmp_path):
    """Some are killed while they read."""
    program = """
import sys, numpy as np, extarray as xa
x = np.load(sys.argv[2])
with xa.config.set(disk_cache=40 * 8192), xa.open(sys.argv[1], cache=sys.argv[3]) as a:
    r = np.random.default_rng(int(sys.argv[4]))
    for _ in range(60):
        i, j = int(r.integers(0, 28)), int(r.integers(0, 48))
        assert (a[i : i + 4, j : j + 16] == x[i : i + 4, j : j + 16]).all()
        a._store.now.supply.renew(a._store.now.supply.present)
"""
    np.save(tmp_path / "x.npy", X)
    command = [sys.executable, "-c", program, web.url("a"), tmp_path / "x.npy", folder]
    running = [subprocess.Popen([*command, str(n)]) for n in range(4)]
    time.sleep(1.0)
    running[0].kill()
    assert [process.wait(60) for process in running][1:] == [0, 0, 0]
    with xa.open(web.url("a"), cache=folder) as a:
        np.testing.assert_array_equal(a[...], X)


def test_what_cannot_be(web, tmp_path):
    with pytest.raises(StorageError, match="cannot use the cache"):
        xa.open(web.url("a"), cache=tmp_path / "a.xap")
    with pytest.raises(ArgumentError, match="local file"):
        xa.open(tmp_path / "a", cache=tmp_path / "cache")
