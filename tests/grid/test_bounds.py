"""Plans of changes of bounds, against sets of elements and chunks visited one by one."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extarray.common.errors import LimitError
from extarray.grid.bounds import Bounds, along_axis, beside, outside, to_box
from extarray.grid.policy import decode_policy, encode_policy

LIMIT = 2**63 - 4096

policies = st.sampled_from(["exact", ("linear", 3), ("exponential", 1.5), "doubling", "cubical"])


@st.composite
def bounds(draw):
    """Draw bounds somewhere in a grid, of at most three axes."""
    axes = range(draw(st.integers(1, 3)))
    chunks = tuple(draw(st.integers(1, 3)) for _ in axes)
    grid = tuple(draw(st.integers(0, 3)) for _ in axes)
    offset = tuple(draw(st.integers(0, g * c)) for g, c in zip(grid, chunks, strict=True))
    shape = tuple(
        draw(st.integers(0, g * c - b)) for g, c, b in zip(grid, chunks, offset, strict=True)
    )
    return Bounds(shape, offset, grid), chunks


@st.composite
def changes(draw):
    """Draw bounds and a change of them: low, high, and the plan."""
    old, chunks = draw(bounds())
    k = len(old.shape)
    if draw(st.booleans()):
        axis, at_start = draw(st.integers(0, k - 1)), draw(st.booleans())
        by = draw(st.integers(-old.shape[axis], 7).filter(bool))
        low = tuple(-by if j == axis and at_start else 0 for j in range(k))
        high = tuple(n + by if j == axis and not at_start else n for j, n in enumerate(old.shape))
        return low, high, None, along_axis(old, chunks, axis, by, at_start, LIMIT)
    low = tuple(draw(st.integers(-4, n)) for n in old.shape)
    high = tuple(draw(st.integers(a, n + 4)) for a, n in zip(low, old.shape, strict=True))
    room = None
    if draw(st.booleans()):
        room = (
            tuple(a - draw(st.integers(0, 4)) for a in low),
            tuple(z + draw(st.integers(0, 4)) for z in high),
        )
    return low, high, room, to_box(old, chunks, low, high, LIMIT, room)


def box(start, stop):
    return set(itertools.product(*map(range, start, stop)))


def union(boxes):
    """Return the elements of boxes, which must be disjoint and not empty."""
    found = set()
    for start, stop in boxes:
        part = box(start, stop)
        assert part and not part & found
        found |= part
    return found


def elements_of_grid(change, grid, rows):
    """Return the elements of a grid, in indices before the change."""
    offset, chunks = change.before.offset, change.chunks
    low = [-b - m * c for b, m, c in zip(offset, rows, chunks, strict=True)]
    return box(low, [a + g * c for a, g, c in zip(low, grid, chunks, strict=True)])


def chunk_of(change, element):
    """Return the chunk of the new grid in which an element lies."""
    offset, chunks = change.before.offset, change.chunks
    return tuple(
        (i + b) // c + m for i, b, c, m in zip(element, offset, chunks, change.rows, strict=True)
    )


def replayed(change):
    """Return the grid after the steps, and the rows they add at the starts."""
    grid, rows = list(change.before.grid), [0] * len(change.low)
    for axis, by, side in change.steps:
        assert by > 0
        grid[axis] += by
        rows[axis] += by if side == "start" else 0
    return tuple(grid), tuple(rows)


@given(changes())
def test_the_new_bounds(asked):
    low, high, _, change = asked
    before = change.before
    assert (change.low, change.high) == (low, high)
    assert change.after.shape == tuple(z - a for a, z in zip(low, high, strict=True))
    assert change.after.offset == tuple(
        b + a + m * c
        for b, a, m, c in zip(before.offset, low, change.rows, change.chunks, strict=True)
    )
    assert change.cuts == any(
        a > 0 or z < n for a, z, n in zip(low, high, before.shape, strict=True)
    )
    assert (change.after.grid, change.rows) == replayed(change)


@given(changes())
def test_the_grid_gains_just_what_is_needed(asked):
    low, high, room, change = asked
    first, last = room or (low, high)
    for j, (g, c) in enumerate(zip(change.after.grid, change.chunks, strict=True)):
        b, n = change.before.offset[j], change.before.grid[j]
        at_start, at_end = change.rows[j], g - n - change.rows[j]
        assert -b - at_start * c <= first[j] and last[j] <= (n + at_end) * c - b
        # One chunk less would not suffice.
        assert not at_start or first[j] < -b - (at_start - 1) * c
        assert not at_end or last[j] > (n + at_end - 1) * c - b


@given(changes(), policies)
def test_a_policy_gives_no_less(asked, growth):
    change = asked[-1]
    ahead = change.ahead(decode_policy(encode_policy(growth)), LIMIT)
    assert (ahead.after.grid, ahead.rows) == replayed(ahead)
    assert elements_of_grid(change, change.after.grid, change.rows) <= elements_of_grid(
        ahead, ahead.after.grid, ahead.rows
    )
    assert (ahead.low, ahead.high) == (change.low, change.high)
    assert ahead.after.shape == change.after.shape
    if growth == "exact":
        assert (ahead.after, ahead.steps, ahead.cuts) == (change.after, change.steps, change.cuts)
    offset, chunks = change.before.offset, change.chunks
    assert ahead.after.offset == tuple(
        b + a + m * c for b, a, m, c in zip(offset, ahead.low, ahead.rows, chunks, strict=True)
    )


@given(changes())
def test_what_must_be_renewed(asked):
    low, high, _, change = asked
    before = change.before
    old = box([0] * len(low), before.shape)
    there = elements_of_grid(change, before.grid, (0,) * len(low))
    assert union(change.new_parts()) == box(low, high) - old
    assert union(change.old_chunks_of_new_parts()) == (box(low, high) - old) & there


@given(changes())
def test_what_is_cut(asked):
    low, high, _, change = asked
    old, new = box([0] * len(low), change.before.shape), box(low, high)
    needed = {chunk_of(change, i) for i in new}
    assert needed == box(*change.chunks_needed)
    assert {chunk_of(change, i) for i in old} == box(*change.chunks_known)
    assert union(change.chunks_cut()) == {chunk_of(change, i) for i in old} - needed
    outwards, inwards = change.sides(outwards=True), change.sides(outwards=False)
    for j, (a, z, n) in enumerate(zip(low, high, change.before.shape, strict=True)):
        assert ((j, "start") in outwards, (j, "start") in inwards) == (a < 0, a > 0)
        assert ((j, "end") in outwards, (j, "end") in inwards) == (z > n, z < n)


@given(changes())
def test_chunks_that_are_gained(asked):
    change = asked[-1]
    before = box(change.rows, [m + n for m, n in zip(change.rows, change.before.grid, strict=True)])
    grid = box([0] * len(change.after.grid), change.after.grid)
    gained = union(change.chunks_gained())
    assert gained <= grid - before
    assert gained >= box(*change.chunks_needed) - before


@given(changes())
def test_elements_of_chunks(asked):
    change = asked[-1]
    start, stop = change.elements_of(*change.chunks_known)
    assert {chunk_of(change, i) for i in box(start, stop)} == box(*change.chunks_known)
    assert box([0] * len(start), change.before.shape) <= box(start, stop)


@given(bounds(), st.data())
def test_growth_of_one_axis(asked, data):
    old, chunks = asked
    axis = data.draw(st.integers(0, len(old.shape) - 1))
    by, at_start = data.draw(st.integers(1, 5)), data.draw(st.booleans())
    change = along_axis(old, chunks, axis, by, at_start, LIMIT)
    new = box(change.low, change.high) - box([0] * len(old.shape), old.shape)
    assert box(*beside(old.shape, axis, by, at_start)) == new
    grid = tuple(map(int.__mul__, change.after.grid, chunks))
    assert change.fills == (change.after.shape == grid and not any(change.after.offset))


@given(bounds(), bounds())
def test_outside(one, other):
    (one, _), (other, _) = one, other
    if len(one.shape) == len(other.shape):
        stops = [tuple(map(int.__add__, b.offset, b.shape)) for b in (one, other)]
        found = union(outside(one.offset, stops[0], other.offset, stops[1]))
        assert found == box(one.offset, stops[0]) - box(other.offset, stops[1])


@pytest.mark.parametrize("at_start", [False, True])
def test_an_axis_that_would_be_too_long(at_start):
    old, chunks = Bounds((5, 5), (0, 0), (1, 1)), (8, 8)
    most = LIMIT - LIMIT % 8 - (8 if LIMIT % 8 == 0 else 0)
    by = most - (8 if at_start else 5)
    change = along_axis(old, chunks, 1, by, at_start, LIMIT)
    assert change.after.grid == (1, most // 8)
    assert change.ahead(decode_policy(encode_policy(("linear", 2))), LIMIT) is not None
    assert change.ahead(decode_policy(encode_policy(("exponential", 2.0))), LIMIT) is not None
    with pytest.raises(LimitError, match="cannot grow axis 1 so far"):
        along_axis(old, chunks, 1, by + 1, at_start, LIMIT)
    with pytest.raises(LimitError, match="cannot grow axis 0 so far"):
        to_box(old, chunks, (0, 0), (LIMIT, 5), LIMIT)
    with pytest.raises(LimitError, match="cannot grow axis 0 so far"):
        to_box(old, chunks, (0, 0), (5, 5), LIMIT, ((-LIMIT, 0), (5, 5)))
    small = along_axis(old, chunks, 1, 4, at_start, LIMIT)
    assert small.ahead(decode_policy(encode_policy(("linear", 2**20))), 2**20) is None


@given(
    st.integers(0, 9),
    st.integers(1, 9) | st.integers(2**58, 2**61),
    st.integers(0, 20),
    st.integers(-30, 0) | st.integers(-(2**63) - 9, 9 - 2**62),
    st.integers(0, 30) | st.integers(2**62, 2**63 + 9),
)
def test_the_grid_gains_the_chunks_that_are_missing(extent, chunk, before, low, high):
    at_start = -(-before // chunk)  # the array has grown there by this many elements
    offset, n = at_start * chunk - before, at_start + -(-extent // chunk)
    old = Bounds((0, before + extent), (0, offset), (0, n))
    rows = max(0, -((low + offset) // chunk))
    wanted = rows + max(n, -(-(high + offset) // chunk))
    room = (0, low), (0, high)
    if wanted * chunk < LIMIT:
        change = to_box(old, (1, chunk), (0, 0), old.shape, LIMIT, room)
        assert change.after.grid == (0, wanted)
        assert change.rows == (0, rows)
    else:
        with pytest.raises(LimitError, match="axis 1"):
            to_box(old, (1, chunk), (0, 0), old.shape, LIMIT, room)


def test_the_grid_grows_along_axes_in_an_order():
    old = Bounds((2, 3, 1), (0, 0, 0), (1, 1, 1))
    change = to_box(old, (2, 3, 1), (-1, 0, 0), (4, 3, 2), LIMIT, order=(2, 1, 0))
    assert change.steps == ((2, 1, "end"), (0, 1, "start"), (0, 1, "end"))
    plain = to_box(old, (2, 3, 1), (-1, 0, 0), (4, 3, 2), LIMIT)
    assert plain.steps == (*change.steps[1:], change.steps[0])
    assert change.after == plain.after
