"""The replay of growth logs: those of histories, in pieces, and those that are none."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extarray as xa
from extarray._core._axial import Axial
from extarray._core._history import records_from, replay_log, replay_more

ENDS = ("end",)
BOTH = ("end", "start")


@st.composite
def grown(draw, sides=BOTH, least=0, chunks=3000):
    """Draw axial vectors after growths of some sides, of 1 to 6 axes."""
    ndim = draw(st.integers(1, 6))
    axial = Axial(draw(st.tuples(*[st.sampled_from([1, 2, 0])] * ndim)))
    axes, amounts = st.integers(0, ndim - 1), st.sampled_from([1, 2, 5])
    steps = draw(
        st.lists(st.tuples(axes, amounts, st.sampled_from(sides)), min_size=least, max_size=14)
    )
    for axis, by, side in steps:
        wider = [n + by if j == axis else n for j, n in enumerate(axial.grid)]
        if math.prod(wider) <= chunks:
            axial.grow(axis, by, side)
    return axial


def assert_same(one, other):
    """Assert that two histories have the same records, tables and addresses."""
    assert (one.grid, one.segments) == (other.grid, other.segments)
    for a, b in zip(records_from(one, 0), records_from(other, 0), strict=True):
        np.testing.assert_array_equal(a, b)
    for axis in range(one.ndim):
        for a, b in zip(one.records(axis), other.records(axis), strict=True):
            np.testing.assert_array_equal(a, b)
    indices = np.indices(one.grid).reshape(one.ndim, -1).T
    addresses = one.addresses(indices)
    np.testing.assert_array_equal(addresses, other.addresses(indices))
    np.testing.assert_array_equal(one.indices(addresses), other.indices(addresses))


def is_history(axes, sides, grids, grid):
    """Tell whether a log is one of growth, by the rules of the format, record by record."""
    if axes[0] or sides[0] or grids[0, 0] or grids[0].min() < 0:
        return False
    ndim = len(grid)
    following = [*map(tuple, grids.tolist()), tuple(grid)]
    for n, (before, after) in enumerate(itertools.pairwise(following)):
        if axes[n] >= ndim or sides[n] > 1:
            return False
        if n and (axes[n], sides[n]) == (axes[n - 1], sides[n - 1]):
            return False
        if any(
            b != a and (j != axes[n] or b < a)
            for j, (a, b) in enumerate(zip(before, after, strict=True))
        ):
            return False
    return True


@pytest.mark.parametrize("sides", [ENDS, BOTH])
@given(data=st.data())
def test_logs_of_histories_replayed_in_pieces(sides, data):
    axial = data.draw(grown(sides))
    axes, sides, grids = records_from(axial, 0)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(axes)), max_size=3)) | {len(axes)})
    following = [*grids, np.array(axial.grid)]
    first = cuts[0]
    found = replay_log(Axial, axes[:first], sides[:first], grids[:first], following[first].tolist())
    for low, high in itertools.pairwise(cuts):
        replay_more(found, axes[low:high], sides[low:high], grids[low:high], following[high])
    assert_same(found, axial)
    # The history goes on as the one that grew.
    for axis in range(axial.ndim):
        for side in BOTH:
            axial.grow(axis, 1, side)
            found.grow(axis, 1, side)
    np.testing.assert_array_equal(records_from(found, 0)[2], records_from(axial, 0)[2])


@given(data=st.data())
def test_damage_in_any_field_of_a_record(data):
    axial = data.draw(grown(data.draw(st.sampled_from([ENDS, BOTH])), least=3, chunks=500))
    axes, sides, grids = records_from(axial, 0)
    grid = list(axial.grid)
    n = data.draw(st.integers(0, len(axes)))
    numbers = st.sampled_from([0, 1, 2, 3, 31, 32, 255])
    if n == len(axes):
        grid[data.draw(st.integers(0, axial.ndim - 1))] += data.draw(st.integers(-2, 2))
    elif (field := data.draw(st.sampled_from(["axis", "side", "grid"]))) == "axis":
        axes[n] = data.draw(numbers)
    elif field == "side":
        sides[n] = data.draw(numbers)
    else:
        grids[n, data.draw(st.integers(0, axial.ndim - 1))] += data.draw(
            st.sampled_from([-(2**62), -1, 1])
        )
    if is_history(axes, sides, grids, grid):
        assert replay_log(Axial, axes, sides, grids, grid).grid == tuple(grid)
        return
    with pytest.raises(xa.CorruptError, match="growth"):
        replay_log(Axial, axes, sides, grids, grid)


@given(data=st.data())
def test_nothing_changes_if_the_rest_of_a_log_is_none(data):
    axial = data.draw(grown(least=4))
    axes, sides, grids = records_from(axial, 0)
    first = data.draw(st.integers(1, len(axes)))
    following = [*grids, np.array(axial.grid)]
    known = [axes[:first], sides[:first], grids[:first], following[first].tolist()]
    found = replay_log(Axial, *known)
    with pytest.raises(xa.CorruptError, match="growth"):
        replay_more(found, axes[first:], sides[first:], grids[first:], [-1] * axial.ndim)
    assert_same(found, replay_log(Axial, *known))


@pytest.mark.parametrize("ndim", [2, 3, 4, 5])
@pytest.mark.parametrize("side", [0, 1])
def test_grids_of_too_many_chunks(ndim, side):
    """The product overflows when the last segment begins, or only at the end of the log."""
    before = [2**62, *[1] * (ndim - 2), 2]
    grids = np.array([[0, *before[1:]], before])
    log = np.array([0, ndim - 1], np.uint8), np.array([0, side], np.uint8), grids
    with pytest.raises(xa.CorruptError, match="more than 2"):
        replay_log(Axial, *log, [*before[:-1], 3])
    before[-1] = 1
    grids[:, -1] = 1
    with pytest.raises(xa.CorruptError, match="more than 2"):
        replay_log(Axial, *log, [*before[:-1], 2])


def test_records_with_steps_of_their_own():
    """Columns of records, of whatever width, are read where they are."""
    axial = Axial((1, 1))
    for n in range(60):
        axial.grow(n % 2, 1)
    axes, sides, grids = records_from(axial, 0)
    records = np.zeros(len(axes), [("a", "u1"), ("b", "u1", 6), ("s", "u1"), ("g", "<i8", 2)])
    records["a"], records["s"], records["g"] = axes, sides, grids
    found = replay_log(Axial, records["a"], records["s"], records["g"], axial.grid)
    assert_same(found, axial)


def test_indices_of_some_places_of_a_grown_side():
    """Segments of many places and of one, in the table that a replay and a growth fill."""
    axial = Axial((2, 2))
    for n in range(200):
        axial.grow(n % 2, 1 + n % 7 * 4, BOTH[n % 5 == 0])
    found = replay_log(Axial, *records_from(axial, 0), axial.grid)
    random = np.random.default_rng(5)
    indices = random.integers(0, axial.grid, (2000, 2))
    np.testing.assert_array_equal(found.addresses(indices), axial.addresses(indices))
