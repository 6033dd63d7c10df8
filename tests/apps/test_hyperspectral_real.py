"""Hyperspectral analysis of real scenes: tensorly's Indian Pines, others in EXTARRAY_TEST_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import extarray as xa
from extarray.apps import hyperspectral as hs
from extarray.apps import scenes
from extarray.errors import MissingExtraError

loadmat = pytest.importorskip("scipy.io").loadmat
spectral = pytest.importorskip("spectral")
pytestmark = pytest.mark.slow


def published(name):
    """Return the variables of a file in the folder."""
    found = sorted(Path(os.environ.get("EXTARRAY_TEST_DATA", "/nowhere")).rglob(name))
    if not found:
        pytest.skip(f"EXTARRAY_TEST_DATA names no folder with {name}")
    return {key: value for key, value in loadmat(found[0]).items() if key[0] != "_"}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with pytest.importorskip("threadpoolctl").threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def pines():
    try:
        return scenes.load().data
    except MissingExtraError:
        pytest.skip("needs the scene in the package tensorly")


def test_indian_pines(pines, tmp_path):
    truth = np.load(scenes.default_path().with_name("Indian_pines_gt.npy"))
    with xa.from_array(pines, tmp_path / "scene", chunks=(24, 24, 50)) as a:
        found = hs.pct(a, 5, max_memory="8 MiB")
        theirs = spectral.principal_components(pines.astype("f8"))
        np.testing.assert_allclose(found.variances, theirs.eigenvalues[:5])
        assert 15 <= hs.hysime(a) <= 20  # the ground truth has 16 classes
        members = hs.nfindr(a, 8).endmembers
        amounts = np.asarray(hs.abundances(a, members))
        left = np.linalg.norm(pines - amounts @ members) / np.linalg.norm(pines)
        assert left < 0.06
        # Mean spectra of the labels, classified by SPy's angles.
        means = np.stack([pines[truth == c].mean(axis=0) for c in range(1, 17)])
        labels = hs.classify(a, means)
        angles = spectral.spectral_angles(pines.astype("f8"), means)
        np.testing.assert_array_equal(labels, angles.argmin(axis=2) + 1)
        assert 0.4 < hs.accuracy(labels, truth).overall < 0.6


def test_a_memory_map(pines, tmp_path):
    mapped = np.memmap(tmp_path / "pines", pines.dtype, "w+", shape=pines.shape)
    mapped[...] = pines
    found, wanted = hs.ppi(mapped, 200, max_memory="8 MiB"), hs.ppi(pines, 200)
    np.testing.assert_array_equal(found.counts, wanted.counts)


def test_samson():
    known = published("Samson_GT.mat")
    data = published("Samson.mat")["V"].reshape(156, 95, 95, order="F").transpose(1, 2, 0)
    amounts = known["A"].reshape(3, 95, 95, order="F").transpose(1, 2, 0)
    found = hs.abundances(data, known["M"].T, "nnls")
    found /= found.sum(axis=2, keepdims=True)
    assert abs(found - amounts).mean() < 1e-3
    for find in (hs.nfindr, hs.vca):
        pairs = hs.match(find(data, 3).endmembers, known["M"].T)
        assert np.degrees(pairs.angles).mean() < 6


def test_salinas_a():
    (data,) = published("SalinasA_corrected.mat").values()
    (truth,) = published("SalinasA_gt.mat").values()
    classes = np.unique(truth[truth > 0])
    means = np.stack([data[truth == c].mean(axis=0) for c in classes])
    found = hs.accuracy(hs.classify(data, means, classes=classes), truth)
    assert found.overall > 0.75 and found.classes.tolist() == [1, 10, 11, 12, 13, 14]
    assert found.confusion.sum() == 5348
