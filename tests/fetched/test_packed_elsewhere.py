"""Packed arrays on a web server: what is read, in how many requests, and what is refused."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import time
import traceback
import zipfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import needs_obstore, served

import extarray as xa
from extarray.common.limits import limits
from extarray.errors import (
    ArgumentError,
    ChecksumError,
    ClosedError,
    CorruptError,
    MissingError,
    NotVisibleError,
    ReadOnlyError,
    ReplacedError,
    ResultError,
)
from extarray.fetched.paths import as_path

pytestmark = needs_obstore

X = np.random.default_rng(5).normal(size=(40, 30, 20))
CHUNKS = (4, 8, 8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make a folder with packed arrays, with and without checksums, and one that has grown."""
    folder = tmp_path_factory.mktemp("web")
    for name, checksum in (("plain", False), ("summed", True)):
        with xa.create(None, (0, 30, 20), chunks=CHUNKS, attrs={"unit": "K"}) as a:
            a.append(X)
            with a.copy(folder / name, checksum=checksum) as b:
                xa.pack(b, folder / f"{name}.xap")
    with xa.create(folder / "grown", (4, 8, 8), chunks=CHUNKS, dims=["t", "y", "x"]) as a:
        a[...] = X[:4, :8, :8]
        for n in range(4, 20, 2):
            a.append(X[n : n + 2, : a.shape[1], : a.shape[2]], axis=0)
            k = a.shape[1]
            a.append(X[: a.shape[0], k : k + 1, : a.shape[2]], axis=1)
            k = a.shape[2]
            a.append(X[: a.shape[0], : a.shape[1], k : k + 1], axis=2)
        xa.pack(a, folder / "grown.xap")
    return folder


@pytest.fixture
def web(folder):
    with served(folder) as server:
        yield server


@pytest.fixture(params=["mmap", "pread"])
def engine(request):
    return request.param


def test_one_request_opens_and_one_reads(web, engine):
    with xa.open(web.url("plain.xap"), engine=engine) as a:
        assert len(web.requests) == 1
        assert a.shape == X.shape
        assert a.attrs["unit"] == "K"
        np.testing.assert_array_equal(a[...], X)
        assert len(web.requests) == 2
        np.testing.assert_array_equal(a[3:9, ::-2, 5], X[3:9, ::-2, 5])
        assert len(web.requests) == 2
        assert a.info()["requests"] == 2
        assert X.nbytes < a.info()["fetched_bytes"] < 2 * X.nbytes


def test_an_element_takes_its_chunk(web):
    with xa.open(web.url("plain.xap")) as a:
        web.forget()
        assert a[9, 9, 9] == X[9, 9, 9]
        assert a[8, 8, 8] == X[8, 8, 8]
        (asked,) = [r.range.removeprefix("bytes=").split("-") for r in web.requests]
        assert int(asked[1]) - int(asked[0]) + 1 == a.chunk_bytes


def test_everything_that_reads_works(web, engine):
    with xa.open(web.url("grown.xap"), engine=engine) as a:
        x = X[: a.shape[0], : a.shape[1], : a.shape[2]]
        assert a.dims == ("t", "y", "x")
        np.testing.assert_allclose(np.median(a, axis=0), np.median(x, axis=0))
        np.testing.assert_allclose(a.std(), x.std())
        np.testing.assert_array_equal(np.sort(a, axis=1), np.sort(x, axis=1))
        np.testing.assert_array_equal(a[a[...] > 1], x[x > 1])
        np.testing.assert_array_equal(a[[3, 1], :, [2]], x[[3, 1], :, [2]])
        np.testing.assert_array_equal(a.lazy[2:, ::3].T, x[2:, ::3].T)
        np.testing.assert_array_equal(a.chunk((1, 1, 1)), x[4:8, 8:16, 8:16])
        np.testing.assert_array_equal(a.astype("f4")[3], x[3].astype("f4"))
        assert [row.sum() for row in a] == [row.sum() for row in x]
        for box in a.iter_chunks():
            np.testing.assert_array_equal(a[box], x[box])
        assert not a.refresh()
        assert "http" in repr(a)
        assert str(a.path) == web.url("grown.xap/grown")
        assert a.path.name == "grown"


KEYS = st.tuples(*(st.slices(n) for n in X.shape))


@given(st.lists(KEYS, min_size=1, max_size=4), st.sampled_from([1, 5, 40]))
def test_any_boxes_one_after_the_other(folder, keys, chunks):
    size = 8 * int(np.prod(CHUNKS))
    with (
        served(folder) as web,
        xa.config.set(chunk_cache=chunks * size),
        xa.open(web.url("summed.xap")) as a,
    ):
        for key in keys:
            np.testing.assert_array_equal(a[key], X[key])


