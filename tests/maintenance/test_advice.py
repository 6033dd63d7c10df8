"""Advice on chunk shapes, compared with counts and with recorded reads."""

from __future__ import annotations

import io
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extarray as xa
from extarray.common.limits import limits
from extarray.grid.chunking import choose_chunks
from extarray.selection.access_log import AccessLog


def met(shape, chunks, request):
    """Count the chunks that a request meets, on average over all its positions."""
    counts = []
    for first in itertools.product(
        *[range(n - r + 1) for n, r in zip(shape, request, strict=True)]
    ):
        spans = zip(first, request, chunks, strict=True)
        counts.append(math.prod((a + r - 1) // c - a // c + 1 for a, r, c in spans))
    return sum(counts) / len(counts)


def cost(shape, chunks, access, size=lambda elements: 1):
    total = sum(weight for _, weight in access)
    chunk = size(math.prod(chunks))
    return sum(w * met(shape, chunks, r) * chunk for r, w in access) / total


@st.composite
def problems(draw, k=2, longest=9):
    shape = tuple(draw(st.lists(st.integers(1, longest), min_size=k, max_size=k)))
    requests = st.tuples(*[st.integers(1, n) for n in shape])
    access = draw(st.lists(st.tuples(requests, st.integers(1, 5)), min_size=1, max_size=3))
    return shape, access, draw(st.integers(1, math.prod(shape) + 3))


SIZES = {
    "chunks": lambda elements: 1,
    "bytes": lambda elements: 1000 * elements,
    "pages": lambda elements: -(-1000 * elements // 4096),
}


@pytest.mark.parametrize("measure", SIZES)
@given(problem=problems())
def test_the_best_of_all_shapes(measure, problem):
    shape, access, limit = problem
    best = xa.advise_chunks(shape, "V1000", access, block_bytes=1000 * limit, measure=measure)
    assert math.prod(best) <= limit
    assert best.cost == pytest.approx(cost(shape, best, access, SIZES[measure]))
    everything = itertools.product(*[range(1, n + 1) for n in shape])
    shapes = [c for c in everything if math.prod(c) <= limit]
    least = min(cost(shape, c, access, SIZES[measure]) for c in shapes)
    assert best.cost == pytest.approx(least)


@given(problems(k=3, longest=5))
def test_the_cost_of_three_axes_and_of_alternatives(problem):
    shape, access, limit = problem
    best = xa.advise_chunks(shape, "u1", access, block_bytes=limit)
    assert best.cost == pytest.approx(cost(shape, best, access))
    for other in best.alternatives:
        clipped = tuple(map(min, other.chunks, shape))
        assert other.cost == pytest.approx(cost(shape, clipped, access))
    costs = [other.cost for other in best.alternatives]
    assert costs == sorted(costs)


@given(problems())
def test_without_all_shapes_a_good_one_is_found(problem):
    shape, access, limit = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "advice_rows", 2)
        patch.setattr(limits, "advice_along", 4)
        found = xa.advise_chunks(shape, "u1", access, block_bytes=limit)
    assert found.cost <= 2 * xa.advise_chunks(shape, "u1", access, block_bytes=limit).cost


@pytest.mark.slow
@given(problems(k=3, longest=5))
def test_axes_in_turn_find_a_good_one(problem):
    shape, access, limit = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "advice_together", 1)
        found = xa.advise_chunks(shape, "u1", access, block_bytes=limit)
    assert math.prod(found) <= limit
    assert found.cost <= 2 * xa.advise_chunks(shape, "u1", access, block_bytes=limit).cost


def test_the_example_of_the_thesis():
    """In an array of 2 x 10 x 12, a request of 1 x 5 x 4 spans 60 elements of a row-major file.

    With chunks of that shape, 20 elements are read if the request lies in one chunk.
    """
    request = (1, 5, 4)
    in_order = [np.ravel_multi_index(i, (2, 10, 12)) for i in ((0, 0, 0), (0, 4, 3))]
    assert -(-(in_order[1] + 1 - in_order[0]) // 12) * 12 == 60
    assert math.prod(request) == 20
    best = xa.advise_chunks((2, 10, 12), "u1", [(request, 1)], block_bytes=20)
    assert best.cost <= met((2, 10, 12), request, request)


def test_planes_and_whole_axes():
    shape = (20, 12, 6)
    by_name = xa.advise_chunks(
        shape, "f8", [(("plane", 0), 1), (("plane", -1), 3)], block_bytes=800
    )
    by_extent = xa.advise_chunks(shape, "f8", [((1, 12, 6), 1), ((20, 12, 1), 3)], block_bytes=800)
    by_none = xa.advise_chunks(
        shape, "f8", [((1, None, None), 1), ([None, None, 1], 3)], block_bytes=800
    )
    assert by_name == by_extent == by_none
    assert by_name.cost == by_extent.cost


@pytest.mark.slow
def test_one_kind_of_request_gets_chunks_of_its_shape():
    assert xa.advise_chunks((365, 64, 64), "f4", [(("plane", 0), 1)], block_bytes="16 KiB") == (
        1,
        64,
        64,
    )
    series = xa.advise_chunks((365, 64, 64), "f4", [((None, 1, 1), 1)], block_bytes="16 KiB")
    assert series[0] == 365


def test_growth_takes_space_ahead_into_account():
    access = [((100, 1), 1)]
    still = xa.advise_chunks((100, 8), "u1", access, block_bytes=4000)
    grows = xa.advise_chunks((100, 8), "u1", access, grow=0, block_bytes=4000)
    assert still[0] == 100
    assert still.cost == 1
    # Chunks of 4000 would suit the series, but each would be nearly empty for long.
    assert 50 <= grows[0] < 400
    assert grows.cost == pytest.approx(1 + 99 / grows[0])
    assert f"{(grows[0] - 1) / 2:.4g} indices" in grows.explanation
    # Picture after picture: no chunk waits for more of them.
    pictures = xa.advise_chunks((0, 80, 80), "u1", [(("plane", 0), 1)], grow=[0])
    assert pictures == (1, 80, 80)
    assert xa.create(None, (0, 80, 80), "u1", chunks=pictures).chunks == (1, 80, 80)


def test_what_it_says():
    best = xa.advise_chunks((64, 64), "f8", [((1, 64), 3), ((64, 1), 1)], block_bytes="4 KiB")
    assert isinstance(best, tuple)
    assert "75%" in best.explanation
    assert str(tuple(best)) in best.explanation
    usual = [other for other in best.alternatives if other.reason == "what create chooses"]
    assert [other.chunks for other in usual] == [choose_chunks((64, 64), 8)]
    again = pickle.loads(pickle.dumps(best))
    assert (again, again.cost, again.alternatives) == (best, best.cost, best.alternatives)


@pytest.mark.slow
def test_large_arrays():
    best = xa.advise_chunks(
        (350640, 721, 1440), "f4", [((8760, 1, 1), 0.5), (("plane", 0), 0.5)], block_bytes="1 MiB"
    )
    assert best.cost < {o.reason: o.cost for o in best.alternatives}["what create chooses"]
    assert xa.advise_chunks((10**12,), "u1", [((1000,), 1)]) == (2**18,)
    assert math.prod(xa.advise_chunks((1000,) * 8, "u1", [((10,) * 8, 1)])) <= 2**18
    many = xa.advise_chunks((3,) * 14, "u1", [(("plane", -1), 1)], block_bytes=3**9)
    assert sorted(many) == [1] * 5 + [3] * 9
    assert many[-1] == 1
    assert xa.advise_chunks((), "u1", [((), 1)]) == ()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"access": []}, xa.ArgumentError, "is empty"),
        ({"access": [((1, 2), 0)]}, xa.ArgumentError, "weights"),
        ({"access": [((1, 2), -1), ((1, 1), 2)]}, xa.ArgumentError, "weights"),
        ({"access": [((1, 2, 3), 1)]}, xa.ShapeError, "3 extents for 2 axes"),
        ({"access": [((1, 9), 1)]}, xa.ShapeError, "axis 1 with size 6"),
        ({"access": [((0, 1), 1)]}, xa.ShapeError, "give 1 to 4"),
        ({"access": [(("plane", 2), 1)]}, xa.AxisError, "out of bounds"),
        ({"access": [(1, 2, 3)]}, xa.ArgumentTypeError, "not a \\(request, weight\\) pair"),
        ({"access": None}, xa.ArgumentTypeError, "pairs"),
        ({"access": [(("rows", 1), 1)]}, xa.ArgumentTypeError, "not a \\(request, weight\\) pair"),
        ({"grow": 2}, xa.AxisError, "out of bounds"),
        ({"grow": "x"}, xa.ArgumentTypeError, "axes"),
        ({"block_bytes": 7}, xa.ArgumentError, "8 or more"),
        ({"measure": "seconds"}, xa.ArgumentError, "pages"),
        ({"store": "hdf4"}, xa.ArgumentError, "hdf5"),
        ({"store": "hdf5", "chunk_cache": 7}, xa.ArgumentError, "chunk_cache of 7.*8 or"),
        ({"access": [(("append", 2), 1)]}, xa.AxisError, "out of bounds"),
    ],
)
def test_what_is_not_possible(arguments, error, message):
    with pytest.raises(error, match=message):
        xa.advise_chunks((4, 6), "f8", **{"access": [((1, 1), 1)], **arguments})


