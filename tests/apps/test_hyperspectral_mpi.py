"""Hyperspectral analysis by several processes: bitwise equal on any number of ranks."""

from __future__ import annotations

import hyperscenes
import numpy as np
import pytest

import extarray as xa

pytest.importorskip("scipy")


@pytest.mark.slow
def test_results_do_not_depend_on_the_ranks(mpirun, tmp_path):
    made = hyperscenes.make(31, 23, 16, 4, noise=0.01)
    xa.from_array(made.data, tmp_path / "scene", chunks=(8, 7, 5)).close()
    printed = [mpirun(ranks, "hyperspectral.py", tmp_path / "scene") for ranks in (1, 2, 3)]
    assert printed[0].count("\n") > 15
    assert printed[1] == printed[0]
    assert printed[2] == printed[0]
    for ranks in (1, 2, 3):
        with xa.open(tmp_path / f"amounts-{ranks}") as amounts:
            assert amounts.shape == (31, 23, 4)
            np.testing.assert_allclose(amounts[...].sum(axis=2), 1)


@pytest.mark.slow
def test_ranks_keep_to_their_memory(mpirun, tmp_path):
    made = hyperscenes.make(150, 130, 90, 4, noise=0.01)
    xa.from_array(made.data.astype("f4"), tmp_path / "scene", chunks=(32, 32, 90)).close()
    assert mpirun(2, "hyperspectral_memory.py", tmp_path / "scene") == "ok\n"