def test_few_chunks_stay_and_all_are_read(web):
    with xa.config.set(chunk_cache=1):
        a = xa.open(web.url("summed.xap"))
    with a:
        np.testing.assert_array_equal(a[...], X)
        np.testing.assert_allclose(a.sum(axis=0), X.sum(axis=0))
        assert len(a._store.now.supply.present) == 1
        assert len(web.requests) <= 1 + 2 * a.axial.size


def test_small_chunks_that_leave_free_their_pages(tmp_path):
    x = np.arange(4096.0)
    with xa.from_array(x, tmp_path / "a", chunks=16) as a:
        xa.pack(a, tmp_path / "a.xap")
    with (
        served(tmp_path) as web,
        xa.config.set(chunk_cache=64 * 128),
        xa.open(web.url("a.xap")) as a,
    ):
        np.testing.assert_array_equal(a[...], x)
        np.testing.assert_array_equal(a[::-1], x[::-1])
        with a._store.now.data as fd:
            assert os.fstat(fd).st_blocks * 512 <= 64 * 128 + 2 * 4096


@pytest.mark.slow
def test_threads_read_at_the_same_time(web):
    with xa.config.set(chunk_cache=40 * 2048):
        a = xa.open(web.url("summed.xap"))

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(20):
            low = [int(rng.integers(0, n)) for n in X.shape]
            key = tuple(slice(i, i + int(rng.integers(1, 12))) for i in low)
            np.testing.assert_array_equal(a[key], X[key])

    with a, ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))


def test_reductions_ask_ahead(tmp_path):
    x = np.random.default_rng(1).normal(size=(64, 64, 64))
    with xa.from_array(x, tmp_path / "a", chunks=(4, 64, 64)) as a:
        xa.pack(a, tmp_path / "a.xap")
    with (
        served(tmp_path, latency=0.01) as web,
        xa.config.set(threads=1, max_memory="1 MiB"),
        xa.open(web.url("a.xap")) as a,
    ):
        np.testing.assert_allclose(a.mean(), x.mean())
        assert web.most_at_once > 1
        assert len(web.requests) <= 17
    with served(tmp_path) as web, xa.open(web.url("a.xap")) as a:
        np.testing.assert_allclose(a.lazy[:, ::2].sum(axis=1) + 1, x[:, ::2].sum(axis=1) + 1)
        assert len(web.requests) <= 3  # one to open, and with room in memory few for the chunks


def test_chunks_one_by_one_are_asked_for_ahead(web):
    web.latency = 0.005
    with xa.open(web.url("plain.xap")) as a:
        found = np.empty_like(X)
        for box in a.iter_chunks():
            found[box] = a[box]
        np.testing.assert_array_equal(found, X)
        assert len(web.requests) <= 4
    with xa.open(web.url("plain.xap")) as a:
        for index, view in a.chunk_views("grid"):
            low = [i * n for i, n in zip(index, CHUNKS, strict=True)]
            part = X[tuple(slice(i, i + n) for i, n in zip(low, CHUNKS, strict=True))]
            np.testing.assert_array_equal(view[tuple(map(slice, part.shape))], part)


