"""Analysis of scenes that grow: what it finds, and that nothing is read again."""

from __future__ import annotations

import subprocess
import sys

import hyperscenes
import numpy as np
import pytest

import extarray as xa
from extarray.apps import hyperspectral as hs
from extarray.errors import ArgumentError, ClosedError, ShapeError


@pytest.fixture(scope="module")
def made():
    return hyperscenes.make(24, 30, 20, 4)


class Counted:
    """A scene of which it is known how often each element was read."""

    def __init__(self, data):
        self.data, self.shape, self.dtype = data, (0, 0, 0), data.dtype
        self.reads = np.zeros(data.shape, int)

    def __getitem__(self, key):
        part = tuple(slice(*s.indices(n)) for s, n in zip(key, self.shape, strict=True))
        return Window(self, part)


class Window:
    """A part of it, read when it is asked for."""

    def __init__(self, scene, part):
        self.scene, self.part, self.dtype = scene, part, scene.dtype
        self.shape = tuple(s.stop - s.start for s in part)

    def __getitem__(self, key):
        bounds = [s.indices(n) for s, n in zip(key, self.shape, strict=True)]
        place = tuple(
            slice(s.start + start, s.start + stop)
            for s, (start, stop, _) in zip(self.part, bounds, strict=True)
        )
        self.scene.reads[place] += 1
        return self.scene.data[place]


STEPS = [(6, 10, 8), (24, 10, 8), (24, 10, 20), (24, 30, 20)]


def test_swaths_and_bands(made):
    scene = Counted(made.data)
    with hs.Growing(scene, 4, max_memory=100_000) as live:
        assert live.count == 0 and not live.update() and live.endmembers.size == 0
        for shape in STEPS:
            new = np.ones(made.data.shape, bool)
            new[tuple(slice(n) for n in scene.shape)] = False
            scene.shape = shape
            there = made.data[tuple(slice(n) for n in shape)]
            before = scene.reads.copy()
            assert live.update() and not live.update()
            assert live.shape == shape and live.count == shape[0] * shape[1]
            x = there.reshape(-1, shape[2])
            np.testing.assert_allclose(live.mean, x.mean(axis=0))
            np.testing.assert_allclose(live.covariance, np.cov(x.T), atol=2e-3 * np.var(x))
            np.testing.assert_array_equal(live.endmembers, there[tuple(live.positions.T)])
            # Of what was seen before, no more than the endmembers is read.
            again = (scene.reads - before > 0) & ~new
            assert set(zip(*again.any(axis=2).nonzero(), strict=True)) <= set(
                map(tuple, live.positions.tolist())
            )
        assert sorted(live.positions.tolist()) == sorted(made.positions.tolist())
        assert (scene.reads > 0).all()


@pytest.mark.parametrize("band_axis", [0, 1, -1])
def test_swaths_cost_no_accuracy(made, band_axis):
    data = np.ascontiguousarray(np.moveaxis(made.data, -1, band_axis))
    rows, columns = sorted({0, 1, 2} - {band_axis % 3})
    part = [slice(None)] * 3
    part[rows], part[columns] = slice(9), slice(7)
    a = xa.from_array(data[tuple(part)], chunks=(5, 6, 7))
    with hs.Growing(a, 4, band_axis=band_axis) as live:
        part[rows] = slice(9, 24)
        a.append(data[tuple(part)], axis=rows)
        part[rows], part[columns] = slice(None), slice(7, 30)
        a.append(data[tuple(part)], axis=columns)
        assert live.update()
        x = made.data.reshape(-1, 20)
        np.testing.assert_allclose(live.covariance, np.cov(x.T), rtol=1e-9, atol=1e-14)
        assert sorted(live.positions.tolist()) == sorted(made.positions.tolist())
        assert live.volume == pytest.approx(hs.nfindr(a, 4, band_axis=band_axis).volume, rel=1e-3)


def test_what_cannot_be_taken_up(made):
    a = xa.from_array(made.data[:, :, :10])
    live = hs.Growing(a, 3)
    a.shrink(axis=0, by=1)
    with pytest.raises(ShapeError, match="begin a new analysis"):
        live.update()
    a.extend(axis=0, by=1)
    a.extend(axis=1, by=1, side="start")
    with pytest.raises(ShapeError, match="begin a new analysis"):
        live.update()
    live.close()
    live.close()
    with pytest.raises(ClosedError):
        live.update()
    assert live.endmembers.shape == (3, 10)
    for p, options in ((1, {}), (3, {"tolerance": 1})):
        with pytest.raises(ArgumentError):
            hs.Growing(a, p, **options)
    with pytest.raises(ShapeError):
        hs.Growing(a[0], 3)


def test_what_is_no_number_is_taken_up_later(made):
    data = made.data.copy()
    data[20, 25, 3] = np.nan
    scene = Counted(data)
    scene.shape = (6, 10, 20)
    with hs.Growing(scene, 4) as live:
        scene.shape = data.shape
        for _ in range(2):  # the rows were taken up, the columns not
            with pytest.raises(ArgumentError, match="no finite numbers"):
                live.update()
            assert live.shape == (24, 10, 20) and live.count == 240
        data[20, 25, 3] = 1.0
        assert live.update() and live.count == 24 * 30
        np.testing.assert_allclose(live.mean, data.mean(axis=(0, 1)))


def test_a_scene_without_variance_has_no_endmembers():
    with hs.Growing(np.ones((4, 5, 6)), 3) as live:
        assert live.count == 20 and len(live.positions) == 0


APPEND = """
import sys, time
import numpy as np
import extarray as xa

data = np.load(sys.argv[1])
with xa.open(sys.argv[2], "r+") as a:
    for shape, axis in (((24, 10, 8), 0), ((24, 10, 20), 2), ((24, 30, 20), 1)):
        new = [slice(n) for n in shape]
        new[axis] = slice(a.shape[axis], shape[axis])
        a.append(data[tuple(new)], axis=axis)
        time.sleep(0.2)
"""


@pytest.mark.slow
@pytest.mark.process
def test_another_process_appends(made, tmp_path):
    np.save(tmp_path / "data.npy", made.data)
    xa.from_array(made.data[:6, :10, :8], tmp_path / "scene", chunks=(4, 4, 4)).close()
    with xa.open(tmp_path / "scene") as a, hs.Growing(a, 4) as live:
        command = [sys.executable, "-c", APPEND, tmp_path / "data.npy", tmp_path / "scene"]
        with subprocess.Popen(command) as writer:
            for state in live.follow(timeout=60, interval=0.02):
                if state.shape == made.data.shape:
                    break
        assert writer.returncode == 0
        x = made.data.reshape(-1, 20)
        np.testing.assert_allclose(live.mean, x.mean(axis=0))
        np.testing.assert_allclose(live.covariance, np.cov(x.T), atol=2e-3 * np.var(x))
        assert sorted(live.positions.tolist()) == sorted(made.positions.tolist())
        assert list(live.follow(timeout=0)) == []
