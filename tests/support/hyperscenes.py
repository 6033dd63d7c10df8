"""Hyperspectral scenes with known endmembers and abundances."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Made", "make"]


class Made(NamedTuple):
    data: np.ndarray  # (rows, columns, bands)
    endmembers: np.ndarray  # (p, bands)
    abundances: np.ndarray  # (rows, columns, p)
    positions: np.ndarray  # (p, 2): one pure pixel each


def make(rows=40, columns=50, bands=30, p=4, noise=1e-3, seed=0, smooth=False) -> Made:
    """Mix p spectra with noise; the pixels in `positions` are pure."""
    rng = np.random.default_rng(seed)
    endmembers = 1 + np.abs(np.cumsum(rng.normal(0, 0.2, (p, bands)), axis=1))
    endmembers += rng.random((p, bands))
    amounts = rng.dirichlet(np.full(p, 0.8), (rows, columns))
    if smooth:
        amounts = np.repeat(np.repeat(amounts[::5, ::5], 5, axis=0), 5, axis=1)[:rows, :columns]
    pixels = rng.choice(rows * columns, p, replace=False)
    positions = np.stack(np.divmod(pixels, columns), axis=1)
    amounts[positions[:, 0], positions[:, 1]] = np.eye(p)
    data = amounts @ endmembers + rng.normal(0, noise, (rows, columns, bands))
    return Made(data, endmembers, amounts, positions)