def test_chunks_on_their_way_may_be_given_up_by_another_thread(web):
    """As `refresh` and an interrupt do it."""
    with xa.open(web.url("plain.xap")) as a, ThreadPoolExecutor(1) as pool:
        provider = a._store.provider
        web.forget()
        web.latency = 0.5
        provider.ahead(np.arange(4))
        assert 1 in provider._coming
        found = pool.submit(a.chunk, a.axial.index(1))
        while 1 in provider._coming:
            time.sleep(0.001)
        web.latency = 0
        provider.forget_coming()
        index = a.axial.index(1)
        box = tuple(slice(i * c, i * c + c) for i, c in zip(index, CHUNKS, strict=True))
        np.testing.assert_array_equal(found.result(), X[box])


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("way", ["[a[b] for b in a.iter_chunks()]", "np.median(a, axis=0)"])
def test_an_interrupted_array_reads_on(web, way, tmp_path):
    program = f"""
import signal, sys, numpy as np, extarray as xa
signal.signal(signal.SIGINT, signal.default_int_handler)
x = np.load(sys.argv[2])
with xa.open(sys.argv[1], storage_options={{"coalesce": 0}}) as a:
    print("begun", flush=True)
    try:
        {way}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    sys.stdin.readline()
    assert (a[...] == x).all()
"""
    np.save(tmp_path / "x.npy", X)
    web.fail("none")
    web.fail("slow", 200, times=100)
    process = subprocess.Popen(
        [sys.executable, "-c", program, web.url("plain.xap"), tmp_path / "x.npy"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "begun\n"
        while len(web.requests) < 2:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        web.faults.clear()
        process.stdin.write("go on\n")
        process.stdin.close()
        assert process.wait(60) == 0


def test_many_chunks_are_requested_once(tmp_path):
    x = np.arange(4096 * 64.0).reshape(4096, 64)
    with xa.from_array(x, tmp_path / "a", chunks=(8, 64)) as a:
        xa.pack(a, tmp_path / "a.xap")
    with (
        served(tmp_path) as web,
        xa.config.set(chunk_cache="1 MiB"),
        xa.open(web.url("a.xap")) as a,
    ):
        for box in a.iter_chunks():
            np.testing.assert_array_equal(a[box], x[box])
        assert len(web.requests) <= 12
        assert a.info()["fetched_bytes"] < 1.1 * x.nbytes


# -- other places in a file ------------------------------------------------------------------------


def test_long_metadata_take_a_second_request(tmp_path):
    text = "x" * 200_000
    with xa.from_array(X, tmp_path / "a", attrs={"text": text}) as a:
        xa.pack(a, tmp_path / "a.xap")
    with served(tmp_path) as web, xa.open(web.url("a.xap")) as a:
        assert len(web.requests) == 2
        assert a.attrs["text"] == text
        np.testing.assert_array_equal(a[...], X)


def test_a_zip_program_may_have_packed_it(folder, tmp_path):
    with zipfile.ZipFile(tmp_path / "other.xap", "w") as z:
        z.writestr("note.txt", "a note")
        for suffix in (".xmd", ".xta"):
            z.write(folder / f"summed{suffix}", f"inner/summed{suffix}")
    with served(tmp_path) as web, xa.open(web.url("other.xap/inner/summed")) as a:
        np.testing.assert_array_equal(a[...], X)


def test_any_name_will_do(folder, tmp_path):
    (tmp_path / "scene").write_bytes((folder / "plain.xap").read_bytes())
    with served(tmp_path) as web, xa.open(web.url("scene")) as a:
        np.testing.assert_array_equal(a[...], X)


# -- what cannot be --------------------------------------------------------------------------------


def test_what_writes_says_so(web, tmp_path):
    url = web.url("plain.xap")
    with pytest.raises(ReadOnlyError, match="copy it to a file"):
        xa.open(url, "r+")
    for act in (lambda: xa.create(url, (3,)), lambda: xa.from_array(X, url)):
        with pytest.raises(ReadOnlyError, match="upload it"):
            act()
    with xa.open(url) as a:
        for act in (lambda: a.extend(0, 1), lambda: a.__setitem__(0, 1), lambda: a.attrs.clear()):
            with pytest.raises(ReadOnlyError, match="copy it to a file"):
                act()
        with a.copy(tmp_path / "copy") as b:
            np.testing.assert_array_equal(b[...], X)
        xa.pack(a, tmp_path / "again.xap")
    with pytest.raises(ClosedError):
        a[0]
    with xa.open(tmp_path / "again.xap") as b:
        np.testing.assert_array_equal(b[...], X)


def test_what_is_not_there(web):
    with pytest.raises(MissingError, match="none.xap"):
        xa.open(web.url("none.xap"))
    with pytest.raises(MissingError, match="none.xmd"):
        xa.open(web.url("none"))
    with pytest.raises(MissingError, match="no array 'other'"):
        xa.open(web.url("plain.xap/other"))
    with pytest.raises(ArgumentError, match="local file"):
        xa.open("here", storage_options={"anon": True})


def test_secrets_are_not_told(web):
    secret = web.url("plain.xap?token=verysecret").replace("://", "://me:pass@")
    with xa.open(secret) as a:
        assert a[0, 0, 0] == X[0, 0, 0]
        for text in (repr(a), str(a.path), str(a.info()), repr(a.path), str(pickle.dumps(a))):
            assert "verysecret" not in text
            assert "pass@" not in text
    with pytest.raises(ReadOnlyError) as found:
        xa.create(secret, (3,))
    assert "verysecret" not in str(found.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://?hidden",
        "http://me:hid/d3n@127.0.0.1:1/a.xap",
        "http://me:hid?d3n@127.0.0.1:1/a.xap",
        "http://[::1/hidden",
        "s3://?hidden",
        "s3://key:hidden@bucket/a.xap",
        "s3://bucket/a.xap?signature=hidden",
        "az://key:hidden@container/a.xap",
        "az://container/a.xap?sig=hidden",
        "gs://bucket/g/a?sig=hidden",
    ],
)
def test_urls_that_cannot_be_meant_are_not_quoted(url):
    for call in (xa.open, xa.open_group, xa.check, lambda url: xa.create(url, (3,))):
        with pytest.raises((ArgumentError, ReadOnlyError)) as found:
            call(url)
        told = "".join(traceback.format_exception_only(found.value))
        assert not re.search(r"hid|d3n", told), told


def test_names_of_objects_have_any_characters(tmp_path):
    obstore = pytest.importorskip("obstore")
    with xa.from_array(X, tmp_path / "a", CHUNKS) as a:
        xa.pack(a, tmp_path / "a.xap")
    store = obstore.store.MemoryStore()
    for name in ("a#1.xap", "a?b.xap", "ä ö.xap"):
        obstore.put(store, name, (tmp_path / "a.xap").read_bytes())
        with xa.open((store, name)) as a:
            np.testing.assert_array_equal(a[3], X[3])
    assert str(as_path("s3://bucket/a#1.xap")) == "s3://bucket/a#1.xap"


def test_another_object_is_not_read(folder, tmp_path):
    (tmp_path / "a.xap").write_bytes((folder / "plain.xap").read_bytes())
    with xa.from_array(X[:9], tmp_path / "plain", dims=["t", "y", "x"]) as a:
        xa.pack(a, tmp_path / "other")
    with served(tmp_path) as web, xa.open(web.url("a.xap")) as a:
        assert a[0, 0, 0] == X[0, 0, 0]
        os.replace(tmp_path / "other", tmp_path / "a.xap")
        with pytest.raises(ReplacedError):
            a[4]
        assert a[0, 0, 0] == X[0, 0, 0]
        with pytest.raises(ReplacedError):
            a.refresh()
        assert a.replaced
        assert a.refresh(on_replaced="reopen")
        assert a.dims == ("t", "y", "x")
        np.testing.assert_array_equal(a[...], X[:9])


def test_damaged_chunks_are_found(folder, tmp_path):
    content = bytearray((folder / "summed.xap").read_bytes())
    with zipfile.ZipFile(folder / "summed.xap") as z:
        info = z.getinfo("summed.xta")
    start = content.index(X[0, 0, :1].tobytes())
    content[start] ^= 1
    (tmp_path / "a.xap").write_bytes(content)
    assert info.file_size > 0
    with served(tmp_path) as web:
        with xa.open(web.url("a.xap")) as a:
            with pytest.raises(ChecksumError):
                a[0]
            np.testing.assert_array_equal(a[20], X[20])
        with xa.open(web.url("a.xap"), verify="never") as a:
            assert a[0, 0, 0] != X[0, 0, 0]


def test_damaged_metadata_are_refused(folder, tmp_path):
    whole = (folder / "plain.xap").read_bytes()
    with zipfile.ZipFile(folder / "plain.xap") as z:
        at = z.getinfo("plain.xmd").header_offset
    for offset in (at + 14, at + 60, at + 3000, len(whole) - 10):
        content = bytearray(whole)
        content[offset] ^= 0xFF
        (tmp_path / "a.xap").write_bytes(content)
        with served(tmp_path) as web, pytest.raises((CorruptError, xa.FormatError)):
            xa.open(web.url("a.xap"))


def test_chunks_larger_than_memory_are_refused(web):
    with (
        xa.open(web.url("plain.xap")) as a,
        xa.config.set(max_result=100),
        pytest.raises(ResultError, match="max_result"),
    ):
        a[0]


# -- processes -------------------------------------------------------------------------------------


def test_pickles_open_the_url(web):
    with xa.open(web.url("plain.xap")) as a, pickle.loads(pickle.dumps(a)) as again:
        np.testing.assert_array_equal(again[2], X[2])
        assert again.path == a.path


@pytest.mark.slow
def test_processes_read(web):
    with xa.open(web.url("summed.xap")) as a:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(2, context) as pool:
            found = list(pool.map(np.median, [a] * 3, [None, 0, 1]))
    for part, axis in zip(found, [None, 0, 1], strict=True):
        np.testing.assert_allclose(part, np.median(X, axis=axis))


# -- chunks in blobs ------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [None, "zstd:shuffle", "lz4"])
@pytest.mark.parametrize("order", ["hilbert", "morton", 2])
def test_chunks_in_another_order(tmp_path, order, compression, engine):
    x = np.random.default_rng(7).normal(size=(32, 64, 64)).astype("f4")
    x[:, 32:48] = 0
    with xa.create(tmp_path / "a", (8, 16, 16), "f4", chunks=(4, 8, 8)) as a:
        for axis, n in ((0, 32), (1, 64), (2, 64), (0, 32)):
            a.extend(axis, n - a.shape[axis])
        a[...] = x
        xa.pack(a, tmp_path / "a.xap", order=order, compression=compression)
    with served(tmp_path) as web:
        with xa.open(web.url("a.xap"), engine=engine) as a:
            assert len(web.requests) == 1
            np.testing.assert_array_equal(a[...], x)
            np.testing.assert_array_equal(a[5, ::3], x[5, ::3])
            np.testing.assert_allclose(a.sum(dtype="f8"), x.sum(dtype="f8"))
            assert a.info()["file_bytes"] < 2 * x.nbytes
        with xa.open(web.url("a.xap"), cache=tmp_path / "cache") as a:
            np.testing.assert_array_equal(a[3:9, 20:40], x[3:9, 20:40])
        web.forget()
        with xa.open(web.url("a.xap"), cache=tmp_path / "cache") as a:
            np.testing.assert_array_equal(a[4:9, 20:40], x[4:9, 20:40])
            assert len(web.requests) == 1
        assert xa.check(web.url("a.xap"), data=True).ok


@pytest.mark.parametrize("threads", [1, 2])
def test_compressed_chunks_take_fewer_bytes(tmp_path, threads, monkeypatch):
    monkeypatch.setattr(limits, "coded_bytes", 1 << 12)
    x = np.add.outer(np.arange(300) // 3, np.arange(400) // 7).astype("f8")
    x[:50, :50] = np.random.default_rng(7).normal(size=(50, 50))
    x[50:100, :50] = 5
    x[100:150, :50] = 0
    with xa.from_array(x, tmp_path / "a", (50, 50)) as a:
        xa.pack(a, tmp_path / "a.xap", compression="auto")
    with served(tmp_path) as web, xa.config.set(threads=threads):
        with xa.open(web.url("a.xap")) as a:
            np.testing.assert_array_equal(a[...], x)
            info = a.info()
            assert info["compression"] == "zstd:auto"
            assert info["ratio"] == x.nbytes / info["stored_bytes"] > 4
            assert info["fetched_bytes"] < info["stored_bytes"] + (1 << 17)
            n_requests = len(web.requests)
            np.testing.assert_array_equal(a[::2, 7], x[::2, 7])
            assert len(web.requests) == n_requests
        with xa.config.set(chunk_cache=3 * a.chunk_bytes), xa.open(web.url("a.xap")) as a:
            for i in range(0, 300, 23):
                np.testing.assert_array_equal(a[i], x[i])
            np.testing.assert_allclose(np.median(a, axis=1), np.median(x, axis=1))
            with a.copy(tmp_path / "copy") as copy:
                np.testing.assert_array_equal(copy[...], x)


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_damaged_blobs_are_found(tmp_path, compression):
    x = np.random.default_rng(7).integers(-(2**63), 2**63 - 1, (32, 64, 64))  # stays raw
    with xa.from_array(x, tmp_path / "a", (4, 8, 8)) as a:
        xa.pack(a, tmp_path / "a.xap", order="hilbert", compression=compression)
    content = bytearray((tmp_path / "a.xap").read_bytes())
    content[content.index(x[8, 16, 16:24].tobytes())] ^= 1
    (tmp_path / "a.xap").write_bytes(content)
    with served(tmp_path) as web, xa.open(web.url("a.xap")) as a:
        with pytest.raises(ChecksumError, match=r"\[8:12, 16:24, 16:24\]"):
            a[8:12]
        np.testing.assert_array_equal(a[:4], x[:4])


def test_a_pickle_shows_no_older_file_than_its_sender_had(tmp_path):
    with xa.from_array(X, tmp_path / "a", CHUNKS) as a:
        xa.pack(a, tmp_path / "a.xap")
    with served(tmp_path, has_dates=True) as web:
        with xa.open(web.url("a.xap")) as a:
            pickled = pickle.dumps(a)
        for date, is_older in (("Fri, 27", False), ("Wed, 25", True)):
            web.date = f"{date} Nov 2026 22:00:00 GMT"
            if is_older:
                with pytest.raises(NotVisibleError, match="newer state"):
                    pickle.loads(pickled)
            else:
                pickle.loads(pickled).close()
        web.has_dates = False  # nothing tells
        pickle.loads(pickled).close()
