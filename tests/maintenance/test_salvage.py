"""The remains of arrays whose data file has lost its end."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import extarray as xa
from extarray.common.limits import limits
from extarray.format.header import decode_header
from extarray.maintenance.salvage import box_text


@st.composite
def histories(draw):
    """Draw an initial grid, and growths: axis, chunks, side."""
    ndim = draw(st.integers(1, 3))
    grid = draw(st.lists(st.integers(1, 3), min_size=ndim, max_size=ndim))
    growth = st.tuples(
        st.integers(0, ndim - 1), st.integers(1, 2), st.sampled_from(["end", "start"])
    )
    return grid, draw(st.lists(growth, max_size=4))


def largest(there):
    """Return the size of the largest box with all elements."""
    edges = [itertools.combinations(range(n + 1), 2) for n in there.shape]
    parts = (
        there[tuple(slice(*edge) for edge in box)] for box in itertools.product(*map(list, edges))
    )
    return max((part.size for part in parts if part.all()), default=0)


@pytest.mark.slow
@given(history=histories(), share=st.floats(0, 1), fill=st.sampled_from([0, 9]))
@settings(max_examples=80, deadline=None)
def test_the_largest_whole_bounds_are_kept(tmp_path_factory, history, share, fill):
    path = tmp_path_factory.mktemp("cut") / "a"
    grid, growths = history
    a = xa.create(path, grid, "i4", chunks=(1,) * len(grid), fill_value=fill)
    for axis, by, side in growths:
        a.extend(axis, by, side=side)
    model = np.arange(10, 10 + a.size, dtype="i4").reshape(a.shape)
    a[...] = model
    stored = np.frombuffer(path.with_name("a.xta").read_bytes(), "i4", a.size).copy()
    a.close()
    n = int(share * (a.size - 1))
    os.truncate(path.with_name("a.xta"), 4 * n + 2 * (n % 2))  # sometimes with part of a chunk
    there = np.isin(model, stored[:n])
    best = largest(there)
    (problem,) = [p for p in xa.check(path).problems if p.kind == "data"]
    if not best:
        assert "none of its elements can be kept" in problem.remedy
        assert not xa.check(path, repair=True, force=True).ok
        return
    is_exact = best == there.sum()
    assert ("--force" not in problem.remedy) == is_exact
    report = xa.check(path, repair=True)
    assert report.ok == is_exact
    if not is_exact:
        report = xa.check(path, repair=True, force=True)
        assert report.ok
    with xa.open(path, "r+") as a:
        assert a.size == best
        found = a[...]
        place = np.argwhere(model == found.flat[0])[0]
        box = tuple(slice(i, i + m) for i, m in zip(place, found.shape, strict=True))
        np.testing.assert_array_equal(found, model[box])
        inside = tuple(slice(0, m) for m in found.shape)
        for axis in range(a.ndim):
            a.extend(axis, 3)
        outside = np.ones(a.shape, bool)
        outside[inside] = False
        assert (a[...][outside] == fill).all()
    assert not xa.check(path).problems


def test_an_array_without_axes_cannot_be_kept(path):
    xa.full((), 3, path=path).close()
    uuid = decode_header(path.with_name(path.name + ".xmd").read_bytes()).uuid
    os.truncate(path.with_name(path.name + ".xta"), 4)
    report = xa.check(path, repair=True, force=True)
    assert not report.ok
    assert "none of its elements" in report.problems[0].remedy
    assert decode_header(path.with_name(path.name + ".xmd").read_bytes()).uuid == uuid


def test_checksums_fit_what_is_kept(path):
    with xa.create(path, (8, 4), "i4", chunks=(2, 2), checksum=True) as a:
        a[...] = np.arange(1, 33).reshape(8, 4)
    os.truncate(path.with_name(path.name + ".xta"), 3 * 16)
    report = xa.check(path, data=True)
    assert "elements lost: [2:4, 2:4], [4:8, 0:4]" in str(report)
    assert xa.check(path, data=True, repair=True, force=True).ok
    assert not xa.check(path, data=True).problems
    with xa.open(path) as a:
        np.testing.assert_array_equal(a[...], np.arange(1, 33).reshape(8, 4)[:2])


@pytest.mark.parametrize(("box", "text"), [(((), ()), "[()]"), (((1,), (2,)), "[1:2]")])
def test_boxes_are_told_as_indices_have_them(box, text):
    assert box_text(*box) == text


def test_of_very_many_chunks_whole_rows_are_kept(path, monkeypatch):
    monkeypatch.setattr(limits, "chunks_looked_at", 4)
    with xa.create(path, (4, 4), "u1", chunks=(1, 1)) as a:
        a[...] = np.arange(1, 17).reshape(4, 4)
    os.truncate(path.with_name(path.name + ".xta"), 7)
    (problem,) = xa.check(path).problems
    assert "elements lost: [1:2, 3:4], [2:4, 0:4]" in problem.what
    assert "--force keeps [0:1, 0:4]" in problem.remedy
    assert "discards 3 chunks" in problem.remedy
    assert xa.check(path, repair=True, force=True).ok
    with xa.open(path, "r+") as a:
        assert a[...].tolist() == [[1, 2, 3, 4]]
        a.extend(0, 1)
        assert not a[1].any()
