"""The geometry of growth maps: rectangles, lines and bounds, compared with chunks one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import extarray as xa
from extarray.common.errors import AxisError
from extarray.grid.growth_map import (
    Plane,
    legend_rows,
    planes_of,
    rectangles_of,
    segment_colours,
    segment_numbers,
    segments,
)


def plane(classes, inside=None):
    height, width = classes.shape
    rows, columns = range(height), range(width)
    inside = (0.0, float(height), 0.0, float(width)) if inside is None else inside
    return Plane("y", "x", "", rows, columns, classes, classes, inside)


CLASSES = hnp.arrays(
    np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.integers(-1, 2)
)


@given(classes=CLASSES)
def test_rectangles_cover_each_cell_once_with_its_class(classes):
    covered = np.full(classes.shape, -9)
    for top, bottom, left, right in rectangles_of(classes):
        assert (covered[top:bottom, left:right] == -9).all()
        covered[top:bottom, left:right] = classes[top, left]
    np.testing.assert_array_equal(covered, classes)


@given(classes=CLASSES)
def test_lines_part_neighbours_and_are_as_long_as_can_be(classes):
    height, width = classes.shape
    drawn: dict[tuple[int, int, int, int], bool] = {}
    for heavy in (False, True):
        lines = plane(classes).lines(heavy)
        ends = set()
        for top, bottom, left, right in lines.tolist():
            assert (top == bottom) != (left == right)
            upright = left == right
            for k in range(top, bottom) if upright else range(left, right):
                piece = (k, k + 1, left, left) if upright else (top, top, k, k + 1)
                assert piece not in drawn
                drawn[piece] = heavy
            for end in ((top, left), (bottom, right)):
                assert (upright, end) not in ends  # else two lines would be one
                ends.add((upright, end))
    for i, j in np.ndindex(height, width):
        if j:
            assert drawn.pop((i, i + 1, j, j)) == (classes[i, j] != classes[i, j - 1])
        if i:
            assert drawn.pop((i, i, j, j + 1)) == (classes[i, j] != classes[i - 1, j])
    assert not drawn


def planes(a, **options):
    history = segments(a)
    names = [f"axis {j}" for j in range(a.ndim)]
    return planes_of(a, names=names, classes=lambda each: segment_numbers(history, each), **options)


def test_bounds_cut_the_cells_as_elements_lie_in_them():
    a = xa.create(None, (7, 9), "u1", chunks=(4, 5))
    a.extend(0, 5, side="start")
    a.extend(1, 6)
    a.shrink(0, 6)
    (found,) = planes(a)
    row, column = a.info()["offset"]
    share = np.zeros(a.grid)
    for i, j in np.ndindex(a.shape):
        share[(i + row) // 4, (j + column) // 5] += 1 / 20
    top, bottom, left, right = found.inside
    np.testing.assert_allclose([(bottom - top) * 4, (right - left) * 5], a.shape)
    np.testing.assert_array_equal(found.is_outside, share == 0)
    covered = np.zeros(a.grid)
    for t, b, le, r in found.outside:
        for i, j in np.ndindex(a.grid):
            covered[i, j] += max(0, min(b, i + 1) - max(t, i)) * max(0, min(r, j + 1) - max(le, j))
    np.testing.assert_allclose(covered, 1 - share, atol=1e-12)
    y, x, is_inside = found.labels()
    for i, j in np.ndindex(a.grid):
        assert i < y[i] < i + 1 and j < x[j] < j + 1
        if is_inside[i, j]:
            assert top < y[i] < bottom and left < x[j] < right


def test_a_plane_beside_the_bounds_is_outside_wholly():
    a = xa.create(None, (2, 2, 3), "u1", chunks=1)
    a.shrink(2, 1)
    *inner, last = planes(a)
    assert [one.outside for one in inner] == [[], []]
    assert last.outside == [(0.0, 2.0, 0.0, 2.0)] and last.is_outside.all()


def test_planes_have_the_addresses_of_the_array():
    a = xa.create(None, (2, 3, 2), "u1", chunks=1, dims=("t", "y", "x"))
    a.extend("y", 2)
    a.extend("t", 1)
    shown = planes(a, axis="t", at={})
    assert [one.title for one in shown] == [f"axis 0, chunk {t}" for t in range(3)]
    for t, one in enumerate(shown):
        assert (one.row_name, one.column_name) == ("axis 1", "axis 2")
        for i, j in np.ndindex(5, 2):
            address = one.addresses[i, j]
            assert address == a.axial.address((t, i, j))
            mine = segments(a)[one.classes[i, j]]
            assert mine.start_address <= address < mine.start_address + mine.size
    (one,) = planes(a, at={"t": -1, "x": 0})
    assert (one.row_name, one.column_name, one.title) == ("", "axis 1", "")
    assert one.addresses.tolist() == [[a.axial.address((2, i, 0)) for i in range(5)]]
    with pytest.raises(AxisError, match="no axis is named 'z'"):
        planes(a, at={"z": 0})


def test_legends_have_a_row_a_segment_or_an_axis():
    a = xa.create(None, (1, 1), "u1", chunks=1)
    a.extend(1, 2)
    a.extend(0, 1)
    history, names = segments(a), ["y", "x"]
    assert legend_rows(history, names, 3) == [
        ([0], "0: first segment"),
        ([1], "1 to 2: x by 2"),
        ([2], "3 to 5: y by 1"),
    ]
    assert legend_rows(history, names, 2) == [
        ([0], "first segment"),
        ([2], "y: 1 segment"),
        ([1], "x: 1 segment"),
    ]
    assert segment_colours([]).shape == (0, 3)
