"""The mapping: chunk indices to addresses and back."""

from __future__ import annotations

import contextlib
import itertools
import math
import threading

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from model import Replay

import extarray as xa
from extarray._core._axial import Axial
from extarray._core._history import record_at, records_from

# Published figures, in chunks; a replay of the history derived each value again.
#   otoo2006: E. J. Otoo, Parallel and Distributed Access of Dense Multidimensional Extendible
#     Array Files (extended abstract), LBNL, 2006
#   drxmp2009: E. J. Otoo and D. Rotem, Parallel Access of Out-Of-Core Dense Extendible Arrays,
#     LBNL, 2009
#   nimako2014: G. Nimako, Chunked Extendible Arrays and its Integration with the Global Array
#     Toolkit for Parallel Image Processing, PhD thesis, University of the Witwatersrand, 2014
FIGURES = {
    "otoo2006 figure 3a": {
        "grid": (4, 3),
        "extensions": [(1, 2), (0, 3), (1, 3), (0, 2), (1, 2)],
        "final_grid": (9, 10),
        "addresses": [
            [0, 1, 2, 12, 16, 35, 42, 49, 72, 81],
            [3, 4, 5, 13, 17, 36, 43, 50, 73, 82],
            [6, 7, 8, 14, 18, 37, 44, 51, 74, 83],
            [9, 10, 11, 15, 19, 38, 45, 52, 75, 84],
            [20, 21, 22, 23, 24, 39, 46, 53, 76, 85],
            [25, 26, 27, 28, 29, 40, 47, 54, 77, 86],
            [30, 31, 32, 33, 34, 41, 48, 55, 78, 87],
            [56, 57, 58, 59, 60, 61, 62, 63, 79, 88],
            [64, 65, 66, 67, 68, 69, 70, 71, 80, 89],
        ],
    },
    "drxmp2009 figure 1": {
        "grid": (1, 1),
        "extensions": [(1, 1), (0, 1), (0, 1), (1, 1), (0, 1), (1, 1), (0, 1)],
        "final_grid": (5, 4),
        "addresses": [
            [0, 1, 6, 12],
            [2, 3, 7, 13],
            [4, 5, 8, 14],
            [9, 10, 11, 15],
            [16, 17, 18, 19],
        ],
    },
    "drxmp2009 figure 2c, symmetric linear shells": {
        "grid": (1, 1),
        "extensions": [(1, 1), (0, 1)] * 7,
        "final_grid": (8, 8),
        "addresses": [
            [0, 1, 4, 9, 16, 25, 36, 49],
            [2, 3, 5, 10, 17, 26, 37, 50],
            [6, 7, 8, 11, 18, 27, 38, 51],
            [12, 13, 14, 15, 19, 28, 39, 52],
            [20, 21, 22, 23, 24, 29, 40, 53],
            [30, 31, 32, 33, 34, 35, 41, 54],
            [42, 43, 44, 45, 46, 47, 48, 55],
            [56, 57, 58, 59, 60, 61, 62, 63],
        ],
    },
    "drxmp2009 figure 3": {
        "grid": (4, 3, 1),
        "extensions": [(2, 1), (2, 1), (1, 1), (0, 2), (2, 1)],
        "final_grid": (6, 4, 4),
        "some": {(2, 1, 0): 7, (3, 1, 2): 34, (4, 2, 2): 56},
        "records": [
            ([0, 4], [0, 48], [[3, 1, 1], [12, 3, 1]]),
            ([3], [36], [[3, 12, 1]]),
            ([1, 3], [12, 72], [[3, 1, 12], [4, 1, 24]]),
        ],
    },
    "nimako2014 figure 3.3.1": {
        "grid": (3, 3, 2),
        "extensions": [(1, 2), (0, 2), (2, 1)],
        "final_grid": (5, 5, 3),
        "some": {(1, 4, 0): 26, (2, 4, 1): 29, (3, 3, 1): 37, (1, 4, 1): 27},
        "records": [
            ([0, 3], [0, 30], [[6, 2, 1], [10, 2, 1]]),
            ([3], [18], [[2, 6, 1]]),
            ([2], [50], [[5, 1, 25]]),
        ],
    },
}


def grown(factory, grid, extensions):
    """Make an array whose chunks hold one element, so that its shape is its grid."""
    array = factory.create(grid, "u1", chunks=(1,) * len(grid), sparse=True)
    for extension in extensions:
        array.extend(*extension)
    return array


def replayed(grid, extensions) -> Replay:
    replay = Replay(grid)
    for extension in extensions:
        replay.extend(*extension)
    return replay


