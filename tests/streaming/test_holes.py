"""Holes: unwritten elements are found, skipped, and left out."""

from __future__ import annotations

import contextlib
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from systems import needs_reports_of_holes

import extarray as xa
from extarray.storage import filesystem
from extarray.storage.filesystem import File
from extarray.streaming import holes
from extarray.streaming.holes import clear, keeps_zeros, write_fresh

PAGE = 1 << 16  # a multiple of the block size on any system


@pytest.fixture
def file(tmp_path):
    """Yield a file of eight pages, with data in its third and sixth."""
    with contextlib.closing(File.open(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT)) as f:
        f.truncate(8 * PAGE)  # makes holes, also where a file must be made ready for them
        for page in (2, 5):
            f.write(b"x" * PAGE, page * PAGE)
    opened = File.open(str(tmp_path / "f"), os.O_RDONLY)
    yield opened
    opened.close()


RUNS = {
    "the first pages": ([(0, 2)], True),
    "data alone": ([(2, 3)], False),
    "from a hole into data": ([(1, 3)], False),
    "from data into a hole": ([(2, 4)], False),
    "holes on both sides": ([(0, 2), (3, 5), (6, 8)], True),
    "the last of them is data": ([(0, 1), (3, 4), (5, 6)], False),
    "the end": ([(7, 8)], True),
    "none": ([], True),
}


@needs_reports_of_holes
@pytest.mark.parametrize(("runs", "expected"), RUNS.values(), ids=RUNS)
def test_holes_are_found(file, runs, expected):
    assert file.has_holes()
    starts, stops = ([run[i] * PAGE for run in runs] for i in (0, 1))
    assert file.all_holes(starts, stops) is expected
    assert list(file.written(8 * PAGE)) == [(2 * PAGE, 3 * PAGE), (5 * PAGE, 6 * PAGE)]


def test_a_file_system_that_hides_data_is_not_asked(file, monkeypatch):
    monkeypatch.setattr(filesystem, "_HIDES_DATA", {file.file_system})
    assert not file.has_holes()
    assert list(file.written(8 * PAGE)) == [(0, 8 * PAGE)]
    assert list(file.written(0)) == []


def test_data_that_is_told_as_a_hole_is_erased(file, monkeypatch):
    """GlusterFS does so for a moment after a write, since its seeks overtake its writes."""
    monkeypatch.setattr(filesystem, "_HIDES_DATA", {file.file_system})
    monkeypatch.setattr(filesystem.system, "next_data", lambda fd, offset: None)
    with contextlib.closing(File.open(file.name, os.O_RDWR)) as writer:
        writer.erase(2 * PAGE + 5, 6 * PAGE - 5)
    assert file.read(5, 2 * PAGE) == b"x" * 5 == file.read(5, 6 * PAGE - 5)
    assert not any(file.read(4 * PAGE - 10, 2 * PAGE + 5))


DTYPES = ["u1", ">i2", "f4", "c16", "S3", "U2", "M8[s]", "?", [("a", "i1"), ("b", "f8")]]


@given(data=st.data(), dtype=st.sampled_from(DTYPES))
def test_chunks_of_zeros_are_left_out_and_no_others(data, dtype):
    ndim = data.draw(st.integers(0, 2))
    shape = tuple(data.draw(st.integers(1, 6)) for _ in range(ndim))
    chunks = tuple(data.draw(st.integers(1, 4)) for _ in range(ndim))
    low = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    high = tuple(data.draw(st.integers(a + 1, n)) for a, n in zip(low, shape, strict=True))
    extents = tuple(b - a for a, b in zip(low, high, strict=True))
    raw = np.zeros((*extents, np.dtype(dtype).itemsize), "u1")
    for _ in range(data.draw(st.integers(0, 3))):
        raw[tuple(data.draw(st.integers(0, n - 1)) for n in raw.shape)] = 1
    values = raw.reshape(-1).view(dtype).reshape(extents)
    if ndim and data.draw(st.booleans()):
        values = np.asfortranarray(values)
    a = xa.create(None, shape, dtype, chunks=chunks, sparse=True)
    box = tuple(map(slice, low, high))
    write_fresh(a, box, values)
    model = np.zeros(shape, dtype)
    model[(*box, ...)] = values
    assert a[...].tobytes() == model.tobytes()


@pytest.mark.invariant("I8")
def test_nothing_is_written_for_zeros(monkeypatch):
    a = xa.create(None, (64, 64), "f8", chunks=(16, 16), sparse=True)
    values = np.zeros((64, 64))
    values[17, 40:60] = -0.0  # not zero in its bytes
    values[63, 63] = np.nan
    written = []
    monkeypatch.setattr(holes, "write_elements", lambda a, box, values: written.append(box))
    write_fresh(a, (slice(0, 64), slice(0, 64)), values)
    assert written == [
        (slice(16, 32), slice(32, 64)),
        (slice(48, 64), slice(48, 64)),
    ]


@pytest.mark.parametrize(
    ("source", "target", "fill", "expected"),
    [
        ("f8", "f4", 0, True),
        ("f8", "f8", 1, False),
        ("f8", "S4", 0, False),  # zero becomes a text
        ("S4", "S9", 0, True),
        ("i4", "?", 0, True),
        ("?", "U5", 0, False),
        ("i8", "M8[s]", 0, True),
    ],
)
def test_zeros_that_stay_zeros(source, target, fill, expected):
    assert keeps_zeros(np.dtype(source), xa.create(None, 3, target, fill_value=fill)) is expected


def test_clearing_reaches_between_fields():
    values = (
        np.full((4, 6), 255, "u1")
        .repeat(16, 1)
        .view(np.dtype({"names": ["a"], "formats": ["i4"], "offsets": [8], "itemsize": 16}))
    )
    clear(values[1:3, ::2])
    raw = values.view("u1").reshape(4, 6, 16)
    assert not raw[1:3, ::2].any()
    assert (raw[1:3, 1::2] == 255).all() and (raw[0] == 255).all() and (raw[3] == 255).all()
