"""What is not in the system's cache is read right, and brings no more of the file than it needs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import extarray as xa

SHAPE, CHUNKS = (192, 128, 160), (64, 64, 64)  # chunks of 1 MiB, of float32
PAGE = 4096
#: Selections, and the pages that each needs: at most so many bytes.
SELECTIONS = {
    "elements": ([(i * 37 % 192, i * 53 % 128, i * 71 % 160) for i in range(40)], 40 * PAGE),
    "points": ([([5, 100, 190], [7, 90, 127], [9, 100, 159])], 3 * PAGE),
    "a small box": ([np.s_[60:70, 60:70, 60:70]], 8 * 6 * 2 * PAGE),
    "a box": ([np.s_[30:94, 30:94, 30:94]], 8 * 34 * 4 * PAGE),
    "whole chunks": ([np.s_[64:128, :64, 64:128], np.s_[:64, 64:, :64]], 2 << 20),
    "a plane": ([np.s_[100]], 6 * 5 * PAGE),
    "a plane along the first axis": ([np.s_[:, 100]], 9 * 64 * PAGE),
    "planes here and there": ([np.s_[::16, ::5, ::3]], 12 * 6 * 5 * PAGE),
    "backwards": ([np.s_[::-16, ::-5, ::-3]], 12 * 6 * 5 * PAGE),
}


def brought() -> int:
    """Bytes that the disk has given to this process."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["read_bytes"])


def forget(path: Path) -> None:
    """Have nothing of a file in the system's cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.fixture(scope="module")
def model():
    return np.random.default_rng(5).random(SHAPE, np.float32)


@pytest.fixture(scope="module", params=["C", "F", "H"])
def stored(request, model, tmp_path_factory):
    """An array, which has grown along all axes."""
    path = tmp_path_factory.mktemp("cold") / "a"
    with xa.create(path, (64, 64, 64), "f4", chunks=CHUNKS, order=request.param) as array:
        array.resize((192, 64, 64))
        array.resize((192, 64, 160))
        array.resize(SHAPE)
        array[...] = model
    return path


@pytest.mark.parametrize("engine", ["mmap", "pread"])
@pytest.mark.parametrize("name", SELECTIONS)
def test_the_elements(stored, model, name, engine):
    selections, _ = SELECTIONS[name]
    forget(stored.with_suffix(".xta"))
    with xa.open(stored, engine=engine) as array:
        for selection in selections:
            np.testing.assert_array_equal(array[selection], model[selection])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts what is read")
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
        # The metadata, and the pages of code that are met for the first time, are among it.
        assert brought() - before <= 1.5 * needed + (1 << 18)