def all_indices(grid) -> np.ndarray:
    return np.indices(grid).reshape(len(grid), -1).T


def assert_maps(array, replay) -> None:
    """Assert that every address agrees with the replay, both ways, scalar and vectorised."""
    axial = array.axial
    assert axial.grid == array.grid == replay.grid
    indices = all_indices(replay.grid)
    expected = replay.table().ravel()
    addresses = axial.addresses(indices)
    assert addresses.dtype == np.int64
    assert addresses.tolist() == expected.tolist()
    assert sorted(addresses) == list(range(replay.size))
    back = axial.indices(addresses)
    assert back.dtype == np.int64
    assert back.tolist() == indices.tolist()
    for index, address in zip(map(tuple, indices.tolist()), expected.tolist(), strict=True):
        assert axial.address(index) == address
        assert axial.index(address) == index


def assert_records(axial, replay) -> None:
    for axis in range(len(replay.grid)):
        starts, addresses, coefficients = axial.records(axis)
        assert starts.dtype == addresses.dtype == coefficients.dtype == np.int64
        expected = replay.records(axis)
        assert starts.tolist() == [start for start, _, _ in expected]
        assert addresses.tolist() == [address for _, address, _ in expected]
        assert coefficients.shape == (len(expected), len(replay.grid))
        assert coefficients.tolist() == [row for _, _, row in expected]


@pytest.mark.parametrize("name", FIGURES)
def test_published_figures(factory, name):
    figure = FIGURES[name]
    with grown(factory, figure["grid"], figure["extensions"]) as array:
        assert array.grid == figure["final_grid"]
        assert_maps(array, replayed(figure["grid"], figure["extensions"]))
        if "addresses" in figure:
            addresses = array.axial.addresses(all_indices(array.grid)).reshape(array.grid)
            assert addresses.tolist() == figure["addresses"]
        for index, address in figure.get("some", {}).items():
            assert array.axial.address(index) == address
            assert array.axial.index(address) == index
        for axis, records in enumerate(figure.get("records", [])):
            assert tuple(part.tolist() for part in array.axial.records(axis)) == records


def test_zones_of_the_figure_in_elements(memory):
    """drxmp2009 figure 1 as in the paper: 10 × 12 elements in chunks of 2 × 3."""
    with memory.array((2, 3), "u1", chunks=(2, 3)) as array:
        for axis, by in FIGURES["drxmp2009 figure 1"]["extensions"]:
            array.extend(axis, by * array.chunks[axis])
        assert array.shape == (10, 12)
        addresses = array.axial.addresses(all_indices(array.grid)).reshape(array.grid)
    zones = [zone for rows in (addresses[:3], addresses[3:]) for zone in (rows[:, :2], rows[:, 2:])]
    assert [sorted(zone.ravel().tolist()) for zone in zones] == [
        [0, 1, 2, 3, 4, 5],
        [6, 7, 8, 12, 13, 14],
        [9, 10, 16, 17],
        [11, 15, 18, 19],
    ]
    assert [np.argsort(zone.ravel()).tolist() for zone in zones] == [
        [0, 1, 2, 3, 4, 5],
        [0, 2, 4, 1, 3, 5],
        [0, 1, 2, 3],
        [0, 1, 2, 3],
    ]


@st.composite
def histories(draw, max_size=8):
    """Draw a grid of some thousand chunks at most, and growths in chunks; lengths may be 0."""
    ndim = draw(st.integers(1, 8))
    sides = st.sampled_from([1, 2, 0] if ndim > 5 else [1, 2, 3, 0])
    grid = draw(st.tuples(*[sides] * ndim))
    steps = draw(
        st.lists(
            st.tuples(
                st.integers(0, ndim - 1),
                st.sampled_from([1, 2, 3, 0]),
                st.sampled_from(["end", "start"]),
            ),
            max_size=max_size,
        )
    )
    extensions, now = [], list(grid)
    for axis, by, side in steps:
        now[axis] += by
        if math.prod(now) > 3000:
            break
        extensions.append((axis, by, side))
    return grid, extensions


@pytest.mark.invariant("I1")
@given(history=histories())
def test_random_histories(memory, history):
    with grown(memory, *history) as array:
        replay = replayed(*history)
        assert_maps(array, replay)
        assert_records(array.axial, replay)


