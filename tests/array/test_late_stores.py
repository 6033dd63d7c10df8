"""An array whose store is not a pair of files, and only follows the protocol of readers."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import pickle

import numpy as np
import pytest
from late_store import open_late, provider_of

import extarray as xa
from extarray.errors import ChecksumError, ClosedError, ReadOnlyError

X = np.random.default_rng(2).normal(size=(12, 9))
CHUNKS = (4, 2)


@pytest.fixture(params=["mmap", "pread"])
def engine(request):
    return request.param


@pytest.fixture
def origin(tmp_path):
    with xa.create(tmp_path / "origin", (0, 9), chunks=CHUNKS, checksum=True) as a:
        a.append(X)
        a.attrs["unit"] = "K"
    return tmp_path / "origin"


@pytest.fixture
def late(origin, engine):
    with open_late(origin, engine) as a:
        yield a


def test_it_is_an_array_like_any_other(late, origin):
    np.testing.assert_array_equal(late[...], X)
    assert late.attrs["unit"] == "K"
    assert late.mode == "r"
    facts = late.info()
    assert facts["file_bytes"] == os.stat(f"{origin}.xta").st_size
    assert facts["checksum"] is True
    np.testing.assert_allclose(np.median(late, axis=0), np.median(X, axis=0))
    assert not late.refresh()
    assert not late.replaced
    for change in (lambda: late.extend(0, 1), lambda: late.__setitem__(0, 1)):
        with pytest.raises(ReadOnlyError):
            change()


def test_it_closes(late):
    late.close()
    with pytest.raises(ClosedError):
        late[0]


def test_pickles_open_what_brings_chunks(late):
    with pickle.loads(pickle.dumps(late)) as again:
        np.testing.assert_array_equal(again[...], X)
        assert provider_of(again).asked
        assert provider_of(again) is not provider_of(late)


@pytest.mark.slow
def test_processes_bring_chunks_of_their_own(late):
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, context) as pool:
        found = list(pool.map(np.median, [late] * 3, [None, 0, 1]))
    for part, axis in zip(found, [None, 0, 1], strict=True):
        np.testing.assert_allclose(part, np.median(X, axis=axis))


def test_a_forked_child_has_chunks_of_its_own(late):
    np.testing.assert_array_equal(late[:4], X[:4])
    child = os.fork()
    if not child:
        status = 1
        try:
            provider = provider_of(late)
            if np.array_equal(late[...], X) and provider.asked.total() == late.axial.size:
                late.close()
                status = 0
        finally:
            os._exit(status)
    np.testing.assert_array_equal(late[...], X)
    assert os.waitpid(child, 0)[1] == 0


def test_growth_is_followed(origin, engine):
    more = np.arange(45.0).reshape(5, 9)
    with xa.open(origin, "r+") as writer, open_late(origin, engine) as late:
        np.testing.assert_array_equal(late[...], X)
        writer.append(more[:4])
        assert late.refresh()
        assert late.shape == (16, 9)
        np.testing.assert_array_equal(late[...], np.concatenate([X, more[:4]]))
        writer.extend(1, 3)
        writer[-1, -1] = 5
        with open_late(origin, engine) as other:
            writer.append(np.ones((1, 12)))
            assert xa.refresh([late, other])
            assert late.shape == other.shape == (17, 12)
            assert late[15, 11] == other[15, 11] == 5
            np.testing.assert_array_equal(late[16], np.ones(12))


def test_what_is_damaged_is_found(origin, engine):
    with open_late(origin, engine, verify="read") as late:
        with open(f"{origin}.xta", "r+b") as file:
            file.seek(2 * late.chunk_bytes)
            file.write(b"oops")
        index = late.axial.index(2)
        at = tuple(i * c for i, c in zip(index, CHUNKS, strict=True))
        with pytest.raises(ChecksumError):
            late[at]
        with pickle.loads(pickle.dumps(late)) as again, pytest.raises(ChecksumError):
            again[at]
        assert late[0, 0] == X[0, 0]


def test_packed_and_copied(late, tmp_path):
    xa.pack(late, tmp_path / "a.xap")
    with xa.open(tmp_path / "a.xap") as packed, late.copy(tmp_path / "copy") as copy:
        np.testing.assert_array_equal(packed[...], X)
        np.testing.assert_array_equal(copy[...], X)


def test_all_are_closed_together(origin):
    late = open_late(origin)
    xa.close_all()
    assert late.closed


def test_what_has_changed_elsewhere_comes_again(tmp_path, engine):
    """A row that is appended can lie in chunks that are present already."""
    x = np.arange(90.0).reshape(10, 9)
    with xa.create(tmp_path / "origin", (0, 9), chunks=CHUNKS, checksum=True) as writer:
        writer.append(x)
        writer.flush()
        with open_late(tmp_path / "origin", engine, 16, "read") as late:
            np.testing.assert_array_equal(late[...], x)
            view = late.chunk((2, 0))
            writer.append(x[:1] + 1000)
            writer.flush()
            assert late.refresh()
            np.testing.assert_array_equal(late[...], np.concatenate([x, x[:1] + 1000]))
            np.testing.assert_array_equal(view, x[8:, :2])
