"""Analysis of growing scenes: its results, and that it reads nothing twice."""

from __future__ import annotations

import subprocess
import sys

import hyperscenes
import numpy as np
import pytest

import extarray as xa
from extarray.apps import hyperspectral as hs
from extarray.apps.hyperspectral_pixels import Raster
from extarray.errors import ArgumentError, ClosedError, ShapeError


@pytest.fixture(scope="module")
def made():
    return hyperscenes.make(24, 30, 20, 4)


class Counted:
    """A scene that counts the reads of each element."""

    def __init__(self, data):
        self.data, self.shape, self.dtype = data, (0, 0, 0), data.dtype
        self.reads = np.zeros(data.shape, int)
        self.allowed = None  # reads until one fails

    def __getitem__(self, key):
        place = tuple(slice(*s.indices(n)) for s, n in zip(key, self.shape, strict=True))
        self.reads[place] += 1
        if self.allowed is not None:
            self.allowed -= 1
            if self.allowed < 0:
                raise OSError("as a test")
        return self.data[place]


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
            # New elements are read once and old ones never, except for endmembers.
            reads = scene.reads - before
            reads[tuple(live.positions.T)] = 0
            new[tuple(live.positions.T)] = False
            np.testing.assert_array_equal(
                reads[tuple(map(slice, shape))], new[tuple(map(slice, shape))]
            )
        assert sorted(live.positions.tolist()) == sorted(made.positions.tolist())


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


def test_a_scene_without_variance_has_no_endmembers():
    with hs.Growing(np.ones((4, 5, 6)), 3) as live:
        assert live.count == 20 and len(live.positions) == 0


# -- pixels without data ---------------------------------------------------------------------------


def same(live, data, there):
    """Compare the statistics with those of the remaining pixels, after swaths alone."""
    x = data[there]
    assert live.count == len(x)
    np.testing.assert_allclose(live.mean, x.mean(axis=0))
    np.testing.assert_allclose(live.covariance, np.cov(x.T), rtol=1e-9, atol=1e-12)
    assert there[tuple(live.positions.T)].all()
    np.testing.assert_array_equal(live.endmembers, data[tuple(live.positions.T)])


@pytest.mark.parametrize("max_memory", [60_000, None])
def test_pixels_without_data_stop_nothing(made, max_memory):
    data = made.data.copy()
    there = np.ones(data.shape[:2], bool)
    for row, column in ((0, 0), (5, 9), (6, 2), (21, 25), (23, 29)):
        there[row, column] = False
        data[row, column, 3] = np.nan
    there[10:12] = False  # a whole swath
    data[10:12, :, 5] = np.inf
    scene = Counted(data)
    with hs.Growing(scene, 4, max_memory=max_memory) as live:
        for rows, columns in ((6, 10), (10, 10), (12, 10), (24, 10), (24, 30)):
            scene.shape = rows, columns, 20
            assert live.update() and not live.update()
            same(live, data[:rows, :columns], there[:rows, :columns])
        assert sorted(live.positions.tolist()) == sorted(made.positions.tolist())


def test_the_first_swath_may_be_without_data(made):
    data = made.data.copy()
    data[:5] = np.nan
    scene = Counted(data)
    scene.shape = 5, 30, 8
    with hs.Growing(scene, 4) as live:
        assert live.count == 0 and live.mean.tolist() == [0] * 8
        scene.shape = 5, 30, 20
        assert live.update() and live.count == 0 and live.mean.shape == (20,)
        scene.shape = data.shape
        assert live.update()
        there = np.repeat(np.arange(24) >= 5, 30).reshape(24, 30)
        same(live, data, there)


def test_bands_without_data_end_pixels(made):
    data = made.data.copy()
    there = np.ones(data.shape[:2], bool)
    data[2, 3, 1] = np.nan  # in the first bands
    scene = Counted(data)
    scene.shape = 24, 30, 12
    with hs.Growing(scene, 4, max_memory=60_000) as live:
        first = tuple(live.positions[0].tolist())
        for place in ((2, 3), (7, 7), (8, 7), first):  # one is an endmember
            there[place] = False
            data[*place, 15] = np.nan
        scene.shape = data.shape
        assert live.update()
        x = data[there]
        assert live.count == len(x)
        np.testing.assert_allclose(live.mean, x.mean(axis=0))
        np.testing.assert_allclose(live.covariance, np.cov(x.T), atol=2e-3 * np.var(x))
        np.testing.assert_allclose(live.covariance[:12, :12], np.cov(x[:, :12].T))
        np.testing.assert_allclose(live.covariance[12:, 12:], np.cov(x[:, 12:].T))
        assert there[tuple(live.positions.T)].all()
        np.testing.assert_array_equal(live.endmembers, data[tuple(live.positions.T)])
        wanted = hs.nfindr(data, 4)
        assert live.volume == pytest.approx(wanted.volume, rel=1e-2)
        # A band without data ends all pixels.
        data = np.concatenate([data, np.full((24, 30, 1), np.nan)], axis=2)
        scene.data, scene.reads, scene.shape = data, np.zeros(data.shape, int), data.shape
        assert live.update() and live.count == 0 and len(live.positions) == 0


