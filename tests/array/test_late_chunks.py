"""Chunks that come from elsewhere: every way of reading first brings the chunks that it needs.

The arrays have grown on all axes, so that addresses differ from the order of chunks, and so few
chunks may be present that they leave again and again.
"""

from __future__ import annotations

import concurrent.futures
import gc
import threading

import late_chunks
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from late_chunks import ORIGINS, late

import extarray as xa
from extarray.errors import ArgumentError, ChecksumError, ReadOnlyError

CHUNKS = (4, 3, 5)
X = np.random.default_rng(5).normal(size=(13, 11, 17))
AT_ONCE = 6


def original(path, order="C", **options):
    """An array of three segments, one of them at the start of an axis."""
    with xa.create(path, (8, 7, 9), chunks=CHUNKS, order=order, **options) as a:
        a[...] = X[:8, 4:, :9]
        a.append(X[8:, 4:, :9], axis=0)
        a.append(X[:, :4, :9], axis=1, side="start")
        a.append(X[:, :, 9:], axis=2)
        assert (a[...] == X).all()


@pytest.fixture(params=["mmap", "pread"])
def engine(request):
    return request.param


@pytest.fixture(params=list(ORIGINS))
def kind(request):
    return request.param


@pytest.fixture
def place(tmp_path):
    original(tmp_path / "origin")
    return tmp_path


@pytest.fixture
def opened(place, engine):
    with late(place / "origin", place / "late", "dict", AT_ONCE, engine=engine) as both:
        yield both


MASK = X > 0.5
READS = {
    "element": lambda a: a[3, 5, 7],
    "element, from the end": lambda a: a[-1, -1, -1],
    "all": lambda a: a[...],
    "box": lambda a: a[2:9, 1:4, 3:16],
    "box, backwards": lambda a: a[::-1, 9:2:-2, ::5],
    "plane": lambda a: a[:, 6],
    "none": lambda a: a[3:3],
    "lists": lambda a: a[[0, 12, 5], [3, 3, 10], [16, 0, 9]],
    "list and slice": lambda a: a[1:6, [10, 0, 10], :],
    "mask": lambda a: a[MASK],
    "mask of an axis": lambda a: a[MASK[:, 0, 0]],
    "two at once": lambda a: a[[[1, 2], [3, 4]]],
    "iteration": lambda a: np.array([row[2, 3] for row in a]),
}


@pytest.mark.invariant("I16")
@pytest.mark.parametrize("read", list(READS))
def test_what_is_read_is_what_numpy_reads(opened, read):
    a, provider = opened
    np.testing.assert_array_equal(READS[read](a), READS[read](X))
    np.testing.assert_array_equal(READS[read](a), READS[read](X))
    if read != "none":
        assert provider.asked


def test_each_origin_serves_boxes_lists_and_medians(place, kind, engine):
    with late(place / "origin", place / "late", kind, AT_ONCE, engine=engine) as (a, provider):
        for read in ("all", "box, backwards", "lists", "mask"):
            np.testing.assert_array_equal(READS[read](a), READS[read](X))
        np.testing.assert_array_equal(np.median(a, axis=1), np.median(X, axis=1))
        assert provider.n_evicted > a.axial.size


STREAMED = {
    "sum": lambda a: np.sum(a),
    "mean along an axis": lambda a: np.mean(a, axis=2),
    "median": lambda a: np.median(a),
    "sort": lambda a: np.sort(a, axis=0),
    "ufunc": lambda a: np.asarray(np.multiply(a, 2)),
    "operator": lambda a: np.asarray(a + a[:, :1]),
    "argmax": lambda a: np.argmax(a, axis=0),
    "histogram": lambda a: np.histogram(a, bins=7)[0],
    "cumsum": lambda a: np.cumsum(a, axis=1),
    "asarray": lambda a: np.asarray(a),
    "astype": lambda a: np.asarray(a.astype("f4")),
}


@pytest.mark.parametrize("name", list(STREAMED))
def test_streamed_operations_ask_for_what_they_read(opened, name):
    a, _ = opened
    with xa.config.set(threads=2, mapped_memory="1 MiB"):
        np.testing.assert_allclose(STREAMED[name](a), STREAMED[name](X), rtol=1e-5)


