"""Cold reads are right, and bring in no more of the file than needed.

Appends make no more pages than they write.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from systems import needs_advice

import extarray as xa

SHAPE, CHUNKS = (192, 128, 160), (64, 64, 64)  # chunks of 1 MiB, of float32
PAGE = 4096
#: Selections, and the most bytes of the pages that each needs.
SELECTIONS = {
    "elements": ([(i * 37 % 192, i * 53 % 128, i * 71 % 160) for i in range(40)], 40 * PAGE),
    "points": ([([5, 100, 190], [7, 90, 127], [9, 100, 159])], 3 * PAGE),
    "many points": (
        [tuple(np.random.default_rng(1).integers(0, SHAPE, (400, 3)).T.tolist())],
        400 * PAGE,
    ),
    "planes of a mask": ([np.isin(np.arange(192), [3, 70, 71, 180])], 4 * 6 * 5 * PAGE),
    "planes of a list": ([[180, 3, 71, 70]], 4 * 6 * 5 * PAGE),
    "rows and columns": ([np.s_[[9, 80, 150], :, 3]], 9 * 64 * PAGE),
    "a small box": ([np.s_[60:70, 60:70, 60:70]], 8 * 6 * 2 * PAGE),
    "a box": ([np.s_[30:94, 30:94, 30:94]], 8 * 34 * 4 * PAGE),
    "whole chunks": ([np.s_[64:128, :64, 64:128], np.s_[:64, 64:, :64]], 2 << 20),
    "a plane": ([np.s_[100]], 6 * 5 * PAGE),
    "a plane along the first axis": ([np.s_[:, 100]], 9 * 64 * PAGE),
    "planes here and there": ([np.s_[::16, ::5, ::3]], 12 * 6 * 5 * PAGE),
    "backwards": ([np.s_[::-16, ::-5, ::-3]], 12 * 6 * 5 * PAGE),
}


def brought() -> int:
    """Return the bytes that the disk has given to this process."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["read_bytes"])


def forget(path: Path) -> None:
    """Drop a file from the system's cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.fixture(scope="module")
def model():
    return np.random.default_rng(5).random(SHAPE, np.float32)


@pytest.fixture(scope="module", params=["C", "F", "H"])
def stored(request, model, tmp_path_factory):
    """An array that has grown along all axes."""
    path = tmp_path_factory.mktemp("cold") / "a"
    with xa.create(path, (64, 64, 64), "f4", chunks=CHUNKS, order=request.param) as array:
        array.resize((192, 64, 64))
        array.resize((192, 64, 160))
        array.resize(SHAPE)
        array[...] = model
    return path


@needs_advice
@pytest.mark.parametrize("engine", ["mmap", "pread"])
@pytest.mark.parametrize("name", SELECTIONS)
def test_the_elements(stored, model, name, engine):
    selections, _ = SELECTIONS[name]
    forget(stored.with_suffix(".xta"))
    with xa.open(stored, engine=engine) as array:
        for selection in selections:
            np.testing.assert_array_equal(array[selection], model[selection])


@pytest.mark.invariant("I12")
@pytest.mark.thread_unsafe  # counts the reads of the process
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what is read")
@pytest.mark.parametrize("engine", ["mmap", "pread"])
@pytest.mark.parametrize("name", SELECTIONS)
def test_nothing_else_is_brought(tmp_path, model, name, engine):
    selections, needed = SELECTIONS[name]
    with xa.create(tmp_path / "a", SHAPE, "f4", chunks=CHUNKS) as array:
        array[...] = model
    file = tmp_path / "a.xta"
    forget(file)
    before = brought()
    file.read_bytes()
    if brought() - before < model.nbytes // 2:
        pytest.skip("this file system has no disk behind it, or does not forget")
    forget(file)
    with xa.open(tmp_path / "a", engine=engine) as array:
        before = brought()
        for selection in selections:
            array[selection]
        # This includes the metadata, and pages of code touched for the first time.
        assert brought() - before <= 1.5 * needed + (1 << 18)


@pytest.mark.thread_unsafe  # counts the faults of the process
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count page faults otherwise")
def test_pages_of_small_boxes_are_asked_for_together(tmp_path, model):
    with xa.create(tmp_path / "a", SHAPE, "f4", chunks=CHUNKS) as array:
        array[...] = model
    forget(tmp_path / "a.xta")
    with xa.open(tmp_path / "a", engine="mmap") as array:
        array[0, 0, 0]
        resource = pytest.importorskip("resource")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
        for i in range(4, 180, 40):
            array[i : i + 10, 70:80, 100:110]
        # Each box lies in 10 pages or more; no load may have to bring one in.
        assert resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before < 25


# -- appends -------------------------------------------------------------------------------------


def cached(path: Path) -> int:
    """Return how many bytes of a file are in the system's cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    size = path.stat().st_size
    with open(path, "rb") as file:
        window = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        first = ctypes.c_char.from_buffer(window)
        try:
            place = ctypes.c_void_p(ctypes.addressof(first))
            assert libc.mincore(place, ctypes.c_size_t(size), pages) == 0
        finally:
            del first
            window.close()
    return sum(page & 1 for page in pages) * mmap.PAGESIZE


FRAME = (256, 384)


@pytest.mark.invariant("I12")
@pytest.mark.skipif(sys.platform != "linux", reason="mincore tells of the system's cache on Linux")
@pytest.mark.parametrize("chunks", [(16, 128, 128), (32, 256, 96), (7, 100, 384), None], ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"sparse": True}, {"engine": "pread"}, {"growth": "doubling"}], ids=str
)
@pytest.mark.parametrize("side", ["end", "start"])
def test_an_append_makes_the_pages_that_it_writes(tmp_path, options, chunks, side):
    rng = np.random.default_rng(3)
    frames = rng.integers(0, 60000, (40, *FRAME)).astype("u2")
    with xa.create(tmp_path / "a", (0, *FRAME), "u2", chunks=chunks, **options) as array:
        for i in range(len(frames)):
            array.append(frames[i : i + 1], side=side)
            if i in (0, 20):
                # A part of a chunk may begin and end inside a page.
                n_parts = array.axial.size // array.axial.grid[0]
                written = frames[: i + 1].nbytes + 2 * (i + 1) * n_parts * mmap.PAGESIZE
                assert cached(tmp_path / "a.xta") <= written
        model = frames if side == "end" else frames[::-1]
        np.testing.assert_array_equal(array[...], model)
        array[3:30, 5:200, 7:300] = 5
        assert (array[3:30, 5:200, 7:300] == 5).all()
    with xa.open(tmp_path / "a") as array:
        model = model.copy()
        model[3:30, 5:200, 7:300] = 5
        np.testing.assert_array_equal(array[...], model)