def test_a_mask_grows_before_the_scene(made):
    a, mask = xa.from_array(made.data[:10]), xa.zeros((10, 30), bool)
    mask[3, 4:9] = True
    with hs.Growing(a, 4, mask=mask) as live:
        a.append(made.data[10:])
        with pytest.raises(ShapeError, match=r"rows and columns of the scene, \(24, 30\)"):
            live.update()
        mask.append(np.eye(20, 30, dtype=bool))  # more rows than the scene has
        assert live.update()
        same(live, made.data, ~mask[:24])


# -- failures, and the cost of an update -----------------------------------------------------------


def state(live):
    return (live.shape, live.count, live.volume, *map(bytes, (live.covariance, live.positions)))


@pytest.mark.parametrize("shape", [(24, 10, 12), (15, 30, 12), (15, 10, 20)])
@pytest.mark.parametrize("reads", [0, 3, 9])
def test_what_cannot_be_read_is_taken_up_later(made, shape, reads):
    scene = Counted(made.data)
    scene.shape = 15, 10, 12
    with (
        hs.Growing(scene, 4, max_memory=30_000) as live,
        hs.Growing(scene, 4, max_memory=30_000) as other,
    ):
        before = state(live)
        scene.shape, scene.allowed = shape, reads
        with pytest.raises(OSError, match="as a test"):
            live.update()
        scene.allowed = None
        assert state(live) == before
        assert live.update() and other.update()
        assert state(live) == state(other)
        np.testing.assert_array_equal(live._scores, other._scores)


def test_an_update_costs_what_is_new(made, monkeypatch):
    """Count the elements read from the scene and from its scores."""
    elements = []
    whole = Raster.read

    def read(self, *box):
        found = whole(self, *box)
        elements.append(found[0].size)
        return found

    monkeypatch.setattr(Raster, "read", read)
    rng = np.random.default_rng(0)
    costs = []
    for rows in (96, 512):
        amounts = rng.dirichlet(np.ones(4), (rows + 16, 30))
        data = amounts @ made.endmembers + rng.normal(0, 1e-3, (rows + 16, 30, 20))
        a = xa.from_array(data[:rows], chunks=(8, 30, 20))
        with hs.Growing(a, 4) as live:
            for k in range(2):
                elements.clear()
                a.append(data[rows + 8 * k : rows + 8 * k + 8])
                assert live.update()
                costs.append(sum(elements))
    # Sweeps over the new pixels in three components vary; a sweep over all costs far more.
    assert max(costs) - min(costs) <= 10 * 8 * 30 * 3


def test_old_and_new_pixels_share_the_simplex():
    """Later, purer pixels displace the first ones little by little."""
    made = hyperscenes.make(80, 30, 20, 4)
    amounts = 0.25 + 0.7 * (made.abundances - 0.25)
    data = amounts @ made.endmembers
    late = [(75, 3), (76, 9), (77, 20), (79, 29)]
    for place, spectrum in zip(late, made.endmembers, strict=True):
        data[place] = spectrum
    a = xa.from_array(data[:73], chunks=(8, 30, 20))
    with hs.Growing(a, 4) as live:
        for row in range(73, 80):
            a.append(data[row : row + 1])
            assert live.update()
            scores = (data[: row + 1].reshape(-1, 20) - live.mean) @ np.linalg.eigh(
                live.covariance
            )[1][:, -3:]
            vertices = np.hstack([np.ones((4, 1)), scores[live.positions @ [30, 1]]])
            assert abs(np.linalg.det(vertices)) / 6 == pytest.approx(live.volume)
        assert sorted(map(tuple, live.positions.tolist())) == late
        assert live.volume == pytest.approx(hs.nfindr(a, 4).volume)


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