# -- HDF5 ----------------------------------------------------------------------------------------


class Counted(io.BytesIO):
    """A file of HDF5 that counts the bytes that move in pieces of a chunk's size."""

    size = -1
    moved = 0

    def _count(self, data):
        nbytes = memoryview(data).nbytes
        self.moved += nbytes * (nbytes == self.size)

    def readinto(self, buffer):
        self._count(buffer)
        return super().readinto(buffer)

    def write(self, data):
        self._count(data)
        return super().write(data)


class HDF5:
    """Datasets in given chunks, through a cache of a given size.

    Elements have 97 bytes: nothing else that HDF5 reads or writes is as long as some of them.
    """

    def __init__(self, chunks, cache):
        self.h5py = pytest.importorskip("h5py")
        self.chunks, self.cache = chunks, cache

    def open(self, raw):
        raw.size = 97 * math.prod(self.chunks)
        return self.h5py.File(raw, "a", rdcc_nbytes=self.cache, rdcc_nslots=521)

    def create(self, file, shape):
        return file.create_dataset("d", shape, "S97", chunks=self.chunks, maxshape=(None,) * 3)

    def read(self, shape, request, growing):
        """Return the mean number of bytes that a request reads, over all its places."""
        # Along an axis without an end, places repeat after a chunk.
        long = [
            r + c - 1 if j in growing else n
            for j, (n, r, c) in enumerate(zip(shape, request, self.chunks, strict=True))
        ]
        raw = Counted()
        with self.open(raw) as file:
            self.create(file, long)[...] = b"x"
        raw.moved = count = 0
        with self.open(raw) as file:
            places = [range(n - r + 1) for n, r in zip(long, request, strict=True)]
            for first in itertools.product(*places):
                # A dataset that is opened anew has an empty cache.
                file["d"][tuple(slice(a, a + r) for a, r in zip(first, request, strict=True))]
                count += 1
        return raw.moved / count

    def append(self, shape, axis):
        """Return the mean number of bytes that an append moves, over three rows of chunks."""
        empty = [0 if j == axis else n for j, n in enumerate(shape)]
        raw = Counted()
        times = 3 * self.chunks[axis]
        with self.open(raw) as file:
            dataset = self.create(file, empty)
            for i in range(times):
                dataset.resize(i + 1, axis)
                dataset[(slice(None),) * axis + (i,)] = b"x"
        return raw.moved / times