def test_lazy_views_ask_for_what_they_read(opened):
    a, _ = opened
    view = a.lazy[1:, ::-2].T
    np.testing.assert_array_equal(view[2:5], X[1:, ::-2].T[2:5])
    np.testing.assert_allclose(np.mean(view, axis=0), X[1:, ::-2].T.mean(axis=0))


def test_fields_are_read_of_chunks_that_come(place):
    kind = np.dtype([("t", "<i4"), ("v", "<f8")])
    x = np.zeros((9, 7), kind)
    x["t"], x["v"] = np.arange(63).reshape(9, 7), X[:9, :7, 0]
    xa.from_array(x, place / "fields", chunks=(2, 3)).close()
    with late(place / "fields", place / "late", "dict", 2) as (a, _):
        np.testing.assert_array_equal(a["v"], x["v"])
        np.testing.assert_array_equal(a["t"][2:, ::2], x["t"][2:, ::2])
        np.testing.assert_array_equal(a.lazy["v"][3, [6, 0]], x["v"][3, [6, 0]])


@pytest.mark.parametrize("order", ["F", "Z", "H"])
def test_every_order_of_elements(tmp_path, order, engine):
    original(tmp_path / "origin", order)
    with late(tmp_path / "origin", tmp_path / "late", "dict", AT_ONCE, engine=engine) as (a, _):
        for read in ("element", "all", "box", "lists"):
            np.testing.assert_array_equal(READS[read](a), READS[read](X))


@pytest.mark.invariant("I16")
def test_a_view_of_a_chunk_keeps_it_present(opened):
    a, provider = opened
    views = {i: a.chunk(i) for i in [(0, 0, 0), (1, 1, 1), (2, 2, 2)]}
    copies = {i: view.copy() for i, view in views.items()}
    held = {a.axial.address(i) for i in views}
    assert (a[...] == X).all()
    assert held <= provider.here
    for i, view in views.items():
        np.testing.assert_array_equal(view, copies[i])
    views.clear()
    del view
    gc.collect()
    assert (a[::-1] == X[::-1]).all()
    assert (a[...] == X).all()
    assert not held <= provider.here


def test_a_view_outlives_the_array_and_its_chunk_stays(place, engine):
    with late(place / "origin", place / "late", "dict", 1, engine=engine) as (a, provider):
        view = a.chunk((1, 1, 1))
        copy = view.copy()
        a.close()
        gc.collect()
        assert provider.n_evicted == 0
        np.testing.assert_array_equal(view, copy)
        del view


@pytest.mark.invariant("I16")
def test_chunks_are_asked_for_once_while_they_are_present(place, engine):
    with late(place / "origin", place / "late", "dict", None, engine=engine) as (a, provider):
        a[3, 5, 7]
        assert provider.asked.total() == 1
        for _ in range(2):
            for read in READS.values():
                read(a)
            np.median(a, axis=0)
            a.chunk((0, 0, 0))
        # Each chunk with elements was requested once, and no other.
        assert set(provider.asked.values()) == {1}
        assert provider.n_evicted == 0


def test_chunks_leave_by_their_last_use(place):
    with late(place / "origin", place / "late", "dict", 3) as (a, provider):
        chunk = [
            tuple(slice(i * c, i * c + 1) for i, c in zip(at, CHUNKS, strict=True))
            for at in [(0, 1, 0), (1, 1, 0), (0, 1, 1), (1, 1, 1)]
        ]
        first, second, third, fourth = chunk
        for one in (first, second, third):
            a[one]
        a[first]
        before = set(provider.here)
        a[fourth]
        a[first]
        a[third]
        assert provider.asked.total() == 4
        (gone,) = before - provider.here
        a[second]
        assert provider.asked[gone] == 2


def test_no_more_chunks_are_present_than_may_be(opened):
    a, provider = opened
    for read in READS.values():
        read(a)
    np.median(a, axis=0)
    assert provider.most <= AT_ONCE
    assert set(a._store.now.supply.present.tolist()) == provider.here


