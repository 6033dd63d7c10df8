"""Planes in steps, from coarse to fine: each equals NumPy's slice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extarray as xa
from extarray.common.limits import limits

pytest.importorskip("tornado", reason="the server is Tornado (extra 'view')")

from extarray.view import planes
from extarray.view.encoding import choices_of, keys_of
from extarray.view.planes import (
    Abandoned,
    Span,
    can_be_whole,
    check_span,
    read_extremes,
    read_line_ends,
    read_plane,
)

SHAPE = (30, 41, 52)
VALUES = np.arange(np.prod(SHAPE)).reshape(SHAPE).astype("f4")


@pytest.fixture(scope="module")
def array(tmp_path_factory):
    path = tmp_path_factory.mktemp("planes") / "a"
    xa.from_array(VALUES, path, chunks=(7, 8, 9)).close()
    with xa.open(path, engine="pread") as a:
        yield a


def plane(array, *args, **kwargs):
    (choice,) = choices_of(array.dtype)
    return read_plane(array, *args, choice, **kwargs)


spans = st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 70)).map(
    lambda t: (min(t[:2]), max(t[:2]), t[2])
)


@given(
    axes=st.permutations([0, 1, 2]),
    rows=spans,
    columns=spans,
    at=st.integers(0, 29),
    seconds=st.sampled_from([0.0, 10.0]),
)
def test_a_plane_is_a_slice(array, axes, rows, columns, at, seconds):
    r, c = axes[:2]
    got = plane(array, [at] * 3, Span(r, *rows), Span(c, *columns), seconds=seconds)
    index = [at] * 3
    index[r] = slice(rows[0], rows[1], got.steps[0])
    index[c] = slice(columns[0], columns[1], got.steps[1])
    want = VALUES[tuple(index)]
    np.testing.assert_array_equal(got.values, want.T if r > c else want)
    if seconds and got.values.size:
        assert got.level == 0
        assert got.values.shape[0] <= rows[2] and got.values.shape[1] <= columns[2]
        assert got.steps[0] == max(1, -(-(rows[1] - rows[0]) // rows[2]))


def test_one_axis_alone(array):
    got = plane(array, [3, 4, 0], None, Span(2, 0, 52, 1000))
    np.testing.assert_array_equal(got.values, VALUES[3, 4][None])
    got = plane(array, [3, 0, 7], None, Span(1, 0, 41, 10), seconds=10)
    np.testing.assert_array_equal(got.values, VALUES[3, ::5, 7][None])


def test_without_time_the_first_picture_is_coarse_and_those_after_it_are_finer(array):
    whole = Span(1, 0, 41, 41), Span(2, 0, 52, 52)
    first = plane(array, [5, 0, 0], *whole, seconds=0.0)
    assert first.level > 0
    assert first.values.size <= 256
    for level in range(first.level - 1, -1, -1):
        got = plane(array, [5, 0, 0], *whole, seconds=0.0, level=level)
        assert got.level == level
        np.testing.assert_array_equal(got.values, VALUES[5, :: 1 << level, :: 1 << level])


def test_large_elements_are_never_read_in_full(array, monkeypatch):
    monkeypatch.setattr(limits, "plane_bytes", 1000)
    got = plane(array, [5, 0, 0], Span(1, 0, 41, 41), Span(2, 0, 52, 52), seconds=10)
    assert got.level == 0  # there is no finer level
    assert got.values.nbytes <= 1000
    np.testing.assert_array_equal(got.values, VALUES[5, :: got.steps[0], :: got.steps[1]])


def test_bands_and_parts_of_rows_make_the_same_plane(array, monkeypatch):
    monkeypatch.setattr(limits, "coarsest_elements", 10)
    monkeypatch.setattr(limits, "band_pages", 1)
    got = plane(array, [0, 0, 9], Span(1, 0, 41, 41), Span(0, 0, 30, 30), level=0)
    np.testing.assert_array_equal(got.values, VALUES[:, :, 9].T)


@given(axes=st.permutations([0, 1, 2]), rows=spans, columns=spans, at=st.integers(0, 29))
def test_extremes_leave_nothing_out(array, axes, rows, columns, at):
    (choice,) = choices_of(array.dtype)
    r, c = axes[:2]
    spans = Span(r, *rows), Span(c, *columns)
    got = read_extremes(array, [at] * 3, *spans, choice, keys_of)
    index = [at] * 3
    index[r], index[c] = slice(*rows[:2]), slice(*columns[:2])
    want = VALUES[tuple(index)]
    want = want.T if r > c else want
    assert got.is_whole
    assert got.values.shape == tuple(span.count(0) for span in spans)
    down, across = got.steps
    for i, j in np.ndindex(got.values.shape):
        cell = want[i * down : (i + 1) * down, j * across : (j + 1) * across]
        assert got.values[i, j] in (cell.min(), cell.max())


def test_a_spike_between_the_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(planes, "_AT_ONCE", 500)
    monkeypatch.setattr(planes, "_PART", 64)
    values = np.zeros((200, 300), "i2")
    values[77, 131] = -5
    values[::2] = -9  # the fill value, which is nothing
    with xa.from_array(values, tmp_path / "a", chunks=(64, 64), fill_value=-9) as a:
        (choice,) = choices_of(a.dtype)
        rows, columns = Span(0, 0, 200, 20), Span(1, 0, 300, 30)
        assert can_be_whole(a, rows, columns, choice)
        assert not read_plane(a, [0, 0], rows, columns, choice).is_whole

        def keys(part):
            return keys_of(part, fill=np.int16(-9))

        got = read_extremes(a, [0, 0], rows, columns, choice, keys)
        want = np.zeros((20, 30), "i2")
        want[7, 13] = -5
        np.testing.assert_array_equal(got.values, want)
        got = read_extremes(a, [77, 0], None, columns, choice, keys)
        np.testing.assert_array_equal(got.values, want[7:8])
        line = read_line_ends(a, [0, 131], rows, choice, keys)
        assert -5 in line.values[line.places == 77]
        np.testing.assert_array_equal(line.values, values[line.places, 131])
        with pytest.raises(Abandoned):
            read_extremes(a, [0, 0], rows, columns, choice, keys, lambda: False)
        with pytest.raises(Abandoned):
            read_line_ends(a, [0, 0], rows, choice, keys, lambda: False)
        monkeypatch.setattr(limits, "plane_bytes", 1000)
        assert not can_be_whole(a, rows, columns, choice)


def test_what_nobody_wants_is_given_up(array):
    with pytest.raises(Abandoned):
        plane(array, [0] * 3, None, Span(0, 0, 30, 30), is_wanted=lambda: False)


def test_time_that_is_over_gives_what_there_is(array, monkeypatch):
    # The first level is fast, so finer ones are tried; then the clock jumps.
    times = iter([0.0] * 4)
    monkeypatch.setattr(planes.time, "perf_counter", lambda: next(times, 9.0))
    monkeypatch.setattr(limits, "coarsest_elements", 40)
    got = plane(array, [0] * 3, Span(1, 0, 41, 41), Span(2, 0, 52, 52), seconds=1.0)
    assert got.level > 0
    np.testing.assert_array_equal(got.values, VALUES[0, :: got.steps[0], :: got.steps[1]])


def test_an_array_that_has_shrunk_is_noticed(array):
    class Short:
        itemsize, order, chunks, ndim = array.itemsize, array.order, array.chunks, array.ndim

        def __getitem__(self, key):
            return VALUES[:10][key]

    rows, columns = Span(0, 0, 30, 30), Span(1, 0, 41, 41)
    (choice,) = choices_of(VALUES.dtype)
    with pytest.raises(xa.BoundsError, match="shrunk"):
        read_plane(Short(), [0] * 3, rows, columns, choice)


@pytest.mark.parametrize(
    ("span", "error"),
    [
        (Span(3, 0, 1, 1), xa.ArgumentError),
        (Span(-1, 0, 1, 1), xa.ArgumentError),
        (Span(0, -1, 3, 1), xa.BoundsError),
        (Span(0, 4, 3, 1), xa.BoundsError),
        (Span(0, 0, 31, 1), xa.BoundsError),
        (Span(0, 0, 3, 0), xa.ArgumentError),
        (Span(0, 0, 3, 1 << 20), xa.ArgumentError),
    ],
)
def test_spans_that_are_none_are_refused(span, error):
    with pytest.raises(error):
        check_span(span, SHAPE)