@given(history=histories(), data=st.data())
def test_records_of_the_growth_log(history, data):
    axial = Axial(history[0])
    for extension in history[1]:
        axial.grow(*extension)
    first = data.draw(st.integers(0, axial.segments))
    expected = [record_at(axial, segment) for segment in range(first, axial.segments)]
    axes, sides, grids = records_from(axial, first)
    assert (axes.dtype, sides.dtype, grids.dtype) == (np.uint8, np.uint8, np.int64)
    found = zip(axes.tolist(), sides.tolist(), map(tuple, grids.tolist()), strict=True)
    assert list(found) == expected


@pytest.mark.parametrize("first", [-1, 2])
def test_records_of_no_segment(first):
    with pytest.raises(xa.BoundsError, match="out of bounds for 1 segments"):
        records_from(Axial((2, 2)), first)


@given(history=histories(), data=st.data())
def test_neighbours_in_random_histories(history, data):
    axial, replay = Axial(history[0]), replayed(*history)
    for extension in history[1]:
        axial.grow(*extension)
    assume(replay.size)
    address = data.draw(st.integers(0, replay.size - 1))
    ndim = len(replay.grid)
    each = st.integers(0, 3)
    radius = data.draw(st.one_of(each, st.tuples(*[each] * ndim)))
    indices = all_indices(replay.grid)
    addresses = replay.table().ravel()
    distances = abs(indices - indices[addresses == address])
    is_near = (distances <= radius).all(axis=1) & (addresses != address)
    found = axial.neighbours(address, radius)
    assert found.dtype == np.int64
    assert found.tolist() == sorted(addresses[is_near])


@pytest.mark.invariant("I1")
@pytest.mark.sampled(1)
@given(history=histories(max_size=4))
def test_the_mapping_survives_reopening(disk, history):
    with disk.array(history[0], "u1", chunks=(1,) * len(history[0]), sparse=True) as array:
        for extension in history[1]:
            array.extend(*extension)
        with disk.open(array) as reader:
            replay = replayed(*history)
            assert_maps(reader, replay)
            assert_records(reader.axial, replay)


def long_history(ndim, steps, limit, starts=0.4):
    """Make random growths, mostly by one chunk, that stay under `limit` chunks."""
    rng = np.random.default_rng(ndim)
    grid = tuple(rng.integers(1, 4, ndim).tolist())
    extensions, now = [], list(grid)
    for axis in rng.integers(0, ndim, steps).tolist():
        by = 1 if rng.random() < 0.95 else int(rng.integers(2, 5))
        now[axis] += by
        if math.prod(now) > limit:
            break
        extensions.append((axis, by, "start" if rng.random() < starts else "end"))
    return grid, extensions


def assert_samples(axial, replay) -> None:
    """Check corners, random chunks and both sides of each segment's start, on any grid."""
    ndim = len(replay.grid)
    corners = itertools.islice(itertools.product(*[(0, n - 1) for n in replay.grid]), 64)
    random = np.random.default_rng(99).integers(0, replay.grid, (1000, ndim))
    indices = np.array([*corners, *random.tolist()])
    expected = [replay.address(index) for index in indices.tolist()]
    assert axial.addresses(indices).tolist() == expected
    assert axial.indices(np.array(expected)).tolist() == indices.tolist()
    for index, address in zip(map(tuple, indices[-20:].tolist()), expected[-20:], strict=True):
        assert axial.address(index) == address
        assert axial.index(address) == index
    edges = [segment.start_address for segment in replay.segments[:: max(1, ndim)]]
    edges += [edge - 1 for edge in edges if edge] + [replay.size - 1]
    at_edges = axial.indices(np.array(edges))
    assert [replay.address(index) for index in at_edges.tolist()] == edges


@pytest.mark.slow
@pytest.mark.parametrize("starts", [0, 0.4])
@pytest.mark.parametrize("ndim", range(1, 9))
def test_thousands_of_growths(ndim, starts):
    """The mapping alone works up to nearly 2**62 chunks, which no file system could hold."""
    grid, extensions = long_history(ndim, 3000, 2**62, starts)
    assert len(extensions) > 1000
    axial = Axial(grid)
    for extension in extensions:
        axial.grow(*extension)
    replay = replayed(grid, extensions)
    assert_samples(axial, replay)
    assert_records(axial, replay)


@pytest.mark.sampled(1)
def test_thousands_of_growths_in_a_file(disk):
    history = long_history(3, steps=3000, limit=2**40)
    assert len(history[1]) > 2500
    with disk.array(history[0], "u1", chunks=(1, 1, 1), sparse=True) as array:
        for extension in history[1]:
            array.extend(*extension)
        with disk.open(array) as reader:
            replay = replayed(*history)
            for axial in (array.axial, reader.axial):
                assert_samples(axial, replay)
                assert_records(axial, replay)