def test_threads_share_what_has_come(place, engine):
    with late(place / "origin", place / "late", "dict", None, engine=engine) as (a, provider):
        keys = [np.s_[i : i + 3, :, j : j + 4] for i in range(10) for j in range(0, 13, 4)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for key, part in zip(keys, pool.map(a.__getitem__, keys), strict=True):
                np.testing.assert_array_equal(part, X[key])
        assert set(provider.asked.values()) == {1}


def test_threads_whose_chunks_leave_read_what_is_right(opened):
    a, provider = opened
    keys = [np.s_[i : i + 3, :, j : j + 4] for i in range(10) for j in range(0, 13, 4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for key, part in zip(keys, pool.map(a.__getitem__, keys), strict=True):
            np.testing.assert_array_equal(part, X[key])
    assert provider.n_evicted


def test_dask_in_threads(opened):
    dask = pytest.importorskip("dask.array")
    a, _ = opened
    d = dask.from_array(a, chunks=(5, 4, 6))
    np.testing.assert_allclose(d.mean(axis=1).compute(scheduler="threads"), X.mean(axis=1))


@pytest.fixture
def plain(tmp_path, engine):
    """Yield an array with late chunks and no growth at a start, which suits Zarr."""
    xa.from_array(X, tmp_path / "plain", chunks=CHUNKS).close()
    with late(tmp_path / "plain", tmp_path / "late", "dict", AT_ONCE, engine=engine) as (a, _):
        yield a


def test_zarr_store(plain):
    zarr = pytest.importorskip("zarr")
    found = zarr.open_array(plain.as_zarr_store(), mode="r")
    np.testing.assert_array_equal(found[...], X)


def test_references_to_what_is_not_in_the_file_are_refused(plain):
    pytest.importorskip("zarr")
    with pytest.raises(ArgumentError, match="not in its file (until|before) they are read"):
        plain.to_kerchunk()


COPIES = {
    "copy": lambda a, to: a.copy(to),
    "copy to memory": lambda a, to: a.copy(),
    "repack": lambda a, to: a.repack(to),
    "rechunk": lambda a, to: xa.rechunk(a, to, chunks=(3, 4, 3)),
    "from_array": lambda a, to: xa.from_array(a, to),
}


@pytest.mark.parametrize("name", list(COPIES))
def test_copies_have_all_elements(opened, tmp_path, name):
    a, _ = opened
    with COPIES[name](a, tmp_path / "to") as b:
        np.testing.assert_array_equal(b[...], X)


@pytest.mark.parametrize("checksum", [False, True])
def test_packed_files_have_all_elements(tmp_path, engine, checksum):
    original(tmp_path / "origin", checksum=checksum)
    with late(tmp_path / "origin", tmp_path / "late", "dict", 4, engine=engine) as (a, provider):
        xa.pack(a, tmp_path / "a.xap")
        assert provider.most <= 4
    with xa.open(tmp_path / "a.xap", verify="read") as b:
        np.testing.assert_array_equal(b[...], X)


def test_zeros_of_holes_are_not_taken_for_elements(place):
    x = np.zeros((6, 6))
    x[4, 4] = 1
    xa.from_array(x, place / "holes", chunks=(2, 2)).close()
    with late(place / "holes", place / "late", "dict", 2) as (a, _):
        assert a._holes() is None
        assert np.sum(a) == 1


def test_streaming_asks_ahead(place):
    x = np.random.default_rng(0).normal(size=(64, 512, 16))
    xa.from_array(x, place / "large", chunks=(1, 512, 16)).close()
    few = xa.config.set(threads=1, max_memory="1 MiB")
    with late(place / "large", place / "late", "dict", 16) as (a, provider), few:
        np.testing.assert_allclose(np.sum(a, axis=0), x.sum(axis=0))
        assert len(provider.foretold) > 32
        provider.foretold.clear()
        np.testing.assert_allclose(np.asarray(np.add(a, a.lazy[::-1])), x + x[::-1])
        assert provider.foretold
    with xa.open(place / "large") as b:
        assert not b._comes_late


# -- present and right ---------------------------------------------------------------------------


@pytest.fixture
def with_sums(tmp_path, engine):
    original(tmp_path / "origin", checksum=True)
    with late(
        tmp_path / "origin", tmp_path / "late", "dict", AT_ONCE, engine=engine, verify="read"
    ) as both:
        yield both


def test_chunks_are_verified_when_they_have_come(with_sums):
    a, _ = with_sums
    for read in READS.values():
        np.testing.assert_array_equal(read(a), read(X))
    np.testing.assert_allclose(np.median(a, axis=0), np.median(X, axis=0))


def test_what_comes_back_damaged_is_found(with_sums):
    a, provider = with_sums
    at = 3, 5, 7
    assert a[at] == X[at]
    (address,) = provider.here
    provider.origin.chunks[address] = bytes(len(provider.origin.chunks[address]))
    assert a[at] == X[at]  # the chunk is present, and right
    a[10:]  # it leaves for others
    assert address not in provider.here
    for read in (lambda: a[at], lambda: a[[3, 3], 5, 7], lambda: a[...], a.copy):
        with pytest.raises(ChecksumError):
            read()


def test_copies_compare_what_has_come(tmp_path):
    original(tmp_path / "origin", checksum=True)
    with late(tmp_path / "origin", tmp_path / "late", "dict", AT_ONCE) as (a, provider):
        provider.origin.chunks[7] = bytes(len(provider.origin.chunks[7]))
        a[...]  # verify="write" takes it as it is
        with pytest.raises(ChecksumError):
            a.copy()
        with pytest.raises(ChecksumError):
            xa.pack(a, tmp_path / "a.xap")


# -- faults --------------------------------------------------------------------------------------


class BrokenError(Exception):
    pass


def test_what_fails_is_passed_on_and_asked_for_again(opened, monkeypatch):
    a, provider = opened

    def fail(addresses):
        raise BrokenError

    with monkeypatch.context() as patch:
        patch.setattr(provider, "provide", fail)
        for read in READS.values():
            if read is not READS["none"]:
                with pytest.raises(BrokenError):
                    read(a)
        with pytest.raises(BrokenError):
            a.chunk((0, 0, 0))
        with pytest.raises(BrokenError):
            np.median(a, axis=0)
    assert not a._store.now.supply.present.size
    np.testing.assert_array_equal(a[...], X)


def test_a_provider_that_fails_is_not_taken_for_damage(tmp_path, monkeypatch):
    original(tmp_path / "origin", checksum=True)
    with late(tmp_path / "origin", tmp_path / "late", "dict", AT_ONCE, verify="read") as (a, own):

        def fail(addresses):
            raise ConnectionResetError("the server is gone")

        monkeypatch.setattr(own, "provide", fail)
        for read in (lambda: a[0], a.copy, lambda: xa.pack(a, tmp_path / "a.xap")):
            with pytest.raises(OSError, match="the server is gone"):
                read()


def test_waiting_threads_ask_themselves_where_another_failed(opened, monkeypatch):
    a, provider = opened
    begun, go_on, own = threading.Event(), threading.Event(), provider.provide
    calls = []

    def fail_first(addresses):
        calls.append(addresses)
        if len(calls) == 1:
            begun.set()
            assert go_on.wait(10)
            raise BrokenError
        own(addresses)

    monkeypatch.setattr(provider, "provide", fail_first)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(a.__getitem__, (0, 0, 0))
        assert begun.wait(10)
        second = pool.submit(a.__getitem__, (1, 1, 1))
        go_on.set()
        with pytest.raises(BrokenError):
            first.result()
        assert second.result() == X[1, 1, 1]


def test_only_readers_have_chunks_that_come_late(place):
    with xa.open(place / "origin", "r+") as a:
        now = a._store.now
        now.supply = late_chunks.Supply(None, a.chunk_bytes)
        with pytest.raises(ReadOnlyError, match="elsewhere"):
            late_chunks.attach_store(a)
        now.supply = None


# -- any selection -------------------------------------------------------------------------------


def slices(n):
    return st.builds(
        slice,
        st.none() | st.integers(-n - 2, n + 2),
        st.none() | st.integers(-n - 2, n + 2),
        st.none() | st.integers(-4, 4).filter(bool),
    )


def entries(n):
    return (
        st.integers(-n, n - 1)
        | slices(n)
        | st.lists(st.integers(-n, n - 1), min_size=1, max_size=5).map(np.array)
    )


KEYS = st.tuples(*[entries(n) for n in X.shape]).filter(
    lambda key: len({np.size(k) for k in key if isinstance(k, np.ndarray)}) <= 1
)


@pytest.mark.invariant("I16")
@settings(max_examples=40)
@given(
    st.lists(KEYS, min_size=1, max_size=6), st.integers(1, 9), st.sampled_from(["mmap", "pread"])
)
def test_any_selections_one_after_the_other(tmp_path_factory, keys, at_once, engine):
    folder = tmp_path_factory.mktemp("late")
    original(folder / "origin")
    with late(folder / "origin", folder / "late", "blobs", at_once, engine=engine) as (a, provider):
        for key in keys:
            np.testing.assert_array_equal(a[key], X[key])
            assert set(a._store.now.supply.present.tolist()) == provider.here
