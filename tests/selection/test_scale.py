"""Few of very many chunks are requested: time and memory depend on the request."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

import extarray as xa
from extarray.common.limits import limits
from extarray.grid.chunking import product
from extarray.grid.tiles import Grain, axis_pieces
from extarray.storage.checksums import read_sums


@pytest.fixture
def sparse(path):
    """Make a sparse array with checksums and chunks of one byte."""
    arrays = []

    def make(shape, **options):
        array = xa.create(path, shape, "u1", chunks=1, sparse=True, **options)
        arrays.append(array)
        return array

    yield make
    for array in arrays:
        array.close()


# -- iteration -----------------------------------------------------------------------------------


def test_a_product_of_more_than_can_be_held():
    assert list(product("ab", range(2))) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert list(product()) == [()]
    assert list(product(range(2**60), "")) == []
    found = itertools.islice(product("ab", range(2**60), range(5000)), 4999, 5002)
    assert list(found) == [("a", 0, 4999), ("a", 1, 0), ("a", 1, 1)]


@pytest.mark.parametrize("lead", range(5))
@pytest.mark.parametrize("limit", [1, 3, 5, 12, 100])
@pytest.mark.parametrize("extent", [1, 4, 9, 10, 31])
def test_the_pieces_of_an_axis_are_counted(extent, limit, lead):
    (pieces,) = axis_pieces((extent,), Grain((5,), (lead,)), 1, limit=limit)
    assert len(pieces) == len(list(pieces))
    assert [i for piece in pieces for i in range(extent)[piece]] == list(range(extent))


def test_more_pieces_than_can_be_held():
    (pieces,) = axis_pieces((2**60,), (1,), 1, limit=2)
    assert (len(pieces), next(iter(pieces))) == (2**59, slice(0, 2))


def test_the_first_of_very_many(sparse):
    array = sparse(2**40)
    array[0] = 7
    with xa.config.set(max_memory=2**16):
        assert next(iter(xa.ndenumerate(array))) == ((0,), 7)
    assert next(iter(array.chunk_views(order="grid"))) == ((0,), [7])


# -- points --------------------------------------------------------------------------------------


def test_points_in_more_chunks_than_their_words_can_number(sparse):
    """Places and numbers take 21 bits of 64, chunks 43: so chunk numbers are stored apart."""
    rng = np.random.default_rng(5)
    places = np.sort(rng.integers(0, 2**43, 100))
    array = sparse(2**43)
    array[places] = values = rng.integers(1, 255, 100, "u1")
    chosen = rng.integers(0, 100, 2**20 + 3)
    np.testing.assert_array_equal(array[places[chosen]], values[chosen])
    array[places[chosen]] = chosen.astype("u1")  # of several values for one element, the last stays
    last = np.zeros(100, "u1")
    last[chosen] = chosen.astype("u1")
    np.testing.assert_array_equal(array[places], last)


@pytest.mark.slow
def test_more_points_than_words_have_room_for(path):
    """The places of a list need 43 bits, though its axes have four cells in a chunk."""
    n = 2**21 + 1
    rows, columns = np.arange(n) % 2, np.arange(n) % 3 % 2
    with xa.create(path, (2, 2**41, 2), "u1", chunks=(2, 2**41, 2), sparse=True) as array:
        found = array[rows, 5, columns]
        assert found.shape == (n,)
        assert not found.any()


def test_points_in_chunks_so_large_that_few_are_listed_at_once(monkeypatch):
    """A small limit stands in for chunks of more than 2**40 elements."""
    monkeypatch.setattr(limits, "element_bits", 12)
    rng = np.random.default_rng(5)
    values = rng.integers(0, 256, (60, 70), "u1")
    points = rng.integers(0, 60, 500), rng.integers(0, 70, 500)
    with xa.from_array(values, chunks=(20, 30)) as array:
        np.testing.assert_array_equal(array[points], values[points])
        for share in (0.03, 0.5):
            mask = rng.random(values.shape) < share
            np.testing.assert_array_equal(array[mask], values[mask])
            values[mask] = array[mask] = np.arange(np.count_nonzero(mask)).astype("u1")
        np.testing.assert_array_equal(array, values)


# -- boxes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 2**19), (2**19, 2), (2**18 + 1,)])
def test_boxes_of_many_chunks_are_moved_in_parts(shape):
    values = np.random.default_rng(0).integers(0, 256, shape, "u1")
    with xa.create(None, shape, "u1", chunks=1) as array:
        array[...] = values
        np.testing.assert_array_equal(array[...], values)
        np.testing.assert_array_equal(array[::-1], values[::-1])
        line = values[-1:] if len(shape) > 1 else values[:1]
        array[...] = line  # broadcasts along the long axis, or along the other
        np.testing.assert_array_equal(
            array[..., None, ::2], np.broadcast_to(line, shape)[..., None, ::2]
        )


# -- cuts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2**20, 2**20), (2,) * 32])
def test_a_cut_to_one_chunk(sparse, shape):
    array = sparse(shape)
    array[(0,) * len(shape)] = 7
    array[(-1,) * len(shape)] = 8
    array.resize((1,) * len(shape))
    array.extend(1, 1)
    assert array[...].sum() == 7


# -- checksums -----------------------------------------------------------------------------------


def test_checksums_of_far_chunks_take_little_space(sparse, path):
    array = sparse(2**35, checksum=True)
    array[-1] = 7
    array[:: 2**34] = 8
    array.flush()
    assert os.stat(f"{path}.xmd").st_blocks * 512 < 2**20
    sums = array._store.now.sums
    told = [read_sums(array._store.now.metadata, sums.extents, n, n + 1) for n in (0, 1, 2**35 - 1)]
    assert [bool(sum_[0]) for sum_ in told] == [True, False, True]
    array.close()
    with xa.open(path, "r+") as again:  # clears the table beyond the chunks
        assert again[[0, 1, 2**34, -1]].tolist() == [8, 0, 8, 7]


def test_checksums_stay_in_doubt_where_written_chunks_are_not_known(sparse):
    array = sparse(2**40, checksum=True)
    array[3] = 7
    array.flush()
    assert not array._store.now.sums.in_doubt
    array[-1] = 7
    array.flush()
    assert array._store.now.sums.in_doubt


def test_an_axis_for_very_many_chunks_with_checksums(sparse):
    array = sparse(2**40, checksum=True)
    array[3] = 7
    array.add_axis()
    array.flush()
    assert array[0, :5].tolist() == [0, 0, 0, 7, 0]


# -- pictures ------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("grid", [(2**40,), (2**20, 2**20), (2, 2**40, 3)])
def test_more_chunks_than_can_be_seen(grid):
    pytest.importorskip("matplotlib")
    from extarray.plot import growth_map

    with pytest.raises(xa.ArgumentError, match="at="):
        growth_map(xa.Axial(grid))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_growth_into_very_many_runs(sparse, path):
    """A cut leaves holes between new chunks, which are not listed if there are too many."""
    with xa.create(path, (4, 4), "u1", chunks=1, fill_value=sparse, sparse=sparse) as a:
        a.shrink(0, 2)
        a.shrink(1, 2)
        with pytest.raises(xa.StorageError, match="the disk is smaller"):
            a.resize((2**30, 2**20))
        assert a.shape == (2, 2)