@pytest.mark.parametrize(
    ("access", "limit", "cache"),
    [
        ([((4, 1, 1), 1)], 250, 500),
        ([((3, 5, 2), 2), (("plane", 0), 1)], 250, 500),
        ([((5, 8, 1), 1), ((1, 1, 9), 2)], 500, 200),
        ([(("append", 0), 1)], 500, 500),
        # Chunks that stay in the cache until they are complete, and chunks that do not.
        ([(("append", 0), 1), ((6, 2, 1), 1)], 100, 500),
        ([(("append", 0), 1), ((6, 2, 1), 30)], 100, 250),
        ([(("append", 1), 1), ((2, 5, 3), 2), (("append", 1), 1)], 90, 400),
        ([(("append", 2), 1), ((2, 5, 3), 20)], 120, 130),
    ],
)
@pytest.mark.parametrize("measure", ["chunks", "work"])
def test_hdf5_moves_as_much_as_the_advice_says(access, limit, cache, measure):
    shape = (6, 8, 9)
    limit, cache = 97 * limit, 97 * cache
    best = xa.advise_chunks(
        shape, "S97", access, (), limit, measure, store="hdf5", chunk_cache=cache
    )
    size = 97 * math.prod(best)
    assert size <= min(limit, cache)
    hdf5 = HDF5(tuple(best), cache)
    growing = {request[1] for request, _ in access if request[0] == "append"}
    cost = 0
    for request, weight in access:
        if request[0] == "append":
            moved = hdf5.append(shape, request[1])
            others = [-(-n // c) for n, c in zip(shape, best, strict=True)]
            touched = math.prod(others[: request[1]] + others[request[1] + 1 :])
        else:
            whole = [1 if j == request[1] else n for j, n in enumerate(shape)]
            moved = hdf5.read(shape, whole if request[0] == "plane" else request, growing)
            touched = moved / size
        cost += weight * (moved / size if measure == "chunks" else moved + 65536 * touched)
    assert best.cost == pytest.approx(cost / sum(weight for _, weight in access))


@pytest.mark.slow
def test_chunks_of_hdf5():
    # Rows alone: a chunk each.  Series as well: chunks as long as the cache holds a row of them.
    assert xa.advise_chunks((0, 999), "f4", [(("append", 0), 1)], store="hdf5") == (1, 999)
    access = [((100, 1), 1), (("append", 0), 10)]
    best = xa.advise_chunks((0, 4096), "f4", access, store="hdf5", chunk_cache="256 KiB")
    assert best[0] == 16
    assert "append along axis 0" in best.explanation
    assert "64.0 KiB for each chunk" in best.explanation
    # No chunk is larger than the cache: HDF5 would not keep one.
    whole = [((4_000_000,), 1)]
    (large,) = xa.advise_chunks(4_000_000, "u1", whole, store="hdf5")
    assert 1 << 19 < large <= 1 << 20
    for sizes in ({"chunk_cache": 9999}, {"chunk_cache": 9999, "block_bytes": "4 MiB"}):
        (large,) = xa.advise_chunks(4_000_000, "u1", whole, store="hdf5", **sizes)
        assert 9000 < large <= 9999
    # An append to an array of ours costs as much as the elements that it writes.
    ours = xa.advise_chunks((20, 30), "u1", [(("append", 0), 1)], block_bytes=60)
    assert ours == xa.advise_chunks((20, 30), "u1", [(("plane", 0), 1)], grow=0, block_bytes=60)


# -- recorded reads ------------------------------------------------------------------------------


def test_a_log_of_what_is_read(factory):
    with factory.array((10, 8, 6), chunks=(4, 4, 4)) as a:
        a[0, 0, 0]
        with a.record_access() as log:
            a[3]
            a[4]
            a[1:5, ::3, -1]
            a[9, 7, 5]
            a.read((slice(None), 2, 2))
            a.lazy[2:4].T[0]
            a[[1, 5, 6], :, 2]
            a[0:0]
            a[2] = 1
            a.extend(0, 1)
            a[10, 7, 5]
        a[1]
        assert dict(log.access) == {
            (1, 8, 6): 2,
            (4, 7, 1): 1,
            (1, 1, 1): 2,
            (10, 1, 1): 1,
            (2, 8, 1): 1,
            (1, 8, 1): 3,
        }
        assert log.count == 8
        assert "8 selections" in repr(log)
        best = xa.advise_chunks(a.shape, a.dtype, access=log, block_bytes=512)
        assert best == xa.advise_chunks(a.shape, a.dtype, access=log.access, block_bytes=512)


def test_logs_end_with_their_blocks():
    a = xa.zeros((4, 4))
    with a.record_access() as outer:
        a[0]
        with a.record_access() as inner:
            a[1]
        a[:, 0]
    a[2]
    assert outer.access == [((1, 4), 2), ((4, 1), 1)]
    assert inner.access == [((1, 4), 1)]
    # Overlapping, as threads may begin and end them.
    one, other = a.record_access(), a.record_access()
    first, second = one.__enter__(), other.__enter__()
    one.__exit__(None, None, None)
    a[:, [0, 1]]
    other.__exit__(None, None, None)
    a[2]
    assert (first.access, second.access) == ([], [((4, 1), 2)])
    with pytest.raises(ZeroDivisionError), a.record_access() as broken:
        raise ZeroDivisionError
    a[0, 0]
    assert broken.count == 0
    with pytest.raises(xa.ArgumentError, match="record_access"):
        xa.advise_chunks((4, 4), access=broken)


def test_a_long_log_is_a_sample():
    log = AccessLog()
    for i in range(20000):
        log.note((1, 2) if i % 4 else (3, 4))
    counts = dict(log.access)
    assert log.count == 20000
    assert sum(counts.values()) == 4096
    assert 0.2 < counts[3, 4] / 4096 < 0.3