def test_axes_too_long_for_a_table(disk):
    """Axes too long for a look-up table have the same mapping."""
    extensions = [(0, 1), (1, 2**33), (0, 2), (1, 1), (0, 3)]
    replay = replayed((1, 2**33), extensions)
    indices = [(i, j) for i in (0, 1, 2, 3, 6) for j in (0, 1, 2**33 - 1, 2**33, 2**34 - 1, 2**34)]
    expected = [replay.address(index) for index in indices]
    with grown(disk, (1, 2**33), extensions) as array:
        assert array.axial.grid == replay.grid
        assert array.axial.addresses(np.array(indices)).tolist() == expected
        assert array.axial.indices(np.array(expected)).tolist() == [list(i) for i in indices]
        for index, address in zip(indices, expected, strict=True):
            assert array.axial.address(index) == address
            assert array.axial.index(address) == index
        assert_records(array.axial, replay)


def test_growth_from_length_zero(memory):
    """The initial segment belongs to axis 0; among equal start addresses the latest wins."""
    extensions = [(1, 2), (0, 3), (2, 1), (1, 1)]
    with grown(memory, (0, 0, 2), extensions) as array:
        assert_maps(array, replayed((0, 0, 2), extensions))
        starts, addresses, coefficients = array.axial.records(0)
        assert starts.tolist() == [0, 0]
        assert addresses.tolist() == [0, 0]
        assert coefficients.tolist() == [[0, 2, 1], [4, 2, 1]]
        assert array.axial.records(1)[1].tolist() == [0, 18]


def test_rank_zero(factory):
    with factory.array((), "f8", chunks=()) as array:
        assert array.axial.grid == ()
        assert array.axial.address(()) == 0
        assert array.axial.index(0) == ()
        assert array.axial.addresses(np.empty((2, 0), np.int64)).tolist() == [0, 0]
        assert array.axial.indices(np.array([0, 0])).shape == (2, 0)
        with pytest.raises(xa.BoundsError):
            array.axial.index(1)


@pytest.fixture
def figure(memory):
    figure = FIGURES["otoo2006 figure 3a"]
    with grown(memory, figure["grid"], figure["extensions"]) as array:
        yield array


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int32, np.dtype(">i8"), np.uint64, list])
def test_integers_of_every_kind(figure, kind):
    indices = [[4, 2], [8, 9], [0, 0]]
    given_indices = indices if kind is list else np.array(indices, kind)
    given_addresses = [22, 89, 0] if kind is list else np.array([22, 89, 0], kind)
    assert figure.axial.addresses(given_indices).tolist() == [22, 89, 0]
    assert figure.axial.indices(given_addresses).tolist() == indices


def test_strided_and_read_only_arguments(figure):
    indices = np.array([[8, 9], [4, 2], [0, 0]])
    strided = np.asfortranarray(np.repeat(indices, 2, axis=0))[::-2]
    strided.flags.writeable = False
    assert figure.axial.addresses(strided).tolist() == [0, 22, 89]
    addresses = np.array([89, 0, 22, 0, 0, 0])[::-2]
    addresses.flags.writeable = False
    assert figure.axial.indices(addresses).tolist() == [[0, 0], [0, 0], [0, 0]]


def test_numpy_integers_one_at_a_time(figure):
    assert figure.axial.address((np.int64(4), np.uint8(2))) == 22
    assert figure.axial.address(np.array([4, 2])) == 22
    assert figure.axial.index(np.int32(22)) == (4, 2)
    assert all(type(i) is int for i in figure.axial.index(22))


def test_no_chunks_at_all(figure):
    assert figure.axial.addresses(np.empty((0, 2), np.int64)).shape == (0,)
    assert figure.axial.indices(np.empty(0, np.int64)).shape == (0, 2)


@pytest.mark.parametrize("index", [(9, 0), (0, 10), (-1, 0), (0, -1), (2**62, 0), (0, -(2**63))])
def test_index_out_of_bounds(figure, index):
    with pytest.raises(xa.BoundsError):
        figure.axial.address(index)
    with pytest.raises(xa.BoundsError):
        figure.axial.addresses(np.array([(0, 0), index]))


@pytest.mark.parametrize("address", [90, -1, 2**62, -(2**63)])
def test_address_out_of_bounds(figure, address):
    with pytest.raises(xa.BoundsError):
        figure.axial.index(address)
    with pytest.raises(xa.BoundsError):
        figure.axial.indices(np.array([0, address]))


@pytest.mark.parametrize("starts", [0, 0.4])
@pytest.mark.parametrize("ndim", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("place", [0, 63, 64, 129])
def test_one_of_many_is_out_of_bounds(place, ndim, starts):
    grid, growths = long_history(ndim, 50, 2**62, starts)
    axial = Axial(grid)
    for growth in growths:
        axial.grow(*growth)
    for wrong in (-1, axial.grid[-1], 2**62):
        indices = np.zeros((130, ndim), np.int64)
        indices[place, -1] = wrong
        with pytest.raises(xa.BoundsError, match=f"{wrong} is out of bounds for axis {ndim - 1}"):
            axial.addresses(indices)
    for wrong in (-1, axial.size, 2**63 - 1):
        addresses = np.zeros(130, np.int64)
        addresses[place] = wrong
        with pytest.raises(xa.BoundsError, match=f"address {wrong} is out of bounds"):
            axial.indices(addresses)


@pytest.mark.parametrize("index", [(), (1,), (1, 2, 3)])
def test_index_of_wrong_length(figure, index):
    with pytest.raises((ValueError, IndexError)) as caught:
        figure.axial.address(index)
    assert isinstance(caught.value, xa.ExtArrayError)
    with pytest.raises(xa.ArgumentError, match=r"\(n, 2\)"):
        figure.axial.addresses(np.array([index]))


@pytest.mark.parametrize("values", [np.zeros(4), np.zeros(4, bool), np.array(["a"] * 4)])
def test_only_integers(figure, values):
    with pytest.raises(xa.ArgumentTypeError):
        figure.axial.addresses(values.reshape(2, 2))
    with pytest.raises(xa.ArgumentTypeError):
        figure.axial.indices(values)


def test_neighbours_at_the_edge_and_beyond_it(figure):
    assert figure.axial.neighbours(0).tolist() == [1, 3, 4]
    assert figure.axial.neighbours(89, 0).tolist() == []
    assert figure.axial.neighbours(22, (0, 2**70)).tolist() == [20, 21, 23, 24, 39, 46, 53, 76, 85]
    assert figure.axial.neighbours(np.int64(22), np.array([1, 0])).tolist() == [11, 27]


def test_neighbours_without_axes(memory):
    with memory.array((), "f8", chunks=()) as array:
        assert array.axial.neighbours(0).tolist() == []


@pytest.mark.parametrize(
    ("address", "radius", "error", "text"),
    [
        (90, 1, xa.BoundsError, "address 90 is out of bounds"),
        (0, -1, xa.ArgumentError, "at least 0 chunks, not -1"),
        (0, (1, 1, 1), xa.ShapeError, "or 2 ints, not 3"),
        (0, 1.5, xa.ArgumentTypeError, r"an int is needed, not 1\.5"),
        (0, "1", xa.ArgumentTypeError, "an int is needed"),
    ],
)
def test_neighbours_that_are_not_possible(figure, address, radius, error, text):
    with pytest.raises(error, match=text):
        figure.axial.neighbours(address, radius)


@pytest.mark.parametrize("axis", [2, -3])
def test_records_of_no_axis(figure, axis):
    with pytest.raises(xa.AxisError, match=rf"axis {axis} is out of bounds .* dimension 2"):
        figure.axial.records(axis)


def test_records_of_axes_counted_from_the_end(figure):
    for axis in (0, 1):
        for one, other in zip(
            figure.axial.records(axis), figure.axial.records(axis - 2), strict=True
        ):
            np.testing.assert_array_equal(one, other)


def test_records_are_copies(figure):
    starts, addresses, coefficients = figure.axial.records(0)
    for part in (starts, addresses, coefficients):
        part[...] = 7
    assert figure.axial.records(0)[0].tolist() == [0, 4, 7]
    assert figure.axial.address((4, 2)) == 22


def test_addresses_that_change_while_they_are_looked_up():
    """Each address is checked, and exactly the checked value is looked up."""
    axial = Axial((3, 0))
    for axis, by in (1, 5), (0, 3), (1, 4):
        axial.grow(axis, by)
    asked = np.zeros(1 << 14, np.int64)
    done = threading.Event()

    def change():
        while not done.is_set():
            asked[::64] = -1
            asked[::64] = 0

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(500):
            with contextlib.suppress(xa.BoundsError):
                assert not axial.indices(asked).any()
    finally:
        done.set()
        changing.join()
